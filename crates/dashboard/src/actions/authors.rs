//! Who asked last for the Machines that an object's spec describes, by the managed fields that the server keeps with it.
//! Owns which fields count; must not know who shows it.
//! Source of the fields that replace Machines: cluster-api `api/core/v1beta2` and
//! `api/controlplane/kubeadm/v1beta2`, v1.14.2.

use serde_json::Value;

use capstan_base::text::sanitize_line;
use capstan_base::time::{Timestamp, parse_rfc3339};
use capstan_engine::client::clusters::Lists;

/// Kinds, and the fields of their spec that replace Machines when they change. Managed fields keep the version in which they
/// were written: `rolloutAfter` and `rolloutBefore` are of v1beta1.
const ROLLING_FIELDS: [(&str, &[&str]); 3] = [
    ("Cluster", &["f:topology"]),
    (
        "KubeadmControlPlane",
        &[
            "f:version",
            "f:machineTemplate",
            "f:kubeadmConfigSpec",
            "f:rollout",
            "f:rolloutAfter",
            "f:rolloutBefore",
        ],
    ),
    ("MachineDeployment", &["f:template", "f:rollout", "f:rolloutAfter"]),
];

/// A field manager that wrote such a field, and when it wrote last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    pub kind: &'static str,
    pub name: String,
    /// Sanitised.
    pub manager: String,
    pub at: Timestamp,
}

/// The last author of each object that can roll; of those without such managed fields none.
pub fn authors(lists: &Lists) -> Vec<Author> {
    let of_kind = |(kind, fields): &(&'static str, &'static [&'static str])| {
        let (kind, fields) = (*kind, *fields);
        let objects = lists.kinds.iter().filter(move |(gvk, _)| gvk.kind == kind).flat_map(|(_, all)| all);
        objects.filter_map(move |object| author(kind, fields, object)).collect::<Vec<_>>()
    };
    ROLLING_FIELDS.iter().flat_map(of_kind).collect()
}

fn author(kind: &'static str, fields: &[&str], object: &Value) -> Option<Author> {
    let wrote = |entry: &&Value| {
        let spec = &entry["fieldsV1"]["f:spec"];
        let is_main = entry["subresource"].as_str().unwrap_or_default().is_empty();
        is_main && fields.iter().any(|field| !spec[*field].is_null())
    };
    let entries = object["metadata"]["managedFields"].as_array()?.iter().filter(wrote);
    let at = |entry: &Value| entry["time"].as_str().and_then(parse_rfc3339);
    let (at, last) = entries.filter_map(|entry| Some((at(entry)?, entry))).max_by_key(|(at, _)| *at)?;
    let manager = sanitize_line(last["manager"].as_str().filter(|manager| !manager.is_empty())?);
    let name = sanitize_line(object["metadata"]["name"].as_str()?);
    Some(Author { kind, name, manager, at })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(manager: &str, time: &str, subresource: &str, field: &str) -> Value {
        json!({"manager": manager, "time": time, "subresource": subresource, "operation": "Update",
               "fieldsV1": {"f:spec": {field: {}}}})
    }

    #[test]
    fn the_last_manager_of_a_field_that_replaces_machines_is_the_author() {
        let plane = |entries: Value| json!({"metadata": {"name": "cp", "managedFields": entries}});
        let of = |entries: Value| {
            author("KubeadmControlPlane", ROLLING_FIELDS[1].1, &plane(entries)).map(|a| a.manager)
        };
        let (first, last) = ("2026-11-20T10:00:00Z", "2026-11-20T11:00:00Z");
        for (entries, expected) in [
            (
                json!([entry("argocd", first, "", "f:version"), entry("anna", last, "", "f:version")]),
                Some("anna"),
            ),
            (
                json!([entry("argocd", last, "", "f:version"), entry("anna", first, "", "f:version")]),
                Some("argocd"),
            ),
            (
                json!([entry("anna", first, "", "f:version"), entry("hpa", last, "", "f:replicas")]),
                Some("anna"),
            ),
            (
                json!([entry("anna", first, "", "f:version"), entry("kcp", last, "status", "f:version")]),
                Some("anna"),
            ),
            (
                json!([entry("argocd", first, "", "f:version"), entry("anna", last, "", "f:rolloutAfter")]),
                Some("anna"),
            ),
            (json!([entry("hpa", last, "", "f:replicas")]), None),
            (json!([entry("anna", "soon", "", "f:version")]), None),
            (json!("none"), None),
        ] {
            assert_eq!(of(entries.clone()).as_deref(), expected, "{entries}");
        }
        let hostile = of(json!([entry("a\u{1b}[31mnna", first, "", "f:rollout")])).expect("there");
        assert!(!hostile.contains('\u{1b}'), "{hostile:?}");
    }
}
