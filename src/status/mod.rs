//! What is true of an object: conditions, counters and phases as pure functions of an `Observed` value.
//! Owns judgement; must not know a client, a runtime, a clock or what should happen next.

pub mod amount;
pub mod condition_ops;
pub mod condition_patch;
pub mod contract;
pub mod definition;
pub mod etcd;
pub mod merge;
pub mod mirrored;
pub mod new_condition;
pub mod remediation;
pub mod selector;
pub mod verdict;
pub mod versions;
pub mod wording;

pub mod bootstrap;
pub mod cluster;
pub mod cluster_class;
pub mod control_plane;
pub mod dev;
pub mod drain;
pub mod machine;
pub mod machine_deployment;
pub mod machine_health_check;
pub mod machine_pool;
pub mod machine_set;
pub mod machine_template;
pub mod machines;
pub mod topology;
pub mod up_to_date;

#[cfg(test)]
mod order;
#[cfg(test)]
mod reasons;
#[cfg(test)]
mod sums;
#[cfg(test)]
pub(crate) mod witness;
