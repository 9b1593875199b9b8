//! The question to a machine and the reading of its answer. Owns names and bounds of what is answered, which is text of a stranger.
//! Must not judge.

use capstan_base::text::sanitize_line;

use super::answer::Answered;
use super::facts::HostFacts;

/// A program for any POSIX shell, for its standard input. It changes nothing.
pub const PROGRAM: &str = include_str!("probe.sh");

/// A thousand names of several values each, and every line is cut by the probe itself.
const LINES_MAX: usize = 4_000;
const VALUE_CHARS_MAX: usize = 500;

/// An answer that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    #[error("the answer of the machine has no end: its shell stopped, or something was cut off")]
    CutOff,
}

/// What a machine answered; `here_s` is the time here, in seconds since 1970, half way between question and answer.
///
/// # Errors
/// The answer was cut off.
pub fn read(text: &str, here_s: i64) -> Result<HostFacts, ProbeError> {
    let mut answered = Answered::default();
    for line in text.lines().take(LINES_MAX) {
        let Some((name, value)) = line.split_once('=') else { continue };
        let value: String = sanitize_line(value.trim()).chars().take(VALUE_CHARS_MAX).collect();
        answered.add(name, value);
    }
    if answered.one("end") != Some("yes") {
        return Err(ProbeError::CutOff);
    }
    Ok(HostFacts::of(&answered, here_s))
}
