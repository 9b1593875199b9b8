//! Controller managers and their files in Kubernetes objects: static pod manifests, running pods, DaemonSets and
//! Deployments, ConfigMaps. Owns which container is one of them; must not know what its flags mean.

use serde_json::Value;

use super::manager_kind::ManagerKind;
use super::reading::is_configuration;
use super::release::Release;
use crate::time::{Timestamp, parse_rfc3339};

/// One controller manager in a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundManager {
    pub name: String,
    pub manager: ManagerKind,
    pub node: Option<String>,
    /// From the image's tag.
    pub release: Option<Release>,
    /// Command and arguments.
    pub args: Vec<String>,
    pub mounts: Vec<String>,
    /// The service account of a pod that is not static.
    pub service_account: Option<String>,
    /// Of a pod: when its container was started, by its node's clock.
    pub started_at: Option<Timestamp>,
}

/// The controller managers of an object, whatever it is.
#[must_use]
pub fn managers_in(object: &Value) -> Vec<FoundManager> {
    if let Some(items) = object["items"].as_array() {
        return items.iter().flat_map(managers_in).collect();
    }
    let spec = match object["kind"].as_str() {
        // Items of a typed list have no kind.
        Some("Pod") | None => &object["spec"],
        Some("DaemonSet" | "Deployment" | "StatefulSet" | "ReplicaSet") => {
            &object["spec"]["template"]["spec"]
        }
        _ => return Vec::new(),
    };
    let containers = spec["containers"].as_array().map(Vec::as_slice).unwrap_or_default();
    containers.iter().filter_map(|container| manager_of(object, spec, container)).collect()
}

/// Files of this kind in a ConfigMap, by key.
#[must_use]
pub fn configurations_in(object: &Value) -> Vec<(String, String)> {
    if let Some(items) = object["items"].as_array() {
        return items.iter().flat_map(configurations_in).collect();
    }
    let data = object["data"].as_object().filter(|_| object["kind"] == "ConfigMap");
    let files =
        data.into_iter().flatten().filter_map(|(key, text)| Some((key.clone(), text.as_str()?.to_owned())));
    files.filter(|(_, text)| is_configuration(text)).collect()
}

fn manager_of(object: &Value, spec: &Value, container: &Value) -> Option<FoundManager> {
    let texts = |key: &str| container[key].as_array().map(Vec::as_slice).unwrap_or_default().iter();
    let args: Vec<String> =
        texts("command").chain(texts("args")).filter_map(|a| a.as_str().map(str::to_owned)).collect();
    let image = container["image"].as_str().unwrap_or_default();
    let program = args.first().filter(|first| !first.starts_with('-')).map_or(image, String::as_str);
    let manager = kind_of(program).or_else(|| kind_of(image))?;
    let mounts = container["volumeMounts"].as_array().map(Vec::as_slice).unwrap_or_default().iter();
    Some(FoundManager {
        name: name_of(object, manager),
        manager,
        node: spec["nodeName"].as_str().map(str::to_owned),
        release: Release::of_image(image),
        args,
        mounts: mounts.filter_map(|m| m["mountPath"].as_str().map(str::to_owned)).collect(),
        service_account: spec["serviceAccountName"].as_str().map(str::to_owned),
        started_at: started_at(&object["status"], container["name"].as_str().unwrap_or_default()),
    })
}

/// The container's last start; before the kubelet reported it, the pod's.
fn started_at(status: &Value, container: &str) -> Option<Timestamp> {
    let statuses = status["containerStatuses"].as_array().map(Vec::as_slice).unwrap_or_default();
    let own = statuses.iter().find(|own| own["name"] == container);
    let started = own.and_then(|own| own["state"]["running"]["startedAt"].as_str());
    parse_rfc3339(started.or_else(|| status["startTime"].as_str())?)
}

fn name_of(object: &Value, manager: ManagerKind) -> String {
    let name = object["metadata"]["name"].as_str().unwrap_or(manager.name());
    match object["kind"].as_str() {
        Some("Pod") | None => name.to_owned(),
        Some(kind) => format!("{kind} {name}"),
    }
}

/// By the last part of a path or image, without its tag.
fn kind_of(program: &str) -> Option<ManagerKind> {
    let name = program.split('@').next()?.rsplit('/').next()?.split(':').next()?;
    if name == "kube-controller-manager" {
        return Some(ManagerKind::KubeControllerManager);
    }
    let is_cloud = name.contains("cloud-controller-manager") || name.ends_with("-ccm") || name == "ccm";
    is_cloud.then_some(ManagerKind::CloudControllerManager)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_static_pod_a_daemon_set_and_strangers() {
        let pod = json!({"kind": "Pod", "metadata": {"name": "kube-controller-manager-cp-1"}, "spec": {
            "nodeName": "cp-1",
            "containers": [{"name": "kcm", "image": "registry.k8s.io/kube-controller-manager:v1.29.3",
                "command": ["kube-controller-manager", "--leader-elect=true"],
                "volumeMounts": [{"mountPath": "/etc/kubernetes/leader-migration.yaml"}]}]},
            "status": {"startTime": "2026-11-20T10:00:00Z", "containerStatuses": [
                {"name": "kcm", "state": {"running": {"startedAt": "2026-11-20T10:00:07Z"}}}]}});
        let set = json!({"kind": "DaemonSet", "metadata": {"name": "aws"}, "spec": {"template": {"spec": {
            "serviceAccountName": "ccm",
            "containers": [{"image": "registry/aws-cloud-controller-manager:v1.29.0", "args": ["--v=2"]}, {"image": "proxy:1"}]}}}});
        let found = managers_in(&json!({"items": [pod, set, {"kind": "Service", "spec": {}}]}));
        let short: Vec<_> = found
            .iter()
            .map(|f| (f.name.as_str(), f.manager.short(), f.release.map(|r| r.0), f.mounts.len()))
            .collect();
        assert_eq!(
            short,
            [("kube-controller-manager-cp-1", "KCM", Some(29), 1), ("DaemonSet aws", "CCM", Some(29), 0)]
        );
        assert_eq!(
            (found[0].node.as_deref(), found[1].service_account.as_deref()),
            (Some("cp-1"), Some("ccm"))
        );
        let started = found.iter().map(|f| f.started_at.map(crate::time::rfc3339)).collect::<Vec<_>>();
        assert_eq!(started, [Some("2026-11-20T10:00:07Z".to_owned()), None]);
    }

    #[test]
    fn files_in_a_config_map() {
        let map = json!({"kind": "ConfigMap", "data": {"a.yaml": "kind: LeaderMigrationConfiguration\n", "b": "x"}});
        assert_eq!(configurations_in(&map).len(), 1);
    }
}
