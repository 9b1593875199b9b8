//! Programs that have the terminal while they run, as plain data: what is run, and what came of it. Must not know how a program is
//! started.

use std::fmt;
use std::path::PathBuf;

use crate::actions::Draft;
use crate::fleet::SourceId;

/// What gets the terminal.
#[derive(Clone, Debug)]
pub enum OutsideProgram {
    /// The person's editor, over a file with the text.
    Editor {
        draft: Box<Draft>,
        texts: Texts,
    },
    Command(OutsideCommand),
}

/// A shell, or the command of a plugin.
#[derive(Clone, Debug)]
pub struct OutsideCommand {
    /// For people.
    pub title: String,
    /// For `sh`; without one it is the person's shell.
    pub line: Option<String>,
    pub environment: Vec<(&'static str, String)>,
    /// In a file of its own while the command runs.
    pub kubeconfig: Option<Kubeconfig>,
}

/// The text of a kubeconfig, with its keys.
#[derive(Clone, PartialEq, Eq)]
pub struct Kubeconfig(pub String);

impl fmt::Debug for Kubeconfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kubeconfig(..)")
    }
}

/// How it ended.
#[derive(Clone, Debug)]
pub enum OutsideEnd {
    Editor {
        texts: Texts,
        /// As the person left it, as far as that could be read.
        text: Option<String>,
        /// Why the text does not count, in a sentence.
        failure: Option<String>,
    },
    /// With what went wrong, in a sentence.
    Command { title: String, failure: Option<String> },
}

/// The files of one edit: a folder for its owner alone, and a new file each time that the editor is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    pub folder: Option<PathBuf>,
    pub last: Option<PathBuf>,
    pub opened: u32,
}

/// A text that is not done with.
#[derive(Clone, Debug)]
pub struct OpenDraft {
    pub source: SourceId,
    pub draft: Draft,
    pub texts: Texts,
    /// Of the preview that shows its change.
    pub ticket: u64,
    /// Why it is not done with.
    pub why: String,
}

impl OpenDraft {
    /// Where the person finds the text.
    pub fn place(&self) -> String {
        self.texts.last.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
    }
}
