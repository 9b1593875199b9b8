//! How commands end: one table of exit codes for all of them. Owns the numbers, which scripts rely on, and which command may end
//! with which; must not know what a command does.

use std::fmt::Write as _;

use clap::ArgMatches;

use capstan_commands::exit_code::ExitCode;

/// Commands that may end in some way.
enum Commands {
    All,
    Without(&'static [&'static str]),
    /// Each perhaps with the option that asks for it.
    These(&'static [&'static str]),
}

/// One way to end: a word for `--help`, what it means, and who ends so.
struct Row {
    code: ExitCode,
    word: &'static str,
    meaning: &'static str,
    commands: Commands,
}

/// Commands that answer by 1 that something differs, as `kubectl diff` does.
const COMPARISONS: &[&str] = &["change diff", "status compute --diff"];
/// Commands that run until they are stopped.
const UNTIL_STOPPED: &[&str] = &["dashboard", "demo", "standalone", "engine", "extension serve", "metrics"];

const ROWS: [Row; 14] = [
    Row {
        code: ExitCode::Success,
        word: "fine",
        meaning: "done, printed, or there is nothing to do; with `--exit-status`: ok or healthy",
        commands: Commands::All,
    },
    Row {
        code: ExitCode::Failure,
        word: "failed",
        meaning: "what was asked for was not done, and the message says why; of `wait`: time ran out",
        commands: Commands::Without(COMPARISONS),
    },
    Row {
        code: ExitCode::Differs,
        word: "something differs",
        meaning: "something differs",
        commands: Commands::These(COMPARISONS),
    },
    Row {
        code: ExitCode::WrongUsage,
        word: "wrong usage",
        meaning: "an option or an argument cannot be understood; nothing was done",
        commands: Commands::All,
    },
    Row {
        code: ExitCode::ComparisonFailed,
        word: "a comparison failed",
        meaning: "it could not be compared, and the message says why",
        commands: Commands::These(COMPARISONS),
    },
    Row {
        code: ExitCode::Progressing,
        word: "progressing",
        meaning: "the cluster is progressing",
        commands: Commands::These(&["describe --exit-status", "wait --exit-status"]),
    },
    Row {
        code: ExitCode::Pending,
        word: "pending",
        meaning: "a plan is ready, or steps are left",
        commands: Commands::These(&[
            "change plan",
            "change apply",
            "change rollback",
            "change status",
            "leader-migration next --apply",
        ]),
    },
    Row {
        code: ExitCode::Degraded,
        word: "degraded",
        meaning: "the cluster or its etcd is degraded",
        commands: Commands::These(&[
            "describe --exit-status",
            "wait --exit-status",
            "etcd status --exit-status",
        ]),
    },
    Row {
        code: ExitCode::FailedCheck,
        word: "a failed check",
        meaning: "documents are wrong, a step or a rehearsal failed, something runs otherwise than stored, a right is missing, or a machine is unfit",
        commands: Commands::These(&[
            "change validate",
            "change plan",
            "change apply",
            "change rollback",
            "change status",
            "leader-migration validate",
            "leader-migration next --apply",
            "leader-migration rehearse",
            "leader-migration rights --check",
            "host check",
        ]),
    },
    Row {
        code: ExitCode::Blocked,
        word: "blocked",
        meaning: "the cluster is blocked, its etcd is critical, a change must not be made, or a stage of a migration is blocked",
        commands: Commands::These(&[
            "describe --exit-status",
            "wait --exit-status",
            "etcd status --exit-status",
            "change plan",
            "change apply",
            "change rollback",
            "leader-migration status",
            "leader-migration next",
            "leader-migration plan",
            "leader-migration back",
        ]),
    },
    Row {
        code: ExitCode::Unknown,
        word: "unknown",
        meaning: "the verdict is unknown, no member of the etcd answered, or not enough is known of a machine",
        commands: Commands::These(&[
            "describe --exit-status",
            "wait --exit-status",
            "etcd status --exit-status",
            "host check",
        ]),
    },
    Row {
        code: ExitCode::NeedsAcknowledgement,
        word: "needs acknowledgement",
        meaning: "somebody has to read what is said, and to say `--acknowledge`",
        commands: Commands::These(&[
            "change plan",
            "change apply",
            "change rollback",
            "leader-migration next --apply",
        ]),
    },
    Row {
        code: ExitCode::Signal(0),
        word: "a signal",
        meaning: "the signal of this number ended it, as shells count: 129 hangup, 143 termination",
        commands: Commands::These(UNTIL_STOPPED),
    },
    Row {
        code: ExitCode::OfHost(0),
        word: "that of the host",
        meaning: "the exit status of the command on the simulated host",
        commands: Commands::These(&["simulated-ssh"]),
    },
];

impl Row {
    fn number(&self) -> String {
        match self.code {
            ExitCode::Signal(_) => "128 + n".to_owned(),
            ExitCode::OfHost(_) => "any".to_owned(),
            code => code.number().to_string(),
        }
    }

    fn is_of(&self, command: &str) -> bool {
        match self.commands {
            Commands::All => true,
            Commands::Without(others) => !others.contains(&command),
            Commands::These(commands) => commands.iter().any(|listed| without_option(listed) == command),
        }
    }
}

fn without_option(listed: &str) -> &str {
    listed.split_once(" --").map_or(listed, |(command, _)| command)
}

/// Subcommands as they were typed, such as `change diff`. Without one it is the dashboard.
pub fn command_of(matches: &ArgMatches) -> String {
    let mut words = Vec::new();
    let mut within = matches;
    while let Some((word, inner)) = within.subcommand() {
        words.push(word);
        within = inner;
    }
    if words.is_empty() { "dashboard".to_owned() } else { words.join(" ") }
}

/// Does the table let this command end so?
pub fn is_listed(command: &str, code: ExitCode) -> bool {
    // The number of a signal or of a host's command is open in the table.
    let is_same = |row: &&Row| std::mem::discriminant(&row.code) == std::mem::discriminant(&code);
    ROWS.iter().filter(is_same).any(|row| row.is_of(command))
}

/// What `--help` says of the table: every number once, with its words.
pub fn help() -> String {
    let mut numbers: Vec<(String, Vec<&str>)> = Vec::new();
    // A command for programs, which `--help` does not show.
    for row in ROWS.iter().filter(|row| !matches!(row.code, ExitCode::OfHost(_))) {
        // The last one is enough: rows of one number stand side by side in the table.
        match numbers.last_mut().filter(|(number, _)| *number == row.number()) {
            Some((_, words)) => words.push(row.word),
            None => numbers.push((row.number(), vec![row.word])),
        }
    }
    let said: Vec<String> =
        numbers.iter().map(|(number, words)| format!("{number} {}", words.join(" or "))).collect();
    format!("Exit codes: {}. docs/exit-codes.md says which command ends with which.", said.join(", "))
}

/// The page `docs/exit-codes.md`.
pub fn reference() -> String {
    let mut page = "# Exit codes\n\nGenerated from the table in `src/cli/exit_code.rs`; `UPDATE_GOLDEN=1 tests/run documents` writes it anew.\n\n\
        2 is wrong usage and nothing else. A command that compares ends as `kubectl diff` does: 1 when something differs, more when it\n\
        failed.\n\n| Code | Meaning | Commands |\n| --- | --- | --- |\n"
        .to_owned();
    for row in &ROWS {
        let quoted = |names: &[&str]| names.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ");
        let commands = match row.commands {
            Commands::All => "all".to_owned(),
            Commands::Without(others) => format!("all but {}", quoted(others)),
            Commands::These(commands) => quoted(commands),
        };
        let _ = writeln!(page, "| {} | {} | {commands} |", row.number(), row.meaning);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::Cli;
    use clap::CommandFactory as _;

    #[test]
    fn two_is_wrong_usage_and_nothing_else() {
        let twos = ROWS.iter().filter(|row| row.number() == "2").count();
        assert_eq!((twos, ExitCode::WrongUsage.number()), (1, 2));
        assert!(ROWS.is_sorted_by_key(|row| row.number().parse::<u8>().unwrap_or(u8::MAX)), "in order");
    }

    #[test]
    fn the_table_names_commands_and_options_that_exist() {
        let all = Cli::command();
        let named = ROWS.iter().flat_map(|row| match row.commands {
            Commands::All => &[][..],
            Commands::Without(commands) | Commands::These(commands) => commands,
        });
        let etcd = ["etcd"];
        let worlds = ["demo", "standalone", "extension", "simulated-ssh"];
        let is_built = |listed: &&&str| {
            let command = listed.split(' ').next().unwrap_or_default();
            (cfg!(feature = "etcd") || !etcd.contains(&command))
                && (cfg!(feature = "worlds") || !worlds.contains(&command))
        };
        for listed in named.filter(is_built) {
            let mut words = without_option(listed).split(' ');
            let command = words.try_fold(&all, |within, word| within.find_subcommand(word)).expect(listed);
            let option = listed.split_once(" --").map(|(_, option)| option);
            let has = |option| command.get_arguments().any(|arg| arg.get_long() == Some(option));
            assert!(option.is_none_or(has), "{listed}");
        }
    }

    #[test]
    fn a_comparison_does_not_fail_as_others_do() {
        assert!(is_listed("change diff", ExitCode::Differs) && !is_listed("change diff", ExitCode::Failure));
        assert!(is_listed("change plan", ExitCode::Failure) && !is_listed("change plan", ExitCode::Differs));
        assert!(is_listed("demo", ExitCode::Signal(15)) && !is_listed("get", ExitCode::Signal(15)));
    }
}
