//! What to change for a stage, and how to take it back, as text for people: files, flags, objects. What is printed for an
//! object has its lists whole, as they are with the change made; where an object was not read, nothing is printed for it.
//! Must not know whether a change is done.

use serde_json::{Value, json};

use super::command_line::CommandLine;
use super::configuration::{ConfigVersion, Configuration};
use super::controller_names::{Function, WITHOUT_CLOUD_PROVIDER};
use super::flag_lists::{FlagChange, value_in};
use super::flag_places::FlagPlaces;
use super::flags::{CONFIG, ENABLE};
use super::manager_kind::ManagerKind;
use super::manifest::{FoundManager, managers_in};
use super::object_words::{STRANGE_NAME, addressed, has_plain_name, is_plain, key, text, yaml};
use super::place_edits::{FileChange, ManagerChange, Replacement};
use super::release::Release;
use super::rights::{Grantee, role};
use super::stages::MigrationStage;
use super::writing::{generate, write};

/// Where the file is on hosts and in containers.
pub const PATH: &str = "/etc/kubernetes/leader-migration.yaml";
/// The same in a cloud-controller-manager, whose ConfigMap is mounted as a folder.
pub(super) const CLOUD_PATH: &str = "/etc/leader-migration/leader-migration.yaml";
pub(super) const PROVIDER: &str = "cloud-provider";
pub(super) const EXTERNAL: &str = "external";
/// The Cluster writes such a control plane by its class.
const OWNED_BY_TOPOLOGY: &str = "topology.cluster.x-k8s.io/owned";

/// One change with its inverse.
#[derive(Clone, Debug, PartialEq)]
pub struct StageEdit {
    /// What is changed and where, as one line.
    pub title: String,
    /// What to paste or apply: YAML, a patch, or commands, with a sentence before it.
    pub text: String,
    /// The same that brings back what was there.
    pub inverse: String,
    /// What a program does to make the change.
    pub act: EditAct,
    /// Whether it stands beside the others or in place of some.
    pub role: EditRole,
}

/// What a program does to make a change.
#[derive(Clone, Debug, PartialEq)]
pub enum EditAct {
    /// Nothing: people make it, on hosts or in an object that is not here.
    ByHand,
    /// Each object is made, or brought to this content.
    Apply(Vec<Value>),
    /// The object gets a merge patch whose lists are whole.
    Patch {
        /// As it was read.
        object: Value,
        /// As it is sent.
        patch: Value,
        /// The merge patch that brings back what was there.
        inverse: Value,
    },
    /// kubeadm's ClusterConfiguration gets a merge patch, from which other steps follow.
    Configuration(Value),
    /// Each object is deleted.
    Delete(Vec<Value>),
}

/// How changes of one stage stand to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditRole {
    /// It is needed in any case.
    Each,
    /// A KubeadmControlPlane brings it to its hosts.
    Host,
    /// One of several places for the same change.
    Place,
}

/// All changes of a stage.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StageEdits {
    /// In the order in which they are made.
    pub edits: Vec<StageEdit>,
    /// For which objects nothing is printed, and why.
    pub omitted: Vec<String>,
    /// Which of the places of one change the others follow from.
    pub owner: PlaceOwner,
}

/// Where the flags of the static pods of a cluster come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlaceOwner {
    /// The manifests on its hosts.
    #[default]
    Hosts,
    /// kubeadm's configuration.
    Kubeadm,
    /// A KubeadmControlPlane, which makes its hosts anew.
    ControlPlane,
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
    pub(super) fn file(&self, release: Release) -> String {
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
        // These two only look and wait.
        MigrationStage::Preflight | MigrationStage::Settle => {}
        MigrationStage::Grant => made.grant(settings),
        MigrationStage::Enable => made.enable(settings),
        MigrationStage::Introduce => {
            // The cloud's process first: otherwise no process would run the controllers between the two.
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
    /// The changes that are enough, in their order: of the places of one change only that of the owner. A KubeadmControlPlane
    /// brings what is on hosts too.
    pub fn way(&self) -> Vec<&StageEdit> {
        // An owner writes the lower places anew: what is changed there is taken back by its next rollout.
        let is_owners = |act: &EditAct| match self.owner {
            PlaceOwner::Hosts => true,
            PlaceOwner::Kubeadm => matches!(act, EditAct::Configuration(_)),
            PlaceOwner::ControlPlane => matches!(act, EditAct::Patch { .. }),
        };
        let is_enough = |edit: &&StageEdit| match edit.role {
            EditRole::Each => true,
            EditRole::Host => self.owner != PlaceOwner::ControlPlane,
            EditRole::Place => is_owners(&edit.act),
        };
        self.edits.iter().filter(is_enough).collect()
    }

    pub(super) fn edit(&mut self, title: &str, text: String, inverse: &str, act: EditAct) {
        let inverse = inverse.to_owned();
        self.edits.push(StageEdit { title: title.to_owned(), text, inverse, act, role: EditRole::Each });
    }

    pub(super) fn on_hosts(&mut self, title: &str, text: String, inverse: &str) {
        self.edit(title, text, inverse, EditAct::ByHand);
        self.is(EditRole::Host);
    }

    /// Says so of the last one.
    pub(super) fn is(&mut self, role: EditRole) {
        if let Some(last) = self.edits.last_mut() {
            last.role = role;
        }
    }

    /// What was made of an object, whatever came of it. `act`: what a program does with the patch and its inverse.
    fn placed(
        &mut self,
        title: &str,
        what: &str,
        made: Result<Option<Replacement>, String>,
        act: impl FnOnce(Value, Value) -> EditAct,
    ) {
        match made {
            Ok(Some(Replacement { patch, inverse })) => {
                let (text, back) = (yaml(&patch), yaml(&inverse));
                self.edit(title, text, &back, act(patch, inverse));
                self.is(EditRole::Place);
            }
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

    pub(super) fn grant(&mut self, settings: &Settings) {
        let Settings { namespace, leader_name, .. } = settings;
        let text = role(namespace, leader_name, &settings.subjects);
        let objects = serde_saphyr::from_multiple(&text).unwrap_or_default();
        self.edit(
            "kubectl apply -f -",
            text,
            &format!("kubectl -n {namespace} delete rolebinding,role leader-migration:{leader_name}\n"),
            EditAct::Apply(objects),
        );
    }

    fn enable(&mut self, settings: &Settings) {
        // A static pod cannot mount a ConfigMap: its file has to be on the host before the flags.
        let text = settings.file(settings.releases.0);
        self.on_hosts(
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
            EditAct::Apply(vec![map]),
        );
        if settings.places.runs_cloud() {
            // A provider's manifest has more than is known here: nothing may be printed that replaces it.
            return self.omitted.push("cloud-controller-manager: it is there already".to_owned());
        }
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
            EditAct::ByHand,
        );
    }

    /// The old processes give their cloud provider up.
    fn without_provider(&mut self, settings: &Settings) {
        let flags =
            // With the flag a process without a provider could win the migration lock and run
            // nothing.
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
            self.on_hosts(
                "on each of these hosts, its kubelet",
                word(provider, EXTERNAL),
                &word(EXTERNAL, provider),
            );
        }
    }

    /// One change of kube-controller-manager in each of the places where it may be made.
    pub(super) fn kube(&mut self, settings: &Settings, change: &ManagerChange<'_>, needs_provider: bool) {
        let (places, first) = (&settings.places, self.edits.len());
        self.owner = owner(places, needs_provider);
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
                // `change` keeps a record of its own, by which it is taken back.
                let act = |patch, _| EditAct::Configuration(patch);
                self.placed(&title, "ConfigMap kubeadm-config", change.of_cluster_configuration(root), act);
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
        let act = |patch, inverse| EditAct::Patch { object: plane.clone(), patch, inverse };
        self.placed(&title, &what, change.of_control_plane(plane), act);
    }

    /// Static pods of one text together, the holder's last.
    pub(super) fn static_pods(&mut self, settings: &Settings, change: &ManagerChange<'_>, first: usize) {
        let mut pods: Vec<&Value> =
            settings.places.static_pods.iter().filter(|pod| is_concerned(pod, change)).collect();
        // The holder keeps the controllers until the others have been restarted.
        pods.sort_by_key(|pod| pod["spec"]["nodeName"] == settings.holder.as_str());
        let mut groups: Vec<(Result<Option<Replacement>, String>, Vec<String>)> = Vec::new();
        for pod in pods {
            let made = change.of_static_pod(pod);
            let node = text(&pod["spec"]["nodeName"]).or(text(&pod["metadata"]["name"])).unwrap_or_default();
            match groups.iter_mut().find(|(other, _)| *other == made) {
                // Fields that are equal are printed once, whatever the number of nodes.
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
            self.placed(&title, &what, made, |_, _| EditAct::ByHand);
        }
    }

    pub(super) fn workloads(&mut self, settings: &Settings, change: &ManagerChange<'_>) {
        for object in settings.places.workloads.iter().filter(|object| is_concerned(object, change)) {
            let kind = text(&object["kind"]).unwrap_or_default();
            let what = format!("{kind} {}", key(object));
            if !has_plain_name(object) {
                self.omitted.push(format!("{what}: {STRANGE_NAME}"));
                continue;
            }
            // How the file gets into its pods is not known here, and a flag without the file ends
            // the process.
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
            let whole = change.of_whole_workload(object);
            let act = |_, _| whole.ok().flatten().map_or(EditAct::ByHand, |made| made.of(object));
            self.placed(&title, &what, change.of_workload(object), act);
            // Nothing else writes the flags of a workload: its patch is not one of several places.
            self.is(EditRole::Each);
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

    pub(super) fn clean(&mut self, settings: &Settings) {
        let Settings { namespace, leader_name, .. } = settings;
        self.edit(
            "kubectl",
            format!(
                "kubectl -n {namespace} delete lease {leader_name}\nkubectl -n {namespace} delete rolebinding,role leader-migration:{leader_name}\n"
            ),
            "apply the rights again; the Lease is made by its next holder\n",
            EditAct::Delete(temporary(namespace, leader_name)),
        );
    }
}

impl Replacement {
    fn of(self, object: &Value) -> EditAct {
        EditAct::Patch { object: object.clone(), patch: self.patch, inverse: self.inverse }
    }
}

/// What only the migration needed, the Lease first: whoever may not write it does not take it any more.
fn temporary(namespace: &str, leader_name: &str) -> Vec<Value> {
    let rights = format!("leader-migration:{leader_name}");
    let object = |api_version: &str, kind: &str, name: &str| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": namespace}});
    vec![
        object("coordination.k8s.io/v1", "Lease", leader_name),
        object("rbac.authorization.k8s.io/v1", "RoleBinding", &rights),
        object("rbac.authorization.k8s.io/v1", "Role", &rights),
    ]
}

/// With the flags alone nobody would run the controllers.
const WITHOUT_PROVIDER: &str =
    "it gives kube-controller-manager no cloud provider, which leader migration could move";

fn has_provider(cluster_configuration: &Value) -> bool {
    let arguments = &cluster_configuration["controllerManager"]["extraArgs"];
    let provider = value_in(arguments, PROVIDER);
    provider.is_some_and(|provider| !provider.is_empty() && provider != EXTERNAL)
}

fn owner(places: &FlagPlaces, needs_provider: bool) -> PlaceOwner {
    match &places.cluster_configuration {
        // A KubeadmControlPlane writes kubeadm's configuration, which writes the manifests: the
        // uppermost one owns.
        _ if !places.control_planes.is_empty() => PlaceOwner::ControlPlane,
        Some(Ok(root)) if !needs_provider || has_provider(root) => PlaceOwner::Kubeadm,
        _ => PlaceOwner::Hosts,
    }
}

/// Does the object run the program that is changed? Of kube-controller-managers only those with a cloud provider in them, unless
/// they get one.
fn is_concerned(object: &Value, change: &ManagerChange<'_>) -> bool {
    let gives_provider =
        |flag: &FlagChange<'_>| matches!(flag, FlagChange::Set(PROVIDER, value) if *value != EXTERNAL);
    let is_any =
        // On the way back the process has no provider yet, and it is the one that gets it.
        change.manager == ManagerKind::CloudControllerManager || change.flags.iter().any(gives_provider);
    let is_it = |found: &FoundManager| {
        // Flags within a line of a shell are not seen: it may have a provider.
        found.manager == change.manager && (is_any || found.is_in_shell || is_source(found))
    };
    managers_in(object).iter().any(is_it)
}

fn is_source(found: &FoundManager) -> bool {
    // An unknown release may have providers in it, so it counts as one that has.
    let is_old = found.release.is_none_or(|release| release < WITHOUT_CLOUD_PROVIDER);
    let given = CommandLine::read(found.manager, &found.args).given;
    let provider = given.into_iter().rev().find(|flag| flag.name == PROVIDER).and_then(|flag| flag.value);
    is_old && provider.is_some_and(|provider| !provider.is_empty() && provider != EXTERNAL)
}
