//! Reading a running kubeadm cluster for a change, and carrying a plan out: the shell around `change`. Owns requests, writes,
//! commands on nodes and the loop between them; must not decide what a change means, in which order it is done, or how far it
//! is, and must not print.

pub mod addons;
pub mod apply;
pub mod drain;
pub mod executor;
mod failure;
pub mod host_look;
pub mod judge;
pub mod look;
pub mod mend;
pub mod preflight;
pub mod read;
pub mod rights;
pub mod way;
pub mod write;

use capi_types::key::{Gvk, ObjectKey, ObjectRef};

const KUBE_SYSTEM: &str = "kube-system";

/// An object of a built-in kind.
fn object(group: &str, kind: &str, plural: &str, namespace: &str, name: &str) -> ObjectRef {
    let gvk = Gvk {
        group: group.to_owned(),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
        namespaced: !namespace.is_empty(),
    };
    ObjectRef { gvk, key: ObjectKey::new(namespace, name), uid: String::new() }
}

fn config_map(name: &str) -> ObjectRef {
    object("", "ConfigMap", "configmaps", KUBE_SYSTEM, name)
}

fn node(name: &str) -> ObjectRef {
    object("", "Node", "nodes", "", name)
}

/// What a kubelet renews every ten seconds.
fn node_lease(node: &str) -> ObjectRef {
    object("coordination.k8s.io", "Lease", "leases", "kube-node-lease", node)
}

fn kube_proxy() -> ObjectRef {
    object("apps", "DaemonSet", "daemonsets", KUBE_SYSTEM, "kube-proxy")
}

fn coredns() -> ObjectRef {
    object("apps", "Deployment", "deployments", KUBE_SYSTEM, "coredns")
}
