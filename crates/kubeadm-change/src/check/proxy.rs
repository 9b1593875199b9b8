//! What kube-proxy refuses of its configuration although each value has its type. Owns the rules over texts and several fields; must
//! not know a change.
//!
//! Source: kubernetes 1.36.3 `pkg/proxy/apis/config/validation/validation.go`, `pkg/proxy/apis/config/v1alpha1/{defaults,conversion}.go`.

use serde_json::Value;

use super::super::accepted::gate_is_on;
use super::super::network::{Cidr, is_port, parse_ip};
use super::limits::amount;

type Found = Vec<(String, String)>;

/// Seen on 1.36, not on 1.33.
const LOGGING_PERIOD_SINCE: u64 = 36;
const SYNC_PERIOD_NS: f64 = 30e9;

/// Everything that a kube-proxy of this minor release would end with; of an unknown release, the newest.
pub(super) fn refused(document: &Value, minor: Option<u64>) -> Found {
    let mut found = Found::new();
    let text =
        |path: &str| path.split('.').fold(document, |value, name| &value[name]).as_str().unwrap_or_default();
    let mode = text("mode");
    let gate = |name: &str| gate_is_on(minor.unwrap_or(u64::MAX), name, &document["featureGates"]);
    // From 1.33 on the mode needs no gate.
    if mode == "nftables" && !gate("NFTablesProxyMode") && minor.is_some_and(|minor| minor < 33) {
        found.push(("mode".to_owned(), "is nftables, which needs the gate NFTablesProxyMode".to_owned()));
    }
    if !text("bindAddress").is_empty() && parse_ip(text("bindAddress")).is_none() {
        found.push(("bindAddress".to_owned(), "has to be an IP address".to_owned()));
    }
    for field in ["healthzBindAddress", "metricsBindAddress"] {
        if !text(field).is_empty() && !is_address_with_port(text(field)) {
            found.push((field.to_owned(), "has to be an IP address, or ADDRESS:PORT".to_owned()));
        }
    }
    found.extend(periods(document, mode));
    found.extend(ranges(document, mode));
    found.extend(local_mode(document));
    // It has these gates on, and older releases do not look at the period.
    let logging = super::logging::refused(document, |_| true).into_iter();
    let is_old = minor.is_some_and(|minor| minor < LOGGING_PERIOD_SINCE);
    found.extend(logging.filter(|(path, _)| !is_old || path != "logging.flushFrequency"));
    found
}

/// The periods of the mode that is used.
fn periods(document: &Value, mode: &str) -> Found {
    // The default on Linux; only the periods of the mode that runs are looked at.
    let mode = if mode.is_empty() { "iptables" } else { mode };
    let least_default = if mode == "ipvs" { 0.0 } else { 1e9 };
    let period = |name: &str, default: f64| {
        // Zero gets the default of its mode.
        amount(&document[mode][name]).filter(|period| *period != 0.0).unwrap_or(default)
    };
    let (sync, least) = (period("syncPeriod", SYNC_PERIOD_NS), period("minSyncPeriod", least_default));
    let mut found = Found::new();
    if sync <= 0.0 {
        found.push((format!("{mode}.syncPeriod"), "has to be more than 0".to_owned()));
    } else if least < 0.0 || least > sync {
        found.push((format!("{mode}.minSyncPeriod"), "has to be between 0 and syncPeriod".to_owned()));
    }
    if mode == "nftables"
        && amount(&document[mode]["masqueradeBit"]).is_some_and(|bit| !(0.0..=31.0).contains(&bit))
    {
        found.push(("nftables.masqueradeBit".to_owned(), "has to be from 0 to 31".to_owned()));
    }
    let timeouts = ["tcpTimeout", "tcpFinTimeout", "udpTimeout"].into_iter().filter(|_| mode == "ipvs");
    let negative =
        timeouts.filter(|name| amount(&document[mode][*name]).is_some_and(|timeout| timeout < 0.0));
    found.extend(negative.map(|name| (format!("ipvs.{name}"), "must not be below 0".to_owned())));
    found
}

fn ranges(document: &Value, mode: &str) -> Found {
    let list = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(|item| item.as_str().map(str::to_owned)).collect()
    };
    let mut found = Found::new();
    let addresses = list(&document["nodePortAddresses"]);
    let is_primary = addresses.iter().any(|address| address == "primary");
    let is_wrong = if is_primary {
        addresses.len() > 1
    } else {
        addresses.iter().any(|address| Cidr::parse(address).is_none())
    };
    if is_wrong {
        found
            .push(("nodePortAddresses".to_owned(), "has to be [primary], or ranges of addresses".to_owned()));
    }
    let excluded = list(&document["ipvs"]["excludeCIDRs"]);
    if mode == "ipvs" && excluded.iter().any(|range| Cidr::parse(range).is_none()) {
        found.push(("ipvs.excludeCIDRs".to_owned(), "has to hold ranges of addresses".to_owned()));
    }
    found
}

/// What is needed to know local traffic by.
fn local_mode(document: &Value) -> Found {
    let mode = document["detectLocalMode"].as_str().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let cluster = text(&document["clusterCIDR"]);
    let wrong = |path: &str, message: &str| vec![(path.to_owned(), message.to_owned())];
    match mode {
        "BridgeInterface" if text(&document["detectLocal"]["bridgeInterface"]).is_empty() => {
            wrong("detectLocal.bridgeInterface", "must not be empty with detectLocalMode BridgeInterface")
        }
        "InterfaceNamePrefix" if text(&document["detectLocal"]["interfaceNamePrefix"]).is_empty() => wrong(
            "detectLocal.interfaceNamePrefix",
            "must not be empty with detectLocalMode InterfaceNamePrefix",
        ),
        _ if !cluster.is_empty() && Cidr::parse_pair(&cluster).is_none() => {
            wrong("clusterCIDR", "has to be one range, or one of each address family behind a comma")
        }
        _ => Found::new(),
    }
}

/// An address, or one with a port; an IPv6 address with a port stands in brackets.
fn is_address_with_port(text: &str) -> bool {
    if parse_ip(text).is_some() {
        return true;
    }
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    parse_ip(host).is_some() && is_port(port)
}
