//! Label selectors of objects: their text form and whether they match. Must not know which kind they
//! belong to.
//! Source: apimachinery `meta/v1/helpers.go` (`LabelSelectorAsSelector`), v0.35.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// As in `status.selector` of scalable kinds: requirements by key, joined with commas.
pub fn to_text(selector: &LabelSelector) -> String {
    let labels = selector.match_labels.iter().flatten().map(|(k, v)| (k.clone(), format!("{k}={v}")));
    let expressions =
        selector.match_expressions.iter().flatten().map(|r| (r.key.clone(), requirement_text(r)));
    let mut parts: Vec<(String, String)> = labels.chain(expressions).collect();
    // A stable sort: requirements of one key keep their order, so the text is always the same.
    parts.sort_by(|a, b| a.0.cmp(&b.0));
    parts.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(",")
}

fn requirement_text(requirement: &LabelSelectorRequirement) -> String {
    let mut values = requirement.values.clone().unwrap_or_default();
    // As upstream prints them, so that the text does not depend on how the values were listed.
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
pub fn matches(selector: &LabelSelector, labels: Option<&BTreeMap<String, String>>) -> bool {
    let empty = BTreeMap::new();
    let labels = labels.unwrap_or(&empty);
    let mut requirements = 0;
    let by_label = selector.match_labels.iter().flatten().all(|(k, v)| {
        // Counting may stop early, for one requirement that fails decides.
        requirements += 1;
        labels.get(k) == Some(v)
    });
    let by_expression = selector.match_expressions.iter().flatten().all(|r| {
        requirements += 1;
        fulfils(r, labels.get(&r.key))
    });
    by_label && by_expression && requirements > 0
}

/// Whether `labels` fulfil a selector that may be left out: absent and empty ones select everything.
pub fn selects(selector: Option<&LabelSelector>, labels: Option<&BTreeMap<String, String>>) -> bool {
    let Some(selector) = selector else { return true };
    let is_empty = selector.match_labels.iter().flatten().next().is_none()
        && selector.match_expressions.iter().flatten().next().is_none();
    is_empty || matches(selector, labels)
}

/// Can the selector be used at all? Nothing but its own text is looked at.
///
/// # Errors
/// The first requirement that cannot be read.
pub fn check(selector: &LabelSelector) -> Result<(), String> {
    for (key, value) in selector.match_labels.iter().flatten() {
        check_key(key)?;
        check_value(value)?;
    }
    for requirement in selector.match_expressions.iter().flatten() {
        check_key(&requirement.key)?;
        let values = requirement.values.as_deref().unwrap_or_default();
        values.iter().try_for_each(|value| check_value(value))?;
        match requirement.operator.as_str() {
            "In" | "NotIn" if values.is_empty() => {
                return Err("for 'in', 'notin' operators, values set can't be empty".to_owned());
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                return Err("values set must be empty for exists and does not exist".to_owned());
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => return Err(format!("{other:?} is not a valid label selector operator")),
        }
    }
    Ok(())
}

fn check_key(key: &str) -> Result<(), String> {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let label =
        |part: &str| is_word(part, |c| c == '-', 63) && !part.contains(|c: char| c.is_ascii_uppercase());
    let domain = |prefix: &str| prefix.len() <= 253 && prefix.split('.').all(label);
    if is_word(name, |c| "-_.".contains(c), 63) && prefix.is_none_or(domain) {
        return Ok(());
    }
    Err(format!("{key:?} is not a valid label key"))
}

fn check_value(value: &str) -> Result<(), String> {
    if value.is_empty() || is_word(value, |c| "-_.".contains(c), 63) {
        return Ok(());
    }
    Err(format!("{value:?} is not a valid label value"))
}

/// Letters and digits, with `inner` characters between them.
fn is_word(text: &str, inner: impl Fn(char) -> bool, length_max: usize) -> bool {
    let ends = [text.chars().next(), text.chars().next_back()];
    text.len() <= length_max
        && ends.iter().all(|end| end.is_some_and(|c| c.is_ascii_alphanumeric()))
        && text.chars().all(|c| c.is_ascii_alphanumeric() || inner(c))
}

fn fulfils(requirement: &LabelSelectorRequirement, value: Option<&String>) -> bool {
    let listed = |v: &String| requirement.values.iter().flatten().any(|known| known == v);
    match requirement.operator.as_str() {
        "In" => value.is_some_and(listed),
        // A label that is absent is in no set.
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

    #[test]
    fn what_is_left_out_selects_everything() {
        let labels = [("a".to_owned(), "b".to_owned())].into();
        assert!(selects(None, None) && selects(Some(&LabelSelector::default()), Some(&labels)));
        let of = |value: &str| LabelSelector {
            match_labels: Some([("a".to_owned(), value.to_owned())].into()),
            match_expressions: Some(Vec::new()),
        };
        assert!(selects(Some(&of("b")), Some(&labels)));
        assert!(!selects(Some(&of("c")), Some(&labels)) && !selects(Some(&of("b")), None));
    }

    #[test]
    fn selectors_that_cannot_be_read_are_told() {
        let with = |r: LabelSelectorRequirement| LabelSelector {
            match_expressions: Some(vec![r]),
            ..LabelSelector::default()
        };
        let told = |key, operator, values| {
            check(&with(requirement(key, operator, values))).err().unwrap_or_default()
        };
        for (key, operator, values, expected) in [
            ("a", "In", &["b", ""][..], ""),
            ("x.y-z.io/a_b.c", "DoesNotExist", &[], ""),
            ("a", "In", &[], "for 'in', 'notin' operators, values set can't be empty"),
            ("a", "Exists", &["b"], "values set must be empty for exists and does not exist"),
            ("a", "Near", &["b"], "\"Near\" is not a valid label selector operator"),
            ("-a", "Exists", &[], "\"-a\" is not a valid label key"),
            ("", "Exists", &[], "\"\" is not a valid label key"),
            ("X/a", "Exists", &[], "\"X/a\" is not a valid label key"),
            ("a/b/c", "Exists", &[], "\"a/b/c\" is not a valid label key"),
            ("a", "NotIn", &["b c"], "\"b c\" is not a valid label value"),
        ] {
            assert_eq!(told(key, operator, values), expected, "{key} {operator}");
        }
        let labels = Some([("a".to_owned(), "é".to_owned())].into());
        assert!(check(&LabelSelector { match_labels: labels, match_expressions: None }).is_err());
    }
}
