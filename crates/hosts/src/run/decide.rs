//! What comes next for a run. Owns the rules of what is repeated, waited for, taken back or left to a person; pure, and total: every
//! state has a way on. Must not know how anything of it is carried out.
//!
//! `kubeadm init` and `kubeadm join` are never begun a second time over what a first one left: a step of theirs that did not end is
//! either counted as a success, by what it made, or taken back by a reset first.

use serde::Serialize;

use super::Start;
use super::options::{KubeadmStep, KubeadmVerb};
use super::plan::RunPlan;
use super::watch::{Journal, SeenKubeadm, Watched};

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
    /// The cluster that this run begins may be in use: its control plane counts as initialised, or another machine joined.
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
    /// The journal does not say with which step the attempt began, or which step is kubeadm's.
    JournalIncomplete,
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
    /// The caller removes this machine's member from etcd.
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
    let kubeadm = kubeadm_of(observed.plan, journal);
    if let Some((step, code)) = journal.failed() {
        let is_of_kubeadm = kubeadm.flatten().is_some_and(|kubeadm| kubeadm.number == step);
        return match is_of_kubeadm && observed.has_token_expired {
            true => {
                Dead { observed, journal, kubeadm: kubeadm.flatten() }.taken_back(ResetReason::TokenExpired)
            }
            false => RunNext::Failed { step, code },
        };
    }
    match kubeadm {
        // Step 1 would be a guess, and it may stand before a kubeadm that has ended.
        Some(kubeadm) if journal.from_step > 0 => Dead { observed, journal, kubeadm }.next(),
        _ => RunNext::AskPerson { why: AskReason::JournalIncomplete },
    }
}

/// Kubeadm's step in what was uploaded, as the journal counts: in the newest plan it may have another number. `None`: not known.
fn kubeadm_of(plan: &RunPlan, journal: &Journal) -> Option<Option<KubeadmStep>> {
    match journal.kubeadm {
        _ if journal.digest == plan.digest => Some(plan.kubeadm),
        SeenKubeadm::Step(step) => Some(Some(step)),
        SeenKubeadm::None => Some(None),
        SeenKubeadm::Unknown => None,
    }
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

fn started(journal: &Journal, from_step: u32, why: StartReason) -> RunNext {
    RunNext::Start { start: again(journal, from_step), why }
}

/// An attempt of which no unit runs, and whose journal has no end.
#[derive(Clone, Copy)]
struct Dead<'o> {
    observed: &'o ObservedRun<'o>,
    journal: &'o Journal,
    /// As the journal counts.
    kubeadm: Option<KubeadmStep>,
}

impl Dead<'_> {
    /// What has begun of older data is taken back; where kubeadm may have made a node of it, it goes on as it is.
    fn next(self) -> RunNext {
        let is_other = self.journal.digest != self.observed.plan.digest;
        match is_other && !self.observed.watched.traces.has_kubelet_configuration {
            true => self.taken_back(ResetReason::OtherData),
            false => self.gone_on(),
        }
    }

    fn is_same_boot(self) -> bool {
        self.journal.boot_id == self.observed.watched.boot_id
    }

    fn gone_on(self) -> RunNext {
        let next = self.journal.next();
        match self.kubeadm {
            Some(kubeadm) if self.journal.open() == Some(kubeadm.number) => self.of_kubeadm(kubeadm),
            Some(kubeadm) if next > kubeadm.number => {
                started(self.journal, next, StartReason::KubeadmHadEnded)
            }
            _ if self.is_same_boot() => started(self.journal, next, StartReason::Died),
            _ => started(self.journal, 1, StartReason::Rebooted),
        }
    }

    /// The kubeadm step began and has no recorded end.
    fn of_kubeadm(self, kubeadm: KubeadmStep) -> RunNext {
        let traces = self.observed.watched.traces;
        let ended = started(self.journal, kubeadm.number.saturating_add(1), StartReason::KubeadmHadEnded);
        // It is written behind kubeadm's success only, and kept until the next boot.
        if self.is_same_boot() && traces.has_sentinel {
            return ended;
        }
        if !traces.has_kubelet_configuration {
            return self.not_a_node();
        }
        match (kubeadm.verb, self.observed.is_control_plane) {
            (KubeadmVerb::Init, _) => self.of_init(),
            (KubeadmVerb::Join, true) => self.of_control_plane(ended),
            // A worker's join ends with the kubelet's own certificate: a Node is there, ready or not yet.
            (KubeadmVerb::Join, false) => match self.observed.node {
                NodeSeen::Unknown => RunNext::FindOut { what: UnknownFact::Node },
                NodeSeen::Ready | NodeSeen::NotReady => ended,
                NodeSeen::Absent => self.taken_back(ResetReason::KubeadmDied),
            },
        }
    }

    /// Its last phases make what others join with: without its sign of success the cluster is not whole.
    fn of_init(self) -> RunNext {
        match self.observed.is_cluster_initialized {
            None => RunNext::FindOut { what: UnknownFact::Cluster },
            Some(true) => RunNext::AskPerson { why: AskReason::ClusterMayLive },
            Some(false) => self.taken_back(ResetReason::KubeadmDied),
        }
    }

    /// It joins etcd after its kubelet, and writes the API server's manifest around that.
    fn of_control_plane(self, ended: RunNext) -> RunNext {
        let has_manifest = self.observed.watched.traces.has_api_server_manifest;
        match (self.observed.member, self.observed.node) {
            (MemberSeen::Unknown, _) => RunNext::FindOut { what: UnknownFact::Member },
            (_, NodeSeen::Unknown) => RunNext::FindOut { what: UnknownFact::Node },
            (MemberSeen::Started, NodeSeen::Ready) if has_manifest => ended,
            _ => self.not_a_node(),
        }
    }

    fn is_joining(self) -> bool {
        self.kubeadm.is_some_and(|kubeadm| kubeadm.verb == KubeadmVerb::Join)
    }

    /// An etcd member of a machine that is reset would take part of the quorum with it.
    fn not_a_node(self) -> RunNext {
        match self.observed.member {
            MemberSeen::Unknown if self.is_joining() && self.observed.is_control_plane => {
                RunNext::FindOut { what: UnknownFact::Member }
            }
            MemberSeen::AddedNotStarted | MemberSeen::Started if self.is_joining() => RunNext::RemoveMember,
            _ => self.taken_back(ResetReason::KubeadmDied),
        }
    }

    fn taken_back(self, why: ResetReason) -> RunNext {
        let is_member = matches!(self.observed.member, MemberSeen::AddedNotStarted | MemberSeen::Started);
        match self.journal.resets >= RESETS_MAX {
            true => RunNext::AskPerson { why: AskReason::TooManyResets },
            false if self.is_joining() && is_member => RunNext::RemoveMember,
            false => RunNext::Reset { why },
        }
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
