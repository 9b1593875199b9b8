//! Changes that are only tried on objects that were read: what they would be, and whether Cluster API would take them. Owns
//! how a change is put on a dump; must not know how it was written, nor what follows from it.

use kube::Resource as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use capi_rules::admission::Webhooks;
use capi_rules::observe::dump::Dump;
use capi_rules::observe::older_version;
use capi_types::cluster::Cluster;
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::key::{ObjectKey, ObjectRef, group_of};
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use capi_types::machine_health_check::MachineHealthCheck;
use capi_types::machine_set::MachineSet;
use capi_types::names::VERSION;
use k8s_machinery::admission::{Admission as _, Found, Known, Need, Refusal, Request};
use k8s_machinery::merge;

/// What is tried on a Cluster: changes of its objects, and Machines that fail.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tried {
    pub changes: Vec<TriedChange>,
    /// Machines by name, whose Nodes stop to report at the beginning.
    pub failing: Vec<String>,
}

/// One change of one object.
#[derive(Clone, Debug, PartialEq)]
pub struct TriedChange {
    /// Where it came from, for sentences about it.
    pub origin: String,
    /// Group, kind and key; the group may be empty when the kind is known.
    pub object: ObjectRef,
    pub edit: TriedEdit,
}

/// How an object is changed.
#[derive(Clone, Debug, PartialEq)]
pub enum TriedEdit {
    /// A merge patch in v1beta2, or in the version of a provider's kind.
    Merge(Value),
    /// A merge patch in v1beta1 of an object that was read in it.
    Older(Value),
    /// A merge patch that does not say its version: v1beta2, or else that of the object.
    Either(Value),
    /// One field, by its path.
    Set { path: Vec<String>, value: Value },
}

/// Why a change does not apply.
#[derive(Debug, thiserror::Error)]
pub enum TriedError {
    #[error("{origin}: there is no {kind} {key} among the objects")]
    Missing { origin: String, kind: String, key: ObjectKey },
    #[error("{origin}: {object} has no place for a field at {path}")]
    NoPlace { origin: String, object: String, path: String },
    #[error("{origin}: {object} would not be valid: {error}")]
    Invalid { origin: String, object: String, error: serde_json::Error },
    #[error("{origin}: {path} is not a field of a {kind}")]
    NotAField { origin: String, path: String, kind: String },
    #[error(
        "{origin}: the patch is in v1beta1, and {object} is at hand in {VERSION}: write the patch in {VERSION}"
    )]
    OtherVersion { origin: String, object: String },
    #[error(
        "{origin}: {path} of v1beta1 changes nothing of a {kind} that is looked at here: check its name, or leave it out"
    )]
    NoEffect { origin: String, path: String, kind: String },
    #[error("{origin}: Cluster API refuses it: {refusal}")]
    Refused { origin: String, refusal: Refusal },
}

/// The words that stand for a field, in the order of help.
pub const SHORT_WORDS: [&str; 4] = ["surge", "unavailable", "replicas", "version"];

/// The change that a word stands for in a kind; `None` when the kind has no such field.
pub fn short_edit(kind: &str, word: &str, value: &Value) -> Option<TriedEdit> {
    let is_deployment = kind == "MachineDeployment";
    if !is_deployment && kind != "KubeadmControlPlane" {
        return None;
    }
    let rolling = |field: &str| {
        // `rollingUpdate` counts only with this type.
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {field: value}});
        json!({"rollout": {"strategy": strategy}})
    };
    let spec = match word {
        "surge" => rolling("maxSurge"),
        "unavailable" if is_deployment => rolling("maxUnavailable"),
        "replicas" => json!({"replicas": value}),
        "version" if is_deployment => json!({"template": {"spec": {"version": value}}}),
        "version" => json!({"version": value}),
        _ => return None,
    };
    Some(TriedEdit::Merge(json!({"spec": spec})))
}

/// Puts changes on the objects of a dump, in order.
///
/// # Errors
/// An object that is not there, a field that does not exist, a value of another type, or what Cluster API refuses.
pub fn apply(dump: &mut Dump, changes: &[TriedChange]) -> Result<(), TriedError> {
    for change in changes {
        put_on(dump, change)?;
    }
    Ok(())
}

fn put_on(dump: &mut Dump, change: &TriedChange) -> Result<(), TriedError> {
    let TriedChange { origin, object, .. } = change;
    let (group, kind) = (object.gvk.group.as_str(), object.gvk.kind.as_str());
    let Some(old) = dump.raw(group, kind, &object.key).cloned() else {
        let (kind, key) = (kind.to_owned(), object.key.clone());
        return Err(TriedError::Missing { origin: origin.clone(), kind, key });
    };
    let Edited { mut new, older } = edited(dump, &old, change)?;
    let request = Request { group, kind, old: Some(&old), dry_run: false };
    let refused = |refusal| TriedError::Refused { origin: origin.clone(), refusal };
    Webhooks.mutate(&request, &mut new).map_err(refused)?;
    let known = known(dump, Webhooks.needs(&request, &new));
    Webhooks.check(&request, &new, &known).map_err(refused)?;
    // A server does the same: the change has to look as one that no controller has observed yet.
    if new["spec"] != old["spec"] {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or(1);
        new["metadata"]["generation"] = (generation + 1).into();
    }
    dump.replace(new);
    if let Some(older) = older {
        dump.keep_older(older);
    }
    Ok(())
}

/// What an object would be.
struct Edited {
    new: Value,
    /// In v1beta1, where the edit is.
    older: Option<Value>,
}

fn edited(dump: &Dump, old: &Value, change: &TriedChange) -> Result<Edited, TriedError> {
    let TriedChange { object, edit, .. } = change;
    let nested: Value;
    let patch = match edit {
        TriedEdit::Merge(_) => return edited_newer(old, change),
        TriedEdit::Older(patch) => return edited_older(dump, old, change, patch),
        TriedEdit::Either(patch) => patch,
        TriedEdit::Set { path, value } => {
            nested = path.iter().rev().fold(value.clone(), |below, name| json!({name: below}));
            &nested
        }
    };
    let newer = edited_newer(old, change);
    let has_older = dump.older(&object.gvk.group, &object.gvk.kind, &object.key).is_some();
    let does_nothing = newer.as_ref().map_or(true, |edited| edited.new == *old);
    if !(has_older && does_nothing) {
        return newer;
    }
    // A field of one version alone is none of the other, and taking it away there does nothing.
    match (edited_older(dump, old, change, patch), newer, edit) {
        (Ok(older), ..) => Ok(older),
        // Of a path less is known: what is wrong in both is said of the newer.
        (Err(why), Err(_), TriedEdit::Either(_)) => Err(why),
        (_, newer, _) => newer,
    }
}

fn edited_newer(old: &Value, change: &TriedChange) -> Result<Edited, TriedError> {
    let TriedChange { origin, object, edit } = change;
    let mut new = old.clone();
    match edit {
        TriedEdit::Merge(patch) | TriedEdit::Older(patch) | TriedEdit::Either(patch) => {
            merge::apply(&mut new, patch);
        }
        TriedEdit::Set { path, value } => set(&mut new, path, value.clone())
            .map_err(|at| TriedError::NoPlace { origin: origin.clone(), object: named(object), path: at })?,
    }
    let Some(seen) = typed(change, &new)? else { return Ok(Edited { new, older: None }) };
    let lost = match edit {
        TriedEdit::Merge(patch) | TriedEdit::Older(patch) | TriedEdit::Either(patch) => {
            lost(patch, &seen, "")
        }
        TriedEdit::Set { path, value } => {
            let gone = path.iter().try_fold(&seen, |at, part| match at {
                Value::Array(list) => part.parse::<usize>().ok().and_then(|at| list.get(at)),
                other => other.get(part),
            });
            (gone.is_none() && !value.is_null()).then(|| path.join("."))
        }
    };
    match lost {
        Some(path) => {
            Err(TriedError::NotAField { origin: origin.clone(), path, kind: object.gvk.kind.clone() })
        }
        None => Ok(Edited { new, older: None }),
    }
}

/// The patch is put on the object as it was read, and what that changes in v1beta2 on the object as it is.
fn edited_older(dump: &Dump, old: &Value, change: &TriedChange, patch: &Value) -> Result<Edited, TriedError> {
    let TriedChange { origin, object, .. } = change;
    let Some(before) = dump.older(&object.gvk.group, &object.gvk.kind, &object.key) else {
        return Err(TriedError::OtherVersion { origin: origin.clone(), object: named(object) });
    };
    let newer = |patch: &Value| {
        let (mut older, mut newer) = (before.clone(), Value::Null);
        merge::apply(&mut older, patch);
        newer.clone_from(&older);
        older_version::convert(&mut newer);
        (older, newer)
    };
    let (_, unchanged) = newer(&json!({}));
    // A field that the conversion does not know would go without a word.
    for (path, value) in leaves(patch) {
        let is_change = pointed(before, &path) != Some(value);
        let alone = path.iter().rev().fold(value.clone(), |below, name| json!({*name: below}));
        if is_change && typed(change, &newer(&alone).1)? == typed(change, &unchanged)? {
            let (path, kind) = (path.join("."), object.gvk.kind.clone());
            return Err(TriedError::NoEffect { origin: origin.clone(), path, kind });
        }
    }
    let (older, after) = newer(patch);
    let mut new = old.clone();
    if let Some(difference) = merge::merge_diff(&unchanged, &after) {
        merge::apply(&mut new, &difference);
    }
    typed(change, &new)?;
    Ok(Edited { new, older: Some(older) })
}

/// What a patch sets, with the fields down to it; what it takes away is none.
fn leaves(patch: &Value) -> Vec<(Vec<&str>, &Value)> {
    let Value::Object(fields) = patch else { return vec![(Vec::new(), patch)] };
    let below = fields.iter().filter(|(_, value)| !value.is_null()).flat_map(|(name, value)| {
        leaves(value).into_iter().map(move |(mut path, leaf)| {
            path.insert(0, name.as_str());
            (path, leaf)
        })
    });
    below.collect()
}

fn pointed<'v>(value: &'v Value, path: &[&str]) -> Option<&'v Value> {
    path.iter().try_fold(value, |at, name| at.get(*name))
}

fn named(object: &ObjectRef) -> String {
    format!("{} {}", object.gvk.kind, object.key)
}

/// What the rules look at besides the object.
fn known(dump: &Dump, needs: Vec<Need>) -> Known {
    let mut known = Known::default();
    for need in needs {
        let is_sought = |key: &ObjectKey| {
            (need.namespace.is_empty() || key.namespace == need.namespace)
                && (need.name.is_empty() || key.name == need.name)
        };
        let found = if dump.has_kind(&need.group, &need.kind) {
            let all = dump.all(&need.group, &need.kind);
            Found::Objects(all.filter(|(key, _)| is_sought(key)).map(|(_, value)| value.clone()).collect())
        } else {
            Found::NotServed
        };
        known.add(need, found);
    }
    known
}

/// `Err`: the path of what is neither a map nor a list with such an entry.
fn set(target: &mut Value, path: &[String], value: Value) -> Result<(), String> {
    let Some((first, rest)) = path.split_first() else {
        *target = value;
        return Ok(());
    };
    if target.is_null() {
        *target = Value::Object(serde_json::Map::new());
    }
    let next = match target {
        Value::Object(map) if rest.is_empty() && value.is_null() => {
            // As in a merge patch.
            map.remove(first);
            return Ok(());
        }
        Value::Object(map) => map.entry(first.clone()).or_insert(Value::Null),
        Value::Array(list) => {
            let at: Option<usize> = first.parse().ok();
            at.and_then(|at| list.get_mut(at)).ok_or_else(|| first.clone())?
        }
        _ => return Err(first.clone()),
    };
    set(next, rest, value).map_err(|at| format!("{first}.{at}"))
}

/// The object as its type has it: a wrong value is found, and a wrong name is not in it. `None` for kinds without types here.
fn typed(change: &TriedChange, object: &Value) -> Result<Option<Value>, TriedError> {
    let core = Machine::group(&());
    let is_core = object["apiVersion"].as_str().is_some_and(|version| group_of(version) == core);
    // Types drop what they do not know: a field that the round trip loses is none of the kind.
    let seen = match change.object.gvk.kind.as_str() {
        "Cluster" if is_core => as_typed::<Cluster>(object),
        "MachineDeployment" => as_typed::<MachineDeployment>(object),
        "MachineSet" => as_typed::<MachineSet>(object),
        "Machine" => as_typed::<Machine>(object),
        "MachineHealthCheck" => as_typed::<MachineHealthCheck>(object),
        "KubeadmControlPlane" => as_typed::<KubeadmControlPlane>(object),
        _ => return Ok(None),
    };
    let invalid =
        |error| TriedError::Invalid { origin: change.origin.clone(), object: named(&change.object), error };
    seen.map(Some).map_err(invalid)
}

fn as_typed<K: DeserializeOwned + Serialize>(value: &Value) -> serde_json::Result<Value> {
    serde_json::to_value(serde_json::from_value::<K>(value.clone())?)
}

/// The first path of `patch` that the object does not have.
fn lost(patch: &Value, seen: &Value, path: &str) -> Option<String> {
    let Value::Object(fields) = patch else { return None };
    fields.iter().find_map(|(name, below)| {
        let here = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match seen.get(name) {
            None if below.is_null() => None,
            // Types leave out empty objects when they are written.
            None if below.as_object().is_some_and(serde_json::Map::is_empty) => None,
            None => Some(here),
            Some(found) => lost(below, found, &here),
        }
    })
}
