//! What a dump holds of a MachineHealthCheck. Must not judge it.
//!
//! A template whose kind was left out counts as existing, and so do the requests that conditions of Machines name.

use super::Dump;
use crate::observe::{self, NodeFinder, Objects as _};
use crate::status::machine_health_check::{ExternalRemediation, Observed, is_target};
use capi_types::condition::{Conditioned as _, find};
use capi_types::key::{ObjectKey, group_of};
use capi_types::machine_health_check::MachineHealthCheck;

impl Dump {
    /// Everything a MachineHealthCheck is judged by; `None` without its Cluster.
    pub fn check(&self, key: &ObjectKey, check: &MachineHealthCheck) -> Option<Observed> {
        let ns = key.namespace.as_str();
        let cluster_key = ObjectKey::new(ns, &check.spec.cluster_name);
        let cluster = self.clusters.get(&cluster_key)?;
        let workload = self.workload(&cluster_key);
        let by_name = |name: &str| workload.and_then(|workload| workload.nodes.get(name)).cloned();
        let has_id = |id: &str| workload.is_some_and(|workload| !workload.nodes_with(id).is_empty());
        let nodes = workload.map(|_| NodeFinder { by_name: &by_name, has_id: &has_id });
        let external = self.remediation(ns, check);
        Some(Observed { external, ..observe::machine_health_check(self, check, cluster, nodes) })
    }

    /// What the template reference of a check leads to; `None` without one.
    fn remediation(&self, namespace: &str, check: &MachineHealthCheck) -> Option<ExternalRemediation> {
        let template = check.spec.remediation.as_ref()?.template_ref.as_ref()?;
        let (group, kind) = (group_of(&template.api_version), template.kind.as_str());
        let request = kind.strip_suffix("Template").unwrap_or(kind);
        let named = ObjectKey::new(namespace, &template.name);
        let requests = if self.has_kind(group, request) {
            let here = self.all(group, request).filter(|(key, _)| key.namespace == namespace);
            here.map(|(key, _)| key.name.clone()).collect()
        } else {
            let asked = self.machines.select(namespace, |m| {
                is_target(check, m) && find(m.conditions(), "ExternallyRemediated").is_some()
            });
            asked.iter().filter_map(|m| m.metadata.name.clone()).collect()
        };
        Some(ExternalRemediation {
            kind: kind.to_owned(),
            template: named.to_string(),
            template_exists: !self.has_kind(group, kind) || self.raw(group, kind, &named).is_some(),
            requests,
            creation_fails: false,
        })
    }
}
