//! Objects in a text: YAML streams, JSON values one after the other, lists taken apart. Owns positions;
//! must not know files, nor any kind.

use serde_json::Value;

use super::document::{Document, Origin};
use capi_types::key::ObjectKey;

/// Why a text is not a dump, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {expected} was expected here: {why}")]
pub struct Wrong {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    expected: &'static str,
    why: String,
}

/// The documents of a text with the line that each begins on: JSON values one after the other, or a
/// YAML stream. Empty documents are left out.
///
/// # Errors
/// The first place where it is neither.
pub fn parse(text: &str) -> Result<Vec<(usize, Value)>, Wrong> {
    if is_json(text) { parse_json(text) } else { parse_yaml(text) }
}

/// JSON is recognised by its first two characters; the flow style of YAML seldom quotes its keys.
fn is_json(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with('[')
        || text.strip_prefix('{').is_some_and(|rest| rest.trim_start().starts_with(['"', '}']))
}

fn parse_json(text: &str) -> Result<Vec<(usize, Value)>, Wrong> {
    let mut found = Vec::new();
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let (mut at, mut line) = (0, 1);
    loop {
        // A value begins after its blanks, and its line is what remarks name.
        let blanks = text[at..].len() - text[at..].trim_start().len();
        line += newlines(&text[at..at + blanks]);
        match values.next() {
            None => return Ok(found),
            Some(Ok(value)) => found.push((line, value)),
            Some(Err(error)) => {
                let why = without_place(&error.to_string());
                return Err(Wrong { line: error.line(), column: error.column(), expected: "JSON", why });
            }
        }
        line += newlines(&text[at + blanks..values.byte_offset()]);
        at = values.byte_offset();
    }
}

/// The message without the place, which both parsers repeat in other words.
fn without_place(why: &str) -> String {
    why.rsplit_once(" at line ").map_or(why, |(why, _)| why).to_owned()
}

fn newlines(text: &str) -> usize {
    text.bytes().filter(|b| *b == b'\n').count()
}

/// Document by document, so that each has its line.
fn parse_yaml(text: &str) -> Result<Vec<(usize, Value)>, Wrong> {
    let mut found = Vec::new();
    for (first, chunk) in chunks(text) {
        // The files are the operator's own, and a dump of a large fleet has many nodes. Aliases are not
        // needed in it.
        let options = serde_saphyr::options! {
            budget: None,
            alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 100_000 },
        };
        let values: Vec<Value> = serde_saphyr::from_multiple_with_options(chunk, options)
            .map_err(|error| wrong_yaml(first, &error))?;
        found.extend(values.into_iter().filter(|v| !v.is_null()).map(|value| (first, value)));
    }
    Ok(found)
}

fn wrong_yaml(first: usize, error: &serde_saphyr::Error) -> Wrong {
    let place = error.location();
    let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let (line, column) = place.map_or((1, 1), |at| (number(at.line()), number(at.column())));
    let why = error.without_snippet().to_string();
    let why = without_place(why.lines().next().unwrap_or_default());
    Wrong { line: first + line.saturating_sub(1), column, expected: "YAML", why }
}

/// A stream cut at its document marks, which cannot stand within a document; with the line that each
/// part begins on. Parts of blanks, comments and directives alone are left out.
fn chunks(text: &str) -> Vec<(usize, &str)> {
    let mut starts = vec![(1, 0)];
    let mut at = 0;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let marks = line
            .strip_prefix("---")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']));
        // A mark at the very beginning opens the first document, and cuts off nothing.
        if marks && at > 0 {
            starts.push((index + 1, at));
        }
        at += line.len();
    }
    let ends = starts.iter().skip(1).map(|(_, at)| *at).chain([text.len()]);
    let parts = starts.iter().zip(ends).map(|((line, from), to)| (*line, &text[*from..to]));
    parts.filter(|(_, part)| part.lines().any(says_something)).collect()
}

fn says_something(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with(['#', '%']) && line != "---" && line != "..."
}

/// Lists become their items; items of a typed list get the version and kind that the list has for all of them.
pub fn flatten(
    mut value: Value,
    origin: &Origin,
    cluster: Option<&ObjectKey>,
    documents: &mut Vec<Document>,
) {
    let kind = value["kind"].as_str().unwrap_or_default().to_owned();
    let items = match &mut value {
        Value::Array(items) => std::mem::take(items),
        Value::Object(map) if kind.ends_with("List") && map.get("items").is_some_and(Value::is_array) => {
            map.get_mut("items").and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default()
        }
        _ => {
            documents.push(Document { value, workload: cluster.cloned(), origin: origin.clone() });
            return;
        }
    };
    let item_kind = kind.strip_suffix("List").filter(|k| !k.is_empty());
    for (index, mut item) in items.into_iter().enumerate() {
        // Items of typed lists come without kind and version, as API servers send them.
        if let (Some(kind), true) = (item_kind, item.is_object() && item["kind"].is_null()) {
            item["kind"] = kind.into();
            item["apiVersion"] = value["apiVersion"].clone();
        }
        let origin = Origin { item: Some(index + 1), ..origin.clone() };
        flatten(item, &origin, cluster, documents);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn flat(text: &str) -> Vec<Document> {
        let mut found = Vec::new();
        for (line, value) in parse(text).expect("a dump") {
            let origin = Origin { file: "f".to_owned(), line, item: None };
            flatten(value, &origin, Some(&ObjectKey::new("ns", "c")), &mut found);
        }
        found
    }

    fn places(text: &str) -> Vec<String> {
        flat(text).iter().map(|d| d.origin.to_string()).collect()
    }

    #[test]
    fn lists_are_taken_apart_and_keep_their_kind() {
        let mut found = flat(
            "---\nkind: A\nmetadata: {name: a}\n---\n\n---\nkind: BList\napiVersion: g/v1\nitems:\n- metadata: {name: b}\n",
        );
        found.extend(flat(
            "{\"kind\": \"List\", \"items\": [{\"kind\": \"C\"}]} {\"kind\": \"D\", \"items\": [1]}",
        ));
        let values: Vec<Value> = found.iter().map(|d| d.value.clone()).collect();
        assert_eq!(
            values,
            [
                json!({"kind": "A", "metadata": {"name": "a"}}),
                json!({"kind": "B", "apiVersion": "g/v1", "metadata": {"name": "b"}}),
                json!({"kind": "C"}),
                json!({"kind": "D", "items": [1]}),
            ]
        );
        assert_eq!(found[2].workload, Some(ObjectKey::new("ns", "c")));
        assert_eq!(flat("3\n---\n{a: 1}\n---\nkind: NoList\nitems: [4]\n").len(), 3, "left for a remark");
        assert_eq!(flat("[{\"kind\": \"A\"}, {\"kind\": \"AList\", \"items\": []}]").len(), 1);
    }

    #[test]
    fn every_document_knows_its_line() {
        assert_eq!(
            places("# head\n%YAML 1.2\n---\nkind: A\n---\n---\n# nothing\n---\nkind: B\n...\n"),
            ["f:3", "f:8"]
        );
        assert_eq!(
            places("kind: A\ntext: |\n  ---\n  --- no mark\nlast: 1\n--- {kind: B}\n"),
            ["f:1", "f:6"]
        );
        assert_eq!(
            places("\n\n{\"kind\": \"A\"}\n\n{\"kind\":\n \"B\"}\n[{}, {}]"),
            ["f:3", "f:5", "f:7 item 1", "f:7 item 2"]
        );
        assert_eq!(places("{kind: A}"), ["f:1"], "YAML's own flow style");
        assert_eq!(places(" \n# only words\n---\n"), Vec::<String>::new());
    }

    #[test]
    fn mistakes_are_shown_where_they_are() {
        let place = |text: &str| {
            let wrong = parse(text).expect_err("no dump");
            (wrong.line, wrong.to_string())
        };
        let (line, words) = place("kind: A\n---\nkind: B\nmetadata: {name: [}\n");
        assert_eq!(line, 4);
        assert!(words.starts_with("4:") && words.contains("YAML was expected here: "), "{words}");
        assert!(!words.contains('\n'), "{words}");
        let (line, words) = place("{\"kind\": \"A\"}\n{\"kind\": \"B\",\n oops}\n");
        assert_eq!(line, 3);
        assert_eq!(words, "3:2: JSON was expected here: key must be a string");
        assert_eq!(place("{\"kind\": ").0, 1);
    }

    #[test]
    fn nesting_and_repetition_have_their_limits() {
        let deep = "[".repeat(20_000);
        assert!(parse(&deep).is_err());
        assert!(parse(&format!("a: {deep}")).is_err());
        let mut bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for (name, before) in
            ["b", "c", "d", "e", "f", "g", "h", "i"].iter().zip(["a", "b", "c", "d", "e", "f", "g", "h"])
        {
            bomb.push_str(&format!("{name}: &{name} [{}]\n", vec![format!("*{before}"); 9].join(", ")));
        }
        assert!(parse(&bomb).is_err(), "nine to the ninth");
    }
}
