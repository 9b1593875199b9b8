//! Objects that a condition's message names: the lists that Cluster API writes where it sums up the conditions of
//! several objects (`* Machines a, b, c, ... (2 more): text`). Owns that format; must not know which objects exist.
//! Source: cluster-api `util/conditions/merge_strategies.go`, v1.14.2; written here by `status::conditions::merge`.

use capi_rules::status::conditions::wording::plural;

/// One line of such a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mention<'a> {
    /// The kind as it is written, which is plural for several objects.
    kind: &'a str,
    /// At most three.
    pub names: Vec<&'a str>,
    /// So many more have the same text.
    pub more: usize,
    /// What is said about them: the rest of the line and the lines below it.
    pub text: &'a str,
}

impl Mention<'_> {
    /// Does the line speak of objects of this kind?
    pub fn is_of(&self, kind: &str) -> bool {
        // The beginning is compared first: a plural is a new text, and most kinds differ before
        // that.
        self.kind == kind || (self.kind.starts_with(kind.trim_end_matches('y')) && self.kind == plural(kind))
    }
}

/// The lines of a message that name objects, in order. A line that names none belongs to the one before.
pub fn mentions(message: &str) -> Vec<Mention<'_>> {
    let mut entries = Vec::new();
    let mut start = 0;
    for line in message.split('\n') {
        if let Some(entry) = line.strip_prefix("* ") {
            entries.push((start, parse(entry)));
        }
        start += line.len() + 1;
    }
    let ends: Vec<usize> = entries.iter().skip(1).map(|(start, _)| *start).chain([message.len()]).collect();
    let mut found = Vec::new();
    for ((start, parsed), end) in entries.into_iter().zip(ends) {
        let Some((mut mention, used)) = parsed else { continue };
        // 2: the bullet and the blank after it.
        mention.text = message.get(start + 2 + used..end).unwrap_or_default().trim();
        found.push(mention);
    }
    found
}

/// `KIND a, b, ... (2 more):` at the start of a line, and its length.
fn parse(line: &str) -> Option<(Mention<'_>, usize)> {
    let colon = line.find(':')?;
    let (kind, list) = line[..colon].split_once(' ')?;
    let is_kind =
        kind.starts_with(|c: char| c.is_ascii_uppercase()) && kind.chars().all(|c| c.is_ascii_alphanumeric());
    let mut mention = Mention { kind, names: Vec::new(), more: 0, text: "" };
    for name in list.split(", ") {
        match name.strip_prefix("... (").and_then(|rest| rest.strip_suffix(" more)")) {
            Some(count) => mention.more = count.parse().ok()?,
            None if is_name(name) => mention.names.push(name),
            None => return None,
        }
    }
    (is_kind && !mention.names.is_empty()).then_some((mention, colon + 1))
}

/// The name of an object, with its namespace or without.
fn is_name(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.' | '/');
    !text.is_empty() && text.chars().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_objects_are_read() {
        let message = "* Machines a-0, a-1, a-2, ... (5 more):\n  * NodeHealthy: down\n  * UpToDate: old\n\
                       * MachineSet a-md: not ready\nAnd 3 Machines with other issues";
        let found = mentions(message);
        assert_eq!((found[0].names.as_slice(), found[0].more), (&["a-0", "a-1", "a-2"][..], 5));
        assert_eq!(found[0].text, "* NodeHealthy: down\n  * UpToDate: old");
        assert!(found[0].is_of("Machine") && !found[0].is_of("MachineSet"));
        assert_eq!((found[1].names.as_slice(), found[1].more), (&["a-md"][..], 0));
        assert!(found[1].is_of("MachineSet") && !found[1].is_of("Machine"));
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn other_lines_name_nothing() {
        for message in [
            "",
            "plain",
            "* NodeHealthy: Machine a: down",
            "* Control plane is not ready: wait",
            "* Machine A b: x",
            "Machine a: x",
            "* Machine : x",
            "* machine a: x",
            "* Machines a, ... (many more): x",
        ] {
            assert_eq!(mentions(message), [], "{message}");
        }
    }

    /// What `status` writes is what is read here.
    #[test]
    fn what_an_aggregate_writes_is_read_again() {
        use capi_rules::status::conditions::merge::{Aggregate, Reasons, Reporter};
        use capi_rules::status::conditions::setter::condition;
        use capi_types::condition::Status;
        use capi_types::condition_types::Polarity;
        let down = [condition("Ready", Status::False, "NotReady", "* NodeHealthy: down")];
        let names = ["a", "b", "c", "d", "e"];
        let sources = names.map(|name| Reporter { kind: "Machine", name, conditions: &down });
        let aggregate = Aggregate {
            source_type: "Ready",
            target: "MachinesReady",
            polarity: Polarity::Positive,
            reasons: Reasons::READY,
        };
        let message = aggregate.of(&sources).message;
        let found = mentions(&message);
        assert_eq!((found[0].names.as_slice(), found[0].more), (&["a", "b", "c"][..], 2), "{message}");
        assert_eq!(found[0].text, "* NodeHealthy: down");
    }
}
