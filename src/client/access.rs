//! What the identity of the client may do, by an access review of the server. Owns the review; must not know
//! what depends on its answer.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::{Api, PostParams};

/// One request that is to be reviewed. Empty `namespace`: in all namespaces; empty `name`: to any object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attempt {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`.
    pub verb: String,
    pub group: String,
    /// Plural, lower case.
    pub resource: String,
    /// `status`, `scale`, or empty.
    pub subresource: String,
    pub namespace: String,
    pub name: String,
}

/// The server's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    pub allowed: bool,
    /// In the server's words; often empty when allowed.
    pub reason: String,
}

/// Whether the client's identity may do it (`SelfSubjectAccessReview`).
///
/// # Errors
/// The request itself failed; nothing is known then.
pub async fn may(client: &kube::Client, attempt: &Attempt) -> Result<Access, kube::Error> {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                verb: some(&attempt.verb),
                group: some(&attempt.group),
                resource: some(&attempt.resource),
                subresource: some(&attempt.subresource),
                namespace: some(&attempt.namespace),
                name: some(&attempt.name),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let api: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let status = api.create(&PostParams::default(), &review).await?.status.unwrap_or_default();
    let mut reason = status.reason.unwrap_or_default();
    if let Some(error) = status.evaluation_error {
        if !reason.is_empty() {
            reason.push_str("; ");
        }
        reason.push_str(&error);
    }
    Ok(Access { allowed: status.allowed, reason })
}
