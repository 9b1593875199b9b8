//! Where a passphrase comes from: a file, or a person at the terminal, which does not show it. Never an argument or the environment,
//! where other processes can read it. Must not know what it protects.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use zeroize::Zeroizing;

use capstan_base::private_file;
use capstan_store::Passphrase;

/// The terminal of this process, wherever its input and output go.
const TERMINAL: &str = "/dev/tty";
/// Longer ones are a mistake, such as a file that was pasted.
const BYTES_MAX: usize = 1024;

const INTERRUPT: u8 = 3;
const END: u8 = 4;
const ERASE: [u8; 2] = [8, 127];
const ERASE_ALL: u8 = 21;

/// The first line of a file that only its owner can read.
///
/// # Errors
/// The file is not there, is empty, or others can read it.
pub fn of_file(path: &Path) -> anyhow::Result<Passphrase> {
    let text = private_file::read_secret(path)?.map(Zeroizing::new);
    let text =
        text.with_context(|| format!("there is no file {}; check --passphrase-file", path.display()))?;
    let line = Zeroizing::new(text.lines().next().unwrap_or_default().to_owned());
    Passphrase::of(line)
        .with_context(|| format!("the first line of {} is empty: it has no passphrase", path.display()))
}

/// Asks once.
///
/// # Errors
/// The process has no terminal, or the typed passphrase is empty.
pub fn ask(question: &str) -> anyhow::Result<Passphrase> {
    let typed = Question::open()?.put(question)?;
    Passphrase::of(typed).context("no passphrase was typed; nothing was done")
}

/// Asks twice, since what is typed cannot be seen.
///
/// # Errors
/// As [`ask`]; the two differ.
pub fn ask_new() -> anyhow::Result<Passphrase> {
    let one = ask("New passphrase: ")?;
    if !one.is(&ask("The same again: ")?) {
        bail!("the two passphrases differ; nothing was changed");
    }
    Ok(one)
}

/// The terminal while it shows nothing of what is typed; as it was afterwards.
struct Question {
    terminal: File,
    before: Termios,
}

impl Question {
    fn open() -> anyhow::Result<Self> {
        let there_is_none = || "a passphrase is needed, and there is no terminal to ask on; name a file that holds it with --passphrase-file";
        let terminal = OpenOptions::new().read(true).write(true).open(TERMINAL);
        let terminal = terminal.with_context(there_is_none)?;
        let before = tcgetattr(&terminal).with_context(there_is_none)?;
        let mut silent = before.clone();
        // Ctrl-c comes as a byte: a process that it ends here would leave a terminal that shows nothing.
        silent.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        silent.special_codes[SpecialCodeIndex::VMIN] = 1;
        silent.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&terminal, OptionalActions::Flush, &silent).with_context(there_is_none)?;
        Ok(Self { terminal, before })
    }

    fn put(mut self, question: &str) -> anyhow::Result<Zeroizing<String>> {
        self.terminal.write_all(question.as_bytes()).context("cannot write to the terminal")?;
        let typed = line(&mut self.terminal.try_clone()?);
        // The end of the line was not shown either.
        let _ = self.terminal.write_all(b"\n");
        typed
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        // A terminal that is gone needs no restoring.
        let _ = tcsetattr(&self.terminal, OptionalActions::Flush, &self.before);
    }
}

/// What is typed up to the end of a line, byte by byte.
fn line(keys: &mut impl std::io::Read) -> anyhow::Result<Zeroizing<String>> {
    // Room for all of it, so that growing leaves no copy behind.
    let mut typed = Zeroizing::new(Vec::with_capacity(BYTES_MAX));
    while let Some(key) = key_of(keys).context("cannot read from the terminal")? {
        match key {
            b'\r' | b'\n' | END => break,
            INTERRUPT => bail!("interrupted; nothing was done"),
            ERASE_ALL => typed.clear(),
            key if ERASE.contains(&key) => erase(&mut typed),
            _ if typed.len() == BYTES_MAX => bail!("a passphrase has at most {BYTES_MAX} bytes"),
            key => typed.push(key),
        }
    }
    let text = std::str::from_utf8(&typed).context("what was typed is not text in UTF-8")?;
    Ok(Zeroizing::new(text.to_owned()))
}

/// `None`: the terminal is gone.
fn key_of(keys: &mut impl std::io::Read) -> std::io::Result<Option<u8>> {
    let mut key = [0];
    match keys.read_exact(&mut key) {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(None),
        read => read.map(|()| Some(key[0])),
    }
}

/// Takes the last character away.
fn erase(typed: &mut Vec<u8>) {
    const CONTINUES: u8 = 0b1000_0000;
    while typed.pop().is_some_and(|byte| byte & 0b1100_0000 == CONTINUES) {}
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_line_is_typed_as_in_a_terminal() {
        let typed = |keys: &[u8]| line(&mut &*keys).map(|line| line.to_string()).map_err(|e| e.to_string());
        for (keys, text) in [
            (&b"abc\rmore"[..], "abc"),
            (b"abc\n", "abc"),
            (b"abc", "abc"),
            (b"ab\x04c", "ab"),
            (b"abx\x7fc\x08c\n", "abc"),
            (b"wrong\x15right\n", "right"),
            ("a\u{fc}\u{20ac}\u{7f}\u{7f}b\n".as_bytes(), "ab"),
            (b"\x7f\x7fa b\n", "a b"),
            (b"\n", ""),
        ] {
            assert_eq!(typed(keys).as_deref(), Ok(text));
        }
        assert!(typed(b"abc\x03").unwrap_err().starts_with("interrupted"));
        assert!(typed(&[b'a'; 1025]).unwrap_err().contains("at most 1024 bytes"));
        assert!(typed(b"\xff\n").unwrap_err().contains("UTF-8"));
    }

    #[test]
    fn a_file_has_its_passphrase_in_the_first_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("passphrase");
        let said = || of_file(&path).err().unwrap().to_string();
        assert!(said().contains("there is no file "));
        private_file::write(&path, "\nx").unwrap();
        assert!(said().contains("is empty: it has no passphrase"));
        private_file::write(&path, "a b \nx\n").unwrap();
        let expected = Passphrase::of(Zeroizing::new("a b ".to_owned())).unwrap();
        assert!(of_file(&path).unwrap().is(&expected));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(said().contains("others can read"));
    }
}
