//! The standing attack: what a bad day does to capstan, made on purpose and counted. Owns the bounds of a run, the
//! server that is attacked and the figures that are printed; each file here is one attack. `tests/attack/run` runs
//! them for minutes; the suite runs the same code for a few rounds. docs/reliability.md has the last figures.

mod churn;
mod dashboard;
mod hostile_http;
mod hostile_text;
mod kills;
mod measures;
mod proxy;
mod read_only;
mod recorder;

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use capstan_base::rng::Rng;
use kube::Client;

use crate::standalone::{BINARY, Standalone};

/// For how many minutes an attack goes on; without it a few rounds.
const MINUTES: &str = "CAPSTAN_ATTACK_MINUTES";
/// Where its chance begins.
const SEED: &str = "CAPSTAN_ATTACK_SEED";

/// Longest wait for anything that has to come; who waits so long, waits for ever.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long an attack goes on, and its chance.
pub struct Bounds {
    pub rng: Rng,
    rounds_left: u64,
    end: Option<Instant>,
}

impl Bounds {
    /// In the suite an attack has this many rounds.
    pub fn of(rounds: u64) -> Self {
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let rng = Rng::seeded(number(SEED).unwrap_or(1));
        println!("seed {} ({SEED} sets another)", rng.seed());
        let end = number(MINUTES).map(|minutes| Instant::now() + Duration::from_secs(minutes * 60));
        Self { rng, rounds_left: rounds, end }
    }

    pub fn is_long(&self) -> bool {
        self.end.is_some()
    }

    /// Whether another round begins.
    pub fn goes_on(&mut self) -> bool {
        match self.end {
            Some(end) => Instant::now() < end,
            None => {
                let left = self.rounds_left;
                self.rounds_left = left.saturating_sub(1);
                left > 0
            }
        }
    }
}

/// What comes in time; otherwise the attack has found something that hangs.
pub async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("waited {} s in vain for {what}", PATIENCE.as_secs()),
    }
}

/// A headless server that is attacked: it can be killed and started again on its data, and what it complains about
/// is kept.
pub struct Target {
    folder: tempfile::TempDir,
    extra: Vec<String>,
    running: Option<Standalone>,
}

impl Target {
    pub fn new(extra: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self { folder, extra: extra.iter().map(|&word| word.to_owned()).collect(), running: None }
    }

    pub fn started(extra: &[&str]) -> Self {
        let mut target = Self::new(extra);
        target.start();
        target
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn data_file(&self) -> PathBuf {
        self.folder().join("data/store.redb")
    }

    fn errors(&self) -> PathBuf {
        self.folder().join("errors")
    }

    fn spawn(&self) -> Child {
        let mut shell = Command::new("sh");
        shell.args(["-c", "exec 2>>\"$ERRORS\"; exec \"$0\" \"$@\"", BINARY]).env("ERRORS", self.errors());
        let extra: Vec<&str> = self.extra.iter().map(String::as_str).collect();
        Standalone::spawn(shell, "127.0.0.1:0", self.folder(), &extra)
    }

    /// Starts it and waits until it serves; how long that took.
    pub fn start(&mut self) -> Duration {
        let began = Instant::now();
        self.running = Some(Standalone::served(self.spawn(), self.folder()));
        began.elapsed()
    }

    /// Starts it and kills it after `life`; whether it served by then.
    pub fn start_and_kill(&self, life: Duration) -> bool {
        let mut child = self.spawn();
        let mut output = BufReader::new(child.stdout.take().expect("its output"));
        let (said, lines) = mpsc::channel();
        let reader = std::thread::spawn(move || {
            let mut line = String::new();
            if output.read_line(&mut line).is_ok_and(|read| read > 0) {
                let _ = said.send(());
            }
        });
        let served = lines.recv_timeout(life).is_ok();
        child.kill().expect("kill -9");
        child.wait().expect("gone");
        reader.join().expect("the reader ends with the pipe");
        served
    }

    /// kill -9.
    pub fn kill(&mut self) {
        self.running.take().expect("it runs").kill();
    }

    pub fn server(&self) -> &Standalone {
        self.running.as_ref().expect("it runs")
    }

    pub async fn client(&self) -> Client {
        self.server().client().await
    }

    /// Nothing panicked; whoever ends an attack asks this.
    pub fn assert_calm(&self) {
        let said = self.complaints();
        assert!(!said.contains("panicked"), "the server panicked:\n{said}");
    }

    /// What it wrote to standard error.
    pub fn complaints(&self) -> String {
        let bytes = std::fs::read(self.errors()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
