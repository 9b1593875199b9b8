//! What is kept of a fleet between two runs, as text: the marks that people set, how long Machines took, and what happened.
//! Owns the form of these files; must not know where they are, nor when they are written.

use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::marks::Mark;
use super::row::{Kind, Uid, moment};
use super::timeline::{Flip, Happened, Kept, PastEntry, TimelineEntry};
use super::turned::{RunMark, RunPart, Turned};
use super::usual::{PoolTimes, UsualTime};
use crate::fleet::Verdict;
use capi_types::condition::Status;
use capstan_base::text::sanitize_line;
use capstan_base::time::{parse_rfc3339, rfc3339};
use capstan_base::toml_file::{FileError, Source};

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
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pool: Vec<PoolEntry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PoolEntry {
    source: String,
    namespace: String,
    cluster: String,
    name: String,
    kind: String,
    /// Seconds of each step, newest first.
    bootstrap: Vec<u32>,
    infrastructure: Vec<u32>,
    node: Vec<u32>,
}

/// How long Machines took, by kind of infrastructure and by pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptTimes {
    pub usual: Vec<UsualTime>,
    pub pools: Vec<PoolTimes>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct UsualEntry {
    source: String,
    infrastructure: String,
    control_plane: bool,
    seconds: Vec<u32>,
}

/// One line of the history: what happened to an object, which cluster turned, when a dashboard ran.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum HistoryLine {
    Happened(PastLine),
    Turned(TurnedLine),
    Run(RunLine),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TurnedLine {
    at: u32,
    cluster: String,
    namespace: String,
    name: String,
    from: Option<Verdict>,
    to: Option<Verdict>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RunLine {
    at: u32,
    is: RunWord,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum RunWord {
    Began,
    Looked,
    Ended,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PastLine {
    at: u32,
    cluster: String,
    uid: String,
    kind: String,
    name: String,
    happened: PastHappened,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
enum PastHappened {
    Made,
    Deleted,
    Gone,
    Condition { r#type: String, from: Option<String>, to: Option<String>, reason: String },
    Version { from: String, to: String },
    Replicas { from: u32, to: u32 },
    Paused(bool),
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
    // A person may have edited the file, and its text comes to the screen.
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
pub fn marks_text(marks: &[Mark]) -> String {
    let entry = |mark: &Mark| MarkEntry {
        uid: mark.uid.to_string(),
        object: mark.object.to_string(),
        cause: mark.cause.to_string(),
        verdict: mark.verdict,
        // The span is of use only for errors in what was read.
        until: Spanned::new(0..0, rfc3339(moment(mark.until_s).unwrap_or_default())),
        reason: mark.reason.as_deref().map(str::to_owned),
    };
    text("What was acknowledged and shelved", &MarksFile { mark: marks.iter().map(entry).collect() })
}

/// The usual times in a file.
///
/// # Errors
/// File, line and what was expected.
pub fn read_usual_times(source: &Source) -> Result<KeptTimes, FileError> {
    let file: UsualFile = source.read()?;
    let entry = |entry: UsualEntry| UsualTime {
        source: sanitize_line(&entry.source).into(),
        infrastructure: sanitize_line(&entry.infrastructure).into(),
        control_plane: entry.control_plane,
        newest_first: entry.seconds,
    };
    let pool = |entry: PoolEntry| {
        let line = |text: &str| sanitize_line(text).into();
        PoolTimes {
            source: line(&entry.source),
            namespace: line(&entry.namespace),
            cluster: line(&entry.cluster),
            pool: line(&entry.name),
            infrastructure: line(&entry.kind),
            newest_first: [entry.bootstrap, entry.infrastructure, entry.node],
        }
    };
    Ok(KeptTimes {
        usual: file.usual.into_iter().map(entry).collect(),
        pools: file.pool.into_iter().map(pool).collect(),
    })
}

/// The same as a file.
pub fn usual_times_text(kept: &KeptTimes) -> String {
    let entry = |time: &UsualTime| UsualEntry {
        source: time.source.to_string(),
        infrastructure: time.infrastructure.to_string(),
        control_plane: time.control_plane,
        seconds: time.newest_first.clone(),
    };
    let pool = |pool: &PoolTimes| {
        let [bootstrap, infrastructure, node] = pool.newest_first.clone();
        PoolEntry {
            source: pool.source.to_string(),
            namespace: pool.namespace.to_string(),
            cluster: pool.cluster.to_string(),
            name: pool.pool.to_string(),
            kind: pool.infrastructure.to_string(),
            bootstrap,
            infrastructure,
            node,
        }
    };
    let file = UsualFile {
        usual: kept.usual.iter().map(entry).collect(),
        pool: kept.pools.iter().map(pool).collect(),
    };
    text(
        "Seconds from the creation of a Machine until it was ready, and of its steps by pool, newest first",
        &file,
    )
}

/// The history in a file: JSON, one line each, oldest first; up to the first line that is damaged or cut, and what is wrong
/// with that.
pub fn read_history(source: &Source) -> (Vec<Kept>, Option<FileError>) {
    let mut all = Vec::new();
    for (at, text) in source.text.split_inclusive('\n').enumerate() {
        match kept_line(text) {
            Ok(Some(kept)) => all.push(kept),
            Ok(None) => {}
            Err(message) => {
                let file = source.file.clone();
                return (all, Some(FileError { file, line: at + 1, message, is_missing: false }));
            }
        }
    }
    (all, None)
}

/// What is wrong with a line of JSON, without the place: the parser counts the lines of one line.
pub(in crate::fleet) fn what_is_wrong(error: &serde_json::Error) -> String {
    error.to_string().split(" at line ").next().unwrap_or_default().to_owned()
}

/// `None`: an empty line.
fn kept_line(text: &str) -> Result<Option<Kept>, String> {
    let Some(text) = text.strip_suffix('\n') else { return Err("the line is cut".to_owned()) };
    if text.is_empty() {
        return Ok(None);
    }
    let line: HistoryLine = serde_json::from_str(text).map_err(|error| what_is_wrong(&error))?;
    Ok(Some(match line {
        HistoryLine::Happened(line) => Kept::Happened(past_entry(line)?),
        HistoryLine::Turned(line) => {
            let text = |text: &str| sanitize_line(text).into();
            let (cluster, namespace, name) =
                (Uid::parse(&line.cluster), text(&line.namespace), text(&line.name));
            Kept::Turned(Turned { at_s: line.at, cluster, namespace, name, from: line.from, to: line.to })
        }
        HistoryLine::Run(RunLine { at, is }) => {
            let is = match is {
                RunWord::Began => RunPart::Began,
                RunWord::Looked => RunPart::Looked,
                RunWord::Ended => RunPart::Ended,
            };
            Kept::Run(RunMark { at_s: at, is })
        }
    }))
}

fn past_entry(line: PastLine) -> Result<PastEntry, String> {
    let kind = Kind::ALL.into_iter().find(|kind| kind_word(*kind) == line.kind);
    let kind = kind.ok_or_else(|| format!("`kind` must be one of {:?}", Kind::ALL.map(kind_word)))?;
    let text = |text: String| sanitize_line(&text).into();
    let status = |text: Option<String>| match text {
        Some(text) => Status::parse(&text).map(Some).ok_or_else(|| format!("`{text}` is not a status")),
        None => Ok(None),
    };
    let happened = match line.happened {
        PastHappened::Made => Happened::Made,
        PastHappened::Deleted => Happened::Deleted,
        PastHappened::Gone => Happened::Gone,
        PastHappened::Condition { r#type, from, to, reason } => {
            let (from, to) = (status(from)?, status(to)?);
            Happened::Flip(Flip { type_: text(r#type), from, to, reason: text(reason) })
        }
        PastHappened::Version { from, to } => Happened::Version { from: text(from), to: text(to) },
        PastHappened::Replicas { from, to } => Happened::Replicas { from, to },
        PastHappened::Paused(is_paused) => Happened::Paused(is_paused),
    };
    let (uid, name) = (Uid::parse(&line.uid), text(line.name));
    let entry = TimelineEntry { at_s: line.at, uid, kind, name, happened };
    Ok(PastEntry { cluster: Uid::parse(&line.cluster), entry })
}

/// The same as lines.
pub fn history_text(all: &[Kept]) -> String {
    // Text and numbers can always be written.
    all.iter().map(|kept| serde_json::to_string(&history_line(kept)).unwrap_or_default() + "\n").collect()
}

fn history_line(kept: &Kept) -> HistoryLine {
    match kept {
        Kept::Happened(PastEntry { cluster, entry }) => HistoryLine::Happened(PastLine {
            at: entry.at_s,
            cluster: cluster.to_string(),
            uid: entry.uid.to_string(),
            kind: kind_word(entry.kind).to_owned(),
            name: entry.name.to_string(),
            happened: past_happened(&entry.happened),
        }),
        Kept::Turned(turn) => HistoryLine::Turned(TurnedLine {
            at: turn.at_s,
            cluster: turn.cluster.to_string(),
            namespace: turn.namespace.to_string(),
            name: turn.name.to_string(),
            from: turn.from,
            to: turn.to,
        }),
        Kept::Run(mark) => {
            let is = match mark.is {
                RunPart::Began => RunWord::Began,
                RunPart::Looked => RunWord::Looked,
                RunPart::Ended => RunWord::Ended,
            };
            HistoryLine::Run(RunLine { at: mark.at_s, is })
        }
    }
}

fn past_happened(happened: &Happened) -> PastHappened {
    let status = |status: &Option<Status>| status.map(|status| status.as_str().to_owned());
    match happened {
        Happened::Made => PastHappened::Made,
        Happened::Deleted => PastHappened::Deleted,
        Happened::Gone => PastHappened::Gone,
        Happened::Flip(Flip { type_, from, to, reason }) => PastHappened::Condition {
            r#type: type_.to_string(),
            from: status(from),
            to: status(to),
            reason: reason.to_string(),
        },
        Happened::Version { from, to } => {
            PastHappened::Version { from: from.to_string(), to: to.to_string() }
        }
        Happened::Replicas { from, to } => PastHappened::Replicas { from: *from, to: *to },
        Happened::Paused(is_paused) => PastHappened::Paused(*is_paused),
    }
}

fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Cluster => "cluster",
        Kind::ControlPlane => "controlPlane",
        Kind::MachineDeployment => "machineDeployment",
        Kind::MachineSet => "machineSet",
        Kind::MachinePool => "machinePool",
        Kind::Machine => "machine",
        Kind::Other => "other",
    }
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
        let pools = vec![PoolTimes {
            source: "prod".into(),
            namespace: "ns".into(),
            cluster: "web".into(),
            pool: "web-md".into(),
            infrastructure: "AWSMachine".into(),
            newest_first: [vec![2], vec![90, 95], vec![]],
        }];
        let kept = KeptTimes { usual: times, pools };
        assert_eq!(read_usual_times(&Source::new("FILE", usual_times_text(&kept))), Ok(kept));
        assert_eq!(read_marks(&Source::new("FILE", "")), Ok(Vec::new()));
    }

    #[test]
    fn what_happened_is_written_and_read() {
        let flip = |from, to| Happened::Flip(Flip { type_: "Ready".into(), from, to, reason: "Why".into() });
        let all = [
            Happened::Made,
            Happened::Deleted,
            Happened::Gone,
            flip(None, Some(Status::False)),
            flip(Some(Status::Unknown), None),
            Happened::Version { from: "v1".into(), to: "v2".into() },
            Happened::Replicas { from: 3, to: 5 },
            Happened::Paused(true),
        ];
        let (cluster, uid) = (mark(None).uid, Uid::parse("x"));
        let mut past: Vec<Kept> = (1..)
            .zip(all)
            .zip(Kind::ALL.into_iter().cycle())
            .map(|((at_s, happened), kind)| TimelineEntry {
                at_s,
                uid,
                kind,
                name: "a \"b\"".into(),
                happened,
            })
            .map(|entry| Kept::Happened(PastEntry { cluster, entry }))
            .collect();
        let turn = |from, to| {
            let (namespace, name) = ("prod".into(), "edge-7".into());
            Kept::Turned(Turned { at_s: 9, cluster, namespace, name, from, to })
        };
        past.extend([turn(None, Some(Verdict::Ok)), turn(Some(Verdict::Blocked), None)]);
        let run = |is| Kept::Run(RunMark { at_s: 10, is });
        past.extend([RunPart::Began, RunPart::Looked, RunPart::Ended].map(run));
        let text = history_text(&past);
        assert_eq!(text.lines().count(), past.len());
        assert_eq!(read_history(&Source::new("FILE", text.clone())), (past.clone(), None));
        for (from, to, expected) in [
            ("\"at\":3", "\"at\":\"x\"", "FILE:3: invalid type: string \"x\", expected u32"),
            ("\"machineSet\"", "\"pod\"", "FILE:4: `kind` must be one of"),
            ("\"False\"", "\"Maybe\"", "FILE:4: `Maybe` is not a status"),
            ("\"gone\"", "\"eaten\"", "FILE:3: unknown variant `eaten`, expected one of"),
        ] {
            let broken = Source::new("FILE", text.replacen(from, to, 1));
            let (read, trouble) = read_history(&broken);
            let trouble = trouble.expect(to);
            assert!(trouble.to_string().starts_with(expected), "{trouble}");
            assert_eq!(read, past[..trouble.line - 1], "up to there");
        }
        // A process that is killed leaves half a line.
        for end in [text.len() - 1, text.len() - 20] {
            let (read, trouble) = read_history(&Source::new("FILE", &text[..end]));
            assert_eq!(read, past[..past.len() - 1]);
            assert!(trouble.is_some_and(|trouble| trouble.to_string().ends_with("the line is cut")));
        }
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
