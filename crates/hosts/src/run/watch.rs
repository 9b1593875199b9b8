//! How far a run is, as its machine says it. Owns the reading of that answer; must not decide anything.

use capstan_base::text::{sanitize_block, sanitize_line};

use super::id::RunId;
use super::options::{KubeadmStep, KubeadmVerb};
use super::redactor::Redactor;
use crate::answer::Answered;
use crate::request::{AnswerError, ShellRequest, answered};
use capstan_base::command_line::CommandLine;

const PROGRAM: &str = concat!(include_str!("../held.sh"), include_str!("watch.sh"));
/// Of the log, for one answer.
const LOG_BYTES_MAX: u64 = 64 * 1024;
const END: &str = "\nend=yes\n";
/// In the place of a byte of the log: where its last part begins, with a whole line.
pub const LOG_END: u64 = u64::MAX;

/// How one step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepEnd {
    /// Of the command: 0 is success.
    pub code: i32,
    pub at_s: u64,
}

/// A step that began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenStep {
    pub number: u32,
    pub started_s: u64,
    /// `None`: it runs, or it died.
    pub end: Option<StepEnd>,
}

/// What the machine says of kubeadm's step in what was uploaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SeenKubeadm {
    /// It was uploaded by a capstan that did not write it down.
    #[default]
    Unknown,
    None,
    Step(KubeadmStep),
}

/// What the machine wrote down of the newest attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journal {
    /// Of the plan that was uploaded.
    pub digest: String,
    /// Of the same.
    pub kubeadm: SeenKubeadm,
    /// 0: nothing was started yet.
    pub attempt: u32,
    pub from_step: u32,
    pub boot_id: String,
    pub started_s: u64,
    pub steps: Vec<SeenStep>,
    /// The run ended with success, in this attempt or an earlier one.
    pub is_finished: bool,
    /// A reset took this attempt back.
    pub was_reset: bool,
    /// Attempts that were taken back.
    pub resets: u32,
}

impl Journal {
    /// The first step that ended badly.
    pub fn failed(&self) -> Option<(u32, i32)> {
        self.steps.iter().find_map(|step| Some((step.number, step.end?.code)).filter(|(_, code)| *code != 0))
    }

    /// The step that began and did not end.
    pub fn open(&self) -> Option<u32> {
        self.steps.iter().find(|step| step.end.is_none()).map(|step| step.number)
    }

    /// The step with which another attempt would go on: the one that did not end, or the one behind the last.
    pub fn next(&self) -> u32 {
        let last = self.steps.iter().map(|step| step.number).max();
        self.open().or(last.map(|last| last.saturating_add(1))).unwrap_or(self.from_step.max(1))
    }
}

/// Files that kubeadm makes on its way, in its order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KubeadmTraces {
    pub has_kubelet_configuration: bool,
    pub has_api_server_manifest: bool,
    /// The bootstrap contract's sign of success, which does not survive a reboot.
    pub has_sentinel: bool,
}

/// What was seen of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// `None`: nothing was uploaded.
    pub journal: Option<Journal>,
    pub is_unit_active: bool,
    /// Of the machine now.
    pub boot_id: String,
    pub traces: KubeadmTraces,
    /// From where it was asked for, harmless and without the secrets of the run.
    pub log: String,
    /// Where the next part begins.
    pub log_next: u64,
    pub log_bytes: u64,
    /// The last errors of the kubelet and of containerd, while the unit runs.
    pub component_lines: Vec<String>,
}

/// Asks for the run's progress, and for its log from byte `log_from`, or for the end of the log ([`LOG_END`]).
pub fn watch(id: &RunId, log_from: u64) -> ShellRequest {
    let from = if log_from == LOG_END { "end".to_owned() } else { log_from.to_string() };
    let words = [id.as_str(), &from, &LOG_BYTES_MAX.to_string()].map(str::to_owned);
    let [id, from, bytes] = words.each_ref().map(String::as_str);
    ShellRequest::reading(CommandLine::of("sh -c {} capstan {} {} {}", [PROGRAM, id, from, bytes]))
}

/// # Errors
/// There is no whole answer.
pub fn read_watch(stdout: &str, redactor: &Redactor) -> Result<Watched, AnswerError> {
    let answer = answered(stdout)?;
    let log = stdout.split_once(END).map_or("", |(_, log)| log);
    let has = |name: &str| answer.all("trace").iter().any(|trace| trace == name);
    Ok(Watched {
        journal: answer.one("ready").map(|digest| journal(&answer, digest)),
        is_unit_active: matches!(answer.one("unit"), Some("active" | "activating" | "deactivating")),
        boot_id: answer.one("boot_id").unwrap_or_default().to_owned(),
        traces: KubeadmTraces {
            has_kubelet_configuration: has("kubelet.conf"),
            has_api_server_manifest: has("kube-apiserver.yaml"),
            has_sentinel: has("success"),
        },
        log: sanitized(&redactor.redact(log)),
        log_next: answer.number("log_next").unwrap_or_default(),
        log_bytes: answer.number("log_bytes").unwrap_or_default(),
        component_lines: answer
            .all("component")
            .iter()
            .map(|line| sanitize_line(&redactor.redact(line)))
            .collect(),
    })
}

/// Line by line, as a block has a bound that a part of a log exceeds.
fn sanitized(log: &str) -> String {
    log.split('\n').map(sanitize_block).collect::<Vec<_>>().join("\n")
}

fn journal(answer: &Answered, digest: &str) -> Journal {
    let mut begin = answer.one("begin").unwrap_or_default().split_whitespace();
    Journal {
        digest: digest.to_owned(),
        kubeadm: answer.one("kubeadm").map_or(SeenKubeadm::Unknown, kubeadm),
        attempt: answer.number("attempt").unwrap_or_default(),
        boot_id: begin.next().unwrap_or_default().to_owned(),
        from_step: begin.next().and_then(|text| text.parse().ok()).unwrap_or_default(),
        started_s: begin.next().and_then(|text| text.parse().ok()).unwrap_or_default(),
        steps: answer.all("step").iter().filter_map(|line| seen(line)).collect(),
        is_finished: answer.one("finished").is_some(),
        was_reset: answer.one("was_reset").is_some(),
        resets: answer.number("resets").unwrap_or_default(),
    }
}

/// `none`, or `NUMBER VERB`.
fn kubeadm(line: &str) -> SeenKubeadm {
    let verb = |word: &str| [KubeadmVerb::Init, KubeadmVerb::Join].into_iter().find(|it| it.word() == word);
    let step = |(number, word): (&str, &str)| {
        Some(KubeadmStep { number: number.parse().ok().filter(|number| *number > 0)?, verb: verb(word)? })
    };
    match line {
        "none" => SeenKubeadm::None,
        line => line.split_once(' ').and_then(step).map_or(SeenKubeadm::Unknown, SeenKubeadm::Step),
    }
}

/// `NUMBER STARTED [CODE ENDED]`.
fn seen(line: &str) -> Option<SeenStep> {
    let mut words = line.split_whitespace();
    let number = words.next()?.parse().ok()?;
    let started_s = words.next()?.parse().ok()?;
    let end = words
        .next()
        .and_then(|code| code.parse().ok())
        .map(|code| StepEnd { code, at_s: words.next().and_then(|at| at.parse().ok()).unwrap_or_default() });
    Some(SeenStep { number, started_s, end })
}
