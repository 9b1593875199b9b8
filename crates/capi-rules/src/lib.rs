//! What is true of the objects of Cluster API, what should happen next, what they may look like, and what the statuses
//! of a dump should be: pure functions without a client, a clock or chance. Must not know how objects are read or written.

#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

pub mod admission;
pub mod etcd;
pub mod observe;
pub mod plan;
pub mod recompute;
pub mod status;
