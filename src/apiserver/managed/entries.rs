//! `metadata.managedFields`: who owns which fields. Owns its JSON and its order; must not know how
//! ownership changes. Sets stay text until somebody asks for them: most writes touch few.
//!
//! Source: apimachinery `pkg/util/managedfields/internal/{managedfields,capmanagers}.go`, v0.35.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::element::Element;
use super::fields_v1;
use super::path_set::PathSet;

/// More managers by update than this are merged.
const UPDATERS_MAX: usize = 10;
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

/// Why a text is no list of entries.
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
    #[must_use]
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
    #[must_use]
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

    #[must_use]
    pub fn is_empty(&self) -> bool {
        match &self.fields {
            Fields::Text(text) => *text == EMPTY,
            Fields::Set(set) => set.is_empty(),
        }
    }

    /// False when no path of `paths` can be owned here; found out without reading the set.
    #[must_use]
    pub fn may_own(&self, paths: &PathSet) -> bool {
        match &self.fields {
            Fields::Text(text) => mentions(text, paths),
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

/// The text names every step of some path.
fn mentions(text: &str, paths: &PathSet) -> bool {
    paths.branches().iter().any(|branch| {
        let named = match &branch.step {
            Element::Field(name) if !name.contains(['"', '\\']) => text.contains(&format!("\"f:{name}\"")),
            _ => true,
        };
        named && (branch.member || mentions(text, &branch.below))
    })
}

impl<'a> Entries<'a> {
    /// From the JSON of `metadata.managedFields`; empty text is no entries.
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

    #[must_use]
    pub fn position(&self, who: &Identity<'_>) -> Option<usize> {
        self.0.iter().position(|entry| entry.who.is(who))
    }

    /// Sorts and writes the entries; empty when there are none.
    #[must_use]
    pub fn write(mut self) -> Vec<u8> {
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
        let updates =
            |entries: &[Entry<'_>]| entries.iter().filter(|e| e.who.operation == Operation::Update).count();
        if updates(&self.0) <= UPDATERS_MAX {
            return Ok(());
        }
        self.0.sort_by(|a, b| (&a.time, a.who.order()).cmp(&(&b.time, b.who.order())));
        let mut first_of: Vec<(String, usize)> = Vec::new();
        let mut at = 0;
        while at < self.0.len() && updates(&self.0) > UPDATERS_MAX {
            let Some(entry) = self.0.get(at).filter(|e| e.who.operation == Operation::Update) else {
                at += 1;
                continue;
            };
            let version = entry.who.api_version.to_string();
            let bucket = first_of.iter().find(|(known, _)| *known == version).map(|(_, bucket)| *bucket);
            let Some(bucket) = bucket else {
                first_of.push((version, at));
                at += 1;
                continue;
            };
            let merged = self.0.remove(at);
            self.absorb(bucket, &merged)?;
        }
        Ok(())
    }

    /// Makes the entry at `bucket` an ancient one that also owns what `merged` owned.
    fn absorb(&mut self, bucket: usize, merged: &Entry<'a>) -> Result<(), Undecodable> {
        let Some(entry) = self.0.get_mut(bucket) else { return Ok(()) };
        let set = entry.set()?.union(&*merged.set()?);
        entry.replace(set);
        entry.who.manager = ANCIENT.into();
        entry.who.subresource = "".into();
        entry.time.clone_from(&merged.time);
        Ok(())
    }
}

/// Equal but for times.
#[must_use]
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
        assert_eq!(entries.0[1].set().unwrap().texts(), [".m00", ".m01", ".m02"]);
        assert_eq!(entries.0[1].time.as_deref(), Some("2026-01-01T00:00:02Z"));
    }

    #[test]
    fn times_may_differ() {
        let (early, late) = (entry("a", "Update", "2026-01-01T00:00:00Z"), entry("a", "Update", ""));
        assert!(same_but_time(&format!("[{early}]"), &format!("[{late}]")));
        assert!(!same_but_time(&format!("[{early}]"), &format!("[{}]", entry("b", "Update", ""))));
        assert!(same_but_time("", "") && !same_but_time("", &format!("[{early}]")));
    }
}
