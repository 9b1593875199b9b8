//! Who owns which field of a stored object, as a writer by server-side apply reads it from `managedFields`: whether
//! an apply is due, what has to be handed over before the first one, and how little of it a live copy must keep.
//! Pure and without schemas; must not know a kind, nor why a field is wanted.
//! Source: kubernetes structured-merge-diff v6 (field sets); cluster-api `internal/util/ssa`, v1.14.2 (cache of
//! applies, mitigation and migration of managed fields).

mod due;
mod handover;
mod kept;
#[cfg(test)]
mod tests;

pub use due::{Standing, change, standing};
pub use handover::{Handover, HandoverScope};
pub use kept::{cut_down, keep, keep_values};

use serde_json::Value;

/// The server's name for the owner of everything that was there before owners were recorded.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Not of a subresource.
fn is_main(entry: &Value) -> bool {
    entry["subresource"].as_str().unwrap_or_default().is_empty()
}

fn is_apply_of(entry: &Value, manager: &str) -> bool {
    entry["manager"] == manager && entry["operation"] == "Apply" && is_main(entry)
}
