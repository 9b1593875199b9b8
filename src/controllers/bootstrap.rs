//! The KubeadmConfig controller: gathers Machine, Cluster, certificates, lock and token, performs the
//! plan, writes the status. Must not decide anything itself.
//! Source: cluster-api `bootstrap/kubeadm/reconcilers/kubeadmconfig`, v1.14.0.

use std::collections::BTreeMap;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};

use super::certificates::text_of;
use super::external::Reader;
use super::pause::{self, Pause};
use super::{Context, apply, cluster_turned, keys_of, log_blockers, status as status_write};
use crate::api::bootstrap::KubeadmConfig;
use crate::api::cluster::Cluster;
use crate::api::key::{ObjectKey, ObjectRef};
use crate::api::machine::Machine;
use crate::api::names::label;
use crate::client::{self, Client, get};
use crate::engine::{Controller, Outcome, ReconcileError, Trigger};
use crate::observe::Source as _;
use crate::plan::bootstrap::{self as planned, LOCK_DATA, join_token, lock_reference, token_id};
use crate::status::bootstrap::{
    self as judged, Certificates, Lock, Observed, SecretValue, Stage, Token, stage,
};
use crate::status::control_plane::certificates::Purpose;
use crate::workload::WorkloadError;

pub struct KubeadmConfigs {
    context: Context,
}

impl KubeadmConfigs {
    #[must_use]
    pub fn new(context: Context) -> Self {
        Self { context }
    }

    async fn reconcile_live(
        &self,
        config: &KubeadmConfig,
        machine: &Machine,
        cluster: &Cluster,
    ) -> Result<Outcome, ReconcileError> {
        let context = &self.context;
        let mut observed = self.observe(config, machine, cluster).await?;
        let planned::Planned { plan, failure, stores_data } = planned::plan(&observed, context.clock.now());
        let about = ObjectRef::of(config);
        log_blockers(&about, &plan.blockers);
        let applied = apply::apply(context, &about, &plan.steps).await;
        if let Some(latest) = applied.latest(&about) {
            observed.config = latest;
        }
        observed.failure = failure;
        observed.stored = applied.failure.is_none() && stores_data;
        let before = observed.config.clone();
        let mut status = judged::status(&observed, context.clock.now());
        if applied.failure.is_none() && observed.failure.is_none() {
            status.observed_generation = before.metadata.generation;
        }
        let after = KubeadmConfig { status: Some(status), ..before.clone() };
        status_write::write(context, &before, &after, &judged::OWNED).await?;
        applied.into_result()?;
        Ok(plan.recheck.map_or(Outcome::Done, Outcome::RequeueAfter))
    }

    /// Reads only what the stage needs.
    async fn observe(
        &self,
        config: &KubeadmConfig,
        machine: &Machine,
        cluster: &Cluster,
    ) -> Result<Observed, client::Error> {
        let control_plane = [cluster.spec.control_plane_ref.as_ref()];
        self.context.caches.externals.prepare(Reader::KubeadmConfig, control_plane).await;
        let client = self.context.writer.client();
        let namespace = config.metadata.namespace.as_deref().unwrap_or_default();
        let mut observed = Observed {
            config: config.clone(),
            machine: machine.clone(),
            cluster: cluster.clone(),
            control_plane: self.context.caches.control_plane_of_cluster(cluster),
            ..Observed::default()
        };
        if config.metadata.deletion_timestamp.is_some() {
            return Ok(observed);
        }
        match stage(&observed) {
            stage @ (Stage::Init | Stage::JoinControlPlane | Stage::JoinWorker) => {
                let external_etcd = has_external_etcd(config);
                let purposes: &[Purpose] =
                    if stage == Stage::JoinWorker { &[Purpose::Ca] } else { Purpose::needed(external_etcd) };
                // The first Machine may do without keys: somebody else may keep those of the authorities.
                let keyless = |p: &Purpose| stage == Stage::Init || p.is_external(external_etcd);
                observed.certificates =
                    certificates(client, &ObjectKey::of(cluster), purposes, keyless).await;
                observed.lock = self.lock(cluster, machine).await;
                observed.secret_values = secret_values(client, config, namespace).await?;
                observed.data_secret = get::<Secret>(client, &ObjectKey::of(config)).await?;
                observed.new_token =
                    format!("{}.{}", self.context.rng.suffix(6), self.context.rng.suffix(16));
            }
            Stage::Created if planned::awaits_join(&observed) => observed.token = self.token(&observed).await,
            _ => {}
        }
        Ok(observed)
    }

    async fn lock(&self, cluster: &Cluster, machine: &Machine) -> Lock {
        let key = lock_reference(&ObjectKey::of(cluster)).key;
        let map = match get::<ConfigMap>(self.context.writer.client(), &key).await {
            Ok(Some(map)) => map,
            Ok(None) => return Lock::Free,
            Err(error) => return Lock::Unreadable(error.to_string()),
        };
        let text = map.data.as_ref().and_then(|data| data.get(LOCK_DATA)).map_or("", String::as_str);
        let information: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
        let holder = information["machineName"].as_str().unwrap_or_default().to_owned();
        if machine.metadata.name.as_ref() == Some(&holder) {
            return Lock::Mine;
        }
        let exists = self.context.caches.machines.get(&ObjectKey::new(&key.namespace, &holder)).is_some();
        Lock::HeldBy { machine: holder, exists }
    }

    async fn token(&self, observed: &Observed) -> Token {
        let Some(token) = join_token(observed) else { return Token::NotAsked };
        let cluster = ObjectKey::of(&observed.cluster);
        match self.context.workload.bootstrap_token(&cluster, token_id(token)).await {
            Ok(Some(expires)) => Token::Expires(expires),
            Ok(None) => Token::Missing,
            Err(WorkloadError::NotConnected) => Token::NotAsked,
            Err(error) => Token::Unreadable(error.to_string()),
        }
    }
}

fn has_external_etcd(config: &KubeadmConfig) -> bool {
    let cluster = config.spec.cluster_configuration.as_ref();
    cluster.and_then(|c| c.etcd.as_ref()).is_some_and(|etcd| etcd.external.is_some())
}

/// `keyless` may lack their keys.
async fn certificates(
    client: &Client,
    cluster: &ObjectKey,
    purposes: &[Purpose],
    keyless: impl Fn(&Purpose) -> bool,
) -> Certificates {
    let (mut found, mut missing) = (BTreeMap::new(), Vec::new());
    for purpose in purposes {
        let name = purpose.secret_name(&cluster.name);
        match get::<Secret>(client, &ObjectKey::new(&cluster.namespace, &name)).await {
            Ok(Some(secret)) => match (text_of(&secret, "tls.crt"), text_of(&secret, "tls.key")) {
                (Ok(certificate), Ok(key)) => {
                    found.insert(*purpose, (certificate, key));
                }
                (Ok(certificate), Err(_)) if keyless(purpose) => {
                    found.insert(*purpose, (certificate, String::new()));
                }
                _ => missing.push(name),
            },
            Ok(None) => missing.push(name),
            Err(error) => return Certificates::Unreadable(error.to_string()),
        }
    }
    if missing.is_empty() { Certificates::Found(found) } else { Certificates::Missing(missing) }
}

/// The values that files and users refer to. Those of missing secrets are left out; the plan says so.
async fn secret_values(
    client: &Client,
    config: &KubeadmConfig,
    namespace: &str,
) -> Result<BTreeMap<(String, String), SecretValue>, client::Error> {
    let files = config.spec.files.iter().filter_map(|file| file.content_from.as_ref());
    let users = config.spec.users.iter().filter_map(|user| user.passwd_from.as_ref());
    let mut values = BTreeMap::new();
    for wanted in files.chain(users).map(|source| &source.secret) {
        let secret = get::<Secret>(client, &ObjectKey::new(namespace, &wanted.name)).await?;
        let Some(secret) = secret else { continue };
        let value = match secret.data.and_then(|mut data| data.remove(&wanted.key)) {
            None => SecretValue::NoSuchKey,
            Some(bytes) => String::from_utf8(bytes.0).map_or(SecretValue::NotText, SecretValue::Text),
        };
        values.insert((wanted.name.clone(), wanted.key.clone()), value);
    }
    Ok(values)
}

/// The Machine that owns the config.
fn owner_of(config: &KubeadmConfig) -> Option<ObjectKey> {
    let owner = config.metadata.owner_references.iter().flatten().find(|r| r.kind == "Machine")?;
    Some(ObjectKey::new(config.metadata.namespace.clone().unwrap_or_default(), &owner.name))
}

#[async_trait]
impl Controller for KubeadmConfigs {
    fn name(&self) -> &'static str {
        "kubeadm-config"
    }

    fn triggers(&self) -> Vec<Trigger> {
        let caches = &self.context.caches;
        let configs = caches.kubeadm_configs.clone();
        vec![
            Trigger::own(&caches.kubeadm_configs),
            Trigger::on(&caches.machines, |old: Option<&Machine>, new: Option<&Machine>| {
                let reference = |m: &Machine| {
                    let config =
                        m.spec.bootstrap.config_ref.as_ref().filter(|r| r.kind == "KubeadmConfig")?;
                    Some(ObjectKey::new(m.metadata.namespace.clone().unwrap_or_default(), &config.name))
                };
                new.or(old).and_then(reference).into_iter().collect()
            }),
            Trigger::on(&caches.clusters, move |old, new| {
                let Some(key) = cluster_turned(old, new) else { return Vec::new() };
                keys_of(&configs.labelled(&key.namespace, label::CLUSTER_NAME, &key.name))
            }),
        ]
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let caches = &self.context.caches;
        let Some(config) = caches.kubeadm_configs.get(key) else { return Ok(Outcome::Done) };
        let Some(machine) = owner_of(&config).and_then(|owner| caches.machines.get(&owner)) else {
            return Ok(Outcome::Done);
        };
        let cluster = ObjectKey::new(&key.namespace, &machine.spec.cluster_name);
        let Some(cluster) = caches.clusters.get(&cluster) else { return Ok(Outcome::Done) };
        if pause::check(&self.context, config.as_ref(), Some(&cluster)).await? == Pause::Stop {
            return Ok(Outcome::Done);
        }
        self.reconcile_live(&config, &machine, &cluster).await
    }

    fn concurrency(&self) -> usize {
        100
    }
}
