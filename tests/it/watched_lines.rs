//! `capstan watch`: what is so, what changes, and what is said while the server is not heard.

use std::io::{self, Write};
use std::sync::Arc;

use capstan::cli::args::{Cli, Command};
use capstan_base::rng::Rng;
use capstan_base::time::Clock;
use capstan_commands::watch::{FleetNews, Said, WatchArgs, watch};
use capstan_dashboard::fleet::watch::Recording;
use capstan_dashboard::fleet::{Delta, FeedState, Fleet, SourceId, Verdict};
use capstan_engine::client::Connection;
use capstan_store::MemoryStore;
use capstan_worlds::standalone::stack::{Stack, StackOptions};
use clap::Parser as _;
use kube::api::{DeleteParams, ListParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, ResourceExt as _};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::fleet_fixture::{self as fixture, now};

/// A reader of lines, who may go.
struct Lines(mpsc::UnboundedSender<String>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes).into_owned();
        self.0.send(text).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn args(line: &str) -> WatchArgs {
    let words = std::iter::once("capstan").chain(line.split(' '));
    match Cli::try_parse_from(words).expect("it parses").command {
        Some(Command::Watch(args)) => args,
        _ => panic!("{line}"),
    }
}

async fn stack() -> Stack {
    let options = StackOptions { engine: false, ..StackOptions::new(Clock::fixed(now()), Rng::seeded(7)) };
    let stack = Stack::start(Arc::new(MemoryStore::new()), options).await.expect("a server");
    let objects = fixture::every_state().into_objects().into_iter().map(|mut object| {
        object["metadata"].as_object_mut().expect("metadata").remove("resourceVersion");
        object
    });
    stack.server().import(objects).await.expect("imported");
    stack
}

/// The next whole line.
async fn line(lines: &mut mpsc::UnboundedReceiver<String>) -> String {
    let mut line = String::new();
    while !line.ends_with('\n') {
        line.push_str(&lines.recv().await.expect("a line"));
    }
    line
}

fn clusters(connection: &Connection) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "Cluster"));
    Api::all_with(connection.client.clone(), &kind)
}

async fn delete(connection: &Connection, cluster: &DynamicObject) {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta2", "Cluster"));
    let namespace = cluster.metadata.namespace.as_deref().expect("a namespace");
    let api: Api<DynamicObject> = Api::namespaced_with(connection.client.clone(), namespace, &kind);
    api.delete(&cluster.name_any(), &DeleteParams::default()).await.expect("deleted");
}

#[tokio::test]
async fn what_is_so_is_said_first_and_then_what_changes_until_the_reader_goes() {
    let stack = stack().await;
    let connection = stack.connection("test", false);
    let all = clusters(&connection).list(&ListParams::default()).await.expect("listed").items;
    let [one, two, unnamed] = all.get(..3).expect("three clusters") else { panic!("three") };
    let (sender, mut lines) = mpsc::unbounded_channel();
    let (watched, named) =
        (connection.clone(), format!("watch {} {} -o json", one.name_any(), two.name_any()));
    let watching = tokio::spawn(async move {
        let clock = (Clock::fixed(now()), Rng::seeded(1));
        watch(&watched, &args(&named), "", clock, &mut Lines(sender)).await
    });
    for _ in 0..2 {
        let first: Value = serde_json::from_str(&line(&mut lines).await).expect("JSON");
        assert_eq!(first["kind"], "cluster");
        assert!(first.get("before").is_none() && first["verdict"].is_string(), "{first}");
    }
    delete(&connection, unnamed).await;
    delete(&connection, one).await;
    // It may be seen on its way out before it is gone.
    let mut said = line(&mut lines).await;
    while !said.contains(r#""kind":"deleted""#) {
        assert!(said.contains(&one.name_any()), "only what was named and changed: {said}");
        said = line(&mut lines).await;
    }
    assert!(said.contains(&one.name_any()), "{said}");
    drop(lines);
    delete(&connection, two).await;
    watching.await.expect("no panic").expect("a reader that goes is not an error");
}

#[test]
fn nothing_is_said_to_be_gone_while_the_server_is_not_heard() {
    let mut fleet = Fleet::new();
    fleet.advance(now());
    fleet.apply(Recording::new(fixture::every_state().into_objects()).deltas(SourceId(0), "test", now()));
    let mut said = Said::default();
    let first = said.look(&fleet, &[]);
    assert!(
        first.len() > 5 && matches!(first[0], FleetNews::Cluster { verdict: Verdict::Blocked, .. }),
        "{first:?}"
    );
    assert_eq!(said.look(&fleet, &[]), [], "nothing changed");
    let feed = fleet.feeds().next().map(|(key, _)| key.clone()).expect("a feed");
    let turn = |fleet: &mut Fleet, state| {
        fleet.apply(vec![Delta::Feed { feed: feed.clone(), state, at: now() }]);
    };
    turn(&mut fleet, FeedState::Lost { error: "connection refused".into() });
    let lost = said.look(&fleet, &[]);
    assert!(
        matches!(lost.as_slice(), [FleetNews::Lost { error }] if error.contains("connection refused")),
        "{lost:?}"
    );
    assert_eq!(said.look(&fleet, &[]), [], "said once");
    let mut late = Said::default();
    assert!(
        matches!(late.changes(&fleet, &[]).as_slice(), [FleetNews::Lost { .. }]),
        "before anything was listed"
    );
    turn(&mut fleet, FeedState::Live);
    assert_eq!(said.look(&fleet, &[]), [FleetNews::Back]);
    assert_eq!(late.changes(&fleet, &[]), [FleetNews::Back], "what is so at the beginning is left out");
}
