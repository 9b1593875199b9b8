//! What a judgement rests on, in a few words. Owns the words; must not know which objects are near, nor how the
//! words are drawn.

use super::explanation::Explanations;
use super::judge::{Basis, Judgement};
use super::pending::pending;
use super::plain_words::{first_words, plain_words};
use super::row::{Condition, Counters, FAILURE, Misshapen, Row, moment};
use crate::fleet::Verdict;
use capi_types::condition_types::condition_type;

/// The evidence for a judgement as the object says it; empty for "nothing".
pub(super) fn words(row: &Row, judgement: Judgement, now_s: u32) -> String {
    with_time_taken(evidence(row, judgement, &of_condition), judgement, now_s)
}

/// The same in plain words, for a row: what is wrong comes first.
pub(super) fn short_words(
    row: &Row,
    judgement: Judgement,
    now_s: u32,
    explanations: &Explanations,
) -> String {
    with_time_taken(evidence(row, judgement, &|c| plain_words(c, explanations)), judgement, now_s)
}

fn with_time_taken(evidence: String, judgement: Judgement, now_s: u32) -> String {
    match judgement.slow {
        Some(slow) => {
            let taken_s = now_s.saturating_sub(slow.since_s);
            format!("{evidence}, {taken_s} s, usual {}-{} s", slow.low_s, slow.high_s)
        }
        None => evidence,
    }
}

fn evidence(row: &Row, judgement: Judgement, of_condition: &dyn Fn(&Condition) -> String) -> String {
    match judgement.why {
        Basis::Nothing => String::new(),
        Basis::Condition(at) => row.conditions.get(at).map(of_condition).unwrap_or_default(),
        Basis::NotReported => "no status reported yet".to_owned(),
        Basis::ControlPlaneNotRead => control_plane_not_read(row),
        Basis::Deleting => "deleting".to_owned(),
        Basis::Behind => {
            format!("status is behind spec (generation {} of {})", row.observed_generation, row.generation)
        }
        Basis::Counters => row.counters().map_or_else(String::new, of_counters),
        Basis::Phase => row.phase.to_string(),
        Basis::Certificates => certificates(row, judgement),
        Basis::Pending => format!("paused, {} pending", pending(row)),
        Basis::Misshapen => {
            let part = if row.misshapen == Misshapen::Spec { "spec" } else { "status" };
            format!("cannot be decoded: its {part} is not an object")
        }
    }
}

/// Type and reason of the evidence; what is not a condition has the type `Status`.
pub(super) fn type_and_reason(row: &Row, why: Basis) -> (&str, &str) {
    match why {
        Basis::Nothing => ("", ""),
        Basis::Condition(at) => match row.conditions.get(at) {
            // Explained as the phase `Failed`, which says the same.
            Some(c) if c.type_.as_ref() == FAILURE => ("Status", "Failed"),
            Some(c) => (&c.type_, &c.reason),
            None => ("", ""),
        },
        Basis::NotReported => ("Status", "NotReported"),
        Basis::ControlPlaneNotRead => ("Status", "ControlPlaneNotRead"),
        Basis::Deleting => ("Deleting", "Deleting"),
        Basis::Behind => ("Status", "Behind"),
        Basis::Counters => ("Status", "CountersDiffer"),
        Basis::Phase if row.phase.as_ref() == "Failed" => ("Status", "Failed"),
        Basis::Phase => ("Status", "Phase"),
        Basis::Certificates => ("Status", "CertificatesEnd"),
        Basis::Pending => ("Status", "Pending"),
        Basis::Misshapen => ("Status", "Misshapen"),
    }
}

fn certificates(row: &Row, judgement: Judgement) -> String {
    let end = row.machine().and_then(|machine| moment(machine.certificates_end_s));
    let day = end.map_or_else(String::new, |end| end.format("%Y-%m-%d").to_string());
    let word = if judgement.verdict == Verdict::Blocked { "ended" } else { "end" };
    format!("its certificates {word} on {day}")
}

fn control_plane_not_read(row: &Row) -> String {
    let named = row.cluster_facts().and_then(|facts| facts.control_plane_ref.as_ref());
    let words =
        named.map(|named| format!("{} {}", named.kind.kind, named.name.as_deref().unwrap_or(&row.name)));
    format!("{} was not read", words.unwrap_or_else(|| "the control plane".to_owned()))
}

fn of_condition(c: &Condition) -> String {
    let message = first_words(&c.message);
    let speaks_for_itself = condition_type(&c.type_).is_some_and(|type_| type_.message_names_type);
    if speaks_for_itself && !message.is_empty() {
        message.to_owned()
    } else {
        format!("{}: {}", c.type_, if message.is_empty() { &c.reason } else { message })
    }
}

fn of_counters(c: Counters) -> String {
    let desired = c.desired.unwrap_or_default();
    let differs =
        |n: Option<u32>, word: &str| n.filter(|n| *n != desired).map(|n| format!("{n}/{desired} {word}"));
    differs(c.current, "replicas")
        .or_else(|| differs(c.up_to_date, "up to date"))
        .or_else(|| differs(c.ready, "ready"))
        .or_else(|| differs(c.available, "available"))
        .unwrap_or_default()
}
