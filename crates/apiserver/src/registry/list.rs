//! Which objects a list holds: selectors, pages pinned to a revision, what "not older than" means.
//! Must not know how the answer is written.
//!
//! Source: apiserver `pkg/storage/etcd3/store.go` (`GetList`), `pkg/storage/continue.go`, v0.35.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Registry, present};
use crate::failure::Failure;
use crate::object::field_selector::{FieldSelector, field_value, is_supported_field};
use crate::object::label_selector::LabelSelector;
use crate::object::{Metadata, Record};
use crate::request::options::{ListOptions, Match};
use crate::resource::Resource;
use crate::resource::strategy::Strategy;
use capstan_store::{self as store, Entry, Range, Revision};

/// Objects read from the store at once while looking for matches.
const CHUNK: usize = 500;
/// How long a client waits for a revision that has not happened yet.
const FUTURE_WAIT: Duration = Duration::from_secs(3);
const FUTURE_POLL: Duration = Duration::from_millis(50);

/// Objects of one list answer.
#[derive(Debug, Default)]
pub struct Listing {
    /// As they are stored: unpacked one by one while the answer is written.
    pub entries: Vec<Entry>,
    pub revision: Revision,
    pub continue_token: Option<String>,
    /// How many are left; `None` when it was not counted.
    pub remaining: Option<usize>,
}

/// Which objects of a resource are wanted.
#[derive(Clone, Debug)]
pub struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Selection {
    /// # Errors
    /// 400 for bad syntax or a field the resource cannot be selected by.
    pub fn parse(resource: &Resource, options: &ListOptions) -> Result<Self, Failure> {
        let custom: &[String] = match &resource.strategy {
            Strategy::Custom(custom) => &custom.selectable_fields,
            _ => &[],
        };
        let supported = |field: &str| {
            is_supported_field(&resource.group, &resource.plural, resource.namespaced, custom, field)
        };
        Ok(Self {
            labels: LabelSelector::parse(&options.label_selector)?,
            fields: FieldSelector::parse(&options.field_selector, supported)?,
        })
    }

    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// The one name that can match, if there is one.
    pub fn name(&self) -> Option<&str> {
        self.fields.name()
    }

    /// # Errors
    /// 500 when the stored object cannot be read.
    pub fn matches(&self, resource: &Resource, record: &Record) -> Result<bool, Failure> {
        Ok(self.is_empty() || self.matches_known(resource, record, &record.metadata()?)?)
    }

    /// The same when the metadata of the record was read before.
    ///
    /// # Errors
    /// 500 when the stored object cannot be read.
    pub fn matches_known(
        &self,
        resource: &Resource,
        record: &Record,
        metadata: &Metadata,
    ) -> Result<bool, Failure> {
        if !self.labels.matches(|key| metadata.labels.get(key).map(String::as_str)) {
            return Ok(false);
        }
        // Most selectors name labels or names only, which saves reading the object.
        if self.fields.needs_object() {
            let object = present(resource, record)?;
            return Ok(self.fields.matches(|field| field_value(&object, field)));
        }
        Ok(self.fields.matches(|field| light_field(metadata, field)))
    }
}

fn light_field<'a>(metadata: &'a Metadata, field: &str) -> Cow<'a, str> {
    Cow::Borrowed(if field == "metadata.namespace" { &metadata.namespace } else { &metadata.name })
}

/// Where a list goes on. The same text as kube-apiserver's.
#[derive(Serialize, Deserialize)]
struct Token {
    v: String,
    /// -1: at whatever revision is current.
    rv: i64,
    /// Relative to the listed prefix; ends in NUL: the first key that may follow.
    start: String,
}

fn encode_token(revision: Option<Revision>, after: &str, prefix: &str) -> String {
    let token = Token {
        v: "meta.k8s.io/v1".to_owned(),
        rv: revision.and_then(|revision| i64::try_from(revision).ok()).unwrap_or(-1),
        start: format!("{}\0", after.strip_prefix(prefix).unwrap_or(after)),
    };
    BASE64.encode(serde_json::to_vec(&token).unwrap_or_default())
}

/// The revision and the key to go on behind; no revision means the current one. `prefix` is that of
/// the list.
///
/// # Errors
/// 400 for anything that the end of a list did not write.
pub fn decode_token(text: &str, prefix: &str) -> Result<(Option<Revision>, String), Failure> {
    let bad = |why: &str| Failure::bad_request(format!("invalid continue token: {why}"));
    let bytes = BASE64.decode(text).map_err(|_| bad("it is not base64url"))?;
    let token: Token = serde_json::from_slice(&bytes).map_err(|_| bad("its content is unknown"))?;
    let start = token.start.strip_suffix('\0').ok_or_else(|| bad("its start is unknown"))?;
    // Upstream's tokens begin with a slash or do not, depending on its release.
    let start = start.strip_prefix('/').unwrap_or(start);
    // As upstream, for which dots in a path lead out of the prefix.
    if token.v != "meta.k8s.io/v1" || start.contains("..") || token.rv == 0 {
        return Err(bad("its content is unknown"));
    }
    Ok((Revision::try_from(token.rv).ok(), format!("{prefix}{start}")))
}

/// Why there is no list.
enum Unlisted {
    Store(store::Error),
    /// An object cannot be read.
    Damaged(Failure),
}

impl From<store::Error> for Unlisted {
    fn from(error: store::Error) -> Self {
        Self::Store(error)
    }
}

impl From<Failure> for Unlisted {
    fn from(failure: Failure) -> Self {
        Self::Damaged(failure)
    }
}

/// Where a list starts, and how far a page goes.
struct Start {
    at: Option<Revision>,
    after: String,
    limit: usize,
}

impl Registry {
    /// # Errors
    /// 400 for a bad token, 410 when its revision is no longer kept, 504 for a revision that did
    /// not come.
    pub async fn list(
        &self,
        resource: &Arc<Resource>,
        namespace: &str,
        options: &ListOptions,
    ) -> Result<Listing, Failure> {
        let selection = Selection::parse(resource, options)?;
        let prefix = resource.range_prefix(namespace);
        let start = self.start(options, &prefix).await?;
        if let (Some(name), Some(namespace)) = (selection.name(), single_namespace(resource, namespace)) {
            return self.list_one(resource, namespace, name, &selection, start.at).await;
        }
        match self.collect(resource, &prefix, &selection, &start).await {
            Err(Unlisted::Store(store::Error::Compacted { .. })) if !options.continue_token.is_empty() => {
                Err(expired_token(&start, &prefix))
            }
            Err(Unlisted::Store(error)) => Err(error.into()),
            Err(Unlisted::Damaged(failure)) => Err(failure),
            Ok(listing) => Ok(listing),
        }
    }

    async fn start(&self, options: &ListOptions, prefix: &str) -> Result<Start, Failure> {
        if !options.continue_token.is_empty() {
            if options.resource_version.is_some_and(|version| version != 0) {
                return Err(Failure::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            let (at, after) = decode_token(&options.continue_token, prefix)?;
            return Ok(Start { at, after, limit: options.limit });
        }
        let exact = match (options.resource_version, options.version_match) {
            (None | Some(0), _) | (_, Match::NotOlderThan) => false,
            (_, Match::Exact) => true,
            // Without a match, a limit asks for pages of exactly this revision; upstream kept that
            // for old clients.
            (_, Match::Unset) => options.limit > 0,
        };
        if let Some(version) = options.resource_version {
            self.wait_for(version).await?;
        }
        // Any state will do for "0", so all of it is as good as a page.
        let any = options.resource_version == Some(0);
        Ok(Start {
            at: options.resource_version.filter(|_| exact),
            after: String::new(),
            limit: if any { 0 } else { options.limit },
        })
    }

    /// Waits a moment for a revision that a client has heard of elsewhere.
    pub async fn wait_for(&self, revision: Revision) -> Result<(), Failure> {
        let deadline = tokio::time::Instant::now() + FUTURE_WAIT;
        loop {
            let current = self.store.revision().await?;
            if current >= revision {
                return Ok(());
            }
            if tokio::time::Instant::now() >= deadline {
                return Err(Failure::too_large_resource_version(revision, current));
            }
            tokio::time::sleep(FUTURE_POLL).await;
        }
    }

    async fn collect(
        &self,
        resource: &Arc<Resource>,
        prefix: &str,
        selection: &Selection,
        start: &Start,
    ) -> Result<Listing, Unlisted> {
        let mut listing = Listing::default();
        let (mut at, mut last) = (start.at, None::<store::Key>);
        let wanted = if start.limit == 0 { usize::MAX } else { start.limit };
        loop {
            let limit = match (start.limit, selection.is_empty()) {
                (0, _) => 0,
                (_, true) => wanted - listing.entries.len(),
                // Behind a selector the page that is read has to be longer than the one that is
                // asked for.
                (_, false) => CHUNK,
            };
            let after = last.as_deref().unwrap_or(&start.after);
            let page = self.store.range(Range { prefix, after, limit, at }).await?;
            // Later chunks come from the revision of the first, so that the list is one moment.
            at = Some(page.revision);
            listing.revision = page.revision;
            let total = page.entries.len();
            for (index, entry) in page.entries.into_iter().enumerate() {
                last = Some(entry.key.clone());
                match selection.is_empty() || matching(resource, selection, &entry)? {
                    true => listing.entries.push(entry),
                    false => continue,
                }
                let left = total - index - 1 + page.remaining;
                if listing.entries.len() == wanted && left > 0 {
                    // Behind a selector the rest is not counted, as upstream: each object would
                    // have to be read.
                    listing.remaining = selection.is_empty().then_some(left);
                    listing.continue_token = last.map(|key| encode_token(at, &key, prefix));
                    return Ok(listing);
                }
            }
            if page.remaining == 0 {
                return Ok(listing);
            }
            // Others have their turn between two pages.
            tokio::task::yield_now().await;
        }
    }

    async fn list_one(
        &self,
        resource: &Arc<Resource>,
        namespace: &str,
        name: &str,
        selection: &Selection,
        at: Option<Revision>,
    ) -> Result<Listing, Failure> {
        let key = resource.key(namespace, name);
        // The first key with this beginning is the key itself, if that is there.
        let page = self.store.range(Range { prefix: &key, limit: 1, at, ..Range::default() }).await?;
        let mut listing = Listing { revision: page.revision, ..Listing::default() };
        for entry in page.entries.into_iter().filter(|entry| entry.key == key) {
            if matching(resource, selection, &entry)? {
                listing.entries.push(entry);
            }
        }
        Ok(listing)
    }
}

/// 410 with a token that goes on from the same key at the current revision.
fn expired_token(start: &Start, prefix: &str) -> Failure {
    let mut failure = Failure::expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new \
         list without the continue parameter, or use the continue token in this response to retrieve the \
         remainder of the results. Continuing with the provided token results in an inconsistent list - \
         objects that were created, modified, or deleted between the time the first chunk was returned and \
         now may show up in the list.",
    );
    failure.details.continue_token = encode_token(None, &start.after, prefix);
    failure
}

/// The namespace that a single key would be in, when the request fixes it.
fn single_namespace<'a>(resource: &Resource, namespace: &'a str) -> Option<&'a str> {
    (!resource.namespaced || !namespace.is_empty()).then_some(namespace)
}

fn matching(resource: &Resource, selection: &Selection, entry: &Entry) -> Result<bool, Failure> {
    selection.matches(resource, &Record::read(entry)?)
}

/// `metadata` of a list answer.
pub fn list_metadata(listing: &Listing) -> Value {
    let mut metadata = serde_json::json!({ "resourceVersion": listing.revision.to_string() });
    if let Some(token) = &listing.continue_token {
        metadata["continue"] = token.as_str().into();
    }
    if let Some(remaining) = listing.remaining {
        metadata["remainingItemCount"] = remaining.into();
    }
    metadata
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_and_garbage_is_refused() {
        let token = encode_token(Some(591), "/registry/g/r/ns/c1", "/registry/g/r/");
        assert_eq!(
            decode_token(&token, "/registry/g/r/").unwrap(),
            (Some(591), "/registry/g/r/ns/c1".to_owned())
        );
        assert_eq!(
            decode_token(&encode_token(None, "/p/a", "/p/"), "/p/").unwrap(),
            (None, "/p/a".to_owned())
        );
        let upstream = BASE64.encode(r#"{"v":"meta.k8s.io/v1","rv":591,"start":"/c1\u0000"}"#);
        assert_eq!(decode_token(&upstream, "/p/").unwrap(), (Some(591), "/p/c1".to_owned()));
        for bad in ["x", "%%%", "e30", &BASE64.encode(r#"{"v":"meta.k8s.io/v1","rv":1,"start":"../x"}"#)] {
            assert_eq!(decode_token(bad, "/p/").unwrap_err().code(), 400, "{bad}");
        }
    }
}
