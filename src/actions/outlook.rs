//! What happens next in a cluster, as it is and after an action. Owns the reading of a cluster and which plans an
//! action changes; the plans are those of `forecast`.

use serde_json::Value;

use crate::api::key::ObjectKey;
use crate::api::names::annotation;
use crate::can_update::AtServer;
use crate::client::Connection;
use crate::client::clusters::{Lists, cluster_named_by, list_clusters};
use crate::forecast::in_place::{InPlaceQuestion, Known, Updates};
use crate::forecast::{Forecast, ObjectPlan, State, carry_out, forecast, forecast_knowing, mark_unhealthy};
use crate::observe::dump::Dump;
use crate::time::{Clock, Timestamp};

/// Other objects whose plan changes and that are named.
const OTHERS_MAX: usize = 4;

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
    pub assumptions: Vec<String>,
}

/// Plans of one server's clusters. Cheap to clone.
#[derive(Clone)]
pub struct Planner {
    connection: Connection,
    clock: Clock,
}

impl Planner {
    #[must_use]
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

    /// The plans of what was read of one Cluster; what could not be read is among the remarks. Its cost
    /// grows with the Machines.
    #[must_use]
    pub fn plans(&self, lists: Lists, cluster: &ObjectKey) -> Forecast {
        let mut forecast = forecast(&Dump::of_lists(lists.kinds), self.clock.now());
        forecast.remarks.extend(lists.gaps);
        forecast.objects.retain(|plan| belongs(plan, cluster));
        forecast
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
            Ok(lists) => Outlook::Known(self.compare(lists, object, change).await),
            Err(why) => Outlook::Unknown(why),
        }
    }

    /// The plans before and after.
    async fn compare(&self, lists: Lists, object: &Value, change: AfterAction) -> PlanChange {
        let (now, target) = (self.clock.now(), Target::of(object));
        let mut dump = Dump::of_lists(lists.kinds);
        dump.replace(object.clone());
        let before = forecast(&dump, now);
        dump.replace(change.after.clone());
        change.made.into_iter().for_each(|made| dump.replace(made));
        let known = if change.asks_extensions { self.ask(&dump, &target, now).await } else { Known::Nothing };
        compared(dump, &known, &before, [object, &change.after], now)
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

fn belongs(plan: &ObjectPlan, cluster: &ObjectKey) -> bool {
    plan.namespace == cluster.namespace && plan.cluster == cluster.name
}

fn is_planned(object: &Value) -> bool {
    object["kind"].as_str().is_some_and(|kind| crate::forecast::KINDS.contains(&kind))
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
    let is_asked_for = [object, after].map(is_to_be_remediated) == [false, true];
    let later = forecast_knowing(&dump, known, now);
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
        before: before.objects.iter().find(|plan| target.is(plan)).map(ObjectPlan::brief).unwrap_or_default(),
        after: lines(own, &others, when),
        updates: own.and_then(|plan| plan.updates.clone()),
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
    let brief = |plan: &ObjectPlan| {
        let brief = plan.brief();
        brief.strip_prefix("next: ").map(str::to_owned).unwrap_or(brief)
    };
    let mut lines: Vec<String> = own.map(brief).into_iter().collect();
    let named = others.iter().take(OTHERS_MAX);
    lines.extend(named.map(|plan| format!("{when}{} {}: {}", plan.kind, plan.name, brief(plan))));
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
