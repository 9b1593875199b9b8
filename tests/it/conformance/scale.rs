//! Statements 80-82: the scale subresource.

use serde_json::{Value, json};

use super::{JSON_PATCH, Site, THINGS, thing, version};

fn scale(replicas: i64) -> Value {
    json!({ "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": { "name": "a" },
        "spec": { "replicas": replicas } })
}

#[tokio::test]
async fn s080_scale_shows_three_paths_of_the_object() {
    let site = Site::open().await;
    let at = format!("{THINGS}/a/scale");
    let made = site.made(THINGS, &thing("a", json!({ "replicas": 5 }))).await;
    let shown = site.get(&at).await.expect(200).json();
    let metadata = &made["metadata"];
    assert_eq!(
        shown,
        json!({ "kind": "Scale", "apiVersion": "autoscaling/v1",
            "metadata": { "name": "a", "namespace": "default", "uid": metadata["uid"],
                "resourceVersion": version(&made), "creationTimestamp": metadata["creationTimestamp"] },
            "spec": { "replicas": 5 }, "status": { "replicas": 0 } }),
        "an empty selector is left out, as Go leaves out empty text"
    );
    let status = json!({ "status": { "replicas": 9, "selector": "x=y" } });
    site.merge(&format!("{THINGS}/a/status"), &status).await.expect(200);
    assert_eq!(site.get(&at).await.json()["status"], json!({ "replicas": 9, "selector": "x=y" }));
    site.get(&format!("{THINGS}/z/scale")).await.refused(404, "NotFound");
    site.get("/api/v1/namespaces/default/configmaps/m/scale").await.refused(404, "NotFound");
}

#[tokio::test]
async fn s080_an_object_without_replicas_has_no_scale() {
    let site = Site::open().await;
    let at = format!("{THINGS}/a/scale");
    site.made(THINGS, &thing("a", json!({}))).await;
    let refusal = site.get(&at).await.refused(500, "InternalError");
    let expected = "Internal error occurred: the spec replicas field \".spec.replicas\" does not exist";
    assert_eq!(refusal.message(), expected);
    let refusal = site.merge(&at, &json!({ "metadata": {} })).await.refused(400, "BadRequest");
    assert_eq!(refusal.message(), "the spec replicas field \".spec.replicas\" cannot be empty");
    let replicas = json!({ "spec": { "replicas": 2 } });
    assert_eq!(site.merge(&at, &replicas).await.expect(200).json()["spec"]["replicas"], 2);
}

#[tokio::test]
async fn s081_a_patch_of_scale_sets_the_replicas() {
    let site = Site::open().await;
    let (at, a) = (format!("{THINGS}/a/scale"), format!("{THINGS}/a"));
    let made = site.made(THINGS, &thing("a", json!({ "replicas": 1, "note": "kept" }))).await;
    let replace = json!([{ "op": "replace", "path": "/spec/replicas", "value": 4 }]);
    for (generation, kind, patch, expected) in
        [(2, super::MERGE, json!({ "spec": { "replicas": 3 } }), 3), (3, JSON_PATCH, replace, 4)]
    {
        let before = site.get(&a).await.json();
        let scaled = site.patch(&at, kind, &patch).await.expect(200).json();
        assert_eq!((&scaled["kind"], &scaled["spec"]["replicas"]), (&json!("Scale"), &json!(expected)));
        let now = site.get(&a).await.json();
        assert_eq!(version(&now), version(&scaled));
        assert_ne!(version(&now), version(&before));
        assert_eq!(now["metadata"]["generation"], generation);
        assert_eq!(now["spec"], json!({ "replicas": expected, "note": "kept", "mode": "fast" }));
    }
    let same = site.merge(&at, &json!({ "spec": { "replicas": 4 } })).await.expect(200).json();
    assert_eq!(version(&same), version(&site.get(&a).await.json()), "nothing changed");
    let locked = json!({ "metadata": { "resourceVersion": version(&made) }, "spec": { "replicas": 9 } });
    site.merge(&at, &locked).await.refused(409, "Conflict");
    for (patch, code, reason) in [
        (json!({ "spec": { "replicas": -1 } }), 422, "Invalid"),
        (json!({ "spec": { "replicas": "2" } }), 400, "BadRequest"),
        (json!({ "spec": { "replicas": 3_000_000_000_i64 } }), 400, "BadRequest"),
        (json!({ "kind": "Thing" }), 400, "BadRequest"),
    ] {
        site.merge(&at, &patch).await.refused(code, reason);
    }
    site.merge(&format!("{THINGS}/z/scale"), &json!({ "spec": { "replicas": 1 } }))
        .await
        .refused(404, "NotFound");
}

#[tokio::test]
async fn s082_an_update_of_scale_may_name_the_version_it_saw() {
    let site = Site::open().await;
    let at = format!("{THINGS}/a/scale");
    let made = site.made(THINGS, &thing("a", json!({ "replicas": 1 }))).await;
    let scaled = site.put(&at, &scale(2)).await.expect(200).json();
    assert_eq!(scaled["spec"]["replicas"], 2);
    let mut stale = scale(3);
    stale["metadata"]["resourceVersion"] = version(&made).into();
    let refusal = site.put(&at, &stale).await.refused(409, "Conflict");
    assert!(refusal.message().contains("the object has been modified"), "{}", refusal.message());
    stale["metadata"]["resourceVersion"] = version(&scaled).into();
    assert_eq!(site.put(&at, &stale).await.expect(200).json()["spec"]["replicas"], 3);
    let mut other = scale(1);
    other["metadata"]["name"] = "b".into();
    site.put(&at, &other).await.refused(400, "BadRequest");
    let refusal = site.put(&at, &scale(-4)).await.refused(422, "Invalid");
    let field = ("FieldValueInvalid", ".spec.replicas");
    assert!(refusal.causes().contains(&field), "{}", refusal.message());
}
