//! `capstan extension serve` and `capstan standalone --extension` as programs: what they register, and who may reach them.

use serde_json::Value;

use super::standalone::Standalone;

const LOOPBACK: &str = "127.0.0.1:0";

#[test]
fn a_server_brings_its_extension_along() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Standalone::start(folder.path(), &["--extension"]);
    let shown = server.says(&["wait", "ext/capstan", "--for=condition=Discovered", "--timeout=60s"]);
    drop(shown);
    let listed = server.says(&["get", "extensionconfigs"]);
    assert!(listed.contains("capstan"), "{listed}");
}

#[test]
fn the_command_registers_itself_and_keeps_its_key_to_itself() {
    use std::io::{BufRead as _, BufReader};
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::{Command, Stdio};

    let folder = tempfile::tempdir().expect("a folder");
    let server = Standalone::start(folder.path(), &["--no-engine"]);
    let certificates = folder.path().join("extension");
    let mut child = Command::new(env!("CARGO_BIN_EXE_capstan"))
        .arg("--kubeconfig")
        .arg(server.kubeconfig())
        .args(["extension", "serve", "--listen", LOOPBACK, "--register", "ext", "--cert-dir"])
        .arg(&certificates)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    let shown = server.capstan(&["get", "ext", "ext", "-o", "json"]);
    child.kill().expect("it ends");
    child.wait().expect("it ended");
    assert!(line.starts_with("ExtensionConfig ext at https://127.0.0.1:"), "{line}");
    let key = std::fs::metadata(certificates.join("tls.key")).expect("a key");
    assert_eq!(key.permissions().mode() & 0o777, 0o600);
    let shown: Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    let url = shown["spec"]["clientConfig"]["url"].as_str().expect("a url");
    assert!(line.trim_end().ends_with(url), "{line}");
    let refused = server.capstan(&["extension", "serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("other machines could reach that address"));
}
