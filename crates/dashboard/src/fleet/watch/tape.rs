//! What the watches of a server brought, with moments, as lines of JSON. Owns the form of these lines; must not know who
//! reads the server, nor how the past is shown.
//!
//! Each line stands for itself, so that a file whose writer was killed is good up to its last whole line.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::fleet::FeedState;

/// The form that is written, and read.
pub const VERSION: u32 = 1;

/// One line. Moments are milliseconds since the epoch.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TapeLine {
    /// The first one: of which form, and of what.
    Recording { version: u32, source: String, at: i64 },
    /// How the watch of a kind is.
    Feed(FeedLine),
    /// An object is like this now.
    Put { at: i64, object: Box<RawValue> },
    /// The object with this uid does not exist any more.
    #[serde(rename_all = "camelCase")]
    Gone { at: i64, uid: String },
    /// A list of a kind is complete, and has these.
    Listed { at: i64, group: String, kind: String, uids: Vec<String> },
    /// Which Cluster API looks after the clusters.
    #[serde(rename_all = "camelCase")]
    ClusterApi { at: i64, version: String },
    /// Nothing follows, and why.
    End { at: i64, why: String },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FeedLine {
    pub at: i64,
    pub group: String,
    pub kind: String,
    /// Clusters name the kind as their control plane.
    #[serde(default, skip_serializing_if = "is_false")]
    pub control_plane: bool,
    pub state: FeedWord,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FeedWord {
    Connecting,
    Listing,
    Live,
    NoAccess,
    NotServed,
    Silent,
    Lost,
}

fn is_false(value: &bool) -> bool {
    !*value
}

impl FeedWord {
    /// A state of a feed as a word, and its error.
    pub fn of(state: &FeedState) -> (Self, String) {
        match state {
            FeedState::Connecting => (Self::Connecting, String::new()),
            FeedState::Listing => (Self::Listing, String::new()),
            FeedState::Live | FeedState::Recorded => (Self::Live, String::new()),
            FeedState::NoAccess { error } => (Self::NoAccess, error.to_string()),
            FeedState::NotServed { error } => (Self::NotServed, error.to_string()),
            FeedState::Silent { error } => (Self::Silent, error.to_string()),
            FeedState::Lost { error } => (Self::Lost, error.to_string()),
        }
    }

    pub fn state(self, error: &str) -> FeedState {
        let error = capstan_base::text::sanitize_line(error).into();
        match self {
            Self::Connecting => FeedState::Connecting,
            Self::Listing => FeedState::Listing,
            Self::Live => FeedState::Live,
            Self::NoAccess => FeedState::NoAccess { error },
            Self::NotServed => FeedState::NotServed { error },
            Self::Silent => FeedState::Silent { error },
            Self::Lost => FeedState::Lost { error },
        }
    }
}

impl TapeLine {
    /// When it came, milliseconds since the epoch.
    pub fn at(&self) -> i64 {
        match self {
            Self::Feed(feed) => feed.at,
            Self::Recording { at, .. }
            | Self::Put { at, .. }
            | Self::Gone { at, .. }
            | Self::Listed { at, .. }
            | Self::ClusterApi { at, .. }
            | Self::End { at, .. } => *at,
        }
    }

    /// As a line of a file.
    pub fn text(&self) -> String {
        // Text, numbers and JSON can always be written.
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }
}
