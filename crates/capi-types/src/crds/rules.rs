//! Rules in CEL that upstream's definitions carry, by the name of the field they stand at. Must not know kinds.
//!
//! Source: cluster-api v1.14.2, `x-kubernetes-validations` of the v1beta2 schemas.

use serde_json::{Map, Value, json};

const RULES: &str = "x-kubernetes-validations";
const PARTITION_TYPES: &str = "^(Linux|LinuxSwap|LinuxRAID|LVM|Fat32|NTFS|LinuxExtended|[0-9A-Fa-f]{8}\
     (-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})$";
/// Set by the controllers themselves, so no health check may wait for them.
const RESERVED_CONDITIONS: [&str; 5] =
    ["Ready", "Available", "HealthCheckSucceeded", "OwnerRemediated", "ExternallyRemediated"];

/// Adds the rules to a schema and everything below it.
pub(super) fn add(schema: &mut Value) {
    let Some(map) = schema.as_object_mut() else { return };
    for (name, field) in map.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
        match name.as_str() {
            "extraArgs" | "kubeletExtraArgs" => {
                let rule = "self.all(x, self.exists_one(y, x.name == y.name))";
                set(field, rule, &format!("{name} name must be unique"));
            }
            "partitions" => {
                let rule = "[has(self.layout),has(self.diskLayout)].filter(x,x==true).size() == 1";
                let message = "exactly one of the fields in [layout diskLayout] must be set";
                set(&mut field["items"], rule, message);
            }
            "partitionType" => {
                let message = "partitionType must be one of Linux, LinuxSwap, LinuxRAID, LVM, Fat32, NTFS, LinuxExtended \
                               or a full GPT partition GUID";
                set(field, &format!("self.matches('{PARTITION_TYPES}')"), message);
            }
            "unhealthyMachineConditions" => {
                let names = RESERVED_CONDITIONS.map(|name| format!("'{name}'")).join(",");
                let message = format!("type must not be one of: {}", RESERVED_CONDITIONS.join(", "));
                set(&mut field["items"]["properties"]["type"], &format!("!(self in [{names}])"), &message);
            }
            // The pods of a Cluster's network are not a list.
            "machines" | "pods" if field["type"] == "array" => {
                let message = format!("entries in {name} must be unique");
                set(field, "self.all(x, self.exists_one(y, x == y))", &message);
            }
            _ => {}
        }
        add(field);
    }
    for key in ["items", "additionalProperties"] {
        map.get_mut(key).into_iter().for_each(add);
    }
}

/// Only where the schema describes the field: one that is kept as it is has no rules.
fn set(schema: &mut Value, rule: &str, message: &str) {
    if let Some(map) = schema.as_object_mut().filter(|map: &&mut Map<_, _>| map.contains_key("type")) {
        map.insert(RULES.to_owned(), json!([{ "rule": rule, "message": message }]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_stand_at_their_fields() {
        let list = |items: Value| json!({ "type": "array", "items": items });
        let mut schema = json!({ "type": "object", "properties": {
            "extraArgs": list(json!({ "type": "object" })),
            "partitions": list(json!({ "type": "object", "properties": {
                "diskLayout": list(json!({ "type": "object", "properties": { "partitionType": { "type": "string" } } })) } })),
            "other": { "type": "string" },
        } });
        add(&mut schema);
        let rule = |pointer: &str| {
            schema.pointer(pointer).map(|at| at[RULES][0]["rule"].clone()).unwrap_or_default()
        };
        assert_eq!(rule("/properties/extraArgs"), "self.all(x, self.exists_one(y, x.name == y.name))");
        assert!(rule("/properties/partitions/items").is_string());
        let type_ = "/properties/partitions/items/properties/diskLayout/items/properties/partitionType";
        assert!(rule(type_).as_str().is_some_and(|rule| rule.starts_with("self.matches('^(Linux|")));
        assert_eq!(rule("/properties/other"), Value::Null);
    }
}
