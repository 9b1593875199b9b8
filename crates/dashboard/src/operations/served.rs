//! Objects of Cluster API's kinds in the version that a server has them in, and as v1beta2. Owns these requests; must not know what
//! the objects mean.

use serde_json::Value;

use capi_rules::observe::older_version;
use capi_types::key::{Gvk, ObjectKey, ObjectRef};
use capstan_engine::client::catalog::{Catalog, Missing};
use capstan_engine::client::read::{get_value, list_values};
use capstan_engine::client::{Connection, Object, explain};

/// Reads of one server. Errors are sentences.
pub(super) struct ServedObjects<'c> {
    connection: &'c Connection,
    catalog: Catalog,
}

impl<'c> ServedObjects<'c> {
    pub(super) fn new(connection: &'c Connection) -> Self {
        Self { connection, catalog: Catalog::new(connection.client.clone()) }
    }

    /// The object as the server has it, with the version in it.
    ///
    /// # Errors
    /// The kind is not served, or the server does not answer.
    pub(super) async fn value<K: Object>(
        &self,
        key: &ObjectKey,
    ) -> Result<(ObjectRef, Option<Value>), String> {
        let target = ObjectRef { gvk: self.gvk::<K>().await?, key: key.clone(), uid: String::new() };
        let object = get_value(&self.connection.client, &target).await;
        Ok((target, object.map_err(|error| explain(&error, &self.connection.server))?))
    }

    /// The object as v1beta2. `None` when it does not exist.
    ///
    /// # Errors
    /// As for `value`; what was read is not such an object.
    pub(super) async fn get<K: Object>(&self, key: &ObjectKey) -> Result<Option<K>, String> {
        let (_, object) = self.value::<K>(key).await?;
        object.map(newer).map(typed).transpose()
    }

    /// The objects of a namespace that `selector` chooses, in the form of v1beta2.
    ///
    /// # Errors
    /// As for `value`.
    pub(super) async fn values<K: Object>(
        &self,
        namespace: &str,
        selector: &str,
    ) -> Result<Vec<Value>, String> {
        let gvk = self.gvk::<K>().await?;
        let listed = list_values(&self.connection.client, &gvk, namespace, selector).await;
        let listed = listed.map_err(|error| explain(&error, &self.connection.server))?;
        let complete = |mut object: Value| {
            // Items of a list come without both.
            object["apiVersion"] = gvk.api_version().into();
            object["kind"] = gvk.kind.clone().into();
            newer(object)
        };
        Ok(listed.into_iter().map(complete).collect())
    }

    async fn gvk<K: Object>(&self) -> Result<Gvk, String> {
        let found = self.catalog.resolve(&K::group(&()), &K::kind(&())).await;
        found.map_err(|missing| match missing {
            Missing::NotServed(why) => why,
            Missing::Unreachable(error) => explain(&error, &self.connection.server),
        })
    }
}

fn newer(mut object: Value) -> Value {
    if older_version::convert(&mut object) {
        older_version::take_over(&mut object);
    }
    object
}

/// # Errors
/// It is not such an object.
pub(super) fn typed<K: Object>(object: Value) -> Result<K, String> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    serde_json::from_value(object).map_err(|error| format!("{} {name} cannot be read: {error}", K::kind(&())))
}
