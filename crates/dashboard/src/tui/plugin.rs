//! Commands of a person's own on objects: `plugins.toml` of the configuration folder. Owns how the file is read, and which kinds take a
//! plugin; must not run one.
//!
//! ```toml
//! [ssh]
//! command = 'ssh "capi@$NAME"'      # a line for sh, with the object in its environment
//! kinds = ["Machine"]               # every kind without it
//! key = "alt-s"
//! workload-kubeconfig = true        # KUBECONFIG is that of the workload cluster
//! read-only = true                  # it changes nothing, and is offered with --read-only
//! ```

use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keymap::Keymap;
use capstan_base::text::did_you_mean;
use capstan_base::toml_file::{FileError, Source};

pub const FILE: &str = "plugins.toml";
const FIELDS: [&str; 5] = ["command", "kinds", "key", "workload-kubeconfig", "read-only"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plugin {
    /// One word.
    pub name: String,
    pub command: String,
    /// Empty: every kind.
    kinds: Vec<String>,
    key: Option<String>,
    pub takes_workload_kubeconfig: bool,
    /// The person says that it changes nothing.
    pub is_read_only: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plugins(Vec<Plugin>);

impl Plugins {
    /// Reads the file of the folder, where there is one, and binds the keys in it.
    ///
    /// # Errors
    /// File, line and what was expected.
    pub fn load(config_dir: Option<&Path>, keymap: &mut Keymap) -> Result<Self, FileError> {
        let Some(path) = config_dir.map(|folder| folder.join(FILE)) else { return Ok(Self::default()) };
        let name = path.display().to_string();
        match std::fs::read_to_string(&path) {
            Ok(text) => read(&Source::new(name, text), keymap),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(Source::new(name, "").error(&(0..0), format!("cannot be read: {error}"))),
        }
    }

    pub fn named(&self, name: &str) -> Option<&Plugin> {
        self.0.iter().find(|plugin| plugin.name == name)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|plugin| plugin.name.as_str())
    }

    /// Binds their keys in another keymap. What that binds itself stays.
    pub fn bind(&self, keymap: &mut Keymap) {
        for plugin in &self.0 {
            if let Some(key) = &plugin.key {
                let _ = keymap.bind_free(key, &line(&plugin.name));
            }
        }
    }
}

impl Plugin {
    pub fn takes(&self, kind: &str) -> bool {
        self.kinds.is_empty() || self.kinds.iter().any(|taken| taken == kind)
    }

    /// For messages.
    pub fn takers(&self) -> String {
        self.kinds.join(", ")
    }
}

fn line(name: &str) -> String {
    format!("plugin {name}")
}

fn read(source: &Source, keymap: &mut Keymap) -> Result<Plugins, FileError> {
    let document = source.parse()?;
    let mut entries: Vec<_> = document.get_ref().iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    let mut plugins = Vec::new();
    for (name, value) in entries {
        let span = name.span();
        let name = name.get_ref().as_ref();
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err(source.error(&span, "the name of a plugin is one word"));
        }
        plugins.push(plugin(source, (name, span), source.table(value, "a plugin")?, keymap)?);
    }
    Ok(Plugins(plugins))
}

fn plugin(
    source: &Source,
    (name, span): (&str, Range<usize>),
    table: &DeTable<'_>,
    keymap: &mut Keymap,
) -> Result<Plugin, FileError> {
    if let Some((field, _)) = table.iter().find(|(field, _)| !FIELDS.contains(&field.get_ref().as_ref())) {
        let hint = did_you_mean(field.get_ref(), FIELDS.into_iter());
        let message = format!("unknown field `{}`{hint}; known: {}", field.get_ref(), FIELDS.join(", "));
        return Err(source.error(&field.span(), message));
    }
    let Some(command) = table.get("command") else {
        return Err(source.error(&span, format!("plugin `{name}` needs a `command`, a line for sh")));
    };
    let key = table.get("key").map(|key| bound(source, key, name, keymap)).transpose()?;
    Ok(Plugin {
        name: name.to_owned(),
        command: source.string(command, "`command`")?.to_owned(),
        kinds: table.get("kinds").map(|kinds| names(source, kinds)).transpose()?.unwrap_or_default(),
        key,
        takes_workload_kubeconfig: flag(source, table, "workload-kubeconfig")?,
        is_read_only: flag(source, table, "read-only")?,
    })
}

fn bound(
    source: &Source,
    key: &Spanned<DeValue<'_>>,
    name: &str,
    keymap: &mut Keymap,
) -> Result<String, FileError> {
    let text = source.string(key, "`key`")?;
    keymap.bind_free(text, &line(name)).map_err(|why| source.error(&key.span(), why))?;
    Ok(text.to_owned())
}

fn names(source: &Source, kinds: &Spanned<DeValue<'_>>) -> Result<Vec<String>, FileError> {
    let wrong = || source.error(&kinds.span(), "`kinds` must be a list of kinds, such as [\"Machine\"]");
    let list = kinds.get_ref().as_array().ok_or_else(wrong)?;
    list.iter().map(|kind| source.string(kind, "a kind").map(str::to_owned)).collect()
}

fn flag(source: &Source, table: &DeTable<'_>, field: &str) -> Result<bool, FileError> {
    let Some(value) = table.get(field) else { return Ok(false) };
    let wrong = || source.error(&value.span(), format!("`{field}` must be true or false"));
    value.get_ref().as_bool().ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::command::check;
    use crate::tui::keymap::{Lookup, Mode, parse_chord};

    fn loaded(text: &str) -> Result<(Plugins, Keymap), String> {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join(FILE), text).expect("a file");
        let mut keymap = Keymap::load("default", None, check).expect("built in");
        let plugins = Plugins::load(Some(folder.path()), &mut keymap);
        let plugins =
            plugins.map_err(|error| error.to_string().rsplit('/').next().unwrap_or_default().to_owned())?;
        Ok((plugins, keymap))
    }

    #[test]
    fn a_plugin_is_read_and_its_key_bound() {
        let (plugins, keymap) =
            loaded("[ssh]\ncommand = \"ssh $NAME\"\nkinds = [\"Machine\"]\nkey = \"alt-s\"\n[top]\ncommand = \"top\"\nread-only = true\n")
                .expect("read");
        assert_eq!(plugins.names().collect::<Vec<_>>(), ["ssh", "top"]);
        let ssh = plugins.named("ssh").expect("there");
        assert!(ssh.takes("Machine") && !ssh.takes("Cluster") && !ssh.is_read_only);
        assert!(plugins.named("top").is_some_and(|top| top.takes("Cluster") && top.is_read_only));
        let keys = parse_chord("alt-s").expect("a key");
        assert!(matches!(keymap.lookup(Mode::Tree, &keys), Lookup::Run(line) if line == "plugin ssh"));
        let mut other = Keymap::load("vim", None, check).expect("built in");
        plugins.bind(&mut other);
        assert!(matches!(other.lookup(Mode::Fleet, &keys), Lookup::Run(line) if line == "plugin ssh"));
        let mut keymap = keymap;
        assert_eq!(Plugins::load(None, &mut keymap), Ok(Plugins::default()));
    }

    #[test]
    fn what_is_wrong_is_answered_with_the_line_and_what_was_expected() {
        for (text, why) in [
            ("\n[ssh]\nkinds = []", "plugins.toml:2: plugin `ssh` needs a `command`, a line for sh"),
            (
                "[ssh]\ncomand = \"x\"",
                "plugins.toml:2: unknown field `comand`; did you mean `command`?; known: ",
            ),
            ("[ssh]\ncommand = 3", "plugins.toml:2: `command` must be a string, not "),
            (
                "[ssh]\ncommand = \"x\"\nkinds = \"Machine\"",
                "plugins.toml:3: `kinds` must be a list of kinds",
            ),
            ("[ssh]\ncommand = \"x\"\nkey = \"hyper-x\"", "plugins.toml:3: `hyper-` is not a modifier"),
            ("[ssh]\ncommand = \"x\"\nkey = \"e\"", "plugins.toml:3: `e` is bound to `edit` already"),
            ("[ssh]\ncommand = \"x\"\nread-only = 1", "plugins.toml:3: `read-only` must be true or false"),
            ("[\"a b\"]\ncommand = \"x\"", "plugins.toml:1: the name of a plugin is one word"),
            ("ssh = 1", "plugins.toml:1: a plugin must be a table, not "),
            ("[ssh", "plugins.toml:1: not valid TOML"),
        ] {
            let found = loaded(text).map(|(plugins, _)| plugins).expect_err(text);
            assert!(found.starts_with(why), "{text}: {found}");
        }
    }
}
