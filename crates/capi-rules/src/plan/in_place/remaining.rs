//! What is left of a difference after extensions have answered. The request carries the objects: each answer moves the
//! current ones towards the desired ones, and what then still differs is not covered.

use serde_json::{Map, Value, json};

use crate::status::control_plane::up_to_date::kubeadm::HIDDEN;
use crate::status::fields;
use crate::status::in_place::Uncovered;
use capi_types::hook::{CanUpdateMachineRequest, CanUpdateMachineSetRequest};

const SPEC: &[&str] = &["spec"];
const TEMPLATE_SPEC: &[&str] = &["spec", "template", "spec"];

/// What of a Machine's spec an extension answers for. All other fields follow their owner without an update, or are
/// set later. Source: `CleanupMachineSpecForDiff`.
const COMPARED: [&str; 2] = ["version", "failureDomain"];

/// The fields of a Machine and the objects behind it that no answer covers; empty when all are covered.
pub fn of_machine(request: &CanUpdateMachineRequest) -> Vec<Uncovered> {
    let (current, desired) = (&request.current, &request.desired);
    let infrastructure = [&current.infrastructure_machine, &desired.infrastructure_machine];
    [
        // Only spec: labels and annotations follow the owner without an update.
        uncovered("Machine", [&current.machine, &desired.machine].map(|o| compared_machine(o, SPEC))),
        uncovered(
            "KubeadmConfig",
            [&current.bootstrap_config, &desired.bootstrap_config].map(|o| part(o, SPEC)),
        ),
        uncovered(kind(infrastructure[0]), infrastructure.map(|o| part(o, SPEC))),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The same for a MachineSet and its templates. Bootstrap templates count only when there are two.
pub fn of_machine_set(request: &CanUpdateMachineSetRequest) -> Vec<Uncovered> {
    let (current, desired) = (&request.current, &request.desired);
    let bootstrap = [&current.bootstrap_config_template, &desired.bootstrap_config_template];
    let both = bootstrap.iter().all(|template| !template.is_null());
    let infrastructure = [&current.infrastructure_machine_template, &desired.infrastructure_machine_template];
    let template = |o: &Value| part(o, TEMPLATE_SPEC);
    [
        uncovered(
            "MachineSet",
            [&current.machine_set, &desired.machine_set].map(|o| compared_machine(o, TEMPLATE_SPEC)),
        ),
        // A host cannot follow a template that comes or goes.
        both.then(|| uncovered(kind(bootstrap[0]), bootstrap.map(template))).flatten(),
        uncovered(kind(infrastructure[0]), infrastructure.map(template)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The fields of `before` that are gone in `after`, as `KIND PATH`: what the answer in between covers.
pub fn covered(before: &[Uncovered], after: &[Uncovered]) -> Vec<String> {
    let names = |objects: &[Uncovered]| -> Vec<String> {
        let of = |object: &Uncovered| {
            let kind = object.kind.clone();
            object.fields.iter().map(move |field| format!("{kind} {}", field.path)).collect::<Vec<_>>()
        };
        objects.iter().flat_map(of).collect()
    };
    // By path, as the values in between say nothing about who covers a field.
    let left = names(after);
    names(before).into_iter().filter(|field| !left.contains(field)).collect()
}

/// The compared fields of a Machine, or of a MachineSet's template. An empty text is an absent one.
fn compared_machine(object: &Value, scope: &[&str]) -> Value {
    let spec = object.pointer(&pointer(scope)).unwrap_or(&Value::Null);
    let fields: Map<String, Value> = COMPARED
        .iter()
        // Go's types cannot tell the two apart.
        .filter(|name| !spec[**name].is_null() && spec[**name] != "")
        .map(|name| ((*name).to_owned(), spec[*name].clone()))
        .collect();
    nested(scope, Value::Object(fields))
}

/// The object with nothing but the subtree at `scope`.
fn part(object: &Value, scope: &[&str]) -> Value {
    object.pointer(&pointer(scope)).map_or_else(|| json!({}), |found| nested(scope, found.clone()))
}

fn nested(scope: &[&str], value: Value) -> Value {
    scope.iter().rev().fold(value, |below, field| json!({ *field: below }))
}

fn pointer(scope: &[&str]) -> String {
    scope.iter().flat_map(|field| ["/", field]).collect()
}

fn kind(object: &Value) -> &str {
    object["kind"].as_str().unwrap_or("object")
}

fn uncovered(kind: &str, [current, desired]: [Value; 2]) -> Option<Uncovered> {
    // Values that may hold credentials: of a KubeadmConfig, and of its template.
    let prefixes = ["spec.template.spec", "spec"].iter();
    let hidden: Vec<String> =
        prefixes.flat_map(|prefix| HIDDEN.iter().map(move |path| format!("{prefix}.{path}"))).collect();
    let hidden: Vec<&str> = hidden.iter().map(String::as_str).collect();
    let fields = fields::differences(&current, &desired, &hidden);
    (!fields.is_empty()).then(|| Uncovered { kind: kind.to_owned(), fields })
}
