//! CustomResourceDefinitions: statements 131 to 146, and 19 and 20 (what is published about them). Definitions of
//! its own; those of upstream when the shared folder is there.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{APPLY, Answer, Ask, DEFINITIONS, JSON_PATCH, MERGE, STRATEGIC, Site, YAML};

/// `gadgets.test.io`, kind Gadget, with one version `v1` of this schema.
fn gadget(schema: Value) -> Value {
    definition(json!([version("v1", true, schema)]))
}

fn version(name: &str, storage: bool, schema: Value) -> Value {
    json!({ "name": name, "served": true, "storage": storage, "schema": { "openAPIV3Schema": schema } })
}

fn definition(versions: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "gadgets.test.io" },
        "spec": { "group": "test.io", "scope": "Namespaced", "versions": versions,
            "names": { "plural": "gadgets", "kind": "Gadget" } },
    })
}

/// A root schema whose `spec` has these properties.
fn with_spec(properties: Value) -> Value {
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

const GADGETS: &str = "/apis/test.io/v1/namespaces/default/gadgets";
const GADGET: &str = "/apis/test.io/v1/namespaces/default/gadgets/g";
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.test.io";

fn object(spec: Value) -> Value {
    json!({ "apiVersion": "test.io/v1", "kind": "Gadget", "metadata": { "name": "g" }, "spec": spec })
}

async fn serving(definition: &Value) -> Site {
    let site = Site::serving(Vec::new()).await;
    site.made(DEFINITIONS, definition).await;
    site
}

/// Reads, changes and writes back a definition.
async fn edit(site: &Site, path: &str, change: impl Fn(&mut Value)) -> Answer {
    let mut found = site.get(path).await.expect(200).json();
    change(&mut found);
    site.put(path, &found).await
}

fn condition<'a>(definition: &'a Value, type_: &str) -> &'a Value {
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
        d["spec"]["versions"][0]["schema"] = odd["spec"]["versions"][0]["schema"].clone()
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
async fn s134_unknown_fields_go_and_those_that_may_stay_do() {
    let site = serving(&gadget(with_spec(json!({
        "a": { "type": "string" },
        "list": { "type": "array", "items": { "type": "object", "properties": { "x": { "type": "integer" } } } },
        "map": { "type": "object", "additionalProperties": { "type": "object", "properties": { "y": { "type": "string" } } } },
        "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
            "tight": { "type": "object", "properties": { "z": { "type": "string" } } } } },
        "whole": { "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true },
    })))).await;
    let made = site.made(GADGETS, &object(json!({
        "a": "1", "b": 2, "list": [{ "x": 1, "q": 2 }], "map": { "k": { "y": "1", "q": 2 } },
        "free": { "any": { "thing": 1 }, "tight": { "z": "1", "q": 2 } },
        "whole": { "apiVersion": "v1", "kind": "K", "metadata": { "name": "n", "odd": 1 }, "data": 1 },
    }))).await;
    assert_eq!(
        made["spec"],
        json!({
            "a": "1", "list": [{ "x": 1 }], "map": { "k": { "y": "1" } },
            "free": { "any": { "thing": 1 }, "tight": { "z": "1" } },
            "whole": { "apiVersion": "v1", "kind": "K", "metadata": { "name": "n" }, "data": 1 },
        })
    );
    let mut nameless = object(json!({ "whole": { "kind": "", "metadata": { "labels": { "-": "x" } } } }));
    nameless["metadata"]["name"] = "h".into();
    let refused = site.post(GADGETS, &nameless).await.refused(422, "Invalid");
    assert_eq!(
        refused.causes(),
        [
            ("FieldValueRequired", "spec.whole.apiVersion"),
            ("FieldValueInvalid", "spec.whole.kind"),
            ("FieldValueInvalid", "spec.whole.metadata.labels"),
        ]
    );
}

#[tokio::test]
async fn s135_defaults_come_on_write_and_on_read() {
    let old = json!({ "a": { "type": "string" }, "list": { "type": "array", "items": { "type": "object",
        "properties": { "k": { "type": "string" } } } } });
    let site = serving(&gadget(with_spec(old))).await;
    let before = site.made(GADGETS, &object(json!({ "list": [{ "k": "1" }] }))).await;
    let new = with_spec(json!({
        "a": { "type": "string", "default": "x" },
        "n": { "type": "string", "nullable": true, "default": "x" },
        "plain": { "type": "string" },
        "list": { "type": "array", "items": { "type": "object", "properties": {
            "k": { "type": "string" }, "d": { "type": "integer", "default": 1 } } } },
        "map": { "type": "object", "additionalProperties": { "type": "object", "properties": {
            "d": { "type": "integer", "default": 2 } } } },
        "absent": { "type": "object", "properties": { "d": { "type": "integer", "default": 3 } } },
        "made": { "type": "object", "default": {}, "properties": { "d": { "type": "integer", "default": 4 } } },
    }));
    edit(&site, DEFINITION, |d| d["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = new.clone())
        .await
        .expect(200);
    let shown = site.get(GADGET).await.expect(200).json();
    let filled = json!({ "a": "x", "n": "x", "list": [{ "k": "1", "d": 1 }], "made": { "d": 4 } });
    assert_eq!(shown["spec"], filled);
    assert_eq!(shown["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
    assert_eq!(site.get(GADGETS).await.expect(200).json()["items"][0]["spec"], filled);
    let mut other = object(json!({ "a": null, "n": null, "plain": null, "map": { "k": {} }, "absent": {} }));
    other["metadata"]["name"] = "h".into();
    let made = site.made(GADGETS, &other).await;
    assert_eq!(
        made["spec"],
        json!({ "a": "x", "n": null, "map": { "k": { "d": 2 } }, "absent": { "d": 3 }, "made": { "d": 4 } })
    );
}

#[tokio::test]
async fn s136_every_keyword_has_its_cause() {
    let text = |extra: Value| {
        let mut node = json!({ "type": "string" });
        node.as_object_mut()
            .into_iter()
            .for_each(|map| map.extend(extra.as_object().cloned().unwrap_or_default()));
        node
    };
    let set = json!({ "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "string" } });
    let keyed = json!({ "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
        "items": { "type": "object", "required": ["k"], "properties": { "k": { "type": "string" } } } });
    let strings =
        |extra: (&str, u32)| json!({ "type": "array", "items": { "type": "string" }, extra.0: extra.1 });
    let properties = |extra: (&str, u32)| json!({ "type": "object", "additionalProperties": { "type": "string" }, extra.0: extra.1 });
    for (node, value, reason, path, message) in [
        (
            json!({"type": "integer"}),
            json!("x"),
            "FieldValueTypeInvalid",
            "spec.f",
            "Invalid value: \"string\": spec.f in body must be of type integer: \"string\"",
        ),
        (
            text(json!({"enum": ["A", "B"]})),
            json!("C"),
            "FieldValueNotSupported",
            "spec.f",
            "Unsupported value: \"C\": supported values: \"A\", \"B\"",
        ),
        (
            text(json!({"pattern": "^a+$"})),
            json!("b"),
            "FieldValueInvalid",
            "spec.f",
            "Invalid value: \"b\": spec.f in body should match '^a+$'",
        ),
        (
            text(json!({"minLength": 1})),
            json!(""),
            "FieldValueInvalid",
            "spec.f",
            "Invalid value: \"\": spec.f in body should be at least 1 chars long",
        ),
        (
            text(json!({"maxLength": 3})),
            json!("abcd"),
            "FieldValueTooLong",
            "spec.f",
            "Too long: may not be more than 3 bytes",
        ),
        (
            json!({"type": "integer", "minimum": 5}),
            json!(4),
            "FieldValueInvalid",
            "spec.f",
            "Invalid value: 4: spec.f in body should be greater than or equal to 5",
        ),
        (
            json!({"type": "integer", "maximum": 5}),
            json!(6),
            "FieldValueInvalid",
            "spec.f",
            "Invalid value: 6: spec.f in body should be less than or equal to 5",
        ),
        (
            json!({"type": "number", "maximum": 5, "exclusiveMaximum": true}),
            json!(5),
            "FieldValueInvalid",
            "spec.f",
            "Invalid value: 5: spec.f in body should be less than 5",
        ),
        (
            json!({"type": "integer", "multipleOf": 2}),
            json!(3),
            "FieldValueInvalid",
            "spec.f",
            "Invalid value: 3: spec.f in body should be a multiple of 2",
        ),
        (
            strings(("minItems", 1)),
            json!([]),
            "FieldValueInvalid",
            "spec.f",
            "Invalid value: 0: spec.f in body should have at least 1 items",
        ),
        (
            strings(("maxItems", 1)),
            json!(["a", "b"]),
            "FieldValueTooMany",
            "spec.f",
            "Too many: 2: must have at most 1 item",
        ),
        (
            properties(("minProperties", 1)),
            json!({}),
            "FieldValueInvalid",
            "spec.f",
            "Invalid value: 0: spec.f in body should have at least 1 properties",
        ),
        (
            properties(("maxProperties", 1)),
            json!({"a": "1", "b": "2"}),
            "FieldValueTooMany",
            "spec.f",
            "Too many: 2: must have at most 1 item",
        ),
        (
            properties(("maxProperties", 9)),
            json!({"a": 1}),
            "FieldValueTypeInvalid",
            "spec.f.a",
            "Invalid value: \"integer\": spec.f.a in body must be of type string: \"integer\"",
        ),
        (
            json!({"type": "object", "required": ["x"], "properties": {"x": {"type": "string"}}}),
            json!({}),
            "FieldValueRequired",
            "spec.f.x",
            "Required value",
        ),
        (set, json!(["a", "b", "a"]), "FieldValueDuplicate", "spec.f[2]", "Duplicate value: \"a\""),
        (
            keyed,
            json!([{"k": "1"}, {"k": "1"}]),
            "FieldValueDuplicate",
            "spec.f[1]",
            "Duplicate value: {\"k\":\"1\"}",
        ),
        (
            json!({"x-kubernetes-int-or-string": true}),
            json!(true),
            "FieldValueTypeInvalid",
            "spec.f",
            "Invalid value: \"boolean\": spec.f in body must be of type integer,string: \"boolean\"",
        ),
        (
            json!({"type": "integer", "format": "int32"}),
            json!(2_147_483_648_u32),
            "FieldValueInvalid",
            "<nil>",
            "Invalid value: \"\": Checked value must be of type integer with format int32 in spec.f",
        ),
        (
            json!({"type": "integer", "format": "int64"}),
            json!(1e19),
            "FieldValueTypeInvalid",
            "spec.f",
            "Invalid value: \"number\": spec.f in body must be of type integer: \"number\"",
        ),
        (
            text(json!({"format": "date-time"})),
            json!("x"),
            "FieldValueTypeInvalid",
            "spec.f",
            "Invalid value: \"x\": spec.f in body must be of type date-time: \"x\"",
        ),
        (
            text(json!({"format": "ipv4"})),
            json!("x"),
            "FieldValueTypeInvalid",
            "spec.f",
            "Invalid value: \"x\": spec.f in body must be of type ipv4: \"x\"",
        ),
        (
            text(json!({"anyOf": [{"enum": ["x"]}, {"minLength": 3}]})),
            json!("y"),
            "FieldValueInvalid",
            "<nil>",
            "Invalid value: \"\": \"spec.f\" must validate at least one schema (anyOf)",
        ),
        (
            text(json!({"oneOf": [{"pattern": "a"}, {"pattern": "b"}]})),
            json!("ab"),
            "FieldValueInvalid",
            "<nil>",
            "Invalid value: \"\": \"spec.f\" must validate one and only one schema (oneOf). Found 2 valid alternatives",
        ),
        (
            text(json!({"allOf": [{"pattern": "a"}, {"pattern": "b"}]})),
            json!("a"),
            "FieldValueInvalid",
            "<nil>",
            "Invalid value: \"\": \"spec.f\" must validate all the schemas (allOf)",
        ),
        (
            text(json!({"not": {"enum": ["x"]}})),
            json!("x"),
            "FieldValueInvalid",
            "<nil>",
            "Invalid value: \"\": \"spec.f\" must not validate the schema (not)",
        ),
    ] {
        let site = serving(&gadget(with_spec(json!({ "f": node })))).await;
        let refused = site.post(GADGETS, &object(json!({ "f": value }))).await.refused(422, "Invalid");
        let told: Vec<_> = refused.causes().into_iter().zip(refused.cause_messages()).collect();
        assert!(told.contains(&((reason, path), message)), "{node}: {told:?}");
    }
}

/// The rules that Cluster API's definitions carry, each with what it accepts and what not.
#[tokio::test]
async fn s137_rules_of_cluster_api_accept_and_refuse() {
    let list = |items: Value, rule: &str| {
        json!({ "type": "array", "maxItems": 20, "items": items,
        "x-kubernetes-validations": [{ "rule": rule, "message": "wrong" }] })
    };
    let argument = json!({ "type": "object", "required": ["name"], "properties": {
        "name": { "type": "string", "maxLength": 256 }, "value": { "type": "string", "maxLength": 1024 } } });
    let partition = json!({ "type": "object", "properties": {
        "layout": { "type": "boolean" }, "diskLayout": { "type": "array", "maxItems": 9, "items": { "type": "string" } } },
        "x-kubernetes-validations": [{ "message": "wrong",
            "rule": "[has(self.layout),has(self.diskLayout)].filter(x,x==true).size() == 1" }] });
    let type_ = json!({ "type": "string", "maxLength": 36, "x-kubernetes-validations": [{ "message": "wrong",
        "rule": "self.matches('^(Linux|LVM|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})$')" }] });
    let condition = json!({ "type": "string", "maxLength": 64, "x-kubernetes-validations": [{ "message": "wrong",
        "rule": "!(self in ['Ready','Available'])" }] });
    for (node, good, bad) in [
        (
            list(argument.clone(), "self.all(x, self.exists_one(y, x.name == y.name))"),
            json!([{ "name": "a" }, { "name": "b" }]),
            json!([{ "name": "a" }, { "name": "a", "value": "1" }]),
        ),
        (
            list(argument, "self.all(x, self.exists_one(y, x == y))"),
            json!([{ "name": "a" }, { "name": "a", "value": "1" }]),
            json!([{ "name": "a" }, { "name": "a" }]),
        ),
        (partition.clone(), json!({ "layout": false }), json!({ "layout": false, "diskLayout": [] })),
        (partition, json!({ "diskLayout": ["x"] }), json!({})),
        (type_.clone(), json!("Linux"), json!("linux")),
        (type_, json!("0FC63DAF-8483-4772-8E79-3D69D8477DE4"), json!("0FC63DAF")),
        (condition, json!("NodeReady"), json!("Ready")),
    ] {
        let site = serving(&gadget(with_spec(json!({ "f": node })))).await;
        site.made(GADGETS, &object(json!({ "f": good }))).await;
        let mut wrong = object(json!({ "f": bad }));
        wrong["metadata"]["name"] = "h".into();
        let refused = site.post(GADGETS, &wrong).await.refused(422, "Invalid");
        assert_eq!(refused.causes(), [("FieldValueInvalid", "spec.f")]);
        assert!(refused.cause_messages()[0].ends_with(": wrong"), "{:?}", refused.cause_messages());
    }
}

#[tokio::test]
async fn s137_rules_are_judged_when_the_definition_is_written() {
    let site = Site::serving(Vec::new()).await;
    let ruled = |rule: &str| {
        gadget(with_spec(json!({ "f": { "type": "array", "items": { "type": "string" },
        "x-kubernetes-validations": [{ "rule": rule }] } })))
    };
    const AT: &str =
        "spec.validation.openAPIV3Schema.properties[spec].properties[f].x-kubernetes-validations[0].rule";
    let refused = site.post(DEFINITIONS, &ruled("self.all(x, x.nope)")).await.refused(422, "Invalid");
    assert_eq!(refused.causes(), [("FieldValueInvalid", AT)]);
    assert!(refused.cause_messages()[0].contains("compilation failed: ERROR: <input>:1:"), "{:?}", refused.0);
    let refused = site
        .post(DEFINITIONS, &ruled("self.all(x, self.exists_one(y, x == y))"))
        .await
        .refused(422, "Invalid");
    assert!(refused.causes().contains(&("FieldValueForbidden", AT)));
    assert!(
        refused.cause_messages()[0]
            .starts_with("Forbidden: estimated rule cost exceeds budget by factor of more than 100x")
    );
    // An error of the schema keeps rules from being run, and says so.
    let both = gadget(
        json!({ "type": "object", "properties": { "spec": { "type": "object", "required": ["n"], "properties": {
        "n": { "type": "integer" }, "m": { "type": "integer" } }, "x-kubernetes-validations": [{ "rule": "self.m > 0" }] } } }),
    );
    site.made(DEFINITIONS, &both).await;
    let refused = site.post(GADGETS, &object(json!({ "m": 0 }))).await.refused(422, "Invalid");
    assert_eq!(refused.causes(), [("FieldValueRequired", "spec.n"), ("FieldValueInvalid", "<nil>")]);
    assert_eq!(
        refused.cause_messages()[1],
        "Invalid value: null: some validation rules were not checked because the object was \
        invalid; correct the existing errors to complete validation"
    );
}

#[tokio::test]
async fn s138_transitions_messages_reasons_and_paths() {
    let site = serving(&gadget(with_spec(json!({
        "fixed": { "type": "string", "maxLength": 9, "x-kubernetes-validations": [{ "rule": "self == oldSelf", "message": "is fixed" }] },
        "grows": { "type": "integer", "x-kubernetes-validations": [{
            "rule": "oldSelf.hasValue() ? self >= oldSelf.value() : self == 1", "optionalOldSelf": true,
            "messageExpression": "'not ' + string(self)" }] },
        "deep": { "type": "object", "properties": { "x": { "type": "integer" } }, "x-kubernetes-validations": [{
            "rule": "self.x > 0", "fieldPath": ".x", "reason": "FieldValueForbidden", "message": "more" }] },
    })))).await;
    let refused =
        site.post(GADGETS, &object(json!({ "grows": 2, "deep": { "x": 0 } }))).await.refused(422, "Invalid");
    let told: Vec<_> = refused.causes().into_iter().zip(refused.cause_messages()).collect();
    assert_eq!(
        told,
        [
            (("FieldValueForbidden", "spec.deep.x"), "Forbidden: more"),
            (("FieldValueInvalid", "spec.grows"), "Invalid value: 2: not 2"),
        ]
    );
    site.made(GADGETS, &object(json!({ "fixed": "a", "grows": 1 }))).await;
    let refused =
        site.merge(GADGET, &json!({ "spec": { "fixed": "b", "grows": 0 } })).await.refused(422, "Invalid");
    assert_eq!(refused.cause_messages(), ["Invalid value: \"b\": is fixed", "Invalid value: 0: not 0"]);
    site.merge(GADGET, &json!({ "spec": { "grows": 5 } })).await.expect(200);
}

#[tokio::test]
async fn s139_a_stricter_schema_does_not_block_other_edits() {
    let loose = with_spec(
        json!({ "s": { "type": "string" }, "t": { "type": "string" }, "l": { "type": "array", "items": { "type": "string" } } }),
    );
    let site = serving(&gadget(loose)).await;
    site.made(GADGETS, &object(json!({ "s": "long", "l": ["a", "a"] }))).await;
    let strict = with_spec(json!({
        "s": { "type": "string", "maxLength": 2, "x-kubernetes-validations": [{ "rule": "self.startsWith('x')", "message": "x" }] },
        "t": { "type": "string", "maxLength": 2 },
        "l": { "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "string" } },
    }));
    edit(&site, DEFINITION, |d| d["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = strict.clone())
        .await
        .expect(200);
    site.merge(GADGET, &json!({ "metadata": { "labels": { "a": "b" } } })).await.expect(200);
    site.merge(GADGET, &json!({ "spec": { "t": "ok" } })).await.expect(200);
    let refused =
        site.merge(GADGET, &json!({ "spec": { "t": "long", "s": "longer" } })).await.refused(422, "Invalid");
    let mut fields = refused.causes();
    fields.sort_unstable();
    assert_eq!(
        fields,
        [("FieldValueInvalid", "<nil>"), ("FieldValueTooLong", "spec.s"), ("FieldValueTooLong", "spec.t")]
    );
    let refused = site.merge(GADGET, &json!({ "spec": { "s": "y" } })).await.refused(422, "Invalid");
    assert_eq!(refused.cause_messages(), ["Invalid value: \"y\": x"]);
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

#[tokio::test]
async fn s144_columns_print_as_upstream_prints_them() {
    let column =
        |name: &str, type_: &str, path: &str| json!({ "name": name, "type": type_, "jsonPath": path });
    let mut wanted = gadget(json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true }));
    let mut wide = column("Wide", "string", ".spec.wide");
    wide["priority"] = 10.into();
    wide["description"] = "Said.".into();
    wanted["spec"]["versions"][0]["additionalPrinterColumns"] = json!([
        column("Cluster", "string", ".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']"),
        column("Ready", "string", ".status.conditions[?(@.type==\"Ready\")].status"),
        column("Owner", "string", ".metadata.ownerReferences[?(@.kind==\"Cluster\")].name"),
        column("Count", "integer", ".spec.count"),
        column("Text", "string", ".spec.count"),
        column("Share", "number", ".spec.share"),
        column("Whole", "string", ".spec.whole"),
        column("Flag", "boolean", ".spec.flag"),
        column("Not", "boolean", ".spec.count"),
        column("Since", "date", ".spec.since"),
        column("Bad", "date", ".spec.wide"),
        column("Null", "string", ".spec.nothing"),
        column("None", "string", ".spec.nope"),
        wide,
    ]);
    let site = serving(&wanted).await;
    let mut made =
        object(json!({ "count": 3, "share": 2.0, "whole": { "b": "<", "a": [1.0] }, "flag": false,
        "since": "2000-01-01T00:00:00Z", "nothing": null, "wide": "w" }));
    made["metadata"]["labels"] = json!({ "cluster.x-k8s.io/cluster-name": "c" });
    made["status"] =
        json!({ "conditions": [{ "type": "A", "status": "x" }, { "type": "Ready", "status": "True" }] });
    site.made(GADGETS, &made).await;
    let table = Ask::get(GADGETS).accept("application/json;as=Table;g=meta.k8s.io;v=v1,application/json");
    let table = site.send(table).await.expect(200).json();
    let cells = table["rows"][0]["cells"].as_array().cloned().unwrap_or_default();
    let years = cells[10].as_str().unwrap_or_default();
    assert!(years.len() >= 3 && years.contains('y'), "{years}");
    let expected = json!([
        "g",
        "c",
        "True",
        null,
        3,
        "3",
        2,
        "{\"a\":[1],\"b\":\"\\u003c\"}",
        false,
        null,
        years,
        "<invalid>",
        "<no value>",
        null,
        "w"
    ]);
    assert_eq!(Value::Array(cells), expected);
    let columns = &table["columnDefinitions"];
    assert_eq!(
        columns[0],
        json!({ "name": "Name", "type": "string", "format": "name", "priority": 0,
        "description": columns[0]["description"] })
    );
    assert_eq!(
        columns[4],
        json!({ "name": "Count", "type": "integer", "format": "", "priority": 0,
        "description": "Custom resource definition column (in JSONPath format): .spec.count" })
    );
    assert_eq!(
        columns[14],
        json!({ "name": "Wide", "type": "string", "format": "", "priority": 10, "description": "Said." })
    );
}

#[tokio::test]
async fn s019_s020_what_is_published_describes_fields_and_patches() {
    let site = serving(&gadget(json!({ "type": "object", "description": "A gadget.", "properties": { "spec": {
        "type": "object", "description": "What is wanted.", "properties": { "deep": { "type": "object",
            "description": "Deeper.", "properties": { "leaf": { "type": "string", "description": "The leaf." } } } } } } }))).await;
    let document = site.get("/openapi/v3/apis/test.io/v1").await.expect(200).json();
    let root = &document["components"]["schemas"]["io.test.v1.Gadget"];
    assert_eq!(root["description"], "A gadget.");
    assert_eq!(
        root["x-kubernetes-group-version-kind"],
        json!([{ "group": "test.io", "version": "v1", "kind": "Gadget" }])
    );
    assert_eq!(
        root["properties"]["spec"]["properties"]["deep"]["properties"]["leaf"]["description"],
        "The leaf."
    );
    let types = |document: &Value, path: &str| -> Vec<String> {
        let content = &document["paths"][path]["patch"]["requestBody"]["content"];
        content.as_object().into_iter().flatten().map(|(type_, _)| type_.clone()).collect()
    };
    let custom = types(&document, "/apis/test.io/v1/namespaces/{namespace}/gadgets/{name}");
    assert!(
        custom.iter().any(|t| t == MERGE)
            && custom.iter().any(|t| t == APPLY)
            && !custom.iter().any(|t| t == STRATEGIC)
    );
    let core = site.get("/openapi/v3/api/v1").await.expect(200).json();
    assert!(types(&core, "/api/v1/namespaces/{name}").iter().any(|t| t == STRATEGIC));
}

/// Upstream's definitions, when the shared folder is there.
fn upstream() -> Option<Vec<Value>> {
    let root = std::env::var_os("CAPSTAN_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"), PathBuf::from);
    let folder = root.join("crds");
    if !folder.is_dir() {
        println!("skipped: {} is not there", folder.display());
        return None;
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&folder).expect("a folder").flatten().filter(|e| e.path().is_dir()) {
        files.extend(std::fs::read_dir(entry.path()).expect("a folder").flatten().map(|file| file.path()));
    }
    files.sort();
    let read = |file: PathBuf| -> Vec<Value> {
        serde_saphyr::from_multiple(&std::fs::read_to_string(&file).expect("text")).expect("YAML")
    };
    Some(files.into_iter().flat_map(read).collect())
}

fn path_of(definition: &Value) -> String {
    format!("{DEFINITIONS}/{}", definition["metadata"]["name"].as_str().unwrap_or_default())
}

#[tokio::test]
async fn s146_all_upstream_definitions_are_taken_by_every_route() {
    let Some(definitions) = upstream() else { return };
    assert!(definitions.len() >= 29, "{}", definitions.len());
    for route in ["create", "apply", "replace", "server-side apply"] {
        let site = Site::serving(Vec::new()).await;
        for wanted in &definitions {
            let path = path_of(wanted);
            let text = wanted.to_string();
            let answer = match route {
                "create" => site.post(DEFINITIONS, wanted).await,
                // What kubectl apply sends: a POST with what was applied, then a strategic merge patch.
                "apply" => {
                    let mut first = wanted.clone();
                    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
                    if text.len() < 250_000 {
                        first["metadata"]["annotations"][annotation] = text.into();
                    }
                    site.made(DEFINITIONS, &first).await;
                    let patch = json!({ "metadata": { "labels": { "a": "b" } }, "spec": { "names": wanted["spec"]["names"] } });
                    site.patch(&path, STRATEGIC, &patch).await
                }
                "replace" => {
                    site.made(DEFINITIONS, wanted).await;
                    edit(&site, &path, |d| {
                        d["metadata"]["labels"]["cluster.x-k8s.io/v1beta2"] = "v1beta2".into()
                    })
                    .await
                }
                _ => {
                    let ask = Ask::patch(&format!("{path}?fieldManager=kubectl"), APPLY, wanted);
                    let answer = site.send(ask).await;
                    if answer.code == 415 {
                        println!("skipped: no server-side apply yet");
                        break;
                    }
                    answer
                }
            };
            assert!(matches!(answer.code, 200 | 201), "{route} {path}: {}", answer.text());
            let name = &wanted["spec"]["names"]["kind"];
            assert_eq!(condition(&answer.json(), "Established")["status"], "True", "{name}");
        }
        if let Some(kinds) =
            Some(site.get("/apis/cluster.x-k8s.io/v1beta2").await).filter(|answer| answer.code == 200)
        {
            let plain = |r: &&Value| !r["name"].as_str().unwrap_or_default().contains('/');
            let served = kinds.json()["resources"].as_array().map(|all| all.iter().filter(plain).count());
            assert_eq!(served, Some(8), "{route}");
        }
    }
    let site = Site::serving(Vec::new()).await;
    let yaml = serde_saphyr::to_string(&definitions[0]).expect("YAML");
    site.send(Ask::new(http::Method::POST, DEFINITIONS).body(YAML, yaml)).await.expect(201);
    let unwanted = json!([{ "op": "remove", "path": "/spec/versions" }]);
    site.patch(&path_of(&definitions[0]), JSON_PATCH, &unwanted).await.refused(422, "Invalid");
}
