//! Certificates that are served with other names than the stored configuration gives them: it was stored and nobody issued them anew,
//! or they were issued from something else. Owns the comparison; must not know how a certificate is seen.

use std::collections::BTreeSet;

use super::render::{self, API_SERVER, ClusterSettings, ETCD, RenderError};
use super::running::{Running, RunningNode, Sighting};

/// kubeadm's names of the certificates that are seen at ports, each with the component that serves it.
const SERVED: [(&str, &str); 2] = [("apiserver", API_SERVER), ("etcd-server", ETCD)];

/// The file of the API server's certificate, below the folder of certificates.
pub(crate) const API_SERVER_CERTIFICATE: &str = "apiserver.crt";
/// The file of the certificate with which etcd serves, likewise.
pub(crate) const ETCD_CERTIFICATE: &str = "etcd/server.crt";

/// A certificate that is served with other names than those that are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateDrift {
    /// Name of the Node.
    pub node: String,
    /// The component that serves it.
    pub component: &'static str,
    /// From what is served to what is stored, a line for each name.
    pub differences: Vec<String>,
}

/// Every certificate that is served with other names, in the order of nodes.
///
/// # Errors
/// The configuration cannot be rendered.
pub fn find(settings: &ClusterSettings<'_>, running: &Running) -> Result<Vec<CertificateDrift>, RenderError> {
    let mut found = Vec::new();
    for live in &running.control_plane {
        let stored = render::certificate_names(settings, &live.host)?;
        let Some(node) = running.nodes.get(&live.host.name) else { continue };
        for (certificate, component) in SERVED {
            // What could not be seen is not drift: `unseen` names it.
            let (Some(names), Some(Sighting::Known(served))) =
                (stored.get(certificate), node.served.get(certificate))
            else {
                continue;
            };
            let differences = other_names(names, served);
            if !differences.is_empty() {
                found.push(CertificateDrift { node: live.host.name.clone(), component, differences });
            }
        }
    }
    Ok(found)
}

/// Why a certificate could not be seen, a sentence each.
pub fn unseen(running: &Running) -> Vec<String> {
    let of_node = |(name, node): (&String, &RunningNode)| {
        let owner = |certificate: &str| {
            SERVED.iter().find(|(of, _)| *of == certificate).map_or("", |(_, owner)| owner)
        };
        let why = node.served.iter().filter_map(|(certificate, seen)| match seen {
            Sighting::Hidden(why) | Sighting::Unknown(why) => Some((owner(certificate), why)),
            Sighting::NotAsked | Sighting::Known(_) => None,
        });
        why.map(|(owner, why)| format!("the certificate of {owner} on {name} was not seen: {why}"))
            .collect::<Vec<_>>()
    };
    running.nodes.iter().flat_map(of_node).collect()
}

/// From what is served to what is stored.
pub(crate) fn other_names(stored: &[String], served: &BTreeSet<String>) -> Vec<String> {
    let lost = served.iter().filter(|name| !stored.contains(name)).map(|name| format!("- name {name}"));
    let gained = stored.iter().filter(|name| !served.contains(*name)).map(|name| format!("+ name {name}"));
    lost.chain(gained).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::tests::cluster;

    fn seen(certificate: &'static str, change: impl Fn(&mut BTreeSet<String>)) -> Vec<CertificateDrift> {
        let document = json!({
            "kubernetesVersion": "v1.36.1", "controlPlaneEndpoint": "cp.example:6443",
            "apiServer": {"certSANs": ["LB.example"]},
        });
        let settings = ClusterSettings::new(&document, None).expect("a version");
        let mut running = Running::of(&cluster(2, 0).objects);
        let host = running.control_plane[1].host.clone();
        let names = render::certificate_names(&settings, &host).expect("an address");
        let mut served: BTreeSet<String> = names[certificate].iter().cloned().collect();
        change(&mut served);
        let node = running.nodes.get_mut(&host.name).expect("a Node");
        node.served.insert(certificate, Sighting::Known(served));
        find(&settings, &running).expect("rendered")
    }

    #[test]
    fn names_that_are_served_are_those_that_are_stored() {
        assert_eq!(seen("apiserver", |_| {}), []);
        let stale = seen("apiserver", |served| assert!(served.remove("lb.example")));
        let [CertificateDrift { node, component, differences }] = &stale[..] else { panic!("{stale:?}") };
        assert_eq!((node.as_str(), *component), ("cp-1", API_SERVER));
        assert_eq!(*differences, ["+ name lb.example"]);
        let more = seen("etcd-server", |served| assert!(served.insert("old.example".to_owned())));
        assert_eq!(
            (more[0].component, &more[0].differences[..]),
            (ETCD, &["- name old.example".to_owned()][..])
        );
    }
}
