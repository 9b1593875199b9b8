//! What a person can ask for: one table of actions, with the words, the argument and the kinds of each. The command
//! line, the dashboard, the journal and `docs/commands.md` read it. Must not know what an action changes in an
//! object (`edit`), nor what it can break (`risk`).

use std::fmt;

use super::ActionError;
use super::draft::ObjectChange;
use super::in_place::{InPlaceChange, named_version};
use super::metadata_change::{MetadataChange, WORDS};
use capstan_base::time::{self, Timestamp};

/// Something that a person asks for, with its argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Desired number of Machines, 0 or more.
    Scale {
        replicas: i32,
    },
    /// `spec.rollout.after` becomes now: every Machine created before is replaced.
    Restart,
    /// The same at a stated moment.
    RolloutAfter {
        at: Timestamp,
    },
    /// Takes away a `spec.rollout.after` that has not come yet.
    ClearSchedule,
    /// Kubernetes version with its `v`, for example `v1.36.2`.
    SetVersion {
        version: String,
    },
    /// A change that extensions carry out where the Machines stand; by default nothing is sent when one would be replaced.
    UpdateInPlace(Box<InPlaceChange>),
    Pause,
    Resume,
    /// Puts back what the last action from here changed.
    Undo,
    Label(MetadataChange),
    Annotate(MetadataChange),
    /// A change that a person made of the object as text.
    Edit(Box<ObjectChange>),
    /// The annotation for which a MachineHealthCheck counts a Machine as unhealthy.
    Remediate,
    Delete,
}

/// One row of the table.
#[derive(Debug)]
pub struct ActionInfo {
    /// As typed in both places, in the journal and in messages; one word, or a group and a word.
    pub name: &'static str,
    /// Other names in the dashboard.
    pub aliases: &'static [&'static str],
    /// One sentence.
    pub help: &'static str,
    pub argument: Argument,
    /// The kinds that take the action; none are named where every kind does.
    pub takers: &'static [&'static str],
    /// Control planes of other kinds take it, too.
    pub other_control_planes: bool,
    /// The verb that the access review names.
    pub access_verb: &'static str,
}

/// What follows the name of an action, and the action that it makes.
#[derive(Debug)]
pub enum Argument {
    None(Action),
    Replicas(fn(i32) -> Action),
    Moment(fn(Timestamp) -> Action),
    Version(fn(String) -> Action),
    Change(fn(Box<InPlaceChange>) -> Action),
    /// Labels or annotations.
    Metadata(fn(MetadataChange) -> Action),
    /// What an editor gives back.
    Text,
}

/// An argument that makes no action. Every message says what to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    #[error("`{action}` needs {wanted}, such as {example}")]
    Missing { action: &'static str, wanted: &'static str, example: &'static str },
    #[error("`{action}` takes no argument, but `{argument}` follows")]
    Unexpected { action: &'static str, argument: String },
    #[error("`{argument}` is not a number of replicas; write 0 or more")]
    Replicas { argument: String },
    #[error(
        "`{argument}` is not a moment; write 2026-11-20T22:00:00Z or +2h; `rollout restart` replaces at once, `rollout clear` takes a moment away"
    )]
    Moment { argument: String },
    #[error("`{argument}` is not a version like v1.36.2: {reason}")]
    Version { argument: String, reason: String },
    #[error("{0}")]
    Change(String),
    #[error("`{action}` opens an editor; it takes no words")]
    Text { action: &'static str },
}

/// The table, and the row of each action. A variant without a row does not compile.
macro_rules! table {
    (typed $typed:tt others $others:tt) => { table! { @both $typed $others } };
    (@both { $($variant:pat => $row:ident $fields:tt)* } { $($other:pat => $other_row:ident $other_fields:tt)* }) => {
        $(static $row: ActionInfo = ActionInfo $fields;)*
        $(static $other_row: ActionInfo = ActionInfo $other_fields;)*

        /// Every action that a line asks for, in the order of help.
        pub static ACTIONS: &[&ActionInfo] = &[$(&$row),*];

        impl Action {
            /// The action's row of the table.
            pub fn info(&self) -> &'static ActionInfo {
                match self {
                    $($variant => &$row,)*
                    $($other => &$other_row,)*
                }
            }
        }
    };
}

/// Names that begin several actions, each with a sentence about all of them.
pub const GROUPS: &[(&str, &str)] = &[("rollout", "Replace Machines: now, or from a moment on.")];

/// In place of a moment: none any more.
const CLEAR: &str = "clear";

const EVERY_KIND: &[&str] = &[];
const ROLLING: &[&str] = &["KubeadmControlPlane", "MachineDeployment"];
const PAUSABLE: &[&str] =
    &["Cluster", "KubeadmControlPlane", "MachineDeployment", "MachineSet", "MachinePool", "Machine"];

table! {
    typed {
    Action::Scale { .. } => SCALE {
        name: "scale",
        aliases: &[],
        help: "Set the number of replicas.",
        argument: Argument::Replicas(|replicas| Action::Scale { replicas }),
        takers: &["KubeadmControlPlane", "MachineDeployment", "MachineSet", "MachinePool"],
        other_control_planes: true,
        access_verb: "patch",
    }
    Action::Restart => RESTART {
        name: "rollout restart",
        aliases: &[],
        help: "Replace all its Machines, one after another, from now.",
        argument: Argument::None(Action::Restart),
        takers: ROLLING,
        other_control_planes: true,
        access_verb: "patch",
    }
    Action::RolloutAfter { .. } => ROLLOUT_AFTER {
        name: "rollout after",
        aliases: &[],
        help: "Replace all its Machines from a moment on: 2026-11-20T22:00:00Z or +2h.",
        argument: Argument::Moment(|at| Action::RolloutAfter { at }),
        takers: ROLLING,
        other_control_planes: true,
        access_verb: "patch",
    }
    Action::ClearSchedule => ROLLOUT_CLEAR {
        name: "rollout clear",
        aliases: &[],
        help: "Take a scheduled rollout away; `rollout after clear` is the same.",
        argument: Argument::None(Action::ClearSchedule),
        takers: ROLLING,
        other_control_planes: true,
        access_verb: "patch",
    }
    Action::SetVersion { .. } => SET_VERSION {
        name: "set-version",
        aliases: &[],
        help: "Upgrade to a Kubernetes version.",
        argument: Argument::Version(|version| Action::SetVersion { version }),
        takers: &["Cluster", "KubeadmControlPlane", "MachineDeployment", "MachinePool"],
        other_control_planes: true,
        access_verb: "patch",
    }
    Action::UpdateInPlace(_) => UPDATE_IN_PLACE {
        name: "update-in-place",
        aliases: &[],
        help: "Change its Machines where they stand, if extensions can; or nothing.",
        argument: Argument::Change(Action::UpdateInPlace),
        takers: ROLLING,
        other_control_planes: false,
        access_verb: "patch",
    }
    Action::Pause => PAUSE {
        name: "pause",
        aliases: &[],
        help: "Stop its controllers from changing it.",
        argument: Argument::None(Action::Pause),
        takers: PAUSABLE,
        other_control_planes: true,
        access_verb: "patch",
    }
    Action::Resume => RESUME {
        name: "resume",
        aliases: &[],
        help: "Let its controllers change it again.",
        argument: Argument::None(Action::Resume),
        takers: PAUSABLE,
        other_control_planes: true,
        access_verb: "patch",
    }
    Action::Undo => UNDO {
        name: "undo",
        aliases: &[],
        help: "Put back what the last action from here changed on it.",
        argument: Argument::None(Action::Undo),
        takers: EVERY_KIND,
        other_control_planes: false,
        access_verb: "patch",
    }
    Action::Remediate => REMEDIATE {
        name: "remediate",
        aliases: &[],
        help: "Have a Machine replaced as if its health check had failed.",
        argument: Argument::None(Action::Remediate),
        takers: &["Machine"],
        other_control_planes: false,
        access_verb: "patch",
    }
    Action::Delete => DELETE {
        name: "delete",
        aliases: &["rm"],
        help: "Delete a Machine; its owner replaces it.",
        argument: Argument::None(Action::Delete),
        takers: &["Machine"],
        other_control_planes: false,
        access_verb: "delete",
    }
    Action::Label(_) => LABEL {
        name: "label",
        aliases: &[],
        help: "Set or take away labels: KEY=VALUE, KEY-.",
        argument: Argument::Metadata(Action::Label),
        takers: EVERY_KIND,
        other_control_planes: false,
        access_verb: "patch",
    }
    Action::Annotate(_) => ANNOTATE {
        name: "annotate",
        aliases: &[],
        help: "Set or take away annotations: KEY=VALUE, KEY-.",
        argument: Argument::Metadata(Action::Annotate),
        takers: EVERY_KIND,
        other_control_planes: false,
        access_verb: "patch",
    }
    }
    others {
    Action::Edit(_) => EDIT {
        name: "edit",
        aliases: &[],
        help: "Change it as text.",
        argument: Argument::Text,
        takers: EVERY_KIND,
        other_control_planes: false,
        access_verb: "patch",
    }
    }
}

impl Argument {
    /// As help shows it; `None` without an argument.
    pub fn name(&self) -> Option<&'static str> {
        match self {
            Self::None(_) | Self::Text => None,
            Self::Replicas(_) => Some("N"),
            Self::Moment(_) => Some("WHEN"),
            Self::Version(_) => Some("VERSION"),
            Self::Change(_) => Some("NEW"),
            Self::Metadata(_) => Some(WORDS),
        }
    }

    /// The option of the command line that means the same, without its dashes.
    pub fn option(&self) -> Option<&'static str> {
        match self {
            Self::None(_) | Self::Text => None,
            Self::Replicas(_) => Some("replicas"),
            Self::Moment(_) => Some("at"),
            Self::Version(_) | Self::Change(_) => Some("to"),
            Self::Metadata(_) => Some("set"),
        }
    }

    pub fn example(&self) -> &'static str {
        match self {
            Self::None(_) | Self::Text => "",
            Self::Replicas(_) => "3",
            Self::Moment(_) => "2026-11-20T22:00:00Z, +2h, +30m or +1d",
            Self::Version(_) => "v1.36.2",
            Self::Metadata(_) => "tier=gold, or tier- to take it away",
            Self::Change(_) => "v1.36.2 no-surge, or infrastructure:/spec/PATH=VALUE",
        }
    }
}

impl ActionInfo {
    /// The action that `argument` makes; it is empty without one. A moment may be from `now` on.
    ///
    /// # Errors
    /// [`ArgumentError`].
    pub fn parse(&self, argument: &str, now: Timestamp) -> Result<Action, ArgumentError> {
        let argument = argument.trim();
        if let (Some(wanted), true) = (self.argument.name(), argument.is_empty()) {
            let example = self.argument.example();
            return Err(ArgumentError::Missing { action: self.name, wanted, example });
        }
        let typed = || argument.to_owned();
        match &self.argument {
            Argument::None(action) if argument.is_empty() => Ok(action.clone()),
            Argument::Text => Err(ArgumentError::Text { action: self.name }),
            Argument::None(_) => Err(ArgumentError::Unexpected { action: self.name, argument: typed() }),
            Argument::Replicas(action) => {
                let replicas = argument.parse().ok().filter(|replicas| *replicas >= 0);
                replicas.map(action).ok_or_else(|| ArgumentError::Replicas { argument: typed() })
            }
            Argument::Moment(_) if argument == CLEAR => Ok(Action::ClearSchedule),
            Argument::Moment(action) => {
                let at = time::parse_moment(argument, now);
                at.map(action).ok_or_else(|| ArgumentError::Moment { argument: typed() })
            }
            Argument::Metadata(action) => {
                MetadataChange::parse(argument).map(action).map_err(ArgumentError::Change)
            }
            Argument::Change(action) => {
                let change = InPlaceChange::parse(argument).map_err(ArgumentError::Change)?;
                Ok(action(Box::new(change)))
            }
            Argument::Version(action) => {
                let wrong = |reason| ArgumentError::Version { argument: typed(), reason };
                named_version(argument).map(action).map_err(wrong)
            }
        }
    }

    /// Refuses a kind that does not take the action.
    ///
    /// # Errors
    /// [`ActionError::NotApplicable`], with the kinds that do.
    pub fn check_kind(&self, kind: &str, is_control_plane: bool) -> Result<(), ActionError> {
        if self.takes_every_kind()
            || self.takers.contains(&kind)
            || (self.other_control_planes && is_control_plane)
        {
            return Ok(());
        }
        Err(ActionError::NotApplicable { kind: kind.to_owned(), action: self.name, takers: self.takers() })
    }

    /// It needs no field that only some kinds have.
    pub fn takes_every_kind(&self) -> bool {
        self.takers.is_empty()
    }

    /// All that take it, such as `Machine and any other control plane`.
    pub fn takers(&self) -> String {
        let other = self.other_control_planes.then_some("any other control plane");
        let all: Vec<&str> = self.takers.iter().copied().chain(other).collect();
        match all.as_slice() {
            [] => "every kind".to_owned(),
            [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
            all => all.concat(),
        }
    }
}

impl Action {
    /// The Kubernetes version that it sets.
    pub fn version(&self) -> Option<&str> {
        match self {
            Self::SetVersion { version } => Some(version),
            Self::UpdateInPlace(change) => change.version.as_deref(),
            _ => None,
        }
    }

    /// What was done, for the line that reports it.
    pub fn done(&self) -> String {
        match self {
            Self::Scale { replicas } => format!("scaled to {replicas}"),
            Self::Restart => "rollout begun".to_owned(),
            Self::RolloutAfter { at } => format!("rollout scheduled for {}", time::rfc3339(*at)),
            Self::ClearSchedule => "schedule taken away".to_owned(),
            Self::SetVersion { version } => format!("version set to {version}"),
            Self::UpdateInPlace(change) => format!("changed: {change}"),
            Self::Pause => "paused".to_owned(),
            Self::Resume => "resumed".to_owned(),
            Self::Undo => "put back".to_owned(),
            Self::Label(change) => format!("labels changed: {change}"),
            Self::Annotate(change) => format!("annotations changed: {change}"),
            Self::Edit(_) => "changed".to_owned(),
            Self::Remediate => "marked for remediation".to_owned(),
            Self::Delete => "deletion begun".to_owned(),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scale { replicas } => write!(f, "scale to {replicas}"),
            Self::Restart => f.write_str("restart the rollout"),
            Self::RolloutAfter { at } => write!(f, "roll out after {}", time::rfc3339(*at)),
            Self::ClearSchedule => f.write_str("take the scheduled rollout away"),
            Self::SetVersion { version } => write!(f, "set version {version}"),
            Self::UpdateInPlace(change) => write!(f, "update in place: {change}"),
            Self::Pause => f.write_str("pause"),
            Self::Resume => f.write_str("resume"),
            Self::Undo => f.write_str("undo"),
            Self::Label(change) => write!(f, "label {change}"),
            Self::Annotate(change) => write!(f, "annotate {change}"),
            Self::Edit(_) => f.write_str("edit"),
            Self::Remediate => f.write_str("remediate"),
            Self::Delete => f.write_str("delete"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        time::parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment")
    }

    #[test]
    fn every_action_takes_its_argument_or_says_what_it_wants() {
        let at = now() + chrono::TimeDelta::hours(2);
        let version = |text: &str| Action::SetVersion { version: text.to_owned() };
        for (info, argument, expected) in [
            (&SCALE, "5", Ok(Action::Scale { replicas: 5 })),
            (&SCALE, " 0 ", Ok(Action::Scale { replicas: 0 })),
            (&SCALE, "-1", Err("`-1` is not a number of replicas; write 0 or more")),
            (&SCALE, "many", Err("`many` is not a number of replicas; write 0 or more")),
            (&SCALE, "", Err("`scale` needs N, such as 3")),
            (&RESTART, "", Ok(Action::Restart)),
            (&RESTART, "now", Err("`rollout restart` takes no argument, but `now` follows")),
            (&ROLLOUT_AFTER, "+2h", Ok(Action::RolloutAfter { at })),
            (&ROLLOUT_AFTER, "clear", Ok(Action::ClearSchedule)),
            (&ROLLOUT_CLEAR, "", Ok(Action::ClearSchedule)),
            (&ROLLOUT_AFTER, "2026-11-20T12:00:00Z", Ok(Action::RolloutAfter { at })),
            (
                &ROLLOUT_AFTER,
                "soon",
                Err(
                    "`soon` is not a moment; write 2026-11-20T22:00:00Z or +2h; `rollout restart` replaces at once, `rollout clear` takes a moment away",
                ),
            ),
            (&SET_VERSION, "v1.36.2", Ok(version("v1.36.2"))),
            (&SET_VERSION, "1.36.2", Ok(version("v1.36.2"))),
            (&SET_VERSION, "v1.36.2+k3s1", Ok(version("v1.36.2+k3s1"))),
            (
                &SET_VERSION,
                "1.36",
                Err(
                    "`1.36` is not a version like v1.36.2: it has three numbers, and the third of `1.36` is missing",
                ),
            ),
            (
                &SET_VERSION,
                "latest",
                Err(
                    "`latest` is not a version like v1.36.2: unexpected character 'l' while parsing major version number",
                ),
            ),
            (
                &UPDATE_IN_PLACE,
                "v1.36.2",
                Ok(Action::UpdateInPlace(Box::new(InPlaceChange {
                    version: Some("v1.36.2".to_owned()),
                    ..InPlaceChange::default()
                }))),
            ),
            (&PAUSE, "", Ok(Action::Pause)),
            (&RESUME, "", Ok(Action::Resume)),
            (&REMEDIATE, "", Ok(Action::Remediate)),
            (&DELETE, "", Ok(Action::Delete)),
            (&DELETE, "it", Err("`delete` takes no argument, but `it` follows")),
        ] {
            let found = info.parse(argument, now()).map_err(|error| error.to_string());
            assert_eq!(found, expected.map_err(str::to_owned), "{} {argument}", info.name);
            if let Ok(action) = found {
                let is_cleared_by_after = (info.name, &action) == ("rollout after", &Action::ClearSchedule);
                assert!(is_cleared_by_after || action.info().name == info.name, "{action}");
            }
        }
    }

    /// Every kind that an action is taken by or refused to: `x` takes it.
    #[test]
    fn every_kind_takes_an_action_or_is_refused_with_those_that_do() {
        const KINDS: [(&str, bool); 8] = [
            ("Cluster", false),
            ("KubeadmControlPlane", true),
            ("MachineDeployment", false),
            ("MachineSet", false),
            ("MachinePool", false),
            ("Machine", false),
            ("RKE2ControlPlane", true),
            ("ConfigMap", false),
        ];
        let rolling = "KubeadmControlPlane, MachineDeployment and any other control plane";
        let all = "Cluster, KubeadmControlPlane, MachineDeployment, MachineSet, MachinePool, Machine and any other control plane";
        let rows = [
            (
                "scale",
                ".xxxx.x.",
                "KubeadmControlPlane, MachineDeployment, MachineSet, MachinePool and any other control plane",
            ),
            ("rollout restart", ".xx...x.", rolling),
            ("rollout after", ".xx...x.", rolling),
            ("rollout clear", ".xx...x.", rolling),
            (
                "set-version",
                "xxx.x.x.",
                "Cluster, KubeadmControlPlane, MachineDeployment, MachinePool and any other control plane",
            ),
            ("update-in-place", ".xx.....", "KubeadmControlPlane and MachineDeployment"),
            ("pause", "xxxxxxx.", all),
            ("resume", "xxxxxxx.", all),
            ("undo", "xxxxxxxx", ""),
            ("remediate", ".....x..", "Machine"),
            ("delete", ".....x..", "Machine"),
            ("label", "xxxxxxxx", ""),
            ("annotate", "xxxxxxxx", ""),
        ];
        assert_eq!(
            rows.map(|(name, ..)| name).as_slice(),
            ACTIONS.iter().map(|i| i.name).collect::<Vec<_>>()
        );
        for (info, (name, taken, takers)) in ACTIONS.iter().zip(rows) {
            for ((kind, is_control_plane), mark) in KINDS.into_iter().zip(taken.chars()) {
                let found = info.check_kind(kind, is_control_plane).map_err(|error| error.to_string());
                let refusal = format!("{kind} does not take `{name}`; it works on {takers}");
                assert_eq!(found, if mark == 'x' { Ok(()) } else { Err(refusal) }, "{name} {kind}");
            }
        }
    }

    #[test]
    fn the_group_of_every_two_words_is_explained() {
        for group in ACTIONS.iter().filter_map(|info| info.name.split_once(' ')).map(|(group, _)| group) {
            assert!(GROUPS.iter().any(|(name, _)| *name == group), "{group}");
        }
    }
}
