//! Field selectors: their grammar, upstream's complaints about it, which fields there are, and matching over a
//! light view (a function from field to value). Must not know how objects are kept.
//!
//! Source: apimachinery `pkg/fields/selector.go`, v0.35.

use std::borrow::Cow;

use serde_json::Value;

use crate::failure::Failure;

/// A parsed `fieldSelector`: comma means and. The empty selector matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector(Vec<FieldRequirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldRequirement {
    field: String,
    value: String,
    equal: bool,
}

impl FieldSelector {
    /// From the text of the query parameter; `supported` says which field labels the resource has
    /// (see [`is_supported_field`]).
    ///
    /// # Errors
    /// 400: bad syntax, or a field the resource cannot be selected by.
    pub fn parse(text: &str, supported: impl Fn(&str) -> bool) -> Result<Self, Failure> {
        let mut requirements = Vec::new();
        for term in split_terms(text).into_iter().filter(|t| !t.is_empty()) {
            let Some((field, equal, value)) = split_term(term) else {
                return Err(Failure::bad_request(format!(
                    "invalid selector: '{text}'; can't understand '{term}'"
                )));
            };
            if !supported(field) {
                return Err(Failure::bad_request(format!("field label not supported: {field}")));
            }
            let value = unescape(value).map_err(Failure::bad_request)?;
            requirements.push(FieldRequirement { field: field.to_owned(), value, equal });
        }
        Ok(Self(requirements))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The one name that can match, when the selector asks for one: a single key to read.
    pub fn name(&self) -> Option<&str> {
        self.0.iter().find(|r| r.equal && r.field == "metadata.name").map(|r| r.value.as_str())
    }

    /// Does it ask about anything but name and namespace, so that the object must be parsed?
    pub fn needs_object(&self) -> bool {
        self.0.iter().any(|r| !matches!(r.field.as_str(), "metadata.name" | "metadata.namespace"))
    }

    /// `field` looks a value up; a missing field is the empty string.
    pub fn matches<'a>(&self, field: impl Fn(&str) -> Cow<'a, str>) -> bool {
        self.0.iter().all(|r| (field(&r.field) == r.value) == r.equal)
    }
}

/// The value of a field label in an object, as text. Missing, null, objects and lists are empty.
pub fn field_value<'a>(object: &'a Value, field: &str) -> Cow<'a, str> {
    let path = match field {
        // Two event sources existed before `reportingComponent`; upstream selects the older by `source`.
        "source" => "source.component",
        // The one label that is not a path: namespaces may be selected by plain `name`.
        "name" => "metadata.name",
        other => other,
    };
    let found = path.split('.').try_fold(object, |at, part| at.get(part));
    match found {
        Some(Value::String(text)) => Cow::Borrowed(text),
        Some(Value::Bool(flag)) => Cow::Borrowed(if *flag { "true" } else { "false" }),
        Some(Value::Number(number)) => Cow::Owned(number.to_string()),
        // Upstream selects by the decoded Node, in which an absent flag is false.
        None if path == "spec.unschedulable" => Cow::Borrowed("false"),
        _ => Cow::Borrowed(""),
    }
}

/// Field labels of the resources we serve, beyond name and namespace.
/// Source: kubernetes `pkg/apis/core/v1/conversion.go` and each registry's `strategy.go`, v1.35.
const FIELDS: [(&str, &str, &[&str]); 6] = [
    ("", "secrets", &["type"]),
    ("", "namespaces", &["status.phase", "name"]),
    ("", "nodes", &["spec.unschedulable"]),
    ("", "pods", &["spec.nodeName", "spec.serviceAccountName", "status.phase", "status.podIP"]),
    (
        "",
        "events",
        &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
    ),
    (
        "events.k8s.io",
        "events",
        &[
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ],
    ),
];

/// Can this resource be selected by this field label? `selectable` are the paths a custom resource
/// declares in `selectableFields`, without the leading dot.
pub fn is_supported_field(
    group: &str,
    plural: &str,
    namespaced: bool,
    selectable: &[String],
    field: &str,
) -> bool {
    field == "metadata.name"
        || (namespaced && field == "metadata.namespace")
        || selectable.iter().any(|s| s == field)
        || FIELDS.iter().any(|(g, p, fields)| *g == group && *p == plural && fields.contains(&field))
}

fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

/// Field, whether it must be equal, and the still escaped value.
fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    for (at, _) in term.char_indices() {
        // `==` stands before `=`, which would leave the second sign to the value.
        for (operator, equal) in [("!=", false), ("==", true), ("=", true)] {
            if let Some(value) = term[at..].strip_prefix(operator) {
                return Some((&term[..at], equal, value));
            }
        }
    }
    None
}

fn unescape(value: &str) -> Result<String, String> {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(next @ ('\\' | ',' | '=')) => out.push(next),
                Some(next) => {
                    return Err(format!("invalid field selector: invalid escape sequence: \\{next}"));
                }
                None => return Err("invalid field selector: invalid escape sequence: \\".to_owned()),
            },
            ',' | '=' => return Err(format!("invalid field selector: unescaped character in value: {c}")),
            other => out.push(other),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn field_selectors_match() {
        let object = json!({
            "metadata": {"name": "n", "namespace": "ns"},
            "involvedObject": {"uid": "u", "name": "a,b"}, "reason": "R", "source": {"component": "kubelet"},
        });
        let events = |field: &str| is_supported_field("", "events", true, &[], field);
        for (selector, expected) in [
            ("", true),
            ("metadata.name=n", true),
            ("metadata.name==n,metadata.namespace=ns", true),
            ("metadata.name!=n", false),
            ("involvedObject.uid=u,involvedObject.name=a\\,b", true),
            ("involvedObject.kind=", true),
            ("source=kubelet,reason!=S", true),
        ] {
            let parsed = FieldSelector::parse(selector, events).expect(selector);
            let found = parsed.matches(|field| field_value(&object, field));
            assert_eq!(found, expected, "{selector}");
        }
        let parsed = FieldSelector::parse("metadata.name=n", events).expect("fine");
        assert_eq!((parsed.name(), parsed.needs_object()), (Some("n"), false));
        let nodes = |field: &str| is_supported_field("", "nodes", false, &[], field);
        let parsed = FieldSelector::parse("spec.unschedulable=false", nodes).expect("fine");
        assert!(parsed.matches(|field| field_value(&Value::Null, field)));
    }

    #[test]
    fn field_selectors_complain_as_upstream_does() {
        let none = |field: &str| is_supported_field("cluster.x-k8s.io", "machines", true, &[], field);
        for (selector, complaint) in [
            ("spec.foo=1", "field label not supported: spec.foo"),
            ("metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
            ("metadata.name=a\\x", "invalid field selector: invalid escape sequence: \\x"),
            ("metadata.name=a=b", "invalid field selector: unescaped character in value: ="),
        ] {
            let failure = FieldSelector::parse(selector, none).expect_err(selector);
            assert_eq!((failure.code(), failure.message.as_str()), (400, complaint), "{selector}");
        }
        assert!(is_supported_field("g", "r", true, &["spec.a".to_owned()], "spec.a"));
    }

    proptest! {
        #[test]
        fn garbage_never_panics(text in "[a-c =!(),<>\\\\äé\u{0}.]{0,24}") {
            let _ = FieldSelector::parse(&text, |_| true).map(|s| s.matches(|_| Cow::Borrowed("a")));
        }
    }
}
