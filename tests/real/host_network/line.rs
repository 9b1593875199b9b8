//! The line between here and a machine: passes bytes on, counts them, delays them, stops in the middle, or leads to another machine.
//! Owns the connections over it. Where a test may make network namespaces, a real cable is cut instead.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

struct Shared {
    /// Where new connections lead to.
    to: Mutex<SocketAddr>,
    up: AtomicU64,
    down: AtomicU64,
    connections: AtomicU64,
    /// How long bytes are on their way, in each direction.
    delay: Mutex<Duration>,
    /// So many bytes go up in all; then the line is dead.
    up_max: AtomicU64,
    /// The machine does not notice that a connection has ended.
    keeps_far: AtomicBool,
    /// Grows when all connections end.
    cut: watch::Sender<u64>,
}

/// A port that leads to a machine.
pub struct Line {
    shared: Arc<Shared>,
    pub port: u16,
    accepting: tokio::task::JoinHandle<()>,
}

impl Line {
    pub async fn to(machine: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::new(Shared {
            to: Mutex::new(SocketAddr::from(([127, 0, 0, 1], machine))),
            up: AtomicU64::new(0),
            down: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            delay: Mutex::default(),
            up_max: AtomicU64::new(u64::MAX),
            keeps_far: AtomicBool::new(false),
            cut: watch::Sender::new(0),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { shared, port, accepting }
    }

    /// Another machine takes over the address; connections to the one before end.
    pub fn lead_to(&self, machine: u16) {
        *self.shared.to.lock() = SocketAddr::from(([127, 0, 0, 1], machine));
        self.shared.cut.send_modify(|cut| *cut += 1);
    }

    /// So many more bytes go to the machine, and then none in any direction; connections stay.
    pub fn cut_after(&self, bytes: u64) {
        self.shared.up_max.store(self.up() + bytes, Ordering::SeqCst);
    }

    pub fn is_cut(&self) -> bool {
        self.up() >= self.shared.up_max.load(Ordering::SeqCst)
    }

    /// The cable is back, and both ends notice that what was under way is lost.
    pub fn mend(&self) {
        self.shared.up_max.store(u64::MAX, Ordering::SeqCst);
        self.shared.cut.send_modify(|cut| *cut += 1);
    }

    /// The cable is back after so long a time that this end has given up, and the machine was never told: its sessions wait on.
    pub fn mend_late(&self) {
        self.shared.keeps_far.store(true, Ordering::SeqCst);
        self.mend();
    }

    pub fn delay(&self, delay: Duration) {
        *self.shared.delay.lock() = delay;
    }

    /// Bytes to the machine.
    pub fn up(&self) -> u64 {
        self.shared.up.load(Ordering::SeqCst)
    }

    /// Bytes from the machine.
    pub fn down(&self) -> u64 {
        self.shared.down.load(Ordering::SeqCst)
    }

    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // They end with the line.
    let mut connections = JoinSet::new();
    while let Ok((near, _)) = listener.accept().await {
        shared.connections.fetch_add(1, Ordering::SeqCst);
        connections.spawn(connect(near, Arc::clone(&shared)));
        while connections.try_join_next().is_some() {}
    }
}

async fn connect(near: TcpStream, shared: Arc<Shared>) {
    let mut cut = shared.cut.subscribe();
    let to = *shared.to.lock();
    let Ok(far) = TcpStream::connect(to).await else { return };
    let ((from_near, to_near), (from_far, to_far)) = (near.into_split(), far.into_split());
    let (mut up, mut down) = (Way { from: from_near, to: to_far }, Way { from: from_far, to: to_near });
    let both = async { tokio::join!(up.pass(&shared, true), down.pass(&shared, false)) };
    tokio::select! {
        _ = both => return,
        _ = cut.changed() => {}
    }
    if shared.keeps_far.load(Ordering::SeqCst) {
        let _far = (up.to, down.from);
        drop((up.from, down.to));
        std::future::pending::<()>().await;
    }
}

/// One direction of a connection.
struct Way {
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
}

impl Way {
    /// Until an end closes it. A line that is dead takes bytes from nobody.
    async fn pass(&mut self, shared: &Shared, is_up: bool) {
        let mut chunk = vec![0_u8; 16 * 1024];
        while let Ok(count @ 1..) = self.from.read(&mut chunk).await {
            let delay = *shared.delay.lock();
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            shared.count(count as u64, is_up);
            if shared.up.load(Ordering::SeqCst) >= shared.up_max.load(Ordering::SeqCst) {
                return std::future::pending().await;
            }
            if self.to.write_all(&chunk[..count]).await.is_err() {
                return;
            }
        }
        // The other end is told; where it has closed, it knows.
        let _ = self.to.shutdown().await;
    }
}

impl Shared {
    fn count(&self, bytes: u64, is_up: bool) {
        let counter = if is_up { &self.up } else { &self.down };
        counter.fetch_add(bytes, Ordering::SeqCst);
    }
}
