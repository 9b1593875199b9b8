//! What differs between two versions of a document, field by field: lists with keys by key, sets without order,
//! values by what they mean (`240s` is `4m0s`). Owns the comparison; must not know what a difference means.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Map, Value};

use super::document::DocumentKind;
use super::network::{Cidr, canonical_name, parse_ip, with_port};
use super::path::{FieldPath, PathStep};
use super::schema::{FieldType, ListMerge, Schema, Type};
use super::units::quantity_milli;
use capstan_base::go_duration::GoDuration;

/// One field that is different.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FieldChange {
    /// The document that has the field.
    pub kind: DocumentKind,
    /// From the head of the document.
    pub path: FieldPath,
    /// As stored, or what kubeadm takes when it is absent; null when there is nothing.
    pub old: Value,
    /// As asked for; null when the field is taken away.
    pub new: Value,
    /// What brought it about, when it was not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub derived_from: Option<String>,
}

impl FieldChange {
    /// The old value for people; secrets are hidden.
    pub fn old_text(&self) -> String {
        shown(&self.path, &self.old)
    }

    /// The new value for people; secrets are hidden.
    pub fn new_text(&self) -> String {
        shown(&self.path, &self.new)
    }
}

/// Every difference between two documents of one kind, in the order of their paths.
pub fn differences(kind: DocumentKind, old: &Value, new: &Value) -> Vec<FieldChange> {
    walked(kind, Some(old), new, Counts::Meaning)
}

/// Every field that a document sets, also to what it has by default, in the order of their paths.
pub fn fields(kind: DocumentKind, document: &Value) -> Vec<FieldChange> {
    walked(kind, None, document, Counts::Presence)
}

fn walked(kind: DocumentKind, old: Option<&Value>, new: &Value, counts: Counts) -> Vec<FieldChange> {
    let mut walk = Walk { kind, counts, found: Vec::new() };
    let type_ = Type::Struct(kind.name().to_owned());
    walk.compare(&FieldPath::default(), old, Some(new), &type_, None);
    walk.found
}

/// Which field is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counts {
    /// One that means something else.
    Meaning,
    /// One that is there.
    Presence,
}

struct Walk {
    kind: DocumentKind,
    counts: Counts,
    found: Vec<FieldChange>,
}

impl Walk {
    fn compare(
        &mut self,
        path: &FieldPath,
        old: Option<&Value>,
        new: Option<&Value>,
        type_: &Type,
        field: Option<&FieldType>,
    ) {
        match type_ {
            Type::Struct(name) => {
                let fields = Schema::embedded().fields(name);
                for key in keys(old, new) {
                    let field = fields.and_then(|fields| fields.get(&key));
                    let type_ = field.map_or(Type::Any, |field| field.type_.clone());
                    self.compare(&path.field(&key), at(old, &key), at(new, &key), &type_, field);
                }
            }
            Type::Map(inner) => {
                for key in keys(old, new) {
                    self.compare(&path.field(&key), at(old, &key), at(new, &key), inner, None);
                }
            }
            Type::List(_, ListMerge::Grouped(key)) => self.groups(path, old, new, key),
            Type::List(inner, ListMerge::Keyed(keys)) => self.keyed(path, old, new, keys, inner),
            Type::List(_, ListMerge::Set) => {
                if canonical_set(old) != canonical_set(new) {
                    self.add(path, old, new, None);
                }
            }
            // Lists that are replaced as a whole are compared here as one value.
            scalar => {
                let default = field.and_then(|field| field.default.as_deref());
                let differs = match self.counts {
                    Counts::Meaning => {
                        !self.same(old, new, scalar, default) && !self.is_spelled(path, old, new)
                    }
                    Counts::Presence => new.is_some_and(|new| !self.is_unset(new, scalar)),
                };
                if differs {
                    self.add(path, old, new, default);
                }
            }
        }
    }

    fn add(&mut self, path: &FieldPath, old: Option<&Value>, new: Option<&Value>, default: Option<&str>) {
        let value = |side: Option<&Value>| {
            let side = side.cloned().unwrap_or_default();
            match default {
                // People read the default where nothing is written: from nothing to a value says less.
                Some(default) if is_absent(&side) => default.into(),
                _ => side,
            }
        };
        let change = FieldChange {
            kind: self.kind,
            path: path.clone(),
            old: value(old),
            new: value(new),
            derived_from: None,
        };
        self.found.push(change);
    }

    /// All values of one flag together: their order means something.
    fn groups(&mut self, path: &FieldPath, old: Option<&Value>, new: Option<&Value>, key: &str) {
        for name in names(old, new, key) {
            let (before, after) = (values_of(old, key, &name), values_of(new, key, &name));
            if before != after {
                let path = path.step(PathStep::Item(name));
                self.add(&path, Some(&one_or_all(before)), Some(&one_or_all(after)), None);
            }
        }
    }

    fn keyed(
        &mut self,
        path: &FieldPath,
        old: Option<&Value>,
        new: Option<&Value>,
        keys: &[String],
        item: &Type,
    ) {
        let identity =
            |item: &Value| keys.iter().map(|key| text_of(&item[key.as_str()])).collect::<Vec<_>>().join(",");
        let find = |list: Option<&Value>, key: &str| {
            let items = list.and_then(Value::as_array);
            // kubeadm takes the last one of a name.
            items.and_then(|items| items.iter().rev().find(|item| identity(item) == key).cloned())
        };
        let items = [old, new].into_iter().flatten().filter_map(Value::as_array).flatten();
        let all: BTreeSet<String> = items.map(identity).collect();
        for key in all {
            let at = path.step(PathStep::Item(key.clone()));
            match (find(old, &key), find(new, &key)) {
                (Some(old), Some(new)) => self.compare(&at, Some(&old), Some(&new), item, None),
                (old, new) => self.add(&at, old.as_ref(), new.as_ref(), None),
            }
        }
    }

    fn same(&self, old: Option<&Value>, new: Option<&Value>, type_: &Type, default: Option<&str>) -> bool {
        // An absent field counts as its default: to write the default down changes nothing.
        let given = |side: Option<&Value>| match side {
            Some(value) if !self.is_unset(value, type_) => value.clone(),
            _ => default.map_or(Value::Null, Value::from),
        };
        let (old, new) = (given(old), given(new));
        // A text `null` has the same meaning as nothing, so both have to be there.
        old == new || meaning(&old, type_) == meaning(&new, type_) && old.is_null() == new.is_null()
    }

    /// Is one the short form of the other, which kubeadm completes?
    fn is_spelled(&self, path: &FieldPath, old: Option<&Value>, new: Option<&Value>) -> bool {
        let [PathStep::Field(field)] = path.0.as_slice() else { return false };
        let (Some(old), Some(new)) = (old.and_then(Value::as_str), new.and_then(Value::as_str)) else {
            return false;
        };
        self.kind == DocumentKind::Cluster
            && completed(field, old).is_some_and(|old| Some(old) == completed(field, new))
    }

    /// In documents of kubeadm a zero value is an absent field; in those of components only an empty one is, and a
    /// duration of nothing.
    fn is_unset(&self, value: &Value, type_: &Type) -> bool {
        let is_component = matches!(self.kind, DocumentKind::Kubelet | DocumentKind::Proxy);
        match value {
            Value::Bool(false) => !is_component,
            Value::String(text) if matches!(type_, Type::Duration | Type::DurationOrInteger) => {
                GoDuration::parse(text) == Some(GoDuration::default())
            }
            Value::Number(number) if *type_ == Type::DurationOrInteger => number.as_i64() == Some(0),
            value => is_absent(value),
        }
    }
}

fn is_absent(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

/// A form that is equal for values that mean the same.
fn meaning(value: &Value, type_: &Type) -> String {
    match (type_, value) {
        (Type::Duration, Value::String(text)) => {
            GoDuration::parse(text).map_or_else(|| text.clone(), |duration| duration.to_string())
        }
        (Type::DurationOrInteger, Value::String(text)) => {
            GoDuration::parse(text).map_or_else(|| text.clone(), |duration| duration.ns().to_string())
        }
        (Type::Quantity, value) => {
            let text = text_of(value);
            quantity_milli(&text).map_or(text, |milli| milli.to_string())
        }
        (Type::Integer | Type::Float, Value::Number(number)) => {
            // JSON has one kind of number, in which 5.0 is 5.
            number.as_f64().map_or_else(|| number.to_string(), |n| n.to_string())
        }
        (Type::Text, Value::String(text)) => canonical_text(text),
        (Type::List(inner, _), Value::Array(items)) => {
            items.iter().map(|item| meaning(item, inner)).collect::<Vec<_>>().join("\n")
        }
        (_, value) => value.to_string(),
    }
}

/// Source: kubeadm `util/config/initconfiguration.go` (`SetClusterDynamicDefaults`), for API servers with the usual port.
fn completed(field: &str, text: &str) -> Option<String> {
    match field {
        "kubernetesVersion" if !text.is_empty() => Some(text.strip_prefix('v').unwrap_or(text).to_owned()),
        "controlPlaneEndpoint" => with_port(text, "6443"),
        _ => None,
    }
}

/// Addresses and ranges of addresses in their shortest form.
fn canonical_text(text: &str) -> String {
    if let Some(ranges) = Cidr::parse_pair(text) {
        return ranges.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    }
    parse_ip(text).map_or_else(|| text.to_owned(), |address| address.to_string())
}

fn keys(old: Option<&Value>, new: Option<&Value>) -> BTreeSet<String> {
    let maps = [old, new].into_iter().flatten().filter_map(Value::as_object);
    maps.flat_map(Map::keys).cloned().collect()
}

fn at<'v>(value: Option<&'v Value>, key: &str) -> Option<&'v Value> {
    value.and_then(|value| value.get(key))
}

fn names(old: Option<&Value>, new: Option<&Value>, key: &str) -> BTreeSet<String> {
    let items = [old, new].into_iter().flatten().filter_map(Value::as_array).flatten();
    items.map(|item| text_of(&item[key])).collect()
}

fn values_of(list: Option<&Value>, key: &str, name: &str) -> Vec<Value> {
    let items = list.and_then(Value::as_array).into_iter().flatten();
    items.filter(|item| item[key] == name).map(|item| item["value"].clone()).collect()
}

fn one_or_all(mut values: Vec<Value>) -> Value {
    match values.len() {
        0 => Value::Null,
        1 => values.remove(0),
        _ => Value::Array(values),
    }
}

fn canonical_set(list: Option<&Value>) -> BTreeSet<String> {
    let items = list.and_then(Value::as_array).into_iter().flatten();
    items.map(|item| canonical_name(&text_of(item))).collect()
}

/// A scalar as text, without quotes.
pub fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

const SECRET_FIELDS: [&str; 3] = ["token", "certificateKey", "tlsBootstrapToken"];
const SECRET_WORDS: [&str; 4] = ["TOKEN", "PASSWORD", "SECRET", "KEY"];
const HIDDEN: &str = "(hidden)";

fn is_secret_variable(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// Is the value of this field not for eyes: tokens, keys, variables that are named like one?
pub fn is_secret(path: &FieldPath) -> bool {
    let is_variable = path.0.iter().any(|step| *step == PathStep::Field("extraEnvs".to_owned()));
    path.0.iter().any(|step| match step {
        PathStep::Field(name) => SECRET_FIELDS.contains(&name.as_str()),
        PathStep::Item(key) => is_variable && is_secret_variable(key),
        PathStep::Index(_) => false,
    })
}

/// A document for eyes.
pub fn without_secrets(value: &Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.iter().map(without_secrets).collect()),
        Value::Object(map) => {
            let mut shown: Map<String, Value> =
                map.iter().map(|(key, v)| (key.clone(), without_secrets(v))).collect();
            // Secrets are known by the names of their fields: the map does not know its own path.
            for field in SECRET_FIELDS.iter().filter(|field| map.contains_key(**field)) {
                shown.insert((*field).to_owned(), HIDDEN.into());
            }
            for variable in shown.get_mut("extraEnvs").and_then(Value::as_array_mut).into_iter().flatten() {
                if variable["name"].as_str().is_some_and(is_secret_variable)
                    && variable.get("value").is_some()
                {
                    variable["value"] = HIDDEN.into();
                }
            }
            Value::Object(shown)
        }
        value => value.clone(),
    }
}

/// A value in one line.
fn shown(path: &FieldPath, value: &Value) -> String {
    if is_absent(value) {
        return "(none)".to_owned();
    }
    // Whether a secret is there may be seen; its value may not.
    if is_secret(path) {
        return HIDDEN.to_owned();
    }
    match value {
        Value::Array(items) => items.iter().map(text_of).collect::<Vec<_>>().join(", "),
        Value::Object(map) => {
            let pairs: Vec<String> =
                map.iter().map(|(key, value)| format!("{key}: {}", text_of(value))).collect();
            format!("{{{}}}", pairs.join(", "))
        }
        value => text_of(value),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(kind: DocumentKind, old: &Value, new: &Value) -> Vec<String> {
        let found = differences(kind, old, new);
        found.iter().map(|c| format!("{}: {} → {}", c.path, c.old_text(), c.new_text())).collect()
    }

    #[test]
    fn values_that_mean_the_same_are_the_same() {
        let table = [
            (
                DocumentKind::Cluster,
                json!({}),
                json!({"clusterName": "kubernetes", "networking": {"dnsDomain": ""}, "dns": {"disabled": false}}),
            ),
            (DocumentKind::Cluster, json!({"certificateValidityPeriod": "8760h0m0s"}), json!({})),
            (
                DocumentKind::Cluster,
                json!({"networking": {"podSubnet": "10.244.0.0/16"}}),
                json!({"networking": {"podSubnet": "10.244.7.0/16"}}),
            ),
            (
                DocumentKind::Cluster,
                json!({"apiServer": {"certSANs": ["a", "10.0.0.1"]}}),
                json!({"apiServer": {"certSANs": ["10.0.0.1", "A"]}}),
            ),
            (
                DocumentKind::Cluster,
                json!({"apiServer": {"extraArgs": [{"name": "a", "value": "1"}, {"name": "b", "value": "2"}]}}),
                json!({"apiServer": {"extraArgs": [{"name": "b", "value": "2"}, {"name": "a", "value": "1"}]}}),
            ),
            (DocumentKind::Kubelet, json!({"syncFrequency": "60s"}), json!({"syncFrequency": "1m0s"})),
            (DocumentKind::Kubelet, json!({"syncFrequency": "0s"}), json!({})),
            (DocumentKind::Kubelet, json!({"logging": {"flushFrequency": 0}}), json!({})),
            (
                DocumentKind::Kubelet,
                json!({"logging": {"flushFrequency": 5_000_000_000_u64}}),
                json!({"logging": {"flushFrequency": "5s"}}),
            ),
            (
                DocumentKind::Kubelet,
                json!({"reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}]}),
                json!({"reservedMemory": [{"limits": {"memory": "1024Mi"}, "numaNode": 0}]}),
            ),
        ];
        for (kind, old, new) in table {
            assert_eq!(texts(kind, &old, &new), Vec::<String>::new(), "{old} {new}");
            assert_eq!(texts(kind, &new, &old), Vec::<String>::new(), "{new} {old}");
        }
    }

    #[test]
    fn differences_have_their_path_and_both_values() {
        let table = [
            (
                DocumentKind::Cluster,
                json!({}),
                json!({"imageRepository": "r"}),
                "imageRepository: registry.k8s.io → r",
            ),
            (
                DocumentKind::Cluster,
                json!({"apiServer": {"extraArgs": [{"name": "i", "value": "1"}, {"name": "i", "value": "2"}]}}),
                json!({"apiServer": {"extraArgs": [{"name": "i", "value": "2"}, {"name": "i", "value": "1"}]}}),
                "apiServer.extraArgs[i]: 1, 2 → 2, 1",
            ),
            (
                DocumentKind::Cluster,
                json!({"scheduler": {"extraVolumes": [{"name": "a", "hostPath": "/a", "mountPath": "/a"}]}}),
                json!({"scheduler": {"extraVolumes": [{"name": "a", "hostPath": "/b", "mountPath": "/a", "readOnly": false}]}}),
                "scheduler.extraVolumes[a].hostPath: /a → /b",
            ),
            (
                DocumentKind::Cluster,
                json!({"etcd": {"local": {"extraEnvs": [{"name": "API_TOKEN", "value": "x"}]}}}),
                json!({}),
                "etcd.local.extraEnvs[API_TOKEN]: (hidden) → (none)",
            ),
            (
                DocumentKind::Cluster,
                json!({"apiServer": {"certSANs": ["a"]}}),
                json!({"apiServer": {"certSANs": ["b", "a"]}}),
                "apiServer.certSANs: a → b, a",
            ),
            (DocumentKind::Cluster, json!({"typo": {"x": 1}}), json!({}), "typo: {x: 1} → (none)"),
            (DocumentKind::Kubelet, json!({"failSwapOn": false}), json!({}), "failSwapOn: false → (none)"),
            (
                DocumentKind::Kubelet,
                json!({"evictionHard": {"memory.available": "100Mi"}}),
                json!({"evictionHard": {"memory.available": "200Mi"}}),
                "evictionHard[\"memory.available\"]: 100Mi → 200Mi",
            ),
            (
                DocumentKind::Kubelet,
                json!({"clusterDNS": ["a", "b"]}),
                json!({"clusterDNS": ["b", "a"]}),
                "clusterDNS: a, b → b, a",
            ),
        ];
        for (kind, old, new, expected) in table {
            assert_eq!(texts(kind, &old, &new), [expected]);
        }
    }
}
