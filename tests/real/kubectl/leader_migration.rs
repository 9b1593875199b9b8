//! What `capstan leader-migration` prints for a KubeadmControlPlane, pasted into kubectl as it is printed: the object has what was asked
//! for and nothing else, and the inverse brings back what was there.

use std::time::Duration;

use leader_migration::controller_names::Function;
use leader_migration::edits::{Settings, StageEdit, edits};
use leader_migration::flag_places::FlagPlaces;
use leader_migration::release::Release;
use leader_migration::rights::Grantee;
use leader_migration::stages::MigrationStage;
use serde_json::Value;

use super::Kubectl;

const PLANE: &str = "lagoon-control-plane";

async fn read(kubectl: &Kubectl) -> Value {
    let text = kubectl.ok(&["get", "kubeadmcontrolplane", PLANE, "-o", "json"]).await;
    serde_json::from_str(&text).expect("JSON")
}

/// The command that a title ends with.
fn command(title: &str) -> Vec<&str> {
    let (_, line) = title.rsplit_once("kubectl ").expect("a command");
    line.split(' ').map(|word| if word == "FILE" { "patch.yaml" } else { word }).collect()
}

#[tokio::test]
async fn printed_patches_are_pasted_as_they_are_printed() {
    let Some(kubectl) = Kubectl::with(&["--no-engine", "--sample", "leader-migration"]) else { return };
    // The objects of a sample are created while the server answers already.
    let get = ["get", "kubeadmcontrolplane", PLANE];
    let is_there = async { while !kubectl.output("admin", &get).await.status.success() {} };
    tokio::time::timeout(Duration::from_secs(120), is_there).await.expect("the sample's control plane");
    let before = read(&kubectl).await;
    let settings = Settings {
        namespace: "kube-system".to_owned(),
        leader_name: "move".to_owned(),
        functions: vec![Function::Routes, Function::LoadBalancers, Function::NodeLifecycle],
        subjects: vec![Grantee::kube_controller_manager()],
        releases: (Release(27), Release(28)),
        places: FlagPlaces::of(std::slice::from_ref(&before)),
        holder: String::new(),
        provider: "gce".to_owned(),
    };
    for stage in [MigrationStage::Enable, MigrationStage::Introduce] {
        let made = edits(stage, &settings).edits;
        let edit = made.iter().find(|edit| edit.title.contains("--type=merge"));
        let StageEdit { title, text, inverse, .. } = edit.unwrap_or_else(|| panic!("{made:#?}"));
        let mut expected = before["spec"].clone();
        let patch: Value = serde_saphyr::from_str(text).expect("YAML");
        k8s_machinery::merge::apply(&mut expected, &patch["spec"]);
        for (pasted, expected) in [(text, &expected), (inverse, &before["spec"])] {
            kubectl.file("patch.yaml", pasted);
            kubectl.ok(&command(title)).await;
            assert_eq!(read(&kubectl).await["spec"], *expected, "{title}\n{pasted}");
        }
    }
}
