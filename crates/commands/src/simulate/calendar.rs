//! What begins by itself in the coming days: scheduled rollouts and those that certificates ask for, each with what it comes to;
//! certificates that nothing renews. Owns the layout; must not judge.

use std::fmt::Write as _;
use std::time::Duration;

use chrono::TimeDelta;
use serde::Serialize;

use super::{Asked, SimulationAnswer};
use crate::arguments::PlanOutputArg;
use crate::output;
use crate::output::colour::{GREEN, GREY, RED, RESET};
use capi_forecast::simulate::{
    Announced, AnnouncedCause, Begin, PlannedStage, Scenario, StageForecast, announced, staged,
};
use capi_types::key::ObjectKey;
use capstan_base::text::sanitize_line;
use capstan_base::time::{human_duration, rfc3339};

/// What is announced within it of another is one rollout.
const TOGETHER: Duration = Duration::from_secs(3600);

/// One line of the calendar.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    /// RFC 3339.
    at: String,
    namespace: String,
    cluster: String,
    object: String,
    /// `schedule`, `certificates`, or `expiry`: certificates end, and nothing renews them.
    cause: &'static str,
    /// When the first certificate ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    expiry: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    forecast: Option<StageForecast>,
}

pub(super) fn answer(asked: &Asked<'_>, within: TimeDelta) -> anyhow::Result<SimulationAnswer> {
    let until = asked.now + within;
    let mut entries = Vec::new();
    for key in asked.clusters() {
        let mut coming = announced(asked.dump, key, asked.now);
        coming.retain(|one| one.at <= until);
        entries.extend(of_cluster(asked, key, &coming));
    }
    // Texts of RFC 3339 with whole seconds in UTC sort as their moments do.
    entries.sort_by(|a, b| (&a.at, &a.cluster, &a.object).cmp(&(&b.at, &b.cluster, &b.object)));
    let document = match asked.args.output {
        PlanOutputArg::Json => asked.style.block(output::json(&entries)?),
        PlanOutputArg::Text => text(&entries, &human_duration(within.num_seconds()), asked.style.color),
    };
    Ok(SimulationAnswer { document, remarks: Vec::new() })
}

fn of_cluster(asked: &Asked<'_>, key: &ObjectKey, coming: &[Announced]) -> Vec<Entry> {
    let begins = |one: &&Announced| one.cause != AnnouncedCause::Expiry;
    // A rollout begins in the second after its moment.
    let stage = |one: &Announced| PlannedStage {
        name: one.object.clone(),
        begin: Begin::At(one.at + TimeDelta::seconds(1)),
        patches: Vec::new(),
    };
    let stages: Vec<PlannedStage> = coming.iter().filter(begins).map(stage).collect();
    let scenario = Scenario { horizon: TOGETHER, ..asked.scenario.clone() };
    let told = staged(asked.dump, key, &scenario, &stages, asked.now).unwrap_or_default();
    let mut told = told.into_iter();
    let entry = |one: &Announced| Entry {
        at: rfc3339(one.at),
        namespace: sanitize_line(&key.namespace),
        cluster: sanitize_line(&key.name),
        object: sanitize_line(&one.object),
        cause: match one.cause {
            AnnouncedCause::Schedule => "schedule",
            AnnouncedCause::Certificates { .. } => "certificates",
            AnnouncedCause::Expiry => "expiry",
        },
        expiry: match one.cause {
            AnnouncedCause::Certificates { expiry } => Some(rfc3339(expiry)),
            AnnouncedCause::Schedule | AnnouncedCause::Expiry => None,
        },
        // One forecast per stage, in the order of the stages; an expiry has none.
        forecast: if one.cause == AnnouncedCause::Expiry { None } else { told.next() },
    };
    coming.iter().map(entry).collect()
}

fn text(entries: &[Entry], within: &str, color: bool) -> String {
    let painted = |paint: &str, text: &str| {
        if color { format!("{paint}{text}{RESET}") } else { text.to_owned() }
    };
    if entries.is_empty() {
        return format!("nothing begins by itself within {within}\n");
    }
    let mut out = String::new();
    for entry in entries {
        let head = format!("{}  {}/{}  {}", entry.at, entry.namespace, entry.cluster, entry.object);
        let cause = match (entry.cause, &entry.expiry) {
            ("schedule", _) => "scheduled".to_owned(),
            ("certificates", Some(expiry)) => format!("certificates end {expiry}"),
            _ => "certificates end, and nothing renews them: set spec.rollout.before.certificatesExpiryDays, or roll out"
                .to_owned(),
        };
        let paint = if entry.cause == "expiry" { RED } else { GREY };
        let _ = writeln!(out, "{head}  {}", painted(paint, &cause));
        if let Some(forecast) = &entry.forecast {
            for line in super::waves::stage_lines(forecast) {
                let paint = if forecast.is_stopped() { RED } else { GREEN };
                let _ = writeln!(out, "    {}", painted(paint, &line));
            }
        }
    }
    out
}
