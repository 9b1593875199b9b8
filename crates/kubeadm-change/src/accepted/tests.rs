//! What each release says to a flag, and that the tables are whole.

use serde_json::json;

use super::*;

#[test]
fn the_tables_are_whole() {
    assert!(flags::is_whole() && gates::is_whole());
    for (component, flag) in limits::flags() {
        let programs = if component == "kube" {
            vec![API_SERVER, CONTROLLER_MANAGER, SCHEDULER]
        } else {
            vec![component.as_str()]
        };
        for program in programs {
            assert!(flags::names(program).contains(&flag.as_str()), "{program} does not have {flag}");
        }
    }
}

fn said(component: &str, minor: u64, flag: &str) -> String {
    let (name, value) = flag.split_once('=').expect("a value");
    let refusal = flags::refused(component, minor, name, value);
    refusal.map(|refusal| format!("{} {}", refusal.problem, refusal.instead)).unwrap_or_default()
}

#[test]
fn flags_of_each_release() {
    let table = [
        (API_SERVER, 36, "audit-log-maxage=30", ""),
        (API_SERVER, 36, "audit_log_maxage=30", ""),
        (
            API_SERVER,
            36,
            "audit-log-maxagee=30",
            "does not have a flag --audit-log-maxagee: it ends when it starts, and its old pod is gone by then. Did you mean audit-log-maxage?",
        ),
        (API_SERVER, 36, "audit-log-maxage=thirty", "--audit-log-maxage=thirty: it wants a whole number"),
        (API_SERVER, 36, "audit-log-maxage=-1", "it wants 0 or more"),
        (API_SERVER, 36, "event-ttl=forever", "it wants a duration"),
        (API_SERVER, 36, "goaway-chance=0.5", "it wants 0.02 or less"),
        (
            API_SERVER,
            36,
            "enable-admission-plugins=NodeRestriction,NoSuchPlugin",
            "`NoSuchPlugin` is not one of",
        ),
        (API_SERVER, 36, "tls-min-version=VersionTLS14", "it wants one of VersionTLS10"),
        (API_SERVER, 36, "feature-gates=NoSuchGate=true", "does not have a gate NoSuchGate"),
        (API_SERVER, 36, "feature-gates=kube:AllBeta=false,kube:AllAlpha=true", ""),
        (API_SERVER, 36, "feature-gates=AnyVolumeDataSource=false", "locked to true in 1.36"),
        (API_SERVER, 36, "feature-gates=AllAlpha", "is not GATE=true"),
        (API_SERVER, 36, "service-account-max-token-expiration=0s", ""),
        (API_SERVER, 36, "service-account-max-token-expiration=1m", "it wants 1h or more"),
        // In the library until 1.30, and not among the flags of the API server, as a real one of 1.28 said.
        (API_SERVER, 29, "insecure-port=0", "does not have a flag"),
        (API_SERVER, 27, "master-service-namespace=x", "the last release with it was 1.26"),
        // Registered beside the options before 1.34.
        (API_SERVER, 28, "default-not-ready-toleration-seconds=300", ""),
        (API_SERVER, 33, "default-unreachable-toleration-seconds=300", ""),
        (API_SERVER, 33, "default-unreachable-toleration-seconds=5m", "it wants a whole number"),
        (API_SERVER, 32, "cloud-provider=external", ""),
        (API_SERVER, 36, "cloud-provider=external", "the last release with it was 1.32"),
        (CONTROLLER_MANAGER, 36, "horizontal-pod-autoscaler-use-rest-clients=true", "does not have a flag"),
        (CONTROLLER_MANAGER, 36, "concurrent-gc-syncs=abc", "it wants a whole number"),
        (CONTROLLER_MANAGER, 36, "concurrent-job-syncs=0", "it wants 1 or more"),
        (CONTROLLER_MANAGER, 36, "cloud-provider=aws", "it wants one of external"),
        (CONTROLLER_MANAGER, 29, "cloud-provider=aws", ""),
        (SCHEDULER, 36, "kube-api-qps=abc", "it wants a number"),
        (SCHEDULER, 36, "port=0", "does not have a flag"),
        (ETCD, 6, "quota-backend-bytes=1e9", "it wants a whole number"),
        (ETCD, 6, "election-timeout=50001", "it wants 50000 or less"),
        (ETCD, 5, "experimental-initial-corrupt-check=true", ""),
        (ETCD, 7, "experimental-initial-corrupt-check=true", "etcd 3.7 does not have the flag"),
        (ETCD, 5, "feature-gates=InitialCorruptCheck=true", "it begins with 3.6"),
        (API_SERVER, 28, "no-such-flag=1", "does not have a flag"),
        (API_SERVER, 25, "no-such-flag=1", ""),
        (API_SERVER, 28, "audit-log-maxage=thirty", "it wants a whole number"),
        (SCHEDULER, 21, "kube-api-qps=abc", "it wants a number"),
        (API_SERVER, 99, "no-such-flag=1", "does not have a flag"),
    ];
    for (component, minor, flag, expected) in table {
        let said = said(component, minor, flag);
        assert!(
            said.contains(expected) && said.is_empty() == expected.is_empty(),
            "{component} {minor} {flag}: {said}"
        );
    }
}

#[test]
fn flags_that_do_not_fit_together() {
    let of = |folder: &str, flags: &[(&str, &str)]| {
        let list: Vec<Value> =
            flags.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
        let cluster = match folder {
            "etcd" => json!({"etcd": {"local": {"extraArgs": list}}}),
            folder => json!({folder: {"extraArgs": list}}),
        };
        refused_flags(&cluster, Some(36), Some(6))
            .into_iter()
            .map(|found| found.flags.join(" "))
            .collect::<Vec<_>>()
    };
    assert_eq!(of("apiServer", &[("oidc-issuer-url", "https://a")]), ["oidc-issuer-url"]);
    assert!(of("apiServer", &[("oidc-issuer-url", "https://a"), ("oidc-client-id", "x")]).is_empty());
    assert_eq!(
        of("apiServer", &[("authorization-mode", "Node,RBAC"), ("authorization-config", "/a")]),
        ["authorization-mode authorization-config"]
    );
    assert_eq!(of("etcd", &[("heartbeat-interval", "500")]), ["election-timeout heartbeat-interval"]);
    assert!(of("etcd", &[("heartbeat-interval", "500"), ("election-timeout", "2500")]).is_empty());
    assert_eq!(of("scheduler", &[("leader-elect-renew-deadline", "15s")]).len(), 1);
    assert!(of("scheduler", &[("leader-elect-renew-deadline", "14s")]).is_empty());
    let split = ("log-text-split-stream", "true");
    assert_eq!(of("scheduler", &[split, ("feature-gates", "AllBeta=true")]), ["log-text-split-stream"]);
    for gates in
        [["LoggingAlphaOptions=true", "AllBeta=true"], ["AllBeta=true", "kube:LoggingAlphaOptions=true"]]
    {
        let lists = gates.map(|list| ("feature-gates", list));
        assert!(of("scheduler", &[split, lists[0], lists[1]]).is_empty(), "lists add up: {gates:?}");
    }
}

#[test]
fn values_of_a_flag_that_stands_several_times() {
    for (folder, flag, adds_up) in [
        (&["apiServer"][..], "feature-gates", true),
        (&["scheduler"], "feature-gates", true),
        (&["etcd", "local"], "feature-gates", true),
        (&["controllerManager"], "tls-sni-cert-key", true),
        (&["apiServer"], "service-account-issuer", true),
        (&["apiServer"], "enable-admission-plugins", true),
        (&["apiServer"], "audit-log-maxage", false),
        (&["scheduler"], "v", false),
        (&["etcd", "local"], "cors", false),
        (&["apiServer"], "no-such-flag", false),
    ] {
        assert_eq!(flag_adds_up(folder, flag), adds_up, "{folder:?} {flag}");
    }
}

#[test]
fn etcd_is_the_one_that_the_configuration_leads_to() {
    assert_eq!(etcd_minor(&json!({"kubernetesVersion": "v1.36.3"}), None), Some(6));
    assert_eq!(etcd_minor(&json!({"kubernetesVersion": "v1.33.1"}), None), Some(5));
    let own = json!({"kubernetesVersion": "v1.33.1", "etcd": {"local": {"imageTag": "3.6.8-0"}}});
    assert_eq!(etcd_minor(&own, None), Some(6));
    assert_eq!(etcd_minor(&json!({}), None), None);
    let stored = json!({"kubernetesVersion": "v1.34.1"});
    assert_eq!(etcd_minor(&stored, Some("3.5.21-0")), Some(5), "the one that runs");
    assert_eq!(etcd_minor(&own, Some("3.5.21-0")), Some(6), "the one that is named");
}
