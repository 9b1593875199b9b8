//! `capstan plan`: what happens next to the objects of a server or of files, why, and why not yet. Owns
//! arguments and which objects are asked for; the plans are `forecast`'s.

mod text;

use std::path::PathBuf;

use anyhow::{anyhow, bail};
use clap::Args;

use super::exit_code::WrongUsage;
use super::output::{self, Style};
use super::target::{self, TargetArgs};
use crate::arguments::{HandlersArg, Moment, PlanOutputArg};
use crate::documents::{self, WorkloadFile};
use capi_forecast::forecast::in_place::Known;
use capi_forecast::forecast::{Forecast, KINDS, ObjectPlan, forecast, forecast_knowing};
use capi_rules::observe::dump::Dump;
use capi_rules::plan::in_place::Handlers;
use capi_types::key::{ObjectKey, ObjectRef};
use capstan_base::time::{Clock, Timestamp};
use capstan_engine::can_update::AtServer;
use capstan_engine::client::Connection;
use capstan_engine::client::clusters::{cluster_of, list_clusters};

const TARGET_HELP: &str = "KIND/NAME, or KIND NAME: this Cluster, control plane, MachineDeployment, MachineSet or Machine, and what \
                           is below it";

#[derive(Clone, Debug, Args)]
#[command(mut_arg("target", |arg| arg.help(TARGET_HELP)))]
pub struct PlanArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    /// File, folder, or - for standard input, instead of a server; YAML or JSON, streams and lists
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Nodes and Pods in FILE are of the workload cluster NAMESPACE/NAME
    #[arg(long = "workload", value_name = "NAMESPACE/NAME=FILE", requires = "files")]
    pub workloads: Vec<WorkloadFile>,
    /// The moment to plan at: 2026-11-20T10:00:00Z, or from now: +2h, +30m, +1d; without it the present
    #[arg(long, value_name = "TIME")]
    pub now: Option<Moment>,
    /// Ask the registered extensions which Machines they can update in place; they are told what would change
    #[arg(long, conflicts_with = "files")]
    pub ask_extensions: bool,
    /// How many extensions may answer a hook; without it as the engine says on its Lease, else one
    #[arg(long, value_enum, value_name = "HOW", requires = "ask_extensions")]
    pub in_place_handlers: Option<HandlersArg>,
    #[arg(short, long, default_value = "text")]
    pub output: PlanOutputArg,
}

/// What the command prints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub document: String,
    /// What was left out or could not be read.
    pub remarks: Vec<String>,
}

/// Plans what files hold. `namespace`: only this one.
///
/// # Errors
/// A file that cannot be read or understood, nothing to plan, or no such object, in a sentence.
pub fn from_files(
    args: &PlanArgs,
    namespace: Option<&str>,
    now: Timestamp,
    style: Style,
) -> anyhow::Result<Answer> {
    let (found, mut remarks) = documents::documents(&args.files, &args.workloads)?;
    let dump = Dump::new(found);
    let wanted = wanted_among(args, &dump, namespace.unwrap_or_default())?;
    let mut forecast = forecast(&dump, moment(args, now));
    // Behind the computation: plans look at objects that have no namespace, too.
    forecast.objects.retain(|object| namespace.is_none_or(|ns| ns == object.namespace));
    remarks.append(&mut forecast.remarks);
    forecast.remarks = remarks;
    answer(forecast, (wanted.as_ref(), &dump), args.output, style)
}

/// Plans what a server holds. `namespace` is empty for all namespaces.
///
/// # Errors
/// The server does not answer, nothing to plan, or no such object, in a sentence.
pub async fn from_server(
    connection: &Connection,
    args: &PlanArgs,
    namespace: &str,
    now: Timestamp,
    style: Style,
) -> anyhow::Result<Answer> {
    if args.target.0.is_some() && namespace.is_empty() {
        bail!(WrongUsage(target::ALL_NAMESPACES.to_owned()));
    }
    let wanted = match &args.target {
        TargetArgs(Some(named)) => Some(named.on(connection, namespace).await?),
        TargetArgs(None) => None,
    };
    let cluster = match &wanted {
        Some(wanted) => Some(cluster_of(connection, wanted).await?),
        None => None,
    };
    let lists = list_clusters(connection, namespace, cluster.as_deref()).await?;
    let (dump, at) = (Dump::of_lists(lists.kinds), moment(args, now));
    check_kind(wanted.as_ref(), &dump)?;
    let handlers = args.in_place_handlers.map(HandlersArg::of);
    let known = if args.ask_extensions { ask(connection, handlers, &dump, at).await } else { Known::Nothing };
    let mut forecast = forecast_knowing(&dump, &known, at);
    forecast.remarks.extend(lists.gaps);
    answer(forecast, (wanted.as_ref(), &dump), args.output, style)
}

/// Asks the registered extensions about whatever the plans of `dump` depend on.
pub(super) async fn ask(
    connection: &Connection,
    handlers: Option<Handlers>,
    dump: &Dump,
    at: Timestamp,
) -> Known {
    match AtServer::read(connection, Clock::system()).await {
        Ok(extensions) => Known::Asked(extensions.with(handlers).ask(dump, &|_| true, at).await),
        Err(why) => Known::Failed(why),
    }
}

fn moment(args: &PlanArgs, now: Timestamp) -> Timestamp {
    args.now.map_or(now, |moment| moment.seen_from(now))
}

fn wanted_among(args: &PlanArgs, dump: &Dump, namespace: &str) -> Result<Option<ObjectRef>, WrongUsage> {
    let TargetArgs(Some(named)) = &args.target else { return Ok(None) };
    let kinds = dump.kinds().map(|(group, kind, _)| (group, kind));
    let wanted = named.among(kinds, namespace).map_err(|error| WrongUsage(error.to_string()))?;
    check_kind(Some(&wanted), dump)?;
    Ok(Some(wanted))
}

/// Of a control plane without rules here what is below it is planned.
fn check_kind(wanted: Option<&ObjectRef>, dump: &Dump) -> Result<(), WrongUsage> {
    let Some(ObjectRef { gvk, .. }) = wanted else { return Ok(()) };
    if KINDS.contains(&gvk.kind.as_str()) || dump.is_control_plane(&gvk.group, &gvk.kind) {
        return Ok(());
    }
    let planned = KINDS.join(", ");
    Err(WrongUsage(format!("{} has no plan; kinds with a plan are {planned}", gvk.kind)))
}

fn is_there(dump: &Dump, wanted: &ObjectRef) -> bool {
    let is_it = |key: &ObjectKey| {
        key.name == wanted.key.name
            && (wanted.key.namespace.is_empty() || key.namespace == wanted.key.namespace)
    };
    dump.all(&wanted.gvk.group, &wanted.gvk.kind).any(|(key, _)| is_it(key))
}

fn answer(
    mut forecast: Forecast,
    (wanted, dump): (Option<&ObjectRef>, &Dump),
    output: PlanOutputArg,
    style: Style,
) -> anyhow::Result<Answer> {
    let id = wanted.map(|wanted| format!("{}/{}", wanted.gvk.kind, wanted.key.name));
    if let Some(id) = &id {
        forecast.objects.retain(|object| object.id() == *id || object.within.contains(id));
    }
    let is_wanted = |object: &ObjectPlan| id.as_ref().is_none_or(|id| object.id() == *id);
    let is_unplanned =
        wanted.is_some_and(|wanted| !KINDS.contains(&wanted.gvk.kind.as_str()) && is_there(dump, wanted));
    if !is_unplanned && !forecast.objects.iter().any(is_wanted) {
        let what = match wanted {
            Some(wanted) => format!("there is no {} {}: check the name and the namespace (-n)", wanted.gvk.kind, wanted.key.name),
            None => "there is nothing to plan: no Cluster, control plane, MachineDeployment, MachineSet, Machine or MachineHealthCheck".to_owned(),
        };
        // A remark may be the reason, such as a kind that could not be listed.
        let remarks = forecast.remarks.iter().map(|remark| format!("\n{remark}")).collect::<String>();
        return Err(anyhow!("{what}{remarks}"));
    }
    let document = match output {
        PlanOutputArg::Json => style.block(output::json(&forecast)?),
        PlanOutputArg::Text => text::text(&forecast, id.as_deref(), style),
    };
    Ok(Answer { document, remarks: forecast.remarks })
}
