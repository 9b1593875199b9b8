//! `KIND/NAME` as kubectl users type it → a reference. Owns the argument and the lookup in the table of kinds; must
//! not know whether the object exists.

use std::fmt;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use capi_types::key::{Gvk, ObjectKey, ObjectRef};
use capi_types::{self as api, Served};

/// A target that cannot be understood.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TargetError {
    #[error("`{typed}` names no object; expected KIND/NAME or KIND NAME, such as machinedeployment/md-0")]
    Shape { typed: String },
    #[error("there is no kind `{typed}`; known are {known}")]
    Kind { typed: String, known: String },
}

/// A kind and a name, whose namespace is still to be said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedObject {
    gvk: Gvk,
    name: String,
}

impl NamedObject {
    /// `["md/a"]` or `["md", "a"]`.
    ///
    /// # Errors
    /// [`TargetError`].
    pub fn of(words: &[String]) -> Result<Self, TargetError> {
        let shape = || TargetError::Shape { typed: words.join(" ") };
        let (kind, name) = match words {
            [one] => one.split_once('/').ok_or_else(shape)?,
            [kind, name] => (kind.as_str(), name.as_str()),
            _ => return Err(shape()),
        };
        if name.is_empty() || name.contains('/') {
            return Err(shape());
        }
        Ok(Self { gvk: kind_named(kind)?.gvk, name: name.to_owned() })
    }

    pub fn kind(&self) -> &str {
        &self.gvk.kind
    }

    /// The object of this name there; a kind without namespaces is nowhere.
    pub fn within(&self, namespace: &str) -> ObjectRef {
        let namespace = if self.gvk.namespaced { namespace } else { "" };
        ObjectRef { gvk: self.gvk.clone(), key: ObjectKey::new(namespace, &self.name), uid: String::new() }
    }
}

impl fmt::Display for NamedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.gvk.kind, self.name)
    }
}

/// Said where an object is named and no namespace is.
pub const ALL_NAMESPACES: &str =
    "an object is named within a namespace: leave out --all-namespaces, or leave out the name";

/// The object that a command is about: an argument `target` of one word or two. A command that needs one says so with `mut_arg`,
/// and what it is there for.
#[derive(Clone, Debug, Default)]
pub struct TargetArgs(pub Option<NamedObject>);

const TARGET: &str = "target";

impl Args for TargetArgs {
    fn augment_args(command: Command) -> Command {
        command.arg(Arg::new(TARGET).value_name("TARGET").num_args(0..=2).action(ArgAction::Append))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for TargetArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let words: Vec<String> = matches.get_many(TARGET).into_iter().flatten().cloned().collect();
        if words.is_empty() {
            return Ok(Self(None));
        }
        NamedObject::of(&words).map(|object| Self(Some(object))).map_err(|error| refusal(&error))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// What clap says of values that are wrong together.
pub fn refusal(why: &dyn fmt::Display) -> clap::Error {
    clap::Error::raw(ErrorKind::ValueValidation, format!("{why}\n"))
}

/// By kind, plural, short name, or any of them with the group behind a dot; case does not matter.
///
/// # Errors
/// [`TargetError::Kind`], with the names that exist.
pub fn kind_named(typed: &str) -> Result<Served, TargetError> {
    let wanted = typed.to_ascii_lowercase();
    let (word, group) =
        wanted.split_once('.').map_or((wanted.as_str(), None), |(word, group)| (word, Some(group)));
    let served = api::served();
    let found = served.iter().find(|s| {
        let names = [s.gvk.kind.to_ascii_lowercase(), s.gvk.plural.clone()];
        let named = names.iter().any(|n| n == word) || s.short_names.contains(&word);
        // As client-go's mapper takes it, a group may be cut at a dot.
        named && group.is_none_or(|g| g == s.gvk.group || s.gvk.group.starts_with(&format!("{g}.")))
    });
    found.cloned().ok_or_else(|| TargetError::Kind {
        typed: typed.to_owned(),
        known: served.iter().map(|s| s.gvk.plural.as_str()).collect::<Vec<_>>().join(", "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<String, TargetError> {
        let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        NamedObject::of(&words).map(|object| object.within("ns").to_string())
    }

    #[test]
    fn every_way_of_naming_an_object() {
        for words in [
            &["machinedeployment/a"][..],
            &["machinedeployments/a"],
            &["md/a"],
            &["MachineDeployment", "a"],
            &["machinedeployments.cluster.x-k8s.io/a"],
        ] {
            assert_eq!(parsed(words).as_deref(), Ok("MachineDeployment ns/a"), "{words:?}");
        }
        assert_eq!(parsed(&["ext/e"]).as_deref(), Ok("ExtensionConfig e"));
        assert_eq!(parsed(&["kcp/cp"]).as_deref(), Ok("KubeadmControlPlane ns/cp"));
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert!(matches!(parsed(&["md"]), Err(TargetError::Shape { .. })));
        assert!(matches!(parsed(&["md/"]), Err(TargetError::Shape { .. })));
        let error = parsed(&["pod/a"]).expect_err("no such kind").to_string();
        assert!(error.contains("machinedeployments"), "{error}");
    }
}
