//! What should stop or worry a person before an action: pure rules over the live object and what
//! stands around it. Each rule is one function with a name; a finding carries that name and its
//! evidence. Must not talk to a server.

use serde_json::Value;

use super::edit::{is_annotated_paused, is_paused};
use super::{Action, Finding, Risk, Severity};
use crate::admission::replicas::{ReplicaRefusal, replica_refusals};
use crate::api::names::{annotation, label};
use crate::api::version::{parse, skips_minor};
use crate::status::etcd::{Projection, quorum};
use crate::time::{self, Timestamp};

/// What the rules may look at. `None` means it could not be read, which is itself a finding.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// The live object.
    pub object: Value,
    /// The Cluster it belongs to.
    pub cluster: Option<Value>,
    /// Every Machine of that Cluster.
    pub machines: Option<Vec<Value>>,
    /// The object that controls a Machine.
    pub owner: Option<Value>,
}

impl Surroundings {
    fn kind(&self) -> &str {
        self.object["kind"].as_str().unwrap_or_default()
    }

    fn control_plane_machines(&self) -> Option<Vec<&Value>> {
        let machines = self.machines.as_ref()?;
        Some(machines.iter().filter(|m| !m["metadata"]["labels"][label::CONTROL_PLANE].is_null()).collect())
    }

    fn is_control_plane_machine(&self) -> bool {
        self.kind() == "Machine" && !self.object["metadata"]["labels"][label::CONTROL_PLANE].is_null()
    }

    /// Stacked etcd unless the KubeadmControlPlane names external endpoints.
    fn has_stacked_etcd(&self) -> bool {
        let control_plane =
            if self.kind() == "KubeadmControlPlane" { Some(&self.object) } else { self.owner.as_ref() };
        control_plane.is_none_or(|kcp| {
            kcp["spec"]["kubeadmConfigSpec"]["clusterConfiguration"]["etcd"]["external"].is_null()
        })
    }
}

/// Every finding about `action`, worst first.
#[must_use]
pub fn findings(action: &Action, around: &Surroundings, now: Timestamp) -> Vec<Finding> {
    let mut found: Vec<Finding> = [
        object_is_being_deleted(around),
        cluster_is_paused(action, around),
        object_is_paused(action, around),
        unreadable_surroundings(around),
        rollout_in_progress(action, around),
        rollout_scheduled(action, around, now),
        rollout_moment_in_the_past(action, now),
        replicas_managed_by_topology(action, around),
        refused_number_of_members(action, around),
        quorum_lost_by_scaling_down(action, around),
        control_plane_not_healthy(action, around),
        version_goes_back(action, around),
        version_skips_a_minor(action, around),
        worker_newer_than_control_plane(action, around),
        quorum_lost_by_deletion(action, around),
        replacement_of_machine(action, around),
    ]
    .into_iter()
    .flatten()
    .collect();
    found.sort_by_key(|f| std::cmp::Reverse(f.severity));
    found
}

/// In proportion to what can break.
#[must_use]
pub fn risk(action: &Action, around: &Surroundings) -> Risk {
    let control_plane =
        matches!(around.kind(), "KubeadmControlPlane" | "Cluster") || around.is_control_plane_machine();
    let current = around.object["spec"]["replicas"].as_i64().unwrap_or(1);
    match action {
        Action::Pause | Action::Resume if around.kind() == "Cluster" => Risk::Medium,
        Action::Pause | Action::Resume => Risk::Low,
        Action::Scale { replicas } if control_plane && i64::from(*replicas) < current => Risk::High,
        Action::Scale { replicas: 0 } => Risk::High,
        Action::Scale { replicas } if i64::from(*replicas) < current || control_plane => Risk::Medium,
        Action::Scale { .. } => Risk::Low,
        Action::Delete | Action::SetVersion { .. } | Action::Restart | Action::RolloutAfter { .. }
            if control_plane =>
        {
            Risk::High
        }
        Action::Delete | Action::SetVersion { .. } | Action::Restart | Action::RolloutAfter { .. } => {
            Risk::Medium
        }
    }
}

/// One sentence: what will happen.
#[must_use]
pub fn summary(action: &Action, around: &Surroundings) -> String {
    let kind = around.kind();
    let name = around.object["metadata"]["name"].as_str().unwrap_or_default();
    let current = around.object["spec"]["replicas"].as_i64();
    match action {
        Action::Scale { replicas } => match current {
            Some(from) => format!("Scale {kind} {name} from {from} to {replicas}."),
            None => format!("Scale {kind} {name} to {replicas}."),
        },
        Action::Restart => format!("Replace every Machine of {kind} {name}, beginning now."),
        Action::RolloutAfter { at } => format!(
            "Replace every Machine of {kind} {name} that was created before {}, beginning then.",
            time::rfc3339(*at)
        ),
        Action::SetVersion { version } => format!(
            "Move {kind} {name} from {} to {version}; its Machines are replaced one by one.",
            version_of(&around.object).unwrap_or("an unstated version")
        ),
        Action::Pause if kind == "MachineDeployment" => {
            format!("Pause {kind} {name}: rollouts stop, scaling goes on.")
        }
        Action::Pause => format!("Pause {kind} {name}: nothing below it is reconciled until it is resumed."),
        Action::Resume => format!("Resume {kind} {name}: what was held back begins at once."),
        Action::Delete => {
            format!("Delete {kind} {name}: its node is drained, then its infrastructure is removed.")
        }
    }
}

fn finding(severity: Severity, rule: &'static str, text: impl Into<String>) -> Option<Finding> {
    Some(Finding { severity, rule, text: text.into() })
}

fn object_is_being_deleted(around: &Surroundings) -> Option<Finding> {
    let since = around.object["metadata"]["deletionTimestamp"].as_str()?;
    finding(
        Severity::Blocker,
        "being-deleted",
        format!("it has been in deletion since {since}; changes have no effect"),
    )
}

fn cluster_is_paused(action: &Action, around: &Surroundings) -> Option<Finding> {
    let cluster = around.cluster.as_ref()?;
    if *action == Action::Resume || around.kind() == "Cluster" || !is_paused("Cluster", cluster) {
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

fn object_is_paused(action: &Action, around: &Surroundings) -> Option<Finding> {
    let kind = around.kind();
    if matches!(action, Action::Resume | Action::Pause) || !is_paused(kind, &around.object) {
        return None;
    }
    if kind == "MachineDeployment"
        && !is_annotated_paused(&around.object)
        && matches!(action, Action::Scale { .. })
    {
        return finding(Severity::Note, "paused", "its rollouts are paused; scaling still works");
    }
    finding(Severity::Warning, "paused", format!("{kind} is paused: nothing happens until it is resumed"))
}

fn unreadable_surroundings(around: &Surroundings) -> Option<Finding> {
    let mut missing = Vec::new();
    if around.cluster.is_none() {
        missing.push("its Cluster");
    }
    if around.machines.is_none() {
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

fn rollout_in_progress(action: &Action, around: &Surroundings) -> Option<Finding> {
    if !matches!(
        action,
        Action::Restart | Action::RolloutAfter { .. } | Action::SetVersion { .. } | Action::Scale { .. }
    ) {
        return None;
    }
    let rolling = condition(&around.object, "RollingOut").filter(|c| c["status"] == "True")?;
    let message = rolling["message"].as_str().unwrap_or_default().replace('\n', " ");
    finding(Severity::Warning, "rollout-running", format!("a rollout is already running: {message}"))
}

fn rollout_scheduled(action: &Action, around: &Surroundings, now: Timestamp) -> Option<Finding> {
    if !matches!(action, Action::RolloutAfter { .. }) {
        return None;
    }
    let after = around.object["spec"]["rollout"]["after"].as_str().and_then(time::parse_rfc3339)?;
    if after <= now {
        return None;
    }
    finding(
        Severity::Warning,
        "already-scheduled",
        format!("a rollout is already scheduled for {}; this replaces it", time::rfc3339(after)),
    )
}

fn rollout_moment_in_the_past(action: &Action, now: Timestamp) -> Option<Finding> {
    match action {
        Action::RolloutAfter { at } if *at <= now => finding(
            Severity::Warning,
            "moment-in-the-past",
            "that moment has passed: Machines created before it are replaced at once",
        ),
        _ => None,
    }
}

fn replicas_managed_by_topology(action: &Action, around: &Surroundings) -> Option<Finding> {
    let owned = !around.object["metadata"]["labels"][label::TOPOLOGY_OWNED].is_null();
    if !owned || !matches!(action, Action::Scale { .. } | Action::SetVersion { .. }) {
        return None;
    }
    finding(
        Severity::Warning,
        "topology-owned",
        "it is managed by the Cluster's topology, which may set this field back; change spec.topology of the Cluster instead",
    )
}

/// What admission would refuse.
fn refused_number_of_members(action: &Action, around: &Surroundings) -> Option<Finding> {
    let Action::Scale { replicas } = *action else { return None };
    if around.kind() != "KubeadmControlPlane" {
        return None;
    }
    match replica_refusals(replicas.into(), around.has_stacked_etcd()).next()? {
        ReplicaRefusal::NotPositive => finding(
            Severity::Blocker,
            "control-plane-to-zero",
            "a control plane cannot be scaled to 0; delete the Cluster if that is what you want",
        ),
        ReplicaRefusal::EvenWithStackedEtcd => finding(
            Severity::Blocker,
            "even-stacked-etcd",
            format!(
                "{replicas} members of stacked etcd survive no more failures than {}; the API refuses even numbers",
                replicas - 1
            ),
        ),
    }
}

fn quorum_lost_by_scaling_down(action: &Action, around: &Surroundings) -> Option<Finding> {
    let Action::Scale { replicas } = action else { return None };
    let current = around.object["spec"]["replicas"].as_i64().unwrap_or(1);
    let target = i64::from(*replicas);
    if around.kind() != "KubeadmControlPlane" || target >= current || target < 1 {
        return None;
    }
    finding(
        Severity::Warning,
        "fewer-members",
        format!(
            "from {current} to {target} control plane Machines: afterwards etcd survives {} (now {})",
            failures(tolerated(target)),
            failures(tolerated(current))
        ),
    )
}

/// Members of etcd that may fail.
fn tolerated(members: i64) -> usize {
    let members = usize::try_from(members).unwrap_or(0);
    members.saturating_sub(quorum(members))
}

fn failures(count: usize) -> String {
    match count {
        0 => "the loss of no member".to_owned(),
        1 => "the loss of 1 member".to_owned(),
        n => format!("the loss of {n} members"),
    }
}

fn control_plane_not_healthy(action: &Action, around: &Surroundings) -> Option<Finding> {
    if around.kind() != "KubeadmControlPlane" || matches!(action, Action::Pause | Action::Resume) {
        return None;
    }
    let bad: Vec<&str> = ["EtcdClusterHealthy", "ControlPlaneComponentsHealthy"]
        .into_iter()
        .filter(|type_| condition(&around.object, type_).is_some_and(|c| c["status"] != "True"))
        .collect();
    if bad.is_empty() {
        return None;
    }
    finding(
        Severity::Warning,
        "control-plane-unhealthy",
        format!(
            "{} not True: the controller will wait until the control plane is healthy",
            bad.join(" and ")
        ),
    )
}

fn version_of(object: &Value) -> Option<&str> {
    ["/spec/topology/version", "/spec/version", "/spec/template/spec/version"]
        .into_iter()
        .find_map(|path| object.pointer(path).and_then(Value::as_str))
}

fn version_goes_back(action: &Action, around: &Surroundings) -> Option<Finding> {
    let Action::SetVersion { version } = action else { return None };
    let from = version_of(&around.object).and_then(parse)?;
    let to = parse(version)?;
    if to.cmp_precedence(&from).is_ge() {
        return None;
    }
    let severity = if around.kind() == "MachineDeployment" { Severity::Warning } else { Severity::Blocker };
    finding(
        severity,
        "version-goes-back",
        format!("from v{from} back to v{to}: Kubernetes does not support downgrades"),
    )
}

fn version_skips_a_minor(action: &Action, around: &Surroundings) -> Option<Finding> {
    let Action::SetVersion { version } = action else { return None };
    let from = version_of(&around.object).and_then(parse)?;
    let to = parse(version)?;
    if around.kind() == "MachineDeployment" || !skips_minor(&from, &to) {
        return None;
    }
    finding(
        Severity::Blocker,
        "version-skips-a-minor",
        format!("from v{from} to v{to}: a control plane moves one minor version at a time"),
    )
}

/// The control plane's version, from its Machines: the oldest counts.
fn worker_newer_than_control_plane(action: &Action, around: &Surroundings) -> Option<Finding> {
    let Action::SetVersion { version } = action else { return None };
    if around.kind() != "MachineDeployment" {
        return None;
    }
    let to = parse(version)?;
    let oldest =
        around.control_plane_machines()?.into_iter().filter_map(|m| version_of(m).and_then(parse)).min()?;
    if to.cmp_precedence(&oldest).is_le() {
        return None;
    }
    finding(
        Severity::Warning,
        "newer-than-control-plane",
        format!(
            "workers at v{to} would be newer than the control plane (v{oldest}); MachineSet preflight holds them back"
        ),
    )
}

fn is_healthy_member(machine: &Value) -> bool {
    machine["metadata"]["deletionTimestamp"].is_null()
        && condition(machine, "EtcdMemberHealthy").is_some_and(|c| c["status"] == "True")
}

fn quorum_lost_by_deletion(action: &Action, around: &Surroundings) -> Option<Finding> {
    if *action != Action::Delete || !around.is_control_plane_machine() || !around.has_stacked_etcd() {
        return None;
    }
    let members = around.control_plane_machines()?;
    let name = &around.object["metadata"]["name"];
    let healthy_left =
        members.iter().filter(|m| m["metadata"]["name"] != *name && is_healthy_member(m)).count();
    if members.len() <= 1 {
        return finding(
            Severity::Blocker,
            "last-control-plane-machine",
            "it is the only control plane Machine: etcd and with it the workload cluster would be lost",
        );
    }
    // The controller removes the member before the Machine goes, so quorum of the smaller cluster counts.
    let left = members.len() - 1;
    let after = Projection { voters: left, learners: 0, unhealthy: left.saturating_sub(healthy_left) };
    let text = format!(
        "{} etcd members, quorum {}; afterwards {left} members, quorum {}, {healthy_left} healthy",
        members.len(),
        quorum(members.len()),
        quorum(left)
    );
    if !after.is_safe() {
        return finding(Severity::Blocker, "quorum-lost", format!("{text}: etcd would lose quorum"));
    }
    finding(Severity::Note, "quorum-kept", text)
}

fn replacement_of_machine(action: &Action, around: &Surroundings) -> Option<Finding> {
    if *action != Action::Delete {
        return None;
    }
    let owner = around.object["metadata"]["ownerReferences"]
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
    use serde_json::json;

    fn now() -> Timestamp {
        time::parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment")
    }

    fn around(object: Value) -> Surroundings {
        Surroundings {
            object,
            cluster: Some(json!({"kind": "Cluster", "spec": {}})),
            machines: Some(vec![]),
            owner: None,
        }
    }

    fn kcp(spec: Value) -> Surroundings {
        around(json!({"kind": "KubeadmControlPlane", "metadata": {"name": "cp"}, "spec": spec}))
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

    fn rules(action: &Action, around: &Surroundings) -> Vec<(Severity, &'static str)> {
        findings(action, around, now()).into_iter().map(|f| (f.severity, f.rule)).collect()
    }

    #[test]
    fn scaling_a_control_plane() {
        use Severity::{Blocker, Warning};
        let cp = kcp(json!({"replicas": 3}));
        let scale = |replicas| Action::Scale { replicas };
        assert_eq!(rules(&scale(4), &cp), [(Blocker, "even-stacked-etcd")]);
        assert_eq!(rules(&scale(5), &cp), []);
        assert_eq!(rules(&scale(1), &cp), [(Warning, "fewer-members")]);
        assert_eq!(rules(&scale(0), &cp), [(Blocker, "control-plane-to-zero")]);
        let external = kcp(
            json!({"replicas": 3, "kubeadmConfigSpec": {"clusterConfiguration": {"etcd": {"external": {}}}}}),
        );
        assert_eq!(rules(&scale(4), &external), []);
    }

    #[test]
    fn versions_move_forward_one_minor_at_a_time() {
        use Severity::Blocker;
        let cp = kcp(json!({"replicas": 3, "version": "v1.35.4"}));
        let to = |v: &str| Action::SetVersion { version: v.to_owned() };
        assert_eq!(rules(&to("v1.36.2"), &cp), []);
        assert_eq!(rules(&to("v1.37.0"), &cp), [(Blocker, "version-skips-a-minor")]);
        assert_eq!(rules(&to("v1.35.3"), &cp), [(Blocker, "version-goes-back")]);
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
            let mut place = around(machines[0].clone());
            place.machines = Some(machines);
            assert!(rules(&Action::Delete, &place).iter().any(|(_, rule)| *rule == expected), "{healthy:?}");
        }
        let mut last = around(machine("m0", true));
        last.machines = Some(vec![machine("m0", true)]);
        assert!(rules(&Action::Delete, &last).contains(&(Severity::Blocker, "last-control-plane-machine")));
    }

    #[test]
    fn pause_deletion_and_blind_spots_are_said() {
        let mut place = around(
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

    #[test]
    fn confirmation_is_in_proportion() {
        let md = around(json!({"kind": "MachineDeployment", "spec": {"replicas": 3}}));
        let cp = kcp(json!({"replicas": 3}));
        for (action, place, expected) in [
            (Action::Scale { replicas: 5 }, &md, Risk::Low),
            (Action::Scale { replicas: 2 }, &md, Risk::Medium),
            (Action::Scale { replicas: 0 }, &md, Risk::High),
            (Action::Scale { replicas: 5 }, &cp, Risk::Medium),
            (Action::Scale { replicas: 1 }, &cp, Risk::High),
            (Action::Restart, &md, Risk::Medium),
            (Action::Restart, &cp, Risk::High),
            (Action::Pause, &cp, Risk::Low),
        ] {
            assert_eq!(risk(&action, place), expected, "{action}");
        }
    }
}
