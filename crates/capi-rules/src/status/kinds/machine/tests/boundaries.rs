//! Each side of every moment at which time alone changes a Machine's status.

use super::*;
use capi_types::machine::MachineDeletion;

fn seconds(count: i64) -> TimeDelta {
    TimeDelta::seconds(count)
}

/// A Machine that was judged once while all was well.
fn known() -> Observed {
    let mut o = running();
    o.machine.status = Some(status(&o, now()));
    o
}

#[test]
fn remote_conditions_outlive_the_connection_by_five_minutes() {
    let mut o = known();
    o.node = NodeReading::NotConnected;
    let initialized = parse_rfc3339("2026-01-01T11:00:00Z").expect("a moment");
    for (lost, expected) in [(300, "NodeReady"), (301, "ConnectionDown")] {
        let at = now() + seconds(lost);
        o.probe.last_success = Some(now());
        assert_eq!(said(&status(&o, at), "NodeReady").1, expected, "{lost} s after the last success");
        // The control plane's initialization counts as a success.
        o.probe.last_success = None;
        let at = initialized + seconds(lost);
        assert_eq!(said(&status(&o, at), "NodeHealthy").1, expected.replace("NodeReady", "NodeHealthy"));
    }
    assert_eq!(
        said(&status(&o, initialized + seconds(301)), "NodeReady"),
        ("Unknown", "ConnectionDown", ""),
        "there never was a successful probe"
    );
}

#[test]
fn a_connection_that_is_not_established_keeps_what_is_known() {
    let mut o = known();
    o.probe = Probe { not_established_yet: true, ..Probe::default() };
    o.node = NodeReading::NotConnected;
    assert_eq!(said(&status(&o, now() + TimeDelta::hours(9)), "NodeReady"), ("True", "NodeReady", ""));
    o.machine.status = None;
    let text = "Remote connection not established yet";
    for type_ in ["NodeReady", "NodeHealthy"] {
        assert_eq!(said(&status(&o, now()), type_), ("Unknown", "ConnectionDown", text));
    }
    // One of the two is enough to keep neither.
    let mut half = known();
    half.probe = o.probe;
    half.machine.conditions_mut().retain(|c| c.type_ != "NodeHealthy");
    assert_eq!(said(&status(&half, now()), "NodeReady").1, "ConnectionDown");
}

#[test]
fn a_new_machine_whose_cluster_is_out_of_reach_says_since_when() {
    let mut o = running();
    o.node = NodeReading::NotConnected;
    o.probe.last_success = Some(now() - seconds(30));
    let text = "Last successful probe at 2026-01-01T11:59:30Z";
    assert_eq!(said(&status(&o, now()), "NodeReady"), ("Unknown", "ConnectionDown", text));
}

#[test]
fn a_machine_is_available_from_the_second_on() {
    let mut o = running();
    for (wait, later, expected) in [
        (None, 0, "Available"),
        (Some(0), 0, "Available"),
        (Some(30), 29, "WaitingForMinReadySeconds"),
        (Some(30), 30, "Available"),
    ] {
        o.machine.spec.min_ready_seconds = wait;
        o.machine.status = None;
        o.machine.status = Some(status(&o, now()));
        assert_eq!(said(&status(&o, now() + seconds(later)), "Available").1, expected, "{wait:?} {later}");
    }
}

/// Deleting since `now()`, draining since then, held by a budget.
fn draining() -> Observed {
    let mut o = deleting();
    let pod: Pod = object(json!({"metadata": {"namespace": "d", "name": "p"}}));
    o.tenants = tenants(vec![pod]);
    let words = "Cannot evict pod as it would violate the pod's disruption budget.";
    o.evictions = Evictions::from([(
        capi_types::key::ObjectKey::new("d", "p"),
        crate::status::drain::Evicted::Refused(words.to_owned()),
    )]);
    o
}

#[test]
fn a_deletion_is_long_after_fifteen_minutes_and_a_drain_after_five() {
    let mut o = draining();
    o.machine.status = Some(status(&o, now()));
    let ready = |o: &mut Observed, later: i64| {
        let at = now() + seconds(later);
        o.probe.last_success = Some(at);
        said(&status(o, at), "Ready").2.to_owned()
    };
    let head = "* Deleting: Machine deletion in progress";
    assert_eq!(ready(&mut o, 900), format!("{head}, stage: DrainingNode"));
    let cause = ", delay likely due to PodDisruptionBudgets";
    assert_eq!(ready(&mut o, 901), format!("{head} since more than 15m, stage: DrainingNode{cause}"));
    let progress = o.machine.status.as_mut().and_then(|s| s.deletion.as_mut()).expect("it drains");
    progress.node_drain_start_time = Some(to_k8s(now() + seconds(601)));
    assert_eq!(ready(&mut o, 901), format!("{head} since more than 15m, stage: DrainingNode"));
    assert_eq!(ready(&mut o, 902), format!("{head} since more than 15m, stage: DrainingNode{cause}"));
}

#[test]
fn timeouts_of_a_deletion_count_from_their_start() {
    let mut o = draining();
    o.machine.spec.deletion = Some(object(json!({"nodeDrainTimeoutSeconds": 60})));
    o.machine.status = Some(status(&o, now()));
    assert!(deletion::drain_applies(&o, now() + seconds(59)));
    assert!(!deletion::drain_applies(&o, now() + seconds(60)), "the drain is over");
    o.machine.spec.deletion = Some(object(json!({"nodeDrainTimeoutSeconds": 0})));
    assert!(deletion::drain_applies(&o, now() + seconds(86_400)), "0 means no limit");
}

#[test]
fn the_wait_for_volumes_ends_on_time() {
    let mut o = deleting();
    let mut held = node(&[("Ready", "True", "")]);
    held.status.get_or_insert_default().volumes_attached =
        Some(object(json!([{"name": "v", "devicePath": ""}])));
    o.node = NodeReading::Found(Arc::new(held));
    (o.tenants, o.storage) = (tenants(Vec::new()), no_storage());
    let reason = |o: &Observed, later: i64| said(&status(o, now() + seconds(later)), "Deleting").1.to_owned();
    for (limit, later, expected) in [
        (Some(60), 59, "WaitingForVolumeDetach"),
        (Some(60), 60, "WaitingForInfrastructureDeletion"),
        (Some(0), 86_400, "WaitingForVolumeDetach"),
        (None, 86_400, "WaitingForVolumeDetach"),
    ] {
        o.machine.status = None;
        o.machine.spec.deletion =
            Some(MachineDeletion { node_volume_detach_timeout_seconds: limit, ..MachineDeletion::default() });
        assert_eq!(reason(&o, 0), "WaitingForVolumeDetach", "it counts from its own start");
        o.machine.status = Some(status(&o, now()));
        assert_eq!(reason(&o, later), expected, "{limit:?} {later}");
    }
}

#[test]
fn a_node_that_cannot_be_deleted_is_left_behind_on_time() {
    let mut o = deleting();
    o.infrastructure = External::NotFound { kind: "DevMachine".to_owned() };
    o.bootstrap = External::NotFound { kind: "KubeadmConfig".to_owned() };
    o.failed = Some(Failed::DeleteNode);
    for (limit, later, expected) in [
        (Some(10), 9, "DeletingNode"),
        (Some(10), 10, "DeletionCompleted"),
        (Some(0), 86_400, "DeletingNode"),
        (None, 86_400, "DeletingNode"),
    ] {
        o.machine.spec.deletion =
            Some(MachineDeletion { node_deletion_timeout_seconds: limit, ..MachineDeletion::default() });
        assert_eq!(said(&status(&o, now() + seconds(later)), "Deleting").1, expected, "{limit:?} {later}");
    }
}

#[test]
fn moments_in_the_future_are_no_trouble() {
    let mut o = known();
    let later = to_k8s(now() + TimeDelta::days(400));
    for c in o.machine.conditions_mut() {
        c.last_transition_time = later.clone();
    }
    o.machine.metadata.creation_timestamp = Some(later.clone());
    assert_eq!(
        said(&status(&o, now()), "Available").1,
        "WaitingForMinReadySeconds",
        "ready for less than nothing"
    );
    o.machine.metadata.deletion_timestamp = Some(later);
    assert!(
        said(&status(&o, now()), "Ready").2.starts_with("* Deleting: Machine deletion in progress, stage:")
    );
}

#[test]
fn up_to_date_is_owned_of_a_deployments_workers_only() {
    let mut o = running();
    o.deployment = None;
    assert!(!owned(&o).contains(&"UpToDate"));
    o.deployment = Some((Arc::default(), Arc::default()));
    assert!(owned(&o).contains(&"UpToDate"));
}
