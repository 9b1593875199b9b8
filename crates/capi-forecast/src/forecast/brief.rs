//! A plan in one or two lines, for a preview and for the line under a tree. Owns the words and what is left out;
//! must not judge.

use super::ahead::NAMES;
use super::{Held, NextStep, ObjectPlan, State};
use capi_rules::plan::StepAction;
use capi_rules::status::conditions::wording::plural;

/// Different steps that are named.
const PARTS_MAX: usize = 5;
/// Names in one list, and blockers.
const NAMES_MAX: usize = 4;
const BLOCKERS_MAX: usize = 2;

/// Steps of the same shape after each other.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    shape: Shape,
    /// Of those that can be gathered; placeholders of new Machines are not in it.
    names: Vec<String>,
    count: usize,
}

/// What steps that can be gathered have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Shape {
    CreateMachine,
    DeleteMachine,
    /// It is not known what becomes of the Machine.
    UpdateOrReplace,
    /// It cannot be gathered.
    Alone(StepAction),
}

impl ObjectPlan {
    /// Its state and what follows, such as `next: create 1 Machine, wait for it, delete Machine a; the same
    /// 2 more times, for b and c`.
    pub fn brief(&self) -> String {
        let (head, text) = self.head_and_text();
        format!("{head}{text}")
    }

    /// The same without `next:`, for a line that has another head.
    pub fn brief_without_head(&self) -> String {
        self.head_and_text().1
    }

    fn head_and_text(&self) -> (&'static str, String) {
        let (steps, held) = (self.steps_in_words(), self.held_in_words());
        match (self.state, steps.is_empty(), held.is_empty()) {
            (State::Paused | State::Unknown, ..) | (_, true, false) => ("", held),
            (_, true, true) => ("", "nothing to do".to_owned()),
            (_, false, true) => ("next: ", steps),
            (State::Acting, false, false) => ("next: ", format!("{steps}; {held}")),
            (_, false, false) => ("", format!("{held}; then: {steps}")),
        }
    }

    /// The steps that are due and what follows them; empty when there are none.
    pub fn steps_in_words(&self) -> String {
        words_of(&gathered(self.next.iter().chain(&self.then).filter(|step| !step.is_bookkeeping)))
    }

    /// What its brief depends on: it has no names of new Machines.
    pub fn brief_assumptions(&self) -> impl Iterator<Item = &str> {
        self.assumptions.iter().map(String::as_str).filter(|assumption| *assumption != NAMES)
    }

    /// What holds (more of) them back; empty when nothing does.
    pub fn held_in_words(&self) -> String {
        let head = match self.state {
            State::Paused => "paused",
            State::Unknown => "not planned",
            _ if self.blockers.iter().any(|held| !held.on_its_way) => "blocked because",
            _ => "waits",
        };
        // What is on its way is left out beside what is not.
        let is_bad = self.blockers.iter().any(|held| !held.on_its_way);
        let named: Vec<&Held> = self.blockers.iter().filter(|held| !(is_bad && held.on_its_way)).collect();
        let sentences: Vec<&str> =
            named.iter().take(BLOCKERS_MAX).map(|held| held.sentence.as_str()).collect();
        let more = match named.len().saturating_sub(BLOCKERS_MAX) {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        let colon = if head.ends_with("because") { "" } else { ":" };
        if named.is_empty() { String::new() } else { format!("{head}{colon} {}{more}", sentences.join("; ")) }
    }
}

fn gathered<'a>(steps: impl Iterator<Item = &'a NextStep>) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for step in steps {
        let part = part_of(step);
        match parts.last_mut() {
            // Only neighbours: the order of steps is what a plan says.
            Some(last) if last.shape == part.shape => {
                last.names.extend(part.names);
                last.count += part.count;
            }
            _ => parts.push(part),
        }
    }
    parts
}

fn part_of(step: &NextStep) -> Part {
    let (shape, name) = match (&step.does, step.does.created_machine(), step.does.deleted_machine()) {
        (_, Some(_), _) => (Shape::CreateMachine, None),
        (_, _, Some(name)) => (Shape::DeleteMachine, Some(name)),
        (StepAction::UpdateOrReplace { machine }, ..) => (Shape::UpdateOrReplace, Some(machine.as_str())),
        (other, ..) => (Shape::Alone(other.clone()), None),
    };
    Part { shape, names: name.map(str::to_owned).into_iter().collect(), count: step.count }
}

/// In words, with a part that comes again and again only once.
fn words_of(parts: &[Part]) -> String {
    // A rollout often begins with a step or two of its own before it repeats.
    for start in 0..parts.len().min(3) {
        let (head, rest) = parts.split_at(start);
        // The shortest head with a period, and its shortest period.
        let Some(period) = period_of(rest) else { continue };
        let (once, again) = rest.split_at(period);
        let times = again.len() / period;
        let names: Vec<&str> = again.iter().flat_map(|part| &part.names).map(String::as_str).collect();
        let whom = if names.is_empty() { String::new() } else { format!(", for {}", listed(&names)) };
        let count = if times == 1 { "once more".to_owned() } else { format!("{times} more times") };
        let parts: Vec<Part> = head.iter().chain(once).cloned().collect();
        return format!("{}; the same {count}{whom}", in_order(&parts));
    }
    in_order(parts)
}

/// The length of what is repeated to the end; `None` when nothing is.
fn period_of(parts: &[Part]) -> Option<usize> {
    let alike = |a: &Part, b: &Part| a.shape == b.shape && a.count == b.count;
    (1..=parts.len() / 2).find(|period| {
        // Whole turns only: a half one at the end would be promised as a whole.
        parts.len().is_multiple_of(*period)
            && parts.iter().zip(parts.iter().skip(*period)).all(|(a, b)| alike(a, b))
    })
}

fn in_order(parts: &[Part]) -> String {
    let mut out = String::new();
    for (at, part) in parts.iter().take(PARTS_MAX).enumerate() {
        if at > 0 {
            let after_creation = parts[at - 1].shape == Shape::CreateMachine;
            let it = if parts[at - 1].count == 1 { "it" } else { "them" };
            out.push_str(&if after_creation { format!(", wait for {it}, ") } else { ", ".to_owned() });
        }
        out.push_str(&part.words());
    }
    match parts.len().saturating_sub(PARTS_MAX) {
        0 => out,
        1 => format!("{out}, and 1 more step"),
        more => format!("{out}, and {more} more steps"),
    }
}

impl Part {
    fn words(&self) -> String {
        let (count, several) = (self.count, plural("Machine"));
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let (kind, it) = if names.len() == 1 { ("Machine", "it") } else { (several.as_str(), "them") };
        match &self.shape {
            Shape::CreateMachine if count == 1 => "create 1 Machine".to_owned(),
            Shape::CreateMachine => format!("create {count} {several}"),
            Shape::DeleteMachine => format!("delete {kind} {}", listed(&names)),
            Shape::UpdateOrReplace => format!("update {kind} {} in place, or replace {it}", listed(&names)),
            Shape::Alone(action) if count > 1 => format!("{action} ({count} times)"),
            Shape::Alone(action) => action.to_string(),
        }
    }
}

/// `a, b and c`.
fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] if names.len() <= NAMES_MAX => format!("{} and {last}", first.join(", ")),
        more => format!("{} and {} more", more[..NAMES_MAX - 1].join(", "), more.len() + 1 - NAMES_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capi_types::key::ObjectKey;

    fn step(does: StepAction) -> NextStep {
        NextStep { does, count: 1, rule: "r".to_owned(), reason: String::new(), is_bookkeeping: false }
    }

    fn create(number: usize) -> StepAction {
        StepAction::CreateControlPlaneMachine {
            name: format!("cp-new{number}"),
            joins: true,
            failure_domain: None,
        }
    }

    fn delete(name: &str) -> StepAction {
        StepAction::Delete { kind: "Machine".to_owned(), name: name.to_owned() }
    }

    fn held(sentence: &str, on_its_way: bool) -> Held {
        Held { rule: "r".to_owned(), sentence: sentence.to_owned(), on_its_way, evidence: Vec::new() }
    }

    fn brief(next: &[StepAction], then: &[StepAction], blockers: Vec<Held>) -> String {
        let mut plan = ObjectPlan::new("KubeadmControlPlane", &ObjectKey::new("n", "cp"), "c");
        plan.next = next.iter().cloned().map(step).collect();
        plan.then = then.iter().cloned().map(step).collect();
        plan.blockers = blockers;
        plan.judged().brief()
    }

    #[test]
    fn what_comes_again_and_again_is_said_once() {
        let rollout = [delete("a"), create(2), delete("b"), create(3), delete("c")];
        assert_eq!(
            brief(&[create(1)], &rollout, Vec::new()),
            "next: create 1 Machine, wait for it, delete Machine a; the same 2 more times, for b and c"
        );
        assert_eq!(
            brief(&[delete("z")], &[create(1), delete("a"), create(2), delete("b")], Vec::new()),
            "next: delete Machine z, create 1 Machine, wait for it, delete Machine a; the same once more, for b"
        );
        assert_eq!(brief(&[create(1), create(2)], &[], Vec::new()), "next: create 2 Machines");
        assert_eq!(brief(&[delete("a"), delete("b")], &[], Vec::new()), "next: delete Machines a and b");
    }

    #[test]
    fn machines_whose_way_is_not_known_stand_together() {
        let open = |name: &str| NextStep::either(name, "").does;
        assert_eq!(
            brief(&[], &[open("a"), open("b")], vec![held("c is updated", true)]),
            "waits: c is updated; then: update Machines a and b in place, or replace them"
        );
        assert_eq!(brief(&[open("a")], &[], Vec::new()), "next: update Machine a in place, or replace it");
    }

    #[test]
    fn what_is_on_its_way_is_left_out_beside_what_is_not() {
        assert_eq!(brief(&[], &[], Vec::new()), "nothing to do");
        assert_eq!(brief(&[], &[], vec![held("x is coming", true)]), "waits: x is coming");
        assert_eq!(
            brief(&[], &[delete("a")], vec![held("x is coming", true)]),
            "waits: x is coming; then: delete Machine a"
        );
        assert_eq!(
            brief(&[], &[], vec![held("x is coming", true), held("y is broken", false)]),
            "blocked because y is broken"
        );
        let three = vec![held("a", false), held("b", false), held("c", false)];
        assert_eq!(brief(&[], &[], three), "blocked because a; b (and 1 more)");
    }
}
