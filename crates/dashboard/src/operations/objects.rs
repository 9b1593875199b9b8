//! Objects of any kind that a server has, as the table of its print columns. Owns the request and what a table is; must not know
//! what the objects mean, nor how a table is drawn. Objects are read whole where a person asks for fields of them, and Secrets never are.

use serde_json::Value;

use super::field_path::FieldPath;
use capi_types::key::Gvk;
use capstan_base::text::sanitize_line;
use capstan_engine::client::catalog::{Catalog, Missing};
use capstan_engine::client::read::read_first_rows;
use capstan_engine::client::{Connection, explain};

/// So many objects are read at most: nobody reads through more.
pub const ROWS_MAX: u32 = 1_000;

/// A column of a person's own: what a path finds in each object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathColumn {
    pub name: String,
    pub path: FieldPath,
}

/// The first objects of a kind. All text in it is sanitised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectTable {
    pub gvk: Gvk,
    pub columns: Vec<TableColumn>,
    pub rows: Vec<TableRow>,
    /// There are more objects, and how many where the server says so.
    pub more: Option<Option<u64>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableColumn {
    pub name: String,
    /// Only for who asks for more.
    pub is_wide: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableRow {
    /// Empty for what is in no namespace.
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// One for each column.
    pub cells: Vec<String>,
}

/// Which objects are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectQuery {
    /// The kind, as a person names it.
    pub named: String,
    /// The kind that is meant where the server does not have that one; none when empty.
    pub otherwise: &'static str,
    /// All when empty.
    pub namespace: String,
    /// Labels; all when empty.
    pub selector: String,
    /// Columns of the person's own, behind those of the server.
    pub own: Vec<PathColumn>,
}

/// The objects that are asked for. `catalog`: what is known of the server's kinds.
///
/// # Errors
/// The server has no such kind, does not give it, or does not answer: a sentence.
pub async fn read_objects(
    connection: &Connection,
    catalog: &Catalog,
    query: &ObjectQuery,
) -> Result<ObjectTable, String> {
    let ObjectQuery { named, otherwise, namespace, selector, own } = query;
    let found = match catalog.named(named).await {
        Err(Missing::NotServed(_)) if !otherwise.is_empty() => catalog.named(otherwise).await,
        found => found,
    };
    let gvk = found.map_err(|missing| match missing {
        Missing::NotServed(why) => why,
        Missing::Unreachable(error) => explain(&error, &connection.server),
    })?;
    let namespace = if gvk.namespaced { namespace.as_str() } else { "" };
    if !own.is_empty() && gvk.group.is_empty() && gvk.kind == "Secret" {
        return Err("fields of Secrets are not read: their values are never shown".to_owned());
    }
    let read =
        read_first_rows(&connection.client, &gvk, namespace, selector, ROWS_MAX, !own.is_empty()).await;
    let table =
        read.map_err(|e| format!("cannot read {}: {}", gvk.plural, explain(&e, &connection.server)))?;
    Ok(ObjectTable::of(gvk, &table, own))
}

impl ObjectTable {
    fn of(gvk: Gvk, table: &Value, own: &[PathColumn]) -> Self {
        let definitions = table["columnDefinitions"].as_array();
        let column = |definition: &Value| TableColumn {
            name: cell_text(&definition["name"]),
            is_wide: definition["priority"].as_i64().unwrap_or(0) != 0,
        };
        let columns: Vec<TableColumn> = definitions.into_iter().flatten().map(column).collect();
        // A server without tables answers with the objects themselves.
        let is_table = !columns.is_empty();
        let list = if is_table { &table["rows"] } else { &table["items"] };
        let mut columns =
            if is_table { columns } else { vec![TableColumn { name: "Name".to_owned(), is_wide: false }] };
        let served = columns.len();
        columns.extend(own.iter().map(|own| TableColumn { name: own.name.clone(), is_wide: false }));
        let row = |row: &Value| {
            let object = if is_table { &row["object"] } else { row };
            let text = |field: &str| cell_text(&object["metadata"][field]);
            let mut cells: Vec<String> = if is_table {
                (0..served).map(|at| cell_text(&row["cells"][at])).collect()
            } else {
                vec![text("name")]
            };
            cells.extend(own.iter().map(|own| found_text(&own.path, object)));
            TableRow { namespace: text("namespace"), name: text("name"), uid: text("uid"), cells }
        };
        let rows = list.as_array().into_iter().flatten().map(row).collect();
        let is_cut = table["metadata"]["continue"].as_str().is_some_and(|token| !token.is_empty());
        let more = is_cut.then(|| table["metadata"]["remainingItemCount"].as_u64());
        Self { gvk, columns, rows, more }
    }
}

/// As kubectl prints columns of a person's own: values with commas between them, `<none>` where there is none.
fn found_text(path: &FieldPath, object: &Value) -> String {
    let found: Vec<String> = path.find(object).into_iter().map(cell_text).collect();
    if found.is_empty() { "<none>".to_owned() } else { found.join(",") }
}

/// A cell as kubectl prints it: the first line only, nothing for null.
/// Source: kubectl `tableprinter.go` `printTable`, v1.35; control characters are replaced here.
pub fn cell_text(cell: &Value) -> String {
    let text = match cell {
        Value::Null => String::new(),
        Value::String(text) => match text.split_once(['\n', '\r', '\u{c}']) {
            Some((first, _)) => format!("{first}..."),
            None => text.clone(),
        },
        other => other.to_string(),
    };
    sanitize_line(&text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn gvk() -> Gvk {
        Gvk {
            group: String::new(),
            version: "v1".to_owned(),
            kind: "Secret".to_owned(),
            plural: "secrets".to_owned(),
            namespaced: true,
        }
    }

    #[test]
    fn a_table_has_text_that_can_be_shown() {
        let table = ObjectTable::of(
            gvk(),
            &json!({
                "metadata": {"continue": "x", "remainingItemCount": 7},
                "columnDefinitions": [{"name": "Name"}, {"name": "Data", "priority": 1}],
                "rows": [{"cells": ["a\u{1b}[31m", 3], "object": {"metadata": {"name": "a", "namespace": "n"}}},
                         {"cells": [null], "object": {}}],
            }),
            &[],
        );
        assert_eq!((table.more, table.columns[1].is_wide), (Some(Some(7)), true));
        assert_eq!(table.rows[1].cells, ["", ""]);
        assert!(!table.rows[0].cells[0].contains('\u{1b}'), "{:?}", table.rows[0]);
        assert_eq!((table.rows[0].namespace.as_str(), table.rows[0].cells[1].as_str()), ("n", "3"));
    }

    #[test]
    fn a_server_without_tables_shows_names_and_no_more() {
        let items = json!({"items": [{"metadata": {"name": "a"}, "data": {"password": "c2VjcmV0"}}]});
        let table = ObjectTable::of(gvk(), &items, &[]);
        assert_eq!(table.rows[0].cells, ["a"]);
        assert!(!format!("{table:?}").contains("c2VjcmV0"));
        assert_eq!(ObjectTable::of(gvk(), &json!({}), &[]).rows, []);
    }

    #[test]
    fn columns_of_ones_own_stand_behind_those_of_the_server() {
        let own = |name: &str, path: &str| PathColumn {
            name: name.to_owned(),
            path: FieldPath::parse(path).expect("a path"),
        };
        let own = [own("ZONE", ".spec.zone"), own("KEYS", ".spec.taints[*].key"), own("ALL", ".spec.one")];
        let object = json!({"metadata": {"name": "a"}, "spec": {
            "zone": "z\u{1b}[2J", "taints": [{"key": "k"}, {"key": "l"}]}});
        let rows = json!([{"cells": ["a"], "object": object}]);
        let with_table = json!({"columnDefinitions": [{"name": "Name"}], "rows": rows});
        for answer in [with_table, json!({"items": [object]})] {
            let table = ObjectTable::of(gvk(), &answer, &own);
            let names: Vec<_> = table.columns.iter().map(|column| column.name.as_str()).collect();
            assert_eq!(names, ["Name", "ZONE", "KEYS", "ALL"]);
            assert_eq!(table.rows[0].cells, ["a", "z\u{fffd}[2J", "k,l", "<none>"]);
        }
    }
}
