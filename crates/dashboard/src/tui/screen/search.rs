//! Looking for words in a text that is shown in lines. Owns the words, the lines that have them, and which of these
//! one is at. Small letters match capitals too, as in vim and less; a capital matches itself. Must not know where the
//! lines come from, nor how they are drawn.

use std::ops::Range;

use capstan_base::text::width;

/// What was asked for since the text was last looked through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seek {
    /// The first line with the words from this one on.
    From(usize),
    Next,
    Previous,
}

/// A search; without words there is none.
#[derive(Debug, Default)]
pub struct Search {
    words: String,
    /// Lines that have the words, in order.
    found: Vec<usize>,
    at: Option<usize>,
    seek: Option<Seek>,
}

impl Search {
    pub fn words(&self) -> &str {
        &self.words
    }

    /// Looks for other words, from line `from` on.
    pub fn set(&mut self, words: &str, from: usize) {
        words.clone_into(&mut self.words);
        self.at = None;
        self.found.clear();
        self.seek = Some(Seek::From(from));
    }

    /// To the next line with the words, or the one before; round at the ends.
    pub fn go(&mut self, forward: bool) {
        self.seek = Some(if forward { Seek::Next } else { Seek::Previous });
    }

    /// Looks through the text as it is now. Answers the line to show when one was asked for.
    pub fn settle(&mut self, lines: impl Iterator<Item = String>) -> Option<usize> {
        if self.words.is_empty() {
            return None;
        }
        let needle = Needle::new(&self.words);
        self.found = lines.enumerate().filter(|(_, line)| needle.is_in(line)).map(|(at, _)| at).collect();
        let (first, last) = (self.found.first().copied(), self.found.last().copied());
        let here = self.at.unwrap_or(0);
        let after = |line: usize| self.found.iter().copied().find(|at| *at >= line).or(first);
        let target = match self.seek.take()? {
            Seek::From(line) => after(line),
            Seek::Next => after(here + usize::from(self.at.is_some())),
            Seek::Previous => self.found.iter().rev().copied().find(|at| *at < here).or(last),
        };
        self.at = target;
        target
    }

    /// `None` until something was typed.
    pub fn line(&self) -> Option<usize> {
        self.at.filter(|_| !self.words.is_empty())
    }

    /// Which of how many, in words.
    pub fn standing(&self) -> String {
        match self.at.and_then(|at| self.found.iter().position(|line| *line == at)) {
            Some(at) => format!("{} of {}", at + 1, self.found.len()),
            None if self.found.is_empty() => "not found".to_owned(),
            None => self.found.len().to_string(),
        }
    }

    /// The cells of a line that the words take.
    pub fn cells(&self, line: &str) -> Vec<Range<usize>> {
        Needle::new(&self.words).cells(line)
    }
}

/// Words made ready to be compared.
struct Needle {
    letters: Vec<char>,
    is_exact: bool,
}

impl Needle {
    fn new(words: &str) -> Self {
        // A capital is typed on purpose only.
        let is_exact = words.chars().any(char::is_uppercase);
        Self { letters: words.chars().map(|c| Self::folded(c, is_exact)).collect(), is_exact }
    }

    fn folded(c: char, is_exact: bool) -> char {
        // One letter for each, so that places in the folded line are those of the line itself.
        if is_exact { c } else { c.to_lowercase().next().unwrap_or(c) }
    }

    fn is_in(&self, line: &str) -> bool {
        !self.cells(line).is_empty()
    }

    fn cells(&self, line: &str) -> Vec<Range<usize>> {
        let count = self.letters.len();
        let folded: Vec<char> = line.chars().map(|c| Self::folded(c, self.is_exact)).collect();
        let mut cells = Vec::new();
        let mut at = 0;
        while count > 0 && at + count <= folded.len() {
            if folded[at..at + count] == self.letters {
                let before: String = line.chars().take(at).collect();
                let hit: String = line.chars().skip(at).take(count).collect();
                cells.push(width(&before)..width(&before) + width(&hit));
                at += count;
            } else {
                at += 1;
            }
        }
        cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: [&str; 5] = ["kind: Machine", "name: one", "machine: two", "日本 Machine machine", "end"];

    fn settle(search: &mut Search) -> Option<usize> {
        search.settle(TEXT.iter().map(|line| (*line).to_owned()))
    }

    #[test]
    fn lines_are_found_in_turn_and_round() {
        let mut search = Search::default();
        assert_eq!(settle(&mut search), None, "nothing is looked for");
        search.set("machine", 1);
        assert_eq!(settle(&mut search), Some(2));
        assert_eq!(settle(&mut search), None, "one stays where one is");
        assert_eq!(search.standing(), "2 of 3");
        for (forward, expected) in [(true, 3), (true, 0), (false, 3), (false, 2), (false, 0), (false, 3)] {
            search.go(forward);
            assert_eq!(settle(&mut search), Some(expected));
        }
        search.set("nowhere", 0);
        assert_eq!((settle(&mut search), search.standing().as_str()), (None, "not found"));
        search.set("", 0);
        assert_eq!((settle(&mut search), search.line()), (None, None));
    }

    #[test]
    fn a_capital_matches_itself() {
        let mut search = Search::default();
        search.set("Machine", 1);
        assert_eq!(settle(&mut search), Some(3));
        assert_eq!(search.cells(TEXT[3]), vec![5..12; 1]);
        search.set("machine", 1);
        assert_eq!(search.cells(TEXT[3]), [5..12, 13..20], "cells, not bytes");
    }
}
