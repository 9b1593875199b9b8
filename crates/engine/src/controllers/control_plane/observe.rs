//! Gathers what a control plane's plan may look at and that has to be waited for: Secrets and the workload
//! cluster. Must not judge any of it.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use crate::client::{self, errors::chain};
use crate::controllers::certificates::text_of;
use crate::controllers::external::Reader;
use crate::controllers::{Context, in_place, kubeconfig};
use crate::engine::ReconcileError;
use crate::workload::{Addon, EtcdView, PodScope, WorkloadError};
use capi_rules::etcd::{Member, Members, Membership};
use capi_rules::observe;
use capi_rules::plan::control_plane::{Kubeconfig, Observed, Workload};
use capi_rules::plan::version;
use capi_rules::status::control_plane::certificates::{Certificates, Purpose};
use capi_rules::status::control_plane::{Connection, KUBEADM_BINDINGS, OwnedMachine, Reached};
use capi_types::cluster::Cluster;
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::key::{Gvk, ObjectKey, controller_of};
use capi_types::name_template::RANDOM_BYTES;
use capi_types::names::{SECRET_TYPE, label};

/// Everything about one control plane. What cannot be read is in there as unknown.
pub async fn observe(
    context: &Context,
    object: &Arc<KubeadmControlPlane>,
    cluster: &Arc<Cluster>,
) -> Result<Observed, ReconcileError> {
    prepare(context, object, cluster).await;
    let mut observed = observe::control_plane(&context.caches, object, cluster);
    observed.name_suffix = name_suffix(context, &observed);
    // Only an adoption takes Secrets over; listing them in every pass would be dear.
    if !observed.orphans.is_empty() && !observed.is_deleting() {
        observed.secrets = secrets(context, &ObjectKey::of(&**cluster)).await?;
    }
    if observed.infrastructure_is_provisioned() && !observed.is_deleting() {
        (observed.certificates, observed.unowned_certificates) = certificates(context, &observed).await;
        observed.kubeconfig = stored_kubeconfig(context, &observed).await;
    }
    // Without an address or a Machine no API server can answer.
    if observed.endpoint().is_some() && !observed.machines.is_empty() {
        observed.workload = workload(context, &ObjectKey::of(&**cluster), &observed).await;
    }
    // Last: what is asked depends on everything gathered before.
    if context.asking.is_on() {
        observed.in_place = context.asking.nothing_asked();
        observed.in_place = in_place::of_control_plane(context, &observed).await;
    }
    Ok(observed)
}

/// Metadata of the cluster's Secrets.
async fn secrets(context: &Context, cluster: &ObjectKey) -> Result<Vec<ObjectMeta>, ReconcileError> {
    let selector = format!("{}={}", label::CLUSTER_NAME, cluster.name);
    let client = context.writer.client();
    let found =
        client::read::list_values(client, &Gvk::of::<Secret>(), &cluster.namespace, &selector).await?;
    Ok(found
        .into_iter()
        .filter_map(|secret| serde_json::from_value(secret["metadata"].clone()).ok())
        .collect())
}

/// The random part of the next Machine's name.
fn name_suffix(context: &Context, observed: &Observed) -> String {
    let owner = ("KubeadmControlPlane", &ObjectKey::of(&observed.control_plane));
    let taken: Vec<&str> = observed.machines.iter().map(OwnedMachine::name).collect();
    context.names.parts(owner, &taken, (1, RANDOM_BYTES)).concat()
}

/// The template, and the infrastructure of every Machine, can be read then.
async fn prepare(context: &Context, object: &KubeadmControlPlane, cluster: &Cluster) {
    let key = ObjectKey::of(cluster);
    let machines = context.caches.control_plane_machines.get(&key);
    let hosts = machines.iter().map(|machine| Some(&machine.spec.infrastructure_ref));
    let externals = &context.caches.externals;
    externals.prepare(Reader::KubeadmControlPlane, super::references(object)).await;
    externals.prepare(Reader::KubeadmControlPlaneHosts, hosts).await;
}

async fn secret(context: &Context, observed: &Observed, name: String) -> Result<Option<Secret>, String> {
    let namespace = observed.control_plane.metadata.namespace.clone().unwrap_or_default();
    let key = ObjectKey::new(namespace, name);
    client::get::<Secret>(context.writer.client(), &key)
        .await
        .map_err(|error| format!("Secret {key} cannot be read: {}", chain(&error)))
}

/// Those that are there, and of them those that are to be taken over. Source: `ensureCertificatesOwnerRef`, v1.14.2.
async fn certificates(context: &Context, observed: &Observed) -> (Certificates, Vec<Purpose>) {
    let cluster = observed.cluster.metadata.name.as_deref().unwrap_or_default();
    let uid = observed.control_plane.metadata.uid.as_ref();
    let (mut found, mut unowned) = (Vec::new(), Vec::new());
    for purpose in Purpose::needed(!observed.etcd_is_managed()) {
        match secret(context, observed, purpose.secret_name(cluster)).await {
            Ok(Some(secret)) => {
                found.push(*purpose);
                let is_owned = controller_of(&secret).is_some_and(|owner| Some(&owner.uid) == uid);
                // Secrets of another type were put there by people, and stay theirs.
                if !is_owned && secret.type_.as_deref() == Some(SECRET_TYPE) {
                    unowned.push(*purpose);
                }
            }
            Ok(None) => {}
            Err(error) => return (Certificates::Unreadable(error), Vec::new()),
        }
    }
    (Certificates::Found(found), unowned)
}

async fn stored_kubeconfig(context: &Context, observed: &Observed) -> Kubeconfig {
    let cluster = observed.cluster.metadata.name.as_deref().unwrap_or_default();
    let secret = match secret(context, observed, kubeconfig::secret_name(cluster)).await {
        Ok(Some(secret)) => secret,
        Ok(None) => return Kubeconfig::Missing,
        Err(error) => return Kubeconfig::Unreadable(error),
    };
    let uid = observed.control_plane.metadata.uid.as_ref();
    let text = text_of(&secret, "value").ok();
    Kubeconfig::Found {
        ours: secret.type_.as_deref() == Some(SECRET_TYPE),
        controlled: controller_of(&secret).is_some_and(|owner| Some(&owner.uid) == uid),
        expires: text.and_then(|text| kubeconfig::read(&text)).and_then(|stored| stored.expires),
    }
}

async fn workload(context: &Context, cluster: &ObjectKey, observed: &Observed) -> Workload {
    let state = context.workload.connection(cluster);
    let down = |error: Option<String>| {
        Workload::Down(Connection {
            last_success: state.last_probe_success,
            consecutive_failures: state.consecutive_failures,
            error,
            graces: context.graces,
        })
    };
    if !state.connected {
        return down(None);
    }
    let nodes = match context.workload.nodes(cluster).await {
        Err(WorkloadError::NotConnected) => return down(None),
        Err(error) => Err(error.to_string()),
        Ok(nodes) => with_missed(context, cluster, observed, relevant(&nodes, observed)).await,
    };
    let pods = context.workload.pods(cluster, &PodScope::KubeSystem).await;
    let etcd = if observed.etcd_is_managed() {
        membership(nodes.as_deref().unwrap_or_default(), context.workload.etcd(cluster).await)
    } else {
        Membership::NotAsked
    };
    let configuration = context.workload.kubeadm_config(cluster).await;
    let configuration =
        configuration.map(|map| map.map(|m| cluster_configuration(&m))).map_err(|e| e.to_string());
    let bindings_missing = bindings_missing(context, cluster, observed, &configuration).await;
    let core_dns = core_dns_image(context, cluster, observed).await;
    // A cluster may be without kube-proxy; one that cannot be read is left as it is.
    let proxy = context.workload.addon_image(cluster, Addon::KubeProxy).await;
    Workload::Reached(Box::new(Reached {
        nodes,
        pods: pods.map_err(|e| e.to_string()),
        etcd,
        kubeadm_config: configuration,
        kube_proxy_image: proxy.ok().flatten(),
        core_dns_image: core_dns,
        bindings_missing,
    }))
}

/// Read only where the spec may ask for another one.
async fn core_dns_image(context: &Context, cluster: &ObjectKey, observed: &Observed) -> Option<String> {
    let spec = observed.control_plane.spec.kubeadm_config_spec.as_ref();
    let own = spec.and_then(|spec| spec.cluster_configuration.as_ref())?;
    if own.dns.is_none() && own.image_repository.is_none() {
        return None;
    }
    context.workload.addon_image(cluster, Addon::CoreDns).await.ok().flatten()
}

/// Read only while kubeadm's configuration is of another version. What cannot be read counts as there: kubeadm
/// reports what it misses.
async fn bindings_missing(
    context: &Context,
    cluster: &ObjectKey,
    observed: &Observed,
    configuration: &Result<Option<Value>, String>,
) -> Vec<&'static str> {
    let wanted = &observed.control_plane.spec.version;
    let Ok(Some(configuration)) = configuration else { return Vec::new() };
    if configuration["kubernetesVersion"] == **wanted || version::at_least(wanted, 1, 38) {
        return Vec::new();
    }
    let mut missing = Vec::new();
    for name in KUBEADM_BINDINGS {
        if matches!(context.workload.binds_cluster_role(cluster, name).await, Ok(false)) {
            missing.push(name);
        }
    }
    missing
}

/// Control plane Nodes, and those that Machines refer to although they lost the label.
fn relevant(nodes: &[Arc<Node>], observed: &Observed) -> Vec<Node> {
    use capi_rules::status::control_plane::pods::is_control_plane;
    let referred =
        |node: &Node| observed.machines.iter().any(|m| m.node_name() == node.metadata.name.as_deref());
    let relevant = nodes.iter().filter(|node| is_control_plane(node) || referred(node));
    relevant.map(|node| (**node).clone()).collect()
}

/// With the Nodes that Machines refer to and that are not among them, if the API itself has them.
async fn with_missed(
    context: &Context,
    cluster: &ObjectKey,
    observed: &Observed,
    mut nodes: Vec<Node>,
) -> Result<Vec<Node>, String> {
    for name in observed.machines.iter().filter_map(OwnedMachine::node_name) {
        if nodes.iter().any(|node| node.metadata.name.as_deref() == Some(name)) {
            continue;
        }
        let found = context.workload.node(cluster, name).await.map_err(|error| error.to_string())?;
        nodes.extend(found.map(Arc::unwrap_or_clone));
    }
    Ok(nodes)
}

fn membership(nodes: &[Node], answer: Result<EtcdView, WorkloadError>) -> Membership {
    match answer {
        // The member that was asked may be behind: a leader
        // that its list lacks cannot be relied on.
        Ok(view) if view.members.iter().all(|m| Some(m.id) != view.leader) => Membership::NoLeader,
        Ok(view) => Membership::Known(Members {
            list: view
                .members
                .into_iter()
                .map(|m| Member { id: m.id, name: m.name, learner: m.learner, alarms: m.alarms })
                .collect(),
            leader: view.leader,
        }),
        // Without control plane Nodes no member was asked, whatever the error is.
        Err(_) if nodes.is_empty() => Membership::NoNodes,
        Err(WorkloadError::NoEtcdLeader) => Membership::NoLeader,
        Err(WorkloadError::EtcdMembers(cause)) => Membership::ListFailed(cause),
        Err(WorkloadError::EtcdAlarms(cause)) => Membership::AlarmsFailed(cause),
        Err(error) => Membership::NoClient(error.to_string()),
    }
}

/// The configuration in the map; empty when it has none or it is not YAML.
fn cluster_configuration(map: &ConfigMap) -> Value {
    let text = map.data.as_ref().and_then(|data| data.get("ClusterConfiguration"));
    text.and_then(|text| serde_saphyr::from_str(text).ok()).unwrap_or_else(|| json!({}))
}
