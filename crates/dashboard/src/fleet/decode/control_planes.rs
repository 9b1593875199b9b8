//! Which kinds are control planes: those that Clusters name as theirs, of whatever group they are and however they are
//! called. Must not know whether they can be read.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::Decoder;
use crate::fleet::intern::Interner;
use crate::fleet::row::SourceId;
use capi_types::key::{Gvk, group_of};

/// Group and kind of every control plane that Clusters name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlPlaneKinds(BTreeSet<(String, String)>);

impl ControlPlaneKinds {
    /// Those that the Clusters among `objects` name, by `apiGroup` (v1beta2) or by `apiVersion` (v1beta1).
    pub fn named_by<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Self {
        let clusters = objects.into_iter().filter(|object| object["kind"] == "Cluster");
        Self(clusters.filter_map(|cluster| named(&cluster["spec"]["controlPlaneRef"])).collect())
    }

    /// Their groups and kinds.
    pub fn into_names(self) -> impl Iterator<Item = (String, String)> {
        self.0.into_iter()
    }

    /// A decoder of one kind, which takes a named one for a control plane.
    pub fn decoder(&self, source: SourceId, gvk: Gvk, interner: Arc<Interner>) -> Decoder {
        if self.0.contains(&(gvk.group.clone(), gvk.kind.clone())) {
            Decoder::for_control_plane(source, gvk, interner)
        } else {
            Decoder::for_kind(source, gvk, interner)
        }
    }
}

/// Group and kind of a reference, by `apiGroup` or by `apiVersion`.
pub fn named(reference: &Value) -> Option<(String, String)> {
    let kind = reference["kind"].as_str().filter(|kind| !kind.is_empty())?;
    let group = reference["apiGroup"].as_str().filter(|group| !group.is_empty());
    let group = group.or_else(|| reference["apiVersion"].as_str().map(group_of)).unwrap_or_default();
    Some((group.to_owned(), kind.to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fleet::row::Kind;

    #[test]
    fn a_kind_is_a_control_plane_when_a_cluster_names_it() {
        let cluster = |reference: Value| json!({"kind": "Cluster", "spec": {"controlPlaneRef": reference}});
        let kinds = ControlPlaneKinds::named_by(&[
            cluster(
                json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "AzureManagedControlPlane"}),
            ),
            cluster(json!({"apiVersion": "rke.cattle.io/v1", "kind": "RKEControlPlane"})),
            cluster(json!({"apiGroup": "cluster.x-k8s.io", "kind": "Machine"})),
            cluster(json!({"apiGroup": "cluster.x-k8s.io", "kind": "MachineHealthCheck"})),
            cluster(json!(null)),
        ]);
        let is = |group: &str, kind: &str| {
            let gvk = Gvk {
                group: group.to_owned(),
                version: "v1".to_owned(),
                kind: kind.to_owned(),
                plural: String::new(),
                namespaced: true,
            };
            kinds.decoder(SourceId(0), gvk, Arc::default()).kind
        };
        for (group, kind, expected) in [
            ("infrastructure.cluster.x-k8s.io", "AzureManagedControlPlane", Kind::ControlPlane),
            ("rke.cattle.io", "RKEControlPlane", Kind::ControlPlane),
            ("controlplane.cluster.x-k8s.io", "TalosControlPlane", Kind::ControlPlane),
            ("infrastructure.cluster.x-k8s.io", "GCPManagedControlPlane", Kind::Other),
            // What has a place of its own keeps it, whoever names it.
            ("cluster.x-k8s.io", "Machine", Kind::Machine),
            ("cluster.x-k8s.io", "MachineHealthCheck", Kind::Other),
        ] {
            assert_eq!(is(group, kind), expected, "{kind}");
        }
    }
}
