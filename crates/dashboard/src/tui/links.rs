//! Which cells of a frame lead to an address of the web. A style carries the number of its address in the colour of the underline, which
//! nothing else uses, so that wrapping, cutting, scrolling and what lies over it need not know of links. The terminal turns the numbers
//! into links, or leaves them out. Must not know screens.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::hash::{Hash as _, Hasher as _};
use std::ops::Range;

use ratatui::buffer::Cell;
use ratatui::style::{Color, Style};
use ratatui::text::Span;
use rustc_hash::FxHasher;

use capstan_base::web_address::{is_web_address, web_addresses};

/// The addresses of one frame by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links(BTreeMap<u32, String>);

impl Links {
    /// Where a cell leads to, with the number of the address.
    pub fn of(&self, cell: &Cell) -> Option<(u32, &str)> {
        let number = number_of(cell.underline_color)?;
        Some((number, self.0.get(&number)?))
    }

    /// The number comes from the address alone, so that a cell that stays as it is has the same one in the next frame.
    fn number(&mut self, address: &str) -> Option<u32> {
        let mut hasher = FxHasher::default();
        address.hash(&mut hasher);
        // The upper bits of this hash depend on all of the text.
        let number = u32::try_from(hasher.finish() >> 40).unwrap_or(0);
        // Of two addresses with one number the first is a link, the other one text.
        let known = self.0.entry(number).or_insert_with(|| address.to_owned());
        (known == address).then_some(number)
    }
}

fn number_of(color: Color) -> Option<u32> {
    let Color::Rgb(high, middle, low) = color else { return None };
    Some(u32::from_be_bytes([0, high, middle, low]))
}

fn color_of(number: u32) -> Color {
    let [_, high, middle, low] = number.to_be_bytes();
    Color::Rgb(high, middle, low)
}

/// Collects the addresses while a frame is drawn.
#[derive(Default)]
pub struct Linker(RefCell<Links>);

impl Linker {
    pub fn links(&self) -> Links {
        self.0.borrow().clone()
    }

    /// The same style, which leads to the address where it may be a link.
    pub fn style(&self, style: Style, address: &str) -> Style {
        let number = if is_web_address(address) { self.0.borrow_mut().number(address) } else { None };
        number.map_or(style, |number| style.underline_color(color_of(number)))
    }

    /// The pieces of each line of `text`, which was wrapped into `lines`: an address that goes on in the next line stays one link. A line may be
    /// longer or shorter by blanks alone.
    pub fn spans(&self, style: Style, text: &str, lines: Vec<String>) -> Vec<Vec<Span<'static>>> {
        let places = self.places(style, text);
        let mut letter = 0;
        lines.into_iter().map(|line| pieces(line, style, &places, &mut letter)).collect()
    }

    /// The pieces of one line of `text`, before which so many letters of it stand, blanks not counted. It may be cut.
    pub fn part(&self, style: Style, text: &str, mut letters: usize, line: String) -> Vec<Span<'static>> {
        pieces(line, style, &self.places(style, text), &mut letters)
    }

    /// The addresses in a text by their letters, blanks not counted.
    fn places(&self, style: Style, text: &str) -> Vec<(Range<usize>, Style)> {
        let addresses = if text.contains("://") { web_addresses(text) } else { Vec::new() };
        let place = |range: Range<usize>| {
            let linked = self.style(style, &text[range.clone()]);
            (letters(&text[..range.start])..letters(&text[..range.end]), linked)
        };
        addresses.into_iter().map(place).collect()
    }
}

/// How many letters a text has, blanks not counted.
pub fn letters(text: &str) -> usize {
    text.chars().filter(|c| !c.is_whitespace()).count()
}

/// A line cut where a link begins or ends. `letter` counts what is not a blank, over all lines.
fn pieces(
    line: String,
    style: Style,
    places: &[(Range<usize>, Style)],
    letter: &mut usize,
) -> Vec<Span<'static>> {
    if places.is_empty() {
        return vec![Span::styled(line, style)];
    }
    let mut spans: Vec<Span<'static>> = Vec::new();
    for c in line.chars() {
        let place = places.iter().find(|(range, _)| range.contains(letter));
        let own = match place {
            Some((_, linked)) if !c.is_whitespace() => *linked,
            _ => style,
        };
        *letter += usize::from(!c.is_whitespace());
        match spans.last_mut() {
            Some(last) if last.style == own => last.content.to_mut().push(c),
            _ => spans.push(Span::styled(c.to_string(), own)),
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_base::text::wrap;

    /// Each line with its links in brackets.
    fn marked(text: &str, width: usize) -> Vec<String> {
        let linker = Linker::default();
        let lines = linker.spans(Style::default(), text, wrap(text, width));
        let mark = |span: &Span<'_>| match span.style.underline_color {
            Some(_) => format!("[{}]", span.content),
            None => span.content.to_string(),
        };
        lines.iter().map(|line| line.iter().map(mark).collect()).collect()
    }

    #[test]
    fn an_address_that_is_wrapped_is_one_link() {
        assert_eq!(marked("no link here", 80), ["no link here"]);
        assert_eq!(marked("see https://a.example/b, or c", 80), ["see [https://a.example/b], or c"]);
        assert_eq!(
            marked("* see https://a.example/long then http://b.example", 14),
            ["* see", "  [https://a.ex]", "  [ample/long]", "  then", "  [http://b.exa]", "  [mple]"]
        );
    }

    #[test]
    fn every_piece_of_a_link_leads_to_the_whole_address() {
        let linker = Linker::default();
        let text = "https://a.example/long";
        let lines = linker.spans(Style::default(), text, wrap(text, 10));
        assert_eq!(lines.len(), 3);
        for span in lines.iter().flatten() {
            let mut cell = Cell::default();
            cell.set_style(span.style);
            assert_eq!(linker.links().of(&cell).map(|(_, address)| address), Some(text));
        }
    }

    #[test]
    fn a_part_of_a_line_leads_to_the_address_of_the_whole_line() {
        let linker = Linker::default();
        let text = "see https://a.example/long end";
        for (letters_before, part, linked) in
            [(0, "see https://a.exa…", "https://a.exa…"), (10, "/a.example/long end", "/a.example/long")]
        {
            let spans = linker.part(Style::default(), text, letters_before, part.to_owned());
            let found: Vec<_> = spans.iter().filter(|span| span.style.underline_color.is_some()).collect();
            assert_eq!(found.len(), 1, "{spans:?}");
            assert_eq!(found[0].content, linked);
        }
        // A word that could steer the terminal has no link in any of its parts.
        let hostile = "\u{fffd}]8;;http://a.example/\u{fffd}\\link";
        let spans = linker.part(Style::default(), hostile, 5, "http://a.example/".to_owned());
        assert!(spans.iter().all(|span| span.style.underline_color.is_none()), "{spans:?}");
    }

    #[test]
    fn what_is_no_address_leads_nowhere() {
        let linker = Linker::default();
        let style = linker.style(Style::default(), "https://a.example/\u{1b}]8;;");
        assert_eq!((style, linker.links()), (Style::default(), Links::default()));
        assert_eq!(Links::default().of(&Cell::default()), None);
    }
}
