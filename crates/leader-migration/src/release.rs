//! Minor releases of Kubernetes, all that leader migration depends on. Owns their reading and order; must not
//! know what changed in which.

use std::fmt;

use k8s_machinery::version;

/// Kubernetes 1.N.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Release(pub u64);

impl Release {
    /// Reads `1.30`, `v1.30.4`, and the version of a library of the same release, `v0.30.4`.
    ///
    /// # Errors
    /// What was expected instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        let expected = "expected a version of Kubernetes such as 1.30 or v1.30.4";
        let version = version::tolerant(text).map_err(|why| format!("{expected}: {why}"))?;
        match version.major {
            0 | 1 => Ok(Self(version.minor)),
            _ => Err(expected.to_owned()),
        }
    }

    /// From an image: the version in its tag. `None` without one, as in `name@sha256:…`.
    pub fn of_image(image: &str) -> Option<Self> {
        let name = image.split('@').next()?;
        // Behind the last `/`: a registry may have a port, which stands behind a colon too.
        let (_, tag) = name.rsplit_once('/').unwrap_or(("", name)).1.split_once(':')?;
        // Tags allow no `+` of a build: projects write `_` for it.
        Self::parse(&tag.replace('_', "+")).ok()
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_clusters_libraries_and_images() {
        for (text, expected) in [
            ("1.30", Some(30)),
            ("v1.27.4", Some(27)),
            ("v0.31.0", Some(31)),
            ("2.1", None),
            ("latest", None),
        ] {
            assert_eq!(Release::parse(text).ok().map(|r| r.0), expected, "{text}");
        }
        for (image, expected) in [
            ("registry.k8s.io/kube-controller-manager:v1.29.3", Some(29)),
            ("localhost:5000/kcm:v1.30.0_vendor.1", Some(30)),
            ("localhost:5000/kcm", None),
            ("registry.k8s.io/kcm@sha256:abc", None),
            ("registry.k8s.io/kcm:v1.29.3@sha256:abc", Some(29)),
        ] {
            assert_eq!(Release::of_image(image).map(|r| r.0), expected, "{image}");
        }
    }
}
