//! Macros that the CEL parser leaves as calls: bindings, sorting, optionals, comprehensions over pairs.
//! Finds them; checking and running them is done elsewhere.
//!
//! Source: cel-go `ext/{bindings,lists,comprehensions}.go`, `cel/library.go` (optionals).

use kube::core::cel::cel::common::ast::{CallExpr, Expr, IdedExpr};

use super::kinds::Kind;

/// A macro with its parts.
#[derive(Debug)]
pub(super) enum Macro<'e> {
    /// `cel.bind(name, value, body)`
    Bind { name: &'e str, value: &'e IdedExpr, body: &'e IdedExpr },
    /// `optional.optMap(name, body)`, `optFlatMap` when `flat`
    Optional { target: &'e IdedExpr, name: &'e str, body: &'e IdedExpr, flat: bool },
    /// `list.sortBy(name, key)`
    Sort { target: &'e IdedExpr, name: &'e str, key: &'e IdedExpr },
    /// `range.all(index, value, body)` and the like
    Pairs {
        target: &'e IdedExpr,
        index: &'e str,
        value: &'e str,
        filter: Option<&'e IdedExpr>,
        body: &'e IdedExpr,
        result: Pairs,
    },
}

/// What a comprehension over pairs gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pairs {
    All,
    Exists,
    ExistsOne,
    List,
    Map,
    /// A map out of maps.
    Entries,
}

impl Pairs {
    /// What a single element can decide, whatever the others are.
    pub(super) fn decides(self) -> Option<bool> {
        match self {
            Self::All => Some(false),
            Self::Exists => Some(true),
            Self::ExistsOne | Self::List | Self::Map | Self::Entries => None,
        }
    }
}

pub(super) fn of(call: &CallExpr) -> Option<Macro<'_>> {
    let target = call.target.as_deref()?;
    let name = |at: usize| match &call.args.get(at)?.expr {
        Expr::Ident(name) => Some(name.as_str()),
        _ => None,
    };
    let args = call.args.as_slice();
    match (call.func_name.as_str(), args) {
        ("bind", [_, value, body]) if matches!(&target.expr, Expr::Ident(space) if space == "cel") => {
            Some(Macro::Bind { name: name(0)?, value, body })
        }
        (flavour @ ("optMap" | "optFlatMap"), [_, body]) => {
            Some(Macro::Optional { target, name: name(0)?, body, flat: flavour == "optFlatMap" })
        }
        ("sortBy", [_, key]) => Some(Macro::Sort { target, name: name(0)?, key }),
        // With a single variable the parser has expanded these itself.
        (flavour, [_, _, rest @ ..]) => {
            let result = match flavour {
                "all" => Pairs::All,
                "exists" => Pairs::Exists,
                "exists_one" | "existsOne" => Pairs::ExistsOne,
                "transformList" => Pairs::List,
                "transformMap" => Pairs::Map,
                "transformMapEntry" => Pairs::Entries,
                _ => return None,
            };
            let transforms = matches!(result, Pairs::List | Pairs::Map | Pairs::Entries);
            let (filter, body) = match rest {
                [body] => (None, body),
                [filter, body] if transforms => (Some(filter), body),
                _ => return None,
            };
            Some(Macro::Pairs { target, index: name(0)?, value: name(1)?, filter, body, result })
        }
        _ => None,
    }
}

/// The type of a comprehension over pairs.
pub(super) fn result_kind(result: Pairs, body: Kind<'_>) -> Kind<'_> {
    match result {
        Pairs::All | Pairs::Exists | Pairs::ExistsOne => Kind::Bool,
        Pairs::List => Kind::List(Box::new(body)),
        Pairs::Map => Kind::Map(Box::new(Kind::Dyn), Box::new(body)),
        Pairs::Entries => Kind::Map(Box::new(Kind::Dyn), Box::new(Kind::Dyn)),
    }
}

/// Names that stand for types.
pub(super) fn is_type_name(name: &str) -> bool {
    const NAMES: [&str; 11] =
        ["bool", "bytes", "double", "dyn", "int", "list", "map", "null_type", "string", "type", "uint"];
    NAMES.contains(&name)
}

/// Functions of kube-apiserver that the engine does not have.
pub(super) fn is_known_but_missing(name: &str) -> bool {
    matches!(
        name,
        "lists.sortBy" | "cel.block" | "google.protobuf.Timestamp" | "authorizer" | "regex.replace"
    )
}
