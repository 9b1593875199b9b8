//! What is in the place of a file, a socket or a folder of ours, and stays as it is.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::process::{Command, Stdio};

use super::{Folder, refused, refused_with};
use crate::standalone::Standalone;

#[test]
fn what_is_not_a_regular_file_of_ours_is_not_replaced() {
    let folder = Folder::new();
    // A socket is only made where others cannot go.
    fs::set_permissions(folder.0.path(), fs::Permissions::from_mode(0o700)).expect("a mode");
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
    let full = Folder::served(&[]);
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
        let backup = refused(&["backup", &path, "--data-dir", &full.text("data")]);
        assert!(backup.contains(&words), "{backup}");
        let socket = format!("unix:{path}");
        let socket = ["standalone", "--headless", "--store", "memory", "--no-engine", "--listen", &socket];
        refused_with(&socket, &[&format!("it is {kind}, not a socket; it stays as it is")]);
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

    symlink(folder.at("unmounted"), folder.at("disk")).expect("a link");
    refuse("disk", &["disk is a link to ", "unmounted, which is not there", "mount its disk"]);
    refuse("disk/capstan", &["disk is a link to ", "unmounted, which is not there"]);
    assert!(!folder.at("unmounted").exists());

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

/// A key that others could read was kept, one that did not fit locked everybody out, and equal tokens made
/// readers writers.
#[test]
fn an_identity_that_is_not_safe_is_refused_with_what_mends_it() {
    let folder = Folder::served(&[]);
    let data = folder.text("data");
    let start = ["standalone", "--headless", "--listen", "127.0.0.1:0", "--data-dir", &data];
    let mode = |name: &str, mode| {
        fs::set_permissions(folder.at("data").join(name), fs::Permissions::from_mode(mode)).expect("a mode");
    };
    for name in ["ca.key", "admin.token", "read-only.token"] {
        for open in [0o640, 0o604, 0o666] {
            mode(name, open);
            let file = format!("{data}/{name}");
            let found = format!("others can read {file} (mode {open:04o}); close it with: chmod 0600 {file}");
            refused_with(&start, &[&found]);
        }
        mode(name, 0o600);
    }
    let admin = folder.at("data/admin.token");
    let token = fs::read(&admin).expect("a token");
    fs::copy(folder.at("data/read-only.token"), &admin).expect("copied");
    refused_with(&start, &["hold the same token", "delete one of them"]);
    fs::write(&admin, token).expect("written");
    let other = Folder::served(&[]);
    fs::copy(other.at("data/ca.key"), folder.at("data/ca.key")).expect("copied");
    refused_with(&start, &["ca.key is not the key of ", "restore the pair from a copy, or delete both"]);
    fs::remove_file(folder.at("data/ca.key")).expect("removed");
    fs::remove_file(folder.at("data/ca.crt")).expect("removed");
    Standalone::start(folder.0.path(), &["--no-engine"]).kill();
}
