//! A run: what is done on a machine as one job that needs no connection. Owns the folder of a run, its journal, and how a run is
//! sent, started, watched and ended; must not know how a machine is reached.
//!
//! `/var/lib/capstan/runs/ID/` is root's alone:
//!
//! - `script`, `files/NNN`, `kubeadm` (which step is kubeadm's), `manifest` (their SHA-256), `owner`: what was sent; `ready` has the
//!   digest of the manifest.
//! - `steps/ATTEMPT/begin` (boot id, first step, seconds), `NNN.started`, `NNN.rc` (exit code, seconds): the journal.
//! - `before/`: what was at a path before it was written. `log`: what the steps printed. `finished`: it ended with success.

mod archive;
mod decide;
mod id;
mod options;
mod plan;
mod redactor;
mod step;
mod steps;
mod watch;

use capstan_base::command_line::CommandLine;

pub use decide::{
    AskReason, MemberSeen, NodeSeen, ObservedRun, ResetNext, ResetReason, RunNext, StartReason, UnknownFact,
    decide, decide_reset,
};
pub use id::{RunId, RunIdError};
pub use options::{KubeadmStep, KubeadmVerb, RunOptions};
pub use plan::{ResetOptions, RunPlan};
pub use redactor::Redactor;
pub use step::{PlannedStep, StepKind};
pub use watch::{
    Journal, KubeadmTraces, LOG_END, SeenKubeadm, SeenStep, StepEnd, Watched, read_watch, watch,
};

use super::owner::{HostOwner, OwnerAnswer, of_answer};
use super::request::{AnswerError, ShellRequest, answered, outcome};

const UPLOAD: &str = concat!(include_str!("../held.sh"), include_str!("upload.sh"));
const START: &str = concat!(include_str!("../held.sh"), include_str!("start.sh"));
const STOP: &str = concat!(include_str!("../held.sh"), include_str!("stop.sh"));
/// Sending takes its time over a thin line, and the disk has to have it.
const UPLOAD_LIMIT_S: u64 = 600;

/// Which attempt, and with which step it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    pub attempt: u32,
    pub from_step: u32,
}

/// What became of a request that changes something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    Done,
    /// It was so before.
    Already,
    /// Of an upload: another plan has begun there, and was not reset. Of a start: nothing was uploaded.
    Refused(&'static str),
    /// The owner file says that the machine is somebody else's, or nobody's; or a job holds the lock.
    NotOwner(OwnerAnswer),
}

/// Brings a plan to the machine; once it is there, again is no change.
pub fn upload(plan: &RunPlan, owner: &HostOwner) -> ShellRequest {
    let line = CommandLine::of("sh -c {} capstan", [UPLOAD]).with(&owner.words());
    let line = line.with(&CommandLine::of("{} {}", [plan.id.as_str(), &plan.digest]));
    ShellRequest { input: plan.archive(), limit_s: UPLOAD_LIMIT_S, ..ShellRequest::changing(line) }
}

/// Starts it as a unit of systemd. An attempt is started once, whatever comes twice.
pub fn start(id: &RunId, owner: &HostOwner, start: Start) -> ShellRequest {
    let line = CommandLine::of("sh -c {} capstan", [START]).with(&owner.words());
    let (attempt, from_step) = (start.attempt.to_string(), start.from_step.to_string());
    let words = CommandLine::of("{} {} {}", [id.as_str(), &attempt, &from_step]);
    ShellRequest::changing(line.with(&words))
}

/// Ends it where it is. What has begun stays as it is then.
pub fn stop(id: &RunId, owner: &HostOwner) -> ShellRequest {
    let line = CommandLine::of("sh -c {} capstan", [STOP]).with(&owner.words());
    ShellRequest { limit_s: 120, ..ShellRequest::changing(line.with(&CommandLine::of("{}", [id.as_str()]))) }
}

/// The answer to [`upload`], [`start`] and [`stop`].
///
/// # Errors
/// There is no whole answer, or the machine could not do it.
pub fn read_changed(stdout: &str) -> Result<Changed, AnswerError> {
    let answer = answered(stdout)?;
    match outcome(&answer)? {
        "completed" => Ok(Changed::Done),
        "already" => Ok(Changed::Already),
        "differs" => Ok(Changed::Refused("another plan has begun there and was not taken back")),
        "missing" => Ok(Changed::Refused("nothing was uploaded")),
        _ => of_answer(&answer).map(Changed::NotOwner),
    }
}

#[cfg(test)]
mod kills;
#[cfg(test)]
mod requests;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod stand_ins;
#[cfg(test)]
mod tests;
