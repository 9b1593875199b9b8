//! The plans of all objects of a dump, as people and scripts read them: next steps, what follows, blockers with
//! their evidence, the next look, and what had to be assumed. Owns that form; the decisions are `plan`'s. Must
//! not know files, an API server, or how it is shown.
//!
//! What cannot be seen from outside (the leader of etcd, the state of a Node) is never guessed: it is among the
//! assumptions of the object whose plan depends on it.

mod ahead;
mod brief;
mod clean;
mod cluster;
mod control_plane;
mod evidence;
mod half_read;
mod health_check;
pub mod in_place;
mod machine;
mod moves;
mod paused;
mod workers;

use serde::Serialize;

use ahead::Ahead;
use in_place::{InPlaceQuestion, Known, Updates};

use capi_rules::observe::dump::Dump;
use capi_rules::plan::{Blocker, Wait};
use capi_types::hook::Hook;
use capi_types::key::ObjectKey;
use capi_types::names::CORE_GROUP;
use capstan_base::text::counted;
use capstan_base::time::{Timestamp, rfc3339};

pub use crate::simulate::{NextStep, next_steps};
pub use capi_rules::plan::StepAction;
pub use evidence::Seen;
pub use health_check::mark_unhealthy;
pub use workers::carry_out;

/// The name of the JSON shape; a change that breaks readers changes it.
pub const API_VERSION: &str = "capstan/v1alpha1";

/// Kinds that have a plan.
pub const KINDS: [&str; 6] =
    ["Cluster", "KubeadmControlPlane", "MachineDeployment", "MachineSet", "Machine", "MachineHealthCheck"];

/// The plans of several objects at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Forecast {
    pub api_version: &'static str,
    pub kind: &'static str,
    /// RFC 3339.
    pub at: String,
    /// By cluster, then from the whole to its parts, then by name.
    pub objects: Vec<ObjectPlan>,
    /// What was left out or could not be read, in sentences.
    pub remarks: Vec<String>,
}

/// What happens to one object next.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectPlan {
    pub kind: &'static str,
    pub namespace: String,
    pub name: String,
    /// The Cluster, in the same namespace; empty when the object names none.
    pub cluster: String,
    pub state: State,
    /// The writes that are due now, in order.
    pub next: Vec<NextStep>,
    /// What follows when everything comes up and goes as it should; not complete for long rollouts.
    pub then: Vec<NextStep>,
    /// In place or by replacement, of each Machine that changes; `None` where no extension could be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updates: Option<Updates>,
    pub blockers: Vec<Held>,
    /// `None`: the next change of what it looks at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_look: Option<Look>,
    pub assumptions: Vec<String>,
    /// Its Machines host the members of etcd.
    #[serde(skip)]
    pub has_members: bool,
    /// What it belongs to, `KIND/NAME`, from the nearest to the Cluster.
    #[serde(skip)]
    pub within: Vec<String>,
}

/// The state of an object, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// Nothing to do.
    Settled,
    /// Steps are due.
    Acting,
    /// It waits for something that is on its way.
    Waiting,
    /// Nothing on its way ends the wait.
    Blocked,
    Paused,
    /// No plan could be made; the only blocker has the reason.
    Unknown,
}

/// Why something is not done now.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Held {
    /// A stable name in kebab case.
    pub rule: String,
    pub sentence: String,
    /// What it waits for is on its way.
    pub on_its_way: bool,
    pub evidence: Vec<Seen>,
}

/// When the plan is looked at again although nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Look {
    /// RFC 3339.
    pub at: String,
    pub in_seconds: u64,
    /// Not before that moment, even when something changes.
    pub not_before: bool,
}

impl Look {
    fn of<S>(plan: &capi_rules::plan::Plan<S>, now: Timestamp) -> Option<Self> {
        let (delay, not_before) = match (plan.hold, plan.recheck) {
            // A hold outweighs a recheck: until it is over no look is taken.
            (Some(hold), _) => (hold, true),
            (None, Some(recheck)) => (recheck, false),
            (None, None) => return None,
        };
        let at = now.checked_add_signed(chrono::TimeDelta::from_std(delay).ok()?)?;
        Some(Self { at: rfc3339(at), in_seconds: delay.as_secs(), not_before })
    }
}

impl ObjectPlan {
    fn new(kind: &'static str, key: &ObjectKey, cluster: &str) -> Self {
        Self {
            kind,
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            cluster: cluster.to_owned(),
            state: State::Settled,
            next: Vec::new(),
            then: Vec::new(),
            updates: None,
            blockers: Vec::new(),
            next_look: None,
            assumptions: Vec::new(),
            has_members: false,
            within: Vec::new(),
        }
    }

    /// No plan can be made, because of `why`.
    fn unknown(mut self, why: &str) -> Self {
        self.state = State::Unknown;
        let (rule, sentence) = ("not-planned".to_owned(), why.to_owned());
        self.blockers = vec![Held { rule, sentence, on_its_way: false, evidence: Vec::new() }];
        self
    }

    /// With its state, after steps and blockers are there.
    fn judged(mut self) -> Self {
        // People do not wait for a finalizer or a label.
        self.state = if self.next.iter().any(|step| !step.is_bookkeeping) {
            State::Acting
        } else if self.blockers.iter().any(|held| !held.on_its_way) {
            State::Blocked
        } else if !self.blockers.is_empty() {
            State::Waiting
        } else {
            State::Settled
        };
        self
    }

    /// `KIND/NAME`.
    pub fn id(&self) -> String {
        format!("{}/{}", self.kind, self.name)
    }
}

impl Held {
    fn of(blocker: &Blocker, seen: impl Fn(&capi_rules::plan::evidence::Evidence) -> Vec<Seen>) -> Self {
        Self {
            rule: blocker.reason.rule.to_owned(),
            sentence: blocker.reason.sentence.clone(),
            on_its_way: blocker.wait == Wait::UnderWay,
            evidence: blocker.evidence.iter().flat_map(seen).collect(),
        }
    }
}

/// What could be asked about the objects of a dump; nothing where no extension is registered.
pub fn questions(dump: &Dump, now: Timestamp) -> Vec<InPlaceQuestion> {
    let mut all = Vec::new();
    // Without a handler no extension could be asked, and questions cost a plan of each object.
    if !in_place::offered(dump, Hook::CanUpdateMachine).is_empty() {
        for (key, object) in &dump.control_planes {
            all.extend(control_plane::questions(dump, key, object, now));
        }
    }
    if !in_place::offered(dump, Hook::CanUpdateMachineSet).is_empty() {
        for (key, object) in &dump.machine_deployments {
            all.extend(workers::questions(dump, key, object, now));
        }
    }
    all
}

/// The plans of every object of a dump whose kind has plans.
pub fn forecast(dump: &Dump, now: Timestamp) -> Forecast {
    forecast_knowing(dump, &Known::Nothing, now)
}

/// The same with what is known of updates in place.
pub fn forecast_knowing(dump: &Dump, known: &Known, now: Timestamp) -> Forecast {
    let mut objects: Vec<ObjectPlan> = Vec::new();
    objects.extend(dump.clusters.iter().map(|(key, object)| cluster::plan(dump, key, object, now)));
    let planes = dump.control_planes.iter();
    // Shared by all kinds: each Cluster is simulated at most once for each assumption.
    let ahead = Ahead::new(dump, known, now);
    objects.extend(planes.map(|(key, object)| control_plane::plan(dump, (known, &ahead), key, object, now)));
    let deployments = dump.machine_deployments.iter();
    objects.extend(deployments.map(|(key, o)| workers::deployment(dump, (known, &ahead), key, o, now)));
    objects.extend(dump.machine_sets.iter().map(|(key, object)| workers::set(dump, known, key, object, now)));
    objects.extend(dump.machines.iter().map(|(key, object)| machine::plan(dump, key, object, now)));
    objects.extend(dump.checks.iter().map(|(key, object)| health_check::plan(dump, key, object, now)));
    // Stable: within a Cluster the kinds stay in the order from above.
    objects.sort_by(|a, b| (&a.namespace, &a.cluster).cmp(&(&b.namespace, &b.cluster)));
    let remarks = dump.remarks.iter().cloned().chain(not_planned(dump)).chain(dump.not_computed()).collect();
    Forecast { api_version: API_VERSION, kind: "Plan", at: rfc3339(now), objects, remarks }
}

/// Kinds that stand for Machines and that have no planner here, with their number.
fn not_planned(dump: &Dump) -> impl Iterator<Item = String> {
    let others = dump.kinds().filter(|(group, kind, count)| {
        let control_plane = dump.is_control_plane(group, kind) && !kind.starts_with("KubeadmControlPlane");
        *count > 0 && (control_plane || (*group == CORE_GROUP && *kind == "MachinePool"))
    });
    others.map(|(_, kind, count)| {
        let verb = if count == 1 { "is" } else { "are" };
        let objects = counted(count, &format!("{kind} object"));
        format!("{objects} {verb} not planned: there are no rules for the kind")
    })
}
