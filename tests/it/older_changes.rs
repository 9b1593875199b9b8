//! `capstan change` of a cluster whose management server has only v1beta1: the KubeadmControlPlane is read and patched in that
//! version, and what the version has no field for is refused.

use std::sync::Arc;

use capi_types::control_plane::KubeadmControlPlane;
use capi_types::key::{Gvk, ObjectKey, ObjectRef};
use capstan::cli::args::{Cli, Command};
use capstan_base::time::Clock;
use capstan_commands::change::source::Reach;
use capstan_commands::change::{ChangeAnswer, Session, run};
use capstan_commands::output::Style;
use capstan_dashboard::operations::guard::Guard;
use capstan_dashboard::operations::journal::Journal;
use capstan_engine::client::read::get_value;
use clap::Parser as _;
use k8s_machinery::admission::AdmitAll;
use serde_json::{Value, json};

use crate::actions::Place;
use crate::actions_older_version::{anything, only_older};
use crate::workload_api::Harbor;

const CORE: &str = "cluster.x-k8s.io";
const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io";

fn object(group: &str, kind: &str, name: &str, spec: Value, status: Value) -> Value {
    json!({"apiVersion": format!("{group}/v1beta1"), "kind": kind, "spec": spec, "status": status,
        "metadata": {"name": name, "namespace": "default", "labels": {"cluster.x-k8s.io/cluster-name": "harbor"}}})
}

/// What the control plane has of its own.
fn configuration() -> Value {
    json!({"apiServer": {"certSANs": ["localhost"], "extraArgs": {"v": "4"}, "timeoutForControlPlane": "5m0s"}})
}

/// A server that has only v1beta1, with `harbor` as its cluster.
async fn place(harbor: &Harbor) -> Place {
    let reference = |group: &str, kind: &str, name: &str| json!({"apiVersion": format!("{group}/v1beta1"), "kind": kind, "name": name, "namespace": "default"});
    let plane = json!({"replicas": 1, "version": "v1.34.1", "kubeadmConfigSpec": {"clusterConfiguration": configuration()},
        "machineTemplate": {"infrastructureRef": reference("infrastructure.cluster.x-k8s.io", "YardMachineTemplate", "t")}});
    let kubeconfig = String::from_utf8(harbor.kubeconfig().await).expect("text");
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
        "metadata": {"name": "harbor-kubeconfig", "namespace": "default",
            "labels": {"cluster.x-k8s.io/cluster-name": "harbor"}},
        "data": {"value": data_encoding_of(&kubeconfig)}});
    let definitions =
        ["Cluster", "Machine", "MachineDeployment", "MachineSet", "MachinePool", "MachineHealthCheck"];
    let mut definitions: Vec<_> =
        definitions.iter().map(|kind| only_older(CORE, kind, &anything())).collect();
    definitions.push(only_older(CONTROL_PLANE, "KubeadmControlPlane", &anything()));
    let mut place = Place::serving(definitions, Arc::new(AdmitAll)).await;
    let spec = json!({"controlPlaneRef": reference(CONTROL_PLANE, "KubeadmControlPlane", "harbor-cp")});
    for object in [
        secret,
        object(CORE, "Cluster", "harbor", spec, json!({"phase": "Provisioned"})),
        object(
            CONTROL_PLANE,
            "KubeadmControlPlane",
            "harbor-cp",
            plane,
            json!({"replicas": 1, "readyReplicas": 1,
            "conditions": [{"type": "MachinesSpecUpToDate", "status": "False", "message": "rolling 1 replicas"}]}),
        ),
    ] {
        place = place.with(object).await;
    }
    place
}

fn data_encoding_of(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}

async fn says(place: &Place, folder: &tempfile::TempDir, words: &[&str]) -> (String, u8) {
    let head = ["capstan", "change"].into_iter().chain(words.iter().copied());
    let parsed = Cli::try_parse_from(head.chain(["--cluster", "default/harbor"])).expect("arguments");
    let Some(Command::Change(command)) = parsed.command else { panic!("not a change") };
    let journal = Journal::at(folder.path().join("journal.jsonl"));
    let session = Session {
        reach: Reach::Connected(place.connection(false)),
        style: Style::default(),
        guard: Guard::new(journal, Clock::system(), "ann".to_owned()),
        executor: None,
    };
    let mut out = Vec::new();
    let ChangeAnswer { document, exit_code, .. } =
        run(&command, &session, &mut out, &mut &b""[..]).await.expect("an answer");
    (String::from_utf8(out).expect("text") + &document, exit_code.number())
}

async fn stored(place: &Place) -> Value {
    let gvk = Gvk { version: "v1beta1".to_owned(), ..Gvk::of::<KubeadmControlPlane>() };
    let target = ObjectRef { gvk, key: ObjectKey::new("default", "harbor-cp"), uid: String::new() };
    let found = get_value(&place.connection(false).client, &target).await.expect("read").expect("there");
    found["spec"]["kubeadmConfigSpec"]["clusterConfiguration"].clone()
}

/// There was no Cluster there, and of a file its lists were refused.
#[tokio::test]
async fn a_control_plane_is_patched_in_the_version_that_the_server_has() {
    let harbor = Harbor::start().await;
    let place = place(&harbor).await;
    let folder = tempfile::tempdir().expect("a folder");
    let flag = ["--set", "apiServer.extraArgs[event-ttl]=2h"];
    let (text, exit_code) = says(&place, &folder, &[&["plan"][..], &flag].concat()).await;
    assert_eq!(exit_code, 10, "{text}");
    assert!(text.contains("kubeadmcontrolplanes.v1beta1.controlplane.cluster.x-k8s.io"), "{text}");
    assert_eq!(stored(&place).await, configuration(), "a plan writes nothing");

    let (text, exit_code) = says(&place, &folder, &[&["apply", "--yes"][..], &flag].concat()).await;
    assert!(exit_code == 10 && text.contains("is patched; "), "{exit_code} {text}");
    let mut expected = configuration();
    expected["apiServer"]["extraArgs"] = json!({"event-ttl": "2h", "v": "4"});
    assert_eq!(stored(&place).await, expected);

    let (text, exit_code) =
        says(&place, &folder, &["apply", "--yes", "--set", "apiServer.extraArgs[v]=null"]).await;
    assert!(exit_code == 10 && text.contains("is patched; "), "{exit_code} {text}");
    expected["apiServer"]["extraArgs"] = json!({"event-ttl": "2h"});
    assert_eq!(stored(&place).await, expected);

    let (text, exit_code) =
        says(&place, &folder, &["plan", "--set", "certificateValidityPeriod=4800h"]).await;
    assert!(exit_code == 12 && text.contains("in version v1beta1 has no field for it"), "{exit_code} {text}");
    assert_eq!(stored(&place).await, expected);

    let (text, _) = says(&place, &folder, &["status"]).await;
    assert!(text.contains("0 of 1 Machines are up to date, 1 ready"), "{text}");
    assert!(text.contains("MachinesSpecUpToDate is False: rolling 1 replicas"), "{text}");
}
