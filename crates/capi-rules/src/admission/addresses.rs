//! IPAddress and IPAddressClaim. Their webhooks answer with sentences, not with causes.
//!
//! Source: cluster-api `core/webhooks/admission/{ipaddress,ipaddressclaim}.go`, v1.14.2.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::finding::Findings;
use super::parts::differences;
use super::value::{at, text};
use super::{Request, Review};
use capi_types::names::IPAM_GROUP;
use k8s_machinery::admission::{Need, Sought};

const CLAIM: &str = "IPAddressClaim";

/// The claim that a new address answers.
pub(super) fn needs(request: &Request<'_>, address: &Value) -> Vec<Need> {
    let name = text(address, "/spec/claimRef/name");
    // An address never changes, so only a new one is compared with its claim.
    if request.old.is_some() || name.is_empty() {
        return Vec::new();
    }
    vec![Need::of(IPAM_GROUP, CLAIM, text(address, "/metadata/namespace"), name)]
}

pub(super) fn check_address(review: &Review<'_>, out: &mut Findings) {
    if review.old.is_some() {
        return check_fixed(review, out);
    }
    let spec = &review.new["spec"];
    let address = text(spec, "/address").parse::<IpAddr>();
    if address.is_err() {
        out.invalid("spec.address", &json!(text(spec, "/address")), "not a valid IP address");
    }
    let prefix = spec["prefix"].as_i64().unwrap_or(0);
    let too_large = match address {
        _ if prefix < 0 => Some("prefix cannot be negative"),
        Ok(IpAddr::V4(_)) if prefix > 32 => Some("prefix is too large for an IPv4 address"),
        Ok(IpAddr::V6(_)) if prefix > 128 => Some("prefix is too large for an IPv6 address"),
        _ => None,
    };
    if let Some(detail) = too_large {
        out.invalid("spec.prefix", &json!(prefix), detail);
    }
    let gateway = text(spec, "/gateway");
    if !gateway.is_empty() && gateway.parse::<IpAddr>().is_err() {
        out.invalid("spec.gateway", &json!(gateway), "not a valid IP address");
    }
    let (namespace, name) = (text(review.new, "/metadata/namespace"), text(spec, "/claimRef/name"));
    // A claim that is gone, or cannot be read, refuses
    // nothing: upstream ignores that it is not found.
    if let Sought::Here(claim) = review.known.one(CLAIM, namespace, name) {
        let same =
            |part| at(claim, &format!("/spec/poolRef/{part}")) == at(spec, &format!("/poolRef/{part}"));
        if !["apiGroup", "kind", "name"].into_iter().all(same) {
            let detail = "the referenced pool is different from the pool referenced by the claim this address \
                          should fulfill";
            out.invalid("spec.poolRef", &spec["poolRef"], detail);
        }
    }
}

/// Addresses and claims never change.
pub(super) fn check_fixed(review: &Review<'_>, out: &mut Findings) {
    let Some(old) = review.old else { return };
    let changed = differences(&old["spec"], &review.new["spec"]);
    if !changed.is_empty() {
        out.forbidden("spec", &format!("{} spec is immutable. Diff: {changed}", review.kind));
    }
}
