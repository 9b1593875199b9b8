//! Kubernetes versions as plans use them: skew between a control plane and its Machines. Parsing and
//! ordering live in `api::version`.
//! Source: cluster-api `util/version/version.go` and `controlplane/kubeadm`, v1.14.2.

use k8s_machinery::version::parse;

/// `true` when `version` is at least `major.minor`, pre-release and build ignored.
/// A version that does not parse is not.
pub fn at_least(version: &str, major: u64, minor: u64) -> bool {
    parse(version).is_some_and(|v| (v.major, v.minor) >= (major, minor))
}

/// May a control plane at `owner` adopt a Machine at `machine`: same major version and at most one
/// minor apart. Versions that do not parse are not adopted.
pub fn adoptable(owner: &str, machine: &str) -> bool {
    match (parse(owner), parse(machine)) {
        (Some(a), Some(b)) => a.major == b.major && a.minor.abs_diff(b.minor) <= 1,
        _ => false,
    }
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
    }
}
