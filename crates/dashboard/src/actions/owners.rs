//! Who else sets what an action changes: an autoscaler, whoever a mark names, and the tools that apply objects from a repository or a chart.
//! Pure rules over the object itself. Must not judge what the change breaks.
//!
//! Sources: cluster-api `util/annotations/helpers.go` (`ReplicasManagedByExternalAutoscaler`), v1.14.2; autoscaler
//! `cluster-autoscaler/cloudprovider/clusterapi/clusterapi_utils.go` (`parseScalingBounds`), 1.34; argo-cd `util/argo/resource_tracking.go`,
//! v3.1, and its field manager; fluxcd/kustomize-controller and helm-controller, v1.6 and v1.3, for their labels and field managers; helm
//! `pkg/action/validate.go`, v3.18.

use serde_json::Value;

use super::finding;
use crate::operations::{Finding, Severity};
use capi_types::names::annotation;
use capstan_base::text::sanitize_line;

use super::Action;

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

fn annotated<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object["metadata"]["annotations"][name].as_str()
}

/// Outside its bounds the autoscaler leaves a pool alone, within them it sets the number.
fn autoscaled(object: &Value, replicas: i64) -> Option<Finding> {
    let bound = |name| annotated(object, name).and_then(|text| text.trim().parse::<i64>().ok());
    let (least, most) = (bound(annotation::AUTOSCALER_MIN_SIZE)?, bound(annotation::AUTOSCALER_MAX_SIZE)?);
    let text = if (least..=most).contains(&replicas) {
        format!("the autoscaler sets this number, from {least} to {most}: it may change it again")
    } else {
        format!(
            "{replicas} is outside the bounds of the autoscaler, {least} to {most}: it leaves this alone until the number is within them"
        )
    };
    finding(Severity::Warning, "autoscaled", text)
}

/// Any value but `false` counts.
fn managed_elsewhere(object: &Value) -> Option<Finding> {
    let by = annotated(object, annotation::REPLICAS_MANAGED_BY).filter(|by| *by != "false")?;
    let by = if by.is_empty() { "somebody else".to_owned() } else { sanitize_line(by) };
    finding(
        Severity::Warning,
        "replicas-managed-by",
        format!("its number of replicas is set by {by}, which may put it back"),
    )
}

/// A tool that applies objects, by the name of its field manager.
struct Tool {
    name: &'static str,
    manager: &'static str,
    /// The mark, as a label or an annotation, that says from what the object is applied.
    origin: &'static str,
}

const TOOLS: [Tool; 4] = [
    Tool { name: "Argo CD", manager: "argocd-controller", origin: "argocd.argoproj.io/tracking-id" },
    Tool { name: "Flux", manager: "kustomize-controller", origin: "kustomize.toolkit.fluxcd.io/name" },
    Tool { name: "Flux", manager: "helm-controller", origin: "helm.toolkit.fluxcd.io/name" },
    Tool { name: "Helm", manager: "helm", origin: "meta.helm.sh/release-name" },
];

/// Which tool owns the first field of a patch that one owns.
fn applied_by(object: &Value, patch: &Value) -> Option<Finding> {
    let field = leaves(patch, Vec::new()).into_iter().find_map(|path| Some((owner(object, &path)?, path)));
    let Some((tool, path)) = field else { return tracked(object) };
    let (name, from, path) = (tool.name, from(object, tool), path.join("."));
    // Helm writes when somebody upgrades the release, the others by themselves.
    let then =
        if name == "Helm" { "the next upgrade of the release puts it back" } else { "it will be put back" };
    let text = format!("{name} owns {path} here{from}: {then}; change it where {name} takes it from");
    finding(Severity::Warning, "applied-by", text)
}

/// Without a record of fields a mark alone says who applies the object.
fn tracked(object: &Value) -> Option<Finding> {
    if object["metadata"]["managedFields"].as_array().is_some_and(|entries| !entries.is_empty()) {
        return None;
    }
    let tool = TOOLS.iter().find(|tool| !mark(object, tool.origin).is_empty())?;
    let text = format!("{} applies this object{}: the change may be put back", tool.name, from(object, tool));
    finding(Severity::Note, "applied-by", text)
}

fn mark<'a>(object: &'a Value, name: &str) -> &'a str {
    let of = |place: &str| object["metadata"][place][name].as_str();
    of("annotations").or_else(|| of("labels")).unwrap_or_default()
}

/// Such as ` (fleet)`. The mark of Argo CD has the name of the application in front.
fn from(object: &Value, tool: &Tool) -> String {
    let origin = mark(object, tool.origin);
    let origin = origin.split(':').next().unwrap_or_default();
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

/// The tool among the field managers of a field.
fn owner(object: &Value, path: &[String]) -> Option<&'static Tool> {
    let entries = object["metadata"]["managedFields"].as_array()?;
    let has = |entry: &&Value| {
        let field = path.iter().fold(&entry["fieldsV1"], |at, step| &at[format!("f:{step}")]);
        !field.is_null()
    };
    let mut managers = entries.iter().filter(has).filter_map(|entry| entry["manager"].as_str());
    managers.find_map(|manager| TOOLS.iter().find(|tool| tool.manager == manager))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
