//! Changes that `capstan simulate` tries on the objects before they are run ahead of time, as they are written: patches in
//! files and single fields on the command line. How they are put on the objects is that of [`capstan_dashboard::actions::tried`].

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{anyhow, bail};
use serde_json::{Value, json};

use crate::documents;
use crate::exit_code::WrongUsage;
use crate::target::{self, NamedObject};
use capi_rules::observe::dump::Dump;
use capi_rules::observe::dump::document::Document;
use capi_rules::observe::older_version;
use capi_types::key::{ObjectKey, ObjectRef, group_of};
use capi_types::names::{OLDER_VERSION, VERSION};
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
        return Ok(TriedChange { origin, object: named.clone(), edit: TriedEdit::Either(value) });
    }
    let edit = edit_of(&value).map_err(|why| anyhow!("{origin}: {why}"))?;
    let (kind, name) = (text(&value["kind"]), text(&value["metadata"]["name"]));
    if name.is_empty() {
        bail!("{origin}: the patch of a {kind} has no metadata.name");
    }
    let ns = Some(text(&value["metadata"]["namespace"])).filter(|n| !n.is_empty());
    let key = ObjectKey::new(ns.unwrap_or_else(|| namespace.to_owned()), &name);
    let group = group_of(&text(&value["apiVersion"])).to_owned();
    let mut object = match target::kind_named(&kind) {
        Ok(served) => ObjectRef { gvk: served.gvk, key, uid: String::new() },
        // Kinds of providers are in no table: only the document says which group they are of.
        Err(_) => ObjectRef {
            gvk: capi_rules::status::contract::definition::gvk(&group, "", &kind),
            key,
            uid: String::new(),
        },
    };
    // The document's group counts: another one may have a kind of the same name.
    if !group.is_empty() {
        object.gvk.group = group;
    }
    if let Some(patch) = value.as_object_mut() {
        patch.remove("apiVersion");
        patch.remove("kind");
        // A status follows from the rest: one in the patch is that of another time.
        patch.remove("status");
    }
    Ok(TriedChange { origin, object, edit: edit(value) })
}

/// In which version the patch of an object is written.
fn edit_of(patch: &Value) -> Result<fn(Value) -> TriedEdit, String> {
    let Some(api_version) = patch["apiVersion"].as_str() else { return Ok(TriedEdit::Either) };
    if older_version::is_older(patch) {
        return Ok(TriedEdit::Older);
    }
    let version = api_version.rsplit('/').next().unwrap_or_default();
    let as_older =
        json!({"apiVersion": format!("{}/{OLDER_VERSION}", group_of(api_version)), "kind": patch["kind"]});
    if version != VERSION && older_version::is_older(&as_older) {
        return Err(format!("the patch is in {version}; {VERSION} and {OLDER_VERSION} are understood"));
    }
    Ok(TriedEdit::Merge)
}

/// A field to try, as `[KIND/NAME:]path=value`.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldArg {
    typed: String,
    object: Option<NamedObject>,
    path: Vec<String>,
    value: Value,
}

const EXAMPLE: &str = "expected [KIND/NAME:]path=value, such as spec.replicas=5";

impl FromStr for FieldArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Split at `=` first: a value may have colons, such as the tag of an image.
        let (left, value) = text.split_once('=').ok_or(EXAMPLE)?;
        let (object, path) = match left.split_once(':') {
            Some((object, path)) => {
                let object = NamedObject::of(&[object.to_owned()]).map_err(|error| error.to_string())?;
                (Some(object), path)
            }
            None => (None, left),
        };
        let path = segments(path);
        if path.iter().any(String::is_empty) {
            return Err(EXAMPLE.to_owned());
        }
        if path.first().is_some_and(|first| first == "status") {
            return Err("a status is not set, it follows".to_owned());
        }
        // What is not JSON is text: versions and names need no quotes.
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        Ok(Self { typed: text.to_owned(), object, path, value })
    }
}

impl FieldArg {
    /// What is tried, of the `named` object where the argument names none.
    ///
    /// # Errors
    /// It is about no object.
    pub fn change(
        &self,
        option: &str,
        named: Option<&ObjectRef>,
        (dump, namespace): (&Dump, &str),
    ) -> Result<TriedChange, WrongUsage> {
        let origin = format!("{option} {}", self.typed);
        let own = self.object.as_ref().map(|object| among(object, dump, namespace)).transpose()?;
        let object = own
            .or_else(|| named.cloned())
            .ok_or_else(|| WrongUsage(format!("{origin}: it is about no object: {EXAMPLE}")))?;
        let short = match self.path.as_slice() {
            [word] => short_edit(&object.gvk.kind, word, &self.value),
            _ => None,
        };
        let set = || TriedEdit::Set { path: self.path.clone(), value: self.value.clone() };
        Ok(TriedChange { origin, object, edit: short.unwrap_or_else(set) })
    }
}

/// The object that a person names, among those that were read.
///
/// # Errors
/// None of them is of a kind that is called so.
pub(super) fn among(named: &NamedObject, dump: &Dump, namespace: &str) -> Result<ObjectRef, WrongUsage> {
    let kinds = dump.kinds().map(|(group, kind, _)| (group, kind));
    named.among(kinds, namespace).map_err(|error| WrongUsage(error.to_string()))
}

/// What is tried in the second forecast.
#[derive(Clone, Debug, PartialEq)]
pub enum BesideArg {
    Field(FieldArg),
    /// This Machine fails.
    Failing(String),
}

impl FromStr for BesideArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("failing=").filter(|name| !name.is_empty()) {
            Some(machine) => Ok(Self::Failing(machine.to_owned())),
            None => text.parse().map(Self::Field),
        }
    }
}

impl fmt::Display for BesideArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(field) => f.write_str(&field.typed),
            Self::Failing(machine) => write!(f, "failing={machine}"),
        }
    }
}

/// All that is tried in the second forecast.
///
/// # Errors
/// A field that is about no object.
pub fn beside(
    args: &[BesideArg],
    named: Option<&ObjectRef>,
    place: (&Dump, &str),
) -> Result<Tried, WrongUsage> {
    let mut tried = Tried::default();
    for arg in args {
        match arg {
            BesideArg::Failing(machine) => tried.failing.push(machine.clone()),
            BesideArg::Field(field) => tried.changes.push(field.change("--beside", named, place)?),
        }
    }
    Ok(tried)
}

/// The parts of a path; `\.` is a dot in a name.
fn segments(path: &str) -> Vec<String> {
    // A character that no path has stands in for the escaped dot.
    const DOT: char = '\u{0}';
    let hidden = path.replace("\\.", &DOT.to_string());
    hidden.split('.').map(|part| part.replace(DOT, ".")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let field: FieldArg = text.parse()?;
        let change = field.change("--set", None, (&deployment(), "ns")).map_err(|error| error.to_string())?;
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
        let parse = |text: &str| text.parse::<BesideArg>();
        let args = ["md/md:surge=2", "failing=m-1"].map(|text| parse(text).expect(text));
        let tried = beside(&args, None, (&deployment(), "ns")).expect("fine");
        assert_eq!((tried.changes.len(), tried.failing.as_slice()), (1, ["m-1".to_owned()].as_slice()));
        assert_eq!(tried.changes[0].origin, "--beside md/md:surge=2");
        assert!(parse("surge").is_err_and(|why| why.starts_with("expected [KIND/NAME:]path=value")));
    }

    #[test]
    fn what_does_not_apply_says_why() {
        for (text, expected) in [
            ("spec.replicas", "expected [KIND/NAME:]path=value, such as spec.replicas=5"),
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
            ("md/md:status.replicas=5", "a status is not set, it follows"),
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

    fn older_deployment() -> Dump {
        let reference = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "DevMachineTemplate", "name": "t"});
        let labels = json!({"cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/deployment-name": "md"});
        Dump::new(vec![Document::from(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "MachineDeployment",
            "metadata": {"name": "md", "namespace": "ns", "generation": 3, "labels": labels},
            "spec": {"clusterName": "c", "replicas": 3, "selector": {"matchLabels": labels}, "revisionHistoryLimit": 1,
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
                "template": {"metadata": {"labels": labels}, "spec": {"clusterName": "c", "version": "v1.31.1",
                    "nodeDrainTimeout": "5m", "bootstrap": {"dataSecretName": "s"}, "infrastructureRef": reference}}}}))])
    }

    fn patched(mut dump: Dump, texts: &[&str]) -> Result<Value, String> {
        let key = ObjectKey::new("ns", "md");
        let gvk = capi_types::key::Gvk::of::<capi_types::machine_deployment::MachineDeployment>();
        let named = ObjectRef { gvk, key: key.clone(), uid: String::new() };
        for text in texts {
            let change = match text.strip_prefix("--set ") {
                Some(field) => {
                    let field: FieldArg = field.parse()?;
                    field.change("--set", Some(&named), (&dump, "ns")).map_err(|error| error.to_string())?
                }
                None => {
                    let value = serde_saphyr::from_str::<Value>(text).expect("YAML");
                    let made = from_document(Document::from(value), Some(&named), "ns");
                    made.map_err(|error| error.to_string())?
                }
            };
            apply(&mut dump, &[change]).map_err(|error| error.to_string())?;
        }
        Ok(dump.raw("cluster.x-k8s.io", "MachineDeployment", &key).expect("it")["spec"].clone())
    }

    const OLDER: &str =
        "apiVersion: cluster.x-k8s.io/v1beta1\nkind: MachineDeployment\nmetadata: {name: md}\n";
    const NEWER: &str =
        "apiVersion: cluster.x-k8s.io/v1beta2\nkind: MachineDeployment\nmetadata: {name: md}\n";

    /// What v1beta1 has elsewhere was dropped without a word, or refused as no field at all.
    #[test]
    fn a_patch_is_in_the_version_that_it_names_or_in_that_of_the_object() {
        let older = |spec: &str| format!("{OLDER}spec: {spec}");
        let newer = |spec: &str| format!("{NEWER}spec: {spec}");
        let surge = "/rollout/strategy/rollingUpdate/maxSurge";
        let drain = "/template/spec/deletion/nodeDrainTimeoutSeconds";
        for (texts, field, expected) in [
            (vec![older("{strategy: {rollingUpdate: {maxSurge: 2}}}")], surge, json!(2)),
            (vec![older("{template: {spec: {nodeDrainTimeout: null}}}")], drain, Value::Null),
            (vec![older("{template: {spec: {nodeDrainTimeout: 90s}}}")], drain, json!(90)),
            (
                vec![older("{rolloutAfter: '2099-01-01T00:00:00Z'}")],
                "/rollout/after",
                json!("2099-01-01T00:00:00Z"),
            ),
            (vec![newer("{rollout: {strategy: {rollingUpdate: {maxSurge: 2}}}}")], surge, json!(2)),
            // Neither says its version.
            (vec!["spec: {strategy: {rollingUpdate: {maxSurge: 2}}}".to_owned()], surge, json!(2)),
            (vec!["spec: {rollout: {strategy: {rollingUpdate: {maxSurge: 2}}}}".to_owned()], surge, json!(2)),
            (vec!["--set spec.strategy.rollingUpdate.maxSurge=2".to_owned()], surge, json!(2)),
            (vec!["--set spec.template.spec.nodeDrainTimeout=null".to_owned()], drain, Value::Null),
            (vec!["--set surge=2".to_owned()], surge, json!(2)),
            // One after the other.
            (
                vec![older("{replicas: 5}"), older("{strategy: {rollingUpdate: {maxSurge: 2}}}")],
                "/replicas",
                json!(5),
            ),
            (vec![older("{replicas: 5}"), "--set surge=2".to_owned()], "/replicas", json!(5)),
        ] {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let spec = patched(older_deployment(), &texts).unwrap_or_else(|why| panic!("{texts:?}: {why}"));
            assert_eq!(spec.pointer(field).cloned().unwrap_or_default(), expected, "{texts:?}");
        }
    }

    #[test]
    fn a_patch_that_would_change_nothing_or_is_in_another_version_says_so() {
        let older = |spec: &str| format!("{OLDER}spec: {spec}");
        let alpha = OLDER.replace("v1beta1", "v1alpha4") + "spec: {replicas: 5}";
        for (dump, text, expected) in [
            (
                older_deployment(),
                older("{stratgy: {type: OnDelete}}"),
                "spec.stratgy.type of v1beta1 changes nothing of a MachineDeployment",
            ),
            (
                older_deployment(),
                older("{revisionHistoryLimit: 2}"),
                "spec.revisionHistoryLimit of v1beta1 changes nothing of a MachineDeployment",
            ),
            (older_deployment(), older("{replicas: many}"), "MachineDeployment ns/md would not be valid: "),
            (
                older_deployment(),
                "spec: {stratgy: {type: OnDelete}}".to_owned(),
                "spec.stratgy.type of v1beta1 changes nothing",
            ),
            (
                older_deployment(),
                "--set spec.stratgy=x".to_owned(),
                "spec.stratgy is not a field of a MachineDeployment",
            ),
            (
                deployment(),
                older("{replicas: 5}"),
                "the patch is in v1beta1, and MachineDeployment ns/md is at hand in v1beta2",
            ),
            (deployment(), alpha, "the patch is in v1alpha4; v1beta2 and v1beta1 are understood"),
        ] {
            let said = patched(dump, &[text.as_str()]).expect_err(&text);
            assert!(said.contains(expected), "{text}: {said}");
        }
        // What is left as it is asks for nothing.
        let whole = older("{replicas: 5, revisionHistoryLimit: 1, clusterName: c}");
        assert_eq!(patched(older_deployment(), &[&whole]).expect("fine")["replicas"], 5);
    }
}
