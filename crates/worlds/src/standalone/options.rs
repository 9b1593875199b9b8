//! How the parts of a stack run. Must not know which parts there are.

use std::fmt;
use std::sync::Arc;

use capstan_apiserver::Tokens;
use capstan_base::rng::Rng;
use capstan_base::time::Clock;
use capstan_engine::controllers::in_place;
use capstan_engine::engine::lease::LeaseOptions;
use capstan_engine::engine::sharing::Sharing;
use capstan_host_provider::HostSettings;
use capstan_host_provider::access::Machines;

/// Machines that exist, beside the simulated ones.
#[derive(Clone)]
pub struct RealHosts {
    pub machines: Arc<dyn Machines>,
    pub settings: HostSettings,
}

impl fmt::Debug for RealHosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RealHosts").field("settings", &self.settings).finish_non_exhaustive()
    }
}

#[derive(Clone, Debug)]
pub struct StackOptions {
    pub clock: Clock,
    pub rng: Rng,
    /// Divides every simulated duration and the distance between runs; above 0.
    pub time_scale: f64,
    pub tokens: Tokens,
    /// False: only the API server.
    pub engine: bool,
    /// Serve the APIs of simulated clusters that ask for it.
    pub serves_workloads: bool,
    /// Compete for this lease and reconcile only while holding it. `None`: alone with its store.
    pub lease: Option<LeaseOptions>,
    /// With a lease: other processes run some of the controllers.
    pub sharing: Option<Sharing>,
    /// Updates in place; closed by default, as upstream.
    pub in_place: in_place::Settings,
    /// `None`: there are only simulated machines, and every cluster is simulated.
    pub hosts: Option<RealHosts>,
}

impl StackOptions {
    /// An engine alone with its store, in real time, and tokens that are not known anywhere else.
    pub fn new(clock: Clock, rng: Rng) -> Self {
        Self {
            clock,
            rng,
            time_scale: 1.0,
            tokens: Tokens::random(),
            engine: true,
            serves_workloads: true,
            lease: None,
            sharing: None,
            in_place: in_place::Settings::default(),
            hosts: None,
        }
    }
}
