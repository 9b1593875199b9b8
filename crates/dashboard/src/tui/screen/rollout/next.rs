//! What comes next in a rollout, a sentence each: the plan's steps in words, without those that happened since it was
//! made, and with what they leave of etcd. Must not decide any order: that is the planner's.

use super::sources::Sources;
use crate::fleet::{MachinePhase, OwnerRollout, OwnerStage, short_name};
use capi_forecast::forecast::{NextStep, ObjectPlan, StepAction};
use capstan_base::text::counted;
use capstan_base::time::parse_rfc3339;

/// Steps of one owner that are told one by one.
const STEPS_MAX: usize = 2;
/// Names in one sentence.
const NAMES_MAX: usize = 6;

/// One step of a plan, as far as rows can say whether it happened.
enum Coming<'a> {
    Create,
    Delete(&'a str),
    /// Updated in place, or replaced: nobody asked.
    Open(&'a str),
    /// A MachineSet, from and to.
    Scale(&'a str, u32, u32),
    Other(&'a StepAction),
}

impl<'a> Coming<'a> {
    fn of(action: &'a StepAction) -> Self {
        if action.created_machine().is_some() {
            return Self::Create;
        }
        let count = |replicas: i64| u32::try_from(replicas).ok();
        let scaled = match action {
            StepAction::Delete { kind, name } if kind == "Machine" => return Self::Delete(name),
            StepAction::UpdateOrReplace { machine } => return Self::Open(machine),
            StepAction::Scale { kind, name, from: Some(from), to } if kind == "MachineSet" => {
                count(*from).zip(count(*to)).map(|(from, to)| Self::Scale(name, from, to))
            }
            _ => None,
        };
        scaled.unwrap_or(Self::Other(action))
    }
}

/// The next things that happen, in order.
pub(super) fn next(sources: Sources<'_>) -> Vec<String> {
    let mut all = Vec::new();
    if sources.row(sources.rollout.cluster).is_some_and(|cluster| cluster.paused) {
        let is_left = sources.rollout.owners.iter().any(|owner| owner.old().next().is_some());
        all.extend(is_left.then(|| "nothing, until the Cluster is resumed".to_owned()));
        return all;
    }
    let rolling = sources.rollout.owners.iter().filter(|owner| owner.stage == OwnerStage::Rolling);
    for owner in rolling {
        all.extend(of_owner(sources, owner));
    }
    let waiting = sources.rollout.owners.iter().filter(|owner| sources.waits_its_turn(owner));
    let followers: Vec<String> = waiting
        .map(|owner| format!("{} ({})", sources.owner_name(owner), counted(owner.want, "Machine")))
        .collect();
    if !followers.is_empty() {
        all.push(format!("then, when the control plane is through: {}", listed(&followers)));
    }
    all
}

fn of_owner(sources: Sources<'_>, owner: &OwnerRollout) -> Vec<String> {
    let Some(plan) = sources.plan(owner.id) else { return without_plan(sources, owner) };
    let steps = coming(sources, owner, plan);
    let mut words = Words { sources, owner, members: members(owner), has_etcd: plan.has_members };
    let mut all = words.joining();
    if steps.is_empty() {
        // A plan has no steps while it waits for what it cannot foresee.
        all.extend(replaced(sources, owner, ""));
    }
    for step in steps.iter().take(STEPS_MAX) {
        all.push(words.step(step));
    }
    let rest = steps.get(STEPS_MAX..).unwrap_or_default();
    let names: Vec<String> = rest
        .iter()
        .filter_map(|step| match step {
            Coming::Delete(name) | Coming::Open(name) => Some(words.short(name)),
            _ => None,
        })
        .collect();
    match (rest.len(), names.is_empty()) {
        (0, _) => {}
        (_, false) => all.push(format!("the same for {}", listed(&names))),
        (1, true) => all.push("and 1 more step".to_owned()),
        (more, true) => {
            all.push(format!("and {more} more steps until {} of {} are new", owner.want, owner.want));
        }
    }
    all
}

/// The steps about Machines that have not happened since the plan was made.
fn coming<'a>(sources: Sources<'a>, owner: &OwnerRollout, plan: &'a ObjectPlan) -> Vec<Coming<'a>> {
    // One less than the greatest number, because one may be added below.
    let planned_s = sources.plans.at().and_then(parse_rfc3339).map_or(i64::MAX - 1, |at| at.timestamp());
    // What was due when the plan was made may have been made within the same second.
    let is_due_now = plan.next.iter().any(|step| matches!(Coming::of(&step.does), Coming::Create));
    let from_s = planned_s + i64::from(!is_due_now);
    let mut made = owner.machines.iter().filter(|m| i64::from(m.created_s) >= from_s).count();
    let is_there = |name: &str| {
        let mut machines =
            owner.machines.iter().filter(|m| !matches!(m.phase, MachinePhase::Deleting { .. }));
        machines.any(|m| sources.name(m.id) == name)
    };
    let replicas = |name: &str| {
        let set = sources.fleet.owned_by(owner.id).iter().find(|id| sources.name(**id) == name);
        set.and_then(|id| sources.row(*id)?.counters()?.desired)
    };
    let steps = plan.next.iter().chain(&plan.then).filter(|step| !step.is_bookkeeping);
    let mut is_due = |step: &Coming<'_>| match step {
        Coming::Create if made > 0 => {
            made -= 1;
            false
        }
        Coming::Delete(name) | Coming::Open(name) => is_there(name),
        Coming::Scale(name, from, to) => {
            replicas(name).is_none_or(|now| if to > from { now < *to } else { now > *to })
        }
        Coming::Create | Coming::Other(_) => true,
    };
    // One step may stand for many Machines, and no sentence names more of them.
    let each = |step: &'a NextStep| std::iter::repeat_n(&step.does, step.count.min(NAMES_MAX));
    steps.flat_map(each).map(Coming::of).filter(|step| is_due(step)).collect()
}

/// Members of etcd as far as Machines show it: those that came up and do not go.
pub(super) fn members(owner: &OwnerRollout) -> usize {
    let is_member = |phase: &MachinePhase| {
        !matches!(phase, MachinePhase::Starting { .. } | MachinePhase::Deleting { .. })
    };
    owner.machines.iter().filter(|m| is_member(&m.phase)).count()
}

struct Words<'a, 'b> {
    sources: Sources<'a>,
    owner: &'b OwnerRollout,
    members: usize,
    has_etcd: bool,
}

impl Words<'_, '_> {
    fn short(&self, name: &str) -> String {
        short_name(name, self.sources.name(self.owner.id)).to_owned()
    }

    /// Machines that are on their way already.
    fn joining(&mut self) -> Vec<String> {
        let starting = self.owner.moving().filter(|m| matches!(m.phase, MachinePhase::Starting { .. }));
        let names: Vec<String> = starting.map(|m| self.short(self.sources.name(m.id))).collect();
        if names.is_empty() || !self.has_etcd {
            return Vec::new();
        }
        self.members += names.len();
        vec![format!("{} is up{}", listed(&names), self.quorum())]
    }

    fn step(&mut self, step: &Coming<'_>) -> String {
        match step {
            Coming::Create => {
                self.members += 1;
                format!("a new Machine joins{}", self.quorum())
            }
            Coming::Open(name) => format!("{} is updated in place, or replaced", self.short(name)),
            Coming::Delete(name) => {
                self.members = self.members.saturating_sub(1);
                let leaves = if self.has_etcd { " leaves" } else { " goes" };
                format!("{}{leaves}{}; its Node drains", self.short(name), self.quorum())
            }
            Coming::Scale(name, from, to) => {
                let (verb, count) = if to > from { ("gets", to - from) } else { ("gives up", from - to) };
                let machines = counted(count, "Machine");
                format!("MachineSet {} {verb} {machines}: {to} instead of {from}", self.short(name))
            }
            Coming::Other(action) => action.to_string(),
        }
    }

    /// What etcd is then.
    fn quorum(&self) -> String {
        if self.has_etcd { quorum(self.members) } else { String::new() }
    }
}

/// `: etcd has 4 members, quorum 3, 1 may fail`; empty without members.
pub(super) fn quorum(members: usize) -> String {
    if members == 0 {
        return String::new();
    }
    let quorum = members / 2 + 1;
    let may_fail = match members - quorum {
        0 => "none may fail".to_owned(),
        n => format!("{n} may fail"),
    };
    format!(": etcd has {}, quorum {quorum}, {may_fail}", counted(members, "member"))
}

/// What rows alone can say.
fn without_plan(sources: Sources<'_>, owner: &OwnerRollout) -> Vec<String> {
    let why = if sources.plans.trouble().is_some() { "could not be read" } else { "is not read yet" };
    replaced(sources, owner, &format!(" in the order of the plan, which {why}")).into_iter().collect()
}

/// The old Machines that are left; `order` stands behind the names of several.
fn replaced(sources: Sources<'_>, owner: &OwnerRollout, order: &str) -> Option<String> {
    let waiting = owner.old().filter(|m| !m.phase.is_moving());
    let names: Vec<String> =
        waiting.map(|m| short_name(sources.name(m.id), sources.name(owner.id)).to_owned()).collect();
    let is_open = sources.plan(owner.id).is_some_and(|plan| plan.updates.is_some());
    let how = if is_open { "updated in place, or replaced" } else { "replaced" };
    match names.as_slice() {
        [] => None,
        [only] => Some(format!("{only} is {how}")),
        several => Some(format!("{} are {how}{order}", listed(several))),
    }
}

/// `a, b and 3 more`.
fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] if names.len() <= NAMES_MAX => format!("{} and {last}", first.join(", ")),
        many => format!("{} and {} more", many[..NAMES_MAX - 1].join(", "), many.len() + 1 - NAMES_MAX),
    }
}
