//! `capstan describe -f`: a cluster of a bundle as its tree, with what is said beside it.

use capstan::cli::args::{Cli, Command};
use capstan_commands::describe::{DescribeArgs, files};
use capstan_commands::output::Style;
use clap::Parser as _;
use serde_json::{Value, json};

fn describe_args(line: &str) -> DescribeArgs {
    let words = std::iter::once("capstan").chain(line.split(' '));
    let command = Cli::try_parse_from(words).expect("arguments").command;
    if let Some(Command::Describe(args)) = command { args } else { panic!("{line}") }
}

fn upgrading() -> Value {
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": "shop", "namespace": "prod", "uid": "u", "creationTimestamp": "2026-11-01T10:00:00Z"},
        "spec": {"topology": {"classRef": {"name": "k"}, "version": "v1.36.1"},
            "controlPlaneRef": {"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": "shop"}},
        "status": {"phase": "Provisioned",
            "controlPlane": {"versions": [{"version": "v1.34.2", "replicas": 3}],
                "upgradePlan": [{"version": "v1.35.4"}, {"version": "v1.36.1"}]},
            "workers": {"upgradePlan": [{"version": "v1.36.1"}]},
            "conditions": [{"type": "Available", "status": "True", "reason": "Available", "message": "",
                "lastTransitionTime": "2026-11-19T10:00:00Z"}]}})
}

/// As must-gather lays a namespace out, with what clusterctl noted of its providers, and another Cluster of the name elsewhere.
#[test]
fn files_are_described_with_the_plan_of_an_upgrade_and_ends_of_support() {
    let root = tempfile::tempdir().expect("a folder");
    let write = |path: &str, value: &Value| {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, value.to_string()).expect("written");
    };
    write("namespaces/prod/cluster.x-k8s.io/clusters/shop.yaml", &upgrading());
    let provider = json!({"apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3", "kind": "Provider",
        "metadata": {"name": "cluster-api", "namespace": "capi-system"}, "providerName": "cluster-api", "version": "v1.12.4"});
    write("namespaces/capi-system/clusterctl.cluster.x-k8s.io/providers/cluster-api.yaml", &provider);
    let mut namesake = upgrading();
    namesake["metadata"]["namespace"] = "test".into();
    namesake["metadata"]["uid"] = "v".into();
    write("namespaces/test/cluster.x-k8s.io/clusters/shop.yaml", &namesake);
    let now = capstan_base::time::parse_rfc3339("2026-11-28T10:00:00Z").expect("a moment");
    let run = |line: &str, namespace: Option<&str>| {
        let args = describe_args(&format!("{line} -f {}", root.path().display()));
        files::from_files(&args, namespace, now, Style::default()).map_err(|error| error.to_string())
    };
    let ambiguous = run("describe cluster shop", None).expect_err("two of them");
    assert_eq!(
        ambiguous,
        "the files have a Cluster shop in each of the namespaces prod, test: name one with -n"
    );
    let none = run("describe cluster shop", Some("other")).expect_err("none");
    assert_eq!(
        none,
        "there is no Cluster shop in namespace other in the files: check the name and the namespace (-n)"
    );
    let tree = run("describe cluster shop", Some("prod")).expect("a tree");
    assert!(tree.document.contains("Cluster prod/shop, v1.36.1"), "{}", tree.document);
    let table = "by upstream's table of September 2026";
    assert_eq!(
        tree.remarks,
        [
            "the topology of shop takes its control plane through v1.35.4, v1.36.1, and its workers through v1.36.1"
                .to_owned(),
            format!("support of Kubernetes 1.34 ended 2026-10-27, {table}"),
            format!("support of Cluster API 1.12 ends 2026-12-08, {table}"),
            "as of 2026-11-19T10:00:00Z, the last moment that stands in the files: --now says when they were made"
                .to_owned(),
            "KubeadmControlPlane shop is not in the files".to_owned(),
        ]
    );
    let json = run("describe cluster shop -o json --now 2026-10-01T00:00:00Z", Some("prod")).expect("JSON");
    let value: Value = serde_json::from_str(&json.document).expect("JSON");
    assert_eq!(value["upgradePlan"], json!({"controlPlane": ["v1.35.4", "v1.36.1"], "workers": ["v1.36.1"]}));
    let ends = json!([{"project": "Kubernetes", "minor": "1.34", "ends": "2026-10-27", "hasEnded": false}]);
    assert_eq!(value["support"], json!({"asOf": "September 2026", "ends": ends}));
}
