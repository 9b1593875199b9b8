//! Which host key a Host is trusted by, with a real sshd and a real server: unknown, pinned after it was compared, and changed.

use std::time::Duration;

use capi_types::host::Host;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};

use crate::hosts::Sshd;
use crate::standalone::Standalone;

/// The Host as the command lists it.
fn listed(server: &Standalone) -> Value {
    let text = server.says(&["host", "list", "-o", "json"]);
    let all: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    all["hosts"][0].clone()
}

async fn until(server: &Standalone, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..240 {
        let host = listed(server);
        if is_so(&host) {
            return host;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    panic!("{what} did not happen: {}", listed(server));
}

fn is_untrusted(host: &Value) -> bool {
    host["state"] == "Untrusted"
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_key_that_was_compared_is_trusted() {
    let Some(mut sshd) = Sshd::start().await else { return };
    let folder = tempfile::tempdir().expect("a folder");
    // Nothing is known of the machine.
    std::fs::write(sshd.at("nothing"), "").expect("written");
    sshd.client("nothing", "id");
    let program = sshd.at("ssh").display().to_string();
    let server = Standalone::start(folder.path(), &["--ssh-program", &program]);
    let host = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "Host",
        "metadata": {"name": "h1", "namespace": "default"},
        "spec": {"address": "127.0.0.1", "connection": {"port": sshd.port()}}});
    let hosts: Api<Host> = Api::namespaced(server.client().await, "default");
    let host: Host = serde_json::from_value(host).expect("a Host");
    hosts.create(&PostParams::default(), &host).await.expect("created");
    let seen = until(&server, "not trusted", is_untrusted).await;
    let fingerprint = sshd.fingerprint();
    assert!(seen["why"].as_str().is_some_and(|why| why.contains(&fingerprint)), "{seen}");
    assert_eq!(seen["facts"], Value::Null, "nothing was asked");

    let trust = ["host", "trust", "h1", "--ssh-program", &program];
    assert!(server.says(&trust).contains(&format!("offers ssh-ed25519 {fingerprint}")));
    let other = format!("SHA256:{}", "a".repeat(43));
    let refused = server.capstan(&[&trust[..], &["--fingerprint", &other, "--yes"]].concat());
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && words.contains("nothing is trusted"), "{words}");
    server.says(&[&trust[..], &["--fingerprint", &fingerprint, "--yes"]].concat());
    let seen = until(&server, "an answer", |host| host["facts"].is_object()).await;
    let keys = seen["identity"]["hostKeys"].as_array().cloned().unwrap_or_default();
    assert!(keys.iter().all(|key| key.as_str().is_some_and(|key| key.starts_with("SHA256:"))), "{seen}");

    // Another machine answers at the address: the operator's ssh knows its key, and it is not the pinned one.
    sshd.replace("nothing").await;
    let address = format!("127.0.0.1:{}", sshd.port());
    let checked = server.capstan(&["host", "check", "--ssh-program", &program, "-o", "json", &address]);
    let checked: Value = serde_json::from_slice(&checked.stdout).expect("JSON");
    assert!(checked["hosts"][0]["facts"].is_object(), "{checked}");
    let seen = until(&server, "not trusted any more", is_untrusted).await;
    assert!(
        seen["why"].as_str().is_some_and(|why| why.contains("HAS CHANGED")
            || why.contains("has changed")
            || why.contains("verification")),
        "{seen}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_is_added_once_its_key_is_known_or_was_compared() {
    let Some(sshd) = Sshd::start().await else { return };
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(sshd.at("nothing"), "").expect("written");
    sshd.client("nothing", "id");
    let (program, address) = (sshd.at("ssh").display().to_string(), format!("127.0.0.1:{}", sshd.port()));
    let server = Standalone::start(folder.path(), &["--ssh-program", &program]);
    let fingerprint = sshd.fingerprint();
    let add = ["host", "add", &address, "--name", "h1", "--yes", "--ssh-program", &program];
    let refused = |more: &[&str], words: &str| {
        let output = server.capstan(&[&add[..], more].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(words), "{said}");
        assert!(said.contains("nothing was written"), "{said}");
        assert_eq!(listed(&server), Value::Null);
    };
    refused(&[], &format!("offers ssh-ed25519 {fingerprint}"));
    let other = format!("SHA256:{}", "a".repeat(43));
    refused(&["--fingerprint", &other], "offers no key");
    let said = server.says(&[&add[..], &["--fingerprint", &fingerprint]].concat());
    assert!(
        said.contains("create HostPool default/hosts") && said.contains("create Host default/h1"),
        "{said}"
    );
    until(&server, "an answer", |host| host["facts"].is_object()).await;

    // Known to ssh: it is asked before, and what speaks against it is said.
    sshd.client("known_hosts", "id");
    let again = ["host", "add", &address, "--ssh-program", &program];
    let printed = server.says(&[&again[..], &["-o", "yaml", "--pool", "rack"]].concat());
    assert!(printed.contains("kind: HostPool") && printed.contains("pool: rack"), "{printed}");
    assert!(printed.contains("address: \"127.0.0.1\"") && !printed.contains("hostKeys"), "{printed}");
    let tried = server.says(&[&again[..], &["--name", "h2", "--dry-run"]].concat());
    assert!(
        tried.contains("create Host default/h2") && !tried.contains("HostPool"),
        "the pool is there: {tried}"
    );
    assert!(tried.contains(&format!("{address}: ")), "{tried}");
}
