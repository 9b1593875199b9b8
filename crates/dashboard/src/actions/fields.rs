//! Where each served version of Cluster API's kinds keeps what actions change: one table, and how a value is put there and
//! looked for afterwards. Must not know an action.
//! Source: cluster-api `api/core/{v1beta1,v1beta2}` and `api/controlplane/kubeadm/{v1beta1,v1beta2}`, v1.14.2.

use serde_json::{Value, json};

use super::ActionError;

/// What lies elsewhere in another version. Paths are JSON pointers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fields {
    version: &'static str,
    /// Of a control plane and of a MachineDeployment. `Err`: there is none, in a sentence.
    rollout_after: Result<&'static str, String>,
    /// Releases of Cluster API that serve the version have updates in place.
    has_updates_in_place: bool,
}

/// Every version that is written, the newest first.
const VERSIONS: [Fields; 2] = [
    Fields { version: "v1beta2", rollout_after: Ok("/spec/rollout/after"), has_updates_in_place: true },
    Fields { version: "v1beta1", rollout_after: Ok("/spec/rolloutAfter"), has_updates_in_place: false },
];

/// Where control planes keep the moment after which every Machine is replaced, the newest first.
/// Source: cluster-api-k3s `controlplane/api/v1beta2` (`KThreesControlPlaneSpec.UpgradeAfter`), v0.3.0, for the last one.
pub const ROLLOUT_AFTER: [&str; 3] = ["/spec/rollout/after", "/spec/rolloutAfter", "/spec/upgradeAfter"];

/// The same in every version, and of control planes by their contract.
pub const REPLICAS: &str = "/spec/replicas";
/// Of a Cluster and of a MachineDeployment.
pub const PAUSED: &str = "/spec/paused";

/// The Kubernetes version that an object of this kind asks for; of a Cluster that of its topology.
pub fn kubernetes_version(kind: &str) -> &'static str {
    match kind {
        "Cluster" => "/spec/topology/version",
        "MachineDeployment" | "MachineSet" | "MachinePool" => "/spec/template/spec/version",
        _ => "/spec/version",
    }
}

impl Fields {
    /// Those of the version that an object was read in, which is the one that is written.
    ///
    /// # Errors
    /// `Refused`: the version is not in the table.
    pub fn of(object: &Value) -> Result<Self, ActionError> {
        let api_version = object["apiVersion"].as_str().unwrap_or_default();
        let version = api_version.rsplit('/').next().unwrap_or_default();
        let known = VERSIONS.each_ref().map(|fields| fields.version).join(" and ");
        let kind = object["kind"].as_str().unwrap_or_default();
        VERSIONS.into_iter().find(|fields| fields.version == version).ok_or_else(|| {
            ActionError::Refused(format!("the server offers {kind} only as {version}; actions know {known}"))
        })
    }

    /// Those of a control plane that has no types here, whose versions have nothing to do with those of Cluster API.
    pub fn of_control_plane(rollout_after: Result<&'static str, String>) -> Self {
        Self { version: "", rollout_after, has_updates_in_place: false }
    }

    /// For actions that every kind takes, which need none of them.
    pub fn none() -> Self {
        Self::of_control_plane(Err("the field is not known of every kind".to_owned()))
    }

    /// # Errors
    /// `Refused`: the kind has no such field.
    pub fn rollout_after(&self) -> Result<&'static str, ActionError> {
        self.rollout_after.clone().map_err(ActionError::Refused)
    }

    /// # Errors
    /// `Refused`: no release that offers only this version can update Machines in place.
    pub fn check_updates_in_place(&self) -> Result<(), ActionError> {
        if self.has_updates_in_place {
            return Ok(());
        }
        Err(ActionError::Refused(format!(
            "Machines cannot be updated in place here: that needs Cluster API v1.12, and the server offers only {}",
            self.version
        )))
    }
}

/// A merge patch of one field.
pub fn patch(pointer: &str, value: Value) -> Value {
    let mut patch = json!({});
    put(&mut patch, pointer, value);
    patch
}

/// Puts a value into a merge patch.
pub fn put(patch: &mut Value, pointer: &str, value: Value) {
    // In this order (RFC 6901): `~01` stands for `~1`, not for a slash.
    let steps = pointer.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~"));
    let mut at = patch;
    for step in steps {
        if !at.is_object() {
            *at = json!({});
        }
        at = &mut at[step];
    }
    *at = value;
}

/// The first field of a merge patch that `stored` does not have as the patch says, such as `spec.rollout.after`.
pub fn lost(patch: &Value, stored: &Value) -> Option<String> {
    let below =
        |step: &str, rest: String| if rest.is_empty() { step.to_owned() } else { format!("{step}.{rest}") };
    match (patch, stored) {
        (Value::Object(fields), _) => fields
            .iter()
            .find_map(|(field, value)| lost(value, &stored[field.as_str()]).map(|rest| below(field, rest))),
        // Lists are compared item by item, because the server may add defaults to the items.
        (Value::Array(items), Value::Array(there)) if items.len() == there.len() => {
            let mut pairs = items.iter().zip(there).enumerate();
            pairs.find_map(|(at, (item, there))| lost(item, there).map(|rest| below(&at.to_string(), rest)))
        }
        _ => (!is_same(patch, stored)).then(String::new),
    }
}

/// Servers leave out what is false.
fn is_same(sent: &Value, stored: &Value) -> bool {
    let is_unset = |value: &Value| value.is_null() || *value == Value::Bool(false);
    sent == stored || (is_unset(sent) && is_unset(stored))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_that_is_not_in_the_table_is_refused() {
        let of =
            |api_version: &str| Fields::of(&json!({"apiVersion": api_version, "kind": "MachineDeployment"}));
        assert_eq!(
            of("cluster.x-k8s.io/v1beta1").and_then(|f| f.rollout_after()).ok(),
            Some("/spec/rolloutAfter")
        );
        assert_eq!(
            of("cluster.x-k8s.io/v1beta2").and_then(|f| f.rollout_after()).ok(),
            Some("/spec/rollout/after")
        );
        let refused = of("cluster.x-k8s.io/v1alpha4").expect_err("refused").to_string();
        let text = "the server offers MachineDeployment only as v1alpha4; actions know v1beta2 and v1beta1";
        assert_eq!(refused, text);
    }

    #[test]
    fn what_is_not_stored_as_it_was_sent_is_named() {
        let stored = json!({"spec": {"replicas": 3, "paused": true, "taints": [{"key": "a", "effect": "NoSchedule"}]},
                            "metadata": {"annotations": {"a/b": ""}}});
        for (sent, expected) in [
            (json!({"spec": {"replicas": 3}}), None),
            (json!({"spec": {"replicas": 5}}), Some("spec.replicas")),
            (json!({"spec": {"rollout": {"after": "x"}}}), Some("spec.rollout.after")),
            (json!({"spec": {"rollout": {"after": null}}}), None),
            (json!({"spec": {"paused": null}}), Some("spec.paused")),
            (json!({"spec": {"isOpen": false}}), None),
            (json!({"metadata": {"annotations": {"a/b": ""}}}), None),
            (json!({"metadata": {"annotations": {"c": ""}}}), Some("metadata.annotations.c")),
            // Defaults of a server inside a list.
            (json!({"spec": {"taints": [{"key": "a"}]}}), None),
            (json!({"spec": {"taints": [{"key": "b"}]}}), Some("spec.taints.0.key")),
            (json!({"spec": {"taints": []}}), Some("spec.taints")),
        ] {
            assert_eq!(lost(&sent, &stored).as_deref(), expected, "{sent}");
        }
    }
}
