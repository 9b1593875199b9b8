//! KubeadmControlPlane. Source: `controlplane/kubeadm/webhooks/admission/
//! {kubeadmcontrolplane,scale}.go`.

use serde_json::{Map, Value, json};

use super::bootstrap;
use super::value::{check_naming, check_taints, check_version, fill, prefix_version, set, text};
use crate::apiserver::failure::Cause;

/// Paths that may change after creation; `*` stands for anything below.
const CHANGEABLE: [&str; 48] = [
    "metadata.*",
    "spec.kubeadmConfigSpec.clusterConfiguration.etcd",
    "spec.kubeadmConfigSpec.clusterConfiguration.etcd.*",
    "spec.kubeadmConfigSpec.clusterConfiguration.dns",
    "spec.kubeadmConfigSpec.clusterConfiguration.dns.*",
    "spec.kubeadmConfigSpec.clusterConfiguration.imageRepository",
    "spec.kubeadmConfigSpec.clusterConfiguration.featureGates",
    "spec.kubeadmConfigSpec.clusterConfiguration.featureGates.*",
    "spec.kubeadmConfigSpec.clusterConfiguration.apiServer",
    "spec.kubeadmConfigSpec.clusterConfiguration.apiServer.*",
    "spec.kubeadmConfigSpec.clusterConfiguration.controllerManager",
    "spec.kubeadmConfigSpec.clusterConfiguration.controllerManager.*",
    "spec.kubeadmConfigSpec.clusterConfiguration.scheduler",
    "spec.kubeadmConfigSpec.clusterConfiguration.scheduler.*",
    "spec.kubeadmConfigSpec.clusterConfiguration.certificateValidityPeriodDays",
    "spec.kubeadmConfigSpec.clusterConfiguration.encryptionAlgorithm",
    "spec.kubeadmConfigSpec.initConfiguration.nodeRegistration.*",
    "spec.kubeadmConfigSpec.initConfiguration.patches",
    "spec.kubeadmConfigSpec.initConfiguration.patches.directory",
    "spec.kubeadmConfigSpec.initConfiguration.skipPhases",
    "spec.kubeadmConfigSpec.initConfiguration.bootstrapTokens",
    "spec.kubeadmConfigSpec.initConfiguration.localAPIEndpoint.*",
    "spec.kubeadmConfigSpec.initConfiguration.timeouts.*",
    "spec.kubeadmConfigSpec.joinConfiguration.nodeRegistration.*",
    "spec.kubeadmConfigSpec.joinConfiguration.patches",
    "spec.kubeadmConfigSpec.joinConfiguration.patches.directory",
    "spec.kubeadmConfigSpec.joinConfiguration.skipPhases",
    "spec.kubeadmConfigSpec.joinConfiguration.caCertPath",
    "spec.kubeadmConfigSpec.joinConfiguration.controlPlane.*",
    "spec.kubeadmConfigSpec.joinConfiguration.discovery.*",
    "spec.kubeadmConfigSpec.joinConfiguration.timeouts.*",
    "spec.kubeadmConfigSpec.bootCommands",
    "spec.kubeadmConfigSpec.preKubeadmCommands",
    "spec.kubeadmConfigSpec.postKubeadmCommands",
    "spec.kubeadmConfigSpec.files",
    "spec.kubeadmConfigSpec.verbosity",
    "spec.kubeadmConfigSpec.users",
    "spec.kubeadmConfigSpec.ntp.*",
    "spec.kubeadmConfigSpec.ignition.*",
    "spec.kubeadmConfigSpec.diskSetup.*",
    "spec.kubeadmConfigSpec.format",
    "spec.kubeadmConfigSpec.mounts",
    "spec.machineTemplate.metadata.*",
    "spec.machineTemplate.spec.*",
    "spec.replicas",
    "spec.version",
    "spec.remediation.*",
    "spec.machineNaming.*",
];

const CONFIG: &str = "/spec/kubeadmConfigSpec/clusterConfiguration";

pub(super) fn default(_: Option<&Value>, plane: &mut Value) {
    fill(plane, &["spec"], "replicas", json!(1));
    prefix_version(plane, "/spec/version");
    let strategy = ["spec", "rollout", "strategy"];
    set(plane, &strategy, "type", json!("RollingUpdate"));
    fill(plane, &["spec", "rollout", "strategy", "rollingUpdate"], "maxSurge", json!(1));
}

/// `Err` is the end of the sentence of a denied request.
pub(super) fn check_scale(plane: &Value, replicas: i64) -> Result<(), &'static str> {
    if replicas <= 0 {
        return Err("replicas should be greater than zero");
    }
    if replicas % 2 == 0 && !has_external_etcd(plane) {
        return Err("replicas cannot be an even number when etcd is stacked");
    }
    Ok(())
}

fn etcd<'a>(plane: &'a Value, which: &str) -> Option<&'a Value> {
    plane.pointer(&format!("{CONFIG}/etcd/{which}")).filter(|etcd| !etcd.is_null())
}

fn has_external_etcd(plane: &Value) -> bool {
    etcd(plane, "external").is_some()
}

pub(super) fn check(old: Option<&Value>, plane: &Value, causes: &mut Vec<Cause>) {
    check_replicas(plane, causes);
    let reference = "/spec/machineTemplate/spec/infrastructureRef";
    for field in ["apiGroup", "kind", "name"] {
        let pointer = format!("{reference}/{field}");
        if text(plane, &pointer).is_empty() {
            causes.push(Cause::invalid(super::value::dotted(&pointer), &json!(""), "cannot be empty"));
        }
    }
    check_version(plane, "/spec/version", causes);
    check_strategy(plane, causes);
    check_certificates(plane, causes);
    check_naming(plane, "/spec/machineNaming/template", causes);
    check_taints(plane, "/spec/machineTemplate/spec/taints", false, causes);
    check_etcd(old, plane, causes);
    bootstrap::check_spec(&plane["spec"]["kubeadmConfigSpec"], "spec.kubeadmConfigSpec", causes);
    if let Some(old) = old {
        check_changes(old, plane, causes);
        check_upgrade(old, plane, causes);
    }
}

fn check_replicas(plane: &Value, causes: &mut Vec<Cause>) {
    let field = "spec.replicas";
    match plane["spec"]["replicas"].as_i64() {
        None => causes.push(Cause::required(field, "is required")),
        Some(n) if n <= 0 => {
            causes.push(Cause::forbidden(field, "cannot be less than or equal to 0"));
        }
        Some(n) if n % 2 == 0 && !has_external_etcd(plane) => {
            causes.push(Cause::forbidden(field, "cannot be an even number when etcd is stacked"));
        }
        Some(_) => {}
    }
}

fn check_strategy(plane: &Value, causes: &mut Vec<Cause>) {
    let strategy = &plane["spec"]["rollout"]["strategy"];
    if strategy["type"] != "RollingUpdate" {
        causes.push(Cause::required("spec.rollout.strategy.type", "only RollingUpdate is supported"));
    }
    let field = "spec.rollout.strategy.rollingUpdate.maxSurge";
    let surge = &strategy["rollingUpdate"]["maxSurge"];
    match surge.as_i64() {
        Some(0) if plane["spec"]["replicas"].as_i64().unwrap_or(0) < 3 => {
            let detail =
                "when KubeadmControlPlane is configured to scale-in, replica count needs to be at least 3";
            causes.push(Cause::required("spec.rollout", detail));
        }
        Some(0 | 1) => {}
        _ => causes.push(Cause::required(field, "value must be 1 or 0")),
    }
}

/// Certificates must not outlive their CA.
fn check_certificates(plane: &Value, causes: &mut Vec<Cause>) {
    const CA_DAYS_DEFAULT: i64 = 3650;
    let config = plane.pointer(CONFIG).unwrap_or(&Value::Null);
    let Some(days) = config["certificateValidityPeriodDays"].as_i64().filter(|days| *days > 0) else {
        return;
    };
    let field = format!("{}.certificateValidityPeriodDays", super::value::dotted(CONFIG));
    match config["caCertificateValidityPeriodDays"].as_i64() {
        Some(ca) if days > ca => {
            let detail = format!("must be less than or equal to caCertificateValidityPeriodDays ({ca})");
            causes.push(Cause::invalid(field, &json!(days), &detail));
        }
        None if days > CA_DAYS_DEFAULT => {
            let detail = format!(
                "must be less than or equal to the default value of caCertificateValidityPeriodDays ({CA_DAYS_DEFAULT})"
            );
            causes.push(Cause::invalid(field, &json!(days), &detail));
        }
        _ => {}
    }
    let expiry = &plane["spec"]["rollout"]["before"]["certificatesExpiryDays"];
    if expiry.as_i64().is_some_and(|expiry| expiry >= days) {
        let detail = format!("must be less than certificateValidityPeriodDays ({days})");
        causes.push(Cause::invalid("spec.rollout.before.certificatesExpiryDays", expiry, &detail));
    }
}

fn check_etcd(old: Option<&Value>, plane: &Value, causes: &mut Vec<Cause>) {
    let field = format!("{}.etcd", super::value::dotted(CONFIG));
    let (local, external) = (etcd(plane, "local"), etcd(plane, "external"));
    if local.is_some() && external.is_some() {
        causes.push(Cause::forbidden(format!("{field}.local"), "cannot have both external and local etcd"));
    }
    if let Some(old) = old {
        let switched = |from: &str, to: &str| etcd(old, from).is_some() && etcd(plane, to).is_some();
        if switched("local", "external") || switched("external", "local") {
            causes.push(Cause::forbidden(field, "cannot change between external and local etcd"));
        }
    }
}

/// Everything that changed must be on the list.
fn check_changes(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return };
    let mut paths = Vec::new();
    changed(&mut Vec::new(), old, new, &mut paths);
    for path in paths {
        let first = path.first().map_or("", String::as_str);
        // The status cannot change here: it was carried over before.
        if first != "status"
            && !CHANGEABLE.iter().chain(&["spec.rollout.*"]).any(|allowed| covers(allowed, &path))
        {
            causes.push(Cause::forbidden(path.join("."), "cannot be modified"));
        }
    }
}

/// The leaf paths of a merge patch from `old` to `new`; a list is one leaf.
fn changed(
    at: &mut Vec<String>,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    out: &mut Vec<Vec<String>>,
) {
    let empty = Map::new();
    for key in old.keys().chain(new.keys().filter(|key| !old.contains_key(*key))) {
        if old.get(key) == new.get(key) {
            continue;
        }
        at.push(key.clone());
        match (old.get(key), new.get(key)) {
            (Some(Value::Object(old)), Some(Value::Object(new))) => changed(at, old, new, out),
            (_, Some(Value::Object(new))) => changed(at, &empty, new, out),
            _ => out.push(at.clone()),
        }
        at.pop();
    }
}

fn covers(allowed: &str, path: &[String]) -> bool {
    let mut allowed = allowed.split('.');
    for step in path {
        match allowed.next() {
            Some("*") => return true,
            Some(name) if name == step => {}
            _ => return false,
        }
    }
    // `a.*` covers `a` itself too: upstream compares lengths this way.
    matches!((allowed.next(), allowed.next()), (None | Some("*"), None))
}

/// At most one minor version at a time.
fn check_upgrade(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    let version =
        |object: &Value| semver::Version::parse(text(object, "/spec/version").trim_start_matches('v')).ok();
    let (Some(from), Some(to)) = (version(old), version(new)) else { return };
    if to.major > from.major || to.minor > from.minor.saturating_add(1) {
        let detail = format!("cannot update Kubernetes version from {from} to {to}");
        causes.push(Cause::forbidden("spec.version", &detail));
    }
}
