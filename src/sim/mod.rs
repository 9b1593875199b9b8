//! Server, engine and provider in one thread on one clock, and the named starting fleets.

pub mod load;
pub mod pending;
pub mod scenario;
pub mod stack;
