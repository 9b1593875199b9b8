//! Whom an object belongs to, and what a MachineDeployment or MachineSet would adopt. Pure; must not know how
//! objects are found.
//! Source: cluster-api `core/reconcilers/machinedeployment` (`getAndAdoptMachineSetsForDeployment`),
//! `core/reconcilers/machineset` (`getAndAdoptMachinesForMachineSet`), v1.14.2.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;

use capi_types::key::controller_of;
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use capi_types::machine_set::MachineSet;
use k8s_machinery::selector::matches;

/// What an object is to an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    /// The owner is its controller.
    Controlled,
    /// It has no controller, and the owner adopts it.
    Orphan,
    /// None of the owner's business.
    Foreign,
}

/// By uid, or by kind and name where a dump has no uids.
pub fn is_controlled<K: Resource<DynamicType = ()>>(owner: Option<&OwnerReference>, by: &K) -> bool {
    let Some(owner) = owner else { return false };
    match by.meta().uid.as_ref() {
        Some(uid) => *uid == owner.uid,
        None => owner.kind == K::kind(&()) && Some(&owner.name) == by.meta().name.as_ref(),
    }
}

/// A Machine whose labels left the selector is given up, even by its controller.
pub fn machine_of_set(set: &MachineSet, machine: &Machine) -> Membership {
    let controller = controller_of(machine);
    if !matches(&set.spec.selector, machine.metadata.labels.as_ref()) {
        Membership::Foreign
    } else if controller.is_none() {
        Membership::Orphan
    } else {
        controlled(controller, set)
    }
}

/// A MachineDeployment that is being deleted adopts nothing.
pub fn set_of_deployment(deployment: &MachineDeployment, set: &MachineSet) -> Membership {
    match controller_of(set) {
        // Upstream keeps a controlled MachineSet whatever its labels; only orphans must match.
        None if deployment.metadata.deletion_timestamp.is_none()
            && matches(&deployment.spec.selector, set.metadata.labels.as_ref()) =>
        {
            Membership::Orphan
        }
        controller => controlled(controller, deployment),
    }
}

fn controlled<K: Resource<DynamicType = ()>>(controller: Option<&OwnerReference>, by: &K) -> Membership {
    if is_controlled(controller, by) { Membership::Controlled } else { Membership::Foreign }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec() -> Value {
        json!({"clusterName": "c", "selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {
            "clusterName": "c", "bootstrap": {}, "infrastructureRef": {"apiGroup": "", "kind": "", "name": ""}}}})
    }

    fn metadata(labels: Value, controller: Option<&str>) -> Value {
        let owner = controller.map(|uid| {
            json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "X", "name": "x", "uid": uid, "controller": true})
        });
        json!({"name": "o", "labels": labels, "ownerReferences": owner.into_iter().collect::<Vec<_>>()})
    }

    fn of<K: serde::de::DeserializeOwned>(metadata: Value, spec: Value) -> K {
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).expect("an object")
    }

    #[test]
    fn members_are_controlled_adopted_or_left_alone() {
        use Membership::{Controlled, Foreign, Orphan};
        let owner = json!({"name": "owner", "uid": "own"});
        let set: MachineSet = of(owner.clone(), spec());
        let deployment: MachineDeployment = of(owner, spec());
        let mut leaving = deployment.clone();
        leaving.metadata.deletion_timestamp =
            Some(capstan_base::time::to_k8s(capstan_base::time::Timestamp::default()));
        let (selected, other) = (|| json!({"a": "b"}), || json!({"a": "x"}));
        // Machine of a MachineSet, MachineSet of a MachineDeployment, and of one that is being deleted.
        for (labels, controller, expected) in [
            (selected(), Some("own"), [Controlled, Controlled, Controlled]),
            (other(), Some("own"), [Foreign, Controlled, Controlled]),
            (selected(), None, [Orphan, Orphan, Foreign]),
            (other(), None, [Foreign, Foreign, Foreign]),
            (selected(), Some("another"), [Foreign, Foreign, Foreign]),
        ] {
            let machine: Machine = of(
                metadata(labels.clone(), controller),
                json!({"clusterName": "c", "bootstrap": {}, "infrastructureRef": {"apiGroup": "", "kind": "", "name": ""}}),
            );
            let owned: MachineSet = of(metadata(labels.clone(), controller), spec());
            let found = [
                machine_of_set(&set, &machine),
                set_of_deployment(&deployment, &owned),
                set_of_deployment(&leaving, &owned),
            ];
            assert_eq!(found, expected, "{labels} {controller:?}");
        }
    }

    #[test]
    fn without_uids_kind_and_name_tell() {
        let set: MachineSet = of(json!({"name": "x"}), spec());
        let owner =
            |kind: &str| OwnerReference { kind: kind.into(), name: "x".into(), ..OwnerReference::default() };
        assert!(is_controlled(Some(&owner("MachineSet")), &set));
        assert!(!is_controlled(Some(&owner("MachineDeployment")), &set));
        assert!(!is_controlled(None, &set));
    }
}
