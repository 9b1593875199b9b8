//! The record of a change that is kept in the cluster: what was stored before, what is to be stored, who began it. Owns its
//! form in ConfigMap `kube-system/capstan-change`. It does not say how far the change is: that is read from what runs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::change_id::ChangeId;
use super::difference::FieldChange;
use super::document::{DocumentKind, InputError, Inputs, read_inputs};
use super::facts::ManagedBy;
use super::plan::{AsStored, ChangePlan};
use super::request::{WantedDocument, WantedDocuments};
use super::{convert, yaml};

/// The name of the ConfigMap.
pub const RECORD: &str = "capstan-change";
const KEY: &str = "record";
/// Lines of earlier changes that are kept.
const HISTORY_MAX: usize = 20;

/// Is the change over?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordState {
    /// Somebody carries it out, or has left it half done.
    Open,
    /// Everything of it was seen to be done.
    Complete,
}

/// A line about a change of the past.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastChange {
    /// Of the plan.
    pub id: ChangeId,
    /// The user who began it.
    pub by: String,
    /// RFC 3339.
    pub completed: String,
    /// `PATH: OLD → NEW`, without secrets.
    pub changes: Vec<String>,
}

/// A change that is taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TakenBack {
    /// Of the change that is taken back.
    pub id: ChangeId,
    /// It was half done: what stands on hosts may not be what runs there yet.
    pub was_open: bool,
}

/// Who begins a change, and when.
#[derive(Clone, Debug)]
pub struct Beginning<'b> {
    /// The user who begins.
    pub by: &'b str,
    /// RFC 3339.
    pub at: String,
    /// The change that this one takes back; `None`: this one is not a rollback.
    pub takes_back: Option<&'b ChangeRecord>,
}

/// The record. Texts are those of the ConfigMaps, by their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeRecord {
    /// Of the plan: whoever goes on works on the same one.
    pub id: ChangeId,
    /// Whether it is over.
    pub state: RecordState,
    /// The user who began it.
    pub by: String,
    /// RFC 3339.
    pub begun: String,
    /// RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed: Option<String>,
    /// The change that this one takes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub takes_back: Option<TakenBack>,
    /// Nothing was asked for but what is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_stored: Option<AsStored>,
    /// The folder on the nodes with patches that kubeadm applies. It stands in commands that root runs: whoever goes on has to
    /// name it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patches: Option<String>,
    /// `PATH: OLD → NEW`, without secrets.
    pub changes: Vec<String>,
    /// What was seen when it was complete, a line for each node and component.
    #[serde(default)]
    pub evidence: Vec<String>,
    /// Earlier changes, newest last.
    #[serde(default)]
    pub history: Vec<PastChange>,
    /// By the name of the ConfigMap, before the change.
    #[serde(skip)]
    pub before: BTreeMap<String, String>,
    /// By the name of the ConfigMap, as the change leaves it.
    #[serde(skip)]
    pub after: BTreeMap<String, String>,
    /// Of the ConfigMap that it was read from.
    #[serde(skip)]
    pub resource_version: String,
}

/// A record that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ConfigMap kube-system/capstan-change cannot be read: {0}; if nothing uses it, delete it")]
pub struct RecordError(String);

impl ChangeRecord {
    /// From the ConfigMap.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn read(config_map: &Value) -> Result<Self, RecordError> {
        let data = config_map["data"].as_object().cloned().unwrap_or_default();
        let text = data
            .get(KEY)
            .and_then(Value::as_str)
            .ok_or_else(|| RecordError(format!("it has no key {KEY}")))?;
        let mut record: Self = serde_json::from_str(text).map_err(|error| RecordError(error.to_string()))?;
        let with = |prefix: &str| {
            let texts =
                data.iter().filter_map(|(key, text)| Some((key.strip_prefix(prefix)?, text.as_str()?)));
            // Documents of other names are nothing that a change writes.
            let known = texts.filter(|(name, _)| key_of(name).is_some());
            known.map(|(name, text)| (name.to_owned(), text.to_owned())).collect()
        };
        record.before = with("before.");
        record.after = with("after.");
        config_map["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or_default()
            .clone_into(&mut record.resource_version);
        Ok(record)
    }

    /// The `data` of the ConfigMap. Keys that an earlier record had and this one has not are null, as a merge patch needs it.
    pub fn data(&self, replaced: Option<&Self>) -> Value {
        let mut data = Map::new();
        if let Some(replaced) = replaced {
            let keys = |prefix: &str, texts: &BTreeMap<String, String>| {
                texts.keys().map(|name| (format!("{prefix}{name}"), Value::Null)).collect::<Vec<_>>()
            };
            data.extend(keys("before.", &replaced.before));
            data.extend(keys("after.", &replaced.after));
        }
        // The record has texts and flags only, which JSON can always say.
        // Behind the nulls: a key that both records have keeps its text.
        data.insert(KEY.to_owned(), serde_json::to_string_pretty(self).unwrap_or_default().into());
        data.extend(self.before.iter().map(|(name, text)| (format!("before.{name}"), json!(text))));
        data.extend(self.after.iter().map(|(name, text)| (format!("after.{name}"), json!(text))));
        Value::Object(data)
    }

    /// The record of a plan that is about to begin. `stored`: the texts as they are; `last`: the record that stands there.
    ///
    /// # Errors
    /// A document that cannot be written in its version.
    pub fn of_plan(
        plan: &ChangePlan,
        wanted: &WantedDocuments,
        stored: &BTreeMap<String, String>,
        last: Option<&Self>,
        beginning: Beginning<'_>,
    ) -> Result<Self, convert::ConvertError> {
        // A document that stays as it is stands on both sides: the record alone can restore all ConfigMaps.
        let mut after = stored.clone();
        for (map, text) in texts_of(wanted)? {
            after.insert(map.to_owned(), text);
        }
        if plan.managed_by == ManagedBy::ControlPlane {
            // Its KubeadmControlPlane writes that one.
            after
                .extend(stored.get("kubeadm-config").map(|text| ("kubeadm-config".to_owned(), text.clone())));
        }
        let line =
            |change: &FieldChange| format!("{}: {} → {}", change.path, change.old_text(), change.new_text());
        Ok(Self {
            id: plan.id.clone(),
            state: RecordState::Open,
            by: beginning.by.to_owned(),
            begun: beginning.at,
            completed: None,
            takes_back: beginning
                .takes_back
                .map(|taken| TakenBack { id: taken.id.clone(), was_open: taken.is_open() }),
            as_stored: plan.as_stored,
            patches: plan.patches.clone(),
            changes: plan.changes.iter().map(|judged| line(&judged.change)).collect(),
            evidence: Vec::new(),
            history: last.map(Self::history_with_this).unwrap_or_default(),
            before: stored.clone(),
            after,
            resource_version: String::new(),
        })
    }

    /// What was stored before this change, as a request for what is stored now.
    ///
    /// # Errors
    /// A text that cannot be read any more.
    pub fn taken_back(&self, stored: &Inputs) -> Result<WantedDocuments, Vec<InputError>> {
        let place = |name: &str| format!("ConfigMap {RECORD}, key before.{name}");
        let files: Vec<_> = self.before.iter().map(|(name, text)| (place(name), text.clone())).collect();
        let before = read_inputs(&files)?;
        let changed = |kind: DocumentKind| {
            let map = kind.stored_in().map_or("", |(map, _)| map);
            key_of(map).is_some() && self.before.get(map) != self.after.get(map)
        };
        let documents = stored.documents.iter().filter(|document| document.kind.stored_in().is_some());
        let documents = documents.map(|document| {
            // A document that this change did not touch stays as it is now, whoever changed it since.
            let kept = before.document(document.kind).filter(|_| changed(document.kind));
            WantedDocument {
                kind: document.kind,
                // A document goes back in the version in which it was stored.
                version: kept.map_or(&document.version, |kept| &kept.version).clone(),
                old: document.value.clone(),
                new: kept.map_or(&document.value, |kept| &kept.value).clone(),
            }
        });
        let note = format!("this takes change {} of {} back, begun {}", self.id, self.by, self.begun);
        Ok(WantedDocuments { documents: documents.collect(), notes: vec![note] })
    }

    /// Is this annotation of a drained Node one of this change, or of the one that it takes back?
    pub fn has_drained(&self, by: &str) -> bool {
        by == self.id.as_str() || self.takes_back.as_ref().is_some_and(|taken| by == taken.id.as_str())
    }

    /// Does it ask for the same as another one? Who began it, and what was seen, do not count.
    pub fn asks_for_the_same(&self, other: &Self) -> bool {
        (&self.id, &self.before, &self.after, &self.patches)
            == (&other.id, &other.before, &other.after, &other.patches)
    }

    /// Is it carried out, or half done?
    pub fn is_open(&self) -> bool {
        self.state == RecordState::Open
    }

    /// The lines of the past with this change as the newest.
    pub fn history_with_this(&self) -> Vec<PastChange> {
        let mut history = self.history.clone();
        if let Some(completed) = &self.completed {
            history.push(PastChange {
                id: self.id.clone(),
                by: self.by.clone(),
                completed: completed.clone(),
                changes: self.changes.clone(),
            });
        }
        // The newest are last, so the oldest fall off the front; a ConfigMap holds 1 MiB at most.
        let begin = history.len().saturating_sub(HISTORY_MAX);
        history.split_off(begin)
    }

    /// The documents from before to after.
    ///
    /// # Errors
    /// A text that cannot be read any more.
    pub fn documents(&self) -> Result<WantedDocuments, Vec<InputError>> {
        wanted(("before", &self.before), ("after", &self.after))
    }
}

/// The documents of two sets of texts, each with the prefix of its keys.
fn wanted(
    from: (&str, &BTreeMap<String, String>),
    to: (&str, &BTreeMap<String, String>),
) -> Result<WantedDocuments, Vec<InputError>> {
    let read = |(prefix, texts): (&str, &BTreeMap<String, String>)| {
        let place = |name: &str| format!("ConfigMap {RECORD}, key {prefix}.{name}");
        let files: Vec<_> = texts.iter().map(|(name, text)| (place(name), text.clone())).collect();
        read_inputs(&files)
    };
    let (old, new) = (read(from)?, read(to)?);
    let documents = old.documents.iter().filter_map(|before| {
        // A document on one side alone was not there to be changed.
        let after = new.document(before.kind)?;
        Some(WantedDocument {
            kind: before.kind,
            version: after.version.clone(),
            old: before.value.clone(),
            new: after.value.clone(),
        })
    });
    Ok(WantedDocuments { documents: documents.collect(), notes: Vec::new() })
}

/// The texts that are written into the ConfigMaps for what a request changes, by their names.
///
/// # Errors
/// A document that cannot be written in its version.
pub fn texts_of(target: &WantedDocuments) -> Result<BTreeMap<&'static str, String>, convert::ConvertError> {
    let mut texts = BTreeMap::new();
    for wanted in target.documents.iter().filter(|wanted| wanted.old != wanted.new) {
        if let Some((map, _)) = wanted.kind.stored_in() {
            texts.insert(map, yaml::write(&convert::to_stored(wanted.kind, &wanted.version, &wanted.new)?));
        }
    }
    Ok(texts)
}

/// The key of a ConfigMap that holds its document.
pub fn key_of(map: &str) -> Option<&'static str> {
    DocumentKind::ALL
        .into_iter()
        .filter_map(DocumentKind::stored_in)
        .find(|(name, _)| *name == map)
        .map(|(_, key)| key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> ChangeRecord {
        let text = |pods: u32| {
            format!(
                "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: {pods}\n"
            )
        };
        ChangeRecord {
            id: ChangeId::of_hash(&[10; 6]),
            state: RecordState::Open,
            by: "ann".to_owned(),
            begun: "2026-01-01T00:00:00Z".to_owned(),
            completed: None,
            takes_back: None,
            as_stored: None,
            patches: None,
            changes: vec!["maxPods: 110 → 60".to_owned()],
            evidence: Vec::new(),
            history: Vec::new(),
            before: BTreeMap::from([("kubelet-config".to_owned(), text(110))]),
            after: BTreeMap::from([("kubelet-config".to_owned(), text(60))]),
            resource_version: "7".to_owned(),
        }
    }

    #[test]
    fn a_record_is_read_back() {
        let data = record().data(None);
        let map = json!({"metadata": {"resourceVersion": "7"}, "data": data});
        assert_eq!(ChangeRecord::read(&map), Ok(record()));
        let there = record().documents().expect("documents");
        assert_eq!(
            (&there.documents[0].old, &there.documents[0].new),
            (&json!({"maxPods": 110}), &json!({"maxPods": 60}))
        );
        let error = ChangeRecord::read(&json!({"data": {}})).expect_err("empty").to_string();
        assert!(
            error.starts_with("ConfigMap kube-system/capstan-change cannot be read: it has no key record"),
            "{error}"
        );
    }

    #[test]
    fn an_id_of_another_form_is_refused() {
        for wrong in ["x; touch a; #", "x/../../../escaped", "", "0a0a0a0a0a0a\n"] {
            let mut data = record().data(None);
            let mut kept: Value = serde_json::from_str(data[KEY].as_str().expect("text")).expect("JSON");
            kept["id"] = json!(wrong);
            data[KEY] = json!(kept.to_string());
            let error = ChangeRecord::read(&json!({"data": data})).expect_err(wrong).to_string();
            assert!(
                error.starts_with("ConfigMap kube-system/capstan-change cannot be read: the id is ")
                    && error.contains("expected 12 hexadecimal digits"),
                "{error}"
            );
        }
    }

    #[test]
    fn only_documents_that_a_change_writes_are_read() {
        let mut data = record().data(None);
        data["after.other"] = json!("apiVersion: v1\nkind: Node\n");
        assert_eq!(ChangeRecord::read(&json!({"data": data})).expect("a record").after, record().after);
    }

    #[test]
    fn what_an_earlier_record_kept_goes() {
        let mut next = record();
        next.before.clear();
        let data = next.data(Some(&record()));
        assert!(
            data["before.kubelet-config"].is_null() && data["after.kubelet-config"].is_string(),
            "{data}"
        );
    }

    #[test]
    fn the_past_is_short() {
        let mut record = record();
        assert_eq!(record.history_with_this(), [], "it is not complete");
        for _ in 0..30 {
            record.completed = Some("2026-01-02T00:00:00Z".to_owned());
            record.history = record.history_with_this();
        }
        assert_eq!(record.history.len(), HISTORY_MAX);
    }
}
