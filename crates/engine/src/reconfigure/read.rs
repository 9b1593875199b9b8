//! One reading of a running cluster: the three documents, the record of a change, Nodes, mirror pods, add-ons and locks. The
//! number of requests does not depend on the number of nodes (up to a page of 500). Owns what is asked and what it means when
//! something is missing; must not judge.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::{KUBE_SYSTEM, config_map, coredns, kube_proxy};
use crate::client::errors::{Cause, classify};
use crate::client::read::{get_value, list_values};
use crate::client::{Client, Error, explain};
use capi_types::key::{Gvk, ObjectRef};
use kubeadm_change::document::{DocumentKind, InputError, Inputs, read_inputs};
use kubeadm_change::record::{ChangeRecord, RECORD, RecordError};
use kubeadm_change::running::{Running, written_at};

/// What kubeadm puts on the pods of its manifests.
const STATIC_PODS: &str = "tier=control-plane";

#[derive(Clone, Debug, Default)]
pub struct ClusterReading {
    /// Documents, and the objects beside them.
    pub inputs: Inputs,
    /// The texts of the documents as they are stored, by the names of their ConfigMaps.
    pub texts: BTreeMap<String, String>,
    pub running: Running,
    /// The change that was carried out last, or is being carried out.
    pub record: Option<ChangeRecord>,
}

/// Why there is nothing to plan from: sentences for an operator.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error(
        "there is no ConfigMap kube-system/kubeadm-config at {0}: the cluster was not made by kubeadm, so nothing here fits it; check the context"
    )]
    NotKubeadm(String),
    #[error("missing right at {server}: {verb} {resource} in kube-system: {reason}")]
    MissingRight { server: String, verb: &'static str, resource: String, reason: String },
    #[error("{0}")]
    Server(String),
    #[error("{}", lines(.0))]
    Documents(Vec<InputError>),
    #[error(transparent)]
    Record(#[from] RecordError),
}

fn lines(errors: &[InputError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// How long a right that is missing at a server that is not ready is asked for again.
const SETTLING: Duration = Duration::from_secs(15);
const AGAIN: Duration = Duration::from_secs(1);

/// Reads a workload cluster; `server` is its address for messages. An API server that has just started refuses everything for
/// some seconds, until it has read who may do what: a right is missing only where the server is ready.
///
/// # Errors
/// [`ReadError`]. What is only useful and cannot be read is a gap of [`Running`].
pub async fn read(client: &Client, server: &str) -> Result<ClusterReading, ReadError> {
    let begun = Instant::now();
    loop {
        match read_once(client, server).await {
            Err(ReadError::MissingRight { .. }) if begun.elapsed() < SETTLING && !is_ready(client).await => {
                tokio::time::sleep(AGAIN).await;
            }
            read => return read,
        }
    }
}

/// Does `/readyz` of the endpoint answer with ok?
pub(super) async fn is_ready(client: &Client) -> bool {
    let Ok(request) = http::Request::get("/readyz").body(Vec::new()) else { return false };
    client.request_text(request).await.is_ok_and(|answer| answer.trim() == "ok")
}

async fn read_once(client: &Client, server: &str) -> Result<ClusterReading, ReadError> {
    let of_record = config_map(RECORD);
    let (cluster, kubelet, proxy, record) = tokio::join!(
        document(client, server, DocumentKind::Cluster),
        document(client, server, DocumentKind::Kubelet),
        document(client, server, DocumentKind::Proxy),
        get_value(client, &of_record),
    );
    let cluster = cluster?.ok_or_else(|| ReadError::NotKubeadm(server.to_owned()))?;
    let maps: Vec<Value> = [Some(cluster), kubelet?, proxy?].into_iter().flatten().collect();
    let record = record.map_err(|error| failed(&error, server, "get", "configmaps"))?;
    let record = record.as_ref().map(ChangeRecord::read).transpose()?;
    let place = format!("{server}, namespace {KUBE_SYSTEM}");
    let files: Vec<_> = maps.iter().map(|map| (place.clone(), map.to_string())).collect();
    let mut inputs = read_inputs(&files).map_err(ReadError::Documents)?;
    let mut gaps = Vec::new();
    inputs.objects = objects(client, server, &mut gaps).await?;
    let mut running = Running::of(&inputs.objects);
    running.gaps = gaps;
    running.proxy_written_at =
        maps.iter().find(|map| map["metadata"]["name"] == "kube-proxy").map(written_at).unwrap_or_default();
    Ok(ClusterReading { texts: maps.iter().filter_map(stored_text).collect(), inputs, running, record })
}

fn stored_text(map: &Value) -> Option<(String, String)> {
    let name = map["metadata"]["name"].as_str()?;
    let text = map["data"][kubeadm_change::record::key_of(name)?].as_str()?;
    Some((name.to_owned(), text.to_owned()))
}

pub(super) fn failed(error: &Error, server: &str, verb: &'static str, resource: &str) -> ReadError {
    let reason = explain(error, server);
    // Apart from other failures: an API server that has just started refuses what it will allow.
    if classify(error) == Cause::Forbidden {
        ReadError::MissingRight { server: server.to_owned(), verb, resource: resource.to_owned(), reason }
    } else {
        ReadError::Server(reason)
    }
}

/// The ConfigMap of a document; `None`: it is not there.
pub(super) async fn document(
    client: &Client,
    server: &str,
    kind: DocumentKind,
) -> Result<Option<Value>, ReadError> {
    let Some((name, _)) = kind.stored_in() else { return Ok(None) };
    let found = get_value(client, &config_map(name)).await;
    let map = found.map_err(|error| failed(&error, server, "get", &format!("configmaps/{name}")))?;
    Ok(map.filter(Value::is_object).map(|map| with_kind(map, "ConfigMap")))
}

/// Items of lists have no kind.
fn with_kind(mut object: Value, kind: &str) -> Value {
    object["kind"] = kind.into();
    if object["apiVersion"].is_null() {
        object["apiVersion"] = "v1".into();
    }
    object
}

/// Everything beside the documents. What may not be seen makes the plan worse and does not prevent it.
async fn objects(client: &Client, server: &str, gaps: &mut Vec<String>) -> Result<Vec<Value>, ReadError> {
    let list = |group: &str, kind: &str, plural: &str, namespace: &'static str, selector: &'static str| {
        let target = super::object(group, kind, plural, namespace, "");
        async move { (target.gvk.clone(), list_values(client, &target.gvk, namespace, selector).await) }
    };
    let one = |target: ObjectRef| async move {
        let found = get_value(client, &target).await;
        (target.gvk, found.map(|found| found.into_iter().collect()))
    };
    let (nodes, pods, locks, proxy, dns) = tokio::join!(
        list("", "Node", "nodes", "", ""),
        list("", "Pod", "pods", KUBE_SYSTEM, STATIC_PODS),
        list("coordination.k8s.io", "Lease", "leases", KUBE_SYSTEM, ""),
        one(kube_proxy()),
        one(coredns()),
    );
    let verbs = ["list", "list", "list", "get", "get"];
    let mut objects = Vec::new();
    for ((gvk, found), verb) in [nodes, pods, locks, proxy, dns].into_iter().zip(verbs) {
        match found {
            Ok(found) => {
                let found = found.into_iter().filter(Value::is_object);
                objects.extend(found.map(|object: Value| with_kind(object, &gvk.kind)));
            }
            Err(error) => gaps.push(gap(&gvk, verb, &error, server)?),
        }
    }
    Ok(objects)
}

fn gap(gvk: &Gvk, verb: &str, error: &Error, server: &str) -> Result<String, ReadError> {
    match classify(error) {
        Cause::Forbidden => {
            Ok(format!("missing right: {verb} {}; what it would show is not known", gvk.plural))
        }
        Cause::NotServed => Ok(format!("{} are not served; what they would show is not known", gvk.plural)),
        _ => Err(ReadError::Server(explain(error, server))),
    }
}
