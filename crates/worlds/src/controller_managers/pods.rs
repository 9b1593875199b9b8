//! Runs what the controller managers' pods of a cluster say: a pod that comes is a process, one that changes or is started
//! again is another one, one that goes is killed. Owns which files a process sees; must not know what it does with them.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::Value;
use tokio::task::JoinSet;

use super::host::{FileSource, SimulatedHosts};
use super::ledger::Ledger;
use super::site::{HostFiles, Site};
use capstan_base::rng::Rng;
use capstan_base::time::Clock;
use capstan_engine::client::Cache;

const NAMESPACE: &str = "kube-system";

/// Runs the processes of one cluster until dropped, and writes down which controllers they run.
pub async fn follow(site: Arc<dyn Site>, ledger: Ledger, clock: Clock, rng: Rng) {
    let (pods, maps) = (Cache::<Pod>::new(), Cache::<ConfigMap>::new());
    // Before the feeds, or the first list could pass unseen.
    let mut news = pods.subscribe();
    let mut feeds = JoinSet::new();
    let client = site.administrator();
    feeds.spawn(pods.clone().follow_in(client.clone(), NAMESPACE, rng.stream("pods")));
    feeds.spawn(maps.clone().follow_in(client, NAMESPACE, rng.stream("config maps")));
    let mut hosts =
        SimulatedHosts::new(Arc::clone(&site), clock, rng.stream("processes")).with_ledger(ledger);
    // A process that starts without its file would end, and be started again only later.
    maps.ready().await;
    loop {
        if pods.is_ready() {
            settle(&mut hosts, &pods.list(), &maps, &site);
        }
        // The sender lives in the cache, so that waiting cannot fail.
        drop(news.changed().await);
    }
}

fn settle(hosts: &mut SimulatedHosts, pods: &[Arc<Pod>], maps: &Cache<ConfigMap>, site: &Arc<dyn Site>) {
    // A pod that is going is killed at once, without its grace period.
    let there = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let there: Vec<Value> = there.filter_map(|pod| serde_json::to_value(pod.as_ref()).ok()).collect();
    hosts.keep(|name| there.iter().any(|pod| pod["metadata"]["name"] == name));
    for pod in &there {
        let (of, maps, site) = (pod.clone(), maps.clone(), Arc::clone(site));
        // A question and no copy: the process reads the files when it starts, maybe again.
        let source: FileSource = Arc::new(move || files(&of, &maps.list(), site.as_ref()));
        hosts.run(pod, &source);
    }
}

/// What is mounted into the pod's containers, by path.
fn files(pod: &Value, maps: &[Arc<ConfigMap>], site: &dyn Site) -> HostFiles {
    let mut files = HostFiles::new();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let volumes = list(&pod["spec"]["volumes"]);
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    for container in list(&pod["spec"]["containers"]) {
        let mut mounts = list(&container["volumeMounts"]);
        // As containerd mounts them: the deepest last, so that it covers what is there.
        mounts.sort_by_key(depth);
        for mount in mounts {
            let path = mount["mountPath"].as_str().unwrap_or_default().trim_end_matches('/');
            // Without its volume a kubelet starts no pod; here the process lacks the file.
            let Some(volume) = volumes.iter().find(|volume| volume["name"] == mount["name"]) else {
                continue;
            };
            if let Some(name) = volume["configMap"]["name"].as_str() {
                files.extend(texts(maps, name).map(|(key, text)| (format!("{path}/{key}"), text.clone())));
            } else if let Some(outside) = volume["hostPath"]["path"].as_str() {
                let outside = outside.trim_end_matches('/');
                let found = site.host_files(node, outside).into_iter();
                // Once: the mount's path replaces the host's at the beginning only.
                files.extend(found.map(|(file, text)| (file.replacen(outside, path, 1), text)));
            }
        }
    }
    files
}

/// Folders on the way to a mount.
fn depth(mount: &Value) -> usize {
    let path = mount["mountPath"].as_str().unwrap_or_default();
    path.trim_end_matches('/').matches('/').count()
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
    use capstan_engine::client::{Client, in_process};
    use leader_migration::rights::Grantee;

    /// Hosts with files, and an API that is not used.
    struct FewFiles;

    impl Site for FewFiles {
        fn administrator(&self) -> Client {
            let nobody = tower::service_fn(|_: http::Request<kube::client::Body>| {
                std::future::ready(Err::<http::Response<kube::client::Body>, _>(std::io::Error::other(
                    "asked",
                )))
            });
            in_process(nobody, "test", "default", false).client
        }

        fn client(&self, _: &Grantee) -> Client {
            self.administrator()
        }

        fn host_files(&self, node: &str, path: &str) -> HostFiles {
            let all = [("/srv/m.yaml", "one"), ("/srv/deep/n.yaml", "two"), ("/host/ccm/m.yaml", "four")];
            let found = all.into_iter().filter(|(file, _)| node == "cp-1" && file.starts_with(path));
            found.map(|(file, text)| (file.to_owned(), text.to_owned())).collect()
        }

        fn show(&self, _: &str, _: &str, _: Option<&str>) {}
    }

    #[test]
    fn the_deepest_mount_of_a_file_is_the_one_that_a_process_sees() {
        let map = json!({"metadata": {"name": "ccm"}, "data": {"m.yaml": "three"}});
        let maps = [Arc::new(serde_json::from_value(map).expect("a ConfigMap"))];
        let deep = json!({"name": "a", "mountPath": "/etc/ccm"});
        let above = json!({"name": "b", "mountPath": "/etc"});
        for mounts in [json!([deep, above]), json!([above, deep])] {
            let pod = json!({"spec": {
                "nodeName": "cp-1",
                "volumes": [{"name": "a", "configMap": {"name": "ccm"}}, {"name": "b", "hostPath": {"path": "/host"}}],
                "containers": [{"volumeMounts": mounts}]}});
            let seen = files(&pod, &maps, &FewFiles);
            assert_eq!(seen.get("/etc/ccm/m.yaml").map(String::as_str), Some("three"), "{mounts}");
        }
    }

    #[test]
    fn a_process_sees_the_files_that_its_pod_mounts() {
        let map = json!({"metadata": {"name": "ccm"}, "data": {"m.yaml": "three"}});
        let maps = [Arc::new(serde_json::from_value(map).expect("a ConfigMap"))];
        let pod = json!({"spec": {
            "nodeName": "cp-1",
            "volumes": [{"name": "a", "configMap": {"name": "ccm"}}, {"name": "b", "hostPath": {"path": "/srv/m.yaml"}},
                {"name": "c", "hostPath": {"path": "/srv/deep/"}}],
            "containers": [{"volumeMounts": [{"name": "a", "mountPath": "/etc/ccm/"},
                {"name": "b", "mountPath": "/etc/kubernetes/leader-migration.yaml"},
                {"name": "c", "mountPath": "/etc/deep"}, {"name": "gone", "mountPath": "/x"}]}]}});
        let seen: Vec<(String, String)> = files(&pod, &maps, &FewFiles).into_iter().collect();
        let seen: Vec<(&str, &str)> =
            seen.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        assert_eq!(
            seen,
            [
                ("/etc/ccm/m.yaml", "three"),
                ("/etc/deep/n.yaml", "two"),
                ("/etc/kubernetes/leader-migration.yaml", "one"),
            ]
        );
    }
}
