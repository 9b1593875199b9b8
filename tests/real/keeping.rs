//! What is kept stays kept: restarts, a full disk, damaged files, backups, and two servers on one
//! etcd, with the real binary. See also `crash.rs`.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use capstan_base::rng::Rng;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};

use crate::standalone::{BINARY, Standalone};

async fn maps(server: &Standalone) -> Api<ConfigMap> {
    Api::namespaced(server.client().await, "default")
}

fn map(name: &str, payload: String) -> ConfigMap {
    let mut map = ConfigMap { data: Some([("payload".to_owned(), payload)].into()), ..ConfigMap::default() };
    map.metadata.name = Some(name.to_owned());
    map
}

async fn create(maps: &Api<ConfigMap>, name: &str) -> u64 {
    let made = maps.create(&PostParams::default(), &map(name, "x".to_owned())).await.expect("a creation");
    made.metadata.resource_version.expect("a version").parse().expect("a number")
}

/// Type, name and version of the next `count` events after `revision`.
async fn events(maps: &Api<ConfigMap>, revision: u64, count: usize) -> Vec<(String, u64)> {
    let mut watch =
        maps.watch(&WatchParams::default(), &revision.to_string()).await.expect("a watch").boxed();
    let mut seen = Vec::new();
    while seen.len() < count {
        let event = watch.next().await.expect("more events").expect("an event");
        let WatchEvent::Added(map) = event else { panic!("{event:?}") };
        let version = map.metadata.resource_version.expect("a version").parse().expect("a number");
        seen.push((map.metadata.name.expect("a name"), version));
    }
    seen
}

fn run(args: &[&str], data_dir: &Path) -> Output {
    Command::new(BINARY).args(args).arg("--data-dir").arg(data_dir).output().expect("it runs")
}

#[track_caller]
fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[track_caller]
fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test]
async fn s151_s152_a_watch_goes_on_over_kill_9_and_versions_grow() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Standalone::start(folder.path(), &["--no-engine"]);
    let before = maps(&server).await;
    let start = create(&before, "a0").await;
    let mut told = Vec::new();
    for n in 1..6 {
        let name = format!("a{n}");
        told.push((name.clone(), create(&before, &name).await));
    }
    server.kill();
    let server = Standalone::start(folder.path(), &["--no-engine"]);
    let after = maps(&server).await;
    let last = create(&after, "a6").await;
    told.push(("a6".to_owned(), last));
    assert!(told.windows(2).all(|pair| pair[0].1 < pair[1].1), "{told:?}");
    assert_eq!(events(&after, start, 6).await, told);
}

/// A limit on the size of files stands in for a full disk: nobody has to be root for it.
#[tokio::test]
async fn a_full_disk_refuses_writes_until_there_is_room_again() {
    let limit = |server: &Standalone, bytes: &str| {
        let pid = server.id().to_string();
        Command::new("prlimit").args(["--pid", &pid, &format!("--fsize={bytes}:")]).status()
    };
    let folder = tempfile::tempdir().expect("a folder");
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\"", BINARY]);
    let server = Standalone::start_by(shell, "127.0.0.1:0", folder.path(), &["--no-engine"]);
    let maps = maps(&server).await;
    create(&maps, "kept").await;
    let size = std::fs::metadata(folder.path().join("data/store.redb")).expect("the data file").len();
    if limit(&server, &size.to_string()).is_err() {
        println!("skipped: there is no prlimit on this machine (Debian package util-linux)");
        return;
    }
    let rng = Rng::seeded(1);
    let mut kept = 1;
    let refusal = loop {
        assert!(kept < 500, "the disk does not fill");
        match maps.create(&PostParams::default(), &map(&format!("big-{kept}"), rng.suffix(300_000))).await {
            Ok(_) => kept += 1,
            Err(kube::Error::Api(status)) => break status,
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!((refusal.code, refusal.reason.as_str()), (500, "InternalError"));
    assert!(refusal.message.contains("store.redb: "), "{}", refusal.message);
    assert!(refusal.message.contains("Nothing was lost; check free space"), "{}", refusal.message);
    for _ in 0..3 {
        assert!(maps.create(&PostParams::default(), &map("again", rng.suffix(300_000))).await.is_err());
    }
    let count = async |maps: &Api<ConfigMap>| {
        let all = maps.list(&ListParams::default()).await.expect("reads go on").items;
        all.iter().filter(|map| map.metadata.name.as_ref().is_some_and(|n| n != "kube-root-ca.crt")).count()
    };
    assert_eq!(count(&maps).await, kept);
    limit(&server, "unlimited").expect("prlimit");
    maps.create(&PostParams::default(), &map("room", rng.suffix(300_000)))
        .await
        .expect("there is room again");
    server.kill();
    let server = Standalone::start(folder.path(), &["--no-engine"]);
    assert_eq!(count(&self::maps(&server).await).await, kept + 1);
}

#[test]
fn a_data_file_is_checked_and_repaired_at_rest() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    assert!(refused(&run(&["standalone", "--check"], &data)).contains("there is no store in"));
    let server =
        Standalone::start(folder.path(), &["--no-engine", "--sample", "synthetic:clusters=2,machines=20"]);
    assert!(refused(&run(&["standalone", "--check"], &data)).contains("is in use by process"));
    server.kill();
    let checked = said(&run(&["standalone", "--check"], &data));
    assert!(checked.contains("store.redb: in order; "), "{checked}");
    assert!(said(&run(&["standalone", "--repair"], &data)).ends_with("There was nothing to repair.\n"));

    let file = data.join("store.redb");
    let bytes = std::fs::read(&file).expect("the data file");
    std::fs::write(&file, &bytes[..100]).expect("written");
    let error = refused(&run(&["standalone", "--repair"], &data));
    assert!(
        error.contains("no object can be read from the data file") && !error.contains("--repair"),
        "{error}"
    );
    let mut bytes = bytes;
    // Wherever this key is, also in what an earlier commit left behind: a letter that is no text.
    let key = b"/registry/namespaces/default";
    let found: Vec<usize> = (0..bytes.len() - key.len()).filter(|at| bytes[*at..].starts_with(key)).collect();
    found.iter().for_each(|at| bytes[at + 10] ^= 0xff);
    std::fs::write(&file, &bytes).expect("written");
    for action in ["--check", "--headless"] {
        let error = refused(&run(&["standalone", action], &data));
        assert!(
            error.contains("store.redb is damaged: ") && error.contains("Nothing was changed"),
            "{error}"
        );
        assert!(error.contains("capstan restore") && error.contains("--repair"), "{error}");
    }
    let repaired = said(&run(&["standalone", "--repair"], &data));
    assert!(
        repaired.contains("The data file was damaged: ") && repaired.contains("store.redb.damaged-"),
        "{repaired}"
    );
    assert!(said(&run(&["standalone", "--check"], &data)).contains("in order; "));
    let server = Standalone::start(folder.path(), &["--no-engine"]);
    assert_eq!(server.says(&["get", "machines", "-A", "--no-headers"]).lines().count(), 20);
}

/// Saved were the built-in definitions, and nothing that a client had written.
#[tokio::test]
async fn objects_that_clients_wrote_come_back_from_a_damaged_file() {
    const MAPS: usize = 60;
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("data/store.redb");
    let server = Standalone::start(folder.path(), &["--no-engine"]);
    let written = maps(&server).await;
    for n in 0..MAPS {
        create(&written, &format!("map-{n:02}")).await;
    }
    let all = async |server: &Standalone| -> Vec<(String, Option<String>, bool)> {
        let list = maps(server).await.list(&ListParams::default()).await.expect("a list");
        let told = |map: ConfigMap| {
            let data = map.data.and_then(|data| data.get("payload").cloned());
            (map.metadata.name.expect("a name"), data, map.metadata.managed_fields.is_some())
        };
        list.items.into_iter().map(told).collect()
    };
    let before = all(&server).await;
    assert!(before.len() >= MAPS);
    server.kill();
    let original = std::fs::read(&file).expect("the data file");
    let key = b"/registry/configmaps/default/map-30";
    let found = (0..original.len()).filter(|at| original[*at..].starts_with(key)).collect::<Vec<_>>();
    assert!(!found.is_empty());
    let bit = || {
        let mut bytes = original.clone();
        found.iter().for_each(|at| bytes[at + 5] ^= 4);
        bytes
    };
    for (what, bytes, lost) in [
        ("a bit", bit(), 0),
        ("the last byte", original[..original.len() - 1].to_vec(), 0),
        ("the head", [vec![0; 4096], original[4096..].to_vec()].concat(), 0),
    ] {
        std::fs::write(&file, &bytes).expect("written");
        let repaired = said(&run(&["standalone", "--repair"], &folder.path().join("data")));
        let counted = format!("objects were saved (0 of them uncertain), {lost} are lost");
        assert!(repaired.contains(&counted), "{what}: {repaired}");
        let server = Standalone::start(folder.path(), &["--no-engine"]);
        assert_eq!(all(&server).await, before, "{what}");
        server.kill();
    }
}

#[tokio::test]
async fn a_backup_is_restored_into_an_empty_store_of_any_kind() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let sample = ["--no-engine", "--sample", "synthetic:clusters=3,machines=30"];
    let server = Standalone::start(folder.path(), &sample);
    let last = create(&maps(&server).await, "last").await;
    let shown = |server: &Standalone| {
        let json: serde_json::Value =
            serde_json::from_str(&server.says(&["get", "machines", "-A", "-o", "json"])).expect("JSON");
        let mut items = json["items"].as_array().expect("items").clone();
        let versions: Vec<u64> = items
            .iter_mut()
            .map(|item| item["metadata"].as_object_mut().expect("metadata").remove("resourceVersion"))
            .map(|version| version.expect("a version").as_str().expect("text").parse().expect("a number"))
            .collect();
        (items, versions)
    };
    let (original, _) = shown(&server);
    assert_eq!(original.len(), 30);
    let told = server.says(&["backup", &path("one")]);
    assert!(told.contains(" objects of https://127.0.0.1:"), "{told}");
    let mode = std::fs::metadata(path("one")).expect("the backup").permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    assert!(refused(&server.capstan(&["backup", &path("one")])).contains("is there already"));
    server.kill();
    // The same from the data directory at rest, but for the moment it was taken.
    said(&run(&["backup", &path("two")], &folder.path().join("data")));
    let lines = |name: &str| -> Vec<String> {
        let text = std::fs::read_to_string(path(name)).expect("a backup");
        let mut lines: Vec<String> = text.lines().skip(1).map(str::to_owned).collect();
        lines.pop().expect("the checksum, which is also that of the first line");
        lines
    };
    assert_eq!(lines("one"), lines("two"));

    let restored = folder.path().join("restored");
    std::fs::create_dir(&restored).expect("a folder");
    let said_so = said(&run(&["restore", &path("one")], &restored.join("data")));
    assert!(said_so.contains(&format!("(they were at {last})")), "{said_so}");
    assert!(refused(&run(&["restore", &path("one")], &restored.join("data"))).contains("is not empty"));
    let server = Standalone::start(&restored, &["--no-engine"]);
    let (again, versions) = shown(&server);
    assert_eq!(again, original);
    assert!(versions.iter().all(|version| *version > last), "{versions:?}");
    drop(server);

    let memory = tempfile::tempdir().expect("a folder");
    let from_file = ["--no-engine", "--store", "memory", "--restore", &path("one")];
    assert_eq!(shown(&Standalone::start(memory.path(), &from_file)).0, original);

    let text = std::fs::read_to_string(path("one")).expect("a backup");
    let cut = text.len() - 20;
    for (content, expected) in [
        (&text[..cut], "is not a whole backup of capstan: its end is missing"),
        ("{}\n", "its first line is unknown"),
        (
            &text.replacen("\"capstanBackup\":1", "\"capstanBackup\":9", 1),
            "another version of capstan (format 9",
        ),
    ] {
        std::fs::write(path("bad"), content).expect("written");
        let error = refused(&run(&["restore", &path("bad")], &folder.path().join("empty")));
        assert!(error.contains(expected), "{error}");
        assert!(!folder.path().join("empty").exists(), "nothing was made");
    }
}

#[cfg(feature = "etcd")]
#[path = "../../crates/store/src/etcd/tests/server.rs"]
#[allow(dead_code, reason = "the store's own tests also kill and restart it")]
pub mod etcd;

#[cfg(feature = "etcd")]
#[tokio::test]
async fn s154_two_servers_on_one_etcd_see_each_others_events_in_order() {
    if !etcd::is_installed() {
        return;
    }
    let etcd = etcd::Etcd::start();
    let address = format!("etcd://{}", etcd.endpoint());
    let folders = [tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder")];
    let extra = ["--no-engine", "--store", &address];
    let one = Standalone::start(folders[0].path(), &extra);
    let two = Standalone::start(folders[1].path(), &extra);
    let (a, b) = (maps(&one).await, maps(&two).await);
    let start = create(&a, "start").await;
    let mut told = Vec::new();
    for n in 0..20 {
        let name = format!("m{n}");
        told.push((name.clone(), create(if n % 2 == 0 { &a } else { &b }, &name).await));
        assert!(b.get(&name).await.is_ok() && a.get(&name).await.is_ok(), "{name} is read by both at once");
    }
    assert!(told.windows(2).all(|pair| pair[0].1 < pair[1].1), "{told:?}");
    assert_eq!(events(&a, start, 20).await, told);
    assert_eq!(events(&b, start, 20).await, told);

    let cluster = serde_json::from_value(serde_json::json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": { "name": "shared" },
        "spec": { "infrastructureRef":
            { "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevCluster", "name": "shared" } },
    }));
    let cluster = cluster.expect("a cluster");
    one.clusters().await.create(&PostParams::default(), &cluster).await.expect("a cluster");
    assert!(two.clusters().await.get("shared").await.is_ok());
    let mut client = etcd_client::Client::connect([etcd.endpoint()], None).await.expect("etcd");
    let found = client.get("/registry/cluster.x-k8s.io/clusters/default/shared", None).await.expect("a read");
    let text = found.kvs().first().expect("the cluster").value_str().expect("text").to_owned();
    let plain = r#"{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Cluster","metadata":{"#;
    assert!(text.starts_with(plain) && !text.contains("resourceVersion"), "{text}");
    for key in ["/registry/configmaps/default/m0", "/registry/namespaces/default"] {
        assert_eq!(client.get(key, None).await.expect("a read").count(), 1, "{key}");
    }
    // One ends without a word; the other goes on, and takes over what the first had begun.
    one.kill();
    create(&b, "alone").await;
    let backup = folders[0].path().join("backup").display().to_string();
    let told = said(&run(&["backup", &backup, "--store", &address], folders[0].path()));
    assert!(told.contains("objects of etcd at 127.0.0.1:"), "{told}");
    let other = etcd::Etcd::start();
    let other = format!("etcd://{}", other.endpoint());
    let told = said(&run(&["restore", &backup, "--store", &other], folders[0].path()));
    assert!(told.contains("objects of "), "{told}");
}

#[cfg(feature = "etcd")]
#[tokio::test]
async fn d4_garbage_below_the_prefix_leaves_its_kind_listed_and_is_deleted_by_name() {
    if !etcd::is_installed() {
        return;
    }
    let (etcd, folder) = (etcd::Etcd::start(), tempfile::tempdir().expect("a folder"));
    let mut client = etcd_client::Client::connect([etcd.endpoint()], None).await.expect("etcd");
    let key = |name: &str| format!("/registry/configmaps/default/{name}");
    // One value was there before the server, the others come while it runs.
    client.put(key("before"), "k8s\0\n\x02v1", None).await.expect("a write");
    let address = format!("etcd://{}", etcd.endpoint());
    let server = Standalone::start(folder.path(), &["--no-engine", "--store", &address]);
    let maps = maps(&server).await;
    let start = create(&maps, "good").await;
    client.put(key("meanwhile"), "junk", None).await.expect("a write");
    create(&maps, "spoilt").await;
    client
        .put(key("spoilt"), r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"spo"#, None)
        .await
        .expect("a write");
    create(&maps, "last").await;
    let list = maps.list(&ListParams::default()).await.expect("a list");
    let names: Vec<_> = list.items.into_iter().filter_map(|map| map.metadata.name).collect();
    assert_eq!(names, ["good", "last"]);
    let said = warnings(&server, "/api/v1/namespaces/default/configmaps").await;
    assert!(said.contains("3 of the configmaps") && said.contains("default/meanwhile"), "{said}");
    assert_eq!(warnings(&server, "/api/v1/namespaces/other/configmaps").await, "");
    let mut watch = maps.watch(&WatchParams::default(), &start.to_string()).await.expect("a watch").boxed();
    let mut told = Vec::new();
    while told.last().is_none_or(|last| last != "added last") {
        told.push(match watch.next().await.expect("more events").expect("an event") {
            WatchEvent::Added(map) => format!("added {}", map.metadata.name.expect("a name")),
            WatchEvent::Deleted(map) => format!("deleted {}", map.metadata.name.expect("a name")),
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(told, ["added spoilt", "deleted spoilt", "added last"]);
    for name in ["before", "meanwhile", "spoilt"] {
        let error = maps.get(name).await.expect_err("it is not an object").to_string();
        assert!(
            error.contains(&format!("{} is damaged; it can be deleted by its name", key(name))),
            "{error}"
        );
        maps.delete(name, &DeleteParams::default()).await.expect("it is deleted");
        assert_eq!(client.get(key(name), None).await.expect("a read").count(), 0);
        create(&maps, name).await;
    }
    assert_eq!(warnings(&server, "/api/v1/configmaps").await, "", "nothing is left out any more");
}

/// The `Warning` headers of an answer.
#[cfg(feature = "etcd")]
async fn warnings(server: &Standalone, path: &str) -> String {
    let request = http::Request::get(path).body(kube::client::Body::empty()).expect("a request");
    let answer = server.client().await.send(request).await.expect("an answer");
    let all = answer.headers().get_all(http::header::WARNING).iter();
    all.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect::<Vec<_>>().join("\n")
}

#[cfg(feature = "etcd")]
#[test]
fn an_etcd_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = run(&["standalone", "--headless", "--store", "etcd://127.0.0.1:1"], folder.path());
    let error = refused(&output);
    assert!(error.contains("etcd at 127.0.0.1:1 does not answer: "), "{error}");
    assert!(error.contains("check that it runs and can be reached"), "{error}");
}
