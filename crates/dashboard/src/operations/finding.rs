//! What a rule has to say about something that is about to be done.

/// How serious a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Note,
    Warning,
    /// The action is refused.
    Blocker,
}

/// What one rule has to say about an action: its name, and a sentence with its evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub severity: Severity,
    pub rule: &'static str,
    pub text: String,
}
