//! `capstan leader-migration status|next|plan`: how far the migration of a running cluster is, and what comes next. Owns
//! what is read for it (pods, Leases, ConfigMaps, access reviews) and the text. Nothing is written; what was done
//! before is not remembered: the cluster is read anew each time.

use std::fmt::Write as _;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::args::{ValidateArgs, WalkthroughArgs};
use super::inputs::{Inputs, from_cluster};
use super::{Printed, check_name, review};
use crate::cli::args::PlanOutputArg;
use crate::cli::{leases, output};
use crate::client::errors::chain;
use crate::client::read::list_values;
use crate::client::write::gvk_of;
use crate::client::{Client, Object};
use crate::leader_migration::edits::{Settings, StageEdit, edits};
use crate::leader_migration::lock_view::WatchedLease;
use crate::leader_migration::manager_kind::ManagerKind;
use crate::leader_migration::process::{ConfigFile, Process};
use crate::leader_migration::reading::read;
use crate::leader_migration::release::Release;
use crate::leader_migration::rights::{Grantee, questions};
use crate::leader_migration::stages::{Situation, StageReport, StageState, Walkthrough};
use crate::leader_migration::validate::{ClusterFacts, LeaseFact, RightFact};
use crate::leader_migration::writing;
use crate::text::sanitize_line;
use crate::time::Timestamp;

/// How long one looks for changes of Leases: a holder renews every two seconds.
const LOOK_MAX: Duration = Duration::from_secs(5);

/// How much is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Every stage with its state and evidence.
    Status,
    /// The stage that comes next, with its edits.
    Next,
    /// Every stage that is not done, with its edits.
    Plan,
}

/// Reads the cluster and judges the stages. Fine unless a stage is blocked.
///
/// # Errors
/// The pods or Leases cannot be read, or a process cannot be understood.
pub async fn walk(
    client: &Client,
    args: &WalkthroughArgs,
    extent: Extent,
    now: Timestamp,
) -> anyhow::Result<Printed> {
    check_name(&args.leader_name)?;
    let (situation, remarks) = gather(client, args, now).await?;
    let settings = settings(&situation, args);
    let walkthrough = situation.judge();
    let document = match args.output {
        PlanOutputArg::Json => output::json(&as_json(&walkthrough, &settings))?,
        PlanOutputArg::Text => text(&walkthrough, &settings, extent),
    };
    let is_blocked = matches!(&walkthrough, Walkthrough::Stages(reports)
        if reports.iter().any(|report| matches!(report.state, StageState::Blocked(_))));
    Ok(Printed { document, remarks, is_fine: !is_blocked })
}

async fn list<K: Object>(client: &Client, namespace: &str) -> anyhow::Result<Vec<Value>> {
    let gvk = gvk_of::<K>();
    let listed = list_values(client, &gvk, namespace, "").await;
    listed.map_err(|error| anyhow::anyhow!("{} in {namespace}: {}", gvk.plural, chain(&error)))
}

async fn gather(
    client: &Client,
    args: &WalkthroughArgs,
    now: Timestamp,
) -> anyhow::Result<(Situation, Vec<String>)> {
    let namespace = &args.lease_namespace;
    let mut pods = list::<Pod>(client, namespace).await?;
    // Items of a list carry no kind.
    pods.iter_mut().for_each(|pod| pod["kind"] = Value::from("Pod"));
    let mut maps = list::<ConfigMap>(client, namespace).await?;
    maps.iter_mut().for_each(|map| map["kind"] = Value::from("ConfigMap"));
    let described = ValidateArgs {
        files: args.files.clone(),
        kcm_version: args.kcm_version,
        ccm_version: args.ccm_version,
        kcm_flags: None,
        ccm_flags: None,
        output: args.output,
    };
    let Inputs { mut processes, mut remarks } = from_cluster(&described, &[pods, maps].concat())?;
    for process in &mut processes {
        remarks.extend(assume_file(process, args));
    }
    let (leases, held_for_s) = look(client, args, now).await?;
    let subjects = [Grantee::kube_controller_manager(), args.ccm_service_account.clone()];
    let mut rights = Vec::new();
    for question in questions(&subjects, namespace, &args.leader_name) {
        // A server that does not answer such questions leaves them open.
        let allowed = review(client, &question).await.ok();
        rights.push(RightFact { question, allowed });
    }
    let lock = (namespace.clone(), args.leader_name.clone());
    Ok((Situation { processes, facts: ClusterFacts { leases, rights }, lock, held_for_s }, remarks))
}

/// A file on a host cannot be read through the API: it is taken for what `generate` writes.
fn assume_file(process: &mut Process, args: &WalkthroughArgs) -> Option<String> {
    let ConfigFile::NotKnown { path } = &process.file else { return None };
    let made = writing::generate(&args.leader_name, &args.controllers, "*", process.release);
    let (configuration, version) = made?;
    let remark = format!(
        "assumed: {path} of {} is what `capstan leader-migration generate` writes; -f FILE gives what it is",
        sanitize_line(&process.name)
    );
    let reading = read(&writing::write(&configuration, version));
    process.file = ConfigFile::Read { name: format!("{path} (assumed)"), reading };
    Some(remark)
}

/// The Leases of the namespace, each with whether it changed while it was looked at.
async fn look(
    client: &Client,
    args: &WalkthroughArgs,
    now: Timestamp,
) -> anyhow::Result<(Vec<LeaseFact>, Option<i64>)> {
    let names = [ManagerKind::ALL[0].name(), ManagerKind::ALL[1].name(), args.leader_name.as_str()];
    let began = Instant::now();
    let is_enough = |leases: &[WatchedLease]| {
        let is_settled = |lease: &WatchedLease| lease.holder.is_empty() || lease.changed_s.is_some();
        began.elapsed() >= LOOK_MAX
            || leases.iter().filter(|l| names.contains(&l.name.as_str())).all(is_settled)
    };
    let leases = leases::look(client, &args.lease_namespace, "", is_enough).await?;
    let ours = leases.iter().find(|lease| lease.name == args.leader_name && lease.changed_s.is_some());
    let held_for_s = ours.and_then(|lease| Some((now.timestamp_micros() - lease.acquired_us?) / 1_000_000));
    let fact = |lease: WatchedLease| LeaseFact {
        is_renewed: lease.changed_s.is_some(),
        is_coordinated: lease.strategy.is_some(),
        was_made_anew: lease.was_made_anew,
        namespace: lease.namespace,
        name: lease.name,
        holder: lease.holder,
    };
    Ok((leases.into_iter().map(fact).collect(), held_for_s))
}

fn settings(situation: &Situation, args: &WalkthroughArgs) -> Settings {
    let release = |kind: ManagerKind| {
        let of_kind = situation.processes.iter().filter(|process| process.manager == kind);
        of_kind.map(|process| process.release).min()
    };
    let old = release(ManagerKind::KubeControllerManager).unwrap_or(Release(0));
    let cloud =
        release(ManagerKind::CloudControllerManager).or(args.ccm_version).unwrap_or(Release(old.0 + 1));
    Settings {
        namespace: args.lease_namespace.clone(),
        leader_name: args.leader_name.clone(),
        functions: args.controllers.clone(),
        subjects: vec![Grantee::kube_controller_manager(), args.ccm_service_account.clone()],
        releases: (old, cloud),
    }
}

fn text(walkthrough: &Walkthrough, settings: &Settings, extent: Extent) -> String {
    let reports = match walkthrough {
        Walkthrough::NothingToMigrate { oldest } => {
            return format!(
                "nothing to migrate: no kube-controller-manager ({oldest}) has a cloud provider in it; node IPAM alone can move\n"
            );
        }
        Walkthrough::Stages(reports) => reports,
    };
    let open = reports.iter().filter(|report| report.state != StageState::Done);
    let chosen: Vec<&StageReport> = match extent {
        Extent::Status => reports.iter().collect(),
        Extent::Next => open.take(1).collect(),
        Extent::Plan => open.collect(),
    };
    let mut out = String::new();
    for report in chosen {
        stage_text(&mut out, report, settings, extent);
    }
    if out.is_empty() {
        out.push_str("every stage is done\n");
    }
    out
}

fn stage_text(out: &mut String, report: &StageReport, settings: &Settings, extent: Extent) {
    let number = report.stage as usize;
    let _ = writeln!(out, "{number} {:<11}  {}", report.state.word(), report.stage.title());
    if !report.state.reason().is_empty() {
        let _ = writeln!(out, "  {}", sanitize_line(report.state.reason()));
    }
    for proof in report.proofs.iter().filter(|_| report.state != StageState::Later) {
        let _ = writeln!(out, "    {}: {}", sanitize_line(&proof.object), sanitize_line(&proof.value));
    }
    if extent == Extent::Status {
        return;
    }
    // A stage that must not be begun is shown without its edits.
    if !matches!(report.state, StageState::Blocked(_)) {
        for StageEdit { title, text, inverse } in edits(report.stage, settings) {
            let _ = writeln!(out, "  edit: {title}");
            for line in text.lines() {
                let _ = writeln!(out, "    | {line}");
            }
            let _ = writeln!(out, "  inverse: {}", inverse.trim_end());
        }
    }
    let _ = writeln!(out, "  rollback: {}", report.stage.rollback());
}

fn as_json(walkthrough: &Walkthrough, settings: &Settings) -> Value {
    let Walkthrough::Stages(reports) = walkthrough else {
        return json!({ "nothingToMigrate": true, "stages": [] });
    };
    let stage = |report: &StageReport| {
        let changes: Vec<Value> = edits(report.stage, settings)
            .into_iter()
            .map(|edit| json!({ "title": edit.title, "text": edit.text, "inverse": edit.inverse }))
            .collect();
        json!({
            "number": report.stage as usize,
            "title": report.stage.title(),
            "state": report.state.word(),
            "reason": report.state.reason(),
            "evidence": report.proofs.iter().map(|p| json!({ "object": p.object, "value": p.value })).collect::<Vec<_>>(),
            "edits": changes,
            "rollback": report.stage.rollback(),
        })
    };
    json!({ "nothingToMigrate": false, "stages": reports.iter().map(stage).collect::<Vec<_>>() })
}
