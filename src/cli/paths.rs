//! Where capstan keeps its files (XDG base directories). Owns names of folders; creates none.

use std::path::PathBuf;

use anyhow::Context as _;
use etcetera::base_strategy::{BaseStrategy, Xdg};

const NAME: &str = "capstan";

fn base() -> anyhow::Result<Xdg> {
    Xdg::new()
        .context("cannot tell where your files are kept: set HOME, or XDG_CONFIG_HOME and XDG_DATA_HOME")
}

/// `themes/` and `keymaps/` in it override the embedded ones.
pub fn config_dir() -> anyhow::Result<PathBuf> {
    Ok(base()?.config_dir().join(NAME))
}

/// The standalone store without `--data-dir`.
pub fn data_dir() -> anyhow::Result<PathBuf> {
    Ok(base()?.data_dir().join(NAME))
}

/// What is kept between two runs: the journal, marks, folds and usual times.
pub fn state_dir() -> anyhow::Result<PathBuf> {
    let base = base()?;
    Ok(base.state_dir().unwrap_or_else(|| base.data_dir()).join(NAME))
}

/// The journal of actions.
pub fn journal() -> anyhow::Result<PathBuf> {
    Ok(state_dir()?.join("journal.jsonl"))
}
