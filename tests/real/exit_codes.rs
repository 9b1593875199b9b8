//! Exit codes of all commands: the table has them, 2 is wrong usage and nothing else.

use std::process::Command;

use capstan::cli::args::Cli;
use capstan::cli::exit_code::{command_of, is_listed};
use capstan_commands::exit_code::ExitCode;
use clap::CommandFactory as _;

/// Every command that can be typed, as its words.
fn commands() -> Vec<Vec<String>> {
    fn below(command: &clap::Command, words: &[String], found: &mut Vec<Vec<String>>) {
        for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
            let words = [words, &[inner.get_name().to_owned()]].concat();
            if !inner.is_subcommand_required_set() {
                found.push(words.clone());
            }
            below(inner, &words, found);
        }
    }
    let mut found = vec![Vec::new()];
    below(&Cli::command(), &[], &mut found);
    found
}

fn capstan(args: &[String]) -> (i32, String) {
    let run = Command::new(env!("CARGO_BIN_EXE_capstan"))
        .args(args)
        .env("KUBECONFIG", "there-is-not-such-a-file")
        .output()
        .expect("the program runs");
    (run.status.code().expect("an exit code"), String::from_utf8_lossy(&run.stderr).into_owned())
}

/// A typo and "changes are pending" were the same to a script.
#[test]
fn a_typo_ends_every_command_with_2() {
    let commands = commands();
    assert!(commands.len() > 45, "{commands:?}");
    for mut words in commands {
        words.push("--no-such-option".to_owned());
        let (code, said) = capstan(&words);
        assert_eq!(code, 2, "{words:?}: {said}");
    }
}

#[test]
fn a_value_that_is_not_understood_is_wrong_usage() {
    let folder = env!("CARGO_MANIFEST_DIR");
    for line in [
        "change diff --from-dir d --set maxPods",
        "change rules --path no.such.field",
        "change apply --timeout soon",
        "plan -f Cargo.toml --workload a=b",
        "leader-migration generate --ccm-version 1.27 --leader-name A/B",
        "leader-migration rehearse --nodes 0",
        "scale md/a many --yes",
        "standalone --headless --store floppy",
        "get clusters --log-level loudly,=",
        "status compute -f Cargo.toml --now noon",
        "wait md/a --for=verdict=ok --timeout never",
        "simulated-ssh --socket s host",
    ] {
        let words: Vec<String> = line
            .replace("Cargo.toml", &format!("{folder}/Cargo.toml"))
            .split(' ')
            .map(str::to_owned)
            .collect();
        let (code, said) = capstan(&words);
        assert_eq!(code, 2, "{line}: {said}");
    }
}

#[test]
fn a_failure_is_not_wrong_usage() {
    for (line, expected) in [
        ("change diff --from-dir no/such/folder", 3),
        ("change plan --from-dir no/such/folder", 1),
        ("status compute -f no/such/file --diff", 3),
        ("status compute -f no/such/file", 1),
        ("leader-migration validate -f no/such/file", 1),
        ("plan -f no/such/file", 1),
        ("get clusters", 1),
    ] {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let (code, said) = capstan(&words);
        assert_eq!(code, expected, "{line}: {said}");
    }
}

/// Whatever a command ends with is checked against the table in every build with debug assertions, so by every test that runs
/// the program.
#[test]
fn every_command_may_succeed_fail_and_be_misused() {
    for words in commands().into_iter().filter(|words| !words.is_empty()) {
        let command = &words.join(" ");
        let fails = [ExitCode::Failure, ExitCode::ComparisonFailed];
        assert!(fails.iter().any(|code| is_listed(command, *code)), "{command}");
        assert!(is_listed(command, ExitCode::Success) && is_listed(command, ExitCode::WrongUsage));
    }
}

#[test]
fn a_command_is_named_as_the_table_names_it() {
    for (line, expected) in [
        ("capstan", "dashboard"),
        ("capstan change diff --from-dir d", "change diff"),
        ("capstan scale md/a 5", "scale"),
        ("capstan rollout restart md/a", "rollout restart"),
        ("capstan engine", "engine"),
    ] {
        let matches = Cli::command().try_get_matches_from(line.split(' ')).expect(line);
        assert_eq!(command_of(&matches), expected);
    }
}
