//! Requests that nobody should send, to the real server over TLS: fuzzed ones, bombs, and slow ones. No panic, no
//! answer of the kind that means a mistake of the server's own, memory bounded, and somebody else's ordinary list is
//! answered all the while. A fuzzed request that does harm is made as small as it can be and printed.

mod bombs;
mod request;
mod wire;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::{Api, ListParams};
use tokio::task::JoinHandle;

use self::bombs::{Bomb, bombs};
use self::request::Request;
use self::wire::Wire;
use super::measures::Sample;
use super::{Bounds, PATIENCE, Target, in_time};

/// Fuzzed requests in the suite, and in one round of the long form.
const REQUESTS: u64 = 60;
/// A fuzzed request without an answer by then lacks something, and is ended.
const FUZZ_TIME: Duration = Duration::from_secs(1);
/// Between two ordinary lists.
const PAUSE: Duration = Duration::from_millis(50);
/// Connections that send a part of a request and nothing more.
const SLOW: usize = 40;
/// What bombs may cost.
const MORE_MIB: u64 = 768;

/// Answers that say something about the server: not implemented, overloaded, out of time, version of HTTP.
fn is_harm(status: Option<u16>) -> bool {
    status.is_some_and(|status| status >= 500 && ![501, 503, 504, 505].contains(&status))
}

/// Somebody's ordinary lists, one after another, until it is told to stop.
struct Ordinary {
    stop: Arc<AtomicBool>,
    listing: JoinHandle<(u64, Duration)>,
}

impl Ordinary {
    fn start(client: Client) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let told = stop.clone();
        let listing = tokio::spawn(async move {
            let namespaces: Api<Namespace> = Api::all(client);
            let (mut lists, mut longest) = (0, Duration::ZERO);
            while !told.load(Ordering::SeqCst) {
                let began = Instant::now();
                let list = in_time("an ordinary list", namespaces.list(&ListParams::default())).await;
                assert!(list.expect("a list").items.len() >= 4);
                longest = longest.max(began.elapsed());
                lists += 1;
                tokio::time::sleep(PAUSE).await;
            }
            (lists, longest)
        });
        Self { stop, listing }
    }

    /// How many there were, and the longest.
    async fn end(self) -> (u64, Duration) {
        self.stop.store(true, Ordering::SeqCst);
        self.listing.await.expect("every list was answered")
    }
}

#[derive(Debug, Default)]
struct Figures {
    requests: u64,
    /// By hundreds: 2xx at 2; 0 without an answer.
    answers: [u64; 6],
    bombs: u64,
    longest_bomb: Duration,
    ordinary_lists: u64,
    longest_ordinary_list: Duration,
    resident_max_mib: u64,
}

struct Attack {
    bounds: Bounds,
    target: Target,
    wire: Wire,
    figures: Figures,
}

impl Attack {
    async fn send(&self, what: &str, request: &Request, time: Duration) -> Option<u16> {
        in_time(what, self.wire.send(&request.bytes(self.wire.token()), time)).await
    }

    async fn does_harm(&self, request: &Request) -> Option<String> {
        let before = self.target.complaints().matches("panicked").count();
        let status = self.send("an answer or an end", request, FUZZ_TIME).await;
        let panics = self.target.complaints().matches("panicked").count() - before;
        (is_harm(status) || panics > 0).then(|| format!("{status:?}, {panics} panics"))
    }

    /// The smallest request that still does harm.
    async fn shrink(&self, mut request: Request) -> Request {
        'smaller: loop {
            for candidate in request.smaller() {
                if self.does_harm(&candidate).await.is_some() {
                    request = candidate;
                    continue 'smaller;
                }
            }
            return request;
        }
    }

    async fn fuzz(&mut self) {
        for _ in 0..REQUESTS {
            let request = Request::draw(&self.bounds.rng);
            let status = self.send("an answer or an end", &request, FUZZ_TIME).await;
            self.figures.requests += 1;
            self.figures.answers[usize::from(status.unwrap_or(0) / 100).min(5)] += 1;
            if is_harm(status) {
                let smallest = self.shrink(request).await;
                let what = self.does_harm(&smallest).await.unwrap_or_default();
                panic!("seed {}: {what} for\n{smallest:#?}\n{}", self.bounds.rng.seed(), smallest.text());
            }
        }
        self.target.assert_calm();
    }

    async fn throw(&mut self, bomb: &Bomb) {
        let began = Instant::now();
        for request in &bomb.requests {
            let status = self.send(bomb.name, request, PATIENCE).await;
            assert!(!is_harm(status), "{}: {status:?}", bomb.name);
        }
        self.figures.bombs += 1;
        self.figures.longest_bomb = self.figures.longest_bomb.max(began.elapsed());
        self.target.assert_calm();
    }

    /// Opens connections that send half a request; the long form waits until the server has ended them.
    async fn dawdle(&self, client: Client) {
        let mut halves = Vec::new();
        for number in 0..SLOW {
            let text = if number % 2 == 0 {
                "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\nX-Slow: ".to_owned()
            } else {
                format!(
                    "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\
                     Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{{",
                    self.wire.token()
                )
            };
            halves.push(self.wire.begin(text.as_bytes()).await);
        }
        let namespaces: Api<Namespace> = Api::all(client);
        in_time("a list beside slow requests", namespaces.list(&ListParams::default()))
            .await
            .expect("a list");
        if self.bounds.is_long() {
            for half in halves {
                in_time("the end of a slow request", wire::to_the_end(half)).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_requests_are_refused_and_nobody_else_waits() {
    let bounds = Bounds::of(1);
    let target = Target::started(&["--no-engine"]);
    let start = Sample::of(target.server().id(), &target.data_file());
    let wire = Wire::to(target.server(), target.folder());
    let mut attack = Attack { bounds, target, wire, figures: Figures::default() };
    let client = attack.target.client().await;
    let ordinary = Ordinary::start(client.clone());
    while attack.bounds.goes_on() {
        attack.fuzz().await;
        for bomb in bombs() {
            attack.throw(&bomb).await;
        }
        attack.dawdle(client.clone()).await;
    }
    (attack.figures.ordinary_lists, attack.figures.longest_ordinary_list) = ordinary.end().await;
    let end = Sample::of(attack.target.server().id(), &attack.target.data_file());
    attack.figures.resident_max_mib = end.resident_max_mib;
    assert!(end.resident_max_mib <= start.resident_mib + MORE_MIB, "{end:?} after {start:?}");
    println!("panics 0, answers 500 and the like 0: {:#?}", attack.figures);
}
