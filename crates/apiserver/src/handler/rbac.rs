//! What Roles and ClusterRoles give to those whom no group makes administrator or reader, in a cluster that has nodes.
//! Owns the judgement of the objects as they are stored; must not know what is done with the answer.
//!
//! Source: kubernetes `plugin/pkg/auth/authorizer/rbac/rbac.go`, `pkg/registry/rbac/validation/rule.go`; of the roles
//! that every API server makes (`bootstrappolicy`) the rights that a controller manager needs for its own Lease, v1.35.

use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use serde::de::DeserializeOwned;

use crate::failure::Failure;
use crate::object::Record;
use crate::registry::{Registry, present};
use crate::request::auth::Identity;
pub use crate::request::grants::ResourceAttributes;
use crate::request::grants::{Grants, covers};
use crate::resource::{RBAC_GROUP, Resource};
use capstan_store::{Entry, Range};

const SERVICE_ACCOUNTS: &str = "system:serviceaccount:";
/// Users with built-in rights, each with the Lease of its elections.
const BUILT_IN: [(&str, &str); 2] = [
    ("system:kube-controller-manager", "kube-controller-manager"),
    ("system:kube-scheduler", "kube-scheduler"),
];

/// Is it allowed by a built-in right, or by what is bound to the user?
///
/// # Errors
/// The store cannot be read.
pub async fn allows(
    registry: &Registry,
    who: &Identity,
    attributes: ResourceAttributes<'_>,
) -> Result<bool, Failure> {
    // Without nodes no Roles are served, so no binding can give anything.
    if registry.kubelets.is_none() {
        return Ok(false);
    }
    // Nothing has to be read for those, who ask every few seconds.
    if built_in(who).any(|rule| covers(&rule, attributes)) {
        return Ok(true);
    }
    let bound = bound_rules(registry, who, attributes.namespace).await?;
    Ok(bound.iter().any(|rule| covers(rule, attributes)))
}

/// The rules that apply to somebody in a namespace, or in the cluster (empty): built-in ones, those bound in the
/// cluster, and those bound there.
///
/// # Errors
/// The store cannot be read.
pub async fn rules_in(
    registry: &Registry,
    who: &Identity,
    namespace: &str,
) -> Result<Vec<PolicyRule>, Failure> {
    // Without nodes no Roles are served, so no binding can give anything.
    if registry.kubelets.is_none() {
        return Ok(Vec::new());
    }
    let mut held: Vec<PolicyRule> = built_in(who).collect();
    held.extend(bound_rules(registry, who, namespace).await?);
    Ok(held)
}

/// What somebody holds in a namespace, or in the cluster (empty), and what the roles there would hand on.
///
/// # Errors
/// The store cannot be read.
pub async fn grants(registry: &Registry, who: &Identity, namespace: &str) -> Result<Grants, Failure> {
    let mut grants = Grants {
        user: who.user.to_string(),
        groups: who.groups().into_iter().map(str::to_owned).collect(),
        held: bound_rules(registry, who, namespace).await?,
        ..Grants::default()
    };
    for role in all::<ClusterRole>(registry, "clusterroles", "").await? {
        let name = role.metadata.name.unwrap_or_default();
        grants.roles.insert(("ClusterRole".to_owned(), name), role.rules.unwrap_or_default());
    }
    if !namespace.is_empty() {
        for role in all::<Role>(registry, "roles", namespace).await? {
            let name = role.metadata.name.unwrap_or_default();
            grants.roles.insert(("Role".to_owned(), name), role.rules.unwrap_or_default());
        }
    }
    Ok(grants)
}

/// The rules that bindings give to somebody: those of the cluster, then those of the namespace, unless it is empty.
async fn bound_rules(
    registry: &Registry,
    who: &Identity,
    namespace: &str,
) -> Result<Vec<PolicyRule>, Failure> {
    let mut bound = Vec::new();
    let places = std::iter::once("").chain((!namespace.is_empty()).then_some(namespace));
    for place in places {
        for role in bound_roles(registry, who, place).await? {
            bound.extend(rules(registry, &role, place).await?);
        }
    }
    Ok(bound)
}

/// The rights of a user that every API server gives. Whoever creates names the object in the body, which is not judged here.
fn built_in(who: &Identity) -> impl Iterator<Item = PolicyRule> {
    let mine = BUILT_IN.iter().filter(|(user, _)| *user == who.user);
    mine.flat_map(|(_, lease)| {
        let of_leases = |verbs: &[&str], names: Option<Vec<String>>| PolicyRule {
            api_groups: Some(vec!["coordination.k8s.io".to_owned()]),
            resources: Some(vec!["leases".to_owned()]),
            resource_names: names,
            verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
            ..PolicyRule::default()
        };
        let own = Some(vec![(*lease).to_owned()]);
        [of_leases(&["create"], None), of_leases(&["get", "update"], own)]
    })
}

/// Objects of a namespace, or of the cluster. One that cannot be read allows nothing.
async fn all<K: DeserializeOwned>(
    registry: &Registry,
    plural: &str,
    namespace: &str,
) -> Result<Vec<K>, Failure> {
    let catalog = registry.catalog.load_full();
    let Some(resource) = catalog.find(RBAC_GROUP, "v1", plural) else { return Ok(Vec::new()) };
    let prefix = resource.key(namespace, "");
    let page = registry.store.range(Range { prefix: &prefix, ..Range::default() }).await?;
    let mut objects = Vec::new();
    for entry in &page.entries {
        objects.extend(decode(resource, entry)?);
    }
    Ok(objects)
}

/// The object of this name, if it is there and can be read.
async fn named<K: DeserializeOwned>(
    registry: &Registry,
    plural: &str,
    namespace: &str,
    name: &str,
) -> Result<Option<K>, Failure> {
    let catalog = registry.catalog.load_full();
    let Some(resource) = catalog.find(RBAC_GROUP, "v1", plural) else { return Ok(None) };
    let Some(entry) = registry.store.get(&resource.key(namespace, name)).await? else { return Ok(None) };
    decode(resource, &entry)
}

fn decode<K: DeserializeOwned>(resource: &Resource, entry: &Entry) -> Result<Option<K>, Failure> {
    let object = present(resource, &Record::read(entry)?)?;
    Ok(serde_json::from_value(object).ok())
}

/// What the bindings of a namespace, or of the cluster, give to the user.
async fn bound_roles(registry: &Registry, who: &Identity, namespace: &str) -> Result<Vec<RoleRef>, Failure> {
    if namespace.is_empty() {
        let bindings = all::<ClusterRoleBinding>(registry, "clusterrolebindings", "").await?;
        let mine = bindings.into_iter().filter(|one| names(one.subjects.as_deref(), who, ""));
        return Ok(mine.map(|binding| binding.role_ref).collect());
    }
    let bindings = all::<RoleBinding>(registry, "rolebindings", namespace).await?;
    let mine = bindings.into_iter().filter(|one| names(one.subjects.as_deref(), who, namespace));
    Ok(mine.map(|binding| binding.role_ref).collect())
}

/// The rules of the role that a binding in `namespace` names; of a role that is not there, none.
async fn rules(registry: &Registry, role: &RoleRef, namespace: &str) -> Result<Vec<PolicyRule>, Failure> {
    let rules = if role.kind == "ClusterRole" {
        let found = named::<ClusterRole>(registry, "clusterroles", "", &role.name).await?;
        found.and_then(|found| found.rules)
    } else {
        // A binding of the cluster that names a Role finds none: every Role lies in a namespace.
        let found = named::<Role>(registry, "roles", namespace, &role.name).await?;
        found.and_then(|found| found.rules)
    };
    Ok(rules.unwrap_or_default())
}

/// Is the user among them? A service account without a namespace is one of the binding's.
fn names(subjects: Option<&[Subject]>, who: &Identity, namespace: &str) -> bool {
    subjects.unwrap_or_default().iter().any(|subject| match subject.kind.as_str() {
        "User" => subject.name == who.user,
        "Group" => who.groups().contains(&subject.name.as_str()),
        "ServiceAccount" => {
            let home = subject.namespace.as_deref().filter(|home| !home.is_empty()).unwrap_or(namespace);
            who.user == format!("{SERVICE_ACCOUNTS}{home}:{}", subject.name)
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn attributes<'a>(verb: &'a str, subresource: &'a str, name: &'a str) -> ResourceAttributes<'a> {
        let (group, resource, namespace) = ("coordination.k8s.io", "leases", "kube-system");
        ResourceAttributes { verb, group, resource, subresource, namespace, name }
    }

    #[test]
    fn a_binding_names_users_groups_and_service_accounts() {
        let account =
            Identity::of("system:serviceaccount:kube-system:ccm".to_owned(), vec!["team".to_owned()]);
        for (subject, expected) in [
            (json!({"kind": "ServiceAccount", "name": "ccm", "namespace": "kube-system"}), true),
            (json!({"kind": "ServiceAccount", "name": "ccm"}), true),
            (json!({"kind": "ServiceAccount", "name": "ccm", "namespace": "default"}), false),
            (json!({"kind": "User", "name": "system:serviceaccount:kube-system:ccm"}), true),
            (json!({"kind": "User", "name": "ccm"}), false),
            (json!({"kind": "Group", "name": "team"}), true),
            (json!({"kind": "Group", "name": "system:authenticated"}), true),
            (json!({"kind": "Group", "name": "other"}), false),
        ] {
            let subjects: Vec<Subject> = vec![serde_json::from_value(subject.clone()).expect("a subject")];
            assert_eq!(names(Some(&subjects), &account, "kube-system"), expected, "{subject}");
        }
    }

    #[test]
    fn a_controller_manager_has_the_rights_that_every_server_gives() {
        let manager = Identity::of("system:kube-controller-manager".to_owned(), Vec::new());
        for (attributes, expected) in [
            (attributes("create", "", ""), true),
            (attributes("update", "", "kube-controller-manager"), true),
            (attributes("update", "", "cloud-provider-extraction-migration"), false),
            (attributes("delete", "", "kube-controller-manager"), false),
        ] {
            assert_eq!(built_in(&manager).any(|rule| covers(&rule, attributes)), expected, "{attributes:?}");
        }
    }
}
