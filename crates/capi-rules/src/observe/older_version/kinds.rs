//! Where the fields of each kind went. Must not know how a field is moved.

use serde_json::{Value, json};

use super::kubeadm;
use super::moves::Conversion::{Flag, Reference, Same, Seconds};
use super::moves::{Move, at, carry_out, each, leave_out, listed, put, take};

/// How long the stages of a Machine's deletion may take.
const DELETION: &[Move] = &[
    ("nodeDrainTimeout", "deletion.nodeDrainTimeoutSeconds", Seconds),
    ("nodeVolumeDetachTimeout", "deletion.nodeVolumeDetachTimeoutSeconds", Seconds),
    ("nodeDeletionTimeout", "deletion.nodeDeletionTimeoutSeconds", Seconds),
];

/// Of a Machine, or of a template of some.
const MACHINE_SPEC: &[Move] = &[
    ("infrastructureRef", "infrastructureRef", Reference),
    ("bootstrap.configRef", "bootstrap.configRef", Reference),
];

/// How a MachineDeployment replaces Machines, also in a topology.
const STRATEGY: &[Move] = &[
    ("strategy.type", "rollout.strategy.type", Same),
    ("strategy.rollingUpdate.maxSurge", "rollout.strategy.rollingUpdate.maxSurge", Same),
    ("strategy.rollingUpdate.maxUnavailable", "rollout.strategy.rollingUpdate.maxUnavailable", Same),
    ("strategy.rollingUpdate.deletePolicy", "deletion.order", Same),
];

const DEPLOYMENT_SPEC: &[Move] = &[
    ("strategy.remediation.maxInFlight", "remediation.maxInFlight", Same),
    ("rolloutAfter", "rollout.after", Same),
    ("machineNamingStrategy.template", "machineNaming.template", Same),
    ("minReadySeconds", "template.spec.minReadySeconds", Same),
];

const SET_SPEC: &[Move] = &[
    ("deletePolicy", "deletion.order", Same),
    ("machineNamingStrategy.template", "machineNaming.template", Same),
    ("minReadySeconds", "template.spec.minReadySeconds", Same),
];

const CONTROL_PLANE_SPEC: &[Move] = &[
    ("rolloutBefore.certificatesExpiryDays", "rollout.before.certificatesExpiryDays", Same),
    ("rolloutAfter", "rollout.after", Same),
    ("rolloutStrategy.type", "rollout.strategy.type", Same),
    ("rolloutStrategy.rollingUpdate.maxSurge", "rollout.strategy.rollingUpdate.maxSurge", Same),
    ("remediationStrategy.maxRetry", "remediation.maxRetry", Same),
    ("remediationStrategy.retryPeriod", "remediation.retryPeriodSeconds", Seconds),
    ("remediationStrategy.minHealthyPeriod", "remediation.minHealthyPeriodSeconds", Seconds),
    ("machineNamingStrategy.template", "machineNaming.template", Same),
    ("machineTemplate.infrastructureRef", "machineTemplate.spec.infrastructureRef", Reference),
    ("machineTemplate.readinessGates", "machineTemplate.spec.readinessGates", Same),
    ("machineTemplate.taints", "machineTemplate.spec.taints", Same),
    ("machineTemplate.nodeDrainTimeout", "machineTemplate.spec.deletion.nodeDrainTimeoutSeconds", Seconds),
    (
        "machineTemplate.nodeVolumeDetachTimeout",
        "machineTemplate.spec.deletion.nodeVolumeDetachTimeoutSeconds",
        Seconds,
    ),
    (
        "machineTemplate.nodeDeletionTimeout",
        "machineTemplate.spec.deletion.nodeDeletionTimeoutSeconds",
        Seconds,
    ),
];

/// Of a MachineHealthCheck's spec, or of what a topology says in place of one.
const CHECK: &[Move] = &[
    ("unhealthyConditions", "checks.unhealthyNodeConditions", Same),
    ("unhealthyMachineConditions", "checks.unhealthyMachineConditions", Same),
    ("nodeStartupTimeout", "checks.nodeStartupTimeoutSeconds", Seconds),
    ("maxUnhealthy", "remediation.triggerIf.unhealthyLessThanOrEqualTo", Same),
    ("unhealthyRange", "remediation.triggerIf.unhealthyInRange", Same),
    ("remediationTemplate", "remediation.templateRef", Same),
    ("enable", "enabled", Same),
];

/// Of what fails for good, and of every condition of the older kind.
const ENDED: &[Move] = &[
    ("conditions", "deprecated.v1beta1.conditions", Same),
    ("failureReason", "deprecated.v1beta1.failureReason", Same),
    ("failureMessage", "deprecated.v1beta1.failureMessage", Same),
];

/// Counters whose meaning became another one under the same name, or that are gone.
const OLD_COUNTERS: &[Move] = &[
    ("readyReplicas", "deprecated.v1beta1.readyReplicas", Same),
    ("availableReplicas", "deprecated.v1beta1.availableReplicas", Same),
    ("unavailableReplicas", "deprecated.v1beta1.unavailableReplicas", Same),
    ("updatedReplicas", "deprecated.v1beta1.updatedReplicas", Same),
    ("fullyLabeledReplicas", "deprecated.v1beta1.fullyLabeledReplicas", Same),
];

/// What releases since 1.9 write beside the older form.
const NEWER: &[Move] = &[
    ("v1beta2.conditions", "conditions", Same),
    ("v1beta2.readyReplicas", "readyReplicas", Same),
    ("v1beta2.availableReplicas", "availableReplicas", Same),
    ("v1beta2.upToDateReplicas", "upToDateReplicas", Same),
    ("v1beta2.controlPlane", "controlPlane", Same),
    ("v1beta2.workers", "workers", Same),
];

const INITIALIZATION: &[Move] = &[
    ("bootstrapReady", "initialization.bootstrapDataSecretCreated", Flag),
    ("infrastructureReady", "initialization.infrastructureProvisioned", Flag),
];

/// The status of any kind, and after it what only `own` kinds have.
fn status(object: &mut Value, counts: bool, own: &[Move]) {
    at(object, "status", |status| {
        // What is older goes first: newer fields take the places of the same names.
        carry_out(ENDED, status);
        if counts {
            carry_out(OLD_COUNTERS, status);
        }
        carry_out(NEWER, status);
        leave_out(&["v1beta2"], status);
        carry_out(own, status);
    });
}

fn machine_spec(spec: &mut Value) {
    carry_out(MACHINE_SPEC, spec);
    carry_out(DELETION, spec);
}

pub(super) fn machine(object: &mut Value) {
    at(object, "spec", machine_spec);
    status(object, false, INITIALIZATION);
    at(object, "status", |status| {
        if let Some(node) = take(status, "nodeRef.name") {
            put(status, "nodeRef", json!({"name": node}));
        }
    });
}

pub(super) fn machine_deployment(object: &mut Value) {
    at(object, "spec", |spec| {
        at(spec, "template.spec", machine_spec);
        carry_out(STRATEGY, spec);
        carry_out(DEPLOYMENT_SPEC, spec);
        let gone = ["strategy", "machineNamingStrategy", "progressDeadlineSeconds", "revisionHistoryLimit"];
        leave_out(&gone, spec);
    });
    status(object, true, &[]);
}

pub(super) fn machine_set(object: &mut Value) {
    at(object, "spec", |spec| {
        at(spec, "template.spec", machine_spec);
        // There a zero is what is not set.
        if spec["minReadySeconds"] == 0 {
            take(spec, "minReadySeconds");
        }
        if spec["deletePolicy"] == "" {
            take(spec, "deletePolicy");
        }
        carry_out(SET_SPEC, spec);
        leave_out(&["machineNamingStrategy"], spec);
    });
    status(object, true, &[]);
}

pub(super) fn machine_pool(object: &mut Value) {
    at(object, "spec", |spec| {
        at(spec, "template.spec", machine_spec);
        carry_out(&[("minReadySeconds", "template.spec.minReadySeconds", Same)], spec);
    });
    status(object, true, INITIALIZATION);
}

pub(super) fn machine_health_check(object: &mut Value) {
    at(object, "spec", health_check);
    status(object, false, &[]);
}

fn health_check(spec: &mut Value) {
    carry_out(CHECK, spec);
    for list in ["checks.unhealthyNodeConditions", "checks.unhealthyMachineConditions"] {
        each(spec, list, |condition| carry_out(&[("timeout", "timeoutSeconds", Seconds)], condition));
    }
    at(spec, "remediation.templateRef", |reference| leave_out(&["namespace"], reference));
}

pub(super) fn cluster(object: &mut Value) {
    at(object, "spec", |spec| {
        carry_out(
            &[
                ("infrastructureRef", "infrastructureRef", Reference),
                ("controlPlaneRef", "controlPlaneRef", Reference),
            ],
            spec,
        );
        at(spec, "topology", topology);
    });
    let initialization = [
        ("controlPlaneReady", "initialization.controlPlaneInitialized", Flag),
        ("infrastructureReady", "initialization.infrastructureProvisioned", Flag),
    ];
    status(object, false, &initialization);
    at(object, "status", |status| {
        if let Some(domains) = take(status, "failureDomains") {
            put(status, "failureDomains", listed(domains));
        }
    });
}

fn topology(topology: &mut Value) {
    carry_out(&[("class", "classRef.name", Same), ("classNamespace", "classRef.namespace", Same)], topology);
    leave_out(&["rolloutAfter"], topology);
    at(topology, "controlPlane", |plane| {
        carry_out(DELETION, plane);
        topology_check(plane);
    });
    each(topology, "workers.machineDeployments", |group| {
        carry_out(STRATEGY, group);
        topology_check(group);
        carry_out(
            &[("strategy.remediation.maxInFlight", "healthCheck.remediation.maxInFlight", Same)],
            group,
        );
        carry_out(DELETION, group);
        leave_out(&["strategy"], group);
    });
    each(topology, "workers.machinePools", |group| carry_out(DELETION, group));
    each(topology, "variables", |variable| leave_out(&["definitionFrom"], variable));
}

fn topology_check(group: &mut Value) {
    carry_out(&[("machineHealthCheck", "healthCheck", Same)], group);
    at(group, "healthCheck", health_check);
}

fn control_plane_spec(spec: &mut Value) {
    at(spec, "kubeadmConfigSpec", kubeadm::convert);
    carry_out(CONTROL_PLANE_SPEC, spec);
    // There a zero is what is not set.
    if spec["remediation"]["retryPeriodSeconds"] == 0 {
        take(spec, "remediation.retryPeriodSeconds");
    }
    leave_out(&["rolloutBefore", "rolloutStrategy", "remediationStrategy", "machineNamingStrategy"], spec);
}

pub(super) fn control_plane(object: &mut Value) {
    at(object, "spec", control_plane_spec);
    let own = [
        ("initialized", "initialization.controlPlaneInitialized", Flag),
        ("lastRemediation.timestamp", "lastRemediation.time", Same),
    ];
    status(object, true, &own);
    at(object, "status", |status| leave_out(&["ready"], status));
}

pub(super) fn control_plane_template(object: &mut Value) {
    at(object, "spec.template.spec", control_plane_spec);
}

pub(super) fn config(object: &mut Value) {
    at(object, "spec", kubeadm::convert);
    status(object, false, &[("ready", "initialization.dataSecretCreated", Flag)]);
}

pub(super) fn config_template(object: &mut Value) {
    at(object, "spec.template.spec", kubeadm::convert);
}
