//! The steps that a change consists of: what is done, where, by which command, and how one sees that it is done. Owns
//! the catalogue; must not know which change needs which step.

use serde::Serialize;

/// Where a step is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepScope {
    /// For the cluster.
    Once,
    /// On the control plane nodes, one after the other.
    EachControlPlane,
    /// On all nodes, one after the other.
    EachNode,
}

macro_rules! steps {
    ($($id:ident, $scope:ident, $title:literal, $check:literal, $undo:literal;)*) => {
        /// A step by its short name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        pub enum StepId { $(#[doc = concat!("To ", $title, ".")] $id,)* }

        impl StepId {
            const ALL: &'static [Self] = &[$(Self::$id,)*];

            /// As rules name it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$id => stringify!($id),)* }
            }

            /// Where it is done.
            pub fn scope(self) -> StepScope {
                match self { $(Self::$id => StepScope::$scope,)* }
            }

            /// What is done, in a few words.
            pub fn title(self) -> &'static str {
                match self { $(Self::$id => $title,)* }
            }

            /// How one sees that it is done.
            pub fn check(self) -> &'static str {
                match self { $(Self::$id => $check,)* }
            }

            /// How it is taken back.
            pub fn undo(self) -> &'static str {
                match self { $(Self::$id => $undo,)* }
            }
        }
    };
}

steps! {
    B0, EachControlPlane, "keep what stands there: documents, manifests, the kubelet's file", "the files exist", "nothing to take back";
    B1, EachControlPlane, "take a snapshot of etcd", "the file exists and `etcdutl snapshot status` reads it", "remove the file";
    H1, EachControlPlane, "put the files in place that the change names, the same on every node", "the checksums are equal on all nodes", "remove the files";
    I1, EachControlPlane, "fetch the images that are not there", "the runtime lists them", "nothing to take back";
    G1, Once, "write ClusterConfiguration into ConfigMap kubeadm-config", "read again, it equals the target", "write the kept document";
    G2, Once, "write KubeletConfiguration into ConfigMap kubelet-config", "read again, it equals the target", "write the kept document";
    G3, Once, "write KubeProxyConfiguration into ConfigMap kube-proxy", "read again, it equals the target", "write the kept document";
    C2, EachControlPlane, "issue etcd's certificates anew", "a TLS handshake at port 2379 shows the names", "move the kept files back";
    E1, EachControlPlane, "write etcd's manifest anew", "the member is healthy and has caught up; one more may be lost than before this node", "move the kept manifest back";
    C1, EachControlPlane, "issue the API server's certificate anew and restart the API server", "a TLS handshake at the node's port 6443 shows the names", "move the kept files back";
    M1, EachControlPlane, "write the control plane's manifests anew", "the mirror pods have the expected arguments and are Ready; /readyz answers here and on the other nodes", "write the kept document (G1), then the same command";
    F1, EachControlPlane, "write the kubeconfigs anew", "the Node is Ready", "move the kept files back";
    P1, Once, "restart kube-proxy", "the DaemonSet is updated and available on all nodes", "write the kept document (G3), then the same command";
    P2, EachNode, "drain the node and restart it: until then it keeps the rules of the old mode of kube-proxy", "the Node is Ready and takes pods; the old rules are gone (seen on the node only)", "nothing to take back";
    D1, Once, "set the image of CoreDNS", "the Deployment is available", "set the image that was there";
    K1, EachNode, "write the kubelet's file anew and restart it", "the Node is Ready and /configz shows the value", "write the kept document (G2), then the same command";
    K2, EachNode, "drain the node, write the kubelet's file anew, restart it, and let pods come back", "the Node is Ready and takes pods, and /configz shows the value", "write the kept document (G2), then the same steps";
    R1, Once, "write every Secret anew", "`etcdctl get` of a Secret shows the new provider's name", "nothing to take back while the old key is kept";
    X, Once, "compare what runs with what is stored", "no drift is left", "nothing to take back";
}

impl StepId {
    /// The API does it, wherever nodes are.
    pub fn is_by_api(self) -> bool {
        matches!(self, Self::G1 | Self::G2 | Self::G3 | Self::P1 | Self::D1)
    }

    /// The same where the restart is left to the step that it is joined with.
    pub(crate) fn part_title(self) -> &'static str {
        match self {
            Self::C1 => "issue the API server's certificate anew",
            other => other.title(),
        }
    }

    /// Something of a control plane node restarts.
    pub fn restarts_control_plane(self) -> bool {
        matches!(self, Self::C1 | Self::C2 | Self::E1 | Self::M1 | Self::F1)
    }

    /// Something has to be done to take it back.
    pub fn is_taken_back(self) -> bool {
        !matches!(self, Self::B0 | Self::I1 | Self::P2 | Self::R1 | Self::X)
    }

    /// Only a person does it: it is never run on a host from here.
    pub fn is_for_people(self) -> bool {
        matches!(self, Self::P2 | Self::R1)
    }

    /// The step of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|step| step.name() == name)
    }
}
