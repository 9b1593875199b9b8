//! Rules as a table: schema, value, messages.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::Schema;
use super::*;

/// A schema whose field `f` is `node`.
fn schema(node: &Value) -> Result<Schema, Vec<Cause>> {
    Schema::custom("Thing", "v1", &json!({"type": "object", "properties": {"f": node}}), "s")
}

fn schema_of(node: &Value) -> Schema {
    schema(node).expect("structural")
}

fn told(schema: &Schema, new: &Value, old: Option<&Value>) -> Vec<String> {
    let wrap = |value: &Value| json!({"metadata": {"name": "n"}, "f": value});
    let old = old.map(wrap);
    schema.validate(&wrap(new), old.as_ref()).iter().map(Cause::to_string).collect()
}

/// An object with a bit of everything, and the rules of a test.
fn everything(rules: &Value) -> Value {
    json!({"type": "object", "x-kubernetes-validations": rules, "properties": {
        "n": {"type": "integer"}, "m": {"type": "integer"}, "d": {"type": "number"},
        "s": {"type": "string", "maxLength": 64}, "b": {"type": "boolean"},
        "ios": {"x-kubernetes-int-or-string": true},
        "at": {"type": "string", "format": "date-time"}, "for": {"type": "string", "format": "duration"},
        "raw": {"type": "string", "format": "byte", "maxLength": 64},
        "list": {"type": "array", "maxItems": 8, "items": {"type": "integer"}},
        "names": {"type": "array", "maxItems": 8, "items": {"type": "string", "maxLength": 32}},
        "set": {"type": "array", "maxItems": 8, "x-kubernetes-list-type": "set", "items": {"type": "string", "maxLength": 32}},
        "map": {"type": "object", "maxProperties": 8, "additionalProperties": {"type": "string", "maxLength": 32}},
        "namespace": {"type": "string", "maxLength": 64}, "x-y.z/a": {"type": "string", "maxLength": 64},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }})
}

fn holds(rule: &str, value: &Value) -> Result<bool, Vec<String>> {
    let schema = schema(&everything(&json!([{"rule": rule, "message": "no"}])))
        .map_err(|causes| causes.iter().map(Cause::to_string).collect::<Vec<_>>())?;
    match told(&schema, value, None).as_slice() {
        [] => Ok(true),
        [one] if one == "f: Invalid value: no" => Ok(false),
        other => Err(other.to_vec()),
    }
}

#[test]
fn expressions_mean_what_they_mean_upstream() {
    let value = json!({
        "n": 3, "m": 5, "d": 2, "s": "abc", "b": true, "ios": "25%", "at": "2026-11-20T10:00:00Z", "for": "1h30m",
        "raw": "YWJj", "list": [3, 1, 2], "names": ["a", "b"], "set": ["x", "y"], "map": {"k": "v", "l": "w"},
        "namespace": "ns", "x-y.z/a": "q", "free": {"hidden": 1},
    });
    for rule in [
        "self.n < self.m && self.d == 2.0",
        "self.n + self.m == 8 && self.n * 2 - 1 == 5",
        "self.m / 2 == 2 && self.m % 2 == 1",
        "-self.n == -3",
        "self.s.startsWith('a') && self.s.endsWith('c') && self.s.contains('b')",
        "size(self.s) == 3",
        "self.s.matches('^[a-c]{3}$')",
        "!(self.s in ['x', 'y'])",
        "self.s + 'd' == 'abcd'",
        "self.b ? true : false",
        "type(self.ios) == string && self.ios.endsWith('%')",
        "self.at > timestamp('2026-01-01T00:00:00Z')",
        "self.at.getFullYear() == 2026",
        "self.at - duration('1h') < self.at",
        "self.__for__ > duration('1h')",
        "self.raw.size() == 3",
        "self.list.all(x, x > 0) && self.list.exists(x, x == 2)",
        "self.list.exists_one(x, x == 1)",
        "self.list.map(x, x * 2) == [6, 2, 4]",
        "self.list.filter(x, x > 1).size() == 2",
        "self.list.sum() == 6",
        "self.list.max() == 3 && self.list.min() == 1",
        "!self.list.isSorted()",
        "self.list[0] == 3",
        "1 in self.list",
        "self.list.indexOf(2) == 2",
        "self.list.sortBy(x, x) == [1, 2, 3]",
        "self.names.join(',') == 'a,b'",
        "self.map.all(k, self.map[k].size() == 1)",
        "'k' in self.map && self.map.k == 'v'",
        "self.map == {'l': 'w', 'k': 'v'}",
        "self.map.exists(k, v, k == 'l' && v == 'w')",
        // An element that decides outvotes one that fails before it.
        "self.list.exists(i, x, i == 2 || 1 / i > 1)",
        "!self.list.all(i, x, i != 1 && 1 / i > 0 || i == 2)",
        "self.list.all(i, x, x > i - 2)",
        "self.list.transformList(i, x, x + i) == [3, 2, 4]",
        "self.map.transformMap(k, v, v + k) == {'k': 'vk', 'l': 'wl'}",
        "self.__namespace__ == 'ns'",
        "self.x__dash__y__dot__z__slash__a == 'q'",
        "has(self.n) && !(has(self.b) && !self.b)",
        "cel.bind(t, self.n + self.m, t * t == 64)",
        "self.?n.orValue(0) == 3",
        "self.map[?'zz'].orValue('none') == 'none'",
        "self.map.?k.hasValue()",
        "optional.of(1).optMap(x, x + 1).value() == 2",
        "self.s.upperAscii() == 'ABC'",
        "'%s-%d'.format([self.s, self.n]) == 'abc-3'",
        "self.s.replace('b', 'x').split('x') == ['a', 'c']",
        "sets.contains(self.set, ['x'])",
        "quantity('1Gi').isGreaterThan(quantity('1M'))",
        "url('https://a.b/c').getHost() == 'a.b'",
        "ip('10.0.0.1').family() == 4 && isIP('::1')",
        "cidr('10.0.0.0/8').containsIP('10.1.1.1')",
        "semver('1.2.3').minor() == 2",
        "format.dns1123Label().validate('ok').hasValue() == false",
        "'b2' .find('[0-9]') == '2'",
        "math.greatest(1, 2) == 2",
        "int('3') == self.n && string(self.n) == '3' && double(self.n) == 3.0",
        "dyn(self.n) == 3",
        "false && self.list[9] == 0 || true",
        "self.list[9] == 0 || true",
        "[self.n, self.m].filter(x, x == 3).size() == 1",
        "self.list.all(x, x / (x - 2) != 7) || true",
        "{'a': 1}.a == 1",
        "self.list + [4] == [3, 1, 2, 4]",
    ] {
        assert_eq!(holds(rule, &value), Ok(true), "{rule}");
    }
    assert_eq!(holds("self.n > self.m", &value), Ok(false));
    for (rule, said) in [
        ("self.list[9] == 0", "index out of bounds: 9 evaluating rule: no"),
        ("self.m / (self.n - 3) == 0", "division by zero evaluating rule: no"),
        ("self.map.zz == ''", "no such key: zz evaluating rule: no"),
        (
            "self.ios < 5",
            "'no such overload': call arguments did not match a supported operator, function or macro signature for rule: no",
        ),
    ] {
        assert_eq!(holds(rule, &value), Err(vec![format!("f: Invalid value: \"object\": {said}")]), "{rule}");
    }
}

#[test]
fn rules_that_cannot_be_compiled() {
    for (rule, complaint) in [
        ("self.n >", "Syntax error"),
        ("self.nope == 1", "undefined field 'nope'"),
        ("self.n.nope == 1", "type 'int' does not support field selection"),
        ("self.free.hidden == 1", "undefined field 'hidden'"),
        ("self.n == 'a'", "found no matching overload for '_==_' applied to '(int, string)'"),
        ("self.n && true", "found no matching overload for '_&&_' applied to '(int, bool)'"),
        ("self.n.startsWith('a')", "found no matching overload for 'startsWith' applied to 'int.(string)'"),
        ("self.list.all(x, x == 'a')", "found no matching overload for '_==_' applied to '(int, string)'"),
        ("other == 1", "undeclared reference to 'other' (in container '')"),
        ("nope(self)", "undeclared reference to 'nope' (in container '')"),
        ("Foo{a: 1}.a == 1", "undeclared reference to 'Foo'"),
        ("self.n + 1", "cel expression must evaluate to a bool"),
    ] {
        let causes = schema(&everything(&json!([{"rule": rule}]))).expect_err(rule);
        assert_eq!(causes[0].field, "s.properties[f].x-kubernetes-validations[0].rule", "{rule}");
        assert!(causes[0].message.contains(complaint), "{rule}: {}", causes[0].message);
        assert!(causes[0].message.starts_with("Invalid value: {\"Rule\":"), "{}", causes[0].message);
    }
    let causes = schema(&everything(&json!([{"rule": "self.nope == 1"}]))).expect_err("undefined");
    assert_eq!(
        causes[0].message,
        "Invalid value: {\"Rule\":\"self.nope == 1\",\"Message\":\"\",\"MessageExpression\":\"\",\"Reason\":null,\
         \"FieldPath\":\"\",\"OptionalOldSelf\":null}: compilation failed: ERROR: <input>:1:5: undefined field 'nope'\n | \
         self.nope == 1\n | ....^"
    );
    for (rule, field, complaint) in [
        (
            json!({"rule": "true", "messageExpression": "self.n"}),
            "messageExpression",
            "messageExpression must evaluate to a string",
        ),
        (
            json!({"rule": "true", "messageExpression": "nope"}),
            "messageExpression",
            "messageExpression compilation failed",
        ),
        (
            json!({"rule": "true", "optionalOldSelf": true}),
            "optionalOldSelf",
            "may not be set if oldSelf is not used",
        ),
        (json!({"rule": " "}), "rule", "rule is not specified"),
        (json!({"rule": "true", "message": " "}), "message", "must be non-empty if specified"),
        (json!({"rule": "true", "message": "a\nb"}), "message", "must not contain line breaks"),
        (
            json!({"rule": "true\n&& true"}),
            "message",
            "message must be specified if rule contains line breaks",
        ),
        (json!({"rule": "true", "reason": "Odd"}), "reason", "supported values"),
        (json!({"rule": "true", "fieldPath": ".nope"}), "fieldPath", "must be a valid path"),
    ] {
        let causes = schema(&everything(&json!([rule]))).expect_err("wrong");
        assert_eq!(causes[0].field, format!("s.properties[f].x-kubernetes-validations[0].{field}"), "{rule}");
        assert!(causes[0].message.contains(complaint), "{rule}: {}", causes[0].message);
    }
}

#[test]
fn estimates_are_bounded() {
    let list = |limits: &Value, rule: &str| {
        let mut item =
            json!({"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}});
        if let Some(length) = limits.get("length") {
            item["properties"]["name"]["maxLength"] = length.clone();
        }
        let mut list = json!({"type": "array", "items": item, "x-kubernetes-validations": [{"rule": rule}]});
        if let Some(items) = limits.get("items") {
            list["maxItems"] = items.clone();
        }
        schema(&list).map_err(|causes| causes[0].to_string())
    };
    let unique = "self.all(x, self.exists_one(y, x.name == y.name))";
    assert!(list(&json!({"items": 100, "length": 256}), unique).is_ok());
    let said = list(&json!({}), unique).expect_err("unbounded");
    assert_eq!(
        said,
        "s.properties[f].x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by factor of more \
         than 100x (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and \
         strings are declared)"
    );
    let said = list(&json!({"items": 1000, "length": 63}), unique).expect_err("too long");
    assert!(
        said.contains("exceeds budget by factor of 2.") || said.contains("exceeds budget by factor of 3."),
        "{said}"
    );
    // One rule is fine, but not in every item of a long list.
    let inner = json!({"type": "string", "maxLength": 1000,
        "x-kubernetes-validations": [{"rule": "self.matches('^(abc|def|ghi|jkl|mno|pqr|stu)+$')"}]});
    assert!(schema(&inner).is_ok());
    let said =
        schema(&json!({"type": "array", "maxItems": 10000, "items": inner})).map_err(|c| c[0].to_string());
    assert!(said.expect_err("often").contains("estimated rule cost exceeds budget"));
}

#[test]
fn evaluation_is_bounded() {
    let unique = json!({"rule": "self.all(x, self.exists_one(y, x == y))"});
    let field = json!({"type": "array", "maxItems": 1000, "items": {"type": "integer"},
        "x-kubernetes-validations": [unique]});
    let schema = schema(&field).expect("affordable by its declared size");
    let few: Vec<i32> = (0..100).collect();
    assert_eq!(told(&schema, &json!(few), None), Vec::<String>::new());
    let many: Vec<i32> = (0..1000).collect();
    let said = told(&schema, &json!(many), None);
    assert_eq!(
        said,
        [
            "f: Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': no further validation rules will be \
          run due to call cost exceeds limit for rule: self.all(x, self.exists_one(y, x == y))"
        ]
    );
    // Each of many evaluations is cheap, all together are not.
    let item = json!({"type": "array", "maxItems": 300, "items": {"type": "integer"},
        "x-kubernetes-validations": [{"rule": "self.all(x, self.exists_one(y, x == y))"}]});
    let field = json!({"type": "array", "maxItems": 20, "items": item});
    let lists = schema_of(&json!({"type": "object", "properties": {"a": field, "b": field, "c": field}}));
    let rows: Vec<Vec<i32>> = vec![(0..300).collect(); 20];
    let said = told(&lists, &json!({"a": rows, "b": rows, "c": rows}), None);
    assert_eq!(said.len(), 1);
    assert!(
        said[0].ends_with("running out of cost budget, no further validation rules will be run"),
        "{said:?}"
    );
}

#[test]
fn messages_are_paid_from_the_budget_too() {
    let item = json!({"type": "array", "maxItems": 300, "items": {"type": "integer"},
        "x-kubernetes-validations": [{"rule": "false",
            "messageExpression": "self.all(x, self.exists_one(y, x == y)) ? 'dear' : 'cheap'"}]});
    let field = json!({"type": "array", "maxItems": 60, "items": item});
    let lists = schema_of(&json!({"type": "object", "properties": {"a": field}}));
    let rows: Vec<Vec<i32>> = vec![(0..300).collect(); 60];
    let said = told(&lists, &json!({"a": rows}), None);
    let (last, before) = said.split_last().expect("refusals");
    assert!(before.iter().all(|said| said.ends_with("dear")) && before.len() < 59, "{said:?}");
    assert!(
        last.ends_with(
            "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run"
        ),
        "{last}"
    );
}

#[test]
fn transitions_messages_reasons_and_paths() {
    let field = json!({"type": "object", "properties": {
        "a": {"type": "string", "maxLength": 20, "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is immutable"}]},
        "set": {"type": "array", "maxItems": 9, "x-kubernetes-list-type": "set", "items": {"type": "string", "maxLength": 9},
            "x-kubernetes-validations": [{"rule": "self == oldSelf", "reason": "FieldValueForbidden", "message": "fixed"}]},
        "once": {"type": "integer", "x-kubernetes-validations": [{
            "rule": "!oldSelf.hasValue() ? self == 1 : self >= oldSelf.value()", "optionalOldSelf": true,
            "messageExpression": "'was ' + (oldSelf.hasValue() ? string(oldSelf.value()) : 'nothing')"}]},
        "deep": {"type": "object", "properties": {"x": {"type": "integer"}}},
        "items": {"type": "array", "maxItems": 5, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string", "maxLength": 9},
                "v": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf"}]}}}},
        "map": {"type": "object", "maxProperties": 5, "additionalProperties": {"type": "integer",
            "x-kubernetes-validations": [{"rule": "self > 0", "reason": "FieldValueDuplicate"}]}},
    }, "x-kubernetes-validations": [
        {"rule": "!has(self.deep) || self.deep.x > 0", "fieldPath": ".deep.x", "reason": "FieldValueRequired", "message": "above 0"},
    ]});
    let schema = schema(&field).expect("fine");
    for (old, new, said) in [
        (None, json!({"a": "1", "once": 1, "set": ["a"]}), vec![]),
        (None, json!({"once": 2}), vec!["f.once: Invalid value: 2: was nothing"]),
        (Some(json!({"once": 5})), json!({"once": 4}), vec!["f.once: Invalid value: 4: was 5"]),
        (Some(json!({"a": "1"})), json!({"a": "2"}), vec!["f.a: Invalid value: \"2\": is immutable"]),
        (Some(json!({})), json!({"a": "2"}), vec![]),
        (Some(json!({"set": ["a", "b"]})), json!({"set": ["b", "a"]}), vec![]),
        (Some(json!({"set": ["a", "b"]})), json!({"set": ["a"]}), vec!["f.set: Forbidden: fixed"]),
        (None, json!({"deep": {"x": 0}}), vec!["f.deep.x: Required value: above 0"]),
        (
            Some(json!({"items": [{"k": "a", "v": 1}, {"k": "b", "v": 2}]})),
            json!({"items": [{"k": "b", "v": 1}, {"k": "a", "v": 1}]}),
            vec!["f.items[0].v: Invalid value: 1: failed rule: self >= oldSelf"],
        ),
        (None, json!({"map": {"k": 0}}), vec!["f.map[k]: Duplicate value: 0"]),
        // What did not change is not complained about.
        (
            Some(json!({"deep": {"x": 0}, "map": {"k": 0}})),
            json!({"deep": {"x": 0}, "map": {"k": 0}}),
            vec![],
        ),
        (
            Some(json!({"map": {"k": 0}, "deep": {"x": 1}})),
            json!({"map": {"k": 0, "l": 1}, "deep": {"x": 1}}),
            vec![],
        ),
    ] {
        assert_eq!(told(&schema, &new, old.as_ref()), said, "{old:?} {new}");
    }
    let atomic = json!({"type": "array", "maxItems": 5, "items": {"type": "integer",
        "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}});
    let causes = super::super::tests::refused(&json!({"f": atomic}));
    assert_eq!(
        causes,
        [
            "s.properties[f].items.x-kubernetes-validations[0].rule: Invalid value: \"self == oldSelf\": oldSelf cannot be used \
          on the uncorrelatable portion of the schema within s.properties[f]"
        ]
    );
}

#[test]
fn the_root_shows_its_names() {
    let root = json!({"type": "object", "properties": {"spec": {"type": "object"}}, "x-kubernetes-validations": [
        {"rule": "self.metadata.name.startsWith('a') && self.kind == 'K'", "message": "call it a"}]});
    let schema = Schema::custom("K", "v1", &root, "s").expect("fine");
    let object = |name: &str| json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": name, "labels": {"x": "y"}}});
    assert!(schema.validate(&object("ab"), None).is_empty());
    let said: Vec<String> = schema.validate(&object("b"), None).iter().map(Cause::to_string).collect();
    assert_eq!(said, ["<nil>: Invalid value: call it a"]);
    let labels =
        json!({"type": "object", "x-kubernetes-validations": [{"rule": "self.metadata.labels.x == 'y'"}]});
    let causes = Schema::custom("K", "v1", &labels, "s").expect_err("labels are not shown");
    assert!(causes[0].message.contains("undefined field 'labels'"), "{causes:?}");
}

#[test]
fn defaults_satisfy_rules() {
    let field = json!({"type": "integer", "default": 0, "x-kubernetes-validations": [{"rule": "self > 0", "message": "more"}]});
    let causes: Vec<String> = schema(&field).expect_err("0").iter().map(Cause::to_string).collect();
    assert_eq!(causes, ["s.properties[f].default: Invalid value: 0: more"]);
}

proptest! {
    #[test]
    fn garbage_never_panics(rule in "(self|oldSelf|has|all|x|y|[.,()?:+*<>=!&|'\\[\\]{}0-9 -]){0,12}") {
        if let Ok(schema) = schema(&everything(&json!([{"rule": rule}]))) {
            let _ = told(&schema, &json!({"n": 1, "list": [1, 2]}), Some(&json!({"n": 2})));
        }
    }
}

/// What a worker thread of the server has.
const STACK_BYTES: usize = 2 << 20;

/// Compiles a rule, and evaluates it if that can be done, on such a stack; a stack that ends ends the tests. Answers with
/// the first complaint about the rule.
fn on_a_small_stack(name: &str, rule: String) -> Result<(), String> {
    let work = move || {
        let rules = json!([{"rule": rule}]);
        let schema = schema(&everything(&rules)).map_err(|causes| {
            let message = &causes[0].message;
            message.split("compilation failed: ").nth(1).unwrap_or(message).to_owned()
        })?;
        told(&schema, &json!({"n": 1, "s": "a", "b": true, "list": [1], "free": {"a": 1}}), None);
        Ok(())
    };
    let thread = std::thread::Builder::new().name(name.to_owned()).stack_size(STACK_BYTES);
    thread.spawn(work).expect("a thread").join().expect("no panic")
}

/// Parts that repeat: what stands before, in the middle and behind.
const REPEATED: [(&str, &str, &str, &str); 22] = [
    ("", "self.n", " + self.n", " > 0"),
    ("", "self.n", " - 1", " > 0"),
    ("", "self.n", " * 1", " > 0"),
    ("", "self.n", " * 1 + 1", " > 0"),
    ("", "self.n == 1", " == true", ""),
    ("", "self.s", ".trim()", " == ''"),
    ("", "dyn(self.free)", ".a", " == 1"),
    ("", "dyn(self.free)", ".?a", ".hasValue()"),
    ("", "dyn(self.free)", "['a']", " == 1"),
    ("", "dyn(self.free)", "[?'a']", ".hasValue()"),
    ("", "self.list", ".map(x, x)", " == []"),
    ("!(", "self.b", ")", ""),
    ("(", "self.b", ")", ""),
    ("-(", "self.n", ")", " < 0"),
    ("[", "self.n", "]", " == []"),
    ("{'a': ", "self.n", "}", " == {}"),
    ("dyn(", "self.b", ")", ""),
    ("self.b ? self.b : ", "self.b", "", ""),
    ("[1].all(x, ", "self.b", ")", ""),
    ("[1].map(x, x > 0, ", "self.b", ")", " == []"),
    ("size([1].filter(x, ", "self.b", ")) > 0", ""),
    ("cel.bind(x, self.n, ", "self.b", ")", ""),
];

fn repeated((before, middle, after, rest): (&str, &str, &str, &str), times: usize) -> String {
    format!("{}{middle}{}{rest}", before.repeat(times), after.repeat(times))
}

#[test]
fn one_rule_of_100_000_terms_ended_the_process() {
    for parts in REPEATED {
        let (before, middle, after, rest) = parts;
        let times = (99_990 - middle.len() - rest.len()) / (before.len() + after.len());
        let said = on_a_small_stack(middle, repeated(parts, times)).expect_err(after);
        assert!(said.contains("recursion limit exceeded: 250"), "{before} {after}: {said}");
        let said = on_a_small_stack(middle, repeated(parts, 100_000)).expect_err(after);
        assert!(
            said.contains("expression code point size exceeds limit: size: "),
            "{before} {after}: {said}"
        );
        // Not closed.
        let open = before.repeat(times) + middle;
        on_a_small_stack(middle, open + rest).err();
    }
}

#[test]
fn the_deepest_rules_that_are_taken_fit_the_stack() {
    for parts in REPEATED {
        let fits = |times: &usize| depth::bounded(&repeated(parts, *times)).is_ok();
        let deepest = (1..=250).rev().find(fits).expect("some depth");
        // Brackets are bounded by the parser as well.
        let tried: Vec<_> = [deepest, 94, 46].into_iter().filter(|times| *times <= deepest).collect();
        let taken = |times: usize| on_a_small_stack(parts.2, repeated(parts, times));
        let last = tried.iter().map(|times| taken(*times)).find(Result::is_ok);
        assert!(last.is_some(), "{parts:?} {tried:?}: {:?}", taken(46));
    }
}

#[test]
fn what_stands_side_by_side_is_not_deep() {
    for (link, times) in [(" && self.b", 500), (" || self.b", 500)] {
        assert_eq!(on_a_small_stack(link, repeated(("", "self.b", link, ""), times)), Ok(()), "{link}");
    }
    let list = format!("self.n in [1{}]", ", 1".repeat(2_000));
    assert_eq!(on_a_small_stack("list", list), Ok(()));
}

/// The parser goes over an operand twice for each pair of signs before it, and took two for one.
#[test]
fn pairs_of_signs_doubled_the_work_for_each_pair() {
    let nested = |sign: &str, middle: &str, times: usize| {
        format!("{}{middle}{}", format!("{sign}(").repeat(times), ")".repeat(times))
    };
    assert_eq!(holds(&nested("!!", "self.b", 60), &json!({"b": true})), Ok(true));
    assert_eq!(holds(&format!("{} == 3", nested("--", "self.n", 60)), &json!({"n": 3})), Ok(true));
    assert_eq!(holds("!!!self.b", &json!({"b": true})), Ok(false));
    assert_eq!(holds("5 - - -self.n == 2", &json!({"n": 3})), Ok(true));
}

/// As upstream: a definition that was stored with it is served.
#[test]
fn a_stored_rule_that_cannot_be_compiled_refuses_values() {
    let root = json!({"type": "object", "properties": {"f": {"type": "object", "properties": {
        "n": {"type": "integer", "x-kubernetes-validations": [{"rule": format!("self{} > 0", " + self".repeat(1_600))}]},
        "m": {"type": "integer", "x-kubernetes-validations": [{"rule": "self + 1"}, {"rule": "self > 0"}]}}}}});
    let schema = Schema::stored("Thing", "v1", &root, "s").expect("served");
    assert_eq!(
        told(&schema, &json!({"n": 1, "m": 0}), None),
        [
            "f.m: Invalid value: \"integer\": rule compile error: cel expression must evaluate to a bool",
            "f.m: Invalid value: 0: failed rule: self > 0",
            "f.n: Invalid value: \"integer\": rule compile error: compilation failed: \
             ERROR: <input>:-1:0: expression recursion limit exceeded: 250",
        ]
    );
    assert!(told(&schema, &json!({}), None).is_empty());
    let old = json!({"n": 1});
    assert!(told(&schema, &old, Some(&old)).is_empty(), "what did not change is not judged");
}
