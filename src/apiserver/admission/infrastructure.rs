//! Development infrastructure, and the rule that templates never change.
//! Source: `test/infrastructure/docker/webhooks/admission`, `controlplane/kubeadm/webhooks/admission/
//! kubeadmcontrolplanetemplate.go`.

use serde_json::{Value, json};

use super::value::map;
use crate::api::names::annotation;
use crate::apiserver::failure::Cause;

/// Docker is the backend when none is named.
pub(super) fn default_backend(_: Option<&Value>, object: &mut Value) {
    default_at(object, &["spec", "backend"]);
}

pub(super) fn default_template(_: Option<&Value>, template: &mut Value) {
    default_at(template, &["spec", "template", "spec", "backend"]);
}

fn default_at(object: &mut Value, backend: &[&str]) {
    if let Some(backend) = map(object, backend)
        && !backend.contains_key("docker")
        && !backend.contains_key("inMemory")
    {
        backend.insert("docker".to_owned(), json!({}));
    }
}

/// Upstream exempts dry runs of the topology controller; plain clusters never notice.
pub(super) fn check_template(old: Option<&Value>, template: &Value, causes: &mut Vec<Cause>) {
    let Some(old) = old else { return };
    let spec = |object: &Value| object["spec"]["template"]["spec"].clone();
    let kind = template["kind"].as_str().unwrap_or_default();
    if spec(old) != spec(template) {
        let detail = format!(
            "{kind} spec.template.spec field is immutable. Please create a new resource instead. Ref doc: \
             https://cluster-api.sigs.k8s.io/tasks/experimental-features/cluster-class/change-clusterclass.html"
        );
        causes.push(Cause::invalid("spec.template.spec", &json!("object"), &detail));
    }
}

pub(super) fn check_machine(old: Option<&Value>, machine: &Value, causes: &mut Vec<Cause>) {
    let image = |object: &Value| {
        let spec = &object["spec"];
        [spec["customImage"].clone(), spec["backend"]["docker"]["customImage"].clone()]
    };
    let moved = machine["metadata"]["annotations"].get(annotation::UPDATE_IN_PROGRESS).is_some();
    if let Some(old) = old
        && !moved
        && image(old) != image(machine)
    {
        causes.push(Cause::forbidden("spec.backend.docker.customImage", "field is immutable"));
    }
}
