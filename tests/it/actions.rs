//! Actions end to end over the embedded server in process: preview, rules, perform, journal, and what
//! read-only lets out.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use capi_rules::admission::Webhooks;
use capi_types::cluster::Cluster;
use capi_types::control_plane::KubeadmControlPlane;
use capi_types::key::{Gvk, ObjectKey, ObjectRef};
use capi_types::machine_deployment::MachineDeployment;
use capstan::cli::args::{Cli, Command};
use capstan_apiserver::{ApiServer, Options, Tokens};
use capstan_base::rng::Rng;
use capstan_base::time::{Clock, Timestamp, parse_rfc3339};
use capstan_dashboard::actions::{ACTIONS, Action, ActionError, Executor, Request, Risk};
use capstan_dashboard::operations::guard::{Guard, Refusal};
use capstan_dashboard::operations::journal::Journal;
use capstan_dashboard::operations::{Confirmation, Severity};
use capstan_dashboard::tui::command::{self, Run};
use capstan_engine::client::{Connection, ContextSettings, in_process};
use capstan_store::MemoryStore;
use clap::Parser as _;
use k8s_machinery::admission::Admission;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;

/// Counts requests that could change something on their way to the server.
#[derive(Clone)]
struct Counting {
    server: ApiServer,
    mutating: Arc<AtomicUsize>,
    temper: Temper,
}

/// How a server takes what it is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Temper {
    #[default]
    Plain,
    /// As Kubernetes before 1.25: it drops what it does not know and says nothing.
    NotStrict,
    /// It answers a patch as if it were stored, and stores nothing.
    Forgetful,
}

impl<B> tower::Service<http::Request<B>> for Counting
where
    ApiServer: tower::Service<http::Request<B>>,
{
    type Response = <ApiServer as tower::Service<http::Request<B>>>::Response;
    type Error = <ApiServer as tower::Service<http::Request<B>>>::Error;
    type Future = <ApiServer as tower::Service<http::Request<B>>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.server.poll_ready(context)
    }

    fn call(&mut self, mut request: http::Request<B>) -> Self::Future {
        let uri = request.uri().to_string();
        let uri = match self.temper {
            Temper::NotStrict => uri.replace("fieldValidation=Strict", "fieldValidation=Ignore"),
            Temper::Forgetful if request.method() == http::Method::PATCH && !uri.contains("dryRun=") => {
                format!("{uri}&dryRun=All")
            }
            Temper::Plain | Temper::Forgetful => uri,
        };
        *request.uri_mut() = uri.parse().expect("an address");
        let is_review = request.uri().path().contains("/selfsubject");
        if request.method() != http::Method::GET && !is_review {
            self.mutating.fetch_add(1, Ordering::SeqCst);
        }
        self.server.call(request)
    }
}

pub struct Place {
    server: ApiServer,
    folder: tempfile::TempDir,
    mutating: Arc<AtomicUsize>,
    pub temper: Temper,
}

impl Place {
    pub async fn new() -> Self {
        Self::serving(capi_types::crds::all(), Arc::new(Webhooks)).await
    }

    pub async fn serving(definitions: Vec<CustomResourceDefinition>, admission: Arc<dyn Admission>) -> Self {
        let options = Options {
            clock: Clock::system(),
            rng: Rng::seeded(1),
            definitions,
            tokens: Tokens::random(),
            admission,
        };
        let server = ApiServer::open(Arc::new(MemoryStore::new()), options).await.expect("a server");
        let folder = tempfile::tempdir().expect("a folder");
        Self { server, folder, mutating: Arc::default(), temper: Temper::default() }
    }

    pub fn connection(&self, read_only: bool) -> Connection {
        let (server, mutating) = (self.server.clone(), self.mutating.clone());
        let service = Counting { server, mutating, temper: self.temper };
        in_process(service, "test", "default", read_only)
    }

    pub fn executor(&self, read_only: bool) -> Executor {
        self.executor_over(self.connection(read_only))
    }

    fn executor_over(&self, connection: Connection) -> Executor {
        let journal = Journal::at(self.folder.path().join("journal.jsonl"));
        Executor::new(connection, &Guard::new(journal, Clock::system(), "ada".to_owned()))
    }

    pub fn journal(&self) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(self.folder.path().join("journal.jsonl")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect()
    }

    pub fn deployments(&self) -> Api<MachineDeployment> {
        Api::namespaced(in_process(self.server.clone(), "test", "default", false).client, "default")
    }

    /// As it would be after other rules, so that it need not be valid.
    pub async fn with(self, object: serde_json::Value) -> Self {
        self.server.import(std::iter::once(object)).await.expect("imported");
        self
    }

    /// What speaks against an action, of which nothing is sent.
    async fn blockers(&self, request: &Request) -> Vec<String> {
        self.mutating.store(0, Ordering::SeqCst);
        let preview = self.executor(false).preview(request).await.expect("a preview");
        assert!(!preview.is_allowed(), "{:?}", preview.findings);
        let refused = self.executor(false).perform(&preview).await.expect_err("refused");
        assert!(matches!(refused, ActionError::Refusal(Refusal::Blocked(_))), "{refused}");
        assert_eq!(self.mutating.load(Ordering::SeqCst), 0, "nothing was sent");
        assert_eq!(self.journal(), Vec::<serde_json::Value>::new());
        let blockers = preview.findings.into_iter().filter(|f| f.severity == Severity::Blocker);
        blockers.map(|f| format!("{}: {}", f.rule, f.text)).collect()
    }

    pub async fn with_deployment(self) -> Self {
        let md: MachineDeployment = serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment",
            "metadata": {"name": "md", "namespace": "default"},
            "spec": {
                "clusterName": "c", "replicas": 3,
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {
                    "clusterName": "c", "version": "v1.35.1", "bootstrap": {"dataSecretName": "s"},
                    "infrastructureRef": {
                        "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachineTemplate", "name": "t"
                    }
                }}
            }
        }))
        .expect("a MachineDeployment");
        self.deployments().create(&PostParams::default(), &md).await.expect("created");
        self
    }
}

pub fn request(action: Action) -> Request {
    let target = ObjectRef {
        gvk: Gvk::of::<MachineDeployment>(),
        key: ObjectKey::new("default", "md"),
        uid: String::new(),
    };
    Request::new(target, action)
}

#[tokio::test]
async fn in_production_every_action_is_confirmed_by_name() {
    let place = Place::new().await.with_deployment().await;
    let folder = tempfile::tempdir().expect("a folder");
    let text = "[[context]]\nname = 'te*'\nrank = 'production'\n";
    std::fs::write(folder.path().join("contexts.toml"), text).expect("written");
    let settings = ContextSettings::read(folder.path()).expect("settings");
    for action in [Action::Scale { replicas: 5 }, Action::Pause] {
        let confirmation = async |connection: Connection| {
            let preview = place.executor_over(connection).preview(&request(action.clone())).await;
            preview.expect("a preview").risk.confirmation()
        };
        let connection = place.connection(false);
        assert_eq!(confirmation(connection.clone()).await, Confirmation::Enter);
        let setting = settings.of(&connection.context);
        assert_eq!(confirmation(Connection { setting, ..connection }).await, Confirmation::Name);
    }
}

#[tokio::test]
async fn a_scale_is_previewed_exactly_performed_once_and_written_down() {
    let place = Place::new().await.with_deployment().await;
    let executor = place.executor(false);
    let preview = executor.preview(&request(Action::Scale { replicas: 5 })).await.expect("a preview");
    assert_eq!((preview.risk, preview.is_allowed()), (Risk::Low, true));
    let changed: Vec<String> = preview
        .diff
        .iter()
        .filter(|l| matches!(l.sign.glyph(), '+' | '-'))
        .map(|l| format!("{}{}", l.sign.glyph(), l.text.trim()))
        .collect();
    assert_eq!(changed, ["-replicas: 3", "+replicas: 5"]);
    assert_eq!(
        place.deployments().get("md").await.expect("read").spec.replicas,
        Some(3),
        "a preview writes nothing"
    );
    executor.perform(&preview).await.expect("performed");
    assert_eq!(place.deployments().get("md").await.expect("read").spec.replicas, Some(5));
    let journal = place.journal();
    assert_eq!(
        journal.iter().map(|l| l["outcome"].as_str().expect("text")).collect::<Vec<_>>(),
        ["asked", "done"]
    );
    assert_eq!(journal[0]["patch"], json!({"spec": {"replicas": 5}}));
}

/// What was done last is taken back, unless somebody else has changed the same since.
#[tokio::test]
async fn the_last_action_is_put_back() {
    let place = Place::new().await.with_deployment().await;
    let executor = place.executor(false);
    let replicas = async || place.deployments().get("md").await.expect("read").spec.replicas;
    let undo = request(Action::Undo);
    let refused = async || executor.preview(&undo).await.expect_err("refused").to_string();
    assert!(refused().await.contains("the journal has nothing that was done to MachineDeployment md"));
    let preview = executor.preview(&request(Action::Scale { replicas: 5 })).await.expect("a preview");
    executor.perform(&preview).await.expect("performed");
    assert_eq!(place.journal()[0]["back"], json!({"spec": {"replicas": 3}}));
    for expected in [3, 5, 3] {
        // The last action is then the one that took another back.
        let preview = executor.preview(&undo).await.expect("a preview");
        executor.perform(&preview).await.expect("performed");
        assert_eq!(replicas().await, Some(expected));
    }
    let spec = json!({"spec": {"replicas": 9}});
    place.deployments().patch("md", &PatchParams::default(), &Patch::Merge(spec)).await.expect("a change");
    let why = refused().await;
    assert!(why.contains("`undo` of MachineDeployment md") && why.contains("changed since"), "{why}");
    assert_eq!(replicas().await, Some(9));
    let preview = executor.preview(&request(Action::Pause)).await.expect("a preview");
    executor.perform(&preview).await.expect("performed");
    // What it takes away does not hold it up.
    let preview = executor.preview(&undo).await.expect("a preview");
    assert!(preview.findings.iter().all(|finding| finding.rule != "paused"), "{:?}", preview.findings);
}

/// "Done" is said of what is there.
#[tokio::test]
async fn what_is_not_there_after_the_write_is_not_done() {
    let mut place = Place::new().await.with_deployment().await;
    place.temper = Temper::Forgetful;
    let executor = place.executor(false);
    let preview = executor.preview(&request(Action::Scale { replicas: 5 })).await.expect("a preview");
    let error = executor.perform(&preview).await.expect_err("not there").to_string();
    let text =
        "scale of MachineDeployment default/md was accepted, but spec.replicas is not as asked afterwards";
    assert!(error.starts_with(text), "{error}");
    assert_eq!(place.journal().last().expect("a line")["outcome"], "failed");
}

#[tokio::test]
async fn what_would_change_nothing_is_refused() {
    let place = Place::new().await.with_deployment().await;
    for (action, why) in [
        (Action::Scale { replicas: 3 }, "has 3 replicas already"),
        (Action::SetVersion { version: "v1.35.1".to_owned() }, "is to have v1.35.1 already"),
        (Action::Resume, "is not paused"),
        (Action::ClearSchedule, "has no scheduled rollout"),
    ] {
        let error = place.executor(false).preview(&request(action)).await.expect_err("refused").to_string();
        assert_eq!(error, format!("nothing to change: MachineDeployment md {why}"));
    }
}

#[tokio::test]
async fn a_change_underneath_is_refused_but_a_status_is_not_a_change() {
    let place = Place::new().await.with_deployment().await;
    let executor = place.executor(false);
    let preview = executor.preview(&request(Action::Scale { replicas: 5 })).await.expect("a preview");
    let status = json!({"status": {"phase": "Running"}});
    place
        .deployments()
        .patch_status("md", &PatchParams::default(), &Patch::Merge(status))
        .await
        .expect("a status");
    executor.perform(&preview).await.expect("a status is not a decision");

    let preview = executor.preview(&request(Action::Scale { replicas: 7 })).await.expect("a preview");
    let spec = json!({"spec": {"replicas": 1}});
    place.deployments().patch("md", &PatchParams::default(), &Patch::Merge(spec)).await.expect("a change");
    let error = executor.perform(&preview).await.expect_err("stale");
    assert!(matches!(error, ActionError::Stale { .. }), "{error}");
    assert_eq!(place.deployments().get("md").await.expect("read").spec.replicas, Some(1));
    assert_eq!(place.journal().last().expect("a line")["outcome"], "failed");
}

/// An executor over a server where somebody else changes the object before each of the first dry runs.
fn contested(place: &Place, dry_runs: usize) -> Executor {
    let (server, deployments) = (place.server.clone(), place.deployments());
    let left = Arc::new(AtomicUsize::new(dry_runs));
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (server, deployments, left) = (server.clone(), deployments.clone(), left.clone());
        async move {
            let is_dry = request.uri().query().is_some_and(|query| query.contains("dryRun="));
            let fewer = |left: usize| left.checked_sub(1).filter(|_| is_dry);
            if let Ok(now) = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fewer) {
                let label = json!({"metadata": {"labels": {"seen": now.to_string()}}});
                deployments
                    .patch("md", &PatchParams::default(), &Patch::Merge(label))
                    .await
                    .expect("written");
            }
            tower::ServiceExt::oneshot(server, request).await
        }
    });
    let journal = Journal::at(place.folder.path().join("journal.jsonl"));
    let connection = in_process(service, "test", "default", false);
    Executor::new(connection, &Guard::new(journal, Clock::system(), "ada".to_owned()))
}

#[tokio::test]
async fn what_changes_while_it_is_previewed_is_looked_at_again() {
    let place = Place::new().await.with_deployment().await;
    let scale = request(Action::Scale { replicas: 5 });
    contested(&place, 3).preview(&scale).await.expect("a preview of what is there now");
    let error = contested(&place, 100).preview(&scale).await.expect_err("never the same twice");
    assert!(matches!(error, ActionError::Stale { .. }), "{error}");
}

#[tokio::test]
async fn findings_come_with_the_preview() {
    let place = Place::new().await.with_deployment().await;
    let preview = place.executor(false).preview(&request(Action::Restart)).await.expect("a preview");
    assert!(preview.findings.iter().any(|f| f.rule == "not-checked" && f.severity == Severity::Warning));
    let error = place.executor(false).preview(&request(Action::Delete)).await.expect_err("refused");
    assert!(error.to_string().contains("it works on Machine"), "{error}");
}

#[tokio::test]
async fn read_only_lets_no_mutating_request_out() {
    let place = Place::new().await.with_deployment().await;
    let executor = place.executor(true);
    let allowed =
        place.executor(false).preview(&request(Action::Scale { replicas: 5 })).await.expect("a preview");
    place.mutating.store(0, Ordering::SeqCst);
    for action in [Action::Scale { replicas: 5 }, Action::Restart, Action::Pause, Action::Delete] {
        assert!(matches!(
            executor.preview(&request(action)).await,
            Err(ActionError::Refusal(Refusal::ReadOnly))
        ));
    }
    assert!(matches!(executor.perform(&allowed).await, Err(ActionError::Refusal(Refusal::ReadOnly))));
    // Past the executor, too: the client itself refuses.
    let api: Api<MachineDeployment> = Api::namespaced(place.connection(true).client, "default");
    let patch = Patch::Merge(json!({"spec": {"replicas": 9}}));
    assert!(api.patch("md", &PatchParams::default(), &patch).await.is_err());
    assert!(api.delete("md", &kube::api::DeleteParams::default()).await.is_err());
    assert!(api.get("md").await.is_ok(), "reads go on");
    assert_eq!(place.mutating.load(Ordering::SeqCst), 0);
    assert_eq!(place.journal(), Vec::<serde_json::Value>::new());
}

fn on<K: kube::Resource<DynamicType = ()>>(name: &str, action: Action) -> Request {
    let target = ObjectRef { gvk: Gvk::of::<K>(), key: ObjectKey::new("default", name), uid: String::new() };
    Request::new(target, action)
}

#[tokio::test]
async fn what_admission_refuses_is_not_sent() {
    let place = Place::new().await;
    let place = place
        .with(json!({
            "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
            "metadata": {"name": "cp", "namespace": "default"},
            "spec": {"replicas": 3, "version": "v1.34.1", "kubeadmConfigSpec": {}, "machineTemplate": {"spec": {
                "infrastructureRef": {
                    "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachineTemplate", "name": "t"
                }
            }}}
        }))
        .await;
    for (action, expected) in [
        (
            Action::Scale { replicas: 4 },
            "spec.replicas: Forbidden: cannot be an even number when etcd is stacked",
        ),
        (Action::Scale { replicas: 0 }, "spec.replicas: Forbidden: cannot be less than or equal to 0"),
        (
            Action::SetVersion { version: "v1.36.0".to_owned() },
            "spec.version: Forbidden: cannot update Kubernetes version from v1.34.1 to v1.36.0",
        ),
    ] {
        let found = place.blockers(&on::<KubeadmControlPlane>("cp", action.clone())).await;
        let wanted = format!("admission: Cluster API refuses it: {expected}");
        assert!(found.contains(&wanted), "{action}: {found:?}");
    }
}

/// A definition of ClusterClasses, which capstan itself does not serve.
fn class_definition() -> CustomResourceDefinition {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "metadata": {"name": "clusterclasses.cluster.x-k8s.io"},
        "spec": {
            "group": "cluster.x-k8s.io", "scope": "Namespaced",
            "names": {"kind": "ClusterClass", "listKind": "ClusterClassList",
                "plural": "clusterclasses", "singular": "clusterclass"},
            "versions": [{"name": "v1beta2", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": anything}}]
        }
    });
    serde_json::from_value(definition).expect("a definition")
}

/// The rule looks at the ClusterClass, at the control plane and at the workers.
#[tokio::test]
async fn what_a_rule_looks_at_is_read() {
    let cluster = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {"topology": {"classRef": {"name": "class"}, "version": "v1.34.1"}}
    });
    let class = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass",
        "metadata": {"name": "class", "namespace": "default"}, "spec": {}
    });
    let back = on::<Cluster>("c", Action::SetVersion { version: "v1.33.0".to_owned() });
    let mut definitions = capi_types::crds::all();
    definitions.push(class_definition());
    let place = Place::serving(definitions, Arc::new(Webhooks)).await.with(cluster).await;
    let found = place.blockers(&back).await;
    assert!(found.iter().any(|text| text.contains("ClusterClass default/class not found")), "{found:?}");
    let place = place.with(class).await;
    let found = place.blockers(&back).await;
    let wanted = "version cannot be decreased from \"1.34.1\" to \"1.33.0\"";
    assert!(found.iter().any(|text| text.contains(wanted)), "{found:?}");
}

fn now() -> Timestamp {
    parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment")
}

/// The action behind `:`, or why there is none.
fn in_the_dashboard(line: &str) -> Result<Action, String> {
    let call = command::parse(line)?;
    match call.command.run {
        Run::Action(info) => info.parse(call.argument, now()).map_err(|error| error.to_string()),
        Run::Screen(_) | Run::Order(_) => Err(format!("`{line}` is not an action")),
    }
}

/// The action of the same line with an object in front of the argument.
fn on_the_command_line(name: &str, argument: &str) -> Result<Action, String> {
    let line = format!("capstan {name} md/a {argument}");
    let cli = Cli::try_parse_from(line.split_whitespace()).map_err(|error| error.to_string())?;
    let Some(Command::Act(args)) = cli.command else { return Err(format!("`{line}` is not an action")) };
    assert_eq!(args.target.to_string(), "MachineDeployment a");
    args.action(now()).map_err(|error| error.to_string())
}

#[test]
fn every_action_has_the_same_words_in_the_dashboard_and_on_the_command_line() {
    let mut understood = 0;
    for info in ACTIONS {
        for argument in ["", "0", "5", "many", "+2h", "2026-11-20T22:00:00Z", "v1.36.2", "1.36.2", "v1.36"] {
            let line = format!("{} {argument}", info.name);
            let (screen, shell) = (in_the_dashboard(&line), on_the_command_line(info.name, argument));
            assert_eq!(screen.clone().ok(), shell.clone().ok(), "{line}");
            assert!(argument.is_empty() || screen == shell, "{line}: {screen:?} {shell:?}");
            understood += usize::from(screen.is_ok());
        }
        if let Some(option) = info.argument.option() {
            let argument = info.argument.example().split(',').next().expect("one");
            let with_option = on_the_command_line(info.name, &format!("--{option} {argument}"));
            assert_eq!(with_option, in_the_dashboard(&format!("{} {argument}", info.name)));
            assert!(with_option.is_ok(), "{}: {with_option:?}", info.name);
        }
    }
    // Two numbers, two moments, two versions and the same as changes, and seven actions without an argument.
    assert_eq!(understood, 15);
}

proptest::proptest! {
    #[test]
    fn the_same_text_is_the_same_action_in_both_places(argument in "[0-9a-zA-Zv+.:/][0-9a-zA-Z+.:/-]{0,24}") {
        for info in ACTIONS {
            let screen = in_the_dashboard(&format!("{} {argument}", info.name));
            proptest::prop_assert_eq!(screen, on_the_command_line(info.name, &argument), "{}", info.name);
        }
    }
}
