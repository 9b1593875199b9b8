//! What is simulated, and how. Must not know what comes of it.

use std::sync::Arc;
use std::time::Duration as Delay;

use super::agenda::Order;
use super::announced::{Announced, AnnouncedCause};
use super::answers::InPlaceAnswers;
use super::chronicle::Detail;
use super::timing::Tempo;
use super::timings::Timings;
use super::way::{Actors, Faults, Until, Way};
use capstan_base::rng::Rng;
use capstan_base::time::Timestamp;

/// After the last change, so long something that was announced for later is still waited for.
pub const HORIZON: Delay = Delay::from_secs(24 * 3600);

/// What is simulated, and how.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Chance in the order of controllers; without a seed they run in their fixed order.
    pub seed: Option<u64>,
    pub actors: Actors,
    pub until: Until,
    pub horizon: Delay,
    pub detail: Detail,
    pub timings: Timings,
    pub faults: Faults,
    /// What extensions said to updates in place; `None`: Machines are only replaced.
    pub in_place: Option<Arc<InPlaceAnswers>>,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            seed: None,
            actors: Actors::All,
            until: Until::Settled,
            horizon: HORIZON,
            detail: Detail::Sequence,
            timings: Timings::default(),
            faults: Faults::default(),
            in_place: None,
        }
    }
}

impl Scenario {
    /// Waits for what is announced for later, however late.
    pub fn waiting_for(mut self, announced: &[Announced], now: Timestamp) -> Self {
        let starts = announced.iter().filter(|one| one.cause == AnnouncedCause::Schedule);
        if let Some(latest) = starts.map(|one| one.at).max() {
            self.horizon += (latest - now).to_std().unwrap_or_default();
        }
        self
    }

    /// How one run goes.
    pub(super) fn way(&self, tempo: Tempo) -> Way {
        let mut faults = self.faults.clone();
        // Runs that go side by side draw by themselves.
        faults.cut_one_in = faults.cut_one_in.map(|(one_in, rng)| (one_in, rng.stream("way")));
        let order = self.seed.map_or(Order::Fixed, |seed| Order::Random(Rng::seeded(seed).stream("order")));
        Way {
            order,
            actors: self.actors,
            tempo,
            until: self.until,
            horizon: self.horizon,
            faults,
            in_place: self.in_place.clone(),
        }
    }
}
