//! Earlier forecasts beside what has happened since. Owns how they are read and how the comparison is printed; what happened
//! is `simulate`'s to say.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};

use super::{Asked, SimulationAnswer};
use crate::arguments::PlanOutputArg;
use crate::output;
use crate::output::colour::{GREEN, GREY, RED, RESET};
use capi_forecast::simulate::{Duration, Score, score};
use capi_types::key::ObjectKey;
use capstan_base::text::sanitize_line;
use capstan_base::time::{Timestamp, parse_rfc3339};

/// What is read of an earlier answer.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Recorded {
    at: String,
    clusters: Vec<RecordedCluster>,
}

#[derive(Deserialize)]
struct RecordedCluster {
    namespace: String,
    cluster: String,
    ending: RecordedEnd,
    duration: Duration,
}

#[derive(Deserialize)]
struct RecordedEnd {
    state: String,
}

/// One comparison.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    namespace: String,
    cluster: String,
    /// RFC 3339, of the forecast.
    at: String,
    forecast: Duration,
    /// Seconds until it was through; none: it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    took_s: Option<i64>,
    /// `within`, `shorter`, `longer`, `underWay`, `late`, `nothing`, or `gone`.
    outcome: &'static str,
}

pub(super) fn answer(asked: &Asked<'_>) -> anyhow::Result<SimulationAnswer> {
    let mut entries = Vec::new();
    for file in &asked.args.score {
        let recorded = read(file)?;
        let at = parse_rfc3339(&recorded.at)
            .with_context(|| format!("--score {}: `at` is not a moment: {}", file.display(), recorded.at))?;
        if at > asked.now {
            bail!("--score {}: the forecast is of {}, which is yet to come", file.display(), recorded.at);
        }
        for cluster in recorded.clusters {
            let key = ObjectKey::new(&cluster.namespace, &cluster.cluster);
            let is_meant = asked.cluster.is_none_or(|wanted| *wanted == key);
            // What was forecast not to end has no duration.
            if is_meant && cluster.ending.state == "settled" && cluster.duration.usual_s > 0 {
                entries.push(compared(asked, &key, &cluster, &recorded.at, at));
            }
        }
    }
    let document = match asked.args.output {
        PlanOutputArg::Json => asked.style.block(output::json(&entries)?),
        PlanOutputArg::Text => text(&entries, asked.style.color),
    };
    Ok(SimulationAnswer { document, remarks: Vec::new() })
}

fn read(file: &Path) -> anyhow::Result<Recorded> {
    let name = file.display();
    let text = std::fs::read_to_string(file).with_context(|| format!("--score {name}: it cannot be read"))?;
    serde_json::from_str(&text).map_err(|error| {
        anyhow::anyhow!(
            "--score {name}:{}: expected what `capstan simulate -o json` prints: {error}",
            error.line()
        )
    })
}

fn compared(
    asked: &Asked<'_>,
    key: &ObjectKey,
    recorded: &RecordedCluster,
    at: &str,
    began: Timestamp,
) -> Entry {
    let Duration { short_s, long_s, .. } = recorded.duration;
    let (took_s, outcome) = match score(asked.dump, key, began, asked.now) {
        None => (None, "gone"),
        Some(Score::Nothing) => (None, "nothing"),
        Some(Score::UnderWay { for_s }) if for_s <= long_s => (None, "underWay"),
        Some(Score::UnderWay { .. }) => (None, "late"),
        Some(Score::Done { took_s }) if took_s < short_s => (Some(took_s), "shorter"),
        Some(Score::Done { took_s }) if took_s > long_s => (Some(took_s), "longer"),
        Some(Score::Done { took_s }) => (Some(took_s), "within"),
    };
    let (namespace, cluster) = (sanitize_line(&key.namespace), sanitize_line(&key.name));
    Entry { namespace, cluster, at: sanitize_line(at), forecast: recorded.duration, took_s, outcome }
}

fn text(entries: &[Entry], color: bool) -> String {
    let painted = |paint: &str, text: &str| {
        if color { format!("{paint}{text}{RESET}") } else { text.to_owned() }
    };
    let mut out = String::new();
    for entry in entries {
        let took = |words: &str| {
            let took = capi_forecast::simulate::seconds(entry.took_s.unwrap_or(0));
            format!("took {took}, {words}")
        };
        let (paint, words) = match entry.outcome {
            "within" => (GREEN, took("as forecast")),
            "shorter" => (RED, took("less than forecast")),
            "longer" => (RED, took("more than forecast")),
            "underWay" => (GREY, "is under way".to_owned()),
            "late" => (RED, "is under way, longer than forecast".to_owned()),
            "nothing" => (GREY, "nothing has changed since".to_owned()),
            _ => (GREY, "is gone".to_owned()),
        };
        let Entry { namespace, cluster, at, forecast, .. } = entry;
        let forecast = forecast.in_words();
        let _ = writeln!(out, "{namespace}/{cluster}  {at}: {forecast}; {}", painted(paint, &words));
    }
    let done = entries.iter().filter(|entry| entry.took_s.is_some()).count();
    let within = entries.iter().filter(|entry| entry.outcome == "within").count();
    match done {
        0 => out.push_str("no forecast has come to its end\n"),
        _ => {
            let _ = writeln!(out, "{within} of {done} within their range");
        }
    }
    out
}
