//! Versions as Cluster API reads them: with a leading `v`, sometimes shortened, with build metadata
//! that counts. Owns parsing, order and distance; must not know a kind.
//!
//! Source: cluster-api `util/version/version.go` v1.14.2; blang/semver `semver.go` v4.

use std::cmp::Ordering;

use semver::Version;

/// Is this a whole semantic version behind an optional `v`?
pub fn is_strict(text: &str) -> bool {
    Version::parse(text.strip_prefix('v').unwrap_or(text)).is_ok()
}

/// Reads `v1.35`, ` 1.035.0` and the like, as `ParseTolerant` does.
///
/// # Errors
/// What is wrong, in the library's words where it has short ones.
pub fn tolerant(text: &str) -> Result<Version, String> {
    let text = text.trim();
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text.splitn(3, '.').map(trim_zeros).collect();
    if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
        return Err("Short version cannot contain PreRelease/Build meta data".to_owned());
    }
    parts.resize(3, "0".to_owned());
    // The patch part carries pre-release and build as well; the parser judges it.
    for (part, name) in parts.iter().zip(["major", "minor"]) {
        if !part.bytes().all(|b| b.is_ascii_digit()) {
            return Err(format!("Invalid character(s) found in {name} number {part:?}"));
        }
    }
    Version::parse(&parts.join(".")).map_err(|error| error.to_string())
}

/// The same where it does not matter what is wrong.
pub fn parse(text: &str) -> Option<Version> {
    tolerant(text).ok()
}

/// Image tags have `_` where versions have `+`.
///
/// # Errors
/// As [`tolerant`].
pub fn tolerant_tag(tag: &str) -> Result<Version, String> {
    tolerant(&tag.replace('_', "+"))
}

fn trim_zeros(part: &str) -> String {
    if part.len() < 2 {
        return part.to_owned();
    }
    let rest = part.trim_start_matches('0');
    // One zero stays where nothing follows, or a pre-release does.
    if rest.starts_with(|c: char| c.is_ascii_digit()) { rest.to_owned() } else { format!("0{rest}") }
}

/// Order without pre-release and build.
pub fn compare_release(a: &Version, b: &Version) -> Ordering {
    (a.major, a.minor, a.patch).cmp(&(b.major, b.minor, b.patch))
}

/// Semantic precedence, then build identifiers from left to right: numbers by value, a number before
/// text, a longer list after its prefix. `None` when two different texts decide: the order of `+vmware`
/// and `+k3s` is not defined.
pub fn compare(a: &Version, b: &Version) -> Option<Ordering> {
    let order = a.cmp_precedence(b);
    if order != Ordering::Equal {
        return Some(order);
    }
    let (a, b) = (a.build.as_str(), b.build.as_str());
    let (mut left, mut right) = (a.split('.'), b.split('.'));
    if a.is_empty() || b.is_empty() {
        // A version without build comes before the same one with build.
        return Some(a.is_empty().cmp(&b.is_empty()).reverse());
    }
    loop {
        let (l, r) = match (left.next(), right.next()) {
            (None, None) => return Some(Ordering::Equal),
            (None, Some(_)) => return Some(Ordering::Less),
            (Some(_), None) => return Some(Ordering::Greater),
            (Some(l), Some(r)) => (l, r),
        };
        match (l.parse::<u64>().ok(), r.parse::<u64>().ok()) {
            (Some(l), Some(r)) if l != r => return Some(l.cmp(&r)),
            (Some(_), None) => return Some(Ordering::Less),
            (None, Some(_)) => return Some(Ordering::Greater),
            (None, None) if l != r => return None,
            _ => {}
        }
    }
}

/// Two or more minor versions up: more than one step.
pub fn skips_minor(from: &Version, to: &Version) -> bool {
    compare_release(to, &Version::new(from.major, from.minor.saturating_add(2), 0)) != Ordering::Less
}

/// Feature gate `ControlPlaneKubeletLocalMode` is switched on for this version unless it was set: 1.31 up
/// to, but not including, 1.36.
/// Source: `desiredstate/desired_state.go` `DefaultFeatureGates`.
pub fn wants_kubelet_local_mode(version: &str) -> bool {
    parse(version).is_some_and(|v| v.major == 1 && (31..36).contains(&v.minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_padded_versions_are_read() {
        for (text, expected) in [
            ("v1.35", Ok("1.35.0")),
            (" v1.035.00 ", Ok("1.35.0")),
            ("1.2.3-rc.1+b", Ok("1.2.3-rc.1+b")),
            ("latest", Err("Invalid character(s) found in major number \"0latest\"")),
            ("1.2-rc", Err("Short version cannot contain PreRelease/Build meta data")),
        ] {
            let found = tolerant(text).map(|version| version.to_string());
            assert_eq!(found.as_deref(), expected.map_err(str::to_owned).as_ref().map(|t| *t), "{text}");
        }
        assert_eq!(tolerant_tag("v1.11.1_x").map(|v| v.to_string()), Ok("1.11.1+x".to_owned()));
    }

    #[test]
    fn build_metadata_counts_where_it_is_asked_to() {
        let version = |text: &str| tolerant(text).expect(text);
        for (a, b, expected) in [
            ("1.2.3", "1.2.3", Some(Ordering::Equal)),
            ("1.2.3+b", "1.2.3", Some(Ordering::Greater)),
            ("1.2.3", "1.2.3+b", Some(Ordering::Less)),
            ("1.2.3+2", "1.2.3+10", Some(Ordering::Less)),
            ("1.2.3+2", "1.2.3+x", Some(Ordering::Less)),
            ("1.2.3+x.1", "1.2.3+x", Some(Ordering::Greater)),
            ("1.2.3+x", "1.2.3+y", None),
            ("1.2.3-rc.1", "1.2.3", Some(Ordering::Less)),
        ] {
            assert_eq!(compare(&version(a), &version(b)), expected, "{a} {b}");
        }
        assert!(skips_minor(&version("1.34.9"), &version("1.36.0-rc.0")));
        assert!(skips_minor(&version("1.34.9"), &version("2.0.0")));
        assert!(!skips_minor(&version("1.34.0"), &version("1.35.9")));
        assert!(!skips_minor(&version("1.34.0"), &version("1.30.0")));
    }

    #[test]
    fn tolerant_parsing() {
        for (text, expected) in [
            ("v1.34.1", Some("1.34.1")),
            (" 1.34 ", Some("1.34.0")),
            ("v1", Some("1.0.0")),
            ("v01.034.1", Some("1.34.1")),
            ("v1.34.1-rc.1+build.5", Some("1.34.1-rc.1+build.5")),
            ("v1.2.3.4", None),
            ("", None),
            ("latest", None),
        ] {
            assert_eq!(parse(text).map(|v| v.to_string()).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn build_tags_break_ties() {
        let order = |a: &str, b: &str| compare(&parse(a).expect(a), &parse(b).expect(b));
        assert_eq!(order("v1.2.3+1", "v1.2.3+2"), Some(Ordering::Less));
        assert_eq!(order("v1.2.3+1", "v1.2.3+a"), Some(Ordering::Less));
        assert_eq!(order("v1.2.3+a.1", "v1.2.3+a"), Some(Ordering::Greater));
        assert_eq!(order("v1.2.3+a", "v1.2.3+b"), None);
        assert_eq!(order("v1.2.3-rc.1", "v1.2.3"), Some(Ordering::Less));
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
