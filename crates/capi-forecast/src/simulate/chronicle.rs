//! What people hear of a run: what was done, why, and the counters after it. Owns what is left out; the words are in `words`.
//! Must not judge anything.

use std::collections::{BTreeMap, BTreeSet};

use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use super::census::Counts;
use super::next_step::next_steps;
use super::passes::Actor;
use super::world::{World, name_of};
use capi_rules::plan::{Step, StepAction};
use capi_types::machine::Machine;
use capi_types::reference::ContractRef;
use capstan_base::time::Timestamp;
use capstan_physics::boot::BootStage;

const MACHINE: &str = "Machine";

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Only counters.
    Counters,
    /// What happens to Machines and replicas.
    Sequence,
    /// Every step.
    Trace,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Seconds since the beginning.
    pub at_s: i64,
    /// The object whose controller acted; the Machine whose host did. `KIND/NAME` in JSON.
    pub who: EventObject,
    /// Its text is `what` in JSON.
    pub does: Occurrence,
    /// The Machine that it is about was made on the way: there is none of its name yet.
    pub is_simulated: bool,
    /// The rule behind it; empty for what hosts do by themselves.
    pub rule: String,
    pub why: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventObject {
    pub kind: String,
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Occurrence {
    /// A controller did it.
    Action(StepAction),
    /// A host did it in its own time, or failed.
    Host(HostEvent),
}

/// What becomes of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verb", rename_all = "camelCase")]
pub enum HostEvent {
    BootstrapDataReady,
    HostReady,
    NodeReady,
    /// Its Node stops to report.
    NodeFails,
    UpdatedInPlace,
    /// What stood behind the object is gone.
    Gone,
}

impl Event {
    /// The Machine that it is about, by name; `None` when it is about something else.
    pub fn machine(&self) -> Option<&str> {
        let acted = match &self.does {
            Occurrence::Action(action) => action.machine(),
            Occurrence::Host(_) => None,
        };
        acted.or_else(|| (self.who.kind == MACHINE).then_some(self.who.name.as_str()))
    }

    /// Every text in it that comes from a cluster.
    pub(super) fn texts_mut(&mut self) -> Vec<&mut String> {
        let mut all = vec![&mut self.who.kind, &mut self.who.name, &mut self.why];
        if let Occurrence::Action(action) = &mut self.does {
            all.extend(action.texts_mut());
        }
        all
    }
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut event = serializer.serialize_struct("Event", 7)?;
        event.serialize_field("atS", &self.at_s)?;
        event.serialize_field("who", &self.who.to_string())?;
        event.serialize_field("what", &self.does.to_string())?;
        event.serialize_field("does", &self.does)?;
        event.serialize_field("isSimulated", &self.is_simulated)?;
        event.serialize_field("rule", &self.rule)?;
        event.serialize_field("why", &self.why)?;
        event.end()
    }
}

/// The counters of one owner from a moment on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sample {
    pub at_s: i64,
    /// `ActorKind/name`.
    pub owner: String,
    #[serde(flatten)]
    pub counts: Counts,
}

/// What is kept of one run.
#[derive(Clone, Debug)]
pub(super) struct Chronicle {
    detail: Detail,
    began: Timestamp,
    pub events: Vec<Event>,
    pub samples: Vec<Sample>,
    last: BTreeMap<String, Counts>,
    /// Names of the Machines that were made.
    made: BTreeSet<String>,
    /// When a step that people follow was last taken.
    pub acted_at: Timestamp,
    /// Members of etcd that may fail beyond those that did, at the worst moment.
    pub margin_min: Option<i64>,
}

impl Chronicle {
    pub(super) fn new(detail: Detail, began: Timestamp) -> Self {
        Self {
            detail,
            began,
            events: Vec::new(),
            samples: Vec::new(),
            last: BTreeMap::new(),
            made: BTreeSet::new(),
            acted_at: began,
            margin_min: None,
        }
    }

    /// Lows and counters count from here on; the time does not begin anew.
    pub(super) fn begin_stage(&mut self, now: Timestamp) {
        self.samples.clear();
        self.last.clear();
        self.margin_min = None;
        self.acted_at = now;
    }

    fn push(&mut self, world: &World, who: (&str, &str), does: Occurrence, (rule, why): (&str, &str)) {
        self.acted_at = world.now;
        // After the moment is noted, by which the duration is measured.
        if self.detail == Detail::Counters {
            return;
        }
        let who = EventObject { kind: who.0.to_owned(), name: who.1.to_owned() };
        let at_s = (world.now - self.began).num_seconds();
        let (rule, why) = (rule.to_owned(), why.to_owned());
        let mut event = Event { at_s, who, does, is_simulated: false, rule, why };
        event.is_simulated = event.machine().is_some_and(|name| self.made.contains(name));
        self.events.push(event);
    }

    /// What a controller did. Was there something that people follow?
    /// `replicas`: what MachineSets had before.
    pub(super) fn record(
        &mut self,
        world: &World,
        actor: &Actor,
        steps: &[Step],
        replicas: &BTreeMap<String, i32>,
    ) -> bool {
        if steps.is_empty() {
            return false;
        }
        let mut told = false;
        for step in next_steps(steps, &|name| replicas.get(name).copied()) {
            told |= !step.is_bookkeeping;
            // Before the event, which says whether its Machine is simulated.
            self.made.extend(step.does.created_machine().map(str::to_owned));
            if step.does.is_of_rollout() || (self.detail == Detail::Trace && !step.is_bookkeeping) {
                let who = (actor.kind.name(), actor.name.as_ref());
                self.push(world, who, Occurrence::Action(step.does), (&step.rule, &step.reason));
            }
        }
        told
    }

    fn host(&mut self, world: &World, who: (&str, &str), event: HostEvent) {
        self.push(world, who, Occurrence::Host(event), ("", ""));
    }

    /// A stage of a host is over.
    pub(super) fn advanced(&mut self, world: &World, machine: &Machine, stage: BootStage) {
        let event = match stage {
            BootStage::Bootstrap => HostEvent::BootstrapDataReady,
            BootStage::Host => HostEvent::HostReady,
            BootStage::Node | BootStage::Etcd | BootStage::ApiServer => HostEvent::NodeReady,
        };
        // People follow Nodes; what comes before is for those who look for a cause.
        if stage >= BootStage::Node || self.detail == Detail::Trace {
            self.host(world, (MACHINE, name_of(machine)), event);
        }
    }

    pub(super) fn removed(&mut self, world: &World, reference: &ContractRef) {
        if self.detail == Detail::Trace {
            self.host(world, (&reference.kind, &reference.name), HostEvent::Gone);
        }
    }

    pub(super) fn failed(&mut self, world: &World, machine: &str) {
        self.host(world, (MACHINE, machine), HostEvent::NodeFails);
    }

    pub(super) fn updated(&mut self, world: &World, machine: &str) {
        self.host(world, (MACHINE, machine), HostEvent::UpdatedInPlace);
    }

    /// The counters at a moment at which everybody has run.
    pub(super) fn sample(&mut self, world: &World) {
        let at_s = (world.now - self.began).num_seconds();
        for (owner, top) in world.census.tops() {
            // Only changes are kept: a run has many moments and few of them.
            if self.last.get(owner) == Some(&top.counts) {
                continue;
            }
            // The first sample is where the run begins, and no change.
            if self.last.insert(owner.to_owned(), top.counts).is_some() {
                self.acted_at = world.now;
            }
            match self.samples.last_mut() {
                // Of several samples in one second only the last is seen.
                Some(last) if last.at_s == at_s && last.owner == owner => last.counts = top.counts,
                _ => self.samples.push(Sample { at_s, owner: owner.to_owned(), counts: top.counts }),
            }
        }
        if let Some(margin) = world.workload.etcd.margin() {
            // With each sample, also where no counter changed: a member may fail by itself.
            self.margin_min = Some(self.margin_min.map_or(margin, |lowest| lowest.min(margin)));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_has_an_event_as_text_and_as_data() {
        let who = EventObject { kind: MACHINE.to_owned(), name: "m-new1".to_owned() };
        let does = Occurrence::Host(HostEvent::NodeReady);
        let (rule, why) = (String::new(), String::new());
        let event = Event { at_s: 7, who, does, is_simulated: true, rule, why };
        let expected = json!({"atS": 7, "who": "Machine/m-new1", "what": "its Node is ready", "rule": "", "why": "",
            "does": {"verb": "nodeReady"}, "isSimulated": true});
        assert_eq!(json!(event), expected);
    }
}
