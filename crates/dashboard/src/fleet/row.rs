//! One object as the screen keeps it: typed cells, a few hundred bytes, text already sanitised.
//! Must not know how it is drawn, how it was fetched, nor how it is judged.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use hashbrown::Equivalent;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use capi_rules::status::outside_owners::{ScalingBounds, Tool};
use capi_types::condition::Status;
use capi_types::host::is_host_machine;
use capi_types::key::{Gvk, ObjectKey, ObjectRef};
use capstan_base::time::Timestamp;

/// Controllers look at a new object within so long, seconds.
const FIRST_LOOK_S: u32 = 30;

/// One management cluster (or dump) among those that feed a fleet; given by whoever opens them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub u16);

/// An object's uid, 16 bytes. UUIDs keep their text form; anything else is hashed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uid([u8; 16]);

impl Uid {
    pub fn parse(text: &str) -> Self {
        uuid::Uuid::try_parse(text).map_or_else(
            |_| Self(uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, text.as_bytes()).into_bytes()),
            |uuid| Self(uuid.into_bytes()),
        )
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        uuid::Uuid::from_bytes(self.0).fmt(f)
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Place of an object in its fleet. Good until the object is removed; a later object may then get
/// the same number, so hold a [`Uid`] across batches and an id within one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowId(pub u32);

/// What an object is to the model, whatever its provider calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Cluster,
    ControlPlane,
    MachineDeployment,
    MachineSet,
    MachinePool,
    Machine,
    /// Infrastructure, bootstrap and anything else that is shown but not counted.
    Other,
}

impl Kind {
    pub const ALL: [Self; 7] = [
        Self::Cluster,
        Self::ControlPlane,
        Self::MachineDeployment,
        Self::MachineSet,
        Self::MachinePool,
        Self::Machine,
        Self::Other,
    ];
}

/// Group and kind, for references that name no version.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupKind {
    pub group: Arc<str>,
    pub kind: Arc<str>,
}

/// What a [`GroupKind`] is looked up by. Hashed alike.
#[derive(Clone, Copy, Debug, Hash)]
pub struct GroupKindWords<'a> {
    pub group: &'a str,
    pub kind: &'a str,
}

impl Equivalent<Arc<GroupKind>> for GroupKindWords<'_> {
    fn equivalent(&self, other: &Arc<GroupKind>) -> bool {
        *self.group == *other.group && *self.kind == *other.kind
    }
}

/// A reference by contract: same namespace, no version. Shared where it is the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reference {
    pub kind: Arc<GroupKind>,
    /// `None`: the same name as the object that refers.
    pub name: Option<Box<str>>,
}

impl Reference {
    /// A Machine that refers to one has a Host, or waits for one.
    pub fn is_host_machine(&self) -> bool {
        is_host_machine(&self.kind.group, &self.kind.kind)
    }
}

/// The controller among an object's owners, or else its first owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    pub uid: Uid,
    pub group: Arc<str>,
    pub kind: Arc<str>,
    pub name: Arc<str>,
    pub controller: bool,
}

/// What an [`Owner`] is looked up by. Hashed alike.
#[derive(Clone, Copy, Debug, Hash)]
pub struct OwnerWords<'a> {
    pub uid: Uid,
    pub group: &'a str,
    pub kind: &'a str,
    pub name: &'a str,
    pub controller: bool,
}

impl Equivalent<Arc<Owner>> for OwnerWords<'_> {
    fn equivalent(&self, owner: &Arc<Owner>) -> bool {
        self.uid == owner.uid
            && *self.group == *owner.group
            && *self.kind == *owner.kind
            && *self.name == *owner.name
            && self.controller == owner.controller
    }
}

/// Labels in key order; one value shared by all objects that carry the same ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Labels(pub Box<[(Arc<str>, Arc<str>)]>);

impl Labels {
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.binary_search_by(|(k, _)| k.as_ref().cmp(key)).ok().map(|at| self.0[at].1.as_ref())
    }
}

/// What [`Labels`] are looked up by: pairs in key order. Hashed alike.
#[derive(Clone, Copy, Debug)]
pub struct LabelWords<'a, T>(pub &'a [(T, T)]);

impl<T: AsRef<str>> Hash for LabelWords<'_, T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // As a slice is hashed.
        state.write_usize(self.0.len());
        for (key, value) in self.0 {
            (key.as_ref(), value.as_ref()).hash(state);
        }
    }
}

impl<T: AsRef<str>> Equivalent<Arc<Labels>> for LabelWords<'_, T> {
    fn equivalent(&self, labels: &Arc<Labels>) -> bool {
        let is = |((key, value), (k, v)): (&(T, T), &(Arc<str>, Arc<str>))| {
            key.as_ref() == &**k && value.as_ref() == &**v
        };
        self.0.len() == labels.0.len() && self.0.iter().zip(&labels.0).all(is)
    }
}

/// How much a condition of the older kind (v1beta1) matters while it is false. Newer ones have none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    #[default]
    None,
    /// Things go as they should.
    Info,
    /// It may pass by itself.
    Warning,
    /// Somebody has to do something.
    Error,
}

impl Severity {
    pub fn parse(text: &str) -> Self {
        match text {
            "Info" => Self::Info,
            "Warning" => Self::Warning,
            "Error" => Self::Error,
            _ => Self::None,
        }
    }
}

/// What a condition says, without since when: shared by all objects that say the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConditionText {
    pub type_: Arc<str>,
    pub status: Status,
    pub severity: Severity,
    pub reason: Arc<str>,
    /// Several lines at most; empty when there is nothing to say.
    pub message: Arc<str>,
}

/// What a [`ConditionText`] is looked up by: the same words, not shared yet. Hashed alike.
#[derive(Clone, Copy, Debug, Hash)]
pub struct ConditionWords<'a> {
    pub type_: &'a str,
    pub status: Status,
    pub severity: Severity,
    pub reason: &'a str,
    pub message: &'a str,
}

impl Equivalent<Arc<ConditionText>> for ConditionWords<'_> {
    fn equivalent(&self, text: &Arc<ConditionText>) -> bool {
        *self.type_ == *text.type_
            && self.status == text.status
            && self.severity == text.severity
            && *self.reason == *text.reason
            && *self.message == *text.message
    }
}

/// The type under which `failureReason` and `failureMessage` stand among the conditions: its controllers gave the object up.
pub const FAILURE: &str = "Failure";

/// One condition of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub text: Arc<ConditionText>,
    /// Seconds since the epoch; 0 when the object does not say.
    pub since_s: u32,
}

impl std::ops::Deref for Condition {
    type Target = ConditionText;

    fn deref(&self) -> &ConditionText {
        &self.text
    }
}

impl Condition {
    /// When the status last changed.
    pub fn since(&self) -> Option<Timestamp> {
        moment(self.since_s)
    }
}

/// The five counters of everything that has replicas. `None`: the object does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub desired: Option<u32>,
    pub current: Option<u32>,
    pub ready: Option<u32>,
    pub available: Option<u32>,
    pub up_to_date: Option<u32>,
}

/// So many replicas at this version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionCount {
    pub version: Arc<str>,
    pub replicas: u32,
}

/// What only a Cluster has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterFacts {
    pub control_plane: Counters,
    pub workers: Counters,
    pub control_plane_versions: Box<[VersionCount]>,
    pub worker_versions: Box<[VersionCount]>,
    pub control_plane_ref: Option<Arc<Reference>>,
    pub infrastructure_ref: Option<Arc<Reference>>,
    /// Name of the ClusterClass; empty without a topology.
    pub class: Arc<str>,
    /// Versions that a topology still takes its control plane through, in order.
    pub control_plane_upgrade: Box<[Arc<str>]>,
    /// The same of its workers.
    pub worker_upgrade: Box<[Arc<str>]>,
    pub infrastructure_provisioned: bool,
    pub control_plane_initialized: bool,
}

/// What control planes, deployments, sets and pools have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaFacts {
    pub counters: Counters,
    pub versions: Box<[VersionCount]>,
    /// Control planes: `status.initialization.controlPlaneInitialized`; `None`: not said.
    pub initialized: Option<bool>,
    /// `spec.rollout.after`, seconds since the epoch.
    pub rollout_after_s: Option<u32>,
    /// Control planes: Machines are replaced before their certificates end.
    pub renews_certificates: bool,
    /// Machines are replaced only when a person deletes them.
    pub on_delete: bool,
    /// Control planes: their etcd is the user's.
    pub external_etcd: bool,
    /// Of the number of replicas, where an autoscaler sets it.
    pub scaling: Option<ScalingBounds>,
    /// The object says that somebody else sets its number of replicas.
    pub scaled_elsewhere: bool,
    pub infrastructure_ref: Option<Arc<Reference>>,
    pub bootstrap_ref: Option<Arc<Reference>>,
}

/// The server behind a Machine, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    pub provider_id: Option<Box<str>>,
    /// The first address of its type, as the next.
    pub internal_ip: Option<Box<str>>,
    pub external_ip: Option<Box<str>>,
    pub os_image: Option<Arc<str>>,
}

/// How long the stages of a Machine's deletion may take, and when they began, seconds since the epoch; 0: not yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeletionFacts {
    /// `spec.deletion.nodeDrainTimeoutSeconds`; 0: a drain is never forced.
    pub drain_timeout_s: u32,
    /// `spec.deletion.nodeVolumeDetachTimeoutSeconds`; 0: volumes are waited for without an end.
    pub detach_timeout_s: u32,
    pub pre_drain_s: u32,
    pub drain_s: u32,
    pub detach_s: u32,
    pub pre_terminate_s: u32,
}

/// What only a Machine has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineFacts {
    pub node: Option<Box<str>>,
    /// Where it is, which may be elsewhere than was asked for.
    pub failure_domain: Option<Arc<str>>,
    pub host: Option<Box<Host>>,
    pub infrastructure_ref: Option<Arc<Reference>>,
    pub bootstrap_ref: Option<Arc<Reference>>,
    pub control_plane: bool,
    /// When its certificates end, seconds since the epoch; 0: not known.
    pub certificates_end_s: u32,
    /// `None`: it has no time-outs, and nothing began.
    pub deletion: Option<Box<DeletionFacts>>,
}

/// The kind that shortens the times which Machines have. A fleet is judged without it as well.
pub const HEALTH_CHECK: &str = "MachineHealthCheck";

/// A condition of a Machine that a MachineHealthCheck bears for a while only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unhealthy {
    pub type_: Arc<str>,
    pub status: Arc<str>,
    pub timeout_s: u32,
    /// It is about the Node: a Machine without one has it only from hearsay.
    pub of_node: bool,
}

/// What only a MachineHealthCheck has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HealthCheckFacts {
    pub selector: LabelSelector,
    /// A Machine has a Node after so long; 0: never looked at.
    pub startup_timeout_s: u32,
    pub unhealthy: Box<[Unhealthy]>,
    /// Its Machines, and how many of them are healthy.
    pub counters: Counters,
    pub remediations_allowed: Option<u32>,
}

/// Selectors are text, which equals itself.
impl Eq for HealthCheckFacts {}

/// What only a Host has: a machine that is reached over ssh.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostUse {
    /// Where ssh goes to.
    pub address: Box<str>,
    /// The HostMachine that has it, in the same namespace; empty: none.
    pub consumer: Box<str>,
}

/// The part of a row that depends on its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Facts {
    Cluster(Box<ClusterFacts>),
    Replicas(Box<ReplicaFacts>),
    Machine(MachineFacts),
    HealthCheck(Box<HealthCheckFacts>),
    Host(Box<HostUse>),
    Other,
}

/// A part of an object that is not an object itself, as its kind demands: what stands in it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Misshapen {
    #[default]
    Nothing,
    Spec,
    Status,
}

/// One object. Times are seconds since the epoch, to keep a row small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub source: SourceId,
    pub kind: Kind,
    /// Conditions and counters came from the old v1beta1 places.
    pub legacy: bool,
    /// `spec.paused` or the pause annotation.
    pub paused: bool,
    /// What applies it from a repository or a chart, by the marks that it left.
    pub applied_by: Option<Tool>,
    pub misshapen: Misshapen,
    pub uid: Uid,
    pub gvk: Arc<Gvk>,
    pub namespace: Arc<str>,
    pub name: Box<str>,
    /// Name of the Cluster it belongs to; empty when it belongs to none.
    pub cluster: Arc<str>,
    /// 0 when it is not a number.
    pub resource_version: u64,
    pub created_s: u32,
    /// 0 when it is not being deleted.
    pub deleting_since_s: u32,
    pub generation: u32,
    /// 0 when the object does not say.
    pub observed_generation: u32,
    pub owner: Option<Arc<Owner>>,
    pub labels: Arc<Labels>,
    /// Empty when the object does not say.
    pub version: Arc<str>,
    /// Empty for kinds without a phase.
    pub phase: Arc<str>,
    /// In the order of the object.
    pub conditions: Box<[Condition]>,
    pub facts: Facts,
}

impl Row {
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        self.conditions.iter().find(|c| c.type_.as_ref() == type_)
    }

    /// The same where the type is a text of the fleet's own: equal texts of one source are one, which is seen at once.
    pub fn condition_of(&self, type_: &Arc<str>) -> Option<&Condition> {
        self.conditions.iter().find(|c| Arc::ptr_eq(&c.type_, type_)).or_else(|| self.condition(type_))
    }

    /// Is it of this group and kind, whatever the version?
    pub fn is_of(&self, group: &str, kind: &str) -> bool {
        self.gvk.kind == kind && self.gvk.group == group
    }

    /// Of whatever group and kind, where a Cluster names it.
    pub fn is_control_plane(&self) -> bool {
        self.kind == Kind::ControlPlane
    }

    pub fn is_deleting(&self) -> bool {
        self.deleting_since_s != 0
    }

    pub fn created(&self) -> Option<Timestamp> {
        moment(self.created_s)
    }

    pub fn deleting_since(&self) -> Option<Timestamp> {
        moment(self.deleting_since_s)
    }

    /// When the last pause of the object ended, seconds since the epoch; 0: its condition shows none. That is false from the
    /// first look at the object on, too.
    fn resumed_s(&self) -> u32 {
        let ended_s = self.condition("Paused").filter(|c| c.status == Status::False).map_or(0, |c| c.since_s);
        if ended_s > self.created_s.saturating_add(FIRST_LOOK_S) { ended_s } else { 0 }
    }

    /// A pause ended between its creation and this moment. Its length is not known, so that this time shows nothing of what is usual.
    pub fn was_paused_before(&self, moment_s: u32) -> bool {
        (self.created_s.saturating_add(1)..=moment_s).contains(&self.resumed_s())
    }

    /// The controllers have not yet looked at the newest spec.
    pub fn status_is_behind(&self) -> bool {
        self.observed_generation != 0 && self.observed_generation < self.generation
    }

    pub fn counters(&self) -> Option<Counters> {
        match &self.facts {
            Facts::Replicas(facts) => Some(facts.counters),
            _ => None,
        }
    }

    /// The same, and the Machines of a MachineHealthCheck, which nobody asked for by number.
    pub fn shown_counters(&self) -> Option<Counters> {
        self.counters().or_else(|| self.health_check().map(|facts| facts.counters))
    }

    pub fn machine(&self) -> Option<&MachineFacts> {
        if let Facts::Machine(facts) = &self.facts { Some(facts) } else { None }
    }

    /// Where its provider has the machine, as `spec.providerID` says it.
    pub fn provider_id(&self) -> Option<&str> {
        self.machine()?.host.as_deref()?.provider_id.as_deref()
    }

    pub fn cluster_facts(&self) -> Option<&ClusterFacts> {
        if let Facts::Cluster(facts) = &self.facts { Some(facts) } else { None }
    }

    pub fn replica_facts(&self) -> Option<&ReplicaFacts> {
        if let Facts::Replicas(facts) = &self.facts { Some(facts) } else { None }
    }

    pub fn health_check(&self) -> Option<&HealthCheckFacts> {
        if let Facts::HealthCheck(facts) = &self.facts { Some(facts) } else { None }
    }

    /// Of a machine that is reached over ssh.
    pub fn host_use(&self) -> Option<&HostUse> {
        if let Facts::Host(facts) = &self.facts { Some(facts) } else { None }
    }

    /// The name of the HostMachine of a Machine.
    pub fn host_machine(&self) -> Option<&str> {
        let reference = self.machine()?.infrastructure_ref.as_deref().filter(|it| it.is_host_machine())?;
        Some(reference.name.as_deref().unwrap_or(&self.name))
    }

    /// The model has a place for it. Other infrastructure and bootstrap objects are read when somebody opens them.
    pub fn is_kept(&self) -> bool {
        self.kind != Kind::Other || self.health_check().is_some() || self.host_use().is_some()
    }

    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(self.namespace.as_ref(), self.name.as_ref())
    }

    /// What an action or a details view needs to reach the object itself.
    pub fn object_ref(&self) -> ObjectRef {
        ObjectRef { gvk: self.gvk.as_ref().clone(), key: self.key(), uid: self.uid.to_string() }
    }
}

/// A moment from seconds since the epoch; `None` for 0.
pub fn moment(seconds: u32) -> Option<Timestamp> {
    if seconds == 0 { None } else { Timestamp::from_timestamp(i64::from(seconds), 0) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fleet::decode::{Decoder, Slim};
    use capi_types::machine::Machine;

    #[test]
    fn a_pause_counts_that_ended_between_the_creation_and_the_moment() {
        let row = |resumed: &str| {
            let paused = json!({"type": "Paused", "status": "False", "reason": "NotPaused", "lastTransitionTime": resumed});
            let object = json!({
                "metadata": {"name": "m", "namespace": "n", "uid": "u", "creationTimestamp": "2026-11-20T10:00:00Z"},
                "spec": {}, "status": {"conditions": [paused]},
            });
            let slim: Slim = serde_json::from_value(object).expect("any object decodes");
            Decoder::for_kind(SourceId(0), Gvk::of::<Machine>(), Arc::default()).row(&slim)
        };
        for (resumed, was_paused) in [
            ("2026-11-20T10:00:10Z", false),
            ("2026-11-20T10:05:00Z", true),
            ("2026-11-20T10:20:00Z", true),
            ("2026-11-20T10:20:01Z", false),
        ] {
            let row = row(resumed);
            assert_eq!(row.was_paused_before(row.created_s + 1_200), was_paused, "{resumed}");
        }
    }
}
