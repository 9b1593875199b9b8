//! CustomResourceDefinitions: what one must look like, its names, versions, subresources and end (statements 131 to
//! 133 and 140 to 143). What it makes of values is in `values`, what it shows in `columns`.

use serde_json::{Value, json};

use super::{Answer, DEFINITIONS, Site};

/// `gadgets.test.io`, kind Gadget, with one version `v1` of this schema.
pub fn gadget(schema: Value) -> Value {
    definition(json!([version("v1", true, schema)]))
}

pub fn version(name: &str, storage: bool, schema: Value) -> Value {
    json!({ "name": name, "served": true, "storage": storage, "schema": { "openAPIV3Schema": schema } })
}

pub fn definition(versions: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "gadgets.test.io" },
        "spec": { "group": "test.io", "scope": "Namespaced", "versions": versions,
            "names": { "plural": "gadgets", "kind": "Gadget" } },
    })
}

/// A root schema whose `spec` has these properties.
pub fn with_spec(properties: Value) -> Value {
    json!({ "type": "object", "properties": { "spec": { "type": "object", "properties": properties } } })
}

/// Another definition of the group.
fn named(plural: &str, singular: &str, kind: &str, short: &[&str]) -> Value {
    let mut other = gadget(json!({ "type": "object" }));
    other["metadata"]["name"] = format!("{plural}.test.io").into();
    other["spec"]["names"] =
        json!({ "plural": plural, "singular": singular, "kind": kind, "shortNames": short });
    other
}

pub const GADGETS: &str = "/apis/test.io/v1/namespaces/default/gadgets";
pub const GADGET: &str = "/apis/test.io/v1/namespaces/default/gadgets/g";
pub const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.test.io";

pub fn object(spec: Value) -> Value {
    json!({ "apiVersion": "test.io/v1", "kind": "Gadget", "metadata": { "name": "g" }, "spec": spec })
}

pub async fn serving(definition: &Value) -> Site {
    let site = Site::serving(Vec::new()).await;
    site.made(DEFINITIONS, definition).await;
    site
}

/// Reads, changes and writes back a definition.
pub async fn edit(site: &Site, path: &str, change: impl Fn(&mut Value)) -> Answer {
    let mut found = site.get(path).await.expect(200).json();
    change(&mut found);
    site.put(path, &found).await
}

pub fn condition<'a>(definition: &'a Value, type_: &str) -> &'a Value {
    let all = definition["status"]["conditions"].as_array();
    all.and_then(|all| all.iter().find(|c| c["type"] == type_)).unwrap_or(&Value::Null)
}

#[tokio::test]
async fn s131_s010_a_new_definition_is_filled_in_and_served_at_once() {
    let site = Site::serving(Vec::new()).await;
    let mut wanted = gadget(json!({ "type": "object" }));
    wanted["status"] = json!({ "storedVersions": ["v9"], "conditions": [] });
    let made = site.made(DEFINITIONS, &wanted).await;
    assert_eq!(made["metadata"]["generation"], 1);
    assert_eq!(made["spec"]["conversion"], json!({ "strategy": "None" }));
    let names =
        json!({ "plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList" });
    assert_eq!(made["spec"]["names"], names);
    assert_eq!(made["status"]["acceptedNames"], names);
    assert_eq!(made["status"]["storedVersions"], json!(["v1"]));
    let told: Vec<[&str; 4]> = made["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|c| {
            assert!(c["lastTransitionTime"].is_string());
            ["type", "status", "reason", "message"].map(|key| c[key].as_str().unwrap_or_default())
        })
        .collect();
    assert_eq!(
        told,
        [
            ["NamesAccepted", "True", "NoConflicts", "no conflicts found"],
            ["Established", "True", "InitialNamesAccepted", "the initial names have been accepted"],
        ]
    );
    assert_eq!(site.get(DEFINITION).await.expect(200).json()["status"], made["status"]);
    site.made(GADGETS, &json!({ "apiVersion": "test.io/v1", "kind": "Gadget", "metadata": { "name": "g" } }))
        .await;
    let group = site.get("/apis/test.io/v1").await.expect(200).json();
    assert_eq!(group["resources"][0]["name"], "gadgets");
    // A spec that changes counts; the storage version is remembered.
    let both = |d: &mut Value| {
        d["spec"]["versions"][0]["storage"] = false.into();
        let v2 = version("v2", true, json!({ "type": "object" }));
        d["spec"]["versions"].as_array_mut().expect("versions").push(v2);
    };
    let changed = edit(&site, DEFINITION, both).await.expect(200).json();
    assert_eq!(
        (&changed["metadata"]["generation"], &changed["status"]["storedVersions"]),
        (&json!(2), &json!(["v1", "v2"]))
    );
    let gone = edit(&site, DEFINITION, |d| {
        d["spec"]["versions"].as_array_mut().map(|all| all.remove(0));
    });
    let refused = gone.await.refused(422, "Invalid");
    assert_eq!(refused.causes(), [("FieldValueInvalid", "status.storedVersions[0]")]);
    assert!(
        refused.cause_messages()[0]
            .starts_with("Invalid value: \"v1\": missing from spec.versions; v1 was previously")
    );
}

#[tokio::test]
async fn s132_wrong_definitions_are_refused_with_their_fields() {
    let site = Site::serving(Vec::new()).await;
    let good = || gadget(with_spec(json!({ "a": { "type": "string" } })));
    let schema = |schema: Value| gadget(schema);
    let field = |node: Value| gadget(with_spec(json!({ "a": node })));
    let change = |pointer: &str, value: Value| {
        let mut definition = good();
        *definition.pointer_mut(pointer).expect(pointer) = value;
        definition
    };
    const ROOT: &str = "spec.validation.openAPIV3Schema";
    let a = |rest: &str| format!("{ROOT}.properties[spec].properties[a]{rest}");
    let mut protected = change("/spec/group", json!("apps.k8s.io"));
    protected["metadata"]["name"] = "gadgets.apps.k8s.io".into();
    let both = json!([
        version("v1", true, json!({"type": "object"})),
        version("v2", true, json!({"type": "object"}))
    ]);
    for (definition, reason, path) in [
        (change("/metadata/name", json!("things.test.io")), "FieldValueInvalid", "metadata.name".to_owned()),
        (change("/spec/scope", json!("Galaxy")), "FieldValueNotSupported", "spec.scope".to_owned()),
        (
            change("/spec/versions/0/schema", json!({})),
            "FieldValueRequired",
            "spec.versions[0].schema.openAPIV3Schema".to_owned(),
        ),
        (change("/spec/versions", both), "FieldValueInvalid", "spec.versions".to_owned()),
        (
            change("/spec/versions/0/name", json!("1")),
            "FieldValueInvalid",
            "spec.versions[0].name".to_owned(),
        ),
        (change("/spec/names/kind", json!("Ga dget")), "FieldValueInvalid", "spec.names.kind".to_owned()),
        (protected, "FieldValueRequired", "metadata.annotations[api-approved.kubernetes.io]".to_owned()),
        (schema(json!({})), "FieldValueRequired", format!("{ROOT}.type")),
        (schema(json!({"type": "string"})), "FieldValueInvalid", format!("{ROOT}.type")),
        (
            schema(json!({"type": "object", "nullable": true})),
            "FieldValueForbidden",
            format!("{ROOT}.nullable"),
        ),
        (
            schema(json!({"type": "object", "additionalProperties": {"type": "string"}})),
            "FieldValueForbidden",
            format!("{ROOT}.additionalProperties"),
        ),
        (
            schema(
                json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}),
            ),
            "FieldValueForbidden",
            format!("{ROOT}.properties[metadata]"),
        ),
        (
            schema(
                json!({"type": "object", "anyOf": [{"required": ["x"], "properties": {"x": {"minLength": 1}}}]}),
            ),
            "FieldValueRequired",
            format!("{ROOT}.properties[x]"),
        ),
        (field(json!({})), "FieldValueRequired", a(".type")),
        (field(json!({"type": "array"})), "FieldValueRequired", a(".items")),
        (field(json!({"type": "string", "$ref": "#/x"})), "FieldValueForbidden", a(".$ref")),
        (field(json!({"type": "string", "uniqueItems": true})), "FieldValueForbidden", a(".uniqueItems")),
        (
            field(json!({"type": "string", "anyOf": [{"type": "string"}]})),
            "FieldValueForbidden",
            a(".anyOf[0].type"),
        ),
        (field(json!({"type": "string", "not": {"default": "x"}})), "FieldValueForbidden", a(".not.default")),
        (field(json!({"type": "string", "pattern": "("})), "FieldValueInvalid", a(".pattern")),
        (field(json!({"type": "string", "default": 1})), "FieldValueTypeInvalid", a(".default")),
        (field(json!({"type": "object", "default": {"zap": 1}})), "FieldValueInvalid", a(".default")),
        (
            field(json!({"type": "object", "x-kubernetes-embedded-resource": true})),
            "FieldValueRequired",
            a(".properties"),
        ),
        (field(json!({"type": "string", "x-kubernetes-list-type": "set"})), "FieldValueInvalid", a(".type")),
        (
            field(
                json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "properties": {"k": {"type": "string"}}}}),
            ),
            "FieldValueRequired",
            a(".items.properties[k].default"),
        ),
        (field(json!({"type": "zap"})), "FieldValueNotSupported", a(".type")),
    ] {
        let refused = site.post(DEFINITIONS, &definition).await.refused(422, "Invalid");
        assert!(refused.causes().contains(&(reason, &path)), "{path}: {:?}", refused.0);
        assert_eq!(refused.details()["kind"], "CustomResourceDefinition");
    }
    let mut unapproved = change("/spec/group", json!("apps.k8s.io"));
    unapproved["metadata"] = json!({ "name": "gadgets.apps.k8s.io",
        "annotations": { "api-approved.kubernetes.io": "unapproved, testing" } });
    site.post(DEFINITIONS, &unapproved).await.expect(201);
}

#[tokio::test]
async fn s132_columns_scale_and_selectable_fields_are_judged() {
    let site = Site::serving(Vec::new()).await;
    let with = |key: &str, value: Value| {
        let mut definition =
            gadget(with_spec(json!({ "a": { "type": "string" }, "n": { "type": "number" } })));
        definition["spec"]["versions"][0][key] = value;
        definition
    };
    let column = |column: Value| with("additionalPrinterColumns", json!([column]));
    for (definition, field) in [
        (
            column(json!({"name": "", "type": "string", "jsonPath": ".a"})),
            "spec.additionalPrinterColumns[0].name",
        ),
        (
            column(json!({"name": "A", "type": "odd", "jsonPath": ".a"})),
            "spec.additionalPrinterColumns[0].type",
        ),
        (
            column(json!({"name": "A", "type": "string", "format": "odd", "jsonPath": ".a"})),
            "spec.additionalPrinterColumns[0].format",
        ),
        (
            column(json!({"name": "A", "type": "string", "jsonPath": "a"})),
            "spec.additionalPrinterColumns[0].JSONPath",
        ),
        (
            with(
                "subresources",
                json!({"scale": {"specReplicasPath": ".status.n", "statusReplicasPath": ".status.n"}}),
            ),
            "spec.subresources.scale.specReplicasPath",
        ),
        (with("selectableFields", json!([{"jsonPath": ".spec.nope"}])), "spec.selectableFields[0].jsonPath"),
        (with("selectableFields", json!([{"jsonPath": ".spec.n"}])), "spec.selectableFields[0].jsonPath"),
        (with("deprecationWarning", json!("x")), "spec.versions[0].deprecationWarning"),
    ] {
        let refused = site.post(DEFINITIONS, &definition).await.refused(422, "Invalid");
        assert_eq!(refused.causes().first().map(|cause| cause.1), Some(field), "{:?}", refused.0);
    }
    site.made(DEFINITIONS, &with("selectableFields", json!([{"jsonPath": ".spec.a"}]))).await;
    site.made(GADGETS, &object(json!({ "a": "x" }))).await;
    let found = |query: &str| format!("{GADGETS}?fieldSelector=spec.a%3D{query}");
    assert_eq!(site.get(&found("x")).await.expect(200).json()["items"].as_array().map(Vec::len), Some(1));
    assert_eq!(site.get(&found("y")).await.expect(200).json()["items"].as_array().map(Vec::len), Some(0));
    // Immutable once it is served.
    let refused =
        edit(&site, DEFINITION, |d| d["spec"]["scope"] = "Cluster".into()).await.refused(422, "Invalid");
    assert_eq!(
        (refused.causes(), refused.cause_messages()),
        (vec![("FieldValueInvalid", "spec.scope")], vec!["Invalid value: \"Cluster\": field is immutable"],)
    );
    let odd = with(
        "schema",
        json!({ "openAPIV3Schema": with_spec(json!({ "a": { "type": "string", "format": "odd" } })) }),
    );
    let updated = edit(&site, DEFINITION, |d| {
        d["spec"]["versions"][0]["schema"] = odd["spec"]["versions"][0]["schema"].clone();
    });
    assert_eq!(updated.await.expect(200).warnings(), ["299 - \"unrecognized format \\\"odd\\\"\""]);
}

#[tokio::test]
async fn s133_names_that_are_taken_wait() {
    for (wanted, reason, name) in [
        (named("gadget", "x", "X", &[]), "PluralConflict", "gadget"),
        (named("others", "gadgets", "X", &[]), "SingularConflict", "gadgets"),
        (named("others", "other", "X", &["gg"]), "ShortNamesConflict", "gg"),
        // The list kind is judged last, and the last complaint is kept.
        (named("others", "other", "Gadget", &[]), "ListKindConflict", "GadgetList"),
        (named("others", "other", "GadgetList", &[]), "KindConflict", "GadgetList"),
    ] {
        let site = Site::serving(Vec::new()).await;
        site.made(DEFINITIONS, &named("gadgets", "gadget", "Gadget", &["gg"])).await;
        let made = site.made(DEFINITIONS, &wanted).await;
        let names = condition(&made, "NamesAccepted");
        let in_use = format!("\"{name}\" is already in use");
        assert_eq!(
            (&names["status"], &names["reason"], &names["message"]),
            (&json!("False"), &json!(reason), &json!(in_use))
        );
        let established = condition(&made, "Established");
        assert_eq!(
            (&established["status"], &established["reason"], &established["message"]),
            (&json!("False"), &json!("NotAccepted"), &json!("not all names are accepted"))
        );
        let plural = wanted["spec"]["names"]["plural"].as_str().unwrap_or_default();
        site.get(&format!("/apis/test.io/v1/namespaces/default/{plural}")).await.expect(404);
        // The names come free: the other definition gets them.
        site.delete(DEFINITION).await.expect(200);
        let path = format!("{DEFINITIONS}/{plural}.test.io");
        site.until(&path, |answer| condition(&answer.json(), "Established")["status"] == "True").await;
        site.get(&format!("/apis/test.io/v1/namespaces/default/{plural}")).await.expect(200);
    }
}

#[tokio::test]
async fn s140_status_and_scale_are_there_only_when_declared() {
    let schema = json!({ "type": "object", "properties": {
        "spec": { "type": "object", "properties": { "replicas": { "type": "integer" } } },
        "status": { "type": "object", "properties": { "replicas": { "type": "integer", "maximum": 9 } } } } });
    let site = serving(&gadget(schema.clone())).await;
    let mut wanted = object(json!({ "replicas": 1 }));
    wanted["status"] = json!({ "replicas": 1 });
    let made = site.made(GADGETS, &wanted).await;
    assert_eq!(made["status"], json!({ "replicas": 1 }), "without the subresource it is a field like others");
    for part in ["status", "scale"] {
        let refused = site.get(&format!("{GADGET}/{part}")).await.refused(404, "NotFound");
        assert_eq!(refused.message(), "gadgets.test.io \"g\" not found");
    }
    let changed = site.merge(GADGET, &json!({ "status": { "replicas": 2 } })).await.expect(200).json();
    assert_eq!(changed["metadata"]["generation"], 2);
    let parts = json!({ "status": {}, "scale": { "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas" } });
    edit(&site, DEFINITION, |d| d["spec"]["versions"][0]["subresources"] = parts.clone()).await.expect(200);
    let kept = site.merge(GADGET, &json!({ "status": { "replicas": 3 } })).await.expect(200).json();
    assert_eq!((&kept["status"]["replicas"], &kept["metadata"]["generation"]), (&json!(2), &json!(2)));
    let path = format!("{GADGET}/status");
    let told = site
        .merge(&path, &json!({ "status": { "replicas": 4 }, "spec": { "replicas": 7 } }))
        .await
        .expect(200)
        .json();
    assert_eq!(
        (&told["status"]["replicas"], &told["spec"]["replicas"], &told["metadata"]["generation"]),
        (&json!(4), &json!(1), &json!(2))
    );
    let refused = site.merge(&path, &json!({ "status": { "replicas": 10 } })).await.refused(422, "Invalid");
    assert_eq!(
        (refused.causes(), refused.cause_messages()),
        (
            vec![("FieldValueInvalid", "status.replicas")],
            vec!["Invalid value: 10: replicas in body should be less than or equal to 9"],
        )
    );
    let scaled = site
        .merge(&format!("{GADGET}/scale"), &json!({ "spec": { "replicas": 5 } }))
        .await
        .expect(200)
        .json();
    assert_eq!(
        (&scaled["kind"], &scaled["spec"]["replicas"], &scaled["status"]["replicas"]),
        (&json!("Scale"), &json!(5), &json!(4))
    );
    assert_eq!(site.get(GADGET).await.json()["metadata"]["generation"], 3);
    let refused = site.merge(GADGET, &json!({ "spec": { "replicas": -1 } })).await.refused(422, "Invalid");
    assert_eq!(
        (refused.causes(), refused.cause_messages()),
        (
            vec![("FieldValueInvalid", ".spec.replicas")],
            vec!["Invalid value: -1: should be a non-negative integer"],
        )
    );
}

#[tokio::test]
async fn s141_s011_versions_that_would_lose_fields_are_not_served() {
    let new = with_spec(json!({ "rollout": { "type": "string" } }));
    let old = with_spec(json!({ "strategy": { "type": "string" } }));
    let mut two = definition(json!([version("v1", true, new.clone()), version("v1beta1", false, old)]));
    two["spec"]["versions"][1]["deprecated"] = true.into();
    let site = Site::serving(Vec::new()).await;
    let answer = site.post(DEFINITIONS, &two).await.expect(201);
    assert_eq!(
        answer.warnings(),
        ["299 - \"test.io/v1beta1 Gadget is not served: its fields differ from those of the storage \
        version v1, and this server does not call conversion webhooks\""]
    );
    site.made(GADGETS, &object(json!({ "rollout": "slow" }))).await;
    let beta = GADGET.replace("/v1/", "/v1beta1/");
    site.get(&beta).await.expect(404);
    site.merge(&beta, &json!({ "metadata": { "labels": { "a": "b" } } })).await.expect(404);
    assert_eq!(site.get(GADGET).await.json()["spec"], json!({ "rollout": "slow" }));
    assert!(!site.get("/apis/test.io").await.text().contains("v1beta1"));
    // Equal fields convert by their name alone: nothing can be lost.
    let described =
        json!({ "type": "object", "description": "Other words.", "properties": new["properties"] });
    let same = move |d: &mut Value| d["spec"]["versions"][1]["schema"]["openAPIV3Schema"] = described.clone();
    edit(&site, DEFINITION, same).await.expect(200);
    let shown = site.get(&beta).await.expect(200);
    assert_eq!(shown.json()["apiVersion"], "test.io/v1beta1");
    site.merge(&beta, &json!({ "metadata": { "labels": { "a": "b" } } })).await.expect(200);
    assert_eq!(site.get(GADGET).await.json()["spec"], json!({ "rollout": "slow" }));
}

#[tokio::test]
async fn s142_deprecated_versions_say_so_with_every_answer() {
    let schema = json!({ "type": "object" });
    let mut versions = json!([
        version("v1", true, schema.clone()),
        version("v1beta2", false, schema.clone()),
        version("v1beta1", false, schema)
    ]);
    versions[1]["deprecated"] = true.into();
    versions[2]["deprecated"] = true.into();
    versions[2]["deprecationWarning"] = "go away".into();
    let site = serving(&definition(versions)).await;
    site.made(GADGETS, &object(json!({}))).await;
    for (version, warnings) in [
        ("v1", vec![]),
        ("v1beta2", vec!["299 - \"test.io/v1beta2 Gadget is deprecated; use test.io/v1 Gadget\""]),
        ("v1beta1", vec!["299 - \"go away\""]),
    ] {
        let path = |path: &str| path.replace("/v1/", &format!("/{version}/"));
        assert_eq!(site.get(&path(GADGET)).await.expect(200).warnings(), warnings);
        assert_eq!(site.get(&path(GADGETS)).await.expect(200).warnings(), warnings);
        assert_eq!(site.merge(&path(GADGET), &json!({})).await.expect(200).warnings(), warnings);
    }
}

#[tokio::test]
async fn s143_deleting_a_definition_deletes_its_objects_first() {
    let site = serving(&gadget(with_spec(json!({})))).await;
    let mut held = object(json!({}));
    held["metadata"]["finalizers"] = json!(["test.io/hold"]);
    site.made(GADGETS, &held).await;
    let mut free = object(json!({}));
    free["metadata"]["name"] = "free".into();
    site.made(GADGETS, &free).await;
    let going = site.delete(DEFINITION).await.expect(200).json();
    assert_eq!(going["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    let terminating = condition(&going, "Terminating");
    assert_eq!(
        (&terminating["status"], &terminating["reason"]),
        (&json!("True"), &json!("InstanceDeletionInProgress"))
    );
    free["metadata"]["name"] = "late".into();
    let refused = site.post(GADGETS, &free).await.refused(403, "Forbidden");
    assert!(
        refused.message().ends_with("create not allowed while custom resource definition is terminating"),
        "{}",
        refused.message()
    );
    site.until(GADGETS, |answer| answer.json()["items"].as_array().map(Vec::len) == Some(1)).await;
    site.until(GADGET, |answer| !answer.json()["metadata"]["deletionTimestamp"].is_null()).await;
    site.get(DEFINITION).await.expect(200);
    site.merge(GADGET, &json!({ "metadata": { "finalizers": null } })).await.expect(200);
    site.until_gone(DEFINITION).await;
    assert_eq!(site.get(GADGETS).await.expect(404).text(), "404 page not found\n");
    site.made(DEFINITIONS, &gadget(with_spec(json!({})))).await;
    assert_eq!(site.get(GADGETS).await.expect(200).json()["items"], json!([]));
}

/// What a writer had changed was taken back by the watch behind it: new objects met `terminating`, then 404.
#[tokio::test(flavor = "multi_thread")]
async fn s131_s143_a_definition_that_is_made_anew_stays_served() {
    let site = Site::open().await;
    for round in 0..40 {
        site.made(DEFINITIONS, &gadget(json!({ "type": "object" }))).await;
        let one = json!({ "apiVersion": "test.io/v1", "kind": "Gadget", "metadata": { "name": "one" } });
        site.made(GADGETS, &one).await;
        for _ in 0..20 {
            let listed = site.get(GADGETS).await;
            assert_eq!(listed.code, 200, "round {round}: {listed:?}");
        }
        let path = format!("{DEFINITIONS}/gadgets.test.io");
        site.delete(&path).await;
        site.until_gone(&path).await;
    }
}
