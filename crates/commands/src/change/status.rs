//! `capstan change status`: how far the change of a cluster's record is, and what runs otherwise than stored. Owns the table and
//! the exit code; states are `change::progress`'s.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::json;

use super::args::{ChangeOutputArg, ChangeStatusArgs};
use super::{ChangeAnswer, Session, hosts};
use crate::exit_code::ExitCode;
use crate::output;
use capstan_dashboard::operations::change::managed;
use capstan_dashboard::operations::change::source::{LiveCluster, SourceReading};
use capstan_engine::reconfigure::judge::{Consent, judge, permitted};
use capstan_engine::reconfigure::read::ClusterReading;
use capstan_engine::reconfigure::{host_look, look};
use kubeadm_change::certificate_drift;
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
    session: &Session,
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
    let asked = match &live {
        Some(live) if open.is_none() => asked(args, live, &mut reading, session).await?,
        _ => Asked::default(),
    };
    let control_plane = live.as_ref().and_then(|live| live.managed.as_ref()).map(managed::state_words);
    let document = match args.output {
        ChangeOutputArg::Json => output::json(&json!({
            "record": record, "items": items, "drift": drift, "kubelets": asked.kubelets,
            "certificates": asked.certificates, "hosts": asked.hosts, "controlPlane": control_plane,
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
            text.push_str(&asked.text());
            session.style.block(text)
        }
    };
    let mut answer =
        ChangeAnswer::of(document, exit_code(&items, !drift.is_empty() || !asked.is_empty(), open.is_some()));
    answer.remarks = reading.running.gaps;
    answer.remarks.extend(asked.gaps);
    Ok(answer)
}

/// What is asked for by itself, each by node, a line for each difference.
#[derive(Default)]
struct Asked {
    kubelets: BTreeMap<String, Vec<String>>,
    certificates: BTreeMap<String, Vec<String>>,
    hosts: BTreeMap<String, Vec<String>>,
    /// What could not be seen.
    gaps: Vec<String>,
}

impl Asked {
    fn is_empty(&self) -> bool {
        self.kubelets.is_empty() && self.certificates.is_empty() && self.hosts.is_empty()
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for (title, head, nodes) in [
            (
                "DRIFT of kubelets",
                "its file was not written anew, or was edited; from what it has to what is stored",
                &self.kubelets,
            ),
            (
                "DRIFT of certificates",
                "not issued anew, or from something else; from what is served to what is stored",
                &self.certificates,
            ),
            ("DRIFT on hosts", "what runs is not what stands there", &self.hosts),
        ] {
            if nodes.is_empty() {
                continue;
            }
            let _ = writeln!(text, "\n{title}");
            for (node, lines) in nodes {
                let _ = writeln!(text, "  {node}: {head}");
                lines.iter().for_each(|line| {
                    let _ = writeln!(text, "      {line}");
                });
            }
        }
        text
    }
}

async fn asked(
    args: &ChangeStatusArgs,
    live: &LiveCluster,
    reading: &mut ClusterReading,
    session: &Session,
) -> anyhow::Result<Asked> {
    let mut asked = Asked::default();
    let stored = reading.inputs.document(DocumentKind::Kubelet).map(|kubelet| kubelet.value.clone());
    if let Some(stored) = stored.filter(|_| args.kubelets) {
        asked.kubelets = look::stale_kubelets(&live.client, &stored, &mut reading.running).await;
    }
    let ssh = hosts::ssh_of(&args.hosts);
    let hands = hosts::hands(&args.hosts, live, session, &ssh).await?;
    let Some(cluster) = reading.inputs.document(DocumentKind::Cluster) else { return Ok(asked) };
    let settings = ClusterSettings::new(&cluster.value, None)?;
    if args.certificates {
        look::all_certificates(&live.client, &mut reading.running).await;
        for found in certificate_drift::find(&settings, &reading.running)? {
            let lines = found.differences.iter().map(|line| format!("{}: {line}", found.component));
            asked.certificates.entry(found.node.clone()).or_default().extend(lines);
        }
        asked.gaps.extend(certificate_drift::unseen(&reading.running));
    }
    if let Some(hands) = hands {
        let seen = host_look::look(&hands, &reading.running, &settings).await;
        asked.hosts = seen.differences;
        asked.gaps.extend(seen.gaps);
    }
    Ok(asked)
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
