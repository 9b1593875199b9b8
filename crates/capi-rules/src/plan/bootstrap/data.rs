//! The text that a machine boots with and the secret that holds it.
//! Source: `handleClusterNotInitialized`, `joinControlplane`, `joinWorker`, `storeBootstrapData`,
//! `kubeadmconfig_controller.go`, v1.14.2.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use k8s_openapi::api::core::v1::{Secret, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::json;

use super::cloud_init::{self, File, KubeadmPhase};
use super::discovery;
use super::encoding::yaml;
use super::file_template;
use super::ignition;
use super::kubeadm::{Form, cluster_configuration, init_configuration, join_configuration};
use crate::plan::{Write, ownership};
use crate::status::bootstrap::{Certificates, Failure, Observed, SecretValue};
use crate::status::conditions::wording::plural;
use crate::status::contract::External;
use crate::status::control_plane::certificates::Purpose;
use capi_types::key::{Gvk, ObjectKey, ObjectRef};
use capi_types::kubeadm::JoinConfiguration;
use capi_types::names::{SECRET_TYPE, label};
use k8s_machinery::version;

/// User data for `kubeadm init`.
pub(super) fn init(o: &Observed) -> Result<String, Failure> {
    let (form, version) = form(o)?;
    let spec = &o.config.spec;
    let init = spec.init_configuration.clone().unwrap_or_default();
    // v1beta3 of kubeadm has this timeout in ClusterConfiguration, the types here in
    // InitConfiguration.
    let health_s = init.timeouts.as_ref().and_then(|t| t.control_plane_component_health_check_seconds);
    let cluster = spec.cluster_configuration.clone().unwrap_or_default();
    let documents = [
        cluster_configuration(form, &cluster, health_s, &o.cluster, version),
        init_configuration(form, &init),
    ];
    let mut files = certificate_files(o);
    files.extend(user_files(o)?);
    render(o, KubeadmPhase::Init, files, yaml(&documents)?)
}

/// User data for `kubeadm join`.
pub(super) fn join(o: &Observed, join: &JoinConfiguration, control_plane: bool) -> Result<String, Failure> {
    let (form, _) = form(o)?;
    let mut copy = join.clone();
    let mut files = Vec::new();
    if control_plane {
        files.extend(certificate_files(o));
    } else {
        // Only in what the machine reads; the stored object does not change.
        let taints = copy.node_registration.get_or_insert_default().taints.get_or_insert_default();
        // The taint keeps pods away until the Machine's labels are on the Node; the rules of the
        // Machine take it off then.
        taints.push(Taint {
            key: "node.cluster.x-k8s.io/uninitialized".to_owned(),
            effect: "NoSchedule".to_owned(),
            ..Taint::default()
        });
    }
    files.extend(user_files(o)?);
    files.extend(discovery::file(join)?);
    render(o, KubeadmPhase::Join, files, yaml(&[join_configuration(form, &copy)])?)
}

/// Files and kubeadm's configuration in the format that is asked for.
fn render(
    o: &Observed,
    phase: KubeadmPhase,
    mut files: Vec<File>,
    kubeadm: String,
) -> Result<String, Failure> {
    let (spec, passwords) = (&o.config.spec, passwords(o)?);
    let rendered = match format(o) {
        IGNITION => ignition::render(phase, spec, files, &kubeadm, &passwords),
        _ => {
            // After the files of users: one of theirs at this path must not replace it.
            files.push(File::root(phase.config_path(), "0640", kubeadm));
            cloud_init::render(phase, spec, files, &passwords)
        }
    };
    rendered.map_err(Failure::Other)
}

const IGNITION: &str = "ignition";

fn format(o: &Observed) -> &str {
    o.config.spec.format.as_deref().filter(|format| !format.is_empty()).unwrap_or("cloud-config")
}

fn form(o: &Observed) -> Result<(Form, &str), Failure> {
    let version = o.machine.spec.version.as_deref().unwrap_or_default();
    Form::of(version).map(|form| (form, version)).map_err(Failure::Other)
}

/// Every key pair at the place where kubeadm looks for it. Those around an external etcd are where the configuration says;
/// the key of its authority stays with whoever keeps that etcd.
fn certificate_files(o: &Observed) -> Vec<File> {
    let Certificates::Found(found) = &o.certificates else { return Vec::new() };
    let configuration = o.config.spec.cluster_configuration.as_ref();
    let external = configuration.and_then(|c| c.etcd.as_ref()).and_then(|etcd| etcd.external.as_ref());
    let directory =
        configuration.and_then(|c| c.certificates_dir.as_deref()).unwrap_or("/etc/kubernetes/pki");
    let below = |name: &str| format!("{directory}/{name}");
    let etcd = external.map_or_else(
        || (below("etcd/ca.crt"), Some(below("etcd/ca.key"))),
        |external| (external.ca_file.clone(), None),
    );
    let client = external.map_or_else(
        || (below("apiserver-etcd-client.crt"), Some(below("apiserver-etcd-client.key"))),
        |external| (external.cert_file.clone(), Some(external.key_file.clone())),
    );
    let mut files = Vec::new();
    for (purpose, (certificate, key)) in [
        (Purpose::Ca, (below("ca.crt"), Some(below("ca.key")))),
        (Purpose::Etcd, etcd),
        (Purpose::FrontProxy, (below("front-proxy-ca.crt"), Some(below("front-proxy-ca.key")))),
        (Purpose::ServiceAccount, (below("sa.pub"), Some(below("sa.key")))),
        (Purpose::ApiserverEtcdClient, client),
    ] {
        let Some((certificate_pem, key_pem)) = found.get(&purpose) else { continue };
        for (path, permissions, content) in
            [(Some(certificate), "0640", certificate_pem), (key, "0600", key_pem)]
        {
            // An authority may be kept without its key; an
            // empty file would make kubeadm fail on it.
            if let Some(path) = path.filter(|_| !content.is_empty()) {
                files.push(File::root(&path, permissions, content.as_str()));
            }
        }
    }
    files
}

fn user_files(o: &Observed) -> Result<Vec<File>, Failure> {
    let version = control_plane_version(o).map_err(Failure::Files)?;
    o.config
        .spec
        .files
        .iter()
        .map(|file| {
            let content = match (&file.content_from, &file.content) {
                (Some(from), _) => secret_value(o, &from.secret.name, &from.secret.key)
                    .map_err(|error| Failure::Files(format!("failed to resolve file source: {error}")))?,
                (None, content) => content.clone().unwrap_or_default(),
            };
            let content = match file.content_format.as_deref() {
                Some("Template") => {
                    file_template::render(&file.path, &content, &version).map_err(Failure::Files)?
                }
                _ => content,
            };
            Ok(File {
                path: file.path.clone(),
                encoding: file.encoding.clone(),
                owner: file.owner.clone(),
                permissions: file.permissions.clone(),
                append: file.append,
                content,
            })
        })
        .collect()
}

/// Complete, with a leading `v`; empty when the Cluster names no control plane object, or that has none.
/// One that is there and cannot be read (of a kind unknown here) counts as without: files seldom ask.
fn control_plane_version(o: &Observed) -> Result<String, String> {
    let found = match &o.control_plane {
        External::NotSet | External::Unreadable { .. } => return Ok(String::new()),
        External::Found(found) => found,
        External::NotFound { kind } => {
            let reference = o.cluster.spec.control_plane_ref.clone().unwrap_or_default();
            let namespace = o.config.metadata.namespace.as_deref().unwrap_or_default();
            let (name, group) = (reference.name, reference.api_group);
            let resource = plural(&kind.to_lowercase());
            return Err(format!(
                "failed to read control plane version: failed to retrieve {kind} {namespace}/{name}: \
                 {resource}.{group} {name:?} not found"
            ));
        }
    };
    let Some(text) = found.text(&["spec", "version"]) else { return Ok(String::new()) };
    let version = version::parse(text)
        .ok_or_else(|| format!("failed to parse control plane version {text:?} for template data"))?;
    Ok(format!("v{version}"))
}

fn passwords(o: &Observed) -> Result<BTreeMap<String, String>, Failure> {
    let from_secrets = o.config.spec.users.iter().filter_map(|user| Some((user, user.passwd_from.as_ref()?)));
    from_secrets
        .map(|(user, from)| {
            let value = secret_value(o, &from.secret.name, &from.secret.key)
                .map_err(|error| Failure::Users(format!("failed to resolve passwd source: {error}")))?;
            Ok((user.name.clone(), value))
        })
        .collect()
}

fn secret_value(o: &Observed, name: &str, key: &str) -> Result<String, String> {
    let namespace = o.config.metadata.namespace.as_deref().unwrap_or_default();
    match o.secret_values.get(&(name.to_owned(), key.to_owned())) {
        Some(SecretValue::Text(text)) => Ok(text.clone()),
        Some(SecretValue::NotText) => Err(format!("key {key} of Secret {namespace}/{name} is not text")),
        Some(SecretValue::NoSuchKey) => Err(format!("secret references non-existent secret key: {key:?}")),
        None => Err(format!("secret not found: {namespace}/{name}: secrets {name:?} not found")),
    }
}

/// Creates or updates the secret with the name of the config.
pub(super) fn secret_write(o: &Observed, text: &str) -> Write {
    let key = ObjectKey::of(&o.config);
    let object = ObjectRef { gvk: Gvk::of::<Secret>(), key: key.clone(), uid: String::new() };
    let data = json!({"value": BASE64.encode(text), "format": BASE64.encode(format(o))});
    let metadata = json!({
        "labels": {label::CLUSTER_NAME: o.machine.spec.cluster_name},
        // As upstream: the config may go before its data does.
        "ownerReferences": [OwnerReference { block_owner_deletion: None, ..ownership::owner(&o.config, true) }],
    });
    // Left by an earlier pass that ended before the status named it, or kept for a new token.
    if o.data_secret.is_some() {
        return Write::Patch { object, body: json!({"metadata": metadata, "data": data}) };
    }
    let mut content = json!({
        "apiVersion": "v1", "kind": "Secret", "type": SECRET_TYPE, "metadata": metadata, "data": data,
    });
    content["metadata"]["name"] = json!(key.name);
    content["metadata"]["namespace"] = json!(key.namespace);
    Write::Create { object, content, manager: None }
}
