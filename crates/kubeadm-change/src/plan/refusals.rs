//! What a component itself refuses of the changes: it would not start. Owns which change a refusal belongs to; must not know what is refused.

use serde_json::Value;

use super::super::accepted::{self, GateOwner, NotAccepted};
use super::super::difference::FieldChange;
use super::super::document::DocumentKind;
use super::super::facts::ClusterFacts;
use super::super::path::PathStep;
use super::super::rules::Judgement;
use super::JudgedChange;

/// Blocks each change that leads to a flag or a gate that its component refuses.
pub(super) fn block(judged: &mut [JudgedChange], cluster: Option<&Value>, facts: &ClusterFacts) {
    let minor = facts.minor;
    let etcd = |cluster| accepted::etcd_minor(cluster, facts.running_etcd_tag());
    let flags = cluster.map(|cluster| accepted::refused_flags(cluster, minor, etcd(cluster)));
    let flags = flags.unwrap_or_default();
    for judged in judged.iter_mut().filter(|judged| judged.finding.verdict != Judgement::Block) {
        let flag = flag_of(&judged.change);
        let of_flag = flag.and_then(|(folder, name)| {
            flags
                .iter()
                .find(|refused| refused.folder == folder && refused.flags.iter().any(|flag| flag == name))
        });
        let refusal = of_flag.map(|refused| refused.refusal.clone()).or_else(|| gate(&judged.change, minor));
        let Some(NotAccepted { problem, instead }) = refusal else { continue };
        let finding = &mut judged.finding;
        finding.verdict = Judgement::Block;
        (finding.message, finding.alternative) = (problem, Some(instead));
        // A component of another make may take it.
        finding.forceable = true;
    }
}

/// The place of the component and the name of the flag, for a change of `extraArgs`.
pub(super) fn flag_of(change: &FieldChange) -> Option<(&'static [&'static str], &str)> {
    if change.kind != DocumentKind::Cluster {
        return None;
    }
    accepted::COMPONENTS.iter().find_map(|(_, folder)| {
        let (head, rest) = change.path.0.split_at_checked(folder.len())?;
        let is_there =
            head.iter().zip(*folder).all(|(step, name)| *step == PathStep::Field((*name).to_owned()));
        match rest {
            [PathStep::Field(list), PathStep::Item(flag), ..] if is_there && list == "extraArgs" => {
                Some((*folder, flag.as_str()))
            }
            _ => None,
        }
    })
}

/// A gate of a component's own configuration; kubeadm's are refused with the document.
fn gate(change: &FieldChange, minor: Option<u64>) -> Option<NotAccepted> {
    let component = match change.kind {
        DocumentKind::Kubelet => "the kubelet",
        DocumentKind::Proxy => "kube-proxy",
        _ => return None,
    };
    let [PathStep::Field(field), PathStep::Field(name)] = change.path.0.as_slice() else { return None };
    let on = change.new.as_bool().filter(|_| field == "featureGates")?;
    let problem = accepted::gate_refused(GateOwner::Kubernetes, minor?, name, on)?;
    Some(NotAccepted {
        problem: format!("{component} does not start: {problem}."),
        instead: "Leave the gate out.".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{cluster, planned, planned_with};
    use super::super::{PlanOptions, PlanState};

    #[test]
    fn what_a_component_does_not_start_with_is_blocked() {
        let inputs = cluster(3, 1);
        for set in [
            "apiServer.extraArgs[audit-log-maxagee]=30",
            "apiServer.extraArgs[audit-log-maxage]=thirty",
            "apiServer.extraArgs[event-ttl]=forever",
            "apiServer.extraArgs[insecure-port]=0",
            "apiServer.extraArgs[enable-admission-plugins]=NodeRestriction,NoSuchPlugin",
            "apiServer.extraArgs[feature-gates]=NoSuchGate=true",
            "apiServer.extraArgs[tls-min-version]=VersionTLS14",
            "controllerManager.extraArgs[horizontal-pod-autoscaler-use-rest-clients]=true",
            "controllerManager.extraArgs[concurrent-gc-syncs]=abc",
            "controllerManager.extraArgs[cluster-signing-duration]=1m",
            "scheduler.extraArgs[kube-api-qps]=abc",
            "scheduler.extraArgs[port]=0",
            "etcd.local.extraArgs[election-timeout]=50",
            "etcd.local.extraArgs[experimental-no-such]=1",
            "ClusterConfiguration.featureGates.NoSuchGate=true",
            "KubeletConfiguration.featureGates.NoSuchGate=true",
            "KubeProxyConfiguration.featureGates.NoSuchGate=true",
        ] {
            let plan = planned(&inputs, &[set]);
            assert_eq!(plan.state, PlanState::Blocked, "{set}");
            assert!(plan.steps.is_empty(), "{set}");
        }
        for set in [
            "apiServer.extraArgs[audit-log-maxage]=30",
            "controllerManager.extraArgs[concurrent-gc-syncs]=25",
            "scheduler.extraArgs[kube-api-qps]=60",
            "etcd.local.extraArgs[snapshot-count]=5000",
        ] {
            assert_eq!(planned(&inputs, &[set]).state, PlanState::Ready, "{set}");
        }
    }

    #[test]
    fn a_component_of_another_make_may_be_given_its_flag() {
        let options = PlanOptions { force: true, acknowledged: true, ..PlanOptions::default() };
        let plan = planned_with(&cluster(1, 0), &["apiServer.extraArgs[vendor-flag]=1"], &options);
        assert_eq!(plan.state, PlanState::Ready);
        assert!(plan.changes[0].finding.message.contains("does not have a flag --vendor-flag"));
    }
}
