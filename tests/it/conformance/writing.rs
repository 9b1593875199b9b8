//! Statements 73-75, 78, 79: dry runs, field validation, Secrets and the spelling of metadata.

use serde_json::{Value, json};

use super::lifecycle::{LEASES, lease, secret, stranger};
use super::{
    Ask, JSON, JSON_PATCH, MAPS, MERGE, NAMESPACES, SECRETS, STRATEGIC, Site, THINGS, config_map, namespace,
    thing, version,
};

#[tokio::test]
async fn s073_a_dry_run_changes_nothing() {
    let site = Site::open().await;
    let stored = site.made(THINGS, &thing("a", json!({ "replicas": 1 }))).await;
    let map = site.made(MAPS, &config_map("m", json!({ "k": "v" }))).await;
    let before = site.revision().await;
    let mut generated = config_map("", json!({}));
    generated["metadata"] = json!({ "generateName": "pre-" });
    for (path, object) in [
        (THINGS, thing("b", json!({ "replicas": 1 }))),
        (MAPS, generated),
        (NAMESPACES, namespace("team")),
        (SECRETS, secret("s")),
    ] {
        let made = site.post(&format!("{path}?dryRun=All"), &object).await.expect(201).json();
        let metadata = &made["metadata"];
        for field in ["uid", "creationTimestamp", "name"] {
            assert!(metadata[field].as_str().is_some_and(|text| !text.is_empty()), "{path}: {field}");
        }
        assert!(metadata.get("resourceVersion").is_none(), "{path}");
    }
    let mut changed = stored.clone();
    changed["spec"]["replicas"] = 4.into();
    let a = format!("{THINGS}/a");
    for (path, patch, kind) in [
        (a.clone(), json!({ "spec": { "replicas": 4 } }), MERGE),
        (a.clone(), json!([{ "op": "replace", "path": "/spec/replicas", "value": 4 }]), JSON_PATCH),
    ] {
        let shown = site.patch(&format!("{path}?dryRun=All"), kind, &patch).await.expect(200).json();
        assert_eq!((&shown["spec"]["replicas"], version(&shown)), (&json!(4), version(&stored)), "{kind}");
        assert_eq!(shown["metadata"]["generation"], 2, "{kind}");
    }
    let shown = site.put(&format!("{a}?dryRun=All"), &changed).await.expect(200).json();
    assert_eq!((&shown["spec"]["replicas"], version(&shown)), (&json!(4), version(&stored)));
    let status = json!({ "status": { "replicas": 4 } });
    let shown = site.merge(&format!("{a}/status?dryRun=All"), &status).await.expect(200).json();
    assert_eq!((&shown["status"]["replicas"], version(&shown)), (&json!(4), version(&stored)));
    let scale = json!({ "spec": { "replicas": 6 } });
    let shown = site.merge(&format!("{a}/scale?dryRun=All"), &scale).await.expect(200).json();
    assert_eq!(shown["spec"]["replicas"], 6);
    let data = json!({ "data": { "k": "w" } });
    let shown = site.patch(&format!("{MAPS}/m?dryRun=All"), STRATEGIC, &data).await.expect(200).json();
    assert_eq!((&shown["data"]["k"], version(&shown)), (&json!("w"), version(&map)));
    site.put(&format!("{LEASES}/l?dryRun=All"), &lease("l")).await.expect(201);
    let gone = site.delete(&format!("{a}?dryRun=All")).await.expect(200).json();
    assert_eq!((&gone["status"], &gone["details"]["uid"]), (&json!("Success"), &stored["metadata"]["uid"]));
    let body = json!({ "kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"],
        "propagationPolicy": "Foreground" });
    let marked = site.send(Ask::delete(&a).json(JSON, &body)).await.expect(200).json();
    assert_eq!(marked["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    site.delete(&format!("{MAPS}?dryRun=All")).await.expect(200);
    let space = site.delete(&format!("{NAMESPACES}/kube-node-lease?dryRun=All")).await.expect(200).json();
    assert_eq!(space["status"]["phase"], "Terminating");
    assert_eq!(site.revision().await, before, "something was written");
    assert_eq!(site.get(&a).await.json(), stored);
}

#[tokio::test]
async fn s073_a_dry_run_refuses_what_a_real_one_refuses() {
    let site = Site::open().await;
    let stored = site.made(THINGS, &thing("a", json!({ "replicas": 1 }))).await;
    let a = format!("{THINGS}/a?dryRun=All");
    let mut stale = stored.clone();
    stale["metadata"]["resourceVersion"] = "1".into();
    let wrong = json!({ "spec": { "replicas": -1 } });
    for (ask, code) in [
        (Ask::post(&format!("{THINGS}?dryRun=All"), &thing("b", wrong["spec"].clone())), 422),
        (Ask::post(&format!("{THINGS}?dryRun=All"), &thing("a", json!({}))), 409),
        (Ask::post("/api/v1/namespaces/no/configmaps?dryRun=All", &config_map("m", json!({}))), 404),
        (
            Ask::post(&format!("{THINGS}?dryRun=All&fieldValidation=Strict"), &thing("b", json!({ "x": 1 }))),
            400,
        ),
        (Ask::put(&a, &stale), 409),
        (Ask::patch(&a, MERGE, &wrong), 422),
        (Ask::patch(&format!("{THINGS}/z?dryRun=All"), MERGE, &json!({})), 404),
        (Ask::delete(&format!("{THINGS}/z?dryRun=All")), 404),
        (Ask::delete(&format!("{NAMESPACES}/default?dryRun=All")), 403),
        (Ask::delete(&a).json(JSON, &json!({ "preconditions": { "uid": "other" } })), 409),
    ] {
        let what = ask.to_string();
        let answer = site.send(ask).await;
        assert_eq!(answer.code, code, "{what}: {}", answer.text());
    }
}

#[tokio::test]
async fn s074_unknown_words_in_options_are_refused() {
    let site = Site::open().await;
    site.made(THINGS, &thing("a", json!({}))).await;
    let a = format!("{THINGS}/a");
    let dry = "Unsupported value: [\"Foo\"]: supported values: \"All\"";
    let fields = "Unsupported value: \"Foo\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"";
    let asks = |query: &str| {
        [
            (Ask::post(&format!("{THINGS}?{query}"), &thing("b", json!({}))), "CreateOptions"),
            (Ask::put(&format!("{a}?{query}"), &thing("a", json!({}))), "UpdateOptions"),
            (Ask::patch(&format!("{a}?{query}"), MERGE, &json!({})), "PatchOptions"),
            (Ask::delete(&format!("{a}?{query}")), "DeleteOptions"),
        ]
    };
    for (query, field, message) in
        [("dryRun=Foo", "dryRun", dry), ("fieldValidation=Foo", "fieldValidation", fields)]
    {
        for (ask, kind) in asks(query) {
            if (field, kind) == ("fieldValidation", "DeleteOptions") {
                continue;
            }
            let refusal = site.send(ask).await.refused(422, "Invalid");
            assert_eq!(refusal.causes(), [("FieldValueNotSupported", field)], "{kind}");
            assert_eq!(refusal.cause_messages(), [message], "{kind}");
            assert_eq!(refusal.message(), format!("{kind}.meta.k8s.io \"\" is invalid: {field}: {message}"));
        }
    }
    site.get(&format!("{THINGS}/b")).await.refused(404, "NotFound");
}

/// A Thing with two unknown fields and one that comes twice.
fn careless(name: &str) -> String {
    format!(
        "{{\"apiVersion\":\"example.io/v1\",\"kind\":\"Thing\",\"metadata\":{{\"name\":\"{name}\",\"zork\":1}},\
         \"spec\":{{\"foo\":1,\"note\":\"x\",\"note\":\"y\"}}}}"
    )
}

#[tokio::test]
async fn s075_unknown_and_repeated_fields_warn() {
    let site = Site::open().await;
    let findings =
        ["unknown field \"metadata.zork\"", "unknown field \"spec.foo\"", "duplicate field \"spec.note\""];
    let warnings: Vec<String> =
        findings.iter().map(|text| format!("299 - \"{}\"", text.replace('"', "\\\""))).collect();
    for (name, query, expected) in [
        ("a", "", warnings.as_slice()),
        ("b", "?fieldValidation=Warn", &warnings),
        ("c", "?fieldValidation=Ignore", &[]),
    ] {
        let ask = Ask::post(&format!("{THINGS}{query}"), &json!({})).body(JSON, careless(name));
        let answer = site.send(ask).await.expect(201);
        let mut said = answer.warnings();
        said.sort();
        let mut expected = expected.to_vec();
        expected.sort();
        assert_eq!(said, expected, "{query}");
        let made = answer.json();
        assert_eq!(made["spec"], json!({ "note": "y", "mode": "fast" }));
        assert!(made["metadata"].get("zork").is_none());
    }
    let ask = Ask::post(&format!("{THINGS}?fieldValidation=Strict"), &json!({})).body(JSON, careless("d"));
    let refusal = site.send(ask).await.refused(400, "BadRequest");
    let start = "Thing in version \"v1\" cannot be handled as a Thing: strict decoding error: ";
    assert!(refusal.message().starts_with(start), "{}", refusal.message());
    for finding in findings {
        assert!(refusal.message().contains(finding), "{}", refusal.message());
    }
    let ask = Ask::put(&format!("{THINGS}/a?fieldValidation=Strict"), &json!({})).body(JSON, careless("a"));
    site.send(ask).await.refused(400, "BadRequest");
}

#[tokio::test]
async fn s075_patches_are_held_to_the_same() {
    let site = Site::open().await;
    site.made(THINGS, &thing("a", json!({}))).await;
    site.made(MAPS, &config_map("m", json!({}))).await;
    let foo = json!({ "spec": { "foo": 1 } });
    let add = json!([{ "op": "add", "path": "/spec/foo", "value": 1 }]);
    for (path, kind, patch, field) in [
        (format!("{THINGS}/a"), MERGE, &foo, "spec.foo"),
        (format!("{THINGS}/a"), JSON_PATCH, &add, "spec.foo"),
        (format!("{MAPS}/m"), STRATEGIC, &json!({ "dota": {} }), "dota"),
        (format!("{MAPS}/m"), MERGE, &json!({ "metadata": { "zork": 1 } }), "metadata.zork"),
    ] {
        let strict = site.patch(&format!("{path}?fieldValidation=Strict"), kind, patch).await;
        let refusal = strict.refused(422, "Invalid");
        assert_eq!(refusal.causes(), [("FieldValueInvalid", "patch")], "{kind}");
        let finding = format!("strict decoding error: unknown field \"{field}\"");
        assert!(refusal.message().ends_with(&finding), "{}", refusal.message());
        let before = site.get(&path).await.json();
        let warned = site.patch(&path, kind, patch).await.expect(200);
        assert_eq!(warned.warnings(), [format!("299 - \"unknown field \\\"{field}\\\"\"")], "{kind}");
        assert_eq!(warned.json(), before, "{kind}: pruned, so nothing changed");
    }
}

#[tokio::test]
async fn s078_secrets_keep_their_type_and_their_size() {
    let site = Site::open().await;
    let mut object = secret("s");
    object["data"] = json!({ "a": "b2xk", "b": "Yg==" });
    object["stringData"] = json!({ "a": "new", "c": "" });
    let made = site.made(SECRETS, &object).await;
    assert_eq!(made["data"], json!({ "a": "bmV3", "b": "Yg==", "c": "" }));
    assert_eq!(made["type"], "Opaque");
    assert!(made.get("stringData").is_none());
    let at = format!("{SECRETS}/s");
    let text = json!({ "stringData": { "b": "text" } });
    for kind in [MERGE, STRATEGIC] {
        let patched = site.patch(&at, kind, &text).await.expect(200).json();
        assert_eq!(patched["data"], json!({ "a": "bmV3", "b": "dGV4dA==", "c": "" }), "{kind}");
        assert!(patched.get("stringData").is_none(), "{kind}");
    }
    let refusal = site.merge(&at, &json!({ "type": "example.io/other" })).await.refused(422, "Invalid");
    assert_eq!(
        refusal.message(),
        "Secret \"s\" is invalid: type: Invalid value: \"example.io/other\": field is immutable"
    );
    let refusal = site.merge(&at, &json!({ "data": { "a": "%%" } })).await.refused(400, "BadRequest");
    assert!(refusal.message().contains("illegal base64 data"), "{}", refusal.message());
    let big = json!({ "stringData": { "big": "x".repeat((1 << 20) + 1) } });
    let refusal = site.merge(&at, &big).await.refused(422, "Invalid");
    assert_eq!(refusal.causes(), [("FieldValueTooLong", "data")]);
    assert_eq!(refusal.cause_messages(), ["Too long: may not be more than 1048576 bytes"]);
    // Counted as bytes, not as base64.
    let fits = json!({ "data": null, "stringData": { "big": "x".repeat(1 << 20) } });
    site.merge(&at, &fits).await.expect(200);
    let key = json!({ "data": { "a/b": "" } });
    let refusal = site.merge(&at, &key).await.refused(422, "Invalid");
    assert_eq!(refusal.causes(), [("FieldValueInvalid", "data[a/b]")]);
    let mut tls = secret("t");
    tls["type"] = "kubernetes.io/tls".into();
    let refusal = site.post(SECRETS, &tls).await.refused(422, "Invalid");
    assert_eq!(
        refusal.causes(),
        [("FieldValueRequired", "data[tls.crt]"), ("FieldValueRequired", "data[tls.key]")]
    );
}

#[tokio::test]
async fn s078_what_is_immutable_stays() {
    let site = Site::open().await;
    let mut object = secret("s");
    object["immutable"] = true.into();
    object["data"] = json!({ "a": "Yg==" });
    site.made(SECRETS, &object).await;
    let mut map = config_map("m", json!({ "a": "b" }));
    map["immutable"] = true.into();
    site.made(MAPS, &map).await;
    for path in [format!("{SECRETS}/s"), format!("{MAPS}/m")] {
        for (patch, fields) in [
            (json!({ "data": { "a": "eA==" } }), vec!["data"]),
            (json!({ "immutable": false }), vec!["immutable"]),
            (json!({ "immutable": null, "data": null }), vec!["immutable", "data"]),
        ] {
            let refusal = site.merge(&path, &patch).await.refused(422, "Invalid");
            let expected: Vec<_> = fields.iter().map(|field| ("FieldValueForbidden", *field)).collect();
            assert_eq!(refusal.causes(), expected, "{path} {patch}");
            let message = "Forbidden: field is immutable when `immutable` is set";
            assert!(refusal.cause_messages().iter().all(|text| *text == message), "{path}");
        }
        site.merge(&path, &json!({ "metadata": { "labels": { "x": "y" } } })).await.expect(200);
        site.delete(&path).await.expect(200);
    }
    let mut both = config_map("m", json!({ "a": "b" }));
    both["binaryData"] = json!({ "a": "Yg==" });
    let refusal = site.post(MAPS, &both).await.refused(422, "Invalid");
    assert_eq!(refusal.causes(), [("FieldValueInvalid", "data[a]"), ("FieldValueInvalid", "binaryData[a]")]);
}

#[tokio::test]
async fn s079_metadata_is_well_formed() {
    let site = Site::open().await;
    let invalid = "FieldValueInvalid";
    let long = |n: usize| "a".repeat(n);
    let reference = |field: &str| {
        let mut reference = stranger("u");
        reference[field] = "".into();
        json!({ "ownerReferences": [reference] })
    };
    let controllers: Vec<Value> = ["u1", "u2"]
        .map(|uid| {
            let mut reference = stranger(uid);
            reference["controller"] = true.into();
            reference
        })
        .into();
    let event = json!({ "apiVersion": "v1", "kind": "Event", "name": "e", "uid": "u" });
    for (metadata, causes) in [
        (json!({ "name": "a.b-c.0" }), vec![]),
        (json!({ "name": long(253) }), vec![]),
        (json!({ "name": long(254) }), vec![(invalid, "metadata.name")]),
        (json!({ "name": "Upper" }), vec![(invalid, "metadata.name")]),
        (json!({ "name": "a/b" }), vec![(invalid, "metadata.name")]),
        (json!({ "name": "a%b" }), vec![(invalid, "metadata.name")]),
        (json!({ "name": ".." }), vec![(invalid, "metadata.name")]),
        (json!({ "name": "-a" }), vec![(invalid, "metadata.name")]),
        (json!({ "name": "a_b" }), vec![(invalid, "metadata.name")]),
        (
            json!({ "generateName": "Pre-" }),
            vec![(invalid, "metadata.generateName"), (invalid, "metadata.name")],
        ),
        (json!({ "labels": { "example.io/a_B.c-1": "v_A.l-1", "empty": "" } }), vec![]),
        (json!({ "labels": { "": "v" } }), vec![(invalid, "metadata.labels"), (invalid, "metadata.labels")]),
        (json!({ "labels": { "a/b/c": "v" } }), vec![(invalid, "metadata.labels")]),
        (json!({ "labels": { "-a": "v" } }), vec![(invalid, "metadata.labels")]),
        (json!({ "labels": { "A.io/a": "v" } }), vec![(invalid, "metadata.labels")]),
        (json!({ "labels": { long(64): "v" } }), vec![(invalid, "metadata.labels")]),
        (json!({ "labels": { "a": long(64) } }), vec![(invalid, "metadata.labels")]),
        (json!({ "labels": { "a": "-v" } }), vec![(invalid, "metadata.labels")]),
        (json!({ "labels": { "a": "v v" } }), vec![(invalid, "metadata.labels")]),
        (json!({ "annotations": { "Example.IO/Any": "any\ntext" } }), vec![]),
        (json!({ "annotations": { "a b": "" } }), vec![(invalid, "metadata.annotations")]),
        (json!({ "annotations": { "k": long(262_143) } }), vec![]),
        (
            json!({ "annotations": { "k": long(262_144) } }),
            vec![("FieldValueTooLong", "metadata.annotations")],
        ),
        (json!({ "finalizers": ["example.io/x", "orphan"] }), vec![]),
        (json!({ "finalizers": ["a b"] }), vec![(invalid, "metadata.finalizers")]),
        (json!({ "finalizers": ["orphan", "foregroundDeletion"] }), vec![(invalid, "metadata.finalizers")]),
        (json!({ "ownerReferences": [stranger("u")] }), vec![]),
        (reference("apiVersion"), vec![(invalid, "metadata.ownerReferences.apiVersion")]),
        (reference("kind"), vec![(invalid, "metadata.ownerReferences.kind")]),
        (reference("name"), vec![(invalid, "metadata.ownerReferences.name")]),
        (reference("uid"), vec![(invalid, "metadata.ownerReferences.uid")]),
        (json!({ "ownerReferences": controllers }), vec![(invalid, "metadata.ownerReferences")]),
        (json!({ "ownerReferences": [event] }), vec![(invalid, "metadata.ownerReferences")]),
    ] {
        for (path, mut object) in [(MAPS, config_map("x", json!({}))), (THINGS, thing("x", json!({})))] {
            let what = metadata.to_string().chars().take(120).collect::<String>();
            if metadata.get("generateName").is_some() {
                object["metadata"] = json!({});
            }
            for (field, value) in metadata.as_object().expect("fields") {
                object["metadata"][field] = value.clone();
            }
            let answer = site.post(&format!("{path}?dryRun=All"), &object).await;
            if causes.is_empty() {
                answer.expect(201);
                continue;
            }
            let refusal = answer.refused(422, "Invalid");
            assert_eq!(refusal.causes(), causes, "{what}: {}", refusal.message());
        }
    }
    let refusal = site.post(NAMESPACES, &namespace("a.b")).await.refused(422, "Invalid");
    assert_eq!(refusal.causes(), [(invalid, "metadata.name")]);
}

#[tokio::test]
async fn s079_a_finalizer_of_a_custom_resource_should_name_its_domain() {
    let site = Site::open().await;
    let warning = |name: &str, path: &str| {
        format!(
            "299 - \"metadata.finalizers: \\\"{name}\\\": prefer a domain-qualified finalizer name{path} to avoid \
             accidental conflicts with other finalizer writers\""
        )
    };
    let mut object = thing("a", json!({}));
    object["metadata"]["finalizers"] = json!(["hold", "orphan", "example.io/x", "hold.example.io"]);
    let made = site.post(THINGS, &object).await.expect(201);
    assert_eq!(made.warnings(), [warning("hold", ""), warning("hold.example.io", " including a path (/)")]);
    let names = json!({ "metadata": { "finalizers": ["hold", "more"] } });
    let patched = site.merge(&format!("{THINGS}/a"), &names).await.expect(200);
    assert_eq!(patched.warnings(), [warning("more", "")], "only what is new");
    let mut map = config_map("m", json!({}));
    map["metadata"]["finalizers"] = json!(["hold"]);
    assert!(site.post(MAPS, &map).await.expect(201).warnings().is_empty());
}
