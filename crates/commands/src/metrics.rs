//! `capstan metrics`: the verdicts of a fleet as a page that Prometheus reads. Owns the names of the metrics, which are part of the
//! interface, and the few words of HTTP that a page takes; verdicts are the model's.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::live::LiveFleet;
use capstan_base::rng::Rng;
use capstan_base::time::Clock;
use capstan_dashboard::fleet::watch::Scope;
use capstan_dashboard::fleet::{FeedState, Fleet, Row, RowId, Verdict};
use capstan_engine::client::Connection;

/// The head of a request at most; what is longer is nobody's who reads a page.
const HEAD_MAX: usize = 8 * 1024;
/// Pages that are being sent at once.
const READERS_MAX: usize = 16;
/// Whoever does not ask or read in this time is left.
const PATIENCE: Duration = Duration::from_secs(10);
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

#[derive(Clone, Debug, Args)]
pub struct MetricsArgs {
    /// Where the page is served, without TLS and to whoever reaches it; port 0 picks a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:9464")]
    pub listen: SocketAddr,
}

/// The page that is served, before anything of it is.
pub struct Page {
    listener: TcpListener,
    live: LiveFleet,
}

impl Page {
    /// Begins to listen and to watch. `namespace` is empty for all.
    ///
    /// # Errors
    /// Nothing can listen there.
    pub async fn open(
        connection: &Connection,
        listen: SocketAddr,
        namespace: &str,
        (clock, rng): (Clock, Rng),
    ) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(listen).await;
        let listener = listener.with_context(|| format!("cannot listen at {listen}"))?;
        let scope = Scope { namespace: (!namespace.is_empty()).then(|| namespace.to_owned()) };
        Ok(Self { listener, live: LiveFleet::open(connection, scope, clock, rng) })
    }

    /// # Errors
    /// The address is not known any more.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the watch ends, which it does not by itself.
    pub async fn serve(mut self) {
        let readers = Arc::new(Semaphore::new(READERS_MAX));
        loop {
            tokio::select! {
                is_live = self.live.turn() => if !is_live { return },
                accepted = self.listener.accept() => {
                    // Whoever comes when there is no room asks again; so does one whose connection broke at once.
                    let (Ok((stream, _)), Ok(room)) = (accepted, Arc::clone(&readers).try_acquire_owned()) else { continue };
                    self.live.advance();
                    let page = text(&self.live.fleet);
                    tokio::spawn(async move {
                        let _room = room;
                        // A reader that left has its answer no more; nobody else is concerned.
                        let _ = tokio::time::timeout(PATIENCE, answer(stream, &page)).await;
                    });
                }
            }
        }
    }
}

async fn answer(mut stream: TcpStream, page: &str) -> std::io::Result<()> {
    let head = head(&mut stream).await?;
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let (status, body) = match line.split(|byte| *byte == b' ').collect::<Vec<_>>().as_slice() {
        [b"GET", path, _] if path.split(|byte| *byte == b'?').next() == Some(b"/metrics") => ("200 OK", page),
        [b"GET", ..] => ("404 Not Found", "the page is /metrics\n"),
        _ => ("405 Method Not Allowed", "only GET is answered\n"),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

/// What was sent up to the empty line, or as much of it as is read.
async fn head(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let (mut head, mut buffer) = (Vec::new(), [0; 1024]);
    while head.len() < HEAD_MAX && !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut buffer).await? {
            0 => break,
            count => head.extend_from_slice(&buffer[..count]),
        }
    }
    Ok(head)
}

/// The page: a verdict and its cause for each cluster, and which kinds are read.
pub fn text(fleet: &Fleet) -> String {
    let mut out = String::new();
    let heading = |out: &mut String, name: &str, help: &str| {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge");
    };
    let clusters: Vec<(RowId, &Arc<Row>)> =
        fleet.clusters().iter().filter_map(|id| Some((*id, fleet.row(*id)?))).collect();
    heading(&mut out, "capstan_cluster_verdict", "1 for the verdict that a Cluster has, 0 for the others.");
    for (id, row) in &clusters {
        let shown = fleet.verdict(*id);
        for verdict in Verdict::ALL {
            let _ = writeln!(
                out,
                "capstan_cluster_verdict{{{},verdict=\"{verdict}\"}} {}",
                names(row),
                u8::from(verdict == shown)
            );
        }
    }
    heading(&mut out, "capstan_cluster_cause", "1: what is wrong with a Cluster that is not ok, in words.");
    for (id, row) in clusters.iter().filter(|(id, _)| fleet.verdict(*id) != Verdict::Ok) {
        let (verdict, why) = (fleet.verdict(*id), quoted(&fleet.what_is_wrong(*id)));
        let _ =
            writeln!(out, "capstan_cluster_cause{{{},verdict=\"{verdict}\",cause=\"{why}\"}} 1", names(row));
    }
    heading(&mut out, "capstan_cluster_since_seconds", "Since when that is so, in seconds since the epoch.");
    for (id, row) in &clusters {
        if let Some(since) = fleet.since(*id) {
            let _ = writeln!(out, "capstan_cluster_since_seconds{{{}}} {}", names(row), since.timestamp());
        }
    }
    heading(
        &mut out,
        "capstan_kind_read",
        "1: objects of the kind are read and watched; 0: verdicts do without.",
    );
    for (key, feed) in fleet.feeds() {
        let is_read = u8::from(feed.state == FeedState::Live);
        let (group, kind) = (quoted(&key.group), quoted(&key.kind));
        let _ = writeln!(out, "capstan_kind_read{{group=\"{group}\",kind=\"{kind}\"}} {is_read}");
    }
    out
}

fn names(row: &Row) -> String {
    format!("namespace=\"{}\",cluster=\"{}\"", quoted(&row.namespace), quoted(&row.name))
}

/// A label's value. Source: Prometheus exposition format 0.0.4.
fn quoted(text: &str) -> String {
    text.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_of_a_cluster_ends_a_label() {
        assert_eq!(quoted("a \"b\" \\ c\nd"), r#"a \"b\" \\ c\nd"#);
    }
}
