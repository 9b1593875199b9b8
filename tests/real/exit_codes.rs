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

/// Words of upstream's documents and of other tools were answered with a word that is spelled alike.
#[test]
fn a_word_from_elsewhere_is_answered_with_the_command() {
    for (line, part) in [
        ("upgradeAfter md/a", "`rollout after` sets it"),
        ("upgrade", "`set-version` changes the version"),
        ("rollout undo md/a", "`undo` puts back"),
        ("reconfigure", "`capstan change plan --set PATH=VALUE`"),
        ("engine --cloud-migration-config f", "`--enable-leader-migration`"),
    ] {
        let (code, said) = capstan(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(code, 2, "{line}: {said}");
        assert!(said.contains(part), "{line}: {said}");
        assert!(!said.contains("similar"), "no other word beside it: {said}");
    }
}

/// What is wrong about several arguments together, or with what they name. Each of them alone: `tests/it/arguments.rs`.
#[test]
fn arguments_that_do_not_go_together_are_wrong_usage() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("leader.yaml");
    let documents = tempfile::tempdir().expect("a folder");
    let cluster =
        "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: v1.36.3\n";
    std::fs::write(documents.path().join("cluster.yaml"), cluster).expect("a file");
    let text =
        "apiVersion: controllermanager.config.k8s.io/v1\nkind: LeaderMigrationConfiguration\nleaderName: a\n";
    std::fs::write(&file, text).expect("a file");
    for line in [
        "change apply --from-dir FOLDER",
        "dashboard -f -",
        "demo --kubeconfig-out k",
        "demo --listen 0.0.0.0:0",
        "engine --feature-gates InPlaceUpdates=true",
        "engine --read-only",
        "extension serve --listen 0.0.0.0:0",
        "leader-migration defaults --version 1.19",
        "leader-migration generate --kcm-version 1.20",
        "leader-migration validate -f FILE",
        "plan -f - --workload a/b=-",
        "plan kubeadmconfig/x -f FILE",
        "restore FILE --store memory",
        "backup k --store memory",
        "scale md/a many --yes",
        "simulate -f FILE --seed 1",
        "simulate -f - --workload a/b=-",
        "simulated-ssh --socket s host",
        "standalone --headless --new-store --store memory",
        "standalone --check --store memory",
    ] {
        let line = line.replace("FILE", &file.display().to_string());
        let line = line.replace("FOLDER", &documents.path().display().to_string());
        let (code, said) = capstan(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
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
