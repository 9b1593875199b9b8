//! Plans without control characters: text from a cluster may be hostile. Owns which texts there are.

use super::in_place::Updates;
use super::{Forecast, Held, NextStep, ObjectPlan, Seen};
use capstan_base::text::{sanitize_block, sanitize_line};

impl Forecast {
    /// Every text on one line, except messages, which keep their lines.
    pub fn sanitized(mut self) -> Self {
        self.objects.iter_mut().for_each(object);
        lines(&mut self.remarks);
        self
    }
}

fn line(text: &mut String) {
    *text = sanitize_line(text);
}

fn lines(all: &mut [String]) {
    all.iter_mut().for_each(line);
}

fn object(plan: &mut ObjectPlan) {
    for text in [&mut plan.namespace, &mut plan.name, &mut plan.cluster] {
        line(text);
    }
    plan.next.iter_mut().chain(&mut plan.then).for_each(step);
    plan.blockers.iter_mut().for_each(held);
    plan.updates.iter_mut().for_each(updates);
    lines(&mut plan.assumptions);
    lines(&mut plan.within);
}

fn step(step: &mut NextStep) {
    step.does.texts_mut().into_iter().for_each(line);
    line(&mut step.reason);
}

fn updates(updates: &mut Updates) {
    lines(&mut updates.handlers);
    for update in &mut updates.machines {
        line(&mut update.machine);
        line(&mut update.reason);
        for covered in &mut update.covered {
            line(&mut covered.handler);
            lines(&mut covered.fields);
        }
    }
}

fn held(held: &mut Held) {
    line(&mut held.sentence);
    held.evidence.iter_mut().for_each(seen);
}

fn seen(seen: &mut Seen) {
    line(&mut seen.object);
    line(&mut seen.value);
    for text in [&mut seen.condition, &mut seen.field].into_iter().flatten() {
        line(text);
    }
    seen.message = sanitize_block(&seen.message);
}
