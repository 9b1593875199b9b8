//! The MachineHealthCheck controller: reads Nodes, and what remediates outside. Must not decide anything itself.
//! Source: cluster-api `core/reconcilers/machinehealthcheck`, v1.14.2.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::TimeDelta;
use k8s_openapi::api::core::v1::Node;

use super::apply::Applied;
use super::by_cluster::ByCluster;
use super::reconcile::{Ended, Reconcile};
use super::{Context, cluster_key_of, keys_of, status};
use crate::client::errors::chain;
use crate::client::{Cache, read};
use crate::engine::{Outcome, ReconcileError, Trigger};
use crate::workload::nodes::provider_id;
use crate::workload::{Announcement, WorkloadError};
use capi_rules::observe::{self, NodeFinder};
use capi_rules::plan::Plan;
use capi_rules::plan::machine_health_check::{self as planned, Observed, RemediationRequest, Remediator};
use capi_rules::status::contract::reference_to;
use capi_rules::status::machine_health_check as judged;
use capi_types::cluster::Cluster;
use capi_types::condition::{Conditioned as _, find};
use capi_types::key::{Gvk, ObjectKey, ObjectRef};
use capi_types::machine::Machine;
use capi_types::machine_health_check::MachineHealthCheck;
use capstan_base::time::Timestamp;
use k8s_machinery::selector;

/// More than passes between the look at the Nodes and the plan, in which a time can run out.
const UNTIL_PLANNED: TimeDelta = TimeDelta::seconds(1);

pub(super) struct MachineHealthChecks {
    pub context: Context,
}

/// How old what is known of Nodes may be. No Machine is blamed for what a copy says, which may be behind.
#[derive(Clone, Copy)]
enum Age {
    Any,
    Now,
}

/// The Nodes of a workload cluster.
struct Nodes {
    by_name: BTreeMap<String, Arc<Node>>,
    provider_ids: BTreeSet<String>,
}

impl Nodes {
    fn of(listed: Vec<Arc<Node>>) -> Self {
        let provider_ids = listed.iter().filter_map(|node| provider_id(node)).map(str::to_owned).collect();
        let named = |node: Arc<Node>| (node.metadata.name.clone().unwrap_or_default(), node);
        Self { by_name: listed.into_iter().map(named).collect(), provider_ids }
    }
}

#[async_trait]
impl Reconcile for MachineHealthChecks {
    type Object = MachineHealthCheck;
    type Observed = Observed;
    type Judged = judged::Outcome;

    const NAME: &'static str = "machine-health-check";
    const FINALIZER: Option<&'static str> = None;
    const CONCURRENCY: usize = 50;
    /// Source: `core/reconcilers/machinehealthcheck` (`SetupWithManager`).
    const INTERVAL: Duration = Duration::from_secs(15);

    fn context(&self) -> &Context {
        &self.context
    }

    fn objects(&self) -> &Cache<MachineHealthCheck> {
        &self.context.caches.machine_health_checks
    }

    fn triggers(&self) -> Vec<Trigger> {
        triggers(&self.context)
    }

    fn cluster(
        &self,
        object: &Arc<MachineHealthCheck>,
    ) -> Result<Result<Arc<Cluster>, Outcome>, ReconcileError> {
        let key = ObjectKey::of(object.as_ref());
        let named = ObjectKey::new(&key.namespace, &object.spec.cluster_name);
        let missing =
            || ReconcileError::failed(format!("MachineHealthCheck {key}: there is no Cluster {named}"));
        self.context.caches.clusters.get(&named).ok_or_else(missing).map(Ok)
    }

    async fn observe(
        &self,
        object: &Arc<MachineHealthCheck>,
        cluster: &Arc<Cluster>,
    ) -> Result<Option<Observed>, ReconcileError> {
        let outside = self.outside(object).await?;
        let mut observed = self.gathered(object, cluster, self.nodes(cluster, Age::Any).await?.as_ref());
        // A copy that is behind once had healthy Machines
        // deleted: blame needs a list that is read now.
        if judged::blames_nodes(&observed, self.context.clock.now() + UNTIL_PLANNED) {
            observed = self.gathered(object, cluster, self.nodes(cluster, Age::Now).await?.as_ref());
        }
        Ok(Some(Observed::new(observed, outside)))
    }

    fn plan(&self, observed: Observed, now: Timestamp) -> (judged::Outcome, Plan) {
        planned::plan(&observed, now)
    }

    async fn report(
        &self,
        object: &Arc<MachineHealthCheck>,
        outcome: judged::Outcome,
        applied: Applied,
    ) -> Result<Ended, ReconcileError> {
        let about = ObjectRef::of(object.as_ref());
        let before = applied.latest(&about).unwrap_or_else(|| object.as_ref().clone());
        let mut after = MachineHealthCheck { status: Some(outcome.status), ..before.clone() };
        if let (Some(status), true) = (&mut after.status, outcome.complete && applied.failure.is_none()) {
            status.observed_generation = before.metadata.generation;
        }
        status::write(&self.context, &before, &after, &judged::OWNED).await?;
        Ok(Ended::of(applied))
    }
}

impl MachineHealthChecks {
    fn gathered(
        &self,
        check: &MachineHealthCheck,
        cluster: &Cluster,
        nodes: Option<&Nodes>,
    ) -> judged::Observed {
        let by_name = |name: &str| nodes.and_then(|nodes| nodes.by_name.get(name)).cloned();
        let has_id = |id: &str| nodes.is_some_and(|nodes| nodes.provider_ids.contains(id));
        let finder = nodes.map(|_| NodeFinder { by_name: &by_name, has_id: &has_id });
        observe::machine_health_check(&self.context.caches, check, cluster, finder)
    }

    /// `None` without a connection, and while Nodes are not looked at.
    async fn nodes(&self, cluster: &Cluster, age: Age) -> Result<Option<Nodes>, ReconcileError> {
        if !observe::follows_nodes(cluster) {
            return Ok(None);
        }
        let (workload, key) = (&self.context.workload, ObjectKey::of(cluster));
        let listed = match age {
            Age::Any => workload.nodes(&key).await,
            Age::Now => workload.nodes_now(&key).await,
        };
        match listed {
            Ok(nodes) => Ok(Some(Nodes::of(nodes))),
            // Without a connection nothing is known of Nodes, which counts against none of them.
            Err(WorkloadError::NotConnected) => Ok(None),
            Err(error) => Err(ReconcileError::failed(format!("Nodes cannot be read: {error}"))),
        }
    }

    /// Read past the live copies: these kinds promise no contract, and few checks have a template.
    async fn outside(&self, check: &MachineHealthCheck) -> Result<Remediator, ReconcileError> {
        let Some((template, requests)) = planned::remediation_kinds(check) else {
            return Ok(Remediator::default());
        };
        let client = self.context.writer.client();
        let unread = |error: kube::Error| {
            ReconcileError::failed(format!("{template} cannot be read: {}", chain(&error)))
        };
        let found = read::get_value(client, &template).await.map_err(unread)?;
        Ok(Remediator { template: found, requests: self.requests(&requests, &template.key.namespace).await? })
    }

    /// Of a kind that does not exist there are none.
    async fn requests(
        &self,
        gvk: &Gvk,
        namespace: &str,
    ) -> Result<BTreeMap<String, RemediationRequest>, ReconcileError> {
        let listed = match read::list_values(self.context.writer.client(), gvk, namespace, "").await {
            Ok(listed) => listed,
            Err(kube::Error::Api(status)) if status.is_not_found() => Vec::new(),
            Err(error) => {
                let why = format!("{} objects cannot be read: {}", gvk.kind, chain(&error));
                return Err(ReconcileError::failed(why));
            }
        };
        let request = |value: &serde_json::Value| {
            // An item of a list has no kind of its own.
            let object = ObjectRef { gvk: gvk.clone(), ..reference_to(value) };
            let is_leaving = value["metadata"]["deletionTimestamp"].is_string();
            (object.key.name.clone(), RemediationRequest { object, is_leaving })
        };
        Ok(listed.iter().map(request).collect())
    }
}

/// The check itself, what its Cluster's milestones are, its Machines, and their Nodes.
/// Source: `machineToMachineHealthCheck`, `nodeToMachineHealthCheck`, `machineIsChangedPredicate`, v1.14.2.
fn triggers(context: &Context) -> Vec<Trigger> {
    let caches = &context.caches;
    let all = caches.machine_health_checks.clone();
    let by_cluster = ByCluster::new(&all, |check: &MachineHealthCheck| Some(&check.spec.cluster_name));
    let [on_cluster, on_machine, on_news] = std::array::from_fn(|_| by_cluster.clone());
    let by_node = caches.machines_by_node.clone();
    vec![
        Trigger::own(&caches.machine_health_checks),
        Trigger::on(&caches.clusters, move |old, new| {
            let turned = old.map(milestones) != new.map(milestones);
            new.filter(|_| turned).map(|cluster| on_cluster.keys(&ObjectKey::of(cluster))).unwrap_or_default()
        }),
        Trigger::on(&caches.machines, move |old, new| {
            if let (Some(old), Some(new)) = (old, new)
                // Most changes of a Machine are statuses that no check reads.
                && !has_turned(old, new)
            {
                return Vec::new();
            }
            selecting(&on_machine, old, new)
        }),
        Trigger::announced(context.workload.changes(), Announcement::Missed, move |announcement| {
            match announcement {
                Announcement::Cluster(cluster) => on_news.keys(cluster),
                Announcement::Node { cluster, node } => {
                    let found = by_node.recorded(cluster, &node.name);
                    found.iter().flat_map(|machine| selecting(&on_news, None, Some(machine))).collect()
                }
                Announcement::Missed => keys_of(&all.list()),
            }
        }),
    ]
}

/// The checks whose selector matches a Machine as it was or as it is.
fn selecting(
    checks: &ByCluster<MachineHealthCheck>,
    old: Option<&Machine>,
    new: Option<&Machine>,
) -> Vec<ObjectKey> {
    let matching = |machine: &Machine| {
        let mut found = cluster_key_of(machine).map(|cluster| checks.get(&cluster)).unwrap_or_default();
        found.retain(|check| selector::matches(&check.spec.selector, machine.metadata.labels.as_ref()));
        keys_of(&found)
    };
    let mut keys: Vec<ObjectKey> = [old, new].into_iter().flatten().flat_map(matching).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

fn node_of(machine: &Machine) -> Option<&str> {
    Some(machine.status.as_ref()?.node_ref.as_ref()?.name.as_str())
}

/// What a check reads of a Machine.
fn has_turned(old: &Machine, new: &Machine) -> bool {
    node_of(old) != node_of(new)
        || old.metadata.labels != new.metadata.labels
        || old.metadata.annotations != new.metadata.annotations
        || old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        || old.conditions() != new.conditions()
}

/// What a check reads of its Cluster.
fn milestones(cluster: &Cluster) -> (bool, [Option<(String, String)>; 2]) {
    // With the times: the start of a Node is waited for from the latest of them on.
    let since = |type_: &str| {
        let found = find(cluster.conditions(), type_)?;
        Some((found.status.clone(), found.last_transition_time.0.to_string()))
    };
    (cluster.spec.paused == Some(true), ["ControlPlaneInitialized", "InfrastructureReady"].map(since))
}
