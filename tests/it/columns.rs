//! One definition of columns (`api::columns`) against upstream's definition files, over the sample objects, default and
//! wide: the server's tables, `capstan get`, and what the dashboard's lists are made of. What is expected comes from the
//! files' own paths, read by a second reader that shares nothing with ours.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use capi_types as api;
use capi_types::key::Gvk;
use capstan::cli::args::{Cli, Command};
use capstan_apiserver::internals::{Budget, Columns, Include};
use capstan_base::rng::Rng;
use capstan_base::time::{Clock, Timestamp, age, parse_rfc3339};
use capstan_commands::get;
use capstan_commands::output::Style;
use capstan_dashboard::fleet::decode::{Decoder, Slim};
use capstan_dashboard::fleet::{Kind, Reader, SourceId};
use capstan_engine::client::Connection;
use capstan_store::MemoryStore;
use capstan_worlds::standalone::stack::{Stack, StackOptions};
use clap::Parser as _;
use serde_json::{Value, json};

use crate::shared_files::documents;

/// The moment of the samples.
fn now() -> Timestamp {
    parse_rfc3339("2026-11-20T10:00:00Z").expect("a moment")
}

/// The columns of upstream's v1beta2, by kind. Kinds without any show their age.
fn upstream() -> Option<BTreeMap<String, Vec<Value>>> {
    let age = json!({ "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" });
    let columns = |definition: &Value| {
        let versions = definition["spec"]["versions"].as_array()?;
        let version = versions.iter().find(|version| version["name"] == "v1beta2")?;
        let declared = version["additionalPrinterColumns"].as_array().cloned().unwrap_or_default();
        let kind = definition["spec"]["names"]["kind"].as_str()?.to_owned();
        Some((kind, if declared.is_empty() { vec![age.clone()] } else { declared }))
    };
    Some(documents("crds")?.iter().filter_map(columns).collect())
}

/// A second, simpler reading of the paths that upstream's columns use.
fn read<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let mut at = object;
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("['") {
            let (name, after) = after.split_once("']")?;
            at = at.get(name.replace("\\.", "."))?;
            rest = after;
        } else if let Some(after) = rest.strip_prefix("[?(@.") {
            let (test, after) = after.split_once(")]")?;
            let (key, wanted) = test.split_once("==")?;
            let wanted = wanted.trim().trim_matches(['"', '\'']);
            at = at.as_array()?.iter().find(|item| item[key.trim()] == wanted)?;
            rest = after;
        } else {
            let after = rest.strip_prefix('.')?;
            let end = after.find(['.', '[']).unwrap_or(after.len());
            at = at.get(&after[..end])?;
            rest = &after[end..];
        }
    }
    Some(at)
}

fn cell(column: &Value, object: &Value) -> Value {
    let Some(value) = read(object, column["jsonPath"].as_str().expect("a path")) else { return Value::Null };
    match column["type"].as_str().expect("a type") {
        "string" => json!(value.as_str().map_or_else(|| value.to_string(), str::to_owned)),
        "integer" => json!(value.as_i64()),
        "boolean" => json!(value.as_bool()),
        "date" => json!(age(parse_rfc3339(value.as_str().expect("text")).expect("a moment"), now())),
        other => panic!("a column of type {other}"),
    }
}

/// A cell as kubectl prints it.
fn text(cell: &Value) -> String {
    match cell {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn is_wide(column: &Value) -> bool {
    column["priority"].as_i64().unwrap_or(0) > 0
}

/// Our kinds with the sample objects of each; kinds of which there are none included.
fn kinds() -> BTreeMap<String, Vec<Value>> {
    let mut kinds: BTreeMap<String, Vec<Value>> =
        api::served().into_iter().map(|served| (served.gvk.kind, Vec::new())).collect();
    for object in documents("samples").unwrap_or_default() {
        if let Some(objects) = kinds.get_mut(object["kind"].as_str().unwrap_or_default()) {
            objects.push(object);
        }
    }
    kinds
}

#[test]
fn headings_types_and_places_are_upstreams() {
    let Some(upstream) = upstream() else { return };
    let facts =
        |name: &str, type_: &str, path: &str, wide: bool| format!("{name} | {type_} | {path} | wide {wide}");
    for kind in kinds().into_keys() {
        let ours: Vec<String> = api::columns::of(&kind)
            .iter()
            .map(|c| facts(c.name, c.type_.as_str(), &c.path.render(), c.wide))
            .collect();
        let of = |c: &Value, key: &str| c[key].as_str().expect("text").to_owned();
        let Some(upstream) = upstream.get(&kind) else {
            assert!(kind.starts_with("Host"), "upstream has no {kind}");
            continue;
        };
        let theirs: Vec<String> = upstream
            .iter()
            .map(|c| facts(&of(c, "name"), &of(c, "type"), &of(c, "jsonPath"), is_wide(c)))
            .collect();
        assert_eq!(ours, theirs, "{kind}");
    }
}

#[test]
fn s144_tables_have_upstreams_cells_for_the_samples() {
    let Some(upstream) = upstream() else { return };
    let definitions = api::crds::all();
    let (mut filled, mut empty) = (0, 0);
    for (kind, objects) in kinds() {
        let definition = definitions.iter().find(|crd| crd.spec.names.kind == kind).expect("a definition");
        let ours = Columns::custom(&serde_json::to_value(&definition.spec.versions[0]).expect("JSON"));
        for object in objects {
            let mut row = Vec::new();
            ours.row(
                object.to_string().as_bytes(),
                Include::Nothing,
                now(),
                &mut Budget::default(),
                &mut row,
            )
            .expect("a row");
            let row: Value = serde_json::from_slice(&row).expect("JSON");
            let mut expected = vec![object["metadata"]["name"].clone()];
            expected.extend(upstream[&kind].iter().map(|column| cell(column, &object)));
            filled += expected.iter().filter(|cell| !cell.is_null()).count();
            empty += expected.iter().filter(|cell| cell.is_null()).count();
            assert_eq!(row["cells"], Value::Array(expected), "{kind} {}", object["metadata"]["name"]);
        }
    }
    println!("{filled} cells with a value, {empty} without");
    assert!(filled > 500);
}

#[test]
fn the_dashboard_has_upstreams_cells_for_the_samples() {
    let Some(upstream) = upstream() else { return };
    let (mut cells, mut seen) = (0, BTreeSet::new());
    for (name, objects) in kinds() {
        for object in objects {
            let (group, version) =
                object["apiVersion"].as_str().and_then(|v| v.split_once('/')).expect("a version");
            let gvk = Gvk {
                group: group.to_owned(),
                version: version.to_owned(),
                kind: name.clone(),
                plural: String::new(),
                namespaced: true,
            };
            let slim: Slim = serde_json::from_value(object.clone()).expect("an object");
            let row = Decoder::for_kind(SourceId(0), gvk, Arc::default()).row(&slim);
            if row.kind == Kind::Other {
                continue;
            }
            for (column, theirs) in row.kind.columns().iter().zip(&upstream[&name]) {
                let ours = Reader::of(column).expect("a reader").read(&row).print(now()).into_owned();
                assert_eq!(ours, text(&cell(theirs, &object)), "{name} {} {}", row.name, column.name);
                cells += 1;
            }
            seen.insert(row.kind);
        }
    }
    println!("{cells} cells of {seen:?}");
    assert!(cells > 400 && seen.len() >= 5, "{cells} cells of {seen:?}");
}

async fn server(objects: Vec<Value>) -> Connection {
    let options = StackOptions { engine: false, ..StackOptions::new(Clock::fixed(now()), Rng::seeded(7)) };
    let stack = Stack::start(Arc::new(MemoryStore::new()), options).await.expect("a server");
    stack.server().import(objects.into_iter()).await.expect("imported");
    stack.connection("test", false)
}

/// Columns as Go's tabwriter lays them out, with three blanks between and six cells at least.
fn tabbed(lines: &[Vec<String>]) -> String {
    let width = |at: usize| lines.iter().map(|line| line[at].chars().count() + 3).max().unwrap_or(0).max(6);
    let line = |cells: &Vec<String>| {
        let last = cells.len() - 1;
        let padded = |(at, cell): (usize, &String)| {
            format!("{cell:<width$}", width = if at == last { 0 } else { width(at) })
        };
        cells.iter().enumerate().map(padded).collect::<String>() + "\n"
    };
    lines.iter().map(line).collect()
}

#[tokio::test]
async fn capstan_get_prints_upstreams_columns_for_the_samples() {
    let Some(upstream) = upstream() else { return };
    // Two files are one cluster at two moments: names must not meet.
    let mut latest: BTreeMap<(String, String), Value> = BTreeMap::new();
    for (kind, objects) in kinds() {
        latest.extend(
            objects
                .into_iter()
                .map(|o| ((kind.clone(), o["metadata"]["name"].as_str().expect("a name").to_owned()), o)),
        );
    }
    let connection = server(latest.values().cloned().collect()).await;
    let mut tables = 0;
    for (kind, columns) in
        kinds().into_keys().filter_map(|kind| Some((upstream.get(&kind)?, kind))).map(|(c, k)| (k, c))
    {
        let objects: Vec<&Value> = latest.iter().filter(|((k, _), _)| *k == kind).map(|(_, o)| o).collect();
        for (output, wide) in [("table", false), ("wide", true)] {
            let shown = || columns.iter().filter(|column| wide || !is_wide(column));
            let head = shown().map(|column| column["name"].as_str().expect("a name").to_uppercase());
            let mut lines = vec![std::iter::once("NAME".to_owned()).chain(head).collect::<Vec<_>>()];
            for object in &objects {
                let name = text(&object["metadata"]["name"]);
                lines.push(
                    std::iter::once(name).chain(shown().map(|column| text(&cell(column, object)))).collect(),
                );
            }
            let Ok(Cli { command: Some(Command::Get(args)), .. }) =
                Cli::try_parse_from(["capstan", "get", &kind, "-o", output])
            else {
                panic!("get {kind}")
            };
            let answer =
                get::get(&connection, &args, "default", now(), Style::default()).await.expect("an answer");
            if objects.is_empty() {
                assert_eq!(answer.document, "", "{kind}");
            } else {
                assert_eq!(answer.document, tabbed(&lines), "{kind} {output}");
                tables += 1;
            }
        }
    }
    assert!(tables >= 20, "{tables}");
}
