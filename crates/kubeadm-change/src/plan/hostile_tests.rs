//! Every string that a plan is made from, replaced by what a shell would obey: no command may differ outside quotes, and no
//! shell may do anything else for it.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::tests::cluster;
use super::*;
use crate::record::{Beginning, ChangeRecord};
use crate::request::{PatchKind, RequestPart, apply};

/// What each payload would make, if it were obeyed.
const MADE: &str = "obeyed";
const PAYLOADS: [&str; 8] = [
    "; touch obeyed;",
    "$(touch obeyed)",
    "`touch obeyed`",
    "a\ntouch obeyed\n",
    "' ; touch obeyed; '",
    "../../obeyed",
    "-x|touch obeyed",
    "\\'; touch obeyed; #",
];
/// All of them at once.
const ALL: &str = "x'; touch obeyed; $(touch obeyed)`touch obeyed`\ntouch obeyed\n";
/// Requests that together have every step and every line.
const REQUESTS: [&[&str]; 3] = [
    &[
        "etcd.local.extraArgs[snapshot-count]=5000",
        "etcd.local.serverCertSANs=[p.example]",
        "apiServer.extraArgs[audit-policy-file]=/etc/kubernetes/audit/policy.yaml",
        "apiServer.extraVolumes[audit]={hostPath: /etc/kubernetes/audit, mountPath: /etc/kubernetes/audit, pathType: Directory}",
        "apiServer.certSANs=[new.example]",
    ],
    &["cpuManagerPolicy=static", "mode=nftables"],
    &["dns.imageTag=v9", "imageRepository=new.example"],
];

/// A cluster whose documents have everything that stands in a line.
fn stored() -> Inputs {
    let mut inputs = cluster(1, 1);
    let document = inputs.documents.iter_mut().find(|document| document.kind == DocumentKind::Cluster);
    let value = &mut document.expect("there").value;
    value["certificatesDir"] = json!("/etc/kubernetes/pki");
    value["etcd"] = json!({"local": {"dataDir": "/var/lib/etcd", "imageRepository": "e.example"}});
    value["dns"] = json!({"imageRepository": "d.example"});
    value["imageRepository"] = json!("r.example");
    inputs
}

fn asked(sets: &[&str]) -> Vec<RequestPart> {
    sets.iter().map(|set| RequestPart::Set((*set).to_owned())).collect()
}

/// The lines of a plan as they would be carried out, whatever is wrong with it.
fn lines(inputs: &Inputs, target: &mut WantedDocuments, id: Option<ChangeId>) -> Vec<String> {
    let options = PlanOptions {
        force: true,
        acknowledged: Acknowledged::Everything,
        files: "FILES".to_owned(),
        id,
        ..PlanOptions::default()
    };
    let Ok(plan) = plan(inputs, target, &options) else { return Vec::new() };
    plan.steps.iter().flat_map(|step| &step.commands).map(ToString::to_string).collect()
}

/// What a shell reads as its own: everything outside quotes.
fn outside_quotes(line: &str) -> String {
    let (mut outside, mut is_quoted) = (String::new(), false);
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\'' => is_quoted = !is_quoted,
            '\\' if !is_quoted => drop(chars.next()),
            c if !is_quoted => outside.push(c),
            _ => {}
        }
    }
    outside
}

/// Calls `visit` with a copy of the value for each of its strings, that one replaced.
fn each_string_replaced(value: &Value, payload: &str, visit: &mut dyn FnMut(Value)) {
    for pointer in pointers(value, String::new()) {
        let mut copy = value.clone();
        if let Some(at) = copy.pointer_mut(&pointer) {
            *at = json!(payload);
            visit(copy);
        }
    }
}

fn pointers(value: &Value, at: String) -> Vec<String> {
    let below = |key: &str, value: &Value| {
        pointers(value, format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")))
    };
    match value {
        Value::String(_) => vec![at],
        Value::Array(items) => {
            items.iter().enumerate().flat_map(|(n, item)| below(&n.to_string(), item)).collect()
        }
        Value::Object(map) => map.iter().flat_map(|(key, item)| below(key, item)).collect(),
        _ => Vec::new(),
    }
}

/// All lines of plans in which one string of a document or of the record is replaced.
fn attacked(payload: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let stored = stored();
    for request in REQUESTS {
        let target = apply(&stored, &asked(request), PatchKind::Strategic).expect("a request");
        for (at, document) in stored.documents.iter().enumerate() {
            each_string_replaced(&document.value, payload, &mut |value| {
                let mut inputs = stored.clone();
                inputs.documents[at].value = value;
                if let Ok(mut target) = apply(&inputs, &asked(request), PatchKind::Strategic) {
                    found.extend(lines(&inputs, &mut target, None));
                }
            });
        }
        for (at, wanted) in target.documents.iter().enumerate() {
            each_string_replaced(&wanted.new, payload, &mut |value| {
                let mut target = target.clone();
                target.documents[at].new = value;
                found.extend(lines(&stored, &mut target, None));
            });
        }
        found.extend(of_records(&stored, &target, payload));
    }
    found
}

/// The same of a Node or a pod.
fn of_objects() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let stored = stored();
    for request in REQUESTS {
        let target = apply(&stored, &asked(request), PatchKind::Strategic).expect("a request");
        for (at, object) in stored.objects.iter().enumerate() {
            each_string_replaced(object, ALL, &mut |object| {
                let mut inputs = stored.clone();
                inputs.objects[at] = object;
                found.extend(lines(&inputs, &mut target.clone(), None));
            });
        }
    }
    found
}

/// All lines of plans of records in which one string is replaced.
fn of_records(stored: &Inputs, target: &WantedDocuments, payload: &str) -> Vec<String> {
    let mut found = Vec::new();
    let options = PlanOptions { acknowledged: Acknowledged::Everything, ..PlanOptions::default() };
    let made = plan(stored, &mut target.clone(), &options).expect("a plan");
    let beginning = Beginning { by: "ann", at: "2026-01-01T00:00:00Z".to_owned(), takes_back: None };
    let record = ChangeRecord::of_plan(&made, target, &BTreeMap::new(), None, beginning).expect("a record");
    let data = record.data(None);
    let kept: Value = serde_json::from_str(data["record"].as_str().expect("text")).expect("JSON");
    each_string_replaced(&kept, payload, &mut |kept| {
        let mut data = data.clone();
        data["record"] = json!(kept.to_string());
        // One that cannot be read has no plan.
        if let Ok(record) = ChangeRecord::read(&json!({ "data": data })) {
            found.extend(lines(stored, &mut target.clone(), Some(record.id)));
        }
    });
    found
}

/// Runs lines in a shell in which every program does nothing, except `touch`.
fn obeyed(lines: &BTreeSet<String>) -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let programs = folder.path().join("bin");
    std::fs::create_dir(&programs).expect("a folder");
    let program = |name: &str, text: &str| {
        let path = programs.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("a program");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).expect("it runs");
    };
    let names =
        ["kubectl", "kubeadm", "crictl", "mkdir", "cp", "mv", "rm", "sha256sum", "systemctl", "capstan"];
    names.iter().chain(&["openssl", "flock", "pgrep", "kube-proxy"]).for_each(|name| program(name, ":"));
    program("touch", ": > \"$1\"");
    let work = folder.path().join("deep/work");
    std::fs::create_dir_all(work.join("FILES")).expect("a folder");
    let script: Vec<String> = lines.iter().map(|line| format!("( {line}\n)")).collect();
    // More than fits an argument.
    let file = programs.join("script");
    std::fs::write(&file, script.join("\n")).expect("a script");
    let shell = Command::new("/bin/sh")
        .arg(&file)
        .env_clear()
        .env("PATH", &programs)
        .current_dir(&work)
        .output()
        .expect("a shell");
    assert!(!String::from_utf8_lossy(&shell.stderr).contains("yntax error"), "{shell:?}");
    [work.as_path(), folder.path(), &folder.path().join("deep"), Path::new("/")]
        .iter()
        .any(|place| place.join(MADE).exists())
}

#[test]
fn no_text_of_a_cluster_becomes_a_command() {
    let stored = stored();
    let mut plain = BTreeSet::new();
    for request in REQUESTS {
        let mut target = apply(&stored, &asked(request), PatchKind::Strategic).expect("a request");
        plain.extend(lines(&stored, &mut target, None));
    }
    for begin in
        ["kubeadm init phase certs", "kubectl -n kube-system set image", "kubectl drain", "sha256sum"]
    {
        assert!(plain.iter().any(|line| line.contains(begin)), "{begin}: {plain:#?}");
    }
    let mut all = of_objects();
    for payload in PAYLOADS {
        let mut attacked = attacked(payload);
        // What has to be a path is refused unless it begins like one.
        attacked.extend(self::attacked(&format!("/{payload}")));
        assert!(attacked.iter().any(|line| line.contains(MADE)), "{payload:?} stands in no line");
        all.extend(attacked);
    }
    for line in &all {
        assert!(!outside_quotes(line).contains("touch"), "{line}");
    }
    assert!(!obeyed(&all));
}

#[test]
fn the_test_sees_what_is_obeyed() {
    assert!(obeyed(&BTreeSet::from(["kubectl set image x=$(touch obeyed)".to_owned()])));
    assert_eq!(outside_quotes(r"a 'b'\''c' d"), "a  d");
}
