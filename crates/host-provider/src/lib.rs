//! Machines that exist as infrastructure of Cluster API: what is known of them, who has them, how they become nodes and are
//! cleaned again. Owns the controllers of Host, HostPool, HostMachine and HostCluster. What a machine is asked and told says
//! `capstan_hosts`; how a shell on it is reached, `capstan_remote`.

use std::sync::Arc;
use std::time::Duration;

pub mod access;
mod cleaning;
mod cluster;
mod host;
mod machine;
pub mod plan;
mod pool;
pub mod reach;
pub mod ssh;
mod wiping;

use capstan_engine::engine::Engine;
use capstan_engine::workload::Workload;

pub use machine::plan_of;

use access::Machines;

/// Every controller that [`register`] adds.
pub const NAMES: [&str; 4] = [host::NAME, machine::NAME, cluster::NAME, pool::NAME];

/// Field manager of their writes.
const MANAGER: &str = "capstan-hosts";

/// While a run is watched.
pub const WATCH_EVERY: Duration = Duration::from_secs(3);
/// A machine that did not answer is asked again, and something that nothing announces is looked for.
const TRY_EVERY: Duration = Duration::from_secs(15);
/// The next step needs no wait.
const AT_ONCE: Duration = Duration::from_millis(1);

/// What people may choose.
#[derive(Clone, Debug)]
pub struct HostSettings {
    /// Names this capstan in owner files: letters, digits, `.`, `-`, `_`.
    pub installation: String,
    /// Machines are asked, nothing on them is changed, and none is claimed.
    pub read_only: bool,
}

/// Adds the controllers to an engine. `workload` is asked for the Nodes of clusters.
pub fn register(
    engine: &mut Engine,
    machines: Arc<dyn Machines>,
    workload: Arc<dyn Workload>,
    settings: &HostSettings,
) {
    let hosts = host::Hosts::new(engine, Arc::clone(&machines), settings);
    let host_machines = machine::HostMachines::new(engine, machines, workload, settings);
    let (clusters, pools) = (cluster::HostClusters::new(engine), pool::HostPools::new(engine));
    engine.add(hosts);
    engine.add(host_machines);
    engine.add(clusters);
    engine.add(pools);
}
