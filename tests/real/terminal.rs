//! The dashboard in a real pseudo-terminal: what it takes it gives back, whatever ends it.
//!
//! The program under test is this test binary itself, started again with [`child`] as its only test
//! and a variable that tells it to run the dashboard over the sample fleet.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use capstan_base::time::{Clock, TimeSource, Timestamp};
use capstan_dashboard::tui::{Exit, Options, Session, Tier};
use portable_pty::{CommandBuilder, PtyPair, PtySize, native_pty_system};

use crate::fleet_fixture as fixture;

const VARIABLE: &str = "CAPSTAN_TEST_DASHBOARD";
const CHILD: [&str; 3] = ["terminal::child", "--exact", "--nocapture"];

/// Longest wait for anything; only a failing test waits so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Panics the loop once it has been asked for the time so often.
struct Bomb(AtomicUsize);

impl TimeSource for Bomb {
    fn now(&self) -> Timestamp {
        assert!(self.0.fetch_add(1, Ordering::SeqCst) < 60, "the clock broke on purpose");
        fixture::now()
    }
}

/// The dashboard, when this binary was started for it; nothing otherwise.
#[test]
fn child() {
    let Some(mode) = std::env::var_os(VARIABLE) else { return };
    let clock =
        if mode == "panic" { Clock::new(Bomb(AtomicUsize::new(0))) } else { Clock::fixed(fixture::now()) };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let exit = runtime.block_on(async {
        let (send, deltas) = tokio::sync::mpsc::channel(4);
        let fleet = if mode == "well" { fixture::large(2, 2) } else { fixture::sample() };
        send.send(fleet).await.expect("room");
        let options = Options {
            session: Session {
                title: "demo".to_owned(),
                scope: String::new(),
                read_only: false,
                ..Session::default()
            },
            theme: "default".to_owned(),
            keymap: "default".to_owned(),
            ascii: false,
            tier: Tier::Ansi16,
            links: None,
            config_dir: None,
            state_dir: None,
            hook: None,
            frame_min: None,
            clock,
            contexts: None,
            logins: None,
            kubeconfig: None,
            notice: None,
            replay: None,
            wallboard: None,
        };
        capstan_dashboard::tui::run(options, vec![deltas], BTreeMap::new()).await
    });
    let word = match exit.map(|ended| ended.exit) {
        Ok(Exit::Quit) => "left by quit".to_owned(),
        Ok(Exit::Signal(number)) => format!("left by signal {number}"),
        Ok(Exit::Hangup) => "left by hangup".to_owned(),
        Err(error) => format!("refused: {error}"),
    };
    let _ = writeln!(std::io::stdout(), "\r\n{word}.");
}

/// A program in a terminal.
pub struct Pty {
    pair: PtyPair,
    process: Box<dyn portable_pty::Child + Send + Sync>,
    keys: Box<dyn std::io::Write + Send>,
    bytes: mpsc::Receiver<Vec<u8>>,
    screen: vt100::Parser,
    raw: Vec<u8>,
}

impl Pty {
    fn start(mode: &str) -> Self {
        let program = std::env::current_exe().expect("this binary");
        let mut command = CommandBuilder::new(program);
        command.args(CHILD);
        Self::spawn(command, mode)
    }

    fn spawn(command: CommandBuilder, mode: &str) -> Self {
        Self::spawn_as(command, mode, "xterm-256color")
    }

    fn spawn_as(mut command: CommandBuilder, mode: &str, term: &str) -> Self {
        command.env(VARIABLE, mode);
        command.env("TERM", term);
        Self::open(command)
    }

    pub fn open(command: CommandBuilder) -> Self {
        Self::open_sized(command, 24, 80)
    }

    pub fn open_sized(mut command: CommandBuilder, rows: u16, cols: u16) -> Self {
        command.env_remove("NO_COLOR");
        let size = PtySize { rows, cols, pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).expect("a pseudo-terminal");
        let process = pair.slave.spawn_command(command).expect("the program starts");
        let keys = pair.master.take_writer().expect("a writer");
        let mut reader = pair.master.try_clone_reader().expect("a reader");
        let (send, bytes) = mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 65_536];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                if send.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { pair, process, keys, bytes, screen: vt100::Parser::new(rows, cols, 0), raw: Vec::new() }
    }

    /// Everything that was written to it, as bytes.
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// Waits for the end, and takes what was written until then.
    pub fn end(&mut self) {
        self.process.wait().expect("it ends");
        while let Ok(bytes) = self.bytes.recv_timeout(Duration::from_millis(50)) {
            self.take(&bytes);
        }
    }

    pub fn is_running(&mut self) -> bool {
        self.process.try_wait().expect("a state").is_none()
    }

    pub fn text(&self) -> String {
        self.screen.screen().contents()
    }

    /// Reads until the screen satisfies `done`.
    pub fn until(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        self.until_within(PATIENCE, what, done);
    }

    /// The same with a patience of its own.
    pub fn until_within(&mut self, patience: Duration, what: &str, done: impl Fn(&Self) -> bool) {
        let end = Instant::now() + patience;
        while !done(self) {
            let left = end.saturating_duration_since(Instant::now());
            match self.bytes.recv_timeout(left) {
                Ok(bytes) => self.take(&bytes),
                Err(_) => panic!("waited in vain for {what}; the screen:\n{}", self.text()),
            }
        }
    }

    pub fn shows(&mut self, text: &str) {
        self.until(text, |s| s.text().contains(text));
    }

    fn take(&mut self, bytes: &[u8]) {
        self.screen.process(bytes);
        self.raw.extend_from_slice(bytes);
    }

    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("the terminal takes keys");
        self.keys.flush().expect("the terminal takes keys");
    }

    /// Ends it at once, as `kill -9` does.
    pub fn kill(&mut self) {
        self.signal(libc::SIGKILL);
        self.end();
    }

    fn signal(&self, number: i32) {
        let id = self.process.process_id().expect("it runs");
        let sent = Command::new("kill").arg(format!("-{number}")).arg(id.to_string()).status();
        assert!(sent.expect("kill runs").success());
    }

    fn modes(&self) -> String {
        format!("{:?}", self.pair.master.get_termios().expect("terminal modes"))
    }

    /// Waits for the end, and checks that the terminal is as it was.
    fn is_given_back(&mut self, modes: &str) {
        self.end();
        let screen = self.screen.screen();
        assert!(!screen.alternate_screen(), "the alternate screen is left");
        assert!(!screen.hide_cursor(), "the cursor is shown");
        assert!(!screen.bracketed_paste(), "bracketed paste is off");
        assert_eq!(screen.mouse_protocol_mode(), vt100::MouseProtocolMode::None);
        assert_eq!(self.modes(), modes, "terminal modes");
    }
}

#[test]
fn the_dashboard_opens_moves_and_leaves_no_trace() {
    let mut s = Pty::start("sample");
    let before = s.modes();
    s.shows("prod-eu-1");
    assert!(s.screen.screen().alternate_screen() && s.screen.screen().hide_cursor());
    s.press(":tree edge-7\r");
    s.shows("OBJECT");
    s.press("q");
    s.shows("by status");
    s.press("q");
    s.shows("left by quit");
    s.is_given_back(&before);
}

#[test]
fn every_frame_is_one_bracket() {
    let mut s = Pty::start("sample");
    s.shows("prod-eu-1");
    s.press("jjj");
    s.press("?");
    s.shows("help: keymap default");
    s.press("\x1b");
    s.until("the help to close", |s| !s.text().contains("help: keymap"));
    s.press("q");
    s.shows("left by quit");
    let raw = String::from_utf8_lossy(&s.raw).into_owned();
    let mut open = false;
    let marks = raw.match_indices("\x1b[?2026").map(|(at, mark)| raw.as_bytes()[at + mark.len()]);
    for mark in marks {
        match mark {
            b'h' => assert!(!std::mem::replace(&mut open, true), "a bracket inside a bracket"),
            _ => open = false,
        }
    }
    assert!(!open, "the last bracket is closed");
    let first = raw.find("\x1b[?2026h").expect("a bracket");
    let clear = raw.find("\x1b[2J").expect("cleared once");
    assert!(clear > first, "the clear is inside the first bracket");
    assert_eq!(raw.matches("\x1b[2J").count(), 1, "nothing else clears");
}

#[test]
fn signals_end_it_and_restore_the_terminal() {
    for number in [libc::SIGTERM, libc::SIGINT, libc::SIGQUIT, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2] {
        let mut s = Pty::start("sample");
        let before = s.modes();
        s.shows("prod-eu-1");
        s.signal(number);
        let expected =
            if number == libc::SIGHUP { "left by hangup".to_owned() } else { format!("signal {number}") };
        s.shows(&expected);
        s.is_given_back(&before);
    }
}

/// A late answer of the terminal came between the keys: its letters opened the prompt or moved the cursor.
#[test]
fn replies_of_the_terminal_are_not_typed() {
    let mut s = Pty::start("sample");
    s.shows("prod-eu-1");
    for reply in [
        "\x1b]11;rgb:0000/0000/0000\x1b\\",
        "\x1b_Gi=1;OK\x1b\\",
        "\x1bP>|XTerm:q(390)\x07",
        "\x1b[>41;390;0c",
    ] {
        let (begin, end) = reply.split_at(reply.len() / 2);
        s.press(begin);
        s.press(end);
    }
    s.press("/");
    s.shows(" /");
    s.press("us");
    s.until("the filter with nothing else in it", |s| s.text().lines().any(|line| line.trim() == "/us"));
    s.press("\x1b");
    s.until("the filter to close", |s| !s.text().contains("/us"));
    s.press("q");
    s.shows("left by quit");
}

#[test]
fn a_terminal_that_is_gone_ends_it() {
    let mut s = Pty::start("sample");
    s.shows("prod-eu-1");
    let Pty { pair, mut process, keys, bytes, .. } = s;
    drop((pair, keys, bytes));
    let end = Instant::now() + PATIENCE;
    while process.try_wait().expect("a state").is_none() {
        assert!(Instant::now() < end, "it lives on without a terminal");
        std::thread::yield_now();
    }
}

#[test]
fn a_panic_restores_the_terminal_before_it_speaks() {
    let mut s = Pty::start("panic");
    let before = s.modes();
    s.shows("prod-eu-1");
    while s.process.try_wait().expect("a state").is_none() {
        if s.keys.write_all(b"j").is_err() {
            break;
        }
        if let Ok(bytes) = s.bytes.recv_timeout(Duration::from_millis(20)) {
            s.take(&bytes);
        }
    }
    s.is_given_back(&before);
    let raw = String::from_utf8_lossy(&s.raw).into_owned();
    let (left, said) = (raw.find("\x1b[?1049l").expect("left"), raw.find("the clock broke").expect("said"));
    assert!(left < said, "the message is on the screen that stays");
}

#[test]
fn nothing_is_written_while_nothing_changes() {
    let mut s = Pty::start("well");
    s.shows("bulk-0001");
    s.until("rest", |s| s.raw.ends_with(b"\x1b[?2026l"));
    let quiet = s.bytes.recv_timeout(Duration::from_millis(700));
    assert!(quiet.is_err(), "{:?}", quiet.map(|b| String::from_utf8_lossy(&b).into_owned()));
    // A key that changes nothing writes nothing either.
    s.press("k");
    assert!(s.bytes.recv_timeout(Duration::from_millis(300)).is_err());
}

#[test]
fn a_resize_is_drawn_at_the_new_size() {
    let mut s = Pty::start("sample");
    s.shows("prod-eu-1");
    for (rows, cols) in [(10, 60), (3, 10), (40, 120)] {
        s.screen.screen_mut().set_size(rows, cols);
        s.pair.master.resize(PtySize { rows, cols, pixel_width: 0, pixel_height: 0 }).expect("a new size");
    }
    s.shows("WORKERS");
    s.press("q");
    s.shows("left by quit");
}

#[test]
fn suspended_and_back() {
    if Command::new("bash").arg("-c").arg("true").status().is_err() {
        println!("skipped: no bash, which has job control");
        return;
    }
    let program = std::env::current_exe().expect("this binary");
    let mut shell = CommandBuilder::new("bash");
    let run = format!("{} {}", program.display(), CHILD.join(" "));
    shell.args([
        "-c",
        &format!("set -m; {run}; echo; echo STOPPED; stty -a | grep -o -e '-*icanon'; fg; echo ENDED"),
    ]);
    let mut s = Pty::spawn(shell, "sample");
    let before = s.modes();
    s.shows("prod-eu-1");
    s.press("\x1a");
    let is_back = |s: &Pty| {
        let raw = String::from_utf8_lossy(&s.raw).into_owned();
        let after = raw.split("STOPPED").nth(1).unwrap_or_default().to_owned();
        after.contains("\x1b[?1049h") && after.contains("prod-eu-1")
    };
    s.until("the second picture", is_back);
    let raw = String::from_utf8_lossy(&s.raw).into_owned();
    let stopped = raw.split("STOPPED").nth(1).expect("checked").to_owned();
    assert!(stopped.trim_start().starts_with("icanon"), "cooked while stopped: {stopped:?}");
    s.press("q");
    s.shows("ENDED");
    s.is_given_back(&before);
}

#[test]
fn what_is_no_terminal_is_refused_in_a_sentence() {
    let run = |term: &str| {
        let output = Command::new(std::env::current_exe().expect("this binary"))
            .args(CHILD)
            .env(VARIABLE, "sample")
            .env("TERM", term)
            .stdin(Stdio::null())
            .output()
            .expect("it runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(run("xterm").contains("refused: the dashboard needs a terminal, but standard input is not one"));
    let mut command = CommandBuilder::new(std::env::current_exe().expect("this binary"));
    command.args(CHILD);
    let mut s = Pty::spawn_as(command, "sample", "dumb");
    s.shows("TERM=dumb");
}
