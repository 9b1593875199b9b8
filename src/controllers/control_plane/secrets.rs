//! Reads and writes the secrets of a control plane: authorities and kubeconfig. Must not decide which.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;

use crate::api::key::ObjectKey;
use crate::client::{self, Mode, Precondition};
use crate::controllers::certificates::{self, KeySettings, PemPair};
use crate::controllers::{Context, kubeconfig};
use crate::engine::ReconcileError;
use crate::plan::control_plane::Observed;
use crate::plan::ownership::{add_owner, owner};
use crate::status::control_plane::certificates::Purpose;

/// New key pairs. A secret that somebody made in the meantime stays.
pub async fn create_certificates(
    context: &Context,
    observed: &Observed,
    purposes: &[Purpose],
) -> Result<(), ReconcileError> {
    let (namespace, cluster) = (namespace(observed), cluster(observed));
    let settings = key_settings(observed);
    for purpose in purposes {
        let pair = certificates::generate(*purpose, &settings, context.clock.now()).map_err(failed)?;
        let owner = owner(&observed.control_plane, true);
        let secret = certificates::secret(&namespace, &cluster, *purpose, &pair, owner);
        match context.writer.create(&secret, Mode::Real).await {
            Ok(_) => {}
            Err(error) if error.already_exists() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

pub async fn create_kubeconfig(
    context: &Context,
    observed: &Observed,
    server: &str,
) -> Result<(), ReconcileError> {
    let authority = authority(context, observed).await?;
    let owner = owner(&observed.control_plane, true);
    let now = context.clock.now();
    let secret = kubeconfig::secret(&namespace(observed), &cluster(observed), server, &authority, owner, now)
        .map_err(failed)?;
    context.writer.create(&secret, Mode::Real).await?;
    Ok(())
}

pub async fn adopt_kubeconfig(context: &Context, observed: &Observed) -> Result<(), ReconcileError> {
    let before = required(context, observed, kubeconfig::secret_name(&cluster(observed))).await?;
    let mut after = before.clone();
    let owners = after.metadata.owner_references.get_or_insert_default();
    owners.retain(|o| o.controller != Some(true));
    add_owner(&mut after.metadata, owner(&observed.control_plane, true));
    context.writer.patch(&before, &after, &Precondition::unchanged(&before), Mode::Real).await?;
    Ok(())
}

/// A new client certificate for the server that is stored.
pub async fn renew_kubeconfig(context: &Context, observed: &Observed) -> Result<(), ReconcileError> {
    let before = required(context, observed, kubeconfig::secret_name(&cluster(observed))).await?;
    let text = certificates::text_of(&before, "value").map_err(failed)?;
    let stored = kubeconfig::read(&text).ok_or_else(|| {
        ReconcileError::failed(
            "the stored kubeconfig cannot be read; delete the secret to have it made again",
        )
    })?;
    let authority = authority(context, observed).await?;
    let now = context.clock.now();
    let text = kubeconfig::text(&cluster(observed), &stored.server, &authority, now).map_err(failed)?;
    let mut after = before.clone();
    after.data.get_or_insert_default().insert("value".to_owned(), ByteString(text.into_bytes()));
    context.writer.patch(&before, &after, &Precondition::unchanged(&before), Mode::Real).await?;
    Ok(())
}

async fn authority(context: &Context, observed: &Observed) -> Result<PemPair, ReconcileError> {
    let secret = required(context, observed, Purpose::Ca.secret_name(&cluster(observed))).await?;
    certificates::pair_of(&secret).map_err(failed)
}

async fn required(context: &Context, observed: &Observed, name: String) -> Result<Secret, ReconcileError> {
    let key = ObjectKey::new(namespace(observed), name);
    let found = client::get::<Secret>(context.writer.client(), &key).await?;
    found.ok_or_else(|| ReconcileError::failed(format!("Secret {key} does not exist")))
}

fn key_settings(observed: &Observed) -> KeySettings {
    let spec = observed.control_plane.spec.kubeadm_config_spec.as_ref();
    let configuration = spec.and_then(|s| s.cluster_configuration.as_ref());
    KeySettings {
        algorithm: configuration.and_then(|c| c.encryption_algorithm.clone()).unwrap_or_default(),
        ca_validity_days: configuration.and_then(|c| c.ca_certificate_validity_period_days).map(i64::from),
    }
}

fn namespace(observed: &Observed) -> String {
    observed.control_plane.metadata.namespace.clone().unwrap_or_default()
}

fn cluster(observed: &Observed) -> String {
    observed.cluster.metadata.name.clone().unwrap_or_default()
}

fn failed(error: certificates::CertificateError) -> ReconcileError {
    ReconcileError::failed(error.to_string())
}
