//! What MachineDeployments and MachineSets share: each belongs to one Cluster and refers to the two
//! templates of its Machines. Owns what wakes them and how a run begins; must not know what it decides.
//! Source: cluster-api `core/reconcilers/{machinedeployment,machineset}` (`SetupWithManager`, the
//! opening of `Reconcile`), v1.14.0.

use std::sync::Arc;

use super::external::{Reader, referring};
use super::{Caches, Context, keys_of, pause};
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
    /// On whose behalf templates are read.
    const READER: Reader;
    /// Of the Cluster in its namespace.
    fn cluster_name(&self) -> &str;
    /// What its Machines are made from.
    fn machine(&self) -> &MachineSpec;
}

impl Workers for MachineDeployment {
    const FINALIZER: &'static str = finalizer::MACHINE_DEPLOYMENT;
    const READER: Reader = Reader::MachineDeployment;

    fn cluster_name(&self) -> &str {
        &self.spec.cluster_name
    }

    fn machine(&self) -> &MachineSpec {
        &self.spec.template.spec
    }
}

impl Workers for MachineSet {
    const FINALIZER: &'static str = finalizer::MACHINE_SET;
    const READER: Reader = Reader::MachineSet;

    fn cluster_name(&self) -> &str {
        &self.spec.cluster_name
    }

    fn machine(&self) -> &MachineSpec {
        &self.spec.template.spec
    }
}

/// What wakes both kinds: the object itself, its Cluster, and the templates that it refers to.
pub fn triggers<K: Workers>(caches: &Caches, workers: &Cache<K>) -> Vec<Trigger> {
    let (of_cluster, users) = (workers.clone(), workers.clone());
    vec![
        Trigger::own(workers),
        Trigger::on(&caches.clusters, move |old, new| {
            new.or(old).map(|cluster| of(&of_cluster, &ObjectKey::of(cluster))).unwrap_or_default()
        }),
        caches.externals.trigger(K::READER, move |turned| referring(&users, turned, templates)),
    ]
}

/// Everything of a Cluster.
pub fn of<K: Workers>(workers: &Cache<K>, cluster: &ObjectKey) -> Vec<ObjectKey> {
    keys_of(&workers.select(&cluster.namespace, |w| w.cluster_name() == cluster.name))
}

/// The templates of infrastructure and bootstrap.
pub fn templates<K: Workers>(workers: &K) -> [Option<&ContractRef>; 2] {
    let machine = workers.machine();
    [Some(&machine.infrastructure_ref), machine.bootstrap.config_ref.as_ref()]
}

/// The object and its Cluster, when the run may go on (see [`pause::may_run`]); its templates can be read then.
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
    if !pause::may_run(context, object.as_ref(), &cluster, K::FINALIZER).await? {
        return Ok(None);
    }
    context.caches.externals.prepare(K::READER, templates(object.as_ref())).await;
    Ok(Some((object, cluster)))
}
