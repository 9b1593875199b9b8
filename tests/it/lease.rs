//! Leader election under stalls, late answers and clocks that differ: never two leaders, whatever the
//! electors share. A failing schedule is shrunk by proptest.

use std::sync::Arc;
use std::time::Duration;

use capi_rules::admission::Webhooks;
use capstan_apiserver::{ApiServer, Options, Tokens};
use capstan_base::rng::Rng;
use capstan_base::time::{Clock, TimeSource, Timestamp};
use capstan_commands::arguments::PlanOutputArg;
use capstan_commands::engine_status;
use capstan_commands::output::Style;
use capstan_engine::client::write::Writer;
use capstan_engine::client::{Connection, in_process};
use capstan_engine::engine::lease::{Elector, Leadership, LeaseNotes, LeaseOptions, identity_of};
use capstan_store::MemoryStore;
use http::Request;
use k8s_machinery::lease as words;
use kube::client::Body;
use proptest::prelude::*;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

/// Paused time, off by a skew and running fast or slow.
struct Skewed {
    began: Instant,
    skew_ms: i64,
    drift_per_mille: i64,
}

impl TimeSource for Skewed {
    fn now(&self) -> Timestamp {
        let passed_us = i64::try_from(self.began.elapsed().as_micros()).unwrap_or(0);
        let own_us = passed_us + passed_us * self.drift_per_mille / 1000 + self.skew_ms * 1000;
        Timestamp::from_timestamp(1_795_168_800, 0).unwrap_or_default()
            + chrono::TimeDelta::microseconds(own_us)
    }
}

/// What stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    /// Requests on their way to the server.
    There,
    /// Answers on their way back.
    Back,
    /// The elector itself, as by SIGSTOP.
    Process,
}

/// Something of one elector stands still from `at_s` for `for_s`.
#[derive(Clone, Debug)]
struct Stall {
    who: usize,
    at_s: u64,
    for_s: u64,
    place: Where,
}

#[derive(Clone, Debug)]
struct Schedule {
    /// True: the same name for all, as if chance had failed altogether.
    share_identity: bool,
    skews_ms: [i64; 3],
    drifts_per_mille: [i64; 3],
    stalls: Vec<Stall>,
}

fn stalls() -> impl Strategy<Value = Vec<Stall>> {
    let place = prop::sample::select(vec![Where::There, Where::Back, Where::Process]);
    let stall = (0_usize..3, 0_u64..120, 1_u64..45, place);
    let stall = stall.prop_map(|(who, at_s, for_s, place)| Stall { who, at_s, for_s, place });
    prop::collection::vec(stall, 0..8)
}

fn schedules() -> impl Strategy<Value = Schedule> {
    let skew = -3_600_000_i64..3_600_000;
    let drift = -50_i64..50;
    (any::<bool>(), [skew.clone(), skew.clone(), skew], [drift.clone(), drift.clone(), drift], stalls())
        .prop_map(|(share_identity, skews_ms, drifts_per_mille, stalls)| Schedule {
            share_identity,
            skews_ms,
            drifts_per_mille,
            stalls,
        })
}

async fn server() -> ApiServer {
    let tokens = Tokens { admin: "a".to_owned(), read_only: "r".to_owned() };
    let clock = Clock::fixed(Timestamp::from_timestamp(1_795_168_800, 0).unwrap_or_default());
    let options = Options {
        clock,
        rng: Rng::seeded(7),
        definitions: Vec::new(),
        tokens,
        admission: Arc::new(Webhooks),
    };
    ApiServer::open(Arc::new(MemoryStore::new()), options).await.expect("a server")
}

/// A connection whose requests are held up as scheduled. What has left arrives, also when nobody waits
/// for the answer any more.
fn held_up(server: &ApiServer, stalls: Vec<Stall>, began: Instant) -> Connection {
    let (server, stalls) = (server.clone(), Arc::new(stalls));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (server, stalls) = (server.clone(), Arc::clone(&stalls));
        async move {
            let sent = tokio::spawn(async move {
                wait(&stalls, began, Where::There).await;
                let answer = tower::ServiceExt::oneshot(server, request).await;
                wait(&stalls, began, Where::Back).await;
                answer
            });
            sent.await.map_err(std::io::Error::other)?.map_err(|e| std::io::Error::other(format!("{e:?}")))
        }
    });
    in_process(service, "test", "default", false)
}

async fn wait(stalls: &[Stall], began: Instant, place: Where) {
    for stall in stalls.iter().filter(|stall| stall.place == place) {
        let (from, to) = (stall.at_s, stall.at_s + stall.for_s);
        if (from..to).contains(&began.elapsed().as_secs()) {
            sleep_until(began + Duration::from_secs(to)).await;
        }
    }
}

/// Runs `work`, but never while its process is stopped.
async fn stopped_as(stalls: Vec<Stall>, began: Instant, work: impl Future<Output = ()>) {
    let mut work = std::pin::pin!(work);
    let mut stops: Vec<Stall> = stalls.into_iter().filter(|stall| stall.place == Where::Process).collect();
    stops.sort_by_key(|stall| stall.at_s);
    for stop in stops {
        let (from, to) =
            (began + Duration::from_secs(stop.at_s), began + Duration::from_secs(stop.at_s + stop.for_s));
        tokio::select! {
            biased;
            () = sleep_until(from) => sleep_until(to).await,
            () = &mut work => return,
        }
    }
    work.await;
}

/// An elector over a server, with everything that stands still for it.
fn elect(
    server: &ApiServer,
    identity: &str,
    clock: Clock,
    stalls: &[Stall],
    began: Instant,
) -> (Leadership, CancellationToken, tokio::task::JoinHandle<()>) {
    let connection = held_up(server, stalls.to_vec(), began);
    let options = LeaseOptions::new("default", "capstan-engine", identity);
    let (elector, leadership) = Elector::new(options, Writer::new(connection.client, "test"), clock);
    let stop = CancellationToken::new();
    let task = tokio::spawn(stopped_as(stalls.to_vec(), began, elector.run(stop.clone())));
    (leadership, stop, task)
}

/// How many led at each tenth of a second, for 180 s.
async fn leaders(schedule: &Schedule) -> Vec<usize> {
    let (server, began) = (server().await, Instant::now());
    let electors: Vec<Leadership> = (0..3)
        .map(|who| {
            let own: Vec<Stall> = schedule.stalls.iter().filter(|stall| stall.who == who).cloned().collect();
            let seed = if schedule.share_identity { 0 } else { who as u64 };
            // One host and one process id, as in containers.
            let identity = identity_of("vm", &Rng::seeded(seed));
            let (skew_ms, drift_per_mille) = (schedule.skews_ms[who], schedule.drifts_per_mille[who]);
            elect(&server, &identity, Clock::new(Skewed { began, skew_ms, drift_per_mille }), &own, began).0
        })
        .collect();
    let mut counts = Vec::new();
    while began.elapsed() < Duration::from_secs(180) {
        sleep(Duration::from_millis(100)).await;
        counts.push(electors.iter().filter(|leadership| leadership.leads()).count());
    }
    counts
}

fn run(schedule: &Schedule) -> Vec<usize> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(leaders(schedule))
}

/// `PROPTEST_CASES` asks for more.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|count| count.parse().ok()).unwrap_or(24)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn two_engines_never_lead_at_once(schedule in schedules()) {
        let counts = run(&schedule);
        let both = counts.iter().position(|count| *count > 1);
        prop_assert_eq!(both, None, "tenths of a second after the start");
    }

    #[test]
    fn somebody_leads_when_the_stalls_are_over(mut schedule in schedules()) {
        schedule.stalls.retain(|stall| stall.at_s + stall.for_s <= 120);
        let counts = run(&schedule);
        prop_assert!(counts[1600..].iter().all(|count| *count == 1), "{:?}", &counts[1600..]);
    }
}

#[test]
fn containers_with_one_host_name_have_different_identities() {
    let identities: std::collections::BTreeSet<String> =
        (0..1000).map(|_| identity_of("vm\n", &Rng::from_entropy())).collect();
    assert_eq!(identities.len(), 1000);
    let one = identities.first().expect("an identity");
    let bits = one.strip_prefix("vm_").expect("the host name for people");
    assert!(bits.len() == 16 && bits.bytes().all(|b| b.is_ascii_hexdigit()), "{one}");
}

/// An engine that was stopped for a while and then asked to end must not give away another's lease.
#[tokio::test(start_paused = true)]
async fn a_lease_that_another_took_is_not_given_back() {
    let (server, began) = (server().await, Instant::now());
    let clock = |skew_ms| Clock::new(Skewed { began, skew_ms, drift_per_mille: 0 });
    let stopped = Stall { who: 0, at_s: 5, for_s: 40, place: Where::Process };
    let (first, stop, task) = elect(&server, "first", clock(0), &[stopped], began);
    sleep(Duration::from_secs(2)).await;
    assert!(first.leads());
    let (second, _stop, _task) = elect(&server, "second", clock(1), &[], began);
    sleep(Duration::from_secs(36)).await;
    assert!(second.leads() && !first.leads());
    stop.cancel();
    task.await.expect("it ends");
    let key = capi_types::key::ObjectKey::new("default", "capstan-engine");
    let lease: k8s_openapi::api::coordination::v1::Lease =
        capstan_engine::client::get(&held_up(&server, Vec::new(), began).client, &key)
            .await
            .expect("an answer")
            .expect("a lease");
    assert_eq!(lease.spec.expect("a record").holder_identity.as_deref(), Some("second"));
}

/// At rest a lock costs one small request every retry period: no reading before a renewal, nothing between.
#[tokio::test(start_paused = true)]
async fn at_rest_a_lock_costs_one_small_request_every_two_seconds() {
    use http_body_util::BodyExt as _;
    let (server, counted) = (server().await, Arc::new(parking_lot::Mutex::new((0_usize, 0_usize))));
    let counter = Arc::clone(&counted);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (server, counter) = (server.clone(), Arc::clone(&counter));
        async move {
            let (parts, body) = request.into_parts();
            let asked = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
            let request = Request::from_parts(parts, Body::from(asked.to_vec()));
            let answer = tower::ServiceExt::oneshot(server, request).await;
            let (parts, body) = answer.map_err(|e| std::io::Error::other(format!("{e:?}")))?.into_parts();
            let answered =
                body.collect().await.map_err(|e| std::io::Error::other(format!("{e:?}")))?.to_bytes();
            let mut counter = counter.lock();
            *counter = (counter.0 + 1, counter.1 + asked.len() + answered.len());
            Ok::<_, std::io::Error>(http::Response::from_parts(parts, Body::from(answered.to_vec())))
        }
    });
    let client = in_process(service, "test", "default", false).client;
    let clock = Clock::new(Skewed { began: Instant::now(), skew_ms: 0, drift_per_mille: 0 });
    let options = LeaseOptions::new("default", "rest", "host_0123456789abcdef");
    let (elector, leadership) = Elector::new(options, Writer::new(client, "test"), clock);
    let stop = CancellationToken::new();
    let task = tokio::spawn(elector.run(stop.clone()));
    sleep(Duration::from_secs(11)).await;
    assert!(leadership.leads());
    let before = *counted.lock();
    sleep(Duration::from_secs(60)).await;
    let after = *counted.lock();
    let (requests, bytes) = (after.0 - before.0, after.1 - before.1);
    println!("{requests} requests in 60 s, {} bytes each, both ways", bytes / requests);
    assert_eq!(requests, 30);
    assert!(bytes / requests < 2_000, "{bytes} bytes");
    stop.cancel();
    task.await.expect("it ends");
}

/// The writer believes that it leads; the server knows better, whenever the request arrives.
#[tokio::test]
async fn a_write_under_a_lease_that_another_has_taken_is_refused() {
    use k8s_machinery::lease::Fence;
    use k8s_openapi::api::coordination::v1::Lease;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::{Api, DeleteParams, Patch, PatchParams};
    use serde_json::json;
    let client = held_up(&server().await, Vec::new(), Instant::now()).client;
    let writer = Writer::new(client.clone(), "test");
    let lease: Lease = serde_json::from_value(json!({"metadata": {"namespace": "default", "name": "l"},
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 3}}))
    .expect("a Lease");
    let mode = capstan_engine::client::Mode::Real;
    let lease = writer.create(&lease, mode).await.expect("created");
    let uid = lease.metadata.uid.expect("a uid");
    let fence = Fence { namespace: "default".to_owned(), name: "l".to_owned(), uid, transitions: 3 };
    let under = |fence: &Fence| {
        let fence = fence.clone();
        writer.clone().with_fences(Arc::new(move || vec![fence.clone()]))
    };
    let map = |name: &str| -> ConfigMap {
        serde_json::from_value(json!({"metadata": {"namespace": "default", "name": name}})).expect("a map")
    };
    let held = under(&fence);
    held.create(&map("one"), mode).await.expect("the Lease is as it was");

    let leases: Api<Lease> = Api::namespaced(client, "default");
    let taken = Patch::Merge(json!({"spec": {"holderIdentity": "b", "leaseTransitions": 4}}));
    leases.patch("l", &PatchParams::default(), &taken).await.expect("taken");
    let refused = held.create(&map("two"), mode).await.expect_err("refused");
    assert!(refused.is_conflict(), "{refused}");
    assert!(refused.message().contains("Lease default/l has been taken by another process"), "{refused}");
    under(&Fence { transitions: 4, ..fence.clone() }).create(&map("three"), mode).await.expect("its own");
    let refused = under(&Fence { uid: "another".to_owned(), transitions: 4, ..fence.clone() });
    assert!(refused.create(&map("four"), mode).await.expect_err("made anew").is_conflict());
    let unfit = under(&Fence { name: "l\n".to_owned(), ..fence.clone() });
    unfit.create(&map("seven"), mode).await.expect_err("what cannot be sent along is not left out");
    // To another server nothing is sent along.
    held.on(writer.client().clone()).create(&map("five"), mode).await.expect("no fence");

    leases.delete("l", &DeleteParams::default()).await.expect("deleted");
    held.create(&map("six"), mode).await.expect("nobody has taken what is gone");
    assert_eq!(Fence::parse(&fence.text()), Some(fence));
    for wrong in ["", "l uid 3", "default/l uid", "default/l uid x", "default/l uid 3 4"] {
        assert_eq!(Fence::parse(wrong), None, "{wrong}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_holds_an_engine_up_is_on_its_lease_and_in_its_status() {
    let client = held_up(&server().await, Vec::new(), Instant::now()).client;
    let (notes, began) = (LeaseNotes::default(), Instant::now());
    let clock = Clock::new(Skewed { began, skew_ms: 0, drift_per_mille: 0 });
    let options = LeaseOptions {
        labels: [(words::COMPONENT.to_owned(), "engine".to_owned())].into(),
        notes: notes.clone(),
        ..LeaseOptions::new("default", engine_status::ENGINE_LEASE, "one")
    };
    let (elector, _leadership) = Elector::new(options, Writer::new(client.clone(), "test"), clock.clone());
    let stop = CancellationToken::new();
    let running = tokio::spawn(elector.run(stop.clone()));
    let status = async |output| {
        let leases = engine_status::look(&client, "default").await.expect("leases");
        engine_status::print(&leases, clock.now(), output, Style::default()).expect("a text")
    };
    let line = "capstan-engine: the controllers do not run until these can be read: Machine: forbidden\n";
    for (text, is_held_up) in [("Machine: forbidden", true), ("", false)] {
        notes.set(words::HELD_UP_BY, text);
        sleep(Duration::from_secs(5)).await;
        let (table, json) = (status(PlanOutputArg::Text).await, status(PlanOutputArg::Json).await);
        assert_eq!(table.ends_with(line), is_held_up, "{table}");
        assert_eq!(json.contains("heldUpBy"), is_held_up, "{json}");
    }
    stop.cancel();
    running.await.expect("an end");
}
