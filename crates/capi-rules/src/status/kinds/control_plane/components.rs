//! Many Machines' health as one condition of the control plane: which component is wrong on which
//! Machine. Must not know how the Machines' conditions came about.
//! Source: cluster-api `controlplane/kubeadm/pkg/workload_cluster_conditions.go`
//! (`aggregateConditionsFromMachinesToKCP`), v1.14.2.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::status::conditions::setter::condition;
use crate::status::conditions::wording::join_limited;
use capi_types::condition::{Status, find};

/// One aggregation: from condition types of Machines to one type of the control plane.
#[derive(Clone, Copy, Debug)]
pub struct Aggregation<'a> {
    /// The types of the Machines.
    pub sources: &'a [&'a str],
    /// The type that comes out.
    pub target: &'a str,
    /// What the Machines report, as in `No Machines reporting NOTE status`.
    pub note: &'a str,
    /// Trouble that belongs to no Machine.
    pub errors: &'a [String],
}

/// A Machine as far as this aggregation looks at it.
#[derive(Clone, Copy, Debug)]
pub struct Reporter<'a> {
    /// Of the Machine.
    pub name: &'a str,
    /// As just inspected.
    pub conditions: &'a [Condition],
    /// Before the infrastructure has a provider id, unknown is not news.
    pub has_provider_id: bool,
}

#[derive(Default)]
struct Tally {
    errors: bool,
    unknown: bool,
    info: bool,
    /// Text of the lines below a heading, and the Machines that share it.
    groups: Vec<(String, Vec<String>)>,
}

impl Aggregation<'_> {
    /// The condition over these Machines, in the order of names.
    pub fn of(&self, machines: &[Reporter<'_>]) -> Condition {
        let mut tally = Tally { errors: !self.errors.is_empty(), ..Tally::default() };
        let mut machines: Vec<&Reporter<'_>> = machines.iter().collect();
        // Groups get their Machines in this order; without
        // it the message would change with the cache.
        machines.sort_by_key(|m| m.name);
        for machine in machines {
            self.count(machine, &mut tally);
        }
        let (status, reason, message) = match tally {
            Tally { errors: true, .. } => (Status::False, "NotHealthy", self.message(tally.groups)),
            Tally { unknown: true, .. } => (Status::Unknown, "HealthUnknown", self.message(tally.groups)),
            Tally { info: true, .. } => (Status::True, "Healthy", String::new()),
            _ => (Status::Unknown, "HealthUnknown", format!("No Machines reporting {} status", self.note)),
        };
        condition(self.target, status, reason, message)
    }

    fn count(&self, machine: &Reporter<'_>, tally: &mut Tally) {
        let present: Vec<&Condition> =
            self.sources.iter().filter_map(|t| find(machine.conditions, t)).collect();
        let mut lines = Vec::new();
        for c in &present {
            match c.status.as_str() {
                "True" => tally.info = true,
                "False" => {
                    tally.errors = true;
                    lines.push(line(c, "condition is False"));
                }
                // Unknown is what a Machine without a host has
                // to be, and no doubt about the control plane.
                _ if !machine.has_provider_id => tally.info = true,
                _ => {
                    tally.unknown = true;
                    lines.push(line(c, "condition is Unknown"));
                }
            }
        }
        if lines.is_empty() {
            return;
        }
        let same = present.windows(2).all(|pair| pair[0].message == pair[1].message);
        // A single cause, such as a lost Node, says the same of every component.
        if present.len() > 1 && same {
            lines = vec![format!("  * Control plane components: {}", present[0].message)];
        }
        let text = lines.join("\n");
        match tally.groups.iter_mut().find(|(known, _)| *known == text) {
            Some((_, names)) => names.push(machine.name.to_owned()),
            None => tally.groups.push((text, vec![machine.name.to_owned()])),
        }
    }

    fn message(&self, mut groups: Vec<(String, Vec<String>)>) -> String {
        groups.sort_by_cached_key(|(_, names)| (std::cmp::Reverse(names.len()), names.join(",")));
        let mut blocks = Vec::new();
        for (text, mut names) in groups {
            names.sort_unstable();
            let noun = if names.len() == 1 { "Machine" } else { "Machines" };
            blocks.push(format!("* {noun} {}:\n{text}", join_limited(&names, 3)));
        }
        blocks.extend(self.errors.iter().map(|e| format!("* {e}")));
        blocks.join("\n")
    }
}

fn line(c: &Condition, fallback: &str) -> String {
    let message = if c.message.is_empty() { fallback } else { c.message.as_str() };
    format!("  * {}: {message}", c.type_)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(type_: &str, status: Status, message: &str) -> Condition {
        condition(type_, status, "R", message)
    }

    fn check(machines: &[(&str, bool, Vec<Condition>)], errors: &[String], expected: (&str, &str, &str)) {
        let reporters: Vec<Reporter<'_>> = machines
            .iter()
            .map(|(name, has_provider_id, conditions)| Reporter {
                name,
                conditions,
                has_provider_id: *has_provider_id,
            })
            .collect();
        let got =
            Aggregation { sources: &["A", "B"], target: "T", note: "control plane", errors }.of(&reporters);
        assert_eq!((got.status.as_str(), got.reason.as_str(), got.message.as_str()), expected);
    }

    #[test]
    fn machines_with_the_same_trouble_share_a_line() {
        let bad = || vec![said("A", Status::False, "down"), said("B", Status::True, "")];
        let odd = || vec![said("A", Status::Unknown, ""), said("B", Status::False, "gone")];
        check(
            &[("m2", true, bad()), ("m1", true, bad()), ("m3", true, odd())],
            &[],
            (
                "False",
                "NotHealthy",
                "* Machines m1, m2:\n  * A: down\n* Machine m3:\n  * A: condition is Unknown\n  * B: gone",
            ),
        );
    }

    #[test]
    fn one_text_for_all_components_is_said_once() {
        let all =
            vec![said("A", Status::Unknown, "Node is away"), said("B", Status::Unknown, "Node is away")];
        check(
            &[("m1", true, all)],
            &[],
            ("Unknown", "HealthUnknown", "* Machine m1:\n  * Control plane components: Node is away"),
        );
    }

    /// A quirk to keep: pods that wait without a message leave a line that ends in a space.
    #[test]
    fn empty_messages_are_equal_messages() {
        let waiting = vec![said("A", Status::False, ""), said("B", Status::True, "")];
        check(
            &[("m1", true, waiting)],
            &[],
            ("False", "NotHealthy", "* Machine m1:\n  * Control plane components: "),
        );
    }

    #[test]
    fn machines_without_provider_id_do_not_worry_anybody() {
        check(&[("m1", false, vec![said("A", Status::Unknown, "x")])], &[], ("True", "Healthy", ""));
    }

    #[test]
    fn nothing_reported_is_unknown_and_errors_stand_alone() {
        check(&[], &[], ("Unknown", "HealthUnknown", "No Machines reporting control plane status"));
        check(&[], &["lost Node".to_owned()], ("False", "NotHealthy", "* lost Node"));
    }
}
