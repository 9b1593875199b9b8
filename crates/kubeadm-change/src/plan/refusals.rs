//! What a component itself refuses of the changes: it would not start. Owns which change a refusal belongs to; must not know what is refused.

use serde_json::{Value, json};

use super::super::accepted::{self, GateOwner, NotAccepted};
use super::super::difference::FieldChange;
use super::super::document::DocumentKind;
use super::super::facts::ClusterFacts;
use super::super::image::tag_of;
use super::super::path::PathStep;
use super::super::render::{ETCD, HostFacts, NodeArtefacts, StaticPod};
use super::super::rules::Judgement;
use super::JudgedChange;
use k8s_machinery::version::tolerant_tag;

/// The patch release of etcd 3.6 from which on members work beside those of 3.7.
const LAST_STEP_TO_3_7: u64 = 11;

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

/// Blocks an image of etcd that ends with the flags that its manifest has, or that cannot work beside the member of the node.
pub(super) fn block_etcd_image(
    judged: &mut [JudgedChange],
    host: &HostFacts,
    (before, after): (&NodeArtefacts, &NodeArtefacts),
) {
    let pods = before.static_pods.get(ETCD).zip(after.static_pods.get(ETCD));
    let Some((old, new)) = pods else { return };
    let is_of_image = |judged: &&mut JudgedChange| {
        judged.change.path.to_string() == "etcd.local.imageTag" && judged.finding.verdict != Judgement::Block
    };
    let Some(judged) = judged.iter_mut().find(is_of_image) else { return };
    // What runs counts before what is stored: an earlier change of the image may not be rolled out.
    let running = host.etcd_tag.as_deref().or_else(|| tag_of(&old.image));
    let tags = running.zip(tag_of(&new.image));
    let refusal = tags.and_then(|(old, new)| hop(old, new)).or_else(|| with_its_flags(new));
    let Some(NotAccepted { problem, instead }) = refusal else { return };
    let finding = &mut judged.finding;
    finding.verdict = Judgement::Block;
    (finding.message, finding.alternative) = (problem, Some(instead));
    finding.forceable = false;
}

/// Source: etcd's guide `upgrades/upgrade_3_7`.
fn hop(old: &str, new: &str) -> Option<NotAccepted> {
    let (old, new) = (tolerant_tag(old).ok()?, tolerant_tag(new).ok()?);
    let is_early = (old.major, old.minor) == (3, 6) && old.patch < LAST_STEP_TO_3_7;
    (is_early && (new.major, new.minor) == (3, 7)).then(|| NotAccepted {
        problem: format!(
            "Members of etcd 3.6.{} may not work beside one of 3.7, and members change one after the other.",
            old.patch
        ),
        instead: format!("Go to 3.6.{LAST_STEP_TO_3_7} or later first."),
    })
}

/// The first flag of the manifest, kubeadm's own included, that the image does not take.
fn with_its_flags(pod: &StaticPod) -> Option<NotAccepted> {
    let flags = pod.command.iter().filter_map(|argument| argument.strip_prefix("--")?.split_once('='));
    let list: Vec<Value> = flags.map(|(name, value)| json!({"name": name, "value": value})).collect();
    let etcd = json!({"etcd": {"local": {"extraArgs": list}}});
    // The tables hold minor releases of etcd 3 only: a tag of another major would meet a wrong row.
    let minor = tolerant_tag(tag_of(&pod.image)?).ok().filter(|version| version.major == 3)?.minor;
    accepted::refused_flags(&etcd, None, Some(minor)).into_iter().next().map(|refused| refused.refusal)
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
            // `..`: a change of one value of a flag and of the whole entry have different depths.
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
    use super::super::{Acknowledged, DocumentKind, Inputs, PlanOptions, PlanState};

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
    fn an_image_of_etcd_has_to_take_the_flags_of_its_manifest() {
        let said = |of: &Inputs, sets: &[&str]| {
            let plan = planned(of, sets);
            (plan.state, plan.changes.iter().map(|judged| judged.finding.message.clone()).collect::<String>())
        };
        let (state, words) = said(&cluster(3, 0), &["etcd.local.imageTag=3.7.0-0"]);
        assert_eq!(state, PlanState::Blocked);
        assert!(words.contains("Members of etcd 3.6.8 may not work beside one of 3.7"), "{words}");
        let mut newest = cluster(1, 0);
        for object in &mut newest.objects {
            let image = object.pointer_mut("/spec/containers/0/image");
            if let Some(image) =
                image.filter(|image| image.as_str().is_some_and(|image| image.contains("/etcd:")))
            {
                *image = "registry.k8s.io/etcd:3.6.11-0".into();
            }
        }
        assert_eq!(said(&newest, &["etcd.local.imageTag=3.7.0-0"]).0, PlanState::NeedsAcknowledgement);
        let flag = "etcd.local.extraArgs[experimental-compaction-batch-limit]=500";
        assert_eq!(said(&newest, &["etcd.local.imageTag=3.6.12-0", flag]).0, PlanState::NeedsAcknowledgement);
        assert_eq!(said(&newest, &["etcd.local.imageTag=3.7.0-0", flag]).0, PlanState::Blocked);
        // kubeadm 1.33 writes flags that etcd 3.7 does not have any more.
        let document = newest.documents.iter_mut().find(|d| d.kind == DocumentKind::Cluster).expect("there");
        document.value["kubernetesVersion"] = "v1.33.1".into();
        let (state, words) = said(&newest, &["etcd.local.imageTag=3.7.0-0"]);
        assert_eq!(state, PlanState::Blocked);
        assert!(words.contains("does not have the flag --experimental-"), "{words}");
    }

    #[test]
    fn a_component_of_another_make_may_be_given_its_flag() {
        let options =
            PlanOptions { force: true, acknowledged: Acknowledged::Everything, ..PlanOptions::default() };
        let plan = planned_with(&cluster(1, 0), &["apiServer.extraArgs[vendor-flag]=1"], &options);
        assert_eq!(plan.state, PlanState::Ready);
        assert!(plan.changes[0].finding.message.contains("does not have a flag --vendor-flag"));
    }
}
