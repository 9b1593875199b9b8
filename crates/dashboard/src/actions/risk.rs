//! How much an action can break, and the confirmation that this asks for: the same on the command line and in the
//! dashboard. Must not know how an answer is typed.

use super::Action;
use super::related::Related;
use crate::operations::Confirmation;
use capi_types::host::is_host;

/// How much an action can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Risk {
    Low,
    Medium,
    High,
}

impl Risk {
    pub fn confirmation(self) -> Confirmation {
        match self {
            Self::Low => Confirmation::Enter,
            Self::Medium => Confirmation::Yes,
            Self::High => Confirmation::Name,
        }
    }
}

/// In proportion to what can break.
pub fn risk(action: &Action, related: &Related) -> Risk {
    if related.is_protected() {
        return Risk::High;
    }
    let control_plane =
        related.kind() == "Cluster" || related.is_control_plane() || related.is_control_plane_machine();
    // Unset replicas default to 1.
    let current = related.object["spec"]["replicas"].as_i64().unwrap_or(1);
    match action {
        // The pause of a Cluster holds everything that belongs to it.
        Action::Pause | Action::Resume if related.kind() == "Cluster" => Risk::Medium,
        Action::Pause | Action::Resume | Action::ClearSchedule => Risk::Low,
        Action::Scale { replicas } if control_plane && i64::from(*replicas) < current => Risk::High,
        Action::Scale { replicas: 0 } => Risk::High,
        Action::Scale { replicas } if i64::from(*replicas) < current || control_plane => Risk::Medium,
        Action::Scale { .. } => Risk::Low,
        // What is on a machine goes.
        Action::Annotate(change) if change.is_about_hosts() => Risk::High,
        // With a wrong host key or address the cluster's secrets would go to another machine.
        Action::Edit(_) if is_host(related.group(), related.kind()) => Risk::High,
        Action::Label(change) | Action::Annotate(change) if !change.is_read_by_controllers() => Risk::Low,
        Action::Delete
        | Action::Remediate
        | Action::SetVersion { .. }
        | Action::UpdateInPlace(_)
        | Action::Restart
        | Action::RolloutAfter { .. }
        | Action::Label(_)
        | Action::Annotate(_)
        | Action::Edit(_)
        | Action::Undo => {
            if control_plane {
                Risk::High
            } else {
                Risk::Medium
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::actions::ObjectChange;
    use crate::actions::metadata_change::MetadataChange;
    use capi_types::names::label;

    #[test]
    fn the_risk_is_in_proportion_to_what_can_break() {
        let md = Related::alone(json!({"kind": "MachineDeployment", "spec": {"replicas": 3}}));
        let group = "controlplane.cluster.x-k8s.io/v1beta2";
        let cp = Related::alone(
            json!({"apiVersion": group, "kind": "KubeadmControlPlane", "spec": {"replicas": 3}}),
        );
        let named = json!({"apiVersion": "rke.cattle.io/v1", "kind": "RKEControlPlane", "name": "c"});
        let rke = Related {
            cluster: Some(json!({"kind": "Cluster", "spec": {"controlPlaneRef": named}})),
            ..Related::alone(json!({"apiVersion": "rke.cattle.io/v1", "kind": "RKEControlPlane",
                "metadata": {"name": "c"}, "spec": {"replicas": 3}}))
        };
        let marked = json!({"kind": "Cluster", "metadata": {"labels": {label::PROTECTED: "true"}}});
        let protected = Related { cluster: Some(marked), ..md.clone() };
        let annotate = |words: &str| Action::Annotate(MetadataChange::parse(words).expect(words));
        let machine = |labels: serde_json::Value| {
            Related::alone(json!({"kind": "Machine", "metadata": {"labels": labels}}))
        };
        let edited = |api_version: &str, kind: &str| {
            let document = json!({"apiVersion": api_version, "kind": kind, "spec": {"address": "a"}});
            let change = ObjectChange::of(&document, json!({"spec": {"address": "b"}}));
            (Action::Edit(Box::new(change)), Related::alone(document))
        };
        let (edit, host) = edited("infrastructure.cluster.x-k8s.io/v1beta1", "Host");
        let (_, pool) = edited("infrastructure.cluster.x-k8s.io/v1beta1", "HostPool");
        let (_, other) = edited("example.io/v1", "Host");
        for (action, related, expected) in [
            (edit.clone(), &host, Risk::High),
            (edit.clone(), &pool, Risk::Medium),
            (edit, &other, Risk::Medium),
            (Action::Scale { replicas: 5 }, &md, Risk::Low),
            (Action::Scale { replicas: 2 }, &md, Risk::Medium),
            (Action::Scale { replicas: 0 }, &md, Risk::High),
            (Action::Scale { replicas: 5 }, &cp, Risk::Medium),
            (Action::Scale { replicas: 1 }, &cp, Risk::High),
            (Action::Scale { replicas: 1 }, &rke, Risk::High),
            (Action::Restart, &rke, Risk::High),
            (Action::Restart, &md, Risk::Medium),
            (Action::Restart, &cp, Risk::High),
            (Action::Pause, &cp, Risk::Low),
            (Action::Pause, &protected, Risk::High),
            (Action::Scale { replicas: 5 }, &protected, Risk::High),
            (annotate("note=a"), &cp, Risk::Low),
            (annotate("hosts.capstan.dev/reset=now"), &md, Risk::High),
            (annotate("cluster.x-k8s.io/paused-"), &cp, Risk::High),
            (annotate("cluster.x-k8s.io/paused-"), &md, Risk::Medium),
            (annotate("note=a"), &protected, Risk::High),
            (Action::Remediate, &machine(json!({})), Risk::Medium),
            (Action::Remediate, &machine(json!({"cluster.x-k8s.io/control-plane": ""})), Risk::High),
        ] {
            assert_eq!(risk(&action, related), expected, "{action}");
        }
    }

    #[test]
    fn each_risk_has_its_confirmation() {
        for (risk, accepted) in [
            (Risk::Low, ["", "y", "yes\n"].as_slice()),
            (Risk::Medium, &["y\n", " yes "]),
            (Risk::High, &["cp\n"]),
        ] {
            for answer in ["", "y", "yes\n", "y\n", " yes ", "cp\n", "n", "cp-0"] {
                let found = risk.confirmation().accepts(answer, "cp");
                let answers: Vec<&str> = accepted.iter().map(|a| a.trim()).collect();
                assert_eq!(found, answers.contains(&answer.trim()), "{risk:?} {answer:?}");
            }
        }
    }
}
