//! What may import what: rooms, strata, crates, outside crates, and the page that shows them. Must not know how sources are
//! read.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::tidy_sources::{BASE, ROOMS, SHARED, Source, crates, report, root, sources};

/// Which room may import which, as in docs/architecture.md: a room on the left may name the rooms on its right. The
/// manifests of the crates say the same less exactly. `base` is time, rng, text, `command_line`, `go_duration`, `key_pair`, `private_file`, `toml_file` and `web_address`.
const MATRIX: &[(&str, &[&str])] = &[
    ("base", &["base"]),
    ("machinery", &["machinery"]),
    ("api", &["machinery", "api"]),
    ("admission", &["machinery", "api", "admission"]),
    ("physics", &["base", "machinery", "api", "physics"]),
    ("remote", &["base", "remote"]),
    ("hosts", &["base", "hosts"]),
    ("change", &["base", "machinery", "change"]),
    ("leader_migration", &["base", "machinery", "leader_migration"]),
    ("etcd", &["etcd"]),
    ("status", &["base", "machinery", "api", "etcd", "status"]),
    ("plan", &["base", "machinery", "api", "etcd", "status", "plan"]),
    ("observe", &["base", "machinery", "api", "etcd", "status", "plan", "observe"]),
    ("recompute", &["base", "machinery", "api", "status", "plan", "observe", "recompute"]),
    ("simulate", &["base", "machinery", "api", "physics", "etcd", "status", "plan", "observe", "simulate"]),
    ("forecast", &["base", "machinery", "api", "etcd", "status", "plan", "observe", "simulate", "forecast"]),
    ("samples", &["base", "api", "samples"]),
    ("client", &["base", "machinery", "api", "client"]),
    ("store", &["base", "store"]),
    ("workload", &["base", "machinery", "api", "etcd", "client", "workload"]),
    ("reconfigure", &["base", "api", "remote", "change", "client", "workload", "reconfigure"]),
    ("runtime_sdk", &["base", "machinery", "api", "client", "runtime_sdk"]),
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
    ("controller_managers", &["base", "leader_migration", "client", "engine", "controller_managers"]),
    ("fleet", &["base", "machinery", "api", "status", "client", "fleet"]),
    (
        "controllers",
        &[
            "base",
            "machinery",
            "api",
            "etcd",
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
    (
        "provider",
        &["base", "machinery", "api", "physics", "change", "client", "workload", "engine", "provider"],
    ),
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
    (
        "host_provider",
        &["base", "api", "remote", "hosts", "status", "client", "workload", "engine", "host_provider"],
    ),
    ("locks", &["base", "leader_migration", "client", "locks"]),
    (
        "operations",
        &[
            "base",
            "machinery",
            "api",
            "change",
            "leader_migration",
            "etcd",
            "observe",
            "client",
            "locks",
            "workload",
            "reconfigure",
            "operations",
        ],
    ),
    (
        "actions",
        &[
            "base",
            "machinery",
            "api",
            "admission",
            "etcd",
            "status",
            "observe",
            "forecast",
            "simulate",
            "client",
            "can_update",
            "operations",
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
            "host_provider",
            "workload",
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
            "etcd",
            "status",
            "forecast",
            "simulate",
            "fleet",
            "operations",
            "actions",
            "tui",
        ],
    ),
    (
        "commands",
        &[
            "base",
            "machinery",
            "api",
            "remote",
            "hosts",
            "change",
            "leader_migration",
            "etcd",
            "status",
            "plan",
            "observe",
            "recompute",
            "forecast",
            "simulate",
            "client",
            "locks",
            "workload",
            "reconfigure",
            "can_update",
            "host_provider",
            "fleet",
            "operations",
            "actions",
            "tui",
            "commands",
        ],
    ),
    (
        "cli",
        &[
            "base",
            "machinery",
            "api",
            "admission",
            "leader_migration",
            "samples",
            "client",
            "store",
            "workload",
            "runtime_sdk",
            "extension",
            "apiserver",
            "engine",
            "fleet",
            "controllers",
            "provider",
            "workload_api",
            "host_provider",
            "operations",
            "actions",
            "standalone",
            "tui",
            "commands",
            "cli",
        ],
    ),
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
            "amount",
            "outside_owners",
            "support",
            "versions",
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
            "plugin",
            "look",
            "cursor",
            "layout",
            "links",
            "paint",
            "widget",
            "subject",
            "plans",
            "rights",
            "folds",
            "history",
            "keeping",
            "turns",
            "reads",
            "replay",
            "outside",
            "effect",
            "msg",
            "screen",
            "report",
            "overlay",
            "model",
            "editing",
            "launching",
            "rereading",
            "replaying",
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
    ("hyper::", &["apiserver/serve/", "client/dial", "extension/serve"]),
    (
        "hyper_util::",
        &[
            "apiserver/serve/",
            "client/dial",
            "client/transport",
            "workload/etcd/",
            "runtime_sdk/transport",
            "extension/serve",
        ],
    ),
    ("tokio_tungstenite::", &["apiserver/serve/"]),
    ("redb::", &["store/"]),
    ("chacha20poly1305::", &["store/sealed/cipher"]),
    ("argon2::", &["store/sealed/key_file"]),
    ("etcd_client::", &["store/", "workload/etcd/"]),
    ("tonic::", &["workload/etcd/"]),
    ("anyhow::", &["commands/", "cli/"]),
    ("clap::", &["commands/", "cli/"]),
    ("kube::Client", &["client/", "workload/", "fleet/watch"]),
    ("kube::Api", &["engine/", "fleet/watch"]),
    ("kube::runtime", &["client/"]),
    (
        "tokio::",
        &[
            "client/",
            "locks/",
            "store/",
            "workload/",
            "reconfigure/",
            "remote/",
            "runtime_sdk/transport",
            "extension/serve",
            "apiserver/",
            "engine/",
            "fleet/watch",
            "controller_managers/",
            "controllers/",
            "provider/",
            "workload_api/",
            "operations/etcd/",
            "actions/aside",
            "standalone/",
            "tui/mod.rs",
            "tui/contexts.rs",
            "tui/event_loop.rs",
            "tui/runner",
            "tui/terminal",
            "commands/",
            "cli/",
        ],
    ),
    ("Utc::now(", &["time.rs"]),
    ("SystemTime::now(", &[]),
    ("rand::", &["rng.rs"]),
    ("println!", &[]),
    ("eprintln!", &[]),
];

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
    let mut places_left: Vec<(&str, &str)> =
        OUTSIDE.iter().flat_map(|(word, places)| places.iter().map(|place| (*word, *place))).collect();
    for source in sources() {
        for (word, places) in OUTSIDE {
            let used = source.code.match_indices(word).any(|(at, _)| {
                let before = source.code[..at].chars().next_back();
                !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':')
            });
            if used && !places.iter().any(|place| source.name.starts_with(place)) {
                problems.push(format!("{} uses {word} (allowed in {places:?})", source.path));
            }
            places_left.retain(|(left, place)| !(used && left == word && source.name.starts_with(place)));
        }
    }
    problems.extend(places_left.iter().map(|(word, place)| format!("nothing in {place} uses {word}")));
    report("outside crates: use what the owning layer offers instead", &problems);
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

/// A row that allows more than is used hides the next arrow.
#[test]
fn the_layer_matrix_allows_only_what_is_used() {
    let mut used: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in sources() {
        used.entry(source.module().to_owned()).or_default().extend(crate_modules(&source.code));
    }
    let mut problems = Vec::new();
    for (room, allowed) in MATRIX {
        let named = used.get(*room).map_or(&[][..], Vec::as_slice);
        for other in allowed.iter().filter(|other| *other != room) {
            if !named.iter().any(|name| name == other) {
                problems.push(format!("{room} does not import {other}"));
            }
        }
    }
    report("layer matrix: take out what is not used", &problems);
}
