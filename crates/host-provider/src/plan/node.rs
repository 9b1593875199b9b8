//! Which Node of a cluster, and which member of its etcd, a machine is. Owns what counts as the same; must not know how either is
//! read.

use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::core::v1::Node;

use capi_types::host::Host;
use capstan_engine::workload::EtcdMember;

/// Where kubeadm has etcd listen for its peers.
const PEER_PORT: u16 = 2380;

/// A Node that has the machine's name may be one of an earlier life: then its provider ID is another one.
pub fn may_be_its_node(node: &Node, provider_id: Option<&str>) -> bool {
    match provider_id_of(node) {
        None => true,
        Some(found) => provider_id == Some(found),
    }
}

/// `None` before a kubelet or a controller has set it.
pub fn provider_id_of(node: &Node) -> Option<&str> {
    node.spec.as_ref()?.provider_id.as_deref().filter(|id| !id.is_empty())
}

/// The addresses of a machine are not known, so that none of the members can be told to be its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the addresses of the machine are not known")]
pub struct NoAddresses;

/// The member whose peers reach it at an address of this machine, whether it has started or not. A name proves nothing: one that
/// was added and did not start has none, and two machines may have the same.
///
/// # Errors
/// [`NoAddresses`].
pub fn member_of<'m>(members: &'m [EtcdMember], host: &Host) -> Result<Option<&'m EtcdMember>, NoAddresses> {
    let own = addresses(host);
    if own.is_empty() {
        return Err(NoAddresses);
    }
    let is_own =
        |url: &String| peer(url).is_some_and(|peer| peer.port() == PEER_PORT && own.contains(&peer.ip()));
    Ok(members.iter().find(|member| member.peer_urls.iter().any(is_own)))
}

fn addresses(host: &Host) -> Vec<IpAddr> {
    let known = host.status.iter().flat_map(|status| &status.addresses);
    known.filter_map(|address| address.address.parse().ok()).collect()
}

/// `https://10.0.0.1:2380`, `https://[fd00::1]:2380`.
fn peer(url: &str) -> Option<SocketAddr> {
    url.strip_prefix("https://")?.trim_end_matches('/').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use capi_types::host::{HostSpec, HostStatus};
    use capi_types::machine::MachineAddress;
    use k8s_openapi::api::core::v1::NodeSpec;

    fn host(addresses: &[&str]) -> Host {
        let mut host = Host::new("h", HostSpec::default());
        let of = |address: &&str| MachineAddress {
            type_: "InternalIP".to_owned(),
            address: (*address).to_owned(),
        };
        host.status =
            Some(HostStatus { addresses: addresses.iter().map(of).collect(), ..HostStatus::default() });
        host
    }

    fn member(id: u64, name: &str, url: &str) -> EtcdMember {
        EtcdMember {
            id,
            name: name.to_owned(),
            peer_urls: vec![url.to_owned()],
            learner: false,
            alarms: Vec::new(),
        }
    }

    #[test]
    fn a_member_is_the_machines_by_its_address_and_by_nothing_else() {
        // A twin of the same name, another machine that joins, and members of this machine: not started, and started.
        let twin = member(1, "h", "https://10.0.0.2:2380");
        let joining = member(2, "", "https://10.0.0.3:2380");
        let added = member(3, "", "https://10.0.0.1:2380");
        let started = member(4, "h", "https://[fd00::1]:2380");
        let own = host(&["10.0.0.1", "fd00::1", "h"]);
        for (members, expected) in [
            (vec![twin.clone(), joining.clone()], Ok(None)),
            (vec![twin.clone(), joining.clone(), added], Ok(Some(3))),
            (vec![twin.clone(), joining.clone(), started], Ok(Some(4))),
            (vec![member(5, "h", "https://10.0.0.1:12380")], Ok(None)),
            (vec![member(6, "h", "https://10.0.0.10:2380")], Ok(None)),
            (Vec::new(), Ok(None)),
        ] {
            let found = member_of(&members, &own).map(|found| found.map(|it| it.id));
            assert_eq!(found, expected, "{members:?}");
        }
        for unknown in [Host::new("h", HostSpec::default()), host(&[]), host(&["h"])] {
            assert_eq!(member_of(&[joining.clone(), twin.clone()], &unknown), Err(NoAddresses));
        }
    }

    #[test]
    fn a_node_of_an_earlier_life_is_not_taken_for_this_one() {
        let node = |id: Option<&str>| Node {
            spec: Some(NodeSpec { provider_id: id.map(str::to_owned), ..NodeSpec::default() }),
            ..Node::default()
        };
        let own = Some("capstan-host://h/now");
        for (found, provider_id, is_its) in [
            (None, own, true),
            (Some(""), own, true),
            (own, own, true),
            (Some("capstan-host://h/before"), own, false),
            (Some("capstan-host://h/before"), None, false),
            (None, None, true),
        ] {
            assert_eq!(may_be_its_node(&node(found), provider_id), is_its, "{found:?} {provider_id:?}");
        }
        assert!(may_be_its_node(&Node::default(), own));
    }
}
