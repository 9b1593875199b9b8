//! Emptying a node before its kubelet restarts, and giving it back: cordon, evict behind disruption budgets, uncordon. Owns
//! which pods go; must not know why the node is emptied.
//! Source: kubectl `pkg/drain/filters.go` (DaemonSet pods and mirror pods stay, pods without a controller hold it up).

use std::time::Duration;

use serde_json::{Value, json};

use super::node;
use crate::client::write::Part;
use crate::client::{Client, Error, Mode, Precondition, WriteError, Writer, explain};
use capi_types::key::{Gvk, ObjectKey, ObjectRef};
use capstan_base::text::counted;
use kubeadm_change::change_id::ChangeId;
use kubeadm_change::running::DRAINED;

/// A node that could not be emptied; it stays cordoned.
#[derive(Debug, thiserror::Error)]
pub enum DrainError {
    #[error("pod {0} has no controller: nothing would start it again; move it by hand")]
    Unmanaged(String),
    #[error("node {node} was not empty within {waited_s} s: {why}")]
    Late { node: String, waited_s: u64, why: String },
    #[error("the pods of node {node} cannot be listed: {reason}")]
    Unreadable { node: String, reason: String },
    #[error(transparent)]
    Refused(#[from] WriteError),
}

/// How long, and how often is looked.
#[derive(Clone, Copy, Debug)]
pub struct DrainTimes {
    pub poll: Duration,
    pub patience: Duration,
}

/// Cordons a node and evicts its pods, until they are gone. `change` is the id of the plan, which is noted on the Node.
///
/// # Errors
/// [`DrainError`].
pub async fn drain(
    writer: &Writer,
    name: &str,
    change: &ChangeId,
    pace: DrainTimes,
) -> Result<(), DrainError> {
    let mut why = "the server did not answer".to_owned();
    let ended = tokio::time::timeout(pace.patience, empty(writer, name, change, pace.poll, &mut why)).await;
    ended.unwrap_or_else(|_| {
        Err(DrainError::Late { node: name.to_owned(), waited_s: pace.patience.as_secs(), why })
    })
}

/// Until it is empty; `why` is kept in step with what holds it up.
async fn empty(
    writer: &Writer,
    name: &str,
    change: &ChangeId,
    poll: Duration,
    why: &mut String,
) -> Result<(), DrainError> {
    // One patch, so that a node that this change cordoned can always be told from others.
    let cordon = json!({"spec": {"unschedulable": true}, "metadata": {"annotations": {DRAINED: change}}});
    let none = Precondition::default();
    writer.patch_value(&node(name), Part::Main, &cordon, &none, Mode::Real).await?;
    loop {
        let pods = pods_to_go(writer.client(), name).await?;
        if pods.is_empty() {
            return Ok(());
        }
        let verb = if pods.len() == 1 { "is" } else { "are" };
        *why = format!("{} {verb} left", counted(pods.len(), "pod"));
        for pod in &pods {
            // Pods that are going are asked again as well, which changes nothing for them.
            if let Some(words) = evict(writer, pod).await? {
                *why = format!("pod {pod}: {words}");
            }
        }
        tokio::time::sleep(poll).await;
    }
}

/// Lets a node take pods again that [`drain`] emptied; one that somebody else cordoned before stays as it is.
///
/// # Errors
/// The server does not take the patch.
pub async fn give_back(writer: &Writer, name: &str, was_cordoned: bool) -> Result<(), WriteError> {
    let mut patch = json!({"metadata": {"annotations": {DRAINED: null}}});
    if !was_cordoned {
        patch["spec"] = json!({"unschedulable": null});
    }
    writer.patch_value(&node(name), Part::Main, &patch, &Precondition::default(), Mode::Real).await.map(drop)
}

async fn pods_to_go(client: &Client, node: &str) -> Result<Vec<ObjectKey>, DrainError> {
    let unreadable = |error: &Error| DrainError::Unreadable {
        node: node.to_owned(),
        reason: explain(error, "the cluster"),
    };
    // A node's pods are few (110 by default): one page.
    let path = format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}");
    let request = http::Request::get(path).body(Vec::new());
    let request = request
        .map_err(|error| DrainError::Unreadable { node: node.to_owned(), reason: error.to_string() })?;
    let list: Value = client.request(request).await.map_err(|error| unreadable(&error))?;
    let mut found = Vec::new();
    for pod in list["items"].as_array().into_iter().flatten() {
        let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default().to_owned();
        let key = ObjectKey::new(text("namespace"), text("name"));
        match stay(pod) {
            Stay::Yes => {}
            Stay::No => found.push(key),
            Stay::Unmanaged => return Err(DrainError::Unmanaged(key.to_string())),
        }
    }
    Ok(found)
}

#[derive(Debug, PartialEq, Eq)]
enum Stay {
    Yes,
    No,
    Unmanaged,
}

fn stay(pod: &Value) -> Stay {
    let is_over = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let is_mirror = !pod["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_null();
    let owners = pod["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let controller = owners.into_iter().find(|owner| owner["controller"] == true).map(|owner| &owner["kind"]);
    match controller {
        // Before the owner: a mirror pod goes with its file alone, and its controller is the Node.
        _ if is_mirror => Stay::Yes,
        Some(kind) if kind == "DaemonSet" => Stay::Yes,
        // One that has ended has nothing to lose: kubectl evicts it without force, too.
        None if !is_over => Stay::Unmanaged,
        _ => Stay::No,
    }
}

/// `None`: it goes, or is gone. Otherwise what holds it up.
async fn evict(writer: &Writer, pod: &ObjectKey) -> Result<Option<String>, DrainError> {
    let gvk = Gvk {
        group: String::new(),
        version: "v1".to_owned(),
        kind: "Eviction".to_owned(),
        plural: format!("pods/{}/eviction", pod.name),
        namespaced: true,
    };
    let target = ObjectRef { gvk, key: pod.clone(), uid: String::new() };
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"namespace": pod.namespace, "name": pod.name},
    });
    match writer.create_value(&target, &eviction, Mode::Real).await {
        Ok(_) => Ok(None),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) if is_held_up(&error) => Ok(Some(error.message())),
        Err(error) => Err(error.into()),
    }
}

/// A disruption budget says so.
fn is_held_up(error: &WriteError) -> bool {
    matches!(error, WriteError::Refused { source: Error::Api(status), .. } if status.code == 429)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_pods_stay() {
        let pod = |owner: Option<&str>, mirror: bool, phase: &str| {
            let owners: Vec<Value> =
                owner.iter().map(|kind| json!({"kind": kind, "controller": true})).collect();
            let mut pod = json!({"metadata": {"ownerReferences": owners}, "status": {"phase": phase}});
            if mirror {
                pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
            }
            stay(&pod)
        };
        assert_eq!(pod(Some("DaemonSet"), false, "Running"), Stay::Yes);
        assert_eq!(pod(Some("Node"), true, "Running"), Stay::Yes);
        assert_eq!(pod(Some("ReplicaSet"), false, "Running"), Stay::No);
        assert_eq!(pod(None, false, "Succeeded"), Stay::No);
        assert_eq!(pod(None, false, "Running"), Stay::Unmanaged);
    }
}
