//! Bootstrap data: the part of cloud-init that is carried out on a machine, which is what a `KubeadmConfig` renders. Owns what is
//! read and what is refused; whatever is not understood refuses the whole, before anything is sent. Must not know how it is
//! carried out.
//! Source: the contract of bootstrap providers, Cluster API v1.14.2; cloud-init 04eacd06 (2026-08).

mod accounts;
mod files;
mod mounts;
mod reading;
mod refusal;
mod template;

use std::fmt;

use serde_json::Value;

pub use accounts::UserToMake;
pub use files::FileToWrite;
pub use mounts::{MountToMake, TimeServers};
use reading::{Section, scalar};
pub use refusal::DataRefusal;
pub use template::Instance;

/// A Secret has at most 1 MiB.
const DATA_BYTES_MAX: usize = 2 * 1024 * 1024;
const TEMPLATE: &str = "## template:";
const CLOUD_CONFIG: &str = "#cloud-config";
const KEYS: [&str; 8] =
    ["write_files", "bootcmd", "runcmd", "ntp", "users", "disk_setup", "fs_setup", "mounts"];

/// A command: a line for the shell, or words that no shell takes apart.
#[derive(Clone, PartialEq, Eq)]
pub enum CommandToRun {
    Line(String),
    Words(Vec<String>),
}

/// What is to be done on a machine, in the order of its kinds; [`steps`](super::run::RunPlan::bootstrap) has the order in time.
#[derive(Clone, PartialEq, Eq)]
pub struct BootstrapData {
    pub instance_id: String,
    pub boot_commands: Vec<CommandToRun>,
    pub files: Vec<FileToWrite>,
    pub mounts: Vec<MountToMake>,
    pub users: Vec<UserToMake>,
    pub time_servers: Option<TimeServers>,
    pub commands: Vec<CommandToRun>,
}

impl fmt::Debug for BootstrapData {
    /// How much of what, since all of it may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("BootstrapData");
        shown.field("files", &self.files.len()).field("commands", &self.commands.len());
        shown.field("users", &self.users.len()).finish_non_exhaustive()
    }
}

/// # Errors
/// It is of another kind, or has something that is not carried out here: by the name of the key.
pub fn read(data: &str, instance: &Instance) -> Result<BootstrapData, DataRefusal> {
    if data.len() > DATA_BYTES_MAX {
        return Err(DataRefusal::TooLarge { bytes: data.len(), max: DATA_BYTES_MAX });
    }
    let text = rendered(data, instance)?;
    if text.lines().next().map(str::trim_end) != Some(CLOUD_CONFIG) {
        return Err(DataRefusal::Header(kind_of(&text)));
    }
    // PyYAML, which cloud-init reads with, takes `0644` as an octal number.
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    let value: Value = serde_saphyr::from_str_with_options(&text, options).map_err(|error| {
        let at = error.location();
        let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let (line, column) = at.map_or((1, 1), |at| (number(at.line()), number(at.column())));
        DataRefusal::Yaml { line, column }
    })?;
    of_value(&value, instance)
}

/// With its variables filled in, where it says that it has some.
fn rendered(data: &str, instance: &Instance) -> Result<String, DataRefusal> {
    let Some((first, rest)) = data.split_once('\n').filter(|(first, _)| first.starts_with(TEMPLATE)) else {
        return Ok(data.to_owned());
    };
    match first[TEMPLATE.len()..].trim() {
        "jinja" => template::fill_in(rest, 2, instance),
        _ => Err(DataRefusal::Header("a template of another kind")),
    }
}

/// In words, without quoting what may be secret.
fn kind_of(text: &str) -> &'static str {
    let kinds = [
        ("#!", "a script"),
        ("Content-Type:", "a MIME archive"),
        ("MIME-Version:", "a MIME archive"),
        ("{", "JSON, such as Ignition's"),
        ("#include", "a list of addresses"),
        ("#cloud-", "another document of cloud-init"),
    ];
    kinds.iter().find(|(start, _)| text.starts_with(start)).map_or("unknown", |(_, kind)| kind)
}

fn of_value(value: &Value, instance: &Instance) -> Result<BootstrapData, DataRefusal> {
    let section = Section::of(String::new(), value, &KEYS)?;
    for (key, why) in [
        ("disk_setup", "capstan partitions no disk: prepare it before, or with bootcmd"),
        ("fs_setup", "capstan makes no file system: prepare it before, or with bootcmd"),
    ] {
        let is_empty = |value: &Value| {
            value.as_object().is_some_and(serde_json::Map::is_empty) || *value == Value::Array(Vec::new())
        };
        if section.get(key).is_some_and(|value| !is_empty(value)) {
            return Err(DataRefusal::unsupported(key, why));
        }
    }
    let each = section.list("mounts")?;
    Ok(BootstrapData {
        instance_id: instance.instance_id.clone(),
        boot_commands: commands(&section, "bootcmd")?,
        files: section
            .list("write_files")?
            .into_iter()
            .map(|(path, file)| files::read(path, file))
            .collect::<Result<_, _>>()?,
        mounts: each.iter().map(|(path, mount)| mounts::read(path, mount)).collect::<Result<_, _>>()?,
        users: section
            .list("users")?
            .into_iter()
            .map(|(path, user)| accounts::read(path, user))
            .collect::<Result<_, _>>()?,
        time_servers: section.get("ntp").map(mounts::read_ntp).transpose()?.flatten(),
        commands: commands(&section, "runcmd")?,
    })
}

/// An entry that is null is a comment in YAML, and none.
fn commands(section: &Section<'_>, key: &str) -> Result<Vec<CommandToRun>, DataRefusal> {
    let entries = section.list(key)?.into_iter().filter(|(_, value)| !value.is_null());
    entries
        .map(|(path, value)| match value {
            Value::String(line) => Ok(CommandToRun::Line(line.clone())),
            Value::Array(words) => {
                let words = words.iter().enumerate().map(|(at, word)| scalar(format!("{path}[{at}]"), word));
                words.collect::<Result<_, _>>().map(CommandToRun::Words)
            }
            _ => Err(DataRefusal::value(path, "a text or a list of texts")),
        })
        .collect()
}

#[cfg(test)]
mod tests;
