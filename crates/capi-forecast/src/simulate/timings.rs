//! How long the steps of Machines take, by pool and by kind of infrastructure, and what overrules that. Must not know when a step
//! begins, nor what was learnt from.

use std::collections::BTreeMap;

use super::timing::{Samples, Span, Timing};
use capi_rules::observe::namespace;
use capi_types::key::ObjectKey;
use capi_types::machine::Machine;

/// The Cluster of a Machine: names of pools are those of one Cluster.
pub(super) fn cluster_of(machine: &Machine) -> ObjectKey {
    ObjectKey::new(namespace(machine), &machine.spec.cluster_name)
}

/// How long the steps of each pool take.
#[derive(Clone, Debug, Default)]
pub struct Timings {
    /// By Cluster and the name of the MachineDeployment, control plane or MachineSet in it.
    pub pools: BTreeMap<(ObjectKey, String), Timing>,
    /// By kind of infrastructure machine; what is usual when it is not here.
    pub kinds: BTreeMap<String, Timing>,
    overruled: Vec<(fn(&mut Timing) -> &mut Span, Span)>,
}

impl Timings {
    /// Of a kind of infrastructure machine.
    pub fn usual(&self, kind: &str) -> Timing {
        let mut timing = self.kinds.get(kind).copied().unwrap_or_else(|| Timing::usual(kind));
        self.apply(&mut timing);
        timing
    }

    /// Every step of every Machine at once.
    pub fn none() -> Self {
        let mut none = Self::default();
        let Timing { bootstrap, infrastructure, node, drain, removal, update, .. } = Timing::none();
        none.overrule(|t| &mut t.bootstrap, bootstrap);
        none.overrule(|t| &mut t.infrastructure, infrastructure);
        none.overrule(|t| &mut t.node, node);
        none.overrule(|t| &mut t.drain, drain);
        none.overrule(|t| &mut t.removal, removal);
        none.overrule(|t| &mut t.update, update);
        none
    }

    /// A step takes this long, whatever is known of it.
    pub fn overrule(&mut self, step: fn(&mut Timing) -> &mut Span, span: Span) {
        self.overruled.push((step, span.of_samples(Samples::Given)));
    }

    fn apply(&self, timing: &mut Timing) {
        self.overruled.iter().for_each(|(step, span)| *step(timing) = *span);
    }

    pub(super) fn of(&self, machine: &Machine, pool: &str) -> Timing {
        let kind = &machine.spec.infrastructure_ref.kind;
        let Some(mut timing) = self.pools.get(&(cluster_of(machine), pool.to_owned())).copied() else {
            return self.usual(kind);
        };
        self.apply(&mut timing);
        timing
    }
}
