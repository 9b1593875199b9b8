//! `capstan watch`: the fleet as lines, one for each change of a verdict or of its cause, for people who read line by line (a screen
//! reader, a log, a chat) and for scripts. What a cluster waits for on its way changes every few seconds and is not news; what is wrong
//! with it is. Owns what is said of a change and when; verdicts and causes are the model's.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::live::LiveFleet;
use capstan_base::rng::Rng;
use capstan_base::text::sanitize_line;
use capstan_base::time::{Clock, Timestamp, rfc3339};
use capstan_dashboard::fleet::watch::Scope;
use capstan_dashboard::fleet::{FeedState, Fleet, Row, Verdict};
use capstan_engine::client::Connection;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputArg {
    Text,
    /// A JSON object on each line
    Json,
}

#[derive(Clone, Debug, Args)]
pub struct WatchArgs {
    /// Only Clusters of these names
    #[arg(value_name = "CLUSTER")]
    pub clusters: Vec<String>,
    /// Leave out what is so at the beginning
    #[arg(long)]
    pub changes_only: bool,
    #[arg(short, long, default_value = "text")]
    pub output: OutputArg,
}

/// What is said of one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum FleetNews {
    /// A Cluster has another verdict, another thing is wrong with it, or it is new.
    #[serde(rename_all = "camelCase")]
    Cluster {
        namespace: String,
        name: String,
        verdict: Verdict,
        /// None: it was not there before.
        #[serde(skip_serializing_if = "Option::is_none")]
        before: Option<Verdict>,
        /// What is wrong, in a few words; empty when it is well.
        why: String,
    },
    /// A Cluster is gone.
    #[serde(rename_all = "camelCase")]
    Deleted { namespace: String, name: String },
    /// What was said before may be old, from now on.
    #[serde(rename_all = "camelCase")]
    Lost { error: String },
    /// Everything is heard of again.
    Back,
}

/// A change with its moment, as a line of JSON.
#[derive(Serialize)]
struct Line<'c> {
    at: String,
    #[serde(flatten)]
    change: &'c FleetNews,
}

impl FleetNews {
    /// A line for people, without its end.
    pub fn text(&self, at: Timestamp) -> String {
        let said = match self {
            Self::Cluster { namespace, name, verdict, before, why } => {
                let was = before.filter(|before| before != verdict);
                let was = was.map(|before| format!(", was {before}")).unwrap_or_default();
                let why = if why.is_empty() { String::new() } else { format!(": {why}") };
                format!("{namespace}/{name} {verdict}{was}{why}")
            }
            Self::Deleted { namespace, name } => format!("{namespace}/{name} is deleted"),
            Self::Lost { error } => format!("what was said before may be old: {error}"),
            Self::Back => "the server is heard again".to_owned(),
        };
        sanitize_line(&format!("{} {said}", rfc3339(at)))
    }

    fn verdict(&self) -> Option<Verdict> {
        if let Self::Cluster { verdict, .. } = self { Some(*verdict) } else { None }
    }

    fn line(&self, at: Timestamp, output: OutputArg) -> serde_json::Result<String> {
        match output {
            OutputArg::Text => Ok(self.text(at)),
            OutputArg::Json => serde_json::to_string(&Line { at: rfc3339(at), change: self }),
        }
    }
}

/// How a Cluster is.
#[derive(Clone, Debug)]
struct State {
    verdict: Verdict,
    /// Kind and condition of the first cause of a fault, which is news when it is another one.
    fault: String,
    why: String,
}

/// What was said last, so that only what differs is said.
#[derive(Debug, Default)]
pub struct Said {
    clusters: BTreeMap<(String, String), State>,
    is_lost: bool,
    /// Everything was heard of once, so that what is new now was not there before.
    has_begun: bool,
}

impl Said {
    /// What is different now, of Clusters with one of these names, or of all: the gravest first. A Cluster that is not heard of keeps what
    /// was said of it.
    pub fn look(&mut self, fleet: &Fleet, names: &[String]) -> Vec<FleetNews> {
        let was_lost = self.is_lost;
        let lost = trouble(fleet);
        self.is_lost = lost.is_some();
        if let Some(error) = lost {
            return if was_lost { Vec::new() } else { vec![FleetNews::Lost { error }] };
        }
        let mut changes = Vec::new();
        if was_lost {
            changes.push(FleetNews::Back);
        }
        let now = clusters(fleet, names);
        changes.extend(self.clusters.keys().filter(|key| !now.contains_key(key)).map(|(namespace, name)| {
            FleetNews::Deleted { namespace: namespace.clone(), name: name.clone() }
        }));
        let mut turned: Vec<FleetNews> =
            now.iter().filter_map(|(key, state)| self.turned(key, state)).collect();
        // Stable, so that those of one verdict stay by namespace and name.
        turned.sort_by_key(|change| std::cmp::Reverse(change.verdict()));
        changes.extend(turned);
        (self.clusters, self.has_begun) = (now, true);
        changes
    }

    /// The same, without what is so at the beginning.
    pub fn changes(&mut self, fleet: &Fleet, names: &[String]) -> Vec<FleetNews> {
        let had_begun = self.has_begun;
        let mut changes = self.look(fleet, names);
        changes.retain(|change| had_begun || change.verdict().is_none());
        changes
    }

    fn turned(&self, key: &(String, String), now: &State) -> Option<FleetNews> {
        let before = self.clusters.get(key);
        if before.is_some_and(|before| before.verdict == now.verdict && before.fault == now.fault) {
            return None;
        }
        let (namespace, name) = key.clone();
        let before = before.map(|before| before.verdict);
        Some(FleetNews::Cluster { namespace, name, verdict: now.verdict, before, why: now.why.clone() })
    }
}

fn clusters(fleet: &Fleet, names: &[String]) -> BTreeMap<(String, String), State> {
    let rows = fleet.clusters().iter().filter_map(|id| Some((*id, fleet.row(*id)?)));
    let wanted = rows.filter(|(_, row)| names.is_empty() || names.iter().any(|name| **name == *row.name));
    let state = |(id, row): (_, &Arc<Row>)| {
        let verdict = fleet.verdict(id);
        // Those that are well are most of them, and have nothing to say.
        let why = if verdict == Verdict::Ok { String::new() } else { fleet.what_is_wrong(id) };
        let fault = if verdict.is_at_fault() { fleet.first_cause(id) } else { String::new() };
        ((row.namespace.to_string(), row.name.to_string()), State { verdict, fault, why })
    };
    wanted.map(state).collect()
}

/// Why what is known may be old; `None` where everything is heard of.
fn trouble(fleet: &Fleet) -> Option<String> {
    fleet.feeds().find_map(|(key, feed)| match &feed.state {
        FeedState::Lost { error } | FeedState::Silent { error } => Some(format!("{key}: {error}")),
        _ => None,
    })
}

/// Says what is so, and then what changes, until the reader has gone or the watch ends. `namespace` is empty for all.
///
/// # Errors
/// Clusters may not be listed or are not served, the watch ended, or the output cannot be written.
pub async fn watch(
    connection: &Connection,
    args: &WatchArgs,
    namespace: &str,
    (clock, rng): (Clock, Rng),
    out: &mut impl Write,
) -> anyhow::Result<()> {
    let scope = Scope { namespace: (!namespace.is_empty()).then(|| namespace.to_owned()) };
    let mut live = LiveFleet::open(connection, scope, clock.clone(), rng);
    let mut said = Said::default();
    while live.turn().await {
        if let Some(refused) = refused(&live.fleet) {
            anyhow::bail!("{refused}");
        }
        // What is missing in a list that is still coming in is not gone.
        if !live.is_complete() && trouble(&live.fleet).is_none() {
            continue;
        }
        let changes = match args.changes_only {
            true => said.changes(&live.fleet, &args.clusters),
            false => said.look(&live.fleet, &args.clusters),
        };
        let now = clock.now();
        for change in changes {
            match writeln!(out, "{}", change.line(now, args.output)?).and_then(|()| out.flush()) {
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
                other => other?,
            }
        }
    }
    anyhow::bail!("the watch of the management cluster ended; run it again")
}

/// Clusters may not be listed, or there is not such a kind: nothing will ever be said.
fn refused(fleet: &Fleet) -> Option<String> {
    fleet.feeds().find_map(|(key, feed)| match &feed.state {
        FeedState::NoAccess { error } | FeedState::NotServed { error } if key.kind.as_ref() == "Cluster" => {
            Some(format!("{key}: {error}"))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(verdict: Verdict, before: Option<Verdict>, why: &str) -> FleetNews {
        let (namespace, name) = ("prod".to_owned(), "aurora".to_owned());
        FleetNews::Cluster { namespace, name, verdict, before, why: why.to_owned() }
    }

    #[test]
    fn a_change_is_one_line() {
        let at = Timestamp::default();
        for (change, text) in [
            (cluster(Verdict::Ok, None, ""), "1970-01-01T00:00:00Z prod/aurora ok"),
            (
                cluster(Verdict::Degraded, Some(Verdict::Ok), "etcd has\nno quorum\x1b[2J"),
                "1970-01-01T00:00:00Z prod/aurora degraded, was ok: etcd has",
            ),
            (cluster(Verdict::Ok, Some(Verdict::Ok), "x"), "1970-01-01T00:00:00Z prod/aurora ok: x"),
            (FleetNews::Back, "1970-01-01T00:00:00Z the server is heard again"),
        ] {
            let said = change.text(at);
            assert!(said.starts_with(text) && !said.contains(['\n', '\x1b']), "{said}");
        }
    }

    #[test]
    fn without_clusters_to_read_it_ends_with_the_reason() {
        use capstan_dashboard::fleet::{Delta, FeedKey, SourceId};
        let of = |kind: &str, state| {
            let feed = FeedKey { source: SourceId(0), group: "cluster.x-k8s.io".into(), kind: kind.into() };
            let mut fleet = Fleet::new();
            fleet.apply(vec![Delta::Feed { feed, state, at: Timestamp::default() }]);
            refused(&fleet)
        };
        let why = || "because".into();
        let said = Some("Cluster.cluster.x-k8s.io: because".to_owned());
        assert_eq!(of("Cluster", FeedState::NoAccess { error: why() }), said);
        assert_eq!(of("Cluster", FeedState::NotServed { error: why() }), said);
        assert_eq!(of("Cluster", FeedState::Lost { error: why() }), None, "it may come back");
        assert_eq!(of("MachinePool", FeedState::NotServed { error: why() }), None);
    }

    #[test]
    fn as_json_a_change_has_its_moment_and_its_kind() {
        let line =
            cluster(Verdict::Degraded, Some(Verdict::Ok), "why").line(Timestamp::default(), OutputArg::Json);
        assert_eq!(
            line.expect("JSON"),
            r#"{"at":"1970-01-01T00:00:00Z","kind":"cluster","namespace":"prod","name":"aurora","verdict":"degraded","before":"ok","why":"why"}"#
        );
        let line = FleetNews::Lost { error: "gone".to_owned() }.line(Timestamp::default(), OutputArg::Json);
        assert_eq!(line.expect("JSON"), r#"{"at":"1970-01-01T00:00:00Z","kind":"lost","error":"gone"}"#);
    }
}
