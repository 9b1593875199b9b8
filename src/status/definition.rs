//! Which contract a kind follows, and in which version its objects are read, by the labels of its
//! CustomResourceDefinition. Must not know how definitions are read.
//! Source: cluster-api `internal/contract/version.go`, apimachinery `version/helpers.go`, v1.14.0.

use std::cmp::Ordering;

use serde_json::Value;

use super::contract::Contract;
use crate::api::names::CORE_GROUP;

/// The contract that a definition promises, newest first, and the newest version it promises it for.
///
/// # Errors
/// An operator's sentence when the definition promises no contract that is known here.
pub fn contract_of(definition: &Value) -> Result<(Contract, String), String> {
    let labels = &definition["metadata"]["labels"];
    for (contract, name) in [(Contract::V1Beta2, "v1beta2"), (Contract::V1Beta1, "v1beta1")] {
        let versions = labels[format!("{CORE_GROUP}/{name}")].as_str().unwrap_or_default();
        let newest = versions.split('_').filter(|v| !v.is_empty()).max_by(|a, b| by_age(a, b));
        if let Some(newest) = newest {
            return Ok((contract, newest.to_owned()));
        }
    }
    let name = definition["metadata"]["name"].as_str().unwrap_or_default();
    Err(format!(
        "cannot find any versions matching contract versions [\"v1beta2\" \"v1beta1\"] for CRD {name} as contract version \
         label(s) are either missing or empty (see https://cluster-api.sigs.k8s.io/developer/providers/contracts/\
         overview.html#api-version-labels)"
    ))
}

/// Older before newer: alpha, beta, stable, each by number; names that are no API version come first,
/// the later in the alphabet the older.
fn by_age(a: &str, b: &str) -> Ordering {
    match (parse(a), parse(b)) {
        (Some(x), Some(y)) => x.cmp(&y),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        (None, None) => b.cmp(a),
    }
}

/// Stability (0 alpha, 1 beta, 2 stable), major, minor.
fn parse(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let number = |text: &str| text.parse::<u64>().ok();
    for (stability, word) in [(1, "beta"), (0, "alpha")] {
        if let Some((major, minor)) = rest.split_once(word) {
            return Some((stability, number(major)?, number(minor)?));
        }
    }
    Some((2, number(rest)?, 0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_newest_contract_wins_and_then_the_newest_version() {
        let of = |labels: Value| contract_of(&json!({"metadata": {"name": "xs.g", "labels": labels}}));
        let found = |contract, version: &str| Ok((contract, version.to_owned()));
        for (labels, expected) in [
            (json!({"cluster.x-k8s.io/v1beta2": "v1beta2"}), found(Contract::V1Beta2, "v1beta2")),
            (
                json!({"cluster.x-k8s.io/v1beta2": "v1alpha7_v1_v1beta9", "cluster.x-k8s.io/v1beta1": "v2"}),
                found(Contract::V1Beta2, "v1"),
            ),
            (json!({"cluster.x-k8s.io/v1beta1": "v1alpha4_v1beta1"}), found(Contract::V1Beta1, "v1beta1")),
            (
                json!({"cluster.x-k8s.io/v1beta2": "", "cluster.x-k8s.io/v1beta1": "v1beta10_v1beta9"}),
                found(Contract::V1Beta1, "v1beta10"),
            ),
            (json!({"cluster.x-k8s.io/v1beta2": "odd_v1alpha1"}), found(Contract::V1Beta2, "v1alpha1")),
            (
                json!({"cluster.x-k8s.io/v1alpha3": "v1alpha3"}),
                Err("cannot find any versions matching contract versions [\"v1beta2\" \"v1beta1\"] for CRD xs.g as \
                     contract version label(s) are either missing or empty (see https://cluster-api.sigs.k8s.io/\
                     developer/providers/contracts/overview.html#api-version-labels)"
                    .to_owned()),
            ),
        ] {
            assert_eq!(of(labels.clone()), expected, "{labels}");
        }
    }
}
