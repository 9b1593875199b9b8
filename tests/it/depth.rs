//! What a client shapes and the server reads by recursion: 100,000 terms of each, one in the other and in a row, on the
//! stack that a thread of the server has. A stack that ends ends the tests, and its message names the thread.

use http::Method;
use serde_json::{Value, json};

use super::conformance::{
    APPLY, Ask, DEFINITIONS, JSON, JSON_PATCH, MAPS, MERGE, PROTOBUF, STRATEGIC, Site, THINGS, YAML,
    config_map, thing,
};

const STACK_BYTES: usize = 2 << 20;
const TERMS: usize = 100_000;
/// As many as fit into the URI of a request.
const TERMS_OF_URI: usize = 20_000;

/// A definition of widgets: its schema, and what else its version says.
fn widgets(schema: &Value, more: &Value) -> Value {
    let mut version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    for (key, value) in more.as_object().expect("fields") {
        version[key] = value.clone();
    }
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.io"},
        "spec": {"group": "example.io", "scope": "Namespaced", "versions": [version],
            "names": {"kind": "Widget", "plural": "widgets"}}})
}

fn ruled(rule: &Value) -> Value {
    widgets(
        &json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"n": {"type": "integer"}},
            "x-kubernetes-validations": [rule]}}}),
        &json!({}),
    )
}

fn patterned(pattern: &str) -> Value {
    let field = json!({"type": "string", "pattern": pattern});
    widgets(&json!({"type": "object", "properties": {"a": field}}), &json!({}))
}

fn column(path: &str) -> Value {
    let column = json!({"name": "A", "type": "string", "jsonPath": path});
    widgets(&json!({"type": "object"}), &json!({"additionalPrinterColumns": [column]}))
}

/// `{"a": {"a": … 1}}` with another name for `a`.
fn nested(name: &str) -> String {
    format!("{}1{}", format!("{{\"{name}\":").repeat(TERMS), "}".repeat(TERMS))
}

/// Each with the answers that may come.
fn definitions() -> Vec<(&'static str, Ask, &'static [u16])> {
    let post = |definition: &Value| Ask::post(DEFINITIONS, definition);
    let text = |open: &str, middle: &str, close: &str| {
        format!("{}{middle}{}", open.repeat(TERMS), close.repeat(TERMS))
    };
    let sum = format!("self.n{} > 0", " + self.n".repeat(9_000));
    let sum_of_texts = format!("'a'{}", " + 'a'".repeat(9_000));
    let path = ".a".repeat(TERMS);
    let scale = json!({"subresources": {"scale": {"specReplicasPath": format!(".spec{path}"),
        "statusReplicasPath": format!(".status{path}"), "labelSelectorPath": format!(".status{path}")}}});
    let schema = |inner: &str| {
        let whole = widgets(&json!("SCHEMA"), &json!({})).to_string();
        Ask::new(Method::POST, DEFINITIONS).body(JSON, whole.replace("\"SCHEMA\"", inner))
    };
    let object = json!({"type": "object"});
    vec![
        ("rule", post(&ruled(&json!({"rule": sum}))), &[422]),
        ("message", post(&ruled(&json!({"rule": "true", "messageExpression": sum_of_texts}))), &[422]),
        ("fieldPath", post(&ruled(&json!({"rule": "true", "fieldPath": path}))), &[422]),
        ("groups", post(&patterned(&text("(", "a", ")"))), &[422]),
        ("unclosed groups", post(&patterned(&text("(", "a", ""))), &[422]),
        ("repetitions", post(&patterned(&text("", "a", "?"))), &[422]),
        ("alternatives", post(&patterned(&text("a|", "a", ""))), &[201, 422]),
        ("classes", post(&patterned(&text("[a-", "", "]"))), &[422]),
        ("column", post(&column(&path)), &[201]),
        ("indices", post(&column(&format!(".a{}", "[0]".repeat(TERMS)))), &[201]),
        ("descents", post(&column(&"..a".repeat(TERMS))), &[201]),
        ("union", post(&column(&format!(".a[0{}]", ",0".repeat(TERMS)))), &[201]),
        ("filters", post(&column(&text(".a[?(@", "", ")]"))), &[201]),
        ("selectable", post(&widgets(&object, &json!({"selectableFields": [{"jsonPath": path}]}))), &[422]),
        ("scale", post(&widgets(&object, &scale)), &[201, 422]),
        ("properties", schema(&nested("properties")), &[400]),
        ("items", schema(&nested("items")), &[400]),
        ("branches", schema(&format!("{}1{}", "{\"allOf\":[".repeat(TERMS), "]}".repeat(TERMS))), &[400]),
    ]
}

fn requests() -> Vec<(&'static str, Ask, &'static [u16])> {
    let one = format!("{MAPS}/one");
    let pointer = "/a".repeat(TERMS);
    let patch = |operation: Value| Ask::patch(&one, JSON_PATCH, &json!([operation]));
    let body = |method, path: &str, kind: &str, text: String| Ask::new(method, path).body(kind, text);
    let blocks: String = (0..2_000).map(|n| format!("{}a:\n", " ".repeat(n))).collect();
    let nested_bytes = |levels: usize| {
        let mut message = Vec::new();
        for _ in 0..levels {
            let mut length = message.len();
            let mut outer = vec![0x0a];
            while length >= 0x80 {
                outer.push(u8::try_from(length & 0x7f).expect("seven bits") | 0x80);
                length >>= 7;
            }
            outer.push(u8::try_from(length).expect("seven bits"));
            outer.extend(message);
            message = outer;
        }
        [b"k8s\0".as_slice(), &message].concat()
    };
    let apply = format!("{one}?fieldManager=x&force=true");
    let list = |query: String| Ask::get(&format!("{MAPS}?{query}"));
    vec![
        ("add", patch(json!({"op": "add", "path": pointer, "value": 1})), &[422]),
        ("test", patch(json!({"op": "test", "path": pointer, "value": 1})), &[422]),
        ("copy", patch(json!({"op": "copy", "from": pointer, "path": "/data/b"})), &[422]),
        ("move", patch(json!({"op": "move", "from": "/data", "path": pointer})), &[422]),
        ("merge", body(Method::PATCH, &one, MERGE, nested("data")), &[400]),
        ("strategic", body(Method::PATCH, &one, STRATEGIC, nested("data")), &[400]),
        ("apply", body(Method::PATCH, &apply, APPLY, nested("data")), &[400]),
        ("apply of blocks", body(Method::PATCH, &apply, APPLY, blocks.clone()), &[400]),
        ("object", body(Method::POST, MAPS, JSON, nested("data")), &[400]),
        (
            "lists",
            body(Method::POST, MAPS, JSON, format!("{}{}", "[".repeat(TERMS), "]".repeat(TERMS))),
            &[400],
        ),
        ("blocks", body(Method::POST, MAPS, YAML, blocks), &[400]),
        ("flow", body(Method::POST, MAPS, YAML, nested("data")), &[400]),
        ("protobuf", Ask::new(Method::POST, MAPS).body(PROTOBUF, nested_bytes(2_000)), &[400]),
        ("owners", body(Method::POST, MAPS, JSON, nested("metadata")), &[400]),
        ("labels", list(format!("labelSelector=a{}", ",a".repeat(TERMS_OF_URI))), &[200]),
        ("values", list(format!("labelSelector=a%20in%20(a{})", ",a".repeat(TERMS_OF_URI))), &[200]),
        ("signs", list(format!("labelSelector={}", "!".repeat(TERMS_OF_URI))), &[400]),
        ("fields", list(format!("fieldSelector=type%3D1{}", ",".repeat(TERMS_OF_URI))), &[400]),
        ("continue", list(format!("continue={}", "W1tb".repeat(TERMS_OF_URI / 2))), &[400]),
        ("proxy", Ask::get(&format!("/api/v1{}", "/a".repeat(TERMS_OF_URI))), &[404]),
    ]
}

/// Sends it on a thread of its own name; a thread of a runtime with small stacks serves it.
fn answered(site: &Site, name: &str, ask: Ask) -> (u16, String) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name(name)
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build()
        .expect("a runtime");
    let site = site.clone();
    let answer = runtime.block_on(async { tokio::spawn(async move { site.send(ask).await }).await });
    let answer = answer.expect("no panic");
    (answer.code, answer.text())
}

#[test]
fn one_rule_in_a_definition_ended_the_process_and_nothing_of_its_kind_does() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let site = runtime.block_on(async {
        let site = Site::open().await;
        site.made(MAPS, &config_map("one", json!({"a": "1"}))).await;
        site.made(THINGS, &thing("one", json!({}))).await;
        site
    });
    let said = |name: &str, ask: Ask, expected: &[u16]| {
        let (code, answer) = answered(&site, name, ask);
        let shown: String = answer.chars().take(300).collect();
        assert!(expected.contains(&code), "{name}: {code} {shown}");
        (code, answer)
    };
    for (name, ask, expected) in definitions() {
        let (code, answer) = said(name, ask, expected);
        if matches!(name, "rule" | "message") {
            assert!(answer.contains("expression recursion limit exceeded: 250"), "{name}");
        }
        if code != 201 {
            continue;
        }
        let widget =
            json!({"apiVersion": "example.io/v1", "kind": "Widget", "metadata": {"name": "w"}, "a": "a"});
        let widgets = THINGS.replace("things", "widgets");
        said(name, Ask::post(&widgets, &widget), &[201, 422]);
        let table = Ask::get(&widgets).accept("application/json;as=Table;v=v1;g=meta.k8s.io");
        said(name, table, &[200]);
        said(name, Ask::get(&format!("{widgets}/w/scale")), &[200, 404, 500]);
        said(name, Ask::delete(&format!("{DEFINITIONS}/widgets.example.io")), &[200]);
        runtime.block_on(site.until_gone(&format!("{DEFINITIONS}/widgets.example.io")));
    }
    for (name, ask, expected) in requests() {
        said(name, ask, expected);
    }
}
