//! Arguments of `capstan cluster`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand};

use crate::arguments::{address_range, kubernetes_version, object_name};
use crate::host::args::{HostConfirmArgs, ObjectsOutputArg};
use capstan_remote::destination::Destination;

#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Make a cluster of Hosts: the objects that it needs, shown, confirmed and written
    ///
    /// Hosts come from `capstan host add`. `capstan standalone` or `capstan engine` then makes nodes of them. Without a pod
    /// network Nodes stay NotReady: apply one to the new cluster.
    #[command(disable_version_flag = true)]
    Create(ClusterCreateArgs),
}

/// Where the API server of a cluster is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointArg {
    pub host: String,
    pub port: u16,
}

impl FromStr for EndpointArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let place = text.parse::<Destination>().ok().filter(|place| place.user.is_none());
        let place = place.ok_or("expected HOST:PORT, an IPv6 address in brackets")?;
        let port = place.port.ok_or("expected HOST:PORT, such as api.example.com:6443")?;
        Ok(Self { host: place.host, port })
    }
}

#[derive(Clone, Debug, Args)]
pub struct ClusterCreateArgs {
    /// Name of the Cluster
    #[arg(value_parser = object_name)]
    pub name: String,
    /// Hosts of the control plane: an odd number
    #[arg(long, value_name = "HOST,…", value_delimiter = ',', value_parser = object_name, required = true)]
    pub control_plane: Vec<String>,
    /// Hosts of workers
    #[arg(long, value_name = "HOST,…", value_delimiter = ',', value_parser = object_name)]
    pub workers: Vec<String>,
    /// Version of Kubernetes; without it that of the kubelets on the Hosts
    #[arg(long = "version", value_name = "VERSION", value_parser = kubernetes_version)]
    pub kubernetes_version: Option<String>,
    /// A load balancer or a name that leads to the API servers; without it the address of the one Host of the control plane
    #[arg(long, value_name = "HOST:PORT")]
    pub endpoint: Option<EndpointArg>,
    /// Addresses of pods
    #[arg(long, value_name = "CIDR,…", value_delimiter = ',', value_parser = address_range, default_value = "10.244.0.0/16")]
    pub pod_cidr: Vec<String>,
    /// Addresses of Services; without it kubeadm's own
    #[arg(long, value_name = "CIDR,…", value_delimiter = ',', value_parser = address_range)]
    pub service_cidr: Vec<String>,
    /// A file with fields of a KubeadmConfigSpec, which are added to those of the control plane and of the workers
    #[arg(long, value_name = "FILE")]
    pub kubeadm: Option<PathBuf>,
    /// Only print the objects
    #[arg(short, long, conflicts_with_all = ["yes", "dry_run"])]
    pub output: Option<ObjectsOutputArg>,
    #[command(flatten)]
    pub confirm: HostConfirmArgs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_host_and_a_port() {
        let of = |text: &str| text.parse::<EndpointArg>().map(|it| (it.host, it.port));
        assert_eq!(of("api.example.com:6443"), Ok(("api.example.com".to_owned(), 6443)));
        assert_eq!(of("[fd00::1]:6443"), Ok(("fd00::1".to_owned(), 6443)));
        for wrong in ["api.example.com", "me@api:6443", ":6443", "api:0", "fd00::1", "", "-o:22"] {
            assert!(of(wrong).is_err_and(|words| words.starts_with("expected HOST:PORT")), "{wrong}");
        }
    }
}
