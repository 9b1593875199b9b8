//! A server that hangs, and a dashboard in a terminal that must not call it live: the real binary twice,
//! one of them stopped by SIGSTOP.

use std::process::Command;
use std::time::{Duration, Instant};

use portable_pty::CommandBuilder;

use crate::standalone::{BINARY, Standalone};
use crate::terminal::Pty;

/// How soon the screen must say it, with room for a machine that is busy.
const NOTICED_MAX: Duration = Duration::from_secs(30);

fn signal(server: &Standalone, name: &str) {
    let sent = Command::new("kill").args([name, &server.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

#[test]
fn a_stopped_server_is_not_called_live() {
    let folder = tempfile::tempdir().expect("a folder");
    let server =
        Standalone::start(folder.path(), &["--no-engine", "--sample", "synthetic:clusters=2,machines=20"]);
    let mut command = CommandBuilder::new(BINARY);
    command.args(["--kubeconfig", &server.kubeconfig().display().to_string(), "--read-only"]);
    command.env("HOME", folder.path());
    command.env("TERM", "xterm-256color");
    let mut dashboard = Pty::open(command);
    dashboard.until("the fleet", |s| s.text().lines().next().is_some_and(|line| line.contains("live")));

    signal(&server, "-STOP");
    let stopped_at = Instant::now();
    dashboard.until_within(NOTICED_MAX, "no answer", |s| s.text().contains("no answer for"));
    println!("noticed after {:.1} s", stopped_at.elapsed().as_secs_f64());
    let head = dashboard.text().lines().next().unwrap_or_default().to_owned();
    assert!(!head.contains("live"), "{head}");
    assert!(dashboard.text().contains("did not answer in time"), "the reason:\n{}", dashboard.text());

    signal(&server, "-CONT");
    dashboard.until("the server again", |s| {
        s.text().lines().next().is_some_and(|line| line.contains("live")) && !s.text().contains("no answer")
    });
    dashboard.press("q");
}
