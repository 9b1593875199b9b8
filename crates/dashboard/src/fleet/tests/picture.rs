//! What a person sees of small fleets, as golden text.

use super::*;

#[track_caller]
fn expect(objects: &[Value], options: &TreeOptions, expected: &str) {
    let seen = picture(&fleet_of(objects), options);
    assert_eq!(seen.trim_end(), expected.trim(), "\n{seen}");
}

#[test]
fn a_small_cluster() {
    expect(
        &small_cluster("a"),
        &TreeOptions::default(),
        "
ok Cluster a Provisioned
  ok KubeadmControlPlane a-cp v1.36.2 3/3/3/3/3
    ok Machine a-cp-0 v1.36.2 Running
    ok Machine a-cp-1 v1.36.2 Running
    ok Machine a-cp-2 v1.36.2 Running
  ok Workers
    ok MachineDeployment a-md v1.36.2 2/2/2/2/2
      ok MachineSet a-md-1 2/2/2/2/2
        ok Machine a-md-1-0 v1.36.2 Running
        ok Machine a-md-1-1 v1.36.2 Running",
    );
}

#[test]
fn a_deployment_without_machines_is_shown() {
    let objects = [cluster("a").0, control_plane("a", 0).0, deployment("a", "a-md", 0).0];
    expect(
        &objects,
        &TreeOptions::default(),
        "
ok Cluster a Provisioned
  ok KubeadmControlPlane a-cp v1.36.2 0/0/0/0/0
  ok Workers
    ok MachineDeployment a-md v1.36.2 0/0/0/0/0",
    );
}

#[test]
fn what_has_no_owner_in_sight_is_shown_all_the_same() {
    let mut objects = small_cluster("a");
    objects.retain(|o| o["kind"] != "KubeadmControlPlane" && o["kind"] != "MachineSet");
    expect(
        &objects,
        &TreeOptions::default(),
        "
unknown Cluster a Provisioned
  unknown KubeadmControlPlane a-cp
    ok Machine a-cp-0 v1.36.2 Running
    ok Machine a-cp-1 v1.36.2 Running
    ok Machine a-cp-2 v1.36.2 Running
  ok Workers
    ok MachineDeployment a-md v1.36.2 2/2/2/2/2
    ok Other
      ok Machine a-md-1-0 v1.36.2 Running
      ok Machine a-md-1-1 v1.36.2 Running
! KubeadmControlPlane a-cp was not read",
    );
}

/// Its control plane Machines stood among other workers, because the Cluster owns them, and it had no age.
#[test]
fn control_plane_machines_that_stand_alone_are_its_control_plane() {
    let mut objects = small_cluster("a");
    objects.retain(|o| o["kind"] != "KubeadmControlPlane");
    objects[0] = cluster("a")
        .set("/spec/controlPlaneRef", Value::Null)
        .condition("ControlPlaneAvailable", "Unknown", "InternalError", "")
        .condition("Available", "Unknown", "AvailableUnknown", "")
        .0;
    for (at, object) in objects.iter_mut().filter(|o| o["kind"] == "Machine").enumerate() {
        if object["metadata"]["labels"].get("cluster.x-k8s.io/control-plane").is_some() {
            object["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "a", "uid": "Cluster/a",
            }]);
            let last = &mut object["status"]["conditions"][1];
            assert_eq!(last["type"], "Ready");
            last["lastTransitionTime"] = json!(format!("2026-11-20T0{at}:00:00Z"));
        }
    }
    expect(
        &objects,
        &TreeOptions::default(),
        "
ok Cluster a Provisioned
  ok Control plane
    ok Machine a-cp-0 v1.36.2 Running
    ok Machine a-cp-1 v1.36.2 Running
    ok Machine a-cp-2 v1.36.2 Running
  ok Workers
    ok MachineDeployment a-md v1.36.2 2/2/2/2/2
      ok MachineSet a-md-1 2/2/2/2/2
        ok Machine a-md-1-0 v1.36.2 Running
        ok Machine a-md-1-1 v1.36.2 Running",
    );
    let fleet = fleet_of(&objects);
    let since = fleet.since(fleet.clusters()[0]).map(capstan_base::time::rfc3339);
    assert_eq!(since.as_deref(), Some("2026-11-20T02:00:00Z"), "as its youngest Machine");
}

#[test]
fn references_on_demand() {
    let objects = [cluster("a").0, machine("a", ("MachineSet", "gone"), "a-0").0];
    expect(
        &objects,
        &TreeOptions { references: true, ..TreeOptions::default() },
        "
unknown Cluster a Provisioned
  ok DevCluster a
  unknown KubeadmControlPlane a-cp
  ok Workers
    ok Other
      ok Machine a-0 v1.36.2 Running
        ok DevMachine a-0
        ok KubeadmConfig a-0-config
! KubeadmControlPlane a-cp was not read",
    );
}

#[test]
fn a_top_line_never_looks_better_than_what_is_under_it() {
    let mut objects = small_cluster("a");
    objects.push(
        machine("a", ("MachineSet", "a-md-1"), "a-md-1-9")
            .condition("NodeHealthy", "False", "NodeNotHealthy", "* Node.Ready: PLEG is not healthy")
            .0,
    );
    let fleet = fleet_of(&objects);
    let cluster = fleet.clusters()[0];
    let tree = fleet.tree(cluster, &TreeOptions::default());
    for (at, node) in tree.nodes.iter().enumerate() {
        assert!(tree.nodes[node.parent as usize].verdict >= node.verdict);
        if let Item::Row(id) = node.item {
            assert_eq!(node.verdict, fleet.verdict(id), "node {at}");
        }
    }
    assert_eq!(fleet.verdict(cluster), Verdict::Degraded);
    let names: Vec<&str> =
        fleet.cause(cluster).iter().map(|h| fleet.row(h.id).expect("there").name.as_ref()).collect();
    assert_eq!(names, ["a", "a-md", "a-md-1", "a-md-1-9"]);
    assert_eq!(fleet.what_is_wrong(cluster), "PLEG is not healthy (md-1-9)");
    assert_eq!(fleet.cluster_counts(None), [0, 0, 0, 1, 0]);
    assert_eq!(fleet.cluster_counts(Some("elsewhere")), [0; 5]);
}

#[test]
fn folded_trees_skip_what_is_below() {
    let fleet = fleet_of(&small_cluster("a"));
    let tree = fleet.tree(fleet.clusters()[0], &TreeOptions::default());
    assert_eq!(tree.visible(|_, _| true).len(), tree.nodes.len());
    assert_eq!(tree.visible(|_, node| node.depth == 0), [0, 1, 5]);
    assert_eq!(tree.children(0).collect::<Vec<_>>(), [1, 5]);
}

#[test]
fn details_say_what_a_condition_means_and_where_to_go() {
    let fleet = fleet_of(&small_cluster("a"));
    let id = fleet.find(SourceId(0), Uid::parse("Machine/a-md-1-0")).expect("there");
    let details = fleet.details(id).expect("there");
    let links: Vec<(Relation, &str)> = details.links.iter().map(|l| (l.relation, l.name)).collect();
    assert_eq!(
        links,
        [
            (Relation::Cluster, "a"),
            (Relation::Owner, "a-md-1"),
            (Relation::Infrastructure, "a-md-1-0"),
            (Relation::Bootstrap, "a-md-1-0-config"),
            (Relation::Node, "a-md-1-0-node"),
        ]
    );
    for (type_, status, tone) in [
        ("Ready", Status::True, Tone::Good),
        ("Ready", Status::False, Tone::Bad),
        ("Ready", Status::Unknown, Tone::Unknown),
        ("RollingOut", Status::True, Tone::Active),
        ("Paused", Status::False, Tone::Good),
    ] {
        assert_eq!(Tone::of(type_, status), tone, "{type_}");
    }
    assert_eq!(details.conditions.len(), 6);
}

#[test]
fn filters_and_orders() {
    let mut objects = small_cluster("alpha");
    objects.extend(small_cluster("beta"));
    objects[0]["status"]["conditions"][3]["status"] = json!("False");
    let fleet = fleet_of(&objects);
    let names = |of, query: &Query| -> Vec<String> {
        fleet.select(of, query).iter().map(|id| fleet.row(*id).expect("there").name.to_string()).collect()
    };
    let worst_first = Sort { by: By::Verdict, reverse: false };
    let query = |text: &str| Query { text: text.to_owned(), ..Query::default() };
    assert_eq!(names(Listed::Clusters, &Query { sort: worst_first, ..Query::default() }), ["alpha", "beta"]);
    assert_eq!(names(Listed::Clusters, &query("!alpha")), ["beta"]);
    assert_eq!(names(Listed::Machines, &query("beta cp-1")), ["beta-cp-1"]);
    assert_eq!(names(Listed::Machines, &query("beta ok md")), ["beta-md-1-0", "beta-md-1-1"]);
    assert_eq!(
        names(Listed::Clusters, &Query { at_least: Floor(Verdict::Degraded), ..Query::default() }),
        ["alpha"]
    );
    for (text, expected) in [
        ("version:1.36.2 node:CP-1", &["alpha-cp-1", "beta-cp-1"][..]),
        ("cluster:alpha !name:cp", &["alpha-md-1-0", "alpha-md-1-1"]),
        ("l:cluster.x-k8s.io/control-plane ~^default/beta-cp-[12]\\b", &["beta-cp-1", "beta-cp-2"]),
        ("l:!cluster.x-k8s.io/control-plane,cluster.x-k8s.io/cluster-name!=beta 0", &["alpha-md-1-0"]),
        ("verdict:degraded", &[]),
        ("beta !~cp", &["beta-md-1-0", "beta-md-1-1"]),
        ("Ready=True cp-0", &["alpha-cp-0", "beta-cp-0"]),
        ("!Ready=True", &[]),
        ("Ready=F", &[]),
        ("~(", &[]),
        ("^beta-md", &["beta-md-1-0", "beta-md-1-1"]),
        ("^default/beta cp-0$", &["beta-cp-0"]),
        ("^default !md", &["alpha-cp-0", "alpha-cp-1", "alpha-cp-2", "beta-cp-0", "beta-cp-1", "beta-cp-2"]),
        ("^run", &[]),
        ("~^(alp|gam).*-0$ cp", &["alpha-cp-0"]),
        ("cluster:^alph$", &[]),
        ("cluster:^alpha$ name:0$ !'md", &["alpha-cp-0"]),
        ("node-name:cp-1 'BETA", &["beta-cp-1"]),
        ("ready:true ~^beta-cp", &["beta-cp-0", "beta-cp-1", "beta-cp-2"]),
        ("ready:false", &[]),
    ] {
        assert_eq!(names(Listed::Machines, &query(text)), expected, "{text}");
    }
    assert_eq!(names(Listed::Clusters, &query("Available=True verdict:degraded")), ["alpha"]);
    assert_eq!(names(Listed::MachineSets, &query("")).len(), 2);
    let newest = Sort { by: By::Cluster, reverse: true };
    assert_eq!(
        names(Listed::ControlPlanes, &Query { sort: newest, ..Query::default() }),
        ["beta-cp", "alpha-cp"]
    );
    let trouble = query("beta ~(").trouble().expect("it cannot be understood");
    assert_eq!((trouble.at, trouble.length), (5, 2));
    assert_eq!(trouble.to_string(), "`~(` is not a regular expression: unclosed group");
    assert!(names(Listed::Machines, &query(&"x".repeat(5000))).is_empty());
}

#[test]
fn a_filter_by_age_counts_to_the_time_of_the_fleet() {
    let mut objects = small_cluster("alpha");
    objects[4]["metadata"]["creationTimestamp"] = json!("2026-11-20T09:30:00Z");
    objects[5]["status"]["conditions"][1]["lastTransitionTime"] = json!("2026-11-20T09:50:00Z");
    let mut fleet = fleet_of(&objects);
    fleet.advance(capstan_base::time::parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment"));
    for (text, expected) in [
        ("age<1h", &["alpha-cp-0"][..]),
        ("age<20m", &[]),
        ("cp !age<1h", &["alpha-cp-1", "alpha-cp-2"]),
        ("Ready=True<15m", &["alpha-cp-1"]),
        ("cp Ready=T>15m", &["alpha-cp-0", "alpha-cp-2"]),
        ("cp since>1000d", &[]),
    ] {
        let query = Query { text: text.to_owned(), ..Query::default() };
        let found = fleet.select(Listed::Machines, &query);
        let names: Vec<&str> =
            found.iter().filter_map(|id| fleet.row(*id)).map(|row| row.name.as_ref()).collect();
        assert_eq!(names, expected, "{text}");
    }
}
