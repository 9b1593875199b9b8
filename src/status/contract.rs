//! What a provider's object promises: the fields and conditions Cluster API reads from infrastructure,
//! bootstrap and control plane objects of kinds it does not know. Owns the paths; must not know any
//! provider. Contract v1beta2, with v1beta1's fields where an object has only those.
//! Source: cluster-api `internal/contract/*.go`, `util/conditions/getter.go`, v1.14.0.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, OwnerReference};
use serde_json::Value;

use super::condition_ops::{Status, UNSTAMPED, condition, internal_error, mirror};
use super::wording::plural;
use crate::api::condition::find;
use crate::api::key::{Gvk, ObjectKey, ObjectRef};
use crate::time::{parse_rfc3339, to_k8s};

/// What is known of an object that a spec refers to.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum External {
    /// The spec names none.
    #[default]
    NotSet,
    /// It was looked for and is not there.
    NotFound {
        kind: String,
    },
    /// It could not be read.
    Unreadable {
        kind: String,
        error: String,
    },
    Found(Provided),
}

/// A provider object as the contract shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Provided {
    pub kind: String,
    pub name: String,
    /// The whole object.
    pub content: Value,
}

impl External {
    #[must_use]
    pub fn found(&self) -> Option<&Provided> {
        match self {
            Self::Found(provided) => Some(provided),
            _ => None,
        }
    }

    /// The kind the spec names; empty when it names none.
    #[must_use]
    pub fn kind(&self) -> &str {
        match self {
            Self::NotSet => "",
            Self::NotFound { kind } | Self::Unreadable { kind, .. } => kind,
            Self::Found(provided) => &provided.kind,
        }
    }

    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }
}

impl Provided {
    /// An object by its content; kind and name are read from it.
    #[must_use]
    pub fn new(content: Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Self { kind: text(&content["kind"]), name: text(&content["metadata"]["name"]), content }
    }

    /// Where to write it. The plural follows from the kind, as the contract demands.
    #[must_use]
    pub fn reference(&self) -> ObjectRef {
        let meta = &self.content["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let api_version = text(&self.content["apiVersion"]);
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        ObjectRef {
            gvk: Gvk {
                group: group.to_owned(),
                version: version.to_owned(),
                kind: self.kind.clone(),
                plural: plural(&self.kind.to_lowercase()),
                namespaced: true,
            },
            key: ObjectKey::new(text(&meta["namespace"]), &self.name),
            uid: text(&meta["uid"]),
        }
    }

    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        self.content["metadata"]["labels"][name].as_str()
    }

    /// Its owners; malformed entries count as none.
    #[must_use]
    pub fn owners(&self) -> Vec<OwnerReference> {
        let list = &self.content["metadata"]["ownerReferences"];
        serde_json::from_value(list.clone()).unwrap_or_default()
    }

    #[must_use]
    pub fn is_deleting(&self) -> bool {
        !self.content["metadata"]["deletionTimestamp"].is_null()
    }

    #[must_use]
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.content["metadata"]["annotations"][name].as_str()
    }

    /// Infrastructure: ready to be used.
    #[must_use]
    pub fn provisioned(&self) -> bool {
        self.initialized_by("provisioned", "ready")
    }

    /// Bootstrap: the data secret exists.
    #[must_use]
    pub fn data_secret_created(&self) -> bool {
        self.initialized_by("dataSecretCreated", "ready")
    }

    /// Control plane: its API server answers.
    #[must_use]
    pub fn control_plane_initialized(&self) -> bool {
        self.initialized_by("controlPlaneInitialized", "initialized")
    }

    fn initialized_by(&self, field: &str, legacy: &str) -> bool {
        let status = &self.content["status"];
        match status["initialization"][field].as_bool() {
            Some(value) => value,
            None => status[legacy].as_bool().unwrap_or(false),
        }
    }

    /// A string at a JSON pointer; `None` when absent or empty.
    #[must_use]
    pub fn text(&self, pointer: &str) -> Option<&str> {
        self.content.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    /// True at a JSON pointer; absent is false.
    #[must_use]
    pub fn flag(&self, pointer: &str) -> bool {
        self.content.pointer(pointer).and_then(Value::as_bool).unwrap_or(false)
    }

    /// A count at a JSON pointer.
    #[must_use]
    pub fn count(&self, pointer: &str) -> Option<i32> {
        self.content.pointer(pointer).and_then(Value::as_i64).and_then(|n| i32::try_from(n).ok())
    }

    /// The endpoint at `spec.controlPlaneEndpoint`, when host and port are set.
    #[must_use]
    pub fn endpoint(&self) -> Option<(String, i32)> {
        let host = self.text("/spec/controlPlaneEndpoint/host")?;
        let port = self.count("/spec/controlPlaneEndpoint/port").filter(|port| *port != 0)?;
        Some((host.to_owned(), port))
    }

    /// Its conditions.
    ///
    /// # Errors
    /// The sentence upstream puts into the mirroring condition when any entry is malformed.
    pub fn conditions(&self) -> Result<Vec<Condition>, String> {
        let status = &self.content["status"];
        let (path, list) = match (status["v1beta2"]["conditions"].as_array(), status["conditions"].as_array())
        {
            (Some(list), _) => ("status.v1beta2.conditions", list),
            (None, Some(list)) => ("status.conditions", list),
            (None, None) => return Ok(Vec::new()),
        };
        list.iter().filter(|entry| entry.is_object()).map(read_condition).collect::<Result<_, _>>().map_err(
            |cause| format!("failed to convert {path} from {} to []metav1.Condition: {cause}", self.kind),
        )
    }
}

fn read_condition(entry: &Value) -> Result<Condition, String> {
    let text = |field: &str| entry[field].as_str().unwrap_or_default();
    let type_ = text("type");
    if type_.is_empty() {
        return Err("type must be set for all conditions".to_owned());
    }
    let status = match text("status") {
        "True" => Status::True,
        "False" => Status::False,
        "Unknown" => Status::Unknown,
        "" => return Err(format!("status must be set for the {type_} condition")),
        _ => return Err(format!("status for the {type_} condition must be one of True, False, Unknown")),
    };
    let last_transition_time = match entry["lastTransitionTime"].as_str() {
        None | Some("") => UNSTAMPED,
        Some(text) => parse_rfc3339(text).map(to_k8s).ok_or_else(|| {
            format!("failed to unmarshal lastTransitionTime value: {text}: not an RFC 3339 time")
        })?,
    };
    let reason = if text("reason").is_empty() { "NoReasonReported" } else { text("reason") };
    Ok(Condition {
        last_transition_time,
        observed_generation: entry["observedGeneration"].as_i64(),
        ..condition(type_, status, reason, text("message"))
    })
}

/// How one provider object is mirrored into a condition of its owner.
pub struct Mirrored<'a> {
    /// On the owner: `InfrastructureReady`, ...
    pub target: &'a str,
    /// On the provider's object: `Ready` or `Available`.
    pub source_type: &'a str,
    /// Without that condition: true or false by this flag.
    pub initialized: bool,
    /// Reason for the flag being false.
    pub not_yet: &'a str,
    /// The field the flag comes from, for the message.
    pub field: &'a str,
    pub owner_deleting: bool,
    /// What to say of an object that was there and is gone: ` has been deleted while ...`.
    pub gone: &'a str,
}

impl Mirrored<'_> {
    /// The condition for `external`. [`External::NotSet`] is an internal error here: kinds that allow it
    /// say what it means before they ask.
    #[must_use]
    pub fn of(&self, external: &External) -> Condition {
        let no = |reason: &str, message: String| condition(self.target, Status::False, reason, message);
        match external {
            External::Found(provided) => self.of_found(provided),
            External::NotFound { kind } => match (self.owner_deleting, self.initialized) {
                (true, true) => no("ObjectDeleted", format!("{kind} has been deleted")),
                (false, true) => no("ObjectDeleted", format!("{kind} has been deleted{}", self.gone)),
                (_, false) => no("ObjectDoesNotExist", format!("{kind} does not exist")),
            },
            External::NotSet | External::Unreadable { .. } => internal_error(self.target),
        }
    }

    fn of_found(&self, provided: &Provided) -> Condition {
        let conditions = match provided.conditions() {
            Ok(conditions) => conditions,
            Err(error) => return condition(self.target, Status::Unknown, "InvalidConditionReported", error),
        };
        if find(&conditions, self.source_type).is_some() {
            let mut mirrored = mirror(&conditions, self.source_type, self.target, None);
            if mirrored.reason == "NoReasonReported" && mirrored.status == "True" {
                self.source_type.clone_into(&mut mirrored.reason);
            }
            return mirrored;
        }
        if self.initialized {
            condition(self.target, Status::True, self.source_type, "")
        } else {
            let message = format!("{} {} is false", provided.kind, self.field);
            condition(self.target, Status::False, self.not_yet, message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rule(initialized: bool, owner_deleting: bool) -> Mirrored<'static> {
        Mirrored {
            target: "InfrastructureReady",
            source_type: "Ready",
            initialized,
            not_yet: "NotReady",
            field: "status.initialization.provisioned",
            owner_deleting,
            gone: " while the Machine still exists",
        }
    }

    fn check(external: &External, initialized: bool, deleting: bool, expected: (&str, &str, &str)) {
        let got = rule(initialized, deleting).of(external);
        assert_eq!((got.status.as_str(), got.reason.as_str(), got.message.as_str()), expected);
    }

    fn found(status: Value) -> External {
        External::Found(Provided::new(
            json!({"kind": "DevMachine", "metadata": {"name": "m"}, "status": status}),
        ))
    }

    #[test]
    fn a_provider_object_is_mirrored_as_upstream_does() {
        let gone = External::NotFound { kind: "DevMachine".to_owned() };
        let ready = found(json!({"conditions": [{"type": "Ready", "status": "True"}]}));
        check(&ready, true, false, ("True", "Ready", ""));
        check(&found(json!({})), true, false, ("True", "Ready", ""));
        let waiting = "DevMachine status.initialization.provisioned is false";
        check(&found(json!({})), false, false, ("False", "NotReady", waiting));
        check(&gone, true, true, ("False", "ObjectDeleted", "DevMachine has been deleted"));
        let early = "DevMachine has been deleted while the Machine still exists";
        check(&gone, true, false, ("False", "ObjectDeleted", early));
        check(&gone, false, true, ("False", "ObjectDoesNotExist", "DevMachine does not exist"));
        let bad = found(json!({"conditions": [{"type": "Ready", "status": "Yes"}]}));
        let text = "failed to convert status.conditions from DevMachine to []metav1.Condition: \
                    status for the Ready condition must be one of True, False, Unknown";
        check(&bad, true, false, ("Unknown", "InvalidConditionReported", text));
    }

    #[test]
    fn both_contracts_say_whether_it_is_provisioned() {
        let provided = |status| found(status).found().is_some_and(Provided::provisioned);
        assert!(provided(json!({"initialization": {"provisioned": true}})));
        assert!(provided(json!({"ready": true})));
        assert!(!provided(json!({"initialization": {"provisioned": false}, "ready": true})));
    }
}
