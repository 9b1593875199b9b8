//! Lives that were recorded while the managers of Cluster API v1.14.0 carried them out, over a kube-apiserver 1.36.3
//! with an etcd. `tests/recorded/lives` has the objects as they changed; the model is shown them second by second.
//! The living ones show only progressing and ok; what is broken turns, and what is named is what broke.

use std::collections::BTreeMap;
use std::sync::Arc;

use capi_types::key::Gvk;
use capstan_base::time::{Timestamp, parse_rfc3339};
use capstan_dashboard::fleet::decode::{Decoder, Slim};
use capstan_dashboard::fleet::{Delta, FeedKey, FeedState, Interner, SourceId};
use json_patch::merge;
use serde_json::{Value, json};

use super::lives::Recording;
use super::lives_replayed::{Replay, shuffled};

const CORE: [&str; 5] = ["Cluster", "MachineDeployment", "MachineSet", "Machine", "MachineHealthCheck"];
const CONTROL_PLANE: &str = "KubeadmControlPlane";

/// One file: what came in by when, and from when on something was broken.
pub struct Life {
    pub recording: Recording,
    pub breaks: Option<Timestamp>,
}

/// In which version recorded objects are shown, and what becomes of them on the way.
#[derive(Clone, Copy)]
pub struct Form {
    pub version: &'static str,
    /// Of an object with its conditions as a list, beside all others by `KIND/NAME`, whose conditions are by type.
    pub shape: fn(&mut Value, &str, &BTreeMap<String, Value>),
    /// The kind that repeats what one of another kind says, and is shown anew with it.
    pub repeated_by: fn(&str) -> Option<&'static str>,
}

pub const AS_RECORDED: Form = Form { version: "v1beta2", shape: |_, _, _| {}, repeated_by: |_| None };

/// Seconds of a recording, rounded up to the moment at which a model is shown what came in.
fn whole(seconds: &Value) -> chrono::TimeDelta {
    chrono::TimeDelta::milliseconds((seconds.as_f64().expect("seconds") * 1000.0) as i64 + 999)
}

fn gvk(kind: &str, version: &str) -> Gvk {
    let group = if kind == CONTROL_PLANE { "controlplane.cluster.x-k8s.io" } else { "cluster.x-k8s.io" };
    let plural = format!("{}s", kind.to_lowercase());
    Gvk {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        plural,
        namespaced: true,
    }
}

/// Turns what the lines of a file say into deltas.
struct Reader {
    form: Form,
    interner: Arc<Interner>,
    objects: BTreeMap<String, Value>,
}

impl Reader {
    /// A line is the change of one object, as a merge patch (`null`: it is gone); conditions are named by their type.
    fn deltas(&mut self, name: &str, change: &Value) -> Vec<Delta> {
        let kind = kind_of(name);
        if change.is_null() {
            let gone = self.slim(name);
            merged_into(&mut self.objects, name, change);
            return vec![Delta::Remove { source: SourceId(0), uid: self.decoder(kind).uid(&gone) }];
        }
        merged_into(&mut self.objects, name, change);
        let again = (self.form.repeated_by)(kind);
        let again = self.objects.keys().filter(|other| again == Some(kind_of(other)));
        [name].into_iter().chain(again.map(String::as_str)).map(|name| self.shown(name)).collect()
    }

    fn shown(&self, name: &str) -> Delta {
        Delta::Upsert(Arc::new(self.decoder(kind_of(name)).row(&self.slim(name))))
    }

    fn decoder(&self, kind: &str) -> Decoder {
        Decoder::for_kind(SourceId(0), gvk(kind, self.form.version), self.interner.clone())
    }

    fn slim(&self, name: &str) -> Slim {
        let mut object = listed(&self.objects[name]);
        (self.form.shape)(&mut object, kind_of(name), &self.objects);
        serde_json::from_value(object).expect("an object")
    }
}

fn kind_of(name: &str) -> &str {
    name.split('/').next().expect("KIND/NAME")
}

/// Conditions as a list.
fn listed(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(conditions) = object.pointer_mut("/status/conditions") {
        let by_type = conditions.as_object().expect("conditions by type").clone();
        *conditions = by_type
            .into_iter()
            .map(|(type_, mut condition)| {
                condition["type"] = json!(type_);
                condition
            })
            .collect();
    }
    object
}

/// Every kind is listed when a life is first looked at.
fn feeds(at: Timestamp) -> Vec<Delta> {
    let live = |kind: &&str| {
        let feed = FeedKey { source: SourceId(0), group: gvk(kind, "").group.into(), kind: (*kind).into() };
        Delta::Feed { feed, state: FeedState::Live, at }
    };
    let name = Delta::Source { source: SourceId(0), name: "upstream".into() };
    [name].into_iter().chain(CORE.iter().chain([&CONTROL_PLANE]).map(live)).collect()
}

fn life(name: &str) -> Life {
    life_as(AS_RECORDED, name)
}

pub fn life_as(form: Form, name: &str) -> Life {
    read(form, name).0
}

/// The life and ten seconds, and then what breaks, of which nothing gets better for so long.
pub fn broken_life(
    form: Form,
    name: &str,
    fault: &dyn Fn(&BTreeMap<String, Value>, Timestamp) -> (String, Value),
    for_s: i64,
) -> Life {
    let (Life { mut recording, .. }, mut reader) = read(form, name);
    let breaks = recording.ends + chrono::TimeDelta::seconds(10);
    let (object, change) = fault(&reader.objects, breaks);
    recording.batches.push((breaks, reader.deltas(&object, &change)));
    recording.ends = breaks + chrono::TimeDelta::seconds(for_s);
    Life { recording, breaks: Some(breaks) }
}

/// What a file says of itself, and its changes: seconds, `KIND/NAME`, merge patch.
pub fn lines_of(name: &str) -> (Value, Vec<Value>) {
    let path = folder().join(format!("{name}.jsonl.gz"));
    let file = std::fs::File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let text = std::io::read_to_string(flate2::read::GzDecoder::new(file)).expect("text");
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
    (lines.next().expect("a first line"), lines.collect())
}

/// A change of one object (`null`: it is gone).
pub fn merged_into(objects: &mut BTreeMap<String, Value>, name: &str, change: &Value) {
    if change.is_null() {
        objects.remove(name);
    } else {
        merge(objects.entry(name.to_owned()).or_insert_with(|| json!({})), change);
    }
}

/// As a server sends them.
pub fn whole_objects(objects: &BTreeMap<String, Value>) -> Vec<Value> {
    let whole = |(name, object): (&String, &Value)| {
        let kind = kind_of(name);
        let mut object = listed(object);
        object["kind"] = json!(kind);
        object["apiVersion"] = json!(gvk(kind, "v1beta2").api_version());
        object
    };
    objects.iter().map(whole).collect()
}

fn read(form: Form, name: &str) -> (Life, Reader) {
    let (head, lines) = lines_of(name);
    let from = parse_rfc3339(head["from"].as_str().expect("a time")).expect("a time");
    let at = |seconds: &Value| {
        let exact = from + whole(seconds);
        Timestamp::from_timestamp(exact.timestamp(), 0).expect("in range")
    };
    let mut reader = Reader { form, interner: Arc::default(), objects: Default::default() };
    let mut batches = vec![(from, feeds(from))];
    for line in lines {
        batches.push((at(&line[0]), reader.deltas(line[1].as_str().expect("a name"), &line[2])));
    }
    let recording = Recording { batches, begins: at(&head["begins_s"]), ends: at(&head["ends_s"]) };
    (Life { recording, breaks: head.get("breaks_s").map(at) }, reader)
}

/// What a life is expected to show, in `expected.toml` beside the recordings.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// A word over O (ok), P (progressing), U (unknown), D (degraded) and B (blocked).
    pub shows: String,
    /// Where something breaks: within how many seconds it turns for good.
    pub within_s: Option<i64>,
    /// What the sentence about it names then.
    pub names: Option<String>,
}

fn folder() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/lives")
}

pub fn expected() -> BTreeMap<String, Expected> {
    let path = folder().join("expected.toml");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn what_is_well_is_calm_under_upstreams_managers() {
    println!("life                       shown   changes  false alarms  seconds");
    for (name, Expected { shows: word, .. }) in expected().iter().filter(|(_, life)| life.within_s.is_none())
    {
        let Life { recording, .. } = life(name);
        let (replay, _) = Replay::of(&recording, None, recording.ends);
        let (alarms, alarm_s) = replay.alarms(recording.ends);
        println!("{name:25}  {:6}  {:7}  {alarms:12}  {alarm_s:7}", replay.word(), replay.turns.len() - 1);
        assert_eq!((replay.word(), alarms), (word.clone(), 0), "{name}\n{}", replay.story());
        let (other, _) = Replay::of(&shuffled(&recording), None, recording.ends);
        assert_eq!(other.word(), *word, "{name}: the order of one moment's events");
    }
}

#[test]
fn what_breaks_under_upstreams_managers_turns_in_time() {
    println!("life                       shown   red after s  what is said");
    for (name, Expected { shows: word, within_s, names }) in &expected() {
        let Some(within_s) = *within_s else { continue };
        let Life { recording, breaks } = life(name);
        let breaks = breaks.expect("when it broke");
        let (replay, _) = Replay::of(&recording, None, recording.ends);
        let red = replay.red_since().unwrap_or_else(|| panic!("{name} stays calm: {}", replay.story()));
        let (after_s, said) = ((red - breaks).num_seconds(), replay.says());
        println!("{name:25}  {:6}  {after_s:11}  {said}", replay.word());
        assert_eq!(replay.word(), *word, "{name}\n{}", replay.story());
        assert!((0..=within_s).contains(&after_s), "{name}: after {after_s} s\n{}", replay.story());
        let names = names.as_deref().expect("what it names");
        assert!(said.contains(names), "{name}: {said}");
    }
}
