//! Every verb of kubectl, on one server: the sessions side by side, each in a namespace of its own, and what no
//! text can show.

use futures::future::join_all;

use super::Kubectl;
use super::sessions::{BUILT_IN_OBJECTS, FLEET, LABELS, LIST, MAP, SESSIONS, UNKNOWN};
use super::transcript::play;
use crate::running::Running;

fn files(kubectl: &Kubectl) {
    kubectl.file("fleet.yaml", FLEET);
    kubectl.file("fleet-3.yaml", &FLEET.replace("replicas: 2", "replicas: 3"));
    kubectl.file("typo.yaml", &FLEET.replace("clusterNetwork:", "clusterNetwrk:"));
    kubectl.file("labels.yaml", LABELS);
    kubectl.file("labels-less.yaml", &LABELS.replace("team: blue, tier: gold", ""));
    kubectl.file("list.yaml", LIST);
    kubectl.file("unknown.yaml", UNKNOWN);
    kubectl.file("map.yaml", MAP);
    kubectl.file("map-less.yaml", &MAP.replace("one: first, ", ""));
    kubectl.file("stale.yaml", &MAP.replace("name: map", "name: map, resourceVersion: '1'"));
    kubectl.file("built-in.yaml", BUILT_IN_OBJECTS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s145_every_verb_does_what_it_says() {
    let Some(kubectl) = Kubectl::start() else { return };
    files(&kubectl);
    join_all(SESSIONS.iter().map(|(namespace, text)| play(&kubectl, namespace, text))).await;
}

/// Dependents name their owner's uid, which no transcript can know.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s145_deleting_an_owner_cascades_as_asked() {
    let Some(kubectl) = Kubectl::start() else { return };
    for (cascade, stays) in [("background", false), ("foreground", false), ("orphan", true)] {
        let owner = format!("owner-{cascade}");
        let owned = format!("owned-{cascade}");
        kubectl.ok(&["create", "configmap", &owner]).await;
        kubectl.ok(&["create", "configmap", &owned]).await;
        let uid = kubectl.ok(&["get", "cm", &owner, "-o", "jsonpath={.metadata.uid}"]).await;
        let reference = format!(
            r#"{{"metadata":{{"ownerReferences":[{{"apiVersion":"v1","kind":"ConfigMap","name":"{owner}","uid":"{uid}","blockOwnerDeletion":true}}]}}}}"#
        );
        kubectl.ok(&["patch", "cm", &owned, "-p", &reference]).await;
        kubectl.ok(&["delete", "cm", &owner, &format!("--cascade={cascade}"), "--timeout=20s"]).await;
        if stays {
            let references = ["get", "cm", &owned, "-o", "jsonpath=[{.metadata.ownerReferences}]"];
            assert_eq!(kubectl.ok(&references).await, "[]", "{cascade}");
        } else {
            kubectl.ok(&["wait", "cm", &owned, "--for=delete", "--timeout=20s"]).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s145_watches_print_what_changes() {
    let Some(kubectl) = Kubectl::start() else { return };
    files(&kubectl);
    kubectl.ok(&["create", "-f", "fleet.yaml"]).await;
    let columns = "custom-columns=:metadata.name,:spec.replicas";
    let all = ["get", "md", "-w", "--no-headers", "-o", columns];
    let mut all = Words(Running::start(kubectl.command("admin", &all)));
    let only = ["get", "md", "web", "-w", "--output-watch-events", "--no-headers"];
    let mut only = Words(Running::start(kubectl.command("admin", &only)));
    let mut first = [all.next().await, all.next().await];
    first.sort();
    assert_eq!(first, ["app 1", "web 2"]);
    assert_eq!(only.next().await, "ADDED web");
    kubectl.ok(&["scale", "md", "app", "--replicas=4"]).await;
    assert_eq!(all.next().await, "app 4");
    kubectl.ok(&["scale", "md", "web", "--replicas=5"]).await;
    assert_eq!(all.next().await, "web 5");
    kubectl.ok(&["delete", "md", "web"]).await;
    assert_eq!(only.next().await, "MODIFIED web");
    assert_eq!(only.next().await, "DELETED web");
}

/// The first two words of each line.
struct Words(Running);

impl Words {
    async fn next(&mut self) -> String {
        self.0.line().await.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
    }
}
