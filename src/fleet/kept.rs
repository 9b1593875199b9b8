//! What is kept of a fleet between two runs, as text: the marks that people set, and how long Machines took. Owns the form
//! of both files; must not know where they are, nor when they are written.

use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::marks::Mark;
use super::row::{Uid, moment};
use super::usual::UsualTime;
use crate::status::verdict::Verdict;
use crate::text::sanitize_line;
use crate::time::{parse_rfc3339, rfc3339};
use crate::toml_file::{FileError, Source};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MarksFile {
    #[serde(default)]
    mark: Vec<MarkEntry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MarkEntry {
    uid: String,
    object: String,
    cause: String,
    verdict: Verdict,
    until: Spanned<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct UsualFile {
    #[serde(default)]
    usual: Vec<UsualEntry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct UsualEntry {
    source: String,
    infrastructure: String,
    control_plane: bool,
    seconds: Vec<u32>,
}

/// The marks in a file.
///
/// # Errors
/// File, line and what was expected.
pub fn read_marks(source: &Source) -> Result<Vec<Mark>, FileError> {
    let file: MarksFile = source.read()?;
    file.mark.into_iter().map(|entry| mark_of(source, &entry)).collect()
}

fn mark_of(source: &Source, entry: &MarkEntry) -> Result<Mark, FileError> {
    let until = parse_rfc3339(entry.until.get_ref()).and_then(|at| u32::try_from(at.timestamp()).ok());
    let until_s = until.ok_or_else(|| {
        source.error(&entry.until.span(), "`until` must be a moment like 2026-11-20T10:00:00Z")
    })?;
    let line = |text: &str| sanitize_line(text).into();
    Ok(Mark {
        uid: Uid::parse(&entry.uid),
        object: line(&entry.object),
        cause: line(&entry.cause),
        verdict: entry.verdict,
        until_s,
        reason: entry.reason.as_deref().map(line),
    })
}

/// The same as a file.
#[must_use]
pub fn marks_text(marks: &[Mark]) -> String {
    let entry = |mark: &Mark| MarkEntry {
        uid: mark.uid.to_string(),
        object: mark.object.to_string(),
        cause: mark.cause.to_string(),
        verdict: mark.verdict,
        until: Spanned::new(0..0, rfc3339(moment(mark.until_s).unwrap_or_default())),
        reason: mark.reason.as_deref().map(str::to_owned),
    };
    text("What was acknowledged and shelved", &MarksFile { mark: marks.iter().map(entry).collect() })
}

/// The usual times in a file.
///
/// # Errors
/// File, line and what was expected.
pub fn read_usual_times(source: &Source) -> Result<Vec<UsualTime>, FileError> {
    let file: UsualFile = source.read()?;
    let entry = |entry: UsualEntry| UsualTime {
        source: sanitize_line(&entry.source).into(),
        infrastructure: sanitize_line(&entry.infrastructure).into(),
        control_plane: entry.control_plane,
        newest_first: entry.seconds,
    };
    Ok(file.usual.into_iter().map(entry).collect())
}

/// The same as a file.
#[must_use]
pub fn usual_times_text(times: &[UsualTime]) -> String {
    let entry = |time: &UsualTime| UsualEntry {
        source: time.source.to_string(),
        infrastructure: time.infrastructure.to_string(),
        control_plane: time.control_plane,
        seconds: time.newest_first.clone(),
    };
    let file = UsualFile { usual: times.iter().map(entry).collect() };
    text("Seconds from the creation of a Machine until it was ready, newest first", &file)
}

fn text(what: &str, file: &impl Serialize) -> String {
    // Text, numbers and lists of them can always be written.
    let body = toml::to_string(file).unwrap_or_default();
    format!("# {what}. Written by capstan; a file with an error is left as it is.\n\n{body}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(reason: Option<&str>) -> Mark {
        Mark {
            uid: Uid::parse("8c1f0d4e-6f0e-4b53-9d27-0f6f8a3b1c2d"),
            object: "Cluster default/harbor".into(),
            cause: "Machine NodeHealthy".into(),
            verdict: Verdict::Degraded,
            until_s: 1_795_000_000,
            reason: reason.map(Into::into),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let marks = vec![mark(None), mark(Some("a \"disk\" = # gone"))];
        assert_eq!(read_marks(&Source::new("FILE", marks_text(&marks))), Ok(marks));
        let times = vec![UsualTime {
            source: "prod".into(),
            infrastructure: "AWSMachine".into(),
            control_plane: true,
            newest_first: vec![300, 280],
        }];
        assert_eq!(read_usual_times(&Source::new("FILE", usual_times_text(&times))), Ok(times));
        assert_eq!(read_marks(&Source::new("FILE", "")), Ok(Vec::new()));
    }

    #[test]
    fn an_error_names_file_line_and_what_was_expected() {
        let whole = "[[mark]]\nuid = \"u\"\nobject = \"o\"\ncause = \"c\"\n";
        for (rest, expected) in [
            (
                "verdict = \"red\"\nuntil = \"2026-11-20T10:00:00Z\"",
                "FILE:5: unknown variant `red`, expected one of",
            ),
            ("verdict = \"degraded\"\nuntil = \"soon\"", "FILE:6: `until` must be a moment like"),
            ("verdict = \"degraded\"\nuntil = 3", "FILE:6: invalid type: integer `3`, expected"),
            ("verdict = \"degraded\"\nhue = 3", "FILE:6: unknown field `hue`, expected one of `uid`"),
        ] {
            let found =
                read_marks(&Source::new("FILE", format!("{whole}{rest}"))).expect_err(rest).to_string();
            assert!(found.starts_with(expected), "{found}");
        }
        for text in ["\0", "[[mark]", "usual = 3", "[[usual]]\nsource = \"s\"", "[[usual]]\nseconds = [-1]"] {
            assert!(read_usual_times(&Source::new("FILE", text)).is_err(), "{text}");
        }
    }
}
