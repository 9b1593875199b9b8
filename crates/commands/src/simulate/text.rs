//! Forecasts as an operator reads them: how each Cluster ends and when, what happens on the way, how low it goes, what
//! holds it, what was assumed. Owns layout and colour; must not judge.

use std::fmt::Write as _;

use crate::output::Style;
use crate::output::colour::{BOLD, GREEN, GREY, RED, RESET, YELLOW};
use capi_forecast::forecast::StepAction;
use capi_forecast::simulate::{End, Event, Forecast, Hunt, Occurrence, RunFinding, Simulation};
use capstan_base::text::{truncate, width};

const MACHINE: &str = "Machine";

/// A reason is cut behind so many cells; JSON has all of it.
const REASON_CELLS_MAX: usize = 90;
/// Names in one line.
const NAMES_MAX: usize = 3;
/// Sentences of one kind.
const LINES_MAX: usize = 12;

/// Every Cluster in which something happens; the others as a count. `is_wanted`: one was asked for by name.
pub(super) fn text(simulation: &Simulation, is_wanted: bool, style: Style) -> String {
    let mut out = String::new();
    let says = |f: &&Forecast| is_wanted || f.duration.usual_s > 0 || f.ending != End::Settled;
    let (shown, quiet): (Vec<&Forecast>, Vec<&Forecast>) = simulation.clusters.iter().partition(says);
    for forecast in shown {
        Page { forecast, style }.write(&mut out);
    }
    match quiet.as_slice() {
        [] => {}
        [one] => {
            let _ = writeln!(out, "Cluster {}/{}: nothing to do", one.namespace, one.cluster);
        }
        many => {
            let _ = writeln!(out, "{} Clusters: nothing to do", many.len());
        }
    }
    out
}

/// What many runs came to, each Cluster in a few lines.
pub(super) fn hunts(hunts: &[Hunt], style: Style) -> String {
    let painted = |color: &str, text: &str| {
        if style.color { format!("{color}{text}{RESET}") } else { text.to_owned() }
    };
    let mut out = String::new();
    for hunt in hunts {
        let waiting: u64 = hunt.waiting.iter().map(|finding| finding.runs).sum();
        let head = format!("Cluster {}/{}", hunt.namespace, hunt.cluster);
        let counts = format!(
            "{} runs with 1 failing Machine: {} done, {waiting} wait for a person",
            hunt.seeds, hunt.settled
        );
        let _ = writeln!(out, "{}  {counts}", painted(BOLD, &head));
        findings("waits", &hunt.waiting, YELLOW, &painted, &mut out);
        if hunt.broken.is_empty() {
            let _ = writeln!(out, "  {}   nothing that must hold was broken", painted(GREEN, "bounds"));
        }
        findings("broken", &hunt.broken, RED, &painted, &mut out);
        out.push('\n');
    }
    out
}

fn findings(
    label: &str,
    findings: &[RunFinding],
    color: &str,
    painted: &impl Fn(&str, &str) -> String,
    out: &mut String,
) {
    for finding in findings.iter().take(LINES_MAX) {
        let seeds: Vec<String> = finding.seeds.iter().map(u64::to_string).collect();
        let blanks = " ".repeat(8 - label.len());
        let again = format!("again with --faults --seed {}", seeds.first().map_or("1", String::as_str));
        let _ = writeln!(
            out,
            "  {}{blanks} {:>5}  {}; {}",
            painted(color, label),
            finding.runs,
            finding.sentence,
            painted(GREY, &again)
        );
    }
}

struct Page<'a> {
    forecast: &'a Forecast,
    style: Style,
}

/// Events that are told in one line.
struct Line<'a> {
    first: &'a Event,
    names: Vec<&'a str>,
}

impl Page<'_> {
    fn painted(&self, color: &str, text: &str) -> String {
        if self.style.color && !text.is_empty() { format!("{color}{text}{RESET}") } else { text.to_owned() }
    }

    fn write(&self, out: &mut String) {
        let forecast = self.forecast;
        let color = match forecast.ending {
            End::Settled | End::Reached => GREEN,
            End::Stuck => RED,
            End::Circle { .. } | End::TooLong => YELLOW,
        };
        let head = format!("Cluster {}/{}", forecast.namespace, forecast.cluster);
        let ending = forecast.ending_in_words();
        let _ = writeln!(out, "{}  {}", self.painted(BOLD, &head), self.painted(color, &ending));
        self.sequence(out);
        self.section("lowest", &forecast.lows_in_words(), out);
        self.section("etcd", forecast.etcd_in_words().as_slice(), out);
        let held: Vec<String> = forecast
            .held
            .iter()
            .map(|held| format!("{}: {} ({})", held.object, held.sentence, held.rule))
            .collect();
        self.section("held", &held, out);
        self.section("assumed", &forecast.assumptions, out);
        out.push('\n');
    }

    fn section(&self, label: &str, lines: &[String], out: &mut String) {
        for (at, line) in lines.iter().take(LINES_MAX).enumerate() {
            let label = if at == 0 { label } else { "" };
            let _ = writeln!(out, "  {}{}{line}", self.painted(GREY, label), " ".repeat(10 - label.len()));
        }
        if let Some(more) = lines.len().checked_sub(LINES_MAX).filter(|more| *more > 0) {
            let _ = writeln!(out, "  {}and {more} more", " ".repeat(10));
        }
    }

    fn sequence(&self, out: &mut String) {
        let lines = gathered(&self.forecast.events);
        let told: Vec<String> = lines.iter().map(Line::words).collect();
        // One long sentence must not push the reasons of all others out of the screen.
        let widest = told.iter().map(|line| width(line)).max().unwrap_or(0).min(60);
        for (line, words) in lines.iter().zip(&told) {
            let blanks = " ".repeat(widest.saturating_sub(width(words)) + 2);
            let why = self.painted(GREY, &truncate(&line.first.why, REASON_CELLS_MAX, "…"));
            let text = format!("  {:>8}  {words}{blanks}{why}", self.forecast.moment(line.first.at_s));
            let _ = writeln!(out, "{}", text.trim_end());
        }
    }
}

impl Line<'_> {
    fn words(&self) -> String {
        let names = match self.names.as_slice() {
            [] => String::new(),
            [one] => (*one).to_owned(),
            [first @ .., last] if self.names.len() <= NAMES_MAX => format!("{} and {last}", first.join(", ")),
            many => format!("{} and {} more", many[..NAMES_MAX - 1].join(", "), many.len() + 1 - NAMES_MAX),
        };
        let who = &self.first.who;
        match &self.first.does {
            Occurrence::Action(action) if gathered_machine(action).is_some() => {
                format!("{who}: {}", action.with_machine(&names))
            }
            does if who.kind == MACHINE => format!("Machine {names}: {does}"),
            does => format!("{who}: {does}"),
        }
    }

    /// Differs the event from the first of the line in the name of a Machine alone?
    fn takes(&self, event: &Event) -> bool {
        let first = self.first;
        let is_same = match (&first.does, &event.does) {
            (Occurrence::Action(one), Occurrence::Action(other)) if gathered_machine(one).is_some() => {
                first.who == event.who && one.with_machine("") == other.with_machine("")
            }
            (one, other) => first.who.kind == MACHINE && event.who.kind == MACHINE && one == other,
        };
        is_same && first.at_s == event.at_s && first.why == event.why
    }
}

/// The Machine that comes or goes.
fn gathered_machine(action: &StepAction) -> Option<&str> {
    action.created_machine().or_else(|| action.deleted_machine())
}

/// By which name an event is gathered with others; `None`: it stands alone.
fn name_of(event: &Event) -> Option<&str> {
    let acted = match &event.does {
        Occurrence::Action(action) => gathered_machine(action),
        Occurrence::Host(_) => None,
    };
    acted.or_else(|| (event.who.kind == MACHINE).then_some(event.who.name.as_str()))
}

/// Events of one moment that differ in a name alone are one line.
fn gathered(events: &[Event]) -> Vec<Line<'_>> {
    let mut lines: Vec<Line<'_>> = Vec::new();
    // The first line of the present moment.
    let mut begin = 0;
    for event in events {
        if lines.last().is_some_and(|line| line.first.at_s != event.at_s) {
            begin = lines.len();
        }
        let name = name_of(event);
        // Only lines of this moment: the same words at another one are an event of their own.
        let mut now = lines[begin..].iter_mut().rev();
        match (now.find(|line| line.takes(event)), name) {
            (Some(line), Some(name)) => line.names.push(name),
            _ => lines.push(Line { first: event, names: name.into_iter().collect() }),
        }
    }
    lines
}
