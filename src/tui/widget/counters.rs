//! Desired, current, ready, available, up-to-date as five numbers in a row. Equal ones are quiet,
//! so that the one that differs is seen.

use ratatui::text::{Line, Span};

use crate::fleet::Counters;
use crate::tui::paint::Paint;
use crate::tui::theme::Scope;

/// Column headings over [`cell`], for numbers of `digits` digits.
#[must_use]
pub fn heading(digits: usize) -> String {
    ["D", "C", "R", "A", "U"].map(|letter| format!("{letter:>digits$}")).join(" ")
}

/// Cells that [`cell`] takes.
#[must_use]
pub fn width(digits: usize) -> u16 {
    u16::try_from(5 * digits + 4).unwrap_or(u16::MAX)
}

/// Digits of the largest number in it; at least 1.
#[must_use]
pub fn digits(counters: &Counters) -> usize {
    let largest = numbers(counters).into_iter().flatten().max().unwrap_or(0);
    largest.checked_ilog10().unwrap_or(0) as usize + 1
}

fn numbers(c: &Counters) -> [Option<u32>; 5] {
    [c.desired, c.current, c.ready, c.available, c.up_to_date]
}

/// The five numbers, each `digits` wide; a dash where the object does not say.
#[must_use]
pub fn cell(counters: &Counters, digits: usize, paint: &Paint<'_>) -> Line<'static> {
    let none = paint.glyphs().none;
    let mut spans = Vec::with_capacity(9);
    for (at, number) in numbers(counters).into_iter().enumerate() {
        if at > 0 {
            spans.push(Span::raw(" "));
        }
        let scope = match (at, number, counters.desired) {
            (0, Some(_), _) => Scope::Text,
            (_, Some(n), Some(desired)) if n < desired => Scope::CounterShort,
            (_, Some(n), Some(desired)) if n > desired => Scope::CounterOver,
            _ => Scope::Muted,
        };
        let text = number.map_or_else(|| none.to_owned(), |n| n.to_string());
        spans.push(paint.span(scope, format!("{text:>digits$}")));
    }
    Line::from(spans)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;
    use crate::tui::theme::{Theme, Tier};

    #[test]
    fn numbers_stand_under_their_letters() {
        let theme = Theme::load("default", None, Tier::None, true).expect("shipped");
        let paint = Paint::new(&theme, Timestamp::default());
        let counters = Counters { desired: Some(10), current: Some(9), ready: None, ..Counters::default() };
        assert_eq!(digits(&counters), 2);
        assert_eq!(heading(2), " D  C  R  A  U");
        assert_eq!(cell(&counters, 2, &paint).to_string(), "10  9  -  -  -");
        assert_eq!(usize::from(width(2)), heading(2).len());
    }
}
