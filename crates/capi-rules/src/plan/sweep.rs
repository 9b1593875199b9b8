//! Clones that no object uses: a new Machine's infrastructure machine and bootstrap configuration are made
//! before the Machine, so an engine that ends in between leaves them behind. Decides which of a creator's
//! clones go. Pure; must not know how clones are found or deleted.
//!
//! Source: cluster-api `core/reconcilers/machineset` (`cleanupOrphanedBootstrapConfigsInfraMachines`),
//! v1.14.2. Intended difference: not before they are [`AGE_MIN`] old, and for control planes too.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Plan, Reason, Rule};
use capi_types::key::ObjectRef;
use capi_types::machine::Machine;
use capi_types::names::{CONTROL_PLANE_GROUP, annotation, label};
use capstan_base::time::{Timestamp, from_k8s};

/// A Machine follows its clones within moments; a clone of this age that has none never gets one.
pub const AGE_MIN: Duration = Duration::from_secs(600);

/// An object that its creator may have cloned.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Where to delete it.
    pub object: ObjectRef,
    /// As it was read: the deletion is guarded by it.
    pub metadata: ObjectMeta,
}

/// One to be deleted, if it is unchanged.
#[derive(Clone, Debug, PartialEq)]
pub struct Unused {
    /// What is deleted.
    pub candidate: Candidate,
    /// Why nobody can need it any more.
    pub reason: Reason,
}

impl fmt::Display for Unused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "delete {}: {}", self.candidate.object, self.reason)
    }
}

struct NoMachine<'a> {
    creator: &'a ObjectRef,
    age: Duration,
}

impl Rule for NoMachine<'_> {
    fn name(&self) -> &'static str {
        "clone-without-machine"
    }
}

impl fmt::Display for NoMachine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let minutes = self.age.as_secs() / 60;
        write!(f, "{} made it {minutes} minutes ago for a Machine that was never created", self.creator)
    }
}

/// Which of `candidates` belong to `creator` alone and are used by none of `machines` (all of the
/// namespace, with any controller). Those that are too young are looked at again.
pub fn sweep(
    creator: &ObjectRef,
    candidates: Vec<Candidate>,
    machines: &[Arc<Machine>],
    now: Timestamp,
) -> Plan<Unused> {
    let used: BTreeSet<(&str, &str)> = machines.iter().flat_map(|machine| references(machine)).collect();
    let mut plan = Plan::default();
    for candidate in candidates {
        let name = (candidate.object.gvk.kind.as_str(), candidate.object.key.name.as_str());
        if used.contains(&name) || !is_made_by(creator, &candidate) {
            continue;
        }
        // Without a time it is not known whether its Machine is still on the way.
        let Some(age) = age(&candidate.metadata, now) else { continue };
        match AGE_MIN.checked_sub(age).filter(|left| !left.is_zero()) {
            Some(left) => plan.recheck_within(left),
            None => {
                let reason = NoMachine { creator, age }.into();
                plan.steps.push(Unused { candidate, reason });
            }
        }
    }
    plan
}

/// Kind and name of what a Machine is made of.
fn references(machine: &Machine) -> impl Iterator<Item = (&str, &str)> {
    let config = machine.spec.bootstrap.config_ref.as_ref();
    let references = config.into_iter().chain([&machine.spec.infrastructure_ref]);
    references.map(|reference| (reference.kind.as_str(), reference.name.as_str()))
}

/// As the creator makes it, not yet taken over by a Machine nor by anybody else, and not on its way out.
fn is_made_by(creator: &ObjectRef, candidate: &Candidate) -> bool {
    let metadata = &candidate.metadata;
    // More owners, or none, mean that somebody else uses or keeps it.
    let [owner] = metadata.owner_references.as_deref().unwrap_or_default() else { return false };
    metadata.deletion_timestamp.is_none()
        && owner.uid == creator.uid
        && (is_cloned(candidate) || is_written(creator, candidate))
}

/// From a template of its own kind. The creator may refer to another one of the same kind by now.
fn is_cloned(candidate: &Candidate) -> bool {
    let gvk = &candidate.object.gvk;
    let template = format!("{}Template.{}", gvk.kind, gvk.group);
    candidate.metadata.annotations.as_ref().is_some_and(|annotations| {
        annotations.contains_key(annotation::CLONED_FROM_NAME)
            && annotations.get(annotation::CLONED_FROM_GROUP_KIND) == Some(&template)
    })
}

/// A control plane writes bootstrap configurations from its own spec, not from a template.
fn is_written(creator: &ObjectRef, candidate: &Candidate) -> bool {
    creator.gvk.group == CONTROL_PLANE_GROUP
        && candidate.object.gvk.kind == "KubeadmConfig"
        && candidate.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(label::CONTROL_PLANE))
}

/// `None` without a time of creation; nothing when that lies ahead, as clocks differ.
fn age(metadata: &ObjectMeta, now: Timestamp) -> Option<Duration> {
    let created = from_k8s(metadata.creation_timestamp.as_ref()?);
    Some((now - created).to_std().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use capi_types::bootstrap::KubeadmConfig;
    use capi_types::control_plane::KubeadmControlPlane;
    use capi_types::dev::DevMachine;
    use capi_types::key::{Gvk, ObjectKey};
    use capi_types::machine_set::MachineSet;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn reference(gvk: Gvk, name: &str, uid: &str) -> ObjectRef {
        ObjectRef { gvk, key: ObjectKey::new("ns", name), uid: uid.to_owned() }
    }

    fn set() -> ObjectRef {
        reference(Gvk::of::<MachineSet>(), "workers", "set-uid")
    }

    fn control_plane() -> ObjectRef {
        reference(Gvk::of::<KubeadmControlPlane>(), "cp", "cp-uid")
    }

    fn owner(kind: &str, uid: &str) -> Value {
        json!({"apiVersion": "x/v1", "kind": kind, "name": "x", "uid": uid, "controller": true})
    }

    /// A host that the set made at 10:00, with `changes` to its metadata.
    fn host(changes: Value) -> Candidate {
        let mut metadata = json!({
            "name": "workers-abcde", "uid": "h", "resourceVersion": "7",
            "creationTimestamp": "2026-11-20T10:00:00Z",
            "ownerReferences": [owner("MachineSet", "set-uid")],
            "annotations": {
                "cluster.x-k8s.io/cloned-from-name": "an-older-template",
                "cluster.x-k8s.io/cloned-from-groupkind": "DevMachineTemplate.infrastructure.cluster.x-k8s.io",
            },
        });
        json_patch::merge(&mut metadata, &changes);
        let object = reference(Gvk::of::<DevMachine>(), "workers-abcde", "h");
        Candidate { object, metadata: serde_json::from_value(metadata).unwrap() }
    }

    fn machine(config: &str, host: &str) -> Arc<Machine> {
        let reference =
            |group: &str, kind: &str, name: &str| json!({"apiGroup": group, "kind": kind, "name": name});
        Arc::new(
            serde_json::from_value(json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
                "metadata": {"name": "m", "namespace": "ns"},
                "spec": {
                    "clusterName": "c",
                    "bootstrap": {"configRef": reference("bootstrap.cluster.x-k8s.io", "KubeadmConfig", config)},
                    "infrastructureRef": reference("infrastructure.cluster.x-k8s.io", "DevMachine", host),
                },
            }))
            .unwrap(),
        )
    }

    fn swept(creator: &ObjectRef, clone: Candidate, machines: &[Arc<Machine>], now: &str) -> Plan<Unused> {
        sweep(creator, vec![clone], machines, at(now))
    }

    #[test]
    fn a_clone_without_a_machine_goes_after_ten_minutes() {
        let of = |now| swept(&set(), host(json!({})), &[], now);
        for (now, left_s) in [("2026-11-20T10:00:00Z", 600), ("2026-11-20T10:09:59Z", 1)] {
            assert!(of(now).steps.is_empty(), "{now}");
            assert_eq!(of(now).recheck, Some(Duration::from_secs(left_s)), "{now}");
        }
        // The server's clock may be ahead.
        assert_eq!(of("2026-11-20T09:00:00Z").recheck, Some(AGE_MIN));
        let plan = of("2026-11-20T10:10:00Z");
        assert_eq!((plan.steps.len(), plan.recheck), (1, None));
        assert_eq!(
            plan.steps[0].to_string(),
            "delete DevMachine ns/workers-abcde: MachineSet ns/workers made it 10 minutes ago for a Machine \
             that was never created"
        );
    }

    #[test]
    fn what_is_used_or_was_made_by_others_stays() {
        let both = [owner("MachineSet", "set-uid"), owner("Machine", "m")];
        let cases = [
            ("taken over by a Machine", json!({"ownerReferences": [owner("Machine", "m")]})),
            ("being taken over", json!({"ownerReferences": both})),
            ("of another set", json!({"ownerReferences": [owner("MachineSet", "of-the-same-name")]})),
            ("without owners", json!({"ownerReferences": null})),
            ("not cloned", json!({"annotations": null})),
            ("from somewhere", json!({"annotations": {"cluster.x-k8s.io/cloned-from-name": null}})),
            ("from another kind", json!({"annotations": {"cluster.x-k8s.io/cloned-from-groupkind": "X.y"}})),
            ("on its way out", json!({"deletionTimestamp": "2026-11-20T10:01:00Z"})),
            ("of no age", json!({"creationTimestamp": null})),
        ];
        for (why, changes) in cases {
            let plan = swept(&set(), host(changes), &[], "2026-11-21T10:00:00Z");
            assert_eq!(plan, Plan::default(), "{why}");
        }
    }

    #[test]
    fn a_machine_that_refers_to_it_keeps_it_by_kind_and_name() {
        let of = |machines: &[Arc<Machine>]| {
            swept(&set(), host(json!({})), machines, "2026-11-21T10:00:00Z").steps.len()
        };
        assert_eq!(of(&[machine("other", "workers-abcde")]), 0);
        assert_eq!(of(&[machine("other", "other"), machine("workers-abcde", "other")]), 1);
    }

    #[test]
    fn configurations_of_a_control_plane_have_its_label_instead_of_a_template() {
        let config = |labels: Value| {
            let mut clone = host(json!({
                "annotations": null, "labels": labels, "ownerReferences": [owner("KubeadmControlPlane", "cp-uid")],
            }));
            clone.object.gvk = Gvk::of::<KubeadmConfig>();
            clone
        };
        let of = |clone, machines: &[Arc<Machine>]| {
            swept(&control_plane(), clone, machines, "2026-11-21T10:00:00Z").steps.len()
        };
        let labelled = || config(json!({"cluster.x-k8s.io/control-plane": ""}));
        assert_eq!(of(labelled(), &[]), 1);
        assert_eq!(of(labelled(), &[machine("workers-abcde", "other")]), 0);
        assert_eq!(of(config(json!({})), &[]), 0, "made by another");
    }
}
