//! Numbers and objects that belong to somebody else: said in lists, and an action on one offers its change as a patch file.

use std::path::Path;
use std::sync::Arc;

use capi_rules::admission::Webhooks;
use capi_types::key::{Gvk, ObjectKey, ObjectRef};
use capi_types::machine::Machine;
use capi_types::machine_deployment::MachineDeployment;
use capstan::cli::args::{Cli, Command};
use capstan_base::time::Timestamp;
use capstan_commands::act::{self, ConfirmArgs};
use capstan_commands::get;
use capstan_commands::output::Style;
use capstan_dashboard::actions::{Action, Executor, Request};
use clap::Parser as _;
use serde_json::{Value, json};

use crate::actions::Place;

/// Applied by Argo CD, and scaled by an autoscaler.
fn pool() -> Value {
    let fields = json!({"f:spec": {"f:replicas": {}, "f:template": {"f:spec": {"f:version": {}}}}});
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment",
        "metadata": {"name": "md", "namespace": "default", "uid": "7f4f7d0e-53c7-4c8c-9d5e-1f0d4c2a9b33",
            "creationTimestamp": "2026-11-20T08:00:00Z", "labels": {"cluster.x-k8s.io/cluster-name": "c"},
            "annotations": {
                "argocd.argoproj.io/tracking-id": "fleet:cluster.x-k8s.io/MachineDeployment:default/md",
                "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size": "2",
                "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "10"},
            "managedFields": [{"manager": "argocd-controller", "operation": "Apply", "apiVersion": "cluster.x-k8s.io/v1beta2",
                "time": "2026-11-20T08:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields}]},
        "spec": {"clusterName": "c", "replicas": 3, "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"clusterName": "c", "version": "v1.36.0",
                "bootstrap": {"dataSecretName": "s"},
                "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "XTemplate", "name": "x"}}}}})
}

/// What only a Machine takes, and is not a change of its fields, can be asked of it.
fn machine() -> Value {
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {"name": "md-0", "namespace": "default", "labels": {"cluster.x-k8s.io/cluster-name": "c"}},
        "spec": {"clusterName": "c", "version": "v1.36.0", "bootstrap": {"dataSecretName": "s"},
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "X", "name": "md-0"}}})
}

async fn place() -> Place {
    let place = Place::serving(capi_types::crds::all(), Arc::new(Webhooks)).await;
    place.with(pool()).await.with(machine()).await
}

fn request(action: Action) -> Request {
    let (gvk, name) = match action {
        Action::Delete => (Gvk::of::<Machine>(), "md-0"),
        _ => (Gvk::of::<MachineDeployment>(), "md"),
    };
    Request::new(ObjectRef { gvk, key: ObjectKey::new("default", name), uid: String::new() }, action)
}

/// What a person sees of an action, and how it ended.
async fn acted(
    executor: &Executor,
    action: Action,
    patch_file: Option<&Path>,
    answers: &str,
) -> (String, Result<(), String>) {
    let confirm = ConfirmArgs {
        yes: false,
        dry_run: false,
        patch_file: patch_file.map(Path::to_owned),
        ask_extensions: false,
    };
    let (mut out, mut answers) = (Vec::new(), answers.as_bytes());
    let ended = act::act(executor, request(action), &confirm, None, &mut out, &mut answers).await;
    (String::from_utf8(out).expect("text"), ended.map_err(|error| error.to_string()))
}

#[tokio::test]
async fn a_list_has_the_bounds_beside_the_number() {
    let place = place().await;
    let words = "capstan get md".split(' ');
    let Some(Command::Get(args)) = Cli::try_parse_from(words).expect("arguments").command else {
        panic!("get")
    };
    let answer = get::get(&place.connection(true), &args, "default", Timestamp::default(), Style::default())
        .await
        .expect("a table");
    let row = answer.document.lines().nth(1).expect("a row");
    assert!(row.contains("3 (2-10 auto)"), "{}", answer.document);
}

/// What is written to the server is put back by the tool; the patch goes to where the tool takes the object from.
#[tokio::test]
async fn an_action_on_a_field_of_argo_cd_is_written_as_a_patch_and_not_to_the_server() {
    let place = place().await;
    let executor = place.executor(false);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("scale.patch.yaml");
    let scale = || Action::Scale { replicas: 5 };
    let (said, ended) = acted(&executor, scale(), Some(&path), "").await;
    assert_eq!(ended, Ok(()), "{said}");
    assert!(said.contains("Argo CD owns spec.replicas here (fleet)"), "{said}");
    assert!(said.contains("the autoscaler sets this number, from 2 to 10"), "{said}");
    assert!(said.trim_end().ends_with("nothing was written to the server."), "{said}");
    let patch = std::fs::read_to_string(&path).expect("a file");
    let parsed: Value = serde_saphyr::from_str(&patch).expect("YAML");
    assert_eq!(
        parsed,
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment",
            "metadata": {"name": "md", "namespace": "default"}, "spec": {"replicas": 5}})
    );
    assert!(patch.starts_with("# scale to 5 of MachineDeployment default/md\n"), "{patch}");
    assert_eq!(place.journal(), Vec::<Value>::new(), "nothing was done");

    // A file that is there may be the one that is applied.
    let error = acted(&executor, scale(), Some(&path), "").await.1.expect_err("there already");
    assert!(error.starts_with("cannot write the patch into "), "{error}");
    assert!(error.ends_with("it must be a new file"), "{error}");

    let path = folder.path().join("delete.patch.yaml");
    let error = acted(&executor, Action::Delete, Some(&path), "").await.1.expect_err("no patch");
    assert!(error.contains("there is no patch of it") && !path.exists(), "{error}");
}

#[tokio::test]
async fn the_patch_is_offered_before_the_question_where_somebody_else_owns_the_field() {
    let place = place().await;
    let executor = place.executor(false);
    for (action, is_offered) in [(Action::Scale { replicas: 5 }, true), (Action::Pause, false)] {
        let (said, ended) = acted(&executor, action.clone(), None, "n\n").await;
        ended.expect_err("not confirmed");
        let offer = "--patch-file FILE writes this change as a patch";
        assert_eq!(said.contains(offer), is_offered, "{action}: {said}");
    }
}

fn classy() -> [Value; 2] {
    let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": "classy", "namespace": "default", "uid": "7f4f7d0e-53c7-4c8c-9d5e-1f0d4c2a9b44"},
        "spec": {"topology": {"classRef": {"name": "k"}, "version": "v1.36.0", "workers": {"machineDeployments": [
            {"name": "pool", "class": "w", "replicas": 3}, {"name": "free", "class": "w"}]}}}});
    let mut owned = pool();
    owned["metadata"] = json!({"name": "classy-pool-x7k2p", "namespace": "default", "uid": "7f4f7d0e-53c7-4c8c-9d5e-1f0d4c2a9b55",
        "labels": {"cluster.x-k8s.io/cluster-name": "classy", "topology.cluster.x-k8s.io/owned": "",
            "topology.cluster.x-k8s.io/deployment-name": "pool"}});
    owned["spec"]["clusterName"] = json!("classy");
    owned["spec"]["template"]["spec"]["clusterName"] = json!("classy");
    [cluster, owned]
}

/// The number was changed in the object that its topology puts back.
#[tokio::test]
async fn what_a_topology_owns_is_changed_in_the_cluster() {
    let [cluster, owned] = classy();
    let place = place().await.with(cluster).await.with(owned).await;
    let target = |action| {
        let key = ObjectKey::new("default", "classy-pool-x7k2p");
        Request::new(ObjectRef { gvk: Gvk::of::<MachineDeployment>(), key, uid: String::new() }, action)
    };
    let folder = tempfile::tempdir().expect("a folder");
    let executor = place.executor(false);
    let version = Action::SetVersion { version: "v1.36.1".to_owned() };
    let groups = json!([{"name": "pool", "class": "w", "replicas": 5}, {"name": "free", "class": "w"}]);
    for (action, file, path, topology) in [
        (
            Action::Scale { replicas: 5 },
            "scale",
            "spec.topology.workers.machineDeployments[pool].replicas",
            json!({"workers": {"machineDeployments": groups}}),
        ),
        (version, "version", "spec.topology.version", json!({"version": "v1.36.1"})),
    ] {
        let path_of_file = folder.path().join(file);
        let confirm = ConfirmArgs {
            yes: false,
            dry_run: false,
            patch_file: Some(path_of_file.clone()),
            ask_extensions: false,
        };
        let (mut out, mut answers) = (Vec::new(), "".as_bytes());
        let ended = act::act(&executor, target(action), &confirm, None, &mut out, &mut answers).await;
        let said = String::from_utf8(out).expect("text");
        ended.unwrap_or_else(|error| panic!("{error}: {said}"));
        let note = format!(
            "the topology of Cluster classy sets this field and puts it back; change {path} of the Cluster instead"
        );
        assert!(said.contains(&note), "{said}");
        let text = std::fs::read_to_string(path_of_file).expect("a file");
        let written: Value = serde_saphyr::from_str(&text).expect("YAML");
        let expected = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": "classy", "namespace": "default"}, "spec": {"topology": topology}});
        assert_eq!(written, expected);
        assert!(text.contains(&format!("\n# {path} of Cluster default/classy")), "{text}");
    }
    assert_eq!(place.journal(), Vec::<Value>::new(), "nothing was done");
}
