//! A program that keeps running while a test reads what it prints. Owns the process; ended when dropped.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// A line that takes longer never comes.
const LINE_MAX: Duration = Duration::from_secs(60);

pub struct Running {
    child: Child,
    lines: UnboundedReceiver<String>,
}

impl Running {
    pub fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it runs");
        let output = BufReader::new(child.stdout.take().expect("output"));
        let (sender, lines) = unbounded_channel();
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { child, lines }
    }

    pub async fn line(&mut self) -> String {
        let line = tokio::time::timeout(LINE_MAX, self.lines.recv()).await;
        line.expect("a line in time").expect("a line before the end")
    }

    /// Reads until `wanted` was printed; all lines up to it.
    pub async fn until(&mut self, wanted: &str) -> Vec<String> {
        let mut seen = Vec::new();
        while seen.last().is_none_or(|line| line != wanted) {
            match tokio::time::timeout(LINE_MAX, self.lines.recv()).await {
                Ok(Some(line)) => seen.push(line),
                _ => panic!("never said: {wanted}\nbut: {seen:#?}"),
            }
        }
        seen
    }

    /// A line, where one came already.
    pub fn said(&mut self) -> Option<String> {
        self.lines.try_recv().ok()
    }

    /// Stops it where it is, as a machine that hangs; or lets it go on.
    pub fn hang(&self, is_hung: bool) {
        let signal = if is_hung { "-STOP" } else { "-CONT" };
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "{signal}");
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends at once what it has started itself, such as the sessions of a server, which outlive it.
    pub fn kill_children(&self) {
        // There may be none.
        let _ = Command::new("pkill").args(["-KILL", "-P", &self.child.id().to_string()]).status();
    }

    /// Closes its input, which asks it to end, and waits until it has.
    pub fn end(mut self) -> ExitStatus {
        drop(self.child.stdin.take());
        self.child.wait().expect("an end")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
