//! `capstan leader-migration` over files, manifests and flags: what it prints, and what it makes of bad input.

use std::path::Path;

use capstan::cli::args::{Cli, Command};
use capstan_commands::leader_migration::args::LeaderMigrationCommand;
use capstan_commands::leader_migration::walkthrough::{Extent, walk};
use capstan_commands::leader_migration::{Printed, check_rights, defaults, generate, rights, validate};
use capstan_commands::output::Style;
use capstan_dashboard::operations::change::source::LiveCluster;
use capstan_engine::client::ContextSetting;
use clap::Parser as _;

const FILE: &str = "apiVersion: controllermanager.config.k8s.io/v1
kind: LeaderMigrationConfiguration
leaderName: move
controllerLeaders:
  - name: route
    component: \"*\"
  - name: service
    component: \"*\"
  - name: cloud-node-lifecycle
    component: \"*\"
";

/// Runs a command line as `capstan` does. `DIR` stands for the folder.
fn run(folder: &Path, line: &str) -> anyhow::Result<Printed> {
    let line = line.replace("DIR", &folder.display().to_string());
    let words = ["capstan", "leader-migration"].into_iter().chain(line.split(' '));
    // A blank within one word is written as `+`.
    let words = words.map(|word| word.replace('+', " "));
    match Cli::try_parse_from(words)?.command {
        Some(Command::LeaderMigration(LeaderMigrationCommand::Validate(args))) => {
            validate(&args, Style::default())
        }
        Some(Command::LeaderMigration(LeaderMigrationCommand::Generate(args))) => generate(&args),
        Some(Command::LeaderMigration(LeaderMigrationCommand::Defaults { version })) => defaults(version),
        Some(Command::LeaderMigration(LeaderMigrationCommand::Rights(args))) => Ok(rights(&args)),
        other => panic!("{other:?}"),
    }
}

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).expect("a file");
    }
    folder
}

/// A static pod as kubeadm writes it.
fn manifest(version: &str, flags: &[&str], mount: &str) -> String {
    let flags: String = flags.iter().map(|flag| format!("    - {flag}\n")).collect();
    format!(
        "apiVersion: v1
kind: Pod
metadata:
  name: kube-controller-manager
spec:
  containers:
  - image: registry.k8s.io/kube-controller-manager:{version}
    command:
    - kube-controller-manager
{flags}    volumeMounts:
    - mountPath: {mount}
      name: files
"
    )
}

const FLAGS: [&str; 3] =
    ["--enable-leader-migration", "--leader-migration-config=/etc/kubernetes/m.yaml", "--cloud-provider=aws"];

#[test]
fn a_manifest_with_its_file_is_fine() {
    let pod = manifest("v1.27.4", &FLAGS, "/etc/kubernetes/m.yaml");
    let folder = folder(&[("m.yaml", FILE), ("kcm.yaml", &pod), ("notes.txt", "x")]);
    let printed = run(folder.path(), "validate -f DIR --ccm-version 1.27").expect("printed");
    assert_eq!(printed.remarks.len(), 1, "{:?}", printed.remarks);
    assert!(printed.is_fine, "{}", printed.document);
    let expected = "\
CONTROLLER           kube-controller-manager 1.27  cloud-controller-manager 1.27
routes               migration                     migration
load balancers       migration                     migration
node lifecycle       migration                     migration
node initialisation  -                             main
node IPAM            -                             -

no errors: each controller has one process that runs it, whoever holds the locks
";
    assert_eq!(printed.document, expected);
}

#[test]
fn a_finding_says_what_happens_and_what_to_do() {
    let pod = manifest("v1.27.4", &FLAGS, "/var/lib");
    let folder = folder(&[("m.yaml", FILE), ("kcm.yaml", &pod)]);
    let printed = run(folder.path(), "validate -f DIR").expect("printed");
    assert!(!printed.is_fine);
    let expected = "\
error F17  the migration file is not mounted into the pod
  kube-controller-manager: /etc/kubernetes/m.yaml is below no mount of the container
  what happens: the process exits at its start: no such file
  what to do:   mount it as a hostPath with type File, and put the file on the host first
";
    assert!(printed.document.starts_with(expected), "{}", printed.document);
}

/// A flag that a program does not have ends it, whatever else is right.
#[test]
fn flags_that_do_not_exist_are_errors() {
    let folder = folder(&[("m.yaml", FILE)]);
    let kube = "validate -f DIR/m.yaml --kcm-version 1.27 --kcm-flags --cloud-provider=gce";
    for (flags, problem) in [
        (
            "--enable-leader-migrations",
            "unknown flag --enable-leader-migrations; did you mean --enable-leader-migration?",
        ),
        (
            "--enable-leader-migration+--leader-migration-confg=/x",
            "unknown flag --leader-migration-confg; did you mean --leader-migration-config?",
        ),
        (
            "--cloud-migration-config=F",
            "unknown flag --cloud-migration-config; did you mean --leader-migration-config?",
        ),
        ("--enable-leader-migration+--leader-migration-config", "--leader-migration-config needs a value"),
        ("--enable-leader-migration+true", "\"true\" is not a flag, and the program takes nothing else"),
        ("--concurrent-job-syncs=3", "unknown flag --concurrent-job-syncs in 1.27: it began with 1.28"),
    ] {
        let printed = run(folder.path(), &format!("{kube}+{flags}")).expect("printed");
        assert!(!printed.is_fine, "{flags}\n{}", printed.document);
        assert!(
            printed.document.contains(&format!("kube-controller-manager: {problem}\n")),
            "{flags}\n{}",
            printed.document
        );
        assert!(printed.document.contains("  exits\n"), "{}", printed.document);
    }
    let real = run(folder.path(), &format!("{kube}+--concurrent-gc-syncs=3+--v+4")).expect("printed");
    assert!(real.is_fine, "{}", real.document);
    let cloud = "validate -f DIR/m.yaml --ccm-version 1.27 --ccm-flags --enable-leader-migration+--leader-migration-config=/m.yaml";
    let own = run(folder.path(), &format!("{cloud}+--multi-project")).expect("printed");
    assert!(own.is_fine && own.document.contains("warning build-flag"), "{}", own.document);
}

/// An edit that replaced the flags by the new ones: neither manager runs the controllers.
#[test]
fn a_lost_cloud_provider_is_an_error() {
    let pod = manifest("v1.27.4", &FLAGS[..2], "/etc/kubernetes");
    let folder = folder(&[("m.yaml", FILE), ("kcm.yaml", &pod)]);
    let printed = run(folder.path(), "validate -f DIR").expect("printed");
    assert!(!printed.is_fine, "{}", printed.document);
    let expected =
        "error F10  a process has lost its cloud provider, or the migration lock gives it nothing to run
  kube-controller-manager: of the listed controllers it runs none: --cloud-provider is missing
";
    assert!(printed.document.contains(expected), "{}", printed.document);
}

#[test]
fn json_has_the_same() {
    let folder = folder(&[("m.yaml", FILE)]);
    let line = "validate -f DIR/m.yaml --kcm-version 1.27 --ccm-version 1.28 -o json";
    let printed = run(folder.path(), line).expect("printed");
    let value: serde_json::Value = serde_json::from_str(&printed.document).expect("JSON");
    let codes: Vec<&str> =
        value["findings"].as_array().expect("findings").iter().filter_map(|f| f["code"].as_str()).collect();
    assert!(codes.contains(&"F4") && codes.contains(&"two-actors"), "{codes:?}");
    assert_eq!(value["processes"][0]["migrationLease"], "kube-system/move");
    assert_eq!(value["processes"][1]["controllers"]["node-route-controller"], "main");
}

#[test]
fn bad_input_is_answered_with_what_was_expected() {
    let no_tag = manifest("v1.27.4", &FLAGS, "/etc").replace(":v1.27.4", "");
    let odd_flag = manifest("v1.27.4", &["--leader-elect=maybe"], "/etc");
    let folder = folder(&[
        ("m.yaml", FILE),
        ("no_tag.yaml", &no_tag),
        ("odd_flag.yaml", &odd_flag),
        ("service.yaml", "a: 1\n"),
        ("broken.yaml", "a: [\n"),
    ]);
    for (line, message) in [
        ("validate -f DIR/m.yaml", "which release reads the files is not known: give --kcm-version"),
        ("validate -f DIR/none.yaml --kcm-version 1.27", "cannot read DIR/none.yaml"),
        ("validate -f DIR/no_tag.yaml", "is not in its image's tag: give --kcm-version"),
        ("validate -f DIR/odd_flag.yaml", "DIR/odd_flag.yaml: kube-controller-manager"),
        ("validate -f DIR/service.yaml", "expected a LeaderMigrationConfiguration, or a manifest"),
        ("validate -f DIR/broken.yaml", "DIR/broken.yaml: not YAML"),
        ("validate -f DIR/m.yaml --kcm-version new", "expected a version of Kubernetes such as 1.30"),
        ("validate -f DIR/m.yaml --kcm-flags --leader-elect", "--kcm-version"),
        ("generate --kcm-version 1.20", "has no leader migration: it began with 1.21"),
        ("generate --kcm-version 1.27 --leader-name A_b", "invalid value 'A_b' for '--leader-name"),
        ("generate --kcm-version 1.27 --controllers dns", "expected one of route, service"),
        ("defaults --version 1.19", "1.19 has no leader migration"),
        ("rights --ccm-service-account ccm", "expected NAMESPACE/NAME"),
    ] {
        let error = run(folder.path(), line).expect_err(line).to_string();
        let message = message.replace("DIR", &folder.path().display().to_string());
        assert!(error.contains(&message), "{line}\n{error}");
    }
}

/// Renamed controllers need two files, and both are in the version that the older process reads.
#[test]
fn what_is_generated_is_judged_to_be_fine() {
    let folder = folder(&[]);
    let printed = run(folder.path(), "generate --kcm-version 1.23 --ccm-version 1.28").expect("files");
    let files: Vec<&str> = printed.document.split("---\n").collect();
    assert_eq!(files.len(), 2, "{}", printed.document);
    assert!(files.iter().all(|file| file.contains("/v1beta1\n")), "{}", printed.document);
    for (name, file) in ["kcm.yaml", "ccm.yaml"].iter().zip(&files) {
        std::fs::write(folder.path().join(name), file).expect("a file");
    }
    let enabled = "--enable-leader-migration+--cloud-provider=aws+--leader-migration-config=/e";
    let line = format!(
        "validate -f DIR --kcm-version 1.23 --kcm-flags {enabled}/kcm.yaml --ccm-version 1.28 --ccm-flags {enabled}/ccm.yaml"
    );
    let judged = run(folder.path(), &line).expect("judged");
    assert!(judged.is_fine, "{}", judged.document);
    let one = run(folder.path(), "generate --kcm-version 1.29 --ccm-version 1.30").expect("a file");
    assert!(
        one.document.starts_with("# for kube-controller-manager 1.29 and cloud-controller-manager 1.30\n")
    );
    let late = run(folder.path(), "generate --kcm-version 1.31").expect("a file");
    assert!(late.remarks[0].starts_with("nothing to migrate"), "{:?}", late.remarks);
}

#[test]
fn the_built_in_file_of_a_late_release_comes_with_a_warning() {
    let folder = folder(&[]);
    assert_eq!(run(folder.path(), "defaults --version 1.27").expect("a file").remarks, Vec::<String>::new());
    let late = run(folder.path(), "defaults --version 1.28").expect("a file");
    assert!(
        late.document.contains("  - name: route-controller\n    component: \"*\"\n"),
        "{}",
        late.document
    );
    assert!(late.remarks[0].contains("match nothing"), "{:?}", late.remarks);
}

#[test]
fn the_role_reads_back_and_names_the_lease_only_where_that_works() {
    let folder = folder(&[]);
    let printed =
        run(folder.path(), "rights --leader-name move --ccm-service-account cloud/ccm").expect("a role");
    let objects: Vec<serde_json::Value> = serde_saphyr::from_multiple(&printed.document).expect("YAML");
    assert_eq!(objects[0]["rules"][0]["verbs"], serde_json::json!(["create"]));
    assert!(objects[0]["rules"][0].get("resourceNames").is_none());
    assert_eq!(objects[0]["rules"][1]["resourceNames"], serde_json::json!(["move"]));
    assert_eq!(objects[1]["subjects"][0]["name"], "system:kube-controller-manager");
    assert_eq!(objects[1]["subjects"][1]["namespace"], "cloud");
}

/// A server that answers reviews: who asked what, and one right that is missing.
#[tokio::test]
async fn rights_are_asked_for_both_processes() {
    let service = tower::service_fn(|request: http::Request<kube::client::Body>| async move {
        use http_body_util::BodyExt as _;
        let bytes = request.into_body().collect().await.map_err(std::io::Error::other)?.to_bytes();
        let mut review: serde_json::Value = serde_json::from_slice(&bytes)?;
        let is_cloud = review["spec"]["user"] == "system:serviceaccount:kube-system:cloud-controller-manager";
        let groups = review["spec"]["groups"].as_array().map_or(0, Vec::len);
        assert_eq!(groups, if is_cloud { 3 } else { 1 });
        let verb = review["spec"]["resourceAttributes"]["verb"].clone();
        assert_eq!(review["spec"]["resourceAttributes"].get("name").is_none(), verb == "create");
        review["status"] = serde_json::json!({"allowed": !(is_cloud && verb == "update")});
        let body = http_body_util::Full::new(bytes::Bytes::from(review.to_string()));
        Ok::<_, std::io::Error>(http::Response::new(body))
    });
    let connection = capstan_engine::client::in_process(service, "test", "default", false);
    let words = ["capstan", "leader-migration", "rights", "--check"];
    let Some(Command::LeaderMigration(LeaderMigrationCommand::Rights(args))) =
        Cli::try_parse_from(words).expect("arguments").command
    else {
        panic!("another command");
    };
    let printed = check_rights(&connection.client, &args).await.expect("answers");
    assert!(!printed.is_fine);
    let refused: Vec<&str> = printed.document.lines().filter(|line| line.contains("may not")).collect();
    let lease = "cloud-provider-extraction-migration";
    assert_eq!(
        refused,
        [format!(
            "system:serviceaccount:kube-system:cloud-controller-manager may not update {lease} in kube-system"
        )]
    );
    assert_eq!(printed.document.lines().count(), 6);
}

/// A control plane node's processes: an old kube-controller-manager with the flag, or a new one beside the cloud's.
fn node_pods(node: &str, is_new: bool) -> Vec<serde_json::Value> {
    let pod = |name: &str, image: &str, args: &[&str]| {
        serde_json::json!({
            "metadata": {"name": format!("{name}-{node}"), "namespace": "kube-system"},
            "spec": {"nodeName": node, "containers": [{"image": image, "command": args,
                "volumeMounts": [{"mountPath": "/etc/kubernetes/leader-migration.yaml"}]}]},
        })
    };
    let flags =
        ["--enable-leader-migration", "--leader-migration-config=/etc/kubernetes/leader-migration.yaml"];
    let kcm = "kube-controller-manager";
    if is_new {
        let new = pod(kcm, "r/kube-controller-manager:v1.27.1", &[kcm, "--cloud-provider=external"]);
        let ccm = "cloud-controller-manager";
        return vec![new, pod(ccm, "r/cloud-controller-manager:v1.27.0", &[ccm, flags[0], flags[1]])];
    }
    vec![pod(kcm, "r/kube-controller-manager:v1.26.9", &[kcm, "--cloud-provider=aws", flags[0], flags[1]])]
}

/// A workload cluster's API, as far as the walkthrough reads it: Leases are renewed whenever they are looked at.
fn workload(pods: Vec<serde_json::Value>, leases: &'static [(&'static str, &'static str)]) -> kube::Client {
    let looks = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let path = request.uri().path().to_owned();
        let second = looks.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let lease = |(name, holder): &(&str, &str)| {
            serde_json::json!({
                "metadata": {"name": name, "namespace": "kube-system", "uid": *name},
                "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 1,
                    "acquireTime": "2026-11-20T09:58:00.000000Z",
                    "renewTime": format!("2026-11-20T10:00:{second:02}.000000Z")},
            })
        };
        let items: Vec<serde_json::Value> = match path.rsplit('/').next() {
            Some("pods") => pods.clone(),
            Some("leases") => leases.iter().map(lease).collect(),
            _ => Vec::new(),
        };
        let body = match path.ends_with("subjectaccessreviews") {
            true => serde_json::json!({"spec": {}, "status": {"allowed": true}}),
            false => serde_json::json!({"metadata": {"resourceVersion": "1"}, "items": items}),
        };
        let body = http_body_util::Full::new(bytes::Bytes::from(body.to_string()));
        async move { Ok::<_, std::io::Error>(http::Response::new(body)) }
    });
    capstan_engine::client::in_process(service, "test", "default", false).client
}

async fn walked(client: &kube::Client, line: &str) -> Printed {
    let words = ["capstan", "leader-migration"].into_iter().chain(line.split(' '));
    let Some(Command::LeaderMigration(command)) = Cli::try_parse_from(words).expect(line).command else {
        panic!("{line}")
    };
    let (args, extent) = match command {
        LeaderMigrationCommand::Status(args) => (args, Extent::Status),
        LeaderMigrationCommand::Next(args) => (args.walk, Extent::Next),
        LeaderMigrationCommand::Plan(args) => (args, Extent::Plan),
        other => panic!("{other:?}"),
    };
    let now = capstan_base::time::parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment");
    let (client, server) = (client.clone(), "workload".to_owned());
    let live = LiveCluster {
        client,
        server,
        read_only: false,
        setting: ContextSetting::default(),
        fleet: None,
        managed: None,
    };
    walk(&live, &args, extent, now).await.expect("a walkthrough")
}

#[tokio::test(start_paused = true)]
async fn the_walkthrough_reads_a_running_cluster() {
    let pods = [node_pods("a", false), node_pods("b", false)].concat();
    let held = &[("kube-controller-manager", "a_1"), ("cloud-provider-extraction-migration", "a_1")];
    let client = workload(pods, held);
    let status = walked(&client, "status").await;
    let lines: Vec<&str> = status.document.lines().filter(|line| !line.starts_with(' ')).collect();
    assert_eq!(
        lines[..4],
        [
            "0 done         Preflight: processes, flags, names, Leases",
            "1 done         Grant: rights on the migration Lease",
            "2 done         Enable: leader migration on every kube-controller-manager of the old release",
            "3 to do        Introduce: node by node the new kube-controller-manager and cloud-controller-manager",
        ],
        "{}",
        status.document
    );
    assert!(status.is_fine && lines.len() == 8, "{}", status.document);
    assert!(
        status.document.contains("    Lease kube-system/cloud-provider-extraction-migration: held by a_1\n")
    );
    assert_eq!(status.remarks.len(), 1, "the files of two hosts are assumed: {:?}", status.remarks);
    let next = walked(&client, "next --ccm-version 1.27").await;
    assert!(next.document.contains("    | - --enable-leader-migration=true\n"), "{}", next.document);
    assert!(next.document.contains("  not printed: KubeadmControlPlane: not read;"), "{}", next.document);
    let manifest = "  edit: static pod of kube-controller-manager on b, then a: in its manifest";
    assert!(next.document.contains(manifest), "the holder's comes last: {}", next.document);
    assert!(next.document.contains("  rollback: take the node back to the old release"), "{}", next.document);
}

/// What was pasted lost the provider: the command names it and does not end well.
#[tokio::test(start_paused = true)]
async fn the_walkthrough_names_a_lost_cloud_provider() {
    let without = |mut pods: Vec<serde_json::Value>| {
        let command = pods[0]["spec"]["containers"][0]["command"].as_array_mut().expect("a command");
        command.retain(|word| word != "--cloud-provider=aws");
        pods
    };
    let pods = [without(node_pods("a", false)), without(node_pods("b", false))].concat();
    let held = &[("kube-controller-manager", "a_1"), ("cloud-provider-extraction-migration", "a_1")];
    let status = walked(&workload(pods, held), "status").await;
    assert!(!status.is_fine, "{}", status.document);
    let named = "F10 kube-controller-manager-a, kube-controller-manager-b: of the listed controllers it runs none: --cloud-provider is missing";
    assert!(status.document.contains(named), "{}", status.document);
}

#[tokio::test(start_paused = true)]
async fn the_walkthrough_refuses_and_waits() {
    let without_flag = |mut pods: Vec<serde_json::Value>| {
        pods[0]["spec"]["containers"][0]["command"] =
            serde_json::json!(["kube-controller-manager", "--cloud-provider=aws"]);
        pods
    };
    let pods = [without_flag(node_pods("a", false)), node_pods("b", true)].concat();
    let refused = walked(&workload(pods, &[("kube-controller-manager", "a_1")]), "next").await;
    assert!(!refused.is_fine);
    assert!(refused.document.contains("F5 kube-controller-manager-a: no --enable-leader-migration"));
    assert!(!refused.document.contains("edit:"), "{}", refused.document);

    let held = &[
        ("kube-controller-manager", "a_1"),
        ("cloud-controller-manager", "b_2"),
        ("cloud-provider-extraction-migration", "b_2"),
    ];
    let pods = [node_pods("a", true), node_pods("b", true)].concat();
    let waits = walked(&workload(pods.clone(), held), "next").await;
    assert!(waits.document.contains("5 in progress  Settle"), "{}", waits.document);
    assert!(waits.document.contains("  480 s to wait\n"), "{}", waits.document);
    let data = walked(&workload(pods, held), "status -o json").await;
    let value: serde_json::Value = serde_json::from_str(&data.document).expect("JSON");
    assert_eq!(value["stages"][4]["state"], "done");
    assert_eq!(value["stages"][4]["evidence"][1]["value"], "held by b_2");
}
