//! What happened is kept on disk between runs of the dashboard: privately, over kill -9 and damage, by two of them at once,
//! or not at all.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use portable_pty::CommandBuilder;

use crate::standalone::{BINARY, Standalone};
use crate::terminal::Pty;

fn dashboard(server: &Standalone, home: &Path, more: &[&str]) -> Pty {
    let mut command = CommandBuilder::new(BINARY);
    command.arg("--kubeconfig");
    command.arg(server.kubeconfig());
    command.args(more);
    command.env("HOME", home);
    command.env_remove("XDG_STATE_HOME");
    command.env("TERM", "xterm-256color");
    let mut screen = Pty::open(command);
    screen.shows("live");
    screen
}

fn leave(mut screen: Pty) {
    screen.press("\u{3}");
    screen.end();
}

fn files(home: &Path, extension: &str) -> Vec<PathBuf> {
    let folder = home.join(".local/state/capstan/history");
    let all = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    all.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == extension)).collect()
}

#[test]
fn the_history_of_a_server_is_kept_between_runs() {
    let [folder, home] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let sample = ["--store", "memory", "--no-engine", "--sample", "synthetic:clusters=2,machines=4"];
    let server = Standalone::start(folder.path(), &sample);
    leave(dashboard(&server, home.path(), &["--no-history"]));
    assert_eq!(files(home.path(), "jsonl"), Vec::<PathBuf>::new());

    leave(dashboard(&server, home.path(), &[]));
    let [file] = &files(home.path(), "jsonl")[..] else { panic!("one server") };
    let mode = std::fs::metadata(file).expect("the file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let first = std::fs::read_to_string(file).expect("text");
    assert!(first.contains("\"began\"") && first.ends_with("\"ended\"}}\n"), "{first}");
    assert_eq!(first.matches("\"turned\"").count(), 2, "how both clusters stand: {first}");

    // Half a line, as of a process that was killed while it wrote.
    std::fs::write(file, format!("{first}{{\"turned\":{{\"at\":17")).expect("a file");
    let mut screen = dashboard(&server, home.path(), &[]);
    screen.shows("A file could not be used");
    screen.press("\u{1b}");
    leave(dashboard(&server, home.path(), &[]));
    leave(screen);
    assert_eq!(files(home.path(), "damaged").len(), 1);
    let all = std::fs::read_to_string(file).expect("text");
    assert!(all.starts_with(&first) && all.matches("\"began\"").count() == 3, "{all}");
    assert_eq!(all.matches("\"turned\"").count(), 2, "nothing turned: {all}");
    for line in all.lines() {
        serde_json::from_str::<serde_json::Value>(line).expect("whole lines");
    }
}

/// What was written before a kill is there afterwards.
#[test]
fn a_dashboard_that_is_killed_leaves_what_it_had_added() {
    let [folder, home] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let sample = ["--store", "memory", "--no-engine", "--sample", "synthetic:clusters=2,machines=4"];
    let server = Standalone::start(folder.path(), &sample);
    let mut screen = dashboard(&server, home.path(), &[]);
    // The first lines are added as soon as everything is listed, by another thread.
    for _ in 0..500 {
        if !files(home.path(), "jsonl").is_empty() {
            break;
        }
        screen.press("?");
        screen.shows("esc");
        screen.press("\u{1b}");
        screen.shows("live");
    }
    screen.kill();
    let [file] = &files(home.path(), "jsonl")[..] else { panic!("one server") };
    let text = std::fs::read_to_string(file).expect("text");
    assert!(text.starts_with("{\"") && text.ends_with('\n'), "{text}");
}
