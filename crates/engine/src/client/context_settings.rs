//! What a person wants of single contexts of their kubeconfigs: a rank and a word, read-only, time to read, a namespace, no history. Owns the file
//! `contexts.toml` and which of its entries holds for a context; must not know how anything is shown.

use std::path::Path;

use serde::Deserialize;

use capstan_base::toml_file::{FileError, Source};

const FILE: &str = "contexts.toml";

/// How much harm a mistake does there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rank {
    /// Whatever is changed there is confirmed by the object's name.
    Production,
    Staging,
    Development,
}

impl Rank {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Production => "production",
            Self::Staging => "staging",
            Self::Development => "development",
        }
    }
}

/// What holds for a context.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ContextSetting {
    /// The context's name; `*` stands for any characters, also for none.
    name: String,
    pub rank: Option<Rank>,
    /// Shown in place of the rank's name.
    word: Option<String>,
    /// No write leaves the process, dry runs neither.
    #[serde(default)]
    pub read_only: bool,
    /// From a preview that was read to its end to the first moment at which it can be confirmed.
    #[serde(default)]
    pub confirm_after_s: u32,
    /// As `--namespace`, where neither that nor `--all-namespaces` is given.
    pub namespace: Option<String>,
    /// What the dashboard sees happen there is kept for its next run.
    #[serde(default = "yes")]
    pub history: bool,
}

impl Default for ContextSetting {
    fn default() -> Self {
        Self {
            name: String::new(),
            rank: None,
            word: None,
            read_only: false,
            confirm_after_s: 0,
            namespace: None,
            history: true,
        }
    }
}

fn yes() -> bool {
    true
}

impl ContextSetting {
    /// Whatever is changed there is confirmed by a name.
    pub fn is_production(&self) -> bool {
        self.rank == Some(Rank::Production)
    }

    /// What is shown beside the context's name.
    pub fn word(&self) -> Option<&str> {
        self.word.as_deref().or(self.rank.map(Rank::name))
    }

    fn is_of(&self, context: &str) -> bool {
        let mut parts = self.name.split('*');
        let Some(mut rest) = parts.next().and_then(|first| context.strip_prefix(first)) else { return false };
        let mut parts: Vec<&str> = parts.collect();
        let Some(last) = parts.pop() else { return rest.is_empty() };
        for part in parts {
            let Some((_, behind)) = rest.split_once(part) else { return false };
            rest = behind;
        }
        rest.ends_with(last)
    }
}

/// Every entry of the file, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextSettings {
    #[serde(default)]
    context: Vec<ContextSetting>,
}

impl ContextSettings {
    /// Those of `contexts.toml` in `folder`; none where there is not one.
    ///
    /// # Errors
    /// A file that cannot be read or understood: what it forbids must not be allowed for that.
    pub fn read(folder: &Path) -> Result<Self, FileError> {
        let path = folder.join(FILE);
        let file = path.display().to_string();
        match std::fs::read_to_string(&path) {
            Ok(text) => Source::new(file, text).read(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(Source::new(file, "").error(&(0..0), format!("cannot be read: {error}"))),
        }
    }

    /// The first entry whose name fits; the default where there is none.
    pub fn of(&self, context: &str) -> ContextSetting {
        self.context.iter().find(|setting| setting.is_of(context)).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ContextSettings, FileError> {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join(FILE), text).expect("written");
        ContextSettings::read(folder.path())
    }

    #[test]
    fn the_first_entry_that_fits_holds() {
        let settings = read(
            "[[context]]\nname = 'prod-eu'\nrank = 'production'\nword = 'EU'\nconfirm-after-s = 20\nnamespace = 'fleet'\n\
             [[context]]\nname = 'prod-*'\nrank = 'production'\nread-only = true\n\
             history = false\n",
        )
        .expect("settings");
        let europe = settings.of("prod-eu");
        assert_eq!((europe.word(), europe.read_only), (Some("EU"), false));
        assert_eq!(europe.namespace.as_deref(), Some("fleet"));
        assert_eq!(europe.confirm_after_s, 20);
        let asia = settings.of("prod-asia");
        assert_eq!((asia.word(), asia.read_only), (Some("production"), true));
        assert!(europe.history && !asia.history);
        assert_eq!(settings.of("kind-prod-eu"), ContextSetting::default());
    }

    #[test]
    fn a_star_stands_for_any_characters() {
        for (name, context, fits) in [
            ("*", "", true),
            ("*", "anything", true),
            ("prod", "prod", true),
            ("prod", "prod-eu", false),
            ("prod*", "prod", true),
            ("*prod", "eu-prod", true),
            ("*prod", "eu-prod-2", false),
            ("*prod*", "eu-prod-2", true),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "acb", false),
            // Nothing of the name is used twice.
            ("ab*ba", "aba", false),
            ("a*ba*a", "aba", false),
        ] {
            let setting = ContextSetting { name: name.to_owned(), ..ContextSetting::default() };
            assert_eq!(setting.is_of(context), fits, "{name} {context}");
        }
    }

    #[test]
    fn mistakes_are_said_with_their_line() {
        for (text, line, part) in [
            ("[[context]]\nname = 'a'\nrank = 'prod'\n", 3, "unknown variant `prod`"),
            ("[[context]]\nname = 'a'\nreadonly = true\n", 3, "unknown field `readonly`"),
            ("[[context]]\nrank = 'staging'\n", 1, "missing field `name`"),
            ("[[context]]\nname = 'a'\nread-only = 'yes'\n", 3, "expected a boolean"),
            ("[[context]]\nname = 'a'\nconfirm-after-s = -1\n", 3, "expected u32"),
            ("context = 3\n", 1, "expected a sequence"),
            ("[[context]\n", 1, "unclosed array table"),
        ] {
            let error = read(text).expect_err(text);
            assert_eq!(error.line, line, "{error}");
            assert!(error.to_string().contains(part), "{error} has no {part}");
        }
    }

    #[test]
    fn without_the_file_nothing_is_set() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(ContextSettings::read(folder.path()), Ok(ContextSettings::default()));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_not_taken_for_none() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join(FILE)).expect("a folder in its place");
        let error = ContextSettings::read(folder.path()).expect_err("it cannot be read");
        assert!(error.to_string().contains("cannot be read"), "{error}");
    }
}
