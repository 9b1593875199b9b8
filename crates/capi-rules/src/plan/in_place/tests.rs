//! What answers amount to, case by case.

use serde_json::{Value, json};

use super::handlers::Handlers;
use super::*;
use crate::status::in_place::{Covered, Replace, Verdict};
use capi_types::hook::{
    CanUpdateMachineRequest, CanUpdateMachineResponse, CanUpdateMachineSetRequest,
    CanUpdateMachineSetResponse, Hook, MachineObjects, MachineSetObjects, Patch,
};

fn machine(version: &str, more: &Value) -> Value {
    let mut machine = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": {"name": "m", "namespace": "ns"},
        "spec": {"version": version, "clusterName": "c", "bootstrap": {}, "infrastructureRef": {}},
    });
    k8s_machinery::merge::apply(&mut machine["spec"], more);
    machine
}

fn object(kind: &str, spec: &Value) -> Value {
    json!({"apiVersion": "x/v1", "kind": kind, "metadata": {"name": "m"}, "spec": spec})
}

fn request(current: [Value; 3], desired: [Value; 3]) -> CanUpdateMachineRequest {
    let objects = |[machine, infrastructure_machine, bootstrap_config]: [Value; 3]| MachineObjects {
        machine,
        infrastructure_machine,
        bootstrap_config,
    };
    CanUpdateMachineRequest::new(objects(current), objects(desired))
}

/// A change of everything at once.
fn all_changes() -> CanUpdateMachineRequest {
    let side = |version: &str, memory: i32, verbosity: i32| {
        [
            machine(version, &json!({})),
            object("DevMachine", &json!({"memory": memory})),
            object("KubeadmConfig", &json!({"verbosity": verbosity})),
        ]
    };
    request(side("v1.34.0", 4, 1), side("v1.34.1", 8, 2))
}

fn left(request: &CanUpdateMachineRequest) -> Vec<String> {
    remaining::of_machine(request).iter().map(ToString::to_string).collect()
}

#[test]
fn every_field_that_no_answer_covers_is_a_reason() {
    let mut asked = all_changes();
    assert_eq!(
        left(&asked),
        [
            r#"Machine cannot be updated in-place: spec.version: "v1.34.0" → "v1.34.1""#,
            "KubeadmConfig cannot be updated in-place: spec.verbosity: 1 → 2",
            "DevMachine cannot be updated in-place: spec.memory: 4 → 8",
        ]
    );
    let answer = CanUpdateMachineResponse {
        machine_patch: Patch::json(br#"[{"op":"replace","path":"/spec/version","value":"v1.34.1"}]"#),
        infrastructure_machine_patch: Patch::merge(br#"{"spec":{"memory":8}}"#),
        ..CanUpdateMachineResponse::success()
    };
    asked.apply(&answer).expect("it applies");
    assert_eq!(left(&asked), ["KubeadmConfig cannot be updated in-place: spec.verbosity: 1 → 2"]);
    let rest = CanUpdateMachineResponse {
        bootstrap_config_patch: Patch::merge(br#"{"spec":{"verbosity":2}}"#),
        ..CanUpdateMachineResponse::success()
    };
    asked.apply(&rest).expect("it applies");
    assert_eq!(left(&asked), <[String; 0]>::default(), "two extensions cover it together");
}

#[test]
fn an_extension_cannot_lie_about_anything_but_the_spec() {
    let mut asked = all_changes();
    let answer = CanUpdateMachineResponse {
        machine_patch: Patch::merge(br#"{"metadata":{"name":"other"},"spec":{"version":"v1.99.0"}}"#),
        ..CanUpdateMachineResponse::success()
    };
    asked.apply(&answer).expect("it applies");
    assert_eq!(asked.current.machine["metadata"]["name"], "m");
    assert_eq!(
        left(&asked)[0],
        r#"Machine cannot be updated in-place: spec.version: "v1.99.0" → "v1.34.1""#,
        "a patch that goes past the desired state covers nothing"
    );
}

#[test]
fn fields_that_follow_without_an_update_are_not_compared() {
    let more = json!({
        "minReadySeconds": 7, "taints": [{"key": "k"}], "readinessGates": [{"conditionType": "X"}],
        "deletion": {"nodeDrainTimeoutSeconds": 1}, "providerID": "p", "clusterName": "other",
        "bootstrap": {"dataSecretName": "s"}, "infrastructureRef": {"name": "x"}, "failureDomain": "",
    });
    let others = || [object("DevMachine", &json!({})), Value::Null];
    let [infrastructure, none] = others();
    let asked = request(
        [machine("v1", &json!({})), infrastructure.clone(), none.clone()],
        [machine("v1", &more), infrastructure, none],
    );
    assert_eq!(left(&asked), <[String; 0]>::default());
    let [infrastructure, none] = others();
    let asked = request(
        [machine("v1", &json!({})), infrastructure.clone(), none.clone()],
        [machine("v1", &json!({"failureDomain": "a"})), infrastructure, none],
    );
    assert_eq!(left(&asked), [r#"Machine cannot be updated in-place: spec.failureDomain: unset → "a""#]);
}

#[test]
fn what_may_be_secret_is_named_and_not_shown() {
    let config = |content: &str| object("KubeadmConfig", &json!({"files": [{"content": content}]}));
    let host = object("DevMachine", &json!({}));
    let asked = request(
        [machine("v1", &json!({})), host.clone(), config("s3cret")],
        [machine("v1", &json!({})), host, config("other")],
    );
    assert_eq!(
        left(&asked),
        ["KubeadmConfig cannot be updated in-place: spec.files: changed (values not shown)"]
    );
}

fn template(kind: &str, spec: &Value) -> Value {
    object(kind, &json!({"template": {"spec": spec}, "beside": spec}))
}

#[test]
fn of_machine_sets_only_the_templates_spec_counts() {
    let set = |version: &str| {
        let spec = json!({"template": {"spec": {"version": version}}, "replicas": 1});
        object("MachineSet", &spec)
    };
    let side = |version: &str, memory: i32, bootstrap: Value| MachineSetObjects {
        machine_set: set(version),
        infrastructure_machine_template: template("DevMachineTemplate", &json!({"memory": memory})),
        bootstrap_config_template: bootstrap,
    };
    let config = |verbosity: i32| template("KubeadmConfigTemplate", &json!({"verbosity": verbosity}));
    let mut asked =
        CanUpdateMachineSetRequest::new(side("v1.34.0", 4, config(1)), side("v1.34.1", 8, config(2)));
    let left = |asked: &CanUpdateMachineSetRequest| -> Vec<String> {
        remaining::of_machine_set(asked).iter().map(ToString::to_string).collect()
    };
    assert_eq!(
        left(&asked),
        [
            r#"MachineSet cannot be updated in-place: spec.template.spec.version: "v1.34.0" → "v1.34.1""#,
            "KubeadmConfigTemplate cannot be updated in-place: spec.template.spec.verbosity: 1 → 2",
            "DevMachineTemplate cannot be updated in-place: spec.template.spec.memory: 4 → 8",
        ]
    );
    let answer = CanUpdateMachineSetResponse {
        machine_set_patch: Patch::merge(br#"{"spec":{"template":{"spec":{"version":"v1.34.1"}}}}"#),
        infrastructure_machine_template_patch: Patch::json(
            br#"[{"op":"replace","path":"/spec/template/spec/memory","value":8}]"#,
        ),
        bootstrap_config_template_patch: Patch::merge(br#"{"spec":{"template":{"spec":{"verbosity":2}}}}"#),
        ..CanUpdateMachineSetResponse::success()
    };
    asked.apply(&answer).expect("it applies");
    assert_eq!(left(&asked), <[String; 0]>::default(), "what stands beside the template does not count");
}

#[test]
fn several_handlers_are_an_error_unless_asked_for() {
    let two = || vec!["b.x".to_owned(), "a.x".to_owned()];
    let refused = Handlers::One.choose(Hook::CanUpdateMachine, two()).expect_err("two");
    assert_eq!(
        refused.to_string(),
        "found multiple CanUpdateMachine hooks (a.x,b.x): only one hook is supported"
    );
    assert_eq!(Handlers::Union.choose(Hook::CanUpdateMachine, two()), Ok(vec!["a.x".into(), "b.x".into()]));
    assert_eq!(Handlers::One.choose(Hook::UpdateMachine, Vec::new()), Ok(Vec::new()));
}

#[test]
fn pending_hooks_are_a_sorted_list() {
    assert_eq!(mark_pending(None, "UpdateMachine"), "UpdateMachine");
    assert_eq!(mark_pending(Some("Z, A"), "UpdateMachine"), "A,UpdateMachine,Z");
    assert_eq!(mark_pending(Some("UpdateMachine"), "UpdateMachine"), "UpdateMachine");
    assert_eq!(pending_without(Some("A,UpdateMachine"), "UpdateMachine").as_deref(), Some("A"));
    assert_eq!(pending_without(Some("UpdateMachine"), "UpdateMachine"), None);
    assert_eq!(pending_without(None, "UpdateMachine"), None);
}

#[test]
fn a_verdict_says_who_or_why() {
    let covered = Covered { handler: "can.ext".to_owned(), fields: Vec::new() };
    assert_eq!(Verdict::InPlace { covered: vec![covered] }.to_string(), "in place, by can.ext");
    let why = |why: Replace| Verdict::Replace(why).to_string();
    assert_eq!(why(Replace::NoExtension), "by replacement: no extension offers updates in place here");
    assert_eq!(
        why(Replace::Uncovered(remaining::of_machine(&all_changes()))),
        "by replacement: Machine cannot be updated in-place: spec.version: \"v1.34.0\" → \"v1.34.1\"; KubeadmConfig \
         cannot be updated in-place: spec.verbosity: 1 → 2; DevMachine cannot be updated in-place: spec.memory: 4 → 8"
    );
}
