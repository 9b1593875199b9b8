//! The writes of plans, carried out in a world at once. Owns what a write comes to; must not decide any, nor know how long
//! what follows from it takes: that is an [`Effect`].

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource as _;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::change::{ActorKind, ObjectChange};
use super::world::{Kept, World};
use capi_rules::plan::keys::KeyCall;
use capi_rules::plan::machine_deployment::in_place::OWN_ANNOTATIONS;
use capi_rules::plan::{WorkloadCall, Write};
use capi_rules::status::conditions::setter;
use capi_rules::status::control_plane::Kubeconfig;
use capi_rules::status::control_plane::certificates::Certificates;
use capi_rules::status::drain::Evictions;
use capi_types::cluster::Cluster;
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::key::{ObjectKey, ObjectRef, annotation};
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use capi_types::machine_health_check::MachineHealthCheck;
use capi_types::machine_set::MachineSet;
use capi_types::names::{BOOTSTRAP_GROUP, label};
use capstan_base::time::{rfc3339, to_k8s};
use k8s_machinery::merge;

/// What takes time after a write.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Effect {
    /// The infrastructure behind an object is being taken down.
    Removal { object: ObjectRef },
    /// A pod is on its way out of a Node. `grace_s`: its own limit, when it was read.
    PodLeaves { node: String, pod: ObjectKey, grace_s: Option<i64> },
    /// An extension was asked to update the host of a Machine.
    UpdateBegins { machine: String },
    /// A Machine is there, and has nothing yet.
    Made { machine: String },
}

/// What came of writes.
#[derive(Clone, Debug, Default)]
pub(super) struct Performed {
    pub effects: Vec<Effect>,
    pub evictions: Evictions,
}

impl World {
    pub(super) fn perform(&mut self, write: &Write, outcome: &mut Performed) {
        match write {
            Write::Create { object, content, .. } => self.create(object, content, outcome),
            // The merge patch that an apply amounts to stands
            // in the plan; only what leaves the intent is left.
            Write::Apply { object, intent, body, .. } => {
                self.patch(object, body);
                self.let_go(object, intent);
            }
            Write::Patch { object, body } | Write::PatchStatus { object, body } => self.patch(object, body),
            Write::MachineCondition { machine, type_, condition } => {
                let Some(found) = self.get::<Machine>(&machine.key.name) else { return };
                let (mut after, now) = (found.as_ref().clone(), self.now);
                let list = &mut after.status.get_or_insert_default().conditions;
                match condition {
                    Some(new) => setter::set(list, new.as_ref().clone(), found.metadata.generation, now),
                    None => setter::remove(list, type_),
                }
                self.put(after);
            }
            Write::MachineConditions { read, conditions, .. } => {
                let name = read.metadata.name.as_deref().unwrap_or_default();
                let Some(found) = self.get::<Machine>(name) else { return };
                let (mut after, now) = (found.as_ref().clone(), self.now);
                let list = &mut after.status.get_or_insert_default().conditions;
                conditions.iter().for_each(|c| setter::set(list, c.clone(), found.metadata.generation, now));
                self.put(after);
            }
            Write::Delete { object } => self.delete(object, outcome),
            Write::Workload { call, .. } => self.call(call, outcome),
            Write::Keys { owner, call, .. } => self.make_keys(&owner.name, call),
            // The certificates of a new API server outlive a forecast.
            Write::NoteExpiry { .. } | Write::Event { .. } | Write::Handover { .. } => {}
        }
    }

    fn create(&mut self, object: &ObjectRef, content: &Value, outcome: &mut Performed) {
        let mut content = content.clone();
        self.made += 1;
        content["apiVersion"] = json!(object.gvk.api_version());
        content["kind"] = json!(object.gvk.kind);
        let metadata = &mut content["metadata"];
        metadata["uid"] = json!(format!("simulated-{}", self.made));
        // Never raised later: no write here is guarded, and marks of what is in step are not used.
        metadata["resourceVersion"] = json!(self.made.to_string());
        metadata["creationTimestamp"] = json!(rfc3339(self.now));
        metadata["generation"] = json!(1);
        let owners = metadata["ownerReferences"].as_array();
        let controller = owners.and_then(|all| all.iter().find(|owner| owner["controller"] == true));
        let controller = controller.and_then(|owner| owner["name"].as_str()).map(str::to_owned);
        // Names are numbered by owner, so that a plan and its simulation call new objects the same.
        if let (Some(owner), Some(ActorKind::Machine | ActorKind::MachineSet)) = (controller, kind_of(object))
        {
            self.count_made(&owner);
        }
        match kind_of(object) {
            Some(ActorKind::Machine) => {
                // Admission fills this in.
                let limit = &mut content["spec"]["deletion"]["nodeDeletionTimeoutSeconds"];
                if limit.is_null() {
                    *limit = json!(10);
                }
                if self.put_content::<Machine>(content) {
                    outcome.effects.push(Effect::Made { machine: object.key.name.clone() });
                }
            }
            Some(ActorKind::MachineSet) => {
                self.put_content::<MachineSet>(content);
            }
            Some(_) => {}
            None => {
                if object.gvk.group == BOOTSTRAP_GROUP && is_of_control_plane(&content) {
                    self.learn_config(&content);
                }
                self.externals.put(&object.gvk.group, content);
            }
        }
    }

    fn put_content<K: Kept>(&mut self, content: Value) -> bool {
        serde_json::from_value::<K>(content).is_ok_and(|object| self.put(object))
    }

    /// Keeps the typed bootstrap configuration, by which control plane Machines are compared.
    pub(super) fn learn_config(&mut self, content: &Value) {
        if let Ok(config) = serde_json::from_value::<capi_types::bootstrap::KubeadmConfig>(content.clone()) {
            let key = self.named(config.metadata.name.as_deref().unwrap_or_default());
            self.configs.insert(key, config.into());
        }
    }

    fn patch(&mut self, object: &ObjectRef, body: &Value) {
        let name = &object.key.name;
        match kind_of(object) {
            Some(ActorKind::Machine) => self.patch_machine(name, body),
            Some(ActorKind::MachineSet) => self.patch_set(name, body),
            Some(ActorKind::MachineDeployment) => self.merge::<MachineDeployment>(name, body),
            Some(ActorKind::KubeadmControlPlane) => self.merge::<KubeadmControlPlane>(name, body),
            Some(ActorKind::MachineHealthCheck) => self.merge::<MachineHealthCheck>(name, body),
            Some(ActorKind::Cluster) => self.merge::<Cluster>(name, body),
            None => {
                let gvk = &object.gvk;
                if self.externals.patch(&gvk.group, &gvk.kind, name, body)
                    && gvk.group == BOOTSTRAP_GROUP
                    && self.configs.contains_key(&self.named(name))
                    && let Some(content) = self.externals.get(&gvk.group, &gvk.kind, name)
                {
                    let content = content.content().clone();
                    self.learn_config(&content);
                }
            }
        }
    }

    /// What left the intent of a MachineDeployment leaves its MachineSet: a server knows by its record of owners, and here
    /// the annotations are known that nobody else writes.
    fn let_go(&mut self, object: &ObjectRef, intent: &Value) {
        let wanted = &intent["metadata"]["annotations"];
        let set = self
            .get::<MachineSet>(&object.key.name)
            .filter(|_| kind_of(object) == Some(ActorKind::MachineSet));
        let Some(set) = set else { return };
        let is_left = |key: &&str| annotation(set.as_ref(), key).is_some() && wanted.get(key).is_none();
        let left: Vec<&str> = OWN_ANNOTATIONS.into_iter().filter(is_left).collect();
        if !left.is_empty() {
            let mut after = set.as_ref().clone();
            after.metadata.annotations.get_or_insert_default().retain(|key, _| !left.contains(&key.as_str()));
            self.store(after);
        }
    }

    /// What a person changes.
    pub(super) fn want(&mut self, kind: ActorKind, name: &str, body: &Value) {
        match kind {
            ActorKind::Machine => self.merge::<Machine>(name, body),
            ActorKind::MachineSet => self.merge::<MachineSet>(name, body),
            ActorKind::KubeadmControlPlane => self.merge::<KubeadmControlPlane>(name, body),
            ActorKind::MachineDeployment => self.merge::<MachineDeployment>(name, body),
            ActorKind::MachineHealthCheck => self.merge::<MachineHealthCheck>(name, body),
            ActorKind::Cluster => self.merge::<Cluster>(name, body),
        }
    }

    /// A merge patch as a server applies it.
    pub(super) fn merge<K: Kept>(&mut self, name: &str, body: &Value) {
        let Some(found) = self.get::<K>(name) else { return };
        let Some(mut after) = merged(found.as_ref(), body) else { return };
        if !K::has_same_spec(&found, &after) {
            raise_generation(after.meta_mut());
        }
        self.store(after);
    }

    /// The patches that every Machine gets, without going through JSON.
    fn patch_machine(&mut self, name: &str, body: &Value) {
        let Some(found) = self.get::<Machine>(name) else { return };
        match patched_machine(&found, body) {
            Some(after) => self.store(after),
            None => self.merge::<Machine>(name, body),
        }
    }

    /// The same for MachineSets.
    fn patch_set(&mut self, name: &str, body: &Value) {
        let Some(found) = self.get::<MachineSet>(name) else { return };
        match patched_set(&found, body) {
            Some(after) => self.store(after),
            None => self.merge::<MachineSet>(name, body),
        }
    }

    /// Stores an object, or lets it go when it is in deletion and nothing holds it.
    fn store<K: Kept>(&mut self, object: K) {
        let meta = object.meta();
        if meta.deletion_timestamp.is_some() && meta.finalizers.iter().flatten().next().is_none() {
            let name = meta.name.clone().unwrap_or_default();
            self.remove::<K>(&name);
        } else {
            self.put(object);
        }
    }

    fn delete(&mut self, object: &ObjectRef, outcome: &mut Performed) {
        let name = &object.key.name;
        match kind_of(object) {
            Some(ActorKind::Machine) => self.mark_deleted::<Machine>(name),
            Some(ActorKind::MachineSet) => self.mark_deleted::<MachineSet>(name),
            Some(ActorKind::MachineDeployment) => self.mark_deleted::<MachineDeployment>(name),
            Some(ActorKind::KubeadmControlPlane) => self.mark_deleted::<KubeadmControlPlane>(name),
            Some(ActorKind::MachineHealthCheck) => self.mark_deleted::<MachineHealthCheck>(name),
            Some(ActorKind::Cluster) => self.mark_deleted::<Cluster>(name),
            // Nothing holds a configuration, so it is gone at once; a host takes its time.
            None if object.gvk.group == BOOTSTRAP_GROUP => {
                self.externals.remove(&object.gvk.group, &object.gvk.kind, name);
                let key = self.named(name);
                self.configs.remove(&key);
                self.wake_owner_of_config(name);
            }
            None => {
                let body = json!({"metadata": {"deletionTimestamp": rfc3339(self.now)}});
                if self.externals.patch(&object.gvk.group, &object.gvk.kind, name, &body) {
                    outcome.effects.push(Effect::Removal { object: object.clone() });
                }
            }
        }
    }

    /// The Machine whose bootstrap configuration is gone.
    fn wake_owner_of_config(&mut self, config: &str) {
        let is_its = |m: &Machine| m.spec.bootstrap.config_ref.as_ref().is_some_and(|r| r.name == config);
        let found = self.get::<Machine>(config).filter(|m| is_its(m));
        let found = found.or_else(|| self.all::<Machine>().find(|m| is_its(m)).cloned());
        if let Some(name) = found.and_then(|m| m.metadata.name.clone()) {
            self.note_change(ObjectChange::beside(ActorKind::Machine, &name));
        }
    }

    /// What a person's or an owner's deletion does to an object of a kept kind.
    pub(super) fn mark_deleted<K: Kept>(&mut self, name: &str) {
        let Some(found) = self.get::<K>(name) else { return };
        if found.meta().deletion_timestamp.is_some() {
            return;
        }
        let (mut after, now) = (found.as_ref().clone(), self.now);
        after.meta_mut().deletion_timestamp = Some(to_k8s(now));
        self.store(after);
    }

    fn call(&mut self, call: &WorkloadCall, outcome: &mut Performed) {
        let now = self.now;
        match call {
            WorkloadCall::PatchNode { node, body } => self.patch_node(node, body),
            WorkloadCall::Evict { node, pods, .. } => {
                for pod in pods {
                    let came = self.workload.tenancy.evict(node, pod, now);
                    if came.evicted == capi_rules::status::drain::Evicted::Started {
                        let (node, pod) = (node.clone(), pod.clone());
                        outcome.effects.push(Effect::PodLeaves { node, pod, grace_s: came.grace_s });
                    }
                    outcome.evictions.insert(pod.clone(), came.evicted);
                }
            }
            WorkloadCall::DeleteNode { node, .. } => self.workload.remove_node(node),
            WorkloadCall::RemoveEtcdMember(member) => self.workload.leave_etcd(member.id),
            WorkloadCall::MoveEtcdLeader { candidates, .. } => {
                // As with a removal: what etcd refuses changes nothing.
                let _ = candidates.first().map(|member| self.workload.etcd.move_leader(member.id));
            }
            WorkloadCall::SetClusterConfiguration(new) => self.workload.configuration = Some(new.clone()),
            WorkloadCall::StoreToken { .. }
            | WorkloadCall::SetKubeProxyImage { .. }
            | WorkloadCall::SetCoreDnsImage { .. }
            | WorkloadCall::BindClusterRole(_) => {}
        }
    }

    pub(super) fn patch_node(&mut self, name: &str, body: &Value) {
        // A patch of a Node that went meanwhile changes nothing: a server would answer "not found".
        let Some(node) = self.workload.nodes.get(name) else { return };
        if let Some(node) = patched_node(node, body).or_else(|| merged(node.as_ref(), body)) {
            self.workload.put_node(node);
        }
    }

    fn make_keys(&mut self, control_plane: &str, call: &KeyCall) {
        let Some(keys) = self.keys.get_mut(control_plane) else { return };
        match call {
            KeyCall::CreateCertificates { purposes, .. } => match &mut keys.certificates {
                Certificates::Found(found) => found.extend(purposes.iter().copied()),
                unread @ Certificates::Unreadable(_) => *unread = Certificates::Found(purposes.clone()),
            },
            _ => keys.kubeconfig = Kubeconfig::Found { ours: true, controlled: true, expires: None },
        }
        // This world does not hold Secrets, and their owner must look again all the same.
        self.note_change(ObjectChange::beside(ActorKind::KubeadmControlPlane, control_plane));
    }
}

/// `None` when `body` touches more than what every Machine gets.
fn patched_machine(machine: &Machine, body: &Value) -> Option<Machine> {
    let mut after = machine.clone();
    for (part, field, value) in fields(body)? {
        match (part, field) {
            ("metadata", _) => patch_metadata(&mut after.metadata, field, value)?,
            ("spec", "providerID") => after.spec.provider_id = Some(value.as_str()?.to_owned()),
            ("spec", "bootstrap") => {
                let ("dataSecretName", name) = single(value)? else { return None };
                after.spec.bootstrap.data_secret_name = Some(name.as_str()?.to_owned());
            }
            ("status", "deletion") => {
                let ("nodeDrainStartTime", at) = single(value)? else { return None };
                let progress = after.status.get_or_insert_default().deletion.get_or_insert_default();
                progress.node_drain_start_time = Deserialize::deserialize(at).ok()?;
            }
            _ => return None,
        }
    }
    if after.spec != machine.spec {
        raise_generation(&mut after.metadata);
    }
    Some(after)
}

/// `None` when `body` touches more than metadata and replicas.
fn patched_set(set: &MachineSet, body: &Value) -> Option<MachineSet> {
    let mut after = set.clone();
    for (part, field, value) in fields(body)? {
        match (part, field) {
            ("metadata", _) => patch_metadata(&mut after.metadata, field, value)?,
            ("spec", "replicas") => after.spec.replicas = Some(i32::try_from(value.as_i64()?).ok()?),
            _ => return None,
        }
    }
    if after.spec.replicas != set.spec.replicas {
        raise_generation(&mut after.metadata);
    }
    Some(after)
}

/// What Machines write on their Nodes; `None` when `body` touches more.
fn patched_node(node: &Node, body: &Value) -> Option<Node> {
    let mut after = node.clone();
    for (part, field, value) in fields(body)? {
        match (part, field) {
            ("metadata", _) => patch_metadata(&mut after.metadata, field, value)?,
            ("spec", "taints") => {
                after.spec.get_or_insert_default().taints = Deserialize::deserialize(value).ok()?;
            }
            ("spec", "unschedulable") => {
                after.spec.get_or_insert_default().unschedulable = Some(value.as_bool()?);
            }
            _ => return None,
        }
    }
    Some(after)
}

/// The fields of a patch with the part of the object that each is in; `None` when a part is not an object.
fn fields(body: &Value) -> Option<Vec<(&str, &str, &Value)>> {
    let mut all = Vec::new();
    for (part, change) in body.as_object()? {
        all.extend(change.as_object()?.iter().map(|(field, value)| (part.as_str(), field.as_str(), value)));
    }
    Some(all)
}

/// `None` for a field that is not patched here.
fn patch_metadata(metadata: &mut ObjectMeta, field: &str, value: &Value) -> Option<()> {
    match field {
        "labels" => merge_texts(metadata.labels.get_or_insert_default(), value)?,
        "annotations" => merge_texts(metadata.annotations.get_or_insert_default(), value)?,
        "finalizers" => metadata.finalizers = Deserialize::deserialize(value).ok()?,
        // The version that was read: here nothing is written in between.
        "resourceVersion" => {}
        _ => return None,
    }
    Some(())
}

fn raise_generation(metadata: &mut ObjectMeta) {
    metadata.generation = Some(metadata.generation.unwrap_or(1) + 1);
}

/// A merge patch of an object of any type; `None` when the outcome is not one.
fn merged<K: Serialize + DeserializeOwned>(object: &K, body: &Value) -> Option<K> {
    let mut value = serde_json::to_value(object).ok()?;
    merge::apply(&mut value, body);
    serde_json::from_value(value).ok()
}

/// `null` takes a text away.
fn merge_texts(texts: &mut BTreeMap<String, String>, change: &Value) -> Option<()> {
    for (key, value) in change.as_object()? {
        match value {
            Value::Null => drop(texts.remove(key)),
            Value::String(text) => drop(texts.insert(key.clone(), text.clone())),
            _ => return None,
        }
    }
    Some(())
}

/// The only field of an object.
fn single(value: &Value) -> Option<(&str, &Value)> {
    let mut fields = value.as_object()?.iter();
    let (name, value) = fields.next()?;
    fields.next().is_none().then_some((name.as_str(), value))
}

fn is_of_control_plane(content: &Value) -> bool {
    content["metadata"]["labels"].get(label::CONTROL_PLANE).is_some()
}

/// The kind of a kept object; `None` for those of providers.
fn kind_of(object: &ObjectRef) -> Option<ActorKind> {
    let is = |kind: ActorKind, group: &str| object.gvk.kind == kind.name() && object.gvk.group == group;
    let core = Machine::group(&());
    [
        (ActorKind::Machine, core.as_ref()),
        (ActorKind::MachineSet, core.as_ref()),
        (ActorKind::MachineDeployment, core.as_ref()),
        (ActorKind::MachineHealthCheck, core.as_ref()),
        (ActorKind::Cluster, core.as_ref()),
        (ActorKind::KubeadmControlPlane, KubeadmControlPlane::group(&()).as_ref()),
    ]
    .into_iter()
    .find(|(kind, group)| is(*kind, group))
    .map(|(kind, _)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_merged<K: Serialize + DeserializeOwned>(object: &K, body: &Value, typed: Option<K>) {
        let [typed, merged] = [typed, merged(object, body)].map(|after| json!(after));
        assert_eq!(typed, merged, "{body}");
        assert!(!typed.is_null(), "{body}");
    }

    /// But for the generation, which a merge patch does not know.
    #[test]
    fn patches_without_json_come_to_what_a_merge_does() {
        let metadata = json!({"name": "a", "generation": 4, "finalizers": ["f", "g"], "labels": {"keep": "1", "drop": "2"}});
        let of_metadata = [
            json!({"metadata": {"labels": {"drop": null, "new": "3"}, "annotations": {"by": "x"}}}),
            json!({"metadata": {"finalizers": ["g"]}}),
            json!({"metadata": {"finalizers": null}}),
        ];
        let node: Node = serde_json::from_value(json!({"metadata": metadata, "spec": {"taints": [
            {"key": "k", "effect": "NoSchedule"}]}, "status": {"nodeInfo": null}}))
        .expect("a Node");
        let of_nodes = [json!({"spec": {"unschedulable": true}}), json!({"spec": {"taints": []}})];
        for body in of_metadata.iter().chain(&of_nodes) {
            is_merged(&node, body, patched_node(&node, body));
        }
        let metadata: ObjectMeta = serde_json::from_value(metadata).expect("metadata");
        let machine = Machine { metadata: metadata.clone(), ..Machine::default() };
        let mut set = MachineSet { metadata, ..MachineSet::default() };
        set.spec.replicas = Some(2);
        for body in &of_metadata {
            is_merged(&set, body, patched_set(&set, body));
        }
        let body = json!({"spec": {"replicas": 5}});
        let scaled = patched_set(&set, &body).expect("typed");
        assert_eq!((scaled.spec.replicas, scaled.metadata.generation), (Some(5), Some(5)));
        for body in &of_metadata {
            is_merged(&machine, body, patched_machine(&machine, body));
        }
    }

    #[test]
    fn what_has_no_typed_patch_is_merged() {
        let set = MachineSet::default();
        for body in [
            json!({"spec": {"template": {}}}),
            json!({"spec": null}),
            json!({"metadata": {"labels": {"a": 1}}}),
            json!({"metadata": {"ownerReferences": []}}),
            json!({"spec": {"replicas": null}}),
        ] {
            assert_eq!(patched_set(&set, &body), None, "{body}");
        }
    }
}
