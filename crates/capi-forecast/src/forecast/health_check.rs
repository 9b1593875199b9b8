//! The plan of a MachineHealthCheck from outside, and what it does once a remediation is asked for, so that the owner of
//! the Machine can be planned as it will be. Must not decide it, nor plan the owner.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::evidence::About;
use super::next_steps;
use super::paused::paused;
use super::{Held, Look, ObjectPlan};
use capi_rules::observe;
use capi_rules::observe::dump::Dump;
use capi_rules::plan::Plan;
use capi_rules::plan::machine_health_check::{self as planned, RemediationRequest, Remediator};
use capi_rules::status::conditions::setter;
use capi_rules::status::contract::reference_to;
use capi_rules::status::machine_health_check::{Observed, Target, TargetNode, is_target, judge};
use capi_types::condition::{Conditioned as _, find};
use capi_types::key::ObjectKey;
use capi_types::machine_health_check::MachineHealthCheck;
use capi_types::names::CORE_GROUP;
use capstan_base::time::Timestamp;

const KIND: &str = "MachineHealthCheck";

pub(super) fn plan(
    dump: &Dump,
    key: &ObjectKey,
    object: &Arc<MachineHealthCheck>,
    now: Timestamp,
) -> ObjectPlan {
    let cluster = object.spec.cluster_name.as_str();
    let mut plan = ObjectPlan::new(KIND, key, cluster);
    plan.within.push(format!("Cluster/{cluster}"));
    let about = About { dump, group: CORE_GROUP, kind: KIND, key, cluster };
    let Some(of) = dump.clusters.get(&ObjectKey::new(&key.namespace, cluster)) else {
        return plan.unknown(&super::cluster::missing(cluster));
    };
    if let Some(paused) = paused(about, object.as_ref(), Some(of.as_ref()), &plan) {
        return paused;
    }
    let decided = match dump.check(key, object) {
        Some(judged) if judged.connected || !observe::follows_nodes(of) => {
            let outside = outside(dump, object);
            planned::plan(&planned::Observed { judged, outside }, now).1
        }
        _ => {
            let unread = "Nodes of the workload cluster were not asked: Machines are as healthy as their conditions say";
            plan.assumptions.push(unread.to_owned());
            planned::as_reported(object)
        }
    };
    filled(plan, &about, &decided, now)
}

fn filled(mut plan: ObjectPlan, about: &About<'_>, decided: &Plan, now: Timestamp) -> ObjectPlan {
    plan.next = next_steps(&decided.steps, &|_| None);
    plan.blockers = decided.blockers.iter().map(|b| Held::of(b, |e| about.seen(e))).collect();
    plan.next_look = Look::of(decided, now);
    plan.judged()
}

/// The template and the requests that are here.
fn outside(dump: &Dump, check: &MachineHealthCheck) -> Remediator {
    let Some((template, request)) = planned::remediation_kinds(check) else { return Remediator::default() };
    let found = dump.raw(&template.gvk.group, &template.gvk.kind, &template.key).cloned();
    let here =
        dump.all(&request.group, &request.kind).filter(|(key, _)| key.namespace == template.key.namespace);
    let request = |(key, value): (&ObjectKey, &serde_json::Value)| {
        let is_leaving = value["metadata"]["deletionTimestamp"].is_string();
        (key.name.clone(), RemediationRequest { object: reference_to(value), is_leaving })
    };
    Remediator { template: found, requests: here.map(request).collect::<BTreeMap<_, _>>() }
}

/// Marks the Machine in the dump as its checks will. Nothing is marked while remediation is not allowed, nor by a
/// check that asks an outside remediator.
pub fn mark_unhealthy(dump: &mut Dump, key: &ObjectKey, now: Timestamp) {
    let Some(machine) = dump.machines.get(key).cloned() else { return };
    let Some(cluster) = dump.clusters.get(&ObjectKey::new(&key.namespace, &machine.spec.cluster_name)) else {
        return;
    };
    let mut after = machine.as_ref().clone();
    for check in dump.checks.values().filter(|check| is_target(check, &machine) && asks_owners(check)) {
        let mut alone = check.as_ref().clone();
        // Whether its limits allow it is stored.
        alone.spec.remediation = None;
        let observed = Observed {
            check: alone,
            cluster: cluster.as_ref().clone(),
            // Without a Node: the annotation alone decides, and no Node need be known for it.
            targets: vec![Target { machine: Arc::clone(&machine), node: TargetNode::None }],
            connected: true,
            external: None,
        };
        for condition in judge(&observed, now).marks.into_iter().flat_map(|mark| mark.conditions) {
            setter::set(after.conditions_mut(), condition, machine.metadata.generation, now);
        }
    }
    if let Ok(value) = serde_json::to_value(&after) {
        dump.replace(value);
    }
}

fn asks_owners(check: &MachineHealthCheck) -> bool {
    let is_outside = check.spec.remediation.as_ref().is_some_and(|r| r.template_ref.is_some());
    let is_refused = find(check.conditions(), "RemediationAllowed").is_some_and(|c| c.status == "False");
    !is_outside && !is_refused
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::forecast::{State, forecast};
    use capi_rules::observe::dump::document::{Document, Origin};
    use capstan_base::time::{parse_rfc3339, rfc3339};

    fn now() -> Timestamp {
        parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment")
    }

    fn ago(seconds: i64) -> String {
        rfc3339(now() - chrono::TimeDelta::seconds(seconds))
    }

    fn said(type_: &str, status: &str) -> Value {
        json!({"type": type_, "status": status, "reason": "R", "message": "held", "lastTransitionTime": ago(86_400)})
    }

    fn object(kind: &str, name: &str, spec: Value, status: Value) -> Value {
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind, "spec": spec, "status": status,
            "metadata": {"name": name, "namespace": "ns", "uid": name, "labels": {"cluster.x-k8s.io/cluster-name": "c"},
                "ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "c", "uid": "c"}]}})
    }

    fn planned(conditions: &Value, silent_s: Option<i64>) -> ObjectPlan {
        let is_up = json!({"conditions": [said("ControlPlaneInitialized", "True"), said("InfrastructureReady", "True")]});
        let machine = json!({"clusterName": "c", "bootstrap": {}, "infrastructureRef": {"apiGroup": "i", "kind": "H", "name": "m"}});
        let check = json!({"clusterName": "c", "selector": {"matchLabels": {"cluster.x-k8s.io/cluster-name": "c"}}, "checks": {"unhealthyNodeConditions": [
            {"type": "Ready", "status": "Unknown", "timeoutSeconds": 300}]}});
        let mut all = vec![
            object("Cluster", "c", json!({}), is_up),
            object("Machine", "m", machine, json!({"nodeRef": {"name": "n"}})),
            object("MachineHealthCheck", "mhc", check, json!({"conditions": conditions})),
        ];
        all.extend(silent_s.map(|silent_s| {
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "annotations": {
                    "cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/cluster-namespace": "ns"}},
                "status": {"conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": ago(silent_s)}]}})
        }));
        let document = |value| Document { value, workload: None, origin: Origin::default() };
        let dump = Dump::new(all.into_iter().map(document).collect());
        let mut plans = forecast(&dump, now()).objects;
        plans.retain(|plan| plan.kind == KIND);
        plans.pop().expect("a plan")
    }

    #[test]
    fn a_check_is_planned_with_its_nodes_or_by_its_own_account() {
        let plan = planned(&json!([]), Some(301));
        assert_eq!(plan.state, State::Acting);
        assert_eq!(plan.next[0].does.to_string(), "mark Machine ns/m as unhealthy");
        assert_eq!(planned(&json!([]), Some(100)).next_look.map(|look| look.in_seconds), Some(201));
        let unasked = planned(&json!([]), None);
        assert_eq!((unasked.state, unasked.assumptions.len()), (State::Settled, 1));
        let held = planned(&json!([said("RemediationAllowed", "False")]), None);
        assert_eq!((held.state, held.blockers[0].sentence.as_str()), (State::Blocked, "held"));
        assert_eq!(held.blockers[0].evidence[0].condition.as_deref(), Some("RemediationAllowed"));
    }
}
