//! The terminal. Elm-shaped: `update` changes the model and returns effects, `view` draws.
//! Must not know a client, the engine, the store or the provider: a management cluster, the embedded
//! server and a dump look the same from here, as batches of deltas.

mod asking;
pub mod command;
pub mod contexts;
pub mod cursor;
mod editing;
pub mod effect;
mod event_loop;
pub mod folds;
pub mod hints;
pub mod history;
pub mod keeping;
pub mod keymap;
mod launching;
pub mod layout;
pub mod links;
pub mod look;
pub mod model;
pub mod msg;
pub mod outside;
pub mod overlay;
pub mod paint;
pub mod plans;
pub mod plugin;
pub mod reads;
pub mod reference;
pub mod replay;
mod replaying;
pub mod report;
mod rereading;
pub mod rights;
pub mod runner;
pub mod screen;
pub mod script;
pub mod subject;
pub mod terminal;
pub mod theme;
pub mod turns;
pub mod update;
pub mod view;
pub mod widget;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ratatui::layout::Rect;
use tokio::sync::mpsc;

pub use contexts::{Contexts, Opened};
pub use event_loop::{Exit, ScreenEnd};
pub use model::Session;
pub use msg::LoginNews;
pub use replay::Replay;
pub use runner::SourceHandle;
pub use screen::wallboard::Wallboard;
pub use terminal::TerminalError;
pub use theme::Tier;

use crate::fleet::{Delta, SourceId};
use capstan_base::time::Clock;
use capstan_base::toml_file::FileError;
use model::{Hook, Look, Model};
use turns::Turns;

/// What the dashboard needs besides data.
pub struct Options {
    pub session: Session,
    pub theme: String,
    pub keymap: String,
    pub ascii: bool,
    pub tier: Tier,
    /// Addresses on the screen are links; `None`: where the terminal is not known to print them.
    pub links: Option<bool>,
    /// Where `themes/`, `keymaps/`, `explanations/` and `consoles/` are looked for before those built in.
    pub config_dir: Option<PathBuf>,
    /// Where marks, folds and usual times are kept between runs; `None`: nowhere.
    pub state_dir: Option<PathBuf>,
    pub clock: Clock,
    /// Shortest time between two frames that nobody asked for; `None`: a tenth of a second.
    pub frame_min: Option<Duration>,
    /// Run by a shell whenever a cluster turns; what turned is its environment.
    pub hook: Option<String>,
    /// What else may be looked at; `None`: there is no kubeconfig behind this.
    pub contexts: Option<Arc<dyn Contexts>>,
    /// What programs say that log somebody in; `None`: there are none.
    pub logins: Option<mpsc::Receiver<LoginNews>>,
    /// The kubeconfig that was named, for programs that are run on an object.
    pub kubeconfig: Option<PathBuf>,
    /// A recording in place of a server; its clock is `clock`.
    pub replay: Option<Replay>,
    /// A wallboard in place of the screens.
    pub wallboard: Option<Wallboard>,
    /// Shown at first: why there is no server, for example.
    pub notice: Option<(String, String)>,
}

/// Why the dashboard did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum TuiError {
    #[error(transparent)]
    Terminal(#[from] TerminalError),
    #[error(transparent)]
    File(#[from] FileError),
}

/// Runs the dashboard until somebody leaves. The first frame is drawn before any data arrives; data
/// comes as batches from one receiver per source, and actions go through the source's handle.
///
/// # Errors
/// No usable terminal, or a theme, a keymap or explanations that cannot be used. The terminal is as it was before.
pub async fn run(
    options: Options,
    deltas: Vec<mpsc::Receiver<Vec<Delta>>>,
    handles: BTreeMap<SourceId, SourceHandle>,
) -> Result<ScreenEnd, TuiError> {
    let look = Look::load(
        &options.theme,
        &options.keymap,
        options.tier,
        options.ascii,
        options.config_dir,
        command::check,
    )?;
    let mut model = Model::new(options.session, look, Rect::new(0, 0, 80, 24), options.clock.now());
    model.keep_in(options.state_dir.as_deref());
    model.preferences.hook = options.hook.map(|command| Hook { command, turns: Turns::default() });
    model.contexts = options.contexts.as_ref().map(|contexts| contexts.names()).unwrap_or_default();
    model.kubeconfig = options.kubeconfig;
    model.preferences.links = options
        .links
        .unwrap_or_else(|| terminal::has_links(|name| std::env::var(name).ok(), options.tier == Tier::None));
    model.wallboard = options.wallboard;
    if let Some(replay) = options.replay {
        model.begin_replay(replay);
    }
    if let Some((title, text)) = options.notice {
        model.notice(title, text);
    }
    // Without a sender nothing ever comes.
    let logins = options.logins.unwrap_or_else(|| mpsc::channel(1).1);
    let ended = {
        let frame_min = options.frame_min.unwrap_or(event_loop::FRAME_MIN);
        event_loop::run(&mut model, options.clock, deltas, handles, options.contexts, logins, frame_min)
            .await?
    };
    model.keep_last();
    Ok(ended)
}
