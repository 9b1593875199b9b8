//! What a run is called: its folder and its unit on a machine. Must not know what it does.

use std::fmt;

use serde::Serialize;

const UID_BYTES_MAX: usize = 64;

/// A uid that cannot be part of a path and of the name of a unit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` cannot name a run: expected the uid of a HostMachine, at most 64 letters, digits and `-`")]
pub struct RunIdError(String);

/// The run of a HostMachine: its bootstrap, or a reset of what that did.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct RunId(String);

impl RunId {
    /// # Errors
    /// It is not a uid.
    pub fn bootstrap(machine_uid: &str) -> Result<Self, RunIdError> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let is_uid = !machine_uid.is_empty()
            && machine_uid.len() <= UID_BYTES_MAX
            && machine_uid.chars().all(is_plain);
        let is_first = machine_uid.starts_with(|c: char| c.is_ascii_alphanumeric());
        if is_uid && is_first {
            Ok(Self(machine_uid.to_owned()))
        } else {
            Err(RunIdError(machine_uid.to_owned()))
        }
    }

    /// Each reset of a HostMachine is a run of its own, numbered from 1.
    ///
    /// # Errors
    /// It is not a uid.
    pub fn reset(machine_uid: &str, number: u32) -> Result<Self, RunIdError> {
        Self::bootstrap(machine_uid).map(|id| Self(format!("{}.reset{number}", id.0)))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Of systemd.
    pub fn unit(&self) -> String {
        format!("capstan-{}.service", self.0)
    }

    /// On the machine.
    pub fn folder(&self) -> String {
        format!("/var/lib/capstan/runs/{}", self.0)
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
