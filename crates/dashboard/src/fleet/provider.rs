//! What clusterctl notes of the providers that it installs, of which one is Cluster API itself. Must not know how it is read.

use serde_json::Value;

/// Of the notes; a server where clusterctl never was does not have it.
pub const PROVIDERS_GROUP: &str = "clusterctl.cluster.x-k8s.io";
/// One note.
pub const PROVIDER_KIND: &str = "Provider";

/// The version of Cluster API, where this is the note about it.
pub fn cluster_api_of(object: &Value) -> Option<String> {
    let is_core = object["kind"] == PROVIDER_KIND && object["providerName"] == "cluster-api";
    object["version"].as_str().filter(|_| is_core).map(str::to_owned)
}
