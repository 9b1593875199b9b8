//! Runs what the controller managers' pods of a cluster say: a pod that comes is a process, one that changes is another
//! one, one that goes is killed. Owns which files a process sees; must not know what it does with them.
//!
//! A file of a host cannot be seen through the API: its text is that of the key of the same name in ConfigMap
//! `kube-system/host-files`.

use std::sync::Arc;

use futures::future::select;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::Value;
use tokio::task::JoinSet;

use super::host::{HostFiles, SimulatedHosts};
use crate::client::{Cache, Client};
use crate::rng::Rng;
use crate::time::Clock;

const NAMESPACE: &str = "kube-system";
const HOST_FILES: &str = "host-files";

/// Runs the processes of one cluster until dropped.
pub async fn follow(client: Client, clock: Clock, rng: Rng) {
    let (pods, maps) = (Cache::<Pod>::new(), Cache::<ConfigMap>::new());
    let (mut pod_news, mut map_news) = (pods.subscribe(), maps.subscribe());
    let mut feeds = JoinSet::new();
    feeds.spawn(pods.clone().follow_in(client.clone(), NAMESPACE, rng.stream("pods")));
    feeds.spawn(maps.clone().follow_in(client.clone(), NAMESPACE, rng.stream("config maps")));
    let mut hosts = SimulatedHosts::new(client, clock, rng.stream("processes"));
    loop {
        if pods.is_ready() && maps.is_ready() {
            settle(&mut hosts, &pods.list(), &maps.list());
        }
        let (changed, mapped) = (Box::pin(pod_news.changed()), Box::pin(map_news.changed()));
        // The senders live in the caches, so that waiting cannot fail.
        drop(select(changed, mapped).await);
    }
}

fn settle(hosts: &mut SimulatedHosts, pods: &[Arc<Pod>], maps: &[Arc<ConfigMap>]) {
    let there = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let there: Vec<Value> = there.filter_map(|pod| serde_json::to_value(pod.as_ref()).ok()).collect();
    hosts.keep(|name| there.iter().any(|pod| pod["metadata"]["name"] == name));
    for pod in &there {
        hosts.run(pod, &files(pod, maps));
    }
}

/// What is mounted into the pod's containers, by path.
fn files(pod: &Value, maps: &[Arc<ConfigMap>]) -> HostFiles {
    let mut files = HostFiles::new();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let volumes = list(&pod["spec"]["volumes"]);
    for container in list(&pod["spec"]["containers"]) {
        for mount in list(&container["volumeMounts"]) {
            let path = mount["mountPath"].as_str().unwrap_or_default();
            let Some(volume) = volumes.iter().find(|volume| volume["name"] == mount["name"]) else {
                continue;
            };
            if let Some(name) = volume["configMap"]["name"].as_str() {
                let below = |key: &str| format!("{}/{key}", path.trim_end_matches('/'));
                files.extend(texts(maps, name).map(|(key, text)| (below(key), text.clone())));
            } else if volume["hostPath"].is_object() {
                let name = path.rsplit('/').next().unwrap_or_default();
                let found = texts(maps, HOST_FILES).find(|(key, _)| *key == name);
                files.extend(found.map(|(_, text)| (path.to_owned(), text.clone())));
            }
        }
    }
    files
}

/// The texts of a ConfigMap, by key.
fn texts<'a>(maps: &'a [Arc<ConfigMap>], name: &str) -> impl Iterator<Item = (&'a str, &'a String)> {
    let map = maps.iter().find(|map| map.metadata.name.as_deref() == Some(name));
    let data = map.and_then(|map| map.data.as_ref());
    data.into_iter().flatten().map(|(key, text)| (key.as_str(), text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(name: &str, key: &str) -> Arc<ConfigMap> {
        let map = json!({"metadata": {"name": name}, "data": {key: format!("{name} {key}")}});
        Arc::new(serde_json::from_value(map).expect("a ConfigMap"))
    }

    #[test]
    fn a_process_sees_the_files_that_its_pod_mounts() {
        let maps = [map("ccm", "m.yaml"), map("host-files", "leader-migration.yaml"), map("other", "x")];
        let pod = json!({"spec": {
            "volumes": [{"name": "a", "configMap": {"name": "ccm"}}, {"name": "b", "hostPath": {"path": "/srv"}},
                {"name": "c", "hostPath": {"path": "/etc/ssl"}}],
            "containers": [{"volumeMounts": [{"name": "a", "mountPath": "/etc/ccm/"},
                {"name": "b", "mountPath": "/etc/kubernetes/leader-migration.yaml"},
                {"name": "c", "mountPath": "/etc/ssl"}, {"name": "gone", "mountPath": "/x"}]}]}});
        let seen: Vec<(String, String)> = files(&pod, &maps).into_iter().collect();
        let seen: Vec<(&str, &str)> =
            seen.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        assert_eq!(
            seen,
            [
                ("/etc/ccm/m.yaml", "ccm m.yaml"),
                ("/etc/kubernetes/leader-migration.yaml", "host-files leader-migration.yaml"),
            ]
        );
    }
}
