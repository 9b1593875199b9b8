//! Port-forwards: a connection that is turned over to a port of a pod, by WebSocket. Owns the frames; must not know what is sent
//! in them. Not here: SPDY, and the tunnel of SPDY through a WebSocket that kubectl asks for.
//!
//! Source: kubernetes `pkg/kubelet/cri/streaming/portforward/websocket.go`, v1.35 (channels of `v4.channel.k8s.io`).

use std::time::Duration;

use futures::{Sink, SinkExt as _, Stream, StreamExt as _};
use http::{HeaderValue, Request, Response, header};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Bytes, Error, Message};

use crate::response::{Body, ForwardedPort, Turnover};

/// The channels of the one port that is forwarded.
const DATA: u8 = 0;
const ERROR: u8 = 1;
const BUFFER_BYTES: usize = 16 * 1024;
/// A message of a client. Clients send what they read at once, which is some ten kilobytes.
const MESSAGE_BYTES_MAX: usize = 256 * 1024;
/// For the client's answer to the end.
const CLOSE_WAIT: Duration = Duration::from_secs(5);

/// What a request needs to be turned over, should its answer say so.
pub struct Upgrade {
    key: HeaderValue,
    upgraded: OnUpgrade,
}

impl Upgrade {
    /// `None`: the request does not ask for a WebSocket.
    pub fn of(request: &mut Request<Incoming>) -> Option<Self> {
        let key = request.headers().get(header::SEC_WEBSOCKET_KEY)?.clone();
        Some(Self { key, upgraded: hyper::upgrade::on(request) })
    }

    /// Completes the head of an answer that turns the connection over. `None`: it does not.
    pub fn accepted(self, response: &mut Response<Body>) -> Option<Forwarding> {
        let turnover = response.extensions_mut().remove::<Turnover>()?;
        let port = turnover.0.lock().take()?;
        let accept = HeaderValue::from_str(&derive_accept_key(self.key.as_bytes())).ok()?;
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
        Some(Forwarding { upgraded: self.upgraded, port })
    }
}

/// A connection whose head is sent.
pub struct Forwarding {
    upgraded: OnUpgrade,
    port: ForwardedPort,
}

impl Forwarding {
    /// Passes bytes on until either side ends.
    pub async fn run(self) {
        let passed = async {
            let upgraded = self.upgraded.await.map_err(|error| error.to_string())?;
            let socket =
                WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(bounds())).await;
            pass(socket, self.port).await.map_err(|error| error.to_string())
        };
        if let Err(error) = passed.await {
            tracing::debug!("a port-forward ended: {error}");
        }
    }
}

/// What is held of a message until its end.
fn bounds() -> WebSocketConfig {
    WebSocketConfig::default()
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(MESSAGE_BYTES_MAX))
}

fn message(channel: u8, bytes: &[u8]) -> Message {
    Message::Binary(Bytes::from([&[channel], bytes].concat()))
}

async fn pass(
    mut socket: WebSocketStream<impl AsyncRead + AsyncWrite + Unpin>,
    forwarded: ForwardedPort,
) -> Result<(), Error> {
    let ForwardedPort { port, connection } = forwarded;
    // Each channel begins with the port.
    for channel in [DATA, ERROR] {
        socket.send(message(channel, &port.to_le_bytes())).await?;
    }
    let stream = match connection {
        Ok(stream) => stream,
        Err(why) => {
            // The head is sent, so only the error channel is left for the reason.
            socket.send(message(ERROR, why.as_bytes())).await?;
            socket.close(None).await?;
            read_to_end(&mut socket).await;
            return Ok(());
        }
    };
    let (mut to_client, mut from_client) = socket.split();
    let (from_pod, to_pod) = tokio::io::split(stream);
    // Each direction goes on while the other waits to write: a client that sends all before it reads would
    // otherwise wait for us, and we for it.
    let is_left_open = tokio::select! {
        ended = outward(from_pod, &mut to_client) => ended.map(|()| true)?,
        ended = inward(&mut from_client, to_pod) => ended?,
    };
    if is_left_open {
        to_client.close().await?;
        read_to_end(&mut from_client).await;
    }
    Ok(())
}

/// Drops what the client still sends. A socket that is closed over unread bytes is reset, and what was sent to the
/// client last, such as the reason, would be lost with it.
async fn read_to_end(from: &mut (impl Stream<Item = Result<Message, Error>> + Unpin)) {
    let end = async { while let Some(Ok(_)) = from.next().await {} };
    let _ = tokio::time::timeout(CLOSE_WAIT, end).await;
}

/// From the pod to the client, until the pod has no more.
async fn outward(
    mut from: impl AsyncRead + Unpin,
    to: &mut (impl Sink<Message, Error = Error> + Unpin),
) -> Result<(), Error> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match from.read(&mut buffer).await {
            Ok(count) if count > 0 => to.send(message(DATA, &buffer[..count])).await?,
            _ => return Ok(()),
        }
    }
}

/// From the client to the pod, until one of them ends. Does the client still wait for an end?
async fn inward(
    from: &mut (impl Stream<Item = Result<Message, Error>> + Unpin),
    mut to: impl AsyncWrite + Unpin,
) -> Result<bool, Error> {
    loop {
        match from.next().await {
            Some(Ok(Message::Binary(bytes))) if bytes.first() == Some(&DATA) => {
                if to.write_all(&bytes[1..]).await.is_err() {
                    return Ok(true);
                }
            }
            Some(Ok(Message::Close(_))) | None => return Ok(false),
            // Pings are answered by the library, and clients send nothing on the error channel.
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream};
    use tokio_tungstenite::tungstenite::Utf8Bytes;

    use super::*;

    const PARTS_BEFORE_READING: usize = 100;

    async fn pair() -> (WebSocketStream<tokio::io::DuplexStream>, WebSocketStream<tokio::io::DuplexStream>) {
        let (ours, theirs) = tokio::io::duplex(BUFFER_BYTES);
        let server = WebSocketStream::from_raw_socket(ours, Role::Server, Some(bounds())).await;
        (server, WebSocketStream::from_raw_socket(theirs, Role::Client, None).await)
    }

    async fn bytes(client: &mut WebSocketStream<tokio::io::DuplexStream>) -> Vec<u8> {
        match client.next().await.expect("a message").expect("a frame") {
            Message::Binary(bytes) => bytes.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_message_that_is_too_long_ends_the_connection() {
        let (server, mut client) = pair().await;
        let (near, mut far) = tokio::io::duplex(2 * MESSAGE_BYTES_MAX);
        let task = tokio::spawn(pass(server, ForwardedPort { port: 1, connection: Ok(Box::new(near)) }));
        let longest = vec![7; MESSAGE_BYTES_MAX - 1];
        client.send(message(DATA, &longest)).await.expect("sent");
        let mut taken = vec![0; longest.len()];
        far.read_exact(&mut taken).await.expect("bytes");
        assert_eq!(taken, longest);
        let _ = client.send(message(DATA, &vec![7; MESSAGE_BYTES_MAX])).await;
        let ended = task.await.expect("no panic");
        assert!(matches!(ended, Err(Error::Capacity(_))), "{ended:?}");
    }

    /// Time is paused, so that a standstill is over at once.
    #[tokio::test(start_paused = true)]
    async fn one_direction_goes_on_while_the_other_is_full() {
        const PARTS: usize = 64;
        let (server, mut client) = pair().await;
        let (near, far) = tokio::io::duplex(BUFFER_BYTES);
        tokio::spawn(pass(server, ForwardedPort { port: 1, connection: Ok(Box::new(near)) }));
        let (mut read, mut write) = tokio::io::split(far);
        let part = vec![7; BUFFER_BYTES];
        let all = PARTS * BUFFER_BYTES;
        let of_pod = part.clone();
        tokio::spawn(async move {
            for _ in 0..PARTS {
                write.write_all(&of_pod).await.expect("written");
            }
            std::future::pending::<()>().await;
        });
        let taken = tokio::spawn(async move {
            let mut taken = vec![0; all];
            read.read_exact(&mut taken).await.map(|_| taken.len())
        });
        let both = async {
            // The client reads nothing before it has sent everything.
            for _ in 0..PARTS {
                client.send(message(DATA, &part)).await.expect("sent");
            }
            let mut received = 0;
            while received < all {
                let bytes = bytes(&mut client).await;
                received += if bytes.len() == 3 { 0 } else { bytes.len() - 1 };
            }
        };
        let limit = Duration::from_secs(60);
        tokio::time::timeout(limit, both).await.expect("no standstill");
        assert_eq!(taken.await.expect("no panic").expect("read"), all);
    }

    #[tokio::test]
    async fn bytes_go_both_ways_and_the_end_is_passed_on() {
        let (server, mut client) = pair().await;
        let (near, mut far) = tokio::io::duplex(64);
        let task = tokio::spawn(pass(server, ForwardedPort { port: 2379, connection: Ok(Box::new(near)) }));
        assert_eq!(bytes(&mut client).await, [0, 0x4b, 9]);
        assert_eq!(bytes(&mut client).await, [1, 0x4b, 9]);
        client.send(message(DATA, b"ping")).await.expect("sent");
        client.send(message(ERROR, b"not for the pod")).await.expect("sent");
        client.send(Message::Text(Utf8Bytes::from_static("nor this"))).await.expect("sent");
        let mut asked = [0; 4];
        far.read_exact(&mut asked).await.expect("bytes");
        assert_eq!(&asked, b"ping");
        far.write_all(b"pong").await.expect("written");
        assert_eq!(bytes(&mut client).await, b"\0pong");
        drop(far);
        assert!(matches!(client.next().await, Some(Ok(Message::Close(_)))));
        assert!(client.next().await.is_none());
        task.await.expect("no panic").expect("it ended well");
    }

    #[tokio::test]
    async fn a_port_that_nobody_listens_at_is_told_in_the_other_channel() {
        let (server, mut client) = pair().await;
        let refused = ForwardedPort { port: 1, connection: Err("connection refused".to_owned()) };
        let task = tokio::spawn(pass(server, refused));
        for expected in [&b"\0\x01\0"[..], b"\x01\x01\0", b"\x01connection refused"] {
            assert_eq!(bytes(&mut client).await, expected);
        }
        assert!(matches!(client.next().await, Some(Ok(Message::Close(_)))));
        assert!(client.next().await.is_none());
        task.await.expect("no panic").expect("it ended well");
    }

    /// A socket that is closed over unread bytes is reset: the reason would be lost.
    #[tokio::test]
    async fn the_reason_reaches_a_client_that_sends_first() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let task = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.expect("a client");
            let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(bounds())).await;
            let refused = ForwardedPort { port: 1, connection: Err("connection refused".to_owned()) };
            pass(socket, refused).await
        });
        let stream = TcpStream::connect(address).await.expect("a connection");
        let mut client = WebSocketStream::from_raw_socket(stream, Role::Client, None).await;
        for _ in 0..PARTS_BEFORE_READING {
            client.send(message(DATA, &[7; 64])).await.expect("sent");
        }
        let mut received = Vec::new();
        while let Some(Ok(Message::Binary(bytes))) = client.next().await {
            received.push(bytes);
        }
        assert_eq!(received.last().expect("a reason"), &b"\x01connection refused"[..]);
        assert!(client.next().await.is_none());
        task.await.expect("no panic").expect("it ended well");
    }
}
