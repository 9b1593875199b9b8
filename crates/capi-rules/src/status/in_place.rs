//! Can a change be made in place? The judgement that extensions came to, as data and in words. Must not know how they
//! are asked, nor what is done then.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::status::fields::FieldDifference;

/// What is known of updates in place when an object is judged.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum InPlace {
    /// Machines are only replaced: the gate `InPlaceUpdates` is closed.
    #[default]
    Off,
    /// The answers of extensions, by the name of the Machine, or of the MachineSet whose Machines it is about. What is
    /// not there was not asked. `Err`: a question without an answer, in an operator's sentence.
    On(BTreeMap<String, Result<Verdict, String>>),
}

impl InPlace {
    /// Is the gate open?
    pub fn is_on(&self) -> bool {
        matches!(self, Self::On(_))
    }

    /// `None`: not asked, or the gate is closed.
    pub fn of(&self, name: &str) -> Option<&Result<Verdict, String>> {
        match self {
            Self::Off => None,
            Self::On(answers) => answers.get(name),
        }
    }
}

/// In place, or by replacement.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// These extensions cover every difference together.
    InPlace {
        /// In the order in which they were asked.
        covered: Vec<Covered>,
    },
    /// At least one difference stays, or nobody could be asked.
    Replace(Replace),
}

/// What one extension takes upon itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Covered {
    /// The name of its handler.
    pub handler: String,
    /// `KIND PATH` of each field. Empty: nothing was left to cover.
    pub fields: Vec<String>,
}

/// Why a change cannot be made in place.
#[derive(Clone, Debug, PartialEq)]
pub enum Replace {
    /// No extension is registered for the hook and the namespace.
    NoExtension,
    /// The engine asks no extension.
    GateClosed,
    /// One of the objects is not there to be compared.
    Missing {
        /// As in `infrastructure machine`.
        what: String,
    },
    /// Only one side has a bootstrap configuration.
    OneSidedBootstrap,
    /// The server does not take the change of this object.
    Refused {
        /// Kind and name.
        what: String,
        /// The server's own sentence.
        answer: String,
    },
    /// What is left of the difference after all answers.
    Uncovered(Vec<Uncovered>),
}

/// The fields of one object that no extension covers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Uncovered {
    /// Of the object.
    pub kind: String,
    /// Those that no extension took.
    pub fields: Vec<FieldDifference>,
}

impl fmt::Display for Uncovered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields: Vec<String> = self.fields.iter().map(ToString::to_string).collect();
        write!(f, "{} cannot be updated in-place: {}", self.kind, fields.join(", "))
    }
}

impl fmt::Display for Replace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoExtension => f.write_str("no extension offers updates in place here"),
            Self::GateClosed => {
                f.write_str("the engine was started without the feature gates RuntimeSDK and InPlaceUpdates")
            }
            Self::Missing { what } => write!(f, "{what} is not there to be compared"),
            Self::OneSidedBootstrap => {
                f.write_str("only one of the two templates has a bootstrap configuration")
            }
            Self::Refused { what, answer } => {
                write!(f, "server side apply dry-run for {what} failed: {answer}")
            }
            Self::Uncovered(objects) => {
                let lines: Vec<String> = objects.iter().map(ToString::to_string).collect();
                f.write_str(&lines.join("; "))
            }
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InPlace { covered } => {
                let handlers: Vec<&str> = covered.iter().map(|covered| covered.handler.as_str()).collect();
                write!(f, "in place, by {}", handlers.join(", "))
            }
            Self::Replace(why) => write!(f, "by replacement: {why}"),
        }
    }
}
