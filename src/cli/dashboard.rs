//! The dashboard over one connection: wires watch, actions and terminal. Owns the wiring; must not know
//! where the connection came from.

use std::collections::BTreeMap;

use crate::actions::Executor;
use crate::actions::journal::Journal;
use crate::client::Connection;
use crate::fleet::SourceId;
use crate::fleet::watch::{self, Scope};
use crate::rng::Rng;
use crate::time::Clock;
use crate::tui::{self, Exit, Options, Session, SourceHandle, Tier};

use super::args::{ColorArg, ConnectArgs, ScreenArgs};
use super::{paths, person};

/// Shows `connection` until the user quits.
///
/// # Errors
/// No usable terminal, or a theme or keymap that cannot be used.
pub async fn show(
    connection: &Connection,
    connect: &ConnectArgs,
    screen: &ScreenArgs,
    clock: Clock,
    rng: &Rng,
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
    let executor =
        Executor::new(connection.clone(), Journal::at(paths::journal()?), clock.clone(), person::user());
    let handle = SourceHandle { source: Some(source), executor: Some(executor) };
    let options = Options {
        session,
        theme: screen.theme.clone().unwrap_or_else(|| "default".to_owned()),
        keymap: screen.keymap.clone().unwrap_or_else(|| "default".to_owned()),
        ascii: screen.ascii || person::is_locale_plain(|name| std::env::var(name).ok()),
        tier: tier(screen.color),
        config_dir: paths::config_dir().ok(),
        folds: paths::folds().ok(),
        clock,
    };
    Ok(tui::run(options, vec![deltas], BTreeMap::from([(id, handle)])).await?)
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
