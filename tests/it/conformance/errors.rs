//! Statements 42-49: every refusal in its words.

use capstan_apiserver::Identity;
use http::Method;
use serde_json::{Value, json};

use super::{
    Ask, DEFINITIONS, JSON, JSON_PATCH, MAPS, MERGE, NAMESPACES, SECRETS, STRATEGIC, Site, THINGS,
    config_map, namespace, thing, version,
};

#[tokio::test]
async fn s042_a_missing_object_is_named() {
    let site = Site::open().await;
    let path = format!("{THINGS}/x");
    let patch = || Ask::patch(&path, MERGE, &json!({}));
    for ask in [
        Ask::get(&path),
        Ask::delete(&path),
        patch(),
        Ask::get(&format!("{path}/status")),
        Ask::get(&format!("{path}/scale")),
    ] {
        let what = ask.to_string();
        let answer = site.send(ask).await.expect(404);
        assert_eq!(
            answer.json(),
            json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                    "message": "things.example.io \"x\" not found", "reason": "NotFound",
                    "details": { "name": "x", "group": "example.io", "kind": "things" }, "code": 404 }),
            "{what}"
        );
    }
    let core = site.get(&format!("{SECRETS}/x")).await.refused(404, "NotFound");
    assert_eq!(
        (core.message(), core.details()),
        ("secrets \"x\" not found", &json!({ "name": "x", "kind": "secrets" }))
    );
    // A subresource that the kind does not have names the object too.
    site.made(MAPS, &config_map("m", json!({}))).await;
    let none = site.get(&format!("{MAPS}/m/status")).await.expect(404);
    assert!(none.text().contains("not found"), "{}", none.text());
}

#[tokio::test]
async fn s043_a_taken_name_is_said_to_be_taken() {
    let site = Site::open().await;
    let mut held = thing("a", json!({}));
    held["metadata"]["finalizers"] = json!(["example.io/hold"]);
    site.made(THINGS, &held).await;
    let taken = site.post(THINGS, &held).await.refused(409, "AlreadyExists");
    assert_eq!(
        (taken.message(), taken.details()),
        (
            "things.example.io \"a\" already exists",
            &json!({ "name": "a", "group": "example.io", "kind": "things" })
        )
    );
    site.delete(&format!("{THINGS}/a")).await.expect(200);
    let ending = site.post(THINGS, &held).await.refused(409, "AlreadyExists");
    assert_eq!(ending.message(), "object is being deleted: things.example.io \"a\" already exists");
}

#[tokio::test]
async fn s044_a_stale_version_loses() {
    let site = Site::open().await;
    let made = site.made(THINGS, &thing("a", json!({}))).await;
    let mut next = made.clone();
    next["spec"]["note"] = json!("x");
    let path = format!("{THINGS}/a");
    site.put(&path, &next).await.expect(200);
    let lock = json!({ "metadata": { "resourceVersion": version(&made) }, "spec": { "note": "z" } });
    for ask in [Ask::put(&path, &next), Ask::patch(&path, MERGE, &lock)] {
        let late = site.send(ask).await.refused(409, "Conflict");
        assert_eq!(
            late.message(),
            "Operation cannot be fulfilled on things.example.io \"a\": the object has been modified; please apply \
             your changes to the latest version and try again"
        );
        assert_eq!(late.details(), &json!({ "name": "a", "group": "example.io", "kind": "things" }));
    }
}

#[tokio::test]
async fn s045_every_problem_is_a_cause() {
    let site = Site::open().await;
    let mut wrong = thing("Upper", json!({ "replicas": -1, "mode": "odd", "note": "n".repeat(30) }));
    wrong["metadata"]["labels"] = json!({ "a b": "x", "ok": "not ok!" });
    wrong["metadata"]["finalizers"] = json!(["no/such/finalizer"]);
    let refused = site.post(THINGS, &wrong).await.refused(422, "Invalid");
    assert!(
        refused.message().starts_with("Thing.example.io \"Upper\" is invalid: ["),
        "{}",
        refused.message()
    );
    let causes = refused.causes();
    for expected in [
        ("FieldValueInvalid", "metadata.name"),
        ("FieldValueInvalid", "metadata.labels"),
        ("FieldValueInvalid", "metadata.finalizers"),
        ("FieldValueInvalid", "spec.replicas"),
        ("FieldValueNotSupported", "spec.mode"),
        ("FieldValueTooLong", "spec.note"),
    ] {
        assert!(causes.contains(&expected), "{expected:?} in {causes:?}");
    }
    assert_eq!(refused.details()["kind"], "Thing");
    let texts = refused.cause_messages();
    assert!(texts.contains(&"Unsupported value: \"odd\": supported values: \"fast\", \"slow\""), "{texts:?}");
    assert!(texts.contains(&"Too long: may not be more than 20 bytes"), "{texts:?}");
    // One problem: its sentence stands alone.
    let one = site.post(THINGS, &thing("a", json!({ "note": 7 }))).await.refused(422, "Invalid");
    assert_eq!(
        one.message(),
        "Thing.example.io \"a\" is invalid: spec.note: Invalid value: \"integer\": spec.note in body must \
         be of type string: \"integer\""
    );
    assert_eq!(one.causes(), [("FieldValueTypeInvalid", "spec.note")]);
}

#[tokio::test]
async fn s046_the_body_fits_the_url() {
    let site = Site::open().await;
    site.made(THINGS, &thing("a", json!({}))).await;
    let path = format!("{THINGS}/a");
    let changed = |field: &str, value: Value| {
        let mut object = thing("a", json!({}));
        *object.pointer_mut(field).expect("a field") = value;
        object
    };
    let mut elsewhere = thing("b", json!({}));
    elsewhere["metadata"]["namespace"] = json!("other");
    let refused = site.post(THINGS, &elsewhere).await.refused(400, "BadRequest");
    assert_eq!(
        refused.message(),
        "the namespace of the provided object does not match the namespace sent on the request"
    );
    let refused = site.put(&path, &changed("/metadata/name", json!("b"))).await.refused(400, "BadRequest");
    assert_eq!(refused.message(), "the name of the object (b) does not match the name on the URL (a)");
    let other = changed("/apiVersion", json!("example.io/v2"));
    for answer in [site.post(THINGS, &other).await, site.put(&path, &other).await] {
        let refused = answer.refused(400, "BadRequest");
        assert_eq!(
            refused.message(),
            "the API version in the data (example.io/v2) does not match the expected API version (example.io/v1)"
        );
    }
    let refused = site.post(THINGS, &changed("/kind", json!("Other"))).await.refused(422, "Invalid");
    assert_eq!(refused.causes(), [("FieldValueInvalid", "kind")]);
    assert_eq!(refused.cause_messages(), ["Invalid value: \"Other\": must be Thing"]);
    site.post(THINGS, &changed("/kind", json!(""))).await.refused(400, "BadRequest");
    site.post(MAPS, &thing("a", json!({}))).await.refused(400, "BadRequest");
}

#[tokio::test]
async fn s047_a_new_object_has_no_version() {
    let site = Site::open().await;
    for (path, mut object) in [(THINGS, thing("a", json!({}))), (MAPS, config_map("a", json!({})))] {
        object["metadata"]["resourceVersion"] = json!("7");
        let refused = site.post(path, &object).await.refused(500, "");
        assert_eq!(refused.message(), "resourceVersion should not be set on objects to be created");
        site.get(&format!("{path}/a")).await.expect(404);
    }
}

#[tokio::test]
async fn s048_who_is_turned_away_is_told_why() {
    let site = Site::open().await;
    let guarded = site.guarded();
    for path in ["/version", "/readyz", MAPS, "/apis", "/nonsense"] {
        for token in ["Bearer wrong", "Bearer ", "Basic YTpi", "Bearer"] {
            let answer = guarded.send(Ask::get(path).header("authorization", token)).await;
            assert_eq!(answer.header("www-authenticate"), "Bearer", "{path} {token}");
            assert_eq!(answer.refused(401, "Unauthorized").message(), "Unauthorized");
        }
    }
    guarded.get("/version").await.expect(200);
    guarded.get(MAPS).await.refused(401, "Unauthorized");
    let viewer = site.acting_as(Identity::READ_ONLY);
    let patch = Ask::patch(&format!("{THINGS}/a/scale"), MERGE, &json!({}));
    for (ask, message, details) in [
        (
            Ask::post(MAPS, &config_map("m", json!({}))),
            "configmaps is forbidden: User \"capstan-viewer\" cannot create resource \"configmaps\" in API group \"\" in \
             the namespace \"default\"",
            json!({ "kind": "configmaps" }),
        ),
        (
            Ask::delete(&format!("{THINGS}/a")),
            "things.example.io \"a\" is forbidden: User \"capstan-viewer\" cannot delete resource \"things\" in API group \
             \"example.io\" in the namespace \"default\"",
            json!({ "name": "a", "group": "example.io", "kind": "things" }),
        ),
        (
            patch,
            "things.example.io \"a\" is forbidden: User \"capstan-viewer\" cannot patch resource \"things/scale\" in API \
             group \"example.io\" in the namespace \"default\"",
            json!({ "name": "a", "group": "example.io", "kind": "things" }),
        ),
        (
            Ask::get("/api/v1/secrets"),
            "secrets is forbidden: User \"capstan-viewer\" cannot list resource \"secrets\" in API group \"\" at the cluster \
             scope",
            json!({ "kind": "secrets" }),
        ),
        (
            Ask::post("/readyz", &json!({})),
            "forbidden: User \"capstan-viewer\" cannot post path \"/readyz\"",
            Value::Null,
        ),
        // Before it is known whether there is such a thing.
        (
            Ask::post("/apis/nope.io/v1/nopes", &json!({})),
            "nopes.nope.io is forbidden: User \"capstan-viewer\" cannot create resource \"nopes\" in API group \"nope.io\" \
             at the cluster scope",
            json!({ "group": "nope.io", "kind": "nopes" }),
        ),
    ] {
        let refused = viewer.send(ask).await.refused(403, "Forbidden");
        assert_eq!((refused.message(), refused.details()), (message, &details));
    }
}

#[tokio::test(start_paused = true)]
async fn s049_when_to_come_back() {
    let site = Site::paused().await;
    let future = format!("{MAPS}?resourceVersion=999999&resourceVersionMatch=NotOlderThan");
    let answer = site.get(&future).await;
    assert_eq!(answer.header("retry-after"), "1");
    let refused = answer.refused(504, "Timeout");
    assert_eq!(refused.details()["retryAfterSeconds"], 1);
    assert_eq!(refused.causes(), [("ResourceVersionTooLarge", "")]);
    let current = site.revision().await;
    assert_eq!(refused.message(), format!("Timeout: Too large resource version: 999999, current: {current}"));
}

/// What is wrong with a request, and the answer: code, reason, words of the message.
#[tokio::test]
async fn malformed_requests_are_bad_requests() {
    let site = Site::open().await;
    site.made(THINGS, &thing("a", json!({}))).await;
    site.made(MAPS, &config_map("m", json!({}))).await;
    let (a, m) = (format!("{THINGS}/a"), format!("{MAPS}/m"));
    let body = |path: &str, kind: &str, text: &str| Ask::new(Method::POST, path).body(kind, text.to_owned());
    let patch =
        |path: &str, kind: &str, text: &str| Ask::new(Method::PATCH, path).body(kind, text.to_owned());
    let list = |query: &str| Ask::get(&format!("{MAPS}?{query}"));
    let deep = format!("{}1{}", "{\"a\":".repeat(5_000), "}".repeat(5_000));
    let deep_list = format!("[{}]", "[".repeat(100_000));
    let (bad, invalid) = ((400, "BadRequest"), (422, "Invalid"));
    for (ask, (code, reason), words) in [
        (body(MAPS, JSON, "{"), bad, ""),
        (body(MAPS, JSON, ""), bad, ""),
        (body(MAPS, JSON, "[]"), bad, ""),
        (body(MAPS, JSON, "null"), bad, ""),
        (body(MAPS, JSON, "{} {}"), bad, ""),
        (body(MAPS, JSON, "\u{0}"), bad, ""),
        (body(MAPS, JSON, &deep), bad, ""),
        (body(MAPS, JSON, &deep_list), bad, ""),
        (body(THINGS, "application/yaml", &deep_list), bad, ""),
        (body(MAPS, JSON, "{\"apiVersion\":1,\"kind\":[]}"), bad, ""),
        (body(MAPS, JSON, "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":[]}"), bad, ""),
        (
            body(MAPS, JSON, "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":7}}"),
            bad,
            "",
        ),
        (
            body(
                MAPS,
                JSON,
                "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"data\":7,\"metadata\":{\"name\":\"x\"}}",
            ),
            bad,
            "",
        ),
        (patch(&m, JSON_PATCH, "{}"), bad, ""),
        (patch(&m, JSON_PATCH, "[{\"op\":\"fly\"}]"), invalid, ""),
        (patch(&m, MERGE, "[]"), bad, ""),
        (patch(&m, MERGE, &deep), bad, ""),
        (patch(&m, STRATEGIC, "7"), bad, ""),
        (patch(&a, STRATEGIC, "{}"), (415, "UnsupportedMediaType"), "application/apply-patch+yaml"),
        (patch(&m, "text/plain", "{}"), (415, "UnsupportedMediaType"), STRATEGIC),
        (
            patch(&a, JSON_PATCH, "[{\"op\":\"test\",\"path\":\"/spec/mode\",\"value\":\"x\"}]"),
            invalid,
            "the server rejected our request due to an error in our request",
        ),
        (list("labelSelector=a%20b"), bad, ""),
        (list("labelSelector=a%20in%20(x"), bad, ""),
        (list("labelSelector=%00"), bad, ""),
        (list("fieldSelector=spec.x%3D1"), bad, "field label not supported: spec.x"),
        (list("fieldSelector=metadata.name"), bad, ""),
        (list("resourceVersion=abc"), bad, ""),
        (list("resourceVersion=-1"), bad, ""),
        (list("limit=x"), bad, ""),
        (list("continue=x"), bad, "continue"),
        (list("continue=%00%00"), bad, "continue"),
        (list("continue=e30"), bad, "continue"),
        (list("continue=eyJ2IjoidjEifQ"), bad, "continue"),
        (list("watch&timeoutSeconds=x"), bad, ""),
        (list("resourceVersionMatch=Exact"), invalid, "resourceVersionMatch: Forbidden"),
        (list("watch&sendInitialEvents=true"), invalid, "resourceVersionMatch: Forbidden"),
        (
            Ask::delete(&format!("{a}?propagationPolicy=Sometimes")),
            invalid,
            "propagationPolicy: Unsupported value",
        ),
        (
            Ask::delete(&format!("{a}?dryRun=Maybe")),
            invalid,
            "dryRun: Unsupported value: [\"Maybe\"]: supported values: \"All\"",
        ),
        (Ask::delete(&a).body(JSON, "{\"preconditions\":7}"), bad, ""),
        (Ask::delete(&a).body(JSON, "{"), bad, ""),
        (
            Ask::new(Method::POST, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").body(JSON, "{}"),
            invalid,
            "exactly one of nonResourceAttributes or resourceAttributes",
        ),
        (Ask::delete(NAMESPACES), (405, "MethodNotAllowed"), ""),
        (Ask::delete("/version"), (405, "MethodNotAllowed"), ""),
        (Ask::get("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"), (405, "MethodNotAllowed"), ""),
    ] {
        let what = ask.to_string();
        let answer = site.send(ask).await;
        assert_eq!(answer.code, code, "{what} {words}: {}", answer.text());
        let refused = answer.refused(code, reason);
        assert!(
            refused.message().contains(words) && !refused.message().is_empty(),
            "{what}: {}",
            refused.message()
        );
    }
    // And the server is still there.
    site.get(&m).await.expect(200);
    site.get(&a).await.expect(200);
}

/// Refusals by the state of things.
#[tokio::test]
async fn refusals_by_state_have_their_details() {
    let site = Site::open().await;
    let made = site.made(THINGS, &thing("a", json!({}))).await;
    let path = format!("{THINGS}/a");
    let precondition = |field: &str, value: &str| {
        Ask::delete(&path).json(JSON, &json!({ "preconditions": { field: value } }))
    };
    let uid = made["metadata"]["uid"].as_str().expect("a uid");
    let refused = site.send(precondition("uid", "nope")).await.refused(409, "Conflict");
    assert_eq!(
        refused.message(),
        format!(
            "Operation cannot be fulfilled on Thing.example.io \"a\": the UID in the precondition (nope) does not match \
             the UID in record ({uid}). The object might have been deleted and then recreated"
        )
    );
    assert_eq!(refused.details()["kind"], "Thing");
    let refused = site.send(precondition("resourceVersion", "1")).await.refused(409, "Conflict");
    assert!(refused.message().ends_with(". The object might have been modified"), "{}", refused.message());
    let mut unversioned = thing("a", json!({}));
    let refused = site.put(&path, &unversioned).await.refused(422, "Invalid");
    assert_eq!(
        refused.message(),
        "things.example.io \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    );
    unversioned["metadata"]["namespace"] = json!("nowhere");
    let elsewhere = THINGS.replace("default", "nowhere");
    let refused = site.post(&elsewhere, &unversioned).await.refused(404, "NotFound");
    assert_eq!(
        (refused.message(), refused.details()),
        ("namespaces \"nowhere\" not found", &json!({ "name": "nowhere", "kind": "namespaces" }))
    );
    let refused = site.delete(&format!("{NAMESPACES}/default")).await.refused(403, "Forbidden");
    assert_eq!(refused.message(), "namespaces \"default\" is forbidden: this namespace may not be deleted");
    // A namespace that is ending takes nothing new.
    site.made(NAMESPACES, &namespace("team")).await;
    let team = THINGS.replace("default", "team");
    let mut held = thing("held", json!({}));
    held["metadata"]["finalizers"] = json!(["example.io/hold"]);
    site.made(&team, &held).await;
    site.delete(&format!("{NAMESPACES}/team")).await.expect(200);
    let refused = site.post(&team, &thing("new", json!({}))).await.refused(403, "Forbidden");
    assert_eq!(
        refused.message(),
        "things.example.io \"new\" is forbidden: unable to create new content in namespace team because it is being \
         terminated"
    );
    assert_eq!(refused.causes(), [("NamespaceTerminating", "metadata.namespace")]);
    // Nor does a definition that is ending.
    site.delete(&format!("{DEFINITIONS}/things.example.io")).await.expect(200);
    let refused = site.post(THINGS, &thing("late", json!({}))).await;
    assert!(matches!(refused.code, 403 | 404), "{}", refused.text());
}

/// Strict field validation: 400 for whole objects, 422 for patches.
#[tokio::test]
async fn strictness_names_every_unknown_and_double_field() {
    let site = Site::open().await;
    site.made(THINGS, &thing("b", json!({}))).await;
    let text = "{\"apiVersion\":\"example.io/v1\",\"kind\":\"Thing\",\"metadata\":{\"name\":\"a\"},\
                \"spec\":{\"zork\":1,\"mode\":\"fast\",\"mode\":\"slow\"}}";
    let strict = format!("{THINGS}?fieldValidation=Strict");
    let refused =
        site.send(Ask::new(Method::POST, &strict).body(JSON, text)).await.refused(400, "BadRequest");
    let start = "Thing in version \"v1\" cannot be handled as a Thing: strict decoding error: ";
    let found = refused.message().strip_prefix(start).unwrap_or_else(|| panic!("{}", refused.message()));
    let mut found: Vec<&str> = found.split(", ").collect();
    found.sort_unstable();
    assert_eq!(found, ["duplicate field \"spec.mode\"", "unknown field \"spec.zork\""]);
    let patch = json!({ "spec": { "zork": 1 } });
    let path = format!("{THINGS}/b?fieldValidation=Strict");
    let refused = site.merge(&path, &patch).await.refused(422, "Invalid");
    assert_eq!(refused.causes(), [("FieldValueInvalid", "patch")]);
    assert!(
        refused.message().contains("strict decoding error: unknown field \"spec.zork\""),
        "{}",
        refused.message()
    );
    let warned = site.merge(&format!("{THINGS}/b"), &patch).await.expect(200);
    assert_eq!(warned.warnings(), ["299 - \"unknown field \\\"spec.zork\\\"\""]);
}
