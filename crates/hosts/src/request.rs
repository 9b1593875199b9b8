//! What is sent to a host, and how its answers begin and end. Must not know how a host is reached, nor what a request is for.

use std::fmt;

use capstan_base::command_line::CommandLine;
use capstan_base::text::sanitize_line;

use super::answer::Answered;

/// More lines than any answer has, and longer values than any has.
const LINES_MAX: usize = 4_000;
const VALUE_CHARS_MAX: usize = 500;

/// One line for a shell of root, and what that line reads.
#[derive(Clone, PartialEq, Eq)]
pub struct ShellRequest {
    pub line: CommandLine,
    /// May hold keys and tokens of a cluster.
    pub input: Vec<u8>,
    /// After so many seconds there is no answer to wait for.
    pub limit_s: u64,
    /// Something on the machine may become different: not for `--read-only`.
    pub changes: bool,
}

impl ShellRequest {
    pub(super) fn reading(line: CommandLine) -> Self {
        Self { line, input: Vec::new(), limit_s: 60, changes: false }
    }

    pub(super) fn changing(line: CommandLine) -> Self {
        Self { changes: true, ..Self::reading(line) }
    }
}

impl fmt::Debug for ShellRequest {
    /// Without the input, which is secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ShellRequest");
        shown.field("input_bytes", &self.input.len()).field("limit_s", &self.limit_s);
        shown.field("changes", &self.changes).finish_non_exhaustive()
    }
}

/// No answer, or one that is a refusal of the machine itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    #[error("the answer of the machine has no end: its shell stopped, or something was cut off")]
    CutOff,
    #[error("the machine answered {0:?}, which means nothing here")]
    Unexpected(String),
    #[error("the machine could not do it: {0}")]
    Failed(String),
}

/// The lines `name=value` of an answer, up to its end; what follows the end is not looked at.
pub(super) fn answered(text: &str) -> Result<Answered, AnswerError> {
    let mut answered = Answered::default();
    for line in text.lines().take(LINES_MAX) {
        let Some((name, value)) = line.split_once('=') else { continue };
        if (name, value) == ("end", "yes") {
            return Ok(answered);
        }
        answered.add(name, sanitize_line(value.trim()).chars().take(VALUE_CHARS_MAX).collect());
    }
    Err(AnswerError::CutOff)
}

/// The word of an answer that says what became of the request.
pub(super) fn outcome(answered: &Answered) -> Result<&str, AnswerError> {
    match answered.one("answer") {
        Some("failed") => Err(AnswerError::Failed(answered.one("reason").unwrap_or("no reason").to_owned())),
        Some(word) => Ok(word),
        None => Err(AnswerError::Unexpected(String::new())),
    }
}
