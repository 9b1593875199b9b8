//! What the log of a run says of its end. Owns the few sentences of kubeadm that decide what comes next; must not decide it.

use capstan_hosts::run::Watched;

/// kubeadm's words for a join token that the cluster does not know any more (1.36.3, `discovery/token/token.go`).
const EXPIRED: [&str; 3] = [
    "could not find a JWS signature",
    "there is no JWS signed token",
    "is invalid for this cluster or it has expired",
];
const LINES_SHOWN: usize = 3;

/// The token of the bootstrap data has ended.
pub fn has_token_expired(watched: &Watched) -> bool {
    EXPIRED.iter().any(|words| watched.log.contains(words))
}

/// What was printed last.
pub fn last_lines(watched: &Watched) -> String {
    let lines: Vec<&str> = watched.log.lines().filter(|line| !line.trim().is_empty()).collect();
    lines.iter().rev().take(LINES_SHOWN).rev().copied().collect::<Vec<_>>().join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expired_token_is_told_from_other_ends() {
        let watched = |log: &str| Watched { log: log.to_owned(), ..Watched::default() };
        let expired = "error: couldn't validate the identity of the API Server: could not find a JWS signature in the cluster-info \
                       ConfigMap for token ID \"abcdef\"\n";
        assert!(has_token_expired(&watched(expired)));
        assert!(!has_token_expired(&watched("[ERROR Port-10250]: Port 10250 is in use\n")));
        assert_eq!(last_lines(&watched("a\n\nb\nc\nd\n\n")), "b | c | d");
    }
}
