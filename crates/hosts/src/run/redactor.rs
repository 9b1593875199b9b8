//! Takes the secrets of a run out of text. Owns what counts as one; must not know where the text came from.

use std::collections::BTreeSet;
use std::fmt;

/// What stands for a secret.
const HIDDEN: &str = "<secret>";
/// Shorter words would take ordinary text along.
const WORD_CHARS_MIN: usize = 8;
const VALUE_CHARS_MIN: usize = 4;
/// Parts of names whose values are secret.
const SECRET_NAMES: [&str; 6] = ["token", "passw", "secret", "key", "credential", "bearer"];
/// Ends of names that hold one of those and no secret: `--discovery-token-ca-cert-hash`, `--token-ttl`.
const PLAIN_ENDS: [&str; 4] = ["ca-cert-hash", "-ttl", "_ttl", "unsafe-skip-ca-verification"];
/// With what lists, maps and texts of several lines begin: where it is not quoted, the value is not a secret.
const STRUCTURE_SIGNS: [char; 4] = ['[', '{', '|', '>'];
/// Values of such names that are none: `imagePullSecrets: []`, `key: true`.
const PLAIN_VALUES: [&str; 5] = ["true", "false", "null", "none", "node"];

/// Knows the secrets of one run.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Redactor {
    /// The longest first, so that one that holds another goes as a whole.
    secrets: Vec<String>,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactor({} secrets)", self.secrets.len())
    }
}

impl Redactor {
    /// `texts` are contents: of those that only root may read every word counts, of the others what stands behind a name
    /// such as `token`, and private keys.
    pub(super) fn of<'t>(texts: impl IntoIterator<Item = (&'t str, bool)>) -> Self {
        let mut found = BTreeSet::new();
        for (text, is_private) in texts {
            found.extend(private_keys(text));
            found.extend(named_values(text));
            if is_private {
                let words = text.split(|c: char| c.is_whitespace() || "\"'=,;".contains(c));
                let words = words.chain(text.split(|c: char| c.is_whitespace() || "\"'=,;:{}[]".contains(c)));
                found.extend(
                    words.filter(|word| word.chars().count() >= WORD_CHARS_MIN && !word.starts_with("-----")),
                );
            }
        }
        let mut secrets: Vec<String> = found.into_iter().map(str::to_owned).collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self { secrets }
    }

    /// The text without secrets: those of the run, and whatever looks like a bootstrap token, a certificate key, a bearer token
    /// or a private key.
    pub fn redact(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.secrets {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), HIDDEN);
            }
        }
        let keys: Vec<String> = private_keys(&text).into_iter().map(str::to_owned).collect();
        for key in keys {
            text = text.replace(&key, HIDDEN);
        }
        words_redacted(&text)
    }
}

/// The lines of base64 in the private keys of PEM.
fn private_keys(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut is_inside = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with("-----BEGIN") {
            is_inside = line.ends_with("KEY-----") && !line.ends_with("PUBLIC KEY-----");
        } else if line.starts_with("-----END") {
            is_inside = false;
        } else if is_inside && line.len() >= VALUE_CHARS_MIN {
            found.push(line);
        }
    }
    found
}

/// The values behind names of secrets, in YAML, JSON and lines of a shell.
fn named_values(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    // The indentation of a name whose value stands in the lines below it.
    let mut block: Option<usize> = None;
    for line in text.lines() {
        let indentation = line.len() - line.trim_start().len();
        if !line.trim().is_empty() {
            block = block.filter(|outer| indentation > *outer);
        }
        match block {
            Some(_) => found.push(line.trim()),
            None => found.extend(values_of_line(line)),
        }
        if block.is_none() && has_block(line) {
            block = Some(indentation);
        }
    }
    found.retain(|value| is_secret_value(value));
    found
}

/// `NAME: |`, `NAME: >-` and the like.
fn has_block(line: &str) -> bool {
    let Some((name, mark)) = line.split_once(':') else { return false };
    let mark = mark.trim();
    let is_mark =
        mark.starts_with(['|', '>']) && mark[1..].chars().all(|c| "+-".contains(c) || c.is_ascii_digit());
    is_secret_name(name) && is_mark
}

/// Candidates: of `NAME: VALUE` the rest of the line and, where it is one of several, its first word; of `NAME=VALUE` and
/// `--NAME VALUE` the word or what stands in quotes.
fn values_of_line(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, sign) in line.match_indices([':', '=']) {
        let (before, rest) = (&line[..at], line[at + 1..].trim_start());
        if !is_secret_name(last_word(before)) {
            continue;
        }
        let is_one_of_several = sign == "=" || rest.contains([',', '}', ']']);
        let whole = (!rest.starts_with(STRUCTURE_SIGNS)).then(|| rest.trim_end().trim_end_matches(','));
        found.extend(whole.map(|whole| whole.trim_matches(['"', '\''])));
        found.extend(is_one_of_several.then(|| first_word(rest)));
    }
    let mut rest = line.trim_start();
    while let Some((word, after)) = rest.split_once(char::is_whitespace) {
        rest = after.trim_start();
        let is_flag = word.starts_with('-') && !word.contains('=') && is_secret_name(word);
        found.extend((is_flag && !rest.starts_with('-')).then(|| first_word(rest)));
    }
    found
}

/// What stands in quotes, or up to where a value ends.
fn first_word(rest: &str) -> &str {
    for quote in ['"', '\''] {
        if let Some(inside) = rest.strip_prefix(quote) {
            return inside.split(quote).next().unwrap_or(inside);
        }
    }
    rest.split(|c: char| c.is_whitespace() || ",;&|(){}[]\"'`".contains(c)).next().unwrap_or(rest)
}

fn last_word(text: &str) -> &str {
    let is_of_name = |c: char| c.is_alphanumeric() || "_-.".contains(c);
    let text = text.trim_end().trim_end_matches(['"', '\'']);
    text.rsplit(|c: char| !is_of_name(c)).next().unwrap_or(text)
}

fn is_secret_name(name: &str) -> bool {
    let name = name.to_lowercase();
    SECRET_NAMES.iter().any(|part| name.contains(part)) && !PLAIN_ENDS.iter().any(|end| name.ends_with(end))
}

/// A path, such as that of a key's file, and what a shell puts in a place are none.
fn is_secret_value(value: &str) -> bool {
    let is_plain = ["/", "$(", "${", "-----"].iter().any(|sign| value.starts_with(sign));
    !is_plain && !PLAIN_VALUES.contains(&value) && value.chars().count() >= VALUE_CHARS_MIN
}

/// Words by their form, with what is between them as it was.
fn words_redacted(text: &str) -> String {
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || "._-+/=".contains(c);
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut before = "";
    while !rest.is_empty() {
        let gap = rest.find(is_of_word).unwrap_or(rest.len());
        out.push_str(&rest[..gap]);
        let length = rest[gap..].find(|c: char| !is_of_word(c)).unwrap_or(rest.len() - gap);
        let word = &rest[gap..gap + length];
        out.push_str(if is_secret_word(word, before) { HIDDEN } else { word });
        before = word;
        rest = &rest[gap + length..];
    }
    out
}

/// A bootstrap token (`abcdef.0123456789abcdef`), a JSON web token, and what follows `--certificate-key` and `Bearer`.
fn is_secret_word(word: &str, before: &str) -> bool {
    let of = |part: &str, length: usize| {
        part.len() == length && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
    };
    let is_token =
        word.trim_end_matches('.').split_once('.').is_some_and(|(id, secret)| of(id, 6) && of(secret, 16));
    let is_web_token = word.starts_with("eyJ") && word.matches('.').count() == 2;
    let follows =
        matches!(before, "--certificate-key" | "certificate-key" | "Bearer" | "--token" | "--password");
    let is_hidden = HIDDEN.contains(word);
    is_token || is_web_token || (follows && !is_hidden && word.len() >= VALUE_CHARS_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str =
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA1\nabcd==\n-----END RSA PRIVATE KEY-----\n";

    #[test]
    fn secrets_of_a_run_go_and_the_rest_stays() {
        let kubeadm = "kind: JoinConfiguration\ncertificateKey: 0a1b2c3d\n    token: abcdef.0123456789abcdef\n  caFile: /etc/key/ca.crt\n";
        let redactor = Redactor::of([(KEY, true), (kubeadm, false), ("password=hunter22 user", true)]);
        for (text, expected) in [
            ("error: MIIEpAIBAAKCAQEA1 is bad", "error: <secret> is bad"),
            ("--certificate-key 0a1b2c3d", "--certificate-key <secret>"),
            ("got hunter22!", "got <secret>!"),
            ("kind JoinConfiguration in /etc/key/ca.crt", "kind JoinConfiguration in /etc/key/ca.crt"),
        ] {
            assert_eq!(redactor.redact(text), expected, "{text}");
        }
        assert_eq!(format!("{redactor:?}"), format!("Redactor({} secrets)", redactor.secrets.len()));
    }

    #[test]
    fn values_are_found_in_every_form_in_which_data_has_them() {
        for text in [
            "A_TOKEN=hunter22 registry-login",
            "registry-login --password=hunter22 --verbose",
            "registry-login --password hunter22",
            "export A_TOKEN='hunter22'; registry-login",
            "PASSWORD=\"hunter22\" registry-login && true",
            "{user: admin, password: hunter22, other: x}",
            "{\"user\": \"admin\", \"password\": \"hunter22\"}",
            "spec:\n  token: |\n    first\n    hunter22\n  other: |\n    text",
            "token: >-\n  hunter22",
            "- password: hunter22",
            "PASSWORD_HASH=hunter22 registry-login",
            "tokenHash: hunter22",
            "throttle_key: hunter22",
            "throttle-token: hunter22",
            "unsafe_password: hunter22",
            "ca-cert-hash-key: hunter22",
        ] {
            let redactor = Redactor::of([(text, false)]);
            assert_eq!(redactor.redact("it said hunter22 to admin"), "it said <secret> to admin", "{text}");
            assert!(!redactor.redact(text).contains("hunter22"), "{text}");
        }
        for (text, secret) in [
            ("password: $hunter22", "$hunter22"),
            ("password: \"{hunter22\"", "{hunter22"),
            ("password: '[hunter22'", "[hunter22"),
            ("PASSWORD='|hunter22' registry-login", "|hunter22"),
            ("registry-login --password \">hunter22\"", ">hunter22"),
        ] {
            let redactor = Redactor::of([(text, false)]);
            assert_eq!(redactor.redact(&format!("it said {secret}")), "it said <secret>", "{text}");
        }
        let plain = "kubeadm join --discovery-token-ca-cert-hash sha256:7c2e --token-ttl 24h0m0s\nkubeadm join --discovery-token-unsafe-skip-ca-verification worker-7\nTOKEN_TTL=24h0m0s true\nTOKEN=$(cat /run/token)\nkeys: [registry]\nkeys: {registry: 1}\ntoken: >-";
        let redactor = Redactor::of([(plain, false)]);
        assert_eq!(redactor.redact(plain), plain);
    }

    #[test]
    fn what_kubeadm_makes_itself_is_known_by_its_form() {
        let redactor = Redactor::default();
        let join = "kubeadm join 10.0.0.1:6443 --token 9vr73a.a8uxyaju799qwdjv \\\n\t--discovery-token-ca-cert-hash sha256:7c2e \\\n\t--control-plane --certificate-key f8902e114ef118304e561c3ecd4d0b543adc226b7a07f675f56564185ffe0c07";
        let expected = "kubeadm join 10.0.0.1:6443 --token <secret> \\\n\t--discovery-token-ca-cert-hash sha256:7c2e \\\n\t--control-plane --certificate-key <secret>";
        assert_eq!(redactor.redact(join), expected);
        assert_eq!(redactor.redact("Authorization: Bearer abcdef"), "Authorization: Bearer <secret>");
        assert_eq!(redactor.redact("x eyJh.eyJi.c y"), "x <secret> y");
        assert_eq!(redactor.redact(KEY), KEY.replace("MIIEpAIBAAKCAQEA1", HIDDEN).replace("abcd==", HIDDEN));
        assert_eq!(
            redactor.redact("v1.36.3 at registry.k8s.io/pause:3.10"),
            "v1.36.3 at registry.k8s.io/pause:3.10"
        );
    }

    proptest::proptest! {
        #[test]
        fn no_planted_secret_is_left(secret in "[A-Za-z0-9+/]{12,40}", before in "[ -~\n]{0,40}", after in "[ -~\n]{0,40}") {
            let redactor = Redactor::of([(secret.as_str(), true)]);
            let shown = redactor.redact(&format!("{before}{secret}{after}"));
            proptest::prop_assert!(!shown.contains(&secret), "{}", shown);
        }

        #[test]
        fn every_line_stays_a_line(text in "((a_token|key|--password|\\PC{0,8})[:= ]{1,2}[|>\"'{\\[]?\\PC{0,12}\n? {0,3}){0,6}") {
            let shown = Redactor::of([(text.as_str(), true), (text.as_str(), false)]).redact(&text);
            proptest::prop_assert_eq!(shown.matches('\n').count(), text.matches('\n').count(), "{}", shown);
        }
    }
}
