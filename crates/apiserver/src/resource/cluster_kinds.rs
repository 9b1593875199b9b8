//! What an API server with nodes behind it serves beyond the built-in kinds: pods, what controls them, and what says who may
//! do what. Must not know how a node answers, nor who is allowed something.

use super::strategy::{Review, Strategy};
use super::{Resource, kind_of, review};

/// The group of roles.
pub const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// The further kinds of a cluster that has nodes.
pub(super) fn of_nodes() -> Vec<Resource> {
    let named = |short: &str, group: &str, kind: &str, strategy| Resource {
        short_names: vec![short.to_owned()],
        categories: vec!["all".to_owned()],
        has_status: true,
        ..kind_of(group, kind, strategy)
    };
    let rbac = |kind: &str, namespaced| Resource { namespaced, ..kind_of(RBAC_GROUP, kind, Strategy::Rbac) };
    vec![
        named("po", "", "Pod", Strategy::Pod),
        named("ds", "apps", "DaemonSet", Strategy::App),
        named("deploy", "apps", "Deployment", Strategy::App),
        Resource { short_names: vec!["sa".to_owned()], ..kind_of("", "ServiceAccount", Strategy::Plain) },
        rbac("Role", true),
        rbac("RoleBinding", true),
        rbac("ClusterRole", false),
        rbac("ClusterRoleBinding", false),
        review("authorization.k8s.io", "SubjectAccessReview", Review::OfSubject),
    ]
}
