//! What a server and its network do to an engine by chance: refused and lost requests, conflicts, slow answers, watches that
//! end. Owns the draws; must not know what the engine does about it.

use std::sync::Arc;
use std::time::Duration;

use capstan_base::rng::Rng;
use http::{Method, Request, StatusCode};
use kube::client::Body;
use parking_lot::Mutex;

use crate::simulation::Disturbance;

/// How often each happens, one in so many requests; 0: never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weather {
    /// 500 and 503, nothing is done.
    pub refused: u64,
    /// 409 for a write, nothing is done.
    pub conflicts: u64,
    /// It is done, and the answer is lost.
    pub lost: u64,
    /// It takes up to five seconds.
    pub slow: u64,
    /// A watch ends within a minute, or is too old at once.
    pub watches: u64,
}

/// The weather of a run: from now on, or no longer.
#[derive(Clone)]
pub struct Sky {
    rng: Rng,
    weather: Arc<Mutex<Weather>>,
}

impl Sky {
    pub fn new(rng: Rng, weather: Weather) -> Self {
        Self { rng, weather: Arc::new(Mutex::new(weather)) }
    }

    pub fn clear(&self) {
        *self.weather.lock() = Weather::default();
    }

    pub fn disturb(&self, request: &Request<Body>) -> Disturbance {
        let weather = *self.weather.lock();
        let is_write = request.method() != Method::GET;
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let strikes = |one_in: u64| one_in > 0 && self.rng.below(one_in) == 0;
        if is_watch {
            return match strikes(weather.watches) {
                true if self.rng.below(4) == 0 => Disturbance::Refuse(StatusCode::GONE),
                true => Disturbance::CutAfter(Duration::from_secs(self.rng.below(60))),
                false => Disturbance::None,
            };
        }
        if strikes(weather.refused) {
            let codes = [StatusCode::INTERNAL_SERVER_ERROR, StatusCode::SERVICE_UNAVAILABLE];
            return Disturbance::Refuse(codes[usize::try_from(self.rng.below(2)).unwrap_or(0)]);
        }
        if is_write && strikes(weather.conflicts) {
            return Disturbance::Refuse(StatusCode::CONFLICT);
        }
        if is_write && strikes(weather.lost) {
            return Disturbance::Lose;
        }
        if strikes(weather.slow) {
            return Disturbance::Delay(Duration::from_millis(self.rng.below(5_000)));
        }
        Disturbance::None
    }
}
