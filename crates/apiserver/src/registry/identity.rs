//! What a body may say about the object its path names: type, name, namespace, uid and resource version
//! must not contradict what is there. Must not know stores or what happens to the object.
//!
//! Source: apiserver `pkg/endpoints/handlers/{create,update,rest}.go`, `pkg/storage/interfaces.go`, v0.35.

use serde_json::Value;

use super::Subject;
use crate::failure::Failure;
use crate::object;
use crate::resource::Resource;
use k8s_machinery::validation::cause::{Cause, CauseReason};

/// `apiVersion` and `kind` must be the endpoint's.
pub(super) fn check_type(resource: &Resource, object: &Value) -> Result<(), Failure> {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    if !object.is_object() || text("kind").is_empty() || text("apiVersion").is_empty() {
        return Err(Failure::bad_request("Object 'Kind' or 'apiVersion' is missing in the request body"));
    }
    if text("apiVersion") != resource.api_version() {
        return Err(Failure::bad_request(format!(
            "the API version in the data ({}) does not match the expected API version ({})",
            text("apiVersion"),
            resource.api_version()
        )));
    }
    if text("kind") == resource.kind {
        return Ok(());
    }
    // A custom kind is judged with its fields (422), a built-in one while it is decoded (400), as
    // upstream.
    if resource.is_custom() {
        let detail = format!("must be {}", resource.kind);
        let cause = Cause::invalid("kind", &object["kind"], &detail);
        return Err(Failure::invalid(&resource.group, &resource.kind, object::name(object), vec![cause]));
    }
    Err(Failure::bad_request(format!(
        "{} in version \"{}\" cannot be handled as a {}",
        text("kind"),
        resource.version,
        resource.kind
    )))
}

/// The namespace of the object is the one of the URL.
pub(super) fn set_namespace(subject: Subject<'_>, object: &mut Value) -> Result<(), Failure> {
    let given = object::text(object, "namespace");
    if !subject.resource.namespaced {
        if !given.is_empty() {
            // As upstream, which clears it where there can be none.
            object::unset(object, "namespace");
        }
        return Ok(());
    }
    if !given.is_empty() && given != subject.namespace {
        return Err(Failure::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    object::set(object, "namespace", subject.namespace.into());
    Ok(())
}

/// Name, namespace, resource version and uid of an update must be those of the stored object, as
/// far as the client gave them.
pub(super) fn check_precondition(subject: Subject<'_>, object: &Value, old: &Value) -> Result<(), Failure> {
    let resource = subject.resource;
    check_name(subject, object)?;
    let namespace = object::text(object, "namespace");
    if resource.namespaced && !namespace.is_empty() && namespace != subject.namespace {
        return Err(Failure::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let version = object::text(object, "resourceVersion");
    if version.is_empty() && !resource.allows_unconditional_update() {
        let message = "Invalid value: 0: must be specified for an update";
        let cause = Cause::new(CauseReason::FieldValueInvalid, "metadata.resourceVersion", message);
        // Upstream names the resource here, not the kind.
        return Err(Failure::invalid(&resource.group, &resource.plural, subject.name, vec![cause]));
    }
    if !version.is_empty() && version != object::text(old, "resourceVersion") {
        return Err(subject.stale());
    }
    check_uid(subject, object, object::text(old, "uid"))
}

/// A uid in an update is a precondition.
fn check_uid(subject: Subject<'_>, object: &Value, found: &str) -> Result<(), Failure> {
    let uid = object::text(object, "uid");
    if uid.is_empty() || uid == found {
        return Ok(());
    }
    let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {found}");
    Err(Failure::conflict(&subject.resource.group, &subject.resource.plural, subject.name, &why))
}

/// The name in a body is the one in the path.
///
/// # Errors
/// 400.
pub fn check_name(subject: Subject<'_>, object: &Value) -> Result<(), Failure> {
    let name = object::name(object);
    if name.is_empty() || name == subject.name {
        return Ok(());
    }
    Err(Failure::bad_request(format!(
        "the name of the object ({name}) does not match the name on the URL ({})",
        subject.name
    )))
}

/// An update that will create: a uid in it names an object that is not there, a resource version says
/// nothing.
///
/// # Errors
/// 400 for another name, 409 for a uid.
pub fn check_upsert(subject: Subject<'_>, object: &mut Value) -> Result<(), Failure> {
    check_name(subject, object)?;
    check_uid(subject, object, "")?;
    object::unset(object, "resourceVersion");
    Ok(())
}
