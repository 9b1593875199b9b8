//! What the two screens that list objects have in common: the list of clusters, and the tree below a cluster. Must not know
//! which of the two it is.

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

    /// Does the body have room for a wide column?
    fn shows_wide(&self, body: Rect) -> bool;

    /// The layout with a pane or a higher foot where there is room. Wide columns take the room of the pane.
    fn arrange(&self, layout: Layout) -> Layout;
}
