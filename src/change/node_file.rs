//! kubeadm's file of one node: what its InitConfiguration has to say, and the configuration of the cluster. Owns the text; must
//! not know where it is put.

use serde_json::json;

use super::convert::{ConvertError, to_stored};
use super::render::HostFacts;
use super::request::WantedDocument;
use super::yaml;

/// The file for a control plane node. Without its name and address kubeadm would guess them.
///
/// # Errors
/// The configuration cannot be written in its version.
pub fn text(host: &HostFacts, cluster: &WantedDocument) -> Result<String, ConvertError> {
    let init = json!({
        "apiVersion": format!("kubeadm.k8s.io/{}", cluster.version), "kind": "InitConfiguration",
        "nodeRegistration": {"name": host.name},
        "localAPIEndpoint": {"advertiseAddress": host.address, "bindPort": host.port},
    });
    let configuration = to_stored(cluster.kind, &cluster.version, &cluster.new)?;
    Ok(format!("{}---\n{}", yaml::write(&init), yaml::write(&configuration)))
}
