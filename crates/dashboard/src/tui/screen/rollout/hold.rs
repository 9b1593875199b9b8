//! What holds a rollout: the rule, its evidence, since when, and the command that helps. What waits until something else
//! in the same rollout is through is not held. Must not know how it is drawn.

use super::sources::Sources;
use crate::fleet::Verdict;
use crate::fleet::{MachinePhase, OwnerRollout, OwnerStage, RowId};
use capi_forecast::forecast::{Held, ObjectPlan, State};
use capi_types::condition::Status;
use capi_types::preflight::PreflightCheck;
use capstan_base::time::parse_rfc3339;

/// One reason why a rollout does not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// A stable name, as in a plan.
    pub rule: String,
    pub sentence: String,
    /// Objects with the condition or field that shows it.
    pub evidence: Vec<String>,
    /// Seconds since the epoch.
    pub since_s: Option<u32>,
    /// The object to act on.
    pub of: RowId,
    /// A command line that helps when `of` is selected, and what it does.
    pub help: Option<(&'static str, &'static str)>,
}

/// Everything that holds something, the control plane's first.
pub(super) fn holds(sources: Sources<'_>) -> Vec<Hold> {
    let mut all = Vec::new();
    for owner in &sources.rollout.owners {
        let of_owner = match &owner.stage {
            OwnerStage::Paused => vec![paused(sources, owner)],
            OwnerStage::OnDelete => vec![on_delete(owner)],
            OwnerStage::Waiting { .. } | OwnerStage::FollowsTopology if sources.waits_its_turn(owner) => {
                Vec::new()
            }
            OwnerStage::Waiting { check, reason, of, since_s } => {
                let planned = by_plan(sources, owner);
                let own = waiting(check.as_deref(), reason, *of, *since_s);
                // The plan has the evidence; the condition has to do where there is none.
                if planned.is_empty() { vec![own] } else { planned }
            }
            OwnerStage::Rolling => [by_machines(sources, owner), by_plan(sources, owner)].concat(),
            _ => Vec::new(),
        };
        for hold in of_owner {
            // Several pools may wait for the same, which is said once.
            let is_known = |known: &Hold| known.rule == hold.rule && known.sentence == hold.sentence;
            if !all.iter().any(is_known) {
                all.push(hold);
            }
        }
    }
    all
}

fn paused(sources: Sources<'_>, owner: &OwnerRollout) -> Hold {
    let cluster = sources.row(sources.rollout.cluster);
    let by_cluster = cluster.is_some_and(|row| row.paused);
    let of = if by_cluster { sources.rollout.cluster } else { owner.id };
    let row = sources.row(of);
    let condition = row.and_then(|row| row.condition("Paused"));
    let since = condition.filter(|c| c.status == Status::True);
    Hold {
        rule: "paused".to_owned(),
        sentence: row.map_or_else(String::new, |row| format!("{} {} is paused", row.gvk.kind, row.name)),
        evidence: Vec::new(),
        since_s: since.map(|c| c.since_s).filter(|s| *s != 0),
        of,
        help: Some(("resume", "resumes it")),
    }
}

fn on_delete(owner: &OwnerRollout) -> Hold {
    let first = owner.old().next();
    Hold {
        rule: "on-delete".to_owned(),
        sentence: "old Machines are replaced only when somebody deletes them (strategy OnDelete)".to_owned(),
        evidence: Vec::new(),
        since_s: None,
        of: first.map_or(owner.id, |machine| machine.id),
        help: first.map(|_| ("delete", "deletes this Machine")),
    }
}

fn waiting(check: Option<&str>, reason: &str, of: RowId, since_s: u32) -> Hold {
    Hold {
        rule: check.unwrap_or("blocked").to_owned(),
        sentence: reason.to_owned(),
        evidence: Vec::new(),
        since_s: Some(since_s).filter(|s| *s != 0),
        of,
        help: help_for(reason),
    }
}

/// Only another version ends a version skew.
fn help_for(sentence: &str) -> Option<(&'static str, &'static str)> {
    let is_skew = PreflightCheck::named_in(sentence).any(PreflightCheck::needs_another_version);
    is_skew.then_some(("prompt set-version", "sets another version"))
}

/// Machines that do not come up or do not go.
fn by_machines(sources: Sources<'_>, owner: &OwnerRollout) -> Vec<Hold> {
    let mut all = Vec::new();
    for machine in &owner.machines {
        let name = sources.name(machine.id);
        let hold = |rule: &str, sentence: String, since_s: u32| Hold {
            rule: rule.to_owned(),
            sentence,
            evidence: Vec::new(),
            since_s: Some(since_s).filter(|s| *s != 0),
            of: machine.id,
            help: None,
        };
        match &machine.phase {
            MachinePhase::Deleting { is_held_by_budget: true, .. } => {
                let sentence = format!("{name} does not drain: a disruption budget lets no more Pods go");
                all.push(hold("disruption-budget", sentence, machine.since_s));
            }
            MachinePhase::Deleting { reason, .. } if reason.as_ref() == "WaitingForPreDrainHook" => {
                let sentence = format!("{name} waits until its pre-drain hooks are taken off");
                all.push(hold("pre-drain-hook", sentence, machine.since_s));
            }
            // A worker that is not well is the first to go.
            _ if machine.verdict >= Verdict::Degraded && (owner.is_control_plane || !machine.is_old) => {
                let since_s = sources.fleet.judgement(machine.id).map_or(0, |judgement| judgement.since_s);
                let words = sources.fleet.what_is_wrong(machine.id);
                all.push(hold("machine-not-well", format!("{name}: {words}"), since_s));
            }
            _ => {}
        }
    }
    // Many Machines with one fault would hide the rest.
    all.truncate(3);
    all
}

/// What the plans of the owner and of what is below it are blocked by.
fn by_plan(sources: Sources<'_>, owner: &OwnerRollout) -> Vec<Hold> {
    let Some(plan) = sources.plan(owner.id).filter(|_| sources.plans.is_current()) else { return Vec::new() };
    let sets = sources.plans.below(plan).filter(|below| below.kind == "MachineSet");
    let blocked = std::iter::once(plan).chain(sets).filter(|plan| plan.state == State::Blocked);
    blocked
        .flat_map(|plan| plan.blockers.iter().filter(|held| !held.on_its_way).map(move |held| (plan, held)))
        .filter(|(_, held)| {
            // Checks that wait for a control plane which rolls are a turn that comes, not a hold.
            !(held.rule == "preflight" && sources.rollout.control_plane_rolls() && !owner.is_control_plane)
        })
        .map(|(plan, held)| planned(sources, owner, plan, held))
        .collect()
}

fn planned(sources: Sources<'_>, owner: &OwnerRollout, plan: &ObjectPlan, held: &Held) -> Hold {
    let evidence = held.evidence.iter().map(|seen| match (&seen.condition, &seen.field) {
        (Some(type_), _) => format!("{} {type_} {}", seen.object, seen.value),
        (None, Some(path)) => format!("{} {path}: {}", seen.object, seen.value),
        (None, None) => format!("{} {}", seen.object, seen.value),
    });
    let since = held.evidence.iter().filter_map(|seen| parse_rfc3339(seen.since.as_deref()?)).min();
    let children = sources.fleet.owned_by(owner.id);
    let set = children.iter().copied().find(|id| plan.kind == "MachineSet" && sources.name(*id) == plan.name);
    Hold {
        rule: held.rule.clone(),
        sentence: held.sentence.clone(),
        evidence: evidence.collect(),
        since_s: since.and_then(|at| u32::try_from(at.timestamp()).ok()),
        of: set.unwrap_or(owner.id),
        help: help_for(&held.sentence),
    }
}
