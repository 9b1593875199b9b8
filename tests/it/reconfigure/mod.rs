//! `capstan change` on a running cluster: read, planned, carried out, interrupted, gone on with, taken back.

mod as_stored;
mod hostile;
mod mended;
mod offline;
mod site;
mod trouble;

use std::sync::Arc;

use capstan::cli::args::{Cli, Command};
use capstan_base::command_line::CommandLine;
use capstan_base::time::{Clock, parse_rfc3339};
use capstan_commands::change::source::Reach;
use capstan_commands::change::{ChangeAnswer, Session, run};
use capstan_commands::output::Style;
use capstan_dashboard::operations::guard::Guard;
use capstan_dashboard::operations::journal::Journal;
use clap::Parser as _;
use http::Method;
use kubeadm_change::record::ChangeRecord;
use serde_json::{Value, json};
use site::{CLUSTER, Site};
use tempfile::TempDir;

use crate::golden::golden;

/// A person at a terminal.
struct Person {
    site: Site,
    folder: TempDir,
}

/// What a command printed while it ran and at its end.
struct Said {
    text: String,
    exit_code: u8,
    remarks: Vec<String>,
}

impl Person {
    async fn at(control_planes: usize, workers: usize) -> Self {
        Self { site: Site::open(control_planes, workers).await, folder: TempDir::new().expect("a folder") }
    }

    async fn tries(&self, words: &[&str], answers: &str) -> anyhow::Result<Said> {
        self.tries_at(Reach::Connected(self.site.connection.clone()), words, answers).await
    }

    async fn tries_at(&self, mut reach: Reach, words: &[&str], answers: &str) -> anyhow::Result<Said> {
        let head = ["capstan", "change"];
        let parsed = Cli::try_parse_from(head.into_iter().chain(words.iter().copied())).expect("arguments");
        let Some(Command::Change(command)) = parsed.command else { panic!("not a change") };
        if let Reach::Connected(connection) = &mut reach {
            connection.read_only = parsed.connect.read_only;
        }
        let session = Session {
            reach,
            style: Style::default(),
            guard: Guard::new(
                Journal::at(self.folder.path().join("journal.jsonl")),
                Clock::fixed(parse_rfc3339("2026-11-26T12:00:00Z").expect("a moment")),
                "ann".to_owned(),
            ),
            executor: Some(Arc::new(self.site.clone())),
        };
        let mut out = Vec::new();
        let ChangeAnswer { document, remarks, exit_code } =
            run(&command, &session, &mut out, &mut answers.as_bytes()).await?;
        let text = String::from_utf8(out).expect("text") + &document;
        Ok(Said { text: self.without_id(text), exit_code: exit_code.number(), remarks })
    }

    async fn says(&self, words: &[&str]) -> Said {
        self.tries(words, "").await.expect("an answer")
    }

    /// Carries out without a question, by commands on hosts.
    async fn applies(&self, words: &[&str]) -> Said {
        self.applies_within(words, "0.01s", "60s").await
    }

    /// The same where something does not show: in a paused clock the wait takes no time.
    async fn applies_within(&self, words: &[&str], poll: &str, timeout: &str) -> Said {
        let how = ["--executor", "ssh", "--yes", "--poll", poll, "--timeout", timeout];
        self.says(&[words, &how].concat()).await
    }

    /// Ids depend on resourceVersions.
    fn without_id(&self, text: String) -> String {
        let is_id = |word: &&str| word.len() == 12 && word.chars().all(|c| c.is_ascii_hexdigit());
        let words: Vec<String> =
            text.split(|c: char| !c.is_ascii_alphanumeric()).filter(is_id).map(str::to_owned).collect();
        words.iter().fold(text, |text, id| text.replace(id, "PLAN"))
    }

    async fn record(&self) -> ChangeRecord {
        let map = self.site.get("/api/v1/namespaces/kube-system/configmaps/capstan-change").await;
        ChangeRecord::read(&map).expect("a record")
    }
}

fn on(lines: &[String], node: &str, begin: &str) -> usize {
    lines.iter().filter(|line| line.starts_with(&format!("{node} {begin}"))).count()
}

const FLAG: [&str; 2] = ["--set", "apiServer.extraArgs[event-ttl]=2h"];
const M1: &str = "kubeadm upgrade node phase control-plane";

#[tokio::test]
async fn a_plan_takes_nine_requests_for_any_number_of_nodes() {
    for workers in [2, 497] {
        let person = Person::at(3, workers).await;
        let plan = person.says(&["plan", "--set", "maxPods=60", "--acknowledge"]).await;
        assert_eq!(plan.exit_code, 10, "{}", plan.text);
        let requests = person.site.beside.lock().requests.clone();
        // A page has 500 Nodes.
        assert_eq!(requests.len(), 9, "{requests:#?}");
        assert!(requests.iter().all(|line| line.starts_with("GET ")), "{requests:#?}");
    }
}

#[tokio::test]
async fn an_interrupted_change_goes_on_where_it_was() {
    let person = Person::at(3, 2).await;
    person.site.beside.lock().fault = Some(("cp-1".to_owned(), M1));
    let stopped = person.applies(&[&["apply"][..], &FLAG].concat()).await;
    golden("reconfigure/interrupted", &stopped.text);
    assert_eq!(stopped.exit_code, 11);
    let status = person.says(&["status"]).await;
    golden("reconfigure/interrupted_status", &status.text);
    assert_eq!(status.exit_code, 10, "it is not over");
    let other = person.applies(&["apply", "--set", "maxPods=50"]).await;
    assert!(other.exit_code == 12 && other.text.contains("is not over"), "{}", other.text);

    let gone_on = person.applies(&["apply"]).await;
    golden("reconfigure/gone_on", &gone_on.text);
    assert_eq!(gone_on.exit_code, 0);
    let lines = person.site.lines();
    for node in ["cp-0", "cp-1", "cp-2"] {
        assert_eq!(on(&lines, node, M1), 1, "what is done is not done again: {lines:#?}");
    }
    let record = person.record().await;
    assert!(!record.is_open() && record.evidence.len() >= 4, "{record:?}");
    let journal = std::fs::read_to_string(person.folder.path().join("journal.jsonl")).expect("a journal");
    let outcomes: Vec<Value> = journal
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["outcome"].clone())
        .collect();
    assert_eq!(outcomes, ["asked", "failed", "asked", "done"]);
    let log = std::fs::read_dir(person.folder.path()).expect("a folder").flatten();
    let log = log
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|e| e == "log"))
        .expect("a log");
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&log).expect("there"));
    let text = std::fs::read_to_string(&log).expect("text");
    assert!(mode & 0o777 == 0o600 && text.contains(&format!("cp-2 $ {M1}")), "{mode:o} {text}");
}

#[tokio::test]
async fn a_change_is_taken_back() {
    let person = Person::at(1, 1).await;
    assert_eq!(
        person
            .applies(&["apply", "--set", "maxPods=60", "--set", "mode=ipvs", "--acknowledge", "--done", "P2"])
            .await
            .exit_code,
        0
    );
    assert_eq!(person.site.beside.lock().kubelets["w-000"]["maxPods"], 60);
    let restarted = |person: &Person| {
        person.site.beside.lock().add_ons["daemonsets/kube-proxy"]["spec"]["template"]["metadata"]["annotations"].clone()
    };
    assert!(restarted(&person)["kubectl.kubernetes.io/restartedAt"].is_string(), "new pods");
    let plan = person.says(&["rollback", "--plan", "--acknowledge"]).await;
    golden("reconfigure/rollback_plan", &plan.text);
    let back = person.applies(&["rollback", "--acknowledge"]).await;
    assert!(back.exit_code == 10 && back.text.contains("the same command with --done P2"), "{}", back.text);
    let back = person.applies(&["rollback", "--acknowledge", "--done", "P2"]).await;
    golden("reconfigure/rollback", &back.text);
    assert_eq!(back.exit_code, 0);
    assert_eq!(person.site.beside.lock().kubelets["w-000"]["maxPods"], 110);
    assert_eq!(person.record().await.history.len(), 1, "the first change is kept as a line");
    let status = person.says(&["status"]).await;
    assert!(status.exit_code == 0 && status.text.contains("what runs is what is stored"), "{}", status.text);
}

#[tokio::test]
async fn without_commands_people_do_what_is_done_on_nodes() {
    let person = Person::at(2, 0).await;
    let words = [&["apply", "--yes", "--poll", "0.01s"][..], &FLAG].concat();
    let runbook = person.says(&words).await;
    golden("reconfigure/runbook", &runbook.text);
    assert_eq!((runbook.exit_code, person.site.lines().len()), (10, 0));
    let stored = person.site.stored("kubeadm-config", "ClusterConfiguration").await;
    assert!(stored.contains("event-ttl"), "the API side is done: {stored}");
    use capstan_engine::reconfigure::executor::{CommandTarget, NodeExecutor as _};
    for node in ["cp-0", "cp-1"] {
        let target = CommandTarget { node: node.to_owned(), host: String::new() };
        person.site.run(&target, &CommandLine::of(M1, []), "").await.expect("a person");
        let again = person.says(&["apply", "--yes", "--poll", "0.01s"]).await;
        let expected = if node == "cp-0" { 10 } else { 0 };
        assert_eq!(again.exit_code, expected, "what was done is seen: {}", again.text);
    }
}

#[tokio::test]
async fn drift_is_said_before_it_is_taken_back() {
    let person = Person::at(2, 0).await;
    let flag = json!("--request-timeout=2m");
    person.site.beside.lock().pods.get_mut("kube-apiserver-cp-1").expect("a pod")["spec"]["containers"][0]["command"]
        .as_array_mut()
        .expect("flags")
        .push(flag);
    let words = [&["apply"][..], &FLAG].concat();
    let refused = person.applies(&words).await;
    golden("reconfigure/drift", &refused.text);
    assert_eq!((refused.exit_code, person.site.lines().len()), (14, 0));
    assert_eq!(
        person.site.stored("kubeadm-config", "ClusterConfiguration").await,
        CLUSTER,
        "nothing is written"
    );
    let status = person.says(&["status"]).await;
    assert!(status.exit_code == 11 && status.text.contains("+ --request-timeout=2m"), "{}", status.text);
    let taken = person.applies(&[&words[..], &["--acknowledge"]].concat()).await;
    assert_eq!(taken.exit_code, 0, "{}", taken.text);
    assert_eq!(person.says(&["status"]).await.exit_code, 0, "it is gone");
}

#[tokio::test]
async fn a_config_map_that_changed_leaves_nothing_half_written() {
    let person = Person::at(1, 0).await;
    // The second of two is changed by somebody else between the dry run and the write.
    person.site.beside.lock().refused =
        vec![("PATCH /api/v1/namespaces/kube-system/configmaps/kubelet-config".to_owned(), 409)];
    let words = [&["apply", "--acknowledge", "--set", "maxPods=60"][..], &FLAG].concat();
    let said = person.applies(&words).await;
    assert!(
        said.exit_code == 11 && said.text.contains("nothing of this plan is written; plan again"),
        "{}",
        said.text
    );
    assert_eq!(person.site.stored("kubeadm-config", "ClusterConfiguration").await, CLUSTER, "it is put back");
    let maps = person.site.get("/api/v1/namespaces/kube-system/configmaps").await;
    let names: Vec<_> =
        maps["items"].as_array().expect("a list").iter().map(|m| m["metadata"]["name"].clone()).collect();
    assert!(!names.contains(&json!("capstan-change")), "{names:?}");
    assert_eq!(person.site.lines(), [""; 0]);

    person.site.beside.lock().refused.clear();
    person.site.beside.lock().fault = Some(("cp-0".to_owned(), M1));
    assert_eq!(person.applies(&words).await.exit_code, 11, "interrupted");
    let stored = person.site.stored("kubelet-config", "kubelet").await;
    let other = site::map("kubelet-config", "kubelet", &stored.replace("60", "70"));
    person.site.send(Method::PATCH, "/api/v1/namespaces/kube-system/configmaps/kubelet-config", &other).await;
    let said = person.applies(&["apply", "--acknowledge"]).await;
    assert!(
        said.exit_code == 11 && said.text.contains("somebody changed it since this change was begun"),
        "{}",
        said.text
    );
}

#[tokio::test]
async fn files_of_hosts_are_compared_before_they_count() {
    let person = Person::at(2, 0).await;
    let path = "/etc/kubernetes/audit/policy.yaml";
    let words = [
        "apply",
        "--acknowledge",
        "--set",
        "apiServer.extraArgs[audit-policy-file]=/etc/kubernetes/audit/policy.yaml",
        "--set",
        "apiServer.extraVolumes[audit]={hostPath: /etc/kubernetes/audit, mountPath: /etc/kubernetes/audit, readOnly: true, pathType: Directory}",
    ];
    person.site.beside.lock().sums.insert(("cp-1".to_owned(), path.to_owned()), "ffff".to_owned());
    let said = person.applies(&words).await;
    assert!(said.exit_code == 11, "{}", said.text);
    assert!(
        said.text.contains(
            "/etc/kubernetes/audit/policy.yaml is not the same on all nodes: cp-0 has e3b0, cp-1 has ffff"
        ),
        "{}",
        said.text
    );
    assert_eq!(on(&person.site.lines(), "cp-0", M1), 0, "no API server restarts");
    assert!(said.text.contains("nothing of this plan is written"), "{}", said.text);
    let stored = person.site.stored("kubeadm-config", "ClusterConfiguration").await;
    assert_eq!(stored, CLUSTER, "a node that joins now looks for no such file");
    person.site.beside.lock().sums.clear();
    let applied = person.applies(&words).await;
    assert_eq!(applied.exit_code, 0, "{}", applied.text);
    assert_eq!(on(&person.site.lines(), "cp-0", "sha256sum"), 2, "once for each run: {}", applied.text);
}

#[tokio::test]
async fn images_are_there_before_the_configuration_names_them() {
    let person = Person::at(2, 0).await;
    let words = [
        "apply",
        "--acknowledge",
        "--set",
        "imageRepository=reg.example/k8s",
        "--set",
        "etcd.local.imageRepository=registry.k8s.io",
    ];
    person.site.beside.lock().fault = Some(("cp-1".to_owned(), "crictl inspecti"));
    let said = person.applies(&words).await;
    assert!(said.exit_code == 11 && said.text.contains("nothing of this plan is written"), "{}", said.text);
    assert_eq!(person.site.stored("kubeadm-config", "ClusterConfiguration").await, CLUSTER);
    let status = person.says(&["status"]).await;
    assert!(status.exit_code == 0 && status.text.contains("has not changed this cluster"), "{}", status.text);
    assert_eq!(person.applies(&words).await.exit_code, 0);
    let back = person.says(&["rollback", "--plan", "--acknowledge"]).await.text;
    let at = |words: &str| back.find(words).unwrap_or_else(|| panic!("{words} in {back}"));
    assert!(at("G1 write") < at("I1 [cp-0]"), "what is taken back is not given to a node that joins: {back}");
}

#[tokio::test(start_paused = true)]
async fn a_check_that_fails_stops_the_plan() {
    let person = Person::at(3, 0).await;
    let ready = |status: &str| json!([{"type": "Ready", "status": status}]);
    person.site.beside.lock().pods.get_mut("kube-apiserver-cp-2").expect("a pod")["status"]["conditions"] =
        ready("False");
    let said = person.applies_within(&[&["apply"][..], &FLAG].concat(), "1s", "3s").await;
    assert!(
        said.exit_code == 11 && said.text.contains("kube-apiserver on cp-2 is not Ready: one at a time"),
        "{}",
        said.text
    );
    assert_eq!(on(&person.site.lines(), "cp-0", M1), 0, "{:?}", person.site.lines());
    person.site.beside.lock().pods.get_mut("kube-apiserver-cp-2").expect("a pod")["status"]["conditions"] =
        ready("True");
    let node = json!({"status": {"conditions": ready("Unknown")}});
    person.site.send(Method::PATCH, "/api/v1/nodes/cp-1/status", &node).await;
    let said = person.applies_within(&["apply"], "1s", "3s").await;
    assert!(said.exit_code == 11 && said.text.contains("on cp-1: the Node is not Ready"), "{}", said.text);
    assert_eq!((on(&person.site.lines(), "cp-0", M1), on(&person.site.lines(), "cp-1", M1)), (1, 0));
}

#[tokio::test]
async fn what_is_missing_is_named() {
    let person = Person::at(1, 1).await;
    person.site.beside.lock().denied.insert("patch configmaps".to_owned());
    let said = person.applies(&["apply", "--set", "maxPods=60", "--acknowledge"]).await;
    assert!(
        said.exit_code == 11
            && said.text.ends_with(
                "only planned, nothing was written: missing right: patch configmaps in kube-system\n"
            ),
        "{}",
        said.text
    );
    person.site.beside.lock().refused = vec![
        ("GET /apis/coordination.k8s.io/".to_owned(), 403),
        ("GET /api/v1/namespaces/kube-system/pods".to_owned(), 403),
    ];
    let plan = person.says(&["plan", "--set", "maxPods=60", "--acknowledge"]).await;
    assert_eq!(
        plan.remarks,
        [
            "missing right: list pods; what it would show is not known",
            "missing right: list leases; what it would show is not known"
        ]
    );
    person.site.beside.lock().refused =
        vec![("GET /api/v1/namespaces/kube-system/configmaps/kubeadm-config".to_owned(), 403)];
    let error = person.tries(&["plan"], "").await.err().expect("an error").to_string();
    assert!(
        error.starts_with("missing right at this process: get configmaps/kubeadm-config in kube-system: "),
        "{error}"
    );
    person.site.beside.lock().refused.clear();
    person
        .site
        .send(Method::DELETE, "/api/v1/namespaces/kube-system/configmaps/kubeadm-config", &json!({}))
        .await;
    let error = person.tries(&["plan"], "").await.err().expect("an error").to_string();
    assert!(error.contains("the cluster was not made by kubeadm"), "{error}");
}

#[tokio::test]
async fn nothing_is_written_without_consent() {
    let person = Person::at(1, 0).await;
    let words = [&["apply"][..], &FLAG].concat();
    let error = person.tries(&words, "n\n").await.err().expect("an error").to_string();
    assert_eq!(error, "not confirmed; nothing was written");
    let error = person
        .tries(&[&["--read-only"][..], &words].concat(), "y\n")
        .await
        .err()
        .expect("an error")
        .to_string();
    assert!(error.contains("--read-only"), "{error}");
    let blocked = person.applies(&["apply", "--set", "networking.dnsDomain=corp.local"]).await;
    assert_eq!(blocked.exit_code, 12);
    let advised =
        person.applies(&["apply", "--set", "apiServer.extraArgs[service-account-issuer]=https://new"]).await;
    assert!(
        advised.exit_code == 14
            && advised.text.contains("1. this plan: every API server accepts the issuer https://new"),
        "{}",
        advised.text
    );
    assert_eq!(person.site.stored("kubeadm-config", "ClusterConfiguration").await, CLUSTER);
    let requests = person.site.beside.lock().requests.clone();
    assert!(
        requests.iter().all(|line| !line.starts_with("PATCH") && !line.starts_with("POST /api/v1")),
        "{requests:?}"
    );
}
