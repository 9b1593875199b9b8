//! A rollout as it was run ahead of time: what happens next and when, and the moments at which its parts and all of it are
//! through. Must not decide anything: the order and the durations are the simulation's.

use super::next::{members, quorum};
use super::sources::Sources;
use crate::fleet::{Arrival, MachinePhase, OwnerRollout, Row, short_name};
use capi_forecast::forecast::StepAction;
use capi_forecast::forecast::in_place::Way;
use capi_forecast::simulate::{self, End, Event, EventObject, Forecast, HostEvent, Occurrence, Sample};
use capstan_base::text::counted;
use capstan_base::time::{Timestamp, parse_rfc3339};

/// What is told of what comes next, in lines.
const NEXT_MAX: usize = 5;
/// Names in one line.
const NAMES_MAX: usize = 3;
/// So long a step that was foreseen and did not happen is still due, seconds.
const LATE_S: i64 = 60;

/// What was run ahead, and from when on.
#[derive(Clone, Copy)]
pub(super) struct AheadCourse<'a> {
    forecast: &'a Forecast,
    at: Timestamp,
}

/// `None`: it was not run ahead, or the Cluster is paused: what its machines do meanwhile nobody sees.
pub(super) fn course(sources: Sources<'_>) -> Option<AheadCourse<'_>> {
    let cluster = sources.row(sources.rollout.cluster).filter(|cluster| !cluster.paused)?;
    let forecast = sources.plans.ahead(cluster).filter(|forecast| forecast.duration.usual_s > 0)?;
    Some(AheadCourse { forecast, at: parse_rfc3339(sources.plans.at()?)? })
}

impl AheadCourse<'_> {
    /// The end of everything; `None` when it does not come to its end.
    pub(super) fn arrival(&self) -> Option<Arrival> {
        if self.forecast.ending != End::Settled {
            return None;
        }
        self.between(self.forecast.duration.short_s, self.forecast.duration.long_s)
    }

    /// The last change of one owner's Machines, with its share of the range.
    pub(super) fn arrival_of(&self, row: &Row) -> Option<Arrival> {
        // What gets stuck or runs in a circle has no end, and a part of it is not told as if it had
        // one.
        self.arrival()?;
        let owner = format!("{}/{}", row.gvk.kind, row.name);
        let is_its = |sample: &&Sample| sample.owner == owner && sample.at_s > 0;
        let end_s = self.forecast.samples.iter().filter(is_its).map(|sample| sample.at_s).max()?;
        let whole = self.forecast.duration;
        let share = |part_s: i64| end_s.saturating_mul(part_s) / whole.usual_s.max(1);
        self.between(share(whole.short_s), share(whole.long_s))
    }

    fn between(&self, short_s: i64, long_s: i64) -> Option<Arrival> {
        let at = |seconds: i64| u32::try_from(self.at.timestamp() + seconds).ok();
        Some(Arrival { low_s: at(short_s)?, high_s: at(long_s)?, is_measured: false })
    }

    /// What happens next, in order, each with its moment: what rows show already is left out.
    pub(super) fn next(&self, sources: Sources<'_>) -> Vec<String> {
        let since_s = (i64::from(sources.rollout.at_s) - self.at.timestamp()).max(0);
        let mut made = made_since(sources, self.at);
        let is_ahead = |event: &&Event| {
            let verb = Verb::of(event);
            // A simulated Machine has another name than the
            // one that was made: they are matched by number.
            if verb == Verb::Create && made > 0 {
                made -= 1;
                return false;
            }
            !is_over(sources, event) && event.at_s + LATE_S >= since_s
        };
        let ahead: Vec<&Event> = self.forecast.events.iter().filter(is_ahead).collect();
        let (open, certain) = apart(&ahead, sources);
        let plane = sources.rollout.owners.iter().find(|owner| owner.is_control_plane);
        let mut etcd = self.forecast.etcd_margin_min.and(plane).map(members);
        let lines = gathered(&certain);
        let told = lines.iter().map(|line| (line.first.at_s, words(line, sources, since_s, &mut etcd)));
        let mut told: Vec<(i64, String)> = told.collect();
        told.extend(open.iter().map(|open| (open.at_s, open.words(sources, since_s))));
        told.sort_by_key(|(at_s, _)| *at_s);
        let more = told.len().saturating_sub(NEXT_MAX);
        let mut all: Vec<String> = told.into_iter().take(NEXT_MAX).map(|(_, words)| words).collect();
        if more > 0 {
            all.push(format!("and {}: :simulate has all of them", counted(more, "more step")));
        }
        all
    }
}

/// An owner of whose Machines nobody knows whether they are updated in place: what was run ahead is one of two ways.
struct Open<'a> {
    /// When the first of them is due.
    at_s: i64,
    owner: &'a OwnerRollout,
    names: Vec<&'a str>,
}

impl Open<'_> {
    fn words(&self, sources: Sources<'_>, since_s: i64) -> String {
        let full = sources.name(self.owner.id);
        let names: Vec<&str> = self.names.iter().map(|name| short_name(name, full)).collect();
        let verb = if names.len() == 1 { "is" } else { "are" };
        format!("{}: {} {verb} updated in place, or replaced", when(self.at_s - since_s), listed(&names))
    }
}

/// What is not known apart from what is.
fn apart<'a>(events: &[&'a Event], sources: Sources<'a>) -> (Vec<Open<'a>>, Vec<&'a Event>) {
    let (mut open, mut certain): (Vec<Open<'_>>, Vec<&Event>) = (Vec::new(), Vec::new());
    for event in events {
        let found =
            owner_of(sources, &event.who).and_then(|owner| Some((owner, open_machines(sources, owner)?)));
        let is_open = |names: &[&str]| {
            let is_other = !names.contains(&subject(event));
            !(is_other && matches!(Verb::of(event), Verb::Delete | Verb::Update))
        };
        match found.filter(|(_, names)| is_open(names)) {
            Some((owner, _)) if open.iter().any(|known| known.owner.id == owner.id) => {}
            Some((owner, names)) => open.push(Open { at_s: event.at_s, owner, names }),
            None => certain.push(event),
        }
    }
    (open, certain)
}

/// Old Machines of an owner of which it is not known; `None` without any.
fn open_machines<'a>(sources: Sources<'a>, owner: &OwnerRollout) -> Option<Vec<&'a str>> {
    let updates = sources.plan(owner.id)?.updates.as_ref()?;
    let open = updates.machines.iter().filter(|update| update.way == Way::Unknown);
    let is_left = |name: &&str| {
        let mut waiting = owner.old().filter(|machine| !machine.phase.is_moving());
        waiting.any(|machine| sources.name(machine.id) == *name)
    };
    let names: Vec<&str> = open.map(|update| update.machine.as_str()).filter(is_left).collect();
    (!names.is_empty()).then_some(names)
}

fn when(left_s: i64) -> String {
    if left_s <= 0 { "now".to_owned() } else { format!("in {}", simulate::seconds(left_s)) }
}

/// `in 1m10s: md-0 creates 2 Machines`. `etcd`: its members before that; what happens to them is told with it.
fn words(line: &NextLine<'_>, sources: Sources<'_>, since_s: i64, etcd: &mut Option<usize>) -> String {
    let first = line.first;
    let when = when(first.at_s - since_s);
    let owner = owner_of(sources, &first.who);
    let owner_name = owner.map_or(first.who.name.as_str(), |owner| sources.owner_name(owner));
    let full = owner.map_or("", |owner| sources.name(owner.id));
    let names: Vec<&str> = line.names.iter().map(|name| short_name(name, full)).collect();
    let change = match line.verb {
        Verb::Delete => -1,
        Verb::Join => 1,
        _ => 0,
    };
    let members = etcd.as_mut().filter(|_| change != 0 && owner.is_some_and(|owner| owner.is_control_plane));
    let quorum = members.map(|members| {
        *members = members.saturating_add_signed(change * isize::try_from(names.len()).unwrap_or(0));
        quorum(*members)
    });
    let what = match (line.verb, names.len()) {
        (Verb::Create, 1) => format!("{owner_name} creates a Machine"),
        (Verb::Create, count) => format!("{owner_name} creates {count} Machines"),
        (Verb::Delete, _) => format!("{owner_name} deletes {}", listed(&names)),
        (Verb::Update, _) => format!("{owner_name} updates {} in place", listed(&names)),
        (Verb::Join, _) => format!("{} is up", listed(&names)),
        (Verb::Other, _) if is_of_machine(first) => format!("{}: {}", listed(&names), first.does),
        (Verb::Other, _) => format!("{owner_name}: {}", first.does),
    };
    format!("{when}: {what}{}", quorum.unwrap_or_default())
}

/// What an event is told by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verb {
    /// A Machine is made.
    Create,
    Delete,
    /// In place.
    Update,
    /// The Node of a Machine is ready.
    Join,
    Other,
}

impl Verb {
    fn of(event: &Event) -> Self {
        match &event.does {
            Occurrence::Action(action) if action.created_machine().is_some() => Self::Create,
            Occurrence::Action(action) if action.deleted_machine().is_some() => Self::Delete,
            Occurrence::Action(StepAction::UpdateInPlace { .. }) => Self::Update,
            Occurrence::Host(HostEvent::NodeReady) => Self::Join,
            _ => Self::Other,
        }
    }
}

/// The Machine that an event is about; empty without one.
fn subject(event: &Event) -> &str {
    event.machine().unwrap_or_default()
}

fn is_of_machine(event: &Event) -> bool {
    event.who.kind == "Machine"
}

/// Events of one moment that differ in a name alone.
struct NextLine<'a> {
    first: &'a Event,
    verb: Verb,
    names: Vec<&'a str>,
}

fn gathered<'a>(events: &[&'a Event]) -> Vec<NextLine<'a>> {
    let mut lines: Vec<NextLine<'a>> = Vec::new();
    for event in events {
        let (verb, name) = (Verb::of(event), subject(event));
        let alike = |line: &NextLine<'_>| {
            let same_owner = line.first.who == event.who || is_of_machine(event);
            let same_verb = line.verb == verb && (verb != Verb::Other || line.first.does == event.does);
            line.first.at_s == event.at_s && same_verb && same_owner && !name.is_empty()
        };
        match lines.iter_mut().find(|line| alike(line)) {
            Some(line) => line.names.push(name),
            None => lines.push(NextLine { first: event, verb, names: vec![name] }),
        }
    }
    lines
}

/// Machines that were made since a moment.
fn made_since(sources: Sources<'_>, at: Timestamp) -> usize {
    let machines = sources.rollout.owners.iter().flat_map(|owner| &owner.machines);
    machines.filter(|machine| i64::from(machine.created_s) >= at.timestamp()).count()
}

/// What the event is about is done: its Machine is gone, or goes already. One that the simulation made has no row yet.
fn is_over(sources: Sources<'_>, event: &Event) -> bool {
    let name = match &event.does {
        // A member is called like its Node, which most providers call like the Machine.
        Occurrence::Action(StepAction::RemoveEtcdMember { name, .. }) => name.as_str(),
        _ => subject(event),
    };
    if name.is_empty() {
        return false;
    }
    let is_it = |id| {
        let node = sources.row(id).and_then(|row| row.machine()?.node.as_deref());
        sources.name(id) == name || node == Some(name)
    };
    let mut machines = sources.rollout.owners.iter().flat_map(|owner| &owner.machines);
    match machines.find(|machine| is_it(machine.id)) {
        Some(machine) => {
            let is_deletion = Verb::of(event) == Verb::Delete;
            is_deletion && matches!(machine.phase, MachinePhase::Deleting { .. })
        }
        None => !event.is_simulated,
    }
}

/// The control plane or MachineDeployment that an actor belongs to.
fn owner_of<'a>(sources: Sources<'a>, who: &EventObject) -> Option<&'a OwnerRollout> {
    sources.rollout.owners.iter().find(|owner| {
        let full = sources.name(owner.id);
        // What was only simulated has no row, but its name begins with that of its owner.
        let is_part = || who.name.strip_prefix(full).is_some_and(|rest| rest.starts_with('-'));
        match who.kind.as_str() {
            "KubeadmControlPlane" => owner.is_control_plane && full == who.name,
            "MachineSet" | "Machine" => is_part(),
            _ => full == who.name,
        }
    })
}

/// `a, b and 3 more`.
fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] if names.len() <= NAMES_MAX => format!("{} and {last}", first.join(", ")),
        many => format!("{} and {} more", many[..NAMES_MAX - 1].join(", "), many.len() + 1 - NAMES_MAX),
    }
}
