//! The rollout screen: what it shows of rollouts in every state, and that what it names as acting acts.

use capi_forecast::forecast::in_place::{MachineUpdate, Updates, Way};
use capi_forecast::forecast::{Forecast, Held, NextStep, ObjectPlan, State, StepAction};
use capi_forecast::simulate::{self, End, Event, EventObject, HostEvent, Occurrence};
use capstan_dashboard::actions::Author;
use capstan_dashboard::fleet::{Delta, FeedState, OwnerStage};
use capstan_dashboard::tui::Tier;
use capstan_dashboard::tui::command;
use capstan_dashboard::tui::effect::{Effect, EffectOutcome};
use capstan_dashboard::tui::model::{Look, Model, Session};
use capstan_dashboard::tui::msg::Msg;
use capstan_dashboard::tui::plans::PlanReading;
use capstan_dashboard::tui::reads::Reading;
use capstan_dashboard::tui::screen::rollout::{RolloutOutlook, outlook};
use capstan_dashboard::tui::script::{draw, press, text};
use capstan_dashboard::tui::subject::Subject;
use capstan_dashboard::tui::update::update;
use capstan_dashboard::tui::view::view;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use serde_json::json;

use crate::fleet_fixture::{self as fixture, MachineState, OwnerState, RollingCluster, now};
use crate::golden;

/// Width, height, ASCII only, read-only.
type Eyes = (u16, u16, bool, bool);

const SMALL: Eyes = (80, 24, false, false);
const MIDDLE: Eyes = (120, 40, false, false);
const LARGE: Eyes = (200, 50, false, false);
/// When the rollout of the fixture began: after eleven.
const BEGAN_MINUTE: u32 = 56;

fn model((width, height, ascii, read_only): Eyes, deltas: Vec<Delta>) -> Model {
    let look = Look::load("default", "default", Tier::None, ascii, None, command::check)
        .expect("shipped files load");
    let session = Session {
        title: "demo".to_owned(),
        scope: "all namespaces".to_owned(),
        read_only,
        ..Session::default()
    };
    let mut model = Model::new(session, look, Rect::new(0, 0, width, height), now());
    update(&mut model, Msg::Fleet(deltas));
    update(&mut model, Msg::Tick);
    model
}

fn keys(model: &mut Model, keys: &str) -> Vec<Effect> {
    press(model, keys).unwrap_or_else(|e| panic!("{keys}: {e}"))
}

fn step(does: StepAction) -> NextStep {
    NextStep {
        does,
        count: 1,
        rule: "rollout".to_owned(),
        reason: "Version v1.34.3, v1.35.1 required".to_owned(),
        is_bookkeeping: false,
    }
}

fn delete(name: &str) -> StepAction {
    StepAction::Delete { kind: "Machine".to_owned(), name: name.to_owned() }
}

fn create(name: &str) -> StepAction {
    StepAction::CreateControlPlaneMachine { name: name.to_owned(), joins: true, failure_domain: None }
}

fn plan_of(kind: &'static str, name: &str, state: State) -> ObjectPlan {
    ObjectPlan {
        kind,
        namespace: "prod".to_owned(),
        name: name.to_owned(),
        cluster: "rolling".to_owned(),
        state,
        next: Vec::new(),
        then: Vec::new(),
        updates: None,
        blockers: Vec::new(),
        next_look: None,
        assumptions: Vec::new(),
        has_members: kind == "KubeadmControlPlane",
        within: vec!["Cluster/rolling".to_owned()],
    }
}

/// Plans as a server's would be read for the cluster of the fixture.
fn plans() -> Forecast {
    let mut plane = plan_of("KubeadmControlPlane", "rolling-cp", State::Waiting);
    plane.then = vec![
        step(delete("rolling-cp-8gtlh")),
        step(create("rolling-cp-new1")),
        step(delete("rolling-cp-lkcfv")),
    ];
    plane.blockers = vec![Held {
        rule: "machine-without-node".to_owned(),
        sentence: "Machine rolling-cp-lnwmv does not have a corresponding Node yet".to_owned(),
        on_its_way: true,
        evidence: Vec::new(),
    }];
    plane.assumptions = vec![
        "who leads etcd is not known: leadership moves first when the Machine that goes has it".to_owned(),
        "what follows holds if every Machine comes up and goes as it should, and nothing else is changed"
            .to_owned(),
    ];
    let mut set = plan_of("MachineSet", "rolling-md-0-hkmbd", State::Blocked);
    set.within.insert(0, "MachineDeployment/rolling-md-0".to_owned());
    set.blockers = vec![Held {
        rule: "preflight".to_owned(),
        sentence: fixture::CONTROL_PLANE_UPGRADING.to_owned(),
        on_its_way: false,
        evidence: Vec::new(),
    }];
    Forecast {
        api_version: "capstan/v1alpha1",
        kind: "Plan",
        at: "2026-11-20T12:00:00Z".to_owned(),
        objects: vec![plane, plan_of("MachineDeployment", "rolling-md-0", State::Settled), set],
        remarks: Vec::new(),
    }
}

/// Opens the rollout of the first cluster, and answers the question for its plans, if there is one.
fn open(model: &mut Model, plans: Result<Forecast, String>) {
    open_by(model, plans, Vec::new());
}

fn open_by(model: &mut Model, plans: Result<Forecast, String>, authors: Vec<Author>) {
    open_with(model, PlanReading { plans, ahead: None, authors, took_ms: 90 });
}

fn open_with(model: &mut Model, reading: PlanReading) {
    let mut effects = keys(model, "2");
    effects.extend(update(model, Msg::Tick));
    let asked = effects
        .into_iter()
        .find_map(|e| if let Effect::Read { subject, .. } = e { Some(subject) } else { None })
        .filter(|subject| matches!(subject, Subject::Plans(_)));
    if let Some(subject) = asked {
        let reading = Reading::Plans(reading);
        update(model, Msg::Done(EffectOutcome::Read { subject, reading }));
    }
}

#[test]
fn a_rollout_looks_as_recorded() {
    for (name, eyes) in [
        ("rollout-80x24", SMALL),
        ("rollout-120x40", MIDDLE),
        ("rollout-200x50", LARGE),
        ("rollout-ascii-120x40", (120, 40, true, false)),
        ("rollout-40x8", (40, 8, false, false)),
        ("rollout-read-only-80x24", (80, 24, false, true)),
    ] {
        let mut model = model(eyes, fixture::rolling_cluster());
        open(&mut model, Ok(plans()));
        let screen = text(&mut model);
        golden::screen(name, &screen);
        assert!(!eyes.2 || screen.is_ascii(), "{screen}");
    }
}

/// A spec that somebody wrote long before is not what began it.
#[test]
fn who_began_a_rollout_is_named() {
    for (kind, name, minute, is_named) in [
        ("KubeadmControlPlane", "rolling-cp", BEGAN_MINUTE, true),
        ("Cluster", "rolling", BEGAN_MINUTE, true),
        ("KubeadmControlPlane", "rolling-cp", BEGAN_MINUTE - 10, false),
        ("MachineDeployment", "other", BEGAN_MINUTE, false),
    ] {
        let at =
            capstan_base::time::parse_rfc3339(&format!("2026-11-20T11:{minute:02}:30Z")).expect("a moment");
        let author = Author { kind, name: name.to_owned(), manager: "anna".to_owned(), at };
        let mut model = model(MIDDLE, fixture::rolling_cluster());
        open_by(&mut model, Ok(plans()), vec![author]);
        let screen = text(&mut model);
        assert_eq!(screen.contains("ago, by anna"), is_named, "{kind} {minute}: {screen}");
    }
}

#[test]
fn a_rollout_whose_plan_is_not_known_says_so() {
    let mut model = model(SMALL, fixture::rolling_cluster());
    keys(&mut model, "2");
    assert!(
        text(&mut model).contains("8gtlh and lkcfv are replaced in the order of the plan"),
        "{}",
        text(&mut model)
    );
    let mut model = self::model(SMALL, fixture::rolling_cluster());
    open(&mut model, Err("the server does not answer".to_owned()));
    let screen = text(&mut model);
    assert!(screen.contains("8gtlh and lkcfv are replaced in the order of the plan"), "{screen}");
    keys(&mut model, "end");
    assert!(text(&mut model).contains("the server does not answer"), "{}", text(&mut model));
}

#[test]
fn a_finished_rollout_stays() {
    let mut model = model(MIDDLE, finished());
    open(&mut model, Ok(plans()));
    golden::screen("rollout-finished-120x40", &text(&mut model));
    // The cluster goes while the screen is open.
    let uid = model.fleet.row(model.fleet.clusters()[0]).expect("there").uid;
    update(
        &mut model,
        Msg::Fleet(vec![Delta::Remove { source: capstan_dashboard::fleet::SourceId(0), uid }]),
    );
    let screen = text(&mut model);
    assert!(screen.contains("the cluster is gone; this is what was seen last"), "{screen}");
    assert!(screen.contains("85qjm"), "{screen}");
}

/// A pool that had rolled out weeks before was listed as new with the control plane that just did.
#[test]
fn a_finished_rollout_lists_the_machines_that_it_made() {
    const WEEKS_S: i64 = 16 * 86_400;
    for (rolled_s, is_listed) in [(WEEKS_S, false), (300, true)] {
        let mut c = RollingCluster::new("rolling", ended());
        c.control_plane_machine("85qjm", "v1.35.1", &MachineState::New { made_s: 400, up_s: 58 });
        let mut pool = OwnerState::settled("v1.35.1", 2);
        for one in pool.conditions.iter_mut().filter(|one| one.0 == "RollingOut") {
            one.4 = rolled_s / 60 - 2;
        }
        let sets = c.deployment("md-0", pool, &["new"], "");
        for suffix in ["ttt01", "ttt02"] {
            c.worker(&sets[0], suffix, "v1.35.1", &MachineState::New { made_s: rolled_s, up_s: 60 });
        }
        let mut model = model(MIDDLE, c.deltas());
        open(&mut model, Ok(plans()));
        let screen = text(&mut model);
        assert!(screen.contains("85qjm up in 58s"), "{screen}");
        // In the log it stands with its moment.
        let is_in_list = screen.lines().any(|line| line.contains("md-0: ttt01"));
        assert_eq!(is_in_list, is_listed, "{screen}");
    }
}

/// A plan that was read in the second in which its first Machine was made named that Machine as still to come.
#[test]
fn a_step_that_happened_is_not_next() {
    let mut plans = plans();
    plans.at = "2026-11-20T11:59:45Z".to_owned();
    plans.objects[0].next = vec![step(create("rolling-cp-new1"))];
    let mut model = model(MIDDLE, fixture::rolling_cluster());
    open(&mut model, Ok(plans));
    let screen = text(&mut model);
    assert!(screen.contains("1 lnwmv is up") && screen.contains("2 8gtlh leaves"), "{screen}");
}

/// The cluster of the fixture run ahead: its old control plane Machines are replaced.
fn replaced() -> simulate::Forecast {
    let event = |at_s: i64, kind: &str, name: &str, does: Occurrence| Event {
        at_s,
        who: EventObject { kind: kind.to_owned(), name: name.to_owned() },
        does,
        is_simulated: false,
        rule: String::new(),
        why: String::new(),
    };
    let by_plane = |at_s: i64, does: StepAction| {
        event(at_s, "KubeadmControlPlane", "rolling-cp", Occurrence::Action(does))
    };
    let (kind, name) = ("MachineSet".to_owned(), "rolling-md-0-a".to_owned());
    let scale = Occurrence::Action(StepAction::Scale { kind, name, from: Some(0), to: 1 });
    simulate::Forecast {
        namespace: "prod".to_owned(),
        cluster: "rolling".to_owned(),
        ending: End::Settled,
        duration: simulate::Duration { short_s: 300, usual_s: 400, long_s: 500 },
        pools: Vec::new(),
        etcd_margin_min: Some(1),
        held: Vec::new(),
        runs: 1,
        rounds: None,
        events: vec![
            by_plane(20, delete("rolling-cp-8gtlh")),
            by_plane(80, create("rolling-cp-new1")),
            event(140, "Machine", "rolling-cp-new1", Occurrence::Host(HostEvent::NodeReady)),
            by_plane(150, delete("rolling-cp-lkcfv")),
            event(300, "MachineDeployment", "rolling-md-0", scale),
        ],
        samples: Vec::new(),
        assumptions: Vec::new(),
    }
}

/// Names with `-new` were taken for Machines of the simulation: the deletion of one that is gone was still announced.
#[test]
fn a_machine_that_is_gone_is_not_announced_whatever_its_name() {
    for (is_simulated, is_announced) in [(true, true), (false, false)] {
        let mut ahead = replaced();
        ahead.events[0].does = Occurrence::Action(delete("rolling-cp-new-k2x9z"));
        ahead.events[0].is_simulated = is_simulated;
        let mut model = model(LARGE, fixture::rolling_cluster());
        open_with(
            &mut model,
            PlanReading { plans: Ok(plans()), ahead: Some(ahead), authors: Vec::new(), took_ms: 90 },
        );
        let screen = text(&mut model);
        assert_eq!(screen.contains("deletes k2x9z"), is_announced, "{screen}");
    }
}

/// NEXT announced seconds later what LOG had as done: the member of a Machine that had left, and that the Machine may go.
#[test]
fn steps_about_what_is_gone_are_left_out() {
    let member = |name: &str| StepAction::RemoveEtcdMember { name: name.to_owned(), id: "17".to_owned() };
    let steps: [(&str, &dyn Fn(&str) -> (EventObject, StepAction)); 3] = [
        ("KubeadmControlPlane", &|name| (plane(), member(name))),
        ("Machine, of its own", &|name| (of_machine(name), StepAction::Other { what: "lets go".to_owned() })),
        ("deletion", &|name| (plane(), delete(name))),
    ];
    for (name, is_there) in [("rolling-cp-8gtlh", true), ("rolling-cp-hppjz", false)] {
        for (label, step) in steps {
            let (who, does) = step(name);
            let mut ahead = replaced();
            let first = &mut ahead.events[0];
            (first.who, first.does) = (who, Occurrence::Action(does.clone()));
            ahead.events.truncate(1);
            let mut model = model(LARGE, fixture::rolling_cluster());
            open_with(
                &mut model,
                PlanReading { plans: Ok(plans()), ahead: Some(ahead), authors: Vec::new(), took_ms: 90 },
            );
            let screen = text(&mut model);
            let suffix = &name["rolling-cp-".len()..];
            let next = screen.lines().skip_while(|line| !line.contains("NEXT"));
            let announced = next.take(3).any(|line| line.contains(suffix));
            assert_eq!(announced, is_there, "{label} of {name}:\n{screen}");
        }
    }
}

fn plane() -> EventObject {
    EventObject { kind: "KubeadmControlPlane".to_owned(), name: "rolling-cp".to_owned() }
}

fn of_machine(name: &str) -> EventObject {
    EventObject { kind: "Machine".to_owned(), name: name.to_owned() }
}

/// The extensions were not asked: what was run ahead is one of two ways, and the screen announced a deletion that did not come.
#[test]
fn where_no_extension_was_asked_the_screen_says_both_ways() {
    let open = ["rolling-cp-8gtlh", "rolling-cp-lkcfv"];
    let mut plans = plans();
    let plane = &mut plans.objects[0];
    let either = |name: &&str| step(StepAction::UpdateOrReplace { machine: (*name).to_owned() });
    plane.then = open.iter().map(either).collect();
    let update = |name: &&str| MachineUpdate {
        machine: (*name).to_owned(),
        way: Way::Unknown,
        reason: String::new(),
        covered: Vec::new(),
    };
    plane.updates = Some(Updates {
        machines: open.iter().map(update).collect(),
        handlers: vec!["can.x".to_owned()],
        asked: false,
        availability: String::new(),
    });
    for (ahead, expected) in [
        (None, ["8gtlh is updated in place, or replaced", "lkcfv is updated in place, or replaced"]),
        (
            Some(replaced()),
            ["in 20s: 8gtlh and lkcfv are updated in place, or replaced", "in 5m00s: md-0: scale"],
        ),
    ] {
        let mut model = model(LARGE, fixture::rolling_cluster());
        let reading = PlanReading { plans: Ok(plans.clone()), ahead, authors: Vec::new(), took_ms: 90 };
        open_with(&mut model, reading);
        let screen = text(&mut model);
        assert!(expected.iter().all(|words| screen.contains(words)), "{screen}");
        for word in ["deletes", "leaves", "creates", "a new Machine joins"] {
            assert!(!screen.contains(word), "{word}: {screen}");
        }
    }
}

#[test]
fn what_holds_is_shown_with_the_key_that_helps() {
    use MachineState::{Deleting, New, Old};
    let budget = "Drain not completed yet:\n* Pod web/a: cannot evict pod as it would violate the pod's disruption budget.";
    let draining = Deleting { asked_s: 900, reason: "DrainingNode", message: budget };
    let all = [
        ("aaaaa", "v1.34.3", draining),
        ("bbbbb", "v1.34.3", Old),
        ("zzzzz", "v1.35.1", New { made_s: 990, up_s: 60 }),
    ];
    let mut model = model(MIDDLE, plane_with(OwnerState::rolling("v1.35.1", 2, 17), &all));
    open(&mut model, Err("no plan here".to_owned()));
    golden::screen("rollout-held-120x40", &text(&mut model));

    let paused = json!({"spec": {"paused": true}});
    let mut c = RollingCluster::of_cluster("rolling", OwnerState::rolling("v1.35.1", 2, 50), paused);
    c.control_plane_machine("aaaaa", "v1.34.3", &Old);
    c.control_plane_machine("zzzzz", "v1.35.1", &New { made_s: 2_900, up_s: 60 });
    let mut model = self::model(SMALL, c.deltas());
    open(&mut model, Err("no plan here".to_owned()));
    golden::screen("rollout-paused-80x24", &text(&mut model));
}

/// Three new control plane Machines, the last up half a minute ago; the rollout's begin was not seen.
fn finished() -> Vec<Delta> {
    let mut c = RollingCluster::new("rolling", ended());
    for (suffix, made_s, up_s) in [("85qjm", 400, 58), ("lnwmv", 250, 71), ("gqnck", 130, 60)] {
        c.control_plane_machine(suffix, "v1.35.1", &MachineState::New { made_s, up_s });
    }
    c.deltas()
}

/// A control plane of three that says its rollout ended a minute ago.
fn ended() -> OwnerState<'static> {
    let mut ended = OwnerState::settled("v1.35.1", 3);
    for c in &mut ended.conditions {
        c.4 = if c.0 == "RollingOut" { 1 } else { c.4 };
    }
    ended
}

/// The stage of the control plane and of the first deployment, and what the outlook names.
fn picture(deltas: Vec<Delta>) -> (Vec<OwnerStage>, RolloutOutlook, Vec<String>) {
    let mut model = model(SMALL, deltas);
    open(&mut model, Err("no plan here".to_owned()));
    let fleet = &model.fleet;
    let rollout = fleet.rollout(fleet.clusters()[0]).expect("a Cluster");
    let outlook = outlook(fleet, &rollout, &model.known.plans);
    let names = outlook.acting.iter().filter_map(|acting| Some(fleet.row(acting.id)?.name.to_string()));
    let names = names.collect();
    (rollout.owners.into_iter().map(|owner| owner.stage).collect(), outlook, names)
}

fn plane_with(state: OwnerState<'_>, machines: &[(&str, &str, MachineState<'_>)]) -> Vec<Delta> {
    let mut c = RollingCluster::new("rolling", state);
    machines.iter().for_each(|(suffix, version, state)| c.control_plane_machine(suffix, version, state));
    c.deltas()
}

#[test]
fn what_acts_is_named_and_what_waits_for_its_turn_is_not() {
    use MachineState::{Deleting, New, Old, Starting};
    let surging =
        [("aaaaa", "v1.34.3", Old), ("bbbbb", "v1.34.3", Old), ("zzzzz", "v1.35.1", Starting { made_s: 9 })];
    let (stages, outlook, acting) = picture(plane_with(OwnerState::rolling("v1.35.1", 2, 1), &surging));
    assert_eq!((stages, acting), (vec![OwnerStage::Rolling], vec!["rolling-cp-zzzzz".to_owned()]));
    assert!(outlook.held.is_empty(), "{:?}", outlook.held);

    let draining = Deleting { asked_s: 20, reason: "DrainingNode", message: "Drain not completed yet" };
    let going = [
        ("aaaaa", "v1.34.3", draining),
        ("bbbbb", "v1.34.3", Old),
        ("zzzzz", "v1.35.1", New { made_s: 90, up_s: 60 }),
    ];
    let (stages, outlook, acting) = picture(plane_with(OwnerState::rolling("v1.35.1", 2, 1), &going));
    assert_eq!((stages, acting), (vec![OwnerStage::Rolling], vec!["rolling-cp-aaaaa".to_owned()]));
    assert!(outlook.held.is_empty() && outlook.arrival.is_some());

    // Two deletions at once, one of them asked for by a person in the middle.
    let by_hand = Deleting { asked_s: 5, reason: "DrainingNode", message: "" };
    let hooks = Deleting { asked_s: 30, reason: "WaitingForPreTerminateHook", message: "" };
    let two = [("aaaaa", "v1.34.3", by_hand), ("bbbbb", "v1.34.3", hooks), ("ccccc", "v1.34.3", Old)];
    let (_, _, acting) = picture(plane_with(OwnerState::rolling("v1.35.1", 3, 1), &two));
    assert_eq!(acting, ["rolling-cp-bbbbb", "rolling-cp-aaaaa"], "the earlier first");
}

#[test]
fn what_holds_is_named_with_its_rule() {
    use MachineState::{Deleting, New, Old};
    let budget = "Drain not completed yet:\n* Pod web/a: cannot evict pod as it would violate the pod's disruption budget.";
    let held = Deleting { asked_s: 90, reason: "DrainingNode", message: budget };
    let all = [("aaaaa", "v1.34.3", held), ("zzzzz", "v1.35.1", New { made_s: 200, up_s: 60 })];
    let (_, outlook, acting) = picture(plane_with(OwnerState::rolling("v1.35.1", 2, 5), &all));
    assert_eq!((outlook.held[0].rule.as_str(), acting.len()), ("disruption-budget", 1));
    assert_eq!(outlook.arrival, None, "what is held has no time of arrival");

    let paused = json!({"spec": {"paused": true}});
    let mut c = RollingCluster::of_cluster("rolling", OwnerState::rolling("v1.35.1", 1, 5), paused);
    c.control_plane_machine("aaaaa", "v1.34.3", &Old);
    let (stages, outlook, acting) = picture(c.deltas());
    assert_eq!((stages, acting.len()), (vec![OwnerStage::Paused], 0));
    assert_eq!(
        (outlook.held[0].sentence.as_str(), outlook.held[0].help),
        ("Cluster rolling is paused", Some(("resume", "resumes it")))
    );

    let on_delete = json!({"rollout": {"strategy": {"type": "OnDelete"}}});
    let mut c = RollingCluster::new("rolling", OwnerState::settled("v1.35.1", 0));
    let state = OwnerState { spec: on_delete, ..OwnerState::rolling("v1.35.1", 2, 5) };
    let sets = c.deployment("md-0", state, &["old", "new"], "");
    c.worker(&sets[0], "aaaaa", "v1.34.3", &Old);
    let (stages, outlook, _) = picture(c.deltas());
    assert_eq!((&stages[1], outlook.held[0].rule.as_str()), (&OwnerStage::OnDelete, "on-delete"));

    // A version skew that no control plane on its way will end.
    let skew = "MachineSet version (1.35.1) and ControlPlane version (1.34.3) do not conform to kubeadm version skew policy \
                (\"KubeadmVersionSkew\" preflight check failed)";
    let mut c = RollingCluster::new("rolling", OwnerState::settled("v1.34.3", 1));
    c.control_plane_machine("aaaaa", "v1.34.3", &New { made_s: 90_000, up_s: 60 });
    let sets = c.deployment("md-0", OwnerState::rolling("v1.35.1", 2, 5), &["old", "new"], skew);
    c.worker(&sets[0], "aaaaa", "v1.34.3", &Old);
    let (stages, outlook, _) = picture(c.deltas());
    assert!(
        matches!(&stages[1], OwnerStage::Waiting { check: Some(check), .. } if check == "KubeadmVersionSkew"),
        "{stages:?}"
    );
    let hold = &outlook.held[0];
    assert_eq!(
        (hold.rule.as_str(), hold.help.map(|help| help.0)),
        ("KubeadmVersionSkew", Some("prompt set-version"))
    );
}

#[test]
fn what_waits_for_the_control_plane_is_not_held() {
    let (stages, outlook, acting) = picture(fixture::rolling_cluster());
    assert!(matches!(stages[1], OwnerStage::Waiting { .. }), "{stages:?}");
    assert!(matches!(stages[2], OwnerStage::Scheduled { older: 2, .. }), "{stages:?}");
    assert_eq!(acting, ["rolling-cp-lnwmv"]);
    assert!(outlook.held.is_empty(), "{:?}", outlook.held);
    assert!(
        outlook.next.iter().any(|line| line.contains("when the control plane is through: md-0 (2 Machines)"))
    );
}

#[test]
fn parts_that_were_not_read_are_named() {
    let mut deltas = plane_with(OwnerState::settled("v1.35.1", 3), &[]);
    let refused = FeedState::NoAccess { error: "not allowed: list machines".into() };
    deltas.retain(|delta| !matches!(delta, Delta::Feed { feed, .. } if feed.kind.as_ref() == "Machine"));
    deltas.push(fixture::feed("Machine", refused, 1));
    let (stages, outlook, _) = picture(deltas);
    assert_eq!(stages, [OwnerStage::Unread]);
    assert!(
        outlook.assumed.iter().any(|line| line == "Machine objects may not be read"),
        "{:?}",
        outlook.assumed
    );
}

#[test]
fn a_machine_pool_is_shown_by_its_own_count() {
    for (state, words) in [
        (OwnerState::settled("v1.35.1", 4), "4 of 4   by its own count"),
        (OwnerState::rolling("v1.35.1", 4, 3), "surging 0"),
    ] {
        let mut c = RollingCluster::new("rolling", OwnerState::settled("v1.35.1", 1));
        c.control_plane_machine("aaaaa", "v1.35.1", &MachineState::New { made_s: 900_000, up_s: 60 });
        c.pool("np", state);
        let mut model = model(MIDDLE, c.deltas());
        open(&mut model, Ok(plans()));
        let screen = text(&mut model);
        let line = screen.lines().find(|line| line.trim_start().starts_with("np ")).expect("its line");
        assert!(line.contains(words), "{screen}");
    }
}

#[test]
fn nothing_is_asked_where_nothing_rolls() {
    let mut model = model(SMALL, fixture::large(1, 3));
    let effects = [keys(&mut model, "2"), update(&mut model, Msg::Tick)].concat();
    assert!(
        !effects.iter().any(|effect| matches!(effect, Effect::Read { subject: Subject::Plans(_), .. })),
        "{effects:?}"
    );
    assert!(text(&mut model).contains("nothing rolls: every Machine is as its owner wants it"));
}

/// How long the picture stays as it is while nothing happens, seconds.
fn rests_for(deltas: Vec<Delta>, opened: &str) -> Option<i64> {
    let mut model = model(SMALL, deltas);
    keys(&mut model, opened);
    model.refresh();
    let area = model.area;
    view(&model, area, &mut Buffer::empty(area)).next_change_s
}

#[test]
fn a_picture_that_says_the_same_is_not_drawn_again() {
    assert_eq!(rests_for(fixture::large(1, 3), "2"), None, "nothing rolls");
    assert_eq!(rests_for(finished(), "2"), Some(3_540), "until it is no news any more");
    assert_eq!(rests_for(fixture::large(1, 3), "R"), None);
    let at = capstan_base::time::rfc3339(now() + chrono::Duration::seconds(3_650));
    let state = OwnerState { spec: json!({"rollout": {"after": at}}), ..OwnerState::settled("v1.34.3", 1) };
    let scheduled =
        plane_with(state, &[("aaaaa", "v1.34.3", MachineState::New { made_s: 900_000, up_s: 60 })]);
    assert_eq!(rests_for(scheduled, "2"), Some(51), "a countdown changes by the minute");
}

#[test]
fn keys_act_on_the_selected_line() {
    let mut model = model(MIDDLE, fixture::rolling_cluster());
    open(&mut model, Ok(plans()));
    let selected = |model: &Model| {
        model.selected_row().and_then(|id| model.fleet.row(id)).map(|row| row.name.to_string())
    };
    assert_eq!(selected(&model).as_deref(), Some("rolling"));
    keys(&mut model, "down");
    assert_eq!(selected(&model).as_deref(), Some("rolling-cp"));
    keys(&mut model, "enter");
    assert!(text(&mut model).contains("KubeadmControlPlane rolling-cp"));
    keys(&mut model, "esc /");
    assert!(text(&mut model).contains("there is nothing to search here"));
    // A selected Machine stays selected when lines come in above it.
    keys(&mut model, "esc down down down down");
    assert_eq!(selected(&model).as_deref(), Some("rolling-cp-lnwmv"));
}

/// Rolling, held, scheduled, finished and settled clusters.
fn several() -> Vec<Delta> {
    use MachineState::{New, Old};
    let mut held = RollingCluster::of_cluster(
        "held",
        OwnerState::rolling("v1.35.1", 1, 50),
        json!({"spec": {"paused": true}}),
    );
    held.control_plane_machine("aaaaa", "v1.34.3", &Old);
    let mut done = RollingCluster::new("done", ended());
    for (suffix, made_s, up_s) in [("85qjm", 400, 58), ("lnwmv", 250, 71), ("gqnck", 130, 60)] {
        done.control_plane_machine(suffix, "v1.35.1", &New { made_s, up_s });
    }
    let after = capstan_base::time::rfc3339(now() + chrono::Duration::hours(30));
    let state =
        OwnerState { spec: json!({"rollout": {"after": after}}), ..OwnerState::settled("v1.34.3", 1) };
    let mut later = RollingCluster::new("later", state);
    later.control_plane_machine("aaaaa", "v1.34.3", &New { made_s: 900_000, up_s: 60 });
    let all =
        [fixture::rolling_cluster(), held.deltas(), done.deltas(), later.deltas(), fixture::large(2, 2)];
    // Uids of a fixture count from 1.
    let mut deltas: Vec<Delta> =
        all.into_iter().enumerate().flat_map(|(at, one)| fixture::with_uids(one, at)).collect();
    deltas.sort_by_key(|delta| matches!(delta, Delta::Feed { .. }));
    deltas
}

#[test]
fn all_rollouts_are_listed() {
    for (name, eyes) in [
        ("rollouts-80x24", SMALL),
        ("rollouts-120x40", MIDDLE),
        ("rollouts-200x50", LARGE),
        ("rollouts-ascii-80x24", (80, 24, true, false)),
    ] {
        let mut model = model(eyes, several());
        keys(&mut model, "R");
        let screen = text(&mut model);
        golden::screen(name, &screen);
        assert!(!eyes.2 || screen.is_ascii(), "{screen}");
    }
    let mut model = model(MIDDLE, several());
    assert!(
        !keys(&mut model, "R down")
            .iter()
            .any(|effect| matches!(effect, Effect::Read { subject: Subject::Plans(_), .. })),
        "no plan is read"
    );
    keys(&mut model, "enter");
    assert!(text(&mut model).contains("prod/rolling rollout"), "{}", text(&mut model));
    keys(&mut model, "esc / \"later\" enter");
    let screen = text(&mut model);
    assert!(screen.contains("prod/later") && !screen.contains("prod/rolling "), "{screen}");
}

#[test]
fn a_timeline_has_what_was_seen_and_what_objects_say() {
    let mut model = model(SMALL, fixture::rolling_cluster());
    keys(&mut model, "t");
    golden::screen("timeline-80x24", &text(&mut model));
    keys(&mut model, "esc enter down t");
    assert!(text(&mut model).contains("KubeadmControlPlane rolling-cp"));
    assert!(text(&mut model).contains("rollout began"), "{}", text(&mut model));
}

#[test]
fn no_size_breaks_the_screen() {
    for deltas in [fixture::rolling_cluster(), finished()] {
        let mut model = model(SMALL, deltas);
        open(&mut model, Ok(plans()));
        for width in (0..=60).chain([80, 99, 100, 139, 140, 200]) {
            for height in (0..=30).chain([50]) {
                update(&mut model, Msg::Resize { width, height });
                draw(&mut model);
                keys(&mut model, "down");
            }
        }
    }
}
