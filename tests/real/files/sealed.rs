//! Encrypted stores with the real binary: what is in their files, what is refused without the right key, what a kill leaves, backups,
//! and the question for a passphrase.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Command, Stdio};

use capi_types::host::{Host, HostSpec};
use capstan_base::rng::Rng;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use portable_pty::CommandBuilder;

use super::{Folder, kills, look, refused_with, run, said, start};
use crate::standalone::{BINARY, Standalone};
use crate::terminal::Pty;

/// It does not shrink, so it stands in a file as it is, in base64 and in nothing else.
fn planted(name: &str) -> String {
    format!("{name}-{}", Rng::seeded(name.len() as u64).suffix(240))
}

async fn secrets(server: &Standalone) -> Api<Secret> {
    Api::namespaced(server.client().await, "default")
}

async fn put(secrets: &Api<Secret>, name: &str, value: &str) {
    let mut secret = Secret::default();
    secret.metadata.name = Some(name.to_owned());
    // Text, so that it stands in the store as it is.
    secret.metadata.annotations = Some([("planted".to_owned(), value.to_owned())].into());
    secret.data = Some([("key".to_owned(), ByteString(value.as_bytes().to_vec()))].into());
    match secrets.get_opt(name).await.expect("a read") {
        None => secrets.create(&PostParams::default(), &secret).await.expect("a creation"),
        Some(there) => {
            secret.metadata.resource_version = there.metadata.resource_version;
            secrets.replace(name, &PostParams::default(), &secret).await.expect("a change")
        }
    };
}

async fn all(secrets: &Api<Secret>) -> BTreeMap<String, String> {
    let list = secrets.list(&ListParams::default()).await.expect("a list").items;
    let value = |secret: &Secret| {
        let data = secret.data.as_ref().and_then(|data| data.get("key")).map(|value| value.0.clone());
        String::from_utf8(data.unwrap_or_default()).expect("text")
    };
    list.iter().map(|secret| (secret.metadata.name.clone().expect("a name"), value(secret))).collect()
}

/// The files of a folder that hold a text.
fn files_with(folder: &Path, text: &str) -> Vec<String> {
    let holds =
        |path: &Path| fs::read(path).expect("a file").windows(text.len()).any(|part| part == text.as_bytes());
    let files = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    files.filter(|path| path.is_file() && holds(path)).map(|path| path.display().to_string()).collect()
}

fn new_key(folder: &Folder, name: &str) -> String {
    let told = said(&["encryption-key", "new", &folder.text(name)]);
    let id = told.split("made with key ").nth(1).and_then(|rest| rest.split('.').next()).expect("its name");
    assert_eq!(id.len(), 16, "{told}");
    id.to_owned()
}

#[tokio::test]
async fn a_store_gets_a_key_another_one_and_needs_it() {
    let folder = Folder::new();
    let (data, keys) = (folder.text("data"), folder.text("keys"));
    let (now, before, gone) = (planted("now"), planted("before"), planted("deleted"));
    let server = Standalone::start(folder.0.path(), &["--no-engine"]);
    let api = secrets(&server).await;
    for (name, value) in [("a", &before), ("a", &now), ("b", &gone), ("c", &now)] {
        put(&api, name, value).await;
    }
    api.delete("b", &DeleteParams::default()).await.expect("a deletion");
    server.kill();
    for value in [&now, &before, &gone] {
        assert!(!files_with(&folder.at("data"), value).is_empty(), "in clear without a key");
    }

    let first = new_key(&folder, "keys");
    assert_eq!(fs::metadata(&keys).expect("a file").permissions().mode() & 0o7777, 0o600);
    let with = ["--no-engine", "--encryption-key", &keys];
    let server = Standalone::start(folder.0.path(), &with);
    let api = secrets(&server).await;
    let expected: BTreeMap<_, _> = [("a", &now), ("c", &now)].map(|(n, v)| (n.to_owned(), v.clone())).into();
    assert_eq!(all(&api).await, expected);
    put(&api, "d", &planted("later")).await;
    server.kill();
    for value in [&now, &before, &gone, &planted("later")] {
        assert_eq!(files_with(&folder.at("data"), value), [""; 0]);
    }

    // What each command says without the key, and with another one.
    let second = new_key(&folder, "others");
    let (others, nowhere, backup) = (folder.text("others"), folder.text("nowhere"), folder.text("backup"));
    let needed = format!("store.redb is encrypted with key {first}");
    for command in [&["standalone", "--headless", "--no-engine"][..], &["backup", &backup]] {
        let command = [command, &["--data-dir", &data]].concat();
        refused_with(&command, &[&needed, "no key file was named", "--encryption-key FILE"]);
        let other = [&command[..], &["--encryption-key", &others]].concat();
        refused_with(&other, &[&needed, &format!("the key file holds {second}")]);
        let none = [&command[..], &["--encryption-key", &nowhere]].concat();
        refused_with(&none, &["there is no key file", "capstan encryption-key new"]);
    }
    let check = ["standalone", "--check", "--data-dir", &data];
    let told = said(&check);
    assert!(
        told.contains(&format!("encrypted with key {first}: 3 Secrets are sealed, without the key")),
        "{told}"
    );
    let told = said(&[&check[..], &["--encryption-key", &keys]].concat());
    assert!(told.contains("3 Secrets are sealed, each of them opens"), "{told}");
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o644)).expect("a mode");
    refused_with(&[&check[..], &["--encryption-key", &keys]].concat(), &["others can read", "chmod 0600"]);
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o600)).expect("a mode");

    // Another key, step by step.
    fs::copy(&keys, folder.at("old")).expect("a copy");
    let told = said(&["encryption-key", "rotate", &keys]);
    assert!(told.contains(&format!("what is encrypted with {first} opens as before")), "{told}");
    let prune = ["encryption-key", "prune", &keys, "--data-dir", &data];
    refused_with(&prune, &["still needs an older key: 3 Secrets are encrypted with one", "start it once"]);
    let output = run(&["encryption-key", "prune", &keys]);
    assert_eq!(output.status.code(), Some(2), "which store has to be said");
    let server = Standalone::start(folder.0.path(), &with);
    assert_eq!(all(&secrets(&server).await).await.len(), 3);
    refused_with(&prune, &["is in use by process"]);
    server.kill();
    assert!(said(&prune).contains(&format!("dropped 1 key ({first})")));
    assert!(said(&prune).contains("is the only one; there is nothing to drop"));
    refused_with(
        &[&check[..], &["--encryption-key", &folder.text("old")]].concat(),
        &["is encrypted with key "],
    );
    let server = Standalone::start(folder.0.path(), &with);
    assert_eq!(all(&secrets(&server).await).await.len(), 3);
}

/// One of the first starts with a key is killed at any moment: the store is whole, and in clear or encrypted as a whole.
#[tokio::test]
async fn a_kill_while_a_store_is_encrypted_leaves_one_that_opens() {
    const SECRETS: usize = 40;
    let folder = Folder::new();
    let value = planted("value");
    let server = Standalone::start(folder.0.path(), &["--no-engine"]);
    let api = secrets(&server).await;
    for n in 0..SECRETS {
        put(&api, &format!("s{n}"), &value).await;
    }
    server.kill();
    new_key(&folder, "keys");
    let keys = folder.text("keys");
    let copy = |name: &str| {
        fs::create_dir(folder.at(name)).expect("a folder");
        fs::set_permissions(folder.at(name), fs::Permissions::from_mode(0o700)).expect("a mode");
        for entry in fs::read_dir(folder.at("data")).expect("a folder").map(|entry| entry.expect("an entry"))
        {
            fs::copy(entry.path(), folder.at(name).join(entry.file_name())).expect("a copy");
        }
        folder.text(name)
    };
    let command = |data: &str| {
        ["standalone", "--headless", "--no-engine", "--data-dir", data, "--encryption-key", &keys]
            .map(str::to_owned)
    };
    // Looks at a server until the new file is there, at most so often: a measure of time that needs no clock.
    let strike = |name: &str, most: u64| {
        let data = copy(name);
        let inode = || fs::metadata(Path::new(&data).join("store.redb")).map_or(0, |found| found.ino());
        let (old, mut looks) = (inode(), 0);
        let mut child = start(&command(&data).each_ref().map(String::as_str));
        while looks < most && inode() == old {
            assert_eq!(look(&mut child, 1), 1, "it ended by itself");
            looks += 1;
        }
        child.kill().expect("killed");
        child.wait().expect("gone");
        (data, looks)
    };
    let (_, looks) = strike("first", u64::MAX);
    let rng = Rng::seeded(5);
    let (mut clear, mut sealed) = (0, 0);
    for round in 0..kills() {
        let most = match round {
            0 => 0,
            1 => u64::MAX,
            _ => rng.below(looks * 5 / 4),
        };
        let (data, _) = strike(&format!("data-{round}"), most);
        let backup = folder.text(&format!("backup-{round}"));
        let told = said(&["backup", &backup, "--data-dir", &data, "--encryption-key", &keys]);
        assert!(
            told.contains(&format!("{SECRETS} Secrets are in it, encrypted with key")),
            "round {round}: {told}"
        );
        let is_clear = fs::read(Path::new(&data).join("store.redb")).expect("the data file");
        let is_clear = is_clear.windows(value.len()).any(|part| part == value.as_bytes());
        *(if is_clear { &mut clear } else { &mut sealed }) += 1;
        let checked = run(&["standalone", "--check", "--data-dir", &data, "--encryption-key", &keys]);
        assert_eq!(checked.status.success(), !is_clear, "round {round}: as a whole or not at all");
        fs::remove_dir_all(&data).expect("removed");
    }
    println!("{} kills: {clear} left a store in clear, {sealed} an encrypted one", clear + sealed);
    assert!(clear > 0 && sealed > 0, "{clear} in clear, {sealed} encrypted");
}

#[tokio::test]
async fn backups_are_encrypted_with_the_store_and_restored_with_its_key() {
    let folder = Folder::new();
    let (data, keys) = (folder.text("data"), folder.text("keys"));
    let id = new_key(&folder, "keys");
    let value = planted("value");
    let server = Standalone::start(folder.0.path(), &["--no-engine", "--encryption-key", &keys]);
    put(&secrets(&server).await, "a", &value).await;
    // Through the server, without and with the key.
    let told = server.says(&["backup", &folder.text("through")]);
    assert!(told.ends_with("--encryption-key.\n") && told.contains("1 Secret is in it in clear"), "{told}");
    server.says(&["backup", &folder.text("through-sealed"), "--encryption-key", &keys]);
    server.kill();
    let backup = |name: &str, more: &[&str]| {
        said(
            &[&["backup", &folder.text(name), "--data-dir", &data, "--encryption-key", &keys], more].concat(),
        )
    };
    let told = backup("sealed", &[]);
    assert!(told.contains(&format!("1 Secret is in it, encrypted with key {id}")), "{told}");
    assert!(backup("clear", &["--in-clear"]).contains("1 Secret is in it in clear"));
    let text = |name: &str| fs::read_to_string(folder.at(name)).expect("a backup");
    assert!(text("through").contains(&value) && text("clear").contains(&value));
    for name in ["sealed", "through-sealed"] {
        let text = text(name);
        let head = text.lines().next().expect("a line");
        assert!(head.contains("\"capstanBackup\":2") && head.contains(&id), "{head}");
        let line = text.lines().find(|line| line.contains("\"kind\":\"Secret\"")).expect("its line");
        assert!(line.contains("\"name\":\"a\"") && !text.contains(&value), "{line}");
    }
    let other = new_key(&folder, "others");
    let others = folder.text("others");
    let to = folder.text("restored/data");
    let restore = |name: &str| ["restore".to_owned(), folder.text(name), "--data-dir".to_owned(), to.clone()];
    let sealed = restore("sealed");
    let sealed = sealed.each_ref().map(String::as_str);
    refused_with(
        &sealed,
        &["the backup ", &format!("is encrypted with key {id}, and no key file was named")],
    );
    let wrong = [&sealed[..], &["--encryption-key", &others]].concat();
    refused_with(&wrong, &[&format!("the key file holds {other}")]);
    assert!(!folder.at("restored/data/store.redb").exists(), "nothing was made");
    let told = said(&[&sealed[..], &["--encryption-key", &keys]].concat());
    assert!(told.contains(&format!("Its Secrets are encrypted with key {id}.")), "{told}");
    assert_eq!(files_with(&folder.at("restored/data"), &value), [""; 0]);
    let server = Standalone::start(&folder.at("restored"), &["--no-engine", "--encryption-key", &keys]);
    assert_eq!(all(&secrets(&server).await).await.get("a"), Some(&value));
    drop(server);
    // In memory nothing is encrypted, and the backup needs its key all the same.
    fs::create_dir(folder.at("memory")).expect("a folder");
    let memory =
        ["--no-engine", "--store", "memory", "--restore", &folder.text("sealed"), "--encryption-key", &keys];
    let server = Standalone::start(&folder.at("memory"), &memory);
    assert_eq!(all(&secrets(&server).await).await.get("a"), Some(&value));
    // A line that was moved under another name, with a checksum that is right again.
    let altered = text("sealed").replacen("\"name\":\"a\"", "\"name\":\"b\"", 1);
    let (lines, tail) = altered.trim_end().rsplit_once('\n').expect("lines");
    let mut tail: serde_json::Value = serde_json::from_str(tail).expect("the last line");
    tail.as_object_mut().expect("an object").remove("sha256");
    fs::write(folder.at("altered"), format!("{lines}\n{tail}\n")).expect("written");
    let altered =
        ["restore", &folder.text("altered"), "--data-dir", &folder.text("new"), "--encryption-key", &keys];
    refused_with(&altered, &["backup/Secret/default/b does not open", "it was altered, or moved here"]);
    assert!(!folder.at("new/store.redb").exists());
}

#[tokio::test]
async fn a_store_with_hosts_that_is_not_encrypted_is_named_at_start() {
    let folder = Folder::new();
    let server = Standalone::start(folder.0.path(), &["--no-engine"]);
    let hosts: Api<Host> = Api::namespaced(server.client().await, "default");
    let host = Host::new("h1", HostSpec { address: "192.0.2.1".to_owned(), ..HostSpec::default() });
    hosts.create(&PostParams::default(), &host).await.expect("a Host");
    server.kill();
    let mut command = Command::new(BINARY);
    command.args(["standalone", "--headless", "--no-engine", "--data-dir", &folder.text("data")]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it runs");
    let mut first = String::new();
    BufReader::new(child.stderr.take().expect("its log")).read_line(&mut first).expect("a line");
    child.kill().expect("killed");
    child.wait().expect("gone");
    for words in
        ["has Hosts, so it holds the keys of real clusters", "--encryption-key FILE", "capstan backup"]
    {
        assert!(first.contains(words), "{first}");
    }
}

fn typing(args: &[&str]) -> Pty {
    let mut command = CommandBuilder::new(BINARY);
    command.args(args);
    Pty::open_sized(command, 24, 200)
}

#[test]
fn a_passphrase_is_asked_for_and_not_shown() {
    let folder = Folder::new();
    let keys = folder.text("keys");
    let mut terminal = typing(&["encryption-key", "new", &keys, "--with-passphrase"]);
    terminal.shows("New passphrase: ");
    terminal.press("correct hosre\x7f\x7f\x7frse\r");
    terminal.shows("The same again: ");
    terminal.press("correct horse\r");
    terminal.shows("made with key ");
    terminal.end();
    assert!(!String::from_utf8_lossy(terminal.raw()).contains("correct"));

    let mut terminal = typing(&["encryption-key", "rotate", &keys]);
    terminal.shows("Passphrase of ");
    terminal.press("another\r");
    terminal.shows("the passphrase does not open the key file");
    terminal.end();
    let mut terminal = typing(&["encryption-key", "rotate", &keys]);
    terminal.shows("Passphrase of ");
    terminal.press("\x03");
    terminal.shows("interrupted; nothing was done");
    terminal.end();
    let mut terminal = typing(&["encryption-key", "passphrase", &keys]);
    terminal.shows("Passphrase of ");
    terminal.press("correct horse\r");
    terminal.shows("New passphrase: ");
    terminal.press("one\r");
    terminal.shows("The same again: ");
    terminal.press("two\r");
    terminal.shows("the two passphrases differ; nothing was changed");
    terminal.end();

    // Without a terminal: from a file, or a sentence.
    let passphrase = folder.text("passphrase");
    fs::write(&passphrase, "correct horse\n").expect("written");
    let rotate = ["encryption-key", "rotate", &keys, "--passphrase-file", &passphrase];
    refused_with(&rotate, &["others can read", "chmod 0600"]);
    fs::set_permissions(&passphrase, fs::Permissions::from_mode(0o600)).expect("a mode");
    assert!(said(&rotate).contains("encrypts from the next start on"));
    let remove = ["encryption-key", "passphrase", &keys, "--remove", "--passphrase-file", &passphrase];
    assert!(said(&remove).contains("not protected by a passphrase any more"));
    let back = ["encryption-key", "passphrase", &keys, "--new-passphrase-file", &passphrase];
    assert!(said(&back).contains("it is protected by a passphrase from now on"));
    let with = ["--no-engine", "--encryption-key", &keys, "--passphrase-file", &passphrase];
    drop(Standalone::start(folder.0.path(), &with));
    refused_with(&["encryption-key", "new", &keys], &["is there already"]);
}

#[cfg(feature = "etcd")]
#[tokio::test]
async fn servers_on_one_etcd_share_a_key_file() {
    use crate::keeping::etcd::{Etcd, is_installed};
    if !is_installed() {
        return;
    }
    let (etcd, folder) = (Etcd::start(), Folder::new());
    let keys = folder.text("keys");
    let id = new_key(&folder, "keys");
    let (store, value) = (format!("etcd://{}", etcd.endpoint()), planted("value"));
    for name in ["one", "two"] {
        fs::create_dir(folder.at(name)).expect("a folder");
    }
    let clear = ["--no-engine", "--store", &store];
    let server = Standalone::start(&folder.at("one"), &clear);
    put(&secrets(&server).await, "before", &value).await;
    server.kill();
    let with = ["--no-engine", "--store", &store, "--encryption-key", &keys];
    let (one, two) =
        (Standalone::start(&folder.at("one"), &with), Standalone::start(&folder.at("two"), &with));
    let (a, b) = (secrets(&one).await, secrets(&two).await);
    put(&a, "after", &value).await;
    assert_eq!(all(&b).await.len(), 2);
    assert!(all(&b).await.values().all(|found| *found == value));
    let mut client = etcd_client::Client::connect([etcd.endpoint()], None).await.expect("etcd");
    for name in ["before", "after"] {
        let found = client.get(format!("/registry/secrets/default/{name}"), None).await.expect("a read");
        let found = found.kvs().first().expect("the Secret").value().to_vec();
        assert!(found.starts_with(b"capstan:sealed:1:"), "{name}");
    }
    // Altered by somebody: left out with a Warning, 500 by name, and deleted by name.
    client.put("/registry/secrets/default/after", "capstan:sealed:1:junk", None).await.expect("a write");
    put(&a, "last", &value).await;
    assert_eq!(all(&b).await.into_keys().collect::<Vec<_>>(), ["before", "last"]);
    let error = b.get("after").await.expect_err("it does not open").to_string();
    assert!(error.contains("it can be deleted by its name"), "{error}");
    b.delete("after", &DeleteParams::default()).await.expect("it is deleted");
    drop((one, two));
    let refused = |more: &[&str], words: &[&str]| {
        let command =
            ["standalone", "--headless", "--no-engine", "--data-dir", &folder.text("one"), "--store", &store];
        refused_with(&[&command[..], more].concat(), words);
    };
    refused(&[], &["etcd at ", &format!("is encrypted with key {id}")]);
    let other = new_key(&folder, "others");
    refused(&["--encryption-key", &folder.text("others")], &[&format!("the key file holds {other}")]);
    said(&["encryption-key", "rotate", &keys]);
    let prune = ["encryption-key", "prune", &keys, "--store", &store, "--data-dir", &folder.text("one")];
    refused_with(&prune, &["still needs an older key: 2 Secrets are"]);
    let backup = folder.text("backup");
    assert!(
        said(&["backup", &backup, "--store", &store, "--encryption-key", &keys])
            .contains("2 Secrets are in it, encrypted")
    );
    drop(Standalone::start(&folder.at("one"), &with));
    assert!(said(&prune).contains("dropped 1 key"));
}
