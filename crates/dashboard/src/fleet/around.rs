//! Judges rows among what is around them: gathers the facts, keeps the counts of what is below, and judges
//! again what a change or the time may have turned. One change costs one walk up; time costs what is due.
//! Must not know the rules.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

use super::evidence::type_and_reason;
use super::index::{Index, Slot, cluster_key, worst};
use super::judge::{Basis, Context, Cover, Judgement, Rank, Starts, judge};
use super::row::{Kind, Row, RowId};
use super::shown::EvidenceKey;
use super::usual::{Limits, PoolKey, Samples, Step};
use crate::fleet::Verdict;
use capi_types::condition::Status;
use capi_types::names::label;
use k8s_machinery::selector;

/// What one change may turn is settled after so many rounds: parts, owners, control plane, cluster.
const ROUNDS_MAX: usize = 6;

impl Index {
    /// Judges everything that changed since the last time. Returns the clusters in which what is shown turned.
    pub(super) fn settle(&mut self) -> Vec<RowId> {
        let mut clusters = BTreeSet::new();
        // The bound ends rows that mark each other without end. What is left is judged with the
        // next change.
        for _ in 0..ROUNDS_MAX {
            if self.dirty.is_empty() {
                break;
            }
            let mut round: Vec<RowId> = std::mem::take(&mut self.dirty).into_iter().collect();
            // Parts before what they are part of.
            round.sort_by_key(|id| std::cmp::Reverse(self.row(*id).map(|row| row.kind)));
            for id in round {
                // A part before it in this round may have marked it: it is judged right now.
                self.dirty.remove(&id);
                clusters.extend(self.judge_again(id));
            }
        }
        clusters.into_iter().collect()
    }

    /// Judges what is due by then.
    pub(super) fn advance(&mut self, now_s: u32) -> Vec<RowId> {
        let is_first = self.now_s() == 0;
        self.set_now(now_s);
        if is_first {
            // Without a time nothing could be excused or accused until now.
            let all: Vec<RowId> = self.rows().map(|(id, _)| id).collect();
            self.dirty.extend(all);
        }
        while let Some((due_s, id)) = self.due.first().copied().filter(|(due_s, _)| *due_s <= self.now_s()) {
            self.due.remove(&(due_s, id));
            self.dirty.insert(id);
        }
        self.settle()
    }

    /// The next moment at which something may turn by itself.
    pub(super) fn next_due_s(&self) -> Option<u32> {
        self.due.first().map(|(due_s, _)| *due_s)
    }

    /// As it was judged last.
    pub(super) fn judgement(&self, id: RowId) -> Option<Judgement> {
        self.slot(id).map(|slot| slot.judged.as_deref().copied().unwrap_or(Judgement::WELL))
    }

    /// It turned between calm and not calm again and again, and has not been quiet since.
    pub(super) fn is_flapping(&self, id: RowId) -> bool {
        self.slot(id).is_some_and(|slot| slot.shown.is_flapping(self.now_s()))
    }

    /// Since when it is judged as it is, whatever is shown; 0: not known.
    pub(super) fn judged_so_s(&self, id: RowId) -> u32 {
        self.slot(id).map_or(0, |slot| slot.shown.judged_s())
    }

    fn judge_now(&self, id: RowId) -> Option<Judgement> {
        let slot = self.slot(id)?;
        Some(judge(&slot.row, &self.context(id, slot)))
    }

    /// Returns the cluster if what is shown of the row turned.
    fn judge_again(&mut self, id: RowId) -> Option<RowId> {
        let (now_s, is_live) = (self.now_s(), self.is_live);
        let mut judgement = self.judge_now(id)?;
        let slot = self.slot_mut(id)?;
        let undated = matches!(judgement.why, Basis::Behind | Basis::Counters);
        if undated && slot.undated_s == 0 {
            // The clock of what has no date begins now, and the judgement depends on it.
            slot.undated_s = now_s;
            judgement = self.judge_now(id)?;
        } else if !undated {
            slot.undated_s = 0;
        }
        let slot = self.slot_mut(id)?;
        let was_s = std::mem::replace(&mut slot.judged_s, now_s);
        slot.judged = (judgement != Judgement::WELL).then(|| Box::new(judgement));
        let (before, was_fresh) = (slot.shown.verdict(), slot.shown.is_new_fault(was_s));
        let shown_due_s = slot.shown.take(&judgement, evidence_key(&slot.row, judgement), now_s, is_live);
        let turned = before != slot.shown.verdict();
        // It may stand before other causes from now on.
        let is_settled = was_fresh && !slot.shown.is_new_fault(now_s);
        // `below` is about what acts or is broken: repeats and waits would keep each other going.
        let effect = if judgement.rank <= Rank::Echo { Verdict::Ok } else { judgement.verdict };
        let was = std::mem::replace(&mut slot.effect, effect);
        let due_s = [judgement.due_s, shown_due_s].into_iter().filter(|s| *s != 0).min().unwrap_or(0);
        // `due` is ordered by moment first, so that the entry is found only by its old moment.
        let old_due_s = std::mem::replace(&mut slot.due_s, due_s);
        let row = slot.row.clone();
        self.due.remove(&(old_due_s, id));
        if due_s != 0 {
            self.due.insert((due_s, id));
        }
        let after = self.slot(id)?.shown.verdict();
        if turned {
            self.count_shown(&row, before, after);
        }
        if was != effect {
            self.count_effect(&row, was, effect, now_s);
            self.mark_above(id, &row);
        }
        self.sample(id, &row);
        if turned || is_settled { self.cluster_of(&row) } else { None }
    }

    /// The row has explained what it explains only since a moment ago.
    pub(super) fn is_fresh(&self, id: RowId) -> bool {
        self.slot(id).is_some_and(|slot| slot.shown.is_fresh(self.now_s()))
    }

    /// Notes that what is above `row` may be judged otherwise.
    pub(super) fn mark_above(&mut self, id: RowId, row: &Row) {
        let mut owner = row.owner.as_ref().and_then(|owner| self.find(row.source, owner.uid));
        // Machine, set, deployment: no chain of owners is longer, and circles end here.
        for _ in 0..3 {
            let Some(above) = owner.filter(|above| *above != id) else { break };
            self.dirty.insert(above);
            owner = self
                .row(above)
                .and_then(|row| row.owner.as_ref().map(|owner| (row.source, owner.uid)))
                .and_then(|(source, uid)| self.find(source, uid));
        }
        self.dirty.extend(self.cluster_of(row).filter(|cluster| *cluster != id));
        if row.condition("HealthCheckSucceeded").is_some() {
            // A check may hold up what it found, or does no longer.
            let checks = self.members(row, Kind::Other).to_vec();
            self.dirty.extend(checks);
        }
        let is_control_plane =
            row.kind == Kind::ControlPlane || row.machine().is_some_and(|m| m.control_plane);
        if is_control_plane {
            // Sets may wait for it.
            let sets = self.members(row, Kind::MachineSet).to_vec();
            self.dirty.extend(sets);
        }
    }

    /// Notes that everything of a cluster may be judged otherwise.
    pub(super) fn mark_members(&mut self, row: &Row) {
        let kinds = [Kind::ControlPlane, Kind::MachineDeployment, Kind::MachineSet, Kind::Machine];
        let all: Vec<RowId> = kinds.iter().flat_map(|kind| self.members(row, *kind)).copied().collect();
        self.dirty.extend(all);
    }

    fn context(&self, id: RowId, slot: &Slot) -> Context {
        let row = &slot.row;
        let cluster = self.cluster_of(row).and_then(|id| self.row(id));
        let true_since = |type_: &str| {
            let c = cluster.and_then(|cluster| cluster.condition(type_));
            c.filter(|c| c.status == Status::True).map_or(0, |c| c.since_s)
        };
        let facts = cluster.and_then(|cluster| cluster.cluster_facts());
        let (below, below_s) = self.below(id, row);
        let cover = self.cover(row);
        Context {
            now_s: self.now_s(),
            has_contact: cluster
                .and_then(|cluster| cluster.condition("RemoteConnectionProbe"))
                .is_none_or(|c| c.status != Status::False),
            is_initialized: facts.is_none_or(|facts| facts.control_plane_initialized),
            initialized_s: true_since("ControlPlaneInitialized"),
            infrastructure_s: true_since("InfrastructureReady"),
            is_provisioned: facts.is_none_or(|facts| facts.infrastructure_provisioned),
            below,
            below_s,
            control_plane: self.control_plane(row),
            lacks_control_plane: self.lacks_control_plane(row),
            renews_certificates: self.renews_certificates(row),
            is_held: self.is_held(row),
            undated_s: slot.undated_s,
            written_s: self.written_s(row.source, row.kind),
            cover,
            is_waited_for: self.is_waited_for(row),
            limits: self.limits(row, cover),
        }
    }

    /// Of a MachineHealthCheck that allows nothing: is there a Machine that it found unhealthy? It may deny what nothing asks for.
    fn is_waited_for(&self, check: &Row) -> bool {
        let Some(facts) = check.health_check() else { return false };
        let is_false = |row: &Row, type_| row.condition(type_).is_some_and(|c| c.status == Status::False);
        if !is_false(check, "RemediationAllowed") {
            return false;
        }
        let machines = self.members(check, Kind::Machine).iter().filter_map(|id| self.row(*id));
        let mut unhealthy = machines.filter(|row| is_false(row, "HealthCheckSucceeded"));
        unhealthy.any(|row| selector::matches(&facts.selector, Some(&labels(row))))
    }

    fn renews_certificates(&self, row: &Row) -> bool {
        let has_an_end = row.machine().is_some_and(|machine| machine.certificates_end_s != 0);
        let owner = row.owner.as_ref().filter(|_| has_an_end);
        let owner = owner.and_then(|owner| self.find(row.source, owner.uid)).and_then(|id| self.row(id));
        // One that is paused replaces nothing.
        let owner = owner.filter(|owner| !owner.paused);
        owner.and_then(|owner| owner.replica_facts()).is_some_and(|facts| facts.renews_certificates)
    }

    /// The worst of what acts or is broken below, and when that last changed.
    fn below(&self, id: RowId, row: &Row) -> (Verdict, u32) {
        if row.kind == Kind::Cluster {
            return self
                .members_of
                .get(&cluster_key(row))
                .map_or((Verdict::Ok, 0), |m| (worst(&m.effects), m.below_s));
        }
        let Some(owned) = self.owned.get(&(row.source, row.uid)) else { return (Verdict::Ok, 0) };
        let mut found = (worst(&owned.effects), owned.below_s);
        if row.kind == Kind::MachineDeployment {
            for (set, row) in self.children(id).filter_map(|set| Some((set, self.row(set)?))) {
                let (verdict, at_s) = self.below(set, row);
                found = (found.0.max(verdict), found.1.max(at_s));
            }
        }
        found
    }

    fn control_plane(&self, row: &Row) -> Verdict {
        if row.kind != Kind::MachineSet {
            return Verdict::Unknown;
        }
        let Some((id, plane)) =
            self.members(row, Kind::ControlPlane).first().and_then(|id| Some((*id, self.row(*id)?)))
        else {
            return Verdict::Unknown;
        };
        let moves = plane.condition("RollingOut").is_some_and(|c| c.status == Status::True)
            || plane.replica_facts().is_some_and(|f| f.versions.iter().any(|v| v.version != plane.version));
        let own = if moves { Verdict::Progressing } else { Verdict::Ok };
        own.max(self.last_own_verdict(id)).max(self.below(id, plane).0)
    }

    /// Does a Cluster name a control plane that is not among its rows?
    fn lacks_control_plane(&self, row: &Row) -> bool {
        let named = row.cluster_facts().and_then(|facts| facts.control_plane_ref.as_ref());
        let Some(named) = named else { return false };
        // A reference keeps no name where it is that of the object that refers.
        let name = named.name.as_deref().unwrap_or(&row.name);
        let is_it =
            |plane: &Arc<Row>| *plane.name == *name && plane.is_of(&named.kind.group, &named.kind.kind);
        !self.members(row, Kind::ControlPlane).iter().filter_map(|id| self.row(*id)).any(is_it)
    }

    /// Does a person hold back the rollout that the row belongs to?
    pub(super) fn is_held(&self, row: &Row) -> bool {
        match row.kind {
            Kind::Cluster => {
                let all = self.members(row, Kind::MachineDeployment).iter().filter_map(|id| self.row(*id));
                all.into_iter().any(|deployment| self.holds(deployment))
            }
            Kind::MachineDeployment => self.holds(row),
            Kind::MachineSet => self.above(row).is_some_and(|deployment| self.holds(deployment)),
            Kind::Machine => {
                let deployment = self.above(row).and_then(|set| self.above(set));
                deployment.is_some_and(|deployment| self.holds(deployment))
            }
            _ => false,
        }
    }

    /// Its owner.
    fn above(&self, row: &Row) -> Option<&Row> {
        let owner = self.find(row.source, row.owner.as_ref()?.uid)?;
        self.row(owner).map(Arc::as_ref)
    }

    fn holds(&self, deployment: &Row) -> bool {
        deployment.kind == Kind::MachineDeployment
            && (deployment.paused
                || deployment.replica_facts().is_some_and(|f| {
                    f.on_delete || f.rollout_after_s.is_some_and(|after_s| after_s > self.now_s())
                }))
    }

    /// What the MachineHealthChecks of its cluster say of a Machine that is not well. Costs nothing without any.
    pub(super) fn cover(&self, row: &Row) -> Cover {
        let mut cover = Cover::default();
        let is_well = ["Available", "HealthCheckSucceeded"]
            .iter()
            .all(|type_| row.condition(type_).is_none_or(|c| c.status == Status::True));
        if row.kind != Kind::Machine || is_well {
            return cover;
        }
        let is_evaluated = self.is_health_evaluated(row);
        // Made with the first check that is met: without one a Machine costs nothing here.
        let mut known = None;
        for check in self.members(row, Kind::Other).iter().filter_map(|id| self.row(*id)) {
            let Some(facts) = check.health_check() else { continue };
            if selector::matches(&facts.selector, Some(known.get_or_insert_with(|| labels(row)))) {
                cover.add(row, check, is_evaluated);
            }
        }
        if row.machine().is_some_and(|machine| machine.node.is_some()) {
            // Upstream looks at the startup time only while there is no Node.
            cover.startup_s = 0;
        }
        cover
    }

    /// Do checks look at the conditions of a Machine, and of its Node? Not before its cluster is up, but for the Machines
    /// that bring it up.
    /// Source: Cluster API `core/reconcilers/machinehealthcheck/machinehealthcheck_targets.go` `needsRemediation`, v1.14.2.
    fn is_health_evaluated(&self, row: &Row) -> bool {
        let cluster = self.cluster_of(row).and_then(|id| self.row(id));
        let Some(facts) = cluster.and_then(|cluster| cluster.cluster_facts()) else { return true };
        let is_control_plane = row.machine().is_some_and(|machine| machine.control_plane);
        facts.infrastructure_provisioned && (is_control_plane || facts.control_plane_initialized)
    }

    /// Limits of the steps of a Machine, from the first group with enough samples: its owner's, its cluster's.
    pub(super) fn limits(&self, row: &Row, cover: Cover) -> [Option<Limits>; 4] {
        let Some(machine) = row.machine() else { return [None; 4] };
        // A Machine that is up has no step under way.
        if row.condition("Available").is_some_and(|c| c.status == Status::True) {
            return [None; 4];
        }
        let kind = machine.infrastructure_ref.as_ref().map_or("", |r| r.kind.kind.as_ref());
        let prior_s = self.usual.prior_s(row.source, kind, machine.control_plane);
        let owner = row.owner.as_ref().and_then(|o| self.owned.get(&(row.source, o.uid)));
        let siblings = owner.and_then(|owned| owned.samples.as_deref());
        let cluster = self.members_of.get(&cluster_key(row));
        let others = cluster.and_then(|m| m.samples[usize::from(machine.control_plane)].as_deref());
        let mut limits = Step::ALL.map(|step| {
            let groups = [siblings, others];
            let known = groups.into_iter().flatten().map(|group| &group[step as usize]);
            // Siblings before the cluster, but only with enough samples to judge by.
            let known = known.clone().find(|s| s.count() >= 3).or_else(|| known.clone().next());
            // A time without samples is assumed for the whole way only, not for its steps.
            match (known, step) {
                (Some(samples), _) if samples.count() >= 3 => Some(samples.limits(prior_s)),
                (Some(samples), Step::Total) => Some(samples.limits(prior_s)),
                (None, Step::Total) => Some(Samples::default().limits(prior_s)),
                _ => None,
            }
        });
        let [_, _, node, total] = limits;
        limits[Step::Node as usize] = cover.node_limits(node, total);
        limits
    }

    /// Learns from a Machine that is ready for the first time.
    fn sample(&mut self, id: RowId, row: &Arc<Row>) {
        let Some(machine) = row.machine() else { return };
        // The older summary says nothing of the Node.
        let ready = if row.legacy { "NodeHealthy" } else { "Ready" };
        let Some(ready) = row.condition(ready).filter(|c| c.status == Status::True) else { return };
        let context = match self.slot(id) {
            Some(slot) if !slot.is_sampled && !row.is_deleting() => self.context(id, slot),
            _ => return,
        };
        if let Some(slot) = self.slot_mut(id) {
            slot.is_sampled = true;
        }
        // The first Machine brings the control plane up: it did not wait for that.
        let is_first = machine.control_plane && row.created_s <= context.initialized_s;
        let starts =
            Starts::of(row, context.infrastructure_s, if is_first { 0 } else { context.initialized_s });
        if row.was_paused_before(ready.since_s) {
            return;
        }
        let Some(durations) = starts.durations(ready.since_s) else { return };
        let kind = machine.infrastructure_ref.as_ref().map_or("", |r| r.kind.kind.as_ref());
        let prior_s = self.usual.prior_s(row.source, kind, machine.control_plane);
        if self.is_live {
            // Each start would otherwise add all Machines that are ready once more to what is kept.
            self.usual.add(row.source, kind, machine.control_plane, durations[Step::Total as usize]);
            if let Some(pool) = pool_key(row) {
                self.usual.add_to_pool(pool, kind, durations, prior_s);
            }
        }
        let owned = row.owner.as_ref().and_then(|o| self.owned.get_mut(&(row.source, o.uid)));
        let siblings = owned.map(|owned| owned.samples.get_or_insert_default());
        let members = self.members_of.get_mut(&cluster_key(row));
        let others = members.map(|m| m.samples[usize::from(machine.control_plane)].get_or_insert_default());
        for group in [siblings, others].into_iter().flatten() {
            for (samples, duration_s) in group.iter_mut().zip(durations) {
                samples.add(duration_s, prior_s);
            }
        }
    }
}

fn labels(row: &Row) -> BTreeMap<String, String> {
    row.labels.0.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

/// The pool of a Machine: its MachineDeployment, else what owns it.
fn pool_key(row: &Row) -> Option<PoolKey> {
    let deployment = row.labels.0.iter().find(|(key, _)| key.as_ref() == label::DEPLOYMENT_NAME);
    let owner = row.owner.as_ref().map(|owner| owner.name.as_ref());
    let pool = deployment.map(|(_, name)| name.as_ref()).or(owner)?.into();
    let (source, _, cluster) = cluster_key(row);
    Some((source, row.namespace.as_ref().into(), cluster.as_ref().into(), pool))
}

/// Equal for judgements that rest on a condition of the same type.
fn evidence_key(row: &Row, judgement: Judgement) -> EvidenceKey {
    let mut hasher = rustc_hash::FxHasher::default();
    type_and_reason(row, judgement.why).0.hash(&mut hasher);
    EvidenceKey::try_from(hasher.finish() >> 32).unwrap_or_default()
}
