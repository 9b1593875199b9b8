//! `## template: jinja`: variables of the instance are filled in. Owns the part of Jinja that is read; must not know YAML.
//! Source: cloud-init `cloudinit/templater.py`, `cloudinit/handlers/jinja_template.py`, `cloudinit/sources/__init__.py`, 04eacd06
//! (2026-08).

use super::refusal::{DataRefusal, shown};

/// What is known of a machine to whoever wrote its bootstrap data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// New for each use of a machine, as the uid of a HostMachine is.
    pub instance_id: String,
    /// The name that its Node gets.
    pub local_hostname: String,
}

impl Instance {
    /// cloud-init's own names have a `v1.` before them, those of a data source `ds.meta_data.`.
    fn variable(&self, name: &str) -> Option<&str> {
        let name = name.strip_prefix("ds.meta_data.").or_else(|| name.strip_prefix("v1.")).unwrap_or(name);
        match name {
            "instance_id" | "instance-id" => Some(&self.instance_id),
            "local_hostname" | "local-hostname" | "hostname" => Some(&self.local_hostname),
            _ => None,
        }
    }
}

/// The text with its variables filled in.
///
/// # Errors
/// Something of Jinja that is not read here, or a variable that is not known and has no default.
pub(super) fn fill_in(text: &str, first_line: usize, instance: &Instance) -> Result<String, DataRefusal> {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        let (before, from) = rest.split_at(at);
        filled.push_str(before);
        let refused = |what: String| {
            let line = first_line + text[..text.len() - from.len()].matches('\n').count();
            DataRefusal::Template { line, what }
        };
        if let Some(inside) = from.strip_prefix("{{") {
            let (expression, after) =
                inside.split_once("}}").ok_or_else(|| refused("`{{` has no end".to_owned()))?;
            filled.push_str(value_of(expression, instance).map_err(refused)?);
            rest = after;
        } else if from.starts_with("{%") || from.starts_with("{#") {
            return Err(refused(format!("`{}` begins a statement or a comment of Jinja", &from[..2])));
        } else {
            filled.push('{');
            rest = &from[1..];
        }
    }
    filled.push_str(rest);
    Ok(filled)
}

/// `NAME`, `"TEXT"`, and either with `| default("TEXT")`.
fn value_of<'v>(expression: &'v str, instance: &'v Instance) -> Result<&'v str, String> {
    let (value, filter) = match expression.split_once('|') {
        Some((value, filter)) => (value.trim(), Some(filter.trim())),
        None => (expression.trim(), None),
    };
    let default =
        filter.map(|filter| default_of(filter).ok_or_else(|| format!("filter `{}`", shown(filter))));
    let default = default.transpose()?;
    if let Some(text) = quoted(value) {
        return Ok(text);
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if value.is_empty() || !value.chars().all(is_name) {
        return Err(format!("expression `{}`", shown(value)));
    }
    instance.variable(value).or(default).ok_or_else(|| format!("variable `{}` is not known", shown(value)))
}

/// The text of `default("TEXT")`.
fn default_of(filter: &str) -> Option<&str> {
    let inside = filter.strip_prefix("default")?.trim_start().strip_prefix('(')?.strip_suffix(')')?;
    quoted(inside.trim())
}

/// A text in quotes, without escapes.
fn quoted(text: &str) -> Option<&str> {
    ['"', '\''].into_iter().find_map(|quote| {
        let inside = text.strip_prefix(quote)?.strip_suffix(quote)?;
        (!inside.contains([quote, '\\'])).then_some(inside)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str) -> Result<String, String> {
        let instance = Instance { instance_id: "uid-1".to_owned(), local_hostname: "h1".to_owned() };
        fill_in(text, 2, &instance).map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn variables_of_the_instance_are_filled_in() {
        for (text, expected) in [
            ("name: {{ ds.meta_data.local_hostname }}\n", "name: h1\n"),
            ("{{ds.meta_data.hostname}} {{ local_hostname }} {{ v1.local_hostname }}", "h1 h1 h1"),
            ("x://{{ ds.meta_data.instance_id }}/{{ v1.instance_id }}", "x://uid-1/uid-1"),
            ("{{ ds.meta_data.region | default(\"none\") }}", "none"),
            ("{{ ds.meta_data.instance_id | default('none') }}", "uid-1"),
            ("{{ '{{' }} .Name }}", "{{ .Name }}"),
            ("a {b} ${c} {", "a {b} ${c} {"),
        ] {
            assert_eq!(filled(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn the_rest_of_jinja_is_refused_with_its_line() {
        for (text, expected) in [
            ("a\n{% if x %}", "line 3 of the bootstrap data: `{%` begins a statement"),
            ("${#list[@]}", "line 2 of the bootstrap data: `{#` begins a statement"),
            ("{{ ds.meta_data.region }}", "variable `ds.meta_data.region` is not known"),
            ("{{ x | upper }}", "filter `upper`"),
            ("{{ a b }}", "expression `a b`"),
            ("{{ .Name }}", "variable `.Name` is not known"),
            ("{{", "`{{` has no end"),
        ] {
            let error = filled(text).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn text_without_jinja_stays_as_it_is(text in "[^{]{0,80}") {
            proptest::prop_assert_eq!(filled(&text), Ok(text));
        }
    }
}
