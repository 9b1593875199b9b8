//! How a joining machine finds and trusts the API server: by token and certificate hash, or by a
//! kubeconfig in a file. Owns what is filled in; must not know how it is stored.
//! Source: `reconcileDiscovery`, `reconcileDiscoveryFile`, `resolveDiscoveryKubeConfig`,
//! `kubeadmconfig_controller.go`, v1.14.2.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use super::cloud_init::File;
use super::encoding::{public_key_hash, yaml};
use super::kubeadm;
use super::why::Why;
use crate::status::bootstrap::{Certificates, Failure, Observed};
use crate::status::control_plane::certificates::Purpose;
use capi_types::kubeadm::{
    BootstrapTokenDiscovery, ExecCredential, FileDiscoveryKubeconfig, JoinConfiguration, KubeconfigCluster,
    KubeconfigUser,
};

/// What a completed configuration still needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Completion {
    Nothing,
    /// The workload cluster has to store the token, which is new.
    TokenIsNew,
}

/// Completes `join`. What a user has set stays.
///
/// # Errors
/// Why the machine cannot join yet.
pub(super) fn complete(o: &Observed, join: &mut JoinConfiguration) -> Result<Completion, Why> {
    let discovery = join.discovery.get_or_insert_default();
    // kubeadm takes one of the two; with a file no token is needed.
    if let Some(file) = &mut discovery.file {
        return match &mut file.kube_config {
            Some(kubeconfig) => complete_file(o, kubeconfig),
            // The user puts the file there, so nothing of it is ours.
            None => Ok(Completion::Nothing),
        };
    }
    complete_token(o, discovery.bootstrap_token.get_or_insert_default())
}

fn complete_token(o: &Observed, discovery: &mut BootstrapTokenDiscovery) -> Result<Completion, Why> {
    if discovery.ca_cert_hashes.is_empty()
        && let Some(pem) = authority(o)
    {
        let error = "unable to parse ca certificate";
        let hash = public_key_hash(pem).ok_or_else(|| Why::Unusable { error: error.to_owned() })?;
        discovery.ca_cert_hashes.push(hash);
    }
    if discovery.api_server_endpoint.is_none() {
        discovery.api_server_endpoint = Some(endpoint(o)?);
    }
    // Without an authority to pin kubeadm would refuse to join unless it may skip the check.
    if discovery.ca_cert_hashes.is_empty() {
        discovery.unsafe_skip_ca_verification = Some(true);
    }
    if discovery.token.as_ref().is_some_and(|token| !token.is_empty()) {
        return Ok(Completion::Nothing);
    }
    // Planned and not drawn: planners have no chance of their own.
    discovery.token = Some(o.new_token.clone());
    Ok(Completion::TokenIsNew)
}

fn complete_file(o: &Observed, kubeconfig: &mut FileDiscoveryKubeconfig) -> Result<Completion, Why> {
    let cluster = kubeconfig.cluster.get_or_insert_default();
    // The endpoint is asked for only then: a user's own server need not wait for it.
    if cluster.server.is_none() {
        cluster.server = Some(format!("https://{}", endpoint(o)?));
    }
    if cluster.certificate_authority_data.is_none() {
        cluster.certificate_authority_data = authority(o).map(|pem| BASE64.encode(pem));
    }
    Ok(Completion::Nothing)
}

fn endpoint(o: &Observed) -> Result<String, Why> {
    kubeadm::endpoint(&o.cluster).ok_or(Why::WaitingForEndpoint)
}

/// The certificate of the cluster's authority, PEM.
fn authority(o: &Observed) -> Option<&str> {
    let Certificates::Found(found) = &o.certificates else { return None };
    found.get(&Purpose::Ca).map(|(pem, _)| pem.as_str())
}

/// The file that kubeadm reads, when its content is ours to write.
pub(super) fn file(join: &JoinConfiguration) -> Result<Option<File>, Failure> {
    let discovery = join.discovery.as_ref().and_then(|d| d.file.as_ref());
    let Some((file, kubeconfig)) = discovery.and_then(|f| Some((f, f.kube_config.as_ref()?))) else {
        return Ok(None);
    };
    // Completed before by `complete_file`.
    let cluster = kubeconfig.cluster.clone().unwrap_or_default();
    let document = json!({
        "clusters": [{"name": "default", "cluster": of_cluster(&cluster)}],
        "contexts": [{"name": "default", "context": {"cluster": "default", "user": "default"}}],
        "current-context": "default",
        "users": [{"name": "default", "user": of_user(&kubeconfig.user)}],
    });
    Ok(Some(File::root(&file.kube_config_path, "0640", yaml(&[document])?)))
}

fn of_cluster(cluster: &KubeconfigCluster) -> Value {
    known([
        ("server", json!(cluster.server)),
        ("tls-server-name", json!(cluster.tls_server_name)),
        // `false` is left out, as Go's `omitempty` leaves it out.
        ("insecure-skip-tls-verify", json!(cluster.insecure_skip_tls_verify.filter(|skip| *skip))),
        ("certificate-authority-data", json!(cluster.certificate_authority_data)),
        ("proxy-url", json!(cluster.proxy_url)),
    ])
}

fn of_user(user: &KubeconfigUser) -> Value {
    let provider = user.auth_provider.as_ref();
    let provider = provider.map(|p| json!({"name": p.name, "config": p.config}));
    known([("auth-provider", json!(provider)), ("exec", json!(user.exec.as_ref().map(of_exec)))])
}

fn of_exec(exec: &ExecCredential) -> Value {
    let form = exec.api_version.as_deref().unwrap_or("client.authentication.k8s.io/v1");
    json!({
        "apiVersion": form,
        "command": exec.command,
        "args": exec.args,
        "env": exec.env,
        "provideClusterInfo": exec.provide_cluster_info == Some(true),
        // A machine boots unattended: a prompt would wait for ever.
        "interactiveMode": "Never",
    })
}

/// Without what is not set.
fn known<const N: usize>(fields: [(&str, Value); N]) -> Value {
    fields
        .into_iter()
        .filter(|(_, value)| !value.is_null())
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}
