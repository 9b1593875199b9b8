//! The table against the schema: every field meets one rule, every rule is met, every step exists; and each condition.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::*;
use crate::live::LiveNode;
use crate::path::PathStep;
use crate::render::{API_SERVER, ETCD, HostFacts, StaticPod};
use crate::schema::Schema;
use crate::steps::StepId;

const KINDS: [DocumentKind; 3] = [DocumentKind::Cluster, DocumentKind::Kubelet, DocumentKind::Proxy];

/// Every path of the schemas; a flag of each name that a rule has.
fn every_path() -> Vec<(DocumentKind, FieldPath)> {
    let mut found = Vec::new();
    for kind in KINDS {
        found.extend(Schema::embedded().leaves(kind.name()).into_iter().map(|path| (kind, path)));
    }
    let gates = [
        "ControlPlaneKubeletLocalMode",
        "NodeLocalCRISocket",
        "EtcdLearnerMode",
        "WaitForAllControlPlaneComponents",
        "UpgradeAddonsBeforeControlPlane",
        "RootlessControlPlane",
        "PublicKeysECDSA",
    ];
    found.extend(
        gates.map(|gate| (DocumentKind::Cluster, FieldPath::default().field("featureGates").field(gate))),
    );
    for pattern in
        all().iter().flat_map(|rule| &rule.paths).filter(|pattern| pattern.text().contains("extraArgs["))
    {
        let text = pattern.text().replace(".**", "").replace('*', "x");
        found.push((DocumentKind::Cluster, FieldPath::parse(&text).expect("a path")));
    }
    found
}

#[test]
fn the_tables_can_be_read() {
    for text in TABLES {
        parse(text).expect("a table");
    }
    assert!(all().len() > 100, "{}", all().len());
}

#[test]
fn every_field_meets_exactly_one_most_specific_rule() {
    for (kind, path) in every_path() {
        let mut scores: Vec<_> = all()
            .iter()
            .filter(|r| r.kind == kind.name())
            .filter_map(|r| r.paths.iter().filter_map(|p| p.score(&path)).max())
            .collect();
        scores.sort();
        let best = scores.last().unwrap_or_else(|| panic!("no rule for {} {path}", kind.name()));
        assert_eq!(
            scores.iter().filter(|score| *score == best).count(),
            1,
            "two rules for {} {path}",
            kind.name()
        );
        let known = path.0.first() != Some(&PathStep::Field("*".to_owned()));
        assert!(
            !known || *best != vec![(0, 0)],
            "{} {path} meets only the rule for unknown fields",
            kind.name()
        );
    }
}

#[test]
fn every_pattern_is_met_and_every_step_exists() {
    let mut met: BTreeSet<String> = BTreeSet::new();
    for (kind, path) in every_path() {
        if let Some(rule) = rule_for(kind, &path) {
            let best = rule.paths.iter().max_by_key(|pattern| pattern.score(&path)).expect("a pattern");
            met.insert(format!("{} {}", rule.kind, best.text()));
        }
    }
    for rule in all() {
        for pattern in rule.paths.iter().filter(|pattern| pattern.text() != "**") {
            let name = format!("{} {}", rule.kind, pattern.text());
            assert!(met.contains(&name), "no field meets {name}");
        }
        for step in rule.steps.iter().chain(rule.cases.iter().flat_map(|case| &case.steps)) {
            assert!(StepId::named(step).is_some(), "{step} is not a step");
        }
        let blocks =
            rule.cases.iter().map(|c| (c.verdict, &c.alternative)).chain([(rule.verdict, &rule.alternative)]);
        for (verdict, alternative) in blocks {
            assert_eq!(
                verdict == Judgement::Block,
                alternative.is_some(),
                "{:?}: a block has an alternative",
                rule.paths[0].text()
            );
        }
    }
}

/// A name that nobody knows must not be called harmless.
#[test]
fn no_wildcard_over_flags_or_fields_says_ok() {
    // Names that people choose themselves, and entries of one field.
    let chosen = ["extraVolumes[*]", "extraEnvs[*]", "shutdownGracePeriodByPodPriority[*]"];
    for rule in all().iter().filter(|rule| rule.verdict == Judgement::Ok) {
        for pattern in rule.paths.iter().map(Pattern::text) {
            let named = pattern.strip_suffix(".**").unwrap_or(pattern);
            let is_chosen = chosen.iter().any(|chosen| named.ends_with(chosen));
            assert!(!named.contains('*') || is_chosen, "{} {pattern}", rule.kind);
        }
    }
}

fn judged(
    kind: DocumentKind,
    path: &str,
    old: Value,
    new: Value,
    facts: &ClusterFacts,
) -> (Judgement, String) {
    let path = FieldPath::parse(path).expect("a path");
    let finding = judge(&FieldChange { kind, path, old, new, derived_from: None }, facts).expect("a rule");
    (finding.verdict, finding.message)
}

#[test]
fn verdicts() {
    use Judgement::{Advise, Block, Ok};
    let facts = ClusterFacts { minor: Some(34), has_local_etcd: true, ..ClusterFacts::default() };
    let cloud = ClusterFacts { has_cloud_provider: true, ..facts.clone() };
    let managed = ClusterFacts { managed_by: crate::facts::ManagedBy::ControlPlane, ..facts.clone() };
    let external = ClusterFacts { has_local_etcd: false, ..facts.clone() };
    let none = || Value::Null;
    let table = [
        (&facts, "kubernetesVersion", json!("v1.34.0"), json!("v1.35.0"), Block),
        (&facts, "clusterName", json!("a"), json!("b"), Advise),
        (&cloud, "clusterName", json!("a"), json!("b"), Block),
        (&facts, "networking.podSubnet", json!("10.0.0.0/16"), json!("10.1.0.0/16"), Block),
        (&facts, "networking.podSubnet", json!("10.0.0.0/16"), json!("10.0.0.0/16,fd00::/48"), Advise),
        (&facts, "networking.podSubnet", json!("10.0.0.0/16"), json!("10.1.0.0/16,fd00::/48"), Block),
        (&facts, "networking.serviceSubnet", json!("10.96.0.0/12"), json!("10.96.0.0/12,fd01::/112"), Advise),
        (&facts, "etcd.local.imageTag", json!("3.5.24-0"), json!("3.6.5-0"), Advise),
        (&facts, "etcd.local.imageTag", json!("3.6.5-0"), json!("3.5.24-0"), Block),
        (&facts, "etcd.local.imageTag", json!("3.5.24-0"), json!("3.7.0-0"), Block),
        (&facts, "etcd.external.endpoints", none(), json!(["https://a"]), Block),
        (&external, "etcd.external.endpoints", json!(["https://a"]), json!(["https://b"]), Advise),
        (&facts, "etcd.local.dataDir", json!("/a"), json!("/b"), Block),
        (&facts, "apiServer.certSANs", json!(["a"]), json!(["a", "b"]), Ok),
        (&facts, "apiServer.certSANs", json!(["a", "b"]), json!(["b"]), Advise),
        (&facts, "apiServer.extraArgs[audit-log-path]", none(), json!("-"), Ok),
        (&facts, "apiServer.extraArgs[unheard-of]", none(), json!("-"), Advise),
        (&facts, "apiServer.extraArgs[authorization-mode]", none(), json!("RBAC"), Block),
        (&facts, "apiServer.extraArgs[authorization-mode]", none(), json!("Node,RBAC,Webhook"), Advise),
        (&facts, "apiServer.extraArgs[enable-admission-plugins]", none(), json!("PodSecurity"), Block),
        (&facts, "apiServer.extraArgs[disable-admission-plugins]", none(), json!("ServiceAccount"), Block),
        (&facts, "apiServer.extraArgs[encryption-provider-config]", json!("/e"), none(), Block),
        (&facts, "apiServer.extraArgs[service-account-issuer]", json!(["a", "b"]), json!("b"), Advise),
        (&facts, "apiServer.extraArgs[etcd-servers]", none(), json!("https://a"), Block),
        (&external, "apiServer.extraArgs[etcd-servers]", none(), json!("https://a"), Advise),
        (&facts, "apiServer.extraArgs[enable-bootstrap-token-auth]", none(), json!("false"), Advise),
        (&managed, "apiServer.extraArgs[enable-bootstrap-token-auth]", none(), json!("false"), Block),
        (&facts, "apiServer.extraArgs[cloud-provider]", none(), json!("external"), Block),
        (&facts, "apiServer.extraArgs[cloud-provider]", json!("external"), none(), Ok),
        (&facts, "controllerManager.extraArgs[leader-elect]", none(), json!("false"), Block),
        (&facts, "controllerManager.extraArgs[allocate-node-cidrs]", none(), json!("false"), Advise),
        (&facts, "controllerManager.extraArgs[cluster-signing-duration]", none(), json!("24h"), Ok),
        (&facts, "controllerManager.extraArgs[cluster-signing-duration]", none(), json!("1m"), Block),
        (&facts, "controllerManager.extraArgs[cluster-signing-duration]", json!("1m"), json!("30m"), Ok),
        (&facts, "apiServer.extraArgs[runtime-config]", none(), json!("api/all=false"), Block),
        (
            &facts,
            "etcd.local.extraArgs[quota-backend-bytes]",
            json!("8589934592"),
            json!("4294967296"),
            Advise,
        ),
        (&facts, "etcd.local.extraArgs[client-cert-auth]", none(), json!("false"), Block),
        (&facts, "featureGates.Unknown", none(), json!(true), Block),
        (&facts, "typo", none(), json!(1), Advise),
    ];
    for (facts, path, old, new, expected) in table {
        let (verdict, message) = judged(DocumentKind::Cluster, path, old, new, facts);
        assert_eq!(verdict, expected, "{path}: {message}");
    }
    let kubelet =
        |path: &str, old: Value, new: Value| judged(DocumentKind::Kubelet, path, old, new, &facts).0;
    assert_eq!(kubelet("maxPods", json!(110), json!(50)), Advise);
    assert_eq!(kubelet("staticPodPath", json!("/a"), json!("/b")), Block);
    assert_eq!(kubelet("authentication.anonymous.enabled", json!(false), json!(true)), Block);
    assert_eq!(kubelet("containerLogMaxFiles", json!(5), json!(3)), Ok);
    assert_eq!(judged(DocumentKind::Proxy, "mode", json!("iptables"), json!("nftables"), &facts).0, Advise);
}

/// Facts of a cluster whose only node runs with these arguments of one component and this image.
#[test]
fn what_a_component_of_the_release_does_not_read_has_no_effect() {
    let said = |path: &str, minor| {
        let facts = ClusterFacts { minor: Some(minor), ..ClusterFacts::default() };
        judged(DocumentKind::Proxy, path, Value::Null, json!(true), &facts)
    };
    for (path, minor, expected) in [
        ("nftables.masqueradeAll", 28, "It is read from 1.29 on: upgrade first if it is needed."),
        ("nftables.masqueradeAll", 29, ""),
        ("nftables.masqueradeEverything", 36, "No release has it: check its name."),
        // A release after the table may have it.
        ("nftables.masqueradeEverything", 99, ""),
    ] {
        let (verdict, words) = said(path, minor);
        let ignored =
            format!("It is stored and has no effect: kube-proxy 1.{minor} ignores the field. {expected}");
        assert_eq!(words == ignored, !expected.is_empty(), "{path} 1.{minor}: {words}");
        assert_eq!(words.contains("has no effect"), !expected.is_empty(), "{path} 1.{minor}: {words}");
        assert!(expected.is_empty() || verdict == Judgement::Advise, "{path} 1.{minor}");
    }
    // Dangerous as soon as the release reads it: it stays refused.
    let refused =
        all().iter().filter(|rule| rule.kind == "KubeletConfiguration" && rule.verdict == Judgement::Block);
    let path = refused.flat_map(|rule| &rule.paths).find(|pattern| !pattern.text().contains('*'));
    let path = path.expect("a refused field").text().to_owned();
    let facts = ClusterFacts { minor: Some(0), ..ClusterFacts::default() };
    assert_eq!(judged(DocumentKind::Kubelet, &path, Value::Null, json!("x"), &facts).0, Judgement::Block);
}

fn running(component: &'static str, command: &[&str], image: &str) -> ClusterFacts {
    let pod = StaticPod {
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        image: image.to_owned(),
        ..StaticPod::default()
    };
    let node = LiveNode {
        host: HostFacts::new("cp-0", "10.0.0.1"),
        static_pods: BTreeMap::from([(component, pod)]),
        beyond: BTreeMap::new(),
    };
    ClusterFacts {
        minor: Some(36),
        has_local_etcd: true,
        etcd_tag: Some("3.6.8-0"),
        control_plane: vec![node],
        ..ClusterFacts::default()
    }
}

#[test]
fn an_image_of_etcd_is_judged_by_what_runs() {
    use Judgement::{Advise, Block};
    let (none, tag) = (|| Value::Null, "etcd.local.imageTag");
    let default = ClusterFacts { etcd_tag: Some("3.6.8-0"), ..ClusterFacts::default() };
    let pods = running(ETCD, &["etcd"], "r.example:5000/etcd:3.6.8-0@sha256:0a");
    let newer = running(ETCD, &["etcd"], "registry.k8s.io/etcd:3.7.0-0");
    let table = [
        (&default, none(), json!("3.5.0-0"), Block),
        (&default, none(), json!("3.9.0-0"), Block),
        (&default, none(), json!("3.7.0-0"), Advise),
        (&default, json!("3.7.0-0"), none(), Block),
        (&pods, none(), json!("3.5.0-0"), Block),
        (&pods, json!("3.5.1-0"), json!("3.5.2-0"), Block),
        (&pods, none(), json!("3.6.9-0"), Advise),
        (&newer, none(), json!("3.6.8-0"), Block),
        (&newer, json!("3.6.8-0"), json!(""), Block),
    ];
    for (facts, old, new, expected) in table {
        let words = format!("{old} to {new}");
        let (verdict, message) = judged(DocumentKind::Cluster, tag, old, new, facts);
        assert_eq!(verdict, expected, "{words}: {message}");
    }
}

#[test]
fn a_quota_is_judged_by_default_by_what_runs_and_by_the_database() {
    use Judgement::{Advise, Block, Ok};
    let (none, path) = (|| Value::Null, "etcd.local.extraArgs[quota-backend-bytes]");
    let unset = ClusterFacts::default();
    let pods = running(ETCD, &["etcd", "--quota-backend-bytes=8589934592"], "etcd:3.6.8-0");
    let full = ClusterFacts { etcd_database_bytes: Some(5_000_000_000), ..pods.clone() };
    let table = [
        (&unset, none(), json!("1048576"), Block),
        (&unset, none(), json!("1073741824"), Block),
        (&unset, none(), json!("0"), Ok),
        (&unset, none(), json!("-1"), Ok),
        (&unset, none(), json!("4294967296"), Ok),
        (&unset, json!("4294967296"), none(), Advise),
        (&unset, json!("-1"), json!("1073741824"), Block),
        (&unset, json!("1048576"), json!("1073741824"), Ok),
        (&pods, none(), json!("4294967296"), Advise),
        (&pods, json!("8589934592"), json!(["8589934592", "1048576"]), Block),
        (&full, json!("8589934592"), json!("4294967296"), Block),
        (&full, json!("8589934592"), none(), Block),
        (&full, json!("8589934592"), json!("6442450944"), Advise),
    ];
    for (facts, old, new, expected) in table {
        let words = format!("{old} to {new}");
        let (verdict, message) = judged(DocumentKind::Cluster, path, old, new, facts);
        assert_eq!(verdict, expected, "{words}: {message}");
    }
    let message = |old: Value, new: Value| judged(DocumentKind::Kubelet, "maxPods", old, new, &unset).1;
    assert!(
        message(Value::Null, json!(50)).starts_with("On a node with more pods"),
        "110 when nothing is given"
    );
    assert!(message(json!(250), Value::Null).starts_with("On a node with more pods"));
    assert!(message(json!(0), json!(150)).starts_with("More pods"));
    let per_core = judged(DocumentKind::Kubelet, "podsPerCore", Value::Null, json!(10), &unset).1;
    assert!(per_core.starts_with("On a node with more pods"), "without it there is no limit");
}

#[test]
fn booleans_are_compared_as_go_reads_them() {
    let facts = ClusterFacts::default();
    let verdict = |path: &str, new: Value| judged(DocumentKind::Cluster, path, Value::Null, new, &facts);
    for text in ["0", "f", "F", "FALSE", "false", "False"] {
        for component in ["controllerManager", "scheduler"] {
            let path = format!("{component}.extraArgs[leader-elect]");
            assert_eq!(verdict(&path, json!(text)).0, Judgement::Block, "{path}={text}");
            assert_eq!(verdict(&path, json!(["true", text])).0, Judgement::Block, "the last one counts");
            assert_eq!(verdict(&path, json!([text, "true"])).0, Judgement::Advise, "the last one counts");
        }
        let (_, message) = verdict("apiServer.extraArgs[anonymous-auth]", json!(text));
        assert!(message.starts_with("The probes of the API server"), "{text}: {message}");
        let cidrs = verdict("controllerManager.extraArgs[allocate-node-cidrs]", json!(text));
        assert_eq!(cidrs.0, Judgement::Advise, "{text}");
    }
    for text in ["1", "t", "T", "TRUE", "true", "True"] {
        assert_eq!(verdict("scheduler.extraArgs[leader-elect]", json!(text)).0, Judgement::Advise, "{text}");
        let (_, message) = verdict("apiServer.extraArgs[anonymous-auth]", json!(text));
        assert!(message.starts_with("Anonymous requests"), "{text}: {message}");
    }
}

#[test]
fn always_allow_is_found_wherever_it_stands() {
    let facts = ClusterFacts::default();
    let path = "apiServer.extraArgs[authorization-mode]";
    for modes in [
        json!("AlwaysAllow,Node,RBAC"),
        json!("Node,RBAC,Webhook,AlwaysAllow"),
        json!("RBAC, AlwaysAllow ,Node"),
        json!("Node,RBAC,\"AlwaysAllow\""),
        json!(["Node,RBAC", "AlwaysAllow"]),
        json!("AlwaysAllow"),
    ] {
        let (verdict, message) = judged(DocumentKind::Cluster, path, Value::Null, modes.clone(), &facts);
        assert_eq!(verdict, Judgement::Block, "{modes}");
        assert!(message.starts_with("With AlwaysAllow in the list"), "{modes}: {message}");
    }
    for modes in [json!("RBAC,Node"), json!(["Node", "RBAC"])] {
        assert_eq!(judged(DocumentKind::Cluster, path, Value::Null, modes, &facts).0, Judgement::Advise);
    }
    let kubelet = |path: &str, new: Value| judged(DocumentKind::Kubelet, path, Value::Null, new, &facts).0;
    assert_eq!(kubelet("authorization.mode", json!("AlwaysAllow")), Judgement::Block);
    assert_eq!(kubelet("authentication.anonymous.enabled", json!(true)), Judgement::Block);
    assert_eq!(kubelet("authentication.anonymous.enabled", json!("T")), Judgement::Block);
}

#[test]
fn names_that_are_only_spelled_otherwise_are_not_lost() {
    let facts = ClusterFacts::default();
    let verdict =
        |path: &str, old: Value, new: Value| judged(DocumentKind::Cluster, path, old, new, &facts).0;
    let names = json!(["LB.example.com", "2001:db8:0:0::1"]);
    let same = json!(["2001:db8::1", "lb.example.com", "new"]);
    assert_eq!(verdict("apiServer.certSANs", names, same), Judgement::Ok);
    let issuers = running(API_SERVER, &["kube-apiserver", "--service-account-issuer=https://a"], "x");
    let path = "apiServer.extraArgs[service-account-issuer]";
    let lost = |new: Value| judged(DocumentKind::Cluster, path, Value::Null, new, &issuers).1;
    assert!(lost(json!("https://b")).starts_with("Tokens of the issuer that goes away"), "it runs with it");
    assert!(lost(json!(["https://b", "https://a"])).starts_with("New tokens have the first issuer"));
}

#[test]
fn only_between_iptables_and_ipvs_nodes_are_restarted_by_people() {
    let facts = ClusterFacts::default();
    let steps = |old: Value, new: Value| {
        let path = FieldPath::parse("mode").expect("a path");
        let change = FieldChange { kind: DocumentKind::Proxy, path, old, new, derived_from: None };
        judge(&change, &facts).expect("a rule").steps
    };
    for (old, new) in [("iptables", "ipvs"), ("ipvs", "iptables"), ("", "ipvs"), ("ipvs", "")] {
        assert_eq!(steps(json!(old), json!(new)), ["P2"], "{old} to {new}");
    }
    assert_eq!(steps(Value::Null, json!("ipvs")), ["P2"]);
    for (old, new) in [("iptables", "nftables"), ("nftables", "ipvs"), ("", "nftables")] {
        assert_eq!(steps(json!(old), json!(new)), Vec::<String>::new(), "{old} to {new}");
    }
}
