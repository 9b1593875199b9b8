//! The KubeadmConfig controller: gathers Machine, Cluster, certificates, lock and token. Must not decide anything
//! itself.
//! Source: cluster-api `bootstrap/kubeadm/reconcilers/kubeadmconfig`, v1.14.2.

mod observe;

use std::sync::Arc;

use async_trait::async_trait;

use super::apply::Applied;
use super::external::Reader;
use super::reconcile::{Ended, Reconcile};
use super::{Context, cluster_turned, keys_of, status};
use crate::client::{Cache, Object};
use crate::engine::{Outcome, ReconcileError, Trigger};
use capi_rules::observe::{ConfigOwner, Source as _, config_owner, namespace};
use capi_rules::plan::Plan;
use capi_rules::plan::bootstrap::{self as planned, Reads};
use capi_rules::status::bootstrap::{self as judged, Certificates, Lock, Observed};
use capi_types::bootstrap::KubeadmConfig;
use capi_types::cluster::Cluster;
use capi_types::key::{ObjectKey, ObjectRef};
use capi_types::machine::{Machine, MachineSpec};
use capi_types::machine_pool::MachinePool;
use capstan_base::time::Timestamp;

pub(super) struct KubeadmConfigs {
    pub context: Context,
}

/// What the status looks at.
pub(super) struct Judged {
    observed: Observed,
    /// When every step succeeds, the bootstrap data is stored.
    stores_data: bool,
}

#[async_trait]
impl Reconcile for KubeadmConfigs {
    type Object = KubeadmConfig;
    type Observed = Observed;
    type Judged = Judged;

    const NAME: &'static str = "kubeadm-config";
    const FINALIZER: Option<&'static str> = None;
    const CONCURRENCY: usize = 100;

    fn context(&self) -> &Context {
        &self.context
    }

    fn objects(&self) -> &Cache<KubeadmConfig> {
        &self.context.caches.kubeadm_configs
    }

    fn triggers(&self) -> Vec<Trigger> {
        let caches = &self.context.caches;
        let configs = caches.kubeadm_configs.clone();
        vec![
            Trigger::own(&caches.kubeadm_configs),
            Trigger::on(&caches.machines, |old: Option<&Machine>, new| {
                let machine = new.or(old);
                machine.and_then(|machine| named_by(machine, &machine.spec)).into_iter().collect()
            }),
            Trigger::on(&caches.machine_pools, |old: Option<&MachinePool>, new| {
                let pool = new.or(old);
                pool.and_then(|pool| named_by(pool, &pool.spec.template.spec)).into_iter().collect()
            }),
            Trigger::on(&caches.clusters, move |old, new| {
                let Some(key) = cluster_turned(old, new) else { return Vec::new() };
                keys_of(&configs.of_cluster(&key))
            }),
        ]
    }

    /// The one of the Machine or MachinePool that owns the config.
    fn cluster(&self, object: &Arc<KubeadmConfig>) -> Result<Result<Arc<Cluster>, Outcome>, ReconcileError> {
        let owner = config_owner(&self.context.caches, object);
        let named = owner.map(|o| ObjectKey::new(namespace(object.as_ref()), o.machine.spec.cluster_name));
        // Without an owner nothing is made; a change of its Machine wakes the config.
        Ok(named.and_then(|key| self.context.caches.clusters.get(&key)).ok_or(Outcome::Done))
    }

    /// Reads only what the stage needs.
    async fn observe(
        &self,
        object: &Arc<KubeadmConfig>,
        cluster: &Arc<Cluster>,
    ) -> Result<Option<Observed>, ReconcileError> {
        let caches = &self.context.caches;
        let Some(ConfigOwner { machine, pool }) = config_owner(caches, object) else { return Ok(None) };
        let control_plane = [cluster.spec.control_plane_ref.as_ref()];
        caches.externals.prepare(Reader::KubeadmConfig, control_plane).await;
        let mut observed = Observed {
            config: (**object).clone(),
            machine,
            pool,
            cluster: (**cluster).clone(),
            control_plane: caches.control_plane_of_cluster(cluster),
            ..Observed::default()
        };
        match planned::reads(&observed) {
            Reads::Nothing => {}
            // The data is stored by now: Secrets are read
            // again only if another token has to be put in.
            Reads::Token => {
                observed.token = self.token(&observed).await;
                if let Some(needed) = planned::rotation_reads(&observed, self.context.clock.now()) {
                    self.read_secrets(&needed, &mut observed).await?;
                }
            }
            Reads::Secrets(needed) => self.read_secrets(&needed, &mut observed).await?,
        }
        Ok(Some(observed))
    }

    fn plan(&self, mut observed: Observed, now: Timestamp) -> (Judged, Plan) {
        let planned::Planned { plan, failure, stores_data } = planned::plan(&observed, now);
        observed.failure = failure;
        (Judged { observed, stores_data }, plan)
    }

    async fn report(
        &self,
        object: &Arc<KubeadmConfig>,
        judged: Judged,
        applied: Applied,
    ) -> Result<Ended, ReconcileError> {
        let (context, mut observed) = (&self.context, judged.observed);
        if let Some(latest) = applied.latest(&ObjectRef::of(object.as_ref())) {
            observed.config = latest;
        }
        observed.stored = applied.failure.is_none() && judged.stores_data;
        if let (Some(failure), Certificates::Missing(_)) = (&applied.failure, &observed.certificates) {
            // Without the lock in hand it is another Machine that makes them.
            observed.certificates = match observed.lock {
                Lock::Mine => Certificates::Unreadable(failure.error.to_string()),
                _ => Certificates::NotAsked,
            };
        }
        let before = observed.config.clone();
        let mut status = judged::status(&observed, context.clock.now());
        if applied.failure.is_none() && observed.failure.is_none() {
            status.observed_generation = before.metadata.generation;
        }
        let after = KubeadmConfig { status: Some(status), ..before.clone() };
        status::write(context, &before, &after, &judged::OWNED).await?;
        Ok(Ended::of(applied))
    }
}

/// The config that a Machine, or the template of a MachinePool, refers to.
fn named_by<K: Object>(object: &K, spec: &MachineSpec) -> Option<ObjectKey> {
    let config = spec.bootstrap.config_ref.as_ref().filter(|r| r.kind == "KubeadmConfig")?;
    Some(ObjectKey::new(object.meta().namespace.clone().unwrap_or_default(), &config.name))
}
