//! Every Cluster API kind by every name it has: plural, singular, kind, short names, full name, category.
//! With `../shared` at hand also the kinds that only upstream's definitions know.

use std::path::{Path, PathBuf};

use futures::stream::{self, StreamExt as _};

use super::Kubectl;

/// Kind and the least `spec` it accepts, in YAML flow style.
const KINDS: &[(&str, &str)] = &[
    (
        "Cluster",
        "{infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DevCluster, name: i}}",
    ),
    ("MachineDeployment", WORKERS),
    ("MachineSet", WORKERS),
    (
        "MachinePool",
        "{clusterName: c, template: {spec: {clusterName: c, bootstrap: {dataSecretName: s}, infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DevMachinePool, name: i}}}}",
    ),
    (
        "Machine",
        "{clusterName: c, bootstrap: {dataSecretName: s}, infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DevMachine, name: i}}",
    ),
    (
        "MachineHealthCheck",
        "{clusterName: c, selector: {matchLabels: {a: b}}, checks: {unhealthyNodeConditions: [{type: Ready, status: Unknown, timeoutSeconds: 300}]}}",
    ),
    ("MachineDrainRule", "{drain: {behavior: Drain, order: 5}}"),
    ("ExtensionConfig", "{clientConfig: {url: 'https://extension.example.io'}}"),
    (
        "KubeadmControlPlane",
        "{replicas: 3, version: v1.33.0, machineTemplate: {spec: {infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DevMachineTemplate, name: t}}}}",
    ),
    ("KubeadmControlPlaneTemplate", "{template: {spec: {rollout: {strategy: {type: RollingUpdate}}}}}"),
    ("KubeadmConfig", "{joinConfiguration: {nodeRegistration: {name: node}}}"),
    ("KubeadmConfigTemplate", "{template: {spec: {joinConfiguration: {nodeRegistration: {name: node}}}}}"),
    ("DevCluster", IN_MEMORY),
    ("DevClusterTemplate", IN_MEMORY_TEMPLATE),
    ("DevMachine", IN_MEMORY),
    ("DevMachineTemplate", IN_MEMORY_TEMPLATE),
    ("DevMachinePool", IN_MEMORY),
];

/// Kinds without a type of their own here: served once upstream's definitions are applied.
const UPSTREAM_KINDS: &[(&str, &str)] = &[
    (
        "ClusterClass",
        "{controlPlane: {templateRef: {apiVersion: controlplane.cluster.x-k8s.io/v1beta2, kind: KubeadmControlPlaneTemplate, name: t}}, infrastructure: {templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta2, kind: DevClusterTemplate, name: t}}}",
    ),
    (
        "ClusterResourceSet",
        "{clusterSelector: {matchLabels: {a: b}}, resources: [{kind: ConfigMap, name: m}]}",
    ),
    ("ClusterResourceSetBinding", "{clusterName: c}"),
    ("IPAddressClaim", "{poolRef: {apiGroup: ipam.example.io, kind: Pool, name: p}}"),
    (
        "IPAddress",
        "{address: 10.0.0.1, prefix: 24, claimRef: {name: c}, poolRef: {apiGroup: ipam.example.io, kind: Pool, name: p}}",
    ),
    ("DevMachinePool", "{backend: {docker: {}}}"),
    ("DevMachinePoolTemplate", "{template: {spec: {backend: {docker: {}}}}}"),
    ("DockerCluster", "{failureDomains: [{name: a, controlPlane: false}]}"),
    ("DockerClusterTemplate", "{template: {spec: {failureDomains: [{name: a, controlPlane: false}]}}}"),
    ("DockerMachine", "{customImage: i}"),
    ("DockerMachineTemplate", "{template: {spec: {customImage: i}}}"),
    ("DockerMachinePool", "{template: {customImage: i}}"),
    ("DockerMachinePoolTemplate", "{template: {spec: {template: {customImage: i}}}}"),
];

const WORKERS: &str = "{clusterName: c, replicas: 1, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {clusterName: c, bootstrap: {dataSecretName: s}, infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DevMachineTemplate, name: t}}}}";
const IN_MEMORY: &str = "{backend: {inMemory: {}}}";
const IN_MEMORY_TEMPLATE: &str = "{template: {spec: {backend: {inMemory: {}}}}}";

const TWO: &str = r"
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: it}
spec: {infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: DevCluster, name: it}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: DevCluster
metadata: {name: it}
spec: {backend: {inMemory: {}}}
";

/// One kind as discovery describes it.
struct Named {
    group_version: String,
    plural: String,
    singular: String,
    kind: String,
    short_names: Vec<String>,
    scales: bool,
    spec: &'static str,
}

impl Named {
    fn group(&self) -> &str {
        self.group_version.split('/').next().unwrap_or_default()
    }

    /// As `kubectl get -o name` prints the object called `it`.
    fn printed(&self) -> String {
        format!("{}.{}/it", self.singular, self.group())
    }

    fn names(&self) -> Vec<String> {
        let full = [format!("{}.{}", self.plural, self.group()), self.plural.clone()];
        let bare = [self.singular.clone(), self.kind.clone()];
        full.into_iter().chain(bare).chain(self.short_names.iter().cloned()).collect()
    }
}

/// What discovery says of the kinds in the category, each with its spec.
async fn discovered(kubectl: &Kubectl, specs: &[(&'static str, &'static str)]) -> Vec<Named> {
    let mut named = Vec::new();
    let text = kubectl.ok(&["api-versions"]).await;
    for group_version in text.lines().filter(|line| line.ends_with("cluster.x-k8s.io/v1beta2")) {
        let list = kubectl.ok(&["get", "--raw", &format!("/apis/{group_version}")]).await;
        let list: serde_json::Value = serde_json::from_str(&list).expect("a resource list");
        let resources = list["resources"].as_array().expect("resources");
        let is_listed = |name: &str| resources.iter().any(|r| r["name"] == name);
        for (kind, spec) in specs {
            let matches = |r: &&serde_json::Value| {
                r["kind"] == *kind && !r["name"].as_str().unwrap_or("/").contains('/')
            };
            let Some(resource) = resources.iter().find(matches) else { continue };
            assert_eq!(resource["categories"], serde_json::json!(["cluster-api"]), "{kind}");
            let text = |field: &str| resource[field].as_str().expect(field).to_owned();
            let short = resource["shortNames"].as_array().into_iter().flatten();
            named.push(Named {
                group_version: group_version.to_owned(),
                scales: is_listed(&format!("{}/scale", text("name"))),
                plural: text("name"),
                singular: text("singularName"),
                kind: text("kind"),
                short_names: short.filter_map(|s| s.as_str().map(str::to_owned)).collect(),
                spec,
            });
        }
    }
    named
}

/// Makes an object of this kind and does to it what people do.
async fn used(kubectl: &Kubectl, named: &Named) {
    let plural = named.plural.as_str();
    let file = format!("{plural}.yaml");
    let manifest = format!(
        "apiVersion: {}\nkind: {}\nmetadata: {{name: it, labels: {{a: b}}}}\nspec: {}\n",
        named.group_version, named.kind, named.spec
    );
    kubectl.file(&file, &manifest);
    let said = kubectl.ok(&["apply", "-f", &file]).await;
    assert_eq!(said.trim(), format!("{} created", named.printed()));
    let said = kubectl.ok(&["apply", "-f", &file]).await;
    assert_eq!(said.trim(), format!("{} unchanged", named.printed()));

    for name in named.names() {
        let printed = kubectl.ok(&["get", &name, "-o", "name"]).await;
        assert_eq!(printed.trim(), named.printed(), "{name}");
    }
    let table = kubectl.ok(&["get", plural, "--no-headers"]).await;
    assert!(table.starts_with("it "), "{plural}: {table}");
    let described = kubectl.ok(&["describe", &named.kind, "it"]).await;
    assert!(described.contains(&format!("Kind:         {}\n", named.kind)), "{described}");

    kubectl.ok(&["label", plural, "it", "c=d"]).await;
    kubectl.ok(&["annotate", plural, "it", "e=f"]).await;
    let patch = r#"{"metadata":{"annotations":{"e":"g"}}}"#;
    kubectl.ok(&["patch", plural, "it", "--type=merge", "-p", patch]).await;
    let read = "jsonpath={.metadata.labels.c}{.metadata.annotations.e}{.metadata.generation}";
    assert_eq!(
        kubectl.ok(&["get", plural, "-l", "a=b,c=d", "-o", &read.replace("{.", "{.items[0].")]).await,
        "dg1",
        "{plural}"
    );

    let explained = kubectl.ok(&["explain", &format!("{plural}.spec")]).await;
    assert!(explained.contains(&format!("KIND:       {}\n", named.kind)), "{explained}");
    if named.scales {
        kubectl.ok(&["scale", plural, "it", "--replicas=5"]).await;
        assert_eq!(
            kubectl.ok(&["get", plural, "it", "-o", "jsonpath={.spec.replicas}"]).await,
            "5",
            "{plural}"
        );
    }
    kubectl.ok(&["delete", plural, "it", "--timeout=20s"]).await;
    let gone = kubectl.refused("admin", &["get", plural, "it"]).await;
    assert_eq!(
        gone.trim(),
        format!("Error from server (NotFound): {plural}.{} \"it\" not found", named.group())
    );
}

async fn all_used(kubectl: &Kubectl, specs: &[(&'static str, &'static str)]) {
    let named = discovered(kubectl, specs).await;
    let kinds: Vec<&str> = named.iter().map(|named| named.kind.as_str()).collect();
    assert_eq!(kinds.len(), specs.len(), "{kinds:?}");
    stream::iter(&named).for_each_concurrent(4, |named| used(kubectl, named)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s145_every_kind_answers_to_every_name() {
    let Some(kubectl) = Kubectl::start() else { return };
    all_used(&kubectl, KINDS).await;
    kubectl.file("two.yaml", TWO);
    kubectl.ok(&["create", "-f", "two.yaml"]).await;
    let all = kubectl.ok(&["get", "cluster-api", "-o", "name"]).await;
    assert_eq!(all, "cluster.cluster.x-k8s.io/it\ndevcluster.infrastructure.cluster.x-k8s.io/it\n");
    kubectl.ok(&["delete", "cluster-api", "--all", "--timeout=20s"]).await;
    assert_eq!(kubectl.ok(&["get", "cluster-api", "-o", "name"]).await, "");
}

/// Upstream's definitions, where they are.
fn shared_definitions() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared");
    let shared = std::env::var_os("CAPSTAN_SHARED").map_or(beside, PathBuf::from);
    let folder = shared.join("crds");
    folder.is_dir().then_some(folder)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s145_kinds_that_only_upstream_defines_answer_to_every_name() {
    let Some(folder) = shared_definitions() else {
        println!("skipped: ../shared/crds is not there");
        return;
    };
    let Some(kubectl) = Kubectl::start() else { return };
    let served = kubectl.ok(&["get", "crds", "-o", "name"]).await;
    let mut missing = vec!["create".to_owned()];
    for file in definition_files(&folder) {
        let name = file.file_stem().and_then(|stem| stem.to_str()).expect("a name");
        let (group, plural) = name.split_once('_').expect("group_plural");
        if !served.contains(&format!("/{plural}.{group}\n")) {
            missing.extend(["-f".to_owned(), file.display().to_string()]);
        }
    }
    kubectl.ok(&missing.iter().map(String::as_str).collect::<Vec<_>>()).await;
    kubectl.ok(&["wait", "crds", "--all", "--for=condition=Established", "--timeout=20s"]).await;
    all_used(&kubectl, UPSTREAM_KINDS).await;
}

fn definition_files(folder: &Path) -> Vec<PathBuf> {
    let entries = |folder: &Path| {
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path())
    };
    let folders = entries(folder).filter(|path| path.is_dir());
    folders.flat_map(|folder| entries(&folder).collect::<Vec<_>>()).collect()
}
