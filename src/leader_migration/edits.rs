//! What to change for a stage, and how to take it back, as text for people: files, flags, objects. Must not know
//! whether it is done.

use std::fmt::Write as _;

use super::configuration::{ConfigVersion, Configuration};
use super::controller_names::Function;
use super::flags::{CONFIG, ENABLE};
use super::release::Release;
use super::rights::{Grantee, role};
use super::stages::MigrationStage;
use super::writing::{generate, write};

/// Where the file is on hosts and in containers.
pub const PATH: &str = "/etc/kubernetes/leader-migration.yaml";

/// One change with its inverse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageEdit {
    pub title: String,
    pub text: String,
    pub inverse: String,
}

/// What the edits depend on.
#[derive(Clone, Debug)]
pub struct Settings {
    pub namespace: String,
    pub leader_name: String,
    pub functions: Vec<Function>,
    pub subjects: Vec<Grantee>,
    /// Of the old kube-controller-manager; of the library in cloud-controller-manager.
    pub releases: (Release, Release),
}

impl Settings {
    fn file(&self, release: Release) -> String {
        let made = generate(&self.leader_name, &self.functions, "*", release);
        made.map_or_else(String::new, |(configuration, version): (Configuration, ConfigVersion)| {
            write(&configuration, version)
        })
    }
}

#[must_use]
pub fn edits(stage: MigrationStage, settings: &Settings) -> Vec<StageEdit> {
    let edit = |title: &str, text: String, inverse: &str| StageEdit {
        title: title.to_owned(),
        text,
        inverse: inverse.to_owned(),
    };
    match stage {
        MigrationStage::Preflight | MigrationStage::Handover | MigrationStage::Settle => Vec::new(),
        MigrationStage::Grant => vec![edit(
            "kubectl apply -f -",
            role(&settings.namespace, &settings.leader_name, &settings.subjects),
            &format!(
                "kubectl -n {0} delete rolebinding,role leader-migration:{1}\n",
                settings.namespace, settings.leader_name
            ),
        )],
        MigrationStage::Enable => vec![
            edit(
                &format!("{PATH} on every control plane host, before the next edit"),
                settings.file(settings.releases.0),
                &format!("remove {PATH} after the flags are gone\n"),
            ),
            edit(
                "ClusterConfiguration of kubeadm; `capstan change plan -f FILE` says what follows from it",
                cluster_configuration(),
                "remove the same entries; `capstan change plan` takes them as null\n",
            ),
            edit(
                "or KubeadmControlPlane: spec.kubeadmConfigSpec, which brings the file too",
                kubeadm_config_spec(&settings.file(settings.releases.0)),
                "remove the same entries\n",
            ),
        ],
        MigrationStage::Introduce => vec![
            edit(
                "the new release's nodes: kube-controller-manager without migration flags",
                without_cloud(),
                "the old release with the flags of the stage before\n",
            ),
            edit(
                "cloud-controller-manager: flags, and the file from a ConfigMap",
                format!(
                    "- --{ENABLE}=true\n- --{CONFIG}={PATH}\n- --leader-elect=true\n---\n{}",
                    settings.file(settings.releases.1)
                ),
                "remove it from the node after its kube-controller-manager has the old release again\n",
            ),
        ],
        MigrationStage::Disable => vec![edit(
            "cloud-controller-manager, one at a time, one lease duration apart: remove",
            format!("- --{ENABLE}=true\n- --{CONFIG}={PATH}\n"),
            "add them again\n",
        )],
        MigrationStage::Clean => vec![edit(
            "kubectl",
            format!(
                "kubectl -n {0} delete lease {1}\nkubectl -n {0} delete rolebinding,role leader-migration:{1}\n",
                settings.namespace, settings.leader_name
            ),
            "apply the rights again; the Lease is made by its next holder\n",
        )],
    }
}

/// kubeadm v1beta4, whose arguments are a list. `File` keeps the pod from starting without the file.
fn cluster_configuration() -> String {
    format!(
        "controllerManager:
  extraArgs:
    - name: {ENABLE}
      value: \"true\"
    - name: {CONFIG}
      value: {PATH}
  extraVolumes:
    - name: leader-migration
      hostPath: {PATH}
      mountPath: {PATH}
      readOnly: true
      pathType: File
"
    )
}

/// The same for Cluster API: one edit, with which every control plane Machine is replaced, one by one.
fn kubeadm_config_spec(file: &str) -> String {
    let mut text = String::from("clusterConfiguration:\n");
    for line in cluster_configuration().lines() {
        let _ = writeln!(text, "  {line}");
    }
    let _ = write!(
        text,
        "files:\n  - path: {PATH}\n    owner: root:root\n    permissions: \"0644\"\n    content: |\n"
    );
    for line in file.lines() {
        let _ = writeln!(text, "      {line}");
    }
    text
}

fn without_cloud() -> String {
    "controllerManager:
  extraArgs:
    - name: cloud-provider
      value: external
nodeRegistration:
  kubeletExtraArgs:
    - name: cloud-provider
      value: external
"
    .to_owned()
}
