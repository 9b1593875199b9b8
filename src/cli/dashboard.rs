//! The dashboard over one connection, or over files: wires watch, actions and terminal. Owns the wiring; must not know
//! where the connection came from.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use futures::future::BoxFuture;
use tokio::sync::mpsc;

use capstan_base::private_file::open_regular;
use capstan_base::rng::Rng;
use capstan_base::time::{Clock, parse_past, rfc3339};
use capstan_dashboard::fleet::watch::{self, Recording, Scope, Tape};
use capstan_dashboard::fleet::{Delta, SourceId};
use capstan_dashboard::operations::ServerLogs;
use capstan_dashboard::tui::history::name_of;
use capstan_dashboard::tui::{
    self, Contexts, Exit, LoginNews, Opened, Options, Replay, Session, SourceHandle, Tier, Wallboard,
};
use capstan_engine::client::connect::{contexts, prepare};
use capstan_engine::client::{
    ConnectError, ConnectOptions, Connection, ContextSetting, PluginNews, PluginTerminal, Rank,
};

use capstan_host_provider::access::Machines;
use capstan_host_provider::ssh::SshMachines;

use super::args::{Cli, ColorArg, ConnectArgs, DashboardArgs, LinksArg, ScreenArgs};
use super::{paths, person};
use capstan_commands::documents::documents;
use capstan_commands::exit_code::WrongUsage;
use capstan_commands::host::run_log::HostRunLogs;
use capstan_commands::output::remark;

/// Machines as the operator's own ssh reaches them; none is changed.
pub fn own_machines(clock: &Clock) -> Arc<dyn Machines> {
    Arc::new(SshMachines::new("ssh", clock.clone(), true))
}

/// What is behind a dashboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Behind {
    /// Servers of a kubeconfig: others may be looked at.
    Kubeconfig,
    /// A server in this process whose objects are kept, in that place. The notice is shown at the start: its title, and its text.
    Store { place: String, notice: Option<(String, String)> },
    /// A server in this process that ends with it: nothing that is learnt is kept.
    Memory,
}

/// What plugins say waits for the screen.
const LOGIN_LINES: usize = 256;
/// Of them kept for begins and ends: an end that is lost would leave its plugin on the screen.
const KEPT_FOR_ENDS: usize = 16;

/// Shows the server of the kubeconfig until the user quits. Where it cannot be opened and others are there, they are offered.
///
/// # Errors
/// As [`show`], and why there is nothing to show.
pub async fn show_kubeconfig(connect: &ConnectArgs, screen: &ScreenArgs) -> anyhow::Result<Exit> {
    let (clock, rng) = (Clock::system(), Rng::from_entropy());
    let options = super::options(connect)?;
    let prepared = prepare(&options).await;
    let machines = own_machines(&clock);
    let servers = Servers {
        options,
        scope: scope(connect),
        clock,
        rng,
        place: None,
        keeps_history: !screen.no_history,
        machines,
    };
    match prepared {
        Ok(connection) => servers.show(&connection, screen, Behind::Kubeconfig).await,
        // Only at a terminal is there somebody who can choose another context.
        Err(error) if is_one_of_several(&error, &servers.options) && std::io::stdout().is_terminal() => {
            servers.offer(&error.to_string(), screen).await
        }
        Err(error) => Err(error.into()),
    }
}

/// A name that was mistyped on the command line is said there.
fn is_one_of_several(error: &ConnectError, options: &ConnectOptions) -> bool {
    !matches!(error, ConnectError::UnknownContext { .. }) && contexts(options.kubeconfig.as_deref()).len() > 1
}

/// Shows `connection` until the user quits. What was learnt is kept for the next time, where there is one.
///
/// # Errors
/// No usable terminal, or a theme or keymap that cannot be used.
pub async fn show(
    connection: &Connection,
    cli: &Cli,
    clock: Clock,
    rng: &Rng,
    behind: Behind,
    machines: Arc<dyn Machines>,
) -> anyhow::Result<Exit> {
    let (connect, screen) = (&cli.connect, &cli.screen);
    let place = if let Behind::Store { place, .. } = &behind { Some(place.clone()) } else { None };
    let (options, keeps_history) = (super::options(connect)?, !screen.no_history);
    let (scope, rng) = (scope(connect), rng.clone());
    let servers = Servers { options, scope, clock, rng, place, keeps_history, machines };
    servers.show(connection, screen, behind).await
}

/// From now on plugins have no terminal, and what they say is shown.
fn shown(terminal: &PluginTerminal) -> mpsc::Receiver<LoginNews> {
    let (send, logins) = mpsc::channel(LOGIN_LINES);
    terminal.show_with(move |news| {
        let news = match news {
            PluginNews::Runs { program, limit } => LoginNews::Runs { program, limit },
            // A line that finds no room is one of very many.
            PluginNews::Says(_) if send.capacity() <= KEPT_FOR_ENDS => return,
            PluginNews::Says(line) => LoginNews::Says(line),
            PluginNews::Ended => LoginNews::Ended,
        };
        let _ = send.try_send(news);
    });
    logins
}

/// The servers of a kubeconfig, as the arguments say how to look at them.
#[derive(Clone)]
struct Servers {
    options: ConnectOptions,
    scope: Scope,
    clock: Clock,
    rng: Rng,
    /// Where the objects of a server in this process are kept.
    place: Option<String>,
    /// What happened is kept for the next run.
    keeps_history: bool,
    /// For the logs of Hosts.
    machines: Arc<dyn Machines>,
}

impl Servers {
    async fn show(
        self,
        connection: &Connection,
        screen: &ScreenArgs,
        behind: Behind,
    ) -> anyhow::Result<Exit> {
        let Opened { session, source, deltas, handle } = self.watch(connection, SourceId(0))?;
        let mut options = options(session, screen, self.clock.clone());
        match behind {
            Behind::Kubeconfig => {
                options.kubeconfig.clone_from(&self.options.kubeconfig);
                options.logins = Some(shown(&self.options.terminal));
                options.contexts = Some(Arc::new(self));
            }
            Behind::Store { notice, .. } => options.notice = notice,
            Behind::Memory => options.state_dir = None,
        }
        run_screen(options, vec![deltas], BTreeMap::from([(source, handle)])).await
    }

    /// Nothing is open: the other contexts are offered, with why.
    async fn offer(self, why: &str, screen: &ScreenArgs) -> anyhow::Result<Exit> {
        let title = self.options.context.clone().unwrap_or_else(|| "no server".to_owned());
        let session = Self::session(&title, &self.scope, self.options.read_only);
        let mut options = options(session, screen, self.clock.clone());
        let text = format!("{why}\n\n:context NAME opens one of: {}", self.names().join(", "));
        options.kubeconfig.clone_from(&self.options.kubeconfig);
        options.notice = Some(("The context was not opened".to_owned(), text));
        options.logins = Some(shown(&self.options.terminal));
        options.contexts = Some(Arc::new(self));
        run_screen(options, Vec::new(), BTreeMap::new()).await
    }

    fn session(title: &str, scope: &Scope, read_only: bool) -> Session {
        let namespace = scope.namespace.as_ref();
        Session {
            title: capstan_base::text::sanitize_line(title),
            mark: None,
            scope: namespace.map_or_else(|| "all namespaces".to_owned(), |ns| format!("namespace {ns}")),
            read_only,
            confirm_after_s: 0,
            history: None,
        }
    }

    fn watch(&self, connection: &Connection, id: SourceId) -> anyhow::Result<Opened> {
        // What is shown is what that user may see.
        let title = match &self.options.impersonated.user {
            Some(user) => format!("{} as {user}", connection.context),
            None => connection.context.clone(),
        };
        let scope = scope_of(&self.scope, self.options.all_namespaces, connection);
        let mark = mark(&connection.setting);
        let is_kept = self.keeps_history && connection.setting.history;
        let place = self.place.as_deref().unwrap_or(&connection.server);
        let history = is_kept.then(|| name_of(&title, place, scope.namespace.as_deref()));
        let confirm_after_s = connection.setting.confirm_after_s;
        let session =
            Session { mark, history, confirm_after_s, ..Self::session(&title, &scope, connection.read_only) };
        let rng = self.rng.stream(&format!("fleet {}", id.0));
        let (deltas, source) = watch::spawn(connection, id, scope, self.clock.clone(), rng);
        let executor =
            super::executor(connection.clone(), self.clock.clone())?.with_logs(self.logs(connection));
        let handle = SourceHandle { source: Some(source), executor: Some(executor), recording: None };
        Ok(Opened { session, source: id, deltas, handle })
    }

    fn logs(&self, connection: &Connection) -> ServerLogs {
        let hosts = HostRunLogs { connection: connection.clone(), machines: self.machines.clone() };
        ServerLogs { connection: connection.clone(), hosts: Some(Arc::new(hosts)) }
    }
}

impl Contexts for Servers {
    fn names(&self) -> Vec<String> {
        contexts(self.options.kubeconfig.as_deref())
    }

    fn open(&self, name: String, id: SourceId) -> BoxFuture<'static, Result<Opened, String>> {
        let mut servers = self.clone();
        servers.options.context = Some(name);
        Box::pin(async move {
            let connection = prepare(&servers.options).await.map_err(|error| error.to_string())?;
            servers.watch(&connection, id).map_err(|error| error.to_string())
        })
    }
}

/// Shows the objects of files as they were when they were written down. Nothing is asked, nothing can be changed.
///
/// # Errors
/// What cannot be read or understood; no usable terminal, or a theme or keymap that cannot be used.
pub async fn browse(args: &DashboardArgs, screen: &ScreenArgs) -> anyhow::Result<Exit> {
    if let Some(path) = recording(args)? {
        return replay(&path, screen).await;
    }
    let files = &args.files;
    if files.iter().any(|file| file == Path::new("-")) {
        bail!(WrongUsage(
            "- cannot be shown: standard input is where the keys come from; name a file".to_owned()
        ));
    }
    let (documents, mut remarks) = documents(files, &[])?;
    let lacking = documents.iter().filter_map(|d| Some(format!("{}: {}", d.origin, d.lacks()?)));
    remarks.extend(lacking.collect::<Vec<_>>());
    let recording = Recording::new(documents.into_iter().filter(|d| d.lacks().is_none()).map(|d| d.value));
    let present = Clock::system().now();
    let (at, word) = match args.now {
        Some(moment) => (moment.seen_from(present), "as of"),
        None => (recording.made_at().unwrap_or(present), "after"),
    };
    let name = files.iter().filter_map(|file| file.file_name()).map(|name| name.to_string_lossy());
    let title = capstan_base::text::sanitize_line(&name.collect::<Vec<_>>().join(" "));
    let id = SourceId(0);
    let mut batch = recording.deltas(id, &title, at);
    if let Some(first) = remarks.first() {
        let text = capstan_base::text::sanitize_line(first).into();
        batch.push(Delta::Notice { source: id, text: Some(text) });
    }
    // Room for the one batch that there is: it is read when the screen runs.
    let (send, deltas) = mpsc::channel(1);
    send.send(batch).await?;
    let scope = format!("{word} {}", rfc3339(at));
    let session = Session { title, scope, read_only: true, ..Session::default() };
    let handle = SourceHandle { recording: Some(recording), ..SourceHandle::default() };
    let options = options(session, screen, Clock::fixed(at));
    run_screen(options, vec![deltas], BTreeMap::from([(id, handle)])).await
}

/// The file of `capstan record` that is named, or is the one file.
fn recording(args: &DashboardArgs) -> anyhow::Result<Option<PathBuf>> {
    if args.replay.is_some() {
        return Ok(args.replay.clone());
    }
    let [path] = args.files.as_slice() else { return Ok(None) };
    let Ok(Some((mut file, _))) = open_regular(path) else { return Ok(None) };
    // The first line of a recording differs from other JSON within so many bytes.
    let mut first = [0; 64];
    let read = file.read(&mut first).with_context(|| format!("cannot read {}", path.display()))?;
    let is_one = Tape::is_begun_by(&String::from_utf8_lossy(&first[..read]));
    Ok(is_one.then(|| path.clone()))
}

/// Plays a recording. Nothing is asked, nothing can be changed.
async fn replay(path: &Path, screen: &ScreenArgs) -> anyhow::Result<Exit> {
    let name = capstan_base::text::sanitize_line(&path.display().to_string());
    let Some((file, _)) = open_regular(path)? else { bail!("{name} is not there") };
    let tape = Arc::new(Tape::read(file, &name).map_err(anyhow::Error::msg)?);
    let title = if tape.source.is_empty() { name } else { tape.source.clone() };
    let notice = tape.trouble.clone().map(|why| ("The recording ends early".to_owned(), why));
    let replay = Replay::new(tape, Clock::system());
    let session = Session { title, scope: "replay".to_owned(), read_only: true, ..Session::default() };
    let options = Options { notice, ..options(session, screen, replay.clock()) };
    let options = Options { replay: Some(replay), state_dir: None, ..options };
    run_screen(options, Vec::new(), BTreeMap::from([(SourceId(0), SourceHandle::default())])).await
}

/// Runs the dashboard, and writes what came of a change that was not answered when the person left.
async fn run_screen(
    options: Options,
    deltas: Vec<mpsc::Receiver<Vec<Delta>>>,
    handles: BTreeMap<SourceId, SourceHandle>,
) -> anyhow::Result<Exit> {
    let ended = tui::run(options, deltas, handles).await?;
    for words in &ended.said {
        remark(words);
    }
    Ok(ended.exit)
}

fn options(session: Session, screen: &ScreenArgs, clock: Clock) -> Options {
    let now = clock.now();
    let shift = screen.shift.as_deref().and_then(|typed| parse_past(typed, now)).unwrap_or(now);
    Options {
        wallboard: screen.wallboard.then_some(Wallboard { shift }),
        session,
        theme: screen.theme.clone().unwrap_or_else(|| "default".to_owned()),
        keymap: screen.keymap.clone().unwrap_or_else(|| "default".to_owned()),
        ascii: screen.ascii || person::is_locale_plain(|name| std::env::var(name).ok()),
        tier: tier(screen.color),
        links: screen.links.map(|links| links == LinksArg::On),
        config_dir: paths::config_dir().ok(),
        state_dir: paths::state_dir().ok(),
        clock,
        hook: screen.on_turn.clone(),
        // The bounds keep a tiny number from a pause that no `Duration` can hold.
        frame_min: screen
            .frames_per_second
            .map(|frames| Duration::from_secs_f64((1.0 / frames).clamp(0.01, 3_600.0))),
        contexts: None,
        logins: None,
        kubeconfig: None,
        notice: None,
        replay: None,
    }
}

/// The word of a context, and how it is shown.
fn mark(setting: &ContextSetting) -> Option<(String, tui::theme::Scope)> {
    let scope = match setting.rank {
        Some(Rank::Production) => tui::theme::Scope::Production,
        Some(Rank::Staging) => tui::theme::Scope::Staging,
        Some(Rank::Development) => tui::theme::Scope::Development,
        None => tui::theme::Scope::HeaderContext,
    };
    Some((capstan_base::text::sanitize_line(setting.word()?), scope))
}

/// What is set for the context narrows what is looked at, unless the arguments say what is.
fn scope_of(scope: &Scope, all_namespaces: bool, connection: &Connection) -> Scope {
    let of_setting = connection.setting.namespace.clone().filter(|_| !all_namespaces);
    Scope { namespace: scope.namespace.clone().or(of_setting) }
}

/// What is looked at through a connection, as the arguments and the settings of its context say.
pub(super) fn looked_at(connect: &ConnectArgs, connection: &Connection) -> Scope {
    scope_of(&scope(connect), connect.all_namespaces, connection)
}

/// Every namespace unless one is named: a fleet is looked at as a whole.
fn scope(connect: &ConnectArgs) -> Scope {
    Scope { namespace: if connect.all_namespaces { None } else { connect.namespace.clone() } }
}

/// How many colours to use.
pub fn tier(color: ColorArg) -> Tier {
    match color {
        ColorArg::Auto => Tier::detect(|name| std::env::var(name).ok()),
        ColorArg::Never => Tier::None,
        ColorArg::Sixteen => Tier::Ansi16,
        ColorArg::Indexed => Tier::Ansi256,
        ColorArg::Truecolor => Tier::True,
    }
}
