//! What is true of each kind of object. A module per kind has an `Observed` value, all that its status is a
//! function of, and that function. Must not know what should happen next.

pub mod bootstrap;
pub mod cluster;
pub mod cluster_class;
pub mod control_plane;
pub mod dev;
pub mod extension_config;
pub mod machine;
pub mod machine_deployment;
pub mod machine_health_check;
pub mod machine_pool;
pub mod machine_set;
pub mod topology;
