//! kubeadm's files of one node: what its InitConfiguration has to say, and the configuration of the cluster. Owns their text, and
//! where they and what kubeadm makes from them stand on the node: only under names with the id of a plan, so that nothing that is
//! left of another one is ever used.

use serde::Serialize;
use serde_json::{Value, json};

use super::convert::{ConvertError, to_stored};
use super::host_folder::folder;
use super::kind::V1BETA3;
use super::render::{ClusterSettings, HostFacts};
use super::request::WantedDocument;
use super::{way_back, yaml};

/// Which configuration kubeadm is given on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeFileKind {
    /// The configuration as it is going to be.
    Cluster,
    /// The same, with the folder of new certificates in the place of that of the certificates in use.
    Certificates,
    /// The configuration as it was before the change, the same on every node.
    Before,
    /// What puts back, on a host alone, what stood there before the change.
    WayBack,
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
            NodeFileKind::Cluster => ".yaml",
            NodeFileKind::Certificates => "-pki.yaml",
            NodeFileKind::Before => return Self::of_all(kind, plan, "before.yaml"),
            NodeFileKind::WayBack => return Self::of_all(kind, plan, "back.sh"),
        };
        Self { kind, path: format!("{}/{node}{end}", folder(plan)), name: format!("{plan}-{node}{end}") }
    }

    fn of_all(kind: NodeFileKind, plan: &str, name: &str) -> Self {
        Self { kind, path: format!("{}/{name}", folder(plan)), name: format!("{plan}-{name}") }
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
        match self.kind {
            NodeFileKind::WayBack => return Ok(way_back::script(plan)),
            NodeFileKind::Before => {
                return to_stored(cluster.kind, &cluster.version, &cluster.old)
                    .map(|before| yaml::write(&before));
            }
            NodeFileKind::Cluster | NodeFileKind::Certificates => {}
        }
        let mut node = json!({"name": host.name});
        // On a host with two container runtimes kubeadm does not choose one.
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
        keep_initial_cluster(&mut configuration, host, &cluster.version);
        if let (NodeFileKind::Certificates, Ok(settings)) =
            (self.kind, ClusterSettings::new(&cluster.new, None))
        {
            // kubeadm keeps certificates that it finds: only in an empty folder it makes new ones.
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
    // A tag on one side is a wish about etcd: what runs may be on its way between both.
    if sides.iter().all(is_free) {
        configuration["etcd"]["local"]["imageTag"] = tag.as_str().into();
    }
}

/// A member that joined stays one: kubeadm would name it alone in its manifest, and a member that lost its data would begin
/// an etcd of its own instead of refusing to start.
/// Source: kubeadm `app/phases/etcd/local.go` (`CreateLocalEtcdStaticPodManifestFile`, `getEtcdCommand`), v1.36.
fn keep_initial_cluster(configuration: &mut Value, host: &HostFacts, version: &str) {
    if host.joined_members.is_empty() || !configuration["etcd"]["external"].is_null() {
        return;
    }
    let arguments = &mut configuration["etcd"]["local"]["extraArgs"];
    if arguments.is_null() {
        *arguments = if version == V1BETA3 { json!({}) } else { json!([]) };
    }
    let members = host.joined_members.join(",");
    for (name, value) in [("initial-cluster", members.as_str()), ("initial-cluster-state", "existing")] {
        match arguments {
            // What the user gives for these flags stays.
            Value::Array(list) if list.iter().all(|argument| argument["name"] != name) => {
                list.push(json!({"name": name, "value": value}));
            }
            Value::Object(map) if !map.contains_key(name) => {
                map.insert(name.to_owned(), value.into());
            }
            _ => {}
        }
    }
}

/// The folder in which certificates are made before they take the place of those in use: beside them, so that a move is one
/// rename.
pub fn new_certificates(certificates_dir: &str, plan: &str) -> String {
    format!("{certificates_dir}/capstan-{plan}")
}
