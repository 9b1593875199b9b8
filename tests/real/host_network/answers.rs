//! Machines whose answers cannot be used: garbage, escape sequences, a stream without an end, or silence. Each look ends within its
//! time, keeps little, and is said in a sentence without control bytes.

use std::time::{Duration, Instant};

use serde_json::json;

use super::machine::{Client, Machine, Wishes};
use super::rack::{Rack, said};

/// An answer, and what is said of it.
struct Answer {
    name: &'static str,
    /// Lines for a shell.
    lines: &'static str,
    expected: &'static str,
}

const CUT_OFF: &str = "the answer of the machine has no end";

const ANSWERS: [Answer; 8] = [
    Answer { name: "garbage", lines: "head -c 300000 /dev/urandom", expected: CUT_OFF },
    Answer {
        name: "sequences",
        lines: r"printf 'kernel=\033[2J\033]0;owned\007\033[31m6.1\nos=\r\303\033[Aevil\nhostname=\342\200\256x\nend=yes\n'",
        expected: "",
    },
    Answer {
        name: "complaint",
        lines: r"printf '\033]52;c;ZXZpbA==\007\033[5mno\n' >&2; exit 3",
        expected: CUT_OFF,
    },
    Answer { name: "half", lines: "echo kernel=6.1; echo cpus=", expected: CUT_OFF },
    Answer {
        name: "line",
        lines: "head -c 20000000 /dev/zero | tr '\\0' x; echo; echo end=yes",
        expected: "",
    },
    Answer { name: "lines", lines: "yes listens=1 | head -n 500000; echo end=yes", expected: CUT_OFF },
    Answer { name: "ended", lines: "echo gone >&2; exit 255", expected: "gone" },
    // It ends with its session.
    Answer { name: "silent", lines: "exec tail -f /dev/null --pid=$PPID", expected: "no end within" },
];

/// One sshd, which answers otherwise at each of its ports.
async fn machine() -> Option<Machine> {
    let config = "ForceCommand . \"$MACHINE/answers/${SSH_CONNECTION##* }\"";
    let machine = Machine::start(Wishes { ports: ANSWERS.len() + 1, ..Wishes::with(config) }).await?;
    std::fs::create_dir(machine.at("answers")).expect("a folder");
    let endless = "cat >/dev/null; exec cat /dev/zero";
    for (port, lines) in machine.ports.iter().zip(ANSWERS.iter().map(|it| it.lines).chain([endless])) {
        std::fs::write(machine.at("answers").join(port.to_string()), lines).expect("written");
    }
    Some(machine)
}

/// Nothing for a terminal to obey: no control byte but a newline, and no sign that turns text around.
fn is_harmless(text: &str) -> bool {
    text.chars().all(|c| c == '\n' || !(c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c)))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_answer_is_said_in_a_sentence() {
    let Some(machine) = machine().await else { return };
    let client = Client::of(&machine, &machine.known_at("*"));
    for (Answer { name, expected, .. }, port) in ANSWERS.iter().zip(&machine.ports) {
        let place = format!("127.0.0.1:{port}");
        let begun = Instant::now();
        let (code, text) = client.check(&[&place, "--timeout", "5s"]);
        assert!(begun.elapsed() < Duration::from_secs(30), "{name}: {:?}", begun.elapsed());
        assert!(matches!(code, Some(11 | 13)), "{name}: {code:?} {text}");
        assert!(text.contains(expected), "{name}: {text}");
        assert!(is_harmless(&text), "{name}: {text:?}");
        assert!(text.len() < 20_000, "{name}: {} bytes", text.len());
        let (_, json) = client.check(&[&place, "--timeout", "5s", "-o", "json"]);
        assert!(is_harmless(&json) && json.len() < 40_000, "{name}: {json:?}");
    }
}

/// In KiB, the most that a process ever had.
fn memory_peak(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_without_an_end_costs_little() {
    let Some(machine) = machine().await else { return };
    let client = Client::of(&machine, &machine.known_at("*"));
    let port = machine.ports[ANSWERS.len()];
    let mut child = std::process::Command::new(crate::standalone::BINARY)
        .args(["host", "check", "--ssh-program", &client.program(), "--timeout", "2s"])
        .arg(format!("127.0.0.1:{port}"))
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("it runs");
    let (begun, mut peak) = (Instant::now(), 0);
    while child.try_wait().expect("a process").is_none() {
        peak = peak.max(memory_peak(child.id()));
        assert!(begun.elapsed() < Duration::from_secs(30), "it has no end");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // 16 MiB of a stream are kept, and a vector grows to twice of what it holds.
    assert!(peak < 200_000, "{peak} KiB");
    println!("an endless answer: {peak} KiB at most");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_answers_nonsense_has_a_condition() {
    let Some(machine) = machine().await else { return };
    let client = Client::of(&machine, "");
    let rack = Rack::start(&client).await;
    let before = memory_peak(rack.server.id());
    for (Answer { name, .. }, port) in ANSWERS.iter().zip(&machine.ports) {
        let spec =
            json!({"address": "127.0.0.1", "connection": {"port": port}, "hostKeys": [machine.host_key()]});
        rack.host(name, spec).await;
    }
    for Answer { name, expected, .. } in &ANSWERS {
        let host = rack.until(name, "a look", |host| !said(host, "Reachable").contains("NotAskedYet")).await;
        let (reachable, available) = (said(&host, "Reachable"), said(&host, "Available"));
        assert!(reachable.contains(expected), "{name}: {reachable}");
        assert!(!available.starts_with("True"), "{name}: {available}");
        assert!(is_harmless(&serde_json::to_string(&host).expect("JSON")), "{name}: {host:?}");
    }
    let list = rack.list();
    assert!(is_harmless(&list), "{list:?}");
    let grown = memory_peak(rack.server.id()).saturating_sub(before);
    assert!(grown < 400_000, "{grown} KiB");
    println!("{} hosts that answer nonsense: {grown} KiB more", ANSWERS.len());
    print!("{list}");
}
