//! Paths to fields, as the dashboard takes them behind `:columns`, beside kubectl's `custom-columns`: the same text for the same object.

use capstan_dashboard::operations::{FieldPath, cell_text};
use serde_json::Value;

use super::Kubectl;

const PATHS: [&str; 14] = [
    "metadata.name",
    ".metadata.name",
    "{.metadata.name}",
    "{metadata.name}",
    ".metadata.generation",
    ".metadata.labels.cluster\\.x-k8s\\.io/cluster-name",
    ".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",
    ".status.conditions[*].type",
    ".status.conditions[0].type",
    ".status.conditions[-1].status",
    ".status.conditions[1:3].type",
    ".status.conditions[?(@.type==\"Ready\")].status",
    ".status.conditions[?(@.type=='Nothing')].status",
    ".spec.nothing.at[0].all",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_by_path_have_the_text_of_custom_columns() {
    let Some(kubectl) = Kubectl::with(&["--no-engine", "--sample", "synthetic:clusters=1,machines=2"]) else {
        return;
    };
    let text = kubectl.ok(&["get", "machines", "-A", "-o", "json"]).await;
    let list: Value = serde_json::from_str(&text).expect("JSON");
    let machines = list["items"].as_array().expect("items");
    assert!(!machines.is_empty(), "{text}");
    for path in PATHS {
        let columns = format!("custom-columns=X:{path}");
        let printed = kubectl.ok(&["get", "machines", "-A", "--no-headers", "-o", &columns]).await;
        let parsed = FieldPath::parse(path).unwrap_or_else(|error| panic!("{path}: {error:?}"));
        let found = machines.iter().map(|machine| {
            let values: Vec<String> = parsed.find(machine).into_iter().map(cell_text).collect();
            if values.is_empty() { "<none>".to_owned() } else { values.join(",") }
        });
        assert_eq!(
            printed.lines().map(str::trim_end).collect::<Vec<_>>(),
            found.collect::<Vec<_>>(),
            "{path}"
        );
    }
}
