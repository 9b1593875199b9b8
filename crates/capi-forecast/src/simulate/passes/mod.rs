//! One run of a controller in a world: begin, observe, plan, carry out, report, let go, as the engine's controllers do.
//! Every decision is a planner's, every status that of its kind; must not decide anything, nor know who comes next.

mod cluster;
mod control_plane;
mod health_check;
mod machine;
mod machine_deployment;
mod machine_set;

use std::sync::Arc;
use std::time::Duration;

use super::change::ActorKind;
use super::perform::{Effect, Performed};
use super::world::{Kept, World, name_of};
use capi_rules::plan::begin::{Begin, begin};
use capi_rules::plan::{Blocker, Plan, Step};
use capi_rules::status::conditions::setter;
use capi_rules::status::drain::Evictions;
use capi_types::cluster::Cluster;

/// A controller and one of its objects. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Actor {
    pub kind: ActorKind,
    pub name: Arc<str>,
}

impl Actor {
    pub(super) fn new(kind: ActorKind, name: &str) -> Self {
        Self { kind, name: name.into() }
    }
}

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Acts {
    /// Those that were carried out.
    pub steps: Vec<Step>,
    pub blockers: Vec<Blocker>,
    /// Another run after this time at the latest.
    pub next: Option<Duration>,
    /// No run before this time is over.
    pub hold: Option<Duration>,
    pub effects: Vec<Effect>,
    /// It ended before its end, as an engine that stops or whose write is refused does.
    pub is_cut: bool,
}

/// The run was cut: nothing after it is done, and nothing reported.
pub(super) struct Cut;

/// A run under way.
pub(super) struct Run<'a> {
    pub world: &'a mut World,
    pub acts: Acts,
    /// So many more writes are carried out; `None`: all.
    pub writes_left: Option<usize>,
}

/// Runs the controller of `actor` once. `writes_max`: the run is cut after so many writes.
pub(super) fn run(world: &mut World, actor: &Actor, writes_max: Option<usize>) -> Acts {
    let mut run = Run { world, acts: Acts::default(), writes_left: writes_max };
    let name = actor.name.as_ref();
    let ended = match actor.kind {
        ActorKind::Machine => run.machine(name),
        ActorKind::MachineSet => run.machine_set(name),
        ActorKind::KubeadmControlPlane => run.control_plane(name),
        ActorKind::MachineDeployment => run.machine_deployment(name),
        ActorKind::MachineHealthCheck => run.health_check(name),
        ActorKind::Cluster => run.cluster(name),
    };
    run.acts.is_cut = ended.is_err();
    if run.acts.is_cut {
        // Its queue tries again.
        run.acts.next = Some(RETRY);
    }
    run.acts
}

/// Before a run that failed is tried again.
const RETRY: Duration = Duration::from_secs(1);

impl Run<'_> {
    /// The object as its run begins with it; `None` when the run ends here.
    fn begin<K: Kept>(
        &mut self,
        object: Arc<K>,
        cluster: &Cluster,
        finalizer: Option<&str>,
    ) -> Result<Option<Arc<K>>, Cut> {
        match begin(object.as_ref(), cluster, finalizer) {
            Begin::Run => Ok(Some(object)),
            Begin::Stop => Ok(None),
            Begin::Finalizer(step) => {
                // The write wakes the controller again; its next run finds the finalizer.
                self.carry_out([*step])?;
                Ok(None)
            }
            Begin::Paused(condition) => {
                let is_paused = condition.status == "True";
                let mut after = Arc::unwrap_or_clone(object);
                let generation = after.meta().generation;
                setter::set(after.conditions_mut(), *condition, generation, self.world.now);
                let name = name_of(&after).to_owned();
                self.world.put(after);
                // Read again, as the run goes on with the condition that was written.
                Ok(self.world.get(&name).filter(|_| !is_paused))
            }
        }
    }

    /// Carries out steps in order.
    fn carry_out(&mut self, steps: impl IntoIterator<Item = Step>) -> Result<Evictions, Cut> {
        let mut outcome = Performed::default();
        let mut ended = Ok(());
        for step in steps {
            for write in &step.writes {
                // Before each write: a controller may be stopped between any two.
                if self.writes_left == Some(0) {
                    ended = Err(Cut);
                    break;
                }
                self.writes_left = self.writes_left.map(|left| left - 1);
                self.world.perform(write, &mut outcome);
            }
            if ended.is_err() {
                break;
            }
            // A step that was cut is not told: not all of it happened.
            self.acts.steps.push(step);
        }
        // Of a cut run too: what was written has its effects.
        self.acts.effects.append(&mut outcome.effects);
        ended.map(|()| outcome.evictions)
    }

    /// Notes what holds the object back and when it is looked at again.
    fn note(&mut self, plan: &Plan) {
        self.acts.blockers.clone_from(&plan.blockers);
        self.again_within(plan.recheck);
        // The longest: until then not even a change is looked at.
        self.acts.hold = self.acts.hold.max(plan.hold);
    }

    fn again_within(&mut self, delay: Option<Duration>) {
        self.acts.next = match (self.acts.next, delay) {
            (Some(old), Some(new)) => Some(old.min(new)),
            (old, new) => old.or(new),
        };
    }
}
