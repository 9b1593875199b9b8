//! A run for a Cluster: its infrastructure, its control plane, and its milestones.

use std::sync::Arc;

use super::{Cut, Run};
use capi_rules::observe;
use capi_rules::plan::cluster as planned;
use capi_rules::status::cluster as judged;
use capi_rules::status::machine::Probe;
use capi_types::cluster::Cluster;
use capi_types::names::finalizer;

impl Run<'_> {
    pub(super) fn cluster(&mut self, name: &str) -> Result<(), Cut> {
        let Some(object) = self.world.get::<Cluster>(name) else { return Ok(()) };
        let before = Arc::clone(&object);
        let Some(object) = self.begin(object, &before, Some(finalizer::CLUSTER))? else {
            return Ok(());
        };
        let is_reachable = self.world.workload.is_reachable();
        let probe = Probe {
            last_success: is_reachable.then_some(self.world.now),
            not_established_yet: !is_reachable,
            failing: false,
        };
        let mut observed = observe::cluster(self.world, &object, probe);
        let mut plan = planned::plan(&observed);
        let release = plan.take_release();
        self.note(&plan);
        self.carry_out(plan.steps)?;
        let Some(latest) = self.world.get::<Cluster>(name) else { return Ok(()) };
        observed.cluster = Arc::unwrap_or_clone(latest);
        let mut status = judged::status(&observed, self.world.now);
        if judged::is_complete(&observed) {
            status.observed_generation = observed.cluster.metadata.generation;
        }
        self.world.put(Cluster { status: Some(status), ..observed.cluster });
        // After the status: the last one is written before the object is let go.
        self.carry_out(release)?;
        Ok(())
    }
}
