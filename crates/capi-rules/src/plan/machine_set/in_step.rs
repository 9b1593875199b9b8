//! Which Machines are in step with their set, so that the next pass need not compare them again: comparing all of
//! them whenever one changes costs the square of their number. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::Observed;
use crate::plan::{Plan, Write};
use crate::status::contract::External;
use capi_types::key::ObjectKey;
use capi_types::machine_set::MachineSet;

/// A mark of everything that Machines follow of their set. How many Machines it wants is not in it: a set that is
/// scaled leaves those that it has as they are.
pub fn intent_mark(set: &MachineSet) -> u64 {
    let (metadata, spec) = (&set.metadata, &set.spec);
    let followed = (&metadata.name, &metadata.uid, &metadata.labels, &spec.cluster_name, &spec.template);
    let mut hasher = DefaultHasher::new();
    serde_json::to_vec(&followed).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}

/// Machines that needed nothing, by uid, each with a mark of all that it was compared by. While the mark is the
/// same, so is the outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InStep(BTreeMap<String, u64>);

impl InStep {
    /// The Machines that `plan` leaves alone, and that changed neither.
    pub fn after(observed: &Observed, plan: &Plan) -> Self {
        let writes = plan.steps.iter().flat_map(|step| &step.writes);
        let touched: BTreeSet<&str> = writes.filter_map(written).map(|key| key.name.as_str()).collect();
        let is_touched = |name: Option<&str>| name.is_some_and(|name| touched.contains(name));
        let (mut known, intent) = (BTreeMap::new(), intent_mark(&observed.set));
        for (index, machine) in observed.machines.iter().enumerate() {
            let clones = observed.clones.get(index).into_iter().flatten().filter_map(External::found);
            let mut names = clones.map(|clone| Some(clone.name.as_str()));
            // A write raises the version: the mark would be of a state that is over.
            if is_touched(machine.metadata.name.as_deref()) || names.any(is_touched) {
                continue;
            }
            if let (Some(uid), Some(mark)) = (&machine.metadata.uid, mark(observed, index, intent)) {
                known.insert(uid.clone(), mark);
            }
        }
        Self(known)
    }

    /// Is no Machine known to be in step?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The Machine at `index` needed nothing, and nothing that it is compared by changed since. `intent`: the present
    /// [`intent_mark`] of its set.
    pub(super) fn holds(&self, observed: &Observed, index: usize, intent: u64) -> bool {
        let uid = observed.machines.get(index).and_then(|machine| machine.metadata.uid.as_ref());
        let known = uid.and_then(|uid| self.0.get(uid));
        known.is_some() && known.copied() == mark(observed, index, intent)
    }
}

/// Of what follows the set only these are compared; other writes, such as Events, touch no Machine.
fn written(write: &Write) -> Option<&ObjectKey> {
    match write {
        Write::Apply { object, .. } | Write::Handover { object, .. } | Write::Patch { object, .. } => {
            Some(&object.key)
        }
        _ => None,
    }
}

/// `None`: a version is not known, as of objects that no server has stored.
fn mark(observed: &Observed, index: usize, intent: u64) -> Option<u64> {
    let machine = observed.machines.get(index)?;
    let mut hasher = DefaultHasher::new();
    // A MachineSet that no server stored has no uid, and
    // so no intent that could be told from another's.
    observed.set.metadata.uid.as_ref()?;
    intent.hash(&mut hasher);
    machine.metadata.resource_version.as_ref()?.hash(&mut hasher);
    for clone in observed.clones.get(index).into_iter().flatten() {
        let version = clone.found().map(|found| found.content()["metadata"]["resourceVersion"].as_str());
        match version {
            Some(version) => version?.hash(&mut hasher),
            // Absence has a mark of its own: the object may appear later, and differ.
            None => 0_u8.hash(&mut hasher),
        }
    }
    Some(hasher.finish())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::tests::{machine, now, observed};
    use super::super::{plan, plan_sparing};
    use super::*;

    fn pool() -> Observed {
        let mut machines = vec![machine("a", 1), machine("b", 1)];
        for machine in &mut machines {
            machine.metadata.resource_version = Some("7".to_owned());
        }
        let mut observed = observed(2, machines);
        observed.set.metadata.generation = Some(1);
        observed
    }

    /// How many Machines are compared once more after a change.
    fn compared(known: &InStep, observed: &Observed) -> usize {
        let intent = intent_mark(&observed.set);
        (0..observed.machines.len()).filter(|index| !known.holds(observed, *index, intent)).count()
    }

    #[test]
    fn only_what_changed_is_compared_again() {
        let before = pool();
        let first = plan(&before, now());
        assert_eq!(first.steps, []);
        let known = InStep::after(&before, &first);
        assert_eq!((compared(&InStep::default(), &before), compared(&known, &before)), (2, 0));

        let mut one_changed = before.clone();
        Arc::make_mut(&mut one_changed.machines[0]).metadata.resource_version = Some("8".to_owned());
        assert_eq!(compared(&known, &one_changed), 1);
        let mut scaled = before.clone();
        (scaled.set.metadata.generation, scaled.set.spec.replicas) = (Some(2), Some(9));
        assert_eq!(compared(&known, &scaled), 0);
        let mut set_changed = before.clone();
        set_changed.set.spec.template.spec.min_ready_seconds = Some(9);
        assert_eq!(compared(&known, &set_changed), 2);
        let mut renamed = before.clone();
        renamed.set.metadata.labels = None;
        assert_eq!(compared(&known, &renamed), 2);
        let mut without_versions = before;
        Arc::make_mut(&mut without_versions.machines[1]).metadata.resource_version = None;
        assert_eq!(compared(&known, &without_versions), 1);
    }

    #[test]
    fn a_machine_that_is_written_to_is_not_in_step() {
        let mut observed = pool();
        let known = InStep::after(&observed, &plan(&observed, now()));
        let labels = &mut observed.set.spec.template.metadata.as_mut().expect("metadata").labels;
        labels.insert("team".to_owned(), "a".to_owned());
        observed.set.metadata.generation = Some(2);
        let full = plan(&observed, now());
        assert_eq!(full.steps.len(), 2);
        assert_eq!(plan_sparing(&observed, &known, now()), full, "nothing that was due is left out");
        assert!(InStep::after(&observed, &full).is_empty());
    }
}
