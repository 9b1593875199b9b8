//! `capstan etcd status` and member calls against three real members of one etcd over TLS.

pub mod server;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use capi_rules::etcd::facts::Class;
use capstan_engine::workload::etcd::{MemberClient, Tls};
use serde_json::Value;

use crate::keeping::etcd::is_installed;
use server::{Pair, TlsCluster, authority, issue};

/// How long anything may take to come about.
const PATIENCE: Duration = Duration::from_secs(60);

/// Exit code and report.
fn status_with(cluster: &TlsCluster, endpoints: &str, ca: &Path, client: Option<&Pair>) -> (i32, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capstan"));
    command.args(["etcd", "status", "--exit-status", "-o", "json", "--endpoints", endpoints]);
    command.arg("--cacert").arg(ca).env("HOME", cluster.folder());
    if let Some(pair) = client {
        command.arg("--cert").arg(&pair.certificate).arg("--key").arg(&pair.key);
    }
    let output = command.output().expect("capstan runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let report = serde_json::from_str(&text)
        .unwrap_or_else(|_| panic!("no report: {text}{}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code().expect("an exit code"), report)
}

/// One endpoint is enough: the others are found through it.
fn status(cluster: &TlsCluster, at: usize) -> (i32, Value) {
    status_with(cluster, &cluster.endpoint(at), &cluster.ca(), Some(&cluster.client))
}

fn all(cluster: &TlsCluster) -> String {
    (0..3).map(|at| cluster.endpoint(at)).collect::<Vec<_>>().join(",")
}

fn rules(report: &Value) -> Vec<&str> {
    let findings = report["findings"].as_array().expect("findings");
    findings.iter().map(|finding| finding["rule"].as_str().expect("a rule")).collect()
}

/// Asks again until it is so.
fn until(what: &str, mut ask: impl FnMut() -> (i32, Value), is: impl Fn(&Value) -> bool) -> (i32, Value) {
    let start = Instant::now();
    loop {
        let (code, report) = ask();
        if is(&report) {
            return (code, report);
        }
        assert!(start.elapsed() < PATIENCE, "{what}: {report:#}");
    }
}

fn summary(report: &Value) -> &str {
    report["summary"].as_str().expect("a summary")
}

fn classes(report: &Value) -> Vec<&str> {
    let members = report["members"].as_array().expect("members");
    members.iter().filter_map(|member| member["trouble"]["class"].as_str()).collect()
}

pub fn tls(cluster: &TlsCluster) -> Tls {
    let read = |path: &Path| std::fs::read(path).expect("a file");
    let identity = (read(&cluster.client.certificate), read(&cluster.client.key));
    Tls { authority: read(&cluster.ca()), identity: Some(identity) }
}

async fn member(cluster: &TlsCluster, at: usize) -> MemberClient {
    MemberClient::direct(&cluster.endpoint(at), Some(&tls(cluster))).await.expect("a client")
}

async fn raw(cluster: &TlsCluster) -> etcd_client::Client {
    let tls = tls(cluster);
    let (certificate, key) = tls.identity.expect("an identity");
    let options = etcd_client::TlsOptions::new()
        .ca_certificate(etcd_client::Certificate::from_pem(tls.authority))
        .identity(etcd_client::Identity::from_pem(certificate, key));
    let options = etcd_client::ConnectOptions::new().with_tls(options);
    etcd_client::Client::connect([cluster.endpoint(0)], Some(options)).await.expect("a client")
}

const FINE: &str = "3 voters, healthy 3, can lose 1 more";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_of_a_real_etcd_live_and_die() {
    if !is_installed() {
        return;
    }
    let mut cluster = TlsCluster::start(&[]);
    let (code, report) = until("healthy", || status(&cluster, 0), |report| summary(report) == FINE);
    assert_eq!((code, rules(&report)), (0, Vec::new()), "{report:#}");
    let members = report["members"].as_array().expect("members");
    assert_eq!(members.len(), 3);
    assert!(members.iter().all(|m| m["listAgrees"] == true && m["database"]["sizeBytes"] != 0), "{report:#}");
    assert_eq!(members[0]["role"], "leader");
    assert_eq!(members[0]["quota"]["isAssumed"], true);

    certificates(&cluster);

    let leader = cluster.at(report["leader"].as_str().expect("a leader"));
    let follower = (leader + 1) % 3;
    move_leader(&cluster, leader, follower).await;

    // One that hangs keeps its port open.
    cluster.pause(leader);
    let begun = Instant::now();
    let (code, report) = status_with(&cluster, &all(&cluster), &cluster.ca(), Some(&cluster.client));
    assert!(begun.elapsed() < Duration::from_secs(20), "a hung member holds everything up");
    assert_eq!((code, classes(&report)), (11, vec!["timedOut"]), "{report:#}");
    assert_eq!(summary(&report), "3 voters, healthy 2, can lose 0 more");
    cluster.resume(leader);
    until("healthy again", || status(&cluster, follower), |report| summary(report) == FINE);

    cluster.kill(leader);
    let two = "3 voters, healthy 2, can lose 0 more";
    let (code, report) = until("one dead", || status(&cluster, follower), |report| summary(report) == two);
    assert_eq!((code, classes(&report)), (11, vec!["refused"]), "{report:#}");
    assert_eq!(rules(&report), ["no-tolerance", "unreachable"]);

    let last = 3 - leader - follower;
    cluster.kill(follower);
    let is_lost = |report: &Value| rules(report).contains(&"quorum-lost");
    let (code, report) = until("quorum lost", || status(&cluster, last), is_lost);
    assert_eq!(code, 12, "{report:#}");
    assert_eq!(summary(&report), "3 voters, healthy 0, quorum of 2 is lost");
    cluster.kill(last);
    assert_eq!(status(&cluster, last).0, 13);
}

/// Every certificate that is wrong is named by what is wrong with it.
fn certificates(cluster: &TlsCluster) {
    let foreign = authority();
    let folder = cluster.folder();
    let foreign_ca = folder.join("foreign.pem");
    std::fs::write(&foreign_ca, foreign.pem()).expect("written");
    let stranger = issue(&foreign, folder, "stranger", false);
    for (ca, client, class) in [
        (&foreign_ca, Some(&cluster.client), "serverUntrusted"),
        (&cluster.ca(), Some(&stranger), "clientRejected"),
        (&cluster.ca(), None, "clientRejected"),
    ] {
        let (code, report) = status_with(cluster, &all(cluster), ca, client);
        assert_eq!((code, classes(&report)), (13, vec![class; 3]), "{report:#}");
        assert_eq!(report["state"], "unknown");
    }
    let by_name = format!("https://127.0.0.2:{}", cluster.port(0));
    let (_, report) = status_with(cluster, &by_name, &cluster.ca(), Some(&cluster.client));
    assert_eq!(classes(&report), ["refused"], "members listen on 127.0.0.1 only: {report:#}");
}

async fn move_leader(cluster: &TlsCluster, leader: usize, follower: usize) {
    let (from, to) = (member(cluster, leader).await, member(cluster, follower).await);
    let target = to.status().await.expect("an answer").member_id;
    let refused = to.move_leader(target).await.expect_err("it does not lead");
    assert_eq!(refused.class, Class::NotLeader, "{refused:?}");
    let unknown = from.move_leader(1).await.expect_err("no such member");
    assert_eq!(unknown.class, Class::Answered, "{unknown:?}");
    from.move_leader(target).await.expect("moved");
    let name = format!("cp-{}", follower + 1);
    let is_led = |report: &Value| report["leader"] == name.as_str() && summary(report) == FINE;
    until("the leader is another one", || status(cluster, leader), is_led);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn learners_removals_and_a_full_database_of_a_real_etcd() {
    if !is_installed() {
        return;
    }
    let mut cluster = TlsCluster::start(&["--quota-backend-bytes", "16777216"]);
    until("healthy", || status(&cluster, 0), |report| summary(report) == FINE);
    let mut client = raw(&cluster).await;

    let peer = cluster.prepare_next();
    // etcd takes no new member until all have been connected for 5 s.
    let begun = Instant::now();
    loop {
        let learner = Some(etcd_client::MemberAddOptions::new().with_is_learner());
        let Err(error) = client.member_add([peer.clone()], learner).await else { break };
        assert!(error.to_string().contains("unhealthy cluster") && begun.elapsed() < PATIENCE, "{error}");
    }
    let is_added = |report: &Value| rules(report).contains(&"member-unstarted");
    let (code, report) = until("added", || status(&cluster, 0), is_added);
    assert_eq!((code, summary(&report)), (11, "3 voters, 1 learner, healthy 3, can lose 1 more"));

    let at = cluster.start_added();
    let is_learner = |report: &Value| rules(report) == ["learner"];
    let (_, report) = until("a learner answers", || status(&cluster, 0), is_learner);
    assert_eq!(summary(&report), "3 voters, 1 learner, healthy 3, can lose 1 more");
    let removals = report["removals"].as_array().expect("removals");
    assert!(removals.iter().all(|left| left["isSafe"] == false), "a learner forbids changes: {report:#}");

    let id = member(&cluster, at).await.status().await.expect("an answer").member_id;
    let through = member(&cluster, 0).await;
    remove(&through, id).await;
    through.remove(id).await.expect("gone is fine");
    until("removed", || status(&cluster, 0), |report| summary(report) == FINE);
    a_voter_that_never_starts(&mut cluster, &mut client).await;

    let value = vec![b'x'; 1_000_000];
    let mut full = None;
    for number in 0..40 {
        full = client.put(format!("key-{number}"), value.clone(), None).await.err();
        if full.is_some() {
            break;
        }
    }
    assert!(full.is_some_and(|error| error.to_string().contains("database space exceeded")));
    let has_alarm = |report: &Value| rules(report).contains(&"alarm-nospace");
    let (code, report) = until("an alarm", || status(&cluster, 0), has_alarm);
    assert_eq!((code, report["state"].as_str()), (12, Some("critical")), "{report:#}");
}

/// As soon as etcd lets it: it refuses while it takes a member for unhealthy.
async fn remove(through: &MemberClient, id: u64) {
    let begun = Instant::now();
    while let Err(trouble) = through.remove(id).await {
        assert!(trouble.text.contains("unhealthy") && begun.elapsed() < PATIENCE, "{trouble:?}");
    }
}

/// Four voters need three: it was shown as a learner, and "can lose 1 more" was then the end of the quorum.
async fn a_voter_that_never_starts(cluster: &mut TlsCluster, client: &mut etcd_client::Client) {
    let peer = cluster.prepare_next();
    let begun = Instant::now();
    let id = loop {
        match client.member_add([peer.clone()], None).await {
            Ok(added) => break added.member().expect("a member").id(),
            Err(error) => {
                assert!(
                    error.to_string().contains("unhealthy cluster") && begun.elapsed() < PATIENCE,
                    "{error}"
                );
            }
        }
    };
    let is_added = |report: &Value| rules(report).contains(&"member-unstarted");
    let (code, report) = until("a voter is added", || status(cluster, 0), is_added);
    assert_eq!((code, summary(&report)), (11, "4 voters, healthy 3, can lose 0 more"));
    cluster.pause(2);
    let is_lost = |report: &Value| rules(report).contains(&"quorum-lost");
    let (code, report) = until("one more is lost", || status(cluster, 0), is_lost);
    assert_eq!((code, summary(&report)), (12, "4 voters, healthy 0, quorum of 3 is lost"));
    cluster.resume(2);
    until("it is back", || status(cluster, 0), |report| !is_lost(report));
    remove(&member(cluster, 0).await, id).await;
    until("three again", || status(cluster, 0), |report| summary(report) == FINE);
}
