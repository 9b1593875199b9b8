//! Colours of theme files and what becomes of them on a terminal that has fewer.

use ratatui::style::Color;

/// How many colours the terminal shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Attributes and glyphs only.
    None,
    /// The 16 named colours of the user's own palette.
    Ansi16,
    /// The xterm palette.
    Ansi256,
    True,
}

impl Tier {
    /// What the environment says. `NO_COLOR` with any text means none; `COLORTERM` decides
    /// truecolour and `TERM` 256. sshd seldom forwards `COLORTERM`, so truecolour over ssh usually
    /// has to be asked for.
    pub fn detect(env: impl Fn(&str) -> Option<String>) -> Self {
        let term = env("TERM").unwrap_or_default();
        if env("NO_COLOR").is_some_and(|v| !v.is_empty()) || is_monochrome(&term) {
            Self::None
        } else if matches!(env("COLORTERM").as_deref(), Some("truecolor" | "24bit"))
            || term.ends_with("-direct")
        {
            Self::True
        } else if term.contains("256color") {
            Self::Ansi256
        } else {
            Self::Ansi16
        }
    }
}

/// A terminal of DEC, by its `TERM`: not the newer ones of the library VTE.
pub fn is_dec_terminal(term: &str) -> bool {
    term.strip_prefix("vt").is_some_and(|model| model.starts_with(|c: char| c.is_ascii_digit()))
}

/// Of DEC's terminals only the `vt525` has colours, and terminfo says of others in their names that they have none.
fn is_monochrome(term: &str) -> bool {
    (is_dec_terminal(term) && !term.starts_with("vt525")) || term.ends_with("-m") || term.ends_with("-mono")
}

/// The 16 names, in palette order: the first eight, then their bright forms.
const NAMES: [(&str, Color); 16] = [
    ("black", Color::Black),
    ("red", Color::Red),
    ("green", Color::Green),
    ("yellow", Color::Yellow),
    ("blue", Color::Blue),
    ("magenta", Color::Magenta),
    ("cyan", Color::Cyan),
    ("white", Color::Gray),
    ("bright-black", Color::DarkGray),
    ("bright-red", Color::LightRed),
    ("bright-green", Color::LightGreen),
    ("bright-yellow", Color::LightYellow),
    ("bright-blue", Color::LightBlue),
    ("bright-magenta", Color::LightMagenta),
    ("bright-cyan", Color::LightCyan),
    ("bright-white", Color::White),
];

/// xterm's defaults for those, for distance only.
const RGB16: [(u8, u8, u8); 16] = [
    (0, 0, 0),
    (205, 0, 0),
    (0, 205, 0),
    (205, 205, 0),
    (0, 0, 238),
    (205, 0, 205),
    (0, 205, 205),
    (229, 229, 229),
    (127, 127, 127),
    (255, 0, 0),
    (0, 255, 0),
    (255, 255, 0),
    (92, 92, 255),
    (255, 0, 255),
    (0, 255, 255),
    (255, 255, 255),
];

/// Names that may be written for a colour, for messages.
pub fn names() -> Vec<&'static str> {
    NAMES.iter().map(|(name, _)| *name).chain(["default"]).collect()
}

/// `#rrggbb`, `0`–`255`, one of the 16 names, or `default` (the terminal's own).
pub fn parse(text: &str) -> Option<Color> {
    if text == "default" {
        return Some(Color::Reset);
    }
    if let Some(hex) = text.strip_prefix('#') {
        let valid = hex.len() == 6 && hex.bytes().all(|b| b.is_ascii_hexdigit());
        let n = u32::from_str_radix(hex, 16).ok().filter(|_| valid)?;
        let [_, r, g, b] = n.to_be_bytes();
        return Some(Color::Rgb(r, g, b));
    }
    if let Ok(index) = text.parse::<u8>() {
        return Some(Color::Indexed(index));
    }
    NAMES.iter().find(|(name, _)| *name == text).map(|(_, colour)| *colour)
}

/// `colour` as `tier` can show it. Named colours pass everywhere but without colour.
pub fn fit(colour: Color, tier: Tier) -> Option<Color> {
    match (tier, colour) {
        (Tier::None, _) => None,
        (Tier::Ansi256, Color::Rgb(r, g, b)) => Some(Color::Indexed(nearest_256((r, g, b)))),
        (Tier::Ansi16, Color::Rgb(r, g, b)) => Some(nearest_16((r, g, b))),
        (Tier::Ansi16, Color::Indexed(i)) => Some(nearest_16(rgb_of(i))),
        (_, colour) => Some(colour),
    }
}

/// `#rrggbb` for a picture outside a terminal, on a dark background; the terminal's own ink and
/// paper, and the 16 names, in a quiet palette.
pub fn web_colour(colour: Color, is_ink: bool) -> String {
    const WEB16: [&str; 16] = [
        "#1b1f27", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#c8ccd4", "#6b7280",
        "#ef8289", "#b0d690", "#f0d197", "#82c2f5", "#d798ea", "#7bcad4", "#ffffff",
    ];
    match colour {
        Color::Reset => if is_ink { "#c8ccd4" } else { "#1b1f27" }.to_owned(),
        Color::Rgb(r, g, b) => format!("#{r:02x}{g:02x}{b:02x}"),
        Color::Indexed(i) => {
            let (r, g, b) = rgb_of(i);
            format!("#{r:02x}{g:02x}{b:02x}")
        }
        named => {
            let at = NAMES.iter().position(|(_, c)| *c == named).unwrap_or(7);
            WEB16[at].to_owned()
        }
    }
}

/// Channel levels of the 6×6×6 cube.
const LEVELS: [u8; 6] = [0, 95, 135, 175, 215, 255];

/// Red, green and blue of a palette index.
fn rgb_of(index: u8) -> (u8, u8, u8) {
    match index {
        0..=15 => RGB16[usize::from(index)],
        16..=231 => {
            let i = usize::from(index - 16);
            (LEVELS[i / 36], LEVELS[i / 6 % 6], LEVELS[i % 6])
        }
        _ => {
            // xterm's ramp: 24 greys from 8 on, ten apart.
            let grey = 8 + 10 * (index - 232);
            (grey, grey, grey)
        }
    }
}

fn nearest_256(target: (u8, u8, u8)) -> u8 {
    // The first 16 are the user's own, whose colours are not known.
    (16..=255u8).min_by_key(|i| distance(rgb_of(*i), target)).unwrap_or(15)
}

fn nearest_16(target: (u8, u8, u8)) -> Color {
    let nearest = (0..16usize).min_by_key(|i| distance(RGB16[*i], target)).unwrap_or(7);
    NAMES[nearest].1
}

/// Squared distance weighted by how the eye sees the channels ("redmean").
fn distance(a: (u8, u8, u8), b: (u8, u8, u8)) -> i64 {
    let d = |x: u8, y: u8| i64::from(x) - i64::from(y);
    let mean = (i64::from(a.0) + i64::from(b.0)) / 2;
    let (r, g, b) = (d(a.0, b.0), d(a.1, b.1), d(a.2, b.2));
    ((512 + mean) * r * r / 256) + 4 * g * g + ((767 - mean) * b * b / 256)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_read_in_every_form() {
        assert_eq!(parse("#7aa2f7"), Some(Color::Rgb(0x7a, 0xa2, 0xf7)));
        assert_eq!(parse("208"), Some(Color::Indexed(208)));
        assert_eq!(parse("bright-black"), Some(Color::DarkGray));
        assert_eq!(parse("default"), Some(Color::Reset));
        for wrong in ["#7aa2f", "#+12345", "256", "-1", "gren", ""] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn colours_come_down_by_table() {
        assert_eq!(fit(Color::Rgb(255, 0, 0), Tier::Ansi256), Some(Color::Indexed(196)));
        assert_eq!(fit(Color::Rgb(8, 8, 8), Tier::Ansi256), Some(Color::Indexed(232)));
        assert_eq!(fit(Color::Rgb(250, 10, 10), Tier::Ansi16), Some(Color::LightRed));
        assert_eq!(fit(Color::Indexed(196), Tier::Ansi16), Some(Color::LightRed));
        assert_eq!(fit(Color::Green, Tier::Ansi16), Some(Color::Green));
        assert_eq!(fit(Color::Green, Tier::None), None);
    }

    #[test]
    fn the_environment_decides_the_tier() {
        let tier = |vars: &[(&str, &str)]| {
            Tier::detect(|k| vars.iter().find(|(n, _)| *n == k).map(|(_, v)| (*v).to_owned()))
        };
        assert_eq!(tier(&[("TERM", "xterm")]), Tier::Ansi16);
        for (term, expected) in [
            ("linux", Tier::Ansi16),
            ("vt525", Tier::Ansi16),
            ("vte", Tier::Ansi16),
            ("vt100", Tier::None),
            ("vt220", Tier::None),
            ("linux-m", Tier::None),
            ("xterm-mono", Tier::None),
        ] {
            assert_eq!(tier(&[("TERM", term)]), expected, "{term}");
        }
        assert_eq!(tier(&[("TERM", "tmux-256color")]), Tier::Ansi256);
        assert_eq!(tier(&[("TERM", "xterm"), ("COLORTERM", "truecolor")]), Tier::True);
        assert_eq!(tier(&[("COLORTERM", "truecolor"), ("NO_COLOR", "1")]), Tier::None);
        assert_eq!(tier(&[("COLORTERM", "truecolor"), ("NO_COLOR", "")]), Tier::True);
    }
}
