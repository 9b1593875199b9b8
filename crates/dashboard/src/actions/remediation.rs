//! Who acts on a Machine whose remediation is asked for: a MachineHealthCheck has to select it, and may be held by its
//! limits. Pure; what the owner then does is its plan (`outlook`).

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Action;
use super::related::Related;
use crate::operations::{Finding, Severity};
use capi_rules::status::machine_health_check::is_target;
use capi_types::condition::{Conditioned as _, find};
use capi_types::machine::Machine;
use capi_types::machine_health_check::MachineHealthCheck;
use capi_types::names::annotation;

/// Without a check that selects the Machine, nothing follows from the mark.
pub(super) fn who_acts(action: &Action, related: &Related) -> Option<Finding> {
    if *action != Action::Remediate {
        return None;
    }
    let excepted = [annotation::SKIP_REMEDIATION, annotation::PAUSED];
    let annotations = &related.object["metadata"]["annotations"];
    if let Some(name) = excepted.into_iter().find(|name| !annotations[*name].is_null()) {
        let text = format!(
            "its annotation {name} excepts it from health checks: nothing happens until it is taken away"
        );
        return warning("excepted-from-health-checks", text);
    }
    let machine: Machine = typed(&related.object)?;
    let Some(checks) = &related.health_checks else {
        let text = "MachineHealthChecks could not be read, so it is not known whether one selects it";
        return warning("not-checked", text.to_owned());
    };
    let mut checks: Vec<MachineHealthCheck> = checks.iter().filter_map(typed).collect();
    checks.retain(|check| is_target(check, &machine));
    let Some(check) = checks.first() else {
        let text = "no MachineHealthCheck selects it: nothing happens until one does";
        return warning("no-health-check", text.to_owned());
    };
    let name = check.metadata.name.as_deref().unwrap_or_default();
    if let Some(refused) = find(check.conditions(), "RemediationAllowed").filter(|c| c.status == "False") {
        let text = format!("MachineHealthCheck {name} does not remediate now: {}", refused.message);
        return warning("remediation-not-allowed", text);
    }
    let outside = check.spec.remediation.as_ref().and_then(|remediation| remediation.template_ref.as_ref());
    let text = match outside {
        Some(template) => {
            // Upstream names the kind of what it makes from a template so.
            let kind = template.kind.strip_suffix("Template").unwrap_or(&template.kind);
            format!(
                "MachineHealthCheck {name} makes a {kind} for it; whoever serves that kind acts, not its owner"
            )
        }
        None => format!("MachineHealthCheck {name} marks it, at most 15 s later; then its owner decides"),
    };
    Some(Finding { severity: Severity::Note, rule: "health-check", text })
}

fn warning(rule: &'static str, text: String) -> Option<Finding> {
    Some(Finding { severity: Severity::Warning, rule, text })
}

fn typed<T: DeserializeOwned>(value: &Value) -> Option<T> {
    serde_json::from_value(value.clone()).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn machine(annotations: &Value) -> Value {
        json!({"kind": "Machine", "metadata": {"name": "m", "namespace": "ns", "annotations": annotations,
                "labels": {"cluster.x-k8s.io/cluster-name": "c", "pool": "a"}},
            "spec": {"clusterName": "c", "bootstrap": {}, "infrastructureRef": {"apiGroup": "i", "kind": "H", "name": "m"}}})
    }

    fn check(pool: &str, remediation: &Value, conditions: &Value) -> Value {
        json!({"kind": "MachineHealthCheck", "metadata": {"name": "mhc", "namespace": "ns"},
            "spec": {"clusterName": "c", "selector": {"matchLabels": {"pool": pool}}, "remediation": remediation},
            "status": {"conditions": conditions}})
    }

    #[test]
    fn a_mark_without_a_check_is_warned_of() {
        let (none, plain) = (json!(null), machine(&json!({})));
        let refused = json!([{"type": "RemediationAllowed", "status": "False", "reason": "TooManyUnhealthy", "message": "no",
            "lastTransitionTime": "2026-11-20T10:00:00Z"}]);
        let vet = json!({"templateRef": {"apiVersion": "vet.io/v1", "kind": "CureTemplate", "name": "t"}});
        let skipped = machine(&json!({"cluster.x-k8s.io/skip-remediation": ""}));
        for (object, checks, rule, part) in [
            (&plain, None, "not-checked", "could not be read"),
            (&plain, Some(vec![]), "no-health-check", "nothing happens"),
            (&plain, Some(vec![check("b", &none, &none)]), "no-health-check", "nothing happens"),
            (
                &plain,
                Some(vec![check("a", &none, &refused)]),
                "remediation-not-allowed",
                "does not remediate now: no",
            ),
            (&plain, Some(vec![check("a", &vet, &json!([]))]), "health-check", "makes a Cure for it"),
            (&plain, Some(vec![check("a", &none, &json!([]))]), "health-check", "then its owner decides"),
            (
                &skipped,
                Some(vec![check("a", &none, &none)]),
                "excepted-from-health-checks",
                "skip-remediation",
            ),
        ] {
            let related = Related { health_checks: checks, ..Related::alone(object.clone()) };
            let found = who_acts(&Action::Remediate, &related).expect("a finding");
            assert_eq!(found.rule, rule, "{}", found.text);
            assert!(found.text.contains(part), "{}", found.text);
            assert_eq!(who_acts(&Action::Delete, &related), None);
        }
    }
}
