//! One dashboard over several servers of a kubeconfig, one after the other, and in whose name it asks.

use std::path::Path;

use capi_types::key::Gvk;
use capi_types::machine::Machine;
use capstan_dashboard::tui::command::complete;
use capstan_dashboard::tui::effect::Effect;
use capstan_dashboard::tui::model::{Look, Model, Session};
use capstan_dashboard::tui::script::{press, text};
use capstan_dashboard::tui::{Tier, command};
use capstan_engine::client::{ConnectOptions, Impersonated, connect, read};
use portable_pty::CommandBuilder;
use ratatui::layout::Rect;
use serde_json::{Value, json};

use crate::fleet_fixture::now;
use crate::standalone::{BINARY, Standalone};
use crate::terminal::Pty;

/// A kubeconfig with the contexts `east` and `west` for two servers, and `lost`, whose user has a certificate that is not there.
fn kubeconfig(east: &Standalone, west: &Standalone, path: &Path) {
    let read = |server: &Standalone| -> Value {
        let text = std::fs::read_to_string(server.kubeconfig()).expect("a kubeconfig");
        serde_saphyr::from_str(&text).expect("a document")
    };
    let (east, west) = (read(east), read(west));
    let part = |config: &Value, list: &str, what: &str, name: &str| json!({ "name": name, what: config[list][0][what] });
    let context =
        |name: &str, user: &str| json!({ "name": name, "context": { "cluster": name, "user": user } });
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "east",
        "clusters": [part(&east, "clusters", "cluster", "east"), part(&west, "clusters", "cluster", "west")],
        "users": [
            part(&east, "users", "user", "east"), part(&west, "users", "user", "west"),
            { "name": "lost", "user": { "client-certificate": "/nowhere/lost.crt", "client-key": "/nowhere/lost.key" } },
        ],
        "contexts": [
            context("east", "east"), context("west", "west"),
            { "name": "lost", "context": { "cluster": "west", "user": "lost" } },
        ],
    });
    std::fs::write(path, config.to_string()).expect("written");
}

fn server(folder: &Path, clusters: &str) -> Standalone {
    Standalone::start(folder, &["--store", "memory", "--no-engine", "--sample", clusters])
}

#[test]
fn another_context_takes_the_place_of_the_one_that_is_shown() {
    let [east, west, home] = [(); 3].map(|()| tempfile::tempdir().expect("a folder"));
    let (east, west) = (
        server(east.path(), "synthetic:clusters=2,machines=4"),
        server(west.path(), "synthetic:clusters=3,machines=6"),
    );
    let config = home.path().join("config");
    kubeconfig(&east, &west, &config);
    let mut command = CommandBuilder::new(BINARY);
    command.args(["--kubeconfig", config.to_str().expect("a path")]);
    command.env("HOME", home.path());
    command.env("TERM", "xterm-256color");
    let mut screen = Pty::open(command);
    screen.until("the first server", |s| s.text().contains("east") && s.text().contains("clusters 2"));
    screen.press(":context nowhere\r");
    screen.shows("there is no context `nowhere`; it has: east, west, lost");
    screen.press(":context lost\r");
    screen.shows("The context was not opened");
    screen.shows("What was open before stays.");
    screen.press("\r:ctx west\r");
    screen.until("the second server", |s| s.text().contains("west") && s.text().contains("clusters 3"));
    // Its objects can be followed.
    screen.press("d");
    screen.shows("Cluster ");
    screen.press("2");
    screen.shows("kind: Cluster");
    screen.press("\u{3}");
    screen.end();
}

#[test]
fn contexts_are_offered_where_there_is_a_kubeconfig() {
    let look = Look::load("default", "default", Tier::None, false, None, command::check)
        .expect("shipped files load");
    let mut model = Model::new(Session::default(), look, Rect::new(0, 0, 80, 24), now());
    press(&mut model, "\":context a\" enter").expect("keys");
    assert!(text(&mut model).contains("there is no kubeconfig behind this"));
    model.contexts = vec!["prod-eu".to_owned(), "prod-us".to_owned(), "lab".to_owned()];
    let offered: Vec<String> = complete(&model, "context prod").into_iter().map(|c| c.line).collect();
    assert_eq!(offered, ["context prod-eu", "context prod-us"]);
    let effects = press(&mut model, "\":context prod-us\" enter").expect("keys");
    assert!(effects.iter().any(|effect| matches!(effect, Effect::OpenContext(name) if name == "prod-us")));
}

#[tokio::test]
async fn requests_are_sent_in_the_name_of_somebody_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = server(folder.path(), "synthetic:clusters=1,machines=2");
    let machines = async |user: Option<&str>, groups: &[&str]| {
        let impersonated = Impersonated {
            user: user.map(str::to_owned),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        };
        let kubeconfig = Some(server.kubeconfig());
        let options = ConnectOptions { kubeconfig, impersonated, ..ConnectOptions::default() };
        let connection = connect(&options).await.expect("a connection");
        let listed = read::list_values(&connection.client, &Gvk::of::<Machine>(), "", "").await;
        listed.map(|values| values.len()).map_err(|error| error.to_string())
    };
    assert_eq!(machines(None, &[]).await, Ok(2));
    assert_eq!(machines(Some("jane"), &["staff", "capstan:viewers"]).await, Ok(2));
    let refused = machines(Some("jane"), &["staff"]).await.expect_err("she may not");
    assert!(refused.contains("jane"), "{refused}");

    let refused = server.capstan(&["get", "machines", "-A", "--as", "jane"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("jane"), "{said}");
    server.says(&["get", "machines", "-A", "--as", "jane", "--as-group", "capstan:viewers"]);
    let wrong = server.capstan(&["get", "machines", "--as-group", "capstan:viewers"]);
    assert_eq!(wrong.status.code(), Some(2), "a group needs a user");
}
