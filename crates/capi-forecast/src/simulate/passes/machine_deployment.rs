//! A run for a MachineDeployment: what belongs to whom, then its MachineSets.

use std::sync::Arc;

use super::{Cut, Run};
use capi_rules::observe::{self, Member, Templates};
use capi_rules::plan::opening::{self, followed_deployment};
use capi_rules::plan::{Step, machine_deployment as planned};
use capi_rules::status::machine_deployment as judged;
use capi_types::key::ObjectRef;
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use capi_types::machine_set::MachineSet;
use capi_types::names::finalizer;

impl Run<'_> {
    pub(super) fn machine_deployment(&mut self, name: &str) -> Result<(), Cut> {
        let found = self.world.get::<MachineDeployment>(name);
        let (Some(object), Some(cluster)) = (found, self.world.cluster()) else { return Ok(()) };
        let guard = Some(finalizer::MACHINE_DEPLOYMENT);
        let Some(object) = self.begin(object, &cluster, guard)? else { return Ok(()) };
        let templates = Templates::of_deployment(self.world, &object);
        let followed = followed_deployment(&object, &cluster);
        // What was compared at this generation is as it was.
        let generation = object.metadata.generation;
        if self.world.in_step.get(name) != Some(&generation) || *object != followed {
            self.carry_out(opening::steps((object.as_ref(), &followed), &cluster, &templates.all()))?;
            // Only after the steps: a run that is cut compares again.
            self.world.in_step.insert(name.to_owned(), generation);
        }
        let sets = self.sets_of(&followed)?;
        let Some(deployment) = self.world.get::<MachineDeployment>(name) else { return Ok(()) };
        let missing_templates = templates.missing.clone();
        let suffix = self.world.names_of(name, 1).concat();
        let deployment = Arc::unwrap_or_clone(deployment);
        let in_place = self.world.updates.nothing_asked();
        let mut observed =
            planned::Observed { deployment, sets, missing_templates, suffix, machines: Vec::new(), in_place };
        if self.world.updates.is_on() {
            self.know_updates(&mut observed);
        }
        self.settle_deployment(observed, &templates)
    }

    /// What extensions said to moving Machines from its old MachineSets.
    fn know_updates(&self, observed: &mut planned::Observed) {
        observed.machines = observed.sets.iter().flat_map(|set| self.machines_of_set(set)).collect();
        let old = planned::in_place::questions(observed, self.world.now).into_iter();
        let keys = old.filter_map(|question| question.old.metadata.name.map(|name| self.world.named(&name)));
        observed.in_place = self.world.updates.answers("MachineSet", keys);
    }

    /// Plans and reports.
    fn settle_deployment(&mut self, observed: planned::Observed, templates: &Templates) -> Result<(), Cut> {
        let now = self.world.now;
        let mut plan = planned::plan(&observed, now);
        let release = plan.take_release();
        self.note(&plan);
        self.carry_out(plan.steps)?;
        let name = observed.deployment.metadata.name.as_deref().unwrap_or_default();
        let Some(before) = self.world.get::<MachineDeployment>(name) else { return Ok(()) };
        let machines = observed.sets.iter().flat_map(|set| self.machines_of_set(set)).collect();
        let sets = templates.unreadable.is_none().then_some(observed.sets);
        let missing_templates = templates.missing.clone();
        let seen =
            judged::Observed { deployment: before.as_ref().clone(), sets, machines, missing_templates };
        let mut status = judged::status(&seen, now);
        if plan.blockers.is_empty() && judged::is_complete(&seen) {
            status.observed_generation = before.metadata.generation;
        }
        if before.status.as_ref() != Some(&status) {
            self.world.put(MachineDeployment { status: Some(status), ..Arc::unwrap_or_clone(before) });
        }
        self.carry_out(release)?;
        Ok(())
    }

    fn machines_of_set(&self, set: &MachineSet) -> Vec<Arc<Machine>> {
        self.world.controlled("MachineSet", set.metadata.name.as_deref().unwrap_or_default())
    }

    /// Its MachineSets, orphans adopted.
    fn sets_of(&mut self, deployment: &MachineDeployment) -> Result<Vec<Arc<MachineSet>>, Cut> {
        let members = observe::machine_sets_of(self.world, deployment);
        let orphans: Vec<Step> = members
            .iter()
            .filter_map(Member::orphan)
            .map(|o| opening::adoption(deployment, o.as_ref()))
            .collect();
        self.carry_out(orphans)?;
        let latest = |member: Member<MachineSet>| {
            let object = member.into_object();
            let name = ObjectRef::of(object.as_ref()).key.name;
            self.world.get::<MachineSet>(&name).unwrap_or(object)
        };
        Ok(members.into_iter().map(latest).collect())
    }
}
