//! Does a configuration document say what its author meant? Owns the findings: unknown and repeated fields, which
//! kubeadm only logs, values of another type, the traps of YAML 1.1, and what kubeadm itself refuses. Must not
//! know what a change of a field means.
//!
//! Source: kubeadm `apis/kubeadm/validation/validation.go`.

mod document_check;
mod kubelet;
mod limits;
mod logging;
mod operations;
mod proxy;
mod values;

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use serde_json::Value;

use super::accepted;
use super::document::{Document, DocumentKind};
use super::kind::{KUBEADM_GROUP, V1BETA3, V1BETA4};
use super::path::{FieldPath, PathStep};
use super::schema::{FieldType, ListMerge, Schema, Type};
use super::units;
use super::yaml::{Located, MapEntry, YamlShape};
use capstan_base::go_duration::GoDuration;
use capstan_base::text::did_you_mean;
use document_check::DocumentCheck;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingSeverity {
    /// kubeadm goes on, but probably not as its author meant.
    Warning,
    /// kubeadm refuses the document, or a component does.
    Error,
}

/// One thing that is wrong with a document.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct DocumentFinding {
    /// Whether it keeps the document from being used.
    pub severity: FindingSeverity,
    /// Name of the document's kind.
    pub kind: &'static str,
    /// The field; empty when the whole document is meant.
    pub path: String,
    /// `FILE:LINE:COLUMN`.
    pub place: String,
    /// What is wrong, and what was expected.
    pub message: String,
}

/// Everything that is wrong with a document. `minor` is the cluster's Kubernetes minor version, when it is known.
pub fn check(document: &Document, minor: Option<u64>) -> Vec<DocumentFinding> {
    let mut walk = Walk { document, minor, found: Vec::new() };
    walk.value(&FieldPath::default(), &document.located, &Type::Struct(document.kind.name().to_owned()));
    let mut found = walk.found;
    found.extend(unread(document, minor));
    // The rules read values by their types, so they wait until every value has its type.
    if !found.iter().any(|finding| finding.severity == FindingSeverity::Error) {
        let mut check = DocumentCheck { document, found: &mut found };
        values::check(&mut check, minor);
        operations::check(&mut check);
        found.extend(refused_by_component(document, minor));
    }
    found
}

/// The minor releases of kubeadm that read a version of its API.
/// Source: kubeadm 1.22 to 1.37 `util/config/common.go` (`validateSupportedVersion`).
fn readers(version: &str) -> RangeInclusive<u64> {
    match version {
        V1BETA3 => 22..=36,
        V1BETA4 => 31..=u64::MAX,
        _ => 37..=u64::MAX,
    }
}

/// A version of the API that kubeadm of this release does not read.
fn unread(document: &Document, minor: Option<u64>) -> Option<DocumentFinding> {
    // Of a kubeadm whose release is not known nothing can be said.
    let minor = minor.filter(|minor| {
        document.kind.group() == KUBEADM_GROUP && !readers(&document.version).contains(minor)
    })?;
    let message = format!(
        "kubeadm 1.{minor} does not read version {} of {KUBEADM_GROUP}; `kubeadm config migrate` of a kubeadm that does writes it in another one",
        document.version
    );
    Some(finding(document, FindingSeverity::Error, &FieldPath::default(), &document.located, message))
}

/// What kubelet or kube-proxy would end with at their start.
fn refused_by_component(document: &Document, minor: Option<u64>) -> Vec<DocumentFinding> {
    let (component, mut refused) = match document.kind {
        DocumentKind::Kubelet => ("the kubelet", kubelet::refused(&document.value, minor)),
        DocumentKind::Proxy => ("kube-proxy", proxy::refused(&document.value, minor)),
        _ => return Vec::new(),
    };
    refused.extend(limits::refused(document.kind, &document.value, minor));
    let finding = |(path, message): (String, String)| {
        let message = format!("{path} {message}; {component} does not start with it");
        let path = FieldPath::parse(&path).unwrap_or_default();
        // A release that does not read a field does not judge it either, as a real kubelet of 1.28 showed.
        let first_read = Schema::embedded().first_read(document.kind.name(), &path);
        let is_later = first_read.zip(minor).is_some_and(|(since, minor)| since > minor);
        let at = document_check::place(&document.located, &path);
        (!is_later).then(|| finding(document, FindingSeverity::Error, &path, at, message))
    };
    refused.into_iter().filter_map(finding).collect()
}

/// Flags and gates of a ClusterConfiguration that their component refuses. Apart from [`check`], because a component of another
/// make may take them.
pub fn check_flags(document: &Document, minor: Option<u64>) -> Vec<DocumentFinding> {
    if document.kind != DocumentKind::Cluster {
        return Vec::new();
    }
    let refused =
        accepted::refused_flags(&document.value, minor, accepted::etcd_minor(&document.value, None))
            .into_iter();
    let finding = |refused: accepted::FlagRefusal| {
        let path = refused.folder.iter().fold(FieldPath::default(), |path, name| path.field(name));
        let path = path.field("extraArgs");
        let at = document_check::place(&document.located, &path);
        // One refusal may be about several flags, which have no place in common but that of their
        // list.
        let path = path.step(PathStep::Item(refused.flags.join(",")));
        let message = format!("{} {}", refused.refusal.problem, refused.refusal.instead);
        finding(document, FindingSeverity::Error, &path, at, message)
    };
    refused.map(finding).collect()
}

struct Walk<'d> {
    document: &'d Document,
    minor: Option<u64>,
    found: Vec<DocumentFinding>,
}

impl Walk<'_> {
    fn add(&mut self, severity: FindingSeverity, path: &FieldPath, at: &Located, message: String) {
        self.found.push(finding(self.document, severity, path, at, message));
    }

    fn value(&mut self, path: &FieldPath, at: &Located, type_: &Type) {
        // An explicit null is an absent field.
        if matches!(at.shape, YamlShape::Scalar(Value::Null)) {
            return;
        }
        match (type_, &at.shape) {
            (Type::Any, _) => {}
            (Type::Struct(name), YamlShape::Map(entries)) => self.fields(path, name, entries),
            (Type::Map(inner), YamlShape::Map(entries)) => {
                self.repeated(path, entries);
                for entry in entries {
                    self.key(path, &entry.key);
                    self.value(&path.field(&entry.key.key_text()), &entry.value, inner);
                }
            }
            (Type::List(inner, ListMerge::Grouped(_)), YamlShape::Map(entries))
                if self.document.version == V1BETA3 =>
            {
                self.flag_map(path, entries, inner);
            }
            // v1beta3 has flags as a map, and kubeadm refuses a list, as the last arm does.
            (Type::List(inner, merge), YamlShape::List(items)) if !self.is_flag_list_of_v1beta3(merge) => {
                for (index, item) in items.iter().enumerate() {
                    self.value(&path.step(item_step(item, merge, index)), item, inner);
                }
            }
            (scalar, YamlShape::Scalar(value)) => self.scalar(path, at, scalar, value),
            (expected, shape) => {
                let is = if matches!(shape, YamlShape::Map(_)) { "a map" } else { "a list" };
                let expected = if self.is_flag_map(expected) { "a map" } else { expected.expectation() };
                self.add(FindingSeverity::Error, path, at, format!("{path} is {is}; expected {expected}"));
            }
        }
    }

    fn is_flag_map(&self, type_: &Type) -> bool {
        matches!(type_, Type::List(_, merge) if self.is_flag_list_of_v1beta3(merge))
    }

    fn is_flag_list_of_v1beta3(&self, merge: &ListMerge) -> bool {
        matches!(merge, ListMerge::Grouped(_)) && self.document.version == V1BETA3
    }

    /// Flags in v1beta3 are a map of strings.
    fn flag_map(&mut self, path: &FieldPath, entries: &[MapEntry], item: &Type) {
        self.repeated(path, entries);
        let value = match item {
            Type::Struct(name) => {
                Schema::embedded().fields(name).and_then(|f| f.get("value")).map(|f| f.type_.clone())
            }
            _ => None,
        };
        for entry in entries {
            self.key(path, &entry.key);
            let at = path.step(PathStep::Item(entry.key.key_text()));
            self.value(&at, &entry.value, value.as_ref().unwrap_or(&Type::Text));
        }
    }

    fn fields(&mut self, path: &FieldPath, name: &str, entries: &[MapEntry]) {
        self.repeated(path, entries);
        let Some(fields) = Schema::embedded().fields(name) else { return };
        for entry in entries {
            let key = entry.key.key_text();
            // Type fields are not in the schema.
            if path.0.is_empty() && (key == "apiVersion" || key == "kind") {
                continue;
            }
            let at = path.field(&key);
            match fields.get(&key) {
                Some(field) => {
                    self.version(&at, entry, field);
                    self.value(&at, &entry.value, &field.type_);
                }
                None => {
                    let hint = did_you_mean(&key, fields.keys().map(String::as_str));
                    let message = format!("{at} is not a field: kubeadm ignores it without an error{hint}");
                    self.add(FindingSeverity::Warning, &at, &entry.key, message);
                }
            }
        }
    }

    fn version(&mut self, path: &FieldPath, entry: &MapEntry, field: &FieldType) {
        let (version, at) = (&self.document.version, &entry.key);
        if let Some(only) = field.only_in.as_ref().filter(|_| !field.is_in(version)) {
            let message = format!("{path} is not a field of {version}, only of {only}: kubeadm ignores it");
            self.add(FindingSeverity::Warning, path, at, message);
        }
        let too_new = field.since_minor.zip(self.minor).filter(|(since, minor)| minor < since);
        // A newer kubeadm writes all fields of a component that it knows, empty ones too; its own stand there because somebody set them.
        let is_own = self.document.kind.group() == KUBEADM_GROUP;
        let too_new = too_new.filter(|_| is_own || !is_zero(&entry.value));
        if let Some((since, minor)) = too_new {
            let reader = self.document.kind.reader();
            let message =
                format!("{path} is read by {reader} 1.{since} and later, not by 1.{minor}, which ignores it");
            self.add(FindingSeverity::Warning, path, at, message);
        }
    }

    fn repeated(&mut self, path: &FieldPath, entries: &[MapEntry]) {
        let mut seen = BTreeSet::new();
        for entry in entries {
            let key = entry.key.key_text();
            if !seen.insert(key.clone()) {
                let at = path.field(&key);
                let message = format!("{at} stands twice: kubeadm takes the last one without an error");
                self.add(FindingSeverity::Warning, &at, &entry.key, message);
            }
        }
    }

    /// A key such as `y` or `0644` turns into another text.
    fn key(&mut self, path: &FieldPath, key: &Located) {
        if let Some(plain) = key.plain.as_deref().filter(|plain| *plain != key.key_text()) {
            let at = path.field(plain);
            let message = format!(
                "the key `{plain}` stands without quotes: kubeadm reads it as `{}`; write \"{plain}\"",
                key.key_text()
            );
            self.add(FindingSeverity::Error, &at, key, message);
        }
    }

    fn scalar(&mut self, path: &FieldPath, at: &Located, type_: &Type, value: &Value) {
        if let (Type::Text | Type::Duration, Some(plain)) = (type_, &at.plain)
            && !value.is_string()
        {
            let read = value.to_string();
            let message = format!(
                "{path} is {} and stands without quotes: kubeadm reads {}, not a string, and refuses it; write \"{plain}\"",
                if *plain == read {
                    format!("`{plain}`")
                } else {
                    format!("`{plain}`, which is {value} in YAML 1.1,")
                },
                described(value),
            );
            return self.add(FindingSeverity::Error, path, at, message);
        }
        let fits = match type_ {
            Type::Text => value.is_string(),
            Type::Bool => value.is_boolean(),
            Type::Integer => {
                // JSON stands between YAML and Go, and 5.0 is 5 in it.
                value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|n| n.fract() == 0.0)
            }
            Type::Float => value.is_number(),
            Type::Duration => value.as_str().is_some_and(|text| GoDuration::parse(text).is_some()),
            Type::DurationOrInteger => {
                value.is_i64() || value.as_str().is_some_and(|text| GoDuration::parse(text).is_some())
            }
            Type::Quantity => {
                // Kubernetes takes a number for a quantity, too.
                value.is_number() || value.as_str().is_some_and(|text| units::quantity_milli(text).is_some())
            }
            Type::Any => true,
            Type::Map(_) | Type::List(..) | Type::Struct(_) => false,
        };
        if !fits {
            let is = at.plain.as_ref().map_or_else(|| value.to_string(), |plain| format!("`{plain}`"));
            let message = format!("{path} is {is}; expected {}", type_.expectation());
            return self.add(FindingSeverity::Error, path, at, message);
        }
        // A zero alone is the same in both bases.
        let octal =
            at.plain.as_deref().filter(|plain| plain.len() > 1 && plain.starts_with('0') && value.is_i64());
        if let (Type::Integer, Some(plain)) = (type_, octal) {
            let message = format!("{path} is `{plain}`, which kubeadm reads as {value} (base 8)");
            self.add(FindingSeverity::Warning, path, at, message);
        }
    }
}

fn described(value: &Value) -> &'static str {
    if value.is_boolean() { "a boolean" } else { "a number" }
}

fn item_step(item: &Located, merge: &ListMerge, index: usize) -> PathStep {
    let keys: &[String] = match merge {
        ListMerge::Keyed(keys) => keys,
        ListMerge::Grouped(key) => std::slice::from_ref(key),
        _ => return PathStep::Index(index),
    };
    let texts: Option<Vec<String>> = keys.iter().map(|key| Some(item.get(key)?.key_text())).collect();
    // An item that lacks one of its keys can be named by its place only.
    texts.map_or(PathStep::Index(index), |texts| PathStep::Item(texts.join(",")))
}

fn finding(
    document: &Document,
    severity: FindingSeverity,
    path: &FieldPath,
    at: &Located,
    message: String,
) -> DocumentFinding {
    let place = document.origin.place(at.line, at.column);
    DocumentFinding { severity, kind: document.kind.name(), path: path.to_string(), place, message }
}

/// The Kubernetes minor version that the documents name.
pub fn stated_minor(documents: &[Document]) -> Option<u64> {
    let cluster = documents.iter().find(|document| document.kind == DocumentKind::Cluster)?;
    minor_of(cluster.value["kubernetesVersion"].as_str()?)
}

/// `v1.31.4` → 31.
pub fn minor_of(version: &str) -> Option<u64> {
    let rest = version.strip_prefix('v').unwrap_or(version).strip_prefix("1.")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// What Go leaves out of a document, or writes for a field that nobody set.
fn is_zero(value: &Located) -> bool {
    match &value.shape {
        YamlShape::Scalar(Value::String(text)) => ["", "0s"].contains(&text.as_str()),
        YamlShape::Scalar(value) => *value == Value::Null || *value == false || *value == 0,
        YamlShape::List(items) => items.is_empty(),
        YamlShape::Map(entries) => entries.iter().all(|entry| is_zero(&entry.value)),
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod vector_tests;
