//! The two templates that worker Machines are made from. Owns the look-up; must not know what is cloned
//! from them.
//! Source: cluster-api `core/reconcilers/{machinedeployment,machineset}` (`reconcileExternalTemplateReference`),
//! v1.14.2.

use std::sync::Arc;

use serde_json::Value;

use super::source::{Source, namespace};
use crate::status::contract::External;
use capi_types::machine::MachineSpec;
use capi_types::machine_deployment::MachineDeployment;
use capi_types::reference::ContractRef;

/// The templates that a Machine spec refers to.
#[derive(Clone, Debug, Default)]
pub struct Templates {
    /// The whole objects. `None`: missing, unreadable, or not referred to.
    pub infrastructure: Option<Arc<Value>>,
    /// `None`: missing, unreadable, or not referred to.
    pub bootstrap: Option<Arc<Value>>,
    /// Kinds that are referred to and do not exist, bootstrap first.
    pub missing: Vec<String>,
    /// Why one of them could not be read.
    pub unreadable: Option<String>,
}

impl Templates {
    /// Those of a MachineDeployment; the way out needs none.
    pub fn of_deployment(source: &impl Source, deployment: &MachineDeployment) -> Self {
        match deployment.metadata.deletion_timestamp {
            Some(_) => Self::default(),
            None => Self::of(source, namespace(deployment), &deployment.spec.template.spec),
        }
    }

    /// Reads both. References whose kind does not end in `Template` are not looked at.
    pub fn of(source: &impl Source, namespace: &str, spec: &MachineSpec) -> Self {
        let mut templates = Self::default();
        templates.bootstrap = templates.read(source, namespace, spec.bootstrap.config_ref.as_ref());
        templates.infrastructure = templates.read(source, namespace, Some(&spec.infrastructure_ref));
        templates
    }

    /// Those that were read, bootstrap first.
    pub fn all(&self) -> Vec<&Value> {
        self.bootstrap.iter().chain(&self.infrastructure).map(Arc::as_ref).collect()
    }

    fn read(
        &mut self,
        source: &impl Source,
        namespace: &str,
        reference: Option<&ContractRef>,
    ) -> Option<Arc<Value>> {
        // Upstream takes other kinds for objects that Machines share, and leaves them alone.
        let reference = reference.filter(|r| r.kind.ends_with("Template"))?;
        match source.template(namespace, Some(reference)) {
            External::Found(provided) => return Some(provided.shared_content()),
            External::NotFound { kind } => self.missing.push(kind),
            External::Unreadable { error, .. } => self.unreadable = Some(error),
            External::NotSet => {}
        }
        None
    }
}
