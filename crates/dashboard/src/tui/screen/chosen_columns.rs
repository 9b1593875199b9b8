//! Which columns a person wants to see: names of those that there are, and paths to fields of objects. Owns how they are typed; must not know
//! which columns there are.

use capstan_base::text::did_you_mean;

use crate::operations::{FieldPath, PathColumn, PathError};

/// A column that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// One that there is, by its name in small letters with `-` for blanks.
    Named(String),
    /// `NAME=PATH`, or a path alone.
    Own(PathColumn),
}

/// What was typed behind `columns`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChosenColumns {
    /// Beside those that are shown.
    pub adds: bool,
    /// Empty: those that are usual.
    pub wanted: Vec<Wanted>,
}

impl ChosenColumns {
    /// Columns with commas between them; with `+` before the first they come beside those that are shown.
    ///
    /// # Errors
    /// The part that cannot be understood, and what was expected.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let begin = text.chars().take_while(|c| c.is_whitespace()).count();
        let adds = text.trim_start().starts_with('+');
        let skipped = begin + usize::from(adds);
        let rest: Vec<char> = text.chars().skip(skipped).collect();
        let mut wanted = Vec::new();
        for (at, part) in parts(&rest) {
            let blanks = part.chars().take_while(|c| c.is_whitespace()).count();
            let word = part.trim();
            if word.is_empty() && wanted.is_empty() && rest.iter().all(|c| c.is_whitespace()) {
                break;
            }
            wanted.push(
                column(word).map_err(|error| PathError { at: error.at + skipped + at + blanks, ..error })?,
            );
        }
        Ok(Self { adds, wanted })
    }

    /// The columns of a person's own.
    pub fn own(&self) -> impl Iterator<Item = &PathColumn> {
        self.wanted.iter().filter_map(|wanted| if let Wanted::Own(own) = wanted { Some(own) } else { None })
    }

    /// All of them, as they are typed.
    pub fn words(&self) -> Vec<String> {
        let word = |wanted: &Wanted| match wanted {
            Wanted::Named(name) => name.clone(),
            Wanted::Own(own) => word_of(&own.name),
        };
        self.wanted.iter().map(word).collect()
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.wanted
            .iter()
            .filter_map(|wanted| if let Wanted::Named(name) = wanted { Some(name.as_str()) } else { None })
    }

    /// Every name is one of `known`.
    ///
    /// # Errors
    /// The first that is not, in a sentence.
    pub fn check(&self, known: &[String]) -> Result<(), String> {
        match self.names().find(|name| !known.iter().any(|known| known == name)) {
            None => Ok(()),
            Some(name) => {
                let hint = did_you_mean(name, known.iter().map(String::as_str));
                Err(format!("there is no column `{name}`{hint}; there are {}", known.join(", ")))
            }
        }
    }
}

/// The name of a column as it is typed.
pub fn word_of(title: &str) -> String {
    title.to_lowercase().replace(' ', "-")
}

/// Parts between commas, with their places; a comma in brackets or quotes is one of a path.
fn parts(text: &[char]) -> Vec<(usize, String)> {
    let mut parts = vec![(0, String::new())];
    let (mut depth, mut quote) = (0_usize, None);
    for (at, &c) in text.iter().enumerate() {
        match (c, quote) {
            (_, Some(open)) if c == open => quote = None,
            (_, Some(_)) => {}
            ('\'' | '"', None) if depth > 0 => quote = Some(c),
            ('[', None) => depth += 1,
            (']', None) => depth = depth.saturating_sub(1),
            (',', None) if depth == 0 => {
                parts.push((at + 1, String::new()));
                continue;
            }
            _ => {}
        }
        if let Some((_, part)) = parts.last_mut() {
            part.push(c);
        }
    }
    parts
}

fn column(word: &str) -> Result<Wanted, PathError> {
    let is_path = |text: &str| text.starts_with(['.', '{', '$', '[']);
    if is_path(word) {
        let path = FieldPath::parse(word)?;
        let last = word.trim_end_matches(['}', ']', '\'', '"']).rsplit(['.', '[', '\'', '"']).next();
        let name = last.filter(|name| !name.is_empty()).unwrap_or(word).to_uppercase();
        return Ok(Wanted::Own(PathColumn { name, path }));
    }
    let expected =
        |at: usize, length: usize, why: &str| PathError { at, length: length.max(1), why: why.to_owned() };
    match word.split_once('=') {
        None if word.is_empty() => Err(expected(0, 1, "a column or NAME=.path is expected")),
        None => Ok(Wanted::Named(word_of(word))),
        Some(("", _)) => Err(expected(0, 1, "a name is expected before `=`")),
        Some((name, path)) => {
            let before = name.chars().count() + 1;
            let path =
                FieldPath::parse(path).map_err(|error| PathError { at: error.at + before, ..error })?;
            Ok(Wanted::Own(PathColumn { name: name.to_owned(), path }))
        }
    }
}

#[cfg(test)]
mod tests {
    use ratatui::layout::Rect;

    use super::super::columns::{Columns, List};
    use super::*;
    use crate::fleet::Listed;

    fn told(text: &str) -> Vec<String> {
        let chosen = ChosenColumns::parse(text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        let of = |wanted: &Wanted| match wanted {
            Wanted::Named(name) => name.clone(),
            Wanted::Own(own) => format!("{}={}", own.name, own.path.as_str()),
        };
        let plus = chosen.adds.then(|| "+".to_owned());
        plus.into_iter().chain(chosen.wanted.iter().map(of)).collect()
    }

    #[test]
    fn columns_are_names_and_paths() {
        for (text, expected) in [
            ("", &[][..]),
            ("  ", &[]),
            ("name, Node Name,AGE", &["name", "node-name", "age"]),
            ("+ZONE=.spec.failureDomain", &["+", "ZONE=.spec.failureDomain"]),
            (".spec.failureDomain", &["FAILUREDOMAIN=.spec.failureDomain"]),
            (".metadata.labels['a,b'],age", &["A,B=.metadata.labels['a,b']", "age"]),
            (
                "R=.status.conditions[?(@.type==\"A,B\")].status,x",
                &["R=.status.conditions[?(@.type==\"A,B\")].status", "x"],
            ),
        ] {
            assert_eq!(told(text), expected, "{text}");
        }
    }

    #[test]
    fn an_error_is_where_it_stands_in_the_whole_line() {
        for (text, at, length) in [
            ("age,,name", 4, 1),
            ("age,=.spec", 4, 1),
            ("age, ZONE=.spec[x]", 16, 1),
            (" +Z=.a(b", 6, 1),
            ("Z=", 2, 1),
        ] {
            let error = ChosenColumns::parse(text).expect_err(text);
            assert_eq!((error.at, error.length), (at, length), "{text}: {}", error.why);
        }
    }

    #[test]
    fn chosen_columns_stand_beside_the_names_and_are_found_at_every_width() {
        let chosen = |names: &[&str], width| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            let columns = Columns::choosing(List::Over(Listed::Machines), false, Some(names));
            let placed = columns.place(Rect::new(0, 0, width, 20));
            placed.iter().map(|p| p.title.to_lowercase()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(chosen(&[], 80), "name");
        assert_eq!(chosen(&["since", "provider-id"], 120), "name since provider id");
        for list in [Listed::Clusters, Listed::Machines, Listed::ControlPlanes, Listed::MachineHealthChecks] {
            for name in Columns::new(List::Over(list), false).names() {
                let columns = Columns::choosing(List::Over(list), false, Some(vec![name.clone()]));
                let count = columns.place(Rect::new(0, 0, 200, 20)).len();
                assert!(count > 1, "{list:?}: {name}");
            }
        }
    }
}
