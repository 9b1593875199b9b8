//! `capstan get`: objects as kubectl prints them. The server makes the table from its print columns;
//! this module only lays it out. Owns layout and selection of columns; must not know any kind.

use std::fmt::Write as _;
use std::str::FromStr;

use anyhow::{Context as _, anyhow, bail};
use clap::{Args, ValueEnum};
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use super::derived::Derived;
use super::exit_code::WrongUsage;
use super::output::{self, Style};
use super::target::{NamedKind, TargetError};
use capi_rules::status::outside_owners::ScalingBounds;
use capi_types::key::{Gvk, ObjectKey, ObjectRef};
use capstan_base::time::Timestamp;
use capstan_dashboard::fleet::watch::redact;
use capstan_dashboard::operations::cell_text;
use capstan_engine::client::catalog::Catalog;
use capstan_engine::client::read::{get_value, list_values, read_table};
use capstan_engine::client::{self, Connection, explain};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputArg {
    Table,
    Wide,
    Json,
    Yaml,
    Name,
}

#[derive(Clone, Debug, Args)]
pub struct GetArgs {
    /// clusters, kcp, md, ms, machines, …, several with commas between; `kubeconfig`: that of a workload cluster, by the name of its Cluster
    pub resource: Resource,
    /// Only these
    pub names: Vec<String>,
    /// Label selector
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,
    #[arg(short, long, default_value = "table")]
    pub output: OutputArg,
    /// Leave out the heading
    #[arg(long)]
    pub no_headers: bool,
    /// Also print who owns which field (yaml, json)
    #[arg(long)]
    pub show_managed_fields: bool,
    /// Also print verdict, causes and plan of each object, as the dashboard has them (yaml, json)
    #[arg(long)]
    pub derived: bool,
}

/// In place of a kind: what a Cluster's Secret has.
const KUBECONFIG: &str = "kubeconfig";

/// What is printed; the name of an object may stand behind a slash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    kinds: Kinds,
    name: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kinds {
    Kubeconfig,
    Objects(Vec<NamedKind>),
}

impl FromStr for Resource {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let (kinds, name) = text.split_once('/').map_or((text, None), |(kinds, name)| (kinds, Some(name)));
        let kinds = if kinds == KUBECONFIG {
            Kinds::Kubeconfig
        } else {
            Kinds::Objects(kinds.split(',').map(NamedKind::of).collect::<Result<_, _>>()?)
        };
        Ok(Self { kinds, name: name.map(str::to_owned) })
    }
}

/// Narrowest column and space behind the widest cell.
/// Source: kubectl `printers.GetNewTabWriter`, v1.35.
const COLUMN_MIN: usize = 6;
const PADDING: usize = 3;

/// What a command prints: the document, and remarks, as when there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub document: String,
    pub remarks: Vec<String>,
}

/// Reads and lays out. `namespace` is empty for all namespaces.
///
/// # Errors
/// Unknown kind, named object not found, or the answer of the server, in a sentence.
pub async fn get(
    connection: &Connection,
    args: &GetArgs,
    namespace: &str,
    now: Timestamp,
    style: Style,
) -> anyhow::Result<Answer> {
    let Resource { kinds, name } = &args.resource;
    let is_document = matches!(args.output, OutputArg::Json | OutputArg::Yaml);
    if args.derived && !is_document {
        bail!(WrongUsage("--derived has no columns: add -o json or -o yaml".to_owned()));
    }
    let names: Vec<String> = name.iter().chain(&args.names).cloned().collect();
    let Kinds::Objects(kinds) = kinds else { return kubeconfig(connection, &names, namespace).await };
    // kubectl refuses it, too: no request chooses by both.
    if !names.is_empty() && args.selector.is_some() {
        bail!(WrongUsage("a selector and names exclude each other: use one of them".to_owned()));
    }
    let selector = args.selector.as_deref().unwrap_or_default();
    let owners = args.show_managed_fields;
    // One for all kinds: what the server serves is asked once.
    let catalog = Catalog::new(connection.client.clone());
    let mut queries = Vec::new();
    for kind in kinds {
        let gvk = kind.served(connection, &catalog).await?;
        // kubectl refuses it, too: only within a namespace a name is that of one object.
        if namespace.is_empty() && !names.is_empty() && gvk.namespaced {
            bail!(WrongUsage(
                "objects are named within a namespace: leave out --all-namespaces, or leave out the names"
                    .to_owned()
            ));
        }
        queries.push(Query { connection, gvk, namespace, names: &names, selector, owners });
    }
    let derived = match args.derived {
        true => Some(Derived::read(connection, namespace, now).await),
        false => None,
    };
    let document = match args.output {
        OutputArg::Table | OutputArg::Wide => tables(&queries, args).await?,
        OutputArg::Json => output::json(&document(&queries, derived.as_ref()).await?)?,
        OutputArg::Yaml => serde_saphyr::to_string(&document(&queries, derived.as_ref()).await?)
            .context("cannot be printed as YAML")?,
        OutputArg::Name => list_of_names(&queries).await?,
    };
    let is_empty = document.is_empty() && matches!(args.output, OutputArg::Table | OutputArg::Wide);
    let mut remarks = derived.map(|derived| derived.gaps).unwrap_or_default();
    remarks.extend(is_empty.then(|| nothing(namespace)));
    Ok(Answer { document: style.block(document), remarks })
}

/// One table after the other. Of several kinds a name says which it is of, and a kind without objects has no table.
async fn tables(queries: &[Query<'_>], args: &GetArgs) -> anyhow::Result<String> {
    let mut tables = Vec::new();
    for query in queries {
        tables.extend(query.table(args, queries.len() > 1).await?);
    }
    Ok(tables.join("\n"))
}

/// One object as itself, several or a list as a `List`.
async fn document(queries: &[Query<'_>], derived: Option<&Derived>) -> anyhow::Result<Value> {
    let mut objects = Vec::new();
    for query in queries {
        objects.extend(query.objects().await?);
    }
    if let Some(derived) = derived {
        objects.iter_mut().for_each(|object| derived.add(object));
    }
    let is_one = matches!(queries, [query] if query.names.len() == 1);
    // kubectl prints one named object bare, and a list even of one.
    if let Some(object) = objects.pop_if(|_| is_one) {
        return Ok(object);
    }
    Ok(json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": objects}))
}

async fn list_of_names(queries: &[Query<'_>]) -> anyhow::Result<String> {
    let mut names = String::new();
    for query in queries {
        for object in query.objects().await? {
            let _ = writeln!(names, "{}", query.named(&cell_text(&object["metadata"]["name"])));
        }
    }
    Ok(names)
}

fn nothing(namespace: &str) -> String {
    if namespace.is_empty() {
        "No resources found".to_owned()
    } else {
        format!("No resources found in {namespace} namespace.")
    }
}

/// The kubeconfig of the named workload cluster, as its Secret has it.
/// Source: cluster-api `util/kubeconfig` (`FromSecret`), v1.14.2.
async fn kubeconfig(connection: &Connection, names: &[String], namespace: &str) -> anyhow::Result<Answer> {
    let [cluster] = names else {
        bail!(WrongUsage(format!("`get {KUBECONFIG}` takes the name of one Cluster")))
    };
    if namespace.is_empty() {
        bail!(WrongUsage("a Cluster is named within a namespace: leave out --all-namespaces".to_owned()));
    }
    let key = ObjectKey::new(namespace, format!("{cluster}-kubeconfig"));
    let secret: Option<Secret> = client::get(&connection.client, &key)
        .await
        .map_err(|e| anyhow!("cannot read Secret {key}: {}", explain(&e, &connection.server)))?;
    let secret = secret.ok_or_else(|| {
        anyhow!("there is no Secret {key}: check the name of the Cluster and -n; it is made when the control plane begins")
    })?;
    let value = secret.data.and_then(|mut data| data.remove("value"));
    let document = value.and_then(|bytes| String::from_utf8(bytes.0).ok());
    let document = document.ok_or_else(|| anyhow!("Secret {key} holds no kubeconfig under `value`"))?;
    Ok(Answer { document, remarks: Vec::new() })
}

struct Query<'a> {
    connection: &'a Connection,
    gvk: Gvk,
    namespace: &'a str,
    names: &'a [String],
    selector: &'a str,
    /// Print managed fields.
    owners: bool,
}

impl Query<'_> {
    fn explain(&self, error: &kube::Error) -> anyhow::Error {
        anyhow!("cannot read {}: {}", self.gvk.plural, explain(error, &self.connection.server))
    }

    /// A name with its kind, such as `machine.cluster.x-k8s.io/a`.
    fn named(&self, name: &str) -> String {
        let kind = self.gvk.kind.to_lowercase();
        if self.gvk.group.is_empty() {
            format!("{kind}/{name}")
        } else {
            format!("{kind}.{}/{name}", self.gvk.group)
        }
    }

    /// `None` without objects. `is_among_others`: names say of which kind they are.
    async fn table(&self, args: &GetArgs, is_among_others: bool) -> anyhow::Result<Option<String>> {
        let mut tables = Vec::new();
        // The server makes one table per request, and has none for a few names.
        for name in self.each() {
            let table = read_table(
                &self.connection.client,
                &self.gvk,
                self.namespace,
                name.as_deref(),
                self.selector,
            )
            .await
            .map_err(|e| self.explain(&e))?;
            tables.push(table);
        }
        let shown = columns(&tables, args.output == OutputArg::Wide);
        let with_namespace = self.namespace.is_empty() && self.gvk.namespaced;
        let mut lines: Vec<Vec<String>> = Vec::new();
        for row in tables.iter().flat_map(|t| t["rows"].as_array().into_iter().flatten()) {
            let mut cells = Vec::new();
            if with_namespace {
                cells.push(cell_text(&row["object"]["metadata"]["namespace"]));
            }
            cells.extend(shown.iter().map(|(at, column)| match cell_text(&row["cells"][*at]) {
                name if is_among_others && column == "Name" => self.named(&name),
                // Kinds of Cluster API show spec.replicas under this name.
                cell if column == "Desired" => scaled(cell, &row["object"]),
                cell => cell,
            }));
            lines.push(cells);
        }
        if lines.is_empty() {
            return Ok(None);
        }
        if !args.no_headers {
            let namespace = with_namespace.then(|| "NAMESPACE".to_owned());
            let heads =
                namespace.into_iter().chain(shown.iter().map(|(_, name)| name.to_uppercase())).collect();
            lines.insert(0, heads);
        }
        Ok(Some(lay_out(&lines)))
    }

    /// `None` once for a list, or every name.
    fn each(&self) -> Vec<Option<String>> {
        if self.names.is_empty() { vec![None] } else { self.names.iter().cloned().map(Some).collect() }
    }

    async fn objects(&self) -> anyhow::Result<Vec<Value>> {
        let client = &self.connection.client;
        if self.names.is_empty() {
            let listed = list_values(client, &self.gvk, self.namespace, self.selector).await;
            return Ok(listed
                .map_err(|e| self.explain(&e))?
                .into_iter()
                .map(|o| self.presentable(o))
                .collect());
        }
        let mut objects = Vec::new();
        for name in self.names {
            let key = ObjectKey::new(self.namespace, name.as_str());
            let target = ObjectRef { gvk: self.gvk.clone(), key, uid: String::new() };
            match get_value(client, &target).await.map_err(|e| self.explain(&e))? {
                Some(object) => objects.push(self.presentable(object)),
                None => bail!("there is no {target}: check the name, the namespace (-n) and the context"),
            }
        }
        Ok(objects)
    }

    /// Items of a list lack kind and version; few want managed fields; secret data stays hidden.
    fn presentable(&self, mut object: Value) -> Value {
        object["apiVersion"] = self.gvk.api_version().into();
        object["kind"] = self.gvk.kind.as_str().into();
        if let (false, Some(metadata)) = (self.owners, object["metadata"].as_object_mut()) {
            metadata.remove("managedFields");
        }
        // By the group as well: another one may have a kind of this name.
        if self.gvk.group.is_empty() && self.gvk.kind == "Secret" {
            redact(&mut object);
        }
        object
    }
}

/// Position and name of the columns to show: those of priority 0, or all.
fn columns(tables: &[Value], wide: bool) -> Vec<(usize, String)> {
    // Each named object has a table of its own with the same columns: the first one's count.
    let definitions = tables.iter().find_map(|t| t["columnDefinitions"].as_array());
    definitions
        .into_iter()
        .flatten()
        .enumerate()
        .filter(|(_, column)| wide || column["priority"].as_i64().unwrap_or(0) == 0)
        .map(|(at, column)| (at, cell_text(&column["name"])))
        .collect()
}

/// The number of replicas, with its bounds where an autoscaler sets it.
fn scaled(number: String, object: &Value) -> String {
    match ScalingBounds::of(object) {
        Some(bounds) if !number.is_empty() => format!("{number} ({bounds})"),
        _ => number,
    }
}

/// Columns as Go's tabwriter lays them out: the last cell of a line is not padded.
fn lay_out(lines: &[Vec<String>]) -> String {
    let count = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| {
        // Go's tabwriter counts characters and not cells, and columns shall be where kubectl has them.
        let widest = lines.iter().filter_map(|line| line.get(at)).map(|cell| cell.chars().count()).max();
        (widest.unwrap_or(0) + PADDING).max(COLUMN_MIN)
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut text = String::new();
    for line in lines {
        for (at, cell) in line.iter().enumerate() {
            if at + 1 == line.len() {
                text.push_str(cell);
            } else {
                let _ = write!(text, "{cell:<width$}", width = widths[at]);
            }
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Value {
        json!({
            "columnDefinitions": [
                {"name": "Name", "priority": 0}, {"name": "CP Ready", "priority": 10}, {"name": "Phase", "priority": 0},
                {"name": "Age", "priority": 0}, {"name": "Version", "priority": 0},
            ],
            "rows": [
                {"cells": ["a-long-name", 3, "Provisioned", "5m", null]},
                {"cells": ["b", null, "Pending\nmore", "2d", "v1.36.2"]},
            ],
        })
    }

    #[test]
    fn a_number_that_an_autoscaler_sets_has_its_bounds() {
        let pool = |most: &str| {
            json!({"metadata": {"annotations": {
                "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size": "2",
                "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": most,
            }}})
        };
        assert_eq!(scaled("3".to_owned(), &pool("10")), "3 (2-10 auto)");
        assert_eq!(scaled("3".to_owned(), &pool("many")), "3");
        assert_eq!(scaled(String::new(), &pool("10")), "");
        assert_eq!(scaled("3".to_owned(), &Value::Null), "3");
    }

    #[test]
    fn the_layout_is_kubectls() {
        let tables = [table()];
        let lines = |wide| -> Vec<Vec<String>> {
            let shown = columns(&tables, wide);
            let mut lines = vec![shown.iter().map(|(_, name)| name.to_uppercase()).collect()];
            for row in tables[0]["rows"].as_array().expect("rows") {
                lines.push(shown.iter().map(|(at, _)| cell_text(&row["cells"][*at])).collect());
            }
            lines
        };
        assert_eq!(
            lay_out(&lines(false)),
            "NAME          PHASE         AGE   VERSION\n\
             a-long-name   Provisioned   5m    \n\
             b             Pending...    2d    v1.36.2\n"
        );
        assert_eq!(lines(true)[0][1], "CP READY");
        assert_eq!(lines(true)[1][1], "3");
    }
}
