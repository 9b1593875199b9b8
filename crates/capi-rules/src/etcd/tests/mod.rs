//! Quorum arithmetic: worked values.

mod health;

use super::*;

fn members(names: &[&str]) -> Vec<Member> {
    names.iter().map(|n| Member { name: (*n).to_owned(), ..Member::default() }).collect()
}

/// Is `change` safe for members `a`, `b`, … of which `unhealthy` are?
fn check(count: usize, unhealthy: &[&str], change: Change<'_>, expected: bool) {
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    let list = members(&names[..count]);
    let projection = Projection::after(&list, change, |name| Some(!unhealthy.contains(&name)));
    assert_eq!(
        projection.is_safe(),
        expected,
        "{count} members, {unhealthy:?} bad, {change:?}: {projection:?}"
    );
}

#[test]
fn worked_values_of_safe_changes() {
    check(1, &[], Change::Add, true);
    check(1, &["a"], Change::Add, false);
    check(2, &[], Change::Add, true);
    check(2, &["a"], Change::Add, false);
    check(3, &[], Change::Add, true);
    check(3, &["a"], Change::Add, false);
    check(4, &["a"], Change::Add, true);
    check(5, &["a"], Change::Add, true);
    check(5, &["a", "b"], Change::Add, false);
    check(3, &[], Change::Remove("a"), true);
    check(3, &["a"], Change::Remove("a"), true);
    check(3, &["b"], Change::Remove("a"), false);
    check(4, &["b"], Change::Remove("a"), true);
    check(5, &["b"], Change::Remove("a"), true);
    check(5, &["b", "c"], Change::Remove("a"), false);
    check(7, &["b", "c"], Change::Remove("a"), true);
    check(1, &[], Change::Remove("a"), false);
}

#[test]
fn learners_and_nameless_members_forbid_changes() {
    let mut list = members(&["a", "b", "c"]);
    list[2].learner = true;
    assert!(!Projection::after(&list, Change::None, |_| Some(true)).is_safe());
    let list = members(&["a", "b", ""]);
    let projection = Projection::after(&list, Change::None, |_| Some(true));
    assert_eq!(projection, Projection { voters: 2, learners: 1, unhealthy: 1 });
    assert!(!projection.is_safe());
}

#[test]
fn a_member_without_machine_is_healthy_unless_it_raised_an_alarm() {
    let mut list = members(&["a", "b", "c"]);
    assert!(Projection::after(&list, Change::Remove("a"), |_| None).is_safe());
    list[1].alarms.push("NOSPACE".into());
    assert!(!Projection::after(&list, Change::Remove("a"), |_| None).is_safe());
}

#[test]
fn the_leader_has_a_name() {
    let mut known = Members { list: members(&["a", "b"]), leader: Some(2) };
    known.list[1].id = 2;
    assert_eq!(Membership::Known(known).leader_name(), Some("b"));
    assert_eq!(Membership::NoLeader.leader_name(), None);
    assert_eq!(Membership::NoNodes.members(), None);
}
