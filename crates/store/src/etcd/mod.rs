//! The store in etcd, in the layout of a kube-apiserver: the same keys below a prefix, plain JSON
//! values, etcd's revisions. Several servers may share one etcd; each sees the writes of all in
//! their one order.
//!
//! Writes are etcd transactions guarded by `mod_revision`, each made once (`writer.rs`). Reads come from a mirror in memory, which
//! one watch over all of etcd's keys keeps up (all, so that it always knows how far it has come): a
//! read first asks etcd for its revision, one question for everybody who waits, and then waits until
//! the mirror has got there. So reads are consistent, cost no transfer, and the past, watches and
//! bookmarks work as in the other stores.
//!
//! Must not know what a value means: [`Plain`] turns it into what others can read and back.
//!
//! Source: apiserver `pkg/storage/etcd3/{store,compact}.go`, v0.35. Different: no leases (whoever
//! stores events removes them), and the watch cache is one for everything.

mod grpc;
mod layout;
mod members;
mod mirror;
mod restore;
mod wire;
mod writer;

#[cfg(test)]
pub(super) mod tests;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt as _;
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;

use self::grpc::GrpcMember;
use self::layout::Layout;
use self::members::{Members, Patience};
use self::mirror::{Garbage, Mirror, Progress, compacted_at, head};
use self::wire::{Compaction, Failure, Guard, Member, Op, Query, Transaction};
use self::writer::{Writer, Written};
use super::history::Bounds;
use super::image::Image;
use super::{Entry, Error, Key, Outcome, Page, Range, Revision, Store, Txn, TxnLimit, Watch};
use capstan_base::rng::Rng;
pub use layout::Plain;
pub use restore::{EtcdRestore, RestoreError};

/// The key by which servers agree on who compacts. A kube-apiserver's, so that both can share it.
const COMPACT_KEY: &str = "compact_rev_key";
/// Written to use revisions up.
const FLOOR_KEY: &str = "capstan_revision_floor";
/// How long the mirror may be behind: long enough to change to another member.
const LAG_MAX: Duration = Duration::from_secs(5);
/// How long the start waits for every member to report its cluster ID.
const INTRODUCTION_MAX: Duration = Duration::from_secs(1);
/// Writes in flight while revisions are used up.
const RAISE_TOGETHER: usize = 64;

/// Which etcd, and where in it.
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// `HOST:PORT` each: the members of one etcd.
    pub endpoints: Vec<String>,
    /// Stands in etcd for `within`, as kube-apiserver's `--etcd-prefix` does. No slash at the end.
    pub prefix: String,
    /// The beginning of every key of this store.
    pub within: String,
    pub tls: Option<TlsFiles>,
    pub plain: Plain,
    /// Values of keys that begin so may be sealed, and are kept as they are then.
    pub sealed: &'static [&'static str],
    /// Names this process among those that write.
    pub rng: Rng,
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
    members: Arc<Members>,
    writer: Writer,
    layout: Layout,
    image: Image,
    garbage: Garbage,
    /// How far the mirror has come.
    progress: Progress,
    questions: mpsc::Sender<oneshot::Sender<Result<Revision, Error>>>,
    _tasks: [AbortOnDropHandle<()>; 3],
}

impl EtcdStore {
    /// Connects to whichever member answers, and reads everything once.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when none answers, [`Error::HalfRestored`], and others of [`Error`].
    pub async fn connect(options: EtcdOptions) -> Result<Self, Error> {
        let store = Self::connect_bounded(options, Bounds::default()).await?;
        restore::check_whole(&store.0.members, &store.0.layout).await?;
        Ok(store)
    }

    pub(super) async fn connect_bounded(options: EtcdOptions, bounds: Bounds) -> Result<Self, Error> {
        let layout = Layout::new(&options);
        let mut members = Vec::new();
        for endpoint in &options.endpoints {
            let member = GrpcMember::new(endpoint, options.tls.as_ref()).await;
            members.push((endpoint.clone(), member.map_err(|failure| layout.failed(&failure))?));
        }
        if let Some((one, other)) = strangers(&members).await {
            return Err(layout.unavailable(format!("{one} and {other} are not members of one etcd")));
        }
        let boxed = |(endpoint, member)| -> (String, Box<dyn Member>) { (endpoint, Box::new(member)) };
        Self::over(members.into_iter().map(boxed).collect(), layout, options.rng, bounds).await
    }

    async fn over(
        members: Vec<(String, Box<dyn Member>)>,
        layout: Layout,
        rng: Rng,
        bounds: Bounds,
    ) -> Result<Self, Error> {
        let members = Members::new(members);
        let probe = AbortOnDropHandle::new(tokio::spawn(members.clone().probe()));
        // The question comes before reading: all that was acknowledged before the start is waited
        // for.
        let head = head(&members).await.map_err(|failure| layout.failed(&failure))?;
        let mirror = Mirror::open(members.clone(), layout.clone(), bounds).await?;
        let (image, garbage) = (mirror.image.clone(), mirror.garbage.clone());
        let progress = mirror.progress.clone();
        let (questions, asked) = mpsc::channel(1024);
        let tasks = [
            probe,
            AbortOnDropHandle::new(tokio::spawn(mirror.run())),
            AbortOnDropHandle::new(tokio::spawn(answer(members.clone(), layout.clone(), asked))),
        ];
        let writer = Writer::new(members.clone(), layout.clone(), rng);
        let shared = Shared { members, writer, layout, image, garbage, progress, questions, _tasks: tasks };
        let store = Self(Arc::new(shared));
        store.mirrored(head).await?;
        Ok(store)
    }

    /// Waits until the mirror has come to `revision`.
    async fn mirrored(&self, revision: Revision) -> Result<(), Error> {
        let progress = &self.0.progress;
        tokio::time::timeout(LAG_MAX, progress.until(revision)).await.map_err(|_| {
            let at = progress.reached();
            self.0
                .layout
                .unavailable(format!("its changes arrive too late (revision {at}, wanted {revision})"))
        })
    }

    /// The revision etcd is at, which the mirror has reached too.
    async fn current(&self) -> Result<Revision, Error> {
        // Known before the question: what arrives meanwhile must not make the answer look like a
        // step back.
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

    /// Of a deletion whose answer was lost, and whose object was found changed afterwards, the history
    /// knows whether it was made.
    async fn resolve(&self, written: Written) -> Result<Outcome, Error> {
        let (key, expected, now, current) = match written {
            Written::At(revision) => return Ok(Outcome::Committed(revision)),
            Written::Conflict { key, current } => return Ok(Outcome::Conflict { key, current }),
            Written::Gone { key, expected, now, current } => (key, expected, now, current),
        };
        let is_known = self.mirrored(now).await.is_ok();
        match self.0.image.first_change(&key, expected) {
            Ok(Some(change)) if is_known && change.current.is_none() => {
                Ok(Outcome::Committed(change.revision))
            }
            Ok(Some(_)) if is_known => Ok(Outcome::Conflict { key, current }),
            _ => Err(self.0.layout.unknown(&Failure::Lost("its answer was lost".to_owned()))),
        }
    }

    fn failed(&self) -> impl Fn(Failure) -> Error {
        |failure| self.0.layout.failed(&failure)
    }
}

/// Two that answer and do not belong together: what one acknowledges, the other would not have.
async fn strangers(members: &[(String, GrpcMember)]) -> Option<(String, String)> {
    let asked = members.iter().map(|(endpoint, member)| async move {
        // A member that is silent at the start is left out; the others are enough.
        let cluster = tokio::time::timeout(INTRODUCTION_MAX, member.cluster()).await.ok()?.ok()?;
        Some((endpoint, cluster))
    });
    let known: Vec<_> = futures::future::join_all(asked).await.into_iter().flatten().collect();
    let (first, cluster) = known.first()?;
    let other = known.iter().find(|(_, other)| other != cluster)?;
    Some(((*first).clone(), other.0.clone()))
}

/// Answers requests for the current revision: one question to etcd serves all that wait.
async fn answer(
    members: Arc<Members>,
    layout: Layout,
    mut asked: mpsc::Receiver<oneshot::Sender<Result<Revision, Error>>>,
) {
    while let Some(first) = asked.recv().await {
        let mut waiting = vec![first];
        // Only those that waited before the question may have its answer: later ones may follow a
        // write.
        while let Ok(next) = asked.try_recv() {
            waiting.push(next);
        }
        let revision = head(&members).await.map_err(|failure| layout.failed(&failure));
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
        let object = self.0.image.get(key);
        Ok(object.or_else(|| self.0.garbage.read().get(key).cloned()))
    }

    async fn range(&self, range: Range<'_>) -> Result<Page, Error> {
        // A revision that the mirror has passed does not change any more, so etcd need not be
        // asked.
        if range.at.is_none_or(|at| at > self.0.image.revision()) {
            self.current().await?;
        }
        self.0.image.range(range)
    }

    async fn txn(&self, txn: Txn) -> Result<Outcome, Error> {
        let written = self.0.writer.commit(&txn).await?;
        let outcome = self.resolve(written).await?;
        if let Outcome::Committed(revision) = outcome {
            // It is written even if the mirror is late; later reads wait for it by themselves.
            let _ = self.mirrored(revision).await;
        }
        Ok(outcome)
    }

    fn weight(&self, key: &str) -> usize {
        self.0.image.weight(key)
    }

    fn unreadable(&self, prefix: &str) -> Vec<Key> {
        let garbage = self.0.garbage.read();
        let keys = garbage.range(Key::from(prefix)..).map(|(key, _)| key);
        keys.take_while(|key| key.starts_with(prefix)).cloned().collect()
    }

    async fn watch(&self, prefix: &str, after: Revision) -> Result<Box<dyn Watch>, Error> {
        self.0.image.watch(prefix, after)
    }

    /// Only if no other server was faster: the server that changes the key first compacts. A claim whose
    /// answer was lost counts as another server's.
    async fn compact(&self, upto: Revision) -> Result<(), Error> {
        self.0.image.compact(upto);
        let members = &self.0.members;
        let noted =
            members.repeat(&Query::key(COMPACT_KEY), Patience::REQUEST).await.map_err(self.failed())?;
        let noted = noted.items.first();
        if noted.and_then(compacted_at).unwrap_or(0) >= upto {
            return Ok(());
        }
        let seen = noted.map_or(0, |item| item.modified);
        let claim = Transaction {
            guards: vec![Guard { key: COMPACT_KEY.to_owned(), modified: seen }],
            then: vec![Op::Put(COMPACT_KEY.to_owned(), upto.to_string().into())],
            otherwise: Vec::new(),
        };
        if !members.repeat(&claim, Patience::REQUEST).await.map_err(self.failed())?.held {
            return Ok(());
        }
        match members.repeat(&Compaction(upto), Patience::REQUEST).await {
            // A repetition finds the revision compacted, which is what was wanted.
            Err(failure) if !matches!(failure, Failure::Compacted(_)) => Err(self.failed()(failure)),
            _ => self.0.writer.sweep(upto).await.map_err(self.failed()),
        }
    }

    /// Every write takes one revision, so this writes until there.
    async fn raise(&self, floor: Revision) -> Result<(), Error> {
        let at = self.current().await?;
        let put = &Transaction {
            then: vec![Op::Put(FLOOR_KEY.to_owned(), bytes::Bytes::new())],
            ..Transaction::default()
        };
        // A repeated write does no harm: it only uses up one revision more.
        let writes = (at..floor).map(|_| self.0.members.repeat(put, Patience::REQUEST));
        let mut writes = futures::stream::iter(writes).buffer_unordered(RAISE_TOGETHER);
        while let Some(written) = writes.next().await {
            written.map_err(self.failed())?;
        }
        self.current().await?;
        Ok(())
    }

    fn limit(&self) -> TxnLimit {
        // etcd's defaults are 128 writes and 1.5 MiB; one write is the writer's own.
        TxnLimit { writes: 127, bytes: 1 << 20 }
    }
}
