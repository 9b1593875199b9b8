//! Forecasts as an operator reads them: how each Cluster ends and when, what happens on the way, how low it goes, what
//! holds it, what was assumed. Owns layout and colour; must not judge.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::cli::output::Style;
use crate::cli::output::colour::{BOLD, GREEN, GREY, RED, RESET, YELLOW};
use capi_forecast::simulate::{End, Event, Forecast, Hunt, RunFinding, Simulation};
use capstan_base::text::{truncate, width};

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
struct Line {
    at_s: i64,
    /// Kind and the verb's end, by which events are alike.
    shape: (String, String, String),
    names: Vec<String>,
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
        let widest = told.iter().map(|line| width(line)).max().unwrap_or(0).min(60);
        for (line, words) in lines.iter().zip(&told) {
            let blanks = " ".repeat(widest.saturating_sub(width(words)) + 2);
            let why = self.painted(GREY, &truncate(&line.shape.2, REASON_CELLS_MAX, "…"));
            let text = format!("  {:>8}  {words}{blanks}{why}", self.forecast.moment(line.at_s));
            let _ = writeln!(out, "{}", text.trim_end());
        }
    }
}

impl Line {
    fn words(&self) -> String {
        let (who, what, _) = &self.shape;
        let names = match self.names.as_slice() {
            [] => String::new(),
            [one] => one.clone(),
            [first @ .., last] if self.names.len() <= NAMES_MAX => format!("{} and {last}", first.join(", ")),
            many => format!("{} and {} more", many[..NAMES_MAX - 1].join(", "), many.len() + 1 - NAMES_MAX),
        };
        what.replace('\u{0}', &names).replace('\u{1}', who)
    }
}

/// Events of one moment that differ in a name alone are one line.
fn gathered(events: &[Event]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut open: BTreeMap<(String, String, String), usize> = BTreeMap::new();
    let mut now = None;
    for event in events {
        if now != Some(event.at_s) {
            open.clear();
            now = Some(event.at_s);
        }
        let (shape, name) = shape(event);
        match (open.get(&shape), &name) {
            (Some(at), Some(name)) => lines[*at].names.push(name.clone()),
            _ => {
                open.insert(shape.clone(), lines.len());
                lines.push(Line { at_s: event.at_s, shape, names: name.into_iter().collect() });
            }
        }
    }
    lines
}

/// What events have in common, with `\0` where the name stands and `\1` for who acts.
fn shape(event: &Event) -> ((String, String, String), Option<String>) {
    for verb in ["create Machine ", "delete Machine "] {
        if let Some(rest) = event.what.strip_prefix(verb) {
            let (name, more) =
                rest.split_once(' ').map_or((rest, String::new()), |(name, more)| (name, format!(" {more}")));
            let what = format!("\u{1}: {verb}\u{0}{more}");
            return ((event.who.clone(), what, event.why.clone()), Some(name.to_owned()));
        }
    }
    match event.who.strip_prefix("Machine/") {
        Some(name) => {
            let what = format!("Machine \u{0}: {}", event.what);
            ((String::new(), what, event.why.clone()), Some(name.to_owned()))
        }
        None => ((event.who.clone(), format!("\u{1}: {}", event.what), event.why.clone()), None),
    }
}
