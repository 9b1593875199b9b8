//! The names in the certificates that kubeadm issues on a node.
//!
//! Source: kubeadm `util/pkiutil/pki_helpers.go` (`GetAPIServerAltNames`, `getAltNames`), `util/config/initconfiguration.go` (`LowercaseSANs`).

use std::collections::{BTreeMap, BTreeSet};

use super::{ClusterSettings, HostFacts, RenderError};
use crate::network::{Cidr, host_of, is_certificate_name, parse_ip};

pub(super) const API_SERVER: &str = "apiserver";
const ETCD_SERVER: &str = "etcd-server";
const ETCD_PEER: &str = "etcd-peer";

pub(super) fn names(
    settings: &ClusterSettings<'_>,
    host: &HostFacts,
) -> Result<BTreeMap<&'static str, Vec<String>>, RenderError> {
    let address = parse_ip(&host.address)
        .ok_or_else(|| RenderError::Address { node: host.name.clone(), address: host.address.clone() })?
        .to_string();
    let mut found = BTreeMap::from([(API_SERVER, api_server(settings, host, &address)?)]);
    if settings.has_local_etcd() {
        for (certificate, field) in [(ETCD_SERVER, "serverCertSANs"), (ETCD_PEER, "peerCertSANs")] {
            let own = [host.name.as_str(), "localhost", &address, "127.0.0.1", "::1"].map(str::to_owned);
            found.insert(certificate, all(own.into(), &settings.texts(&["etcd", "local", field])));
        }
    }
    Ok(found)
}

fn api_server(
    settings: &ClusterSettings<'_>,
    host: &HostFacts,
    address: &str,
) -> Result<Vec<String>, RenderError> {
    let subnet = settings.service_subnet();
    let first = Cidr::parse_pair(subnet)
        .and_then(|ranges| ranges.first()?.nth(1))
        .ok_or_else(|| RenderError::ServiceSubnet(subnet.to_owned()))?;
    let mut own = vec![
        host.name.clone(),
        "kubernetes".to_owned(),
        "kubernetes.default".to_owned(),
        "kubernetes.default.svc".to_owned(),
        format!("kubernetes.default.svc.{}", settings.dns_domain()),
        first.to_string(),
        address.to_owned(),
    ];
    own.extend(settings.text(&["controlPlaneEndpoint"]).and_then(host_of).map(str::to_owned));
    // Names of load balancers may have capitals; kubeadm lowers those of the API server alone.
    let more: Vec<String> =
        settings.texts(&["apiServer", "certSANs"]).iter().map(|name| name.to_lowercase()).collect();
    Ok(all(own, &more.iter().map(String::as_str).collect::<Vec<_>>()))
}

/// Sorted, each once; kubeadm leaves out what is neither an address nor a name.
fn all(own: Vec<String>, more: &[&str]) -> Vec<String> {
    let more = more.iter().filter(|name| is_certificate_name(name)).map(|name| (*name).to_owned());
    // A certificate holds addresses as bytes: they are read back in their shortest form.
    let canonical = |name: String| parse_ip(&name).map_or(name, |address| address.to_string());
    own.into_iter().chain(more).map(canonical).collect::<BTreeSet<_>>().into_iter().collect()
}
