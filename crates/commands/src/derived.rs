//! What is derived of objects, for scripts: the verdict with its causes, and the plan. Owns the names of these fields, which are part of the
//! interface; the verdict is the model's, and the plan that of `forecast`.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::reading::{Reader, rows_of};
use capi_forecast::forecast::forecast;
use capi_rules::observe::dump::Dump;
use capi_types::key::group_of;
use capstan_base::time::{Timestamp, rfc3339};
use capstan_dashboard::fleet::{Cause, Fleet, RowId};
use capstan_engine::client::Connection;
use capstan_engine::client::clusters::list_clusters;

/// How an object is with everything below it, since when, and why.
pub fn standing(fleet: &Fleet, id: RowId) -> Value {
    let chain = fleet.cause(id).into_iter().filter_map(|hop| {
        let row = fleet.row(hop.id)?;
        Some(json!({
            "kind": row.gvk.kind, "namespace": row.namespace, "name": row.name,
            "condition": hop.condition, "message": hop.words,
        }))
    });
    json!({
        "verdict": fleet.verdict(id).word(),
        "since": fleet.since(id).map(rfc3339),
        "summary": fleet.what_is_wrong(id),
        "cause": chain.collect::<Vec<_>>(),
        "causes": causes(fleet, id),
    })
}

/// Everything that explains the verdict, worst first, with plain words where there are any.
fn causes(fleet: &Fleet, id: RowId) -> Vec<Value> {
    let one = |cause: Cause| {
        let row = fleet.row(cause.leaf)?;
        let mut value = json!({
            "verdict": cause.verdict.word(), "summary": cause.words, "kind": row.gvk.kind, "name": row.name,
            "count": cause.count, "since": cause.since.map(rfc3339),
        });
        if let Some(words) = fleet.explanation(cause.leaf) {
            (value["means"], value["usual"], value["check"]) =
                (json!(words.means), json!(words.usual), json!(words.check));
        }
        Some(value)
    };
    fleet.causes(id).into_iter().filter_map(one).collect()
}

/// Group, kind, namespace and name.
type Name = (String, String, String, String);

/// What is derived of all objects of a namespace.
pub struct Derived {
    fleet: Fleet,
    rows: HashMap<Name, RowId>,
    plans: HashMap<Name, Value>,
    /// What could not be read, in sentences.
    pub gaps: Vec<String>,
}

impl Derived {
    /// Reads what verdicts and plans rest on. `namespace` is empty for all.
    pub async fn read(connection: &Connection, namespace: &str, now: Timestamp) -> Self {
        let read = Reader::new(connection, namespace).everything(now).await;
        let (fleet, mut gaps) = (rows_of(&read.objects, now), read.gaps);
        let name = |row: &capstan_dashboard::fleet::Row| {
            let (group, kind) = (row.gvk.group.clone(), row.gvk.kind.clone());
            (group, kind, row.namespace.to_string(), row.name.to_string())
        };
        let rows = fleet.rows().map(|(id, row)| (name(row), id)).collect();
        let plans = match list_clusters(connection, namespace, None).await {
            Ok(lists) => {
                gaps.extend(lists.gaps);
                plans(&Dump::of_lists(lists.kinds), now)
            }
            Err(why) => {
                gaps.push(format!("plans could not be read: {why}"));
                HashMap::new()
            }
        };
        gaps.sort_unstable();
        // Both readings list the same kinds, and say the same of one that is refused.
        gaps.dedup();
        Self { fleet, rows, plans, gaps }
    }

    /// Puts beside an object what is derived of it; null for one that has no verdict.
    pub fn add(&self, object: &mut Value) {
        let name = name_of(object);
        let derived = self.rows.get(&name).map(|id| {
            let mut derived = standing(&self.fleet, *id);
            derived["plan"] = self.plans.get(&without_group(name)).cloned().unwrap_or_default();
            derived
        });
        object["derived"] = derived.unwrap_or_default();
    }
}

fn plans(dump: &Dump, now: Timestamp) -> HashMap<Name, Value> {
    let objects = forecast(dump, now).sanitized().objects;
    let one = |plan: &capi_forecast::forecast::ObjectPlan| {
        let name = (String::new(), plan.kind.to_owned(), plan.namespace.clone(), plan.name.clone());
        (name, json!(plan))
    };
    objects.iter().map(one).collect()
}

/// Plans do not say the group: each of their kinds is of one group alone.
fn without_group((_, kind, namespace, name): Name) -> Name {
    (String::new(), kind, namespace, name)
}

fn name_of(object: &Value) -> Name {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let group = object["apiVersion"].as_str().map(group_of).unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    (group, text(&object["kind"]), text(&metadata["namespace"]), text(&metadata["name"]))
}
