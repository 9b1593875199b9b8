//! How many extensions may answer one hook. Upstream v1.14.2 takes one and stops with an error when there are more;
//! the proposal lets several cover a change together, which is here behind a flag.
//! Source: `canUpdateMachine`, `canUpdateMachineSetInPlace`, `callUpdateMachineHook`, v1.14.2.

use std::fmt;

use capi_types::hook::Hook;

/// How many handlers of one hook are asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Handlers {
    /// As upstream: more than one is an error.
    #[default]
    One,
    /// As the proposal: all are asked in the order of their names, each with what those before it left over.
    Union,
}

impl Handlers {
    /// As the option names it.
    pub fn word(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::Union => "union",
        }
    }

    /// The other way round; `None`: it is neither.
    pub fn named(word: &str) -> Option<Self> {
        [Self::One, Self::Union].into_iter().find(|handlers| handlers.word() == word)
    }
}

/// More handlers of a hook than are supported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooManyHandlers {
    /// The hook that they are registered for.
    pub hook: Hook,
    /// Of the handlers, sorted.
    pub names: Vec<String>,
}

impl fmt::Display for TooManyHandlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.names.join(",");
        write!(f, "found multiple {} hooks ({names}): only one hook is supported", self.hook.as_str())
    }
}

impl std::error::Error for TooManyHandlers {}

impl Handlers {
    /// Those of `found` (by name) that are asked, in order.
    ///
    /// # Errors
    /// When there are more than may be asked.
    pub fn choose(self, hook: Hook, mut found: Vec<String>) -> Result<Vec<String>, TooManyHandlers> {
        // Each pass calls the same handlers in the same order.
        found.sort();
        match self {
            Self::One if found.len() > 1 => Err(TooManyHandlers { hook, names: found }),
            Self::One | Self::Union => Ok(found),
        }
    }
}
