//! What is true of a DevCluster and a DevMachine with the in-memory backend: which parts of a machine are
//! up, and what the next one waits for. Owns conditions and their order; must not know when a part comes up, nor the simulator
//! that brings it up.
//! Source: cluster-api `test/infrastructure/docker/internal/controllers/backends/inmemory`, v1.14.2.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::status::conditions::merge::{Reasons, Summary};
use crate::status::conditions::setter::{CHECK_LOGS, Draft, condition, not_paused};
use capi_types::condition::Status;
use capi_types::dev::{
    DevCluster, DevClusterStatus, DevMachine, DevMachineStatus, InfrastructureInitialization,
};
use capstan_base::time::Timestamp;

/// Condition types that the DevMachine controller owns.
pub const OWNED: [&str; 6] =
    ["Paused", "Ready", "VMProvisioned", "NodeProvisioned", "EtcdProvisioned", "APIServerProvisioned"];

/// How far one part of a pretended machine is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// Its time has not come, or is not over.
    #[default]
    Starting,
    /// It runs.
    Up,
    /// Something broke while it was made.
    Failed,
}

/// Everything a DevMachine is judged by.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// As it is now, this run's own writes included.
    pub machine: DevMachine,
    /// Its Machine is one of the control plane: it also has etcd and an API server.
    pub control_plane: bool,
    /// `status.initialization.infrastructureProvisioned` of its Cluster.
    pub cluster_provisioned: bool,
    /// Its Cluster's condition of that name.
    pub control_plane_initialized: bool,
    /// Its Machine has a bootstrap data secret.
    pub has_bootstrap_data: bool,
    /// The pretended machine itself.
    pub vm: Part,
    /// Its Node in the workload cluster.
    pub node: Part,
    /// Only of a control plane.
    pub etcd: Part,
    /// Only of a control plane.
    pub api_server: Part,
}

/// The status of a DevCluster that is not paused. It has no condition but `Paused`, and is provisioned as
/// soon as its controller has looked at it; while it is deleted its status stays as it is.
pub fn cluster_status(cluster: &DevCluster, now: Timestamp) -> DevClusterStatus {
    let mut status = cluster.status.clone().unwrap_or_default();
    let mut draft = Draft::new(std::mem::take(&mut status.conditions), cluster.metadata.generation, now);
    draft.set(not_paused());
    status.conditions = draft.finish();
    if cluster.metadata.deletion_timestamp.is_none() {
        status.initialization = Some(InfrastructureInitialization { provisioned: Some(true) });
    }
    status
}

/// The status of a DevMachine that is not paused.
pub fn status(o: &Observed, now: Timestamp) -> DevMachineStatus {
    let mut status = o.machine.status.clone().unwrap_or_default();
    if o.vm == Part::Up {
        status.initialization = Some(InfrastructureInitialization { provisioned: Some(true) });
    }
    let mut draft = Draft::new(std::mem::take(&mut status.conditions), o.machine.metadata.generation, now);
    draft.set(not_paused());
    draft.set(part("VMProvisioned", o.vm, before_vm(o)));
    draft.set(part("NodeProvisioned", o.node, before_node(o)));
    let mut types = vec!["VMProvisioned", "NodeProvisioned"];
    if o.control_plane {
        draft.set(part("EtcdProvisioned", o.etcd, before_component(o)));
        draft.set(part("APIServerProvisioned", o.api_server, before_component(o)));
        types.extend(["EtcdProvisioned", "APIServerProvisioned"]);
    }
    draft.set(Summary::new("Ready", types, Reasons::READY).of(draft.list()));
    status.conditions = draft.finish();
    status
}

fn part(type_: &str, part: Part, waiting: Option<&str>) -> Condition {
    match (part, waiting) {
        (Part::Up, _) => condition(type_, Status::True, "Provisioned", ""),
        // What is waited for comes first: the part's own time begins only after that.
        (Part::Starting, Some(reason)) => condition(type_, Status::False, reason, ""),
        (Part::Starting, None) => condition(type_, Status::False, "WaitingForStartupTimeout", ""),
        (Part::Failed, _) => condition(type_, Status::False, "InternalError", CHECK_LOGS),
    }
}

fn before_vm(o: &Observed) -> Option<&'static str> {
    if !o.cluster_provisioned {
        Some("WaitingForClusterInfrastructureReady")
    } else if o.has_bootstrap_data {
        None
    } else if !o.control_plane && !o.control_plane_initialized {
        Some("WaitingForControlPlaneInitialized")
    } else {
        Some("WaitingForBootstrapData")
    }
}

fn before_node(o: &Observed) -> Option<&'static str> {
    (o.vm != Part::Up).then_some("WaitingForVMProvisioned")
}

fn before_component(o: &Observed) -> Option<&'static str> {
    before_node(o).or_else(|| (o.node != Part::Up).then_some("WaitingForNodeProvisioned"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::conditions::setter::CHECK_LOGS;
    use crate::status::tests::witness;

    fn told(o: &Observed) -> Vec<String> {
        let all = status(o, Timestamp::default()).conditions;
        all.iter().map(|c| format!("{}={}/{}", c.type_, c.status, c.reason)).collect()
    }

    fn ready(o: &Observed) -> String {
        status(o, Timestamp::default()).conditions[0].message.clone()
    }

    #[test]
    fn parts_come_up_one_after_the_other() {
        let mut o = Observed { control_plane: true, ..Observed::default() };
        assert_eq!(
            told(&o),
            [
                "Ready=False/NotReady",
                "APIServerProvisioned=False/WaitingForVMProvisioned",
                "EtcdProvisioned=False/WaitingForVMProvisioned",
                "NodeProvisioned=False/WaitingForVMProvisioned",
                "VMProvisioned=False/WaitingForClusterInfrastructureReady",
                "Paused=False/NotPaused"
            ]
        );
        o.cluster_provisioned = true;
        assert_eq!(
            ready(&o),
            "* VMProvisioned: WaitingForBootstrapData\n* NodeProvisioned: WaitingForVMProvisioned\n\
             * EtcdProvisioned: WaitingForVMProvisioned\n* APIServerProvisioned: WaitingForVMProvisioned"
        );
        o.has_bootstrap_data = true;
        assert!(ready(&o).starts_with("* VMProvisioned: WaitingForStartupTimeout\n"));
        o.vm = Part::Up;
        assert_eq!(
            ready(&o),
            "* NodeProvisioned: WaitingForStartupTimeout\n* EtcdProvisioned: WaitingForNodeProvisioned\n\
             * APIServerProvisioned: WaitingForNodeProvisioned"
        );
        o.node = Part::Up;
        o.etcd = Part::Up;
        assert_eq!(ready(&o), "* APIServerProvisioned: WaitingForStartupTimeout");
        o.api_server = Part::Up;
        assert_eq!(told(&o)[0], "Ready=True/Ready");
        o.etcd = Part::Failed;
        assert_eq!(ready(&o), "* EtcdProvisioned: Please check controller logs for errors");
        assert_eq!(told(&o)[2], "EtcdProvisioned=False/InternalError", "not unknown, as elsewhere");
    }

    #[track_caller]
    fn expect(o: &Observed, type_: &str, expected: (&str, &str, &str)) {
        witness::expect("DevMachine", &status(o, Timestamp::default()).conditions, type_, expected);
    }

    const COMPONENTS: [&str; 2] = ["EtcdProvisioned", "APIServerProvisioned"];

    #[test]
    fn every_reason() {
        let mut o = Observed { control_plane: true, ..Observed::default() };
        expect(&o, "VMProvisioned", ("False", "WaitingForClusterInfrastructureReady", ""));
        o.cluster_provisioned = true;
        expect(&o, "VMProvisioned", ("False", "WaitingForBootstrapData", ""));
        let worker = Observed { control_plane: false, ..o.clone() };
        expect(&worker, "VMProvisioned", ("False", "WaitingForControlPlaneInitialized", ""));
        o.has_bootstrap_data = true;
        expect(&o, "VMProvisioned", ("False", "WaitingForStartupTimeout", ""));
        expect(&o, "NodeProvisioned", ("False", "WaitingForVMProvisioned", ""));
        COMPONENTS.iter().for_each(|part| expect(&o, part, ("False", "WaitingForVMProvisioned", "")));
        o.vm = Part::Up;
        expect(&o, "VMProvisioned", ("True", "Provisioned", ""));
        expect(&o, "NodeProvisioned", ("False", "WaitingForStartupTimeout", ""));
        COMPONENTS.iter().for_each(|part| expect(&o, part, ("False", "WaitingForNodeProvisioned", "")));
        o.node = Part::Up;
        expect(&o, "NodeProvisioned", ("True", "Provisioned", ""));
        COMPONENTS.iter().for_each(|part| expect(&o, part, ("False", "WaitingForStartupTimeout", "")));
        let lines =
            "* EtcdProvisioned: WaitingForStartupTimeout\n* APIServerProvisioned: WaitingForStartupTimeout";
        expect(&o, "Ready", ("False", "NotReady", lines));
        (o.etcd, o.api_server) = (Part::Up, Part::Up);
        COMPONENTS.iter().for_each(|part| expect(&o, part, ("True", "Provisioned", "")));
        expect(&o, "Ready", ("True", "Ready", ""));
        o.vm = Part::Failed;
        o.node = Part::Up;
        expect(&o, "VMProvisioned", ("False", "InternalError", CHECK_LOGS));
        let line = format!("* VMProvisioned: {CHECK_LOGS}");
        expect(&o, "Ready", ("False", "NotReady", &line));
    }

    #[test]
    fn a_cluster_is_provisioned_once_it_is_looked_at_and_not_while_it_goes() {
        let mut cluster = DevCluster::default();
        let after = cluster_status(&cluster, Timestamp::default());
        assert_eq!(after.initialization.and_then(|i| i.provisioned), Some(true));
        witness::expect("DevCluster", &after.conditions, "Paused", ("False", "NotPaused", ""));
        cluster.metadata.deletion_timestamp = Some(capstan_base::time::to_k8s(Timestamp::default()));
        assert_eq!(cluster_status(&cluster, Timestamp::default()).initialization, None);
    }

    #[test]
    fn a_worker_waits_for_the_control_plane_and_has_two_parts() {
        let mut o = Observed { cluster_provisioned: true, ..Observed::default() };
        assert_eq!(
            told(&o),
            [
                "Ready=False/NotReady",
                "NodeProvisioned=False/WaitingForVMProvisioned",
                "VMProvisioned=False/WaitingForControlPlaneInitialized",
                "Paused=False/NotPaused"
            ]
        );
        o.control_plane_initialized = true;
        assert_eq!(
            ready(&o),
            "* VMProvisioned: WaitingForBootstrapData\n* NodeProvisioned: WaitingForVMProvisioned"
        );
        o.has_bootstrap_data = true;
        o.vm = Part::Up;
        assert_eq!(
            status(&o, Timestamp::default()).initialization.and_then(|i| i.provisioned),
            Some(true),
            "before the Node exists"
        );
    }
}
