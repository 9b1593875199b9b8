//! The list of managed fields: endpoints, clients that write it, names, order and times.

use serde_json::{Value, json};

use super::{GEARS, gear, owners, site};
use crate::conformance::{
    APPLY, Ask, JSON_PATCH, MAPS, NAMESPACES, SECRETS, Site, THINGS, config_map, thing, version,
};

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
    let made = site.made(&format!("{THINGS}?fieldManager=maker"), &object).await;
    let marked = site.delete(&format!("{THINGS}/t")).await.expect(200).json();
    assert_eq!(owners(&marked), owners(&made));
}
