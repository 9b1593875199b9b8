//! Who owns the fields of an object after a write: brings the pure rules of `managed` to resources and
//! their endpoints. Must not decide about the object itself.
//!
//! Source: apiserver `pkg/endpoints/handlers/{create,update,patch}.go`, apimachinery
//! `pkg/util/managedfields/internal/fieldmanager.go`, `GetResetFields` of the strategies, v0.35.

use std::sync::LazyLock;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Part, Registry, Subject, schema, schema_tag};
use crate::failure::Failure;
use crate::managed::entries::{Undecodable, same_but_time};
use crate::managed::update::update;
use crate::managed::{Author, Entries, PathSet, Problem, Rules, Shape};
use crate::object::Record;
use crate::request::options::WriteOptions;
use crate::resource::Resource;
use crate::resource::strategy::Strategy;
use crate::schema::native;

static NOTHING: LazyLock<PathSet> = LazyLock::new(PathSet::default);
static STATUS: LazyLock<PathSet> = LazyLock::new(|| PathSet::of_fields(&[&["status"]]));
static ALL_BUT_STATUS: LazyLock<PathSet> = LazyLock::new(|| PathSet::of_fields(&[&["metadata"], &["spec"]]));
/// The spec of a namespace is its finalizers, which have an endpoint of their own.
static SPEC_AND_STATUS: LazyLock<PathSet> = LazyLock::new(|| PathSet::of_fields(&[&["spec"], &["status"]]));

/// The managed fields in the object that a client sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Nothing: all stays as it is.
    None,
    /// An empty list: the client resets ownership.
    Reset,
    /// A list, as JSON text.
    List(String),
}

/// Takes the managed fields out of an object that came in.
pub fn claim(object: &mut Value) -> Claim {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    match metadata.and_then(|metadata| metadata.remove("managedFields")) {
        // As upstream, a list with one empty entry resets ownership like an empty list.
        Some(Value::Array(entries)) if entries.is_empty() || entries == [json!({})] => Claim::Reset,
        Some(list @ Value::Array(_)) => Claim::List(list.to_string()),
        _ => Claim::None,
    }
}

/// Equal, but perhaps for times.
pub fn same_owners(a: &[u8], b: &[u8]) -> bool {
    a == b || matches!((text(a), text(b)), (Ok(a), Ok(b)) if same_but_time(a, b))
}

/// The text of stored managed fields.
///
/// # Errors
/// 500 when it is none.
pub fn text(managed: &[u8]) -> Result<&str, Failure> {
    std::str::from_utf8(managed).map_err(Failure::internal)
}

impl Registry {
    /// The managed fields after `new` was written, over `old` if there is one. Never fails: when it
    /// cannot be worked out, all stays as it is.
    pub(super) fn owners(
        &self,
        subject: Subject<'_>,
        part: Part,
        options: WriteOptions<'_>,
        old: Option<(&Record, &Value)>,
        new: &Value,
        claim: Claim,
    ) -> Bytes {
        let stored = old.map(|(record, _)| record.managed.clone()).unwrap_or_default();
        let live = old.map(|(_, value)| value);
        // A write of a subresource cannot rewrite the list.
        let claim = if part == Part::Main { claim } else { Claim::None };
        let list = match &claim {
            Claim::List(list) if list.as_bytes() != stored => Some(list.as_str()),
            _ => None,
        };
        // A list that cannot be read counts as none, as upstream: the stored one stays.
        let given = list.and_then(|list| Entries::parse(list).and_then(Entries::check).ok());
        let entries = match (given, &claim) {
            (_, Claim::Reset) => Ok(Entries::default()),
            (Some(entries), _) => Ok(entries),
            (None, _) => text(&stored).map_or(Ok(Entries::default()), Entries::parse),
        };
        // A client's list, or one of another schema, may have paths that are coarser or finer.
        let fresh = list.is_some()
            || old.is_some_and(|(record, _)| record.schema_tag != schema_tag(subject.resource));
        let entries = entries.or_else(|_: Undecodable| Ok::<_, Undecodable>(Entries::default()));
        let now = self.now();
        let after = entries.map_err(Problem::from).and_then(|entries| {
            self.with_rules(subject, part, options, &now, fresh, |author, rules| {
                update(author, rules, live, new, entries).map(Entries::write)
            })
        });
        after.map_or_else(|_| stored.clone(), Bytes::from)
    }

    /// Calls `work` with who writes and by which rules.
    pub(super) fn with_rules<T, E>(
        &self,
        subject: Subject<'_>,
        part: Part,
        options: WriteOptions<'_>,
        now: &str,
        reconcile: bool,
        work: impl FnOnce(Author<'_>, Rules<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let resource = subject.resource;
        let api_version = resource.api_version();
        let subresource = subresource(part);
        let catalog = self.catalog.load();
        let serves = |version: &str| {
            version == api_version || {
                let (group, version) = version.split_once('/').unwrap_or(("", version));
                catalog.find(group, version, &resource.plural).is_some()
            }
        };
        let author = Author {
            manager: if options.manager.is_empty() { "unknown" } else { options.manager },
            api_version: &api_version,
            subresource,
            // Entries of scale have no time, as upstream.
            now: (part != Part::Scale).then_some(now),
        };
        let rules =
            Rules { shape: shape(resource), reset: reset(resource, part), serves: &serves, reconcile };
        work(author, rules)
    }
}

fn subresource(part: Part) -> &'static str {
    match part {
        Part::Main => "",
        Part::Status => "status",
        Part::Scale => "scale",
        Part::Finalize => "finalize",
    }
}

/// How the resource's objects merge. Events are compared as they are kept.
fn shape(resource: &Resource) -> Shape<'_> {
    let schema = match resource.strategy {
        Strategy::Event => native::schema("", "v1", "Event"),
        _ => schema(resource).ok(),
    };
    schema.map_or(Shape::Deduced, |schema| Shape::Schema(&schema.root))
}

/// What the endpoint does not write.
fn reset(resource: &Resource, part: Part) -> &'static PathSet {
    match part {
        Part::Status => &ALL_BUT_STATUS,
        Part::Main if matches!(resource.strategy, Strategy::Namespace) => &SPEC_AND_STATUS,
        Part::Main | Part::Scale if resource.has_status => &STATUS,
        _ => &NOTHING,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s124_what_clients_say_about_owners() {
        for (list, expected) in [
            (Value::Null, Claim::None),
            (json!([]), Claim::Reset),
            (json!([{}]), Claim::Reset),
            (json!([{"manager": "m"}]), Claim::List("[{\"manager\":\"m\"}]".to_owned())),
        ] {
            let mut object = json!({"metadata": {"name": "n", "managedFields": list}});
            assert_eq!(claim(&mut object), expected);
            assert_eq!(object, json!({"metadata": {"name": "n"}}));
        }
    }
}
