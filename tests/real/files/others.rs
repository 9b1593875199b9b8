//! Other users' folders and files, and disks that cannot be written.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::net::UnixListener;
use std::process::Command;

use super::{Folder, output_of, refusal, refused_with, said};
use crate::standalone::{BINARY, Standalone};

/// Somebody who is not root and owns nothing.
const NOBODY: u32 = 65_534;

/// The binary as somebody else. `None`, with a word, when this machine does not allow it.
fn as_nobody() -> Option<Command> {
    let who = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"), "--clear-groups".to_owned()];
    let tried = Command::new("setpriv").args(&who).args([BINARY, "--version"]).output();
    if tried.is_ok_and(|output| output.status.success()) {
        let mut command = Command::new("setpriv");
        command.args(&who).arg(BINARY);
        return Some(command);
    }
    println!("skipped: only root may act as somebody else (setpriv, Debian package util-linux)");
    None
}

#[track_caller]
fn refused_to_nobody(args: &[&str], words: &[&str]) {
    let error = refusal(&output_of(as_nobody().expect("asked before").args(args)));
    for word in words {
        assert!(error.contains(word), "{args:?}: {word}: {error}");
    }
}

/// Everybody may use it, as /tmp.
fn share(folder: &Folder) {
    fs::set_permissions(folder.0.path(), fs::Permissions::from_mode(0o1777)).expect("a mode");
}

#[test]
fn what_belongs_to_root_stays_as_it_is_for_others() {
    if as_nobody().is_none() {
        return;
    }
    let folder = Folder::served(&[]);
    share(&folder);
    let at = |name: &str| folder.text(name);
    let server = ["standalone", "--headless", "--no-engine", "--listen", "127.0.0.1:0"];
    let refuse = |extra: &[&str], words: &str| refused_to_nobody(&[&server[..], extra].concat(), &[words]);
    refuse(&["--data-dir", &at("data")], "data belongs to user 0; it stays as it is");
    refuse(&["--data-dir", &at("")], "belongs to user 0; it stays as it is");
    for (name, mode) in [("kubeconfig", 0o600), ("letter", 0o666)] {
        fs::write(folder.at(name), "kept").expect("written");
        fs::set_permissions(folder.at(name), fs::Permissions::from_mode(mode)).expect("a mode");
        let words = format!("{name} belongs to user 0; it stays as it is: choose another path");
        for flag in ["--kubeconfig-out", "--read-only-kubeconfig-out", "--log-file"] {
            refuse(&["--store", "memory", flag, &at(name)], &words);
        }
        assert_eq!(fs::read_to_string(folder.at(name)).expect("there"), "kept");
    }
    let unreadable = ["Permission denied", "check that you may go there"];
    refused_to_nobody(&["standalone", "--check", "--data-dir", &at("data")], &unreadable);
    refused_to_nobody(&["backup", &at("backup"), "--data-dir", &at("data")], &unreadable);
    refused_to_nobody(
        &["restore", &at("letter"), "--data-dir", &at("data")],
        &["letter is not a whole backup"],
    );
}

#[test]
fn what_belongs_to_others_stays_as_it_is_for_root() {
    if as_nobody().is_none() {
        return;
    }
    let folder = Folder::new();
    let address = ["standalone", "--headless", "--no-engine", "--listen", "127.0.0.1:0", "--data-dir"];
    fs::create_dir(folder.at("theirs")).expect("made");
    chown(folder.at("theirs"), Some(NOBODY), None).expect("given away");
    let theirs = folder.text("theirs");
    refused_with(&[&address[..], &[&theirs]].concat(), &["theirs belongs to user 65534; it stays as it is"]);
    assert_eq!(fs::read_dir(folder.at("theirs")).expect("a folder").count(), 0);

    let served = Folder::served(&[]);
    let data = served.text("data");
    for name in ["ca.key", "admin.token", "lock"] {
        chown(served.at("data").join(name), Some(NOBODY), None).expect("given away");
        let words = format!("{name} belongs to user 65534; it stays as it is");
        refused_with(&[&address[..], &[&data]].concat(), &[&words]);
        chown(served.at("data").join(name), Some(0), None).expect("taken back");
    }
    fs::set_permissions(served.0.path(), fs::Permissions::from_mode(0o700)).expect("a mode");
    drop(UnixListener::bind(served.at("socket")).expect("a socket"));
    chown(served.at("socket"), Some(NOBODY), None).expect("given away");
    let socket = format!("unix:{}", served.text("socket"));
    let socket = ["standalone", "--headless", "--store", "memory", "--no-engine", "--listen", &socket];
    refused_with(&socket, &["it belongs to user 65534; it stays as it is"]);
    assert_eq!(fs::symlink_metadata(served.at("socket")).expect("there").uid(), NOBODY);
}

#[test]
fn somebody_who_is_not_root_serves_from_a_new_folder_of_his_own() {
    let Some(command) = as_nobody() else { return };
    let folder = Folder::new();
    share(&folder);
    let server = Standalone::start_by(command, "127.0.0.1:0", folder.0.path(), &["--no-engine"]);
    let found = fs::metadata(folder.at("data")).expect("made");
    assert_eq!((found.uid(), found.mode() & 0o7777), (NOBODY, 0o700));
    server.says(&["get", "clusters"]);
}

/// Runs in a mount namespace of its own, where `$1` is a disk that cannot be written, with what is in `$2`.
const READ_ONLY: &str = "mount -t tmpfs tmpfs \"$1\" && cp -a \"$2\"/. \"$1\" && mount -o remount,ro \"$1\" && \
                         shift 2 && exec \"$@\"";

/// The beginning of a command on such a disk. `None`, with a word, when this machine does not allow it.
fn on_a_read_only_disk(disk: &str, content: &str) -> Option<Command> {
    for namespaces in [&["--mount"][..], &["--mount", "--user", "--map-root-user"]] {
        let begun = |program: &str| {
            let mut command = Command::new("unshare");
            command.args(namespaces).args(["sh", "-c", READ_ONLY, "sh", disk, content, program]);
            command
        };
        if begun("true").output().is_ok_and(|output| output.status.success()) {
            return Some(begun(BINARY));
        }
    }
    println!("skipped: unshare --mount is not there or not allowed (util-linux; user namespaces)");
    None
}

/// The moment at which one wants a backup: everything was refused, since the lock and the mode came first.
#[test]
fn a_disk_that_is_mounted_read_only_is_checked_and_backed_up() {
    let folder = Folder::served(&["--sample", "synthetic:clusters=2,machines=20"]);
    let (disk, data) = (folder.text("disk"), folder.text("data"));
    fs::create_dir(&disk).expect("made");
    let on_disk = |args: &[&str]| {
        let mut command = on_a_read_only_disk(&disk, &data)?;
        Some(output_of(command.args(args).args(["--data-dir", &disk])))
    };
    let Some(checked) = on_disk(&["standalone", "--check"]) else { return };
    let told = |output: std::process::Output| {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    // The store was killed, so opening it would write.
    let checked = told(checked);
    assert!(checked.contains("store.redb: in order; "), "{checked}");
    let saved = told(on_disk(&["backup", &folder.text("backup")]).expect("as before"));
    let objects = said(&["restore", &folder.text("backup"), "--data-dir", &folder.text("restored")]);
    assert_eq!(saved.split(' ').next(), objects.split(' ').next(), "{saved}{objects}");
    for args in
        [&["standalone", "--headless"][..], &["standalone", "--repair"], &["restore", &folder.text("backup")]]
    {
        let error = refusal(&on_disk(args).expect("as before"));
        assert!(error.contains("mounted read-only") && error.contains("capstan backup"), "{args:?}: {error}");
    }
}

/// Files without a write permission stand for a disk that is mounted read-only; root passes over
/// permissions, so there only what is on the disk afterwards counts.
#[test]
fn a_disk_that_cannot_be_written_is_checked_and_backed_up() {
    let folder = Folder::served(&["--sample", "synthetic:clusters=2,machines=20"]);
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
