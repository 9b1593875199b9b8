//! From a dump to what a MachineHealthCheck with a template of somebody else's is judged by. Must not
//! judge it.
//!
//! A template whose kind was left out counts as there, and so do the requests that Machines speak of.

use super::dump::{Dump, select};
use crate::api::condition::{Conditioned as _, find};
use crate::api::key::{ObjectKey, group_of};
use crate::api::machine_health_check::MachineHealthCheck;
use crate::status::machine_health_check::{ExternalRemediation, is_target};

impl Dump {
    /// What the template reference of a check leads to; `None` without one.
    pub(super) fn remediation(
        &self,
        namespace: &str,
        check: &MachineHealthCheck,
    ) -> Option<ExternalRemediation> {
        let template = check.spec.remediation.as_ref()?.template_ref.as_ref()?;
        let (group, kind) = (group_of(&template.api_version), template.kind.as_str());
        let request = kind.strip_suffix("Template").unwrap_or(kind);
        let named = ObjectKey::new(namespace, &template.name);
        let requests = if self.has_kind(group, request) {
            let here = self.all(group, request).filter(|(key, _)| key.namespace == namespace);
            here.map(|(key, _)| key.name.clone()).collect()
        } else {
            let asked = select(&self.machines, namespace, |m| {
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
