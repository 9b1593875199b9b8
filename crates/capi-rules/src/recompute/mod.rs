//! Statuses of the objects in a dump, computed by the functions that the engine uses, and what in the stored
//! ones differs. Owns one pass over everything; must not know files, an API server, or how it is shown.
//!
//! Each object is judged by the *stored* objects around it, as its controller does in its next pass; statuses
//! computed in the same run are not fed back.

mod class;
pub mod compute;
pub mod diff;
mod gather;
pub mod kept;
mod outcome;
mod topology;

#[cfg(test)]
mod deletion_tests;
#[cfg(test)]
mod tests;

pub use compute::{Computed, all};
