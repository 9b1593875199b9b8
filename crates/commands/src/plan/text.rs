//! Plans as an operator reads them: what acts or is held first and in full, what is settled as a count, and what
//! was assumed at the end. Owns layout and colour; must not judge.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::output::Style;
use crate::output::colour::{BOLD, GREEN, GREY, RED, RESET, YELLOW};
use capi_forecast::forecast::in_place::Updates;
use capi_forecast::forecast::{Forecast, Held, Look, NextStep, ObjectPlan, Seen, State};
use capi_rules::status::conditions::wording::plural;
use capstan_base::text::{self, truncate, width};
use capstan_base::time::{age, human_duration, parse_rfc3339};

/// Behind a label such as `next`.
const INDENT: usize = 12;
/// A reason stands behind its step when both fit.
const LINE_CELLS_MAX: usize = 110;
/// Steps of one object that are shown; JSON has all.
const STEPS_MAX: usize = 12;
/// Evidence of one blocker, and objects of one assumption, that are shown.
const EVIDENCE_MAX: usize = 4;
const MESSAGE_CELLS_MAX: usize = 160;

/// Every object that acts or is held; `wanted` (`KIND/NAME`) even when it is settled.
pub(super) fn text(forecast: &Forecast, wanted: Option<&str>, style: Style) -> String {
    let page = Page { forecast, style };
    let mut out = String::new();
    let (mut quiet, mut shown): (Vec<&ObjectPlan>, Vec<&ObjectPlan>) = (Vec::new(), Vec::new());
    let mut alike = Alike::default();
    for object in &forecast.objects {
        let says_nothing = object.state == State::Settled || page.is_paused_with_its_cluster(object);
        if says_nothing && wanted != Some(object.id().as_str()) {
            quiet.push(object);
        } else if wanted == Some(object.id().as_str()) || !alike.gathers(object) {
            page.object(object, &mut out);
            shown.push(object);
        }
    }
    page.quiet(&quiet, &mut out);
    page.alike(&alike, &mut out);
    page.assumptions(&shown, &mut out);
    out
}

struct Page<'a> {
    forecast: &'a Forecast,
    style: Style,
}

impl Page<'_> {
    fn painted(&self, color: &str, text: &str) -> String {
        if self.style.color && !text.is_empty() { format!("{color}{text}{RESET}") } else { text.to_owned() }
    }

    /// Text of an object on one line; a terminal gets it without control characters.
    fn safe(&self, text: &str) -> String {
        if self.style.terminal { text::sanitize_line(text) } else { text.replace(['\n', '\r'], " ") }
    }

    fn object(&self, object: &ObjectPlan, out: &mut String) {
        let name = self.safe(&format!("{} {}/{}", object.kind, object.namespace, object.name));
        let (word, color) = word(object.state);
        let _ = writeln!(out, "{}  {}", self.painted(BOLD, &name), self.painted(color, word));
        let (also, next): (Vec<&NextStep>, Vec<&NextStep>) =
            object.next.iter().partition(|step| step.is_bookkeeping);
        self.steps("next", &next, out);
        self.steps("then", &object.then.iter().collect::<Vec<_>>(), out);
        self.also(&also, out);
        if let Some(updates) = &object.updates {
            self.updates(updates, out);
        }
        let mut shown: Vec<&Seen> = Vec::new();
        for held in &object.blockers {
            self.held(object.state, held, &shown, out);
            shown.extend(&held.evidence);
        }
        if let Some(look) = &object.next_look {
            self.labelled("look", &when(look), out);
        }
        out.push('\n');
    }

    fn labelled(&self, label: &str, line: &str, out: &mut String) {
        let blanks = " ".repeat(INDENT.saturating_sub(2 + width(label)));
        let _ = writeln!(out, "  {}{blanks}{line}", self.painted(GREY, label));
    }

    /// One line per step, the reasons below each other where they fit.
    fn steps(&self, label: &str, steps: &[&NextStep], out: &mut String) {
        let shown = &steps[..steps.len().min(STEPS_MAX)];
        let actions: Vec<String> = shown.iter().map(|step| self.safe(&action(step))).collect();
        let widest = actions.iter().map(|action| width(action)).max().unwrap_or(0);
        let mut label = label;
        for (step, action) in shown.iter().zip(&actions) {
            let reason = self.safe(&step.reason);
            if INDENT + widest + 2 + width(&reason) <= LINE_CELLS_MAX {
                let blanks = " ".repeat(widest - width(action) + 2);
                self.labelled(label, &format!("{action}{blanks}{}", self.painted(GREY, &reason)), out);
            } else {
                self.labelled(label, action, out);
                self.labelled("", &format!("  {}", self.painted(GREY, &reason)), out);
            }
            label = "";
        }
        if steps.len() > shown.len() {
            self.labelled("", &format!("… {} more", steps.len() - shown.len()), out);
        }
    }

    /// Metadata that is kept, in one line.
    fn also(&self, steps: &[&NextStep], out: &mut String) {
        if !steps.is_empty() {
            let actions: Vec<String> = steps.iter().map(|step| step.does.to_string()).collect();
            let line = truncate(&self.safe(&actions.join(", ")), LINE_CELLS_MAX - INDENT, "…");
            self.labelled("also", &self.painted(GREY, &line), out);
        }
    }

    /// In place or by replacement, Machine by Machine, and what that costs.
    fn updates(&self, updates: &Updates, out: &mut String) {
        for (word, line) in updates.lines() {
            self.labelled(word, &self.safe(&line), out);
        }
    }

    /// `shown`: evidence that stands above.
    fn held(&self, state: State, held: &Held, shown: &[&Seen], out: &mut String) {
        let label = match (state, held.on_its_way) {
            (State::Paused, _) => "paused",
            (State::Unknown, _) => "unknown",
            (_, true) => "waits",
            (_, false) => "blocked",
        };
        self.labelled(label, &self.safe(&held.sentence), out);
        for seen in held.evidence.iter().filter(|seen| !shown.contains(seen)).take(EVIDENCE_MAX) {
            self.labelled("", &format!("  {}", self.painted(GREY, &self.safe(&self.seen(seen)))), out);
            // Lines that the sentence has already are not said again.
            for line in message_lines(&seen.message)
                .filter(|line| !held.sentence.contains(line.trim_end_matches(':')))
            {
                let line = truncate(&self.safe(line), MESSAGE_CELLS_MAX, "…");
                self.labelled("", &format!("    {}", self.painted(GREY, &line)), out);
            }
        }
    }

    fn seen(&self, seen: &Seen) -> String {
        let what = match (&seen.condition, &seen.field) {
            (Some(type_), _) => format!("{type_} {}", seen.value),
            (None, Some(path)) => format!("{path}: {}", seen.value),
            (None, None) => seen.value.clone(),
        };
        let at = parse_rfc3339(&self.forecast.at);
        let since = seen.since.as_deref().and_then(parse_rfc3339).zip(at);
        let since = since.map(|(since, at)| format!(" for {}", age(since, at))).unwrap_or_default();
        format!("{}  {what}{since}", seen.object)
    }

    fn is_paused_with_its_cluster(&self, object: &ObjectPlan) -> bool {
        let is_its_cluster = |other: &ObjectPlan| {
            (other.kind, &other.namespace, &other.name) == ("Cluster", &object.namespace, &object.cluster)
        };
        object.state == State::Paused
            && object.kind != "Cluster"
            && self.forecast.objects.iter().any(|other| is_its_cluster(other) && other.state == State::Paused)
    }

    fn quiet(&self, quiet: &[&ObjectPlan], out: &mut String) {
        let (paused, settled): (Vec<&ObjectPlan>, Vec<&ObjectPlan>) =
            quiet.iter().copied().partition(|object| object.state == State::Paused);
        for (objects, what) in [(paused, "paused with their Cluster"), (settled, "settled")] {
            if !objects.is_empty() {
                let line = format!("{what}: {}", counted(&objects));
                let _ = writeln!(out, "{}", self.painted(GREY, &line));
            }
        }
    }

    /// Such as `waiting like Machine a: 12 Machines`.
    fn alike(&self, alike: &Alike<'_>, out: &mut String) {
        for group in alike.groups.values() {
            let [first, more @ ..] = group.as_slice() else { continue };
            if more.is_empty() {
                continue;
            }
            let (state, _) = word(first.state);
            let first = self.safe(&format!("{} {}", first.kind, first.name));
            let line = format!("{state} like {first}: {}", counted(more));
            let _ = writeln!(out, "{}", self.painted(GREY, &line));
        }
    }

    /// The assumptions of the plans above.
    fn assumptions(&self, shown: &[&ObjectPlan], out: &mut String) {
        let mut by_text: BTreeMap<&str, Vec<&ObjectPlan>> = BTreeMap::new();
        for object in shown.iter().filter(|object| object.state != State::Settled) {
            for assumption in &object.assumptions {
                by_text.entry(assumption).or_default().push(object);
            }
        }
        if !by_text.is_empty() {
            out.push_str("assumed:\n");
        }
        for (assumption, objects) in by_text {
            let whom = match objects.as_slice() {
                [only] => format!("{} {}", only.kind, only.name),
                several => counted(several),
            };
            let _ = writeln!(out, "  {} {}", self.safe(assumption), self.painted(GREY, &format!("({whom})")));
        }
    }
}

/// Machines of one cluster that wait for the same in the same words: the first is shown, the others are counted.
#[derive(Default)]
struct Alike<'a> {
    groups: BTreeMap<(&'a str, &'a str, State, Vec<&'a str>), Vec<&'a ObjectPlan>>,
}

impl<'a> Alike<'a> {
    /// Is the object like one that was met before?
    fn gathers(&mut self, object: &'a ObjectPlan) -> bool {
        // Machines without a blocker have no words that could be compared: all of them would be
        // alike.
        if object.kind != "Machine" || object.blockers.is_empty() {
            return false;
        }
        let sentences = object.blockers.iter().map(|held| held.sentence.as_str()).collect();
        let key = (object.namespace.as_str(), object.cluster.as_str(), object.state, sentences);
        let group = self.groups.entry(key).or_default();
        group.push(object);
        group.len() > 1
    }
}

fn word(state: State) -> (&'static str, &'static str) {
    match state {
        State::Settled => ("settled", GREEN),
        State::Acting => ("acting", GREEN),
        State::Waiting => ("waiting", YELLOW),
        State::Blocked => ("blocked", RED),
        State::Paused => ("paused", YELLOW),
        State::Unknown => ("unknown", YELLOW),
    }
}

fn action(step: &NextStep) -> String {
    if step.count == 1 { step.does.to_string() } else { format!("{} ({} times)", step.does, step.count) }
}

fn message_lines(message: &str) -> impl Iterator<Item = &str> {
    message.lines().map(str::trim).filter(|line| !line.is_empty()).take(EVIDENCE_MAX)
}

fn when(look: &Look) -> String {
    let delay = human_duration(i64::try_from(look.in_seconds).unwrap_or(i64::MAX));
    if look.not_before {
        format!("in {delay} ({}), not before", look.at)
    } else {
        format!("in {delay} ({}), or on the next change", look.at)
    }
}

/// Such as `1 Cluster, 3 MachineSets`.
fn counted(objects: &[&ObjectPlan]) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for object in objects {
        match counts.iter_mut().find(|(kind, _)| *kind == object.kind) {
            Some((_, count)) => *count += 1,
            None => counts.push((object.kind, 1)),
        }
    }
    let words = counts.iter().map(|(kind, count)| match count {
        1 => format!("1 {kind}"),
        _ => format!("{count} {}", plural(kind)),
    });
    words.collect::<Vec<_>>().join(", ")
}
