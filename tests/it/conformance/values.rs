//! What a definition makes of values: pruning, defaults, keywords, rules, ratcheting (statements 134 to 139).

use capstan_apiserver::ApiServer;
use serde_json::{Value, json};

use super::definitions::{DEFINITION, GADGET, GADGETS, edit, gadget, object, serving, with_spec};
use super::{DEFINITIONS, Site};
use crate::things::options;

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

/// Another server on the store, or an earlier version, took the definition: what is there can be read, and only values
/// that the rule is about are refused.
#[tokio::test]
async fn s137_a_stored_rule_that_cannot_be_compiled_ended_the_process() {
    let fields = json!({ "n": { "type": "integer" }, "m": { "type": "integer" } });
    let site = serving(&gadget(with_spec(fields))).await;
    site.made(GADGETS, &object(json!({ "n": 1 }))).await;
    let mut stored = site.get(DEFINITION).await.expect(200).json();
    let schema = &mut stored["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let rule = format!("self{} > 0", " + self".repeat(1_600));
    schema["properties"]["spec"]["properties"]["n"]["x-kubernetes-validations"] = json!([{ "rule": rule }]);
    site.server.import(std::iter::once(stored)).await.expect("stored");
    let server = ApiServer::open(site.store.clone(), options(Vec::new())).await.expect("it starts");
    let site = Site { server, ..site };
    assert_eq!(site.get(GADGET).await.expect(200).json()["spec"]["n"], 1);
    assert_eq!(site.get(GADGETS).await.expect(200).json()["items"][0]["spec"]["n"], 1);
    let refused = site.merge(GADGET, &json!({ "spec": { "n": 2 } })).await.refused(422, "Invalid");
    assert_eq!(refused.causes(), [("FieldValueInvalid", "spec.n")]);
    let said = "rule compile error: compilation failed: ERROR: <input>:-1:0: expression recursion limit exceeded: 250";
    assert!(refused.cause_messages()[0].ends_with(said), "{:?}", refused.cause_messages());
    site.merge(GADGET, &json!({ "spec": { "m": 2 } })).await.expect(200);
    let mut other = object(json!({ "m": 1 }));
    other["metadata"]["name"] = "other".into();
    site.made(GADGETS, &other).await;
    site.delete(GADGET).await.expect(200);
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
