//! What a plan says to follow is what a simulation does. The plan is read of the objects alone, as a server lists them; the
//! simulation goes on from the same objects.

use super::hunted::{Nursery, drawn, patch};
use super::in_place::dump_of;
use super::*;
use crate::forecast::{ObjectPlan, State, forecast};
use crate::simulate::Occurrence;
use crate::simulate::change::ActorKind;
use capi_rules::plan::StepAction;

/// So many seeds in the suite.
const SEEDS: u64 = 20;
const OWNERS: [(&str, &str); 2] = [("MachineDeployment", "md"), ("KubeadmControlPlane", "cp")];

/// An upgrade of one of the two.
fn upgrade(of_plane: bool) -> (ActorKind, String, Value) {
    let version = json!({"version": "v1.34.4"});
    if of_plane {
        (ActorKind::KubeadmControlPlane, "cp".to_owned(), json!({ "spec": version }))
    } else {
        (ActorKind::MachineDeployment, "md".to_owned(), json!({"spec": {"template": {"spec": version}}}))
    }
}

/// A Cluster that begins an upgrade in the middle of what the seed asks for.
fn middle(seed: u64, nursery: &mut Nursery) -> World {
    let drawn = drawn(seed);
    let mut course = course(again(nursery.world(&drawn)), way());
    let changes = drawn.changes.iter().map(|(after, change)| (*after, patch(change)));
    for (after, change) in changes.chain([(5, upgrade(seed.is_multiple_of(2)))]) {
        course.way.until = Until::Steps(after);
        course.go();
        let now = course.world.now;
        course.resume(now, &[change]);
    }
    course.way.until = Until::Steps(usize::try_from(seed % 5).expect("few"));
    course.go();
    course.world
}

/// What each owner does to its pool.
fn done(dump: &Dump, timings: Timings, at: Timestamp) -> [Vec<StepAction>; 2] {
    let begun = world_of(dump, &ObjectKey::new("n", "c"), at).expect("the Cluster");
    let chronicle = Chronicle::new(Detail::Sequence, begun.world.now);
    let mut course = Course::new(begun, way(), timings, chronicle);
    course.go();
    OWNERS.map(|(kind, name)| {
        let events = course.chronicle.events.iter();
        let mine = events.filter(|event| event.who.kind == kind && event.who.name == name);
        let action = |does: &Occurrence| match does {
            Occurrence::Action(action) => Some(action.clone()).filter(StepAction::is_of_pool),
            Occurrence::Host(_) => None,
        };
        mine.filter_map(|event| action(&event.does)).collect()
    })
}

fn planned_steps(plan: &ObjectPlan) -> Vec<StepAction> {
    let steps = plan.next.iter().chain(&plan.then).filter(|step| step.does.is_of_pool());
    steps.flat_map(|step| std::iter::repeat_n(step.does.clone(), step.count)).collect()
}

#[test]
fn what_is_said_to_follow_is_what_a_simulation_does() {
    let (mut compared, mut nursery) = (0, Nursery::default());
    for seed in 1..=SEEDS {
        let world = middle(seed, &mut nursery);
        let dump = dump_of(&world, &[]);
        let plans = forecast(&dump, world.now).objects;
        let at_once = done(&dump, Timings::none(), world.now);
        let mut usual = Timings::default();
        usual.kinds.insert("XMachine".to_owned(), timing());
        let in_time = done(&dump, usual, world.now);
        for ((owner, at_once), in_time) in OWNERS.into_iter().zip(at_once).zip(in_time) {
            let is_its = |plan: &&ObjectPlan| (plan.kind, plan.name.as_str()) == owner;
            let plan = plans.iter().find(is_its).expect("a plan");
            if matches!(plan.state, State::Acting | State::Waiting) {
                let steps = planned_steps(plan);
                assert_eq!(steps, at_once, "seed {seed}, {owner:?}");
                assert_eq!(steps.first(), in_time.first(), "seed {seed}, {owner:?}: NEXT");
                compared += usize::from(steps.len() > 1);
            }
        }
    }
    assert!(compared > 12, "only {compared} plans had something to follow");
}
