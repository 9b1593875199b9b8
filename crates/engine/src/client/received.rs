//! One object of a list or of a watch, decoded by itself: one that does not decode spoils no other. Owns that little is
//! decoded of what nobody reads; must not know what becomes of the object.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use capi_types::managed_fields;

/// As kube's `DeserializeGuard`, without its two trees of each object. It reads JSON text alone, and in an event the type
/// has to come before the object, as every API server writes it.
#[derive(Clone, Debug)]
pub(super) struct Received<K>(pub(super) Result<K, Undecodable>);

#[derive(Clone, Debug)]
pub(super) struct Undecodable {
    pub(super) metadata: ObjectMeta,
    pub(super) error: String,
}

#[derive(Deserialize)]
struct Named {
    metadata: ObjectMeta,
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Received<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        // Cut before decoding: the owners of fields are
        // most of an object, and few of them are read.
        let text = managed_fields::cut_down(text.get());
        match serde_json::from_str(&text) {
            Ok(object) => Ok(Self(Ok(object))),
            Err(error) => {
                // Without a name the whole list or event is unreadable:
                // nobody could say which object it is.
                let Named { metadata } = serde_json::from_str(&text).map_err(D::Error::custom)?;
                Ok(Self(Err(Undecodable { metadata, error: error.to_string() })))
            }
        }
    }
}

impl<K> Received<K> {
    pub(super) fn of(object: K) -> Self {
        Self(Ok(object))
    }
}

impl<K: Resource> Resource for Received<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(kind: &K::DynamicType) -> Cow<'_, str> {
        K::kind(kind)
    }

    fn group(kind: &K::DynamicType) -> Cow<'_, str> {
        K::group(kind)
    }

    fn version(kind: &K::DynamicType) -> Cow<'_, str> {
        K::version(kind)
    }

    fn plural(kind: &K::DynamicType) -> Cow<'_, str> {
        K::plural(kind)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.as_ref().map_or_else(|undecodable| &undecodable.metadata, K::meta)
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.as_mut().map_or_else(|undecodable| &mut undecodable.metadata, K::meta_mut)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::{ObjectList, WatchEvent};

    use super::*;

    const OWNED: &str = r#"{"metadata":{"name":"a","managedFields":[
        {"manager":"kubectl","operation":"Update","apiVersion":"v1","time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1",
         "fieldsV1":{"f:data":{"f:x":{}}}},
        {"manager":"capi-machineset","operation":"Apply","apiVersion":"v1","time":"2026-01-01T00:00:00Z",
         "fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:y":{}}}}]},"data":{"x":"1","y":"}]"}}"#;

    fn maps(text: &str) -> Vec<Received<ConfigMap>> {
        let list: ObjectList<Received<ConfigMap>> = serde_json::from_str(text).expect("a list");
        list.items
    }

    #[test]
    fn one_that_does_not_decode_spoils_no_other() {
        let bad = r#"{"metadata":{"name":"b","namespace":"ns"},"data":{"x":[1]}}"#;
        let list = format!(
            r#"{{"metadata":{{}},"items":[{OWNED},{bad}],"kind":"ConfigMapList","apiVersion":"v1"}}"#
        );
        let found = maps(&list);
        assert!(found[0].0.as_ref().is_ok_and(|map| map.data.as_ref().is_some_and(|data| data["y"] == "}]")));
        let undecodable = found[1].0.as_ref().expect_err("no map of texts");
        assert!(undecodable.error.contains("expected a string"), "{}", undecodable.error);
        assert_eq!(found[1].meta().namespace.as_deref(), Some("ns"));
        let without_metadata =
            r#"{"metadata":{},"items":[{"data":[]}],"kind":"ConfigMapList","apiVersion":"v1"}"#;
        assert!(serde_json::from_str::<ObjectList<Received<ConfigMap>>>(without_metadata).is_err());
    }

    /// Cut down or not, what is kept is the same.
    #[test]
    fn owners_that_nobody_reads_are_not_decoded() {
        let event = format!(r#"{{"type":"ADDED","object":{OWNED}}}"#);
        let WatchEvent::Added(received) = serde_json::from_str(&event).expect("an event") else {
            panic!("added")
        };
        let Received::<ConfigMap>(Ok(mut map)) = received else { panic!("decoded") };
        let owners = map.metadata.managed_fields.clone().expect("owners");
        assert_eq!(owners.len(), 1, "{owners:?}");
        managed_fields::keep(&mut map.metadata);
        assert_eq!(map.metadata.managed_fields, Some(owners), "there is nothing more to take away");
        let mut whole: ConfigMap = serde_json::from_str(OWNED).expect("a map");
        managed_fields::keep(&mut whole.metadata);
        assert_eq!(map, whole);
    }

    #[test]
    fn what_has_no_readable_owners_stays_as_it_is() {
        for text in [
            "{}",
            r#"{"metadata":{"name":"a"}}"#,
            r#"{"metadata":{"managedFields":null}}"#,
            "[1]",
            "nonsense",
        ] {
            assert_eq!(managed_fields::cut_down(text), text);
        }
        let odd = r#"{"metadata":{"managedFields":[{"manager":7}]}}"#;
        assert_eq!(managed_fields::cut_down(odd), odd);
    }
}
