//! A recording of a server, read back: what changed at which moment, and every object as it was then. Owns the reading of the
//! file, up to where it is damaged or cut; must not know who plays it, nor how fast.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Event;
use kube::api::DynamicObject;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::follow::{EventLine, ObjectNews, has_below, line, presentable};
use super::tape::{FeedLine, TapeLine, VERSION};
use crate::fleet::decode::{Decoder, Slim};
use crate::fleet::kept::what_is_wrong;
use crate::fleet::{Delta, FeedKey, Interner, Row, SourceId, Target, Uid};
use capi_types::key::Gvk;
use capstan_base::time::Timestamp;

/// Group, kind, namespace and name.
type Name = (String, String, String, String);

/// What every object has.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: HeadMetadata,
}

#[derive(Default, Deserialize)]
struct HeadMetadata {
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    uid: String,
}

/// One change: when, and what.
struct TapeChange {
    at_ms: i64,
    what: What,
}

enum What {
    /// An object is like this; the row where the model has a place for it.
    Put {
        row: Option<Arc<Row>>,
        object: Box<RawValue>,
    },
    Gone(Uid),
    Event {
        namespace: String,
        event: EventLine,
    },
    Other(Delta),
}

/// A recording, in order.
#[derive(Default)]
pub struct Tape {
    /// What was recorded.
    pub source: String,
    changes: Vec<TapeChange>,
    /// The changes of each object.
    objects: BTreeMap<Name, Vec<usize>>,
    /// Why there is no more of it, where it was damaged or cut: one sentence.
    pub trouble: Option<String>,
}

/// What reading a tape needs to know meanwhile.
#[derive(Default)]
struct Reader {
    tape: Tape,
    interner: Arc<Interner>,
    decoders: HashMap<(String, String), Decoder>,
    control_planes: Vec<(String, String)>,
    names: HashMap<String, Name>,
    last_ms: i64,
}

impl Tape {
    /// Is this the beginning of one?
    pub fn is_begun_by(first: &str) -> bool {
        first.trim_start().starts_with("{\"recording\":")
    }

    /// Reads a file, of this name.
    ///
    /// # Errors
    /// The file is not a recording; the sentence says why. A recording that is damaged or cut further on is read up to there, which is said in
    /// [`Tape::trouble`].
    pub fn read(file: impl Read, name: &str) -> Result<Self, String> {
        let mut reader = Reader::default();
        let mut lines = BufReader::new(file);
        let mut text = Vec::new();
        for number in 1.. {
            text.clear();
            let read =
                lines.read_until(b'\n', &mut text).map_err(|error| format!("cannot read {name}: {error}"))?;
            if read == 0 {
                break;
            }
            match reader.take(&text) {
                Ok(()) => {}
                Err(why) if number == 1 => {
                    return Err(format!("{name}: it is no recording of capstan: {why}"));
                }
                Err(why) => {
                    reader.tape.trouble =
                        Some(format!("{name}:{number}: {why}; what stands before it is shown"));
                    break;
                }
            }
        }
        if reader.tape.changes.is_empty() {
            return Err(format!("{name}: the recording is empty"));
        }
        Ok(reader.tape)
    }

    /// When it begins and ends, milliseconds since the epoch.
    pub fn span_ms(&self) -> (i64, i64) {
        let at = |change: Option<&TapeChange>| change.map_or(0, |change| change.at_ms);
        (at(self.changes.first()), at(self.changes.last()))
    }

    pub fn len(&self) -> usize {
        self.changes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// When a change came.
    pub fn at_ms(&self, at: usize) -> Option<i64> {
        self.changes.get(at).map(|change| change.at_ms)
    }

    /// What the model is told of a change.
    pub fn delta(&self, at: usize, source: SourceId) -> Option<Delta> {
        match &self.changes.get(at)?.what {
            What::Put { row, .. } => row.clone().map(Delta::Upsert),
            What::Gone(uid) => Some(Delta::Remove { source, uid: *uid }),
            What::Event { .. } => None,
            What::Other(delta) => Some(delta.clone()),
        }
    }

    /// Every state of an object until a moment, the oldest first; at last `None` where it is gone.
    pub fn states(&self, target: &Target, until_ms: i64) -> Vec<(Timestamp, Option<Value>)> {
        let name = (target.group.clone(), target.kind.clone(), target.namespace.clone(), target.name.clone());
        let changes = self.objects.get(&name).into_iter().flatten().map(|at| &self.changes[*at]);
        let state = |change: &TapeChange| {
            let at = Timestamp::from_timestamp_millis(change.at_ms)?;
            match &change.what {
                What::Put { object, .. } => {
                    let object: DynamicObject = serde_json::from_str(object.get()).ok()?;
                    let gvk = Gvk::of_document(&serde_json::to_value(&object.types).ok()?);
                    Some((at, Some(presentable(object, &gvk))))
                }
                _ => Some((at, None)),
            }
        };
        changes.take_while(|change| change.at_ms <= until_ms).filter_map(state).collect()
    }

    /// What following an object would have told until a moment: itself, and its Events.
    pub fn subjects(&self, target: &Target, until_ms: i64) -> Vec<ObjectNews> {
        let object = match self.states(target, until_ms).pop() {
            Some((_, Some(object))) => ObjectNews::Object(Box::new(object)),
            Some((_, None)) => ObjectNews::Gone,
            None => ObjectNews::Failed("the recording does not have this object, or not yet".to_owned()),
        };
        vec![object, ObjectNews::Events(self.events(target, until_ms))]
    }

    fn events(&self, target: &Target, until_ms: i64) -> Vec<EventLine> {
        let is_kind = |event: &EventLine| event.kind == target.kind || target.kind == "Machine";
        let changes = self.changes.iter().take_while(|change| change.at_ms <= until_ms);
        let about = changes.filter_map(|change| match &change.what {
            What::Event { namespace, event } if *namespace == target.namespace => Some(event),
            _ => None,
        });
        // As when a server is followed: infrastructure and bootstrap objects are called like their Machine.
        let about = about.filter(|e| has_below(&target.kind) || (is_kind(e) && e.name == target.name));
        // Of an event that was counted again the last state counts.
        let mut last: BTreeMap<(&str, &str, &str), &EventLine> = BTreeMap::new();
        for event in about {
            last.insert((&event.name, &event.reason, &event.message), event);
        }
        let mut events: Vec<EventLine> = last.into_values().cloned().collect();
        events.sort_by_key(|event| event.last_seen);
        events
    }
}

impl Reader {
    fn take(&mut self, text: &[u8]) -> Result<(), String> {
        let Some(text) = text.strip_suffix(b"\n") else { return Err("the line is cut".to_owned()) };
        let line: TapeLine = serde_json::from_slice(text).map_err(|error| what_is_wrong(&error))?;
        if self.last_ms == 0 && !matches!(line, TapeLine::Recording { .. }) {
            return Err("it does not begin with what was recorded".to_owned());
        }
        // A clock that was set back does not turn the order round.
        self.last_ms = self.last_ms.max(line.at());
        self.note(line)
    }

    fn note(&mut self, line: TapeLine) -> Result<(), String> {
        let source = SourceId(0);
        match line {
            TapeLine::Recording { version, .. } if version != VERSION => {
                return Err(format!("it is of version {version}; this capstan reads version {VERSION}"));
            }
            TapeLine::Recording { source: name, .. } => {
                self.tape.source = capstan_base::text::sanitize_line(&name);
                let name = self.tape.source.as_str().into();
                self.push(What::Other(Delta::Source { source, name }));
            }
            TapeLine::Feed(feed) => self.feed(&feed),
            TapeLine::Put { object, .. } => self.put(object)?,
            TapeLine::Gone { uid, .. } => {
                self.push(What::Gone(Uid::parse(&uid)));
                if let Some(name) = self.names.get(&uid) {
                    let at = self.tape.changes.len() - 1;
                    self.tape.objects.entry(name.clone()).or_default().push(at);
                }
            }
            TapeLine::Listed { group, kind, uids, .. } => {
                let feed = FeedKey { source, group: group.into(), kind: kind.into() };
                let uids = uids.iter().map(|uid| Uid::parse(uid)).collect();
                self.push(What::Other(Delta::Listed { feed, uids }));
            }
            TapeLine::ClusterApi { version, .. } => {
                let version = capstan_base::text::sanitize_line(&version).into();
                self.push(What::Other(Delta::ClusterApi { source, version }));
            }
            TapeLine::End { .. } => {}
        }
        Ok(())
    }

    fn push(&mut self, what: What) {
        self.tape.changes.push(TapeChange { at_ms: self.last_ms, what });
    }

    fn feed(&mut self, line: &FeedLine) {
        let text = |text: &str| capstan_base::text::sanitize_line(text);
        if line.control_plane {
            self.control_planes.push((line.group.clone(), line.kind.clone()));
        }
        // The dashboard asks for Events when somebody wants them, and says nothing where they are refused.
        if line.kind == "Event" {
            return;
        }
        let feed =
            FeedKey { source: SourceId(0), group: text(&line.group).into(), kind: text(&line.kind).into() };
        let at = Timestamp::from_timestamp_millis(self.last_ms).unwrap_or_default();
        self.push(What::Other(Delta::Feed { feed, state: line.state.state(&line.error), at }));
    }

    fn put(&mut self, object: Box<RawValue>) -> Result<(), String> {
        let head: Head = serde_json::from_str(object.get()).map_err(|error| error.to_string())?;
        let types = serde_json::json!({ "apiVersion": head.api_version, "kind": head.kind });
        let gvk = Gvk::of_document(&types);
        if gvk.kind == "Event" && gvk.group.is_empty() {
            let event: Event = serde_json::from_str(object.get()).map_err(|error| error.to_string())?;
            let namespace = event.involved_object.namespace.clone().unwrap_or_default();
            self.push(What::Event { namespace, event: line(&event) });
            return Ok(());
        }
        let name = (gvk.group.clone(), gvk.kind.clone(), head.metadata.namespace, head.metadata.name);
        self.names.insert(head.metadata.uid, name.clone());
        let row = self.row(gvk, &object)?;
        self.push(What::Put { row, object });
        let at = self.tape.changes.len() - 1;
        self.tape.objects.entry(name).or_default().push(at);
        Ok(())
    }

    /// `None`: the model has no place for it.
    fn row(&mut self, gvk: Gvk, object: &RawValue) -> Result<Option<Arc<Row>>, String> {
        let slim: Slim = serde_json::from_str(object.get()).map_err(|error| error.to_string())?;
        let key = (gvk.group.clone(), gvk.kind.clone());
        let is_control_plane = self.control_planes.contains(&key);
        let interner = self.interner.clone();
        let decoder = self.decoders.entry(key).or_insert_with(|| {
            if is_control_plane {
                Decoder::for_control_plane(SourceId(0), gvk, interner)
            } else {
                Decoder::for_kind(SourceId(0), gvk, interner)
            }
        });
        let row = decoder.row(&slim);
        Ok(row.is_kept().then(|| Arc::new(row)))
    }
}
