//! Kubernetes events about objects: one that was sent before is counted, and an object that many are about gets no
//! more for a while. Must not know why one is sent.
//! Of the older kind, as upstream's recorder writes them: without an `eventTime`, so that a server sets no limit to
//! the message. Source: client-go `tools/record/{event,events_cache}.go`, v0.35.
//! Intended differences: ten events of one reason with different messages are not summed up as one; one that is
//! repeated is counted every ten seconds at most, and takes nothing from what may be sent: a control plane that waits
//! for long must not keep its later events from being seen.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::json;

use crate::client::write::Part;
use crate::client::{Mode, Precondition};
use crate::controllers::Context;
use capi_types::key::{Gvk, ObjectKey, ObjectRef};
use capstan_base::time::{Timestamp, rfc3339};

const COMPONENT: &str = "capstan";
/// Longest name of an event, in bytes, before its random end.
const NAME_BYTES_MAX: usize = 240;
/// Events that are remembered at most.
const REMEMBERED_MAX: usize = 4096;
/// Events about one object at once, and how long it takes until one more may be sent.
const BURST: f64 = 25.0;
const REFILL_S: f64 = 300.0;
/// An event that is repeated sooner is not counted.
const COUNTED_AFTER_S: i64 = 10;

/// What was sent. Cheap to clone.
#[derive(Clone, Default)]
pub struct Sent(Arc<Mutex<Memory>>);

#[derive(Default)]
struct Memory {
    sent: HashMap<Notice, Known>,
    /// How many may be sent about each object, as of when.
    allowed: HashMap<ObjectRef, (f64, Timestamp)>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Notice {
    about: ObjectRef,
    warning: bool,
    reason: String,
    message: String,
}

#[derive(Clone)]
struct Known {
    name: String,
    count: u32,
    last: Timestamp,
}

impl Memory {
    /// Takes one from what may be sent about the object.
    fn allows(&mut self, about: &ObjectRef, now: Timestamp) -> bool {
        forget_when_full(&mut self.allowed);
        let (left, at) = self.allowed.entry(about.clone()).or_insert((BURST, now));
        // A clock that is set back must not take away what is left.
        let passed_s = (now - *at).num_milliseconds().max(0) as f64 / 1000.0;
        *left = (*left + passed_s / REFILL_S).min(BURST);
        *at = now;
        if *left < 1.0 {
            return false;
        }
        *left -= 1.0;
        true
    }

    fn remember(&mut self, notice: Notice, known: Known) {
        forget_when_full(&mut self.sent);
        self.sent.insert(notice, known);
    }
}

fn forget_when_full<K, V>(map: &mut HashMap<K, V>) {
    if map.len() >= REMEMBERED_MAX {
        map.clear();
    }
}

/// A name as long as names may be leaves no room for the random end.
fn cut(name: &str) -> &str {
    let end = (0..=NAME_BYTES_MAX.min(name.len())).rev().find(|end| name.is_char_boundary(*end));
    end.and_then(|end| name.get(..end)).unwrap_or_default().trim_end_matches(['-', '.'])
}

/// Events are for people: one that cannot be stored is logged and nothing else.
pub async fn send(context: &Context, about: &ObjectRef, warning: bool, reason: &str, message: &str) {
    let notice =
        Notice { about: about.clone(), warning, reason: reason.to_owned(), message: message.to_owned() };
    let now = context.clock.now();
    let known = context.events.0.lock().sent.get(&notice).cloned();
    if let Some(known) = known
        && ((now - known.last).num_seconds() < COUNTED_AFTER_S || count(context, &notice, known).await)
    {
        return;
    }
    if context.events.0.lock().allows(about, now) {
        create(context, notice).await;
    } else {
        tracing::debug!("event {reason} about {about} is not sent: there were many");
    }
}

/// Counts one more of an event. Is it still there?
async fn count(context: &Context, notice: &Notice, known: Known) -> bool {
    let known = Known { count: known.count + 1, last: context.clock.now(), ..known };
    let body = json!({"count": known.count, "lastTimestamp": rfc3339(known.last)});
    let (target, any) = (event_named(notice, known.name.clone()), Precondition::default());
    match context.writer.patch_value(&target, Part::Main, &body, &any, Mode::Real).await {
        Ok(_) => context.events.0.lock().remember(notice.clone(), known),
        Err(error) if error.is_not_found() => return false,
        Err(error) => {
            // A second event in its place would say the same once more.
            tracing::warn!("event {} about {} was not counted: {error}", notice.reason, notice.about);
        }
    }
    true
}

async fn create(context: &Context, notice: Notice) {
    let (about, now) = (&notice.about, context.clock.now());
    let target = event_named(&notice, format!("{}.{}", cut(&about.key.name), context.rng.suffix(10)));
    let content = json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": target.key.name, "namespace": target.key.namespace},
        "involvedObject": {
            "apiVersion": about.gvk.api_version(),
            "kind": about.gvk.kind,
            "namespace": about.key.namespace,
            "name": about.key.name,
            "uid": about.uid,
        },
        "type": if notice.warning { "Warning" } else { "Normal" },
        "reason": notice.reason,
        "message": notice.message,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": COMPONENT,
        "firstTimestamp": rfc3339(now),
        "lastTimestamp": rfc3339(now),
        "count": 1,
    });
    match context.writer.create_value(&target, &content, Mode::Real).await {
        Ok(_) => {
            context.events.0.lock().remember(notice, Known { name: target.key.name, count: 1, last: now });
        }
        Err(error) => tracing::warn!("event {} about {about} was not stored: {error}", notice.reason),
    }
}

fn event_named(notice: &Notice, name: String) -> ObjectRef {
    let gvk = Gvk::of::<k8s_openapi::api::core::v1::Event>();
    // An event has a namespace, whether or not what it is about has one.
    let namespace = match notice.about.key.namespace.as_str() {
        "" => "default",
        namespace => namespace,
    };
    ObjectRef { gvk, key: ObjectKey::new(namespace, name), uid: String::new() }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;
    use capi_types::machine::Machine;

    #[test]
    fn an_object_gets_a_burst_of_events_and_then_one_in_five_minutes() {
        let about = ObjectRef { gvk: Gvk::of::<Machine>(), key: ObjectKey::new("ns", "m"), uid: "u".into() };
        let (mut memory, start) = (Memory::default(), Timestamp::UNIX_EPOCH);
        let sent = (0..40).filter(|_| memory.allows(&about, start)).count();
        assert_eq!(sent, 25);
        assert!(!memory.allows(&about, start + TimeDelta::seconds(299)));
        assert!(memory.allows(&about, start + TimeDelta::seconds(600)));
        let other = ObjectRef { uid: "other".into(), ..about };
        assert!(memory.allows(&other, start), "each object has its own");
    }

    #[test]
    fn an_event_has_the_namespace_of_what_it_is_about_or_the_default_one() {
        for (namespace, expected) in [("ns", "ns"), ("", "default")] {
            let about = ObjectRef {
                gvk: Gvk::of::<Machine>(),
                key: ObjectKey::new(namespace, "m"),
                uid: String::new(),
            };
            let notice = Notice { about, warning: false, reason: String::new(), message: String::new() };
            assert_eq!(event_named(&notice, "m.1".to_owned()).key, ObjectKey::new(expected, "m.1"));
        }
    }

    #[test]
    fn names_leave_room_for_the_random_end() {
        assert_eq!(cut("m"), "m");
        assert_eq!(cut(&format!("{}-b", "a".repeat(239))).len(), 239);
        assert_eq!(cut(&"a".repeat(253)).len(), 240);
    }
}
