//! `--actors planner`: the planners in turns, beside the rounds and ends that upstream's sequence tests have.
//! Source: cluster-api `machinedeployment_rollout_rollingupdate_test.go`, v1.14.2.

use serde_json::json;

use super::*;
use capi_types::machine_deployment::MachineDeployment;
use capstan_base::rng::Rng;

fn stepped(replicas: u32, limits: (u32, u32), order: Order) -> (Course, Ending, i64) {
    let mut world = grown(1, replicas);
    let (surge, unavailable) = limits;
    let rolling = json!({"maxSurge": surge, "maxUnavailable": unavailable});
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": rolling});
    let spec = json!({"rollout": {"strategy": strategy}, "template": {"spec": {"version": "v1.34.3"}}});
    world.merge::<MachineDeployment>("md", &json!({"spec": spec}));
    let begun = again(world);
    let began = begun.world.now;
    let chronicle = Chronicle::new(Detail::Sequence, began);
    let way = Way { order, actors: Actors::Planner, ..way() };
    let mut course = Course::new(begun, way, Timings::none(), chronicle);
    let ending = course.go();
    let rounds = (course.world.now - began).num_seconds();
    (course, ending, rounds)
}

#[test]
fn the_planners_in_turns_need_as_many_rounds_as_upstreams() {
    for (replicas, limits, rounds) in
        [(3, (1, 0), 7), (3, (0, 1), 7), (6, (3, 1), 5), (6, (1, 3), 5), (6, (10, 0), 3), (6, (0, 10), 3)]
    {
        let (course, ending, taken) = stepped(replicas, limits, Order::Fixed);
        assert_eq!(ending, Ending::Settled, "{replicas} {limits:?}\n{}", report(&course));
        assert_eq!(taken, rounds, "{replicas} {limits:?}\n{}", report(&course));
        let versions: Vec<_> = course.world.all::<Machine>().filter_map(|m| m.spec.version.clone()).collect();
        let new = versions.iter().filter(|version| *version == "v1.34.3").count();
        assert_eq!(new, usize::try_from(replicas).expect("few"), "{versions:?}");
    }
}

#[test]
fn turns_by_chance_end_within_upstreams_limit() {
    for seed in 0..20 {
        let order = Order::Random(Rng::seeded(seed));
        let (course, ending, _) = stepped(6, (3, 1), order);
        assert_eq!(ending, Ending::Settled, "seed {seed}\n{}", report(&course));
    }
}
