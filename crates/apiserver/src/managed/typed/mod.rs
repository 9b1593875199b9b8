//! Values seen through their shape: what they consist of, how two differ, how they merge, what can be
//! taken out, whether they fit. Pure functions; must not know managers.
//!
//! Source: structured-merge-diff v6 `typed`. Its extraction of what one manager owns is a client's
//! tool and is not here.

mod check;
mod compare;
mod merge;
mod reconcile;
mod remove;
#[cfg(test)]
pub(super) mod tests;
mod to_set;

pub use check::check;
pub use compare::{Comparison, compare};
pub use merge::merge;
pub use reconcile::reconcile;
pub use remove::remove;
pub use to_set::{to_set, with_named};

use serde_json::Value;

use super::element::Scalar;

/// Equal, where numbers are compared by value: 1 and 1.0 are the same.
/// Source: structured-merge-diff v6 `value/value.go` (`Equals`).
pub fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(_), Value::Number(_)) => Scalar::of(a) == Scalar::of(b),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            // Maps are sorted by key, so equal ones have their fields in the same places.
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0 && equal(a.1, b.1))
        }
        _ => a == b,
    }
}

/// An empty list or map, or null.
fn is_hollow(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}
