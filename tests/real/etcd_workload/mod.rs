//! The engine's real way to etcd: from the kubeconfig and etcd Secrets of a Cluster through the workload cluster's
//! API and port-forwards to three real members.

mod server;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use capi_rules::etcd::facts::Class;
use capi_rules::etcd::report::{EtcdState, Report};
use capi_types::cluster::Cluster;
use capi_types::key::ObjectKey;
use capi_types::machine::Machine;
use capstan_apiserver::{ApiServer, Options, Tokens};
use capstan_base::rng::Rng;
use capstan_base::time::Clock;
use capstan_dashboard::operations::ClusterEtcd;
use capstan_dashboard::operations::EtcdReader as _;
use capstan_engine::client::{Cache, Connection, Writer, in_process};
use capstan_engine::workload::kube::KubeWorkloads;
use capstan_engine::workload::{EtcdView, JudgedAfter, Workload, WorkloadError};
use capstan_store::MemoryStore;
use k8s_openapi::api::core::v1::{Namespace, Node, Secret};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio_rustls::rustls;
use tokio_util::task::AbortOnDropHandle;

use crate::etcd_status::server::{TlsCluster, authority};
use crate::keeping::etcd::is_installed;
use server::WorkloadApi;

const TOKEN: &str = "workload-admin";
const PATIENCE: Duration = Duration::from_secs(60);

async fn api_server(token: &str) -> ApiServer {
    let options = Options {
        clock: Clock::system(),
        rng: Rng::seeded(7),
        definitions: capi_types::crds::all(),
        admission: Arc::new(capi_rules::admission::Webhooks),
        tokens: Tokens { admin: token.to_owned(), read_only: "r".to_owned() },
    };
    ApiServer::open(Arc::new(MemoryStore::new()), options).await.expect("a server")
}

fn typed<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("an object")
}

/// A management cluster with one Cluster, and its workload cluster.
pub struct Site {
    pub management: Connection,
    pub etcd: TlsCluster,
    pub api: WorkloadApi,
    pub workloads: KubeWorkloads,
    clusters: Cache<Cluster>,
}

pub fn harbor() -> ObjectKey {
    ObjectKey::new("default", "harbor")
}

impl Site {
    async fn open() -> Self {
        let etcd = TlsCluster::start(&[]);
        let workload = api_server(TOKEN).await;
        let inside = in_process(workload.clone(), "workload", "default", false).client;
        let namespaces: Api<Namespace> = Api::all(inside.clone());
        let system = typed(json!({"metadata": {"name": "kube-system"}}));
        drop(namespaces.create(&PostParams::default(), &system).await);
        let nodes: Api<Node> = Api::all(inside);
        for at in 1..=3 {
            let labels = json!({"node-role.kubernetes.io/control-plane": ""});
            let node = typed(json!({"metadata": {"name": format!("cp-{at}"), "labels": labels}}));
            nodes.create(&PostParams::default(), &node).await.expect("a Node");
        }
        let api = WorkloadApi::serve(workload).await;
        for at in 0..3 {
            api.ports.lock().insert(format!("etcd-cp-{}", at + 1), Some(etcd.port(at)));
        }
        let management = in_process(api_server("admin").await, "management", "default", false);
        let writer = Writer::new(management.client.clone(), "test");
        let workloads =
            KubeWorkloads::new(writer, Clock::system(), Rng::seeded(3), false, JudgedAfter::default());
        let clusters = Cache::new();
        workloads.attach(&clusters, Arc::new(|_| false));
        Self { management, etcd, api, workloads, clusters }
    }

    async fn store(&self, purpose: &str, data: Value) {
        let secrets: Api<Secret> = Api::namespaced(self.management.client.clone(), "default");
        let name = format!("harbor-{purpose}");
        let secret = typed(json!({"metadata": {"name": name}, "stringData": data}));
        drop(secrets.delete(&name, &Default::default()).await);
        secrets.create(&PostParams::default(), &secret).await.expect("a Secret");
    }

    /// Both Secrets, as the control plane provider writes them.
    async fn give_secrets(&self) {
        self.store("kubeconfig", json!({"value": self.api.kubeconfig(TOKEN)})).await;
        self.give_authority(&self.etcd.authority).await;
    }

    async fn give_authority(&self, authority: &crate::etcd_status::server::Authority) {
        let data = json!({"tls.crt": authority.pem(), "tls.key": authority.key().serialize_pem()});
        self.store("etcd", data).await;
    }

    async fn connect(&self) {
        let provisioned = json!({"initialization": {"infrastructureProvisioned": true}});
        let metadata = json!({"name": "harbor", "namespace": "default", "uid": "1", "resourceVersion": "1"});
        self.clusters.upsert(typed(json!({"metadata": metadata, "spec": {}, "status": provisioned})));
        let begun = Instant::now();
        let mut changes = self.workloads.changes();
        while !self.workloads.connection(&harbor()).connected {
            drop(tokio::time::timeout(Duration::from_millis(200), changes.recv()).await);
            assert!(begun.elapsed() < PATIENCE, "no connection to the workload cluster");
        }
    }

    /// The Cluster and its control plane Machines, each with its Node.
    async fn give_objects(&self) {
        let reference = |group: &str, kind: &str| json!({"apiGroup": format!("{group}cluster.x-k8s.io"), "kind": kind, "name": "harbor"});
        let cluster = json!({"metadata": {"name": "harbor"}, "spec": {
            "controlPlaneRef": reference("controlplane.", "KubeadmControlPlane"),
            "infrastructureRef": reference("infrastructure.", "DockerCluster"),
        }});
        let client = || self.management.client.clone();
        let clusters: Api<Cluster> = Api::namespaced(client(), "default");
        clusters.create(&PostParams::default(), &typed(cluster)).await.expect("a Cluster");
        let machines: Api<Machine> = Api::namespaced(client(), "default");
        for at in 1..=3 {
            let labels =
                json!({"cluster.x-k8s.io/cluster-name": "harbor", "cluster.x-k8s.io/control-plane": ""});
            let name = format!("harbor-{at}");
            let machine = json!({"metadata": {"name": name, "labels": labels}, "spec": {
                "clusterName": "harbor", "bootstrap": {"dataSecretName": "given"},
                "infrastructureRef": reference("infrastructure.", "DevMachine"),
            }});
            machines.create(&PostParams::default(), &typed(machine)).await.expect("a Machine");
            let status = json!({"status": {"nodeRef": {"name": format!("cp-{at}")}}});
            let patch = Patch::Merge(&status);
            machines.patch_status(&name, &PatchParams::default(), &patch).await.expect("a Node reference");
        }
    }

    /// As the command and the screen read it.
    async fn report(&self) -> Result<Report, String> {
        let reader = ClusterEtcd { connection: self.management.clone(), clock: Clock::system() };
        reader.look(&harbor()).await.map(|facts| Report::of(&facts, None))
    }

    async fn view(&self) -> Result<EtcdView, WorkloadError> {
        self.workloads.etcd(&harbor()).await
    }

    /// Asks again until it is so.
    async fn until(&self, what: &str, is: impl Fn(&EtcdView) -> bool) -> EtcdView {
        let begun = Instant::now();
        loop {
            let view = self.view().await;
            if let Ok(view) = &view
                && is(view)
            {
                return view.clone();
            }
            assert!(begun.elapsed() < PATIENCE, "{what}: {view:?}");
        }
    }
}

fn names(view: &EtcdView) -> Vec<&str> {
    view.members.iter().map(|member| member.name.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_engine_reaches_real_members_through_the_kubeconfig_alone() {
    if !is_installed() {
        return;
    }
    let mut site = Site::open().await;
    site.give_secrets().await;
    assert_eq!(site.view().await, Err(WorkloadError::NotConnected));
    site.connect().await;
    let view = site.until("three members", |view| view.members.len() == 3).await;
    assert_eq!(names(&view), ["cp-1", "cp-2", "cp-3"]);
    assert!(view.members.iter().all(|member| !member.learner && member.alarms.is_empty()));

    // Whichever Node is asked first: leadership moves through the one that leads.
    for name in ["cp-2", "cp-3"] {
        let to = view.members.iter().find(|member| member.name == name).expect("a member").id;
        site.workloads.move_leader(&harbor(), to).await.expect("moved");
        site.until("the leader is another one", |view| view.leader == Some(to)).await;
    }
    let refused = site.workloads.move_leader(&harbor(), 1).await.expect_err("no such member");
    assert!(matches!(refused, WorkloadError::Refused(_)), "{refused:?}");

    let first = view.members[0].id;
    // etcd takes no member out until all have been connected for 5 s.
    let begun = Instant::now();
    while let Err(error) = site.workloads.remove_member(&harbor(), first).await {
        assert!(error.to_string().contains("unhealthy") && begun.elapsed() < PATIENCE, "{error}");
    }
    site.workloads.remove_member(&harbor(), first).await.expect("gone is fine");
    let left = site.until("two members", |view| view.members.len() == 2).await;
    assert_eq!(names(&left), ["cp-2", "cp-3"]);
    assert!(site.api.opened.load(Ordering::Relaxed) > 0, "port-forwards were used");

    // One of two is not a quorum: the engine gets a reason, and no worker hangs.
    site.etcd.kill(2);
    let begun = Instant::now();
    let error = loop {
        match site.view().await {
            Err(error) => break error,
            Ok(_) => assert!(begun.elapsed() < PATIENCE, "the dead member is not noticed"),
        }
    };
    assert!(matches!(error, WorkloadError::NoEtcdLeader | WorkloadError::EtcdAlarms(_)), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_on_the_way_to_etcd_is_a_reason() {
    if !is_installed() {
        return;
    }
    let site = Site::open().await;
    site.store("kubeconfig", json!({"value": site.api.kubeconfig(TOKEN)})).await;
    site.connect().await;
    let reason = async || site.view().await.expect_err("no answer").to_string();
    assert!(reason().await.contains("Secret default/harbor-etcd does not exist"), "{}", reason().await);

    site.store("etcd", json!({"tls.crt": "x", "tls.key": "y"})).await;
    let words = reason().await;
    assert!(words.contains("the key of the etcd authority cannot be used"), "{words}");

    // Another authority's certificate: each side refuses the other.
    site.give_authority(&authority()).await;
    let words = reason().await;
    assert!(words.contains("its certificate is not trusted"), "{words}");

    // The way leads to another Node's member: its certificate is for another name.
    site.give_secrets().await;
    let to_first = Some(site.etcd.port(0));
    for node in ["cp-1", "cp-2", "cp-3"] {
        let port = if node == "cp-1" { None } else { to_first };
        site.api.ports.lock().insert(format!("etcd-{node}"), port);
    }
    let words = reason().await;
    assert!(words.contains("cp-1: port-forward failed") && words.contains("connection refused"), "{words}");
    assert!(words.contains("cp-2: its certificate is for another name"), "{words}");

    // The pods do not exist.
    site.api.ports.lock().clear();
    let words = reason().await;
    assert!(words.contains("cp-3: port-forward failed"), "{words}");
}

/// Something that shows kubeadm's certificate, which ends with 2031, to whoever connects; where it listens.
async fn api_server_pod() -> (u16, AbortOnDropHandle<()>) {
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name.push(rcgen::DnType::CommonName, "kube-apiserver");
    params.not_after = rcgen::date_time_ymd(2032, 1, 1);
    let key = rcgen::KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&key).expect("a certificate").der().clone();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate],
            rustls::pki_types::PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
        );
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config.expect("a server")));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            drop(acceptor.accept(stream).await);
        }
    });
    (port, AbortOnDropHandle::new(task))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_an_api_servers_certificate_is_read_through_its_pod() {
    if !is_installed() {
        return;
    }
    let site = Site::open().await;
    site.give_secrets().await;
    site.connect().await;
    let (port, _pod) = api_server_pod().await;
    site.api.ports.lock().insert("kube-apiserver-cp-1".to_owned(), Some(port));
    site.api.ports.lock().insert("kube-apiserver-cp-2".to_owned(), None);
    let expiry = async |node: &str| site.workloads.api_server_expiry(&harbor(), node, 6443).await;
    assert_eq!(expiry("cp-1").await.map(capstan_base::time::rfc3339), Ok("2032-01-01T00:00:00Z".to_owned()));
    for node in ["cp-2", "cp-3"] {
        let error = expiry(node).await.expect_err("nothing listens there");
        assert!(matches!(error, WorkloadError::Unreachable(_)), "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_and_machines_of_a_real_cluster_are_shown_together() {
    if !is_installed() {
        return;
    }
    let mut site = Site::open().await;
    site.give_secrets().await;
    site.give_objects().await;
    let begun = Instant::now();
    let report = loop {
        let report = site.report().await.expect("a look");
        if report.findings.is_empty() {
            break report;
        }
        assert!(begun.elapsed() < PATIENCE, "{report:#?}");
    };
    assert_eq!(report.summary, "3 voters, healthy 3, can lose 1 more");
    for (at, name) in (1..=3).map(|at| (at, format!("cp-{at}"))) {
        let row = report.members.iter().find(|row| row.name == name).expect("a member");
        assert_eq!(row.machine, Some(format!("harbor-{at}")));
        assert!(row.database.is_some() && row.list_agrees == Some(true), "{row:?}");
    }
    site.etcd.kill(2);
    let begun = Instant::now();
    loop {
        let report = site.report().await.expect("a look");
        let third = report.members.iter().find(|row| row.name == "cp-3").expect("a member");
        // While the member dies its port still takes connections.
        if third.trouble.as_ref().is_some_and(|failed| failed.class == Class::ForwardFailed) {
            assert_eq!((report.state, report.can_lose), (EtcdState::Degraded, Some(0)), "{report:#?}");
            assert_eq!(report.without("cp-1").map(|left| left.is_safe), Some(false));
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{report:#?}");
    }
}
