//! Repository rules as tests: crates and the rooms in them, outside crates, module docs, function and file length, words
//! that do not belong. Every failure names the file, the rule and what to do.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Which room may import which, as in docs/architecture.md: a room on the left may name the rooms on its right. The
/// manifests of the crates say the same less exactly. `base` is time, rng, text, `key_pair`, `private_file` and `toml_file`.
const MATRIX: &[(&str, &[&str])] = &[
    ("base", &["base"]),
    ("machinery", &["machinery"]),
    ("api", &["base", "machinery", "api"]),
    ("admission", &["base", "machinery", "api", "admission"]),
    ("change", &["base", "machinery", "change"]),
    ("leader_migration", &["base", "machinery", "leader_migration"]),
    ("status", &["base", "machinery", "api", "status"]),
    ("plan", &["base", "machinery", "api", "status", "plan"]),
    ("observe", &["base", "machinery", "api", "status", "plan", "observe"]),
    ("recompute", &["base", "machinery", "api", "status", "plan", "observe", "recompute"]),
    ("forecast", &["base", "machinery", "api", "status", "plan", "observe", "forecast"]),
    ("simulate", &["base", "machinery", "api", "status", "plan", "observe", "forecast", "simulate"]),
    ("samples", &["base", "machinery", "api", "samples"]),
    ("client", &["base", "machinery", "api", "client"]),
    ("store", &["base", "store"]),
    ("workload", &["base", "machinery", "api", "status", "client", "workload"]),
    ("reconfigure", &["base", "machinery", "api", "change", "client", "workload", "reconfigure"]),
    ("runtime_sdk", &["base", "machinery", "api", "status", "client", "runtime_sdk"]),
    (
        "can_update",
        &[
            "base",
            "machinery",
            "api",
            "status",
            "plan",
            "observe",
            "forecast",
            "client",
            "runtime_sdk",
            "can_update",
        ],
    ),
    ("extension", &["base", "machinery", "api", "client", "extension"]),
    ("apiserver", &["base", "machinery", "store", "apiserver"]),
    ("engine", &["base", "machinery", "api", "leader_migration", "client", "engine"]),
    (
        "controller_managers",
        &["base", "machinery", "api", "leader_migration", "client", "engine", "controller_managers"],
    ),
    ("fleet", &["base", "machinery", "api", "status", "client", "fleet"]),
    (
        "controllers",
        &[
            "base",
            "machinery",
            "api",
            "status",
            "plan",
            "observe",
            "client",
            "workload",
            "runtime_sdk",
            "can_update",
            "engine",
            "controllers",
        ],
    ),
    ("provider", &["base", "machinery", "api", "change", "client", "workload", "engine", "provider"]),
    (
        "workload_api",
        &[
            "base",
            "machinery",
            "api",
            "client",
            "store",
            "workload",
            "apiserver",
            "engine",
            "provider",
            "workload_api",
        ],
    ),
    ("locks", &["base", "machinery", "api", "leader_migration", "client", "locks"]),
    (
        "actions",
        &[
            "base",
            "machinery",
            "api",
            "change",
            "admission",
            "leader_migration",
            "status",
            "observe",
            "forecast",
            "simulate",
            "client",
            "can_update",
            "actions",
        ],
    ),
    (
        "standalone",
        &[
            "base",
            "machinery",
            "api",
            "admission",
            "leader_migration",
            "samples",
            "client",
            "store",
            "runtime_sdk",
            "extension",
            "apiserver",
            "engine",
            "controller_managers",
            "controllers",
            "provider",
            "workload_api",
            "standalone",
        ],
    ),
    (
        "tui",
        &[
            "base",
            "machinery",
            "api",
            "change",
            "leader_migration",
            "status",
            "forecast",
            "simulate",
            "fleet",
            "actions",
            "tui",
        ],
    ),
    (
        "cli",
        &[
            "base",
            "machinery",
            "api",
            "admission",
            "change",
            "leader_migration",
            "status",
            "plan",
            "observe",
            "recompute",
            "forecast",
            "simulate",
            "samples",
            "client",
            "locks",
            "store",
            "workload",
            "reconfigure",
            "runtime_sdk",
            "can_update",
            "extension",
            "apiserver",
            "engine",
            "fleet",
            "controller_managers",
            "controllers",
            "provider",
            "workload_api",
            "actions",
            "standalone",
            "tui",
            "cli",
        ],
    ),
];

/// The modules of `base`.
const BASE: &[&str] = &["key_pair", "private_file", "rng", "text", "time", "toml_file"];

/// Crates that are one room: the folder below `crates`, the name of the crate, the room. The folders of every other
/// crate are rooms.
const ROOMS: &[(&str, &str, &str)] = &[
    ("apiserver", "capstan_apiserver", "apiserver"),
    ("capi-types", "capi_types", "api"),
    ("k8s-machinery", "k8s_machinery", "machinery"),
    ("kubeadm-change", "kubeadm_change", "change"),
    ("leader-migration", "leader_migration", "leader_migration"),
    ("store", "capstan_store", "store"),
];

/// Crates with several rooms.
const SHARED: &[&str] = &[
    "capi_forecast",
    "capi_rules",
    "capstan",
    "capstan_base",
    "capstan_dashboard",
    "capstan_engine",
    "capstan_worlds",
];

/// The strata of a module, from the ground up, as in docs/architecture.md: each may name those before it. What
/// stands in the folder itself (`mod.rs`, and the files listed as `loose`) is `own`.
struct Strata {
    module: &'static str,
    order: &'static [&'static str],
    own: &'static str,
    loose: &'static [&'static str],
}

const STRATA: &[Strata] = &[
    Strata {
        module: "status",
        order: &[
            "verdict",
            "amount",
            "selector",
            "versions",
            "etcd",
            "fields",
            "in_place",
            "machine_template",
            "conditions",
            "contract",
            "machines",
            "remediation",
            "drain",
            "kinds",
        ],
        // It offers the kinds.
        own: "kinds",
        loose: &[],
    },
    Strata {
        module: "apiserver",
        order: &[
            "failure",
            "object",
            "schema",
            "managed",
            "protobuf",
            "table",
            "resource",
            "request",
            "patch",
            "registry",
            "response",
            "documents",
            "handler",
            "service",
            "serve",
        ],
        own: "service",
        loose: &["audit", "flow", "import", "newcomers"],
    },
    Strata {
        module: "tui",
        order: &[
            "theme",
            "keymap",
            "cursor",
            "layout",
            "paint",
            "widget",
            "plans",
            "rights",
            "folds",
            "keeping",
            "turns",
            "effect",
            "msg",
            "screen",
            "report",
            "overlay",
            "model",
            "asking",
            "command",
            "hints",
            "update",
            "view",
            "script",
            "reference",
            "terminal",
            "runner",
            "contexts",
            "event_loop",
            "program",
        ],
        own: "program",
        loose: &[],
    },
];

/// Words of outside crates, and the places (prefixes of `src/…`) where they may stand.
const OUTSIDE: &[(&str, &[&str])] = &[
    ("ratatui::", &["tui/"]),
    ("crossterm::", &["tui/"]),
    ("tui_tree_widget::", &["tui/"]),
    ("hyper::", &["apiserver/serve/", "extension/serve"]),
    ("hyper_util::", &["apiserver/serve/", "workload/etcd/", "runtime_sdk/transport", "extension/serve"]),
    ("tokio_tungstenite::", &["apiserver/serve/"]),
    ("redb::", &["store/"]),
    ("etcd_client::", &["store/", "workload/etcd/"]),
    ("tonic::", &["workload/etcd/"]),
    ("anyhow::", &["cli/"]),
    ("clap::", &["cli/"]),
    ("kube::Client", &["client/", "workload/", "engine/", "fleet/watch"]),
    ("kube::Api", &["client/", "workload/", "engine/", "fleet/watch"]),
    ("kube::runtime", &["client/", "workload/", "engine/", "fleet/watch"]),
    (
        "tokio::",
        &[
            "client/",
            "locks/",
            "store/",
            "workload/",
            "reconfigure/",
            "runtime_sdk/transport",
            "extension/serve",
            "apiserver/",
            "engine/",
            "fleet/watch",
            "controller_managers/",
            "controllers/",
            "provider/",
            "workload_api/",
            "actions/aside",
            "standalone/",
            "tui/mod.rs",
            "tui/contexts.rs",
            "tui/event_loop.rs",
            "tui/runner.rs",
            "tui/terminal",
            "cli/",
        ],
    ),
    ("Utc::now(", &["time.rs"]),
    ("SystemTime::now(", &["time.rs"]),
    ("rand::", &["rng.rs"]),
    ("println!", &[]),
    ("eprintln!", &[]),
];

/// Names that say nothing about what is inside.
const EMPTY_NAMES: &[&str] = &["utils", "util", "helpers", "helper", "common", "misc", "manager", "handler2"];

const FUNCTION_LINES_MAX: usize = 70;
const FILE_LINES_MAX: usize = 600;

/// Longer files, each with its reason.
const LONG_FILES: &[(&str, &str)] = &[];

/// Items that are public and that only tests name, each with its reason.
const FOR_TESTS: &[(&str, &str)] = &[
    ("wait_until_idle", "the engine under paused time"),
    ("set_fault", "what simulated machines do wrong on demand"),
];

pub struct Source {
    /// Below the repository.
    pub path: String,
    /// The room and the path in it, as if all rooms stood in one folder; the root of a crate that is one room is `mod.rs`.
    pub name: String,
    text: String,
    /// Without comments and without `#[cfg(test)] mod …` blocks; every crate of the workspace is written as `crate`, so
    /// that paths begin with a room.
    pub code: String,
}

impl Source {
    fn module(&self) -> &str {
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

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
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
fn crates() -> Vec<(PathBuf, Option<&'static str>)> {
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

/// The modules that `code` names below `path`: for `crate::` those of `crate::x` and `crate::{x, y::…}`.
fn named_below(path: &str, code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices(path) {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        let rest = &code[at + path.len()..];
        if let Some(group) = rest.strip_prefix('{') {
            let mut depth = 0;
            let mut word = String::new();
            for c in group.chars() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => found.push(std::mem::take(&mut word)),
                    c if depth == 0 => word.push(c),
                    _ => {}
                }
            }
            found.push(word);
        } else {
            found.push(rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect());
        }
    }
    found.into_iter().map(|w| w.trim().split("::").next().unwrap_or_default().to_owned()).collect()
}

/// The modules of this crate that `code` names.
fn crate_modules(code: &str) -> Vec<String> {
    let base = |w: String| if BASE.contains(&w.as_str()) { "base".to_owned() } else { w };
    named_below("crate::", code).into_iter().map(base).collect()
}

pub fn report(rule: &str, problems: &[String]) {
    assert!(problems.is_empty(), "{rule}\n  {}", problems.join("\n  "));
}

#[test]
fn modules_import_only_what_the_layer_matrix_allows() {
    let matrix: BTreeMap<_, _> = MATRIX.iter().copied().collect();
    let mut problems = Vec::new();
    for source in sources() {
        let Some(allowed) = matrix.get(source.module()) else { continue };
        for module in crate_modules(&source.code) {
            if matrix.contains_key(module.as_str()) && !allowed.contains(&module.as_str()) {
                problems.push(format!("{} imports {module}", source.path));
            }
            let only_watch = source.module() == "fleet" && !source.name.starts_with("fleet/watch");
            if only_watch && module == "client" {
                problems.push(format!("{} imports client, which only fleet/watch may", source.path));
            }
        }
    }
    problems.dedup();
    report(
        "layer matrix (docs/architecture.md): move the code down a layer, or pass the value in",
        &problems,
    );
}

impl Strata {
    fn rank(&self, stratum: &str) -> Option<usize> {
        self.order.iter().position(|s| *s == stratum)
    }

    fn own_rank(&self) -> usize {
        self.rank(self.own).expect("listed")
    }

    /// Folders name each other as `crate::module::x`, or as `super::x` from a `mod.rs`.
    fn check(&self, source: &Source, problems: &mut Vec<String>) {
        let Some(path) = source.name.strip_prefix(self.module).and_then(|p| p.strip_prefix('/')) else {
            return;
        };
        let steps: Vec<&str> = path.trim_end_matches(".rs").trim_end_matches("/mod").split('/').collect();
        if steps == ["mod"] || self.loose.contains(&steps[0]) {
            return;
        }
        let Some(at) = self.rank(steps[0]) else {
            problems.push(format!("{}: {} has no place in the list", source.path, steps[0]));
            return;
        };
        let named = named_below(&format!("crate::{}::", self.module), &source.code)
            .into_iter()
            .chain(named_below(&"super::".repeat(steps.len()), &source.code));
        for module in named {
            if self.rank(&module).unwrap_or(self.own_rank()) > at {
                problems.push(format!("{} imports {}::{module}", source.path, self.module));
            }
        }
    }
}

#[test]
fn the_strata_of_modules_are_in_order() {
    let mut problems = Vec::new();
    for source in sources() {
        STRATA.iter().for_each(|strata| strata.check(&source, &mut problems));
    }
    problems.dedup();
    report("strata (docs/architecture.md): move the code down, or pass the value in", &problems);
}

#[test]
fn outside_crates_stay_in_their_folders() {
    let mut problems = Vec::new();
    for source in sources() {
        for (word, places) in OUTSIDE {
            let used = source.code.match_indices(word).any(|(at, _)| {
                let before = source.code[..at].chars().next_back();
                !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':')
            });
            if used && !places.iter().any(|place| source.name.starts_with(place)) {
                problems.push(format!("{} uses {word} (allowed in {places:?})", source.path));
            }
        }
    }
    report("outside crates: use what the owning layer offers instead", &problems);
}

#[test]
fn every_file_says_what_it_owns() {
    let problems: Vec<String> =
        sources().iter().filter(|s| !s.text.starts_with("//!")).map(|s| s.path.clone()).collect();
    report("a file begins with //!: what it owns and what it must not know", &problems);
}

#[test]
fn every_file_is_reached_by_a_mod_line() {
    let sources = sources();
    let mut problems = Vec::new();
    for source in &sources {
        let path = Path::new(&source.path);
        let (folder, stem) =
            (path.parent().unwrap_or(path), path.file_stem().unwrap_or_default().to_string_lossy());
        if matches!(&*stem, "lib" | "main") {
            continue;
        }
        let (folder, module) = match &*stem {
            "mod" => (
                folder.parent().unwrap_or(folder),
                folder.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            ),
            stem => (folder, stem.to_owned()),
        };
        let parents = ["mod.rs", "lib.rs"].map(|name| folder.join(name));
        let declared = sources
            .iter()
            .filter(|s| parents.iter().any(|parent| Path::new(&s.path) == parent))
            .any(|s| s.text.contains(&format!("mod {module};")));
        if !declared {
            problems.push(format!("{} is not declared in {}", source.path, folder.display()));
        }
        if EMPTY_NAMES.contains(&module.as_str()) {
            problems.push(format!("{}: `{module}` says nothing; name what is inside", source.path));
        }
    }
    report("every file belongs to a module with a telling name", &problems);
}

#[test]
fn functions_and_files_stay_short() {
    let mut problems = Vec::new();
    for source in sources() {
        let lines = source.code.lines().count();
        if lines > FILE_LINES_MAX && !LONG_FILES.iter().any(|(name, _)| *name == source.name) {
            problems.push(format!("{} has {lines} lines of code (at most {FILE_LINES_MAX})", source.path));
        }
        for (name, length) in function_lengths(&source.code) {
            if length > FUNCTION_LINES_MAX {
                problems.push(format!(
                    "{}: fn {name} has {length} lines (at most {FUNCTION_LINES_MAX})",
                    source.path
                ));
            }
        }
    }
    report("length: name the parts and split them out", &problems);
}

/// Functions by name with their number of lines, found by indentation (rustfmt guarantees it).
fn function_lengths(code: &str) -> Vec<(String, usize)> {
    let mut open: Vec<(String, usize, usize)> = Vec::new();
    let mut done = Vec::new();
    for (number, line) in code.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let body = line.trim_start();
        let is_fn = body.split_whitespace().take(6).any(|w| w == "fn")
            && !body.starts_with('*')
            && !body.contains('"');
        if is_fn && let Some(at) = body.find("fn ") {
            let name = body[at + 3..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            if !body.ends_with(';') && !body.ends_with('}') {
                open.push((name, indent, number));
            }
        } else if body.starts_with('}') && open.last().is_some_and(|(_, i, _)| *i == indent) {
            let (name, _, start) = open.pop().expect("checked above");
            done.push((name, number - start + 1));
        } else if body.ends_with(';')
            && open.last().is_some_and(|(_, i, start)| *i == indent && *start < number)
        {
            open.pop();
        }
    }
    done
}

/// The description that stands in for protoc is of the version that is built; see build/README.md.
#[test]
fn the_etcd_descriptor_is_of_the_version_that_is_locked() {
    let read = |name: &str| std::fs::read_to_string(root().join(name)).expect(name);
    let lock = read("Cargo.lock");
    let locked = lock.split("name = \"etcd-client\"\nversion = \"").nth(1).expect("etcd-client is locked");
    let version = locked.split('"').next().unwrap_or_default();
    let name = format!("etcd-client-{version}.descriptor");
    assert!(root().join("build").join(&name).is_file(), "build/{name} is missing; see build/README.md");
    assert!(read("build/protoc").contains(&name), "build/protoc does not name {name}");
    assert!(
        read("Cargo.toml").contains(&format!("version = \"={version}\"")),
        "Cargo.toml pins another version"
    );
}

#[test]
fn nothing_names_this_machine() {
    // Assembled, so that this file does not contain what it looks for.
    let machine_paths = [["/wo", "rk/"].concat(), ["/ro", "ot/"].concat(), ["/ho", "me/"].concat()];
    let mut files = Vec::new();
    for folder in [
        "src",
        "crates",
        "tests",
        "docs",
        "themes",
        "keymaps",
        "explanations",
        "benches",
        "build",
        ".cargo",
        ".ci",
    ] {
        text_files(&root().join(folder), &mut files);
    }
    files.extend(["README.md", "Cargo.toml"].map(|f| root().join(f)));
    let mut problems = Vec::new();
    for path in files {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        for word in &machine_paths {
            if text.contains(word.as_str()) {
                problems.push(format!("{} contains {word}", path.display()));
            }
        }
    }
    report("no paths of a machine in the repository", &problems);
}

fn text_files(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|e| e.path()) {
        if path.is_dir() { text_files(&path, found) } else { found.push(path) }
    }
}

#[test]
fn the_architecture_document_shows_the_matrix_that_is_enforced() {
    let document =
        std::fs::read_to_string(root().join("docs/architecture.md")).expect("docs/architecture.md");
    let mut expected = String::new();
    for (module, allowed) in MATRIX {
        let others: Vec<&str> = allowed.iter().copied().filter(|m| m != module).collect();
        let _ = writeln!(expected, "| `{module}` | {} |", others.join(", "));
    }
    assert!(
        document.contains(&expected),
        "docs/architecture.md: its layer table must contain exactly these rows:\n{expected}"
    );
    let sources = sources();
    for Strata { module, order, own, .. } in STRATA {
        let row = format!("| `{module}/");
        let shown: Vec<&str> =
            document.lines().filter_map(|l| l.strip_prefix(&row)?.split('`').next()).collect();
        let is_file =
            |s: &&str| *s != *own || sources.iter().any(|f| f.name.starts_with(&format!("{module}/{s}/")));
        let listed: Vec<&str> = order.iter().copied().filter(is_file).collect();
        assert_eq!(
            shown, listed,
            "docs/architecture.md: one row for each stratum of {module}, in this order"
        );
    }
}

/// The names of public items: what stands behind `pub fn`, `pub struct` and so on.
fn public_items(code: &str) -> Vec<String> {
    const KINDS: [&str; 7] = ["fn", "struct", "enum", "trait", "const", "static", "type"];
    let mut found = Vec::new();
    for line in code.lines().map(str::trim_start).filter(|line| line.starts_with("pub")) {
        let mut words = line.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|w| !w.is_empty());
        // `const fn`, `async fn`: the last of these words stands before the name.
        let mut name = None;
        while let Some(word) = words.next() {
            if KINDS.contains(&word) {
                name = words.next();
                if name.is_some_and(|name| KINDS.contains(&name)) {
                    name = words.next();
                }
                break;
            }
        }
        found.extend(name.map(str::to_owned));
    }
    found
}

#[test]
fn public_items_are_named_by_more_than_tests() {
    let sources = sources();
    let mut named: BTreeMap<&str, usize> = BTreeMap::new();
    for source in &sources {
        for word in source.code.split(|c: char| !(c.is_alphanumeric() || c == '_')) {
            *named.entry(word).or_default() += 1;
        }
    }
    let mut problems = Vec::new();
    for source in &sources {
        for name in public_items(&source.code) {
            // The derive macro makes a kind out of its spec.
            let is_derived = source.module() == "api" && name.ends_with("Spec");
            let is_excused = FOR_TESTS.iter().any(|(excused, _)| *excused == name);
            if named.get(name.as_str()) == Some(&1) && !is_derived && !is_excused {
                problems.push(format!(
                    "{}: nothing but tests names `{name}`: connect it or delete it",
                    source.path
                ));
            }
        }
    }
    for (name, reason) in FOR_TESTS {
        if named.get(name).is_none_or(|times| *times > 1) {
            problems.push(format!("FOR_TESTS: `{name}` ({reason}) needs no excuse any more"));
        }
    }
    report("public items", &problems);
}

/// The crates of the workspace that `manifest` depends on, by the table that begins with `[table]`.
fn dependencies(manifest: &str, table: &str) -> Vec<String> {
    let table = manifest.split(&format!("[{table}]\n")).nth(1).unwrap_or_default();
    let lines = table.lines().take_while(|line| !line.starts_with('['));
    let names = lines.filter_map(|line| line.split(['.', ' ']).next());
    let is_ours = |name: &&str| {
        let name = name.replace('-', "_");
        SHARED.contains(&name.as_str()) || ROOMS.iter().any(|(_, ours, _)| *ours == name)
    };
    names.filter(is_ours).map(str::to_owned).collect()
}

#[test]
fn the_architecture_document_shows_the_crates_and_what_each_rests_on() {
    let document =
        std::fs::read_to_string(root().join("docs/architecture.md")).expect("docs/architecture.md");
    let mut problems = Vec::new();
    for (folder, _) in crates() {
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
        let place = match folder.strip_prefix(root()) {
            Ok(path) if path.as_os_str().is_empty() => "src".to_owned(),
            path => path.expect("below the repository").display().to_string(),
        };
        let row = format!("| `{place}` | {} |", dependencies(&manifest, "dependencies").join(", "));
        if !document.contains(&row) {
            problems.push(row);
        }
    }
    report("docs/architecture.md: the table of crates must contain these rows", &problems);
}
