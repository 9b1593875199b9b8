//! What it means that ssh itself failed. Owns ssh's sentences (OpenSSH 7.6 to 10: `ssh.c`, `sshconnect.c`, `sshconnect2.c`). Must
//! not know how it was called.

use serde::Serialize;

use capstan_base::text::sanitize_line;

use super::host_key::PINNED_NAME;

/// Ssh ends so when it could not run the line at all.
pub const OF_SSH: i32 = 255;

/// A connection that is kept open and breaks leaves no word.
const NO_REASON: &str = "the connection ended, and ssh gave no reason";

/// Why there is no shell on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SshTrouble {
    /// No connection, or one that ended.
    Unreachable,
    /// No key of the host is known.
    UnknownHostKey,
    /// The host has another key than the one that is known.
    ChangedHostKey,
    /// The user, or every key that was offered, was refused.
    Denied,
    /// Ssh refuses its own configuration or arguments.
    Configuration,
}

/// Of the sentences the first that is found decides: a changed key is warned of before "verification failed" is said, and of a way
/// through several machines one sentence says which has changed. Of the lines with it the last decides, as a banner comes before what
/// ssh has to say.
const SENTENCES: [(&str, SshTrouble); 17] = [
    ("has changed and you have requested strict checking", SshTrouble::ChangedHostKey),
    ("REMOTE HOST IDENTIFICATION HAS CHANGED", SshTrouble::ChangedHostKey),
    ("host key is known for", SshTrouble::UnknownHostKey),
    ("Host key verification failed", SshTrouble::UnknownHostKey),
    ("Permission denied (", SshTrouble::Denied),
    ("Too many authentication failures", SshTrouble::Denied),
    ("no more authentication methods", SshTrouble::Denied),
    ("Bad configuration option", SshTrouble::Configuration),
    ("terminating, 1 bad configuration", SshTrouble::Configuration),
    ("Can't open user config file", SshTrouble::Configuration),
    ("Bad owner or permissions", SshTrouble::Configuration),
    ("jumphost loop", SshTrouble::Configuration),
    ("Connection refused", SshTrouble::Unreachable),
    ("Could not resolve hostname", SshTrouble::Unreachable),
    ("timed out", SshTrouble::Unreachable),
    ("No route to host", SshTrouble::Unreachable),
    ("Connection ", SshTrouble::Unreachable),
];

/// What ssh's complaint means, with its deciding line, made harmless.
pub fn of_complaint(stderr: &str) -> (SshTrouble, String) {
    let found = SENTENCES.iter().find_map(|(sentence, trouble)| {
        // The name of pinned keys is no name of a machine.
        let decides = |line: &&str| line.contains(sentence) && !line.contains(PINNED_NAME);
        stderr.lines().rfind(decides).map(|line| (*trouble, line))
    });
    let last = stderr.lines().rfind(|line| !line.trim().is_empty()).unwrap_or(NO_REASON);
    let (trouble, line) = found.unwrap_or((SshTrouble::Unreachable, last));
    (trouble, sanitize_line(line.trim_matches(|c: char| c == '@' || c.is_whitespace())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_of_ssh_are_understood() {
        for (stderr, trouble, line) in [
            (
                "ssh: connect to host 10.0.0.1 port 22: Connection refused\r\n",
                SshTrouble::Unreachable,
                "ssh: connect to host 10.0.0.1 port 22: Connection refused",
            ),
            (
                "No ED25519 host key is known for [127.0.0.1]:41 and you have requested strict checking.\nHost key verification failed.\n",
                SshTrouble::UnknownHostKey,
                "No ED25519 host key is known for [127.0.0.1]:41 and you have requested strict checking.",
            ),
            (
                "@@@@@\n@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n@@@@@\nHost key verification failed.\n",
                SshTrouble::ChangedHostKey,
                "WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!",
            ),
            (
                "Warning: x\nroot@h1: Permission denied (publickey).\n",
                SshTrouble::Denied,
                "root@h1: Permission denied (publickey).",
            ),
            (
                "Permission denied to all others.\nPermission denied (on paper).\nroot@h1: Permission denied (publickey).\n",
                SshTrouble::Denied,
                "root@h1: Permission denied (publickey).",
            ),
            (
                "Permission denied to all others.\nConnection closed by 10.0.0.1 port 22\n",
                SshTrouble::Unreachable,
                "Connection closed by 10.0.0.1 port 22",
            ),
            (
                "command-line: line 0: Bad configuration option: x\n",
                SshTrouble::Configuration,
                "command-line: line 0: Bad configuration option: x",
            ),
            ("kex_exchange\x1b[31m\n\n", SshTrouble::Unreachable, "kex_exchange\u{fffd}[31m"),
            (
                "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\nHost key for [10.0.0.2]:22 has changed and you have requested strict checking.\n",
                SshTrouble::ChangedHostKey,
                "Host key for [10.0.0.2]:22 has changed and you have requested strict checking.",
            ),
            (
                "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\nHost key for capstan-pinned has changed and you have requested strict checking.\n",
                SshTrouble::ChangedHostKey,
                "WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!",
            ),
            ("", SshTrouble::Unreachable, NO_REASON),
        ] {
            assert_eq!(of_complaint(stderr), (trouble, line.to_owned()), "{stderr}");
        }
    }
}
