//! The server's schema engine against real definitions: ours, and upstream's with the sample objects
//! when the shared folder is there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use capi_rules::admission::Webhooks;
use capi_types::crds;
use capstan_apiserver::internals::{Schema, crd};
use k8s_machinery::admission::{Admission as _, Found, Known, Request};
use k8s_machinery::validation::cause::Cause;
use serde_json::{Value, json};

fn shared(folder: &str) -> Vec<PathBuf> {
    let root = std::env::var_os("CAPSTAN_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"), PathBuf::from);
    let mut files = Vec::new();
    collect(&root.join(folder), &mut files);
    if files.is_empty() {
        println!("skipped: {} is not there", root.join(folder).display());
    }
    files.sort();
    files
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            files.push(path);
        }
    }
}

fn documents(file: &Path) -> Vec<Value> {
    serde_saphyr::from_multiple(&std::fs::read_to_string(file).unwrap()).unwrap()
}

fn upstream() -> Vec<Value> {
    shared("crds").iter().flat_map(|file| documents(file)).collect()
}

fn ours() -> Vec<Value> {
    crds::all().into_iter().map(|definition| json!(definition)).collect()
}

/// The schemas of all v1beta2 versions, by kind.
fn compiled(definitions: Vec<Value>) -> BTreeMap<String, Schema> {
    let mut schemas = BTreeMap::new();
    for mut definition in definitions {
        crd::default(&mut definition);
        let kind = definition["spec"]["names"]["kind"].as_str().unwrap().to_owned();
        assert_eq!(crd::check(&definition, None), Vec::<Cause>::new(), "{kind}");
        for version in definition["spec"]["versions"].as_array().unwrap() {
            let name = version["name"].as_str().unwrap();
            let schema = Schema::custom(&kind, name, &version["schema"]["openAPIV3Schema"], "s").unwrap();
            if name == "v1beta2" {
                schemas.insert(kind.clone(), schema);
            }
        }
    }
    schemas
}

#[test]
fn definitions_are_structural() {
    assert!(compiled(ours()).contains_key("KubeadmControlPlane"));
    compiled(upstream());
}

#[test]
fn sample_objects_fit_both_sets_of_schemas() {
    for (whose, schemas) in [("upstream", compiled(upstream())), ("ours", compiled(ours()))] {
        for file in shared("samples") {
            let peers = documents(&file);
            for mut object in peers.clone() {
                let kind = object["kind"].as_str().unwrap_or_default().to_owned();
                let Some(schema) = schemas.get(&kind) else { continue };
                let what =
                    format!("{whose} schema, {}: {kind} {}", file.display(), object["metadata"]["name"]);
                let before = object.clone();
                assert_eq!(schema.decode(&mut object), Ok(Vec::new()), "{what}");
                assert_eq!(schema.validate(&object, None), Vec::<Cause>::new(), "{what}");
                // Defaults may have come; nothing else changed.
                assert_eq!(object["status"]["conditions"], before["status"]["conditions"], "{what}");
                let (group, _) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap();
                let group = group.to_owned();
                let admitted = {
                    let mut admitted = object.clone();
                    let request = Request { group: &group, kind: &kind, old: None, dry_run: false };
                    assert_eq!(Webhooks.mutate(&request, &mut admitted), Ok(()), "{what}");
                    admitted
                };
                for old in [None, Some(&admitted)] {
                    let request = Request { group: &group, kind: &kind, old, dry_run: false };
                    let mut known = Known::default();
                    for need in Webhooks.needs(&request, &admitted) {
                        let wanted = |peer: &&Value| {
                            peer["kind"] == need.kind.as_str()
                                && (need.name.is_empty() || peer["metadata"]["name"] == need.name.as_str())
                        };
                        let found = peers.iter().filter(wanted).cloned().collect();
                        known.add(need, Found::Objects(found));
                    }
                    let answer = Webhooks.check(&request, &admitted, &known);
                    assert!(answer.is_ok(), "{what}: {answer:?}");
                }
                assert_eq!(schema.validate(&admitted, Some(&object)), Vec::<Cause>::new(), "{what}");
            }
        }
    }
}
