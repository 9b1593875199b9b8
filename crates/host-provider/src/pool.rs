//! HostPool: counts its Hosts. Owns the counters; must not know how a Host comes to its state.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use capi_types::condition::is_true;
use capi_types::host::condition::{AVAILABLE, CLEAN};
use capi_types::host::{Host, HostPool, HostPoolStatus};
use capi_types::key::ObjectKey;
use capstan_engine::client::{Cache, Mode, Precondition, Writer};
use capstan_engine::engine::{Controller, Engine, Outcome, ReconcileError, Trigger};

use crate::MANAGER;

pub const NAME: &str = "host-pool";

pub struct HostPools {
    pools: Cache<HostPool>,
    hosts: Cache<Host>,
    writer: Writer,
}

impl HostPools {
    pub fn new(engine: &mut Engine) -> Self {
        Self { pools: engine.cache(), hosts: engine.cache(), writer: engine.writer().managed_by(MANAGER) }
    }
}

fn counted(hosts: &[&Host]) -> HostPoolStatus {
    let count =
        |is_it: &dyn Fn(&Host) -> bool| i32::try_from(hosts.iter().filter(|host| is_it(host)).count()).ok();
    let holds =
        |host: &Host, type_: &str| host.status.as_ref().is_some_and(|it| is_true(&it.conditions, type_));
    let is_claimed = |host: &Host| host.spec.consumer_ref.is_some();
    HostPoolStatus {
        hosts: count(&|_| true),
        available: count(&|host| !is_claimed(host) && holds(host, AVAILABLE)),
        claimed: count(&is_claimed),
        unclean: count(&|host| !is_claimed(host) && !holds(host, CLEAN)),
        capacity: capacity(hosts),
    }
}

/// Of the smallest, so that no Machine is promised more than it gets.
fn capacity(hosts: &[&Host]) -> BTreeMap<String, Quantity> {
    let facts = || hosts.iter().filter_map(|host| host.status.as_ref()?.facts.as_ref());
    let cpus = facts().filter_map(|it| it.cpus).min().map(|cpus| ("cpu", cpus.to_string()));
    let memory = facts().filter_map(|it| it.memory_mib).min().map(|mib| ("memory", format!("{mib}Mi")));
    [cpus, memory].into_iter().flatten().map(|(name, text)| (name.to_owned(), Quantity(text))).collect()
}

#[async_trait]
impl Controller for HostPools {
    fn name(&self) -> &'static str {
        NAME
    }

    fn triggers(&self) -> Vec<Trigger> {
        vec![
            Trigger::own(&self.pools),
            Trigger::on(&self.hosts, |old: Option<&Host>, new| {
                let of = |host: &Host| {
                    let namespace = host.metadata.namespace.clone().unwrap_or_default();
                    host.spec.pool.as_ref().map(|pool| ObjectKey::new(namespace, pool))
                };
                [old, new].into_iter().flatten().filter_map(of).collect()
            }),
        ]
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let Some(pool) = self.pools.get(key) else { return Ok(Outcome::Done) };
        let is_of = |host: &Host| host.spec.pool.as_deref() == Some(key.name.as_str());
        let hosts = self.hosts.select(&key.namespace, is_of);
        let hosts: Vec<&Host> = hosts.iter().map(Arc::as_ref).collect();
        let after = HostPool { status: Some(counted(&hosts)), ..(*pool).clone() };
        self.writer.patch(pool.as_ref(), &after, &Precondition::unchanged(pool.as_ref()), Mode::Real).await?;
        Ok(Outcome::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capi_rules::status::conditions::setter::condition;
    use capi_types::condition::Status;
    use capi_types::host::{HostConsumer, HostFactsStatus, HostSpec, HostStatus};

    fn host(cpus: i64, true_ones: &[&str], is_claimed: bool) -> Host {
        let consumer_ref = is_claimed.then(HostConsumer::default);
        let mut host = Host::new("h", HostSpec { consumer_ref, ..HostSpec::default() });
        let conditions = true_ones.iter().map(|type_| condition(type_, Status::True, "Yes", "")).collect();
        let facts = Some(HostFactsStatus { cpus: Some(cpus), ..HostFactsStatus::default() });
        host.status = Some(HostStatus { conditions, facts, ..HostStatus::default() });
        host
    }

    #[test]
    fn hosts_are_counted_by_their_use() {
        let hosts = [host(8, &[AVAILABLE, CLEAN], false), host(4, &[], true), host(16, &[], false)];
        let all: Vec<&Host> = hosts.iter().collect();
        let counted = counted(&all);
        let counts = [counted.hosts, counted.available, counted.claimed, counted.unclean];
        assert_eq!(counts, [Some(3), Some(1), Some(1), Some(1)]);
        assert_eq!(counted.capacity.get("cpu"), Some(&Quantity("4".to_owned())));
    }
}
