//! From files to documents: files, folders, archives, standard input. Owns paths; must not know any kind, nor how a
//! text is decoded.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context as _, anyhow, bail};

use super::archive::{is_archive, texts};
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
        if path.is_dir() {
            let mut files = Vec::new();
            folder(path, &mut files)?;
            for file in files {
                take(&file, cluster, &mut documents)?;
            }
        } else {
            take(path, cluster, &mut documents)?;
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
    if is_archive(path) {
        let texts = texts(path, |name| holds_objects(Path::new(name)));
        for (name, text) in texts.with_context(|| format!("cannot read {file}"))? {
            decode(&format!("{file}/{name}"), &text, cluster, documents)?;
        }
        return Ok(());
    }
    let text = text(path).with_context(|| format!("cannot read {file}"))?;
    decode(&file, &text, cluster, documents)
}

fn decode(
    file: &str,
    text: &str,
    cluster: Option<&ObjectKey>,
    documents: &mut Vec<Document>,
) -> anyhow::Result<()> {
    // Editors on Windows begin a file with a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (line, value) in parse(text).map_err(|wrong| anyhow!("{file}:{wrong}"))? {
        let origin = Origin { file: file.to_owned(), line, item: None };
        flatten(value, &origin, cluster, documents);
    }
    Ok(())
}

/// The YAML and JSON files of a folder and the folders in it, by name. Links to folders are not followed: they may lead back.
fn folder(path: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let entries = std::fs::read_dir(path).with_context(|| format!("cannot list {}", path.display()))?;
    let mut entries: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    // The order of a folder is that of its file system: what is printed shall not depend on it.
    entries.sort();
    for entry in entries {
        if entry.is_dir() {
            if !entry.is_symlink() {
                folder(&entry, files)?;
            }
        } else if entry.is_file() && holds_objects(&entry) {
            // Only regular files: a FIFO would hold the command up until somebody writes into it.
            files.push(entry);
        }
    }
    Ok(())
}

/// By its name. Archives made on a Mac have a companion of each file, `._NAME`, which is not a text.
fn holds_objects(file: &Path) -> bool {
    if file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("._")) {
        return false;
    }
    let extension = file.extension().and_then(|e| e.to_str()).unwrap_or_default();
    matches!(extension, "yaml" | "yml" | "json")
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

    #[test]
    fn archives_are_read_packed_or_not() {
        use flate2::{Compression, write::GzEncoder};
        use std::io::Write as _;
        let archive = super::super::archive::tests::archive(&[
            ("bundle/a.yaml", b"kind: A"),
            ("bundle/._a.yaml", b"\xff\xfe"),
            ("bundle/c.log", b"\xff"),
        ]);
        let root = tempfile::tempdir().expect("a folder");
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(&archive).expect("packed");
        let packed = packed.finish().expect("packed");
        for (name, bytes) in [("b.tar", &archive), ("b.tar.gz", &packed), ("b.tgz", &packed)] {
            let path = root.path().join(name);
            std::fs::write(&path, bytes).expect("written");
            let (found, remarks) = documents(&[path], &[]).expect("read");
            let kinds: Vec<_> = found.iter().map(|document| document.value["kind"].clone()).collect();
            assert_eq!((kinds, remarks), (vec![serde_json::json!("A")], Vec::new()), "{name}");
            assert!(
                found[0].origin.file.ends_with(&format!("{name}/bundle/a.yaml")),
                "{}",
                found[0].origin.file
            );
        }
    }

    #[test]
    fn folders_are_entered_and_links_to_folders_are_not() {
        let root = tempfile::tempdir().expect("a folder");
        let below = root.path().join("namespaces/default/cluster.x-k8s.io");
        std::fs::create_dir_all(&below).expect("folders");
        for (file, kind) in
            [("a.yaml", "A"), ("namespaces/default/cluster.x-k8s.io/b.json", "B"), ("c.log", "C")]
        {
            std::fs::write(root.path().join(file), format!("{{\"kind\": \"{kind}\"}}")).expect("written");
        }
        std::os::unix::fs::symlink(root.path(), below.join("back")).expect("a link");
        // Editors lock a file with a link that leads nowhere.
        std::os::unix::fs::symlink("somebody@host.1", below.join(".#b.yaml")).expect("a link");
        let (found, remarks) = documents(&[root.path().to_owned()], &[]).expect("read");
        let kinds: Vec<_> =
            found.iter().map(|document| document.value["kind"].as_str().expect("a kind")).collect();
        assert_eq!((kinds, remarks), (vec!["A", "B"], Vec::new()));
    }
}
