//! Actions end to end on one desk over the embedded server in process: preview, perform, journal, and
//! what read-only lets out.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use capstan::actions::journal::Journal;
use capstan::actions::{Action, ActionError, Desk, Request, Risk, Severity};
use capstan::admission::Webhooks;
use capstan::api::key::{Gvk, ObjectKey, ObjectRef};
use capstan::api::machine_deployment::MachineDeployment;
use capstan::apiserver::{ApiServer, Options, Tokens};
use capstan::client::{Connection, in_process};
use capstan::rng::Rng;
use capstan::store::MemoryStore;
use capstan::time::Clock;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;

/// Counts requests that could change something on their way to the server.
#[derive(Clone)]
struct Counting {
    server: ApiServer,
    mutating: Arc<AtomicUsize>,
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

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let is_review = request.uri().path().contains("/selfsubject");
        if request.method() != http::Method::GET && !is_review {
            self.mutating.fetch_add(1, Ordering::SeqCst);
        }
        self.server.call(request)
    }
}

struct Place {
    server: ApiServer,
    folder: tempfile::TempDir,
    mutating: Arc<AtomicUsize>,
}

impl Place {
    async fn new() -> Self {
        let options = Options {
            clock: Clock::system(),
            rng: Rng::seeded(1),
            definitions: capstan::api::crds::all(),
            tokens: Tokens::random(),
            admission: Arc::new(Webhooks),
        };
        let server = ApiServer::open(Arc::new(MemoryStore::new()), options).await.expect("a server");
        let folder = tempfile::tempdir().expect("a folder");
        Self { server, folder, mutating: Arc::default() }
    }

    fn connection(&self, read_only: bool) -> Connection {
        let service = Counting { server: self.server.clone(), mutating: self.mutating.clone() };
        in_process(service, "test", "default", read_only)
    }

    fn desk(&self, read_only: bool) -> Desk {
        let journal = Journal::at(self.folder.path().join("journal.jsonl"));
        Desk::new(self.connection(read_only), journal, Clock::system(), "ada".to_owned())
    }

    fn journal(&self) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(self.folder.path().join("journal.jsonl")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect()
    }

    fn deployments(&self) -> Api<MachineDeployment> {
        Api::namespaced(in_process(self.server.clone(), "test", "default", false).client, "default")
    }

    async fn with_deployment(self) -> Self {
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

fn request(action: Action) -> Request {
    let target = ObjectRef {
        gvk: Gvk::of::<MachineDeployment>(),
        key: ObjectKey::new("default", "md"),
        uid: String::new(),
    };
    Request { target, action }
}

#[tokio::test]
async fn a_scale_is_previewed_exactly_performed_once_and_written_down() {
    let place = Place::new().await.with_deployment().await;
    let desk = place.desk(false);
    let preview = desk.preview(&request(Action::Scale { replicas: 5 })).await.expect("a preview");
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
    desk.perform(&preview).await.expect("performed");
    assert_eq!(place.deployments().get("md").await.expect("read").spec.replicas, Some(5));
    let journal = place.journal();
    assert_eq!(
        journal.iter().map(|l| l["outcome"].as_str().expect("text")).collect::<Vec<_>>(),
        ["asked", "done"]
    );
    assert_eq!(journal[0]["patch"], json!({"spec": {"replicas": 5}}));
}

#[tokio::test]
async fn a_change_underneath_is_refused_but_a_status_is_not_a_change() {
    let place = Place::new().await.with_deployment().await;
    let desk = place.desk(false);
    let preview = desk.preview(&request(Action::Scale { replicas: 5 })).await.expect("a preview");
    let status = json!({"status": {"phase": "Running"}});
    place
        .deployments()
        .patch_status("md", &PatchParams::default(), &Patch::Merge(status))
        .await
        .expect("a status");
    desk.perform(&preview).await.expect("the status is nobody's decision");

    let preview = desk.preview(&request(Action::Scale { replicas: 7 })).await.expect("a preview");
    let spec = json!({"spec": {"replicas": 1}});
    place.deployments().patch("md", &PatchParams::default(), &Patch::Merge(spec)).await.expect("a change");
    let error = desk.perform(&preview).await.expect_err("stale");
    assert!(matches!(error, ActionError::Stale { .. }), "{error}");
    assert_eq!(place.deployments().get("md").await.expect("read").spec.replicas, Some(1));
    assert_eq!(place.journal().last().expect("a line")["outcome"], "failed");
}

#[tokio::test]
async fn findings_come_with_the_preview() {
    let place = Place::new().await.with_deployment().await;
    let preview = place.desk(false).preview(&request(Action::Restart)).await.expect("a preview");
    assert!(preview.findings.iter().any(|f| f.rule == "not-checked" && f.severity == Severity::Warning));
    let error = place.desk(false).preview(&request(Action::Delete)).await.expect_err("refused");
    assert!(error.to_string().contains("it works on Machine"), "{error}");
}

#[tokio::test]
async fn read_only_lets_no_mutating_request_out() {
    let place = Place::new().await.with_deployment().await;
    let desk = place.desk(true);
    let allowed =
        place.desk(false).preview(&request(Action::Scale { replicas: 5 })).await.expect("a preview");
    place.mutating.store(0, Ordering::SeqCst);
    for action in [Action::Scale { replicas: 5 }, Action::Restart, Action::Pause, Action::Delete] {
        assert!(matches!(desk.preview(&request(action)).await, Err(ActionError::ReadOnly)));
    }
    assert!(matches!(desk.perform(&allowed).await, Err(ActionError::ReadOnly)));
    // Past the desk, too: the client itself refuses.
    let api: Api<MachineDeployment> = Api::namespaced(place.connection(true).client, "default");
    let patch = Patch::Merge(json!({"spec": {"replicas": 9}}));
    assert!(api.patch("md", &PatchParams::default(), &patch).await.is_err());
    assert!(api.delete("md", &kube::api::DeleteParams::default()).await.is_err());
    assert!(api.get("md").await.is_ok(), "reads go on");
    assert_eq!(place.mutating.load(Ordering::SeqCst), 0);
    assert_eq!(place.journal(), Vec::<serde_json::Value>::new());
}
