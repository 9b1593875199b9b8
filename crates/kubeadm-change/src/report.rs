//! A plan in words: for a terminal, as a runbook, for programs. Owns layout; must not know where it is shown.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::difference::{FieldChange, is_secret};
use super::facts::{ClusterFacts, ManagedBy};
use super::node_file::NodeFile;
use super::plan::{ChangePlan, PlanState, PlannedStep};
use super::rules::Judgement;

fn state_words(state: PlanState) -> &'static str {
    match state {
        PlanState::Nothing => "nothing to do",
        PlanState::Ready => "ready",
        PlanState::Blocked => "blocked: some changes must not be made",
        PlanState::NeedsAcknowledgement => "needs acknowledgement (--acknowledge)",
        PlanState::Invalid => "the documents that are asked for are wrong",
    }
}

/// As reports print it.
pub fn verdict_word(verdict: Judgement) -> &'static str {
    match verdict {
        Judgement::Ok => "ok",
        Judgement::Advise => "advise",
        Judgement::Block => "block",
    }
}

fn cluster_words(plan: &ChangePlan, facts: &ClusterFacts) -> String {
    let version = facts.minor.map_or_else(|| "of unknown version".to_owned(), |minor| format!("1.{minor}"));
    let nodes = match facts.control_planes() {
        Some(count) => format!("{count} control plane nodes, {} others", facts.workers.len()),
        None => "nodes unknown".to_owned(),
    };
    let by = match plan.managed_by {
        ManagedBy::Kubeadm => "kubeadm on each node",
        ManagedBy::ControlPlane => "a KubeadmControlPlane",
    };
    format!("Kubernetes {version}, {nodes}, looked after by {by}")
}

/// For a terminal.
pub fn as_text(plan: &ChangePlan, facts: &ClusterFacts) -> String {
    let mut text = head_lines(plan, facts).join("\n") + "\n";
    if !plan.to_acknowledge.is_empty() {
        let names = plan.to_acknowledge.join(", ");
        // Writing into a String does not fail.
        let _ = writeln!(text, "to acknowledge, all by --acknowledge or each by --acknowledge NAME: {names}");
    }
    let (before, after) = sections(plan);
    for (title, lines) in before.into_iter().chain([("STEPS", step_lines(&plan.steps))]).chain(after) {
        if !lines.is_empty() {
            let _ = writeln!(text, "\n{title}");
            lines.iter().for_each(|line| {
                let _ = writeln!(text, "  {line}");
            });
        }
    }
    text
}

/// What it is and where, in two lines.
pub fn head_lines(plan: &ChangePlan, facts: &ClusterFacts) -> [String; 2] {
    [format!("plan {}: {}", plan.id, state_words(plan.state)), cluster_words(plan, facts)]
}

/// The parts of a text, each with its title.
pub type Sections = Vec<(&'static str, Vec<String>)>;

/// Everything that is said before the steps, and after them.
pub fn sections(plan: &ChangePlan) -> (Sections, Sections) {
    let findings = plan.findings.iter().map(|f| format!("{}: {}", f.kind, f.message)).collect();
    let before = vec![
        ("WRONG WITH WHAT IS ASKED FOR", findings),
        ("CHANGES", change_lines(plan)),
        ("DRIFT: runs otherwise than stored; writing manifests anew takes it back", drift_lines(plan)),
        ("ROLLOUTS", rollout_lines(plan)),
        ("REACHES", reach_lines(plan)),
        ("WHAT PEOPLE NOTICE", plan.disruption.clone()),
    ];
    (before, vec![("NOTES", plan.notes.clone())])
}

fn change_lines(plan: &ChangePlan) -> Vec<String> {
    let mut lines = Vec::new();
    for judged in &plan.changes {
        let (change, finding) = (&judged.change, &judged.finding);
        let kind = change.kind.name();
        let word = verdict_word(finding.verdict);
        lines.push(format!(
            "{word:<6} {kind} {}: {} → {}",
            change.path,
            change.old_text(),
            change.new_text()
        ));
        if let Some(because) = &change.derived_from {
            lines.push(format!("         follows from {because}"));
        }
        lines.push(format!("         {}", finding.message));
        if plan.managed_by == ManagedBy::ControlPlane && finding.verdict != Judgement::Block {
            let effect = json!(finding.control_plane_effect);
            lines.push(format!("         KubeadmControlPlane: {}", effect.as_str().unwrap_or_default()));
        }
        if let Some(alternative) = &finding.alternative {
            lines.push(format!("         instead: {alternative}"));
        }
        if finding.verdict == Judgement::Block && finding.forceable {
            lines.push("         --force passes this block".to_owned());
        }
    }
    lines
}

fn rollout_lines(plan: &ChangePlan) -> Vec<String> {
    let Some(part) = &plan.rollout else { return Vec::new() };
    if !part.by_same_request {
        let mut lines = vec![
            "each is a request of its own with a file of its own name, begun when the one before is complete; what is in the files is not seen here, so you know which one this is".to_owned(),
        ];
        let all = std::iter::once(&part.what).chain(&part.next).enumerate();
        lines.extend(all.map(|(at, what)| format!("{}. {what}", at + 1)));
        return lines;
    }
    let mut lines = vec![format!("1. this plan: {}", part.what)];
    lines.extend(part.next.iter().enumerate().map(|(at, next)| format!("{}. afterwards: {next}", at + 2)));
    lines.push("when this one is complete, the same request plans the next one".to_owned());
    lines
}

fn drift_lines(plan: &ChangePlan) -> Vec<String> {
    let mut lines = Vec::new();
    for drift in &plan.drift {
        lines.push(format!("{} on {}: {}", drift.component, drift.node, drift.likely));
        lines.extend(drift.differences.iter().map(|line| format!("    {line}")));
    }
    lines
}

fn reach_lines(plan: &ChangePlan) -> Vec<String> {
    let mut lines = Vec::new();
    for reach in &plan.reach {
        let nodes =
            if reach.nodes.is_empty() { String::new() } else { format!(" on {}", reach.nodes.join(", ")) };
        lines.push(format!("{}{nodes}", reach.component.name()));
        lines.extend(reach.differences.iter().map(|line| format!("    {line}")));
    }
    lines
}

/// The steps with their commands, for a terminal. How one is taken back stands where its kind comes first.
pub fn step_lines(steps: &[PlannedStep]) -> Vec<String> {
    let (mut lines, mut said) = (Vec::new(), BTreeSet::new());
    for (index, step) in steps.iter().enumerate() {
        let nodes =
            if step.nodes.is_empty() { String::new() } else { format!(" [{}]", step.nodes.join(", ")) };
        lines.push(format!("{:>2}. {}{nodes} {}", index + 1, step.id.name(), step.title));
        lines.extend(file_lines(step).map(|line| format!("      {line}")));
        lines.extend(step.script().lines().map(|line| format!("      $ {line}")));
        lines.push(format!("      then: {}", step.check));
        if step.id.is_taken_back() && said.insert(&step.undo) {
            lines.push(format!("      back: {}", step.undo));
        }
    }
    lines
}

/// Where the files come from that a step needs on its node.
pub fn file_lines(step: &PlannedStep) -> impl Iterator<Item = String> {
    step.files.iter().map(|NodeFile { path, name, .. }| {
        format!("needs {path}: `change apply` prints a block that writes it, `change plan --files` makes it as {name}")
    })
}

/// A runbook, with a box for each check.
pub fn as_markdown(plan: &ChangePlan, facts: &ClusterFacts) -> String {
    let mut text =
        format!("# Plan {}\n\n{}. {}.\n", plan.id, state_words(plan.state), cluster_words(plan, facts));
    if !plan.changes.is_empty() {
        text.push_str("\n## Changes\n\n| | Attribute | Before | After | What it means |\n| --- | --- | --- | --- | --- |\n");
        for judged in &plan.changes {
            let (change, finding) = (&judged.change, &judged.finding);
            let instead = finding.alternative.as_ref().map_or_else(String::new, |a| format!(" Instead: {a}"));
            let _ = writeln!(
                text,
                "| {} | `{}` | {} | {} | {}{} |",
                verdict_word(finding.verdict),
                change.path,
                cell(&change.old_text()),
                cell(&change.new_text()),
                cell(&finding.message),
                cell(&instead)
            );
        }
    }
    let mut list = |title: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            let _ = writeln!(text, "\n## {title}\n");
            lines.iter().for_each(|line| {
                let _ = writeln!(text, "- {}", line.trim());
            });
        }
    };
    list("Rollouts", rollout_lines(plan));
    list("Drift", drift_lines(plan));
    list("What people notice", plan.disruption.clone());
    list("Notes", plan.notes.clone());
    if !plan.steps.is_empty() {
        text.push_str("\n## Steps\n");
    }
    for (index, step) in plan.steps.iter().enumerate() {
        let nodes =
            if step.nodes.is_empty() { String::new() } else { format!(" on {}", step.nodes.join(", ")) };
        let _ = writeln!(text, "\n### {}. {}{nodes}\n", index + 1, step.title);
        for line in file_lines(step) {
            let _ = writeln!(text, "{line}\n");
        }
        if !step.commands.is_empty() {
            let _ = writeln!(text, "```\n{}\n```\n", step.script());
        }
        let _ = writeln!(text, "- [ ] {}\n- to take it back: {}", step.check, step.undo);
    }
    text
}

/// A cell of a table is one line without bars.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// For programs; secrets are hidden.
pub fn as_json(plan: &ChangePlan) -> Value {
    let mut value = json!(plan);
    // The plan writes its values as they are, secrets too: old and new are replaced by their hidden form.
    let changes: Vec<_> = plan.changes.iter().map(|judged| judged.change.clone()).collect();
    for (shown, hidden) in value["changes"].as_array_mut().into_iter().flatten().zip(change_values(&changes))
    {
        shown["old"] = hidden["old"].clone();
        shown["new"] = hidden["new"].clone();
    }
    value["components"] = json!(plan.components());
    value
}

/// Changes as values, without secrets.
pub fn change_values(changes: &[FieldChange]) -> Vec<Value> {
    let value = |change: &FieldChange, value: &Value| {
        if is_secret(&change.path) && !value.is_null() { json!("(hidden)") } else { value.clone() }
    };
    let entry = |change: &FieldChange| {
        json!({
            "kind": change.kind, "path": change.path.to_string(), "derivedFrom": change.derived_from,
            "old": value(change, &change.old), "new": value(change, &change.new),
        })
    };
    changes.iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::{cluster, planned};

    #[test]
    fn the_way_back_of_a_kind_of_step_stands_once() {
        let plan = planned(&cluster(3, 40), &["apiServer.extraArgs[event-ttl]=2h", "maxPods=60"]);
        let lines = step_lines(&plan.steps);
        let back: Vec<&String> = lines.iter().filter(|line| line.starts_with("      back: ")).collect();
        let of_steps: BTreeSet<&String> =
            plan.steps.iter().filter(|step| step.id.is_taken_back()).map(|step| &step.undo).collect();
        assert!(back.len() == of_steps.len() && back.len() < 8, "{back:#?}");
        assert!(!back.iter().any(|line| line.contains("nothing to take back")), "{back:#?}");
    }
}
