//! KubeadmControlPlane, its scale subresource and its template.
//!
//! Source: cluster-api `controlplane/kubeadm/webhooks/admission/{kubeadmcontrolplane,
//! kubeadmcontrolplane_scale,kubeadmcontrolplanetemplate}.go`, v1.14.2.

use std::cmp::Ordering;

use serde_json::{Map, Value, json};

use super::finding::{Denial, Findings};
use super::naming_template::check_machine_naming;
use super::parts::{check_metadata, check_taints};
use super::replicas::{ReplicaRefusal, replica_refusals};
use super::value::{annotation, at, fill, is_defined, set, text};
use super::{Request, Review, bootstrap, infrastructure};
use capi_types::coredns;
use capi_types::names::annotation as key;
use k8s_machinery::version;

/// Paths that may change after creation; `.*` stands for the path and anything below.
const CHANGEABLE: [&str; 49] = [
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
    "spec.rollout.*",
];

const CONFIG: &str = "kubeadmConfigSpec.clusterConfiguration";
/// Validity of a certificate authority that leaves it open.
const CA_DAYS: i64 = 3650;

pub(super) fn default(_: &Request<'_>, plane: &mut Value) -> Result<(), Denial> {
    fill(plane, &["spec"], "replicas", json!(1));
    // Also an empty version gets its letter, and is refused for the rest.
    let version = text(plane, "/spec/version");
    if !version.starts_with('v') {
        let version = format!("v{version}");
        set(plane, &["spec"], "version", json!(version));
    }
    // Set, not only filled in: upstream knows no other strategy and overwrites it.
    set(plane, &["spec", "rollout", "strategy"], "type", json!("RollingUpdate"));
    fill(plane, &["spec", "rollout", "strategy", "rollingUpdate"], "maxSurge", json!(1));
    Ok(())
}

/// The sentence of a denied request to scale.
pub(super) fn check_scale(plane: &Value, replicas: i64) -> Result<(), &'static str> {
    match replica_refusals(replicas, !has_external_etcd(&plane["spec"])).next() {
        Some(ReplicaRefusal::NotPositive) => Err("replicas should be greater than zero"),
        Some(ReplicaRefusal::EvenWithStackedEtcd) => {
            Err("replicas cannot be an even number when etcd is stacked")
        }
        None => Ok(()),
    }
}

fn configuration(spec: &Value) -> &Value {
    at(spec, "/kubeadmConfigSpec/clusterConfiguration")
}

fn has_external_etcd(spec: &Value) -> bool {
    is_defined(&configuration(spec)["etcd"]["external"])
}

pub(super) fn check(review: &Review<'_>, out: &mut Findings) {
    let (plane, spec) = (review.new, &review.new["spec"]);
    check_replicas(spec, out);
    for field in ["apiGroup", "kind", "name"] {
        if text(spec, &format!("/machineTemplate/spec/infrastructureRef/{field}")).is_empty() {
            // Not where the field is, but upstream's path.
            out.invalid(
                format!("spec.machineTemplate.infrastructure.{field}"),
                &json!(""),
                "cannot be empty",
            );
        }
    }
    check_version(spec, out);
    check_shared(spec, "spec", out);
    if let Some(old) = review.old {
        check_changes(old, plane, out);
        check_upgrade(&old["spec"], spec, out);
    }
    check_images(spec, "spec", out);
    check_etcd(review.old.map(|old| &old["spec"]), spec, "spec", out);
    if let Some(old) = review.old {
        check_dns_upgrade(&old["spec"], plane, out);
    }
    check_kubeadm(spec, "spec", out);
}

pub(super) fn check_template(review: &Review<'_>, out: &mut Findings) {
    const SPEC: &str = "spec.template.spec";
    let spec = at(review.new, "/spec/template/spec");
    if let Some(old) = review.old {
        let historic = |spec: &Value| {
            let mut spec = spec.clone();
            // Older webhooks filled defaults in: both sides
            // get them, so that only real changes differ.
            fill(&mut spec, &[], "kubeadmConfigSpec", json!({}));
            spec.pointer_mut("/kubeadmConfigSpec").into_iter().for_each(bootstrap::fill_history);
            spec
        };
        let (old, mut new) = (historic(at(old, "/spec/template/spec")), historic(spec));
        // Once filled in by a webhook: a template from then may be applied without it.
        let strategy = at(&old, "/rollout/strategy");
        if *strategy == json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}})
            && !is_defined(at(&new, "/rollout/strategy"))
        {
            set(&mut new, &["rollout"], "strategy", strategy.clone());
        }
        let request = "Please create new resource instead.";
        return infrastructure::refuse_difference("KubeadmControlPlaneTemplate", &old, &new, request, out);
    }
    check_shared(spec, SPEC, out);
    check_images(spec, SPEC, out);
    check_etcd(None, spec, SPEC, out);
    check_kubeadm(spec, SPEC, out);
    check_metadata(at(review.new, "/spec/template/metadata"), "spec.template.metadata", out);
}

/// What control planes and their templates have in common, besides kubeadm's configuration.
fn check_shared(spec: &Value, field: &str, out: &mut Findings) {
    let template = &spec["machineTemplate"];
    check_taints(&template["spec"]["taints"], &format!("{field}.machineTemplate.spec.taints"), out);
    check_metadata(&template["metadata"], &format!("{field}.machineTemplate.metadata"), out);
    if is_defined(&spec["rollout"]["strategy"]) {
        check_strategy(spec, field, out);
        check_certificates(spec, field, out);
    }
    let naming = &spec["machineNaming"]["template"];
    check_machine_naming(
        naming,
        &format!("{field}.machineNaming.template"),
        ".kubeadmControlPlane.name",
        out,
    );
}

fn check_kubeadm(spec: &Value, field: &str, out: &mut Findings) {
    let (config, field) = (&spec["kubeadmConfigSpec"], format!("{field}.kubeadmConfigSpec"));
    bootstrap::check_spec(config, &field, out);
    bootstrap::check_timeouts(config, &field, out);
}

fn check_replicas(spec: &Value, out: &mut Findings) {
    let field = "spec.replicas";
    let Some(replicas) = spec["replicas"].as_i64() else { return out.required(field, "is required") };
    for refusal in replica_refusals(replicas, !has_external_etcd(spec)) {
        let detail = match refusal {
            ReplicaRefusal::NotPositive => "cannot be less than or equal to 0",
            ReplicaRefusal::EvenWithStackedEtcd => "cannot be an even number when etcd is stacked",
        };
        out.forbidden(field, detail);
    }
}

fn check_version(spec: &Value, out: &mut Findings) {
    let version = text(spec, "/version");
    if !version.starts_with('v') {
        out.invalid("spec.version", &json!(version), "must start with v");
    }
    if !version::is_strict(version) {
        out.invalid("spec.version", &json!(version), "must be a valid semantic version");
    }
}

fn check_strategy(spec: &Value, field: &str, out: &mut Findings) {
    let strategy = &spec["rollout"]["strategy"];
    if strategy["type"] != "RollingUpdate" {
        out.required(format!("{field}.rollout.strategy.type"), "only RollingUpdate is supported");
    }
    let rolling = format!("{field}.rollout.strategy.rollingUpdate");
    // A text that is not a number counts as 0, as upstream reads it.
    let surge = match &strategy["rollingUpdate"]["maxSurge"] {
        Value::Null => return,
        Value::String(text) => text.parse().unwrap_or(0),
        number => number.as_i64().unwrap_or(0),
    };
    // With a surge of 0 a Machine goes first, and of fewer than three members none may.
    if surge == 0 && spec["replicas"].as_i64().is_some_and(|replicas| replicas < 3) {
        let detail =
            "when KubeadmControlPlane is configured to scale-in, replica count needs to be at least 3";
        out.required(rolling.clone(), detail);
    }
    if surge != 0 && surge != 1 {
        out.required(format!("{rolling}.maxSurge"), "value must be 1 or 0");
    }
}

/// Certificates must not outlive their authority, nor be renewed before they are made.
fn check_certificates(spec: &Value, field: &str, out: &mut Findings) {
    let config = configuration(spec);
    let Some(days) = config["certificateValidityPeriodDays"].as_i64().filter(|days| *days != 0) else {
        return;
    };
    let (what, ca) = match config["caCertificateValidityPeriodDays"].as_i64().filter(|days| *days != 0) {
        Some(ca) => ("caCertificateValidityPeriodDays", ca),
        None => ("the default value of caCertificateValidityPeriodDays", CA_DAYS),
    };
    if days > ca {
        let detail = format!("must be less than or equal to {what} ({ca})");
        out.invalid(format!("{field}.{CONFIG}.certificateValidityPeriodDays"), &json!(days), &detail);
    }
    let expiry = &spec["rollout"]["before"]["certificatesExpiryDays"];
    if expiry.as_i64().is_some_and(|expiry| expiry != 0 && expiry >= days) {
        let detail = format!("must be less than certificateValidityPeriodDays ({days})");
        out.invalid(format!("{field}.rollout.before.certificatesExpiryDays"), expiry, &detail);
    }
}

fn is_image_tag(tag: &str) -> bool {
    tag.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

fn check_images(spec: &Value, field: &str, out: &mut Findings) {
    let config = configuration(spec);
    let dns = text(config, "/dns/imageTag");
    for (tag, place) in [(dns, "dns"), (text(config, "/etcd/local/imageTag"), "etcd.local")] {
        if !is_image_tag(tag) {
            out.forbidden(format!("{field}.{CONFIG}.{place}.imageTag"), &format!("tag {tag} is invalid"));
        }
    }
    if let Some(Err(why)) = (!dns.is_empty()).then(|| version::tolerant_tag(dns)) {
        // Upstream's path begins here.
        out.invalid("dns.imageTag", &json!(dns), &format!("failed to parse CoreDNS version: {why}"));
    }
}

fn check_etcd(old: Option<&Value>, spec: &Value, field: &str, out: &mut Findings) {
    let field = format!("{field}.{CONFIG}.etcd");
    let external = has_external_etcd(spec);
    if external && is_defined(&configuration(spec)["etcd"]["local"]) {
        out.forbidden(format!("{field}.local"), "cannot have both external and local etcd");
    }
    if old.is_some_and(|old| has_external_etcd(old) != external) {
        out.forbidden(format!("{field}.external"), "cannot change between external and local etcd");
    }
}

/// CoreDNS is migrated along the versions that its migration library knows.
fn check_dns_upgrade(old: &Value, plane: &Value, out: &mut Findings) {
    let field = format!("spec.{CONFIG}.dns.imageTag");
    let tag = |spec| text(configuration(spec), "/dns/imageTag");
    let (from, to) = (tag(old), tag(&plane["spec"]));
    if from.is_empty() || to.is_empty() {
        return;
    }
    let mut parse = |tag: &str, which: &str| {
        version::tolerant_tag(tag)
            .map_err(|why| {
                let detail = format!("failed to parse {which} CoreDNS version: {why}");
                out.invalid(field.clone(), &json!(tag), &detail);
            })
            .ok()
    };
    let Some(from) = parse(from, "current") else { return };
    let Some(to) = parse(to, "target") else { return };
    let skipped = annotation(plane, key::SKIP_COREDNS).is_some();
    // Only the release counts: another build of the same release has the same Corefile.
    if skipped || version::compare_release(&to, &from) == Ordering::Equal {
        return;
    }
    let release = |v: &semver::Version| format!("{}.{}.{}", v.major, v.minor, v.patch);
    if let Err(why) = coredns::check_migration(&release(&from), &release(&to)) {
        out.forbidden(field, &format!("cannot migrate CoreDNS up to '{to}' from '{from}': {why}"));
    }
}

/// Everything that changed must be on the list.
fn check_changes(old: &Value, new: &Value, out: &mut Findings) {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return };
    let mut paths = Vec::new();
    changed(&mut Vec::new(), old, new, &mut paths);
    for path in paths {
        let first = path.first().map_or("", String::as_str);
        // The status cannot change here: it was carried over before.
        if first != "status" && !CHANGEABLE.iter().any(|allowed| covers(allowed, &path)) {
            out.forbidden(path.join("."), "cannot be modified");
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
            // A new section counts field by field, for the list names leaves and not sections.
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
    // The path is used up: only the same path, or its `.*`, allows it.
    matches!((allowed.next(), allowed.next()), (None | Some("*"), None))
}

/// At most one minor version at a time. Going back is not refused.
fn check_upgrade(old: &Value, new: &Value, out: &mut Findings) {
    let field = "spec.version";
    let (from, to) = (text(old, "/version"), text(new, "/version"));
    let mut parse = |version: &str, which: &str| {
        version::tolerant(version)
            .map_err(|why| {
                let why = format!("failed to parse {which} kubeadmcontrolplane version: {version}: {why}");
                out.internal(field, &why);
            })
            .ok()
    };
    let Some(current) = parse(from, "current") else { return };
    let Some(updated) = parse(to, "updated") else { return };
    if version::skips_minor(&current, &updated) {
        out.forbidden(field, &format!("cannot update Kubernetes version from {from} to {to}"));
    }
}
