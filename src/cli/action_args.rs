//! Actions as commands: each row of the table of actions with the object in front of its argument. Owns how the
//! words of such a command are told apart; must not know an action.

use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Args, FromArgMatches, Subcommand};

use capstan_base::time::Timestamp;
use capstan_commands::act::ConfirmArgs;
use capstan_commands::arguments::Moment;
use capstan_commands::target::{NamedObject, refusal};
use capstan_dashboard::actions::action::{Argument, ArgumentError, GROUPS};
use capstan_dashboard::actions::metadata_change::quoted;
use capstan_dashboard::actions::{ACTIONS, Action, ActionInfo};

const OBJECT: &str = "KIND/NAME";
/// The words behind the name of an action.
const WORDS: [&str; 3] = ["first", "second", "third"];
/// The option that stands for the argument.
const OPTION: &str = "option";

/// What follows these, of an action that takes several words.
const MORE: &str = "more";
const MORE_NAME: &str = "MORE";

/// The words of a change as options, and when it is made.
#[derive(Clone, Debug, Default, Args)]
struct ChangeArgs {
    /// Another infrastructure template, which exists
    #[arg(long, value_name = "TEMPLATE")]
    infrastructure: Option<String>,
    /// Another bootstrap template, which exists
    #[arg(long, value_name = "TEMPLATE")]
    bootstrap: Option<String>,
    /// A field of the machines, through a new template: infrastructure:/spec/PATH=VALUE or bootstrap:/spec/PATH=VALUE
    #[arg(long = "set", value_name = "FIELD=VALUE")]
    fields: Vec<String>,
    /// Make no Machine for the rollout: maxSurge becomes 0
    #[arg(long)]
    no_surge: bool,
    /// Go on also where Machines would be replaced
    #[arg(long)]
    allow_replace: bool,
    /// Wait until then, and look again before anything is written: 2026-11-20T22:00:00Z or +2h
    #[arg(long, value_name = "WHEN")]
    at: Option<Moment>,
}

impl ChangeArgs {
    /// As the words of the action.
    fn words(&self) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        words.extend(self.infrastructure.iter().map(|name| format!("infrastructure={name}")));
        words.extend(self.bootstrap.iter().map(|name| format!("bootstrap={name}")));
        words.extend(self.fields.iter().cloned());
        words.extend(self.no_surge.then(|| "no-surge".to_owned()));
        words.extend(self.allow_replace.then(|| "allow-replace".to_owned()));
        words
    }
}

/// An action on one object, as typed.
#[derive(Clone, Debug)]
pub struct ActionArgs {
    pub info: &'static ActionInfo,
    pub target: NamedObject,
    /// Empty without one.
    pub argument: String,
    /// The moment that is waited for before anything is written.
    pub at: Option<Moment>,
    pub confirm: ConfirmArgs,
}

impl ActionArgs {
    /// The action that is asked for; a moment may be from `now` on.
    ///
    /// # Errors
    /// The argument is missing, superfluous or not understood.
    pub fn action(&self, now: Timestamp) -> Result<Action, ArgumentError> {
        self.info.parse(&self.argument, now)
    }

    fn of(info: &'static ActionInfo, matches: &ArgMatches) -> Result<Self, clap::Error> {
        // An action without an argument has neither a third word nor the option.
        let typed = |id: &str| matches.try_get_one::<String>(id).ok().flatten().cloned();
        let is_change = matches!(info.argument, Argument::Change(_));
        let takes_words = is_change || matches!(info.argument, Argument::Metadata(_));
        let change = if is_change { ChangeArgs::from_arg_matches(matches)? } else { ChangeArgs::default() };
        let mut target: Vec<String> = WORDS.into_iter().filter_map(typed).collect();
        // Kind and name are one word with a slash between them, or two words.
        let object_words = if target.first().is_some_and(|word| word.contains('/')) { 1 } else { 2 };
        let mut rest = target.split_off(object_words.min(target.len()));
        rest.extend(typed(OPTION));
        if takes_words {
            let more = matches.try_get_many::<String>(MORE).ok().flatten();
            rest.extend(more.into_iter().flatten().cloned());
        }
        rest.extend(change.words());
        if !is_change && takes_words {
            // A shell has taken the quotes away.
            rest = rest.iter().map(|word| quoted(word)).collect();
        }
        // Only a change takes any number of words behind the object.
        if let ([_, unexpected, ..], false) = (rest.as_slice(), takes_words) {
            let what = format!("unexpected `{unexpected}` behind {OBJECT} and its argument\n");
            return Err(clap::Error::raw(ErrorKind::TooManyValues, what));
        }
        let target = NamedObject::of(&target).map_err(|error| refusal(&error))?;
        let argument = rest.join(" ");
        Ok(Self { info, target, argument, at: change.at, confirm: ConfirmArgs::from_arg_matches(matches)? })
    }
}

/// The arguments of one action.
fn command(info: &'static ActionInfo, name: &'static str) -> clap::Command {
    let [first, second, third] = WORDS.map(Arg::new);
    let object = first.value_name(OBJECT).required(true).help("The object; KIND NAME works as well");
    let usage = format!("capstan {} [OPTIONS] <{OBJECT}>", info.name);
    let command = match info.argument.name().zip(info.argument.option()) {
        None => clap::Command::new(name).override_usage(usage).args([object, second.hide(true)]),
        Some((wanted, option)) => {
            let help = format!("Such as {}", info.argument.example());
            clap::Command::new(name)
                .override_usage(format!("{usage} <{wanted}>"))
                .args([object, second.value_name(wanted).help(help), third.hide(true)])
                .arg(Arg::new(OPTION).long(option).value_name(wanted).help(format!("{wanted} as an option")))
                // A number below zero is an argument here, and not an option.
                .mut_args(|arg| arg.allow_negative_numbers(true))
        }
    };
    let command = match info.argument {
        Argument::Change(_) => {
            let more = Arg::new(MORE).num_args(0..).value_name(MORE_NAME).help("More words of the change");
            ChangeArgs::augment_args(command.arg(more))
        }
        Argument::Metadata(_) => {
            let more = Arg::new(MORE).num_args(0..).value_name(MORE_NAME).help("More labels or annotations");
            command.arg(more)
        }
        _ => command,
    };
    // The arguments bring a help of their own, which is not about the action.
    ConfirmArgs::augment_args(command).about(sentence(info.help))
}

/// Help of the command line ends without a period.
fn sentence(help: &str) -> String {
    help.trim_end_matches('.').to_owned()
}

fn group(name: &'static str) -> clap::Command {
    let help = GROUPS.iter().find(|(group, _)| *group == name).map_or("", |(_, help)| help);
    clap::Command::new(name).about(sentence(help)).subcommand_required(true).arg_required_else_help(true)
}

impl Subcommand for ActionArgs {
    fn augment_subcommands(root: clap::Command) -> clap::Command {
        ACTIONS.iter().fold(root, |root, info| match info.name.split_once(' ') {
            None => root.subcommand(command(info, info.name)),
            Some((first, name)) => {
                let is_there = root.find_subcommand(first).is_some();
                let root = if is_there { root } else { root.subcommand(group(first)) };
                root.mut_subcommand(first, |group| group.subcommand(command(info, name)))
            }
        })
    }

    fn augment_subcommands_for_update(root: clap::Command) -> clap::Command {
        Self::augment_subcommands(root)
    }

    fn has_subcommand(name: &str) -> bool {
        ACTIONS.iter().any(|info| info.name.split(' ').next() == Some(name))
    }
}

impl FromArgMatches for ActionArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let missing = || clap::Error::raw(ErrorKind::MissingSubcommand, "an action is missing");
        let (first, below) = matches.subcommand().ok_or_else(missing)?;
        for info in ACTIONS {
            match info.name.split_once(' ') {
                None if info.name == first => return Self::of(info, below),
                Some((group, name)) if group == first => {
                    if let Some(below) = below.subcommand_matches(name) {
                        return Self::of(info, below);
                    }
                }
                None | Some(_) => {}
            }
        }
        Err(missing())
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::args::{Cli, Command};
    use capstan_base::time::parse_rfc3339;
    use capstan_dashboard::actions::in_place::InPlaceChange;
    use capstan_dashboard::actions::metadata_change::MetadataChange;

    fn parsed(line: &str) -> Result<(String, Result<Action, String>), String> {
        let words = std::iter::once("capstan").chain(line.split(' ').filter(|word| !word.is_empty()));
        let cli = Cli::try_parse_from(words).map_err(|error| error.to_string())?;
        let Some(Command::Act(args)) = cli.command else { return Err(format!("{line} is not an action")) };
        let now = parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment");
        Ok((args.target.to_string(), args.action(now).map_err(|error| error.to_string())))
    }

    #[test]
    fn an_object_is_one_word_or_two_and_the_argument_a_word_or_an_option() {
        let scale = Action::Scale { replicas: 5 };
        let version = Action::SetVersion { version: "v1.35.0".to_owned() };
        let at = parse_rfc3339("2026-11-20T12:00:00Z").expect("a moment");
        let change = InPlaceChange::parse("v1.35.0 no-surge").expect("a change");
        let in_place = Action::UpdateInPlace(Box::new(change));
        let label = Action::Label(MetadataChange::parse("a=b c-").expect("labels"));
        let one_label = Action::Label(MetadataChange::parse("a=b").expect("a label"));
        for (line, target, action) in [
            ("scale md/a 5", "MachineDeployment a", &scale),
            ("scale md a 5", "MachineDeployment a", &scale),
            ("scale md/a --replicas 5", "MachineDeployment a", &scale),
            ("scale md a --replicas=5 --yes", "MachineDeployment a", &scale),
            ("scale --yes md/a 5 -n x", "MachineDeployment a", &scale),
            ("set-version kcp/a v1.35.0", "KubeadmControlPlane a", &version),
            ("set-version kcp a 1.35.0 --dry-run", "KubeadmControlPlane a", &version),
            ("set-version kcp/a --to v1.35.0", "KubeadmControlPlane a", &version),
            ("rollout restart md/a", "MachineDeployment a", &Action::Restart),
            ("rollout after md/a +2h", "MachineDeployment a", &Action::RolloutAfter { at }),
            ("rollout after md/a clear", "MachineDeployment a", &Action::ClearSchedule),
            ("rollout clear md/a", "MachineDeployment a", &Action::ClearSchedule),
            (
                "rollout after md a --at 2026-11-20T12:00:00Z",
                "MachineDeployment a",
                &Action::RolloutAfter { at },
            ),
            ("update-in-place kcp/a v1.35.0 --no-surge", "KubeadmControlPlane a", &in_place),
            ("update-in-place kcp a v1.35.0 no-surge", "KubeadmControlPlane a", &in_place),
            ("update-in-place kcp/a --to v1.35.0 --no-surge --yes", "KubeadmControlPlane a", &in_place),
            ("label md/a a=b c-", "MachineDeployment a", &label),
            ("label md a a=b c-", "MachineDeployment a", &label),
            ("label md/a --set a=b --yes", "MachineDeployment a", &one_label),
            ("pause md a", "MachineDeployment a", &Action::Pause),
            ("resume md/a", "MachineDeployment a", &Action::Resume),
            ("delete machine/a", "Machine a", &Action::Delete),
        ] {
            assert_eq!(parsed(line), Ok((target.to_owned(), Ok(action.clone()))), "{line}");
        }
    }

    #[test]
    fn the_help_of_an_action_is_that_of_the_table() {
        use clap::CommandFactory as _;
        let mut root = Cli::command();
        for info in ACTIONS {
            let command = info.name.split(' ').try_fold(&mut root, |at, word| at.find_subcommand_mut(word));
            let about = command.expect(info.name).get_about().expect("help").to_string();
            assert_eq!(format!("{about}."), info.help);
        }
    }

    #[test]
    fn a_wrong_argument_is_answered_with_what_to_write() {
        for (line, why) in [
            ("scale md/a", "`scale` needs N, such as 3"),
            ("scale md a", "`scale` needs N, such as 3"),
            ("scale md/a -1", "`-1` is not a number of replicas; write 0 or more"),
            ("scale md/a --replicas -1", "`-1` is not a number of replicas; write 0 or more"),
            ("pause md/a now", "`pause` takes no argument, but `now` follows"),
        ] {
            assert_eq!(parsed(line).and_then(|(_, action)| action), Err(why.to_owned()), "{line}");
        }
        let nothing = parsed("update-in-place md/a --no-surge").and_then(|(_, action)| action);
        assert!(nothing.is_err_and(|why| why.starts_with("nothing is changed; write VERSION")));
        for (line, why) in [
            ("scale md/a 5 --replicas 6", "unexpected `6` behind KIND/NAME and its argument"),
            ("scale md/a 5 6", "unexpected `6`"),
            ("pause", "<KIND/NAME>"),
            ("pause md a now", "unexpected argument 'now'"),
            ("rollout", "restart"),
        ] {
            let error = parsed(line).expect_err(line);
            assert!(error.contains(why), "{line}: {error}");
        }
    }
}
