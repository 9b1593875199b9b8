//! Writes the secrets of a cluster: authorities and kubeconfig. Must not decide which.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::certificates::{self, PemPair};
use super::{Context, kubeconfig};
use crate::client::{self, Mode, Precondition};
use crate::engine::ReconcileError;
use capi_rules::plan::keys::{KeyCall, KeySettings};
use capi_rules::plan::ownership::add_owner;
use capi_rules::status::control_plane::certificates::Purpose;
use capi_types::key::ObjectKey;
use capstan_base::key_pair;

/// Makes one change. The secrets stand beside the Cluster, and `owner` controls them.
///
/// # Errors
/// When a key cannot be made or used, or the server refuses.
pub async fn call(
    context: &Context,
    cluster: &ObjectKey,
    owner: &OwnerReference,
    call: &KeyCall,
) -> Result<(), ReconcileError> {
    match call {
        KeyCall::CreateCertificates { purposes, settings } => {
            create_certificates(context, cluster, owner, purposes, settings).await
        }
        KeyCall::CreateKubeconfig { server, algorithm } => {
            create_kubeconfig(context, cluster, owner, (server, algorithm)).await
        }
        KeyCall::AdoptCertificates { purposes } => {
            for purpose in purposes {
                adopt(context, cluster, owner, purpose.secret_name(&cluster.name)).await?;
            }
            Ok(())
        }
        KeyCall::AdoptKubeconfig => {
            adopt(context, cluster, owner, kubeconfig::secret_name(&cluster.name)).await
        }
        KeyCall::RenewKubeconfig { algorithm } => renew_kubeconfig(context, cluster, algorithm).await,
    }
}

async fn create_certificates(
    context: &Context,
    cluster: &ObjectKey,
    owner: &OwnerReference,
    purposes: &[Purpose],
    settings: &KeySettings,
) -> Result<(), ReconcileError> {
    for purpose in purposes {
        let (of, settings, now) = (*purpose, settings.clone(), context.clock.now());
        // RSA takes seconds, for which a thread of the runtime would stand still.
        let slow = key_pair::is_slow(&settings.algorithm);
        let pair = made(slow, move || certificates::generate(of, &settings, now)).await?;
        let secret = certificates::secret(&cluster.namespace, &cluster.name, *purpose, &pair, owner.clone());
        match context.writer.create(&secret, Mode::Real).await {
            Ok(_) => {}
            // An earlier pass ended half way. A key that is there is never replaced.
            Err(error) if error.already_exists() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

async fn create_kubeconfig(
    context: &Context,
    cluster: &ObjectKey,
    owner: &OwnerReference,
    (server, algorithm): (&str, &str),
) -> Result<(), ReconcileError> {
    let text = kubeconfig_text(context, cluster, server, algorithm).await?;
    let secret = kubeconfig::secret(&cluster.namespace, &cluster.name, text, owner.clone());
    context.writer.create(&secret, Mode::Real).await?;
    Ok(())
}

/// The owner becomes the controller of a Secret, whoever controlled it.
async fn adopt(
    context: &Context,
    cluster: &ObjectKey,
    owner: &OwnerReference,
    secret: String,
) -> Result<(), ReconcileError> {
    let before = required(context, cluster, secret).await?;
    let mut after = before.clone();
    let owners = after.metadata.owner_references.get_or_insert_default();
    // A server refuses a second controller.
    owners.retain(|o| o.controller != Some(true));
    add_owner(&mut after.metadata, owner.clone());
    context.writer.patch(&before, &after, &Precondition::unchanged(&before), Mode::Real).await?;
    Ok(())
}

async fn renew_kubeconfig(
    context: &Context,
    cluster: &ObjectKey,
    algorithm: &str,
) -> Result<(), ReconcileError> {
    let before = required(context, cluster, kubeconfig::secret_name(&cluster.name)).await?;
    let text = certificates::text_of(&before, "value").map_err(failed)?;
    let stored = kubeconfig::read(&text).ok_or_else(|| {
        ReconcileError::failed(
            "the stored kubeconfig cannot be read; delete the secret to have it made again",
        )
    })?;
    // The stored address stays, also one that a person put there.
    let text = kubeconfig_text(context, cluster, &stored.server, algorithm).await?;
    let mut after = before.clone();
    after.data.get_or_insert_default().insert("value".to_owned(), ByteString(text.into_bytes()));
    context.writer.patch(&before, &after, &Precondition::unchanged(&before), Mode::Real).await?;
    Ok(())
}

async fn kubeconfig_text(
    context: &Context,
    cluster: &ObjectKey,
    server: &str,
    algorithm: &str,
) -> Result<String, ReconcileError> {
    let authority = authority(context, cluster).await?;
    let (cluster, server, algorithm) = (cluster.name.clone(), server.to_owned(), algorithm.to_owned());
    let now = context.clock.now();
    let slow = key_pair::is_slow(&algorithm);
    made(slow, move || kubeconfig::text(&cluster, &server, &authority, &algorithm, now)).await
}

/// What takes its time is made off the runtime: other objects should not wait for it. The rest is made here, where a
/// run under paused time has one order.
async fn made<T: Send + 'static>(
    slow: bool,
    make: impl FnOnce() -> Result<T, certificates::CertificateError> + Send + 'static,
) -> Result<T, ReconcileError> {
    if !slow {
        return make().map_err(failed);
    }
    let made = tokio::task::spawn_blocking(make).await;
    made.map_err(|error| ReconcileError::failed(error.to_string()))?.map_err(failed)
}

async fn authority(context: &Context, cluster: &ObjectKey) -> Result<PemPair, ReconcileError> {
    let secret = required(context, cluster, Purpose::Ca.secret_name(&cluster.name)).await?;
    certificates::pair_of(&secret).map_err(failed)
}

async fn required(context: &Context, cluster: &ObjectKey, name: String) -> Result<Secret, ReconcileError> {
    let key = ObjectKey::new(&cluster.namespace, name);
    let found = client::get::<Secret>(context.writer.client(), &key).await?;
    found.ok_or_else(|| ReconcileError::failed(format!("Secret {key} does not exist")))
}

fn failed(error: certificates::CertificateError) -> ReconcileError {
    ReconcileError::failed(error.to_string())
}
