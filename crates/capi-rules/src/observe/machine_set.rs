//! What the plan of a MachineSet looks at. Must not plan it.

use std::sync::Arc;

use super::source::{Objects as _, Source, namespace};
use super::templates::Templates;
use crate::plan::machine_set::Observed;
use crate::plan::machine_set::preflight::Preflight;
use crate::status::contract::External;
use crate::status::machine_set as judged;
use crate::status::remediation::Limits;
use capi_types::cluster::Cluster;
use capi_types::key::{ObjectKey, annotation, label as label_of};
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use capi_types::machine_set::MachineSet;
use capi_types::names::{annotation as keys, label};

/// Everything that its plan looks at, but for what is behind its Machines ([`clones`]), which only a comparison with the
/// template needs. `machines` are those that it controls, `suffixes` the random parts of names, one for each Machine that
/// may be made.
pub fn machine_set(
    source: &impl Source,
    set: &MachineSet,
    cluster: &Cluster,
    machines: Vec<Arc<Machine>>,
    templates: &Templates,
    suffixes: Vec<String>,
) -> Observed {
    let deployment = deployment(source, set);
    Observed {
        set: set.clone(),
        machines,
        clones: Vec::new(),
        infrastructure_template: templates.infrastructure.clone(),
        bootstrap_template: templates.bootstrap.clone(),
        missing_templates: templates.missing.clone(),
        has_unreadable_template: templates.unreadable.is_some(),
        needs_templates: judged::needs_templates(set, deployment.as_deref()),
        preflight: preflight(source, set, cluster),
        remediation: Limits::of(set, deployment.as_deref()),
        suffixes,
        updates_in_place: false,
        target: target(source, set),
    }
}

/// The MachineSet that takes its surplus.
fn target(source: &impl Source, set: &MachineSet) -> Option<Arc<MachineSet>> {
    let name = annotation(set, keys::MOVE_MACHINES_TO)?;
    source.machine_sets().get(&ObjectKey::new(namespace(set), name))
}

/// Infrastructure and bootstrap configuration of each Machine, in the same order.
pub fn clones(source: &impl Source, machines: &[Arc<Machine>]) -> Vec<[External; 2]> {
    let behind = |machine: &Arc<Machine>| {
        let spec = &machine.spec;
        [Some(&spec.infrastructure_ref), spec.bootstrap.config_ref.as_ref()]
            .map(|reference| source.external(namespace(machine.as_ref()), reference))
    };
    machines.iter().map(behind).collect()
}

/// What the checks before a new Machine look at.
fn preflight(source: &impl Source, set: &MachineSet, cluster: &Cluster) -> Preflight {
    let control_plane = source.external(namespace(set), cluster.spec.control_plane_ref.as_ref());
    let template = source.template(namespace(set), set.spec.template.spec.bootstrap.config_ref.as_ref());
    Preflight::gather(set, cluster, &control_plane, &template)
}

/// The MachineDeployment that the set names as its own.
fn deployment(source: &impl Source, set: &MachineSet) -> Option<Arc<MachineDeployment>> {
    let name = label_of(set, label::DEPLOYMENT_NAME)?;
    source.machine_deployments().get(&ObjectKey::new(namespace(set), name))
}
