//! What the programs themselves said to flags made by chance, beside what is said here.

use super::*;
use crate::difference::FieldChange;
use crate::document::DocumentKind;
use crate::facts::ClusterFacts;
use crate::path::{FieldPath, PathStep};
use crate::rules::{Judgement, judge};

const FILES: [(u64, u64, &str); 2] =
    [(33, 5, include_str!("vectors/1.33.13.txt")), (36, 6, include_str!("vectors/1.36.3.txt"))];

/// Flags whose values a program refuses only when it goes on, after the point at which it was asked: TLS, leader election, files for
/// audits that it opens.
fn is_refused_later(flags: &[&str]) -> bool {
    let later = ["tls-min-version=", "leader-elect-", "audit-"];
    flags.iter().any(|flag| later.iter().any(|head| flag.starts_with(head)))
}

/// Does a rule say `ok` to a flag of this name?
fn is_ok(folder: &[&str], flag: &str) -> bool {
    let (name, value) = pair(flag);
    let path = folder.iter().fold(FieldPath::default(), |path, name| path.field(name));
    let path = path.field("extraArgs").step(PathStep::Item(name));
    let change = FieldChange {
        kind: DocumentKind::Cluster,
        path,
        old: Value::Null,
        new: value.into(),
        derived_from: None,
    };
    judge(&change, &ClusterFacts::default()).expect("a rule").verdict == Judgement::Ok
}

fn pair(flag: &str) -> (String, String) {
    let (name, value) = flag.split_once('=').unwrap_or((flag, ""));
    (name.to_owned(), value.to_owned())
}

#[test]
fn what_a_program_refuses_is_never_ready_and_nothing_else_is_blocked() {
    let (mut missed, mut wrong, mut all) = (Vec::new(), Vec::new(), 0);
    for (minor, etcd, text) in FILES {
        let lines: Vec<Vec<&str>> = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split('\t').collect())
            .collect();
        for line in lines.iter().filter(|line| line[0] != "given") {
            let component = line[0];
            let given = lines.iter().filter(|line| line[0] == "given" && line[1] == component);
            let (flags, verdict) = (&line[1..line.len() - 1], line[line.len() - 1]);
            let mut pairs: Vec<(String, String)> =
                given.flat_map(|line| &line[2..]).map(|flag| pair(flag)).collect();
            pairs.extend(flags.iter().map(|flag| pair(flag)));
            let folder = COMPONENTS.iter().find(|(name, _)| *name == component).expect("a component").1;
            let list: Vec<Value> =
                pairs.iter().map(|(name, value)| serde_json::json!({"name": name, "value": value})).collect();
            let part = serde_json::json!({"extraArgs": list});
            let cluster = folder.iter().rev().fold(part, |value, name| serde_json::json!({*name: value}));
            let refused = !refused_flags(&cluster, Some(minor), Some(etcd)).is_empty();
            all += 1;
            match (refused, verdict) {
                (false, "refused") if flags.iter().all(|flag| is_ok(folder, flag)) => {
                    missed.push(format!("{minor} {}", line.join(" ")));
                }
                (true, "ok") if !is_refused_later(flags) => wrong.push(format!("{minor} {}", line.join(" "))),
                _ => {}
            }
        }
    }
    assert!(
        missed.is_empty() && wrong.is_empty(),
        "of {all}\nmissed:\n{}\nrefused:\n{}",
        missed.join("\n"),
        wrong.join("\n")
    );
}
