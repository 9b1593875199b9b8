//! Who controls whom, and what an owner would adopt. Must not adopt anything.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;

use super::source::{Objects as _, Source, namespace};
use crate::api::key::controller_of;
use crate::api::machine::Machine;
use crate::api::machine_deployment::MachineDeployment;
use crate::api::machine_set::MachineSet;
use crate::status::selector::matches;

/// One object below an owner.
#[derive(Clone, Debug)]
pub enum Member<K> {
    Controlled(Arc<K>),
    /// It has no controller and matches the owner's selector: the owner adopts it.
    Orphan(Arc<K>),
}

impl<K> Member<K> {
    /// The object, as if it were adopted already.
    #[must_use]
    pub fn into_object(self) -> Arc<K> {
        match self {
            Self::Controlled(object) | Self::Orphan(object) => object,
        }
    }
}

/// By uid, or by kind and name where a dump has no uids.
pub fn is_controlled<K: Resource<DynamicType = ()>>(owner: Option<&OwnerReference>, by: &K) -> bool {
    let Some(owner) = owner else { return false };
    match by.meta().uid.as_ref() {
        Some(uid) => *uid == owner.uid,
        None => owner.kind == K::kind(&()) && Some(&owner.name) == by.meta().name.as_ref(),
    }
}

fn member<K: Resource, O: Resource<DynamicType = ()>>(object: Arc<K>, owner: &O) -> Member<K> {
    if is_controlled(controller_of(object.as_ref()), owner) {
        Member::Controlled(object)
    } else {
        Member::Orphan(object)
    }
}

/// The Machines that a MachineSet controls, and orphans that its selector matches, ordered by name.
pub fn machines_of_set(source: &impl Source, set: &MachineSet) -> Vec<Member<Machine>> {
    let mine = source.machines().select(namespace(set), |machine| {
        let controller = controller_of(machine);
        matches(&set.spec.selector, machine.metadata.labels.as_ref())
            && (controller.is_none() || is_controlled(controller, set))
    });
    mine.into_iter().map(|machine| member(machine, set)).collect()
}

/// The MachineSets that a MachineDeployment controls, and orphans that its selector matches unless it is
/// being deleted, ordered by name.
pub fn machine_sets_of(source: &impl Source, deployment: &MachineDeployment) -> Vec<Member<MachineSet>> {
    let deleting = deployment.metadata.deletion_timestamp.is_some();
    let mine = source.machine_sets().select(namespace(deployment), |set| match controller_of(set) {
        None => !deleting && matches(&deployment.spec.selector, set.metadata.labels.as_ref()),
        controller => is_controlled(controller, deployment),
    });
    mine.into_iter().map(|set| member(set, deployment)).collect()
}
