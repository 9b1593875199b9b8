//! Controller managers and their files in Kubernetes objects: static pod manifests, running pods, DaemonSets and
//! Deployments, ConfigMaps. Owns which container is one of them; must not know what its flags mean.

use serde_json::Value;

use super::manager_kind::ManagerKind;
use super::reading::is_configuration;
use super::release::Release;
use capstan_base::time::{Timestamp, parse_rfc3339};

/// Programs whose arguments are a line with the program and its flags.
const SHELLS: [&str; 5] = ["sh", "bash", "ash", "dash", "busybox"];

/// One controller manager in a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundManager {
    /// Of the pod, or of the object that makes pods.
    pub name: String,
    /// By the name of the program or of its image.
    pub manager: ManagerKind,
    /// Where the pod runs. `None`: a manifest that is no pod, or a pod that is not placed.
    pub node: Option<String>,
    /// From the image's tag.
    pub release: Option<Release>,
    /// The program's flags. Empty when they stand in a line of a shell.
    pub args: Vec<String>,
    /// The program is started by a shell: its flags are not known.
    pub is_in_shell: bool,
    /// Of a pod: its container is ready, so that its program has taken its flags.
    pub is_ready: bool,
    /// Paths in the container where something is mounted.
    pub mounts: Vec<String>,
    /// Mounts whose volume is known.
    pub volumes: Vec<MountedVolume>,
    /// The service account of a pod that is not static.
    pub service_account: Option<String>,
    /// Of a pod: when its container was started, by its node's clock.
    pub started_at: Option<Timestamp>,
    /// Of a pod: why its container does not run.
    pub trouble: Option<String>,
}

/// What stands behind a path of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountedVolume {
    /// In the container.
    pub path: String,
    /// Empty: the whole volume.
    pub sub_path: String,
    /// `None`: it is no ConfigMap.
    pub config_map: Option<String>,
}

/// Where a container has a file from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileOrigin {
    /// A key of a ConfigMap.
    ConfigMap {
        /// In the namespace of the pod.
        name: String,
        /// Of the file in the ConfigMap.
        key: String,
    },
    /// A host, or something else that is no ConfigMap.
    Other,
    /// The manifest does not say.
    NotKnown,
}

impl FoundManager {
    /// Where the file at this path is from, by the mount that lies nearest to it.
    pub fn origin_of(&self, path: &str) -> FileOrigin {
        let rest = |mount: &MountedVolume| {
            let rest = path.strip_prefix(mount.path.trim_end_matches('/'))?;
            (rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_start_matches('/').to_owned())
        };
        let holding = self.volumes.iter().filter_map(|mount| Some((mount, rest(mount)?)));
        // The innermost mount covers those above it.
        match holding.max_by_key(|(mount, _)| mount.path.len()) {
            None => FileOrigin::NotKnown,
            Some((MountedVolume { config_map: None, .. }, _)) => FileOrigin::Other,
            Some((MountedVolume { config_map: Some(name), sub_path, .. }, rest)) => {
                let parts = [sub_path.as_str(), rest.as_str()].into_iter().filter(|part| !part.is_empty());
                FileOrigin::ConfigMap { name: name.clone(), key: parts.collect::<Vec<_>>().join("/") }
            }
        }
    }
}

/// The controller managers of an object, whatever it is.
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

/// A file of this kind in a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundFile {
    /// Its name.
    pub config_map: String,
    /// Of the file in the ConfigMap.
    pub key: String,
    /// The file as it was written.
    pub text: String,
}

/// Files of this kind in ConfigMaps.
pub fn configurations_in(object: &Value) -> Vec<FoundFile> {
    if let Some(items) = object["items"].as_array() {
        return items.iter().flat_map(configurations_in).collect();
    }
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let data = object["data"].as_object().filter(|_| object["kind"] == "ConfigMap");
    let file = |(key, text): (&String, &Value)| {
        let text = text.as_str().filter(|text| is_configuration(text))?.to_owned();
        Some(FoundFile { config_map: name.to_owned(), key: key.clone(), text })
    };
    data.into_iter().flatten().filter_map(file).collect()
}

/// Which of the two programs a container runs, and the words it is started with.
fn program_of(container: &Value) -> Option<(ManagerKind, Vec<String>)> {
    let texts = |key: &str| container[key].as_array().map(Vec::as_slice).unwrap_or_default().iter();
    let words: Vec<String> =
        texts("command").chain(texts("args")).filter_map(|a| a.as_str().map(str::to_owned)).collect();
    let image = container["image"].as_str().unwrap_or_default();
    // Without `command` the first word is a flag, and the entry point of the image is the program.
    let program = words.first().filter(|first| !first.starts_with('-')).map_or(image, String::as_str);
    // A wrapper or a shell may start the program: then its image says what it is.
    let manager = kind_of(program).or_else(|| kind_of(image))?;
    Some((manager, words))
}

/// The program that a container runs. `None`: neither of the two.
pub fn manager_in(container: &Value) -> Option<ManagerKind> {
    program_of(container).map(|(manager, _)| manager)
}

/// Where the flags of the program begin among the words that start it: behind the program, which another one may start.
/// `None`: a shell starts it, and the flags are part of a line.
pub fn first_flag(manager: ManagerKind, words: &[String]) -> Option<usize> {
    let Some(first) = words.first().filter(|first| !first.starts_with('-')) else { return Some(0) };
    let is_it = |word: &str| kind_of(word) == Some(manager) && !word.contains(char::is_whitespace);
    if is_it(first) {
        return Some(1);
    }
    // The name of the program may be the value of a flag of its wrapper; `at` is 1 or more, since
    // the search begins there.
    let is_value = |at: usize| words[at - 1].starts_with("--") && !words[at - 1].contains('=');
    let is_started = |at: &usize| is_it(&words[*at]) && !words[*at].starts_with('-') && !is_value(*at);
    let shell = first.rsplit('/').next().unwrap_or_default();
    match (1..words.len()).find(is_started) {
        Some(at) => Some(at + 1),
        None if SHELLS.contains(&shell) => None,
        None => Some(1),
    }
}

fn manager_of(object: &Value, spec: &Value, container: &Value) -> Option<FoundManager> {
    let (manager, words) = program_of(container)?;
    let image = container["image"].as_str().unwrap_or_default();
    let from = first_flag(manager, &words);
    let mounts = container["volumeMounts"].as_array().map(Vec::as_slice).unwrap_or_default().iter();
    let name = container["name"].as_str().unwrap_or_default();
    Some(FoundManager {
        name: name_of(object, manager),
        manager,
        node: spec["nodeName"].as_str().map(str::to_owned),
        release: Release::of_image(image),
        args: from.and_then(|from| words.get(from..)).unwrap_or_default().to_vec(),
        is_in_shell: from.is_none(),
        is_ready: own_status(&object["status"], name).is_some_and(|own| own["ready"] == true),
        mounts: mounts.clone().filter_map(|m| m["mountPath"].as_str().map(str::to_owned)).collect(),
        volumes: mounts.filter_map(|mount| volume_of(spec, mount)).collect(),
        service_account: spec["serviceAccountName"].as_str().map(str::to_owned),
        started_at: started_at(&object["status"], name),
        trouble: trouble(&object["status"], name),
    })
}

fn own_status<'a>(status: &'a Value, container: &str) -> Option<&'a Value> {
    status["containerStatuses"].as_array()?.iter().find(|own| own["name"] == container)
}

fn volume_of(spec: &Value, mount: &Value) -> Option<MountedVolume> {
    let volume = spec["volumes"].as_array()?.iter().find(|volume| volume["name"] == mount["name"])?;
    Some(MountedVolume {
        path: mount["mountPath"].as_str()?.to_owned(),
        sub_path: mount["subPath"].as_str().unwrap_or_default().to_owned(),
        config_map: volume["configMap"]["name"].as_str().map(str::to_owned),
    })
}

/// Why a container waits that is not just being made, and what it said when it ended last.
fn trouble(status: &Value, container: &str) -> Option<String> {
    let own = own_status(status, container)?;
    let reason = own["state"]["waiting"]["reason"].as_str()?;
    // Every start passes through these.
    if matches!(reason, "ContainerCreating" | "PodInitializing") {
        return None;
    }
    // What it said when it ended is the reason; the waiting state only has the kubelet's back-off.
    let said = own["lastState"]["terminated"]["message"].as_str();
    let said = said.or_else(|| own["state"]["waiting"]["message"].as_str()).filter(|said| !said.is_empty());
    Some(said.map_or_else(|| reason.to_owned(), |said| format!("{reason}: {said}")))
}

/// The container's last start; before the kubelet reported it, the pod's.
fn started_at(status: &Value, container: &str) -> Option<Timestamp> {
    let started = own_status(status, container).and_then(|own| own["state"]["running"]["startedAt"].as_str());
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
    // Providers name their builds as they like: `aws-cloud-controller-manager`, `hcloud-ccm`.
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
        let started = found.iter().map(|f| f.started_at.map(capstan_base::time::rfc3339)).collect::<Vec<_>>();
        assert_eq!(started, [Some("2026-11-20T10:00:07Z".to_owned()), None]);
    }

    #[test]
    fn files_in_a_config_map() {
        let map = json!({"kind": "ConfigMap", "metadata": {"name": "m"},
            "data": {"a.yaml": "kind: LeaderMigrationConfiguration\n", "b": "x"}});
        let found = configurations_in(&map);
        assert_eq!(
            found.iter().map(|f| (f.config_map.as_str(), f.key.as_str())).collect::<Vec<_>>(),
            [("m", "a.yaml")]
        );
    }

    #[test]
    fn where_a_file_is_from_and_why_a_container_waits() {
        let pod = json!({"kind": "Pod", "metadata": {"name": "ccm"}, "spec": {
            "volumes": [{"name": "a", "configMap": {"name": "m"}}, {"name": "b", "hostPath": {"path": "/srv"}}],
            "containers": [{"name": "c", "image": "cloud-controller-manager:v1.28.0", "volumeMounts": [
                {"name": "b", "mountPath": "/etc"}, {"name": "a", "mountPath": "/etc/m"},
                {"name": "a", "mountPath": "/one.yaml", "subPath": "a.yaml"}, {"name": "x", "mountPath": "/x"}]}]},
            "status": {"containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": {"message": "no such file"}}}]}});
        let found = managers_in(&pod).remove(0);
        let map = |key: &str| FileOrigin::ConfigMap { name: "m".to_owned(), key: key.to_owned() };
        for (path, expected) in [
            ("/etc/m/a.yaml", map("a.yaml")),
            ("/one.yaml", map("a.yaml")),
            ("/etc/other.yaml", FileOrigin::Other),
            ("/x/a.yaml", FileOrigin::NotKnown),
        ] {
            assert_eq!(found.origin_of(path), expected, "{path}");
        }
        assert!(!found.is_ready && !found.is_in_shell);
        assert_eq!(found.trouble.as_deref(), Some("CrashLoopBackOff: no such file"));
    }
}
