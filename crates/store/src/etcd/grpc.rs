//! A member of etcd over gRPC. Owns the words of the client crate: connections, TLS, and what an
//! error says about whether a request was done. Must not know other members.
//!
//! Source: etcd `api/v3rpc/rpctypes/error.go` and `client/v3/retry_interceptor.go`, v3.5: which
//! answers are given before anything is proposed. Different: a lost connection is never taken for
//! "not done", and a full store is not either: the apply loop may notice it with the write made.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use etcd_client::{
    Certificate, Client, Compare, CompareOp, ConnectOptions, EventType, GetOptions, Identity, KeyValue,
    KvClient, TlsOptions, TxnOp, TxnOpResponse, WatchClient, WatchOptions, WatchStream,
};

use super::wire::{Answer, Event, Failure, Feed, Found, Item, Member, News, Op, Query, Transaction};
use super::{COMPACT_KEY, TlsFiles};
use crate::Revision;

/// Answers of etcd may be as large as it makes them.
const MESSAGE_BYTES_MAX: usize = 1 << 30;
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// etcd closes connections that are pinged more often than every 5 s.
const PING_EVERY: Duration = Duration::from_secs(10);
const PING_ANSWER_MAX: Duration = Duration::from_secs(5);
/// Any key, for a watch from here on over all of them.
const FIRST_KEY: &[u8] = b"\0";

/// Answers that etcd gives before a request is proposed, and that another member may not give.
const UNREADY: [&str; 5] = [
    "etcdserver: no leader",
    "etcdserver: not capable",
    "etcdserver: too many requests",
    "rpc not supported for learner",
    "raft proposal dropped",
];

/// Codes of gRPC for requests that were looked at and turned down: `INVALID_ARGUMENT`, `NOT_FOUND`,
/// `PERMISSION_DENIED`, `FAILED_PRECONDITION`, `OUT_OF_RANGE`, `UNIMPLEMENTED`, `UNAUTHENTICATED`.
const REFUSED: [i32; 7] = [3, 5, 7, 9, 11, 12, 16];

/// What rustls reports about the peer's certificate, or the peer's alert, which may be about ours.
const INVALID: &str = "invalid peer certificate";
const ALERT: &str = "received fatal alert";

pub(super) struct GrpcMember {
    kv: KvClient,
    watch: WatchClient,
    by_tls: bool,
    /// It has answered before: what goes wrong now is not about certificates.
    has_answered: AtomicBool,
}

impl GrpcMember {
    /// Connects when it is first asked something.
    pub(super) async fn new(endpoint: &str, tls: Option<&TlsFiles>) -> Result<Self, Failure> {
        let client = Client::connect([endpoint], Some(connect_options(tls))).await;
        let client = client.map_err(|error| match tls {
            Some(_) => Failure::Untrusted(innermost(&error).to_string()),
            None => Failure::Refused(innermost(&error).to_string()),
        })?;
        Ok(Self {
            kv: client.kv_client().max_decoding_message_size(MESSAGE_BYTES_MAX),
            watch: client.watch_client().max_decoding_message_size(MESSAGE_BYTES_MAX),
            by_tls: tls.is_some(),
            has_answered: AtomicBool::new(false),
        })
    }

    /// Which etcd it is a member of, as a number.
    pub(super) async fn cluster(&self) -> Result<u64, Failure> {
        // Any answer carries the number, so the key need not be there.
        let found = self.read(self.kv.clone().get(COMPACT_KEY, None).await)?;
        Ok(found.header().map_or(0, |header| header.cluster_id()))
    }

    fn answered<T>(&self, result: Result<T, etcd_client::Error>) -> Result<T, Failure> {
        self.has_answered.fetch_or(result.is_ok(), Ordering::Relaxed);
        result.map_err(|error| failure(&error))
    }

    /// The same for a read, where nothing is lost by a wrong guess.
    fn read<T>(&self, result: Result<T, etcd_client::Error>) -> Result<T, Failure> {
        match self.answered(result) {
            // With TLS 1.3 a server looks at the certificate when the client has already begun to write.
            Err(Failure::Lost(reason)) if self.by_tls && !self.has_answered.load(Ordering::Relaxed) => {
                Err(Failure::Untrusted(match reason.contains(ALERT) {
                    true => reason,
                    false => format!(
                        "it closes the connection right after the TLS handshake, as it does when it does \
                         not accept the client's certificate ({reason})"
                    ),
                }))
            }
            result => result,
        }
    }
}

fn connect_options(tls: Option<&TlsFiles>) -> ConnectOptions {
    let options = ConnectOptions::new()
        .with_connect_timeout(CONNECT_MAX)
        .with_keep_alive(PING_EVERY, PING_ANSWER_MAX)
        // A watch may be silent for long, and would wait at a dead member until TCP gives up.
        .with_keep_alive_while_idle(true)
        // Without this, a member that lost its leader keeps watches open and silent.
        .with_require_leader(true);
    let Some(files) = tls else { return options };
    let mut tls = TlsOptions::new().ca_certificate(Certificate::from_pem(&files.ca));
    if let Some((certificate, key)) = &files.identity {
        tls = tls.identity(Identity::from_pem(certificate, key));
    }
    options.with_tls(tls)
}

#[async_trait]
impl Member for GrpcMember {
    async fn range(&self, query: &Query) -> Result<Found, Failure> {
        let mut options = GetOptions::new().with_limit(query.limit);
        if let Some(end) = &query.end {
            options = options.with_range(end.as_str());
        }
        if let Some(at) = query.at {
            options = options.with_revision(to_etcd(at));
        }
        let found = self.read(self.kv.clone().get(query.from.as_slice(), Some(options)).await)?;
        Ok(Found {
            items: found.kvs().iter().map(item).collect(),
            more: found.more(),
            revision: found.header().map_or(0, |header| from_etcd(header.revision())),
        })
    }

    async fn txn(&self, transaction: &Transaction) -> Result<Answer, Failure> {
        let guards: Vec<Compare> = (transaction.guards.iter())
            .map(|guard| Compare::mod_revision(guard.key.as_str(), CompareOp::Equal, to_etcd(guard.modified)))
            .collect();
        let ops = |ops: &[Op]| ops.iter().map(op).collect::<Vec<_>>();
        let request = etcd_client::Txn::new()
            .when(guards)
            .and_then(ops(&transaction.then))
            .or_else(ops(&transaction.otherwise));
        // A write whose connection was closed may have been made: no guess about certificates here.
        let answer = self.answered(self.kv.clone().txn(request).await)?;
        let found = answer.op_responses().into_iter().filter_map(|response| match response {
            TxnOpResponse::Get(found) => Some(found.kvs().first().map(item)),
            _ => None,
        });
        Ok(Answer {
            held: answer.succeeded(),
            revision: answer.header().map_or(0, |header| from_etcd(header.revision())),
            found: found.collect(),
        })
    }

    async fn compact(&self, upto: Revision) -> Result<(), Failure> {
        self.answered(self.kv.clone().compact(to_etcd(upto), None).await).map(drop)
    }

    async fn watch(&self, from: Revision) -> Result<Box<dyn Feed>, Failure> {
        let options = WatchOptions::new().with_from_key().with_start_revision(to_etcd(from));
        let stream = self.read(self.watch.clone().watch(FIRST_KEY, Some(options)).await)?;
        Ok(Box::new(GrpcFeed(stream)))
    }
}

struct GrpcFeed(WatchStream);

#[async_trait]
impl Feed for GrpcFeed {
    async fn next(&mut self) -> Result<News, Failure> {
        let news = match self.0.message().await {
            Ok(Some(news)) => news,
            Ok(None) => return Err(Failure::Lost("it ended the watch".to_owned())),
            Err(error) => return Err(failure(&error)),
        };
        // etcd cancels a watch that is compacted too, so this comes before `canceled`.
        if news.compact_revision() > 0 {
            return Ok(News::Compacted(from_etcd(news.compact_revision())));
        }
        if news.canceled() {
            return Err(Failure::Unready(news.cancel_reason().to_owned()));
        }
        if news.created() {
            return Ok(News::Begun(news.header().map_or(0, |header| from_etcd(header.revision()))));
        }
        // etcd reports progress by an answer without events.
        let changes: Vec<Event> = news.events().iter().filter_map(event).collect();
        Ok(if changes.is_empty() { News::Alive } else { News::Changes(changes) })
    }

    async fn ask(&mut self) -> Result<(), Failure> {
        self.0.request_progress().await.map_err(|error| failure(&error))
    }
}

fn op(op: &Op) -> TxnOp {
    match op {
        Op::Put(key, value) => TxnOp::put(key.as_str(), value.clone(), None),
        Op::Delete(key) => TxnOp::delete(key.as_str(), None),
        Op::Get(key) => TxnOp::get(key.as_str(), None),
    }
}

fn item(kv: &KeyValue) -> Item {
    Item {
        key: Bytes::copy_from_slice(kv.key()),
        value: Bytes::copy_from_slice(kv.value()),
        created: from_etcd(kv.create_revision()),
        modified: from_etcd(kv.mod_revision()),
    }
}

fn event(event: &etcd_client::Event) -> Option<Event> {
    let kv = event.kv()?;
    let put = match event.event_type() {
        EventType::Put => Some(item(kv)),
        EventType::Delete => None,
    };
    Some(Event { key: Bytes::copy_from_slice(kv.key()), revision: from_etcd(kv.mod_revision()), put })
}

/// What an error says about whether the request was done.
fn failure(error: &etcd_client::Error) -> Failure {
    let cause = innermost(error);
    let reason = cause.to_string();
    if let etcd_client::Error::GRpcStatus(status) = error
        // A status with a source was made by the client from a failed connection; etcd's own has
        // none.
        && std::error::Error::source(status).is_none()
    {
        return of_status(status.message(), status.code() as i32);
    }
    if reason.contains(INVALID) {
        return Failure::Untrusted(reason);
    }
    match cause.downcast_ref::<io::Error>().map(io::Error::kind) {
        Some(
            io::ErrorKind::ConnectionRefused
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::AddrNotAvailable,
        ) => Failure::Unreachable(reason),
        // The resolver's error has no kind of its own.
        _ if reason.contains("failed to lookup address") => Failure::Unreachable(reason),
        _ => Failure::Lost(reason),
    }
}

/// What etcd's own answer means.
fn of_status(message: &str, code: i32) -> Failure {
    let says = |words: &str| message.contains(words);
    let reason = message.to_owned();
    // Words come before codes: etcd sends "too large" and "compacted" under codes that also stand
    // for other refusals.
    match () {
        () if UNREADY.iter().any(|words| says(words)) => Failure::Unready(reason),
        () if says("request is too large") || says("larger than max") => Failure::TooLarge(reason),
        () if says("database space exceeded") => Failure::Full(reason),
        () if says("required revision has been compacted") => Failure::Compacted(reason),
        () if REFUSED.contains(&code) => Failure::Refused(reason),
        () => Failure::Lost(reason),
    }
}

/// What went wrong in the end: the last cause, or etcd's own words.
fn innermost(error: &etcd_client::Error) -> &(dyn std::error::Error + 'static) {
    let mut cause: &(dyn std::error::Error + 'static) = match error {
        etcd_client::Error::GRpcStatus(status) => status,
        etcd_client::Error::TransportError(transport) => transport,
        other => other,
    };
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause
}

/// etcd counts in signed numbers.
fn to_etcd(revision: Revision) -> i64 {
    i64::try_from(revision).unwrap_or(i64::MAX)
}

fn from_etcd(revision: i64) -> Revision {
    Revision::try_from(revision).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_etcd_says_before_it_proposes_is_told_from_what_it_says_afterwards() {
        let of = |message, code| of_status(message, code);
        assert!(matches!(of("etcdserver: no leader", 14), Failure::Unready(_)));
        assert!(matches!(of("etcdserver: too many requests", 8), Failure::Unready(_)));
        for after in [
            "etcdserver: request timed out",
            "etcdserver: request timed out, possibly due to previous leader failure",
            "etcdserver: request timed out, possibly due to connection lost",
            "etcdserver: server stopped",
            "etcdserver: leader changed",
        ] {
            assert!(matches!(of(after, 14), Failure::Lost(_)), "{after}");
        }
        assert!(matches!(of("etcdserver: mvcc: database space exceeded", 8), Failure::Full(_)));
        assert!(matches!(of("etcdserver: request is too large", 3), Failure::TooLarge(_)));
        assert!(matches!(
            of("etcdserver: mvcc: required revision has been compacted", 11),
            Failure::Compacted(_)
        ));
        assert!(matches!(of("etcdserver: permission denied", 7), Failure::Refused(_)));
        assert!(matches!(of("something new", 2), Failure::Lost(_)));
    }
}
