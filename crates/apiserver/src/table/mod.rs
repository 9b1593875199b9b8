//! `Table` answers (`meta.k8s.io/v1`): columns of a kind, and rows made from objects' JSON text.
//! Owns cells and column definitions; must not know lists, stores or requests.
//!
//! A row reads only the parts of the object that its columns name, so that a list of thousands is
//! never parsed as a whole.
//!
//! Source: apiextensions-apiserver `pkg/registry/customresource/tableconvertor/tableconvertor.go`,
//! kubernetes `pkg/printers`, v1.36.

mod go;
mod native;
mod pick;
mod row;
mod workloads;

#[cfg(test)]
mod tests;

use serde_json::{Value, json};

use self::pick::Wanted;
use crate::failure::Failure;
use capstan_base::time::Timestamp;
use k8s_machinery::json_path::{JsonPath, TooMany, Visits};

/// Values that the paths of one row, and of all rows of a table, may look at.
const ROW_VISITS_MAX: usize = 100_000;
const TABLE_VISITS_MAX: usize = 5_000_000;
/// A cell whose path was given up.
const TOO_MANY: &str = "<too many>";

/// What the rows of one table have left to look at.
#[derive(Debug)]
pub struct Budget(usize);

impl Default for Budget {
    fn default() -> Self {
        Self(TABLE_VISITS_MAX)
    }
}

impl Budget {
    /// Calls `row` with what it may spend, and takes off what it did.
    fn spend<T>(&mut self, row: impl FnOnce(&mut Visits) -> T) -> T {
        // A single large object must not leave the rows after it without cells.
        let given = self.0.min(ROW_VISITS_MAX);
        let mut visits = Visits(given);
        let made = row(&mut visits);
        self.0 -= given - visits.0;
        made
    }
}

/// What the `object` of a row holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Include {
    /// `includeObject=None`: only the cells.
    Nothing,
    /// A `PartialObjectMetadata`, what kubectl asks for.
    Metadata,
    /// The whole object.
    Object,
}

/// The columns of one kind in one version, ready to render.
#[derive(Clone, Debug)]
pub struct Columns {
    columns: Vec<Column>,
    wanted: Wanted,
    /// Some path may lead anywhere: the object is read as a whole.
    whole: bool,
    /// The JSON text of `columnDefinitions`.
    definitions: String,
}

#[derive(Clone, Debug)]
struct Column {
    name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    type_: String,
    format: String,
    description: String,
    /// Above zero: only shown by `-o wide`.
    priority: i64,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    Path(JsonPath),
    /// Dotted fields that are read, and how the cell is made from them.
    Native(&'static [&'static str], row::Render),
}

impl Columns {
    /// From one entry of a CustomResourceDefinition's `spec.versions`. A path that cannot be read ends the
    /// table there, as upstream does.
    pub fn custom(version: &Value) -> Self {
        let declared = version["additionalPrinterColumns"].as_array().map(Vec::as_slice).unwrap_or_default();
        let age = [json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"})];
        let declared = if declared.is_empty() { &age } else { declared };
        Self::new([name()].into_iter().chain(declared.iter().map_while(declared_column)))
    }

    /// Of a built-in kind.
    pub fn native(group: &str, kind: &str) -> Self {
        let columns = native::columns(group, kind).unwrap_or_else(|| vec![created_at()]);
        let name = (!native::hides_name(group, kind)).then(name);
        Self::new(name.into_iter().chain(columns))
    }

    fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        let columns: Vec<Column> = columns.into_iter().collect();
        let (mut wanted, mut whole) = (Wanted::default(), false);
        for column in &columns {
            match &column.source {
                Source::Path(path) => {
                    whole |= path.leading_fields().next().is_none();
                    wanted.add(path.leading_fields());
                }
                Source::Native(fields, _) => fields.iter().for_each(|field| wanted.add(field.split('.'))),
            }
        }
        let definitions = columns.iter().map(Column::definition).collect::<Value>().to_string();
        Self { columns, wanted, whole, definitions }
    }

    /// The JSON text of `columnDefinitions`.
    pub fn definitions(&self) -> &str {
        &self.definitions
    }

    /// Appends one row as JSON text. `object` is the object as it goes over the wire.
    ///
    /// # Errors
    /// 500 when the object is not one.
    pub fn row(
        &self,
        object: &[u8],
        include: Include,
        now: Timestamp,
        budget: &mut Budget,
        out: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        // Picking is needed even for a whole object: the row may show the metadata as text.
        let picked = pick::pick(object, &self.wanted).map_err(Failure::internal)?;
        let parts = if self.whole {
            serde_json::from_slice(object).map_err(Failure::internal)?
        } else {
            picked.parts
        };
        let cells: Vec<Value> = budget
            .spend(|visits| self.columns.iter().map(|column| column.cell(&parts, now, visits)).collect());
        out.extend_from_slice(b"{\"cells\":");
        serde_json::to_writer(&mut *out, &cells).map_err(Failure::internal)?;
        out.extend_from_slice(b",\"object\":");
        match include {
            Include::Nothing => out.extend_from_slice(b"null"),
            Include::Object => out.extend_from_slice(object),
            Include::Metadata => write_metadata(picked.metadata.get(), out),
        }
        out.push(b'}');
        Ok(())
    }
}

/// Appends an object's metadata as `PartialObjectMetadata`.
///
/// # Errors
/// 500 when the object is not one.
pub fn partial_metadata(object: &[u8], out: &mut Vec<u8>) -> Result<(), Failure> {
    let picked = pick::pick(object, &Wanted::default()).map_err(Failure::internal)?;
    write_metadata(picked.metadata.get(), out);
    Ok(())
}

fn write_metadata(metadata: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(
        b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":",
    );
    out.extend_from_slice(metadata.as_bytes());
    out.push(b'}');
}

/// Begins a `Table`: rows with commas between them and [`END`] follow. `metadata` is the JSON text of
/// its list metadata. Without columns (later events of a watch) the definitions are null.
pub fn head(columns: Option<&Columns>, metadata: &str) -> String {
    let definitions = columns.map_or("null", Columns::definitions);
    format!(
        "{{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{metadata},\
         \"columnDefinitions\":{definitions},\"rows\":["
    )
}

/// Ends a table, or a list.
pub const END: &[u8] = b"]}";

/// A whole `Table` of the given rows.
pub fn document(columns: Option<&Columns>, metadata: &str, rows: &[u8]) -> Vec<u8> {
    [head(columns, metadata).as_bytes(), rows, END].concat()
}

fn name() -> Column {
    Column {
        name: "Name".to_owned(),
        type_: "string".to_owned(),
        format: "name".to_owned(),
        description: "Name must be unique within a namespace. Is required when creating resources, although some \
                      resources may allow a client to request the generation of an appropriate name automatically."
            .to_owned(),
        priority: 0,
        source: Source::Native(&["metadata.name"], |object, _| object["metadata"]["name"].clone()),
    }
}

/// What a kind without a printer shows, CustomResourceDefinitions among them.
fn created_at() -> Column {
    Column {
        name: "Created At".to_owned(),
        type_: "date".to_owned(),
        format: String::new(),
        description: "CreationTimestamp is when this object was created, in UTC.".to_owned(),
        priority: 0,
        source: Source::Native(&["metadata.creationTimestamp"], |object, _| {
            object["metadata"]["creationTimestamp"].clone()
        }),
    }
}

fn declared_column(column: &Value) -> Option<Column> {
    let text = |key: &str| column[key].as_str().unwrap_or_default().to_owned();
    let path = text("jsonPath");
    let description = match text("description") {
        empty if empty.is_empty() => {
            format!("Custom resource definition column (in JSONPath format): {path}")
        }
        description => description,
    };
    Some(Column {
        name: text("name"),
        type_: text("type"),
        format: text("format"),
        description,
        priority: column["priority"].as_i64().unwrap_or(0),
        source: Source::Path(JsonPath::parse(&path).ok()?),
    })
}

impl Column {
    fn definition(&self) -> Value {
        json!({
            "name": self.name, "type": self.type_, "format": self.format,
            "description": self.description, "priority": self.priority,
        })
    }

    fn cell(&self, object: &Value, now: Timestamp, visits: &mut Visits) -> Value {
        let path = match &self.source {
            Source::Native(_, render) => return render(object, now),
            Source::Path(path) => path,
        };
        let value = match path.first(object, visits) {
            Ok(Some(value)) => value,
            // Cells of the other types must not hold text, so they stay empty.
            Err(TooMany) if matches!(self.type_.as_str(), "string" | "date") => return TOO_MANY.into(),
            Ok(None) | Err(TooMany) => return Value::Null,
        };
        match (self.type_.as_str(), value) {
            ("string", value) => Value::from(go::print(value)),
            ("integer", Value::Number(n)) => go::integer(n),
            ("number", Value::Number(n)) => go::number(n),
            ("boolean", Value::Bool(_)) => value.clone(),
            // Upstream reads the text as a query parameter, and takes `null` for an absent time.
            ("date", Value::String(text)) => go::since(if text == "null" { "" } else { text }, now),
            _ => Value::Null,
        }
    }
}
