//! Who besides controllers of Cluster API sets fields of an object: an autoscaler, whoever a mark names, and the tools that apply
//! objects from a repository or a chart. Owns how they are recognised; must not know what is done about it.
//!
//! Sources: cluster-api `util/annotations/helpers.go` (`ReplicasManagedByExternalAutoscaler`), v1.14.2; autoscaler
//! `cluster-autoscaler/cloudprovider/clusterapi/clusterapi_utils.go` (`parseScalingBounds`), 1.34; argo-cd `util/argo/resource_tracking.go`,
//! v3.1, and its field manager; fluxcd/kustomize-controller and helm-controller, v1.6 and v1.3, for their labels and field managers; helm
//! `pkg/action/validate.go`, v3.18.

use std::fmt;

use serde_json::Value;

use capi_types::names::annotation;

/// The annotations and labels of an object, in whatever form it was read.
pub trait Marks {
    /// The annotation's value.
    fn annotation(&self, name: &str) -> Option<&str>;
    /// The label's value.
    fn label(&self, name: &str) -> Option<&str>;
}

/// A whole object.
impl Marks for Value {
    fn annotation(&self, name: &str) -> Option<&str> {
        self["metadata"]["annotations"][name].as_str()
    }

    fn label(&self, name: &str) -> Option<&str> {
        self["metadata"]["labels"][name].as_str()
    }
}

/// How many replicas an autoscaler gives a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScalingBounds {
    /// Not fewer.
    pub least: u32,
    /// Not more.
    pub most: u32,
}

impl ScalingBounds {
    /// Both annotations, or the autoscaler leaves the object alone.
    pub fn of(marks: &impl Marks) -> Option<Self> {
        let bound = |name| marks.annotation(name).and_then(|text| text.trim().parse().ok());
        Some(Self {
            least: bound(annotation::AUTOSCALER_MIN_SIZE)?,
            most: bound(annotation::AUTOSCALER_MAX_SIZE)?,
        })
    }
}

/// Such as `2-10 auto`, for a place beside the number.
impl fmt::Display for ScalingBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{} auto", self.least, self.most)
    }
}

/// Who sets the number of replicas by the object's own word, which may be empty. Any value but `false` counts.
pub fn replicas_managed_by(marks: &impl Marks) -> Option<&str> {
    marks.annotation(annotation::REPLICAS_MANAGED_BY).filter(|by| *by != "false")
}

/// A tool that applies objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// From a repository, by itself.
    ArgoCd,
    /// From a repository or a chart, by itself.
    Flux,
    /// From a chart, when a person upgrades its release.
    Helm,
}

/// The field manager of a tool, where it has one for this way of working, and the annotation or label that says from what an
/// object is applied.
struct Way {
    tool: Tool,
    manager: &'static str,
    origin: &'static str,
}

const WAYS: [Way; 5] = [
    Way { tool: Tool::ArgoCd, manager: "argocd-controller", origin: "argocd.argoproj.io/tracking-id" },
    // Where tracking by label is chosen, with the label that its documentation proposes.
    Way { tool: Tool::ArgoCd, manager: "argocd-controller", origin: "argocd.argoproj.io/instance" },
    Way { tool: Tool::Flux, manager: "kustomize-controller", origin: "kustomize.toolkit.fluxcd.io/name" },
    Way { tool: Tool::Flux, manager: "helm-controller", origin: "helm.toolkit.fluxcd.io/name" },
    // Last: Flux and Argo CD leave the marks of a chart's release on what they apply.
    Way { tool: Tool::Helm, manager: "helm", origin: "meta.helm.sh/release-name" },
];

fn mark<'a>(marks: &'a impl Marks, name: &str) -> &'a str {
    marks.annotation(name).or_else(|| marks.label(name)).unwrap_or_default()
}

impl Tool {
    /// As people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::ArgoCd => "Argo CD",
            Self::Flux => "Flux",
            Self::Helm => "Helm",
        }
    }

    /// The tool that writes under this field manager.
    pub fn of_manager(manager: &str) -> Option<Self> {
        WAYS.iter().find(|way| way.manager == manager).map(|way| way.tool)
    }

    /// The tool whose mark the object has: without a record of fields it alone says who applies the object.
    pub fn marked_on(marks: &impl Marks) -> Option<Self> {
        WAYS.iter().find(|way| !mark(marks, way.origin).is_empty()).map(|way| way.tool)
    }

    /// The tool among the field managers of a field, whose path begins at the object. Items of lists have no names and are left out.
    pub fn of_field(object: &Value, path: &[String]) -> Option<Self> {
        let entries = object["metadata"]["managedFields"].as_array()?;
        let has = |entry: &&Value| {
            let field = path.iter().fold(&entry["fieldsV1"], |at, step| &at[format!("f:{step}")]);
            !field.is_null()
        };
        entries.iter().filter(has).find_map(|entry| Self::of_manager(entry["manager"].as_str()?))
    }

    /// The application, release or set that the object comes from; empty where no mark says. Text of a cluster.
    pub fn origin(self, marks: &impl Marks) -> &str {
        let own = WAYS.iter().filter(|way| way.tool == self);
        let found = own.map(|way| mark(marks, way.origin)).find(|origin| !origin.is_empty());
        // The mark of Argo CD has the name of the application in front of the object's own.
        found.unwrap_or_default().split(':').next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(annotations: &Value, labels: &Value) -> Value {
        json!({"metadata": {"annotations": annotations, "labels": labels}})
    }

    #[test]
    fn both_bounds_make_an_autoscaled_pool() {
        let pool = |least: &str, most: &str| {
            let named =
                json!({annotation::AUTOSCALER_MIN_SIZE: least, annotation::AUTOSCALER_MAX_SIZE: most});
            ScalingBounds::of(&object(&named, &Value::Null)).map(|bounds| bounds.to_string())
        };
        assert_eq!(pool("2", "10").as_deref(), Some("2-10 auto"));
        assert_eq!(pool(" 0", "3 ").as_deref(), Some("0-3 auto"));
        for (least, most) in [("two", "4"), ("-1", "4"), ("2", ""), ("2", "99999999999")] {
            assert_eq!(pool(least, most), None, "{least} {most}");
        }
        let one = json!({annotation::AUTOSCALER_MIN_SIZE: "2"});
        assert_eq!(ScalingBounds::of(&object(&one, &Value::Null)), None);
    }

    #[test]
    fn a_tool_is_known_by_its_marks_and_says_from_what() {
        let tracked = json!({"argocd.argoproj.io/tracking-id": "fleet:cluster.x-k8s.io/Cluster:default/a"});
        let of_flux = json!({"kustomize.toolkit.fluxcd.io/name": "pools"});
        let of_chart = json!({"meta.helm.sh/release-name": "shop"});
        let by_flux = json!({"helm.toolkit.fluxcd.io/name": "shop-release"});
        for (annotations, labels, expected) in [
            (&tracked, &Value::Null, Some(("Argo CD", "fleet"))),
            (&Value::Null, &json!({"argocd.argoproj.io/instance": "fleet"}), Some(("Argo CD", "fleet"))),
            (&Value::Null, &of_flux, Some(("Flux", "pools"))),
            (&of_chart, &Value::Null, Some(("Helm", "shop"))),
            // What a chart left on an object that Flux applies.
            (&of_chart, &by_flux, Some(("Flux", "shop-release"))),
            (&json!({"note": "x"}), &json!({"app.kubernetes.io/instance": "x"}), None),
        ] {
            let object = object(annotations, labels);
            let found = Tool::marked_on(&object).map(|tool| (tool.name(), tool.origin(&object)));
            assert_eq!(found, expected, "{object}");
        }
    }

    #[test]
    fn a_field_is_owned_by_the_tool_whose_manager_has_it() {
        let entry = |manager: &str, fields: Value| json!({"manager": manager, "fieldsV1": fields});
        let object = json!({"metadata": {"managedFields": [
            entry("kubectl", json!({"f:spec": {"f:replicas": {}}})),
            entry("argocd-controller", json!({"f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:version": {}}}}})),
        ]}});
        let of =
            |path: &str| Tool::of_field(&object, &path.split('.').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(of("spec.replicas"), Some(Tool::ArgoCd));
        assert_eq!(of("spec.template.spec.version"), Some(Tool::ArgoCd));
        assert_eq!(of("spec.paused"), None);
        assert_eq!(Tool::of_field(&json!("odd"), &[]), None);
    }
}
