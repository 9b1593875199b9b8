//! The text and the JSON of `capstan leader-migration validate`.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::output::{self, Style, colour};
use capstan_base::text;
use leader_migration::actors::Behaviour;
use leader_migration::controller_names::Function;
use leader_migration::process::Process;
use leader_migration::rules::{self, Finding, FindingSeverity};
use leader_migration::validate::exits_at_start;

/// Findings with what happens and what to do, then who has what under which lock.
pub fn text(processes: &[Process], findings: &[Finding], style: Style) -> String {
    let mut out = String::new();
    for finding in findings {
        let (on, off) = paint(finding.severity, style);
        let cause = rules::find(finding.code).map_or("", |rule| rule.cause);
        let subjects = text::sanitize_line(&finding.subjects.join(", "));
        let _ = write!(
            out,
            "{on}{} {}{off}  {cause}\n  {subjects}: {}\n  what happens: {}\n  what to do:   {}\n\n",
            finding.severity.word(),
            finding.code,
            text::sanitize_line(&finding.problem),
            finding.effect(),
            finding.remedy(),
        );
    }
    out.push_str(&matrix(processes));
    let _ = writeln!(out, "\n{}", summary(findings));
    out
}

fn paint(severity: FindingSeverity, style: Style) -> (&'static str, &'static str) {
    match severity {
        _ if !style.color => ("", ""),
        FindingSeverity::Error => (colour::RED, colour::RESET),
        FindingSeverity::Warning => (colour::YELLOW, colour::RESET),
        FindingSeverity::Info => (colour::GREY, colour::RESET),
    }
}

fn word(process: &Process, function: Function) -> &'static str {
    if process.is_in_shell {
        return "not known";
    }
    if exits_at_start(process) {
        return "exits";
    }
    Behaviour::of(process, true).placement(function).map_or("-", |placement| placement.word())
}

/// Controllers by processes.
fn matrix(processes: &[Process]) -> String {
    let mut rows = vec![vec!["CONTROLLER".to_owned()]];
    rows[0].extend(processes.iter().map(|p| format!("{} {}", text::sanitize_line(&p.name), p.release)));
    for function in Function::ALL {
        let cells = processes.iter().map(|process| word(process, function).to_owned());
        rows.push(std::iter::once(function.title().to_owned()).chain(cells).collect());
    }
    output::table(&rows)
}

fn summary(findings: &[Finding]) -> String {
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let (errors, warnings) = (count(FindingSeverity::Error), count(FindingSeverity::Warning));
    match (errors, warnings) {
        (0, 0) => {
            "no errors: each controller has one process that runs it, whoever holds the locks".to_owned()
        }
        (0, _) => format!("no errors, {warnings} to look at"),
        _ => format!("{errors} to put right, {warnings} to look at"),
    }
}

/// The same for programs.
pub fn json(processes: &[Process], findings: &[Finding]) -> Value {
    let finding = |finding: &Finding| {
        json!({
            "code": finding.code,
            "severity": finding.severity.word(),
            "subjects": finding.subjects,
            "problem": finding.problem,
            "effect": finding.effect(),
            "remedy": finding.remedy(),
        })
    };
    let process = |process: &Process| {
        let has = Function::ALL.into_iter().filter(|function| process.has(*function));
        let controllers: serde_json::Map<String, Value> = has
            .map(|function| {
                (function.name_in(process.release).to_owned(), Value::from(word(process, function)))
            })
            .collect();
        json!({
            "name": process.name,
            "component": process.manager.name(),
            "node": process.node,
            "release": process.release.to_string(),
            "mainLease": process.main_lock(),
            "migrationLease": process.migration_lock(),
            "controllers": controllers,
        })
    };
    json!({
        "findings": findings.iter().map(finding).collect::<Vec<_>>(),
        "processes": processes.iter().map(process).collect::<Vec<_>>(),
    })
}
