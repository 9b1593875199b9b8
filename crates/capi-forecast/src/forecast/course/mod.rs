//! What follows the next steps: the planner runs again and again, as if every Machine came up, went and was updated as
//! it should. Owns that assumption; every decision is the planner's.

mod control_plane;
mod deployment;

use chrono::TimeDelta;

pub(super) use control_plane::of_control_plane;
pub(super) use deployment::{Leaving, of_deployment, replicas_of};

use super::NextStep;
use super::in_place::Way;
use capstan_base::time::Timestamp;

/// Passes that are looked ahead.
const PASSES_MAX: usize = 60;

pub(super) const NAMES: &str =
    "names of new Machines are drawn when they are made: new1 stands for the first of them";
pub(super) const ALL_GOES_WELL: &str =
    "what follows holds if every Machine comes up and goes as it should, and nothing else is changed";

/// What follows, and what it means for Machines that are there now.
#[derive(Clone, Debug, Default)]
pub(super) struct Course {
    /// After the first pass.
    pub steps: Vec<NextStep>,
    /// Machines that change, in order, with the reason.
    pub ways: Vec<(String, Way, String)>,
    /// The fewest Machines that are available at once.
    pub lowest: usize,
}

/// What stands in a name for the random part of the `count`th new object.
pub(super) fn placeholder(count: usize) -> String {
    format!("new{count}")
}

fn later(now: Timestamp, pass: usize) -> Timestamp {
    let seconds = TimeDelta::seconds(i64::try_from(pass).unwrap_or(0));
    now.checked_add_signed(seconds).unwrap_or(now)
}
