//! CEL rules (`x-kubernetes-validations`), compiled once per schema node and run only where a node carries
//! some. Owns compiling with complaints, the order of evaluation, budgets and messages; the language itself is in the
//! submodules.
//!
//! Source: apiextensions-apiserver `pkg/apiserver/schema/cel/{compilation,validation}.go`,
//! `pkg/apis/apiextensions/validation/{validation,cel_validation}.go`, v0.36.
//! Intended difference: rules of parts that did not change are not run at all, unless they use `oldSelf`;
//! upstream runs them and turns their findings into warnings.

mod check;
mod cost;
mod depth;
mod eval;
mod functions;
mod kinds;
mod macros;
mod operations;
mod tokens;
mod values;

#[cfg(test)]
mod tests;

use std::fmt;

use kube::core::cel::cel::Value;
use kube::core::cel::cel::common::ast::IdedExpr;
use kube::core::cel::cel::parser::Parser;
use serde_json::Value as Json;

use self::cost::Cost;
use self::eval::Scope;
use self::kinds::Kind;
use self::operations::{Fault, optional_of};
use super::structural::{flag, word};
use super::{Cause, Checks, ListType, Node, Path, Type, field_path};
use k8s_machinery::validation::cause::CauseReason;

const RULES: &str = "x-kubernetes-validations";
const MESSAGE_BYTES_MAX: usize = 5 * 1024;
/// Of the thread on which an expression is compiled.
const STACK_BYTES: usize = 32 << 20;
/// Rules named when a schema as a whole costs too much.
const EXPENSIVE_NAMED_MAX: usize = 4;

/// The rules of one node. Those of nodes below it are compiled there.
pub(super) struct Rules(Vec<Rule>);

struct Rule {
    /// Or why it cannot be evaluated: of a definition that was stored by somebody else.
    expression: Result<IdedExpr, String>,
    /// As the author wrote it, and the message when it does not hold.
    source: String,
    message: String,
    message_expression: Option<(IdedExpr, String)>,
    reason: CauseReason,
    /// Below the node; empty for the node itself.
    field: String,
    uses_old: bool,
    optional_old: bool,
}

impl Rule {
    /// The field that a complaint is about: the node's or one below it.
    fn field_at(&self, node: Path<'_>) -> String {
        match (node, self.field.as_str()) {
            (path, "") => path.or_nil(),
            (Path::Root, below) => below.to_owned(),
            (path, below) => format!("{path}.{below}"),
        }
    }

    /// One that no value can be held against.
    fn broken(rule: &Json, problem: String) -> Self {
        Self {
            expression: Err(problem),
            source: word(rule, "rule").trim().to_owned(),
            message: String::new(),
            message_expression: None,
            reason: CauseReason::FieldValueInvalid,
            field: String::new(),
            uses_old: false,
            optional_old: false,
        }
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rules", self.0.len())
    }
}

/// Compiles the rules of `root` and everything below it; complaints go to `causes`. What cannot be compiled is kept, and
/// refuses every value.
pub(super) fn install(root: &mut Node, schema: &Json, at: &str, causes: &mut Vec<Cause>) {
    let position = Position { at: at.to_owned(), repeats: Some(1), uncorrelated: None };
    let mut compiler = Compiler { causes, total: Cost(0), expensive: Vec::new() };
    compiler.node(root, schema, &position);
    let Compiler { total, mut expensive, .. } = compiler;
    if total.0 > cost::SCHEMA_ESTIMATE_MAX {
        expensive.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
        let detail =
            "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
        let named = expensive.into_iter().take(EXPENSIVE_NAMED_MAX);
        causes.extend(named.map(|(_, field)| Cause::forbidden(field, detail)));
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        causes.push(Cause::forbidden(at, &cost::over_budget(what, total, cost::SCHEMA_ESTIMATE_MAX)));
    }
    // The marks of `finish` are from before there were rules.
    root.finish();
    // Where a rule has faults it would refuse each default as well.
    if causes.is_empty() {
        defaults(root, at, causes);
    }
}

/// Defaults must satisfy the rules too.
/// Source: apiextensions-apiserver `pkg/apiserver/schema/defaulting/validation.go` (`validate`), v0.36.
fn defaults(node: &Node, at: &str, causes: &mut Vec<Cause>) {
    if !node.has_rules || !node.has_defaults {
        return;
    }
    if let Some(default) = &node.default {
        let field = format!("{at}.default");
        causes.extend(check(node, default, None).into_iter().map(|cause| match cause.field.as_str() {
            "<nil>" => Cause { field: field.clone(), ..cause },
            below => Cause { field: format!("{field}.{below}"), ..cause },
        }));
    }
    for (name, child) in &node.properties {
        defaults(child, &format!("{at}.properties[{name}]"), causes);
    }
    // As upstream, defaults below `additionalProperties` are not judged.
    if let Some(items) = &node.items {
        defaults(items, &format!("{at}.items"), causes);
    }
}

/// Where a node stands in its schema.
struct Position {
    at: String,
    /// How often the node can occur; `None` when nothing bounds it.
    repeats: Option<u64>,
    /// The list above whose items have no counterpart in the old object.
    uncorrelated: Option<String>,
}

struct Compiler<'c> {
    causes: &'c mut Vec<Cause>,
    total: Cost,
    /// Rules that take a notable part of the budget.
    expensive: Vec<(Cost, String)>,
}

impl Compiler<'_> {
    fn node(&mut self, node: &mut Node, schema: &Json, position: &Position) {
        let rules = schema.get(RULES).and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
        let compiled: Vec<Rule> = rules
            .iter()
            .enumerate()
            .map(|(index, rule)| {
                self.rule(node, schema, rule, &format!("{}.{RULES}[{index}]", position.at), position)
            })
            .collect();
        if !compiled.is_empty() {
            node.rules = Some(Box::new(Rules(compiled)));
        }
        let repeats = position.repeats.and_then(|repeats| Some(repeats.saturating_mul(elements_max(node)?)));
        let below = |step: String, uncorrelated: Option<String>| Position {
            at: format!("{}.{step}", position.at),
            repeats,
            uncorrelated,
        };
        for (name, child) in &mut node.properties {
            let position = below(format!("properties[{name}]"), position.uncorrelated.clone());
            self.node(child, &schema["properties"][name], &position);
        }
        if let Some(child) = &mut node.additional {
            let position = below("additionalProperties".to_owned(), position.uncorrelated.clone());
            self.node(child, &schema["additionalProperties"], &position);
        }
        // Only items with keys can be found again in the old object.
        let keyed = matches!(node.list, ListType::Map(_));
        if let Some(child) = &mut node.items {
            let own = (!keyed).then(|| position.at.clone());
            let position = below("items".to_owned(), position.uncorrelated.clone().or(own));
            self.node(child, &schema["items"], &position);
        }
    }

    fn rule(&mut self, node: &Node, schema: &Json, rule: &Json, at: &str, position: &Position) -> Rule {
        let field = format!("{at}.rule");
        let source = word(rule, "rule");
        let optional_old = flag(rule, "optionalOldSelf");
        let (expression, checked) = match compile(source, node, optional_old) {
            Ok(compiled) => compiled,
            Err(problem) => {
                let problem = format!("compilation failed: {problem}");
                self.causes.push(wrong_rule(field, rule, &problem));
                return Rule::broken(rule, problem);
            }
        };
        // Where nothing bounds it, as many occur as fit into the largest request.
        let often =
            position.repeats.unwrap_or_else(|| cost::REQUEST_BYTES_MAX / (kinds::serialized_min(node) + 1));
        self.observe("estimated rule cost", checked.cost * often, &field);
        if !matches!(checked.kind, Kind::Bool | Kind::Dyn) {
            let problem = "cel expression must evaluate to a bool";
            self.causes.push(wrong_rule(field, rule, problem));
            return Rule::broken(rule, problem.to_owned());
        }
        let message_expression = self.message(node, rule, at, optional_old);
        if checked.uses_old {
            if let Some(list) = &position.uncorrelated {
                let detail = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {list}"
                );
                self.causes.push(Cause::invalid(field, &source.into(), &detail));
            }
        } else if rule.get("optionalOldSelf").is_some_and(|flag| !flag.is_null()) {
            let detail = "may not be set if oldSelf is not used in rule";
            self.causes.push(Cause::invalid(
                format!("{at}.optionalOldSelf"),
                &rule["optionalOldSelf"],
                detail,
            ));
        }
        // A path that leads nowhere is reported by `keywords`.
        let path = field_path::resolve(word(rule, "fieldPath"), schema, true);
        Rule {
            expression: Ok(expression),
            source: source.trim().to_owned(),
            message: word(rule, "message").trim().to_owned(),
            message_expression,
            reason: reason(word(rule, "reason")),
            field: path.map(|found| found.path).unwrap_or_default(),
            uses_old: checked.uses_old,
            optional_old,
        }
    }

    fn message(
        &mut self,
        node: &Node,
        rule: &Json,
        at: &str,
        optional_old: bool,
    ) -> Option<(IdedExpr, String)> {
        let source = word(rule, "messageExpression");
        if source.is_empty() {
            return None;
        }
        let field = format!("{at}.messageExpression");
        match compile(source, node, optional_old) {
            Ok((expression, checked)) => {
                self.observe("estimated messageExpression cost", checked.cost, &field);
                if matches!(checked.kind, Kind::String | Kind::Dyn) {
                    return Some((expression, source.to_owned()));
                }
                let detail = "messageExpression must evaluate to a string";
                self.causes.push(wrong_rule(field, rule, detail));
            }
            Err(problem) => {
                let detail = format!("messageExpression compilation failed: {problem}");
                self.causes.push(wrong_rule(field, rule, &detail));
            }
        }
        None
    }

    fn observe(&mut self, what: &str, cost: Cost, field: &str) {
        if cost.0 > cost::ESTIMATE_MAX {
            self.causes.push(Cause::forbidden(field, &cost::over_budget(what, cost, cost::ESTIMATE_MAX)));
        }
        self.total = self.total + cost;
        if cost.0 >= cost::SCHEMA_ESTIMATE_MAX / 100 {
            self.expensive.push((cost, field.to_owned()));
        }
    }
}

/// How often a child can occur in one value of this node.
fn elements_max(node: &Node) -> Option<u64> {
    let checks = node.checks.as_deref();
    let limit = |limit: fn(&Checks) -> Option<u64>| checks.and_then(limit);
    match node.type_ {
        Type::Array => limit(|checks| checks.items_max),
        Type::Object if node.additional.is_some() => limit(|checks| checks.properties_max),
        _ => Some(1),
    }
}

/// Reads and checks one expression for values of `node`.
fn compile<'n>(
    source: &str,
    node: &'n Node,
    optional_old: bool,
) -> Result<(IdedExpr, check::Checked<'n>), String> {
    let text = depth::bounded(source)?;
    on_a_large_stack(|| {
        let parser = Parser::new().enable_optional_syntax(true);
        let parsed = parser.parse(&text).map_err(|errors| errors.to_string().replace("\n| ", "\n | "))?;
        let checked = check::check(&parsed, source, node, node.embedded, optional_old)?;
        Ok((parsed, checked))
    })
}

/// The parser takes 1 MiB for the deepest brackets that it allows, and 15 MiB in a build without optimisation: more than
/// the threads have that serve requests.
fn on_a_large_stack<T: Send>(work: impl FnOnce() -> Result<T, String> + Send) -> Result<T, String> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("rules".to_owned()).stack_size(STACK_BYTES);
        let running = thread.spawn_scoped(scope, work).map_err(|error| format!("no thread: {error}"))?;
        running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// A complaint that shows the rule as upstream's internal type prints it.
fn wrong_rule(field: String, rule: &Json, detail: &str) -> Cause {
    let text = |key: &str| Json::from(word(rule, key));
    let other = |key: &str| rule.get(key).cloned().unwrap_or_default();
    let shown = format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\"OptionalOldSelf\":{}}}",
        text("rule"),
        text("message"),
        text("messageExpression"),
        other("reason"),
        text("fieldPath"),
        other("optionalOldSelf"),
    );
    Cause::new(CauseReason::FieldValueInvalid, field, format!("Invalid value: {shown}: {detail}"))
}

fn reason(word: &str) -> CauseReason {
    match word {
        "FieldValueRequired" => CauseReason::FieldValueRequired,
        "FieldValueForbidden" => CauseReason::FieldValueForbidden,
        "FieldValueDuplicate" => CauseReason::FieldValueDuplicate,
        _ => CauseReason::FieldValueInvalid,
    }
}

/// Evaluates all rules at and below `node`, within the budget of one request.
pub(super) fn check(node: &Node, value: &Json, old: Option<&Json>) -> Vec<Cause> {
    let mut run = Run { left: cost::REQUEST_MAX, causes: Vec::new() };
    // Running out of budget ends the walk, and is one of the causes.
    let _stopped = run.walk(node, Path::Root, value, old, false);
    run.causes
}

/// The budget is used up.
struct Stopped;

struct Run {
    left: u64,
    causes: Vec<Cause>,
}

impl Run {
    /// `unchanged`: something above is as it was.
    fn walk(
        &mut self,
        node: &Node,
        path: Path<'_>,
        value: &Json,
        old: Option<&Json>,
        unchanged: bool,
    ) -> Result<(), Stopped> {
        if !node.has_rules || value.is_null() {
            return Ok(());
        }
        let unchanged = unchanged || old == Some(value);
        if let Some(rules) = &node.rules {
            self.rules(rules, node, path, value, old.filter(|old| !old.is_null()), unchanged)?;
        }
        match value {
            Json::Object(map) => {
                for (key, child) in map {
                    let old = old.and_then(|old| old.get(key));
                    if let Some(below) = node.properties.get(key) {
                        self.walk(below, path.key(key), child, old, unchanged)?;
                    } else if let Some(below) = &node.additional {
                        self.walk(below, path.entry(key), child, old, unchanged)?;
                    }
                }
            }
            Json::Array(items) => {
                let Some(below) = &node.items else { return Ok(()) };
                let old_items = node.old_items(old);
                for (index, item) in items.iter().enumerate() {
                    self.walk(below, path.index(index), item, old_items.of(item), unchanged)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn rules(
        &mut self,
        rules: &Rules,
        node: &Node,
        path: Path<'_>,
        value: &Json,
        old: Option<&Json>,
        unchanged: bool,
    ) -> Result<(), Stopped> {
        // A transition rule needs an old value, and holds for parts that did not change as well.
        let due = |rule: &&Rule| if rule.uses_old { old.is_some() || rule.optional_old } else { !unchanged };
        // Values of a large part cost more than most rules, so none are made when no rule is due.
        let mut due = rules.0.iter().filter(due).peekable();
        if due.peek().is_none() {
            return Ok(());
        }
        let this = values::of(node, node.embedded, value);
        let aligned = old.map(|old| values::of(node, node.embedded, &values::align(node, old, value)));
        // A rule that runs without an old value does not read `oldSelf`, or takes an optional.
        let (missing, optional) = (Value::Null, optional_of(aligned.clone()));
        let scope = Scope::new("self", &this, None);
        for rule in due {
            let before = if rule.optional_old { &optional } else { aligned.as_ref().unwrap_or(&missing) };
            let scope = Scope::new("oldSelf", before, Some(&scope));
            self.one(rule, node, path, value, &scope)?;
        }
        Ok(())
    }

    fn one(
        &mut self,
        rule: &Rule,
        node: &Node,
        path: Path<'_>,
        value: &Json,
        scope: &Scope<'_>,
    ) -> Result<(), Stopped> {
        // Upstream shows the type where complaints have the value.
        let type_ = Json::from(if node.type_ == Type::IntOrString { "" } else { node.type_.word() });
        let expression = match &rule.expression {
            Ok(expression) => expression,
            Err(problem) => {
                let detail = format!("rule compile error: {problem}");
                self.causes.push(Cause::invalid(path.or_nil(), &type_, &detail));
                return Ok(());
            }
        };
        let (result, spent) = eval::run(expression, scope);
        if spent > self.left {
            let detail = "validation failed due to running out of cost budget, no further validation rules will be run";
            self.causes.push(Cause::invalid(path.or_nil(), &type_, detail));
            return Err(Stopped);
        }
        self.left -= spent;
        let named = if rule.message.is_empty() { &rule.source } else { &rule.message };
        let detail = match result {
            Ok(Value::Bool(true)) => return Ok(()),
            Ok(_) => {
                let said = self.message_of(rule, path, &type_, scope)?;
                self.causes.push(refusal(rule, said, node, path, value));
                return Ok(());
            }
            Err(Fault::Limit) => {
                let detail = format!(
                    "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call \
                     cost exceeds limit for rule: {named}"
                );
                self.causes.push(Cause::invalid(path.or_nil(), &type_, &detail));
                return Err(Stopped);
            }
            Err(Fault::Failed(why)) if why.starts_with("no such overload") => format!(
                "'{why}': call arguments did not match a supported operator, function or macro signature for rule: {named}"
            ),
            Err(Fault::Failed(why)) => format!("{why} evaluating rule: {named}"),
        };
        self.causes.push(Cause::invalid(path.or_nil(), &type_, &detail));
        Ok(())
    }

    /// A message made by an expression; none when it fails or is of no use to a reader. What it costs is taken from the
    /// budget of the request, so that many refused items cannot cost more than many accepted ones.
    /// Source: apiextensions-apiserver 0.36.3 `schema/cel/validation.go` (`evalMessageExpression`).
    fn message_of(
        &mut self,
        rule: &Rule,
        path: Path<'_>,
        type_: &Json,
        scope: &Scope<'_>,
    ) -> Result<Option<String>, Stopped> {
        let Some((expression, source)) = &rule.message_expression else { return Ok(None) };
        let (result, spent) = eval::run(expression, scope);
        let stops = match &result {
            _ if spent > self.left => Some(
                "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run".to_owned(),
            ),
            Err(Fault::Limit) => Some(format!(
                "no further validation rules will be run due to call cost exceeds limit for messageExpression: {source:?}"
            )),
            _ => None,
        };
        if let Some(detail) = stops {
            self.causes.push(Cause::invalid(rule.field_at(path), type_, &detail));
            return Err(Stopped);
        }
        self.left -= spent;
        let Ok(Value::String(text)) = result else { return Ok(None) };
        let text = text.trim();
        let is_fine = !text.is_empty() && text.len() <= MESSAGE_BYTES_MAX && !text.contains('\n');
        Ok(is_fine.then(|| text.to_owned()))
    }
}

/// The message for a value that breaks a rule; `said` by its expression.
fn refusal(rule: &Rule, said: Option<String>, node: &Node, path: Path<'_>, value: &Json) -> Cause {
    let detail = said.unwrap_or_else(|| {
        if rule.message.is_empty() { format!("failed rule: {}", rule.source) } else { rule.message.clone() }
    });
    let field = rule.field_at(path);
    let composite = matches!(node.type_, Type::Object | Type::Array);
    match rule.reason {
        CauseReason::FieldValueRequired => Cause::required(field, &detail),
        CauseReason::FieldValueForbidden => Cause::forbidden(field, &detail),
        CauseReason::FieldValueDuplicate if composite => Cause::new(rule.reason, field, "Duplicate value"),
        CauseReason::FieldValueDuplicate => Cause::duplicate(field, value),
        _ if composite => Cause::omitted(field, &detail),
        _ => Cause::invalid(field, value, &detail),
    }
}
