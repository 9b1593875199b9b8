//! How things look: scopes, styles, glyphs. Owns every colour in the program, as data from theme
//! files. Must not know screens or the fleet.
//!
//! A theme gives styles to dotted scopes. A scope without its own style takes that of its parent:
//! `verdict.ok` → `verdict` → `text`. What a style may be is resolved once, at load, for the colours
//! that the terminal has; without colour only attributes and glyphs are left.

mod colour;
mod file;
mod glyph;

use std::path::Path;

use ratatui::style::Style;

pub use colour::{Tier, is_dec_terminal, web_colour};
pub use file::EMBEDDED;
pub use glyph::Glyphs;

use capstan_base::toml_file::{FileError, Library};

macro_rules! scopes {
    ($($variant:ident = $name:literal, $doc:literal;)*) => {
        /// What a piece of text is, for the theme.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Scope { $(#[doc = $doc] $variant,)* }

        impl Scope {
            /// Every scope in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// As written in theme files.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// One line for `docs/scopes.md`.
            pub const fn help(self) -> &'static str {
                match self { $(Self::$variant => $doc,)* }
            }
        }
    };
}

scopes! {
    Text = "text", "Ordinary text, and what every other scope falls back to.";
    Strong = "text.strong", "Names and numbers that should be found first.";
    Muted = "text.muted", "What is there but not news: units, separators, equal counters.";
    Header = "header", "The line at the top.";
    HeaderContext = "header.context", "The context or server in that line.";
    Production = "context.production", "The word of a context of the rank production.";
    Staging = "context.staging", "The word of a context of the rank staging.";
    Development = "context.development", "The word of a context of the rank development.";
    ReadOnly = "header.read-only", "The word that says nothing can be written.";
    Live = "header.live", "Connected, data is current.";
    Stale = "header.stale", "Data is old, or a source could not be read.";
    Rule = "rule", "Horizontal lines.";
    Column = "column", "Column headings.";
    ColumnSorted = "column.sorted", "The heading that orders the rows.";
    Selection = "selection", "The row under the cursor; patched over its other styles.";
    Ok = "verdict.ok", "Fine.";
    Progressing = "verdict.progressing", "Changing, as expected.";
    Degraded = "verdict.degraded", "Something is wrong.";
    Blocked = "verdict.blocked", "Waiting for something that will not happen by itself.";
    Unknown = "verdict.unknown", "Cannot be told.";
    ConditionGood = "condition.good", "A condition whose status is as it should be, by its polarity.";
    ConditionBad = "condition.bad", "A condition whose status is not.";
    ConditionInfo = "condition.info", "A condition that reports activity, or is unknown.";
    CounterShort = "counter.short", "A replica counter below what is desired.";
    CounterOver = "counter.over", "A replica counter above it.";
    Key = "key", "A key in hints and help.";
    KeyText = "key.text", "What that key does.";
    Prompt = "prompt", "The command and filter line.";
    Suggestion = "prompt.suggestion", "A completion below it.";
    Match = "match", "Text that matched the filter.";
    Overlay = "overlay", "The inside of a dialog.";
    OverlayBorder = "overlay.border", "Its border.";
    OverlayTitle = "overlay.title", "Its title.";
    Tab = "tab", "A tab that is not open.";
    TabOpen = "tab.open", "The tab that is.";
    NoticeInfo = "notice.info", "A result that went well.";
    NoticeWarning = "notice.warning", "A finding that does not stop an action.";
    NoticeError = "notice.error", "A failure, or a finding that stops an action.";
    DiffAdded = "diff.added", "A line that an action adds.";
    DiffRemoved = "diff.removed", "A line that it removes.";
    DiffContext = "diff.context", "Lines around them.";
    YamlKey = "yaml.key", "A key in the YAML view.";
    YamlValue = "yaml.value", "A value there.";
}

/// A theme resolved for one terminal.
#[derive(Clone, Debug)]
pub struct Theme {
    pub name: String,
    pub description: String,
    styles: Vec<Style>,
    pub glyphs: &'static Glyphs,
    pub tier: Tier,
}

impl Theme {
    /// Loads a theme by name: from `config_dir/themes` or built in.
    ///
    /// # Errors
    /// File, line and what was expected.
    pub fn load(name: &str, config_dir: Option<&Path>, tier: Tier, ascii: bool) -> Result<Self, FileError> {
        let file = file::load(name, &library(config_dir))?;
        let styles = Scope::ALL.iter().map(|s| file.style(s.name(), tier)).collect();
        let glyphs = if ascii { &glyph::ASCII } else { &glyph::UNICODE };
        Ok(Self { name: name.to_owned(), description: file.description, styles, glyphs, tier })
    }

    pub fn style(&self, scope: Scope) -> Style {
        self.styles.get(scope as usize).copied().unwrap_or_default()
    }
}

/// The themes that can be asked for.
pub fn library(config_dir: Option<&Path>) -> Library {
    Library::new("theme", EMBEDDED, config_dir)
}

#[cfg(test)]
mod tests;
