//! A real program as editor in a real terminal: it has the terminal and the keys while it runs, and its text is kept until it is done.

use std::os::unix::fs::PermissionsExt;

use portable_pty::CommandBuilder;

use crate::standalone::{BINARY, Standalone};
use crate::terminal::Pty;

/// Does what the person types: writes something wrong, mends it, or fails. It says how often it has run, as what it said before comes
/// back on the screen a moment before it has the keys.
const EDITOR: &str = r#"#!/bin/sh
stat -c %a "$(dirname "$1")" "$1" > "$(dirname "$0")/modes"
echo run >> "$(dirname "$0")/runs"
printf 'EDITING %s: ' $(wc -l < "$(dirname "$0")/runs")
read -r answer
case "$answer" in
    wrong) echo 'wrong: [' >> "$1" ;;
    right) sed -i -e '/^wrong: \[$/d' -e 's/^spec:$/spec:\n  paused: true/' "$1" ;;
    *) exit 3 ;;
esac
"#;

#[test]
fn an_editor_has_the_terminal_and_what_it_leaves_is_previewed() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Standalone::start(
        folder.path(),
        &["--store", "memory", "--no-engine", "--sample", "synthetic:clusters=1,machines=2"],
    );
    let editor = folder.path().join("editor");
    std::fs::write(&editor, EDITOR).expect("written");
    std::fs::set_permissions(&editor, PermissionsExt::from_mode(0o755)).expect("executable");
    let mut command = CommandBuilder::new(BINARY);
    command.arg("--kubeconfig");
    command.arg(server.kubeconfig());
    command.env("HOME", folder.path());
    command.env("TMPDIR", folder.path());
    command.env("TERM", "xterm-256color");
    command.env("KUBE_EDITOR", format!("'{}'", editor.display()));
    let mut screen = Pty::open_sized(command, 40, 120);
    screen.until("the cluster", |s| s.text().contains("clusters 1") && s.text().contains("live"));
    let texts = || {
        let found = std::fs::read_dir(folder.path()).expect("a folder").filter_map(Result::ok);
        found.filter(|entry| entry.file_name().to_string_lossy().starts_with("capstan-edit-")).count()
    };
    screen.press("e");
    screen.shows("EDITING 1: ");
    // `q` would leave the dashboard.
    screen.press("quit\r");
    screen.shows("exit status: 3");
    let modes = std::fs::read_to_string(folder.path().join("modes")).expect("it ran");
    assert_eq!(modes, "700\n600\n");
    screen.press("\r");
    screen.shows("EDITING 2: ");
    screen.press("wrong\r");
    screen.shows("it is not YAML");
    assert_eq!(texts(), 1, "kept");
    screen.press("\r");
    screen.shows("EDITING 3: ");
    screen.press("right\r");
    screen.shows("paused: true");
    screen.until("the question", |s| s.text().contains(", then enter") || s.text().contains("Scroll"));
    screen.press("\u{1b}[F");
    screen.shows(", then enter");
    let text = screen.text();
    let word = text.split("Type ").nth(1).and_then(|rest| rest.split(',').next()).expect("a word");
    screen.press(&format!("{word}\r"));
    screen.shows(": changed");
    screen.press("q");
    screen.end();
    assert_eq!(texts(), 0, "nothing is left");
}
