//! OpenAPI v3: an index of documents, and one document per group and version with what kubectl reads
//! for `apply`, `create`, `edit`, `diff` and `explain`. Owns the documents' shape; must not know how
//! they are requested or cached.
//!
//! Source: kube-openapi `pkg/handler3`, apiextensions-apiserver `pkg/controller/openapi/builder`, v0.35.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::patch::strategic;
use crate::schema::native;

const GVK: &str = "x-kubernetes-group-version-kind";
const REFERENCES: &str = "#/components/schemas/";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

/// One served resource, as a document shows it.
#[derive(Clone, Copy, Debug)]
pub struct Served<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub kind: &'a str,
    pub plural: &'a str,
    pub namespaced: bool,
    /// The published schema of a custom resource; `None` for built-in kinds.
    pub schema: Option<&'a Value>,
}

/// The path of a document below `/openapi/v3/`: `api/v1`, `apis/cluster.x-k8s.io/v1beta2`.
pub fn path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// The hash of a document, or of anything that changes with it.
pub fn hash(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02X}")).collect()
}

/// What `/openapi/v3` answers: the path and hash of every document.
pub fn index(documents: &[(String, String)]) -> Value {
    let paths: Map<String, Value> = documents
        .iter()
        .map(|(path, hash)| {
            (path.clone(), json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}")}))
        })
        .collect();
    json!({"paths": paths})
}

/// The document of one group and version.
pub fn document(resources: &[Served<'_>]) -> Value {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    for resource in resources {
        let name = resource.schema_name();
        let list = format!("{name}List");
        resource.add_paths(&name, &mut paths);
        schemas.insert(name.clone(), resource.component());
        schemas.insert(list, resource.list_component(&name));
    }
    add_referenced(&mut schemas);
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

impl Served<'_> {
    /// `io.x-k8s.cluster.v1beta2.Machine`, or the upstream name of a built-in type.
    fn schema_name(&self) -> String {
        let native =
            native::definition_name(self.group, self.version, self.kind).filter(|_| self.schema.is_none());
        native.map_or_else(
            || {
                let reversed: Vec<&str> = self.group.split('.').rev().collect();
                format!("{}.{}.{}", reversed.join("."), self.version, self.kind)
            },
            str::to_owned,
        )
    }

    fn gvk(&self, suffix: &str) -> Value {
        json!({"group": self.group, "version": self.version, "kind": format!("{}{suffix}", self.kind)})
    }

    fn add_paths(&self, name: &str, paths: &mut Map<String, Value>) {
        let scope = if self.namespaced { "/namespaces/{namespace}" } else { "" };
        let collection = format!("/{}{scope}/{}", path(self.group, self.version), self.plural);
        let body = json!({"$ref": format!("{REFERENCES}{name}")});
        let operation = |action: &str, parameters: &[&str]| {
            json!({
                "operationId": format!("{action}{}{}", self.version, self.kind),
                "parameters": parameters.iter().map(|name| parameter(name)).collect::<Vec<_>>(),
                "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": body}}}},
                "x-kubernetes-action": action,
                GVK: self.gvk(""),
            })
        };
        // By these parameters kubectl knows that the server checks fields and runs dry.
        const WRITE: [&str; 3] = ["dryRun", "fieldManager", "fieldValidation"];
        let with_body = |action: &str| {
            let mut operation = operation(action, &WRITE);
            operation["requestBody"] = json!({"content": {"*/*": {"schema": body}}});
            operation
        };
        let mut patch = operation("patch", &["dryRun", "fieldManager", "fieldValidation", "force"]);
        let content: Map<String, Value> = self
            .patch_types()
            .iter()
            .map(|type_| ((*type_).to_owned(), json!({"schema": {"type": "object"}})))
            .collect();
        patch["requestBody"] = json!({"content": content, "required": true});
        paths.insert(
            collection.clone(),
            json!({"get": operation("list", &["labelSelector", "fieldSelector", "limit"]), "post": with_body("post")}),
        );
        let one = json!({
            "get": operation("get", &[]), "put": with_body("put"), "patch": patch,
            "delete": operation("delete", &["dryRun", "propagationPolicy"]),
        });
        paths.insert(format!("{collection}/{{name}}"), one);
    }

    fn patch_types(&self) -> &'static [&'static str] {
        const ALL: [&str; 4] = [
            "application/apply-patch+yaml",
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/strategic-merge-patch+json",
        ];
        // kubectl merges strategically only where this type is listed.
        if self.schema.is_some() { ALL.split_at(3).0 } else { &ALL }
    }

    fn component(&self) -> Value {
        let mut component = match self.schema {
            Some(schema) => schema.clone(),
            None => native_component(self.kind, &self.schema_name()),
        };
        if let Some(root) = component.as_object_mut() {
            root.insert(GVK.to_owned(), json!([self.gvk("")]));
            if self.schema.is_some() {
                let properties = root.entry("properties").or_insert_with(|| json!({}));
                properties["apiVersion"] = type_meta("apiVersion");
                properties["kind"] = type_meta("kind");
                properties["metadata"] = wrapped("Standard object's metadata.", OBJECT_META);
            }
        }
        component
    }

    fn list_component(&self, item: &str) -> Value {
        json!({
            "description": format!("{0}List is a list of {0}", self.kind),
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": type_meta("apiVersion"),
                "kind": type_meta("kind"),
                "metadata": wrapped("Standard list metadata.", LIST_META),
                "items": {"type": "array", "items": {"allOf": [{"$ref": format!("{REFERENCES}{item}")}]}},
            },
            GVK: [self.gvk("List")],
        })
    }
}

fn parameter(name: &str) -> Value {
    json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}})
}

fn type_meta(field: &str) -> Value {
    let description = if field == "kind" {
        "Kind is a string value representing the REST resource this object represents."
    } else {
        "APIVersion defines the versioned schema of this representation of an object."
    };
    json!({"description": description, "type": "string"})
}

/// A reference with a description of its own: OpenAPI ignores what stands beside `$ref`.
fn wrapped(description: &str, name: &str) -> Value {
    json!({"description": description, "allOf": [{"$ref": format!("{REFERENCES}{name}")}]})
}

fn native_component(kind: &str, name: &str) -> Value {
    let mut component = native::definitions().get(name).cloned().unwrap_or_else(|| json!({"type": "object"}));
    rewrite(&mut component);
    mark_merge_lists(&mut component, kind, "");
    if let Some(Value::Array(required)) = component.get_mut("required") {
        // The types we read this from insist on metadata; the API does not.
        required.retain(|field| field != "metadata");
    }
    component
}

/// Wraps references that have siblings.
fn rewrite(value: &mut Value) {
    match value {
        Value::Object(map) => {
            // A property may be called `$ref` too; then it is a schema, not a text.
            if map.len() > 1 && map.get("$ref").is_some_and(Value::is_string) {
                let reference = map.remove("$ref");
                map.insert("allOf".to_owned(), json!([{"$ref": reference}]));
            }
            map.values_mut().for_each(rewrite);
        }
        Value::Array(items) => items.iter_mut().for_each(rewrite),
        _ => {}
    }
}

/// Says which lists merge and by what, below the dotted `path` of this component in its kind.
fn mark_merge_lists(component: &mut Value, kind: &str, path: &str) {
    let Some(Value::Object(properties)) = component.get_mut("properties") else { return };
    for (name, property) in properties {
        let at = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let (Some(key), Some(property)) = (strategic::merge_key(kind, &at), property.as_object_mut()) else {
            continue;
        };
        property.insert("x-kubernetes-patch-strategy".to_owned(), json!("merge"));
        // A set of scalars merges without a key.
        if !key.is_empty() {
            property.insert("x-kubernetes-patch-merge-key".to_owned(), json!(key));
        }
    }
}

/// Adds the built-in definitions that are referred to, and those they refer to.
fn add_referenced(schemas: &mut Map<String, Value>) {
    let mut wanted = BTreeSet::new();
    schemas.values().for_each(|schema| references(schema, &mut wanted));
    while let Some(name) = wanted.pop_first() {
        // A definition that refers to itself, also through others, ends here.
        if schemas.contains_key(&name) {
            continue;
        }
        let Some(mut definition) = native::definitions().get(&name).cloned() else { continue };
        rewrite(&mut definition);
        let (kind, path) = match name.rsplit('.').next().unwrap_or_default() {
            "ObjectMeta" => ("", "metadata"),
            "NodeStatus" => ("Node", "status"),
            "NodeSpec" => ("Node", "spec"),
            "NamespaceStatus" => ("Namespace", "status"),
            // No list of the table stands under `-`, so nothing is marked.
            _ => ("", "-"),
        };
        mark_merge_lists(&mut definition, kind, path);
        references(&definition, &mut wanted);
        schemas.insert(name, definition);
    }
}

fn references(value: &Value, out: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            if let Some(name) =
                map.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix(REFERENCES))
            {
                out.insert(name.to_owned());
            }
            map.values().for_each(|child| references(child, out));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, out)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMESPACE: Served<'_> = Served {
        group: "",
        version: "v1",
        kind: "Namespace",
        plural: "namespaces",
        namespaced: false,
        schema: None,
    };

    #[test]
    fn kubectl_finds_what_it_reads() {
        let document = document(&[NAMESPACE]);
        let patch = &document["paths"]["/api/v1/namespaces/{name}"]["patch"];
        assert_eq!(patch[GVK], json!({"group": "", "version": "v1", "kind": "Namespace"}));
        for name in ["fieldValidation", "dryRun"] {
            let found =
                patch["parameters"].as_array().is_some_and(|all| all.iter().any(|p| p["name"] == name));
            assert!(found, "{name}");
        }
        assert!(patch["requestBody"]["content"]["application/strategic-merge-patch+json"].is_object());
        let schemas = &document["components"]["schemas"];
        let namespace = &schemas["io.k8s.api.core.v1.Namespace"];
        assert_eq!(namespace[GVK][0]["kind"], "Namespace");
        let reference = namespace["properties"]["metadata"]["allOf"][0]["$ref"].as_str().expect("wrapped");
        assert_eq!(reference, format!("{REFERENCES}{OBJECT_META}"));
        let owners = &schemas[OBJECT_META]["properties"]["ownerReferences"];
        assert_eq!(owners["x-kubernetes-patch-merge-key"], "uid");
        let conditions = &schemas["io.k8s.api.core.v1.NamespaceStatus"]["properties"]["conditions"];
        assert_eq!(conditions["x-kubernetes-patch-merge-key"], "type");
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let schema =
            json!({"type": "object", "description": "A thing.", "properties": {"spec": {"type": "object"}}});
        let thing = Served {
            group: "cluster.x-k8s.io",
            version: "v1beta2",
            kind: "Machine",
            plural: "machines",
            namespaced: true,
            schema: Some(&schema),
        };
        let native = |group, kind, plural| Served { group, kind, plural, ..NAMESPACE };
        let definition =
            native("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions");
        for resources in [vec![thing], vec![NAMESPACE, native("", "Node", "nodes")], vec![definition]] {
            let document = document(&resources);
            let schemas = document["components"]["schemas"].as_object().expect("a map");
            let mut wanted = BTreeSet::new();
            references(&document, &mut wanted);
            let missing: Vec<_> = wanted.iter().filter(|name| !schemas.contains_key(*name)).collect();
            assert_eq!(missing, Vec::<&String>::new());
        }
        let document = document(&[thing]);
        let schemas = &document["components"]["schemas"];
        assert_eq!(schemas["io.x-k8s.cluster.v1beta2.Machine"]["description"], "A thing.");
        let types = document["paths"]["/apis/cluster.x-k8s.io/v1beta2/namespaces/{namespace}/machines/{name}"]["patch"]
            ["requestBody"]["content"]
            .as_object()
            .expect("a map");
        assert_eq!(types.len(), 3, "custom resources have no strategic merge");
    }

    #[test]
    fn the_index_points_at_documents() {
        let hash = hash(b"content");
        assert_eq!(hash.len(), 64);
        let index =
            index(&[(path("cluster.x-k8s.io", "v1beta2"), hash.clone()), (path("", "v1"), hash.clone())]);
        assert_eq!(
            index["paths"]["apis/cluster.x-k8s.io/v1beta2"]["serverRelativeURL"],
            format!("/openapi/v3/apis/cluster.x-k8s.io/v1beta2?hash={hash}")
        );
        assert!(index["paths"]["api/v1"].is_object());
    }
}
