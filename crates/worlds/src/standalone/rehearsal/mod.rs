//! A leader migration played in virtual time: a server in memory, control plane nodes whose simulated controller managers
//! compete for real Leases there, and the walkthrough judged from what a cluster would show. Owns the cast and the log;
//! what is done to the cluster is in `course` and `failures`, what the processes make of it in `controller_managers`.

mod course;
mod failures;
mod stage;

pub use course::{WAYS_BACK, way_back, whole_way};
pub use failures::{FAILURES, FailureEffect, failure};
pub use stage::{Cast, Played, RehearsalError, in_virtual_time};
