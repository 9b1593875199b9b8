//! Changes that `capstan simulate` tries on the objects before they are run ahead of time: patches from files and single
//! fields from the command line. Owns how they are read and put on; whether Cluster API would take them is asked of
//! its own rules.

use std::path::PathBuf;

use anyhow::{Context as _, anyhow, bail};
use kube::Resource as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::admission::Webhooks;
use crate::api::admission::{Admission as _, Found, Known, Need, Request};
use crate::api::cluster::Cluster;
use crate::api::control_plane::KubeadmControlPlane;
use crate::api::key::{ObjectKey, ObjectRef, group_of};
use crate::api::machine::Machine;
use crate::api::machine_deployment::MachineDeployment;
use crate::api::machine_health_check::MachineHealthCheck;
use crate::api::machine_set::MachineSet;
use crate::api::merge;
use crate::cli::{documents, target};
use crate::observe::dump::Dump;
use crate::observe::dump::document::Document;

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
    /// A merge patch.
    Merge(Value),
    /// One field, by its path.
    Set { path: Vec<String>, value: Value },
}

/// The changes of `--change` files. A document without a kind is about `named`.
///
/// # Errors
/// A file that cannot be read, or a document that names no object.
pub fn from_files(
    files: &[PathBuf],
    named: Option<&ObjectRef>,
    namespace: &str,
) -> anyhow::Result<Vec<TriedChange>> {
    let (found, remarks) = documents::documents(files, &[])?;
    if let Some(empty) = remarks.first() {
        bail!("--change: {empty}");
    }
    found.into_iter().map(|document| from_document(document, named, namespace)).collect()
}

fn from_document(
    document: Document,
    named: Option<&ObjectRef>,
    namespace: &str,
) -> anyhow::Result<TriedChange> {
    let Document { mut value, origin, .. } = document;
    let origin = format!("--change {origin}");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if value["kind"].is_null() {
        let named = named.ok_or_else(|| {
            anyhow!("{origin}: the patch names no object: give it kind and metadata.name, or name one as KIND/NAME")
        })?;
        return Ok(TriedChange { origin, object: named.clone(), edit: TriedEdit::Merge(value) });
    }
    let (kind, name) = (text(&value["kind"]), text(&value["metadata"]["name"]));
    if name.is_empty() {
        bail!("{origin}: the patch of a {kind} has no metadata.name");
    }
    let ns = Some(text(&value["metadata"]["namespace"])).filter(|n| !n.is_empty());
    let key = ObjectKey::new(ns.unwrap_or_else(|| namespace.to_owned()), &name);
    let group = group_of(&text(&value["apiVersion"])).to_owned();
    let mut object = match target::kind_named(&kind) {
        Ok(served) => ObjectRef { gvk: served.gvk, key, uid: String::new() },
        Err(_) => ObjectRef {
            gvk: crate::status::contract::definition::gvk(&group, "", &kind),
            key,
            uid: String::new(),
        },
    };
    if !group.is_empty() {
        object.gvk.group = group;
    }
    if let Some(patch) = value.as_object_mut() {
        patch.remove("apiVersion");
        patch.remove("kind");
        patch.remove("status");
    }
    Ok(TriedChange { origin, object, edit: TriedEdit::Merge(value) })
}

/// A change of `--set`: `[KIND/NAME:]path=value`.
///
/// # Errors
/// It has no `=`, no path, or is about no object.
pub fn from_flag(text: &str, named: Option<&ObjectRef>, namespace: &str) -> anyhow::Result<TriedChange> {
    let origin = format!("--set {text}");
    let example = "expected [KIND/NAME:]path=value, such as spec.replicas=5";
    let (left, value) = text.split_once('=').ok_or_else(|| anyhow!("{origin}: {example}"))?;
    let (object, path) = match left.split_once(':') {
        Some((typed, path)) => (target::parse(&[typed.to_owned()], namespace).context(origin.clone())?, path),
        None => {
            let named = named.ok_or_else(|| anyhow!("{origin}: it is about no object: {example}"))?;
            (named.clone(), left)
        }
    };
    let path = segments(path);
    if path.iter().any(String::is_empty) {
        bail!("{origin}: {example}");
    }
    if path.first().is_some_and(|first| first == "status") {
        bail!("{origin}: a status is not set, it follows");
    }
    // What is not JSON is text: versions and names need no quotes.
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
    Ok(TriedChange { origin, object, edit: TriedEdit::Set { path, value } })
}

/// The parts of a path; `\.` is a dot in a name.
fn segments(path: &str) -> Vec<String> {
    const DOT: char = '\u{0}';
    let hidden = path.replace("\\.", &DOT.to_string());
    hidden.split('.').map(|part| part.replace(DOT, ".")).collect()
}

/// Puts changes on the objects of a dump, in order.
///
/// # Errors
/// An object that is not there, a field that does not exist, a value of another type, or what Cluster API refuses.
pub fn apply(dump: &mut Dump, changes: &[TriedChange]) -> anyhow::Result<()> {
    for change in changes {
        put_on(dump, change)?;
    }
    Ok(())
}

fn put_on(dump: &mut Dump, change: &TriedChange) -> anyhow::Result<()> {
    let TriedChange { origin, object, edit } = change;
    let (group, kind) = (object.gvk.group.as_str(), object.gvk.kind.as_str());
    let Some(old) = dump.raw(group, kind, &object.key).cloned() else {
        bail!("{origin}: there is no {kind} {} among the objects", object.key);
    };
    let mut new = old.clone();
    match edit {
        TriedEdit::Merge(patch) => merge::apply(&mut new, patch),
        TriedEdit::Set { path, value } => set(&mut new, path, value.clone())
            .map_err(|at| anyhow!("{origin}: {kind} {} has no place for a field at {at}", object.key))?,
    }
    check_fields(origin, kind, &object.key, edit, &new)?;
    let request = Request { group, kind, old: Some(&old), dry_run: false };
    let refused =
        |refusal: crate::api::admission::Refusal| anyhow!("{origin}: Cluster API refuses it: {refusal}");
    Webhooks.mutate(&request, &mut new).map_err(refused)?;
    let known = known(dump, Webhooks.needs(&request, &new));
    Webhooks.check(&request, &new, &known).map_err(refused)?;
    if new["spec"] != old["spec"] {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or(1);
        new["metadata"]["generation"] = (generation + 1).into();
    }
    dump.replace(new);
    Ok(())
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

/// A wrong name or a wrong value is found for kinds that have types here.
fn check_fields(
    origin: &str,
    kind: &str,
    key: &ObjectKey,
    edit: &TriedEdit,
    new: &Value,
) -> anyhow::Result<()> {
    let core = Machine::group(&());
    let is_core = new["apiVersion"].as_str().is_some_and(|version| group_of(version) == core);
    let seen = match kind {
        "Cluster" if is_core => as_typed::<Cluster>(new),
        "MachineDeployment" => as_typed::<MachineDeployment>(new),
        "MachineSet" => as_typed::<MachineSet>(new),
        "Machine" => as_typed::<Machine>(new),
        "MachineHealthCheck" => as_typed::<MachineHealthCheck>(new),
        "KubeadmControlPlane" => as_typed::<KubeadmControlPlane>(new),
        _ => return Ok(()),
    };
    let seen = seen.map_err(|error| anyhow!("{origin}: {kind} {key} would not be valid: {error}"))?;
    let lost = match edit {
        TriedEdit::Merge(patch) => lost(patch, &seen, ""),
        TriedEdit::Set { path, value } => {
            let gone = path.iter().try_fold(&seen, |at, part| match at {
                Value::Array(list) => part.parse::<usize>().ok().and_then(|at| list.get(at)),
                other => other.get(part),
            });
            (gone.is_none() && !value.is_null()).then(|| path.join("."))
        }
    };
    match lost {
        Some(path) => bail!("{origin}: {path} is not a field of a {kind}"),
        None => Ok(()),
    }
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
            None if below.as_object().is_some_and(serde_json::Map::is_empty) => None,
            None => Some(here),
            Some(found) => lost(below, found, &here),
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment() -> Dump {
        let reference =
            json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachineTemplate", "name": "t"});
        let labels = json!({"cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/deployment-name": "md"});
        Dump::new(vec![Document::from(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment",
            "metadata": {"name": "md", "namespace": "ns", "generation": 3, "labels": labels},
            "spec": {"clusterName": "c", "replicas": 3, "selector": {"matchLabels": labels},
                "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}},
                "template": {"metadata": {"labels": labels}, "spec": {"clusterName": "c", "version": "v1.34.1",
                    "bootstrap": {"dataSecretName": "s"}, "infrastructureRef": reference}}}}))])
    }

    fn flagged(text: &str) -> Result<Value, String> {
        let mut dump = deployment();
        let change = from_flag(text, None, "ns").map_err(|e| format!("{e:#}"))?;
        apply(&mut dump, &[change]).map_err(|e| format!("{e:#}"))?;
        let key = ObjectKey::new("ns", "md");
        Ok(dump.raw("cluster.x-k8s.io", "MachineDeployment", &key).expect("it").clone())
    }

    #[test]
    fn a_field_is_set_by_its_path() {
        let new = flagged("md/md:spec.template.spec.version=v1.35.0").expect("fine");
        assert_eq!(
            (&new["spec"]["template"]["spec"]["version"], &new["metadata"]["generation"]),
            (&json!("v1.35.0"), &json!(4))
        );
        let new = flagged("md/md:spec.replicas=7").expect("fine");
        assert_eq!(new["spec"]["replicas"], 7);
        let new = flagged(r"md/md:metadata.annotations.a\.b/c=x").expect("fine");
        assert_eq!(new["metadata"]["annotations"]["a.b/c"], "x");
        assert_eq!(new["metadata"]["generation"], 3, "only a spec has generations");
    }

    #[test]
    fn what_does_not_apply_says_why() {
        for (text, expected) in [
            (
                "spec.replicas",
                "--set spec.replicas: expected [KIND/NAME:]path=value, such as spec.replicas=5",
            ),
            (
                "spec.replicas=5",
                "--set spec.replicas=5: it is about no object: expected [KIND/NAME:]path=value, such as spec.replicas=5",
            ),
            (
                "md/other:spec.replicas=5",
                "--set md/other:spec.replicas=5: there is no MachineDeployment ns/other among the objects",
            ),
            (
                "md/md:spec.replica=5",
                "--set md/md:spec.replica=5: spec.replica is not a field of a MachineDeployment",
            ),
            (
                "md/md:spec.replicas.x=5",
                "--set md/md:spec.replicas.x=5: MachineDeployment ns/md has no place for a field at spec.replicas.x",
            ),
            ("md/md:status.replicas=5", "--set md/md:status.replicas=5: a status is not set, it follows"),
        ] {
            assert_eq!(flagged(text).expect_err(text), expected);
        }
        let wrong = flagged("md/md:spec.replicas=many").expect_err("text");
        assert!(wrong.contains("MachineDeployment ns/md would not be valid: "), "{wrong}");
    }

    #[test]
    fn what_admission_refuses_is_refused_in_its_words() {
        let refused =
            flagged("md/md:spec.selector.matchLabels.x=y").expect_err("the selector does not match");
        assert!(refused.contains("Cluster API refuses it: spec."), "{refused}");
    }
}
