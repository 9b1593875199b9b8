//! What a MachineDeployment is judged by. Must not judge it.

use std::sync::Arc;

use super::source::{Objects as _, Source, namespace};
use super::templates::Templates;
use crate::api::machine::Machine;
use crate::api::machine_deployment::MachineDeployment;
use crate::api::machine_set::MachineSet;
use crate::status::machine_deployment::Observed;
use crate::status::selector::matches;

/// Everything that its status looks at. `sets` are those that it controls; they count as unknown while a
/// template cannot be read, because the pass ends before it looks for them.
#[must_use]
pub fn machine_deployment(
    source: &impl Source,
    deployment: &MachineDeployment,
    sets: Vec<Arc<MachineSet>>,
    templates: &Templates,
) -> Observed {
    // All that its selector matches, with any owner.
    let selector = &deployment.spec.selector;
    let selected = |machine: &Machine| matches(selector, machine.metadata.labels.as_ref());
    Observed {
        deployment: deployment.clone(),
        sets: templates.unreadable.is_none().then_some(sets),
        machines: source.machines().select(namespace(deployment), selected),
        missing_templates: templates.missing.clone(),
    }
}
