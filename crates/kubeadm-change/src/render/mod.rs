//! What kubeadm writes from a configuration on one node: static pods, names in certificates, images of add-ons.
//! Owns the artefacts and the defaults of ClusterConfiguration; must not know a change nor a live pod.
//!
//! Source: kubeadm `phases/controlplane`, `phases/etcd`, `images`, `pkiutil`. Not rendered: probes, resources and
//! labels, which no field of the configuration reaches except `timeouts`; patches of a folder on the node; proxy
//! variables of the shell that runs kubeadm (see `HostFacts`).

mod certificates;
mod control_plane;
mod etcd;
mod flags;
mod release;
mod static_pod;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::image;
use super::network::parse_ip;
pub use release::Release;
pub use static_pod::{Mount, StaticPod, Volume};

/// The components that run as static pods, in the order in which kubeadm restarts them.
pub const ETCD: &str = "etcd";
/// Also the value of the pods' label `component`.
pub const API_SERVER: &str = "kube-apiserver";
/// Also the value of the pods' label `component`.
pub const CONTROLLER_MANAGER: &str = "kube-controller-manager";
/// Also the value of the pods' label `component`.
pub const SCHEDULER: &str = "kube-scheduler";

/// Folders with certificate authorities that kubeadm mounts when the host has them.
pub const DEBIAN_CA_FOLDERS: [&str; 3] =
    ["/etc/ca-certificates", "/usr/local/share/ca-certificates", "/usr/share/ca-certificates"];

/// Of an API server.
pub(super) const PORT_DEFAULT: u16 = 6443;

/// A control plane node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFacts {
    /// Of the Node.
    pub name: String,
    /// The API server's advertise address.
    pub address: String,
    /// The API server's port; 6443 unless the node was made with another.
    pub port: u16,
    /// Which of the known folders of certificate authorities exist on the host.
    pub ca_folders: Vec<String>,
    /// `*_proxy` variables of the shell that ran kubeadm.
    pub proxy_variables: Vec<(String, String)>,
    /// The members at the time when this node joined, as `NAME=PEER-URL`; empty on the first node.
    pub joined_members: Vec<String>,
    /// The key of the certificate authority is not on the node.
    pub external_ca: bool,
    /// The socket of its container runtime, where its Node says it.
    pub cri_socket: Option<String>,
    /// The tag of the image with which its etcd runs.
    pub etcd_tag: Option<String>,
}

impl HostFacts {
    /// A node as kubeadm finds it on Debian, made first. An address has its canonical form, as kubeadm writes it.
    pub fn new(name: &str, address: &str) -> Self {
        Self {
            name: name.to_owned(),
            address: parse_ip(address).map_or_else(|| address.to_owned(), |address| address.to_string()),
            port: PORT_DEFAULT,
            ca_folders: DEBIAN_CA_FOLDERS.map(str::to_owned).into(),
            proxy_variables: Vec::new(),
            joined_members: Vec::new(),
            external_ca: false,
            cri_socket: None,
            etcd_tag: None,
        }
    }

    /// The node that an InitConfiguration describes, when it names it and its address.
    pub fn of_init(init: &Value) -> Option<Self> {
        let name = init["nodeRegistration"]["name"].as_str()?;
        let mut host = Self::new(name, init["localAPIEndpoint"]["advertiseAddress"].as_str()?);
        host.take_port(init);
        Some(host)
    }

    /// The port of an InitConfiguration; 0 stands for kubeadm's own.
    pub fn take_port(&mut self, init: &Value) {
        let port = init["localAPIEndpoint"]["bindPort"].as_u64().and_then(|port| u16::try_from(port).ok());
        self.port = port.filter(|port| *port != 0).unwrap_or(PORT_DEFAULT);
    }

    fn is_ipv6(&self) -> bool {
        self.address.contains(':')
    }

    /// The loopback address of the node's family.
    fn loopback(&self) -> &'static str {
        if self.is_ipv6() { "::1" } else { "127.0.0.1" }
    }
}

/// Everything kubeadm writes on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeArtefacts {
    /// By component; etcd only where it runs as a static pod.
    pub static_pods: BTreeMap<&'static str, StaticPod>,
    /// The names of each certificate, sorted.
    pub certificates: BTreeMap<&'static str, Vec<String>>,
}

/// The images of the add-ons, which are written once for the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AddonImages {
    /// With its tag.
    #[serde(rename = "kube-proxy")]
    pub kube_proxy: String,
    /// With its tag.
    pub coredns: String,
}

/// Why nothing can be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// What `kubernetesVersion` says.
    #[error("kubernetesVersion is `{0}`; expected the version of the cluster, such as v1.36.0")]
    Version(String),
    /// What `networking.serviceSubnet` says.
    #[error("networking.serviceSubnet is `{0}`; expected a range such as 10.96.0.0/12")]
    ServiceSubnet(String),
    /// A static pod needs the address of its host.
    #[error("the address of node {node} is `{address}`; expected an IP address")]
    Address {
        /// Name of the Node.
        node: String,
        /// As it was read.
        address: String,
    },
}

/// ClusterConfiguration with kubeadm's defaults, as rendering reads it.
#[derive(Clone, Debug)]
pub struct ClusterSettings<'c> {
    value: &'c Value,
    /// Of the kubeadm that writes.
    pub release: Release,
    kubernetes_minor: u64,
    /// Images for which no document names a tag keep that with which they run: kubeadm's own changes with its patch releases.
    keeps: KeptTags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct KeptTags {
    etcd: bool,
    coredns: bool,
}

impl<'c> ClusterSettings<'c> {
    /// `kubeadm` is the release that writes; that of the cluster's own version when it is not known.
    ///
    /// # Errors
    /// [`RenderError::Version`] when the document names no version.
    pub fn new(value: &'c Value, kubeadm: Option<Release>) -> Result<Self, RenderError> {
        let text = value["kubernetesVersion"].as_str().unwrap_or_default();
        let own = Release::of(text).ok_or_else(|| RenderError::Version(text.to_owned()))?;
        let names = |path: [&str; 3]| {
            // Both paths have one length, so an empty name stands for no step.
            let tag = path.iter().filter(|name| !name.is_empty()).try_fold(value, |at, name| at.get(*name));
            tag.and_then(Value::as_str).is_some_and(|tag| !tag.is_empty())
        };
        let keeps = KeptTags {
            etcd: !names(["etcd", "local", "imageTag"]),
            coredns: !names(["dns", "imageTag", ""]),
        };
        // A kubeadm may be ahead of its cluster: it writes by its own rules, and etcd's image by
        // the cluster's version.
        Ok(Self { value, release: kubeadm.unwrap_or(own), kubernetes_minor: own.minor, keeps })
    }

    /// A document and what it becomes. Where one of both names a tag, what runs says nothing of the other: the change may
    /// be half done.
    ///
    /// # Errors
    /// As [`ClusterSettings::new`].
    pub fn pair(old: &'c Value, new: &'c Value) -> Result<(Self, Self), RenderError> {
        let (mut old, mut new) = (Self::new(old, None)?, Self::new(new, None)?);
        let keeps = KeptTags {
            etcd: old.keeps.etcd && new.keeps.etcd,
            coredns: old.keeps.coredns && new.keeps.coredns,
        };
        (old.keeps, new.keeps) = (keeps, keeps);
        Ok((old, new))
    }

    fn text(&self, path: &[&str]) -> Option<&'c str> {
        self.at(path).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    fn at(&self, path: &[&str]) -> Option<&'c Value> {
        path.iter().try_fold(self.value, |value, name| value.get(*name)).filter(|value| !value.is_null())
    }

    fn texts(&self, path: &[&str]) -> Vec<&'c str> {
        self.at(path).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// On the hosts: `certificatesDir`, or kubeadm's default.
    pub fn certificates_dir(&self) -> &'c str {
        self.text(&["certificatesDir"]).unwrap_or("/etc/kubernetes/pki")
    }

    /// Where a local etcd keeps its data.
    pub fn etcd_data_dir(&self) -> &'c str {
        self.text(&["etcd", "local", "dataDir"]).unwrap_or("/var/lib/etcd")
    }

    /// Where a file stands on the host that a component sees at `path`: volumes of the configuration may mount it elsewhere.
    /// Source: containerd `internal/cri/opts/spec_opts.go` (`orderedMounts`), v2.1.
    pub fn on_host(&self, component: &str, path: &str) -> String {
        let volumes = self.at(&[component, "extraVolumes"]).and_then(Value::as_array).into_iter().flatten();
        let mounted = volumes.filter_map(|volume| {
            let mount_path = volume["mountPath"].as_str()?.trim_end_matches('/');
            let rest = path.strip_prefix(mount_path)?;
            let depth = mount_path.split('/').count();
            (rest.is_empty() || rest.starts_with('/'))
                .then(|| Some((depth, flags::join_path(volume["hostPath"].as_str()?, rest))))?
        });
        // Deeper mounts are made later and cover what is mounted above them, whatever their order here.
        mounted.max_by_key(|(depth, _)| *depth).map_or_else(|| path.to_owned(), |(_, file)| file)
    }

    /// A file in the folder of certificates.
    fn certificate(&self, name: &str) -> String {
        flags::join_path(self.certificates_dir(), name)
    }

    /// Without a slash at its end: `imageRepository`, or kubeadm's default.
    pub fn image_repository(&self) -> &'c str {
        self.text(&["imageRepository"]).unwrap_or("registry.k8s.io")
    }

    /// One range, or two with a comma between them.
    pub fn service_subnet(&self) -> &'c str {
        self.text(&["networking", "serviceSubnet"]).unwrap_or("10.96.0.0/12")
    }

    /// `networking.dnsDomain`, or kubeadm's default.
    pub fn dns_domain(&self) -> &'c str {
        self.text(&["networking", "dnsDomain"]).unwrap_or("cluster.local")
    }

    fn cluster_name(&self) -> &'c str {
        self.text(&["clusterName"]).unwrap_or("kubernetes")
    }

    /// Is an add-on, `dns` or `proxy`, not kubeadm's?
    pub fn is_disabled(&self, addon: &str) -> bool {
        self.at(&[addon, "disabled"]).and_then(Value::as_bool).unwrap_or_default()
    }

    /// Do the pods run as users of their own, which kubeadm writes into their security contexts?
    pub fn is_rootless(&self) -> bool {
        self.at(&["featureGates", "RootlessControlPlane"]).and_then(Value::as_bool).unwrap_or_default()
    }

    /// etcd runs as a static pod unless it is named as external.
    pub fn has_local_etcd(&self) -> bool {
        self.at(&["etcd", "external"]).is_none()
    }

    /// The image of a component that is released with Kubernetes.
    fn kubernetes_image(&self, component: &str) -> String {
        let version = self.text(&["kubernetesVersion"]).unwrap_or_default();
        // The tag has a `v`, whether or not the document has it.
        let version = format!("v{}", version.strip_prefix('v').unwrap_or(version));
        // A tag allows no `+`, which versions of builds have.
        let tag: String = version
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' })
            .collect();
        format!("{}/{component}:{tag}", self.image_repository())
    }

    /// kube-proxy and CoreDNS; `running` is the image with which CoreDNS runs, where that is known.
    pub fn addon_images(&self, running: Option<&str>) -> AddonImages {
        let repository = self.text(&["dns", "imageRepository"]).unwrap_or_else(|| self.image_repository());
        // In the project's own registry CoreDNS has a folder of its own; kubeadm expects none in others.
        let folder = if repository == "registry.k8s.io" { "registry.k8s.io/coredns" } else { repository };
        let running = running.filter(|_| self.keeps.coredns).and_then(image::tag_of);
        let of_kubeadm = || running.unwrap_or_else(|| self.release.coredns_tag());
        let tag = self.text(&["dns", "imageTag"]).unwrap_or_else(of_kubeadm);
        AddonImages {
            kube_proxy: self.kubernetes_image("kube-proxy"),
            coredns: format!("{folder}/coredns:{tag}"),
        }
    }
}

/// What kubeadm writes on `host`.
///
/// # Errors
/// [`RenderError`] when an address cannot be read.
pub fn node(settings: &ClusterSettings<'_>, host: &HostFacts) -> Result<NodeArtefacts, RenderError> {
    let mut static_pods = BTreeMap::from([
        (API_SERVER, control_plane::api_server(settings, host)),
        (CONTROLLER_MANAGER, control_plane::controller_manager(settings, host)),
        (SCHEDULER, control_plane::scheduler(settings, host)),
    ]);
    if settings.has_local_etcd() {
        static_pods.insert(ETCD, etcd::pod(settings, host));
    }
    Ok(NodeArtefacts { static_pods, certificates: certificates::names(settings, host)? })
}

/// The names of each certificate of `host`, sorted.
///
/// # Errors
/// As [`node`].
pub fn certificate_names(
    settings: &ClusterSettings<'_>,
    host: &HostFacts,
) -> Result<BTreeMap<&'static str, Vec<String>>, RenderError> {
    certificates::names(settings, host)
}

#[cfg(test)]
mod tests;
