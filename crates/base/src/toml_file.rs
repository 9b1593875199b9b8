//! Reading one TOML file so that every complaint names file and line. Owns the error and the walk
//! over spanned tables. Must not know what a file means.

use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A file that could not be used: which, where in it, and what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {message}")]
pub struct FileError {
    /// Path, or `built-in theme NAME`.
    pub file: String,
    /// 1-based; 1 when the complaint is about the whole file.
    pub line: usize,
    pub message: String,
    /// There is no file of the name that was asked for.
    pub is_missing: bool,
}

/// One file's text with its name.
pub struct Source {
    pub file: String,
    pub text: String,
}

impl Source {
    pub fn new(file: impl Into<String>, text: impl Into<String>) -> Self {
        Self { file: file.into(), text: text.into() }
    }

    /// # Errors
    /// When the text is not TOML.
    pub fn parse(&self) -> Result<Spanned<DeTable<'_>>, FileError> {
        DeTable::parse(&self.text)
            .map_err(|e| self.error(&e.span().unwrap_or(0..0), format!("not valid TOML: {}", e.message())))
    }

    /// The whole file as a value.
    ///
    /// # Errors
    /// When the text is not TOML, or something in it is not what was expected.
    pub fn read<T: serde::de::DeserializeOwned>(&self) -> Result<T, FileError> {
        toml::from_str(&self.text).map_err(|e| self.error(&e.span().unwrap_or(0..0), e.message()))
    }

    pub fn error(&self, span: &Range<usize>, message: impl Into<String>) -> FileError {
        let (file, line) = (self.file.clone(), self.line_of(span.start));
        FileError { file, line, message: message.into(), is_missing: false }
    }

    /// 1-based line of a byte offset.
    pub fn line_of(&self, offset: usize) -> usize {
        self.text.bytes().take(offset).filter(|b| *b == b'\n').count() + 1
    }

    /// The text of a string value.
    ///
    /// # Errors
    /// When the value is something else.
    pub fn string<'v>(&self, value: &'v Spanned<DeValue<'_>>, what: &str) -> Result<&'v str, FileError> {
        value.get_ref().as_str().ok_or_else(|| {
            self.error(&value.span(), format!("{what} must be a string, not {}", value.get_ref().type_str()))
        })
    }

    /// The entries of a table value.
    ///
    /// # Errors
    /// When the value is something else.
    pub fn table<'v, 'i>(
        &self,
        value: &'v Spanned<DeValue<'i>>,
        what: &str,
    ) -> Result<&'v DeTable<'i>, FileError> {
        value.get_ref().as_table().ok_or_else(|| {
            self.error(&value.span(), format!("{what} must be a table, not {}", value.get_ref().type_str()))
        })
    }
}

/// Files of one kind: those built in, and those of a configuration folder, which win.
pub struct Library {
    /// `theme`, `keymap` or `explanation`, for messages; the folder is this plus `s`.
    pub what: &'static str,
    pub embedded: &'static [(&'static str, &'static str)],
    pub folder: Option<PathBuf>,
}

impl Library {
    /// `config_dir/themes` and the like, when there is a configuration directory.
    pub fn new(
        what: &'static str,
        embedded: &'static [(&'static str, &'static str)],
        config_dir: Option<&Path>,
    ) -> Self {
        Self { what, embedded, folder: config_dir.map(|d| d.join(format!("{what}s"))) }
    }

    /// Names that can be asked for, sorted: built-in ones and `*.toml` files of the folder.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.embedded.iter().map(|(name, _)| (*name).to_owned()).collect();
        let entries = self.folder.iter().filter_map(|f| std::fs::read_dir(f).ok()).flatten().flatten();
        names.extend(entries.filter_map(|e| Some(e.file_name().to_str()?.strip_suffix(".toml")?.to_owned())));
        names.sort();
        // A file of the folder may take the place of one that is built in, under its name.
        names.dedup();
        names
    }

    /// The text of `name`: from the configuration folder, else built in. A file that inherits from
    /// its own name means the built-in one it replaces: ask with `built_in_only`.
    ///
    /// # Errors
    /// When there is none of that name, or it cannot be read.
    pub fn open(&self, name: &str, built_in_only: bool) -> Result<Source, FileError> {
        let missing = |message: String| {
            let file = format!("{} {name}", self.what);
            FileError { file, line: 1, message, is_missing: true }
        };
        // The name becomes a part of a path that must not lead out of the folder.
        if name.is_empty() || name.contains(['/', '\\', '\0']) {
            return Err(missing(format!("`{name}` is not a {} name", self.what)));
        }
        if let Some(folder) = self.folder.as_ref().filter(|_| !built_in_only) {
            let path = folder.join(format!("{name}.toml"));
            match std::fs::read_to_string(&path) {
                Ok(text) => return Ok(Source::new(path.display().to_string(), text)),
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => {
                    let file = path.display().to_string();
                    let message = format!("cannot be read: {e}");
                    return Err(FileError { file, line: 1, message, is_missing: false });
                }
            }
        }
        match self.embedded.iter().find(|(n, _)| *n == name) {
            Some((_, text)) => Ok(Source::new(format!("built-in {} {name}", self.what), *text)),
            None => Err(missing(format!(
                "there is no {} `{name}`{}; known: {}",
                self.what,
                crate::text::did_you_mean(name, self.names().iter().map(String::as_str)),
                self.names().join(", ")
            ))),
        }
    }
}
