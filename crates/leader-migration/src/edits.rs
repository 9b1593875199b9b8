//! What to change for a stage, and how to take it back, as text for people: files, flags, objects. What is printed for an
//! object has its lists whole, as they are with the change made; where an object was not read, nothing is printed for it.
//! Must not know whether a change is done.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::command_line::CommandLine;
use super::configuration::{ConfigVersion, Configuration};
use super::controller_names::{Function, WITHOUT_CLOUD_PROVIDER};
use super::flag_lists::{FlagChange, value_in};
use super::flag_places::FlagPlaces;
use super::flags::{CONFIG, ENABLE};
use super::manager_kind::ManagerKind;
use super::manifest::{FoundManager, managers_in};
use super::place_edits::{FileChange, ManagerChange, Replacement};
use super::release::Release;
use super::rights::{Grantee, role};
use super::stages::MigrationStage;
use super::writing::{generate, write};

/// Where the file is on hosts and in containers.
pub const PATH: &str = "/etc/kubernetes/leader-migration.yaml";
/// The same in a cloud-controller-manager, whose ConfigMap is mounted as a folder.
const CLOUD_PATH: &str = "/etc/leader-migration/leader-migration.yaml";
const PROVIDER: &str = "cloud-provider";
const EXTERNAL: &str = "external";
/// The Cluster writes such a control plane by its class.
const OWNED_BY_TOPOLOGY: &str = "topology.cluster.x-k8s.io/owned";

/// One change with its inverse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageEdit {
    /// What is changed and where, as one line.
    pub title: String,
    /// What to paste or apply: YAML, a patch, or commands, with a sentence before it.
    pub text: String,
    /// The same that brings back what was there.
    pub inverse: String,
}

/// All changes of a stage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StageEdits {
    /// In the order in which they are made.
    pub edits: Vec<StageEdit>,
    /// For which objects nothing is printed, and why.
    pub omitted: Vec<String>,
}

/// What the edits depend on.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Of the Leases, and of the objects that are made.
    pub namespace: String,
    /// Of the migration Lease.
    pub leader_name: String,
    /// The controllers that move.
    pub functions: Vec<Function>,
    /// Who is given rights on the migration Lease.
    pub subjects: Vec<Grantee>,
    /// Of the old kube-controller-manager; of the library in cloud-controller-manager.
    pub releases: (Release, Release),
    /// Where the flags of the processes were read.
    pub places: FlagPlaces,
    /// The host that holds the main Lease of kube-controller-manager: it comes last.
    pub holder: String,
    /// The cloud provider in the old kube-controller-managers; empty when none has one.
    pub provider: String,
}

impl Settings {
    fn file(&self, release: Release) -> String {
        let made = generate(&self.leader_name, &self.functions, "*", release);
        made.map_or_else(String::new, |(configuration, version): (Configuration, ConfigVersion)| {
            write(&configuration, version)
        })
    }
}

/// The changes of `stage`. Nothing is printed for a place whose content was not read.
pub fn edits(stage: MigrationStage, settings: &Settings) -> StageEdits {
    let mut made = StageEdits::default();
    match stage {
        MigrationStage::Preflight | MigrationStage::Settle => {}
        MigrationStage::Grant => made.grant(settings),
        MigrationStage::Enable => made.enable(settings),
        MigrationStage::Introduce => {
            made.cloud(settings);
            made.without_provider(settings);
        }
        MigrationStage::Handover => made.without_provider(settings),
        MigrationStage::Disable => made.disable(settings),
        MigrationStage::Clean => made.clean(settings),
    }
    made
}

impl StageEdits {
    fn edit(&mut self, title: &str, text: String, inverse: &str) {
        self.edits.push(StageEdit { title: title.to_owned(), text, inverse: inverse.to_owned() });
    }

    /// What was made of an object, whatever came of it.
    fn placed(&mut self, title: &str, what: &str, made: Result<Option<Replacement>, String>) {
        match made {
            Ok(Some(Replacement { patch, inverse })) => self.edit(title, yaml(&patch), &yaml(&inverse)),
            Ok(None) => self.omitted.push(format!("{what}: it has this already")),
            Err(why) => {
                self.omitted.push(format!("{what}: nothing is printed that could lose something: {why}"));
            }
        }
    }

    /// Between edits of which one is enough: those since `first`.
    fn or(&self, first: usize) -> &'static str {
        if self.edits.len() > first { "or " } else { "" }
    }

    fn grant(&mut self, settings: &Settings) {
        let Settings { namespace, leader_name, .. } = settings;
        self.edit(
            "kubectl apply -f -",
            role(namespace, leader_name, &settings.subjects),
            &format!("kubectl -n {namespace} delete rolebinding,role leader-migration:{leader_name}\n"),
        );
    }

    fn enable(&mut self, settings: &Settings) {
        let text = settings.file(settings.releases.0);
        self.edit(
            &format!("{PATH} on every control plane host, before the flags"),
            text.clone(),
            &format!("remove {PATH} after the flags are gone\n"),
        );
        let flags = [FlagChange::Set(ENABLE, "true"), FlagChange::Set(CONFIG, PATH)];
        let change = ManagerChange {
            manager: ManagerKind::KubeControllerManager,
            flags: &flags,
            kubelet: &[],
            file: FileChange::Mount { path: PATH, text: &text },
        };
        self.kube(settings, &change, true);
    }

    /// The cloud's processes, which have to be there before the last provider goes.
    fn cloud(&mut self, settings: &Settings) {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "leader-migration", "namespace": settings.namespace},
            "data": {"leader-migration.yaml": settings.file(settings.releases.1)}});
        self.edit(
            "first, kubectl apply -f -: the file for cloud-controller-manager",
            yaml(&map),
            &format!("kubectl -n {} delete configmap leader-migration\n", settings.namespace),
        );
        self.edit(
            "then cloud-controller-manager: the manifest of its provider, with these besides all that it has",
            format!(
                "# among the flags of its container
- --leader-elect=true
- --{ENABLE}=true
- --{CONFIG}={CLOUD_PATH}
# among its volumeMounts
- {{name: leader-migration, mountPath: /etc/leader-migration, readOnly: true}}
# among the volumes of its pods
- {{name: leader-migration, configMap: {{name: leader-migration}}}}
"
            ),
            "remove it from the node after its kube-controller-manager has the old release again\n",
        );
    }

    /// The old processes give their cloud provider up.
    fn without_provider(&mut self, settings: &Settings) {
        let flags =
            [FlagChange::Set(PROVIDER, EXTERNAL), FlagChange::Remove(ENABLE), FlagChange::Remove(CONFIG)];
        let change = ManagerChange {
            manager: ManagerKind::KubeControllerManager,
            flags: &flags,
            kubelet: &[FlagChange::Set(PROVIDER, EXTERNAL)],
            file: FileChange::Unmount { path: PATH },
        };
        self.kube(settings, &change, false);
        // It goes into a line that root runs.
        if settings.places.control_planes.is_empty() && is_plain(&settings.provider) {
            let word = |from: &str, to: &str| {
                format!(
                    "sed -i 's/--{PROVIDER}={from}/--{PROVIDER}={to}/' /var/lib/kubelet/kubeadm-flags.env && systemctl restart kubelet\n"
                )
            };
            let provider = &settings.provider;
            self.edit(
                "on each of these hosts, its kubelet",
                word(provider, EXTERNAL),
                &word(EXTERNAL, provider),
            );
        }
    }

    /// One change of kube-controller-manager in each of the places where it may be made.
    fn kube(&mut self, settings: &Settings, change: &ManagerChange<'_>, needs_provider: bool) {
        let (places, first) = (&settings.places, self.edits.len());
        for plane in &places.control_planes {
            self.control_plane(plane, change, needs_provider);
        }
        if places.control_planes.is_empty() {
            self.omitted.push(
                "KubeadmControlPlane: not read; where one looks after this cluster, give it as its management cluster has it: -f FILE"
                    .to_owned(),
            );
        }
        match &places.cluster_configuration {
            None => {}
            Some(Err(why)) => self.omitted.push(format!("ConfigMap kubeadm-config: {why}")),
            Some(Ok(root)) if needs_provider && !has_provider(root) => {
                self.omitted.push(format!("ConfigMap kubeadm-config: {WITHOUT_PROVIDER}"));
            }
            Some(Ok(root)) => {
                let title = format!(
                    "{}ClusterConfiguration of kubeadm, without Cluster API: `capstan change plan --patch-type merge -f FILE` \
                     says what follows from it",
                    self.or(first)
                );
                self.placed(&title, "ConfigMap kubeadm-config", change.of_cluster_configuration(root));
            }
        }
        self.static_pods(settings, change, first);
        self.workloads(settings, change);
    }

    fn control_plane(&mut self, plane: &Value, change: &ManagerChange<'_>, needs_provider: bool) {
        let what = format!("KubeadmControlPlane {}", key(plane));
        if !has_plain_name(plane) {
            return self.omitted.push(format!("{what}: {STRANGE_NAME}"));
        }
        if plane["metadata"]["labels"].get(OWNED_BY_TOPOLOGY).is_some() {
            let why = "its Cluster's class writes it: change the class or the variables of the Cluster";
            return self.omitted.push(format!("{what}: {why}"));
        }
        if needs_provider && !has_provider(&plane["spec"]["kubeadmConfigSpec"]["clusterConfiguration"]) {
            return self.omitted.push(format!("{what}: {WITHOUT_PROVIDER}"));
        }
        let version =
            plane["apiVersion"].as_str().and_then(|version| version.split_once('/')).map_or("", |v| v.1);
        let title = format!(
            "{what}, which brings all of it and replaces its Machines one by one: kubectl patch \
             kubeadmcontrolplanes.{version}.controlplane.cluster.x-k8s.io {} --type=merge --patch-file FILE",
            addressed(plane)
        );
        self.placed(&title, &what, change.of_control_plane(plane));
    }

    /// Static pods of one text together, the holder's last.
    fn static_pods(&mut self, settings: &Settings, change: &ManagerChange<'_>, first: usize) {
        let mut pods: Vec<&Value> =
            settings.places.static_pods.iter().filter(|pod| is_concerned(pod, change)).collect();
        pods.sort_by_key(|pod| pod["spec"]["nodeName"] == settings.holder.as_str());
        let mut groups: Vec<(Result<Option<Replacement>, String>, Vec<String>)> = Vec::new();
        for pod in pods {
            let made = change.of_static_pod(pod);
            let node = text(&pod["spec"]["nodeName"]).or(text(&pod["metadata"]["name"])).unwrap_or_default();
            match groups.iter_mut().find(|(other, _)| *other == made) {
                Some((_, nodes)) => nodes.push(node.to_owned()),
                None => groups.push((made, vec![node.to_owned()])),
            }
        }
        for (made, nodes) in groups.into_iter().filter(|(made, _)| *made != Ok(None)) {
            let what = format!("static pod of {} on {}", change.manager, nodes.join(", then "));
            let title = format!(
                "{}{what}: in its manifest each of these fields, whole, in place of what it is",
                self.or(first)
            );
            self.placed(&title, &what, made);
        }
    }

    fn workloads(&mut self, settings: &Settings, change: &ManagerChange<'_>) {
        for object in settings.places.workloads.iter().filter(|object| is_concerned(object, change)) {
            let kind = text(&object["kind"]).unwrap_or_default();
            let what = format!("{kind} {}", key(object));
            if !has_plain_name(object) {
                self.omitted.push(format!("{what}: {STRANGE_NAME}"));
                continue;
            }
            if change.file != FileChange::Keep {
                self.omitted
                    .push(format!("{what}: the flags and the mount of the file go into its own manifest"));
                continue;
            }
            let title = format!(
                "kubectl patch {} {} --patch-file FILE (strategic); its pods must rest a lease duration each (minReadySeconds)",
                kind.to_lowercase(),
                addressed(object)
            );
            self.placed(&title, &what, change.of_workload(object));
        }
    }

    fn disable(&mut self, settings: &Settings) {
        let flags = [FlagChange::Remove(ENABLE), FlagChange::Remove(CONFIG)];
        let change = ManagerChange {
            manager: ManagerKind::CloudControllerManager,
            flags: &flags,
            kubelet: &[],
            file: FileChange::Keep,
        };
        self.workloads(settings, &change);
        let first = self.edits.len();
        self.static_pods(settings, &change, first);
        if let Some(why) = &settings.places.unread_workloads {
            self.omitted.push(why.clone());
        }
        if self.edits.is_empty() {
            self.omitted.push(format!(
                "cloud-controller-manager: what makes its pods was not found; take --{ENABLE} and --{CONFIG} out of its flags, \
                 keep the others, one node at a time, one lease duration apart"
            ));
        }
    }

    fn clean(&mut self, settings: &Settings) {
        let Settings { namespace, leader_name, .. } = settings;
        self.edit(
            "kubectl",
            format!(
                "kubectl -n {namespace} delete lease {leader_name}\nkubectl -n {namespace} delete rolebinding,role leader-migration:{leader_name}\n"
            ),
            "apply the rights again; the Lease is made by its next holder\n",
        );
    }
}

/// With the flags alone nobody would run the controllers.
const WITHOUT_PROVIDER: &str =
    "it gives kube-controller-manager no cloud provider, which leader migration could move";

fn has_provider(cluster_configuration: &Value) -> bool {
    let arguments = &cluster_configuration["controllerManager"]["extraArgs"];
    let provider = value_in(arguments, PROVIDER);
    provider.is_some_and(|provider| !provider.is_empty() && provider != EXTERNAL)
}

/// Does the object run the program that is changed? Of kube-controller-managers only those with a cloud provider in them.
fn is_concerned(object: &Value, change: &ManagerChange<'_>) -> bool {
    let is_it = |found: &FoundManager| {
        found.manager == change.manager
            && (found.manager == ManagerKind::CloudControllerManager || found.is_in_shell || is_source(found))
    };
    managers_in(object).iter().any(is_it)
}

fn is_source(found: &FoundManager) -> bool {
    let is_old = found.release.is_none_or(|release| release < WITHOUT_CLOUD_PROVIDER);
    let given = CommandLine::read(found.manager, &found.args).given;
    let provider = given.into_iter().rev().find(|flag| flag.name == PROVIDER).and_then(|flag| flag.value);
    is_old && provider.is_some_and(|provider| !provider.is_empty() && provider != EXTERNAL)
}

/// Characters that mean nothing to a shell or to sed.
fn is_plain(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    !text.is_empty() && text.chars().all(is_plain)
}

const STRANGE_NAME: &str = "its name is not one that the API takes";

fn has_plain_name(object: &Value) -> bool {
    let name = |value: &Value| value.as_str().unwrap_or_default().split('.').all(is_plain);
    let metadata = &object["metadata"];
    name(&metadata["name"]) && (metadata["namespace"].is_null() || name(&metadata["namespace"]))
}

fn text(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

/// `NAMESPACE/NAME`.
fn key(object: &Value) -> String {
    let metadata = &object["metadata"];
    let name = text(&metadata["name"]).unwrap_or_default();
    text(&metadata["namespace"]).map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"))
}

/// As kubectl is told.
fn addressed(object: &Value) -> String {
    let metadata = &object["metadata"];
    let mut words = text(&metadata["name"]).unwrap_or_default().to_owned();
    if let Some(namespace) = text(&metadata["namespace"]) {
        let _ = write!(words, " -n {namespace}");
    }
    words
}

/// Every text that a reader could take for something else is quoted, and none is folded.
fn yaml(value: &Value) -> String {
    let options = serde_saphyr::ser_options! { folded_wrap_chars: 1_000_000 };
    serde_saphyr::to_string_with_options(value, options)
        .unwrap_or_else(|error| format!("# not printable as YAML: {error}\n"))
}
