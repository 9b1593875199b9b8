//! Many conditions into one: the summary of one object's conditions, and the aggregate of one
//! condition over many objects. Owns priorities and message layout; must not know any kind.
//! Source: cluster-api `util/conditions/{merge_strategies,summary,aggregate}.go`, v1.14.2.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::status::conditions::new_condition::{NewCondition, UNSTAMPED};
use crate::status::conditions::setter::{condition, internal_error};
use crate::status::conditions::wording::{join_limited, plural};
use capi_types::condition::{Status, find};
use capi_types::condition_types::Polarity;
use capi_types::machine::ReadinessGate;

/// How much one condition weighs in a merge. Smaller is worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Its value is the unhealthy one.
    Issue,
    /// Its value is `Unknown`.
    Unknown,
    /// Its value is the healthy one.
    Info,
}

/// The weight of a condition by its status and polarity.
pub fn priority(condition: &Condition, polarity: Polarity) -> Priority {
    match (condition.status.as_str(), polarity) {
        ("True", Polarity::Positive) | ("False", Polarity::Negative) => Priority::Info,
        ("False", Polarity::Positive) | ("True", Polarity::Negative) => Priority::Issue,
        _ => Priority::Unknown,
    }
}

/// The reason of a merge result: that of the worst group which has a member.
#[derive(Clone, Copy, Debug)]
pub struct Reasons {
    /// When one of the conditions is unhealthy.
    pub issue: &'static str,
    /// When none is unhealthy, and one is not known.
    pub unknown: &'static str,
    /// When all are healthy.
    pub info: &'static str,
}

impl Reasons {
    /// Of a condition `Available`.
    pub const AVAILABLE: Self =
        Self { issue: "NotAvailable", unknown: "AvailableUnknown", info: "Available" };
    /// Of a condition `Ready`.
    pub const READY: Self = Self { issue: "NotReady", unknown: "ReadyUnknown", info: "Ready" };
    /// Of a condition `UpToDate`.
    pub const UP_TO_DATE: Self = Self { issue: "NotUpToDate", unknown: "UpToDateUnknown", info: "UpToDate" };

    fn of(self, worst: Priority) -> &'static str {
        match worst {
            Priority::Issue => self.issue,
            Priority::Unknown => self.unknown,
            Priority::Info => self.info,
        }
    }
}

/// Exceptions to [`priority`]: `None` means the rule applies.
pub type PriorityExceptions<'a> = &'a dyn Fn(&Condition) -> Option<Priority>;

/// A summary: many conditions of one object into one positive condition.
#[derive(Clone)]
pub struct Summary<'a> {
    /// The type that comes out.
    pub target: &'static str,
    /// Each once, in order of importance; never contains `target`.
    pub types: Cow<'a, [&'a str]>,
    /// Those of `types` whose healthy value is `False`.
    pub negative: Cow<'a, [&'a str]>,
    /// Left out when absent, instead of counting as `Unknown`.
    pub ignored_if_missing: &'a [&'a str],
    /// Take the place of stored conditions for this summary only.
    pub overrides: Vec<Condition>,
    /// By what the conditions amount to.
    pub reasons: Reasons,
    /// Conditions that weigh otherwise than their value says.
    pub exceptions: Option<PriorityExceptions<'a>>,
    /// Rewrites the finished lines.
    pub transform: Option<fn(Vec<String>) -> Vec<String>>,
}

impl<'a> Summary<'a> {
    /// A summary without exceptions.
    pub fn new(target: &'static str, types: impl Into<Cow<'a, [&'a str]>>, reasons: Reasons) -> Self {
        Self {
            target,
            types: types.into(),
            negative: Cow::Borrowed(&[]),
            ignored_if_missing: &[],
            overrides: Vec::new(),
            reasons,
            exceptions: None,
            transform: None,
        }
    }

    /// Further conditions that count, too, each with its polarity.
    pub fn add_gates(&mut self, gates: &'a [ReadinessGate]) {
        for gate in gates {
            // Listed twice: the last place counts.
            self.types.to_mut().retain(|type_| *type_ != gate.condition_type);
            self.types.to_mut().push(&gate.condition_type);
            if gate.polarity.as_deref() == Some("Negative") {
                self.negative.to_mut().push(&gate.condition_type);
            }
        }
    }

    /// The summary of `conditions`. One that cannot be built (the target in its own scope, or nothing in
    /// scope) is `Unknown` / `InternalError`, as every caller upstream makes of it.
    pub fn of(&self, conditions: &[Condition]) -> NewCondition<'static> {
        let mut worst = None;
        let mut notable = Vec::new();
        for c in self.in_scope(conditions) {
            let priority = self.weigh(&c);
            worst = Some(worst.map_or(priority, |worst: Priority| worst.min(priority)));
            if priority != Priority::Info || !c.message.is_empty() {
                notable.push((priority, c));
            }
        }
        // Every caller upstream makes this condition of the error that the merge returns.
        let Some(worst) = worst.filter(|_| self.is_sound(conditions)) else {
            return internal_error(self.target);
        };
        let status = result_status(worst, Polarity::Positive);
        // Information would hide the trouble, so it shows only where there is none.
        let shown = notable.iter().filter(|(p, _)| *p != Priority::Info || status == Status::True);
        let lines: Vec<String> = shown.map(|(_, c)| line(c)).collect();
        let lines = match self.transform {
            Some(transform) => transform(lines),
            None => lines,
        };
        NewCondition::new(self.target, status, self.reasons.of(worst), lines.join("\n"))
    }

    /// The target is not in its own scope; each override is there once, and only for types that the
    /// object has.
    fn is_sound(&self, conditions: &[Condition]) -> bool {
        !self.types.contains(&self.target)
            && self.overrides.iter().enumerate().all(|(at, c)| {
                find(&self.overrides[..at], &c.type_).is_none() && find(conditions, &c.type_).is_some()
            })
    }

    fn in_scope<'c>(&'c self, conditions: &'c [Condition]) -> impl Iterator<Item = Cow<'c, Condition>> {
        self.types.iter().filter_map(move |type_| match find(&self.overrides, type_) {
            Some(instead) => Some(Cow::Borrowed(instead)),
            None => match find(conditions, type_) {
                Some(found) => Some(Cow::Borrowed(found)),
                None if self.ignored_if_missing.contains(type_) => None,
                None => Some(Cow::Owned(not_yet_reported(type_))),
            },
        })
    }

    fn weigh(&self, c: &Condition) -> Priority {
        let polarity =
            if self.negative.contains(&c.type_.as_str()) { Polarity::Negative } else { Polarity::Positive };
        self.exceptions.and_then(|exceptions| exceptions(c)).unwrap_or_else(|| priority(c, polarity))
    }
}

fn not_yet_reported(type_: &str) -> Condition {
    condition(type_, Status::Unknown, "NotYetReported", "Condition not yet reported")
}

fn line(c: &Condition) -> String {
    if c.message.is_empty() {
        format!("* {}: {}", c.type_, c.reason)
    } else {
        format!("* {}:{}", c.type_, indent(&c.message))
    }
}

/// An object whose condition takes part in an aggregate. Most add nothing to the message, so that their names
/// are never asked for.
pub trait Source {
    /// As a message has it.
    fn kind(&self) -> &str;
    /// As a message has it.
    fn name(&self) -> &str;
    /// A Machine with the control plane label: its lines come first.
    fn is_control_plane_machine(&self) -> bool;
    /// The one of this type, if the object has it.
    fn condition(&self, type_: &str) -> Option<&Condition>;
}

/// Any object but a Machine as a source.
#[derive(Clone, Copy, Debug)]
pub struct Reporter<'a> {
    /// As a message has it.
    pub kind: &'a str,
    /// As a message has it.
    pub name: &'a str,
    /// As stored, or as just computed.
    pub conditions: &'a [Condition],
}

impl Source for Reporter<'_> {
    fn kind(&self) -> &str {
        self.kind
    }

    fn name(&self) -> &str {
        self.name
    }

    fn is_control_plane_machine(&self) -> bool {
        false
    }

    fn condition(&self, type_: &str) -> Option<&Condition> {
        find(self.conditions, type_)
    }
}

/// One condition type over many objects, as the condition `target`.
#[derive(Clone, Copy, Debug)]
pub struct Aggregate<'a> {
    /// The type that each object has.
    pub source_type: &'a str,
    /// The type that comes out.
    pub target: &'a str,
    /// Of both source and target.
    pub polarity: Polarity,
    /// By what the conditions amount to.
    pub reasons: Reasons,
}

impl<'a> Aggregate<'a> {
    /// The aggregate over `sources`. Equal transition times follow the names, where upstream follows
    /// whatever order its cache gave. No sources is `Unknown` / `InternalError`: callers state what an
    /// empty set means before they ask.
    pub fn of<S: Source>(&self, sources: &[S]) -> NewCondition<'a> {
        let weigh = |c: Option<&Condition>| c.map_or(Priority::Unknown, |c| priority(c, self.polarity));
        let weights = sources.iter().map(|source| weigh(source.condition(self.source_type)));
        let Some(worst) = weights.min() else { return internal_error(self.target) };
        let missing = format!("Condition {} not yet reported", self.source_type);
        let mut reports = Vec::new();
        for source in sources {
            let said = source.condition(self.source_type);
            let (priority, message) = (weigh(said), said.map_or(missing.as_str(), |c| &c.message));
            let tells =
                if worst == Priority::Info { !message.is_empty() } else { priority != Priority::Info };
            if tells {
                // A missing condition sorts first, as the zero time does upstream.
                let at = said.map_or(UNSTAMPED.0, |c| c.last_transition_time.0);
                reports.push(Report { priority, at, message, source });
            }
        }
        reports.sort_by_key(|r| (r.priority, r.at, r.source.name(), r.source.kind()));
        let status = result_status(worst, self.polarity);
        NewCondition::new(self.target, status, self.reasons.of(worst), aggregate_message(&reports))
    }
}

/// What one object adds, input of `aggregate_message`.
#[derive(Clone, Copy)]
struct Report<'a> {
    priority: Priority,
    at: jiff::Timestamp,
    message: &'a str,
    source: &'a dyn Source,
}

fn result_status(worst: Priority, polarity: Polarity) -> Status {
    match (worst, polarity) {
        (Priority::Issue, Polarity::Positive) | (Priority::Info, Polarity::Negative) => Status::False,
        (Priority::Issue, Polarity::Negative) | (Priority::Info, Polarity::Positive) => Status::True,
        (Priority::Unknown, _) => Status::Unknown,
    }
}

/// How many messages an aggregate prints, over all kinds.
const MESSAGE_BUDGET: usize = 3;

/// The message of an aggregate: same texts grouped by kind, at most three, the rest counted. Reports
/// come with issues first, each group in transition order.
fn aggregate_message(reports: &[Report<'_>]) -> String {
    let mut texts: BTreeMap<&str, (bool, Priority)> = BTreeMap::new();
    let mut kinds: BTreeMap<&str, BTreeMap<&str, Vec<&dyn Source>>> = BTreeMap::new();
    for r in reports {
        let seen = texts.entry(r.message).or_insert((false, r.priority));
        *seen = (seen.0 || r.source.is_control_plane_machine(), seen.1.min(r.priority));
        kinds.entry(r.source.kind()).or_default().entry(r.message).or_default().push(r.source);
    }

    let mut lines = Vec::new();
    for (kind, groups) in kinds {
        let mut groups: Vec<(&str, Vec<&dyn Source>)> = groups.into_iter().collect();
        groups.sort_by_cached_key(|(text, sources)| {
            let (first, priority) = texts.get(text).copied().unwrap_or((false, Priority::Info));
            // Names last: without them equal groups would
            // change places with the order of the cache.
            let names: Vec<_> = sources.iter().map(|s| s.name()).collect();
            (!first, priority, std::cmp::Reverse(sources.len()), names.join(","))
        });
        // At most the budget is used by the kinds before
        // this one, so this does not fall below zero.
        let shown = groups.len().min(MESSAGE_BUDGET - lines_used(&lines));
        for (text, sources) in &groups[..shown] {
            lines.push((true, format!("* {}:{}", who(kind, sources), indent(text))));
        }
        for priority in [Priority::Issue, Priority::Unknown, Priority::Info] {
            let rest: usize = groups[shown..]
                .iter()
                .filter(|(text, _)| texts.get(text).is_some_and(|(_, p)| *p == priority))
                .map(|(_, sources)| sources.len())
                .sum();
            if rest > 0 {
                let noun = if rest == 1 { kind.to_owned() } else { plural(kind) };
                lines.push((false, format!("And {rest} {noun} {}", overflow(priority))));
            }
        }
    }
    lines.into_iter().map(|(_, line)| line).collect::<Vec<_>>().join("\n")
}

fn lines_used(lines: &[(bool, String)]) -> usize {
    lines.iter().filter(|(counted, _)| *counted).count()
}

fn overflow(priority: Priority) -> &'static str {
    match priority {
        Priority::Issue => "with other issues",
        Priority::Unknown => "with status unknown",
        Priority::Info => "with additional info",
    }
}

fn who(kind: &str, sources: &[&dyn Source]) -> String {
    // Machines of the control plane come first: `false` sorts before `true`.
    let mut names: Vec<(bool, &str)> =
        sources.iter().map(|s| (!s.is_control_plane_machine(), s.name())).collect();
    names.sort_unstable();
    let names: Vec<&str> = names.into_iter().map(|(_, name)| name).collect();
    match names.as_slice() {
        [one] => format!("{kind} {one}"),
        many => format!("{} {}", plural(kind), join_limited(many, 3)),
    }
}

/// A message below its headline: after a space when it is one plain line, else on lines of its own,
/// as a nested list.
pub fn indent(message: &str) -> String {
    if !message.contains('\n') && !has_bullet(message) {
        return format!(" {message}");
    }
    let all_bullets = message.split('\n').all(has_bullet);
    let mut text = String::new();
    for line in message.split('\n') {
        text.push('\n');
        text.push_str(match (all_bullets, has_bullet(line)) {
            (true, _) => "  ",
            (false, true) => "    ",
            (false, false) => "  * ",
        });
        text.push_str(line);
    }
    text
}

/// An asterisk followed by white space, anywhere: upstream's expression is not anchored.
fn has_bullet(line: &str) -> bool {
    line.as_bytes().windows(2).any(|w| w[0] == b'*' && matches!(w[1], b' ' | b'\t' | b'\n' | b'\r' | 0x0c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(type_: &str, status: Status, reason: &str, message: &str) -> Condition {
        condition(type_, status, reason, message)
    }

    #[test]
    fn nested_messages_are_indented() {
        for (message, expected) in [
            ("", " "),
            ("foo", " foo"),
            ("* a\n* b", "\n  * a\n  * b"),
            ("Drain:\n* Pod x: y", "\n  * Drain:\n    * Pod x: y"),
            ("a * b", "\n  a * b"),
        ] {
            assert_eq!(indent(message), expected, "{message:?}");
        }
    }

    #[test]
    fn a_summary_names_every_issue_and_unknown_in_type_order() {
        let mut summary = Summary::new("Ready", vec!["Deleting", "A", "B", "C"], Reasons::READY);
        summary.negative = Cow::Borrowed(&["Deleting"]);
        summary.ignored_if_missing = &["C"];
        let got = summary.of(&[
            said("B", Status::False, "Broken", "disk\n* one"),
            said("Deleting", Status::False, "NotDeleting", ""),
        ]);
        assert_eq!((&*got.status, &*got.reason), ("False", "NotReady"));
        assert_eq!(got.message, "* A: Condition not yet reported\n* B:\n  * disk\n    * one");
        let fine = summary.of(&[
            said("A", Status::True, "Ok", ""),
            said("B", Status::True, "Ok", "by the way"),
            said("Deleting", Status::False, "NotDeleting", "quiet"),
        ]);
        assert_eq!((&*fine.status, &*fine.message), ("True", "* Deleting: quiet\n* B: by the way"));
        let reason_only =
            summary.of(&[said("A", Status::False, "Why", ""), said("B", Status::True, "Ok", "")]);
        assert_eq!(reason_only.message, "* Deleting: Condition not yet reported\n* A: Why");
    }

    #[test]
    fn a_summary_that_cannot_be_built_is_an_internal_error() {
        let broken = |summary: Summary<'_>, conditions: &[Condition]| {
            assert_eq!(summary.of(conditions).reason, "InternalError");
        };
        broken(Summary::new("Ready", vec!["Ready"], Reasons::READY), &[]);
        broken(Summary::new("Ready", Vec::new(), Reasons::READY), &[]);
        let mut summary = Summary::new("Ready", vec!["A"], Reasons::READY);
        summary.ignored_if_missing = &["A"];
        broken(summary, &[]);
        let stored = [said("A", Status::True, "R", "")];
        let mut summary = Summary::new("Ready", vec!["A"], Reasons::READY);
        summary.overrides = vec![said("B", Status::True, "R", "")];
        broken(summary.clone(), &stored);
        summary.overrides = vec![stored[0].clone(), stored[0].clone()];
        broken(summary.clone(), &stored);
        summary.overrides = vec![said("A", Status::False, "R", "instead")];
        assert_eq!(summary.of(&stored).message, "* A: instead");
    }

    #[test]
    fn a_gate_counts_once_at_its_last_place() {
        let gate = |type_: &str, polarity: Option<&str>| ReadinessGate {
            condition_type: type_.to_owned(),
            polarity: polarity.map(str::to_owned),
        };
        let gates = [gate("A", None), gate("B", Some("Negative")), gate("A", None)];
        let mut summary = Summary::new("Ready", &["A", "C"][..], Reasons::READY);
        summary.add_gates(&gates);
        let down = |type_| said(type_, Status::False, "R", "down");
        let up = said("B", Status::True, "R", "up");
        assert_eq!(summary.of(&[down("A"), up, down("C")]).message, "* C: down\n* B: up\n* A: down");
    }

    #[test]
    fn priorities_follow_status_and_polarity() {
        use Polarity::{Negative, Positive};
        for (status, polarity, expected) in [
            ("True", Positive, Priority::Info),
            ("False", Positive, Priority::Issue),
            ("Unknown", Positive, Priority::Unknown),
            ("Perhaps", Positive, Priority::Unknown),
            ("True", Negative, Priority::Issue),
            ("False", Negative, Priority::Info),
            ("Unknown", Negative, Priority::Unknown),
            ("", Negative, Priority::Unknown),
        ] {
            let c = Condition { status: status.to_owned(), ..said("A", Status::True, "R", "") };
            assert_eq!(priority(&c, polarity), expected, "{status} {polarity:?}");
        }
    }

    /// A source that may be a Machine of a control plane.
    #[derive(Clone, Copy)]
    struct OwnedSource<'a> {
        reporter: Reporter<'a>,
        control_plane: bool,
    }

    impl Source for OwnedSource<'_> {
        fn kind(&self) -> &str {
            self.reporter.kind
        }

        fn name(&self) -> &str {
            self.reporter.name
        }

        fn is_control_plane_machine(&self) -> bool {
            self.control_plane
        }

        fn condition(&self, type_: &str) -> Option<&Condition> {
            self.reporter.condition(type_)
        }
    }

    fn of_machines(list: &[(&str, Status, &str)]) -> Condition {
        let lists: Vec<Vec<Condition>> =
            list.iter().map(|(_, status, message)| vec![said("Ready", *status, "R", message)]).collect();
        let sources: Vec<Reporter<'_>> = list
            .iter()
            .zip(&lists)
            .map(|((name, ..), conditions)| Reporter { kind: "Machine", name, conditions })
            .collect();
        let rule = Aggregate {
            source_type: "Ready",
            target: "MachinesReady",
            polarity: Polarity::Positive,
            reasons: Reasons::READY,
        };
        let forwards = rule.of(&sources);
        let backwards: Vec<Reporter<'_>> = sources.iter().rev().copied().collect();
        assert_eq!(rule.of(&backwards), forwards, "the order of the inputs does not matter");
        forwards.into()
    }

    #[test]
    fn issues_come_before_unknowns_however_many_there_are() {
        let got = of_machines(&[
            ("a", Status::Unknown, "away"),
            ("b", Status::Unknown, "away"),
            ("c", Status::False, "down"),
            ("d", Status::True, "fine"),
        ]);
        assert_eq!(got.message, "* Machine c: down\n* Machines a, b: away");
    }

    #[test]
    fn info_shows_only_when_there_is_nothing_else() {
        let fine = of_machines(&[
            ("a", Status::True, "one"),
            ("b", Status::True, ""),
            ("c", Status::True, "two"),
            ("d", Status::True, "three"),
            ("e", Status::True, "four"),
        ]);
        assert_eq!((fine.status.as_str(), fine.reason.as_str()), ("True", "Ready"));
        assert_eq!(
            fine.message,
            "* Machine a: one\n* Machine c: two\n* Machine d: three\nAnd 1 Machine with additional info"
        );
    }

    /// Unlike a summary, an aggregate never falls back to the reason; the line ends in a space.
    #[test]
    fn an_empty_message_leaves_a_trailing_space() {
        assert_eq!(of_machines(&[("a", Status::False, "")]).message, "* Machine a: ");
    }

    #[test]
    fn the_priority_of_a_text_is_global_over_kinds() {
        let down = [said("Ready", Status::False, "R", "same")];
        let away = [said("Ready", Status::Unknown, "R", "same")];
        let other = [said("Ready", Status::Unknown, "R", "other")];
        let source = |kind, name, conditions| Reporter { kind, name, conditions };
        let rule = Aggregate {
            source_type: "Ready",
            target: "T",
            polarity: Polarity::Positive,
            reasons: Reasons::READY,
        };
        let got = rule.of(&[
            source("MachineSet", "z", &away),
            source("MachineSet", "a", &other),
            source("Machine", "m", &down),
        ]);
        assert_eq!(got.message, "* Machine m: same\n* MachineSet z: same\n* MachineSet a: other");
    }

    #[test]
    fn an_aggregate_groups_equal_texts_and_counts_the_rest() {
        let lists: Vec<Vec<Condition>> = ["m1", "m1", "m2", "m3", "m4", "m5", "m1", "m1"]
            .iter()
            .map(|m| vec![said("Ready", Status::False, "R", m)])
            .chain([Vec::new()])
            .collect();
        let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
        let sources: Vec<OwnedSource<'_>> = lists
            .iter()
            .zip(names)
            .map(|(conditions, name)| OwnedSource {
                reporter: Reporter { kind: "Machine", name, conditions },
                control_plane: name == "d",
            })
            .collect();
        let rule = Aggregate {
            source_type: "Ready",
            target: "MachinesReady",
            polarity: Polarity::Positive,
            reasons: Reasons::READY,
        };
        let got = rule.of(&sources);
        assert_eq!(got.status, "False");
        assert_eq!(
            got.message,
            "* Machine d: m3\n* Machines a, b, g, ... (1 more): m1\n* Machine c: m2\n\
             And 2 Machines with other issues\nAnd 1 Machine with status unknown"
        );
    }

    #[test]
    fn a_negative_aggregate_turns_the_status() {
        let scaling = [said("ScalingUp", Status::True, "ScalingUp", "Scaling up from 1 to 3 replicas")];
        let idle = [said("ScalingUp", Status::False, "NotScalingUp", "")];
        let source = |kind, name, conditions| Reporter { kind, name, conditions };
        let rule = Aggregate {
            source_type: "ScalingUp",
            target: "ScalingUp",
            polarity: Polarity::Negative,
            reasons: Reasons { issue: "ScalingUp", unknown: "ScalingUpUnknown", info: "NotScalingUp" },
        };
        let got = rule
            .of(&[source("MachineDeployment", "md", &idle), source("KubeadmControlPlane", "cp", &scaling)]);
        assert_eq!((&*got.status, &*got.reason), ("True", "ScalingUp"));
        assert_eq!(got.message, "* KubeadmControlPlane cp: Scaling up from 1 to 3 replicas");
        let quiet = rule.of(&[source("MachineDeployment", "md", &idle)]);
        assert_eq!((&*quiet.status, &*quiet.reason, &*quiet.message), ("False", "NotScalingUp", ""));
    }
}
