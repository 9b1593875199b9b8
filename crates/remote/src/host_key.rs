//! Keys by which a host shows that it is itself. Owns how they are asked for and named: type and SHA256 fingerprint, as
//! `ssh-keygen -l` prints them. Must not trust any: what is asked for over the network proves nothing before a person compares it.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

/// As many as `ssh-keyscan` could ever print for one host.
const KEYS_MAX: usize = 16;

/// The name of every host in a file of pinned keys.
pub const PINNED_NAME: &str = "capstan-pinned";

/// One key that a host offers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HostKey {
    /// `ssh-ed25519`.
    pub kind: String,
    /// `SHA256:…`.
    pub fingerprint: String,
}

/// One key in full.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PublicKey {
    pub key: HostKey,
    /// Type and base64, as `/etc/ssh/ssh_host_*_key.pub` begins.
    pub text: String,
}

/// [`of_lines`], with the keys themselves.
pub fn public_keys_of_lines(text: &str) -> Vec<PublicKey> {
    let of = |line: &str| {
        let key = of_line(line)?;
        let mut words = line.split_whitespace().skip(1);
        let (kind, base64) = (words.next()?, words.next()?);
        Some(PublicKey { key, text: format!("{kind} {base64}") })
    };
    let mut keys: Vec<PublicKey> = text.lines().filter_map(of).take(KEYS_MAX).collect();
    keys.sort();
    keys.dedup();
    keys
}

/// Keys of lines as `known_hosts` has them: host, type, key in base64. Other lines are left out.
pub fn of_lines(text: &str) -> Vec<HostKey> {
    public_keys_of_lines(text).into_iter().map(|it| it.key).collect()
}

fn of_line(line: &str) -> Option<HostKey> {
    let mut words = line.split_whitespace();
    let (_host, kind, key) = (words.next()?, words.next()?, words.next()?);
    let is_kind = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '@');
    if kind.is_empty() || kind.len() > 64 || !kind.chars().all(is_kind) {
        return None;
    }
    let digest = Sha256::digest(STANDARD.decode(key).ok()?);
    Some(HostKey { kind: kind.to_owned(), fingerprint: format!("SHA256:{}", STANDARD_NO_PAD.encode(digest)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_those_of_ssh_keygen() {
        // A key that was made for this test; `ssh-keygen -lf` printed the fingerprint.
        let line = "[127.0.0.1]:2222 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICMz1NVZOMPZz0sEADzBN96ZjMn2qOzIhvZtebSOjyaR";
        let text = format!(
            "# 127.0.0.1:2222 SSH-2.0-OpenSSH_9.2p1\n{line}\n{line}\nnonsense\nh \u{1b}x AAAA\nh ssh-rsa !!\n"
        );
        assert_eq!(
            of_lines(&text),
            [HostKey {
                kind: "ssh-ed25519".to_owned(),
                fingerprint: "SHA256:aXdBjZOmSGXMah5EkUsqvqE1+Jgivm5Q7cr6vsi3uuY".to_owned()
            }]
        );
        let full = public_keys_of_lines(&text);
        let texts: Vec<&str> = full.iter().map(|it| it.text.as_str()).collect();
        assert_eq!(texts, [line.split_once(' ').expect("a host before the key").1]);
        assert_eq!(full[0].key, of_lines(&text)[0]);
    }
}
