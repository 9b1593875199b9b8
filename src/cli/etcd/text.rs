//! An etcd's report for people. Must not judge.

use std::fmt::Write as _;

use crate::status::etcd::findings::Grade;
use crate::status::etcd::members::{MemberRow, Role};
use crate::status::etcd::report::{Removal, Report};
use crate::text;

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
        lines.iter_mut().for_each(|line| drop(line.remove(1)));
    }
    let mut out = format!("{}\n\n{}", report.summary, table(&lines));
    if !report.findings.is_empty() {
        out.push('\n');
        for finding in &report.findings {
            let _ = writeln!(out, "{:<8}  {}: {}", grade(finding.grade), finding.rule, finding.text);
        }
    }
    if !report.removals.is_empty() {
        out.push('\n');
        report.removals.iter().for_each(|removal| out.push_str(&(left(removal) + "\n")));
    }
    out
}

/// What is left without one member.
fn left(removal: &Removal) -> String {
    let rest = match removal.can_lose {
        Some(n) => format!("can lose {n} more"),
        None => format!("quorum of {} would be lost", removal.quorum),
    };
    let plural = if removal.voters == 1 { "" } else { "s" };
    format!("without {}: {} voter{plural}, healthy {}, {rest}", removal.name, removal.voters, removal.healthy)
}

fn grade(grade: Grade) -> &'static str {
    match grade {
        Grade::Low => "low",
        Grade::Medium => "medium",
        Grade::High => "high",
        Grade::Critical => "critical",
    }
}

fn cells(row: &MemberRow) -> Vec<String> {
    let stated = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let name = if row.name.is_empty() { row.asked.clone().unwrap_or_default() } else { row.name.clone() };
    let answer = match (&row.trouble, row.took_ms) {
        (Some(failed), _) => failed.class.words().to_owned(),
        (None, Some(ms)) => format!("{ms} ms"),
        (None, None) => "not asked".to_owned(),
    };
    vec![
        if name.is_empty() { "-".to_owned() } else { name },
        stated(row.machine.clone()),
        if row.id.is_empty() { "-".to_owned() } else { row.id.clone() },
        role(row.role).to_owned(),
        answer,
        stated(row.version.clone()),
        stated(space(row)),
        stated(row.raft.map(|raft| raft.term.to_string())),
        stated(row.raft.map(|raft| raft.index.to_string())),
        stated(row.behind.map(|behind| behind.to_string())),
        if row.alarms.is_empty() { "-".to_owned() } else { row.alarms.join(",") },
    ]
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Leader => "leader",
        Role::Voter => "voter",
        Role::Learner => "learner",
        Role::Unstarted => "not started",
        Role::NotListed => "not listed",
        Role::Unknown => "unknown",
    }
}

/// Size, quota (`~`: assumed) and how much of it is used.
fn space(row: &MemberRow) -> Option<String> {
    let (database, quota) = (row.database?, row.quota?);
    let used = database.size_bytes.saturating_mul(100) / quota.bytes.max(1);
    let about = if quota.is_assumed { "~" } else { "" };
    Some(format!("{} / {about}{} ({used} %)", size(database.size_bytes), size(quota.bytes)))
}

/// In the largest unit that keeps it at one or more.
fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes >> 10),
        1_048_576..1_073_741_824 => format!("{} MiB", bytes >> 20),
        _ => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
    }
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
