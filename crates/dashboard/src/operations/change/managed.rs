//! A cluster whose control plane a KubeadmControlPlane looks after: the patch of that object, and how far its rollout is. Owns
//! these requests to the management cluster; what may be changed is `change::plan`'s.

use std::fmt::Write as _;

use serde_json::Value;

use super::source::ManagedCluster;
use capstan_engine::client::write::Part;
use capstan_engine::client::{Mode, Precondition, Writer};

/// Patches the KubeadmControlPlane, if nobody changed it since it was read.
///
/// # Errors
/// Why not, in a sentence.
pub async fn patch(managed: &ManagedCluster, patch: &Value, manager: &str) -> Result<String, String> {
    let version = managed.object["metadata"]["resourceVersion"].as_str().map(str::to_owned);
    let unchanged = Precondition { uid: None, resource_version: version };
    let writer = Writer::new(managed.management.client.clone(), manager);
    let written = writer.patch_value(&managed.control_plane, Part::Main, patch, &unchanged, Mode::Real).await;
    match written {
        Ok(_) => Ok(format!(
            "{} is patched; `capstan change status --cluster` and `capstan wait` show how far it is\n",
            managed.control_plane
        )),
        Err(error) if error.is_conflict() => Err(format!(
            "{} was changed by somebody else since it was read: nothing is written; plan again",
            managed.control_plane
        )),
        Err(error) => Err(error.to_string()),
    }
}

/// How far its rollout is, in its own words.
pub fn state_words(managed: &ManagedCluster) -> String {
    let status = &managed.object["status"];
    let count =
        |field: &str| status[field].as_u64().map_or_else(|| "?".to_owned(), |count| count.to_string());
    let mut text = format!(
        "{}: {} of {} Machines are up to date, {} available\n",
        managed.control_plane,
        count("upToDateReplicas"),
        count("replicas"),
        count("availableReplicas")
    );
    let conditions = status["conditions"].as_array().into_iter().flatten();
    for condition in conditions.filter(|condition| condition["type"] == "RollingOut") {
        let message = condition["message"].as_str().unwrap_or_default();
        let _ = writeln!(
            text,
            "  RollingOut is {}: {message}",
            condition["status"].as_str().unwrap_or("unknown")
        );
    }
    text
}
