//! The Machine controller: gathers providers, Node, pods and owners, performs the plan, writes the
//! status. Must not decide anything itself.
//! Source: cluster-api `core/reconcilers/machine`, v1.14.0.

mod deletion;
mod observe;

use std::sync::Arc;

use async_trait::async_trait;

pub use self::observe::probe;
use super::external::{Reader, owners, referring};
use super::pause::{self, Pause};
use super::{Context, apply, cluster_turned, keys_of, log_blockers, status as status_write};
use crate::api::cluster::Cluster;
use crate::api::key::{ObjectKey, ObjectRef, cluster_label};
use crate::api::machine::Machine;
use crate::api::names::{CORE_GROUP, finalizer, label};
use crate::api::reference::ContractRef;
use crate::client::Cache;
use crate::engine::{Controller, Outcome, ReconcileError, Trigger};
use crate::plan::ownership::has_finalizer;
use crate::plan::{Plan, machine as planned};
use crate::status::machine::{self as judged, Observed};
use crate::time::Timestamp;
use crate::workload::Announcement;

pub struct Machines {
    context: Context,
}

impl Machines {
    #[must_use]
    pub fn new(context: Context) -> Self {
        Self { context }
    }

    async fn reconcile_live(
        &self,
        machine: &Machine,
        cluster: &Arc<Cluster>,
    ) -> Result<Outcome, ReconcileError> {
        let context = &self.context;
        let mut observed = self.observe(machine, cluster).await;
        let plan = planned::plan(&observed, self.now());
        let about = ObjectRef::of(machine);
        log_blockers(&about, &plan.blockers);
        let applied = apply::apply(context, &about, &plan.steps).await;
        if let Some(latest) = applied.latest(&about) {
            observed.machine = latest;
        }
        let mut next = outcome(&plan);
        let mut failure = applied.failure.map(|failure| failure.error);
        if observed.is_deleting() {
            let left = self.leave(&mut observed).await;
            next = next.and(left.next);
            failure = failure.or(left.failure);
        }
        self.report(&observed, failure.is_none()).await?;
        failure.map_or(Ok(next), Err)
    }

    /// Writes the status. A run that did not end well has not observed its generation.
    async fn report(&self, observed: &Observed, ended_well: bool) -> Result<(), ReconcileError> {
        let before = observed.machine.clone();
        let mut status = judged::status(observed, self.now());
        if !ended_well {
            status.observed_generation = before.status.as_ref().and_then(|s| s.observed_generation);
        }
        let after = Machine { status: Some(status), ..before.clone() };
        // Of a MachineDeployment's workers, nobody else writes `UpToDate`.
        let up_to_date = observed.deployment.is_some().then_some("UpToDate");
        let owned: Vec<&str> = judged::OWNED.into_iter().chain(up_to_date).collect();
        status_write::write(&self.context, &before, &after, &owned).await?;
        Ok(())
    }

    fn now(&self) -> Timestamp {
        self.context.clock.now()
    }
}

/// Infrastructure and bootstrap.
fn references(machine: &Machine) -> [Option<&ContractRef>; 2] {
    [Some(&machine.spec.infrastructure_ref), machine.spec.bootstrap.config_ref.as_ref()]
}

fn of_cluster(machines: &Cache<Machine>, cluster: &ObjectKey) -> Vec<Arc<Machine>> {
    machines.labelled(&cluster.namespace, label::CLUSTER_NAME, &cluster.name)
}

/// The Machines that look different after a change in a workload cluster.
/// Source: `nodeToMachine`, `machine_controller.go`, v1.14.0.
fn concerned(machines: &Cache<Machine>, announcement: &Announcement) -> Vec<Arc<Machine>> {
    match announcement {
        Announcement::Cluster(cluster) => of_cluster(machines, cluster),
        Announcement::Node { cluster, node } => {
            let mut found = of_cluster(machines, cluster);
            found.retain(|machine| {
                let has_id = node.provider_id.is_some() && machine.spec.provider_id == node.provider_id;
                let recorded = machine.status.as_ref().and_then(|status| status.node_ref.as_ref());
                has_id || recorded.is_some_and(|recorded| recorded.name == node.name)
            });
            found
        }
        Announcement::Missed => machines.list(),
    }
}

/// When a plan wants to be looked at again.
fn outcome(plan: &Plan) -> Outcome {
    let recheck = plan.recheck.map_or(Outcome::Done, Outcome::RequeueAfter);
    plan.hold.map_or(recheck, Outcome::NotBefore)
}

#[async_trait]
impl Controller for Machines {
    fn name(&self) -> &'static str {
        "machine"
    }

    fn triggers(&self) -> Vec<Trigger> {
        let caches = &self.context.caches;
        let (by_cluster, by_announcement) = (caches.machines.clone(), caches.machines.clone());
        let (of_deployment, referrers) = (caches.machines.clone(), caches.machines.clone());
        vec![
            Trigger::own(&caches.machines),
            caches.externals.trigger(Reader::Machine, move |turned| match turned.object() {
                Some(_) => owners(turned, CORE_GROUP, "Machine"),
                None => referring(&referrers, turned, references),
            }),
            Trigger::on(&caches.clusters, move |old, new| match cluster_turned(old, new) {
                Some(key) => keys_of(&of_cluster(&by_cluster, &key)),
                None => Vec::new(),
            }),
            // A MachineSet follows its MachineDeployment, and Machines are compared with both.
            Trigger::on(&caches.machine_deployments, move |old, new| {
                let Some(deployment) =
                    new.filter(|n| old.is_none_or(|o| o.metadata.generation != n.metadata.generation))
                else {
                    return Vec::new();
                };
                let key = ObjectKey::of(deployment);
                let found = of_deployment.labelled(&key.namespace, label::DEPLOYMENT_NAME, &key.name);
                found.iter().map(|m| ObjectKey::of(m.as_ref())).collect()
            }),
            Trigger::announced(self.context.workload.changes(), Announcement::Missed, move |announcement| {
                keys_of(&concerned(&by_announcement, announcement))
            }),
        ]
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let caches = &self.context.caches;
        let Some(machine) = caches.machines.get(key) else { return Ok(Outcome::Done) };
        let cluster_key = ObjectKey::new(&key.namespace, &machine.spec.cluster_name);
        let Some(cluster): Option<Arc<Cluster>> = caches.clusters.get(&cluster_key) else {
            // Its arrival wakes this Machine by label; one without the label is tried again.
            return Ok(match cluster_label(machine.as_ref()) {
                Some(_) => Outcome::Done,
                None => Outcome::RequeueAfter(super::MISSING_RETRY),
            });
        };
        if machine.metadata.deletion_timestamp.is_none()
            && !has_finalizer(machine.as_ref(), finalizer::MACHINE)
        {
            let observed = self.observe(&machine, &cluster).await;
            let plan = planned::plan(&observed, self.now());
            let about = ObjectRef::of(machine.as_ref());
            apply::apply(&self.context, &about, &plan.steps).await.into_result()?;
            return Ok(Outcome::Done);
        }
        if pause::check(&self.context, machine.as_ref(), Some(&cluster)).await? == Pause::Stop {
            return Ok(Outcome::Done);
        }
        self.reconcile_live(&machine, &cluster).await
    }

    fn concurrency(&self) -> usize {
        100
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::workload::NodeIdentity;

    fn machine(cluster: &str, name: &str, provider_id: Option<&str>, node: Option<&str>) -> Machine {
        serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"name": name, "namespace": "ns", "labels": {label::CLUSTER_NAME: cluster}},
            "spec": {"clusterName": cluster, "providerID": provider_id, "bootstrap": {},
                     "infrastructureRef": {"apiGroup": "g", "kind": "K", "name": name}},
            "status": {"nodeRef": node.map(|name| json!({"name": name}))},
        }))
        .expect("a Machine")
    }

    #[test]
    fn a_node_concerns_its_own_machine_and_no_other() {
        let machines = Cache::new();
        for (cluster, name, provider_id, node) in [
            ("c", "by-id", Some("p://1"), None),
            ("c", "by-name", Some("p://2"), Some("n1")),
            ("c", "without", None, None),
            ("other", "elsewhere", Some("p://1"), Some("n1")),
        ] {
            machines.upsert(machine(cluster, name, provider_id, node));
        }
        let names = |announcement: &Announcement| -> Vec<String> {
            let found = concerned(&machines, announcement);
            found.iter().filter_map(|machine| machine.metadata.name.clone()).collect()
        };
        let cluster = ObjectKey::new("ns", "c");
        let node = |name: &str, id: Option<&str>| Announcement::Node {
            cluster: cluster.clone(),
            node: NodeIdentity {
                name: name.to_owned(),
                provider_id: id.map(str::to_owned),
                is_control_plane: false,
            },
        };
        assert_eq!(names(&node("n1", Some("p://1"))), ["by-id", "by-name"]);
        assert_eq!(names(&node("n9", None)), Vec::<String>::new(), "two that have no ID are not the same");
        assert_eq!(names(&Announcement::Cluster(cluster.clone())).len(), 3);
        assert_eq!(names(&Announcement::Missed).len(), 4);
    }
}
