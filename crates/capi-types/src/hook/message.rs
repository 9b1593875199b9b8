//! Requests and answers of the hooks about updates in place. Objects are kept as JSON: a provider's are of kinds that
//! nobody here knows, and no field may be lost on the way.
//!
//! Answers are read as Go reads them: what is missing or null is empty, and unknown fields are ignored.
//! Source: cluster-api `api/runtime/hooks/v1alpha1/{common_types,inplaceupdate_types}.go`, v1.14.2.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::{API_VERSION, Hook, Patch, PatchError};

/// The statuses of an answer.
pub const SUCCESS: &str = "Success";
/// It is not done, and the message says why.
pub const FAILURE: &str = "Failure";

/// What is sent to a handler.
pub trait HookRequest: Serialize + Clone + Send + Sync {
    /// By which the handlers are chosen.
    const HOOK: Hook;
    /// What its handlers answer.
    type Response: HookResponse;

    /// The settings of the request, if its hook has any.
    fn settings_mut(&mut self) -> Option<&mut BTreeMap<String, String>>;
}

/// What a handler answers.
pub trait HookResponse: DeserializeOwned + Clone + Send + Sync {
    /// [`SUCCESS`], [`FAILURE`], or what else was sent.
    fn status(&self) -> &str;
    /// For a person, in the extension's own words: text from outside.
    fn message(&self) -> &str;
    /// What counts as the answer of a handler whose errors are ignored.
    fn ignored() -> Self;
}

pub(super) fn type_meta(kind: &str) -> (String, String) {
    (API_VERSION.to_owned(), kind.to_owned())
}

/// Null as Go reads it: nothing was set.
pub(super) fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// An object as requests carry it: kind, name, labels, annotations and spec, without status, owners and versions.
/// Source: `cleanupMachine`, `cleanupUnstructured`.
pub fn subject(object: &Value) -> Value {
    let mut metadata = Map::new();
    for field in ["name", "namespace", "labels", "annotations"] {
        let value = &object["metadata"][field];
        // Left out as Go leaves out what is empty.
        let empty = value.is_null() || value == "" || value.as_object().is_some_and(Map::is_empty);
        if !empty {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    let mut subject = Map::new();
    for field in ["apiVersion", "kind", "spec"] {
        subject.insert(field.to_owned(), object[field].clone());
    }
    subject.insert("metadata".to_owned(), Value::Object(metadata));
    Value::Object(subject)
}

/// A Machine with the objects behind it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineObjects {
    /// The Machine, as [`subject`] cuts it.
    pub machine: Value,
    /// What its `infrastructureRef` names, cut likewise.
    pub infrastructure_machine: Value,
    /// Null when the Machine has none.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub bootstrap_config: Value,
}

/// A MachineSet with the templates behind it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineSetObjects {
    /// The MachineSet, as [`subject`] cuts it.
    pub machine_set: Value,
    /// What its `infrastructureRef` names, cut likewise.
    pub infrastructure_machine_template: Value,
    /// Null when the MachineSet has none.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub bootstrap_config_template: Value,
}

macro_rules! request {
    ($(#[$doc:meta])* $name:ident of $hook:ident -> $response:ident { $($field:ident: $type:ty),+ }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            /// [`API_VERSION`]; there is no other yet.
            #[serde(default)]
            pub api_version: String,
            /// The name of the type.
            #[serde(default)]
            pub kind: String,
            /// Of the handler's ExtensionConfig.
            #[serde(default, deserialize_with = "nullable", skip_serializing_if = "BTreeMap::is_empty")]
            pub settings: BTreeMap<String, String>,
$(#[serde(default)]
            /// What is there (`current`), or what should be there (`desired`).
            pub $field: $type,)+
        }

        impl $name {
            /// Without settings: those of the ExtensionConfig are laid under them when it is sent.
            pub fn new($($field: $type),+) -> Self {
                let (api_version, kind) = type_meta(stringify!($name));
                Self { api_version, kind, settings: BTreeMap::new(), $($field),+ }
            }
        }

        impl HookRequest for $name {
            const HOOK: Hook = Hook::$hook;
            type Response = $response;

            fn settings_mut(&mut self) -> Option<&mut BTreeMap<String, String>> {
                Some(&mut self.settings)
            }
        }
    };
}

macro_rules! response {
    ($(#[$doc:meta])* $name:ident { $($(#[$meta:meta])* $field:ident: $type:ty),+ }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        pub struct $name {
            /// [`API_VERSION`]; there is no other yet.
            #[serde(deserialize_with = "nullable")]
            pub api_version: String,
            /// The name of the type.
            #[serde(deserialize_with = "nullable")]
            pub kind: String,
            /// [`SUCCESS`], [`FAILURE`], or what else was sent.
            #[serde(deserialize_with = "nullable")]
            pub status: String,
            /// For a person, in the extension's own words: text from outside.
            #[serde(deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
            pub message: String,
            $(
                /// What the handler says about it; unset, or 0, where it says nothing.
                $(#[$meta])* #[serde(deserialize_with = "nullable")] pub $field: $type
            ),+
        }

        impl Default for $name {
            /// Of its kind, with no status yet.
            fn default() -> Self {
                let (api_version, kind) = type_meta(stringify!($name));
                Self { api_version, kind, status: String::new(), message: String::new(), $($field: <$type>::default()),+ }
            }
        }

        impl $name {
            /// It is done.
            pub fn success() -> Self {
                Self { status: SUCCESS.to_owned(), ..Self::default() }
            }

            /// It is not done; `message` says why.
            pub fn failure(message: impl Into<String>) -> Self {
                Self { status: FAILURE.to_owned(), message: message.into(), ..Self::default() }
            }
        }

        impl HookResponse for $name {
            fn status(&self) -> &str {
                &self.status
            }

            fn message(&self) -> &str {
                &self.message
            }

            fn ignored() -> Self {
                Self::success()
            }
        }
    };
}

request! {
    /// Which of the differences between two states of a Machine can the extension carry out in place?
    CanUpdateMachineRequest of CanUpdateMachine -> CanUpdateMachineResponse {
        current: MachineObjects, desired: MachineObjects
    }
}

response! {
    /// Patches of the current objects towards the desired ones.
    CanUpdateMachineResponse {
        #[serde(skip_serializing_if = "Patch::is_unset")] machine_patch: Patch,
        #[serde(skip_serializing_if = "Patch::is_unset")] infrastructure_machine_patch: Patch,
        #[serde(skip_serializing_if = "Patch::is_unset")] bootstrap_config_patch: Patch
    }
}

request! {
    /// Which of the differences between two MachineSets can the extension carry out in place on their Machines?
    CanUpdateMachineSetRequest of CanUpdateMachineSet -> CanUpdateMachineSetResponse {
        current: MachineSetObjects, desired: MachineSetObjects
    }
}

response! {
    /// Patches of the current objects towards the desired ones.
    CanUpdateMachineSetResponse {
        #[serde(skip_serializing_if = "Patch::is_unset")] machine_set_patch: Patch,
        #[serde(skip_serializing_if = "Patch::is_unset")] infrastructure_machine_template_patch: Patch,
        #[serde(skip_serializing_if = "Patch::is_unset")] bootstrap_config_template_patch: Patch
    }
}

request! {
    /// Make the host what the objects say. Sent again until the answer asks for no other call.
    UpdateMachineRequest of UpdateMachine -> UpdateMachineResponse { desired: MachineObjects }
}

response! {
    /// Done when `retry_after_seconds` is 0.
    UpdateMachineResponse { retry_after_seconds: i32 }
}

const SPEC: &[&str] = &["spec"];
const TEMPLATE_SPEC: &[&str] = &["spec", "template", "spec"];

impl CanUpdateMachineRequest {
    /// Lays an answer's patches on the current objects; only `spec` changes. A patch of an object that the request does
    /// not have is passed over. Several handlers add up by one call each. Source: `applyPatchesToRequest`.
    ///
    /// # Errors
    /// A patch that cannot be applied.
    pub fn apply(&mut self, answer: &CanUpdateMachineResponse) -> Result<(), PatchError> {
        let current = &mut self.current;
        // Upstream's order, which decides which error comes back.
        answer.machine_patch.apply(&mut current.machine, SPEC)?;
        answer.bootstrap_config_patch.apply(&mut current.bootstrap_config, SPEC)?;
        answer.infrastructure_machine_patch.apply(&mut current.infrastructure_machine, SPEC)
    }
}

impl CanUpdateMachineSetRequest {
    /// Lays an answer's patches on the current objects; only `spec.template.spec` changes.
    ///
    /// # Errors
    /// A patch that cannot be applied.
    pub fn apply(&mut self, answer: &CanUpdateMachineSetResponse) -> Result<(), PatchError> {
        let current = &mut self.current;
        // In the same order as for a Machine.
        answer.machine_set_patch.apply(&mut current.machine_set, TEMPLATE_SPEC)?;
        answer
            .bootstrap_config_template_patch
            .apply(&mut current.bootstrap_config_template, TEMPLATE_SPEC)?;
        answer
            .infrastructure_machine_template_patch
            .apply(&mut current.infrastructure_machine_template, TEMPLATE_SPEC)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn machine(version: &str) -> Value {
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {
                "name": "m", "namespace": "ns", "uid": "u", "labels": {"a": "b"}, "annotations": {},
                "resourceVersion": "7", "managedFields": [],
            },
            "spec": {"version": version}, "status": {"phase": "Running"},
        })
    }

    #[test]
    fn requests_have_upstreams_json() {
        let objects = |version| MachineObjects {
            machine: subject(&machine(version)),
            infrastructure_machine: subject(&json!({"apiVersion": "i/v1", "kind": "I"})),
            bootstrap_config: Value::Null,
        };
        let mut request = CanUpdateMachineRequest::new(objects("v1.34.0"), objects("v1.34.1"));
        let machine = |version| {
            json!({
                "machine": {
                    "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
                    "metadata": {"name": "m", "namespace": "ns", "labels": {"a": "b"}}, "spec": {"version": version},
                },
                "infrastructureMachine": {"apiVersion": "i/v1", "kind": "I", "metadata": {}, "spec": null},
            })
        };
        let mut expected = json!({
            "apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "kind": "CanUpdateMachineRequest",
            "current": machine("v1.34.0"), "desired": machine("v1.34.1"),
        });
        assert_eq!(json!(request), expected);
        request.settings.insert("k".to_owned(), "v".to_owned());
        expected["settings"] = json!({"k": "v"});
        assert_eq!(json!(request), expected);
        let update = UpdateMachineRequest::new(request.desired.clone());
        assert_eq!(json!(update)["kind"], "UpdateMachineRequest");
        assert_eq!(json!(update)["desired"], expected["desired"]);
        let set = CanUpdateMachineSetRequest::new(MachineSetObjects::default(), MachineSetObjects::default());
        assert_eq!(json!(set)["current"], json!({"machineSet": null, "infrastructureMachineTemplate": null}));
    }

    #[test]
    fn answers_are_read_as_go_reads_them() {
        let read = |text: &str| serde_json::from_str::<CanUpdateMachineResponse>(text);
        let answer = read(
            r#"{"kind": "Other", "status": "Success", "message": null, "more": 1,
                "machinePatch": {"patchType": "JSONPatch", "patch": "W10="}, "bootstrapConfigPatch": null}"#,
        )
        .expect("an answer");
        assert_eq!((answer.status.as_str(), answer.message.as_str()), (SUCCESS, ""));
        assert_eq!(answer.machine_patch, Patch::json(b"[]"));
        assert!(answer.bootstrap_config_patch.is_unset());
        assert!(read("7").is_err());
        assert!(read(r#"{"status": 1}"#).is_err());
        assert!(read(r#"{"machinePatch": {"patch": "not base64"}}"#).is_err());
        let update: UpdateMachineResponse =
            serde_json::from_str(r#"{"status": "Success", "retryAfterSeconds": 5}"#).expect("an answer");
        assert_eq!(update.retry_after_seconds, 5);
    }

    #[test]
    fn answers_have_upstreams_json() {
        assert_eq!(
            json!(UpdateMachineResponse::failure("disk full")),
            json!({
                "apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "kind": "UpdateMachineResponse",
                "status": "Failure", "message": "disk full", "retryAfterSeconds": 0,
            })
        );
        let answer = CanUpdateMachineSetResponse {
            machine_set_patch: Patch::merge(b"{}"),
            ..CanUpdateMachineSetResponse::success()
        };
        assert_eq!(
            json!(answer),
            json!({
                "apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "kind": "CanUpdateMachineSetResponse",
                "status": "Success", "machineSetPatch": {"patchType": "JSONMergePatch", "patch": "e30="},
            })
        );
    }

    #[test]
    fn patches_of_an_answer_change_the_specs_alone() {
        let objects = |version| MachineObjects { machine: subject(&machine(version)), ..Default::default() };
        let mut request = CanUpdateMachineRequest::new(objects("v1.34.0"), objects("v1.34.1"));
        let answer = CanUpdateMachineResponse {
            machine_patch: Patch::json(
                br#"[{"op": "replace", "path": "/spec/version", "value": "v1.34.1"},
                     {"op": "add", "path": "/metadata/labels/x", "value": "y"}]"#,
            ),
            bootstrap_config_patch: Patch::merge(br#"{"spec": {"a": 1}}"#),
            ..CanUpdateMachineResponse::success()
        };
        request.apply(&answer).expect("applies");
        assert_eq!(request.current, request.desired);

        let set = |version| MachineSetObjects {
            machine_set: json!({"spec": {"replicas": 1, "template": {"spec": {"version": version}}}}),
            ..Default::default()
        };
        let mut request = CanUpdateMachineSetRequest::new(set("v1"), set("v2"));
        let answer = CanUpdateMachineSetResponse {
            machine_set_patch: Patch::merge(
                br#"{"spec": {"replicas": 9, "template": {"spec": {"version": "v2"}}}}"#,
            ),
            ..CanUpdateMachineSetResponse::success()
        };
        request.apply(&answer).expect("applies");
        assert_eq!(request.current, request.desired);
    }
}
