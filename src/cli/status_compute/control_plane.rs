//! From a dump to what a KubeadmControlPlane is judged by. Must not judge it.

use k8s_openapi::api::core::v1::{Node, Pod};

use super::dump::{Dump, select};
use super::observe::{content, is_controlled, last_seen};
use super::workload::Workload as Remote;
use crate::api::cluster::Cluster;
use crate::api::condition::find;
use crate::api::control_plane::KubeadmControlPlane;
use crate::api::key::{ObjectKey, cluster_label, controller_of};
use crate::api::machine::Machine;
use crate::plan::control_plane::{Decision, decide};
use crate::status::contract::External;
use crate::status::control_plane::certificates::{Certificates, Purpose};
use crate::status::control_plane::machine::ETCD_MEMBER;
use crate::status::control_plane::pods::is_control_plane as is_control_plane_node;
use crate::status::control_plane::{
    Connection, Kubeconfig, Observed, OwnedMachine, Reached, Template, Workload,
};
use crate::status::etcd::{Member, Members, Membership};
use crate::status::machines::is_control_plane;
use crate::time::Timestamp;

/// Failed probes after which a connection counts as down.
const DOWN: u32 = 5;

impl Dump {
    /// The pass over a control plane as its controller would make it; `None` without its Cluster.
    pub fn control_plane(
        &self,
        key: &ObjectKey,
        object: &KubeadmControlPlane,
        now: Timestamp,
    ) -> Option<Decision> {
        let owner = object.metadata.owner_references.iter().flatten().find(|o| o.kind == "Cluster");
        let name = owner.map(|o| o.name.as_str()).or_else(|| cluster_label(object))?;
        let cluster_key = ObjectKey::new(&key.namespace, name);
        let cluster = self.clusters.get(&cluster_key)?;
        let observed = self.observed(key, object, &cluster_key, cluster);
        let keeps_certificates = self.secrets(&key.namespace).is_empty();
        let mut decision = decide(observed, now);
        if keeps_certificates {
            decision.pass.conditions.retain(|c| c.type_ != "CertificatesAvailable");
        }
        Some(decision)
    }

    fn observed(
        &self,
        key: &ObjectKey,
        object: &KubeadmControlPlane,
        cluster_key: &ObjectKey,
        cluster: &Cluster,
    ) -> Observed {
        let ns = key.namespace.as_str();
        let all = select(&self.machines, ns, |m| cluster_label(m) == Some(cluster_key.name.as_str()));
        let (control_plane, workers): (Vec<&Machine>, Vec<&Machine>) =
            all.into_iter().partition(|m| is_control_plane(m));
        let (owned, others): (Vec<&Machine>, Vec<&Machine>) =
            control_plane.into_iter().partition(|m| is_controlled(controller_of(*m), object));
        let (foreign, orphans): (Vec<&Machine>, Vec<&Machine>) =
            others.into_iter().partition(|m| controller_of(*m).is_some());
        let mut machines: Vec<OwnedMachine> = owned.into_iter().map(|m| self.owned_machine(ns, m)).collect();
        machines.sort_by_key(|m| (m.created_at(), m.name().to_owned()));
        let pools = select(&self.machine_pools, ns, |p| p.spec.cluster_name == cluster_key.name);
        let names = |list: &[&Machine]| list.iter().filter_map(|m| m.metadata.name.clone()).collect();
        let mut observed = Observed {
            cluster: cluster.clone(),
            control_plane: object.clone(),
            orphans: orphans.into_iter().map(|m| self.owned_machine(ns, m)).collect(),
            foreign: names(&foreign),
            worker_machines: names(&workers),
            machine_pools: pools.iter().filter_map(|p| p.metadata.name.clone()).collect(),
            template: self.template(ns, object),
            certificates: Certificates::Found(Vec::new()),
            kubeconfig: Kubeconfig::Found { ours: true, controlled: true, expires: None },
            workload: Workload::NotAsked,
            // Names of Machines to be made are of no interest here.
            name_suffix: "xxxxxxxxxx".to_owned(),
            machines,
        };
        observed.certificates = self.certificates(ns, &cluster_key.name, &observed);
        if observed.endpoint().is_some() && !observed.machines.is_empty() {
            observed.workload = self.remote(cluster_key, cluster, &observed);
        }
        observed
    }

    fn owned_machine(&self, ns: &str, machine: &Machine) -> OwnedMachine {
        let config = machine.spec.bootstrap.config_ref.as_ref();
        OwnedMachine {
            machine: machine.clone(),
            bootstrap: config.and_then(|r| self.configs.get(&ObjectKey::new(ns, &r.name))).cloned(),
            infrastructure: content(self.external(ns, Some(&machine.spec.infrastructure_ref))),
        }
    }

    /// A kind of template that is not in the dump at all counts as there.
    fn template(&self, ns: &str, object: &KubeadmControlPlane) -> Template {
        match self.external(ns, Some(&object.spec.machine_template.spec.infrastructure_ref)) {
            External::Found(provided) => Template::Found(provided.into_content()),
            External::NotFound { .. } => Template::Missing,
            External::NotSet | External::Unreadable { .. } => Template::Found(serde_json::Value::Null),
        }
    }

    /// A dump without any Secret says nothing of certificates: they count as there.
    fn certificates(&self, ns: &str, cluster: &str, observed: &Observed) -> Certificates {
        let needed = Purpose::needed(!observed.etcd_is_managed());
        let secrets = self.secrets(ns);
        let there = |p: &Purpose| secrets.is_empty() || secrets.contains(p.secret_name(cluster).as_str());
        Certificates::Found(needed.iter().copied().filter(there).collect())
    }

    fn remote(&self, key: &ObjectKey, cluster: &Cluster, observed: &Observed) -> Workload {
        if let Some(remote) = self.workload(key).filter(|remote| remote.has_system_pods()) {
            return Workload::Reached(Box::new(reached(remote, observed)));
        }
        match last_seen(cluster) {
            Some(last_success) => {
                Workload::Down(Connection { last_success, consecutive_failures: DOWN, error: None })
            }
            None => Workload::Assumed(membership(observed)),
        }
    }
}

fn reached(remote: &Remote, observed: &Observed) -> Reached {
    let referred =
        |node: &Node| observed.machines.iter().any(|m| m.node_name() == node.metadata.name.as_deref());
    let nodes = remote.nodes.values().filter(|node| is_control_plane_node(node) || referred(node));
    let system = |pod: &&Pod| pod.metadata.namespace.as_deref() == Some("kube-system");
    Reached {
        nodes: Ok(nodes.cloned().collect()),
        pods: Ok(remote.pods.iter().filter(system).cloned().collect()),
        etcd: membership(observed),
        kubeadm_config: Ok(None),
        kube_proxy_image: None,
    }
}

/// The members that the Machines' stored conditions speak of: nobody can ask etcd here.
fn membership(observed: &Observed) -> Membership {
    if !observed.etcd_is_managed() {
        return Membership::NotAsked;
    }
    let told =
        |m: &OwnedMachine| find(m.conditions(), ETCD_MEMBER).map(|c| c.message.clone()).unwrap_or_default();
    if observed.machines.iter().any(|m| told(m).starts_with("Failed to ")) {
        return Membership::NotAsked;
    }
    let hosted = observed.machines.iter().filter(|m| !told(m).starts_with("Etcd doesn't have"));
    let member = |(machine, id): (&OwnedMachine, u64)| {
        let name = machine.node_name()?.to_owned();
        let learner = told(machine).starts_with("Waiting for learner");
        Some(Member { id, name, learner, alarms: Vec::new() })
    };
    let list = hosted.zip(1..).filter_map(member).collect();
    Membership::Assumed(Members { list, leader: None })
}
