//! How lists and maps of the built-in kinds merge, which their types do not say: by path, in words of
//! the Kubernetes OpenAPI document. Must not know what merging is.
//!
//! Source: kubernetes `api/openapi-spec/v3`, `x-kubernetes-{list-type,list-map-keys,map-type}`, v1.35.

use super::{ListType, Node};

enum Mark {
    Set,
    /// A list whose items are told apart by this field.
    By(&'static str),
    /// A map that is one unit. Lists without a mark are, too.
    Unit,
}

/// Type name, dotted path (an item of a list is `[]`), mark.
const MARKS: [(&str, &str, Mark); 16] = [
    ("ObjectMeta", "finalizers", Mark::Set),
    ("ObjectMeta", "ownerReferences", Mark::By("uid")),
    ("ObjectMeta", "ownerReferences.[]", Mark::Unit),
    ("Namespace", "status.conditions", Mark::By("type")),
    ("Node", "status.conditions", Mark::By("type")),
    ("Node", "status.addresses", Mark::By("type")),
    ("Node", "spec.podCIDRs", Mark::Set),
    ("Event", "involvedObject", Mark::Unit),
    ("Event", "regarding", Mark::Unit),
    ("Event", "related", Mark::Unit),
    ("CustomResourceDefinition", "status.conditions", Mark::By("type")),
    ("Pod", "spec.containers", Mark::By("name")),
    ("Pod", "status.conditions", Mark::By("type")),
    ("DaemonSet", "spec.template.spec.containers", Mark::By("name")),
    ("Deployment", "spec.template.spec.containers", Mark::By("name")),
    ("Deployment", "status.conditions", Mark::By("type")),
];

/// Marks what the type called `name` declares.
pub(super) fn mark(name: &str, root: &mut Node) {
    for (_, path, mark) in MARKS.iter().filter(|(type_name, _, _)| *type_name == name) {
        let node = path.split('.').try_fold(&mut *root, |node, step| match step {
            "[]" => node.items.as_deref_mut(),
            name => node.properties.get_mut(name),
        });
        let Some(node) = node else { continue };
        match mark {
            Mark::Set => node.list = ListType::Set,
            Mark::By(key) => node.list = ListType::Map(vec![(*key).to_owned()]),
            Mark::Unit => node.atomic = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::native;
    use super::*;

    #[test]
    fn every_mark_meets_its_field() {
        let metadata = native::metadata();
        assert_eq!(metadata.properties["finalizers"].list, ListType::Set);
        let owners = &metadata.properties["ownerReferences"];
        assert_eq!(owners.list, ListType::Map(vec!["uid".to_owned()]));
        assert!(owners.items.as_ref().is_some_and(|item| item.atomic));
        let by_type = ListType::Map(vec!["type".to_owned()]);
        for (group, kind, path, list) in [
            ("", "Namespace", "conditions", &by_type),
            ("", "Node", "conditions", &by_type),
            ("", "Node", "addresses", &by_type),
            ("apiextensions.k8s.io", "CustomResourceDefinition", "conditions", &by_type),
        ] {
            let schema = native::schema(group, "v1", kind).unwrap();
            assert_eq!(&schema.root.properties["status"].properties[path].list, list, "{kind} {path}");
        }
        let node = native::schema("", "v1", "Node").unwrap();
        assert_eq!(node.root.properties["spec"].properties["podCIDRs"].list, ListType::Set);
        let event = native::schema("", "v1", "Event").unwrap();
        assert!(event.root.properties["involvedObject"].atomic && event.root.properties["related"].atomic);
    }
}
