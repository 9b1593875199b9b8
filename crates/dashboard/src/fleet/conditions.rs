//! Where an object has its conditions: the newer list where there is one, wherever the version keeps it, else what is left
//! of the older one. Must not know what conditions say.
//!
//! Source: the conversions of the v1beta1 kinds, v1.14.2 (`status.v1beta2.conditions`; `status.deprecated.v1beta1` the
//! other way); order of reading as for objects of other providers (`internal/contract`, `util/conditions` getters).

use serde_json::Value;

use capi_types::names;

/// What distinguishes an older condition (v1beta1) from a newer one.
pub trait ConditionMarks {
    fn has_severity(&self) -> bool;
    fn has_reason(&self) -> bool;
}

impl ConditionMarks for Value {
    fn has_severity(&self) -> bool {
        self["severity"].as_str().is_some_and(|text| !text.is_empty())
    }

    fn has_reason(&self) -> bool {
        self["reason"].as_str().is_some_and(|text| !text.is_empty())
    }
}

/// The conditions an object has in its three places: `status.v1beta2`, `status` and `status.deprecated.v1beta1`.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a, C> {
    pub newer: &'a [C],
    pub plain: &'a [C],
    pub deprecated: &'a [C],
}

impl<'a, C: ConditionMarks> Places<'a, C> {
    /// The list to read, and whether its conditions are of the older kind. Those are told by where they are, by the
    /// version, by a severity, or by reasons that are missing everywhere.
    pub fn choose(self, group: &str, version: &str) -> (&'a [C], bool) {
        let looks_old = |list: &[C]| list.iter().any(C::has_severity) || !list.iter().any(C::has_reason);
        match self {
            Self { newer: list @ [_, ..], .. } => (list, false),
            Self { plain: list @ [_, ..], .. } => (list, is_older_version(group, version) || looks_old(list)),
            Self { deprecated: list @ [_, ..], .. } => (list, true),
            Self { newer: none, .. } => (none, false),
        }
    }
}

/// Of Cluster API's own kinds, v1beta1 has the older conditions in `status.conditions`; the versions of other providers
/// say nothing.
pub fn is_older_version(group: &str, version: &str) -> bool {
    let own = [names::CORE_GROUP, names::CONTROL_PLANE_GROUP, names::BOOTSTRAP_GROUP];
    own.contains(&group) && version == "v1beta1"
}

/// The conditions of an object as it is served, and whether they are of the older kind.
pub fn conditions_of(object: &Value) -> (&[Value], bool) {
    let status = &object["status"];
    let (group, version) =
        object["apiVersion"].as_str().and_then(|text| text.split_once('/')).unwrap_or_default();
    let places = Places {
        newer: items(&status["v1beta2"]["conditions"]),
        plain: items(&status["conditions"]),
        deprecated: items(&status["deprecated"]["v1beta1"]["conditions"]),
    };
    places.choose(group, version)
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_newer_list_wins_wherever_it_is() {
        let newer = json!([{"type": "Available", "reason": "Available"}]);
        let older = json!([{"type": "Ready", "severity": "Error", "reason": "Broken"}]);
        let bare = json!([{"type": "Ready"}]);
        for (api_version, status, first, legacy) in [
            ("cluster.x-k8s.io/v1beta2", json!({"conditions": newer}), "Available", false),
            (
                "cluster.x-k8s.io/v1beta1",
                json!({"conditions": older, "v1beta2": {"conditions": newer}}),
                "Available",
                false,
            ),
            ("cluster.x-k8s.io/v1beta1", json!({"conditions": newer}), "Available", true),
            (
                "cluster.x-k8s.io/v1beta2",
                json!({"deprecated": {"v1beta1": {"conditions": older}}}),
                "Ready",
                true,
            ),
            ("infrastructure.cluster.x-k8s.io/v1beta1", json!({"conditions": newer}), "Available", false),
            ("infrastructure.cluster.x-k8s.io/v1beta1", json!({"conditions": older}), "Ready", true),
            ("infrastructure.cluster.x-k8s.io/v1beta1", json!({"conditions": bare}), "Ready", true),
        ] {
            let object = json!({"apiVersion": api_version, "status": status});
            let (list, old) = conditions_of(&object);
            assert_eq!((list[0]["type"].as_str(), old), (Some(first), legacy), "{object}");
        }
        assert!(conditions_of(&json!({"status": {"conditions": "none"}})).0.is_empty());
    }
}
