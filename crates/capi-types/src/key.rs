//! How one object is named: keys inside a kind and full references across kinds.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt as _};
use serde_json::Value;

use super::names;

/// Namespace and name of one object of a kind that the context fixes. Cluster-scoped kinds have an
/// empty namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct ObjectKey {
    /// Empty for cluster-scoped kinds.
    pub namespace: String,
    /// Unique in its namespace and kind.
    pub name: String,
}

impl ObjectKey {
    /// Makes a key; an empty namespace means a cluster-scoped object.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The key of an object that came from an API server.
    pub fn of<K: Resource>(object: &K) -> Self {
        Self::new(object.namespace().unwrap_or_default(), object.name_any())
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

/// Group, version, kind and plural of a served resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Gvk {
    /// Empty for Kubernetes' core group.
    pub group: String,
    /// Such as `v1beta2`.
    pub version: String,
    /// In CamelCase, as objects have it.
    pub kind: String,
    /// In lower case, as paths have it.
    pub plural: String,
    /// Its objects have a namespace.
    pub namespaced: bool,
}

impl Gvk {
    /// Of a typed kind, taken as namespaced: the type does not say it, and the key of the one kind that is not has an
    /// empty namespace.
    pub fn of<K: Resource<DynamicType = ()>>() -> Self {
        Self {
            group: K::group(&()).into_owned(),
            version: K::version(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            plural: K::plural(&()).into_owned(),
            namespaced: true,
        }
    }

    /// Of an object in a file, where only a server knows the plural: the usual one. Taken as namespaced.
    pub fn of_document(object: &Value) -> Self {
        let api_version = object["apiVersion"].as_str().unwrap_or_default();
        let version = api_version.rsplit('/').next().unwrap_or_default().to_owned();
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        let plural = format!("{}s", kind.to_lowercase());
        Self { group: group_of(api_version).to_owned(), version, kind, plural, namespaced: true }
    }

    /// `cluster.x-k8s.io/v1beta2`, or `v1` for the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// As kube wants it.
    pub fn api_resource(&self) -> kube::core::ApiResource {
        kube::core::ApiResource::from_gvk_with_plural(
            &kube::core::GroupVersionKind::gvk(&self.group, &self.version, &self.kind),
            &self.plural,
        )
    }
}

/// One object among all kinds: what an action, an event or a details view points at.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct ObjectRef {
    /// Which kind.
    pub gvk: Gvk,
    /// Which object of the kind.
    pub key: ObjectKey,
    /// Empty when unknown; a write then has no uid precondition.
    pub uid: String,
}

impl ObjectRef {
    /// Of an object that was read; the uid is known then.
    pub fn of<K: Resource<DynamicType = ()>>(object: &K) -> Self {
        Self {
            gvk: Gvk::of::<K>(),
            key: ObjectKey::of(object),
            uid: object.meta().uid.clone().unwrap_or_default(),
        }
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.gvk.kind, self.key)
    }
}

/// The owner that controls `object`, if it has one.
pub fn controller_of<K: Resource>(object: &K) -> Option<&OwnerReference> {
    object.meta().owner_references.as_deref()?.iter().find(|owner| owner.controller == Some(true))
}

/// Whether `owner` refers to an object of this group and kind. The version does not matter.
pub fn refers_to(owner: &OwnerReference, group: &str, kind: &str) -> bool {
    // Owners keep the version that they were written with, through later ones of the API.
    owner.kind == kind && group_of(&owner.api_version) == group
}

/// The group in an `apiVersion`; empty for the core group.
pub fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// The value of a label; empty counts as absent.
pub fn label<'a, K: Resource>(object: &'a K, name: &str) -> Option<&'a str> {
    object.meta().labels.as_ref()?.get(name).map(String::as_str).filter(|value| !value.is_empty())
}

/// The value of an annotation, which may be empty.
pub fn annotation<'a, K: Resource>(object: &'a K, name: &str) -> Option<&'a str> {
    object.meta().annotations.as_ref()?.get(name).map(String::as_str)
}

/// The cluster an object belongs to, by label.
pub fn cluster_label<K: Resource>(object: &K) -> Option<&str> {
    label(object, names::label::CLUSTER_NAME)
}
