//! Every value on the command line that can be wrong is read where the command line is parsed: it ends with 2, and nothing was done.

use capstan::cli::args::{Cli, Command};
use capstan_base::time::Timestamp;
use clap::error::ErrorKind;
use clap::{Arg, CommandFactory as _, Parser as _};

/// What no option takes whose values have a form; each of them refuses one at least.
const NONSENSE: [&str; 3] = ["?", "=", "loudly,="];

/// Values without a form, by what `--help` calls them, and who says whether they are right.
const WITHOUT_FORM: &[(&str, &str)] = &[
    ("CLUSTER", "the server"),
    ("CLUSTER,CLUSTER...", "the objects that are simulated"),
    ("COMMAND", "the shell"),
    ("DIR", "the file system"),
    ("FILE", "the file system"),
    ("FLAGS", "what is wrong with them is a finding"),
    ("FORECAST", "the file system"),
    ("GROUP", "the server"),
    ("MACHINE", "the objects that are simulated"),
    ("NAME", "the server, the kubeconfig or a folder"),
    ("NAME,NAME...", "the objects that are simulated"),
    ("NS", "the server"),
    ("PROGRAM", "the system"),
    ("SELECTOR", "the server"),
    ("TEMPLATE", "the server"),
    ("USER", "the server"),
    ("[OPTION] HOST COMMAND", "ssh, which it stands for"),
];

/// Every command with its words, the program itself first.
fn commands() -> Vec<(Vec<String>, clap::Command)> {
    fn below(command: &clap::Command, words: &[String], found: &mut Vec<(Vec<String>, clap::Command)>) {
        for inner in command.get_subcommands() {
            let words = [words, &[inner.get_name().to_owned()]].concat();
            found.push((words.clone(), inner.clone()));
            below(inner, &words, found);
        }
    }
    let root = Cli::command();
    let mut found = vec![(Vec::new(), root.clone())];
    below(&root, &[], &mut found);
    found
}

fn value_name(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    names.first().map_or_else(|| arg.get_id().to_string().to_uppercase(), ToString::to_string)
}

/// Right values of the options that a command asks for.
const REQUIRED: &[(&str, &str)] = &[
    ("control-plane", "h1"),
    ("filename", "-"),
    ("for", "delete"),
    ("socket", "socket"),
    ("version", "v1.36.3"),
];

/// The options that a command asks for besides `arg`, with right values.
fn required(command: &clap::Command, arg: &Arg) -> Vec<String> {
    let others =
        command.get_arguments().filter(|other| other.is_required_set() && other.get_id() != arg.get_id());
    let value = |long: &str| REQUIRED.iter().find(|(name, _)| *name == long).expect("a row of REQUIRED").1;
    others.filter_map(Arg::get_long).map(|long| format!("--{long}={}", value(long))).collect()
}

/// The words of a command line, with what an action needs in front of its options.
fn line(words: &[String], command: &clap::Command, arg: &Arg, value: &str) -> Vec<String> {
    let is_action = clap::Command::new("capstan");
    let is_action =
        <capstan::cli::action_args::ActionArgs as clap::Subcommand>::augment_subcommands(is_action);
    let first = words.first().map(String::as_str).unwrap_or_default();
    let is_action = is_action.find_subcommand(first).is_some();
    let head = std::iter::once("capstan".to_owned()).chain(words.iter().cloned());
    match arg.get_long() {
        Some(long) => {
            let object = is_action.then(|| "md/a".to_owned());
            head.chain(object).chain([format!("--{long}={value}")]).collect()
        }
        None => head.chain([value.to_owned()]).chain(required(command, arg)).collect(),
    }
}

/// Is the command line refused because of a value?
fn is_refused(words: &[String]) -> bool {
    match Cli::try_parse_from(words) {
        Err(error) => matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue),
        // The argument of an action is read once the moment is known, before anything is connected to.
        Ok(Cli { command: Some(Command::Act(args)), .. }) => args.action(Timestamp::default()).is_err(),
        Ok(_) => false,
    }
}

#[test]
fn every_value_that_can_be_wrong_is_refused_by_the_parser() {
    let mut problems = Vec::new();
    let mut seen = 0;
    for (words, command) in commands() {
        // Of positions only the first one is tried: those behind it need it.
        let first = command.get_positionals().next().map(|arg| arg.get_id().clone());
        let takes_value = |arg: &&Arg| {
            arg.get_action().takes_values() && (!arg.is_positional() || first.as_ref() == Some(arg.get_id()))
        };
        for arg in command.get_arguments().filter(takes_value) {
            seen += 1;
            let name = value_name(arg);
            let has_form = WITHOUT_FORM.iter().all(|(free, _)| *free != name);
            let is_refused = NONSENSE.iter().any(|value| is_refused(&line(&words, &command, arg, value)));
            if has_form && !is_refused {
                problems.push(format!("{} {}: {name}", words.join(" "), arg.get_id()));
            }
        }
    }
    assert!(seen > 150, "{seen}");
    assert!(
        problems.is_empty(),
        "give the value a type that is read by clap, or say who says whether it is right:\n{problems:#?}"
    );
}

#[test]
fn what_is_refused_ends_with_2() {
    let parsed = Cli::try_parse_from(["capstan", "wait", "md/a", "--for=sunshine"]);
    assert_eq!(parsed.expect_err("refused").exit_code(), 2);
    for words in [["capstan", "wait", "?", "--for=delete"], ["capstan", "scale", "po,d/a", "3"]] {
        assert_eq!(Cli::try_parse_from(words).expect_err("no such object").exit_code(), 2);
    }
}
