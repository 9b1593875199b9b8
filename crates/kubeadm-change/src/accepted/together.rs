//! Flags that a component refuses together. Owns these rules; must not know a single flag's type.
//!
//! Source: kubernetes 1.36.3 `pkg/kubeapiserver/options/{authentication,authorization}.go`, client-go
//! `tools/leaderelection` (`NewLeaderElector`), etcd 3.6.8 `embed/config.go` (`Validate`).

use super::super::render::{API_SERVER, CONTROLLER_MANAGER, ETCD, SCHEDULER};
use super::super::units::{go_bool, quantity_milli};
use super::NotAccepted;
use super::value::whole_number;
use capstan_base::go_duration::GoDuration;

const HEARTBEAT_DEFAULT_MS: i128 = 100;
const ELECTION_DEFAULT_MS: i128 = 1000;
/// How many heartbeats an election lasts at least.
const HEARTBEATS_MIN: i128 = 5;
/// What the lock takes when nothing is given, in nanoseconds.
const LEASE_DEFAULT_NS: i64 = 15_000_000_000;
const RENEW_DEFAULT_NS: i64 = 10_000_000_000;
const RETRY_DEFAULT_NS: i64 = 2_000_000_000;

type Given = [(String, String)];
type Found = Vec<(Vec<String>, NotAccepted)>;

pub(super) fn refused(component: &str, given: &Given) -> Found {
    let logs = (component != ETCD).then(|| logs(component, given)).flatten();
    let own: Found = match component {
        API_SERVER => [oidc(given), authorization(given), reload(given), coordination(given)]
            .into_iter()
            .flatten()
            .collect(),
        CONTROLLER_MANAGER | SCHEDULER => lock(component, given).into_iter().collect(),
        ETCD => election(given).into_iter().collect(),
        _ => Vec::new(),
    };
    own.into_iter().chain(logs).collect()
}

/// Source: component-base `logs/api/v1/options.go` (`validateFormatOptions`).
fn logs(component: &str, given: &Given) -> Option<(Vec<String>, NotAccepted)> {
    let is_on = |name: &&str| {
        let value = last(given, name);
        let is_some_size = |value: &str| quantity_milli(value).is_some_and(|size| size != 0.0);
        value.is_some_and(|value| go_bool(value).unwrap_or_else(|| is_some_size(value)))
    };
    let names = [
        "log-text-split-stream",
        "log-json-split-stream",
        "log-text-info-buffer-size",
        "log-json-info-buffer-size",
    ];
    let used: Vec<&str> = names.into_iter().filter(is_on).collect();
    // The lists of a flag that stands several times add up.
    let lists = given.iter().filter(|(name, _)| name == "feature-gates");
    let gates = lists.flat_map(|(_, list)| list.split(','));
    let has = |gate: &str| gates.clone().any(|pair| pair.trim().trim_start_matches("kube:") == gate);
    if used.is_empty() || has("LoggingAlphaOptions=true") || has("AllAlpha=true") {
        return None;
    }
    let problem = format!(
        "{component} does not start with {} unless the gate LoggingAlphaOptions is on.",
        used.join(" and ")
    );
    Some(found(&used, problem, "Add LoggingAlphaOptions=true to feature-gates in the same change."))
}

/// The last value of a flag.
fn last<'g>(given: &'g Given, name: &str) -> Option<&'g str> {
    given.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

fn found(flags: &[&str], problem: String, instead: &str) -> (Vec<String>, NotAccepted) {
    let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
    (flags, NotAccepted { problem, instead: instead.to_owned() })
}

fn named<'g>(given: &'g Given, head: &str) -> Vec<&'g str> {
    given.iter().map(|(name, _)| name.as_str()).filter(|name| name.starts_with(head)).collect()
}

fn oidc(given: &Given) -> Option<(Vec<String>, NotAccepted)> {
    let flags = named(given, "oidc-");
    let has = |name: &str| last(given, name).is_some_and(|value| !value.is_empty());
    if flags.is_empty() || has("oidc-issuer-url") && has("oidc-client-id") {
        return None;
    }
    let problem = "kube-apiserver does not start with flags of oidc unless both oidc-issuer-url and oidc-client-id are given.";
    Some(found(&flags, problem.to_owned(), "Give both, in the same change."))
}

fn authorization(given: &Given) -> Option<(Vec<String>, NotAccepted)> {
    last(given, "authorization-config").filter(|value| !value.is_empty())?;
    let mut others = named(given, "authorization-webhook-");
    others.extend(named(given, "authorization-mode"));
    if others.is_empty() {
        return None;
    }
    let problem =
        format!("kube-apiserver does not start with authorization-config beside {}.", others.join(", "));
    // Named too: a change of either flag leads to the refusal.
    others.push("authorization-config");
    Some(found(&others, problem, "Take the others away in the same change."))
}

fn reload(given: &Given) -> Option<(Vec<String>, NotAccepted)> {
    let (reload, config) = ("encryption-provider-config-automatic-reload", "encryption-provider-config");
    let is_on = last(given, reload).and_then(go_bool) == Some(true);
    if !is_on || last(given, config).is_some_and(|value| !value.is_empty()) {
        return None;
    }
    let problem = format!("kube-apiserver does not start with {reload} unless {config} is given.");
    Some(found(&[reload, config], problem, "Give both, in the same change."))
}

/// Source: kubernetes 1.36.3 `pkg/controlplane/apiserver/options/validation.go` (`validateCoordinatedLeadershipFlags`).
fn coordination(given: &Given) -> Option<(Vec<String>, NotAccepted)> {
    let names = [
        "coordinated-leadership-lease-duration",
        "coordinated-leadership-renew-deadline",
        "coordinated-leadership-retry-period",
    ];
    let (lease, renew, retry) = periods(given, names);
    // Without the factor of the locks: the API server's own check compares the three as they are.
    if lease > renew && renew > retry {
        return None;
    }
    let problem = format!(
        "{API_SERVER} does not start unless {} is longer than {}, and that longer than {} (15s, 10s and 2s by default).",
        names[0], names[1], names[2]
    );
    Some(found(&names, problem, "Change those of them that belong together in one change."))
}

/// How long a lock is held, for how long it is renewed, and how often that is tried, in nanoseconds.
fn periods(given: &Given, names: [&str; 3]) -> (i64, i64, i64) {
    let value = |name: &str, default: i64| {
        last(given, name).and_then(GoDuration::parse).map_or(default, GoDuration::ns)
    };
    (value(names[0], LEASE_DEFAULT_NS), value(names[1], RENEW_DEFAULT_NS), value(names[2], RETRY_DEFAULT_NS))
}

fn lock(component: &str, given: &Given) -> Option<(Vec<String>, NotAccepted)> {
    let names = ["leader-elect-lease-duration", "leader-elect-renew-deadline", "leader-elect-retry-period"];
    let (lease, renew, retry) = periods(given, names);
    // 1.2 is the factor by which client-go draws out the waits between its tries.
    if lease > renew && i128::from(renew) * 5 > i128::from(retry) * 6 {
        return None;
    }
    let problem = format!(
        "{component} does not start unless {} is longer than {}, and that longer than 1.2 times {} (15s, 10s and 2s by default).",
        names[0], names[1], names[2]
    );
    Some(found(&names, problem, "Change those of them that belong together in one change."))
}

fn election(given: &Given) -> Option<(Vec<String>, NotAccepted)> {
    let names = ["election-timeout", "heartbeat-interval"];
    let value = |name: &str, default: i128| last(given, name).and_then(whole_number).unwrap_or(default);
    let (election, heartbeat) = (value(names[0], ELECTION_DEFAULT_MS), value(names[1], HEARTBEAT_DEFAULT_MS));
    if election >= heartbeat * HEARTBEATS_MIN {
        return None;
    }
    let problem = format!(
        "etcd does not start with an election-timeout of {election} ms and a heartbeat-interval of {heartbeat} ms: five heartbeats have to fit into an election."
    );
    Some(found(&names, problem, "Give both, in the same change: ten heartbeats is usual."))
}
