//! The table against the schema: every field meets one rule, every rule is met, every step exists; and each condition.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::change::path::PathStep;
use crate::change::schema::Schema;
use crate::change::steps::StepId;

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
        for step in &rule.steps {
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
    let managed = ClusterFacts { managed_by: crate::change::facts::ManagedBy::ControlPlane, ..facts.clone() };
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
        (
            &facts,
            "etcd.local.extraArgs[quota-backend-bytes]",
            json!("8589934592"),
            json!("1073741824"),
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
