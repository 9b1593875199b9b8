//! kubeadm's files of one node: what its InitConfiguration has to say, and the configuration of the cluster. Owns their text, and
//! where they and what kubeadm makes from them stand on the node: only under names with the id of a plan, so that nothing that is
//! left of another one is ever used.

use serde::Serialize;
use serde_json::{Value, json};

use super::convert::{ConvertError, to_stored};
use super::render::{ClusterSettings, HostFacts};
use super::request::WantedDocument;
use super::yaml;

/// Which configuration kubeadm is given on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeFileKind {
    /// The configuration as it is going to be.
    Cluster,
    /// The same, with the folder of new certificates in the place of that of the certificates in use.
    Certificates,
}

/// A file that the commands of a step name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeFile {
    /// What its content is made from.
    pub kind: NodeFileKind,
    /// Where it stands on the node.
    pub path: String,
    /// What `--files` calls it.
    pub name: String,
}

impl NodeFile {
    /// Its path has plan and node in it, so that two changes never share a file.
    pub fn of(kind: NodeFileKind, plan: &str, node: &str) -> Self {
        let end = match kind {
            NodeFileKind::Cluster => "",
            NodeFileKind::Certificates => "-pki",
        };
        Self {
            kind,
            path: format!("{}/{node}{end}.yaml", folder(plan)),
            name: format!("{plan}-{node}{end}.yaml"),
        }
    }

    /// Its text. Without its name and address kubeadm would guess those of the node.
    ///
    /// # Errors
    /// The configuration cannot be written in its version.
    pub fn text(
        &self,
        plan: &str,
        host: &HostFacts,
        cluster: &WantedDocument,
    ) -> Result<String, ConvertError> {
        let mut node = json!({"name": host.name});
        if let Some(socket) = &host.cri_socket {
            node["criSocket"] = socket.as_str().into();
        }
        let init = json!({
            "apiVersion": format!("kubeadm.k8s.io/{}", cluster.version), "kind": "InitConfiguration",
            "nodeRegistration": node,
            "localAPIEndpoint": {"advertiseAddress": host.address, "bindPort": host.port},
        });
        let mut configuration = to_stored(cluster.kind, &cluster.version, &cluster.new)?;
        keep_etcd_tag(&mut configuration, host, cluster);
        if let (NodeFileKind::Certificates, Ok(settings)) =
            (self.kind, ClusterSettings::new(&cluster.new, None))
        {
            configuration["certificatesDir"] = new_certificates(settings.certificates_dir(), plan).into();
        }
        Ok(format!("{}---\n{}", yaml::write(&init), yaml::write(&configuration)))
    }
}

/// Without a tag kubeadm would write that of its own patch release: an upgrade of etcd that nobody asked for.
fn keep_etcd_tag(configuration: &mut Value, host: &HostFacts, cluster: &WantedDocument) {
    let Some(tag) = &host.etcd_tag else { return };
    let etcd = |value: &Value| value["etcd"].clone();
    let sides = [etcd(&cluster.old), etcd(&cluster.new)];
    let is_free = |etcd: &Value| {
        etcd["external"].is_null() && matches!(etcd["local"]["imageTag"].as_str(), None | Some(""))
    };
    if sides.iter().all(is_free) {
        configuration["etcd"]["local"]["imageTag"] = tag.as_str().into();
    }
}

/// The folder on a node for files of a plan, and for what it moves away.
pub fn folder(plan: &str) -> String {
    format!("/etc/kubernetes/tmp/capstan-{plan}")
}

/// The folder in which certificates are made before they take the place of those in use: beside them, so that a move is one
/// rename.
pub fn new_certificates(certificates_dir: &str, plan: &str) -> String {
    format!("{certificates_dir}/capstan-{plan}")
}
