//! The file with the history of one server: lines are added to its end, so that a run that is killed loses only the last of
//! them. Owns how much is kept, and that two dashboards at once do not damage it. Must not know what happened.
//!
//! Whoever writes holds the lock beside the file. A file that is damaged is read up to the damage and set aside.

use std::fs::{File, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustc_hash::FxHashSet;

use crate::fleet::{Kept, Uid, kept};
use capstan_base::private_file;
use capstan_base::toml_file::Source;

/// Nothing older is kept, seconds.
const AGE_MAX_S: u32 = 30 * 86_400;
/// Lines that are left when the file is written anew; and bytes from which on it is.
const LINES_MAX: usize = 20_000;
const BYTES_MAX: u64 = 8 << 20;
/// How often, and how long in between, another dashboard is waited for.
const TRIES: u32 = 50;
const WAIT: Duration = Duration::from_millis(20);

/// The name of the file for what is seen of a server through a context, in one namespace or all: the context's name as far as
/// it can stand there, and a number that tells all of it apart.
pub fn name_of(context: &str, server: &str, namespace: Option<&str>) -> String {
    let word = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '-' };
    let words: String = context.chars().map(word).take(40).collect();
    let what = format!("{context}\n{server}\n{}", namespace.unwrap_or_default());
    format!("{}-{:08x}", words.trim_start_matches('.'), fnv(what.as_bytes()))
}

/// FNV-1a: the same for every version of this program, which a hasher of the standard library is not.
fn fnv(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Where the history is, in the folder of what is kept.
pub fn path_of(folder: &Path, name: &str) -> PathBuf {
    folder.join("history").join(format!("{name}.jsonl"))
}

/// What earlier runs left, without what is too old or too much; and a sentence where the file was damaged.
///
/// # Errors
/// A sentence: the file cannot be used.
pub fn open(path: &Path, now_s: u32) -> Result<(Vec<Kept>, Option<String>), String> {
    private_file::make_folder_of(path).map_err(|error| error.to_string())?;
    let _lock = lock(path)?;
    let text = private_file::read(path).map_err(|error| error.to_string())?.unwrap_or_default();
    let (all, trouble) = kept::read_history(&Source::new(path.display().to_string(), text));
    let read = all.len();
    let kept = newest(all, now_s);
    let trouble = match trouble {
        Some(trouble) => {
            let aside = path.with_extension("damaged");
            std::fs::rename(path, &aside).map_err(|error| format!("cannot set {trouble} aside: {error}"))?;
            Some(format!(
                "{trouble}; what stands before that line is used, and the file is {} now",
                aside.display()
            ))
        }
        None => None,
    };
    if trouble.is_some() || kept.len() < read {
        private_file::write(path, &kept::history_text(&kept)).map_err(|error| error.to_string())?;
    }
    Ok((kept, trouble))
}

/// Adds lines to the end; the file is written anew without its oldest ones where it grew too large.
///
/// # Errors
/// A sentence: it could not be written, and why.
pub fn append(path: &Path, lines: &str, now_s: u32) -> Result<(), String> {
    private_file::make_folder_of(path).map_err(|error| error.to_string())?;
    let _lock = lock(path)?;
    let mut file = private_file::append(path).map_err(|error| error.to_string())?;
    let failed = |error: std::io::Error| format!("cannot write {}: {error}", path.display());
    file.write_all(lines.as_bytes()).map_err(failed)?;
    if file.metadata().map_err(failed)?.len() <= BYTES_MAX {
        return Ok(());
    }
    let text = private_file::read(path).map_err(|error| error.to_string())?.unwrap_or_default();
    // What is damaged meanwhile is dropped here: the newer lines matter more than a file to look at.
    let (all, _) = kept::read_history(&Source::new(path.display().to_string(), text));
    private_file::write(path, &kept::history_text(&newest(all, now_s))).map_err(|error| error.to_string())
}

/// What is kept of all: the newest, and of every Cluster that is there the last turn however old it is, which says how it
/// stood.
fn newest(all: Vec<Kept>, now_s: u32) -> Vec<Kept> {
    let oldest_s = now_s.saturating_sub(AGE_MAX_S);
    let mut seen: FxHashSet<Uid> = FxHashSet::default();
    let mut room = LINES_MAX;
    let mut kept: Vec<Kept> = Vec::new();
    for one in all.into_iter().rev() {
        let is_last = match &one {
            Kept::Turned(turn) => seen.insert(turn.cluster) && turn.to.is_some(),
            Kept::Happened(_) | Kept::Run(_) => false,
        };
        if is_last || (room > 0 && one.at_s() >= oldest_s) {
            room = room.saturating_sub(1);
            kept.push(one);
        }
    }
    kept.reverse();
    kept
}

/// Held as long as the file that is answered is open.
fn lock(path: &Path) -> Result<File, String> {
    let path = path.with_extension("lock");
    let file = private_file::open_kept(&path).map_err(|error| error.to_string())?;
    for _ in 0..TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            // For as long as the disk takes for some lines.
            Err(TryLockError::WouldBlock) => std::thread::sleep(WAIT),
            Err(TryLockError::Error(error)) => {
                return Err(format!("cannot lock {}: {error}", path.display()));
            }
        }
    }
    Err(format!("{} is locked by another process; the history is not kept meanwhile", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::fleet::{RunMark, RunPart, Turned, Verdict};

    fn mark(at_s: u32) -> Kept {
        Kept::Run(RunMark { at_s, is: RunPart::Looked })
    }

    fn turned(at_s: u32, name: &str, to: Option<Verdict>) -> Kept {
        let cluster = Uid::parse(name);
        Kept::Turned(Turned { at_s, cluster, namespace: "prod".into(), name: name.into(), from: None, to })
    }

    #[test]
    fn a_file_is_named_by_what_is_seen_through_it() {
        let name = name_of("kind-eu/../a b", "https://10.0.0.1:6443", None);
        assert!(name.starts_with("kind-eu-..-a-b-"), "{name}");
        let others = [
            name_of("kind-eu/../a b", "https://10.0.0.2:6443", None),
            name_of("kind-eu/../a b", "https://10.0.0.1:6443", Some("prod")),
            name_of("kind-eu/../a c", "https://10.0.0.1:6443", None),
        ];
        assert!(others.iter().all(|other| *other != name), "{others:?}");
        assert_eq!(name, name_of("kind-eu/../a b", "https://10.0.0.1:6443", None));
    }

    #[test]
    fn lines_are_added_privately_and_read_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = path_of(folder.path(), "prod-1");
        assert_eq!(open(&path, 9), Ok((Vec::new(), None)));
        assert!(!path.exists(), "nothing to keep");
        for at_s in 1..4 {
            append(&path, &kept::history_text(&[mark(at_s)]), 9).expect("added");
        }
        assert_eq!(open(&path, 9), Ok((vec![mark(1), mark(2), mark(3)], None)));
        let mode = std::fs::metadata(&path).expect("the file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_damaged_file_opens_up_to_the_damage_and_is_set_aside() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = path_of(folder.path(), "prod-1");
        for (damage, said) in
            [("{\"run\":{\"at\":4", "prod-1.jsonl:3: the line is cut"), ("\u{1b}[2J\n", "prod-1.jsonl:3: ")]
        {
            let good = kept::history_text(&[mark(1), mark(2)]);
            std::fs::create_dir_all(folder.path().join("history")).expect("a folder");
            std::fs::write(&path, format!("{good}{damage}")).expect("a file");
            let (kept, trouble) = open(&path, 9).expect("it opens");
            assert_eq!(kept, [mark(1), mark(2)]);
            let trouble = trouble.expect("it is said");
            assert!(trouble.contains(said) && trouble.contains("prod-1.damaged now"), "{trouble}");
            let aside = std::fs::read_to_string(path.with_extension("damaged")).expect("set aside");
            assert_eq!(aside, format!("{good}{damage}"));
            append(&path, &kept::history_text(&[mark(3)]), 9).expect("it goes on");
            assert_eq!(open(&path, 9), Ok((vec![mark(1), mark(2), mark(3)], None)));
        }
    }

    #[test]
    fn two_dashboards_at_once_add_whole_lines() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = path_of(folder.path(), "prod-1");
        let write = |first: u32| {
            let path = path.clone();
            move || {
                for at_s in first..first + 40 {
                    append(&path, &kept::history_text(&[mark(at_s), mark(at_s)]), 9).expect("added");
                }
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(write(1));
            scope.spawn(write(1_000));
        });
        let (kept, trouble) = open(&path, 9).expect("it opens");
        assert_eq!((kept.len(), trouble), (160, None));
    }

    #[test]
    fn what_is_old_or_too_much_goes_but_how_a_cluster_stood() {
        let day = 86_400;
        let all = vec![
            turned(day, "old", Some(Verdict::Ok)),
            turned(day, "gone", None),
            mark(2 * day),
            turned(3 * day, "new", Some(Verdict::Ok)),
            turned(35 * day, "new", Some(Verdict::Blocked)),
            mark(40 * day),
        ];
        let kept = newest(all.clone(), 40 * day);
        assert_eq!(kept, [all[0].clone(), all[4].clone(), all[5].clone()]);
        let many: Vec<Kept> = (1..=LINES_MAX as u32 + 5).map(mark).collect();
        assert_eq!(newest(many.clone(), 9), many[5..]);
    }
}
