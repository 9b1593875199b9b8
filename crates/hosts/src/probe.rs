//! The question to a machine and the reading of its answer, which is text of a stranger. Must not judge.

use super::facts::HostFacts;
use super::request::{AnswerError, answered};

/// A program for any POSIX shell, for its standard input. It changes nothing.
pub const PROGRAM: &str = include_str!("probe.sh");

/// What a machine answered; `here_s` is the time here, in seconds since 1970, half way between question and answer.
///
/// # Errors
/// The answer was cut off.
pub fn read(text: &str, here_s: i64) -> Result<HostFacts, AnswerError> {
    Ok(HostFacts::of(&answered(text)?, here_s))
}
