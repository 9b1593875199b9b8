//! What the identity of the client may do, by an access review of the server. Owns the review; must not know
//! what depends on its answer.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SubjectAccessReview,
    SubjectAccessReviewSpec, SubjectAccessReviewStatus,
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
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(attributes(attempt)),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let api: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    Ok(answer(api.create(&PostParams::default(), &review).await?.status))
}

/// Whether somebody else may do it (`SubjectAccessReview`); the client's identity needs the right to ask that.
///
/// # Errors
/// As [`may`].
pub async fn may_user(
    client: &kube::Client,
    user: &str,
    groups: &[String],
    attempt: &Attempt,
) -> Result<Access, kube::Error> {
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(user.to_owned()),
            groups: Some(groups.to_vec()),
            resource_attributes: Some(attributes(attempt)),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let api: Api<SubjectAccessReview> = Api::all(client.clone());
    Ok(answer(api.create(&PostParams::default(), &review).await?.status))
}

fn attributes(attempt: &Attempt) -> ResourceAttributes {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    ResourceAttributes {
        verb: some(&attempt.verb),
        group: some(&attempt.group),
        resource: some(&attempt.resource),
        subresource: some(&attempt.subresource),
        namespace: some(&attempt.namespace),
        name: some(&attempt.name),
        ..ResourceAttributes::default()
    }
}

fn answer(status: Option<SubjectAccessReviewStatus>) -> Access {
    let status = status.unwrap_or_default();
    let mut reason = status.reason.unwrap_or_default();
    if let Some(error) = status.evaluation_error {
        if !reason.is_empty() {
            reason.push_str("; ");
        }
        reason.push_str(&error);
    }
    Access { allowed: status.allowed, reason }
}
