//! What the components of each release accept: their flags with the type of the values, their feature gates, and what they refuse
//! although it has its type. Owns the tables and the words of a refusal; must not know a change, nor what a flag means.
//!
//! `flags.txt` and `gates.txt` are written by `tests/go/accepted` from the modules of Kubernetes and etcd.

mod flags;
mod gates;
mod limits;
mod together;
mod value;

use std::ops::RangeInclusive;

use serde_json::Value;

use super::render::{API_SERVER, CONTROLLER_MANAGER, ETCD, Release, SCHEDULER};
use k8s_machinery::version::tolerant_tag;

pub use gates::{GateOwner, is_on as gate_is_on, refused as gate_refused};

/// What a component would say at its start, and what to do instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAccepted {
    /// Which component does not start, and why: a sentence.
    pub problem: String,
    /// What to write instead: a sentence.
    pub instead: String,
}

/// Flags of a document that their component refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlagRefusal {
    /// Where the component's part of the document is.
    pub folder: &'static [&'static str],
    /// The flags that are involved: one, or those that do not fit together.
    pub flags: Vec<String>,
    /// What is said of them.
    pub refusal: NotAccepted,
}

/// Where each component has its flags in a ClusterConfiguration.
pub const COMPONENTS: [(&str, &[&str]); 4] = [
    (API_SERVER, &["apiServer"]),
    (CONTROLLER_MANAGER, &["controllerManager"]),
    (SCHEDULER, &["scheduler"]),
    (ETCD, &["etcd", "local"]),
];

/// All flags of a ClusterConfiguration that a component refuses. `minor` is that of Kubernetes, `etcd` the minor of etcd's
/// version 3 that runs or will; of a component whose release is not known nothing is said.
pub fn refused_flags(cluster: &Value, minor: Option<u64>, etcd: Option<u64>) -> Vec<FlagRefusal> {
    let mut found = Vec::new();
    for (component, folder) in COMPONENTS {
        let release = if component == ETCD { etcd } else { minor };
        let Some(release) = release else { continue };
        let given = given(cluster, folder);
        let mut names: Vec<&str> = given.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        // A flag that stands several times is refused once, by the first of its values that is wrong.
        names.dedup();
        for name in names {
            let values = given.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str());
            let refusal = values.filter_map(|value| flags::refused(component, release, name, value)).next();
            found.extend(refusal.map(|refusal| FlagRefusal {
                folder,
                flags: vec![name.to_owned()],
                refusal,
            }));
        }
        let together = together::refused(component, &given).into_iter();
        found.extend(together.map(|(flags, refusal)| FlagRefusal { folder, flags, refusal }));
    }
    found
}

/// Do the values of a flag add up where it stands several times in the component's part of a document?
pub fn flag_adds_up(folder: &[&str], name: &str) -> bool {
    let component = COMPONENTS.iter().find(|(_, known)| *known == folder);
    component.is_some_and(|(component, _)| flags::is_list(component, name))
}

/// Names and values in the order of the list.
fn given(cluster: &Value, folder: &[&str]) -> Vec<(String, String)> {
    let part = folder.iter().try_fold(cluster, |value, name| value.get(*name));
    let list = part.and_then(|part| part["extraArgs"].as_array()).into_iter().flatten();
    let text = |item: &Value, field: &str| item[field].as_str().unwrap_or_default().to_owned();
    list.map(|item| (text(item, "name"), text(item, "value"))).filter(|(name, _)| !name.is_empty()).collect()
}

/// The minor of etcd's version 3 that a ClusterConfiguration leads to: by its tag, by the tag that runs, or by kubeadm's table.
pub fn etcd_minor(cluster: &Value, running: Option<&str>) -> Option<u64> {
    let own = cluster["etcd"]["local"]["imageTag"].as_str().filter(|tag| !tag.is_empty());
    let of_kubeadm = || {
        let release = Release::of(cluster["kubernetesVersion"].as_str()?)?;
        Some(release.etcd_tag(release.minor))
    };
    let tag = own.or(running).or_else(of_kubeadm)?;
    tolerant_tag(tag).ok().filter(|version| version.major == 3).map(|version| version.minor)
}

/// Minor releases, in ranges that may have gaps: `29-31,33-37`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Releases(Vec<RangeInclusive<u64>>);

impl Releases {
    /// `None`: the text is not of this form; `-` is none at all.
    fn parse(text: &str) -> Option<Self> {
        if text == "-" {
            return Some(Self::default());
        }
        let range = |part: &str| {
            let (first, last) = part.split_once('-')?;
            Some(first.parse().ok()?..=last.parse().ok()?)
        };
        text.split(',').map(range).collect::<Option<_>>().map(Self)
    }

    fn has(&self, minor: u64) -> bool {
        self.0.iter().any(|range| range.contains(&minor))
    }

    fn first(&self) -> u64 {
        // Without releases neither bound moves the span of a table.
        self.0.first().map_or(u64::MAX, |range| *range.start())
    }

    fn last(&self) -> u64 {
        self.0.last().map_or(0, |range| *range.end())
    }
}

/// The first and the last release that any of these names.
fn span<'r>(all: impl Iterator<Item = &'r Releases>) -> RangeInclusive<u64> {
    let (first, last) = all.fold((u64::MAX, 0), |(first, last), releases| {
        (first.min(releases.first()), last.max(releases.last()))
    });
    first..=last
}

/// A release after those of a table has the answers of the last one; `None` for one before them.
fn covered(minor: u64, table: &RangeInclusive<u64>) -> Option<u64> {
    (minor >= *table.start()).then_some(minor.min(*table.end()))
}

/// The version as people write it.
fn version(component: &str, minor: u64) -> String {
    if component == ETCD { format!("3.{minor}") } else { format!("1.{minor}") }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod vector_tests;
