//! One dashboard over several servers of a kubeconfig, one after the other, and in whose name it asks.

use std::os::unix::fs::PermissionsExt;
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

const V1: &str = "client.authentication.k8s.io/v1";

/// Asks somebody to open a page, and waits for that.
const DEVICE: &str = r#"#!/bin/sh
cd "$(dirname "$0")"
echo "open https://login.example and enter ABCD-EFGH" >&2
while ! test -e approved; do sleep 0.1; done
cat credential
"#;

/// A kubeconfig with the contexts `east` and `west` for two servers, `lost`, whose user has a certificate that is not there, and
/// `device`, which is `west` with a plugin that waits until `approved` stands beside the file.
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
            { "name": "device", "user": { "exec": {
                "apiVersion": V1, "command": "./login-device", "interactiveMode": "IfAvailable" } } },
        ],
        "contexts": [
            context("east", "east"), context("west", "west"),
            { "name": "lost", "context": { "cluster": "west", "user": "lost" } },
            { "name": "device", "context": { "cluster": "west", "user": "device" } },
        ],
    });
    std::fs::write(path, config.to_string()).expect("written");
    let folder = path.parent().expect("a folder");
    let status = json!({ "token": west["users"][0]["user"]["token"] });
    let credential = json!({ "apiVersion": V1, "kind": "ExecCredential", "status": status });
    std::fs::write(folder.join("credential"), credential.to_string()).expect("written");
    std::fs::write(folder.join("login-device"), DEVICE).expect("written");
    std::fs::set_permissions(folder.join("login-device"), PermissionsExt::from_mode(0o755))
        .expect("executable");
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
    screen.shows("there is no context `nowhere`; it has: east, west, lost, device");
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
    // What a plugin says is shown while it runs, and the keys stay the dashboard's.
    screen.press(":context device\r");
    screen.shows("enter ABCD-EFGH");
    screen.shows("It is stopped after 300 s");
    screen.press("\u{1b}");
    screen.until("hidden", |s| !s.text().contains("ABCD-EFGH") && s.text().contains("kind: Cluster"));
    std::fs::write(home.path().join("approved"), "").expect("written");
    let header = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    screen.until("logged in", |s| header(&s.text()).contains("device"));
    screen.until("its clusters", |s| s.text().contains("clusters 3"));
    // The name of what is open connects anew.
    screen.press(":context device\r");
    screen.shows("this is device");
    screen.press("\u{3}");
    screen.end();
}

#[test]
fn what_is_set_for_a_context_holds_in_the_dashboard_and_for_commands() {
    let [east, west, home] = [(); 3].map(|()| tempfile::tempdir().expect("a folder"));
    let (east, west) = (
        server(east.path(), "synthetic:clusters=2,machines=4"),
        server(west.path(), "synthetic:clusters=3,machines=6"),
    );
    let config = home.path().join("config");
    kubeconfig(&east, &west, &config);
    let settings = home.path().join("capstan/contexts.toml");
    std::fs::create_dir(home.path().join("capstan")).expect("a folder");
    let text = "[[context]]\nname = 'ea*'\nrank = 'production'\nword = 'PROD'\nread-only = true\n";
    std::fs::write(&settings, text).expect("written");
    let kubeconfig = config.to_str().expect("a path");

    let mut command = CommandBuilder::new(BINARY);
    command.args(["--kubeconfig", kubeconfig]);
    command.env("HOME", home.path());
    command.env("XDG_CONFIG_HOME", home.path());
    command.env("TERM", "xterm-256color");
    let mut screen = Pty::open(command);
    let header = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    screen.until("the word, and that nothing can be written", |s| {
        let header = header(&s.text());
        header.contains(" PROD  east") && header.contains("read-only")
    });
    screen.press(":context west\r");
    screen.until("neither holds for the other", |s| {
        let header = header(&s.text());
        header.contains("west") && !header.contains("PROD") && !header.contains("read-only")
    });
    screen.press("\u{3}");
    screen.end();

    let pause = |context: &str| {
        let mut command = std::process::Command::new(BINARY);
        command.args(["--kubeconfig", kubeconfig, "--context", context, "pause", "cluster/nowhere", "--yes"]);
        command.env("HOME", home.path()).env("XDG_CONFIG_HOME", home.path());
        let answer = command.output().expect("an answer");
        assert!(!answer.status.success());
        String::from_utf8_lossy(&answer.stderr).into_owned()
    };
    assert!(pause("east").contains("read-only"), "{}", pause("east"));
    assert!(pause("west").contains("nowhere"), "{}", pause("west"));
    std::fs::write(&settings, "[[context]]\nname = 'ea*'\nread_only = true\n").expect("written");
    let said = pause("west");
    assert!(said.contains("contexts.toml:3: ") && said.contains("read_only"), "{said}");
}

#[test]
fn a_start_that_fails_offers_the_other_contexts() {
    let [east, west, home] = [(); 3].map(|()| tempfile::tempdir().expect("a folder"));
    let (east, west) = (
        server(east.path(), "synthetic:clusters=2,machines=4"),
        server(west.path(), "synthetic:clusters=3,machines=6"),
    );
    let config = home.path().join("config");
    kubeconfig(&east, &west, &config);
    let mut command = CommandBuilder::new(BINARY);
    command.args(["--kubeconfig", config.to_str().expect("a path"), "--context", "lost"]);
    command.env("HOME", home.path());
    command.env("TERM", "xterm-256color");
    let mut screen = Pty::open(command);
    screen.shows("The context was not opened");
    screen.shows("/nowhere/lost.crt");
    screen.shows(":context NAME opens one of: east, west, lost, device");
    screen.press("\r:context east\r");
    screen.until("the first server", |s| s.text().contains("east") && s.text().contains("clusters 2"));
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
