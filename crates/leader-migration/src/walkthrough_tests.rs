//! The walkthrough from the first stage to the last, what it refuses, and a way back.

use super::manager_kind::ManagerKind;
use super::process::Process;
use super::rights::{Grantee, questions};
use super::stages::{MigrationStage, Situation, StageState, Walkthrough};
use super::tests::process;
use super::validate::{ClusterFacts, LeaseFact, RightFact};
use capstan_base::time::{Timestamp, parse_rfc3339};

use ManagerKind::{CloudControllerManager as Ccm, KubeControllerManager as Kcm};

const FILE: &str = "apiVersion: controllermanager.config.k8s.io/v1
kind: LeaderMigrationConfiguration
leaderName: move
controllerLeaders:
  - {name: route, component: '*'}
  - {name: service, component: '*'}
  - {name: cloud-node-lifecycle, component: '*'}
";

/// A process on a node: `old`, `old+flag`, `new`, `cloud+flag`, `cloud`.
fn on(node: &str, what: &str) -> Process {
    let flag = "--enable-leader-migration --leader-migration-config=/m.yaml";
    let mut process = match what {
        "old" => process(Kcm, 26, "--cloud-provider=aws", ""),
        "old+flag" => process(Kcm, 26, &format!("--cloud-provider=aws {flag}"), FILE),
        "new" => process(Kcm, 27, "--cloud-provider=external", ""),
        "lost+flag" => process(Kcm, 26, flag, FILE),
        "lost" => process(Kcm, 26, "", ""),
        "new+flag" => process(Kcm, 27, &format!("--cloud-provider=external {flag}"), FILE),
        "cloud" => process(Ccm, 27, "", ""),
        "cloud+flag" => process(Ccm, 27, flag, FILE),
        other => panic!("{other}"),
    };
    process.name = format!("{}-{node}", process.manager.short());
    process.node = Some(node.to_owned());
    process
}

fn now() -> Timestamp {
    parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment")
}

pub(super) struct Seen {
    pub(super) processes: &'static [(&'static str, &'static str)],
    /// Lease and who renews it.
    pub(super) holders: &'static [(&'static str, &'static str)],
    pub(super) granted: bool,
    pub(super) held_for_s: Option<i64>,
}

pub(super) fn situation(seen: &Seen) -> Situation {
    let lease = |(name, holder): &(&str, &str)| LeaseFact {
        namespace: "kube-system".to_owned(),
        name: (*name).to_owned(),
        holder: (*holder).to_owned(),
        is_renewed: !holder.is_empty(),
        ..LeaseFact::default()
    };
    let asked = questions(&[Grantee::kube_controller_manager()], "kube-system", "move").into_iter();
    Situation {
        processes: seen.processes.iter().map(|(node, what)| on(node, what)).collect(),
        facts: ClusterFacts {
            leases: seen.holders.iter().map(lease).collect(),
            rights: asked.map(|question| RightFact { question, allowed: Some(seen.granted) }).collect(),
        },
        lock: ("kube-system".to_owned(), "move".to_owned()),
        held_for_s: seen.held_for_s,
        now: now(),
        declared_provider: None,
    }
}

/// The first stage that is not done, with its state.
fn current(seen: &Seen) -> String {
    match situation(seen).judge() {
        Walkthrough::NothingToMigrate { oldest } => format!("nothing to migrate from {oldest}"),
        Walkthrough::Stages(reports) => {
            let first = reports.iter().find(|report| report.state != StageState::Done);
            first.map_or("all done".to_owned(), |report| {
                format!("{:?} {}: {}", report.stage, report.state.word(), report.state.reason())
            })
        }
    }
}

pub(super) const KCM_LEADS: (&str, &str) = ("kube-controller-manager", "a_1");
const CCM_LEADS: (&str, &str) = ("cloud-controller-manager", "b_2");

#[test]
fn from_the_first_stage_to_the_last() {
    let start = Seen {
        processes: &[("1", "old"), ("2", "old")],
        holders: &[KCM_LEADS],
        granted: false,
        held_for_s: None,
    };
    assert_eq!(current(&start), "Grant to do: a Role and its binding are missing");
    let granted = Seen { granted: true, ..start };
    assert_eq!(current(&granted), "Enable to do: begin with KCM-1");
    let one = Seen { processes: &[("1", "old+flag"), ("2", "old")], ..granted };
    assert_eq!(current(&one), "Enable in progress: next: KCM-2, one lease duration after the one before");
    let both = Seen { processes: &[("1", "old+flag"), ("2", "old+flag")], ..one };
    assert_eq!(current(&both), "Enable in progress: nobody renews the migration Lease yet");
    let held = Seen { holders: &[KCM_LEADS, ("move", "a_1")], ..both };
    assert_eq!(
        current(&held),
        "Introduce to do: start cloud-controller-manager with the flag, then take the node of KCM-1 to the new release"
    );
    let mixed = Seen { processes: &[("1", "old+flag"), ("2", "new"), ("2", "cloud+flag")], ..held };
    assert_eq!(current(&mixed), "Handover to do: take the node of KCM-1 to the new release");
    let moved = &[("1", "new"), ("1", "cloud+flag"), ("2", "new"), ("2", "cloud+flag")];
    let waiting = Seen { processes: moved, ..mixed };
    assert_eq!(current(&waiting), "Handover in progress: no cloud-controller-manager holds both Leases yet");
    let handed = Seen { holders: &[KCM_LEADS, CCM_LEADS, ("move", "b_2")], held_for_s: Some(60), ..waiting };
    assert_eq!(current(&handed), "Settle in progress: 540 s to wait");
    let settled = Seen { held_for_s: Some(700), ..handed };
    assert_eq!(current(&settled), "Disable to do: 2 have the flag; next: CCM-1");
    let half =
        Seen { processes: &[("1", "new"), ("1", "cloud"), ("2", "new"), ("2", "cloud+flag")], ..settled };
    assert_eq!(current(&half), "Disable to do: 1 have the flag; next: CCM-2");
    let off = Seen {
        processes: &[("1", "new"), ("1", "cloud"), ("2", "new"), ("2", "cloud")],
        holders: &[KCM_LEADS, CCM_LEADS, ("move", "")],
        ..half
    };
    assert_eq!(
        current(&off),
        "Clean to do: delete the Lease, the Role with its binding, and the files on the hosts"
    );
    let clean = Seen { holders: &[KCM_LEADS, CCM_LEADS], ..off };
    assert_eq!(current(&clean), "nothing to migrate from 1.27");
}

#[test]
fn unsafe_orders_are_refused_with_the_reason() {
    let held: &[(&str, &str)] = &[KCM_LEADS, ("move", "a_1")];
    for (processes, refusal) in [
        (
            &[("1", "old"), ("2", "cloud+flag")][..],
            "Preflight blocked: F5 KCM-1: no --enable-leader-migration beside a cloud-controller-manager",
        ),
        (
            &[("1", "old+flag"), ("2", "cloud")],
            "Preflight blocked: F5 CCM-2: no --enable-leader-migration beside a kube-controller-manager",
        ),
        (
            &[("1", "old+flag"), ("2", "new+flag"), ("2", "cloud+flag")],
            "Preflight blocked: F10 KCM-2: of the listed controllers it runs none",
        ),
    ] {
        let seen = Seen { processes, holders: held, granted: true, held_for_s: None };
        let said = current(&seen);
        assert!(said.starts_with(refusal), "{refusal}\n{said}");
    }
    let gone = Seen { processes: &[("1", "new")], holders: held, granted: true, held_for_s: None };
    assert!(
        current(&gone).starts_with("Handover blocked: no cloud-controller-manager runs"),
        "{}",
        current(&gone)
    );
}

/// Back from the handover: an old process with the flag comes first, then the cloud's processes go.
#[test]
fn a_way_back_is_seen_as_the_stages_before() {
    let leases: &[(&str, &str)] = &[KCM_LEADS, CCM_LEADS, ("move", "b_2")];
    let began = Seen {
        processes: &[("1", "old+flag"), ("1", "cloud+flag"), ("2", "new"), ("2", "cloud+flag")],
        holders: leases,
        granted: true,
        held_for_s: Some(900),
    };
    assert_eq!(current(&began), "Handover to do: take the node of KCM-1 to the new release");
    let back = Seen {
        processes: &[("1", "old+flag"), ("2", "old+flag")],
        holders: &[KCM_LEADS, ("move", "a_1")],
        ..began
    };
    assert_eq!(
        current(&back),
        "Introduce to do: start cloud-controller-manager with the flag, then take the node of KCM-1 to the new release"
    );
    assert!(MigrationStage::ALL.iter().all(|stage| !stage.rollback().is_empty()));
}

/// The holder keeps the controllers until the others are through: it is touched last.
#[test]
fn the_holder_of_the_main_lease_comes_last() {
    let holders: &[(&str, &str)] = &[("kube-controller-manager", "1_00000000"), ("move", "1_00000000")];
    let next = |processes: &'static [(&'static str, &'static str)]| {
        let seen = Seen { processes, holders, granted: true, held_for_s: None };
        let Walkthrough::Stages(reports) = situation(&seen).judge() else { panic!("stages") };
        let open =
            reports.into_iter().find(|report| report.state != StageState::Done).expect("an open stage");
        (open.next.unwrap_or_default(), open.state.reason().to_owned())
    };
    let old: &[(&str, &str)] = &[("1", "old"), ("2", "old"), ("3", "old")];
    assert_eq!(next(old), ("KCM-2".to_owned(), "begin with KCM-2".to_owned()));
    let two: &[(&str, &str)] = &[("1", "old"), ("2", "old+flag"), ("3", "old")];
    assert_eq!(next(two).0, "KCM-3");
    let last: &[(&str, &str)] = &[("1", "old"), ("2", "old+flag"), ("3", "old+flag")];
    assert_eq!(next(last).0, "KCM-1");
    let moving: &[(&str, &str)] = &[("1", "old+flag"), ("2", "old+flag"), ("3", "new"), ("3", "cloud+flag")];
    assert_eq!(
        next(moving),
        (
            "KCM-2".to_owned(),
            "next: the node of KCM-2; 2 nodes have the old release, the holder's comes last".to_owned()
        )
    );
}

/// After an edit that lost the provider neither manager runs the controllers.
#[test]
fn a_lost_cloud_provider_blocks_and_is_named() {
    let held: &[(&str, &str)] = &[KCM_LEADS, ("move", "a_1")];
    let missing = "Preflight blocked: F10 KCM-1, KCM-2: of the listed controllers it runs none: --cloud-provider is missing";
    for (processes, holders, refusal) in [
        (&[("1", "lost+flag"), ("2", "lost+flag")][..], held, missing),
        // Before anybody holds the Lease.
        (&[("1", "lost+flag"), ("2", "lost+flag")], &[KCM_LEADS], missing),
        (
            &[("1", "lost"), ("2", "old+flag")],
            held,
            "Preflight blocked: F10 KCM-1: --cloud-provider is missing",
        ),
        (
            &[("1", "lost"), ("2", "lost")],
            held,
            "Handover blocked: no cloud-controller-manager runs, and --cloud-provider is missing in KCM-1, KCM-2",
        ),
    ] {
        let said = current(&Seen { processes, holders, granted: true, held_for_s: None });
        assert!(said.starts_with(refusal), "{refusal}\n{said}");
    }
    let seen = Seen { processes: &[("1", "lost")], holders: &[KCM_LEADS], granted: true, held_for_s: None };
    assert_eq!(current(&seen), "nothing to migrate from 1.26", "a cluster that never had one");
    let declared =
        Situation { declared_provider: Some(("gce".to_owned(), "kubeadm-config")), ..situation(&seen) };
    let Walkthrough::Stages(reports) = declared.judge() else { panic!("stages") };
    let reason = reports[0].state.reason();
    assert!(
        reason.starts_with("F10 KCM-1: --cloud-provider is missing: kubeadm-config says gce"),
        "{reason}"
    );
}

/// The rest is counted from the last restart of those that have been through, and never longer than a lease duration.
#[test]
fn one_lease_duration_lies_between_two_nodes() {
    let half: &[(&str, &str)] = &[("1", "old+flag"), ("2", "old")];
    let enabling = Seen { processes: half, holders: &[KCM_LEADS], granted: true, held_for_s: None };
    let wait = |started: Option<&str>, args: &str| {
        let mut situation = situation(&enabling);
        let first = &mut situation.processes[0];
        first.started_at = started.and_then(parse_rfc3339);
        if !args.is_empty() {
            first.flags.times.lease_duration = capstan_base::time::parse_duration(args).expect("a duration");
        }
        let Walkthrough::Stages(reports) = situation.judge() else { panic!("stages") };
        let report = &reports[MigrationStage::Enable as usize];
        assert!(matches!(report.state, StageState::InProgress(_)), "{report:?}");
        report.wait.as_ref().map(|wait| (wait.after.clone(), wait.left_s))
    };
    let after = |left_s| Some(("KCM-1".to_owned(), left_s));
    assert_eq!(wait(None, ""), None);
    assert_eq!(wait(Some("2026-11-20T09:59:57Z"), ""), after(12));
    assert_eq!(wait(Some("2026-11-20T09:59:57Z"), "60s"), after(57));
    assert_eq!(wait(Some("2026-11-20T09:59:45Z"), ""), None);
    // The node's clock is ahead of ours.
    assert_eq!(wait(Some("2026-11-20T10:05:00Z"), ""), after(15));
}
