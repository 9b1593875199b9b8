//! Restores that are killed or altered, repairs that are killed, and stores that are gone.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, PostParams};
use kube::runtime::{WatchStreamExt as _, watcher};

use super::{Folder, Killer, kills, refused_with, said};
#[cfg(feature = "etcd")]
use super::{refusal, run};
use crate::standalone::Standalone;

async fn maps(server: &Standalone) -> Api<ConfigMap> {
    Api::namespaced(server.client().await, "default")
}

async fn create(server: &Standalone, name: &str) -> u64 {
    let maps = maps(server).await;
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    let made = maps.create(&PostParams::default(), &map).await.expect("a creation");
    made.metadata.resource_version.expect("a version").parse().expect("a number")
}

/// A backup of a fleet, in `folder/backup`, and how many objects are in it.
fn backup(folder: &Folder, machines: u32) -> usize {
    let sample = ["--no-engine", "--sample", &format!("synthetic:clusters=5,machines={machines}")];
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
    let count = backup(&folder, 300);
    let restore = |data: &str| {
        ["restore".to_owned(), folder.text("backup"), "--data-dir".to_owned(), folder.text(data)]
    };
    let first = restore("first");
    let killer = Killer::of(&first.each_ref().map(String::as_str));
    let (mut none, mut whole) = (0, 0);
    for round in 0..kills() {
        let name = format!("restored-{round}");
        let args = restore(&name);
        let args = args.each_ref().map(String::as_str);
        killer.strikes(round, &args);
        let data = folder.text(&name);
        if folder.at(&name).join("store.redb").exists() {
            let checked = said(&["standalone", "--check", "--data-dir", &data]);
            assert!(checked.contains(&format!("in order; {count} objects")), "round {round}: {checked}");
            whole += 1;
        } else {
            // What it left behind is no obstacle.
            if none % 4 == 0 {
                let told = said(&args);
                assert!(told.starts_with(&format!("{count} objects")), "round {round}: {told}");
            }
            none += 1;
        }
        let _ = fs::remove_dir_all(&data);
    }
    println!(
        "{} kills: {none} without a store, {whole} with a whole one, 0 with a part of one",
        none + whole
    );
    assert!(none > 0 && whole > 0, "{none} without, {whole} with a store");
}

/// What is in etcd after a kill, as another command finds it.
#[cfg(feature = "etcd")]
enum Found {
    Nothing,
    Half,
    All,
}

#[cfg(feature = "etcd")]
fn found_in(store: &str, folder: &Folder, count: usize) -> Found {
    let _ = fs::remove_file(folder.at("again"));
    let output = run(&["backup", &folder.text("again"), "--store", store]);
    if output.status.success() {
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(told.starts_with(&format!("{count} objects of etcd at ")), "{told}");
        return Found::All;
    }
    let error = refusal(&output);
    if error.contains("there is nothing to back up") {
        return Found::Nothing;
    }
    assert!(error.contains("did not come to its end. Nothing was changed"), "{error}");
    assert!(
        error.contains("etcdctl del --prefix /registry/ && etcdctl del capstan_restore/registry"),
        "{error}"
    );
    Found::Half
}

#[cfg(feature = "etcd")]
#[tokio::test]
async fn a_killed_restore_into_etcd_is_refused_until_it_was_made_again() {
    use crate::keeping::etcd::{Etcd, is_installed};
    if !is_installed() {
        return;
    }
    let folder = Folder::new();
    let count = backup(&folder, 50);
    let etcd = Etcd::start();
    let store = format!("etcd://{}", etcd.endpoint());
    let (file, data) = (folder.text("backup"), folder.text("elsewhere"));
    let restore = ["restore", &file, "--store", &store];
    let mut client = etcd_client::Client::connect([etcd.endpoint()], None).await.expect("etcd");
    let killer = Killer::of(&restore);
    let (mut none, mut half, mut whole) = (0, 0, 0);
    for round in 0..kills().div_ceil(4) {
        let all = etcd_client::DeleteOptions::new().with_prefix();
        client.delete("/registry/", Some(all)).await.expect("removed");
        killer.strikes(round, &restore);
        match found_in(&store, &folder, count) {
            Found::Nothing => none += 1,
            Found::All => whole += 1,
            Found::Half => {
                let server = ["standalone", "--headless", "--data-dir", &data, "--store", &store];
                refused_with(&server, &["did not come to its end"]);
                assert!(said(&restore).starts_with(&format!("{count} objects")));
                assert!(matches!(found_in(&store, &folder, count), Found::All), "round {round}");
                half += 1;
            }
        }
    }
    println!(
        "{} kills: {none} without an object, {half} refused and made again, {whole} whole",
        none + half + whole
    );
    assert!(none > 0 && whole > 0, "{none} without, {whole} whole");
}

/// The damaged file was moved away before the new one was there.
#[test]
fn a_killed_repair_never_looks_like_a_store_that_is_gone() {
    let folder = Folder::served(&["--sample", "synthetic:clusters=3,machines=100"]);
    let (data, file) = (folder.text("data"), folder.at("data/store.redb"));
    let checked = said(&["standalone", "--check", "--data-dir", &data]);
    let count = checked.split("in order; ").nth(1).expect("a count").split(' ').next().expect("a number");
    let bytes = fs::read(&file).expect("the data file");
    let damaged = &bytes[..bytes.len() - 1];
    let repair = ["standalone", "--repair", "--data-dir", &data];
    fs::write(&file, damaged).expect("written");
    let killer = Killer::of(&repair);
    let (mut before, mut after) = (0, 0);
    for round in 0..kills().div_ceil(2) {
        // A name of its own for each: two repairs of one second would find the place taken.
        for entry in fs::read_dir(&data).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            if entry.to_string_lossy().contains(".damaged-") {
                fs::remove_file(entry).expect("removed");
            }
        }
        fs::remove_file(&file).expect("removed");
        fs::write(&file, damaged).expect("written");
        killer.strikes(round, &repair);
        if fs::read(&file).expect("it never goes away") == damaged {
            before += 1;
            continue;
        }
        let checked = said(&["standalone", "--check", "--data-dir", &data]);
        assert!(checked.contains(&format!("in order; {count} objects")), "round {round}: {checked}");
        after += 1;
    }
    println!("{} kills: {before} left the damaged file, {after} a new one", before + after);
    assert!(before > 0 && after > 0, "{before} before, {after} after");
}

#[test]
fn an_altered_backup_and_one_with_odd_names_are_refused() {
    let folder = Folder::new();
    backup(&folder, 50);
    let data = folder.text("new");
    let refuse = |file: &str, words: &[&str]| {
        refused_with(&["restore", file, "--data-dir", &data], words);
        assert!(!folder.at("new/store.redb").exists(), "nothing was made");
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
    for reader in
        [&["standalone", "--check"][..], &["standalone", "--repair"], &["backup", &folder.text("backup")]]
    {
        refused_with(&[reader, &["--data-dir", &data]].concat(), &ways_out);
    }
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

/// A watcher with a version of the lost history, over a server that came back with a backup.
#[tokio::test]
async fn a_watcher_over_a_restore_sees_exactly_what_was_restored() {
    let folder = Folder::new();
    let server = Standalone::start(folder.0.path(), &["--no-engine"]);
    let names = |list: Vec<ConfigMap>| list.iter().map(ConfigMap::name_any).collect::<BTreeSet<String>>();
    create(&server, "kept").await;
    let backed_up = names(maps(&server).await.list(&ListParams::default()).await.expect("a list").items);
    server.says(&["backup", &folder.text("backup")]);
    create(&server, "lost").await;
    let events = watcher(maps(&server).await, watcher::Config::default()).default_backoff();
    let mut events = Box::pin(events);
    let mut seen = BTreeSet::new();
    // What is shown when a list is complete; errors on the way are those of a server that is away.
    let mut listed = async || loop {
        match events.next().await.expect("a watcher does not end") {
            Ok(watcher::Event::Init) => seen.clear(),
            Ok(watcher::Event::InitApply(map) | watcher::Event::Apply(map)) => seen.extend([map.name_any()]),
            Ok(watcher::Event::InitDone) => return seen.clone(),
            Ok(watcher::Event::Delete(map)) => panic!("a deletion of {} that nobody made", map.name_any()),
            Err(_) => {}
        }
    };
    assert!(listed().await.contains("lost"));
    let address = server.address.clone();
    server.kill();
    fs::remove_file(folder.at("data/store.redb")).expect("removed");
    said(&["restore", &folder.text("backup"), "--data-dir", &folder.text("data")]);
    let _server = Standalone::start_at(&address, folder.0.path(), &["--no-engine"]);
    assert_eq!(listed().await, backed_up);
}
