//! Arguments that several commands have. Owns their words and help.

use std::time::Duration;

use clap::ValueEnum;

use capi_rules::plan::in_place::Handlers;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlanOutputArg {
    Text,
    Json,
}

/// How many extensions may answer a hook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum HandlersArg {
    #[default]
    One,
    Union,
}

impl HandlersArg {
    pub fn of(self) -> Handlers {
        match self {
            Self::One => Handlers::One,
            Self::Union => Handlers::Union,
        }
    }
}

/// # Errors
/// It is not a duration; what was expected.
pub fn duration(text: &str) -> Result<Duration, String> {
    capstan_base::time::parse_duration(text)
        .ok_or_else(|| "expected a duration such as 30s, 5m or 1h".to_owned())
}
