//! Who set which fields of an object, and when, by the managed fields that its server keeps. Owns how fields are named; must not
//! know how they are shown.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::Value;

use capstan_base::text::sanitize_line;
use capstan_base::time::{Timestamp, from_k8s};

/// Fields of one writer that are named, and how deep.
const FIELDS_MAX: usize = 40;
const DEPTH_MAX: usize = 4;
/// Who writes it writes all of it: people look for who changed what is wanted.
const STATUS: &str = "status";

/// A field manager, and what it set last. Text is sanitised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldManager {
    pub manager: String,
    /// When it wrote last.
    pub at: Option<Timestamp>,
    /// Such as `spec.replicas`; of what is deeper only the beginning.
    pub fields: Vec<String>,
}

impl FieldManager {
    /// `field` is a path with dots; a field below it counts, too.
    pub fn has_set(&self, field: &str) -> bool {
        let is_it = |own: &String| {
            own.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.fields.iter().any(is_it)
    }
}

/// The writers of an object, the last one first.
pub fn writers(entries: &[ManagedFieldsEntry]) -> Vec<FieldManager> {
    let mut all: Vec<FieldManager> =
        entries.iter().map(writer).filter(|writer| !writer.fields.is_empty()).collect();
    all.sort_by_key(|writer| std::cmp::Reverse(writer.at));
    all
}

fn writer(entry: &ManagedFieldsEntry) -> FieldManager {
    let mut fields = Vec::new();
    if let Some(set) = &entry.fields_v1 {
        named(&set.0, &mut String::new(), DEPTH_MAX, &mut fields);
    }
    let manager = sanitize_line(entry.manager.as_deref().unwrap_or("(without a name)"));
    FieldManager { manager, at: entry.time.as_ref().map(from_k8s), fields }
}

/// The fields of a set in its order: `f:NAME` is a field, `k:` and `v:` are items of a list, whose list stands for them.
fn named(set: &Value, path: &mut String, depth: usize, fields: &mut Vec<String>) {
    let is_deep_enough = depth == 0 || path == STATUS;
    let inner = set.as_object().filter(|_| !is_deep_enough).into_iter().flatten();
    let inner = inner.filter_map(|(key, set)| Some((key.strip_prefix("f:")?, set)));
    let mut is_leaf = true;
    for (name, set) in inner {
        is_leaf = false;
        let length = path.len();
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(&sanitize_line(name));
        named(set, path, depth - 1, fields);
        path.truncate(length);
    }
    if is_leaf && !path.is_empty() && fields.len() < FIELDS_MAX {
        fields.push(path.clone());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_writer_has_its_fields_and_the_last_one_comes_first() {
        let entries: Vec<ManagedFieldsEntry> = serde_json::from_value(json!([
            {"manager": "kubectl-create", "operation": "Update", "time": "2026-11-20T10:00:00Z", "fieldsType": "FieldsV1",
             "fieldsV1": {"f:spec": {".": {}, "f:paused": {}, "f:template": {"f:spec": {"f:taints": {"k:{\"key\":\"a\"}": {}}}}}}},
            {"manager": "an\u{1b}[31mna", "operation": "Update", "time": "2026-11-21T10:00:00Z", "fieldsType": "FieldsV1",
             "fieldsV1": {"f:metadata": {"f:annotations": {"f:cluster.x-k8s.io/paused": {}}}, "f:status": {"f:phase": {}}}},
            {"manager": "nobody", "operation": "Update", "fieldsV1": {}},
        ]))
        .expect("entries");
        let all = writers(&entries);
        let told: Vec<(&str, Vec<&str>)> =
            all.iter().map(|w| (w.manager.as_str(), w.fields.iter().map(String::as_str).collect())).collect();
        let expected = [
            ("an\u{fffd}[31mna", vec!["metadata.annotations.cluster.x-k8s.io/paused", "status"]),
            ("kubectl-create", vec!["spec.paused", "spec.template.spec.taints"]),
        ];
        assert_eq!(told, expected);
        assert!(
            all[1].has_set("spec.paused") && all[1].has_set("spec.template") && !all[1].has_set("spec.p")
        );
    }

    #[test]
    fn a_set_without_an_end_has_one_here() {
        // serde_json reads at most 128 levels, so a server cannot send a deeper set.
        let mut set = json!({});
        for at in 0..120 {
            set = json!({ format!("f:{at}"): set });
        }
        let mut fields = Vec::new();
        named(&set, &mut String::new(), DEPTH_MAX, &mut fields);
        assert_eq!(fields, ["119.118.117.116"]);
        let wide: Value =
            (0..100).map(|at| (format!("f:{at}"), json!({}))).collect::<serde_json::Map<_, _>>().into();
        fields.clear();
        named(&wide, &mut String::new(), DEPTH_MAX, &mut fields);
        assert_eq!(fields.len(), FIELDS_MAX);
    }
}
