//! How a command ends, as the number that scripts rely on. Must not know which command ends how: that is the program's table.

use std::process;

use capstan_dashboard::fleet::Verdict;

/// How a command ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExitCode {
    #[default]
    Success,
    Failure,
    Differs,
    WrongUsage,
    ComparisonFailed,
    Progressing,
    Pending,
    Degraded,
    FailedCheck,
    Blocked,
    Unknown,
    NeedsAcknowledgement,
    /// Ended by this signal.
    Signal(u8),
    /// As the command on a host ended.
    OfHost(u8),
}

/// Arguments that do not go together, found after each of them was parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WrongUsage(pub String);

impl ExitCode {
    /// The number that the shell sees.
    pub const fn number(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure | Self::Differs => 1,
            Self::WrongUsage => 2,
            Self::ComparisonFailed => 3,
            Self::Progressing | Self::Pending => 10,
            Self::Degraded | Self::FailedCheck => 11,
            Self::Blocked => 12,
            Self::Unknown => 13,
            Self::NeedsAcknowledgement => 14,
            // As a shell says it of a program that was ended by a signal.
            Self::Signal(signal) => 128_u8.saturating_add(signal),
            Self::OfHost(status) => status,
        }
    }

    /// Of a command that ends with `otherwise` when its arguments were understood.
    pub fn of_error(error: &anyhow::Error, otherwise: Self) -> Self {
        if error.is::<WrongUsage>() { Self::WrongUsage } else { otherwise }
    }

    /// Of `--exit-status`.
    pub const fn of_verdict(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Ok => Self::Success,
            Verdict::Progressing => Self::Progressing,
            Verdict::Degraded => Self::Degraded,
            Verdict::Blocked => Self::Blocked,
            Verdict::Unknown => Self::Unknown,
        }
    }
}

impl From<ExitCode> for process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn what_is_said_about_an_argument_is_wrong_usage() {
        let wrong = || anyhow::Error::from(WrongUsage("--now noon: expected a moment".to_owned()));
        assert_eq!(ExitCode::of_error(&wrong(), ExitCode::Failure), ExitCode::WrongUsage);
        let with_context = Err::<(), _>(wrong()).context("--set x").expect_err("an error");
        assert_eq!(ExitCode::of_error(&with_context, ExitCode::ComparisonFailed), ExitCode::WrongUsage);
        let absent: Option<u8> = None;
        let as_context = absent.with_context(|| WrongUsage("--rest x".to_owned())).expect_err("an error");
        assert_eq!(ExitCode::of_error(&as_context, ExitCode::Failure), ExitCode::WrongUsage);
        let failed = anyhow::anyhow!("the server does not answer");
        assert_eq!(ExitCode::of_error(&failed, ExitCode::ComparisonFailed), ExitCode::ComparisonFailed);
    }
}
