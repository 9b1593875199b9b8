//! From files to documents: YAML streams, JSON, lists, folders, standard input. Owns paths; must not know
//! any kind.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde_json::Value;

use super::dump::Document;
use crate::api::key::ObjectKey;

/// Every object of every file, lists taken apart. `workloads` are `NAMESPACE/NAME=FILE`.
///
/// # Errors
/// What cannot be read, and why.
pub fn documents(files: &[PathBuf], workloads: &[String]) -> anyhow::Result<Vec<Document>> {
    let mut documents = Vec::new();
    for file in files {
        take(file, None, &mut documents)?;
    }
    for workload in workloads {
        let (cluster, file) = parse_workload(workload)?;
        take(Path::new(file), Some(&cluster), &mut documents)?;
    }
    Ok(documents)
}

fn parse_workload(text: &str) -> anyhow::Result<(ObjectKey, &str)> {
    let parts = text.split_once('=').and_then(|(cluster, file)| Some((cluster.split_once('/')?, file)));
    match parts {
        Some(((namespace, name), file)) if !namespace.is_empty() && !name.is_empty() && !file.is_empty() => {
            Ok((ObjectKey::new(namespace, name), file))
        }
        _ => bail!("--workload {text}: expected NAMESPACE/NAME=FILE, such as default/prod=nodes.yaml"),
    }
}

fn take(path: &Path, cluster: Option<&ObjectKey>, documents: &mut Vec<Document>) -> anyhow::Result<()> {
    let found = if path.is_dir() { folder(path)? } else { vec![path.to_path_buf()] };
    for file in found {
        let shown = file.display();
        let text = text(&file).with_context(|| format!("cannot read {shown}"))?;
        for value in parse(&text).with_context(|| format!("{shown} is neither YAML nor JSON"))? {
            flatten(value, cluster, documents);
        }
    }
    Ok(())
}

/// The YAML and JSON files of a folder, by name; folders within are not entered.
fn folder(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(path).with_context(|| format!("cannot list {}", path.display()))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    let wanted = |file: &PathBuf| {
        let extension = file.extension().and_then(|e| e.to_str()).unwrap_or_default();
        file.is_file() && matches!(extension, "yaml" | "yml" | "json")
    };
    files.retain(wanted);
    files.sort();
    Ok(files)
}

fn text(file: &Path) -> std::io::Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().lock().read_to_string(&mut text)?;
        return Ok(text);
    }
    std::fs::read_to_string(file)
}

/// JSON values one after the other, or a YAML stream.
pub(super) fn parse(text: &str) -> anyhow::Result<Vec<Value>> {
    if text.trim_start().starts_with('{') {
        let values: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(text).into_iter().collect();
        return Ok(values?);
    }
    // The files are the operator's own: a dump of a large fleet has many nodes.
    let options = serde_saphyr::options! { budget: None };
    Ok(serde_saphyr::from_multiple_with_options(text, options)?)
}

fn flatten(mut value: Value, cluster: Option<&ObjectKey>, documents: &mut Vec<Document>) {
    if !value.is_object() {
        documents.push(Document { value, workload: cluster.cloned() });
        return;
    }
    let is_list = value["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    match value["items"].take() {
        Value::Array(items) if is_list => {
            let item_kind =
                value["kind"].as_str().and_then(|k| k.strip_suffix("List")).filter(|k| !k.is_empty());
            for mut item in items {
                // Items of a typed list lack what the list says for all of them.
                if let (Some(kind), true) = (item_kind, item.is_object() && item["kind"].is_null()) {
                    item["kind"] = kind.into();
                    item["apiVersion"] = value["apiVersion"].clone();
                }
                flatten(item, cluster, documents);
            }
        }
        items => {
            if !items.is_null() {
                value["items"] = items;
            } else if let Some(map) = value.as_object_mut() {
                map.remove("items");
            }
            documents.push(Document { value, workload: cluster.cloned() });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_are_taken_apart_and_keep_their_kind() {
        let mut found = Vec::new();
        let text = "---\nkind: A\nmetadata: {name: a}\n---\n\n---\nkind: BList\napiVersion: g/v1\nitems:\n- metadata: {name: b}\n";
        for value in parse(text).expect("YAML") {
            flatten(value, None, &mut found);
        }
        let two = "{\"kind\": \"List\", \"items\": [{\"kind\": \"C\"}]} {\"kind\": \"D\", \"items\": [1]}";
        for value in parse(two).expect("JSON") {
            flatten(value, Some(&ObjectKey::new("ns", "c")), &mut found);
        }
        let values: Vec<Value> = found.iter().map(|d| d.value.clone()).collect();
        assert_eq!(
            values,
            [
                json!({"kind": "A", "metadata": {"name": "a"}}),
                json!({"kind": "B", "apiVersion": "g/v1", "metadata": {"name": "b"}}),
                json!({"kind": "C"}),
                json!({"kind": "D", "items": [1]}),
            ]
        );
        let mut odd = Vec::new();
        for value in parse("3\n---\n[a]\n---\nkind: NoList\nitems: [4]\n").expect("YAML") {
            flatten(value, None, &mut odd);
        }
        assert_eq!(odd.len(), 3, "what is no object is left for a remark");
        assert_eq!(found[2].workload, Some(ObjectKey::new("ns", "c")));
    }

    #[test]
    fn a_workload_is_named_with_its_file() {
        assert_eq!(parse_workload("ns/c=f.yaml").expect("fine"), (ObjectKey::new("ns", "c"), "f.yaml"));
        for text in ["c=f.yaml", "ns/c", "ns/=f", "/c=f", "ns/c="] {
            assert!(parse_workload(text).is_err(), "{text}");
        }
    }
}
