//! What the reference extension does: a TOML file, of which every key may be left out. Must not know a request.

use serde::Deserialize;

use super::cover::Cover;
use capi_types::hook::Hook;
use capstan_base::toml_file::{FileError, Source};

/// The hooks that are answered, beside discovery.
pub(super) const HOOKS: [Hook; 3] = [Hook::CanUpdateMachine, Hook::CanUpdateMachineSet, Hook::UpdateMachine];

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Behaviour {
    /// Which differences it carries out.
    pub covers: Vec<Cover>,
    /// How long an update of one machine takes, in seconds.
    pub update_seconds: u32,
    /// When it wants to be asked again while an update runs; at least 1.
    pub retry_after_seconds: u32,
    /// What it says of its handlers; 10 when left out.
    pub timeout_seconds: Option<i32>,
    /// `Fail` or `Ignore`; `Fail` when left out.
    pub failure_policy: Option<String>,
    /// Patches in RFC 6902 instead of RFC 7386.
    pub json_patch: bool,
    /// Names of Machines whose update never succeeds.
    pub failing_machines: Vec<String>,
    /// Clusters whose Machines it updates; those of all when empty.
    pub only_clusters: Vec<String>,
    /// What it does wrong, in this order: the first that is not used up is done.
    pub wrong: Vec<Wrong>,
}

impl Default for Behaviour {
    /// Everything that can be done to a simulated host.
    fn default() -> Self {
        Self {
            covers: Cover::simulated(),
            update_seconds: 20,
            retry_after_seconds: 5,
            timeout_seconds: None,
            failure_policy: None,
            json_patch: false,
            failing_machines: Vec::new(),
            only_clusters: Vec::new(),
            wrong: Vec::new(),
        }
    }
}

/// A mistake, made for a while.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Wrong {
    /// `Discovery`, `CanUpdateMachine`, `CanUpdateMachineSet` or `UpdateMachine`.
    #[serde(deserialize_with = "hook")]
    pub hook: Hook,
    pub does: Misbehaviour,
    /// The calls that go right before.
    #[serde(default)]
    pub after: u32,
    /// How many go wrong; all when left out.
    pub times: Option<u32>,
}

/// What can be done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Misbehaviour {
    Error500,
    /// Status 302 to another path of this server.
    Redirect,
    /// No answer.
    Hang,
    /// The connection ends without an answer.
    Crash,
    /// Half a document.
    Malformed,
    /// A document of the wrong shape.
    WrongShape,
    /// More than anybody reads.
    Oversize,
    /// `status: Failure`.
    Failure,
    /// A status that is none.
    WrongStatus,
    /// Discovery: a hook that does not exist. Others: a patch of a type that does not exist.
    Unknown,
    /// Discovery: a handler twice. Others: a patch that does not fit the object.
    Unfitting,
    /// Says that everything can be done, or is done, and does nothing.
    Lie,
    /// Says that nothing can be done.
    Refuse,
}

fn hook<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Hook, D::Error> {
    let text = String::deserialize(deserializer)?;
    // Hooks that exist but are not served here are refused too: they would never be called.
    Hook::find(capi_types::hook::API_VERSION, &text)
        .filter(|hook| HOOKS.contains(hook) || *hook == Hook::Discovery)
        .ok_or_else(|| {
            serde::de::Error::custom(format!(
                "there is no hook `{text}` here; expected Discovery, CanUpdateMachine, CanUpdateMachineSet or UpdateMachine"
            ))
        })
}

impl Behaviour {
    /// Reads a file.
    ///
    /// # Errors
    /// File, line, and what was expected.
    pub fn read(source: &Source) -> Result<Self, FileError> {
        let options: Self = source.read()?;
        if options.retry_after_seconds == 0 {
            // No place: the key may be missing in the file, or be anywhere in it.
            return Err(
                source.error(&(0..0), "retryAfterSeconds must be at least 1: 0 says that an update is done")
            );
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Behaviour, String> {
        Behaviour::read(&Source::new("e.toml", text)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_says_what_differs_from_the_defaults() {
        assert_eq!(read(""), Ok(Behaviour::default()));
        let options = read(
            "covers = [\"machine:/spec/version\"]\nupdateSeconds = 3\n[[wrong]]\nhook = \"UpdateMachine\"\n\
             does = \"error500\"\ntimes = 2\n",
        )
        .expect("options");
        let wrong =
            Wrong { hook: Hook::UpdateMachine, does: Misbehaviour::Error500, after: 0, times: Some(2) };
        assert_eq!((options.covers.len(), options.update_seconds, options.wrong), (1, 3, vec![wrong]));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let table = [
            ("\ncover = []", "e.toml:2: unknown field `cover`"),
            ("retryAfterSeconds = 0", "e.toml:1: retryAfterSeconds must be at least 1"),
            ("covers = [\"disk:/spec\"]", "expected machine:, infrastructure: or bootstrap:"),
            ("covers = [\"machine:spec\"]", "expected a path such as /spec/version"),
            (
                "[[wrong]]\nhook = \"GeneratePatches\"\ndoes = \"hang\"",
                "e.toml:2: there is no hook `GeneratePatches`",
            ),
            ("[[wrong]]\nhook = \"Discovery\"\ndoes = \"sleep\"", "e.toml:3: unknown variant `sleep`"),
        ];
        for (text, expected) in table {
            let error = read(text).expect_err(expected);
            assert!(error.contains(expected), "{error}\n{expected}");
        }
    }
}
