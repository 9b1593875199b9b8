//! The controller managers of a cluster or of files, and which migration file each of them reads. Owns the choice of
//! the file and what has to be assumed; must not know who read the objects.

use std::collections::BTreeMap;

use serde_json::Value;

use super::controller_names::Function;
use super::flags::{FlagError, Flags};
use super::manager_kind::ManagerKind;
use super::manifest::{FileOrigin, FoundFile, FoundManager, configurations_in, managers_in};
use super::process::{ConfigFile, Process};
use super::reading::{Reading, read};
use super::release::Release;
use super::writing;
use capstan_base::text::sanitize_line;

/// A process that cannot be described.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InventoryError {
    /// The image has no tag that names a release, and nobody gave one.
    #[error("{origin}: the release of {name} is not in its image's tag: give --{short}-version")]
    Release {
        /// The file or object where the process was found.
        origin: String,
        /// Of the program.
        name: String,
        /// `kcm` or `ccm`, as the flag begins that helps.
        short: String,
    },
    /// A value that the program refuses as well.
    #[error("{origin}: {name}: {why}")]
    Flag {
        /// The file or object where the process was found.
        origin: String,
        /// Of the process.
        name: String,
        /// The flag, and which values it takes.
        why: FlagError,
    },
}

/// A migration file that is known.
#[derive(Clone, Debug)]
pub struct KnownFile {
    /// A path, or the key in its ConfigMap.
    pub name: String,
    /// The ConfigMap that it is a key of.
    pub config_map: Option<String>,
    /// What its text says, and what is wrong with it.
    pub reading: Reading,
}

impl KnownFile {
    /// The file as a process that reads it has it.
    pub fn config(&self) -> ConfigFile {
        ConfigFile::Read { name: self.name.clone(), reading: self.reading.clone() }
    }
}

/// What was found so far.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    /// In the order in which they were given.
    pub files: Vec<KnownFile>,
    /// With where each was found.
    found: Vec<(String, FoundManager)>,
    /// Releases that somebody named, which count before those of images: of the old manager, of the cloud's.
    given: [Option<Release>; 2],
}

impl Inventory {
    /// Nothing yet, with the releases that somebody named: of kube-controller-manager, of cloud-controller-manager.
    pub fn with_releases(given: [Option<Release>; 2]) -> Self {
        Self { given, ..Self::default() }
    }

    /// The release that somebody named for this program, if any.
    pub fn given(&self, kind: ManagerKind) -> Option<Release> {
        match kind {
            ManagerKind::KubeControllerManager => self.given[0],
            ManagerKind::CloudControllerManager => self.given[1],
        }
    }

    /// A file that is meant to be a migration file.
    pub fn file(&mut self, name: &str, text: &str) {
        self.files.push(KnownFile { name: name.to_owned(), config_map: None, reading: read(text) });
    }

    /// Every controller manager and every file of objects, whatever they are. `origin`: where they are from.
    pub fn objects(&mut self, origin: &str, objects: &[Value]) {
        for object in objects {
            self.found.extend(managers_in(object).into_iter().map(|found| (origin.to_owned(), found)));
            for FoundFile { config_map, key, text } in configurations_in(object) {
                self.files.push(KnownFile { name: key, config_map: Some(config_map), reading: read(&text) });
            }
        }
    }

    /// No controller manager was found.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// What was found, as processes; and what cannot be described.
    pub fn processes(&self) -> (Vec<Process>, Vec<InventoryError>) {
        let (mut processes, mut errors) = (Vec::new(), Vec::new());
        for (origin, found) in &self.found {
            match self.described(origin, found) {
                Ok(process) => processes.push(process),
                Err(error) => errors.push(error),
            }
        }
        (processes, errors)
    }

    fn described(&self, origin: &str, found: &FoundManager) -> Result<Process, InventoryError> {
        let (origin, name) = (origin.to_owned(), found.name.clone());
        // What somebody names counts before the tag: a provider's tag need not follow its library.
        let given = self.given(found.manager);
        // Names of controllers and versions of the file depend on the release: none is assumed.
        let Some(release) = given.or(found.release) else {
            let short = found.manager.short().to_lowercase();
            return Err(InventoryError::Release { origin, name, short });
        };
        // Manifests of several hosts have equal names: then the name of the file is added.
        let is_only = self.found.iter().filter(|(_, other)| other.name == found.name).count() == 1;
        let shown = if is_only { name.clone() } else { format!("{name} in {origin}") };
        let flags = Flags::parse(found.manager, &found.args).map_err(|why| InventoryError::Flag {
            origin,
            name,
            why,
        })?;
        Ok(Process {
            file: self.file_in(found, &flags),
            name: shown,
            manager: found.manager,
            node: found.node.clone(),
            release,
            is_release_assumed: given.is_none(),
            flags,
            mounts: Some(found.mounts.clone()),
            started_at: found.started_at,
            trouble: found.trouble.clone(),
            is_ready: found.is_ready,
            is_in_shell: found.is_in_shell,
        })
    }

    /// The file of a process whose manifest may say where it is from: what a ConfigMap holds is not on a host.
    fn file_in(&self, found: &FoundManager, flags: &Flags) -> ConfigFile {
        match found.origin_of(&flags.migration_config) {
            FileOrigin::ConfigMap { name, key } => {
                let is_it = |file: &&KnownFile| file.config_map.as_ref() == Some(&name) && file.name == key;
                match self.files.iter().find(is_it) {
                    Some(file) => file.config(),
                    // The ConfigMap was not given: a file of the same name may be what it holds.
                    None => self.file_among(flags, |file| file.config_map.is_none()),
                }
            }
            // A file of a host is never that of a ConfigMap, though their names are equal.
            FileOrigin::Other => self.file_among(flags, |file| file.config_map.is_none()),
            FileOrigin::NotKnown => self.file_of(flags),
        }
    }

    /// The known file of the same path or, failing that, of the same name; a single one is everybody's.
    pub fn file_of(&self, flags: &Flags) -> ConfigFile {
        self.file_among(flags, |_| true)
    }

    fn file_among(&self, flags: &Flags, counts: impl Fn(&KnownFile) -> bool) -> ConfigFile {
        let path = &flags.migration_config;
        if path.is_empty() {
            return ConfigFile::BuiltIn;
        }
        // People name a file by where they keep it, not by where its container sees it.
        let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let files: Vec<&KnownFile> = self.files.iter().filter(|file| counts(file)).collect();
        let same_path = files.iter().find(|file| file.name == *path);
        let same_name = || files.iter().find(|file| last(&file.name) == last(path));
        // With several files a guess could judge a process by the file of another one.
        let single = || files.first().filter(|_| files.len() == 1);
        match same_path.or_else(same_name).or_else(single) {
            Some(file) => file.config(),
            None => ConfigFile::NotKnown { path: path.clone() },
        }
    }

    /// Files that none of the processes reads, in sentences.
    pub fn unread(&self, processes: &[Process]) -> Vec<String> {
        let is_read = |file: &&KnownFile| {
            processes
                .iter()
                .any(|process| matches!(&process.file, ConfigFile::Read { name, .. } if *name == file.name))
        };
        let unread = self.files.iter().filter(|file| !is_read(file));
        unread
            .map(|file| format!("{} is read by none of these processes and was not judged", file.name))
            .collect()
    }
}

/// [`assume_file`] for each of them, with one remark for those that are alike.
pub fn assume_files(processes: &mut [Process], leader_name: &str, functions: &[Function]) -> Vec<String> {
    let mut assumed: BTreeMap<(ManagerKind, String), Vec<String>> = BTreeMap::new();
    for process in processes {
        // Every control plane host has such a process, and one remark is enough for all.
        let alike = (process.manager, process.flags.migration_config.clone());
        if let Some(remark) = assume_file(process, leader_name, functions) {
            assumed.entry(alike).or_default().push(remark);
        }
    }
    let said = |((manager, path), mut remarks): ((ManagerKind, String), Vec<String>)| match remarks.len() {
        1 => remarks.remove(0),
        all => format!(
            "assumed: {} of {all} {manager}s is what `capstan leader-migration generate` writes; -f FILE gives what it is",
            sanitize_line(&path)
        ),
    };
    assumed.into_iter().map(said).collect()
}

/// A file on a host cannot be read through the API: it is taken for what `generate` writes. The remark says so.
pub fn assume_file(process: &mut Process, leader_name: &str, functions: &[Function]) -> Option<String> {
    let ConfigFile::NotKnown { path } = &process.file else { return None };
    let (configuration, version) = writing::generate(leader_name, functions, "*", process.release)?;
    let remark = format!(
        "assumed: {path} of {} is what `capstan leader-migration generate` writes; -f FILE gives what it is",
        sanitize_line(&process.name)
    );
    let reading = read(&writing::write(&configuration, version));
    process.file = ConfigFile::Read { name: format!("{path} (assumed)"), reading };
    Some(remark)
}
