//! Requests of the controllers to machines, as a trait that tests can implement. Owns the requests and the error for a missing answer;
//! must not depend on controllers.

use async_trait::async_trait;

use capstan_hosts::clean::Proof;
use capstan_hosts::facts::HostFacts;
use capstan_hosts::owner::{HostOwner, OwnerAnswer};
use capstan_hosts::run::{Changed, Redactor, RunId, RunPlan, Start, Watched};
use capstan_remote::host_key::HostKey;
use capstan_remote::trouble::SshTrouble;

use super::reach::SshReach;

/// Why a machine did not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Silence {
    /// What ssh's failure means; `None` where ssh worked, or was not called at all.
    pub trouble: Option<SshTrouble>,
    /// Harmless text.
    pub reason: String,
    /// Where its key is not trusted: those that it offers.
    pub offered: Vec<HostKey>,
    /// The request would have changed the machine, and this capstan changes none.
    pub is_read_only: bool,
}

impl Silence {
    /// Of something other than ssh.
    pub fn because(reason: impl Into<String>) -> Self {
        Self { trouble: None, reason: reason.into(), offered: Vec::new(), is_read_only: false }
    }

    /// The request was not sent.
    pub fn read_only() -> Self {
        Self { is_read_only: true, ..Self::because("nothing is changed on a machine with --read-only") }
    }

    /// Another try may go better, without anybody doing something.
    pub fn is_passing(&self) -> bool {
        matches!(self.trouble, Some(SshTrouble::Unreachable) | None)
    }
}

/// How an owner file is to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Made where there is none.
    Make,
    /// Taken from this owner, as a person asked for.
    TakeFrom(HostOwner),
    /// Removed, with what is kept of runs: the machine is clean.
    Release,
}

/// The machines behind Hosts. Every answer is of one machine at one moment.
#[async_trait]
pub trait Machines: Send + Sync + 'static {
    /// What it is.
    async fn facts(&self, at: &SshReach) -> Result<HostFacts, Silence>;

    /// Whose it is.
    async fn owner(&self, at: &SshReach) -> Result<OwnerAnswer, Silence>;

    /// What is left on it of an earlier node.
    async fn prove(&self, at: &SshReach) -> Result<Proof, Silence>;

    /// Changes its owner file, and says what it says then.
    async fn claim(&self, at: &SshReach, claim: &Claim, owner: &HostOwner) -> Result<OwnerAnswer, Silence>;

    /// Puts the files of a run there; nothing runs yet.
    async fn upload(&self, at: &SshReach, plan: &RunPlan, owner: &HostOwner) -> Result<Changed, Silence>;

    /// Starts a run that was uploaded; it goes on by itself.
    async fn start(
        &self,
        at: &SshReach,
        run: &RunId,
        owner: &HostOwner,
        start: &Start,
    ) -> Result<Changed, Silence>;

    /// How far a run is, with its log from that byte on.
    async fn watch(
        &self,
        at: &SshReach,
        run: &RunId,
        log_from: u64,
        redactor: &Redactor,
    ) -> Result<Watched, Silence>;

    /// Ends a run where it is; what has begun stays as it is then.
    async fn stop(&self, at: &SshReach, run: &RunId, owner: &HostOwner) -> Result<Changed, Silence>;
}
