//! Nothing is decided by the text of a sentence: what code has to know of a step, an event or a condition is data, or a
//! constant beside the rule that writes it. What reads words all the same is listed, with whose words they are.

use std::collections::BTreeSet;

use crate::tidy_sources::{Source, report, sources};

/// How text is taken apart.
const METHODS: [&str; 11] = [
    "contains",
    "ends_with",
    "find",
    "rsplit_once",
    "split",
    "split_once",
    "starts_with",
    "strip_prefix",
    "strip_suffix",
    "trim_end_matches",
    "trim_start_matches",
];

/// Files that read words, and why those are not a sentence of ours.
const PARSERS: &[(&str, &str)] = &[
    ("actions/confirmed.rs", "an API server's refusal"),
    ("apiserver/failure/mod.rs", "how Kubernetes begins an internal error, written in the same file"),
    ("apiserver/schema/pattern.rs", "what the regex crate says"),
    ("apiserver/schema/rules/mod.rs", "what the CEL interpreter says"),
    ("change/host_lock.rs", "a command line"),
    ("change/preflight.rs", "what commands print on a host, and command lines"),
    ("change/plan/sequence.rs", "lines of a difference, which has no other form"),
    ("change/rules/condition.rs", "the language of the rules' files"),
    ("change/yaml.rs", "what the YAML parser says"),
    ("commands/describe/draw.rs", "a cell of clusterctl's table"),
    ("fleet/filter.rs", "what the regex crate says"),
    ("fleet/kept.rs", "what serde_json says"),
    ("fleet/mention.rs", "lists in stored conditions, which Cluster API cuts"),
    ("hosts/reasons/mod.rs", "lines of a log: how run/runner.sh begins an attempt"),
    ("leader_migration/reading.rs", "what the YAML parser says"),
    ("observe/dump/text.rs", "what the YAML parser says"),
    ("reconfigure/apply.rs", "command lines"),
    ("status/drain/message.rs", "a stored condition, written in the same file"),
    ("status/machines.rs", "lines of stored conditions, which Cluster API orders so"),
    ("store/etcd/grpc.rs", "what tonic and etcd say"),
    ("store/etcd/restore.rs", "a mark in the store, written in the same file"),
    ("store/sealed/key_file.rs", "the head of a key file, written in the same file"),
    ("tui/command/complete.rs", "a command line"),
    ("tui/screen/rollout/page.rs", "a command line"),
    ("workload/etcd/client.rs", "what etcd says"),
    ("workload/etcd/failure.rs", "what rustls and etcd say"),
    ("workload_api/ports.rs", "the first line of a request"),
];

/// The literals and constants of the file by which text is taken apart, as far as they are words.
fn words_read(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for method in METHODS {
        let head = format!(".{method}(");
        for (at, _) in code.match_indices(&head) {
            let argument = code[at + head.len()..].trim_start();
            let text = literal(argument).or_else(|| constant(argument, code));
            found.extend(text.filter(|text| is_prose(text)).map(str::to_owned));
        }
    }
    found
}

/// The text of a string literal at the beginning, escapes as they are.
fn literal(code: &str) -> Option<&str> {
    let text = code.strip_prefix('"')?;
    let mut is_escaped = false;
    let end = text.find(|c| {
        let is_end = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_end
    })?;
    Some(&text[..end])
}

/// The text of a constant of the same file that is named at the beginning.
fn constant<'a>(argument: &str, code: &'a str) -> Option<&'a str> {
    let end = argument.find(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'))?;
    let name = argument.get(..end).filter(|name| name.len() > 1)?;
    let head = format!("const {name}: &str = ");
    literal(&code[code.find(&head)? + head.len()..])
}

/// A word and a blank, and nothing that plain language does not have.
fn is_prose(text: &str) -> bool {
    let is_plain = |c: char| c.is_alphabetic() || " ,.:;'’\"()*/→".contains(c);
    let has_word = text.split(|c: char| !c.is_alphabetic()).any(|word| word.chars().count() > 1);
    text.chars().all(is_plain) && has_word && text.contains(' ')
}

#[test]
fn no_sentence_is_read_back() {
    let mut problems = Vec::new();
    let mut readers = BTreeSet::new();
    let is_known = |source: &Source| PARSERS.iter().any(|(name, _)| *name == source.name);
    for source in sources() {
        let words = words_read(&source.code);
        if !words.is_empty() {
            readers.insert(source.name.clone());
        }
        if !is_known(&source) {
            problems.extend(words.iter().map(|words| format!("{} looks for {words:?}", source.path)));
        }
    }
    for (name, whose) in PARSERS.iter().filter(|(name, _)| !readers.contains(*name)) {
        problems.push(format!("PARSERS: {name} ({whose}) reads no words any more"));
    }
    report("hand on data, or name a constant beside what writes the words", &problems);
}

#[test]
fn prose_is_told_from_names_and_syntax() {
    for prose in ["create Machine ", " in place", "Etcd doesn't have", "* Pods ", "next: "] {
        assert!(is_prose(prose), "{prose}");
    }
    for other in ["cluster.x-k8s.io/", ", ", "{{ .random }}", "spec.replicas", "$(crictl ps -q --name ", ""] {
        assert!(!is_prose(other), "{other}");
    }
    let code =
        "const UPDATE: &str = \"update it \";\nfn f() { a.starts_with(UPDATE); b.split_once(wording::X); }";
    assert_eq!(words_read(code), ["update it "]);
}
