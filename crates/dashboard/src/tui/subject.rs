//! What a screen can ask to be read besides the fleet: an object, its events, plans, rights, and so on. Owns the list of these
//! subjects; must not know who reads them, nor when.

use crate::actions::{Right, Tried};
use crate::fleet::{Fleet, Kind, RowId, SourceId, Target, Uid};
use crate::operations::{LockPlace, LogPlace, ObjectQuery};
use capi_types::key::ObjectKey;

/// The lists of a larger cluster are too long to be read for a line under its tree.
const MACHINES_MAX: usize = 1_000;

/// A Cluster of which something is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedCluster {
    pub source: SourceId,
    pub uid: Uid,
    pub key: ObjectKey,
}

impl PlannedCluster {
    pub fn of(fleet: &Fleet, cluster: RowId) -> Option<Self> {
        let row = fleet.row(cluster)?;
        Some(Self { source: row.source, uid: row.uid, key: row.key() })
    }

    /// The same, but for a cluster that is too large to be read unasked.
    pub fn unless_large(fleet: &Fleet, cluster: RowId) -> Option<Self> {
        let is_large = fleet.members(cluster, Kind::Machine).len() > MACHINES_MAX;
        if is_large { None } else { Self::of(fleet, cluster) }
    }
}

/// The server and the place of the locks that are on the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockSubject {
    pub source: SourceId,
    pub place: LockPlace,
}

/// The server and the place of the logs that are on the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSubject {
    pub source: SourceId,
    pub place: LogPlace,
}

/// Objects of any kind that a server has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectsSubject {
    pub source: SourceId,
    pub query: ObjectQuery,
}

/// Something that is read for a screen.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    /// An object in full.
    Object(Target),
    /// The events of an object. A busy namespace has many, so they are read only where they are shown.
    Events(Target),
    /// Why a Machine is not as its owner wants it.
    Outdated(Target),
    Plans(PlannedCluster),
    /// What this user may do.
    Rights {
        source: SourceId,
        rights: Vec<Right>,
    },
    /// The members of a cluster's etcd.
    Etcd(PlannedCluster),
    Locks(LockSubject),
    Logs(LogSubject),
    Objects(ObjectsSubject),
    /// What a cluster stores of its kubeadm configuration, and what runs of it.
    Configuration(PlannedCluster),
    /// A cluster run ahead, as it is and with what is tried.
    Simulation {
        cluster: PlannedCluster,
        tried: Tried,
    },
}

/// The kind of a subject. One subject of each kind is read at a time, since a screen shows one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SubjectKind {
    Object,
    Events,
    Outdated,
    Plans,
    Rights,
    Etcd,
    Locks,
    Logs,
    Objects,
    Configuration,
    Simulation,
}

impl SubjectKind {
    /// Answers keep coming until the reading is stopped; otherwise there is one.
    pub fn is_followed(self) -> bool {
        match self {
            Self::Object | Self::Events | Self::Locks | Self::Logs => true,
            Self::Plans
            | Self::Outdated
            | Self::Rights
            | Self::Etcd
            | Self::Objects
            | Self::Configuration
            | Self::Simulation => false,
        }
    }

    /// The reading is stopped when no open screen wants the subject. The other subjects are read to the end, and the answer is
    /// kept.
    pub fn ends_with_its_screen(self) -> bool {
        match self {
            Self::Object
            | Self::Events
            | Self::Outdated
            | Self::Locks
            | Self::Logs
            | Self::Etcd
            | Self::Objects
            | Self::Configuration => true,
            Self::Plans | Self::Rights | Self::Simulation => false,
        }
    }
}

impl Subject {
    pub fn kind(&self) -> SubjectKind {
        match self {
            Self::Object(_) => SubjectKind::Object,
            Self::Events(_) => SubjectKind::Events,
            Self::Outdated(_) => SubjectKind::Outdated,
            Self::Plans(_) => SubjectKind::Plans,
            Self::Rights { .. } => SubjectKind::Rights,
            Self::Etcd(_) => SubjectKind::Etcd,
            Self::Locks(_) => SubjectKind::Locks,
            Self::Logs(_) => SubjectKind::Logs,
            Self::Objects(_) => SubjectKind::Objects,
            Self::Configuration(_) => SubjectKind::Configuration,
            Self::Simulation { .. } => SubjectKind::Simulation,
        }
    }

    /// The server that it is read from.
    pub fn source(&self) -> SourceId {
        match self {
            Self::Object(target) | Self::Events(target) | Self::Outdated(target) => target.source,
            Self::Plans(cluster)
            | Self::Etcd(cluster)
            | Self::Configuration(cluster)
            | Self::Simulation { cluster, .. } => cluster.source,
            Self::Rights { source, .. } => *source,
            Self::Locks(subject) => subject.source,
            Self::Logs(subject) => subject.source,
            Self::Objects(subject) => subject.source,
        }
    }
}

/// A subject that is to be read now.
#[derive(Clone, Debug, PartialEq)]
pub struct Want {
    pub subject: Subject,
    /// With another number than before, a reading that is under way is stopped and begins anew.
    pub version: u64,
    /// How long to rest first, milliseconds.
    pub wait_ms: u64,
}

impl Want {
    /// To be read without a rest.
    pub fn now(subject: Subject) -> Self {
        Self::after(subject, 0)
    }

    pub fn after(subject: Subject, wait_ms: u64) -> Self {
        Self { subject, version: 0, wait_ms }
    }
}
