//! `capstan leases`: Leases as locks: who holds each, whether the holder lives, what is odd. Owns the look, which other
//! commands use too, and the table. Nothing is written, and no Lease can be taken or deleted from here.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::args::{LeasesArgs, PlanOutputArg};
use super::output::{self, Style};
use crate::api::names::lease;
use crate::client::Client;
use crate::client::errors::chain;
use crate::client::read::list_values;
use crate::client::write::gvk_of;
use crate::engine::lease::record::Seen;
use crate::leader_migration::lock_view::{LockRow, LockState, LockView, WatchedLease, view};
use crate::text;
use crate::time::{Clock, Timestamp, human_duration};

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What is kept of one Lease from look to look.
struct Watched {
    began: Instant,
    changed: Option<Instant>,
    first_uid: String,
    last: Seen,
    lease: WatchedLease,
}

impl Watched {
    fn begin(seen: &Seen, now: Instant) -> Self {
        let (first_uid, last) = (seen.uid.clone(), seen.clone());
        Self { began: now, changed: None, first_uid, last, lease: WatchedLease::default() }
    }

    fn look(&mut self, lease: &Lease, seen: Seen, now: Instant) {
        if seen.record != self.last.record {
            self.changed = Some(now);
        }
        let labels = lease.metadata.labels.as_ref();
        let notes = lease.metadata.annotations.as_ref();
        let spec = lease.spec.as_ref();
        let record = seen.record.clone();
        self.lease = WatchedLease {
            namespace: lease.metadata.namespace.clone().unwrap_or_default(),
            name: lease.metadata.name.clone().unwrap_or_default(),
            holder: record.holder,
            duration_s: record.duration_s,
            transitions: record.transitions,
            acquired_us: record.acquired_us,
            renewed_us: record.renewed_us,
            strategy: spec.and_then(|spec| spec.strategy.clone()),
            preferred_holder: spec.and_then(|spec| spec.preferred_holder.clone()),
            engine: labels.and_then(|labels| labels.get(lease::COMPONENT).cloned()),
            controllers: notes.and_then(|notes| notes.get(lease::CONTROLLERS).cloned()).unwrap_or_default(),
            watched_s: (now - self.began).as_secs(),
            changed_s: self.changed.map(|changed| (now - changed).as_secs()),
            was_made_anew: seen.uid != self.first_uid,
        };
        self.last = seen;
    }
}

/// Looks at the Leases of a namespace (all when empty) that `selector` chooses (all when empty), once a second until
/// `is_enough`.
///
/// # Errors
/// They cannot be listed.
pub async fn look(
    client: &Client,
    namespace: &str,
    selector: &str,
    is_enough: impl Fn(&[WatchedLease]) -> bool,
) -> anyhow::Result<Vec<WatchedLease>> {
    let mut watched: BTreeMap<(String, String), Watched> = BTreeMap::new();
    loop {
        let found = list_values(client, &gvk_of::<Lease>(), namespace, selector).await;
        let found = found.map_err(|error| anyhow::anyhow!("leases in {namespace}: {}", chain(&error)))?;
        let now = Instant::now();
        for lease in found {
            let lease: Lease = serde_json::from_value(lease)?;
            let seen = Seen::of(&lease);
            let part = |text: &Option<String>| text.clone().unwrap_or_default();
            let key = (part(&lease.metadata.namespace), part(&lease.metadata.name));
            watched.entry(key).or_insert_with(|| Watched::begin(&seen, now)).look(&lease, seen, now);
        }
        let leases: Vec<WatchedLease> = watched.values().map(|watched| watched.lease.clone()).collect();
        if is_enough(&leases) {
            return Ok(leases);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Every Lease changed, or stayed the same for as long as it is good.
#[must_use]
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
    let began = Instant::now();
    let is_enough = |leases: &[WatchedLease]| all_known(leases) || began.elapsed() >= args.look_for;
    let found = look(client, namespace, "", is_enough).await?;
    let now = clock.now();
    let view = view(found, &args.leader_name, now.timestamp_micros());
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
    us.map_or("-".to_owned(), |us| human_duration(((now.timestamp_micros() - us) / 1_000_000).max(0)))
}

fn cells(row: &LockRow, now: Timestamp) -> [String; 11] {
    let LockRow { lease, kind, component } = row;
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
