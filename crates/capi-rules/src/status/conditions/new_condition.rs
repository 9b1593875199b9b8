//! A condition as it is judged: words that may be borrowed until they are stored, so that judging
//! what is known already costs nothing. Owns the shape; storing is `setter`, merging is `merge`.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use capi_types::condition::Status;

/// The moment that means "no transition time yet".
pub const UNSTAMPED: Time = Time(jiff::Timestamp::UNIX_EPOCH);

/// One condition as a rule states it. Generation and, as a rule, transition time come when it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct NewCondition<'a> {
    /// In CamelCase, unique in its object.
    pub type_: Cow<'a, str>,
    /// `True`, `False` or `Unknown`.
    pub status: Cow<'a, str>,
    /// One word in CamelCase.
    pub reason: Cow<'a, str>,
    /// For a person; may be empty.
    pub message: Cow<'a, str>,
    /// When the status turned; [`UNSTAMPED`] when the code that stores it decides that.
    pub since: Time,
}

impl<'a> NewCondition<'a> {
    /// A condition whose transition time is decided when it is stored.
    pub fn new(type_: &'a str, status: Status, reason: &'a str, message: impl Into<Cow<'a, str>>) -> Self {
        Self {
            type_: type_.into(),
            status: status.as_str().into(),
            reason: reason.into(),
            message: message.into(),
            since: UNSTAMPED,
        }
    }
}

impl<'a> From<&'a Condition> for NewCondition<'a> {
    fn from(stored: &'a Condition) -> Self {
        Self {
            type_: stored.type_.as_str().into(),
            status: stored.status.as_str().into(),
            reason: stored.reason.as_str().into(),
            message: stored.message.as_str().into(),
            since: stored.last_transition_time.clone(),
        }
    }
}

impl From<Condition> for NewCondition<'_> {
    fn from(stored: Condition) -> Self {
        Self {
            type_: stored.type_.into(),
            status: stored.status.into(),
            reason: stored.reason.into(),
            message: stored.message.into(),
            since: stored.last_transition_time,
        }
    }
}

impl From<NewCondition<'_>> for Condition {
    fn from(new: NewCondition<'_>) -> Self {
        Self {
            type_: new.type_.into_owned(),
            status: new.status.into_owned(),
            reason: new.reason.into_owned(),
            message: new.message.into_owned(),
            last_transition_time: new.since,
            observed_generation: None,
        }
    }
}
