//! Restores that are all or nothing, stores that are gone, and files that are not ours, with the real
//! binary. See also `keeping.rs`.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use capstan::rng::Rng;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};

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
}

fn run(args: &[&str]) -> Output {
    Command::new(BINARY).args(args).stdin(Stdio::null()).output().expect("it runs")
}

#[track_caller]
fn said(args: &[&str]) -> String {
    let output = run(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[track_caller]
fn refused(args: &[&str]) -> String {
    let output = run(args);
    assert_eq!(output.status.code(), Some(1), "{args:?}: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn refused_with(args: &[&str], words: &[&str]) {
    let error = refused(args);
    for word in words {
        assert!(error.contains(word), "{args:?}: {word}: {error}");
    }
}

async fn create(server: &Standalone, name: &str) -> u64 {
    let maps: Api<ConfigMap> = Api::namespaced(server.client().await, "default");
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    let made = maps.create(&PostParams::default(), &map).await.expect("a creation");
    made.metadata.resource_version.expect("a version").parse().expect("a number")
}

/// A backup of a fleet, in `folder/backup`, and how many objects are in it.
fn backup(folder: &Folder) -> usize {
    let sample = ["--no-engine", "--sample", "synthetic:clusters=5,machines=300"];
    Standalone::start(folder.0.path(), &sample).kill();
    let told = said(&["backup", &folder.text("backup"), "--data-dir", &folder.text("data")]);
    told.split(' ').next().expect("a number").parse().expect("a number")
}

/// Writes the backup anew with one line changed, with or without its checksum.
fn alter(folder: &Folder, change: impl Fn(&str) -> String, checksum: bool) -> String {
    let text = change(&fs::read_to_string(folder.at("backup")).expect("a backup"));
    let (lines, tail) = text.trim_end().rsplit_once('\n').expect("lines");
    let mut tail: serde_json::Value = serde_json::from_str(tail).expect("the last line");
    if !checksum {
        tail.as_object_mut().expect("an object").remove("sha256");
    }
    fs::write(folder.at("altered"), format!("{lines}\n{tail}\n")).expect("written");
    folder.text("altered")
}

/// 7 of 25 kills left a store with some of the objects, which was served as if it were whole.
#[test]
fn a_killed_restore_leaves_no_store_or_a_whole_one() {
    let folder = Folder::new();
    let count = backup(&folder);
    let kills: u64 = std::env::var("CAPSTAN_RESTORE_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(24);
    let rng = Rng::seeded(5);
    let start = |data: &str| {
        let mut command = Command::new(BINARY);
        command.args(["restore", &folder.text("backup"), "--data-dir", data]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs")
    };
    // Looks at the child until it ends, at most so many: a measure of time that needs no clock.
    let look = |child: &mut std::process::Child, most: u64| {
        (0..most).take_while(|_| child.try_wait().expect("a state").is_none()).count() as u64
    };
    let whole_life = look(&mut start(&folder.text("first")), u64::MAX);
    let (mut none, mut whole) = (0, 0);
    for round in 0..kills {
        let data = folder.text(&format!("restored-{round}"));
        let mut child = start(&data);
        look(&mut child, rng.below(whole_life * 5 / 4));
        let _ = child.kill();
        child.wait().expect("an end");
        if Path::new(&data).join("store.redb").exists() {
            let checked = said(&["standalone", "--check", "--data-dir", &data]);
            assert!(checked.contains(&format!("in order; {count} objects")), "round {round}: {checked}");
            whole += 1;
        } else {
            // What it left behind is no obstacle.
            if none % 4 == 0 {
                let told = said(&["restore", &folder.text("backup"), "--data-dir", &data]);
                assert!(told.starts_with(&format!("{count} objects")), "round {round}: {told}");
            }
            none += 1;
        }
        let _ = fs::remove_dir_all(&data);
    }
    println!("{kills} kills: {none} without a store, {whole} with a whole one");
    assert!(none > 0 && whole > 0, "kills came at one end only: {none} without, {whole} with a store");
}

#[test]
fn an_altered_backup_and_one_with_odd_names_are_refused() {
    let folder = Folder::new();
    backup(&folder);
    let data = folder.text("new");
    let refuse = |file: &str, words: &[&str]| {
        refused_with(&["restore", file, "--data-dir", &data], words);
        assert!(!Path::new(&data).join("store.redb").exists(), "nothing was made");
    };
    let value = |text: &str| text.replacen("\"uid\":\"", "\"uid\":\"0", 1);
    refuse(&alter(&folder, value, true), &["it was altered after it was made"]);
    let version = |text: &str| {
        let (head, rest) = text.split_once('\n').expect("lines");
        let mut head: serde_json::Value = serde_json::from_str(head).expect("the first line");
        head["resourceVersion"] = u64::MAX.to_string().into();
        format!("{head}\n{rest}")
    };
    refuse(&alter(&folder, version, false), &["its resource version is none that a store gives out"]);
    let name = |text: &str| text.replacen("\"name\":\"default\"", "\"name\":\"../default\"", 1);
    refuse(&alter(&folder, name, false), &["Namespace /../default cannot be stored", "RFC 1123"]);
    let twice = |text: &str| {
        let line = text.lines().find(|line| line.contains("\"kind\":\"Cluster\"")).expect("a cluster");
        let other =
            text.lines().filter(|line| line.contains("\"kind\":\"Cluster\"")).nth(1).expect("another");
        text.replacen(other, line, 1)
    };
    refuse(&alter(&folder, twice, false), &["it comes twice"]);
    let told = said(&["restore", &alter(&folder, str::to_owned, false), "--data-dir", &data]);
    assert!(told.contains("This backup has no checksum"), "{told}");
    refused_with(&["restore", &folder.text("backup"), "--data-dir", &data], &["is not empty"]);
}

/// A data directory without its data file was served as an empty store at revision 1.
#[tokio::test]
async fn a_store_that_vanished_is_missed_and_a_new_one_goes_on_above_it() {
    let folder = Folder::new();
    let server = Standalone::start(folder.0.path(), &["--no-engine"]);
    let last = create(&server, "a").await;
    server.kill();
    let (data, file) = (folder.text("data"), folder.at("data/store.redb"));
    let start = ["standalone", "--headless", "--data-dir", &data];
    fs::rename(&file, folder.at("elsewhere")).expect("moved");
    let ways_out = ["store.redb is gone", "mount it", "capstan restore FILE", "--new-store"];
    refused_with(&start, &ways_out);
    symlink(folder.at("unmounted"), &file).expect("a link");
    refused_with(&start, &["is a link to ", "unmounted, which is not there"]);
    refused_with(&["standalone", "--headless", "--new-store", "--data-dir", &data], &["which is not there"]);
    fs::remove_file(&file).expect("removed");
    // A directory of an earlier version has no mark, but a key.
    fs::rename(folder.at("data/store.mark"), folder.at("mark")).expect("moved");
    refused_with(&start, &ways_out);
    fs::rename(folder.at("mark"), folder.at("data/store.mark")).expect("moved");

    let server = Standalone::start(folder.0.path(), &["--no-engine", "--new-store"]);
    assert!(create(&server, "b").await > last, "versions never go back");
    drop(server);
    refused_with(&["standalone", "--headless", "--new-store", "--data-dir", &data], &["there is a store in"]);
}

#[test]
fn what_is_not_a_regular_file_of_ours_is_not_replaced() {
    let folder = Folder::new();
    let made = Command::new("mkfifo").arg(folder.at("pipe")).status().expect("mkfifo");
    assert!(made.success());
    symlink(folder.at("pipe"), folder.at("link")).expect("a link");
    fs::create_dir(folder.at("folder")).expect("a folder");
    let device =
        Command::new("mknod").arg(folder.at("null")).args(["c", "1", "3"]).stderr(Stdio::null()).status();
    let has_device = device.is_ok_and(|made| made.success());
    if !has_device {
        println!("skipped: only root may make devices");
    }
    fs::create_dir(folder.at("full")).expect("a folder");
    Standalone::start(&folder.at("full"), &["--no-engine"]).kill();
    let data = folder.text("data");
    let server = ["standalone", "--headless", "--data-dir", &data, "--listen", "127.0.0.1:0"];
    for (name, kind) in
        [("pipe", "a named pipe"), ("link", "a symbolic link"), ("folder", "a folder"), ("null", "a device")]
    {
        if name == "null" && !has_device {
            continue;
        }
        let (path, before) = (folder.text(name), fs::symlink_metadata(folder.at(name)).expect("there"));
        let words = format!("{path} is {kind}, not a regular file; it stays as it is");
        for flag in ["--kubeconfig-out", "--read-only-kubeconfig-out", "--log-file"] {
            refused_with(&[&server[..], &[flag, &path]].concat(), &[flag, &words]);
        }
        let backup = refused(&["backup", &path, "--data-dir", &folder.text("full/data")]);
        assert!(backup.contains(&words), "{backup}");
        let after = fs::symlink_metadata(folder.at(name)).expect("there");
        assert_eq!((before.ino(), before.mode()), (after.ino(), after.mode()), "{name}");
    }
    assert!(fs::symlink_metadata(folder.at("pipe")).expect("there").file_type().is_fifo());
    assert!(!folder.at("data").exists(), "refused before anything was made");
}

#[test]
fn a_folder_that_is_not_ours_stays_as_it_is() {
    let folder = Folder::new();
    let mode = |name: &str| fs::metadata(folder.at(name)).expect("there").mode() & 0o7777;
    let make = |name: &str, mode| {
        fs::create_dir(folder.at(name)).expect("made");
        fs::set_permissions(folder.at(name), fs::Permissions::from_mode(mode)).expect("a mode");
    };
    let refuse = |name: &str, words: &[&str]| {
        refused_with(&["standalone", "--headless", "--data-dir", &folder.text(name)], words);
    };
    make("shared", 0o1777);
    refuse("shared", &["others can enter the folder", "(mode 1777)", "chmod 0700", "shared/capstan"]);
    assert_eq!((mode("shared"), fs::read_dir(folder.at("shared")).expect("there").count()), (0o1777, 0));
    make("home", 0o700);
    fs::write(folder.at("home/letter"), "").expect("written");
    refuse("home", &["holds other things, such as letter", "home/capstan"]);
    assert_eq!(fs::read_dir(folder.at("home")).expect("there").count(), 1);
    fs::write(folder.at("file"), "kept").expect("written");
    refuse("file", &["file"]);
    make("prepared", 0o700);
    symlink(folder.at("file"), folder.at("prepared/lock")).expect("a link");
    refuse("prepared", &["lock is a symbolic link, not a regular file"]);
    assert_eq!(fs::read_to_string(folder.at("file")).expect("there"), "kept");

    Standalone::start(folder.0.path(), &["--no-engine"]).kill();
    assert_eq!(mode("data"), 0o700);
    fs::set_permissions(folder.at("data"), fs::Permissions::from_mode(0o755)).expect("a mode");
    refuse("data", &["others can enter the folder", "chmod 0700"]);
    assert_eq!(mode("data"), 0o755);
}

/// The advice was `--repair`, on a living store.
#[test]
fn a_store_whose_lock_file_was_removed_is_still_in_use() {
    let folder = Folder::new();
    let _server = Standalone::start(folder.0.path(), &["--no-engine"]);
    fs::remove_file(folder.at("data/lock")).expect("removed");
    let data = folder.text("data");
    for args in [
        &["standalone", "--headless", "--data-dir", &data][..],
        &["standalone", "--check", "--data-dir", &data],
        &["backup", &folder.text("backup"), "--data-dir", &data],
    ] {
        let error = refused(args);
        assert!(error.contains("store.redb is in use by another process"), "{args:?}: {error}");
        assert!(!error.contains("repair") && !error.contains("damaged"), "{error}");
    }
}

/// Files without a write permission stand for a disk that is mounted read-only; root passes over
/// permissions, so there only what is on the disk afterwards counts.
#[test]
fn a_disk_that_cannot_be_written_is_checked_and_backed_up() {
    let folder = Folder::new();
    let sample = ["--no-engine", "--sample", "synthetic:clusters=2,machines=20"];
    Standalone::start(folder.0.path(), &sample).kill();
    let data = folder.text("data");
    let stamp = |name: &str| {
        let found = fs::metadata(folder.at("data").join(name)).expect("there");
        (found.ino(), found.mtime(), found.mtime_nsec(), found.size())
    };
    fs::set_permissions(folder.at("data/store.redb"), fs::Permissions::from_mode(0o400)).expect("a mode");
    fs::set_permissions(folder.at("data"), fs::Permissions::from_mode(0o500)).expect("a mode");
    let before = [stamp("store.redb"), stamp("lock")];
    let checked = said(&["standalone", "--check", "--data-dir", &data]);
    let told = said(&["backup", &folder.text("backup"), "--data-dir", &data]);
    assert!(checked.contains("in order; ") && told.contains(" objects of the store in "), "{checked}{told}");
    assert_eq!(before, [stamp("store.redb"), stamp("lock")], "nothing was written");
    fs::set_permissions(folder.at("data"), fs::Permissions::from_mode(0o700)).expect("a mode");
}
