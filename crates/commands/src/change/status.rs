//! `capstan change status`: how far the change of a cluster's record is, and what runs otherwise than stored. Owns the table and
//! the exit code; states are `change::progress`'s.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::json;

use super::ChangeAnswer;
use super::args::{ChangeOutputArg, ChangeStatusArgs};
use crate::exit_code::ExitCode;
use crate::output::{self, Style};
use capstan_dashboard::operations::change::managed;
use capstan_dashboard::operations::change::source::SourceReading;
use capstan_engine::reconfigure::judge::{Consent, judge, permitted};
use capstan_engine::reconfigure::look;
use kubeadm_change::document::DocumentKind;
use kubeadm_change::facts::ClusterFacts;
use kubeadm_change::plan::{Drift, find_drift};
use kubeadm_change::progress::{ItemState, ProgressItem};
use kubeadm_change::record::ChangeRecord;
use kubeadm_change::render::ClusterSettings;

/// Nodes that are shown at most, those with work left first.
const NODES_MAX: usize = 40;

pub(super) async fn status(
    args: &ChangeStatusArgs,
    found: SourceReading,
    style: Style,
) -> anyhow::Result<ChangeAnswer> {
    let SourceReading { mut reading, live } = found;
    let record = reading.record.clone();
    let open = record.as_ref().filter(|record| record.is_open());
    let items = match (open, &live) {
        (Some(open), Some(live)) => {
            // Nothing is written, so that a plan without its acknowledgements is looked at as well.
            let judged = judge(&live.client, &mut reading, open, Consent::ALL).await?;
            permitted(&judged.plan)?;
            judged.items
        }
        _ => Vec::new(),
    };
    // While a change is open, nodes that it has not reached differ from what is stored.
    let drift = if open.is_some() { Vec::new() } else { drift(&reading.inputs)? };
    let stored = reading.inputs.document(DocumentKind::Kubelet).map(|kubelet| kubelet.value.clone());
    let kubelets = match (&live, stored) {
        (Some(live), Some(stored)) if args.kubelets && open.is_none() => {
            look::stale_kubelets(&live.client, &stored, &mut reading.running).await
        }
        _ => BTreeMap::new(),
    };
    let control_plane = live.as_ref().and_then(|live| live.managed.as_ref()).map(managed::state_words);
    let document = match args.output {
        ChangeOutputArg::Json => output::json(&json!({
            "record": record, "items": items, "drift": drift, "kubelets": kubelets, "controlPlane": control_plane,
        }))?,
        ChangeOutputArg::Text => {
            let mut text = record.as_ref().map_or_else(
                || {
                    "capstan has not changed this cluster: there is no ConfigMap kube-system/capstan-change\n"
                        .to_owned()
                },
                head,
            );
            control_plane.iter().for_each(|words| text.push_str(words));
            if !items.is_empty() {
                text.push('\n');
                text.push_str(&table(&items));
            }
            text.push_str(&drift_text(&drift, open.is_some()));
            text.push_str(&kubelet_text(&kubelets));
            style.block(text)
        }
    };
    let mut answer = ChangeAnswer::of(
        document,
        exit_code(&items, !drift.is_empty() || !kubelets.is_empty(), open.is_some()),
    );
    answer.remarks = reading.running.gaps;
    Ok(answer)
}

fn exit_code(items: &[ProgressItem], has_drift: bool, is_open: bool) -> ExitCode {
    if items.iter().any(|item| item.state == ItemState::Failed) || has_drift {
        ExitCode::FailedCheck
    } else if is_open {
        // Also when all of it is done: only `apply` and `rollback` close the record.
        ExitCode::Pending
    } else {
        ExitCode::Success
    }
}

fn drift(inputs: &kubeadm_change::document::Inputs) -> anyhow::Result<Vec<Drift>> {
    let Some(cluster) = inputs.document(DocumentKind::Cluster) else { return Ok(Vec::new()) };
    let settings = ClusterSettings::new(&cluster.value, None)?;
    Ok(find_drift(&settings, &settings, &ClusterFacts::read(inputs))?)
}

fn drift_text(drift: &[Drift], is_open: bool) -> String {
    if is_open {
        return String::new();
    }
    if drift.is_empty() {
        return "what runs is what is stored, as far as mirror pods show it\n".to_owned();
    }
    let mut text = "\nDRIFT: runs otherwise than stored\n".to_owned();
    for drift in drift {
        let _ = writeln!(text, "  {} on {}: {}", drift.component, drift.node, drift.likely);
        drift.differences.iter().for_each(|line| {
            let _ = writeln!(text, "      {line}");
        });
    }
    text
}

fn kubelet_text(kubelets: &BTreeMap<String, Vec<String>>) -> String {
    let mut text = String::new();
    for (node, lines) in kubelets {
        let _ = writeln!(
            text,
            "  kubelet on {node}: its file was not written anew, or was edited; from what it has to what is stored"
        );
        lines.iter().for_each(|line| {
            let _ = writeln!(text, "      {line}");
        });
    }
    if text.is_empty() { text } else { format!("\nDRIFT of kubelets\n{text}") }
}

fn head(record: &ChangeRecord) -> String {
    let mut text = match &record.completed {
        Some(completed) => format!("change {} of {}: complete since {completed}\n", record.id, record.by),
        None => format!("change {} of {}: begun {}, not over\n", record.id, record.by, record.begun),
    };
    record.changes.iter().for_each(|line| {
        let _ = writeln!(text, "  {line}");
    });
    text
}

/// What is there once, then a matrix of nodes and components.
pub(super) fn table(items: &[ProgressItem]) -> String {
    let mut text = String::new();
    let mut rows = vec![vec!["STEP".to_owned(), "STATE".to_owned(), "SEEN".to_owned()]];
    let once = items.iter().filter(|item| item.node.is_empty());
    rows.extend(once.map(|item| {
        vec![
            format!("{} {}", item.step.name(), item.step.title()),
            item.state.word().to_owned(),
            item.evidence.clone(),
        ]
    }));
    text.push_str(&output::table(&rows));
    let mut nodes: BTreeMap<&str, Vec<&ProgressItem>> = BTreeMap::new();
    for item in items.iter().filter(|item| !item.node.is_empty()) {
        nodes.entry(&item.node).or_default().push(item);
    }
    let mut nodes: Vec<_> = nodes.into_iter().collect();
    let is_left = |items: &[&ProgressItem]| items.iter().any(|item| item.state > ItemState::Manual);
    // The sort is stable: within both parts nodes stay in the order of their names.
    nodes.sort_by_key(|(_, items)| !is_left(items));
    let hidden = nodes.len().saturating_sub(NODES_MAX);
    let mut rows = vec![["NODE", "STEP", "WHAT", "STATE", "SEEN"].map(str::to_owned).to_vec()];
    for (node, items) in nodes.iter().take(NODES_MAX) {
        rows.extend(items.iter().map(|item| {
            let what = item.component.map_or(item.step.title(), |component| component.name());
            vec![
                (*node).to_owned(),
                item.step.name().to_owned(),
                what.to_owned(),
                item.state.word().to_owned(),
                item.evidence.clone(),
            ]
        }));
    }
    if rows.len() > 1 {
        text.push('\n');
        text.push_str(&output::table(&rows));
    }
    if hidden > 0 {
        let _ = writeln!(text, "and {hidden} more nodes");
    }
    text
}
