//! The plan of one object as lines: what is next, what holds it, what happens below it, what was assumed. Must not
//! know what is scrolled, nor how a plan is made.

use ratatui::text::Line;

use crate::fleet::{Fleet, Item};
use crate::tui::paint::Paint;
use crate::tui::plans::Plans;
use crate::tui::theme::Scope;
use capi_forecast::forecast::in_place::Updates;
use capi_forecast::forecast::{Held, NextStep, ObjectPlan, Seen, State};
use capstan_base::text;
use capstan_base::time::{Timestamp, human_duration, parse_rfc3339};

/// Behind a label.
const INDENT: usize = 10;
/// Steps that are shown, and objects below.
const STEPS_MAX: usize = 20;
const BELOW_MAX: usize = 30;

/// The plan of the object, or why there is none.
pub fn plan(
    fleet: &Fleet,
    item: Option<Item>,
    plans: &Plans,
    paint: &Paint<'_>,
    width: usize,
) -> Vec<Line<'static>> {
    let mut page = Page { paint, width, lines: Vec::new() };
    if let Some(why) = plans.trouble() {
        page.paragraph("", why, Scope::Stale);
    }
    let row = item.and_then(|item| if let Item::Row(id) = item { fleet.row(id) } else { None });
    let planned = row.and_then(|row| plans.of_row(row));
    match planned {
        Some(plan) => page.object(plan, plans),
        None if plans.at().is_none() && plans.trouble().is_none() => {
            page.paragraph("", "reading the cluster", Scope::Muted);
        }
        None if plans.at().is_some() => {
            page.paragraph("", "there is no plan for this object: the kind has no planner, or it came after the plans were read", Scope::Muted);
        }
        None => {}
    }
    page.lines
}

/// In words, where an object does, waits for or is held back by something.
pub fn brief(plan: &ObjectPlan) -> Option<String> {
    (plan.state != State::Settled).then(|| plan.brief())
}

struct Page<'a, 'b> {
    paint: &'a Paint<'b>,
    width: usize,
    lines: Vec<Line<'static>>,
}

impl Page<'_, '_> {
    fn object(&mut self, plan: &ObjectPlan, plans: &Plans) {
        let (word, scope) = word(plan.state);
        self.paragraph("plan", word, scope);
        let (also, next): (Vec<&NextStep>, Vec<&NextStep>) = plan.next.iter().partition(|s| s.is_bookkeeping);
        self.steps("next", &next);
        self.steps("then", &plan.then.iter().collect::<Vec<_>>());
        if !also.is_empty() {
            let actions: Vec<String> = also.iter().map(|step| step.does.to_string()).collect();
            self.paragraph("also", &actions.join(", "), Scope::Muted);
        }
        for (word, line) in plan.updates.iter().flat_map(Updates::lines) {
            self.paragraph(word, &line, Scope::Text);
        }
        // Several blockers may rest on the same evidence, which is shown once.
        let mut shown: Vec<&Seen> = Vec::new();
        for held in &plan.blockers {
            self.held(plan.state, held, &shown);
            shown.extend(&held.evidence);
        }
        if let Some(look) = &plan.next_look {
            let moment = parse_rfc3339(&look.at).map(|at| self.until(at)).unwrap_or_default();
            let or = if look.not_before { "not before" } else { "or on the next change" };
            self.paragraph("look", &format!("{moment}, {or}"), Scope::Muted);
        }
        self.below(plan, plans);
        self.list("assumed", &plan.assumptions);
        self.list("not seen", plans.remarks());
    }

    fn until(&self, at: Timestamp) -> String {
        let left_s = (at - self.paint.now).num_seconds();
        if left_s <= 0 { "now".to_owned() } else { format!("in {}", human_duration(left_s)) }
    }

    /// A label, and text wrapped beside it.
    fn paragraph(&mut self, label: &str, words: &str, scope: Scope) {
        let indent = if label.is_empty() { 0 } else { INDENT };
        let room = self.width.saturating_sub(indent).max(10);
        for (at, part) in text::wrap(words, room).into_iter().enumerate() {
            let lead = if at == 0 { label } else { "" };
            self.lines.push(Line::from(vec![
                self.paint.span(Scope::Muted, format!("{lead:<indent$}")),
                self.paint.span(scope, part),
            ]));
        }
    }

    fn steps(&mut self, label: &str, steps: &[&NextStep]) {
        for (at, step) in steps.iter().take(STEPS_MAX).enumerate() {
            let times = if step.count > 1 { format!(" ({} times)", step.count) } else { String::new() };
            let lead = if at == 0 { label } else { " " };
            self.paragraph(lead, &format!("{}{times}", step.does), Scope::Text);
            self.paragraph(" ", &format!("  {}", step.reason), Scope::Muted);
        }
        if steps.len() > STEPS_MAX {
            self.paragraph(" ", &format!("and {} more", steps.len() - STEPS_MAX), Scope::Muted);
        }
    }

    fn held(&mut self, state: State, held: &Held, shown: &[&Seen]) {
        let (label, scope) = match (state, held.on_its_way) {
            (State::Paused, _) => ("paused", Scope::Strong),
            (State::Unknown, _) => ("unknown", Scope::Unknown),
            (_, true) => ("waits", Scope::Progressing),
            (_, false) => ("blocked", Scope::Blocked),
        };
        self.paragraph(label, &held.sentence, scope);
        for seen in held.evidence.iter().filter(|seen| !shown.contains(seen)) {
            let what = match (&seen.condition, &seen.field) {
                (Some(type_), _) => format!("{type_} {}", seen.value),
                (None, Some(path)) => format!("{path}: {}", seen.value),
                (None, None) => seen.value.clone(),
            };
            let since = seen.since.as_deref().and_then(parse_rfc3339);
            let since = since.map(|at| format!(" for {}", self.paint.age(at))).unwrap_or_default();
            self.paragraph(" ", &format!("  {}  {what}{since}", seen.object), Scope::Muted);
            // The sentence may repeat the message, which need not be read twice.
            let is_new = |line: &&str| !held.sentence.contains(line.trim().trim_end_matches(':'));
            for line in seen.message.lines().filter(is_new) {
                self.paragraph(" ", &format!("    {line}"), Scope::Muted);
            }
        }
    }

    /// What acts, waits or is held below, a line each.
    fn below(&mut self, plan: &ObjectPlan, plans: &Plans) {
        let active: Vec<(&ObjectPlan, String)> =
            plans.below(plan).filter_map(|below| Some((below, brief(below)?))).collect();
        if active.is_empty() || plan.state == State::Paused {
            return;
        }
        self.heading("Below it");
        for (below, brief) in active.iter().take(BELOW_MAX) {
            self.paragraph("", &format!("{} {}: {brief}", below.kind, below.name), word(below.state).1);
        }
        if active.len() > BELOW_MAX {
            self.paragraph("", &format!("and {} more", active.len() - BELOW_MAX), Scope::Muted);
        }
    }

    fn list(&mut self, title: &'static str, all: &[String]) {
        if !all.is_empty() {
            self.heading(title);
        }
        for one in all {
            self.paragraph("", one, Scope::Muted);
        }
    }

    fn heading(&mut self, title: &'static str) {
        self.lines.push(Line::default());
        self.lines.push(Line::from(self.paint.span(Scope::Column, title.to_uppercase())));
    }
}

fn word(state: State) -> (&'static str, Scope) {
    match state {
        State::Settled => ("settled: nothing to do", Scope::Ok),
        State::Acting => ("acting", Scope::Progressing),
        State::Waiting => ("waiting", Scope::Progressing),
        State::Blocked => ("blocked", Scope::Blocked),
        State::Paused => ("paused", Scope::Strong),
        State::Unknown => ("not known", Scope::Unknown),
    }
}
