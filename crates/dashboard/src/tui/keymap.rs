//! Keys to command lines. Owns key names, chords, keymap files and the reverse map for help and
//! hints. Must not know what a command does.
//!
//! ```toml
//! description = "one line"
//! inherits = "default"
//! [global]
//! "ctrl-c" = "quit"
//! "g g" = "top"          # a chord: keys separated by spaces
//! [tree]
//! "x" = ""               # unbound
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::str::FromStr;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use toml::de::DeTable;

use capstan_base::text::did_you_mean;
use capstan_base::toml_file::{FileError, Library, Source};

/// Keymaps in the binary.
pub const EMBEDDED: &[(&str, &str)] = &[
    ("default", include_str!("../../../../keymaps/default.toml")),
    ("k9s", include_str!("../../../../keymaps/k9s.toml")),
    ("vim", include_str!("../../../../keymaps/vim.toml")),
];

/// How deep `inherits` may go; more is a circle.
const INHERIT_MAX: usize = 8;

/// Whether a command line may be bound to a key; if not, why, in a sentence.
pub type CheckLine = fn(&str) -> Result<(), String>;

/// Where a binding holds. Every mode falls back to [`Mode::Global`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    Global,
    Fleet,
    /// Of objects below the clusters.
    List,
    Tree,
    Details,
    Rollout,
    Rollouts,
    Etcd,
    Leases,
    LeaderMigration,
    Change,
    Simulation,
    /// Help, previews and notices.
    Dialog,
}

impl Mode {
    pub const ALL: [Self; 13] = [
        Self::Global,
        Self::Fleet,
        Self::List,
        Self::Tree,
        Self::Details,
        Self::Rollout,
        Self::Rollouts,
        Self::Etcd,
        Self::Leases,
        Self::LeaderMigration,
        Self::Change,
        Self::Simulation,
        Self::Dialog,
    ];

    /// As written in keymap files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Fleet => "fleet",
            Self::List => "list",
            Self::Tree => "tree",
            Self::Details => "details",
            Self::Rollout => "rollout",
            Self::Rollouts => "rollouts",
            Self::Etcd => "etcd",
            Self::Leases => "leases",
            Self::LeaderMigration => "leader-migration",
            Self::Change => "change",
            Self::Simulation => "simulation",
            Self::Dialog => "dialog",
        }
    }
}

const NAMED: [(&str, KeyCode); 16] = [
    ("enter", KeyCode::Enter),
    ("esc", KeyCode::Esc),
    ("tab", KeyCode::Tab),
    ("backtab", KeyCode::BackTab),
    ("space", KeyCode::Char(' ')),
    ("backspace", KeyCode::Backspace),
    ("delete", KeyCode::Delete),
    ("insert", KeyCode::Insert),
    ("up", KeyCode::Up),
    ("down", KeyCode::Down),
    ("left", KeyCode::Left),
    ("right", KeyCode::Right),
    ("home", KeyCode::Home),
    ("end", KeyCode::End),
    ("pageup", KeyCode::PageUp),
    ("pagedown", KeyCode::PageDown),
];

/// One key with its modifiers, in one normal form: shift is part of a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyPress {
    code: KeyCode,
    modifiers: KeyModifiers,
}

impl KeyPress {
    fn new(code: KeyCode, modifiers: KeyModifiers) -> Self {
        let known = KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SHIFT;
        let mut modifiers = modifiers & known;
        // Terminals differ in whether they report shift beside a capital.
        if matches!(code, KeyCode::Char(_) | KeyCode::BackTab) {
            modifiers -= KeyModifiers::SHIFT;
        }
        Self { code, modifiers }
    }

    /// The event as a terminal would send it, for scripts.
    pub fn event(self) -> KeyEvent {
        KeyEvent::new(self.code, self.modifiers)
    }
}

impl From<KeyEvent> for KeyPress {
    fn from(event: KeyEvent) -> Self {
        Self::new(event.code, event.modifiers)
    }
}

impl FromStr for KeyPress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut modifiers = KeyModifiers::empty();
        let mut rest = text;
        // A `-` with nothing before or behind it is the key itself, also after a modifier.
        while let Some((prefix, tail)) = rest.split_once('-').filter(|(p, t)| !p.is_empty() && !t.is_empty())
        {
            modifiers |= match prefix {
                "ctrl" => KeyModifiers::CONTROL,
                "alt" => KeyModifiers::ALT,
                "shift" => KeyModifiers::SHIFT,
                _ => return Err(format!("`{prefix}-` is not a modifier; write ctrl-, alt- or shift-")),
            };
            rest = tail;
        }
        let mut chars = rest.chars();
        let code = match (chars.next(), chars.next()) {
            (Some(c), None) if modifiers.contains(KeyModifiers::SHIFT) => {
                KeyCode::Char(c.to_ascii_uppercase())
            }
            (Some(c), None) => KeyCode::Char(c),
            _ if rest == "tab" && modifiers.contains(KeyModifiers::SHIFT) => KeyCode::BackTab,
            _ => named_key(rest)?,
        };
        Ok(Self::new(code, modifiers))
    }
}

fn named_key(name: &str) -> Result<KeyCode, String> {
    if let Some(n) =
        name.strip_prefix('f').and_then(|n| n.parse::<u8>().ok()).filter(|n| (1..=12).contains(n))
    {
        return Ok(KeyCode::F(n));
    }
    NAMED
        .iter()
        .find(|(n, _)| *n == name)
        .map(|(_, code)| *code)
        .ok_or_else(|| format!("`{name}` is not a key{}", did_you_mean(name, NAMED.iter().map(|(n, _)| *n))))
}

impl fmt::Display for KeyPress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (modifier, name) in
            [(KeyModifiers::CONTROL, "ctrl-"), (KeyModifiers::ALT, "alt-"), (KeyModifiers::SHIFT, "shift-")]
        {
            if self.modifiers.contains(modifier) {
                f.write_str(name)?;
            }
        }
        if let Some((name, _)) = NAMED.iter().find(|(_, code)| *code == self.code) {
            return f.write_str(name);
        }
        match self.code {
            KeyCode::Char(c) => write!(f, "{c}"),
            KeyCode::F(n) => write!(f, "f{n}"),
            other => write!(f, "{other:?}"),
        }
    }
}

/// Keys one after another, as written: `g g`.
pub fn chord_text(keys: &[KeyPress]) -> String {
    keys.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// # Errors
/// The first key that cannot be read.
pub fn parse_chord(text: &str) -> Result<Vec<KeyPress>, String> {
    let keys: Vec<KeyPress> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    if keys.is_empty() { Err("a binding needs a key".to_owned()) } else { Ok(keys) }
}

/// What the keys pressed so far lead to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// This command line.
    Run(String),
    /// A chord has begun: what may follow, with its command line.
    Pending(Vec<(String, String)>),
    Unbound,
}

/// One binding of one mode.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Binding {
    keys: Vec<KeyPress>,
    /// Empty: deliberately unbound, hides the global one.
    line: String,
}

/// A keymap with all it inherits.
#[derive(Clone, Debug, Default)]
pub struct Keymap {
    pub name: String,
    pub description: String,
    /// A few dozen bindings per mode: a scan finds a chord and everything it may become.
    modes: BTreeMap<Mode, Vec<Binding>>,
}

impl Keymap {
    /// Loads a keymap by name: from `config_dir/keymaps` or built in.
    ///
    /// # Errors
    /// File, line and what was expected.
    pub fn load(name: &str, config_dir: Option<&Path>, check: CheckLine) -> Result<Self, FileError> {
        let mut keymap = load_at(name, &library(config_dir), check, false, 0)?;
        name.clone_into(&mut keymap.name);
        Ok(keymap)
    }

    /// What `keys` mean in `mode`. The mode's own bindings win over the global ones.
    pub fn lookup(&self, mode: Mode, keys: &[KeyPress]) -> Lookup {
        let mut follow = Vec::new();
        for mode in with_global(mode) {
            for binding in self.bindings(mode) {
                if binding.keys == keys {
                    return if binding.line.is_empty() {
                        Lookup::Unbound
                    } else {
                        Lookup::Run(binding.line.clone())
                    };
                }
                if binding.keys.starts_with(keys) && !binding.line.is_empty() {
                    follow.push((chord_text(&binding.keys[keys.len()..]), binding.line.clone()));
                }
            }
            // A chord that begins in the mode's own bindings hides a global key.
            if !follow.is_empty() {
                return Lookup::Pending(follow);
            }
        }
        Lookup::Unbound
    }

    /// Binds keys everywhere.
    ///
    /// # Errors
    /// They are no keys, or some mode has a binding under them, in a sentence.
    pub fn bind_free(&mut self, keys: &str, line: &str) -> Result<(), String> {
        let keys = parse_chord(keys)?;
        let taken = self
            .modes
            .values()
            .flatten()
            .find(|bound| !bound.line.is_empty() && overlaps(&bound.keys, &keys));
        if let Some(bound) = taken {
            return Err(format!("`{}` is bound to `{}` already", chord_text(&bound.keys), bound.line));
        }
        self.modes.entry(Mode::Global).or_default().push(Binding { keys, line: line.to_owned() });
        Ok(())
    }

    /// The chords that run exactly `line` in `mode`, the mode's own first.
    pub fn keys_for(&self, mode: Mode, line: &str) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        for at in with_global(mode) {
            for binding in self.bindings(at).iter().filter(|b| b.line == line) {
                let text = chord_text(&binding.keys);
                // A global key that the mode binds otherwise does not lead there.
                let hidden = at != mode && self.bindings(mode).iter().any(|b| b.keys == binding.keys);
                if !hidden && !found.contains(&text) {
                    found.push(text);
                }
            }
        }
        found
    }

    /// Every binding: mode, keys, command line.
    pub fn all(&self) -> impl Iterator<Item = (Mode, String, &str)> {
        self.modes.iter().flat_map(|(mode, bindings)| {
            bindings.iter().map(|b| (*mode, chord_text(&b.keys), b.line.as_str()))
        })
    }

    fn bindings(&self, mode: Mode) -> &[Binding] {
        self.modes.get(&mode).map_or(&[], Vec::as_slice)
    }
}

fn with_global(mode: Mode) -> impl Iterator<Item = Mode> {
    std::iter::once(mode).chain(Some(Mode::Global).filter(|g| *g != mode))
}

/// The keymaps that can be asked for.
pub fn library(config_dir: Option<&Path>) -> Library {
    Library::new("keymap", EMBEDDED, config_dir)
}

fn load_at(
    name: &str,
    library: &Library,
    check: CheckLine,
    built_in: bool,
    depth: usize,
) -> Result<Keymap, FileError> {
    let source = library.open(name, built_in)?;
    let document = source.parse()?;
    let root = document.get_ref();
    let mut keymap = match root.get("inherits") {
        Some(value) if depth >= INHERIT_MAX => {
            return Err(source.error(&value.span(), "`inherits` goes round in a circle"));
        }
        Some(value) => {
            let base = source.string(value, "`inherits`")?;
            // A file that inherits its own name means the one that is built in.
            load_at(base, library, check, base == name, depth + 1)
                .map_err(|e| if e.is_missing { source.error(&value.span(), e.message) } else { e })?
        }
        None => Keymap::default(),
    };
    for (key, value) in root {
        let entry = key.get_ref().as_ref();
        match entry {
            "inherits" => {}
            "description" => source.string(value, "`description`")?.clone_into(&mut keymap.description),
            _ => {
                let Some(mode) = Mode::ALL.into_iter().find(|m| m.name() == entry) else {
                    return Err(source.error(&key.span(), unknown_mode(entry)));
                };
                read_mode(&source, source.table(value, "a mode")?, mode, check, &mut keymap)?;
            }
        }
    }
    Ok(keymap)
}

fn unknown_mode(entry: &str) -> String {
    let known = Mode::ALL.map(Mode::name);
    format!("unknown mode `{entry}`{}; known: {}", did_you_mean(entry, known.into_iter()), known.join(", "))
}

fn read_mode(
    source: &Source,
    table: &DeTable<'_>,
    mode: Mode,
    check: CheckLine,
    keymap: &mut Keymap,
) -> Result<(), FileError> {
    let mut own: Vec<(Range<usize>, Binding)> = Vec::new();
    // In the order of the file: the first key of a command is the one that hints show.
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    for (key, value) in entries {
        let keys = parse_chord(key.get_ref()).map_err(|e| source.error(&key.span(), e))?;
        let line = source.string(value, "a command line")?.to_owned();
        if !line.is_empty() {
            check(&line).map_err(|e| source.error(&value.span(), e))?;
        }
        let span = key.span();
        if let Some((other, clash)) = own.iter().find(|(_, b)| overlaps(&b.keys, &keys)) {
            let (this, that) = (chord_text(&keys), chord_text(&clash.keys));
            let message =
                format!("`{this}` cannot be bound beside `{that}` (line {})", source.line_of(other.start));
            return Err(source.error(&span, message));
        }
        own.push((span, Binding { keys, line }));
    }
    let bindings = keymap.modes.entry(mode).or_default();
    // What the file binds replaces what it inherits under the same keys, or under a start of them.
    bindings.retain(|b| !own.iter().any(|(_, o)| overlaps(&o.keys, &b.keys)));
    bindings.extend(own.into_iter().map(|(_, b)| b));
    Ok(())
}

/// One chord begins the other, so that the longer one could never be typed.
fn overlaps(a: &[KeyPress], b: &[KeyPress]) -> bool {
    a.starts_with(b) || b.starts_with(a)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::command::check;

    fn load_text(text: &str) -> Result<Keymap, FileError> {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(dir.path().join("keymaps")).expect("a folder");
        std::fs::write(dir.path().join("keymaps/x.toml"), text).expect("a file");
        Keymap::load("x", Some(dir.path()), check)
    }

    fn keys(text: &str) -> Vec<KeyPress> {
        parse_chord(text).expect("keys")
    }

    #[test]
    fn keys_are_read_and_written_the_same() {
        for text in
            ["a", "A", "ctrl-d", "alt-x", "enter", "esc", "backtab", "f5", "-", ":", "?", "ctrl--", "g g"]
        {
            assert_eq!(chord_text(&keys(text)), text);
        }
        assert_eq!(keys("shift-tab"), keys("backtab"));
        assert_eq!(keys("shift-a"), keys("A"));
        assert_eq!(KeyPress::from(KeyEvent::new(KeyCode::Char('A'), KeyModifiers::SHIFT)), keys("A")[0]);
        for (wrong, part) in
            [("entr", "did you mean `enter`?"), ("hyper-x", "not a modifier"), ("", "needs a key")]
        {
            let error = parse_chord(wrong).expect_err(wrong);
            assert!(error.contains(part), "{wrong}: {error}");
        }
    }

    #[test]
    fn every_shipped_keymap_loads_and_is_described() {
        for (name, _) in EMBEDDED {
            let keymap = Keymap::load(name, None, check).unwrap_or_else(|e| panic!("{e}"));
            assert!(!keymap.description.is_empty(), "{name}");
            for line in ["quit", "help", "prompt", "up", "down", "back"] {
                assert!(!keymap.keys_for(Mode::Fleet, line).is_empty(), "{name} has no key for {line}");
            }
            assert!(!keymap.keys_for(Mode::Dialog, "accept").is_empty(), "{name}");
        }
    }

    #[test]
    fn a_mode_wins_over_global_and_chords_wait() {
        let map =
            load_text("[global]\n'g g' = 'top'\n'g e' = 'bottom'\n'x' = 'quit'\n[tree]\n'x' = 'fold'\n")
                .expect("loads");
        assert_eq!(map.lookup(Mode::Tree, &keys("x")), Lookup::Run("fold".into()));
        assert_eq!(map.lookup(Mode::Fleet, &keys("x")), Lookup::Run("quit".into()));
        assert_eq!(map.lookup(Mode::Tree, &keys("g e")), Lookup::Run("bottom".into()));
        assert_eq!(map.lookup(Mode::Tree, &keys("g x")), Lookup::Unbound);
        let follow = vec![("g".to_owned(), "top".to_owned()), ("e".to_owned(), "bottom".to_owned())];
        let Lookup::Pending(mut pending) = map.lookup(Mode::Tree, &keys("g")) else { panic!("should wait") };
        pending.sort_by_key(|(k, _)| std::cmp::Reverse(k.clone()));
        assert_eq!(pending, follow);
        assert_eq!(map.keys_for(Mode::Tree, "quit"), Vec::<String>::new(), "hidden by the tree's own x");
    }

    #[test]
    fn a_file_changes_only_what_it_names() {
        let map = load_text("inherits = 'default'\n[global]\n'q' = ''\n'Q' = 'quit'\n").expect("loads");
        assert_eq!(map.lookup(Mode::Fleet, &keys("q")), Lookup::Unbound);
        assert_eq!(map.lookup(Mode::Fleet, &keys("Q")), Lookup::Run("quit".into()));
        assert_eq!(map.lookup(Mode::Fleet, &keys("?")), Lookup::Run("help".into()));
    }

    #[test]
    fn mistakes_are_told_with_file_and_line() {
        for (text, line, part) in [
            ("[global]\n'q' = 'quti'\n", 2, "did you mean `quit`?"),
            ("[global]\n\n'qq' = 'quit'\n", 3, "`qq` is not a key"),
            ("[globl]\n", 1, "did you mean `global`?"),
            ("[global]\n'g' = 'top'\n'g g' = 'bottom'\n", 3, "cannot be bound beside `g` (line 2)"),
            ("[global]\n'q' = 3\n", 2, "must be a string"),
            ("[global]\n'q' = 'quit'\n'q' = 'top'\n", 3, "not valid TOML"),
            ("[global]\n'q' = 'scale'\n", 2, "needs"),
        ] {
            let error = load_text(text).expect_err(text);
            assert_eq!(error.line, line, "{text:?}: {error}");
            assert!(error.message.contains(part), "{text:?}: {error}");
        }
    }
}
