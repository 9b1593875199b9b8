//! `capstan describe cluster`: one snapshot of a Cluster as the tree that `clusterctl describe` prints, or
//! as JSON with verdict and cause. Owns what is read for it; must not know how lines are drawn.
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

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{anyhow, bail};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::arguments::Moment;
use super::output::{self, Style};
use capi_types::key::{Gvk, ObjectKey, ObjectRef};
use capi_types::names::{CORE_GROUP, label};
use capstan_base::time::{Timestamp, rfc3339};
use capstan_dashboard::fleet::decode::{ControlPlaneKinds, Slim};
use capstan_dashboard::fleet::{
    Cause, Delta, Fleet, HEALTH_CHECK, Item, PROVIDER_KIND, PROVIDERS_GROUP, Reference, Relative, Row, RowId,
    SourceId, TreeOptions, Verdict, cluster_api_of,
};
use capstan_dashboard::tui::report::report;
use capstan_engine::client::catalog::{Catalog, Missing};
use capstan_engine::client::read::{get_value, list_values};
use capstan_engine::client::{Connection, explain};

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
    let snapshot = Reader::new(connection, namespace).read(&args.name, now).await?;
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

struct Reader<'a> {
    connection: &'a Connection,
    namespace: &'a str,
    catalog: Catalog,
    objects: Vec<(Gvk, Value)>,
    gaps: Vec<String>,
}

impl<'a> Reader<'a> {
    fn new(connection: &'a Connection, namespace: &'a str) -> Self {
        let catalog = Catalog::new(connection.client.clone());
        Self { connection, namespace, catalog, objects: Vec::new(), gaps: Vec::new() }
    }

    async fn read(mut self, name: &str, now: Timestamp) -> anyhow::Result<Snapshot> {
        let gvk = self.resolve(CORE_GROUP, "Cluster").await.map_err(|text| anyhow!("{text}"))?;
        let Some(cluster) = self.get(&gvk, name).await.map_err(|text| anyhow!("{text}"))? else {
            bail!(
                "there is no Cluster {name} in namespace {}: check the name, the namespace (-n) and the context",
                self.namespace
            );
        };
        self.objects.push((gvk, cluster));
        for kind in ["MachineDeployment", "MachineSet", "MachinePool", "Machine"] {
            self.list(CORE_GROUP, kind, name).await;
        }
        self.health_checks(name).await;
        self.providers().await;
        // What the objects refer to is known only when they are decoded: two more rounds follow.
        let rows = rows_of(&self.objects, now);
        let first = rows.clusters().first().copied();
        for (group, kind, name) in first.map(|cluster| single_references(&rows, cluster)).unwrap_or_default()
        {
            self.one(&group, &kind, &name).await;
        }
        for (group, kind) in kinds_below_machines(&rows) {
            self.list(&group, &kind, name).await;
        }
        snapshot(&self.objects, name, now, self.gaps).ok_or_else(|| anyhow!("Cluster {name} cannot be shown"))
    }

    async fn resolve(&self, group: &str, kind: &str) -> Result<Gvk, String> {
        self.catalog.resolve(group, kind).await.map_err(|missing| match missing {
            Missing::NotServed(text) => text,
            Missing::Unreachable(error) => explain(&error, &self.connection.server),
        })
    }

    async fn get(&self, gvk: &Gvk, name: &str) -> Result<Option<Value>, String> {
        let target =
            ObjectRef { gvk: gvk.clone(), key: ObjectKey::new(self.namespace, name), uid: String::new() };
        get_value(&self.connection.client, &target).await.map_err(|e| explain(&e, &self.connection.server))
    }

    async fn one(&mut self, group: &str, kind: &str, name: &str) {
        let found = match self.resolve(group, kind).await {
            Ok(gvk) => self.get(&gvk, name).await.map(|object| (gvk, object)),
            Err(text) => Err(text),
        };
        match found {
            Ok((gvk, Some(object))) => self.objects.push((gvk, object)),
            Ok((_, None)) => {
                self.gaps.push(format!("{kind} {name} does not exist, though the Cluster refers to it"));
            }
            Err(text) => self.gaps.push(format!("{kind} {name} is not shown: {text}")),
        }
    }

    /// All objects of a kind that carry the cluster's label.
    async fn list(&mut self, group: &str, kind: &str, cluster: &str) {
        let selector = format!("{}={cluster}", label::CLUSTER_NAME);
        let gvk = match self.resolve(group, kind).await {
            Ok(gvk) => gvk,
            // A server without MachinePools has none.
            Err(_) if kind == "MachinePool" => return,
            Err(text) => return self.gaps.push(format!("{kind} objects are not shown: {text}")),
        };
        match self.chosen(&gvk, &selector).await {
            Ok(objects) => self.objects.extend(objects.into_iter().map(|o| (gvk.clone(), o))),
            Err(text) => self.gaps.push(format!("{kind} objects are not shown: {text}")),
        }
    }

    /// What the verdict of a Machine depends on besides. A MachineHealthCheck has the cluster's label only once a controller saw it.
    async fn health_checks(&mut self, cluster: &str) {
        let Ok(gvk) = self.resolve(CORE_GROUP, HEALTH_CHECK).await else { return };
        match self.chosen(&gvk, "").await {
            Ok(mut checks) => {
                checks.retain(|check| check["spec"]["clusterName"] == cluster);
                self.objects.extend(checks.into_iter().map(|check| (gvk.clone(), check)));
            }
            Err(text) => self.gaps.push(format!("{HEALTH_CHECK} objects are not judged by: {text}")),
        }
    }

    /// Which Cluster API runs there, where clusterctl installed it and that may be read; nothing is missing without it.
    async fn providers(&mut self) {
        let Ok(gvk) = self.resolve(PROVIDERS_GROUP, PROVIDER_KIND).await else { return };
        let listed = list_values(&self.connection.client, &gvk, "", "").await;
        self.objects.extend(listed.unwrap_or_default().into_iter().map(|mut object| {
            // Items of a list carry no kind, by which `cluster_api_of` finds them.
            object["kind"] = PROVIDER_KIND.into();
            (gvk.clone(), object)
        }));
    }

    async fn chosen(&self, gvk: &Gvk, selector: &str) -> Result<Vec<Value>, String> {
        let listed = list_values(&self.connection.client, gvk, self.namespace, selector).await;
        listed.map_err(|error| explain(&error, &self.connection.server))
    }
}

fn rows_of(objects: &[(Gvk, Value)], now: Timestamp) -> Fleet {
    let interner = std::sync::Arc::default();
    let control_planes = ControlPlaneKinds::named_by(objects.iter().map(|(_, object)| object));
    let row = |(gvk, object): &(Gvk, Value)| {
        let slim: Slim = serde_json::from_value(object.clone()).ok()?;
        let decoder = control_planes.decoder(SourceId(0), gvk.clone(), std::sync::Arc::clone(&interner));
        Some(Delta::Upsert(std::sync::Arc::new(decoder.row(&slim))))
    };
    let mut fleet = Fleet::new();
    // The time before the objects: what they mean depends on it.
    fleet.advance(now);
    fleet.apply(objects.iter().filter_map(row).collect());
    fleet
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
    Some(Snapshot { fleet, cluster, now, gaps, cluster_api })
}

/// Group, kind and name of the objects that the Cluster itself refers to.
fn single_references(fleet: &Fleet, cluster: RowId) -> Vec<(String, String, String)> {
    let cluster = fleet.row(cluster);
    let Some((row, facts)) = cluster.and_then(|row| Some((row, row.cluster_facts()?))) else {
        return Vec::new();
    };
    // By reference and not by group: providers have control planes in groups of their own.
    [&facts.infrastructure_ref, &facts.control_plane_ref]
        .into_iter()
        .flatten()
        .map(|r| (r.kind.group.to_string(), r.kind.kind.to_string(), name_of(r, row).to_owned()))
        .collect()
}

/// Kinds of infrastructure and bootstrap objects of Machines.
fn kinds_below_machines(fleet: &Fleet) -> BTreeSet<(String, String)> {
    let of = |row: &Row| {
        let machine = row.machine()?;
        Some([machine.infrastructure_ref.clone(), machine.bootstrap_ref.clone()])
    };
    fleet
        .rows()
        .filter_map(|(_, row)| of(row))
        .flatten()
        .flatten()
        .map(|r| (r.kind.group.to_string(), r.kind.kind.to_string()))
        .collect()
}

fn name_of<'a>(reference: &'a Reference, row: &'a Row) -> &'a str {
    reference.name.as_deref().unwrap_or(&row.name)
}

/// Verdict, cause chain and tree, for scripts. Field names are part of the interface.
fn as_json(snapshot: &Snapshot) -> Value {
    let (fleet, cluster) = (&snapshot.fleet, snapshot.cluster);
    let cause: Vec<Value> = fleet
        .cause(cluster)
        .into_iter()
        .filter_map(|hop| {
            let row = fleet.row(hop.id)?;
            Some(json!({
                "kind": row.gvk.kind, "namespace": row.namespace, "name": row.name,
                "condition": hop.condition, "message": hop.words,
            }))
        })
        .collect();
    let tree = fleet.tree(cluster, &TreeOptions { references: true, ..TreeOptions::default() });
    let mut document = json!({
        "verdict": fleet.verdict(cluster).word(),
        "summary": fleet.what_is_wrong(cluster),
        "cause": cause,
        "causes": causes_json(fleet, cluster),
        "tree": if tree.nodes.is_empty() { Value::Null } else { node_json(fleet, &tree, 0) },
        "notRead": snapshot.gaps,
    });
    notes::members(snapshot, &mut document);
    document
}

/// Everything that explains the verdict, worst first, with plain words where there are any.
fn causes_json(fleet: &Fleet, cluster: RowId) -> Vec<Value> {
    let one = |cause: Cause| {
        let row = fleet.row(cause.leaf)?;
        let mut value = json!({
            "verdict": cause.verdict.word(), "summary": cause.words, "kind": row.gvk.kind, "name": row.name,
            "count": cause.count, "since": cause.since.map(rfc3339),
        });
        if let Some(words) = fleet.explanation(cause.leaf) {
            (value["means"], value["usual"], value["check"]) =
                (json!(words.means), json!(words.usual), json!(words.check));
        }
        Some(value)
    };
    fleet.causes(cluster).into_iter().filter_map(one).collect()
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
