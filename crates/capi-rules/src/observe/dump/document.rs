//! One object from a file, before its kind matters. Owns its origin and its name; must not know kinds, nor how
//! files are read.

use std::fmt::{self, Display};

use serde_json::Value;

use capi_types::key::ObjectKey;

/// The place of an object in its file, for remarks about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Its name, or what else it was read from.
    pub file: String,
    /// The first line of its document, from 1.
    pub line: usize,
    /// Its place in the list that the document is, from 1.
    pub item: Option<usize>,
}

impl Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)?;
        self.item.map_or(Ok(()), |item| write!(f, " item {item}"))
    }
}

/// One object from a file, and the workload cluster that `--workload` names for the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// The whole object.
    pub value: Value,
    /// The Cluster whose workload cluster it is from; `None`: from the management cluster.
    pub workload: Option<ObjectKey>,
    /// For remarks about it.
    pub origin: Origin,
}

impl From<Value> for Document {
    fn from(value: Value) -> Self {
        Self { value, ..Self::default() }
    }
}

impl Document {
    /// What it lacks to be an object.
    pub fn lacks(&self) -> Option<&'static str> {
        let is_text = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
        if !self.value.is_object() {
            Some("an object was expected, with apiVersion, kind and metadata.name")
        } else if !is_text(&self.value["kind"]) {
            Some("this object has no kind")
        } else if !is_text(&self.value["metadata"]["name"]) {
            Some("this object has no metadata.name")
        } else {
            None
        }
    }
}

/// Objects without a namespace are in `default`, as with kubectl.
pub fn key_of(value: &Value) -> ObjectKey {
    let text = |field: &str| value["metadata"][field].as_str().unwrap_or_default();
    let namespace = Some(text("namespace")).filter(|n| !n.is_empty()).unwrap_or("default");
    ObjectKey::new(namespace, text("name"))
}
