//! The evidence of a reason: the condition or field that the reason names, as it is stored. Must not judge it.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use capi_rules::observe::dump::Dump;
use capi_rules::plan::evidence::{Evidence, Sign, Subject};
use capi_types::condition::Status;
use capi_types::condition_types::{Polarity, polarity};
use capi_types::key::ObjectKey;
use capi_types::machine::Machine;
use capi_types::names::CORE_GROUP;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Seen {
    /// `KIND NAMESPACE/NAME`.
    pub object: String,
    /// A condition's type, or a dotted field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The condition's status and reason, or the field's value; `not set` without one.
    pub value: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// RFC 3339; `None` where the object has no time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
}

/// Whose plan the evidence is about.
#[derive(Clone, Copy)]
pub(super) struct About<'a> {
    pub dump: &'a Dump,
    pub group: &'a str,
    pub kind: &'a str,
    pub key: &'a ObjectKey,
    /// Name of its Cluster.
    pub cluster: &'a str,
}

impl About<'_> {
    /// What the subject of `evidence` shows; empty when it is not among the objects, or has no such condition.
    pub fn seen(&self, evidence: &Evidence) -> Vec<Seen> {
        let Some((kind, value)) = self.subject(&evidence.subject) else { return Vec::new() };
        let object = format!("{kind} {}/{}", self.key.namespace, text(&value["metadata"]["name"]));
        let seen = match evidence.sign {
            Sign::Condition(type_) => condition(object, value, type_),
            Sign::Field(path) => Some(field(object, value, path)),
        };
        seen.into_iter().collect()
    }

    fn subject(&self, subject: &Subject) -> Option<(&str, &Value)> {
        let near = |name: &str| ObjectKey::new(&self.key.namespace, name);
        let of = |kind: &'static str, name: &str| {
            self.dump.raw(CORE_GROUP, kind, &near(name)).map(|value| (kind, value))
        };
        match subject {
            Subject::Own => self.dump.raw(self.group, self.kind, self.key).map(|value| (self.kind, value)),
            Subject::Cluster => of("Cluster", self.cluster),
            Subject::ControlPlane => {
                let cluster = self.dump.clusters.get(&near(self.cluster))?;
                let named = cluster.spec.control_plane_ref.as_ref()?;
                let value = self.dump.raw(&named.api_group, &named.kind, &near(&named.name))?;
                Some((named.kind.as_str(), value))
            }
            Subject::Machine(name) => of("Machine", name),
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A condition in its normal state shows no reason for waiting.
fn is_normal(type_: &str, status: Status) -> bool {
    matches!(
        (polarity(type_), status),
        (Polarity::Positive, Status::True) | (Polarity::Negative, Status::False)
    )
}

fn condition(object: String, value: &Value, type_: &str) -> Option<Seen> {
    let list = value["status"]["conditions"].as_array()?;
    let found = list.iter().find(|c| c["type"] == type_)?;
    let status = Status::parse(text(&found["status"]));
    if status.is_some_and(|status| is_normal(type_, status)) {
        return None;
    }
    let since = text(&found["lastTransitionTime"]);
    // A deletion is as old as its request, and not as its condition.
    let since = match value["metadata"]["deletionTimestamp"].as_str() {
        Some(asked) if type_ == "Deleting" => asked,
        _ => since,
    };
    Some(Seen {
        object,
        condition: Some(type_.to_owned()),
        field: None,
        value: format!("{} {}", text(&found["status"]), text(&found["reason"])),
        message: text(&found["message"]).to_owned(),
        since: Some(since.to_owned()).filter(|s| !s.is_empty()),
    })
}

fn field(object: String, value: &Value, path: &str) -> Seen {
    let found = path.split('.').fold(value, |value, step| &value[step]);
    // A Machine has waited for its Node since it was made.
    let waits = found.is_null() && path == "status.nodeRef";
    let since = value["metadata"]["creationTimestamp"].as_str().filter(|_| waits).map(str::to_owned);
    let shown = match found {
        Value::Null => "not set".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    Seen {
        object,
        condition: None,
        field: Some(path.to_owned()),
        value: shown,
        message: String::new(),
        since,
    }
}

/// What a Machine belongs to, `KIND/NAME`, from the nearest to its Cluster.
pub(super) fn owners_of_machine(dump: &Dump, machine: &Arc<Machine>) -> Vec<String> {
    use capi_types::key::{controller_of, label as label_of};
    use capi_types::names::label;
    let controller = controller_of(machine.as_ref());
    let mut within: Vec<String> =
        controller.map(|owner| format!("{}/{}", owner.kind, owner.name)).into_iter().collect();
    let deployment = controller.filter(|owner| owner.kind == "MachineSet").and_then(|owner| {
        let set = dump
            .machine_sets
            .get(&ObjectKey::new(capi_rules::observe::namespace(machine.as_ref()), &owner.name));
        set.and_then(|set| label_of(set.as_ref(), label::DEPLOYMENT_NAME).map(str::to_owned))
    });
    let deployment =
        deployment.or_else(|| label_of(machine.as_ref(), label::DEPLOYMENT_NAME).map(str::to_owned));
    within.extend(deployment.map(|name| format!("MachineDeployment/{name}")));
    within
}
