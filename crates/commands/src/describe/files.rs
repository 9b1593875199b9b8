//! What `describe` knows of a cluster from files. Owns which objects of them count, and the moment that they are judged at; must not
//! know how the tree is drawn.

use anyhow::{anyhow, bail};
use serde_json::Value;

use super::{DescribeArgs, DescribeOutputArg, Description, Snapshot, answer, plan_of, snapshot};
use crate::documents::documents;
use crate::output::Style;
use crate::reading::single_references;
use capi_rules::observe::dump::Dump;
use capi_types::key::{Gvk, group_of};
use capi_types::names::CORE_GROUP;
use capstan_base::time::{Timestamp, rfc3339};
use capstan_dashboard::fleet::PROVIDER_KIND;
use capstan_dashboard::fleet::watch::Recording;
use capstan_engine::client::clusters::cluster_named_by;

/// Kinds of which dumps have many, and no tree any.
const BESIDE: [&str; 6] = ["ConfigMap", "Event", "Namespace", "Node", "Pod", "Secret"];

/// Draws a cluster as files have it.
///
/// # Errors
/// What cannot be read or understood; no such Cluster in them, or several of the name.
pub fn from_files(
    args: &DescribeArgs,
    namespace: Option<&str>,
    present: Timestamp,
    style: Style,
) -> anyhow::Result<Description> {
    let (documents, mut remarks) = documents(&args.files, &[])?;
    remarks.extend(documents.iter().filter_map(|d| Some(format!("{}: {}", d.origin, d.lacks()?))));
    let values: Vec<Value> =
        documents.iter().filter(|d| d.lacks().is_none()).map(|d| d.value.clone()).collect();
    let namespace = namespace_of(&values, &args.name, namespace)?;
    let recording = Recording::new(values.iter().cloned());
    let now = match args.now {
        Some(moment) => moment.seen_from(present),
        None => recording.made_at().unwrap_or(present),
    };
    if args.now.is_none() {
        remarks.push(format!(
            "as of {}, the last moment that stands in the files: --now says when they were made",
            rfc3339(now)
        ));
    }
    let objects: Vec<(Gvk, Value)> = values
        .into_iter()
        .filter(|value| counts(value, &namespace))
        .map(|value| (Gvk::of_document(&value), value))
        .collect();
    let Some(mut snapshot) = snapshot(&objects, &args.name, now, remarks) else {
        bail!("Cluster {} cannot be shown", args.name)
    };
    if args.output == DescribeOutputArg::Json {
        let mut documents = documents;
        // Other Clusters would be run ahead as well.
        documents.retain(|document| cluster_named_by(&document.value).is_none_or(|name| name == args.name));
        snapshot.plan = plan_of(&Dump::new(documents), (&namespace, &args.name), now);
    }
    let missing = missing(&snapshot);
    snapshot.gaps.extend(missing);
    answer(args, &snapshot, style)
}

/// The namespace of the Cluster that is meant: the one that is named, or the only one that has it.
fn namespace_of(values: &[Value], name: &str, wanted: Option<&str>) -> anyhow::Result<String> {
    let is_it = |value: &&Value| {
        let api_version = value["apiVersion"].as_str().unwrap_or_default();
        value["kind"] == "Cluster" && group_of(api_version) == CORE_GROUP && value["metadata"]["name"] == name
    };
    let mut found: Vec<&str> = values.iter().filter(is_it).map(namespace_in).collect();
    // A Cluster that stands in several files is still one.
    found.sort_unstable();
    found.dedup();
    if let Some(wanted) = wanted {
        found.retain(|namespace| *namespace == wanted);
    }
    match found.as_slice() {
        [one] => Ok((*one).to_owned()),
        [] => {
            let within = wanted.map(|wanted| format!(" in namespace {wanted}")).unwrap_or_default();
            Err(anyhow!(
                "there is no Cluster {name}{within} in the files: check the name and the namespace (-n)"
            ))
        }
        several => Err(anyhow!(
            "the files have a Cluster {name} in each of the namespaces {}: name one with -n",
            several.join(", ")
        )),
    }
}

/// What has no namespace in a file was in `default`, as with kubectl.
fn namespace_in(value: &Value) -> &str {
    value["metadata"]["namespace"].as_str().filter(|namespace| !namespace.is_empty()).unwrap_or("default")
}

/// A Provider of clusterctl is in a namespace of its own.
fn counts(value: &Value, namespace: &str) -> bool {
    let kind = value["kind"].as_str().unwrap_or_default();
    kind == PROVIDER_KIND || (namespace_in(value) == namespace && !BESIDE.contains(&kind))
}

/// What the Cluster refers to and the files do not have.
fn missing(snapshot: &Snapshot) -> Vec<String> {
    let fleet = &snapshot.fleet;
    let references = single_references(fleet, snapshot.cluster);
    let is_here = |group: &str, kind: &str, name: &str| {
        fleet.rows().any(|(_, row)| row.is_of(group, kind) && row.name.as_ref() == name)
    };
    let missing = references.into_iter().filter(|(group, kind, name)| !is_here(group, kind, name));
    missing.map(|(_, kind, name)| format!("{kind} {name} is not in the files")).collect()
}
