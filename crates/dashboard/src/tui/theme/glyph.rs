//! The characters of our own chrome, each with an ASCII twin. Only characters that every terminal
//! draws one cell wide (a test checks), but for box lines, which all terminals agree on.

use ratatui::symbols::border;

#[derive(Debug)]
pub struct Glyphs {
    pub ok: &'static str,
    pub progressing: &'static str,
    pub degraded: &'static str,
    pub blocked: &'static str,
    pub unknown: &'static str,
    /// A condition that reports activity, as it should.
    pub active: &'static str,
    /// A condition that is not there, or says nothing.
    pub none: &'static str,
    /// Behind a verdict that the line at the foot says more about.
    pub footnote: &'static str,
    pub fold_open: &'static str,
    pub fold_closed: &'static str,
    pub leaf: &'static str,
    pub ascending: &'static str,
    pub descending: &'static str,
    pub cursor: &'static str,
    /// Before a row that is marked for one action on many.
    pub chosen: &'static str,
    pub separator: &'static str,
    pub crumb: &'static str,
    pub ellipsis: &'static str,
    pub rule: &'static str,
    /// One cell of a bar: done, and left to do.
    pub bar_done: &'static str,
    pub bar_left: &'static str,
    /// From nothing to much, in one cell; `None`: a number stands there.
    pub levels: Option<[&'static str; 4]>,
    pub border: border::Set<'static>,
}

pub const UNICODE: Glyphs = Glyphs {
    ok: "✓",
    progressing: "↻",
    degraded: "✗",
    blocked: "⊘",
    unknown: "?",
    active: "∙",
    none: "-",
    footnote: "*",
    fold_open: "▾ ",
    fold_closed: "▸ ",
    leaf: "  ",
    ascending: "▴",
    descending: "▾",
    cursor: "▌",
    chosen: "◆",
    separator: "∙",
    crumb: "›",
    ellipsis: "⋯",
    rule: "─",
    bar_done: "▰",
    bar_left: "▱",
    levels: Some(["⣀", "⣤", "⣶", "⣿"]),
    border: border::ROUNDED,
};

pub const ASCII: Glyphs = Glyphs {
    ok: "+",
    progressing: "~",
    degraded: "x",
    blocked: "!",
    unknown: "?",
    active: "*",
    none: "-",
    footnote: "*",
    fold_open: "v ",
    fold_closed: "> ",
    leaf: "  ",
    ascending: "^",
    descending: "v",
    cursor: ">",
    chosen: "#",
    separator: "|",
    crumb: ">",
    ellipsis: "~",
    rule: "-",
    bar_done: "#",
    bar_left: ".",
    levels: None,
    border: border::Set {
        top_left: "+",
        top_right: "+",
        bottom_left: "+",
        bottom_right: "+",
        vertical_left: "|",
        vertical_right: "|",
        horizontal_top: "-",
        horizontal_bottom: "-",
    },
};

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr as _;

    use super::*;

    fn chrome(g: &Glyphs) -> Vec<&'static str> {
        let verdicts = [g.ok, g.progressing, g.degraded, g.blocked, g.unknown, g.active, g.none, g.footnote];
        let marks = [g.ascending, g.descending, g.separator, g.crumb, g.ellipsis, g.bar_done, g.bar_left];
        let folds = [g.fold_open, g.fold_closed, g.leaf].map(str::trim_end);
        verdicts.into_iter().chain(marks).chain(folds).chain(g.levels.into_iter().flatten()).collect()
    }

    #[test]
    fn chrome_is_one_cell_wide_everywhere() {
        for glyph in chrome(&UNICODE) {
            assert!(glyph.width() <= 1 && glyph.width_cjk() <= 1, "{glyph:?} is ambiguous");
        }
    }

    #[test]
    fn the_ascii_set_is_ascii() {
        let b = ASCII.border;
        let lines = [b.top_left, b.vertical_left, b.horizontal_top, b.bottom_right, ASCII.rule, ASCII.cursor];
        assert!(chrome(&ASCII).iter().chain(&lines).all(|g| g.is_ascii()));
    }

    #[test]
    fn verdicts_differ_without_colour() {
        for g in [&UNICODE, &ASCII] {
            let mut verdicts = vec![g.ok, g.progressing, g.degraded, g.blocked, g.unknown];
            verdicts.sort_unstable();
            verdicts.dedup();
            assert_eq!(verdicts.len(), 5);
        }
    }
}
