//! Updates in place in a forecast: who could be asked, what about, what was answered, and what is expected of each
//! Machine. Owns the questions and that form; must not ask anybody, and every decision is the planner's.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

pub use crate::simulate::{InPlaceAnswer, InPlaceAnswers, Whom};
use capi_rules::etcd::quorum;
use capi_rules::observe::dump::Dump;
use capi_rules::plan::StepAction;
use capi_rules::plan::control_plane::in_place as control_plane_updates;

use crate::simulate::agreed_move;
use capi_rules::status::in_place::{Covered, InPlace, Replace};
use capi_types::hook::{Hook, MachineSetObjects};
use capi_types::key::{ObjectKey, annotation};
use capi_types::machine_set::MachineSet;
use capi_types::names::{RUNTIME_GROUP, annotation as keys};

/// What could be asked, for whose plan.
#[derive(Clone, Debug, PartialEq)]
pub struct InPlaceQuestion {
    pub whom: Whom,
    /// Kind and name of the object whose plan depends on it; its namespace is the subject's.
    pub owner: (&'static str, String),
    /// `Err`: the answer is known without asking.
    pub about: Result<Sides, Replace>,
}

/// The objects of a question.
#[derive(Clone, Debug, PartialEq)]
pub enum Sides {
    Machine(Box<control_plane_updates::Question>),
    MachineSets(Box<[MachineSetObjects; 2]>),
}

/// What a forecast knows of updates in place.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Known {
    /// No extension was asked: plans show replacements, and say what is not known.
    #[default]
    Nothing,
    Asked(InPlaceAnswers),
    /// It was tried, and nobody could be asked, in a sentence.
    Failed(String),
}

/// In place or by replacement, of the Machines of one owner that change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Updates {
    /// In the order in which they change.
    pub machines: Vec<MachineUpdate>,
    /// The handlers that were asked, or that could be.
    pub handlers: Vec<String>,
    pub asked: bool,
    /// What the change costs while it runs, in a sentence.
    pub availability: String,
}

/// Does a MachineSet give or take Machines that are updated in place?
pub(super) fn is_moving(set: &MachineSet) -> bool {
    let takes = annotation(set, keys::RECEIVE_MACHINES_FROM).is_some_and(|from| !from.is_empty());
    agreed_move(set).is_some() || takes
}

/// What is expected of one Machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineUpdate {
    pub machine: String,
    pub way: Way,
    /// One sentence.
    pub reason: String,
    /// Which extension covers which field.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub covered: Vec<Covered>,
}

/// How a Machine becomes what its owner wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Way {
    InPlace,
    Replacement,
    /// Extensions were not asked, or did not answer.
    Unknown,
}

impl Way {
    /// How a Machine changes by a step that changes it.
    pub(super) fn of(does: &StepAction) -> Self {
        if matches!(does, StepAction::UpdateInPlace { .. }) { Self::InPlace } else { Self::Replacement }
    }

    pub fn word(self) -> &'static str {
        match self {
            Self::InPlace => "in place",
            Self::Replacement => "replaced",
            Self::Unknown => "not known",
        }
    }
}

/// Machines that are named in one line.
const NAMED_MAX: usize = 3;

impl Updates {
    /// Of some Machines it is not known whether they are updated in place.
    pub fn is_open(&self) -> bool {
        self.machines.iter().any(|update| update.way == Way::Unknown)
    }

    /// Has every Machine that changes a known way, and is that in place?
    pub fn is_in_place_throughout(&self) -> bool {
        self.machines.iter().all(|update| update.way == Way::InPlace)
    }

    /// For people: a word and a line for Machines that change alike, then what it costs.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let mut groups: Vec<(Way, String, Vec<&str>)> = Vec::new();
        for update in &self.machines {
            let why = update.why();
            // Order of the first of each group, so that lines
            // follow the order in which Machines change.
            match groups.iter_mut().find(|(way, known, _)| *way == update.way && *known == why) {
                Some((.., names)) => names.push(&update.machine),
                None => groups.push((update.way, why, vec![&update.machine])),
            }
        }
        let line = |(way, why, names): (Way, String, Vec<&str>)| {
            let more = match names.len().saturating_sub(NAMED_MAX) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let named: Vec<&str> = names.iter().copied().take(NAMED_MAX).collect();
            (way.word(), format!("{}{more}: {why}", named.join(", ")))
        };
        let mut lines: Vec<(&str, String)> = groups.into_iter().map(line).collect();
        // Asking is offered only where it could say more.
        if !self.asked && !self.handlers.is_empty() {
            lines.push(("ask", format!("{} can be asked", self.handlers.join(", "))));
        }
        lines.push(("cost", self.availability.clone()));
        lines
    }
}

impl MachineUpdate {
    /// Who covers what, or the reason.
    fn why(&self) -> String {
        let by = |covered: &Covered| match covered.fields.as_slice() {
            [] => covered.handler.clone(),
            fields => format!("{} covers {}", covered.handler, fields.join(", ")),
        };
        match self.covered.as_slice() {
            [] => self.reason.clone(),
            covered => covered.iter().map(by).collect::<Vec<_>>().join("; "),
        }
    }
}

/// The extensions were not asked; the marks on Machines show what they answered their owners.
const UNDER_WAY: &str =
    "Machines are updated in place already: their controllers asked the extensions before";

/// Of a Machine that could be updated in place.
pub(super) const SURGE: &str = "a Machine is made for the surge, and takes its place";

pub(super) const GATE: &str =
    "the controllers run with the feature gate InPlaceUpdates: without it every Machine is replaced";

impl Known {
    /// What a planner is given: the answers about these, where all of them were asked about.
    pub(super) fn of(&self, kind: &'static str, namespace: &str, names: &[String]) -> InPlace {
        let Self::Asked(asked) = self else { return InPlace::Off };
        let answer = |name: &String| {
            let whom = Whom { kind, key: ObjectKey::new(namespace, name) };
            asked.answers.get(&whom).map(|answer| (name.clone(), answer.clone()))
        };
        let answers: Option<BTreeMap<String, InPlaceAnswer>> = names.iter().map(answer).collect();
        // Half an answer would make the planner wait for the other half.
        answers.filter(|answers| !answers.is_empty()).map_or(InPlace::Off, InPlace::On)
    }

    pub(super) fn is_asked(&self) -> bool {
        self.asked().is_some()
    }

    /// The answers, when extensions were asked.
    pub fn asked(&self) -> Option<&InPlaceAnswers> {
        match self {
            Self::Asked(asked) => Some(asked),
            Self::Nothing | Self::Failed(_) => None,
        }
    }

    /// What stands behind what is said of updates.
    pub(super) fn assumptions(&self, updates: &Updates) -> Vec<String> {
        // Every way is known without a question, so that something is under way.
        if !updates.asked && !updates.is_open() {
            return vec![UNDER_WAY.to_owned()];
        }
        // Closed or open, the engine has said it.
        let is_known = self.asked().is_some_and(|asked| asked.gate_is_open.is_some());
        let mut all: Vec<String> = Some(GATE.to_owned()).filter(|_| !is_known).into_iter().collect();
        let whom = if updates.handlers.is_empty() { "an extension" } else { &updates.handlers.join(", ") };
        let what = "whether the change can be made in place";
        match self {
            Self::Nothing | Self::Asked(_) if !updates.asked => {
                all.push(format!("{whom} was not asked {what}: numbers are those of replacements"));
            }
            Self::Failed(why) => {
                all.push(format!(
                    "{whom} could not be asked {what} ({why}): numbers are those of replacements"
                ));
            }
            Self::Asked(asked) if asked.without_dry_runs => all.push(
                "the extensions were asked about objects that the server did not complete (--read-only)"
                    .to_owned(),
            ),
            Self::Nothing | Self::Asked(_) => {}
        }
        all
    }
}

/// The handlers of a hook that the ExtensionConfigs list, by name. Namespace selectors are not looked at.
pub fn offered(dump: &Dump, hook: Hook) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let configs = dump.all(RUNTIME_GROUP, "ExtensionConfig");
    let handlers =
        configs.flat_map(|(_, config)| config["status"]["handlers"].as_array().into_iter().flatten());
    // By version too: a handler of another version is never called.
    let of_hook = handlers.filter(|handler| {
        let named = &handler["requestHook"];
        Hook::find(&text(&named["apiVersion"]), &text(&named["hook"])) == Some(hook)
    });
    of_hook.map(|handler| text(&handler["name"])).collect::<BTreeSet<_>>().into_iter().collect()
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    pub wanted: usize,
    /// The fewest that are available at once.
    pub lowest: usize,
    /// Of a control plane with etcd of its own.
    pub has_members: bool,
}

impl Cost {
    /// In words: of what is expected, beside a replacement; or of both where it is not known.
    pub(super) fn sentence(self, in_place: Self, replaced: Self, is_known: bool) -> String {
        let wanted = self.wanted;
        let machines = if wanted == 1 { "Machine" } else { "Machines" };
        // A surge may leave more than wanted, which promises nothing.
        let kept = |cost: Self| cost.lowest.min(wanted);
        let mut sentence = if is_known {
            let by_replacement = match kept(replaced) {
                same if same == kept(self) => String::new(),
                other => format!(" (by replacement {other})"),
            };
            format!("at least {} of {wanted} {machines} stay available{by_replacement}", kept(self))
        } else {
            let (there, gone) = (kept(in_place), kept(replaced));
            format!("in place at least {there} of {wanted} {machines} stay available, by replacement {gone}")
        };
        // In place the Machine stays a member while it is away; a replacement is removed first.
        let expected = if is_known { self } else { in_place };
        if expected.has_members && expected.lowest < quorum(wanted) {
            sentence.push_str("; etcd has no quorum while its Machine is away");
        }
        sentence
    }
}
