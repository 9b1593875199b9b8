//! What follows the next steps of the objects of a dump: their Clusters run ahead, once for each thing that extensions may say.
//! Owns when that is done and what is taken of it; must not decide anything.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use super::NextStep;
use super::in_place::{InPlaceAnswer, InPlaceAnswers, Known, Whom, offered};
use crate::simulate::{Following, Foresight, following};
use capi_rules::observe::dump::Dump;
use capi_rules::plan::StepAction;
use capi_rules::status::in_place::{Replace, Verdict};
use capi_rules::status::machines::{is_control_plane, is_updating_in_place};
use capi_types::hook::Hook;
use capi_types::key::ObjectKey;
use capi_types::machine::Machine;
use capi_types::machine_set::MachineSet;
use capstan_base::time::Timestamp;

pub(super) const NAMES: &str =
    "names of new Machines are drawn when they are made: new1 stands for the first of them";
pub(super) const ALL_GOES_WELL: &str =
    "what follows holds if every Machine comes up and goes as it should, and nothing else is changed";

/// What stands in a name for the random part of the `count`th new object.
pub(super) fn placeholder(count: usize) -> String {
    format!("new{count}")
}

/// What extensions are taken to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AssumedAnswers {
    /// What they said; where they were not asked, numbers are those of replacements.
    Known,
    /// They cover every change.
    Covered,
    Refused,
}

/// The Clusters of a dump, run ahead as plans ask for them.
pub(super) struct Ahead<'a> {
    dump: &'a Dump,
    known: &'a Known,
    now: Timestamp,
    runs: RefCell<BTreeMap<(ObjectKey, AssumedAnswers), Rc<Following>>>,
}

impl<'a> Ahead<'a> {
    pub(super) fn new(dump: &'a Dump, known: &'a Known, now: Timestamp) -> Self {
        Self { dump, known, now, runs: RefCell::default() }
    }

    /// What follows in a Cluster.
    pub(super) fn of(&self, cluster: &ObjectKey, assumed: AssumedAnswers) -> Rc<Following> {
        let key = (cluster.clone(), assumed);
        // A run costs far more than all plans that read
        // it, and each owner in a Cluster asks for it.
        if let Some(found) = self.runs.borrow().get(&key) {
            return Rc::clone(found);
        }
        let answers = self.answers(cluster, assumed).map(Arc::new);
        let run = Rc::new(following(self.dump, cluster, answers, self.foresight(cluster), self.now));
        self.runs.borrow_mut().insert(key, Rc::clone(&run));
        run
    }

    /// Where Machines may be updated in place, each of them is accounted for.
    fn foresight(&self, cluster: &ObjectKey) -> Foresight {
        let is_offered = |hook: Hook| !offered(self.dump, hook).is_empty() || self.known.is_asked();
        match is_offered(Hook::CanUpdateMachine) || is_offered(Hook::CanUpdateMachineSet) {
            true => Foresight::Whole,
            false if self.machines(cluster).any(is_updating_in_place) => Foresight::Whole,
            false => Foresight::Near,
        }
    }

    fn answers(&self, cluster: &ObjectKey, assumed: AssumedAnswers) -> Option<InPlaceAnswers> {
        let refused = || Ok(Verdict::Replace(Replace::NoExtension));
        match (assumed, self.known.asked()) {
            (AssumedAnswers::Known, Some(asked)) => Some(asked.clone()),
            // Of MachineSets that hand their Machines over it is known what was said.
            (AssumedAnswers::Known, None) if self.is_updating(cluster) => {
                Some(answered(self.members(cluster), &refused()))
            }
            (AssumedAnswers::Known, None) => None,
            (AssumedAnswers::Covered, _) => {
                let covered = Ok(Verdict::InPlace { covered: Vec::new() });
                Some(answered(self.members(cluster).chain(self.sets(cluster)), &covered))
            }
            (AssumedAnswers::Refused, _) => {
                Some(answered(self.members(cluster).chain(self.sets(cluster)), &refused()))
            }
        }
    }

    /// Is a Machine of the control plane updated where it stands?
    fn is_updating(&self, cluster: &ObjectKey) -> bool {
        self.machines(cluster).any(|machine| is_control_plane(machine) && is_updating_in_place(machine))
    }

    fn machines(&self, cluster: &ObjectKey) -> impl Iterator<Item = &'a Machine> {
        let dump: &'a Dump = self.dump;
        let (namespace, name) = (cluster.namespace.clone(), cluster.name.clone());
        let all = dump.machines.iter();
        all.filter(move |(key, m)| key.namespace == namespace && m.spec.cluster_name == name)
            .map(|(_, machine)| machine.as_ref())
    }

    /// The Machines of the control plane.
    fn members(&self, cluster: &ObjectKey) -> impl Iterator<Item = Whom> {
        let members = self.machines(cluster).filter(|machine| is_control_plane(machine));
        members.map(|machine| Whom { kind: "Machine", key: ObjectKey::of(machine) })
    }

    fn sets(&self, cluster: &ObjectKey) -> impl Iterator<Item = Whom> {
        let (namespace, name) = (cluster.namespace.clone(), cluster.name.clone());
        let is_its = move |(key, set): &(&ObjectKey, &Arc<MachineSet>)| {
            key.namespace == namespace && set.spec.cluster_name == name
        };
        let sets = self.dump.machine_sets.iter().filter(is_its);
        sets.map(|(key, _)| Whom { kind: "MachineSet", key: key.clone() })
    }
}

fn answered(about: impl Iterator<Item = Whom>, answer: &InPlaceAnswer) -> InPlaceAnswers {
    let answers = about.map(|whom| (whom, answer.clone())).collect();
    InPlaceAnswers { answers, without_dry_runs: false, gate_is_open: None }
}

/// What is done after the next steps.
pub(super) fn after(next: &[NextStep], all: Vec<NextStep>) -> Vec<NextStep> {
    // The run begins with the steps that are due now, which the plan has already.
    all.into_iter().skip_while(|step| next.iter().any(|due| is_same(&due.does, &step.does))).collect()
}

/// From how many replicas is not part of what is done.
fn is_same(one: &StepAction, other: &StepAction) -> bool {
    match (one, other) {
        (
            StepAction::Scale { kind, name, to, .. },
            StepAction::Scale { kind: other_kind, name: other_name, to: other_to, .. },
        ) => (kind, name, to) == (other_kind, other_name, other_to),
        _ => one == other,
    }
}
