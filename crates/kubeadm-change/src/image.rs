//! What may name an image. Owns the grammar; must not know any field.
//!
//! Source: distribution `reference/regexp.go`, v0.6.

use super::network::{is_dns_name, parse_ip};

const TAG_LENGTH_MAX: usize = 128;
const NAME_LENGTH_MAX: usize = 255;

/// A repository as it stands before the name of an image: a host, perhaps with a port, and folders in lower case.
pub fn is_repository(text: &str) -> bool {
    let mut parts = text.split('/');
    let first = parts.next().unwrap_or_default();
    text.len() <= NAME_LENGTH_MAX && (is_host(first) || is_folder(first)) && parts.all(is_folder)
}

/// The tag of an image.
pub fn is_tag(text: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.len() <= TAG_LENGTH_MAX
        && text.starts_with(is_word)
        && text.chars().all(|c| is_word(c) || matches!(c, '.' | '-'))
}

/// The tag of an image; a digest may follow it.
pub fn tag_of(image: &str) -> Option<&str> {
    let name = image.split('@').next()?;
    let (_, tag) = name.rsplit_once(':')?;
    is_tag(tag).then_some(tag)
}

fn is_host(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        // The last colon of `[::1]` stands within the brackets: it has no port.
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (text, None),
    };
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    let bracketed = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let is_name = match bracketed {
        Some(address) => address.contains(':') && parse_ip(address).is_some(),
        None => is_dns_name(&host.to_ascii_lowercase()),
    };
    is_name && port.is_none_or(is_port)
}

/// Letters and digits with `.`, `_`, `__` or dashes between them.
fn is_folder(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let separators = text.split(is_letter).filter(|between| !between.is_empty());
    let is_separator =
        |between: &str| matches!(between, "." | "_" | "__") || between.bytes().all(|b| b == b'-');
    text.starts_with(is_letter) && text.ends_with(is_letter) && separators.into_iter().all(is_separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_stands_behind_the_name_of_an_image() {
        assert_eq!(tag_of("registry.k8s.io/etcd:3.6.8-0"), Some("3.6.8-0"));
        assert_eq!(tag_of("r.example:5000/etcd:3.6.8-0@sha256:0a"), Some("3.6.8-0"));
        assert_eq!(tag_of("r.example:5000/etcd"), None);
        assert_eq!(tag_of("etcd@sha256:0a"), None);
        assert_eq!(tag_of("etcd:$(touch x)"), None);
    }

    #[test]
    fn repositories_and_tags() {
        for fine in [
            "registry.k8s.io",
            "r.example:5000/a/b-c__d.e",
            "localhost:5000",
            "[fd00::1]:5000/k8s",
            "Mirror.Example/k8s",
            "k8s",
        ] {
            assert!(is_repository(fine), "{fine}");
        }
        for wrong in [
            "reg/$(touch FILE)",
            "a;id;",
            "a|id",
            "a\nb",
            "a b",
            "",
            "/a",
            "a/",
            "a//b",
            "a/B",
            "r:x/a",
            "r:",
            "a/-b",
            "a/b..c",
            "`id`",
            "-a",
        ] {
            assert!(!is_repository(wrong), "{wrong}");
        }
        for fine in ["v1.36.1", "3.6.8-0", "_x", "V1"] {
            assert!(is_tag(fine), "{fine}");
        }
        for wrong in ["", ".a", "-a", "a b", "a;b", "a/b", "a:b", "$(id)", &"a".repeat(129)] {
            assert!(!is_tag(wrong), "{wrong}");
        }
    }
}
