//! The plans of the cluster that is on the screen, as they were read last. Owns when they are read again: when
//! the cluster comes to the screen, and after it changed, with a rest in between that grows with what reading
//! costs. Must not read or plan anything.

use rustc_hash::FxHashMap;

use super::subject::{PlannedCluster, Subject, Want};
use crate::actions::Author;
use crate::fleet::{Changes, Fleet, Row};
use capi_forecast::forecast::{Forecast, ObjectPlan};
use capi_forecast::simulate::Forecast as Ahead;

/// The shortest rest between two readings.
const REST_MIN_MS: u64 = 3_000;
/// A reading may take this part of the time.
const REST_FACTOR: u64 = 10;

/// A reading of plans. Text in it is sanitised.
#[derive(Debug)]
pub struct PlanReading {
    pub plans: Result<Forecast, String>,
    /// How the cluster goes on from there; `None` where that was not run ahead.
    pub ahead: Option<Ahead>,
    /// Who asked for what rolls.
    pub authors: Vec<Author>,
    pub took_ms: u64,
}

/// What is known of them.
#[derive(Default)]
pub struct Plans {
    of: Option<PlannedCluster>,
    forecast: Option<Forecast>,
    ahead: Option<Ahead>,
    authors: Vec<Author>,
    /// Places in the forecast, by `KIND/NAME`.
    places: FxHashMap<String, usize>,
    /// Why what is known may be old, or nothing is.
    trouble: Option<String>,
    /// The cluster changed since the last reading began.
    is_stale: bool,
    rest_ms: u64,
}

impl Plans {
    /// What to read so that the plans of a cluster are known; nothing when they are, or when they are being read.
    pub fn want(&self, cluster: PlannedCluster) -> Option<Want> {
        // Nothing is known of this one yet, so that no rest is due.
        if self.of.as_ref() != Some(&cluster) {
            return Some(Want::now(Subject::Plans(cluster)));
        }
        let wait_ms = self.rest_ms.max(REST_MIN_MS);
        self.is_stale.then(|| Want::after(Subject::Plans(cluster), wait_ms))
    }

    /// They are being read from now on. Those of another cluster are forgotten.
    pub fn begin(&mut self, cluster: &PlannedCluster) {
        self.is_stale = false;
        if self.of.as_ref() != Some(cluster) {
            *self = Self { of: Some(cluster.clone()), ..Self::default() };
        }
    }

    pub fn note(&mut self, fleet: &Fleet, changes: &Changes) {
        let Some(of) = &self.of else { return };
        let cluster = fleet.find(of.source, of.uid);
        self.is_stale |= changes.is_replaced || cluster.is_some_and(|id| changes.clusters.contains(&id));
    }

    /// An answer. One about another cluster is late.
    pub fn take(&mut self, of: &PlannedCluster, reading: PlanReading) {
        if self.of.as_ref() != Some(of) {
            return;
        }
        // Also after a failure: a server in trouble is asked less often.
        self.rest_ms = reading.took_ms.saturating_mul(REST_FACTOR);
        match reading.plans {
            Ok(forecast) => {
                self.authors = reading.authors;
                self.ahead = reading.ahead;
                self.places = forecast.objects.iter().map(ObjectPlan::id).zip(0..).collect();
                self.forecast = Some(forecast);
                self.trouble = None;
            }
            Err(why) => self.trouble = Some(why),
        }
    }

    /// The plan of an object; `None` when none is known or the kind has none.
    pub fn of_row(&self, row: &Row) -> Option<&ObjectPlan> {
        let of = self.of.as_ref()?;
        if of.source != row.source || of.key.namespace != row.namespace.as_ref() {
            return None;
        }
        let place = *self.places.get(&format!("{}/{}", row.gvk.kind, row.name))?;
        self.forecast.as_ref()?.objects.get(place)
    }

    /// How a cluster goes on from the moment of the reading ([`Self::at`]).
    pub fn ahead(&self, cluster: &Row) -> Option<&Ahead> {
        let of = self.of.as_ref()?;
        let is_its = of.source == cluster.source && of.key == cluster.key();
        self.ahead.as_ref().filter(|_| is_its)
    }

    /// Who asked last for the Machines that an object's spec describes.
    pub fn author_of(&self, row: &Row) -> Option<&Author> {
        let of = self.of.as_ref().filter(|of| of.source == row.source)?;
        let is_here = of.key.namespace == row.namespace.as_ref();
        let is_of = |author: &&Author| author.kind == row.gvk.kind && author.name == row.name.as_ref();
        self.authors.iter().filter(|_| is_here).find(is_of)
    }

    /// Nothing has changed since, or what changed is being read.
    pub fn is_current(&self) -> bool {
        !self.is_stale
    }

    /// The plans of what is below an object, from the whole to its parts.
    pub fn below<'a>(&'a self, plan: &ObjectPlan) -> impl Iterator<Item = &'a ObjectPlan> {
        let id = plan.id();
        let all = self.forecast.iter().flat_map(|forecast| &forecast.objects);
        all.filter(move |other| other.within.contains(&id))
    }

    /// What could not be read or is not planned, in sentences.
    pub fn remarks(&self) -> &[String] {
        self.forecast.as_ref().map_or(&[], |forecast| &forecast.remarks)
    }

    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// The moment of the reading, RFC 3339; `None` before the first.
    pub fn at(&self) -> Option<&str> {
        self.forecast.as_ref().map(|forecast| forecast.at.as_str())
    }
}
