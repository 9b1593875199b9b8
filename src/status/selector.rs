//! Label selectors of objects: their text form and whether they match. Must not know which kind they
//! belong to.
//! Source: apimachinery `meta/v1/helpers.go` (`LabelSelectorAsSelector`), v0.35.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// As in `status.selector` of scalable kinds: requirements by key, joined with commas.
#[must_use]
pub fn to_text(selector: &LabelSelector) -> String {
    let labels = selector.match_labels.iter().flatten().map(|(k, v)| (k.clone(), format!("{k}={v}")));
    let expressions =
        selector.match_expressions.iter().flatten().map(|r| (r.key.clone(), requirement_text(r)));
    let mut parts: Vec<(String, String)> = labels.chain(expressions).collect();
    parts.sort_by(|a, b| a.0.cmp(&b.0));
    parts.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(",")
}

fn requirement_text(requirement: &LabelSelectorRequirement) -> String {
    let mut values = requirement.values.clone().unwrap_or_default();
    values.sort();
    let (key, values) = (&requirement.key, values.join(","));
    match requirement.operator.as_str() {
        "In" => format!("{key} in ({values})"),
        "NotIn" => format!("{key} notin ({values})"),
        "DoesNotExist" => format!("!{key}"),
        _ => key.clone(),
    }
}

/// Whether `labels` fulfil every requirement. A selector without any matches nothing here: Cluster
/// API refuses such owners.
#[must_use]
pub fn matches(selector: &LabelSelector, labels: Option<&BTreeMap<String, String>>) -> bool {
    let empty = BTreeMap::new();
    let labels = labels.unwrap_or(&empty);
    let mut requirements = 0;
    let by_label = selector.match_labels.iter().flatten().all(|(k, v)| {
        requirements += 1;
        labels.get(k) == Some(v)
    });
    let by_expression = selector.match_expressions.iter().flatten().all(|r| {
        requirements += 1;
        fulfils(r, labels.get(&r.key))
    });
    by_label && by_expression && requirements > 0
}

fn fulfils(requirement: &LabelSelectorRequirement, value: Option<&String>) -> bool {
    let listed = |v: &String| requirement.values.iter().flatten().any(|known| known == v);
    match requirement.operator.as_str() {
        "In" => value.is_some_and(listed),
        "NotIn" => !value.is_some_and(listed),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirement(key: &str, operator: &str, values: &[&str]) -> LabelSelectorRequirement {
        let values = Some(values.iter().map(|v| (*v).to_owned()).collect());
        LabelSelectorRequirement { key: key.into(), operator: operator.into(), values }
    }

    #[test]
    fn text_and_matching_agree_with_kubernetes() {
        let selector = LabelSelector {
            match_labels: Some([("tier".to_owned(), "a".to_owned())].into()),
            match_expressions: Some(vec![
                requirement("env", "In", &["prod", "dev"]),
                requirement("old", "DoesNotExist", &[]),
            ]),
        };
        assert_eq!(to_text(&selector), "env in (dev,prod),!old,tier=a");
        let labels = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
        };
        for (given, expected) in [
            (labels(&[("tier", "a"), ("env", "dev")]), true),
            (labels(&[("tier", "a"), ("env", "test")]), false),
            (labels(&[("tier", "a"), ("env", "dev"), ("old", "")]), false),
            (labels(&[]), false),
        ] {
            assert_eq!(matches(&selector, Some(&given)), expected, "{given:?}");
        }
        assert!(!matches(&LabelSelector::default(), Some(&labels(&[("a", "b")]))));
    }
}
