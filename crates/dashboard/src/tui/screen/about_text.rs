//! What else is known of an object than its conditions, its spec and its relations, as a word and a value each: upstream's columns
//! that have no place elsewhere, who else sets it, what an upgrade has before it, until when its version is supported. Must not know
//! how it is laid out.

use serde_json::Value;

use crate::fleet::watch::FieldManager;
use crate::fleet::{Cell, Fleet, Kind, Reader, Row, RowId};
use crate::tui::paint::Paint;
use capi_rules::status::outside_owners::{Tool, replicas_managed_by};
use capi_rules::status::support::TABLE_OF;
use capi_types::columns::{Column, Type};
use capi_types::names::{annotation, label};
use capstan_base::text::sanitize_line;
use capstan_base::time::{Timestamp, rfc3339};

/// The fields that pause an object, as a writer has them.
const PAUSING: [&str; 2] = ["spec.paused", "metadata.annotations.cluster.x-k8s.io/paused"];
/// So many fields of a tool are named.
const FIELDS_MAX: usize = 4;

/// The words with their values, without those that have none.
pub fn about(
    fleet: &Fleet,
    id: RowId,
    row: &Row,
    object: Option<&Value>,
    writers: &[FieldManager],
    paint: &Paint<'_>,
) -> Vec<(String, String)> {
    let at = |moment: Option<Timestamp>| {
        moment.map(|at| format!("{} ({} ago)", rfc3339(at), paint.age(at))).unwrap_or_default()
    };
    let rollout = row.replica_facts().and_then(|f| f.rollout_after_s).and_then(crate::fleet::moment);
    let labels: Vec<String> = row.labels.0.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let support = fleet.support_end(id).map(|end| format!("{end}, by upstream's table of {TABLE_OF}"));
    let ours = [
        ("paused", if row.paused { paused(writers, paint) } else { String::new() }),
        ("upgrade plan", upgrade_plan(row)),
        ("hooks to call", hooks_to_call(object)),
        ("hooks that hold", hooks_that_hold(object)),
        ("rollout after", rollout.map(rfc3339).unwrap_or_default()),
        ("replicas set by", scaled_by(row, object)),
        ("applied by", applied_by(row, object, writers)),
        ("kept by", kept_by(row)),
        ("console", console(fleet, Some(row), object).unwrap_or_default()),
        ("created", at(row.created())),
        ("deleting since", at(row.deleting_since())),
        ("read as", if row.legacy { row.gvk.api_version() } else { String::new() }),
        ("support", support.unwrap_or_default()),
        ("looked after by", looked_after_by(fleet, row)),
        ("labels", labels.join(", ")),
    ];
    let all = printed(row).into_iter().chain(ours.map(|(word, value)| (word.to_owned(), value)));
    all.filter(|(_, value)| !value.is_empty()).collect()
}

/// Where the console of the provider shows the machine of an object.
pub fn console(fleet: &Fleet, row: Option<&Row>, object: Option<&Value>) -> Option<String> {
    fleet.console_page(provider_id(row, object)?)
}

/// As the object says it: Machines, infrastructure machines and Nodes have it at the same place.
pub fn provider_id<'a>(row: Option<&'a Row>, object: Option<&'a Value>) -> Option<&'a str> {
    let of_row = row.and_then(Row::provider_id);
    let said = of_row.or_else(|| object?.pointer("/spec/providerID")?.as_str());
    said.filter(|id| !id.is_empty())
}

/// Upstream's other columns that have no place above: heading and value.
fn printed(row: &Row) -> Vec<(String, String)> {
    let one = |column: &Column| {
        let cell = Reader::of(column)?.read(row);
        let elsewhere = matches!(cell, Cell::Condition(_)) || column.name == "Cluster";
        let shown = !elsewhere && matches!(column.type_, Type::Text | Type::Boolean);
        shown.then(|| (column.name.to_lowercase(), cell.print(Timestamp::default()).into_owned()))
    };
    row.kind.columns().iter().filter_map(one).collect()
}

/// `yes`, and by whom and since when, where the server keeps that.
fn paused(writers: &[FieldManager], paint: &Paint<'_>) -> String {
    let by = writers.iter().find(|writer| PAUSING.iter().any(|field| writer.has_set(field)));
    let Some(FieldManager { manager, at, .. }) = by else { return "yes".to_owned() };
    let since = at.map(|at| format!(", written {} ago", paint.age(at))).unwrap_or_default();
    format!("yes, by {manager}{since}")
}

/// Of a Cluster: which Cluster API its server has, and whether that one's support ends.
fn looked_after_by(fleet: &Fleet, row: &Row) -> String {
    let version = (row.kind == Kind::Cluster).then(|| fleet.cluster_api(row.source)).flatten();
    let Some(version) = version else { return String::new() };
    let end = fleet.manager_support_end(row.source);
    let end = end.map(|end| format!("; {end}, by upstream's table of {TABLE_OF}"));
    format!("Cluster API {version}{}", end.unwrap_or_default())
}

/// Hooks of extensions that are still to be called for the object, as the annotation of upstream notes them.
fn hooks_to_call(object: Option<&Value>) -> String {
    let noted = annotations(object).find(|(key, _)| *key == annotation::PENDING_HOOKS);
    let hooks = noted.map_or("", |(_, hooks)| hooks).split(',').map(str::trim);
    hooks.filter(|hook| !hook.is_empty()).map(sanitize_line).collect::<Vec<_>>().join(", ")
}

/// Annotations that hold the upgrade of a Cluster or the deletion of a Machine until their owners take them off: which step, the hook, and whose it
/// is, where its value says that.
fn hooks_that_hold(object: Option<&Value>) -> String {
    const HOLDING: [(&str, &str); 3] = [
        (annotation::BEFORE_UPGRADE_HOOK_PREFIX, "upgrade"),
        (annotation::PRE_DRAIN_HOOK_PREFIX, "drain"),
        (annotation::PRE_TERMINATE_HOOK_PREFIX, "deletion of the machine"),
    ];
    let held = annotations(object).filter_map(|(key, owner)| {
        let (prefix, step) = HOLDING.into_iter().find(|(prefix, _)| key.starts_with(prefix))?;
        let name = key.strip_prefix(prefix)?.trim_start_matches('/');
        let owner = if owner.is_empty() { String::new() } else { format!(" of {owner}") };
        Some(sanitize_line(&format!("{step}: {}{owner}", if name.is_empty() { key } else { name })))
    });
    held.collect::<Vec<_>>().join("; ")
}

fn annotations(object: Option<&Value>) -> impl Iterator<Item = (&str, &str)> {
    let all = object.and_then(|object| object.pointer("/metadata/annotations")?.as_object());
    all.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

/// The versions that the topology of a Cluster still goes through.
pub fn upgrade_plan(row: &Row) -> String {
    let Some(facts) = row.cluster_facts() else { return String::new() };
    let part = |name: &str, steps: &[std::sync::Arc<str>]| {
        (!steps.is_empty()).then(|| format!("{name} {}", steps.join(", ")))
    };
    let parts = [part("control plane", &facts.control_plane_upgrade), part("workers", &facts.worker_upgrade)];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn scaled_by(row: &Row, object: Option<&Value>) -> String {
    let Some(facts) = row.replica_facts() else { return String::new() };
    if let Some(bounds) = facts.scaling {
        return format!("an autoscaler, {} to {}", bounds.least, bounds.most);
    }
    let by = object.and_then(replicas_managed_by).map(sanitize_line).unwrap_or_default();
    match (facts.scaled_elsewhere, by.is_empty()) {
        (false, _) => String::new(),
        (true, true) => "somebody else, by its annotation".to_owned(),
        (true, false) => by,
    }
}

/// Such as `Argo CD (fleet): spec.replicas`: the fields as far as the server keeps who wrote them.
fn applied_by(row: &Row, object: Option<&Value>, writers: &[FieldManager]) -> String {
    let of_writer = |writer: &FieldManager| Tool::of_manager(&writer.manager);
    let Some(tool) = row.applied_by.or_else(|| writers.iter().find_map(of_writer)) else {
        return String::new();
    };
    let origin = object.map_or("", |object| tool.origin(object));
    let origin = if origin.is_empty() { String::new() } else { format!(" ({})", sanitize_line(origin)) };
    let own = writers.iter().filter(|writer| of_writer(writer) == Some(tool));
    let fields: Vec<&str> =
        own.flat_map(|writer| &writer.fields).map(String::as_str).filter(|f| f.starts_with("spec")).collect();
    let named = fields.iter().take(FIELDS_MAX).copied().collect::<Vec<_>>().join(", ");
    let more = fields.len().saturating_sub(FIELDS_MAX);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let fields = if named.is_empty() { String::new() } else { format!(": {named}{more}") };
    format!("{}{origin}{fields}", tool.name())
}

/// What a Cluster's topology made is changed there.
fn kept_by(row: &Row) -> String {
    let is_kept = row.kind != Kind::Cluster && row.labels.get(label::TOPOLOGY_OWNED).is_some();
    if is_kept { "the Cluster's topology: it is changed in spec.topology".to_owned() } else { String::new() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fleet::decode::{Decoder, Slim};
    use crate::fleet::{Delta, Interner, SourceId};
    use crate::tui::theme::{Theme, Tier};
    use capi_types::key::Gvk;
    use capstan_base::time::parse_rfc3339;

    fn told(object: &Value, writers: &[FieldManager]) -> Vec<String> {
        let now = parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment");
        let kind = object["kind"].as_str().expect("a kind").to_owned();
        let plural = format!("{}s", kind.to_lowercase());
        let (group, version) = ("cluster.x-k8s.io".to_owned(), "v1beta2".to_owned());
        let gvk = Gvk { group, version, kind, plural, namespaced: true };
        let decoder = Decoder::for_kind(SourceId(0), gvk, std::sync::Arc::<Interner>::default());
        let slim: Slim = serde_json::from_value(object.clone()).expect("an object");
        let mut fleet = Fleet::new();
        fleet.advance(now);
        fleet.apply(vec![Delta::Upsert(std::sync::Arc::new(decoder.row(&slim)))]);
        let (id, row) = fleet.rows().next().expect("a row");
        let theme = Theme::load("default", None, Tier::None, true).expect("shipped");
        let paint = Paint::new(&theme, now);
        let all = about(&fleet, id, row, Some(object), writers, &paint);
        let words = [
            "hooks to call",
            "hooks that hold",
            "upgrade plan",
            "replicas set by",
            "applied by",
            "kept by",
            "support",
        ];
        let all = all.into_iter().filter(|(word, _)| words.contains(&word.as_str()));
        all.map(|(word, value)| format!("{word}: {value}")).collect()
    }

    #[test]
    fn who_else_sets_a_pool_is_said() {
        let argo = |fields: &[&str]| FieldManager {
            manager: "argocd-controller".to_owned(),
            at: None,
            fields: fields.iter().map(|f| (*f).to_owned()).collect(),
        };
        let mut pool = json!({"kind": "MachineDeployment", "metadata": {
            "name": "md", "namespace": "a", "labels": {"topology.cluster.x-k8s.io/owned": ""},
            "annotations": {
                "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size": "2",
                "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "10",
                "argocd.argoproj.io/tracking-id": "fleet\u{1b}[2J:x",
            },
        }, "spec": {"clusterName": "c", "template": {"spec": {"version": "v1.36.0"}}}});
        assert_eq!(
            told(&pool, &[argo(&["metadata.labels", "spec.replicas"])]),
            [
                "replicas set by: an autoscaler, 2 to 10",
                "applied by: Argo CD (fleet\u{fffd}[2J): spec.replicas",
                "kept by: the Cluster's topology: it is changed in spec.topology",
            ]
        );
        pool["metadata"]["annotations"] = json!({"cluster.x-k8s.io/replicas-managed-by": "karpenter"});
        pool["metadata"]["labels"] = Value::Null;
        let many = argo(&["spec.a", "spec.b", "spec.c", "spec.d", "spec.e"]);
        assert_eq!(
            told(&pool, &[many]),
            ["replicas set by: karpenter", "applied by: Argo CD: spec.a, spec.b, spec.c, spec.d and 1 more"]
        );
        pool["metadata"]["annotations"] = json!({"cluster.x-k8s.io/replicas-managed-by": "false"});
        assert_eq!(told(&pool, &[]), Vec::<String>::new());
    }

    #[test]
    fn hooks_that_wait_are_named_with_the_step_that_they_hold() {
        let mut machine = json!({"kind": "Machine", "metadata": {"name": "m", "namespace": "a", "annotations": {
            "runtime.cluster.x-k8s.io/pending-hooks": "AfterClusterUpgrade, UpdateMachine",
            "pre-drain.delete.hook.machine.cluster.x-k8s.io/migrate": "mover\u{1b}[2J",
            "pre-terminate.delete.hook.machine.cluster.x-k8s.io/wipe": "",
        }}, "spec": {"clusterName": "c"}});
        assert_eq!(
            told(&machine, &[]),
            [
                "hooks to call: AfterClusterUpgrade, UpdateMachine",
                "hooks that hold: drain: migrate of mover\u{fffd}[2J; deletion of the machine: wipe",
            ]
        );
        machine["metadata"]["annotations"] =
            json!({"before-upgrade.hook.cluster.cluster.x-k8s.io/freeze": "releases", "other": "x"});
        assert_eq!(told(&machine, &[]), ["hooks that hold: upgrade: freeze of releases"]);
        machine["metadata"]["annotations"] = json!({"runtime.cluster.x-k8s.io/pending-hooks": ""});
        assert_eq!(told(&machine, &[]), Vec::<String>::new());
    }

    #[test]
    fn what_an_upgrade_has_before_it_and_the_end_of_a_version_are_said() {
        let cluster = json!({"kind": "Cluster", "metadata": {"name": "c", "namespace": "a"},
            "spec": {"topology": {"classRef": {"name": "k"}, "version": "v1.36.1"}},
            "status": {
                "controlPlane": {"versions": [{"version": "v1.34.2", "replicas": 3}],
                    "upgradePlan": [{"version": "v1.35.4"}, {"version": "v1.36.1"}]},
                "workers": {"upgradePlan": [{"version": "v1.36.1"}]}}});
        assert_eq!(
            told(&cluster, &[]),
            [
                "upgrade plan: control plane v1.35.4, v1.36.1; workers v1.36.1",
                "support: Kubernetes 1.34 ended 2026-10-27, by upstream's table of September 2026",
            ]
        );
    }
}
