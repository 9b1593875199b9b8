//! The nodes of a simulated cluster, as its API server asks them. Must not know who asks.

use std::sync::Arc;

use async_trait::async_trait;

use super::authorities::Authorities;
use super::ports;
use crate::provider::World;
use capi_types::key::ObjectKey;
use capstan_apiserver::{Kubelets, PodConnection};
use capstan_engine::workload::Eviction;

/// The simulated machines of one cluster.
pub(super) struct SimKubelets {
    pub world: Arc<World>,
    pub cluster: ObjectKey,
    pub authorities: Authorities,
}

#[async_trait]
impl Kubelets for SimKubelets {
    async fn get(&self, node: &str, path: &str) -> Result<String, String> {
        let answer = self.world.read(&self.cluster, |sim, now| sim.ask_kubelet(node, path, now));
        answer.unwrap_or_else(|| Err("the cluster is gone".to_owned()))
    }

    async fn evict(&self, namespace: &str, name: &str, grace_period_s: Option<u32>) -> Result<(), String> {
        let (pod, now) = (ObjectKey::new(namespace, name), self.world.now());
        match self.world.change(&self.cluster, |sim| sim.evict(&pod, grace_period_s, now)) {
            Eviction::Started | Eviction::Gone => Ok(()),
            Eviction::Refused(why) => Err(why),
        }
    }

    async fn connect(&self, namespace: &str, name: &str, port: u16) -> PodConnection {
        let pod = ObjectKey::new(namespace, name);
        let listens = self.world.read(&self.cluster, |sim, now| sim.listens_at(&pod, port, now));
        let listens = listens.unwrap_or_else(|| Err("the cluster is gone".to_owned()))?;
        Ok(Box::new(ports::connect(listens, &self.authorities).await?))
    }
}
