//! What one look at an etcd found: each member's own answer, alarms, and the Machines that should host members.
//! Must not judge it. What a server does not state is `None`, never zero.

use serde::Serialize;

/// One look at an etcd. A part that failed does not hide the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// One for each address or Node that was asked.
    pub answers: Vec<Asked>,
    /// Of the whole etcd, from one member; etcd answers this only with a quorum.
    pub alarms: Option<Result<Vec<Alarm>, Trouble>>,
    /// The Machines of the control plane; `None` when there is no cluster to compare with.
    pub hosts: Option<Vec<Host>>,
}

/// A member that was asked, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The address, or the Node whose pod was asked.
    pub from: String,
    /// The name that the member there must have, which is its Node's; `None` for an address.
    pub node: Option<String>,
    /// Its answer, or why there is none.
    pub outcome: Result<MemberStatus, Trouble>,
}

/// A member's own answer: its status, and its own view of the members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// Of the whole etcd; two of them among the answers are two etcds.
    pub cluster_id: u64,
    /// Its own id.
    pub member_id: u64,
    /// Empty when the server does not state it.
    pub version: String,
    /// `None` when it sees no leader.
    pub leader: Option<u64>,
    /// It gets the log and has no vote.
    pub is_learner: bool,
    /// `None` where the server does not state it.
    pub raft: Option<Raft>,
    /// `None` where the server does not state it.
    pub database: Option<Database>,
    /// For people; alarms are the interface for programs.
    pub errors: Vec<String>,
    /// How long the answer took; `None` where nothing was sent.
    pub took_ms: Option<u64>,
    /// A learner lists nothing.
    pub list: Result<Vec<Listed>, Trouble>,
}

/// How far a member is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Raft {
    /// Grows with each election.
    pub term: u64,
    /// The last entry that it received.
    pub index: u64,
    /// The last entry that it applied.
    pub applied: u64,
}

/// The database file of a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Database {
    /// The file, with what deletions left free in it.
    pub size_bytes: u64,
    /// Without what is free in the file.
    pub in_use_bytes: u64,
    /// Stated by etcd 3.6 and newer.
    pub quota_bytes: Option<u64>,
}

/// A member as a member list shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    /// As etcd numbers it.
    pub id: u64,
    /// Empty until the member has started.
    pub name: String,
    /// It gets the log and has no vote.
    pub is_learner: bool,
    /// Where the other members reach it.
    pub peer_urls: Vec<String>,
    /// Where clients reach it.
    pub client_urls: Vec<String>,
}

/// An alarm that a member raised: `NOSPACE` or `CORRUPT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alarm {
    /// Id of the member.
    pub member: u64,
    /// In etcd's word.
    pub kind: String,
}

/// A control plane Machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Name of the Machine.
    pub machine: String,
    /// The member's name; `None` while the Machine has no Node.
    pub node: Option<String>,
    /// It is on its way out.
    pub is_deleting: bool,
    /// Its Node is so young that the member may still be joining.
    pub is_joining: bool,
}

/// Why a member gave no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// What to do next depends on this.
    pub class: Class,
    /// In the words of the layer that failed.
    pub text: String,
}

/// What kind of failure it is: each leads to another next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Class {
    /// Nothing listens there.
    Refused,
    /// The way through the workload cluster's API failed before any member was reached.
    ForwardFailed,
    /// Its certificate is not signed by the authority that was given.
    ServerUntrusted,
    /// Its certificate is for another name.
    ServerName,
    /// Its certificate has ended, or has not begun.
    ServerExpired,
    /// It closes the connection after the handshake, as it does with a certificate that it does not accept.
    ClientRejected,
    /// Nothing is heard of its Node.
    NodeUnreachable,
    /// No answer in time.
    TimedOut,
    /// It answers, but what was asked needs a quorum, and there is none.
    NoQuorum,
    /// A learner does not answer this.
    Learner,
    /// It asks for the leader, and this member does not lead.
    NotLeader,
    /// The database is full.
    NoSpace,
    /// It answered with another error.
    Answered,
    /// The connection broke, or the address cannot be used.
    Lost,
}

impl Class {
    /// In a few words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Refused => "connection refused",
            Self::ForwardFailed => "port-forward failed",
            Self::ServerUntrusted => "its certificate is not trusted",
            Self::ServerName => "its certificate is for another name",
            Self::ServerExpired => "its certificate has expired",
            Self::ClientRejected => "it does not accept the client certificate",
            Self::NodeUnreachable => "node unreachable",
            Self::TimedOut => "no answer in time",
            Self::NoQuorum => "no quorum",
            Self::Learner => "it is a learner",
            Self::NotLeader => "it is not the leader",
            Self::NoSpace => "its database is full",
            Self::Answered => "it answered with an error",
            Self::Lost => "connection lost",
        }
    }
}
