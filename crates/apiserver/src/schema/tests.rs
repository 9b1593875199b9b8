//! Schemas as rules: schema, value, what becomes of it.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn schema(properties: &Value) -> Schema {
    let schema = json!({"type": "object", "properties": properties});
    Schema::custom("Thing", "v1", &schema, "schema").expect("structural")
}

/// A schema of one field `f`.
fn field(node: &Value) -> Schema {
    schema(&json!({"f": node}))
}

/// What is wrong with a schema of these properties, under the path `s`.
pub(super) fn refused(properties: &Value) -> Vec<String> {
    let schema = json!({"type": "object", "properties": properties});
    let causes = Schema::custom("Thing", "v1", &schema, "s").expect_err("refused");
    causes.iter().map(Cause::to_string).collect()
}

/// 2,000 patterns of one definition kept 460 MB.
#[test]
fn patterns_take_a_bounded_amount_of_memory() {
    let with_patterns = |count: usize| {
        let node = |n: usize| json!({"type": "string", "pattern": format!(r"^\pL{{1,{}}}$", 20 + n)});
        Value::Object((0..count).map(|n| (format!("f{n}"), node(n))).collect())
    };
    schema(&with_patterns(2));
    assert_eq!(refused(&with_patterns(30)), ["s: Forbidden: patterns take more than 32 MiB of memory"]);
    let stored = json!({"type": "object", "properties": with_patterns(30)});
    let stored = Schema::stored("Thing", "v1", &stored, "s").expect("its objects stay readable");
    for name in ["f0", "f29"] {
        assert_eq!(stored.validate(&json!({name: "1"}), None).len(), 1, "{name}: kept or not, it holds");
    }
}

#[test]
fn unknown_fields_are_pruned_and_named() {
    let things = schema(&json!({
        "spec": {"type": "object", "properties": {
            "a": {"type": "string"},
            "list": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "integer"}}}},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"y": {"type": "string"}}}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
                "tight": {"type": "object", "properties": {"z": {"type": "string"}}},
            }},
            "embedded": {"type": "object", "x-kubernetes-embedded-resource": true,
                "x-kubernetes-preserve-unknown-fields": true},
        }},
    }));
    let mut object = json!({
        "apiVersion": "g/v1", "kind": "Thing", "extra": 1,
        "metadata": {"name": "n", "baz": 1, "labels": {"any": "thing"}},
        "spec": {
            "a": "1", "b": 2, "list": [{"x": 1}, {"x": 2, "q": 3}], "map": {"k": {"y": "1", "w": 1}},
            "free": {"what": {"ever": 1}, "tight": {"z": "1", "no": 2}},
            "embedded": {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n", "bad": 1}, "spec": {"a": 1}},
        },
    });
    let mut unknown = things.decode(&mut object).expect("decodes");
    unknown.sort();
    assert_eq!(
        unknown,
        [
            "extra",
            "metadata.baz",
            "spec.b",
            "spec.embedded.metadata.bad",
            "spec.free.tight.no",
            "spec.list[1].q",
            "spec.map.k.w"
        ]
    );
    assert_eq!(
        object,
        json!({
            "apiVersion": "g/v1", "kind": "Thing", "metadata": {"name": "n", "labels": {"any": "thing"}},
            "spec": {
                "a": "1", "list": [{"x": 1}, {"x": 2}], "map": {"k": {"y": "1"}},
                "free": {"what": {"ever": 1}, "tight": {"z": "1"}},
                "embedded": {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}, "spec": {"a": 1}},
            },
        })
    );
}

#[test]
fn defaults_and_nulls() {
    let things = schema(&json!({
        "spec": {"type": "object", "properties": {
            "d": {"type": "string", "default": "x"},
            "n": {"type": "string", "nullable": true, "default": "x"},
            "plain": {"type": "string"},
            "list": {"type": "array", "items": {"type": "object", "properties": {"d": {"type": "integer", "default": 1}}}},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"d": {"type": "integer", "default": 1}}}},
            "absent": {"type": "object", "properties": {"d": {"type": "integer", "default": 1}}},
            "made": {"type": "object", "default": {}, "properties": {"d": {"type": "integer", "default": 1}}},
        }},
    }));
    for (spec, expected) in [
        (json!({}), json!({"d": "x", "n": "x", "made": {"d": 1}})),
        (json!({"d": "y", "n": "z"}), json!({"d": "y", "n": "z", "made": {"d": 1}})),
        (json!({"d": null, "n": null, "plain": null}), json!({"d": "x", "n": null, "made": {"d": 1}})),
        (
            json!({"list": [{}, {"d": 2}], "map": {"a": {}}, "absent": {}}),
            json!({"d": "x", "n": "x", "made": {"d": 1}, "list": [{"d": 1}, {"d": 2}], "map": {"a": {"d": 1}}, "absent": {"d": 1}}),
        ),
    ] {
        let mut object = json!({"metadata": {"name": "n", "creationTimestamp": null}, "spec": spec});
        things.decode(&mut object).expect("decodes");
        assert_eq!(object, json!({"metadata": {"name": "n"}, "spec": expected}));
    }
    let mut object = json!({"metadata": {"name": "n"}});
    things.decode(&mut object).expect("decodes");
    assert_eq!(object, json!({"metadata": {"name": "n"}}), "parents are not created");
}

/// A list of a few hundred kilobytes became gigabytes.
#[test]
fn defaults_that_multiply_are_bounded() {
    let large = "x".repeat(10_000);
    let things = schema(&json!({
        "spec": {"type": "object", "properties": {
            "list": {"type": "array", "items": {"type": "object", "properties": {"d": {"type": "string", "default": large}}}},
        }},
    }));
    let of = |items: usize| json!({"metadata": {"name": "n"}, "spec": {"list": vec![json!({}); items]}});
    let mut fits = of(800);
    things.decode(&mut fits).expect("decodes");
    assert_eq!(fits["spec"]["list"][799]["d"].as_str().map(str::len), Some(10_000));
    let mut bomb = of(100_000);
    assert_eq!(things.decode(&mut bomb).map_err(|failure| failure.code()), Err(413));
    assert!(bomb["spec"]["list"][1_000].get("d").is_none(), "nothing more comes once it is too much");
}

#[test]
fn values_are_judged_in_upstreams_words() {
    let set = json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"});
    let map = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "properties": {"k": {"type": "string"}}, "required": ["k"]},
    });
    let int_or_string =
        json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]});
    for (node, value, complaints) in [
        (json!({"type": "integer"}), json!(1), vec![]),
        (json!({"type": "integer"}), json!(1.0), vec![]),
        (
            json!({"type": "integer"}),
            json!("x"),
            vec!["f: Invalid value: \"string\": f in body must be of type integer: \"string\""],
        ),
        (
            json!({"type": "object"}),
            json!([]),
            vec!["f: Invalid value: \"array\": f in body must be of type object: \"array\""],
        ),
        (json!({"type": "string", "nullable": true}), Value::Null, vec![]),
        (
            json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}),
            json!({}),
            vec!["f.a: Required value"],
        ),
        (
            json!({"type": "string", "enum": ["A", "B"]}),
            json!("C"),
            vec!["f: Unsupported value: \"C\": supported values: \"A\", \"B\""],
        ),
        (
            json!({"type": "string", "pattern": "^a+$"}),
            json!("b"),
            vec!["f: Invalid value: \"b\": f in body should match '^a+$'"],
        ),
        (
            json!({"type": "string", "minLength": 1}),
            json!(""),
            vec!["f: Invalid value: \"\": f in body should be at least 1 chars long"],
        ),
        (
            json!({"type": "string", "maxLength": 3}),
            json!("äöüß"),
            vec!["f: Too long: may not be more than 3 bytes"],
        ),
        (
            json!({"type": "integer", "minimum": 0}),
            json!(-1),
            vec!["f: Invalid value: -1: f in body should be greater than or equal to 0"],
        ),
        (
            json!({"type": "integer", "maximum": 5, "exclusiveMaximum": true}),
            json!(5),
            vec!["f: Invalid value: 5: f in body should be less than 5"],
        ),
        (
            json!({"type": "integer", "multipleOf": 2}),
            json!(3),
            vec!["f: Invalid value: 3: f in body should be a multiple of 2"],
        ),
        (json!({"type": "number", "multipleOf": 0.1}), json!(0.3), vec![]),
        (json!({"type": "number", "multipleOf": 0.1}), json!(-0.5), vec![]),
        (
            json!({"type": "number", "multipleOf": 0.1}),
            json!(0.35),
            vec!["f: Invalid value: 0.35: f in body should be a multiple of 0.1"],
        ),
        (
            json!({"type": "number", "multipleOf": 0.5}),
            json!(3),
            vec!["f: Invalid value: 3: factor MultipleOf declared for f must be positive: 0"],
        ),
        (
            json!({"type": "integer", "format": "int32"}),
            json!(3_000_000_000_i64),
            vec!["<nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in f"],
        ),
        (
            json!({"type": "string", "format": "date-time"}),
            json!("x"),
            vec!["f: Invalid value: \"x\": f in body must be of type date-time: \"x\""],
        ),
        (json!({"type": "string", "format": "zap"}), json!("x"), vec![]),
        (
            json!({"type": "array", "items": {"type": "string"}, "maxItems": 1}),
            json!(["a", "b"]),
            vec!["f: Too many: 2: must have at most 1 item"],
        ),
        (
            json!({"type": "array", "items": {"type": "string"}, "minItems": 1}),
            json!([]),
            vec!["f: Invalid value: 0: f in body should have at least 1 items"],
        ),
        (
            json!({"type": "object", "minProperties": 1}),
            json!({}),
            vec!["f: Invalid value: 0: f in body should have at least 1 properties"],
        ),
        (
            json!({"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}}),
            json!([{"a": "x"}, {"a": 1}]),
            vec!["f[1].a: Invalid value: \"integer\": f[1].a in body must be of type string: \"integer\""],
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            json!({"k": true}),
            vec!["f.k: Invalid value: \"boolean\": f.k in body must be of type string: \"boolean\""],
        ),
        (set, json!(["a", "a"]), vec!["f[1]: Duplicate value: \"a\""]),
        (map, json!([{"k": "1"}, {"k": "2"}, {"k": "1"}]), vec!["f[2]: Duplicate value: {\"k\":\"1\"}"]),
        (int_or_string.clone(), json!(1), vec![]),
        (int_or_string.clone(), json!("25%"), vec![]),
        (
            int_or_string,
            json!(true),
            vec!["f: Invalid value: \"boolean\": f in body must be of type integer,string: \"boolean\""],
        ),
        (
            json!({"type": "string", "oneOf": [{"pattern": "a"}, {"pattern": "b"}]}),
            json!("ab"),
            vec![
                "<nil>: Invalid value: \"\": \"f\" must validate one and only one schema (oneOf). Found 2 valid alternatives",
            ],
        ),
        (
            json!({"type": "string", "not": {"enum": ["x"]}}),
            json!("x"),
            vec!["<nil>: Invalid value: \"\": \"f\" must not validate the schema (not)"],
        ),
        (
            json!({"type": "string", "anyOf": [{"enum": ["x"]}, {"minLength": 3}]}),
            json!("y"),
            vec![
                "<nil>: Invalid value: \"\": \"f\" must validate at least one schema (anyOf)",
                "f: Unsupported value: \"y\": supported values: \"x\"",
            ],
        ),
    ] {
        let found: Vec<String> =
            field(&node).validate(&json!({"f": value}), None).iter().map(Cause::to_string).collect();
        assert_eq!(found, complaints, "{node} {value}");
    }
}

#[test]
fn what_did_not_change_is_not_complained_about() {
    let things = schema(&json!({"spec": {"type": "object", "properties": {
        "s": {"type": "string", "maxLength": 1},
        "l": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "required": ["k"], "properties": {
                "k": {"type": "string"}, "v": {"type": "string", "maxLength": 1}, "w": {"type": "string"},
            }}},
    }}}));
    let old = json!({"spec": {"s": "long", "l": [{"k": "1", "v": "long"}, {"k": "2", "v": "x"}]}});
    for (new, fields) in [
        (json!({"metadata": {"labels": {"a": "b"}}, "spec": old["spec"]}), vec![]),
        (
            json!({"spec": {"s": "long", "l": [{"k": "2", "v": "y"}, {"k": "1", "v": "long", "w": "new"}]}}),
            vec![],
        ),
        (json!({"spec": {"s": "longer", "l": [{"k": "2", "v": "long"}]}}), vec!["spec.l[0].v", "spec.s"]),
    ] {
        let mut found: Vec<String> = things.validate(&new, Some(&old)).into_iter().map(|c| c.field).collect();
        found.sort();
        assert_eq!(found, fields, "{new}");
    }
    assert_eq!(things.validate(&old, None).len(), 2);
}

#[test]
fn rules_run_when_the_schema_is_satisfied() {
    let things = schema(&json!({"spec": {"type": "object", "required": ["min"], "properties": {
        "min": {"type": "integer"}, "max": {"type": "integer"},
        "args": {"type": "array", "maxItems": 9, "items": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}}},
            "x-kubernetes-validations": [
                {"rule": "self.all(x, self.exists_one(y, x.name == y.name))", "message": "names must be unique"}]},
        "fixed": {"type": "string", "maxLength": 9, "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is immutable"}]},
    }, "x-kubernetes-validations": [
        {"rule": "!has(self.max) || self.min <= self.max", "message": "min must not be above max", "fieldPath": ".min"},
    ]}}));
    let told = |new: &Value, old: Option<&Value>| -> Vec<String> {
        things.validate(new, old).iter().map(Cause::to_string).collect()
    };
    assert_eq!(told(&json!({"spec": {"min": 1, "max": 2}}), None), Vec::<String>::new());
    let found = told(&json!({"spec": {"min": 3, "max": 2}}), None);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("spec") && found[0].ends_with("min must not be above max"), "{found:?}");
    let twice = json!({"spec": {"min": 1, "args": [{"name": "a"}, {"name": "a"}]}});
    assert_eq!(told(&twice, None), ["spec.args: Invalid value: names must be unique"]);
    let (before, after) =
        (json!({"spec": {"min": 1, "fixed": "a"}}), json!({"spec": {"min": 1, "fixed": "b"}}));
    assert_eq!(told(&before, None), Vec::<String>::new());
    assert_eq!(told(&after, Some(&before)), ["spec.fixed: Invalid value: \"b\": is immutable"]);
    let blocked = told(&json!({"spec": {"max": 2}}), None);
    assert_eq!(blocked.len(), 2);
    assert!(blocked[1].starts_with("<nil>: Invalid value: null: some validation rules were not checked"));
}

#[test]
fn schemas_that_are_not_structural() {
    for (schema, field) in [
        (json!({"type": "string"}), "s.type"),
        (json!({}), "s.type"),
        (json!({"type": "object", "properties": {"a": {}}}), "s.properties[a].type"),
        (json!({"type": "object", "properties": {"a": {"type": "zap"}}}), "s.properties[a].type"),
        (json!({"type": "object", "properties": {"a": {"type": "array"}}}), "s.properties[a].items"),
        (
            json!({"type": "object", "properties": {"a": {"type": "array", "items": {}}}}),
            "s.properties[a].items.type",
        ),
        (json!({"type": "object", "$ref": "#/x"}), "s.$ref"),
        (json!({"type": "object", "nullable": true}), "s.nullable"),
        (
            json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}),
            "s.properties[a].pattern",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string", "default": 1}}}),
            "s.properties[a].default",
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "map"}}}),
            "s.properties[a].x-kubernetes-list-map-keys",
        ),
        (
            json!({"type": "object", "x-kubernetes-validations": [{"rule": "self.("}]}),
            "s.x-kubernetes-validations[0].rule",
        ),
    ] {
        let causes = Schema::custom("K", "v1", &schema, "s").expect_err("not structural");
        assert_eq!(causes[0].field, field, "{schema}");
    }
}

#[test]
fn defaults_are_judged_where_upstream_judges_them() {
    let wrong = json!({"type": "string", "default": 1});
    let unknown = json!({"type": "object", "properties": {"a": {"type": "string"}}, "default": {"b": 1}});
    let broken = json!({"type": "integer", "default": 0, "x-kubernetes-validations": [{"rule": "self > 0"}]});
    for (field, expected) in [
        (wrong.clone(), Some("s.properties[f].default")),
        (unknown, Some("s.properties[f].default")),
        (json!({"type": "array", "items": wrong}), Some("s.properties[f].items.default")),
        (json!({"type": "array", "maxItems": 5, "items": broken}), Some("s.properties[f].items.default")),
        (json!({"type": "object", "additionalProperties": wrong}), None),
        (json!({"type": "object", "maxProperties": 5, "additionalProperties": broken}), None),
    ] {
        let schema = json!({"type": "object", "properties": {"f": field}});
        let causes = Schema::custom("K", "v1", &schema, "s").err().unwrap_or_default();
        assert_eq!(causes.first().map(|cause| cause.field.as_str()), expected, "{schema}");
    }
}

#[test]
fn built_in_kinds_are_decoded_strictly() {
    let decoded = |group: &str, kind: &str, mut object: Value| {
        let unknown = native::schema(group, "v1", kind).expect(kind).decode(&mut object)?;
        Ok::<_, Failure>((object, unknown))
    };
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "n", "creationTimestamp": null},
        "data": {"a": "b"}, "zap": 1});
    let (object, unknown) = decoded("", "ConfigMap", map).expect("decodes");
    assert_eq!(unknown, ["zap"]);
    assert_eq!(
        object,
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "n"}, "data": {"a": "b"}})
    );
    let failure =
        decoded("", "ConfigMap", json!({"metadata": {"name": "n"}, "data": {"a": 1}})).expect_err("a number");
    assert_eq!(
        (failure.code(), failure.message.as_str()),
        (
            400,
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct \
             field ConfigMap.data.a of type string"
        )
    );
    let lease = json!({"metadata": {"name": "n"}, "spec": {"renewTime": "2026-11-20T10:00:00.000000Z", "leaseDurationSeconds": 15}});
    assert!(decoded("coordination.k8s.io", "Lease", lease).is_ok());
    let lease = json!({"metadata": {"name": "n"}, "spec": {"renewTime": "yesterday"}});
    assert!(decoded("coordination.k8s.io", "Lease", lease).is_err());
    let node = json!({"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "2", "pods": 110}}});
    assert_eq!(decoded("", "Node", node).expect("decodes").1, Vec::<String>::new());
    let fields =
        json!({"metadata": {"name": "n", "managedFields": [{"manager": "m", "fieldsV1": {"f:data": {}}}]}});
    assert_eq!(decoded("", "Secret", fields.clone()).expect("decodes").0, fields);
    let mut wrong = json!({"metadata": {"name": "n", "labels": {"a": true}}});
    let failure = field(&json!({"type": "string"})).decode(&mut wrong).expect_err("metadata is typed");
    assert!(failure.message.contains("Thing.metadata.labels.a of type string"), "{failure}");
}

#[test]
fn definitions_are_checked() {
    let good = json!({
        "metadata": {"name": "things.g.io"},
        "spec": {
            "group": "g.io", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
                "additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".spec.a"}],
                "subresources": {"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}}],
        },
    });
    let checked = |pointer: &str, value: Value| -> Vec<String> {
        let mut definition = good.clone();
        if let Some(slot) = definition.pointer_mut(pointer) {
            *slot = value;
        }
        crd::default(&mut definition);
        crd::check(&definition, None).into_iter().map(|cause| cause.field).collect()
    };
    assert_eq!(checked("/none", Value::Null), Vec::<String>::new());
    let version = "/spec/versions/0";
    for (pointer, value, field) in [
        ("/metadata/name".to_owned(), json!("other"), "metadata.name"),
        ("/spec/scope".to_owned(), json!("Everywhere"), "spec.scope"),
        ("/spec/versions".to_owned(), json!([]), "spec.versions"),
        (format!("{version}/storage"), json!(false), "spec.versions"),
        (format!("{version}/name"), json!("V 1"), "spec.versions[0].name"),
        (format!("{version}/schema"), json!({}), "spec.versions[0].schema.openAPIV3Schema"),
        (
            format!("{version}/schema/openAPIV3Schema"),
            json!({"type": "string"}),
            "spec.validation.openAPIV3Schema.type",
        ),
        (
            format!("{version}/additionalPrinterColumns/0/jsonPath"),
            json!("spec"),
            "spec.additionalPrinterColumns[0].JSONPath",
        ),
        (
            format!("{version}/subresources/scale/specReplicasPath"),
            json!(".status.a"),
            "spec.subresources.scale.specReplicasPath",
        ),
        ("/spec/names/kind".to_owned(), json!(""), "spec.names.kind"),
    ] {
        assert!(checked(&pointer, value).iter().any(|found| found == field), "{pointer}");
    }
    let mut old = good.clone();
    crd::default(&mut old);
    let mut new = old.clone();
    new["spec"]["names"]["plural"] = json!("stuff");
    assert!(crd::check(&new, Some(&old)).iter().any(|cause| cause.field == "spec.names.plural"));
}

/// Arbitrary JSON over a small alphabet.
fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from),
        prop::sample::select(vec!["object", "array", "string", "self", "map"]).prop_map(Value::from),
    ];
    let key = prop::sample::select(vec![
        "type",
        "properties",
        "items",
        "default",
        "required",
        "enum",
        "allOf",
        "not",
        "a",
        "metadata",
        "additionalProperties",
        "nullable",
        "pattern",
        "x-kubernetes-list-type",
        "x-kubernetes-validations",
        "rule",
    ]);
    leaf.prop_recursive(5, 40, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(key.clone().prop_map(str::to_owned), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn garbage_never_panics(mut schema in anything(), mut object in anything()) {
        if let Some(map) = schema.as_object_mut() {
            map.insert("type".to_owned(), json!("object"));
        }
        if let Ok(schema) = Schema::custom("K", "v1", &schema, "s")
            && schema.decode(&mut object).is_ok()
        {
            let _ = schema.validate(&object, None);
            let mut again = object.clone();
            prop_assert_eq!(schema.decode(&mut again), Ok(Vec::new()), "decoding is done once and for all");
            prop_assert_eq!(&again, &object);
        }
        let _ = crd::check(&json!({"spec": object}), None);
    }
}
