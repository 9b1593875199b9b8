//! The members of an owner, and the orphans that it would adopt. Owns finding them; which they are is
//! `plan::adoption`'s decision.

use std::sync::Arc;

use super::source::{Objects as _, Source, namespace, selected};
use crate::plan::adoption::{Membership, machine_of_set, set_of_deployment};
use capi_types::key::ObjectKey;
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use capi_types::machine_set::MachineSet;

/// One object below an owner.
#[derive(Clone, Debug)]
pub enum Member<K> {
    /// The owner is its controller.
    Controlled(Arc<K>),
    /// The owner adopts it.
    Orphan(Arc<K>),
}

impl<K> Member<K> {
    /// The object, as if it were adopted already.
    pub fn into_object(self) -> Arc<K> {
        match self {
            Self::Controlled(object) | Self::Orphan(object) => object,
        }
    }

    /// The object, when it is to be adopted.
    pub fn orphan(&self) -> Option<Arc<K>> {
        match self {
            Self::Controlled(_) => None,
            Self::Orphan(object) => Some(object.clone()),
        }
    }

    fn of(object: Arc<K>, membership: Membership) -> Option<Self> {
        match membership {
            Membership::Controlled => Some(Self::Controlled(object)),
            Membership::Orphan => Some(Self::Orphan(object)),
            Membership::Foreign => None,
        }
    }
}

/// The Machines that a MachineSet controls, and orphans, ordered by name.
pub fn machines_of_set(source: &impl Source, set: &MachineSet) -> Vec<Member<Machine>> {
    // A Machine that the selector does not match is not a member, whatever controls it.
    let found = selected(source.machines(), namespace(set), &set.spec.selector).into_iter();
    found
        .filter_map(|machine| {
            let is = machine_of_set(set, &machine);
            Member::of(machine, is)
        })
        .collect()
}

/// The MachineSets that a MachineDeployment controls, and orphans, ordered by name. Each has the label of its Cluster since
/// its own first run: those of other Clusters are not looked through.
pub fn machine_sets_of(source: &impl Source, deployment: &MachineDeployment) -> Vec<Member<MachineSet>> {
    let membership = |set: &MachineSet| set_of_deployment(deployment, set);
    let cluster = ObjectKey::new(namespace(deployment), &deployment.spec.cluster_name);
    let found = source.machine_sets().of_cluster(&cluster).into_iter();
    found
        .filter_map(|set| {
            let is = membership(&set);
            Member::of(set, is)
        })
        .collect()
}
