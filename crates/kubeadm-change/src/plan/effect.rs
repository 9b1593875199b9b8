//! Which changes have no effect: a flag that a component is given anyway, by kubeadm or by what is stored. Owns that comparison; must
//! not know what a flag means.

use super::super::accepted::COMPONENTS;
use super::super::live::flags;
use super::super::render::{API_SERVER, NodeArtefacts, StaticPod};
use super::super::rules::Judgement;
use super::super::units::go_bool;
use super::JudgedChange;
use super::refusals::flag_of;

/// What a component takes by itself, of flags that kubeadm leaves out and that must not have another value.
/// Source: kubernetes 1.36 `pkg/controlplane/apiserver/options`, apiserver `pkg/server/options` (`NewSecureServingOptions`, `NewEtcdOptions`).
const BY_ITSELF: [(&str, &str, &str); 2] =
    [(API_SERVER, "bind-address", "0.0.0.0"), (API_SERVER, "storage-backend", "etcd3")];

/// Lets each change pass whose flag has the same value before and after it on every node.
pub(super) fn settle(judged: &mut [JudgedChange], nodes: &[(NodeArtefacts, NodeArtefacts)]) {
    for judged in judged.iter_mut().filter(|judged| judged.finding.verdict != Judgement::Ok) {
        let Some((folder, flag)) = flag_of(&judged.change) else { continue };
        let Some((component, _)) = COMPONENTS.iter().find(|(_, known)| *known == folder) else { continue };
        let is_same = |(before, after): &(NodeArtefacts, NodeArtefacts)| {
            let pods = before.static_pods.get(component).zip(after.static_pods.get(component));
            pods.is_some_and(|(before, after)| {
                values(component, before, flag) == values(component, after, flag)
            })
        };
        // `all` over no nodes is true, and would let every flag pass where nothing was rendered.
        if !nodes.is_empty() && nodes.iter().all(is_same) {
            let finding = &mut judged.finding;
            finding.verdict = Judgement::Ok;
            finding.message =
                format!("{component} has this value without the change too: at most it restarts.");
            finding.alternative = None;
            // Steps of the rule go with its verdict; what kubeadm writes otherwise is found by rendering.
            finding.steps.clear();
        }
    }
}

/// The values as the component reads them.
fn values(component: &str, pod: &StaticPod, flag: &str) -> Vec<String> {
    let spelled = |value: &str| go_bool(value).map_or_else(|| value.to_owned(), |on| on.to_string());
    let given: Vec<String> = flags(pod, flag).into_iter().map(spelled).collect();
    let by_itself = BY_ITSELF.iter().find(|(of, known, _)| *of == component && *known == flag);
    match by_itself {
        // A flag that is written with the value of the default changes nothing either.
        Some((_, _, value)) if given.is_empty() => vec![(*value).to_owned()],
        _ => given,
    }
}

#[cfg(test)]
mod tests {
    use super::super::PlanState;
    use super::super::tests::{cluster, planned};

    #[test]
    fn what_a_component_is_given_anyway_is_never_blocked() {
        for set in [
            "apiServer.extraArgs[service-cluster-ip-range]=10.96.0.0/12",
            "apiServer.extraArgs[allow-privileged]=T",
            "apiServer.extraArgs[authorization-mode]=Node,RBAC",
            "apiServer.extraArgs[secure-port]=6443",
            "apiServer.extraArgs[bind-address]=0.0.0.0",
            "apiServer.extraArgs[storage-backend]=etcd3",
            "apiServer.extraArgs[client-ca-file]=/etc/kubernetes/pki/ca.crt",
            "controllerManager.extraArgs[allocate-node-cidrs]=true",
            "controllerManager.extraArgs[cluster-cidr]=10.244.0.0/16",
            "controllerManager.extraArgs[leader-elect]=1",
            "scheduler.extraArgs[kubeconfig]=/etc/kubernetes/scheduler.conf",
            "etcd.local.extraArgs[client-cert-auth]=true",
            "etcd.local.extraArgs[data-dir]=/var/lib/etcd",
        ] {
            assert_eq!(planned(&cluster(1, 0), &[set]).state, PlanState::Ready, "{set}");
        }
        for set in ["ClusterConfiguration.kubernetesVersion=1.36.1", "controlPlaneEndpoint=cp.example"] {
            assert_eq!(planned(&cluster(1, 0), &[set]).state, PlanState::Nothing, "{set}");
        }
        for set in [
            "apiServer.extraArgs[service-cluster-ip-range]=10.96.0.0/13",
            "apiServer.extraArgs[secure-port]=6444",
            "controllerManager.extraArgs[cluster-cidr]=10.244.0.0/15",
            "ClusterConfiguration.kubernetesVersion=1.36.2",
            "controlPlaneEndpoint=cp.example:6444",
        ] {
            assert_eq!(planned(&cluster(1, 0), &[set]).state, PlanState::Blocked, "{set}");
        }
        // Each API server has the address of its own node.
        let one_for_all = planned(&cluster(2, 0), &["apiServer.extraArgs[advertise-address]=10.0.0.1"]);
        assert_eq!(one_for_all.state, PlanState::Blocked);
    }
}
