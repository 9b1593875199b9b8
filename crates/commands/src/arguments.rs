//! Values of arguments that several commands have. Every value that can be wrong is read where the command line is parsed, so that
//! it ends with 2 before anything is done; what is wrong about several together is `WrongUsage`. Owns their words.

use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use chrono::TimeDelta;
use clap::ValueEnum;

use capi_rules::plan::in_place::Handlers;
use capstan_base::time::{Timestamp, parse_duration, parse_rfc3339};
use k8s_machinery::validation::naming::dns_subdomain;
use k8s_machinery::version;

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
    parse_duration(text).ok_or_else(|| "expected a duration such as 30s, 5m or 1h".to_owned())
}

/// # Errors
/// It is not a duration; what was expected.
pub fn days(text: &str) -> Result<TimeDelta, String> {
    let span = parse_duration(text).and_then(|span| TimeDelta::from_std(span).ok());
    span.ok_or_else(|| "expected a duration such as 2h, 7d or 90d".to_owned())
}

/// # Errors
/// It is not a version of Kubernetes; what was expected.
pub fn kubernetes_version(text: &str) -> Result<String, String> {
    let expected = || "expected a version such as v1.36.2".to_owned();
    if version::is_strict(text) { Ok(text.to_owned()) } else { Err(expected()) }
}

/// # Errors
/// No object can have this name; why.
pub fn object_name(text: &str) -> Result<String, String> {
    match dns_subdomain(text).first() {
        None => Ok(text.to_owned()),
        Some(complaint) => Err(complaint.clone()),
    }
}

/// # Errors
/// It is not a range of addresses; what was expected.
pub fn address_range(text: &str) -> Result<String, &'static str> {
    let (address, bits) = text.split_once('/').unwrap_or_default();
    let bits_max = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => 0,
    };
    let is_range = bits.parse::<u8>().is_ok_and(|bits| (1..=bits_max).contains(&bits));
    if is_range { Ok(text.to_owned()) } else { Err("expected a range of addresses such as 10.244.0.0/16") }
}

/// A moment as a person types it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    At(Timestamp),
    FromNow(TimeDelta),
}

impl Moment {
    /// When that is.
    pub fn seen_from(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::FromNow(later) => now + later,
        }
    }
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let moment = match text.strip_prefix('+') {
            Some(later) => days(later).ok().map(Self::FromNow),
            None => parse_rfc3339(text).map(Self::At),
        };
        moment.ok_or_else(|| {
            "expected a moment such as 2026-11-20T10:00:00Z, or one from now such as +2h".to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_an_address_and_bits() {
        for (text, is_range) in [
            ("10.244.0.0/16", true),
            ("fd00:10::/64", true),
            ("10.0.0.0/33", false),
            ("10.0.0.0/0", false),
            ("10.0.0.0", false),
            ("/16", false),
            ("ten/16", false),
        ] {
            assert_eq!(address_range(text).is_ok(), is_range, "{text}");
        }
    }

    #[test]
    fn a_moment_is_one_of_the_clock_or_from_now() {
        let now = parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment");
        let at = |text: &str| text.parse::<Moment>().map(|moment| moment.seen_from(now).to_rfc3339());
        assert_eq!(at("2026-11-21T00:00:00Z").as_deref(), Ok("2026-11-21T00:00:00+00:00"));
        assert_eq!(at("+2h").as_deref(), Ok("2026-11-20T12:00:00+00:00"));
        assert_eq!(at("+1d").as_deref(), Ok("2026-11-21T10:00:00+00:00"));
        for wrong in ["noon", "+", "+soon", "2h", "-2h", "", "+999999999d"] {
            assert!(at(wrong).expect_err(wrong).starts_with("expected a moment"), "{wrong}");
        }
    }
}
