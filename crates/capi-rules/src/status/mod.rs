//! What is true of an object: conditions, counters and phases as pure functions of an `Observed` value.
//! Owns judgement; must not know a client, a runtime, a clock or what should happen next.

pub mod amount;
pub mod conditions;
pub mod contract;
pub mod drain;
pub mod fields;
pub mod in_place;
mod kinds;
pub mod machine_template;
pub mod machines;
pub mod outside_owners;
pub mod remediation;
pub mod support;
pub mod versions;

pub use kinds::{
    bootstrap, cluster, cluster_class, control_plane, dev, extension_config, machine, machine_deployment,
    machine_health_check, machine_pool, machine_set, topology,
};

#[cfg(test)]
pub(crate) mod tests;
