//! What a person has to answer before something is done: the same on the command line and in the dashboard. Must not know how
//! an answer is typed.

use capstan_engine::client::ContextSetting;

/// What a person has to answer before an action is performed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirmation {
    /// Enter, or `y`; in the dashboard enter twice.
    Enter,
    /// `y` or `yes`; in the dashboard `yes`, as letters move about there.
    Yes,
    /// The object's name.
    Name,
}

impl Confirmation {
    /// What it is in a context: in production always the name.
    pub fn in_context(self, setting: &ContextSetting) -> Self {
        if setting.is_production() { Self::Name } else { self }
    }

    /// Whether `answer`, a line without its end, confirms an action on the object `name`. Enter alone is the empty
    /// line. The case of a yes does not matter, that of a name does.
    pub fn accepts(self, answer: &str, name: &str) -> bool {
        let answer = answer.trim();
        let is_yes = ["y", "yes"].iter().any(|yes| answer.eq_ignore_ascii_case(yes));
        match self {
            Self::Enter => answer.is_empty() || is_yes,
            Self::Yes => is_yes,
            Self::Name => answer == name,
        }
    }
}
