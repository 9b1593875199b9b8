//! kube-proxy and CoreDNS: a new image, or new pods for a new configuration. Owns these patches; must not know when they are
//! due.

use serde_json::{Map, Value, json};

use super::{coredns, kube_proxy};
use crate::client::read::get_value;
use crate::client::write::Part;
use crate::client::{Mode, Precondition, WriteError, Writer, explain};
use capi_types::key::ObjectRef;
use kubeadm_change::render::AddonImages;
use kubeadm_change::running::{RESTARTED, Running};

/// An add-on that was not rolled out.
#[derive(Debug, thiserror::Error)]
pub enum AddonError {
    #[error("{0} is not there: kubeadm writes it again with `kubeadm init phase addon`")]
    Missing(String),
    #[error("{0} cannot be read: {1}")]
    Unreadable(String, String),
    #[error(transparent)]
    Refused(#[from] WriteError),
}

/// Gives kube-proxy its image, and restarts its pods where its ConfigMap is newer than they are.
///
/// # Errors
/// [`AddonError`].
pub async fn roll_kube_proxy(
    writer: &Writer,
    running: &Running,
    images: &AddonImages,
) -> Result<(), AddonError> {
    let state = running.kube_proxy.clone().unwrap_or_default();
    let image = (state.image != images.kube_proxy).then_some(images.kube_proxy.as_str());
    // The server's moment, not ours: a clock that is ahead would hide the next change.
    let restarted = state.is_older_than(&running.proxy_written_at).then(|| running.proxy_written_at.clone());
    roll(writer, &kube_proxy(), "kube-proxy", image, restarted.as_deref()).await
}

/// Gives CoreDNS its image.
///
/// # Errors
/// [`AddonError`].
pub async fn roll_coredns(writer: &Writer, images: &AddonImages) -> Result<(), AddonError> {
    roll(writer, &coredns(), "coredns", Some(&images.coredns), None).await
}

async fn roll(
    writer: &Writer,
    target: &ObjectRef,
    container: &str,
    image: Option<&str>,
    restarted: Option<&str>,
) -> Result<(), AddonError> {
    let found = get_value(writer.client(), target).await;
    let unreadable = |error| AddonError::Unreadable(target.to_string(), explain(&error, "the cluster"));
    let object = found.map_err(unreadable)?.ok_or_else(|| AddonError::Missing(target.to_string()))?;
    let mut template = Map::new();
    if let Some(image) = image {
        // A merge patch replaces the list: all containers stand in it.
        let mut containers =
            object["spec"]["template"]["spec"]["containers"].as_array().cloned().unwrap_or_default();
        let at = containers.iter().position(|c| c["name"] == container).unwrap_or(0);
        let Some(ours @ Value::Object(_)) = containers.get_mut(at) else {
            return Err(AddonError::Missing(format!("container {container} of {target}")));
        };
        ours["image"] = image.into();
        template.insert("spec".to_owned(), json!({ "containers": containers }));
    }
    if let Some(at) = restarted {
        template.insert("metadata".to_owned(), json!({"annotations": {RESTARTED: at}}));
    }
    if template.is_empty() {
        return Ok(());
    }
    // Guarded by the version, as the list of containers is replaced as a whole.
    let version = object["metadata"]["resourceVersion"].as_str().map(str::to_owned);
    let unchanged = Precondition { uid: None, resource_version: version };
    let patch = json!({"spec": {"template": template}});
    writer.patch_value(target, Part::Main, &patch, &unchanged, Mode::Real).await?;
    Ok(())
}
