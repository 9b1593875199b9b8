//! The Machine controller: gathers providers, Node, pods and owners, performs the plan, writes the
//! status. Must not decide anything itself.
//! Source: cluster-api `core/reconcilers/machine`, v1.14.0.

use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Node;

use super::pause::{self, Pause};
use super::{Context, apply, cluster_turned, status as status_write};
use crate::api::cluster::Cluster;
use crate::api::key::{ObjectKey, ObjectRef, cluster_label, controller_of, label as label_of};
use crate::api::machine::Machine;
use crate::api::machine_deployment::MachineDeployment;
use crate::api::machine_set::MachineSet;
use crate::api::names::{CORE_GROUP, finalizer, label};
use crate::engine::{Controller, Outcome, ReconcileError, Trigger};
use crate::plan::machine as planned;
use crate::plan::ownership::has_finalizer;
use crate::status::machine::deletion::{Stage, stage};
use crate::status::machine::{self as judged, Failed, NodeReading, Observed, PodsReading, Probe};
use crate::status::machines::is_control_plane;
use crate::time::Timestamp;
use crate::workload::{Connection, PodScope, WorkloadError};

pub struct Machines {
    context: Context,
}

impl Machines {
    #[must_use]
    pub fn new(context: Context) -> Self {
        Self { context }
    }

    async fn reconcile_live(&self, machine: &Machine, cluster: &Cluster) -> Result<Outcome, ReconcileError> {
        let context = &self.context;
        let mut observed = self.observe(machine, cluster).await;
        let plan = planned::plan(&observed, context.clock.now());
        for blocker in &plan.blockers {
            tracing::debug!(rule = blocker.reason.rule, "{}: {blocker}", ObjectRef::of(machine));
        }
        let applied = apply::apply(context, &plan.steps).await;
        if let Some(latest) = applied.latest(&ObjectRef::of(machine)) {
            observed.machine = latest;
        }
        observed.failed = applied.failure.as_ref().and_then(|failure| failed(failure.rule));
        observed.evictions.clone_from(&applied.evictions);
        let before = observed.machine.clone();
        let mut status = judged::status(&observed, context.clock.now());
        if applied.failure.is_none() && judged::is_complete(&observed, context.clock.now()) {
            status.observed_generation = before.metadata.generation;
        }
        let after = Machine { status: Some(status), ..before.clone() };
        // Of a MachineDeployment's workers, nobody else writes `UpToDate`.
        let up_to_date = observed.deployment.is_some().then_some("UpToDate");
        let owned: Vec<&str> = judged::OWNED.into_iter().chain(up_to_date).collect();
        status_write::write(context, &before, &after, &owned).await?;
        applied.into_result()?;
        Ok(plan.recheck.map_or(Outcome::Done, Outcome::RequeueAfter))
    }

    async fn observe(&self, machine: &Machine, cluster: &Cluster) -> Observed {
        let caches = &self.context.caches;
        let namespace = machine.metadata.namespace.as_deref().unwrap_or_default();
        let cluster_key = ObjectKey::of(cluster);
        let mut observed = Observed {
            machine: machine.clone(),
            cluster: cluster.clone(),
            bootstrap: caches.external(namespace, machine.spec.bootstrap.config_ref.as_ref()),
            infrastructure: caches.external(namespace, Some(&machine.spec.infrastructure_ref)),
            control_plane: caches.external(namespace, cluster.spec.control_plane_ref.as_ref()),
            control_plane_machines_left: self.control_plane_machines_left(&cluster_key),
            probe: probe(&self.context.workload.connection(&cluster_key)),
            deployment: self.deployment_of(machine, namespace),
            ..Observed::default()
        };
        observed.node = self.node(&observed, &cluster_key).await;
        if let (Stage::Drain(None), Some(node)) = (stage(&observed, self.now()), observed.node_name()) {
            observed.pods =
                match self.context.workload.pods(&cluster_key, &PodScope::OnNode(node.to_owned())).await {
                    Ok(pods) => PodsReading::Known(pods),
                    Err(error) => PodsReading::Failed(error.to_string()),
                };
        }
        observed
    }

    fn now(&self) -> Timestamp {
        self.context.clock.now()
    }

    fn control_plane_machines_left(&self, cluster: &ObjectKey) -> usize {
        let machines = self.context.caches.machines_of(cluster);
        machines.iter().filter(|m| is_control_plane(m) && m.metadata.deletion_timestamp.is_none()).count()
    }

    fn deployment_of(&self, machine: &Machine, namespace: &str) -> Option<(MachineSet, MachineDeployment)> {
        let caches = &self.context.caches;
        let owner = controller_of(machine).filter(|owner| owner.kind == "MachineSet")?;
        let set = caches.machine_sets.get(&ObjectKey::new(namespace, &owner.name))?;
        let deployment = label_of(set.as_ref(), label::DEPLOYMENT_NAME)?;
        let deployment = caches.machine_deployments.get(&ObjectKey::new(namespace, deployment))?;
        Some(((*set).clone(), (*deployment).clone()))
    }

    /// The Node with the Machine's provider ID, or with its infrastructure's while the Machine has none.
    async fn node(&self, observed: &Observed, cluster: &ObjectKey) -> NodeReading {
        let own = observed.machine.spec.provider_id.as_deref().filter(|id| !id.is_empty());
        let offered = || observed.infrastructure.found().and_then(|i| i.text("/spec/providerID"));
        let id = if observed.is_deleting() { own.or_else(offered) } else { own };
        let Some(id) = id else { return NodeReading::NotAsked };
        let nodes = match self.context.workload.nodes(cluster).await {
            Ok(nodes) => nodes,
            Err(WorkloadError::NotConnected) => return NodeReading::NotConnected,
            Err(error) => return NodeReading::Failed(error.to_string()),
        };
        let has_id = |node: &Node| node.spec.as_ref().and_then(|s| s.provider_id.as_deref()) == Some(id);
        let mut found: Vec<Node> = nodes.into_iter().filter(has_id).collect();
        match (found.pop(), found.len()) {
            (None, _) => NodeReading::NotFound,
            (Some(node), 0) => NodeReading::Found(Box::new(node)),
            (Some(_), more) => NodeReading::Failed(format!("{} Nodes have provider ID {id}", more + 1)),
        }
    }
}

/// Which write of a deletion a rule stands for.
fn failed(rule: &str) -> Option<Failed> {
    match rule {
        planned::DRAIN => Some(Failed::Drain),
        planned::DELETE_INFRASTRUCTURE => Some(Failed::DeleteInfrastructure),
        planned::DELETE_BOOTSTRAP => Some(Failed::DeleteBootstrap),
        planned::DELETE_NODE => Some(Failed::DeleteNode),
        _ => None,
    }
}

/// How a connection is, in the words of `status`.
#[must_use]
pub fn probe(connection: &Connection) -> Probe {
    Probe {
        last_success: connection.last_probe_success,
        not_established_yet: connection.not_established_yet(),
        failing: connection.consecutive_failures > 0,
    }
}

#[async_trait]
impl Controller for Machines {
    fn name(&self) -> &'static str {
        "machine"
    }

    fn triggers(&self) -> Vec<Trigger> {
        let caches = &self.context.caches;
        let of_cluster = |machines: crate::client::Cache<Machine>| {
            move |cluster: &ObjectKey| -> Vec<ObjectKey> {
                let found = machines.labelled(&cluster.namespace, label::CLUSTER_NAME, &cluster.name);
                found.iter().map(|m| ObjectKey::of(m.as_ref())).collect()
            }
        };
        let (on_cluster, on_workload) =
            (of_cluster(caches.machines.clone()), of_cluster(caches.machines.clone()));
        let of_deployment = caches.machines.clone();
        vec![
            Trigger::own(&caches.machines),
            Trigger::owned_by(&caches.dev_machines, CORE_GROUP, "Machine"),
            Trigger::owned_by(&caches.kubeadm_configs, CORE_GROUP, "Machine"),
            Trigger::on(&caches.clusters, move |old, new| match cluster_turned(old, new) {
                Some(key) => on_cluster(&key),
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
            Trigger::announced(self.context.workload.changes(), on_workload),
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
            apply::apply(&self.context, &plan.steps).await.into_result()?;
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
