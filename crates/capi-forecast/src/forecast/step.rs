//! Writes as people read them: what is done, to which object, and why. Owns the words; must not decide any.

use serde::Serialize;
use serde_json::Value;

use capi_rules::plan::{self, Reason, Write};
use capi_types::key::ObjectRef;

/// One thing that is done next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NextStep {
    /// Such as `delete Machine md-0-7xk2p`.
    pub action: String,
    /// How many equal steps.
    pub count: usize,
    /// The rule behind it.
    pub rule: String,
    /// The sentence of the rule.
    pub reason: String,
    /// It only keeps metadata (owners, finalizers, annotations): no Machine comes, goes or changes by it.
    pub is_bookkeeping: bool,
}

impl NextStep {
    pub(super) fn new(action: String, reason: &Reason) -> Self {
        let (rule, reason) = (reason.rule.to_owned(), reason.sentence.clone());
        Self { action, count: 1, rule, reason, is_bookkeeping: false }
    }

    /// Whether extensions can update the Machine is not known.
    pub(super) fn either(machine: &str, reason: &str) -> Self {
        let action = format!("{UPDATE}{machine}{OR_REPLACE}");
        let (rule, reason) = ("in-place-or-replaced".to_owned(), reason.to_owned());
        Self { action, count: 1, rule, reason, is_bookkeeping: false }
    }

    /// The Machine of such a step.
    pub fn open_machine(action: &str) -> Option<&str> {
        action.strip_prefix(UPDATE)?.strip_suffix(OR_REPLACE)
    }
}

const UPDATE: &str = "update Machine ";
const OR_REPLACE: &str = " in place, or replace it";

/// The steps of a plan. Events are left out, and what is made for a new Machine goes with it.
/// `replicas`: how many a MachineSet has now, by name.
pub fn steps(steps: &[plan::Step], replicas: &dyn Fn(&str) -> Option<i32>) -> Vec<NextStep> {
    let writes = || steps.iter().flat_map(|step| &step.writes);
    let makes_machine = writes().any(|w| matches!(w, Write::Create { object, .. } if is_machine(object)));
    let mut all: Vec<NextStep> = Vec::new();
    for step in steps {
        let actions = match &step.title {
            Some(title) => vec![title.clone()],
            None => step.writes.iter().filter_map(|write| action(write, makes_machine, replicas)).collect(),
        };
        for action in actions {
            let is_bookkeeping = step.is_bookkeeping;
            push(&mut all, NextStep { is_bookkeeping, ..NextStep::new(action, &step.reason) });
        }
    }
    all
}

/// `None` for what needs no line of its own.
fn action(write: &Write, makes_machine: bool, replicas: &dyn Fn(&str) -> Option<i32>) -> Option<String> {
    Some(match write {
        Write::Event { .. } => return None,
        // It goes with the apply after it, or with the creation before it.
        Write::Handover { .. } => return None,
        Write::Create { object, .. } if makes_machine && !is_machine(object) => return None,
        Write::Create { object, .. } => format!("create {}", named(object)),
        Write::Delete { object } => format!("delete {}", named(object)),
        Write::Patch { object, body } | Write::Apply { object, body, .. } => patched(object, body, replicas),
        Write::PatchStatus { object, .. } => format!("update the status of {}", named(object)),
        Write::MachineCondition { machine, type_, .. } => format!("update {type_} of {}", named(machine)),
        Write::MachineConditions { read, conditions, .. } => {
            let types: Vec<&str> = conditions.iter().map(|c| c.type_.as_str()).collect();
            format!("update {} of {}", types.join(", "), named(&ObjectRef::of(read.as_ref())))
        }
        Write::Workload { call, .. } => call.to_string(),
        Write::Keys { call, .. } => call.to_string(),
        Write::NoteExpiry { .. } => write.to_string(),
    })
}

/// A step like the one before only raises its count.
fn push(all: &mut Vec<NextStep>, step: NextStep) {
    match all.last_mut() {
        Some(last) if last.action == step.action && last.reason == step.reason => last.count += 1,
        _ => all.push(step),
    }
}

fn is_machine(object: &ObjectRef) -> bool {
    object.gvk.kind == "Machine"
}

/// Kind and name: the namespace is that of the planned object.
fn named(object: &ObjectRef) -> String {
    format!("{} {}", object.gvk.kind, object.key.name)
}

fn patched(object: &ObjectRef, body: &Value, replicas: &dyn Fn(&str) -> Option<i32>) -> String {
    let name = named(object);
    match (body["spec"]["replicas"].as_i64(), replicas(&object.key.name)) {
        (Some(wanted), Some(current)) => format!("scale {name} {current} → {wanted}"),
        (Some(wanted), None) => format!("scale {name} to {wanted}"),
        (None, _) if fields(body).is_empty() => format!("take over the fields of {name}"),
        (None, _) => format!("update {name} ({})", fields(body).join(", ")),
    }
}

/// The fields that a patch touches, two levels deep; the version that it expects is not one of them.
fn fields(body: &Value) -> Vec<String> {
    let mut names = Vec::new();
    for (top, below) in body.as_object().into_iter().flatten() {
        match below.as_object() {
            Some(below) => {
                let touched = below.keys().filter(|key| *key != "resourceVersion");
                names.extend(touched.map(|key| format!("{top}.{key}")));
            }
            None => names.push(top.clone()),
        }
    }
    names
}
