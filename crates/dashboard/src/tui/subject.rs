//! What can be read for a screen besides the fleet, and how a screen says what it wants. Owns the names of the subjects; must not
//! know what is read of them, nor when.

use crate::actions::{Right, Tried};
use crate::fleet::{Fleet, Kind, RowId, SourceId, Target, Uid};
use crate::operations::LockPlace;
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

/// Whose locks are on the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockSubject {
    pub source: SourceId,
    pub place: LockPlace,
}

/// Something that is read for a screen.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    /// An object in full.
    Object(Target),
    /// Its events: those of a busy namespace are many, so they are read only where they are shown.
    Events(Target),
    Plans(PlannedCluster),
    /// What this user may do.
    Rights {
        source: SourceId,
        rights: Vec<Right>,
    },
    /// The members of a cluster's etcd.
    Etcd(PlannedCluster),
    Locks(LockSubject),
    /// What a cluster stores of its kubeadm configuration, and what runs of it.
    Configuration(PlannedCluster),
    /// A cluster run ahead, as it is and with what is tried.
    Simulation {
        cluster: PlannedCluster,
        tried: Tried,
    },
}

/// A subject without whose it is. Of each kind one subject is read at a time: a screen shows one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SubjectKind {
    Object,
    Events,
    Plans,
    Rights,
    Etcd,
    Locks,
    Configuration,
    Simulation,
}

impl SubjectKind {
    /// There are answers for as long as it is read: it is followed.
    pub fn is_followed(self) -> bool {
        match self {
            Self::Object | Self::Events | Self::Locks => true,
            Self::Plans | Self::Rights | Self::Etcd | Self::Configuration | Self::Simulation => false,
        }
    }

    /// Nothing of it is read once no open screen wants it. What is read again and again would never end by itself; what
    /// is read once may, and its answer is kept.
    pub fn ends_with_its_screen(self) -> bool {
        match self {
            Self::Object | Self::Events | Self::Locks | Self::Etcd | Self::Configuration => true,
            Self::Plans | Self::Rights | Self::Simulation => false,
        }
    }
}

impl Subject {
    pub fn kind(&self) -> SubjectKind {
        match self {
            Self::Object(_) => SubjectKind::Object,
            Self::Events(_) => SubjectKind::Events,
            Self::Plans(_) => SubjectKind::Plans,
            Self::Rights { .. } => SubjectKind::Rights,
            Self::Etcd(_) => SubjectKind::Etcd,
            Self::Locks(_) => SubjectKind::Locks,
            Self::Configuration(_) => SubjectKind::Configuration,
            Self::Simulation { .. } => SubjectKind::Simulation,
        }
    }

    /// Where it is read.
    pub fn source(&self) -> SourceId {
        match self {
            Self::Object(target) | Self::Events(target) => target.source,
            Self::Plans(cluster)
            | Self::Etcd(cluster)
            | Self::Configuration(cluster)
            | Self::Simulation { cluster, .. } => cluster.source,
            Self::Rights { source, .. } => *source,
            Self::Locks(subject) => subject.source,
        }
    }
}

/// A subject that is to be read now.
#[derive(Clone, Debug, PartialEq)]
pub struct Want {
    pub subject: Subject,
    /// Another number than before: what is under way is of no use any more and begins anew.
    pub version: u64,
    /// How long to rest first, milliseconds.
    pub wait_ms: u64,
}

impl Want {
    /// At once.
    pub fn now(subject: Subject) -> Self {
        Self::after(subject, 0)
    }

    pub fn after(subject: Subject, wait_ms: u64) -> Self {
        Self { subject, version: 0, wait_ms }
    }
}
