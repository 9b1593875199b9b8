//! Admission as rules: one row per rule of `docs/admission.md`, with the object that breaks it and
//! what is said about it.

mod class;
mod cluster;
mod control_plane;
mod defaults;
mod good;
mod hosts;
mod infrastructure;
mod others;
mod refusals;
mod workers;

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use good::good;
use k8s_machinery::admission::Found;

/// One rule, broken.
struct Row {
    /// As in `docs/admission.md`.
    id: &'static str,
    kind: &'static str,
    /// What the stored object has otherwise than the good one; `None` on create.
    old: Option<Value>,
    /// What the written object has otherwise than the good one.
    new: Value,
    /// Other objects on the server.
    peers: Vec<Value>,
    /// Every complaint, field first.
    says: Vec<&'static str>,
}

fn create(id: &'static str, kind: &'static str, new: Value, says: &'static str) -> Row {
    Row { id, kind, old: None, new, peers: Vec::new(), says: vec![says] }
}

/// An update of the good object.
fn update(id: &'static str, kind: &'static str, new: Value, says: &'static str) -> Row {
    change(id, kind, json!({}), new, says)
}

/// An update of an object that was not the good one either.
fn change(id: &'static str, kind: &'static str, old: Value, new: Value, says: &'static str) -> Row {
    Row { id, kind, old: Some(old), new, peers: Vec::new(), says: vec![says] }
}

impl Row {
    fn with(mut self, peers: impl IntoIterator<Item = Value>) -> Self {
        self.peers.extend(peers);
        self
    }

    fn and(mut self, says: &'static str) -> Self {
        self.says.push(says);
        self
    }
}

/// The group of a kind with rules.
fn group_of(kind: &str) -> &'static str {
    KINDS.iter().find(|rules| rules.kind == kind).expect(kind).group
}

fn version_of(kind: &str) -> &'static str {
    KINDS.iter().find(|rules| rules.kind == kind).expect(kind).version
}

fn request<'a>(kind: &'a str, old: Option<&'a Value>) -> Request<'a> {
    Request { group: group_of(kind), kind, old, dry_run: false }
}

/// The good object with changes: a merge patch, but lists may be patched by position, too.
fn patched(kind: &str, patch: &Value) -> Value {
    let mut object = good(kind);
    json_patch::merge(&mut object, patch);
    object
}

/// What the server would find of these objects.
fn known(needs: Vec<Need>, peers: &[Value]) -> Known {
    let mut known = Known::default();
    for need in needs {
        let is_wanted = |object: &&Value| {
            let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
            object["kind"] == need.kind.as_str()
                && (need.namespace.is_empty() || need.namespace == text("namespace"))
                && (need.name.is_empty() || need.name == text("name"))
        };
        let found = Found::Objects(peers.iter().filter(is_wanted).cloned().collect());
        known.add(need, found);
    }
    known
}

fn checked(request: &Request<'_>, new: &Value, peers: &[Value]) -> Result<Vec<String>, Refusal> {
    Webhooks.check(request, new, &known(Webhooks.needs(request, new), peers))
}

/// The complaints about an object, field first; a refusal without causes is one complaint.
fn complaints(request: &Request<'_>, new: &Value, peers: &[Value]) -> Vec<String> {
    checked(request, new, peers).err().map(|refusal| refusal.findings()).unwrap_or_default()
}

fn rows() -> Vec<Row> {
    [
        workers::rows(),
        control_plane::rows(),
        cluster::rows(),
        class::rows(),
        infrastructure::rows(),
        hosts::rows(),
        others::rows(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[test]
fn every_rule_refuses_with_its_field_type_and_text() {
    let mut wrong = Vec::new();
    for row in rows() {
        let (id, kind) = (row.id, row.kind);
        let old = row.old.as_ref().map(|patch| patched(kind, patch));
        let new = patched(kind, &row.new);
        let found = complaints(&request(kind, old.as_ref()), &new, &row.peers);
        if found != row.says {
            wrong.push(format!("{id}: {kind} {}\n  says  {found:#?}\n  not   {:#?}", row.new, row.says));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Rows of the tables in the document whose first cell is a rule's name.
fn documented() -> BTreeSet<String> {
    let path = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("docs/admission.md");
    let text = std::fs::read_to_string(path).expect("docs/admission.md");
    let is_id = |cell: &&str| {
        cell.split_once('-').is_some_and(|(kind, number)| {
            !kind.is_empty()
                && kind.chars().all(|c| c.is_ascii_uppercase())
                && !number.is_empty()
                && number.chars().all(|c| c.is_ascii_digit())
        })
    };
    let cells = text.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let ids: Vec<&str> = cells.map(str::trim).filter(is_id).collect();
    let unique: BTreeSet<String> = ids.iter().map(|id| (*id).to_owned()).collect();
    assert_eq!(unique.len(), ids.len(), "a rule is listed twice: {ids:?}");
    unique
}

#[test]
fn every_rule_of_the_document_has_a_row_and_every_row_is_documented() {
    let tested: BTreeSet<String> =
        rows().iter().map(|row| row.id.to_owned()).chain(refusals::IDS.map(str::to_owned)).collect();
    let documented = documented();
    let missing: Vec<_> = documented.difference(&tested).collect();
    assert!(missing.is_empty(), "documented rules without a row: {missing:?}");
    let unknown: Vec<_> = tested.difference(&documented).collect();
    assert!(unknown.is_empty(), "rows of rules that are not documented: {unknown:?}");
}

#[test]
fn good_objects_pass_on_create_and_unchanged_and_every_kind_has_one() {
    for rules in &KINDS {
        let object = good(rules.kind);
        for old in [None, Some(&object)] {
            let peers = [good("ClusterClass")];
            assert_eq!(
                complaints(&request(rules.kind, old), &object, &peers),
                Vec::<String>::new(),
                "{}",
                rules.kind
            );
        }
    }
}

/// JSON of any shape, with words that rules look for.
fn any_json() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "",
        "a",
        "v1.35.0",
        "1.x",
        "50%",
        "%",
        "{{ .random }}",
        "{{",
        "-",
        "10.0.0.0/8",
        "ignition",
        "Skip",
        "*",
        "node.kubernetes.io/x",
        "RollingUpdate",
    ]);
    let field = prop::sample::select(vec![
        "replicas",
        "selector",
        "matchLabels",
        "matchExpressions",
        "template",
        "spec",
        "rollout",
        "strategy",
        "rollingUpdate",
        "maxSurge",
        "version",
        "topology",
        "classRef",
        "workers",
        "machineDeployments",
        "machinePools",
        "kubeadmConfigSpec",
        "clusterConfiguration",
        "etcd",
        "external",
        "dns",
        "imageTag",
        "backend",
        "docker",
        "failureDomains",
        "taints",
        "key",
        "deletion",
        "clusterNetwork",
        "pods",
        "cidrBlocks",
        "bootstrap",
        "files",
        "users",
        "contentFrom",
        "diskSetup",
        "partitions",
        "diskLayout",
        "controlPlane",
        "healthCheck",
        "checks",
        "remediation",
        "patches",
        "definitions",
        "jsonPatches",
        "variables",
        "kubernetesVersions",
        "clientConfig",
        "service",
        "namespaceSelector",
        "machineNaming",
        "naming",
        "metadata",
        "labels",
        "annotations",
        "name",
        "class",
        "infrastructure",
        "templateRef",
        "kind",
        "apiVersion",
        "address",
        "prefix",
        "drain",
        "machines",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2_i64..200).prop_map(Value::from),
        word.prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(field.clone(), inner, 0..6)
                .prop_map(|map| map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    })
}

proptest! {
    #[test]
    fn objects_of_any_shape_are_survived_and_defaulted_once(old in any_json(), patch in any_json(), over in any::<bool>()) {
        for rules in &KINDS {
            let mut new = good(rules.kind);
            if over { json_patch::merge(&mut new["spec"], &patch) } else { new["spec"] = patch.clone() }
            let before = json!({"metadata": {"name": "n", "namespace": "ns"}, "spec": old});
            for old in [None, Some(&before)] {
                let request = request(rules.kind, old);
                let mut once = new.clone();
                if Webhooks.mutate(&request, &mut once).is_err() {
                    continue;
                }
                let mut twice = once.clone();
                prop_assert_eq!(Webhooks.mutate(&request, &mut twice), Ok(()));
                prop_assert_eq!(&twice, &once);
                let _ = checked(&request, &once, std::slice::from_ref(&before));
                let _ = Webhooks.check_delete(rules.group, rules.kind, &once, &Known::default());
            }
        }
    }
}
