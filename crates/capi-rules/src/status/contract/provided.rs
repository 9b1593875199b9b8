//! What a provider's object promises: the fields and conditions Cluster API reads from infrastructure,
//! bootstrap and control plane objects of kinds it does not know. Owns the paths; must not know any
//! provider. `definition` finds which contract an object follows.
//! Source: cluster-api `internal/contract/*.go`, `util/conditions/getter.go`, v1.14.2.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, OwnerReference};
use serde::Deserialize as _;
use serde_json::{Map, Value};

use crate::status::conditions::new_condition::UNSTAMPED;
use crate::status::conditions::setter::condition;
use crate::status::contract::definition::{self, Contract};
use capi_types::cluster::FailureDomain;
use capi_types::condition::{Status, find};
use capi_types::key::{ObjectKey, ObjectRef};
use capi_types::machine_set::VersionCount;
use capstan_base::time::{parse_rfc3339, to_k8s};
use k8s_machinery::version;

/// What is known of an object that a spec refers to.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum External {
    /// The spec names none.
    #[default]
    NotSet,
    /// It was looked for and is not there.
    NotFound {
        /// As the reference has it.
        kind: String,
    },
    /// It could not be read.
    Unreadable {
        /// As the reference has it.
        kind: String,
        /// A sentence of the reader.
        error: String,
    },
    /// It is there, whatever state it is in.
    Found(Provided),
}

/// A provider object as the contract shows it. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub struct Provided {
    /// As the object has it.
    pub kind: String,
    /// As the object has it.
    pub name: String,
    contract: Contract,
    /// The whole object.
    content: Arc<Value>,
    /// As `content` has them, read once however often they are used.
    conditions: Arc<Result<Vec<Condition>, String>>,
    deleting: bool,
    provisioned: Milestone,
    data_secret_created: Milestone,
    control_plane_initialized: Milestone,
}

/// A flag of `status.initialization`, or what was in its place before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Milestone {
    Ahead,
    Reached,
    /// The field exists and its value is not a boolean. A null counts as such a value.
    Malformed,
}

impl Milestone {
    fn of(status: &Value, contract: Contract, field: &str, legacy: &str) -> Self {
        let initialization = &status["initialization"];
        let stated = initialization.get(field);
        let value = match contract {
            Contract::V1Beta1 => status.get(legacy),
            // Not "not yet": a field of another shape would keep its owner waiting without a word.
            _ if !(initialization.is_null() || initialization.is_object()) => return Self::Malformed,
            Contract::V1Beta2 => stated,
            // The new field first: objects that change over have both for a while.
            Contract::Unstated => stated.or_else(|| status.get(legacy)),
        };
        match value.map(Value::as_bool) {
            None | Some(Some(false)) => Self::Ahead,
            Some(Some(true)) => Self::Reached,
            Some(None) => Self::Malformed,
        }
    }
}

impl External {
    /// The object, if it is there.
    pub fn found(&self) -> Option<&Provided> {
        match self {
            Self::Found(provided) => Some(provided),
            _ => None,
        }
    }

    /// The kind the spec names; empty when it names none.
    pub fn kind(&self) -> &str {
        match self {
            Self::NotSet => "",
            Self::NotFound { kind } | Self::Unreadable { kind, .. } => kind,
            Self::Found(provided) => &provided.kind,
        }
    }

    /// Was it looked for, and is not there?
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// The same reference when it was not followed.
    pub fn unread(self) -> Self {
        match self {
            Self::NotSet => Self::NotSet,
            other => Self::Unreadable { kind: other.kind().to_owned(), error: "it was not read".to_owned() },
        }
    }
}

impl Provided {
    /// An object by its content; kind and name are read from it.
    pub fn new(content: Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (kind, name) = (text(&content["kind"]), text(&content["metadata"]["name"]));
        // Read once: every pass of an owner looks at them several times.
        let conditions = conditions(&kind, &content["status"]);
        let deleting = !content["metadata"]["deletionTimestamp"].is_null();
        let provided = Self {
            kind,
            name,
            contract: Contract::default(),
            content: Arc::new(content),
            conditions: Arc::new(conditions),
            deleting,
            provisioned: Milestone::Ahead,
            data_secret_created: Milestone::Ahead,
            control_plane_initialized: Milestone::Ahead,
        };
        // The milestones depend on the contract, so that they are read last.
        provided.under(Contract::default())
    }

    /// The whole object.
    pub fn content(&self) -> &Value {
        &self.content
    }

    /// The whole object, without a copy.
    pub fn shared_content(self) -> Arc<Value> {
        self.content
    }

    /// The whole object; copied only when others hold it.
    pub fn into_content(self) -> Value {
        Arc::unwrap_or_clone(self.content)
    }

    /// The same object, read by this contract.
    pub fn under(self, contract: Contract) -> Self {
        let milestone = |field, legacy| Milestone::of(&self.content["status"], contract, field, legacy);
        Self {
            contract,
            provisioned: milestone("provisioned", "ready"),
            data_secret_created: milestone("dataSecretCreated", "ready"),
            control_plane_initialized: milestone("controlPlaneInitialized", "initialized"),
            ..self
        }
    }

    /// Where to write it.
    pub fn reference(&self) -> ObjectRef {
        reference_to(&self.content)
    }

    /// The value of a label, if it is there.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.content["metadata"]["labels"][name].as_str()
    }

    /// Its owners; malformed entries count as none.
    pub fn owners(&self) -> Vec<OwnerReference> {
        Vec::deserialize(&self.content["metadata"]["ownerReferences"]).unwrap_or_default()
    }

    /// Its list of owners is `owner`, as it is, and nobody else.
    pub fn is_owned_only_by(&self, owner: &OwnerReference) -> bool {
        let Some([only]) = self.content["metadata"]["ownerReferences"].as_array().map(Vec::as_slice) else {
            return false;
        };
        // Compared as JSON: a copy of the list for each look would cost more.
        only["uid"] == owner.uid.as_str()
            && only["name"] == owner.name.as_str()
            && only["kind"] == owner.kind.as_str()
            && only["apiVersion"] == owner.api_version.as_str()
            && only["controller"].as_bool() == owner.controller
            && only["blockOwnerDeletion"].as_bool() == owner.block_owner_deletion
    }

    /// Is it on its way out?
    pub fn is_deleting(&self) -> bool {
        self.deleting
    }

    /// The value of an annotation, if it is there.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.content["metadata"]["annotations"][name].as_str()
    }

    /// Infrastructure: ready to be used.
    pub fn provisioned(&self) -> bool {
        self.provisioned == Milestone::Reached
    }

    /// Bootstrap: the data secret exists.
    pub fn data_secret_created(&self) -> bool {
        self.data_secret_created == Milestone::Reached
    }

    /// Control plane: its API server answers.
    pub fn control_plane_initialized(&self) -> bool {
        self.control_plane_initialized == Milestone::Reached
    }

    /// Control plane: the value of its `initialized` field is not a boolean.
    pub fn initialized_is_malformed(&self) -> bool {
        self.control_plane_initialized == Milestone::Malformed
    }

    /// Infrastructure: the value of its `provisioned` field is not a boolean.
    pub fn provisioned_is_malformed(&self) -> bool {
        self.provisioned == Milestone::Malformed
    }

    /// Bootstrap: the value of its `dataSecretCreated` field is not a boolean.
    pub fn data_secret_created_is_malformed(&self) -> bool {
        self.data_secret_created == Milestone::Malformed
    }

    /// Control plane: Machines that are available. Contract v1beta1 counts what is missing of the
    /// `desired` ones instead, so that there is no count before their number is known.
    pub fn available_replicas(&self, desired: Option<i32>) -> Option<i32> {
        let unavailable =
            || Some(desired?.saturating_sub(self.count(&["status", "unavailableReplicas"])?).max(0));
        self.contract.choose(|| self.count(&["status", "availableReplicas"]), unavailable)
    }

    /// Control plane: Machines that are up to date.
    pub fn up_to_date_replicas(&self) -> Option<i32> {
        self.contract.choose(
            || self.count(&["status", "upToDateReplicas"]),
            || self.count(&["status", "updatedReplicas"]),
        )
    }

    /// Control plane: `status.versions`, lowest first; `None` when it lists none.
    ///
    /// # Errors
    /// What is wrong with the list: an entry that is not a version, an order that is not ascending, a
    /// negative count.
    pub fn versions(&self) -> Result<Option<Vec<VersionCount>>, String> {
        let listed = &self.content["status"]["versions"];
        // Empty as well, since Go cannot tell an empty list from none.
        if listed.is_null() || listed.as_array().is_some_and(Vec::is_empty) {
            return Ok(None);
        }
        let list: Vec<VersionCount> = serde_json::from_value(listed.clone()).map_err(|e| e.to_string())?;
        let mut last: Option<(&str, semver::Version)> = None;
        for (at, entry) in list.iter().enumerate() {
            let version = version::tolerant(&entry.version).map_err(|why| {
                format!("failed to parse .status.versions[{at}].version from object: {why}")
            })?;
            if let Some((text, before)) = &last
                // Versions that cannot be compared are in order, whichever comes first.
                && version::compare(before, &version).is_some_and(std::cmp::Ordering::is_gt)
            {
                return Err(format!("version {text:?} and {:?} are in the wrong order", entry.version));
            }
            if entry.replicas.is_some_and(|n| n < 0) {
                return Err(format!(".status.versions[{at}].replicas must not be negative"));
            }
            last = Some((&entry.version, version));
        }
        Ok(Some(list))
    }

    /// The versions that a control plane reports: `status.versions`, or else its one `status.version`.
    pub fn reported_versions(&self) -> Vec<String> {
        let listed = self.content["status"]["versions"].as_array().into_iter().flatten();
        let listed: Vec<String> =
            listed.filter_map(|entry| entry["version"].as_str().map(str::to_owned)).collect();
        if listed.is_empty() {
            self.text(&["status", "version"]).map(str::to_owned).into_iter().collect()
        } else {
            listed
        }
    }

    /// Infrastructure of a cluster: its failure domains by name. v1beta1 has a map of them.
    ///
    /// # Errors
    /// They are not as the contract demands.
    pub fn failure_domains(&self) -> Result<Vec<FailureDomain>, String> {
        let read = |value: &Value, name: Option<&String>| {
            let mut value = value.clone();
            if let (Some(name), Some(map)) = (name, value.as_object_mut()) {
                map.insert("name".to_owned(), name.as_str().into());
            }
            let domain: FailureDomain = serde_json::from_value(value).map_err(|e| e.to_string())?;
            // Unset is written out as false, or each comparison with the stored list would differ.
            Ok(FailureDomain { control_plane: Some(domain.control_plane == Some(true)), ..domain })
        };
        let listed = &self.content["status"]["failureDomains"];
        let domains: Result<Vec<FailureDomain>, String> = match (listed, self.contract) {
            // A provider need not have any.
            (Value::Null, _) => Ok(Vec::new()),
            (Value::Array(list), Contract::V1Beta2 | Contract::Unstated) => {
                list.iter().map(|value| read(value, None)).collect()
            }
            (Value::Object(map), Contract::V1Beta1 | Contract::Unstated) => {
                map.iter().map(|(name, value)| read(value, Some(name))).collect()
            }
            _ => Err("status.failureDomains is neither a list (v1beta2) nor a map (v1beta1)".to_owned()),
        };
        let mut domains = domains?;
        // A map has no order, and a list that changes its order would be written each time.
        domains.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(domains)
    }

    /// A string at a path such as `status`, `version`; `None` when absent or empty.
    pub fn text(&self, path: &[&str]) -> Option<&str> {
        self.at(path).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    /// True at a path; absent is false.
    pub fn flag(&self, path: &[&str]) -> bool {
        self.at(path).and_then(Value::as_bool).unwrap_or(false)
    }

    /// A count at a path. What does not fit is cut off, as Go's conversion does.
    pub fn count(&self, path: &[&str]) -> Option<i32> {
        self.at(path).and_then(Value::as_i64).map(|n| n as i32)
    }

    fn at(&self, path: &[&str]) -> Option<&Value> {
        path.iter().try_fold(self.content.as_ref(), |value, field| value.get(field))
    }

    /// The endpoint at `spec.controlPlaneEndpoint`, when host and port are set.
    pub fn endpoint(&self) -> Option<(String, i32)> {
        let host = self.text(&["spec", "controlPlaneEndpoint", "host"])?;
        // Both: with a host alone the endpoint is not there yet.
        let port = self.count(&["spec", "controlPlaneEndpoint", "port"]).filter(|port| *port != 0)?;
        Some((host.to_owned(), port))
    }

    /// Its conditions.
    ///
    /// # Errors
    /// The sentence upstream puts into the mirroring condition when any entry is malformed.
    pub fn conditions(&self) -> Result<&[Condition], &str> {
        self.conditions.as_ref().as_deref().map_err(String::as_str)
    }

    /// Its condition `type_`.
    ///
    /// # Errors
    /// As [`Provided::conditions`]: a malformed entry spoils the others, too.
    pub fn condition(&self, type_: &str) -> Result<Option<&Condition>, &str> {
        self.conditions().map(|list| find(list, type_))
    }
}

/// Where to write an object of a provider, its uid included when it has one. Its plural is what the name of its
/// definition has to start with.
pub fn reference_to(object: &Value) -> ObjectRef {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (api_version, meta) = (text(&object["apiVersion"]), &object["metadata"]);
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    ObjectRef {
        gvk: definition::gvk(group, version, &text(&object["kind"])),
        key: ObjectKey::new(text(&meta["namespace"]), text(&meta["name"])),
        uid: text(&meta["uid"]),
    }
}

fn conditions(kind: &str, status: &Value) -> Result<Vec<Condition>, String> {
    let (path, list) = match status["v1beta2"]["conditions"].as_array() {
        // Providers of v1beta1 keep their new conditions
        // there, beside the old ones of another shape.
        Some(list) => ("status.v1beta2.conditions", Some(list)),
        None => ("status.conditions", status["conditions"].as_array()),
    };
    let wrong = |cause| format!("failed to convert {path} from {kind} to []metav1.Condition: {cause}");
    // Upstream skips entries that are not maps before it converts the rest.
    let entries = list.into_iter().flatten().filter_map(Value::as_object);
    entries.map(|fields| read_condition(fields).map_err(wrong)).collect()
}

fn read_condition(fields: &Map<String, Value>) -> Result<Condition, String> {
    let type_ = text(fields, "type");
    if type_.is_empty() {
        return Err("type must be set for all conditions".to_owned());
    }
    let wrong = |status: &str| match status {
        "" => format!("status must be set for the {type_} condition"),
        _ => format!("status for the {type_} condition must be one of True, False, Unknown"),
    };
    let status = text(fields, "status");
    let status = Status::parse(status).ok_or_else(|| wrong(status))?;
    let last_transition_time = match text(fields, "lastTransitionTime") {
        // The owner stamps it when the status turns.
        "" => UNSTAMPED,
        text => to_k8s(parse_rfc3339(text).ok_or_else(|| {
            format!("failed to unmarshal lastTransitionTime value: {text}: not an RFC 3339 time")
        })?),
    };
    let reason = match text(fields, "reason") {
        "" => NO_REASON_REPORTED,
        reason => reason,
    };
    Ok(Condition { last_transition_time, ..condition(type_, status, reason, text(fields, "message")) })
}

/// The reason of a condition that came without one.
pub const NO_REASON_REPORTED: &str = "NoReasonReported";

/// Empty when there is no such text.
fn text<'a>(fields: &'a Map<String, Value>, field: &str) -> &'a str {
    fields.get(field).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn both_contracts_say_whether_it_is_provisioned() {
        let provided =
            |status, contract| Provided::new(json!({ "status": status })).under(contract).provisioned();
        let new = || json!({"initialization": {"provisioned": true}});
        let old = || json!({"ready": true});
        for (status, contract, expected) in [
            (new(), Contract::Unstated, true),
            (old(), Contract::Unstated, true),
            (json!({"initialization": {"provisioned": false}, "ready": true}), Contract::Unstated, false),
            (new(), Contract::V1Beta2, true),
            (old(), Contract::V1Beta2, false),
            (new(), Contract::V1Beta1, false),
            (old(), Contract::V1Beta1, true),
            (json!({"ready": "yes"}), Contract::V1Beta1, false),
        ] {
            assert_eq!(provided(status.clone(), contract), expected, "{status} {contract:?}");
        }
    }

    #[test]
    fn a_milestone_that_is_no_boolean_is_malformed_where_its_contract_looks() {
        for (status, contract, expected) in [
            (json!({}), Contract::Unstated, false),
            (json!({"initialization": {"provisioned": "yes"}}), Contract::V1Beta2, true),
            (json!({"initialization": {"provisioned": null}}), Contract::V1Beta2, true),
            (json!({"initialization": "done"}), Contract::V1Beta2, true),
            (json!({"initialization": "done"}), Contract::V1Beta1, false),
            (json!({"initialization": {"provisioned": "yes"}, "ready": true}), Contract::Unstated, true),
            (json!({"ready": "yes"}), Contract::V1Beta1, true),
            (json!({"ready": "yes"}), Contract::V1Beta2, false),
            (json!({"ready": "yes"}), Contract::Unstated, true),
        ] {
            let provided = Provided::new(json!({ "status": status })).under(contract);
            assert_eq!(provided.provisioned_is_malformed(), expected, "{status} {contract:?}");
            assert!(!provided.provisioned(), "{status} {contract:?}");
        }
    }

    fn control_plane(contract: Contract, replicas: i32, status: Value) -> Provided {
        let content = json!({"kind": "AnyControlPlane", "spec": {"replicas": replicas}, "status": status});
        Provided::new(content).under(contract)
    }

    #[test]
    fn counters_of_a_control_plane_follow_its_contract() {
        let status = || {
            json!({"availableReplicas": 3, "unavailableReplicas": 1, "upToDateReplicas": 2,
            "updatedReplicas": 1, "initialized": true, "ready": true})
        };
        let new = control_plane(Contract::V1Beta2, 3, status());
        assert_eq!((new.available_replicas(None), new.up_to_date_replicas()), (Some(3), Some(2)));
        assert!(!new.control_plane_initialized());
        let old = control_plane(Contract::V1Beta1, 3, status());
        assert_eq!((old.available_replicas(Some(3)), old.up_to_date_replicas()), (Some(2), Some(1)));
        assert!(old.control_plane_initialized());
        let down = control_plane(Contract::V1Beta1, 1, json!({"unavailableReplicas": 4, "ready": true}));
        assert_eq!((down.available_replicas(Some(1)), down.control_plane_initialized()), (Some(0), false));
        assert_eq!(old.available_replicas(None), None, "it does not say of how many");
        let silent = control_plane(Contract::V1Beta1, 1, json!({}));
        assert_eq!((silent.available_replicas(Some(1)), silent.up_to_date_replicas()), (None, None));
        let odd = |status: Value| control_plane(Contract::V1Beta2, 1, status).initialized_is_malformed();
        assert!(odd(json!({"initialization": "done"})), "no object");
        assert!(odd(json!({"initialization": {"controlPlaneInitialized": null}})), "it is there");
        assert!(!odd(json!({"initialization": null})), "nothing is there");
        assert!(!odd(json!({"initialization": {}, "initialized": "yes"})), "another contract's field");
    }

    #[test]
    fn a_list_of_versions_must_make_sense() {
        let versions = |list: Value| {
            control_plane(Contract::V1Beta2, 1, json!({ "versions": list }))
                .versions()
                .map(|found| found.map(|l| l.len()))
        };
        assert_eq!(versions(json!([])), Ok(None));
        assert_eq!(
            versions(json!([{"version": "v1.34.1"}, {"version": "1.35", "replicas": 2}])),
            Ok(Some(2))
        );
        for (list, error) in [
            (
                json!([{"version": "latest"}]),
                "failed to parse .status.versions[0].version from object: Invalid character(s) found in major number \
                 \"0latest\"",
            ),
            (
                json!([{"version": "v1.35.0"}, {"version": "v1.34.0"}]),
                "version \"v1.35.0\" and \"v1.34.0\" are in the wrong order",
            ),
            (
                json!([{"version": "v1.35.0", "replicas": -1}]),
                ".status.versions[0].replicas must not be negative",
            ),
            (json!("v1.35.0"), "invalid type: string \"v1.35.0\", expected a sequence"),
        ] {
            assert_eq!(versions(list), Err(error.to_owned()));
        }
    }

    #[test]
    fn failure_domains_are_a_list_or_a_map() {
        let domains = |value: Value, contract: Contract| {
            let provided = Provided::new(json!({"status": {"failureDomains": value}})).under(contract);
            let found = provided.failure_domains().ok()?.into_iter();
            Some(found.map(|d| (d.name, d.control_plane == Some(true))).collect::<Vec<_>>())
        };
        let list = || json!([{"name": "b", "controlPlane": true}, {"name": "a"}]);
        let map = || json!({"b": {"controlPlane": true}, "a": {}});
        let both = Some(vec![("a".to_owned(), false), ("b".to_owned(), true)]);
        for (value, contract, expected) in [
            (list(), Contract::Unstated, both.clone()),
            (map(), Contract::Unstated, both.clone()),
            (list(), Contract::V1Beta2, both.clone()),
            (map(), Contract::V1Beta2, None),
            (list(), Contract::V1Beta1, None),
            (map(), Contract::V1Beta1, both),
            (json!(null), Contract::V1Beta2, Some(vec![])),
            (json!("none"), Contract::Unstated, None),
            (json!([3]), Contract::V1Beta2, None),
        ] {
            assert_eq!(domains(value.clone(), contract), expected, "{value} {contract:?}");
        }
    }
}
