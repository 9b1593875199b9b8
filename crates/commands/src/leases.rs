//! `capstan leases`: Leases as locks: who holds each, whether the holder lives, what is odd. Owns the look, which other
//! commands use too, and the table. Nothing is written, and no Lease can be taken or deleted from here.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use k8s_openapi::api::coordination::v1::Lease;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::output::{self, Style};
use crate::arguments::{PlanOutputArg, duration, object_name};
use capstan_base::text;
use capstan_base::time::{Clock, Timestamp, human_duration};
use capstan_engine::client::Client;
use capstan_engine::client::errors::chain;
use capstan_engine::client::read::list_values;
use capstan_engine::client::write::gvk_of;
use leader_migration::lock_view::{LockRow, LockState, LockView, Surroundings, WatchedLease, view};
use leader_migration::lock_watch::LockWatch;

#[derive(Clone, Debug, Args)]
pub struct LeasesArgs {
    /// Name of the migration Lease
    #[arg(long, value_name = "NAME", value_parser = object_name, default_value = leader_migration::configuration::DEFAULT_LEADER_NAME)]
    pub leader_name: String,
    /// Look for at most so long; it ends sooner when the state of every Lease is known
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = duration)]
    pub look_for: Duration,
    #[arg(short, long, default_value = "text")]
    pub output: PlanOutputArg,
}

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Looks at the Leases of a namespace (all when empty) that `selector` chooses (all when empty), once a second until
/// `is_enough`, and at most for `limit`, whether the server answers or not.
///
/// # Errors
/// They cannot be listed, or there was no answer at all.
pub async fn look(
    client: &Client,
    namespace: &str,
    selector: &str,
    limit: Duration,
    is_enough: impl Fn(&[WatchedLease]) -> bool,
) -> anyhow::Result<Vec<WatchedLease>> {
    let (began, mut watch, mut seen) = (Instant::now(), LockWatch::default(), None);
    let looking = async {
        loop {
            let found = list_values(client, &gvk_of::<Lease>(), namespace, selector).await;
            let found = found.map_err(|error| anyhow::anyhow!("leases in {namespace}: {}", chain(&error)))?;
            let found =
                found.into_iter().map(serde_json::from_value::<Lease>).collect::<Result<Vec<_>, _>>()?;
            // The command prints no history, so that the moment of a change does not matter.
            watch.look(&found, began.elapsed(), Timestamp::default());
            // Judged before the first pause: what needs no second look is printed at once.
            if is_enough(seen.insert(watch.leases(began.elapsed()))) {
                return Ok(());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    // Time that runs out ends the looking, and what was seen until then counts.
    tokio::time::timeout(limit, looking).await.unwrap_or(Ok::<_, anyhow::Error>(()))?;
    seen.with_context(|| format!("leases in {namespace}: no answer within {} s", limit.as_secs()))
}

/// Every Lease changed, or stayed the same for as long as it is good.
pub fn all_known(leases: &[WatchedLease]) -> bool {
    leases.iter().all(|lease| lease.state() != LockState::Unknown)
}

/// Looks for as long as is needed, at most for the time given, and prints.
///
/// # Errors
/// The Leases cannot be listed.
pub async fn leases(
    client: &Client,
    args: &LeasesArgs,
    namespace: &str,
    clock: &Clock,
    style: Style,
) -> anyhow::Result<String> {
    let found = look(client, namespace, "", args.look_for, all_known).await?;
    let now = clock.now();
    let around = Surroundings {
        leader_name: &args.leader_name,
        now_us: now.timestamp_micros(),
        ..Surroundings::default()
    };
    let view = view(found, around);
    match args.output {
        PlanOutputArg::Json => Ok(output::json(&as_json(&view, now))?),
        PlanOutputArg::Text => Ok(style.block(as_text(&view, now))),
    }
}

const HEADS: [&str; 11] = [
    "LEASE",
    "KIND",
    "STATE",
    "HOLDER HOST",
    "HOLDER ID",
    "COMPONENT",
    "CHANGED",
    "CLAIMED",
    "DURATION",
    "HELD FOR",
    "TRANSITIONS",
];

/// How long ago a clock says that something was.
fn claimed(us: Option<i64>, now: Timestamp) -> String {
    // The holder's clock wrote it, which may be ahead of this one.
    us.map_or("-".to_owned(), |us| human_duration(((now.timestamp_micros() - us) / 1_000_000).max(0)))
}

fn cells(row: &LockRow, now: Timestamp) -> [String; 11] {
    let LockRow { lease, kind, component, .. } = row;
    let (host, id) = lease.identity();
    let shown = |text: &str| if text.is_empty() { "-".to_owned() } else { text::sanitize_line(text) };
    let changed = lease.changed_s.and_then(|s| i64::try_from(s).ok());
    [
        text::sanitize_line(&format!("{}/{}", lease.namespace, lease.name)),
        kind.word().to_owned(),
        lease.state().word().to_owned(),
        shown(host),
        shown(id),
        shown(component),
        // A change that was not seen lies before the look began.
        changed.map_or(format!(">{}s", lease.watched_s), human_duration),
        claimed(lease.renewed_us, now),
        format!("{}s", lease.duration_s),
        if lease.holder.is_empty() { "-".to_owned() } else { claimed(lease.acquired_us, now) },
        lease.transitions.to_string(),
    ]
}

fn as_text(view: &LockView, now: Timestamp) -> String {
    let mut rows = vec![HEADS.map(str::to_owned).to_vec()];
    rows.extend(view.rows.iter().map(|row| cells(row, now).to_vec()));
    let mut document = output::table(&rows);
    let coordinated = view.rows.iter().filter_map(|row| Some((row, row.lease.strategy.as_ref()?)));
    for (row, strategy) in coordinated {
        let preferred = row.lease.preferred_holder.as_deref().unwrap_or("-");
        let line = format!("{}: strategy {strategy}, preferred holder {preferred}", row.lease.name);
        let _ = writeln!(document, "{}", text::sanitize_line(&line));
    }
    if !view.anomalies.is_empty() {
        document.push('\n');
    }
    for (lease, what) in &view.anomalies {
        let _ = writeln!(document, "odd: {}: {}", text::sanitize_line(lease), text::sanitize_line(what));
    }
    document
}

fn as_json(view: &LockView, now: Timestamp) -> Value {
    let row = |row: &LockRow| {
        let (host, id) = row.lease.identity();
        json!({
            "namespace": row.lease.namespace,
            "name": row.lease.name,
            "kind": row.kind.word(),
            "state": row.lease.state().word(),
            "holderHost": host,
            "holderId": id,
            "component": row.component,
            "changedSeconds": row.lease.changed_s,
            "watchedSeconds": row.lease.watched_s,
            "claimedRenewSeconds": row.lease.renewed_us.map(|us| (now.timestamp_micros() - us) / 1_000_000),
            "durationSeconds": row.lease.duration_s,
            "transitions": row.lease.transitions,
            "strategy": row.lease.strategy,
            "preferredHolder": row.lease.preferred_holder,
        })
    };
    let anomaly = |(lease, what): &(String, String)| json!({ "lease": lease, "what": what });
    json!({
        "leases": view.rows.iter().map(row).collect::<Vec<_>>(),
        "anomalies": view.anomalies.iter().map(anomaly).collect::<Vec<_>>(),
    })
}
