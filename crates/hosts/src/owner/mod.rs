//! Whose a machine is: the file that says so, made once and by one. Owns its words and fencing; must not know why a machine is
//! claimed, nor what a job does.
//!
//! The file is `/var/lib/capstan/owner`, of root alone. It is made exclusively, so of two installations one gets it; everything that
//! changes the machine compares it first, under the lock that a running job holds (`/var/lib/capstan/lock`). Somebody who has an
//! older generation, such as a laptop with a copied store, is refused and sees whose the machine is.

use std::fmt;

use serde::Serialize;

use capstan_base::command_line::CommandLine;

use super::answer::Answered;
use super::request::{AnswerError, ShellRequest, answered, outcome};

/// The first lines of every program that compares the owner.
pub(super) const HELD: &str = include_str!("../held.sh");
const PROGRAM: &str = concat!(include_str!("../held.sh"), include_str!("owner.sh"));

const WORD_BYTES_MAX: usize = 253;

/// What cannot stand in an owner file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` cannot be the {what} in an owner file: expected letters, digits, `.`, `-`, `_` and `/`, at most 253"
)]
pub struct OwnerError {
    what: &'static str,
    text: String,
}

/// Whose a machine is, and since which claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HostOwner {
    /// Of capstan: its store's own id.
    pub installation: String,
    /// The uid of the Host.
    pub host: String,
    /// The uid of the HostMachine.
    pub machine: String,
    /// `NAMESPACE/NAME`.
    pub cluster: String,
    /// Grows with each take-over; whoever has an older one is refused.
    pub generation: u64,
}

impl HostOwner {
    /// # Errors
    /// One of the words is no word.
    pub fn new(
        installation: &str,
        host: &str,
        machine: &str,
        cluster: &str,
        generation: u64,
    ) -> Result<Self, OwnerError> {
        Ok(Self {
            installation: word("installation", installation)?,
            host: word("Host", host)?,
            machine: word("HostMachine", machine)?,
            cluster: word("cluster", cluster)?,
            generation,
        })
    }

    /// The same, one generation after another owner.
    #[must_use]
    pub fn after(&self, before: &Self) -> Self {
        Self { generation: before.generation.saturating_add(1), ..self.clone() }
    }

    /// As the scripts take it.
    pub(super) fn words(&self) -> CommandLine {
        let generation = self.generation.to_string();
        let words = [&self.installation, &self.host, &self.machine, &self.cluster, &generation];
        CommandLine::of("{} {} {} {} {}", words.map(String::as_str))
    }
}

impl fmt::Display for HostOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { installation, host, machine, cluster, generation } = self;
        write!(
            f,
            "installation {installation}, cluster {cluster}, HostMachine {machine}, Host {host}, generation {generation}"
        )
    }
}

fn word(what: &'static str, text: &str) -> Result<String, OwnerError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '/');
    let is_word = !text.is_empty() && text.len() <= WORD_BYTES_MAX && text.chars().all(is_plain);
    if is_word { Ok(text.to_owned()) } else { Err(OwnerError { what, text: text.to_owned() }) }
}

/// What the machine says of its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnerAnswer {
    Free,
    /// The file says what was asked for.
    Ours {
        owner: HostOwner,
        /// It was made now.
        is_new: bool,
        since_s: Option<u64>,
    },
    /// The file is another's, or of another generation. Nothing was changed.
    Other {
        owner: HostOwner,
        since_s: Option<u64>,
    },
    /// A job runs.
    Busy,
    /// There is a file, and it cannot be read as one.
    Unreadable,
}

/// Who owns it?
pub fn look() -> ShellRequest {
    ShellRequest::reading(CommandLine::of("sh -c {} capstan look", [PROGRAM]))
}

/// Makes the owner file where there is none; one that says the same stays.
pub fn claim(owner: &HostOwner) -> ShellRequest {
    ShellRequest::changing(CommandLine::of("sh -c {} capstan claim", [PROGRAM]).with(&owner.words()))
}

/// Replaces the owner that was seen by one of the next generation. A person decides that, never a controller.
pub fn take_over(owner: &HostOwner, from: &HostOwner) -> ShellRequest {
    let line = CommandLine::of("sh -c {} capstan take", [PROGRAM]);
    ShellRequest::changing(line.with(&owner.after(from).words()).with(&from.words()))
}

/// Removes the owner file and what is kept of runs. For a machine that was proved clean.
pub fn release(owner: &HostOwner) -> ShellRequest {
    ShellRequest::changing(CommandLine::of("sh -c {} capstan release", [PROGRAM]).with(&owner.words()))
}

/// The answer to any of these.
///
/// # Errors
/// There is no whole answer, or the machine could not write.
pub fn read(stdout: &str) -> Result<OwnerAnswer, AnswerError> {
    let answered = answered(stdout)?;
    of_answer(&answered)
}

pub(super) fn of_answer(answered: &Answered) -> Result<OwnerAnswer, AnswerError> {
    let since_s = answered.number("owner_since");
    let with = |answer: fn(HostOwner, Option<u64>) -> OwnerAnswer| {
        owner_of(answered).map_or(OwnerAnswer::Unreadable, |owner| answer(owner, since_s))
    };
    Ok(match outcome(answered)? {
        "free" => OwnerAnswer::Free,
        "busy" => OwnerAnswer::Busy,
        "made" => with(|owner, since_s| OwnerAnswer::Ours { owner, is_new: true, since_s }),
        "kept" => with(|owner, since_s| OwnerAnswer::Ours { owner, is_new: false, since_s }),
        "other" | "found" => with(|owner, since_s| OwnerAnswer::Other { owner, since_s }),
        word => return Err(AnswerError::Unexpected(word.to_owned())),
    })
}

fn owner_of(answered: &Answered) -> Option<HostOwner> {
    let one = |name: &str| answered.one(name);
    let generation = answered.number("owner_generation")?;
    if one("owner_format") != Some("1") {
        return None;
    }
    let words =
        [one("owner_installation")?, one("owner_host")?, one("owner_machine")?, one("owner_cluster")?];
    let [installation, host, machine, cluster] = words;
    HostOwner::new(installation, host, machine, cluster, generation).ok()
}

#[cfg(test)]
mod tests;
