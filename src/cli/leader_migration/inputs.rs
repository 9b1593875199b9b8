//! Which processes `capstan leader-migration validate` judges: from manifests, from flags that were given, or assumed
//! from a version alone. Owns the reading of files, and which process reads which of them.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::args::ValidateArgs;
use crate::leader_migration::controller_names::WITHOUT_CLOUD_PROVIDER;
use crate::leader_migration::flags::{CONFIG, ENABLE, Flags};
use crate::leader_migration::manager_kind::ManagerKind;
use crate::leader_migration::manifest::{FoundManager, configurations_in, managers_in};
use crate::leader_migration::process::{ConfigFile, Process};
use crate::leader_migration::reading::{Reading, is_configuration, read};
use crate::leader_migration::release::Release;

/// What was given, read.
pub struct Inputs {
    pub processes: Vec<Process>,
    /// What had to be assumed, and files that nobody reads.
    pub remarks: Vec<String>,
}

struct Source {
    name: String,
    reading: Reading,
}

/// Reads everything that the arguments name.
///
/// # Errors
/// A file that cannot be read, a flag that cannot, or a release that is not known.
pub fn gather(args: &ValidateArgs) -> anyhow::Result<Inputs> {
    let mut gathering = Gathering { args, sources: Vec::new(), found: Vec::new() };
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
    let mut gathering = Gathering { args, sources: Vec::new(), found: Vec::new() };
    for path in &args.files {
        gathering.path(path)?;
    }
    gathering.objects("the cluster", objects);
    if gathering.found.is_empty() {
        bail!(
            "no pod of kube-controller-manager or cloud-controller-manager is there: is this the workload cluster?"
        );
    }
    gathering.inputs()
}

struct Gathering<'a> {
    args: &'a ValidateArgs,
    sources: Vec<Source>,
    /// With the file that each is from.
    found: Vec<(String, FoundManager)>,
}

impl Gathering<'_> {
    fn path(&mut self, path: &Path) -> anyhow::Result<()> {
        if !path.is_dir() {
            return self.file(path);
        }
        let entries = std::fs::read_dir(path).with_context(|| format!("cannot list {}", path.display()))?;
        let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        files.retain(|file| file.extension().is_some_and(|e| e == "yaml" || e == "yml" || e == "json"));
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
            Ok(objects) if objects.iter().any(is_object) => self.objects(&name, &objects),
            // What is wrong with it is a finding.
            _ if is_configuration(&text) => self.sources.push(Source { name, reading: read(&text) }),
            Ok(_) => bail!(
                "{name}: expected a LeaderMigrationConfiguration, or a manifest of a controller manager"
            ),
            Err(error) => bail!("{name}: not YAML: {}", error.without_snippet()),
        }
        Ok(())
    }

    fn objects(&mut self, file: &str, objects: &[Value]) {
        for object in objects {
            self.found.extend(managers_in(object).into_iter().map(|found| (file.to_owned(), found)));
            let files = configurations_in(object).into_iter();
            self.sources.extend(files.map(|(name, text)| Source { name, reading: read(&text) }));
        }
    }

    fn inputs(self) -> anyhow::Result<Inputs> {
        let mut remarks = Vec::new();
        let mut processes = Vec::new();
        for (file, found) in &self.found {
            processes.push(self.described(file, found)?);
        }
        for kind in ManagerKind::ALL {
            let (release, flags) = self.given(kind);
            let is_found = processes.iter().any(|process| process.manager == kind);
            match (release, flags) {
                (Some(release), Some(flags)) => processes.push(self.flagged(kind, release, flags)?),
                (Some(release), None) if !is_found => {
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
            bail!(
                "which release reads the files is not known: give --kcm-version, --ccm-version, or a manifest"
            );
        }
        remarks.extend(self.unread(&processes));
        Ok(Inputs { processes, remarks })
    }

    fn given(&self, kind: ManagerKind) -> (Option<Release>, Option<&str>) {
        match kind {
            ManagerKind::KubeControllerManager => (self.args.kcm_version, self.args.kcm_flags.as_deref()),
            ManagerKind::CloudControllerManager => (self.args.ccm_version, self.args.ccm_flags.as_deref()),
        }
    }

    fn described(&self, file: &str, found: &FoundManager) -> anyhow::Result<Process> {
        let given = self.given(found.manager).0;
        let Some(release) = given.or(found.release) else {
            let option = format!("--{}-version", found.manager.short().to_lowercase());
            bail!("{file}: the release of {} is not in its image's tag: give {option}", found.name);
        };
        let is_only = self.found.iter().filter(|(_, other)| other.name == found.name).count() == 1;
        let name = if is_only { found.name.clone() } else { format!("{} in {file}", found.name) };
        let flags =
            Flags::parse(found.manager, &found.args).with_context(|| format!("{file}: {}", found.name))?;
        Ok(Process {
            file: self.file_of(&flags),
            name,
            manager: found.manager,
            node: found.node.clone(),
            release,
            is_release_assumed: given.is_none(),
            flags,
            mounts: Some(found.mounts.clone()),
        })
    }

    fn flagged(&self, manager: ManagerKind, release: Release, flags: &str) -> anyhow::Result<Process> {
        let option = format!("--{}-flags", manager.short().to_lowercase());
        let words: Vec<String> = flags.split_whitespace().map(str::to_owned).collect();
        let flags = Flags::parse(manager, &words).context(option)?;
        let file = self.file_of(&flags);
        let name = manager.name().to_owned();
        Ok(Process {
            name,
            manager,
            node: None,
            release,
            is_release_assumed: false,
            flags,
            file,
            mounts: None,
        })
    }

    /// One for each file, since nothing says which it reads.
    fn assumed(&self, kind: ManagerKind, release: Release) -> anyhow::Result<Vec<Process>> {
        let mut processes = Vec::new();
        for source in &self.sources {
            let mut process = self.flagged(kind, release, &assumed_flags(kind, release))?;
            process.flags.migration_config.clone_from(&source.name);
            process.file = source.file();
            if self.sources.len() > 1 {
                process.name = format!("{kind} with {}", source.name);
            }
            processes.push(process);
        }
        Ok(processes)
    }

    /// The given file of the same path or, failing that, of the same name; a single one is everybody's.
    fn file_of(&self, flags: &Flags) -> ConfigFile {
        let path = &flags.migration_config;
        if path.is_empty() {
            return ConfigFile::BuiltIn;
        }
        let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let same_path = self.sources.iter().find(|source| source.name == *path);
        let same_name = || self.sources.iter().find(|source| last(&source.name) == last(path));
        let single = || self.sources.first().filter(|_| self.sources.len() == 1);
        match same_path.or_else(same_name).or_else(single) {
            Some(source) => source.file(),
            None => ConfigFile::NotKnown { path: path.clone() },
        }
    }

    fn unread(&self, processes: &[Process]) -> Vec<String> {
        let is_read = |source: &&Source| {
            processes
                .iter()
                .any(|process| matches!(&process.file, ConfigFile::Read { name, .. } if *name == source.name))
        };
        let unread = self.sources.iter().filter(|source| !is_read(source));
        unread
            .map(|source| format!("{} is read by none of these processes and was not judged", source.name))
            .collect()
    }
}

impl Source {
    fn file(&self) -> ConfigFile {
        ConfigFile::Read { name: self.name.clone(), reading: self.reading.clone() }
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
