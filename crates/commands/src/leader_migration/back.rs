//! `capstan leader-migration back`: the way back of a migration of a running cluster as steps, with the edits of the one that comes
//! next. Owns the text; the order is `leader_migration::back`'s.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::Printed;
use super::args::BackArgs;
use super::walkthrough::{Looked, edits_as_json, edits_text, look_at};
use crate::arguments::PlanOutputArg;
use crate::output;
use capstan_base::text::sanitize_line;
use capstan_base::time::Timestamp;
use capstan_dashboard::operations::change::source::LiveCluster;
use leader_migration::back::BackReport;
use leader_migration::back_edits::back_edits;
use leader_migration::edits::{Settings, StageEdits};
use leader_migration::stages::StageState;

/// Reads the cluster and judges the steps. Fine unless one is blocked.
///
/// # Errors
/// The pods or Leases cannot be read, or a process cannot be understood.
pub async fn back(live: &LiveCluster, args: &BackArgs, now: Timestamp) -> anyhow::Result<Printed> {
    let Looked { situation, mut settings, remarks } = look_at(live, &args.walk, now).await?;
    if let Some(provider) = &args.cloud_provider {
        settings.provider.clone_from(provider);
    }
    if let Some(release) = args.old_version {
        settings.releases.0 = release;
    }
    let steps = situation.back_to(args.to);
    let document = match args.walk.output {
        PlanOutputArg::Json => output::json(&as_json(&steps, &settings))?,
        PlanOutputArg::Text => text(&steps, &settings),
    };
    let is_fine = !steps.iter().any(|step| matches!(step.state, StageState::Blocked(_)));
    Ok(Printed { document, remarks, is_fine })
}

/// The edits of the step that comes next: those of a later one are about objects as they will be then.
fn has_edits(step: &BackReport) -> bool {
    matches!(step.state, StageState::InProgress(_) | StageState::Todo(_))
}

fn text(steps: &[BackReport], settings: &Settings) -> String {
    let mut out = String::new();
    for (number, report) in steps.iter().enumerate() {
        let (number, word) = (number + 1, report.state.word());
        let _ = writeln!(out, "{number} {word:<11}  {}", report.step.title());
        if !report.state.reason().is_empty() {
            let _ = writeln!(out, "  {}", sanitize_line(report.state.reason()));
        }
        if let Some(wait) = &report.wait {
            let _ =
                writeln!(out, "  wait {} s: {} was restarted last", wait.left_s, sanitize_line(&wait.after));
        }
        if has_edits(report) {
            edits_text(&mut out, &back_edits(report.step, settings));
        }
    }
    if steps.iter().all(|report| report.state == StageState::Done) {
        out.push_str("nothing is left to take back\n");
    }
    out
}

fn as_json(steps: &[BackReport], settings: &Settings) -> Value {
    let step = |report: &BackReport| {
        let made = if has_edits(report) { back_edits(report.step, settings) } else { StageEdits::default() };
        let (edits, omitted) = edits_as_json(made);
        json!({
            "title": report.step.title(),
            "state": report.state.word(),
            "reason": report.state.reason(),
            "next": report.next,
            "waitSeconds": report.wait.as_ref().map(|wait| wait.left_s),
            "edits": edits,
            "notPrinted": omitted,
        })
    };
    json!({ "steps": steps.iter().map(step).collect::<Vec<_>>() })
}
