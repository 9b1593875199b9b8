//! Everything that pretends: simulated machines and their workload clusters, controller managers, the reference
//! extension, sample fleets, and the standalone process that runs them. Must not know screens.

pub mod controller_managers;
pub mod extension;
pub mod provider;
pub mod samples;
pub mod standalone;
pub mod workload_api;
