//! Hosts, what uses them, and the clusters on them: kinds of this project. Owns which texts may become words of an ssh command, and
//! what of an object never changes. Must not know how a machine is reached.

use serde_json::Value;

use super::Review;
use super::finding::Findings;
use super::infrastructure::refuse_difference;
use super::parts::{check_metadata, differences};
use super::value::{at, is_defined, items, text};

/// The longest name of a host (RFC 1035).
const WORD_BYTES_MAX: usize = 253;
/// A key of RSA with 16,384 bits, in base64.
const KEY_BYTES_MAX: usize = 4_096;

pub(super) fn check_pool(review: &Review<'_>, out: &mut Findings) {
    check_connection(at(review.new, "/spec/connection"), "spec.connection", out);
}

pub(super) fn check_host(review: &Review<'_>, out: &mut Findings) {
    let spec = at(review.new, "/spec");
    check_word(at(spec, "/address"), "spec.address", is_host, "a name or an address that ssh goes to", out);
    check_connection(at(spec, "/connection"), "spec.connection", out);
    for (i, key) in items(at(spec, "/hostKeys")).iter().enumerate() {
        if !is_public_key(key.as_str().unwrap_or_default()) {
            let why = "expected a public key as /etc/ssh/ssh_host_ed25519_key.pub has it: type and key, no host before them";
            out.invalid(format!("spec.hostKeys[{i}]"), key, why);
        }
    }
    let consumer = |host| at(host, "/spec/consumerRef");
    if let Some(old) = review.old.map(consumer).filter(|old| is_defined(old)) {
        let new = consumer(review.new);
        // Given back is one write, taken again another: nobody takes a Host from under its user.
        if is_defined(new) && text(old, "/uid") != text(new, "/uid") {
            out.forbidden("spec.consumerRef", "the Host is claimed by another HostMachine");
        }
    }
}

fn check_connection(connection: &Value, field: &str, out: &mut Findings) {
    check_word(at(connection, "/user"), &format!("{field}.user"), is_user, "a user", out);
    for (i, jump) in items(at(connection, "/jump")).iter().enumerate() {
        let field = format!("{field}.jump[{i}]");
        check_word(at(jump, "/address"), &format!("{field}.address"), is_host, "a name or an address", out);
        check_word(at(jump, "/user"), &format!("{field}.user"), is_user, "a user", out);
    }
}

fn check_word(word: &Value, field: &str, is_fit: fn(&str) -> bool, what: &str, out: &mut Findings) {
    if word.as_str().is_some_and(|text| !is_fit(text)) {
        let signs = "expected letters, digits, `.`, `-`, `_`, and no `-` in front";
        out.invalid(field, word, &format!("it is not {what}: {signs}"));
    }
}

fn is_user(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    !text.is_empty() && text.len() <= WORD_BYTES_MAX && !text.starts_with('-') && text.chars().all(is_plain)
}

fn is_host(text: &str) -> bool {
    let (address, zone) = text.split_once('%').map_or((text, None), |(address, zone)| (address, Some(zone)));
    let is_address = address.parse::<std::net::IpAddr>().is_ok() && zone.is_none_or(is_user);
    is_address || is_user(text)
}

/// Type and base64, with or without a comment: no options, no host, no second line.
fn is_public_key(text: &str) -> bool {
    let mut words = text.split(' ');
    let (kind, key) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let is_kind = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '@');
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=');
    let starts_as_one = ["ssh-", "ecdsa-", "sk-"].iter().any(|start| kind.starts_with(start));
    starts_as_one
        && kind.chars().all(is_kind)
        && (16..=KEY_BYTES_MAX).contains(&key.len())
        && key.chars().all(is_base64)
        && !text.chars().any(char::is_control)
}

pub(super) fn check_machine(review: &Review<'_>, out: &mut Findings) {
    let Some(old) = review.old else { return };
    let (old, mut new) = (at(old, "/spec").clone(), at(review.new, "/spec").clone());
    // Written once, by the engine; whoever has it must find the machine again.
    if !is_defined(at(&old, "/providerID"))
        && let Some(spec) = new.as_object_mut()
    {
        spec.remove("providerID");
    }
    let changed = differences(&old, &new);
    if !changed.is_empty() {
        out.forbidden("spec", &format!("HostMachine spec is immutable. Diff: {changed}"));
    }
}

pub(super) fn check_machine_template(review: &Review<'_>, out: &mut Findings) {
    check_template(review, out);
    let spec = at(review.new, "/spec/template/spec");
    if is_defined(at(spec, "/providerID")) {
        out.forbidden("spec.template.spec.providerID", "each HostMachine gets one of its own");
    }
}

pub(super) fn check_cluster_template(review: &Review<'_>, out: &mut Findings) {
    check_template(review, out);
    check_endpoint(at(review.new, "/spec/template/spec"), "spec.template.spec", out);
}

fn check_template(review: &Review<'_>, out: &mut Findings) {
    if let Some(old) = review.old.filter(|_| !review.compares_topology) {
        let spec = |object| at(object, "/spec/template/spec");
        let request = "Please create a new resource instead.";
        refuse_difference(review.kind, spec(old), spec(review.new), request, out);
    }
    check_metadata(at(review.new, "/spec/template/metadata"), "spec.template.metadata", out);
}

pub(super) fn check_cluster(review: &Review<'_>, out: &mut Findings) {
    check_endpoint(at(review.new, "/spec"), "spec", out);
    let endpoint = |cluster| at(cluster, "/spec/controlPlaneEndpoint");
    if let Some(old) = review.old.map(endpoint).filter(|old| !text(old, "/host").is_empty())
        && old != endpoint(review.new)
    {
        let why = "the endpoint stands in the certificates and kubeconfigs of the cluster; it cannot change";
        out.forbidden("spec.controlPlaneEndpoint", why);
    }
}

fn check_endpoint(spec: &Value, field: &str, out: &mut Findings) {
    let (mode, host) = (text(spec, "/endpoint/mode"), at(spec, "/endpoint/hostName"));
    let of_host = format!("{field}.endpoint.hostName");
    match mode {
        "VIP" => {
            let why = "an address that the control plane holds by itself is not there yet: name a load balancer with External, \
                       or one Host with SingleHost";
            out.invalid(format!("{field}.endpoint.mode"), at(spec, "/endpoint/mode"), why);
        }
        "SingleHost" if !is_defined(host) => {
            out.required(of_host, "SingleHost needs the name of the Host whose address is the endpoint");
        }
        "SingleHost" => {}
        _ if is_defined(host) => out.forbidden(of_host, "only SingleHost has a Host at its endpoint"),
        _ => {}
    }
}
