//! What a live copy keeps of `managedFields`: what [`super::standing`] reads, in a form that is small. Must not know
//! who holds the copy.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry, ObjectMeta};
use serde_json::{Map, Value};

use super::{BEFORE_FIRST_APPLY, is_apply_of};
use crate::api::names::manager;

/// Keeps the field sets of the managers that apply here, and the name of the owner of everything. A set becomes
/// text: as a tree it takes ten times the memory. There is a list afterwards in any case, so that an object
/// without owners can be told from one whose owners were not read.
pub fn keep(metadata: &mut ObjectMeta) {
    let entries = metadata.managed_fields.get_or_insert_default();
    entries.retain(is_kept);
    entries.shrink_to_fit();
    for entry in entries {
        entry.time = None;
        entry.fields_type = None;
        let is_of_everything = entry.manager.as_deref() == Some(BEFORE_FIRST_APPLY);
        let set = entry.fields_v1.take().filter(|_| !is_of_everything);
        entry.fields_v1 = set.map(|FieldsV1(set)| FieldsV1(text(set)));
    }
}

fn is_kept(entry: &ManagedFieldsEntry) -> bool {
    let name = entry.manager.as_deref().unwrap_or_default();
    let applies = entry.operation.as_deref() == Some("Apply") && manager::APPLYING.contains(&name);
    (applies || name == BEFORE_FIRST_APPLY) && entry.subresource.as_deref().unwrap_or_default().is_empty()
}

/// [`keep`] for the metadata of an object of any kind: of the sets only those of labels and annotations, as nothing
/// else of such an object is applied to it once it exists.
pub fn keep_values(metadata: &mut Map<String, Value>) {
    let entries = metadata.remove("managedFields").unwrap_or_default();
    let entries = entries.as_array().into_iter().flatten();
    let kept = entries.filter_map(|entry| {
        let mut entry = entry.as_object()?.clone();
        entry.remove("time");
        entry.remove("fieldsType");
        if entry.get("manager")? == BEFORE_FIRST_APPLY {
            entry.remove("fieldsV1");
            return Some(Value::Object(entry));
        }
        let set = entry.remove("fieldsV1").unwrap_or_default();
        entry.insert("fieldsV1".to_owned(), text(set));
        let entry = Value::Object(entry);
        manager::OF_METADATA.iter().any(|name| is_apply_of(&entry, name)).then_some(entry)
    });
    let kept = kept.collect();
    metadata.insert("managedFields".to_owned(), Value::Array(kept));
}

fn text(set: Value) -> Value {
    match set {
        Value::String(text) => Value::String(text),
        set => Value::String(set.to_string()),
    }
}
