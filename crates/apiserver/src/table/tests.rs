//! Rows as kubectl users know them.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn now() -> Timestamp {
    capstan_base::time::parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment")
}

fn cells(columns: &Columns, object: &Value) -> Vec<Value> {
    let mut out = Vec::new();
    columns
        .row(object.to_string().as_bytes(), Include::Nothing, now(), &mut Budget::default(), &mut out)
        .expect("a row");
    let row: Value = serde_json::from_slice(&out).expect("JSON");
    row["cells"].as_array().expect("cells").clone()
}

#[test]
fn declared_columns() {
    let columns = Columns::custom(&json!({"additionalPrinterColumns": [
        {"name": "Cluster", "type": "string", "jsonPath": ".spec.clusterName"},
        {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas", "priority": 10},
        {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
        {"name": "Paused", "type": "boolean", "jsonPath": ".spec.paused"},
        {"name": "Labels", "type": "string", "jsonPath": ".metadata.labels"},
        {"name": "Status", "type": "string", "jsonPath": ".status"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]}));
    let object = json!({
        "metadata": {"name": "m", "labels": {"a": "b"}, "creationTimestamp": "2026-11-20T09:57:57Z"},
        "spec": {"clusterName": "c", "replicas": 3.7, "paused": "yes"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    });
    assert_eq!(
        cells(&columns, &object),
        [
            json!("m"),
            json!("c"),
            json!(3),
            json!("True"),
            Value::Null,
            json!("{\"a\":\"b\"}"),
            json!("{\"conditions\":[{\"status\":\"True\",\"type\":\"Ready\"}]}"),
            json!("2m3s"),
        ]
    );
    let bare = json!({"metadata": {"name": "m"}, "spec": []});
    assert_eq!(cells(&columns, &bare)[1..], vec![Value::Null; 7]);
    let definitions: Value = serde_json::from_str(columns.definitions()).expect("JSON");
    assert_eq!(definitions[0]["format"], "name");
    assert_eq!(definitions[2]["priority"], 10);
    assert_eq!(
        definitions[1]["description"],
        "Custom resource definition column (in JSONPath format): .spec.clusterName"
    );
}

/// What upstream's `tableconvertor` (v0.36) printed for these values, by hand, in a column of each type.
#[test]
fn odd_values_have_upstreams_cells() {
    const TYPES: [&str; 5] = ["string", "integer", "number", "boolean", "date"];
    let of = |path: &str| TYPES.map(|type_| json!({"name": type_, "type": type_, "jsonPath": path}));
    let none = Value::Null;
    let spec = |value: &Value| json!({"v": value});
    for (path, spec, expected) in [
        (".spec.v", spec(&json!("3")), json!(["3", none, none, none, "<invalid>"])),
        (".spec.v", spec(&json!("true")), json!(["true", none, none, none, "<invalid>"])),
        (".spec.v", spec(&json!("")), json!(["", none, none, none, "<unknown>"])),
        (".spec.v", spec(&json!("null")), json!(["null", none, none, none, "<unknown>"])),
        (".spec.v", spec(&json!("a\nb")), json!(["a\nb", none, none, none, "<invalid>"])),
        (".spec.v", spec(&json!(3)), json!(["3", 3, 3, none, none])),
        (".spec.v", spec(&json!(-3.7)), json!(["-3.7", -3, -3.7, none, none])),
        (".spec.v", spec(&json!(1e-7)), json!(["1e-07", 0, 1e-7, none, none])),
        (".spec.v", spec(&json!(1e21)), json!(["1e+21", i64::MIN, 1e21, none, none])),
        (".spec.v", spec(&json!(false)), json!(["false", none, none, false, none])),
        (".spec.v", spec(&none), json!(["<no value>", none, none, none, none])),
        (".spec.v", spec(&json!([])), json!(["[]", none, none, none, none])),
        (
            ".spec.v",
            spec(&json!([1, "a", none, 2.5, true, [1]])),
            json!(["[1,\"a\",null,2.5,true,[1]]", none, none, none, none]),
        ),
        (
            ".spec.v",
            spec(&json!({"b": 1, "a": "<"})),
            json!(["{\"a\":\"\\u003c\",\"b\":1}", none, none, none, none]),
        ),
        (
            ".spec.v",
            spec(&json!("2026-11-20T09:00:00Z")),
            json!(["2026-11-20T09:00:00Z", none, none, none, "60m"]),
        ),
        (
            ".spec.v",
            spec(&json!("2999-01-01T00:00:00Z")),
            json!(["2999-01-01T00:00:00Z", none, none, none, "<invalid>"]),
        ),
        (".spec.v[*]", spec(&json!([2, 3])), json!(["2", 2, 2, none, none])),
        (".spec.v[0][1]", spec(&json!([[1, 2]])), json!(["2", 2, 2, none, none])),
        (".spec.v[5]", spec(&json!([1])), json!([none, none, none, none, none])),
        (".spec.v.deeper", spec(&json!("x")), json!([none, none, none, none, none])),
        (
            ".spec.v[?(@.n>1)].t",
            spec(&json!([{"n": 1, "t": "a"}, {"t": "b"}, {"n": 2, "t": "c"}])),
            json!(["c", none, none, none, "<invalid>"]),
        ),
        (
            ".spec.v[?(@.n==1)].t",
            spec(&json!([{"n": "1", "t": "a"}, {"n": 1, "t": "b"}])),
            json!([none, none, none, none, none]),
        ),
        (
            ".spec.v[?(@.t==\"R\")].s",
            spec(&json!([{"t": "R", "s": none}])),
            json!(["<no value>", none, none, none, none]),
        ),
        (
            ".spec.v[?(@.t==\"R\")].s",
            spec(&json!([{"t": "R", "s": true}])),
            json!(["true", none, none, true, none]),
        ),
    ] {
        let columns = Columns::custom(&json!({"additionalPrinterColumns": of(path)}));
        let object = json!({"metadata": {"name": "m"}, "spec": spec});
        assert_eq!(Value::Array(cells(&columns, &object)[1..].to_vec()), expected, "{path} of {spec}");
    }
}

#[test]
fn a_path_that_leads_anywhere_hides_no_other_cell() {
    let column = |path: &str| json!({"name": path, "type": "string", "jsonPath": path});
    let columns =
        Columns::custom(&json!({"additionalPrinterColumns": [column("..leaf"), column(".spec.a")]}));
    let object = json!({"metadata": {"name": "m"}, "spec": {"a": "b", "deep": {"leaf": "c"}}});
    assert_eq!(cells(&columns, &object), [json!("m"), json!("c"), json!("b")]);
}

#[test]
fn without_columns_there_is_an_age() {
    let columns = Columns::custom(&json!({}));
    let object = json!({"metadata": {"name": "m", "creationTimestamp": "2026-11-19T10:00:00Z"}});
    assert_eq!(cells(&columns, &object), [json!("m"), json!("24h")]);
}

#[test]
fn built_in_kinds() {
    let meta = json!({"name": "n", "creationTimestamp": "2026-11-20T09:00:00Z"});
    let with = |extra: Value| {
        let mut object = json!({"metadata": meta});
        object.as_object_mut().expect("a map").extend(extra.as_object().expect("a map").clone());
        object
    };
    for (group, kind, object, expected) in [
        ("", "Namespace", with(json!({"status": {"phase": "Active"}})), json!(["n", "Active", "60m"])),
        (
            "",
            "ConfigMap",
            with(json!({"data": {"a": "", "b": ""}, "binaryData": {"c": ""}})),
            json!(["n", 3, "60m"]),
        ),
        ("", "Secret", with(json!({"type": "Opaque", "data": {"a": "x"}})), json!(["n", "Opaque", 1, "60m"])),
        (
            "coordination.k8s.io",
            "Lease",
            with(json!({"spec": {"holderIdentity": "me"}})),
            json!(["n", "me", "60m"]),
        ),
        (
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            with(json!({})),
            json!(["n", "2026-11-20T09:00:00Z"]),
        ),
        (
            "",
            "Node",
            json!({
                "metadata": {
                    "name": "n", "creationTimestamp": "2026-11-20T09:00:00Z",
                    "labels": {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/control-plane": ""},
                },
                "spec": {"unschedulable": true},
                "status": {
                    "conditions": [{"type": "Ready", "status": "True"}],
                    "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
                    "nodeInfo": {"kubeletVersion": "v1.35.0"},
                },
            }),
            json!([
                "n",
                "Ready,SchedulingDisabled",
                "control-plane,worker",
                "60m",
                "v1.35.0",
                "10.0.0.1",
                "<none>",
                "<unknown>",
                "<unknown>",
                "<unknown>"
            ]),
        ),
        (
            "",
            "Event",
            with(json!({
                "type": "Normal", "reason": "Made", "message": " text \n", "eventTime": "2026-11-20T09:59:50Z",
                "involvedObject": {"kind": "Machine", "name": "m"}, "reportingComponent": "capstan",
            })),
            json!(["10s", "Normal", "Made", "machine/m", "", "capstan", "text", "10s", 1, "n"]),
        ),
        (
            "events.k8s.io",
            "Event",
            with(json!({
                "type": "Warning", "reason": "Bad", "note": "text", "deprecatedFirstTimestamp": "2026-11-20T09:59:50Z",
                "series": {"count": 4, "lastObservedTime": "2026-11-20T09:59:58.000000Z"}, "regarding": {"kind": "Machine"},
            })),
            json!(["2s", "Warning", "Bad", "machine", "", "", "text", "10s", 4, "n"]),
        ),
    ] {
        assert_eq!(Value::Array(cells(&Columns::native(group, kind), &object)), expected, "{kind}");
    }
}

#[test]
fn costly_columns_are_given_up_and_the_others_shown() {
    let path = "..a".repeat(50);
    let costly = |type_: &str| json!({"name": "C", "type": type_, "jsonPath": path});
    let plain = json!({"name": "P", "type": "integer", "jsonPath": ".spec.p"});
    let columns = Columns::custom(&json!({
        "additionalPrinterColumns": [plain, costly("string"), costly("integer")],
    }));
    let nested = (0..60).fold(json!(1), |below, _| json!({"a": below}));
    let object = json!({"metadata": {"name": "n"}, "spec": {"p": 7, "a": nested}}).to_string();
    let mut budget = Budget::default();
    let mut rows = Vec::new();
    for _ in 0..3 {
        let left = budget.0;
        rows.clear();
        columns.row(object.as_bytes(), Include::Nothing, now(), &mut budget, &mut rows).expect("a row");
        assert_eq!(left - budget.0, ROW_VISITS_MAX);
    }
    assert_eq!(
        String::from_utf8(rows).expect("text"),
        r#"{"cells":["n",7,"<too many>",null],"object":null}"#
    );
}

#[test]
fn rows_carry_what_was_asked_for() {
    let columns = Columns::native("", "ConfigMap");
    let object = br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"n","uid":"u"},"data":{}}"#;
    for (include, expected) in [
        (Include::Nothing, Value::Null),
        (
            Include::Metadata,
            json!({
                "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                "metadata": {"name": "n", "uid": "u"},
            }),
        ),
        (Include::Object, serde_json::from_slice(object).expect("JSON")),
    ] {
        let mut row = Vec::new();
        columns.row(object, include, now(), &mut Budget::default(), &mut row).expect("a row");
        let table: Value =
            serde_json::from_slice(&document(Some(&columns), r#"{"resourceVersion":"7"}"#, &row))
                .expect("JSON");
        assert_eq!(table["rows"][0]["object"], expected);
        assert_eq!(table["metadata"]["resourceVersion"], "7");
        assert_eq!(table["columnDefinitions"][1]["name"], "Data");
    }
}

#[test]
fn wanted_parts_include_each_other() {
    // `.status` as a whole must survive `.status.phase` before and after it.
    let column = |path: &str| json!({"name": path, "type": "string", "jsonPath": path});
    let object = json!({"metadata": {"name": "n"}, "status": {"phase": "p", "x": "y"}});
    for paths in [[".status", ".status.phase"], [".status.phase", ".status"]] {
        let columns = Columns::custom(&json!({"additionalPrinterColumns": paths.map(column)}));
        let mut found = cells(&columns, &object).split_off(1);
        found.sort_by_key(Value::to_string);
        assert_eq!(found, [json!("p"), json!("{\"phase\":\"p\",\"x\":\"y\"}")]);
    }
}

proptest! {
    #[test]
    fn garbage_never_panics(text in "[\\[\\]{}\":,metadata0-9]{0,40}") {
        let mut out = Vec::new();
        let _ = Columns::native("", "Node").row(text.as_bytes(), Include::Metadata, now(), &mut Budget::default(), &mut out);
    }
}
