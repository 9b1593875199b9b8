//! clusterctl against the real binary: what it describes, what it restarts, and a fleet that moves from
//! one server to another. Skips, saying so, where clusterctl is not installed.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use capi_types::cluster::Cluster;
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt as _};

use crate::standalone::Standalone;

fn is_installed() -> bool {
    let found =
        Command::new("clusterctl").arg("version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    found.is_ok()
}

/// What `clusterctl …` prints about a server.
fn says(server: &Standalone, home: &Path, args: &[&str]) -> String {
    let output = Command::new("clusterctl")
        .arg("--kubeconfig")
        .arg(server.kubeconfig())
        .args(args)
        .env("HOME", home)
        .env("XDG_CONFIG_HOME", home)
        .env("CLUSTERCTL_DISABLE_VERSIONCHECK", "true")
        .stdin(Stdio::null())
        .output()
        .expect("clusterctl runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{args:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

async fn machines(client: &Client) -> BTreeSet<String> {
    let machines: Api<Machine> = Api::namespaced(client.clone(), "default");
    let list = machines.list(&ListParams::default()).await.expect("machines");
    list.iter().map(|machine| machine.name_any()).collect()
}

async fn web(client: &Client) -> MachineDeployment {
    let deployments: Api<MachineDeployment> = Api::namespaced(client.clone(), "default");
    deployments.get("aurora-web").await.expect("a MachineDeployment")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s161_clusterctl_describes_restarts_and_moves() {
    if !is_installed() {
        println!("skipped: clusterctl is not installed");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let [source, target] = ["source", "target"].map(|name| folder.path().join(name));
    let source = Standalone::start(&source, &["--sample", "healthy-ha"]);
    let target = Standalone::start(&target, &[]);
    let settled = ["wait", "cluster/aurora", "--for=verdict=ok", "--timeout=120s"];
    source.says(&settled);
    let (from, to) = (source.client().await, target.client().await);
    let before = machines(&from).await;

    let tree = says(&source, folder.path(), &["describe", "cluster", "aurora", "--grouping=false"]);
    for line in ["Cluster default/aurora", "KubeadmControlPlane default/aurora-control-plane"] {
        assert!(tree.contains(line), "{tree}");
    }
    for name in &before {
        assert!(tree.contains(&format!("Machine default/{name}")), "{name} in\n{tree}");
    }
    let kubeconfig = says(&source, folder.path(), &["get", "kubeconfig", "aurora"]);
    assert!(kubeconfig.contains("kind: Config"), "{kubeconfig}");

    let there = target.kubeconfig().display().to_string();
    says(&source, folder.path(), &["move", "--to-kubeconfig", &there]);
    target.says(&settled);
    assert_eq!(machines(&to).await, before);
    assert_eq!(machines(&from).await, BTreeSet::new());
    let left: Api<Cluster> = Api::namespaced(from, "default");
    assert!(left.list(&ListParams::default()).await.expect("clusters").items.is_empty());

    let rollout = ["alpha", "rollout", "restart", "machinedeployment/aurora-web"];
    assert_eq!(web(&to).await.spec.rollout.and_then(|rollout| rollout.after), None);
    says(&target, folder.path(), &rollout);
    assert!(web(&to).await.spec.rollout.and_then(|rollout| rollout.after).is_some());
}
