//! Kubernetes versions as plans use them: skew between a control plane and its Machines, and what
//! a version implies for kubeadm. Parsing and ordering live in `status::versions`, because status
//! sorts by them too.
//! Source: cluster-api `util/version/version.go` and `controlplane/kubeadm`, v1.14.0.

use crate::status::versions;

/// `true` when `version` is at least `major.minor`, pre-release and build ignored.
/// A version that does not parse is not.
#[must_use]
pub fn at_least(version: &str, major: u64, minor: u64) -> bool {
    versions::parse(version).is_some_and(|v| (v.major, v.minor) >= (major, minor))
}

/// May a control plane at `owner` adopt a Machine at `machine`: same major version and at most one
/// minor apart. Versions that do not parse are not adopted.
#[must_use]
pub fn adoptable(owner: &str, machine: &str) -> bool {
    match (versions::parse(owner), versions::parse(machine)) {
        (Some(a), Some(b)) => a.major == b.major && a.minor.abs_diff(b.minor) <= 1,
        _ => false,
    }
}

/// Why a control plane may not go from `from` to `to` in one step; `None` when it may, and also
/// when one of them does not parse (admission reports that).
/// Lowering a version is not refused, as upstream's webhook does not refuse it either.
#[must_use]
pub fn upgrade_refusal(from: &str, to: &str) -> Option<String> {
    let (a, b) = (versions::parse(from)?, versions::parse(to)?);
    if a.major != b.major {
        return Some(format!("{from} to {to} changes the major version"));
    }
    (b.minor > a.minor + 1)
        .then(|| format!("{from} to {to} skips {} minor version(s)", b.minor - a.minor - 1))
}

/// Feature gate `ControlPlaneKubeletLocalMode` must be switched on for this version when nobody
/// set it: 1.31 up to, but not including, 1.36.
/// Source: `desiredstate/desired_state.go` `DefaultFeatureGates`.
#[must_use]
pub fn wants_kubelet_local_mode(version: &str) -> bool {
    at_least(version, 1, 31) && !at_least(version, 1, 36)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skew_rules() {
        assert!(adoptable("v1.34.1", "v1.33.9"));
        assert!(adoptable("v1.34.1", "v1.35.0"));
        assert!(!adoptable("v1.34.1", "v1.32.0"));
        assert!(!adoptable("v1.34.1", "v2.34.1"));
        assert!(!adoptable("v1.34.1", "latest"));
        assert_eq!(upgrade_refusal("v1.33.1", "v1.34.0"), None);
        assert_eq!(upgrade_refusal("v1.34.1", "v1.33.0"), None);
        assert_eq!(
            upgrade_refusal("v1.32.1", "v1.34.0").as_deref(),
            Some("v1.32.1 to v1.34.0 skips 1 minor version(s)")
        );
    }

    #[test]
    fn kubelet_local_mode_is_for_1_31_up_to_1_35() {
        for (version, expected) in [
            ("v1.30.9", false),
            ("v1.31.0-beta.1", true),
            ("v1.35.4", true),
            ("v1.36.0-alpha.0", false),
            ("v1.36.1", false),
        ] {
            assert_eq!(wants_kubelet_local_mode(version), expected, "{version}");
        }
    }
}
