//! A run for a MachineSet: what belongs to whom, then its Machines.

use std::sync::Arc;

use super::{Cut, Run};
use capi_rules::observe::{self, Member, Templates, namespace};
use capi_rules::plan::opening::{self, followed_set};
use capi_rules::plan::{Step, machine_set as planned};
use capi_rules::status::machine_set as judged;
use capi_types::key::ObjectRef;
use capi_types::machine::Machine;
use capi_types::machine_set::MachineSet;
use capi_types::names::finalizer;

impl Run<'_> {
    pub(super) fn machine_set(&mut self, name: &str) -> Result<(), Cut> {
        let (Some(object), Some(cluster)) = (self.world.get::<MachineSet>(name), self.world.cluster()) else {
            return Ok(());
        };
        let Some(object) = self.begin(object, &cluster, Some(finalizer::MACHINE_SET))? else { return Ok(()) };
        let followed = followed_set(&object, &cluster);
        let templates = Templates::of(self.world, namespace(object.as_ref()), &object.spec.template.spec);
        // What was compared with the same template is as it was.
        let intent = planned::intent_mark(&object);
        if self.world.sets_in_step.get(name) != Some(&intent) || *object != followed {
            self.carry_out(opening::steps((object.as_ref(), &followed), &cluster, &templates.all()))?;
        }
        let machines = self.machines_of(&followed)?;
        let Some(set) = self.world.get::<MachineSet>(name) else { return Ok(()) };
        let suffixes = self.world.names_of(name, planned::names_wanted(&set, machines.len()));
        let mut observed = observe::machine_set(self.world, &set, &cluster, machines, &templates, suffixes);
        observed.updates_in_place = self.world.updates.is_on();
        self.settle_set(observed)
    }

    /// Plans and reports.
    fn settle_set(&mut self, mut observed: planned::Observed) -> Result<(), Cut> {
        let (name, now) = (observed.set.metadata.name.clone().unwrap_or_default(), self.world.now);
        let intent = planned::intent_mark(&observed.set);
        let is_in_step = self.world.sets_in_step.get(&name) == Some(&intent);
        if !is_in_step || observed.updates_in_place {
            observed.clones = observe::clones(self.world, &observed.machines);
        }
        let mut plan =
            if is_in_step { planned::plan_followed(&observed, now) } else { planned::plan(&observed, now) };
        let release = plan.take_release();
        self.note(&plan);
        self.carry_out(plan.steps)?;
        // Only after the steps: a run that is cut compares again.
        self.world.sets_in_step.insert(name.clone(), intent);
        observed.machines = planned::remediate::marked(&observed, now);
        let is_complete = planned::is_complete(&observed);
        let Some(before) = self.world.get::<MachineSet>(&name) else { return Ok(()) };
        let mut status = judged::status(&planned::judged(observed), now);
        if is_complete {
            status.observed_generation = before.metadata.generation;
        }
        self.again_within(planned::recheck(&before, &status));
        if before.status.as_ref() != Some(&status) {
            self.world.put(MachineSet { status: Some(status), ..Arc::unwrap_or_clone(before) });
        }
        self.carry_out(release)?;
        Ok(())
    }

    /// Its Machines, orphans adopted.
    fn machines_of(&mut self, set: &MachineSet) -> Result<Vec<Arc<Machine>>, Cut> {
        let name = set.metadata.name.as_deref().unwrap_or_default();
        if !self.world.has_orphans() {
            return Ok(self.world.controlled("MachineSet", name));
        }
        let members = observe::machines_of_set(self.world, set);
        let orphans: Vec<Step> =
            members.iter().filter_map(Member::orphan).map(|o| opening::adoption(set, o.as_ref())).collect();
        if !orphans.is_empty() {
            // An orphan was never compared with the template.
            self.world.sets_in_step.remove(name);
        }
        self.carry_out(orphans)?;
        let latest = |member: Member<Machine>| {
            let object = member.into_object();
            let name = ObjectRef::of(object.as_ref()).key.name;
            self.world.get::<Machine>(&name).unwrap_or(object)
        };
        Ok(members.into_iter().map(latest).collect())
    }
}
