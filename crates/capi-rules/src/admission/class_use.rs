//! Which Clusters use which ClusterClass. Must not know what either may be.

use serde_json::Value;

use super::value::{at, full_name, is_defined, text};
use capi_types::names::CORE_GROUP;
use k8s_machinery::admission::Need;

/// Namespace and name of the class; empty without a topology.
pub(super) fn class_key(cluster: &Value) -> (&str, &str) {
    let class = at(cluster, "/spec/topology/classRef");
    let own = text(cluster, "/metadata/namespace");
    if !is_defined(at(cluster, "/spec/topology")) {
        return ("", "");
    }
    let namespace = text(class, "/namespace");
    // Without a namespace the class is beside its Cluster.
    (if namespace.is_empty() { own } else { namespace }, text(class, "/name"))
}

/// Does this Cluster use the class of this key?
pub(super) fn uses(cluster: &Value, class: &Value) -> bool {
    let (namespace, name) = class_key(cluster);
    !name.is_empty() && format!("{namespace}/{name}") == full_name(class)
}

/// Every Cluster, to find those that use a class.
pub(super) fn clusters() -> Vec<Need> {
    vec![Need::of(CORE_GROUP, "Cluster", "", "")]
}
