//! Patches of a ClusterClass: names, what they select, what they change. Go templates in them are not
//! parsed, and the values of variables are not looked into.
//!
//! Source: cluster-api `core/webhooks/admission/patch_validation.go`, v1.14.2.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::finding::Findings;
use super::value::{at, is_defined, items, items_at, text};
use k8s_machinery::validation::cause::Cause;
use k8s_machinery::validation::naming;

const OPERATIONS: [&str; 3] = ["add", "remove", "replace"];

/// Variables that every Cluster has, below `builtin.`; `*` stands for a group of workers.
const BUILTIN: [&str; 33] = [
    "cluster",
    "cluster.name",
    "cluster.namespace",
    "cluster.uid",
    "cluster.metadata.labels",
    "cluster.metadata.annotations",
    "cluster.topology",
    "cluster.topology.classRef.name",
    "cluster.topology.classRef.namespace",
    "cluster.topology.class",
    "cluster.topology.classNamespace",
    "cluster.topology.version",
    "cluster.network",
    "cluster.network.serviceDomain",
    "cluster.network.services",
    "cluster.network.pods",
    "controlPlane",
    "controlPlane.name",
    "controlPlane.replicas",
    "controlPlane.version",
    "controlPlane.metadata.labels",
    "controlPlane.metadata.annotations",
    "controlPlane.machineTemplate.infrastructureRef.name",
    "*",
    "*.class",
    "*.name",
    "*.replicas",
    "*.topologyName",
    "*.version",
    "*.metadata.labels",
    "*.metadata.annotations",
    "*.bootstrap.configRef.name",
    "*.infrastructureRef.name",
];

pub(super) fn check(class: &Value, out: &mut Findings) {
    let mut names = BTreeSet::new();
    for (index, patch) in items_at(class, "/spec/patches").iter().enumerate() {
        let field = format!("spec.patches[{index}]");
        let name = text(patch, "/name");
        check_name(name, !names.insert(name), &format!("{field}.name"), out);
        check_content(patch, class, &field, out);
    }
}

fn check_name(name: &str, again: bool, field: &str, out: &mut Findings) {
    if name.is_empty() {
        out.required(field, "patch name must be defined");
    }
    if name == "inline" {
        // The cause is called required although there is a name: so upstream has it.
        out.required(field, "\"inline\" can not be used as the name of a patch");
    }
    if again {
        let detail =
            format!("patch names must be unique. Patch with name \"{name}\" is defined more than once");
        out.invalid(field, &json!(name), &detail);
    }
}

fn check_content(patch: &Value, class: &Value, field: &str, out: &mut Findings) {
    let (definitions, external) = (&patch["definitions"], &patch["external"]);
    match (definitions.is_null(), external.is_null()) {
        (true, true) => out.required(field, "one of definitions or external must be defined"),
        (false, false) => out.invalid(field, patch, "only one of definitions or external can be defined"),
        _ => {}
    }
    for (index, definition) in items(definitions).iter().enumerate() {
        let field = format!("{field}.definitions[{index}]");
        for (at, change) in items(&definition["jsonPatches"]).iter().enumerate() {
            check_change(change, class, &format!("{field}.jsonPatches[{at}]"), out);
        }
        check_selector(&definition["selector"], class, &format!("{field}.selector"), out);
    }
    let extensions = ["validateTopologyExtension", "generatePatchesExtension"];
    if !external.is_null() && !extensions.iter().any(|name| is_defined(&external[*name])) {
        let detail = "one of validateTopologyExtension and generatePatchesExtension must be defined";
        out.invalid(format!("{field}.external"), external, detail);
    }
}

/// An object in a refusal: indented JSON as one text.
fn pretty(value: &Value) -> Value {
    json!(serde_json::to_string_pretty(value).unwrap_or_default())
}

fn check_change(change: &Value, class: &Value, field: &str, out: &mut Findings) {
    let (operation, path) = (text(change, "/op"), text(change, "/path"));
    if !OPERATIONS.contains(&operation) {
        out.causes.push(Cause::not_supported(format!("{field}.op"), &pretty(change), &OPERATIONS));
    }
    let at = format!("{field}.path");
    if !path.starts_with("/spec") {
        out.invalid(at.clone(), &pretty(change), "jsonPatch path must start with \"/spec\"");
    }
    // A number is taken for an index, although it may be
    // a key: upstream does not know the schema either.
    for index in path.split('/').filter_map(|step| step.parse::<i64>().ok()) {
        if operation == "add" && index != 0 {
            let detail = "arrays can only be accessed using \"0\" (prepend) or \"-\" (append)";
            out.invalid(at.clone(), &json!(path), detail);
        }
        if operation == "replace" || operation == "remove" {
            let detail = format!("elements in arrays can not be accessed in a {operation} operation");
            out.invalid(at.clone(), &json!(path), &detail);
        }
    }
    if operation == "add" || operation == "replace" {
        check_value(change, class, field, out);
    }
}

fn check_value(change: &Value, class: &Value, field: &str, out: &mut Findings) {
    let from = &change["valueFrom"];
    // A value of null is a value.
    match (change.get("value").is_some(), !from.is_null()) {
        (false, false) => {
            out.invalid(field, &pretty(change), "jsonPatch must define one of value or valueFrom");
        }
        (true, true) => {
            out.invalid(field, &pretty(change), "jsonPatch can not define both value and valueFrom");
        }
        _ => {}
    }
    if from.is_null() {
        return;
    }
    let field = format!("{field}.valueFrom");
    let variable = text(from, "/variable");
    match (!text(from, "/template").is_empty(), !variable.is_empty()) {
        (false, false) => {
            out.invalid(field.clone(), &pretty(from), "valueFrom must set either template or variable");
        }
        (true, true) => {
            out.invalid(field.clone(), &pretty(from), "valueFrom can not set both template and variable");
        }
        _ => {}
    }
    if variable.is_empty() {
        return;
    }
    let field = format!("{field}.variable");
    if let Some(builtin) = variable.strip_prefix("builtin.") {
        if !is_builtin(builtin) {
            out.invalid(field, &json!(variable), "not a defined builtin variable");
        }
        return;
    }
    // Paths below a variable count as known with it; its schema is not looked into.
    let name = variable.split(['[', '.']).find(|part| !part.is_empty()).unwrap_or_default();
    if !items_at(class, "/spec/variables").iter().any(|known| text(known, "/name") == name) {
        out.invalid(field, &json!(variable), &format!("variable with name {variable} cannot be found"));
    }
}

fn is_builtin(variable: &str) -> bool {
    let group =
        ["machineDeployment", "machinePool"].into_iter().find_map(|group| variable.strip_prefix(group));
    BUILTIN.contains(&variable)
        || group.is_some_and(|rest| BUILTIN.iter().any(|known| known.strip_prefix('*') == Some(rest)))
}

/// A selector has to select something.
fn check_selector(selector: &Value, class: &Value, field: &str, out: &mut Findings) {
    let resources = &selector["matchResources"];
    let on = |name: &str| resources[name] == true;
    let wanted = |name: &str| items_at(resources, &format!("/{name}/names"));
    let lists = [
        ("machineDeploymentClass", "machineDeployments", "MachineDeployment"),
        ("machinePoolClass", "machinePools", "MachinePool"),
    ];
    if !on("infrastructureCluster")
        && !on("controlPlane")
        && lists.iter().all(|(name, ..)| wanted(name).is_empty())
    {
        return out.invalid(field, &pretty(selector), "no selector enabled");
    }
    let field = format!("{field}.matchResources");
    let matches = |pointer: &str| selects(selector, at(class, &format!("/spec/{pointer}/templateRef")));
    if on("infrastructureCluster") && !matches("infrastructure") {
        let detail = "selector is enabled but does not match the infrastructure ref";
        out.invalid(format!("{field}.infrastructureCluster"), &json!(true), detail);
    }
    if on("controlPlane") && !matches("controlPlane") && !matches("controlPlane/machineInfrastructure") {
        let detail = "selector is enabled but matches neither the controlPlane ref nor the controlPlane \
                      machineInfrastructure ref";
        out.invalid(format!("{field}.controlPlane"), &json!(true), detail);
    }
    for (name, list, word) in lists {
        let classes = items_at(class, &format!("/spec/workers/{list}"));
        for (index, pattern) in wanted(name).iter().enumerate() {
            let field = format!("{field}.{name}.names[{index}]");
            let shown = pattern;
            let pattern = pattern.as_str().unwrap_or_default();
            if let Some(detail) = pattern_complaint(pattern) {
                out.invalid(field, shown, detail);
                // Upstream leaves the loop here, so patterns after a bad one are not looked at.
                break;
            }
            let selected = classes.iter().any(|class| {
                fits(pattern, text(class, "/class"))
                    && ["infrastructure", "bootstrap"]
                        .iter()
                        .any(|part| selects(selector, &class[*part]["templateRef"]))
            });
            if !selected {
                let detail = format!(
                    "selector is enabled but matches neither the bootstrap ref nor the infrastructure ref of a \
                     {word} class"
                );
                out.invalid(field, shown, &detail);
            }
        }
    }
}

/// Same kind in the same version.
fn selects(selector: &Value, template: &Value) -> bool {
    is_defined(template)
        && ["/kind", "/apiVersion"].iter().all(|field| text(selector, field) == text(template, field))
}

/// One `*` stands for anything, at the start or the end.
fn fits(pattern: &str, name: &str) -> bool {
    pattern == name
        || pattern.strip_prefix('*').is_some_and(|end| name.ends_with(end))
        || pattern.strip_suffix('*').is_some_and(|start| name.starts_with(start))
}

fn pattern_complaint(pattern: &str) -> Option<&'static str> {
    match pattern.matches('*').count() {
        0 => None,
        1 if !pattern.starts_with('*') && !pattern.ends_with('*') => {
            Some("\"*\" rune can only appear at the beginning, or ending of the selector")
        }
        // No name may hold a star; any letter in its place leaves the rest to be judged.
        1 if !naming::qualified_name(&pattern.replace('*', "a")).is_empty() => {
            Some("selector does not comply with the Kubernetes naming standards")
        }
        1 => None,
        _ => Some("selector can at most contain a single \"*\" rune"),
    }
}
