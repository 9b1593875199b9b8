//! Simulated infrastructure: hosts, nodes, pods and etcd members of workload clusters.
//! Reproduces what machines do; shares no rule with `plan` or `status`.
//! Source: cluster-api `test/infrastructure/{docker,inmemory}`, in-memory backend, v1.14.2.

use std::sync::Arc;

mod add_ons;
mod boot;
mod boot_data;
mod cluster;
mod clusters;
mod conditions;
mod endpoint;
mod etcd;
pub mod faults;
mod finalizers;
mod host;
mod kubeadm;
pub mod kubeadm_hosts;
mod machine;
mod pool;
pub mod ports;
pub mod served;
mod sim_cluster;
mod tenants;
mod workload;
mod world;

#[cfg(test)]
mod host_tests;
#[cfg(test)]
mod tests;

pub use host::Output;
pub use world::World;

use capstan_engine::engine::Engine;
use capstan_engine::workload::JudgedAfter;

/// Every controller that [`register`] adds.
pub const NAMES: [&str; 3] = ["dev-cluster", "dev-machine", "dev-machine-pool"];

/// How the simulated infrastructure behaves.
#[derive(Clone, Copy, Debug)]
pub struct ProviderOptions {
    /// Divides every startup duration.
    pub time_scale: f64,
    /// When the controllers judge a lost connection anew.
    pub judged_after: JudgedAfter,
}

impl Default for ProviderOptions {
    fn default() -> Self {
        Self { time_scale: 1.0, judged_after: JudgedAfter::default() }
    }
}

/// Adds the infrastructure controllers and the world's clockwork to an engine, and returns the world,
/// which is the [`capstan_engine::workload::Workload`] of every in-memory cluster. Register it before the
/// controllers that ask it: the world is rebuilt from the API objects before anything runs.
pub fn register(engine: &mut Engine, options: ProviderOptions) -> Arc<World> {
    let rng = engine.rng().stream("provider");
    let world = World::new(engine.clock().clone(), rng, options.time_scale);
    let world = Arc::new(world.judged_after(options.judged_after));
    let cluster = cluster::DevClusters::new(engine, Arc::clone(&world));
    let machine = machine::DevMachines::new(engine, Arc::clone(&world));
    engine.add(cluster);
    let pool = pool::DevMachinePools::new(engine);
    engine.add(machine);
    engine.add(pool);
    engine.add_background(Arc::clone(&world).clockwork());
    world
}
