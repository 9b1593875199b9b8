//! Changes that need several rollouts: what signs tokens has to be known everywhere before anything signs with it. Owns
//! which part of such a request comes first; it is read from what is stored, so that the same request goes on where it
//! was. Must not know steps.

use serde::Serialize;
use serde_json::{Value, json};

use super::document::DocumentKind;
use super::render::ClusterSettings;
use super::request::WantedDocuments;

const KEYS: &str = "service-account-key-file";
const SIGNING: &str = "service-account-signing-key-file";
const ISSUER: &str = "service-account-issuer";
const ENCRYPTION: &str = "encryption-provider-config";

/// One of several rollouts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RolloutPart {
    /// In words, such as a field that is changed.
    pub what: String,
    /// What is done afterwards, in order.
    pub next: Vec<String>,
    /// The same request plans what is next; otherwise each is a request of its own.
    #[serde(rename = "bySameRequest")]
    pub by_same_request: bool,
}

/// Cuts the request down to its first rollout.
pub(super) fn first(target: &mut WantedDocuments) -> Option<RolloutPart> {
    let cluster = target.document_mut(DocumentKind::Cluster)?;
    // kubeadm's own values count as stored: a request may name them without changing anything.
    let defaults = Defaults::of(&cluster.old)?;
    let (mut now, mut next) = (Vec::new(), Vec::new());
    keys(&cluster.old, &mut cluster.new, &defaults, &mut now, &mut next);
    // In the same rollout as the keys: neither depends on the other.
    issuers(&cluster.old, &mut cluster.new, &defaults, &mut now, &mut next);
    if next.is_empty() {
        return encryption(&cluster.old, &cluster.new);
    }
    Some(RolloutPart { what: now.join("; "), next, by_same_request: true })
}

/// Keys that encrypt Secrets are in a file, which is not seen here: the requests can be named, not made.
fn encryption(old: &Value, new: &Value) -> Option<RolloutPart> {
    let (stored, wanted) = (values(old, ENCRYPTION, ""), values(new, ENCRYPTION, ""));
    // A flag that goes away brings no key; the rules block that, as Secrets could not be read.
    if stored == wanted || wanted.iter().all(String::is_empty) {
        return None;
    }
    let what = "a file with the new key second, behind what encrypts now (`identity` where nothing does): every API server can read what the new key encrypts";
    let next = [
        "a file with the new key first: every API server encrypts with it",
        "every Secret is written anew, which a person does",
        "a file without the old key",
    ];
    let next = next.map(str::to_owned).into();
    Some(RolloutPart { what: what.to_owned(), next, by_same_request: false })
}

/// What kubeadm writes without a flag.
struct Defaults {
    public_key: String,
    private_key: String,
    issuer: String,
}

impl Defaults {
    fn of(configuration: &Value) -> Option<Self> {
        let settings = ClusterSettings::new(configuration, None).ok()?;
        let pki = settings.certificates_dir();
        Some(Self {
            public_key: format!("{pki}/sa.pub"),
            private_key: format!("{pki}/sa.key"),
            issuer: format!("https://kubernetes.default.svc.{}", settings.dns_domain()),
        })
    }
}

/// First every API server knows the new key, then one after the other signs with it, then the old one goes.
fn keys(old: &Value, new: &mut Value, defaults: &Defaults, now: &mut Vec<String>, next: &mut Vec<String>) {
    let (known, wanted) = (values(old, KEYS, &defaults.public_key), values(new, KEYS, &defaults.public_key));
    let signs = values(old, SIGNING, &defaults.private_key);
    let will_sign = values(new, SIGNING, &defaults.private_key);
    let is_signing_changed = signs != will_sign;
    let (gained, lost) = (missing(&wanted, &known), missing(&known, &wanted));
    let switch = "new tokens are signed with the new key".to_owned();
    let drop_old = format!(
        "{} is not accepted any more: not before the last token that it signed has run out",
        lost.join(", ")
    );
    // A key that is only added signs nothing and invalidates nothing: it needs one rollout.
    if !gained.is_empty() && (is_signing_changed || !lost.is_empty()) {
        set(new, KEYS, &[known, gained].concat());
        if is_signing_changed {
            set(new, SIGNING, &signs);
            next.push(switch);
        }
        if !lost.is_empty() {
            next.push(drop_old);
        }
        now.push("every API server accepts tokens of the new key".to_owned());
    } else if is_signing_changed && !lost.is_empty() {
        // The new key is known by now: it may sign, while tokens of the old one are still accepted.
        set(new, KEYS, &known);
        now.push(switch);
        next.push(drop_old);
    }
}

/// The first issuer stands in new tokens, all are accepted.
fn issuers(old: &Value, new: &mut Value, defaults: &Defaults, now: &mut Vec<String>, next: &mut Vec<String>) {
    let (known, wanted) = (values(old, ISSUER, &defaults.issuer), values(new, ISSUER, &defaults.issuer));
    let Some(first) = wanted.first().filter(|first| known.first() != Some(*first)) else { return };
    let (gained, lost) = (missing(&wanted, &known), missing(&known, &wanted));
    let switch = format!("new tokens name {first} as their issuer");
    let drop_old = format!(
        "{} is not accepted any more: not before the last token that names it has run out",
        lost.join(", ")
    );
    if !known.contains(first) {
        set(new, ISSUER, &[known, gained].concat());
        now.push(format!("every API server accepts the issuer {first}"));
        next.push(switch);
        if !lost.is_empty() {
            next.push(drop_old);
        }
    } else if !lost.is_empty() {
        // The API server writes the first issuer into new tokens and accepts all of them.
        set(new, ISSUER, &[wanted.clone(), lost].concat());
        now.push(switch);
        next.push(drop_old);
    }
}

fn missing(from: &[String], of: &[String]) -> Vec<String> {
    from.iter().filter(|value| !of.contains(value)).cloned().collect()
}

/// All values of a flag of the API server, or the default.
fn values(configuration: &Value, flag: &str, default: &str) -> Vec<String> {
    let flags = configuration["apiServer"]["extraArgs"].as_array().into_iter().flatten();
    let named = flags.filter(|entry| entry["name"] == flag);
    let found: Vec<String> = named.filter_map(|entry| Some(entry["value"].as_str()?.to_owned())).collect();
    if found.is_empty() { vec![default.to_owned()] } else { found }
}

/// Replaces all values of a flag.
fn set(configuration: &mut Value, flag: &str, values: &[String]) {
    let server = &mut configuration["apiServer"];
    if !server.is_object() {
        *server = json!({});
    }
    if !server["extraArgs"].is_array() {
        server["extraArgs"] = json!([]);
    }
    let Some(flags) = server["extraArgs"].as_array_mut() else { return };
    let at = flags.iter().position(|entry| entry["name"] == flag).unwrap_or(flags.len());
    flags.retain(|entry| entry["name"] != flag);
    let at = at.min(flags.len());
    flags.splice(at..at, values.iter().map(|value| json!({"name": flag, "value": value})));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::WantedDocument;

    fn cut(old: &Value, new: &Value) -> (Option<RolloutPart>, Value) {
        let version = json!({"kubernetesVersion": "v1.36.0"});
        let with = |flags: &Value| {
            let mut value = version.clone();
            value["apiServer"] = json!({"extraArgs": flags});
            value
        };
        let document = WantedDocument {
            kind: DocumentKind::Cluster,
            version: "v1beta4".to_owned(),
            old: with(old),
            new: with(new),
        };
        let mut target = WantedDocuments { documents: vec![document], notes: Vec::new() };
        let part = first(&mut target);
        (part, target.documents[0].new["apiServer"]["extraArgs"].clone())
    }

    fn flags(pairs: &[(&str, &str)]) -> Value {
        pairs.iter().map(|(name, value)| json!({"name": name, "value": value})).collect()
    }

    #[test]
    fn a_signing_key_is_changed_in_three_rollouts() {
        let wanted = flags(&[(KEYS, "/new.pub"), (SIGNING, "/new.key")]);
        let (one, stored) = cut(&json!([]), &wanted);
        let default = "/etc/kubernetes/pki/sa.pub";
        assert_eq!(
            stored,
            flags(&[(KEYS, default), (KEYS, "/new.pub"), (SIGNING, "/etc/kubernetes/pki/sa.key")])
        );
        let one = one.expect("one of three");
        assert_eq!(one.what, "every API server accepts tokens of the new key");
        assert_eq!(one.next.len(), 2, "{:?}", one.next);
        let (two, stored) = cut(&stored, &wanted);
        assert_eq!(stored, flags(&[(KEYS, default), (KEYS, "/new.pub"), (SIGNING, "/new.key")]));
        assert_eq!(two.expect("two of three").next.len(), 1);
        let (three, stored) = cut(&stored, &wanted);
        assert_eq!((three, stored), (None, wanted), "the last one is the request itself");
    }

    #[test]
    fn an_issuer_is_accepted_before_it_is_named() {
        let wanted = flags(&[(ISSUER, "https://new")]);
        let old = "https://kubernetes.default.svc.cluster.local";
        let (one, stored) = cut(&json!([]), &wanted);
        assert_eq!(stored, flags(&[(ISSUER, old), (ISSUER, "https://new")]));
        assert_eq!(one.expect("one of three").next.len(), 2);
        let (two, stored) = cut(&stored, &wanted);
        assert_eq!(stored, flags(&[(ISSUER, "https://new"), (ISSUER, old)]));
        assert_eq!(two.expect("two of three").next.len(), 1);
        assert_eq!(cut(&stored, &wanted), (None, wanted));
    }

    #[test]
    fn a_key_that_encrypts_is_changed_in_requests_of_its_own() {
        let (first, second) = (flags(&[(ENCRYPTION, "/a.yaml")]), flags(&[(ENCRYPTION, "/b.yaml")]));
        for (old, new) in [(&json!([]), &first), (&first, &second)] {
            let (part, stored) = cut(old, new);
            let part = part.expect("one of several");
            assert!(
                !part.by_same_request && part.next.len() == 3 && part.what.contains("second"),
                "{part:?}"
            );
            assert_eq!(&stored, new, "the request is carried out as it is");
        }
        assert_eq!(cut(&first, &json!([])), (None, json!([])), "the rules block it");
        assert_eq!(cut(&first, &first), (None, first.clone()));
    }

    #[test]
    fn other_changes_are_one_rollout() {
        let more = flags(&[(KEYS, "/etc/kubernetes/pki/sa.pub"), (KEYS, "/b.pub")]);
        assert_eq!(cut(&json!([]), &more), (None, more.clone()), "a key more");
        let flag = flags(&[("event-ttl", "2h")]);
        assert_eq!(cut(&json!([]), &flag), (None, flag.clone()));
    }
}
