//! Small requests that ask for a lot: of depth, of memory, of time. Each is a few requests, the last of which bursts
//! if the server lets it.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use super::request::Request;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MAP: &str = "/api/v1/namespaces/default/configmaps/bomb";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const JSON: &str = "application/json";
const YAML: &str = "application/yaml";

pub struct Bomb {
    pub name: &'static str,
    pub requests: Vec<Request>,
}

fn bomb(name: &'static str, requests: Vec<Request>) -> Bomb {
    Bomb { name, requests }
}

fn post(body: impl Into<Vec<u8>>) -> Request {
    Request::new("POST", MAPS, JSON, body.into())
}

fn map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "a": "b" } })
}

/// Two hundred times its size when unpacked.
fn gzip_bomb() -> Request {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(&vec![b' '; 64 * 1024 * 1024]).expect("packed");
    let mut request = post(packed.finish().expect("packed"));
    request.headers.push(("Content-Encoding".to_owned(), "gzip".to_owned()));
    request
}

fn nested(open: &str, close: &str, depth: usize) -> String {
    format!("{}1{}", open.repeat(depth), close.repeat(depth))
}

/// Nine levels of nine references each.
fn alias_bomb() -> String {
    let mut text =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bomb}\na0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for level in 1..10 {
        let below = format!("*a{}", level - 1);
        text.push_str(&format!("a{level}: &a{level} [{}]\n", [below.as_str(); 9].join(",")));
    }
    text + "data: *a9\n"
}

/// Copies a value into itself again and again.
fn copy_bomb() -> Value {
    let copy = |n: usize| json!({ "op": "copy", "from": "/metadata", "path": format!("/metadata/x{n}") });
    (0..40).map(copy).collect()
}

fn definition(kind: &str, schema: &Value) -> Request {
    let plural = format!("{}s", kind.to_lowercase());
    let body = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.bomb.example.com") },
        "spec": {
            "group": "bomb.example.com", "scope": "Namespaced", "names": { "plural": plural, "kind": kind },
            "versions": [{ "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": schema } } } }],
        },
    });
    Request::new("POST", DEFINITIONS, JSON, body.to_string().into_bytes())
}

fn custom(kind: &str, spec: &Value) -> Request {
    let body = json!({
        "apiVersion": "bomb.example.com/v1", "kind": kind, "metadata": { "name": "bomb" }, "spec": spec,
    });
    let target = format!("/apis/bomb.example.com/v1/namespaces/default/{}s", kind.to_lowercase());
    Request::new("POST", &target, JSON, body.to_string().into_bytes())
}

/// A definition whose schema is as deep as that; as text, since making it as a value takes a stack of its own.
fn deep_definition(kind: &str, depth: usize) -> Request {
    let mut request = definition(kind, &"DEEP".into());
    let schema = format!(
        "{}{{\"type\":\"string\"}}{}",
        "{\"type\":\"object\",\"properties\":{\"a\":".repeat(depth),
        "}}".repeat(depth)
    );
    let text = String::from_utf8(request.body).expect("text").replace("\"DEEP\"", &schema);
    request.body = text.into_bytes();
    request
}

/// Patterns that some engines need for ever for.
fn patterns() -> Vec<Request> {
    let string = |pattern: &str| json!({ "type": "object", "properties": { "a": { "type": "string", "pattern": pattern } } });
    let text = json!({ "a": "a".repeat(50_000) + "!" });
    vec![
        definition("Regexone", &string("^(a+)+$")),
        custom("Regexone", &text),
        definition("Regextwo", &string("((a{0,100}){0,100}){0,100}")),
        custom("Regextwo", &text),
    ]
}

/// A rule with a loop in a loop in a loop over a long list.
fn rules() -> Vec<Request> {
    let rule = |rule: &str| {
        json!({ "type": "object", "properties": { "a": { "type": "array", "items": { "type": "string" } } },
                "x-kubernetes-validations": [{ "rule": rule }] })
    };
    let many: Value = (0..20_000).map(|n| n.to_string()).collect();
    vec![
        definition("Ruleone", &rule("self.a.all(x, self.a.all(y, self.a.all(z, x + y != z + y)))")),
        custom("Ruleone", &json!({ "a": many })),
        definition("Ruletwo", &rule("self.a.map(x, self.a.map(y, x + y)).size() > 0")),
        custom("Ruletwo", &json!({ "a": many })),
    ]
}

/// Owners in an order of their own, many of them.
fn strategic_merge() -> Vec<Request> {
    const OWNERS: usize = 8_000;
    let uid = |n: usize| format!("00000000-0000-0000-0000-{n:012}");
    let owner = |n: usize| json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": uid(n) });
    let order: Vec<Value> = (0..OWNERS).rev().map(|n| json!({ "uid": uid(n) })).collect();
    let owners: Vec<Value> = (0..OWNERS).map(owner).collect();
    let patch =
        json!({ "metadata": { "ownerReferences": owners, "$setElementOrder/ownerReferences": order } });
    vec![
        post(map("bomb").to_string()),
        Request::new(
            "PATCH",
            &format!("{MAP}?dryRun=All"),
            "application/strategic-merge-patch+json",
            patch.to_string().into_bytes(),
        ),
    ]
}

fn large_head() -> Vec<Request> {
    let mut one = Request::new("GET", MAPS, JSON, Vec::new());
    one.headers.push(("X-Large".to_owned(), "x".repeat(1_000_000)));
    let mut many = Request::new("GET", MAPS, JSON, Vec::new());
    many.headers.extend((0..20_000).map(|n| (format!("X-{n}"), "x".to_owned())));
    let long =
        Request::new("GET", &format!("{MAPS}?labelSelector={}", "a,".repeat(500_000)), JSON, Vec::new());
    let wide = format!("{MAPS}?labelSelector=a%20in%20({})", vec!["b"; 15_000].join(","));
    vec![one, many, long, Request::new("GET", &wide, JSON, Vec::new())]
}

fn applied() -> Request {
    let data: serde_json::Map<String, Value> = (0..30_000).map(|n| (format!("k{n}"), "v".into())).collect();
    let mut whole = map("applied");
    whole["data"] = data.into();
    let target = format!("{MAPS}/applied?fieldManager=bomb&dryRun=All");
    Request::new("PATCH", &target, "application/apply-patch+yaml", whole.to_string().into_bytes())
}

/// All of them. They leave a few objects behind and can be thrown again.
pub fn bombs() -> Vec<Bomb> {
    let deep_json = [nested("[", "]", 100_000), nested("{\"a\":", "}", 100_000)];
    let deep_yaml = [nested("[", "]", 20_000), "- ".repeat(20_000), nested("{a: ", "}", 20_000)];
    let patch = |body: &Value| {
        let body = body.to_string().into_bytes();
        Request::new("PATCH", &format!("{MAP}?dryRun=All"), "application/json-patch+json", body)
    };
    let too_large = format!("{{\"data\":{{\"a\":\"{}\"}}}}", "x".repeat(8 * 1024 * 1024));
    vec![
        bomb("gzip", vec![gzip_bomb()]),
        bomb("deep JSON", deep_json.into_iter().map(post).collect()),
        bomb(
            "deep YAML",
            deep_yaml.into_iter().map(|text| Request::new("POST", MAPS, YAML, text.into_bytes())).collect(),
        ),
        bomb("aliases", vec![Request::new("POST", MAPS, YAML, alias_bomb().into_bytes())]),
        bomb("copies", vec![post(map("bomb").to_string()), patch(&copy_bomb())]),
        bomb("a body of 8 MiB", vec![post(too_large)]),
        bomb("large heads", large_head()),
        bomb("a deep schema", vec![deep_definition("Deep", 40), deep_definition("Deeper", 2_000)]),
        bomb("patterns", patterns()),
        bomb("rules", rules()),
        bomb("30,000 applied fields", vec![applied()]),
        bomb("strategic merge of ordered owners", strategic_merge()),
    ]
}
