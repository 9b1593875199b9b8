//! Development infrastructure (Dev and Docker kinds), and the rule that templates never change.
//!
//! Source: cluster-api `test/infrastructure/docker/internal/webhooks`, v1.14.2.

use serde_json::{Value, json};

use super::finding::{Denial, Findings};
use super::parts::{check_metadata, differences};
use super::value::{at, fill, is_defined, items, map, set, text};
use super::{Request, Review};

/// Port of a control plane behind the load balancer.
const ENDPOINT_PORT: u16 = 6443;

/// Docker is the backend when none is named.
fn default_backend(object: &mut Value, spec: &[&str]) {
    let backend: Vec<&str> = spec.iter().copied().chain(["backend"]).collect();
    if let Some(backend) = map(object, &backend) {
        let named = |name: &str| backend.get(name).is_some_and(|value| !value.is_null());
        if !named("docker") && !named("inMemory") {
            backend.insert("docker".to_owned(), json!({}));
        }
    }
}

/// Endpoint port and failure domains of a load balancer in Docker; `domains` is where those are.
fn default_endpoint(object: &mut Value, spec: &[&str], domains: &str) {
    let endpoint: Vec<&str> = spec.iter().copied().chain(["controlPlaneEndpoint"]).collect();
    if at(object, &format!("/{}/port", endpoint.join("/"))).as_i64().unwrap_or(0) == 0 {
        set(object, &endpoint, "port", json!(ENDPOINT_PORT));
    }
    if let Some(Value::Array(domains)) = object.pointer_mut(domains) {
        domains.iter_mut().for_each(|domain| fill(domain, &[], "controlPlane", json!(false)));
    }
}

fn default_dev_cluster(object: &mut Value, spec: &[&str]) {
    default_backend(object, spec);
    let docker = format!("/{}/backend/docker", spec.join("/"));
    if !at(object, &docker).is_null() {
        default_endpoint(object, spec, &format!("{docker}/failureDomains"));
    }
}

pub(super) fn default_cluster(_: &Request<'_>, cluster: &mut Value) -> Result<(), Denial> {
    default_dev_cluster(cluster, &["spec"]);
    Ok(())
}

pub(super) fn default_cluster_template(_: &Request<'_>, template: &mut Value) -> Result<(), Denial> {
    default_dev_cluster(template, &["spec", "template", "spec"]);
    Ok(())
}

pub(super) fn default_machine(_: &Request<'_>, machine: &mut Value) -> Result<(), Denial> {
    default_backend(machine, &["spec"]);
    Ok(())
}

pub(super) fn default_machine_template(_: &Request<'_>, template: &mut Value) -> Result<(), Denial> {
    default_backend(template, &["spec", "template", "spec"]);
    Ok(())
}

pub(super) fn default_docker_cluster(_: &Request<'_>, cluster: &mut Value) -> Result<(), Denial> {
    default_endpoint(cluster, &["spec"], "/spec/failureDomains");
    Ok(())
}

pub(super) fn default_docker_template(_: &Request<'_>, template: &mut Value) -> Result<(), Denial> {
    default_endpoint(template, &["spec", "template", "spec"], "/spec/template/spec/failureDomains");
    Ok(())
}

pub(super) fn check_cluster(review: &Review<'_>, out: &mut Findings) {
    let domains = at(review.new, "/spec/backend/docker/failureDomains");
    check_domains(domains, "spec.backend.docker.failureDomains", out);
}

pub(super) fn check_docker_cluster(review: &Review<'_>, out: &mut Findings) {
    check_domains(at(review.new, "/spec/failureDomains"), "spec.failureDomains", out);
}

fn check_domains(domains: &Value, field: &str, out: &mut Findings) {
    if !items(domains).is_sorted_by_key(|domain| text(domain, "/name")) {
        out.invalid(field, domains, "failure domains must be sorted by name");
    }
}

/// Cluster templates are checked when they come, and never change.
pub(super) fn check_cluster_template(review: &Review<'_>, out: &mut Findings) {
    const SPEC: [&str; 3] = ["spec", "template", "spec"];
    let spec = at(review.new, "/spec/template/spec");
    let docker = review.kind == "DockerClusterTemplate";
    let Some(old) = review.old else {
        // Upstream names the path of a cluster, not of a template.
        let domains = if docker { "/failureDomains" } else { "/backend/docker/failureDomains" };
        check_domains(at(spec, domains), &format!("spec{}", domains.replace('/', ".")), out);
        return check_metadata(at(review.new, "/spec/template/metadata"), "spec.template.metadata", out);
    };
    // The stored template may be from before these defaults, and the new one has them already.
    let mut old = old.clone();
    if docker {
        default_endpoint(&mut old, &SPEC, "/spec/template/spec/failureDomains");
    } else {
        default_dev_cluster(&mut old, &SPEC);
    }
    let old = at(&old, "/spec/template/spec");
    refuse_difference(review.kind, old, spec, "Please create a new resource instead.", out);
}

/// Machine templates never change, except in comparisons of the topology controller.
pub(super) fn check_machine_template(review: &Review<'_>, out: &mut Findings) {
    // The topology controller asks what would change by sending the change as a dry run.
    if let Some(old) = review.old.filter(|_| !review.compares_topology) {
        let spec = |object| at(object, "/spec/template/spec");
        let request = "Please create a new resource instead.";
        refuse_difference(review.kind, spec(old), spec(review.new), request, out);
    }
    check_metadata(at(review.new, "/spec/template/metadata"), "spec.template.metadata", out);
}

/// `old` and `new` are the specs inside the template. The value is shown as schemas show objects.
pub(super) fn refuse_difference(kind: &str, old: &Value, new: &Value, request: &str, out: &mut Findings) {
    let changed = differences(old, new);
    if !changed.is_empty() {
        let detail = format!("{kind} spec.template.spec field is immutable. {request} Diff: {changed}");
        out.invalid("spec.template.spec", &json!("object"), &detail);
    }
}

pub(super) fn check_machine(review: &Review<'_>, out: &mut Findings) {
    let docker = |object| at(object, "/spec/backend/docker");
    if let Some(old) = review.old.map(docker).filter(|old| !old.is_null()) {
        let new = docker(review.new);
        if !new.is_null() && text(old, "/customImage") != text(new, "/customImage") {
            out.forbidden("spec.backend.docker.customImage", "cannot be modified");
        }
    }
}

pub(super) fn check_docker_machine(review: &Review<'_>, out: &mut Findings) {
    let image = |object| at(object, "/spec/customImage");
    if let Some(old) = review.old.map(image) {
        let new = image(review.new);
        if (is_defined(old) || is_defined(new)) && old != new {
            out.forbidden("spec.customImage", "cannot be modified");
        }
    }
}
