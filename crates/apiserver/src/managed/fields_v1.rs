//! `FieldsV1`: a set of paths as JSON. Owns reading and writing it; must not know entries.
//!
//! Source: structured-merge-diff v6 `fieldpath/serialize.go`.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use super::element::Element;
use super::path_set::{Branch, PathSet};

/// A node that is itself a member, beside its children.
const SELF: &str = ".";

/// Reads a set.
///
/// # Errors
/// The text is not `FieldsV1`.
pub fn parse(text: &str) -> Result<PathSet, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let node = Reader.deserialize(&mut reader)?;
    reader.end()?;
    Ok(node.below)
}

/// Appends a set as JSON, siblings in canonical order.
pub fn write(set: &PathSet, out: &mut Vec<u8>) {
    write_node(set, false, out);
}

fn write_node(set: &PathSet, member: bool, out: &mut Vec<u8>) {
    out.push(b'{');
    // A leaf is `{}`; the dot is needed only beside children.
    if member && !set.is_empty() {
        out.extend_from_slice(b"\".\":{}");
    }
    for (index, branch) in set.branches().iter().enumerate() {
        if index > 0 || member {
            out.push(b',');
        }
        write_key(&branch.step, out);
        out.push(b':');
        write_node(&branch.below, branch.member, out);
    }
    out.push(b'}');
}

fn write_key(step: &Element, out: &mut Vec<u8>) {
    match step {
        // Most names need no escaping, and are copied without a text of their own.
        Element::Field(name) if name.bytes().all(|b| b >= b' ' && b != b'"' && b != b'\\') => {
            out.extend_from_slice(b"\"f:");
            out.extend_from_slice(name.as_bytes());
            out.push(b'"');
        }
        // Writing a text into memory cannot fail.
        _ => drop(serde_json::to_writer(&mut *out, &step.key())),
    }
}

struct Reader;

struct Node {
    member: bool,
    below: PathSet,
}

impl<'de> DeserializeSeed<'de> for Reader {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Reader {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of path elements")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let (mut member, mut branches) = (false, Vec::new());
        while let Some(key) = map.next_key::<Key<'de>>()? {
            if key.0 == SELF {
                member = true;
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let step = Element::parse(&key.0).map_err(A::Error::custom)?;
            let node = map.next_value_seed(Reader)?;
            // A step of an unknown type is read over and left out, as upstream.
            branches.extend(step.map(|step| Branch { step, member: node.member, below: node.below }));
        }
        let below = PathSet::from_branches(branches);
        // With nothing below it, a node can only be a member.
        Ok(Node { member: member || below.is_empty(), below })
    }
}

/// A key, borrowed from the text where it has no escapes.
#[derive(serde::Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(set: &PathSet) -> String {
        let mut out = Vec::new();
        write(set, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn canonical_text_comes_back_byte_for_byte() {
        for text in [
            "{}",
            r#"{"f:metadata":{"f:labels":{"f:a":{}},"f:finalizers":{"v:\"a.b/c\"":{}},"f:ownerReferences":{"k:{\"uid\":\"u1\"}":{}}},"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{".":{},"f:status":{},"f:type":{}}},"f:replicas":{}}}"#,
            r#"{"f:a":{".":{},"f:b":{},"k:{\"x\":1}":{},"v:2":{},"v:10":{},"v:\"z\"":{},"i:0":{}}}"#,
            r#"{"f:\"\\":{}}"#,
        ] {
            let set = parse(text).expect(text);
            let mut sorted: serde_json::Value = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::from_str::<serde_json::Value>(&written(&set)).unwrap(), sorted.take());
            assert_eq!(written(&parse(&written(&set)).unwrap()), written(&set));
        }
        let text = r#"{"f:a":{".":{},"f:b":{},"k:{\"x\":1}":{},"v:2":{},"v:10":{},"v:\"z\"":{},"i:0":{}}}"#;
        assert_eq!(written(&parse(text).unwrap()), text);
    }

    #[test]
    fn other_texts_are_read_as_upstream_reads_them() {
        for (text, members) in [
            (r#"{"f:b":{},"f:a":{}}"#, vec![".a", ".b"]),
            (r#"{"f:a":{"x:later":{}}}"#, vec![".a"]),
            (r#"{"f:a":{".":{"ignored":1}}}"#, vec![".a"]),
            (r#"{"k:{\"b\":1,\"a\":2}":{}}"#, vec!["[a=2,b=1]"]),
        ] {
            assert_eq!(parse(text).expect(text).texts(99), members, "{text}");
        }
        for text in ["", "null", "[]", "{\"f:a\":1}", "{\"f\":{}}", "{} {}", &"{\"f:a\":".repeat(500)] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    /// Sets of any shape.
    pub(crate) fn sets() -> impl Strategy<Value = PathSet> {
        let step = prop_oneof![
            "[a-c\"\\\\é]{0,3}".prop_map(|name| Element::field(&name)),
            ("[ab]", -3i64..20)
                .prop_map(|(k, v)| Element::parse(&format!("k:{{\"{k}\":{v}}}")).unwrap().unwrap()),
            "[a-c]".prop_map(|text| Element::parse(&format!("v:\"{text}\"")).unwrap().unwrap()),
            (0i64..20).prop_map(Element::Index),
        ];
        let leaf = Just(PathSet::default());
        leaf.prop_recursive(4, 24, 4, move |inner| {
            let branch = (step.clone(), any::<bool>(), inner);
            prop::collection::vec(branch, 0..4).prop_map(|branches| {
                let branches =
                    branches.into_iter().map(|(step, member, below)| Branch { step, member, below });
                PathSet::from_branches(branches.collect())
            })
        })
    }

    proptest! {
        #[test]
        fn any_set_comes_back(set in sets()) {
            prop_assert_eq!(&parse(&written(&set)).unwrap(), &set);
        }

        #[test]
        fn sets_obey_their_laws(a in sets(), b in sets()) {
            prop_assert_eq!(a.union(&b), b.union(&a));
            prop_assert_eq!(a.intersection(&b), b.intersection(&a));
            prop_assert_eq!(&a.difference(&b).union(&a.intersection(&b)), &a);
            prop_assert!(a.difference(&b).intersection(&b).is_empty());
            prop_assert!(a.is_subset(&a.union(&b)));
            prop_assert!(a.difference_below(&b).is_subset(&a.difference(&b)));
        }

        #[test]
        fn garbage_never_panics(text in "[\\[\\]{}\":,.fkvi0-9a-b]{0,40}") {
            let _ = parse(&text);
        }
    }
}
