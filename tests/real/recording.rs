//! `capstan record` beside a server, killed in the middle, and the dashboard that replays the file.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use portable_pty::CommandBuilder;

use crate::standalone::{BINARY, Standalone};
use crate::terminal::Pty;

const KINDS: [&str; 8] = [
    "Cluster",
    "MachineDeployment",
    "MachineSet",
    "Machine",
    "MachinePool",
    "MachineHealthCheck",
    "KubeadmControlPlane",
    "Event",
];

fn replay(home: &Path, args: &[&str], file: &Path) -> Pty {
    let mut command = CommandBuilder::new(BINARY);
    command.arg("dashboard");
    command.args(args);
    command.arg(file);
    command.env("HOME", home);
    command.env("TERM", "xterm-256color");
    Pty::open(command)
}

#[test]
fn a_recording_that_is_killed_is_replayed_up_to_there() {
    let [folder, home] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let sample = ["--store", "memory", "--no-engine", "--sample", "synthetic:clusters=2,machines=4"];
    let server = Standalone::start(folder.path(), &sample);
    let file = home.path().join("night.jsonl");
    let mut record = Command::new(BINARY);
    record.arg("--kubeconfig").arg(server.kubeconfig()).arg("record").arg(&file).env("HOME", home.path());
    let mut recording = record.stderr(Stdio::null()).spawn().expect("it runs");
    let end = Instant::now() + Duration::from_secs(60);
    let text = loop {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let is_live = |kind: &&str| {
            let of_kind = |line: &&str| line.contains(&format!("\"kind\":\"{kind}\""));
            text.lines().filter(of_kind).any(|line| line.contains("\"state\":\"live\""))
        };
        if KINDS.iter().all(is_live) {
            break text;
        }
        assert!(Instant::now() < end, "{text}");
        std::thread::yield_now();
    };
    recording.kill().expect("killed");
    recording.wait().expect("gone");
    let mode = std::fs::metadata(&file).expect("the file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(!text.contains("managedFields") && !text.contains("\"kind\":\"Secret\""), "{text}");
    let mut screen = replay(home.path(), &["-f"], &file);
    screen.shows("replay");
    screen.shows("recorded");
    screen.shows("paused");
    screen.press("p");
    screen.shows("read-only");
    screen.press("\u{3}");
    screen.end();
    // Cut within its last line.
    std::fs::write(&file, &text[..text.len() - 5]).expect("a file");
    let mut screen = replay(home.path(), &["--replay"], &file);
    screen.shows("The recording ends early");
    screen.shows("the line is cut");
    screen.press("\u{1b}");
    // The last kind was not told to be live any more.
    screen.shows("fleet-0000");
    screen.press("\u{3}");
    screen.end();
    assert!(!home.path().join(".local/state/capstan/history").exists(), "a replay keeps nothing");
    // Never over a file that is there.
    let again = record.stderr(Stdio::piped()).output().expect("it runs");
    let said = String::from_utf8_lossy(&again.stderr);
    assert!(!again.status.success() && said.contains("night.jsonl"), "{said}");
}

#[test]
fn a_recording_ends_after_its_time() {
    let [folder, home] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let server = Standalone::start(folder.path(), &["--store", "memory", "--no-engine"]);
    let file = home.path().join("short.jsonl");
    let path = file.to_str().expect("a path");
    let output = server.capstan(&["record", path, "--for", "1s"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("dashboard --replay"), "{said}");
    let text = std::fs::read_to_string(&file).expect("text");
    assert!(text.starts_with("{\"recording\":") && text.ends_with("\"why\":\"over\"}}\n"), "{text}");
}
