//! The one pipeline of whatever a person asks for that writes. Before the confirmation: rights, preflight, the server's dry run with
//! the plan before and after. After it: a line in the journal, the guarded write, another line unless people still have to
//! finish it. With `--read-only` both are refused at once.
//! Owns this order; what is asked, checked and written is the operation's.

use std::cmp::Reverse;
use std::fmt::Display;

use async_trait::async_trait;

use super::diff::DiffLine;
use super::journal::{About, Entry, Journal, stamp};
use super::{Finding, blocked};
use capstan_base::time::Clock;

/// Why the pipeline ended, whatever was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("this capstan is read-only (--read-only); nothing was sent")]
    ReadOnly,
    /// What the findings that block it say.
    #[error("{0}")]
    Blocked(String),
    #[error(
        "the journal {path} cannot be written ({reason}); nothing was sent, as every action must leave a line there"
    )]
    Journal { path: String, reason: String },
    #[error("it was done, and the journal {path} could not be written after that ({reason})")]
    JournalAfter { path: String, reason: String },
}

/// Something that is looked at before it is confirmed. The steps are taken in this order, each once.
#[async_trait]
pub trait Proposed: Send {
    type Error: From<Refusal>;

    /// Asks the server what this user may do.
    ///
    /// # Errors
    /// The user may not do it, or the server did not say.
    async fn rights(&mut self) -> Result<Vec<Finding>, Self::Error>;

    /// Reads what it is about, and says what speaks against it.
    ///
    /// # Errors
    /// It cannot be read, or is not possible at all.
    async fn preflight(&mut self) -> Result<Vec<Finding>, Self::Error>;

    /// Lets the server do it without keeping it, and compares the plans before and after. It is not called when a finding is a blocker.
    ///
    /// # Errors
    /// The server refuses it.
    async fn dry_run(&mut self) -> Result<DryRun, Self::Error>;
}

/// What a dry run shows.
#[derive(Clone, Debug, Default)]
pub struct DryRun {
    pub diff: Vec<DiffLine>,
    pub findings: Vec<Finding>,
}

/// What a person sees before the confirmation.
#[derive(Clone, Debug, Default)]
pub struct Looked {
    /// The most serious ones first.
    pub findings: Vec<Finding>,
    pub diff: Vec<DiffLine>,
}

/// Something that was confirmed.
#[async_trait]
pub trait Confirmed: Send {
    type Written: Send;
    type Error: Display + From<Refusal> + Send;

    /// What its lines in the journal are about.
    fn about(&self) -> About<'_>;

    /// Writes it, if what was read is still so.
    ///
    /// # Errors
    /// It was not written, or is not there afterwards.
    async fn write(&mut self) -> Result<Self::Written, Self::Error>;

    /// False: more of it is still to be done, by people.
    fn is_over(_written: &Self::Written) -> bool {
        true
    }
}

/// Who writes, and where that is written down.
#[derive(Clone)]
pub struct Guard {
    pub journal: Journal,
    pub clock: Clock,
    /// The operating system's name for the person.
    pub user: String,
    /// `--read-only`: nothing is written.
    pub read_only: bool,
}

impl Guard {
    /// Of a person who may write.
    pub fn new(journal: Journal, clock: Clock, user: String) -> Self {
        Self { journal, clock, user, read_only: false }
    }

    /// The same over a connection that may forbid it.
    pub fn over(&self, connection_is_read_only: bool) -> Self {
        // Neither side can lift what the other forbids.
        Self { read_only: self.read_only || connection_is_read_only, ..self.clone() }
    }

    /// Everything that a person sees before the confirmation. Writes nothing.
    ///
    /// # Errors
    /// [`Refusal`], or what the operation says.
    pub async fn look<P: Proposed>(&self, proposed: &mut P) -> Result<Looked, P::Error> {
        self.check_writable()?;
        let mut looked = Looked { findings: proposed.rights().await?, diff: Vec::new() };
        looked.findings.extend(proposed.preflight().await?);
        // What is blocked already needs no trial at the server.
        if !looked.findings.iter().any(Finding::is_blocker) {
            let DryRun { diff, findings } = proposed.dry_run().await?;
            looked.findings.extend(findings);
            looked.diff = diff;
        }
        // The sort is stable: within a severity the order of the steps stays.
        looked.findings.sort_by_key(|finding| Reverse(finding.severity));
        Ok(looked)
    }

    /// Writes what was confirmed. `findings`: what was shown of it.
    ///
    /// # Errors
    /// [`Refusal`], or what the operation says.
    pub async fn write<C: Confirmed>(
        &self,
        confirmed: &mut C,
        findings: &[Finding],
    ) -> Result<C::Written, C::Error> {
        self.check_writable()?;
        if let Some(why) = blocked(findings) {
            return Err(Refusal::Blocked(why).into());
        }
        let before = |(path, reason)| Refusal::Journal { path, reason };
        // Before the write: what ends this process in the
        // middle must not leave an act without a trace.
        self.note(confirmed.about(), "asked", None).map_err(before)?;
        let outcome = confirmed.write().await;
        let after = |(path, reason)| Refusal::JournalAfter { path, reason };
        match &outcome {
            Ok(written) if C::is_over(written) => {
                self.note(confirmed.about(), "done", None).map_err(after)?;
            }
            Ok(_) => {}
            // The first error matters more than one about the journal.
            Err(error) => drop(self.note(confirmed.about(), "failed", Some(&error.to_string()))),
        }
        outcome
    }

    /// # Errors
    /// [`Refusal::ReadOnly`].
    pub fn check_writable(&self) -> Result<(), Refusal> {
        if self.read_only { Err(Refusal::ReadOnly) } else { Ok(()) }
    }

    /// An error: the path of the journal, and why it cannot be written.
    fn note(&self, about: About<'_>, outcome: &str, error: Option<&str>) -> Result<(), (String, String)> {
        let entry = Entry { at: stamp(self.clock.now()), outcome, user: &self.user, about, error };
        let path = || self.journal.path().display().to_string();
        self.journal.append(&entry).map_err(|source| (path(), source.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::Severity;
    use capstan_base::time::Timestamp;

    fn finding(severity: Severity) -> Finding {
        Finding { severity, rule: "rule", text: "because".to_owned() }
    }

    /// Notes which steps were taken.
    struct Steps {
        rights: Vec<Finding>,
        taken: Vec<&'static str>,
        is_refused: bool,
    }

    impl Steps {
        fn new(rights: Vec<Finding>, is_refused: bool) -> Self {
            Self { rights, taken: Vec::new(), is_refused }
        }
    }

    #[derive(Debug, PartialEq, thiserror::Error)]
    enum StepError {
        #[error(transparent)]
        Refusal(#[from] Refusal),
        #[error("the server says no")]
        Server,
    }

    #[async_trait]
    impl Proposed for Steps {
        type Error = StepError;

        async fn rights(&mut self) -> Result<Vec<Finding>, StepError> {
            self.taken.push("rights");
            Ok(self.rights.clone())
        }

        async fn preflight(&mut self) -> Result<Vec<Finding>, StepError> {
            self.taken.push("preflight");
            Ok(vec![finding(Severity::Note)])
        }

        async fn dry_run(&mut self) -> Result<DryRun, StepError> {
            self.taken.push("dry run");
            Ok(DryRun { diff: Vec::new(), findings: vec![finding(Severity::Warning)] })
        }
    }

    #[async_trait]
    impl Confirmed for Steps {
        type Written = bool;
        type Error = StepError;

        fn about(&self) -> About<'_> {
            About { kind: "ConfigMap", ..About::default() }
        }

        async fn write(&mut self) -> Result<bool, StepError> {
            self.taken.push("write");
            if self.is_refused { Err(StepError::Server) } else { Ok(self.rights.is_empty()) }
        }

        fn is_over(written: &bool) -> bool {
            *written
        }
    }

    fn guard(folder: &std::path::Path, read_only: bool) -> Guard {
        let journal = Journal::at(folder.join("journal.jsonl"));
        Guard::new(journal, Clock::fixed(Timestamp::default()), "ada".to_owned()).over(read_only)
    }

    fn outcomes(guard: &Guard) -> Vec<String> {
        let text = std::fs::read_to_string(guard.journal.path()).unwrap_or_default();
        let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("a line"));
        lines.map(|line| line["outcome"].as_str().unwrap_or_default().to_owned()).collect()
    }

    #[tokio::test]
    async fn what_is_blocked_is_not_tried_and_the_worst_is_shown_first() {
        let folder = tempfile::tempdir().expect("a folder");
        let guard = guard(folder.path(), false);
        let mut blocked = Steps::new(vec![finding(Severity::Blocker)], false);
        let looked = guard.look(&mut blocked).await.expect("it is looked at");
        assert_eq!(blocked.taken, ["rights", "preflight"]);
        let refused = guard.write(&mut blocked, &looked.findings).await;
        assert_eq!(refused, Err(StepError::Refusal(Refusal::Blocked("because".to_owned()))));
        assert!(outcomes(&guard).is_empty());
        let mut free = Steps::new(Vec::new(), false);
        let looked = guard.look(&mut free).await.expect("it is looked at");
        assert_eq!(free.taken, ["rights", "preflight", "dry run"]);
        let severities: Vec<Severity> = looked.findings.iter().map(|finding| finding.severity).collect();
        assert_eq!(severities, [Severity::Warning, Severity::Note]);
    }

    #[tokio::test]
    async fn every_write_leaves_a_line_before_and_after() {
        for (is_over, is_refused, expected) in [
            (true, false, vec!["asked", "done"]),
            (true, true, vec!["asked", "failed"]),
            (false, false, vec!["asked"]),
        ] {
            let folder = tempfile::tempdir().expect("a folder");
            let guard = guard(folder.path(), false);
            let rights = if is_over { Vec::new() } else { vec![finding(Severity::Note)] };
            let written = guard.write(&mut Steps::new(rights, is_refused), &[]).await;
            assert_eq!(written.is_err(), is_refused);
            assert_eq!(outcomes(&guard), expected);
        }
    }

    #[tokio::test]
    async fn nothing_begins_read_only_or_without_a_journal() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut steps = Steps::new(Vec::new(), false);
        let read_only = guard(folder.path(), true);
        assert_eq!(read_only.look(&mut steps).await.err(), Some(Refusal::ReadOnly.into()));
        assert_eq!(read_only.write(&mut steps, &[]).await, Err(Refusal::ReadOnly.into()));
        let mut broken = guard(folder.path(), false);
        broken.journal = Journal::at(folder.path().to_owned());
        let refused = broken.write(&mut steps, &[]).await;
        assert!(matches!(refused, Err(StepError::Refusal(Refusal::Journal { .. }))), "{refused:?}");
        assert!(steps.taken.is_empty(), "{:?}", steps.taken);
    }
}
