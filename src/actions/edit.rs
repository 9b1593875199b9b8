//! Action → the exact change: a merge patch or a deletion. Pure.
//! Source: cluster-api `cmd/clusterctl/client/alpha` (rollout restart / pause / resume), v1.14.0.
//! Intended difference: pausing a MachineSet, Machine or MachinePool sets the paused annotation;
//! clusterctl has no such command.

use serde_json::{Value, json};

use super::{Action, ActionError};
use crate::api::names::annotation;
use crate::time::{self, Timestamp};

/// What will be sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    /// RFC 7386 merge patch on the main resource.
    Patch(Value),
    Delete,
}

/// The change that `action` makes to `object` at `now`.
///
/// # Errors
/// `Refused` when the object is already in the asked state or upstream's command refuses it.
pub fn edit(action: &Action, object: &Value, now: Timestamp) -> Result<Edit, ActionError> {
    let kind = object["kind"].as_str().unwrap_or_default();
    if !action.applies_to(kind) {
        return Err(not_applicable(action, kind));
    }
    let patch = match action {
        Action::Scale { replicas } => scale(*replicas)?,
        Action::Restart => restart(kind, object, now)?,
        Action::RolloutAfter { at } => json!({"spec": {"rollout": {"after": time::rfc3339(*at)}}}),
        Action::SetVersion { version } => set_version(kind, object, version)?,
        Action::Pause => pause(kind, object)?,
        Action::Resume => resume(kind, object)?,
        Action::Delete => return Ok(Edit::Delete),
    };
    Ok(Edit::Patch(patch))
}

fn scale(replicas: i32) -> Result<Value, ActionError> {
    if replicas < 0 {
        return Err(refused(format!("cannot scale to {replicas}: replicas are 0 or more")));
    }
    Ok(json!({"spec": {"replicas": replicas}}))
}

fn restart(kind: &str, object: &Value, now: Timestamp) -> Result<Value, ActionError> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if is_paused(kind, object) {
        return Err(refused(format!(
            "cannot restart the rollout of {kind} {name}: it is paused; resume it first"
        )));
    }
    let scheduled = object["spec"]["rollout"]["after"].as_str().and_then(time::parse_rfc3339);
    if let Some(after) = scheduled.filter(|after| *after > now) {
        return Err(refused(format!(
            "cannot restart the rollout of {kind} {name}: one is scheduled for {}; remove spec.rollout.after first",
            time::rfc3339(after)
        )));
    }
    Ok(json!({"spec": {"rollout": {"after": time::rfc3339(now)}}}))
}

fn set_version(kind: &str, object: &Value, version: &str) -> Result<Value, ActionError> {
    let bare = version.strip_prefix('v').unwrap_or(version);
    if semver::Version::parse(bare).is_err() {
        return Err(refused(format!(
            "`{version}` is not a Kubernetes version; expected something like v1.36.2"
        )));
    }
    let version = format!("v{bare}");
    match kind {
        "Cluster" if object["spec"]["topology"].is_object() => Ok(json!({"spec": {"topology": {"version": version}}})),
        "Cluster" => Err(refused(
            "this Cluster has no spec.topology, so its version is set on its control plane and on each deployment".to_owned(),
        )),
        "KubeadmControlPlane" => Ok(json!({"spec": {"version": version}})),
        _ => Ok(json!({"spec": {"template": {"spec": {"version": version}}}})),
    }
}

/// Kinds with a `spec.paused`; every other kind takes the annotation.
fn has_paused_field(kind: &str) -> bool {
    matches!(kind, "Cluster" | "MachineDeployment")
}

/// Paused by its own field or annotation (not by its Cluster).
pub(super) fn is_paused(kind: &str, object: &Value) -> bool {
    (has_paused_field(kind) && object["spec"]["paused"] == json!(true)) || is_annotated_paused(object)
}

pub(super) fn is_annotated_paused(object: &Value) -> bool {
    !object["metadata"]["annotations"][annotation::PAUSED].is_null()
}

fn pause(kind: &str, object: &Value) -> Result<Value, ActionError> {
    if is_paused(kind, object) {
        return Err(refused(format!(
            "{kind} {} is paused already",
            object["metadata"]["name"].as_str().unwrap_or_default()
        )));
    }
    Ok(if has_paused_field(kind) {
        json!({"spec": {"paused": true}})
    } else {
        json!({"metadata": {"annotations": {annotation::PAUSED: "true"}}})
    })
}

/// Takes away every way in which the object itself is paused.
fn resume(kind: &str, object: &Value) -> Result<Value, ActionError> {
    if !is_paused(kind, object) {
        return Err(refused(format!(
            "{kind} {} is not paused",
            object["metadata"]["name"].as_str().unwrap_or_default()
        )));
    }
    let mut patch = json!({});
    if has_paused_field(kind) && object["spec"]["paused"] == json!(true) {
        patch["spec"] = json!({"paused": false});
    }
    if is_annotated_paused(object) {
        patch["metadata"] = json!({"annotations": {annotation::PAUSED: null}});
    }
    Ok(patch)
}

fn refused(text: String) -> ActionError {
    ActionError::Refused(text)
}

fn not_applicable(action: &Action, kind: &str) -> ActionError {
    let takers = match action {
        Action::Scale { .. } => "KubeadmControlPlane, MachineDeployment, MachineSet and MachinePool",
        Action::Restart | Action::RolloutAfter { .. } => "KubeadmControlPlane and MachineDeployment",
        Action::SetVersion { .. } => {
            "KubeadmControlPlane, MachineDeployment, MachinePool and Clusters with a topology"
        }
        Action::Pause | Action::Resume => "Cluster and everything that holds Machines",
        Action::Delete => "Machine",
    };
    ActionError::NotApplicable { kind: kind.to_owned(), action: action.name(), takers }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        time::parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment")
    }

    fn object(kind: &str, spec: Value) -> Value {
        json!({"kind": kind, "metadata": {"name": "x"}, "spec": spec})
    }

    fn patch(action: Action, object: &Value) -> Value {
        match edit(&action, object, now()) {
            Ok(Edit::Patch(patch)) => patch,
            other => panic!("expected a patch, got {other:?}"),
        }
    }

    fn refusal(action: Action, object: &Value) -> String {
        edit(&action, object, now()).expect_err("a refusal").to_string()
    }

    #[test]
    fn each_action_changes_exactly_its_field() {
        let md = object("MachineDeployment", json!({}));
        let kcp = object("KubeadmControlPlane", json!({}));
        let at = now() + chrono::Duration::hours(2);
        for (action, on, expected) in [
            (Action::Scale { replicas: 5 }, &md, json!({"spec": {"replicas": 5}})),
            (Action::Restart, &md, json!({"spec": {"rollout": {"after": "2026-11-20T10:00:00Z"}}})),
            (
                Action::RolloutAfter { at },
                &kcp,
                json!({"spec": {"rollout": {"after": "2026-11-20T12:00:00Z"}}}),
            ),
            (Action::SetVersion { version: "1.36.2".into() }, &kcp, json!({"spec": {"version": "v1.36.2"}})),
            (
                Action::SetVersion { version: "v1.36.2".into() },
                &md,
                json!({"spec": {"template": {"spec": {"version": "v1.36.2"}}}}),
            ),
            (Action::Pause, &md, json!({"spec": {"paused": true}})),
            (Action::Pause, &kcp, json!({"metadata": {"annotations": {annotation::PAUSED: "true"}}})),
        ] {
            assert_eq!(patch(action.clone(), on), expected, "{action}");
        }
    }

    #[test]
    fn resume_takes_away_every_way_of_being_paused() {
        let mut md = object("MachineDeployment", json!({"paused": true}));
        md["metadata"]["annotations"] = json!({annotation::PAUSED: ""});
        assert_eq!(
            patch(Action::Resume, &md),
            json!({"spec": {"paused": false}, "metadata": {"annotations": {annotation::PAUSED: null}}})
        );
    }

    #[test]
    fn what_upstream_refuses_is_refused() {
        let paused = object("MachineDeployment", json!({"paused": true}));
        let scheduled = object("KubeadmControlPlane", json!({"rollout": {"after": "2026-11-20T10:00:01Z"}}));
        let plain = object("Cluster", json!({}));
        assert!(refusal(Action::Restart, &paused).contains("resume it first"));
        assert!(refusal(Action::Restart, &scheduled).contains("remove spec.rollout.after first"));
        assert!(refusal(Action::Pause, &paused).contains("paused already"));
        assert!(refusal(Action::Resume, &plain).contains("not paused"));
        assert!(refusal(Action::Scale { replicas: -1 }, &paused).contains("0 or more"));
        assert!(
            refusal(Action::SetVersion { version: "latest".into() }, &paused)
                .contains("not a Kubernetes version")
        );
        assert!(
            refusal(Action::SetVersion { version: "v1.36.2".into() }, &plain).contains("no spec.topology")
        );
        assert!(refusal(Action::Delete, &plain).contains("works on Machine"));
    }
}
