//! The locks of a server or of a workload cluster: who holds each Lease and whether the holder lives, who runs which
//! controller, what is odd, who held what before. Owns the scroll position; must not watch Leases, and offers nothing to
//! do to them.

mod feed;
mod migration;
mod migration_text;
mod table_text;
mod text;

use ratatui::buffer::Buffer;

pub use feed::LockFeed;
pub use migration::MigrationScreen;

use super::{Context, foot};
use crate::fleet::Fleet;
use crate::tui::cursor::{Motion, Scroll};
use crate::tui::layout::{Layout, layout};
use crate::tui::paint::{Paint, put};

pub struct LocksScreen {
    pub feed: LockFeed,
    scroll: Scroll,
}

impl LocksScreen {
    pub fn of(feed: LockFeed) -> Self {
        Self { feed, scroll: Scroll::default() }
    }

    pub fn title(&self) -> String {
        format!("locks of {}", self.feed.name())
    }

    pub fn step(&mut self, context: &Context<'_>, motion: Motion) {
        let Some(parts) = layout(context.area) else { return };
        let paint = Paint::new(context.theme, context.now);
        let lines = text::page(&self.feed, &paint, usize::from(parts.body.width)).len();
        self.scroll.step(motion, lines, usize::from(parts.body.height));
    }

    pub fn view(&self, fleet: &Fleet, paint: &Paint<'_>, layout: &Layout, buffer: &mut Buffer) {
        paint.rule(layout.rule, buffer);
        let (body, page) = (layout.body, usize::from(layout.body.height));
        let lines = text::page(&self.feed, paint, usize::from(body.width));
        let first = self.scroll.clamped(lines.len(), page);
        for (y, line) in (body.y..body.bottom()).zip(lines.iter().skip(first)) {
            put(buffer, body.x + 2, y, line, body.width.saturating_sub(3));
        }
        foot::view(None, false, None, fleet, paint, layout, buffer);
        foot::position(first, page, lines.len(), paint, layout, buffer);
    }
}
