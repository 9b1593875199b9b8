//! An etcd's report for people. Must not judge.

use std::fmt::Write as _;

use capi_rules::etcd::members::MemberRow;
use capi_rules::etcd::report::Report;
use capstan_base::text;

const HEADINGS: [&str; 11] = [
    "MEMBER",
    "MACHINE",
    "ID",
    "ROLE",
    "ANSWER",
    "VERSION",
    "DB / QUOTA",
    "TERM",
    "INDEX",
    "BEHIND",
    "ALARMS",
];

/// The head line, one line per member, findings, and what is left without each member.
pub fn text(report: &Report) -> String {
    let has_machines = report.members.iter().any(|row| row.machine.is_some());
    let mut lines = vec![HEADINGS.map(str::to_owned).to_vec()];
    lines.extend(report.members.iter().map(cells));
    if !has_machines {
        // Column 1 is MACHINE: members at addresses that were given belong to none that is known.
        lines.iter_mut().for_each(|line| drop(line.remove(1)));
    }
    let mut out = format!("{}\n\n{}", report.summary, table(&lines));
    if !report.findings.is_empty() {
        out.push('\n');
        for finding in &report.findings {
            let _ = writeln!(out, "{:<8}  {}: {}", finding.grade.word(), finding.rule, finding.text);
        }
    }
    if !report.removals.is_empty() {
        out.push('\n');
        report.removals.iter().for_each(|removal| out.push_str(&(removal.words() + "\n")));
    }
    out
}

fn cells(row: &MemberRow) -> Vec<String> {
    let stated = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    vec![
        stated(Some(row.shown_name().to_owned()).filter(|name| !name.is_empty())),
        stated(row.machine.clone()),
        if row.id.is_empty() { "-".to_owned() } else { row.id.clone() },
        row.role.word().to_owned(),
        row.answer(),
        stated(row.version.clone()),
        stated(row.space()),
        stated(row.raft.map(|raft| raft.term.to_string())),
        stated(row.raft.map(|raft| raft.index.to_string())),
        stated(row.behind.map(|behind| behind.to_string())),
        if row.alarms.is_empty() { "-".to_owned() } else { row.alarms.join(",") },
    ]
}

/// Columns, padded to their widest cell.
fn table(lines: &[Vec<String>]) -> String {
    let safe = |cell: &String| text::sanitize_line(cell);
    let lines: Vec<Vec<String>> = lines.iter().map(|line| line.iter().map(safe).collect()).collect();
    let count = lines.first().map_or(0, Vec::len);
    let widest = |at: usize| lines.iter().map(|line| text::width(&line[at])).max().unwrap_or(0);
    let widths: Vec<usize> = (0..count).map(widest).collect();
    let mut out = String::new();
    for line in &lines {
        let mut row = String::new();
        for (cell, width) in line.iter().zip(&widths) {
            let _ = write!(row, "{cell}{}", " ".repeat(width - text::width(cell) + 2));
        }
        out.push_str(row.trim_end());
        out.push('\n');
    }
    out
}
