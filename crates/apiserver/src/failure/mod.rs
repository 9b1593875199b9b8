//! The one error of the server: a `metav1.Status` with code, reason, message and details. Owns the words
//! clients recognise; must not know routes, stores or kinds.
//!
//! Source: apimachinery `pkg/api/errors/errors.go`, v0.35.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::{Map, Value, json};

use k8s_machinery::admission::{Refusal, RefusalReason};
use k8s_machinery::validation::cause::{Cause, CauseReason};

/// Why a request failed, in the words of `status.reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    NotFound,
    AlreadyExists,
    Conflict,
    Invalid,
    BadRequest,
    Unauthorized,
    Forbidden,
    MethodNotAllowed,
    NotAcceptable,
    UnsupportedMediaType,
    RequestEntityTooLarge,
    Expired,
    TooManyRequests,
    Timeout,
    ServiceUnavailable,
    InternalError,
    /// An error that upstream returns without any reason, answered with 500.
    None,
}

impl Reason {
    /// The HTTP status, equal to `status.code`.
    pub fn code(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::Unauthorized => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::NotAcceptable => 406,
            Self::AlreadyExists | Self::Conflict => 409,
            Self::Expired => 410,
            Self::RequestEntityTooLarge => 413,
            Self::UnsupportedMediaType => 415,
            Self::Invalid => 422,
            Self::TooManyRequests => 429,
            Self::InternalError | Self::None => 500,
            Self::ServiceUnavailable => 503,
            Self::Timeout => 504,
        }
    }

    pub fn word(self) -> String {
        // The variants are called what upstream's reasons are.
        if self == Self::None { String::new() } else { format!("{self:?}") }
    }
}

/// `status.details`. Empty members are left out of the JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    pub name: String,
    pub group: String,
    /// The resource plural, but the Kind for `Invalid` and for delete preconditions.
    pub kind: String,
    pub uid: String,
    pub causes: Vec<Cause>,
    /// Also sent as the `Retry-After` header when above zero.
    pub retry_after_s: u32,
    /// How to go on with a list whose revision is gone; it is sent in the status' own metadata.
    pub continue_token: String,
}

/// A failed request. Cheap to move; `status()` is what goes over the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub(crate) reason: Reason,
    /// The sentence for a person, in upstream's words.
    pub message: String,
    pub(crate) details: Box<Details>,
}

/// A refusal of the rules as the answer of the webhook that it stands for.
impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let failure = match refusal.why {
            RefusalReason::Invalid { group, kind, name, causes } => {
                Self::invalid(group, &kind, &name, causes)
            }
            RefusalReason::Denied(why) => Self::denied(why),
            RefusalReason::Forbidden { group, kind, name, why } => {
                Self::forbidden(&group, &kind, &name, &why)
            }
        };
        failure.by_webhook(&refusal.webhook)
    }
}

/// Optimistic concurrency lost; `kubectl` and client-go look for this sentence.
const STALE: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

const INTERNAL: &str = "Internal error occurred: ";

impl Failure {
    fn new(reason: Reason, message: impl Into<String>, details: Details) -> Self {
        Self { reason, message: message.into(), details: Box::new(details) }
    }

    fn about(reason: Reason, group: &str, resource: &str, name: &str, message: String) -> Self {
        let details = Details {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: resource.to_owned(),
            ..Details::default()
        };
        Self::new(reason, message, details)
    }

    pub(crate) fn not_found(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", qualified(resource, group));
        Self::about(Reason::NotFound, group, resource, name, message)
    }

    /// The path names nothing that is served.
    pub(crate) fn unknown_path() -> Self {
        let message = "the server could not find the requested resource";
        Self::new(Reason::NotFound, message, Details::default())
    }

    pub(crate) fn already_exists(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", qualified(resource, group));
        Self::about(Reason::AlreadyExists, group, resource, name, message)
    }

    /// `why` ends the sentence `Operation cannot be fulfilled on machines.cluster.x-k8s.io "x": ...`.
    pub(crate) fn conflict(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let message =
            format!("Operation cannot be fulfilled on {} \"{name}\": {why}", qualified(resource, group));
        Self::about(Reason::Conflict, group, resource, name, message)
    }

    /// The resource version in the request is not the current one.
    pub(crate) fn stale(group: &str, resource: &str, name: &str) -> Self {
        Self::conflict(group, resource, name, STALE)
    }

    /// Others own what would be applied. Upstream names no object.
    pub(crate) fn apply_conflict(message: String, causes: Vec<Cause>) -> Self {
        Self::new(Reason::Conflict, message, Details { causes, ..Details::default() })
    }

    /// Validation failed. Never empty: the causes are the sentence.
    pub(crate) fn invalid(group: &str, kind: &str, name: &str, causes: Vec<Cause>) -> Self {
        // Upstream's aggregate prints equal errors once, and still lists all of their causes.
        let mut seen = BTreeSet::new();
        let texts: Vec<String> =
            causes.iter().map(Cause::to_string).filter(|text| seen.insert(text.clone())).collect();
        let all = match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let message = format!("{} \"{name}\" is invalid: {all}", qualified(kind, group));
        let mut failure = Self::about(Reason::Invalid, group, kind, name, message);
        failure.details.causes = causes;
        failure
    }

    /// A query option (`dryRun`, `fieldValidation`, ...) that cannot be honoured: `kind` is
    /// `ListOptions`, `CreateOptions`, `PatchOptions`, `UpdateOptions` or `DeleteOptions`.
    pub(crate) fn invalid_options(kind: &str, causes: Vec<Cause>) -> Self {
        Self::invalid("meta.k8s.io", kind, "", causes)
    }

    /// A JSON patch that does not fit the object. Upstream keeps the details to itself.
    pub(crate) fn unpatchable() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self::new(Reason::Invalid, message, Details::default())
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(Reason::BadRequest, message, Details::default())
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(Reason::Unauthorized, "Unauthorized", Details::default())
    }

    /// `why` ends the sentence; an empty name leaves the name out.
    pub(crate) fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let message = match (resource, name) {
            ("", _) => format!("forbidden: {why}"),
            (_, "") => format!("{} is forbidden: {why}", qualified(resource, group)),
            _ => format!("{} \"{name}\" is forbidden: {why}", qualified(resource, group)),
        };
        Self::about(Reason::Forbidden, group, resource, name, message)
    }

    /// Refused by a webhook in a sentence of its own, without the object's name.
    pub(crate) fn denied(why: impl Into<String>) -> Self {
        Self::new(Reason::Forbidden, why, Details::default())
    }

    /// The same refusal as the answer of a webhook: its status stays, its sentence is introduced.
    /// Source: apiserver `pkg/admission/plugin/webhook/errors/statuserror.go` (`ToStatusErr`), v0.35.
    pub(crate) fn by_webhook(mut self, name: &str) -> Self {
        self.message = format!("admission webhook \"{name}\" denied the request: {}", self.message);
        self
    }

    /// Nothing may be created in a namespace that is going away.
    pub(crate) fn namespace_terminating(group: &str, resource: &str, name: &str, namespace: &str) -> Self {
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut failure = Self::forbidden(group, resource, name, &why);
        let message = format!("namespace {namespace} is being terminated");
        failure.details.causes.push(Cause::new(
            CauseReason::NamespaceTerminating,
            "metadata.namespace",
            message,
        ));
        failure
    }

    pub(crate) fn method_not_allowed(group: &str, resource: &str, action: &str) -> Self {
        let message =
            format!("{action} is not supported on resources of kind \"{}\"", qualified(resource, group));
        Self::about(Reason::MethodNotAllowed, group, resource, "", message)
    }

    pub(crate) fn not_acceptable(accepted: &[&str]) -> Self {
        let message = format!("only the following media types are accepted: {}", accepted.join(", "));
        Self::new(Reason::NotAcceptable, message, Details::default())
    }

    pub(crate) fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::new(Reason::UnsupportedMediaType, message, Details::default())
    }

    pub(crate) fn too_large(limit_bytes: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit_bytes}");
        Self::new(Reason::RequestEntityTooLarge, message, Details::default())
    }

    /// An object that the store cannot take because of its size.
    pub(crate) fn request_too_large(why: impl fmt::Display) -> Self {
        Self::new(
            Reason::RequestEntityTooLarge,
            format!("Request entity too large: {why}"),
            Details::default(),
        )
    }

    /// A resource version or continue token from before the history that is kept.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(Reason::Expired, message, Details::default())
    }

    /// A resource version that the store has not reached yet.
    pub(crate) fn too_large_resource_version(wanted: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
        let mut failure = Self::new(Reason::Timeout, message, Details::default());
        failure.details.causes.push(Cause::new(
            CauseReason::ResourceVersionTooLarge,
            "",
            "Too large resource version",
        ));
        // With this client-go asks again by itself, and the revision may be about to come.
        failure.details.retry_after_s = 1;
        failure
    }

    pub(crate) fn timeout(message: impl Into<String>) -> Self {
        Self::new(Reason::Timeout, format!("Timeout: {}", message.into()), Details::default())
    }

    pub(crate) fn too_many_requests(message: impl Into<String>, retry_after_s: u32) -> Self {
        Self::new(Reason::TooManyRequests, message, Details { retry_after_s, ..Details::default() })
    }

    pub(crate) fn unavailable(message: impl Into<String>, retry_after_s: u32) -> Self {
        Self::new(Reason::ServiceUnavailable, message, Details { retry_after_s, ..Details::default() })
    }

    pub(crate) fn internal(why: impl fmt::Display) -> Self {
        Self::new(Reason::InternalError, format!("{INTERNAL}{why}"), Details::default())
    }

    /// A plain 500 without a reason, as upstream answers for a few client mistakes.
    pub(crate) fn unexplained(message: impl Into<String>) -> Self {
        Self::new(Reason::None, message, Details::default())
    }

    /// The HTTP status code.
    pub fn code(&self) -> u16 {
        self.reason.code()
    }

    /// The `Status` object of the response body.
    pub(crate) fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code(),
        });
        if self.reason != Reason::None {
            status["reason"] = Value::from(self.reason.word());
        }
        if !self.details.continue_token.is_empty() {
            status["metadata"]["continue"] = Value::from(self.details.continue_token.as_str());
        }
        if *self.details != Details::default() || self.has_empty_details() {
            status["details"] = self.details.json();
        }
        // Upstream repeats the words as a cause without a type.
        if let (Reason::InternalError, Some(why)) = (self.reason, self.message.strip_prefix(INTERNAL)) {
            status["details"]["causes"] = json!([{ "message": why }]);
        }
        status
    }

    /// Upstream sends `details: {}` where it knew a resource but has no details of it.
    fn has_empty_details(&self) -> bool {
        matches!(self.reason, Reason::NotFound | Reason::Invalid)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl Details {
    fn json(&self) -> Value {
        let mut out = Map::new();
        for (key, text) in
            [("name", &self.name), ("group", &self.group), ("kind", &self.kind), ("uid", &self.uid)]
        {
            if !text.is_empty() {
                out.insert(key.to_owned(), Value::from(text.as_str()));
            }
        }
        if !self.causes.is_empty() {
            out.insert("causes".to_owned(), self.causes.iter().map(Cause::json).collect());
        }
        if self.retry_after_s > 0 {
            out.insert("retryAfterSeconds".to_owned(), Value::from(self.retry_after_s));
        }
        Value::Object(out)
    }
}

/// What a completed deletion answers.
pub fn success(group: &str, resource: &str, name: &str, uid: &str) -> Value {
    let details = Details {
        name: name.to_owned(),
        group: group.to_owned(),
        kind: resource.to_owned(),
        uid: uid.to_owned(),
        ..Details::default()
    };
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details.json(),
    })
}

/// `machines.cluster.x-k8s.io`, or `secrets` in the core group.
fn qualified(resource: &str, group: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: &str = "cluster.x-k8s.io";

    #[test]
    fn a_missing_object_is_told_as_kubectl_expects() {
        assert_eq!(
            Failure::not_found(GROUP, "machinedeployments", "x").status(),
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "machinedeployments.cluster.x-k8s.io \"x\" not found", "reason": "NotFound",
                "details": {"name": "x", "group": GROUP, "kind": "machinedeployments"}, "code": 404,
            })
        );
        assert_eq!(Failure::unknown_path().status()["details"], json!({}));
    }

    #[test]
    fn refusals_are_answered_as_by_webhooks() {
        let refused =
            |why| Failure::from(Refusal { webhook: "validation.x.cluster.x-k8s.io".to_owned(), why });
        let causes = vec![Cause::forbidden("spec.replicas", "cannot be an even number")];
        let invalid = RefusalReason::Invalid {
            group: GROUP,
            kind: "KubeadmControlPlane".to_owned(),
            name: "it".to_owned(),
            causes,
        };
        assert_eq!(
            refused(invalid).status(),
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 422,
                "reason": "Invalid",
                "message": "admission webhook \"validation.x.cluster.x-k8s.io\" denied the request: \
                            KubeadmControlPlane.cluster.x-k8s.io \"it\" is invalid: spec.replicas: Forbidden: \
                            cannot be an even number",
                "details": {"name": "it", "group": GROUP, "kind": "KubeadmControlPlane", "causes": [{
                    "reason": "FieldValueForbidden", "field": "spec.replicas",
                    "message": "Forbidden: cannot be an even number",
                }]},
            })
        );
        assert_eq!(
            refused(RefusalReason::Denied("spec: Forbidden: immutable".to_owned())).status(),
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 403,
                "reason": "Forbidden",
                "message": "admission webhook \"validation.x.cluster.x-k8s.io\" denied the request: spec: Forbidden: \
                            immutable",
            })
        );
        let [group, kind, name, why] = [GROUP, "ClusterClass", "it", "it is used"].map(str::to_owned);
        let forbidden = refused(RefusalReason::Forbidden { group, kind, name, why });
        assert_eq!(
            (forbidden.code(), forbidden.message.as_str()),
            (
                403,
                "admission webhook \"validation.x.cluster.x-k8s.io\" denied the request: \
                 ClusterClass.cluster.x-k8s.io \"it\" is forbidden: it is used"
            )
        );
    }

    #[test]
    fn sentences_and_codes() {
        for (failure, code, message) in [
            (Failure::not_found("", "secrets", "s"), 404, "secrets \"s\" not found"),
            (
                Failure::already_exists(GROUP, "machines", "m"),
                409,
                "machines.cluster.x-k8s.io \"m\" already exists",
            ),
            (
                Failure::stale(GROUP, "machines", "m"),
                409,
                "Operation cannot be fulfilled on machines.cluster.x-k8s.io \"m\": the object has been modified; \
                 please apply your changes to the latest version and try again",
            ),
            (
                Failure::forbidden("", "namespaces", "default", "this namespace may not be deleted"),
                403,
                "namespaces \"default\" is forbidden: this namespace may not be deleted",
            ),
            (
                Failure::forbidden(GROUP, "machines", "", "no"),
                403,
                "machines.cluster.x-k8s.io is forbidden: no",
            ),
            (Failure::too_large(3_145_728), 413, "Request entity too large: limit is 3145728"),
            (
                Failure::too_large_resource_version(9, 3),
                504,
                "Timeout: Too large resource version: 9, current: 3",
            ),
            (Failure::internal("disk"), 500, "Internal error occurred: disk"),
        ] {
            assert_eq!((failure.code(), failure.message.as_str()), (code, message));
        }
    }

    #[test]
    fn validation_lists_each_cause_once() {
        let one = Failure::invalid(GROUP, "Machine", "m", vec![Cause::required("spec.clusterName", "")]);
        assert_eq!(
            one.message,
            "Machine.cluster.x-k8s.io \"m\" is invalid: spec.clusterName: Required value"
        );
        let causes = vec![
            Cause::invalid("a", &json!("x"), "must be y"),
            Cause::invalid("a", &json!("x"), "must be y"),
            Cause::not_supported("b", &json!("C"), &["A", "B"]),
        ];
        let many = Failure::invalid("", "Secret", "s", causes);
        assert_eq!(
            many.message,
            "Secret \"s\" is invalid: [a: Invalid value: \"x\": must be y, \
             b: Unsupported value: \"C\": supported values: \"A\", \"B\"]"
        );
        assert_eq!(many.status()["details"]["causes"][2]["reason"], "FieldValueNotSupported");
    }

    #[test]
    fn an_internal_error_tells_its_cause() {
        let status = Failure::internal("disk").status();
        assert_eq!(status["details"], json!({ "causes": [{ "message": "disk" }] }));
    }

    #[test]
    fn an_unexplained_error_has_no_reason() {
        let status =
            Failure::unexplained("resourceVersion should not be set on objects to be created").status();
        assert_eq!(status["code"], 500);
        assert!(status.get("reason").is_none());
    }
}
