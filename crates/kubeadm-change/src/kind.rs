//! The kinds of configuration documents: their names, groups, versions, and where a cluster keeps them. Must not
//! know how one is read.

/// The kinds of documents that kubeadm reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DocumentKind {
    /// `ClusterConfiguration`, stored in ConfigMap `kubeadm-config`.
    Cluster,
    /// `KubeletConfiguration`, stored in ConfigMap `kubelet-config`.
    Kubelet,
    /// `KubeProxyConfiguration`, stored in ConfigMap `kube-proxy`.
    Proxy,
    /// `InitConfiguration`, stored nowhere.
    Init,
    /// `JoinConfiguration`, stored nowhere.
    Join,
    /// `UpgradeConfiguration`, stored nowhere.
    Upgrade,
    /// `ResetConfiguration`, stored nowhere.
    Reset,
}

/// The group of kubeadm's own documents.
pub const KUBEADM_GROUP: &str = "kubeadm.k8s.io";
/// The older version of kubeadm's API that is read and written: flags are maps.
pub const V1BETA3: &str = "v1beta3";
/// The version of kubeadm's API in which documents are compared: flags are lists, so that one may stand twice.
pub const V1BETA4: &str = "v1beta4";
/// The experimental version of kubeadm's API, from kubeadm 1.37 on: a flag may be added to that of kubeadm. No cluster stores it.
pub const V1: &str = "v1";

impl DocumentKind {
    /// Every kind.
    pub const ALL: [Self; 7] =
        [Self::Cluster, Self::Kubelet, Self::Proxy, Self::Init, Self::Join, Self::Upgrade, Self::Reset];

    /// The kind's name, which is also the name of its structure in the schema.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cluster => "ClusterConfiguration",
            Self::Kubelet => "KubeletConfiguration",
            Self::Proxy => "KubeProxyConfiguration",
            Self::Init => "InitConfiguration",
            Self::Join => "JoinConfiguration",
            Self::Upgrade => "UpgradeConfiguration",
            Self::Reset => "ResetConfiguration",
        }
    }

    /// The program that the document is for.
    pub fn reader(self) -> &'static str {
        match self {
            Self::Kubelet => "kubelet",
            Self::Proxy => "kube-proxy",
            _ => "kubeadm",
        }
    }

    /// The kind of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The API group of the kind.
    pub fn group(self) -> &'static str {
        match self {
            Self::Kubelet => "kubelet.config.k8s.io",
            Self::Proxy => "kubeproxy.config.k8s.io",
            _ => KUBEADM_GROUP,
        }
    }

    /// The versions that can be read and written.
    pub fn versions(self) -> &'static [&'static str] {
        match self {
            Self::Kubelet => &["v1beta1"],
            Self::Proxy => &["v1alpha1"],
            // kubeadm's API has these two kinds since v1beta4.
            Self::Upgrade | Self::Reset => &[V1BETA4, V1],
            _ => &[V1BETA3, V1BETA4, V1],
        }
    }

    /// Where a cluster keeps documents of the kind: ConfigMap in `kube-system`, and key.
    pub fn stored_in(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Cluster => Some(("kubeadm-config", "ClusterConfiguration")),
            Self::Kubelet => Some(("kubelet-config", "kubelet")),
            Self::Proxy => Some(("kube-proxy", "config.conf")),
            _ => None,
        }
    }
}

impl serde::Serialize for DocumentKind {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
