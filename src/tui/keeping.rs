//! The files of the state folder: what people marked, and how long Machines took. Owns where they are, and when they are
//! written: marks at once, usual times now and then and at the end. Must not know what is in them.
//!
//! A file with an error is reported and left as it is; nothing is kept in its place until it is repaired or removed.

use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::fleet::{Fleet, kept};
use crate::private_file;
use crate::toml_file::{FileError, Source};

/// Usual times are written so often, seconds.
const USUAL_EVERY_S: u32 = 600;

/// Which files may be written, and what waits for that.
#[derive(Clone, Default)]
pub struct Keeping {
    marks: Option<PathBuf>,
    usual_times: Option<PathBuf>,
    /// When usual times were written last, seconds since the epoch.
    written_s: u32,
    waiting: Waiting,
}

/// Texts that are not on disk yet, by file: the last one counts.
#[derive(Clone, Debug, Default)]
pub struct Waiting(Arc<Files>);

#[derive(Debug, Default)]
struct Files {
    texts: Mutex<BTreeMap<PathBuf, String>>,
    /// One writer at a time.
    writing: Mutex<()>,
}

impl Keeping {
    /// Reads what an earlier run left in `folder`, with a sentence for each file that cannot be used.
    #[must_use]
    pub fn open(folder: Option<&Path>, fleet: &mut Fleet) -> (Self, Vec<String>) {
        let Some(folder) = folder else { return (Self::default(), Vec::new()) };
        let mut troubles = Vec::new();
        let mut usable = |name: &str, take: &mut dyn FnMut(&Source) -> Result<(), FileError>| {
            let path = folder.join(name);
            match read(&path, take) {
                Ok(()) => Some(path),
                Err(trouble) => {
                    troubles.push(format!(
                        "{trouble}; it stays as it is and nothing is kept in it: repair or remove it"
                    ));
                    None
                }
            }
        };
        let marks =
            usable("marks.toml", &mut |source| kept::read_marks(source).map(|marks| fleet.set_marks(marks)));
        let usual_times = usable("usual-times.toml", &mut |source| {
            kept::read_usual_times(source).map(|times| fleet.set_usual_times(times))
        });
        (Self { marks, usual_times, ..Self::default() }, troubles)
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
        let is_due = is_last || fleet.now_s() >= self.written_s.saturating_add(USUAL_EVERY_S);
        if let Some(path) = self.usual_times.as_ref().filter(|_| is_due)
            && let Some(times) = fleet.unsaved_usual_times()
        {
            self.written_s = fleet.now_s();
            self.waiting.put(path, kept::usual_times_text(&times));
            is_any = true;
        }
        is_any
    }

    #[must_use]
    pub fn waiting(&self) -> Waiting {
        self.waiting.clone()
    }
}

impl Waiting {
    fn put(&self, path: &Path, text: String) {
        self.0.texts.lock().insert(path.to_owned(), text);
    }

    /// Writes what waits. May take as long as the disk does.
    ///
    /// # Errors
    /// A sentence: which file could not be written, and why.
    pub fn write(&self) -> Result<(), String> {
        let _one = self.0.writing.lock();
        let texts = std::mem::take(&mut *self.0.texts.lock());
        for (path, text) in texts {
            if let Some(folder) = path.parent() {
                let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
                made.map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
            }
            private_file::write(&path, &text).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

fn read(path: &Path, take: &mut dyn FnMut(&Source) -> Result<(), FileError>) -> Result<(), String> {
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
        let (keeping, troubles) = Keeping::open(Some(&folder), &mut Fleet::new());
        assert!(troubles.is_empty(), "{troubles:?}");
        let path = folder.join("usual-times.toml");
        keeping.waiting.put(&path, kept::usual_times_text(&[time()]));
        keeping.waiting.write().expect("written");
        let mode = std::fs::metadata(&path).expect("the file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let (_, troubles) = Keeping::open(Some(&folder), &mut Fleet::new());
        assert!(troubles.is_empty(), "{troubles:?}");
    }

    #[test]
    fn a_file_with_an_error_is_named_and_left_as_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("marks.toml");
        for text in ["[[mark]]\nuid = 7", "\u{0}", "mark = []\nmark = []"] {
            std::fs::write(&path, text).expect("a file");
            let mut fleet = Fleet::new();
            let (mut keeping, troubles) = Keeping::open(Some(folder.path()), &mut fleet);
            let [trouble] = &troubles[..] else { panic!("{troubles:?}") };
            assert!(trouble.contains("marks.toml:"), "{trouble}");
            assert!(!keeping.collect(&mut fleet, true));
            assert_eq!(std::fs::read_to_string(&path).expect("the file"), text);
        }
    }

    #[test]
    fn without_a_folder_nothing_is_kept() {
        let mut fleet = Fleet::new();
        let (mut keeping, troubles) = Keeping::open(None, &mut fleet);
        assert!(troubles.is_empty() && !keeping.collect(&mut fleet, true));
    }
}
