//! What happens next in a cluster, as it is and after an action, and how it goes on from there. Owns the reading of a
//! cluster and which plans an action changes; the plans are those of `forecast`, what follows is run ahead by `simulate`.

use std::sync::Arc;

use serde_json::Value;

use capi_forecast::forecast::in_place::{InPlaceQuestion, Known, Updates};
use capi_forecast::forecast::{
    Forecast, ObjectPlan, State, carry_out, forecast, forecast_knowing, mark_unhealthy,
};
use capi_forecast::simulate::{self, Remembered, Scenario};
use capi_rules::observe::dump::Dump;
use capi_types::key::ObjectKey;
use capi_types::names::annotation;
use capstan_base::text::sanitize_line;
use capstan_base::time::{Clock, Timestamp};
use capstan_engine::can_update::AtServer;
use capstan_engine::client::Connection;
use capstan_engine::client::clusters::{Lists, cluster_named_by, list_clusters};

use super::aside;
use super::tried::{self, Tried};

/// A Cluster with more Machines is not run ahead unasked: it would take longer than a look.
pub const AHEAD_UNASKED_MAX: usize = 1_000;
/// Nor one with more when it is asked for on a screen.
pub const AHEAD_MAX: usize = 10_000;

/// Other objects whose plan changes and that are named.
const OTHERS_MAX: usize = 4;

/// Kinds that act for a Cluster.
const PARTS: [&str; 2] = ["KubeadmControlPlane", "MachineDeployment"];

/// What an action does to what happens next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// There is no planner for the kind.
    NotPlanned,
    /// The cluster could not be read, with the reason.
    Unknown(String),
    Known(PlanChange),
}

/// Plans in a line each, not sanitised.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanChange {
    /// The plan of the object as it is.
    pub before: String,
    /// Its plan after the action, then those of other objects that the action changes.
    pub after: Vec<String>,
    /// In place or by replacement, of each Machine that the action changes. `None`: no extension has a say.
    pub updates: Option<Updates>,
    /// How the Cluster goes on from there, and how low: a few sentences, sanitised. Empty when nothing follows.
    pub course: Vec<String>,
    pub assumptions: Vec<String>,
}

/// The plans of one Cluster, and how it goes on from them.
#[derive(Debug)]
pub struct ClusterPlans {
    pub forecast: Forecast,
    /// `None` where it is too large, or was not read.
    pub ahead: Option<simulate::Forecast>,
}

/// One Cluster run ahead as it is, and with what is tried.
#[derive(Clone, Debug)]
pub struct Ahead {
    pub plain: simulate::Forecast,
    /// `None`: nothing is tried. `Err`: it does not apply, in a sentence.
    pub tried: Option<Result<simulate::Forecast, String>>,
    /// What the durations rest on, and what could not be read.
    pub grounds: Vec<String>,
}

/// Plans of one server's clusters. Cheap to clone.
#[derive(Clone)]
pub struct Planner {
    connection: Connection,
    clock: Clock,
}

impl Planner {
    pub fn new(connection: Connection, clock: Clock) -> Self {
        Self { connection, clock }
    }

    /// Reads one Cluster and what belongs to it.
    ///
    /// # Errors
    /// The server does not answer or refuses, in a sentence.
    pub async fn lists(&self, cluster: &ObjectKey) -> Result<Lists, String> {
        let found = list_clusters(&self.connection, &cluster.namespace, Some(&cluster.name)).await;
        found.map_err(|error| error.to_string())
    }

    /// The plans of what was read of one Cluster, and what follows from them by what is remembered of its pools; what could not be read is among the
    /// remarks. Its cost grows with the Machines.
    pub fn plans(&self, lists: Lists, cluster: &ObjectKey, remembered: &[Remembered]) -> ClusterPlans {
        let now = self.clock.now();
        let dump = Dump::of_lists(lists.kinds);
        let mut forecast = forecast(&dump, now);
        forecast.remarks.extend(lists.gaps);
        forecast.objects.retain(|plan| belongs(plan, cluster));
        let is_small = dump.machines.len() <= AHEAD_UNASKED_MAX;
        let ahead =
            if is_small { run_ahead(&dump, cluster, (&Known::Nothing, remembered), now) } else { None };
        ClusterPlans { forecast: forecast.sanitized(), ahead }
    }

    /// One Cluster run ahead as it is, and with what is tried. Its cost grows with the Machines.
    ///
    /// # Errors
    /// The Cluster is not among the lists, or is too large, in a sentence.
    pub fn ahead(
        &self,
        lists: Lists,
        cluster: &ObjectKey,
        (wanted, remembered): (&Tried, &[Remembered]),
    ) -> Result<Ahead, String> {
        let now = self.clock.now();
        let mut dump = Dump::of_lists(lists.kinds);
        let machines = dump.machines.len();
        if machines > AHEAD_MAX {
            return Err(format!(
                "{machines} Machines are too many for a screen, {AHEAD_MAX} are the limit: use capstan simulate cluster/{}",
                cluster.name
            ));
        }
        let learnt = simulate::learn_with(&dump, remembered);
        let scenario = Scenario { timings: learnt.timings, ..Scenario::default() };
        let go = |dump: &Dump, failing: &[String]| {
            // What is tried may change what is announced for later, so that both runs read it anew.
            let announced = simulate::announced(dump, cluster, now);
            let mut scenario = scenario.clone().waiting_for(&announced, now);
            scenario.faults.failing = failing.to_vec();
            simulate::forecast(dump, cluster, &scenario, now)
        };
        let gone = || format!("there is no Cluster {cluster} any more");
        let plain = go(&dump, &[]).ok_or_else(gone)?;
        let is_tried = *wanted != Tried::default();
        let tried = is_tried.then(|| {
            tried::apply(&mut dump, &wanted.changes).map_err(|error| sanitize_line(&error.to_string()))?;
            go(&dump, &wanted.failing).ok_or_else(gone)
        });
        let grounds = learnt.grounds.iter().chain(&lists.gaps).map(|line| sanitize_line(line)).collect();
        Ok(Ahead { plain, tried, grounds })
    }

    /// What happens next to `object` and to the others in the lists of its Cluster now, and once it has become
    /// what `change` says.
    pub async fn outlook(
        &self,
        lists: Result<Lists, String>,
        object: &Value,
        change: AfterAction,
    ) -> Outlook {
        match lists {
            _ if !is_planned(object) => Outlook::NotPlanned,
            Ok(lists) => match self.compare(lists, object.clone(), change).await {
                Ok(change) => Outlook::Known(change),
                Err(why) => Outlook::Unknown(why),
            },
            Err(why) => Outlook::Unknown(why),
        }
    }

    /// The plans before and after. What is computed is computed aside.
    async fn compare(&self, lists: Lists, object: Value, change: AfterAction) -> Result<PlanChange, String> {
        let now = self.clock.now();
        let (asks_extensions, after) = (change.asks_extensions, change.after.clone());
        let as_it_is = object.clone();
        let begun = move || {
            let mut dump = Dump::of_lists(lists.kinds);
            // The lists may hold a newer one: both plans begin from the object that the write is
            // guarded by.
            dump.replace(as_it_is);
            let before = forecast(&dump, now);
            dump.replace(change.after);
            change.made.into_iter().for_each(|made| dump.replace(made));
            (dump, before)
        };
        let (dump, before) = aside(begun).await?;
        let known =
            if asks_extensions { self.ask(&dump, &Target::of(&object), now).await } else { Known::Nothing };
        aside(move || compared(dump, &known, &before, [&object, &after], now)).await
    }

    /// Asks the registered extensions about the Machines of the target.
    async fn ask(&self, dump: &Dump, target: &Target<'_>, now: Timestamp) -> Known {
        let extensions = AtServer::read(&self.connection, self.clock.clone()).await;
        match extensions {
            Ok(extensions) => {
                let is_meant = |question: &InPlaceQuestion| {
                    let (kind, name) = &question.owner;
                    *kind == target.kind
                        && *name == target.key.name
                        && question.whom.key.namespace == target.key.namespace
                };
                Known::Asked(extensions.ask(dump, &is_meant, now).await)
            }
            Err(why) => Known::Failed(why),
        }
    }
}

/// As it is, until nothing is left to do, what is scheduled for later included.
fn run_ahead(
    dump: &Dump,
    cluster: &ObjectKey,
    (known, remembered): (&Known, &[Remembered]),
    now: Timestamp,
) -> Option<simulate::Forecast> {
    let announced = simulate::announced(dump, cluster, now);
    let timings = simulate::learn_with(dump, remembered).timings;
    let in_place = known.asked().cloned().map(Arc::new);
    let scenario = Scenario { timings, in_place, ..Scenario::default() };
    simulate::forecast(dump, cluster, &scenario.waiting_for(&announced, now), now)
}

fn belongs(plan: &ObjectPlan, cluster: &ObjectKey) -> bool {
    plan.namespace == cluster.namespace && plan.cluster == cluster.name
}

fn is_planned(object: &Value) -> bool {
    object["kind"].as_str().is_some_and(|kind| capi_forecast::forecast::KINDS.contains(&kind))
}

/// What an action makes of an object.
#[derive(Clone, Debug)]
pub struct AfterAction {
    pub after: Value,
    /// Objects that are made beside it.
    pub made: Vec<Value>,
    /// The registered extensions are asked what they can do about it.
    pub asks_extensions: bool,
}

/// The plans after, beside those before; `dump` has the object as it becomes.
fn compared(
    mut dump: Dump,
    known: &Known,
    before: &Forecast,
    [object, after]: [&Value; 2],
    now: Timestamp,
) -> PlanChange {
    let target = Target::of(object);
    let is_deleted = !after["metadata"]["deletionTimestamp"].is_null();
    // A Machine that had the mark before is in the plan before as well.
    let is_asked_for = [object, after].map(is_to_be_remediated) == [false, true];
    let later = forecast_knowing(&dump, known, now);
    // Before `in_the_end`, which takes steps on the dump itself.
    let course = target.course(&dump, known, now);
    let end = target.in_the_end(&mut dump, known, (is_deleted, is_asked_for), now);
    let around = end.as_ref().unwrap_or(&later);
    let others: Vec<&ObjectPlan> =
        around.objects.iter().filter(|p| target.is_beside(p) && is_changed(p, before)).collect();
    let own = later.objects.iter().find(|plan| target.is(plan));
    let when = match (is_deleted, is_asked_for) {
        (true, _) => "once it is gone, ",
        (_, true) => "once its health check has marked it, ",
        _ => "",
    };
    PlanChange {
        before: target.before(before),
        after: lines(own, &others, when),
        updates: own.and_then(|plan| plan.updates.clone()),
        course,
        assumptions: assumptions(own.into_iter().chain(others.iter().copied().take(OTHERS_MAX))),
    }
}

fn is_to_be_remediated(machine: &Value) -> bool {
    !machine["metadata"]["annotations"][annotation::REMEDIATE_MACHINE].is_null()
}

/// The object of an action.
struct Target<'a> {
    kind: &'a str,
    key: ObjectKey,
    cluster: &'a str,
}

impl<'a> Target<'a> {
    fn of(object: &'a Value) -> Self {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        Self {
            kind: text("/kind"),
            key: ObjectKey::new(text("/metadata/namespace"), text("/metadata/name")),
            cluster: cluster_named_by(object).unwrap_or_default(),
        }
    }

    fn is(&self, plan: &ObjectPlan) -> bool {
        plan.kind == self.kind && plan.namespace == self.key.namespace && plan.name == self.key.name
    }

    fn is_beside(&self, plan: &ObjectPlan) -> bool {
        plan.namespace == self.key.namespace && plan.cluster == self.cluster && !self.is(plan)
    }

    /// What happens as it is. A Cluster does little itself: what its parts do is meant.
    fn before(&self, before: &Forecast) -> String {
        let own = before.objects.iter().find(|plan| self.is(plan)).map(ObjectPlan::brief).unwrap_or_default();
        if self.kind != "Cluster" {
            return own;
        }
        let is_moving = |plan: &&ObjectPlan| {
            PARTS.contains(&plan.kind) && self.is_beside(plan) && plan.state != State::Settled
        };
        let moving = before.objects.iter().filter(is_moving).take(OTHERS_MAX);
        let parts: Vec<String> =
            moving.map(|plan| format!("{} {}: {}", plan.kind, plan.name, plan.brief())).collect();
        if parts.is_empty() { own } else { parts.join("; ") }
    }

    /// How its Cluster goes on. What a topology asks for is not run ahead: a controller has to carry it out first.
    fn course(&self, dump: &Dump, known: &Known, now: Timestamp) -> Vec<String> {
        let key = ObjectKey::new(&self.key.namespace, self.cluster);
        if self.kind == "Cluster" && dump.clusters.get(&key).is_some_and(|c| c.spec.topology.is_some()) {
            return Vec::new();
        }
        if dump.machines.len() > AHEAD_UNASKED_MAX {
            let what = format!("not run ahead: the Cluster has more than {AHEAD_UNASKED_MAX} Machines");
            return vec![format!("{what}; capstan simulate does that")];
        }
        let ahead = run_ahead(dump, &key, (known, &[]), now);
        ahead.map(|ahead| ahead.brief(&format!("{}/{}", self.kind, self.key.name))).unwrap_or_default()
    }

    /// The plans around an object that acts through others, after it did: a MachineDeployment through its
    /// MachineSets, a deleted Machine through its owner, and so one whose remediation is asked for.
    fn in_the_end(
        &self,
        dump: &mut Dump,
        known: &Known,
        (is_deleted, is_asked_for): (bool, bool),
        now: Timestamp,
    ) -> Option<Forecast> {
        match self.kind {
            "MachineDeployment" => carry_out(dump, known, &self.key, now),
            "Machine" if is_deleted => dump.remove_machine(&self.key),
            "Machine" if is_asked_for => mark_unhealthy(dump, &self.key, now),
            _ => return None,
        }
        Some(forecast_knowing(dump, known, now))
    }
}

/// Does an object do something else than before, besides waiting for the end of a pause?
fn is_changed(plan: &ObjectPlan, before: &Forecast) -> bool {
    let same =
        |old: &&ObjectPlan| old.kind == plan.kind && old.namespace == plan.namespace && old.name == plan.name;
    let old = before.objects.iter().find(same).map(ObjectPlan::brief);
    plan.state != State::Paused && old.as_deref() != Some(plan.brief().as_str())
}

/// `when`: what must have come first for the others.
fn lines(own: Option<&ObjectPlan>, others: &[&ObjectPlan], when: &str) -> Vec<String> {
    let mut lines: Vec<String> = own.map(ObjectPlan::brief_without_head).into_iter().collect();
    let named = others.iter().take(OTHERS_MAX);
    lines.extend(
        named.map(|plan| format!("{when}{} {}: {}", plan.kind, plan.name, plan.brief_without_head())),
    );
    match others.len().saturating_sub(OTHERS_MAX) {
        0 => {}
        1 => lines.push("1 more object changes what it does".to_owned()),
        more => lines.push(format!("{more} more objects change what they do")),
    }
    lines
}

fn assumptions<'a>(plans: impl Iterator<Item = &'a ObjectPlan>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for assumption in plans.flat_map(ObjectPlan::brief_assumptions) {
        if !all.iter().any(|known| known == assumption) {
            all.push(assumption.to_owned());
        }
    }
    all
}
