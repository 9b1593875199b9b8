//! Hosts as objects of a server: read by name, with what belongs to them. Must not know what is shown of them.

use anyhow::{Context as _, bail};
use k8s_openapi::api::core::v1::Secret;
use serde_json::Value;

use capi_types::cluster::Cluster;
use capi_types::host::{Host, HostPool};
use capi_types::host_machine::HostMachine;
use capi_types::key::{Gvk, ObjectKey, ObjectRef, refers_to};
use capi_types::machine::Machine;
use capi_types::names::CORE_GROUP;
use capstan_engine::client::read::{get_value, list_values};
use capstan_engine::client::{Connection, Object, get};
use capstan_host_provider::plan_of;
use capstan_host_provider::reach::{SshReach, reach_of};
use capstan_hosts::run::RunPlan;

/// A server, and the namespace of the Hosts that are meant; empty for all.
pub struct HostsOfServer<'s> {
    pub connection: &'s Connection,
    pub namespace: &'s str,
}

impl HostsOfServer<'_> {
    /// # Errors
    /// They cannot be listed.
    pub async fn all(&self) -> anyhow::Result<Vec<Host>> {
        let found = list_values(&self.connection.client, &Gvk::of::<Host>(), self.namespace, "").await;
        let found = found.with_context(|| format!("cannot list Hosts of {}", self.connection.server))?;
        found
            .into_iter()
            .map(|object| serde_json::from_value(object).context("a Host cannot be read"))
            .collect()
    }

    /// In the namespace that is meant.
    pub fn key(&self, name: &str) -> ObjectKey {
        let namespace =
            if self.namespace.is_empty() { self.connection.namespace.as_str() } else { self.namespace };
        ObjectKey::new(namespace, name)
    }

    async fn get<K: Object>(&self, name: &str) -> anyhow::Result<Option<K>> {
        let key = self.key(name);
        get(&self.connection.client, &key)
            .await
            .with_context(|| format!("cannot read {} {key}", K::kind(&())))
    }

    /// # Errors
    /// There is no such Host, or it cannot be read.
    pub async fn host(&self, name: &str) -> anyhow::Result<Host> {
        let found: Option<Host> = self.get(name).await?;
        found.with_context(|| format!("there is no Host {}; `capstan host list` shows all", self.key(name)))
    }

    /// # Errors
    /// It cannot be read.
    pub async fn pool(&self, name: &str) -> anyhow::Result<Option<HostPool>> {
        self.get(name).await
    }

    /// # Errors
    /// It cannot be read.
    pub async fn has_cluster(&self, name: &str) -> anyhow::Result<bool> {
        Ok(self.get::<Cluster>(name).await?.is_some())
    }

    /// The same as the server sends it, and how it is named.
    ///
    /// # Errors
    /// As [`Self::host`].
    pub async fn document(&self, name: &str) -> anyhow::Result<(ObjectRef, Value)> {
        let host = self.host(name).await?;
        let target = ObjectRef::of(&host);
        let found = get_value(&self.connection.client, &target).await?;
        Ok((target, found.with_context(|| format!("there is no Host {name} any more"))?))
    }

    /// # Errors
    /// A pool that cannot be read, or words that ssh must not be given.
    pub async fn reach(&self, host: &Host) -> anyhow::Result<SshReach> {
        let pool = match &host.spec.pool {
            Some(pool) => self.pool(pool).await?,
            None => None,
        };
        Ok(reach_of(host, pool.as_ref())?)
    }

    /// # Errors
    /// No HostMachine has claimed the Host, or the object cannot be read.
    pub async fn user_of(&self, host: &Host) -> anyhow::Result<HostMachine> {
        let name = host.metadata.name.as_deref().unwrap_or_default();
        let Some(consumer) = &host.spec.consumer_ref else {
            bail!("no HostMachine has Host {name}, so that there is no run of one");
        };
        let found: Option<HostMachine> = self.get(&consumer.name).await?;
        found.with_context(|| format!("HostMachine {}, which has Host {name}, is not there", consumer.name))
    }

    /// The bootstrap run of the HostMachine that has a Host.
    ///
    /// # Errors
    /// Something of it is not there yet, or its bootstrap data is refused.
    pub async fn run(&self, host: &Host) -> anyhow::Result<RunPlan> {
        let user = self.user_of(host).await?;
        let owners = user.metadata.owner_references.iter().flatten();
        let owner = owners.into_iter().find(|owner| refers_to(owner, CORE_GROUP, "Machine"));
        let owner = owner.context("the HostMachine has no Machine yet")?;
        let machine: Option<Machine> = self.get(&owner.name).await?;
        let machine = machine.with_context(|| format!("Machine {} is not there", owner.name))?;
        let secret =
            machine.spec.bootstrap.data_secret_name.context("the bootstrap data is not there yet")?;
        let secret: Option<Secret> = self.get(&secret).await?;
        let value = secret.and_then(|mut secret| secret.data.as_mut()?.remove("value"));
        let data = value
            .and_then(|bytes| String::from_utf8(bytes.0).ok())
            .context("the bootstrap data is not there")?;
        plan_of(user.use_uid(), user.spec.provider_id.as_deref(), host, &data).map_err(anyhow::Error::msg)
    }
}
