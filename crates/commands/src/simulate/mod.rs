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

use anyhow::{anyhow, bail};

use super::arguments::{HandlersArg, PlanOutputArg};
use super::exit_code::WrongUsage;
use super::output::{self, Style};
use super::plan::ask;
use super::{documents, target};
use args::{ActorsArg, SimulateArgs};
use capi_forecast::forecast::in_place::Known;
use capi_forecast::simulate::{
    Actors, Detail, Hunt, Remembered, Scenario, Simulation, Timings, hunt, learn_with, replayed, simulate,
    too_large,
};
use capi_rules::observe::dump::Dump;
use capi_types::key::{ObjectKey, ObjectRef};
use capi_types::names::OLDER_VERSION;
use capstan_base::text::sanitize_line;
use capstan_base::time::Timestamp;
use capstan_base::toml_file::Source;
use capstan_dashboard::actions::tried;
use capstan_dashboard::fleet::kept::read_usual_times;
use capstan_engine::client::Connection;
use capstan_engine::client::clusters::{cluster_named_by, cluster_of, list_clusters};

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
    let seed = args.order_seed()?;
    let (mut found, remarks) = documents::documents(&args.files, &args.workloads)?;
    if let Some(wanted) = namespace {
        found.retain(|document| document.workload.is_some() || is_within(&document.value, wanted));
    }
    let read: (Dump, &[Remembered]) = (Dump::new(found), &[]);
    let wanted = wanted_among(args, &read.0, namespace.unwrap_or("default"))?;
    Prepared::new((args, seed), read, wanted.as_ref(), moment(args, now))?.answer(remarks, style)
}

/// Objects without a namespace and those of workload clusters are in each.
fn is_within(value: &serde_json::Value, namespace: &str) -> bool {
    match value["kind"].as_str() {
        Some("CustomResourceDefinition" | "Node" | "Pod" | "PodDisruptionBudget") => true,
        _ => value["metadata"]["namespace"].as_str().unwrap_or("default") == namespace,
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
    // The file has contexts as they are shown, without control characters.
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
    let seed = args.order_seed()?;
    if args.target.0.is_some() && namespace.is_empty() {
        bail!(WrongUsage(target::ALL_NAMESPACES.to_owned()));
    }
    let wanted = match &args.target.0 {
        Some(named) => Some(named.on(connection, namespace).await?),
        None => None,
    };
    let cluster = match &wanted {
        Some(wanted) => Some(cluster_of(connection, wanted).await?),
        None => None,
    };
    let lists = list_clusters(connection, namespace, cluster.as_deref()).await?;
    let now = moment(args, now);
    let read = (Dump::of_lists(lists.kinds), remembered);
    let mut prepared = Prepared::new((args, seed), read, wanted.as_ref(), now)?;
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
    // Before the patch is put on: Machines that are there took their time under the old templates.
    let learnt = learn_with(&dump, &[]);
    let edit = if object.gvk.version == OLDER_VERSION {
        tried::TriedEdit::Older(patch.clone())
    } else {
        tried::TriedEdit::Merge(patch.clone())
    };
    let tried = tried::TriedChange { origin: "the patch".to_owned(), object: object.clone(), edit };
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
        (args, seed): (&'a SimulateArgs, Option<u64>),
        (mut dump, remembered): (Dump, &[Remembered]),
        wanted: Option<&'a ObjectRef>,
        now: Timestamp,
    ) -> anyhow::Result<Self> {
        // What the Machines tell of the past does not depend on what is tried.
        let learnt = learn_with(&dump, remembered);
        let mut scenario = scenario(args, seed, learnt.timings);
        let namespace = wanted.map_or("default", |wanted| wanted.key.namespace.as_str());
        let mut changes = change::from_files(&args.changes, wanted, namespace)?;
        for set in &args.sets {
            changes.push(set.change("--set", wanted, (&dump, namespace))?);
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
        match ask(connection, self.args.in_place_handlers.map(HandlersArg::of), &self.dump, self.now).await {
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
        // A look at what has happened rests on no durations.
        if args.score.is_empty() {
            remarks.extend(grounds);
        }
        remarks.extend(answer.remarks);
        Ok(SimulationAnswer { document: answer.document, remarks })
    }
}

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
        // A typing error in a number of replicas must not take the memory of the host.
        let large: Vec<String> = self.clusters().filter_map(|key| too_large(dump, key)).collect();
        // One small Cluster is enough for an answer; the large ones are remarks then.
        if !large.is_empty() && large.len() == self.clusters().count() {
            bail!(large.join("\n"));
        }
        if let Some(within) = args.calendar {
            return calendar::answer(self, within);
        }
        if let Some(version) = &args.upgrade {
            return waves::answer(self, version);
        }
        // Without a seed many runs are tried; a seed plays one of them again.
        if args.faults && args.seed.is_none() {
            let hunts = hunts(dump, cluster, scenario, args.seeds, now);
            let document = match args.output {
                PlanOutputArg::Json => style.block(output::json(&hunts)?),
                PlanOutputArg::Text => text::hunts(&hunts, style),
            };
            return Ok(SimulationAnswer { document, remarks: large });
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
            let tried = change::beside(&args.beside, wanted, (dump, namespace))?;
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

fn moment(args: &SimulateArgs, now: Timestamp) -> Timestamp {
    args.now.map_or(now, |moment| moment.seen_from(now))
}

fn wanted_among(args: &SimulateArgs, dump: &Dump, namespace: &str) -> Result<Option<ObjectRef>, WrongUsage> {
    args.target.0.as_ref().map(|named| change::among(named, dump, namespace)).transpose()
}

/// By the name that the object has for it, else by the Cluster that refers to the object.
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

fn scenario(args: &SimulateArgs, seed: Option<u64>, learnt: Timings) -> Scenario {
    let actors = match args.actors {
        ActorsArg::All => Actors::All,
        ActorsArg::Planner => Actors::Planner,
    };
    // In rounds Machines are up at once, so that what was learnt of durations does not count.
    let mut timings = if actors == Actors::Planner { Timings::none() } else { learnt };
    for timing in &args.timings {
        timings.overrule(timing.step, timing.span);
    }
    let detail = if args.trace { Detail::Trace } else { Detail::Sequence };
    Scenario { seed, actors, until: args.until, detail, timings, ..Scenario::default() }
}

#[cfg(test)]
mod tests {
    use super::is_within;
    use serde_json::json;

    #[test]
    fn objects_without_a_namespace_are_in_each() {
        for (kind, namespace, expected) in [
            ("CustomResourceDefinition", None, true),
            ("Node", None, true),
            ("Pod", Some("kube-system"), true),
            ("Cluster", Some("fleet"), true),
            ("Cluster", Some("other"), false),
            ("Cluster", None, false),
        ] {
            let object = json!({"kind": kind, "metadata": {"namespace": namespace}});
            assert_eq!(is_within(&object, "fleet"), expected, "{kind} {namespace:?}");
        }
        assert!(is_within(&json!({"kind": "Cluster", "metadata": {}}), "default"));
    }
}
