//! Machines of a pool: one for each machine that its infrastructure shows. Pure; must not know what the machine is.
//! Source: `machinepool_controller_phases.go` (`createOrUpdateMachines`, `computeDesiredMachine`),
//! `machinepool_controller.go` (`setMachinesUptoDate`), v1.14.2.

use k8s_openapi::api::core::v1::Node;

use super::why::Why;
use crate::plan::naming::label_value;
use crate::plan::{Plan, Step, Write, field_owners, ownership};
use crate::status::contract::Provided;
use crate::status::machine_pool::{Observed, id_of, machine_up_to_date};
use capi_types::condition::find;
use capi_types::key::ObjectRef;
use capi_types::machine::{Bootstrap, Machine, MachineSpec};
use capi_types::names::{label, manager};
use capi_types::reference::ContractRef;

/// Nothing where the infrastructure names no kind: then it has no Machines.
pub(super) fn of_hosts(o: &Observed, infrastructure: &Provided, nodes: &[Node], plan: &mut Plan) {
    if infrastructure.text(&["status", "infrastructureMachineKind"]).is_none() {
        return;
    }
    for host in &o.hosts {
        let name = host.reference().key.name;
        let existing = o.machines.iter().find(|machine| machine.spec.infrastructure_ref.name == name);
        let desired = desired(o, host, existing, nodes);
        let writes = match existing {
            Some(live) => field_owners::keep(live, &desired, manager::MACHINE_POOL),
            None => vec![field_owners::create(&desired, manager::MACHINE_POOL)],
        };
        plan.steps.extend(Step::of(writes, Why::Host { kind: host.kind.clone(), name }));
    }
}

/// Its owner is there from the start, so that it does not count as stand-alone. The version is that of its Node.
fn desired(o: &Observed, host: &Provided, existing: Option<&Machine>, nodes: &[Node]) -> Machine {
    let object = host.reference();
    let id = host.text(&["spec", "providerID"]).filter(|id| !id.is_empty());
    // Upstream fills a map by ID, where the last Node wins.
    let node = id.and_then(|id| nodes.iter().rfind(|node| id_of(node).is_some_and(|found| found == id)));
    let kubelet =
        node.and_then(|node| Some(node.status.as_ref()?.node_info.as_ref()?.kubelet_version.clone()));
    let spec = MachineSpec {
        cluster_name: o.pool.spec.cluster_name.clone(),
        // A single configuration serves the whole pool; the
        // schema wants a name, which upstream leaves empty.
        bootstrap: Bootstrap { config_ref: None, data_secret_name: Some(String::new()) },
        infrastructure_ref: ContractRef {
            api_group: object.gvk.group.clone(),
            kind: host.kind.clone(),
            name: object.key.name.clone(),
        },
        version: kubelet.filter(|version| !version.is_empty()),
        ..MachineSpec::default()
    };
    let name = existing.and_then(|machine| machine.metadata.name.clone()).unwrap_or(object.key.name);
    let mut machine = Machine { spec, ..Machine::default() };
    let template = o.pool.spec.template.metadata.clone().unwrap_or_default();
    let mut labels = template.labels;
    let pool = o.pool.metadata.name.as_deref().unwrap_or_default();
    labels.insert(label::POOL_NAME.to_owned(), label_value(pool));
    labels.insert(label::CLUSTER_NAME.to_owned(), o.pool.spec.cluster_name.clone());
    machine.metadata.name = Some(name);
    machine.metadata.namespace.clone_from(&o.pool.metadata.namespace);
    machine.metadata.labels = Some(labels);
    machine.metadata.annotations = Some(template.annotations).filter(|all| !all.is_empty());
    machine.metadata.owner_references = Some(vec![ownership::owner(&o.pool, true)]);
    machine
}

pub(super) fn up_to_date(o: &Observed, plan: &mut Plan) {
    for machine in &o.machines {
        let condition = machine_up_to_date(machine);
        let stored = machine.status.as_ref().and_then(|status| find(&status.conditions, &condition.type_));
        let is_stored = stored.is_some_and(|stored| {
            (&stored.status, &stored.reason, &stored.message)
                == (&condition.status, &condition.reason, &condition.message)
        });
        if !is_stored {
            let (machine, type_) = (ObjectRef::of(machine), condition.type_.clone());
            let condition = Some(Box::new(condition));
            plan.step(Write::MachineCondition { machine, type_, condition }, Why::UpToDate);
        }
    }
}
