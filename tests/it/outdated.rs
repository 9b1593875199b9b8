//! Why a Machine is not up to date: what is read of a server for it, and what the details say.

use capi_types::condition::Status;
use capi_types::key::ObjectKey;
use capstan_dashboard::fleet::Kind;
use capstan_dashboard::tui::effect::{Effect, EffectOutcome};
use capstan_dashboard::tui::msg::Msg;
use capstan_dashboard::tui::reads::Reading;
use capstan_dashboard::tui::script::{press, text};
use capstan_dashboard::tui::subject::Subject;
use capstan_dashboard::tui::update::update;
use serde_json::{Value, json};

use crate::actions::Place;
use crate::harbor_screen::model;

const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";

fn object(kind: &str, name: &str, owner: Option<(&str, &str)>, spec: Value) -> Value {
    let group = if kind.starts_with("Dev") { INFRASTRUCTURE } else { "cluster.x-k8s.io" };
    let owners: Vec<Value> = owner
        .into_iter()
        .map(|(kind, name)| {
            json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind, "name": name, "uid": name, "controller": true})
        })
        .collect();
    json!({"apiVersion": format!("{group}/v1beta2"), "kind": kind, "spec": spec,
           "metadata": {"name": name, "namespace": "default", "uid": name, "ownerReferences": owners}})
}

fn machine_spec(version: &str, template: &str) -> Value {
    json!({"clusterName": "c", "version": version, "bootstrap": {"dataSecretName": "s"},
           "infrastructureRef": {"apiGroup": INFRASTRUCTURE, "kind": "DevMachineTemplate", "name": template}})
}

fn template(name: &str, delay: &str) -> Value {
    let backend = json!({"inMemory": {"vm": {"provisioning": {"startupDuration": delay}}}});
    object("DevMachineTemplate", name, None, json!({"template": {"spec": {"backend": backend}}}))
}

#[tokio::test]
async fn a_machine_is_compared_with_what_its_deployment_wants() {
    let owner_spec = |spec: Value| json!({"clusterName": "c", "template": {"spec": spec}});
    let place = Place::new().await;
    let place = place.with(template("small", "10s")).await.with(template("large", "20s")).await;
    let wanted = owner_spec(machine_spec("v1.34.0", "large"));
    let place = place.with(object("MachineDeployment", "md", None, wanted)).await;
    let current = owner_spec(machine_spec("v1.33.1", "small"));
    let set = object("MachineSet", "md-1", Some(("MachineDeployment", "md")), current);
    let machine = object("Machine", "md-1-a", Some(("MachineSet", "md-1")), machine_spec("v1.33.1", "small"));
    let place = place.with(set).await.with(machine).await;
    let executor = place.executor(true);
    let told = executor.outdated(&ObjectKey::new("default", "md-1-a")).await.expect("it is read");
    assert_eq!(
        told,
        [
            "version: v1.33.1 → v1.34.0",
            "infrastructure: DevMachineTemplate small → large",
            "  backend.inMemory.vm.provisioning.startupDuration: \"10s\" → \"20s\"",
        ]
    );
    let error = executor.outdated(&ObjectKey::new("default", "gone")).await.expect_err("it is not there");
    assert!(error.contains("does not exist"), "{error}");
}

#[test]
fn the_details_of_a_machine_that_is_not_up_to_date_say_why() {
    let mut model = model(120, 40);
    let is_old = |row: &capstan_dashboard::fleet::Row| {
        row.kind == Kind::Machine && row.condition("UpToDate").is_some_and(|c| c.status == Status::False)
    };
    let mut rows = model.fleet.rows().map(|(_, row)| row.clone());
    let old =
        rows.find(|row| is_old(row)).expect("a Machine of the sample is not up to date").name.to_string();
    drop(rows);
    let effects = press(&mut model, &format!("\":find {old}\" enter d")).expect("keys");
    let asked = effects.into_iter().find_map(|effect| match effect {
        Effect::Read { subject: subject @ Subject::Outdated(_), .. } => Some(subject),
        _ => None,
    });
    let subject = asked.expect("it is read");
    let reading = Reading::Outdated(Ok(vec!["version: v1.33.1 → v1.34.0".to_owned()]));
    let effects = update(&mut model, Msg::Done(EffectOutcome::Read { subject, reading }));
    let again = |effect: &Effect| matches!(effect, Effect::Read { subject: Subject::Outdated(_), .. });
    assert!(!effects.iter().any(again), "it is read once");
    let screen = text(&mut model);
    assert!(screen.contains("NOT UP TO DATE") && screen.contains("version: v1.33.1 → v1.34.0"), "{screen}");
}
