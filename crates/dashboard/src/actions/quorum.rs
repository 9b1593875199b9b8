//! What an action leaves of a control plane: API servers that answer, and the quorum of its etcd. Pure rules over the Machines'
//! conditions and the members' own answers: both must allow it, and what is not known to be healthy is not. Must not read
//! anything, and must not do the arithmetic, which is `etcd`.

use serde_json::Value;

use super::related::{Related, condition};
use super::{Action, finding};
use crate::operations::{Finding, Severity};
use capi_rules::etcd::report::{Removal, Report};
use capi_rules::etcd::{Change, Member, Projection, quorum, tolerated_failures};
use capi_rules::status::machines::Reach;
use capstan_base::text::counted;
use capstan_base::time::Timestamp;

const CONTROL_PLANE: &str = "KubeadmControlPlane";

/// What the rules say about a control plane that `action` concerns.
pub(super) fn findings(action: &Action, related: &Related, now: Timestamp) -> Vec<Finding> {
    let all = [
        machines_unknown(action, related),
        last_api_server(action, related),
        nodes_unreachable(action, related, now),
        quorum_after_removal(action, related),
        quorum_after_scaling_down(action, related),
        etcd_not_asked(action, related),
    ];
    all.into_iter().flatten().collect()
}

/// Does the action take a member of a stacked etcd, or several?
pub(super) fn takes_member(action: &Action, related: &Related) -> bool {
    let is_control_plane = related.is_control_plane() && matches!(action, Action::Scale { .. });
    (removes_host(action, related) || is_control_plane) && etcd_of(related) == Etcd::Stacked
}

/// Does the action take this control plane Machine away, at once or by its owner?
fn removes_host(action: &Action, related: &Related) -> bool {
    related.is_control_plane_machine() && matches!(action, Action::Delete | Action::Remediate)
}

/// Where the etcd of a control plane runs.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Etcd {
    /// On its Machines.
    Stacked,
    /// Not on its Machines, or there are none.
    External,
    /// A control plane of this kind does not say how members are.
    NotKnown(String),
}

/// Stacked, unless the KubeadmControlPlane names external endpoints, or another kind owns the Machine and says nothing.
fn etcd_of(related: &Related) -> Etcd {
    let is_own = related.kind() == CONTROL_PLANE;
    let kubeadm = if is_own { Some(&related.object) } else { related.control_plane.as_ref() };
    if let Some(kubeadm) = kubeadm {
        let external = &kubeadm["spec"]["kubeadmConfigSpec"]["clusterConfiguration"]["etcd"]["external"];
        return if external.is_null() { Etcd::Stacked } else { Etcd::External };
    }
    let says = |machine: &&Value| condition(machine, "EtcdMemberHealthy").is_some();
    let machines = related.control_plane_machines();
    let is_said = machines.as_ref().is_some_and(|machines| machines.iter().any(says));
    if related.is_control_plane() {
        let has_none = machines.is_some_and(|machines| machines.is_empty());
        return match (is_said, has_none) {
            // Only a member on a Machine can have this condition.
            (true, _) => Etcd::Stacked,
            // Without Machines there is no member on one that the action could take.
            (false, true) => Etcd::External,
            (false, false) => Etcd::NotKnown(related.kind().to_owned()),
        };
    }
    match related.owner() {
        // A Machine whose KubeadmControlPlane was not read is judged below as if it had a member:
        // the graver case counts.
        Some((kind, _)) if kind != CONTROL_PLANE && !is_said => Etcd::NotKnown(kind.to_owned()),
        _ => Etcd::Stacked,
    }
}

/// Whether the API server of a control plane Machine answers, as far as its conditions say.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ApiServer {
    Answers,
    /// Its Node is.
    Unreachable,
    /// With the reason.
    NoAnswer(String),
}

fn api_server(machine: &Value) -> ApiServer {
    if !machine["metadata"]["deletionTimestamp"].is_null() {
        return ApiServer::NoAnswer("in deletion".to_owned());
    }
    // A Machine that boots is not counted as one whose API server was lost, but it answers nothing.
    if machine["status"]["nodeRef"]["name"].as_str().is_none() {
        return ApiServer::NoAnswer("no Node yet".to_owned());
    }
    let pod = condition(machine, "APIServerPodHealthy").and_then(|c| c["status"].as_str());
    match (node_reach(machine), pod) {
        (Reach::Unreachable, _) => ApiServer::Unreachable,
        // Not every control plane sets the condition: without it, a Node that reports has to do.
        (_, Some("True")) | (Reach::Reachable, None) => ApiServer::Answers,
        (_, Some(status)) => ApiServer::NoAnswer(format!("APIServerPodHealthy is {status}")),
        (Reach::NotKnown, None) => ApiServer::NoAnswer("its Node is not known".to_owned()),
    }
}

fn node_reach(machine: &Value) -> Reach {
    // Releases before v1beta2 have only NodeHealthy.
    let found = condition(machine, "NodeReady").or_else(|| condition(machine, "NodeHealthy"));
    Reach::of(
        found.map(|c| (c["status"].as_str().unwrap_or_default(), c["reason"].as_str().unwrap_or_default())),
    )
}

/// The Machines of a control plane with what is known of their API servers.
struct Servers<'a>(Vec<(&'a str, ApiServer)>);

impl<'a> Servers<'a> {
    fn of(related: &'a Related) -> Option<Self> {
        let machines = related.control_plane_machines()?;
        Some(Self(machines.into_iter().map(|machine| (name(machine), api_server(machine))).collect()))
    }

    fn answering(&self) -> Vec<&'a str> {
        self.0.iter().filter(|(_, server)| *server == ApiServer::Answers).map(|(name, _)| *name).collect()
    }

    fn unreachable(&self) -> Vec<&'a str> {
        self.0.iter().filter(|(_, server)| *server == ApiServer::Unreachable).map(|(name, _)| *name).collect()
    }

    /// Such as `2 of 3 control plane Nodes are unreachable (b, c)`.
    fn silence(&self) -> String {
        let unreachable = self.unreachable();
        let silent = self.0.iter().filter(|(_, server)| *server != ApiServer::Answers);
        let verb = |count: usize, one: &'static str, many: &'static str| if count == 1 { one } else { many };
        let count = silent.clone().count();
        if count == unreachable.len() {
            let (verb, names) = (verb(count, "is", "are"), unreachable.join(", "));
            return format!("{count} of {} control plane Nodes {verb} unreachable ({names})", self.0.len());
        }
        let named = silent.map(|(name, server)| match server {
            ApiServer::NoAnswer(why) => format!("{name}: {why}"),
            _ => format!("{name}: Node unreachable"),
        });
        let (verb, named) = (verb(count, "does", "do"), named.collect::<Vec<_>>().join(", "));
        format!("{count} of {} API servers of the control plane {verb} not answer ({named})", self.0.len())
    }
}

fn name(machine: &Value) -> &str {
    machine["metadata"]["name"].as_str().unwrap_or_default()
}

/// What cannot be looked at is not healthy.
fn machines_unknown(action: &Action, related: &Related) -> Option<Finding> {
    if !removes_host(action, related) || related.machines.is_some() {
        return None;
    }
    let text = "the other Machines of its control plane could not be read, so whether an API server and a quorum of etcd are \
                left is not known";
    finding(Severity::Blocker, "control-plane-not-known", text)
}

/// Taking the last API server that answers ends the workload cluster's API, whatever etcd says.
fn last_api_server(action: &Action, related: &Related) -> Option<Finding> {
    if !removes_host(action, related) {
        return None;
    }
    let own = name(&related.object);
    let servers = Servers::of(related)?;
    let machines = related.control_plane_machines()?;
    if !machines.iter().any(|m| name(m) != own && m["metadata"]["deletionTimestamp"].is_null()) {
        let lost = match etcd_of(related) {
            Etcd::External => "the API of the workload cluster would be lost",
            _ => "etcd and with it the workload cluster would be lost",
        };
        let text = format!("it is the only control plane Machine that is not in deletion: {lost}");
        return finding(Severity::Blocker, "last-control-plane-machine", text);
    }
    let (answering, silence) = (servers.answering(), servers.silence());
    match answering.as_slice() {
        [] => {
            let text = format!("{silence}: no API server is known to answer");
            finding(Severity::Warning, "no-api-server-answers", text)
        }
        [last] if *last == own => {
            let text = format!("{silence}: {last} is the last API server that answers");
            finding(Severity::Blocker, "last-api-server", text)
        }
        [last] => finding(
            Severity::Note,
            "last-api-server",
            format!("{silence}: {last} is the last API server that answers, and stays"),
        ),
        // In a control plane of two Machines the last one is what was asked for.
        [one, other] if servers.0.len() > 2 && (*one == own || *other == own) => {
            let last = if *one == own { other } else { one };
            let text = format!("{silence}: {last} is then the last API server that answers");
            finding(Severity::Warning, "last-api-server", text)
        }
        _ => None,
    }
}

/// Actions on a whole control plane while Nodes of it are unreachable. Those that boot are not.
fn nodes_unreachable(action: &Action, related: &Related, now: Timestamp) -> Option<Finding> {
    if !concerns_every_host(action, related) {
        return None;
    }
    let servers = Servers::of(related)?;
    if servers.unreachable().is_empty() {
        return None;
    }
    let silence = servers.silence();
    let is_later = matches!(action, Action::RolloutAfter { at } if *at > now);
    // The Nodes may be back by then.
    let gravest = if is_later { Severity::Warning } else { Severity::Blocker };
    match servers.answering().as_slice() {
        [] => finding(gravest, "last-api-server", format!("{silence}: no API server is known to answer")),
        [last] => {
            let text = format!("{silence}: {last} is the last API server that answers");
            finding(gravest, "last-api-server", text)
        }
        _ => finding(Severity::Warning, "nodes-unreachable", silence),
    }
}

/// Replaces control plane Machines, or takes some away.
fn concerns_every_host(action: &Action, related: &Related) -> bool {
    let is_rollout = matches!(
        action,
        Action::Restart | Action::RolloutAfter { .. } | Action::SetVersion { .. } | Action::UpdateInPlace(_)
    );
    let is_control_plane = related.is_control_plane();
    (is_rollout && (is_control_plane || related.kind() == "Cluster"))
        || (is_control_plane && lowered(action, related).is_some())
}

/// Replicas now and afterwards, of a scale down.
fn lowered(action: &Action, related: &Related) -> Option<(i64, i64)> {
    let Action::Scale { replicas } = action else { return None };
    // Unset replicas default to 1. A target of 0 leaves no etcd whose quorum could be judged.
    let (current, target) = (related.object["spec"]["replicas"].as_i64().unwrap_or(1), i64::from(*replicas));
    (target < current && target >= 1).then_some((current, target))
}

/// On a Node that is not unreachable, with a member that its control plane calls healthy.
fn is_healthy_member(machine: &Value) -> bool {
    machine["metadata"]["deletionTimestamp"].is_null()
        && node_reach(machine) != Reach::Unreachable
        && condition(machine, "EtcdMemberHealthy").is_some_and(|c| c["status"] == "True")
}

/// The member that a control plane Machine hosts, under the Machine's name.
fn member(machine: &Value) -> Member {
    Member { name: name(machine).to_owned(), ..Member::default() }
}

/// Its member goes before the Machine does, so quorum of the smaller etcd counts.
fn quorum_after_removal(action: &Action, related: &Related) -> Option<Finding> {
    if !removes_host(action, related) {
        return None;
    }
    match etcd_of(related) {
        Etcd::Stacked => {}
        Etcd::External => return None,
        Etcd::NotKnown(kind) => return etcd_not_known(&kind),
    }
    let machines = related.control_plane_machines()?;
    let own = name(&related.object);
    let listed: Vec<Member> = machines.iter().map(|m| member(m)).collect();
    let is_healthy = |name_: &str| machines.iter().find(|m| name(m) == name_).map(|m| is_healthy_member(m));
    let after = Projection::after(&listed, Change::Remove(own), is_healthy);
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
    // Conditions lag behind: what the members answer themselves can only make the judgement
    // stricter.
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

fn etcd_not_known(kind: &str) -> Option<Finding> {
    let text = format!(
        "{kind} does not say how the members of its etcd are, so whether quorum is kept is not known: look there first"
    );
    finding(Severity::Warning, "etcd-not-known", text)
}

/// What etcd itself leaves without the Machine's member, and what it has now. `None` when it does not answer or has no
/// such voter.
fn removal_of_member(related: &Related) -> Option<(&Removal, &str)> {
    let report = report(related)?;
    let node = related.object["status"]["nodeRef"]["name"].as_str()?;
    Some((report.without(node)?, report.summary.as_str()))
}

fn report(related: &Related) -> Option<&Report> {
    related.etcd.as_ref()?.as_ref().ok()
}

/// Its controller chooses which Machines go, so that the worst choice counts.
fn quorum_after_scaling_down(action: &Action, related: &Related) -> Option<Finding> {
    let (current, target) = lowered(action, related).filter(|_| related.is_control_plane())?;
    match etcd_of(related) {
        Etcd::Stacked => {}
        Etcd::External => return None,
        Etcd::NotKnown(kind) => return etcd_not_known(&kind),
    }
    let now = report(related).map(|report| format!("; etcd has {}", report.summary)).unwrap_or_default();
    let count = |n: i64| usize::try_from(n).unwrap_or(0);
    if let Some((members, healthy)) = members(related) {
        // The worst choice: every Machine that goes has a healthy member.
        let left = healthy.saturating_sub(members.saturating_sub(count(target)));
        let needed = quorum(count(target));
        if left < needed {
            let text = format!(
                "{healthy} of {} are known to be healthy, and of {target} it may be {left}, where {needed} are needed{now}",
                counted(members, "etcd member")
            );
            return finding(Severity::Blocker, "quorum-lost", text);
        }
    }
    finding(
        Severity::Warning,
        "fewer-members",
        format!(
            "from {current} to {target} control plane Machines: afterwards etcd survives {} (now {}){now}",
            losses(count(target)),
            losses(count(current)),
        ),
    )
}

/// How many members there are, and how many are healthy by their Machines, and not more than by their own answers. `None`: the
/// Machines are not known.
fn members(related: &Related) -> Option<(usize, usize)> {
    let machines = related.control_plane_machines().filter(|machines| !machines.is_empty())?;
    let by_machines = machines.iter().filter(|machine| is_healthy_member(machine)).count();
    let healthy = report(related).map_or(by_machines, |report| report.healthy.min(by_machines));
    Some((machines.len(), healthy))
}

/// What a cluster of this many members survives.
fn losses(members: usize) -> String {
    match tolerated_failures(members) {
        0 => "the loss of no member".to_owned(),
        1 => "the loss of 1 member".to_owned(),
        n => format!("the loss of {n} members"),
    }
}

/// The members' answers are the better evidence: without them the Machines' conditions have to do.
fn etcd_not_asked(action: &Action, related: &Related) -> Option<Finding> {
    let Some(Err(why)) = related.etcd.as_ref().filter(|_| takes_member(action, related)) else { return None };
    finding(Severity::Note, "etcd-not-asked", format!("judged by the Machines' conditions: {why}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use capi_rules::etcd::facts::{Asked, Class, Facts, Listed, MemberStatus, Trouble};
    use capi_types::names::label;
    use capstan_base::time::parse_rfc3339;

    /// How a control plane Machine is.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum How {
        Well,
        /// Its member is listed as healthy all the same.
        Silent,
        NoMember,
        /// Its Node is not ready yet, and its API server runs.
        NotReady,
        Boots,
        Leaves,
    }

    use How::{Boots, Leaves, NoMember, NotReady, Silent, Well};

    fn machine(name: &str, how: How) -> Value {
        let said = |type_: &str, status: &str, reason: &str| json!({"type": type_, "status": status, "reason": reason});
        let (node, pod) = match how {
            Silent => (said("NodeReady", "Unknown", "NodeReadyUnknown"), "Unknown"),
            NotReady => (said("NodeReady", "False", "NodeNotReady"), "True"),
            Boots => (said("NodeReady", "Unknown", "InspectionFailed"), "Unknown"),
            Well | NoMember | Leaves => (said("NodeReady", "True", "NodeReady"), "True"),
        };
        let member = if matches!(how, NoMember | Boots) { "False" } else { "True" };
        let mut machine = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"name": name, "labels": {label::CONTROL_PLANE: ""},
                "ownerReferences": [{"kind": "KubeadmControlPlane", "name": "cp", "controller": true}]},
            "spec": {"version": "v1.35.4"},
            "status": {"nodeRef": {"name": format!("node-{name}")}, "conditions": [
                node, said("APIServerPodHealthy", pod, ""), said("EtcdMemberHealthy", member, "")]}
        });
        match how {
            Boots => machine["status"]["nodeRef"] = Value::Null,
            Leaves => machine["metadata"]["deletionTimestamp"] = json!("2026-11-20T09:00:00Z"),
            _ => {}
        }
        machine
    }

    fn plane(external: bool) -> Value {
        let etcd = if external { json!({"external": {"endpoints": ["https://e:2379"]}}) } else { json!({}) };
        json!({"kind": "KubeadmControlPlane", "metadata": {"name": "cp"},
            "spec": {"replicas": 3, "kubeadmConfigSpec": {"clusterConfiguration": {"etcd": etcd}}}})
    }

    /// Machines `a`, `b` and so on; the action is about `a`.
    fn around(how: &[How]) -> Related {
        let named = "abcde".chars().zip(how);
        let machines: Vec<Value> = named.map(|(name, how)| machine(&name.to_string(), *how)).collect();
        Related {
            object: machines[0].clone(),
            cluster: Some(json!({"kind": "Cluster", "spec": {}})),
            machines: Some(machines),
            control_plane: Some(plane(false)),
            ..Related::default()
        }
    }

    fn now() -> Timestamp {
        parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment")
    }

    fn said(action: &Action, related: &Related) -> Vec<(Severity, &'static str, String)> {
        findings(action, related, now()).into_iter().map(|f| (f.severity, f.rule, f.text)).collect()
    }

    fn rules(action: &Action, related: &Related) -> Vec<(Severity, &'static str)> {
        said(action, related).into_iter().map(|(severity, rule, _)| (severity, rule)).collect()
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
        Report::of(&Facts { answers: (1..=members).map(asked).collect(), ..Facts::default() }, None)
    }

    /// It was a note: the member list was believed against the Nodes.
    #[test]
    fn the_last_api_server_that_answers_stays() {
        let mut place = around(&[Well, Silent, Silent]);
        place.object["status"]["nodeRef"]["name"] = json!("node-1");
        // The members' own answers, as if a dead host did not count.
        place.etcd = Some(Ok(etcd(3, 0)));
        for action in [Action::Delete, Action::Remediate] {
            let found = said(&action, &place);
            let blockers: Vec<_> =
                found.iter().filter(|(severity, ..)| *severity == Severity::Blocker).collect();
            let [(_, first, text), (_, second, _)] = blockers.as_slice() else { panic!("{found:?}") };
            assert_eq!((*first, *second), ("last-api-server", "quorum-lost"), "{action}");
            let sentence =
                "2 of 3 control plane Nodes are unreachable (b, c): a is the last API server that answers";
            assert_eq!(text, sentence);
        }
        let mut external = around(&[Well, Silent, Silent]);
        external.control_plane = Some(plane(true));
        assert_eq!(rules(&Action::Delete, &external), [(Severity::Blocker, "last-api-server")]);
        external.machines = Some(vec![machine("a", Well), machine("b", Well), machine("c", Silent)]);
        let found = said(&Action::Delete, &external);
        let text =
            "1 of 3 control plane Nodes is unreachable (c): b is then the last API server that answers";
        assert_eq!(found, [(Severity::Warning, "last-api-server", text.to_owned())]);
    }

    /// Which of the others are well, and what a deletion or remediation of the first one meets.
    #[test]
    fn taking_a_control_plane_machine_away() {
        let (blocker, warning, note) = (Severity::Blocker, Severity::Warning, Severity::Note);
        for (how, expected) in [
            (&[Well, Well, Well][..], vec![(note, "quorum-kept")]),
            (&[NoMember, Well, Well], vec![(note, "quorum-kept")]),
            (&[Silent, Well, Well], vec![(note, "quorum-kept")]),
            (&[Well, NoMember, Well], vec![(blocker, "quorum-lost")]),
            // It boots: its API server answers, and so does its member.
            (&[Well, NotReady, Well], vec![(note, "quorum-kept")]),
            (&[Well, NotReady, NotReady], vec![(note, "quorum-kept")]),
            (&[Well, Boots, Well], vec![(warning, "last-api-server"), (blocker, "quorum-lost")]),
            (&[Well, Silent, Well], vec![(warning, "last-api-server"), (blocker, "quorum-lost")]),
            (&[Silent, Silent, Well], vec![(note, "last-api-server"), (blocker, "quorum-lost")]),
            (&[Silent, Silent, Silent], vec![(warning, "no-api-server-answers"), (blocker, "quorum-lost")]),
            (&[Well], vec![(blocker, "last-control-plane-machine"), (blocker, "quorum-lost")]),
            (&[Well, Leaves], vec![(blocker, "last-control-plane-machine"), (blocker, "quorum-lost")]),
            (&[Well, Well], vec![(note, "quorum-kept")]),
        ] {
            let place = around(how);
            assert_eq!(rules(&Action::Delete, &place), expected, "{:?}", said(&Action::Delete, &place));
            assert_eq!(rules(&Action::Remediate, &place), expected);
        }
        let unread = Related { machines: None, ..around(&[Well, Well, Well]) };
        assert_eq!(rules(&Action::Delete, &unread), [(blocker, "control-plane-not-known")]);
        let mut worker = around(&[Well, Silent]);
        worker.object["metadata"]["labels"] = json!({});
        assert_eq!(rules(&Action::Delete, &worker), []);
    }

    /// The conditions and the members' own answers must both allow it.
    #[test]
    fn deleting_a_machine_asks_its_member() {
        let with = |how: &[How], etcd| {
            let mut place = Related { etcd, ..around(how) };
            place.object["status"]["nodeRef"]["name"] = json!("node-1");
            place
        };
        let quorum = |related: &Related| {
            let found = said(&Action::Delete, related);
            found.into_iter().find(|(_, rule, _)| rule.starts_with("quorum")).expect("a finding")
        };
        let well = [Well, Well, Well];
        let (severity, rule, text) = quorum(&with(&well, Some(Ok(etcd(3, 0)))));
        assert_eq!((severity, rule), (Severity::Note, "quorum-kept"));
        assert_eq!(
            text,
            "etcd has 3 voters, healthy 3, can lose 1 more; without node-1: 2 voters, healthy 2, can lose 0 more"
        );
        let (severity, rule, text) = quorum(&with(&well, Some(Ok(etcd(3, 1)))));
        assert_eq!((severity, rule), (Severity::Blocker, "quorum-lost"));
        assert!(text.ends_with("quorum of 2 would be lost: it is not safe to take it"), "{text}");
        let unread = with(&well, Some(Err("no way".to_owned())));
        assert!(rules(&Action::Delete, &unread).contains(&(Severity::Note, "etcd-not-asked")));
        assert_eq!(quorum(&unread).0, Severity::Note);
        assert_eq!(quorum(&with(&[Well, NoMember, Well], Some(Ok(etcd(3, 0))))).0, Severity::Blocker);
    }

    /// Its conditions were missing, and counted as those of dead members: nobody could delete one.
    #[test]
    fn a_control_plane_that_says_nothing_of_its_members_warns() {
        let mut place = around(&[Well, Well, Well]);
        let plain = |name: &str, how| {
            let mut machine = machine(name, how);
            machine["metadata"]["ownerReferences"][0]["kind"] = json!("TalosControlPlane");
            let conditions = machine["status"]["conditions"].as_array_mut().expect("a list");
            conditions.retain(|condition| condition["type"] == "NodeReady");
            machine
        };
        place.control_plane = None;
        place.object = plain("a", Well);
        place.machines = Some(vec![plain("a", Well), plain("b", Well), plain("c", Well)]);
        assert_eq!(rules(&Action::Delete, &place), [(Severity::Warning, "etcd-not-known")]);
        place.machines = Some(vec![plain("a", Well), plain("b", Silent), plain("c", Silent)]);
        let expected = [(Severity::Blocker, "last-api-server"), (Severity::Warning, "etcd-not-known")];
        assert_eq!(rules(&Action::Delete, &place), expected);
    }

    fn of_plane(how: &[How], external: bool) -> Related {
        Related { object: plane(external), control_plane: None, ..around(how) }
    }

    #[test]
    fn scaling_a_control_plane_down() {
        let scale = |replicas| Action::Scale { replicas };
        let well = of_plane(&[Well, Well, Well], false);
        assert_eq!(rules(&scale(5), &well), []);
        assert_eq!(rules(&scale(1), &well), [(Severity::Warning, "fewer-members")]);
        let text = said(&scale(1), &well).remove(0).2;
        assert!(text.ends_with("etcd survives the loss of no member (now the loss of 1 member)"), "{text}");
        assert_eq!(rules(&scale(1), &of_plane(&[Well, Well, Well], true)), []);
        let one_is_silent = of_plane(&[Well, Silent, Well], false);
        let (blocker, warning) = (Severity::Blocker, Severity::Warning);
        assert_eq!(
            rules(&scale(1), &one_is_silent),
            [(warning, "nodes-unreachable"), (blocker, "quorum-lost")]
        );
        let two_are = of_plane(&[Well, Silent, Silent], false);
        assert_eq!(rules(&scale(1), &two_are), [(blocker, "last-api-server"), (blocker, "quorum-lost")]);
    }

    #[test]
    fn a_rollout_of_a_control_plane_with_silent_nodes() {
        let version = Action::SetVersion { version: "v1.36.0".to_owned() };
        let later = Action::RolloutAfter { at: now() + chrono::TimeDelta::hours(2) };
        let cluster = Related {
            object: json!({"kind": "Cluster", "spec": {}}),
            ..of_plane(&[Well, Silent, Silent], false)
        };
        let one_is_silent = of_plane(&[Well, Silent, Well], false);
        let two_are = of_plane(&[Well, Silent, Silent], false);
        for (action, place, expected) in [
            (&Action::Restart, &one_is_silent, vec![(Severity::Warning, "nodes-unreachable")]),
            (&Action::Restart, &two_are, vec![(Severity::Blocker, "last-api-server")]),
            (&version, &two_are, vec![(Severity::Blocker, "last-api-server")]),
            (&version, &cluster, vec![(Severity::Blocker, "last-api-server")]),
            (&later, &two_are, vec![(Severity::Warning, "last-api-server")]),
            (&Action::Restart, &of_plane(&[Well, Boots, Boots], false), vec![]),
            (&Action::Restart, &of_plane(&[Well, NotReady, NotReady], false), vec![]),
            (&Action::Pause, &two_are, vec![]),
        ] {
            assert_eq!(rules(action, place), expected, "{action}");
        }
    }
}
