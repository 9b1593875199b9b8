//! What one line shows of an item: typed cells, borrowed from its row. Must not know columns,
//! widths, glyphs nor colours.

use std::sync::Arc;

use super::cause::evidence_since_s;
use super::cell::by_version;
use super::evidence::{short_words, words};
use super::judge::{Basis, are_ending};
use super::pending::pending;
use super::row::{Condition, Counters, Facts, Kind, Row, RowId, SourceId, VersionCount};
use super::tree::{Group, Item, Relative};
use super::{Fleet, moment};
use crate::fleet::Verdict;
use capi_rules::status::support::{Project, SupportEnd};
use capi_types::condition::Status;
use capi_types::host::condition::REACHABLE;
use capi_types::names::label;
use capstan_base::time::Timestamp;

/// Things to say next to a name, in the order of their weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tag {
    Deleting,
    Paused,
    Remediating,
    Updating,
    RollingOut,
    ScalingUp,
    ScalingDown,
    OutOfDate,
    /// As its owner wants it to be, while others are not.
    New,
    /// More than wanted for a time, so that none is missing.
    Surging,
    Behind,
    /// Of the control plane, within a month.
    CertificatesEnd,
    /// A person holds the rollout back: on delete, later, paused, or deferred.
    Held,
    /// It turned again and again between calm and not calm.
    Flapping,
    /// A step takes longer than usual.
    Slow,
    /// A person has seen what is wrong.
    Acknowledged,
    /// A person put what is wrong aside for a while.
    Shelved,
    /// Seen through API version v1beta1.
    Legacy,
    /// A Cluster that asks for a name before anything is done to it.
    Protected,
    /// Of a Cluster: upstream looks after a version of it for two months at most.
    SupportEnds,
    /// Upstream does not look after a version of it any more.
    SupportEnded,
}

impl Tag {
    pub fn word(self) -> &'static str {
        match self {
            Self::Deleting => "deleting",
            Self::Paused => "paused",
            Self::Remediating => "remediating",
            Self::Updating => "updating",
            Self::RollingOut => "rolling out",
            Self::ScalingUp => "scaling up",
            Self::ScalingDown => "scaling down",
            Self::OutOfDate => "old",
            Self::New => "new",
            Self::Surging => "surging",
            Self::Behind => "status behind",
            Self::CertificatesEnd => "certificates end",
            Self::Held => "held",
            Self::Flapping => "flapping",
            Self::Acknowledged => "seen",
            Self::Shelved => "shelved",
            Self::Slow => "slow",
            Self::Legacy => "v1beta1",
            Self::Protected => "protected",
            Self::SupportEnds => "support ends",
            Self::SupportEnded => "support ended",
        }
    }
}

/// Of the condition `UpToDate`: the Machine has its new spec, and its host follows.
/// Source: cluster-api `api/core/v1beta2/machine_types.go` (`MachineUpToDateUpdatingReason`), v1.14.2.
const UPDATING: &str = "Updating";

/// The cells of one item. Empty text and `None` mean: nothing to show.
#[derive(Clone, Debug, PartialEq)]
pub struct Line<'a> {
    pub item: Item,
    /// `Machine`, `KubeadmControlPlane`, …; empty for headings.
    pub kind: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    /// With everything under it.
    pub verdict: Verdict,
    /// Of what has replicas; a Cluster has the two below instead.
    pub counters: Option<Counters>,
    pub control_plane: Option<Counters>,
    pub workers: Option<Counters>,
    pub version: &'a str,
    pub phase: &'a str,
    /// Name of the Node of a Machine.
    pub node: &'a str,
    pub failure_domain: &'a str,
    pub created: Option<Timestamp>,
    /// The condition that stands for the object: `Available`, or `Ready` for Machines and others.
    pub status: Option<&'a Condition>,
    pub tags: Vec<Tag>,
}

impl Fleet {
    /// The cells of an item; `None` when it is no longer there.
    pub fn line(&self, item: Item) -> Option<Line<'_>> {
        let row = self.row(item.row())?;
        match item {
            Item::Row(id) => Some(self.row_line(id, row)),
            Item::Group { group, .. } => {
                let name = match group {
                    Group::ControlPlane => "Control plane",
                    Group::Workers => "Workers",
                    Group::Other => "Other",
                    Group::Alike(_) => "machines",
                };
                Some(Line { name, ..blank(item, Verdict::Ok) })
            }
            Item::Reference { which: Relative::Node, .. } => Some(Line {
                kind: "Node",
                name: row.machine()?.node.as_deref()?,
                status: row.condition(Relative::Node.mirrored_by()),
                ..blank(item, self.reference_verdict(item.row(), Relative::Node))
            }),
            Item::Reference { of, which } => {
                let reference = self.reference(of, which)?;
                Some(Line {
                    kind: &reference.kind.kind,
                    namespace: &row.namespace,
                    name: reference.name.as_deref().unwrap_or(&row.name),
                    status: row.condition(which.mirrored_by()),
                    ..blank(item, self.reference_verdict(of, which))
                })
            }
        }
    }

    fn row_line<'a>(&'a self, id: RowId, row: &'a Row) -> Line<'a> {
        let cluster = row.cluster_facts();
        Line {
            kind: &row.gvk.kind,
            namespace: &row.namespace,
            name: &row.name,
            counters: row.shown_counters(),
            control_plane: cluster.map(|c| c.control_plane),
            workers: cluster.map(|c| c.workers),
            version: &row.version,
            phase: &row.phase,
            node: row.machine().and_then(|m| m.node.as_deref()).unwrap_or_default(),
            failure_domain: row.machine().and_then(|m| m.failure_domain.as_deref()).unwrap_or_default(),
            created: moment(row.created_s),
            status: status_of(row),
            tags: self.tags(id, row),
            ..blank(Item::Row(id), self.verdict(id))
        }
    }

    /// Why the object taken alone is as it is, in plain words for a row; empty when it is well.
    pub fn own_short_words(&self, id: RowId) -> String {
        let of =
            |row: &Arc<Row>| Some(short_words(row, self.judgement(id)?, self.now_s(), self.explanations()));
        self.row(id).and_then(of).unwrap_or_default()
    }

    /// The same as the object says it.
    pub fn own_words(&self, id: RowId) -> String {
        let of = |row: &Arc<Row>| Some(words(row, self.judgement(id)?, self.now_s()));
        self.row(id).and_then(of).unwrap_or_default()
    }

    /// Since when the object with everything under it is as it is shown, by the account of what explains it. `None`: it has
    /// no date.
    pub fn since(&self, id: RowId) -> Option<Timestamp> {
        match self.index.last_verdict(id) {
            Verdict::Ok => self.own_since(id).or_else(|| self.parts_since(id)),
            _ => self.cause_since(id),
        }
    }

    /// Since when the last Machine of a Cluster is as it is, where nothing but its Machines says how the Cluster is.
    fn parts_since(&self, id: RowId) -> Option<Timestamp> {
        let is_cluster = self.row(id)?.kind == Kind::Cluster;
        let machines = if is_cluster { self.members(id, Kind::Machine) } else { &[] };
        machines.iter().filter_map(|id| self.own_since(*id)).max()
    }

    /// The same of the object alone.
    pub fn own_since(&self, id: RowId) -> Option<Timestamp> {
        let (row, judgement) = (self.row(id)?, self.judgement(id)?);
        let since_s = match judgement.why {
            Basis::Nothing if judgement.since_s == 0 => {
                status_of(row).filter(|c| c.status == Status::True).map_or(0, |condition| condition.since_s)
            }
            _ => evidence_since_s(row, judgement),
        };
        moment(since_s)
    }

    fn tags(&self, id: RowId, row: &Row) -> Vec<Tag> {
        let mut tags = tags(row);
        tags.extend(self.age_tag(id, row));
        // Beside a fault, that something is slow is not worth a word.
        let may_be_slow = row.kind == Kind::Machine && self.own_verdict(id) == Verdict::Progressing;
        if may_be_slow && self.judgement(id).is_some_and(|judgement| judgement.slow.is_some()) {
            tags.push(Tag::Slow);
        }
        if self.is_held(id, row) {
            tags.push(Tag::Held);
        }
        if self.certificates_end(id, row) {
            tags.push(Tag::CertificatesEnd);
        }
        if self.index.is_flapping(id) {
            tags.push(Tag::Flapping);
        }
        if row.kind == Kind::Cluster && !row.is_deleting() {
            let end = self.support_end(id);
            tags.extend(end.map(|end| if end.has_ended { Tag::SupportEnded } else { Tag::SupportEnds }));
        }
        tags.extend(self.mark(id).map(|mark| if mark.is_shelf() { Tag::Shelved } else { Tag::Acknowledged }));
        tags.sort_unstable();
        tags
    }

    /// The first end of support among the versions that the object runs or asks for, where it has come or is near.
    pub fn support_end(&self, id: RowId) -> Option<SupportEnd> {
        let now = moment(self.now_s())?;
        let versions = self.versions(id);
        let ends = versions.iter().filter_map(|v| SupportEnd::of(Project::Kubernetes, &v.version, now));
        ends.min_by_key(|end| end.minor)
    }

    /// The end of support of the Cluster API that looks after a source's clusters, where it has come or is near.
    pub fn manager_support_end(&self, source: SourceId) -> Option<SupportEnd> {
        SupportEnd::of(Project::ClusterApi, self.cluster_api(source)?, moment(self.now_s())?)
    }

    /// The version of Cluster API that looks after the clusters of a source, where that is known.
    pub fn cluster_api(&self, source: SourceId) -> Option<&str> {
        self.source(source)?.cluster_api.as_deref()
    }

    /// Of a control plane those of its Machines.
    fn certificates_end(&self, id: RowId, row: &Row) -> bool {
        let now_s = self.now_s();
        let mut machines = self.owned_by(id).iter().filter_map(|id| self.row(*id));
        are_ending(row, now_s)
            || (row.kind == Kind::ControlPlane && machines.any(|row| are_ending(row, now_s)))
    }

    /// What the object is in a rollout, where its own conditions do not say.
    fn age_tag(&self, id: RowId, row: &Row) -> Option<Tag> {
        let counters = |row: &Row| row.counters();
        match row.kind {
            Kind::ControlPlane | Kind::MachineDeployment => {
                // More than wanted is also what a scale-down begins with.
                let is_rolling = row.condition("RollingOut").is_some_and(|c| c.status == Status::True);
                let counters = counters(row).filter(|_| is_rolling && !row.is_deleting())?;
                (counters.current? > counters.desired?).then_some(Tag::Surging)
            }
            Kind::MachineSet if self.is_old_set(id) => Some(Tag::OutOfDate),
            Kind::MachineSet => {
                let siblings = self.owned_by(self.owner_of(id)?);
                let is_new =
                    !self.owned_by(id).is_empty() && siblings.iter().any(|set| self.is_old_set(*set));
                is_new.then_some(Tag::New)
            }
            Kind::Machine => {
                let owner = self.owner_of(id).and_then(|owner| self.row(owner));
                let counters =
                    owner.filter(|owner| owner.kind == Kind::ControlPlane).and_then(|o| counters(o))?;
                let is_current = row.condition("UpToDate").is_some_and(|c| c.status == Status::True);
                (is_current && counters.up_to_date? < counters.current?).then_some(Tag::New)
            }
            _ => None,
        }
    }

    /// Machines of one set are alike: the first one speaks for all, but for those that are changed in place to become so.
    fn is_old_set(&self, id: RowId) -> bool {
        let machines = self.owned_by(id).iter().filter_map(|id| self.row(*id));
        let said = machines.filter_map(|row| row.condition("UpToDate"));
        let mut settled = said.filter(|c| c.status != Status::False || c.reason.as_ref() != UPDATING);
        settled.next().is_some_and(|c| c.status == Status::False)
    }

    /// The version that a cluster's topology or its control plane asks for.
    pub fn wanted_version(&self, cluster: RowId) -> Option<Arc<str>> {
        let own = self.row(cluster).map(|row| row.version.clone()).filter(|version| !version.is_empty());
        own.or_else(|| self.control_plane_version(cluster))
    }

    /// Does something wait that a person holds back?
    fn is_held(&self, id: RowId, row: &Row) -> bool {
        let waits = || match row.kind {
            Kind::Cluster => self.members(id, Kind::MachineDeployment).iter().any(|deployment| {
                self.row(*deployment).is_some_and(|row| self.index.is_held(row) && pending(row) > 0)
            }),
            Kind::MachineDeployment | Kind::Machine => pending(row) > 0,
            _ => false,
        };
        let is_deferred = |c: &Condition| c.status == Status::False && c.reason.ends_with("UpgradeDeferred");
        row.condition("TopologyReconciled").is_some_and(is_deferred) || (self.index.is_held(row) && waits())
    }

    /// The versions that run in a cluster or under a set, with how many replicas each; by version.
    /// One entry without a count when only the wanted version is known.
    pub fn versions(&self, id: RowId) -> Vec<VersionCount> {
        let Some(row) = self.row(id) else { return Vec::new() };
        let (first, second): (&[VersionCount], &[VersionCount]) = match &row.facts {
            Facts::Cluster(c) => (&c.control_plane_versions, &c.worker_versions),
            Facts::Replicas(r) => (&r.versions, &[]),
            Facts::Machine(_) | Facts::HealthCheck(_) | Facts::Host(_) | Facts::Other => (&[], &[]),
        };
        let mut all: Vec<VersionCount> = Vec::new();
        for v in first.iter().chain(second) {
            match all.iter_mut().find(|known| known.version == v.version) {
                Some(known) => known.replicas += v.replicas,
                None => all.push(v.clone()),
            }
        }
        if all.is_empty() {
            all.extend(self.wanted_version(id).map(|version| VersionCount { version, replicas: 0 }));
        }
        all.sort_by(|a, b| by_version(&a.version, &b.version));
        all
    }

    fn control_plane_version(&self, cluster: RowId) -> Option<Arc<str>> {
        let plane = self.members(cluster, Kind::ControlPlane).first()?;
        self.row(*plane).map(|row| row.version.clone()).filter(|version| !version.is_empty())
    }
}

fn blank<'a>(item: Item, verdict: Verdict) -> Line<'a> {
    Line {
        item,
        kind: "",
        namespace: "",
        name: "",
        verdict,
        counters: None,
        control_plane: None,
        workers: None,
        version: "",
        phase: "",
        node: "",
        failure_domain: "",
        created: None,
        status: None,
        tags: Vec::new(),
    }
}

fn status_of(row: &Row) -> Option<&Condition> {
    match row.kind {
        Kind::Other if row.host_use().is_some() => row.condition(REACHABLE),
        Kind::Machine | Kind::Other => row.condition("Ready"),
        _ => row.condition("Available").or_else(|| row.condition("Ready")),
    }
}

fn is_protected(row: &Row) -> bool {
    row.labels.get(label::PROTECTED).is_some_and(|value| value != "false")
}

fn tags(row: &Row) -> Vec<Tag> {
    let is = |type_: &str, status| row.condition(type_).is_some_and(|c| c.status == status);
    let is_paused = row.paused || is("Paused", Status::True);
    [
        (Tag::Deleting, row.is_deleting()),
        (Tag::Paused, is_paused),
        (Tag::Remediating, is("Remediating", Status::True) || is("OwnerRemediated", Status::False)),
        (Tag::Updating, is("Updating", Status::True)),
        (Tag::RollingOut, is("RollingOut", Status::True)),
        (Tag::ScalingUp, is("ScalingUp", Status::True)),
        (Tag::ScalingDown, is("ScalingDown", Status::True)),
        (Tag::OutOfDate, is("UpToDate", Status::False)),
        // Under a pause no controller looks at a new generation.
        (Tag::Behind, row.status_is_behind() && !is_paused),
        (Tag::Legacy, row.legacy),
        (Tag::Protected, row.kind == Kind::Cluster && is_protected(row)),
    ]
    .into_iter()
    .filter_map(|(tag, applies)| applies.then_some(tag))
    .collect()
}
