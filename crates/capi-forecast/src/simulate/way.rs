//! How one world is gone through: who acts, in which order, how fast, until when, and what goes wrong. Owns these choices; must
//! not know how they are carried out.

use std::sync::Arc;
use std::time::Duration;

use super::agenda::Order;
use super::answers::InPlaceAnswers;
use super::timing::Tempo;
use capstan_base::rng::Rng;

/// How one world is gone through.
#[derive(Clone, Debug)]
pub struct Way {
    pub order: Order,
    pub actors: Actors,
    pub tempo: Tempo,
    pub until: Until,
    /// How long after the last change a look still counts.
    pub horizon: Duration,
    pub faults: Faults,
    /// What extensions said to updates in place; `None`: Machines are only replaced.
    pub in_place: Option<Arc<InPlaceAnswers>>,
}

/// Who acts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Actors {
    #[default]
    All,
    /// MachineDeployments and MachineSets take turns; Machines are up at once.
    Planner,
}

/// When a run is over although something is left to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    Settled,
    /// So many runs of controllers that did something.
    Steps(usize),
    /// So many runs of controllers beyond the first of each.
    Runs(u64),
}

/// What goes wrong.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Machines, by name, whose Node fails at the beginning.
    pub failing: Vec<String>,
    /// Of the Machines that are made, those with these numbers never become Nodes; the first is 1.
    pub stillborn: Vec<usize>,
    /// One run of a controller in so many is cut after some of its writes. The seed draws which.
    pub cut_one_in: Option<(u64, Rng)>,
}
