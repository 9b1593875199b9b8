//! What is worth a word beside the tree, which has no column for it: an upgrade's plan, who else sets objects, and ends of support. Owns
//! the sentences and their form for scripts; must not know how the tree is drawn.

use serde_json::{Value, json};

use capi_rules::status::support::{Project, SupportEnd, TABLE_OF};
use capstan_base::text::sanitize_line;
use capstan_dashboard::fleet::{Kind, Row};

use super::Snapshot;

/// One sentence each, of the cluster first.
pub(super) fn sentences(snapshot: &Snapshot) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(row) = snapshot.fleet.row(snapshot.cluster) {
        notes.extend(upgrade_plan(row));
    }
    notes.extend(ends(snapshot).map(|end| format!("support of {end}, by upstream's table of {TABLE_OF}")));
    let cluster = snapshot.fleet.row(snapshot.cluster).map(|row| row.cluster.clone()).unwrap_or_default();
    let own = snapshot.fleet.rows().map(|(_, row)| row).filter(|row| row.cluster == cluster);
    notes.extend(own.filter_map(|row| set_elsewhere(row)));
    notes
}

/// The same as members of the document.
pub(super) fn members(snapshot: &Snapshot, document: &mut Value) {
    let facts = snapshot.fleet.row(snapshot.cluster).and_then(|row| row.cluster_facts());
    if let Some(facts) = facts.filter(|f| !f.control_plane_upgrade.is_empty() || !f.worker_upgrade.is_empty())
    {
        document["upgradePlan"] =
            json!({"controlPlane": facts.control_plane_upgrade, "workers": facts.worker_upgrade});
    }
    let ends: Vec<Value> = ends(snapshot)
        .map(|end| {
            let minor = format!("1.{}", end.minor);
            json!({"project": end.project.name(), "minor": minor, "ends": end.day, "hasEnded": end.has_ended})
        })
        .collect();
    if !ends.is_empty() {
        document["support"] = json!({"asOf": TABLE_OF, "ends": ends});
    }
}

fn upgrade_plan(row: &Row) -> Option<String> {
    let facts = row.cluster_facts()?;
    let part = |name: &str, steps: &[std::sync::Arc<str>]| {
        (!steps.is_empty()).then(|| format!("{name} {}", steps.join(", ")))
    };
    let parts = [
        part("its control plane through", &facts.control_plane_upgrade),
        part("its workers through", &facts.worker_upgrade),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("the topology of {} takes {}", row.name, parts.join(", and ")))
}

/// Of the oldest version that runs, and of the management cluster.
fn ends(snapshot: &Snapshot) -> impl Iterator<Item = SupportEnd> {
    let managed_by = snapshot.cluster_api.as_deref();
    let of_manager =
        managed_by.and_then(|version| SupportEnd::of(Project::ClusterApi, version, snapshot.now));
    snapshot.fleet.support_end(snapshot.cluster).into_iter().chain(of_manager)
}

fn set_elsewhere(row: &Row) -> Option<String> {
    if row.kind == Kind::Other {
        return None;
    }
    let facts = row.replica_facts();
    let scaling = facts.and_then(|facts| facts.scaling);
    let scaled = scaling.map(|b| format!("its replicas are set by an autoscaler, {} to {}", b.least, b.most));
    // An autoscaler is named above: the same is not said twice.
    let elsewhere = facts.filter(|facts| facts.scaled_elsewhere && scaling.is_none());
    let elsewhere = elsewhere.map(|_| "its replicas are set elsewhere".to_owned());
    let tool = row.applied_by.map(|tool| format!("it is applied by {}", tool.name()));
    let parts: Vec<String> = scaled.into_iter().chain(elsewhere).chain(tool).collect();
    (!parts.is_empty())
        .then(|| format!("{} {}: {}", row.gvk.kind, sanitize_line(&row.name), parts.join("; ")))
}
