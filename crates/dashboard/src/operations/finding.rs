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

impl Finding {
    /// What keeps an action from being done.
    pub fn blocker(rule: &'static str, text: String) -> Self {
        Self { severity: Severity::Blocker, rule, text }
    }

    pub fn is_blocker(&self) -> bool {
        self.severity == Severity::Blocker
    }
}

/// Why it may not be done, all reasons in a line; `None` when nothing blocks it.
pub fn blocked(findings: &[Finding]) -> Option<String> {
    let why: Vec<&str> =
        findings.iter().filter(|finding| finding.is_blocker()).map(|finding| finding.text.as_str()).collect();
    (!why.is_empty()).then(|| why.join("; "))
}
