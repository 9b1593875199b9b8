//! What a MachineDeployment is judged by. Must not judge it.

use std::sync::Arc;

use super::source::{Source, namespace, selected};
use super::templates::Templates;
use crate::status::machine_deployment::Observed;
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use capi_types::machine_set::MachineSet;

/// Everything that its status looks at. `sets` are those that it controls; they count as unknown while a
/// template cannot be read, because the pass ends before it looks for them.
pub fn machine_deployment(
    source: &impl Source,
    deployment: &MachineDeployment,
    sets: Vec<Arc<MachineSet>>,
    templates: &Templates,
) -> Observed {
    Observed {
        deployment: deployment.clone(),
        sets: templates.unreadable.is_none().then_some(sets),
        machines: machines_of_deployment(source, deployment),
        missing_templates: templates.missing.clone(),
    }
}

/// All Machines that its selector matches, with any owner.
pub fn machines_of_deployment(source: &impl Source, deployment: &MachineDeployment) -> Vec<Arc<Machine>> {
    selected(source.machines(), namespace(deployment), &deployment.spec.selector)
}
