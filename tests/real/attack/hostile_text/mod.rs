//! Text from a cluster that would steer the terminal: in conditions, events, labels, annotations, versions, names and
//! in the name of the context. Whatever screen shows it and whatever command prints it, what reaches the terminal has
//! no control sequence but the program's own, and nothing that reorders or hides what is read.

mod payload;
mod scan;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use capstan_base::time::Clock;
use serde_json::{Value, json};

use self::payload::{MARK, PAYLOADS};
use self::scan::foreign;
use super::Bounds;
use super::dashboard::Dashboard;
use super::recorder::{Recorder, first_cluster};
use crate::standalone::BINARY;

const FLEET: &str = "synthetic:clusters=2,machines=6";
/// Keys, and what stands on the screen that they lead to; `CLUSTER` is the name of one.
const SCREENS: &[(&str, &str)] = &[
    (":clusters\r", "clusters 21"),
    ("jjkwd", "overview  yaml  events"),
    (":clusters\r:wide\r:sort name\r:sort-next\r:sort-reverse\r", "PAUSED"),
    (":filter fleet\r", "clusters 2 of 21"),
    ("\x1b[27u:tree CLUSTER\r:unfold-all\r:objects\r", "OBJECT"),
    ("jjjjjjjjGgg:why\r", "CONDITIONS"),
    (":tree CLUSTER\r:events\r", "6666.example"),
    (":yaml\rGg", "apiVersion: "),
    (":copy\r", "clipboard"),
    (":details\r\t\t\tG", "overview  yaml  events"),
    (":tree CLUSTER\rjj:details\rGg\t\t", "no events about this object"),
    (":owner\r", "CONDITIONS"),
    (":tree CLUSTER\r:fold-all\r", "OBJECT"),
    (":tree ", ":tree"),
    ("\x1b[27ug:pause\r", "pause Cluster"),
    ("\x1b[27u:clusters\r:copy\r", "clipboard"),
];

/// Puts payloads wherever an object may hold free text, a different one each time.
fn poison(value: &mut Value, place: &str, next: &mut impl FnMut() -> &'static str) {
    match value {
        Value::String(text) if is_free(place) => *text = format!("{}{text}", next()),
        Value::Array(items) => items.iter_mut().for_each(|item| poison(item, place, next)),
        Value::Object(entries) => entries.iter_mut().for_each(|(key, value)| poison(value, key, next)),
        _ => {}
    }
}

/// Fields in which a server lets a client write what it likes.
fn is_free(place: &str) -> bool {
    const FREE: &[&str] = &[
        "message",
        "reason",
        "phase",
        "version",
        "providerID",
        "failureDomain",
        "address",
        "kernelVersion",
        "osImage",
        "kubeletVersion",
        "containerRuntimeVersion",
        "operatingSystem",
        "architecture",
        "machineID",
        "bootID",
    ];
    FREE.contains(&place)
}

/// A payload after another, for ever.
fn payloads() -> impl FnMut() -> &'static str {
    let mut all = PAYLOADS.iter().cycle();
    move || all.next().copied().unwrap_or_default()
}

fn poisoned(mut object: Value) -> Value {
    let mut next = payloads();
    for part in ["spec", "status"] {
        if let Some(part) = object.get_mut(part) {
            poison(part, "", &mut next);
        }
    }
    for field in ["annotations", "labels"] {
        for (number, payload) in PAYLOADS.iter().enumerate() {
            object["metadata"][field][format!("attack.example/{number}")] = (*payload).into();
        }
    }
    object
}

/// Events about an object, one with each payload in every field.
fn events(kind: &str, namespace: &str, name: &str) -> Vec<Value> {
    let now = Clock::system().now().to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
    let event = |(number, payload): (usize, &&str)| {
        json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": { "name": format!("{name}.{number}"), "namespace": namespace, "uid": format!("event-{name}-{number}") },
            "involvedObject": { "kind": kind, "name": name, "namespace": namespace },
            "reason": payload, "message": payload.repeat(20), "type": payload, "count": 1,
            "source": { "component": payload }, "reportingComponent": payload,
            "firstTimestamp": now, "lastTimestamp": now,
        })
    };
    PAYLOADS.iter().enumerate().map(event).collect()
}

/// Clusters whose very names are payloads, as only a hostile server can have them.
fn hostile_names() -> Vec<Value> {
    let cluster = |(number, payload): (usize, &&str)| {
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": { "name": format!("n{number}{payload}"), "namespace": "default", "uid": format!("hostile-{number}"),
                          "creationTimestamp": "2026-11-20T10:00:00Z" },
            "spec": {}, "status": { "phase": payload },
        })
    };
    PAYLOADS.iter().enumerate().map(cluster).collect()
}

/// What a one-shot command writes to a pipe, both streams.
fn printed(kubeconfig: &Path, home: &Path, words: &str) -> Vec<u8> {
    let mut command = Command::new(BINARY);
    command.arg("--kubeconfig").arg(kubeconfig).args(words.split(' ')).env("HOME", home).env("NO_COLOR", "1");
    let output = command.stdin(Stdio::null()).output().expect("it runs");
    [output.stdout, output.stderr].concat()
}

#[track_caller]
fn assert_clean(what: &str, bytes: &[u8]) -> usize {
    let found = foreign(bytes);
    assert!(
        found.is_empty(),
        "{what}: {} foreign sequences, the first ones {:#?}",
        found.len(),
        &found[..found.len().min(8)]
    );
    bytes.len()
}

struct Fleet {
    folder: tempfile::TempDir,
    kubeconfig: PathBuf,
    namespace: String,
    cluster: String,
    _recorder: Recorder,
}

impl Fleet {
    async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (namespace, cluster) = first_cluster(FLEET);
        let events = events("Cluster", &namespace, &cluster);
        let recorder = Recorder::over(FLEET, events, hostile_names(), poisoned).await;
        let context = format!("ctx{}", PAYLOADS[0]);
        let kubeconfig = recorder.kubeconfig(folder.path(), &context);
        Self { folder, kubeconfig, namespace, cluster, _recorder: recorder }
    }

    /// All screens; the bytes that reached the terminal.
    fn screens(&self, extra: &[&str]) -> Vec<u8> {
        let mut dashboard = Dashboard::open(&self.kubeconfig, self.folder.path(), extra);
        dashboard.pty.shows(&self.cluster);
        for (keys, expected) in SCREENS {
            dashboard.press(&keys.replace("CLUSTER", &self.cluster));
            dashboard.pty.shows(expected);
        }
        dashboard.quit()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_text_never_reaches_a_terminal() {
    let mut bounds = Bounds::of(1);
    let fleet = Fleet::start().await;
    let (mut rounds, mut bytes) = (0, 0);
    while bounds.goes_on() {
        for extra in [&["--color", "256"][..], &["--ascii", "--color", "never"]] {
            let raw = fleet.screens(extra);
            let shown = String::from_utf8_lossy(&raw).matches(MARK).count();
            assert!(shown > 20, "the payloads are on the screens: {shown}");
            bytes += assert_clean("the dashboard", &raw);
        }
        for words in one_shots(&fleet.namespace, &fleet.cluster) {
            let raw = printed(&fleet.kubeconfig, fleet.folder.path(), &words);
            bytes += assert_clean(&words, &raw);
        }
        rounds += 1;
    }
    println!("{rounds} rounds, {} payloads, {bytes} bytes, foreign sequences 0", PAYLOADS.len());
}

fn one_shots(namespace: &str, cluster: &str) -> Vec<String> {
    let mut lines = vec![
        format!("-n {namespace} describe cluster {cluster}"),
        format!("-n {namespace} wait cluster/{cluster} --for=condition=Nothing --timeout=1s"),
        format!("-n {namespace} pause cluster/{cluster} --dry-run"),
        format!("-n {namespace} set-version kcp/{cluster}-control-plane v1.36.0 --dry-run"),
        "get clusters nobody".to_owned(),
    ];
    for kind in ["clusters", "kcp", "md", "ms", "machines"] {
        lines.extend(["table", "wide", "name"].map(|output| format!("get {kind} -A -o {output}")));
    }
    lines
}
