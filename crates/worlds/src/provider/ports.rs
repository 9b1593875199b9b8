//! What listens on a simulated host that kubeadm made, as a port-forward to a static pod of it finds it: these pods are on the
//! network of their host. Owns which port shows what; must not know how a connection is made.

use super::host::KubeadmHost;
use super::kubeadm::KUBE_SYSTEM;
use super::sim_cluster::SimCluster;
use capi_types::key::ObjectKey;
use capstan_base::time::Timestamp;
use kubeadm_change::render::{API_SERVER, ETCD};

const ETCD_PORT: u16 = 2379;
/// kubeadm lets etcd serve its metrics there, without TLS.
const ETCD_METRICS_PORT: u16 = 2381;
const KUBELET_PORT: u16 = 10250;

/// Who signed a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignedBy {
    /// The cluster's authority.
    Cluster,
    /// The authority that kubeadm makes for etcd alone.
    Etcd,
    /// The kubelet itself, as long as nobody approves certificates for it.
    Itself,
}

/// What is behind a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPort {
    /// A TLS handshake with a certificate for these names; behind it are pages by their paths, and nothing else answers.
    Tls { names: Vec<String>, signed_by: SignedBy, pages: Vec<(&'static str, String)> },
    /// Pages without TLS, by their paths.
    Pages(Vec<(&'static str, String)>),
}

impl SimCluster {
    /// What a static pod's host has at a port.
    ///
    /// # Errors
    /// Nothing listens there, in the kubelet's words.
    pub fn listens_at(&self, pod: &ObjectKey, port: u16, now: Timestamp) -> Result<HostPort, String> {
        let refused = || {
            format!(
                "error forwarding port {port} to pod {}: dial tcp4 127.0.0.1:{port}: connect: connection refused",
                pod.name
            )
        };
        // Only static pods are on the host's network; others have nothing that is simulated.
        let spec = self.pods.get(pod).and_then(|pod| pod.spec.as_ref());
        let node = spec.filter(|_| pod.namespace == KUBE_SYSTEM).and_then(|spec| spec.node_name.as_deref());
        let (node, host) = node.and_then(|node| self.hosts.get_key_value(node)).ok_or_else(refused)?;
        // The forwarding goes through the kubelet, whatever listens behind it.
        if self.is_silent(node) {
            return Err(format!(
                "error forwarding port {port} to pod {}: the kubelet of Node {node} does not answer",
                pod.name
            ));
        }
        let found = match port {
            ETCD_METRICS_PORT if host.is_up(ETCD, now) => Some(HostPort::Pages(self.etcd_pages(node))),
            port => host.certificate_at(port, now),
        };
        found.ok_or_else(refused)
    }

    fn etcd_pages(&self, node: &str) -> Vec<(&'static str, String)> {
        let leader = self.etcd.leader().map(|member| member.id);
        let leads = leader.is_some() && self.etcd.member(node).map(|member| member.id) == leader;
        let gauge = |name: &str, is: bool| format!("# TYPE {name} gauge\n{name} {}\n", u8::from(is));
        let metrics =
            gauge("etcd_server_has_leader", leader.is_some()) + &gauge("etcd_server_is_leader", leads);
        vec![
            ("/metrics", metrics),
            ("/health", format!("{{\"health\":\"{}\",\"reason\":\"\"}}", leader.is_some())),
        ]
    }
}

impl KubeadmHost {
    fn certificate_at(&self, port: u16, now: Timestamp) -> Option<HostPort> {
        let tls = |names: &[String], signed_by| {
            // Only the API server answers health checks over TLS without a client certificate.
            let is_server = signed_by == SignedBy::Cluster;
            let healthy = ["/livez", "/readyz"].map(|path| (path, "ok".to_owned()));
            let pages = healthy.into_iter().filter(|_| is_server).collect();
            HostPort::Tls { names: names.to_vec(), signed_by, pages }
        };
        match port {
            port if port == self.facts().port => {
                let names = self.served_names(API_SERVER, now)?;
                Some(tls(names, SignedBy::Cluster))
            }
            ETCD_PORT => Some(tls(self.served_names(ETCD, now)?, SignedBy::Etcd)),
            KUBELET_PORT => {
                // A kubelet that does not run has no port.
                self.configz(now).ok()?;
                Some(tls(std::slice::from_ref(&self.facts().name), SignedBy::Itself))
            }
            _ => None,
        }
    }
}
