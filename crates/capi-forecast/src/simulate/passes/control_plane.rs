//! A run for a KubeadmControlPlane: the workload cluster as it is, the decision, and what it found on the Machines.

use std::sync::Arc;

use super::{Cut, Run};
use capi_rules::observe;
use capi_rules::plan::control_plane::{Decision, decide, in_place};
use capi_rules::status::control_plane::{self as judged, inspected_machine};
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::key::refers_to;
use capi_types::machine::Machine;
use capi_types::names::{CORE_GROUP, finalizer};

impl Run<'_> {
    pub(super) fn control_plane(&mut self, name: &str) -> Result<(), Cut> {
        let found = self.world.get::<KubeadmControlPlane>(name);
        let (Some(object), Some(cluster)) = (found, self.world.cluster()) else { return Ok(()) };
        let owners = object.metadata.owner_references.iter().flatten();
        // Upstream stops without an error until the Cluster has made itself an owner.
        if !owners.into_iter().any(|owner| refers_to(owner, CORE_GROUP, "Cluster")) {
            return Ok(());
        }
        let guard = Some(finalizer::KUBEADM_CONTROL_PLANE);
        let Some(object) = self.begin(object, &cluster, guard)? else { return Ok(()) };
        let mut observed = observe::control_plane(self.world, &object, &cluster);
        observed.name_suffix = self.world.names_of(name, 1).concat();
        if let Some(keys) = self.world.keys.get(name) {
            observed.certificates.clone_from(&keys.certificates);
            observed.kubeconfig.clone_from(&keys.kubeconfig);
        }
        // Without an endpoint or a Machine there is no API server that could be read.
        if observed.endpoint().is_some() && !observed.machines.is_empty() {
            observed.workload = self.world.workload.reading(&observed.machines, observed.etcd_is_managed());
        }
        observed.in_place = self.world.updates.nothing_asked();
        // Answers are looked up only where the plan depends on one, as in the engine.
        if let Some(machine) = in_place::asks(&observed, self.world.now) {
            let key = self.world.named(&machine);
            observed.in_place = self.world.updates.answers("Machine", [key]);
        }
        let decision = decide(observed, self.world.now);
        self.settle_control_plane(decision)
    }

    /// Conditions of Machines come before anything else, as they justify it.
    fn settle_control_plane(&mut self, mut decision: Decision) -> Result<(), Cut> {
        let mut plan = std::mem::take(&mut decision.plan);
        let release = plan.take_release();
        self.note(&plan);
        for (name, conditions) in decision.pass.inspection.iter().flat_map(|i| &i.machines) {
            if let Some(before) = self.world.get::<Machine>(name) {
                self.world.put(inspected_machine(&before, conditions));
            }
        }
        self.carry_out(plan.steps)?;
        let name = decision.observed.control_plane.metadata.name.as_deref().unwrap_or_default();
        let Some(before) = self.world.get::<KubeadmControlPlane>(name) else { return Ok(()) };
        let status = judged::status(&decision.observed, &decision.pass, self.world.now);
        self.world.put(KubeadmControlPlane { status: Some(status), ..Arc::unwrap_or_clone(before) });
        self.carry_out(release)?;
        Ok(())
    }
}
