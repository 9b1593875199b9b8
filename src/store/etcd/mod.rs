//! The store in etcd, in the layout of a kube-apiserver: the same keys below a prefix, plain JSON
//! values, etcd's revisions. Several servers may share one etcd; each sees the writes of all in
//! their one order.
//!
//! Writes are etcd transactions guarded by `mod_revision`. Reads come from a mirror in memory, which
//! one watch over all of etcd's keys keeps up (all, so that it always knows how far it has come): a
//! read first asks etcd for its revision, one question for everybody who waits, and then waits until
//! the mirror has got there. So reads are consistent, cost no transfer, and the past, watches and
//! bookmarks work as in the other stores.
//!
//! Must not know what a value means: [`Plain`] turns it into what others can read and back.
//!
//! Source: apiserver `pkg/storage/etcd3/{store,compact}.go`, v0.35. Different: no leases (whoever
//! stores events removes them), and the watch cache is one for everything.

mod layout;
mod mirror;

#[cfg(test)]
pub(super) mod tests;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use etcd_client::{
    Certificate, Client, Compare, CompareOp, ConnectOptions, GetOptions, Identity, KvClient, TlsOptions,
    TxnOp, TxnOpResponse,
};
use futures::StreamExt as _;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::task::AbortOnDropHandle;

use super::history::Bounds;
use super::image::Image;
use super::{Entry, Error, Outcome, Page, Range, Revision, Store, Txn, TxnLimit, Watch, Write};
pub use layout::Plain;
use layout::{Layout, from_etcd, to_etcd};
use mirror::Mirror;

/// The key by which servers agree on who compacts. A kube-apiserver's, so that both can share it.
const COMPACT_KEY: &str = "compact_rev_key";
/// Written to use revisions up.
const FLOOR_KEY: &str = "capstan_revision_floor";
/// How long one request may take.
const REQUEST_MAX: Duration = Duration::from_secs(5);
/// How long a question is repeated while nobody answers: long enough for another member to take over.
const RETRY_MAX: Duration = Duration::from_secs(2);
const RETRY_EVERY: Duration = Duration::from_millis(100);
/// How long the mirror may be behind.
const LAG_MAX: Duration = Duration::from_secs(3);
/// Answers of etcd may be as large as it makes them.
const MESSAGE_BYTES_MAX: usize = 1 << 30;
/// Writes in flight while revisions are used up.
const RAISE_TOGETHER: usize = 64;

/// Which etcd, and where in it.
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// `HOST:PORT` each.
    pub endpoints: Vec<String>,
    /// Stands in etcd for `within`, as kube-apiserver's `--etcd-prefix` does. No slash at the end.
    pub prefix: String,
    /// The beginning of every key of this store.
    pub within: String,
    pub tls: Option<TlsFiles>,
    pub plain: Plain,
}

/// PEM texts for a connection by TLS.
#[derive(Clone)]
pub struct TlsFiles {
    /// Who signs etcd's certificate.
    pub ca: Vec<u8>,
    /// Our own certificate and key.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl std::fmt::Debug for TlsFiles {
    /// No keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TlsFiles")
    }
}

/// The store in etcd. Clones share it.
#[derive(Clone)]
pub struct EtcdStore(Arc<Shared>);

struct Shared {
    kv: KvClient,
    layout: Layout,
    image: Image,
    /// How far the mirror has come.
    mirrored: watch::Receiver<Revision>,
    questions: mpsc::Sender<oneshot::Sender<Result<Revision, Error>>>,
    _tasks: [AbortOnDropHandle<()>; 2],
}

impl EtcdStore {
    /// Connects and reads everything once.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when etcd does not answer, and what [`Error`] says else.
    pub async fn connect(options: EtcdOptions) -> Result<Self, Error> {
        Self::connect_bounded(options, Bounds::default()).await
    }

    pub(super) async fn connect_bounded(options: EtcdOptions, bounds: Bounds) -> Result<Self, Error> {
        let layout = Layout::new(&options);
        let client = Client::connect(&options.endpoints, Some(connect_options(options.tls)));
        let client = client.await.map_err(|error| layout.failed(&error))?;
        let kv = client.kv_client().max_decoding_message_size(MESSAGE_BYTES_MAX);
        let head = head(&kv, &layout).await?;
        let (image, mirrored, mirror) = Mirror::open(client, kv.clone(), layout.clone(), bounds).await?;
        let (questions, asked) = mpsc::channel(1024);
        let tasks = [
            AbortOnDropHandle::new(tokio::spawn(mirror.run())),
            AbortOnDropHandle::new(tokio::spawn(answer(kv.clone(), layout.clone(), asked))),
        ];
        let store = Self(Arc::new(Shared { kv, layout, image, mirrored, questions, _tasks: tasks }));
        store.mirrored(head).await?;
        Ok(store)
    }

    /// Waits until the mirror has come to `revision`.
    async fn mirrored(&self, revision: Revision) -> Result<(), Error> {
        let mut mirrored = self.0.mirrored.clone();
        let reached = tokio::time::timeout(LAG_MAX, mirrored.wait_for(|at| *at >= revision)).await;
        match reached {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err(Error::Closed),
            Err(_) => {
                let at = *self.0.mirrored.borrow();
                let reason = format!("its changes arrive too late (revision {at}, wanted {revision})");
                Err(self.0.layout.unavailable(reason))
            }
        }
    }

    /// The revision etcd is at, which the mirror has reached too.
    async fn current(&self) -> Result<Revision, Error> {
        let known = self.0.image.revision();
        let (answer, answered) = oneshot::channel();
        self.0.questions.send(answer).await.map_err(|_| Error::Closed)?;
        let revision = answered.await.map_err(|_| Error::Closed)??;
        if revision < known {
            let reason =
                format!("it was set back from revision {known} to {revision}, and is being read again");
            return Err(self.0.layout.unavailable(reason));
        }
        self.mirrored(revision).await?;
        Ok(revision)
    }

    async fn commit(&self, txn: Txn) -> Result<Outcome, Error> {
        let layout = &self.0.layout;
        let expect: Vec<Compare> = (txn.expect.iter())
            .map(|(key, at)| Compare::mod_revision(layout.etcd_key(key), CompareOp::Equal, to_etcd(*at)))
            .collect();
        let look: Vec<TxnOp> =
            txn.expect.iter().map(|(key, _)| TxnOp::get(layout.etcd_key(key), None)).collect();
        let writes: Vec<TxnOp> = (txn.writes.iter())
            .map(|write| match write {
                Write::Put(key, value) => TxnOp::put(layout.etcd_key(key), layout.value(value), None),
                Write::Delete(key) => TxnOp::delete(layout.etcd_key(key), None),
            })
            .collect();
        let request = etcd_client::Txn::new().when(expect).and_then(writes).or_else(look);
        let mut kv = self.0.kv.clone();
        let response = match tokio::time::timeout(REQUEST_MAX, kv.txn(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(layout.failed(&error)),
            Err(_) => {
                return Err(layout.unavailable("no answer in time; the write may have been made".to_owned()));
            }
        };
        if response.succeeded() {
            return Ok(Outcome::Committed(
                response.header().map_or(0, |header| from_etcd(header.revision())),
            ));
        }
        for ((key, expected), found) in txn.expect.into_iter().zip(response.op_responses()) {
            let TxnOpResponse::Get(found) = found else { continue };
            let current: Option<Entry> = found.kvs().first().and_then(|kv| layout.entry(kv));
            if current.as_ref().map_or(0, |entry| entry.modified) != expected {
                return Ok(Outcome::Conflict { key, current });
            }
        }
        Err(layout.unavailable("it refused a transaction without a reason".to_owned()))
    }
}

fn connect_options(tls: Option<TlsFiles>) -> ConnectOptions {
    let options = ConnectOptions::new()
        .with_connect_timeout(REQUEST_MAX)
        .with_keep_alive(Duration::from_secs(10), Duration::from_secs(5))
        .with_keep_alive_while_idle(true)
        .with_require_leader(true);
    let Some(files) = tls else { return options };
    let mut tls = TlsOptions::new().ca_certificate(Certificate::from_pem(files.ca));
    if let Some((certificate, key)) = files.identity {
        tls = tls.identity(Identity::from_pem(certificate, key));
    }
    options.with_tls(tls)
}

/// Asks etcd for its revision, by a read that goes through its leader.
async fn head(kv: &KvClient, layout: &Layout) -> Result<Revision, Error> {
    let deadline = tokio::time::Instant::now() + RETRY_MAX;
    loop {
        let mut kv = kv.clone();
        let asked = kv.get(COMPACT_KEY, Some(GetOptions::new().with_count_only()));
        let error = match tokio::time::timeout(REQUEST_MAX, asked).await {
            Ok(Ok(response)) => {
                return Ok(response.header().map_or(0, |header| from_etcd(header.revision())));
            }
            Ok(Err(error)) => layout.failed(&error),
            Err(_) => layout.unavailable("no answer in time".to_owned()),
        };
        if tokio::time::Instant::now() >= deadline {
            return Err(error);
        }
        tokio::time::sleep(RETRY_EVERY).await;
    }
}

/// Answers whoever asks for the revision, all who wait with one question to etcd.
async fn answer(
    kv: KvClient,
    layout: Layout,
    mut asked: mpsc::Receiver<oneshot::Sender<Result<Revision, Error>>>,
) {
    while let Some(first) = asked.recv().await {
        let mut waiting = vec![first];
        while let Ok(next) = asked.try_recv() {
            waiting.push(next);
        }
        let revision = head(&kv, &layout).await;
        for one in waiting {
            // Whoever asked may have gone.
            let _ = one.send(revision.clone());
        }
    }
}

#[async_trait]
impl Store for EtcdStore {
    async fn revision(&self) -> Result<Revision, Error> {
        self.current().await
    }

    async fn get(&self, key: &str) -> Result<Option<Entry>, Error> {
        self.current().await?;
        Ok(self.0.image.get(key))
    }

    async fn range(&self, range: Range<'_>) -> Result<Page, Error> {
        if range.at.is_none_or(|at| at > self.0.image.revision()) {
            self.current().await?;
        }
        self.0.image.range(range)
    }

    async fn txn(&self, txn: Txn) -> Result<Outcome, Error> {
        let outcome = self.commit(txn).await?;
        if let Outcome::Committed(revision) = outcome {
            // It is written even if the mirror is late; later reads wait for it by themselves.
            let _ = self.mirrored(revision).await;
        }
        Ok(outcome)
    }

    fn weight(&self, key: &str) -> usize {
        self.0.image.weight(key)
    }

    async fn watch(&self, prefix: &str, after: Revision) -> Result<Box<dyn Watch>, Error> {
        self.0.image.watch(prefix, after)
    }

    /// Only if no other server was faster: whoever changes the key first compacts.
    async fn compact(&self, upto: Revision) -> Result<(), Error> {
        self.0.image.compact(upto);
        let layout = &self.0.layout;
        let mut kv = self.0.kv.clone();
        let noted = kv.get(COMPACT_KEY, None).await.map_err(|error| layout.failed(&error))?;
        let noted = noted.kvs().first();
        if noted.and_then(|kv| kv.value_str().ok()?.parse::<Revision>().ok()).unwrap_or(0) >= upto {
            return Ok(());
        }
        let seen = noted.map_or(0, etcd_client::KeyValue::mod_revision);
        let claim = etcd_client::Txn::new()
            .when([Compare::mod_revision(COMPACT_KEY, CompareOp::Equal, seen)])
            .and_then([TxnOp::put(COMPACT_KEY, upto.to_string(), None)]);
        let claimed = kv.txn(claim).await.map_err(|error| layout.failed(&error))?;
        if !claimed.succeeded() {
            return Ok(());
        }
        match kv.compact(to_etcd(upto), None).await {
            Err(error) if !layout::is_compacted(&error) => Err(layout.failed(&error)),
            _ => Ok(()),
        }
    }

    /// Every write takes one revision, so this writes until there.
    async fn raise(&self, floor: Revision) -> Result<(), Error> {
        let at = self.current().await?;
        let layout = &self.0.layout;
        let writes = (at..floor).map(|_| {
            let mut kv = self.0.kv.clone();
            async move { kv.put(FLOOR_KEY, "", None).await }
        });
        let mut writes = futures::stream::iter(writes).buffer_unordered(RAISE_TOGETHER);
        while let Some(written) = writes.next().await {
            written.map_err(|error| layout.failed(&error))?;
        }
        self.current().await?;
        Ok(())
    }

    fn limit(&self) -> TxnLimit {
        // etcd's defaults are 128 writes and 1.5 MiB.
        TxnLimit { writes: 128, bytes: 1 << 20 }
    }
}
