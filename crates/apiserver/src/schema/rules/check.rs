//! Judges a CEL expression before it is ever run: unknown fields, variables and functions, wrong types, and
//! the most it can cost. Evaluates nothing.
//!
//! Source: cel-go `checker/{checker,cost}.go`, apiserver `pkg/cel/library/cost.go`, v0.36.
//! Intended differences: generic types that cannot be told are taken as dynamic and checked when the rule
//! runs; the column of a complaint is that of the first occurrence of the offending name.

use kube::core::cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr, operators,
};

use super::cost::{self, Cost};
use super::functions;
use super::kinds::{self, Kind};
use super::macros::{self, Macro};
use crate::schema::Node;

/// Nothing bounds the size.
const UNBOUNDED: u64 = u64::MAX;

/// What is known of an expression.
#[derive(Clone, Debug)]
pub(super) struct Typed<'n> {
    pub(super) kind: Kind<'n>,
    /// The schema of the value, when it is read from the object.
    node: Option<&'n Node>,
    /// Most elements or characters, when that is known.
    size: Option<u64>,
    /// A field of the object or of another value, read without computing.
    is_path: bool,
}

impl<'n> Typed<'n> {
    fn new(kind: Kind<'n>) -> Self {
        Self { kind, node: None, size: None, is_path: false }
    }

    fn of_node(kind: Kind<'n>, node: Option<&'n Node>) -> Self {
        Self { kind, node, size: None, is_path: true }
    }

    fn sized(mut self, size: u64) -> Self {
        self.size = Some(size);
        self
    }

    /// Most elements or characters that the value can have.
    fn size_max(&self) -> u64 {
        match (self.size, self.node) {
            (Some(size), _) => size,
            (None, Some(node)) => kinds::size_max(node),
            // Keys of maps, names and numbers have no declared size, and upstream takes that for none.
            (None, None) if self.is_path => 0,
            (None, None) if self.kind.is_scalar() => 1,
            (None, None) => UNBOUNDED,
        }
    }
}

/// What an expression was found to be.
#[derive(Debug)]
pub(super) struct Checked<'n> {
    pub(super) kind: Kind<'n>,
    pub(super) cost: Cost,
    pub(super) uses_old: bool,
}

/// Checks `expression`, whose text is `source`, for the value of `node`.
///
/// # Errors
/// The complaint, as a compiler prints it.
pub(super) fn check<'n>(
    expression: &IdedExpr,
    source: &str,
    node: &'n Node,
    whole: bool,
    optional_old: bool,
) -> Result<Checked<'n>, String> {
    let own = match kinds::of_node(node) {
        Some(Kind::Object(node, _)) => Kind::Object(node, whole),
        Some(kind) => kind,
        None => Kind::Dyn,
    };
    let this = Typed::of_node(own.clone(), Some(node));
    let old = if optional_old { Typed::new(Kind::Optional(Box::new(own))) } else { this.clone() };
    let variables = vec![("self".to_owned(), this), ("oldSelf".to_owned(), old)];
    let mut checker = Checker { source, variables, uses_old: false };
    let (typed, cost) = checker.check(expression)?;
    Ok(Checked { kind: typed.kind, cost, uses_old: checker.uses_old })
}

/// A complaint with the place of the first occurrence of `word`.
fn complain(source: &str, word: &str, what: &str) -> String {
    // A word that the source does not have, or an empty one, places the complaint at the start.
    let at = source.find(word).unwrap_or(0);
    let before = &source[..at];
    let line = before.matches('\n').count();
    let column = before.chars().rev().take_while(|c| *c != '\n').count();
    let shown = source.lines().nth(line).unwrap_or_default();
    format!("ERROR: <input>:{}:{}: {what}\n | {shown}\n | {}^", line + 1, column + 1, ".".repeat(column))
}

type Found<'n> = Result<(Typed<'n>, Cost), String>;

struct Checker<'s, 'n> {
    source: &'s str,
    /// Innermost last.
    variables: Vec<(String, Typed<'n>)>,
    uses_old: bool,
}

impl<'n> Checker<'_, 'n> {
    fn check(&mut self, e: &IdedExpr) -> Found<'n> {
        match &e.expr {
            Expr::Literal(literal) => Ok((literal_kind(literal), Cost(0))),
            Expr::Ident(name) => self.ident(name),
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => self.call(call),
            Expr::List(list) => {
                let (mut cost, mut kinds) = (cost::LIST, Vec::new());
                for element in &list.elements {
                    let (typed, own) = self.check(element)?;
                    cost = cost + own;
                    kinds.push(typed.kind);
                }
                let of = common(kinds);
                Ok((Typed::new(Kind::List(Box::new(of))).sized(list.elements.len() as u64), cost))
            }
            Expr::Map(map) => {
                let (mut cost, mut keys, mut values) = (cost::MAP, Vec::new(), Vec::new());
                for entry in &map.entries {
                    // The parser makes no other entries for a map.
                    let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
                    let ((key, key_cost), (value, value_cost)) =
                        (self.check(&entry.key)?, self.check(&entry.value)?);
                    cost = cost + key_cost + value_cost;
                    keys.push(key.kind);
                    values.push(value.kind);
                }
                let kind = Kind::Map(Box::new(common(keys)), Box::new(common(values)));
                Ok((Typed::new(kind).sized(map.entries.len() as u64), cost))
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Struct(made) => {
                // Rules have no message types in scope, so no name could be a declared one.
                let what = format!("undeclared reference to '{}' (in container '')", made.type_name);
                Err(complain(self.source, &made.type_name, &what))
            }
            Expr::Unspecified => Err(complain(self.source, "", "unspecified expression")),
        }
    }

    fn ident(&mut self, name: &str) -> Found<'n> {
        // Innermost first, so that a variable of a macro hides `self` and outer ones of its name.
        if let Some((_, typed)) = self.variables.iter().rev().find(|(known, _)| known == name) {
            self.uses_old |= name == "oldSelf";
            return Ok((typed.clone(), cost::ONE));
        }
        if macros::is_type_name(name) {
            return Ok((Typed::new(Kind::Type), cost::ONE));
        }
        let what = format!("undeclared reference to '{name}' (in container '')");
        Err(complain(self.source, name, &what))
    }

    fn select(&mut self, select: &SelectExpr) -> Found<'n> {
        let (operand, cost) = self.check(&select.operand)?;
        let (typed, cost) = self.field(&operand, &select.field, cost)?;
        Ok((if select.test { Typed::new(Kind::Bool) } else { typed }, cost))
    }

    fn field(&self, operand: &Typed<'n>, name: &str, cost: Cost) -> Found<'n> {
        let found = match &operand.kind {
            Kind::Dyn => return Ok((Typed::new(Kind::Dyn), cost + cost::ONE)),
            Kind::Optional(inner) => {
                let (typed, cost) = self.field(&Typed::new((**inner).clone()), name, cost)?;
                return Ok((Typed::new(Kind::Optional(Box::new(typed.kind))), cost));
            }
            Kind::Object(node, whole) => kinds::field(node, *whole, name),
            Kind::Metadata => matches!(name, "name" | "generateName").then_some((Kind::String, None)),
            Kind::Map(_, value) => {
                Some(((**value).clone(), operand.node.and_then(|node| node.additional.as_deref())))
            }
            other => {
                let what = format!("type '{other}' does not support field selection");
                return Err(complain(self.source, &format!(".{name}"), &what));
            }
        };
        let Some((kind, node)) = found else {
            let what = format!("undefined field '{name}'");
            return Err(complain(self.source, &format!(".{name}"), &what));
        };
        // What is read from a value keeps its declared size; what is computed has none.
        let typed =
            if operand.is_path || node.is_some() { Typed::of_node(kind, node) } else { Typed::new(kind) };
        Ok((typed, cost + cost::ONE))
    }

    fn call(&mut self, call: &CallExpr) -> Found<'n> {
        if let Some(found) = macros::of(call) {
            return self.expand(&found);
        }
        let name = call.func_name.as_str();
        if let (operators::OPT_SELECT, [operand, field]) = (name, call.args.as_slice()) {
            let (operand, cost) = self.check(operand)?;
            let Expr::Literal(LiteralValue::String(field)) = &field.expr else {
                return Err(complain(self.source, "?", "unsupported optional field selection"));
            };
            let (typed, cost) = self.field(&operand, field.inner(), cost)?;
            let kind = match typed.kind {
                already @ Kind::Optional(_) => already,
                kind => Kind::Optional(Box::new(kind)),
            };
            return Ok((Typed::new(kind), cost));
        }
        let space = match call.target.as_deref().map(|target| &target.expr) {
            Some(Expr::Ident(space)) if self.is_namespace(space, name) => Some(space),
            _ => None,
        };
        let (mut typed, mut cost) = (Vec::new(), Cost(0));
        let target = call.target.as_deref().filter(|_| space.is_none());
        for part in target.into_iter().chain(&call.args) {
            let (found, own) = self.check(part)?;
            typed.push(found);
            cost = cost + own;
        }
        let name = space.map_or_else(|| name.to_owned(), |space| format!("{space}.{name}"));
        let kind = self.result(&name, target.is_some(), &typed)?;
        let sizes: Vec<u64> = typed.iter().map(Typed::size_max).collect();
        let own = match name.as_str() {
            operators::ADD => {
                let texts = matches!(kind, Kind::String | Kind::Bytes | Kind::Dyn);
                cost::of_addition(texts && typed.iter().any(|t| !t.kind.is_scalar()), sizes[0], sizes[1])
            }
            name => cost::of_call(name, &sizes),
        };
        let size = result_size(&name, &sizes);
        Ok((Typed { size, ..Typed::new(kind) }, cost + own))
    }

    /// A name before a dot that is not a variable.
    fn is_namespace(&self, space: &str, name: &str) -> bool {
        // A variable hides a library of the same name, as in cel-go.
        functions::is_qualified(space, name) && !self.variables.iter().any(|(known, _)| known == space)
    }

    fn result(&self, name: &str, is_method: bool, typed: &[Typed<'n>]) -> Result<Kind<'n>, String> {
        let kinds: Vec<Kind<'n>> = typed.iter().map(|typed| typed.kind.clone()).collect();
        if let Some(found) = operators_result(name, &kinds) {
            return found.ok_or_else(|| self.no_overload(name, is_method, &kinds));
        }
        let (receiver, arguments) = if is_method { (kinds.first(), &kinds[1..]) } else { (None, &kinds[..]) };
        if !functions::exists(name) {
            let what = if macros::is_known_but_missing(name) {
                format!("'{name}' is not supported by this server's CEL engine")
            } else {
                format!("undeclared reference to '{name}' (in container '')")
            };
            let word = name.rsplit('.').next().unwrap_or(name);
            return Err(complain(self.source, word, &what));
        }
        // A method of a value whose type is not known is looked for when the rule runs.
        if matches!(receiver, Some(Kind::Dyn)) {
            return Ok(functions::result(name, receiver, arguments).unwrap_or(Kind::Dyn));
        }
        functions::result(name, receiver, arguments).ok_or_else(|| self.no_overload(name, is_method, &kinds))
    }

    fn no_overload(&self, name: &str, is_method: bool, kinds: &[Kind<'_>]) -> String {
        let words: Vec<String> = kinds.iter().map(Kind::to_string).collect();
        let applied = match words.split_first() {
            Some((receiver, rest)) if is_method => format!("{receiver}.({})", rest.join(", ")),
            _ => format!("({})", words.join(", ")),
        };
        // Operators are called `_+_` or `@in`, and the source has only what is between.
        let word = name.trim_matches('_').trim_start_matches('@');
        complain(
            self.source,
            word,
            &format!("found no matching overload for '{name}' applied to '{applied}'"),
        )
    }

    /// The item of a list or the key of a map.
    fn element(&self, range: &Typed<'n>) -> Result<Typed<'n>, String> {
        match &range.kind {
            Kind::List(of) => {
                let node = range.node.and_then(|node| node.items.as_deref());
                let kind = (**of).clone();
                Ok(if range.is_path { Typed::of_node(kind, node) } else { Typed::new(kind) })
            }
            Kind::Map(key, _) => Ok(Typed::of_node((**key).clone(), None)),
            Kind::Dyn => Ok(Typed::new(Kind::Dyn)),
            other => {
                let what = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, \
                                    or dynamic)"
                );
                Err(complain(self.source, "", &what))
            }
        }
    }

    fn with<T>(&mut self, name: &str, typed: Typed<'n>, run: impl FnOnce(&mut Self) -> T) -> T {
        self.variables.push((name.to_owned(), typed));
        let result = run(self);
        self.variables.pop();
        result
    }

    fn comprehension(&mut self, c: &ComprehensionExpr) -> Found<'n> {
        let (range, range_cost) = self.check(&c.iter_range)?;
        let (start, start_cost) = self.check(&c.accu_init)?;
        let element = self.element(&range)?;
        // Texts that are put together step by step have no bound that could be told.
        let accumulated =
            Typed { size: start.kind.is_scalar().then_some(1), ..Typed::new(start.kind.clone()) };
        // An empty list at the start says nothing about what is put into it.
        let accumulated =
            if matches!(start.kind, Kind::List(_)) { Typed::new(Kind::Dyn) } else { accumulated };
        let steps = self.with(&c.accu_var, accumulated, |checker| {
            checker.with(&c.iter_var, element, |checker| {
                let (_, condition) = checker.check(&c.loop_cond)?;
                let (step, cost) = checker.check(&c.loop_step)?;
                Ok::<_, String>((step, condition + cost))
            })
        });
        let (step, step_cost) = steps?;
        let is_list = matches!(start.kind, Kind::List(_));
        let kind = if is_list { step.kind } else { start.kind };
        let found = Typed { size: is_list.then(|| range.size_max()), ..Typed::new(kind) };
        let result = self.with(&c.accu_var, found.clone(), |checker| checker.check(&c.result))?;
        let cost = range_cost + start_cost + step_cost * range.size_max() + result.1;
        let kept = Typed { size: found.size.or(result.0.size), ..result.0 };
        Ok((kept, cost))
    }

    /// Macros that the parser leaves as calls.
    fn expand(&mut self, found: &Macro<'_>) -> Found<'n> {
        match found {
            Macro::Bind { name, value, body } => {
                let (typed, cost) = self.check(value)?;
                let (result, own) = self.with(name, typed, |checker| checker.check(body))?;
                Ok((result, cost + own))
            }
            Macro::Optional { target, name, body, flat } => {
                let (typed, cost) = self.check(target)?;
                let inner = match typed.kind {
                    Kind::Optional(inner) => *inner,
                    _ => Kind::Dyn,
                };
                let (result, own) = self.with(name, Typed::new(inner), |checker| checker.check(body))?;
                let kind = if *flat { result.kind } else { Kind::Optional(Box::new(result.kind)) };
                Ok((Typed::new(kind), cost + own + cost::ONE))
            }
            Macro::Sort { target, name, key } => {
                let (range, cost) = self.check(target)?;
                let element = self.element(&range)?;
                let (_, own) = self.with(name, element, |checker| checker.check(key))?;
                let size = range.size_max();
                Ok((range, cost + (own + cost::ONE) * size))
            }
            Macro::Pairs { target, index, value, filter, body, result } => {
                let (range, cost) = self.check(target)?;
                let (first, second) = match &range.kind {
                    Kind::Map(key, of) => {
                        let node = range.node.and_then(|node| node.additional.as_deref());
                        (Typed::of_node((**key).clone(), None), Typed::of_node((**of).clone(), node))
                    }
                    _ => (Typed::new(Kind::Int), self.element(&range)?),
                };
                let parts = self.with(index, first, |checker| {
                    checker.with(value, second, |checker| {
                        let filtered = filter.map(|filter| checker.check(filter)).transpose()?;
                        let (body, cost) = checker.check(body)?;
                        Ok::<_, String>((body, cost + filtered.map_or(Cost(0), |(_, cost)| cost)))
                    })
                });
                let (body, own) = parts?;
                let kind = macros::result_kind(*result, body.kind);
                let size = range.size_max();
                Ok((Typed::new(kind).sized(size), cost + (own + cost::ONE) * size))
            }
        }
    }
}

fn literal_kind<'n>(literal: &LiteralValue) -> Typed<'n> {
    match literal {
        LiteralValue::Boolean(_) => Typed::new(Kind::Bool),
        LiteralValue::Int(_) => Typed::new(Kind::Int),
        LiteralValue::UInt(_) => Typed::new(Kind::Uint),
        LiteralValue::Double(_) => Typed::new(Kind::Double),
        LiteralValue::Null => Typed::new(Kind::Null),
        LiteralValue::String(text) => Typed::new(Kind::String).sized(text.inner().chars().count() as u64),
        LiteralValue::Bytes(bytes) => Typed::new(Kind::Bytes).sized(bytes.inner().len() as u64),
    }
}

/// One kind when all agree.
fn common(kinds: Vec<Kind<'_>>) -> Kind<'_> {
    let mut kinds = kinds.into_iter();
    let Some(first) = kinds.next() else { return Kind::Dyn };
    if kinds.all(|kind| first.compares_with(&kind)) { first } else { Kind::Dyn }
}

/// The result of an operator; `Some(None)` when it does not take these types, `None` when it is not an operator.
fn operators_result<'n>(name: &str, kinds: &[Kind<'n>]) -> Option<Option<Kind<'n>>> {
    let is = |at: usize, wanted: &Kind<'_>| {
        kinds.get(at).is_some_and(|kind| {
            matches!(kind, Kind::Dyn) || std::mem::discriminant(kind) == std::mem::discriminant(wanted)
        })
    };
    let bools = || (0..kinds.len()).all(|at| is(at, &Kind::Bool));
    let first = || kinds.first().cloned().unwrap_or(Kind::Dyn);
    Some(match name {
        operators::CONDITIONAL => is(0, &Kind::Bool).then(|| {
            let (then, other) = (kinds[1].clone(), &kinds[2]);
            // `null` compares with everything, so the other branch may be of any type.
            if then.compares_with(other) && !matches!(then, Kind::Null) { then } else { Kind::Dyn }
        }),
        operators::LOGICAL_AND | operators::LOGICAL_OR | operators::LOGICAL_NOT => {
            bools().then_some(Kind::Bool)
        }
        operators::NOT_STRICTLY_FALSE => Some(Kind::Bool),
        operators::EQUALS | operators::NOT_EQUALS => kinds[0].compares_with(&kinds[1]).then_some(Kind::Bool),
        operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS => {
            (ordered(&kinds[0]) && ordered(&kinds[1]) && ordered_together(&kinds[0], &kinds[1]))
                .then_some(Kind::Bool)
        }
        operators::IN => match &kinds[1] {
            Kind::List(of) => of.compares_with(&kinds[0]).then_some(Kind::Bool),
            Kind::Map(key, _) => key.compares_with(&kinds[0]).then_some(Kind::Bool),
            Kind::Dyn => Some(Kind::Bool),
            _ => None,
        },
        operators::ADD => addition(&kinds[0], &kinds[1]),
        operators::SUBSTRACT => subtraction(&kinds[0], &kinds[1]),
        operators::MULTIPLY | operators::DIVIDE | operators::MODULO => {
            (number(&kinds[0]) && kinds[0].compares_with(&kinds[1])).then(first)
        }
        operators::NEGATE => number(&kinds[0]).then(first),
        operators::INDEX | operators::OPT_INDEX => {
            let found = match &kinds[0] {
                Kind::List(of) => {
                    (is(1, &Kind::Int) || is(1, &Kind::Uint) || is(1, &Kind::Double)).then(|| (**of).clone())
                }
                Kind::Map(key, value) => key.compares_with(&kinds[1]).then(|| (**value).clone()),
                Kind::Dyn | Kind::Optional(_) => Some(Kind::Dyn),
                _ => None,
            };
            if name == operators::OPT_INDEX {
                found.map(|kind| Kind::Optional(Box::new(kind)))
            } else {
                found
            }
        }
        _ => return None,
    })
}

fn number(kind: &Kind<'_>) -> bool {
    matches!(kind, Kind::Dyn | Kind::Int | Kind::Uint | Kind::Double)
}

fn ordered(kind: &Kind<'_>) -> bool {
    number(kind) || matches!(kind, Kind::Bool | Kind::String | Kind::Bytes | Kind::Timestamp | Kind::Duration)
}

/// Numbers of different types can be ordered.
fn ordered_together(a: &Kind<'_>, b: &Kind<'_>) -> bool {
    a.compares_with(b) || (number(a) && number(b))
}

fn addition<'n>(a: &Kind<'n>, b: &Kind<'n>) -> Option<Kind<'n>> {
    match (a, b) {
        (Kind::Dyn, other) | (other, Kind::Dyn) => Some(match other {
            Kind::List(_) => other.clone(),
            _ => Kind::Dyn,
        }),
        (Kind::Timestamp, Kind::Duration) | (Kind::Duration, Kind::Timestamp) => Some(Kind::Timestamp),
        (Kind::List(x), Kind::List(y)) => Some(if x.compares_with(y) { a.clone() } else { Kind::Dyn }),
        (Kind::Int | Kind::Uint | Kind::Double | Kind::String | Kind::Bytes | Kind::Duration, _) => {
            (std::mem::discriminant(a) == std::mem::discriminant(b)).then(|| a.clone())
        }
        _ => None,
    }
}

fn subtraction<'n>(a: &Kind<'n>, b: &Kind<'n>) -> Option<Kind<'n>> {
    match (a, b) {
        (Kind::Timestamp, Kind::Timestamp) => Some(Kind::Duration),
        (Kind::Timestamp, Kind::Duration) => Some(Kind::Timestamp),
        (Kind::Dyn, _) | (_, Kind::Dyn) => Some(Kind::Dyn),
        (Kind::Int | Kind::Uint | Kind::Double | Kind::Duration, _) => {
            (std::mem::discriminant(a) == std::mem::discriminant(b)).then(|| a.clone())
        }
        _ => None,
    }
}

/// Most elements or characters of a call's result, when that is known.
fn result_size(name: &str, sizes: &[u64]) -> Option<u64> {
    let size = |at: usize| sizes.get(at).copied();
    match name {
        operators::ADD => Some(size(0)?.saturating_add(size(1)?)),
        operators::CONDITIONAL => Some(size(1)?.max(size(2)?)),
        "lowerAscii"
        | "upperAscii"
        | "substring"
        | "trim"
        | "url"
        | "jsonpatch.escapeKey"
        | "find"
        | "findAll"
        | "split"
        | "reverse"
        | "sort"
        | "distinct"
        | "slice" => size(0),
        // An empty text to be replaced is found before each character and at the end.
        "replace" => Some(size(0)?.saturating_add(1).saturating_mul(size(2)?).saturating_add(size(0)?)),
        "string" | "charAt" => size(0),
        _ => None,
    }
}
