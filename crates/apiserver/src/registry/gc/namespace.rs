//! Why a namespace that is going away is still there: its five conditions. Must not
//! know how content is removed.
//!
//! Source: kubernetes `pkg/controller/namespace/deletion/{namespaced_resources_deleter,status_condition_utils}.go`,
//! v1.35.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// What is left in a namespace.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Remaining {
    /// `plural.group` (the core group is empty, the dot stays) to how many.
    pub(super) objects: BTreeMap<String, usize>,
    /// Finalizers to how many objects they hold.
    pub(super) finalizers: BTreeMap<String, usize>,
    /// What could not be asked to go, and why.
    pub(super) failures: Vec<String>,
}

/// Type, reason and message when there is nothing to complain about.
const FINE: [(&str, &str, &str); 5] = [
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (CONTENT_FAILURE, "ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
    (CONTENT, "ContentRemoved", "All content successfully removed"),
    (FINALIZERS, "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
];
const CONTENT_FAILURE: &str = "NamespaceDeletionContentFailure";
const CONTENT: &str = "NamespaceContentRemaining";
const FINALIZERS: &str = "NamespaceFinalizersRemaining";

impl Remaining {
    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.failures.is_empty()
    }

    /// The conditions, in upstream's order, as of `now`.
    pub(super) fn conditions(&self, now: &str) -> Vec<Value> {
        FINE.iter()
            .map(|(type_, reason, message)| {
                let (status, reason, message) = match self.complaint(type_) {
                    Some((reason, message)) => ("True", reason, message),
                    None => ("False", *reason, (*message).to_owned()),
                };
                json!({ "type": type_, "status": status, "reason": reason, "message": message,
                    "lastTransitionTime": now })
            })
            .collect()
    }

    fn complaint(&self, type_: &str) -> Option<(&'static str, String)> {
        let list = |counts: &BTreeMap<String, usize>, verb: &str| -> Option<String> {
            let texts: Vec<String> =
                counts.iter().map(|(name, n)| format!("{name} {verb} {n} resource instances")).collect();
            (!texts.is_empty()).then(|| texts.join(", "))
        };
        match type_ {
            CONTENT_FAILURE if !self.failures.is_empty() => {
                let (count, texts) = (self.failures.len(), self.failures.join(", "));
                let message = format!("Failed to delete all resource types, {count} remaining: {texts}");
                Some(("ContentDeletionFailed", message))
            }
            CONTENT => list(&self.objects, "has")
                .map(|texts| ("SomeResourcesRemain", format!("Some resources are remaining: {texts}"))),
            FINALIZERS => list(&self.finalizers, "in").map(|texts| {
                let message = format!("Some content in the namespace has finalizers remaining: {texts}");
                ("SomeFinalizersRemain", message)
            }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(remaining: &Remaining) -> Vec<String> {
        let text = |c: &Value, field: &str| c[field].as_str().unwrap_or_default().to_owned();
        let conditions = remaining.conditions("now");
        let line = |c: &Value| {
            [text(c, "type"), text(c, "status"), text(c, "reason"), text(c, "message")].join(" | ")
        };
        conditions.iter().map(line).collect()
    }

    #[test]
    fn conditions_name_what_is_left() {
        let remaining = Remaining {
            objects: BTreeMap::from([("configmaps.".to_owned(), 2), ("things.example.io".to_owned(), 1)]),
            finalizers: BTreeMap::from([("a/b".to_owned(), 1)]),
            failures: vec!["no".to_owned()],
        };
        assert_eq!(
            said(&remaining)[2..],
            [
                "NamespaceDeletionContentFailure | True | ContentDeletionFailed | Failed to delete all resource \
                 types, 1 remaining: no",
                "NamespaceContentRemaining | True | SomeResourcesRemain | Some resources are remaining: \
                 configmaps. has 2 resource instances, things.example.io has 1 resource instances",
                "NamespaceFinalizersRemaining | True | SomeFinalizersRemain | Some content in the namespace has \
                 finalizers remaining: a/b in 1 resource instances",
            ]
        );
        assert!(said(&Remaining::default()).iter().all(|line| line.contains(" | False | ")));
    }
}
