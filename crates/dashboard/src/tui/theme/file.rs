//! Theme files: palette, scopes, inheritance. Reads TOML into styles per scope; knows no terminal.
//!
//! ```toml
//! description = "one line"
//! inherits = "default"
//! [palette]
//! ink = "#c0caf5"
//! [scopes]
//! "verdict.ok" = "green"                                   # foreground only
//! "selection" = { bg = "#283457", bg16 = "blue", add = ["bold"], mono = ["reversed"] }
//! ```

use std::collections::BTreeMap;

use ratatui::style::{Color, Modifier, Style};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Scope;
use super::colour::{self, Tier};
use capstan_base::text::did_you_mean;
use capstan_base::toml_file::{FileError, Library, Source};

/// Themes in the binary.
pub const EMBEDDED: &[(&str, &str)] = &[
    ("default", include_str!("../../../../../themes/default.toml")),
    ("midnight", include_str!("../../../../../themes/midnight.toml")),
    ("paper", include_str!("../../../../../themes/paper.toml")),
    ("high-contrast", include_str!("../../../../../themes/high-contrast.toml")),
    ("high-contrast-light", include_str!("../../../../../themes/high-contrast-light.toml")),
    ("colorblind", include_str!("../../../../../themes/colorblind.toml")),
    ("mono", include_str!("../../../../../themes/mono.toml")),
];

/// How deep `inherits` may go; more is a circle.
const INHERIT_MAX: usize = 8;

/// One style before the terminal is known.
#[derive(Clone, Debug, Default)]
struct Ink {
    fg: Option<Color>,
    bg: Option<Color>,
    /// Used instead on a terminal with 16 colours.
    fg16: Option<Color>,
    bg16: Option<Color>,
    add: Modifier,
    /// Used instead of `add` without colour.
    mono: Option<Modifier>,
}

/// A file and all it inherits.
#[derive(Clone, Debug, Default)]
pub struct ThemeFile {
    pub description: String,
    inks: BTreeMap<String, Ink>,
}

impl ThemeFile {
    /// The style of a scope: its own, else of the nearest parent that has one, else of `text`.
    pub fn style(&self, scope: &str, tier: Tier) -> Style {
        let mut name = scope;
        loop {
            if let Some(ink) = self.inks.get(name) {
                return ink.resolve(tier);
            }
            match name.rsplit_once('.') {
                Some((parent, _)) => name = parent,
                None => return self.inks.get("text").map(|i| i.resolve(tier)).unwrap_or_default(),
            }
        }
    }

    /// True when the scope or a parent of it has a style of its own.
    #[cfg(test)]
    pub fn covers(&self, scope: &str) -> bool {
        let root = scope.split('.').next().unwrap_or(scope);
        self.inks.contains_key(scope) || self.inks.contains_key(root)
    }
}

impl Ink {
    fn resolve(&self, tier: Tier) -> Style {
        let pick = |full: Option<Color>, small: Option<Color>| {
            let chosen = if tier == Tier::Ansi16 { small.or(full) } else { full };
            chosen.and_then(|c| colour::fit(c, tier))
        };
        Style {
            fg: pick(self.fg, self.fg16),
            bg: pick(self.bg, self.bg16),
            add_modifier: if tier == Tier::None { self.mono.unwrap_or(self.add) } else { self.add },
            ..Style::default()
        }
    }
}

/// Reads `name` and what it inherits.
///
/// # Errors
/// File, line and what was expected.
pub fn load(name: &str, library: &Library) -> Result<ThemeFile, FileError> {
    load_at(name, library, false, 0)
}

fn load_at(name: &str, library: &Library, built_in: bool, depth: usize) -> Result<ThemeFile, FileError> {
    let source = library.open(name, built_in)?;
    let document = source.parse()?;
    let root = document.get_ref();
    let mut theme = match root.get("inherits") {
        Some(value) if depth >= INHERIT_MAX => {
            return Err(source.error(&value.span(), "`inherits` goes round in a circle"));
        }
        Some(value) => {
            let base = source.string(value, "`inherits`")?;
            // A file that inherits its own name means the one that is built in.
            load_at(base, library, base == name, depth + 1)
                .map_err(|e| if e.is_missing { source.error(&value.span(), e.message) } else { e })?
        }
        None => ThemeFile::default(),
    };
    let palette = read_palette(&source, root)?;
    for (key, value) in root {
        match key.get_ref().as_ref() {
            "inherits" | "palette" => {}
            "description" => source.string(value, "`description`")?.clone_into(&mut theme.description),
            "scopes" => read_scopes(&source, source.table(value, "`scopes`")?, &palette, &mut theme)?,
            other => {
                let known = ["description", "inherits", "palette", "scopes"];
                let hint = did_you_mean(other, known.into_iter());
                let message = format!("unknown entry `{other}`{hint}; known: {}", known.join(", "));
                return Err(source.error(&key.span(), message));
            }
        }
    }
    Ok(theme)
}

type Palette = BTreeMap<String, Color>;

fn read_palette(source: &Source, root: &DeTable<'_>) -> Result<Palette, FileError> {
    let mut palette = Palette::new();
    let Some(value) = root.get("palette") else { return Ok(palette) };
    for (key, value) in source.table(value, "`palette`")? {
        // Colours of a palette do not refer to each other, so that there are no circles.
        let colour = read_colour(source, value, &Palette::new())?;
        palette.insert(key.get_ref().to_string(), colour);
    }
    Ok(palette)
}

fn read_scopes(
    source: &Source,
    table: &DeTable<'_>,
    palette: &Palette,
    theme: &mut ThemeFile,
) -> Result<(), FileError> {
    for (key, value) in table {
        let name = key.get_ref().as_ref();
        if !is_scope(name) {
            let hint = did_you_mean(name, Scope::ALL.iter().map(|s| s.name()));
            return Err(
                source.error(&key.span(), format!("unknown scope `{name}`{hint}; see docs/scopes.md"))
            );
        }
        let ink = read_ink(source, value, palette)?;
        theme.inks.insert(name.to_owned(), ink);
    }
    Ok(())
}

/// A scope, or a parent of one (`verdict`).
fn is_scope(name: &str) -> bool {
    Scope::ALL.iter().any(|s| {
        let full = s.name();
        full == name || full.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'))
    })
}

fn read_ink(source: &Source, value: &Spanned<DeValue<'_>>, palette: &Palette) -> Result<Ink, FileError> {
    if value.get_ref().is_str() || value.get_ref().is_integer() {
        return Ok(Ink { fg: Some(read_colour(source, value, palette)?), ..Ink::default() });
    }
    let mut ink = Ink::default();
    for (key, value) in source.table(value, "a style")? {
        match key.get_ref().as_ref() {
            "fg" => ink.fg = Some(read_colour(source, value, palette)?),
            "bg" => ink.bg = Some(read_colour(source, value, palette)?),
            "fg16" => ink.fg16 = Some(read_colour(source, value, palette)?),
            "bg16" => ink.bg16 = Some(read_colour(source, value, palette)?),
            "add" => ink.add = read_modifiers(source, value)?,
            "mono" => ink.mono = Some(read_modifiers(source, value)?),
            other => {
                let known = ["fg", "bg", "fg16", "bg16", "add", "mono"];
                let hint = did_you_mean(other, known.into_iter());
                let message = format!("unknown part `{other}` of a style{hint}; known: {}", known.join(", "));
                return Err(source.error(&key.span(), message));
            }
        }
    }
    Ok(ink)
}

fn read_colour(source: &Source, value: &Spanned<DeValue<'_>>, palette: &Palette) -> Result<Color, FileError> {
    let text = match value.get_ref() {
        DeValue::Integer(n) => n.as_str().to_owned(),
        _ => source.string(value, "a colour")?.to_owned(),
    };
    palette.get(&text).copied().or_else(|| colour::parse(&text)).ok_or_else(|| {
        let mut known: Vec<&str> = palette.keys().map(String::as_str).collect();
        known.extend::<Vec<&str>>(colour::names());
        let hint = did_you_mean(&text, known.into_iter());
        let forms = "a palette name, `#rrggbb`, 0-255, or one of the 16 names";
        source.error(&value.span(), format!("`{text}` is not a colour{hint}; write {forms}"))
    })
}

const MODIFIERS: [(&str, Modifier); 6] = [
    ("bold", Modifier::BOLD),
    ("dim", Modifier::DIM),
    ("italic", Modifier::ITALIC),
    ("underlined", Modifier::UNDERLINED),
    ("reversed", Modifier::REVERSED),
    ("crossed-out", Modifier::CROSSED_OUT),
];

fn read_modifiers(source: &Source, value: &Spanned<DeValue<'_>>) -> Result<Modifier, FileError> {
    let Some(list) = value.get_ref().as_array() else {
        return Err(source.error(&value.span(), "attributes are written as a list: [\"bold\"]"));
    };
    let mut all = Modifier::empty();
    for item in list {
        let name = source.string(item, "an attribute")?;
        let Some((_, modifier)) = MODIFIERS.iter().find(|(n, _)| *n == name) else {
            let known = MODIFIERS.map(|(n, _)| n);
            let hint = did_you_mean(name, known.into_iter());
            let message = format!("`{name}` is not an attribute{hint}; known: {}", known.join(", "));
            return Err(source.error(&item.span(), message));
        };
        all |= *modifier;
    }
    Ok(all)
}
