//! Tables of what makes a control plane Machine outdated.

use serde_json::json;

use super::*;
use crate::status::control_plane::fixtures;
use capstan_base::time::{parse_rfc3339, to_k8s};

fn at(text: &str) -> Timestamp {
    parse_rfc3339(text).unwrap()
}

/// Messages for a Machine and a control plane after `change`.
fn check(change: impl FnOnce(&mut KubeadmControlPlane, &mut OwnedMachine), expected: &[&str]) {
    let mut owner = fixtures::control_plane(3);
    let mut machine = fixtures::machine("m1");
    change(&mut owner, &mut machine);
    let found: Vec<String> =
        control_plane_machine(&owner, &machine, fixtures::now()).iter().map(ToString::to_string).collect();
    assert_eq!(found, expected);
}

#[test]
fn every_reason_for_a_rollout() {
    check(|_, _| {}, &[]);
    check(|o, _| o.spec.version = "v1.35.0".into(), &["Version v1.34.1, v1.35.0 required"]);
    check(
        |o, _| o.spec.machine_template.spec.infrastructure_ref.name = "new".into(),
        &["DevMachine is not up-to-date"],
    );
    check(
        |o, _| {
            o.spec.rollout.get_or_insert_default().after =
                Some(to_k8s(fixtures::now() - TimeDelta::minutes(1)));
        },
        &["KubeadmControlPlane spec.rolloutAfter expired"],
    );
    check(
        |o, m| {
            let rollout = o.spec.rollout.get_or_insert_default();
            rollout.before.get_or_insert_default().certificates_expiry_days = Some(7);
            let status = m.machine.status.get_or_insert_default();
            status.certificates_expiry_date = Some(to_k8s(fixtures::now() + TimeDelta::days(6)));
        },
        &["Certificates will expire soon"],
    );
    check(
        |o, _| {
            let config = o.spec.kubeadm_config_spec.get_or_insert_default();
            config.verbosity = Some(5);
        },
        &["KubeadmConfig is not up-to-date"],
    );
}

#[test]
fn what_is_missing_or_only_metadata_matches() {
    check(
        |o, m| {
            m.infrastructure = None;
            m.bootstrap = None;
            o.spec.machine_template.spec.infrastructure_ref.name = "new".into();
            o.spec.kubeadm_config_spec.get_or_insert_default().verbosity = Some(5);
        },
        &[],
    );
    check(
        |o, _| {
            let metadata = o.spec.machine_template.metadata.get_or_insert_default();
            metadata.labels.insert("team".into(), "a".into());
            metadata.annotations.insert("cluster.x-k8s.io/restartedAt".into(), "now".into());
        },
        &[],
    );
    check(|_, m| m.infrastructure = Some(json!({ "metadata": {} })), &[]);
}

#[test]
fn rollout_after_spares_younger_machines_and_waits_for_its_moment() {
    let future = fixtures::now() + TimeDelta::hours(1);
    check(|o, _| o.spec.rollout.get_or_insert_default().after = Some(to_k8s(future)), &[]);
    let mut owner = fixtures::control_plane(3);
    let machine = fixtures::machine("m1");
    owner.spec.rollout.get_or_insert_default().after = Some(to_k8s(future));
    assert_eq!(next_due(&owner, &machine, fixtures::now()), Some(future));
    owner.spec.rollout.get_or_insert_default().after = Some(to_k8s(machine.created_at()));
    assert_eq!(next_due(&owner, &machine, fixtures::now()), None);
    assert!(control_plane_machine(&owner, &machine, fixtures::now()).is_empty());
    assert!(!is_due(None, at("2026-01-01T00:00:00Z"), fixtures::now()));
}

#[test]
fn differences_have_fields() {
    let mut owner = fixtures::control_plane(3);
    owner.spec.machine_template.spec.infrastructure_ref.name = "new".into();
    let machine = fixtures::machine("m1");
    let found = control_plane_machine(&owner, &machine, fixtures::now());
    assert_eq!(
        found[0].fields()[0].to_string(),
        r#"metadata.annotations[cluster.x-k8s.io/cloned-from-name]: "prod-control-plane" → "new""#
    );
}

#[test]
fn the_condition_of_a_machine() {
    let progress =
        Progress { conditions: &[], updating_in_place: false, version: "v1", kubelet_version: None };
    let check = |differences: &[Difference], progress: Progress<'_>, expected: (&str, &str, &str)| {
        let got = up_to_date_condition(differences, progress);
        assert_eq!((got.status.as_str(), got.reason.as_str(), got.message.as_str()), expected);
    };
    check(&[], progress, ("True", "UpToDate", ""));
    check(
        &[Difference::CertificatesExpire, Difference::RolloutAfter],
        progress,
        (
            "False",
            "NotUpToDate",
            "* Certificates will expire soon\n* KubeadmControlPlane spec.rolloutAfter expired",
        ),
    );
    check(
        &[],
        Progress { updating_in_place: true, ..progress },
        ("False", "Updating", "* In-place update in progress"),
    );
    check(
        &[],
        Progress { kubelet_version: Some("v0"), ..progress },
        ("False", "Updating", "* Node.status.nodeInfo.kubeletVersion v0, v1 required"),
    );
}
