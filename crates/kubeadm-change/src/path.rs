//! Where in a configuration document something stands: `apiServer.extraArgs[audit-log-path].value`. Owns the
//! text form in both directions; must not know which paths exist.

use std::fmt;

/// One step down.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathStep {
    /// A field of a structure, or a key of a map.
    Field(String),
    /// An item of a list by its key; the values of several keys are joined by `,`.
    Item(String),
    /// An item of a list by its place, from 0.
    Index(usize),
}

/// The steps from the head of a document.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldPath(pub Vec<PathStep>);

/// A path that cannot be understood: what was typed, and what was expected there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{typed}` is not a path: {expected}; expected a form such as apiServer.extraArgs[audit-log-path]")]
pub struct PathError {
    typed: String,
    expected: &'static str,
}

impl FieldPath {
    /// One field or key further down.
    pub fn field(&self, name: &str) -> Self {
        self.step(PathStep::Field(name.to_owned()))
    }

    /// One step further down.
    pub fn step(&self, step: PathStep) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }

    /// Reads the text form; `[N]` with a number alone is an item by its place.
    ///
    /// # Errors
    /// [`PathError`].
    pub fn parse(typed: &str) -> Result<Self, PathError> {
        let wrong = |expected| PathError { typed: typed.to_owned(), expected };
        let mut steps = Vec::new();
        let mut rest = typed;
        while !rest.is_empty() {
            if let Some(inner) = rest.strip_prefix('[') {
                let (step, after) = bracket(inner).ok_or_else(|| wrong("a `[` has no `]`"))?;
                steps.push(step);
                rest = after;
            } else {
                // At the beginning a dot stays, and is refused below: it has no name before it.
                let rest_of_name =
                    if steps.is_empty() { rest } else { rest.strip_prefix('.').unwrap_or(rest) };
                let end = rest_of_name.find(['.', '[']).unwrap_or(rest_of_name.len());
                if end == 0 {
                    return Err(wrong("a name is empty"));
                }
                steps.push(PathStep::Field(rest_of_name[..end].to_owned()));
                rest = &rest_of_name[end..];
                if rest == "." {
                    return Err(wrong("a name is empty"));
                }
            }
        }
        if steps.is_empty() { Err(wrong("it is empty")) } else { Ok(Self(steps)) }
    }
}

/// `"memory.available"]…`, `0]…` or `name]…`, up to the end of the bracket.
fn bracket(inner: &str) -> Option<(PathStep, &str)> {
    if let Some(quoted) = inner.strip_prefix('"') {
        let (name, after) = quoted.split_once("\"]")?;
        return Some((PathStep::Field(name.to_owned()), after));
    }
    let (name, after) = inner.split_once(']')?;
    let step = match name.parse() {
        // In a list with keys a number may be one: `request` takes it so.
        Ok(index) => PathStep::Index(index),
        Err(_) => PathStep::Item(name.strip_prefix("name=").unwrap_or(name).to_owned()),
    };
    Some((step, after))
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.0.iter().enumerate() {
            match step {
                PathStep::Field(name) if name.contains(['.', '[', '/']) || name.is_empty() => {
                    write!(f, "[\"{name}\"]")?;
                }
                PathStep::Field(name) if index == 0 => f.write_str(name)?,
                PathStep::Field(name) => write!(f, ".{name}")?,
                PathStep::Item(key) => write!(f, "[{key}]")?,
                PathStep::Index(at) => write!(f, "[{at}]")?,
            }
        }
        Ok(())
    }
}

impl serde::Serialize for FieldPath {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_form_reads_back() {
        for text in [
            "maxPods",
            "networking.podSubnet",
            "apiServer.extraArgs[audit-log-path].value",
            "evictionHard[\"memory.available\"]",
            "apiServer.certSANs[3]",
            "nodeRegistration.taints[a,NoSchedule]",
        ] {
            assert_eq!(FieldPath::parse(text).expect(text).to_string(), text);
        }
        let named = FieldPath::parse("apiServer.extraArgs[name=v]").expect("a path");
        assert_eq!(named.to_string(), "apiServer.extraArgs[v]");
    }

    #[test]
    fn what_is_not_a_path_is_refused() {
        for text in ["", "a.", ".a", "a..b", "a[b", "a[\"b]"] {
            let error = FieldPath::parse(text).expect_err(text).to_string();
            assert!(error.starts_with(&format!("`{text}` is not a path: ")), "{error}");
        }
    }
}
