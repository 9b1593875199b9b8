//! What should stop or worry a person before an action: pure rules over the live object and the objects around it.
//! Each rule is one function with a name; a finding carries that name and its evidence. Must not read anything.
//!
//! What Cluster API refuses is asked of its own rules (`rules`), and what happens next of the planners (`outlook`):
//! an even number of stacked etcd members, a minor version that is skipped, workers newer than their control plane, and an
//! unhealthy control plane that holds a rollout have no rule here. These rules remain, because nothing else knows
//! them:
//!
//! - `being-deleted`, `topology-owned`: the write is accepted and has no lasting effect.
//! - `cluster-paused`, `paused`, `rollout-running`, `already-scheduled`, `moment-in-the-past`: what the change means
//!   beside what is stored in the object already. The plan shows the same state without the advice, and there is
//!   no plan of MachinePools.
//! - `protected`: a mark that people set for themselves.
//! - `not-checked`: objects that the others need could not be read.
//! - `version-goes-back`: admission refuses it of Clusters only.
//! - `fewer-members`, `quorum-lost`, `last-control-plane-machine`: upstream has no rule about a person who takes
//!   members away. The arithmetic is `status::etcd`; the members' own answers count, and the Machines' conditions.
//! - `etcd-not-asked`: the members did not answer, so that only the conditions count.
//! - `replacement`: what to do instead of a deletion.
//! - `no-health-check` and its like (`remediation`): whether anything follows from the mark.

use serde_json::Value;

use super::edit::{is_annotated_paused, is_paused, rollout_after, version_of};
use super::related::Related;
use super::remediation;
use super::{Action, Finding, Severity};
use crate::api::names::{annotation, label};
use crate::api::version::parse;
use crate::status::etcd::report::Removal;
use crate::status::etcd::{Change, Member, Projection, quorum, tolerated_failures};
use crate::text::counted;
use crate::time::{self, Timestamp};

/// Every finding about `action`, the gravest first.
#[must_use]
pub fn findings(action: &Action, related: &Related, now: Timestamp) -> Vec<Finding> {
    let mut found: Vec<Finding> = [
        object_is_being_deleted(related),
        cluster_is_protected(related),
        cluster_is_paused(action, related),
        object_is_paused(action, related),
        related_objects_unreadable(related),
        rollout_in_progress(action, related),
        rollout_scheduled(action, related, now),
        rollout_moment_in_the_past(action, related, now),
        replicas_managed_by_topology(action, related),
        quorum_lost_by_scaling_down(action, related),
        version_goes_back(action, related),
        quorum_lost_by_deletion(action, related),
        etcd_not_asked(action, related),
        replacement_of_machine(action, related),
        remediation::who_acts(action, related),
    ]
    .into_iter()
    .flatten()
    .collect();
    found.sort_by_key(|f| std::cmp::Reverse(f.severity));
    found
}

/// The rule about objects that are paused.
pub const PAUSED: &str = "paused";

/// Does this patch take a pause away, as undoing one does? The rule about paused objects then has nothing to say.
#[must_use]
pub fn ends_pause(patch: &Value) -> bool {
    let is_taken_away = |value: &Value| value.is_null() || *value == Value::Bool(false);
    let spec = patch.get("spec").and_then(|spec| spec.get("paused"));
    let annotations = patch.get("metadata").and_then(|metadata| metadata.get("annotations"));
    let annotation = annotations.and_then(|annotations| annotations.get(annotation::PAUSED));
    [spec, annotation].into_iter().flatten().any(is_taken_away)
}

fn finding(severity: Severity, rule: &'static str, text: impl Into<String>) -> Option<Finding> {
    Some(Finding { severity, rule, text: text.into() })
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
    if kind == "MachineDeployment"
        && !is_annotated_paused(&related.object)
        && matches!(action, Action::Scale { .. })
    {
        return finding(Severity::Note, PAUSED, "its rollouts are paused; scaling still works");
    }
    finding(Severity::Warning, PAUSED, format!("{kind} is paused: nothing happens until it is resumed"))
}

fn related_objects_unreadable(related: &Related) -> Option<Finding> {
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

fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|c| c["type"] == type_)
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
    let older = related.own_machines().map(|own| own.iter().filter_map(created).filter(|c| c < at).count());
    let (severity, what) = match older {
        Some(0) => (Severity::Note, "none of its Machines is older, so none is replaced".to_owned()),
        Some(1) => (Severity::Warning, "1 Machine is older and is replaced at once".to_owned()),
        Some(n) => (Severity::Warning, format!("{n} Machines are older and are replaced at once")),
        None => (Severity::Warning, "Machines created before it are replaced at once".to_owned()),
    };
    finding(severity, "moment-in-the-past", format!("that moment has passed: {what}"))
}

fn replicas_managed_by_topology(action: &Action, related: &Related) -> Option<Finding> {
    let owned = !related.object["metadata"]["labels"][label::TOPOLOGY_OWNED].is_null();
    if !owned || !matches!(action, Action::Scale { .. } | Action::SetVersion { .. }) {
        return None;
    }
    finding(
        Severity::Warning,
        "topology-owned",
        "it is managed by the Cluster's topology, which may set this field back; change spec.topology of the Cluster instead",
    )
}

fn quorum_lost_by_scaling_down(action: &Action, related: &Related) -> Option<Finding> {
    let Action::Scale { replicas } = action else { return None };
    let current = related.object["spec"]["replicas"].as_i64().unwrap_or(1);
    let target = i64::from(*replicas);
    if related.kind() != "KubeadmControlPlane" || target >= current || target < 1 {
        return None;
    }
    finding(
        Severity::Warning,
        "fewer-members",
        format!(
            "from {current} to {target} control plane Machines: afterwards etcd survives {} (now {}){}",
            losses(target),
            losses(current),
            etcd_now(related)
        ),
    )
}

/// What etcd answers of itself.
fn etcd_now(related: &Related) -> String {
    match &related.etcd {
        Some(Ok(report)) => format!("; etcd has {}", report.summary),
        _ => String::new(),
    }
}

/// What a cluster of this many members survives.
fn losses(members: i64) -> String {
    match tolerated_failures(usize::try_from(members).unwrap_or(0)) {
        0 => "the loss of no member".to_owned(),
        1 => "the loss of 1 member".to_owned(),
        n => format!("the loss of {n} members"),
    }
}

fn version_goes_back(action: &Action, related: &Related) -> Option<Finding> {
    let version = action.version()?;
    let from = version_of(&related.object).and_then(parse)?;
    let to = parse(version)?;
    if related.kind() == "Cluster" || to.cmp_precedence(&from).is_ge() {
        return None;
    }
    let severity = if related.kind() == "MachineDeployment" { Severity::Warning } else { Severity::Blocker };
    finding(
        severity,
        "version-goes-back",
        format!("from v{from} back to v{to}: Kubernetes does not support downgrades"),
    )
}

fn is_healthy_member(machine: &Value) -> bool {
    machine["metadata"]["deletionTimestamp"].is_null()
        && condition(machine, "EtcdMemberHealthy").is_some_and(|c| c["status"] == "True")
}

/// The member that a control plane Machine hosts, under the Machine's name.
fn member(machine: &Value) -> Member {
    Member { name: machine["metadata"]["name"].as_str().unwrap_or_default().to_owned(), ..Member::default() }
}

fn quorum_lost_by_deletion(action: &Action, related: &Related) -> Option<Finding> {
    if *action != Action::Delete || !related.is_control_plane_machine() || !related.has_stacked_etcd() {
        return None;
    }
    let machines = related.control_plane_machines()?;
    if machines.len() <= 1 {
        return finding(
            Severity::Blocker,
            "last-control-plane-machine",
            "it is the only control plane Machine: etcd and with it the workload cluster would be lost",
        );
    }
    // The controller removes the member before the Machine goes, so quorum of the smaller cluster counts.
    let name = related.object["metadata"]["name"].as_str().unwrap_or_default();
    let listed: Vec<Member> = machines.iter().map(|m| member(m)).collect();
    let is_healthy = |name: &str| {
        let machine = machines.iter().find(|m| m["metadata"]["name"] == name);
        machine.map(|machine| is_healthy_member(machine))
    };
    let after = Projection::after(&listed, Change::Remove(name), is_healthy);
    let text = format!(
        "{}, quorum {}; afterwards {}, quorum {}, {} healthy",
        counted(listed.len(), "etcd member"),
        quorum(listed.len()),
        counted(after.voters, "member"),
        quorum(after.voters),
        after.voters.saturating_sub(after.unhealthy)
    );
    if !after.is_safe() {
        return finding(Severity::Blocker, "quorum-lost", format!("{text}: etcd would lose quorum"));
    }
    match removal_of_member(related) {
        Some((removal, now)) if removal.is_safe => {
            finding(Severity::Note, "quorum-kept", format!("etcd has {now}; {}", removal.words()))
        }
        Some((removal, now)) => {
            let text = format!("etcd has {now}; {}: it is not safe to take it", removal.words());
            finding(Severity::Blocker, "quorum-lost", text)
        }
        None => finding(Severity::Note, "quorum-kept", text),
    }
}

/// Does the action take a member of a stacked etcd, or several?
pub fn takes_member(action: &Action, related: &Related) -> bool {
    let is_member = related.is_control_plane_machine() && *action == Action::Delete;
    let is_control_plane = related.kind() == "KubeadmControlPlane" && matches!(action, Action::Scale { .. });
    (is_member || is_control_plane) && related.has_stacked_etcd()
}

/// What etcd itself leaves without the Machine's member, and what it has now. `None` when it does not answer or has no
/// such voter.
fn removal_of_member(related: &Related) -> Option<(&Removal, &str)> {
    let report = related.etcd.as_ref()?.as_ref().ok()?;
    let node = related.object["status"]["nodeRef"]["name"].as_str()?;
    Some((report.without(node)?, report.summary.as_str()))
}

/// The members' answers are the better evidence: without them the Machines' conditions have to do.
fn etcd_not_asked(action: &Action, related: &Related) -> Option<Finding> {
    let Some(Err(why)) = related.etcd.as_ref().filter(|_| takes_member(action, related)) else { return None };
    finding(Severity::Note, "etcd-not-asked", format!("judged by the Machines' conditions: {why}"))
}

fn replacement_of_machine(action: &Action, related: &Related) -> Option<Finding> {
    if *action != Action::Delete {
        return None;
    }
    let owner = related.object["metadata"]["ownerReferences"]
        .as_array()
        .and_then(|owners| owners.iter().find(|o| o["controller"] == true));
    let text = match owner
        .map(|o| (o["kind"].as_str().unwrap_or_default(), o["name"].as_str().unwrap_or_default()))
    {
        None => "nothing owns it: it will not be replaced".to_owned(),
        Some(("KubeadmControlPlane", name)) => format!(
            "KubeadmControlPlane {name} replaces it once it is gone: etcd member and leadership are moved first"
        ),
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
    use crate::status::etcd::facts::{Asked, Class, Facts, Listed, MemberStatus, Trouble};
    use crate::status::etcd::report::Report;
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

    fn machine(name: &str, healthy: bool) -> Value {
        json!({
            "kind": "Machine",
            "metadata": {"name": name, "labels": {label::CONTROL_PLANE: ""},
                "ownerReferences": [{"kind": "KubeadmControlPlane", "name": "cp", "controller": true}]},
            "spec": {"version": "v1.35.4"},
            "status": {"conditions": [{"type": "EtcdMemberHealthy", "status": if healthy { "True" } else { "False" }}]}
        })
    }

    fn rules(action: &Action, related: &Related) -> Vec<(Severity, &'static str)> {
        findings(action, related, now()).into_iter().map(|f| (f.severity, f.rule)).collect()
    }

    fn etcd(members: u64, dead: u64) -> Report {
        let listed = |id: u64| Listed { id, name: format!("node-{id}"), ..Listed::default() };
        let status = |id: u64| MemberStatus {
            cluster_id: 1,
            member_id: id,
            version: String::new(),
            leader: Some(1),
            is_learner: false,
            raft: None,
            database: None,
            errors: Vec::new(),
            took_ms: Some(1),
            list: Ok((1..=members).map(listed).collect()),
        };
        let asked = |id: u64| Asked {
            from: format!("node-{id}"),
            node: Some(format!("node-{id}")),
            outcome: if id > members - dead {
                Err(Trouble { class: Class::Refused, text: String::new() })
            } else {
                Ok(status(id))
            },
        };
        let facts = Facts { answers: (1..=members).map(asked).collect(), ..Facts::default() };
        Report::of(&facts, None)
    }

    /// The conditions and the members' own answers must both allow it.
    #[test]
    fn deleting_a_machine_asks_its_member() {
        let mut object = machine("a", true);
        object["status"]["nodeRef"] = json!({"name": "node-1"});
        let machines = vec![object.clone(), machine("b", true), machine("c", true)];
        let with = |etcd| Related { machines: Some(machines.clone()), etcd, ..related(object.clone()) };
        let quorum = |related: &Related| {
            let found = findings(&Action::Delete, related, now());
            let it = found.iter().find(|f| f.rule.starts_with("quorum")).expect("a finding");
            (it.severity, it.rule, it.text.clone())
        };
        let (severity, rule, text) = quorum(&with(Some(Ok(etcd(3, 0)))));
        assert_eq!((severity, rule), (Severity::Note, "quorum-kept"));
        assert_eq!(
            text,
            "etcd has 3 voters, healthy 3, can lose 1 more; without node-1: 2 voters, healthy 2, can lose 0 more"
        );
        let (severity, rule, text) = quorum(&with(Some(Ok(etcd(3, 1)))));
        assert_eq!((severity, rule), (Severity::Blocker, "quorum-lost"));
        assert!(text.ends_with("quorum of 2 would be lost: it is not safe to take it"), "{text}");
        let unread = with(Some(Err("no way".to_owned())));
        assert!(rules(&Action::Delete, &unread).contains(&(Severity::Note, "etcd-not-asked")));
        assert_eq!(quorum(&unread).0, Severity::Note);
        let mut sick = with(Some(Ok(etcd(3, 0))));
        sick.machines = Some(vec![object.clone(), machine("b", false), machine("c", true)]);
        assert_eq!(quorum(&sick).0, Severity::Blocker);
    }

    #[test]
    fn scaling_a_control_plane() {
        let cp = kcp(json!({"replicas": 3}));
        let scale = |replicas| Action::Scale { replicas };
        assert_eq!(rules(&scale(5), &cp), []);
        assert_eq!(rules(&scale(1), &cp), [(Severity::Warning, "fewer-members")]);
        let text = findings(&scale(1), &cp, now()).remove(0).text;
        assert!(text.ends_with("etcd survives the loss of no member (now the loss of 1 member)"), "{text}");
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
        assert_eq!(rules(&later, &place), []);
    }

    #[test]
    fn versions_move_forward() {
        let cp = kcp(json!({"replicas": 3, "version": "v1.35.4"}));
        let worker = json!({"template": {"spec": {"version": "v1.35.4"}}});
        let md = related(json!({"kind": "MachineDeployment", "spec": worker}));
        let to = |v: &str| Action::SetVersion { version: v.to_owned() };
        assert_eq!(rules(&to("v1.36.2"), &cp), []);
        assert_eq!(rules(&to("v1.35.3"), &cp), [(Severity::Blocker, "version-goes-back")]);
        assert_eq!(rules(&to("v1.35.3"), &md), [(Severity::Warning, "version-goes-back")]);
    }

    #[test]
    fn deleting_a_control_plane_machine_counts_members() {
        let members = |healthy: [bool; 3]| {
            healthy.iter().enumerate().map(|(i, h)| machine(&format!("m{i}"), *h)).collect::<Vec<_>>()
        };
        for (healthy, expected) in [
            ([true, true, true], "quorum-kept"),
            ([false, true, true], "quorum-kept"),
            ([true, false, true], "quorum-lost"),
        ] {
            let machines = members(healthy);
            let mut place = related(machines[0].clone());
            place.machines = Some(machines);
            assert!(rules(&Action::Delete, &place).iter().any(|(_, rule)| *rule == expected), "{healthy:?}");
        }
        let mut last = related(machine("m0", true));
        last.machines = Some(vec![machine("m0", true)]);
        assert!(rules(&Action::Delete, &last).contains(&(Severity::Blocker, "last-control-plane-machine")));
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
