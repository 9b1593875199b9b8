//! A machine becomes clean again: one step of a reset at a time, until it is proved. Owns the order of reset and proof; must not
//! know whose objects say so.

use std::sync::Arc;

use serde_json::{Value, json};

use capi_types::host::{Host, HostRunStatus};
use capstan_hosts::clean::Proof;
use capstan_hosts::owner::{HostOwner, OwnerAnswer};
use capstan_hosts::run::{
    Changed, Journal, Redactor, ResetNext, ResetOptions, RunId, RunPlan, Watched, decide_reset,
};

use crate::access::{Claim, Machines, Silence};
use crate::reach::SshReach;

/// What is to become clean.
pub struct Cleaning<'c> {
    pub at: &'c SshReach,
    /// Ours on the machine.
    pub owner: &'c HostOwner,
    /// The run that is taken back.
    pub of: RunId,
    /// Where the container runtime answers.
    pub runtime_socket: Option<String>,
    /// Resets that were begun; the last one goes on.
    pub resets: u32,
}

/// How far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cleaned {
    /// A reset runs.
    Running(HostRunStatus),
    /// A reset has to begin: it is counted before.
    NeedsReset,
    /// Nothing is left.
    Proved,
    /// The last reset ended, and these are left.
    Left(Vec<String>),
    /// The owner file names another one, so that nothing was done.
    NotOwner(String),
    /// A job holds the machine.
    Busy,
}

impl Cleaning<'_> {
    fn plan(&self) -> Result<RunPlan, Silence> {
        let id = RunId::reset(&self.owner.machine, self.resets);
        let id = id.map_err(|error| Silence::because(error.to_string()))?;
        let options = ResetOptions { of: self.of.clone(), cri_socket: self.runtime_socket.clone() };
        Ok(RunPlan::reset(id, &options))
    }

    /// One step on the way to be given back.
    ///
    /// # Errors
    /// The machine is silent.
    pub async fn release(&self, machines: &Arc<dyn Machines>) -> Result<Cleaned, Silence> {
        if self.is_to_be_undone(machines).await? {
            // A run that goes on holds the machine's lock, which a reset needs.
            let stopped = machines.stop(self.at, &self.of, self.owner).await?;
            return Ok(of_change(stopped).unwrap_or(Cleaned::NeedsReset));
        }
        match self.go_on(machines).await? {
            Cleaned::Proved => self.give_back(machines).await,
            other => Ok(other),
        }
    }

    /// One step of the reset. A machine that is clean already needs none.
    ///
    /// # Errors
    /// The machine is silent.
    pub async fn go_on(&self, machines: &Arc<dyn Machines>) -> Result<Cleaned, Silence> {
        if self.resets == 0 {
            let proof = machines.prove(self.at).await?;
            return Ok(if proof.is_clean() { Cleaned::Proved } else { Cleaned::NeedsReset });
        }
        let plan = self.plan()?;
        let watched = machines.watch(self.at, &plan.id, 0, &plan.redactor()).await?;
        match decide_reset(&plan, &watched) {
            ResetNext::Upload => {
                let changed = machines.upload(self.at, &plan, self.owner).await?;
                Ok(of_change(changed)
                    .unwrap_or_else(|| Cleaned::Running(run_status(&plan, &watched, self.owner))))
            }
            ResetNext::Start(start) => {
                let changed = machines.start(self.at, &plan.id, self.owner, &start).await?;
                Ok(of_change(changed)
                    .unwrap_or_else(|| Cleaned::Running(run_status(&plan, &watched, self.owner))))
            }
            ResetNext::Wait { .. } => Ok(Cleaned::Running(run_status(&plan, &watched, self.owner))),
            ResetNext::Ended => {
                let proof = machines.prove(self.at).await?;
                Ok(if proof.is_clean() { Cleaned::Proved } else { Cleaned::Left(sentences(&proof)) })
            }
        }
    }

    /// Its run has begun since the last reset that was counted. The proof does not look for the files and users that a run made: only
    /// a reset gives them back, from what the run wrote down, and the release removes that.
    async fn is_to_be_undone(&self, machines: &Arc<dyn Machines>) -> Result<bool, Silence> {
        let watched = machines.watch(self.at, &self.of, 0, &Redactor::default()).await?;
        let has_begun = |it: &Journal| it.attempt > 0 && !it.was_reset && it.resets >= self.resets;
        Ok(watched.journal.as_ref().is_some_and(has_begun))
    }

    /// Nothing is left: the owner file is removed, and what is kept of runs.
    async fn give_back(&self, machines: &Arc<dyn Machines>) -> Result<Cleaned, Silence> {
        Ok(match machines.claim(self.at, &Claim::Release, self.owner).await? {
            OwnerAnswer::Busy => Cleaned::Busy,
            OwnerAnswer::Other { owner, .. } => Cleaned::NotOwner(owner.to_string()),
            OwnerAnswer::Free | OwnerAnswer::Ours { .. } | OwnerAnswer::Unreadable => Cleaned::Proved,
        })
    }
}

/// What a machine did not do; `None`: it did.
pub fn of_change(changed: Changed) -> Option<Cleaned> {
    match changed {
        Changed::Done | Changed::Already => None,
        Changed::Refused(why) => Some(Cleaned::Left(vec![why.to_owned()])),
        Changed::NotOwner(OwnerAnswer::Busy) => Some(Cleaned::Busy),
        Changed::NotOwner(OwnerAnswer::Other { owner, .. } | OwnerAnswer::Ours { owner, .. }) => {
            Some(Cleaned::NotOwner(owner.to_string()))
        }
        Changed::NotOwner(OwnerAnswer::Free) => Some(Cleaned::NotOwner("nobody".to_owned())),
        Changed::NotOwner(OwnerAnswer::Unreadable) => {
            Some(Cleaned::NotOwner("nobody that can be read".to_owned()))
        }
    }
}

/// What is left, and what could not be looked at.
pub fn sentences(proof: &Proof) -> Vec<String> {
    let unread = proof.unread.iter().map(|what| format!("cannot be read: {what}"));
    proof.left.iter().map(ToString::to_string).chain(unread).collect()
}

/// What a Host says of the run on it.
pub fn run_status(plan: &RunPlan, watched: &Watched, owner: &HostOwner) -> HostRunStatus {
    let journal = watched.journal.as_ref();
    let at =
        journal.map_or(1, |journal| journal.next()).min(u32::try_from(plan.steps.len()).unwrap_or(u32::MAX));
    let is_reset = plan.kubeadm.is_none();
    let last_line = watched.log.lines().rfind(|line| !line.trim().is_empty());
    HostRunStatus {
        id: Some(owner.machine.clone()),
        kind: Some(if is_reset { "Reset" } else { "Bootstrap" }.to_owned()),
        phase: Some("Running".to_owned()),
        step: Some(i64::from(at)),
        steps: i64::try_from(plan.steps.len()).ok(),
        what: plan.step(at).map(|step| step.title.clone()),
        last_line: last_line.map(|line| line.chars().take(200).collect()),
    }
}

/// A merge patch of it: what it does not say is taken away, and not left as an earlier run said it.
pub fn whole(run: &HostRunStatus) -> Value {
    let HostRunStatus { id, kind, phase, step, steps, what, last_line } = run;
    json!({
        "id": id, "kind": kind, "phase": phase, "step": step, "steps": steps, "what": what, "lastLine": last_line,
    })
}

/// The socket that the last look found.
pub fn runtime_socket(host: &Host) -> Option<String> {
    host.status.as_ref()?.facts.as_ref()?.runtime_socket.clone()
}
