//! The selector that a server's admission gives a pool which came without one, as manifests do that were not applied yet. Must not change a
//! selector that is there.
//!
//! Source: cluster-api `internal/webhooks/machinedeployment.go`, `machineset.go` (`Default`), v1.14.2.

use serde_json::{Value, json};

use crate::observe::dump::Kind;
use capi_types::names::label;

/// Selects what is labelled with the name of the pool, and labels its template so.
pub(super) fn complete(kind: Kind, object: &mut Value) {
    let mark = match kind {
        Kind::MachineDeployment => label::DEPLOYMENT_NAME,
        Kind::MachineSet => label::SET_NAME,
        _ => return,
    };
    let name = object["metadata"]["name"].clone();
    let spec = &mut object["spec"];
    if !spec.is_object() || has_terms(&spec["selector"]) {
        return;
    }
    spec["selector"] = json!({"matchLabels": {mark: name}});
    let labels = ["template", "metadata", "labels"].into_iter().try_fold(spec, |at, field| {
        if at[field].is_null() {
            at[field] = json!({});
        }
        at.get_mut(field).filter(|found| found.is_object())
    });
    if let Some(labels) = labels {
        labels[mark] = name;
    }
}

fn has_terms(selector: &Value) -> bool {
    let labels = selector["matchLabels"].as_object().is_some_and(|labels| !labels.is_empty());
    labels || selector["matchExpressions"].as_array().is_some_and(|terms| !terms.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_without_a_selector_gets_that_of_its_name() {
        let pool = |spec: Value| json!({"metadata": {"name": "a"}, "spec": spec});
        let (deployment, set) = (label::DEPLOYMENT_NAME, label::SET_NAME);
        for (kind, spec, expected) in [
            (
                Kind::MachineDeployment,
                json!({"template": {"metadata": {"labels": {"b": "c"}}}}),
                json!({"selector": {"matchLabels": {deployment: "a"}},
                    "template": {"metadata": {"labels": {"b": "c", deployment: "a"}}}}),
            ),
            (
                Kind::MachineSet,
                json!({"selector": {"matchLabels": null}}),
                json!({"selector": {"matchLabels": {set: "a"}}, "template": {"metadata": {"labels": {set: "a"}}}}),
            ),
            (
                Kind::MachineDeployment,
                json!({"selector": {"matchLabels": {"b": "c"}}}),
                json!({"selector": {"matchLabels": {"b": "c"}}}),
            ),
            (Kind::Machine, json!({}), json!({})),
            (Kind::MachineSet, json!("text"), json!("text")),
            (
                Kind::MachineSet,
                json!({"template": "text"}),
                json!({"template": "text", "selector": {"matchLabels": {set: "a"}}}),
            ),
        ] {
            let mut object = pool(spec);
            complete(kind, &mut object);
            assert_eq!(object["spec"], expected);
        }
    }
}
