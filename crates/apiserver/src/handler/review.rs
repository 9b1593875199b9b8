//! Reviews: what the caller or somebody else may do, and who the caller is. Answered from `auth` and `rbac`, stored nowhere.
//!
//! Source: kubernetes `pkg/registry/authorization/{selfsubjectaccessreview,subjectaccessreview}/rest.go`, v1.35.

use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::{Value, json};

use super::rbac;
use crate::failure::Failure;
use crate::registry::Registry;
use crate::request::auth::{Attributes, Identity, Role};
use crate::resource::Catalog;
use crate::resource::strategy::Review;
use k8s_machinery::validation::cause::Cause;

const REVIEWS: [&str; 2] = ["authorization.k8s.io", "authentication.k8s.io"];
/// Reviews that everybody may ask for: those about oneself.
const OF_ONESELF: [&str; 3] = ["selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"];
const OPEN_TO_GUESTS: [&str; 10] =
    ["/", "/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi/*", "/readyz", "/version"];

/// The review with its status.
///
/// # Errors
/// 422 when an access review asks nothing, or two things.
pub async fn answer(
    review: Review,
    mut request: Value,
    who: &Identity,
    registry: &Registry,
) -> Result<Value, Failure> {
    match review {
        Review::Access => {
            let allowed = allowed(&request["spec"], who, registry).await?;
            request["status"] = json!({ "allowed": allowed });
        }
        Review::OfSubject => {
            let subject = subject(&request["spec"])?;
            let allowed = allowed(&request["spec"], &subject, registry).await?;
            request["status"] = json!({ "allowed": allowed });
        }
        Review::Rules => {
            let namespace = request["spec"]["namespace"].as_str().unwrap_or_default();
            let bound = rbac::rules_in(registry, who, namespace).await?;
            request["status"] = rules(who, &registry.catalog.load(), bound);
        }
        Review::Identity => {
            request["status"] = json!({ "userInfo": { "username": who.user, "groups": who.groups() } });
        }
    }
    if !request["metadata"].is_object() {
        request["metadata"] = json!({});
    }
    Ok(request)
}

/// Whom a review is about.
fn subject(spec: &Value) -> Result<Identity, Failure> {
    let user = spec["user"].as_str().unwrap_or_default().to_owned();
    let groups = spec["groups"].as_array().into_iter().flatten();
    let groups: Vec<String> = groups.filter_map(|group| group.as_str().map(str::to_owned)).collect();
    if user.is_empty() && groups.is_empty() {
        let detail = "at least one of user or group must be specified";
        let cause = Cause::invalid("spec.user", &Value::String(user), detail);
        return Err(Failure::invalid("authorization.k8s.io", "SubjectAccessReview", "", vec![cause]));
    }
    Ok(Identity::of(user, groups))
}

async fn allowed(spec: &Value, who: &Identity, registry: &Registry) -> Result<bool, Failure> {
    let text = |attributes: &Value, field: &str| attributes[field].as_str().unwrap_or_default().to_owned();
    match (&spec["resourceAttributes"], &spec["nonResourceAttributes"]) {
        (resource, Value::Null) if !resource.is_null() => {
            let (verb, group) = (text(resource, "verb"), text(resource, "group"));
            let (plural, subresource) = (text(resource, "resource"), text(resource, "subresource"));
            let (namespace, name) = (text(resource, "namespace"), text(resource, "name"));
            let by_role = who.may(Attributes::Resource {
                verb: &verb,
                group: &group,
                resource: &plural,
                subresource: &subresource,
            });
            let attributes = rbac::ResourceAttributes {
                verb: &verb,
                group: &group,
                resource: &plural,
                subresource: &subresource,
                namespace: &namespace,
                name: &name,
            };
            // Roles in the store are read only when no group gives the right.
            Ok(by_role || rbac::allows(registry, who, attributes).await?)
        }
        (Value::Null, path) if !path.is_null() => {
            let (verb, path) = (text(path, "verb"), text(path, "path"));
            // A request's path is judged without the slashes at its ends, so this one is, too.
            Ok(who.may(Attributes::Path { verb: &verb, path: path.trim_matches('/') }))
        }
        _ => {
            let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            let cause = Cause::invalid("spec.resourceAttributes", &Value::Null, detail);
            Err(Failure::invalid("authorization.k8s.io", "SelfSubjectAccessReview", "", vec![cause]))
        }
    }
}

/// What the role of somebody gives, and what is `bound` to him.
fn rules(who: &Identity, catalog: &Catalog, bound: Vec<PolicyRule>) -> Value {
    let (mut resources, mut paths) = match who.role {
        Role::Admin => (
            vec![json!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] })],
            vec![json!({ "verbs": ["*"], "nonResourceURLs": ["*"] })],
        ),
        Role::ReadOnly => {
            (read_only_rules(catalog), vec![json!({ "verbs": ["get"], "nonResourceURLs": ["*"] })])
        }
        Role::Guest => (
            vec![json!({ "verbs": ["create"], "apiGroups": REVIEWS, "resources": OF_ONESELF })],
            vec![json!({ "verbs": ["get"], "nonResourceURLs": OPEN_TO_GUESTS })],
        ),
        Role::Anonymous => (
            Vec::new(),
            vec![
                json!({ "verbs": ["get"], "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version"] }),
            ],
        ),
    };
    for rule in bound {
        match rule.non_resource_urls {
            Some(urls) => paths.push(json!({ "verbs": rule.verbs, "nonResourceURLs": urls })),
            None => {
                let mut of =
                    json!({ "verbs": rule.verbs, "apiGroups": rule.api_groups, "resources": rule.resources });
                if let Some(names) = rule.resource_names {
                    of["resourceNames"] = json!(names);
                }
                resources.push(of);
            }
        }
    }
    json!({ "resourceRules": resources, "nonResourceRules": paths, "incomplete": false })
}

/// Rules can only allow, so "everything but Secrets" is every kind of the core group by name, and
/// every other group.
fn read_only_rules(catalog: &Catalog) -> Vec<Value> {
    let reads = ["get", "list", "watch"];
    let core: Vec<&str> = catalog
        .all()
        .filter(|r| r.group.is_empty())
        .map(|r| r.plural.as_str())
        .filter(|r| *r != "secrets")
        .collect();
    let groups: Vec<&str> = catalog.groups().keys().copied().filter(|group| !group.is_empty()).collect();
    vec![
        json!({ "verbs": reads, "apiGroups": [""], "resources": core }),
        json!({ "verbs": reads, "apiGroups": groups, "resources": ["*"] }),
        json!({ "verbs": ["create"], "apiGroups": REVIEWS, "resources": OF_ONESELF }),
    ]
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use capstan_base::rng::Rng;
    use capstan_base::time::Clock;
    use capstan_store::MemoryStore;

    #[tokio::test]
    async fn access_reviews_tell_the_truth() {
        let registry = Registry::new(Arc::new(MemoryStore::new()), Clock::system(), Rng::seeded(1));
        let ask = async |who: Identity, spec: Value| {
            let review = answer(Review::Access, json!({ "spec": spec }), &who, &registry).await;
            review.map(|review| review["status"]["allowed"] == true)
        };
        let delete =
            json!({ "resourceAttributes": { "verb": "delete", "group": "g.io", "resource": "things" } });
        assert!(ask(Identity::ADMIN, delete.clone()).await.unwrap());
        assert!(!ask(Identity::READ_ONLY, delete).await.unwrap());
        let path = json!({ "nonResourceAttributes": { "verb": "get", "path": "/healthz" } });
        assert!(ask(Identity::READ_ONLY, path).await.unwrap());
        assert_eq!(ask(Identity::ADMIN, json!({})).await.unwrap_err().code(), 422);
    }
}
