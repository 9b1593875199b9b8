//! Clusters that are described by a class, where no controller computes topologies: what is answered when one is made, and what it
//! says of itself.

use capi_types::cluster::Cluster;
use capi_types::condition::{Conditioned as _, find};
use capstan::cli::args::{Cli, Command};
use capstan_commands::describe::{self, DescribeArgs, Description};
use capstan_commands::output::Style;
use capstan_dashboard::fleet::Verdict;
use clap::Parser as _;
use serde_json::json;

use super::simulation::Sim;

fn describe_args(line: &str) -> DescribeArgs {
    let words = std::iter::once("capstan").chain(line.split(' '));
    let command = Cli::try_parse_from(words).expect("arguments").command;
    if let Some(Command::Describe(args)) = command { args } else { panic!("{line}") }
}

async fn described(sim: &Sim) -> Description {
    let args = describe_args("describe cluster classy");
    let now = sim.clock.now();
    describe::describe(&sim.connection, &args, "default", now, Style::default()).await.expect("a tree")
}

/// Reason and message of `TopologyReconciled`.
async fn told(sim: &Sim) -> Option<(String, String)> {
    let cluster: Cluster = sim.get("classy").await?;
    find(cluster.conditions(), "TopologyReconciled").map(|c| (c.reason.clone(), c.message.clone()))
}

/// It was taken with advice that nobody can follow, and then waited for ever.
#[tokio::test(start_paused = true)]
async fn a_class_is_warned_about_and_the_cluster_says_that_nothing_computes_it() {
    let sim = Sim::start(73).await;
    let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": "classy", "namespace": "default"},
        "spec": {"topology": {"classRef": {"name": "quick"}, "version": "v1.36.0"}}});
    let request = http::Request::post("/apis/cluster.x-k8s.io/v1beta2/namespaces/default/clusters")
        .header("content-type", "application/json")
        .body(kube::client::Body::from(serde_json::to_vec(&cluster).expect("JSON")))
        .expect("a request");
    let answer = sim.connection.client.send(request).await.expect("an answer");
    assert_eq!(answer.status(), 201);
    let warning = answer.headers()["warning"].to_str().expect("text").to_owned();
    assert!(warning.contains("nothing here computes spec.topology"), "{warning}");
    assert!(!warning.contains("must be created"), "{warning}");

    sim.until("it says so itself", 60, async |s| told(s).await.is_some()).await;
    let (reason, message) = told(&sim).await.expect("there");
    assert_eq!(reason, "NoTopologyController");
    assert!(message.contains("no control plane and no workers are made of it"), "{message}");
    sim.until("a verdict", 180, async |s| described(s).await.verdict == Verdict::Blocked).await;
    let tree = described(&sim).await;
    assert!(tree.document.contains("Nothing here computes spec.topology"), "{}", tree.document);

    let reference = |group: &str, kind: &str| json!({"apiGroup": format!("{group}.cluster.x-k8s.io"), "kind": kind, "name": "classy"});
    let body = json!({"spec": {"infrastructureRef": reference("infrastructure", "DevCluster"),
        "controlPlaneRef": reference("controlplane", "KubeadmControlPlane")}});
    sim.patch::<Cluster>("classy", body).await;
    sim.until("nothing is said any more", 60, async |s| told(s).await.is_none()).await;
}
