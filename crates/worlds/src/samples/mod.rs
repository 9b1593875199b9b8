//! The starting fleets: that of `capstan demo`, and those of `--sample NAME`. Owns what they contain and what
//! happens to them later; must not know how objects reach a server.

pub mod aged;
mod lagoon;
mod living;
mod manifest;
mod reef;
pub mod synthetic;

use std::time::Duration;

use serde_json::Value;

use capi_types::key::{Gvk, ObjectKey};
use capstan_base::time::Timestamp;

pub use living::{IN_PLACE_CLUSTER, Living};
use synthetic::Synthetic;

/// A name that does not stand for a sample, or a specification that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SampleError {
    #[error("no sample is named `{name}`; known are {}", known())]
    Unknown { name: String },
    #[error("`synthetic:{text}`: {problem}; an example is `synthetic:clusters=20,machines=5000`")]
    Synthetic { text: String, problem: String },
}

/// A name and one line about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: &'static str,
    pub summary: &'static str,
    living: Living,
}

/// A change that a person makes to a running fleet.
#[derive(Clone, Debug, PartialEq)]
pub struct Edit {
    /// Since the objects were created, in the time that simulated machines live in.
    pub after: Duration,
    pub gvk: Gvk,
    pub key: ObjectKey,
    /// A JSON merge patch.
    pub patch: Value,
}

/// A stretch of a fleet's past.
#[derive(Clone, Debug, PartialEq)]
pub struct Chapter {
    /// How long before now it begins.
    pub ago: Duration,
    /// How long it is lived through. Between its end and the next chapter nothing happens.
    pub lasts: Duration,
    /// Created at its beginning, owners before what they own.
    pub objects: Vec<Value>,
    /// Their `after` counts from its beginning.
    pub edits: Vec<Edit>,
}

const NAMES: &[Entry] = &[
    Entry { name: "demo", summary: "the five next ones together, from their creation", living: Living::Demo },
    Entry {
        name: "healthy-ha",
        summary: "three control plane machines, two machine deployments, nothing wrong",
        living: Living::HealthyHa,
    },
    Entry { name: "rolling", summary: "comes up, then moves to a newer version", living: Living::Rolling },
    Entry {
        name: "broken",
        summary: "a template that does not exist, and machines that never become nodes",
        living: Living::Broken,
    },
    Entry {
        name: "creating",
        summary: "slow machines: still coming up for minutes",
        living: Living::Creating,
    },
    Entry {
        name: "draining",
        summary: "comes up, then loses a machine whose pods leave slowly",
        living: Living::Draining,
    },
    Entry {
        name: "in-place",
        summary: "comes up, then moves to a newer version on the same machines, given an extension that updates them",
        living: Living::InPlace,
    },
    Entry {
        name: "kubeadm",
        summary: "stand-alone control plane machines that kubeadm made, with an API and hosts to try `change` on",
        living: Living::Kubeadm,
    },
    Entry {
        name: "leader-migration",
        summary: "an old release with its cloud provider in kube-controller-manager, to try `leader-migration` on",
        living: Living::LeaderMigration,
    },
];

/// A starting fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sample {
    /// Manifests without status, for an engine to make true.
    Living(Living),
    /// Objects with status, made up as a whole: no engine should touch them, and a server must take
    /// their uids and creation times as they are.
    Synthetic(Synthetic),
}

impl Sample {
    /// Reads a name, or `synthetic:clusters=C,machines=M[,seed=N]`.
    pub fn parse(name: &str) -> Result<Self, SampleError> {
        if let Some(text) = name.strip_prefix("synthetic:") {
            return Synthetic::parse(text).map(Self::Synthetic);
        }
        let entry = NAMES.iter().find(|entry| entry.name == name);
        entry
            .map(|entry| Self::Living(entry.living))
            .ok_or_else(|| SampleError::Unknown { name: name.to_owned() })
    }

    /// The objects to create, owners before what they own. `now` matters to fleets with a past.
    pub fn objects(self, now: Timestamp) -> Box<dyn Iterator<Item = Value> + Send> {
        match self {
            Self::Living(living) => Box::new(living.objects().into_iter()),
            Self::Synthetic(synthetic) => Box::new(synthetic.objects(now)),
        }
    }

    /// What happens later, earliest first. Empty for most samples.
    pub fn edits(self) -> Vec<Edit> {
        match self {
            Self::Living(living) => living.edits(),
            Self::Synthetic(_) => Vec::new(),
        }
    }
}

/// Every sample with a fixed name.
pub fn names() -> &'static [Entry] {
    NAMES
}

fn known() -> String {
    let mut names: Vec<_> = NAMES.iter().map(|entry| entry.name).collect();
    names.push("synthetic:clusters=C,machines=M");
    names.join(", ")
}
