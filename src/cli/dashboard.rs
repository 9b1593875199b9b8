//! The dashboard over one connection, or over files: wires watch, actions and terminal. Owns the wiring; must not know
//! where the connection came from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::bail;
use tokio::sync::mpsc;

use crate::client::Connection;
use crate::fleet::watch::{self, Recording, Scope};
use crate::fleet::{Delta, SourceId};
use crate::rng::Rng;
use crate::time::{Clock, rfc3339};
use crate::tui::{self, Exit, Options, Session, SourceHandle, Tier};

use super::args::{ColorArg, ConnectArgs, ScreenArgs};
use super::documents::documents;
use super::{paths, person};

/// Shows `connection` until the user quits. What was learnt is kept for the next time, unless there is none: `is_passing`.
///
/// # Errors
/// No usable terminal, or a theme or keymap that cannot be used.
pub async fn show(
    connection: &Connection,
    connect: &ConnectArgs,
    screen: &ScreenArgs,
    clock: Clock,
    rng: &Rng,
    is_passing: bool,
) -> anyhow::Result<Exit> {
    let scope = scope(connect);
    let session = Session {
        title: crate::text::sanitize_line(&connection.context),
        scope: scope
            .namespace
            .as_ref()
            .map_or_else(|| "all namespaces".to_owned(), |ns| format!("namespace {ns}")),
        read_only: connection.read_only,
    };
    let id = SourceId(0);
    let (deltas, source) = watch::spawn(connection, id, scope, clock.clone(), rng.stream("fleet"));
    let executor = super::executor(connection.clone(), clock.clone())?;
    let handle = SourceHandle { source: Some(source), executor: Some(executor), recording: None };
    let mut options = options(session, screen, clock);
    options.state_dir.take_if(|_| is_passing);
    Ok(tui::run(options, vec![deltas], BTreeMap::from([(id, handle)])).await?)
}

/// Shows the objects of files as they were when they were written down. Nothing is asked, nothing can be changed.
///
/// # Errors
/// What cannot be read or understood; no usable terminal, or a theme or keymap that cannot be used.
pub async fn browse(files: &[PathBuf], screen: &ScreenArgs) -> anyhow::Result<Exit> {
    if files.iter().any(|file| file == Path::new("-")) {
        bail!("- cannot be shown: standard input is where the keys come from; name a file");
    }
    let (documents, mut remarks) = documents(files, &[])?;
    let lacking = documents.iter().filter_map(|d| Some(format!("{}: {}", d.origin, d.lacks()?)));
    remarks.extend(lacking.collect::<Vec<_>>());
    let recording = Recording::new(documents.into_iter().filter(|d| d.lacks().is_none()).map(|d| d.value));
    let at = recording.made_at().unwrap_or_else(|| Clock::system().now());
    let name = files.iter().filter_map(|file| file.file_name()).map(|name| name.to_string_lossy());
    let title = crate::text::sanitize_line(&name.collect::<Vec<_>>().join(" "));
    let id = SourceId(0);
    let mut batch = recording.deltas(id, &title, at);
    if let Some(first) = remarks.first() {
        let text = crate::text::sanitize_line(first).into();
        batch.push(Delta::Notice { source: id, text: Some(text) });
    }
    let (send, deltas) = mpsc::channel(1);
    send.send(batch).await?;
    let session = Session { title, scope: format!("as of {}", rfc3339(at)), read_only: true };
    let handle = SourceHandle { recording: Some(recording), ..SourceHandle::default() };
    let options = options(session, screen, Clock::fixed(at));
    Ok(tui::run(options, vec![deltas], BTreeMap::from([(id, handle)])).await?)
}

fn options(session: Session, screen: &ScreenArgs, clock: Clock) -> Options {
    Options {
        session,
        theme: screen.theme.clone().unwrap_or_else(|| "default".to_owned()),
        keymap: screen.keymap.clone().unwrap_or_else(|| "default".to_owned()),
        ascii: screen.ascii || person::is_locale_plain(|name| std::env::var(name).ok()),
        tier: tier(screen.color),
        config_dir: paths::config_dir().ok(),
        state_dir: paths::state_dir().ok(),
        clock,
    }
}

/// Every namespace unless one is named: a fleet is looked at as a whole.
fn scope(connect: &ConnectArgs) -> Scope {
    Scope { namespace: if connect.all_namespaces { None } else { connect.namespace.clone() } }
}

/// How many colours to use.
#[must_use]
pub fn tier(color: ColorArg) -> Tier {
    match color {
        ColorArg::Auto => Tier::detect(|name| std::env::var(name).ok()),
        ColorArg::Never => Tier::None,
        ColorArg::Sixteen => Tier::Ansi16,
        ColorArg::Indexed => Tier::Ansi256,
        ColorArg::Truecolor => Tier::True,
    }
}
