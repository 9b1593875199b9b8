//! Applies that cannot be: their options, their bodies, and what no schema has.

use serde_json::{Value, json};

use super::{GEARS, gear, site};
use crate::conformance::{APPLY, Ask, JSON_PATCH, MAPS, MERGE, config_map};

#[tokio::test]
async fn s120_options_that_cannot_be() {
    let site = site().await;
    let object = gear(json!({}));
    for (query, cause, message) in [
        ("", ("FieldValueRequired", "fieldManager"), "Required value: is required for apply patch"),
        (
            "?fieldManager=a%0Ab",
            ("FieldValueInvalid", "fieldManager"),
            "Invalid value: \"a\\nb\": invalid character U+000A (at position 1)",
        ),
    ] {
        let refusal = site.patch(&format!("{GEARS}/g{query}"), APPLY, &object).await.refused(422, "Invalid");
        assert_eq!((refusal.causes(), refusal.cause_messages()), (vec![cause], vec![message]));
        assert!(
            refusal.message().starts_with("PatchOptions.meta.k8s.io \"\" is invalid: "),
            "{}",
            refusal.message()
        );
    }
    let long = format!("{GEARS}/g?fieldManager={}", "x".repeat(129));
    let refusal = site.patch(&long, APPLY, &object).await.refused(422, "Invalid");
    assert_eq!(refusal.causes(), [("FieldValueTooLong", "fieldManager")]);
    site.made(GEARS, &object).await;
    for kind in [MERGE, JSON_PATCH] {
        let patch = if kind == MERGE { json!({}) } else { json!([]) };
        let refusal =
            site.patch(&format!("{GEARS}/g?force=true"), kind, &patch).await.refused(422, "Invalid");
        assert_eq!(refusal.causes(), [("FieldValueForbidden", "force")]);
        assert_eq!(refusal.cause_messages(), ["Forbidden: may not be specified for non-apply patch"]);
    }
    let refusal = site.patch(&format!("{GEARS}/g?fieldManager=a&fieldValidation=Foo"), APPLY, &object).await;
    assert_eq!(refusal.refused(422, "Invalid").causes(), [("FieldValueNotSupported", "fieldValidation")]);
}

#[tokio::test]
async fn s121_bodies_that_cannot_be() {
    let site = site().await;
    let missing = format!("{GEARS}/h");
    let mut object = gear(json!({}));
    object["metadata"] = json!({"name": "h", "uid": "5"});
    let refusal = site.apply(&missing, "A", &object).await.refused(409, "Conflict");
    assert!(
        refusal
            .message()
            .ends_with("uid mismatch: the provided object specified uid 5, and no existing object was found"),
        "{}",
        refusal.message()
    );
    site.gear("A", json!({"replicas": 1})).await;
    let with = |pointer: &str, field: &str, value: Value| {
        let mut object = gear(json!({"replicas": 1}));
        object.pointer_mut(pointer).expect("there")[field] = value;
        object
    };
    for (object, code, reason, message) in [
        (
            with("/metadata", "managedFields", json!([])),
            400,
            "BadRequest",
            "metadata.managedFields must be nil",
        ),
        (
            with("/metadata", "name", json!("other")),
            400,
            "BadRequest",
            "the name of the object (other) does not match the name on the URL (g)",
        ),
        (
            with("", "apiVersion", json!("example.io/v2")),
            400,
            "BadRequest",
            "invalid object type: example.io/v2, Kind=Gear",
        ),
        (with("", "kind", json!("Cog")), 400, "BadRequest", "invalid object type: example.io/v1, Kind=Cog"),
        (
            with("", "kind", json!("")),
            400,
            "BadRequest",
            "Object 'Kind' or 'apiVersion' is missing in the request body",
        ),
        (
            with("/metadata", "resourceVersion", json!("1")),
            409,
            "Conflict",
            "Operation cannot be fulfilled on gears.example.io \"g\": the object has been modified; please apply your \
             changes to the latest version and try again",
        ),
        (
            with("/metadata", "uid", json!("5")),
            422,
            "Invalid",
            "Gear.example.io \"g\" is invalid: metadata.uid: Invalid value: \"5\": field is immutable",
        ),
    ] {
        let refusal = site.apply(&format!("{GEARS}/g"), "A", &object).await.refused(code, reason);
        assert_eq!(refusal.message(), message);
    }
    let nulls = with("/metadata", "managedFields", Value::Null);
    site.apply(&format!("{GEARS}/g"), "A", &nulls).await.expect(200);
    let current = site.shown(&format!("{GEARS}/g")).await;
    let fresh = with("/metadata", "resourceVersion", current["metadata"]["resourceVersion"].clone());
    site.apply(&format!("{GEARS}/g"), "A", &fresh).await.expect(200);
    let broken = Ask::new(http::Method::PATCH, &format!("{GEARS}/g?fieldManager=A")).body(APPLY, "a: [");
    let refusal = site.send(broken).await.refused(400, "BadRequest");
    assert!(refusal.message().starts_with("error decoding yaml: "), "{}", refusal.message());
}

#[tokio::test]
async fn s122_what_the_schema_does_not_have_fails_whatever_the_directive() {
    let site = site().await;
    let prefix = "failed to create typed patch object (/g; example.io/v1, Kind=Gear): ";
    for (spec, problem) in [
        (json!({"zork": 1}), ".spec.zork: field not declared in schema"),
        (json!({"replicas": "x"}), ".spec.replicas: expected numeric (int or float), got string"),
        (
            json!({"ports": [{"port": 80}, {"port": 80, "protocol": "TCP"}]}),
            ".spec.ports: duplicate entries for key [port=80,protocol=\"TCP\"]",
        ),
    ] {
        for directive in ["Ignore", "Warn", "Strict"] {
            let path = format!("{GEARS}/g?fieldManager=A&fieldValidation={directive}");
            let refusal = site.patch(&path, APPLY, &gear(spec.clone())).await.refused(500, "");
            assert_eq!(refusal.message(), format!("{prefix}{problem}"));
        }
    }
    let mut object = config_map("m", json!({}));
    object["zork"] = json!(1);
    let refusal = site.apply(&format!("{MAPS}/m"), "A", &object).await.refused(500, "");
    assert_eq!(
        refusal.message(),
        "failed to create typed patch object (/m; /v1, Kind=ConfigMap): .zork: field not declared in schema"
    );
    let twice = r#"{"apiVersion": "example.io/v1", "kind": "Gear", "metadata": {"name": "g"}, "spec": {"image": "a", "image": "b"}}"#;
    let ask = |directive: &str| {
        let path = format!("{GEARS}/g?fieldManager=A&fieldValidation={directive}");
        Ask::new(http::Method::PATCH, &path).body(APPLY, twice)
    };
    let refusal = site.send(ask("Strict")).await.refused(400, "BadRequest");
    assert_eq!(refusal.message(), "error strict decoding YAML: key \"spec.image\" already set in map");
    let warned = site.send(ask("Warn")).await.expect(201);
    assert_eq!(warned.warnings(), ["299 - \"duplicate field \\\"spec.image\\\"\""]);
    assert_eq!(warned.json()["spec"]["image"], "b");
}
