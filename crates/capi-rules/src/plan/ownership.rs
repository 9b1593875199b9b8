//! Metadata that one object puts on another: owner references, labels, finalizers. Pure; must not
//! know which kinds are involved.
//! Source: cluster-api `controllers/external`, `util/util.go`, controller-runtime `controllerutil`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;
use serde_json::{Value, json};

use super::Write;
use crate::status::contract::Provided;
use capi_types::key::{ObjectRef, refers_to};
use capi_types::names::label;

/// A reference to `owner`. Controllers block the owner's deletion until they are gone, as upstream's do.
pub fn owner<K: Resource<DynamicType = ()>>(owner: &K, controller: bool) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: owner.meta().name.clone().unwrap_or_default(),
        uid: owner.meta().uid.clone().unwrap_or_default(),
        controller: controller.then_some(true),
        block_owner_deletion: controller.then_some(true),
    }
}

/// `references` with `new` in the place of an older reference to the same object, or at the end.
pub fn with_owner(mut references: Vec<OwnerReference>, new: OwnerReference) -> Vec<OwnerReference> {
    let group = new.api_version.split_once('/').map_or("", |(group, _)| group);
    // By group, not by version: a reference of an older release is replaced, not doubled.
    match references.iter_mut().find(|r| refers_to(r, group, &new.kind) && r.name == new.name) {
        Some(old) => *old = new,
        None => references.push(new),
    }
    references
}

/// The same for an object at hand.
pub fn add_owner(metadata: &mut ObjectMeta, new: OwnerReference) {
    let owners = metadata.owner_references.get_or_insert_default();
    *owners = with_owner(std::mem::take(owners), new);
}

/// The patch that makes `new` the controller of an orphan. Not guarded by the resourceVersion: the status of an orphan changes
/// all the time, and an owner that does not get its orphan would make another object in its place.
/// Source: `adoptOrphan` of `machineset_controller.go` and `machinedeployment_controller.go`, `adoptMachines` of
/// `kubeadmcontrolplane_controller.go`, v1.14.2.
pub fn take_over<K: Resource<DynamicType = ()>>(new: &impl Resource<DynamicType = ()>, orphan: &K) -> Write {
    let owners = orphan.meta().owner_references.clone().unwrap_or_default();
    let body = json!({"metadata": {"ownerReferences": with_owner(owners, owner(new, true))}});
    Write::Patch { object: ObjectRef::of(orphan), body }
}

/// The patch that gives a provider object its owner and its cluster label; `None` when it has both.
/// References for which `dropped` holds are taken away.
///
/// # Errors
/// The controller that it has already, when `new` wants to control it.
pub fn adopt(
    object: &Provided,
    new: OwnerReference,
    cluster: &str,
    dropped: impl Fn(&OwnerReference) -> bool,
) -> Result<Option<Write>, OwnerReference> {
    if object.is_owned_only_by(&new) && !dropped(&new) && object.label(label::CLUSTER_NAME) == Some(cluster) {
        // Nearly always, and seen without reading the list.
        return Ok(None);
    }
    let before = object.owners();
    let mut kept = before.clone();
    // Before the search for another controller: the one that made the object steps back.
    kept.retain(|r| !dropped(r));
    let taken = |r: &&OwnerReference| r.controller == Some(true) && r.uid != new.uid;
    if new.controller == Some(true)
        && let Some(other) = kept.iter().find(taken)
    {
        return Err(other.clone());
    }
    let after = with_owner(kept, new);
    let mut metadata = json!({});
    if after != before {
        metadata["ownerReferences"] = json!(after);
    }
    if object.label(label::CLUSTER_NAME) != Some(cluster) {
        metadata["labels"] = json!({ label::CLUSTER_NAME: cluster });
    }
    let changed = metadata.as_object().is_some_and(|map| !map.is_empty());
    Ok(changed.then(|| Write::Patch { object: object.reference(), body: json!({ "metadata": metadata }) }))
}

/// Whether or not the object is in deletion.
pub fn has_finalizer<K: Resource>(object: &K, finalizer: &str) -> bool {
    object.meta().finalizers.iter().flatten().any(|f| f == finalizer)
}

/// The patch that adds a finalizer.
pub fn add_finalizer<K: Resource<DynamicType = ()>>(object: &K, finalizer: &str) -> Write {
    let mut finalizers = object.meta().finalizers.clone().unwrap_or_default();
    finalizers.push(finalizer.to_owned());
    finalizers_patch(object, &finalizers).if_unchanged(object.meta())
}

/// The patch that takes a finalizer away; the last one lets the object go. Not guarded by a version, for the status is
/// written just before: an object that is being deleted takes no new finalizers, so that no entry of others is lost, and
/// one that is gone cannot come back.
pub fn remove_finalizer<K: Resource<DynamicType = ()>>(object: &K, finalizer: &str) -> Write {
    let mut finalizers = object.meta().finalizers.clone().unwrap_or_default();
    finalizers.retain(|f| f != finalizer);
    finalizers_patch(object, &finalizers)
}

fn finalizers_patch<K: Resource<DynamicType = ()>>(object: &K, finalizers: &[String]) -> Write {
    // A merge patch removes the field with null; an empty list would stay as one.
    let value = if finalizers.is_empty() { Value::Null } else { json!(finalizers) };
    let body = json!({"metadata": {"finalizers": value}});
    Write::Patch { object: ObjectRef::of(object), body }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn provided(owners: Value) -> Provided {
        Provided::new(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "DevMachine",
            "metadata": {"name": "m", "namespace": "ns", "uid": "u", "ownerReferences": owners},
        }))
    }

    fn machine(uid: &str) -> OwnerReference {
        OwnerReference {
            api_version: "cluster.x-k8s.io/v1beta2".to_owned(),
            kind: "Machine".to_owned(),
            name: "m".to_owned(),
            uid: uid.to_owned(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }

    #[test]
    fn adoption_replaces_the_creator_and_happens_once() {
        let set = json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet", "name": "s", "uid": "s",
                          "controller": true}]);
        let drop_sets = |r: &OwnerReference| r.kind == "MachineSet";
        let Ok(Some(Write::Patch { object, body })) =
            adopt(&provided(set.clone()), machine("1"), "c", drop_sets)
        else {
            unreachable!("a patch")
        };
        assert_eq!(object.gvk.plural, "devmachines");
        assert_eq!(body["metadata"]["ownerReferences"], json!([machine("1")]));
        assert_eq!(body["metadata"]["labels"], json!({"cluster.x-k8s.io/cluster-name": "c"}));
        assert!(adopt(&provided(set), machine("1"), "c", |_| false).is_err(), "another object controls it");
        let mut owned = provided(json!([machine("1")])).into_content();
        owned["metadata"]["labels"] = json!({"cluster.x-k8s.io/cluster-name": "c"});
        assert_eq!(adopt(&Provided::new(owned), machine("1"), "c", drop_sets), Ok(None));
    }
}
