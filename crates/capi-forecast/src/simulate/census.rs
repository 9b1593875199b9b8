//! How many Machines an owner has, and how many of them are available: counted as Machines change, and the lowest number
//! that was ever seen. Shares no rule with planners or statuses: it looks at the Machines alone.

use std::collections::BTreeMap;

use serde::Serialize;

use capi_types::condition::{Conditioned as _, is_true};
use capi_types::key::{controller_of, label as label_of};
use capi_types::machine::Machine;
use capi_types::machine_set::MachineSet;
use capi_types::names::label;

/// Counters of one owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Those in deletion included.
    pub machines: usize,
    /// Available and not in deletion.
    pub available: usize,
    pub up_to_date: usize,
    pub in_deletion: usize,
}

impl Counts {
    fn of(machine: &Machine) -> Self {
        let is_leaving = machine.metadata.deletion_timestamp.is_some();
        // A Machine that is being deleted is still available, but not for long.
        let holds = |type_: &str| usize::from(!is_leaving && is_true(machine.conditions(), type_));
        Self {
            machines: 1,
            available: holds("Available"),
            up_to_date: holds("UpToDate"),
            in_deletion: usize::from(is_leaving),
        }
    }

    fn add(&mut self, other: Self) {
        self.machines += other.machines;
        self.available += other.available;
        self.up_to_date += other.up_to_date;
        self.in_deletion += other.in_deletion;
    }

    fn take(&mut self, other: Self) {
        self.machines = self.machines.saturating_sub(other.machines);
        self.available = self.available.saturating_sub(other.available);
        self.up_to_date = self.up_to_date.saturating_sub(other.up_to_date);
        self.in_deletion = self.in_deletion.saturating_sub(other.in_deletion);
    }
}

/// An owner of Machines that people follow: a MachineDeployment, a control plane, or a MachineSet that stands alone.
#[derive(Clone, Debug, Default)]
pub(super) struct Top {
    pub counts: Counts,
    pub available_min: usize,
    pub machines_max: usize,
}

/// All counters of a world.
#[derive(Clone, Debug, Default)]
pub(super) struct Census {
    /// By `ActorKind/name` of the controller.
    owners: BTreeMap<String, Counts>,
    /// By `ActorKind/name`.
    tops: BTreeMap<String, Top>,
    /// The top of a MachineSet, by its name.
    deployments: BTreeMap<String, String>,
    /// How often a counter changed.
    turns: u64,
}

impl Census {
    pub(super) fn note_set(&mut self, set: &MachineSet) {
        let name = set.metadata.name.clone().unwrap_or_default();
        let owner = controller_of(set).filter(|o| o.kind == "MachineDeployment").map(|o| o.name.as_str());
        // By label as well: a MachineSet may be adopted only later.
        if let Some(deployment) = owner.or_else(|| label_of(set, label::DEPLOYMENT_NAME)) {
            self.deployments.entry(name).or_insert_with(|| format!("MachineDeployment/{deployment}"));
        }
    }

    pub(super) fn note(&mut self, before: Option<&Machine>, after: Option<&Machine>) {
        let old = before.and_then(|m| Some((owner_of(m)?, Counts::of(m))));
        let new = after.and_then(|m| Some((owner_of(m)?, Counts::of(m))));
        // Most writes on a Machine change none of its counters.
        if old == new {
            return;
        }
        self.turns += 1;
        if let Some((owner, counts)) = &old {
            self.owners.entry(owner.clone()).or_default().take(*counts);
            let top = self.top(owner);
            self.tops.entry(top).or_default().counts.take(*counts);
        }
        if let Some((owner, counts)) = &new {
            self.owners.entry(owner.clone()).or_default().add(*counts);
            let top = self.top(owner);
            self.tops.entry(top).or_default().counts.add(*counts);
        }
        // After both: a Machine that moves between two MachineSets must not count twice in between.
        for (owner, _) in [old, new].into_iter().flatten() {
            let top = self.top(&owner);
            let top = self.tops.entry(top).or_default();
            top.machines_max = top.machines_max.max(top.counts.machines);
        }
    }

    fn top(&self, owner: &str) -> String {
        let set = owner.strip_prefix("MachineSet/");
        set.and_then(|set| self.deployments.get(set)).cloned().unwrap_or_else(|| owner.to_owned())
    }

    pub(super) fn turns(&self) -> u64 {
        self.turns
    }

    /// From here on the lowest and highest numbers count.
    pub(super) fn begin(&mut self) {
        for top in self.tops.values_mut() {
            top.available_min = top.counts.available;
            top.machines_max = top.counts.machines;
        }
    }

    /// Everybody has run at this moment: what was missing only between two of them was not missing.
    pub(super) fn settle(&mut self) {
        for top in self.tops.values_mut() {
            top.available_min = top.available_min.min(top.counts.available);
        }
    }

    /// Counters of a MachineSet or control plane.
    pub(super) fn of(&self, kind: &str, name: &str) -> Counts {
        self.owners.get(&format!("{kind}/{name}")).copied().unwrap_or_default()
    }

    pub(super) fn tops(&self) -> impl Iterator<Item = (&str, &Top)> {
        self.tops.iter().map(|(id, top)| (id.as_str(), top))
    }

    /// Every owner with its counters, for those who look for what repeats.
    pub(super) fn owners(&self) -> impl Iterator<Item = (&str, Counts)> {
        self.owners.iter().map(|(id, counts)| (id.as_str(), *counts))
    }
}

fn owner_of(machine: &Machine) -> Option<String> {
    controller_of(machine).map(|owner| format!("{}/{}", owner.kind, owner.name))
}
