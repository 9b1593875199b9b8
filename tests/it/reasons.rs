//! Every reason that upstream's controllers give is expected by some rule table. The list is ours, by
//! kind and condition type; a reason that nothing here can give stands in `OUT_OF_SCOPE` with its why.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Kind and type, and the reasons it can have.
const REASONS: &[(&str, &[&str])] = &[
    ("any Paused", &["Paused", "NotPaused"]),
    (
        "mirrors",
        &[
            "NotYetReported",
            "NoReasonReported",
            "InvalidConditionReported",
            "ObjectDoesNotExist",
            "ObjectDeleted",
        ],
    ),
    ("any", &["InternalError", "ConnectionDown", "InspectionFailed"]),
    ("Machine Available", &["Available", "NotReady", "WaitingForMinReadySeconds", "InternalError"]),
    ("Machine Ready", &["Ready", "NotReady", "ReadyUnknown", "InternalError"]),
    ("Machine UpToDate", &["UpToDate", "NotUpToDate", "Updating"]),
    (
        "Machine BootstrapConfigReady",
        &[
            "DataSecretProvided",
            "Ready",
            "NotReady",
            "InternalError",
            "ObjectDeleted",
            "ObjectDoesNotExist",
            "InvalidConditionReported",
        ],
    ),
    (
        "Machine NodeReady",
        &["NodeReady", "NodeNotReady", "NodeReadyUnknown", "NodeDeleted", "NodeDoesNotExist"],
    ),
    ("Machine NodeHealthy", &["NodeHealthy", "NodeNotHealthy", "NodeHealthyUnknown"]),
    ("Machine Updating", &["InPlaceUpdating", "InPlaceUpdateFailed", "NotUpdating"]),
    (
        "Machine Deleting",
        &[
            "NotDeleting",
            "WaitingForPreDrainHook",
            "DrainingNode",
            "WaitingForVolumeDetach",
            "WaitingForPreTerminateHook",
            "WaitingForInfrastructureDeletion",
            "WaitingForBootstrapDeletion",
            "DeletingNode",
            "DeletionCompleted",
        ],
    ),
    (
        "Machine HealthCheckSucceeded",
        &[
            "HealthCheckSucceeded",
            "HasRemediateAnnotation",
            "UnhealthyMachine",
            "UnhealthyNode",
            "NodeStartupTimeout",
            "NodeDeleted",
        ],
    ),
    (
        "Machine OwnerRemediated",
        &[
            "WaitingForRemediation",
            "CannotBeRemediated",
            "RemediationDeferred",
            "MachineDeleting",
            "InternalError",
        ],
    ),
    (
        "Machine ExternallyRemediated",
        &["WaitingForRemediation", "RemediationTemplateNotFound", "RemediationRequestCreationFailed"],
    ),
    ("Machine NodeKubeadmLabelsAndTaintsSet", &["Set", "NotSet", "Deleting", "InspectionFailed"]),
    (
        "Machine pods",
        &[
            "Running",
            "Provisioning",
            "Failed",
            "DoesNotExist",
            "Deleting",
            "InspectionFailed",
            "ConnectionDown",
        ],
    ),
    (
        "Machine EtcdMemberHealthy",
        &["Healthy", "NotHealthy", "Deleting", "InspectionFailed", "ConnectionDown"],
    ),
    ("MachineHealthCheck RemediationAllowed", &["RemediationAllowed", "TooManyUnhealthy"]),
    (
        "replicas",
        &[
            "ScalingUp",
            "NotScalingUp",
            "ScalingDown",
            "NotScalingDown",
            "WaitingForReplicasSet",
            "WaitingForAvailableReplicasSet",
            "NoReplicas",
            "RollingOut",
            "NotRollingOut",
            "Remediating",
            "NotRemediating",
        ],
    ),
    ("MachineSet, MachineDeployment Deleting", &["Deleting", "NotDeleting"]),
    ("availability", &["Available", "NotAvailable", "AvailableUnknown"]),
    ("aggregates", &["UpToDateUnknown", "ReadyUnknown", "NotUpToDate"]),
    ("Cluster RemoteConnectionProbe", &["ProbeSucceeded", "ProbeFailed"]),
    ("Cluster ControlPlaneInitialized", &["Initialized", "NotInitialized"]),
    ("Cluster WorkersAvailable", &["NoWorkers"]),
    ("Cluster movements", &["RollingOutUnknown", "ScalingUpUnknown", "ScalingDownUnknown"]),
    (
        "Cluster Deleting",
        &[
            "WaitingForBeforeDeleteHook",
            "WaitingForWorkersDeletion",
            "WaitingForControlPlaneDeletion",
            "WaitingForInfrastructureDeletion",
            "DeletionCompleted",
        ],
    ),
    (
        "Cluster TopologyReconciled",
        &[
            "ReconcileSucceeded",
            "ReconcileFailed",
            "ClusterClassNotReconciled",
            "ClusterCreating",
            "ClusterUpgrading",
            "MachineDeploymentsUpgradeDeferred",
            "MachinePoolsUpgradeDeferred",
            "Paused",
            "Deleting",
        ],
    ),
    ("KubeadmControlPlane health", &["Healthy", "NotHealthy", "HealthUnknown"]),
    (
        "KubeadmControlPlane Deleting",
        &["WaitingForMachineDeletion", "WaitingForWorkersDeletion", "DeletionCompleted"],
    ),
    ("ClusterClass VariablesReady", &["VariablesReady", "VariableDiscoveryFailed"]),
    ("ClusterClass RefVersionsUpToDate", &["RefVersionsUpToDate", "RefVersionsNotUpToDate"]),
    (
        "DevMachine",
        &[
            "Provisioned",
            "WaitingForClusterInfrastructureReady",
            "WaitingForControlPlaneInitialized",
            "WaitingForBootstrapData",
            "WaitingForStartupTimeout",
            "WaitingForVMProvisioned",
            "WaitingForNodeProvisioned",
        ],
    ),
];

/// Upstream has the constant; no status here has it.
const OUT_OF_SCOPE: &[(&str, &str)] = &[
    ("IssuesReported", "the machinery's default; every caller upstream names its own reasons"),
    ("UnknownReported", "as above"),
    ("InfoReported", "as above"),
    ("NotProvisioned", "only given by the docker backend"),
    ("ControlPlaneUpgradePending", "kept upstream, never given"),
    ("MachineDeploymentsCreatePending", "kept upstream, never given"),
    ("MachineDeploymentsUpgradePending", "kept upstream, never given"),
    ("MachinePoolsCreatePending", "kept upstream, never given"),
    ("MachinePoolsUpgradePending", "kept upstream, never given"),
    ("LifecycleHookBlocking", "kept upstream, never given"),
    ("CGroupsReady reasons", "docker backend"),
    ("BootstrapCompleted reasons", "docker backend"),
];

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// The test code of the pure layers: test files, and what follows `#[cfg(test)]` in others.
fn tables() -> String {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    for folder in ["status", "plan", "cli/status_compute"] {
        rust_files(&src.join(folder), &mut files);
    }
    let mut text = String::new();
    for file in files {
        let code = std::fs::read_to_string(&file).expect("a source file");
        let is_test = file.file_name().is_some_and(|n| n == "tests.rs")
            || file.components().any(|c| c.as_os_str() == "tests");
        let tests = if is_test {
            Some(code.as_str())
        } else {
            code.find("#[cfg(test)]\nmod tests {").map(|at| &code[at..])
        };
        text.push_str(tests.unwrap_or_default());
    }
    text
}

/// The words of all string literals of the tables.
fn words(tables: &str) -> BTreeSet<&str> {
    tables.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty()).collect()
}

#[test]
fn every_reason_is_expected_by_a_table() {
    let tables = tables();
    let expected = words(&tables);
    let all: BTreeSet<&str> = REASONS.iter().flat_map(|(_, reasons)| *reasons).copied().collect();
    let open: Vec<String> = REASONS
        .iter()
        .flat_map(|(of, reasons)| reasons.iter().map(move |reason| (of, reason)))
        .filter(|(_, reason)| !expected.contains(*reason))
        .map(|(of, reason)| format!("{reason} ({of})"))
        .collect();
    println!(
        "reasons: {} of {} in rule tables, {} out of scope",
        all.len() - open.len(),
        all.len(),
        OUT_OF_SCOPE.len()
    );
    assert_eq!(open, Vec::<String>::new(), "add a row to a table in src/status");
    assert!(OUT_OF_SCOPE.iter().all(|(reason, why)| !all.contains(reason) && !why.is_empty()));
}
