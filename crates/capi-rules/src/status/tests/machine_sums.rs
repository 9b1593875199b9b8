//! Test support: the conditions that MachineSets and MachineDeployments have in common about their Machines, as one
//! table for both. Must not know how either is observed.

use std::sync::Arc;

use chrono::TimeDelta;

use crate::status::conditions::setter::condition;
use crate::status::tests::witness;
use capi_types::condition::{Condition, Conditioned as _, Status};
use capi_types::machine::Machine;
use capstan_base::time::{Timestamp, to_k8s};

/// Machine `m`, an hour old, that has these conditions alone.
pub(in crate::status) fn machine(conditions: &[(&str, Status, &str)], now: Timestamp) -> Arc<Machine> {
    let mut machine = Machine::default();
    machine.metadata.name = Some("m".to_owned());
    machine.metadata.creation_timestamp = Some(to_k8s(now - TimeDelta::hours(1)));
    *machine.conditions_mut() = conditions.iter().map(|(t, s, m)| condition(t, *s, "Why", *m)).collect();
    Arc::new(machine)
}

/// `conditions_of`: the conditions of an owner `of` this kind that has just these Machines.
pub(in crate::status) fn check(
    of: &str,
    now: Timestamp,
    conditions_of: impl Fn(Vec<Arc<Machine>>) -> Vec<Condition>,
) {
    let expect = |machines: &[&[(&str, Status, &str)]], type_: &str, expected: witness::Triple<'_>| {
        let machines = machines.iter().map(|conditions| machine(conditions, now)).collect();
        witness::expect(of, &conditions_of(machines), type_, expected);
    };
    for (type_, source, no, unknown) in [
        ("MachinesReady", "Ready", "NotReady", "ReadyUnknown"),
        ("MachinesUpToDate", "UpToDate", "NotUpToDate", "UpToDateUnknown"),
    ] {
        expect(&[], type_, ("True", "NoReplicas", ""));
        expect(&[&[(source, Status::True, "")]], type_, ("True", source, ""));
        expect(&[&[(source, Status::False, "m")]], type_, ("False", no, "* Machine m: m"));
        let missing = format!("* Machine m: Condition {source} not yet reported");
        expect(&[&[]], type_, ("Unknown", unknown, &missing));
    }
    expect(&[], "Remediating", ("False", "NotRemediating", ""));
    let sick = [("HealthCheckSucceeded", Status::False, ""), ("OwnerRemediated", Status::False, "waits")];
    expect(&[&sick], "Remediating", ("True", "Remediating", "* Machine m: waits"));
}
