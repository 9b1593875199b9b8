//! What has to be done from time to time: forgetting old history, removing old events. Must not
//! know requests.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use serde_json::Value;

use super::deletion::DeleteOptions;
use super::{Registry, Subject, present};
use crate::failure::{Failure, Reason};
use crate::object::{self, Record};
use crate::resource::Resource;
use capstan_base::time::{Timestamp, parse_rfc3339};
use capstan_store::{Entry, Range, Revision};

const EVERY: Duration = Duration::from_secs(60);
/// History younger than this many rounds is kept.
const ROUNDS_KEPT: usize = 6;
/// Age of an event that may go, in seconds; kube-apiserver has the same by default (`--event-ttl`).
const EVENT_LIFE_S: i64 = 3_600;
const EXPIRED_AT_ONCE: usize = 64;

/// Runs until dropped.
pub async fn run(registry: Arc<Registry>) {
    let mut noted: VecDeque<Revision> = VecDeque::new();
    loop {
        tokio::time::sleep(EVERY).await;
        if let Err(failure) = round(&registry, &mut noted).await {
            tracing::warn!(%failure, "housekeeping will try again");
        }
    }
}

async fn round(registry: &Arc<Registry>, noted: &mut VecDeque<Revision>) -> Result<(), Failure> {
    // Revisions carry no time, so one is noted each round, and the age is counted in rounds.
    noted.push_back(registry.store.revision().await?);
    if noted.len() > ROUNDS_KEPT
        && let Some(oldest) = noted.pop_front()
    {
        registry.store.compact(oldest).await?;
    }
    expire_events(registry).await
}

/// Removes events that did not recur for an hour, many at once so that they share commits.
async fn expire_events(registry: &Registry) -> Result<(), Failure> {
    let catalog = registry.catalog.load_full();
    let Some(resource) = catalog.find("", "v1", "events") else { return Ok(()) };
    let now = registry.clock.now();
    let page = registry.store.range(Range { prefix: &resource.prefix, ..Range::default() }).await?;
    futures::stream::iter(&page.entries)
        .for_each_concurrent(EXPIRED_AT_ONCE, |entry| async move {
            // One that is damaged, or that the store does not take away, must not keep the others.
            if let Err(failure) = expire(registry, resource, entry, now).await {
                tracing::debug!(%failure, key = %entry.key, "an old event cannot be removed");
            }
        })
        .await;
    Ok(())
}

async fn expire(
    registry: &Registry,
    resource: &Arc<Resource>,
    entry: &Entry,
    now: Timestamp,
) -> Result<(), Failure> {
    let event = present(resource, &Record::read(entry)?)?;
    if !is_old(&event, now) {
        return Ok(());
    }
    let (namespace, name) = (object::text(&event, "namespace"), object::name(&event));
    // One that is renewed meanwhile stays.
    let unchanged = Some(entry.modified.to_string());
    let options = DeleteOptions { resource_version: unchanged, ..DeleteOptions::default() };
    match registry.delete(Subject { resource, namespace, name }, &options).await {
        Err(failure) if !matches!(failure.reason, Reason::NotFound | Reason::Conflict) => Err(failure),
        _ => Ok(()),
    }
}

fn is_old(event: &Value, now: Timestamp) -> bool {
    // Clients of the older and of the newer Event API renew different fields, so the newest counts.
    let seen = [&event["lastTimestamp"], &event["series"]["lastObservedTime"], &event["eventTime"]];
    let seen = seen.into_iter().chain([&event["metadata"]["creationTimestamp"]]);
    let newest = seen.filter_map(|time| parse_rfc3339(time.as_str()?)).max();
    newest.is_some_and(|at| (now - at).num_seconds() > EVENT_LIFE_S)
}
