//! What is true of an object: conditions, counters and phases as pure functions of an `Observed` value.
//! Owns judgement; must not know a client, a runtime, a clock or what should happen next.

pub mod condition_ops;
pub mod contract;
pub mod etcd;
pub mod health;
pub mod merge;
pub mod remediation;
pub mod selector;
pub mod versions;
pub mod wording;

pub mod bootstrap;
pub mod cluster;
pub mod control_plane;
pub mod drain;
pub mod machine;
pub mod machine_deployment;
pub mod machine_set;
pub mod machine_template;
pub mod machines;
pub mod up_to_date;
