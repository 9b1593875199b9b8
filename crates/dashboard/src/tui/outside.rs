//! Programs that have the terminal while they run, as plain data: what is run, and what came of it. Must not know how a program is
//! started.

use std::path::PathBuf;

use crate::actions::Draft;
use crate::fleet::SourceId;

/// What gets the terminal.
#[derive(Clone, Debug)]
pub enum OutsideProgram {
    /// The person's editor, over a file with the text.
    Editor { draft: Box<Draft>, texts: Texts },
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
