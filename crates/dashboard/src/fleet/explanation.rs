//! What a condition's type and reason mean in plain words, what is usual, and what to check or press. Owns the table
//! and how its files are read; a file of the configuration folder adds to the one that is built in. Must not know
//! objects, verdicts nor screens.
//!
//! ```toml
//! [NodeHealthy.NodeNotHealthy]
//! short = "the Node is not healthy"
//! means = "The kubelet reports that the Node is not healthy."
//! usual = "Seconds, while the Node starts."
//! check = "The conditions of the Node; kubelet and container runtime on it."
//! runbook = "https://wiki.example/nodes"
//! [InfrastructureReady."*"]      # every other reason of this type
//! [Status.Behind]                # evidence that is not a condition
//! ["*".ConnectionDown]           # this reason of every type
//! [Message."disruption budget"]  # every message with these words in it
//! ```

use std::path::Path;
use std::sync::{Arc, LazyLock};

use rustc_hash::FxHashMap;
use toml::de::DeTable;

use capstan_base::text::did_you_mean;
use capstan_base::toml_file::{FileError, Library, Source};
use capstan_base::web_address::is_web_address;

/// The table in the binary.
pub const EMBEDDED: &[(&str, &str)] = &[("default", include_str!("../../../../explanations/default.toml"))];

/// Stands for every type, or for every reason.
pub const ANY: &str = "*";

/// Stands in the place of a type: its reasons are parts of messages.
pub const MESSAGE: &str = "Message";

const FIELDS: [&str; 5] = ["short", "means", "usual", "check", "runbook"];

/// One type and reason in plain words, empty where nothing is known: a few words for a row, and sentences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    pub short: String,
    pub means: String,
    /// How long it usually lasts, or why it is nothing to worry about.
    pub usual: String,
    /// What to look at, or which command helps.
    pub check: String,
    /// Address of a page of the person's own about it.
    pub runbook: String,
}

impl Explanation {
    /// The words for a row, where there are some.
    pub fn short(&self) -> Option<&str> {
        Some(self.short.as_str()).filter(|short| !short.is_empty())
    }
}

type Reasons = FxHashMap<String, Explanation>;

/// The whole table. A clone shares it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanations(Arc<FxHashMap<String, Reasons>>);

impl Explanations {
    /// The table in the binary.
    pub fn built_in() -> &'static Self {
        // A test reads the file, so that an error in it never comes so far.
        static BUILT_IN: LazyLock<Explanations> =
            LazyLock::new(|| Explanations::load(None).unwrap_or_default());
        &BUILT_IN
    }

    /// The table in the binary with what `explanations/default.toml` of the configuration folder adds or changes.
    ///
    /// # Errors
    /// File, line and what was expected.
    pub fn load(config_dir: Option<&Path>) -> Result<Self, FileError> {
        let library = Library::new("explanation", EMBEDDED, config_dir);
        let mut table = FxHashMap::default();
        read(&library.open("default", true)?, &mut table)?;
        // Second, so that the person's file changes single sentences of the table that is built in.
        if config_dir.is_some() {
            read(&library.open("default", false)?, &mut table)?;
        }
        Ok(Self(Arc::new(table)))
    }

    /// The entry for a type and reason; else for the reason whatever the type; else for the type.
    pub fn find(&self, type_: &str, reason: &str) -> Option<&Explanation> {
        self.find_reason(type_, reason).or_else(|| self.entry(type_, ANY))
    }

    /// The entry for this very reason, of the type or of every type.
    pub fn find_reason(&self, type_: &str, reason: &str) -> Option<&Explanation> {
        self.entry(type_, reason).or_else(|| self.entry(ANY, reason))
    }

    fn entry(&self, type_: &str, reason: &str) -> Option<&Explanation> {
        self.0.get(type_)?.get(reason)
    }

    /// The entry for the most of the words of `message`.
    pub fn find_in(&self, message: &str) -> Option<&Explanation> {
        let parts = self.0.get(MESSAGE)?.iter();
        let found = parts.filter(|(part, _)| message.contains(part.as_str()));
        // The longest part says most. The text decides between equal ones, because a map has no
        // order.
        found.max_by_key(|(part, _)| (part.len(), part.as_str())).map(|(_, words)| words)
    }

    /// Every entry: type, reason and words, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, &Explanation)> {
        self.0.iter().flat_map(|(type_, reasons)| {
            reasons.iter().map(move |(reason, words)| (type_.as_str(), reason.as_str(), words))
        })
    }
}

fn read(source: &Source, table: &mut FxHashMap<String, Reasons>) -> Result<(), FileError> {
    let document = source.parse()?;
    for (type_, value) in document.get_ref() {
        let reasons = source.table(value, &format!("`{}`, a condition type,", type_.get_ref()))?;
        let known = table.entry(type_.get_ref().to_string()).or_default();
        for (reason, value) in reasons {
            let fields = source.table(value, &format!("`{}`, a reason,", reason.get_ref()))?;
            read_fields(source, fields, known.entry(reason.get_ref().to_string()).or_default())?;
        }
    }
    Ok(())
}

fn read_fields(source: &Source, fields: &DeTable<'_>, words: &mut Explanation) -> Result<(), FileError> {
    for (key, value) in fields {
        let field = match key.get_ref().as_ref() {
            "short" => &mut words.short,
            "means" => &mut words.means,
            "usual" => &mut words.usual,
            "check" => &mut words.check,
            "runbook" => &mut words.runbook,
            other => {
                let hint = did_you_mean(other, FIELDS.into_iter());
                let message = format!("unknown entry `{other}`{hint}; known: {}", FIELDS.join(", "));
                return Err(source.error(&key.span(), message));
            }
        };
        let text = source.string(value, &format!("`{}`", key.get_ref()))?;
        // An empty one takes the address of the table that is built in away.
        if key.get_ref() == "runbook" && !(text.is_empty() || is_web_address(text)) {
            let message = "`runbook` must be an address that begins with https:// or http://, without blanks";
            return Err(source.error(&value.span(), message));
        }
        *field = capstan_base::text::sanitize_line(text);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Explanations, String> {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(dir.path().join("explanations")).expect("a folder");
        std::fs::write(dir.path().join("explanations/default.toml"), text).expect("a file");
        let path = dir.path().join("explanations/default.toml").display().to_string();
        Explanations::load(Some(dir.path())).map_err(|error| error.to_string().replace(&path, "FILE"))
    }

    #[test]
    fn a_file_adds_to_the_table_and_changes_single_words() {
        let text =
            "[NodeHealthy.NodeNotHealthy]\ncheck = \"Call the night shift.\"\n[Disk.Full]\nmeans = \"Full.\"";
        let all = load(text).expect("it loads");
        let changed = all.find("NodeHealthy", "NodeNotHealthy").expect("there");
        assert_eq!(changed.check, "Call the night shift.");
        assert!(!changed.means.is_empty(), "the other words stay");
        assert_eq!(all.find("Disk", "Full").expect("there").means, "Full.");
        assert_eq!(all.find("Disk", "Empty"), None);
    }

    #[test]
    fn an_error_names_file_line_and_what_was_expected() {
        for (text, expected) in [
            (
                "[A.B]\nmean = \"x\"",
                "FILE:2: unknown entry `mean`; did you mean `means`?; known: short, means, usual, check, runbook",
            ),
            ("[A.B]\nmeans = 3", "FILE:2: `means` must be a string, not integer"),
            (
                "[A.B]\nmeans = \"x\"\nrunbook = \"wiki/etcd\"",
                "FILE:3: `runbook` must be an address that begins with https:// or http://, without blanks",
            ),
            ("A = 1", "FILE:1: `A`, a condition type, must be a table, not integer"),
            ("[A]\nB = 1", "FILE:2: `B`, a reason, must be a table, not integer"),
        ] {
            assert_eq!(load(text).expect_err(text), expected);
        }
        assert!(
            load("[A.B]\n[A.B]").expect_err("twice").starts_with("FILE:2: not valid TOML"),
            "no duplicates"
        );
    }

    #[test]
    fn the_longest_part_of_a_message_is_found() {
        let all = load("[Message.budget]\nmeans = \"a\"\n[Message.\"disruption budget\"]\nmeans = \"b\"")
            .expect("it loads");
        let means = |message| all.find_in(message).map(|words| words.means.as_str());
        assert_eq!(means("it violates the pod's disruption budget"), Some("b"));
        assert_eq!(means("over budget"), Some("a"));
        assert_eq!(means("no quota"), None);
    }

    #[test]
    fn the_nearest_entry_is_found() {
        let all = load("[T.R]\nmeans = \"both\"\n[T.\"*\"]\nmeans = \"type\"\n[\"*\".Q]\nmeans = \"reason\"")
            .expect("it loads");
        let means = |type_, reason| all.find(type_, reason).map(|words| words.means.as_str());
        assert_eq!(means("T", "R"), Some("both"));
        assert_eq!(means("T", "Q"), Some("reason"));
        assert_eq!(means("T", "X"), Some("type"));
        assert_eq!(means("U", "X"), None);
    }
}
