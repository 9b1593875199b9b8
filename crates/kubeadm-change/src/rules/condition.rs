//! When a case of a rule counts. Owns the conditions, their text form in the tables, and how values are compared: as the
//! component reads them, not as texts. Must not know a rule.

use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::super::difference::{FieldChange, text_of};
use super::super::facts::{ClusterFacts, ManagedBy};
use super::super::network::{Cidr, canonical_name};
use super::super::path::PathStep;
use super::super::units::{go_bool, quantity_milli};
use super::sides::Sides;
use capstan_base::go_duration::GoDuration;
use k8s_machinery::version::tolerant_tag;

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
    /// `true` and `false` in every form that Go reads.
    NewIs(String),
    NewIsWithSeveralControlPlanes(String),
    /// One of these words is missing in the new list.
    NewLacks(Vec<String>),
    /// One of these words is in the new list.
    NewHas(Vec<String>),
    Lowered,
    /// Lowered, and the new value is below this one.
    LoweredBelow(String),
    /// A number of bytes below the size of etcd's database, where that is known.
    BelowDatabase,
    /// From one of these two values to the other one.
    Between(String, String),
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
    /// The key of the cluster's authority is not on the nodes.
    ExternalAuthority,
    ManagedByControlPlane,
    SinceMinor(u64),
    /// The change was not asked for: it follows from another one.
    Derived,
}

impl RuleCondition {
    /// Does it hold? `unset` is what the component takes when nothing is given.
    pub fn holds(&self, change: &FieldChange, facts: &ClusterFacts, unset: Option<&str>) -> bool {
        self.test.holds(change, facts, &Sides::of(change, facts, unset), unset)
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
        if let Some(limit) = text.strip_prefix("lowered below ") {
            return Ok(Self::LoweredBelow(limit.to_owned()));
        }
        if let Some((one, other)) = text.strip_prefix("between ").and_then(|pair| pair.split_once(" and ")) {
            return Ok(Self::Between(one.to_owned(), other.to_owned()));
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
            "below the database" => Self::BelowDatabase,
            "second family" => Self::SecondFamily,
            "minor downgrade" => Self::MinorDowngrade,
            "minor leap" => Self::MinorLeap,
            "etcd moved" => Self::EtcdMoved,
            "cloud provider" => Self::CloudProvider,
            "local etcd" => Self::LocalEtcd,
            "external authority" => Self::ExternalAuthority,
            "managed by kcp" => Self::ManagedByControlPlane,
            "derived" => Self::Derived,
            _ => return Err(format!("`{text}` is not a condition")),
        })
    }

    fn holds(&self, change: &FieldChange, facts: &ClusterFacts, sides: &Sides, unset: Option<&str>) -> bool {
        let new = items(&change.new);
        let amount = |value: &Value| amount(value, unset);
        let is_lowered = || {
            let new = amount(&sides.new);
            // Nodes may run with different values: it is lowered when it is on one of them.
            sides.olds.iter().any(|old| amount(old).zip(new).is_some_and(|(old, new)| new < old))
        };
        match self {
            Self::Removed => change.new.is_null(),
            Self::ItemLost => sides.olds.iter().any(|old| has_lost(change, old)),
            Self::NewIs(value) => is_value(&change.new, value),
            Self::NewIsWithSeveralControlPlanes(value) => {
                // Unknown counts as several: the answer must not be better than what is known.
                is_value(&change.new, value) && facts.control_planes().is_none_or(|count| count > 1)
            }
            // A flag that is taken away gets kubeadm's own value; `removed` is the condition for that.
            Self::NewLacks(words) => !change.new.is_null() && words.iter().any(|word| !new.contains(word)),
            Self::NewHas(words) => words.iter().any(|word| new.contains(word)),
            Self::Lowered => is_lowered(),
            Self::LoweredBelow(limit) => match quantity_milli(limit) {
                Some(limit) => is_lowered() && amount(&sides.new).is_some_and(|new| new < limit),
                None => is_shortened_below(sides, limit),
            },
            Self::BelowDatabase => {
                // Without a look at etcd the size is not known, and nothing can be said.
                let size = facts.etcd_database_bytes.and_then(|bytes| quantity_milli(&bytes.to_string()));
                amount(&sides.new).zip(size).is_some_and(|(new, size)| new < size)
            }
            Self::Between(one, other) => {
                // The stored value is the first, before those that run.
                let old = sides.olds.first().unwrap_or(&Value::Null);
                (is_value(old, one) && is_value(&sides.new, other))
                    || (is_value(old, other) && is_value(&sides.new, one))
            }
            Self::SecondFamily => is_second_family(&text_of(&change.old), &text_of(&change.new)),
            Self::MinorDowngrade => any_minors(sides, |old, new| new < old),
            Self::MinorLeap => any_minors(sides, |(old_major, old), (new_major, new)| {
                new_major > old_major || (new_major == old_major && new > old + 1)
            }),
            // A stacked etcd has no such fields: where one side lacks them, etcd moves.
            Self::EtcdMoved => change.old.is_null() || change.new.is_null(),
            Self::CloudProvider => facts.has_cloud_provider,
            Self::LocalEtcd => facts.has_local_etcd,
            Self::ExternalAuthority => facts.control_plane.iter().any(|node| node.host.external_ca),
            Self::ManagedByControlPlane => facts.managed_by == ManagedBy::ControlPlane,
            Self::SinceMinor(minor) => facts.minor.is_some_and(|known| known >= *minor),
            Self::Derived => change.derived_from.is_some(),
        }
    }
}

/// The items of a list, or of a text with commas, whatever their order; of a flag that stands several times those of all its
/// values. Source: pflag `readAsCSV` (quotes around an item).
fn items(value: &Value) -> BTreeSet<String> {
    let split = |text: &str| -> Vec<String> {
        text.split(',').map(|item| item.trim().trim_matches('"').trim().to_owned()).collect()
    };
    match value {
        Value::Array(items) => items.iter().flat_map(|item| split(&text_of(item))).collect(),
        Value::String(text) => split(text).into_iter().collect(),
        _ => BTreeSet::new(),
    }
}

/// Is an item of the old value missing in the new one? Values of flags count as they are spelled, names in certificates do not.
fn has_lost(change: &FieldChange, old: &Value) -> bool {
    let is_flag = change.path.0.iter().any(|step| matches!(step, PathStep::Item(_)));
    let spelled = |item: String| if is_flag { item } else { canonical_name(&item) };
    let all = |value: &Value| items(value).into_iter().map(spelled).collect::<BTreeSet<_>>();
    !all(old).is_subset(&all(&change.new))
}

/// Is it this value? Of a flag that stands several times the last one counts.
fn is_value(value: &Value, expected: &str) -> bool {
    let value = value.as_array().and_then(|values| values.last()).unwrap_or(value);
    let text = text_of(value);
    // Components read `f` and `0` as false, too: `leader-elect=f` must not pass as another word.
    match go_bool(expected) {
        Some(expected) => go_bool(&text) == Some(expected),
        None => text == expected,
    }
}

/// A number in thousandths. An absent number and 0 stand for the component's default; a number below 0 stands for no limit.
fn amount(value: &Value, unset: Option<&str>) -> Option<f64> {
    let value = value.as_array().and_then(|values| values.last()).unwrap_or(value);
    if value == UNLIMITED {
        return Some(f64::INFINITY);
    }
    let number = if value.is_null() { Some(0.0) } else { quantity_milli(&text_of(value)) }?;
    match unset {
        Some(UNLIMITED) if number == 0.0 => Some(f64::INFINITY),
        Some(unset) if number == 0.0 => quantity_milli(unset),
        None if value.is_null() => None,
        _ if number < 0.0 => Some(f64::INFINITY),
        _ => Some(number),
    }
}

/// Is it a duration that was longer, and is shorter than the limit now?
fn is_shortened_below(sides: &Sides, limit: &str) -> bool {
    let read = |value: &Value| {
        let value = value.as_array().and_then(|values| values.last()).unwrap_or(value);
        GoDuration::parse(&text_of(value)).map(GoDuration::ns)
    };
    let Some(new) = read(&sides.new) else { return false };
    GoDuration::parse(limit).is_some_and(|limit| new < limit.ns())
        && sides.olds.iter().filter_map(read).any(|old| new < old)
}

/// What `unset` of a rule says where nothing limits.
const UNLIMITED: &str = "unlimited";

fn is_second_family(old: &str, new: &str) -> bool {
    match (Cidr::parse_pair(old).as_deref(), Cidr::parse_pair(new).as_deref()) {
        (Some([one]), Some([first, _])) => one == first,
        _ => false,
    }
}

/// Does it hold for major and minor of one of the old tags and of the new one?
fn any_minors(sides: &Sides, test: impl Fn((u64, u64), (u64, u64)) -> bool) -> bool {
    let read =
        |value: &Value| tolerant_tag(value.as_str()?).ok().map(|version| (version.major, version.minor));
    let Some(new) = read(&sides.new) else { return false };
    sides.olds.iter().filter_map(read).any(|old| test(old, new))
}

impl<'de> Deserialize<'de> for RuleCondition {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let test = Test::parse(&text).map_err(serde::de::Error::custom)?;
        Ok(Self { test, text })
    }
}
