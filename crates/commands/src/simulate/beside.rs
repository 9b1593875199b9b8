//! Two forecasts side by side: as given, and with something else tried too. Owns their layout; must not judge which is better.

use std::fmt::Write as _;

use serde::Serialize;

use super::Asked;
use crate::arguments::PlanOutputArg;
use crate::output;
use crate::output::colour::{BOLD, GREY, RESET};
use capi_forecast::simulate::{Forecast, Simulation, simulate};
use capstan_base::text::{width, wrap};
use capstan_dashboard::actions::tried::{self, Tried};

/// Cells of one column.
const COLUMN: usize = 46;
const LABEL: usize = 8;

/// Both of them, for scripts.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Comparison {
    api_version: &'static str,
    kind: &'static str,
    /// What the second tries besides.
    beside: Vec<String>,
    first: Simulation,
    second: Simulation,
}

/// `first`: as given. The second is computed here.
pub(super) fn document(asked: &Asked<'_>, first: Simulation, tried: &Tried) -> anyhow::Result<String> {
    // A copy: both forecasts begin with the same objects.
    let mut dump = asked.dump.clone();
    tried::apply(&mut dump, &tried.changes)?;
    let mut scenario = asked.scenario.clone();
    scenario.faults.failing.extend(super::failing(&dump, &tried.failing, "--beside failing=")?);
    let second = simulate(&dump, asked.cluster, &scenario, asked.now);
    let beside: Vec<String> = asked.args.beside.iter().map(ToString::to_string).collect();
    Ok(match asked.args.output {
        PlanOutputArg::Json => {
            let api_version = capi_forecast::simulate::API_VERSION;
            let comparison = Comparison { api_version, kind: "Comparison", beside, first, second };
            asked.style.block(output::json(&comparison)?)
        }
        PlanOutputArg::Text => text(&first, &second, &beside.join(", "), asked.style.color),
    })
}

/// Clusters in which something happens in one of both.
fn text(first: &Simulation, second: &Simulation, beside: &str, color: bool) -> String {
    let painted = |paint: &str, text: &str| {
        if color { format!("{paint}{text}{RESET}") } else { text.to_owned() }
    };
    let mut out = String::new();
    for (one, other) in first.clusters.iter().zip(&second.clusters) {
        if !happens(one) && !happens(other) {
            continue;
        }
        let head = format!("Cluster {}/{}", one.namespace, one.cluster);
        let _ = writeln!(out, "{}", painted(BOLD, &head));
        let rows = [
            (
                "",
                vec!["as given".to_owned()],
                vec![format!("with {}", capstan_base::text::sanitize_line(beside))],
            ),
            ("ends", vec![one.ending_in_words()], vec![other.ending_in_words()]),
            ("lowest", lows(one), lows(other)),
            ("etcd", one.etcd_in_words().into_iter().collect(), other.etcd_in_words().into_iter().collect()),
            ("held", held(one), held(other)),
        ];
        for (label, left, right) in rows {
            row(&painted(GREY, label), label.len(), &left, &right, &mut out);
        }
        out.push('\n');
    }
    if out.is_empty() {
        out.push_str("nothing to do in either\n");
    }
    out
}

fn happens(forecast: &Forecast) -> bool {
    forecast.duration.usual_s > 0 || !forecast.held.is_empty()
}

fn lows(forecast: &Forecast) -> Vec<String> {
    forecast.lows_in_words()
}

fn held(forecast: &Forecast) -> Vec<String> {
    let all = forecast.held.iter().map(|held| format!("{}: {}", held.object, held.sentence));
    all.take(3).collect()
}

/// Two cells of wrapped lines.
fn row(label: &str, label_width: usize, left: &[String], right: &[String], out: &mut String) {
    let wrapped =
        |lines: &[String]| -> Vec<String> { lines.iter().flat_map(|line| wrap(line, COLUMN)).collect() };
    let (left, right) = (wrapped(left), wrapped(right));
    for at in 0..left.len().max(right.len()) {
        let lead =
            if at == 0 { format!("{label}{}", " ".repeat(LABEL - label_width)) } else { " ".repeat(LABEL) };
        let one = left.get(at).map_or("", String::as_str);
        let other = right.get(at).map_or("", String::as_str);
        let blanks = " ".repeat(COLUMN.saturating_sub(width(one)));
        let _ = writeln!(out, "{}", format!("  {lead}{one}{blanks}  {other}").trim_end());
    }
}
