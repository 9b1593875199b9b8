//! What an action does to an object: the exact change, a merge patch or a deletion, and one sentence about it. Pure.
//! Source: cluster-api `cmd/clusterctl/client/alpha` (rollout restart / pause / resume), v1.14.2.
//! Intended difference: pausing a MachineSet, Machine or MachinePool sets the paused annotation;
//! clusterctl has no such command.

use serde_json::{Value, json};

use super::fields::{self, Fields};
use super::{Action, ActionError};
use crate::operations::journal::Done;
use capi_types::names::annotation;
use capstan_base::time::{self, Timestamp};
use k8s_machinery::merge;

/// What will be sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    /// RFC 7386 merge patch on the main resource.
    Patch(Value),
    /// The same, once these objects are there. One that is there already, with the same spec, is as good.
    PatchAfter {
        made: Vec<Value>,
        patch: Value,
    },
    Delete,
}

impl Edit {
    pub fn patch(&self) -> Option<&Value> {
        match self {
            Self::Patch(patch) | Self::PatchAfter { patch, .. } => Some(patch),
            Self::Delete => None,
        }
    }

    /// What is made first.
    pub fn made(&self) -> &[Value] {
        match self {
            Self::PatchAfter { made, .. } => made,
            Self::Patch(_) | Self::Delete => &[],
        }
    }
}

/// The change that `action` makes to `object` at `now`, in the `fields` of the version that the object was read in. Its kind takes the
/// action.
///
/// # Errors
/// `Refused` when there is nothing to change, when the version has no place for it, or when upstream's command refuses it.
pub fn edit(action: &Action, object: &Value, fields: &Fields, now: Timestamp) -> Result<Edit, ActionError> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let patch = match action {
        Action::Scale { replicas } => fields::patch(fields::REPLICAS, json!(replicas)),
        Action::Restart => restart(kind, object, fields, now)?,
        Action::RolloutAfter { at } => fields::patch(fields.rollout_after()?, time::rfc3339(*at).into()),
        Action::ClearSchedule => clear_schedule(object, fields, now)?,
        Action::SetVersion { version } => set_version(kind, object, version)?,
        // Without the templates that a change of fields needs.
        Action::UpdateInPlace(change) => return change.edit(kind, object, &[]),
        Action::Pause => pause(kind, object)?,
        Action::Resume => resume(kind, object)?,
        Action::Remediate => remediate(object)?,
        Action::Label(change) => change.patch("labels"),
        Action::Annotate(change) => change.patch("annotations"),
        Action::Edit(change) => {
            let overlaps = |fields| refused(format!("others changed the same since you opened it: {fields}"));
            change.patch_of(object).map_err(overlaps)?.clone()
        }
        Action::Delete => return Ok(Edit::Delete),
        Action::Undo => return Err(refused("what to put back stands in the journal".to_owned())),
    };
    if is_changed_by(object, &patch) {
        Ok(Edit::Patch(patch))
    } else {
        Err(nothing(object, &already(action)))
    }
}

/// Is anything of the object another one after a patch?
pub(super) fn is_changed_by(object: &Value, patch: &Value) -> bool {
    let mut after = object.clone();
    merge::apply(&mut after, patch);
    after != *object
}

/// The refusal of what would change nothing, with the reason.
pub(super) fn nothing(object: &Value, why: &str) -> ActionError {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
    refused(format!("nothing to change: {kind} {name} {why}"))
}

fn already(action: &Action) -> String {
    match action {
        Action::Scale { replicas: 1 } => "has 1 replica already".to_owned(),
        Action::Scale { replicas } => format!("has {replicas} replicas already"),
        Action::RolloutAfter { at } => format!("has a rollout after {} already", time::rfc3339(*at)),
        Action::SetVersion { version } => format!("is to have {version} already"),
        _ => "is as asked for already".to_owned(),
    }
}

/// The moment after which every Machine is replaced.
pub(super) fn rollout_after(object: &Value) -> Option<Timestamp> {
    let moment = |pointer| object.pointer(pointer).and_then(Value::as_str).and_then(time::parse_rfc3339);
    fields::ROLLOUT_AFTER.into_iter().find_map(moment)
}

/// The patch that puts back what `patch` changes in `object`.
pub fn inverse(patch: &Value, object: &Value) -> Value {
    let Value::Object(fields) = patch else { return object.clone() };
    let back = |(field, changed): (&String, &Value)| {
        // A field that the object does not have is null here, and null in a merge patch removes it
        // again.
        let now = &object[field];
        let both = changed.is_object() && now.is_object();
        (field.clone(), if both { inverse(changed, now) } else { now.clone() })
    };
    Value::Object(fields.iter().map(back).collect())
}

/// The change that takes back what was done last.
///
/// # Errors
/// `Refused`: nothing is known to have been done, it cannot be taken back, or others have changed the same since.
pub fn undo(last: Option<Done>, object: &Value) -> Result<Edit, ActionError> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let kind = object["kind"].as_str().unwrap_or_default();
    let Some(Done { at, user, action, api_version, patch, back, .. }) = last else {
        return Err(refused(format!("the journal has nothing that was done to {kind} {name} from here")));
    };
    let what = format!("`{action}` of {kind} {name} at {at} by {user}");
    // The journal still has the old version, but putting it back would be a downgrade.
    if action == "set-version" {
        return Err(refused(format!("{what} stays: Kubernetes does not support downgrades")));
    }
    // The stored patch names fields as its version has them; another version may keep them
    // elsewhere.
    if let Some(then) = api_version.filter(|then| object["apiVersion"] != then.as_str()) {
        let now = object["apiVersion"].as_str().unwrap_or_default();
        return Err(refused(format!(
            "{what} was written in {then}, and the server now offers {now}: change it anew"
        )));
    }
    match (patch, back) {
        // What the last action set is not there any more: putting the old value back would undo the
        // change of somebody else.
        (Some(patch), Some(_)) if fields::lost(&patch, object).is_some() => {
            Err(refused(format!("{what} was changed since by somebody else; look at it first")))
        }
        (Some(_), Some(back)) if !is_changed_by(object, &back) => {
            Err(nothing(object, "is as it was before the last action from here"))
        }
        (Some(_), Some(back)) => Ok(Edit::Patch(back)),
        _ => Err(refused(format!("{what} cannot be taken back"))),
    }
}

fn restart(kind: &str, object: &Value, fields: &Fields, now: Timestamp) -> Result<Value, ActionError> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    // clusterctl refuses both as well, a paused object and a rollout that is scheduled for later.
    if is_paused(kind, object) {
        return Err(refused(format!(
            "cannot restart the rollout of {kind} {name}: it is paused; resume it first"
        )));
    }
    if let Some(after) = rollout_after(object).filter(|after| *after > now) {
        return Err(refused(format!(
            "cannot restart the rollout of {kind} {name}: one is scheduled for {}; clear that first (rollout clear)",
            time::rfc3339(after)
        )));
    }
    Ok(fields::patch(fields.rollout_after()?, time::rfc3339(now).into()))
}

/// A moment that has come has begun a rollout, which goes on without it or not depending on its owner: that is not what
/// somebody means who clears a schedule.
fn clear_schedule(object: &Value, fields: &Fields, now: Timestamp) -> Result<Value, ActionError> {
    match rollout_after(object) {
        Some(after) if after > now => Ok(fields::patch(fields.rollout_after()?, Value::Null)),
        Some(after) => {
            let began = time::rfc3339(after);
            Err(nothing(object, &format!("has no scheduled rollout: the last one began at {began}")))
        }
        None => Err(nothing(object, "has no scheduled rollout")),
    }
}

fn set_version(kind: &str, object: &Value, version: &str) -> Result<Value, ActionError> {
    if kind == "Cluster" && !object["spec"]["topology"].is_object() {
        return Err(refused(
            "this Cluster has no spec.topology, so its version is set on its control plane and on each deployment".to_owned(),
        ));
    }
    Ok(fields::patch(fields::kubernetes_version(kind), json!(version)))
}

/// Kinds with a `spec.paused`; every other kind takes the annotation.
fn has_paused_field(kind: &str) -> bool {
    matches!(kind, "Cluster" | "MachineDeployment")
}

/// Paused by its own field or annotation (not by its Cluster).
pub(super) fn is_paused(kind: &str, object: &Value) -> bool {
    (has_paused_field(kind) && has_paused_set(object)) || is_annotated_paused(object)
}

fn has_paused_set(object: &Value) -> bool {
    object.pointer(fields::PAUSED) == Some(&Value::Bool(true))
}

pub(super) fn is_annotated_paused(object: &Value) -> bool {
    !object["metadata"]["annotations"][annotation::PAUSED].is_null()
}

fn pause(kind: &str, object: &Value) -> Result<Value, ActionError> {
    if is_paused(kind, object) {
        return Err(nothing(object, "is paused already"));
    }
    Ok(if has_paused_field(kind) {
        fields::patch(fields::PAUSED, json!(true))
    } else {
        json!({"metadata": {"annotations": {annotation::PAUSED: "true"}}})
    })
}

/// Takes away every way in which the object itself is paused.
fn resume(kind: &str, object: &Value) -> Result<Value, ActionError> {
    if !is_paused(kind, object) {
        return Err(nothing(object, "is not paused"));
    }
    let mut patch = json!({});
    if has_paused_field(kind) && has_paused_set(object) {
        fields::put(&mut patch, fields::PAUSED, json!(false));
    }
    if is_annotated_paused(object) {
        patch["metadata"] = json!({"annotations": {annotation::PAUSED: null}});
    }
    Ok(patch)
}

/// Only the presence of the annotation counts.
fn remediate(object: &Value) -> Result<Value, ActionError> {
    if !object["metadata"]["annotations"][annotation::REMEDIATE_MACHINE].is_null() {
        return Err(nothing(object, "is marked for remediation already"));
    }
    Ok(json!({"metadata": {"annotations": {annotation::REMEDIATE_MACHINE: ""}}}))
}

fn refused(text: String) -> ActionError {
    ActionError::Refused(text)
}

/// So many changed fields are named in a sentence.
const SUMMARY_FIELDS: usize = 4;

/// One sentence: what will happen.
pub fn summary(action: &Action, object: &Value) -> String {
    let kind = object["kind"].as_str().unwrap_or_default();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    match action {
        Action::Scale { replicas } => match object["spec"]["replicas"].as_i64() {
            Some(from) => format!("Scale {kind} {name} from {from} to {replicas}."),
            None => format!("Scale {kind} {name} to {replicas}."),
        },
        Action::Restart => format!("Replace every Machine of {kind} {name}, beginning now."),
        Action::RolloutAfter { at } => format!(
            "Replace every Machine of {kind} {name} that was created before {}, beginning then.",
            time::rfc3339(*at)
        ),
        Action::ClearSchedule => format!(
            "Take the rollout of {kind} {name} that is scheduled for {} away; no Machine is replaced for it.",
            rollout_after(object).map_or_else(|| "a later moment".to_owned(), time::rfc3339)
        ),
        Action::SetVersion { version } => format!(
            "Move {kind} {name} from {} to {version}; its Machines follow one by one.",
            version_of(object).unwrap_or("an unstated version")
        ),
        Action::UpdateInPlace(change) => {
            let way = if change.allows_replacement { ", or replaced" } else { "" };
            format!("Change {kind} {name}: {change}; its Machines are updated where they stand{way}.")
        }
        Action::Pause if kind == "MachineDeployment" => {
            format!("Pause {kind} {name}: rollouts stop, scaling goes on.")
        }
        Action::Pause => format!("Pause {kind} {name}: nothing below it is reconciled until it is resumed."),
        Action::Resume => format!("Resume {kind} {name}: what was held back begins at once."),
        Action::Label(change) => format!("Change labels of {kind} {name}: {change}."),
        Action::Annotate(change) => format!("Change annotations of {kind} {name}: {change}."),
        Action::Edit(change) => {
            let fields = change.fields();
            let more = fields.len().saturating_sub(SUMMARY_FIELDS);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let first: Vec<&str> = fields.iter().take(SUMMARY_FIELDS).map(String::as_str).collect();
            format!("Change {kind} {name}: {}{more}.", first.join(", "))
        }
        Action::Undo => format!("Put {kind} {name} back to what it was before the last action from here."),
        Action::Remediate => {
            format!(
                "Mark {kind} {name} for remediation: its health check fails, and its owner replaces it when its rules allow."
            )
        }
        Action::Delete => {
            format!("Delete {kind} {name}: its node is drained, then its infrastructure is removed.")
        }
    }
}

/// The Kubernetes version that an object asks for.
pub(super) fn version_of(object: &Value) -> Option<&str> {
    let kind = object["kind"].as_str().unwrap_or_default();
    object.pointer(fields::kubernetes_version(kind)).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        time::parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment")
    }

    fn object(kind: &str, spec: Value) -> Value {
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": "x"}, "spec": spec})
    }

    fn edited(action: &Action, object: &Value) -> Result<Edit, ActionError> {
        edit(action, object, &Fields::of(object).expect("fields"), now())
    }

    fn patch(action: Action, object: &Value) -> Value {
        match edited(&action, object) {
            Ok(Edit::Patch(patch)) => patch,
            other => panic!("expected a patch, got {other:?}"),
        }
    }

    fn refusal(action: Action, object: &Value) -> String {
        edited(&action, object).expect_err("a refusal").to_string()
    }

    #[test]
    fn each_action_changes_exactly_its_field() {
        let md = object("MachineDeployment", json!({}));
        let kcp = object("KubeadmControlPlane", json!({}));
        let at = now() + chrono::Duration::hours(2);
        let scheduled = object("MachineDeployment", json!({"rollout": {"after": "2026-11-20T10:00:01Z"}}));
        for (action, on, expected) in [
            (Action::Scale { replicas: 5 }, &md, json!({"spec": {"replicas": 5}})),
            (Action::Restart, &md, json!({"spec": {"rollout": {"after": "2026-11-20T10:00:00Z"}}})),
            (
                Action::RolloutAfter { at },
                &kcp,
                json!({"spec": {"rollout": {"after": "2026-11-20T12:00:00Z"}}}),
            ),
            (Action::SetVersion { version: "v1.36.2".into() }, &kcp, json!({"spec": {"version": "v1.36.2"}})),
            (
                Action::SetVersion { version: "v1.36.2".into() },
                &md,
                json!({"spec": {"template": {"spec": {"version": "v1.36.2"}}}}),
            ),
            (Action::ClearSchedule, &scheduled, json!({"spec": {"rollout": {"after": null}}})),
            (
                Action::Remediate,
                &object("Machine", json!({})),
                json!({"metadata": {"annotations": {annotation::REMEDIATE_MACHINE: ""}}}),
            ),
            (Action::Pause, &md, json!({"spec": {"paused": true}})),
            (Action::Pause, &kcp, json!({"metadata": {"annotations": {annotation::PAUSED: "true"}}})),
        ] {
            assert_eq!(patch(action.clone(), on), expected, "{action}");
        }
    }

    #[test]
    fn the_inverse_puts_back_what_was_there_and_nothing_else() {
        for (object, patch, back) in [
            (
                json!({"spec": {"replicas": 3, "paused": true}}),
                json!({"spec": {"replicas": 5}}),
                json!({"spec": {"replicas": 3}}),
            ),
            (
                json!({"spec": {}}),
                json!({"spec": {"rollout": {"after": "x"}}}),
                json!({"spec": {"rollout": null}}),
            ),
            (
                json!({"spec": {"rollout": {"strategy": {"type": "OnDelete"}}}}),
                json!({"spec": {"rollout": {"after": "x"}}}),
                json!({"spec": {"rollout": {"after": null}}}),
            ),
            (
                json!({"metadata": {"name": "a"}}),
                json!({"metadata": {"annotations": {"p": "true"}}}),
                json!({"metadata": {"annotations": null}}),
            ),
        ] {
            assert_eq!(inverse(&patch, &object), back);
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
        assert!(refusal(Action::Restart, &scheduled).contains("clear that first"));
        let begun = object("MachineDeployment", json!({"rollout": {"after": "2026-11-20T10:00:00Z"}}));
        assert!(refusal(Action::ClearSchedule, &begun).contains("the last one began"));
        assert!(refusal(Action::ClearSchedule, &paused).contains("has no scheduled rollout"));
        assert!(refusal(Action::Pause, &paused).contains("paused already"));
        assert!(refusal(Action::Resume, &plain).contains("not paused"));
        assert!(
            refusal(Action::SetVersion { version: "v1.36.2".into() }, &plain).contains("no spec.topology")
        );
        let mut marked = object("Machine", json!({}));
        marked["metadata"]["annotations"] = json!({annotation::REMEDIATE_MACHINE: ""});
        assert!(refusal(Action::Remediate, &marked).contains("marked for remediation already"));
    }
}
