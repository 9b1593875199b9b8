//! `capstan engine status`: the Leases of capstan's engines, who holds them and what runs under them.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use serde_json::json;

use super::leases::{self, all_known};
use super::output::{self, Style};
use crate::arguments::PlanOutputArg;
use capstan_base::text;
use capstan_base::time::{Timestamp, human_duration};
use capstan_engine::client::Client;
use k8s_machinery::lease;
use leader_migration::lock_view::{LockState, WatchedLease};

/// The primary Lease of an engine without a file.
pub const ENGINE_LEASE: &str = "capstan-engine";
/// Longer than a Lease of an engine is good; a duration that somebody else wrote there may be anything.
const LOOK_MAX: Duration = Duration::from_secs(120);

#[derive(Clone, Debug, Args)]
pub struct EngineStatusArgs {
    /// Namespace of the Leases; without it that of --namespace, else `default`
    #[arg(long, value_name = "NS")]
    pub lease_namespace: Option<String>,
    #[arg(short, long, default_value = "text")]
    pub output: PlanOutputArg,
}

/// Looks until each Lease was seen to change or to stay the same for as long as it is good; a healthy engine's changes
/// within a few seconds.
///
/// # Errors
/// The Leases cannot be listed.
pub async fn look(client: &Client, namespace: &str) -> anyhow::Result<Vec<WatchedLease>> {
    leases::look(client, namespace, lease::COMPONENT, LOOK_MAX, all_known).await
}

/// Refuses to begin beside engines that divide the work otherwise: one without a file runs every controller.
///
/// # Errors
/// Who works there, and what to do.
pub async fn refuse_other_kind(client: &Client, namespace: &str, is_shared: bool) -> anyhow::Result<()> {
    let leases = look(client, namespace).await?;
    // An engine without a file holds the Lease of this name; those that share the work have others.
    let is_other =
        |lease: &&WatchedLease| lease.state() == LockState::Held && (lease.name == ENGINE_LEASE) == is_shared;
    let Some(other) = leases.iter().find(is_other) else { return Ok(()) };
    let (holder, name) = (text::sanitize_line(&other.holder), text::sanitize_line(&other.name));
    if is_shared {
        bail!(
            "{holder} holds Lease {namespace}/{name} and runs every controller: stop it, or start it with \
             --leader-migration-config"
        );
    }
    bail!(
        "{holder} holds Lease {namespace}/{name}, and runs a part of the controllers: start with \
         --leader-migration-config too"
    );
}

/// Why the controllers of an engine do not run: what they wait for, each with why it cannot be read.
pub fn held_up(by: &str) -> String {
    format!("the controllers do not run until these can be read: {by}")
}

const HEADS: [&str; 9] =
    ["LEASE", "COMPONENT", "STATE", "HOLDER", "RENEWED", "TRANSITIONS", "CONTROLLERS", "GATES", "HANDLERS"];

fn cells(lease: &WatchedLease, now: Timestamp) -> [String; 9] {
    let shown = |text: &str| if text.is_empty() { "-".to_owned() } else { text::sanitize_line(text) };
    let age_s = lease.renewed_us.map(|us| (now.timestamp_micros() - us) / 1_000_000);
    [
        text::sanitize_line(&lease.name),
        shown(lease.engine.as_deref().unwrap_or_default()),
        lease.state().word().to_owned(),
        shown(&lease.holder),
        // The holder's clock wrote it, which may be ahead of this one.
        age_s.map_or("-".to_owned(), |age| human_duration(age.max(0))),
        lease.transitions.to_string(),
        match lease.controllers.as_str() {
            // An engine that shares the work names its part under other Leases.
            "" if lease.name == ENGINE_LEASE && lease.engine.is_some() => "all".to_owned(),
            named => shown(named),
        },
        shown(&lease.feature_gates),
        shown(&lease.in_place_handlers),
    ]
}

/// As a table, or as data.
///
/// # Errors
/// Never for plain values.
pub fn print(
    leases: &[WatchedLease],
    now: Timestamp,
    output: PlanOutputArg,
    style: Style,
) -> anyhow::Result<String> {
    if output == PlanOutputArg::Json {
        let object = |lease: &WatchedLease| -> BTreeMap<String, String> {
            let held_up = ("heldUpBy".to_owned(), lease.held_up_by.clone());
            let held_up = Some(held_up).filter(|_| is_held_up(lease));
            HEADS.map(str::to_lowercase).into_iter().zip(cells(lease, now)).chain(held_up).collect()
        };
        return Ok(output::json(&json!({ "leases": leases.iter().map(object).collect::<Vec<_>>() }))?);
    }
    let mut rows = vec![HEADS.map(str::to_owned).to_vec()];
    rows.extend(leases.iter().map(|lease| cells(lease, now).to_vec()));
    let waiting = leases.iter().filter(|lease| is_held_up(lease));
    let lines: String = waiting
        .map(|lease| format!("{}: {}\n", text::sanitize_line(&lease.name), held_up(&lease.held_up_by)))
        .collect();
    Ok(style.block(output::table(&rows) + &lines))
}

/// The notes of a holder that is gone stay on the Lease.
fn is_held_up(lease: &WatchedLease) -> bool {
    lease.state() == LockState::Held && !lease.held_up_by.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The Lease of an engine that runs everything had a blank where others name their part.
    #[test]
    fn an_engine_that_runs_everything_says_so() {
        for (name, engine, controllers, expected) in [
            (ENGINE_LEASE, Some("engine"), "", "all"),
            (ENGINE_LEASE, None, "", "-"),
            ("capstan-engine-east", Some("east"), "", "-"),
            ("capstan-machines", Some("east"), "machine,cluster", "machine,cluster"),
        ] {
            let lease = WatchedLease {
                name: name.to_owned(),
                engine: engine.map(str::to_owned),
                controllers: controllers.to_owned(),
                ..WatchedLease::default()
            };
            assert_eq!(cells(&lease, Timestamp::default())[6], expected, "{name} {engine:?}");
        }
    }
}
