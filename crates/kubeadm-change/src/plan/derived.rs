//! Changes that follow from those that were asked for. Owns the formulas; must not know verdicts.

use serde_json::{Value, json};

use super::super::difference::{FieldChange, differences};
use super::super::document::DocumentKind;
use super::super::facts::ClusterFacts;
use super::super::path::FieldPath;
use super::super::request::WantedDocuments;
use super::super::rules::{self, Linked};

/// A path that was changed because of another one.
pub(super) struct DerivedPath {
    kind: DocumentKind,
    path: FieldPath,
    because: String,
}

/// Adds to the target what follows from its changes.
pub(super) fn add(target: &mut WantedDocuments) -> Vec<DerivedPath> {
    // No condition of a case with links looks at what runs.
    let facts = ClusterFacts::default();
    let mut derived = Vec::new();
    // Collected before anything is derived: a derived change brings no further ones.
    let asked: Vec<FieldChange> = target
        .documents
        .iter()
        .flat_map(|wanted| differences(wanted.kind, &wanted.old, &wanted.new))
        .collect();
    for change in &asked {
        let links = rules::judge(change, &facts).map_or_else(Vec::new, |finding| finding.linked);
        for link in links {
            match link {
                Linked::KubeProxyClusterCidr => kube_proxy(target, change, &mut derived),
                Linked::NodeMaskFlags => node_masks(target, change, &mut derived),
            }
        }
    }
    derived
}

/// The change, with what it follows from.
pub(super) fn marked(mut change: FieldChange, derived: &[DerivedPath]) -> FieldChange {
    let reason = derived.iter().find(|d| d.kind == change.kind && d.path == change.path);
    change.derived_from = reason.map(|d| d.because.clone());
    change
}

fn kube_proxy(target: &mut WantedDocuments, change: &FieldChange, derived: &mut Vec<DerivedPath>) {
    let Some(proxy) = target.document_mut(DocumentKind::Proxy) else { return };
    // A value that the request names itself wins over the derived one.
    if proxy.new["clusterCIDR"] != proxy.old["clusterCIDR"] {
        return;
    }
    proxy.new["clusterCIDR"] = change.new.clone();
    derived.push(DerivedPath {
        kind: DocumentKind::Proxy,
        path: FieldPath::default().field("clusterCIDR"),
        because: change.path.to_string(),
    });
}

/// The controller manager refuses node-cidr-mask-size with two families: it has one flag for each then.
fn node_masks(target: &mut WantedDocuments, change: &FieldChange, derived: &mut Vec<DerivedPath>) {
    const BOTH: &str = "node-cidr-mask-size";
    // The stored size was that of the single family, so it belongs to that family from now on.
    let first_is_ipv6 = change.old.as_str().is_some_and(|range| range.contains(':'));
    let Some(cluster) = target.document_mut(DocumentKind::Cluster) else { return };
    let Some(Value::Array(flags)) = cluster.new["controllerManager"].get_mut("extraArgs") else { return };
    // Without the flag the controller manager has a default for each family: nothing to split.
    let Some(at) = flags.iter().position(|flag| flag["name"] == BOTH) else { return };
    let size = flags[at]["value"].clone();
    let own = if first_is_ipv6 { "node-cidr-mask-size-ipv6" } else { "node-cidr-mask-size-ipv4" };
    flags[at] = json!({"name": own, "value": size});
    for name in [BOTH, own] {
        let path = FieldPath::parse(&format!("controllerManager.extraArgs[{name}]")).unwrap_or_default();
        derived.push(DerivedPath { kind: DocumentKind::Cluster, path, because: change.path.to_string() });
    }
}
