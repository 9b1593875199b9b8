use super::*;
use ratatui::style::{Color, Modifier};

fn load_text(text: &str) -> Result<Theme, FileError> {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(dir.path().join("themes")).expect("a folder");
    std::fs::write(dir.path().join("themes/x.toml"), text).expect("a file");
    Theme::load("x", Some(dir.path()), Tier::True, false)
}

#[test]
fn every_shipped_theme_loads_in_every_tier_and_covers_every_scope() {
    for (name, _) in EMBEDDED {
        let file = file::load(name, &library(None)).unwrap_or_else(|e| panic!("{e}"));
        assert!(!file.description.is_empty(), "{name} needs a description");
        for scope in Scope::ALL {
            assert!(file.covers(scope.name()), "{name} has no style for {}", scope.name());
        }
        for tier in [Tier::None, Tier::Ansi16, Tier::Ansi256, Tier::True] {
            Theme::load(name, None, tier, false).unwrap_or_else(|e| panic!("{e}"));
        }
    }
}

#[test]
fn without_colour_no_theme_sets_one() {
    for (name, _) in EMBEDDED {
        let theme = Theme::load(name, None, Tier::None, false).expect("shipped");
        for scope in Scope::ALL {
            let style = theme.style(*scope);
            assert_eq!((style.fg, style.bg), (None, None), "{name}: {}", scope.name());
        }
        assert_ne!(theme.style(Scope::Selection), Style::default(), "{name}: the cursor must be seen");
    }
}

/// Themes with colours of their own, backgrounds that they are meant for, and the least contrast of text.
const CONTRASTS: &[(&str, &[Color], f64)] = &[
    ("midnight", &DARK, 4.5),
    ("paper", &LIGHT, 4.5),
    ("high-contrast", &DARK, 7.0),
    ("high-contrast-light", &LIGHT, 7.0),
    // One set of colours for both: 4.6 is the most that anything has on black and on white.
    ("colorblind", &[DARK[0], DARK[1], LIGHT[0], LIGHT[1]], 3.5),
];
const DARK: [Color; 2] = [Color::Rgb(0, 0, 0), Color::Rgb(0x1e, 0x22, 0x30)];
const LIGHT: [Color; 2] = [Color::Rgb(0xff, 0xff, 0xff), Color::Rgb(0xfd, 0xf6, 0xe3)];

#[test]
fn text_stands_out_from_every_background_it_is_meant_for() {
    for (name, backgrounds, least) in CONTRASTS {
        let theme = Theme::load(name, None, Tier::True, false).expect("shipped");
        let selected = theme.style(Scope::Selection).bg;
        // Lines are no text.
        let texts = Scope::ALL.iter().filter(|s| !matches!(s, Scope::Rule | Scope::OverlayBorder));
        for scope in texts {
            let Some(text @ Color::Rgb(..)) = theme.style(*scope).fg else { continue };
            for background in backgrounds.iter().chain(&selected) {
                let contrast = contrast(text, *background);
                assert!(contrast >= *least, "{name}: {} on {background} has {contrast:.2}", scope.name());
            }
        }
    }
}

#[test]
fn every_theme_with_colours_of_its_own_has_a_contrast_to_keep() {
    for (name, _) in EMBEDDED {
        let theme = Theme::load(name, None, Tier::True, false).expect("shipped");
        let has_colours =
            Scope::ALL.iter().any(|scope| matches!(theme.style(*scope).fg, Some(Color::Rgb(..))));
        assert_eq!(has_colours, CONTRASTS.iter().any(|(listed, ..)| listed == name), "{name}");
    }
}

/// By WCAG 2.2: 1 for equal colours, 21 for black and white.
fn contrast(one: Color, other: Color) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

fn luminance(colour: Color) -> f64 {
    let Color::Rgb(red, green, blue) = colour else { panic!("{colour} has no luminance of its own") };
    let linear = |part: u8| {
        let part = f64::from(part) / 255.0;
        if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
}

#[test]
fn the_default_theme_uses_the_users_own_palette() {
    let theme = Theme::load("default", None, Tier::True, false).expect("shipped");
    for scope in Scope::ALL {
        let style = theme.style(*scope);
        for colour in [style.fg, style.bg].into_iter().flatten() {
            assert!(!matches!(colour, Color::Rgb(..) | Color::Indexed(_)), "{}", scope.name());
        }
    }
}

#[test]
fn scopes_fall_back_to_their_parent_and_files_to_their_base() {
    let theme = load_text("inherits = 'default'\n[palette]\nink = '#010203'\n[scopes]\nnotice = 'ink'\n")
        .expect("loads");
    // The base says more about `notice.error` than this file does about `notice`.
    let base = Theme::load("default", None, Tier::True, false).expect("shipped");
    assert_eq!(theme.style(Scope::NoticeError), base.style(Scope::NoticeError));
    let alone = load_text("[scopes]\ntext = { add = ['dim'] }\nverdict = '#010203'\n").expect("loads");
    assert_eq!(alone.style(Scope::Blocked).fg, Some(Color::Rgb(1, 2, 3)));
    assert_eq!(alone.style(Scope::Tab).add_modifier, Modifier::DIM);
}

#[test]
fn a_file_may_replace_a_built_in_theme_and_inherit_from_it() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(dir.path().join("themes")).expect("a folder");
    let text = "inherits = 'default'\n[scopes]\n'verdict.ok' = 'blue'\n";
    std::fs::write(dir.path().join("themes/default.toml"), text).expect("a file");
    let theme = Theme::load("default", Some(dir.path()), Tier::Ansi16, false).expect("loads");
    assert_eq!(theme.style(Scope::Ok).fg, Some(Color::Blue));
}

#[test]
fn mistakes_are_told_with_file_and_line() {
    for (text, line, part) in [
        ("[scopes]\ntext = 'default'\n'verdict.okk' = 'green'\n", 3, "did you mean `verdict.ok`?"),
        ("[scopes]\n\n'verdict.ok' = 'gren'\n", 3, "did you mean `green`?"),
        ("[scopes]\nselection = { bold = true }\n", 2, "unknown part `bold`"),
        ("[scopes]\nselection = { add = ['bald'] }\n", 2, "did you mean `bold`?"),
        ("scopes = 3\n", 1, "must be a table"),
        ("colour = 1\n", 1, "unknown entry `colour`"),
        ("a = [\n", 1, "not valid TOML"),
        ("\ninherits = 'defolt'\n", 2, "did you mean `default`?"),
        ("\ninherits = 'x'\n", 2, "there is no theme `x`"),
    ] {
        let error = load_text(text).expect_err(text);
        assert_eq!(error.line, line, "{text:?}: {error}");
        assert!(error.message.contains(part), "{text:?}: {error}");
        assert!(error.file.ends_with("x.toml"), "{error}");
    }
}
