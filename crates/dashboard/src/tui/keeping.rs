//! The files of the state folder: what people marked and folded, how long Machines took, and what happened. Owns where they
//! are, and when they are written: marks at once, folds at the end, the others now and then and at the end. Must not know
//! what is in them.
//!
//! A file with an error is reported and left as it is; nothing is kept in its place until it is repaired or removed. Only
//! the history is read up to the error, and goes on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::folds::{self, AllFolds};
use super::history;
use crate::fleet::{Fleet, kept};
use capstan_base::private_file;
use capstan_base::toml_file::{FileError, Source};

/// Usual times are written so often, seconds; what happened is added to its file so often.
const WRITTEN_EVERY_S: u32 = 600;
const ADDED_EVERY_S: u32 = 30;

/// Which files may be written, and what waits for that.
#[derive(Clone, Default)]
pub struct Keeping {
    folder: Option<PathBuf>,
    marks: Option<PathBuf>,
    usual_times: Option<PathBuf>,
    history: Option<PathBuf>,
    folds_file: Option<PathBuf>,
    /// What was opened and closed in the trees of clusters.
    pub folds: AllFolds,
    /// The same when the program began.
    folds_read: AllFolds,
    /// When something was written last that is written now and then, seconds since the epoch.
    written_s: u32,
    /// When something was added to the history last.
    added_s: u32,
    waiting: Waiting,
}

/// Texts that are not on disk yet, by file: the last one counts.
#[derive(Clone, Debug, Default)]
pub struct Waiting(Arc<Files>);

#[derive(Debug, Default)]
struct Files {
    texts: Mutex<BTreeMap<PathBuf, String>>,
    /// Of the history, to be added to its end; and when that was collected, seconds since the epoch.
    lines: Mutex<BTreeMap<PathBuf, (String, u32)>>,
    /// One writer at a time.
    writing: Mutex<()>,
}

impl Keeping {
    /// Reads what an earlier run left in `folder`, with a sentence for each file that cannot be used. `history`: the name of
    /// the server's, where it is kept.
    pub fn open(
        folder: Option<&Path>,
        history: Option<&str>,
        fleet: &mut Fleet,
        now_s: u32,
    ) -> (Self, Vec<String>) {
        let Some(folder) = folder else { return (Self::default(), Vec::new()) };
        let mut troubles = Vec::new();
        let mut usable = |name: &str, read: &mut dyn FnMut(&Path) -> Result<(), String>| {
            let path = folder.join(name);
            let trouble = read(&path).err();
            let is_usable = trouble.is_none();
            troubles.extend(trouble.map(|trouble| {
                format!("{trouble}; it stays as it is and nothing is kept in it: repair or remove it")
            }));
            is_usable.then_some(path)
        };
        let marks = usable("marks.toml", &mut |path| {
            read(path, |source| kept::read_marks(source).map(|marks| fleet.set_marks(marks)))
        });
        let usual_times = usable("usual-times.toml", &mut |path| {
            read(path, |source| kept::read_usual_times(source).map(|times| fleet.set_usual_times(times)))
        });
        let mut folds = AllFolds::default();
        let folds_file = usable("folds.json", &mut |path| folds::load(path).map(|known| folds = known));
        let history = history.map(|name| history::path_of(folder, name));
        let history = history.filter(|path| open_history(path, fleet, now_s, &mut troubles));
        let folder = Some(folder.to_owned());
        let folds_read = folds.clone();
        (
            Self { folder, marks, usual_times, history, folds_file, folds, folds_read, ..Self::default() },
            troubles,
        )
    }

    /// Where all of it is.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Writes which trees were folded otherwise than when the program began.
    ///
    /// # Errors
    /// A sentence: the file could not be written, and why.
    pub fn save_folds(&self) -> Result<(), String> {
        let changed = self.folds.iter().filter(|(uid, folds)| self.folds_read.get(uid) != Some(folds));
        let changed: AllFolds = changed.map(|(uid, folds)| (*uid, folds.clone())).collect();
        match &self.folds_file {
            Some(path) if !changed.is_empty() => folds::save(path, &changed),
            _ => Ok(()),
        }
    }

    /// Notes what is to be written now. Answers whether there is anything.
    pub fn collect(&mut self, fleet: &mut Fleet, is_last: bool) -> bool {
        let mut is_any = false;
        if let Some(path) = &self.marks
            && let Some(marks) = fleet.unsaved_marks()
        {
            self.waiting.put(path, kept::marks_text(&marks));
            is_any = true;
        }
        is_any |= self.collect_history(fleet, is_last);
        if !is_last && fleet.now_s() < self.written_s.saturating_add(WRITTEN_EVERY_S) {
            return is_any;
        }
        // Counted from the attempt: a disk that refuses is not asked at each change.
        self.written_s = fleet.now_s();
        if let Some(path) = &self.usual_times
            && let Some(times) = fleet.unsaved_usual_times()
        {
            self.waiting.put(path, kept::usual_times_text(&times));
            is_any = true;
        }
        is_any
    }

    fn collect_history(&mut self, fleet: &mut Fleet, is_last: bool) -> bool {
        let Some(path) = &self.history else { return false };
        if !is_last && fleet.now_s() < self.added_s.saturating_add(ADDED_EVERY_S) {
            return false;
        }
        let all = fleet.unsaved_history();
        if all.is_empty() {
            return false;
        }
        // Counted from the attempt: a disk that refuses is not asked at each change.
        self.added_s = fleet.now_s();
        self.waiting.add(path, &kept::history_text(&all), self.added_s);
        true
    }

    /// When what happened is to be added to its file, seconds since the epoch; `None`: nothing waits for that.
    pub fn due_s(&self, fleet: &Fleet) -> Option<u32> {
        let waits = self.history.is_some() && fleet.has_unsaved_history();
        waits.then(|| self.added_s.saturating_add(ADDED_EVERY_S))
    }

    pub fn waiting(&self) -> Waiting {
        self.waiting.clone()
    }
}

impl Waiting {
    fn put(&self, path: &Path, text: String) {
        self.0.texts.lock().insert(path.to_owned(), text);
    }

    fn add(&self, path: &Path, lines: &str, now_s: u32) {
        let mut all = self.0.lines.lock();
        let waiting = all.entry(path.to_owned()).or_default();
        waiting.0.push_str(lines);
        waiting.1 = now_s;
    }

    /// Writes what waits. May take as long as the disk does.
    ///
    /// # Errors
    /// A sentence: which file could not be written, and why.
    pub fn write(&self) -> Result<(), String> {
        // Held first: of two writers the later one must not be overtaken by an older text.
        let _one = self.0.writing.lock();
        // Given free before the disk is touched: the screen may put a new text meanwhile.
        let texts = std::mem::take(&mut *self.0.texts.lock());
        let lines = std::mem::take(&mut *self.0.lines.lock());
        for (path, text) in texts {
            let written =
                private_file::make_folder_of(&path).and_then(|()| private_file::write(&path, &text));
            written.map_err(|error| error.to_string())?;
        }
        lines.iter().try_for_each(|(path, (lines, now_s))| history::append(path, lines, *now_s))
    }
}

/// Takes the history in. Answers whether the file can be added to.
fn open_history(path: &Path, fleet: &mut Fleet, now_s: u32, troubles: &mut Vec<String>) -> bool {
    match history::open(path, now_s) {
        Ok((kept, trouble)) => {
            fleet.keep_history(kept);
            troubles.extend(trouble);
            true
        }
        Err(trouble) => {
            troubles.push(trouble);
            false
        }
    }
}

fn read(path: &Path, take: impl FnOnce(&Source) -> Result<(), FileError>) -> Result<(), String> {
    match private_file::read(path) {
        Ok(None) => Ok(()),
        Ok(Some(text)) => {
            take(&Source::new(path.display().to_string(), text)).map_err(|error| error.to_string())
        }
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::fleet::UsualTime;
    use crate::fleet::kept::KeptTimes;

    fn time() -> UsualTime {
        let newest_first = vec![61, 58];
        UsualTime {
            source: "prod".into(),
            infrastructure: "DevMachine".into(),
            control_plane: false,
            newest_first,
        }
    }

    #[test]
    fn files_are_private_and_read_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().join("deep");
        let (keeping, troubles) = Keeping::open(Some(&folder), None, &mut Fleet::new(), 9);
        assert!(troubles.is_empty(), "{troubles:?}");
        let path = folder.join("usual-times.toml");
        keeping
            .waiting
            .put(&path, kept::usual_times_text(&KeptTimes { usual: vec![time()], ..KeptTimes::default() }));
        keeping.waiting.write().expect("written");
        let mode = std::fs::metadata(&path).expect("the file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let (_, troubles) = Keeping::open(Some(&folder), None, &mut Fleet::new(), 9);
        assert!(troubles.is_empty(), "{troubles:?}");
    }

    #[test]
    fn a_file_with_an_error_is_named_and_left_as_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in [
            ("marks.toml", "[[mark]]\nuid = 7"),
            ("usual-times.toml", "\u{0}"),
            ("marks.toml", "mark = []\nmark = []"),
            ("folds.json", "[]"),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("a file");
            let mut fleet = Fleet::new();
            let (mut keeping, troubles) = Keeping::open(Some(folder.path()), None, &mut fleet, 9);
            let [trouble] = &troubles[..] else { panic!("{troubles:?}") };
            assert!(trouble.contains(&format!("{name}:")), "{trouble}");
            assert!(!keeping.collect(&mut fleet, true));
            keeping.folds = folded(7);
            assert_eq!(keeping.save_folds(), Ok(()));
            assert_eq!(std::fs::read_to_string(&path).expect("the file"), text);
            std::fs::remove_file(&path).expect("removed");
        }
    }

    fn folded(at_s: i64) -> AllFolds {
        let uid = crate::fleet::Uid::parse("00000000-0000-4000-8000-000000000001");
        AllFolds::from_iter([(uid, folds::Folds::default().touched(at_s))])
    }

    #[test]
    fn folds_that_changed_are_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let open = || Keeping::open(Some(folder.path()), None, &mut Fleet::new(), 9).0;
        assert_eq!(open().save_folds(), Ok(()));
        assert!(!folder.path().join("folds.json").exists(), "nothing to write");
        assert_eq!(Keeping { folds: folded(7), ..open() }.save_folds(), Ok(()));
        assert_eq!(open().folds, folded(7));
    }

    #[test]
    fn without_a_folder_nothing_is_kept() {
        let mut fleet = Fleet::new();
        let (mut keeping, troubles) = Keeping::open(None, None, &mut fleet, 9);
        assert!(troubles.is_empty() && !keeping.collect(&mut fleet, true));
    }
}
