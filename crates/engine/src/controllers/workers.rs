//! What MachineDeployments and MachineSets share: each belongs to one Cluster and refers to the two
//! templates of its Machines. Owns what wakes them, and performs what comes before their plans; must not know
//! what is decided.
//! Source: cluster-api `core/reconcilers/{machinedeployment,machineset}` (`SetupWithManager`, the
//! opening of `Reconcile`), v1.14.2.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::by_cluster::ByCluster;
use super::external::{Reader, Referrers};
use super::{Caches, Context, apply};
use crate::client::{Cache, Object};
use crate::engine::{ReconcileError, Trigger};
use capi_rules::observe::{Member, Templates};
use capi_rules::plan::{Step, opening};
use capi_rules::status::machine::{cluster_provisioned, control_plane_initialized_since};
use capi_types::cluster::Cluster;
use capi_types::condition::Conditioned;
use capi_types::key::{ObjectKey, ObjectRef};
use capi_types::machine::MachineSpec;
use capi_types::machine_deployment::MachineDeployment;
use capi_types::machine_set::MachineSet;
use capi_types::reference::ContractRef;

/// A kind whose objects stand for the worker Machines of one Cluster.
pub trait Workers: Object + Conditioned {
    /// On whose behalf templates are read.
    const READER: Reader;
    /// Of the Cluster in its namespace.
    fn cluster_name(&self) -> &str;
    /// What its Machines are made from.
    fn machine(&self) -> &MachineSpec;
}

impl Workers for MachineDeployment {
    const READER: Reader = Reader::MachineDeployment;

    fn cluster_name(&self) -> &str {
        &self.spec.cluster_name
    }

    fn machine(&self) -> &MachineSpec {
        &self.spec.template.spec
    }
}

impl Workers for MachineSet {
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
    let (of_cluster, users) = (by_cluster(workers), Referrers::new(workers, templates));
    vec![
        Trigger::own(workers),
        Trigger::on(&caches.clusters, move |old, new| {
            let turned = worker_facts(old) != worker_facts(new);
            let cluster = new.or(old).filter(|_| turned);
            cluster.map(|cluster| of_cluster.keys(&ObjectKey::of(cluster))).unwrap_or_default()
        }),
        caches.externals.trigger(K::READER, move |turned| users.keys(turned)),
    ]
}

/// What workers read of their Cluster: its spec and metadata, and its milestones; not the rest of its status, which follows
/// the workers.
#[derive(PartialEq)]
struct WorkerFacts<'a> {
    uid: Option<&'a String>,
    generation: Option<i64>,
    annotations: Option<&'a BTreeMap<String, String>>,
    is_leaving: bool,
    is_provisioned: bool,
    is_initialized: bool,
}

fn worker_facts(cluster: Option<&Cluster>) -> Option<WorkerFacts<'_>> {
    cluster.map(|cluster| WorkerFacts {
        uid: cluster.metadata.uid.as_ref(),
        generation: cluster.metadata.generation,
        annotations: cluster.metadata.annotations.as_ref(),
        is_leaving: cluster.metadata.deletion_timestamp.is_some(),
        is_provisioned: cluster_provisioned(cluster),
        is_initialized: control_plane_initialized_since(cluster).is_some(),
    })
}

/// Everything of each Cluster.
pub fn by_cluster<K: Workers>(workers: &Cache<K>) -> ByCluster<K> {
    ByCluster::new(workers, |object| Some(object.cluster_name()))
}

/// The templates of infrastructure and bootstrap.
pub fn templates<K: Workers>(workers: &K) -> [Option<&ContractRef>; 2] {
    let machine = workers.machine();
    [Some(&machine.infrastructure_ref), machine.bootstrap.config_ref.as_ref()]
}

/// The Cluster of an object of either kind.
///
/// # Errors
/// When there is no such Cluster.
pub fn cluster<K: Workers>(context: &Context, object: &K) -> Result<Arc<Cluster>, ReconcileError> {
    let key = ObjectKey::of(object);
    let named = ObjectKey::new(&key.namespace, object.cluster_name());
    context.caches.clusters.get(&named).ok_or_else(|| {
        let kind = K::kind(&());
        ReconcileError::failed(format!("{kind} {key}: there is no Cluster {named}"))
    })
}

/// The templates can be read then.
pub async fn prepare<K: Workers>(context: &Context, object: &K) {
    context.caches.externals.prepare(K::READER, templates(object)).await;
}

/// Performs what comes before the plan (see [`opening`]). Answers with the object and its members as they then are.
///
/// # Errors
/// When a write fails, also because its object went away. An orphan that could not be adopted may be a member all the same:
/// a plan without it would make another one in its place.
pub async fn open<K: Workers, O: Object>(
    context: &Context,
    (before, after): (&K, &K),
    cluster: &Cluster,
    found: &Templates,
    members: Vec<Member<O>>,
) -> Result<(K, Vec<Arc<O>>), ReconcileError> {
    let templates = found.all();
    let steps = opening::steps((before, after), cluster, &templates);
    let about = ObjectRef::of(before);
    let applied = apply::apply(context, &about, &steps).await;
    if let Some(gone) = &applied.gone {
        return Err(ReconcileError::failed(format!("{about}: {gone} went away")));
    }
    let object: K = applied.latest(&about).unwrap_or_else(|| before.clone());
    applied.into_result()?;
    let orphans = members.iter().filter_map(Member::orphan);
    let adoptions: Vec<Step> = orphans.map(|orphan| opening::adoption(&object, orphan.as_ref())).collect();
    // All are tried, then the first failure ends the
    // pass: without its orphans it would make new ones.
    let adopted = apply::apply(context, &about, &adoptions).await;
    let mine = members.into_iter().filter_map(|member| match member {
        Member::Controlled(member) => Some(member),
        // One that went away meanwhile is no longer a member.
        Member::Orphan(orphan) => adopted.latest(&ObjectRef::of(orphan.as_ref())).map(Arc::new),
    });
    let mine = mine.collect();
    adopted.into_result()?;
    Ok((object, mine))
}
