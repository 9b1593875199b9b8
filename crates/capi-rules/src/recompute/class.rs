//! The status of a ClusterClass in a dump: which template references are outdated by the definitions
//! that are here, and the variables it declares itself. Must not call extensions.
//! Source: cluster-api `core/reconcilers/clusterclass/clusterclass_controller.go`, v1.14.2.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Map, Value, json};

use super::outcome::Outcome;
use crate::observe::dump::Dump;
use crate::status::cluster_class::{ObservedClass, OutdatedRef, conditions};
use crate::status::conditions::setter::{self, paused};
use capi_types::cluster::Cluster;
use capi_types::key::ObjectKey;
use capi_types::machine::ReadinessGate;
use capi_types::names::CORE_GROUP;
use capi_types::names::annotation::PAUSED;
use capstan_base::time::Timestamp;

pub(super) const VERSIONS: &str = "RefVersionsUpToDate";
pub(super) const VARIABLES: &str = "VariablesReady";

/// The class that a Cluster is made from.
pub(super) fn class_of<'a>(dump: &'a Dump, key: &ObjectKey, cluster: &Cluster) -> Option<&'a Value> {
    let class = &cluster.spec.topology.as_ref()?.class_ref;
    let namespace = class.namespace.as_deref().unwrap_or(&key.namespace);
    dump.raw(CORE_GROUP, "ClusterClass", &ObjectKey::new(namespace, &class.name))
}

/// The gates that a Cluster without its own takes from its class.
pub(super) fn class_gates(dump: &Dump, key: &ObjectKey, cluster: &Cluster) -> Vec<ReadinessGate> {
    let gates = class_of(dump, key, cluster).map(|class| class["spec"]["availabilityGates"].clone());
    gates.and_then(|gates| serde_json::from_value(gates).ok()).unwrap_or_default()
}

/// The templates of a class in the order in which its controller reads them.
fn references(class: &Value) -> Vec<&Value> {
    let spec = &class["spec"];
    let mut all = vec![
        &spec["infrastructure"]["templateRef"],
        &spec["controlPlane"]["templateRef"],
        &spec["controlPlane"]["machineInfrastructure"]["templateRef"],
    ];
    for workers in ["machineDeployments", "machinePools"] {
        for worker in spec["workers"][workers].as_array().into_iter().flatten() {
            all.extend([&worker["bootstrap"]["templateRef"], &worker["infrastructure"]["templateRef"]]);
        }
    }
    all.retain(|reference| reference.is_object());
    all
}

/// Group, version, kind and name of a reference.
fn parts(reference: &Value) -> [&str; 4] {
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
    [group, version, text("kind"), text("name")]
}

/// Its variables come from extensions, too.
pub(super) fn asks_extensions(class: &Value) -> bool {
    let patches = class["spec"]["patches"].as_array();
    patches.into_iter().flatten().any(|p| p["external"]["discoverVariablesExtension"].is_string())
}

/// The definitions of all its templates are here.
pub(super) fn knows_versions(dump: &Dump, class: &Value) -> bool {
    let known = |reference: &&Value| {
        let [group, _, kind, _] = parts(reference);
        dump.definition(group, kind).is_some()
    };
    references(class).iter().all(known)
}

/// `None` in it: a template or its contract could not be found. Upstream stops at either.
fn outdated(dump: &Dump, namespace: &str, class: &Value) -> Option<Vec<OutdatedRef>> {
    let mut seen = BTreeSet::new();
    let mut outdated = Vec::new();
    for reference in references(class) {
        let [group, version, kind, name] = parts(reference);
        // Several classes of workers may share a template, and it is named once.
        if !seen.insert((group, version, kind, name)) {
            continue;
        }
        let newest = &dump.definition(group, kind)?.as_ref().ok()?.1;
        let gone =
            dump.has_kind(group, kind) && dump.raw(group, kind, &ObjectKey::new(namespace, name)).is_none();
        if gone {
            return None;
        }
        if newest != version {
            let [kind, name, current, latest] = [kind, name, version, newest].map(str::to_owned);
            outdated.push(OutdatedRef { kind, name, current, latest });
        }
    }
    Some(outdated)
}

/// The class with its computed status; what cannot be known from files stays.
pub(super) fn class_status(dump: &Dump, key: &ObjectKey, class: &Value, now: Timestamp) -> Outcome<Value> {
    let meta = &class["metadata"];
    if !meta["deletionTimestamp"].is_null() {
        return Outcome::Left("it is being deleted".to_owned());
    }
    let stored = &class["status"]["conditions"];
    let Ok(mut list) =
        serde_json::from_value::<Vec<Condition>>(if stored.is_null() { json!([]) } else { stored.clone() })
    else {
        return Outcome::Left("its stored conditions cannot be read".to_owned());
    };
    let generation = meta["generation"].as_i64();
    let mut status = match &class["status"] {
        Value::Object(status) => status.clone(),
        _ => Map::new(),
    };
    if meta["annotations"].get(PAUSED).is_some() {
        setter::set(&mut list, paused("ClusterClass", false, true), generation, now);
    } else {
        let (versions, variables) = (knows_versions(dump, class), !asks_extensions(class));
        let outdated = if versions { outdated(dump, &key.namespace, class) } else { None };
        let observed =
            ObservedClass { conditions: list.clone(), generation, discovery_failure: None, outdated };
        let found = conditions(&observed, now);
        let known = |c: &Condition| (c.type_ != VERSIONS || versions) && (c.type_ != VARIABLES || variables);
        for condition in found.into_iter().filter(known) {
            setter::set(&mut list, condition, generation, now);
        }
        if variables {
            // Before the new ones: a class that lost its last variable has no list any more.
            status.remove("variables");
            status.extend(inline(class).map(|all| ("variables".to_owned(), all)));
        }
        // An internal error ends the pass upstream, and leaves the generation unobserved.
        if generation.is_some() && list.iter().all(|c| c.reason != "InternalError") {
            status.insert("observedGeneration".to_owned(), generation.into());
        }
    }
    status.insert("conditions".to_owned(), json!(list));
    let mut after = class.clone();
    after["status"] = status.into();
    Outcome::New(after)
}

/// The variables that the class declares itself, by name, as its status lists them; absent without any.
fn inline(class: &Value) -> Option<Value> {
    let mut all: Vec<Value> = Vec::new();
    for variable in class["spec"]["variables"].as_array().into_iter().flatten() {
        let mut definition = json!({"from": "inline"});
        for field in ["required", "deprecatedV1Beta1Metadata", "schema"] {
            if let Some(value) = variable.get(field) {
                definition[field] = value.clone();
            }
        }
        all.push(
            json!({"name": variable["name"], "definitionsConflict": false, "definitions": [definition]}),
        );
    }
    all.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    (!all.is_empty()).then(|| all.into())
}
