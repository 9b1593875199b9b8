//! The audit log: who asked for what, and what came of it. One line of JSON for each request, an Event of
//! `audit.k8s.io/v1` at level Metadata, as tools for kube-apiserver's log read it. Owns the shape of events and
//! the queue before the writer; must not know files. Bodies, tokens and messages, which may repeat values, never
//! get here.
//!
//! Source: apiserver `pkg/apis/audit/v1/types.go`, `pkg/endpoints/filters/audit.go`, v0.35.

use std::io::{self, Write};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use chrono::SecondsFormat;
use http::header::USER_AGENT;
use http::request::Parts;
use serde_json::{Map, Value, json};

use super::request::auth::Identity;
use super::request::options::Query;
use super::request::routes::{Route, route};
use super::response::{Payload, Reply};
use capstan_base::time::{Clock, Timestamp};

/// Events that wait for the writer. More are lost, and counted.
const QUEUE_MAX: usize = 4_096;
/// How long the end of the process waits for the writer.
const FINISH_TIMEOUT: Duration = Duration::from_secs(2);
const URI_CHARS_MAX: usize = 4_096;
/// Whoever is not known may send as much as anybody: it is not to fill the disk.
const STRANGERS_URI_CHARS_MAX: usize = 256;
const USER_AGENT_CHARS_MAX: usize = 256;
const ANONYMOUS: &str = "system:anonymous";
/// A parameter by which some clients send their token.
const TOKEN: &str = "access_token";
/// On the first event after some were lost: how many.
const LOST: &str = "audit.capstan.dev/lost-events";
/// Where a request without an address came from.
const SOURCE: &str = "audit.capstan.dev/source";

/// Where a request came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A service call without a socket.
    InProcess,
    /// A socket file.
    Socket,
    /// A TCP connection from there.
    Address(IpAddr),
}

enum Message {
    Event(Map<String, Value>),
    /// Answered when everything before it is written.
    Finish(SyncSender<()>),
}

/// A log being written. Events go through a bounded queue to a thread of its own: a full disk or a slow one
/// keeps no request waiting.
#[derive(Debug)]
pub struct AuditLog {
    queue: SyncSender<Message>,
    lost: Arc<AtomicU64>,
}

impl AuditLog {
    /// Writes to `out`; each event is one call, with its line end.
    ///
    /// # Errors
    /// The operating system has no thread to give.
    pub fn start(out: impl Write + Send + 'static) -> io::Result<Self> {
        let (queue, events) = sync_channel(QUEUE_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let mut writer = Writer { out, lost: lost.clone(), failing: false };
        std::thread::Builder::new().name("audit".to_owned()).spawn(move || writer.run(&events))?;
        Ok(Self { queue, lost })
    }

    fn send(&self, event: Map<String, Value>) {
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) =
            self.queue.try_send(Message::Event(event))
        {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits a moment until what was sent is written.
    pub fn finish(&self) {
        let (done, written) = sync_channel(1);
        // A queue that is full belongs to a disk that hangs, and is not waited for.
        if self.queue.try_send(Message::Finish(done)).is_ok() {
            // A disk that hangs does not keep the process.
            let _ = written.recv_timeout(FINISH_TIMEOUT);
        }
    }
}

struct Writer<W> {
    out: W,
    lost: Arc<AtomicU64>,
    /// The last write failed: this was logged once, and half a line may be in the file.
    failing: bool,
}

impl<W: Write> Writer<W> {
    fn run(&mut self, events: &Receiver<Message>) {
        for message in events {
            match message {
                Message::Event(event) => self.write(event),
                // Whoever asked may have gone.
                Message::Finish(done) => drop(done.try_send(())),
            }
        }
    }

    fn write(&mut self, mut event: Map<String, Value>) {
        // Taken before the write: requests may lose more events meanwhile.
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let annotations = event.entry("annotations").or_insert_with(|| json!({}));
            annotations[LOST] = lost.to_string().into();
        }
        // The failed write may have left half a line, and this event must begin on its own.
        let torn = if self.failing { "\n" } else { "" };
        let line = format!("{torn}{}\n", Value::Object(event));
        match self.out.write_all(line.as_bytes()).and_then(|()| self.out.flush()) {
            Ok(()) if self.failing => {
                self.failing = false;
                tracing::info!("the audit log is written again; {lost} events were lost");
            }
            Ok(()) => {}
            Err(error) => {
                // The event is lost, and with it the number that it carried.
                self.lost.fetch_add(lost + 1, Ordering::Relaxed);
                if !self.failing {
                    tracing::error!(
                        "the audit log cannot be written: {error}; requests go on, lost events are counted"
                    );
                }
                self.failing = true;
            }
        }
    }
}

/// The event of one request. It is complete, and sent, when this is dropped: with the end of the answer.
#[derive(Debug)]
pub(crate) struct Auditing {
    log: Arc<AuditLog>,
    clock: Clock,
    event: Map<String, Value>,
}

impl Auditing {
    pub fn begin(log: Arc<AuditLog>, clock: Clock, parts: &Parts, source: Source) -> Self {
        let uri = parts.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        let query = Query::parse(&parts.uri);
        let mut event = Map::new();
        let mut put = |key: &str, value: Value| drop(event.insert(key.to_owned(), value));
        put("kind", "Event".into());
        put("apiVersion", "audit.k8s.io/v1".into());
        put("level", "Metadata".into());
        put("requestURI", shown(&without_token(uri), URI_CHARS_MAX).into());
        put("requestReceivedTimestamp", micros(clock.now()));
        if let Some(agent) = parts.headers.get(USER_AGENT) {
            let agent = String::from_utf8_lossy(agent.as_bytes());
            put("userAgent", shown(&agent, USER_AGENT_CHARS_MAX).into());
        }
        match source {
            Source::Address(address) => put("sourceIPs", json!([address.to_string()])),
            Source::Socket => put("annotations", json!({ SOURCE: "socket" })),
            Source::InProcess => put("annotations", json!({ SOURCE: "in process" })),
        }
        match route(&parts.method, &parts.uri, &query) {
            Ok(Route::Resource(verb, target)) => {
                put("verb", verb.word().into());
                let fields = [
                    ("resource", target.plural),
                    ("namespace", target.namespace),
                    ("name", target.name),
                    ("apiGroup", target.group),
                    ("apiVersion", target.version),
                    ("subresource", target.subresource),
                ];
                put("objectRef", fields_that_are_there(fields));
            }
            // As upstream, a path that is not a resource has the method for a verb.
            _ => put("verb", parts.method.as_str().to_lowercase().into()),
        }
        Self { log, clock, event }
    }

    /// Who asked, and as whom.
    pub fn asked_by(&mut self, who: &Identity, acting_as: &Identity) {
        let user = |identity: &Identity| json!({ "username": identity.user, "groups": identity.groups() });
        self.event.insert("user".to_owned(), user(who));
        if who != acting_as {
            self.event.insert("impersonatedUser".to_owned(), user(acting_as));
        }
    }

    /// What the answer is. An answer that goes on has an event of its own for its start.
    pub fn answered(&mut self, id: &str, reply: &Reply) {
        let mut status = json!({ "metadata": {}, "code": reply.code.as_u16() });
        if let Some(reason) = reply.reason {
            status["status"] = "Failure".into();
            status["reason"] = reason.word().into();
        }
        self.event.insert("auditID".to_owned(), id.into());
        self.event.insert("responseStatus".to_owned(), status);
        if let (Some(about), Some(Value::Object(object))) = (&reply.about, self.event.get_mut("objectRef")) {
            for (field, value) in [
                ("namespace", &about.namespace),
                ("name", &about.name),
                ("uid", &about.uid),
                ("resourceVersion", &about.resource_version),
            ] {
                if !value.is_empty() {
                    object.insert(field.to_owned(), value.as_str().into());
                }
            }
        }
        if matches!(reply.body, Payload::Events(_)) {
            let event = self.at_stage("ResponseStarted");
            self.log.send(event);
        }
    }

    fn is_of_stranger(&self) -> bool {
        let user = self.event.get("user").and_then(|user| user["username"].as_str());
        // Without a user the request was refused before it was known whose it is.
        user.is_none_or(|user| user == ANONYMOUS)
    }

    fn at_stage(&self, stage: &str) -> Map<String, Value> {
        let mut event = self.event.clone();
        // Only now it is known who asked: the address was noted before.
        if let (true, Some(Value::String(uri))) = (self.is_of_stranger(), event.get_mut("requestURI")) {
            *uri = shown(uri, STRANGERS_URI_CHARS_MAX);
        }
        event.insert("stage".to_owned(), stage.into());
        event.insert("stageTimestamp".to_owned(), micros(self.clock.now()));
        event
    }
}

impl Drop for Auditing {
    fn drop(&mut self) {
        let event = self.at_stage("ResponseComplete");
        self.log.send(event);
    }
}

fn fields_that_are_there<const N: usize>(fields: [(&str, String); N]) -> Value {
    let there = fields.into_iter().filter(|(_, text)| !text.is_empty());
    there.map(|(field, text)| (field.to_owned(), Value::from(text))).collect()
}

/// A token in a query is a secret. Difference: upstream writes it into its log.
fn without_token(uri: &str) -> String {
    let Some((path, query)) = uri.split_once('?') else { return uri.to_owned() };
    let kept = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) if name.eq_ignore_ascii_case(TOKEN) => format!("{name}=REDACTED"),
        _ => pair.to_owned(),
    });
    format!("{path}?{}", kept.collect::<Vec<_>>().join("&"))
}

/// Text of a client: cut, and without control characters.
fn shown(text: &str, chars_max: usize) -> String {
    text.chars().filter(|c| !c.is_control()).take(chars_max).collect()
}

fn micros(at: Timestamp) -> Value {
    at.to_rfc3339_opts(SecondsFormat::Micros, true).into()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use parking_lot::Mutex;

    use super::*;

    /// What is written, and how many writes fail first.
    #[derive(Clone, Default)]
    struct Disk(Arc<Mutex<(Vec<u8>, usize)>>);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut disk = self.0.lock();
            match disk.1.checked_sub(1) {
                None => disk.0.extend_from_slice(bytes),
                Some(left) => {
                    disk.1 = left;
                    disk.0.extend_from_slice(&bytes[..3]);
                    return Err(io::ErrorKind::StorageFull.into());
                }
            }
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Disk {
        fn events(&self) -> Vec<Value> {
            let text = String::from_utf8(self.0.lock().0.clone()).unwrap();
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
        }
    }

    #[test]
    fn a_request_of_a_stranger_is_short_and_no_token_is_kept() {
        let long = format!("/api?x={}&access_token=secret&y=1", "a".repeat(2_000));
        let parts = http::Request::get(&long).body(()).unwrap().into_parts().0;
        let uri_of = |who: Option<Identity>| {
            let disk = Disk::default();
            let log = Arc::new(AuditLog::start(disk.clone()).unwrap());
            let clock = Clock::fixed(chrono::DateTime::UNIX_EPOCH);
            let mut auditing = Auditing::begin(log.clone(), clock, &parts, Source::Socket);
            if let Some(who) = &who {
                auditing.asked_by(who, who);
            }
            drop(auditing);
            log.finish();
            disk.events()[0]["requestURI"].as_str().unwrap().to_owned()
        };
        let (stranger, known) = (uri_of(None), uri_of(Some(Identity::ADMIN)));
        assert_eq!(stranger.chars().count(), STRANGERS_URI_CHARS_MAX);
        assert!(known.ends_with("&access_token=REDACTED&y=1") && known.len() > 2_000, "{known}");
        assert_eq!(without_token("/api/v1?watch=1&ACCESS_TOKEN=x"), "/api/v1?watch=1&ACCESS_TOKEN=REDACTED");
        assert_eq!(without_token("/api/v1"), "/api/v1");
    }

    fn event(n: u64) -> Map<String, Value> {
        Map::from_iter([("n".to_owned(), n.into())])
    }

    #[test]
    fn a_full_disk_loses_events_and_says_how_many() {
        let disk = Disk::default();
        disk.0.lock().1 = 2;
        let log = AuditLog::start(disk.clone()).unwrap();
        (0..4).for_each(|n| log.send(event(n)));
        log.finish();
        assert_eq!(disk.events(), [json!({"n": 2, "annotations": {LOST: "2"}}), json!({"n": 3})]);
    }

    /// A disk that takes nothing until the test allows it. It says when the first write waits.
    struct Stuck {
        waits: mpsc::Sender<()>,
        go_on: mpsc::Receiver<()>,
        disk: Disk,
    }

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.waits.send(());
            let _ = self.go_on.recv();
            self.disk.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_disk_that_hangs_keeps_nobody_waiting() {
        let (waits, waiting) = mpsc::channel();
        let (allow, go_on) = mpsc::channel();
        let disk = Disk::default();
        let log = AuditLog::start(Stuck { waits, go_on, disk: disk.clone() }).unwrap();
        log.send(event(0));
        waiting.recv().unwrap();
        let queued = QUEUE_MAX as u64;
        (1..=queued + 100).for_each(|n| log.send(event(n)));
        assert_eq!(log.lost.load(Ordering::Relaxed), 100);
        drop(allow);
        // `finish` is a message as well: it needs a place in the queue.
        (0..queued).for_each(|_| waiting.recv().unwrap());
        log.send(event(queued + 101));
        log.finish();
        let events = disk.events();
        let lost: u64 =
            events.iter().filter_map(|e| e["annotations"][LOST].as_str()?.parse::<u64>().ok()).sum();
        assert_eq!((events.len() as u64, lost), (queued + 2, 100));
    }
}
