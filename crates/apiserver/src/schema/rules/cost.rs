//! What evaluating CEL costs, in cel-go's units: the same formulas with declared sizes when a definition
//! is written and with actual sizes when a rule runs. Knows no expressions.
//!
//! Source: cel-go `checker/cost.go`, `interpreter/runtimecost.go`, apiserver `pkg/cel/library/cost.go` and
//! `pkg/apis/cel/config.go`, v0.36.
//! Intended difference: at run time, searching and ordering lists counts their items, not the characters in
//! them.

use std::ops::{Add, Mul};

/// Most that one rule may be estimated to cost.
pub(super) const ESTIMATE_MAX: u64 = 10_000_000;
/// Most that all rules of a schema may be estimated to cost.
pub(super) const SCHEMA_ESTIMATE_MAX: u64 = 100_000_000;
/// Most that one evaluation may cost.
pub(super) const CALL_MAX: u64 = 1_000_000;
/// Most that all evaluations of one request may cost.
pub(super) const REQUEST_MAX: u64 = 10_000_000;
/// Largest request, in bytes: what bounds anything without a declared limit.
pub(super) const REQUEST_BYTES_MAX: u64 = 3 * 1024 * 1024;

pub(super) const LIST: Cost = Cost(10);
pub(super) const MAP: Cost = Cost(30);
pub(super) const ONE: Cost = Cost(1);
const CHARACTERS_PER_UNIT: u64 = 10;
const PATTERN_CHARACTERS_PER_UNIT: u64 = 4;
/// Longest regular expression behind a named format.
const FORMAT_PATTERN_MAX: u64 = 128;

/// Units of cost; sums and products stop at the top.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cost(pub(super) u64);

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Mul<u64> for Cost {
    type Output = Self;

    fn mul(self, times: u64) -> Self {
        Self(self.0.saturating_mul(times))
    }
}

/// Reading this many characters.
fn reading(size: u64) -> u64 {
    size.div_ceil(CHARACTERS_PER_UNIT)
}

fn matching(text: u64, pattern: u64) -> u64 {
    // As cel-go: an empty text must not make an expensive pattern free.
    reading(text.saturating_add(1)).saturating_mul(pattern.div_ceil(PATTERN_CHARACTERS_PER_UNIT))
}

/// What a call costs beyond its arguments. `sizes` are those of the receiver, if any, and the arguments.
pub(super) fn of_call(function: &str, sizes: &[u64]) -> Cost {
    let size = |at: usize| sizes.get(at).copied().unwrap_or(0);
    Cost(match function {
        "_&&_" | "_||_" | "_?_:_" => 0,
        // A comparison ends where the shorter one does.
        "_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_" => reading(size(0).min(size(1))),
        "@in" => size(1),
        "matches" => matching(size(0), size(1)),
        "contains" => reading(size(0)).saturating_mul(reading(size(1))),
        "startsWith" | "endsWith" => reading(size(1)),
        "find" | "findAll" => matching(size(0), size(1)),
        "validate" => matching(size(1), FORMAT_PATTERN_MAX),
        "isSorted" | "sum" | "max" | "min" | "includes" | "sort" | "distinct" | "reverse" | "flatten" => {
            size(0)
        }
        "indexOf" | "lastIndexOf" => size(0),
        "url"
        | "isURL"
        | "lowerAscii"
        | "upperAscii"
        | "substring"
        | "trim"
        | "charAt"
        | "jsonpatch.escapeKey"
        | "cidr"
        | "ip"
        | "isIP"
        | "isCIDR"
        | "quantity"
        | "isQuantity"
        | "semver"
        | "isSemver"
        | "strings.quote"
        | "base64.encode"
        | "base64.decode"
        | "format" => reading(size(0)),
        // Twice: what was read is written or compared as well.
        "replace" | "split" | "join" | "ip.isCanonical" => reading(size(0).saturating_mul(2)),
        "containsIP" | "containsCIDR" => 4 + reading(size(1)),
        "sets.contains" | "sets.intersects" => size(0).saturating_mul(size(1)),
        "sets.equivalent" => size(0).saturating_mul(size(1)).saturating_mul(2),
        "lists.range" => size(0),
        _ => 1,
    })
}

/// What adding two values costs: texts are copied, lists are not.
pub(super) fn of_addition(texts: bool, left: u64, right: u64) -> Cost {
    Cost(if texts { reading(left.saturating_add(right)) } else { 1 })
}

/// Why an estimate is refused.
pub(super) fn over_budget(what: &str, cost: Cost, limit: u64) -> String {
    // Only one or six digits are shown.
    let factor = cost.0 as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}
