//! `capstan simulate`: what will happen to the objects of a server or of files, how long it takes and how low it goes, with
//! changes that are only tried. Owns arguments and which objects are asked for; the forecasts are `simulate`'s. Writes
//! nothing.

pub mod args;
mod beside;
mod calendar;
mod change;
mod scored;
mod text;
mod waves;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};

use super::arguments::PlanOutputArg;
use super::exit_code::WrongUsage;
use super::output::{self, Style};
use super::plan::ask;
use super::{documents, target};
use args::{ActorsArg, OrderArg, SimulateArgs};
use capi_forecast::forecast::in_place::Known;
use capi_forecast::simulate::{
    Actors, Detail, Hunt, Remembered, Scenario, Simulation, Span, Timing, Timings, Until, hunt, learn_with,
    replayed, simulate,
};
use capi_rules::observe::dump::Dump;
use capi_types::key::{ObjectKey, ObjectRef};
use capstan_base::text::sanitize_line;
use capstan_base::time::{Timestamp, parse_duration, parse_moment};
use capstan_base::toml_file::Source;
use capstan_dashboard::actions::tried;
use capstan_dashboard::fleet::kept::read_usual_times;
use capstan_engine::client::Connection;
use capstan_engine::client::clusters::{cluster_named_by, cluster_of, list_clusters};

/// Longer steps are not believed.
const STEP_MAX_S: u64 = 7 * 86_400;

/// In the state folder; the dashboard writes it.
const USUAL_TIMES: &str = "usual-times.toml";

/// Machines that fail in each run with faults.
const FAILING: usize = 1;

/// What the command prints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimulationAnswer {
    pub document: String,
    /// What was left out or could not be read.
    pub remarks: Vec<String>,
}

/// Simulates what files hold. `namespace`: only this one.
///
/// # Errors
/// A file or a change that cannot be read or does not apply, or nothing to simulate, in a sentence.
pub fn from_files(
    args: &SimulateArgs,
    namespace: Option<&str>,
    now: Timestamp,
    style: Style,
) -> anyhow::Result<SimulationAnswer> {
    let (mut found, remarks) = documents::documents(&args.files, &args.workloads)?;
    if let Some(wanted) = namespace {
        let here = |value: &serde_json::Value| document_namespace(value) == wanted;
        found.retain(|document| document.workload.is_some() || here(&document.value));
    }
    let wanted = wanted(args, namespace.unwrap_or("default"))?;
    let read: (Dump, &[Remembered]) = (Dump::new(found), &[]);
    Prepared::new(args, read, wanted.as_ref(), moment(args, now)?)?.answer(remarks, style)
}

/// Cluster-scoped objects and those of workload clusters stay.
fn document_namespace(value: &serde_json::Value) -> &str {
    match value["kind"].as_str() {
        Some("CustomResourceDefinition" | "Node" | "Pod" | "PodDisruptionBudget") => "",
        _ => value["metadata"]["namespace"].as_str().unwrap_or("default"),
    }
}

/// How long the Machines of a server's pools took, as the dashboard kept it in the state folder; nothing where it kept
/// nothing that can be read.
pub fn remembered(folder: &Path, context: &str) -> Vec<Remembered> {
    let Ok(text) = std::fs::read_to_string(folder.join(USUAL_TIMES)) else { return Vec::new() };
    let kept = match read_usual_times(&Source::new(USUAL_TIMES, text)) {
        Ok(kept) => kept,
        Err(error) => {
            tracing::warn!(%error, "what was learnt of Machines is not used");
            return Vec::new();
        }
    };
    let mine = kept.pools.into_iter().filter(|pool| *pool.source == *sanitize_line(context));
    mine.map(|pool| {
        let [bootstrap, infrastructure, node] = pool.newest_first;
        let cluster = ObjectKey::new(pool.namespace, pool.cluster);
        let (pool, kind) = (pool.pool.into(), pool.infrastructure.into());
        Remembered { cluster, pool, kind, bootstrap, infrastructure, node }
    })
    .collect()
}

/// Simulates from a snapshot of what a server holds. `namespace` is empty for all namespaces; `remembered`: what is known of
/// earlier Machines.
///
/// # Errors
/// The server does not answer, a change does not apply, or nothing to simulate, in a sentence.
pub async fn from_server(
    connection: &Connection,
    args: &SimulateArgs,
    namespace: &str,
    (now, remembered): (Timestamp, &[Remembered]),
    style: Style,
) -> anyhow::Result<SimulationAnswer> {
    let wanted = wanted(args, namespace)?;
    if wanted.is_some() && namespace.is_empty() {
        bail!("an object is named within a namespace: leave out --all-namespaces, or leave out the name");
    }
    let cluster = match &wanted {
        Some(wanted) => Some(cluster_of(connection, wanted).await?),
        None => None,
    };
    let lists = list_clusters(connection, namespace, cluster.as_deref()).await?;
    let now = moment(args, now)?;
    let read = (Dump::of_lists(lists.kinds), remembered);
    let mut prepared = Prepared::new(args, read, wanted.as_ref(), now)?;
    let mut remarks = lists.gaps;
    if args.ask_extensions {
        remarks.extend(prepared.ask(connection).await);
    }
    prepared.answer(remarks, style)
}

/// What a merge patch of one object leads to, as text.
///
/// # Errors
/// As [`from_server`].
pub async fn with_patch(
    connection: &Connection,
    object: &ObjectRef,
    patch: &serde_json::Value,
    now: Timestamp,
    style: Style,
) -> anyhow::Result<String> {
    let cluster = cluster_of(connection, object).await?;
    let lists = list_clusters(connection, &object.key.namespace, Some(&cluster)).await?;
    let mut dump = Dump::of_lists(lists.kinds);
    let learnt = learn_with(&dump, &[]);
    let tried = tried::TriedChange {
        origin: "the patch".to_owned(),
        object: object.clone(),
        edit: tried::TriedEdit::Merge(patch.clone()),
    };
    tried::apply(&mut dump, &[tried])?;
    let key = ObjectKey::new(&object.key.namespace, cluster);
    let scenario = Scenario { timings: learnt.timings, ..Scenario::default() };
    Ok(text::text(&simulate(&dump, Some(&key), &scenario, now), true, style))
}

/// Everything is read, and what is tried is applied.
struct Prepared<'a> {
    args: &'a SimulateArgs,
    dump: Dump,
    wanted: Option<&'a ObjectRef>,
    /// Only this one.
    cluster: Option<ObjectKey>,
    scenario: Scenario,
    /// What the durations rest on.
    grounds: Vec<String>,
    now: Timestamp,
}

impl<'a> Prepared<'a> {
    fn new(
        args: &'a SimulateArgs,
        (mut dump, remembered): (Dump, &[Remembered]),
        wanted: Option<&'a ObjectRef>,
        now: Timestamp,
    ) -> anyhow::Result<Self> {
        // What the Machines tell of the past does not depend on what is tried.
        let learnt = learn_with(&dump, remembered);
        let mut scenario = scenario(args, learnt.timings)?;
        let namespace = wanted.map_or("default", |wanted| wanted.key.namespace.as_str());
        let mut changes = change::from_files(&args.changes, wanted, namespace)?;
        for set in &args.sets {
            changes.push(change::from_flag(set, wanted, namespace)?);
        }
        tried::apply(&mut dump, &changes)?;
        let cluster = match wanted {
            Some(wanted) => Some(cluster_in(&dump, wanted)?),
            None => None,
        };
        scenario.faults.failing = failing(&dump, &args.failing, "--failing ")?;
        Ok(Self { args, dump, wanted, cluster, scenario, grounds: learnt.grounds, now })
    }

    /// Asks the registered extensions about what is tried. Answers with what they said, in sentences.
    async fn ask(&mut self, connection: &Connection) -> Vec<String> {
        match ask(connection, self.args.in_place_handlers.of(), &self.dump, self.now).await {
            Known::Asked(asked) => {
                let said = asked.in_words();
                self.scenario.in_place = Some(Arc::new(asked));
                said
            }
            Known::Failed(why) => {
                vec![format!("no extension could be asked, so that Machines are replaced: {why}")]
            }
            Known::Nothing => Vec::new(),
        }
    }

    fn answer(self, mut remarks: Vec<String>, style: Style) -> anyhow::Result<SimulationAnswer> {
        let Self { args, dump, wanted, cluster, scenario, grounds, now } = self;
        let namespace = wanted.map_or("default", |wanted| wanted.key.namespace.as_str());
        let asked = Asked { args, dump: &dump, cluster: cluster.as_ref(), scenario: &scenario, now, style };
        let answer =
            if args.score.is_empty() { asked.forecast(wanted, namespace)? } else { scored::answer(&asked)? };
        if args.score.is_empty() {
            remarks.extend(grounds);
        }
        remarks.extend(answer.remarks);
        Ok(SimulationAnswer { document: answer.document, remarks })
    }
}

/// What is asked, and of what.
struct Asked<'a> {
    args: &'a SimulateArgs,
    /// With the changes that are tried.
    dump: &'a Dump,
    /// Only this one.
    cluster: Option<&'a ObjectKey>,
    scenario: &'a Scenario,
    now: Timestamp,
    style: Style,
}

impl Asked<'_> {
    fn forecast(&self, wanted: Option<&ObjectRef>, namespace: &str) -> anyhow::Result<SimulationAnswer> {
        let Self { args, dump, cluster, scenario, now, style } = *self;
        if let Some(within) = &args.calendar {
            return calendar::answer(self, within);
        }
        if let Some(version) = &args.upgrade {
            return waves::answer(self, version);
        }
        if args.faults && args.seed.is_none() {
            let hunts = hunts(dump, cluster, scenario, args.seeds, now);
            let document = match args.output {
                PlanOutputArg::Json => style.block(output::json(&hunts)?),
                PlanOutputArg::Text => text::hunts(&hunts, style),
            };
            return Ok(SimulationAnswer { document, remarks: Vec::new() });
        }
        let simulation = match args.seed.filter(|_| args.faults) {
            Some(seed) => replayed(dump, cluster, scenario, (seed, FAILING), now),
            None => simulate(dump, cluster, scenario, now),
        };
        if simulation.clusters.is_empty() {
            let more: String = simulation.remarks.iter().map(|remark| format!("\n{remark}")).collect();
            bail!("there is nothing to simulate: no Cluster among the objects{more}");
        }
        let remarks = simulation.remarks.clone();
        if !args.beside.is_empty() {
            let tried = change::beside(&args.beside, wanted, namespace)?;
            let document = beside::document(self, simulation, &tried)?;
            return Ok(SimulationAnswer { document, remarks });
        }
        Ok(SimulationAnswer { document: printed(&simulation, args, wanted.is_some(), style)?, remarks })
    }

    /// The Clusters that are meant, by namespace and name.
    fn clusters(&self) -> impl Iterator<Item = &ObjectKey> {
        self.dump.clusters.keys().filter(|key| self.cluster.is_none_or(|wanted| wanted == *key))
    }
}

/// Machines by name; one that is not there cannot fail.
fn failing(dump: &Dump, names: &[String], option: &str) -> anyhow::Result<Vec<String>> {
    for name in names {
        if !dump.machines.keys().any(|key| key.name == *name) {
            bail!("{option}{name}: there is no such Machine among the objects");
        }
    }
    Ok(names.to_vec())
}

/// Every Cluster, or only the one that was asked for.
fn hunts(
    dump: &Dump,
    wanted: Option<&ObjectKey>,
    scenario: &Scenario,
    seeds: u64,
    now: Timestamp,
) -> Vec<Hunt> {
    let mine = dump.clusters.keys().filter(|key| wanted.is_none_or(|wanted| wanted == *key));
    mine.filter_map(|key| hunt(dump, key, scenario, (seeds, FAILING), now)).collect()
}

fn printed(
    simulation: &Simulation,
    args: &SimulateArgs,
    is_wanted: bool,
    style: Style,
) -> anyhow::Result<String> {
    Ok(match args.output {
        PlanOutputArg::Json => style.block(output::json(simulation)?),
        PlanOutputArg::Text => text::text(simulation, is_wanted, style),
    })
}

fn moment(args: &SimulateArgs, now: Timestamp) -> anyhow::Result<Timestamp> {
    let Some(typed) = &args.now else { return Ok(now) };
    parse_moment(typed, now).with_context(|| {
        WrongUsage(format!(
            "--now {typed}: expected a moment such as 2026-11-20T10:00:00Z, or one from now such as +2h"
        ))
    })
}

fn wanted(args: &SimulateArgs, namespace: &str) -> anyhow::Result<Option<ObjectRef>> {
    if args.target.is_empty() { Ok(None) } else { Ok(Some(target::parse(&args.target, namespace)?)) }
}

/// The Cluster of an object of the dump.
fn cluster_in(dump: &Dump, wanted: &ObjectRef) -> anyhow::Result<ObjectKey> {
    let ObjectRef { gvk, key, .. } = wanted;
    let Some(object) = dump.raw(&gvk.group, &gvk.kind, key) else {
        bail!("there is no {} {key} among the objects: check the name and the namespace (-n)", gvk.kind);
    };
    let referring = || {
        let refers = |cluster: &capi_types::cluster::Cluster| {
            cluster.spec.control_plane_ref.as_ref().is_some_and(|r| r.kind == gvk.kind && r.name == key.name)
        };
        let mut all = dump.clusters.iter().filter(|(at, _)| at.namespace == key.namespace);
        all.find(|(_, cluster)| refers(cluster)).map(|(at, _)| at.clone())
    };
    let named = cluster_named_by(object).map(|name| ObjectKey::new(&key.namespace, name));
    let cluster = named.or_else(referring);
    cluster.ok_or_else(|| anyhow!("{} {key} does not say which Cluster it belongs to", gvk.kind))
}

fn scenario(args: &SimulateArgs, learnt: Timings) -> anyhow::Result<Scenario> {
    let until = match args.until.as_str() {
        "settled" => Until::Settled,
        other => {
            let steps = other.strip_suffix("steps").and_then(|n| n.parse().ok());
            Until::Steps(steps.with_context(|| {
                WrongUsage(format!("--until {other}: expected settled, or a number of steps such as 20steps"))
            })?)
        }
    };
    let seed = match (args.order, args.seed) {
        (OrderArg::Random, seed) => Some(seed.unwrap_or(1)),
        (OrderArg::Fixed, Some(_)) if args.faults => None,
        (OrderArg::Fixed, Some(_)) => bail!("--seed is for --order random: a fixed order draws nothing"),
        (OrderArg::Fixed, None) => None,
    };
    let actors = match args.actors {
        ActorsArg::All => Actors::All,
        ActorsArg::Planner => Actors::Planner,
    };
    let mut timings = learnt;
    if actors == Actors::Planner {
        timings = Timings::none();
    }
    for typed in &args.timings {
        take_timing(typed, &mut timings)?;
    }
    let detail = if args.trace { Detail::Trace } else { Detail::Sequence };
    Ok(Scenario { seed, actors, until, detail, timings, ..Scenario::default() })
}

/// `STEP=DURATION`, or with the short, the usual and the long duration.
fn take_timing(typed: &str, timings: &mut Timings) -> anyhow::Result<()> {
    const STEPS: &str = "bootstrap, infrastructure, node, drain, removal, update";
    let wrong = || {
        WrongUsage(format!(
            "--timing {typed}: expected STEP=DURATION or STEP=SHORT..USUAL..LONG, such as node=90s; steps are {STEPS}"
        ))
    };
    let (step, durations) = typed.split_once('=').with_context(wrong)?;
    let seconds = |text: &str| -> anyhow::Result<u32> {
        let seconds = parse_duration(text).with_context(wrong)?.as_secs();
        if seconds > STEP_MAX_S {
            bail!(WrongUsage(format!(
                "--timing {typed}: {text} is longer than any step takes: 7 days are the limit"
            )));
        }
        Ok(u32::try_from(seconds)?)
    };
    let parts = durations.split("..").map(seconds).collect::<anyhow::Result<Vec<u32>>>()?;
    let span = match parts[..] {
        [usual] => Span::exactly(usual),
        [short, usual, long] if short <= usual && usual <= long => Span::new(short, usual, long),
        _ => bail!(wrong()),
    };
    let field: fn(&mut Timing) -> &mut Span = match step {
        "bootstrap" => |t| &mut t.bootstrap,
        "infrastructure" => |t| &mut t.infrastructure,
        "node" => |t| &mut t.node,
        "drain" => |t| &mut t.drain,
        "removal" => |t| &mut t.removal,
        "update" => |t| &mut t.update,
        _ => bail!(wrong()),
    };
    timings.overrule(field, span);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timing_is_one_duration_or_three() {
        let taken = |typed: &str| {
            let mut timings = Timings::default();
            take_timing(typed, &mut timings)
                .map(|()| timings.usual("DevMachine").node)
                .map_err(|e| e.to_string())
        };
        assert_eq!(taken("node=90s"), Ok(Span::exactly(90)));
        assert_eq!(taken("node=30s..1m..3m"), Ok(Span::new(30, 60, 180)));
        for wrong in ["node", "node=", "node=3m..1m..30s", "node=1s..2s", "boot=3s", "node=soon"] {
            let said = taken(wrong).expect_err(wrong);
            assert!(said.starts_with(&format!("--timing {wrong}: expected STEP=DURATION")), "{said}");
        }
        let absurd = taken("node=400d").expect_err("too long");
        assert_eq!(absurd, "--timing node=400d: 400d is longer than any step takes: 7 days are the limit");
    }
}
