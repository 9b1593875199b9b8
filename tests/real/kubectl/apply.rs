//! kubectl's commands that rest on server-side apply, field ownership and the OpenAPI documents: apply
//! with and without `--server-side` and the way from one to the other, diff, edit, explain.

use serde_json::Value;

use super::Kubectl;

const DEPLOYMENT: &str = r"
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: md1, namespace: team, labels: {tier: gold}}
spec:
  clusterName: c1
  replicas: 2
  selector: {matchLabels: {cluster.x-k8s.io/cluster-name: c1, cluster.x-k8s.io/deployment-name: md1}}
  template:
    metadata: {labels: {cluster.x-k8s.io/deployment-name: md1}}
    spec:
      clusterName: c1
      version: v1.33.0
      bootstrap: {dataSecretName: none}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DevMachineTemplate, name: t1}
";

/// A kubectl with a namespace `team`, and the path of the manifest.
async fn start() -> Option<(Kubectl, String)> {
    let kubectl = Kubectl::start()?;
    kubectl.ok(&["create", "namespace", "team"]).await;
    let path = kubectl.file("md.yaml", DEPLOYMENT).display().to_string();
    Some((kubectl, path))
}

impl Kubectl {
    async fn deployment(&self) -> Value {
        let text = self.ok(&["get", "md", "md1", "-n", "team", "-o", "json", "--show-managed-fields"]).await;
        serde_json::from_str(&text).expect("json")
    }

    /// `manager Operation` of each entry.
    async fn managers(&self) -> Vec<String> {
        let object = self.deployment().await;
        let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        let text = |entry: &Value, field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        entries.iter().map(|e| format!("{} {}", text(e, "manager"), text(e, "operation"))).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s114_s146_server_side_apply_creates_changes_and_meets_conflicts() {
    let Some((kubectl, path)) = start().await else { return };
    assert!(kubectl.ok(&["apply", "--server-side", "-f", &path]).await.contains("md1 serverside-applied"));
    let made = kubectl.deployment().await;
    kubectl.ok(&["apply", "--server-side", "-f", &path]).await;
    assert_eq!(kubectl.deployment().await, made);
    assert_eq!(kubectl.managers().await, ["kubectl Apply"]);
    kubectl.ok(&["scale", "md", "md1", "-n", "team", "--replicas=5"]).await;
    let refused = kubectl.refused("admin", &["apply", "--server-side", "-f", &path]).await;
    assert!(
        refused
            .contains("Apply failed with 1 conflict: conflict with \"kubectl\" with subresource \"scale\""),
        "{refused}"
    );
    assert!(refused.contains(".spec.replicas"), "{refused}");
    kubectl.ok(&["apply", "--server-side", "--force-conflicts", "-f", &path]).await;
    assert_eq!(kubectl.deployment().await["spec"]["replicas"], 2);
    // Labels go by omission, for this manager and another.
    kubectl.file("md.yaml", &DEPLOYMENT.replace("tier: gold", "tier: silver"));
    kubectl.ok(&["apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", &path]).await;
    kubectl.file("md.yaml", &DEPLOYMENT.replace(", labels: {tier: gold}", ""));
    kubectl.ok(&["apply", "--server-side", "-f", &path]).await;
    assert_eq!(kubectl.deployment().await["metadata"]["labels"]["tier"], "silver");
    kubectl.ok(&["apply", "--server-side", "--field-manager=other", "-f", &path]).await;
    assert!(kubectl.deployment().await["metadata"]["labels"]["tier"].is_null());
    let hidden = kubectl.ok(&["get", "md", "md1", "-n", "team", "-o", "yaml"]).await;
    assert!(!hidden.contains("managedFields"), "{hidden}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s129_from_client_side_to_server_side_and_on() {
    let Some((kubectl, path)) = start().await else { return };
    kubectl.ok(&["apply", "-f", &path]).await;
    assert_eq!(kubectl.managers().await, ["kubectl-client-side-apply Update"]);
    kubectl.file(
        "md.yaml",
        &DEPLOYMENT.replace("replicas: 2", "replicas: 3").replace(", labels: {tier: gold}", ""),
    );
    let moved = kubectl.ok(&["apply", "--server-side", "-f", &path]).await;
    assert!(moved.contains("md1 serverside-applied"), "{moved}");
    let object = kubectl.deployment().await;
    assert_eq!(object["spec"]["replicas"], 3);
    assert!(object["metadata"]["labels"]["tier"].is_null(), "dropped with the move: {object}");
    // It keeps the annotation under a name of its own, for the way back.
    assert_eq!(kubectl.managers().await, ["kubectl-last-applied Apply", "kubectl Apply"]);
    // Back and forth once more, without a conflict.
    kubectl.ok(&["apply", "-f", &path]).await;
    kubectl.file("md.yaml", &DEPLOYMENT.replace("replicas: 2", "replicas: 4"));
    kubectl.ok(&["apply", "--server-side", "-f", &path]).await;
    assert_eq!(kubectl.deployment().await["spec"]["replicas"], 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s145_diff_edit_and_explain() {
    let Some((kubectl, path)) = start().await else { return };
    kubectl.ok(&["apply", "-f", &path]).await;
    assert_eq!(kubectl.ok(&["diff", "-f", &path]).await, "");
    kubectl.file("md.yaml", &DEPLOYMENT.replace("replicas: 2", "replicas: 7"));
    for args in [&["diff", "-f", &path][..], &["diff", "--server-side", "--force-conflicts", "-f", &path]] {
        let output = kubectl.output("admin", args).await;
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{text}{}", String::from_utf8_lossy(&output.stderr));
        assert!(text.contains("-  replicas: 2") && text.contains("+  replicas: 7"), "{text}");
        assert!(!text.contains("managedFields"), "{text}");
    }
    assert_eq!(kubectl.deployment().await["spec"]["replicas"], 2);
    let mut edit = kubectl.command("admin", &["edit", "md", "md1", "-n", "team"]);
    edit.env("KUBE_EDITOR", "sed -i s/v1.33.0/v1.34.0/");
    let edited =
        tokio::task::spawn_blocking(move || edit.output().expect("kubectl runs")).await.expect("joined");
    assert!(edited.status.success(), "{}", String::from_utf8_lossy(&edited.stderr));
    assert_eq!(kubectl.deployment().await["spec"]["template"]["spec"]["version"], "v1.34.0");
    assert!(kubectl.managers().await.contains(&"kubectl-edit Update".to_owned()));
    let explained = kubectl.ok(&["explain", "md.spec.template.spec.bootstrap"]).await;
    assert!(explained.contains("DESCRIPTION:") && explained.contains("dataSecretName"), "{explained}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s146_the_definitions_apply_server_side() {
    let Some((kubectl, _)) = start().await else { return };
    let given = kubectl.ok(&["get", "crd", "machines.cluster.x-k8s.io", "-o", "json"]).await;
    let mut definition: Value = serde_json::from_str(&given).expect("json");
    let metadata = definition["metadata"].as_object_mut().expect("metadata");
    metadata.retain(|field, _| ["name", "labels", "annotations"].contains(&field.as_str()));
    definition.as_object_mut().expect("an object").remove("status");
    let path = kubectl.file("crd.json", &definition.to_string()).display().to_string();
    let applied = kubectl.ok(&["apply", "--server-side", "-f", &path]).await;
    assert!(applied.contains("machines.cluster.x-k8s.io serverside-applied"), "{applied}");
    let before = kubectl
        .ok(&["get", "crd", "machines.cluster.x-k8s.io", "-o", "jsonpath={.metadata.resourceVersion}"])
        .await;
    kubectl.ok(&["apply", "--server-side", "-f", &path]).await;
    let after = kubectl
        .ok(&["get", "crd", "machines.cluster.x-k8s.io", "-o", "jsonpath={.metadata.resourceVersion}"])
        .await;
    assert_eq!(before, after);
}
