//! The change of "update in place": what a person sets in one go, read from words, what it makes of an object and of its
//! templates, and whether it may go on. Pure. Must not read anything, nor know how extensions are asked.

use std::fmt;

use serde_json::{Map, Value, json};

use super::edit::{Edit, is_changed_by, nothing};
use super::fields::{Fields, kubernetes_version, put};
use super::{ActionError, Outlook};
use crate::operations::{Finding, Severity};
use capi_forecast::forecast::in_place::{Updates, Way};
use capstan_base::text::counted;
use k8s_machinery::merge;

/// Of a name that the server takes for a template.
const NAME_CHARS_MAX: usize = 63;
/// Machines that are named in one finding.
const NAMED_MAX: usize = 3;

/// What is changed together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InPlaceChange {
    /// Kubernetes version with its `v`.
    pub version: Option<String>,
    /// Another template that exists already, by name.
    pub infrastructure: Option<String>,
    pub bootstrap: Option<String>,
    /// Fields, through a new template.
    pub fields: Vec<FieldEdit>,
    /// `maxSurge` becomes 0, so that no Machine is made for the rollout.
    pub without_surge: bool,
    /// Go on also where Machines would be replaced.
    pub allows_replacement: bool,
}

/// One field of the objects behind a Machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldEdit {
    pub part: TemplatePart,
    /// JSON pointer in the object that is made from the template: `/spec/...` or `/metadata/...`.
    pub pointer: String,
    /// Null takes the field away.
    pub value: Value,
}

/// Which of the two objects behind a Machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TemplatePart {
    Infrastructure,
    Bootstrap,
}

impl TemplatePart {
    const ALL: [Self; 2] = [Self::Infrastructure, Self::Bootstrap];

    fn word(self) -> &'static str {
        match self {
            Self::Infrastructure => "infrastructure",
            Self::Bootstrap => "bootstrap",
        }
    }
}

impl TemplatePart {
    /// The reference that a control plane or MachineDeployment has to it.
    pub fn reference(self, object: &Value) -> Option<&Value> {
        let pointer = match (self, object["kind"] == "KubeadmControlPlane") {
            (Self::Infrastructure, true) => "/spec/machineTemplate/spec/infrastructureRef",
            (Self::Infrastructure, false) => "/spec/template/spec/infrastructureRef",
            (Self::Bootstrap, true) => return None,
            (Self::Bootstrap, false) => "/spec/template/spec/bootstrap/configRef",
        };
        object.pointer(pointer)
    }
}

/// The words, for people.
pub const WORDS: &str = "VERSION, infrastructure=TEMPLATE, bootstrap=TEMPLATE, infrastructure:/spec/PATH=VALUE, \
                         bootstrap:/spec/PATH=VALUE, no-surge, allow-replace";

impl InPlaceChange {
    /// Reads words with blanks between them.
    ///
    /// # Errors
    /// Which word is not understood, or that nothing is changed.
    pub fn parse(words: &str) -> Result<Self, String> {
        let mut change = Self::default();
        for word in words.split_whitespace() {
            change.take(word)?;
        }
        let changes = change.version.is_some()
            || change.infrastructure.is_some()
            || change.bootstrap.is_some()
            || !change.fields.is_empty();
        if changes { Ok(change) } else { Err(format!("nothing is changed; write {WORDS}")) }
    }

    fn take(&mut self, word: &str) -> Result<(), String> {
        match word {
            "no-surge" => self.without_surge = true,
            "allow-replace" => self.allows_replacement = true,
            // Only the first `=` divides: the value may contain others.
            _ => match word.split_once('=') {
                None => self.version = Some(version(word)?),
                Some(("version", typed)) => self.version = Some(version(typed)?),
                Some(("infrastructure", name)) => self.infrastructure = Some(template(word, name)?),
                Some(("bootstrap", name)) => self.bootstrap = Some(template(word, name)?),
                Some((field, value)) => self.fields.push(field_edit(word, field, value)?),
            },
        }
        Ok(())
    }

    /// The templates that have to be read, since a new one is made from each.
    pub fn edited_parts(&self) -> Vec<TemplatePart> {
        let is_edited = |part: &TemplatePart| self.fields.iter().any(|edit| edit.part == *part);
        TemplatePart::ALL.into_iter().filter(is_edited).collect()
    }

    /// What is sent: the change of `object`, after the templates that are made for it. `templates`: those in use now, as
    /// far as they are edited.
    ///
    /// # Errors
    /// `Refused`: it changes nothing, or cannot be said of the kind or of its version.
    pub fn edit(
        &self,
        kind: &str,
        object: &Value,
        templates: &[(TemplatePart, Value)],
    ) -> Result<Edit, ActionError> {
        Fields::of(object)?.check_updates_in_place()?;
        let is_control_plane = kind == "KubeadmControlPlane";
        let mut patch = json!({});
        if let Some(version) = &self.version {
            put(&mut patch, kubernetes_version(kind), json!(version));
        }
        let mut made = Vec::new();
        for part in TemplatePart::ALL {
            let named = match part {
                TemplatePart::Infrastructure => &self.infrastructure,
                TemplatePart::Bootstrap => &self.bootstrap,
            };
            let edits: Vec<&FieldEdit> = self.fields.iter().filter(|edit| edit.part == part).collect();
            if edits.is_empty() && named.is_none() {
                continue;
            }
            // A KubeadmControlPlane refers to no bootstrap template that could be copied.
            if is_control_plane && part == TemplatePart::Bootstrap {
                own_configuration(&mut patch, &edits, named.as_deref())?;
                continue;
            }
            let name = match (named, edits.as_slice()) {
                (Some(name), []) => name.clone(),
                (Some(_), _) => {
                    return Err(refused(format!(
                        "{} is another template and has other fields: write one of the two",
                        part.word()
                    )));
                }
                (None, edits) => {
                    let found = templates.iter().find(|(of, _)| *of == part).map(|(_, template)| template);
                    let found = found
                        .ok_or_else(|| refused(format!("{kind} refers to no {} template", part.word())))?;
                    let new = edited_template(found, edits)?;
                    let name = new["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                    made.push(new);
                    name
                }
            };
            put(&mut patch, reference(part, is_control_plane), json!(name));
        }
        // Before the strategy is added: another strategy alone changes no Machine.
        if !is_changed_by(object, &patch) {
            return Err(nothing(object, "is as asked for already"));
        }
        if self.without_surge {
            no_surge(&mut patch, object, is_control_plane);
        }
        Ok(if made.is_empty() { Edit::Patch(patch) } else { Edit::PatchAfter { made, patch } })
    }

    /// Whether it may go on, by what is expected of each Machine: fail closed.
    pub fn finding(&self, outlook: &Outlook) -> Option<Finding> {
        let text = match outlook {
            Outlook::Known(change) => match &change.updates {
                Some(updates) if updates.is_in_place_throughout() => return None,
                Some(updates) => not_in_place(updates),
                None => "every Machine that changes would be replaced: no extension is registered that could be asked".to_owned(),
            },
            Outlook::Unknown(why) => format!("whether Machines can be updated in place is not known: {why}"),
            Outlook::NotPlanned => "whether Machines can be updated in place is not known".to_owned(),
        };
        let severity = if self.allows_replacement { Severity::Warning } else { Severity::Blocker };
        let advice = if self.allows_replacement {
            ""
        } else {
            "; no-surge makes no new Machine, and allow-replace goes on all the same"
        };
        Some(Finding { severity, rule: "would-replace", text: format!("{text}{advice}") })
    }
}

fn not_in_place(updates: &Updates) -> String {
    let others: Vec<_> = updates.machines.iter().filter(|update| update.way != Way::InPlace).collect();
    let named = others.iter().take(NAMED_MAX).map(|update| {
        let verb = match update.way {
            Way::Unknown => "is not known",
            _ => "would be replaced",
        };
        format!("{} {verb} ({})", update.machine, update.reason)
    });
    let more = match others.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    let named = named.collect::<Vec<_>>().join(", ");
    let verb = if others.len() == 1 { "is" } else { "are" };
    let all = counted(updates.machines.len(), "Machine");
    format!("{} of {all} {verb} not updated in place: {named}{more}", others.len())
}

/// A version as Cluster API's fields have it, with the `v`, which people leave out.
///
/// # Errors
/// What is wrong with it.
pub(super) fn named_version(typed: &str) -> Result<String, String> {
    let bare = typed.strip_prefix('v').unwrap_or(typed);
    let parts: Vec<&str> = bare.split('.').collect();
    let are_numbers = parts.iter().all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
    match semver::Version::parse(bare) {
        Ok(_) => Ok(format!("v{bare}")),
        Err(_) if are_numbers && parts.len() < 3 => {
            Err(format!("it has three numbers, and the third of `{typed}` is missing"))
        }
        Err(error) => Err(error.to_string()),
    }
}

fn version(typed: &str) -> Result<String, String> {
    named_version(typed).map_err(|error| {
        format!("`{typed}` is not a version like v1.36.2 ({error}) and no other word; write {WORDS}")
    })
}

fn template(word: &str, name: &str) -> Result<String, String> {
    if name.is_empty() { Err(format!("`{word}` names no template")) } else { Ok(name.to_owned()) }
}

/// `infrastructure:/spec/memory=8`: a value is JSON, or text.
fn field_edit(word: &str, field: &str, value: &str) -> Result<FieldEdit, String> {
    let wrong = || format!("`{word}` is not understood; write {WORDS}");
    let (part, pointer) = field.split_once(':').ok_or_else(wrong)?;
    let part = TemplatePart::ALL.into_iter().find(|known| known.word() == part).ok_or_else(wrong)?;
    if !pointer.starts_with("/spec/") && !pointer.starts_with("/metadata/") {
        return Err(format!(
            "`{pointer}` in `{word}` is not a field: write /spec/... or /metadata/annotations/..."
        ));
    }
    let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
    Ok(FieldEdit { part, pointer: pointer.to_owned(), value })
}

fn reference(part: TemplatePart, is_control_plane: bool) -> &'static str {
    match (part, is_control_plane) {
        (TemplatePart::Infrastructure, true) => "/spec/machineTemplate/spec/infrastructureRef/name",
        (TemplatePart::Infrastructure, false) => "/spec/template/spec/infrastructureRef/name",
        (TemplatePart::Bootstrap, _) => "/spec/template/spec/bootstrap/configRef/name",
    }
}

/// A control plane has its kubeadm configuration in itself.
fn own_configuration(
    patch: &mut Value,
    edits: &[&FieldEdit],
    named: Option<&str>,
) -> Result<(), ActionError> {
    if let Some(name) = named {
        return Err(refused(format!(
            "a KubeadmControlPlane has no bootstrap template that {name} could replace"
        )));
    }
    for edit in edits {
        let Some(path) = edit.pointer.strip_prefix("/spec/") else {
            return Err(refused(format!("{} is not in the configuration of a control plane", edit.pointer)));
        };
        put(patch, &format!("/spec/kubeadmConfigSpec/{path}"), edit.value.clone());
    }
    Ok(())
}

/// The template with other fields, under a name that follows from them: the same change makes the same template.
fn edited_template(template: &Value, edits: &[&FieldEdit]) -> Result<Value, ActionError> {
    let mut content = template["spec"]["template"].clone();
    for edit in edits {
        let mut change = json!({});
        put(&mut change, &edit.pointer, edit.value.clone());
        merge::apply(&mut content, &change);
    }
    if content == template["spec"]["template"] {
        let all: Vec<String> =
            edits.iter().map(|edit| format!("{} is {}", edit.pointer, edit.value)).collect();
        return Err(refused(format!("{} already", all.join(", "))));
    }
    let metadata = &template["metadata"];
    let old = metadata["name"].as_str().unwrap_or_default();
    let mut spec = template["spec"].clone();
    spec["template"] = content;
    // Templates are immutable, so that a change is a new object. Its name follows from its content:
    // a second attempt finds the first one's template instead of making another.
    let name = format!("{}-{:08x}", stem(old), hash(&spec.to_string()));
    let mut kept = Map::new();
    for field in ["namespace", "labels", "ownerReferences"] {
        if !metadata[field].is_null() {
            kept.insert(field.to_owned(), metadata[field].clone());
        }
    }
    kept.insert("name".to_owned(), json!(name));
    Ok(json!({
        "apiVersion": template["apiVersion"], "kind": template["kind"], "metadata": kept, "spec": spec,
    }))
}

/// A name without what an earlier change put behind it, and short enough for another.
fn stem(name: &str) -> &str {
    let is_hash = |tail: &str| tail.len() == 8 && tail.chars().all(|c| c.is_ascii_hexdigit());
    let stem = match name.rsplit_once('-') {
        Some((stem, tail)) if is_hash(tail) => stem,
        _ => name,
    };
    // A dash and the eight digits of the hash follow.
    let end = stem.char_indices().map(|(at, _)| at).nth(NAME_CHARS_MAX - 9).unwrap_or(stem.len());
    &stem[..end]
}

/// FNV-1a.
fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// The rollout makes no extra Machine: one Machine less is available meanwhile.
fn no_surge(patch: &mut Value, object: &Value, is_control_plane: bool) {
    let rolling = "/spec/rollout/strategy/rollingUpdate";
    put(patch, &format!("{rolling}/maxSurge"), json!(0));
    put(patch, "/spec/rollout/strategy/type", json!("RollingUpdate"));
    let unavailable = &object["spec"]["rollout"]["strategy"]["rollingUpdate"]["maxUnavailable"];
    let is_none = unavailable.is_null() || *unavailable == 0 || *unavailable == "0%";
    // Without surge a Machine has to go first, which a maxUnavailable of 0 forbids. A
    // KubeadmControlPlane has no such field.
    if !is_control_plane && is_none {
        put(patch, &format!("{rolling}/maxUnavailable"), json!(1));
    }
}

fn refused(text: String) -> ActionError {
    ActionError::Refused(text)
}

impl fmt::Display for InPlaceChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words: Vec<String> = self.version.iter().cloned().collect();
        words.extend(self.infrastructure.iter().map(|name| format!("infrastructure={name}")));
        words.extend(self.bootstrap.iter().map(|name| format!("bootstrap={name}")));
        let field = |edit: &FieldEdit| format!("{}:{}={}", edit.part.word(), edit.pointer, edit.value);
        words.extend(self.fields.iter().map(field));
        words.extend(self.without_surge.then(|| "no-surge".to_owned()));
        words.extend(self.allows_replacement.then(|| "allow-replace".to_owned()));
        f.write_str(&words.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actions::PlanChange;
    use capi_forecast::forecast::in_place::MachineUpdate;

    fn change(words: &str) -> InPlaceChange {
        InPlaceChange::parse(words).expect("understood")
    }

    fn template() -> Value {
        json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "DevMachineTemplate",
            "metadata": {"name": "md-0", "namespace": "n", "uid": "u", "resourceVersion": "7",
                "ownerReferences": [{"kind": "Cluster", "name": "c"}]},
            "spec": {"template": {"spec": {"memory": 4}}},
        })
    }

    #[test]
    fn words_make_a_change_or_say_what_to_write() {
        let text = "v1.36.2 bootstrap=b infrastructure:/spec/memory=8 no-surge allow-replace";
        assert_eq!(change(text).to_string(), text);
        assert_eq!(change("version=1.36.2").version.as_deref(), Some("v1.36.2"));
        assert_eq!(change("bootstrap:/spec/a=text").fields[0].value, json!("text"));
        for (words, why) in [
            ("", "nothing is changed"),
            ("no-surge", "nothing is changed"),
            ("latest", "`latest` is not a version like v1.36.2"),
            ("1.36", "the third of `1.36` is missing"),
            ("infrastructure=", "names no template"),
            ("memory=8", "`memory=8` is not understood"),
            ("machine:/spec/a=1", "is not understood"),
            ("infrastructure:/status/a=1", "is not a field"),
        ] {
            let error = InPlaceChange::parse(words).expect_err(words);
            assert!(error.contains(why), "{words}: {error}");
        }
    }

    #[test]
    fn each_word_changes_its_field() {
        let deployment = json!({"apiVersion": "x/v1beta2", "kind": "MachineDeployment", "metadata": {"name": "md"}, "spec": {"template": {"spec": {
            "version": "v1.36.1", "infrastructureRef": {"name": "md-0"}}}}});
        let plane = json!({"apiVersion": "x/v1beta2", "kind": "KubeadmControlPlane", "metadata": {"name": "cp"}, "spec": {"version": "v1.36.1"}});
        let zero = json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0}}});
        for (words, object, patch) in [
            ("v1.36.2", &deployment, json!({"spec": {"template": {"spec": {"version": "v1.36.2"}}}})),
            ("v1.36.2", &plane, json!({"spec": {"version": "v1.36.2"}})),
            ("v1.36.2 no-surge", &plane, json!({"spec": {"version": "v1.36.2", "rollout": zero}})),
            (
                "infrastructure=x bootstrap=y",
                &deployment,
                json!({"spec": {"template": {"spec": {
                    "infrastructureRef": {"name": "x"}, "bootstrap": {"configRef": {"name": "y"}}}}}}),
            ),
            ("bootstrap:/spec/verbosity=3", &plane, json!({"spec": {"kubeadmConfigSpec": {"verbosity": 3}}})),
        ] {
            let kind = object["kind"].as_str().expect("a kind");
            assert_eq!(change(words).edit(kind, object, &[]).expect(words), Edit::Patch(patch), "{words}");
        }
        let kind = "MachineDeployment";
        for (words, why) in [
            ("v1.36.1", "MachineDeployment md is as asked for already"),
            ("bootstrap:/spec/a=1", "refers to no bootstrap template"),
            ("infrastructure:/spec/memory=4", "/spec/memory is 4 already"),
            ("infrastructure=x infrastructure:/spec/memory=8", "write one of the two"),
        ] {
            let templates = [(TemplatePart::Infrastructure, template())];
            let error = change(words).edit(kind, &deployment, &templates).expect_err(words).to_string();
            assert!(error.contains(why), "{words}: {error}");
        }
    }

    #[test]
    fn fields_are_changed_through_a_template_whose_name_follows_from_them() {
        let object = json!({"apiVersion": "x/v1beta2", "kind": "MachineDeployment", "metadata": {"name": "md"}, "spec": {"template": {"spec": {
            "infrastructureRef": {"name": "md-0"}}}}});
        let made = |template: &Value, memory: &str| {
            let templates = [(TemplatePart::Infrastructure, template.clone())];
            let words =
                format!("infrastructure:/spec/memory={memory} infrastructure:/metadata/annotations/a~1b=c");
            match change(&words).edit("MachineDeployment", &object, &templates).expect("an edit") {
                Edit::PatchAfter { made, patch } => (made[0].clone(), patch),
                other => panic!("{other:?}"),
            }
        };
        let (new, patch) = made(&template(), "8");
        let name = new["metadata"]["name"].as_str().expect("a name");
        assert!(name.starts_with("md-0-") && name.len() == "md-0-".len() + 8, "{name}");
        assert_eq!(patch["spec"]["template"]["spec"]["infrastructureRef"]["name"], name);
        assert_eq!(
            new["spec"]["template"],
            json!({"spec": {"memory": 8}, "metadata": {"annotations": {"a/b": "c"}}})
        );
        assert!(new["metadata"].get("uid").is_none() && new["metadata"].get("resourceVersion").is_none());
        assert_eq!(new["metadata"]["ownerReferences"], template()["metadata"]["ownerReferences"]);
        assert_eq!(made(&template(), "8").0, new, "the same change makes the same template");
        let (next, _) = made(&new, "16");
        let next = next["metadata"]["name"].as_str().expect("a name");
        assert!(next.starts_with("md-0-") && next != name && next.len() == name.len(), "{next}");
    }

    #[test]
    fn it_stops_unless_every_machine_is_updated_in_place() {
        let update = |way| MachineUpdate {
            machine: "m".to_owned(),
            way,
            reason: "because".to_owned(),
            covered: Vec::new(),
        };
        let outlook = |ways: &[Way]| {
            let updates = Updates {
                machines: ways.iter().map(|way| update(*way)).collect(),
                handlers: Vec::new(),
                asked: true,
                availability: String::new(),
            };
            Outlook::Known(PlanChange { updates: Some(updates), ..PlanChange::default() })
        };
        let found =
            |words: &str, outlook: &Outlook| change(words).finding(outlook).map(|f| (f.severity, f.text));
        assert_eq!(found("v1.36.2", &outlook(&[Way::InPlace, Way::InPlace])), None);
        let text = "1 of 2 Machines is not updated in place: m would be replaced (because)";
        let mixed = outlook(&[Way::InPlace, Way::Replacement]);
        let advised =
            format!("{text}; no-surge makes no new Machine, and allow-replace goes on all the same");
        assert_eq!(found("v1.36.2", &mixed), Some((Severity::Blocker, advised)));
        assert_eq!(found("v1.36.2 allow-replace", &mixed), Some((Severity::Warning, text.to_owned())));
        for closed in [Outlook::Unknown("why".to_owned()), Outlook::NotPlanned, outlook(&[Way::Unknown])] {
            assert_eq!(
                found("v1.36.2", &closed).map(|(severity, _)| severity),
                Some(Severity::Blocker),
                "{closed:?}"
            );
        }
        let none = Outlook::Known(PlanChange::default());
        assert!(found("v1.36.2", &none).is_some_and(|(_, text)| text.contains("no extension is registered")));
    }
}
