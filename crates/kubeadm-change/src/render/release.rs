//! What differs between releases of kubeadm in the manifests they write. Owns the table `releases.toml` and the
//! versions at which a rule changed; must not know any manifest.
//!
//! Source: kubeadm of the minor releases 26 to 37: `constants.go`, `arguments.go`, `manifests.go`, `volumes.go`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use semver::Version;

/// A release of kubeadm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    /// Of `v1.MINOR.PATCH`.
    pub minor: u64,
    /// 999 for a version without one: the newest of its minor.
    pub patch: u64,
}

#[derive(Debug, serde::Deserialize)]
struct Images {
    etcd: BTreeMap<String, String>,
    coredns: String,
}

static TABLE: LazyLock<BTreeMap<(u64, u64), Images>> = LazyLock::new(|| {
    let table: BTreeMap<String, Images> = toml::from_str(include_str!("releases.toml")).unwrap_or_default();
    let release = |text: &str| {
        let (minor, patch) = text.split_once('.')?;
        Some((minor.parse().ok()?, patch.parse().ok()?))
    };
    table.into_iter().filter_map(|(text, images)| Some((release(&text)?, images))).collect()
});

impl Release {
    /// The kubeadm that belongs to a Kubernetes version: `v1.34.1`, `1.34`.
    pub fn of(version: &str) -> Option<Self> {
        let text = version.strip_prefix('v').unwrap_or(version);
        // A minor version alone stands for its newest patch release.
        let text = if text.matches('.').count() == 1 { format!("{text}.999") } else { text.to_owned() };
        let version = Version::parse(&text).ok()?;
        (version.major == 1).then_some(Self { minor: version.minor, patch: version.patch })
    }

    /// The row of the table: the release's own, or that of the nearest one.
    fn images(self) -> Option<&'static Images> {
        // Images change with patch releases: the row before is right until one changes them.
        let nearest = TABLE.range(..=(self.minor, self.patch)).next_back().or_else(|| TABLE.iter().next());
        nearest.map(|(_, images)| images)
    }

    /// Is there a row for exactly this minor release?
    pub fn is_known(self) -> bool {
        TABLE.keys().any(|(minor, _)| *minor == self.minor)
    }

    /// The image tag of etcd for a Kubernetes minor version.
    pub fn etcd_tag(self, kubernetes_minor: u64) -> &'static str {
        let Some(images) = self.images() else { return "" };
        let tag = images.etcd.get(&kubernetes_minor.to_string()).or_else(|| images.etcd.get("*"));
        tag.map_or("", String::as_str)
    }

    /// The image tag of CoreDNS that this kubeadm writes.
    pub fn coredns_tag(self) -> &'static str {
        self.images().map_or("", |images| images.coredns.as_str())
    }

    /// Flags of the user stand behind kubeadm's own, in the user's order; before, all were sorted by name and value.
    pub fn keeps_order(self) -> bool {
        // Releases 1.34.4 and 1.35.1 got the order as a fix.
        let since = match self.minor {
            34 => 4,
            35 => 1,
            _ => 0,
        };
        self.minor >= 34 && self.patch >= since
    }

    /// `authorization-mode` of the user is filtered to the modes that kubeadm knows.
    pub fn filters_authorization_modes(self) -> bool {
        self.minor < 30
    }

    /// The controller manager mounts the folder of flexible volume plugins.
    pub fn mounts_flexvolumes(self) -> bool {
        self.minor < 36
    }

    /// `/etc/pki` is mounted as a whole.
    pub fn mounts_pki_whole(self) -> bool {
        self.minor < 31
    }

    /// Environment variables of the configuration (v1beta4) reach the manifests.
    pub fn reads_extra_envs(self) -> bool {
        self.minor >= 31
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole() {
        let table: BTreeMap<String, Images> =
            toml::from_str(include_str!("releases.toml")).expect("the table");
        assert_eq!(table.len(), TABLE.len());
        assert!(TABLE.values().all(|images| images.etcd.contains_key("*")));
    }

    #[test]
    fn rules_change_with_releases() {
        let release = |text: &str| Release::of(text).expect(text);
        assert_eq!(release("v1.34.4"), Release { minor: 34, patch: 4 });
        assert!(!release("v1.34.3").keeps_order() && release("v1.34.4").keeps_order());
        assert!(!release("1.35.0").keeps_order() && release("1.35.1").keeps_order());
        assert!(!release("1.33.7").keeps_order() && release("1.36.0").keeps_order());
        assert!(release("1.36").keeps_order(), "without a patch, the newest is meant");
        assert_eq!(Release::of("stable-1"), None);
        assert_eq!(release("v1.34.0").etcd_tag(34), "3.6.4-0");
        assert_eq!(release("v1.34.4").etcd_tag(33), "3.5.24-0");
        assert_eq!(release("v1.34.4").etcd_tag(34), "3.6.5-0");
        assert_eq!(release("v1.99.0").etcd_tag(99), "3.7.0-0");
        assert_eq!(release("v1.22.0").coredns_tag(), "v1.9.3");
        assert!(!release("v1.99.0").is_known() && release("v1.36.0").is_known());
    }
}
