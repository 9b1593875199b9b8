//! Lines of the journal about a change: what it is about, and what became of it. Must not know when they are written.

use serde_json::Value;

use super::source::ManagedCluster;
use crate::operations::journal::{Entry, stamp};
use capstan_base::time::Clock;

/// Who does what, and how far it is.
pub struct Said<'s> {
    pub clock: &'s Clock,
    pub user: &'s str,
    pub action: &'s str,
    pub outcome: &'s str,
    pub error: Option<&'s str>,
}

impl<'s> Said<'s> {
    /// About the change of this id, in the cluster behind `server`.
    pub fn about_record(&self, server: &'s str, id: &'s str) -> Entry<'s> {
        Entry {
            at: stamp(self.clock.now()),
            outcome: self.outcome,
            user: self.user,
            server,
            action: self.action,
            api_version: "v1",
            kind: "ConfigMap",
            namespace: "kube-system",
            name: "capstan-change",
            uid: "",
            seen: id,
            patch: None,
            back: None,
            made: Vec::new(),
            error: self.error,
        }
    }

    /// About a patch of a KubeadmControlPlane.
    pub fn about_control_plane(&self, managed: &'s ManagedCluster, patch: &'s Value) -> Entry<'s> {
        let metadata = |field: &str| managed.object["metadata"][field].as_str().unwrap_or_default();
        Entry {
            api_version: managed.object["apiVersion"].as_str().unwrap_or_default(),
            kind: "KubeadmControlPlane",
            namespace: &managed.control_plane.key.namespace,
            name: &managed.control_plane.key.name,
            uid: metadata("uid"),
            seen: metadata("resourceVersion"),
            patch: Some(patch),
            ..self.about_record(&managed.management.server, "")
        }
    }
}
