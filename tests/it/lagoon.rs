//! A leader migration carried out on the sample cluster `lagoon`, whose API is served: rights, KubeadmControlPlane patches and
//! a DaemonSet as an operator applies them, and what `capstan leader-migration` says of the cluster on the way. Simulated
//! controller managers obey their flags and files there; who ran what is in their ledger. Paused time.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use capi_types::control_plane::KubeadmControlPlane;
use capi_types::key::{Gvk, ObjectKey, ObjectRef};
use capstan::cli::args::{Cli, Command};
use capstan_base::rng::Rng;
use capstan_base::time::Clock;
use capstan_commands::change::Session;
use capstan_commands::change::source::Reach;
use capstan_commands::exit_code::ExitCode;
use capstan_commands::leader_migration::Printed;
use capstan_commands::leader_migration::args::LeaderMigrationCommand;
use capstan_commands::leader_migration::next::Next;
use capstan_commands::leader_migration::walkthrough::{Extent, walk};
use capstan_commands::output::Style;
use capstan_dashboard::operations::change::source::{LiveCluster, ManagedCluster};
use capstan_dashboard::operations::guard::Guard;
use capstan_dashboard::operations::journal::Journal;
use capstan_engine::client::read::get_value;
use capstan_engine::client::write::{Part, gvk_of};
use capstan_engine::client::{Client, ContextSetting, Mode, Precondition, Writer, get};
use capstan_store::MemoryStore;
use capstan_worlds::controller_managers::Ledger;
use capstan_worlds::samples::Sample;
use capstan_worlds::standalone::load;
use capstan_worlds::standalone::stack::{Stack, StackOptions};
use capstan_worlds::workload_api::commands::HostCommand;
use clap::Parser as _;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use leader_migration::controller_names::Function;
use serde_json::{Value, json};

use super::simulation::Paused;

const CCM: &str = include_str!("../../docs/cloud-controller-manager.yaml");
const SYSTEM: &str = "kube-system";
const MIGRATION_LEASE: &str = "cloud-provider-extraction-migration";
const FILE: &str = "/etc/kubernetes/leader-migration.yaml";
const MANIFEST: &str = "/etc/kubernetes/manifests/kube-controller-manager.yaml";
/// What `generate` writes for the old release.
const OLD_FILE: &str = "apiVersion: controllermanager.config.k8s.io/v1
kind: LeaderMigrationConfiguration
leaderName: cloud-provider-extraction-migration
controllerLeaders:
  - name: route
    component: \"*\"
  - name: service
    component: \"*\"
  - name: cloud-node-lifecycle
    component: \"*\"
";
const MOVED: [Function; 3] = [Function::Routes, Function::LoadBalancers, Function::NodeLifecycle];

fn lagoon() -> ObjectKey {
    ObjectKey::new("default", "lagoon")
}

fn plane() -> ObjectKey {
    ObjectKey::new("default", "lagoon-control-plane")
}

/// The cluster, with an administrator of it and one of its management cluster.
struct Lagoon {
    stack: Stack,
    clock: Clock,
    management: Writer,
    inside: Writer,
    ledger: Ledger,
}

/// The first stage that is not done.
#[derive(Debug)]
struct Stage {
    number: u64,
    word: String,
    reason: String,
}

impl Lagoon {
    /// Up, and with a kube-controller-manager that leads.
    async fn start() -> Self {
        let clock = Clock::new(Paused(tokio::time::Instant::now()));
        let options = StackOptions::new(clock.clone(), Rng::seeded(3));
        let stack = Stack::start(Arc::new(MemoryStore::new()), options).await.expect("a server");
        let connection = stack.connection("test", false);
        let sample = Sample::parse("leader-migration").expect("a sample");
        load::create(&connection, sample.objects(clock.now())).await.expect("created");
        let mut open = stack.workload_apis().expect("served").open();
        let entrance =
            open.wait_for(|open| open.contains_key(&lagoon())).await.expect("an API")[&lagoon()].clone();
        let ledger = stack.ledgers().expect("an engine").of(&lagoon());
        let this = Self {
            management: Writer::new(connection.client, "kubectl"),
            inside: Writer::new(entrance.administrator().client, "kubectl"),
            stack,
            clock,
            ledger,
        };
        this.until("three control planes", 300, async |this| {
            this.managers("--cloud-provider=gce").await == 3
        })
        .await;
        this.until("an actor", 60, async |this| this.runs_once()).await;
        this
    }

    fn client(&self) -> &Client {
        self.inside.client()
    }

    /// Looks every second.
    async fn until(&self, what: &str, limit_s: u64, done: impl AsyncFn(&Self) -> bool) {
        for _ in 0..limit_s {
            if done(self).await {
                return;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        panic!("{what} did not come in {limit_s} s; now:\n{}", self.status().await.document);
    }

    async fn pods(&self) -> Vec<Pod> {
        let pods = kube::Api::<Pod>::namespaced(self.client().clone(), SYSTEM);
        pods.list(&kube::api::ListParams::default()).await.map(|list| list.items).unwrap_or_default()
    }

    /// How many kube-controller-managers have all these words among their flags, and are ready.
    async fn managers(&self, words: &str) -> usize {
        let has = |pod: &Pod| {
            let value = serde_json::to_value(pod).expect("JSON");
            let container = &value["spec"]["containers"][0];
            let command = format!("{} {}", container["image"], container["command"]);
            let is_ready = value["status"]["conditions"][0]["status"] == "True";
            let is_manager = container["name"] == "kube-controller-manager";
            is_manager
                && is_ready
                && words.split(' ').all(|word| match word.strip_prefix('!') {
                    Some(absent) => !command.contains(absent),
                    None => command.contains(word),
                })
        };
        self.pods().await.iter().filter(|pod| has(pod)).count()
    }

    /// The cluster as commands reach it.
    fn live(&self, managed: Option<ManagedCluster>) -> LiveCluster {
        let (client, server) = (self.client().clone(), "lagoon".to_owned());
        LiveCluster {
            client,
            server,
            read_only: false,
            setting: ContextSetting::default(),
            fleet: None,
            managed,
        }
    }

    /// `next --apply`, with the control plane's object as the management cluster has it: what was shown, and how it ended.
    async fn apply_next(
        &self,
        folder: &Path,
        line: &str,
        answers: &str,
    ) -> anyhow::Result<(String, ExitCode)> {
        let words = format!("capstan leader-migration next --apply --ccm-version 1.28 {line}");
        let command = Cli::try_parse_from(words.split_whitespace()).expect(line).command;
        let Some(Command::LeaderMigration(LeaderMigrationCommand::Next(args))) = command else {
            panic!("{line}")
        };
        let control_plane =
            ObjectRef { gvk: gvk_of::<KubeadmControlPlane>(), key: plane(), uid: String::new() };
        let management = self.stack.connection("test", false);
        let object = get_value(&management.client, &control_plane).await.expect("an answer");
        let object = object.expect("a control plane");
        let reach = Reach::Connected(management.clone());
        let guard =
            Guard::new(Journal::at(folder.join("journal.jsonl")), self.clock.clone(), "ada".to_owned());
        let session = Session { reach, style: Style::default(), guard, executor: None };
        let live = self.live(Some(ManagedCluster { management, control_plane, object }));
        let (mut out, mut answers) = (Vec::new(), answers.as_bytes());
        let mut next = Next { session: &session, args: &args, out: &mut out, answers: &mut answers };
        let answer = next.apply(live).await?;
        Ok((String::from_utf8_lossy(&out).into_owned() + &answer.document, answer.exit_code))
    }

    async fn run(&self, line: &str) -> Printed {
        let words = ["capstan", "leader-migration"].into_iter().chain(line.split(' '));
        let Some(Command::LeaderMigration(command)) = Cli::try_parse_from(words).expect(line).command else {
            panic!("{line}")
        };
        let (args, extent) = match command {
            LeaderMigrationCommand::Status(args) => (args, Extent::Status),
            LeaderMigrationCommand::Next(args) => (args.walk, Extent::Next),
            other => panic!("{other:?}"),
        };
        walk(&self.live(None), &args, extent, self.clock.now()).await.expect("a walkthrough")
    }

    async fn status(&self) -> Printed {
        self.run("status").await
    }

    async fn stage(&self) -> Stage {
        let printed = self.run("status -o json").await;
        let value: Value = serde_json::from_str(&printed.document).expect("JSON");
        let open = value["stages"].as_array().into_iter().flatten().find(|stage| stage["state"] != "done");
        let open = open.cloned().unwrap_or_default();
        let text = |field: &str| open[field].as_str().unwrap_or_default().to_owned();
        Stage { number: open["number"].as_u64().unwrap_or(8), word: text("state"), reason: text("reason") }
    }

    async fn is_at(&self, number: u64, word: &str) {
        let stage = self.stage().await;
        assert_eq!((stage.number, stage.word.as_str()), (number, word), "{stage:?}");
    }

    /// Does exactly one process run each of the controllers that move?
    fn runs_once(&self) -> bool {
        MOVED.iter().all(|function| self.ledger.running(*function).len() == 1)
    }

    fn actor(&self) -> String {
        self.ledger.running(Function::Routes).join(" and ")
    }

    /// Applies the documents of a text, as `kubectl apply` does.
    async fn apply(&self, text: &str) {
        let documents: Vec<Value> = serde_saphyr::from_multiple(text).expect("YAML");
        for document in documents {
            let target = target(&document);
            match self.inside.create_value(&target, &document, Mode::Real).await {
                Err(error) if error.already_exists() => {
                    let always = Precondition::default();
                    self.inside
                        .patch_value(&target, Part::Main, &document, &always, Mode::Real)
                        .await
                        .map(drop)
                }
                created => created.map(drop),
            }
            .unwrap_or_else(|error| panic!("{target}: {error}"));
        }
    }

    /// The edits that `next` prints, by title. The control plane's object is given as the management cluster has it.
    async fn edits(&self) -> Vec<(String, String)> {
        let found: Option<KubeadmControlPlane> =
            get(self.management.client(), &plane()).await.expect("an answer");
        let file = tempfile::NamedTempFile::new().expect("a file");
        let mut object = serde_json::to_value(found.expect("a control plane")).expect("JSON");
        object["kind"] = json!("KubeadmControlPlane");
        object["apiVersion"] = json!("controlplane.cluster.x-k8s.io/v1beta2");
        std::fs::write(file.path(), object.to_string()).expect("written");
        let printed =
            self.run(&format!("next -o json --ccm-version 1.28 -f {}", file.path().display())).await;
        let value: Value = serde_json::from_str(&printed.document).expect("JSON");
        let open = value["stages"].as_array().into_iter().flatten().find(|stage| stage["state"] != "done");
        let edits = open.and_then(|stage| stage["edits"].as_array()).cloned().unwrap_or_default();
        let text = |edit: &Value, field: &str| edit[field].as_str().unwrap_or_default().to_owned();
        edits.iter().map(|edit| (text(edit, "title"), text(edit, "text"))).collect()
    }

    /// Pastes the printed patch of the control plane's object, with a version beside it.
    async fn paste(&self, version: &str) {
        let edits = self.edits().await;
        let printed = edits.iter().find(|(title, _)| title.contains("--type=merge"));
        let (_, text) = printed.unwrap_or_else(|| panic!("{edits:#?}"));
        let mut patch: Value = serde_saphyr::from_str(text).expect("YAML");
        patch["spec"]["version"] = json!(version);
        let patched =
            self.management.patch_part::<KubeadmControlPlane>(&plane(), Part::Main, &patch, Mode::Real).await;
        patched.expect("patched");
    }

    /// Pastes the printed patch of the DaemonSet, as `kubectl patch` sends it.
    async fn paste_daemon_set(&self) {
        let edits = self.edits().await;
        let printed = edits.iter().find(|(title, _)| title.starts_with("kubectl patch daemonset"));
        let (_, text) = printed.unwrap_or_else(|| panic!("{edits:#?}"));
        let patch: Value = serde_saphyr::from_str(text).expect("YAML");
        let sets = kube::Api::<DaemonSet>::namespaced(self.client().clone(), SYSTEM);
        let (name, how) = ("cloud-controller-manager", kube::api::PatchParams::default());
        sets.patch(name, &how, &kube::api::Patch::Strategic(patch)).await.expect("patched");
    }

    /// Changes the control plane's object: flags of the manager, its file or none, and a version.
    async fn control_plane(&self, provider: &str, file: Option<&str>, version: &str) {
        let mut arguments = vec![json!({"name": "cloud-provider", "value": provider})];
        let (mut volumes, mut files) = (Value::Null, Value::Null);
        if let Some(text) = file {
            arguments.push(json!({"name": "enable-leader-migration", "value": "true"}));
            arguments.push(json!({"name": "leader-migration-config", "value": FILE}));
            volumes = json!([{"name": "leader-migration", "hostPath": FILE, "mountPath": FILE, "readOnly": true,
                "pathType": "File"}]);
            files = json!([{"path": FILE, "owner": "root:root", "permissions": "0644", "content": text}]);
        }
        let kubelet = json!({"nodeRegistration": {"kubeletExtraArgs": [{"name": "cloud-provider", "value": provider}]}});
        let patch = json!({"spec": {"version": version, "kubeadmConfigSpec": {
            "clusterConfiguration": {"controllerManager": {"extraArgs": arguments, "extraVolumes": volumes}},
            "initConfiguration": kubelet, "joinConfiguration": kubelet, "files": files}}});
        let patched =
            self.management.patch_part::<KubeadmControlPlane>(&plane(), Part::Main, &patch, Mode::Real).await;
        patched.expect("patched");
    }

    /// Deletes an object of the cluster.
    async fn delete(&self, gvk: Gvk, name: &str) {
        let target = ObjectRef { gvk, key: ObjectKey::new(SYSTEM, name), uid: String::new() };
        self.inside.delete_value(&target, &Precondition::default(), Mode::Real).await.expect("deleted");
    }

    /// Runs a line on a host, and answers what it printed.
    async fn ssh(&self, host: &str, line: &str, input: &str) -> String {
        let command = HostCommand { host: host.to_owned(), line: line.to_owned(), input: input.to_owned() };
        let answer = self.stack.workload_apis().expect("served").run_on_host(&command).await;
        assert_eq!(answer.status, 0, "{line}: {}", answer.stderr);
        answer.stdout
    }

    async fn control_plane_nodes(&self) -> Vec<String> {
        let nodes = kube::Api::<Node>::all(self.client().clone());
        let wanted = kube::api::ListParams::default().labels("node-role.kubernetes.io/control-plane");
        let nodes = nodes.list(&wanted).await.expect("Nodes").items;
        nodes.into_iter().filter_map(|node| node.metadata.name).collect()
    }

    async fn holder(&self, lease: &str) -> String {
        let found: Option<Lease> =
            get(self.client(), &ObjectKey::new(SYSTEM, lease)).await.expect("an answer");
        found.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default()
    }

    async fn grant(&self) {
        if self.stage().await.number > 1 {
            return;
        }
        let (_, rights) = self.edits().await.into_iter().next().expect("an edit");
        self.apply(&rights).await;
    }

    /// Stages 1 and 2, with the edits that are printed.
    async fn enable(&self) {
        self.grant().await;
        self.is_at(2, "to do").await;
        self.paste("v1.27.16").await;
        self.until("every manager with the flag, and with its provider", 600, async |this| {
            this.managers("--enable-leader-migration --cloud-provider=gce").await == 3
                && this.managers("--bind-address").await == 3
        })
        .await;
        self.until("the migration Lease", 90, async |this| this.stage().await.number > 2).await;
    }

    /// Stages 3 and 4.
    async fn hand_over(&self) {
        self.apply(CCM).await;
        self.paste("v1.28.15").await;
        self.until("the new release everywhere", 900, async |this| {
            this.managers(":v1.28.15 --cloud-provider=external !enable-leader-migration").await == 3
                && this.managers("--bind-address").await == 3
        })
        .await;
        self.until("the handover", 120, async |this| this.stage().await.number > 4).await;
    }
}

fn target(object: &Value) -> ObjectRef {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let namespace = text(&object["metadata"]["namespace"]);
    let gvk = Gvk {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: format!("{}s", kind.to_lowercase()),
        kind,
        namespaced: !namespace.is_empty(),
    };
    ObjectRef { gvk, key: ObjectKey::new(&namespace, text(&object["metadata"]["name"])), uid: String::new() }
}

/// From what `status` says first to what it says last, with nothing done but what it prints.
#[tokio::test(start_paused = true)]
async fn the_way_from_the_first_stage_to_the_last() {
    let lagoon = Lagoon::start().await;
    lagoon.is_at(1, "to do").await;
    assert!(lagoon.actor().starts_with("kube-controller-manager-"), "{}", lagoon.actor());
    lagoon.enable().await;
    lagoon.is_at(3, "to do").await;
    assert!(lagoon.runs_once(), "{}", lagoon.actor());
    let holder = lagoon.holder(MIGRATION_LEASE).await;
    assert_eq!(holder, lagoon.holder("kube-controller-manager").await, "of both Leases");

    lagoon.hand_over().await;
    lagoon.is_at(5, "in progress").await;
    assert!(lagoon.actor().starts_with("cloud-controller-manager-"), "{}", lagoon.actor());
    tokio::time::sleep(Duration::from_secs(600)).await;
    lagoon.is_at(6, "to do").await;

    lagoon.paste_daemon_set().await;
    lagoon.until("no flag", 300, async |this| this.stage().await.number == 7).await;
    assert!(lagoon.runs_once(), "{}", lagoon.actor());

    lagoon.delete(gvk_of::<Lease>(), MIGRATION_LEASE).await;
    lagoon.delete(gvk_of::<RoleBinding>(), &format!("leader-migration:{MIGRATION_LEASE}")).await;
    lagoon.delete(gvk_of::<Role>(), &format!("leader-migration:{MIGRATION_LEASE}")).await;
    let printed = lagoon.status().await;
    assert!(printed.is_fine && printed.document.starts_with("nothing to migrate"), "{}", printed.document);
    assert_eq!(lagoon.ledger.overlaps(), [], "nobody acted beside somebody else");
}

/// The same with nothing typed but `next --apply`, and the manifest of the provider.
#[tokio::test(start_paused = true)]
async fn the_way_by_applying_what_is_next() {
    let lagoon = Lagoon::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let next = async |shown: &str, code: ExitCode| {
        let (said, ended) = lagoon.apply_next(folder.path(), "--yes", "").await.expect("an answer");
        assert!(said.contains(shown) && ended == code, "{shown}: {ended:?}\n{said}");
    };
    let refused = lagoon.apply_next(folder.path(), "", "n\n").await.expect_err("not confirmed").to_string();
    assert_eq!(refused, "not confirmed; nothing was written");
    next("wrote Role kube-system/", ExitCode::Success).await;
    next("wrote KubeadmControlPlane default/lagoon-control-plane", ExitCode::Success).await;
    // It is on its way: there is nothing to do twice, nor by hand.
    next("2 to do", ExitCode::Pending).await;
    lagoon.until("the migration Lease", 690, async |this| this.stage().await.number > 2).await;
    assert_eq!(lagoon.managers("--enable-leader-migration --cloud-provider=gce --bind-address").await, 3);

    next("wrote ConfigMap kube-system/leader-migration", ExitCode::Success).await;
    next("then cloud-controller-manager: the manifest of its provider", ExitCode::Pending).await;
    lagoon.apply(CCM).await;
    next("wrote KubeadmControlPlane default/lagoon-control-plane", ExitCode::Success).await;
    lagoon.until("the handover", 1020, async |this| this.stage().await.number > 4).await;
    assert_eq!(lagoon.managers("--cloud-provider=external !enable-leader-migration --bind-address").await, 3);
    next("5 in progress", ExitCode::Pending).await;
    tokio::time::sleep(Duration::from_secs(600)).await;

    next("wrote DaemonSet kube-system/cloud-controller-manager", ExitCode::Success).await;
    next("6 to do", ExitCode::Pending).await;
    lagoon.until("no flag", 300, async |this| this.stage().await.number == 7).await;
    next("wrote Lease kube-system/cloud-provider-extraction-migration, RoleBinding", ExitCode::Success).await;
    next("nothing is left to do", ExitCode::Success).await;
    assert!(lagoon.runs_once(), "{}", lagoon.actor());
    assert_eq!(lagoon.ledger.overlaps(), [], "nobody acted beside somebody else");
    let journal = std::fs::read_to_string(folder.path().join("journal.jsonl")).expect("a journal");
    let count = |word: &str| journal.matches(&format!("\"outcome\":\"{word}\"")).count();
    assert_eq!((count("asked"), count("done")), (6, 6), "{journal}");
}

/// The flags come back first, then the cloud's managers go.
#[tokio::test(start_paused = true)]
async fn the_way_back_from_the_handover() {
    let lagoon = Lagoon::start().await;
    lagoon.enable().await;
    lagoon.hand_over().await;
    let map: Option<ConfigMap> =
        get(lagoon.client(), &ObjectKey::new(SYSTEM, "leader-migration")).await.expect("an answer");
    let file =
        map.and_then(|map| map.data?.remove("leader-migration.yaml")).expect("the file of the new release");
    lagoon.control_plane("gce", Some(&file), "v1.28.15").await;
    lagoon
        .until("the flags everywhere", 900, async |this| {
            this.managers("--cloud-provider=gce enable-leader-migration").await == 3
                && this.managers("--bind-address").await == 3
        })
        .await;
    // Whoever was faster when the holder's node was replaced.
    lagoon.until("an actor", 90, async |this| this.runs_once()).await;
    lagoon.is_at(3, "in progress").await;
    lagoon.delete(gvk_of::<DaemonSet>(), "cloud-controller-manager").await;
    lagoon
        .until("the old actor", 90, async |this| {
            this.runs_once() && this.actor().starts_with("kube-controller-manager-")
        })
        .await;
    lagoon.is_at(3, "to do").await;
    assert_eq!(lagoon.ledger.overlaps(), [], "nobody acted beside somebody else");
}

/// Waits until the walkthrough stands still with a finding of this code.
async fn is_blocked_by(lagoon: &Lagoon, code: &str) {
    let what = format!("{code} among the findings");
    lagoon
        .until(&what, 120, async |this| {
            let stage = this.stage().await;
            stage.word == "blocked" && stage.reason.starts_with(&format!("{code} "))
        })
        .await;
}

/// Waits until one process acts again, and nothing stands still.
async fn is_mended(lagoon: &Lagoon) {
    lagoon
        .until("one actor", 90, async |this| this.runs_once() && this.stage().await.word != "blocked")
        .await;
}

/// Failures of the old release, one at a time, each mended before the next.
#[tokio::test(start_paused = true)]
async fn failures_of_the_second_stage_are_seen_while_they_last() {
    let lagoon = Lagoon::start().await;
    let (_, rights) = lagoon.edits().await.into_iter().next().expect("the rights");
    // F9: the flags come before the rights.
    let file = OLD_FILE;
    lagoon.control_plane("gce", Some(file), "v1.27.16").await;
    lagoon.until("the flags", 600, async |this| this.managers("enable-leader-migration").await == 3).await;
    lagoon
        .until("nobody", 120, async |this| {
            this.managers("--bind-address").await == 3 && this.actor().is_empty()
        })
        .await;
    lagoon.is_at(1, "to do").await;
    lagoon.apply(&rights).await;
    lagoon.until("an actor", 120, async |this| this.runs_once()).await;
    lagoon.until("the third stage", 60, async |this| this.stage().await.number == 3).await;

    let holder = lagoon.holder("kube-controller-manager").await;
    let nodes = lagoon.control_plane_nodes().await;
    let other = nodes.iter().find(|node| !holder.starts_with(node.as_str())).expect("one that waits");
    let manifest = lagoon.ssh(other, &format!("cat {MANIFEST}"), "").await;
    // F6: the file stays, the flag goes.
    lagoon.ssh(other, &format!("sed -i '/--enable-leader-migration/d' {MANIFEST}"), "").await;
    is_blocked_by(&lagoon, "F6").await;
    lagoon.ssh(other, &format!("install -m 600 /dev/stdin {MANIFEST}"), &manifest).await;
    lagoon.until("the flag again", 60, async |this| this.stage().await.number == 3).await;

    // F17: the host loses the file, and its manager is started again.
    lagoon.ssh(other, &format!("rm {FILE} && crictl stop kube-controller-manager"), "").await;
    is_blocked_by(&lagoon, "not-running").await;
    lagoon.ssh(other, &format!("install -m 644 /dev/stdin {FILE}"), file).await;
    lagoon.until("the file again", 60, async |this| this.stage().await.number == 3).await;
    assert_eq!(lagoon.ledger.overlaps(), [], "none of them makes two actors");
}

/// Failures of the new process: two then act at once.
#[tokio::test(start_paused = true)]
async fn a_cloud_controller_manager_that_does_not_fit_acts_beside_the_old_one() {
    let lagoon = Lagoon::start().await;
    // F20: before the old managers have the flag.
    lagoon.grant().await;
    lagoon.apply(CCM).await;
    is_blocked_by(&lagoon, "F5").await;
    lagoon.until("two actors", 60, async |this| this.actor().contains(" and ")).await;
    lagoon.delete(gvk_of::<DaemonSet>(), "cloud-controller-manager").await;
    is_mended(&lagoon).await;
    lagoon.enable().await;
    for (code, right, wrong, is_twice) in [
        // No role gives rights on the other Lease.
        ("F1", "leaderName: cloud-provider", "leaderName: another", false),
        ("F3", "      - name: node-route-controller\n        component: \"*\"\n", "", true),
        ("F4", "node-route-controller", "route", true),
    ] {
        lagoon.apply(&CCM.replace(right, wrong)).await;
        is_blocked_by(&lagoon, code).await;
        if is_twice {
            lagoon.until("two actors", 60, async |this| this.actor().contains(" and ")).await;
        }
        lagoon.delete(gvk_of::<DaemonSet>(), "cloud-controller-manager").await;
        is_mended(&lagoon).await;
        lagoon.is_at(3, "to do").await;
    }
}
