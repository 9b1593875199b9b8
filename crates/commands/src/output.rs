//! The output of one-shot commands: where it goes, and whether a person reads it. Owns standard output; must not know what is
//! printed.

use std::io::{self, IsTerminal as _, Write};

use super::exit_code::ExitCode;
use capstan_base::text;

/// Colours of the terminal's own palette, for text that is printed once. The dashboard's are in `tui::theme`.
pub mod colour {
    pub const BOLD: &str = "\u{1b}[1m";
    pub const RED: &str = "\u{1b}[31m";
    pub const GREEN: &str = "\u{1b}[32m";
    pub const YELLOW: &str = "\u{1b}[33m";
    pub const GREY: &str = "\u{1b}[90m";
    pub const RESET: &str = "\u{1b}[0m";
}

/// Standard output as it was found: a terminal gets safe text and colours, a pipe gets the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// A person looks at it: hostile characters are replaced everywhere.
    pub terminal: bool,
    pub color: bool,
}

impl Style {
    /// `no_color`: `--color never`, or `NO_COLOR` is set.
    pub fn detect(no_color: bool) -> Self {
        let terminal = io::stdout().is_terminal();
        Self { terminal, color: terminal && !no_color }
    }

    /// A document of several lines, made safe for a terminal.
    pub fn block(self, document: String) -> String {
        if self.terminal {
            document.lines().map(|l| text::sanitize_line(l) + "\n").collect()
        } else {
            document
        }
    }
}

/// Writes to standard output. A reader that has gone away (`| head`) is not an error.
///
/// # Errors
/// The output cannot be written, on a full disk for example.
pub fn print(document: &str) -> io::Result<()> {
    print_to(io::stdout().lock(), document)
}

fn print_to(mut out: impl Write, document: &str) -> io::Result<()> {
    match out.write_all(document.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// A remark for the person at the terminal, apart from the output.
pub fn remark(line: &str) {
    // A closed standard error is not an error of the command.
    let _ = writeln!(io::stderr().lock(), "{}", text::sanitize_line(line));
}

/// An error with its causes, each of them once: many errors repeat the words of their source.
pub fn sentence(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |mut said, cause| {
        if said.is_empty() {
            said = cause;
        } else if !said.contains(&cause) {
            said.push_str(": ");
            said.push_str(&cause);
        }
        said
    })
}

/// Prints why a command failed. It ends with `code`, unless its arguments were not understood.
pub fn fail(error: &anyhow::Error, code: ExitCode) -> ExitCode {
    let message = sentence(error);
    let _ = writeln!(io::stderr().lock(), "capstan: {}", text::sanitize_block(message.trim_end()));
    ExitCode::of_error(error, code)
}

/// Rows in columns, two blanks between them, none at the ends of lines. Every row has as many cells as the first.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let cell = |row: &Vec<String>, column: usize| row.get(column).map_or(0, |cell| text::width(cell));
    let widths: Vec<usize> =
        (0..columns).map(|column| rows.iter().map(|row| cell(row, column)).max().unwrap_or(0)).collect();
    let mut out = String::new();
    for row in rows {
        let padded = row.iter().zip(&widths).map(|(cell, width)| {
            let blanks = width.saturating_sub(text::width(cell)) + 2;
            format!("{cell}{}", " ".repeat(blanks))
        });
        out.push_str(padded.collect::<String>().trim_end());
        out.push('\n');
    }
    out
}

/// JSON with four blanks of indentation, keys in order, as kubectl prints it.
///
/// # Errors
/// Never for plain values.
pub fn json(value: &impl serde::Serialize) -> serde_json::Result<String> {
    let mut bytes = Vec::new();
    let indent = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, indent))?;
    bytes.push(b'\n');
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_said_once() {
        let source = io::Error::other("no luck");
        let error = capstan_base::private_file::FileError::Io { what: "read", path: "/f".to_owned(), source };
        let error = anyhow::Error::from(error).context("--log-file");
        assert_eq!(sentence(&error), "--log-file: cannot read /f: no luck");
        let error = anyhow::Error::from(io::Error::other("no luck")).context("cannot read /f");
        assert_eq!(sentence(&error), "cannot read /f: no luck");
    }

    #[test]
    fn a_terminal_never_gets_escape_codes_from_a_cluster() {
        let hostile = "a: \u{1b}[2J\nb: 1\n".to_owned();
        let safe = Style { terminal: true, color: false }.block(hostile.clone());
        assert_eq!(safe, "a: \u{fffd}[2J\nb: 1\n");
        assert_eq!(Style::default().block(hostile.clone()), hostile);
    }

    /// `capstan … | head` ended with an error.
    #[test]
    fn a_reader_that_has_gone_away_is_not_an_error_and_a_full_disk_is_one() {
        struct Refusing(io::ErrorKind);
        impl Write for Refusing {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(self.0.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        assert!(print_to(Refusing(io::ErrorKind::BrokenPipe), "a document").is_ok());
        let full =
            print_to(Refusing(io::ErrorKind::StorageFull), "a document").expect_err("it is not written");
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    }
}
