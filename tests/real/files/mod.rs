//! Restores that are all or nothing, stores that are gone, and files that are not ours, with the real
//! binary. Owns what the tests share. See also `keeping.rs`.

mod others;
mod paths;
mod restore;
mod sealed;

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use capstan_base::rng::Rng;

use crate::standalone::{BINARY, Standalone};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.at(name).display().to_string()
    }

    /// A server was here, in `data`, and was killed.
    fn served(extra: &[&str]) -> Self {
        let folder = Self::new();
        Standalone::start(folder.0.path(), &[&["--no-engine"], extra].concat()).kill();
        folder
    }
}

fn output_of(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().expect("it runs")
}

fn run(args: &[&str]) -> Output {
    output_of(Command::new(BINARY).args(args))
}

#[track_caller]
fn said(args: &[&str]) -> String {
    let output = run(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[track_caller]
fn refusal(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn refused(args: &[&str]) -> String {
    refusal(&run(args))
}

#[track_caller]
fn refused_with(args: &[&str], words: &[&str]) {
    let error = refused(args);
    for word in words {
        assert!(error.contains(word), "{args:?}: {word}: {error}");
    }
}

/// Kills a command at all moments of its life.
struct Killer {
    rng: Rng,
    /// How often one can look at it before it ends: a measure of time that needs no clock.
    looks: u64,
}

impl Killer {
    /// Measures a first run, which has to succeed.
    fn of(args: &[&str]) -> Self {
        let seed = std::env::var("CAPSTAN_ATTACK_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(5);
        println!("seed {seed} (CAPSTAN_ATTACK_SEED sets another)");
        let mut child = start(args);
        let looks = look(&mut child, u64::MAX);
        assert!(child.wait().expect("an end").success(), "{args:?}");
        Self { rng: Rng::seeded(seed), looks }
    }

    /// Runs it, and kills it at any moment; in the first round at once, in the second never.
    fn strikes(&self, round: u64, args: &[&str]) {
        let mut child = start(args);
        let most = match round {
            0 => 0,
            1 => u64::MAX,
            _ => self.rng.below(self.looks * 5 / 4),
        };
        look(&mut child, most);
        // It may have ended by itself.
        let _ = child.kill();
        child.wait().expect("an end");
    }
}

fn start(args: &[&str]) -> Child {
    let mut command = Command::new(BINARY);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("it runs")
}

/// Looks at a child until it ends, at most so many times. Returns how many it were.
fn look(child: &mut Child, most: u64) -> u64 {
    (0..most).take_while(|_| child.try_wait().expect("a state").is_none()).count() as u64
}

/// `CAPSTAN_RESTORE_KILLS`, or two dozen.
fn kills() -> u64 {
    std::env::var("CAPSTAN_RESTORE_KILLS").ok().and_then(|number| number.parse().ok()).unwrap_or(24)
}
