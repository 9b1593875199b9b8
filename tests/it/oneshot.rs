//! One-shot commands and the fleet's watch over the API server in process, with a static fleet.

use std::sync::Arc;
use std::time::Duration;

use capi_rules::admission::Webhooks;
use capi_types::key::{ObjectKey, ObjectRef};
use capstan::cli::args::{Cli, Command};
use capstan_apiserver::{ApiServer, Options, Tokens};
use capstan_base::rng::Rng;
use capstan_base::time::{Clock, Timestamp, parse_rfc3339};
use capstan_commands::describe::DescribeArgs;
use capstan_commands::get::GetArgs;
use capstan_commands::output::Style;
use capstan_commands::target::kind_named;
use capstan_commands::wait::WaitArgs;
use capstan_commands::wait::Waited;
use capstan_commands::{describe, get, leases, wait};
use capstan_dashboard::fleet::watch::{self, Scope};
use capstan_dashboard::fleet::{FeedState, Fleet, Kind, SourceId, Verdict};
use capstan_engine::client::write::Part;
use capstan_engine::client::{Connection, Mode, Precondition, Writer, in_process};
use capstan_store::MemoryStore;
use capstan_worlds::samples::Sample;
use capstan_worlds::standalone::load;
use capstan_worlds::standalone::stack::{Stack, StackOptions};
use clap::Parser as _;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::json;

const CLUSTERS: usize = 3;

fn now() -> Timestamp {
    parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment")
}

async fn fleet_server() -> Connection {
    let options = StackOptions { engine: false, ..StackOptions::new(Clock::fixed(now()), Rng::seeded(7)) };
    let stack = Stack::start(Arc::new(MemoryStore::new()), options).await.expect("a server");
    let sample = Sample::parse("synthetic:clusters=3,machines=60").expect("a sample");
    load::import(stack.server(), sample, now()).await.expect("imported");
    stack.connection("test", false)
}

fn command(line: &str) -> Result<Command, String> {
    let words = std::iter::once("capstan").chain(line.split(' '));
    Ok(Cli::try_parse_from(words).map_err(|error| error.to_string())?.command.expect("a command"))
}

fn get_args(line: &str) -> Result<GetArgs, String> {
    if let Command::Get(args) = command(line)? { Ok(args) } else { panic!("{line}") }
}

fn describe_args(line: &str) -> DescribeArgs {
    if let Ok(Command::Describe(args)) = command(line) { args } else { panic!("{line}") }
}

fn wait_args(line: &str) -> Result<WaitArgs, String> {
    if let Command::Wait(args) = command(line)? { Ok(args) } else { panic!("{line}") }
}

async fn got(connection: &Connection, line: &str, namespace: &str) -> Result<String, String> {
    let answer = get::get(connection, &get_args(line)?, namespace, now(), Style::default()).await;
    answer.map(|a| a.document + &a.remarks.join("\n")).map_err(|e| e.to_string())
}

/// Namespace and name of the first cluster.
async fn first_cluster(connection: &Connection) -> (String, String) {
    let table = got(connection, "get clusters", "").await.expect("a table");
    let mut words = table.lines().nth(1).expect("a row").split_whitespace();
    (words.next().expect("a namespace").to_owned(), words.next().expect("a name").to_owned())
}

#[tokio::test]
async fn get_prints_what_kubectl_prints() {
    let server = fleet_server().await;
    let (namespace, name) = first_cluster(&server).await;
    let table = got(&server, "get cl", "").await.expect("a table");
    let heads = "NAMESPACE NAME CLUSTERCLASS AVAILABLE CP DESIRED CP AVAILABLE CP UP-TO-DATE W DESIRED W AVAILABLE W \
                 UP-TO-DATE PHASE AGE VERSION";
    assert_eq!(table.lines().next().expect("heads").split_whitespace().collect::<Vec<_>>().join(" "), heads);
    assert_eq!(table.lines().count(), CLUSTERS + 1);
    let wide = got(&server, &format!("get cluster/{name} -o wide"), &namespace).await.expect("a table");
    assert!(wide.contains("CP CURRENT") && wide.contains("PAUSED") && !wide.contains("NAMESPACE"));
    let names = got(&server, &format!("get clusters {name} -o name"), &namespace).await.expect("names");
    assert_eq!(names, format!("cluster.cluster.x-k8s.io/{name}\n"));
    let selected = format!("get machines -l cluster.x-k8s.io/cluster-name={name} -o json");
    let list: serde_json::Value =
        serde_json::from_str(&got(&server, &selected, &namespace).await.expect("a list")).expect("JSON");
    assert_eq!(list["kind"], "List");
    assert_eq!(list["items"][0]["kind"], "Machine");
    let yaml = got(&server, &format!("get clusters {name} -o yaml"), &namespace).await.expect("YAML");
    assert!(yaml.starts_with("apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\n"), "{yaml}");
    assert!(!yaml.contains("managedFields"));
}

/// As `clusterctl get kubeconfig` prints it.
#[tokio::test]
async fn the_kubeconfig_of_a_workload_cluster_is_printed() {
    let connection = fleet_server().await;
    let (namespace, cluster) = first_cluster(&connection).await;
    let line = format!("get kubeconfig {cluster}");
    let secrets: Api<Secret> = Api::namespaced(connection.client.clone(), &namespace);
    let name = format!("{cluster}-kubeconfig");
    let _ = secrets.delete(&name, &DeleteParams::default()).await;
    let missing = got(&connection, &line, &namespace).await.expect_err("there is none");
    assert!(missing.contains("there is no Secret") && missing.contains("check the name"), "{missing}");
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
                        "stringData": {}, "data": {"value": "YXBpVmVyc2lvbjogdjEKa2luZDogQ29uZmlnCg=="}});
    let secret: Secret = serde_json::from_value(secret).expect("a Secret");
    secrets.create(&PostParams::default(), &secret).await.expect("created");
    assert_eq!(got(&connection, &line, &namespace).await.as_deref(), Ok("apiVersion: v1\nkind: Config\n"));
    assert!(got(&connection, &line, "").await.expect_err("refused").contains("--all-namespaces"));
    assert!(
        got(&connection, "get kubeconfig", &namespace).await.expect_err("refused").contains("one Cluster")
    );
}

#[tokio::test]
async fn get_says_what_is_wrong() {
    let server = fleet_server().await;
    for (line, namespace, said) in [
        ("get pods", "default", "the server has no kind that is called `pods`"),
        ("get clusters nobody", "default", "\"nobody\" not found"),
        ("get clusters nobody -o yaml", "default", "there is no Cluster default/nobody"),
        ("get clusters a", "", "--all-namespaces"),
        ("get clusters a -l x=y", "default", "exclude each other"),
    ] {
        let error = got(&server, line, namespace).await.expect_err(line);
        assert!(error.contains(said), "{line}: {error}");
    }
    let none = got(&server, "get clusters", "empty").await.expect("an answer");
    assert_eq!(none, "No resources found in empty namespace.");
}

/// A server with a Cluster API from before v1beta2: other columns, and the older conditions.
async fn older_server() -> Connection {
    let mut definitions = capi_types::crds::all();
    for version in definitions.iter_mut().flat_map(|d| &mut d.spec.versions) {
        version.name = "v1beta1".to_owned();
        let anything =
            json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        version.schema = serde_json::from_value(anything).expect("a schema");
        let phase = json!([{"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
            {"name": "Version", "type": "string", "jsonPath": ".spec.topology.version", "priority": 1}]);
        version.additional_printer_columns = serde_json::from_value(phase).expect("columns");
    }
    let (clock, tokens) = (Clock::fixed(now()), Tokens { admin: "a".to_owned(), read_only: "r".to_owned() });
    let options = Options { clock, rng: Rng::seeded(7), definitions, tokens, admission: Arc::new(Webhooks) };
    let server = ApiServer::open(Arc::new(MemoryStore::new()), options).await.expect("a server");
    let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster",
        "metadata": {"name": "old", "namespace": "default", "uid": "u", "creationTimestamp": "2026-11-19T10:00:00Z"},
        "spec": {"infrastructureRef": {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "DevCluster", "name": "old"}},
        "status": {"phase": "Provisioned", "infrastructureReady": true, "conditions": [
            {"type": "Ready", "status": "False", "severity": "Error", "reason": "Broken", "message": "disk is full",
             "lastTransitionTime": "2026-11-20T09:00:00Z"}]}});
    server.import(std::iter::once(cluster)).await.expect("imported");
    in_process(server, "test", "default", false)
}

#[tokio::test]
async fn get_and_describe_read_a_server_that_has_only_v1beta1() {
    let server = older_server().await;
    let table = got(&server, "get clusters", "default").await.expect("a table");
    assert_eq!(table, "NAME   PHASE\nold    Provisioned\n");
    let wide = got(&server, "get cluster/old -o wide", "default").await.expect("a table");
    assert!(wide.starts_with("NAME   PHASE         VERSION\n"), "{wide}");
    assert_eq!(
        got(&server, "get cl -o name", "default").await.as_deref(),
        Ok("cluster.cluster.x-k8s.io/old\n")
    );
    let yaml = got(&server, "get cl old -o yaml", "default").await.expect("YAML");
    assert!(yaml.starts_with("apiVersion: cluster.x-k8s.io/v1beta1\nkind: Cluster\n"), "{yaml}");
    assert!(yaml.contains("severity: Error"), "as the server has it: {yaml}");
    let args = describe_args("describe cluster old");
    let tree = describe::describe(&server, &args, "default", now(), Style::default()).await.expect("a tree");
    assert_eq!(tree.verdict, Verdict::Degraded, "by its older Ready");
    let document = tree.document;
    assert!(document.contains("Cluster default/old *"), "{document}");
    assert!(document.trim_end().ends_with("* by deprecated v1beta1 conditions"), "{document}");
}

#[tokio::test]
async fn describe_shows_the_tree_and_the_verdict() {
    let server = fleet_server().await;
    let (namespace, name) = first_cluster(&server).await;
    let args = describe_args(&format!("describe cluster {name}"));
    let tree = describe::describe(&server, &args, &namespace, now(), Style::default()).await.expect("a tree");
    let lines: Vec<&str> = tree.document.lines().collect();
    assert!(lines[0].starts_with("NAME ") && lines[0].ends_with("MESSAGE"), "{}", lines[0]);
    assert!(lines[1].starts_with(&format!("Cluster {namespace}/{name}")));
    assert!(tree.document.contains("├─KubeadmControlPlane ") && tree.document.contains("└─Workers"));
    assert_eq!(
        tree.remarks,
        ["support of Kubernetes 1.34 ended 2026-10-27, by upstream's table of September 2026"]
    );
    let args = describe_args(&format!("describe cluster {name} -o json"));
    let document =
        describe::describe(&server, &args, &namespace, now(), Style::default()).await.expect("JSON");
    let value: serde_json::Value = serde_json::from_str(&document.document).expect("JSON");
    assert_eq!(value["verdict"], document.verdict.word());
    assert_eq!(document.verdict, tree.verdict);
    let args = describe_args("describe cluster nobody");
    let error =
        describe::describe(&server, &args, "default", now(), Style::default()).await.expect_err("none");
    assert!(error.to_string().contains("no Cluster nobody in namespace default"), "{error}");
}

#[tokio::test]
async fn describe_judges_by_health_checks_as_the_dashboard_does() {
    let server = fleet_server().await;
    let (namespace, name) = first_cluster(&server).await;
    let gvk = kind_named("machinehealthcheck").expect("a kind").gvk;
    let writer = Writer::new(server.client.clone(), "test");
    // No controller has given them the label of their Cluster yet.
    for (check, of) in [("of-it", name.as_str()), ("of-another", "nobody")] {
        let key = ObjectKey::new(&namespace, check);
        let target = ObjectRef { gvk: gvk.clone(), key, uid: String::new() };
        let object = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineHealthCheck",
            "metadata": {"name": check, "namespace": namespace},
            "spec": {"clusterName": of, "selector": {"matchLabels": {"pool": "a"}}},
        });
        writer.create_value(&target, &object, Mode::Real).await.expect("created");
    }
    let args = describe_args(&format!("describe cluster {name} -o json"));
    let described = describe::describe(&server, &args, &namespace, now(), Style::default()).await;
    let document = described.expect("JSON").document;
    assert!(document.contains("\"of-it\"") && !document.contains("\"of-another\""), "{document}");
}

#[tokio::test(start_paused = true)]
async fn wait_ends_when_it_is_true() {
    let server = fleet_server().await;
    let (namespace, name) = first_cluster(&server).await;
    let clock = Clock::fixed(now());
    let waited = async |what: &str| {
        let args = wait_args(&format!("wait {what} --timeout 30s"))?;
        wait::wait(&server, &args, &namespace, clock.clone(), Rng::seeded(1)).await.map_err(|e| e.to_string())
    };
    assert_eq!(
        waited(&format!("cluster/{name} --for=condition=InfrastructureReady")).await,
        Ok(Waited::Reached { remark: None })
    );
    let late = waited(&format!("cluster/{name} --for=condition=NoSuchThing")).await.expect("an answer");
    let Waited::TimedOut { last, .. } = late else { panic!("{late:?}") };
    assert_eq!(last, "it has no condition NoSuchThing");
    assert!(
        waited("cluster/x --for=sunshine").await.expect_err("refused").contains("expected condition=TYPE")
    );
    assert!(waited("md/x --for=verdict=ok").await.expect_err("refused").contains("only a cluster"));
    assert_eq!(waited("cluster/nobody --for=delete").await, Ok(Waited::Reached { remark: None }));
}

#[tokio::test(start_paused = true)]
async fn a_fleet_over_the_real_server_is_complete_and_live() {
    let server = fleet_server().await;
    let clock = Clock::fixed(now());
    let (mut batches, source) = watch::spawn(&server, SourceId(0), Scope::default(), clock, Rng::seeded(1));
    let mut fleet = Fleet::new();
    while let Ok(Some(batch)) = tokio::time::timeout(Duration::from_secs(2), batches.recv()).await {
        fleet.apply(batch);
    }
    for (key, feed) in fleet.feeds() {
        assert_eq!(feed.state, FeedState::Live, "{key}");
    }
    assert_eq!(fleet.clusters().len(), CLUSTERS);
    let machines: usize = fleet.clusters().iter().map(|c| fleet.members(*c, Kind::Machine).len()).sum();
    assert!(machines >= 60, "{machines}");
    assert!(fleet.clusters().iter().all(|c| fleet.verdict(*c) != Verdict::Unknown));

    // A label on a Cluster arrives by watch.
    let row = fleet.row(fleet.clusters()[0]).expect("a row").clone();
    let gvk = kind_named("cluster").expect("a kind").gvk;
    let target = ObjectRef { gvk, key: ObjectKey::new(&*row.namespace, &*row.name), uid: String::new() };
    let patch = json!({"metadata": {"labels": {"touched": "yes"}}});
    Writer::new(server.client.clone(), "test")
        .patch_value(&target, Part::Main, &patch, &Precondition::default(), Mode::Real)
        .await
        .expect("written");
    while let Ok(Some(batch)) = tokio::time::timeout(Duration::from_secs(2), batches.recv()).await {
        fleet.apply(batch);
    }
    let seen = fleet.row(fleet.clusters()[0]).expect("a row");
    assert_eq!(seen.labels.get("touched"), Some("yes"));
    drop(source);
    assert!(batches.recv().await.is_none(), "watching ends with the source");
}

/// Answers so many lists of one Lease that nobody renews, and nothing after them.
fn lists_of_leases(answers: u32, duration_s: u32) -> kube::Client {
    let asked = std::sync::atomic::AtomicU32::new(0);
    let service = tower::service_fn(move |_: http::Request<kube::client::Body>| {
        let is_answered = asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < answers;
        let lease = json!({
            "metadata": {"name": "lock", "namespace": "kube-system", "uid": "u"},
            "spec": {"holderIdentity": "a", "leaseDurationSeconds": duration_s},
        });
        let body = json!({"metadata": {"resourceVersion": "1"}, "items": [lease]}).to_string();
        async move {
            if !is_answered {
                std::future::pending::<()>().await;
            }
            Ok::<_, std::io::Error>(http::Response::new(http_body_util::Full::new(bytes::Bytes::from(body))))
        }
    });
    in_process(service, "test", "default", false).client
}

#[tokio::test(start_paused = true)]
async fn leases_are_looked_at_as_long_as_was_said_whether_the_server_answers_or_not() {
    for (answers, duration_s, expected, seconds) in [
        (u32::MAX, 3, Ok("Stale"), 4),
        (u32::MAX, 1_000_000, Ok("Unknown"), 20),
        (2, 3, Ok("Unknown"), 20),
        (0, 3, Err("leases in kube-system: no answer within 20 s"), 20),
    ] {
        let (client, began) = (lists_of_leases(answers, duration_s), tokio::time::Instant::now());
        let limit = Duration::from_secs(20);
        let found = leases::look(&client, "kube-system", "", limit, leases::all_known).await;
        let states =
            found.map(|leases| format!("{:?}", leases[0].state())).map_err(|error| error.to_string());
        assert_eq!(states, expected.map(str::to_owned).map_err(str::to_owned));
        assert_eq!(began.elapsed().as_secs(), seconds, "{answers} {duration_s}");
    }
}
