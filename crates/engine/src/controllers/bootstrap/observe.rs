//! What a KubeadmConfig is judged by and that has to be waited for: Secrets, the lock, the token. Must not judge it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};

use super::KubeadmConfigs;
use crate::client::{self, Client, get};
use crate::controllers::certificates::text_of;
use crate::workload::WorkloadError;
use capi_rules::observe::namespace;
use capi_rules::plan::bootstrap::{Needed, join_token, lock_holder, lock_reference, token_id};
use capi_rules::status::bootstrap::{Certificates, Lock, Observed, SecretValue, Token};
use capi_types::bootstrap::KubeadmConfig;
use capi_types::cluster::Cluster;
use capi_types::key::ObjectKey;
use capi_types::machine::Machine;

impl KubeadmConfigs {
    pub(super) async fn read_secrets(
        &self,
        needed: &[Needed],
        observed: &mut Observed,
    ) -> Result<(), client::Error> {
        let (client, rng) = (self.context.writer.client(), &self.context.rng);
        let cluster = ObjectKey::of(&observed.cluster);
        observed.certificates = certificates(client, &cluster, needed).await;
        observed.lock = self.lock(&observed.cluster, &observed.machine).await;
        observed.secret_values = secret_values(client, &observed.config).await?;
        observed.data_secret = get::<Secret>(client, &ObjectKey::of(&observed.config)).await?;
        // kubeadm's form: six characters, a dot, sixteen characters.
        observed.new_token = format!("{}.{}", rng.suffix(6), rng.suffix(16));
        Ok(())
    }

    async fn lock(&self, cluster: &Cluster, machine: &Machine) -> Lock {
        let key = lock_reference(&ObjectKey::of(cluster)).key;
        let map = match get::<ConfigMap>(self.context.writer.client(), &key).await {
            Ok(Some(map)) => map,
            Ok(None) => return Lock::Free,
            Err(error) => return Lock::Unreadable(error.to_string()),
        };
        let holder = lock_holder(&map);
        if machine.metadata.name.as_ref() == Some(&holder) {
            return Lock::Mine;
        }
        let exists = self.context.caches.machines.get(&ObjectKey::new(&key.namespace, &holder)).is_some();
        Lock::HeldBy { machine: holder, exists }
    }

    pub(super) async fn token(&self, observed: &Observed) -> Token {
        let Some(token) = join_token(observed) else { return Token::NotAsked };
        let cluster = ObjectKey::of(&observed.cluster);
        match self.context.workload.bootstrap_token(&cluster, token_id(token)).await {
            Ok(Some(expires)) => Token::Expires(expires),
            Ok(None) => Token::Missing,
            // A token that cannot be looked at is not a missing one.
            Err(WorkloadError::NotConnected) => Token::NotAsked,
            Err(error) => Token::Unreadable(error.to_string()),
        }
    }
}

async fn certificates(client: &Client, cluster: &ObjectKey, needed: &[Needed]) -> Certificates {
    let (mut found, mut missing) = (BTreeMap::new(), Vec::new());
    for Needed { purpose, is_keyless } in needed {
        let name = purpose.secret_name(&cluster.name);
        match get::<Secret>(client, &ObjectKey::new(&cluster.namespace, &name)).await {
            Ok(Some(secret)) => match (text_of(&secret, "tls.crt"), text_of(&secret, "tls.key")) {
                (Ok(certificate), Ok(key)) => {
                    found.insert(*purpose, (certificate, key));
                }
                (Ok(certificate), Err(_)) if *is_keyless => {
                    found.insert(*purpose, (certificate, String::new()));
                }
                (Err(error), _) | (_, Err(error)) => return Certificates::Unreadable(error.to_string()),
            },
            Ok(None) => missing.push(*purpose),
            Err(error) => return Certificates::Unreadable(error.to_string()),
        }
    }
    if missing.is_empty() { Certificates::Found(found) } else { Certificates::Missing(missing) }
}

/// The values that files and users refer to. Those of missing secrets are left out; the plan has a blocker for each.
async fn secret_values(
    client: &Client,
    config: &KubeadmConfig,
) -> Result<BTreeMap<(String, String), SecretValue>, client::Error> {
    let files = config.spec.files.iter().filter_map(|file| file.content_from.as_ref());
    let users = config.spec.users.iter().filter_map(|user| user.passwd_from.as_ref());
    let mut values = BTreeMap::new();
    for wanted in files.chain(users).map(|source| &source.secret) {
        let secret = get::<Secret>(client, &ObjectKey::new(namespace(config), &wanted.name)).await?;
        let Some(secret) = secret else { continue };
        let value = match secret.data.and_then(|mut data| data.remove(&wanted.key)) {
            None => SecretValue::NoSuchKey,
            Some(bytes) => String::from_utf8(bytes.0).map_or(SecretValue::NotText, SecretValue::Text),
        };
        values.insert((wanted.name.clone(), wanted.key.clone()), value);
    }
    Ok(values)
}
