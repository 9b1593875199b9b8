//! Hosts of a cluster whose API is served: lines of runbooks, what comes of them and when, and what goes wrong.

use std::net::TcpListener;

use serde_json::{Value, json};

use super::World;
use super::boot;
use super::endpoint::ReservedEndpoint;
use super::host::{InitFacts, Output};
use super::ports::{HostPort, SignedBy};
use super::served::ShownKind;
use super::tests::{Hand, cluster, world};
use capi_types::dev::{InMemoryComponent, InMemoryMachine, Provisioning};
use capi_types::key::ObjectKey;
use capstan_base::rng::Rng;
use capstan_physics::boot::Boot;
use kubeadm_change::document::{DocumentKind, Inputs, read_inputs};
use kubeadm_change::facts::ClusterFacts as ReadFacts;
use kubeadm_change::plan::{ChangePlan, PlanOptions, plan};
use kubeadm_change::request::{PatchKind, RequestPart, WantedDocuments, apply};
use kubeadm_change::yaml;

const NODE: &str = "a";
const MANIFEST: &str = "/etc/kubernetes/manifests/kube-apiserver.yaml";

/// A cluster of two control plane hosts that kubeadm made.
fn reef() -> (World, Hand) {
    let (world, hand) = world(&[NODE, "b"]);
    let facts = InitFacts {
        name: "reef".to_owned(),
        endpoint: "127.0.0.1:20000".to_owned(),
        pod_subnet: "10.244.0.0/16".to_owned(),
        service_subnet: "10.96.0.0/16".to_owned(),
        dns_domain: "cluster.local".to_owned(),
    };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    world.serve(&cluster(), ReservedEndpoint::new(listener, facts));
    (world, hand)
}

fn run(world: &World, line: &str) -> Output {
    world.run(NODE, line, "").expect("a host")
}

fn ok(world: &World, line: &str) -> String {
    let output = run(world, line);
    assert_eq!(output.status, 0, "{line}: {}", output.stderr);
    output.stdout
}

fn object(world: &World, shown: ShownKind, name: &str) -> Value {
    let key = ObjectKey::new("kube-system", name);
    let found = world.read(&cluster(), |sim, now| sim.objects(shown, now)).expect("a cluster");
    found.into_iter().find(|(at, _)| *at == key).map(|(_, object)| object).unwrap_or_default()
}

fn pod(world: &World, component: &str, node: &str) -> Value {
    object(world, ShownKind::Pod, &format!("{component}-{node}"))
}

fn is_ready(pod: &Value) -> bool {
    pod["status"]["conditions"][0]["status"] == "True"
}

/// What a client would write into the stored ClusterConfiguration.
fn set(world: &World, path: &str, value: Value) {
    let stored = object(world, ShownKind::ConfigMap, "kubeadm-config");
    let text = stored["data"]["ClusterConfiguration"].as_str().expect("a text").to_owned();
    let mut document = yaml::read(&text).expect("YAML")[0].value();
    *document.pointer_mut(path).expect("a field") = value;
    let patch = json!({ "data": { "ClusterConfiguration": yaml::write(&document) } });
    let key = ObjectKey::new("kube-system", "kubeadm-config");
    world.change(&cluster(), |sim| {
        let now = chrono::DateTime::UNIX_EPOCH;
        sim.accept(ShownKind::ConfigMap, &key, &patch, now).expect("taken");
    });
}

/// What the planner reads of such a cluster.
fn inputs(world: &World) -> Inputs {
    let objects: Vec<Value> = [ShownKind::Node, ShownKind::Pod, ShownKind::ConfigMap]
        .into_iter()
        .flat_map(|shown| world.read(&cluster(), |sim, now| sim.objects(shown, now)).expect("a cluster"))
        .map(|(_, object)| object)
        .collect();
    let files: Vec<(String, String)> =
        objects.iter().enumerate().map(|(at, object)| (format!("{at}"), object.to_string())).collect();
    read_inputs(&files).expect("documents")
}

fn planned(inputs: &Inputs, set: &str) -> (ChangePlan, WantedDocuments) {
    let parts = [RequestPart::Set(set.to_owned())];
    let mut target = apply(inputs, &parts, PatchKind::Strategic).expect("a request");
    let options = PlanOptions { files: "F".to_owned(), ..PlanOptions::default() };
    (plan(inputs, &mut target, &options).expect("a plan"), target)
}

/// It is what the planner expects: no drift, and every document is valid.
#[test]
fn a_new_cluster_is_what_its_stored_configuration_renders_to() {
    let (world, _) = reef();
    let inputs = inputs(&world);
    for kind in [DocumentKind::Cluster, DocumentKind::Kubelet, DocumentKind::Proxy] {
        assert!(inputs.document(kind).is_some(), "{kind:?}");
    }
    assert_eq!(ReadFacts::read(&inputs).control_plane.len(), 2);
    let (planned, _) = planned(&inputs, "apiServer.extraArgs[event-ttl]=2h");
    assert!(planned.drift.is_empty(), "{:?}", planned.drift);
    assert!(planned.steps.iter().any(|step| step.id.name() == "M1"));
}

#[test]
fn etcd_is_left_alone_only_when_kubeadm_is_told_to() {
    for (option, restarts) in [(" --etcd-upgrade=false", 0), ("", 1)] {
        let (world, hand) = reef();
        let count = || pod(&world, "etcd", NODE)["status"]["containerStatuses"][0]["restartCount"].clone();
        set(&world, "/apiServer", json!({ "extraArgs": [{ "name": "event-ttl", "value": "2h" }] }));
        ok(&world, &format!("kubeadm upgrade node phase control-plane{option} --certificate-renewal=false"));
        hand.pass(10);
        assert_eq!(count(), restarts, "{option}");
    }
}

#[test]
fn one_command_at_a_time() {
    let (world, hand) = reef();
    set(&world, "/apiServer", json!({ "extraArgs": [{ "name": "event-ttl", "value": "2h" }] }));
    let alone = |line: &str| format!("flock -n -E 75 /run/lock sh -c 'pgrep -x kubeadm && exit 75; {line}'");
    let first = run(&world, &alone("kubeadm upgrade node phase control-plane"));
    assert_eq!(first.status, 0, "{}", first.stderr);
    assert_eq!(run(&world, &alone("true")).status, 75, "it still takes {:?}", first.takes);
    let waited = run(&world, "flock -w 300 /run/lock kubeadm version");
    assert!(waited.status == 0 && waited.takes > first.takes / 2, "{waited:?}");
    hand.pass(60);
    assert_eq!(run(&world, &alone("exit 3")).status, 3, "its own status counts");
    assert_eq!(run(&world, &format!("{}true", "sudo ".repeat(50_000))).status, 0, "however often it is said");
}

#[test]
fn exit_ends_the_whole_line_also_within_braces() {
    let (world, _) = reef();
    for (line, status, said) in [
        ("true && exit 3; echo behind", 3, ""),
        ("{ exit 1; }; echo behind", 1, ""),
        ("{ exit 0; } || echo behind", 0, ""),
        ("false || { echo no; { exit 4; }; echo never; } && echo behind", 4, "no\n"),
        ("true || { exit 5; }; echo behind", 0, "behind\n"),
        // A shell of its own ends alone.
        ("sh -c '{ exit 2; }; echo never' || echo behind", 0, "behind\n"),
    ] {
        let output = run(&world, line);
        assert_eq!((output.status, output.stdout.as_str()), (status, said), "{line}");
    }
}

#[test]
fn a_changed_flag_reaches_the_pods_of_one_host_after_a_restart() {
    let (world, hand) = reef();
    let hash = |node: &str| {
        pod(&world, "kube-apiserver", node)["metadata"]["annotations"]["kubernetes.io/config.hash"].clone()
    };
    let before = hash(NODE);
    set(&world, "/apiServer", json!({ "extraArgs": [{ "name": "event-ttl", "value": "2h" }] }));
    ok(&world, "kubeadm upgrade node phase control-plane --certificate-renewal=false");
    let changed = pod(&world, "kube-apiserver", NODE);
    assert!(!is_ready(&changed), "it starts again");
    assert_ne!(hash(NODE), before);
    let command = changed["spec"]["containers"][0]["command"].to_string();
    assert!(command.contains("--event-ttl=2h"), "{command}");
    assert!(is_ready(&pod(&world, "kube-controller-manager", NODE)), "nothing of it changed");
    assert!(is_ready(&pod(&world, "kube-apiserver", "b")), "another host");
    assert_eq!(run(&world, "curl -sk https://localhost:6443/readyz").status, 7);
    hand.pass(10);
    assert!(is_ready(&pod(&world, "kube-apiserver", NODE)));
    assert_eq!(ok(&world, "curl -sk https://localhost:6443/readyz"), "ok");
    let again = ok(&world, "kubeadm upgrade node phase control-plane");
    assert!(again.contains("equal, skipping"), "{again}");
}

/// kubeadm takes back what does not come up: here the file that the flag names is not on the host.
#[test]
fn an_api_server_that_does_not_come_up_is_taken_back() {
    let (world, hand) = reef();
    let before = ok(&world, &format!("sha256sum -- '{MANIFEST}'"));
    set(
        &world,
        "/apiServer",
        json!({ "extraArgs": [{ "name": "audit-policy-file", "value": "/etc/p.yaml" }] }),
    );
    let upgrade = "kubeadm upgrade node phase control-plane --certificate-renewal=false";
    let failed = run(&world, upgrade);
    assert!(failed.status == 1 && failed.stderr.contains("timed out"), "{failed:?}");
    assert_eq!(ok(&world, &format!("sha256sum -- '{MANIFEST}'")), before);
    let put = world.run(NODE, "install -D -m 0600 /dev/stdin /etc/p.yaml", "rules: []\n").expect("a host");
    assert_eq!(put.status, 0);
    ok(&world, upgrade);
    hand.pass(10);
    assert!(is_ready(&pod(&world, "kube-apiserver", NODE)));

    let now = world.now();
    world.change(&cluster(), |sim| sim.set_host_faults(NODE, "api-server-stays-down", now));
    ok(&world, "crictl stop $(crictl ps -q --name '^kube-apiserver$')");
    hand.pass(600);
    let down = pod(&world, "kube-apiserver", NODE);
    assert!(!is_ready(&down));
    assert_eq!(down["status"]["containerStatuses"][0]["state"]["waiting"]["reason"], "CrashLoopBackOff");
    assert!(world.read(&cluster(), |sim, _| sim.serves()).expect("a cluster"), "the other host serves");
}

/// A certificate of host `a` that a plan issues anew, by the lines of its step.
struct Issue {
    world: World,
    script: String,
    path: String,
    text: String,
    /// Of a certificate in use.
    certificate: &'static str,
}

impl Issue {
    fn of(set: &str, step: &str, certificate: &'static str) -> (Self, Hand) {
        let (world, hand) = reef();
        let inputs = inputs(&world);
        let (planned, target) = planned(&inputs, set);
        let step = planned.steps.iter().find(|s| s.id.name() == step && s.nodes == [NODE]).expect("a step");
        let facts = ReadFacts::read(&inputs);
        let live = facts.control_plane.iter().find(|live| live.host.name == NODE).expect("a node");
        let document = target.document(DocumentKind::Cluster).expect("there");
        let text = step.files[0].text(planned.id.as_str(), &live.host, document).expect("a text");
        (Self { world, script: step.script(), path: step.files[0].path.clone(), text, certificate }, hand)
    }

    fn put(&self, path: &str, text: &str) {
        let line = format!("install -D -m 0600 /dev/stdin {path}");
        self.world.run(NODE, &line, text).expect("a host");
    }

    fn in_use(&self) -> String {
        let path = format!("/etc/kubernetes/pki/{}", self.certificate);
        ok(&self.world, &format!("cat {path}.crt && cat {path}.key"))
    }

    /// Runs the lines, which have to fail, and gives what was said.
    fn fails(&self) -> String {
        let before = self.in_use();
        let output = run(&self.world, &self.script);
        assert_ne!(output.status, 0, "{}", output.stdout);
        assert_eq!(self.in_use(), before, "what is in use is as it was");
        output.stderr
    }
}

#[test]
fn certificates_are_made_beside_the_old_ones_and_moved_in_when_they_are_right() {
    for (set, step, certificate, authority) in [
        ("apiServer.certSANs=[new.example]", "C1", "apiserver", "ca"),
        ("etcd.local.serverCertSANs=[new.example]", "C2", "etcd/server", "etcd/ca"),
        ("etcd.local.peerCertSANs=[new.example]", "C2", "etcd/peer", "etcd/ca"),
    ] {
        let (issue, hand) = Issue::of(set, step, certificate);
        let missing = issue.fails();
        assert!(missing.contains("unable to read config from"), "no file: {missing}");
        issue.put("/etc/kubernetes/tmp/capstan-0123456789ab/a-pki.yaml", &issue.text);
        assert!(issue.fails().contains("unable to read config from"), "one of another plan is not taken");
        issue.put(&issue.path, &issue.text.replace("new.example", "other.example"));
        assert!(issue.fails().contains("mismatch"), "it is looked at for its names");
        issue.put(&issue.path, &issue.text);
        let key = format!("/etc/kubernetes/pki/{authority}.key");
        ok(&issue.world, &format!("mv {key} /etc/away"));
        let refused = issue.fails();
        assert!(refused.contains("not on this host") && refused.contains("generate-csr"), "{refused}");
        ok(&issue.world, &format!("mv /etc/away {key}"));
        ok(&issue.world, &issue.script);
        assert!(issue.in_use().contains("new.example"), "{}", issue.in_use());
        hand.pass(10);
        ok(&issue.world, &issue.script);
        assert!(issue.in_use().contains("new.example"), "they may be run twice");
        ok(
            &issue.world,
            &format!("rm -f /etc/kubernetes/pki/{certificate}.crt /etc/kubernetes/pki/{certificate}.key"),
        );
        hand.pass(10);
        ok(&issue.world, &issue.script);
        assert!(issue.in_use().contains("new.example"), "a certificate that is gone is mended");
    }
}

#[test]
fn a_certificate_is_issued_anew_only_when_the_old_one_is_moved_away() {
    let (world, hand) = reef();
    let file = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\nnodeRegistration: {name: a}\nlocalAPIEndpoint: {advertiseAddress: 10.0.0.1}\n---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: v1.34.0\napiServer: {certSANs: [new.example]}\n";
    world
        .run(NODE, "install -D -m 0600 /dev/stdin /etc/kubernetes/tmp/capstan/a.yaml", file)
        .expect("a host");
    let issue = "kubeadm init phase certs apiserver --config /etc/kubernetes/tmp/capstan/a.yaml";
    let crt = "cat /etc/kubernetes/pki/apiserver.crt";
    let names = |world: &World| {
        let names = |sim: &super::sim_cluster::SimCluster| sim.hosts[NODE].api_server_names().to_vec();
        world.read(&cluster(), |sim, _| names(sim)).expect("a cluster")
    };
    assert!(ok(&world, issue).contains("Using existing") && !ok(&world, crt).contains("new.example"));
    ok(
        &world,
        "mkdir -p /etc/kubernetes/tmp/apiserver-before && mv /etc/kubernetes/pki/apiserver.crt /etc/kubernetes/pki/apiserver.key /etc/kubernetes/tmp/apiserver-before/",
    );
    let before = names(&world);
    assert!(!before.is_empty(), "without the file it goes on with what it read");
    ok(&world, issue);
    assert!(ok(&world, crt).contains("new.example"));
    ok(&world, "test -s /etc/kubernetes/tmp/apiserver-before/apiserver.key");
    let has_name = |names: &[String]| names.iter().any(|name| name == "new.example");
    assert!(!has_name(&before) && has_name(&names(&world)), "it is served without a restart");
    ok(&world, "crictl stop $(crictl ps -q --name '^kube-apiserver$')");
    hand.pass(10);
    assert!(has_name(&names(&world)) && is_ready(&pod(&world, "kube-apiserver", NODE)));
}

#[test]
fn a_kubelet_reads_its_file_when_it_starts_and_may_not_come_back() {
    let (world, hand) = reef();
    let shown = |world: &World| {
        let answer =
            world.read(&cluster(), |sim, now| sim.ask_kubelet(NODE, "configz", now)).expect("a cluster");
        answer.map(|text| {
            serde_json::from_str::<Value>(&text).expect("JSON")["kubeletconfig"]["maxPods"].clone()
        })
    };
    assert_eq!(shown(&world), Ok(json!(110)));
    let key = ObjectKey::new("kube-system", "kubelet-config");
    let text = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 60\n";
    let now = world.now();
    let patch = json!({ "data": { "kubelet": text } });
    world.change(&cluster(), |sim| sim.accept(ShownKind::ConfigMap, &key, &patch, now).expect("taken"));
    ok(&world, "kubeadm upgrade node phase kubelet-config");
    assert_eq!(shown(&world), Ok(json!(110)), "the file alone changes nothing");
    ok(&world, "systemctl restart kubelet");
    hand.pass(5);
    assert_eq!(shown(&world), Ok(json!(60)));

    world.change(&cluster(), |sim| sim.set_host_faults(NODE, "kubelet-stays-down", now));
    assert_eq!(run(&world, "systemctl restart kubelet").status, 1);
    assert!(
        shown(&world).is_err() && world.read(&cluster(), |sim, _| sim.is_silent(NODE)).expect("a cluster")
    );
    world.change(&cluster(), |sim| sim.set_host_faults(NODE, "", now));
    ok(&world, "sudo -n sh -c 'systemctl restart kubelet'");
    hand.pass(5);
    assert!(
        shown(&world).is_ok() && !world.read(&cluster(), |sim, _| sim.is_silent(NODE)).expect("a cluster")
    );
}

#[test]
fn hosts_refuse_and_do_not_know_everything() {
    let (world, _) = reef();
    assert!(world.run("nobody", "true", "").is_none());
    assert_eq!(run(&world, "reboot").status, 127);
    assert_eq!(run(&world, "kubeadm reset").status, 1);
    assert_eq!(run(&world, "cat /etc/shadow || echo none").stdout, "none\n");
    let save = "test -s /var/lib/etcd/s.db || crictl exec $(crictl ps -q --name '^etcd$') etcdctl --cacert x snapshot save /var/lib/etcd/s.db";
    assert!(ok(&world, save).contains("saved") && ok(&world, save).is_empty(), "it is there then");
    let now = world.now();
    world.change(&cluster(), |sim| sim.set_host_faults(NODE, "refuses-commands", now));
    assert_eq!(run(&world, "true").status, 255);
    assert_eq!(world.run("b", "true", "").expect("a host").status, 0);
}

/// Etcd may come up after the API server of its machine: what the host shows of it stays.
#[test]
fn a_member_that_comes_up_last_is_shown_by_its_host() {
    let (world, hand) = reef();
    world.change(&cluster(), |sim| {
        let mut late = sim.machine(NODE).expect("a machine").clone();
        let component = |text: &str| {
            Some(InMemoryComponent {
                provisioning: Some(Provisioning { startup_duration: text.to_owned(), startup_jitter: None }),
            })
        };
        let spec = InMemoryMachine {
            api_server: component("1s"),
            etcd: component("5s"),
            ..InMemoryMachine::default()
        };
        let delays = boot::delays(&spec, "late", &Rng::seeded(1), 1.0);
        late.boot = Boot::new(chrono::DateTime::UNIX_EPOCH, delays, true);
        sim.put_machine("late", late);
    });
    for _ in 0..10 {
        hand.pass(1);
        pod(&world, "etcd", "late");
    }
    for component in ["etcd", "kube-apiserver"] {
        let shown = pod(&world, component, "late");
        let command = shown["spec"]["containers"][0]["command"].to_string();
        assert!(is_ready(&shown) && command.contains("--"), "{component}: {shown}");
    }
}

/// What a port-forward finds: certificates with the names that the containers read, and which member leads.
#[test]
fn ports_of_a_host_show_what_runs_there() {
    let (world, hand) = reef();
    hand.pass(10);
    let at = |pod: &str, port| {
        let key = ObjectKey::new("kube-system", pod);
        world.read(&cluster(), |sim, now| sim.listens_at(&key, port, now)).expect("a cluster")
    };
    let names = |found: Result<HostPort, String>| match found.expect("it listens") {
        HostPort::Tls { names, signed_by, .. } => (names, signed_by),
        HostPort::Pages(pages) => panic!("{pages:?}"),
    };
    let (served, signed_by) = names(at("kube-apiserver-a", 6443));
    assert!(
        served.iter().any(|name| name == "kubernetes.default.svc") && signed_by == SignedBy::Cluster,
        "{served:?}"
    );
    let (served, signed_by) = names(at("etcd-a", 2379));
    assert!(served.iter().any(|name| name == "a") && signed_by == SignedBy::Etcd, "{served:?}");
    assert_eq!(names(at("etcd-a", 10250)), (vec!["a".to_owned()], SignedBy::Itself));
    let leads = |pod: &str| match at(pod, 2381).expect("metrics") {
        HostPort::Pages(pages) => pages[0].1.contains("etcd_server_is_leader 1"),
        tls => panic!("{tls:?}"),
    };
    assert!(leads("etcd-a") && !leads("etcd-b"));
    let error = at("etcd-a", 1).expect_err("nothing listens");
    assert!(error.ends_with("connection refused"), "{error}");
    assert!(at("etcd-nowhere", 2379).is_err());
    set(&world, "/apiServer", json!({ "extraArgs": [{ "name": "event-ttl", "value": "2h" }] }));
    ok(&world, "kubeadm upgrade node phase control-plane --certificate-renewal=false");
    assert!(at("kube-apiserver-a", 6443).is_err(), "it starts again");
}
