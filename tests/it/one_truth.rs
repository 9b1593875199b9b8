//! One reader for one truth: whoever says how a cluster is, says the same verdict with the same cause.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan::cli::args::{Cli, Command};
use capstan_base::rng::Rng;
use capstan_base::time::Clock;
use capstan_commands::describe::files::from_files;
use capstan_commands::describe::{self, DescribeArgs};
use capstan_commands::get;
use capstan_commands::metrics::{self, Page};
use capstan_commands::output::Style;
use capstan_commands::wait::{self, Waited};
use capstan_commands::watch::{self as watch_command, FleetNews};
use capstan_dashboard::fleet::watch::{self, Recording, Scope};
use capstan_dashboard::fleet::{FeedState, Fleet, SourceId};
use capstan_dashboard::tui::report::report;
use capstan_dashboard::tui::turns::Turns;
use capstan_engine::client::Connection;
use capstan_store::MemoryStore;
use capstan_worlds::samples::Sample;
use capstan_worlds::standalone::stack::{Stack, StackOptions};
use clap::Parser as _;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::fleet_fixture::{self as fixture, now};

/// Verdict and cause of a cluster, by namespace and name.
type Said = BTreeMap<(String, String), (String, String)>;

fn command(line: &str) -> Command {
    let words = std::iter::once("capstan").chain(line.split(' '));
    Cli::try_parse_from(words).expect("it parses").command.expect("a command")
}

fn describe_args(line: &str) -> DescribeArgs {
    if let Command::Describe(args) = command(line) { args } else { panic!("{line}") }
}

/// Clusters in every trouble, and a fleet drawn by chance.
fn objects() -> Vec<Value> {
    let mut objects = fixture::every_state().into_objects();
    for object in &mut objects {
        object["metadata"].as_object_mut().expect("metadata").remove("resourceVersion");
    }
    objects.extend(Sample::parse("synthetic:clusters=12,machines=120").expect("a sample").objects(now()));
    objects
}

async fn server(objects: &[Value]) -> Connection {
    let options = StackOptions { engine: false, ..StackOptions::new(Clock::fixed(now()), Rng::seeded(7)) };
    let stack = Stack::start(Arc::new(MemoryStore::new()), options).await.expect("a server");
    stack.server().import(objects.iter().cloned()).await.expect("imported");
    stack.connection("test", true)
}

async fn watched(connection: &Connection) -> Fleet {
    let clock = Clock::fixed(now());
    let (mut batches, _source) =
        watch::spawn(connection, SourceId(0), Scope::default(), clock, Rng::seeded(1));
    let mut fleet = Fleet::new();
    let is_listed = |fleet: &Fleet| {
        fleet.feeds().count() >= watch::JUDGED_KINDS.len()
            && fleet.feeds().all(|(_, feed)| feed.state == FeedState::Live)
    };
    while !is_listed(&fleet) {
        fleet.apply(batches.recv().await.expect("a batch"));
    }
    fleet.advance(now());
    fleet
}

fn said_by(fleet: &Fleet) -> Said {
    let clusters = fleet.clusters().iter().filter_map(|id| Some((*id, fleet.row(*id)?)));
    let said = clusters.map(|(id, row)| {
        let name = (row.namespace.to_string(), row.name.to_string());
        (name, (fleet.verdict(id).word().to_owned(), fleet.what_is_wrong(id)))
    });
    said.collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn every_reader_says_the_same_verdict_and_cause() {
    let objects = objects();
    let connection = server(&objects).await;
    let fleet = watched(&connection).await;
    let truth = said_by(&fleet);
    assert_eq!(truth.len(), 16 + 12);
    let words: Vec<&str> = truth.values().map(|(verdict, _)| verdict.as_str()).collect();
    for verdict in ["ok", "progressing", "degraded", "blocked"] {
        assert!(words.contains(&verdict), "{verdict} among {words:?}");
    }
    assert_eq!(truth, of_get(&connection).await, "get --derived");
    assert_eq!(truth, of_describe(&connection, &truth).await, "describe");
    let page = metrics::text(&fleet);
    for ((namespace, name), (verdict, cause)) in &truth {
        let labels = format!("{{namespace=\"{namespace}\",cluster=\"{name}\",verdict=\"{verdict}\"");
        assert!(page.contains(&format!("capstan_cluster_verdict{labels}}} 1\n")), "{labels}");
        let cause = cause.replace('"', "\\\"");
        let has_cause = page.contains(&format!("capstan_cluster_cause{labels},cause=\"{cause}\"}} 1\n"));
        assert_eq!(has_cause, verdict != "ok", "{labels} {cause}");
    }
    for id in fleet.clusters() {
        let written = report(&fleet, *id, now()).expect("a report");
        let verdict = fleet.verdict(*id).word();
        assert!(written.lines().next().expect("a title").ends_with(&format!(": {verdict}")), "{written}");
    }
    let lines = watch_command::Said::default().look(&fleet, &[]);
    let of_watch = lines.into_iter().map(|change| match change {
        FleetNews::Cluster { namespace, name, verdict, why, .. } => {
            ((namespace, name), (verdict.word().to_owned(), why))
        }
        other => panic!("{other:?}"),
    });
    assert_eq!(of_watch.collect::<Said>(), truth, "watch");
    let mut turns = Turns::since_now(&before_any_report(&objects));
    for turn in turns.look(&fleet) {
        let said = (turn.after.word().to_owned(), turn.why);
        assert_eq!(Some(&said), truth.get(&(turn.namespace, turn.name)), "--on-turn");
    }
}

/// The same objects before their controllers said anything.
fn before_any_report(objects: &[Value]) -> Fleet {
    let mute = objects.iter().cloned().map(|mut object| {
        object["status"] = Value::Null;
        object
    });
    let mut fleet = Fleet::new();
    fleet.advance(now());
    fleet.apply(Recording::new(mute).deltas(SourceId(0), "before", now()));
    fleet
}

async fn of_get(connection: &Connection) -> Said {
    let Command::Get(args) = command("get clusters -o json --derived") else { panic!("get") };
    let answer = get::get(connection, &args, "", now(), Style::default()).await.expect("an answer");
    assert_eq!(answer.remarks, Vec::<String>::new());
    let list: Value = serde_json::from_str(&answer.document).expect("JSON");
    let items = list["items"].as_array().expect("items").iter();
    let said = items.map(|item| {
        let (metadata, derived) = (&item["metadata"], &item["derived"]);
        assert_eq!(derived["plan"]["kind"], "Cluster", "{derived}");
        let name = (text(&metadata["namespace"]), text(&metadata["name"]));
        (name, (text(&derived["verdict"]), text(&derived["summary"])))
    });
    said.collect()
}

async fn of_describe(connection: &Connection, truth: &Said) -> Said {
    let mut said = Said::new();
    for (namespace, name) in truth.keys() {
        let args = describe_args(&format!("describe cluster {name} -o json --exit-status"));
        let described = describe::describe(connection, &args, namespace, now(), Style::default()).await;
        let described = described.expect("an answer");
        let value: Value = serde_json::from_str(&described.document).expect("JSON");
        assert_eq!(value["verdict"], described.verdict.word());
        assert!(value["plan"].is_array(), "{value}");
        let one = (text(&value["verdict"]), text(&value["summary"]));
        said.insert((namespace.clone(), name.clone()), one);
    }
    said
}

#[tokio::test]
async fn files_of_a_cluster_have_its_verdict_and_cause() {
    let objects = objects();
    let truth = said_by(&watched(&server(&objects).await).await);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("dump.json");
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects});
    std::fs::write(&file, list.to_string()).expect("written");
    for ((namespace, name), (verdict, cause)) in &truth {
        let moment = capstan_base::time::rfc3339(now());
        let args =
            describe_args(&format!("describe cluster {name} -o json --now {moment} -f {}", file.display()));
        let described =
            from_files(&args, Some(namespace.as_str()), now(), Style::default()).expect("an answer");
        let value: Value = serde_json::from_str(&described.document).expect("JSON");
        assert_eq!((&text(&value["verdict"]), &text(&value["summary"])), (verdict, cause), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_waited_for_is_the_verdict_that_is_shown() {
    let connection = server(&objects()).await;
    let truth = said_by(&watched(&connection).await);
    for ((namespace, name), (verdict, _)) in truth.iter().take(16) {
        let Command::Wait(args) =
            command(&format!("wait cluster/{name} --for=verdict={verdict} --timeout 20s"))
        else {
            panic!("wait")
        };
        let waited = wait::wait(&connection, &args, namespace, Clock::fixed(now()), Rng::seeded(1)).await;
        assert_eq!(waited.expect("an answer"), Waited::Reached { remark: None }, "{name} {verdict}");
    }
}

#[tokio::test]
async fn the_page_of_metrics_is_served_to_who_asks_for_it() {
    let connection = server(&objects()).await;
    let clock = (Clock::fixed(now()), Rng::seeded(1));
    let page = Page::open(&connection, ([127, 0, 0, 1], 0).into(), "", clock).await.expect("a page");
    let address = page.address().expect("an address");
    let serving = tokio::spawn(page.serve());
    let mut answer = String::new();
    // The first lists are still being read when the first question comes.
    while !answer.contains("cluster=\"media\",verdict=\"blocked\"} 1") {
        answer = asked(address, "GET /metrics HTTP/1.1").await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    }
    assert!(
        answer.contains("capstan_kind_read{group=\"cluster.x-k8s.io\",kind=\"MachineHealthCheck\"} "),
        "{answer}"
    );
    for (line, status) in
        [("GET / HTTP/1.1", "404"), ("POST /metrics HTTP/1.1", "405"), ("\u{1b}[2J", "405"), ("", "405")]
    {
        let answer = asked(address, line).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{line}: {answer}");
    }
    serving.abort();
}

async fn asked(address: std::net::SocketAddr, line: &str) -> String {
    let mut stream = tokio::net::TcpStream::connect(address).await.expect("connected");
    stream.write_all(format!("{line}\r\nHost: x\r\n\r\n").as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    answer
}
