//! What an object is related to: what the fleet has on it, and what the object itself refers to once it was read. Owns the
//! list and where each entry leads; must not know how it is drawn.

use serde_json::Value;

use crate::fleet::{Fleet, Item, Link, Relation, Relative, SourceId, Target, Uid};
use capi_types::names::CORE_GROUP;

/// Why a Node has no details.
pub const NODE_ELSEWHERE: &str = "a Node is in the workload cluster, which is not read from here";
/// References deeper in a spec are not looked for.
const DEPTH_MAX: usize = 6;
/// Entries at most.
const LINKS_MAX: usize = 200;

/// Where an entry leads.
#[derive(Clone, Debug, PartialEq)]
pub enum Way {
    /// To a part of the fleet.
    Item(Item),
    /// To an object that is read when it is opened.
    Object(Target),
    /// Nowhere from here, with why.
    None(&'static str),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Related {
    /// What it is to the object.
    pub word: &'static str,
    pub kind: String,
    pub name: String,
    pub way: Way,
}

/// Everything that `target` is related to. `object`: itself, where it was read; its text is sanitised.
pub fn related(fleet: &Fleet, item: Option<Item>, target: &Target, object: Option<&Value>) -> Vec<Related> {
    let id = item.and_then(|item| if let Item::Row(id) = item { Some(id) } else { None });
    let details = id.and_then(|id| fleet.details(id));
    let mut all: Vec<Related> =
        details.iter().flat_map(|d| &d.links).map(|link| of_link(link, item, target.source)).collect();
    if let Some(Item::Reference { of, .. }) = item
        && let Some(row) = fleet.row(of)
    {
        let (kind, name) = (row.gvk.kind.clone(), row.name.to_string());
        all.push(Related { word: "of", kind, name, way: Way::Item(Item::Row(of)) });
    }
    for more in object.into_iter().flat_map(|object| referred(fleet, target, object)) {
        if all.len() < LINKS_MAX && !all.iter().any(|one| one.kind == more.kind && one.name == more.name) {
            all.push(more);
        }
    }
    all
}

fn of_link(link: &Link<'_>, item: Option<Item>, source: SourceId) -> Related {
    let reference = |which| item.map(|item| Item::Reference { of: item.row(), which });
    let (word, part) = match link.relation {
        Relation::Cluster => ("cluster", None),
        Relation::Owner => ("owner", None),
        Relation::ControlPlane => ("control plane", reference(Relative::ControlPlane)),
        Relation::Infrastructure => ("infrastructure", reference(Relative::Infrastructure)),
        Relation::Bootstrap => ("bootstrap", reference(Relative::Bootstrap)),
        Relation::Node => ("node", None),
        Relation::Mentioned => ("mentioned", None),
    };
    let way = match (link.row.map(Item::Row).or(part), link.relation) {
        (_, Relation::Node) => Way::None(NODE_ELSEWHERE),
        (Some(item), _) => Way::Item(item),
        (None, _) => Way::Object(target_of(source, link.group, link.kind, link.namespace, link.name)),
    };
    Related { word, kind: link.kind.to_owned(), name: link.name.to_owned(), way }
}

fn target_of(source: SourceId, group: &str, kind: &str, namespace: &str, name: &str) -> Target {
    let [group, kind, namespace, name] = [group, kind, namespace, name].map(str::to_owned);
    Target { source, group, kind, namespace, name }
}

/// What the object names itself: its owners, and every reference in its spec.
fn referred(fleet: &Fleet, target: &Target, object: &Value) -> Vec<Related> {
    let mut found = Vec::new();
    for owner in object["metadata"]["ownerReferences"].as_array().into_iter().flatten() {
        let row = owner["uid"].as_str().and_then(|uid| fleet.find(target.source, Uid::parse(uid)));
        if let Some(mut related) = reference(owner, "owner", target) {
            if let Some(id) = row {
                related.way = Way::Item(Item::Row(id));
            }
            found.push(related);
        }
    }
    references(&object["spec"], target, DEPTH_MAX, &mut found);
    let class = &object["spec"]["topology"]["classRef"];
    if let Some(name) = class["name"].as_str() {
        let namespace = class["namespace"].as_str().unwrap_or(&target.namespace);
        let to = target_of(target.source, CORE_GROUP, "ClusterClass", namespace, name);
        let (kind, name) = (to.kind.clone(), to.name.clone());
        found.push(Related { word: "class", kind, name, way: Way::Object(to) });
    }
    found
}

fn references(value: &Value, target: &Target, depth: usize, found: &mut Vec<Related>) {
    let parts: Vec<&Value> = match value {
        Value::Object(fields) => fields.values().collect(),
        Value::Array(items) => items.iter().collect(),
        _ => return,
    };
    // What is a reference itself has no others inside.
    let own = reference(value, "refers to", target);
    if own.is_none() && depth > 0 && found.len() < LINKS_MAX {
        parts.into_iter().for_each(|part| references(part, target, depth - 1, found));
    }
    found.extend(own);
}

/// An object that names a kind of some API group and a name.
fn reference(value: &Value, word: &'static str, target: &Target) -> Option<Related> {
    let text = |key: &str| value[key].as_str().filter(|text| !text.is_empty());
    let (kind, name) = (text("kind")?, text("name")?);
    let group = text("apiGroup").or_else(|| Some(text("apiVersion")?.split_once('/')?.0))?;
    let namespace = text("namespace").unwrap_or(&target.namespace);
    let to = target_of(target.source, group, kind, namespace, name);
    let (kind, name) = (kind.to_owned(), name.to_owned());
    Some(Related { word, kind, name, way: Way::Object(to) })
}
