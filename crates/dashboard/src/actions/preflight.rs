//! What should stop or worry a person before an action: pure rules over the live object and the objects around it.
//! Each rule is one function with a name; a finding carries that name and its evidence. Must not read anything.
//!
//! What Cluster API refuses is asked of its own rules (`rules`), and what happens next of the planners (`outlook`):
//! an even number of stacked etcd members, a minor version that is skipped, workers newer than their control plane, and an
//! unhealthy control plane that holds a rollout have no rule here. These rules remain, because nothing else knows
//! them:
//!
//! - `being-deleted`: the write is accepted and has no lasting effect.
//! - `cluster-paused`, `paused`, `rollout-running`, `already-scheduled`, `moment-in-the-past`: what the change means
//!   beside what is stored in the object already. The plan shows the same state without the advice, and there is
//!   no plan of MachinePools.
//! - `stops-halfway`: where a pause leaves a rollout; the plan goes on from there.
//! - `drain-held`, `disruption-budget` (`budgets`): what holds drains, which the plan does not read.
//! - `protected`: a mark that people set for themselves.
//! - `not-checked`: objects that the others need could not be read.
//! - `version-goes-back`: admission refuses it of Clusters only.
//! - `support-ends`: of the version that is asked for; nothing that Cluster API knows.
//! - `fewer-members`, `quorum-lost`, `last-api-server` and their like (`quorum`): upstream has no rule about a person who
//!   takes members away.
//! - `replacement`: what to do instead of a deletion.
//! - `no-health-check` and its like (`remediation`): whether anything follows from the mark.

use serde_json::Value;

use super::edit::{Edit, is_annotated_paused, is_paused, rollout_after, version_of};
use super::fields::{REPLICAS, kubernetes_version};
use super::related::{Related, condition};
use super::{Action, finding};
use super::{budgets, quorum, remediation};
use crate::operations::{Finding, Severity};
use capi_rules::status::support::{Project, SupportEnd, TABLE_OF};
use capi_types::host::is_of_no_cluster;
use capi_types::names::{annotation, label};
use capstan_base::time::{self, Timestamp};
use k8s_machinery::version::parse;

/// Every finding about `action`.
pub fn findings(action: &Action, related: &Related, now: Timestamp) -> Vec<Finding> {
    let mut found: Vec<Finding> = [
        object_is_being_deleted(related),
        cluster_is_protected(related),
        cluster_is_paused(action, related),
        object_is_paused(action, related),
        related_objects_unreadable(related),
        rollout_in_progress(action, related),
        stops_halfway(action, related),
        budgets::drain_is_held(action, related),
        rollout_scheduled(action, related, now),
        rollout_moment_in_the_past(action, related, now),
        rollout_by_others(action, now),
        carried_out_by_topology(action, related),
        version_goes_back(action, related),
        support_of_version(action, now),
        replacement_of_machine(action, related),
        remediation::who_acts(action, related),
    ]
    .into_iter()
    .flatten()
    .collect();
    found.extend(quorum::findings(action, related, now));
    found.extend(budgets::findings(action, related));
    found
}

/// What an action on an object of this kind amounts to: to put another number of replicas there is to scale.
pub fn amounts_to(action: &Action, edit: &Edit, kind: &str) -> Action {
    let (Action::Undo | Action::Edit(_) | Action::Annotate(_), Some(patch)) = (action, edit.patch()) else {
        return action.clone();
    };
    let replicas = patch.pointer(REPLICAS).and_then(Value::as_i64);
    if let Some(replicas) = replicas.and_then(|replicas| i32::try_from(replicas).ok()) {
        return Action::Scale { replicas };
    }
    if !patch["metadata"]["annotations"][annotation::REMEDIATE_MACHINE].is_null() {
        return Action::Remediate;
    }
    match patch.pointer(kubernetes_version(kind)).and_then(Value::as_str) {
        Some(version) => Action::SetVersion { version: version.to_owned() },
        None => action.clone(),
    }
}

/// The rule about objects that are paused.
pub const PAUSED: &str = "paused";

/// Does this patch take a pause away, as undoing one does? The rule about paused objects then has nothing to say.
pub fn ends_pause(patch: &Value) -> bool {
    let is_taken_away = |value: &Value| value.is_null() || *value == Value::Bool(false);
    let spec = patch.get("spec").and_then(|spec| spec.get("paused"));
    let annotations = patch.get("metadata").and_then(|metadata| metadata.get("annotations"));
    let annotation = annotations.and_then(|annotations| annotations.get(annotation::PAUSED));
    [spec, annotation].into_iter().flatten().any(is_taken_away)
}

fn object_is_being_deleted(related: &Related) -> Option<Finding> {
    let since = related.object["metadata"]["deletionTimestamp"].as_str()?;
    finding(
        Severity::Blocker,
        "being-deleted",
        format!("it has been in deletion since {since}; changes have no effect"),
    )
}

fn cluster_is_protected(related: &Related) -> Option<Finding> {
    let name = related.cluster.as_ref()?["metadata"]["name"].as_str().unwrap_or_default();
    let text = format!("Cluster {name} is protected by its label {}", label::PROTECTED);
    related.is_protected().then(|| finding(Severity::Warning, "protected", text)).flatten()
}

fn cluster_is_paused(action: &Action, related: &Related) -> Option<Finding> {
    let cluster = related.cluster.as_ref()?;
    // Of a Cluster itself the rule about paused objects speaks.
    if *action == Action::Resume || related.kind() == "Cluster" || !is_paused("Cluster", cluster) {
        return None;
    }
    let name = cluster["metadata"]["name"].as_str().unwrap_or_default();
    finding(
        Severity::Warning,
        "cluster-paused",
        format!(
            "Cluster {name} is paused: the change is stored, but nothing happens until the Cluster is resumed"
        ),
    )
}

fn object_is_paused(action: &Action, related: &Related) -> Option<Finding> {
    let kind = related.kind();
    if matches!(action, Action::Resume | Action::Pause) || !is_paused(kind, &related.object) {
        return None;
    }
    // `spec.paused` of a MachineDeployment stops rollouts only; the annotation stops its
    // controller.
    if kind == "MachineDeployment"
        && !is_annotated_paused(&related.object)
        && matches!(action, Action::Scale { .. })
    {
        return finding(Severity::Note, PAUSED, "its rollouts are paused; scaling still works");
    }
    finding(Severity::Warning, PAUSED, format!("{kind} is paused: nothing happens until it is resumed"))
}

fn related_objects_unreadable(related: &Related) -> Option<Finding> {
    // They belong to no Cluster.
    if is_of_no_cluster(related.group(), related.kind()) {
        return None;
    }
    let mut missing = Vec::new();
    if related.cluster.is_none() {
        missing.push("its Cluster");
    }
    if related.machines.is_none() {
        missing.push("the Machines of its Cluster");
    }
    if missing.is_empty() {
        return None;
    }
    finding(
        Severity::Warning,
        "not-checked",
        format!("{} could not be read, so pause, quorum and rollout were not checked", missing.join(" and ")),
    )
}

fn rollout_in_progress(action: &Action, related: &Related) -> Option<Finding> {
    if !matches!(
        action,
        Action::Restart
            | Action::RolloutAfter { .. }
            | Action::SetVersion { .. }
            | Action::UpdateInPlace(_)
            | Action::Scale { .. }
    ) {
        return None;
    }
    let rolling = condition(&related.object, "RollingOut").filter(|c| c["status"] == "True")?;
    let message = rolling["message"].as_str().unwrap_or_default().replace('\n', " ");
    finding(Severity::Warning, "rollout-running", format!("a rollout is already running: {message}"))
}

/// A pause in the middle of a rollout leaves old and new Machines beside each other, and of a control plane perhaps a member too many.
fn stops_halfway(action: &Action, related: &Related) -> Option<Finding> {
    if *action != Action::Pause {
        return None;
    }
    let machines: Vec<&Value> = match related.kind() {
        "Cluster" => related.machines.iter().flatten().collect(),
        _ => related.own_machines()?,
    };
    let is =
        |machine: &Value, type_, status| condition(machine, type_).is_some_and(|c| c["status"] == status);
    // The condition of a Cluster follows those of its parts by a moment.
    let is_rolling = is(&related.object, "RollingOut", "True")
        || machines.iter().any(|machine| is(machine, "UpToDate", "False"));
    if !is_rolling {
        return None;
    }
    let is_true = |machine: &Value, type_| is(machine, type_, "True");
    let goes = |machine: &Value| !machine["metadata"]["deletionTimestamp"].is_null();
    let count = |is_it: &dyn Fn(&Value) -> bool| machines.iter().filter(|machine| is_it(machine)).count();
    let (new, all) = (count(&|machine| is_true(machine, "UpToDate") && !goes(machine)), machines.len());
    let coming = count(&|machine| !is_true(machine, "Ready") && !goes(machine));
    let going = count(&goes);
    let parts = [(coming, "on the way up"), (going, "on the way out")];
    let parts: String =
        parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!(", {n} {what}")).collect();
    let text = format!("a rollout stops where it is: {new} of {all} Machines up to date{parts}");
    finding(Severity::Warning, "stops-halfway", text)
}

fn rollout_scheduled(action: &Action, related: &Related, now: Timestamp) -> Option<Finding> {
    if !matches!(action, Action::RolloutAfter { .. }) {
        return None;
    }
    let after = rollout_after(&related.object)?;
    if after <= now {
        return None;
    }
    finding(
        Severity::Warning,
        "already-scheduled",
        format!("a rollout is already scheduled for {}; this replaces it", time::rfc3339(after)),
    )
}

fn rollout_moment_in_the_past(action: &Action, related: &Related, now: Timestamp) -> Option<Finding> {
    let Action::RolloutAfter { at } = action else { return None };
    if *at > now {
        return None;
    }
    let created =
        |machine: &&Value| machine["metadata"]["creationTimestamp"].as_str().and_then(time::parse_rfc3339);
    // Upstream compares creation times with the moment, so that none older means no rollout.
    let older = related.own_machines().map(|own| own.iter().filter_map(created).filter(|c| c < at).count());
    let (severity, what) = match older {
        Some(0) => (Severity::Note, "none of its Machines is older, so none is replaced".to_owned()),
        Some(1) => (Severity::Warning, "1 Machine is older and is replaced at once".to_owned()),
        Some(n) => (Severity::Warning, format!("{n} Machines are older and are replaced at once")),
        None => (Severity::Warning, "Machines created before it are replaced at once".to_owned()),
    };
    finding(severity, "moment-in-the-past", format!("that moment has passed: {what}"))
}

/// Nothing wakes upstream's controllers at that moment. Source: Cluster API, no requeue for `spec.rollout.after` in
/// `core/reconcilers/machinedeployment/machinedeployment_controller.go` `Reconcile` and
/// `controlplane/kubeadm/reconcilers/kubeadmcontrolplane/kubeadmcontrolplane_controller.go` `Reconcile`; `main.go` `--sync-period`, 10 minutes, v1.14.2.
fn rollout_by_others(action: &Action, now: Timestamp) -> Option<Finding> {
    let Action::RolloutAfter { at } = action else { return None };
    if *at <= now {
        return None;
    }
    finding(
        Severity::Note,
        "begins-with-an-event",
        "capstan's engine begins at that moment; Cluster API's own controllers begin with the next change of something that they look at, \
         which may be their resync up to 10 minutes later",
    )
}

fn carried_out_by_topology(action: &Action, related: &Related) -> Option<Finding> {
    if related.kind() != "Cluster" || action.version().is_none() {
        return None;
    }
    finding(
        Severity::Note,
        "topology-controller",
        "Cluster API's topology controller carries it out; capstan's engine has none: under it alone nothing happens",
    )
}

fn support_of_version(action: &Action, now: Timestamp) -> Option<Finding> {
    let end = SupportEnd::of(Project::Kubernetes, action.version()?, now)?;
    finding(Severity::Note, "support-ends", format!("support of {end}, by upstream's table of {TABLE_OF}"))
}

fn version_goes_back(action: &Action, related: &Related) -> Option<Finding> {
    let version = action.version()?;
    let from = version_of(&related.object).and_then(parse)?;
    let to = parse(version)?;
    if related.kind() == "Cluster" || to.cmp_precedence(&from).is_ge() {
        return None;
    }
    // Workers may be older than their control plane, so that they can go back; a control plane
    // cannot.
    let severity = if related.kind() == "MachineDeployment" { Severity::Warning } else { Severity::Blocker };
    finding(
        severity,
        "version-goes-back",
        format!("from v{from} back to v{to}: Kubernetes does not support downgrades"),
    )
}

fn replacement_of_machine(action: &Action, related: &Related) -> Option<Finding> {
    if *action != Action::Delete {
        return None;
    }
    let text = match related.owner() {
        None => "nothing owns it: it will not be replaced".to_owned(),
        Some(("KubeadmControlPlane", name)) => format!(
            "KubeadmControlPlane {name} replaces it once it is gone: etcd member and leadership are moved first"
        ),
        Some((kind, name)) if related.is_control_plane_machine() => {
            format!("{kind} {name} replaces it once it is gone, by the rules of its provider")
        }
        Some((kind, name)) => format!(
            "{kind} {name} replaces it once it is gone; to scale down instead, annotate it with {} and lower the replicas",
            annotation::DELETE_MACHINE
        ),
    };
    finding(Severity::Note, "replacement", text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn now() -> Timestamp {
        time::parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment")
    }

    fn related(object: Value) -> Related {
        Related {
            object,
            cluster: Some(json!({"kind": "Cluster", "spec": {}})),
            machines: Some(vec![]),
            ..Related::default()
        }
    }

    fn kcp(spec: Value) -> Related {
        related(json!({"kind": "KubeadmControlPlane", "metadata": {"name": "cp"}, "spec": spec}))
    }

    fn rules(action: &Action, related: &Related) -> Vec<(Severity, &'static str)> {
        findings(action, related, now()).into_iter().map(|f| (f.severity, f.rule)).collect()
    }

    /// It warned that Machines are replaced at once where there was none to replace.
    #[test]
    fn a_moment_in_the_past_counts_older_machines() {
        let mut place = related(json!({"kind": "MachineDeployment", "metadata": {"name": "md"}, "spec": {}}));
        let of = |deployment: &str, created: &str| json!({"kind": "Machine", "metadata": {"creationTimestamp": created, "labels": {label::DEPLOYMENT_NAME: deployment}}});
        place.machines = Some(vec![of("md", "2026-11-20T08:00:00Z"), of("other", "2026-11-01T00:00:00Z")]);
        for (at, severity, part) in [
            ("2026-11-20T07:00:00Z", Severity::Note, "none of its Machines is older"),
            ("2026-11-20T08:00:00Z", Severity::Note, "none of its Machines is older"),
            ("2026-11-20T09:00:00Z", Severity::Warning, "1 Machine is older"),
        ] {
            let at = time::parse_rfc3339(at).expect("a moment");
            let found = findings(&Action::RolloutAfter { at }, &place, now());
            let [one] = found.as_slice() else { panic!("{found:?}") };
            assert_eq!((one.severity, one.rule), (severity, "moment-in-the-past"));
            assert!(one.text.contains(part), "{}", one.text);
        }
        let later =
            Action::RolloutAfter { at: time::parse_rfc3339("2026-11-21T00:00:00Z").expect("a moment") };
        assert_eq!(rules(&later, &place), [(Severity::Note, "begins-with-an-event")]);
    }

    fn machine(name: &str, conditions: &Value) -> Value {
        json!({"kind": "Machine", "metadata": {"name": name, "labels": {label::CONTROL_PLANE: ""}},
               "status": {"conditions": conditions}})
    }

    #[test]
    fn a_pause_says_where_the_rollout_stops() {
        let mut place = kcp(json!({"replicas": 3}));
        place.object["status"]["conditions"] = json!([{"type": "RollingOut", "status": "True"}]);
        let state = |new: &str, ready: &str| json!([{"type": "UpToDate", "status": new}, {"type": "Ready", "status": ready}]);
        let mut going = machine("d", &state("False", "True"));
        going["metadata"]["deletionTimestamp"] = json!("2026-11-20T09:59:00Z");
        place.cluster = Some(json!({"kind": "Cluster", "spec": {"controlPlaneRef": {"apiGroup":
            "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": "cp"}}}));
        place.machines = Some(vec![
            machine("a", &state("True", "True")),
            machine("b", &state("True", "False")),
            machine("c", &state("False", "True")),
            going,
        ]);
        let found = findings(&Action::Pause, &place, now());
        let stops = found.iter().find(|f| f.rule == "stops-halfway").expect("a finding");
        assert_eq!(
            stops.text,
            "a rollout stops where it is: 2 of 4 Machines up to date, 1 on the way up, 1 on the way out"
        );
        place.object["status"]["conditions"][0]["status"] = json!("False");
        place.machines = Some(vec![machine("a", &state("True", "True"))]);
        assert!(findings(&Action::Pause, &place, now()).iter().all(|f| f.rule != "stops-halfway"));
    }

    #[test]
    fn versions_move_forward() {
        let cp = kcp(json!({"replicas": 3, "version": "v1.35.4"}));
        let worker = json!({"template": {"spec": {"version": "v1.35.4"}}});
        let md = related(json!({"kind": "MachineDeployment", "spec": worker}));
        let to = |v: &str| Action::SetVersion { version: v.to_owned() };
        assert_eq!(rules(&to("v1.36.2"), &cp), []);
        let topology = related(json!({"kind": "Cluster", "spec": {"topology": {"version": "v1.35.4"}}}));
        assert_eq!(rules(&to("v1.36.2"), &topology), [(Severity::Note, "topology-controller")]);
        assert_eq!(rules(&to("v1.35.3"), &cp), [(Severity::Blocker, "version-goes-back")]);
        assert_eq!(rules(&to("v1.35.3"), &md), [(Severity::Warning, "version-goes-back")]);
        let old = related(
            json!({"kind": "MachineDeployment", "spec": {"template": {"spec": {"version": "v1.32.4"}}}}),
        );
        let found = findings(&to("v1.33.4"), &old, now());
        let [one] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((one.severity, one.rule), (Severity::Note, "support-ends"));
        assert!(one.text.starts_with("support of Kubernetes 1.33 ended 2026-06-28, by upstream's table of "));
    }

    #[test]
    fn pauses_deletion_and_missing_objects_are_found() {
        let mut place = related(
            json!({"kind": "MachineDeployment", "metadata": {"name": "md"}, "spec": {"paused": true}}),
        );
        assert_eq!(rules(&Action::Scale { replicas: 1 }, &place), [(Severity::Note, "paused")]);
        assert_eq!(rules(&Action::Restart, &place), [(Severity::Warning, "paused")]);
        place.cluster = Some(json!({"kind": "Cluster", "metadata": {"name": "c"}, "spec": {"paused": true}}));
        assert!(rules(&Action::Restart, &place).contains(&(Severity::Warning, "cluster-paused")));
        place.machines = None;
        assert!(rules(&Action::Restart, &place).contains(&(Severity::Warning, "not-checked")));
        place.object["metadata"]["deletionTimestamp"] = json!("2026-11-20T09:00:00Z");
        assert_eq!(rules(&Action::Restart, &place)[0], (Severity::Blocker, "being-deleted"));
    }
}
