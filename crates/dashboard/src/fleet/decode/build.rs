//! Slim object → row: which field means what for which kind, texts made safe and shared. Must not
//! know how objects are fetched.

use std::borrow::Cow;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use super::lax::{Lax, Text, Texts};
use super::slim::{Condition, Counts, Ref, Requirement, Slim, VersionCount};
use crate::fleet::conditions::{ConditionMarks, Places, is_older_version};
use crate::fleet::intern::{Interner, Tables};
use crate::fleet::row::{self, Facts, HEALTH_CHECK, Kind, Row, SourceId, Uid};
use capi_rules::status::outside_owners::{ScalingBounds, Tool, replicas_managed_by};
use capi_types::condition::Status;
use capi_types::key::Gvk;
use capi_types::names::{CORE_GROUP, VERSION, annotation, label};
use capstan_base::text::{MESSAGE_CHARS_MAX, sanitize_block, sanitize_line};
use capstan_base::time::parse_rfc3339;

/// Upstream's default, which its admission writes as well.
const NODE_STARTUP_S: u32 = 600;
/// As many requirements of one MachineHealthCheck are read, and as many conditions: the schema's limit.
const CHECKS_MAX: usize = 100;

/// Turns the objects of one kind of one source into rows.
#[derive(Clone)]
pub struct Decoder {
    pub source: SourceId,
    pub kind: Kind,
    gvk: Arc<Gvk>,
    interner: Arc<Interner>,
}

impl Decoder {
    pub fn new(source: SourceId, kind: Kind, gvk: Gvk, interner: Arc<Interner>) -> Self {
        let gvk = interner.with(|t| t.resource(gvk));
        Self { source, kind, gvk, interner }
    }

    /// A decoder whose kind is told by group and kind: control planes by the group that most of them share.
    pub fn for_kind(source: SourceId, gvk: Gvk, interner: Arc<Interner>) -> Self {
        Self::new(source, kind_of(&gvk.group, &gvk.kind), gvk, interner)
    }

    /// A decoder of a kind that a Cluster names as its control plane, whatever its group. What has a place of its own
    /// keeps it.
    pub fn for_control_plane(source: SourceId, gvk: Gvk, interner: Arc<Interner>) -> Self {
        let kind = match kind_of(&gvk.group, &gvk.kind) {
            Kind::Other if !is_health_check(&gvk) && !is_host(&gvk) => Kind::ControlPlane,
            known => known,
        };
        Self::new(source, kind, gvk, interner)
    }

    pub fn gvk(&self) -> &Gvk {
        &self.gvk
    }

    pub fn row(&self, object: &Slim) -> Row {
        self.interner.with(|tables| Builder { decoder: self, t: tables, o: object }.row())
    }

    /// Rows of a batch, under one lock.
    pub fn rows<'a>(&self, objects: impl IntoIterator<Item = &'a Slim>) -> Vec<Arc<Row>> {
        self.interner.with(|tables| {
            objects.into_iter().map(|o| Arc::new(Builder { decoder: self, t: tables, o }.row())).collect()
        })
    }

    /// The uid that [`Decoder::row`] gives the object.
    pub fn uid(&self, object: &Slim) -> Uid {
        uid_of(self, object)
    }
}

/// What a group and kind is to the model as far as its name says. What else is a control plane only Clusters say.
pub fn kind_of(group: &str, kind: &str) -> Kind {
    use capi_types::names::CONTROL_PLANE_GROUP;
    match (group, kind) {
        (CORE_GROUP, "Cluster") => Kind::Cluster,
        (CORE_GROUP, "MachineDeployment") => Kind::MachineDeployment,
        (CORE_GROUP, "MachineSet") => Kind::MachineSet,
        (CORE_GROUP, "MachinePool") => Kind::MachinePool,
        (CORE_GROUP, "Machine") => Kind::Machine,
        (CONTROL_PLANE_GROUP, kind) if kind.ends_with("ControlPlane") => Kind::ControlPlane,
        _ => Kind::Other,
    }
}

fn is_health_check(gvk: &Gvk) -> bool {
    gvk.group == CORE_GROUP && gvk.kind == HEALTH_CHECK
}

fn is_host(gvk: &Gvk) -> bool {
    capi_types::host::is_host(&gvk.group, &gvk.kind)
}

fn uid_of(decoder: &Decoder, object: &Slim) -> Uid {
    let m = &object.metadata;
    if m.uid.is_empty() {
        // Dumps may lack uids; the name is then as good.
        return Uid::parse(&format!("{}/{}/{}", decoder.gvk.kind, m.namespace.0, m.name.0));
    }
    Uid::parse(&m.uid)
}

struct Builder<'a> {
    decoder: &'a Decoder,
    t: &'a mut Tables,
    o: &'a Slim,
}

impl Builder<'_> {
    fn row(&mut self) -> Row {
        let (m, spec, status) = (&self.o.metadata, &self.o.spec, &self.o.status);
        let (conditions, legacy) = self.conditions();
        let kind = self.decoder.kind;
        let cluster = match kind {
            Kind::Cluster => m.name.as_str(),
            // What a managed control plane calls `clusterName` is the provider's name of it.
            Kind::ControlPlane => {
                let known = m.labels.get(label::CLUSTER_NAME).unwrap_or_else(|| owning_cluster(self.o));
                if known.is_empty() { spec.cluster_name.as_str() } else { known }
            }
            Kind::Other if is_host(&self.decoder.gvk) => spec.consumer_ref.cluster_name.as_str(),
            _ if !spec.cluster_name.is_empty() => spec.cluster_name.as_str(),
            _ => m.labels.get(label::CLUSTER_NAME).unwrap_or_else(|| owning_cluster(self.o)),
        };
        Row {
            source: self.decoder.source,
            kind,
            legacy,
            paused: self.paused(),
            applied_by: Tool::marked_on(m.as_ref()),
            misshapen: self.o.misshapen,
            uid: uid_of(self.decoder, self.o),
            gvk: self.decoder.gvk.clone(),
            namespace: self.line(&m.namespace),
            name: own_line(&m.name),
            cluster: self.line(cluster),
            resource_version: m.resource_version.parse().unwrap_or(0),
            created_s: seconds(&m.creation_timestamp),
            deleting_since_s: deletion(&m.deletion_timestamp),
            generation: m.generation.unwrap_or(0),
            observed_generation: status.observed_generation.unwrap_or(0),
            owner: self.owner(),
            labels: self.labels(),
            version: self.version(),
            // What other kinds call a phase is the state of a Host.
            phase: self.line(if is_host(&self.decoder.gvk) { &status.state } else { &status.phase }),
            conditions,
            facts: self.facts(),
        }
    }

    /// One line, safe, shared.
    fn line(&mut self, text: &str) -> Arc<str> {
        self.t.text(&safe_line(text))
    }

    /// `MachineDeployment.spec.paused` is a pause of the rollout: for the screen a pause all the same.
    fn paused(&self) -> bool {
        self.o.spec.paused.0 || self.o.metadata.annotations.get(annotation::PAUSED).is_some()
    }

    fn owner(&mut self) -> Option<Arc<row::Owner>> {
        let owners = &self.o.metadata.owner_references.0;
        let owner = owners.iter().find(|o| o.controller.0).or_else(|| owners.first())?;
        let (uid, controller) = (Uid::parse(&owner.uid), owner.controller.0);
        let (group, kind) = (safe_line(group_of(&owner.api_version)), safe_line(&owner.kind));
        let name = safe_line(&owner.name);
        let words = row::OwnerWords { uid, group: &group, kind: &kind, name: &name, controller };
        if let Some(known) = self.t.known_owner(&words) {
            return Some(known);
        }
        let [group, kind, name] = [group, kind, name].map(|word| self.t.text(&word));
        Some(self.t.owner(row::Owner { uid, group, kind, name, controller }))
    }

    fn labels(&mut self) -> Arc<row::Labels> {
        let Texts(labels) = &self.o.metadata.labels.0;
        let is_safe = labels.iter().all(|(k, v)| is_plain_text(k) && is_plain_text(v));
        // What is not safe is looked up by what it becomes.
        if is_safe && let Some(known) = self.t.known_labels(&row::LabelWords(labels)) {
            return known;
        }
        let shared = labels.iter().map(|(k, v)| (self.line(k), self.line(v))).collect();
        self.t.labels(row::Labels(shared))
    }

    fn version(&mut self) -> Arc<str> {
        let spec = &self.o.spec;
        let asked_for = [&spec.topology.version, &spec.version, &spec.template.spec.version];
        // A provider may choose the version of a managed control plane by itself.
        let runs = Some(&self.o.status.version).filter(|_| self.decoder.kind == Kind::ControlPlane);
        let text = asked_for.into_iter().chain(runs).find(|v| !v.is_empty()).map_or("", |v| v.as_str());
        self.line(text)
    }

    /// Where v1beta1 has it, and where v1beta2 keeps it.
    fn failure(&self) -> Option<Condition> {
        let (status, older) = (&self.o.status, &self.o.status.deprecated.v1beta1);
        let first = |places: [&Text; 2]| places.into_iter().find(|text| !text.is_empty()).cloned();
        let reason = first([&status.failure_reason, &older.failure_reason]);
        let message = first([&status.failure_message, &older.failure_message]);
        (reason.is_some() || message.is_some()).then(|| Condition {
            r#type: Lax(row::FAILURE.into()),
            status: Lax("True".into()),
            reason: Lax(reason.unwrap_or_default()),
            message: Lax(message.unwrap_or_default()),
            ..Condition::default()
        })
    }

    fn conditions(&mut self) -> (Box<[row::Condition]>, bool) {
        let status = &self.o.status;
        let places = Places {
            newer: &status.v1beta2.conditions.0,
            plain: &status.conditions.0,
            deprecated: &status.deprecated.v1beta1.conditions.0,
        };
        let gvk = &self.decoder.gvk;
        let (list, legacy) = places.choose(&gvk.group, &gvk.version);
        let own = list.iter().filter(|c| !c.r#type.is_empty());
        let failure = self.failure();
        (own.chain(&failure).map(|c| self.condition(c)).collect(), legacy)
    }

    fn condition(&mut self, c: &Condition) -> row::Condition {
        // Older conditions may have no reason. This is upstream's word for that.
        let reason = if c.reason.is_empty() { "NoReasonReported" } else { c.reason.as_str() };
        let status = Status::parse(&c.status).unwrap_or(Status::Unknown);
        let severity = row::Severity::parse(&c.severity);
        let (type_, reason) = (safe_line(&c.r#type), safe_line(reason));
        let message = safe_block(&c.message);
        let words =
            row::ConditionWords { type_: &type_, status, severity, reason: &reason, message: &message };
        // Looked up by its words before those are interned one by one: most conditions are known.
        let text = self.t.known_condition(&words).unwrap_or_else(|| {
            let [type_, reason, message] = [type_, reason, message].map(|word| self.t.text(&word));
            self.t.condition(row::ConditionText { type_, status, severity, reason, message })
        });
        row::Condition { text, since_s: seconds(&c.last_transition_time) }
    }

    fn facts(&mut self) -> Facts {
        match self.decoder.kind {
            Kind::Cluster => Facts::Cluster(Box::new(self.cluster())),
            Kind::ControlPlane | Kind::MachineDeployment | Kind::MachineSet | Kind::MachinePool => {
                Facts::Replicas(Box::new(self.replicas()))
            }
            Kind::Machine => Facts::Machine(self.machine()),
            Kind::Other if is_health_check(&self.decoder.gvk) => {
                Facts::HealthCheck(Box::new(self.health_check()))
            }
            Kind::Other if is_host(&self.decoder.gvk) => Facts::Host(Box::new(self.host_use())),
            Kind::Other => Facts::Other,
        }
    }

    fn host_use(&self) -> row::HostUse {
        let spec = &self.o.spec;
        row::HostUse { address: own_line(&spec.address), consumer: own_line(&spec.consumer_ref.name) }
    }

    fn cluster(&mut self) -> row::ClusterFacts {
        let (spec, status) = (&self.o.spec, &self.o.status);
        let newer = &status.v1beta2;
        // The second one is the field of v1beta1.
        let class = [&spec.topology.class_ref.name, &spec.topology.class].into_iter().find(|c| !c.is_empty());
        row::ClusterFacts {
            control_plane: counters(&status.control_plane, &newer.control_plane),
            workers: counters(&status.workers, &newer.workers),
            control_plane_versions: self.versions(&status.control_plane.versions),
            worker_versions: self.versions(&status.workers.versions),
            control_plane_ref: self.reference(&spec.control_plane_ref),
            infrastructure_ref: self.reference(&spec.infrastructure_ref),
            class: self.line(class.map_or("", |c| c.as_str())),
            control_plane_upgrade: self.upgrade(&status.control_plane.upgrade_plan),
            worker_upgrade: self.upgrade(&status.workers.upgrade_plan),
            // The second field is that of v1beta1.
            infrastructure_provisioned: status.initialization.infrastructure_provisioned.0
                || status.infrastructure_ready.0,
            // v1beta1 says it with the condition alone.
            control_plane_initialized: status.initialization.control_plane_initialized == Lax(Some(true))
                || status
                    .conditions
                    .iter()
                    .any(|c| c.r#type.0 == "ControlPlaneInitialized" && c.status.0 == "True"),
        }
    }

    fn replicas(&mut self) -> row::ReplicaFacts {
        let (spec, status) = (&self.o.spec, &self.o.status);
        // Control planes have their template under the second name, and in v1beta1 without a `spec`
        // in it.
        let template = [&spec.template, &spec.machine_template]
            .into_iter()
            .find(|t| !t.spec.infrastructure_ref.kind.is_empty() || !t.infrastructure_ref.kind.is_empty());
        let infrastructure = template.map(|t| {
            if t.spec.infrastructure_ref.kind.is_empty() {
                &t.infrastructure_ref
            } else {
                &t.spec.infrastructure_ref
            }
        });
        // `rolloutAfter` is the field of v1beta1.
        let after = if spec.rollout.after.is_empty() { &spec.rollout_after } else { &spec.rollout.after };
        row::ReplicaFacts {
            counters: self.counters(),
            versions: self.versions(&status.versions),
            initialized: status
                .initialization
                .control_plane_initialized
                // The field of v1beta1. False cannot be told from a field that is not there.
                .or_else(|| status.initialized.0.then_some(true)),
            rollout_after_s: Some(seconds(after)).filter(|s| *s != 0),
            renews_certificates: [&spec.rollout.before, &spec.rollout_before]
                .iter()
                .any(|before| before.certificates_expiry_days.is_some()),
            // v1beta1 has the strategy one level higher.
            on_delete: [&spec.rollout.strategy, &spec.strategy].iter().any(|s| s.r#type.0 == "OnDelete"),
            scaling: ScalingBounds::of(self.o.metadata.as_ref()),
            scaled_elsewhere: replicas_managed_by(self.o.metadata.as_ref()).is_some(),
            external_etcd: !spec.kubeadm_config_spec.cluster_configuration.etcd.external.endpoints.is_empty(),
            infrastructure_ref: infrastructure.and_then(|r| self.reference(r)),
            bootstrap_ref: self.reference(&spec.template.spec.bootstrap.config_ref),
        }
    }

    /// A counter that v1beta2 leaves out is not known. v1beta1 leaves out what is zero, once a status is there.
    fn counters(&self) -> row::Counters {
        let (status, gvk) = (&self.o.status, &self.decoder.gvk);
        let newer = &status.v1beta2;
        let is_written = status.observed_generation.is_some() || !status.phase.is_empty();
        let zero = (is_written && is_older_version(&gvk.group, &gvk.version)).then_some(0);
        let current = status.replicas.0.or(zero);
        let ready = newer.ready_replicas.or(status.ready_replicas.0).or(zero);
        // By the older contract a control plane counts what is not available, and its available ones are the ready ones.
        let rest = status.unavailable_replicas.and_then(|n| current.map(|current| current.saturating_sub(n)));
        let without = if self.decoder.kind == Kind::ControlPlane { zero.and(ready) } else { zero };
        row::Counters {
            desired: self.o.spec.replicas.0,
            current,
            ready,
            available: newer.available_replicas.or(status.available_replicas.0).or(rest).or(without),
            up_to_date: newer
                .up_to_date_replicas
                .or(status.up_to_date_replicas.0)
                .or(status.updated_replicas.0),
        }
    }

    fn machine(&mut self) -> row::MachineFacts {
        let (spec, status) = (&self.o.spec, &self.o.status);
        let node = &status.node_ref.name;
        // The older version has one field for what is asked for and what is.
        let older = status.failure_domain.is_empty()
            && is_older_version(&self.decoder.gvk.group, &self.decoder.gvk.version);
        let domain = if older { &spec.failure_domain } else { &status.failure_domain };
        row::MachineFacts {
            node: (!node.is_empty()).then(|| own_line(node)),
            failure_domain: if domain.is_empty() { None } else { Some(self.line(domain)) },
            host: self.host(),
            infrastructure_ref: self.reference(&spec.infrastructure_ref),
            bootstrap_ref: self.reference(&spec.bootstrap.config_ref),
            // The label has no value: only its presence counts.
            control_plane: self.o.metadata.labels.get(label::CONTROL_PLANE).is_some(),
            certificates_end_s: seconds(&status.certificates_expiry_date),
            deletion: self.deletion(),
        }
    }

    /// Through an older version its times have another form and are not read.
    fn health_check(&mut self) -> row::HealthCheckFacts {
        let (selector, checks) = (&self.o.spec.selector, &self.o.spec.checks);
        let requirement = |r: &Requirement| {
            let values: Vec<String> = r.values.iter().map(ToString::to_string).collect();
            LabelSelectorRequirement {
                key: r.key.to_string(),
                operator: r.operator.to_string(),
                values: Some(values).filter(|values| !values.is_empty()),
            }
        };
        let expressions = selector.match_expressions.iter().take(CHECKS_MAX).map(requirement).collect();
        let startup_s = checks.node_startup_timeout_seconds.unwrap_or(NODE_STARTUP_S);
        let of_machines = checks.unhealthy_machine_conditions.iter().map(|u| (u, u.r#type.0.as_str(), false));
        // Machines repeat this one of their Nodes' conditions, with its time.
        let of_nodes = checks.unhealthy_node_conditions.iter().filter(|u| u.r#type.0 == "Ready");
        let unhealthy = of_machines.chain(of_nodes.map(|u| (u, "NodeReady", true))).take(CHECKS_MAX);
        row::HealthCheckFacts {
            selector: LabelSelector {
                match_labels: Some(
                    selector.match_labels.0.0.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
                ),
                match_expressions: Some(expressions),
            },
            startup_timeout_s: if self.decoder.gvk.version == VERSION { startup_s } else { 0 },
            unhealthy: unhealthy
                .map(|(u, type_, of_node)| row::Unhealthy {
                    type_: self.line(type_),
                    status: self.line(&u.status),
                    timeout_s: u.timeout_seconds.unwrap_or(0),
                    of_node,
                })
                .filter(|u| u.timeout_s > 0)
                .collect(),
            counters: row::Counters {
                desired: self.o.status.expected_machines.0,
                current: self.o.status.expected_machines.0,
                available: self.o.status.current_healthy.0,
                ..row::Counters::default()
            },
            remediations_allowed: self.o.status.remediations_allowed.0,
        }
    }

    fn group_kind(&mut self, group: &str, kind: &str) -> Arc<row::GroupKind> {
        let (group, kind) = (safe_line(group), safe_line(kind));
        let words = row::GroupKindWords { group: &group, kind: &kind };
        self.t.known_kind(&words).unwrap_or_else(|| {
            let [group, kind] = [group, kind].map(|word| self.t.text(&word));
            self.t.kind(row::GroupKind { group, kind })
        })
    }

    fn deletion(&self) -> Option<Box<row::DeletionFacts>> {
        let (wanted, stages) = (&self.o.spec.deletion, &self.o.status.deletion);
        let facts = row::DeletionFacts {
            drain_timeout_s: wanted.node_drain_timeout_seconds.unwrap_or(0),
            detach_timeout_s: wanted.node_volume_detach_timeout_seconds.unwrap_or(0),
            pre_drain_s: seconds(&stages.wait_for_pre_drain_hook_start_time),
            drain_s: seconds(&stages.node_drain_start_time),
            detach_s: seconds(&stages.wait_for_node_volume_detach_start_time),
            pre_terminate_s: seconds(&stages.wait_for_pre_terminate_hook_start_time),
        };
        // Most Machines have none of it, and a row stays small.
        (facts != row::DeletionFacts::default()).then(|| Box::new(facts))
    }

    fn host(&mut self) -> Option<Box<row::Host>> {
        let (spec, status) = (&self.o.spec, &self.o.status);
        let own = |text: &str| (!text.is_empty()).then(|| own_line(text));
        let address = |type_: &str| {
            own(status.addresses.iter().find(|a| a.r#type.0 == type_).map_or("", |a| a.address.as_str()))
        };
        let image = &status.node_info.os_image;
        let host = row::Host {
            provider_id: own(&spec.provider_id),
            internal_ip: address("InternalIP"),
            external_ip: address("ExternalIP"),
            os_image: if image.is_empty() { None } else { Some(self.line(image)) },
        };
        (host != row::Host::default()).then(|| Box::new(host))
    }

    fn versions(&mut self, list: &[VersionCount]) -> Box<[row::VersionCount]> {
        list.iter()
            .map(|v| row::VersionCount { version: self.line(&v.version), replicas: v.replicas.unwrap_or(0) })
            .collect()
    }

    fn upgrade(&mut self, plan: &[VersionCount]) -> Box<[Arc<str>]> {
        plan.iter().map(|step| self.line(&step.version)).collect()
    }

    fn reference(&mut self, r: &Ref) -> Option<Arc<row::Reference>> {
        if r.kind.is_empty() {
            return None;
        }
        // References of v1beta2 have a group, those of v1beta1 an apiVersion.
        let group = if r.api_group.is_empty() { group_of(&r.api_version) } else { &r.api_group };
        let kind = self.group_kind(group, &r.kind);
        let name = (r.name.0 != self.o.metadata.name.0).then(|| own_line(&r.name));
        // A name of its own is in no other row: sharing it would only fill the table.
        let is_alone = name.is_some();
        let reference = row::Reference { kind, name };
        Some(if is_alone { Arc::new(reference) } else { self.t.reference(reference) })
    }
}

/// One line, safe to be shown.
fn safe_line(text: &str) -> Cow<'_, str> {
    if is_plain_text(text) { Cow::Borrowed(text) } else { Cow::Owned(sanitize_line(text)) }
}

/// The same for text of which no copy is shared.
fn own_line(text: &str) -> Box<str> {
    safe_line(text).into()
}

/// Several lines, safe to be shown.
fn safe_block(text: &str) -> Cow<'_, str> {
    let is_safe = text.bytes().all(|b| b == b'\n' || is_plain(b));
    if is_safe && text.len() <= MESSAGE_CHARS_MAX {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(sanitize_block(text))
    }
}

impl ConditionMarks for Condition {
    fn has_severity(&self) -> bool {
        !self.severity.is_empty()
    }

    fn has_reason(&self) -> bool {
        !self.reason.is_empty()
    }
}

/// A control plane that has not been labelled yet belongs to the Cluster that owns it.
fn owning_cluster(o: &Slim) -> &str {
    let owners = &o.metadata.owner_references.0;
    owners.iter().find(|o| o.kind.0 == "Cluster").map_or("", |o| o.name.as_str())
}

/// From their place, or from that of objects read through v1beta1.
fn counters(c: &Counts, older: &Counts) -> row::Counters {
    row::Counters {
        desired: c.desired_replicas.or(older.desired_replicas.0),
        current: c.replicas.or(older.replicas.0),
        ready: c.ready_replicas.or(older.ready_replicas.0),
        available: c.available_replicas.or(older.available_replicas.0),
        up_to_date: c.up_to_date_replicas.or(older.up_to_date_replicas.0),
    }
}

fn group_of(api_version: &str) -> &str {
    api_version.rsplit_once('/').map_or("", |(group, _)| group)
}

/// Seconds since the epoch; 0 for what is not a moment.
fn seconds(text: &str) -> u32 {
    parse_rfc3339(text).and_then(|at| u32::try_from(at.timestamp()).ok()).unwrap_or(0)
}

/// A deletion time that cannot be read still means that the object is being deleted.
fn deletion(text: &str) -> u32 {
    if text.is_empty() { 0 } else { seconds(text).max(1) }
}

fn is_plain_text(text: &str) -> bool {
    text.len() <= MESSAGE_CHARS_MAX && text.bytes().all(is_plain)
}

/// Text of such bytes alone needs no sanitising; most text is.
fn is_plain(byte: u8) -> bool {
    (b' '..0x7f).contains(&byte)
}
