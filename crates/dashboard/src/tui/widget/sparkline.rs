//! How many clusters were at fault, part by part of the past, a cell each: higher where more were. Without the characters for that
//! the number itself; a blank where no dashboard ran.

use ratatui::text::Span;

use crate::fleet::Faults;
use crate::tui::paint::Paint;
use crate::tui::theme::Scope;

/// The cells, the oldest first.
pub fn cells(parts: &[Faults], paint: &Paint<'_>) -> Vec<Span<'static>> {
    let most = parts.iter().filter_map(count).max().unwrap_or(0);
    parts.iter().map(|part| cell(part, most, paint)).collect()
}

/// The most that were at fault in any part.
pub fn most(parts: &[Faults]) -> Option<usize> {
    parts.iter().filter_map(count).max()
}

fn count(part: &Faults) -> Option<usize> {
    match part {
        Faults::Unknown => None,
        Faults::Most(count) => Some(*count),
    }
}

fn cell(part: &Faults, most: usize, paint: &Paint<'_>) -> Span<'static> {
    let scope = |count: usize| if count == 0 { Scope::Ok } else { Scope::Degraded };
    match (count(part), paint.glyphs().levels) {
        (None, _) => Span::raw(" "),
        (Some(0), Some([none, ..])) => paint.span(scope(0), none),
        (Some(count), Some(levels)) => {
            let above = levels.len() - 1;
            paint.span(scope(count), levels[(count * above).div_ceil(most.max(1)).min(above)])
        }
        (Some(count), None) if count > 9 => paint.span(scope(count), "+"),
        (Some(count), None) => paint.span(scope(count), count.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::theme::{Theme, Tier};
    use capstan_base::time::Timestamp;

    #[test]
    fn cells_are_higher_where_more_were_at_fault() {
        let parts = [Faults::Unknown, Faults::Most(0), Faults::Most(1), Faults::Most(4), Faults::Most(12)];
        for (ascii, expected) in [(false, " ⣀⣤⣤⣿"), (true, " 014+")] {
            let theme = Theme::load("default", None, Tier::None, ascii).expect("shipped");
            let paint = Paint::new(&theme, Timestamp::default());
            let text: String = cells(&parts, &paint).iter().map(|span| span.content.to_string()).collect();
            assert_eq!(text, expected);
        }
        assert_eq!((most(&parts), most(&parts[..1])), (Some(12), None));
    }
}
