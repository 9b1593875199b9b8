//! A workload cluster for `capstan change`: our own API server for what it serves, and beside it what only kubelets and kubeadm
//! would bring about: mirror pods, add-ons, `configz`, hosts that obey commands.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use capstan_apiserver::{ApiServer, Options, Tokens};
use capstan_base::command_line::CommandLine;
use capstan_base::rng::Rng;
use capstan_base::time::{Clock, parse_rfc3339};
use capstan_engine::client::{Connection, in_process};
use capstan_engine::reconfigure::executor::{CommandTarget, ExecutorError, NodeExecutor};
use capstan_store::MemoryStore;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use kube::client::Body;
use kubeadm_change::document::{DocumentKind, read_inputs};
use kubeadm_change::render::{ClusterSettings, HostFacts, StaticPod, node};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::ServiceExt as _;

type Answer = Response<UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>>;

pub const CLUSTER: &str = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: v1.36.1\nclusterName: prod\ncontrolPlaneEndpoint: cp.example:6443\nnetworking:\n  podSubnet: 10.244.0.0/16\n  serviceSubnet: 10.96.0.0/12\n  dnsDomain: cluster.local\n";
const KUBELET: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nclusterDNS:\n- 10.96.0.10\nclusterDomain: cluster.local\nmaxPods: 110\n";
const PROXY: &str = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nclusterCIDR: 10.244.0.0/16\nmode: iptables\n";

/// What stands beside the API server.
#[derive(Default)]
pub struct Beside {
    pub hosts: Vec<HostFacts>,
    pub pods: BTreeMap<String, Value>,
    pub add_ons: BTreeMap<&'static str, Value>,
    pub kubelets: BTreeMap<String, Value>,
    /// Files of hosts, by node and path, with their sums.
    pub sums: BTreeMap<(String, String), String>,
    /// `METHOD path` of every request.
    pub requests: Vec<String>,
    /// Requests whose `METHOD path` begins like this are answered with that status.
    pub refused: Vec<(String, u16)>,
    /// Rights that an access review denies, as `verb resource`.
    pub denied: BTreeSet<String>,
    /// Lines that were run, as `node line`.
    pub lines: Vec<String>,
    /// Lines that have ended.
    pub ended: Vec<String>,
    /// The first line that begins like this on that node fails, once.
    pub fault: Option<(String, &'static str)>,
    /// What a node answers before a change, where it lacks something.
    pub answers: BTreeMap<String, Result<String, String>>,
    /// Nodes whose kubelet does not answer.
    pub dead_kubelets: BTreeSet<String>,
    /// The line that starts such a kubelet again.
    pub revived_by: Option<&'static str>,
    /// After a line that begins like the first, requests like the second are answered with a status, so often.
    pub troubled: Option<(&'static str, &'static str, u16, u32)>,
    /// After a line that begins like this no request is answered any more.
    pub silent_after: Option<&'static str>,
    /// How often a kubelet has renewed its Lease.
    pub heartbeats: u32,
}

/// The cluster. Clones share it.
#[derive(Clone)]
pub struct Site {
    pub connection: Connection,
    pub beside: Arc<Mutex<Beside>>,
}

pub fn map(name: &str, key: &str, text: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "kube-system"}, "data": {key: text}})
}

impl Site {
    pub async fn open(control_planes: usize, workers: usize) -> Self {
        let now = parse_rfc3339("2026-11-26T10:00:00Z").expect("a moment");
        let options = Options {
            clock: Clock::fixed(now),
            rng: Rng::seeded(7),
            definitions: Vec::new(),
            admission: Arc::new(capi_rules::admission::Webhooks),
            tokens: Tokens { admin: "a".to_owned(), read_only: "r".to_owned() },
        };
        let server = ApiServer::open(Arc::new(MemoryStore::new()), options).await.expect("a server");
        let beside = Arc::new(Mutex::new(Beside::default()));
        let shared = Arc::clone(&beside);
        let service = tower::service_fn(move |request| answer(server.clone(), Arc::clone(&shared), request));
        let site = Self { connection: in_process(service, "workload", "default", false), beside };
        for (name, key, text) in [
            ("kubeadm-config", "ClusterConfiguration", CLUSTER),
            ("kubelet-config", "kubelet", KUBELET),
            ("kube-proxy", "config.conf", PROXY),
        ] {
            site.send(Method::POST, "/api/v1/namespaces/kube-system/configmaps", &map(name, key, text)).await;
        }
        site.fill(control_planes, workers).await;
        site.beside.lock().requests.clear();
        site
    }

    async fn fill(&self, control_planes: usize, workers: usize) {
        let conditions = json!([{"type": "Ready", "status": "True"}]);
        let nodes =
            (0..control_planes).map(|n| format!("cp-{n}")).chain((0..workers).map(|n| format!("w-{n:03}")));
        for (at, name) in nodes.enumerate() {
            let address = format!("10.0.{}.{}", at / 250, at % 250 + 1);
            let status =
                json!({"conditions": conditions, "addresses": [{"type": "InternalIP", "address": address}]});
            let node =
                json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status});
            self.send(Method::POST, "/api/v1/nodes", &node).await;
            let kubelet = json!({"maxPods": 110, "clusterDNS": ["10.96.0.10"], "clusterDomain": "cluster.local", "syncFrequency": "1m0s"});
            let mut beside = self.beside.lock();
            beside.kubelets.insert(name.clone(), kubelet);
            if at < control_planes {
                beside.hosts.push(HostFacts::new(&name, &address));
            }
        }
        let image =
            |name: &str, image: &str| json!({"spec": {"containers": [{"name": name, "image": image}]}});
        let status = json!({"observedGeneration": 1, "desiredNumberScheduled": 3, "updatedNumberScheduled": 3, "numberAvailable": 3, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2});
        let add_on = |kind: &str, template: Value| json!({"kind": kind, "metadata": {"name": if kind == "DaemonSet" { "kube-proxy" } else { "coredns" }, "generation": 1}, "spec": {"replicas": 2, "template": template}, "status": status});
        let mut beside = self.beside.lock();
        beside.add_ons.insert(
            "daemonsets/kube-proxy",
            add_on("DaemonSet", image("kube-proxy", "registry.k8s.io/kube-proxy:v1.36.1")),
        );
        beside.add_ons.insert(
            "deployments/coredns",
            add_on("Deployment", image("coredns", "registry.k8s.io/coredns/coredns:v1.14.2")),
        );
        let names: Vec<String> = beside.hosts.iter().map(|host| host.name.clone()).collect();
        for name in names {
            beside.render(&name, CLUSTER);
        }
    }

    pub async fn send(&self, method: Method, path: &str, body: &Value) -> Value {
        let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let request = Request::builder().method(method).uri(path).header("content-type", kind);
        let request = request.body(body.to_string().into_bytes()).expect("a request");
        self.connection.client.request(request).await.expect("an answer")
    }

    pub async fn get(&self, path: &str) -> Value {
        let request = Request::get(path).body(Vec::new()).expect("a request");
        self.connection.client.request(request).await.expect("an answer")
    }

    /// The text of a document as it is stored.
    pub async fn stored(&self, map: &str, key: &str) -> String {
        let found = self.get(&format!("/api/v1/namespaces/kube-system/configmaps/{map}")).await;
        found["data"][key].as_str().expect("a text").to_owned()
    }

    /// The lines that were run, without uploads and what only keeps files.
    pub fn lines(&self) -> Vec<String> {
        self.beside.lock().lines.clone()
    }
}

impl Beside {
    /// What kubeadm and the kubelet make of a configuration on one host.
    fn render(&mut self, name: &str, text: &str) {
        let inputs = read_inputs(&[("stored".to_owned(), text.to_owned())]).expect("documents");
        let value = &inputs.document(DocumentKind::Cluster).expect("there").value;
        let settings = ClusterSettings::new(value, None).expect("a version");
        let host = self.hosts.iter().find(|host| host.name == name).expect("a host").clone();
        for (component, pod) in &node(&settings, &host).expect("an address").static_pods {
            self.pods.insert(format!("{component}-{name}"), mirror(&host, component, pod));
        }
    }
}

pub fn mirror(host: &HostFacts, component: &str, pod: &StaticPod) -> Value {
    let volumes: Vec<Value> = pod
        .volumes
        .iter()
        .map(|v| json!({"name": v.name, "hostPath": {"path": v.host_path, "type": v.type_}}))
        .collect();
    json!({
        "metadata": {
            "namespace": "kube-system", "name": format!("{component}-{}", host.name),
            "labels": {"component": component, "tier": "control-plane"},
            "annotations": {
                "kubernetes.io/config.mirror": "x",
                "kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint": format!("{}:6443", host.address),
            },
        },
        "spec": {"nodeName": host.name, "volumes": volumes, "containers": [{
            "command": pod.command, "image": pod.image, "env": pod.env, "volumeMounts": pod.volume_mounts,
        }]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn answered(status: u16, body: &Value) -> Answer {
    let body = Full::new(Bytes::from(body.to_string())).map_err(|never: Infallible| match never {});
    let response = Response::builder().status(StatusCode::from_u16(status).expect("a status"));
    response.header("content-type", "application/json").body(body.boxed_unsync()).expect("an answer")
}

fn failure(status: u16, reason: &str) -> Answer {
    let words = "refused by the test";
    answered(
        status,
        &json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status, "reason": reason, "message": words}),
    )
}

async fn answer(
    server: ApiServer,
    beside: Arc<Mutex<Beside>>,
    request: Request<Body>,
) -> Result<Answer, Infallible> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(|all| all.to_bytes()).unwrap_or_default();
    let (method, path) = (parts.method.clone(), parts.uri.path().to_owned());
    if beside.lock().is_silent() {
        return std::future::pending().await;
    }
    if let Some(answer) = beside.lock().answer(&method, &path, parts.uri.query().unwrap_or_default(), &body) {
        return Ok(answer);
    }
    let response = server.oneshot(Request::from_parts(parts, Body::from(body.to_vec()))).await;
    let response = response.expect("the server answers");
    Ok(response.map(|body| body.map_err(|e| format!("{e:?}").into()).boxed_unsync()))
}

impl Beside {
    fn is_silent(&self) -> bool {
        self.silent_after.is_some_and(|after| self.ended.iter().any(|line| line.starts_with(after)))
    }

    /// An API server that has just come back: not ready, and wrong answers for a while.
    fn trouble(&mut self, line: &str, path: &str) -> Option<Answer> {
        let (after, begin, status, left) = self.troubled?;
        if !self.ended.iter().any(|line| line.starts_with(after)) {
            return None;
        }
        if path == "/readyz" {
            return Some(failure(500, "InternalError"));
        }
        if !line.starts_with(begin) {
            return None;
        }
        self.troubled = (left > 1).then_some((after, begin, status, left - 1));
        Some(failure(status, if status == 403 { "Forbidden" } else { "ServiceUnavailable" }))
    }

    fn answer(&mut self, method: &Method, path: &str, query: &str, body: &[u8]) -> Option<Answer> {
        let line = format!("{method} {path}");
        self.requests.push(line.clone());
        let is_dry = query.contains("dryRun");
        if let Some((_, status)) = self.refused.iter().find(|(begin, _)| line.starts_with(begin) && !is_dry) {
            let reason = if *status == 409 { "Conflict" } else { "Forbidden" };
            return Some(failure(*status, reason));
        }
        if let Some(answer) = self.trouble(&line, path) {
            return Some(answer);
        }
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        if path.ends_with("/selfsubjectaccessreviews") {
            let asked = &body["spec"]["resourceAttributes"];
            let text = |field: &str| asked[field].as_str().unwrap_or_default().to_owned();
            let allowed = !self.denied.contains(&format!("{} {}", text("verb"), text("resource")));
            return Some(answered(
                201,
                &json!({"metadata": {}, "spec": body["spec"], "status": {"allowed": allowed}}),
            ));
        }
        if let Some(name) =
            path.strip_prefix("/api/v1/nodes/").and_then(|rest| rest.strip_suffix("/proxy/configz"))
        {
            if self.dead_kubelets.contains(name) {
                return Some(failure(503, "ServiceUnavailable"));
            }
            return Some(answered(200, &json!({"kubeletconfig": self.kubelets.get(name)?})));
        }
        if let Some(name) =
            path.strip_prefix("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/")
        {
            // A kubelet renews its Lease between any two looks.
            self.heartbeats += 1;
            let renewed = format!("2026-11-26T10:00:00.{:06}Z", self.heartbeats);
            return Some(answered(200, &json!({"metadata": {"name": name}, "spec": {"renewTime": renewed}})));
        }
        if path == "/api/v1/namespaces/kube-system/pods" {
            let pods: Vec<&Value> = self.pods.values().collect();
            return Some(answered(200, &json!({"kind": "PodList", "metadata": {}, "items": pods})));
        }
        if path.contains("/pods/") {
            return Some(failure(404, "NotFound"));
        }
        let name = path.strip_prefix("/apis/apps/v1/namespaces/kube-system/")?.to_owned();
        let object = self.add_ons.iter_mut().find(|(key, _)| **key == name).map(|(_, object)| object)?;
        if method == Method::PATCH {
            json_patch::merge(object, &body);
            object["metadata"]["resourceVersion"] = Value::Null;
        }
        Some(answered(200, object))
    }
}

/// Hosts that obey the lines of a plan.
#[async_trait]
impl NodeExecutor for Site {
    async fn run(
        &self,
        target: &CommandTarget,
        line: &CommandLine,
        _: &str,
    ) -> Result<String, ExecutorError> {
        let line = line.as_str();
        let node = target.node.as_str();
        let fails = {
            let mut beside = self.beside.lock();
            let is_fault = |(on, begin): &(String, &str)| on == node && line.starts_with(begin);
            let fails = beside.fault.as_ref().is_some_and(is_fault);
            if fails {
                beside.fault = None;
            } else {
                beside.lines.push(format!("{node} {line}"));
            }
            fails
        };
        if fails {
            return Err(ExecutorError::Failed {
                node: node.to_owned(),
                line: line.to_owned(),
                status: "exit status: 255".to_owned(),
                output: "connection closed".to_owned(),
            });
        }
        if self.beside.lock().revived_by.is_some_and(|begin| line.starts_with(begin)) {
            self.beside.lock().dead_kubelets.remove(node);
        }
        if line.starts_with("kubeadm upgrade node phase control-plane") {
            let text = self.stored("kubeadm-config", "ClusterConfiguration").await;
            self.beside.lock().render(node, &text);
        }
        if line == "systemctl restart kubelet" {
            let text = self.stored("kubelet-config", "kubelet").await;
            let inputs = read_inputs(&[("stored".to_owned(), text)]).expect("documents");
            let value = inputs.document(DocumentKind::Kubelet).expect("there").value.clone();
            json_patch::merge(self.beside.lock().kubelets.get_mut(node).expect("a kubelet"), &value);
        }
        self.beside.lock().ended.push(line.to_owned());
        if let Some(path) = line.strip_prefix("sha256sum -- ") {
            let sum = self.beside.lock().sums.get(&(node.to_owned(), path.to_owned())).cloned();
            return Ok(format!("{}  {path}\n", sum.unwrap_or_else(|| "e3b0".to_owned())));
        }
        Ok(String::new())
    }

    async fn look(&self, target: &CommandTarget, line: &CommandLine) -> Result<String, ExecutorError> {
        let answer =
            self.beside.lock().answers.get(&target.node).cloned().unwrap_or_else(|| Ok(String::new()));
        answer.map_err(|output| ExecutorError::Failed {
            node: target.node.clone(),
            line: line.to_string(),
            status: "exit status: 255".to_owned(),
            output,
        })
    }
}
