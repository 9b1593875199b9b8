//! What is simulated, and how. Must not know what comes of it.

use std::time::Duration as Delay;

use super::agenda::Order;
use super::chronicle::Detail;
use super::course::{Faults, Timings, Until, Way};
use super::timing::Tempo;
use crate::rng::Rng;

/// After the last change, so long something that was announced for later is still waited for.
pub const HORIZON: Delay = Delay::from_secs(24 * 3600);

/// What is simulated, and how.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Chance in the order of controllers; without a seed they run in their fixed order.
    pub seed: Option<u64>,
    pub until: Until,
    pub horizon: Delay,
    pub detail: Detail,
    pub timings: Timings,
    pub faults: Faults,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            seed: None,
            until: Until::Settled,
            horizon: HORIZON,
            detail: Detail::Sequence,
            timings: Timings::default(),
            faults: Faults::default(),
        }
    }
}

impl Scenario {
    /// How one run goes.
    pub(super) fn way(&self, tempo: Tempo) -> Way {
        let order = self.seed.map_or(Order::Fixed, |seed| Order::Random(Rng::seeded(seed).stream("order")));
        Way { order, tempo, until: self.until, horizon: self.horizon, faults: self.faults.clone() }
    }
}
