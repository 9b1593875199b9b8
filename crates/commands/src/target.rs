//! `KIND/NAME` as kubectl users type it → a reference. Owns the argument and the lookup among the kinds: those of the table, of a server, or
//! of files; must not know whether the object exists.

use std::fmt;

use anyhow::anyhow;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use capi_rules::status::contract::definition;
use capi_types::key::{Gvk, ObjectKey, ObjectRef};
use capi_types::{self as api, Served};
use capstan_engine::client::catalog::{Catalog, Missing};
use capstan_engine::client::{Connection, explain};

/// A target that cannot be understood.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TargetError {
    #[error("`{typed}` names no object; expected KIND/NAME or KIND NAME, such as machinedeployment/md-0")]
    Shape { typed: String },
    #[error("there is no kind `{typed}`; known are {known}")]
    Kind { typed: String, known: String },
}

/// A kind, as a person names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedKind {
    /// Of the table.
    Known(Gvk),
    /// Only the server or the files say what it is.
    Called(String),
}

impl NamedKind {
    /// # Errors
    /// [`TargetError::Kind`]: no kind can be called so.
    pub fn of(word: &str) -> Result<Self, TargetError> {
        match kind_named(word) {
            Ok(served) => Ok(Self::Known(served.gvk)),
            // Kinds of providers are known to the server alone, by its discovery.
            Err(_) if is_word(word) => Ok(Self::Called(word.to_owned())),
            Err(wrong) => Err(wrong),
        }
    }

    /// The kind in the version that the server has.
    ///
    /// # Errors
    /// The server does not have it, or does not answer, in a sentence.
    pub async fn served(&self, connection: &Connection, catalog: &Catalog) -> anyhow::Result<Gvk> {
        // In the version that the server offers: one may have Cluster API as v1beta1 alone.
        let (found, called) = match self {
            Self::Known(gvk) => (catalog.resolve(&gvk.group, &gvk.kind).await, &gvk.plural),
            Self::Called(word) => (catalog.named(word).await, word),
        };
        found.map_err(|missing| match missing {
            Missing::NotServed(text) => anyhow!("{text}"),
            Missing::Unreachable(error) => {
                anyhow!("cannot read {called}: {}", explain(&error, &connection.server))
            }
        })
    }
}

/// Can a kind be called so?
fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'))
}

/// A kind and a name, whose namespace is still to be said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedObject {
    kind: NamedKind,
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
        Ok(Self { kind: NamedKind::of(kind)?, name: name.to_owned() })
    }

    /// The object of this name on a server, which is asked only about a kind that is not in the table.
    ///
    /// # Errors
    /// As [`NamedKind::served`].
    pub async fn on(&self, connection: &Connection, namespace: &str) -> anyhow::Result<ObjectRef> {
        let gvk = match &self.kind {
            NamedKind::Known(gvk) => gvk.clone(),
            called @ NamedKind::Called(_) => {
                called.served(connection, &Catalog::new(connection.client.clone())).await?
            }
        };
        Ok(self.within(gvk, namespace))
    }

    /// The object of this name among objects that are of these groups and kinds.
    ///
    /// # Errors
    /// [`TargetError::Kind`]: none of them is called so.
    pub fn among<'a>(
        &self,
        mut kinds: impl Iterator<Item = (&'a str, &'a str)>,
        namespace: &str,
    ) -> Result<ObjectRef, TargetError> {
        let word = match &self.kind {
            NamedKind::Known(gvk) => return Ok(self.within(gvk.clone(), namespace)),
            NamedKind::Called(word) => word,
        };
        let is_it = |(group, kind): &(&str, &str)| {
            let gvk = definition::gvk(group, "", kind);
            is_called(word, group, [&gvk.kind.to_ascii_lowercase(), &gvk.plural])
        };
        let (group, kind) = kinds.find(is_it).ok_or_else(|| no_kind(word))?;
        Ok(self.within(definition::gvk(group, "", kind), namespace))
    }

    /// A kind without namespaces is nowhere.
    fn within(&self, gvk: Gvk, namespace: &str) -> ObjectRef {
        let namespace = if gvk.namespaced { namespace } else { "" };
        ObjectRef { gvk, key: ObjectKey::new(namespace, &self.name), uid: String::new() }
    }
}

impl fmt::Display for NamedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            NamedKind::Known(gvk) => write!(f, "{} {}", gvk.kind, self.name),
            NamedKind::Called(word) => write!(f, "{word} {}", self.name),
        }
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
    let found = api::served().into_iter().find(|s| {
        let kind = s.gvk.kind.to_ascii_lowercase();
        let names = [kind.as_str(), s.gvk.plural.as_str()];
        is_called(typed, &s.gvk.group, names.into_iter().chain(s.short_names.iter().copied()))
    });
    found.ok_or_else(|| no_kind(typed))
}

/// Is a kind of this group, with these names in small letters, what a person means?
fn is_called(typed: &str, of: &str, names: impl IntoIterator<Item = impl AsRef<str>>) -> bool {
    let wanted = typed.to_ascii_lowercase();
    let (word, group) =
        wanted.split_once('.').map_or((wanted.as_str(), None), |(word, group)| (word, Some(group)));
    // As client-go's mapper takes it, a group may be cut at a dot.
    names.into_iter().any(|name| name.as_ref() == word)
        && group.is_none_or(|group| group == of || of.starts_with(&format!("{group}.")))
}

fn no_kind(typed: &str) -> TargetError {
    let served = api::served();
    let known = served.iter().map(|s| s.gvk.plural.as_str()).collect::<Vec<_>>().join(", ");
    TargetError::Kind { typed: typed.to_owned(), known }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<String, TargetError> {
        let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        let kinds = [("controlplane.cluster.x-k8s.io", "RKE2ControlPlane"), ("a.io", "Policy")];
        NamedObject::of(&words)
            .and_then(|object| object.among(kinds.into_iter(), "ns"))
            .map(|o| o.to_string())
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

    /// "There is no kind `rke2controlplane`" was said of objects that were in the files.
    #[test]
    fn a_kind_that_is_not_in_the_table_is_found_among_the_objects() {
        for words in [
            &["rke2controlplane/a"][..],
            &["RKE2ControlPlanes", "a"],
            &["rke2controlplane.controlplane/a"],
            &["rke2controlplanes.controlplane.cluster.x-k8s.io/a"],
        ] {
            assert_eq!(parsed(words).as_deref(), Ok("RKE2ControlPlane ns/a"), "{words:?}");
        }
        assert_eq!(parsed(&["policies/a"]).as_deref(), Ok("Policy ns/a"));
        assert!(matches!(parsed(&["rke2controlplane.a.io/a"]), Err(TargetError::Kind { .. })));
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert!(matches!(parsed(&["md"]), Err(TargetError::Shape { .. })));
        assert!(matches!(parsed(&["md/"]), Err(TargetError::Shape { .. })));
        assert!(matches!(NamedKind::of("m,d"), Err(TargetError::Kind { .. })));
        let error = parsed(&["pod/a"]).expect_err("no such kind").to_string();
        assert!(error.contains("machinedeployments"), "{error}");
    }
}
