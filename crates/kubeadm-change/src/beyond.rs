//! What a static pod holds beside what a configuration can say: other containers, resources, probes, security, labels. kubeadm writes
//! these the same into each manifest, so a difference was made by a patches folder or by hand, and is gone when the manifest is
//! written anew. Owns what kubeadm writes there; must not know a configuration.
//!
//! Source: kubeadm 1.29 to 1.36 `util/staticpod/utils.go` (`ComponentPod`, `ComponentResources`, the probes),
//! `phases/controlplane/manifests.go`, `phases/etcd/local.go`.

use crate::difference::text_of;
use serde_json::{Map, Value};

use super::render::{API_SERVER, CONTROLLER_MANAGER, ETCD, SCHEDULER};
use super::units::quantity_milli;

/// Fields of a probe in seconds or tries, as kubeadm writes them.
const LIVENESS: [(&str, i64); 4] =
    [("initialDelaySeconds", 10), ("timeoutSeconds", 15), ("failureThreshold", 8), ("periodSeconds", 10)];
const READINESS: [(&str, i64); 4] =
    [("initialDelaySeconds", 0), ("timeoutSeconds", 15), ("failureThreshold", 3), ("periodSeconds", 1)];
/// Its tries follow from a timeout of the configuration.
const STARTUP: [(&str, i64); 3] =
    [("initialDelaySeconds", 10), ("timeoutSeconds", 15), ("periodSeconds", 10)];
const LABELS: [&str; 2] = ["component", "tier"];
/// Parts of a pod and of a container that kubeadm leaves out.
const POD_PARTS: [&str; 4] = ["initContainers", "hostAliases", "dnsConfig", "nodeSelector"];
const CONTAINER_PARTS: [&str; 3] = ["lifecycle", "envFrom", "securityContext"];

/// The container of the component itself: by its name, or the first.
pub(super) fn own_container<'p>(component: &str, pod: &'p Value) -> &'p Value {
    let containers = &pod["spec"]["containers"];
    let mut all = containers.as_array().into_iter().flatten();
    // By its name: a patch may put a sidecar before it.
    all.find(|container| container["name"] == component).unwrap_or(&containers[0])
}

/// One line for each thing that runs otherwise, from what kubeadm writes to what runs.
pub(super) fn differences(component: &str, pod: &Value) -> Vec<String> {
    let own = own_container(component, pod);
    let mut lines = other_containers(own, pod);
    lines.extend(resources(component, &own["resources"]));
    for (probe, expected) in
        [("livenessProbe", &LIVENESS[..]), ("readinessProbe", &READINESS), ("startupProbe", &STARTUP)]
    {
        lines.extend(probe_numbers(probe, expected, &own[probe]));
    }
    let is_there = |value: &Value| match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    };
    let of_pod = POD_PARTS.into_iter().filter(|part| is_there(&pod["spec"][*part]));
    let of_own = CONTAINER_PARTS.into_iter().filter(|part| is_there(&own[*part]));
    lines.extend(of_pod.chain(of_own).map(|part| format!("+ {part}")));
    lines.extend(security(&pod["spec"]["securityContext"]));
    lines.extend(labels(&pod["metadata"]));
    lines
}

fn other_containers(own: &Value, pod: &Value) -> Vec<String> {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    // By identity: the own one may be the first for want of a name.
    let others = containers.filter(|container| !std::ptr::eq(*container, own));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    others.map(|other| format!("+ container {} {}", text(&other["name"]), text(&other["image"]))).collect()
}

/// What kubeadm asks for; limits it does not set. A pod without the field was not read from a server.
fn resources(component: &str, resources: &Value) -> Vec<String> {
    let expected: &[(&str, &str)] = match component {
        API_SERVER => &[("cpu", "250m")],
        CONTROLLER_MANAGER => &[("cpu", "200m")],
        SCHEDULER => &[("cpu", "100m")],
        ETCD => &[("cpu", "100m"), ("memory", "100Mi")],
        _ => return Vec::new(),
    };
    let Some(given) = resources.as_object() else { return Vec::new() };
    let requests = given.get("requests").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut lines: Vec<String> = expected
        .iter()
        .filter_map(|(name, wanted)| request_line(name, Some(wanted), requests.get(*name)))
        .collect();
    let is_extra = |name: &&String| expected.iter().all(|(known, _)| *known != name.as_str());
    lines.extend(
        requests.keys().filter(is_extra).filter_map(|name| request_line(name, None, requests.get(name))),
    );
    let limits = given.get("limits").and_then(Value::as_object).into_iter().flatten();
    lines.extend(limits.map(|(name, value)| format!("+ limit of {name} {}", text_of(value))));
    lines
}

fn request_line(name: &str, wanted: Option<&str>, given: Option<&Value>) -> Option<String> {
    let given = given.map(text_of);
    let is_same = match (wanted, &given) {
        // The API server writes quantities in its own form: `0.1` comes back as `100m`.
        (Some(wanted), Some(given)) => quantity_milli(wanted) == quantity_milli(given),
        (wanted, given) => wanted.is_none() && given.is_none(),
    };
    let or_none = |text: Option<&str>| text.unwrap_or("(none)").to_owned();
    (!is_same).then(|| format!("request of {name} {} → {}", or_none(wanted), or_none(given.as_deref())))
}

fn probe_numbers(probe: &str, expected: &[(&str, i64)], given: &Value) -> Vec<String> {
    let Some(given) = given.as_object() else { return Vec::new() };
    let differs = expected.iter().filter_map(|(field, wanted)| {
        // Kubernetes leaves a zero out of its objects.
        let given = given.get(*field).and_then(Value::as_i64).unwrap_or_default();
        (given != *wanted).then(|| format!("{probe} {field} {wanted} → {given}"))
    });
    differs.collect()
}

fn security(context: &Value) -> Option<String> {
    let fields = context.as_object()?;
    let is_kubeadms =
        |(name, value): (&String, &Value)| name == "seccompProfile" && value["type"] == "RuntimeDefault";
    (!fields.iter().all(is_kubeadms)).then(|| "+ securityContext of the pod".to_owned())
}

fn labels(metadata: &Value) -> Vec<String> {
    let names = |field: &str| metadata[field].as_object().map(Map::keys).into_iter().flatten().cloned();
    let labels = names("labels").filter(|name| !LABELS.contains(&name.as_str()));
    // The kubelet's own, and kubeadm's.
    let is_known = |name: &String| name.starts_with("kubernetes.io/config.") || name.starts_with("kubeadm.");
    let annotations = names("annotations").filter(|name| !is_known(name));
    let labels = labels.map(|name| format!("+ label {name}"));
    labels.chain(annotations.map(|name| format!("+ annotation {name}"))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod() -> Value {
        let probe = |numbers: &[(&str, i64)]| {
            Value::Object(numbers.iter().map(|(n, v)| ((*n).to_owned(), json!(v))).collect())
        };
        json!({
            "metadata": {
                "labels": {"component": API_SERVER, "tier": "control-plane"},
                "annotations": {"kubernetes.io/config.hash": "x", "kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint": "x"},
            },
            "spec": {
                "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [{
                    "name": API_SERVER, "resources": {"requests": {"cpu": "0.25"}},
                    "livenessProbe": probe(&LIVENESS), "readinessProbe": probe(&READINESS), "startupProbe": probe(&STARTUP),
                }],
            },
        })
    }

    #[test]
    fn what_kubeadm_writes_differs_in_nothing() {
        assert_eq!(differences(API_SERVER, &pod()), Vec::<String>::new());
        assert_eq!(differences(API_SERVER, &json!({})), Vec::<String>::new());
    }

    #[test]
    fn everything_else_is_a_line() {
        let mut edited = pod();
        let sidecar = json!({"name": "kms-plugin", "image": "kms:1"});
        let containers = edited["spec"]["containers"].as_array_mut().expect("containers");
        containers.insert(0, sidecar);
        containers[1]["resources"] =
            json!({"requests": {"cpu": "111m", "memory": "1Gi"}, "limits": {"memory": "4Gi"}});
        containers[1]["livenessProbe"]["timeoutSeconds"] = json!(30);
        containers[1]["lifecycle"] = json!({"preStop": {}});
        edited["spec"]["hostAliases"] = json!([{"ip": "10.0.0.9"}]);
        edited["spec"]["securityContext"]["runAsUser"] = json!(1000);
        edited["metadata"]["labels"]["team"] = json!("x");
        edited["metadata"]["annotations"]["scrape"] = json!("true");
        assert_eq!(
            differences(API_SERVER, &edited),
            [
                "+ container kms-plugin kms:1",
                "request of cpu 250m → 111m",
                "request of memory (none) → 1Gi",
                "+ limit of memory 4Gi",
                "livenessProbe timeoutSeconds 15 → 30",
                "+ hostAliases",
                "+ lifecycle",
                "+ securityContext of the pod",
                "+ label team",
                "+ annotation scrape",
            ]
        );
        assert_eq!(own_container(API_SERVER, &edited)["name"], API_SERVER, "wherever it stands");
    }
}
