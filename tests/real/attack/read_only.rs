//! What a read-only process sends: every command of the dashboard on every kind of object with every key that could
//! confirm, every key on every screen, and every one-shot command, in front of a server that writes down what it is
//! asked. The same without the flag must send writes, or this attack could not fail.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use capstan_dashboard::tui::command::{Argument, TABLE};

use super::dashboard::{Dashboard, ESCAPE};
use super::recorder::{Asked, Recorder, first_cluster};
use super::{Bounds, in_time};
use crate::standalone::BINARY;

const FLEET: &str = "synthetic:clusters=2,machines=8";
/// Typed where a command wants something.
const ARGUMENTS: &[&str] = &["", "5", "v1.36.0", "+2h", "name", "default"];
/// Whatever may mean yes.
const CONFIRMATIONS: &[&str] = &["\r", "y", "Y", " ", "yes\r"];
/// These end or stop the program.
const ENDS: &[&str] = &["quit", "leave", "suspend"];
/// Pressed before it is seen that they were handled: what comes at once has to fit what is read at once, 1 KiB.
const KEYS_AT_ONCE: usize = 10;
/// Ctrl-C, ctrl-Z and escape, which begins sequences.
const CONTROLS_LEFT_OUT: &[u8] = &[0x03, 0x1a, 0x1b];

/// Every command line that does not end the program.
fn lines(is_long: bool) -> Vec<String> {
    let mut lines = Vec::new();
    for command in TABLE.iter().filter(|command| !ENDS.contains(&command.name)) {
        let takes_nothing = matches!(command.argument, Argument::None);
        let arguments = if takes_nothing { &ARGUMENTS[..1] } else { ARGUMENTS };
        let names = std::iter::once(&command.name).chain(command.aliases);
        for name in names.take(if is_long { usize::MAX } else { 1 }) {
            lines.extend(arguments.iter().map(|argument| format!("{name} {argument}").trim_end().to_owned()));
        }
    }
    lines
}

/// Selects object after object of a tree, its kinds one below the other, and runs every command on each.
fn run_every_command(dashboard: &mut Dashboard, cluster: &str, name: &str, is_long: bool) {
    let depths: &[usize] = if is_long { &[0, 1, 2, 3, 4, 5, 6, 7, 8] } else { &[3] };
    let confirmations = if is_long { CONFIRMATIONS } else { &CONFIRMATIONS[1..2] };
    for &depth in depths {
        for line in lines(is_long) {
            for confirmation in confirmations {
                dashboard.command(&format!("tree {cluster}"));
                dashboard.command("unfold-all");
                dashboard.press(&format!("g{}", "j".repeat(depth)));
                dashboard.command(&line);
                dashboard.press(confirmation);
                // Where a name has to be typed, this is one.
                dashboard.press(&format!("{name}\r"));
                dashboard.press(&ESCAPE.repeat(3));
            }
            dashboard.settle();
        }
    }
}

/// Presses every key on every screen, each with a yes after it.
fn press_every_key(dashboard: &mut Dashboard, cluster: &str, is_long: bool) {
    let printable = 0x20..0x7f_u8;
    let controls = (0x01..0x20_u8).filter(|key| !CONTROLS_LEFT_OUT.contains(key));
    let screens = ["clusters".to_owned(), format!("tree {cluster}"), "details".to_owned(), "yaml".to_owned()];
    for screen in &screens[..if is_long { 4 } else { 1 }] {
        for (number, key) in printable.clone().chain(controls.clone()).enumerate() {
            // On the first screen `q` leaves.
            if key == b'q' && screen == "clusters" {
                continue;
            }
            dashboard.command("clusters");
            dashboard.command(screen);
            dashboard.press(&format!("{}y\r{}", char::from(key), ESCAPE.repeat(3)));
            if number % KEYS_AT_ONCE == 0 {
                dashboard.settle();
            }
        }
        dashboard.settle();
    }
}

fn one_shot(kubeconfig: &Path, home: &Path, words: &str) -> Output {
    Command::new(BINARY)
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(words.split(' '))
        .env("HOME", home)
        .env("XDG_DATA_HOME", home)
        .env("XDG_STATE_HOME", home)
        .stdin(Stdio::null())
        .output()
        .expect("it runs")
}

/// Every one-shot command that talks to a server.
fn one_shots(cluster: &str, is_long: bool) -> Vec<String> {
    let deployment = format!("md/{cluster}-md-0");
    let mut lines = vec![
        "get clusters -A".to_owned(),
        "get machines -A -o yaml".to_owned(),
        format!("describe cluster {cluster}"),
        format!("wait cluster/{cluster} --for=verdict=ok --timeout=1s"),
        "engine".to_owned(),
    ];
    let targets = [deployment, format!("cluster/{cluster}"), format!("kcp/{cluster}-control-plane")];
    let confirmations = ["--yes", "--dry-run"];
    let (targets, confirmations) =
        if is_long { (&targets[..], &confirmations[..]) } else { (&targets[..1], &confirmations[..1]) };
    for target in targets {
        for confirm in confirmations {
            lines.extend([
                format!("scale {target} 7 {confirm}"),
                format!("rollout restart {target} {confirm}"),
                format!("rollout after {target} +2h {confirm}"),
                format!("set-version {target} v1.36.0 {confirm}"),
                format!("pause {target} {confirm}"),
                format!("resume {target} {confirm}"),
                format!("delete {target} {confirm}"),
            ]);
        }
    }
    lines
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_only_process_sends_no_write_whatever_is_typed() {
    let mut bounds = Bounds::of(1);
    let is_long = bounds.is_long();
    let recorder = Recorder::over(FLEET, Vec::new(), Vec::new(), |object| object).await;
    let folder = tempfile::tempdir().expect("a folder");
    let kubeconfig = recorder.kubeconfig(folder.path(), "recorded");
    let (namespace, cluster) = first_cluster(FLEET);

    let mut rounds = 0;
    while bounds.goes_on() {
        let mut dashboard = Dashboard::open(&kubeconfig, folder.path(), &["--read-only"]);
        dashboard.pty.shows(&cluster);
        dashboard.pty.shows("read-only");
        run_every_command(&mut dashboard, &cluster, &format!("{cluster}-md-0"), is_long);
        press_every_key(&mut dashboard, &cluster, is_long);
        assert!(dashboard.pty.is_running());
        dashboard.quit();
        for line in one_shots(&cluster, is_long) {
            one_shot(&kubeconfig, folder.path(), &format!("--read-only -n {namespace} {line}"));
        }
        rounds += 1;
    }
    let asked = recorder.asked();
    let writes: Vec<&Asked> = asked.iter().filter(|asked| asked.writes()).collect();
    assert!(writes.is_empty(), "sent although read-only: {writes:#?}");
    let reviews = asked.iter().filter(|asked| asked.method == http::Method::POST).count();
    println!("{rounds} rounds, {} requests recorded, {reviews} reviews of own rights, writes 0", asked.len());

    // The control: the same programs without the flag do write.
    let mut dashboard = Dashboard::open(&kubeconfig, folder.path(), &[]);
    dashboard.pty.shows(&cluster);
    dashboard.command(&format!("tree {cluster}"));
    dashboard.command("pause");
    in_time("a dry run", recorder.is_asked(|asked| asked.writes() && asked.target.contains("dryRun"))).await;
    dashboard.quit();
    let before = recorder.writes().len();
    let paused =
        one_shot(&kubeconfig, folder.path(), &format!("-n {namespace} pause cluster/{cluster} --yes"));
    assert!(paused.status.success(), "{}", String::from_utf8_lossy(&paused.stderr));
    assert!(recorder.writes().len() > before, "the control sends writes");
    println!("control without the flag: {} writes", recorder.writes().len());
}
