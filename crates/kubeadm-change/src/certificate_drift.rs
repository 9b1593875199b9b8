//! Certificates that are served with other names than the stored configuration gives them: it was stored and nobody issued them anew,
//! or they were issued from something else. Owns the comparison; must not know how a certificate is seen.

use std::collections::{BTreeMap, BTreeSet};

use super::render::{self, ClusterSettings, RenderError};
use super::running::{Running, RunningNode, Sighting};

/// kubeadm's names of the certificates that are seen at ports, each with how people call it.
const SERVED: [(&str, &str); 2] = [("apiserver", "kube-apiserver"), ("etcd-server", "etcd")];

/// By node, from what is served to what is stored, a line for each name.
///
/// # Errors
/// The configuration cannot be rendered.
pub fn find(
    settings: &ClusterSettings<'_>,
    running: &Running,
) -> Result<BTreeMap<String, Vec<String>>, RenderError> {
    let mut found = BTreeMap::new();
    for live in &running.control_plane {
        let stored = render::certificate_names(settings, &live.host)?;
        let Some(node) = running.nodes.get(&live.host.name) else { continue };
        let mut lines = Vec::new();
        for (certificate, owner) in SERVED {
            let (Some(names), Some(Sighting::Known(served))) =
                (stored.get(certificate), node.served.get(certificate))
            else {
                continue;
            };
            lines.extend(other_names(names, served).into_iter().map(|line| format!("{owner}: {line}")));
        }
        if !lines.is_empty() {
            found.insert(live.host.name.clone(), lines);
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

fn other_names(stored: &[String], served: &BTreeSet<String>) -> Vec<String> {
    let lost = served.iter().filter(|name| !stored.contains(name)).map(|name| format!("- name {name}"));
    let gained = stored.iter().filter(|name| !served.contains(*name)).map(|name| format!("+ name {name}"));
    lost.chain(gained).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::tests::cluster;

    fn seen(
        certificate: &'static str,
        change: impl Fn(&mut BTreeSet<String>),
    ) -> BTreeMap<String, Vec<String>> {
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
        assert_eq!(seen("apiserver", |_| {}), BTreeMap::new());
        let stale = seen("apiserver", |served| assert!(served.remove("lb.example")));
        assert_eq!(
            stale,
            BTreeMap::from([("cp-1".to_owned(), vec!["kube-apiserver: + name lb.example".to_owned()])])
        );
        let more = seen("etcd-server", |served| assert!(served.insert("old.example".to_owned())));
        assert_eq!(more["cp-1"], ["etcd: - name old.example"]);
    }
}
