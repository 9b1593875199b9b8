//! Which fields the configuration documents have, of which type, and how their lists merge. Owns the embedded
//! table `schema.toml`; must not know what a change of a field means.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::kind::{V1BETA3, V1BETA4};
use super::path::{FieldPath, PathStep};

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// A string.
    Text,
    /// `true` or `false`.
    Bool,
    /// A whole number.
    Integer,
    /// A number.
    Float,
    /// Go's form, such as `4m0s`.
    Duration,
    /// The same, or a number of nanoseconds. Source: component-base `logs/api/v1/types.go` (`TimeOrMetaDuration`).
    DurationOrInteger,
    /// Kubernetes' form, such as `200Mi`.
    Quantity,
    /// Whatever stands there is kept.
    Any,
    /// Keys are not known, values are of one type.
    Map(Box<Type>),
    /// Items of one type, and how a patch meets them.
    List(Box<Type>, ListMerge),
    /// A structure of the [`Schema`] by its name.
    Struct(String),
}

/// How a list of a patch meets the list that is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListMerge {
    /// Replaced as a whole; order counts.
    Atomic,
    /// United; order does not count.
    Set,
    /// Items with the same values of these fields are merged.
    Keyed(Vec<String>),
    /// All items with one value of this field are replaced together: flags may stand several times.
    Grouped(String),
}

/// One field of a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldType {
    /// What may stand there.
    pub type_: Type,
    /// The version of the kubeadm API that has it, and those after it; what v1beta3 has, later ones do not.
    pub only_in: Option<String>,
    /// The first Kubernetes minor version that reads it.
    pub since_minor: Option<u64>,
    /// What kubeadm takes when the field is absent.
    pub default: Option<String>,
}

impl FieldType {
    /// Does this version of the kubeadm API have it?
    pub fn is_in(&self, version: &str) -> bool {
        match self.only_in.as_deref() {
            // What came with v1beta4 is in the versions after it, too.
            Some(V1BETA4) => version != V1BETA3,
            Some(only) => version == only,
            None => true,
        }
    }
}

/// The last minor version of Kubernetes whose fields the table has.
const NEWEST: u64 = 37;

/// Every structure by name.
#[derive(Debug, Default)]
pub struct Schema {
    structs: BTreeMap<String, BTreeMap<String, FieldType>>,
}

static EMBEDDED: LazyLock<Schema> =
    // The table is part of the program, and a test reads it: nothing is lost by the default.
    LazyLock::new(|| Schema::parse(include_str!("schema.toml")).unwrap_or_default());

impl Schema {
    /// The built-in table.
    pub fn embedded() -> &'static Self {
        &EMBEDDED
    }

    /// Reads a table in the form of `schema.toml`.
    ///
    /// # Errors
    /// What is not a type, or not TOML.
    pub fn parse(text: &str) -> Result<Self, String> {
        let table: BTreeMap<String, BTreeMap<String, String>> =
            toml::from_str(text).map_err(|e| e.to_string())?;
        let mut structs = BTreeMap::new();
        for (name, fields) in table {
            let fields: Result<_, String> =
                fields.into_iter().map(|(f, t)| Ok((f, parse_field(&t)?))).collect();
            structs.insert(name, fields?);
        }
        Ok(Self { structs })
    }

    /// The fields of a structure or of a kind of document.
    pub fn fields(&self, name: &str) -> Option<&BTreeMap<String, FieldType>> {
        self.structs.get(name)
    }

    /// The type at `path` below the structure `name`, or the name of the first step that is not there.
    ///
    /// # Errors
    /// The path up to and with the unknown step.
    pub fn type_at(&self, name: &str, path: &FieldPath) -> Result<Type, FieldPath> {
        self.walk(name, path, |_| ())
    }

    /// The first minor version of Kubernetes that reads what stands at `path` below the structure `name`; 0 for what each of the
    /// table reads. `None`: the table does not have the field.
    pub fn first_read(&self, name: &str, path: &FieldPath) -> Option<u64> {
        let mut since = 0;
        let type_ = self.walk(name, path, |field| since = since.max(field.since_minor.unwrap_or(0)));
        type_.is_ok().then_some(since)
    }

    /// Does Kubernetes 1.`minor` read what stands there? What it does not read, it ignores. A release after those of the table
    /// may read what the table does not have.
    pub fn is_read(&self, name: &str, path: &FieldPath, minor: u64) -> bool {
        self.first_read(name, path).map_or(minor > NEWEST, |since| since <= minor)
    }

    /// The type at `path`, with a look at each field on the way.
    fn walk(
        &self,
        name: &str,
        path: &FieldPath,
        mut look: impl FnMut(&FieldType),
    ) -> Result<Type, FieldPath> {
        let mut type_ = Type::Struct(name.to_owned());
        for (index, step) in path.0.iter().enumerate() {
            let unknown = || FieldPath(path.0[..=index].to_vec());
            type_ = match (type_, step) {
                (Type::Struct(name), PathStep::Field(field)) => {
                    let known = self.fields(&name).and_then(|f| f.get(field)).ok_or_else(unknown)?;
                    look(known);
                    known.type_.clone()
                }
                (Type::Map(inner), PathStep::Field(_))
                | (Type::List(inner, _), PathStep::Item(_) | PathStep::Index(_)) => *inner,
                // Below a field whose form is not known every path may exist.
                (Type::Any, _) => Type::Any,
                _ => return Err(unknown()),
            };
        }
        Ok(type_)
    }

    /// Every leaf below the structure `name`, with `*` for keys of maps and `[*]` for items of lists. A list is a
    /// leaf when its items are not structures.
    pub fn leaves(&self, name: &str) -> Vec<FieldPath> {
        let mut found = Vec::new();
        self.collect(&FieldPath::default(), &Type::Struct(name.to_owned()), &mut found);
        found
    }

    fn collect(&self, at: &FieldPath, type_: &Type, found: &mut Vec<FieldPath>) {
        match type_ {
            Type::Struct(name) => {
                for (field, inner) in self.fields(name).into_iter().flatten() {
                    self.collect(&at.field(field), &inner.type_, found);
                }
            }
            Type::Map(inner) => self.collect(&at.field("*"), inner, found),
            Type::List(inner, _) if matches!(**inner, Type::Struct(_)) => {
                self.collect(&at.step(PathStep::Item("*".to_owned())), inner, found);
            }
            _ => found.push(at.clone()),
        }
    }
}

fn parse_field(text: &str) -> Result<FieldType, String> {
    // From the end: each mark stands behind those that are taken off later.
    let (text, default) = match text.split_once(" = ") {
        Some((text, default)) => (text, Some(default.to_owned())),
        None => (text, None),
    };
    let (text, since) = match text.split_once(" since 1.") {
        Some((text, minor)) => (text, Some(minor.parse::<u64>().map_err(|e| format!("{minor}: {e}"))?)),
        None => (text, None),
    };
    let (text, only_in) = match text.split_once(" @") {
        Some((text, version)) => (text, Some(version.to_owned())),
        None => (text, None),
    };
    Ok(FieldType { type_: parse_type(text)?, only_in, since_minor: since, default })
}

fn parse_type(text: &str) -> Result<Type, String> {
    if let Some(inner) = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')) {
        return Ok(Type::Map(Box::new(parse_type(inner)?)));
    }
    if let Some(inner) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
        let (item, merge) = match inner.split_once(' ') {
            None => (inner, ListMerge::Atomic),
            Some((item, "set")) => (item, ListMerge::Set),
            Some((item, rest)) => match rest.split_once(' ') {
                Some(("by", keys)) => (item, ListMerge::Keyed(keys.split(',').map(str::to_owned).collect())),
                Some(("group", key)) => (item, ListMerge::Grouped(key.to_owned())),
                _ => return Err(format!("`{text}` is not a list type")),
            },
        };
        return Ok(Type::List(Box::new(parse_type(item)?), merge));
    }
    Ok(match text {
        "string" => Type::Text,
        "bool" => Type::Bool,
        "int" => Type::Integer,
        "float" => Type::Float,
        "duration" => Type::Duration,
        "duration|int" => Type::DurationOrInteger,
        "quantity" => Type::Quantity,
        "any" => Type::Any,
        name if name.starts_with(|c: char| c.is_ascii_uppercase()) => Type::Struct(name.to_owned()),
        _ => return Err(format!("`{text}` is not a type")),
    })
}

impl Type {
    /// May a path go on below such a value?
    pub fn has_more_below(&self) -> bool {
        matches!(self, Self::Any | Self::Map(_) | Self::List(..) | Self::Struct(_))
    }

    /// What a person expects to read there.
    pub fn expectation(&self) -> &'static str {
        match self {
            Self::Text => "a string",
            Self::Bool => "true or false",
            Self::Integer => "a whole number",
            Self::Float => "a number",
            Self::Duration => "a duration such as 4m0s",
            Self::DurationOrInteger => "a duration such as 5s, or a number of nanoseconds",
            Self::Quantity => "a quantity such as 200Mi",
            Self::Any => "anything",
            Self::Map(_) => "a map",
            Self::List(..) => "a list",
            Self::Struct(_) => "a map with fields",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_table_is_whole() {
        let schema = Schema::parse(include_str!("schema.toml")).expect("the table");
        fn named(type_: &Type) -> Option<&str> {
            match type_ {
                Type::Struct(name) => Some(name),
                Type::Map(inner) | Type::List(inner, _) => named(inner),
                _ => None,
            }
        }
        for (name, fields) in &schema.structs {
            for (field, type_) in fields {
                if let Some(inner) = named(&type_.type_) {
                    assert!(schema.structs.contains_key(inner), "{name}.{field}: {inner} has no table");
                }
            }
        }
        assert!(schema.leaves("KubeletConfiguration").len() > 130);
    }

    #[test]
    fn types_are_found_by_path() {
        let at = |kind: &str, path: &str| {
            Schema::embedded()
                .type_at(kind, &FieldPath::parse(path).expect("a path"))
                .map_err(|unknown| unknown.to_string())
        };
        assert_eq!(at("ClusterConfiguration", "apiServer.extraArgs[v].value"), Ok(Type::Text));
        assert_eq!(at("ClusterConfiguration", "featureGates.X"), Ok(Type::Bool));
        assert_eq!(at("KubeletConfiguration", "evictionHard[\"memory.available\"]"), Ok(Type::Text));
        assert_eq!(at("ClusterConfiguration", "apiserver.extraArgs"), Err("apiserver".to_owned()));
        assert_eq!(
            at("ClusterConfiguration", "networking.podSubnets"),
            Err("networking.podSubnets".to_owned())
        );
        assert_eq!(at("ClusterConfiguration", "clusterName.x"), Err("clusterName.x".to_owned()));
    }
}
