//! Which contract a kind follows, and in which version its objects are read, by the labels of its
//! CustomResourceDefinition; how that definition is called. Must not know how definitions are read.
//! Source: cluster-api `internal/contract/{version,metadata}.go`, apimachinery `version/helpers.go`, v1.14.2.

use std::cmp::Ordering;

use crate::status::conditions::wording::plural;
use capi_types::key::Gvk;
use capi_types::names::CORE_GROUP;

/// Which fields of a provider object count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Contract {
    /// `status.initialization`, conditions of Kubernetes' shape.
    V1Beta2,
    /// `status.ready` and what is beside it.
    V1Beta1,
    /// Its definition was not read: fields of v1beta2, and those of v1beta1 where they are absent.
    #[default]
    Unstated,
}

impl Contract {
    /// `new` under v1beta2, `old` under v1beta1; the first of the two when neither is named.
    pub(super) fn choose<T>(
        self,
        new: impl FnOnce() -> Option<T>,
        old: impl FnOnce() -> Option<T>,
    ) -> Option<T> {
        match self {
            Self::V1Beta2 => new(),
            Self::V1Beta1 => old(),
            Self::Unstated => new().or_else(old),
        }
    }
}

/// A kind by its address. The contract demands that the plural follows from the kind.
pub fn gvk(group: &str, version: &str, kind: &str) -> Gvk {
    Gvk {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        plural: plural(&kind.to_lowercase()),
        namespaced: true,
    }
}

/// The name of the definition of a kind.
pub fn name_of(group: &str, kind: &str) -> String {
    format!("{}.{group}", plural(&kind.to_lowercase()))
}

/// The contract that the definition `name` promises, newest first, and the newest version it promises it for.
/// `label` reads one of its labels.
///
/// # Errors
/// An operator's sentence when the definition promises no contract that is known here.
pub fn contract_of<'a>(
    name: &str,
    label: impl Fn(&str) -> Option<&'a str>,
) -> Result<(Contract, String), String> {
    // The newer contract first: a provider may keep both while it moves.
    for (contract, word) in [(Contract::V1Beta2, "v1beta2"), (Contract::V1Beta1, "v1beta1")] {
        let versions = label(&format!("{CORE_GROUP}/{word}")).unwrap_or_default();
        // A label holds no commas, so the contract separates versions by underscores.
        let newest = versions.split('_').filter(|v| !v.is_empty()).max_by(|a, b| by_age(a, b));
        if let Some(newest) = newest {
            return Ok((contract, newest.to_owned()));
        }
    }
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
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_newest_contract_wins_and_then_the_newest_version() {
        let of = |labels: Value| contract_of("xs.g", |name| labels[name].as_str());
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
