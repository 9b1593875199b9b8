//! Tables for drains: which pods go how and when, and the message.

mod properties;
mod volumes;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use capstan_base::time::parse_rfc3339;

fn now() -> Timestamp {
    parse_rfc3339("2026-01-01T12:00:00Z").expect("a moment")
}

fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object")
}

/// A pod `namespace/name` with more metadata, and its phase.
fn pod(key: &str, metadata: Value, phase: &str) -> Pod {
    let (namespace, name) = key.split_once('/').expect("namespace/name");
    let mut pod = json!({"metadata": metadata, "status": {"phase": phase}});
    pod["metadata"]["namespace"] = json!(namespace);
    pod["metadata"]["name"] = json!(name);
    object(pod)
}

fn plain(key: &str) -> Pod {
    pod(key, json!({}), "Running")
}

fn rule(name: &str, spec: Value) -> Arc<MachineDrainRule> {
    Arc::new(object(json!({"metadata": {"name": name, "namespace": "ns"}, "spec": spec})))
}

/// A Machine `os: linux` in a Cluster `stage: production`, and what runs on its Node.
struct Case {
    cluster: Cluster,
    machine: Machine,
    node: Node,
    tenants: Tenants,
    evictions: Evictions,
}

impl Case {
    /// Namespaces carry their name as a label, as every cluster has it.
    fn of(pods: Vec<Pod>) -> Self {
        let labelled = |name: &str| {
            let labels = BTreeMap::from([("kubernetes.io/metadata.name".to_owned(), name.to_owned())]);
            (name.to_owned(), labels)
        };
        let namespaces =
            Ok(pods.iter().filter_map(|p| p.metadata.namespace.as_deref()).map(labelled).collect());
        Self {
            cluster: object(
                json!({"metadata": {"name": "c", "labels": {"stage": "production"}}, "spec": {}}),
            ),
            machine: object(
                json!({"metadata": {"name": "m", "labels": {"os": "linux"}}, "spec": {"clusterName": "c",
                "bootstrap": {}, "infrastructureRef": {"apiGroup": "", "kind": "", "name": ""}}}),
            ),
            node: Node::default(),
            tenants: Tenants { pods, rules: Ok(Vec::new()), namespaces, daemon_sets: BTreeSet::new() },
            evictions: Evictions::new(),
        }
    }

    fn with_rules(mut self, rules: Vec<Arc<MachineDrainRule>>) -> Self {
        self.tenants.rules = Ok(rules);
        self
    }

    fn grounds(&self) -> Grounds<'_> {
        let Self { cluster, machine, node, tenants, .. } = self;
        Grounds { cluster, machine, node, tenants }
    }

    fn drain(&self) -> Result<Drain, String> {
        classify(self.grounds(), &self.evictions, now())
    }

    /// Every pod that counts, with the list it is in.
    fn lists(&self) -> String {
        let Ok(drain) = self.drain() else { return self.drain().expect_err("seen") };
        let lists = [
            ("evict", drain.evict),
            ("terminating", drain.terminating),
            ("refused", drain.refused.into_values().flatten().collect()),
            ("completing", drain.completing),
            ("evict later", drain.evict_later),
            ("complete later", drain.complete_later),
        ];
        let text = |(name, keys): (&str, Vec<ObjectKey>)| {
            let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
            (!keys.is_empty()).then(|| format!("{name}: {}", keys.join(" ")))
        };
        lists.into_iter().filter_map(text).collect::<Vec<_>>().join("; ")
    }
}

#[test]
fn a_pod_says_itself_how_it_leaves() {
    let owned = |kind: &str| json!({"ownerReferences": [{"apiVersion": "x", "kind": kind, "name": "o", "uid": "u", "controller": true}]});
    let labelled = |value: &str| json!({"labels": {"cluster.x-k8s.io/drain": value}});
    let mirror = json!({"annotations": {"kubernetes.io/config.mirror": ""}});
    for (metadata, phase, expected) in [
        (json!({}), "Running", "evict: d/p"),
        (json!({}), "Succeeded", "evict: d/p"),
        (owned("DaemonSet"), "Running", ""),
        (owned("DaemonSet"), "Succeeded", "evict: d/p"),
        (owned("DaemonSet"), "Failed", "evict: d/p"),
        (owned("ReplicaSet"), "Running", "evict: d/p"),
        (mirror.clone(), "Running", ""),
        (mirror, "Failed", ""),
        (labelled("skip"), "Running", ""),
        (labelled("SKIP"), "Succeeded", ""),
        (labelled("sk-ip"), "Running", "evict: d/p"),
        (labelled("wait-completed"), "Running", "completing: d/p"),
        (labelled("WaitCompleted"), "Succeeded", "completing: d/p"),
        (labelled("wait-comp-leted"), "Running", "evict: d/p"),
        (labelled("other"), "Running", "evict: d/p"),
        (json!({"deletionTimestamp": "2026-01-01T11:00:00Z"}), "Running", "terminating: d/p"),
    ] {
        let mut case = Case::of(vec![pod("d/p", metadata.clone(), phase)]);
        case.tenants.daemon_sets.insert(ObjectKey::new("d", "o"));
        assert_eq!(case.lists(), expected, "{metadata} {phase}");
    }
    let orphan = Case::of(vec![pod("d/p", owned("DaemonSet"), "Running")]);
    assert_eq!(orphan.lists(), "evict: d/p", "its DaemonSet is gone");
}

#[test]
fn the_first_rule_that_speaks_decides() {
    let drain = |order: i32| json!({"behavior": "Drain", "order": order});
    let labels = |key: &str, value: &str| json!({"matchLabels": {key: value}});
    let app = || pod("web/p", json!({"labels": {"app": "shop"}}), "Running");
    let skip = json!({"behavior": "Skip"});
    for (spec, expected) in [
        (json!({"drain": skip}), ""),
        (json!({"drain": {"behavior": "WaitCompleted"}}), "completing: web/p"),
        (json!({"drain": {"behavior": "Drain"}}), "evict: web/p"),
        (json!({"drain": drain(7)}), "evict: web/p"),
        (json!({"drain": skip, "machines": [{"selector": labels("os", "linux")}]}), ""),
        (json!({"drain": skip, "machines": [{"selector": labels("os", "windows")}]}), "evict: web/p"),
        (json!({"drain": skip, "machines": [{"clusterSelector": labels("stage", "production")}]}), ""),
        (
            json!({"drain": skip, "machines": [{"selector": labels("os", "linux"), "clusterSelector": labels("stage", "test")}]}),
            "evict: web/p",
        ),
        (
            json!({"drain": skip, "machines": [{"selector": labels("os", "x")}, {"clusterSelector": labels("stage", "production")}]}),
            "",
        ),
        (json!({"drain": skip, "machines": [{"selector": {}}]}), ""),
        (json!({"drain": skip, "pods": [{"selector": labels("app", "shop")}]}), ""),
        (json!({"drain": skip, "pods": [{"selector": labels("app", "db")}]}), "evict: web/p"),
        (
            json!({"drain": skip, "pods": [{"namespaceSelector": labels("kubernetes.io/metadata.name", "web")}]}),
            "",
        ),
        (
            json!({"drain": skip, "pods": [{"selector": labels("app", "shop"),
                "namespaceSelector": labels("kubernetes.io/metadata.name", "data")}]}),
            "evict: web/p",
        ),
        (
            json!({"drain": skip, "pods": [{"selector": labels("app", "db")}, {"selector":
                {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}]}),
            "",
        ),
    ] {
        assert_eq!(
            Case::of(vec![app()]).with_rules(vec![rule("r", spec.clone())]).lists(),
            expected,
            "{spec}"
        );
    }
    let by_name = vec![
        rule("b", json!({"drain": skip})),
        rule("c", json!({"drain": {"behavior": "WaitCompleted"}})),
        rule(
            "a",
            json!({"drain": {"behavior": "Drain"}, "machines": [{"selector": labels("os", "windows")}]}),
        ),
    ];
    assert_eq!(Case::of(vec![app()]).with_rules(by_name.clone()).lists(), "", "b is the first that speaks");
    let own = pod("web/p", json!({"labels": {"cluster.x-k8s.io/drain": "wait-completed"}}), "Running");
    assert_eq!(Case::of(vec![own]).with_rules(by_name).lists(), "completing: web/p", "the label wins");
}

#[test]
fn what_cannot_be_judged_is_told() {
    let of = |change: fn(&mut Case)| {
        let mut case = Case::of(vec![plain("d/p")]);
        change(&mut case);
        case.lists()
    };
    assert_eq!(
        of(|c| c.tenants.rules = Err("refused".into())),
        "MachineDrainRules could not be read: refused"
    );
    assert_eq!(of(|c| c.tenants.namespaces = Err("refused".into())), "Namespaces could not be read: refused");
    assert_eq!(of(|c| c.tenants.namespaces = Ok(BTreeMap::new())), "the Namespace of Pod d/p does not exist");
    let rules = |spec: Value| Ok(vec![rule("r", spec)]);
    let odd = |spec| {
        let mut case = Case::of(vec![plain("d/p")]);
        case.tenants.rules = rules(spec);
        case.lists()
    };
    assert_eq!(
        odd(json!({"drain": {"behavior": "Sometimes"}})),
        "MachineDrainRule \"r\" has unknown spec.drain.behavior: \"Sometimes\""
    );
    let broken = json!({"matchExpressions": [{"key": "a", "operator": "Near"}]});
    let windows = json!({"selector": {"matchLabels": {"os": "windows"}}});
    for spec in [
        json!({"drain": {"behavior": "Skip"}, "machines": [{"selector": broken}]}),
        json!({"drain": {"behavior": "Skip"}, "machines": [windows], "pods": [{"namespaceSelector": broken}]}),
    ] {
        assert_eq!(
            odd(spec),
            "MachineDrainRule r has an invalid selector: \"Near\" is not a valid label selector operator"
        );
    }
    let mut empty = Case::of(Vec::new());
    (empty.tenants.rules, empty.tenants.namespaces) = (Err("refused".into()), Err("refused".into()));
    assert!(empty.drain().is_ok_and(|drain| drain.is_complete()), "without pods nobody asks");
}

/// A rule for pods with the label `tier`.
fn tier(value: &str, drain: Value) -> Arc<MachineDrainRule> {
    rule(value, json!({"drain": drain, "pods": [{"selector": {"matchLabels": {"tier": value}}}]}))
}

fn in_tier(key: &str, value: &str) -> Pod {
    pod(key, json!({"labels": {"tier": value}}), "Running")
}

#[test]
fn pods_of_a_lower_order_go_first() {
    let rules = || {
        vec![
            tier("first", json!({"behavior": "Drain", "order": -5})),
            tier("last", json!({"behavior": "Drain", "order": 10})),
            tier("wait", json!({"behavior": "WaitCompleted"})),
        ]
    };
    let all = || {
        vec![
            in_tier("d/c", "last"),
            in_tier("d/a", "first"),
            in_tier("d/w", "wait"),
            plain("d/b"),
            in_tier("d/a-2", "first"),
        ]
    };
    let case = |pods| Case::of(pods).with_rules(rules());
    assert_eq!(case(all()).lists(), "evict: d/a d/a-2; evict later: d/b d/c; complete later: d/w");
    assert_eq!(case(all().split_off(2)[..2].to_vec()).lists(), "evict: d/b; completing: d/w");
    let going = pod(
        "d/a",
        json!({"labels": {"tier": "first"}, "deletionTimestamp": "2026-01-01T11:59:00Z"}),
        "Running",
    );
    let last = pod(
        "d/z",
        json!({"labels": {"tier": "last"}, "deletionTimestamp": "2026-01-01T11:59:00Z"}),
        "Running",
    );
    assert_eq!(
        case(vec![plain("d/b"), going, last]).lists(),
        "terminating: d/a d/z; evict later: d/b",
        "it holds the others while it goes; one that goes already is not told to come later"
    );
    assert_eq!(case(vec![in_tier("d/c", "last")]).lists(), "evict: d/c", "the highest is the first here");
}

#[test]
fn the_outcome_of_a_round_is_sorted() {
    let mut case = Case::of(["d/a", "d/b", "d/c", "d/d"].map(plain).to_vec());
    case.tenants.pods.push(pod("d/z", json!({"deletionTimestamp": "2026-01-01T11:59:00Z"}), "Running"));
    let key = |name: &str| ObjectKey::new("d", name);
    case.evictions = Evictions::from([
        (key("a"), Evicted::Refused("no".to_owned())),
        (key("b"), Evicted::Started),
        (key("c"), Evicted::Gone),
    ]);
    assert_eq!(case.lists(), "evict: d/d; terminating: d/z d/b; refused: d/a");
    assert_eq!(case.drain().map(|drain| drain.left()), Ok(4));
    let mut gone = Case::of(vec![plain("d/a")]);
    gone.evictions = Evictions::from([(key("a"), Evicted::Gone)]);
    assert!(gone.drain().is_ok_and(|drain| drain.is_complete()));
}

#[test]
fn pods_are_ordered_as_they_are_written() {
    let case = Case::of(["a/y", "a-b/x", "a/b"].map(plain).to_vec());
    assert_eq!(case.lists(), "evict: a-b/x a/b a/y");
}

#[test]
fn stuck_pods_of_an_unreachable_node_are_passed_over() {
    let deleted = |at: &str| pod("d/p", json!({"deletionTimestamp": at}), "Running");
    for (ready, at, expected) in [
        ("Unknown", "2026-01-01T11:59:59Z", "terminating: d/p"),
        ("Unknown", "2026-01-01T11:59:58Z", ""),
        ("Unknown", "2026-01-01T12:00:30Z", "terminating: d/p"),
        ("False", "2026-01-01T11:00:00Z", "terminating: d/p"),
    ] {
        let mut case = Case::of(vec![deleted(at)]);
        case.node = object(json!({"status": {"conditions": [{"type": "Ready", "status": ready}]}}));
        assert_eq!(case.lists(), expected, "{ready} {at}");
    }
    let mut case = Case::of(vec![deleted("2026-01-01T11:59:58Z")]);
    case.node = object(json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}));
    let late = classify(case.grounds(), &Evictions::new(), now() - chrono::TimeDelta::milliseconds(1));
    assert_eq!(late.map(|drain| drain.terminating.len()), Ok(1), "only whole seconds count");
    let ready = |first: &str, then: &str| {
        let conditions = json!([{"type": "Ready", "status": first}, {"type": "Ready", "status": then}]);
        is_unreachable(&object(json!({"status": {"conditions": conditions}})))
    };
    assert_eq!((ready("True", "Unknown"), ready("Unknown", "True")), (false, true), "the first counts");
}

fn keys(count: usize, prefix: &str) -> Vec<ObjectKey> {
    (1..=count).map(|n| ObjectKey::new("d", format!("{prefix}{n}"))).collect()
}

#[test]
fn the_message_groups_pods_by_what_holds_them() {
    let budget =
        "Cannot evict pod as it would violate the pod's disruption budget. The disruption budget b needs 3";
    let drain = Drain {
        evict: Vec::new(),
        terminating: keys(1, "t"),
        refused: BTreeMap::from([(budget.to_owned(), keys(2, "r")), ("boom".to_owned(), keys(1, "f"))]),
        completing: keys(4, "w"),
        evict_later: keys(5, "l"),
        complete_later: keys(1, "x"),
    };
    assert_eq!(
        drain.message("T"),
        "Drain not completed yet (started at T):\n\
         * Pod d/t1: deletionTimestamp set, but still not removed from the Node\n\
         * Pods d/r1, d/r2: cannot evict pod as it would violate the pod's disruption budget. The disruption budget b \
         needs 3\n\
         * Pod d/f1: failed to evict Pod, boom\n\
         * Pods d/w1, d/w2, d/w3, ... (1 more): waiting for completion\n\
         After above Pods have been removed from the Node, the following Pods will be evicted: d/l1, d/l2, d/l3, ... \
         (2 more)\n\
         After above Pods have been removed from the Node, waiting for the following Pods to complete without eviction: \
         d/x1"
    );
    let told = refusals(&drain.message("T"));
    let of = |prefix: &str| told.keys().filter(|key| key.name.starts_with(prefix)).count();
    assert_eq!((told.len(), of("r"), of("f")), (3, 2, 1));
    assert_eq!(told[&keys(1, "f")[0]], Evicted::Refused("boom".to_owned()));
    assert_eq!(told[&keys(2, "r")[1]], Evicted::Refused(budget.to_owned()), "in the server's words");
}

#[test]
fn a_message_shows_five_refusals_and_counts_the_rest_in_pods() {
    let refused = |texts: usize, pods: usize| Drain {
        refused: (1..=texts).map(|n| (format!("error {n}"), keys(pods, &format!("p{n}-")))).collect(),
        ..Drain::default()
    };
    let last = |drain: Drain| drain.message("T").lines().last().map(str::to_owned).unwrap_or_default();
    assert_eq!(last(refused(5, 1)), "* Pod d/p5-1: failed to evict Pod, error 5");
    assert_eq!(last(refused(6, 1)), "* 1 Pod with other issues");
    assert_eq!(last(refused(6, 2)), "* 2 Pods with other issues");
    assert_eq!(last(refused(8, 2)), "* 6 Pods with other issues");
}
