//! Control planes of kinds that have no types here: whether an object is one, and which field of its kind begins a rollout. Owns what is
//! read for that; must not know what an action changes.

use serde_json::Value;

use super::fields::ROLLOUT_AFTER;
use super::related::is_control_plane_of;
use capi_types::key::{Gvk, ObjectKey, ObjectRef};
use capi_types::names::CORE_GROUP;
use capstan_engine::client::catalog::{Catalog, Missing};
use capstan_engine::client::clusters::cluster_named_by;
use capstan_engine::client::read::{get_value, schema_of};
use capstan_engine::client::{Connection, explain};

/// Does the kind have types and rules here?
pub(super) fn is_typed(gvk: &Gvk) -> bool {
    capi_types::served().iter().any(|served| served.gvk.group == gvk.group && served.gvk.kind == gvk.kind)
}

/// Is the object a control plane? Its Cluster is read where the group does not say it.
///
/// # Errors
/// The server does not answer, in a sentence.
pub(super) async fn is_control_plane(connection: &Connection, object: &Value) -> Result<bool, String> {
    if is_control_plane_of(None, object) {
        return Ok(true);
    }
    let Some(name) = cluster_named_by(object) else { return Ok(false) };
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    let gvk = match Catalog::new(connection.client.clone()).resolve(CORE_GROUP, "Cluster").await {
        Ok(gvk) => gvk,
        Err(Missing::NotServed(why)) => return Err(why),
        Err(Missing::Unreachable(error)) => return Err(explain(&error, &connection.server)),
    };
    let target = ObjectRef { gvk, key: ObjectKey::new(namespace, name), uid: String::new() };
    let cluster = get_value(&connection.client, &target).await;
    let cluster = cluster.map_err(|error| explain(&error, &connection.server))?;
    Ok(is_control_plane_of(cluster.as_ref(), object))
}

/// The field in which a kind keeps the moment after which every Machine is replaced.
///
/// # Errors
/// The kind has none, or what it has cannot be read, in a sentence.
pub(super) async fn rollout_after(connection: &Connection, gvk: &Gvk) -> Result<&'static str, String> {
    let schema = schema_of(&connection.client, gvk).await;
    let schema = schema.map_err(|error| {
        let why = explain(&error, &connection.server);
        format!("whether a {} has a field that begins a rollout cannot be read: {why}", gvk.kind)
    })?;
    let schema = schema.unwrap_or_default();
    ROLLOUT_AFTER.into_iter().find(|pointer| has_field(&schema, pointer)).ok_or_else(|| {
        let fields = ROLLOUT_AFTER.map(|pointer| pointer[1..].replace('/', ".")).join(", ");
        format!(
            "a {} of {} has no field that begins a rollout, none of {fields}: its provider rolls out when the version or the \
             template changes",
            gvk.kind, gvk.version
        )
    })
}

/// Does a schema have the field that a JSON pointer names?
fn has_field(schema: &Value, pointer: &str) -> bool {
    let steps = pointer.split('/').skip(1);
    // An OpenAPI schema has the fields of an object below `properties`, level by level.
    steps.fold(schema, |at, step| &at["properties"][step]).is_object()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_is_found_where_the_schema_has_it() {
        let text = json!({"type": "string"});
        let of = |properties: Value| json!({"type": "object", "properties": properties});
        let schema =
            of(json!({"spec": of(json!({"upgradeAfter": text, "rollout": of(json!({"x": text}))}))}));
        let found: Vec<&str> =
            ROLLOUT_AFTER.into_iter().filter(|pointer| has_field(&schema, pointer)).collect();
        assert_eq!(found, ["/spec/upgradeAfter"]);
        assert!(!has_field(&Value::Null, "/spec/upgradeAfter"));
    }
}
