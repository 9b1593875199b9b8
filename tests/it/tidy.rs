//! Repository rules as tests: layers, outside crates, module docs, function and file length, words
//! that do not belong. Every failure names the file, the rule and what to do.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Who may import whom, as in docs/architecture.md: a module on the left may name the modules on its right.
/// `base` is time, rng, text, `key_pair`, `private_file` and `toml_file`.
const MATRIX: &[(&str, &[&str])] = &[
    ("base", &["base"]),
    ("api", &["base", "api"]),
    ("admission", &["base", "api", "admission"]),
    ("change", &["base", "api", "change"]),
    ("leader_migration", &["base", "api", "leader_migration"]),
    ("status", &["base", "api", "status"]),
    ("plan", &["base", "api", "status", "plan"]),
    ("observe", &["base", "api", "status", "plan", "observe"]),
    ("recompute", &["base", "api", "status", "plan", "observe", "recompute"]),
    ("forecast", &["base", "api", "status", "plan", "observe", "forecast"]),
    ("simulate", &["base", "api", "status", "plan", "observe", "forecast", "simulate"]),
    ("samples", &["base", "api", "samples"]),
    ("client", &["base", "api", "client"]),
    ("store", &["base", "store"]),
    ("workload", &["base", "api", "status", "client", "workload"]),
    ("reconfigure", &["base", "api", "change", "client", "workload", "reconfigure"]),
    ("runtime_sdk", &["base", "api", "status", "client", "runtime_sdk"]),
    (
        "can_update",
        &["base", "api", "status", "plan", "observe", "forecast", "client", "runtime_sdk", "can_update"],
    ),
    ("extension", &["base", "api", "client", "extension"]),
    ("apiserver", &["base", "api", "store", "apiserver"]),
    ("engine", &["base", "api", "leader_migration", "client", "engine"]),
    ("controller_managers", &["base", "api", "leader_migration", "client", "engine", "controller_managers"]),
    ("fleet", &["base", "api", "status", "client", "fleet"]),
    (
        "controllers",
        &[
            "base",
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
    ("provider", &["base", "api", "change", "client", "workload", "engine", "provider"]),
    (
        "workload_api",
        &["base", "api", "client", "store", "workload", "apiserver", "engine", "provider", "workload_api"],
    ),
    ("locks", &["base", "api", "leader_migration", "client", "locks"]),
    (
        "actions",
        &[
            "base",
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
    /// Relative to `src/`.
    pub name: String,
    text: String,
    /// Without comments and without `#[cfg(test)] mod …` blocks.
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
    let src = root().join("src");
    let mut files = Vec::new();
    rust_files(&src, &mut files);
    let source = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("a source file");
        let name = path.strip_prefix(&src).expect("below src").to_string_lossy().into_owned();
        let code = code_of(&text);
        Source { name, text, code }
    };
    let mut sources: Vec<Source> = files.into_iter().map(source).collect();
    let for_tests: Vec<String> = sources.iter().flat_map(Source::test_modules).collect();
    sources.retain(|source| !for_tests.iter().any(|module| source.is_below(module)));
    sources
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
                problems.push(format!("src/{} imports crate::{module}", source.name));
            }
            let only_watch = source.module() == "fleet" && !source.name.starts_with("fleet/watch");
            if only_watch && module == "client" {
                problems
                    .push(format!("src/{} imports crate::client, which only fleet/watch may", source.name));
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
            problems.push(format!("src/{}: {} has no place in the list", source.name, steps[0]));
            return;
        };
        let named = named_below(&format!("crate::{}::", self.module), &source.code)
            .into_iter()
            .chain(named_below(&"super::".repeat(steps.len()), &source.code));
        for module in named {
            if self.rank(&module).unwrap_or(self.own_rank()) > at {
                problems.push(format!("src/{} imports {}::{module}", source.name, self.module));
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
                problems.push(format!("src/{} uses {word} (allowed in {places:?})", source.name));
            }
        }
    }
    report("outside crates: use what the owning layer offers instead", &problems);
}

#[test]
fn every_file_says_what_it_owns() {
    let problems: Vec<String> =
        sources().iter().filter(|s| !s.text.starts_with("//!")).map(|s| format!("src/{}", s.name)).collect();
    report("a file begins with //!: what it owns and what it must not know", &problems);
}

#[test]
fn every_file_is_reached_by_a_mod_line() {
    let sources = sources();
    let mut problems = Vec::new();
    for source in &sources {
        let path = Path::new(&source.name);
        let (folder, stem) =
            (path.parent().unwrap_or(Path::new("")), path.file_stem().unwrap_or_default().to_string_lossy());
        if matches!(source.name.as_str(), "lib.rs" | "main.rs") {
            continue;
        }
        let (parent, module) = if stem == "mod" {
            let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
            (folder.parent().unwrap_or(Path::new("")).to_path_buf(), name)
        } else {
            (folder.to_path_buf(), stem.into_owned())
        };
        let parent_file =
            if parent.as_os_str().is_empty() { PathBuf::from("lib.rs") } else { parent.join("mod.rs") };
        let declared = sources
            .iter()
            .find(|s| Path::new(&s.name) == parent_file)
            .is_some_and(|s| s.text.contains(&format!("mod {module};")));
        if !declared {
            problems.push(format!("src/{} is not declared in src/{}", source.name, parent_file.display()));
        }
        if EMPTY_NAMES.contains(&module.as_str()) {
            problems.push(format!("src/{}: `{module}` says nothing; name what is inside", source.name));
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
            problems
                .push(format!("src/{} has {lines} lines of code (at most {FILE_LINES_MAX})", source.name));
        }
        for (name, length) in function_lengths(&source.code) {
            if length > FUNCTION_LINES_MAX {
                problems.push(format!(
                    "src/{}: fn {name} has {length} lines (at most {FUNCTION_LINES_MAX})",
                    source.name
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
    for folder in
        ["src", "tests", "docs", "themes", "keymaps", "explanations", "benches", "build", ".cargo", ".ci"]
    {
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
    for Strata { module, order, own, .. } in STRATA {
        let row = format!("| `{module}/");
        let shown: Vec<&str> =
            document.lines().filter_map(|l| l.strip_prefix(&row)?.split('`').next()).collect();
        let is_file = |s: &&str| *s != *own || root().join("src").join(module).join(s).is_dir();
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
                    "src/{}: nothing but tests names `{name}`: connect it or delete it",
                    source.name
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
