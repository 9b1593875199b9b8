//! The etcd screen: what it shows of three members, when it asks for a reading, and that it asks no more once it is
//! left.

use capi_rules::etcd::facts::{
    Alarm, Asked, Class, Database, Facts, Host, Listed, MemberStatus, Raft, Trouble,
};
use capstan_dashboard::tui::effect::{Effect, EffectOutcome};
use capstan_dashboard::tui::model::Model;
use capstan_dashboard::tui::msg::Msg;
use capstan_dashboard::tui::reads::Reading;
use capstan_dashboard::tui::script::text;
use capstan_dashboard::tui::subject::{PlannedCluster, Subject, SubjectKind};
use capstan_dashboard::tui::update::update;

use crate::golden;
use crate::harbor_screen::{keys, model};

/// The reading that is asked for, and the rest before it.
fn asked(effects: &[Effect]) -> Option<(PlannedCluster, u64)> {
    effects.iter().find_map(|effect| match effect {
        Effect::Read { subject: Subject::Etcd(cluster), wait_ms, .. } => Some((cluster.clone(), *wait_ms)),
        _ => None,
    })
}

fn answer(model: &mut Model, cluster: PlannedCluster, look: Result<Facts, String>) -> Vec<Effect> {
    let (subject, reading) = (Subject::Etcd(cluster), Reading::Etcd(look));
    update(model, Msg::Done(EffectOutcome::Read { subject, reading }))
}

const NAMES: [&str; 3] = ["harbor-cp-85qjm", "harbor-cp-8gtlh", "harbor-cp-lkcfv"];

fn status(id: u64) -> MemberStatus {
    let listed = |(id, name): (u64, &str)| Listed { id, name: name.to_owned(), ..Listed::default() };
    MemberStatus {
        cluster_id: 0xcdf8_18ff,
        member_id: id,
        version: "3.6.5".to_owned(),
        leader: Some(2),
        is_learner: false,
        raft: Some(Raft { term: 4, index: 4211, applied: 4211 }),
        database: Some(Database {
            size_bytes: 190 << 20,
            in_use_bytes: 120 << 20,
            quota_bytes: Some(2 << 30),
        }),
        errors: Vec::new(),
        took_ms: Some(7),
        list: Ok((1..).zip(NAMES).map(listed).collect()),
    }
}

fn healthy() -> Facts {
    let asked = |(id, node): (u64, &str)| Asked {
        from: node.to_owned(),
        node: Some(node.to_owned()),
        outcome: Ok(status(id)),
    };
    let host = |name: &str| Host {
        machine: name.to_owned(),
        node: Some(name.to_owned()),
        is_deleting: false,
        is_joining: false,
    };
    Facts {
        answers: (1..).zip(NAMES).map(asked).collect(),
        alarms: Some(Ok(Vec::new())),
        hosts: Some(NAMES.into_iter().map(host).collect()),
    }
}

fn troubled() -> Facts {
    let mut facts = healthy();
    let text = "port-forward to pod kube-system/etcd-harbor-cp-lkcfv: pod is not running\u{1b}[2J".to_owned();
    facts.answers[2].outcome = Err(Trouble { class: Class::ForwardFailed, text });
    facts.alarms = Some(Ok(vec![Alarm { member: 1, kind: "NOSPACE".to_owned() }]));
    facts
}

#[test]
fn members_findings_and_what_is_left() {
    for (width, height) in [(80, 24), (120, 40), (200, 50)] {
        let mut model = model(width, height);
        let (cluster, _) = asked(&keys(&mut model, "E")).expect("a reading");
        assert!(text(&mut model).contains("the members are being asked"));
        answer(&mut model, cluster.clone(), Ok(healthy()));
        let screen = text(&mut model);
        assert!(screen.contains("3 voters, healthy 3, can lose 1 more"), "{screen}");
        assert!(screen.contains("without harbor-cp-8gtlh: 2 voters, healthy 2, can lose 0 more"), "{screen}");
        golden::screen(&format!("etcd-{width}x{height}"), &screen);
        answer(&mut model, cluster, Ok(troubled()));
        let screen = text(&mut model);
        assert!(screen.contains("3 voters, healthy 2") && !screen.contains('\u{1b}'), "{screen}");
        golden::screen(&format!("etcd-trouble-{width}x{height}"), &screen);
    }
}

#[test]
fn etcd_is_read_while_the_screen_is_open_and_never_after() {
    let mut model = model(120, 40);
    assert_eq!(asked(&keys(&mut model, "down")), None, "nothing is read unasked");
    let (cluster, wait_ms) = asked(&keys(&mut model, "E")).expect("a reading");
    assert_eq!((cluster.key.name.as_str(), wait_ms), ("harbor", 0));
    assert_eq!(asked(&keys(&mut model, "down")), None, "one reading at a time");
    let (_, wait_ms) = asked(&answer(&mut model, cluster.clone(), Ok(healthy()))).expect("the next reading");
    assert_eq!(wait_ms, 10_000);
    // An election that only one look shows is not a finding.
    let mut split = healthy();
    if let Ok(status) = &mut split.answers[0].outcome {
        status.leader = Some(1);
    }
    let (_, wait_ms) = asked(&answer(&mut model, cluster.clone(), Ok(split))).expect("the next reading");
    assert_eq!(wait_ms, 10_000, "only two looks in a row make it a finding");

    // A member that is cut off is looked at again at once, and then as usual.
    let mut lost = healthy();
    for asked in &mut lost.answers {
        if let Ok(status) = &mut asked.outcome {
            status.leader = None;
        }
    }
    for rest_ms in [1_000, 10_000] {
        let effects = answer(&mut model, cluster.clone(), Ok(lost.clone()));
        assert_eq!(asked(&effects).expect("the next reading").1, rest_ms);
    }

    let stops = |effects: &[Effect]| {
        effects.iter().any(|effect| matches!(effect, Effect::StopReading(SubjectKind::Etcd)))
    };
    let effects = keys(&mut model, "enter");
    assert!(stops(&effects) && asked(&effects).is_none(), "{effects:?}");
    assert!(text(&mut model).contains("Machine harbor-cp-"), "the member's Machine is opened");
    let effects = answer(&mut model, cluster, Ok(healthy()));
    assert!(asked(&effects).is_none(), "a late answer asks for nothing");
    let effects = keys(&mut model, "q");
    assert!(asked(&effects).is_some(), "it goes on when the screen is back: {effects:?}");
    assert!(stops(&keys(&mut model, "q")));
}

#[test]
fn a_reading_that_fails_leaves_what_was_read_and_names_the_reason() {
    let mut model = model(120, 40);
    let (cluster, _) = asked(&keys(&mut model, "E")).expect("a reading");
    answer(&mut model, cluster.clone(), Err("Secret default/harbor-etcd does not exist".to_owned()));
    assert!(text(&mut model).contains("etcd could not be read: Secret default/harbor-etcd does not exist"));
    answer(&mut model, cluster.clone(), Ok(healthy()));
    answer(&mut model, cluster, Err("no way".to_owned()));
    let screen = text(&mut model);
    assert!(screen.contains("3 voters, healthy 3") && screen.contains("not since"), "{screen}");
}
