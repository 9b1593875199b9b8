//! An object of any provider as it came: its metadata, and the rest as the contract shows it. Must not know any
//! provider.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{ApiResource, DynamicResourceScope};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use capi_rules::status::contract::Provided;
use capi_types::managed_fields;

/// Read once, when it comes.
#[derive(Clone, Debug)]
pub struct ProviderObject {
    metadata: ObjectMeta,
    provided: Provided,
}

impl ProviderObject {
    pub(super) fn provided(&self) -> &Provided {
        &self.provided
    }
}

impl<'de> Deserialize<'de> for ProviderObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut content = Value::deserialize(deserializer)?;
        // Most of them are never read, and they can be the larger half of an object.
        if let Some(metadata) = content.get_mut("metadata").and_then(Value::as_object_mut) {
            managed_fields::keep_values(metadata);
        }
        let mut metadata = ObjectMeta::deserialize(&content["metadata"]).map_err(D::Error::custom)?;
        metadata.managed_fields = None;
        Ok(Self { metadata, provided: Provided::new(content) })
    }
}

impl kube::Resource for ProviderObject {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(kind: &ApiResource) -> Cow<'_, str> {
        kind.kind.as_str().into()
    }

    fn group(kind: &ApiResource) -> Cow<'_, str> {
        kind.group.as_str().into()
    }

    fn version(kind: &ApiResource) -> Cow<'_, str> {
        kind.version.as_str().into()
    }

    fn api_version(kind: &ApiResource) -> Cow<'_, str> {
        kind.api_version.as_str().into()
    }

    fn plural(kind: &ApiResource) -> Cow<'_, str> {
        kind.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
