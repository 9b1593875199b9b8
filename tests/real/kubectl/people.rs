//! What a person does with Cluster API kinds in one sitting: apply, look, change, be refused, wait.

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ListParams};

use super::Kubectl;
use crate::running::Running;

const CLUSTER: &str = r"
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: c1, namespace: team, labels: {tier: gold}}
spec:
  clusterNetwork: {pods: {cidrBlocks: [192.168.0.0/16]}}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DevCluster, name: c1}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: md1, namespace: team}
spec:
  clusterName: c1
  replicas: 2
  selector: {matchLabels: {cluster.x-k8s.io/deployment-name: md1}}
  template:
    metadata: {labels: {cluster.x-k8s.io/deployment-name: md1}}
    spec:
      clusterName: c1
      version: v1.33.0
      bootstrap: {dataSecretName: none}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DevMachineTemplate, name: t1}
";

impl Kubectl {
    async fn applied(&self) {
        self.ok(&["create", "namespace", "team"]).await;
        let path = self.file("cluster.yaml", CLUSTER);
        self.ok(&["apply", "-f", &path.display().to_string()]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s019_people_apply_read_explain_change_and_delete() {
    let Some(kubectl) = Kubectl::start() else { return };
    kubectl.applied().await;
    let path = kubectl.folder.path().join("cluster.yaml").display().to_string();
    let again = kubectl.ok(&["apply", "-f", &path]).await;
    assert_eq!(again.matches("unchanged").count(), 2, "{again}");
    let changed = CLUSTER.replace("replicas: 2", "replicas: 4").replace("tier: gold", "tier: silver");
    let changed = kubectl.file("changed.yaml", &changed).display().to_string();
    assert!(kubectl.refused("admin", &["diff", "-f", &changed]).await.is_empty());
    assert!(kubectl.ok(&["apply", "-f", &changed]).await.contains("md1 configured"));
    let table = kubectl.ok(&["get", "md", "-n", "team"]).await;
    assert!(table.starts_with("NAME") && table.contains("CLUSTER") && table.contains("md1"), "{table}");
    let all = kubectl.ok(&["get", "cluster-api", "-A"]).await;
    assert!(all.contains("cluster.cluster.x-k8s.io/c1") && all.contains("/md1"), "{all}");
    let yaml = kubectl.ok(&["get", "cluster", "c1", "-n", "team", "-o", "yaml"]).await;
    assert!(yaml.contains("tier: silver") && yaml.contains("192.168.0.0/16"), "{yaml}");
    let described = kubectl.ok(&["describe", "cluster", "c1", "-n", "team"]).await;
    assert!(described.contains("Events:") && described.contains("Name:         c1"), "{described}");
    kubectl.ok(&["label", "cluster", "c1", "-n", "team", "a=b"]).await;
    kubectl.ok(&["annotate", "cluster", "c1", "-n", "team", "x.io/y=z"]).await;
    kubectl
        .ok(&["patch", "md", "md1", "-n", "team", "--type=merge", "-p", r#"{"spec":{"paused":true}}"#])
        .await;
    kubectl.ok(&["scale", "md", "md1", "-n", "team", "--replicas=7"]).await;
    let spec = "jsonpath={.spec.replicas} {.metadata.labels} {.metadata.generation}";
    let read = kubectl.ok(&["get", "md", "md1", "-n", "team", "-o", spec]).await;
    assert!(read.starts_with("7 ") && read.ends_with(" 4"), "{read}");
    let selected = kubectl.ok(&["get", "clusters", "-A", "-l", "a=b", "-o", "name"]).await;
    assert_eq!(selected.trim(), "cluster.cluster.x-k8s.io/c1");
    let field = "kubeadmconfigtemplate.spec.template.spec.joinConfiguration.nodeRegistration";
    let explained = kubectl.ok(&["explain", field]).await;
    assert!(explained.contains("FIELD: nodeRegistration <Object>"), "{explained}");
    assert!(explained.contains("How a machine becomes a Node."), "{explained}");
    kubectl.ok(&["delete", "-f", &path, "--timeout=20s"]).await;
    assert!(kubectl.ok(&["get", "md,clusters", "-A", "-o", "name"]).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn built_in_kinds_come_as_protobuf_and_strategic_patches() {
    let Some(kubectl) = Kubectl::start() else { return };
    kubectl.ok(&["create", "namespace", "team"]).await;
    kubectl.ok(&["create", "secret", "generic", "s", "-n", "team", "--from-literal=k=v"]).await;
    kubectl.ok(&["create", "configmap", "m", "-n", "team", "--from-literal=a=b"]).await;
    let data = kubectl.ok(&["get", "secret", "s", "-n", "team", "-o", "jsonpath={.data.k} {.type}"]).await;
    assert_eq!(data, "dg== Opaque");
    kubectl.ok(&["patch", "configmap", "m", "-n", "team", "-p", r#"{"data":{"c":"d"}}"#]).await;
    let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other, namespace: team}\ndata: {one: '1', two: '2'}\n";
    let path = kubectl.file("map.yaml", manifest).display().to_string();
    kubectl.ok(&["apply", "-f", &path]).await;
    kubectl.file("map.yaml", &manifest.replace("one: '1', ", ""));
    kubectl.ok(&["apply", "-f", &path]).await;
    assert_eq!(
        kubectl.ok(&["get", "cm", "other", "-n", "team", "-o", "jsonpath={.data}"]).await,
        r#"{"two":"2"}"#
    );
    assert_eq!(kubectl.ok(&["auth", "can-i", "create", "machines", "-n", "team"]).await.trim(), "yes");
    assert!(kubectl.ok(&["auth", "whoami"]).await.contains("kubernetes-admin"));
    assert!(kubectl.ok(&["api-resources"]).await.contains("machinedeployments"));
    assert!(kubectl.ok(&["version"]).await.contains("Server Version: v1."));
    kubectl.ok(&["delete", "namespace", "team", "--timeout=20s"]).await;
    assert!(kubectl.refused("admin", &["get", "ns", "team"]).await.contains("namespaces \"team\" not found"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_read_as_they_do_elsewhere() {
    let Some(kubectl) = Kubectl::start() else { return };
    kubectl.applied().await;
    let missing = kubectl.refused("admin", &["get", "md", "nope", "-n", "team"]).await;
    assert_eq!(
        missing.trim(),
        "Error from server (NotFound): machinedeployments.cluster.x-k8s.io \"nope\" not found"
    );
    let unknown = CLUSTER.replace("clusterNetwork:", "clusterNetwrk:");
    let unknown = kubectl.file("unknown.yaml", &unknown).display().to_string();
    let unknown = kubectl.refused("admin", &["apply", "-f", &unknown]).await;
    assert!(unknown.contains("unknown field \"spec.clusterNetwrk\""), "{unknown}");
    let wrong = CLUSTER.replace("replicas: 2", "replicas: many");
    let wrong = kubectl.file("wrong.yaml", &wrong).display().to_string();
    let wrong = kubectl.refused("admin", &["apply", "-f", &wrong]).await;
    assert!(wrong.contains("spec.replicas in body must be of type integer"), "{wrong}");
    let viewer = kubectl.refused("viewer", &["delete", "cluster", "c1", "-n", "team"]).await;
    assert!(viewer.contains("User \"capstan-viewer\" cannot delete resource \"clusters\""), "{viewer}");
    let denied = kubectl.output("viewer", &["auth", "can-i", "delete", "clusters", "-n", "team"]).await;
    assert_eq!(String::from_utf8_lossy(&denied.stdout).trim(), "no");
    let unnamed = kubectl.refused("admin", &["get", "pods"]).await;
    assert!(unnamed.contains("the server doesn't have a resource type \"pods\""), "{unnamed}");
}

const CONTROL_PLANE: &str = r"
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {name: cp, namespace: team}
spec:
  replicas: 3
  version: 1.34.0
  kubeadmConfigSpec: {clusterConfiguration: {certificatesDir: /a}}
  machineTemplate:
    spec:
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DevMachineTemplate, name: t1}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn denials_of_admission_read_as_those_of_webhooks() {
    let Some(kubectl) = Kubectl::start() else { return };
    kubectl.applied().await;
    let plane = kubectl.file("cp.yaml", CONTROL_PLANE).display().to_string();
    kubectl.ok(&["apply", "-f", &plane]).await;
    let version = kubectl.ok(&["get", "kcp", "cp", "-n", "team", "-o", "jsonpath={.spec.version}"]).await;
    assert_eq!(version, "v1.34.0", "defaulted");

    let even = kubectl.refused("admin", &["scale", "kcp", "cp", "-n", "team", "--replicas=2"]).await;
    assert_eq!(
        even.trim(),
        "Error from server (Forbidden): admission webhook \
         \"validation-scale.kubeadmcontrolplane.controlplane.cluster.x-k8s.io\" denied the request: replicas cannot be \
         an even number when etcd is stacked"
    );
    kubectl.ok(&["scale", "kcp", "cp", "-n", "team", "--replicas=5"]).await;

    let patch = |patch| ["patch", "kcp", "cp", "-n", "team", "--type=merge", "-p", patch];
    let bad = kubectl.refused("admin", &patch(r#"{"spec":{"version":"v1.35"}}"#)).await;
    assert_eq!(
        bad.trim(),
        "The KubeadmControlPlane \"cp\" is invalid: spec.version: Invalid value: \"v1.35\": must be a valid semantic \
         version"
    );
    let fixed = r#"{"spec":{"version":"v1.36.0","kubeadmConfigSpec":{"clusterConfiguration":{"certificatesDir":"/b"}}}}"#;
    let fixed = kubectl.refused("admin", &patch(fixed)).await;
    assert_eq!(
        fixed.lines().map(str::trim_end).collect::<Vec<_>>(),
        [
            "The KubeadmControlPlane \"cp\" is invalid:",
            "* spec.kubeadmConfigSpec.clusterConfiguration.certificatesDir: Forbidden: cannot be modified",
            "* spec.version: Forbidden: cannot update Kubernetes version from v1.34.0 to v1.36.0",
        ]
    );
    let moved = kubectl.file("moved.yaml", &CLUSTER.replace("clusterName: c1", "clusterName: c2"));
    let moved = kubectl.refused("admin", &["apply", "-f", &moved.display().to_string()]).await;
    assert!(
        moved.contains(
            "The MachineDeployment \"md1\" is invalid: spec.clusterName: Forbidden: field is immutable"
        ),
        "{moved}"
    );
    for kind in ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"] {
        let unknown = kubectl.refused("admin", &["get", kind]).await;
        let expected = format!("the server doesn't have a resource type \"{kind}\"");
        assert!(unknown.contains(&expected), "{unknown}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watching_and_waiting_end_when_they_should() {
    let Some(kubectl) = Kubectl::start() else { return };
    kubectl.applied().await;
    let watch = kubectl.command("admin", &["get", "md", "-n", "team", "-w", "-o", "name"]);
    let mut watching = Running::start(watch);
    let first = watching.line().await;
    assert_eq!(first, "machinedeployment.cluster.x-k8s.io/md1");
    let condition = r#"{"status":{"conditions":[{"type":"Available","status":"True","reason":"Fine","message":"",
        "lastTransitionTime":"2026-11-20T10:00:00Z"}]}}"#;
    let waiting = kubectl.ok(&["wait", "md/md1", "-n", "team", "--for=condition=Available", "--timeout=20s"]);
    let report =
        ["patch", "md", "md1", "-n", "team", "--subresource=status", "--type=merge", "-p", condition];
    let reporting = kubectl.ok(&report);
    let (waited, _) = tokio::join!(waiting, reporting);
    assert!(waited.contains("condition met"), "{waited}");
    assert_eq!(watching.line().await, first);
    let gone = kubectl.ok(&["wait", "md/md1", "-n", "team", "--for=delete", "--timeout=20s"]);
    let deleting = kubectl.ok(&["delete", "md", "md1", "-n", "team"]);
    tokio::join!(gone, deleting);
}

/// The listener itself, through the kubeconfig it writes and the client everything else uses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_kubeconfig_opens_the_door_and_nothing_else_does() {
    let Some(kubectl) = Kubectl::start() else { return };
    let read = |name: &str| std::fs::read_to_string(kubectl.folder.path().join(name)).expect("a kubeconfig");
    let client = async |text: &str| {
        let config = kube::config::Kubeconfig::from_yaml(text).expect("a kubeconfig");
        let config =
            kube::Config::from_custom_kubeconfig(config, &Default::default()).await.expect("a config");
        kube::Client::try_from(config).expect("a client")
    };
    let namespaces = Api::<Namespace>::all(client(&read("admin")).await);
    assert!(namespaces.list(&ListParams::default()).await.expect("listed").items.len() >= 4);
    let mut forged: serde_json::Value = serde_json::from_str(&read("admin")).expect("json");
    forged["users"][0]["user"]["token"] = "x".repeat(64).into();
    let refused = Api::<Namespace>::all(client(&forged.to_string()).await).list(&ListParams::default()).await;
    assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 401));
}

/// The record of fields is kubectl's own, in the names that Argo CD and the autoscaler use.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_preview_names_who_else_sets_what_it_changes() {
    const POOL: &str = r#"
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata:
  name: md
  namespace: default
  annotations:
    argocd.argoproj.io/tracking-id: "fleet:cluster.x-k8s.io/MachineDeployment:default/md"
    cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size: "2"
    cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size: "10"
spec:
  clusterName: c1
  replicas: 3
  selector: {matchLabels: {pool: md}}
  template:
    metadata: {labels: {pool: md}}
    spec:
      clusterName: c1
      version: v1.34.0
      bootstrap: {dataSecretName: s}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DevMachineTemplate, name: md}
"#;
    let Some(kubectl) = Kubectl::start() else { return };
    kubectl.file("cluster.yaml", &CLUSTER.replace("namespace: team", "namespace: default"));
    kubectl.file("pool.yaml", POOL);
    kubectl.ok(&["apply", "-f", "cluster.yaml"]).await;
    kubectl.ok(&["apply", "--server-side", "--field-manager=argocd-controller", "-f", "pool.yaml"]).await;
    let said = kubectl.server.says(&["scale", "md/md", "4", "--dry-run"]);
    for expected in [
        "the autoscaler sets this number, from 2 to 10",
        "Argo CD owns spec.replicas here (fleet): it will be put back",
    ] {
        assert!(said.contains(expected), "{said}");
    }
    // Another tool's record of the same field is not a reason to warn.
    kubectl
        .ok(&["apply", "--server-side", "--force-conflicts", "--field-manager=me", "-f", "pool.yaml"])
        .await;
    kubectl.ok(&["annotate", "md/md", "argocd.argoproj.io/tracking-id-"]).await;
    kubectl.ok(&["patch", "md", "md", "--type=merge", "-p", r#"{"metadata":{"managedFields":[{}]}}"#]).await;
    let said = kubectl.server.says(&["scale", "md/md", "4", "--dry-run"]);
    assert!(!said.contains("Argo CD") && said.contains("autoscaler"), "{said}");
}
