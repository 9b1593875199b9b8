//! Which processes `capstan leader-migration validate` judges: from manifests, from flags that were given, or assumed
//! from a version alone. Owns the reading of files, and which process reads which of them.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::args::{self, ValidateArgs};
use crate::exit_code::WrongUsage;
use leader_migration::controller_names::WITHOUT_CLOUD_PROVIDER;
use leader_migration::flags::{CONFIG, ENABLE, Flags};
use leader_migration::inventory::Inventory;
use leader_migration::manager_kind::ManagerKind;
use leader_migration::process::Process;
use leader_migration::reading::is_configuration;
use leader_migration::release::Release;

/// What was given, read.
pub struct Inputs {
    pub processes: Vec<Process>,
    /// What had to be assumed, and files that nobody reads.
    pub remarks: Vec<String>,
    /// Where flags are kept, in objects of files.
    pub objects: Vec<Value>,
}

/// Reads everything that the arguments name.
///
/// # Errors
/// A file that cannot be read, a flag that cannot, or a release that is not known.
pub fn gather(args: &ValidateArgs) -> anyhow::Result<Inputs> {
    let mut gathering = Gathering::of(args);
    for path in &args.files {
        gathering.path(path)?;
    }
    gathering.inputs()
}

/// The same for objects of a running cluster, beside the files of `args`.
///
/// # Errors
/// As [`gather`].
pub fn from_cluster(args: &ValidateArgs, objects: &[Value]) -> anyhow::Result<Inputs> {
    let mut gathering = Gathering { is_running: true, ..Gathering::of(args) };
    for path in &args.files {
        gathering.path(path)?;
    }
    gathering.inventory.objects("the cluster", objects);
    if gathering.inventory.is_empty() {
        bail!(
            "no pod of kube-controller-manager or cloud-controller-manager is there: is this the workload cluster?"
        );
    }
    gathering.inputs()
}

struct Gathering<'a> {
    args: &'a ValidateArgs,
    inventory: Inventory,
    /// Objects of files.
    objects: Vec<Value>,
    /// The processes are those of a running cluster: a release that is given does not add one.
    is_running: bool,
}

impl<'a> Gathering<'a> {
    fn of(args: &'a ValidateArgs) -> Self {
        Self {
            args,
            inventory: Inventory::with_releases([args.kcm_version, args.ccm_version]),
            objects: Vec::new(),
            is_running: false,
        }
    }

    fn path(&mut self, path: &Path) -> anyhow::Result<()> {
        if !path.is_dir() {
            return self.file(path);
        }
        let entries = std::fs::read_dir(path).with_context(|| format!("cannot list {}", path.display()))?;
        let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        files.retain(|file| file.extension().is_some_and(|e| e == "yaml" || e == "yml" || e == "json"));
        // The order of a folder is that of its file system: findings shall not depend on it.
        files.sort();
        files.iter().try_for_each(|file| self.file(file))
    }

    fn file(&mut self, path: &Path) -> anyhow::Result<()> {
        let (name, text) = if path == Path::new("-") {
            (
                "standard input".to_owned(),
                std::io::read_to_string(std::io::stdin()).context("cannot read standard input")?,
            )
        } else {
            let name = path.display().to_string();
            let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
            (name, text)
        };
        let objects: Result<Vec<Value>, _> = serde_saphyr::from_multiple(&text);
        let is_object = |object: &Value| object["metadata"].is_object() || object["items"].is_array();
        match objects {
            // Objects first: a ConfigMap with such a file in it would pass for the file by its text.
            Ok(objects) if objects.iter().any(is_object) => {
                self.inventory.objects(&name, &objects);
                self.objects.extend(objects);
            }
            // What is wrong with it is a finding.
            _ if is_configuration(&text) => self.inventory.file(&name, &text),
            Ok(_) => bail!(
                "{name}: expected a LeaderMigrationConfiguration, or a manifest of a controller manager"
            ),
            Err(error) => bail!("{name}: not YAML: {}", error.without_snippet()),
        }
        Ok(())
    }

    fn inputs(self) -> anyhow::Result<Inputs> {
        let mut remarks = Vec::new();
        let (mut processes, errors) = self.inventory.processes();
        if let Some(error) = errors.into_iter().next() {
            return Err(error.into());
        }
        for kind in ManagerKind::ALL {
            let (release, flags) = (self.inventory.given(kind), self.flags(kind));
            let is_found = processes.iter().any(|process| process.manager == kind);
            match (release, flags) {
                (Some(release), Some(flags)) => processes.push(self.flagged(kind, release, flags.clone())),
                // In a running cluster a program without pods does not run: nothing is assumed of it.
                (Some(release), None) if !is_found && !self.is_running => {
                    for process in self.assumed(kind, release)? {
                        remarks.push(format!(
                            "assumed: {} {release} with {}",
                            process.name,
                            assumed_flags(kind, release)
                        ));
                        processes.push(process);
                    }
                }
                _ => {}
            }
        }
        if processes.is_empty() {
            bail!(WrongUsage(
                "which release reads the files is not known: give --kcm-version, --ccm-version, or a manifest".to_owned()
            ));
        }
        remarks.extend(self.inventory.unread(&processes));
        Ok(Inputs { processes, remarks, objects: self.objects })
    }

    fn flags(&self, kind: ManagerKind) -> Option<&Flags> {
        match kind {
            ManagerKind::KubeControllerManager => self.args.kcm_flags.as_ref(),
            ManagerKind::CloudControllerManager => self.args.ccm_flags.as_ref(),
        }
    }

    fn flagged(&self, manager: ManagerKind, release: Release, flags: Flags) -> Process {
        let file = self.inventory.file_of(&flags);
        let name = manager.name().to_owned();
        Process {
            name,
            manager,
            node: None,
            release,
            is_release_assumed: false,
            flags,
            file,
            // Flags alone say nothing of mounts, so the check of mounts has to pass.
            mounts: None,
            started_at: None,
            trouble: None,
            is_ready: false,
            is_in_shell: false,
        }
    }

    /// One for each file, since nothing says which it reads.
    fn assumed(&self, kind: ManagerKind, release: Release) -> anyhow::Result<Vec<Process>> {
        let mut processes = Vec::new();
        for known in &self.inventory.files {
            let flags = args::flags(kind, &assumed_flags(kind, release))?;
            let mut process = self.flagged(kind, release, flags);
            process.flags.migration_config.clone_from(&known.name);
            process.file = known.config();
            if self.inventory.files.len() > 1 {
                process.name = format!("{kind} with {}", known.name);
            }
            processes.push(process);
        }
        Ok(processes)
    }
}

/// What such a process has during a migration.
fn assumed_flags(kind: ManagerKind, release: Release) -> String {
    let provider = match kind {
        ManagerKind::KubeControllerManager if release < WITHOUT_CLOUD_PROVIDER => "in-tree",
        ManagerKind::KubeControllerManager => "external",
        ManagerKind::CloudControllerManager => "provider",
    };
    format!("--{ENABLE} --{CONFIG}=FILE --cloud-provider={provider}")
}
