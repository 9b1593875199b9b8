//! The contract with provider objects, of whatever kind: which contract a kind follows, where its fields are,
//! and what becomes of them in a condition of the owner. Must not know any kind.

pub mod definition;
pub mod mirror;
mod provided;

pub use definition::Contract;
pub use provided::{External, NO_REASON_REPORTED, Provided, reference_to};
