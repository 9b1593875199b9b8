//! What owners record while they remediate: the note that a control plane leaves on itself and on a
//! replacement, and the `OwnerRemediated` condition that a MachineSet writes. Must not delete anything.
//! Source: KCP `remediation.go` (`RemediationData`); `machineset_controller.go`
//! (`reconcileUnhealthyMachines`), v1.14.2.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use super::amount::{Round, literal, scaled};
use super::machines::{Member, name};
use crate::status::conditions::setter::condition;
use capi_types::condition::{Conditioned as _, Status, find};
use capi_types::key::annotation;
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use capi_types::machine_set::MachineSet;
use capi_types::names;
use capstan_base::time::{Timestamp, parse_rfc3339, rfc3339};

/// Reason of a Machine that its owner deletes.
pub const DELETING: &str = "MachineDeleting";
/// Reason of a Machine that its owner will look at again.
pub const DEFERRED: &str = "RemediationDeferred";

/// Value of `controlplane.cluster.x-k8s.io/remediation-in-progress` and `…/remediation-for`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemediationData {
    /// The Machine that was replaced.
    pub machine: String,
    /// When it was replaced.
    pub timestamp: Timestamp,
    /// 0 for a first attempt.
    pub retry_count: i32,
}

impl RemediationData {
    /// `None` when the text is not such a note.
    pub fn parse(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        Some(Self {
            machine: value.get("machine")?.as_str()?.to_owned(),
            timestamp: parse_rfc3339(value.get("timestamp")?.as_str()?)?,
            retry_count: i32::try_from(value.get("retryCount")?.as_i64()?).ok()?,
        })
    }

    /// As the annotation has it.
    pub fn to_json(&self) -> String {
        json!({
            "machine": self.machine,
            "timestamp": rfc3339(self.timestamp),
            "retryCount": self.retry_count,
        })
        .to_string()
    }
}

/// How many Machines of a MachineSet may be remediated at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The set is the current revision of its MachineDeployment, or has none.
    pub is_current_revision: bool,
    /// `spec.remediation.maxInFlight` of the MachineDeployment. `None`: any number.
    pub max_in_flight: Option<IntOrString>,
    /// `spec.replicas` of the MachineDeployment, which a percentage refers to.
    pub replicas: i32,
}

impl Limits {
    /// Without a MachineDeployment nothing limits a set.
    pub fn of(set: &MachineSet, deployment: Option<&MachineDeployment>) -> Self {
        let Some(deployment) = deployment else {
            return Self { is_current_revision: true, max_in_flight: None, replicas: 0 };
        };
        let revision = names::annotation::REVISION;
        Self {
            is_current_revision: annotation(set, revision) == annotation(deployment, revision),
            max_in_flight: deployment.spec.remediation.as_ref().and_then(|r| r.max_in_flight.clone()),
            replicas: deployment.spec.replicas.unwrap_or(1),
        }
    }
}

/// What a MachineSet knows when it looks at its unhealthy Machines.
#[derive(Clone, Debug)]
pub struct Workers<'a> {
    /// All Machines of the set.
    pub machines: Vec<&'a Machine>,
    /// How many may be replaced at once.
    pub limits: &'a Limits,
    /// Why no Machine may be made in the place of a remediated one now.
    pub preflight: Vec<String>,
}

/// `OwnerRemediated` of every Machine that waits for remediation and is not being deleted: those that a person
/// asked for come first, then the newest. One with reason `MachineDeleting` is to be deleted once the condition is
/// written.
pub fn owner_remediated<'a>(o: &Workers<'a>) -> Vec<(&'a Machine, Condition)> {
    let mut waiting: Vec<&Machine> = o.machines.iter().copied().filter(|m| awaits_remediation(m)).collect();
    // `false` sorts first: it stands for Machines that a person asked for.
    waiting.sort_by_key(|m| {
        let created = m.metadata.creation_timestamp.as_ref().map(|at| at.0);
        let is_asked_for = annotation(*m, names::annotation::REMEDIATE_MACHINE).is_some();
        (!is_asked_for, std::cmp::Reverse(created), name(m).to_owned())
    });
    // Deletions that are under way use up the limit, too.
    let in_flight = o.machines.iter().filter(|m| is_in_flight(m)).count();
    let mark = |(place, machine): (usize, &'a Machine)| {
        let (reason, message) = outcome(o, in_flight + place);
        (machine, condition("OwnerRemediated", Status::False, reason, message))
    };
    waiting.into_iter().enumerate().map(mark).collect()
}

/// Its health check failed, its owner has to act, and it is not being deleted.
pub fn awaits_remediation(machine: &Machine) -> bool {
    machine.metadata.deletion_timestamp.is_none() && Member::of(machine).is_to_be_remediated()
}

fn is_in_flight(machine: &Machine) -> bool {
    machine.metadata.deletion_timestamp.is_some()
        && find(machine.conditions(), "OwnerRemediated")
            .is_some_and(|c| c.status == "False" && c.reason == DELETING)
}

/// What becomes of a Machine before which `in_flight` others are remediated.
fn outcome(o: &Workers<'_>, in_flight: usize) -> (&'static str, String) {
    let Limits { is_current_revision, max_in_flight, replicas } = o.limits;
    // Before the limit: these Machines are not remediated even when there is room.
    if !is_current_revision {
        let message = "Machine won't be remediated because it is pending removal due to rollout";
        return ("CannotBeRemediated", message.to_owned());
    }
    if let Some(limit) = max_in_flight {
        let max = scaled(limit, *replicas, Round::Up).and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
        if in_flight >= max {
            let message = "Waiting because there are already too many remediations in progress \
                           (spec.strategy.remediation.maxInFlight is";
            return (DEFERRED, format!("{message} {})", literal(limit)));
        }
    }
    // After the limit, as upstream: a check that fails holds back only what would go now.
    if !o.preflight.is_empty() {
        let lines: Vec<String> = o.preflight.iter().map(|m| format!("* {m}")).collect();
        return (DEFERRED, lines.join("\n"));
    }
    (DELETING, "Machine is deleting".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_base::time::to_k8s;

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

    fn limits() -> Limits {
        Limits { is_current_revision: true, max_in_flight: None, replicas: 3 }
    }

    fn marks(machines: &[Machine], limits: &Limits, preflight: &[&str]) -> Vec<String> {
        let preflight = preflight.iter().map(|&sentence| sentence.to_owned()).collect();
        let o = Workers { machines: machines.iter().collect(), limits, preflight };
        let text = |(m, c): (&Machine, Condition)| format!("{} {} {}", name(m), c.reason, c.message);
        owner_remediated(&o).into_iter().map(text).collect()
    }

    fn at_most(limit: IntOrString) -> Limits {
        Limits { max_in_flight: Some(limit), ..limits() }
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
        assert_eq!(marks(&all, &limits(), &[]), [deleting("new"), deleting("old")]);
        let full = |name: &str, limit: &str| {
            format!(
                "{name} RemediationDeferred Waiting because there are already too many remediations in progress \
                 (spec.strategy.remediation.maxInFlight is {limit})"
            )
        };
        assert_eq!(marks(&all, &at_most(IntOrString::Int(2)), &[]), [deleting("new"), full("old", "2")]);
        assert_eq!(
            marks(&all, &at_most(IntOrString::String("30%".into())), &[]),
            [full("new", "30%"), full("old", "30%")],
            "one of three, rounded up, and one is leaving already"
        );
        assert_eq!(marks(&all[..1], &limits(), &["a", "b"]), ["old RemediationDeferred * a\n* b"]);
        assert_eq!(
            marks(&all[..1], &Limits { is_current_revision: false, ..limits() }, &[]),
            [
                "old CannotBeRemediated Machine won't be remediated because it is pending removal due to rollout"
            ]
        );
        assert_eq!(marks(&all[1..2], &limits(), &[]), Vec::<String>::new());
        assert_eq!(
            marks(&all, &at_most(IntOrString::Int(2)), &["a"]),
            ["new RemediationDeferred * a".to_owned(), full("old", "2")],
            "the limit holds what is beyond it, whatever holds the others"
        );
    }

    #[test]
    fn a_machine_that_a_person_marked_goes_first() {
        let mut asked = unhealthy("old", 9, "WaitingForRemediation");
        let mark = (names::annotation::REMEDIATE_MACHINE.to_owned(), String::new());
        asked.metadata.annotations = Some([mark].into());
        let all = [unhealthy("new", 2, "WaitingForRemediation"), asked];
        let found = marks(&all, &at_most(IntOrString::Int(1)), &[]);
        assert_eq!(found[0], "old MachineDeleting Machine is deleting");
        assert!(found[1].starts_with("new RemediationDeferred"), "{}", found[1]);
    }

    #[test]
    fn every_reason_of_a_machine_set() {
        let one = [unhealthy("m", 9, "WaitingForRemediation")];
        let expect = |limits: Limits, preflight: &[&str], reason: &str, message: &str| {
            let preflight = preflight.iter().map(|&sentence| sentence.to_owned()).collect();
            let o = Workers { machines: one.iter().collect(), limits: &limits, preflight };
            crate::status::tests::witness::expect_one(
                "Machine by MachineSet",
                &owner_remediated(&o)[0].1,
                "OwnerRemediated",
                ("False", reason, message),
            );
        };
        expect(limits(), &[], "MachineDeleting", "Machine is deleting");
        expect(limits(), &["a"], "RemediationDeferred", "* a");
        expect(
            Limits { is_current_revision: false, ..limits() },
            &[],
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
