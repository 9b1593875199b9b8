//! `capstan status compute` as a program: where objects come from, where they go, and how it ends.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::at_rest::{healthy, settled};

/// The healthy cluster of appendix A at rest.
fn world() -> Vec<Value> {
    settled(healthy())
}

fn find<'a>(objects: &'a mut [Value], kind: &str, name: &str) -> &'a mut Value {
    objects.iter_mut().find(|o| o["kind"] == kind && o["metadata"]["name"] == name).unwrap()
}

/// A folder of its own, gone when it is dropped.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

fn program(args: &[&str]) -> (Option<i32>, String, String) {
    let run =
        Command::new(env!("CARGO_BIN_EXE_capstan")).args(["status", "compute"]).args(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (run.status.code(), text(&run.stdout), text(&run.stderr))
}

#[test]
fn exit_codes_are_those_of_kubectl_diff() {
    let folder = Folder::new();
    let text = |objects: &[Value]| serde_json::to_string(&json!({"kind": "List", "items": objects})).unwrap();
    let calm = folder.file("calm.json", &text(&world()));
    let mut objects = world();
    find(&mut objects, "Machine", "w-0")["status"]["phase"] = "Pending".into();
    let wrong = folder.file("wrong.json", &text(&objects));
    let (calm, wrong) = (calm.to_str().unwrap(), wrong.to_str().unwrap());
    let now = "2026-11-20T10:00:00Z";
    let (code, out, _) = program(&["-f", calm, "--now", now, "--diff"]);
    assert_eq!((code, out.as_str()), (Some(0), "12 objects: no status differs\n"));
    let (code, out, _) = program(&["-f", wrong, "--now", now, "--diff"]);
    assert_eq!(code, Some(1));
    assert_eq!(out, "Machine ns/w-0\n  phase  Pending → Running\n\n1 of 12 objects differs (1 Machine)\n");
    let (code, out, _) = program(&["-f", wrong, "--now", now, "-o", "json"]);
    assert_eq!(code, Some(0), "without --diff it only prints");
    let printed: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(printed["items"].as_array().map(Vec::len), Some(12));
    for (args, expected, why) in [
        (vec!["-f", "no/such/file", "--diff"], 3, "capstan: cannot read no/such/file: "),
        (vec!["-f", "no/such/file"], 1, "capstan: cannot read no/such/file: "),
        (
            vec!["-f", calm, "--now", "noon"],
            2,
            "error: invalid value 'noon' for '--now <TIME>': expected a moment such as ",
        ),
        (
            vec!["-f", calm, "--now", "noon", "--diff"],
            2,
            "error: invalid value 'noon' for '--now <TIME>': expected a moment such as ",
        ),
        (vec!["-f", calm, "--diff", "-o", "json"], 2, "error: the argument '--diff' cannot be used with"),
        (vec![], 2, "error: the following required arguments were not provided"),
    ] {
        let (code, out, err) = program(&args);
        assert_eq!((code, out.as_str()), (Some(expected), ""), "{args:?}");
        assert!(err.starts_with(why), "{err}");
    }
}

#[test]
fn several_files_a_folder_and_standard_input_are_one_dump() {
    use std::io::Write as _;
    let folder = Folder::new();
    let mut objects = world();
    let rest = objects.split_off(5);
    let json = |objects: &[Value]| objects.iter().map(|o| format!("{o}\n")).collect::<String>();
    folder.file("a.json", &json(&objects));
    folder.file("notes.txt", "not read");
    let mut child = Command::new(env!("CARGO_BIN_EXE_capstan"))
        .args([
            "status",
            "compute",
            "-f",
            folder.0.path().to_str().unwrap(),
            "-f",
            "-",
            "--now",
            "2026-11-20T10:00:00Z",
            "--diff",
        ])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(json(&rest).as_bytes()).unwrap();
    let run = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&run.stdout), "12 objects: no status differs\n");
}

/// What it prints it reads again, beside what it does not print.
#[test]
fn its_output_is_its_input() {
    let folder = Folder::new();
    let lines = |objects: &[Value]| objects.iter().map(|o| format!("{o}\n")).collect::<String>();
    let objects = world();
    let printed = ["Node", "Pod", "Secret", "KubeadmConfigTemplate", "DevMachineTemplate"];
    let (rest, _): (Vec<Value>, Vec<Value>) =
        objects.iter().cloned().partition(|o| printed.contains(&o["kind"].as_str().unwrap()));
    let (all, rest) = (folder.file("all.json", &lines(&objects)), folder.file("rest.json", &lines(&rest)));
    for output in ["yaml", "json"] {
        let now = "2026-11-20T10:00:00Z";
        let (_, text, _) = program(&["-f", all.to_str().unwrap(), "--now", now, "-o", output]);
        let again = folder.file(&format!("again.{output}"), &text);
        let files = ["-f", again.to_str().unwrap(), "-f", rest.to_str().unwrap()];
        let (code, out, err) = program(&[&files[..], &["--now", now, "--diff"]].concat());
        assert_eq!((code, out.as_str()), (Some(0), "12 objects: no status differs\n"), "{err}");
    }
}
