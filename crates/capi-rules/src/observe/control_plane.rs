//! What a KubeadmControlPlane is judged by. Must not judge it.

use super::source::{Objects as _, Source, key_of, namespace};
use crate::etcd::{Member, Members, Membership};
use crate::plan::adoption::is_controlled;
use crate::status::conditions::wording::{LEARNER, NO_MEMBER, NOT_READ};
use crate::status::contract::External;
use crate::status::control_plane::certificates::Certificates;
use crate::status::control_plane::machine::ETCD_MEMBER;
use crate::status::control_plane::{Kubeconfig, Observed, OwnedMachine, Template, Workload};
use crate::status::in_place::InPlace;
use crate::status::machines::is_control_plane;
use capi_types::cluster::Cluster;
use capi_types::condition::find;
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::key::{ObjectKey, controller_of};
use capi_types::machine::Machine;

/// Everything about a control plane that is at hand. Secrets and the workload cluster are still unknown, and
/// there is no random part for a new name.
pub fn control_plane(source: &impl Source, object: &KubeadmControlPlane, cluster: &Cluster) -> Observed {
    let key = key_of(cluster);
    let mut observed = Observed {
        cluster: cluster.clone(),
        control_plane: object.clone(),
        machines: Vec::new(),
        orphans: Vec::new(),
        secrets: Vec::new(),
        foreign: Vec::new(),
        worker_machines: Vec::new(),
        machine_pools: Vec::new(),
        template: template(source, object),
        certificates: Certificates::Found(Vec::new()),
        unowned_certificates: Vec::new(),
        kubeconfig: Kubeconfig::Missing,
        workload: Workload::NotAsked,
        name_suffix: String::new(),
        in_place: InPlace::Off,
        is_of_older_release: source.is_of_older_release(&key_of(object)),
    };
    for machine in source.control_plane_machines(&key) {
        sort(source, &machine, &mut observed);
    }
    // Only a deletion waits for workers, and a large cluster has many.
    if object.metadata.deletion_timestamp.is_some() {
        let workers = source.machines().of_cluster(&key).into_iter().filter(|m| !is_control_plane(m));
        observed.worker_machines = workers.filter_map(|m| m.metadata.name.clone()).collect();
        let pools = source.machine_pools().of_cluster(&key);
        observed.machine_pools = pools.iter().filter_map(|p| p.metadata.name.clone()).collect();
    }
    // A fixed order, so that plans and messages do not change with the cache.
    observed.machines.sort_by_key(|m| (m.created_at(), m.name().to_owned()));
    observed
}

/// Puts a control plane Machine of the cluster where it belongs.
fn sort(source: &impl Source, machine: &Machine, observed: &mut Observed) {
    let name = machine.metadata.name.clone().unwrap_or_default();
    let controller = controller_of(machine);
    if controller.is_none() {
        observed.orphans.push(owned_machine(source, machine));
    } else if is_controlled(controller, &observed.control_plane) {
        observed.machines.push(owned_machine(source, machine));
    } else {
        observed.foreign.push(name);
    }
}

fn owned_machine(source: &impl Source, machine: &Machine) -> OwnedMachine {
    let namespace = namespace(machine);
    let config = machine.spec.bootstrap.config_ref.as_ref();
    let config = config.and_then(|r| source.kubeadm_configs().get(&ObjectKey::new(namespace, &r.name)));
    let infrastructure = match source.external(namespace, Some(&machine.spec.infrastructure_ref)) {
        External::Found(provided) => Some(provided.into_content()),
        _ => None,
    };
    OwnedMachine { machine: machine.clone(), bootstrap: config.map(|c| (*c).clone()), infrastructure }
}

fn template(source: &impl Source, object: &KubeadmControlPlane) -> Template {
    let reference = &object.spec.machine_template.spec.infrastructure_ref;
    match source.template(namespace(object), Some(reference)) {
        External::Found(provided) => Template::Found(provided.into_content()),
        External::NotFound { .. } | External::NotSet => Template::Missing,
        External::Unreadable { error, .. } => Template::Unreadable(error),
    }
}

/// The members that follow from the Machines' stored conditions, for a reader without access to etcd. The
/// leader is not known.
pub fn assumed_members(observed: &Observed) -> Membership {
    if !observed.etcd_is_managed() {
        return Membership::NotAsked;
    }
    let stored =
        |m: &OwnedMachine| find(m.conditions(), ETCD_MEMBER).map(|c| c.message.clone()).unwrap_or_default();
    // A message that etcd could not be read says of no Machine whether it has a member.
    if observed.machines.iter().any(|m| stored(m).starts_with(NOT_READ)) {
        return Membership::NotAsked;
    }
    let hosted = observed.machines.iter().filter(|m| !stored(m).starts_with(NO_MEMBER));
    let member = |(machine, id): (&OwnedMachine, u64)| {
        let name = machine.node_name()?.to_owned();
        let learner = stored(machine).starts_with(LEARNER);
        Some(Member { id, name, learner, alarms: Vec::new() })
    };
    // IDs only tell members apart here; no request is made with them.
    let list = hosted.zip(1..).filter_map(member).collect();
    Membership::Assumed(Members { list, leader: None })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::observe::dump::Dump;
    use capi_types::names::label;
    use capstan_base::time::{parse_rfc3339, to_k8s};

    /// Nothing else of a control plane looks at them.
    #[test]
    fn workers_are_looked_at_only_while_a_control_plane_goes() {
        let mut worker = Machine::default();
        (worker.metadata.namespace, worker.metadata.name) = (Some("ns".to_owned()), Some("w".to_owned()));
        let mut labels = BTreeMap::from([(label::CLUSTER_NAME.to_owned(), "c".to_owned())]);
        worker.metadata.labels = Some(labels.clone());
        labels.insert(label::CONTROL_PLANE.to_owned(), String::new());
        let mut plane_machine = worker.clone();
        (plane_machine.metadata.name, plane_machine.metadata.labels) = (Some("p".to_owned()), Some(labels));
        let mut dump = Dump::new(Vec::new());
        for machine in [worker, plane_machine] {
            dump.machines.insert(ObjectKey::of(&machine), Arc::new(machine));
        }
        let (mut cluster, mut object) = (Cluster::default(), KubeadmControlPlane::default());
        (cluster.metadata.namespace, cluster.metadata.name) = (Some("ns".to_owned()), Some("c".to_owned()));
        object.metadata.namespace = Some("ns".to_owned());
        let stays = control_plane(&dump, &object, &cluster);
        assert_eq!((stays.worker_machines.len(), stays.orphans.len()), (0, 1));
        object.metadata.deletion_timestamp = parse_rfc3339("2026-11-20T10:00:00Z").map(to_k8s);
        let goes = control_plane(&dump, &object, &cluster);
        assert_eq!((goes.worker_machines.as_slice(), goes.orphans.len()), (&["w".to_owned()][..], 1));
    }
}
