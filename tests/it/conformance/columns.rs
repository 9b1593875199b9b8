//! What a definition shows: printer columns, published schemas, and upstream's own definitions (statements 144, 146,
//! 19 and 20). Those of upstream only when the shared folder is there.

use serde_json::{Value, json};

use crate::shared_files::documents;

use super::definitions::{GADGETS, condition, edit, gadget, object, serving};
use super::{APPLY, Ask, DEFINITIONS, JSON_PATCH, MERGE, STRATEGIC, Site, YAML};

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

fn path_of(definition: &Value) -> String {
    format!("{DEFINITIONS}/{}", definition["metadata"]["name"].as_str().unwrap_or_default())
}

#[tokio::test]
async fn s146_all_upstream_definitions_are_taken_by_every_route() {
    let Some(definitions) = documents("crds") else { return };
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
                        d["metadata"]["labels"]["cluster.x-k8s.io/v1beta2"] = "v1beta2".into();
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
