//! What must hold before a MachineSet makes a Machine: the control plane is there, stable, and not
//! behind. Pure; each failed check has its sentence.
//! Source: cluster-api `core/reconcilers/machineset/machineset_preflight.go`, v1.14.2 (MS-4).

use std::collections::BTreeSet;

use crate::status::conditions::wording::{PREFLIGHT_FAILED, plural};
use crate::status::contract::{External, Provided};
use capi_types::cluster::Cluster;
use capi_types::key::{ObjectKey, annotation};
use capi_types::machine_set::MachineSet;
use capi_types::names;
use capi_types::preflight::{ALL_CHECKS, PreflightCheck};
use capi_types::reference::ContractRef;
use k8s_machinery::version::{compare, tolerant};

/// What the checks look at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preflight {
    /// The MachineSet, `NAMESPACE/NAME`.
    pub set: String,
    /// What had to be read and could not be, in a sentence; no check is made then, and no Machine.
    pub unread: Option<String>,
    /// `None`: the Cluster names no control plane object, or one without a version; nothing to check.
    pub control_plane: Option<ControlPlane>,
    /// The MachineSet's `spec.template.spec.version`.
    pub version: Option<String>,
    /// Its bootstrap template is a KubeadmConfigTemplate.
    pub kubeadm: bool,
    /// `spec.topology.version` of the Cluster.
    pub topology_version: Option<String>,
    /// The Cluster's annotation that names the version being applied.
    pub upgrade_step: Option<String>,
    /// Checks to leave out, by name; `All` leaves out every one.
    pub skip: BTreeSet<String>,
}

/// The control plane object by its contract.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlPlane {
    /// `KIND NAMESPACE/NAME`.
    pub name: String,
    /// `spec.version`.
    pub version: String,
    /// Every version its status reports; empty while it is being provisioned.
    pub reported: Vec<String>,
    /// Why its list of versions is of no use.
    pub odd: Option<String>,
}

/// How every sentence about a check that could not be made begins.
const FAILED: &str = "failed to perform \"Scale up\": failed to perform preflight checks";

const STABLE: PreflightCheck = PreflightCheck::ControlPlaneIsStable;

/// Names the version that a topology upgrade is applying.
const UPGRADE_STEP: &str = "topology.internal.cluster.x-k8s.io/upgrade-step";

impl Preflight {
    /// What the checks look at, from the objects: what the Cluster's and the template's references lead to.
    pub fn gather(
        set: &MachineSet,
        cluster: &Cluster,
        control_plane: &External,
        bootstrap_template: &External,
    ) -> Self {
        let on_template =
            bootstrap_template.found().and_then(|t| t.annotation(names::annotation::SKIP_PREFLIGHT_CHECKS));
        // An empty annotation counts as none, so that the template's applies, as upstream.
        let own = annotation(set, names::annotation::SKIP_PREFLIGHT_CHECKS).filter(|text| !text.is_empty());
        let config = set.spec.template.spec.bootstrap.config_ref.as_ref();
        let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
        let skip = skipped(own.or(on_template));
        let lost_template = config.filter(|_| own.is_none()).and_then(|config| {
            let unreadable = format!("failed to get apiVersion for kind {}", config.kind);
            let why = lost(bootstrap_template, config, namespace, &unreadable)?;
            Some(format!("failed to read {} annotation: {why}", names::annotation::SKIP_PREFLIGHT_CHECKS))
        });
        // A control plane that cannot be read matters only where a check would look at it.
        let lost_control_plane = || {
            let reference = cluster.spec.control_plane_ref.as_ref().filter(|_| !skip.contains(ALL_CHECKS))?;
            let why = lost(control_plane, reference, namespace, "failed to get object from ref")?;
            let name = &reference.name;
            Some(format!("{FAILED}: failed to get ControlPlane {namespace}/{name}: {why}"))
        };
        Self {
            set: ObjectKey::of(set).to_string(),
            // Upstream reads the template's annotation first, and its failure is the one reported.
            unread: lost_template.or_else(lost_control_plane),
            control_plane: control_plane.found().and_then(|provided| ControlPlane::of(provided, namespace)),
            version: set.spec.template.spec.version.clone().filter(|version| !version.is_empty()),
            kubeadm: config
                .is_some_and(|r| r.kind == "KubeadmConfigTemplate" && r.api_group == names::BOOTSTRAP_GROUP),
            topology_version: cluster.spec.topology.as_ref().map(|t| t.version.clone()),
            upgrade_step: annotation(cluster, UPGRADE_STEP).filter(|v| !v.is_empty()).map(str::to_owned),
            skip,
        }
    }
}

/// Why the object that `reference` names could not be read, `unreadable` being what had failed unless it
/// is not there; `None` when it could be read.
fn lost(external: &External, reference: &ContractRef, namespace: &str, unreadable: &str) -> Option<String> {
    let ContractRef { api_group, kind, name } = reference;
    match external {
        External::NotFound { .. } => {
            let plural = plural(&kind.to_lowercase());
            Some(format!(
                "failed to retrieve {kind} {namespace}/{name}: {plural}.{api_group} {name:?} not found"
            ))
        }
        External::Unreadable { error, .. } => Some(format!("{unreadable}: {error}")),
        External::Found(_) | External::NotSet => None,
    }
}

impl ControlPlane {
    /// `None` without a version: there is nothing to check.
    fn of(provided: &Provided, namespace: &str) -> Option<Self> {
        let version = provided.text(&["spec", "version"])?.to_owned();
        let name = format!("{} {namespace}/{}", provided.kind, provided.name);
        Some(Self { name, version, reported: provided.reported_versions(), odd: provided.versions().err() })
    }
}

/// `spec.topology.version` semantics of `skip` as in the annotation: comma separated, spaces trimmed.
fn skipped(annotation: Option<&str>) -> BTreeSet<String> {
    annotation.unwrap_or_default().split(',').map(|s| s.trim().to_owned()).filter(|s| !s.is_empty()).collect()
}

/// The sentences that hold Machines back, in upstream's order; empty when they may be made.
pub fn failures(preflight: &Preflight) -> Vec<String> {
    check(preflight).unwrap_or_else(|why| vec![why])
}

/// The sentences of every check that fails, in upstream's order.
///
/// # Errors
/// What could not be read or parsed: then nothing was checked, and no Machine is made.
pub fn check(preflight: &Preflight) -> Result<Vec<String>, String> {
    if let Some(unread) = &preflight.unread {
        return Err(unread.clone());
    }
    match &preflight.control_plane {
        Some(control_plane) if !preflight.skip.contains(ALL_CHECKS) => {
            checked(preflight, control_plane).map_err(|why| format!("{FAILED}: {why}"))
        }
        _ => Ok(Vec::new()),
    }
}

fn checked(preflight: &Preflight, control_plane: &ControlPlane) -> Result<Vec<String>, String> {
    let version_of = |text: &str, whose: &str| {
        tolerant(text).map_err(|why| format!("failed to parse version {text:?} of {whose}: {why}"))
    };
    let name = control_plane.name.split_once(' ').map_or("", |(_, name)| name);
    let desired = version_of(&control_plane.version, &format!("ControlPlane {name}"))?;
    let set =
        preflight.version.as_ref().map(|text| version_of(text, &format!("MachineSet {}", preflight.set)));
    let set = set.transpose()?;
    let pair = set.map(|set| Pair { set, control_plane: desired.clone() });
    let failure = |check: PreflightCheck| match (check, &pair) {
        (PreflightCheck::ControlPlaneIsStable, _) => stable(preflight, control_plane, &desired),
        (PreflightCheck::KubernetesVersionSkew, Some(pair)) => Ok(kubernetes_skew(pair)),
        (PreflightCheck::KubeadmVersionSkew, Some(pair)) => Ok(kubeadm_skew(preflight, pair)),
        (PreflightCheck::ControlPlaneVersionSkew, Some(_)) => {
            Ok(control_plane_skew(preflight, control_plane))
        }
        (_, None) => Ok(None),
    };
    let wanted = PreflightCheck::ALL.iter().copied().filter(|check| !preflight.skip.contains(check.name()));
    let sentence = |check: PreflightCheck| {
        let found = failure(check).transpose()?;
        Some(found.map(|sentence| format!("{sentence} (\"{check}\" {PREFLIGHT_FAILED}")))
    };
    wanted.filter_map(sentence).collect()
}

fn stable(
    preflight: &Preflight,
    control_plane: &ControlPlane,
    desired: &semver::Version,
) -> Result<Option<String>, String> {
    let ControlPlane { name, version, .. } = control_plane;
    // In an upgrade of several steps the control plane stands below
    // the topology's version; at the step itself it is stable.
    if let Some(topology) = preflight.topology_version.as_ref().filter(|v| *v != version)
        && preflight.upgrade_step.as_ref() != Some(version)
    {
        let pending = preflight.upgrade_step.as_ref().unwrap_or(topology);
        return Ok(Some(format!("{name} has a pending version upgrade to {pending}")));
    }
    if let Some(odd) = &control_plane.odd {
        return Err(format!(
            "failed to perform \"{STABLE}\" preflight check: failed to check if {name} is provisioning: failed to get \
             control plane status version(s): {odd}"
        ));
    }
    if control_plane.reported.is_empty() {
        return Ok(Some(format!("{name} is provisioning")));
    }
    for text in &control_plane.reported {
        let reported = tolerant(text).map_err(|why| {
            format!(
                "failed to perform \"{STABLE}\" preflight check: failed to check if the {name} is upgrading: failed \
                 to parse control plane status version: {why}"
            )
        })?;
        // Other build metadata of the same number has no
        // known order, and upstream counts it as upgrading.
        if compare(&reported, desired).is_none_or(std::cmp::Ordering::is_lt) {
            return Ok(Some(format!("{name} is upgrading")));
        }
    }
    Ok(None)
}

/// Both versions without their `v`, and their minors.
struct Pair {
    set: semver::Version,
    control_plane: semver::Version,
}

fn kubernetes_skew(Pair { set, control_plane }: &Pair) -> Option<String> {
    let problem = if set.minor > control_plane.minor {
        "higher than ControlPlane version"
    // Upstream subtracts without a sign: every version is too old for a control plane before 1.3.
    } else if set.minor < control_plane.minor.wrapping_sub(3) {
        "more than 3 minor versions older than the ControlPlane version"
    } else {
        return None;
    };
    Some(format!(
        "MachineSet version ({set}) and ControlPlane version ({control_plane}) do not conform to the kubernetes \
         version skew policy as MachineSet version is {problem}"
    ))
}

fn kubeadm_skew(preflight: &Preflight, Pair { set, control_plane }: &Pair) -> Option<String> {
    (preflight.kubeadm && set.minor != control_plane.minor).then(|| {
        format!(
            "MachineSet version ({set}) and ControlPlane version ({control_plane}) do not conform to kubeadm version \
             skew policy as kubeadm only supports joining with the same major+minor version as the control plane"
        )
    })
}

fn control_plane_skew(preflight: &Preflight, control_plane: &ControlPlane) -> Option<String> {
    let set = preflight.version.as_ref()?;
    // Upstream compares raw texts here, and only with a
    // topology, which writes the version of a MachineSet.
    let behind = preflight.topology_version.is_some() && *set != control_plane.version;
    behind.then(|| {
        format!(
            "MachineSet version ({set}) is not yet the same as the ControlPlane version ({}), waiting for version to \
             be propagated to the MachineSet",
            control_plane.version
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preflight(set: &str, control_plane: &str, reported: &[&str]) -> Preflight {
        Preflight {
            control_plane: Some(ControlPlane {
                name: "KubeadmControlPlane ns/cp".into(),
                version: control_plane.into(),
                reported: reported.iter().map(|v| (*v).to_owned()).collect(),
                odd: None,
            }),
            version: Some(set.into()),
            kubeadm: true,
            ..Preflight::default()
        }
    }

    #[test]
    fn each_check_says_its_sentence() {
        for (given, expected) in [
            (preflight("v1.35.4", "v1.35.4", &["v1.35.4"]), &[][..]),
            (preflight("v1.35.4", "v1.35.4", &[]), &["KubeadmControlPlane ns/cp is provisioning"]),
            (
                preflight("v1.36.2", "v1.36.2", &["v1.35.4", "v1.36.2"]),
                &["KubeadmControlPlane ns/cp is upgrading"],
            ),
            (
                preflight("v1.36.2", "v1.35.4", &["v1.35.4"]),
                &[
                    "MachineSet version (1.36.2) and ControlPlane version (1.35.4) do not conform to the kubernetes",
                    "MachineSet version (1.36.2) and ControlPlane version (1.35.4) do not conform to kubeadm",
                ],
            ),
        ] {
            let found = failures(&given);
            assert_eq!(found.len(), expected.len(), "{found:?}");
            for (sentence, start) in found.iter().zip(expected) {
                assert!(
                    sentence.starts_with(start) && sentence.ends_with("preflight check failed)"),
                    "{sentence}"
                );
            }
        }
    }

    #[test]
    fn checks_are_skipped_by_name() {
        let mut given = preflight("v1.36.2", "v1.35.4", &["v1.35.4"]);
        given.skip = skipped(Some("KubeadmVersionSkew, KubernetesVersionSkew"));
        assert_eq!(failures(&given), Vec::<String>::new());
        given = preflight("v1.36.2", "v1.35.4", &[]);
        given.skip = skipped(Some("All"));
        assert_eq!(failures(&given), Vec::<String>::new());
    }

    #[test]
    fn a_topology_upgrade_is_waited_for() {
        let mut given = preflight("v1.35.4", "v1.35.4", &["v1.35.4"]);
        given.topology_version = Some("v1.36.2".into());
        assert!(
            failures(&given)[0]
                .starts_with("KubeadmControlPlane ns/cp has a pending version upgrade to v1.36.2")
        );
        given.upgrade_step = Some("v1.35.4".into());
        assert_eq!(failures(&given), Vec::<String>::new());
    }

    #[test]
    fn a_control_plane_reports_its_versions_by_contract() {
        let provided = Provided::new(serde_json::json!({
            "kind": "KubeadmControlPlane", "metadata": {"name": "cp"},
            "spec": {"version": "v1.36.2"},
            "status": {"versions": [{"version": "v1.35.4", "replicas": 1}, {"version": "v1.36.2"}]}
        }));
        let found = ControlPlane::of(&provided, "ns").expect("a version");
        assert_eq!(found.name, "KubeadmControlPlane ns/cp");
        assert_eq!(found.reported, ["v1.35.4", "v1.36.2"]);
        assert_eq!(ControlPlane::of(&Provided::new(serde_json::Value::Null), "ns"), None);
    }

    #[test]
    fn what_is_no_version_holds_machines_back() {
        let why = |set: &str, control_plane: &str, reported: &[&str], skip: &str| {
            let given = Preflight {
                set: "ns/set".into(),
                skip: skipped(Some(skip)),
                ..preflight(set, control_plane, reported)
            };
            failures(&given).join("\n")
        };
        let bad = "Invalid character(s) found in major number";
        let of = "failed to perform \"Scale up\": failed to perform preflight checks: failed to";
        assert_eq!(
            why("v1.35.0", "latest", &["v1.35.0"], ""),
            format!("{of} parse version \"latest\" of ControlPlane ns/cp: {bad} \"0latest\"")
        );
        let of_set = format!("{of} parse version \"new\" of MachineSet ns/set: {bad} \"0new\"");
        assert_eq!(why("new", "v1.35.0", &["v1.35.0"], ""), of_set);
        assert_eq!(why("new", "v1.35.0", &["odd"], ""), of_set, "it is said before the check that failed");
        let upgrading = format!(
            "{of} perform \"ControlPlaneIsStable\" preflight check: failed to check if the KubeadmControlPlane ns/cp \
             is upgrading: failed to parse control plane status version: {bad} \"0odd\""
        );
        assert_eq!(why("v1.34.0", "v1.35.0", &["odd"], ""), upgrading, "nor is any skew told");
        let mut listed = preflight("v1.35.0", "v1.35.0", &["v1.35.0"]);
        listed.control_plane.as_mut().expect("one").odd = Some("they make no sense".into());
        assert_eq!(
            failures(&listed),
            [format!(
                "{of} perform \"ControlPlaneIsStable\" preflight check: failed to check if KubeadmControlPlane ns/cp is \
                 provisioning: failed to get control plane status version(s): they make no sense"
            )]
        );
        assert_eq!(why("v1.35.0", "v1.35.0", &["odd"], "ControlPlaneIsStable"), "");
        assert_eq!(why("new", "v1.35.0", &["v1.35.0"], "All"), "");
    }

    #[test]
    fn what_cannot_be_read_holds_machines_back() {
        let reference = |kind: &str, name: &str| ContractRef {
            api_group: "g.io".into(),
            kind: kind.into(),
            name: name.into(),
        };
        let mut set = MachineSet::default();
        set.metadata.namespace = Some("ns".into());
        set.spec.template.spec.bootstrap.config_ref = Some(reference("AnyTemplate", "t"));
        let mut cluster = Cluster::default();
        cluster.spec.control_plane_ref = Some(reference("AnyControlPlane", "cp"));
        let gone = |kind: &str| External::NotFound { kind: kind.into() };
        let there = || External::Found(Provided::new(serde_json::json!({"kind": "AnyTemplate"})));
        let refused = || External::Unreadable { kind: "AnyControlPlane".into(), error: "refused".into() };
        let sentences = |set: &MachineSet, control_plane: &External, template: &External| {
            failures(&Preflight::gather(set, &cluster, control_plane, template))
        };
        let no_template = "failed to read machineset.cluster.x-k8s.io/skip-preflight-checks annotation: failed to \
                           retrieve AnyTemplate ns/t: anytemplates.g.io \"t\" not found";
        let no_control_plane = |why: &str| {
            format!(
                "failed to perform \"Scale up\": failed to perform preflight checks: failed to get ControlPlane \
                 ns/cp: {why}"
            )
        };
        let not_found = no_control_plane(
            "failed to retrieve AnyControlPlane ns/cp: anycontrolplanes.g.io \"cp\" not found",
        );
        assert_eq!(sentences(&set, &gone("AnyControlPlane"), &gone("AnyTemplate")), [no_template]);
        assert_eq!(sentences(&set, &gone("AnyControlPlane"), &there()), [not_found.as_str()]);
        assert_eq!(
            sentences(&set, &refused(), &there()),
            [no_control_plane("failed to get object from ref: refused")]
        );
        // What the set itself says makes the template unimportant, and may skip everything.
        let skip =
            |what: &str| [(names::annotation::SKIP_PREFLIGHT_CHECKS.to_owned(), what.to_owned())].into();
        set.metadata.annotations = Some(skip("KubeadmVersionSkew"));
        assert_eq!(sentences(&set, &gone("AnyControlPlane"), &gone("AnyTemplate")), [not_found.as_str()]);
        set.metadata.annotations = Some(skip("All"));
        assert_eq!(sentences(&set, &gone("AnyControlPlane"), &gone("AnyTemplate")), Vec::<String>::new());
    }
}
