//! A run for a Machine: its Node, and the turns of its deletion.

use std::sync::Arc;

use super::{Cut, Run};
use crate::simulate::perform::Effect;
use crate::simulate::updates::Turn;
use crate::simulate::world::World;
use capi_rules::observe::{self, NamedNode};
use capi_rules::plan::machine::{self as planned, update};
use capi_rules::status::drain::volumes::Storage;
use capi_rules::status::machine::deletion::{Wanted, course};
use capi_rules::status::machine::{
    self as judged, NodeReading, Observed, Probe, StorageReading, TenantsReading, Update,
    control_plane_initialized_since,
};
use capi_types::cluster::Cluster;
use capi_types::machine::Machine;
use capi_types::names::finalizer;

/// Reading what runs on the Node, evicting it, reading what is attached, going on.
const TURNS_MAX: usize = 6;

impl Run<'_> {
    pub(super) fn machine(&mut self, name: &str) -> Result<(), Cut> {
        let (Some(object), Some(cluster)) = (self.world.get::<Machine>(name), self.world.cluster()) else {
            return Ok(());
        };
        let Some(object) = self.begin(object, &cluster, Some(finalizer::MACHINE))? else { return Ok(()) };
        let mut observed = gather(self.world, &object, &cluster);
        self.go_on(&mut observed);
        let plan = planned::plan(&observed, self.world.now);
        self.note(&plan);
        self.carry_out(plan.steps)?;
        // After the marks are taken away: a run that is cut
        // before asks once more, and gets the same answer.
        if observed.update == Some(Update::Done) {
            self.world.updates.forget(name);
        }
        let Some(latest) = self.world.get::<Machine>(name) else { return Ok(()) };
        // Copied only where the steps above wrote it: a run in which nothing happens is the common
        // one.
        if !Arc::ptr_eq(&latest, &object) {
            observed.machine = Arc::unwrap_or_clone(latest);
        }
        let mut release = None;
        if observed.is_deleting() {
            release = self.leave(&mut observed)?;
        }
        let status = judged::status(&observed, self.world.now);
        if observed.machine.status.as_ref() != Some(&status) {
            self.world.put(Machine { status: Some(status), ..observed.machine });
        }
        if let Some(release) = release {
            self.carry_out([release])?;
        }
        Ok(())
    }

    /// Goes on with an update in place, when that is due; what came of it stands in `observed`.
    fn go_on(&mut self, observed: &mut Observed) {
        observed.updates_in_place = self.world.updates.is_on();
        match update::due(observed) {
            update::Due::Nothing | update::Due::Prepared | update::Due::CleanUp => {}
            update::Due::InfrastructureMissing => observed.update = Some(Update::InfrastructureMissing),
            update::Due::Call => {
                let machine = observed.machine.metadata.name.clone().unwrap_or_default();
                observed.update = Some(match self.world.updates.ask(&machine) {
                    Turn::Done => Update::Done,
                    Turn::Runs => Update::Running(String::new()),
                    Turn::Begins => {
                        self.acts.effects.push(Effect::UpdateBegins { machine });
                        Update::Running(String::new())
                    }
                });
            }
        }
    }

    /// Goes on with a deletion as far as one run can. Answers with the step that lets the Machine go.
    fn leave(&mut self, observed: &mut Observed) -> Result<Option<capi_rules::plan::Step>, Cut> {
        let (next, hold) = (self.acts.next, self.acts.hold);
        for _ in 0..TURNS_MAX {
            let before = course(observed, self.world.now);
            let mut plan = planned::leave(observed, self.world.now);
            let release = plan.take_release();
            // Only the last turn waits: those before it went on.
            (self.acts.next, self.acts.hold) = (next, hold);
            self.note(&plan);
            let evictions = self.carry_out(plan.steps)?;
            observed.evictions.extend(evictions);
            let name = observed.machine.metadata.name.clone().unwrap_or_default();
            if let Some(latest) = self.world.get::<Machine>(&name) {
                observed.machine = Arc::unwrap_or_clone(latest);
            }
            if release.is_some() {
                return Ok(release);
            }
            let after = course(observed, self.world.now);
            match after.wants(observed) {
                Some(Wanted::Tenants) => observed.tenants = tenants(self.world, observed),
                Some(Wanted::Storage) => observed.storage = nothing_attached(),
                None if after.ends_drain_of(&before) => {}
                None => break,
            }
        }
        Ok(None)
    }
}

fn gather(world: &World, machine: &Machine, cluster: &Arc<Cluster>) -> Observed {
    let probe = if world.workload.is_reachable() {
        Probe { last_success: Some(world.now), ..Probe::default() }
    } else {
        Probe { not_established_yet: true, ..Probe::default() }
    };
    let mut observed = observe::machine(world, machine, cluster, probe);
    observed.node = node(world, machine, cluster);
    observed.named_node = match observe::named_node(&observed) {
        NamedNode::Same => NodeReading::NotAsked,
        NamedNode::Borrowed { provider_id } => match with_id(world, &provider_id) {
            found @ NodeReading::Found(_) => found,
            _ => NodeReading::NotAsked,
        },
        NamedNode::Recorded { name } => match world.workload.nodes.get(&name) {
            Some(node) => NodeReading::Found(Arc::clone(node)),
            None => NodeReading::NotFound,
        },
    };
    observed
}

fn node(world: &World, machine: &Machine, cluster: &Cluster) -> NodeReading {
    let is_watched = control_plane_initialized_since(cluster).is_some();
    match machine.spec.provider_id.as_deref().filter(|id| !id.is_empty()) {
        _ if !world.workload.is_reachable() && is_watched => NodeReading::NotConnected,
        Some(id) => with_id(world, id),
        None => NodeReading::NotAsked,
    }
}

fn with_id(world: &World, id: &str) -> NodeReading {
    match world.workload.node_with(id) {
        Some(node) => NodeReading::Found(node),
        None => NodeReading::NotFound,
    }
}

fn tenants(world: &World, observed: &Observed) -> TenantsReading {
    let node = observed.node_name().unwrap_or_default();
    TenantsReading::Known(Box::new(world.workload.tenancy.of(node, &world.drain_rules)))
}

/// Volumes are not simulated.
fn nothing_attached() -> StorageReading {
    StorageReading::Known(Box::new(Storage { attachments: Ok(Vec::new()), volumes: Ok(Vec::new()) }))
}
