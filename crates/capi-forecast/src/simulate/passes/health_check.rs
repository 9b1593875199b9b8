//! A run for a MachineHealthCheck: the Nodes of its Machines, and what it finds on them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Cut, Run};
use capi_rules::observe::{self, NodeFinder};
use capi_rules::plan::machine_health_check::{self as planned, Observed, Remediator};
use capi_types::machine_health_check::MachineHealthCheck;

impl Run<'_> {
    pub(super) fn health_check(&mut self, name: &str) -> Result<(), Cut> {
        let found = self.world.get::<MachineHealthCheck>(name);
        let (Some(object), Some(cluster)) = (found, self.world.cluster()) else { return Ok(()) };
        let Some(object) = self.begin(object, &cluster, None)? else { return Ok(()) };
        let workload = &self.world.workload;
        let by_name = |name: &str| workload.nodes.get(name).cloned();
        let has_id = |id: &str| workload.node_with(id).is_some();
        let nodes = workload.is_reachable().then_some(NodeFinder { by_name: &by_name, has_id: &has_id });
        let seen = observe::machine_health_check(self.world, &object, &cluster, nodes);
        let observed = Observed::new(seen, self.remediator(&object));
        let (outcome, plan) = planned::plan(&observed, self.world.now);
        self.note(&plan);
        self.carry_out(plan.steps)?;
        let Some(before) = self.world.get::<MachineHealthCheck>(name) else { return Ok(()) };
        let mut status = outcome.status;
        if outcome.complete {
            status.observed_generation = before.metadata.generation;
        }
        self.world.put(MachineHealthCheck { status: Some(status), ..Arc::unwrap_or_clone(before) });
        Ok(())
    }

    /// Who remediates outside is not simulated: a request is made, and nothing follows from it.
    fn remediator(&self, check: &MachineHealthCheck) -> Remediator {
        let Some((template, _)) = planned::remediation_kinds(check) else { return Remediator::default() };
        let (gvk, name) = (&template.gvk, &template.key.name);
        let found = self.world.externals.get(&gvk.group, &gvk.kind, name);
        Remediator { template: found.map(|t| t.content().clone()), requests: BTreeMap::new() }
    }
}
