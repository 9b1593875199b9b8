//! `capstan change` as a person runs it: arguments, files, output, exit codes.

use capstan::cli::args::{Cli, Command};
use capstan_base::time::Clock;
use capstan_commands::change::source::Reach;
use capstan_commands::change::{ChangeAnswer, Session, run};
use capstan_commands::exit_code::ExitCode;
use capstan_commands::output::Style;
use capstan_dashboard::operations::guard::Guard;
use capstan_dashboard::operations::journal::Journal;
use capstan_engine::client::ConnectOptions;
use clap::Parser as _;
use serde_json::Value;
use tempfile::TempDir;

const CLUSTER: &str = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: v1.36.1\nnetworking: {podSubnet: 10.244.0.0/16}\napiServer:\n  certSANs: [cp.example]\n  extraArgs:\n  - {name: profiling, value: \"false\"}\n";
const KUBELET: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kubelet-config, namespace: kube-system}\ndata:\n  kubelet: |\n    apiVersion: kubelet.config.k8s.io/v1beta1\n    kind: KubeletConfiguration\n    maxPods: 110\n";

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).expect("written");
    }
    folder
}

fn answer(folder: &TempDir, words: &[&str]) -> anyhow::Result<ChangeAnswer> {
    let path = folder.path().display().to_string();
    let head = [words[0], "--from-dir", &path];
    run_line(folder, head.into_iter().chain(words[1..].iter().copied()))
}

fn run_line<'a>(folder: &TempDir, words: impl Iterator<Item = &'a str>) -> anyhow::Result<ChangeAnswer> {
    match Cli::try_parse_from(["capstan", "change"].into_iter().chain(words)).expect("arguments").command {
        Some(Command::Change(command)) => {
            let reach = Reach::Options(ConnectOptions::default());
            let journal = Journal::at(folder.path().join("journal"));
            let guard = Guard::new(journal, Clock::system(), "ann".to_owned());
            let session = Session { reach, style: Style::default(), guard, executor: None };
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
            runtime.block_on(run(&command, &session, &mut Vec::new(), &mut &b""[..]))
        }
        other => panic!("{other:?}"),
    }
}

/// They were said not to be known, although what is below them is.
#[test]
fn rules_of_a_part_of_a_document_list_what_is_below() {
    let nothing = folder(&[]);
    let rules = |path| run_line(&nothing, ["rules", "--path", path].into_iter()).expect("rules").document;
    for (path, part) in [
        ("apiServer.extraArgs", "  advise apiServer.extraArgs[NAME]\n"),
        ("apiServer.extraVolumes", "  ok     apiServer.extraVolumes[NAME]\n"),
        ("dns", "  advise dns.imageTag\n"),
        ("etcd", "etcd.local.dataDir\n"),
    ] {
        let text = rules(path);
        assert!(text.contains(part) && !text.contains("not known"), "{text}");
    }
    for whole in ["networking.podSubnet", "apiServer.extraArgs[audit-log-path]", "apiServer.certSANs"] {
        assert!(rules(whole).contains("touches: "), "{whole}");
    }
    let line = ["capstan", "change", "rules", "--path=apiServer.hostVolumes"];
    let error = Cli::try_parse_from(line).expect_err("not a field").to_string();
    assert!(error.contains("apiServer.extraVolumes[NAME].hostPath"), "{error}");
}

#[test]
fn validate_names_what_kubeadm_would_ignore() {
    let sound = folder(&[("a.yaml", CLUSTER), ("b.yaml", KUBELET)]);
    let found = answer(&sound, &["validate"]).expect("an answer");
    assert_eq!(
        (found.document.as_str(), found.exit_code),
        (
            "ClusterConfiguration v1beta4, KubeletConfiguration v1beta1: 0 errors, 0 warnings\n",
            ExitCode::Success
        )
    );
    let typo = folder(&[("a.yaml", &CLUSTER.replace("certSANs", "certSans"))]);
    let found = answer(&typo, &["validate"]).expect("an answer");
    assert!(found.document.contains("a.yaml:6:3: apiServer.certSans is not a field"), "{}", found.document);
    assert_eq!(found.exit_code, ExitCode::Success, "a warning");
    let wrong = folder(&[("a.yaml", &CLUSTER.replace("\"false\"", "off"))]);
    let found = answer(&wrong, &["validate", "-o", "json"]).expect("an answer");
    let value: Value = serde_json::from_str(&found.document).expect("JSON");
    assert_eq!(
        (value["findings"][0]["path"].as_str(), found.exit_code),
        (Some("apiServer.extraArgs[profiling].value"), ExitCode::FailedCheck)
    );
}

#[test]
fn diff_shows_fields_and_lines() {
    let stored = folder(&[("a.yaml", CLUSTER), ("b.yaml", KUBELET)]);
    let words = ["diff", "--set", "apiServer.extraArgs[v]=4", "--set", "maxPods=50"];
    let found = answer(&stored, &words).expect("an answer");
    assert!(
        found.document.starts_with(
            "ClusterConfiguration\n  apiServer.extraArgs[v]: (none) → 4\nKubeletConfiguration\n  maxPods: 110 → 50\n\n--- ClusterConfiguration, stored\n+++ ClusterConfiguration, asked for\n"
        ),
        "{}",
        found.document
    );
    assert_eq!(found.exit_code, ExitCode::Differs);
    let nothing = answer(&stored, &["diff", "--set", "maxPods=110"]).expect("an answer");
    assert_eq!((nothing.document.as_str(), nothing.exit_code), ("nothing differs\n", ExitCode::Success));
}

#[test]
fn secrets_are_not_printed() {
    let stored = folder(&[("a.yaml", CLUSTER)]);
    for output in ["text", "json"] {
        let words = ["diff", "-o", output, "--set", "apiServer.extraEnvs[DB_PASSWORD].value=hunter2"];
        let found = answer(&stored, &words).expect("an answer");
        assert!(!found.document.contains("hunter2"), "{}", found.document);
        assert!(found.document.contains("(hidden)"), "{}", found.document);
    }
}

#[test]
fn render_prints_each_node() {
    let stored = folder(&[("a.yaml", CLUSTER)]);
    let found =
        answer(&stored, &["render", "--node", "n1=10.0.0.1", "--node", "n2=10.0.0.2"]).expect("an answer");
    let value: Value = serde_json::from_str(&found.document).expect("JSON");
    assert_eq!(value["nodes"]["n1"]["kube-apiserver"]["command"][1], "--advertise-address=10.0.0.1");
    assert_eq!(value["nodes"]["n2"]["etcd"]["volumes"][1]["hostPath"], "/var/lib/etcd");
    assert_eq!(value["nodes"]["n2"]["kube-scheduler"]["volumeMounts"][0]["readOnly"], true);
    assert_eq!(value["images"]["coredns"], "registry.k8s.io/coredns/coredns:v1.14.2");
    assert!(
        value["certificates"]["n1"]["apiserver"].as_array().expect("names").contains(&"cp.example".into())
    );
    let error = answer(&stored, &["render"]).expect_err("no node").to_string();
    assert!(error.starts_with("there is no node to render for"), "{error}");
}

/// The InitConfiguration is that of one node: another one that is named has kubeadm's port.
#[test]
fn render_keeps_the_port_of_the_node_that_the_init_configuration_describes() {
    let init = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\nnodeRegistration: {name: n1}\nlocalAPIEndpoint: {advertiseAddress: 10.0.0.1, bindPort: 7443}\n";
    let cluster =
        "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: v1.36.1\n";
    let stored = folder(&[("init.yaml", init), ("cluster.yaml", cluster)]);
    let words = ["render", "--node", "n1=10.0.0.1", "--node", "n2=10.0.0.2"];
    let document = answer(&stored, &words).expect("an answer").document;
    for port in ["--secure-port=7443", "--secure-port=6443"] {
        assert_eq!(document.matches(port).count(), 1, "{port}\n{document}");
    }
}

#[test]
fn migrate_prints_the_documents_in_another_version() {
    let old = "apiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\nkubernetesVersion: v1.33.1\nscheduler: {extraArgs: {v: \"2\"}}\n";
    let stored = folder(&[("cluster.yaml", old)]);
    for (words, version) in [(vec!["migrate"], "v1beta4"), (vec!["migrate", "--api-version", "v1"], "v1")] {
        let document = answer(&stored, &words).expect("an answer").document;
        assert!(document.contains(&format!("apiVersion: kubeadm.k8s.io/{version}\n")), "{document}");
        assert!(document.contains("name: v\n") && document.contains("value: \"2\"\n"), "{document}");
    }
    let wrong = folder(&[("cluster.yaml", &old.replace("v1.33.1", "v1.33"))]);
    let error = answer(&wrong, &["migrate"]).expect_err("refused").to_string();
    assert!(error.starts_with("kubeadm refuses what should be migrated"), "{error}");
}

#[test]
fn bad_input_is_answered_with_its_place() {
    let twice = folder(&[("a.yaml", CLUSTER), ("b.yaml", CLUSTER)]);
    let error = answer(&twice, &["validate"]).expect_err("two").to_string();
    assert!(
        error.contains("b.yaml:1:1: there is a second ClusterConfiguration; the first is at "),
        "{error}"
    );
    let empty = folder(&[]);
    let error = answer(&empty, &["validate"]).expect_err("none").to_string();
    assert!(error.contains("holds no configuration document"), "{error}");
}

/// The edit of a leader migration's stage 2 goes through the planner as it is printed, and reaches the controller manager
/// with the flags and the mount that the validator wants, beside those that it has; in either version.
#[test]
fn the_edit_of_a_leader_migration_is_planned() {
    use leader_migration::controller_names::Function;
    use leader_migration::edits::{Settings, edits};
    use leader_migration::flag_places::FlagPlaces;
    use leader_migration::flags::Flags;
    use leader_migration::manager_kind::ManagerKind;
    use leader_migration::release::Release;
    use leader_migration::stages::MigrationStage;
    let list =
        "controllerManager: {extraArgs: [{name: v, value: \"4\"}, {name: cloud-provider, value: gce}]}\n";
    let map = "controllerManager: {extraArgs: {v: \"4\", cloud-provider: gce}}\n";
    let older = CLUSTER.replace("v1beta4", "v1beta3").replace("v1.36.1", "v1.30.2").replace(
        "  extraArgs:\n  - {name: profiling, value: \"false\"}",
        "  extraArgs: {profiling: \"false\"}",
    );
    for stored_text in [CLUSTER.to_owned() + list, older + map] {
        let config_map = serde_json::json!({"kind": "ConfigMap", "metadata": {"name": "kubeadm-config"},
            "data": {"ClusterConfiguration": stored_text}});
        let settings = Settings {
            namespace: "kube-system".to_owned(),
            leader_name: "move".to_owned(),
            functions: vec![Function::Routes],
            subjects: Vec::new(),
            releases: (Release(29), Release(30)),
            places: FlagPlaces::of(&[config_map]),
            holder: String::new(),
            provider: "gce".to_owned(),
        };
        let stage = edits(MigrationStage::Enable, &settings).edits;
        let edit = stage.iter().find(|edit| edit.title.contains("capstan change plan --patch-type merge"));
        let edit = edit.unwrap_or_else(|| panic!("{stage:#?}"));
        let version = if stored_text.contains("v1beta3") { "v1beta3" } else { "v1beta4" };
        let init = format!(
            "apiVersion: kubeadm.k8s.io/{version}\nkind: InitConfiguration\nlocalAPIEndpoint: {{advertiseAddress: 10.0.0.1}}\nnodeRegistration: {{name: cp-0}}\n"
        );
        let stored = folder(&[("a.yaml", &stored_text), ("b.yaml", KUBELET), ("c.yaml", &init)]);
        let asked = folder(&[("patch.yaml", &edit.text)]);
        let patch = asked.path().join("patch.yaml").display().to_string();
        let planned = answer(&stored, &["plan", "--patch-type", "merge", "-f", &patch]).expect("a plan");
        assert!(
            [ExitCode::Pending, ExitCode::NeedsAcknowledgement].contains(&planned.exit_code),
            "{}",
            planned.document
        );
        assert!(planned.document.contains("kube-controller-manager"), "{}", planned.document);
        // What it comes to on the node.
        let mut merged: Value = serde_saphyr::from_str(&stored_text).expect("YAML");
        k8s_machinery::merge::apply(&mut merged, &serde_saphyr::from_str(&edit.text).expect("YAML"));
        let merged = folder(&[("a.yaml", &merged.to_string()), ("c.yaml", &init)]);
        let rendered = answer(&merged, &["render", "-o", "json"]).expect("rendered");
        let value: Value = serde_json::from_str(&rendered.document).expect("JSON");
        let pod = &value["nodes"]["cp-0"]["kube-controller-manager"];
        let command: Vec<String> = serde_json::from_value(pod["command"].clone()).expect("a command");
        let flags = Flags::parse(ManagerKind::KubeControllerManager, &command).expect("flags");
        assert!(flags.enable_migration && flags.cloud_provider == "gce", "{command:?}");
        assert!(command.contains(&"--v=4".to_owned()), "{command:?}");
        assert!(pod.to_string().contains(&flags.migration_config), "it is mounted: {pod}");
    }
}
