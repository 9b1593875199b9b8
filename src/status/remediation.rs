//! What owners record while they remediate: the note that a control plane leaves on itself and on a
//! replacement, and the `OwnerRemediated` condition that a MachineSet writes. Must not delete anything.
//! Source: KCP `remediation.go` (`RemediationData`); `machineset_controller.go`
//! (`reconcileUnhealthyMachines`), v1.14.0.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use super::amount::{Round, literal, scaled};
use super::machines::{Member, name};
use crate::api::condition::{Conditioned as _, Status, find};
use crate::api::machine::Machine;
use crate::status::conditions::setter::condition;
use crate::time::{Timestamp, parse_rfc3339, rfc3339};

/// Value of `controlplane.cluster.x-k8s.io/remediation-in-progress` and `…/remediation-for`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemediationData {
    /// The Machine that was replaced.
    pub machine: String,
    pub timestamp: Timestamp,
    /// 0 for a first attempt.
    pub retry_count: i32,
}

impl RemediationData {
    /// `None` when the text is not such a note.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        Some(Self {
            machine: value.get("machine")?.as_str()?.to_owned(),
            timestamp: parse_rfc3339(value.get("timestamp")?.as_str()?)?,
            retry_count: i32::try_from(value.get("retryCount")?.as_i64()?).ok()?,
        })
    }

    #[must_use]
    pub fn to_json(&self) -> String {
        json!({
            "machine": self.machine,
            "timestamp": rfc3339(self.timestamp),
            "retryCount": self.retry_count,
        })
        .to_string()
    }
}

/// What a MachineSet knows when it looks at its unhealthy Machines.
#[derive(Clone, Debug, Default)]
pub struct Workers<'a> {
    /// All Machines of the set.
    pub machines: Vec<&'a Machine>,
    /// The set is the current revision of its MachineDeployment, or has none.
    pub is_current_revision: bool,
    /// `spec.remediation.maxInFlight` of the MachineDeployment.
    pub max_in_flight: Option<IntOrString>,
    /// `spec.replicas` of the set, which a percentage refers to.
    pub replicas: i32,
    /// Why no Machine may be made in its place just now.
    pub preflight: Vec<String>,
}

/// `OwnerRemediated` for every Machine that waits for remediation and is not leaving, newest first. One
/// with reason `MachineDeleting` is to be deleted once the condition is written. Nobody calls it yet: the
/// MachineSet controller does not remediate (see docs/differences.md).
#[must_use]
pub fn worker_marks(o: &Workers<'_>) -> Vec<(String, Condition)> {
    let waits = |m: &&Machine| m.metadata.deletion_timestamp.is_none() && Member::of(m).is_to_be_remediated();
    let mut waiting: Vec<&Machine> = o.machines.iter().copied().filter(waits).collect();
    waiting.sort_by_key(|m| {
        let created = m.metadata.creation_timestamp.as_ref().map(|at| at.0);
        (std::cmp::Reverse(created), name(m).to_owned())
    });
    let mut in_flight = o.machines.iter().filter(|m| is_in_flight(m)).count();
    let mark = |machine: &Machine| {
        let (reason, message) = outcome(o, in_flight);
        if reason == "MachineDeleting" {
            in_flight += 1;
        }
        (name(machine).to_owned(), condition("OwnerRemediated", Status::False, reason, message))
    };
    waiting.into_iter().map(mark).collect()
}

fn is_in_flight(machine: &Machine) -> bool {
    machine.metadata.deletion_timestamp.is_some()
        && find(machine.conditions(), "OwnerRemediated")
            .is_some_and(|c| c.status == "False" && c.reason == "MachineDeleting")
}

fn outcome(o: &Workers<'_>, in_flight: usize) -> (&'static str, String) {
    if !o.is_current_revision {
        let message = "Machine won't be remediated because it is pending removal due to rollout";
        return ("CannotBeRemediated", message.to_owned());
    }
    if let Some(limit) = &o.max_in_flight {
        let max = scaled(limit, o.replicas, Round::Up).and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
        if in_flight >= max {
            let message = "Waiting because there are already too many remediations in progress \
                           (spec.strategy.remediation.maxInFlight is";
            return ("RemediationDeferred", format!("{message} {})", literal(limit)));
        }
    }
    if !o.preflight.is_empty() {
        let lines: Vec<String> = o.preflight.iter().map(|m| format!("* {m}")).collect();
        return ("RemediationDeferred", lines.join("\n"));
    }
    ("MachineDeleting", "Machine is deleting".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::to_k8s;

    /// Unhealthy since it was made, so many minutes ago.
    fn unhealthy(name: &str, minutes: i64, reason: &str) -> Machine {
        let mut machine = Machine::default();
        machine.metadata.name = Some(name.to_owned());
        let created = Timestamp::default() - chrono::TimeDelta::minutes(minutes);
        machine.metadata.creation_timestamp = Some(to_k8s(created));
        *machine.conditions_mut() = vec![
            condition("HealthCheckSucceeded", Status::False, "UnhealthyNode", ""),
            condition("OwnerRemediated", Status::False, reason, ""),
        ];
        machine
    }

    fn told(machines: &[Machine], change: impl FnOnce(&mut Workers<'_>)) -> Vec<String> {
        let mut o = Workers {
            machines: machines.iter().collect(),
            is_current_revision: true,
            replicas: 3,
            ..Workers::default()
        };
        change(&mut o);
        worker_marks(&o).into_iter().map(|(name, c)| format!("{name} {} {}", c.reason, c.message)).collect()
    }

    #[test]
    fn a_machine_set_marks_the_newest_first() {
        let mut leaving = unhealthy("gone", 1, "MachineDeleting");
        leaving.metadata.deletion_timestamp = Some(to_k8s(Timestamp::default()));
        let all = [
            unhealthy("old", 9, "WaitingForRemediation"),
            leaving,
            unhealthy("new", 2, "WaitingForRemediation"),
        ];
        let deleting = |name: &str| format!("{name} MachineDeleting Machine is deleting");
        assert_eq!(told(&all, |_| {}), [deleting("new"), deleting("old")]);
        let full = |name: &str, limit: &str| {
            format!(
                "{name} RemediationDeferred Waiting because there are already too many remediations in progress \
                 (spec.strategy.remediation.maxInFlight is {limit})"
            )
        };
        assert_eq!(
            told(&all, |o| o.max_in_flight = Some(IntOrString::Int(2))),
            [deleting("new"), full("old", "2")]
        );
        assert_eq!(
            told(&all, |o| o.max_in_flight = Some(IntOrString::String("30%".into()))),
            [full("new", "30%"), full("old", "30%")],
            "one of three, rounded up, and one is leaving already"
        );
        assert_eq!(
            told(&all[..1], |o| o.preflight = vec!["a".into(), "b".into()]),
            ["old RemediationDeferred * a\n* b"]
        );
        assert_eq!(
            told(&all[..1], |o| o.is_current_revision = false),
            [
                "old CannotBeRemediated Machine won't be remediated because it is pending removal due to rollout"
            ]
        );
        assert_eq!(told(&all[1..2], |_| {}), Vec::<String>::new());
    }

    #[test]
    fn every_reason_of_a_machine_set() {
        let one = [unhealthy("m", 9, "WaitingForRemediation")];
        let expect = |change: &dyn Fn(&mut Workers<'_>), reason: &str, message: &str| {
            let mut o = Workers {
                machines: one.iter().collect(),
                is_current_revision: true,
                replicas: 3,
                ..Workers::default()
            };
            change(&mut o);
            let marks = worker_marks(&o);
            let expected = ("False", reason, message);
            crate::status::tests::witness::expect_one(
                "Machine by MachineSet",
                &marks[0].1,
                "OwnerRemediated",
                expected,
            );
        };
        expect(&|_| {}, "MachineDeleting", "Machine is deleting");
        expect(&|o| o.preflight = vec!["a".into()], "RemediationDeferred", "* a");
        expect(
            &|o| o.is_current_revision = false,
            "CannotBeRemediated",
            "Machine won't be remediated because it is pending removal due to rollout",
        );
    }

    #[test]
    fn the_note_survives_a_round_trip() {
        let note = RemediationData {
            machine: "m1".into(),
            timestamp: parse_rfc3339("2026-11-20T10:00:00Z").unwrap(),
            retry_count: 2,
        };
        assert_eq!(RemediationData::parse(&note.to_json()), Some(note));
        assert_eq!(RemediationData::parse("{}"), None);
        assert_eq!(RemediationData::parse("nonsense"), None);
    }
}
