//! Statements 111-130: server-side apply and managedFields.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use serde_json::{Value, json};

use super::{
    APPLY, Answer, Ask, JSON_PATCH, MAPS, MERGE, NAMESPACES, SECRETS, Site, config_map, thing, version,
};
use crate::apiserver::definition;

const GEARS: &str = "/apis/example.io/v1/namespaces/default/gears";

/// `gears.example.io`: something that merges in every way.
fn gears() -> CustomResourceDefinition {
    let text = json!({"type": "string"});
    let condition =
        json!({"type": "object", "required": ["type"], "properties": {"type": text, "status": text}});
    let port = json!({"type": "object", "required": ["port"], "properties": {
        "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}, "name": text}});
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "replicas": {"type": "integer"}, "image": text, "mode": {"type": "string", "default": "fast"},
            "inner": {"type": "object", "properties": {"a": text, "b": text}},
            "unit": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": text},
            "plain": {"type": "array", "items": text},
            "ports": {"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["port", "protocol"], "items": port}}},
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"},
            "conditions": {"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"], "items": condition}}}}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}});
    serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gears.example.io"},
        "spec": {"group": "example.io", "scope": "Namespaced", "versions": [version],
            "names": {"kind": "Gear", "plural": "gears"}},
    }))
    .expect("a definition")
}

/// Null: without a spec.
fn gear(spec: Value) -> Value {
    let mut object = json!({"apiVersion": "example.io/v1", "kind": "Gear", "metadata": {"name": "g"}});
    if !spec.is_null() {
        object["spec"] = spec;
    }
    object
}

async fn site() -> Site {
    Site::serving(vec![gears(), definition()]).await
}

impl Site {
    async fn apply(&self, path: &str, manager: &str, object: &Value) -> Answer {
        self.patch(&format!("{path}?fieldManager={manager}"), APPLY, object).await
    }

    /// Applies a gear `g`, which must go well.
    async fn gear(&self, manager: &str, spec: Value) -> Value {
        let answer = self.apply(&format!("{GEARS}/g"), manager, &gear(spec)).await;
        assert!(matches!(answer.code, 200 | 201), "{}", answer.text());
        answer.json()
    }

    async fn shown(&self, path: &str) -> Value {
        self.get(path).await.expect(200).json()
    }
}

/// One line per entry: manager, operation and subresource, then the fields as JSON.
fn owners(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().map_or(&[][..], Vec::as_slice);
    let line = |entry: &Value| {
        let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        let below =
            if text("subresource").is_empty() { String::new() } else { format!("/{}", text("subresource")) };
        format!("{} {}{below} {}", text("manager"), text("operation"), entry["fieldsV1"])
    };
    entries.iter().map(line).collect()
}

#[tokio::test]
async fn s111_an_apply_creates_with_one_entry_of_leaves() {
    let site = site().await;
    let object = gear(json!({"replicas": 1, "inner": {"a": "x"}, "plain": ["p"], "ports": [{"port": 80}]}));
    let answer = site.apply(&format!("{GEARS}/g"), "me", &object).await.expect(201).json();
    let entry = &answer["metadata"]["managedFields"][0];
    assert_eq!(answer["metadata"]["managedFields"].as_array().map(Vec::len), Some(1));
    assert_eq!(
        (&entry["manager"], &entry["operation"], &entry["apiVersion"], &entry["fieldsType"]),
        (&json!("me"), &json!("Apply"), &json!("example.io/v1"), &json!("FieldsV1"))
    );
    assert!(entry["time"].as_str().is_some_and(|time| time.len() == "2026-01-01T00:00:00Z".len()), "{entry}");
    assert_eq!(
        entry["fieldsV1"],
        json!({"f:spec": {"f:inner": {"f:a": {}}, "f:plain": {}, "f:replicas": {},
            "f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}}})
    );
    // What the schema fills in is nobody's.
    assert_eq!(answer["spec"]["mode"], "fast");
    assert_eq!(answer["metadata"]["generation"], 1);
    assert_eq!(site.shown(&format!("{GEARS}/g")).await, answer);
    let listed = site.shown(GEARS).await;
    assert_eq!(listed["items"][0]["metadata"]["managedFields"], answer["metadata"]["managedFields"]);
    // Built-in kinds too, and bodies in YAML.
    let body = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {k: v}\n";
    let ask = Ask::new(http::Method::PATCH, &format!("{MAPS}/m?fieldManager=me")).body(APPLY, body);
    assert_eq!(owners(&site.send(ask).await.expect(201).json()), [r#"me Apply {"f:data":{"f:k":{}}}"#]);
}

#[tokio::test]
async fn s112_the_same_again_changes_nothing() {
    let site = site().await;
    let spec = json!({"replicas": 1, "inner": {"a": "x"}, "ports": [{"port": 80}]});
    let first = site.gear("me", spec.clone()).await;
    let path = format!("{GEARS}/g?fieldManager=me");
    let again = site.patch(&path, APPLY, &gear(spec.clone())).await.expect(200).json();
    assert_eq!(again, first, "also the version and the time");
    // Others do not change that, nor does force.
    let shared = site.gear("other", json!({"replicas": 1})).await;
    assert_ne!(version(&shared), version(&first), "ownership is content");
    let forced = site.patch(&format!("{path}&force=true"), APPLY, &gear(spec)).await.expect(200).json();
    assert_eq!(forced, shared);
    // Neither do updates that change nothing.
    let merged =
        site.merge(&format!("{GEARS}/g?fieldManager=third"), &json!({"spec": {"replicas": 1}})).await;
    assert_eq!(merged.expect(200).json(), shared);
    let put = site.put(&format!("{GEARS}/g?fieldManager=third"), &shared).await.expect(200).json();
    assert_eq!(put, shared);
}

#[tokio::test]
async fn s113_an_update_owns_the_containers_it_brought() {
    let site = site().await;
    let mut object = gear(json!({"replicas": 1, "inner": {"a": "x"}}));
    object["metadata"]["labels"] = json!({"l": "1"});
    let made = site.made(&format!("{GEARS}?fieldManager=maker"), &object).await;
    assert_eq!(
        owners(&made),
        [
            r#"maker Update {"f:metadata":{"f:labels":{".":{},"f:l":{}}},"f:spec":{".":{},"f:inner":{".":{},"f:a":{}},"f:mode":{},"f:replicas":{}}}"#
        ]
    );
    let changed =
        site.merge(&format!("{GEARS}/g?fieldManager=changer"), &json!({"spec": {"inner": {"b": "y"}}})).await;
    assert_eq!(owners(&changed.expect(200).json())[0], r#"changer Update {"f:spec":{"f:inner":{"f:b":{}}}}"#);
}

#[tokio::test]
async fn s114_conflicts_are_told_and_force_settles_them() {
    let site = site().await;
    site.gear("A", json!({"replicas": 1, "image": "x", "ports": [{"port": 80, "name": "web"}]})).await;
    let refusal =
        site.apply(&format!("{GEARS}/g"), "B", &gear(json!({"replicas": 2}))).await.refused(409, "Conflict");
    assert_eq!(refusal.message(), "Apply failed with 1 conflict: conflict with \"A\": .spec.replicas");
    assert_eq!(
        *refusal.details(),
        json!({"causes": [{"reason": "FieldManagerConflict", "message": "conflict with \"A\"", "field": ".spec.replicas"}]})
    );
    site.merge(&format!("{GEARS}/g?fieldManager=C"), &json!({"spec": {"image": "y"}})).await.expect(200);
    let wish = gear(json!({"replicas": 2, "image": "z", "ports": [{"port": 80, "name": "WEB"}]}));
    let refusal = site.apply(&format!("{GEARS}/g"), "B", &wish).await.refused(409, "Conflict");
    assert_eq!(
        refusal.message(),
        "Apply failed with 3 conflicts: conflicts with \"A\":\n\
         - .spec.ports[port=80,protocol=\"TCP\"].name\n- .spec.replicas\n\
         conflicts with \"C\" using example.io/v1:\n- .spec.image"
    );
    let before = site.shown(&format!("{GEARS}/g")).await;
    assert_eq!(before["spec"]["replicas"], 1, "nothing was written");
    let forced =
        site.patch(&format!("{GEARS}/g?fieldManager=B&force=true"), APPLY, &wish).await.expect(200).json();
    assert_eq!((&forced["spec"]["replicas"], &forced["spec"]["image"]), (&json!(2), &json!("z")));
    let lines = owners(&forced);
    assert!(lines.iter().all(|line| !line.starts_with("C ")), "{lines:?}");
    let kept =
        r#"A Apply {"f:spec":{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}}}}"#;
    assert!(lines.contains(&kept.to_owned()), "{lines:?}");
}

#[tokio::test]
async fn s115_equal_values_are_owned_together() {
    let site = site().await;
    let first = site.gear("A", json!({"replicas": 1})).await;
    let second = site.gear("B", json!({"replicas": 1})).await;
    let fields = r#"{"f:spec":{"f:replicas":{}}}"#;
    assert_eq!(owners(&second), [format!("B Apply {fields}"), format!("A Apply {fields}")]);
    let entries = &second["metadata"]["managedFields"];
    assert!(entries[0].get("time").is_none(), "who changed nothing has no time: {entries}");
    assert_eq!(entries[1], first["metadata"]["managedFields"][0]);
}

#[tokio::test]
async fn s116_what_is_dropped_goes_and_what_others_own_stays() {
    let site = site().await;
    site.gear(
        "A",
        json!({"replicas": 1, "image": "x", "ports": [{"port": 80, "name": "web"}, {"port": 81}]}),
    )
    .await;
    site.gear("B", json!({"image": "x", "ports": [{"port": 80}]})).await;
    let left = site.gear("A", Value::Null).await;
    assert_eq!(
        left["spec"],
        json!({"image": "x", "mode": "fast", "ports": [{"port": 80, "protocol": "TCP"}]})
    );
    assert_eq!(owners(&left).len(), 1, "{left}");
    let bare = site.gear("B", Value::Null).await;
    assert!(
        bare.get("spec").is_none(),
        "with its last owner goes the whole, also what was filled in: {bare}"
    );
    assert!(bare["metadata"].get("managedFields").is_none(), "{bare}");
    // Labels and annotations by omission.
    let mut wish = gear(Value::Null);
    wish["metadata"]["labels"] = json!({"a": "1", "b": "2"});
    site.apply(&format!("{GEARS}/g"), "A", &wish).await.expect(200);
    wish["metadata"]["labels"] = json!({"b": "2"});
    let fewer = site.apply(&format!("{GEARS}/g"), "A", &wish).await.expect(200).json();
    assert_eq!(fewer["metadata"]["labels"], json!({"b": "2"}));
}

#[tokio::test]
async fn s117_an_update_takes_fields_from_appliers() {
    let site = site().await;
    site.gear("A", json!({"replicas": 1, "image": "x"})).await;
    let patch = json!({"spec": {"replicas": 5}});
    let changed = site.merge(&format!("{GEARS}/g?fieldManager=B"), &patch).await.expect(200).json();
    let fields = |name: &str| format!("{{\"f:spec\":{{\"f:{name}\":{{}}}}}}");
    assert_eq!(
        owners(&changed),
        [format!("A Apply {}", fields("image")), format!("B Update {}", fields("replicas"))]
    );
    let operations = json!([{"op": "remove", "path": "/spec/image"}]);
    let removed =
        site.patch(&format!("{GEARS}/g?fieldManager=C"), JSON_PATCH, &operations).await.expect(200).json();
    assert_eq!(owners(&removed), [format!("B Update {}", fields("replicas"))]);
}

#[tokio::test]
async fn s118_metadata_and_conditions_merge_piece_by_piece() {
    let site = site().await;
    site.made(MAPS, &config_map("o", json!({}))).await;
    let uid = site.shown(&format!("{MAPS}/o")).await["metadata"]["uid"].clone();
    let metadata = |key: &str, finalizer: &str| json!({"name": "g", "labels": {key: "1"}, "annotations": {key: "1"}, "finalizers": [finalizer]});
    for (manager, key, finalizer) in [("A", "a", "x.io/a"), ("B", "b", "x.io/b")] {
        let mut object = gear(Value::Null);
        object["metadata"] = metadata(key, finalizer);
        if manager == "B" {
            object["metadata"]["ownerReferences"] =
                json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": uid}]);
        }
        site.apply(&format!("{GEARS}/g"), manager, &object).await;
        let status = json!({"apiVersion": "example.io/v1", "kind": "Gear", "metadata": {"name": "g"},
            "status": {"conditions": [{"type": key, "status": "True"}]}});
        site.apply(&format!("{GEARS}/g/status"), manager, &status).await.expect(200);
    }
    let object = site.shown(&format!("{GEARS}/g")).await;
    assert_eq!(object["metadata"]["labels"], json!({"a": "1", "b": "1"}));
    assert_eq!(object["metadata"]["finalizers"], json!(["x.io/a", "x.io/b"]));
    assert_eq!(
        object["status"]["conditions"],
        json!([{"type": "a", "status": "True"}, {"type": "b", "status": "True"}])
    );
    let lines = owners(&object);
    let main = format!(
        "B Apply {{\"f:metadata\":{{\"f:annotations\":{{\"f:b\":{{}}}},\"f:finalizers\":{{\"v:\\\"x.io/b\\\"\":{{}}}},\
         \"f:labels\":{{\"f:b\":{{}}}},\"f:ownerReferences\":{{\"k:{{\\\"uid\\\":{}}}\":{{}}}}}}}}",
        uid.to_string().replace('"', "\\\"")
    );
    assert!(lines.contains(&main), "{lines:#?}\n{main}");
    let status = r#"A Apply/status {"f:status":{"f:conditions":{"k:{\"type\":\"a\"}":{".":{},"f:status":{},"f:type":{}}}}}"#;
    assert!(lines.contains(&status.to_owned()), "{lines:#?}");
}

#[tokio::test]
async fn s119_atomic_lists_and_maps_are_one_field() {
    let site = site().await;
    site.gear("A", json!({"plain": ["a"], "unit": {"x": "1"}})).await;
    let wish = gear(json!({"plain": ["a", "b"], "unit": {"y": "2"}}));
    let refusal = site.apply(&format!("{GEARS}/g"), "B", &wish).await.refused(409, "Conflict");
    let field = "FieldManagerConflict";
    assert_eq!(refusal.causes(), [(field, ".spec.plain"), (field, ".spec.unit")]);
    let forced =
        site.patch(&format!("{GEARS}/g?fieldManager=B&force=true"), APPLY, &wish).await.expect(200).json();
    assert_eq!((&forced["spec"]["plain"], &forced["spec"]["unit"]), (&json!(["a", "b"]), &json!({"y": "2"})));
    assert_eq!(owners(&forced), [r#"B Apply {"f:spec":{"f:plain":{},"f:unit":{}}}"#]);
}

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

#[tokio::test]
async fn s123_status_and_spec_have_endpoints_of_their_own() {
    let site = site().await;
    let both = json!({"apiVersion": "example.io/v1", "kind": "Gear", "metadata": {"name": "g", "labels": {"l": "1"}},
        "spec": {"replicas": 1}, "status": {"replicas": 9}});
    let refusal = site.apply(&format!("{GEARS}/g/status"), "A", &both).await.refused(404, "NotFound");
    assert_eq!(refusal.message(), "gears.example.io \"g\" not found");
    let main = site.apply(&format!("{GEARS}/g"), "A", &both).await.expect(201).json();
    assert!(main.get("status").is_none(), "{main}");
    let own = r#"A Apply {"f:metadata":{"f:labels":{"f:l":{}}},"f:spec":{"f:replicas":{}}}"#;
    assert_eq!(owners(&main), [own]);
    let mut other = both.clone();
    (other["spec"]["replicas"], other["metadata"]["labels"]) = (json!(5), json!({"l": "2"}));
    let status = site.apply(&format!("{GEARS}/g/status"), "B", &other).await.expect(200).json();
    assert_eq!((&status["spec"]["replicas"], &status["status"]["replicas"]), (&json!(1), &json!(9)));
    assert_eq!(status["metadata"]["labels"], json!({"l": "1"}));
    assert_eq!(status["metadata"]["generation"], 1);
    let mut lines = owners(&status);
    lines.sort();
    assert_eq!(lines, [own, r#"B Apply/status {"f:status":{"f:replicas":{}}}"#]);
    // The same manager through both endpoints has two entries; updates of status say so too.
    let updated = site
        .merge(
            &format!("{GEARS}/g/status?fieldManager=C"),
            &json!({"status": {"conditions": [{"type": "T"}]}}),
        )
        .await;
    let line =
        r#"C Update/status {"f:status":{"f:conditions":{".":{},"k:{\"type\":\"T\"}":{".":{},"f:type":{}}}}}"#;
    assert!(owners(&updated.expect(200).json()).contains(&line.to_owned()));
    let again = site.apply(&format!("{GEARS}/g"), "A", &both).await.expect(200).json();
    assert_eq!(again["status"]["replicas"], 9);
}

#[tokio::test]
async fn s081_s123_scale_owns_replicas_without_a_time() {
    let site = site().await;
    site.gear("A", json!({"replicas": 1, "image": "x"})).await;
    let path = format!("{GEARS}/g/scale");
    site.merge(&format!("{path}?fieldManager=B"), &json!({"spec": {"replicas": 3}})).await.expect(200);
    let object = site.shown(&format!("{GEARS}/g")).await;
    let scaled = r#"B Update/scale {"f:spec":{"f:replicas":{}}}"#;
    assert_eq!(owners(&object), [r#"A Apply {"f:spec":{"f:image":{}}}"#, scaled]);
    assert!(object["metadata"]["managedFields"][1].get("time").is_none());
    assert_eq!(object["metadata"]["managedFields"][1]["apiVersion"], "example.io/v1");
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "g"}, "spec": {"replicas": 4}});
    let refusal = site.apply(&path, "C", &scale).await.refused(409, "Conflict");
    assert_eq!(
        refusal.message(),
        "Apply failed with 1 conflict: conflict with \"B\" with subresource \"scale\" using example.io/v1: .spec.replicas"
    );
    let forced =
        site.patch(&format!("{path}?fieldManager=C&force=true"), APPLY, &scale).await.expect(200).json();
    assert_eq!((&forced["kind"], &forced["spec"]["replicas"]), (&json!("Scale"), &json!(4)));
    let object = site.shown(&format!("{GEARS}/g")).await;
    assert_eq!(object["metadata"]["generation"], 3);
    assert!(
        owners(&object).contains(&r#"C Apply/scale {"f:spec":{"f:replicas":{}}}"#.to_owned()),
        "{object}"
    );
    let refusal = site.apply(&path, "C", &gear(json!({}))).await.refused(400, "BadRequest");
    assert_eq!(refusal.message(), "invalid object type: example.io/v1, Kind=Gear");
}

#[tokio::test]
async fn s124_clients_may_rewrite_the_list() {
    let site = site().await;
    let path = format!("{GEARS}/g?fieldManager=B");
    for (name, reset) in
        [("merge", json!([])), ("merge", json!([{}])), ("put", json!([{}])), ("json", json!([]))]
    {
        site.gear("A", json!({"replicas": 1})).await;
        let before = site.shown(&format!("{GEARS}/g")).await;
        assert!(!owners(&before).is_empty());
        let after = match name {
            "merge" => site.merge(&path, &json!({"metadata": {"managedFields": reset}})).await,
            "put" => {
                let mut object = before.clone();
                object["metadata"]["managedFields"] = reset;
                site.put(&path, &object).await
            }
            _ => {
                let operations =
                    json!([{"op": "replace", "path": "/metadata/managedFields", "value": reset}]);
                site.patch(&path, JSON_PATCH, &operations).await
            }
        };
        let after = after.expect(200).json();
        assert!(after["metadata"].get("managedFields").is_none(), "{name}: {after}");
        assert_ne!(version(&after), version(&before));
    }
    // A list is kept as it was written, also what names a field that nobody can own.
    let seed = json!({"manager": "capi", "operation": "Apply", "apiVersion": "example.io/v1",
        "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {"f:name": {}}}});
    let current = site.shown(&format!("{GEARS}/g")).await;
    let patch = json!({"metadata": {"managedFields": [seed], "resourceVersion": version(&current)}});
    let kept = site.merge(&path, &patch).await.expect(200).json();
    assert_eq!(kept["metadata"]["managedFields"], json!([seed]));
    // Through a subresource nobody rewrites it; what cannot be read changes nothing.
    let ignored = json!({"metadata": {"managedFields": []}, "status": {"replicas": 1}});
    let status = site.merge(&format!("{GEARS}/g/status?fieldManager=B"), &ignored).await.expect(200).json();
    assert_eq!(status["metadata"]["managedFields"][0], seed);
    let broken = json!({"metadata": {"managedFields": [{"manager": "x", "operation": "Patch"}]}});
    let same = site.merge(&path, &broken).await.expect(200).json();
    assert_eq!(same, status);
    // Without the list in it, a PUT leaves it alone.
    let mut object = status.clone();
    object["metadata"].as_object_mut().expect("metadata").remove("managedFields");
    assert_eq!(site.put(&path, &object).await.expect(200).json(), status);
}

#[tokio::test]
async fn s125_tracking_starts_with_an_apply() {
    let site = site().await;
    site.made(GEARS, &gear(json!({"replicas": 1}))).await;
    site.merge(&format!("{GEARS}/g"), &json!({"metadata": {"managedFields": []}})).await.expect(200);
    let updated =
        site.merge(&format!("{GEARS}/g"), &json!({"spec": {"replicas": 2}})).await.expect(200).json();
    assert!(updated["metadata"].get("managedFields").is_none(), "{updated}");
    let applied = site.gear("A", json!({"replicas": 2})).await;
    assert_eq!(
        owners(&applied),
        [
            r#"A Apply {"f:spec":{"f:replicas":{}}}"#,
            r#"before-first-apply Update {"f:spec":{".":{},"f:mode":{},"f:replicas":{}}}"#,
        ]
    );
}

#[tokio::test]
async fn s126_many_updaters_become_ancient() {
    let site = site().await;
    site.made(&format!("{MAPS}?fieldManager=m00"), &config_map("m", json!({"k": "0"}))).await;
    let mut last = Value::Null;
    for n in 1..14 {
        let patch = json!({"data": {format!("k{n:02}"): "x"}});
        last = site.merge(&format!("{MAPS}/m?fieldManager=m{n:02}"), &patch).await.expect(200).json();
    }
    let lines = owners(&last);
    assert_eq!(lines.len(), 10, "{lines:#?}");
    let ancient = lines.iter().find(|line| line.starts_with("ancient-changes Update")).expect("ancient");
    assert!(ancient.contains("f:k01") && !ancient.contains("f:k13"), "{ancient}");
}

#[tokio::test]
async fn s127_the_user_agent_names_the_manager() {
    let site = site().await;
    for (agent, manager) in [("manager/v0.0.0 (linux/amd64)", "manager"), ("curl", "curl"), ("", "unknown")] {
        let name = format!("m-{manager}");
        let mut ask = Ask::post(MAPS, &config_map(&name, json!({"k": "v"})));
        if !agent.is_empty() {
            ask = ask.header("user-agent", agent);
        }
        let made = site.send(ask).await.expect(201).json();
        assert_eq!(made["metadata"]["managedFields"][0]["manager"], manager);
    }
}

#[tokio::test]
async fn s073_s128_a_dry_run_shows_the_whole_object_every_time() {
    let site = site().await;
    let path = format!("{GEARS}/g?fieldManager=capi-topology&force=true&dryRun=All");
    let wish = gear(json!({"replicas": 3, "inner": {"a": "x"}}));
    let created = site.patch(&path, APPLY, &wish).await.expect(201).json();
    assert_eq!((&created["spec"]["mode"], &created["metadata"]["generation"]), (&json!("fast"), &json!(1)));
    assert!(created["metadata"]["uid"].is_string() && created["metadata"].get("resourceVersion").is_none());
    assert_eq!(
        owners(&created),
        [r#"capi-topology Apply {"f:spec":{"f:inner":{"f:a":{}},"f:replicas":{}}}"#]
    );
    site.get(&format!("{GEARS}/g")).await.refused(404, "NotFound");
    let before = site.gear("A", json!({"replicas": 1, "image": "x"})).await;
    let timeless = |mut object: Value| {
        for entry in object["metadata"]["managedFields"].as_array_mut().into_iter().flatten() {
            entry.as_object_mut().expect("an entry").remove("time");
        }
        object
    };
    let first = site.patch(&path, APPLY, &wish).await.expect(200).json();
    let second = site.patch(&path, APPLY, &wish).await.expect(200).json();
    assert_eq!(timeless(first.clone()), timeless(second));
    assert_eq!(first["spec"], json!({"replicas": 3, "image": "x", "mode": "fast", "inner": {"a": "x"}}));
    assert_eq!(version(&first), version(&before));
    assert_eq!(first["metadata"]["generation"], 2);
    assert_eq!(owners(&first).len(), 2);
    assert_eq!(site.shown(&format!("{GEARS}/g")).await, before);
    // A conflict is one in a dry run too, and a refusal.
    let dry = format!("{GEARS}/g?fieldManager=B&dryRun=All");
    site.patch(&dry, APPLY, &wish).await.refused(409, "Conflict");
    site.patch(&format!("{GEARS}/g?fieldManager=B&dryRun=Some"), APPLY, &wish).await.refused(422, "Invalid");
}

#[tokio::test]
async fn s129_from_client_side_to_server_side_apply() {
    let site = site().await;
    let applied = gear(json!({"replicas": 1, "image": "x"}));
    let mut object = applied.clone();
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    object["metadata"]["annotations"] = json!({annotation: applied.to_string()});
    site.made(&format!("{GEARS}?fieldManager=kubectl-client-side-apply"), &object).await;
    // Another manager meets conflicts; kubectl may take what it had applied.
    let wish = gear(json!({"replicas": 2}));
    site.apply(&format!("{GEARS}/g"), "helm", &wish).await.refused(409, "Conflict");
    let moved = site.apply(&format!("{GEARS}/g"), "kubectl", &wish).await.expect(200).json();
    assert_eq!(moved["spec"]["replicas"], 2);
    let text = moved["metadata"]["annotations"][annotation].as_str().expect("refreshed");
    let refreshed: Value = serde_json::from_str(text).expect("json");
    assert_eq!(refreshed, wish);
    // What kubectl does next: its old entry becomes its new one.
    let mut entries = moved["metadata"]["managedFields"].clone();
    for entry in entries.as_array_mut().expect("entries") {
        if entry["manager"] == "kubectl-client-side-apply" {
            (entry["manager"], entry["operation"]) = (json!("kubectl"), json!("Apply"));
        }
    }
    let entries: Vec<&Value> = entries.as_array().expect("entries").iter().rev().take(1).collect();
    let operations = json!([
        {"op": "replace", "path": "/metadata/managedFields", "value": entries},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": version(&moved)},
    ]);
    let path = format!("{GEARS}/g?fieldManager=kubectl-client-side-apply");
    site.patch(&path, JSON_PATCH, &operations).await.expect(200);
    let last = site.apply(&format!("{GEARS}/g"), "kubectl", &wish).await.expect(200).json();
    assert!(last["spec"].get("image").is_none(), "the field it had applied and dropped: {last}");
    assert!(owners(&last).iter().all(|line| line.starts_with("kubectl Apply ")), "{last}");
}

#[tokio::test(start_paused = true)]
async fn s112_s130_entries_are_sorted_and_keep_their_times() {
    let site = Site::paused().await;
    let maps = format!("{MAPS}/m");
    let wish = |key: &str| config_map("m", json!({key: "v"}));
    site.made(&format!("{MAPS}?fieldManager=updater"), &config_map("m", json!({"u": "v"}))).await;
    for manager in ["zebra", "ant"] {
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
        site.apply(&maps, manager, &wish(manager)).await.expect(200);
    }
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    let again = site.apply(&maps, "zebra", &wish("zebra")).await.expect(200).json();
    let entries = again["metadata"]["managedFields"].as_array().expect("entries").clone();
    let shown: Vec<_> =
        entries.iter().map(|e| format!("{} {} {}", e["operation"], e["time"], e["manager"])).collect();
    assert_eq!(
        shown,
        [
            "\"Apply\" \"2026-11-20T10:00:01Z\" \"zebra\"",
            "\"Apply\" \"2026-11-20T10:00:02Z\" \"ant\"",
            "\"Update\" \"2026-11-20T10:00:00Z\" \"updater\"",
        ]
    );
}

#[tokio::test]
async fn built_in_kinds_own_what_their_strategies_leave_them() {
    let site = site().await;
    let name = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
    let made = site.made(&format!("{NAMESPACES}?fieldManager=maker"), &name).await;
    assert_eq!(
        owners(&made),
        [r#"maker Update {"f:metadata":{"f:labels":{".":{},"f:kubernetes.io/metadata.name":{}}}}"#]
    );
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": "v"}});
    let made = site.made(&format!("{SECRETS}?fieldManager=maker"), &secret).await;
    assert_eq!(owners(&made), [r#"maker Update {"f:data":{".":{},"f:k":{}},"f:type":{}}"#]);
    // Deletion marks an object without owning anything.
    let mut object = thing("t", json!({}));
    object["metadata"]["finalizers"] = json!(["x.io/y"]);
    let made = site.made(&format!("{}?fieldManager=maker", super::THINGS), &object).await;
    let marked = site.delete(&format!("{}/t", super::THINGS)).await.expect(200).json();
    assert_eq!(owners(&marked), owners(&made));
}

/// Statement 163, the part of it that is apply: kube-rs in process.
#[tokio::test]
async fn s163_kube_applies_with_force_in_process() {
    let site = site().await;
    let client = kube::Client::new(site.server.clone(), "default");
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("example.io", "v1", "Gear"));
    let gears: Api<DynamicObject> = Api::namespaced_with(client, "default", &resource);
    let forced = PatchParams::apply("mine").force();
    let wish = |replicas: i64| Patch::Apply(gear(json!({ "replicas": replicas })));
    let made = gears.patch("g", &forced, &wish(1)).await.expect("created");
    assert_eq!(made.metadata.generation, Some(1));
    site.gear("other", json!({"image": "x"})).await;
    site.merge(&format!("{GEARS}/g?fieldManager=thief"), &json!({"spec": {"replicas": 9}})).await.expect(200);
    let error = gears.patch("g", &PatchParams::apply("mine"), &wish(2)).await.expect_err("a conflict");
    assert!(matches!(&error, kube::Error::Api(status) if status.code == 409), "{error}");
    let taken = gears.patch("g", &forced, &wish(2)).await.expect("forced");
    assert_eq!((&taken.data["spec"]["replicas"], &taken.data["spec"]["image"]), (&json!(2), &json!("x")));
    let status =
        Patch::Apply(json!({"apiVersion": "example.io/v1", "kind": "Gear", "status": {"replicas": 2}}));
    let reported = gears.patch_status("g", &forced, &status).await.expect("status");
    assert_eq!(reported.data["status"]["replicas"], 2);
    let entries = reported.metadata.managed_fields.expect("tracked");
    assert_eq!(entries.iter().filter(|e| e.manager.as_deref() == Some("mine")).count(), 2);
}
