//! What a person has to acknowledge of a plan, by name, and what was acknowledged. Owns these names; must not know who is asked.

use std::collections::BTreeSet;

use super::super::certificate_drift::{API_SERVER_CERTIFICATE, ETCD_CERTIFICATE};
use super::super::render::ETCD;
use super::super::rules::Judgement;
use super::super::steps::StepId;
use super::{ChangePlan, Drift};

/// What a person said to the warnings of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Acknowledged {
    /// They were not read yet.
    #[default]
    Nothing,
    /// The conditions of these names, as [`ChangePlan::conditions`] has them.
    Named(BTreeSet<String>),
    /// Whatever there is.
    Everything,
}

impl Acknowledged {
    /// Of names; an empty one stands for everything.
    pub fn of(names: &[String]) -> Self {
        if names.is_empty() {
            Self::Nothing
        } else if names.iter().any(String::is_empty) {
            Self::Everything
        } else {
            Self::Named(names.iter().cloned().collect())
        }
    }

    /// The names that are no conditions of the plan: whoever gave them means another plan.
    pub fn unknown(&self, plan: &ChangePlan) -> Vec<String> {
        let Self::Named(names) = self else { return Vec::new() };
        let known = plan.conditions();
        names.iter().filter(|name| !known.contains(name)).cloned().collect()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        match self {
            Self::Nothing => false,
            Self::Named(names) => names.contains(name),
            Self::Everything => true,
        }
    }
}

impl ChangePlan {
    /// Everything that has to be acknowledged before the plan may be carried out: changes by their paths (with the kind of the
    /// document where several have that path), and what is written over what somebody changed, as `COMPONENT/NODE`.
    pub fn conditions(&self) -> Vec<String> {
        // A block that --force passes is among them: force lifts the refusal, not the acknowledgement.
        let advised = self.changes.iter().filter(|judged| judged.finding.verdict != Judgement::Ok);
        let mut names: Vec<String> = advised
            .map(|judged| {
                let path = &judged.change.path;
                let same = self.changes.iter().filter(|other| other.change.path == *path).count();
                if same > 1 { format!("{}.{path}", judged.change.kind.name()) } else { path.to_string() }
            })
            .collect();
        let written = self.drift.iter().filter(|drift| self.is_written(drift));
        names.extend(written.map(|drift| format!("{}/{}", drift.component, drift.node)));
        names
    }

    /// Do its steps write a manifest anew that runs otherwise than stored?
    pub fn takes_back(&self) -> bool {
        self.drift.iter().any(|drift| self.is_written(drift))
    }

    /// Do the steps write this manifest anew?
    fn is_written(&self, drift: &Drift) -> bool {
        let step = match drift.component.as_str() {
            // M1 runs with `--etcd-upgrade=false`: only E1 takes drift of etcd back.
            ETCD => StepId::E1,
            API_SERVER_CERTIFICATE => StepId::C1,
            ETCD_CERTIFICATE => StepId::C2,
            _ => StepId::M1,
        };
        self.steps_of(step).any(|node| node == drift.node)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{cluster, planned_with};
    use super::super::{PlanOptions, PlanState};
    use super::*;

    #[test]
    fn what_is_open_has_to_be_acknowledged_by_name_or_as_a_whole() {
        let mut inputs = cluster(1, 1);
        let pod = inputs.objects.iter_mut().find(|o| o["metadata"]["name"] == "kube-apiserver-cp-0");
        let command = &mut pod.expect("a pod")["spec"]["containers"][0]["command"];
        command.as_array_mut().expect("a list").push(json!("--v=3"));
        let (pods, drift) = ("maxPods", "kube-apiserver/cp-0");
        for (names, unknown, left) in [
            (&[][..], &[][..], &[pods, drift][..]),
            (&[pods], &[], &[drift]),
            (&[drift], &[], &[pods]),
            (&[pods, drift], &[], &[]),
            (&[pods, "mode"], &["mode"], &[drift]),
            (&[pods, ""], &[], &[]),
        ] {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let acknowledged = Acknowledged::of(&names);
            let options = PlanOptions { acknowledged: acknowledged.clone(), ..PlanOptions::default() };
            let edits = ["maxPods=60", "apiServer.extraArgs[event-ttl]=2h"];
            let plan = planned_with(&inputs, &edits, &options);
            assert_eq!(plan.to_acknowledge, left, "{names:?}");
            assert_eq!(acknowledged.unknown(&plan), unknown, "{names:?}");
            assert_eq!(plan.state == PlanState::Ready, left.is_empty(), "{names:?}");
        }
    }
}
