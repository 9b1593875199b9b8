//! What a rollout does now, what it assumes, and when it is through: the fleet's picture and the plans put together.
//! What acts is named, never what waits for its turn. Must not know how it is drawn.

use super::ahead::course;
use super::hold::{Hold, holds};
use super::next::next;
use super::sources::Sources;
use crate::fleet::{Arrival, Fleet, MachinePhase, Rollout, RowId};
use crate::tui::plans::Plans;
use capi_forecast::forecast::State;

/// Assumptions that are named.
const ASSUMED_MAX: usize = 3;

/// A Machine that something happens to.
#[derive(Clone, Debug, PartialEq)]
pub struct Acting {
    pub id: RowId,
    pub owner: RowId,
    pub is_old: bool,
    pub phase: MachinePhase,
    /// When that began, seconds since the epoch; 0: not known.
    pub since_s: u32,
    /// It takes longer than usual; what is usual, seconds.
    pub usual_s: Option<(u32, u32)>,
    pub is_slow: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct RolloutOutlook {
    /// Slow ones first, then by when it began.
    pub acting: Vec<Acting>,
    /// In order, numbered when they are shown.
    pub next: Vec<String>,
    pub held: Vec<Hold>,
    pub assumed: Vec<String>,
    /// Of the owners of the rollout, in their order.
    pub arrivals: Vec<Option<Arrival>>,
    /// Of everything that is under way; `None` when part of it cannot be estimated, or is held.
    pub arrival: Option<Arrival>,
}

/// Puts the fleet's picture and the plans together.
pub fn outlook(fleet: &Fleet, rollout: &Rollout, plans: &Plans) -> RolloutOutlook {
    let sources = Sources { fleet, rollout, plans };
    let held = holds(sources);
    let course = course(sources);
    let arrivals = match course {
        Some(course) => {
            let owners = rollout.owners.iter().map(|owner| fleet.row(owner.id));
            owners.map(|row| row.and_then(|row| course.arrival_of(row))).collect()
        }
        None => arrivals(sources),
    };
    let under_way = || rollout.owners.iter().zip(&arrivals).filter(|(owner, _)| owner.stage.is_under_way());
    let all_known = under_way().next().is_some() && under_way().all(|(_, arrival)| arrival.is_some());
    let estimated = || under_way().filter_map(|(_, arrival)| *arrival).reduce(later).filter(|_| all_known);
    let arrival = match course {
        Some(course) => course.arrival(),
        None => estimated(),
    };
    // What is held ends by a person alone, whose time cannot be foreseen.
    let arrival = arrival.filter(|_| held.is_empty());
    let ahead = course.map(|course| course.next(sources)).filter(|lines| !lines.is_empty());
    RolloutOutlook {
        acting: acting(sources),
        next: ahead.unwrap_or_else(|| next(sources)),
        assumed: assumed(sources, arrival),
        held,
        arrivals,
        arrival,
    }
}

fn later(a: Arrival, b: Arrival) -> Arrival {
    Arrival {
        low_s: a.low_s.max(b.low_s),
        high_s: a.high_s.max(b.high_s),
        is_measured: a.is_measured && b.is_measured,
    }
}

fn acting(sources: Sources<'_>) -> Vec<Acting> {
    let mut all: Vec<Acting> = Vec::new();
    // No controller works on a Cluster that is paused.
    if sources.row(sources.rollout.cluster).is_some_and(|cluster| cluster.paused) {
        return all;
    }
    for owner in sources.rollout.owners.iter().filter(|owner| owner.stage.is_under_way()) {
        all.extend(owner.moving().map(|machine| {
            let slow = sources.fleet.judgement(machine.id).and_then(|judgement| judgement.slow);
            let usual = match &machine.phase {
                MachinePhase::Starting { usual, .. } => usual.map(|limits| (limits.low_s, limits.high_s)),
                _ => None,
            };
            Acting {
                id: machine.id,
                owner: owner.id,
                is_old: machine.is_old,
                phase: machine.phase.clone(),
                since_s: machine.since_s,
                usual_s: slow.filter(|s| s.low_s > 0).map(|s| (s.low_s, s.high_s)).or(usual),
                is_slow: slow.is_some(),
            }
        }));
    }
    all.sort_by_key(|acting| (!acting.is_slow, acting.since_s, acting.id));
    all
}

/// Control planes from now on; what waits for them from their end on.
fn arrivals(sources: Sources<'_>) -> Vec<Option<Arrival>> {
    let now = (sources.rollout.at_s, sources.rollout.at_s);
    let mut planes: Option<Arrival> = None;
    let mut all = Vec::new();
    for owner in &sources.rollout.owners {
        let start = match planes {
            Some(plane) if sources.waits_its_turn(owner) => Some((plane.low_s, plane.high_s)),
            // Where the end of the control plane is not known, nothing can be said of what waits
            // for it.
            None if sources.waits_its_turn(owner) => None,
            _ => Some(now),
        };
        let arrival = start.and_then(|start| owner.arrival(start));
        if owner.is_control_plane {
            planes = planes.into_iter().chain(arrival).reduce(later);
        }
        all.push(arrival);
    }
    all
}

/// What the outlook takes for true, in sentences.
fn assumed(sources: Sources<'_>, arrival: Option<Arrival>) -> Vec<String> {
    let mut all: Vec<String> = sources.rollout.unread.clone();
    if sources.rollout.moving().next().is_some() {
        if let Some(why) = sources.plans.trouble() {
            all.push(format!("the plan could not be read: {why}"));
        }
        let ahead = sources.row(sources.rollout.cluster).and_then(|row| sources.plans.ahead(row));
        match (arrival, ahead) {
            (Some(arrival), None) if !arrival.is_measured => {
                all.push("the end is estimated by what other Machines of this cluster took".to_owned());
            }
            (Some(_), Some(ahead)) => all.extend(ahead.assumptions.iter().cloned()),
            _ => {}
        }
        let owners = sources.rollout.owners.iter().filter(|owner| owner.stage.is_under_way());
        for plan in owners.filter_map(|owner| sources.plans.of_row(sources.row(owner.id)?)) {
            if plan.state == State::Unknown {
                all.extend(
                    plan.blockers
                        .iter()
                        .map(|held| format!("{} is not planned: {}", plan.name, held.sentence)),
                );
            }
            all.extend(plan.brief_assumptions().map(str::to_owned));
        }
        all.extend(sources.plans.remarks().iter().cloned());
    }
    let mut unique: Vec<String> = Vec::new();
    for one in all {
        if !unique.contains(&one) {
            unique.push(one);
        }
    }
    let more = unique.len().saturating_sub(ASSUMED_MAX);
    // A line that counts one sentence has no more room than the sentence.
    if more > 1 {
        unique.truncate(ASSUMED_MAX);
        unique.push(format!("and {more} more: :plan and :simulate have all of them"));
    }
    unique
}
