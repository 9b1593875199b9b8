//! Objects that were written down, as a source: rows for the model, and each object in full with its Events. Nothing in it
//! changes. Must not know files, nor who shows it.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Event;
use kube::api::DynamicObject;
use serde_json::Value;

use super::JUDGED_KINDS;
use super::follow::{EventLine, ObjectNews, has_below, line, presentable};
use super::writers::writers;
use crate::fleet::decode::{ControlPlaneKinds, Slim};
use crate::fleet::{Delta, FeedKey, FeedState, Interner, SourceId, Target, cluster_api_of};
use capi_types::key::{Gvk, group_of};
use capstan_base::time::{Timestamp, parse_rfc3339};

/// Fields with a moment at which somebody wrote.
const MOMENTS: [&str; 8] = [
    "creationTimestamp",
    "lastTransitionTime",
    "lastHeartbeatTime",
    "lastUpdated",
    "lastTimestamp",
    "eventTime",
    "renewTime",
    "time",
];

/// Kind, namespace and name.
type Name = (String, String, String);

/// A recording of one server.
#[derive(Debug, Default)]
pub struct Recording {
    /// By kind and key; kinds of different groups may share a name.
    objects: BTreeMap<Name, Vec<Value>>,
    /// By the namespace of what they are about.
    events: BTreeMap<String, Vec<EventLine>>,
}

impl Recording {
    /// Of an object that is there more than once the last one counts.
    pub fn new(objects: impl IntoIterator<Item = Value>) -> Self {
        let mut recording = Self::default();
        for object in objects {
            if object["kind"] == "Event" {
                recording.note(object);
                continue;
            }
            let of_name = recording.objects.entry(name_of(&object)).or_default();
            of_name.retain(|other| group(other) != group(&object));
            of_name.push(object);
        }
        recording
    }

    fn note(&mut self, object: Value) {
        let Ok(event) = serde_json::from_value::<Event>(object) else { return };
        let namespace = event.involved_object.namespace.clone().unwrap_or_default();
        self.events.entry(namespace).or_default().push(line(&event));
    }

    /// The last moment at which anything in it was written: when it was made, as far as it shows.
    pub fn made_at(&self) -> Option<Timestamp> {
        let events = self.events.values().flatten().filter_map(|event| event.last_seen);
        self.objects.values().flatten().filter_map(latest).chain(events).max()
    }

    /// One batch that makes a fleet of it: everything, every feed complete. `name`: of the source.
    pub fn deltas(&self, source: SourceId, name: &str, at: Timestamp) -> Vec<Delta> {
        let interner = Arc::new(Interner::default());
        let mut deltas = vec![Delta::Source { source, name: name.into() }];
        let cluster_api = self.objects.values().flatten().find_map(cluster_api_of);
        deltas.extend(cluster_api.map(|version| Delta::ClusterApi { source, version: version.into() }));
        let mut feeds: BTreeMap<FeedKey, Vec<crate::fleet::Uid>> = BTreeMap::new();
        // A file without objects of a kind says that there
        // are none, not that they are still being read.
        for (group, kind) in JUDGED_KINDS {
            feeds.entry(FeedKey { source, group: group.into(), kind: kind.into() }).or_default();
        }
        let control_planes = ControlPlaneKinds::named_by(self.objects.values().flatten());
        for object in self.objects.values().flatten() {
            let decoder = control_planes.decoder(source, Gvk::of_document(object), interner.clone());
            let Ok(slim) = serde_json::from_value::<Slim>(object.clone()) else { continue };
            let row = decoder.row(&slim);
            // The model has no place for others; they are shown in full when somebody opens them.
            if row.is_kept() {
                let (group, kind) = (row.gvk.group.as_str().into(), row.gvk.kind.as_str().into());
                feeds.entry(FeedKey { source, group, kind }).or_default().push(row.uid);
                deltas.push(Delta::Upsert(Arc::new(row)));
            }
        }
        for (feed, uids) in feeds {
            deltas.push(Delta::Feed { feed: feed.clone(), state: FeedState::Recorded, at });
            deltas.push(Delta::Listed { feed, uids });
        }
        deltas
    }

    /// What following an object would tell: itself, or that it is not there, and its Events.
    pub fn subjects(&self, target: &Target) -> Vec<ObjectNews> {
        let name = (target.kind.clone(), target.namespace.clone(), target.name.clone());
        let of_name = self.objects.get(&name).into_iter().flatten();
        let object = of_name.filter(|object| group(object) == target.group).find_map(|object| {
            let dynamic: DynamicObject = serde_json::from_value(object.clone()).ok()?;
            let writers = writers(dynamic.metadata.managed_fields.as_deref().unwrap_or_default());
            Some((ObjectNews::Object(Box::new(presentable(dynamic, &Gvk::of_document(object)))), writers))
        });
        let (object, writers) = object.unzip();
        let missing = || ObjectNews::Failed("the files do not have this object".to_owned());
        let is_about = |event: &&EventLine| {
            // As when a server is followed: infrastructure and bootstrap objects are called like
            // their Machine.
            let is_kind = event.kind == target.kind || target.kind == "Machine";
            has_below(&target.kind) || (is_kind && event.name == target.name)
        };
        let of_namespace = self.events.get(&target.namespace).into_iter().flatten();
        let mut events: Vec<EventLine> = of_namespace.filter(is_about).cloned().collect();
        events.sort_by_key(|event| event.last_seen);
        let mut all = vec![object.unwrap_or_else(missing), ObjectNews::Events(events)];
        all.extend(writers.filter(|writers| !writers.is_empty()).map(ObjectNews::Writers));
        all
    }
}

fn group(object: &Value) -> &str {
    object["apiVersion"].as_str().map_or("", group_of)
}

/// What has no namespace in a file was in `default`, as with kubectl.
fn name_of(object: &Value) -> Name {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    let namespace = metadata["namespace"].as_str().filter(|n| !n.is_empty()).unwrap_or("default");
    (text(&object["kind"]), namespace.to_owned(), text(&metadata["name"]))
}

fn latest(value: &Value) -> Option<Timestamp> {
    match value {
        Value::Object(fields) => {
            let of = |(field, value): (&String, &Value)| match value {
                Value::String(text) if MOMENTS.contains(&field.as_str()) => parse_rfc3339(text),
                other => latest(other),
            };
            fields.iter().filter_map(of).max()
        }
        Value::Array(items) => items.iter().filter_map(latest).max(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use capi_types::names::CORE_GROUP;

    fn object(kind: &str, name: &str, time: &str) -> Value {
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind,
               "metadata": {"name": name, "namespace": "prod", "uid": name, "creationTimestamp": "2026-11-20T08:00:00Z",
                            "managedFields": [{"manager": "m"}]},
               "spec": {"clusterName": "c"},
               "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": time}]}})
    }

    fn target(kind: &str, name: &str) -> Target {
        let text = str::to_owned;
        let (group, kind, namespace, name) = (text(CORE_GROUP), text(kind), text("prod"), text(name));
        Target { source: SourceId(0), group, kind, namespace, name }
    }

    #[test]
    fn objects_become_rows_and_can_be_looked_at() {
        let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "prod"},
            "involvedObject": {"kind": "Machine", "namespace": "prod", "name": "m"}, "reason": "Drained",
            "type": "Normal", "lastTimestamp": "2026-11-20T12:00:05Z"});
        let recording = Recording::new([
            object("Cluster", "c", "2026-11-20T11:00:00Z"),
            object("Machine", "m", "2026-11-20T10:00:00Z"),
            object("Machine", "m", "2026-11-20T12:00:00Z"),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}),
            event,
        ]);
        let made_at = recording.made_at().expect("moments");
        assert_eq!(capstan_base::time::rfc3339(made_at), "2026-11-20T12:00:05Z");
        let mut fleet = crate::fleet::Fleet::new();
        fleet.advance(made_at);
        fleet.apply(recording.deltas(SourceId(0), "dump", made_at));
        assert_eq!((fleet.clusters().len(), fleet.rows().count()), (1, 2));
        let subjects = recording.subjects(&target("Machine", "m"));
        let [ObjectNews::Object(object), ObjectNews::Events(events)] = subjects.as_slice() else {
            panic!("{subjects:?}")
        };
        assert_eq!(object["status"]["conditions"][0]["lastTransitionTime"], "2026-11-20T12:00:00Z");
        assert!(object["metadata"]["managedFields"].is_null());
        assert_eq!(events.iter().map(|e| e.reason.as_str()).collect::<Vec<_>>(), ["Drained"]);
        let missing = recording.subjects(&target("Machine", "other"));
        assert!(matches!(missing.as_slice(), [ObjectNews::Failed(why), _] if why.contains("do not have")));
    }

    #[test]
    fn no_clusters_are_no_clusters() {
        let recording = Recording::new([]);
        assert_eq!(recording.made_at(), None);
        let deltas = recording.deltas(SourceId(0), "empty", Timestamp::default());
        let mut fleet = crate::fleet::Fleet::new();
        fleet.apply(deltas);
        assert!(fleet.feed(SourceId(0), "Cluster").is_some_and(|feed| feed.listed));
    }
}
