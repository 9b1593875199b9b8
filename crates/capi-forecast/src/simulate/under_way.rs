//! Which updates in place are under way when a world begins, and what extensions must have said to them. Owns how the marks
//! of the objects are read; must not ask anybody.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::updates::Agreed;
use super::world::{World, name_of};
use capi_rules::status::machines::is_updating_in_place;
use capi_types::key::{annotation, controller_of};
use capi_types::machine::Machine;
use capi_types::machine_set::MachineSet;
use capi_types::names::annotation::MOVE_MACHINES_TO;

/// Where a MachineSet hands its Machines over to. Its controllers asked about that before, and extensions covered the
/// change.
pub fn agreed_move(set: &MachineSet) -> Option<&str> {
    annotation(set, MOVE_MACHINES_TO).filter(|target| !target.is_empty())
}

/// `None`: no Machine is being updated in place.
pub(super) fn agreed(world: &World) -> Option<Agreed> {
    let updating: Vec<&Arc<Machine>> = world.all().filter(|m| is_updating_in_place(m)).collect();
    let handing_over = world.all::<MachineSet>().filter(|set| agreed_move(set).is_some());
    let sets: BTreeSet<String> = handing_over.map(|set| name_of(set.as_ref()).to_owned()).collect();
    if updating.is_empty() && sets.is_empty() {
        return None;
    }
    let plane = |machine: &Machine| {
        controller_of(machine).filter(|owner| owner.kind == "KubeadmControlPlane").map(|o| o.name.clone())
    };
    let planes: BTreeSet<String> = updating.iter().filter_map(|machine| plane(machine)).collect();
    let is_beside = |machine: &&Arc<Machine>| plane(machine).is_some_and(|name| planes.contains(&name));
    let machines = world.all::<Machine>().filter(is_beside).map(|m| name_of(m.as_ref()).to_owned());
    Some(Agreed::new(sets, machines.collect()))
}
