//! How it looks, which keys do what, how reasons are explained and where consoles are: everything that comes from files of the configuration
//! folder, read together. Must not know what is on the screen.

use std::path::PathBuf;

use super::keymap::{CheckLine, Keymap};
use super::plugin::Plugins;
use super::theme::{Theme, Tier};
use crate::fleet::{Consoles, Explanations};
use capstan_base::toml_file::FileError;

/// What is loaded, with what is needed to load another.
#[derive(Debug)]
pub struct Look {
    pub theme: Theme,
    pub keymap: Keymap,
    pub explanations: Explanations,
    pub consoles: Consoles,
    pub plugins: Plugins,
    pub tier: Tier,
    pub ascii: bool,
    pub config_dir: Option<PathBuf>,
}

impl Look {
    /// `check`: the lines that a keymap may bind.
    ///
    /// # Errors
    /// A theme, a keymap, explanations, consoles or plugins that cannot be used: file, line and what was expected.
    pub fn load(
        theme: &str,
        keymap: &str,
        tier: Tier,
        ascii: bool,
        config_dir: Option<PathBuf>,
        check: CheckLine,
    ) -> Result<Self, FileError> {
        let theme = Theme::load(theme, config_dir.as_deref(), tier, ascii)?;
        let mut keymap = Keymap::load(keymap, config_dir.as_deref(), check)?;
        let plugins = Plugins::load(config_dir.as_deref(), &mut keymap)?;
        let explanations = Explanations::load(config_dir.as_deref())?;
        let consoles = Consoles::load(config_dir.as_deref())?;
        Ok(Self { theme, keymap, explanations, consoles, plugins, tier, ascii, config_dir })
    }
}
