//! What a person wants to be different: patches, whole documents, single values. Owns how a request becomes the
//! documents that it asks for; must not know whether the change is a good one.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::check::minor_of;
use super::document::{Document, DocumentKind, InputError, Inputs, Origin, recognise};
use super::kind::{V1BETA3, V1BETA4};
use super::merge::merge;
use super::path::{FieldPath, PathStep};
use super::schema::{ListMerge, Schema, Type};
use super::yaml::{self, Located};
use super::{control_plane_object, convert, other_names};

/// How a patch is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PatchKind {
    /// Lists with keys are merged (`change::merge`).
    #[default]
    Strategic,
    /// RFC 7386: every list is replaced.
    Merge,
    /// RFC 6902: a list of operations, on the document with its flags as a list.
    Json,
}

/// What a person wants, in one of the ways to say it; parts are laid over each other in order.
#[derive(Clone, Debug)]
pub enum RequestPart {
    /// A file of patches: name and text.
    Patch(String, String),
    /// A file of documents that take the place of the stored ones.
    Replace(String, String),
    /// `PATH=VALUE`.
    Set(String),
}

/// A stored document and what is asked of it.
#[derive(Clone, Debug)]
pub struct WantedDocument {
    /// The kind; of each, a cluster has one document.
    pub kind: DocumentKind,
    /// The version in which it is stored, and will be written.
    pub version: String,
    /// As stored; with a KubeadmControlPlane as its rollout would leave it.
    pub old: Value,
    /// As asked for, with what follows from it once a plan was made.
    pub new: Value,
}

/// The request applied to what is stored.
#[derive(Clone, Debug, Default)]
pub struct WantedDocuments {
    /// Every stored document, changed or not.
    pub documents: Vec<WantedDocument>,
    /// What a person should know about how it was read.
    pub notes: Vec<String>,
}

impl WantedDocuments {
    /// `None`: the request leaves no document of this kind.
    pub fn document(&self, kind: DocumentKind) -> Option<&WantedDocument> {
        self.documents.iter().find(|wanted| wanted.kind == kind)
    }

    /// As [`WantedDocuments::document`], to change it.
    pub fn document_mut(&mut self, kind: DocumentKind) -> Option<&mut WantedDocument> {
        self.documents.iter_mut().find(|wanted| wanted.kind == kind)
    }
}

/// The minor release of kubeadm from which on it reads v1beta4.
const V1BETA4_SINCE: u64 = 31;

/// Fields that stay when a whole document leaves them out: an omission is never a request to change them.
const KEPT: [(DocumentKind, &[&str]); 3] = [
    (
        DocumentKind::Cluster,
        &[
            "kubernetesVersion",
            "networking",
            "controlPlaneEndpoint",
            "certificatesDir",
            "clusterName",
            "etcd.external",
            "etcd.local.dataDir",
        ],
    ),
    (
        DocumentKind::Kubelet,
        &[
            "clusterDNS",
            "clusterDomain",
            "staticPodPath",
            "authentication",
            "authorization",
            "healthzBindAddress",
            "healthzPort",
            "rotateCertificates",
            "cgroupDriver",
            "resolvConf",
        ],
    ),
    (DocumentKind::Proxy, &["clusterCIDR", "bindAddress", "clientConnection"]),
];

/// Applies every part of a request in order.
///
/// # Errors
/// All that cannot be used, with file, line and expectation.
pub fn apply(
    inputs: &Inputs,
    parts: &[RequestPart],
    patch_kind: PatchKind,
) -> Result<WantedDocuments, Vec<InputError>> {
    let stored = inputs.documents.iter().filter(|document| document.kind.stored_in().is_some());
    let documents = stored.map(|document| {
        let old = base(inputs, document);
        WantedDocument { kind: document.kind, version: document.version.clone(), new: old.clone(), old }
    });
    let mut target = WantedDocuments { documents: documents.collect(), notes: Vec::new() };
    let mut errors = Vec::new();
    for part in parts {
        match part {
            RequestPart::Patch(file, text) => patches(&mut target, file, text, patch_kind, &mut errors),
            RequestPart::Replace(file, text) => replacements(&mut target, file, text, &mut errors),
            RequestPart::Set(text) => {
                if let Err(message) = set(&mut target, text) {
                    errors.push(InputError { place: format!("--set {text}"), message });
                }
            }
        }
    }
    if errors.is_empty() { Ok(target) } else { Err(errors) }
}

/// What a request is applied to: the document as it is stored. What a KubeadmControlPlane has wins over it, and its lists must
/// not be made from others.
fn base(inputs: &Inputs, document: &Document) -> Value {
    match control_plane_object::readable(inputs) {
        Some(object) if document.kind == DocumentKind::Cluster => {
            control_plane_object::configuration(object, &document.value)
        }
        _ => document.value.clone(),
    }
}

fn patches(
    target: &mut WantedDocuments,
    file: &str,
    text: &str,
    kind: PatchKind,
    errors: &mut Vec<InputError>,
) {
    for located in read(file, text, errors) {
        let place = Origin { file: file.to_owned(), within: None }.place(located.line, located.column);
        if let Err(message) = patch(target, &located, kind) {
            errors.push(InputError { place, message });
        }
    }
}

fn read(file: &str, text: &str, errors: &mut Vec<InputError>) -> Vec<Located> {
    match yaml::read(text) {
        Ok(found) => {
            if found.is_empty() {
                errors.push(InputError {
                    place: file.to_owned(),
                    message: "expected a document, found nothing".to_owned(),
                });
            }
            found
        }
        Err(wrong) => {
            // The text begins with line and column, which the place has already.
            let message = wrong.to_string().split_once(": ").map_or(String::new(), |(_, why)| why.to_owned());
            errors.push(InputError { place: format!("{file}:{}:{}", wrong.line, wrong.column), message });
            Vec::new()
        }
    }
}

fn patch(target: &mut WantedDocuments, located: &Located, patch_kind: PatchKind) -> Result<(), String> {
    let value = located.value();
    if patch_kind == PatchKind::Json {
        let operations: json_patch::Patch = serde_json::from_value(value)
            .map_err(|error| format!("expected a list of JSON patch operations: {error}"))?;
        // A JSON patch has no place for a kind.
        let wanted = stored(target, DocumentKind::Cluster)?;
        return json_patch::patch(&mut wanted.new, &operations)
            .map_err(|error| format!("JSON patch: {error}"));
    }
    let (kind, version) = addressee(&value)?;
    let wanted = stored(target, kind)?;
    let version = version.unwrap_or_else(|| wanted.version.clone());
    if patch_kind == PatchKind::Merge {
        wanted.new = replaced(kind, &version, &wanted.new, &value)?;
        return Ok(());
    }
    let value = convert::to_internal(kind, &version, value);
    let merged =
        merge(Schema::embedded(), kind.name(), &wanted.new, &value).map_err(|error| error.to_string())?;
    wanted.new = merged.value;
    target.notes.extend(merged.notes.into_iter().map(|note| format!("{}: {note}", kind.name())));
    Ok(())
}

/// RFC 7386, on the document as the version of the patch has it: flags that are a map there are merged as a map.
fn replaced(kind: DocumentKind, version: &str, old: &Value, patch: &Value) -> Result<Value, String> {
    let mut document = convert::to_stored(kind, version, old).map_err(|error| error.to_string())?;
    k8s_machinery::merge::apply(&mut document, patch);
    Ok(convert::to_internal(kind, version, document))
}

/// Which document a patch is for; without a type it is ClusterConfiguration, in the version that is stored.
fn addressee(value: &Value) -> Result<(DocumentKind, Option<String>), String> {
    let (api_version, name) = (value["apiVersion"].as_str(), value["kind"].as_str());
    let Some(name) = name else { return Ok((DocumentKind::Cluster, None)) };
    let kind = DocumentKind::named(name)
        .ok_or_else(|| format!("`{name}` is not a kind that can be patched; expected {}", stored_names()))?;
    Ok((kind, api_version.and_then(|text| text.split_once('/')).map(|(_, version)| version.to_owned())))
}

fn stored_names() -> String {
    "ClusterConfiguration, KubeletConfiguration or KubeProxyConfiguration".to_owned()
}

/// The stored document of a kind, or why it cannot be changed.
fn stored(target: &mut WantedDocuments, kind: DocumentKind) -> Result<&mut WantedDocument, String> {
    match kind {
        DocumentKind::Upgrade | DocumentKind::Reset => {
            return Err(format!(
                "{} describes an action of kubeadm, not a state of the cluster: it cannot be changed",
                kind.name()
            ));
        }
        DocumentKind::Init | DocumentKind::Join => {
            return Err(format!(
                "{} is not stored in a cluster: its settings are of one node or of one run of kubeadm; expected {}",
                kind.name(),
                stored_names()
            ));
        }
        _ => {}
    }
    let name = kind.name();
    target
        .document_mut(kind)
        .ok_or_else(|| format!("the cluster has no stored {name}, so it cannot be changed"))
}

fn replacements(target: &mut WantedDocuments, file: &str, text: &str, errors: &mut Vec<InputError>) {
    let origin = Origin { file: file.to_owned(), within: None };
    for located in read(file, text, errors) {
        let place = origin.place(located.line, located.column);
        match recognise(located, &origin) {
            Ok(document) => {
                if let Err(message) = replace(target, &document) {
                    errors.push(InputError { place, message });
                }
            }
            Err(error) => errors.push(error),
        }
    }
}

fn replace(target: &mut WantedDocuments, document: &Document) -> Result<(), String> {
    let wanted = stored(target, document.kind)?;
    let mut new = document.value.clone();
    let mut kept = Vec::new();
    let fields = KEPT.iter().find(|(kind, _)| *kind == document.kind).map_or(&[][..], |(_, fields)| *fields);
    for field in fields {
        keep(&wanted.old, &mut new, field, &mut kept);
    }
    wanted.new = new;
    // An unknown version is below every number, so that nothing is written in v1beta4 for it.
    let is_read =
        minor_of(wanted.old["kubernetesVersion"].as_str().unwrap_or_default()) >= Some(V1BETA4_SINCE);
    if wanted.version == V1BETA3 && document.version == V1BETA4 && is_read {
        // Only where every kubeadm of the cluster reads it: the ConfigMap serves upgrades and joins.
        V1BETA4.clone_into(&mut wanted.version);
        target.notes.push(format!("{} is written in {V1BETA4}, as asked for", document.kind.name()));
    }
    if !kept.is_empty() {
        target.notes.push(format!(
            "{}: left out and therefore kept: {}",
            document.kind.name(),
            kept.join(", ")
        ));
    }
    Ok(())
}

/// Copies what `field` has in `old` into `new` where it is missing, below maps too.
fn keep(old: &Value, new: &mut Value, field: &str, kept: &mut Vec<String>) {
    let steps: Vec<&str> = field.split('.').collect();
    let Some(value) = steps.iter().try_fold(old, |value, step| value.get(*step)).filter(|v| !v.is_null())
    else {
        return;
    };
    let mut at = &mut *new;
    for step in &steps {
        let Value::Object(map) = at else { return };
        at = map.entry((*step).to_owned()).or_insert(Value::Null);
        // Maps on the way are made here; what stands at the last step is left to `fill`.
        if at.is_null() && step != steps.last().unwrap_or(&"") {
            *at = Value::Object(Map::new());
        }
    }
    fill(value, at, field, kept);
}

fn fill(old: &Value, new: &mut Value, path: &str, kept: &mut Vec<String>) {
    match (old, new) {
        (_, new @ Value::Null) => {
            *new = old.clone();
            kept.push(path.to_owned());
        }
        (Value::Object(old), Value::Object(new)) => {
            for (key, value) in old {
                fill(value, new.entry(key.clone()).or_insert(Value::Null), &format!("{path}.{key}"), kept);
            }
        }
        // What the new document gives counts as it is: only maps are filled up.
        _ => {}
    }
}

/// `PATH=VALUE` as a strategic patch.
fn set(target: &mut WantedDocuments, text: &str) -> Result<(), String> {
    let (path, value) = split(text).ok_or_else(|| "expected PATH=VALUE, such as maxPods=50".to_owned())?;
    let path = FieldPath::parse(path).map_err(|error| error.to_string())?;
    let (kind, path) = document_of(&path)?;
    let path = with_keys(kind, path);
    let type_ = Schema::embedded()
        .type_at(kind.name(), &path)
        .map_err(|unknown| format!("{unknown} is not a field of {}{}", kind.name(), instead(&path)))?;
    // In braces stands the whole entry of a flag, such as with a `mergeMethod`.
    let value = if is_flag(kind, &path) && !value.starts_with('{') {
        flag_value(value)
    } else {
        typed(value, &type_)?
    };
    let patch = nested(kind, &path, value)?;
    let wanted = stored(target, kind)?;
    let merged =
        merge(Schema::embedded(), kind.name(), &wanted.new, &patch).map_err(|error| error.to_string())?;
    wanted.new = merged.value;
    target.notes.extend(merged.notes.into_iter().map(|note| format!("{}: {note}", kind.name())));
    Ok(())
}

/// The end of a sentence that says what is not a field.
fn instead(path: &FieldPath) -> String {
    other_names::instead_of(path).map(|said| format!(": {said}")).unwrap_or_default()
}

/// Path and value: the first `=` that does not stand between brackets.
fn split(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0_usize;
    let at = text.char_indices().find_map(|(at, c)| match c {
        '[' => {
            depth += 1;
            None
        }
        ']' => {
            depth = depth.saturating_sub(1);
            None
        }
        '=' if depth == 0 => Some(at),
        _ => None,
    })?;
    Some((&text[..at], &text[at + 1..]))
}

/// The document that has the path; a kind may stand before it.
fn document_of(path: &FieldPath) -> Result<(DocumentKind, FieldPath), String> {
    const STORED: [DocumentKind; 3] = [DocumentKind::Cluster, DocumentKind::Kubelet, DocumentKind::Proxy];
    let Some(PathStep::Field(first)) = path.0.first() else {
        return Err("expected a field first".to_owned());
    };
    // Names of kinds begin with a capital and names of fields do not, so that none is both.
    if let Some(kind) = DocumentKind::named(first) {
        return Ok((kind, FieldPath(path.0[1..].to_vec())));
    }
    let with_field =
        |kind: &&DocumentKind| Schema::embedded().fields(kind.name()).is_some_and(|f| f.contains_key(first));
    let found: Vec<DocumentKind> = STORED.iter().filter(with_field).copied().collect();
    match found.as_slice() {
        [kind] => Ok((*kind, path.clone())),
        [] => Err(format!("{first} is not a field of {}{}", stored_names(), instead(path))),
        several => {
            let names: Vec<&str> = several.iter().map(|kind| kind.name()).collect();
            Err(format!(
                "{first} is a field of {}; expected one of them before the path, such as {}.{path}",
                names.join(" and of "),
                names[0]
            ))
        }
    }
}

/// Keys of maps may have dots, such as `memory.available`: what stands in brackets is one, and so is the rest of the path where
/// the values of the map have nothing below them.
fn with_keys(kind: DocumentKind, path: FieldPath) -> FieldPath {
    let mut found = FieldPath::default();
    let mut steps = path.0.into_iter().peekable();
    while let Some(step) = steps.next() {
        let step = match (Schema::embedded().type_at(kind.name(), &found), step) {
            (Ok(Type::Map(_)), PathStep::Item(key)) => PathStep::Field(key),
            (Ok(Type::Map(values)), PathStep::Field(key)) if !values.has_more_below() => {
                let mut key = key;
                while let Some(PathStep::Field(more)) =
                    steps.next_if(|step| matches!(step, PathStep::Field(_)))
                {
                    key = format!("{key}.{more}");
                }
                PathStep::Field(key)
            }
            (_, step) => step,
        };
        found = found.step(step);
    }
    found
}

/// Does the path end at a flag, whose value is a text whatever it looks like?
fn is_flag(kind: DocumentKind, path: &FieldPath) -> bool {
    let Some((_, above)) = path.0.split_last() else { return false };
    let list = Schema::embedded().type_at(kind.name(), &FieldPath(above.to_vec()));
    matches!(list, Ok(Type::List(_, ListMerge::Grouped(_))))
}

fn flag_value(text: &str) -> Value {
    if text == "null" { Value::Null } else { text.into() }
}

fn typed(text: &str, type_: &Type) -> Result<Value, String> {
    if text == "null" {
        return Ok(Value::Null);
    }
    match type_ {
        // What was typed stays as it is: YAML would make numbers of `1.30` and `0644`.
        Type::Text | Type::Duration | Type::Quantity => Ok(text.into()),
        _ => {
            let mut found = yaml::read(text).map_err(|error| error.to_string())?;
            match found.len() {
                1 => Ok(found.remove(0).value()),
                _ => Err(format!("`{text}` is not a value; expected {}", type_.expectation())),
            }
        }
    }
}

/// The patch that has `value` at `path`.
fn nested(kind: DocumentKind, path: &FieldPath, value: Value) -> Result<Value, String> {
    let mut patch = value;
    // From the end of the path: each step wraps what is below it.
    for at in (0..path.0.len()).rev() {
        let above = FieldPath(path.0[..at].to_vec());
        let key = match &path.0[at] {
            PathStep::Field(name) => {
                patch = json!({ name.as_str(): patch });
                continue;
            }
            PathStep::Item(key) => key.clone(),
            PathStep::Index(index) => index.to_string(),
        };
        patch = item(&Schema::embedded().type_at(kind.name(), &above), &key, patch, &above)?;
    }
    Ok(patch)
}

fn item(
    type_: &Result<Type, FieldPath>,
    key: &str,
    patch: Value,
    above: &FieldPath,
) -> Result<Value, String> {
    let mut fields = match patch {
        Value::Object(fields) => fields,
        // In a list with keys null takes the item away, as it does with a field.
        Value::Null => Map::from_iter([("$patch".to_owned(), "delete".into())]),
        scalar => Map::from_iter([("value".to_owned(), super::difference::text_of(&scalar).into())]),
    };
    let keys: Vec<String> = match type_ {
        Ok(Type::List(_, ListMerge::Grouped(key))) => vec![key.clone()],
        Ok(Type::List(_, ListMerge::Keyed(keys))) => keys.clone(),
        _ => {
            return Err(format!(
                "{above} is not a list whose items have keys; expected a path without `[{key}]`"
            ));
        }
    };
    let texts: BTreeMap<String, Value> = keys
        .into_iter()
        .zip(key.split(','))
        // Keys such as `numaNode` and `priority` are numbers, and an item is found by an equal value only.
        .map(|(name, text)| (name, text.parse::<i64>().map_or_else(|_| text.into(), Value::from)))
        .collect();
    fields.extend(texts);
    Ok(json!([fields]))
}

#[cfg(test)]
mod tests;
