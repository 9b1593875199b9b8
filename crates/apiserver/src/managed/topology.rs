//! How values merge, read off a schema: which maps and lists are one unit, which are owned piece by
//! piece and by what their items are told apart. Must not know managers or sets.
//!
//! Source: kube-openapi `pkg/schemaconv`, structured-merge-diff v6 `typed/{parser,helpers}.go`.

use serde_json::Value;

use super::element::{Element, Scalar};
use crate::schema::{ListType, Node, Type, native};

/// What is known about the value at some path.
#[derive(Clone, Copy, Debug)]
pub enum Shape<'a> {
    Schema(&'a Node),
    Text,
    /// Nothing: maps are granular, lists are one unit.
    Deduced,
}

/// How a value is walked.
#[derive(Clone, Copy)]
pub enum Form<'a> {
    Scalar(Kind),
    /// A list or map that is owned and replaced as a whole.
    Atomic(Collection),
    Map(MapForm<'a>),
    List(ListForm<'a>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Numeric,
    Text,
    Boolean,
    /// Any scalar.
    Untyped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collection {
    Map,
    List,
}

/// A map that is owned key by key.
#[derive(Clone, Copy)]
pub struct MapForm<'a>(Option<&'a Node>);

/// A list whose items are told apart by their values (no keys) or by those of the key fields.
#[derive(Clone, Copy)]
pub struct ListForm<'a> {
    keys: &'a [String],
    item: Shape<'a>,
}

impl<'a> Shape<'a> {
    /// The form of `value` here. A schema without a type takes the form of what it meets; a null or
    /// missing value then counts as a map.
    pub fn form(self, value: Option<&Value>) -> Form<'a> {
        let node = match self {
            Self::Text => return Form::Scalar(Kind::Text),
            Self::Deduced => return deduced(value),
            Self::Schema(node) => node,
        };
        match node.type_ {
            Type::Any => deduced(value),
            Type::String => Form::Scalar(Kind::Text),
            Type::Integer | Type::Number => Form::Scalar(Kind::Numeric),
            Type::Boolean => Form::Scalar(Kind::Boolean),
            Type::IntOrString => Form::Scalar(Kind::Untyped),
            Type::Object if node.atomic => Form::Atomic(Collection::Map),
            Type::Object => Form::Map(MapForm(Some(node))),
            Type::Array => list(node),
        }
    }

    /// The shape of what `step` leads to; `None` when the schema does not say.
    pub fn at(self, step: &Element) -> Option<Self> {
        match (self.form(None), step) {
            (Form::Map(map), Element::Field(name)) => map.field(name),
            (Form::List(list), _) => Some(list.item),
            _ => None,
        }
    }

    /// `step` is a field that the schema names.
    pub fn names(self, step: &Element) -> bool {
        match (self.form(None), step) {
            (Form::Map(map), Element::Field(name)) => map.is_named(name),
            _ => false,
        }
    }

    /// The items of an atomic list, for checking them.
    pub fn item(self) -> Self {
        match self {
            Self::Schema(Node { items: Some(items), .. }) => Self::Schema(items),
            _ => Self::Deduced,
        }
    }
}

fn deduced<'a>(value: Option<&Value>) -> Form<'a> {
    match value {
        None | Some(Value::Null | Value::Object(_)) => Form::Map(MapForm(None)),
        Some(Value::Array(_)) => Form::Atomic(Collection::List),
        Some(_) => Form::Scalar(Kind::Untyped),
    }
}

fn list(node: &Node) -> Form<'_> {
    let item = node.items.as_deref().map_or(Shape::Deduced, Shape::Schema);
    match &node.list {
        ListType::Atomic => Form::Atomic(Collection::List),
        ListType::Set => Form::List(ListForm { keys: &[], item }),
        ListType::Map(keys) => Form::List(ListForm { keys, item }),
    }
}

impl<'a> MapForm<'a> {
    /// The fields of a map that is one unit, for checking them.
    pub fn of(shape: Shape<'a>) -> Self {
        match shape {
            Shape::Schema(node) => Self(Some(node)),
            _ => Self(None),
        }
    }

    /// The shape under a key; `None` when the schema has no such field.
    pub fn field(self, name: &str) -> Option<Shape<'a>> {
        let Some(node) = self.0 else { return Some(Shape::Deduced) };
        match name {
            // Metadata is that of every object, whatever a schema declares of it.
            "metadata" if node.embedded => return Some(Shape::Schema(native::metadata())),
            "apiVersion" | "kind" if node.embedded => return Some(Shape::Text),
            _ => {}
        }
        let declared = node.properties.get(name).or(node.additional.as_deref());
        // An object that declares nothing is free-form.
        let open = node.preserve_unknown || node.properties.is_empty();
        declared.map(Shape::Schema).or(open.then_some(Shape::Deduced))
    }

    /// The schema names this very field.
    pub fn is_named(self, name: &str) -> bool {
        self.0.is_some_and(|node| {
            node.properties.contains_key(name)
                || (node.embedded && matches!(name, "apiVersion" | "kind" | "metadata"))
        })
    }
}

impl<'a> ListForm<'a> {
    pub fn item(self) -> Shape<'a> {
        self.item
    }

    /// The step that leads to an item.
    ///
    /// # Errors
    /// Why items like this cannot be told apart.
    pub fn step(self, item: &Value) -> Result<Element, String> {
        if self.keys.is_empty() { set_step(item) } else { self.keyed_step(item) }
    }

    fn keyed_step(self, item: &Value) -> Result<Element, String> {
        let fields = match item {
            Value::Object(fields) => fields,
            Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
            _ => return Err("associative list with keys may not have non-map elements".to_owned()),
        };
        let mut keys = Vec::with_capacity(self.keys.len());
        for name in self.keys {
            // A key that is missing and has no default is left out: that is another item.
            let Some(value) = fields.get(name).or_else(|| self.default(name)) else { continue };
            let value = Scalar::of(value).ok_or_else(|| format!("the key field {name} is not a scalar"))?;
            keys.push((name.as_str().into(), value));
        }
        if keys.is_empty() {
            return Err(format!(
                "associative list with keys has an element that omits all key fields {:?} (and doesn't have \
                 default values for any key fields)",
                self.keys
            ));
        }
        // `k:` in `fieldsV1` lists keys in this order, and equal keys must compare as equal.
        keys.sort();
        Ok(Element::Keys(keys))
    }

    fn default(self, name: &str) -> Option<&'a Value> {
        let Shape::Schema(node) = self.item else { return None };
        node.properties.get(name)?.default.as_ref()
    }

    /// Every item with its step.
    ///
    /// # Errors
    /// As [`ListForm::step`], with the place of the item.
    pub fn index(self, items: &[Value]) -> Result<Vec<(Element, &Value)>, String> {
        let step = |(at, item)| Ok((self.step(item).map_err(|why| format!("element {at}: {why}"))?, item));
        items.iter().enumerate().map(step).collect()
    }
}

fn set_step(item: &Value) -> Result<Element, String> {
    match item {
        Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
        Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
        Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
        // Collections are refused above, so this is a scalar.
        scalar => Ok(Element::Value(Scalar::of(scalar).unwrap_or(Scalar::Null))),
    }
}
