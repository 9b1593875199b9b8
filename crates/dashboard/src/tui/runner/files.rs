//! The files of the configuration folder that the screen is made of: which changed since they were read, and how they are read anew. Must not
//! know what is done with them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::Loading;
use crate::tui::command;
use crate::tui::effect::{EffectOutcome, Reread};
use crate::tui::look::Look;
use crate::tui::plugin;

/// Folders whose TOML files count.
const FOLDERS: [&str; 4] = ["themes", "keymaps", "explanations", "consoles"];
/// Files are looked at so seldom, and only while something else wakes the program.
const EVERY: Duration = Duration::from_secs(2);

/// When each file was written last, and how long it is.
type Stamps = BTreeMap<PathBuf, (Option<SystemTime>, u64)>;

/// Looks at the files, one look at a time.
#[derive(Default)]
pub(super) struct Files {
    /// `None`: before the first look.
    stamps: Arc<Mutex<Option<Stamps>>>,
    looked_at: Option<Instant>,
    look: Option<JoinHandle<()>>,
}

impl Files {
    /// Reads what the screen is made of anew if a file changed since the last look.
    pub(super) fn look(
        &mut self,
        loading: &Loading,
        names: (&str, &str),
        outcomes: &mpsc::Sender<EffectOutcome>,
    ) {
        let is_fresh = self.looked_at.is_some_and(|at| at.elapsed() < EVERY);
        let is_looking = self.look.as_ref().is_some_and(|look| !look.is_finished());
        if is_fresh || is_looking || loading.config_dir.is_none() {
            return;
        }
        self.looked_at = Some(Instant::now());
        self.begin(loading, names, outcomes, false);
    }

    /// Reads it anew whatever changed.
    pub(super) fn read(
        &mut self,
        loading: &Loading,
        names: (&str, &str),
        outcomes: &mpsc::Sender<EffectOutcome>,
    ) {
        self.begin(loading, names, outcomes, true);
    }

    /// Until the last look is over.
    #[cfg(test)]
    pub(super) async fn ended(&mut self) {
        if let Some(look) = self.look.take() {
            look.await.expect("it ends");
        }
    }

    /// Aside: a configuration folder may be on a slow disk.
    fn begin(
        &mut self,
        loading: &Loading,
        (theme, keymap): (&str, &str),
        outcomes: &mpsc::Sender<EffectOutcome>,
        is_asked: bool,
    ) {
        let (loading, outcomes, stamps) = (loading.clone(), outcomes.clone(), Arc::clone(&self.stamps));
        let (theme, keymap) = (theme.to_owned(), keymap.to_owned());
        self.look = Some(tokio::task::spawn_blocking(move || {
            let changed = changed(loading.config_dir.as_deref(), &stamps);
            if changed.is_empty() && !is_asked {
                return;
            }
            let Loading { tier, ascii, config_dir } = loading;
            let look = Look::load(&theme, &keymap, tier, ascii, config_dir, command::check);
            let reread = Reread { changed, is_asked, look: look.map(Box::new) };
            let _ = outcomes.blocking_send(EffectOutcome::Reread(reread));
        }));
    }
}

/// The files that are new, gone or written since the last look; none at the first one.
fn changed(config_dir: Option<&Path>, known: &Mutex<Option<Stamps>>) -> Vec<PathBuf> {
    let Some(folder) = config_dir else { return Vec::new() };
    let now = stamps(folder);
    let Some(before) = known.lock().replace(now.clone()) else { return Vec::new() };
    let differs = |path: &&PathBuf| before.get(*path) != now.get(*path);
    let mut changed: Vec<PathBuf> = before.keys().chain(now.keys()).filter(differs).cloned().collect();
    changed.sort();
    changed.dedup();
    changed
}

fn stamps(folder: &Path) -> Stamps {
    let listed =
        FOLDERS.iter().filter_map(|name| std::fs::read_dir(folder.join(name)).ok()).flatten().flatten();
    let paths = listed.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "toml"));
    let stamp = |path: PathBuf| {
        // Behind a link counts what it leads to.
        let data = std::fs::metadata(&path).ok()?;
        Some((path, (data.modified().ok(), data.len())))
    };
    paths.chain([folder.join(plugin::FILE)]).filter_map(stamp).collect()
}
