//! From files to documents: files, folders, standard input. Owns paths; must not know any kind, nor how a
//! text is decoded.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context as _, anyhow, bail};

use super::exit_code::WrongUsage;
use capi_rules::observe::dump::document::{Document, Origin};
use capi_rules::observe::dump::text::{flatten, parse};
use capi_types::key::ObjectKey;

/// Objects of a workload cluster, as `NAMESPACE/NAME=FILE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadFile {
    pub cluster: ObjectKey,
    pub file: PathBuf,
}

impl FromStr for WorkloadFile {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let parts = text.split_once('=').and_then(|(cluster, file)| Some((cluster.split_once('/')?, file)));
        match parts {
            Some(((namespace, name), file))
                if !namespace.is_empty() && !name.is_empty() && !file.is_empty() =>
            {
                Ok(Self { cluster: ObjectKey::new(namespace, name), file: file.into() })
            }
            _ => Err("expected NAMESPACE/NAME=FILE, such as default/prod=nodes.yaml"),
        }
    }
}

/// Every object of every file, lists taken apart, and a remark for each file without any.
///
/// # Errors
/// What cannot be read or understood: file, line, column, and what was expected there.
pub fn documents(
    files: &[PathBuf],
    workloads: &[WorkloadFile],
) -> anyhow::Result<(Vec<Document>, Vec<String>)> {
    let remote = workloads.iter().map(|workload| (workload.file.as_path(), Some(&workload.cluster)));
    let sources: Vec<(&Path, Option<&ObjectKey>)> =
        files.iter().map(|file| (file.as_path(), None)).chain(remote).collect();
    if sources.iter().filter(|(path, _)| is_stdin(path)).count() > 1 {
        bail!(WrongUsage("- (standard input) is named more than once: it can be read only once".to_owned()));
    }
    let (mut documents, mut remarks) = (Vec::new(), Vec::new());
    for (path, cluster) in sources {
        let before = documents.len();
        for file in if path.is_dir() { folder(path)? } else { vec![path.to_path_buf()] } {
            take(&file, cluster, &mut documents)?;
        }
        if documents.len() == before {
            remarks.push(format!("{} holds no objects", shown(path)));
        }
    }
    Ok((documents, remarks))
}

fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

fn shown(path: &Path) -> String {
    if is_stdin(path) { "standard input".to_owned() } else { path.display().to_string() }
}

fn take(path: &Path, cluster: Option<&ObjectKey>, documents: &mut Vec<Document>) -> anyhow::Result<()> {
    let file = shown(path);
    let text = text(path).with_context(|| format!("cannot read {file}"))?;
    // Editors on Windows begin a file with a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    for (line, value) in parse(text).map_err(|wrong| anyhow!("{file}:{wrong}"))? {
        let origin = Origin { file: file.clone(), line, item: None };
        flatten(value, &origin, cluster, documents);
    }
    Ok(())
}

/// The YAML and JSON files of a folder, by name; folders within are not entered.
fn folder(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(path).with_context(|| format!("cannot list {}", path.display()))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    let wanted = |file: &PathBuf| {
        let extension = file.extension().and_then(|e| e.to_str()).unwrap_or_default();
        file.is_file() && matches!(extension, "yaml" | "yml" | "json")
    };
    files.retain(wanted);
    files.sort();
    Ok(files)
}

fn text(file: &Path) -> std::io::Result<String> {
    if is_stdin(file) {
        let mut text = String::new();
        std::io::stdin().lock().read_to_string(&mut text)?;
        return Ok(text);
    }
    std::fs::read_to_string(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_is_named_with_its_file() {
        let parse = |text: &str| text.parse::<WorkloadFile>();
        let found = parse("ns/c=f.yaml").expect("fine");
        assert_eq!(found, WorkloadFile { cluster: ObjectKey::new("ns", "c"), file: "f.yaml".into() });
        for text in ["c=f.yaml", "ns/c", "ns/=f", "/c=f", "ns/c="] {
            assert!(parse(text).is_err(), "{text}");
        }
        let twice = documents(&["-".into()], &[parse("ns/c=-").expect("fine")]).expect_err("refused");
        assert_eq!(twice.to_string(), "- (standard input) is named more than once: it can be read only once");
    }
}
