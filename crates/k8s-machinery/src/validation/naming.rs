//! What a name, a label and an annotation key may look like, with upstream's words when they do not.
//! Owns spelling rules; must not know which object is being named.
//!
//! Source: apimachinery `pkg/util/validation/validation.go`, v0.35. Each check answers with the
//! complaints it has; an empty list means fine.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

const QUALIFIED: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
     an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' \
     or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', \
     regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
     or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation \
     is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const DNS_LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
     and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for \
     validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const DNS_1035_LABEL: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start \
     with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used \
     for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

/// Longest subdomain, in bytes.
const SUBDOMAIN_BYTES_MAX: usize = 253;
/// Longest label, label value and name part of a qualified name, in bytes.
const LABEL_BYTES_MAX: usize = 63;

/// A DNS-1123 subdomain: names of most objects, prefixes of label keys.
pub fn dns_subdomain(text: &str) -> Vec<String> {
    let mut complaints = too_long(text, SUBDOMAIN_BYTES_MAX);
    if !text.split('.').all(is_dns_word) {
        complaints.push(SUBDOMAIN.to_owned());
    }
    complaints
}

/// A part of a path: names of roles, whose colons stand in no subdomain.
///
/// Source: apimachinery `pkg/api/validation/path/name.go`, v0.35.
pub fn path_segment(text: &str) -> Vec<String> {
    if matches!(text, "." | "..") {
        return vec![format!("may not be '{text}'")];
    }
    let held = ["/", "%"].into_iter().filter(|part| text.contains(part));
    held.map(|part| format!("may not contain '{part}'")).collect()
}

/// A DNS-1123 label: names of namespaces.
pub fn dns_label(text: &str) -> Vec<String> {
    let mut complaints = too_long(text, LABEL_BYTES_MAX);
    if !is_dns_word(text) {
        complaints.push(DNS_LABEL.to_owned());
    }
    complaints
}

/// A DNS-1035 label: names of resources, kinds and versions.
pub fn dns_1035_label(text: &str) -> Vec<String> {
    let mut complaints = too_long(text, LABEL_BYTES_MAX);
    if !is_dns_word(text) || !text.starts_with(|c: char| c.is_ascii_lowercase()) {
        complaints.push(DNS_1035_LABEL.to_owned());
    }
    complaints
}

/// A label key, annotation key or finalizer: an optional subdomain and `/`, then a name.
pub fn qualified_name(text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let name = match text.split('/').collect::<Vec<_>>().as_slice() {
        [name] => *name,
        ["", name] => {
            complaints.push("prefix part must be non-empty".to_owned());
            *name
        }
        [prefix, name] => {
            complaints.extend(dns_subdomain(prefix).into_iter().map(|c| format!("prefix part {c}")));
            *name
        }
        _ => {
            return vec![format!(
                "a qualified name {QUALIFIED} with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        complaints.push("name part must be non-empty".to_owned());
    } else {
        complaints.extend(too_long(name, LABEL_BYTES_MAX).into_iter().map(|c| format!("name part {c}")));
    }
    // Upstream reports an empty name twice: for its length and for its spelling.
    if !is_word(name) {
        complaints.push(format!("name part {QUALIFIED}"));
    }
    complaints
}

/// May be empty, in contrast to a label's name.
pub fn label_value(text: &str) -> Vec<String> {
    let mut complaints = too_long(text, LABEL_BYTES_MAX);
    if !text.is_empty() && !is_word(text) {
        complaints.push(LABEL_VALUE.to_owned());
    }
    complaints
}

/// A label value that stands for `name`: itself, or a hash when it is not spelled like one.
/// Source: cluster-api `util/labels/format/helpers.go` (`MustFormatValue`), v1.14.2.
pub fn to_label_value(name: &str) -> String {
    if label_value(name).is_empty() {
        return name.to_owned();
    }
    // FNV-1a, 32 bits.
    let hash =
        name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("hash_{}_z", URL_SAFE_NO_PAD.encode(hash.to_be_bytes()))
}

fn too_long(text: &str, bytes_max: usize) -> Vec<String> {
    if text.len() > bytes_max { vec![format!("must be no more than {bytes_max} bytes")] } else { Vec::new() }
}

fn is_dns_word(text: &str) -> bool {
    let fine = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|b| fine(*b))
        && bytes.last().is_some_and(|b| fine(*b))
        && bytes.iter().all(|b| fine(*b) || *b == b'-')
}

fn is_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_pass_and_names_that_do_not() {
        let long_label = "a".repeat(64);
        let long_subdomain = format!("{}.a", "a.".repeat(126));
        for (check, good, bad) in [
            (
                dns_subdomain as fn(&str) -> Vec<String>,
                vec!["a", "a-b.c", "0.1"],
                vec!["", "A", "-a", "a.", "a..b", &long_subdomain],
            ),
            (dns_label, vec!["a", "a-1"], vec!["", "a.b", "a-", "ä", &long_label]),
            (dns_1035_label, vec!["a", "a-1"], vec!["", "1a", "a.b", "A", &long_label]),
            (
                qualified_name,
                vec!["a", "A_b.c", "cluster.x-k8s.io/cluster-name"],
                vec!["", "/a", "a/", "a/b/c", "A.b/c", "_a", &long_label],
            ),
            (label_value, vec!["", "a", "A_b.c-1"], vec!["-a", "a/b", "ä", &long_label]),
        ] {
            for text in good {
                assert_eq!(check(text), Vec::<String>::new(), "{text:?}");
            }
            for text in bad {
                assert!(!check(text).is_empty(), "{text:?} should be refused");
            }
        }
    }
}
