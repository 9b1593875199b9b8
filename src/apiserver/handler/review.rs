//! Self reviews: what the caller may do, and who the caller is. Answered from `auth`, stored nowhere.
//!
//! Source: kubernetes `pkg/registry/authorization/selfsubjectaccessreview/rest.go`, v1.35.

use serde_json::{Value, json};

use crate::api::validation::cause::Cause;
use crate::apiserver::failure::Failure;
use crate::apiserver::request::auth::{Attributes, Identity, Role};
use crate::apiserver::resource::Catalog;
use crate::apiserver::resource::strategy::Review;

const REVIEWS: [&str; 2] = ["authorization.k8s.io", "authentication.k8s.io"];
const OPEN_TO_GUESTS: [&str; 10] =
    ["/", "/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi/*", "/readyz", "/version"];

/// The review with its status.
///
/// # Errors
/// 422 when an access review asks nothing, or two things.
pub fn answer(
    review: Review,
    mut request: Value,
    who: &Identity,
    catalog: &Catalog,
) -> Result<Value, Failure> {
    match review {
        Review::Access => request["status"] = json!({ "allowed": allowed(&request["spec"], who)? }),
        Review::Rules => request["status"] = rules(who, catalog),
        Review::Identity => {
            request["status"] = json!({ "userInfo": { "username": who.user, "groups": who.groups() } });
        }
    }
    if !request["metadata"].is_object() {
        request["metadata"] = json!({});
    }
    Ok(request)
}

fn allowed(spec: &Value, who: &Identity) -> Result<bool, Failure> {
    let text = |attributes: &Value, field: &str| attributes[field].as_str().unwrap_or_default().to_owned();
    match (&spec["resourceAttributes"], &spec["nonResourceAttributes"]) {
        (resource, Value::Null) if !resource.is_null() => {
            let (verb, group) = (text(resource, "verb"), text(resource, "group"));
            let (plural, subresource) = (text(resource, "resource"), text(resource, "subresource"));
            Ok(who.may(Attributes::Resource {
                verb: &verb,
                group: &group,
                resource: &plural,
                subresource: &subresource,
            }))
        }
        (Value::Null, path) if !path.is_null() => {
            let (verb, path) = (text(path, "verb"), text(path, "path"));
            Ok(who.may(Attributes::Path { verb: &verb, path: path.trim_matches('/') }))
        }
        _ => {
            let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            let cause = Cause::invalid("spec.resourceAttributes", &Value::Null, detail);
            Err(Failure::invalid("authorization.k8s.io", "SelfSubjectAccessReview", "", vec![cause]))
        }
    }
}

fn rules(who: &Identity, catalog: &Catalog) -> Value {
    let (resources, paths) = match who.role {
        Role::Admin => (
            json!([{ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }]),
            json!([{ "verbs": ["*"], "nonResourceURLs": ["*"] }]),
        ),
        Role::ReadOnly => (read_only_rules(catalog), json!([{ "verbs": ["get"], "nonResourceURLs": ["*"] }])),
        Role::Guest => (
            json!([{ "verbs": ["create"], "apiGroups": REVIEWS, "resources": ["*"] }]),
            json!([{ "verbs": ["get"], "nonResourceURLs": OPEN_TO_GUESTS }]),
        ),
        Role::Anonymous => (
            json!([]),
            json!([{ "verbs": ["get"], "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version"] }]),
        ),
    };
    json!({ "resourceRules": resources, "nonResourceRules": paths, "incomplete": false })
}

/// Rules can only allow, so "everything but Secrets" is every kind of the core group by name, and
/// every other group.
fn read_only_rules(catalog: &Catalog) -> Value {
    let reads = ["get", "list", "watch"];
    let core: Vec<&str> = catalog
        .all()
        .filter(|r| r.group.is_empty())
        .map(|r| r.plural.as_str())
        .filter(|r| *r != "secrets")
        .collect();
    let groups: Vec<&str> = catalog.groups().keys().copied().filter(|group| !group.is_empty()).collect();
    json!([
        { "verbs": reads, "apiGroups": [""], "resources": core },
        { "verbs": reads, "apiGroups": groups, "resources": ["*"] },
        { "verbs": ["create"], "apiGroups": REVIEWS, "resources": ["*"] },
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_reviews_tell_the_truth() {
        let ask = |who: Identity, spec: Value| {
            answer(Review::Access, json!({ "spec": spec }), &who, &Catalog::built_in())
                .map(|review| review["status"]["allowed"] == true)
        };
        let delete =
            json!({ "resourceAttributes": { "verb": "delete", "group": "g.io", "resource": "things" } });
        assert!(ask(Identity::ADMIN, delete.clone()).unwrap());
        assert!(!ask(Identity::READ_ONLY, delete).unwrap());
        let path = json!({ "nonResourceAttributes": { "verb": "get", "path": "/healthz" } });
        assert!(ask(Identity::READ_ONLY, path).unwrap());
        assert_eq!(ask(Identity::ADMIN, json!({})).unwrap_err().code(), 422);
    }
}
