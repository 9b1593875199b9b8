//! Server-side apply and the tracking of who owns which field. Pure: values, sets of paths and the
//! text of `managedFields` in, the same out. Must not know requests, stores or kinds.
//!
//! Strata: `element`, `path_set` and `fields_v1` (paths), `topology` (how a schema merges), `typed`
//! (values through their shape), `entries` (the list in `metadata`), then the two ways to write:
//! `update` (a manager changed the object) and `apply` (a manager declared the fields that it wants).

pub mod apply;
mod element;
pub mod entries;
mod fields_v1;
pub mod last_applied;
mod path_set;
#[cfg(test)]
mod tests;
pub mod topology;
mod typed;
pub mod update;

use std::borrow::Cow;
use std::sync::LazyLock;

use serde_json::Value;

pub use entries::{Entries, Operation, Undecodable};
pub use path_set::PathSet;
pub use topology::Shape;

use entries::{Entry, Identity};

/// Who writes, and through which endpoint.
#[derive(Clone, Copy)]
pub struct Author<'a> {
    pub manager: &'a str,
    /// `group/version` of the request.
    pub api_version: &'a str,
    /// Empty: the main resource.
    pub subresource: &'a str,
    /// RFC 3339, UTC, whole seconds. `None`: the write leaves no time, as through `scale`.
    pub now: Option<&'a str>,
}

/// What holds for every write of a resource through one endpoint.
#[derive(Clone, Copy)]
pub struct Rules<'a> {
    pub shape: Shape<'a>,
    /// What this endpoint does not write, with everything below.
    pub reset: &'a PathSet,
    /// Is this `group/version` served? Entries of others are forgotten.
    pub serves: &'a (dyn Fn(&str) -> bool + Sync),
    /// The sets may be from before the schema was what it is.
    pub reconcile: bool,
}

/// Why ownership could not be worked out.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    #[error(transparent)]
    Undecodable(#[from] Undecodable),
    #[error("failed to compare objects: {0}")]
    Indistinct(String),
}

/// Managers with the fields that are in dispute.
type Disputes = Vec<(String, PathSet)>;

/// Nobody owns these: they are the server's, or the object's identity.
static NEVER_OWNED: LazyLock<PathSet> = LazyLock::new(|| {
    PathSet::of_fields(&[
        &["apiVersion"],
        &["kind"],
        // Paths are taken away as they are: this one leaves labels and annotations below it.
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
});

impl<'a> Author<'a> {
    fn identity(&self, operation: Operation) -> Identity<'a> {
        Identity {
            manager: self.manager.into(),
            operation,
            api_version: self.api_version.into(),
            subresource: self.subresource.into(),
        }
    }

    fn time(&self) -> Option<Cow<'a, str>> {
        self.now.map(Cow::Borrowed)
    }
}

impl Rules<'_> {
    /// Entries of versions that are gone go; sets from another schema are fitted to this one.
    fn renew(&self, entries: &mut Entries<'_>) -> Result<(), Undecodable> {
        // Upstream forgets these, too: it could not convert what they own.
        entries.0.retain(|entry| (self.serves)(&entry.who.api_version));
        if self.reconcile {
            for entry in &mut entries.0 {
                let set = typed::reconcile(self.shape, &*entry.set()?);
                entry.replace(set);
            }
        }
        Ok(())
    }

    fn compare(&self, old: &Value, new: &Value) -> Result<typed::Comparison, Problem> {
        let compared = typed::compare(self.shape, old, new).map_err(Problem::Indistinct)?;
        Ok(if self.reset.is_empty() { compared } else { compared.without(self.reset) })
    }
}

/// Takes paths out of an entry, reading its set only if it may hold one.
fn disown(entry: &mut Entry<'_>, paths: &PathSet) -> Result<(), Undecodable> {
    if !paths.is_empty() && entry.may_own(paths) {
        let set = entry.set()?.difference(paths);
        entry.replace(set);
    }
    Ok(())
}
