//! The dashboard over a slow link: a proxy on loopback holds every byte back for a while, in both directions.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use kube::config::Kubeconfig;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::Sizes;
use crate::process::{Server, Terminal};
use crate::table::{Table, median};

/// One way; a round trip takes twice as long.
const DELAY_MS: u64 = 25;
/// Pieces on their way: more than a link of this length holds.
const PIECES_MAX: usize = 4_096;

pub fn measure(runtime: &Runtime, sizes: &Sizes, table: &mut Table) {
    let machines = sizes.many;
    let sample = format!("synthetic:clusters={},machines={machines}", (machines / 100).max(2));
    let server = Server::start("memory", &["--no-engine", "--sample", &sample]);
    let home = tempfile::tempdir().expect("a folder");
    let kubeconfig = home.path().join("slow-link");
    runtime.block_on(lead_through_proxy(&server.kubeconfig(), &kubeconfig));
    let shown = kubeconfig.display().to_string();
    let listed = (0..sizes.repeats)
        .map(|_| Terminal::start(&["--kubeconfig", &shown, "-A"], home.path()).settled_ms())
        .collect();
    let what = format!("{machines} Machines, round trips of {} ms: everything listed", 2 * DELAY_MS);
    table.add(what, format!("{:.0} ms", median(listed)));
}

/// Writes a kubeconfig whose server is a proxy in front of the one of `from`.
async fn lead_through_proxy(from: &Path, to: &Path) {
    let mut config = Kubeconfig::read_from(from).expect("a kubeconfig");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let proxy = listener.local_addr().expect("an address");
    let cluster = config.clusters.first_mut().and_then(|named| named.cluster.as_mut()).expect("a cluster");
    let server = cluster.server.replace(format!("https://{proxy}")).expect("a server");
    tokio::spawn(serve(server.trim_start_matches("https://").trim_end_matches('/').to_owned(), listener));
    std::fs::write(to, serde_json::to_string(&config).expect("a document")).expect("a file");
    std::fs::set_permissions(to, std::fs::Permissions::from_mode(0o600)).expect("rights");
}

async fn serve(target: String, listener: TcpListener) {
    while let Ok((near, _)) = listener.accept().await {
        let Ok(far) = TcpStream::connect(&target).await else { return };
        let (near_read, near_write) = near.into_split();
        let (far_read, far_write) = far.into_split();
        tokio::spawn(delay(near_read, far_write));
        tokio::spawn(delay(far_read, near_write));
    }
}

/// Passes bytes on as they came, each [`DELAY_MS`] later.
async fn delay(mut from: impl AsyncRead + Unpin + Send + 'static, mut to: impl AsyncWrite + Unpin) {
    let (sender, mut pieces) = mpsc::channel::<(Instant, Vec<u8>)>(PIECES_MAX);
    tokio::spawn(async move {
        let mut buffer = vec![0; 65_536];
        while let Ok(n @ 1..) = from.read(&mut buffer).await {
            let due = Instant::now() + Duration::from_millis(DELAY_MS);
            if sender.send((due, buffer[..n].to_vec())).await.is_err() {
                return;
            }
        }
    });
    while let Some((due, piece)) = pieces.recv().await {
        tokio::time::sleep_until(due).await;
        if to.write_all(&piece).await.is_err() {
            return;
        }
    }
}
