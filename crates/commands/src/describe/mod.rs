//! `capstan describe cluster`: one snapshot of a Cluster as the tree that `clusterctl describe` prints, or
//! as JSON with verdict, cause and plan. Owns what is said beside the tree; must not know how lines are drawn.
//!
//! Objects are read with one list per kind, never one request per Machine. Source of the rules:
//! cluster-api `cmd/clusterctl/client/tree`, `internal/util/tree`, v1.14.2. On purpose different:
//! deployments without Machines, stand-alone MachineSets and control plane Machines without their control
//! plane are shown, MachinePools show their counters, and a note names what could not be read.

mod draw;
pub mod files;
mod layout;
mod notes;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use anyhow::anyhow;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::arguments::Moment;
use super::derived;
use super::output::{self, Style};
use super::reading::{Reader, name_of, rows_of};
use capi_forecast::forecast::{State, forecast};
use capi_rules::observe::dump::Dump;
use capi_types::key::Gvk;
use capstan_base::time::Timestamp;
use capstan_dashboard::fleet::{Fleet, Item, Relative, Row, RowId, TreeOptions, Verdict, cluster_api_of};
use capstan_dashboard::tui::report::report;
use capstan_engine::client::Connection;
use capstan_engine::client::clusters::list_clusters;

pub use layout::Options;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DescribeOutputArg {
    Tree,
    Json,
    /// What is wrong, why and since when, for a ticket
    Markdown,
}

#[derive(Clone, Debug, Args)]
pub struct DescribeArgs {
    /// Only `cluster`
    #[arg(value_parser = ["cluster"])]
    pub resource: String,
    pub name: String,
    #[arg(short, long, default_value = "tree")]
    pub output: DescribeOutputArg,
    /// Instead of asking a server: file, folder or archive (.tar.gz, .tgz, .tar), or - for standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The moment at which the files were made, 2026-11-20T10:00:00Z, or +0s for the present; without it the last moment
    /// that stands in them, which may be long before
    #[arg(long, value_name = "WHEN", requires = "files")]
    pub now: Option<Moment>,
    /// Exit 0 ok, 10 progressing, 11 degraded, 12 blocked, 13 unknown
    #[arg(long)]
    pub exit_status: bool,
}

/// What is known of one cluster at one moment.
pub struct Snapshot {
    pub fleet: Fleet,
    pub cluster: RowId,
    pub now: Timestamp,
    /// Kinds that could not be read, in sentences.
    pub gaps: Vec<String>,
    /// The version of Cluster API that looks after it, where that is known.
    pub cluster_api: Option<String>,
    /// What happens next to its objects that have something to do or to wait for; null where that was not asked for, or not read.
    pub plan: Value,
}

/// The printed cluster and its verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    pub document: String,
    pub verdict: Verdict,
    pub remarks: Vec<String>,
}

/// Reads and draws.
///
/// # Errors
/// No such Cluster, or the server does not answer, in a sentence.
pub async fn describe(
    connection: &Connection,
    args: &DescribeArgs,
    namespace: &str,
    now: Timestamp,
    style: Style,
) -> anyhow::Result<Description> {
    let read = Reader::new(connection, namespace).cluster(&args.name, now).await?;
    let mut snapshot = snapshot(&read.objects, &args.name, now, read.gaps)
        .ok_or_else(|| anyhow!("Cluster {} cannot be shown", args.name))?;
    if args.output == DescribeOutputArg::Json {
        snapshot.plan = match list_clusters(connection, namespace, Some(&args.name)).await {
            Ok(lists) => plan_of(&Dump::of_lists(lists.kinds), (namespace, &args.name), now),
            Err(why) => {
                snapshot.gaps.push(format!("the plan could not be read: {why}"));
                Value::Null
            }
        };
    }
    answer(args, &snapshot, style)
}

fn answer(args: &DescribeArgs, snapshot: &Snapshot, style: Style) -> anyhow::Result<Description> {
    let verdict = snapshot.fleet.verdict(snapshot.cluster);
    let document = match args.output {
        DescribeOutputArg::Tree => draw::table(&layout::tree(snapshot, Options::default()), style.color),
        DescribeOutputArg::Json => style.block(output::json(&as_json(snapshot))?),
        DescribeOutputArg::Markdown => {
            style.block(report(&snapshot.fleet, snapshot.cluster, snapshot.now).unwrap_or_default())
        }
    };
    let mut remarks = notes::sentences(snapshot);
    remarks.extend(snapshot.gaps.iter().cloned());
    Ok(Description { document, verdict, remarks })
}

/// What happens next to the objects of a Cluster; what is settled is left out, as most of them are.
fn plan_of(dump: &Dump, (namespace, cluster): (&str, &str), now: Timestamp) -> Value {
    let mut objects = forecast(dump, now).sanitized().objects;
    objects.retain(|plan| {
        plan.namespace == namespace && plan.cluster == cluster && plan.state != State::Settled
    });
    json!(objects)
}

/// The snapshot of one cluster among given objects; `None` when it is not among them.
pub fn snapshot(objects: &[(Gvk, Value)], name: &str, now: Timestamp, gaps: Vec<String>) -> Option<Snapshot> {
    let fleet = rows_of(objects, now);
    let cluster = fleet
        .clusters()
        .iter()
        .copied()
        .find(|id| fleet.row(*id).is_some_and(|r| r.name.as_ref() == name))?;
    let cluster_api = objects.iter().find_map(|(_, object)| cluster_api_of(object));
    Some(Snapshot { fleet, cluster, now, gaps, cluster_api, plan: Value::Null })
}

/// Verdict, causes, tree and plan, for scripts. Field names are part of the interface.
fn as_json(snapshot: &Snapshot) -> Value {
    let (fleet, cluster) = (&snapshot.fleet, snapshot.cluster);
    let tree = fleet.tree(cluster, &TreeOptions { references: true, ..TreeOptions::default() });
    let mut document = derived::standing(fleet, cluster);
    document["tree"] = if tree.nodes.is_empty() { Value::Null } else { node_json(fleet, &tree, 0) };
    document["plan"] = snapshot.plan.clone();
    document["notRead"] = json!(snapshot.gaps);
    notes::members(snapshot, &mut document);
    document
}

fn node_json(fleet: &Fleet, tree: &capstan_dashboard::fleet::Tree, at: usize) -> Value {
    let node = &tree.nodes[at];
    let mut value = json!({"verdict": node.verdict.word()});
    if let Some(line) = fleet.line(node.item) {
        value["name"] = line.name.into();
        for (key, text) in [
            ("kind", line.kind),
            ("namespace", line.namespace),
            ("version", line.version),
            ("phase", line.phase),
            ("node", line.node),
            ("failureDomain", line.failure_domain),
        ] {
            if !text.is_empty() {
                value[key] = text.into();
            }
        }
        for (key, counters) in
            [("replicas", line.counters), ("controlPlane", line.control_plane), ("workers", line.workers)]
        {
            if let Some(c) = counters {
                value[key] = json!({
                    "desired": c.desired, "current": c.current, "ready": c.ready,
                    "available": c.available, "upToDate": c.up_to_date,
                });
            }
        }
        if !line.tags.is_empty() {
            value["tags"] = line.tags.iter().map(|t| t.word()).collect();
        }
    }
    if let Some(row) = row_at(fleet, node.item) {
        if let Some(bounds) = row.replica_facts().and_then(|facts| facts.scaling) {
            value["autoscaler"] = json!({"least": bounds.least, "most": bounds.most});
        }
        if let Some(tool) = row.applied_by {
            value["appliedBy"] = tool.name().into();
        }
        if row.legacy {
            value["deprecatedConditions"] = true.into();
        }
        value["conditions"] = row.conditions.iter().map(condition_json).collect();
    }
    let children: Vec<Value> = tree.children(at).map(|child| node_json(fleet, tree, child)).collect();
    if !children.is_empty() {
        value["children"] = children.into();
    }
    value
}

/// The object of a line, also of one that another refers to.
fn row_at(fleet: &Fleet, item: Item) -> Option<&Row> {
    let (of, which) = match item {
        Item::Row(id) => return fleet.row(id).map(AsRef::as_ref),
        Item::Group { .. } => return None,
        Item::Reference { of, which } => (of, which),
    };
    let (from, reference) = (fleet.row(of)?, fleet.reference(of, which)?);
    let name = name_of(reference, from);
    let is_it = |row: &&Row| {
        row.is_of(&reference.kind.group, &reference.kind.kind)
            && row.name.as_ref() == name
            && row.namespace == from.namespace
    };
    fleet.rows().map(|(_, row)| row.as_ref()).find(is_it)
}

fn condition_json(c: &capstan_dashboard::fleet::Condition) -> Value {
    json!({
        "type": c.type_, "status": c.status.as_str(), "reason": c.reason, "message": c.message,
        "lastTransitionTime": c.since().map(capstan_base::time::rfc3339),
    })
}

/// The relatives that are drawn below a Machine, in upstream's order.
const BELOW_MACHINES: [Relative; 2] = [Relative::Infrastructure, Relative::Bootstrap];
