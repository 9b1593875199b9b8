//! The served API of a simulated cluster, with the kubeconfig that its Secret holds: what clients see, and what becomes
//! of what they change.

use std::sync::Arc;
use std::time::Duration;

use capi_types::dev::SERVED_ANNOTATION;
use capi_types::key::ObjectKey;
use capstan_apiserver::serve::tls::Authority;
use capstan_base::rng::Rng;
use capstan_base::time::Clock;
use capstan_engine::client::write::{Part, WriteError};
use capstan_engine::client::{
    Client, ConnectOptions, Impersonated, Mode, Object, Precondition, Writer, connect, get,
};
use capstan_engine::workload::static_pods::{page, secure_page, served_names};
use capstan_engine::workload::{Workload as _, WorkloadError, connect_to};
use capstan_store::MemoryStore;
use capstan_worlds::provider::faults::Fault;
use capstan_worlds::standalone::stack::{Stack, StackOptions};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::authorization::v1::{ResourceRule, SelfSubjectRulesReview};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::simulation::{manifest, target_of};

fn harbor() -> ObjectKey {
    ObjectKey::new("default", "harbor")
}

/// The objects of a cluster whose API is served.
pub fn served(control_plane: u32, workers: u32) -> Vec<Value> {
    let mut objects = manifest(control_plane, workers);
    for object in objects.iter_mut().filter(|object| object["kind"] == "DevCluster") {
        object["metadata"]["annotations"] = json!({ SERVED_ANNOTATION: "" });
    }
    objects
}

pub struct Harbor {
    stack: Stack,
    pub client: Client,
    writer: Writer,
}

impl Harbor {
    /// A cluster that is up, and a client from its kubeconfig.
    pub async fn start() -> Self {
        let options =
            StackOptions { time_scale: 1000.0, ..StackOptions::new(Clock::system(), Rng::seeded(1)) };
        let stack = Stack::start(Arc::new(MemoryStore::new()), options).await.expect("a server");
        let management = stack.connection("test", false).client;
        let writer = Writer::new(management.clone(), "test");
        for object in served(1, 1) {
            writer.create_value(&target_of(&object), &object, Mode::Real).await.expect("created");
        }
        until("the kubeconfig", async || {
            let key = ObjectKey::new("default", "harbor-kubeconfig");
            get::<Secret>(&management, &key).await.expect("an answer").is_some()
        })
        .await;
        let client = connect_to(&management, &harbor(), false).await.expect("a client");
        until("an API that answers", async || client.apiserver_version().await.is_ok()).await;
        let writer = Writer::new(client.clone(), "kubectl");
        Self { stack, client, writer }
    }

    async fn get<K: Object>(&self, namespace: &str, name: &str) -> Option<K> {
        get(&self.client, &ObjectKey::new(namespace, name)).await.expect("an answer")
    }

    async fn list<K: Object>(&self) -> Vec<K> {
        kube::Api::<K>::all(self.client.clone())
            .list(&kube::api::ListParams::default())
            .await
            .expect("a list")
            .items
    }

    /// Waits for a worker's Node, and for one of the control plane.
    pub async fn nodes(&self) -> (String, String) {
        until("both Nodes", async || self.list::<Node>().await.len() == 2).await;
        let nodes = self.list::<Node>().await;
        let is_control_plane = |node: &&Node| {
            node.metadata.labels.iter().flatten().any(|(label, _)| label.ends_with("control-plane"))
        };
        let name = |node: Option<&Node>| node.and_then(|n| n.metadata.name.clone()).expect("a Node");
        (name(nodes.iter().find(|n| !is_control_plane(n))), name(nodes.iter().find(is_control_plane)))
    }

    /// What its Secret holds.
    pub async fn kubeconfig(&self) -> Vec<u8> {
        let management = self.stack.connection("test", false).client;
        let key = ObjectKey::new("default", "harbor-kubeconfig");
        let secret = get::<Secret>(&management, &key).await.expect("an answer").expect("the Secret");
        secret.data.expect("data")["value"].0.clone()
    }

    /// The cluster's own, from its Secret.
    pub async fn authority(&self) -> Authority {
        let management = self.stack.connection("test", false).client;
        let key = ObjectKey::new("default", "harbor-ca");
        let secret = get::<Secret>(&management, &key).await.expect("an answer").expect("the Secret");
        let mut data = secret.data.expect("data");
        let mut pem = |name: &str| String::from_utf8(data.remove(name).expect(name).0).expect("PEM");
        Authority::of(pem("tls.crt"), pem("tls.key"), Clock::system().now())
    }

    /// As a user whose rights are only those that Roles give.
    async fn acting_as(&self, user: &str) -> Client {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), self.kubeconfig().await).expect("written");
        let options = ConnectOptions {
            kubeconfig: Some(file.path().to_owned()),
            impersonated: Impersonated { user: Some(user.to_owned()), groups: Vec::new() },
            ..ConnectOptions::default()
        };
        connect(&options).await.expect("a client").client
    }

    async fn patch<K: Object>(&self, namespace: &str, name: &str, patch: Value) {
        let key = ObjectKey::new(namespace, name);
        self.writer.patch_part::<K>(&key, Part::Main, &patch, Mode::Real).await.expect("patched");
    }
}

/// Asks again until it is so; a minute is far more than it takes.
pub async fn until(what: &str, done: impl AsyncFn() -> bool) {
    let asked = async {
        while !done().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(60), asked).await.is_ok(), "{what} did not come");
}

#[tokio::test]
async fn nodes_pods_and_add_ons_of_the_simulation_are_shown_and_clients_may_change_them() {
    let harbor_api = Harbor::start().await;
    let world = harbor_api.stack.world().expect("a world").clone();
    let (worker, control_plane) = harbor_api.nodes().await;

    let api_server = format!("kube-apiserver-{control_plane}");
    until("the static pod", async || harbor_api.get::<Pod>("kube-system", &api_server).await.is_some()).await;
    assert!(harbor_api.get::<ConfigMap>("kube-system", "kubeadm-config").await.is_some());

    // A cordon reaches the simulation, and what the simulation does reaches the API.
    harbor_api.patch::<Node>("", &worker, json!({"spec": {"unschedulable": true}})).await;
    until("the cordon", async || {
        let node = world.node(&harbor(), &worker).await.ok().flatten();
        node.and_then(|node| node.spec.clone()).and_then(|spec| spec.unschedulable) == Some(true)
    })
    .await;
    let patch = json!({"metadata": {"labels": {"tier": "web"}}, "spec": {"unschedulable": null}});
    world.patch_node(&harbor(), &worker, &patch).await.expect("patched");
    until("the label", async || {
        let node = harbor_api.get::<Node>("", &worker).await.expect("the Node");
        let labelled = node.metadata.labels.iter().flatten().any(|(label, _)| label == "tier");
        labelled && node.spec.is_some_and(|spec| spec.unschedulable.is_none())
    })
    .await;

    // A fault of the simulation shows.
    world.set_fault(&harbor(), Fault::NodeNotReady(worker.clone()), true);
    until("Ready False", async || {
        let status = harbor_api.get::<Node>("", &worker).await.and_then(|node| node.status);
        status
            .is_some_and(|s| s.conditions.iter().flatten().any(|c| c.type_ == "Ready" && c.status == "False"))
    })
    .await;

    // Images of add-ons, from both sides.
    // With the tag of the control plane's version: its controller would set any other back.
    const IMAGE: &str = "mirror.test/kube-proxy:v1.34.1";
    let image =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "kube-proxy", "image": IMAGE}]}}}});
    harbor_api.patch::<DaemonSet>("kube-system", "kube-proxy", image).await;
    until("the rollout", async || {
        let set = harbor_api.get::<DaemonSet>("kube-system", "kube-proxy").await.expect("the DaemonSet");
        let status = set.status.unwrap_or_default();
        status.observed_generation == set.metadata.generation && status.updated_number_scheduled == Some(2)
    })
    .await;
    let addon = capstan_engine::workload::Addon::KubeProxy;
    assert_eq!(world.addon_image(&harbor(), addon).await.expect("an answer").as_deref(), Some(IMAGE));
}

#[tokio::test]
async fn clients_keep_objects_of_their_own_and_delete_nodes() {
    let api = Harbor::start().await;
    let (worker, _) = api.nodes().await;
    let lease: Lease =
        serde_json::from_value(json!({"metadata": {"name": "mine", "namespace": "kube-system"},
        "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15}}))
        .expect("a Lease");
    api.writer.create(&lease, Mode::Real).await.expect("created");
    api.writer
        .delete::<Node>(&ObjectKey::new("", &worker), &Precondition::default(), Mode::Real)
        .await
        .expect("deleted");
    let world = api.stack.world().expect("a world");
    until("the Node gone", async || world.node(&harbor(), &worker).await.is_ok_and(|node| node.is_none()))
        .await;
    let lease = api.get::<Lease>("kube-system", "mine").await.and_then(|lease| lease.spec);
    assert_eq!(lease.and_then(|spec| spec.holder_identity).as_deref(), Some("me"), "it is the client's");
}

/// The endpoint and the connection for simulated processes go with the cluster's API servers.
#[tokio::test]
async fn an_api_that_is_down_answers_nobody() {
    let api = Harbor::start().await;
    let open = api.stack.workload_apis().expect("served").open();
    let inside = open.borrow().get(&harbor()).expect("an entrance").administrator().client;
    assert!(inside.apiserver_version().await.is_ok());
    let world = api.stack.world().expect("a world");
    world.set_fault(&harbor(), Fault::Unreachable, true);
    until("no answer", async || {
        api.client.apiserver_version().await.is_err() && inside.apiserver_version().await.is_err()
    })
    .await;
    world.set_fault(&harbor(), Fault::Unreachable, false);
    until("answers again", async || {
        api.client.apiserver_version().await.is_ok() && inside.apiserver_version().await.is_ok()
    })
    .await;
}

/// As `change status` looks at certificates and at etcd's leader.
#[tokio::test]
async fn ports_of_static_pods_are_forwarded() {
    let api = Harbor::start().await;
    let (_, node) = api.nodes().await;
    let etcd = format!("etcd-{node}");
    until("the host", async || {
        let pod = api.get::<Pod>("kube-system", &etcd).await.and_then(|pod| pod.spec);
        pod.is_some_and(|spec| spec.containers[0].command.is_some())
    })
    .await;
    for (pod, port, name) in [
        (format!("kube-apiserver-{node}"), 6443, "kubernetes.default.svc"),
        (etcd.clone(), 2379, node.as_str()),
        (etcd.clone(), 10250, &node),
    ] {
        let names = served_names(api.client.clone(), &pod, port).await.expect("a certificate");
        assert!(names.contains(name), "{pod} {port}: {names:?}");
    }
    let metrics = page(api.client.clone(), &etcd, 2381, "/metrics").await.expect("a page");
    assert!(metrics.contains("etcd_server_is_leader 1"), "{metrics}");
    for path in ["/livez", "/readyz"] {
        let server = format!("kube-apiserver-{node}");
        let body = secure_page(api.client.clone(), &server, 6443, path).await.expect("a page");
        assert_eq!(body, "ok", "{path}");
    }
    let error = secure_page(api.client.clone(), &etcd, 2379, "/readyz").await.expect_err("etcd has no pages");
    assert!(error.to_string().contains("404"), "{error}");
    let error = served_names(api.client.clone(), &etcd, 1).await.expect_err("nothing listens");
    assert!(error.to_string().contains("connection refused"), "{error}");
    let error = served_names(api.client.clone(), "etcd-nowhere", 2379).await.expect_err("no pod");
    assert!(matches!(error, WorkloadError::Refused(_)), "{error}");
}

/// A port-forward by WebSocket is a GET, and acts: who may only read pods may not.
#[tokio::test]
async fn ports_are_forwarded_to_users_whose_roles_say_so() {
    const WATCHER: &str = "watcher";
    let api = Harbor::start().await;
    let (_, node) = api.nodes().await;
    let pod = format!("kube-apiserver-{node}");
    until("the static pod", async || api.get::<Pod>("kube-system", &pod).await.is_some()).await;
    let watcher = api.acting_as(WATCHER).await;
    let meta = json!({"name": WATCHER, "namespace": "kube-system"});
    let binding = json!({"metadata": meta, "subjects": [{"kind": "User", "name": WATCHER}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": WATCHER}});
    let binding: RoleBinding = serde_json::from_value(binding).expect("a RoleBinding");
    let rule = json!({"apiGroups": [""], "resources": ["pods", "pods/portforward"], "verbs": ["get"]});
    let role: Role = serde_json::from_value(json!({"metadata": meta, "rules": [rule]})).expect("a Role");

    let is_refused =
        async || matches!(served_names(watcher.clone(), &pod, 6443).await, Err(WorkloadError::Refused(_)));
    assert!(is_refused().await, "without a role");
    api.writer.create(&binding, Mode::Real).await.expect("created");
    assert!(is_refused().await, "the role is not there");
    api.writer.create(&role, Mode::Real).await.expect("created");
    assert!(is_refused().await, "the role is to read");
    api.patch::<Role>(
        "kube-system",
        WATCHER,
        json!({"rules": [
            {"apiGroups": [""], "resources": ["pods/portforward"], "verbs": ["get", "create"]}
        ]}),
    )
    .await;
    let names = served_names(watcher.clone(), &pod, 6443).await.expect("a certificate");
    assert!(names.contains("kubernetes.default.svc"), "{names:?}");
}

/// Who may write Roles hands on what he holds, as upstream; the administrator anything.
#[tokio::test]
async fn nobody_gives_himself_a_right_that_he_does_not_hold() {
    const KEEPER: &str = "keeper";
    let api = Harbor::start().await;
    let meta = |name: &str| json!({"name": name, "namespace": "kube-system"});
    let role = |name: &str, rules: Value| -> Role {
        serde_json::from_value(json!({"metadata": meta(name), "rules": rules})).expect("a Role")
    };
    let binding = |name: &str| -> RoleBinding {
        let subject = json!({"kind": "User", "name": KEEPER, "apiGroup": "rbac.authorization.k8s.io"});
        let role_ref = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name});
        let binding = json!({"metadata": meta(name), "subjects": [subject], "roleRef": role_ref});
        serde_json::from_value(binding).expect("a RoleBinding")
    };
    let all = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    // A `*` would have `escalate` and `bind` in it.
    let keeps = json!([
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"],
         "verbs": ["create", "get", "list", "patch", "update", "delete"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    api.writer.create(&role(KEEPER, keeps), Mode::Real).await.expect("created");
    api.writer.create(&binding(KEEPER), Mode::Real).await.expect("created");
    api.writer.create(&role("all", all.clone()), Mode::Real).await.expect("created");
    let keeper = Writer::new(api.acting_as(KEEPER).await, KEEPER);
    let refused = |error: WriteError| error.to_string();
    let said = keeper.create(&role("mine", all), Mode::Real).await.map_err(refused).expect_err("refused");
    let why = "attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}";
    assert!(said.contains(why), "{said}");
    let said = keeper.create(&binding("all"), Mode::Real).await.map_err(refused).expect_err("refused");
    assert!(said.contains(why), "{said}");
    let said = keeper.create(&binding("later"), Mode::Real).await.map_err(refused).expect_err("no such role");
    assert!(said.contains("roles.rbac.authorization.k8s.io \"later\" not found"), "{said}");
    let pods = role("mine", json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]));
    keeper.create(&pods, Mode::Real).await.expect("what he holds");
    keeper.create(&binding("mine"), Mode::Real).await.expect("what he holds");
    let more = json!({"rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]});
    let key = ObjectKey::new("kube-system", "mine");
    let patched = keeper.patch_part::<Role>(&key, Part::Main, &more, Mode::Real).await;
    let said = patched.map_err(refused).expect_err("refused");
    assert!(said.contains("Resources:[\"secrets\"]"), "{said}");
    // What `kubectl auth can-i --list` shows has the bound rules in it, once for each binding.
    let rules = rules_of(api.acting_as(KEEPER).await, "kube-system").await;
    assert_eq!(
        rules.iter().filter(|rule| rule.resources.as_deref() == Some(&["pods".to_owned()])).count(),
        2
    );
    let elsewhere = rules_of(api.acting_as(KEEPER).await, "default").await;
    assert!(elsewhere.iter().all(|rule| rule.verbs == ["create"]), "{elsewhere:?}");
}

async fn rules_of(client: Client, namespace: &str) -> Vec<ResourceRule> {
    let mut review = SelfSubjectRulesReview::default();
    review.spec.namespace = Some(namespace.to_owned());
    let api = Api::<SelfSubjectRulesReview>::all(client);
    let answer = api.create(&PostParams::default(), &review).await.expect("an answer");
    answer.status.expect("a status").resource_rules
}

/// Source: apiserver 0.36.3 `endpoints/handlers/{patch,update}.go` (`withAuthorization`).
#[tokio::test]
async fn who_may_only_change_what_is_there_creates_nothing_by_it() {
    const CHANGER: &str = "changer";
    let api = Harbor::start().await;
    let meta = json!({"name": CHANGER, "namespace": "kube-system"});
    let rules = json!([{"apiGroups": ["", "coordination.k8s.io"], "resources": ["configmaps", "leases"],
        "verbs": ["get", "update", "patch"]}]);
    let binding = json!({"metadata": meta, "subjects": [{"kind": "User", "name": CHANGER}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": CHANGER}});
    let role: Role = serde_json::from_value(json!({"metadata": meta, "rules": rules})).expect("a Role");
    let binding: RoleBinding = serde_json::from_value(binding).expect("a RoleBinding");
    api.writer.create(&role, Mode::Real).await.expect("created");
    api.writer.create(&binding, Mode::Real).await.expect("created");
    let changer = api.acting_as(CHANGER).await;
    let maps: Api<ConfigMap> = Api::namespaced(changer.clone(), "kube-system");
    let leases: Api<Lease> = Api::namespaced(changer, "kube-system");
    let map = |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}, "data": {"a": value}});
    let lease =
        json!({"metadata": {"name": "new", "namespace": "kube-system"}, "spec": {"holderIdentity": "x"}});
    let lease: Lease = serde_json::from_value(lease).expect("a Lease");
    let by_apply = PatchParams::apply(CHANGER);
    let code = |error: kube::Error| match error {
        kube::Error::Api(status) => status.code,
        other => panic!("{other}"),
    };

    let refused = maps.patch("new", &by_apply, &Patch::Apply(map("1"))).await.map_err(code);
    assert_eq!(refused.map(drop), Err(403), "apply would create");
    let refused = leases.replace("new", &PostParams::default(), &lease).await.map_err(code);
    assert_eq!(refused.map(drop), Err(403), "an update would create");

    let stored: ConfigMap = serde_json::from_value(map("0")).expect("a ConfigMap");
    Api::<ConfigMap>::namespaced(api.client.clone(), "kube-system")
        .create(&PostParams::default(), &stored)
        .await
        .expect("created");
    let by_force = by_apply.force();
    let applied = maps.patch("new", &by_force, &Patch::Apply(map("1"))).await.expect("what is there changes");
    assert_eq!(applied.data.expect("data")["a"], "1");
}
