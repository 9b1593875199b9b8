//! The handshake with a SOCKS5 proxy (RFC 1928, RFC 1929): which bytes are sent, and what the answers mean. Must not know where
//! the proxy is.
//!
//! That of hyper-util is not used: its errors cannot be told apart, and with a user it does not offer to go without.

use std::io;
use std::net::IpAddr;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::proxy::Login;

const VERSION: u8 = 5;
const LOGIN_VERSION: u8 = 1;
const WITHOUT_LOGIN: u8 = 0;
const WITH_PASSWORD: u8 = 2;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// Why the proxy brings no connection.
#[derive(Debug, thiserror::Error)]
pub enum SocksError {
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    #[error("it does not speak SOCKS5")]
    OtherProtocol,
    #[error("it wants a user and a password")]
    WantsLogin,
    #[error("it does not accept the user and the password")]
    RefusesLogin,
    #[error("a name, a user or a password has more than 255 bytes")]
    TooLong,
    #[error("{}", reply(*code))]
    Refused { code: u8 },
}

fn reply(code: u8) -> String {
    match code {
        2 => "its rules do not allow it".to_owned(),
        3 => "the network is not reached from there".to_owned(),
        4 => "the host is not reached from there".to_owned(),
        5 => "the connection is refused there".to_owned(),
        6 => "the way is too long from there".to_owned(),
        _ => format!("it answers {code}"),
    }
}

/// Has the proxy connect to `host`, which it resolves itself, over a connection to it.
///
/// # Errors
/// [`SocksError`].
pub async fn handshake(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    host: &str,
    port: u16,
    login: Option<&Login>,
) -> Result<(), SocksError> {
    let greeting: &[u8] = match login {
        Some(_) => &[VERSION, 2, WITHOUT_LOGIN, WITH_PASSWORD],
        None => &[VERSION, 1, WITHOUT_LOGIN],
    };
    stream.write_all(greeting).await?;
    let [version, method] = answer(stream).await?;
    match (version, method, login) {
        (VERSION, WITHOUT_LOGIN, _) => {}
        (VERSION, WITH_PASSWORD, Some(login)) => log_in(stream, login).await?,
        (VERSION, ..) => return Err(SocksError::WantsLogin),
        _ => return Err(SocksError::OtherProtocol),
    }
    let mut request = vec![VERSION, CONNECT, 0];
    request.extend(address(host)?);
    request.extend(port.to_be_bytes());
    stream.write_all(&request).await?;
    let [version, code, _, kind] = answer(stream).await?;
    if version != VERSION {
        return Err(SocksError::OtherProtocol);
    }
    if code != 0 {
        return Err(SocksError::Refused { code });
    }
    // The proxy's own address, with a port, means nothing here.
    let length = match kind {
        IPV4 => 4,
        IPV6 => 16,
        NAME => usize::from(stream.read_u8().await?),
        _ => return Err(SocksError::OtherProtocol),
    };
    stream.read_exact(&mut vec![0; length + 2]).await?;
    Ok(())
}

async fn answer<const N: usize>(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

async fn log_in(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), login: &Login) -> Result<(), SocksError> {
    let mut request = vec![LOGIN_VERSION];
    request.extend(counted(&login.user)?);
    request.extend(counted(&login.password)?);
    stream.write_all(&request).await?;
    let [_, status] = answer(stream).await?;
    if status == 0 { Ok(()) } else { Err(SocksError::RefusesLogin) }
}

fn address(host: &str) -> Result<Vec<u8>, SocksError> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let (kind, bytes) = match host.parse() {
        Ok(IpAddr::V4(address)) => (IPV4, address.octets().to_vec()),
        Ok(IpAddr::V6(address)) => (IPV6, address.octets().to_vec()),
        Err(_) => (NAME, counted(host)?),
    };
    Ok([vec![kind], bytes].concat())
}

fn counted(text: &str) -> Result<Vec<u8>, SocksError> {
    let length = u8::try_from(text.len()).map_err(|_| SocksError::TooLong)?;
    Ok([&[length], text.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is sent to a proxy that answers so, and what that means.
    async fn talked(host: &str, login: Option<&Login>, answers: &[u8]) -> (Vec<u8>, Result<(), String>) {
        let (mut ours, mut theirs) = tokio::io::duplex(1024);
        theirs.write_all(answers).await.expect("written");
        let result = handshake(&mut ours, host, 6443, login).await.map_err(|error| error.to_string());
        drop(ours);
        let mut sent = Vec::new();
        theirs.read_to_end(&mut sent).await.expect("read");
        (sent, result)
    }

    #[tokio::test]
    async fn bytes_are_those_of_the_standard() {
        let well = [5, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        let (sent, result) = talked("10.0.0.1", None, &well).await;
        assert_eq!((sent, result), (vec![5, 1, 0, 5, 1, 0, 1, 10, 0, 0, 1, 0x19, 0x2b], Ok(())));
        let (sent, result) = talked("api", None, &[5, 0, 5, 0, 0, 3, 1, b'x', 0, 0]).await;
        assert_eq!((sent, result), (vec![5, 1, 0, 5, 1, 0, 3, 3, b'a', b'p', b'i', 0x19, 0x2b], Ok(())));
        let (sent, result) = talked("[::1]", None, &[&[5, 0, 5, 0, 0, 4], &[0; 18][..]].concat()).await;
        assert_eq!((sent.len(), sent[6], result), (3 + 4 + 16 + 2, 4, Ok(())));
        let login = Login { user: "ann".to_owned(), password: "x".to_owned() };
        let (sent, result) = talked("api", Some(&login), &[&[5, 2, 1, 0], &well[2..]].concat()).await;
        assert_eq!((&sent[..11], result), (&[5, 2, 0, 2, 1, 3, b'a', b'n', b'n', 1, b'x'][..], Ok(())));
        // One that wants no login is fine.
        assert_eq!(talked("api", Some(&login), &well).await.1, Ok(()));
    }

    #[tokio::test]
    async fn refusals_are_told_apart() {
        let login = Login { user: "ann".to_owned(), password: "x".to_owned() };
        let refusals: [(Option<&Login>, &[u8], &str); 6] = [
            (None, &[5, 0xFF], "it wants a user and a password"),
            (Some(&login), &[5, 2, 1, 1], "it does not accept the user and the password"),
            (None, &[5, 0, 5, 2, 0, 1], "its rules do not allow it"),
            (None, &[5, 0, 5, 5, 0, 1], "the connection is refused there"),
            (None, b"HTTP/1.1 400", "it does not speak SOCKS5"),
            (None, &[5, 0, 5, 9, 0, 1], "it answers 9"),
        ];
        for (login, answers, expected) in refusals {
            assert_eq!(talked("api", login, answers).await.1, Err(expected.to_owned()), "{answers:?}");
        }
        assert!(talked(&"a".repeat(300), None, &[5, 0]).await.1.is_err());
    }
}
