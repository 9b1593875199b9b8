//! Numbers of replicas in a row, the wanted one first. Equal ones are quiet, so that the one that differs is seen.

use ratatui::text::{Line, Span};

use crate::tui::paint::Paint;
use crate::tui::theme::Scope;

/// Column headings over [`cell`], for numbers of `digits` digits.
#[must_use]
pub fn heading(letters: &[char], digits: usize) -> String {
    letters.iter().map(|letter| format!("{letter:>digits$}")).collect::<Vec<_>>().join(" ")
}

/// Cells that so many numbers take.
#[must_use]
pub fn width(count: usize, digits: usize) -> usize {
    (count * (digits + 1)).saturating_sub(1)
}

/// Digits of the largest number; at least 1.
#[must_use]
pub fn digits(numbers: &[Option<u32>]) -> usize {
    let largest = numbers.iter().flatten().max().copied().unwrap_or(0);
    largest.checked_ilog10().unwrap_or(0) as usize + 1
}

/// How a number looks beside the wanted one.
#[must_use]
pub fn scope(number: Option<u32>, wanted: Option<u32>) -> Scope {
    match (number, wanted) {
        (Some(n), Some(wanted)) if n < wanted => Scope::CounterShort,
        (Some(n), Some(wanted)) if n > wanted => Scope::CounterOver,
        _ => Scope::Muted,
    }
}

/// The numbers, each `digits` wide; a dash where the object does not say.
#[must_use]
pub fn cell(numbers: &[Option<u32>], digits: usize, paint: &Paint<'_>) -> Line<'static> {
    let none = paint.glyphs().none;
    let wanted = numbers.first().copied().flatten();
    let mut spans = Vec::with_capacity(2 * numbers.len());
    for (at, number) in numbers.iter().enumerate() {
        if at > 0 {
            spans.push(Span::raw(" "));
        }
        let scope = if at == 0 && number.is_some() { Scope::Text } else { scope(*number, wanted) };
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
        let numbers = [Some(10), Some(9), None, None, None];
        assert_eq!(digits(&numbers), 2);
        assert_eq!(heading(&['D', 'C', 'R', 'A', 'U'], 2), " D  C  R  A  U");
        assert_eq!(cell(&numbers, 2, &paint).to_string(), "10  9  -  -  -");
        assert_eq!(width(5, 2), 14);
        assert_eq!(width(0, 2), 0);
    }
}
