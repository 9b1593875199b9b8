//! Blocks of a YAML text that are closed, and the line that one is at. Owns how lines belong together; both are kept by the path of a line, so
//! that they stay where they are while the object changes. Must not know how lines are drawn.

use std::collections::BTreeSet;

use super::tree::Fold;
use crate::tui::cursor::Motion;

/// Which lines belong to which, of one text.
#[derive(Clone, Debug, Default)]
pub struct Outline {
    lines: Vec<YamlLine>,
}

#[derive(Clone, Debug)]
struct YamlLine {
    /// Keys from the top, with the numbers of items in lists.
    path: String,
    /// The line that it belongs to.
    parent: Option<usize>,
    /// The first line behind what belongs to it.
    end: usize,
}

/// A line that is not complete yet: more may belong to it.
struct Open {
    at: usize,
    indent: usize,
    is_item: bool,
    is_key: bool,
    children: usize,
}

impl Open {
    fn has(&self, indent: usize, is_item: bool) -> bool {
        // A list may stand below its key without an indent.
        indent > self.indent || (indent == self.indent && is_item && !self.is_item && self.is_key)
    }
}

impl Outline {
    pub fn of(lines: &[String]) -> Self {
        let mut places: Vec<YamlLine> = Vec::with_capacity(lines.len());
        let mut open: Vec<Open> = Vec::new();
        for (at, line) in lines.iter().enumerate() {
            let text = line.trim_start_matches(' ');
            // An empty line is one of a text of several lines.
            let indent = if text.is_empty() { usize::MAX } else { line.len() - text.len() };
            let is_item = text == "-" || text.starts_with("- ");
            while let Some(last) = open.pop_if(|last| !last.has(indent, is_item)) {
                places[last.at].end = at;
            }
            let parent = open.last_mut().map(|parent| {
                parent.children += 1;
                (parent.at, parent.children)
            });
            let key = text.split_once(':').map(|(key, _)| key).filter(|_| !is_item);
            let own =
                key.map_or_else(|| format!("#{}", parent.map_or(at, |(_, number)| number)), str::to_owned);
            let above = parent.map_or("", |(parent, _)| places[parent].path.as_str());
            let path = format!("{above}/{own}");
            places.push(YamlLine { path, parent: parent.map(|(parent, _)| parent), end: at + 1 });
            open.push(Open { at, indent, is_item, is_key: key.is_some(), children: 0 });
        }
        for last in open {
            places[last.at].end = lines.len();
        }
        Self { lines: places }
    }

    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// How many lines belong to this one.
    fn below(&self, at: usize) -> usize {
        self.lines.get(at).map_or(0, |line| line.end - at - 1)
    }

    fn path(&self, at: usize) -> &str {
        self.lines.get(at).map_or("", |line| &line.path)
    }
}

/// What is closed, and where one is.
#[derive(Debug, Default)]
pub struct YamlFolds {
    closed: BTreeSet<String>,
    at: usize,
    path: String,
}

impl YamlFolds {
    /// The lines that are shown, each with the number of lines that are closed below it.
    pub fn shown(&self, outline: &Outline) -> Vec<(usize, usize)> {
        let mut shown = Vec::new();
        let mut at = 0;
        while at < outline.lines.len() {
            let hidden = if self.closed.contains(outline.path(at)) { outline.below(at) } else { 0 };
            shown.push((at, hidden));
            at += hidden + 1;
        }
        shown
    }

    /// The line that one is at; a line that went gives way to what stands in its place.
    pub fn at(&self, outline: &Outline) -> usize {
        if outline.path(self.at) == self.path {
            return self.at;
        }
        let same = outline.lines.iter().position(|line| line.path == self.path);
        same.unwrap_or_else(|| self.at.min(outline.lines.len().saturating_sub(1)))
    }

    /// Its place among those that are shown.
    pub fn place(&self, outline: &Outline) -> usize {
        let at = self.at(outline);
        self.shown(outline).iter().rposition(|(line, _)| *line <= at).unwrap_or(0)
    }

    fn go(&mut self, outline: &Outline, at: usize) {
        self.at = at;
        outline.path(at).clone_into(&mut self.path);
    }

    pub fn step(&mut self, outline: &Outline, motion: Motion, page: usize) {
        let shown = self.shown(outline);
        let place = motion.apply(self.place(outline), shown.len(), page);
        if let Some((at, _)) = shown.get(place) {
            self.go(outline, *at);
        }
    }

    /// To a line wherever it is: what it is closed in opens.
    pub fn show(&mut self, outline: &Outline, at: usize) {
        let above = |at: &usize| outline.lines.get(*at).and_then(|line| line.parent);
        for parent in std::iter::successors(above(&at), above) {
            self.closed.remove(outline.path(parent));
        }
        self.go(outline, at);
    }

    /// Opens or closes the block that begins at the line; at a line without one, the block that it is in.
    pub fn fold(&mut self, outline: &Outline, fold: Fold) {
        let at = self.at(outline);
        let is_closed = self.closed.contains(outline.path(at));
        match fold {
            Fold::Open | Fold::Toggle if is_closed => {
                self.closed.remove(outline.path(at));
            }
            Fold::Open => {}
            Fold::Close | Fold::Toggle => {
                let has_block = outline.below(at) > 0 && !is_closed;
                let parent = outline.lines.get(at).and_then(|line| line.parent);
                if let Some(block) = if has_block { Some(at) } else { parent } {
                    self.closed.insert(outline.path(block).to_owned());
                    self.go(outline, block);
                }
            }
        }
    }

    /// Opens or closes every block. The line that one is at is the nearest one that is left.
    pub fn fold_all(&mut self, outline: &Outline, open: bool) {
        self.closed.clear();
        if !open {
            let blocks = (0..outline.lines.len()).filter(|at| outline.below(*at) > 0);
            self.closed.extend(blocks.map(|at| outline.path(at).to_owned()));
        }
        let place = self.place(outline);
        if let Some((at, _)) = self.shown(outline).get(place) {
            self.go(outline, *at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "apiVersion: v1\nmetadata:\n  labels:\n    a: b\n    c: d\n  name: x\nspec:\n  hosts:\n  - name: one\n    \
                        size: 1\n  - name: two\n  script: |\n    line: 1\n\n    line 2\nstatus: {}";

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    fn shown(folds: &YamlFolds, text: &str) -> Vec<String> {
        let (outline, lines) = (Outline::of(&lines(text)), lines(text));
        let with_rest = |(at, hidden): (usize, usize)| match hidden {
            0 => lines[at].clone(),
            _ => format!("{} +{hidden}", lines[at]),
        };
        folds.shown(&outline).into_iter().map(with_rest).collect()
    }

    /// To the first line with these words, and there.
    fn fold_at(folds: &mut YamlFolds, words: &str, fold: Fold) {
        let lines = lines(TEXT);
        let outline = Outline::of(&lines);
        folds.show(&outline, lines.iter().position(|line| line.contains(words)).expect("a line"));
        folds.fold(&outline, fold);
    }

    #[test]
    fn a_block_is_what_is_deeper_and_a_list_below_its_key() {
        for (words, expected) in [
            ("metadata", "metadata: +4"),
            ("labels", "  labels: +2"),
            // The items have the indent of their key.
            ("hosts", "  hosts: +3"),
            ("name: one", "  - name: one +1"),
            // With the empty line in it.
            ("script", "  script: | +3"),
            // A line without a block closes the one that it is in.
            ("c: d", "  labels: +2"),
            ("name: two", "  hosts: +3"),
        ] {
            let mut folds = YamlFolds::default();
            fold_at(&mut folds, words, Fold::Toggle);
            let all = shown(&folds, TEXT);
            assert_eq!(
                all.iter().filter(|line| line.contains('+')).collect::<Vec<_>>(),
                [expected],
                "{words}"
            );
            fold_at(&mut folds, expected.split(" +").next().expect("words"), Fold::Toggle);
            assert_eq!(shown(&folds, TEXT), lines(TEXT), "{words}: open again");
        }
    }

    #[test]
    fn what_is_closed_stays_closed_while_the_object_changes() {
        let mut folds = YamlFolds::default();
        fold_at(&mut folds, "labels", Fold::Close);
        let longer = TEXT
            .replace("metadata:", "metadata:\n  annotations:\n    z: y")
            .replace("c: d", "c: d\n    e: f");
        assert!(shown(&folds, &longer).contains(&"  labels: +3".to_owned()), "{:?}", shown(&folds, &longer));
        let outline = Outline::of(&lines(&longer));
        assert_eq!(lines(&longer)[folds.at(&outline)], "  labels:", "one is still there");
        // What one was at went.
        let outline = Outline::of(&lines("a: b"));
        assert_eq!((folds.at(&outline), folds.place(&outline)), (0, 0));
        assert_eq!(YamlFolds::default().place(&Outline::default()), 0);
    }

    #[test]
    fn motions_go_over_what_is_closed_and_a_search_opens_it() {
        let lines = lines(TEXT);
        let outline = Outline::of(&lines);
        let mut folds = YamlFolds::default();
        folds.fold_all(&outline, false);
        assert_eq!(shown(&folds, TEXT), ["apiVersion: v1", "metadata: +4", "spec: +8", "status: {}"]);
        folds.step(&outline, Motion::Down, 10);
        folds.step(&outline, Motion::Down, 10);
        assert_eq!(lines[folds.at(&outline)], "spec:");
        folds.fold(&outline, Fold::Open);
        assert!(shown(&folds, TEXT).contains(&"  hosts: +3".to_owned()), "what is in it is still closed");
        let size = lines.iter().position(|line| line.contains("size")).expect("a line");
        folds.show(&outline, size);
        assert!(shown(&folds, TEXT).contains(&"    size: 1".to_owned()));
        assert_eq!(shown(&folds, TEXT)[folds.place(&outline)], "    size: 1");
        folds.fold_all(&outline, true);
        assert_eq!(shown(&folds, TEXT), lines);
    }
}
