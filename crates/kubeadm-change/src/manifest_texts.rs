//! Whole manifests as they run and as a plan leaves them, for people who compare them line by line. Owns how a mirror pod becomes a
//! manifest again; must not know how texts are compared.

use serde_json::{Value, json};

use super::document::{DocumentKind, Inputs};
use super::facts::ClusterFacts;
use super::render::{self, ClusterSettings, RenderError, StaticPod};
use super::request::WantedDocuments;
use super::yaml;

/// One manifest of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestTexts {
    /// Name of the Node.
    pub node: String,
    /// As [`API_SERVER`](crate::render::API_SERVER) and the like.
    pub component: &'static str,
    /// As its mirror pod shows it.
    pub before: String,
    /// With what the configuration makes different.
    pub after: String,
}

/// The manifests that differ, in the order of nodes.
///
/// # Errors
/// The configuration cannot be rendered.
pub fn of(inputs: &Inputs, target: &WantedDocuments) -> Result<Vec<ManifestTexts>, RenderError> {
    let Some(cluster) = target.document(DocumentKind::Cluster) else { return Ok(Vec::new()) };
    let (old, new) = ClusterSettings::pair(&cluster.old, &cluster.new)?;
    let mut found = Vec::new();
    for node in ClusterFacts::read(inputs).control_plane {
        let (before, after) = (render::node(&old, &node.host)?, render::node(&new, &node.host)?);
        for (component, wanted) in &after.static_pods {
            let Some(pod) = mirror_pod(inputs, component, &node.host.name) else { continue };
            let runs = manifest(pod, component);
            let empty = StaticPod::default();
            let becomes =
                changed(&runs, component, (before.static_pods.get(component).unwrap_or(&empty), wanted));
            if runs != becomes {
                let (before, after) = (yaml::write(&runs), yaml::write(&becomes));
                found.push(ManifestTexts { node: node.host.name.clone(), component, before, after });
            }
        }
    }
    Ok(found)
}

fn mirror_pod<'i>(inputs: &'i Inputs, component: &str, node: &str) -> Option<&'i Value> {
    let is_it = |object: &&Value| {
        object["kind"] == "Pod"
            && object["spec"]["nodeName"] == node
            && object["metadata"]["labels"]["component"] == component
    };
    inputs.objects.iter().find(is_it)
}

/// A mirror pod without what its kubelet and the API server added.
fn manifest(pod: &Value, component: &str) -> Value {
    let mut annotations = pod["metadata"]["annotations"].clone();
    if let Some(annotations) = annotations.as_object_mut() {
        // The kubelet adds hash, source, time and the mark of a mirror pod.
        annotations.retain(|name, _| !name.starts_with("kubernetes.io/config."));
    }
    let mut spec = pod["spec"].clone();
    if let Some(spec) = spec.as_object_mut() {
        for name in ["nodeName", "enableServiceLinks", "tolerations", "preemptionPolicy", "priority"] {
            spec.remove(name);
        }
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": component, "namespace": "kube-system",
            "labels": pod["metadata"]["labels"], "annotations": annotations,
        },
        "spec": spec,
    })
}

/// Only what the configuration makes different is written over what runs.
fn changed(manifest: &Value, component: &str, (old, new): (&StaticPod, &StaticPod)) -> Value {
    let mut manifest = manifest.clone();
    let (old, new) = (json!(old), json!(new));
    if old["volumes"] != new["volumes"] {
        let volume =
            |v: &Value| json!({"name": v["name"], "hostPath": {"path": v["hostPath"], "type": v["type"]}});
        let volumes: Vec<Value> = new["volumes"].as_array().into_iter().flatten().map(volume).collect();
        manifest["spec"]["volumes"] = volumes.into();
    }
    let containers = manifest["spec"]["containers"].as_array_mut().into_iter().flatten();
    let mut named =
        containers.filter(|container| container["name"].is_null() || container["name"] == component);
    if let Some(container) = named.next() {
        for field in ["command", "image", "env", "volumeMounts"] {
            if old[field] != new[field] {
                container[field] = new[field].clone();
            }
        }
    }
    manifest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::cluster;
    use crate::request::{PatchKind, RequestPart, apply};

    #[test]
    fn only_what_changes_is_written_over_what_runs() {
        let mut inputs = cluster(1, 0);
        let is_api_server =
            |object: &&mut Value| object["metadata"]["labels"]["component"] == render::API_SERVER;
        let pod = inputs.objects.iter_mut().find(is_api_server).expect("a pod");
        pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "111m"}});
        let parts = [RequestPart::Set("apiServer.extraArgs[event-ttl]=2h".to_owned())];
        let target = apply(&inputs, &parts, PatchKind::Strategic).expect("a request");
        let texts = of(&inputs, &target).expect("rendered");
        let [only] = texts.as_slice() else { panic!("{texts:?}") };
        assert_eq!((only.node.as_str(), only.component), ("cp-0", render::API_SERVER));
        let gained: Vec<&str> = only.after.lines().filter(|line| !only.before.contains(*line)).collect();
        assert_eq!(
            gained.iter().map(|line| line.trim()).collect::<Vec<_>>(),
            ["- --event-ttl=2h"],
            "{}",
            only.after
        );
        assert!(only.after.contains("cpu: 111m") && !only.after.contains("nodeName"), "{}", only.after);
    }
}
