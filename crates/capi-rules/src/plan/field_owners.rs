//! Writes by server-side apply: who owns which field of the objects that planners make and keep in step. A field
//! that leaves the intent disappears from the object, and what others own stays. Pure; must not know which kinds
//! are involved.
//! Source: cluster-api `internal/util/ssa`, and `createMachines`, `syncMachines`, `updateLabelsAndAnnotations` of
//! the controllers, v1.14.2.

use std::collections::BTreeMap;

use kube::Resource;
use kube::core::object::HasSpec;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Write;
use crate::status::contract::reference_to;
use capi_types::key::ObjectRef;
use capi_types::managed_fields::{Handover, HandoverScope, Standing, change, standing};

/// Labels or annotations.
type Pairs = BTreeMap<String, String>;

/// By an ordinary request, so that `manager` owns every field.
pub fn create<K: Resource<DynamicType = ()> + Serialize>(object: &K, manager: &'static str) -> Write {
    Write::Create { object: ObjectRef::of(object), content: to_value(object), manager: Some(manager) }
}

/// Creates a clone as `manager`; from then on its labels and annotations belong to `metadata_manager`, which
/// keeps `labels` and `annotations`. Others, such as those of the template, stay with `manager`.
pub fn create_clone(
    content: Value,
    manager: &'static str,
    metadata_manager: &'static str,
    labels: &Pairs,
    annotations: &Pairs,
) -> [Write; 2] {
    let object = reference_to(&content);
    let intent = metadata_intent(&content, labels, annotations);
    // The create made `manager` owner of all labels; with two owners none would ever disappear.
    let handover = Handover::new(metadata_manager, HandoverScope::Metadata, &intent);
    let create = Write::Create { object: object.clone(), content, manager: Some(manager) };
    [create, Write::Handover { object, handover }]
}

/// What makes `manager` own exactly the fields of `intent` in `live`; nothing when it does. A status is not part
/// of an intent.
pub fn keep<K>(live: &K, intent: &K, manager: &'static str) -> Vec<Write>
where
    K: Resource<DynamicType = ()> + HasSpec<Spec: PartialEq + Serialize> + Serialize,
{
    if is_as_wanted_unowned(live, intent) {
        return Vec::new();
    }
    keep_as(ObjectRef::of(live), &without_status(live), to_value(intent), manager)
}

/// All of a typed object that an intent can be compared with.
fn without_status<K>(object: &K) -> Value
where
    K: Resource<DynamicType = ()> + HasSpec<Spec: Serialize>,
{
    let mut value = metadata_of(object);
    value["spec"] = to_value(object.spec());
    value
}

/// Where nobody owns fields, an object that has all of its intent is settled, as [`standing`] finds: seen here without
/// writing both as JSON, which is most of what a forecast would do. Owners and finalizers are shared.
fn is_as_wanted_unowned<K>(live: &K, intent: &K) -> bool
where
    K: Resource<DynamicType = ()> + HasSpec<Spec: PartialEq>,
{
    let (found, wanted) = (live.meta(), intent.meta());
    found.managed_fields.is_none()
        && found.labels == wanted.labels
        && found.annotations == wanted.annotations
        && live.spec() == intent.spec()
}

/// The same for an object without a type.
pub fn keep_value(live: &Value, intent: Value, manager: &'static str) -> Vec<Write> {
    keep_as(reference_to(live), live, intent, manager)
}

fn keep_as(object: ObjectRef, live: &Value, intent: Value, manager: &'static str) -> Vec<Write> {
    let standing = standing(live, &intent, manager);
    let handover = Handover::new(manager, HandoverScope::Whole, &intent);
    // The handover goes first: an apply before it would make a second owner beside the old one.
    let first = (standing == Standing::Unowned).then(|| Write::Handover { object: object.clone(), handover });
    let apply = (standing != Standing::Settled).then(|| apply(object, live, intent, manager));
    first.into_iter().chain(apply).collect()
}

/// The same for the labels and annotations of an object whose other fields another manager owns.
pub fn keep_metadata(live: &Value, labels: &Pairs, annotations: &Pairs, manager: &'static str) -> Vec<Write> {
    let intent = metadata_intent(live, labels, annotations);
    let object = reference_to(live);
    match standing(live, &intent, manager) {
        Standing::Settled => Vec::new(),
        Standing::Due => vec![apply(object, live, intent, manager)],
        Standing::Unowned => {
            let handover = Handover::new(manager, HandoverScope::Metadata, &intent);
            let first = Write::Handover { object: object.clone(), handover };
            // The handover already makes the manager an owner;
            // an apply that changes nothing is not sent.
            let is_changed = change(live, &intent, manager).is_some();
            let apply = is_changed.then(|| apply(object, live, intent, manager));
            std::iter::once(first).chain(apply).collect()
        }
    }
}

/// Apiversion, kind and metadata of a typed object, for [`keep_metadata`].
pub fn metadata_of<K: Resource<DynamicType = ()>>(object: &K) -> Value {
    json!({ "apiVersion": K::api_version(&()), "kind": K::kind(&()), "metadata": object.meta() })
}

fn apply(object: ObjectRef, live: &Value, intent: Value, manager: &'static str) -> Write {
    let body = change(live, &intent, manager).unwrap_or_else(|| json!({}));
    // An apply that left this version as it was is remembered, and not sent again.
    let read = live["metadata"]["resourceVersion"].as_str().map(str::to_owned);
    Write::Apply { object, intent, manager, body, read }
}

/// Both maps are in it even when they are empty, as upstream sends them: a manager that owns the map itself and applies
/// without it takes away every label, or annotation, that nobody owns (`cloned-from-name` among them).
fn metadata_intent(object: &Value, labels: &Pairs, annotations: &Pairs) -> Value {
    let mut metadata = Map::new();
    for name in ["name", "namespace"] {
        metadata.insert(name.to_owned(), object["metadata"][name].clone());
    }
    for (name, pairs) in [("labels", labels), ("annotations", annotations)] {
        metadata.insert(name.to_owned(), json!(pairs));
    }
    json!({ "apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": metadata })
}

/// Typed objects always serialise: their maps have text keys.
fn to_value(object: &impl Serialize) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use capi_types::names::manager::{MACHINE_SET, MACHINE_SET_METADATA};

    fn pairs(all: &[(&str, &str)]) -> Pairs {
        all.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn clone() -> Value {
        json!({"apiVersion": "g/v1", "kind": "Host", "spec": {"size": 1},
               "metadata": {"name": "h", "namespace": "ns", "labels": {"team": "a", "zone": "z"}}})
    }

    /// As the server stores what `write` does to `object`.
    fn stored(object: &Value, writes: &[Write]) -> Value {
        let mut object = object.clone();
        for write in writes {
            match write {
                Write::Handover { handover, .. } => {
                    if let Some(entries) = handover.of(&object) {
                        object["metadata"]["managedFields"] = entries;
                    }
                }
                Write::Apply { body, .. } => k8s_machinery::merge::apply(&mut object, body),
                other => unreachable!("{other}"),
            }
        }
        object
    }

    #[test]
    fn a_new_clone_is_settled_at_once_and_keeps_what_its_template_gave_it() {
        let labels = pairs(&[("team", "a")]);
        let [create, handover] =
            create_clone(clone(), MACHINE_SET, MACHINE_SET_METADATA, &labels, &Pairs::new());
        assert_eq!(create.to_string(), "create Host ns/h");
        let made = stored(&clone(), &[handover]);
        assert_eq!(keep_metadata(&made, &labels, &Pairs::new(), MACHINE_SET_METADATA), []);
        let gone = keep_metadata(&made, &pairs(&[("b", "c")]), &Pairs::new(), MACHINE_SET_METADATA);
        let [Write::Apply { body, .. }] = gone.as_slice() else { unreachable!("an apply") };
        assert_eq!(*body, json!({"metadata": {"labels": {"b": "c", "team": null}}}));
    }

    /// The way without JSON finds what the other does.
    #[test]
    fn where_nobody_owns_fields_only_what_differs_is_applied() {
        use capi_types::machine_set::MachineSet;
        let mut live = MachineSet::default();
        (live.metadata.name, live.metadata.labels) = (Some("s".to_owned()), Some(pairs(&[("team", "a")])));
        live.metadata.finalizers = Some(vec!["theirs".to_owned()]);
        live.spec.replicas = Some(2);
        let changed = |change: fn(&mut MachineSet)| {
            let mut intent = live.clone();
            intent.metadata.finalizers = None;
            change(&mut intent);
            intent
        };
        for (intent, is_due) in [
            (changed(|_| {}), false),
            (changed(|set| set.spec.replicas = Some(3)), true),
            (
                changed(|set| {
                    set.metadata.labels.get_or_insert_default().insert("b".into(), "c".into());
                }),
                true,
            ),
            (
                changed(|set| {
                    set.metadata.annotations.get_or_insert_default().insert("b".into(), "c".into());
                }),
                true,
            ),
        ] {
            let writes = keep(&live, &intent, MACHINE_SET);
            assert_eq!(
                writes,
                keep_as(ObjectRef::of(&live), &to_value(&live), to_value(&intent), MACHINE_SET)
            );
            assert_eq!(!writes.is_empty(), is_due);
        }
    }

    /// As upstream's MachineSet controller leaves a clone: its manager owns the map of annotations, nobody what is in it.
    #[test]
    fn annotations_that_nobody_owns_stay_with_what_upstream_made() {
        let mut live = clone();
        live["metadata"]["annotations"] = json!({"cluster.x-k8s.io/cloned-from-name": "t"});
        live["metadata"]["managedFields"] = json!([{"manager": MACHINE_SET_METADATA, "operation": "Apply",
            "apiVersion": "g/v1", "fieldsType": "FieldsV1", "fieldsV1":
            {"f:metadata": {"f:annotations": {}, "f:labels": {"f:team": {}}}}}]);
        let labels = pairs(&[("team", "a")]);
        assert_eq!(keep_metadata(&live, &labels, &Pairs::new(), MACHINE_SET_METADATA), [], "nothing is due");
        let writes = keep_metadata(&live, &pairs(&[("team", "b")]), &Pairs::new(), MACHINE_SET_METADATA);
        let [Write::Apply { intent, body, .. }] = writes.as_slice() else { unreachable!("an apply") };
        assert_eq!(intent["metadata"]["annotations"], json!({}));
        assert_eq!(*body, json!({"metadata": {"labels": {"team": "b"}}}));
    }

    #[test]
    fn what_was_written_by_patches_is_handed_over_once() {
        let labels = pairs(&[("team", "a")]);
        let mut live = clone();
        live["metadata"]["managedFields"] = json!([]);
        let writes = keep_metadata(&live, &labels, &Pairs::new(), MACHINE_SET_METADATA);
        assert!(matches!(writes.as_slice(), [Write::Handover { .. }]), "the values are right: {writes:?}");
        assert_eq!(keep_metadata(&stored(&live, &writes), &labels, &Pairs::new(), MACHINE_SET_METADATA), []);
        let writes = keep_metadata(&live, &pairs(&[("team", "b")]), &Pairs::new(), MACHINE_SET_METADATA);
        assert!(matches!(writes.as_slice(), [Write::Handover { .. }, Write::Apply { .. }]), "{writes:?}");
    }
}
