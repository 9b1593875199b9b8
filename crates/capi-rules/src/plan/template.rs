//! Template objects: what is cloned from them (infrastructure machines and bootstrap configurations), and that
//! they belong to their Cluster. Pure; must not know who owns the clone or why it is made.
//! Source: cluster-api `controllers/external/util.go` (`GenerateTemplate`), v1.14.2.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Map, Value, json};

use super::Write;
use super::ownership::{owner, with_owner};
use crate::status::contract::reference_to;
use capi_types::cluster::Cluster;
use capi_types::key::{ObjectKey, group_of};
use capi_types::names::{annotation, label};

/// What the clone gets besides the template's content.
#[derive(Clone, Debug)]
pub struct Clone<'a> {
    /// Namespace and name of the clone.
    pub key: ObjectKey,
    /// The label that the clone gets.
    pub cluster_name: &'a str,
    /// Over the template's own.
    pub labels: BTreeMap<String, String>,
    /// Over the template's own.
    pub annotations: BTreeMap<String, String>,
    /// The only owner.
    pub owner: OwnerReference,
}

/// The object that `template` (any kind that ends in `Template`) describes, as it should be created.
/// A template without `spec.template` counts as empty.
pub fn clone_of(template: &Value, clone: &Clone<'_>) -> Value {
    let inner = &template["spec"]["template"];
    let api_version = template["apiVersion"].as_str().unwrap_or_default();
    let kind = template["kind"].as_str().unwrap_or_default().trim_end_matches("Template");
    let mut annotations = strings(&inner["metadata"]["annotations"]);
    annotations.extend(clone.annotations.clone());
    let name = template["metadata"]["name"].as_str().unwrap_or_default();
    // After those of people: a rollout compares by where a clone came from.
    annotations.insert(annotation::CLONED_FROM_NAME.to_owned(), name.to_owned());
    annotations.insert(annotation::CLONED_FROM_GROUP_KIND.to_owned(), group_kind(template));
    let mut labels = strings(&inner["metadata"]["labels"]);
    labels.extend(clone.labels.clone());
    labels.insert(label::CLUSTER_NAME.to_owned(), clone.cluster_name.to_owned());
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), json!(api_version));
    object.insert("kind".to_owned(), json!(kind));
    object.insert(
        "metadata".to_owned(),
        json!({
            "name": clone.key.name,
            "namespace": clone.key.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [clone.owner],
        }),
    );
    // A template without a spec is allowed; `spec: null` would be refused.
    if inner["spec"].is_object() {
        object.insert("spec".to_owned(), inner["spec"].clone());
    }
    Value::Object(object)
}

/// The patch that makes the Cluster an owner of a template, as `clusterctl move` needs it; `None` when it is one.
/// Source: cluster-api `core/reconcilers/{machinedeployment,machineset}` (`reconcileExternalTemplateReference`),
/// v1.14.2.
pub fn own(cluster: &Cluster, template: &Value) -> Option<Write> {
    let owners: Vec<OwnerReference> =
        serde_json::from_value(template["metadata"]["ownerReferences"].clone()).unwrap_or_default();
    let wanted = owner(cluster, false);
    // By uid: after a move to another server the Cluster
    // has a new one, and the reference is renewed.
    if owners.iter().any(|o| o.uid == wanted.uid) {
        return None;
    }
    let mut body = json!({"metadata": {"ownerReferences": with_owner(owners, wanted)}});
    // A list is replaced as a whole: without the version, the owner that another writer added could be lost.
    if let Some(version) = template["metadata"]["resourceVersion"].as_str() {
        body["metadata"]["resourceVersion"] = json!(version);
    }
    Some(Write::Patch { object: reference_to(template), body })
}

/// `Kind.group` of the template, as in the cloned-from annotation.
pub fn group_kind(template: &Value) -> String {
    let kind = template["kind"].as_str().unwrap_or_default();
    match group_of(template["apiVersion"].as_str().unwrap_or_default()) {
        "" => kind.to_owned(),
        group => format!("{kind}.{group}"),
    }
}

fn strings(value: &Value) -> BTreeMap<String, String> {
    let pairs = value.as_object().into_iter().flatten();
    pairs.filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_keeps_content_and_says_where_it_came_from() {
        let template = json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
            "kind": "DevMachineTemplate",
            "metadata": {"name": "workers", "uid": "x", "resourceVersion": "9"},
            "spec": {"template": {
                "metadata": {"labels": {"zone": "a"}, "annotations": {"note": "t"}},
                "spec": {"backend": {"inMemory": {}}}
            }}
        });
        let owner = OwnerReference { kind: "Machine".into(), name: "m".into(), ..OwnerReference::default() };
        let made = clone_of(
            &template,
            &Clone {
                key: ObjectKey::new("ns", "m"),
                cluster_name: "prod",
                labels: BTreeMap::new(),
                annotations: BTreeMap::from([("note".to_owned(), "caller".to_owned())]),
                owner,
            },
        );
        assert_eq!(made["kind"], "DevMachine");
        assert_eq!(made["spec"], json!({"backend": {"inMemory": {}}}));
        assert_eq!(made["metadata"]["labels"], json!({"zone": "a", label::CLUSTER_NAME: "prod"}));
        assert_eq!(
            made["metadata"]["annotations"],
            json!({
                "note": "caller",
                annotation::CLONED_FROM_NAME: "workers",
                annotation::CLONED_FROM_GROUP_KIND: "DevMachineTemplate.infrastructure.cluster.x-k8s.io",
            })
        );
        assert!(made["metadata"]["uid"].is_null());
    }

    #[test]
    fn an_empty_template_is_an_empty_object() {
        let template = json!({"apiVersion": "g/v1", "kind": "XTemplate", "metadata": {"name": "t"}});
        let owner = OwnerReference::default();
        let clone = Clone {
            key: ObjectKey::new("ns", "m"),
            cluster_name: "c",
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            owner,
        };
        assert!(clone_of(&template, &clone).get("spec").is_none());
    }
}
