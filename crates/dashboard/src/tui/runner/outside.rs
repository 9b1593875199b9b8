//! How the programs are run that have the terminal meanwhile: the person's editor over a file that nobody else can read. Owns these
//! files; must not know what a text means.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::actions::Draft;
use crate::tui::outside::{OutsideEnd, OutsideProgram, Texts};
use capi_types::key::ObjectRef;

/// Asked in this order, as kubectl does.
const EDITOR_VARIABLES: [&str; 2] = ["KUBE_EDITOR", "EDITOR"];
const EDITOR: &str = "vi";

/// Runs it to its end, with our standard input and output.
pub(super) fn run(program: OutsideProgram) -> OutsideEnd {
    match program {
        OutsideProgram::Editor { draft, mut texts } => {
            let (text, failure) = match edit(&draft, &mut texts, &editor()) {
                Ok(text) => (Some(text), None),
                Err((text, why)) => (text, Some(why)),
            };
            OutsideEnd::Editor { texts, text, failure }
        }
    }
}

/// The folder of an edit that is over.
pub(super) fn drop_texts(folder: PathBuf) {
    // One that stays costs a few kilobytes, and only its owner can read it.
    if let Err(error) = fs::remove_dir_all(&folder) {
        tracing::warn!(folder = %folder.display(), %error, "texts that were edited stay");
    }
}

fn editor() -> String {
    let named = EDITOR_VARIABLES.iter().filter_map(|name| std::env::var(name).ok());
    named
        .map(|editor| editor.trim().to_owned())
        .find(|editor| !editor.is_empty())
        .unwrap_or_else(|| EDITOR.to_owned())
}

/// The text as the person left it. An error: the text, as far as it could be read, and why it does not count.
fn edit(draft: &Draft, texts: &mut Texts, editor: &str) -> Result<String, (Option<String>, String)> {
    let path = write(draft, texts)
        .map_err(|error| (None, format!("no file for the editor can be written: {error}")))?;
    // By a shell, since the variable may have arguments; the path is not part of its text.
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("{editor} \"$1\"")).arg("capstan").arg(&path);
    let ended = shell.status();
    let text = fs::read_to_string(&path);
    let why = match ended {
        Ok(status) if status.success() => {
            return text.map_err(|error| (None, format!("what the editor wrote cannot be read: {error}")));
        }
        Ok(status) => {
            format!("the editor `{editor}` failed: {status}; KUBE_EDITOR or EDITOR names another one")
        }
        Err(error) => format!("the editor `{editor}` could not be run: {error}"),
    };
    Err((text.ok(), why))
}

/// A new file each time, so that a text before stays.
fn write(draft: &Draft, texts: &mut Texts) -> io::Result<PathBuf> {
    let folder = match &texts.folder {
        Some(folder) => folder.clone(),
        None => {
            let mut folder = tempfile::Builder::new();
            folder.prefix("capstan-edit-").permissions(Permissions::from_mode(0o700));
            folder.tempdir()?.keep()
        }
    };
    texts.folder = Some(folder.clone());
    texts.opened += 1;
    let path = folder.join(file_name(&draft.target, texts.opened));
    write_new(&path, &draft.text)?;
    texts.last = Some(path.clone());
    Ok(path)
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

fn file_name(target: &ObjectRef, opened: u32) -> String {
    // A name of a server that is not one of Kubernetes' must not lead out of the folder.
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || *c == '-';
    let name: String = format!("{}-{}", target.gvk.kind, target.key.name).chars().filter(is_plain).collect();
    match opened {
        0 | 1 => format!("{name}.yaml"),
        more => format!("{name}-{more}.yaml"),
    }
}
