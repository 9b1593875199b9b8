//! When a case of a rule counts. Owns the conditions and their text form in the tables; must not know a rule.

use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::super::difference::{FieldChange, text_of};
use super::super::facts::{ClusterFacts, ManagedBy};
use super::super::network::Cidr;
use super::super::units::quantity_milli;
use crate::api::version::tolerant_tag;

/// A condition with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleCondition {
    test: Test,
    text: String,
}

/// What is asked of a change and its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    /// There is no new value.
    Removed,
    /// A list, or a text with commas, has lost one of its items.
    ItemLost,
    NewIs(String),
    NewIsWithSeveralControlPlanes(String),
    /// One of these words is missing in the new list.
    NewLacks(Vec<String>),
    /// One of these words is in the new list.
    NewHas(Vec<String>),
    Lowered,
    /// A range of the other address family was appended; the first one stays.
    SecondFamily,
    /// An image tag of an older minor release.
    MinorDowngrade,
    /// An image tag more than one minor release up.
    MinorLeap,
    /// Between a stacked etcd and an external one.
    EtcdMoved,
    CloudProvider,
    LocalEtcd,
    ManagedByControlPlane,
    SinceMinor(u64),
    /// The change was not asked for: it follows from another one.
    Derived,
}

impl RuleCondition {
    /// Does it hold?
    #[must_use]
    pub fn holds(&self, change: &FieldChange, facts: &ClusterFacts) -> bool {
        self.test.holds(change, facts)
    }
}

impl std::fmt::Display for RuleCondition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl Test {
    fn parse(text: &str) -> Result<Self, String> {
        let words = |list: &str| list.split(',').map(str::to_owned).collect();
        if let Some(minor) = text.strip_prefix("minor >= ") {
            return minor.parse().map(Self::SinceMinor).map_err(|error| format!("{text}: {error}"));
        }
        if let Some(list) = text.strip_prefix("new lacks ") {
            return Ok(Self::NewLacks(words(list)));
        }
        if let Some(list) = text.strip_prefix("new has ") {
            return Ok(Self::NewHas(words(list)));
        }
        if let Some(value) = text.strip_prefix("new is ") {
            return Ok(match value.strip_suffix(" with several control planes") {
                Some(value) => Self::NewIsWithSeveralControlPlanes(value.to_owned()),
                None => Self::NewIs(value.to_owned()),
            });
        }
        Ok(match text {
            "removed" => Self::Removed,
            "item lost" => Self::ItemLost,
            "lowered" => Self::Lowered,
            "second family" => Self::SecondFamily,
            "minor downgrade" => Self::MinorDowngrade,
            "minor leap" => Self::MinorLeap,
            "etcd moved" => Self::EtcdMoved,
            "cloud provider" => Self::CloudProvider,
            "local etcd" => Self::LocalEtcd,
            "managed by kcp" => Self::ManagedByControlPlane,
            "derived" => Self::Derived,
            _ => return Err(format!("`{text}` is not a condition")),
        })
    }

    fn holds(&self, change: &FieldChange, facts: &ClusterFacts) -> bool {
        let (old, new) = (items(&change.old), items(&change.new));
        match self {
            Self::Removed => change.new.is_null(),
            Self::ItemLost => old.iter().any(|item| !new.contains(item)),
            Self::NewIs(value) => text_of(&change.new) == *value,
            Self::NewIsWithSeveralControlPlanes(value) => {
                // Unknown counts as several: the answer must not be better than what is known.
                text_of(&change.new) == *value && facts.control_planes().is_none_or(|count| count > 1)
            }
            Self::NewLacks(words) => !change.new.is_null() && words.iter().any(|word| !new.contains(word)),
            Self::NewHas(words) => words.iter().any(|word| new.contains(word)),
            Self::Lowered => number(&change.old).zip(number(&change.new)).is_some_and(|(old, new)| new < old),
            Self::SecondFamily => is_second_family(&text_of(&change.old), &text_of(&change.new)),
            Self::MinorDowngrade => minors(change).is_some_and(|(old, new)| new < old),
            Self::MinorLeap => minors(change).is_some_and(|((old_major, old), (new_major, new))| {
                new_major > old_major || (new_major == old_major && new > old + 1)
            }),
            Self::EtcdMoved => change.old.is_null() || change.new.is_null(),
            Self::CloudProvider => facts.has_cloud_provider,
            Self::LocalEtcd => facts.has_local_etcd,
            Self::ManagedByControlPlane => facts.managed_by == ManagedBy::ControlPlane,
            Self::SinceMinor(minor) => facts.minor.is_some_and(|known| known >= *minor),
            Self::Derived => change.derived_from.is_some(),
        }
    }
}

/// The items of a list, or of a text with commas.
fn items(value: &Value) -> BTreeSet<String> {
    match value {
        Value::Array(items) => items.iter().map(text_of).collect(),
        Value::String(text) => text.split(',').map(|item| item.trim().to_owned()).collect(),
        _ => BTreeSet::new(),
    }
}

fn number(value: &Value) -> Option<f64> {
    quantity_milli(&text_of(value))
}

fn is_second_family(old: &str, new: &str) -> bool {
    match (Cidr::parse_pair(old).as_deref(), Cidr::parse_pair(new).as_deref()) {
        (Some([one]), Some([first, _])) => one == first,
        _ => false,
    }
}

/// Major and minor of both tags.
fn minors(change: &FieldChange) -> Option<((u64, u64), (u64, u64))> {
    let read =
        |value: &Value| tolerant_tag(value.as_str()?).ok().map(|version| (version.major, version.minor));
    Some((read(&change.old)?, read(&change.new)?))
}

impl<'de> Deserialize<'de> for RuleCondition {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let test = Test::parse(&text).map_err(serde::de::Error::custom)?;
        Ok(Self { test, text })
    }
}
