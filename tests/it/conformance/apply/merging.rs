//! What an apply makes of an object, and whose fields the parts then are.

use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use serde_json::{Value, json};

use super::{GEARS, gear, owners, site};
use crate::conformance::{APPLY, Ask, JSON_PATCH, MAPS, config_map, version};

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
