//! What a live copy keeps of `managedFields`: what [`super::standing`] reads, in a form that is small. Must not know
//! who holds the copy.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry, ObjectMeta};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{BEFORE_FIRST_APPLY, is_apply_of};
use crate::names::manager;

/// Keeps the field sets of the managers that apply here, and the name of the owner of everything. A set becomes
/// text: as a tree it takes ten times the memory. There is a list afterwards in any case, so that an object
/// without owners can be told from one whose owners were not read.
pub fn keep(metadata: &mut ObjectMeta) {
    let entries = metadata.managed_fields.get_or_insert_default();
    entries.retain(is_kept);
    // A copy lives long, and the list had room for all entries.
    entries.shrink_to_fit();
    for entry in entries {
        // The time of an entry is not used here, and a text for each entry adds up.
        entry.time = None;
        entry.fields_type = None;
        let is_of_everything = entry.manager.as_deref() == Some(BEFORE_FIRST_APPLY);
        // The owner of everything matters by its name alone.
        let set = entry.fields_v1.take().filter(|_| !is_of_everything);
        entry.fields_v1 = set.map(|FieldsV1(set)| FieldsV1(text(set)));
    }
}

fn is_kept(entry: &ManagedFieldsEntry) -> bool {
    has_kept_names([&entry.manager, &entry.operation, &entry.subresource].map(Option::as_deref))
}

fn has_kept_names([manager, operation, subresource]: [Option<&str>; 3]) -> bool {
    let name = manager.unwrap_or_default();
    let applies = operation == Some("Apply") && manager::APPLYING.contains(&name);
    (applies || name == BEFORE_FIRST_APPLY) && subresource.unwrap_or_default().is_empty()
}

/// An object's JSON with no more of its owners than [`keep`] leaves, their sets as text already. Most of an object can
/// be owners that nobody reads: as trees they cost more than all the rest. What is not such an object is left as it is.
pub fn cut_down(object: &str) -> Cow<'_, str> {
    shortened(object).map_or(Cow::Borrowed(object), Cow::Owned)
}

#[derive(Deserialize)]
struct Owned<'a> {
    #[serde(borrow)]
    metadata: OwnedMetadata<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OwnedMetadata<'a> {
    #[serde(borrow)]
    managed_fields: &'a RawValue,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Owner<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<Cow<'a, str>>,
    #[serde(borrow, skip_serializing)]
    fields_v1: Option<&'a RawValue>,
    #[serde(rename(serialize = "fieldsV1"), skip_deserializing, skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    manager: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subresource: Option<Cow<'a, str>>,
}

fn shortened(object: &str) -> Option<String> {
    let owners = serde_json::from_str::<Owned<'_>>(object).ok()?.metadata.managed_fields.get();
    let mut kept: Vec<Owner<'_>> = serde_json::from_str(owners).ok()?;
    // Names before sets: of most entries the set is never looked at.
    kept.retain(|o| has_kept_names([&o.manager, &o.operation, &o.subresource].map(Option::as_deref)));
    for owner in &mut kept {
        // A text that was cut down before stays one.
        let set = owner.fields_v1.map(RawValue::get).filter(|set| set.starts_with('{'));
        owner.text = set.filter(|_| owner.manager.as_deref() != Some(BEFORE_FIRST_APPLY));
    }
    // `owners` is a part of `object`, so that its place follows from the addresses.
    let (before, rest) = object.split_at_checked(owners.as_ptr().addr() - object.as_ptr().addr())?;
    let kept = serde_json::to_string(&kept).ok()?;
    Some([before, &kept, rest.get(owners.len()..)?].concat())
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
        // Kept without its set, as `keep` does.
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
