//! Who else sets what an action changes: an autoscaler, whoever a mark names, and the tools that apply objects from a repository or a chart.
//! Pure rules over the object itself. Owns the sentences; how they are recognised is `outside_owners`. Must not judge what the change
//! breaks.

use serde_json::Value;

use super::{finding, topology};
use crate::operations::{Finding, Severity};
use capi_rules::status::outside_owners::{Marks as _, ScalingBounds, Tool, replicas_managed_by};
use capi_types::names::label;
use capstan_base::text::sanitize_line;

use super::Action;

/// Rules whose findings say that the change belongs elsewhere: there it is made with a patch.
const ELSEWHERE: [&str; 4] = ["autoscaled", "replicas-managed-by", "applied-by", topology::OWNED];

/// Is somebody else among what speaks against it?
pub(super) fn belongs_elsewhere(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| ELSEWHERE.contains(&finding.rule))
}

/// Who sets the fields that a merge patch changes.
pub(super) fn findings(action: &Action, object: &Value, patch: Option<&Value>) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Action::Scale { replicas } = action {
        found.extend(autoscaled(object, i64::from(*replicas)));
        found.extend(managed_elsewhere(object));
    }
    found.extend(patch.and_then(|patch| applied_by(object, patch)));
    found
}

/// Outside its bounds the autoscaler leaves a pool alone, within them it sets the number.
fn autoscaled(object: &Value, replicas: i64) -> Option<Finding> {
    let ScalingBounds { least, most } = ScalingBounds::of(object)?;
    let text = if (i64::from(least)..=i64::from(most)).contains(&replicas) {
        format!("the autoscaler sets this number, from {least} to {most}: it may change it again")
    } else {
        format!(
            "{replicas} is outside the bounds of the autoscaler, {least} to {most}: it leaves this alone until the number is within them"
        )
    };
    finding(Severity::Warning, "autoscaled", text)
}

fn managed_elsewhere(object: &Value) -> Option<Finding> {
    let by = replicas_managed_by(object)?;
    let by = if by.is_empty() { "somebody else".to_owned() } else { sanitize_line(by) };
    finding(
        Severity::Warning,
        "replicas-managed-by",
        format!("its number of replicas is set by {by}, which may put it back"),
    )
}

/// Which tool owns the first field of a patch that one owns.
fn applied_by(object: &Value, patch: &Value) -> Option<Finding> {
    let paths = leaves(patch, Vec::new());
    let field = paths.into_iter().find_map(|path| Some((Tool::of_field(object, &path)?, path)));
    let Some((tool, path)) = field else { return tracked(object) };
    let (name, from, path) = (tool.name(), from(object, tool), path.join("."));
    // Helm writes when somebody upgrades the release, the others by themselves.
    let then = if tool == Tool::Helm {
        "the next upgrade of the release puts it back"
    } else {
        "it will be put back"
    };
    let text = format!("{name} owns {path} here{from}: {then}; change it where {name} takes it from");
    finding(Severity::Warning, "applied-by", text)
}

/// Without a record of fields a mark alone says who applies the object.
fn tracked(object: &Value) -> Option<Finding> {
    if object["metadata"]["managedFields"].as_array().is_some_and(|entries| !entries.is_empty()) {
        return None;
    }
    // What a topology makes has the marks of its Cluster's labels, and belongs to the topology.
    let tool = Tool::marked_on(object).filter(|_| object.label(label::TOPOLOGY_OWNED).is_none())?;
    let text =
        format!("{} applies this object{}: the change may be put back", tool.name(), from(object, tool));
    // The mark does not say which fields the tool owns, so that the change may well stay.
    finding(Severity::Note, "applied-by", text)
}

/// Such as ` (fleet)`.
fn from(object: &Value, tool: Tool) -> String {
    let origin = tool.origin(object);
    if origin.is_empty() { String::new() } else { format!(" ({})", sanitize_line(origin)) }
}

/// The paths of all values of a merge patch.
fn leaves(patch: &Value, path: Vec<String>) -> Vec<Vec<String>> {
    match patch.as_object() {
        Some(fields) if !fields.is_empty() => {
            let below = |(name, value): (&String, &Value)| {
                leaves(value, [path.as_slice(), std::slice::from_ref(name)].concat())
            };
            fields.iter().flat_map(below).collect()
        }
        _ => vec![path],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use capi_types::names::annotation;

    fn said(object: &Value, replicas: i32) -> Vec<String> {
        let patch = json!({"spec": {"replicas": replicas}});
        findings(&Action::Scale { replicas }, object, Some(&patch)).into_iter().map(|f| f.text).collect()
    }

    #[test]
    fn an_autoscaler_sets_the_number_within_its_bounds_and_leaves_it_alone_outside() {
        let pool = |least: &str, most: &str| json!({"metadata": {"annotations": {annotation::AUTOSCALER_MIN_SIZE: least, annotation::AUTOSCALER_MAX_SIZE: most}}});
        let within = "the autoscaler sets this number, from 2 to 4: it may change it again";
        let outside = |n: i32| {
            format!(
                "{n} is outside the bounds of the autoscaler, 2 to 4: it leaves this alone until the number is within them"
            )
        };
        assert_eq!(said(&pool("2", "4"), 1), [outside(1)]);
        assert_eq!(said(&pool("2", "4"), 2), [within]);
        assert_eq!(said(&pool("2", "4"), 4), [within]);
        assert_eq!(said(&pool("2", "4"), 6), [outside(6)]);
        assert_eq!(said(&pool("two", "4"), 6), Vec::<String>::new());
        assert_eq!(said(&json!({"metadata": {}}), 6), Vec::<String>::new());
    }

    #[test]
    fn replicas_that_are_set_elsewhere_are_named() {
        let pool = |by: &str| json!({"metadata": {"annotations": {annotation::REPLICAS_MANAGED_BY: by}}});
        assert_eq!(
            said(&pool("external-autoscaler"), 4),
            ["its number of replicas is set by external-autoscaler, which may put it back"]
        );
        assert_eq!(
            said(&pool(""), 4),
            ["its number of replicas is set by somebody else, which may put it back"]
        );
        assert_eq!(said(&pool("false"), 4), Vec::<String>::new());
        let other = findings(&Action::Pause, &pool("x"), None);
        assert!(other.is_empty(), "{other:?}");
    }

    #[test]
    fn a_tool_owns_a_field_by_its_manager_and_says_from_what() {
        let entry = |manager: &str, fields: Value| json!({"manager": manager, "operation": "Apply", "fieldsV1": fields});
        let replicas = || json!({"f:spec": {"f:replicas": {}}});
        let object = |manager: &str, fields: Value, metadata: Value| {
            let mut object = json!({"metadata": metadata});
            object["metadata"]["managedFields"] =
                json!([entry("capi-machinedeployment", replicas()), entry(manager, fields)]);
            object
        };
        let argo = json!({"annotations": {"argocd.argoproj.io/tracking-id": "fleet:cluster.x-k8s.io/MachineDeployment:default/md"}});
        let flux = json!({"labels": {"kustomize.toolkit.fluxcd.io/name": "pools"}});
        for (manager, fields, metadata, expected) in [
            (
                "argocd-controller",
                replicas(),
                argo.clone(),
                Some(
                    "Argo CD owns spec.replicas here (fleet): it will be put back; change it where Argo CD takes it from",
                ),
            ),
            ("argocd-controller", json!({"f:spec": {"f:template": {}}}), argo.clone(), None),
            (
                "kustomize-controller",
                replicas(),
                flux,
                Some(
                    "Flux owns spec.replicas here (pools): it will be put back; change it where Flux takes it from",
                ),
            ),
            (
                "helm",
                replicas(),
                json!({}),
                Some(
                    "Helm owns spec.replicas here: the next upgrade of the release puts it back; change it where Helm takes it from",
                ),
            ),
            ("kubectl", replicas(), argo.clone(), None),
        ] {
            assert_eq!(said(&object(manager, fields, metadata), 4), Vec::from_iter(expected), "{manager}");
        }
        let mut marked = json!({"metadata": argo});
        assert_eq!(said(&marked, 4), ["Argo CD applies this object (fleet): the change may be put back"]);
        marked["metadata"]["annotations"] = Value::Null;
        assert_eq!(said(&marked, 4), Vec::<String>::new());
    }
}
