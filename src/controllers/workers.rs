//! What MachineDeployments and MachineSets share: each belongs to one Cluster and refers to the two
//! templates of its Machines. Owns what wakes them and how a run begins; must not know what it decides.
//! Source: cluster-api `core/reconcilers/{machinedeployment,machineset}` (`SetupWithManager`, the
//! opening of `Reconcile`), v1.14.0.

use std::sync::Arc;

use super::{Caches, Context, keys, pause};
use crate::api::cluster::Cluster;
use crate::api::condition::Conditioned;
use crate::api::key::ObjectKey;
use crate::api::machine::MachineSpec;
use crate::api::machine_deployment::MachineDeployment;
use crate::api::machine_set::MachineSet;
use crate::api::names::finalizer;
use crate::api::reference::ContractRef;
use crate::client::{Cache, Object};
use crate::engine::{ReconcileError, Trigger};

/// A kind whose objects stand for the worker Machines of one Cluster.
pub trait Workers: Object + Conditioned {
    const FINALIZER: &'static str;
    /// Of the Cluster in its namespace.
    fn cluster_name(&self) -> &str;
    /// What its Machines are made from.
    fn machine(&self) -> &MachineSpec;
}

impl Workers for MachineDeployment {
    const FINALIZER: &'static str = finalizer::MACHINE_DEPLOYMENT;

    fn cluster_name(&self) -> &str {
        &self.spec.cluster_name
    }

    fn machine(&self) -> &MachineSpec {
        &self.spec.template.spec
    }
}

impl Workers for MachineSet {
    const FINALIZER: &'static str = finalizer::MACHINE_SET;

    fn cluster_name(&self) -> &str {
        &self.spec.cluster_name
    }

    fn machine(&self) -> &MachineSpec {
        &self.spec.template.spec
    }
}

/// What wakes both kinds: the object itself, its Cluster, and the templates that it refers to.
pub fn triggers<K: Workers>(caches: &Caches, workers: &Cache<K>) -> Vec<Trigger> {
    vec![
        Trigger::own(workers),
        of_cluster(workers, &caches.clusters, |cluster| Some(ObjectKey::of(cluster))),
        users(workers, &caches.dev_machine_templates),
        users(workers, &caches.kubeadm_config_templates),
    ]
}

/// On every change of an object whose Cluster `cluster_of` tells: everything of that Cluster.
pub fn of_cluster<K: Workers, C: Object>(
    workers: &Cache<K>,
    cache: &Cache<C>,
    cluster_of: fn(&C) -> Option<ObjectKey>,
) -> Trigger {
    let workers = workers.clone();
    Trigger::on(cache, move |old, new| {
        let Some(cluster) = new.or(old).and_then(cluster_of) else { return Vec::new() };
        keys(&workers.select(&cluster.namespace, |w| w.cluster_name() == cluster.name))
    })
}

/// On every change of a template: everything in its namespace that refers to it.
fn users<K: Workers, T: Object>(workers: &Cache<K>, templates: &Cache<T>) -> Trigger {
    let workers = workers.clone();
    Trigger::on(templates, move |old, new| {
        let Some(template) = new.or(old).map(ObjectKey::of) else { return Vec::new() };
        let refers = |r: &ContractRef| r.kind == T::kind(&()) && r.name == template.name;
        keys(&workers.select(&template.namespace, |w| {
            let machine = w.machine();
            refers(&machine.infrastructure_ref) || machine.bootstrap.config_ref.as_ref().is_some_and(refers)
        }))
    })
}

/// The object and its Cluster, when the run may go on; see [`pause::may_run`].
///
/// # Errors
/// When there is no such Cluster, or the server refuses a write.
pub async fn begin<K: Workers>(
    context: &Context,
    workers: &Cache<K>,
    key: &ObjectKey,
) -> Result<Option<(Arc<K>, Arc<Cluster>)>, ReconcileError> {
    let Some(object) = workers.get(key) else { return Ok(None) };
    let cluster_key = ObjectKey::new(&key.namespace, object.cluster_name());
    let Some(cluster) = context.caches.clusters.get(&cluster_key) else {
        let kind = K::kind(&());
        return Err(ReconcileError::failed(format!("{kind} {key}: there is no Cluster {cluster_key}")));
    };
    let goes_on = pause::may_run(context, object.as_ref(), &cluster, K::FINALIZER).await?;
    Ok(goes_on.then_some((object, cluster)))
}
