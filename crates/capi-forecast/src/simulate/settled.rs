//! Is everything as it should be? By the objects and counters of a world; must not know how it came to be so.

use super::world::{World, name_of};
use capi_types::key::controller_of;
use capi_types::machine_deployment::MachineDeployment;
use capi_types::machine_set::MachineSet;

/// Every pool has what its spec asks for, and nothing is on its way out.
pub(super) fn is_settled(world: &World) -> bool {
    let wanted = |replicas: Option<i32>| usize::try_from(replicas.unwrap_or(1)).unwrap_or(0);
    let full = |kind: &str, name: &str, replicas: Option<i32>| {
        let counts = world.census.of(kind, name);
        counts.in_deletion == 0 && counts.machines == wanted(replicas) && counts.available == counts.machines
    };
    let sets =
        world.machine_sets.values().all(|set| full("MachineSet", name_of(set.as_ref()), set.spec.replicas));
    let planes = world.control_planes.values().all(|plane| {
        let name = name_of(plane.as_ref());
        full("KubeadmControlPlane", name, plane.spec.replicas)
            && world.census.of("KubeadmControlPlane", name).up_to_date == wanted(plane.spec.replicas)
    });
    let deployments = world.machine_deployments.values().all(|d| is_rolled_out(world, d));
    sets && planes && deployments && world.cluster().is_none_or(|c| c.metadata.deletion_timestamp.is_none())
}

fn is_rolled_out(world: &World, deployment: &MachineDeployment) -> bool {
    let is_its = |set: &MachineSet| {
        controller_of(set).is_some_and(|o| o.kind == "MachineDeployment" && o.name == name_of(deployment))
    };
    let sets = world.machine_sets.values().filter(|set| is_its(set) && set.spec.replicas.unwrap_or(1) > 0);
    let replicas: i32 = sets.clone().map(|set| set.spec.replicas.unwrap_or(1)).sum();
    // Without an answer about updates in place there is not even a new MachineSet.
    let is_current = !world.updates.is_on()
        || deployment.status.as_ref().and_then(|s| s.up_to_date_replicas) == deployment.spec.replicas;
    is_current
        && replicas == deployment.spec.replicas.unwrap_or(1)
        && sets.count() <= 1
        && deployment.metadata.deletion_timestamp.is_none()
}
