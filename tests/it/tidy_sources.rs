//! The sources of all crates as the rules of the repository read them: by room, without comments and tests. Owns where crates
//! and rooms are; must not know a rule.

use std::path::{Path, PathBuf};

/// The modules of `base`.
pub const BASE: &[&str] = &[
    "command_line",
    "go_duration",
    "key_pair",
    "private_file",
    "rng",
    "text",
    "time",
    "toml_file",
    "web_address",
];

/// Crates that are one room: the folder below `crates`, the name of the crate, the room. The folders of every other
/// crate are rooms.
pub const ROOMS: &[(&str, &str, &str)] = &[
    ("apiserver", "capstan_apiserver", "apiserver"),
    ("capi-types", "capi_types", "api"),
    ("commands", "capstan_commands", "commands"),
    ("host-provider", "capstan_host_provider", "host_provider"),
    ("hosts", "capstan_hosts", "hosts"),
    ("k8s-machinery", "k8s_machinery", "machinery"),
    ("kubeadm-change", "kubeadm_change", "change"),
    ("leader-migration", "leader_migration", "leader_migration"),
    ("physics", "capstan_physics", "physics"),
    ("remote", "capstan_remote", "remote"),
    ("store", "capstan_store", "store"),
];

/// Crates with several rooms.
pub const SHARED: &[&str] = &[
    "capi_forecast",
    "capi_rules",
    "capstan",
    "capstan_base",
    "capstan_dashboard",
    "capstan_engine",
    "capstan_worlds",
];

pub struct Source {
    /// Below the repository.
    pub path: String,
    /// The room and the path in it, as if all rooms stood in one folder; the root of a crate that is one room is `mod.rs`.
    pub name: String,
    pub text: String,
    /// Without comments and without `#[cfg(test)] mod …` blocks; every crate of the workspace is written as `crate`, so
    /// that paths begin with a room.
    pub code: String,
}

impl Source {
    pub fn module(&self) -> &str {
        match self.name.split_once('/') {
            Some((folder, _)) => folder,
            None if BASE.iter().any(|name| self.name.strip_suffix(".rs") == Some(name)) => "base",
            None => "",
        }
    }

    /// The modules that this file declares for tests only, as paths below src without `.rs`.
    fn test_modules(&self) -> Vec<String> {
        let folder = self.name.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
        let mut lines = self.text.lines();
        let mut found = Vec::new();
        while lines.any(|line| line == "#[cfg(test)]") {
            let item = lines.next().unwrap_or_default();
            let module =
                item.strip_suffix(';').and_then(|item| item.split_once("mod ")).map(|(_, name)| name);
            found.extend(module.map(|module| format!("{folder}{module}")));
        }
        found
    }

    fn is_below(&self, module: &str) -> bool {
        self.name.strip_prefix(module).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
    }
}

pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

pub fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> =
        std::fs::read_dir(folder).expect("a folder").map(|e| e.expect("an entry").path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

pub fn sources() -> Vec<Source> {
    let mut sources = Vec::new();
    for (folder, room) in crates() {
        let mut files = Vec::new();
        rust_files(&folder.join("src"), &mut files);
        sources.extend(files.into_iter().map(|path| source(&path, &folder, room)));
    }
    let for_tests: Vec<String> = sources.iter().flat_map(Source::test_modules).collect();
    sources.retain(|source| !for_tests.iter().any(|module| source.is_below(module)));
    sources
}

/// The folders of all crates; with its room, if a crate is one.
pub fn crates() -> Vec<(PathBuf, Option<&'static str>)> {
    let entries = std::fs::read_dir(root().join("crates")).expect("the crates");
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    // Only tests rest on it, so no rule for the product is about it.
    folders.retain(|folder| !folder.ends_with("testing"));
    folders.push(root());
    folders.sort();
    let room = |folder: &Path| ROOMS.iter().find(|(name, ..)| folder.ends_with(name)).map(|(.., room)| *room);
    folders.into_iter().map(|folder| (folder.clone(), room(&folder))).collect()
}

fn source(path: &Path, folder: &Path, room: Option<&str>) -> Source {
    let text = std::fs::read_to_string(path).expect("a source file");
    let inside = path.strip_prefix(folder.join("src")).expect("below src").to_string_lossy().into_owned();
    let name = match room {
        Some(room) if inside == "lib.rs" => format!("{room}/mod.rs"),
        Some(room) => format!("{room}/{inside}"),
        None => inside,
    };
    let code = with_rooms(&code_of(&text), room);
    let path = path.strip_prefix(root()).expect("below the repository").to_string_lossy().into_owned();
    Source { path, name, text, code }
}

/// Paths of other crates as paths of one crate; `room` is the room that the code's own crate is.
fn with_rooms(code: &str, room: Option<&str>) -> String {
    let code = room.map_or(code.to_owned(), |room| with_path(code, "crate", &format!("crate::{room}")));
    let code = SHARED.iter().fold(code, |code, name| with_path(&code, name, "crate"));
    ROOMS.iter().fold(code, |code, (_, name, room)| with_path(&code, name, &format!("crate::{room}")))
}

/// `name` at the beginning of a path becomes `path`.
fn with_path(code: &str, name: &str, path: &str) -> String {
    let head = format!("{name}::");
    let mut out = String::new();
    let mut rest = code;
    while let Some(at) = rest.find(&head) {
        let before = rest[..at].chars().next_back();
        let is_inside = before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':');
        out.push_str(&rest[..at]);
        out.push_str(if is_inside { name } else { path });
        out.push_str("::");
        rest = &rest[at + head.len()..];
    }
    out + rest
}

/// Cuts comment lines, trailing comments, items for tests only and the test module at the end of a file.
fn code_of(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("#[cfg(test)]") {
            match lines.find(|line| !line.starts_with("#[")) {
                Some(item) if item.ends_with(';') => continue,
                _ => break,
            }
        }
        let line =
            if line.trim_start().starts_with("//") { "" } else { line.split(" // ").next().unwrap_or(line) };
        code.push_str(line);
        code.push('\n');
    }
    code
}

pub fn report(rule: &str, problems: &[String]) {
    assert!(problems.is_empty(), "{rule}\n  {}", problems.join("\n  "));
}
