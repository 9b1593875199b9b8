//! Every word of docs/proposals.md is answered where a person may type it: after `:` and after `capstan`. The page is read here,
//! so that a word that is added to it is typed as well.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

use capi_types::crds;
use capstan::cli::{self, args::Cli};
use capstan_dashboard::fleet::Listed;
use capstan_dashboard::other_words;
use capstan_dashboard::tui::command::{TABLE, parse_typed};
use clap::CommandFactory as _;
use clap::error::{ContextKind, ErrorKind};

/// One table for each document.
const TABLES: usize = 5;
/// So many words at least are typed; a page that lost its form would have none.
const WORDS_MIN: usize = 200;

/// The first cells of the rows of a table.
fn first_cells(table: &str) -> impl Iterator<Item = &str> {
    let rows = table.lines().filter_map(|line| line.strip_prefix("| "));
    rows.filter_map(|row| row.split(" | ").next()).filter(|cell| *cell != "Word" && *cell != "---")
}

/// What stands between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// At most three words of letters, digits, dashes and dots; not one letter, and not a path or a piece of YAML.
fn may_be_typed(word: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    let parts: Vec<&str> = word.split(' ').collect();
    word.len() > 1
        && parts.len() <= 3
        && parts
            .iter()
            .all(|part| part.chars().all(is_letter) && part.contains(|c: char| c.is_ascii_alphabetic()))
}

fn words() -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/proposals.md");
    let page = std::fs::read_to_string(path).expect("docs/proposals.md");
    let tables: Vec<&str> = page.split("\n## ").skip(1).collect();
    assert_eq!(tables.len(), TABLES);
    let cells = tables.iter().flat_map(|table| first_cells(table));
    let words: BTreeSet<String> =
        cells.flat_map(quoted).filter(|word| may_be_typed(word)).map(str::to_owned).collect();
    assert!(words.len() >= WORDS_MIN, "{}", words.len());
    words
}

/// Is it a kind by one of its names?
fn is_kind(word: &str) -> bool {
    let is_it = |name: &str| name.eq_ignore_ascii_case(word);
    let names = crds::all().into_iter().map(|definition| definition.spec.names);
    Listed::named(word).is_some() || names.into_iter().any(|names| is_it(&names.kind) || is_it(&names.plural))
}

/// Names of commands, as typed first after `:` or `capstan`.
fn commands() -> BTreeSet<String> {
    let of_dashboard = TABLE.iter().flat_map(|c| std::iter::once(&c.name).chain(c.aliases));
    let first = of_dashboard.filter_map(|name| name.split(' ').next()).map(str::to_owned);
    let of_program = Cli::command();
    first.chain(of_program.get_subcommands().map(|c| c.get_name().to_owned())).collect()
}

/// Does the sentence name a command, a filter or a page?
fn says_what_to_use(sentence: &str, commands: &BTreeSet<String>) -> bool {
    let is_command = |quote: &str| {
        let line = quote.trim_start_matches(':');
        let line = line.strip_prefix("capstan ").unwrap_or(line);
        line.split(' ').next().is_some_and(|first| commands.contains(first))
    };
    sentence.contains("docs/") || quoted(sentence).any(|quote| quote.starts_with('/') || is_command(quote))
}

/// What is wrong with what is said to a word after `:`.
fn wrong_in_dashboard(word: &str, commands: &BTreeSet<String>) -> Option<String> {
    match parse_typed(word) {
        Ok(call) if call.command.name != "get" || is_kind(word) => None,
        Ok(_) => Some(format!("`:{word}` looks for a kind that is none")),
        Err(said) => {
            // A command that lacks its argument says which.
            let is_command = TABLE.iter().any(|command| command.name == word);
            let answer = other_words::answer(word).filter(|answer| said.contains(answer));
            let is_answered = is_command || answer.is_some_and(|answer| says_what_to_use(answer, commands));
            (!is_answered).then(|| format!("`:{word}`: {said}"))
        }
    }
}

/// What is wrong with what is said to a word after `capstan`.
fn wrong_in_program(word: &str, commands: &BTreeSet<String>) -> Option<String> {
    let line: Vec<OsString> = std::iter::once("capstan").chain(word.split(' ')).map(OsString::from).collect();
    let error = cli::matches(&line).err()?;
    if !matches!(error.kind(), ErrorKind::InvalidSubcommand | ErrorKind::UnknownArgument) {
        // A command that lacks its argument.
        return None;
    }
    let is_by_spelling = [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg]
        .iter()
        .any(|kind| error.get(*kind).is_some());
    let said = error.get(ContextKind::Suggested).map(ToString::to_string).unwrap_or_default();
    let is_answered = !is_by_spelling && says_what_to_use(&said, commands);
    (!is_answered).then(|| format!("`capstan {word}`: {}", error.render()))
}

#[test]
fn every_word_of_the_proposals_is_answered() {
    let commands = commands();
    let words = words();
    let wrong = words.iter().flat_map(|word| {
        [wrong_in_dashboard(word, &commands), wrong_in_program(word, &commands)].into_iter().flatten()
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "crates/dashboard/src/other_words.rs has no answer:\n{}", wrong.join("\n"));
}

/// Each of them led to a command that is only spelled alike, or to nothing.
#[test]
fn words_are_not_answered_by_spelling() {
    for (line, part) in [
        ("reconfigure", "`capstan change plan --set PATH=VALUE`"),
        ("severity", "`why`"),
        ("readinessGates", "`:edit`"),
        ("ScalingUp", "`:condition TYPE`"),
        ("health", "`etcd`"),
        ("conditions", "`:conditions`"),
        ("migrate", "`leader-migration`"),
        ("tree", "`:tree`"),
        ("changes", "`:changes`"),
        ("rollback", "`capstan change rollback`"),
        ("KubeadmConfigTemplate", "`capstan get kubeadmconfigtemplates`"),
        ("kcp", "`capstan get kubeadmcontrolplanes`"),
        ("change --set maxPods=5", "`capstan change plan`"),
        ("change --set=maxPods=5", "`capstan change plan`"),
        ("leader-migration enable", "`capstan leader-migration status`"),
        ("--remote-connection-grace-period 50s", "`capstan engine`"),
        ("engine --cloud-migration-config f", "`--enable-leader-migration`"),
        ("etcd quorum", "`etcd`"),
    ] {
        let words: Vec<OsString> =
            std::iter::once("capstan").chain(line.split(' ')).map(OsString::from).collect();
        let error = cli::matches(&words).expect_err(line);
        let said = error.render().to_string();
        assert!(said.contains(part), "{line}: {said}");
        assert!(!said.contains("similar"), "{line}: {said}");
    }
}

/// Options of upstream's managers that the engine has are options here, too.
#[test]
fn grace_periods_are_options_of_the_engine() {
    let line = "capstan engine --remote-connection-grace-period=50s --remote-conditions-grace-period=5m";
    let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
    assert!(cli::matches(&words).is_ok());
}
