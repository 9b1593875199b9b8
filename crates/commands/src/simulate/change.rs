//! Changes that `capstan simulate` tries on the objects before they are run ahead of time, as they are written: patches in
//! files and single fields on the command line. How they are put on the objects is that of [`capstan_dashboard::actions::tried`].

use std::path::PathBuf;

use anyhow::{Context as _, anyhow, bail};
use serde_json::Value;

use crate::exit_code::WrongUsage;
use crate::{documents, target};
use capi_rules::observe::dump::document::Document;
use capi_types::key::{ObjectKey, ObjectRef, group_of};
use capstan_dashboard::actions::tried::{Tried, TriedChange, TriedEdit, short_edit};

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
            gvk: capi_rules::status::contract::definition::gvk(&group, "", &kind),
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
    let (left, value) = text.split_once('=').ok_or_else(|| WrongUsage(format!("{origin}: {example}")))?;
    let (object, path) = match left.split_once(':') {
        Some((typed, path)) => (target::parse(&[typed.to_owned()], namespace).context(origin.clone())?, path),
        None => {
            let named =
                named.ok_or_else(|| WrongUsage(format!("{origin}: it is about no object: {example}")))?;
            (named.clone(), left)
        }
    };
    let path = segments(path);
    if path.iter().any(String::is_empty) {
        bail!(WrongUsage(format!("{origin}: {example}")));
    }
    if path.first().is_some_and(|first| first == "status") {
        bail!(WrongUsage(format!("{origin}: a status is not set, it follows")));
    }
    // What is not JSON is text: versions and names need no quotes.
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
    let short = match path.as_slice() {
        [word] => short_edit(&object.gvk.kind, word, &value),
        _ => None,
    };
    let edit = short.unwrap_or(TriedEdit::Set { path, value });
    Ok(TriedChange { origin, object, edit })
}

/// What `--beside` says: changes like those of `--set`, or `failing=MACHINE`.
///
/// # Errors
/// As for [`from_flag`].
pub fn beside(texts: &[String], named: Option<&ObjectRef>, namespace: &str) -> anyhow::Result<Tried> {
    let mut tried = Tried::default();
    for text in texts {
        match text.strip_prefix("failing=").filter(|name| !name.is_empty()) {
            Some(machine) => tried.failing.push(machine.to_owned()),
            None => {
                let change = from_flag(text, named, namespace).with_context(|| format!("--beside {text}"))?;
                tried.changes.push(TriedChange { origin: format!("--beside {text}"), ..change });
            }
        }
    }
    Ok(tried)
}

/// The parts of a path; `\.` is a dot in a name.
fn segments(path: &str) -> Vec<String> {
    const DOT: char = '\u{0}';
    let hidden = path.replace("\\.", &DOT.to_string());
    hidden.split('.').map(|part| part.replace(DOT, ".")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use capi_rules::observe::dump::Dump;
    use capstan_dashboard::actions::tried::apply;

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
        apply(&mut dump, &[change]).map_err(|e| e.to_string())?;
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
    fn a_word_stands_for_the_field_of_its_kind() {
        let strategy = |new: &Value| new["spec"]["rollout"]["strategy"]["rollingUpdate"].clone();
        let new = flagged("md/md:surge=2").expect("fine");
        assert_eq!(strategy(&new), json!({"maxSurge": 2, "maxUnavailable": 0}));
        let new = flagged("md/md:unavailable=30%").expect("fine");
        assert_eq!(strategy(&new), json!({"maxSurge": 1, "maxUnavailable": "30%"}));
        assert_eq!(flagged("md/md:replicas=7").expect("fine")["spec"]["replicas"], 7);
        let new = flagged("md/md:version=v1.35.0").expect("fine");
        assert_eq!(new["spec"]["template"]["spec"]["version"], "v1.35.0");
        let wrong = flagged("md/md:surg=2").expect_err("no such word");
        assert_eq!(wrong, "--set md/md:surg=2: surg is not a field of a MachineDeployment");
    }

    #[test]
    fn beside_takes_a_failing_machine_too() {
        let texts = ["md/md:surge=2".to_owned(), "failing=m-1".to_owned()];
        let tried = beside(&texts, None, "ns").expect("fine");
        assert_eq!((tried.changes.len(), tried.failing.as_slice()), (1, ["m-1".to_owned()].as_slice()));
        assert_eq!(tried.changes[0].origin, "--beside md/md:surge=2");
        let wrong = beside(&["surge".to_owned()], None, "ns").expect_err("no value");
        assert!(format!("{wrong:#}").starts_with("--beside surge: "), "{wrong:#}");
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
