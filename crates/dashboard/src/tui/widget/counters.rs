//! Numbers of replicas: available of wanted ones, or upstream's in a row with the wanted one first. Equal ones are quiet, so
//! that the one that differs is seen.

use ratatui::text::{Line, Span};

use crate::fleet::{Counters, Verdict};
use crate::tui::paint::Paint;
use crate::tui::theme::Scope;
use capi_types::condition::Status;
use capstan_base::text;

/// Available of wanted replicas (`2/3`), or all that there are while there are more than wanted (`4/3`); in thousands when
/// there is no room for all digits. A dash when the object does not say how many are wanted.
pub fn have_want(counters: Counters, room: usize, paint: &Paint<'_>) -> Line<'static> {
    let Some(want) = counters.desired else {
        return Line::from(paint.span(Scope::Muted, paint.glyphs().none));
    };
    let have = have(counters, want);
    let exact = format!("{have}/{want}");
    let text = if exact.len() <= room { exact } else { format!("{}/{}", short(have), short(want)) };
    Line::from(paint.span(scope(Some(have), Some(want)), text))
}

fn have(counters: Counters, want: u32) -> u32 {
    let available = counters.available.or(counters.ready).or(counters.current).unwrap_or(0);
    if available < want { available } else { counters.current.unwrap_or(available).max(available) }
}

fn short(number: u32) -> String {
    if number < 1_000 { number.to_string() } else { format!("{}k", number / 1_000) }
}

/// Column headings over [`cell`], for numbers of `digits` digits.
pub fn heading(letters: &[char], digits: usize) -> String {
    letters.iter().map(|letter| format!("{letter:>digits$}")).collect::<Vec<_>>().join(" ")
}

/// Cells that so many numbers take.
pub fn width(count: usize, digits: usize) -> usize {
    (count * (digits + 1)).saturating_sub(1)
}

/// How a number looks beside the wanted one.
pub fn scope(number: Option<u32>, wanted: Option<u32>) -> Scope {
    match (number, wanted) {
        (Some(n), Some(wanted)) if n < wanted => Scope::CounterShort,
        (Some(n), Some(wanted)) if n > wanted => Scope::CounterOver,
        _ => Scope::Muted,
    }
}

/// The letters of the numbers of replicas: desired, current, ready, available, up to date.
pub const LETTERS: [char; 5] = ['D', 'C', 'R', 'A', 'U'];

/// The numbers of an owner under [`LETTERS`].
pub fn of_owner(counters: Counters, digits: usize, paint: &Paint<'_>) -> Line<'static> {
    let Counters { desired, current, ready, available, up_to_date } = counters;
    cell(&[desired, current, ready, available, up_to_date], digits, paint)
}

/// Which of them count one Machine, under the same letters: whether it is ready, available and up to date. A dash where
/// it does not say.
pub fn of_machine(states: [Option<Status>; 3], digits: usize, paint: &Paint<'_>) -> Line<'static> {
    let mut spans = vec![Span::raw(" ".repeat(2 * (digits + 1)))];
    for (at, state) in states.into_iter().enumerate() {
        let (glyph, scope) = match state {
            Some(Status::True) => (paint.verdict_glyph(Verdict::Ok), Scope::Muted),
            Some(Status::False) => (paint.verdict_glyph(Verdict::Degraded), Scope::CounterShort),
            Some(Status::Unknown) => (paint.verdict_glyph(Verdict::Unknown), Scope::Unknown),
            None => (paint.glyphs().none, Scope::Muted),
        };
        let gap = usize::from(at > 0) + digits.saturating_sub(text::width(glyph));
        spans.push(Span::raw(" ".repeat(gap)));
        spans.push(paint.span(scope, glyph));
    }
    Line::from(spans)
}

/// The numbers, each `digits` wide; a dash where the object does not say.
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
    use crate::tui::theme::{Theme, Tier};
    use capstan_base::time::Timestamp;

    #[test]
    fn numbers_stand_under_their_letters() {
        let theme = Theme::load("default", None, Tier::None, true).expect("shipped");
        let paint = Paint::new(&theme, Timestamp::default());
        let numbers = [Some(10), Some(9), None, None, None];
        assert_eq!(heading(&['D', 'C', 'R', 'A', 'U'], 2), " D  C  R  A  U");
        assert_eq!(cell(&numbers, 2, &paint).to_string(), "10  9  -  -  -");
        assert_eq!(width(5, 2), 14);
        assert_eq!(width(0, 2), 0);
    }

    #[test]
    fn a_machine_stands_under_the_letters_of_its_owner() {
        let theme = Theme::load("default", None, Tier::None, true).expect("shipped");
        let paint = Paint::new(&theme, Timestamp::default());
        let machine = |states, digits| of_machine(states, digits, &paint).to_string();
        assert_eq!(heading(&LETTERS, 1), "D C R A U");
        assert_eq!(machine([Some(Status::True), Some(Status::False), Some(Status::Unknown)], 1), "    + x ?");
        assert_eq!(heading(&LETTERS, 2), " D  C  R  A  U");
        assert_eq!(machine([Some(Status::True), None, None], 2), "       +  -  -");
    }

    #[test]
    fn what_there_is_of_what_is_wanted() {
        let theme = Theme::load("default", None, Tier::Ansi16, true).expect("shipped");
        let paint = Paint::new(&theme, Timestamp::default());
        let counters = |desired, current, available| Counters {
            desired,
            current: Some(current),
            available,
            ..Counters::default()
        };
        for (counters, room, text, scope) in [
            (counters(Some(3), 3, Some(3)), 7, "3/3", Scope::Muted),
            (counters(Some(3), 4, Some(3)), 7, "4/3", Scope::CounterOver),
            (counters(Some(3), 4, Some(2)), 7, "2/3", Scope::CounterShort),
            (counters(Some(1), 0, None), 7, "0/1", Scope::CounterShort),
            (counters(None, 2, Some(2)), 7, "-", Scope::Muted),
            (counters(Some(1_000), 1_000, Some(998)), 9, "998/1000", Scope::CounterShort),
            (counters(Some(1_000), 1_000, Some(998)), 7, "998/1k", Scope::CounterShort),
        ] {
            let line = have_want(counters, room, &paint);
            assert_eq!(
                (line.to_string().as_str(), line.spans[0].style),
                (text, paint.style(scope)),
                "{counters:?}"
            );
        }
    }
}
