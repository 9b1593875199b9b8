//! What holds the drains that an action leads to: disruption budgets that let no pod go, and a drain that hangs already. Must not read
//! anything.

use serde_json::Value;

use super::fields::REPLICAS;
use super::related::{Related, condition};
use super::{Action, finding};
use crate::operations::{Finding, HeldBudget, Severity};
use capi_rules::status::conditions::wording::BUDGET;

/// Budgets that are named.
const NAMED_MAX: usize = 3;

/// Does an action have Machines go, whose Nodes are drained?
pub(super) fn drains(action: &Action, related: &Related) -> bool {
    match action {
        Action::Scale { replicas } => {
            let now = related.object.pointer(REPLICAS).and_then(Value::as_i64);
            now.is_none_or(|now| i64::from(*replicas) < now)
        }
        Action::Restart
        | Action::RolloutAfter { .. }
        | Action::SetVersion { .. }
        | Action::UpdateInPlace(_)
        | Action::Delete
        | Action::Remediate => true,
        _ => false,
    }
}

/// The budgets that would hold the drain of a Machine that the action may take.
pub(super) fn findings(action: &Action, related: &Related) -> Vec<Finding> {
    let budgets = match &related.budgets {
        Some(Ok(budgets)) => budgets,
        Some(Err(why)) => {
            let text = format!("disruption budgets were not checked: {why}");
            return finding(Severity::Note, "budgets-not-checked", text).into_iter().collect();
        }
        None => return Vec::new(),
    };
    let machines = taken(action, related);
    let held = budgets.iter().filter_map(|budget| holds(budget, &machines));
    held.take(NAMED_MAX).filter_map(|text| finding(Severity::Warning, "disruption-budget", text)).collect()
}

/// The Machines that may go.
fn taken<'a>(action: &Action, related: &'a Related) -> Vec<&'a Value> {
    match (action, related.kind()) {
        (Action::Delete | Action::Remediate, "Machine") => vec![&related.object],
        (_, "Cluster") => related.machines.iter().flatten().collect(),
        _ => related.own_machines().unwrap_or_default(),
    }
}

fn holds(held: &HeldBudget, machines: &[&Value]) -> Option<String> {
    let on = |node: &str| machines.iter().find(|machine| machine["status"]["nodeRef"]["name"] == node);
    let (pod, machine) = held.pods.iter().find_map(|(pod, node)| Some((pod, *on(node)?)))?;
    let more = held.pods.iter().filter(|(_, node)| on(node).is_some()).count() - 1;
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let name = machine["metadata"]["name"].as_str().unwrap_or_default();
    // A timeout of zero is none.
    let bound = machine["spec"]["deletion"]["nodeDrainTimeoutSeconds"].as_i64().filter(|bound| *bound > 0);
    let end = match bound {
        Some(seconds) => format!("its drain is given up after {seconds} s"),
        None => "its drain waits until the budget has room".to_owned(),
    };
    let budget = &held.budget;
    Some(format!(
        "PodDisruptionBudget {budget} lets no pod go: Machine {name} has Pod {pod}{more}, and {end}"
    ))
}

/// What is replaced next drains its Node under the same budgets.
pub(super) fn drain_is_held(action: &Action, related: &Related) -> Option<Finding> {
    if !drains(action, related) {
        return None;
    }
    let held = related.machines.iter().flatten().find_map(|machine| {
        let deleting = condition(machine, "Deleting").filter(|c| c["reason"] == "DrainingNode")?;
        let line = deleting["message"].as_str()?.lines().find(|line| line.contains(BUDGET))?;
        Some((machine["metadata"]["name"].as_str()?, line.trim_start_matches([' ', '*']).to_owned()))
    });
    let (machine, line) = held?;
    let text =
        format!("the drain of Machine {machine} is held, and the next one may be held by the same: {line}");
    finding(Severity::Warning, "drain-held", text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use capi_types::names::label;
    use serde_json::json;

    fn of_deployment(spec: Value) -> Related {
        Related {
            object: json!({"kind": "MachineDeployment", "metadata": {"name": "md"}, "spec": spec}),
            machines: Some(vec![]),
            ..Related::default()
        }
    }

    fn worker(name: &str, deployment: &str, timeout_s: i64) -> Value {
        json!({"kind": "Machine", "metadata": {"name": name, "labels": {label::DEPLOYMENT_NAME: deployment}},
            "spec": {"deletion": {"nodeDrainTimeoutSeconds": timeout_s}}, "status": {"nodeRef": {"name": format!("node-{name}")}}})
    }

    #[test]
    fn a_budget_is_named_with_the_pod_and_the_machine_that_would_wait() {
        let mut place = of_deployment(json!({"replicas": 3}));
        place.machines = Some(vec![worker("a", "md", 0), worker("b", "other", 0), worker("c", "md", 60)]);
        let budget = |nodes: &[&str]| HeldBudget {
            budget: "web/shop".to_owned(),
            pods: nodes.iter().map(|node| (format!("web/on-{node}"), (*node).to_owned())).collect(),
        };
        for (nodes, action, expected) in [
            (
                vec!["node-a"],
                Action::Restart,
                Some("Machine a has Pod web/on-node-a, and its drain waits until"),
            ),
            (
                vec!["node-c", "node-a"],
                Action::Restart,
                Some("Machine c has Pod web/on-node-c and 1 more, and its drain is given up after 60 s"),
            ),
            (vec!["node-b"], Action::Restart, None),
            (vec![], Action::Restart, None),
        ] {
            place.budgets = Some(Ok(vec![budget(&nodes)]));
            let found = findings(&action, &place);
            assert_eq!(found.len(), usize::from(expected.is_some()), "{nodes:?}: {found:?}");
            assert!(found.iter().all(|f| expected.is_some_and(|part| f.text.contains(part))), "{found:?}");
        }
        place.budgets = Some(Err("no route".to_owned()));
        let found = findings(&Action::Restart, &place);
        assert_eq!((found[0].severity, found[0].rule), (Severity::Note, "budgets-not-checked"));
        for (replicas, expected) in [(2, true), (3, false), (4, false)] {
            assert_eq!(drains(&Action::Scale { replicas }, &place), expected, "{replicas}");
        }
    }

    #[test]
    fn a_drain_that_is_held_is_said_before_the_next_one_begins() {
        let mut place = of_deployment(json!({"replicas": 3}));
        let said = "Drain not completed yet:\n* Pod web/shop: cannot evict pod as it would violate the pod's disruption budget. The disruption budget shop needs 1 healthy pods and has 1 currently";
        let draining = |message: &str| {
            let deleting =
                json!({"type": "Deleting", "status": "True", "reason": "DrainingNode", "message": message});
            json!({"kind": "Machine", "metadata": {"name": "m"}, "status": {"conditions": [deleting]}})
        };
        for (message, action, expected) in [
            (said, Action::Restart, true),
            (said, Action::Scale { replicas: 1 }, true),
            (said, Action::Delete, true),
            (said, Action::Pause, false),
            (
                "Drain not completed yet:\n* Pod web/shop: deletionTimestamp set, but still not removed",
                Action::Restart,
                false,
            ),
        ] {
            place.machines = Some(vec![draining(message)]);
            let found = drain_is_held(&action, &place);
            let held = found.as_ref().filter(|f| f.rule == "drain-held");
            assert_eq!(held.is_some(), expected, "{action:?} {message}");
            assert!(
                held.is_none_or(|f| f.text.contains("Machine m") && f.text.contains("budget shop")),
                "{held:?}"
            );
        }
    }
}
