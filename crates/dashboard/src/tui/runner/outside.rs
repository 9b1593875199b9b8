//! How the programs are run that have the terminal meanwhile: the person's editor over a file that nobody else can read. Owns these
//! files; must not know what a text means.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::actions::Draft;
use crate::tui::outside::{Kubeconfig, OutsideCommand, OutsideEnd, OutsideProgram, Texts};
use capi_types::key::ObjectRef;

/// Asked in this order, as kubectl does.
const EDITOR_VARIABLES: [&str; 2] = ["KUBE_EDITOR", "EDITOR"];
const EDITOR: &str = "vi";

const KUBECONFIG: &str = "kubeconfig";
/// Its first argument is a line for the person.
const SHELL: &str = r#"printf '%s\n' "$1"; exec "${SHELL:-sh}""#;
const READ_BEFORE_BACK: &str = "printf '\\n[enter goes back] '; read -r line";

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
        OutsideProgram::Command(command) => {
            let failure = launch(&command).err();
            OutsideEnd::Command { title: command.title, failure }
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

/// What a plugin wrote stays on the screen until somebody has read it.
fn launch(command: &OutsideCommand) -> Result<(), String> {
    let prepared =
        prepared(command).map_err(|error| format!("no file for the kubeconfig can be written: {error}"))?;
    // The folder is removed when the program has ended.
    let (mut program, _folder) = prepared;
    let ended = program.status().map_err(|error| format!("it could not be run: {error}"))?;
    if command.line.is_none() {
        // Of a shell this is the state of its last command.
        return Ok(());
    }
    let _ = Command::new("sh").arg("-c").arg(READ_BEFORE_BACK).status();
    if ended.success() { Ok(()) } else { Err(format!("it failed: {ended}")) }
}

/// The program, and the folder of its kubeconfig.
fn prepared(command: &OutsideCommand) -> io::Result<(Command, Option<TempDir>)> {
    let folder = command.kubeconfig.as_ref().map(kubeconfig_file).transpose()?;
    let mut program = Command::new("sh");
    match &command.line {
        Some(line) => program.arg("-c").arg(line).arg("capstan"),
        None => {
            program.arg("-c").arg(SHELL).arg("capstan").arg(format!("{}; `exit` goes back", command.title))
        }
    };
    program.envs(command.environment.iter().map(|(name, value)| (name, value)));
    program.envs(folder.as_ref().map(|folder| ("KUBECONFIG", folder.path().join(KUBECONFIG))));
    Ok((program, folder))
}

fn kubeconfig_file(kubeconfig: &Kubeconfig) -> io::Result<TempDir> {
    let mut folder = tempfile::Builder::new();
    let folder = folder.prefix("capstan-shell-").permissions(Permissions::from_mode(0o700)).tempdir()?;
    write_new(&folder.path().join(KUBECONFIG), &kubeconfig.0)?;
    Ok(folder)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn command(line: Option<&str>) -> OutsideCommand {
        OutsideCommand {
            title: "plugin x".to_owned(),
            line: line.map(str::to_owned),
            environment: vec![("NAME", "edge-7; $(touch /nowhere)".to_owned())],
            kubeconfig: Some(Kubeconfig("keys".to_owned())),
        }
    }

    #[test]
    fn a_command_has_the_object_in_its_environment_and_a_kubeconfig_for_as_long_as_it_runs() {
        let line = r#"printf '%s|' "$NAME"; cat "$KUBECONFIG"; stat -c '|%a' "$KUBECONFIG" "$(dirname "$KUBECONFIG")""#;
        let (mut program, folder) = prepared(&command(Some(line))).expect("a folder");
        let path = folder.as_ref().expect("a folder").path().to_path_buf();
        let output = program.output().expect("it runs");
        let words = "edge-7; $(touch /nowhere)|keys|600\n|700\n";
        assert_eq!(String::from_utf8_lossy(&output.stdout), words);
        drop(folder);
        assert!(!path.exists());
        assert!(!format!("{:?}", command(None)).contains("keys"), "no log has them");
    }

    #[test]
    fn a_shell_is_the_persons_own() {
        let (mut program, _folder) = prepared(&command(None)).expect("a folder");
        let output = program.env("SHELL", "/bin/echo").output().expect("it runs");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "plugin x; `exit` goes back\n\n");
    }
}
