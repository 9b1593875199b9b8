//! What is found in an etcd, rule by rule: one change to three healthy members, and what comes of it.

use crate::etcd::facts::{Alarm, Asked, Class, Database, Facts, Host, Listed, MemberStatus, Raft, Trouble};
use crate::etcd::members::Role;
use crate::etcd::report::{EtcdState, Report};

const MIB: u64 = 1 << 20;

fn listed(id: u64) -> Listed {
    Listed {
        id,
        name: format!("n{id}"),
        is_learner: false,
        peer_urls: vec![format!("https://127.0.0.{id}:2380")],
        client_urls: vec![format!("https://127.0.0.{id}:2379")],
    }
}

fn status(id: u64, voters: u64) -> MemberStatus {
    MemberStatus {
        cluster_id: 0xc,
        member_id: id,
        version: "3.5.9".to_owned(),
        leader: Some(1),
        is_learner: false,
        raft: Some(Raft { term: 2, index: 100, applied: 100 }),
        database: Some(Database { size_bytes: MIB, in_use_bytes: MIB, quota_bytes: None }),
        errors: Vec::new(),
        took_ms: Some(1),
        list: Ok((1..=voters).map(listed).collect()),
    }
}

/// Healthy voters `n1`, `n2`, … on Machines `m1`, `m2`, …; the first leads.
fn healthy(voters: u64) -> Facts {
    let asked = |id: u64| {
        let node = format!("n{id}");
        Asked { from: node.clone(), node: Some(node), outcome: Ok(status(id, voters)) }
    };
    let host = |id: u64| Host { machine: format!("m{id}"), node: Some(format!("n{id}")), ..Host::default() };
    Facts {
        answers: (1..=voters).map(asked).collect(),
        alarms: Some(Ok(Vec::new())),
        hosts: Some((1..=voters).map(host).collect()),
    }
}

fn trouble(class: Class) -> Trouble {
    Trouble { class, text: "words".to_owned() }
}

fn member(facts: &mut Facts, id: u64) -> &mut MemberStatus {
    let asked = facts.answers.iter_mut().find(|asked| asked.node == Some(format!("n{id}"))).expect("asked");
    asked.outcome.as_mut().expect("an answer")
}

fn fail(facts: &mut Facts, id: u64, class: Class) {
    let asked = facts.answers.iter_mut().find(|asked| asked.node == Some(format!("n{id}"))).expect("asked");
    asked.outcome = Err(trouble(class));
}

fn lists(facts: &mut Facts) -> impl Iterator<Item = &mut Vec<Listed>> {
    facts
        .answers
        .iter_mut()
        .filter_map(|asked| asked.outcome.as_mut().ok())
        .filter_map(|status| status.list.as_mut().ok())
}

/// A name, the change, and state, summary and rules that follow.
type Case = (&'static str, fn(&mut Facts), EtcdState, &'static str, &'static [&'static str]);

const FINE: &str = "3 voters, healthy 3, can lose 1 more";

const CASES: &[Case] = &[
    ("nothing", |_| {}, EtcdState::Healthy, FINE, &[]),
    (
        "one is dead",
        |f| fail(f, 3, Class::Refused),
        EtcdState::Degraded,
        "3 voters, healthy 2, can lose 0 more",
        &["no-tolerance", "unreachable"],
    ),
    (
        "two are dead",
        |f| {
            fail(f, 2, Class::Refused);
            fail(f, 1, Class::TimedOut);
            member(f, 3).leader = None;
            f.alarms = Some(Err(trouble(Class::NoQuorum)));
        },
        EtcdState::Critical,
        "3 voters, healthy 0, quorum of 2 is lost",
        &["no-leader", "quorum-lost", "unreachable", "unreachable"],
    ),
    (
        "two cannot be reached, and raft answers all the same",
        |f| {
            fail(f, 2, Class::ForwardFailed);
            fail(f, 3, Class::ForwardFailed);
        },
        EtcdState::Degraded,
        "3 voters, healthy 1, can lose 0 more",
        &["no-tolerance", "unreachable", "unreachable"],
    ),
    (
        "nobody answers",
        |f| {
            (1..=3).for_each(|id| fail(f, id, Class::ClientRejected));
            f.alarms = None;
        },
        EtcdState::Unknown,
        "no member answered",
        &["unreachable", "unreachable", "unreachable"],
    ),
    (
        "an alarm",
        |f| f.alarms = Some(Ok(vec![Alarm { member: 2, kind: "NOSPACE".to_owned() }])),
        EtcdState::Critical,
        FINE,
        &["alarm-nospace"],
    ),
    (
        "alarms are not known",
        |f| f.alarms = Some(Err(trouble(Class::TimedOut))),
        EtcdState::Degraded,
        FINE,
        &["alarms-unknown"],
    ),
    (
        "a learner",
        |f| {
            lists(f).for_each(|list| list[2].is_learner = true);
            member(f, 3).is_learner = true;
            member(f, 3).list = Err(trouble(Class::Learner));
        },
        EtcdState::Degraded,
        "2 voters, 1 learner, healthy 2, can lose 0 more",
        &["no-tolerance", "learner", "even-voters"],
    ),
    (
        "a member that has not started",
        |f| {
            lists(f).for_each(|list| list.push(Listed { id: 9, ..Listed::default() }));
        },
        EtcdState::Degraded,
        "4 voters, healthy 3, can lose 0 more",
        &["no-tolerance", "member-unstarted", "even-voters"],
    ),
    (
        "a learner that has not started",
        |f| {
            let learner = Listed { id: 9, is_learner: true, ..Listed::default() };
            lists(f).for_each(|list| list.push(learner.clone()));
        },
        EtcdState::Degraded,
        "3 voters, 1 learner, healthy 3, can lose 1 more",
        &["member-unstarted"],
    ),
    (
        "a member that has not started, and one is dead",
        |f| {
            lists(f).for_each(|list| list.push(Listed { id: 9, ..Listed::default() }));
            fail(f, 3, Class::Refused);
            f.alarms = Some(Err(trouble(Class::NoQuorum)));
        },
        EtcdState::Critical,
        "4 voters, healthy 2, quorum of 3 is lost",
        &["quorum-lost", "member-unstarted", "unreachable", "even-voters"],
    ),
    (
        "two members that have not started",
        |f| {
            lists(f).for_each(|list| {
                list.extend([8, 9].map(|id| Listed { id, ..Listed::default() }));
            });
        },
        EtcdState::Degraded,
        "5 voters, healthy 3, can lose 0 more",
        &["no-tolerance", "member-unstarted", "member-unstarted"],
    ),
    (
        "one is removed and still answers",
        |f| {
            for id in [1, 2] {
                member(f, id).list.as_mut().expect("a list").truncate(2);
            }
            member(f, 3).list = Err(trouble(Class::Lost));
            f.hosts.as_mut().expect("hosts")[2].is_deleting = true;
        },
        EtcdState::Degraded,
        "2 voters, healthy 2, can lose 0 more",
        &["no-tolerance", "not-listed"],
    ),
    (
        "its own list differs",
        |f| member(f, 2).list.as_mut().expect("a list").truncate(2),
        EtcdState::Degraded,
        FINE,
        &["member-list-mismatch"],
    ),
    ("two leaders", |f| member(f, 2).leader = Some(2), EtcdState::Degraded, FINE, &["leader-split"]),
    (
        "two terms",
        |f| member(f, 2).raft.as_mut().expect("raft").term = 3,
        EtcdState::Degraded,
        FINE,
        &["term-mismatch"],
    ),
    (
        "two clusters",
        |f| member(f, 2).cluster_id = 0xd,
        EtcdState::Critical,
        "3 voters, healthy 2, can lose 0 more",
        &["cluster-id-mismatch", "no-tolerance"],
    ),
    (
        "another member answers",
        |f| {
            f.answers[2].outcome = Ok(status(2, 3));
        },
        EtcdState::Degraded,
        "3 voters, healthy 2, can lose 0 more",
        &["no-tolerance", "wrong-member", "not-asked"],
    ),
    (
        "a member without a Machine",
        |f| {
            f.hosts.as_mut().expect("hosts").pop();
        },
        EtcdState::Degraded,
        FINE,
        &["member-without-machine"],
    ),
    (
        "the same while a Machine is provisioned",
        |f| f.hosts.as_mut().expect("hosts")[2].node = None,
        EtcdState::Healthy,
        FINE,
        &[],
    ),
    (
        "a Machine without a member",
        |f| {
            let host = Host { machine: "m4".into(), node: Some("n4".into()), ..Host::default() };
            f.hosts.as_mut().expect("hosts").push(host);
        },
        EtcdState::Degraded,
        FINE,
        &["machine-without-member"],
    ),
    (
        "its Node is young",
        |f| {
            let host =
                Host { machine: "m4".into(), node: Some("n4".into()), is_joining: true, ..Host::default() };
            f.hosts.as_mut().expect("hosts").push(host);
        },
        EtcdState::Healthy,
        FINE,
        &[],
    ),
    (
        "entries are not applied",
        |f| {
            for id in 1..=3 {
                member(f, id).raft.as_mut().expect("raft").index = 6000;
            }
            member(f, 2).raft.as_mut().expect("raft").applied = 5900;
            member(f, 1).raft.as_mut().expect("raft").applied = 5800;
        },
        EtcdState::Degraded,
        FINE,
        &["apply-lag", "apply-lag"],
    ),
    (
        "one is behind",
        |f| {
            for id in 1..=2 {
                member(f, id).raft = Some(Raft { term: 2, index: 6000, applied: 6000 });
            }
        },
        EtcdState::Degraded,
        FINE,
        &["replication-lag"],
    ),
    (
        "the assumed quota is used up",
        |f| member(f, 2).database.as_mut().expect("a database").size_bytes = 1700 * MIB,
        EtcdState::Degraded,
        FINE,
        &["quota-high", "fragmented"],
    ),
    (
        "a stated quota is used up",
        |f| {
            let database = member(f, 2).database.as_mut().expect("a database");
            (database.size_bytes, database.in_use_bytes) = (99 * MIB, 99 * MIB);
            database.quota_bytes = Some(100 * MIB);
        },
        EtcdState::Critical,
        FINE,
        &["quota-high"],
    ),
    (
        "versions differ",
        |f| member(f, 2).version = "3.4.23".into(),
        EtcdState::Degraded,
        FINE,
        &["version-skew"],
    ),
    (
        "the same during a rollout",
        |f| {
            member(f, 2).version = "3.4.23".into();
            f.hosts.as_mut().expect("hosts")[2].is_deleting = true;
        },
        EtcdState::Healthy,
        FINE,
        &[],
    ),
    (
        "versions differ by two",
        |f| {
            member(f, 2).version = "3.3.1".into();
            f.hosts.as_mut().expect("hosts")[2].is_deleting = true;
        },
        EtcdState::Degraded,
        FINE,
        &["version-skew"],
    ),
    (
        "a server that states nothing",
        |f| {
            for id in 1..=3 {
                let status = member(f, id);
                (status.database, status.raft) = (None, None);
                status.version.clear();
            }
        },
        EtcdState::Healthy,
        FINE,
        &[],
    ),
];

#[test]
fn one_change_to_three_healthy_members_and_what_comes_of_it() {
    for (name, change, state, summary, rules) in CASES {
        let mut facts = healthy(3);
        change(&mut facts);
        let report = Report::of(&facts, None);
        let found: Vec<&str> = report.findings.iter().map(|f| f.rule).collect();
        assert_eq!(
            (report.state, report.summary.as_str(), found.as_slice()),
            (*state, *summary, *rules),
            "{name}: {:#?}",
            report.findings
        );
    }
}

#[test]
fn what_passes_is_found_only_when_two_looks_show_it() {
    let mut split = healthy(3);
    member(&mut split, 2).leader = Some(2);
    member(&mut split, 2).raft.as_mut().expect("raft").term = 3;
    let rules = |report: &Report| report.findings.iter().map(|f| f.rule).collect::<Vec<_>>();
    assert_eq!(rules(&Report::of(&split, Some(&healthy(3)))), [""; 0]);
    assert_eq!(rules(&Report::of(&split, Some(&split))), ["leader-split", "term-mismatch"]);
}

#[test]
fn can_lose_so_many_more() {
    for (voters, can_lose) in [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2), (7, 3)] {
        assert_eq!(Report::of(&healthy(voters), None).can_lose, Some(can_lose), "{voters}");
    }
}

#[test]
fn what_the_removal_of_a_member_leaves() {
    let mut facts = healthy(3);
    let report = Report::of(&facts, None);
    let removal = report.without("n2").expect("a voter");
    assert_eq!((removal.voters, removal.quorum, removal.healthy), (2, 2, 2));
    assert_eq!((removal.can_lose, removal.is_safe), (Some(0), true));
    fail(&mut facts, 3, Class::Refused);
    let report = Report::of(&facts, None);
    let of = |name: &str| report.without(name).map(|r| (r.healthy, r.can_lose, r.is_safe));
    assert_eq!(of("n2"), Some((1, None, false)));
    assert_eq!(of("n3"), Some((2, Some(0), true)));
    assert_eq!(of("n4"), None);
    let five = Report::of(&healthy(5), None);
    assert_eq!(five.without("n1").map(|r| (r.voters, r.can_lose)), Some((4, Some(1))));
}

/// A member without a name was taken for a learner: "without n2" kept its quorum, and the member itself had no line.
#[test]
fn what_a_removal_leaves_beside_a_voter_that_has_not_started() {
    let mut facts = healthy(3);
    lists(&mut facts).for_each(|list| list.push(Listed { id: 9, ..Listed::default() }));
    let report = Report::of(&facts, None);
    let of = |name: &str| report.without(name).map(|r| (r.voters, r.healthy, r.can_lose, r.is_safe));
    assert_eq!(of("n2"), Some((3, 2, Some(0), false)), "the controller changes nothing beside it");
    assert_eq!(of("9"), Some((3, 3, Some(1), true)), "its own removal is the remedy");
    fail(&mut facts, 3, Class::Refused);
    let report = Report::of(&facts, None);
    assert_eq!(report.without("n2").map(|r| (r.can_lose, r.is_safe)), Some((None, false)));
}

#[test]
fn members_are_joined_with_machines_and_addresses() {
    let report = Report::of(&healthy(3), None);
    let first = &report.members[0];
    assert_eq!((first.role, first.machine.as_deref(), first.id.as_str()), (Role::Leader, Some("m1"), "1"));
    assert_eq!((report.leader.as_deref(), report.cluster_id.as_str()), (Some("n1"), "c"));
    let mut facts = healthy(3);
    facts.hosts = None;
    facts.answers.truncate(1);
    facts.answers[0].node = None;
    facts.answers.push(Asked {
        from: "127.0.0.2:2379".to_owned(),
        node: None,
        outcome: Err(trouble(Class::Refused)),
    });
    let report = Report::of(&facts, None);
    let rows: Vec<_> = report.members.iter().map(|r| (r.name.as_str(), r.asked.is_some())).collect();
    assert_eq!(rows, [("n1", true), ("n2", true), ("n3", false)]);
    assert!(report.members[1].trouble.is_some());
}

/// Stated quota and size of the database in MiB, and whether it is said that only the alarm stands in the way.
#[test]
fn an_alarm_that_outlives_its_cause_is_to_be_disarmed() {
    for (quota, size, is_over) in [(Some(2048), 20, true), (Some(16), 16, false), (None, 20, false)] {
        let mut facts = healthy(3);
        facts.alarms = Some(Ok(vec![Alarm { member: 2, kind: "NOSPACE".to_owned() }]));
        let database = member(&mut facts, 2).database.as_mut().expect("a database");
        (database.size_bytes, database.in_use_bytes) = (size * MIB, size * MIB);
        database.quota_bytes = quota.map(|quota| quota * MIB);
        let report = Report::of(&facts, None);
        let alarm =
            report.findings.iter().find(|finding| finding.rule == "alarm-nospace").expect("a finding");
        assert!(alarm.text.contains("disarmed"), "{}", alarm.text);
        assert_eq!(alarm.text.contains("has room again"), is_over, "{}", alarm.text);
        assert_eq!(report.summary, FINE, "an alarm takes no vote");
        assert!(report.without("n1").is_some_and(|left| !left.is_safe), "the controller is cautious");
    }
}
