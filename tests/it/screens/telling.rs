//! What is told of a cluster besides its screens: reports, the bell, a person's own command, who set which field; and what is
//! offered only where it works.

use capstan_dashboard::fleet::Kind;
use capstan_dashboard::fleet::watch::FieldManager;
use capstan_dashboard::tui::model::Hook;
use capstan_dashboard::tui::turns::Turns;

use super::*;

#[test]
fn a_report_says_how_a_cluster_is_why_and_what_happened() {
    let mut model = sample(PLAIN);
    let effects = keys(&mut model, "\":report edge-7.md\" enter");
    let [Effect::Write { path, text }] = effects.as_slice() else { panic!("{effects:?}") };
    assert!(path.ends_with("edge-7.md"));
    golden::screen("report-edge-7", text);
    let effects = keys(&mut model, "\":tree prod-eu-1\" enter end \":report well.md\" enter");
    let report =
        effects.iter().find_map(|e| if let Effect::Write { text, .. } = e { Some(text) } else { None });
    let report = report.expect("of the cluster of what is selected");
    assert!(report.starts_with("# prod/prod-eu-1: ok\n") && !report.contains("## Why"), "{report}");
}

/// Text of a cluster can neither end a cell of the table nor become markup.
#[test]
fn a_report_is_safe_with_hostile_text() {
    let mut model = model(PLAIN, fixture::hostile());
    let effects = keys(&mut model, "\":report evil.md\" enter");
    let [Effect::Write { text, .. }] = effects.as_slice() else { panic!("{effects:?}") };
    assert!(!text.chars().any(|c| c != '\n' && capstan_base::text::is_hostile(c)), "{text:?}");
}

#[test]
fn a_command_is_told_of_every_cluster_that_turns() {
    let hook = || Some(Hook { command: "page".to_owned(), turns: Turns::default() });
    let turned = |effects: &[Effect]| {
        let turn = |effect: &Effect| match effect {
            Effect::Hook { command, turn } => Some((command.clone(), turn.clone())),
            _ => None,
        };
        effects.iter().filter_map(turn).collect::<Vec<_>>()
    };
    let mut model = sample(PLAIN);
    model.preferences.hook = hook();
    assert!(
        turned(&told(&mut model, Msg::Fleet(fixture::node_lost("prod-eu-1")))).is_empty(),
        "the first look"
    );
    let mut model = sample(PLAIN);
    model.preferences.hook = hook();
    told(&mut model, Msg::Fleet(fixture::sample()));
    let mut effects = told(&mut model, Msg::Fleet(fixture::node_lost("prod-eu-1")));
    model.now += chrono::Duration::minutes(2);
    effects.extend(told(&mut model, Msg::Tick));
    let all = turned(&effects);
    let of_cluster: Vec<_> = all.iter().filter(|(_, turn)| turn.name == "prod-eu-1").collect();
    let [(command, turn)] = of_cluster.as_slice() else { panic!("{all:?}") };
    assert_eq!(command, "page");
    let [what @ .., (why, words)] = turn.environment();
    let expected = [
        ("CAPSTAN_NAMESPACE", "prod"),
        ("CAPSTAN_CLUSTER", "prod-eu-1"),
        ("CAPSTAN_VERDICT_BEFORE", "ok"),
        ("CAPSTAN_VERDICT", "degraded"),
    ];
    assert_eq!(what, expected);
    assert!(why == "CAPSTAN_WHY" && words.contains("kubelet has stopped reporting"), "{words}");
    assert!(turned(&told(&mut model, Msg::Tick)).is_empty(), "once");
}

#[test]
fn details_say_who_set_which_fields_and_who_paused() {
    for (name, eyes) in [("details-set-by-80x24", PLAIN), ("details-set-by-200x50", LARGE)] {
        let mut model = model(eyes, fixture::paused("prod-eu-1"));
        let effects = keys(&mut model, "d");
        let subject = followed(&effects);
        let writer = |manager: &str, hours: i64, fields: &[&str]| FieldManager {
            manager: manager.to_owned(),
            at: Some(now() - chrono::Duration::hours(hours)),
            fields: fields.iter().map(|field| (*field).to_owned()).collect(),
        };
        let writers = vec![
            writer("anna", 3, &["spec.paused"]),
            writer(
                "argocd",
                500,
                &["metadata.labels.team", "spec.clusterNetwork.pods", "spec.controlPlaneRef"],
            ),
        ];
        update(
            &mut model,
            Msg::Done(EffectOutcome::Read {
                subject,
                reading: Reading::Object(ObjectNews::Writers(writers)),
            }),
        );
        keys(&mut model, "end");
        golden::screen(name, &text(&mut model));
    }
}

/// A version that cannot be set from the list is not offered there, and `v` says where it is set.
#[test]
fn a_version_is_offered_where_it_can_be_set() {
    let mut model = sample(Eyes { width: 160, ..PLAIN });
    assert!(!text(&mut model).contains(" v version"), "{}", text(&mut model));
    keys(&mut model, "v");
    assert!(text(&mut model).contains("without a topology the version is set on its control plane"));
    keys(&mut model, "enter \":tree prod-eu-1\" enter down");
    assert!(model.fleet.row(model.selected_row().expect("a row")).expect("there").kind == Kind::ControlPlane);
    assert!(text(&mut model).contains(" v version"), "{}", text(&mut model));
}

/// What goes as it should is explained, and nobody is sent to look at anything.
#[test]
fn what_goes_as_usual_has_nothing_to_check() {
    let mut model = sample(WIDE);
    keys(&mut model, "\":tree lab-3\" enter");
    let screen = text(&mut model);
    assert!(screen.contains("  USUAL ") && !screen.contains("CHECK"), "{screen}");
    keys(&mut model, "d");
    let screen = text(&mut model);
    assert!(screen.contains(" usual  ") && !screen.contains(" check  "), "{screen}");
    keys(&mut model, "esc esc \":tree edge-7\" enter");
    assert!(text(&mut model).contains("  CHECK "), "{}", text(&mut model));
}

/// Numbers and objects of somebody else are known in the tree, in the list of clusters an end of support, and both in the details.
#[test]
fn who_else_sets_objects_and_what_ends_stands_beside_what_is_well() {
    use capstan_dashboard::fleet::watch::Recording;
    use serde_json::json;
    let well = json!([{"type": "Available", "status": "True", "reason": "Available", "message": "",
        "lastTransitionTime": "2026-11-19T10:00:00Z"}]);
    let object = |kind: &str, name: &str, annotations: serde_json::Value, spec: serde_json::Value| {
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind,
            "metadata": {"name": name, "namespace": "prod", "uid": name, "creationTimestamp": "2026-11-01T10:00:00Z",
                "labels": {"cluster.x-k8s.io/cluster-name": "shop"}, "annotations": annotations,
                "ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "shop", "uid": "shop"}]},
            "spec": spec,
            "status": {"phase": "Running", "replicas": 3, "readyReplicas": 3, "availableReplicas": 3, "upToDateReplicas": 3,
                "versions": [{"version": "v1.34.2", "replicas": 3}], "conditions": well}})
    };
    let tracking = || json!({"argocd.argoproj.io/tracking-id": "fleet:cluster.x-k8s.io/Cluster:prod/shop"});
    let mut cluster = object(
        "Cluster",
        "shop",
        tracking(),
        json!({"topology": {"classRef": {"name": "k"}, "version": "v1.36.1"}}),
    );
    cluster["metadata"]["ownerReferences"] = json!([]);
    cluster["status"] = json!({"phase": "Provisioned", "conditions": well,
        "initialization": {"infrastructureProvisioned": true, "controlPlaneInitialized": true},
        "controlPlane": {"desiredReplicas": 3, "replicas": 3, "availableReplicas": 3,
            "versions": [{"version": "v1.34.2", "replicas": 3}],
            "upgradePlan": [{"version": "v1.35.4"}, {"version": "v1.36.1"}]},
        "workers": {"desiredReplicas": 6, "replicas": 6, "availableReplicas": 6, "upgradePlan": [{"version": "v1.36.1"}]}});
    let bounds = json!({"cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size": "2",
        "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "10"});
    let spec = || json!({"clusterName": "shop", "replicas": 3, "template": {"spec": {"version": "v1.34.2"}}});
    let scaled = object("MachineDeployment", "shop-scaled", bounds, spec());
    let elsewhere = json!({"cluster.x-k8s.io/replicas-managed-by": "karpenter"});
    let pool = object("MachineDeployment", "shop-elsewhere", elsewhere, spec());
    let recording = Recording::new([cluster, scaled, pool]);
    let deltas = recording.deltas(capstan_dashboard::fleet::SourceId(0), "demo", now());
    let mut model = model(PLAIN, deltas);
    golden::screen("support-ended-80x24", &text(&mut model));
    keys(&mut model, "enter");
    golden::screen("tree-set-elsewhere-80x24", &text(&mut model));
    keys(&mut model, "d end");
    golden::screen("details-upgrade-plan-80x24", &text(&mut model));
}
