//! Actions, waiting and plans of control planes of kinds that have no types here: found by the names that the server has, written where
//! the contract or the kind's own schema has the field, and refused where it has none.

use std::sync::Arc;

use capi_rules::admission::Webhooks;
use capi_types::key::ObjectRef;
use capstan::cli::args::{Cli, Command};
use capstan_base::rng::Rng;
use capstan_base::time::Clock;
use capstan_commands::exit_code::WrongUsage;
use capstan_commands::output::Style;
use capstan_commands::plan::from_server;
use capstan_commands::target::NamedObject;
use capstan_commands::wait::{Waited, wait};
use capstan_dashboard::actions::{Action, Preview, Request, Risk};
use capstan_dashboard::operations::Severity;
use capstan_engine::client::read::get_value;
use clap::Parser as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use crate::actions::Place;

const CORE: &str = "cluster.x-k8s.io";
const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io";
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";
const PLANE_UID: &str = "7f4f7d0e-53c7-4c8c-9d5e-1f0d4c2a9b11";

fn of(properties: Value) -> Value {
    json!({"type": "object", "properties": properties})
}

fn definition(
    group: &str,
    version: &str,
    (kind, short): (&str, &str),
    spec: Value,
) -> CustomResourceDefinition {
    let plural = format!("{}s", kind.to_lowercase());
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = of(json!({"spec": of(spec), "status": anything}));
    let definition = json!({
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural,
                "singular": kind.to_lowercase(), "shortNames": [short]},
            "versions": [{"name": version, "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema}}]
        }
    });
    serde_json::from_value(definition).expect("a definition")
}

/// Source: cluster-api-provider-rke2 `controlplane/api/v1beta1`, v0.21.0; cluster-api-k3s `controlplane/api/v1beta2`, v0.3.0;
/// cluster-api-provider-azure `api/v1beta1` (`AzureManagedControlPlane`), v1.21.0. `Gadget` is a provider's kind that no Cluster names.
fn definitions() -> Vec<CustomResourceDefinition> {
    let (text, number) = (json!({"type": "string"}), json!({"type": "integer"}));
    let moment = json!({"type": "string", "format": "date-time"});
    let mut all = capi_types::crds::all();
    all.extend([
        definition(
            CONTROL_PLANE,
            "v1beta1",
            ("RKE2ControlPlane", "rke2cp"),
            json!({"replicas": number, "version": text}),
        ),
        definition(
            CONTROL_PLANE,
            "v1beta2",
            ("KThreesControlPlane", "ktcp"),
            json!({"replicas": number, "version": text, "upgradeAfter": moment}),
        ),
        definition(INFRASTRUCTURE, "v1beta1", ("AzureManagedControlPlane", "amcp"), json!({"version": text})),
        definition(INFRASTRUCTURE, "v1beta1", ("Gadget", "gad"), json!({"replicas": number})),
    ]);
    all
}

fn labelled(api_version: &str, kind: &str, name: &str, cluster: &str, spec: Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "spec": spec,
        "metadata": {"name": name, "namespace": "default", "labels": {"cluster.x-k8s.io/cluster-name": cluster}}})
}

fn cluster(name: &str, (group, kind): (&str, &str), control_plane: &str) -> Value {
    let reference = json!({"apiGroup": group, "kind": kind, "name": control_plane});
    labelled(&format!("{CORE}/v1beta2"), "Cluster", name, name, json!({"controlPlaneRef": reference}))
}

async fn place() -> Place {
    let mut place = Place::serving(definitions(), Arc::new(Webhooks)).await;
    let (own, foreign) = (format!("{CONTROL_PLANE}/v1beta1"), format!("{INFRASTRUCTURE}/v1beta1"));
    let mut rke2 = labelled(
        &own,
        "RKE2ControlPlane",
        "ariel",
        "ariel",
        json!({"replicas": 3, "version": "v1.34.1+rke2r1"}),
    );
    rke2["metadata"]["uid"] = json!(PLANE_UID);
    rke2["status"] = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    let mut member = labelled(
        &format!("{CORE}/v1beta2"),
        "Machine",
        "ariel-a",
        "ariel",
        json!({"clusterName": "ariel",
        "bootstrap": {"dataSecretName": "s"}, "infrastructureRef": {"apiGroup": INFRASTRUCTURE, "kind": "Gadget", "name": "g"}}),
    );
    member["metadata"]["labels"]["cluster.x-k8s.io/control-plane"] = json!("");
    member["metadata"]["ownerReferences"] = json!([{"apiVersion": own, "kind": "RKE2ControlPlane", "name": "ariel", "uid": PLANE_UID, "controller": true}]);
    for object in [
        cluster("ariel", (CONTROL_PLANE, "RKE2ControlPlane"), "ariel"),
        rke2,
        member,
        cluster("k3s", (CONTROL_PLANE, "KThreesControlPlane"), "k3s"),
        labelled(
            &format!("{CONTROL_PLANE}/v1beta2"),
            "KThreesControlPlane",
            "k3s",
            "k3s",
            json!({"replicas": 1, "version": "v1.34.1+k3s1"}),
        ),
        cluster("aks", (INFRASTRUCTURE, "AzureManagedControlPlane"), "aks"),
        labelled(&foreign, "AzureManagedControlPlane", "aks", "aks", json!({"version": "v1.34.1"})),
        labelled(&foreign, "Gadget", "g", "aks", json!({"replicas": 1})),
    ] {
        place = place.with(object).await;
    }
    place
}

/// As it is typed on the command line.
async fn target(place: &Place, typed: &str) -> Result<ObjectRef, String> {
    let named = NamedObject::of(&[typed.to_owned()]).map_err(|error| error.to_string())?;
    named.on(&place.connection(false), "default").await.map_err(|error| error.to_string())
}

async fn preview(place: &Place, typed: &str, action: Action) -> Result<Preview, String> {
    let request = Request::new(target(place, typed).await?, action);
    place.executor(false).preview(&request).await.map_err(|error| error.to_string())
}

async fn perform(place: &Place, typed: &str, action: Action) -> Result<String, String> {
    let preview = preview(place, typed, action).await?;
    let report = place.executor(false).perform(&preview).await;
    report.map(|report| report.text).map_err(|error| error.to_string())
}

async fn stored(place: &Place, typed: &str, pointer: &str) -> Value {
    let target = target(place, typed).await.expect("a kind");
    let object = get_value(&place.connection(false).client, &target).await.expect("read").expect("there");
    object.pointer(pointer).cloned().unwrap_or_default()
}

fn version(text: &str) -> Action {
    Action::SetVersion { version: text.to_owned() }
}

/// "There is no kind `rke2controlplane`" was said of a kind that the server had.
#[tokio::test]
async fn every_action_of_a_control_plane_works_by_its_contract() {
    const PAUSED: &str = "/metadata/annotations/cluster.x-k8s.io~1paused";
    let at = chrono::DateTime::parse_from_rfc3339("2099-01-01T00:00:00Z").expect("a moment").to_utc();
    let place = place().await;
    for (typed, action, field, value) in [
        ("rke2controlplane/ariel", Action::Scale { replicas: 5 }, "/spec/replicas", json!(5)),
        ("rke2cp/ariel", version("v1.35.0+rke2r1"), "/spec/version", json!("v1.35.0+rke2r1")),
        ("RKE2ControlPlane/ariel", Action::Pause, PAUSED, json!("true")),
        ("rke2controlplanes/ariel", Action::Resume, PAUSED, Value::Null),
        ("rke2controlplanes/ariel", Action::Undo, PAUSED, json!("true")),
        ("ktcp/k3s", Action::RolloutAfter { at }, "/spec/upgradeAfter", json!("2099-01-01T00:00:00Z")),
        ("ktcp/k3s", Action::ClearSchedule, "/spec/upgradeAfter", Value::Null),
        ("amcp/aks", version("v1.35.0"), "/spec/version", json!("v1.35.0")),
        ("azuremanagedcontrolplanes.infrastructure/aks", Action::Pause, PAUSED, json!("true")),
    ] {
        let done = perform(&place, typed, action.clone())
            .await
            .unwrap_or_else(|why| panic!("{action} {typed}: {why}"));
        assert!(done.ends_with(&action.done()), "{done}");
        assert_eq!(stored(&place, typed, field).await, value, "{action} {typed}");
    }
    perform(&place, "ktcp/k3s", Action::Restart).await.expect("restarted");
    assert!(stored(&place, "ktcp/k3s", "/spec/upgradeAfter").await.is_string());
}

#[tokio::test]
async fn what_its_kind_does_not_have_is_refused_with_the_reason() {
    let place = place().await;
    for (typed, action, part) in [
        (
            "rke2cp/ariel",
            Action::Restart,
            "a RKE2ControlPlane of v1beta1 has no field that begins a rollout, none of spec.rollout.after, spec.rolloutAfter, \
             spec.upgradeAfter",
        ),
        ("amcp/aks", Action::Scale { replicas: 3 }, "unknown field \"spec.replicas\""),
        ("amcp/aks", Action::Delete, "AzureManagedControlPlane does not take `delete`; it works on Machine"),
        ("gad/g", Action::Scale { replicas: 3 }, "Gadget does not take `scale`"),
        ("gad/g", Action::Scale { replicas: 3 }, "MachinePool and any other control plane"),
        ("ncp/x", Action::Pause, "the server has no kind that is called `ncp`"),
    ] {
        let why = perform(&place, typed, action.clone()).await.expect_err("refused");
        assert!(why.contains(part), "{action} {typed}: {why}");
    }
    assert_eq!(place.journal(), Vec::<Value>::new());
}

/// Members of its etcd are not known there: a person is warned, and not held up.
#[tokio::test]
async fn taking_members_of_another_control_plane_is_warned_of() {
    let place = place().await;
    let seen = preview(&place, "rke2cp/ariel", Action::Scale { replicas: 1 }).await.expect("a preview");
    let rules: Vec<_> = seen.findings.iter().map(|finding| (finding.severity, finding.rule)).collect();
    assert!(rules.contains(&(Severity::Warning, "etcd-not-known")), "{:?}", seen.findings);
    assert!(seen.is_allowed(), "{:?}", seen.findings);
    assert_eq!(seen.risk, Risk::High);
    let said: Vec<_> = seen.findings.iter().filter(|finding| finding.rule == "admission").collect();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].text.starts_with("what a RKE2ControlPlane takes is its provider's to say"), "{said:?}");
}

fn command(line: &str) -> Command {
    let words = std::iter::once("capstan").chain(line.split(' '));
    Cli::try_parse_from(words).expect(line).command.expect(line)
}

#[tokio::test]
async fn it_is_waited_for_and_planned_by_the_same_names() {
    let place = place().await;
    let connection = place.connection(true);
    let Command::Wait(args) = command("wait rke2cp/ariel --for condition=Ready") else {
        panic!("not to wait")
    };
    let waited = wait(&connection, &args, "default", Clock::system(), Rng::seeded(1)).await;
    assert!(matches!(waited, Ok(Waited::Reached { .. })), "{waited:?}");
    let planned = |typed: &'static str| {
        let connection = connection.clone();
        async move {
            let Command::Plan(args) = command(&format!("plan {typed}")) else { panic!("no plan") };
            from_server(&connection, &args, "default", Clock::system().now(), Style::default()).await
        }
    };
    let plan = planned("rke2controlplane/ariel").await.expect("a plan");
    assert_eq!(plan.document.trim(), "settled: 1 Machine");
    assert!(
        plan.remarks.iter().any(|remark| remark.contains("RKE2ControlPlane object is not planned")),
        "{plan:?}"
    );
    let error = planned("gadget/g").await.expect_err("no plan");
    assert!(error.is::<WrongUsage>() && error.to_string().starts_with("Gadget has no plan"), "{error}");
    let error = planned("rke2cp/other").await.expect_err("not there");
    assert!(error.to_string().starts_with("there is no RKE2ControlPlane other"), "{error}");
}
