//! Accepting connections while there is nothing to accept them with: how long to wait, and one line in the log
//! when it begins and one when it is over. Must not know sockets.

use std::io::{Error, ErrorKind};
use std::time::Duration;

/// Before the next try, after the first failure and after many.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How accepting goes.
#[derive(Debug, Default)]
pub struct Accepting {
    failures: u32,
}

impl Accepting {
    /// A connection was accepted.
    pub fn worked(&mut self) {
        if self.failures > 0 {
            tracing::info!("connections are accepted again, after {} failures", self.failures);
        }
        self.failures = 0;
    }

    /// One was not; how long to wait.
    pub fn failed(&mut self, error: &Error) -> Duration {
        // A peer that left while it waited says nothing about the next one.
        if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset) {
            return Duration::ZERO;
        }
        if self.failures == 0 {
            tracing::warn!(
                "no connection can be accepted: {error}; those that are open go on. Raise the limit of open files \
                 (ulimit -n) if this happens often"
            );
        }
        // So many doublings are beyond the longest pause already.
        let pause = PAUSE_MIN * 2_u32.pow(self.failures.min(8));
        self.failures = self.failures.saturating_add(1);
        pause.min(PAUSE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_out_of_descriptors_took_twenty_lines_a_second() {
        let mut accepting = Accepting::default();
        let full = || Error::other("too many open files");
        let pauses: Vec<u128> = (0..6).map(|_| accepting.failed(&full()).as_millis()).collect();
        assert_eq!(pauses, [50, 100, 200, 400, 800, 1_000]);
        assert_eq!(accepting.failures, 6, "one line: only the first of them is said");
        assert_eq!(accepting.failed(&ErrorKind::ConnectionAborted.into()), Duration::ZERO);
        accepting.worked();
        assert_eq!(accepting.failed(&full()), PAUSE_MIN);
    }
}
