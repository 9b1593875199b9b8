//! How the dashboard looks, how often it draws and what it tells. Owns words and defaults; must not know how it is done.

use clap::{Args, ValueEnum};

use capstan_base::time::{Timestamp, parse_past};

/// How the dashboard looks and is steered.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Screen")]
pub struct ScreenArgs {
    /// Theme by name: a built-in one, or a file in the configuration directory's `themes`
    #[arg(long, global = true, value_name = "NAME", env = "CAPSTAN_THEME")]
    pub theme: Option<String>,
    /// Keymap by name: a built-in one, or a file in the configuration directory's `keymaps`
    #[arg(long, global = true, value_name = "NAME", env = "CAPSTAN_KEYMAP")]
    pub keymap: Option<String>,
    /// Only ASCII characters, also for borders and glyphs; so too where LC_ALL, LC_CTYPE or LANG name a charset other
    /// than UTF-8
    #[arg(long, global = true)]
    pub ascii: bool,
    /// Draw news at most so often, for a slow link: 10 times a second, or less, such as 0.5. Keys are answered at once
    #[arg(long, global = true, value_name = "N", value_parser = positive)]
    pub frames_per_second: Option<f64>,
    /// Run this in a shell whenever the verdict of a cluster turns; CAPSTAN_CLUSTER, CAPSTAN_NAMESPACE, CAPSTAN_VERDICT,
    /// CAPSTAN_VERDICT_BEFORE and CAPSTAN_WHY say which and why
    #[arg(long, global = true, value_name = "COMMAND")]
    pub on_turn: Option<String>,
    /// Keep nothing of what happened for the next run (`t`, `:since`); `history = false` in contexts.toml does the same for
    /// a context
    #[arg(long, global = true)]
    pub no_history: bool,
    /// A picture for a wall: the time, what is not well and what rolls page by page, what changed since the shift began. Nothing
    /// can be changed, as with --read-only
    #[arg(long, global = true)]
    pub wallboard: bool,
    /// When the shift began, for --wallboard: 09:00 (UTC), 8h ago, or a moment; without it now
    #[arg(long, global = true, value_name = "TIME", requires = "wallboard", value_parser = past)]
    pub shift: Option<String>,
    /// Colours to use
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: ColorArg,
    /// Addresses of the web on the screen as links (OSC 8); without it where the terminal is not known to print them
    #[arg(long, global = true, value_name = "on|off")]
    pub links: Option<LinksArg>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LinksArg {
    On,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ColorArg {
    Auto,
    Never,
    #[value(name = "16")]
    Sixteen,
    #[value(name = "256")]
    Indexed,
    Truecolor,
}

/// A moment of the past, as [`parse_past`] reads it.
fn past(text: &str) -> Result<String, String> {
    // Only the form is looked at here: which moment it is depends on the clock.
    match parse_past(text, Timestamp::MAX_UTC) {
        Some(_) => Ok(text.to_owned()),
        None => Err("expected 09:00 (UTC), 8h, or a moment such as 2026-11-20T10:00:00Z".to_owned()),
    }
}

/// A finite number above 0.
///
/// # Errors
/// What is expected, in a sentence.
pub(super) fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(n) if n.is_finite() && n > 0.0 => Ok(n),
        _ => Err("expected a number above 0, such as 1, 10 or 0.5".to_owned()),
    }
}
