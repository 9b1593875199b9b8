//! kubectl against the real binary over TLS. Owns the server a test talks to and how kubectl is run;
//! the modules say what people do with it. Skips, saying so, where kubectl is missing or too old.

mod apply;
mod kinds;
mod leader_migration;
mod paths;
mod people;
mod sessions;
mod transcript;
mod verbs;

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::standalone::Standalone;

/// The oldest kubectl whose output and flags the tests know.
const MINOR_MIN: u32 = 28;

/// `1.N` of the installed kubectl.
fn minor_version() -> Option<u32> {
    let output = Command::new("kubectl").args(["version", "--client", "-o", "json"]).output().ok()?;
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    answer["clientVersion"]["minor"].as_str()?.trim_end_matches('+').parse().ok()
}

/// A server of its own, and a folder with its kubeconfigs, kubectl's cache and the test's files.
struct Kubectl {
    folder: tempfile::TempDir,
    server: Standalone,
}

impl Kubectl {
    /// A server without engine on a port of its own; `None` where kubectl is not installed.
    fn start() -> Option<Self> {
        Self::with(&["--no-engine"])
    }

    /// The same with other options.
    fn with(options: &[&str]) -> Option<Self> {
        match minor_version() {
            Some(minor) if minor >= MINOR_MIN => {}
            Some(minor) => {
                println!("skipped: kubectl 1.{minor} is too old for what is tested; 1.{MINOR_MIN} is needed");
                return None;
            }
            None => {
                println!("skipped: kubectl is not installed");
                return None;
            }
        }
        let folder = tempfile::tempdir().expect("a folder");
        let server = Standalone::start(folder.path(), options);
        let admin = std::fs::read_to_string(server.kubeconfig()).expect("a kubeconfig");
        let token = |name| std::fs::read_to_string(folder.path().join("data").join(name)).expect("a token");
        let viewer = admin.replace(token("admin.token").trim(), token("read-only.token").trim());
        for (name, text) in [("admin", &admin), ("viewer", &viewer)] {
            std::fs::write(folder.path().join(name), text).expect("a kubeconfig");
        }
        Some(Self { folder, server })
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path
    }

    /// Runs in the test's folder: files are named without a path.
    fn command(&self, who: &str, args: &[&str]) -> Command {
        let mut command = Command::new("kubectl");
        let folder = self.folder.path();
        command.current_dir(folder).env("KUBECONFIG", folder.join(who)).env("HOME", folder);
        command.arg("--cache-dir").arg(folder.join("cache")).args(args).stdin(Stdio::null());
        command
    }

    async fn output(&self, who: &str, args: &[&str]) -> Output {
        finished(self.command(who, args)).await
    }

    /// What it prints when all is well.
    async fn ok(&self, args: &[&str]) -> String {
        let output = self.output("admin", args).await;
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "kubectl {}\n{out}{err}", args.join(" "));
        out.into_owned()
    }

    /// What it complains about when all is not.
    async fn refused(&self, who: &str, args: &[&str]) -> String {
        let output = self.output(who, args).await;
        assert!(!output.status.success(), "kubectl {} went through", args.join(" "));
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

async fn finished(mut command: Command) -> Output {
    let run = tokio::task::spawn_blocking(move || command.output().expect("it runs"));
    tokio::time::timeout(Duration::from_secs(60), run).await.expect("in time").expect("joined")
}
