//! `capstan leader-migration status|next|plan`: how far the migration of a running cluster is, and what comes next. Owns
//! what is read for it (pods, DaemonSets, Deployments, Leases, ConfigMaps, access reviews) and the text. Nothing is written; what was done
//! before is not remembered: the cluster is read anew each time.

use std::fmt::Write as _;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::{Value, json};

use super::Printed;
use super::args::{ValidateArgs, WalkthroughArgs};
use super::inputs::{Inputs, from_cluster};
use crate::arguments::PlanOutputArg;
use crate::change::source::live;
use crate::{leases, output};
use capstan_base::text::sanitize_line;
use capstan_base::time::Timestamp;
use capstan_dashboard::operations::change::source::LiveCluster;
use capstan_engine::client::errors::chain;
use capstan_engine::client::read::list_values;
use capstan_engine::client::write::gvk_of;
use capstan_engine::client::{Client, Connection, Object};
use capstan_engine::locks::rights;
use leader_migration::edits::{Settings, StageEdit, StageEdits, edits};
use leader_migration::flag_places::FlagPlaces;
use leader_migration::inventory::assume_files;
use leader_migration::lock_view::WatchedLease;
use leader_migration::look::{LockLook, MigrationScope};
use leader_migration::manager_kind::ManagerKind;
use leader_migration::rights::Grantee;
use leader_migration::stages::{NodeWait, Situation, StageReport, StageState, Walkthrough};

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
    live: &LiveCluster,
    args: &WalkthroughArgs,
    extent: Extent,
    now: Timestamp,
) -> anyhow::Result<Printed> {
    let Looked { situation, settings, remarks } = look_at(live, args, now).await?;
    let walkthrough = situation.judge();
    let document = match args.output {
        PlanOutputArg::Json => output::json(&as_json(&walkthrough, &settings))?,
        PlanOutputArg::Text => text(&walkthrough, &settings, extent),
    };
    let is_blocked = matches!(&walkthrough, Walkthrough::Stages(reports)
        if reports.iter().any(|report| matches!(report.state, StageState::Blocked(_))));
    Ok(Printed { document, remarks, is_fine: !is_blocked })
}

/// What was seen of a migration.
pub(super) struct Looked {
    pub situation: Situation,
    pub settings: Settings,
    pub remarks: Vec<String>,
}

/// # Errors
/// As [`walk`].
pub(super) async fn look_at(
    live: &LiveCluster,
    args: &WalkthroughArgs,
    now: Timestamp,
) -> anyhow::Result<Looked> {
    let scope = scope(args);
    let look = gather(live, args, &scope, now).await?;
    let settings = look.settings(&scope, args.ccm_version);
    let situation = look.situation(&scope, now);
    Ok(Looked { situation, settings, remarks: look.remarks })
}

/// The cluster of the connection, or the workload cluster that the arguments name.
///
/// # Errors
/// It cannot be reached, in a sentence.
pub async fn reach(connection: Connection, args: &WalkthroughArgs) -> anyhow::Result<LiveCluster> {
    live(connection, args.cluster.as_ref()).await
}

/// Items of a list carry no kind: they get it here.
async fn list<K: Object>(client: &Client, namespace: &str) -> anyhow::Result<Vec<Value>> {
    let gvk = gvk_of::<K>();
    let listed = list_values(client, &gvk, namespace, "").await;
    let mut listed =
        listed.map_err(|error| anyhow::anyhow!("{} in {namespace}: {}", gvk.plural, chain(&error)))?;
    listed.iter_mut().for_each(|object| object["kind"] = Value::from(gvk.kind.as_str()));
    Ok(listed)
}

fn scope(args: &WalkthroughArgs) -> MigrationScope {
    MigrationScope {
        leader_name: args.leader_name.clone(),
        namespace: args.lease_namespace.clone(),
        functions: args.controllers.clone(),
        subjects: [Grantee::kube_controller_manager(), args.ccm_service_account.clone()],
    }
}

async fn gather(
    live: &LiveCluster,
    args: &WalkthroughArgs,
    scope: &MigrationScope,
    now: Timestamp,
) -> anyhow::Result<LockLook> {
    let (client, namespace) = (&live.client, &args.lease_namespace);
    // Without these two nothing can be judged; what makes pods is only missed in the edits.
    let seen = [list::<Pod>(client, namespace).await?, list::<ConfigMap>(client, namespace).await?].concat();
    let described = ValidateArgs {
        files: args.files.clone(),
        kcm_version: args.kcm_version,
        ccm_version: args.ccm_version,
        kcm_flags: None,
        ccm_flags: None,
        output: args.output,
    };
    let Inputs { mut processes, mut remarks, mut objects } = from_cluster(&described, &seen)?;
    if let Some(managed) = &live.managed {
        // The object of the server counts before one in a file, which may be old.
        objects.retain(|object| object["kind"] != managed.object["kind"]);
        objects.push(managed.object.clone());
    }
    let places = places(client, namespace, [seen, objects].concat()).await;
    remarks.extend(assume_files(&mut processes, &args.leader_name, &args.controllers));
    let leases = look(client, args).await?;
    let rights = rights(client, &scope.subjects, namespace, &args.leader_name).await;
    Ok(LockLook { at: now, leases, processes, rights, places, remarks, ..LockLook::default() })
}

/// Where flags are kept: among what was read, and in what makes pods. A user who may not list that gets no edits for it.
async fn places(client: &Client, namespace: &str, mut objects: Vec<Value>) -> FlagPlaces {
    let made = [list::<DaemonSet>(client, namespace).await, list::<Deployment>(client, namespace).await];
    let mut unread = Vec::new();
    for listed in made {
        match listed {
            Ok(listed) => objects.extend(listed),
            Err(error) => unread.push(error.to_string()),
        }
    }
    let mut places = FlagPlaces::of(&objects);
    places.unread_workloads = (!unread.is_empty()).then(|| unread.join("; "));
    places
}

/// The Leases of the namespace, each with whether it changed while it was looked at.
async fn look(client: &Client, args: &WalkthroughArgs) -> anyhow::Result<Vec<WatchedLease>> {
    let names = [ManagerKind::ALL[0].name(), ManagerKind::ALL[1].name(), args.leader_name.as_str()];
    let is_enough = |leases: &[WatchedLease]| {
        // A free Lease does not change while one looks: only held ones are waited for.
        let is_settled = |lease: &WatchedLease| lease.holder.is_empty() || lease.changed_s.is_some();
        leases.iter().filter(|l| names.contains(&l.name.as_str())).all(is_settled)
    };
    leases::look(client, &args.lease_namespace, "", LOOK_MAX, is_enough).await
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
    if let Some(NodeWait { after, left_s }) = &report.wait {
        let _ = writeln!(out, "  wait {left_s} s: {} was restarted last", sanitize_line(after));
    }
    for proof in report.proofs.iter().filter(|_| report.state != StageState::Later) {
        let _ = writeln!(out, "    {}: {}", sanitize_line(&proof.object), sanitize_line(&proof.value));
    }
    if extent == Extent::Status {
        return;
    }
    // A stage that must not be begun is shown without its edits.
    if !matches!(report.state, StageState::Blocked(_)) {
        edits_text(out, &edits(report.stage, settings));
    }
    let _ = writeln!(out, "  rollback: {}", report.stage.rollback());
}

pub(super) fn edits_text(out: &mut String, made: &StageEdits) {
    made.edits.iter().for_each(|edit| edit_text(out, edit));
    for what in &made.omitted {
        let _ = writeln!(out, "  not printed: {}", sanitize_line(what));
    }
}

pub(super) fn edit_text(out: &mut String, edit: &StageEdit) {
    let StageEdit { title, text, inverse, .. } = edit;
    let _ = writeln!(out, "  edit: {}", sanitize_line(title));
    for line in text.lines() {
        let _ = writeln!(out, "    | {}", sanitize_line(line));
    }
    let lines: Vec<String> = inverse.lines().map(sanitize_line).collect();
    let _ = match lines.as_slice() {
        [only] => writeln!(out, "  inverse: {only}"),
        lines => writeln!(out, "  inverse:\n    | {}", lines.join("\n    | ")),
    };
}

fn as_json(walkthrough: &Walkthrough, settings: &Settings) -> Value {
    let Walkthrough::Stages(reports) = walkthrough else {
        return json!({ "nothingToMigrate": true, "stages": [] });
    };
    let stage = |report: &StageReport| {
        let (changes, omitted) = edits_as_json(edits(report.stage, settings));
        json!({
            "number": report.stage as usize,
            "title": report.stage.title(),
            "state": report.state.word(),
            "reason": report.state.reason(),
            "next": report.next,
            "waitSeconds": report.wait.as_ref().map(|wait| wait.left_s),
            "evidence": report.proofs.iter().map(|p| json!({ "object": p.object, "value": p.value })).collect::<Vec<_>>(),
            "edits": changes,
            "notPrinted": omitted,
            "rollback": report.stage.rollback(),
        })
    };
    json!({ "nothingToMigrate": false, "stages": reports.iter().map(stage).collect::<Vec<_>>() })
}

/// The edits, and for which objects there are none.
pub(super) fn edits_as_json(made: StageEdits) -> (Vec<Value>, Vec<String>) {
    let edit = |edit: StageEdit| json!({ "title": edit.title, "text": edit.text, "inverse": edit.inverse });
    (made.edits.into_iter().map(edit).collect(), made.omitted)
}
