//! What screens have in common that list objects: the clusters, and what stands below one. Must not know which of them it is.

use ratatui::layout::Rect;

use super::Context;
use super::chosen::Chosen;
use crate::fleet::RowId;
use crate::tui::layout::Layout;

pub trait ObjectList {
    /// The marked objects.
    fn chosen(&self) -> &Chosen;

    fn chosen_mut(&mut self) -> &mut Chosen;

    /// The objects of the list, on the screen or not.
    fn listed(&self) -> Vec<RowId>;

    /// Shows everything, or only what is at fault.
    fn toggle_faults(&mut self);

    /// Goes to the next object that is at fault, or the one before. False when there is none.
    fn go_to_fault(&mut self, context: &Context<'_>, forward: bool) -> bool;

    /// Has any wide column a place?
    fn shows_wide(&self, body: Rect) -> bool;

    /// A pane or a higher foot where there is room: wide columns need that of the pane.
    fn arrange(&self, layout: Layout) -> Layout;
}
