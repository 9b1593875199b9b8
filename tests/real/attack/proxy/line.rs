//! A line of TCP connections to a server that can be given a fault. Owns the bytes on their way; must not know what
//! they mean.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Everything comes late.
    Delay,
    /// Connections end, new ones at once.
    Cut,
    /// Bytes are taken and go nowhere.
    Stall,
    /// The server's side is closed, the client's is not.
    HalfOpen,
    /// Bytes that are no TLS come instead of the answer.
    Garbage,
    /// Connections are reset in the middle of the TLS handshake.
    Reset,
    /// A few bytes at a time.
    Slow,
    /// Nothing on the line: the server itself is stopped.
    Frozen,
}

impl Fault {
    /// Whether nothing gets through any more.
    pub fn is_an_outage(self) -> bool {
        !matches!(self, Self::None | Self::Delay | Self::Slow)
    }

    /// Whether connections are opened again and again meanwhile.
    pub fn is_refused(self) -> bool {
        matches!(self, Self::Cut | Self::Garbage | Self::Reset)
    }
}

const LATE: Duration = Duration::from_millis(300);
const SLOW_BYTES: usize = 512;
const SLOW_PAUSE: Duration = Duration::from_millis(10);
const BUFFER_BYTES: usize = 16 * 1024;
const GARBAGE: &[u8] = b"\x15\x03\x03\xff\xffHTTP/1.1 999 what\r\n\0\x80\xff\x1b[2J";

pub struct Line {
    pub address: String,
    fault: watch::Sender<Fault>,
    opened: Arc<AtomicU64>,
    _accepting: AbortOnDropHandle<()>,
}

impl Line {
    pub async fn to(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let (fault, faults) = watch::channel(Fault::None);
        let opened = Arc::<AtomicU64>::default();
        let accepting = accept(listener, server.to_owned(), faults, opened.clone());
        Self { address, fault, opened, _accepting: AbortOnDropHandle::new(tokio::spawn(accepting)) }
    }

    pub fn set(&self, fault: Fault) {
        self.fault.send_replace(fault);
    }

    /// How many connections were opened so far.
    pub fn opened(&self) -> u64 {
        self.opened.load(Ordering::SeqCst)
    }
}

async fn accept(
    listener: TcpListener,
    server: String,
    faults: watch::Receiver<Fault>,
    opened: Arc<AtomicU64>,
) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        opened.fetch_add(1, Ordering::SeqCst);
        connections.spawn(carry(client, server.clone(), faults.clone()));
    }
}

/// One connection, to its end.
async fn carry(mut client: TcpStream, server: String, faults: watch::Receiver<Fault>) {
    let fault = *faults.borrow();
    if matches!(fault, Fault::Cut | Fault::Reset) {
        if fault == Fault::Reset {
            let _ = client.read(&mut [0; 64]).await;
        }
        let _ = client.set_zero_linger();
        return;
    }
    let Ok(server) = TcpStream::connect(server).await else { return };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        () = pump(from_client, to_server, faults.clone(), false) => {}
        () = pump(from_server, to_client, faults, true) => {}
    }
}

/// Carries bytes one way, `answers` towards the client, until an end or a fault that ends it.
async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut faults: watch::Receiver<Fault>,
    answers: bool,
) {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let fault = *faults.borrow_and_update();
        match fault {
            Fault::Cut | Fault::Reset => return,
            Fault::Stall => {
                let _ = faults.changed().await;
                continue;
            }
            Fault::HalfOpen if answers => {
                let _ = to.shutdown().await;
                let _ = faults.changed().await;
                return;
            }
            Fault::Garbage if answers => {
                let _ = to.write_all(GARBAGE).await;
                return;
            }
            _ => {}
        }
        let read = tokio::select! {
            read = from.read(&mut buffer) => read,
            _ = faults.changed() => continue,
        };
        let Ok(count @ 1..) = read else { return };
        if forward(fault, &mut to, &buffer[..count]).await.is_err() {
            return;
        }
    }
}

async fn forward(fault: Fault, to: &mut OwnedWriteHalf, bytes: &[u8]) -> std::io::Result<()> {
    match fault {
        Fault::Delay => {
            tokio::time::sleep(LATE).await;
            to.write_all(bytes).await
        }
        Fault::Slow => {
            for some in bytes.chunks(SLOW_BYTES) {
                tokio::time::sleep(SLOW_PAUSE).await;
                to.write_all(some).await?;
            }
            Ok(())
        }
        _ => to.write_all(bytes).await,
    }
}
