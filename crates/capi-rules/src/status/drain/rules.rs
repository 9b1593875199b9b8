//! Which MachineDrainRules match a Machine, and the behaviour of the first that matches a pod.
//! Source: `drain.go` (`getMatchingMachineDrainRules`), `filters.go` (`machineDrainRulesFilter`),
//! `core/webhooks/admission/machinedrainrules.go`, v1.14.2.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::Fate;
use capi_types::cluster::Cluster;
use capi_types::machine::Machine;
use capi_types::machine_drain_rule::{MachineDrainRule, MachineDrainRuleSpec};
use k8s_machinery::selector::{check, selects};

/// The rules for this Machine, by name.
///
/// # Errors
/// A selector that cannot be read, in any rule: also in one that would not match this Machine.
pub(super) fn applicable<'a>(
    rules: &'a [Arc<MachineDrainRule>],
    machine: &Machine,
    cluster: &Cluster,
) -> Result<Vec<&'a MachineDrainRule>, String> {
    let mut found: Vec<&MachineDrainRule> = Vec::new();
    for rule in rules {
        for selector in selectors(&rule.spec) {
            // Every rule is checked, as upstream: which one applies must not hide a broken one.
            check(selector)
                .map_err(|why| format!("MachineDrainRule {} has an invalid selector: {why}", name(rule)))?;
        }
        let selectors = &rule.spec.machines;
        let speaks = selectors.is_empty()
            || selectors.iter().any(|s| {
                selects(s.selector.as_ref(), machine.metadata.labels.as_ref())
                    && selects(s.cluster_selector.as_ref(), cluster.metadata.labels.as_ref())
            });
        if speaks {
            found.push(rule);
        }
    }
    // The first that matches decides, so the order has to be one that people can choose.
    found.sort_by_key(|rule| name(rule));
    Ok(found)
}

fn selectors(spec: &MachineDrainRuleSpec) -> impl Iterator<Item = &LabelSelector> {
    let machines = spec.machines.iter().flat_map(|s| [&s.selector, &s.cluster_selector]);
    let pods = spec.pods.iter().flat_map(|s| [&s.selector, &s.namespace_selector]);
    machines.chain(pods).flatten()
}

fn name(rule: &MachineDrainRule) -> &str {
    rule.metadata.name.as_deref().unwrap_or_default()
}

/// The behaviour of the first rule that matches the pod; without one it is evicted in order 0.
///
/// # Errors
/// Its behaviour is unknown.
pub(super) fn fate(
    rules: &[&MachineDrainRule],
    pod: &Pod,
    namespace: &BTreeMap<String, String>,
) -> Result<Fate, String> {
    let Some(rule) = rules.iter().find(|rule| covers(rule, pod, namespace)) else {
        return Ok(Fate::Evict { order: 0 });
    };
    let drain = &rule.spec.drain;
    match drain.behavior.as_str() {
        "Drain" => Ok(Fate::Evict { order: drain.order.unwrap_or(0) }),
        "Skip" => Ok(Fate::Skip),
        "WaitCompleted" => Ok(Fate::WaitForCompletion),
        other => Err(format!("MachineDrainRule {:?} has unknown spec.drain.behavior: {other:?}", name(rule))),
    }
}

fn covers(rule: &MachineDrainRule, pod: &Pod, namespace: &BTreeMap<String, String>) -> bool {
    let selectors = &rule.spec.pods;
    selectors.is_empty()
        || selectors.iter().any(|s| {
            selects(s.selector.as_ref(), pod.metadata.labels.as_ref())
                && selects(s.namespace_selector.as_ref(), Some(namespace))
        })
}
