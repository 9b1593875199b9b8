//! What people hear of a run: what was done, why, and the counters after it. Owns the words and what is left out; must not
//! judge anything.

use std::collections::BTreeMap;

use serde::Serialize;

use super::census::Counts;
use super::hosts::HostStage;
use super::passes::Actor;
use super::world::{World, name_of};
use crate::forecast::next_steps;
use capi_rules::plan::Step;
use capi_types::machine::Machine;
use capi_types::reference::ContractRef;
use capstan_base::time::Timestamp;

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

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Seconds since the beginning.
    pub at_s: i64,
    /// `ActorKind/name` of the object whose controller acted; of the Machine whose host did.
    pub who: String,
    pub what: String,
    /// The rule behind it; empty for what hosts do by themselves.
    pub rule: String,
    pub why: String,
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

    fn push(&mut self, world: &World, who: String, what: String, rule: &str, why: String) {
        self.acted_at = world.now;
        if self.detail == Detail::Counters {
            return;
        }
        let at_s = (world.now - self.began).num_seconds();
        self.events.push(Event { at_s, who, what, rule: rule.to_owned(), why });
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
            let is_followed = is_followed(&step.action);
            told |= !step.is_bookkeeping;
            if is_followed || (self.detail == Detail::Trace && !step.is_bookkeeping) {
                let who = format!("{}/{}", actor.kind.name(), actor.name);
                self.push(world, who, step.action, &step.rule, step.reason);
            }
        }
        told
    }

    /// A stage of a host is over.
    pub(super) fn advanced(&mut self, world: &World, machine: &Machine, stage: HostStage) {
        let what = match stage {
            HostStage::Bootstrap => "its bootstrap data is there",
            HostStage::Infrastructure => "its host is there",
            HostStage::Node | HostStage::Up => "its Node is ready",
        };
        if stage >= HostStage::Node || self.detail == Detail::Trace {
            let who = format!("Machine/{}", name_of(machine));
            self.push(world, who, what.to_owned(), "", String::new());
        }
    }

    pub(super) fn removed(&mut self, world: &World, reference: &ContractRef) {
        if self.detail == Detail::Trace {
            let who = format!("{}/{}", reference.kind, reference.name);
            self.push(world, who, "it is gone".to_owned(), "", String::new());
        }
    }

    pub(super) fn failed(&mut self, world: &World, machine: &str) {
        self.push(
            world,
            format!("Machine/{machine}"),
            "its Node stops to report".to_owned(),
            "",
            String::new(),
        );
    }

    pub(super) fn updated(&mut self, world: &World, machine: &str) {
        let what = "it is updated in place".to_owned();
        self.push(world, format!("Machine/{machine}"), what, "", String::new());
    }

    /// The counters at a moment at which everybody has run.
    pub(super) fn sample(&mut self, world: &World) {
        let at_s = (world.now - self.began).num_seconds();
        for (owner, top) in world.census.tops() {
            if self.last.get(owner) == Some(&top.counts) {
                continue;
            }
            if self.last.insert(owner.to_owned(), top.counts).is_some() {
                self.acted_at = world.now;
            }
            match self.samples.last_mut() {
                Some(last) if last.at_s == at_s && last.owner == owner => last.counts = top.counts,
                _ => self.samples.push(Sample { at_s, owner: owner.to_owned(), counts: top.counts }),
            }
        }
        if let Some(margin) = world.workload.margin() {
            self.margin_min = Some(self.margin_min.map_or(margin, |lowest| lowest.min(margin)));
        }
    }
}

/// Machines that come and go, replicas that change, members of etcd: what a rollout is told by.
fn is_followed(action: &str) -> bool {
    const BEGINNINGS: [&str; 7] = [
        "create Machine",
        "delete Machine",
        "scale ",
        "remove etcd member",
        "move etcd leadership",
        "mark Machine",
        "let Machine",
    ];
    let is_in_place = action.starts_with("update Machine") && action.ends_with(" in place");
    is_in_place || BEGINNINGS.iter().any(|beginning| action.starts_with(beginning))
}
