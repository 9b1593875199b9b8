//! Manifests of static pods, and the mirror pods that a kubelet makes of them. Must not know when they run.
//!
//! Source: kubeadm `util/staticpod/utils.go` (labels, annotations), kubelet `pkg/kubelet/config/common.go`, v1.35.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{Container, documents};
use capstan_base::time::rfc3339;
use kubeadm_change::network::join_host_port;
use kubeadm_change::render::{API_SERVER, ETCD, HostFacts, StaticPod};
use kubeadm_change::yaml;

/// The manifest that kubeadm writes.
pub(super) fn manifest(host: &HostFacts, component: &str, pod: &StaticPod) -> String {
    let volume = |v: &kubeadm_change::render::Volume| {
        let mut path = json!({ "path": v.host_path });
        // An empty type is left out in kubeadm's own files.
        if !v.type_.is_empty() {
            path["type"] = json!(v.type_);
        }
        json!({ "name": v.name, "hostPath": path })
    };
    let mut container = json!({
        "name": component,
        "image": pod.image,
        "imagePullPolicy": "IfNotPresent",
        "command": pod.command,
        "volumeMounts": pod.volume_mounts,
    });
    if !pod.env.is_empty() {
        container["env"] = json!(pod.env);
    }
    let mut annotations = json!({});
    match component {
        API_SERVER => {
            let name = "kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint";
            annotations[name] = json!(join_host_port(&host.address, &host.port.to_string()));
        }
        ETCD => {
            let url = format!("https://{}", join_host_port(&host.address, "2379"));
            annotations["kubeadm.kubernetes.io/etcd.advertise-client-urls"] = json!(url);
        }
        _ => {}
    }
    yaml::write(&json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": component,
            "namespace": "kube-system",
            "labels": { "component": component, "tier": "control-plane" },
            "annotations": annotations,
        },
        "spec": {
            "containers": [container],
            "hostNetwork": true,
            "priorityClassName": "system-node-critical",
            "volumes": pod.volumes.iter().map(volume).collect::<Vec<_>>(),
        },
    }))
}

/// The flags of a manifest's container, by name; of one that is given twice the last.
pub(super) fn flags(manifest: &str) -> Vec<(String, String)> {
    let manifest = documents::parsed(manifest);
    let command = manifest["spec"]["containers"][0]["command"].as_array().cloned().unwrap_or_default();
    let flag = |word: &Value| {
        let (name, value) = word.as_str()?.strip_prefix("--")?.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    };
    command.iter().filter_map(flag).collect()
}

/// What the kubelet shows of a static pod. `None`: the manifest is not a pod.
pub(super) fn mirror(host: &HostFacts, component: &str, running: &Container, is_ready: bool) -> Option<Pod> {
    let mut pod = documents::parsed(&running.manifest);
    // A manifest that was broken by hand shows no pod, and no error either.
    if pod["kind"] != "Pod" {
        return None;
    }
    // Of the manifest, so that a client sees in it that the pod is another one.
    let hash: String =
        Sha256::digest(&running.manifest).iter().take(16).map(|b| format!("{b:02x}")).collect();
    let started = rfc3339(running.started);
    pod["metadata"]["name"] = json!(format!("{component}-{}", host.name));
    pod["metadata"]["creationTimestamp"] = json!(started);
    for (name, value) in [
        ("kubernetes.io/config.hash", hash.as_str()),
        ("kubernetes.io/config.mirror", &hash),
        ("kubernetes.io/config.seen", &started),
        ("kubernetes.io/config.source", "file"),
    ] {
        pod["metadata"]["annotations"][name] = json!(value);
    }
    pod["spec"]["nodeName"] = json!(host.name);
    let fails = running.ready_at.is_none() || running.failure.is_some();
    let state = if fails {
        json!({ "waiting": { "reason": "CrashLoopBackOff", "message": "back-off restarting failed container" } })
    } else {
        json!({ "running": { "startedAt": started } })
    };
    pod["status"] = json!({
        "phase": "Running",
        "hostIP": host.address,
        "podIP": host.address,
        "startTime": started,
        "conditions": [{
            "type": "Ready",
            "status": if is_ready { "True" } else { "False" },
            "lastTransitionTime": rfc3339(running.ready_at.unwrap_or(running.started)),
        }],
        "containerStatuses": [{
            "name": component,
            "image": pod["spec"]["containers"][0]["image"],
            "imageID": "",
            "ready": is_ready,
            "started": !fails,
            // A container in back-off has been tried a few times.
            "restartCount": running.restarts + if fails { 3 } else { 0 },
            "state": state,
        }],
    });
    if let Some(why) = &running.failure {
        let end = json!({ "terminated": { "exitCode": 1, "reason": "Error", "message": why } });
        pod["status"]["containerStatuses"][0]["lastState"] = end;
    }
    serde_json::from_value(pod).ok()
}
