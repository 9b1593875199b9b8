//! What comes next for a run. Owns the rules of what is repeated, waited for, taken back or left to a person; pure, and total: every
//! state has a way on. Must not know how anything of it is carried out.
//!
//! `kubeadm init` and `kubeadm join` are never begun a second time over what a first one left: a step of theirs that did not end is
//! either counted as a success, by what it made, or taken back by a reset first.

use serde::Serialize;

use super::Start;
use super::options::{KubeadmStep, KubeadmVerb};
use super::plan::RunPlan;
use super::watch::{Journal, Watched};

/// After so many resets a person looks at it.
const RESETS_MAX: u32 = 3;

/// The Node of this machine, by its provider id or its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeSeen {
    Unknown,
    Absent,
    NotReady,
    Ready,
}

/// This machine in the etcd of its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberSeen {
    Unknown,
    NotAMember,
    /// Its peer address is in the list, and it never answered: it has no name.
    AddedNotStarted,
    Started,
}

/// What is known of a run.
#[derive(Clone, Debug)]
pub struct ObservedRun<'o> {
    /// Of the newest bootstrap data.
    pub plan: &'o RunPlan,
    pub watched: &'o Watched,
    pub is_control_plane: bool,
    pub node: NodeSeen,
    pub member: MemberSeen,
    /// Somebody may live in the cluster that this run begins: its control plane counts as initialised, or another machine joined.
    /// `None`: not known.
    pub is_cluster_initialized: Option<bool>,
    /// The proof after the last reset; `None`: not made.
    pub is_clean: Option<bool>,
    /// The newest log says that the token has expired.
    pub has_token_expired: bool,
}

/// Why a run is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum StartReason {
    Begin,
    /// It died in the same boot: what had ended is not done again.
    Died,
    /// It died with its machine before kubeadm: all of it again, as what was on `/run` is gone.
    Rebooted,
    /// It died after kubeadm had done its work.
    KubeadmHadEnded,
    AfterReset,
}

/// Why what was done is taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ResetReason {
    /// kubeadm did not end, and the machine did not become a node.
    KubeadmDied,
    TokenExpired,
    /// The bootstrap data is another than that which has begun.
    OtherData,
}

/// Why a person decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum AskReason {
    /// `kubeadm init` died, and the cluster may be in use: a reset would destroy it.
    ClusterMayLive,
    TooManyResets,
    NotClean,
}

/// What has to be read before anything can be decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum UnknownFact {
    Node,
    Member,
    Cluster,
    Proof,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunNext {
    Upload,
    Start {
        start: Start,
        why: StartReason,
    },
    Wait {
        step: u32,
    },
    Done,
    /// From etcd, by whoever can: it is no longer this machine's.
    RemoveMember,
    Reset {
        why: ResetReason,
    },
    /// Another token is needed.
    RenewData,
    /// It ended so, and is not tried again.
    Failed {
        step: u32,
        code: i32,
    },
    AskPerson {
        why: AskReason,
    },
    FindOut {
        what: UnknownFact,
    },
}

pub fn decide(observed: &ObservedRun<'_>) -> RunNext {
    let Some(journal) = &observed.watched.journal else { return RunNext::Upload };
    if journal.is_finished && !journal.was_reset {
        return RunNext::Done;
    }
    if observed.watched.is_unit_active {
        return RunNext::Wait { step: journal.next() };
    }
    if journal.attempt == 0 || journal.was_reset {
        return of_unused_machine(observed, journal);
    }
    if let Some((step, code)) = journal.failed() {
        let is_of_kubeadm = observed.plan.kubeadm.is_some_and(|kubeadm| kubeadm.number == step);
        return match is_of_kubeadm && observed.has_token_expired {
            true => taken_back(observed, journal, ResetReason::TokenExpired),
            false => RunNext::Failed { step, code },
        };
    }
    if journal.digest != observed.plan.digest {
        return of_other_data(observed, journal);
    }
    of_dead_run(observed, journal)
}

/// Nothing is there but what may have been uploaded.
fn of_unused_machine(observed: &ObservedRun<'_>, journal: &Journal) -> RunNext {
    if journal.was_reset {
        match observed.is_clean {
            None => return RunNext::FindOut { what: UnknownFact::Proof },
            Some(false) => return RunNext::AskPerson { why: AskReason::NotClean },
            Some(true) => {}
        }
    }
    if journal.digest != observed.plan.digest {
        return RunNext::Upload;
    }
    if journal.was_reset && observed.has_token_expired {
        return RunNext::RenewData;
    }
    let why = if journal.was_reset { StartReason::AfterReset } else { StartReason::Begin };
    RunNext::Start { start: again(journal, 1), why }
}

fn again(journal: &Journal, from_step: u32) -> Start {
    Start { attempt: journal.attempt.saturating_add(1), from_step }
}

/// What has begun is of older data: where kubeadm may have made a node of it, that is left as it is.
fn of_other_data(observed: &ObservedRun<'_>, journal: &Journal) -> RunNext {
    match observed.watched.traces.has_kubelet_configuration {
        true => of_dead_run(observed, journal),
        false => taken_back(observed, journal, ResetReason::OtherData),
    }
}

/// No unit runs, and the journal has no end.
fn of_dead_run(observed: &ObservedRun<'_>, journal: &Journal) -> RunNext {
    let next = journal.next();
    let is_same_boot = journal.boot_id == observed.watched.boot_id;
    match observed.plan.kubeadm {
        Some(kubeadm) if journal.open() == Some(kubeadm.number) => {
            of_dead_kubeadm(observed, journal, kubeadm)
        }
        Some(kubeadm) if next > kubeadm.number => started(journal, next, StartReason::KubeadmHadEnded),
        _ if is_same_boot => started(journal, next, StartReason::Died),
        _ => started(journal, 1, StartReason::Rebooted),
    }
}

fn started(journal: &Journal, from_step: u32, why: StartReason) -> RunNext {
    RunNext::Start { start: again(journal, from_step), why }
}

/// kubeadm began, and nobody knows how it ended.
fn of_dead_kubeadm(observed: &ObservedRun<'_>, journal: &Journal, kubeadm: KubeadmStep) -> RunNext {
    let ended = started(journal, kubeadm.number.saturating_add(1), StartReason::KubeadmHadEnded);
    let is_same_boot = journal.boot_id == observed.watched.boot_id;
    // It is written behind kubeadm's success only, and kept until the next boot.
    if is_same_boot && observed.watched.traces.has_sentinel {
        return ended;
    }
    if !observed.watched.traces.has_kubelet_configuration {
        return not_a_node(observed, journal);
    }
    match (kubeadm.verb, observed.is_control_plane) {
        (KubeadmVerb::Init, _) => of_dead_init(observed, journal),
        (KubeadmVerb::Join, true) => of_dead_control_plane(observed, journal, ended),
        // A worker's join ends with the kubelet's own certificate: a Node is there, ready or not yet.
        (KubeadmVerb::Join, false) => match observed.node {
            NodeSeen::Unknown => RunNext::FindOut { what: UnknownFact::Node },
            NodeSeen::Ready | NodeSeen::NotReady => ended,
            NodeSeen::Absent => taken_back(observed, journal, ResetReason::KubeadmDied),
        },
    }
}

/// Its last phases make what others join with: without its sign of success the cluster is not whole.
fn of_dead_init(observed: &ObservedRun<'_>, journal: &Journal) -> RunNext {
    match observed.is_cluster_initialized {
        None => RunNext::FindOut { what: UnknownFact::Cluster },
        Some(true) => RunNext::AskPerson { why: AskReason::ClusterMayLive },
        Some(false) => taken_back(observed, journal, ResetReason::KubeadmDied),
    }
}

/// It joins etcd after its kubelet, and writes the API server's manifest around that.
fn of_dead_control_plane(observed: &ObservedRun<'_>, journal: &Journal, ended: RunNext) -> RunNext {
    let has_manifest = observed.watched.traces.has_api_server_manifest;
    match (observed.member, observed.node) {
        (MemberSeen::Unknown, _) => RunNext::FindOut { what: UnknownFact::Member },
        (_, NodeSeen::Unknown) => RunNext::FindOut { what: UnknownFact::Node },
        (MemberSeen::Started, NodeSeen::Ready) if has_manifest => ended,
        _ => not_a_node(observed, journal),
    }
}

/// An etcd member of a machine that is reset would take part of the quorum with it.
fn not_a_node(observed: &ObservedRun<'_>, journal: &Journal) -> RunNext {
    let is_joining = observed.plan.kubeadm.is_some_and(|kubeadm| kubeadm.verb == KubeadmVerb::Join);
    match observed.member {
        MemberSeen::Unknown if is_joining && observed.is_control_plane => {
            RunNext::FindOut { what: UnknownFact::Member }
        }
        MemberSeen::AddedNotStarted | MemberSeen::Started if is_joining => RunNext::RemoveMember,
        _ => taken_back(observed, journal, ResetReason::KubeadmDied),
    }
}

fn taken_back(observed: &ObservedRun<'_>, journal: &Journal, why: ResetReason) -> RunNext {
    let is_joining = observed.plan.kubeadm.is_some_and(|kubeadm| kubeadm.verb == KubeadmVerb::Join);
    let is_member = matches!(observed.member, MemberSeen::AddedNotStarted | MemberSeen::Started);
    match journal.resets >= RESETS_MAX {
        true => RunNext::AskPerson { why: AskReason::TooManyResets },
        false if is_joining && is_member => RunNext::RemoveMember,
        false => RunNext::Reset { why },
    }
}

/// What comes next for a reset. Each of its steps can be done again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetNext {
    Upload,
    Start(Start),
    Wait {
        step: u32,
    },
    /// Now the proof.
    Ended,
}

pub fn decide_reset(plan: &RunPlan, watched: &Watched) -> ResetNext {
    let Some(journal) = &watched.journal else { return ResetNext::Upload };
    if watched.is_unit_active {
        return ResetNext::Wait { step: journal.next() };
    }
    // Its steps go on after a failure, so its end is the end: whether it helped is the proof's to say.
    if journal.is_finished {
        return ResetNext::Ended;
    }
    if journal.digest != plan.digest && journal.attempt == 0 {
        return ResetNext::Upload;
    }
    let from_step = if journal.attempt == 0 { 1 } else { journal.next().min(plan.end()) };
    ResetNext::Start(again(journal, from_step))
}
