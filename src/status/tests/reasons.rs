//! Every status and reason that upstream's controllers give is expected by some rule table for this
//! kind and this condition type. The tables run here once more, in a process of their own, and report
//! what they asserted: a reason counts only where a table has seen it. The list is checked, in both
//! directions, against the status reference when `../shared` is there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::status::tests::witness::{ASKED, MARK};

/// Who (kind, and writer where it is not the kind's own controller), section of the reference, condition
/// types, and what each of them can be. A line that begins with blanks goes on.
const LIST: &str = "\
Machine | 5.4 | BootstrapConfigReady | True/DataSecretProvided Unknown/InvalidConditionReported True/Ready False/NotReady
    Unknown/InternalError False/ObjectDeleted False/ObjectDoesNotExist False/NoReasonReported
Machine | 5.5 | InfrastructureReady | Unknown/InvalidConditionReported True/Ready False/NotReady Unknown/InternalError
    False/ObjectDeleted False/ObjectDoesNotExist False/NoReasonReported
Machine | 5.6 | NodeReady NodeHealthy | Unknown/InspectionFailed Unknown/ConnectionDown Unknown/InternalError False/NodeDeleted
    Unknown/NodeDoesNotExist
Machine | 5.6.1 | NodeReady | True/NodeReady False/NodeNotReady Unknown/NodeReadyUnknown
Machine | 5.6.1 | NodeHealthy | True/NodeHealthy False/NodeNotHealthy Unknown/NodeHealthyUnknown
Machine | 5.7 | Deleting | False/NotDeleting True/InternalError True/WaitingForPreDrainHook True/DrainingNode
    True/WaitingForVolumeDetach True/WaitingForPreTerminateHook True/WaitingForInfrastructureDeletion
    True/WaitingForBootstrapDeletion True/DeletingNode True/DeletionCompleted
Machine | 5.8 | Updating | True/InPlaceUpdating True/InPlaceUpdateFailed False/NotUpdating
Machine | 5.9 | UpToDate | False/NotUpToDate False/Updating True/UpToDate
Machine | 5.10 | Ready | True/Ready False/NotReady Unknown/ReadyUnknown Unknown/InternalError
Machine | 5.11 | Available | False/NotReady True/Available False/WaitingForMinReadySeconds
Machine by MachineHealthCheck | 6.2 | HealthCheckSucceeded | True/HealthCheckSucceeded False/HasRemediateAnnotation
    False/UnhealthyMachine False/UnhealthyNode False/NodeStartupTimeout False/NodeDeleted
Machine by MachineHealthCheck | 6.4 | OwnerRemediated | False/WaitingForRemediation
Machine by MachineHealthCheck | 6.4 | ExternallyRemediated | False/WaitingForRemediation False/RemediationTemplateNotFound
    False/RemediationRequestCreationFailed
MachineHealthCheck | 6.3 | RemediationAllowed | True/RemediationAllowed False/TooManyUnhealthy
MachineSet | 7.4 | ScalingUp | True/ScalingUp False/NotScalingUp
MachineSet | 7.6 | ScalingDown | True/ScalingDown False/NotScalingDown
MachineSet | 7.3 | ScalingUp ScalingDown | Unknown/InternalError Unknown/WaitingForReplicasSet
MachineSet | 7.3 | MachinesReady MachinesUpToDate Remediating Deleting | Unknown/InternalError
MachineSet | 7.7 | MachinesReady | Unknown/InternalError True/NoReplicas True/Ready False/NotReady Unknown/ReadyUnknown
MachineSet | 7.8 | MachinesUpToDate | True/NoReplicas True/UpToDate False/NotUpToDate Unknown/UpToDateUnknown
MachineSet | 7.9 | Remediating | True/Remediating False/NotRemediating
MachineSet | 7.10 | Deleting | True/Deleting False/NotDeleting
Machine by MachineSet | 7.11 | OwnerRemediated | False/CannotBeRemediated False/RemediationDeferred False/MachineDeleting
MachineDeployment | 8.3 | Available | Unknown/InternalError Unknown/WaitingForReplicasSet Unknown/WaitingForAvailableReplicasSet
    True/Available False/NotAvailable
MachineDeployment | 8.4 | RollingOut | True/RollingOut False/NotRollingOut
MachineDeployment | 8.5 | ScalingUp | True/ScalingUp False/NotScalingUp Unknown/InternalError Unknown/WaitingForReplicasSet
MachineDeployment | 8.6 | ScalingDown | True/ScalingDown False/NotScalingDown Unknown/InternalError Unknown/WaitingForReplicasSet
MachineDeployment | 8.7 | MachinesReady | True/NoReplicas True/Ready False/NotReady Unknown/ReadyUnknown
MachineDeployment | 8.7 | MachinesUpToDate | True/NoReplicas True/UpToDate False/NotUpToDate Unknown/UpToDateUnknown
MachineDeployment | 8.8 | Remediating | True/Remediating False/NotRemediating
MachineDeployment | 8.9 | Deleting | True/Deleting False/NotDeleting Unknown/InternalError
Cluster | 10.5 | RemoteConnectionProbe | False/ProbeFailed True/ProbeSucceeded
Cluster | 10.6 | InfrastructureReady | False/ObjectDoesNotExist Unknown/InvalidConditionReported True/Ready False/NotReady
    Unknown/InternalError False/ObjectDeleted False/NoReasonReported
Cluster | 10.7 | ControlPlaneAvailable | False/ObjectDoesNotExist Unknown/InvalidConditionReported True/Available
    False/NotAvailable Unknown/InternalError False/ObjectDeleted False/NoReasonReported
Cluster | 10.8 | ControlPlaneInitialized | Unknown/ObjectDoesNotExist Unknown/InternalError True/Initialized False/NotInitialized
Cluster | 10.9 | WorkersAvailable | Unknown/InternalError True/NoWorkers True/Available False/NotAvailable
    Unknown/AvailableUnknown
Cluster | 10.10 | ControlPlaneMachinesReady WorkerMachinesReady | Unknown/InternalError True/NoReplicas True/Ready False/NotReady
    Unknown/ReadyUnknown
Cluster | 10.10 | ControlPlaneMachinesUpToDate WorkerMachinesUpToDate | Unknown/InternalError True/NoReplicas True/UpToDate
    False/NotUpToDate Unknown/UpToDateUnknown
Cluster | 10.11 | RollingOut | Unknown/InternalError True/RollingOut False/NotRollingOut Unknown/RollingOutUnknown
Cluster | 10.11 | ScalingUp | Unknown/InternalError True/ScalingUp False/NotScalingUp Unknown/ScalingUpUnknown
Cluster | 10.11 | ScalingDown | Unknown/InternalError True/ScalingDown False/NotScalingDown Unknown/ScalingDownUnknown
Cluster | 10.12 | Remediating | Unknown/InternalError True/Remediating False/NotRemediating
Cluster | 10.13 | Deleting | False/NotDeleting True/WaitingForBeforeDeleteHook True/InternalError True/WaitingForWorkersDeletion
    True/WaitingForControlPlaneDeletion True/WaitingForInfrastructureDeletion True/DeletionCompleted
Cluster | 10.14 | Available | True/Available False/NotAvailable Unknown/AvailableUnknown Unknown/InternalError
Cluster | 10.15 | TopologyReconciled | False/Paused False/ReconcileFailed False/Deleting False/ClusterClassNotReconciled
    False/ClusterCreating True/ReconcileSucceeded False/ClusterUpgrading False/MachineDeploymentsUpgradeDeferred
    False/MachinePoolsUpgradeDeferred
KubeadmControlPlane | 11.3 | Initialized | True/Initialized False/NotInitialized
KubeadmControlPlane | 11.4 | CertificatesAvailable | Unknown/InternalError False/NotAvailable True/Available
KubeadmControlPlane | 11.5 | EtcdClusterHealthy ControlPlaneComponentsHealthy | Unknown/InspectionFailed
KubeadmControlPlane | 11.6 | EtcdClusterHealthy ControlPlaneComponentsHealthy | Unknown/ConnectionDown
Machine by KubeadmControlPlane | 11.6 | NodeKubeadmLabelsAndTaintsSet APIServerPodHealthy ControllerManagerPodHealthy SchedulerPodHealthy EtcdPodHealthy EtcdMemberHealthy |
    Unknown/InspectionFailed Unknown/ConnectionDown
Machine by KubeadmControlPlane | 11.7 | NodeKubeadmLabelsAndTaintsSet | False/Deleting Unknown/InspectionFailed True/Set
    False/NotSet
Machine by KubeadmControlPlane | 11.7 | APIServerPodHealthy ControllerManagerPodHealthy SchedulerPodHealthy EtcdPodHealthy |
    False/Deleting Unknown/InspectionFailed False/DoesNotExist False/Provisioning True/Running False/Failed
Machine by KubeadmControlPlane | 11.8 | EtcdMemberHealthy | Unknown/InspectionFailed False/Deleting False/NotHealthy True/Healthy
KubeadmControlPlane | 11.9 | EtcdClusterHealthy ControlPlaneComponentsHealthy | False/NotHealthy Unknown/HealthUnknown
    True/Healthy
Machine by KubeadmControlPlane | 11.10 | UpToDate | False/NotUpToDate False/Updating True/UpToDate
KubeadmControlPlane | 11.11 | RollingOut | True/RollingOut False/NotRollingOut
KubeadmControlPlane | 11.11 | MachinesReady | True/NoReplicas True/Ready False/NotReady Unknown/ReadyUnknown
KubeadmControlPlane | 11.11 | MachinesUpToDate | True/NoReplicas True/UpToDate False/NotUpToDate Unknown/UpToDateUnknown
KubeadmControlPlane | 11.11 | Remediating | True/Remediating False/NotRemediating
KubeadmControlPlane | 11.12 | ScalingUp | Unknown/WaitingForReplicasSet True/ScalingUp False/NotScalingUp
KubeadmControlPlane | 11.12 | ScalingDown | Unknown/WaitingForReplicasSet True/ScalingDown False/NotScalingDown
KubeadmControlPlane | 11.13 | Deleting | False/NotDeleting True/DeletionCompleted True/InternalError
    True/WaitingForWorkersDeletion True/WaitingForMachineDeletion
KubeadmControlPlane | 11.14 | Available | True/Available False/NotAvailable Unknown/InspectionFailed
Machine by KubeadmControlPlane | 11.15 | OwnerRemediated | False/RemediationDeferred False/CannotBeRemediated
    False/MachineDeleting
Machine by MachinePool | 12.2 | UpToDate | True/UpToDate False/NotUpToDate
ClusterClass | 13 | VariablesReady | True/VariablesReady False/VariableDiscoveryFailed
ClusterClass | 13 | RefVersionsUpToDate | True/RefVersionsUpToDate False/RefVersionsNotUpToDate Unknown/InternalError
KubeadmConfig | 14 | DataSecretAvailable | False/NotAvailable True/Available
KubeadmConfig | 14 | CertificatesAvailable | Unknown/InternalError True/Available
KubeadmConfig | 14 | Ready | True/Ready False/NotReady Unknown/ReadyUnknown
DevMachine | 15.2 | VMProvisioned | False/WaitingForClusterInfrastructureReady False/WaitingForControlPlaneInitialized
    False/WaitingForBootstrapData False/WaitingForStartupTimeout True/Provisioned False/InternalError
DevMachine | 15.2 | NodeProvisioned | False/WaitingForVMProvisioned False/WaitingForStartupTimeout True/Provisioned
DevMachine | 15.2 | EtcdProvisioned APIServerProvisioned | False/WaitingForVMProvisioned False/WaitingForNodeProvisioned
    False/WaitingForStartupTimeout True/Provisioned
DevMachine | 15.2 | Ready | True/Ready False/NotReady
";

/// `Paused` is the same for all of these.
const PAUSED: &str = "True/Paused False/NotPaused";
const PAUSABLE: [&str; 11] = [
    "ClusterClass",
    "Cluster",
    "KubeadmControlPlane",
    "MachineDeployment",
    "MachineSet",
    "MachinePool",
    "Machine",
    "MachineHealthCheck",
    "KubeadmConfig",
    "DevCluster",
    "DevMachine",
];

/// Words of the reference that look like reasons in these sections, and that no status here has.
const OUT_OF_SCOPE: &[(&str, &str, &str)] = &[
    ("5.7", "Deleting", "the first value of a run; a step of the same run replaces it"),
    ("15.2", "ReadyUnknown", "a part of a DevMachine is up or not, never unknown"),
    ("5.11", "InternalError", "for a Machine without Ready, which the line before has just set"),
    (
        "11.15",
        "InternalError",
        "when the Machine to be replaced cannot be deleted: the engine tries again and writes nothing",
    ),
];

/// Who, type, status and reason.
type Seen = BTreeSet<(String, String, String)>;

struct Row {
    of: String,
    section: String,
    types: Vec<String>,
    /// Status and reason.
    told: Vec<(String, String)>,
}

impl Row {
    fn parse(line: &str) -> Self {
        let mut parts = line.split('|').map(str::trim);
        let mut part = || parts.next().expect("four parts").to_owned();
        let (of, section, types, told) = (part(), part(), part(), part());
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let told = words(&told)
            .iter()
            .filter_map(|t| t.split_once('/'))
            .map(|(s, r)| (s.to_owned(), r.to_owned()))
            .collect();
        Self { of, section, types: words(&types), told }
    }
}

fn rows() -> Vec<Row> {
    LIST.replace("\n    ", " ").lines().map(Row::parse).collect()
}

/// Kind, type, status and reason of everything that the controllers report, whoever writes it.
pub(crate) fn reported() -> Vec<[String; 4]> {
    let of_kind = |of: &str| of.split(' ').next().unwrap_or_default().to_owned();
    let split = |(of, type_, told): &(String, String, String)| {
        let (status, reason) = told.split_once('/')?;
        Some([of_kind(of), type_.clone(), status.to_owned(), reason.to_owned()])
    };
    listed().iter().filter_map(split).collect()
}

fn listed() -> Seen {
    let paused = PAUSABLE.map(|of| Row::parse(&format!("{of} | 2.10 | Paused | {PAUSED}")));
    let mut all = Seen::new();
    for Row { of, types, told, .. } in rows().into_iter().chain(paused) {
        for type_ in types {
            all.extend(
                told.iter().map(|(status, reason)| (of.clone(), type_.clone(), format!("{status}/{reason}"))),
            );
        }
    }
    all
}

/// Runs the tables of the pure layers once more and collects what they report.
fn seen() -> Seen {
    let this = std::env::current_exe().expect("the test program");
    let tables = ["status::", "plan::", "recompute::", "--skip", "status::tests::reasons", "--nocapture"];
    let run = Command::new(this).args(tables).env(ASKED, "1").output().expect("it runs");
    let told = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success(), "a rule table fails:\n{told}");
    let report = |line: &str| {
        let mut parts = line.split_once(MARK)?.1.splitn(3, '/').map(str::to_owned);
        Some((parts.next()?, parts.next()?, parts.next()?))
    };
    told.lines().filter_map(report).collect()
}

#[test]
fn every_reason_of_every_condition_is_expected_by_a_table() {
    let (listed, seen) = (listed(), seen());
    let words = |all: &Seen| {
        all.iter()
            .filter_map(|(_, _, told)| told.split_once('/'))
            .map(|(_, r)| r.to_owned())
            .collect::<BTreeSet<_>>()
            .len()
    };
    println!(
        "reasons: {} of {} (kind, type, status, reason) in rule tables, {} different words",
        listed.intersection(&seen).count(),
        listed.len(),
        words(&listed)
    );
    let open: Vec<_> = listed.difference(&seen).collect();
    assert!(open.is_empty(), "add a row to a table in src/status for each of {open:#?}");
    let unknown: Vec<_> = seen.difference(&listed).collect();
    assert!(unknown.is_empty(), "tables expect what upstream never says, or the list lacks it: {unknown:#?}");
}

/// Section number to its text without code blocks.
fn sections(reference: &str) -> BTreeMap<String, String> {
    let mut all: BTreeMap<String, String> = BTreeMap::new();
    let mut current = String::new();
    for line in reference.lines() {
        if let Some(head) = line.strip_prefix("##") {
            let head = head.trim_start_matches('#').trim();
            current = head.split(' ').next().unwrap_or_default().trim_end_matches('.').to_owned();
        }
        all.entry(current.clone()).or_default().extend([line, "\n"]);
    }
    all
}

/// What stands between backquotes and is one word in camel case.
fn quoted_words(text: &str) -> BTreeSet<&str> {
    let quoted = text.split('`').skip(1).step_by(2).flat_map(|q| q.split(['/', '=']));
    let is_word = |w: &&str| {
        w.len() > 2
            && w.starts_with(|c: char| c.is_ascii_uppercase())
            && w.chars().all(|c| c.is_ascii_alphanumeric())
    };
    quoted.filter(is_word).collect()
}

fn reference() -> Option<String> {
    let root = std::env::var_os("CAPSTAN_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"), PathBuf::from);
    let path = root.join("reference/capi-status.md");
    let text = std::fs::read_to_string(&path);
    if text.is_err() {
        println!("skipped: {} is not there", path.display());
    }
    text.ok()
}

#[test]
fn the_list_is_that_of_the_reference() {
    let Some(text) = reference() else { return };
    let sections = sections(&text);
    let mut known: BTreeSet<String> =
        listed().into_iter().filter_map(|(_, _, told)| Some(told.split_once('/')?.1.to_owned())).collect();
    known.extend(quoted_words(&sections["1.3"]).into_iter().map(str::to_owned));
    // Every reason in the list stands in its section, or in the shared list.
    let shared = quoted_words(&sections["1.3"]);
    let rows = rows();
    for Row { of, section, types, told } in &rows {
        let own = quoted_words(&sections[section]);
        for (_, reason) in told {
            let reason = reason.as_str();
            assert!(own.contains(reason) || shared.contains(reason), "§{section} {of} {types:?}: {reason}");
        }
    }
    let told: BTreeSet<&str> =
        rows.iter().map(|row| row.section.as_str()).chain(SILENT.split_whitespace()).collect();
    let of_kinds = |s: &&String| {
        s.split('.').next().and_then(|n| n.parse().ok()).is_some_and(|n: u32| (5..=15).contains(&n))
    };
    let new: Vec<&String> = sections.keys().filter(of_kinds).filter(|s| !told.contains(s.as_str())).collect();
    assert_eq!(new, Vec::<&String>::new(), "sections that nobody looked at");
    // Every word of a section that is a reason anywhere is in the list for that section.
    let mut by_section: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for Row { section, types, told, .. } in &rows {
        let reasons = told.iter().map(|(_, reason)| reason.as_str());
        by_section.entry(section).or_default().extend(reasons.chain(types.iter().map(String::as_str)));
    }
    for (section, listed) in by_section {
        let spare = |word: &&str| {
            OUT_OF_SCOPE.iter().any(|(s, w, _)| *s == section && w == word)
                || MENTIONED
                    .iter()
                    .any(|(s, words)| *s == section && words.split_whitespace().any(|w| w == *word))
        };
        let words = quoted_words(&sections[section]);
        let missing: Vec<&str> =
            words.into_iter().filter(|w| known.contains(*w) && !listed.contains(w) && !spare(w)).collect();
        assert_eq!(missing, Vec::<&str>::new(), "§{section}");
    }
}

/// Words that a section mentions although its conditions never have them as a reason: types and reasons
/// of other conditions that they are made from or change.
const MENTIONED: &[(&str, &str)] = &[
    ("5.6.1", "Ready"),
    (
        "5.10",
        "BootstrapConfigReady Deleting DrainingNode HealthCheckSucceeded InfrastructureReady NodeDeleted NodeDoesNotExist \
      NodeHealthy NodeReady ObjectDeleted ObjectDoesNotExist Updating",
    ),
    ("5.11", "Ready"),
    ("6.2", "InfrastructureReady"),
    ("6.4", "HealthCheckSucceeded"),
    ("7.6", "Deleting DrainingNode"),
    ("7.9", "HealthCheckSucceeded"),
    ("7.11", "Remediating"),
    ("8.4", "UpToDate"),
    (
        "10.14",
        "ClusterClassNotReconciled Deleting InfrastructureReady ObjectDeleted ObjectDoesNotExist ReconcileFailed",
    ),
    ("11.4", "Initialized"),
    ("11.6", "Initialized UpToDate"),
    ("11.14", "Initialized"),
    ("11.15", "WaitingForRemediation"),
    ("12.2", "Available Ready"),
    ("13", "Paused ReconcileFailed"),
];

/// Sections 5 to 15 without a condition of their own, or of kinds and backends that are not judged here.
const SILENT: &str = "5 5.1 5.2 5.3 5.7.1 5.7.2 5.7.3 6 6.1 7 7.1 7.2 7.5 8 8.1 8.2 9 10 10.1 10.2 10.3 10.4 11 11.1 11.2 11.16 \
                      12 12.1 12.3 15 15.1 15.3";
