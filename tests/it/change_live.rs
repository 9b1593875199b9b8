//! `capstan change apply` against servers that are really there: nodes of a simulated cluster that are emptied before their kubelets
//! restart, and a KubeadmControlPlane that replaces its Machines.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::dev::PODS_ANNOTATION;
use capi_types::key::ObjectKey;
use capi_types::machine::Machine;
use capstan::cli::args::{Cli, Command};
use capstan_base::command_line::CommandLine;
use capstan_base::rng::Rng;
use capstan_base::time::Clock;
use capstan_commands::change::source::Reach;
use capstan_commands::change::{ChangeAnswer, Session, run};
use capstan_commands::output::Style;
use capstan_dashboard::actions::{Executor, Order, Outlook, Proposal};
use capstan_dashboard::operations::ChangeOrder;
use capstan_dashboard::operations::change::ClusterConfigurations;
use capstan_dashboard::operations::guard::Guard;
use capstan_dashboard::operations::journal::Journal;
use capstan_engine::client::{Client, Connection, Mode, Object, Writer, get};
use capstan_engine::reconfigure::executor::{CommandTarget, ExecutorError, NodeExecutor};
use capstan_engine::workload::connect_to;
use capstan_store::MemoryStore;
use capstan_worlds::samples::Sample;
use capstan_worlds::standalone::stack::{Stack, StackOptions};
use capstan_worlds::workload_api::WorkloadApis;
use capstan_worlds::workload_api::commands::HostCommand;
use clap::Parser as _;
use k8s_openapi::api::core::v1::{Node, Pod, Secret};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::simulation::target_of;
use super::workload_api::{served, until};

/// Hosts of the simulation, as ssh would reach them.
struct Hosts(Arc<WorkloadApis>);

#[async_trait]
impl NodeExecutor for Hosts {
    async fn run(
        &self,
        target: &CommandTarget,
        line: &CommandLine,
        input: &str,
    ) -> Result<String, ExecutorError> {
        let command =
            HostCommand { host: target.host.clone(), line: line.to_string(), input: input.to_owned() };
        let answer = self.0.run_on_host(&command).await;
        if answer.status == 0 {
            return Ok(answer.stdout);
        }
        Err(ExecutorError::Failed {
            node: target.node.clone(),
            line: line.to_string(),
            status: answer.status.to_string(),
            output: answer.stderr,
        })
    }

    async fn look(&self, target: &CommandTarget, line: &CommandLine) -> Result<String, ExecutorError> {
        self.run(target, line, "").await
    }
}

/// A fleet of one cluster, and a person who changes it.
struct Fleet {
    stack: Stack,
    management: Connection,
    cluster: ObjectKey,
    folder: TempDir,
}

impl Fleet {
    async fn of(cluster: &str, objects: Vec<Value>, time_scale: f64) -> Self {
        let options = StackOptions { time_scale, ..StackOptions::new(Clock::system(), Rng::seeded(1)) };
        let stack = Stack::start(Arc::new(MemoryStore::new()), options).await.expect("a server");
        let management = stack.connection("test", false);
        let writer = Writer::new(management.client.clone(), "test");
        for object in &objects {
            writer.create_value(&target_of(object), object, Mode::Real).await.expect("created");
        }
        let folder = TempDir::new().expect("a folder");
        Self { stack, management, cluster: ObjectKey::new("default", cluster), folder }
    }

    /// A client of the cluster, once all of it is up.
    async fn client(&self, nodes: usize) -> Client {
        let secret = ObjectKey::new("default", format!("{}-kubeconfig", self.cluster.name));
        until("the kubeconfig", async || {
            get::<Secret>(&self.management.client, &secret).await.expect("an answer").is_some()
        })
        .await;
        let client = connect_to(&self.management.client, &self.cluster, false).await.expect("a client");
        until("an API that answers", async || client.apiserver_version().await.is_ok()).await;
        until("all Nodes", async || list::<Node>(&client).await.len() == nodes).await;
        client
    }

    /// What its KubeadmControlPlane wants of the API server.
    async fn api_server_flags(&self) -> Value {
        let planes: Vec<KubeadmControlPlane> = list(&self.management.client).await;
        let mut spec = serde_json::to_value(&planes[0].spec).expect("JSON");
        spec["kubeadmConfigSpec"]["clusterConfiguration"]["apiServer"]["extraArgs"].take()
    }

    async fn says(&self, words: &[&str]) -> (String, u8) {
        let name = self.cluster.to_string();
        let head = ["capstan", "change"].into_iter().chain(words.iter().copied());
        let parsed = Cli::try_parse_from(head.chain(["--cluster", &name])).expect("arguments");
        let Some(Command::Change(command)) = parsed.command else { panic!("not a change") };
        let session = Session {
            reach: Reach::Connected(self.management.clone()),
            style: Style::default(),
            guard: guard(self.folder.path().join("journal.jsonl")),
            executor: Some(Arc::new(Hosts(self.stack.workload_apis().expect("served").clone()))),
        };
        let mut out = Vec::new();
        let ChangeAnswer { document, exit_code, .. } =
            run(&command, &session, &mut out, &mut &b""[..]).await.expect("an answer");
        (String::from_utf8(out).expect("text") + &document, exit_code.number())
    }
}

async fn list<K: Object>(client: &Client) -> Vec<K> {
    listed(client).await.expect("a list")
}

async fn listed<K: Object>(client: &Client) -> kube::Result<Vec<K>> {
    let list = kube::Api::<K>::all(client.clone()).list(&kube::api::ListParams::default()).await?;
    Ok(list.items)
}

/// Pods of tenants, by name.
async fn tenants(client: &Client) -> Vec<String> {
    let pods = list::<Pod>(client).await.into_iter();
    let tenants = pods.filter(|pod| pod.metadata.namespace.as_deref() == Some("default"));
    tenants.filter_map(|pod| pod.metadata.name).collect()
}

#[tokio::test]
async fn nodes_are_emptied_before_their_kubelets_restart() {
    let mut objects: Vec<Value> =
        Sample::parse("kubeadm").expect("a sample").objects(Clock::system().now()).collect();
    let pods = json!([
        {"name": "web", "budgetSeconds": 20, "terminationSeconds": 5},
        {"name": "logs", "daemonSet": "logs"},
    ]);
    for object in objects.iter_mut().filter(|object| object["kind"] == "DevMachineTemplate") {
        object["spec"]["template"]["metadata"]["annotations"] = json!({ PODS_ANNOTATION: pods.to_string() });
    }
    let reef = Fleet::of("reef", objects, 100.0).await;
    let client = reef.client(5).await;
    until("the tenants", async || tenants(&client).await.len() == 4).await;
    until("their owners", async || {
        let pods = list::<Pod>(&client).await;
        let of_set = pods.iter().flat_map(|pod| pod.metadata.owner_references.iter().flatten());
        of_set.filter(|owner| owner.kind == "DaemonSet").count() == 2
    })
    .await;

    until("Machines that name their Nodes", async || {
        let machines = list::<Machine>(&reef.management.client).await;
        machines
            .iter()
            .filter(|machine| machine.status.as_ref().is_some_and(|s| s.node_ref.is_some()))
            .count()
            == 5
    })
    .await;
    a_budget_refuses_without_a_pause(&client).await;
    // A kubelet may write its own Node: that is not where commands go.
    let elsewhere = json!({"status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.77"}]}});
    let path = "/api/v1/nodes/reef-0/status";
    let claim = http::Request::patch(path).header("content-type", "application/merge-patch+json");
    let claim = claim.body(elsewhere.to_string().into_bytes()).expect("a request");
    client.request::<Value>(claim).await.expect("an answer");

    let how = ["--executor", "ssh", "--yes", "--acknowledge", "--poll", "0.05s", "--timeout", "60s"];
    let (text, exit_code) =
        reef.says(&[&["apply", "--set", "cpuManagerPolicy=static"][..], &how].concat()).await;
    assert_eq!(exit_code, 0, "{text}");
    assert!(text.contains("drain") && text.contains("uncordon"), "{text}");
    let left = tenants(&client).await;
    assert!(left.len() == 2 && left.iter().all(|name| name.starts_with("logs")), "{left:?}");
    let is_given_back = |node: &Node| node.spec.as_ref().and_then(|spec| spec.unschedulable) != Some(true);
    assert!(list::<Node>(&client).await.iter().all(is_given_back));
    let (text, exit_code) = reef.says(&["status"]).await;
    assert_eq!(exit_code, 0, "{text}");
    names_that_nobody_issued_are_drift(&reef, &client).await;
}

/// Who evicts asks again at his own pace: with a Retry-After, clients would hold the request back and the next pods with it.
async fn a_budget_refuses_without_a_pause(client: &Client) {
    let pods = tenants(client).await;
    let web = pods.iter().find(|name| name.starts_with("web")).expect("a pod with a budget");
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"namespace": "default", "name": web}});
    let request = http::Request::post(format!("/api/v1/namespaces/default/pods/{web}/eviction"))
        .body(eviction.to_string().into_bytes())
        .expect("a request");
    match client.request::<Value>(request).await {
        Err(kube::Error::Api(status)) => {
            let pause_s = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
            assert_eq!((status.code, pause_s), (429, 0), "{status:?}");
        }
        answer => panic!("{answer:?}"),
    }
}

/// Somebody stored a name by hand: the ports of the hosts show that no certificate has it, until what is stored is rolled out.
async fn names_that_nobody_issued_are_drift(reef: &Fleet, client: &Client) {
    let status = ["status", "--certificates", "--executor", "ssh"];
    let (text, exit_code) = reef.says(&status).await;
    assert_eq!(exit_code, 0, "{text}");
    let path = "/api/v1/namespaces/kube-system/configmaps/kubeadm-config";
    let read = http::Request::get(path).body(Vec::new()).expect("a request");
    let map = client.request::<Value>(read).await.expect("an answer");
    let stored = map["data"]["ClusterConfiguration"].as_str().expect("a document").to_owned();
    let text = stored.replacen("apiServer:\n", "apiServer:\n  certSANs:\n  - lb.example\n", 1);
    let text = if text == stored { stored + "apiServer:\n  certSANs:\n  - lb.example\n" } else { text };
    let patch = http::Request::patch(path).header("content-type", "application/merge-patch+json");
    let patch = patch.body(json!({"data": {"ClusterConfiguration": text}}).to_string().into_bytes());
    client.request::<Value>(patch.expect("a request")).await.expect("an answer");
    let (text, exit_code) = reef.says(&status).await;
    let words = ["DRIFT of certificates", "reef-0: not issued anew", "kube-apiserver: + name lb.example"];
    assert!(exit_code == 11 && words.iter().all(|words| text.contains(words)), "{exit_code} {text}");

    let (text, exit_code) = reef.says(&["plan", "--as-stored"]).await;
    let words =
        ["apiserver.crt on reef-0: it was not issued anew", "    - name lb.example", "+ name lb.example"];
    assert!(exit_code == 14 && words.iter().all(|words| text.contains(words)), "{exit_code} {text}");
    let how = ["--executor", "ssh", "--yes", "--acknowledge", "--poll", "0.05s", "--timeout", "60s"];
    let (text, exit_code) = reef.says(&[&["apply", "--as-stored"][..], &how].concat()).await;
    assert!(exit_code == 0 && text.contains("kubeadm init phase certs apiserver"), "{exit_code} {text}");
    let (text, exit_code) = reef.says(&status).await;
    assert_eq!(exit_code, 0, "{text}");
    let (text, exit_code) = reef.says(&[&["apply", "--as-stored"][..], &how].concat()).await;
    assert!(exit_code == 0 && text.contains("nothing to do"), "{exit_code} {text}");
}

#[tokio::test]
async fn a_control_plane_replaces_its_machines() {
    let harbor = Fleet::of("harbor", served(1, 1), 1000.0).await;
    let client = harbor.client(2).await;
    let before: Vec<String> =
        list::<Node>(&client).await.into_iter().filter_map(|node| node.metadata.name).collect();
    let flag = ["--set", "apiServer.extraArgs[event-ttl]=2h"];
    let (text, exit_code) = harbor.says(&[&["plan"][..], &flag].concat()).await;
    assert!(exit_code == 10 && text.contains("FORECAST OF THE ROLLOUT"), "{exit_code} {text}");
    let (text, exit_code) = harbor.says(&[&["apply", "--yes"][..], &flag].concat()).await;
    assert!(exit_code == 10 && text.contains("is patched; "), "{exit_code} {text}");
    assert_eq!(harbor.api_server_flags().await, json!([{"name": "event-ttl", "value": "2h"}]));
    until("another Machine", async || {
        // While the only API server is replaced, connections to it break.
        let Ok(nodes) = listed::<Node>(&client).await else { return false };
        let names: Vec<String> = nodes.into_iter().filter_map(|node| node.metadata.name).collect();
        names.len() == 2 && names != before
    })
    .await;
    let (text, _) = harbor.says(&["status"]).await;
    assert!(text.contains("Machines are up to date"), "{text}");
}

fn guard(journal: PathBuf) -> Guard {
    Guard::new(Journal::at(journal), Clock::system(), "ann".to_owned())
}

/// As the screen `:change` does it.
#[tokio::test]
async fn a_control_plane_is_patched_from_the_screen() {
    let harbor = Fleet::of("harbor", served(1, 1), 1000.0).await;
    harbor.client(2).await;
    let journal = harbor.folder.path().join("screen.jsonl");
    let guard = guard(journal.clone());
    let screen = Executor::new(harbor.management.clone(), &guard)
        .with_configuration(ClusterConfigurations::new(harbor.management.clone(), &guard));
    let edits = ChangeOrder::Begin(vec!["apiServer.extraArgs[event-ttl]=2h".to_owned()]);
    let order = Order::Change { cluster: harbor.cluster.clone(), order: edits };
    let proposal = screen.propose(&order).await.expect("a proposal");
    assert!(proposal.is_allowed(), "{:?}", proposal.findings());
    let Outlook::Known(plans) = proposal.outlook() else { panic!("{:?}", proposal.outlook()) };
    assert_ne!(Some(&plans.before), plans.after.first(), "the plan of the control plane changes");
    let Proposal::Change { preview, .. } = &proposal else { panic!("{proposal:?}") };
    assert!(
        matches!(&preview.steps[..], [step] if step.starts_with("now: patch ") && step.contains("event-ttl")),
        "{:?}",
        preview.steps
    );
    assert_eq!(harbor.api_server_flags().await, Value::Null, "a preview writes nothing");

    let said = screen.carry_out(&proposal).await.expect("patched");
    assert!(said.contains("is patched; "), "{said}");
    assert_eq!(harbor.api_server_flags().await, json!([{"name": "event-ttl", "value": "2h"}]));
    let journal = std::fs::read_to_string(journal).expect("a journal");
    let outcomes: Vec<Value> =
        journal.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let words: Vec<&str> = outcomes.iter().filter_map(|entry| entry["outcome"].as_str()).collect();
    assert_eq!(words, ["asked", "done"], "{journal}");

    // Nothing is left to do, the cluster changed, or its only API server is just being replaced: the moment decides.
    screen.carry_out(&proposal).await.expect_err("it is done");
    assert_eq!(harbor.api_server_flags().await, json!([{"name": "event-ttl", "value": "2h"}]));
}
