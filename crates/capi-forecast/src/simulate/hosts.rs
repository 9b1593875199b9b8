//! What the hosts of Machines do by themselves: bootstrap data, a host, a Node, a member of etcd. Owns the stages of a
//! host and what each shows to others; shares no rule with planners or statuses, and must not know how long a stage takes.

use std::collections::BTreeMap;

use kube::Resource as _;
use serde_json::{Value, json};

use super::change::{ActorKind, ObjectChange};
use super::externals::{bootstrapped, provisioned};
use super::workload;
use super::world::World;
use capi_rules::status::machines::is_control_plane;
use capi_types::cluster::Cluster;
use capi_types::machine::Machine;
use capi_types::reference::ContractRef;
use capstan_base::time::rfc3339;
use capstan_physics::boot::BootStage;

/// The host of one Machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HostState {
    /// What comes up next; `None`: all of it is up.
    pub next: Option<BootStage>,
    /// It goes no further by itself.
    pub is_stuck: bool,
}

/// Hosts by the name of their Machine.
pub(super) type Hosts = BTreeMap<String, HostState>;

/// May the host go on now, or does it wait for its Cluster?
pub(super) fn may_go_on(world: &World, machine: &Machine, stage: BootStage) -> bool {
    let Some(cluster) = world.cluster() else { return false };
    match stage {
        BootStage::Bootstrap => {
            // kubeadm joins a cluster that runs already; only the first Machine of all begins one.
            is_provisioned(&cluster) && (is_initialized(world, &cluster) || begins(world, machine))
        }
        BootStage::Host => is_provisioned(&cluster),
        BootStage::Node | BootStage::Etcd | BootStage::ApiServer => true,
    }
}

fn is_provisioned(cluster: &Cluster) -> bool {
    let flags = cluster.status.as_ref().and_then(|s| s.initialization.as_ref());
    flags.and_then(|i| i.infrastructure_provisioned) == Some(true)
}

fn is_initialized(world: &World, cluster: &Cluster) -> bool {
    let flags = cluster.status.as_ref().and_then(|s| s.initialization.as_ref());
    world.workload.is_reachable() || flags.and_then(|i| i.control_plane_initialized) == Some(true)
}

/// The first of a control plane does not wait for another.
fn begins(world: &World, machine: &Machine) -> bool {
    let age = |m: &Machine| (m.metadata.creation_timestamp.clone(), m.metadata.name.clone());
    let first = world.all::<Machine>().filter(|m| is_control_plane(m)).map(|m| age(m)).min();
    is_control_plane(machine) && first == Some(age(machine))
}

/// The stages that end with this one: etcd and the API server come up with their Node, in no time of their own.
fn ending_with(stage: BootStage, is_control_plane: bool) -> impl Iterator<Item = BootStage> {
    let last = if stage < BootStage::Node { stage } else { BootStage::ApiServer };
    BootStage::of(is_control_plane).iter().copied().filter(move |one| (stage..=last).contains(one))
}

impl World {
    /// The stage of a host is over: others see what it has now. Answers with the next one.
    pub(super) fn advance_host(&mut self, machine: &Machine, stage: BootStage) -> Option<BootStage> {
        let name = machine.metadata.name.clone().unwrap_or_default();
        let is_control_plane = is_control_plane(machine);
        ending_with(stage, is_control_plane).for_each(|stage| self.come_up(machine, &name, stage));
        self.turned(&name, stage >= BootStage::Node && is_control_plane);
        let mut later = BootStage::of(is_control_plane).iter().copied();
        later.find(|next| next.after() == Some(stage) && *next <= BootStage::Node)
    }

    /// What a stage leaves behind.
    fn come_up(&mut self, machine: &Machine, name: &str, stage: BootStage) {
        let at = rfc3339(self.now);
        match stage {
            BootStage::Bootstrap => {
                if let Some(config) = &machine.spec.bootstrap.config_ref {
                    self.show(config, &json!({"status": bootstrapped(&config.name, &at)}));
                }
            }
            BootStage::Host => {
                let reference = &machine.spec.infrastructure_ref;
                // A Machine that was met before keeps its ID, or its Node could not be found by it.
                let id = machine.spec.provider_id.clone().unwrap_or_else(|| format!("simulated://{name}"));
                let domain = machine.spec.failure_domain.as_ref();
                let mut body = json!({"spec": {"providerID": id}, "status": provisioned(&at)});
                if let Some(domain) = domain {
                    body["status"]["failureDomain"] = json!(domain);
                }
                self.show(reference, &body);
            }
            BootStage::Node => self.join(machine, name),
            BootStage::Etcd => self.workload.join_etcd(name, true),
            BootStage::ApiServer => {
                self.workload.run_components(name, &[]);
                let version = machine.spec.version.clone().unwrap_or_default();
                // Only the first API server brings the map: later
                // ones must not undo what the control plane set.
                self.workload.configuration.get_or_insert_with(|| json!({ "kubernetesVersion": version }));
            }
        }
    }

    fn show(&mut self, reference: &ContractRef, body: &Value) {
        self.externals.patch(&reference.api_group, &reference.kind, &reference.name, body);
    }

    fn join(&mut self, machine: &Machine, name: &str) {
        let reference = &machine.spec.infrastructure_ref;
        let host = self.externals.get(&reference.api_group, &reference.kind, &reference.name);
        let offered = host.and_then(|host| host.text(&["spec", "providerID"])).map(str::to_owned);
        let id = machine.spec.provider_id.clone().or(offered);
        let version = machine.spec.version.as_deref();
        let is_control_plane = is_control_plane(machine);
        let node = workload::node(name, id.as_deref(), version, is_control_plane, ("True", self.now));
        self.workload.put_node(node);
    }

    /// An extension has made the host what its Machine asks for: another kubelet runs on its Node.
    pub(super) fn update_host(&mut self, machine: &str) {
        self.updates.end(machine);
        let Some(found) = self.get::<Machine>(machine) else { return };
        let named = found.status.as_ref().and_then(|s| s.node_ref.as_ref()).map(|r| r.name.as_str());
        let version = found.spec.version.as_deref().unwrap_or_default();
        if let Some(node) = named {
            let body = json!({"status": {"nodeInfo": {"kubeletVersion": version}}});
            self.patch_node(node, &body);
        }
        self.turned(machine, is_control_plane(&found));
    }

    /// A Node stops to report: its pods and its member of etcd do not answer.
    pub(super) fn fail_node(&mut self, machine: &str) {
        let Some(found) = self.get::<Machine>(machine) else { return };
        let Some(node) = found.status.as_ref().and_then(|s| s.node_ref.as_ref()).map(|r| r.name.clone())
        else {
            return;
        };
        let version = found.spec.version.as_deref();
        let id = found.spec.provider_id.as_deref();
        let is_control_plane = is_control_plane(&found);
        self.workload.put_node(workload::node(&node, id, version, is_control_plane, ("Unknown", self.now)));
        self.workload.stop_components(&node);
        self.turned(machine, is_control_plane);
    }

    /// The host behind an infrastructure object is gone, and with it what ran there.
    pub(super) fn end_host(&mut self, reference: &ContractRef) {
        let is_its = |m: &&std::sync::Arc<Machine>| m.spec.infrastructure_ref == *reference;
        // By name first: hosts have the name of their Machine nearly always, and a fleet has many.
        let found = self.get::<Machine>(&reference.name).filter(|m| is_its(&m));
        let machine = found.or_else(|| self.all::<Machine>().find(is_its).cloned());
        self.externals.remove(&reference.api_group, &reference.kind, &reference.name);
        let Some(machine) = machine else {
            let name = self.key.name.clone();
            self.note_change(ObjectChange::beside(ActorKind::Cluster, &name));
            return;
        };
        if let Some(node) = machine.status.as_ref().and_then(|s| s.node_ref.as_ref()) {
            self.workload.stop_components(&node.name);
        }
        self.turned(&machine.metadata.name.clone().unwrap_or_default(), is_control_plane(&machine));
    }

    /// The infrastructure of the Cluster is complete.
    pub(super) fn provide_cluster(&mut self) {
        let Some(cluster) = self.cluster() else { return };
        let Some(reference) = &cluster.spec.infrastructure_ref else { return };
        let mut body = json!({"status": provisioned(&rfc3339(self.now))});
        if cluster.spec.control_plane_endpoint.is_none() {
            body["spec"] = json!({"controlPlaneEndpoint": {"host": "endpoint.simulated", "port": 6443}});
        }
        self.show(reference, &body);
        let name = self.key.name.clone();
        self.note_change(ObjectChange::beside(ActorKind::Cluster, &name));
    }

    /// Whose Machine it is, and who looks at its Node.
    fn turned(&mut self, machine: &str, is_of_control_plane: bool) {
        self.note_change(ObjectChange::beside(ActorKind::Machine, machine));
        if is_of_control_plane {
            let names: Vec<String> = self.control_planes.keys().map(|key| key.name.clone()).collect();
            for name in &names {
                self.note_change(ObjectChange::beside(ActorKind::KubeadmControlPlane, name));
            }
        }
        let checks: Vec<String> = self.checks.keys().map(|key| key.name.clone()).collect();
        checks
            .iter()
            .for_each(|name| self.note_change(ObjectChange::beside(ActorKind::MachineHealthCheck, name)));
    }
}

/// The reference that leads to an object.
pub(super) fn reference_of(object: &capi_types::key::ObjectRef) -> ContractRef {
    ContractRef {
        api_group: object.gvk.group.clone(),
        kind: object.gvk.kind.clone(),
        name: object.key.name.clone(),
    }
}

pub(super) fn is_infrastructure_of(cluster: &Cluster, reference: &ContractRef) -> bool {
    cluster.spec.infrastructure_ref.as_ref() == Some(reference) && Cluster::kind(&()) != reference.kind
}
