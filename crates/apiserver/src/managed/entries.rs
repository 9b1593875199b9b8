//! `metadata.managedFields`: who owns which fields. Owns its JSON and its order; must not know how
//! ownership changes. Sets stay text until they are needed: most writes touch few.
//!
//! Source: apimachinery `pkg/util/managedfields/internal/{managedfields,capmanagers}.go`, v0.35.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::element::Element;
use super::fields_v1;
use super::path_set::PathSet;

/// More managers by update than this are merged, as upstream.
const UPDATERS_MAX: usize = 10;
/// Names looked for in the text of a set before it is read instead.
const SEARCHES_MAX: usize = 32;
/// Who owns what was merged.
const ANCIENT: &str = "ancient-changes";
const EMPTY: &str = "{}";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum Operation {
    Apply,
    Update,
}

/// Who wrote, and how: what entries are told apart by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity<'a> {
    pub manager: Cow<'a, str>,
    pub operation: Operation,
    pub api_version: Cow<'a, str>,
    /// Empty: the main resource.
    pub subresource: Cow<'a, str>,
}

/// The fields one manager owns by one operation.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    pub who: Identity<'a>,
    /// RFC 3339, UTC, whole seconds. `None`: nothing it wrote was a change.
    pub time: Option<Cow<'a, str>>,
    fields: Fields<'a>,
}

#[derive(Clone, Debug)]
enum Fields<'a> {
    Text(&'a str),
    Set(PathSet),
}

/// All entries of an object.
#[derive(Clone, Debug, Default)]
pub struct Entries<'a>(pub Vec<Entry<'a>>);

/// Why a text is not a list of entries.
#[derive(Debug, thiserror::Error)]
pub enum Undecodable {
    #[error("the managed fields cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    #[error("the managed fields cannot be read: {0}")]
    Entry(&'static str),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire<'a> {
    #[serde(borrow, default)]
    manager: Cow<'a, str>,
    operation: Operation,
    #[serde(borrow, default)]
    api_version: Cow<'a, str>,
    #[serde(borrow, default)]
    subresource: Cow<'a, str>,
    #[serde(borrow, default)]
    time: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    fields_type: Cow<'a, str>,
    #[serde(borrow, default)]
    fields_v1: Option<&'a RawValue>,
}

impl Identity<'_> {
    /// The version counts for updates only: a manager that applies owns one set.
    pub fn is(&self, other: &Identity<'_>) -> bool {
        (self.operation, &self.manager, &self.subresource)
            == (other.operation, &other.manager, &other.subresource)
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    fn order(&self) -> (&str, Operation, &str, &str) {
        (&self.manager, self.operation, &self.api_version, &self.subresource)
    }
}

/// As conflicts name a manager: `"name" with subresource "status" using v1`.
impl fmt::Display for Identity<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.manager)?;
        if !self.subresource.is_empty() {
            write!(f, " with subresource {:?}", self.subresource)?;
        }
        if self.operation == Operation::Update {
            write!(f, " using {}", self.api_version)?;
        }
        Ok(())
    }
}

impl<'a> Entry<'a> {
    pub fn new(who: Identity<'a>, time: Option<Cow<'a, str>>, set: PathSet) -> Self {
        Self { who, time, fields: Fields::Set(set) }
    }

    /// # Errors
    /// The fields were never `FieldsV1`.
    pub fn set(&self) -> Result<Cow<'_, PathSet>, Undecodable> {
        Ok(match &self.fields {
            Fields::Text(text) => Cow::Owned(fields_v1::parse(text)?),
            Fields::Set(set) => Cow::Borrowed(set),
        })
    }

    pub fn replace(&mut self, set: PathSet) {
        self.fields = Fields::Set(set);
    }

    pub fn is_empty(&self) -> bool {
        match &self.fields {
            Fields::Text(text) => *text == EMPTY,
            Fields::Set(set) => set.is_empty(),
        }
    }

    /// False when no path of `paths` can be owned here; found out without reading the set.
    pub fn may_own(&self, paths: &PathSet) -> bool {
        match &self.fields {
            Fields::Text(text) => mentions(text, paths, &mut SEARCHES_MAX.clone()),
            Fields::Set(_) => true,
        }
    }

    fn from_wire(wire: Wire<'a>) -> Result<Self, Undecodable> {
        if wire.api_version.is_empty() {
            return Err(Undecodable::Entry("apiVersion must not be empty"));
        }
        if wire.fields_type != "FieldsV1" {
            return Err(Undecodable::Entry("fieldsType must be FieldsV1"));
        }
        let who = Identity {
            manager: wire.manager,
            operation: wire.operation,
            api_version: wire.api_version,
            subresource: wire.subresource,
        };
        let fields = Fields::Text(wire.fields_v1.map_or(EMPTY, RawValue::get));
        Ok(Self { who, time: wire.time, fields })
    }

    fn write(&self, out: &mut Vec<u8>) {
        let text = |out: &mut Vec<u8>, key: &str, value: &str| {
            out.extend_from_slice(key.as_bytes());
            // Writing a text into memory cannot fail.
            drop(serde_json::to_writer(&mut *out, value));
        };
        text(out, "{\"apiVersion\":", &self.who.api_version);
        out.extend_from_slice(b",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":");
        match &self.fields {
            Fields::Text(text) => out.extend_from_slice(text.as_bytes()),
            Fields::Set(set) => fields_v1::write(set, out),
        }
        text(out, ",\"manager\":", &self.who.manager);
        text(out, ",\"operation\":", if self.who.operation == Operation::Apply { "Apply" } else { "Update" });
        if !self.who.subresource.is_empty() {
            text(out, ",\"subresource\":", &self.who.subresource);
        }
        if let Some(time) = &self.time {
            text(out, ",\"time\":", time);
        }
        out.push(b'}');
    }
}

/// The text names every step of some path, or reading it costs no more than looking on.
fn mentions(text: &str, paths: &PathSet, searches: &mut usize) -> bool {
    paths.branches().iter().any(|branch| {
        let Some(left) = searches.checked_sub(1) else { return true };
        *searches = left;
        let named = match &branch.step {
            // These two are escaped in the text, in one of several ways.
            Element::Field(name) if !name.contains(['"', '\\']) => text.contains(&format!("\"f:{name}\"")),
            _ => true,
        };
        named && (branch.member || mentions(text, &branch.below, searches))
    })
}

impl<'a> Entries<'a> {
    /// From the JSON of `metadata.managedFields`; empty text is not an entry.
    ///
    /// # Errors
    /// [`Undecodable`]; the sets themselves are only read when they are asked for.
    pub fn parse(text: &'a str) -> Result<Self, Undecodable> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let entries: Vec<Wire<'a>> = serde_json::from_str(text)?;
        entries.into_iter().map(Entry::from_wire).collect::<Result<_, _>>().map(Self)
    }

    /// Reads every set, so that a damaged one is found.
    ///
    /// # Errors
    /// [`Undecodable`].
    pub fn check(mut self) -> Result<Self, Undecodable> {
        for entry in &mut self.0 {
            let set = entry.set()?.into_owned();
            entry.replace(set);
        }
        Ok(self)
    }

    pub fn position(&self, who: &Identity<'_>) -> Option<usize> {
        self.0.iter().position(|entry| entry.who.is(who))
    }

    /// Sorts and writes the entries; empty when there are none.
    pub fn write(mut self) -> Vec<u8> {
        // Upstream's order: what was applied first, then by time.
        self.0.sort_by(|a, b| {
            (a.who.operation, &a.time, a.who.order()).cmp(&(b.who.operation, &b.time, b.who.order()))
        });
        let mut out = Vec::new();
        for (index, entry) in self.0.iter().enumerate() {
            out.push(if index == 0 { b'[' } else { b',' });
            entry.write(&mut out);
        }
        if !out.is_empty() {
            out.push(b']');
        }
        out
    }

    /// Merges the oldest updates of each version until few enough are left.
    ///
    /// # Errors
    /// One of the merged sets cannot be read.
    pub fn cap(&mut self) -> Result<(), Undecodable> {
        let updates = self.0.iter().filter(|entry| entry.who.operation == Operation::Update).count();
        let Some(mut surplus) = updates.checked_sub(UPDATERS_MAX).filter(|surplus| *surplus > 0) else {
            return Ok(());
        };
        // Only updates are merged: a set that was applied is needed to find what is no longer
        // wanted.
        self.0.sort_by(|a, b| (&a.time, a.who.order()).cmp(&(&b.time, b.who.order())));
        // Where the first entry of a version is, and those that are merged into it.
        let mut ancient: BTreeMap<String, (usize, Vec<Entry<'a>>)> = BTreeMap::new();
        let mut kept = Vec::with_capacity(self.0.len() - surplus);
        for entry in std::mem::take(&mut self.0) {
            if entry.who.operation == Operation::Update && surplus > 0 {
                if let Some((_, merged)) = ancient.get_mut(&*entry.who.api_version) {
                    merged.push(entry);
                    surplus -= 1;
                    continue;
                }
                ancient.insert(entry.who.api_version.to_string(), (kept.len(), Vec::new()));
            }
            kept.push(entry);
        }
        for (at, merged) in ancient.into_values() {
            if let Some(entry) = kept.get_mut(at) {
                entry.absorb(&merged)?;
            }
        }
        self.0 = kept;
        Ok(())
    }
}

impl<'a> Entry<'a> {
    /// Becomes an ancient one that also owns what `merged` owned.
    fn absorb(&mut self, merged: &[Self]) -> Result<(), Undecodable> {
        let Some(last) = merged.last() else { return Ok(()) };
        let mut sets = vec![self.set()?.into_owned()];
        for entry in merged {
            sets.push(entry.set()?.into_owned());
        }
        self.replace(PathSet::union_all(sets));
        self.who.manager = ANCIENT.into();
        self.who.subresource = "".into();
        self.time.clone_from(&last.time);
        Ok(())
    }
}

/// Equal but for times.
pub fn same_but_time(a: &str, b: &str) -> bool {
    let (Ok(a), Ok(b)) = (Entries::parse(a), Entries::parse(b)) else { return false };
    let timeless = |mut entries: Entries<'_>| {
        entries.0.iter_mut().for_each(|entry| entry.time = None);
        entries.write()
    };
    a.0.len() == b.0.len() && timeless(a) == timeless(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(text: &str) -> String {
        String::from_utf8(Entries::parse(text).unwrap().write()).unwrap()
    }

    fn entry(manager: &str, operation: &str, time: &str) -> String {
        let time = if time.is_empty() { String::new() } else { format!(",\"time\":\"{time}\"") };
        format!(
            "{{\"apiVersion\":\"v1\",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":{{\"f:{manager}\":{{}}}},\
             \"manager\":\"{manager}\",\"operation\":\"{operation}\"{time}}}"
        )
    }

    #[test]
    fn s130_apply_first_then_time_then_manager() {
        let sorted = [
            entry("z", "Apply", ""),
            entry("b", "Apply", "2026-01-01T00:00:00Z"),
            entry("a", "Apply", "2026-01-01T00:00:01Z"),
            entry("y", "Update", ""),
            entry("c", "Update", "2026-01-01T00:00:00Z"),
            entry("d", "Update", "2026-01-01T00:00:00Z"),
        ];
        let mut mixed = sorted.clone();
        mixed.reverse();
        assert_eq!(round(&format!("[{}]", mixed.join(","))), format!("[{}]", sorted.join(",")));
        assert_eq!(round("[]"), "");
    }

    #[test]
    fn what_is_no_entry() {
        for text in [
            "{}",
            "[{}]",
            r#"[{"manager":"a","operation":"Patch","apiVersion":"v1","fieldsType":"FieldsV1"}]"#,
            r#"[{"manager":"a","operation":"Apply","fieldsType":"FieldsV1"}]"#,
            r#"[{"manager":"a","operation":"Apply","apiVersion":"v1"}]"#,
            r#"[{"manager":"a","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV2"}]"#,
        ] {
            assert!(Entries::parse(text).is_err(), "{text}");
        }
        let broken = r#"[{"manager":"a","operation":"Apply","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"q":1}}]"#;
        assert!(Entries::parse(broken).unwrap().check().is_err());
    }

    #[test]
    fn s126_the_oldest_updates_become_ancient() {
        let mut texts: Vec<String> = (0..12)
            .map(|n| entry(&format!("m{n:02}"), "Update", &format!("2026-01-01T00:00:{n:02}Z")))
            .collect();
        texts.push(entry("applier", "Apply", ""));
        let text = format!("[{}]", texts.join(","));
        let mut entries = Entries::parse(&text).unwrap();
        entries.cap().unwrap();
        let names: Vec<&str> = entries.0.iter().map(|e| &*e.who.manager).collect();
        assert_eq!(
            names,
            ["applier", "ancient-changes", "m03", "m04", "m05", "m06", "m07", "m08", "m09", "m10", "m11"]
        );
        assert_eq!(entries.0[1].set().unwrap().texts(99), [".m00", ".m01", ".m02"]);
        assert_eq!(entries.0[1].time.as_deref(), Some("2026-01-01T00:00:02Z"));
    }

    #[test]
    fn thousands_of_updaters_took_the_square_of_their_number() {
        let texts: Vec<String> = (0..4_000).map(|n| entry(&format!("m{n:04}"), "Update", "")).collect();
        let text = format!("[{}]", texts.join(","));
        let mut entries = Entries::parse(&text).unwrap();
        entries.cap().unwrap();
        assert_eq!((entries.0.len(), entries.0[0].set().unwrap().branches().len()), (10, 3_991));
        assert_eq!(entries.0[0].who.manager, ANCIENT);
    }

    #[test]
    fn a_long_set_is_read_rather_than_searched_name_by_name() {
        let text = entry("a", "Update", "");
        let text = format!("[{text}]");
        let entries = Entries::parse(&text).unwrap();
        let names: Vec<String> = (0..100).map(|n| format!("n{n}")).collect();
        let set = |count: usize| {
            let fields: Vec<[&str; 1]> = names.iter().take(count).map(|name| [name.as_str()]).collect();
            PathSet::of_fields(&fields.iter().map(|path| &path[..]).collect::<Vec<_>>())
        };
        assert!(!entries.0[0].may_own(&set(SEARCHES_MAX)) && entries.0[0].may_own(&set(SEARCHES_MAX + 1)));
    }

    #[test]
    fn times_may_differ() {
        let (early, late) = (entry("a", "Update", "2026-01-01T00:00:00Z"), entry("a", "Update", ""));
        assert!(same_but_time(&format!("[{early}]"), &format!("[{late}]")));
        assert!(!same_but_time(&format!("[{early}]"), &format!("[{}]", entry("b", "Update", ""))));
        assert!(same_but_time("", "") && !same_but_time("", &format!("[{early}]")));
    }
}
