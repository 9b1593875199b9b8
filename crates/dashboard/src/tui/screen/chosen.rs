//! The rows of a list that a person marked, so that one action is asked for on all of them. Owns which they are; must not know
//! what is done with them.

use std::collections::BTreeSet;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::fleet::{Fleet, Row, RowId, SourceId, Uid};
use crate::tui::paint::Paint;
use crate::tui::theme::Scope;

/// Marked objects, whether or not they are on the screen.
#[derive(Clone, Debug, Default)]
pub struct Chosen(BTreeSet<(SourceId, Uid)>);

impl Chosen {
    /// Marks what is not marked, and the other way round.
    pub fn toggle(&mut self, row: &Row) {
        let key = (row.source, row.uid);
        if !self.0.remove(&key) {
            self.0.insert(key);
        }
    }

    /// Marks all of these; nothing is marked any more where all of them were.
    pub fn toggle_all<'a>(&mut self, rows: impl Iterator<Item = &'a Row>) {
        let keys: BTreeSet<(SourceId, Uid)> = rows.map(|row| (row.source, row.uid)).collect();
        if keys.is_subset(&self.0) {
            self.0.retain(|key| !keys.contains(key));
        } else {
            self.0.extend(keys);
        }
    }

    /// Nothing is marked any more. Answers whether anything was.
    pub fn clear(&mut self) -> bool {
        !std::mem::take(&mut self.0).is_empty()
    }

    /// Those that are still there.
    pub fn rows(&self, fleet: &Fleet) -> Vec<RowId> {
        self.0.iter().filter_map(|(source, uid)| fleet.find(*source, *uid)).collect()
    }

    pub fn has(&self, row: &Row) -> bool {
        !self.0.is_empty() && self.0.contains(&(row.source, row.uid))
    }

    /// Draws the mark at the beginning of a line, over the cursor's glyph.
    pub fn view(&self, row: &Row, line: Rect, paint: &Paint<'_>, buffer: &mut Buffer) {
        if self.has(row) && line.width > 0 {
            buffer.set_stringn(line.x, line.y, paint.glyphs().chosen, 1, paint.style(Scope::Match));
        }
    }
}
