//! An object as text for an editor, and the change that a person made of it. Owns what the text leaves out, how the change is read
//! back, and what becomes of it when others changed the object meanwhile. Must not know an editor, nor a server.

use serde_json::Value;

use capi_types::key::ObjectRef;
use capi_types::names::annotation;
use capstan_base::text;
use k8s_machinery::merge;

/// Fields of the metadata that the server sets.
const SERVER_FIELDS: [&str; 8] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Fields by which the server finds the object.
const NAMES: [&str; 4] = ["/apiVersion", "/kind", "/metadata/name", "/metadata/namespace"];

const HEAD: &str = "\
# Save and leave the editor: the change is tried on the server and shown before anything is written.
# An empty text changes nothing. The status and what the server sets in the metadata are left out.
";

/// An object that a person edits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// In the version that the server offers.
    pub target: ObjectRef,
    /// What the editor is given, and after it what the person left.
    pub text: String,
    /// The object of which the text was made, without what is left out.
    seen: Value,
}

/// What a person changed of an object, as they saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectChange {
    patch: Value,
    seen: Value,
}

impl Draft {
    /// The text of an object as it is.
    ///
    /// # Errors
    /// The object does not come back from YAML as it is, in a sentence.
    pub fn of(target: ObjectRef, object: &Value) -> Result<Self, String> {
        let seen = editable(object);
        let text = format!("{HEAD}{}", yaml(&seen)?);
        Ok(Self { target, text, seen })
    }

    /// What the person changed; `None` for nothing.
    ///
    /// # Errors
    /// The text is not YAML, or changes what cannot be changed: with the line, in a sentence.
    pub fn change(&self) -> Result<Option<ObjectChange>, String> {
        if body(&self.text).trim().is_empty() {
            return Ok(None);
        }
        let edited = parse(&self.text)?;
        check(&edited, &self.seen)?;
        let patch = merge::merge_diff(&self.seen, &edited);
        Ok(patch.map(|patch| ObjectChange { patch, seen: self.seen.clone() }))
    }

    /// The text for another look, with the reason on top. When the object has changed since, the person's change is put into the newest
    /// object; a field that others changed too has the person's value, and the other one is named.
    ///
    /// # Errors
    /// As for [`Draft::of`].
    pub fn again(&self, newest: &Value, why: &str) -> Result<Self, String> {
        let newest = editable(newest);
        let mut remarks = vec![why.to_owned()];
        if newest == self.seen {
            return Ok(Self { text: with_head(&remarks, body(&self.text)), ..self.clone() });
        }
        let mut object = newest.clone();
        match self.change() {
            Ok(Some(change)) => {
                remarks.push(
                    "The object was changed on the server meanwhile; your change is in this newer one."
                        .to_owned(),
                );
                remarks.extend(overlaps(&change.patch, &self.seen, &newest).iter().map(Overlap::remark));
                merge::apply(&mut object, &change.patch);
            }
            Ok(None) => remarks
                .push("The object was changed on the server meanwhile; this is the newer one.".to_owned()),
            // What cannot be read cannot be put into another object.
            Err(_) => return Ok(Self { text: with_head(&remarks, body(&self.text)), ..self.clone() }),
        }
        Ok(Self { target: self.target.clone(), text: with_head(&remarks, &yaml(&object)?), seen: newest })
    }
}

impl ObjectChange {
    /// A change that a command makes of an object as it was read.
    pub fn of(object: &Value, patch: Value) -> Self {
        Self { patch, seen: editable(object) }
    }

    /// The merge patch on the object as it is now.
    ///
    /// # Errors
    /// Others changed the same fields since the person saw them: these, in words.
    pub fn patch_of(&self, object: &Value) -> Result<&Value, String> {
        let overlaps = overlaps(&self.patch, &self.seen, &editable(object));
        if overlaps.is_empty() {
            return Ok(&self.patch);
        }
        let fields: Vec<String> = overlaps.iter().map(Overlap::remark).collect();
        Err(fields.join("; "))
    }

    /// The fields that it sets or takes away.
    pub fn fields(&self) -> Vec<String> {
        let mut found = Vec::new();
        let nothing = (&Value::Null, &Value::Null);
        compare(&self.patch, nothing, "", &mut |path, _, _| found.push(path.to_owned()));
        found
    }
}

/// A field that others and the person changed.
struct Overlap {
    path: String,
    wanted: String,
    now: String,
}

impl Overlap {
    fn remark(&self) -> String {
        format!("{}: {} in your text, {} on the server now", self.path, self.wanted, self.now)
    }
}

/// What a person decides about: without the status, what the server sets, and kubectl's copy of the object.
fn editable(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        SERVER_FIELDS.iter().for_each(|field| drop(metadata.remove(*field)));
        let annotations = metadata.get_mut("annotations").and_then(Value::as_object_mut);
        let is_empty = annotations.is_some_and(|annotations| {
            annotations.remove(annotation::LAST_APPLIED);
            annotations.is_empty()
        });
        if is_empty {
            metadata.remove("annotations");
        }
    }
    object
}

fn yaml(object: &Value) -> Result<String, String> {
    let options = serde_saphyr::ser_options! { folded_wrap_chars: 1_000_000 };
    let text = serde_saphyr::to_string_with_options(object, options)
        .map_err(|error| format!("it cannot be shown as YAML: {error}"))?;
    // A text that reads as another object would change what the person did not touch; and no control character of a cluster
    // may reach the terminal through an editor.
    let is_plain = !text.chars().any(|c| !matches!(c, '\n' | '\t') && text::is_hostile(c));
    match parse(&text) {
        Ok(again) if again == *object && is_plain => Ok(text),
        _ => Err("it has values that a text cannot show as they are, such as control characters".to_owned()),
    }
}

fn parse(text: &str) -> Result<Value, String> {
    let head_lines = text.len() - body(text).len();
    let head_lines = text[..head_lines].lines().count() as u64;
    serde_saphyr::from_str(body(text)).map_err(|error| {
        let place = error.location().map(|at| format!("line {}: ", at.line() + head_lines));
        let reason = error.to_string();
        // The rest shows the text around it once more.
        let first = reason.lines().next().unwrap_or_default();
        // It counts lines without the remarks.
        let placed = error.location().map(|at| format!("error: line {} column {}: ", at.line(), at.column()));
        let reason = placed.and_then(|placed| first.strip_prefix(&placed)).unwrap_or(first);
        let reason = text::sanitize_line(reason);
        format!("{}it is not YAML: {reason}", place.unwrap_or_default())
    })
}

/// The text behind the lines of remarks on its top.
fn body(text: &str) -> &str {
    let mut rest = text;
    while rest.starts_with('#') {
        rest = rest.split_once('\n').map_or("", |(_, after)| after);
    }
    rest
}

fn with_head(remarks: &[String], body: &str) -> String {
    let lines = remarks.iter().flat_map(|remark| remark.lines().map(text::sanitize_line));
    let remarks: String = lines.map(|line| format!("# {line}\n")).collect();
    format!("{HEAD}#\n{remarks}{body}")
}

fn check(edited: &Value, seen: &Value) -> Result<(), String> {
    if !edited.is_object() || !edited["metadata"].is_object() {
        return Err("it is not an object: it needs apiVersion, kind and metadata".to_owned());
    }
    if let Some(pointer) = NAMES.into_iter().find(|pointer| edited.pointer(pointer) != seen.pointer(pointer))
    {
        let field = pointer.trim_start_matches('/').replace('/', ".");
        let before = seen.pointer(pointer).map(brief);
        let before = before.map_or_else(|| "be absent".to_owned(), |value| format!("be {value}"));
        return Err(format!("{field} cannot be changed: it must {before}"));
    }
    if edited.get("status").is_some() {
        return Err("status cannot be changed here: controllers write it; take it out of the text".to_owned());
    }
    let set = SERVER_FIELDS.into_iter().find(|field| edited["metadata"].get(field).is_some());
    set.map_or(Ok(()), |field| Err(format!("metadata.{field} is set by the server: take it out of the text")))
}

/// The fields of a patch that differ between two states of the object, and are not yet as the patch makes them.
fn overlaps(patch: &Value, seen: &Value, newest: &Value) -> Vec<Overlap> {
    let mut found = Vec::new();
    compare(patch, (seen, newest), "", &mut |path, (seen, newest), wanted| {
        if seen != newest && newest != wanted {
            found.push(Overlap { path: path.to_owned(), wanted: brief(wanted), now: brief(newest) });
        }
    });
    found
}

type Both<'v> = (&'v Value, &'v Value);

/// Calls `take` with each field that a patch sets or takes away: its path, its value in two objects, and the patch's.
fn compare(patch: &Value, both: Both<'_>, path: &str, take: &mut impl FnMut(&str, Both<'_>, &Value)) {
    match patch {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, change) in fields {
                let below = (&both.0[name], &both.1[name]);
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                compare(change, below, &path, take);
            }
        }
        other => take(path, both, other),
    }
}

/// A value in a few words.
fn brief(value: &Value) -> String {
    const CELLS: usize = 40;
    match value {
        Value::Null => "nothing".to_owned(),
        Value::String(words) => text::truncate(&text::sanitize_line(words), CELLS, "…"),
        other => text::truncate(&text::sanitize_line(&other.to_string()), CELLS, "…"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use capi_types::key::{Gvk, ObjectKey};

    fn target() -> ObjectRef {
        let gvk = Gvk::of::<capi_types::machine_deployment::MachineDeployment>();
        ObjectRef { gvk, key: ObjectKey::new("prod", "md"), uid: "u".to_owned() }
    }

    fn object(version: &str, spec: Value) -> Value {
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment",
            "metadata": {
                "name": "md", "namespace": "prod", "uid": "u", "resourceVersion": version, "generation": 3,
                "creationTimestamp": "2026-11-20T10:00:00Z", "managedFields": [{"manager": "x"}],
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
                "labels": {"example.com/tier": "gold", "version": "1.10"},
            },
            "spec": spec,
            "status": {"replicas": 3},
        })
    }

    fn draft() -> Draft {
        Draft::of(target(), &object("1", json!({"replicas": 3, "paused": false}))).expect("a text")
    }

    fn edited(from: &str, to: &str) -> Draft {
        let draft = draft();
        assert!(draft.text.contains(from), "{from}: {}", draft.text);
        Draft { text: draft.text.replace(from, to), ..draft }
    }

    #[test]
    fn the_text_has_what_a_person_decides_about() {
        let text = draft().text;
        for there in ["replicas: 3", "example.com/tier: gold", "version: \"1.10\"", "name: md"] {
            assert!(text.contains(there), "{there}: {text}");
        }
        for absent in ["managedFields", "resourceVersion", "uid", "status:", "last-applied", "annotations"] {
            assert!(!body(&text).contains(absent), "{absent}: {text}");
        }
    }

    #[test]
    fn a_text_is_read_back_as_a_change_or_as_what_is_wrong_with_it() {
        let change = |draft: &Draft| draft.change().map(|change| change.map(|change| change.patch));
        for (from, to, expected) in [
            ("replicas: 3", "replicas: 3", Ok(None)),
            ("replicas: 3", "replicas: 5", Ok(Some(json!({"spec": {"replicas": 5}})))),
            ("  paused: false\n", "", Ok(Some(json!({"spec": {"paused": null}})))),
            (
                "tier: gold",
                "tier: lead",
                Ok(Some(json!({"metadata": {"labels": {"example.com/tier": "lead"}}}))),
            ),
            ("name: md", "name: other", Err("metadata.name cannot be changed: it must be md")),
            (
                "kind: MachineDeployment",
                "kind: Machine",
                Err("kind cannot be changed: it must be MachineDeployment"),
            ),
            (
                "spec:",
                "status: {}\nspec:",
                Err("status cannot be changed here: controllers write it; take it out of the text"),
            ),
            (
                "  name: md",
                "  name: md\n  uid: v",
                Err("metadata.uid is set by the server: take it out of the text"),
            ),
        ] {
            assert_eq!(change(&edited(from, to)), expected.map_err(str::to_owned), "{to}");
        }
        let empty = Draft { text: "# nothing\n\n".to_owned(), ..draft() };
        assert_eq!(change(&empty), Ok(None));
        let list = Draft { text: "- a\n".to_owned(), ..draft() };
        assert_eq!(
            change(&list),
            Err("it is not an object: it needs apiVersion, kind and metadata".to_owned())
        );
    }

    #[test]
    fn what_is_not_yaml_is_answered_with_the_line_of_the_file() {
        for wrong in ["replicas: [3", "replicas: 3\n  replicas: 4", "replicas: 3\n\tpaused: 1"] {
            let draft = edited("replicas: 3", wrong);
            let at = draft.text.lines().position(|line| line.contains("replicas")).expect("there") + 1;
            let why = draft.change().expect_err("not YAML");
            assert!(why.contains("it is not YAML: ") && !why.contains("error: line"), "{why}");
            let line: usize =
                why.split(' ').nth(1).and_then(|n| n.trim_end_matches(':').parse().ok()).expect("a line");
            assert!((at..=at + 3).contains(&line), "{why} near {at}\n{}", draft.text);
        }
    }

    #[test]
    fn another_look_has_the_reason_and_keeps_what_the_person_wrote() {
        let wrong = edited("replicas: 3", "replicas: [3 # mine");
        let again = wrong
            .again(&object("1", json!({"replicas": 3, "paused": false})), "line 14: wrong")
            .expect("a text");
        assert!(
            again.text.contains("# line 14: wrong\n") && again.text.contains("replicas: [3 # mine"),
            "{}",
            again.text
        );
        assert_eq!(
            again
                .again(&object("1", json!({"replicas": 3, "paused": false})), "x")
                .expect("a text")
                .text
                .matches("line 14")
                .count(),
            0
        );
        // What cannot be read stays as it is also when the object moved on.
        let moved = wrong.again(&object("2", json!({"replicas": 4})), "wrong").expect("a text");
        assert!(moved.text.contains("replicas: [3 # mine"), "{}", moved.text);
    }

    #[test]
    fn a_change_goes_into_the_newest_object_and_what_both_changed_is_named() {
        let mine = edited("replicas: 3", "replicas: 5");
        let change = mine.change().expect("read").expect("changed");
        for (newest, refused) in [
            (json!({"replicas": 3, "paused": true}), None),
            (json!({"replicas": 5, "paused": true}), None),
            (json!({"replicas": 7}), Some("spec.replicas: 5 in your text, 7 on the server now")),
            (json!({}), Some("spec.replicas: 5 in your text, nothing on the server now")),
        ] {
            let newest = object("2", newest);
            assert_eq!(change.patch_of(&newest).err().as_deref(), refused);
            let again = mine.again(&newest, "others").expect("a text");
            assert!(again.text.contains("replicas: 5"), "{}", again.text);
            assert_eq!(again.text.contains("in your text"), refused.is_some(), "{}", again.text);
            // Seen by the person now, so that it is a change of the newest object.
            if let Some(change) = again.change().expect("read") {
                assert_eq!(change.patch_of(&newest).err(), None);
            }
        }
        assert_eq!(change.fields(), ["spec.replicas"]);
    }

    #[test]
    fn values_come_back_as_they_are_or_the_object_is_not_edited() {
        for value in [
            json!("a: b"),
            json!("yes"),
            json!("0x1f"),
            json!("two\nlines\n"),
            json!("tab\there"),
            json!(""),
            json!("# x"),
            json!(1.5),
        ] {
            let object = object("1", json!({"value": value}));
            let draft = Draft::of(target(), &object).expect("a text");
            assert_eq!(draft.change(), Ok(None), "{value}: {}", draft.text);
        }
        for hostile in ["\u{1b}[31m", "\u{202e}abc", "\u{0}"] {
            let object = object("1", json!({"value": hostile}));
            if let Ok(draft) = Draft::of(target(), &object) {
                assert!(!draft.text.chars().any(|c| c != '\n' && text::is_hostile(c)), "{:?}", draft.text);
                assert_eq!(draft.change(), Ok(None));
            }
        }
    }
}
