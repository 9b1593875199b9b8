//! Feature gates of each release, of Kubernetes' components and of kubeadm. Owns the table and what is said of a gate that is unknown or
//! locked.
//!
//! Source: component-base `featuregate/feature_gate.go` (`SetFromMap`), `colon_separated_multimap_string_string.go`.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::LazyLock;

use serde_json::Value;

use super::super::units::go_bool;
use super::{Releases, covered, span};
use capstan_base::text::did_you_mean;

const TABLE: &str = include_str!("gates.txt");

/// Which program reads the feature gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateOwner {
    /// API server, controller manager, scheduler, kubelet and kube-proxy.
    Kubernetes,
    /// kubeadm itself: `featureGates` of a ClusterConfiguration.
    Kubeadm,
}

impl GateOwner {
    fn word(self) -> &'static str {
        match self {
            Self::Kubernetes => "kubernetes",
            Self::Kubeadm => "kubeadm",
        }
    }
}

struct KnownGate {
    releases: Releases,
    on_by_itself: Releases,
    locked_on: Releases,
    locked_off: Releases,
}

type Gates = BTreeMap<&'static str, KnownGate>;

static OWNERS: LazyLock<BTreeMap<&'static str, Gates>> = LazyLock::new(|| {
    let mut owners: BTreeMap<&str, Gates> = BTreeMap::new();
    for (owner, name, gate) in TABLE.lines().filter_map(row) {
        owners.entry(owner).or_default().insert(name, gate);
    }
    owners
});

/// `OWNER NAME RELEASES [ON BY ITSELF [LOCKED TO TRUE [LOCKED TO FALSE]]]`.
fn row(line: &'static str) -> Option<(&'static str, &'static str, KnownGate)> {
    let mut words = line.split(' ').take_while(|word| !word.starts_with('#'));
    let (owner, name, releases) = (words.next()?, words.next()?, Releases::parse(words.next()?)?);
    let mut next = || words.next().map_or(Some(Releases::default()), Releases::parse);
    let (on_by_itself, locked_on, locked_off) = (next()?, next()?, next()?);
    Some((owner, name, KnownGate { releases, on_by_itself, locked_on, locked_off }))
}

fn releases(gates: &Gates) -> RangeInclusive<u64> {
    span(gates.values().map(|gate| &gate.releases))
}

/// Why a release does not take a gate, in words that follow a colon. `None`: it does, or nothing is known of it.
pub fn refused(owner: GateOwner, minor: u64, name: &str, on: bool) -> Option<String> {
    let gates = OWNERS.get(owner.word())?;
    let minor = covered(minor, &releases(gates))?;
    let there = |gate: &&KnownGate| gate.releases.has(minor);
    let Some(gate) = gates.get(name).filter(there) else {
        return Some(absent(gates, minor, name));
    };
    let locked = if on { &gate.locked_off } else { &gate.locked_on };
    // kubeadm warns of a gate that is locked, and goes on.
    let is_locked = owner == GateOwner::Kubernetes && locked.has(minor);
    is_locked.then(|| format!("the gate {name} is locked to {} in 1.{minor}", !on))
}

fn absent(gates: &Gates, minor: u64, name: &str) -> String {
    match gates.get(name).map(|gate| &gate.releases) {
        Some(releases) if minor < releases.first() => {
            format!("the gate {name} begins with 1.{}, this is 1.{minor}", releases.first())
        }
        Some(releases) => {
            format!("the gate {name} is gone: the last release with it was 1.{}", releases.last())
        }
        None => {
            let there = gates.iter().filter(|(_, gate)| gate.releases.has(minor)).map(|(name, _)| *name);
            format!("1.{minor} does not have a gate {name}{}", did_you_mean(name, there))
        }
    }
}

/// Is a gate of Kubernetes on: given so, or by itself? `given` is the `featureGates` of a document.
pub fn is_on(minor: u64, name: &str, given: &Value) -> bool {
    let by_itself = || {
        let gates = OWNERS.get(GateOwner::Kubernetes.word());
        let release = gates.and_then(|gates| covered(minor, &releases(gates)));
        let gate = gates.and_then(|gates| gates.get(name));
        // Of what is not known the answer refuses nothing.
        release.is_none_or(|release| gate.is_some_and(|gate| gate.on_by_itself.has(release)))
    };
    given[name].as_bool().unwrap_or_else(by_itself)
}

/// The same for the value of `--feature-gates`: `A=true,kube:B=false`. Since 1.31 a component may stand before a gate.
pub(super) fn refused_list(minor: u64, list: &str) -> Option<String> {
    let pairs: Vec<&str> = list.split(',').map(str::trim).filter(|pair| !pair.is_empty()).collect();
    let prefixed = pairs.iter().filter(|pair| pair.starts_with("kube:")).count();
    let plain = pairs.iter().filter(|pair| !pair.contains(':')).count();
    if prefixed > 0 && plain > 0 {
        return Some("gates with `kube:` and without must not be mixed".to_owned());
    }
    pairs.into_iter().find_map(|pair| refused_pair(minor, pair))
}

fn refused_pair(minor: u64, pair: &str) -> Option<String> {
    let (component, gate) = pair.split_once(':').unwrap_or(("kube", pair));
    if component != "kube" {
        // The table has no gates of other components: nothing is said of them.
        return (minor < 31).then(|| format!("1.{minor} does not read `{component}:` before a gate"));
    }
    let Some((name, value)) = gate.split_once('=') else {
        return Some(format!("`{pair}` is not GATE=true or GATE=false"));
    };
    match go_bool(value.trim()) {
        None => Some(format!("`{value}` is not true or false")),
        Some(on) => refused(GateOwner::Kubernetes, minor, name.trim(), on),
    }
}

/// Is every line of the table, that is not of its head, in its form?
#[cfg(test)]
pub(super) fn is_whole() -> bool {
    TABLE.lines().filter(|line| !line.starts_with('#')).all(|line| row(line).is_some())
}
