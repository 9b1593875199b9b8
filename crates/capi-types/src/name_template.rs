//! Templates of generated names. Owns how they are rendered and cut; must not know who asks, which
//! variables there are, or how a complaint is worded.
//! Source: cluster-api `internal/topology/names/names.go` v1.14.2; Go `text/template`, of which only plain
//! variables are known.

/// Longest generated name and label value, in bytes.
pub const NAME_BYTES_MAX: usize = 63;
/// Length of the random part.
pub const RANDOM_BYTES: usize = 5;

/// A name, and whether anything in it is random.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// At most [`NAME_BYTES_MAX`] bytes.
    pub name: String,
    /// The template has `.random`, or the name was cut.
    pub is_random: bool,
}

/// Where a template cannot be rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault<'a> {
    /// Opening braces without closing ones.
    Unclosed,
    /// What stands between the braces, and the byte at which it begins.
    NotKnown {
        /// The text between the braces.
        action: &'a str,
        /// In bytes, from the beginning of the template.
        start: usize,
    },
}

/// The variable that an action names: spaces and trim markers do not count.
pub fn variable(action: &str) -> &str {
    action.trim_matches(['-', ' '])
}

/// Renders `template` with `variables` (names with their leading dot) and `random` for `.random`. A name that
/// would be too long is cut, and ends in `random`.
///
/// # Errors
/// The first [`Fault`].
pub fn render<'a>(
    template: &'a str,
    variables: &[(&str, &str)],
    random: &str,
) -> Result<Rendered, Fault<'a>> {
    let (mut name, mut is_random) = (String::new(), false);
    let mut rest = template;
    while let Some(open) = rest.find("{{") {
        name.push_str(&rest[..open]);
        let inside = &rest[open + 2..];
        // The first: there are no strings in an action that could hold braces.
        let close = inside.find("}}").ok_or(Fault::Unclosed)?;
        let action = &inside[..close];
        if variable(action) == ".random" {
            is_random = true;
            name.push_str(random);
        } else {
            let known = variables.iter().find(|(known, _)| *known == variable(action));
            // A place in the whole template, so that a complaint can point there.
            let start = template.len() - inside.len();
            name.push_str(known.ok_or(Fault::NotKnown { action, start })?.1);
        }
        rest = &inside[close + 2..];
    }
    name.push_str(rest);
    if name.len() > NAME_BYTES_MAX {
        let mut keep = NAME_BYTES_MAX - RANDOM_BYTES;
        // The bound is one of bytes; a cut within a character would panic.
        while !name.is_char_boundary(keep) {
            keep -= 1;
        }
        name.truncate(keep);
        name.push_str(random);
    }
    Ok(Rendered { name, is_random })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_filled_in_and_long_names_cut() {
        let variables = [(".cluster.name", "prod"), (".machineSet.name", "md-0-x")];
        let long = "a".repeat(70);
        for (template, expected) in [
            ("{{ .machineSet.name }}-{{ .random }}", Ok(("md-0-x-abcde".to_owned(), true))),
            ("{{- .cluster.name -}}-{{.random}}", Ok(("prod-abcde".to_owned(), true))),
            ("fixed", Ok(("fixed".to_owned(), false))),
            (long.as_str(), Ok(("a".repeat(58) + "abcde", false))),
            ("{{ .random", Err(Fault::Unclosed)),
            ("x{{ .pool }}", Err(Fault::NotKnown { action: " .pool ", start: 3 })),
        ] {
            let found = render(template, &variables, "abcde").map(|r| (r.name, r.is_random));
            assert_eq!(found, expected, "{template}");
        }
        let wide = "é".repeat(40);
        assert_eq!(render(&wide, &[], "abcde").map(|r| r.name), Ok("é".repeat(29) + "abcde"));
    }
}
