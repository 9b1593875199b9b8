//! The life of a Host against the embedded server and the whole engine: looked at, claimed, a node once, and clean again; and every
//! way in which that is held up. The machines write down what would have been done to them.

mod created;
mod machines;
mod site;

use std::time::Duration;

use capi_types::host::annotation::{ABANDON, RESET};
use capi_types::host::{Host, HostPool};
use capi_types::host_cluster::HostCluster;
use capi_types::host_machine::HostMachine;
use capi_types::key::{ObjectKey, ObjectRef};
use capi_types::machine::Machine;
use capstan_commands::host::run_log::HostRunLogs;
use capstan_dashboard::operations::{HostLogReader as _, LogLine, LogNews};
use capstan_engine::client::Mode;
use capstan_engine::client::write::Part;
use capstan_hosts::owner::HostOwner;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Event, Secret};
use serde_json::json;

use site::Site;

#[tokio::test(start_paused = true)]
async fn a_host_is_claimed_becomes_a_node_once_and_is_clean_again() {
    let site = Site::start(1).await;
    site.until_state("h1", "Available").await;
    site.cluster().await;
    site.machine("one", json!({"pool": "rack"})).await;
    site.until("the node", async |site| site.is_provisioned("one").await).await;
    site.until_state("h1", "InUse").await;

    let own: HostMachine = site.get("one").await.expect("a HostMachine");
    let host: Host = site.get("h1").await.expect("a Host");
    let (host_uid, own_uid) = (host.metadata.uid.expect("a uid"), own.metadata.uid.expect("a uid"));
    assert_eq!(own.spec.provider_id, Some(format!("capstan-host://{host_uid}/{own_uid}")));
    let status = own.status.expect("a status");
    assert_eq!(status.host_ref.map(|it| (it.name, it.uid)), Some(("h1".to_owned(), host_uid.clone())));
    assert_eq!(
        status.addresses.iter().map(|it| it.address.as_str()).collect::<Vec<_>>(),
        ["10.0.0.1", "node-1"]
    );
    let consumer = host.spec.consumer_ref.expect("a consumer");
    assert_eq!((consumer.name.as_str(), consumer.uid == own_uid), ("one", true));
    let owner = site.park.machine("10.0.0.1").owner.expect("an owner file");
    assert_eq!(owner, HostOwner::new("here", &host_uid, &own_uid, "default/harbor", 1).expect("an owner"));

    // A Host that somebody has stays, whoever deletes it; see the finalizer.
    assert_eq!(
        host.metadata.finalizers.as_deref(),
        Some(&["host.infrastructure.cluster.x-k8s.io".to_owned()][..])
    );

    // Another one finds no Host, and says why.
    site.machine("two", json!({"pool": "rack"})).await;
    site.until("a reason", async |site| {
        site.said::<HostMachine>("two", "HostClaimed").await.starts_with("NoHost")
    })
    .await;
    let why = site.said::<HostMachine>("two", "HostClaimed").await;
    assert_eq!(why, "NoHost: the one Host that fits is not available: h1: Claimed: HostMachine one has it");
    site.delete::<Machine>("two").await;

    site.delete::<Machine>("one").await;
    site.until("the Host given back", async |site| site.get::<HostMachine>("one").await.is_none()).await;
    site.until_state("h1", "Available").await;
    let expected = [
        "claimed",
        "bootstrap uploaded",
        "bootstrap started",
        "reset uploaded",
        "reset started",
        "given back",
    ];
    assert_eq!(site.park.changes(), expected.map(|words| format!("10.0.0.1 {words}")));
    assert_eq!(site.park.machine("10.0.0.1").kubeadm_runs, 1);
    site.until("the counts of the pool", async |site| {
        let pool: Option<HostPool> = site.get("rack").await;
        let status = pool.and_then(|pool| pool.status).unwrap_or_default();
        (status.hosts, status.available, status.claimed) == (Some(1), Some(1), Some(0))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_begins_again_goes_on_where_the_run_is() {
    let mut site = Site::start(1).await;
    site.cluster().await;
    site.machine("one", json!({})).await;
    for state in ["Bootstrapping", "InUse"] {
        site.until_state("h1", state).await;
        site.restart().await;
    }
    site.until("the node", async |site| site.is_provisioned("one").await).await;
    site.delete::<Machine>("one").await;
    site.until_state("h1", "Resetting").await;
    site.restart().await;
    site.until_state("h1", "Available").await;
    let started = |what: &str| site.park.changes().iter().filter(|it| it.ends_with(what)).count();
    assert_eq!((started("bootstrap started"), started("reset started"), started("claimed")), (1, 1, 1));
    assert_eq!(site.park.machine("10.0.0.1").kubeadm_runs, 1);
}

/// Never `kubeadm init` over what a first one left; and the reset in the middle is not taken for the one at the end.
#[tokio::test(start_paused = true)]
async fn a_machine_that_lost_its_power_in_kubeadm_is_reset_and_begins_anew() {
    let site = Site::start(1).await;
    site.cluster().await;
    site.machine("one", json!({})).await;
    site.until("kubeadm", async |site| site.park.lose_power_in_kubeadm("10.0.0.1")).await;
    site.until("the node", async |site| site.is_provisioned("one").await).await;
    assert_eq!(site.park.machine("10.0.0.1").kubeadm_runs, 1, "the first one did not come to its end");
    let own: HostMachine = site.get("one").await.expect("a HostMachine");
    assert_eq!(own.status.and_then(|status| status.resets), Some(1));
    site.delete::<Machine>("one").await;
    site.until_state("h1", "Available").await;
    let expected = [
        "claimed",
        "bootstrap uploaded",
        "bootstrap started",
        "reset uploaded",
        "reset started",
        "bootstrap started",
        "reset uploaded",
        "reset started",
        "given back",
    ];
    assert_eq!(site.park.changes(), expected.map(|words| format!("10.0.0.1 {words}")));
}

/// As after `clusterctl move`, which takes neither uids nor a status along.
#[tokio::test(start_paused = true)]
async fn what_is_lost_by_a_move_is_found_again_on_the_machine() {
    let mut site = Site::start(2).await;
    site.cluster().await;
    site.machine("one", json!({})).await;
    site.until("the node", async |site| site.is_provisioned("one").await).await;
    let (own, before): (HostMachine, _) =
        (site.get("one").await.expect("a HostMachine"), site.park.changes());
    let former = own.metadata.uid.expect("a uid");

    site.stop().await;
    site.moved::<HostMachine>("one").await;
    site.moved::<Host>("h1").await;
    site.run();
    site.until("the node again", async |site| site.is_provisioned("one").await).await;
    let own: HostMachine = site.get("one").await.expect("a HostMachine");
    assert_ne!(own.metadata.uid.as_ref(), Some(&former));
    assert_eq!(own.use_uid(), former);
    assert_eq!(own.status.and_then(|status| status.host_ref).map(|it| it.name).as_deref(), Some("h1"));
    let consumer = |host: Option<Host>| host.and_then(|host| host.spec.consumer_ref).map(|it| it.uid);
    assert_eq!(consumer(site.get("h1").await), Some(former.clone()));
    assert_eq!(consumer(site.get("h2").await), None, "one is enough");
    assert_eq!(site.park.changes(), before, "nothing is done twice");
    site.until_state("h1", "InUse").await;

    site.delete::<Machine>("one").await;
    site.until("the Host given back", async |site| site.get::<HostMachine>("one").await.is_none()).await;
    site.until_state("h1", "Available").await;
    assert_eq!(site.park.changes().last().map(String::as_str), Some("10.0.0.1 given back"));
}

/// With the status of the Host all that is known of the machine is lost, so that no question about a reset is asked.
#[tokio::test(start_paused = true)]
async fn a_machine_that_is_gone_after_a_move_is_let_go_by_the_same_command() {
    let mut site = Site::start(1).await;
    site.cluster().await;
    site.machine("one", json!({})).await;
    site.until_state("h1", "InUse").await;
    site.stop().await;
    site.moved::<HostMachine>("one").await;
    site.moved::<Host>("h1").await;
    site.park.change("10.0.0.1", |machine| machine.is_silent = true);
    site.run();
    site.until_state("h1", "Unreachable").await;
    site.delete::<HostMachine>("one").await;
    let advice = "If it is gone for good: capstan host release h1 --abandon";
    site.until("the advice", async |site| {
        site.said::<HostMachine>("one", "HostReleased").await.contains(advice)
    })
    .await;
}

/// What was read once is not read again, and what is said of a silence goes with it.
#[tokio::test(start_paused = true)]
async fn the_log_of_a_run_is_followed_over_a_silence() {
    let site = Site::start(1).await;
    site.cluster().await;
    site.park.change("10.0.0.1", |machine| machine.log = "given planted-in-the-data\n".to_owned());
    site.machine("one", json!({})).await;
    site.until_state("h1", "InUse").await;
    let machines = std::sync::Arc::new(site.park.clone());
    let logs = HostRunLogs { connection: site.connection.clone(), machines };
    let mut news = logs.follow(ObjectKey::new("default", "h1"));
    let mut next = async || news.next().await.expect("news").expect("readable");
    let followed = LogNews::Followed(vec!["the run on h1".to_owned()]);
    let line =
        |text: &str| LogNews::Line(LogLine { at: String::new(), source: "".into(), text: text.to_owned() });
    assert_eq!(next().await, [followed.clone(), line("given <secret>")]);
    site.park.change("10.0.0.1", |machine| machine.log += "two\nthree\n");
    assert_eq!(next().await, [line("two"), line("three")]);
    site.park.change("10.0.0.1", |machine| machine.is_silent = true);
    assert!(matches!(&next().await[..], [LogNews::Trouble(_)]));
    site.park.change("10.0.0.1", |machine| machine.is_silent = false);
    assert_eq!(next().await, [followed]);
    let mut news = logs.follow(ObjectKey::new("default", "h9"));
    let why = news.next().await.expect("an end").expect_err("there is no such Host");
    assert!(why.contains("there is no Host default/h9"), "{why}");
}

/// Who deletes a HostMachine between its claim and its finalizer would leave its Host claimed for good.
#[tokio::test(start_paused = true)]
async fn the_finalizer_is_stored_before_a_host_is_claimed() {
    let site = Site::start(1).await;
    site.until_state("h1", "Available").await;
    let (finalizer, claim) = (site.first_seen(is_held), site.first_seen(is_claimed));
    site.cluster().await;
    site.machine("one", json!({})).await;
    site.until("the node", async |site| site.is_provisioned("one").await).await;
    let (finalizer, claim) = (finalizer.lock().expect("a finalizer"), claim.lock().expect("a claim"));
    assert!(finalizer < claim, "{finalizer} {claim}");
}

fn is_held(own: &HostMachine) -> bool {
    own.metadata.finalizers.as_ref().is_some_and(|held| !held.is_empty())
}

fn is_claimed(host: &Host) -> bool {
    host.spec.consumer_ref.is_some()
}

#[tokio::test(start_paused = true)]
async fn bootstrap_data_that_comes_after_its_name_is_noticed() {
    let site = Site::start(1).await;
    site.until_state("h1", "Available").await;
    site.cluster().await;
    site.delete::<Secret>("data").await;
    site.machine("one", json!({})).await;
    site.until("a reason", async |site| {
        site.said::<HostMachine>("one", "HostClaimed").await
            == "WaitingForBootstrapData: Secret data has no bootstrap data yet"
    })
    .await;
    site.bootstrap_data().await;
    site.until("the node", async |site| site.is_provisioned("one").await).await;
}

#[tokio::test(start_paused = true)]
async fn two_hosts_of_one_machine_are_not_claimed_and_name_each_other() {
    let site = Site::start(2).await;
    site.park.change("10.0.0.2", |machine| machine.facts.machine_id = Some("machine-1".to_owned()));
    site.until_state("h1", "Unfit").await;
    site.until_state("h2", "Unfit").await;
    for (name, other) in [("h1", "default/h2"), ("h2", "default/h1")] {
        let why = site.said::<Host>(name, "Suitable").await;
        assert!(
            why.starts_with(&format!("Unfit: machine-id: machine-1 is that of {other} as well")),
            "{why}"
        );
    }
    site.cluster().await;
    site.machine("one", json!({})).await;
    site.until("a reason", async |site| {
        site.said::<HostMachine>("one", "HostClaimed").await.starts_with("NoHost")
    })
    .await;
    assert_eq!(site.park.changes(), Vec::<String>::new());
    // Either of them goes, and the other is a machine of its own.
    site.delete::<Host>("h2").await;
    site.until("the node", async |site| site.is_provisioned("one").await).await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_of_another_installation_is_left_alone() {
    let site = Site::start(1).await;
    let foreign = HostOwner::new("there", "host", "machine", "ns/other", 7).expect("an owner");
    site.park.change("10.0.0.1", |machine| machine.owner = Some(foreign.clone()));
    site.until_state("h1", "OwnedElsewhere").await;
    let why = site.said::<Host>("h1", "Claimed").await;
    assert!(
        why.contains("installation there, cluster ns/other") && why.contains("capstan host adopt h1"),
        "{why}"
    );
    site.cluster().await;
    site.machine("one", json!({})).await;
    site.until("a reason", async |site| {
        site.said::<HostMachine>("one", "HostClaimed").await.starts_with("NoHost")
    })
    .await;
    assert_eq!(site.park.changes(), Vec::<String>::new());

    let body = json!({"metadata": {"annotations": {"hosts.capstan.dev/take-over": "there"}}});
    let key = ObjectKey::new("default", "h1");
    site.writer.patch_part::<Host>(&key, Part::Main, &body, Mode::Real).await.expect("patched");
    site.until("the node", async |site| site.is_provisioned("one").await).await;
    let changes = site.park.changes();
    assert_eq!(changes[..2], ["10.0.0.1 taken over", "10.0.0.1 given back"]);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_stays_dirty_is_quarantined_until_it_is_clean() {
    let site = Site::start(1).await;
    site.cluster().await;
    site.park.change("10.0.0.1", |machine| {
        machine.sticky.insert("/etc/kubernetes/pki/ca.crt".to_owned());
    });
    site.machine("one", json!({})).await;
    site.until("the node", async |site| site.is_provisioned("one").await).await;
    site.delete::<Machine>("one").await;
    site.until_state("h1", "Quarantined").await;
    let why = site.said::<HostMachine>("one", "HostReleased").await;
    assert!(
        why.starts_with(
            "Quarantined: after the reset these are left: file /etc/kubernetes/pki/ca.crt is there"
        ),
        "{why}"
    );
    // Nobody else gets it meanwhile; a person cleans it by hand.
    let host: Host = site.get("h1").await.expect("a Host");
    assert!(host.spec.consumer_ref.is_some());
    // No step runs any more, and nothing is written as long as nothing changes.
    let run = host.status.and_then(|status| status.run).expect("a run");
    assert_eq!(
        (run.phase.as_deref(), run.step, run.steps, run.last_line),
        (Some("Failed"), None, None, None)
    );
    let version = async || site.get::<Host>("h1").await.and_then(|host| host.metadata.resource_version);
    tokio::time::sleep(Duration::from_secs(120)).await;
    let before = version().await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(version().await, before);
    site.park.change("10.0.0.1", |machine| machine.left.clear());
    site.until("the Host given back", async |site| site.get::<HostMachine>("one").await.is_none()).await;
    site.until_state("h1", "Available").await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_gone_is_let_go_only_by_name_and_comes_back_unclean() {
    let site = Site::start(1).await;
    site.cluster().await;
    site.machine("one", json!({})).await;
    site.until("the node", async |site| site.is_provisioned("one").await).await;
    site.park.change("10.0.0.1", |machine| machine.is_silent = true);
    site.until_state("h1", "Unreachable").await;
    site.delete::<Machine>("one").await;
    site.until("a reason", async |site| {
        site.said::<HostMachine>("one", "HostReleased").await.contains("capstan host release h1 --abandon")
    })
    .await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(site.get::<HostMachine>("one").await.is_some(), "time alone lets nothing go");

    let uid = site.get::<HostMachine>("one").await.and_then(|own| own.metadata.uid).expect("a uid");
    site.annotate::<Host>("h1", ABANDON, &uid).await;
    site.until("let go", async |site| site.get::<HostMachine>("one").await.is_none()).await;
    site.until_state("h1", "Unreachable").await;
    site.park.change("10.0.0.1", |machine| machine.is_silent = false);
    site.until_state("h1", "Quarantined").await;
    let why = site.said::<Host>("h1", "Clean").await;
    assert!(
        why.contains("/etc/kubernetes/admin.conf is there") && why.contains("the owner file of HostMachine"),
        "{why}"
    );

    site.annotate::<Host>("h1", RESET, "now").await;
    site.until_state("h1", "Available").await;
    let host: Host = site.get("h1").await.expect("a Host");
    assert!(host.metadata.annotations.unwrap_or_default().is_empty(), "what was asked for is over");
    assert_eq!(site.park.machine("10.0.0.1").owner, None);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_deleted_while_it_is_used_goes_when_it_is_clean() {
    let site = Site::start(1).await;
    site.cluster().await;
    site.machine("one", json!({})).await;
    site.until("the node", async |site| site.is_provisioned("one").await).await;
    site.delete::<Host>("h1").await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(site.get::<Host>("h1").await.is_some(), "it is in use");
    site.delete::<Machine>("one").await;
    site.until("both gone", async |site| site.get::<Host>("h1").await.is_none()).await;
    assert!(site.get::<HostMachine>("one").await.is_none());
    assert_eq!(site.park.changes().last().map(String::as_str), Some("10.0.0.1 given back"));
}

#[tokio::test(start_paused = true)]
async fn a_step_that_fails_is_said_and_not_tried_again() {
    let site = Site::start(1).await;
    site.cluster().await;
    site.park.change("10.0.0.1", |machine| machine.fails_at = Some(1));
    site.machine("one", json!({})).await;
    site.until_state("h1", "BootstrapFailed").await;
    let why = site.said::<HostMachine>("one", "BootstrapSucceeded").await;
    assert!(
        why.starts_with("StepFailed: step 1 of ")
            && why.contains("ended with 1")
            && why.contains("the last line"),
        "{why}"
    );
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let started = site.park.changes().iter().filter(|it| it.ends_with("bootstrap started")).count();
    assert_eq!((started, site.is_provisioned("one").await), (1, false));
}

/// The proof does not look for what the steps before kubeadm made: only a reset gives it back.
#[tokio::test(start_paused = true)]
async fn a_run_that_failed_before_kubeadm_is_taken_back_though_the_machine_is_clean() {
    let site = Site::start(1).await;
    site.cluster().await;
    site.park.change("10.0.0.1", |machine| machine.fails_at = Some(2));
    site.machine("one", json!({})).await;
    site.until_state("h1", "BootstrapFailed").await;
    assert!(site.park.machine("10.0.0.1").left.is_empty());
    site.delete::<Machine>("one").await;
    site.until_state("h1", "Available").await;
    let expected = [
        "claimed",
        "bootstrap uploaded",
        "bootstrap started",
        "reset uploaded",
        "reset started",
        "given back",
    ];
    assert_eq!(site.park.changes(), expected.map(|words| format!("10.0.0.1 {words}")));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_failed_before_its_machine_was_let_go_is_taken_back_when_that_is_asked_for() {
    let site = Site::start(1).await;
    site.cluster().await;
    site.park.change("10.0.0.1", |machine| machine.fails_at = Some(2));
    site.machine("one", json!({})).await;
    site.until_state("h1", "BootstrapFailed").await;
    site.park.change("10.0.0.1", |machine| machine.is_silent = true);
    site.until_state("h1", "Unreachable").await;
    site.delete::<Machine>("one").await;
    let uid = site.get::<HostMachine>("one").await.and_then(|own| own.metadata.uid).expect("a uid");
    site.annotate::<Host>("h1", ABANDON, &uid).await;
    site.until("let go", async |site| site.get::<HostMachine>("one").await.is_none()).await;
    site.park.change("10.0.0.1", |machine| machine.is_silent = false);
    site.until_state("h1", "Quarantined").await;
    site.annotate::<Host>("h1", RESET, "now").await;
    site.until_state("h1", "Available").await;
    let changes = site.park.changes();
    assert_eq!(
        changes[changes.len() - 3..],
        ["10.0.0.1 reset uploaded", "10.0.0.1 reset started", "10.0.0.1 given back"]
    );
}

/// The second run of a machine holds its lock, and its reset is another one than that of the first.
#[tokio::test(start_paused = true)]
async fn a_run_that_hangs_after_a_reset_is_ended_when_its_machine_is_deleted() {
    let site = Site::start(1).await;
    site.cluster().await;
    site.machine("one", json!({})).await;
    site.until("kubeadm", async |site| site.park.lose_power_in_kubeadm("10.0.0.1")).await;
    let started = |what: &str| site.park.changes().iter().filter(|it| it.ends_with(what)).count();
    site.until("another attempt", async |_| started("bootstrap started") == 2).await;
    site.park.change("10.0.0.1", |machine| machine.is_hung = true);
    site.delete::<Machine>("one").await;
    site.until_state("h1", "Available").await;
    assert_eq!((started("reset started"), started("given back")), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_another_installation_took_is_not_reset() {
    let site = Site::start(1).await;
    site.cluster().await;
    site.machine("one", json!({})).await;
    site.until("the node", async |site| site.is_provisioned("one").await).await;
    let foreign = HostOwner::new("there", "host", "machine", "ns/other", 7).expect("an owner");
    site.park.change("10.0.0.1", |machine| machine.owner = Some(foreign.clone()));
    let before = site.park.changes();
    site.delete::<Machine>("one").await;
    site.until("a reason", async |site| {
        site.said::<HostMachine>("one", "HostReleased").await.starts_with("OwnedElsewhere: ")
    })
    .await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let why = site.said::<HostMachine>("one", "HostReleased").await;
    assert!(why.contains("installation there") && !why.contains("--abandon"), "{why}");
    assert_eq!(site.park.changes(), before);
    assert_eq!(site.park.machine("10.0.0.1").owner, Some(foreign));
}

#[tokio::test(start_paused = true)]
async fn what_a_run_prints_is_shown_without_its_secrets() {
    let site = Site::start(1).await;
    site.cluster().await;
    site.park.change("10.0.0.1", |machine| {
        machine.log = "it was given planted-in-the-data\n".to_owned();
        machine.fails_at = Some(2);
    });
    site.machine("one", json!({})).await;
    site.until_state("h1", "BootstrapFailed").await;
    let why = site.said::<HostMachine>("one", "BootstrapSucceeded").await;
    assert!(why.contains("it was given <secret>"), "{why}");
    let host: Host = site.get("h1").await.expect("a Host");
    let line = host.status.as_ref().and_then(|status| status.run.as_ref()?.last_line.clone());
    assert_eq!(line.as_deref(), Some("it was given <secret>"));
    let events: kube::Api<Event> = kube::Api::all(site.connection.client.clone());
    let events = events.list(&kube::api::ListParams::default()).await.expect("Events").items;
    let all = json!([site.get::<HostMachine>("one").await, host, events]).to_string();
    assert!(!all.contains("planted-in-the-data"), "{all}");
}

#[tokio::test(start_paused = true)]
async fn a_capstan_that_is_read_only_claims_no_host_and_says_so() {
    let site = Site::start_with(1, true).await;
    site.until_state("h1", "Available").await;
    site.cluster().await;
    site.machine("one", json!({})).await;
    site.until("a reason", async |site| {
        site.said::<HostMachine>("one", "HostClaimed").await
            == "ReadOnly: no Host is claimed with --read-only"
    })
    .await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let host: Host = site.get("h1").await.expect("a Host");
    assert_eq!((host.spec.consumer_ref, site.park.changes()), (None, Vec::new()));
}

/// What another capstan has begun stays as it is, and the condition does not say that the machine is silent.
#[tokio::test(start_paused = true)]
async fn a_capstan_that_is_read_only_resets_nothing_and_advises_no_letting_go() {
    let mut site = Site::start(1).await;
    site.cluster().await;
    site.machine("one", json!({})).await;
    site.until("the node", async |site| site.is_provisioned("one").await).await;
    site.stop().await;
    site.be_read_only();
    site.run();
    let before = site.park.changes();
    site.delete::<Machine>("one").await;
    site.until("a reason", async |site| {
        site.said::<HostMachine>("one", "HostReleased").await.starts_with("ReadOnly: ")
    })
    .await;
    let why = site.said::<HostMachine>("one", "HostReleased").await;
    assert_eq!(
        why,
        "ReadOnly: the machine has to be reset: nothing is changed on a machine with --read-only"
    );
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(site.park.changes(), before);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_of_one_host_is_for_the_control_plane() {
    let site = Site::start(2).await;
    site.until_state("h2", "Available").await;
    site.create::<HostCluster>("lone", json!({"endpoint": {"mode": "SingleHost", "hostName": "h1"}})).await;
    site.until("an endpoint", async |site| {
        let own: Option<HostCluster> = site.get("lone").await;
        own.and_then(|own| own.spec.control_plane_endpoint?.host) == Some("10.0.0.1".to_owned())
    })
    .await;
    // A worker of another cluster does not get it, though its name is the first.
    site.cluster().await;
    site.machine("one", json!({})).await;
    site.until("the node", async |site| site.is_provisioned("one").await).await;
    site.until_state("h2", "InUse").await;
    assert_eq!(site.state("h1").await, "Available");
    let target = ObjectRef::of(&site.get::<HostMachine>("one").await.expect("a HostMachine"));
    assert_eq!(target.gvk.version, "v1beta1");
}
