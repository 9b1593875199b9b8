//! Differences as people read them: one paragraph per object, stored values against computed ones,
//! messages line by line, and the counts at the end. Owns layout and colour; must not judge.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use crate::output::Style;
use crate::output::colour::{BOLD, GREEN, GREY, RED, RESET, YELLOW};
use capi_rules::recompute::Computed;
use capi_rules::recompute::diff::{Content, Difference, differences};
use capi_rules::status::conditions::wording::plural;
use capstan_base::text;

/// The longest name that others are lined up with.
const NAME_CELLS_MAX: usize = 44;
/// Two values that take more are shown one below the other.
const VALUES_CELLS_MAX: usize = 80;
/// Longer messages are not compared line by line but shown whole: the effort grows with the square.
const LINES_COMPARED_MAX: usize = 400;

/// Every object that differs, then one line that counts them.
pub fn text(computed: &[Computed], unjudged: &BTreeMap<&str, usize>, style: Style) -> String {
    let page = Page { style };
    let mut out = String::new();
    for one in computed {
        page.object(one, &mut out);
    }
    out.push_str(&page.summary(computed, unjudged));
    out
}

struct Page {
    style: Style,
}

impl Page {
    fn painted(&self, color: &str, text: &str) -> String {
        if self.style.color && !text.is_empty() { format!("{color}{text}{RESET}") } else { text.to_owned() }
    }

    /// Text of an object on one line; a terminal gets it without control characters.
    fn safe(&self, text: &str) -> String {
        if self.style.terminal { text::sanitize_line(text) } else { text.to_owned() }
    }

    fn object(&self, one: &Computed, out: &mut String) {
        let found = differences(&one.before["status"], &one.after["status"]);
        if found.is_empty() {
            return;
        }
        let name = self.safe(&format!("{} {}", one.kind.name(), one.key));
        let hint = hint(&one.before).map(|hint| format!("  ({hint})")).unwrap_or_default();
        let _ = writeln!(out, "{}{}", self.painted(BOLD, &name), self.painted(YELLOW, &hint));
        let lines: Vec<(String, &Difference)> = found.iter().map(|d| (self.safe(name_of(d)), d)).collect();
        let widths = lines.iter().map(|(name, _)| text::width(name)).filter(|w| *w <= NAME_CELLS_MAX);
        let widest = widths.max().unwrap_or(0);
        for (name, difference) in &lines {
            let blanks = " ".repeat(widest.saturating_sub(text::width(name)));
            let _ = write!(out, "  {name}{blanks}  ");
            match difference {
                Difference::Condition { stored, computed, .. } => {
                    self.condition(stored.as_ref(), computed.as_ref(), out);
                }
                Difference::Field { stored, computed, .. } => {
                    self.field(&shown(stored), &shown(computed), out);
                }
                Difference::Order => out.push_str("in another order\n"),
            }
        }
        out.push('\n');
    }

    fn field(&self, stored: &str, computed: &str, out: &mut String) {
        if text::width(stored) + text::width(computed) > VALUES_CELLS_MAX {
            // The name was written with blanks behind it for a value on the same line.
            out.truncate(out.trim_end_matches(' ').len());
            out.push('\n');
            self.message(stored, computed, out);
        } else {
            let _ = writeln!(out, "{}", self.change(stored, computed));
        }
    }

    fn change(&self, stored: &str, computed: &str) -> String {
        let (stored, computed) = (self.safe(stored), self.safe(computed));
        format!(
            "{} {} {}",
            self.painted(RED, &stored),
            self.painted(GREY, "→"),
            self.painted(GREEN, &computed)
        )
    }

    fn condition(&self, stored: Option<&Content>, computed: Option<&Content>, out: &mut String) {
        let verdict = |content: Option<&Content>| {
            content.map_or_else(|| "absent".to_owned(), |t| format!("{} {}", t.status, t.reason))
        };
        let (old, new) = (verdict(stored), verdict(computed));
        let same = old == new;
        let line = if same { self.safe(&new) } else { self.change(&old, &new) };
        let _ = writeln!(out, "{line}{}", self.painted(GREY, &aside(stored, computed, same)));
        let message = |content: Option<&Content>| content.map(|t| t.message.clone()).unwrap_or_default();
        let (old, new) = (message(stored), message(computed));
        if old != new {
            self.message(&old, &new, out);
        }
    }

    fn message(&self, old: &str, new: &str, out: &mut String) {
        for (sign, line) in lines_between(old, new) {
            let line = self.safe(line);
            let line = match sign {
                '-' => self.painted(RED, &format!("- {line}")),
                '+' => self.painted(GREEN, &format!("+ {line}")),
                _ => format!("  {line}"),
            };
            let _ = writeln!(out, "    {line}");
        }
    }

    fn summary(&self, computed: &[Computed], unjudged: &BTreeMap<&str, usize>) -> String {
        let mut differing: BTreeMap<_, usize> = BTreeMap::new();
        for one in computed.iter().filter(|c| c.differs()) {
            *differing.entry(one.kind).or_default() += 1;
        }
        let judged = computed.iter().filter(|c| c.left.is_none()).count();
        let count: usize = differing.values().sum();
        let by_kind: Vec<String> = differing.iter().map(|(kind, n)| counted(*n, kind.name())).collect();
        let mut line = match count {
            0 => self.painted(GREEN, &format!("{}: no status differs", counted(judged, "object"))),
            _ => {
                let verb = if count == 1 { "differs" } else { "differ" };
                let line = format!("{count} of {} {verb}", counted(judged, "object"));
                format!("{} ({})", self.painted(RED, &line), by_kind.join(", "))
            }
        };
        if judged < computed.len() {
            let _ = write!(line, "; {} not judged", computed.len() - judged);
        }
        let others: Vec<String> = unjudged.iter().map(|(kind, n)| self.safe(&counted(*n, kind))).collect();
        if !others.is_empty() {
            let _ = write!(line, "; no rules for {}", others.join(", "));
        }
        line + "\n"
    }
}

fn counted(n: usize, kind: &str) -> String {
    if n == 1 { format!("1 {kind}") } else { format!("{n} {}", plural(kind)) }
}

/// The only thing that may explain why a status is behind.
fn hint(object: &Value) -> Option<String> {
    let status = &object["status"];
    if status.as_object().is_none_or(serde_json::Map::is_empty) {
        return Some("no status yet".to_owned());
    }
    let (generation, seen) =
        (object["metadata"]["generation"].as_i64()?, status["observedGeneration"].as_i64()?);
    (seen < generation).then(|| format!("stale: its controller saw generation {seen} of {generation}"))
}

fn name_of(difference: &Difference) -> &str {
    match difference {
        Difference::Condition { type_, .. } => type_,
        Difference::Field { path, .. } => path,
        Difference::Order => "conditions",
    }
}

/// What else differs in a condition with the same value and reason: its age alone is not worth a line once the value
/// has changed.
fn aside(stored: Option<&Content>, computed: Option<&Content>, same: bool) -> String {
    let (Some(old), Some(new)) = (stored, computed) else { return String::new() };
    let number = |n: Option<i64>| n.map_or_else(|| "absent".to_owned(), |n| n.to_string());
    let mut parts = Vec::new();
    if old.observed_generation != new.observed_generation {
        parts.push(format!(
            "observedGeneration {} → {}",
            number(old.observed_generation),
            number(new.observed_generation)
        ));
    }
    if same && old.last_transition_time != new.last_transition_time {
        parts.push(format!("lastTransitionTime {} → {}", old.last_transition_time, new.last_transition_time));
    }
    if parts.is_empty() { String::new() } else { format!("  ({})", parts.join(", ")) }
}

/// A value on one line; words without quotes.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "absent".to_owned(),
        Value::String(text) if !text.is_empty() && !text.contains(char::is_whitespace) => text.clone(),
        other => other.to_string(),
    }
}

/// The lines of two messages with `-` for those only in the first, `+` for those only in the second, in
/// order; of all possible differences the one with most lines in common.
fn lines_between<'a>(old: &'a str, new: &'a str) -> Vec<(char, &'a str)> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    if old.len().max(new.len()) > LINES_COMPARED_MAX {
        return old.iter().map(|l| ('-', *l)).chain(new.iter().map(|l| ('+', *l))).collect();
    }
    // `common[i][j]`: lines that `old[i..]` and `new[j..]` share.
    let mut common = vec![vec![0_usize; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] = if old[i] == new[j] {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut lines = Vec::new();
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            lines.push((' ', old[i]));
            (i, j) = (i + 1, j + 1);
        // Where both ways share as much, the stored line comes first, as in every diff.
        } else if j == new.len() || (i < old.len() && common[i + 1][j] >= common[i][j + 1]) {
            lines.push(('-', old[i]));
            i += 1;
        } else {
            lines.push(('+', new[j]));
            j += 1;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use capi_rules::observe::dump::Kind;
    use capi_types::key::ObjectKey;

    fn computed(before: Value, after: Value) -> Computed {
        let object = |status: Value| json!({"metadata": {"generation": 4}, "status": status});
        let key = ObjectKey::new("ns", "m");
        Computed {
            kind: Kind::Machine,
            key,
            before: object(before),
            after: object(after),
            left: None,
            kept: Vec::new(),
        }
    }

    fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
        json!({"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": "t"})
    }

    #[test]
    fn an_object_reads_as_a_paragraph() {
        let before = json!({"observedGeneration": 3, "phase": "Provisioned", "versions": [],
            "conditions": [condition("Available", "False", "NotReady", ""), condition("Ready", "False", "NotReady", "* A: a\n* B: b\n* C: c"),
                condition("UpToDate", "True", "UpToDate", ""), condition("Gate", "True", "Yes", "")]});
        let after = json!({"observedGeneration": 4, "phase": "Running", "failureDomain": "a b", "selector": "x".repeat(90),
            "conditions": [condition("Available", "True", "Available", ""), condition("Ready", "False", "NotReady", "* A: a\n* B: x\n* C: c"),
                condition("NodeReady", "True", "NodeReady", ""), condition("Gate", "True", "Yes", "")]});
        let page =
            text(&[computed(before, after)], &BTreeMap::from([("ExtensionConfig", 1)]), Style::default());
        let expected = "\
Machine ns/m  (stale: its controller saw generation 3 of 4)
  Available           False NotReady → True Available
  Ready               False NotReady
      * A: a
    - * B: b
    + * B: x
      * C: c
  NodeReady           absent → True NodeReady
  UpToDate            True UpToDate → absent
  failureDomain       absent → \"a b\"
  observedGeneration  3 → 4
  phase               Provisioned → Running
  selector
    - absent
    + xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
  versions            [] → absent

1 of 1 object differs (1 Machine); no rules for 1 ExtensionConfig
";
        assert_eq!(page, expected);
    }

    #[test]
    fn what_only_aged_is_said_beside_it() {
        let with = |generation: i64, since: &str| json!({"conditions": [{"type": "A", "status": "True", "reason": "R", "observedGeneration": generation, "lastTransitionTime": since}]});
        let page = text(&[computed(with(3, "x"), with(4, "y"))], &BTreeMap::new(), Style::default());
        assert!(
            page.contains("\n  A  True R  (observedGeneration 3 → 4, lastTransitionTime x → y)\n"),
            "{page}"
        );
        let same = text(&[computed(with(3, "x"), with(3, "x"))], &BTreeMap::new(), Style::default());
        assert_eq!(same, "1 object: no status differs\n");
        let fresh = text(&[computed(Value::Null, with(3, "x"))], &BTreeMap::new(), Style::default());
        assert!(fresh.starts_with("Machine ns/m  (no status yet)\n  A  absent → True R\n"), "{fresh}");
    }

    #[test]
    fn colours_and_safe_text_are_for_terminals() {
        let change = || {
            let list = |message: &str| json!({"conditions": [condition("A", "True", "R", message)]});
            [computed(list("old"), list("new\u{1b}]0;owned\u{7}"))]
        };
        let hostile = "\u{1b}]0;";
        let pipe = text(&change(), &BTreeMap::new(), Style::default());
        assert!(pipe.contains(hostile) && !pipe.contains(BOLD), "a pipe gets the bytes and nothing else");
        let plain = text(&change(), &BTreeMap::new(), Style { terminal: true, color: false });
        assert!(!plain.contains('\u{1b}') && plain.contains("new\u{fffd}]0;owned\u{fffd}"));
        let coloured = text(&change(), &BTreeMap::new(), Style { terminal: true, color: true });
        assert!(coloured.contains(BOLD) && !coloured.contains(hostile));
        let stripped = [BOLD, RED, GREEN, YELLOW, GREY, RESET]
            .iter()
            .fold(coloured, |text, code| text.replace(code, ""));
        assert_eq!(stripped, plain);
    }

    #[test]
    fn lines_in_common_stay_together() {
        let marks = |old: &str, new: &str| -> String {
            lines_between(old, new).iter().map(|(sign, line)| format!("{sign}{line} ")).collect()
        };
        assert_eq!(marks("a\nb\nc", "a\nc\nd"), " a -b  c +d ");
        assert_eq!(marks("", "a"), "+a ");
        assert_eq!(marks("a\nb", ""), "-a -b ");
        let long = "x\n".repeat(LINES_COMPARED_MAX + 1);
        assert_eq!(lines_between(&long, "x").len(), LINES_COMPARED_MAX + 2);
    }
}
