//! What a person opened and closed in the trees of clusters, and the file that keeps it. Must not know what a tree looks
//! like.

use std::collections::BTreeMap;
use std::path::Path;

use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

use crate::fleet::{Group, ItemKey, Part, Uid};
use capstan_base::private_file;
use capstan_base::toml_file::FileError;

/// Clusters in the file at most, those that were folded last; and objects of each.
const CLUSTERS_MAX: usize = 200;
const OBJECTS_MAX: usize = 1_000;

/// Of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folds {
    /// Nodes that are open although they begin closed, and the other way round.
    opened: FxHashSet<ItemKey>,
    closed: FxHashSet<ItemKey>,
    /// When something was opened or closed last, seconds since the epoch.
    at_s: i64,
}

impl Folds {
    pub fn open(&mut self, key: ItemKey) {
        self.closed.remove(&key);
        self.opened.insert(key);
    }

    pub fn close(&mut self, key: ItemKey) {
        self.opened.remove(&key);
        self.closed.insert(key);
    }

    /// All of these are open, or closed, and nothing else was touched.
    pub fn all(keys: FxHashSet<ItemKey>, open: bool) -> Self {
        let none = FxHashSet::default();
        let (opened, closed) = if open { (keys, none) } else { (none, keys) };
        Self { opened, closed, at_s: 0 }
    }

    /// Whether a person opened or closed it; `None`: neither.
    pub fn is_open(&self, key: ItemKey) -> Option<bool> {
        if self.opened.contains(&key) { Some(true) } else { self.closed.contains(&key).then_some(false) }
    }

    pub fn touched(self, at_s: i64) -> Self {
        Self { at_s, ..self }
    }
}

/// Of every cluster, by its uid.
pub type AllFolds = FxHashMap<Uid, Folds>;

#[derive(Default, Serialize, Deserialize)]
struct Kept {
    clusters: BTreeMap<String, KeptFolds>,
}

#[derive(Default, Serialize, Deserialize)]
struct KeptFolds {
    at: i64,
    #[serde(default)]
    opened: Vec<String>,
    #[serde(default)]
    closed: Vec<String>,
}

/// What the file has; nothing without a file.
///
/// # Errors
/// A sentence: the file cannot be read, or file, line and what is wrong there.
pub fn load(path: &Path) -> Result<AllFolds, String> {
    let Some(text) = private_file::read(path).map_err(|error| error.to_string())? else {
        return Ok(AllFolds::default());
    };
    let kept: Kept = serde_json::from_str(&text).map_err(|error| {
        let (file, line, message) = (path.display().to_string(), error.line().max(1), error.to_string());
        FileError { file, line, message, is_missing: false }.to_string()
    })?;
    let keys = |texts: Vec<String>| texts.iter().take(OBJECTS_MAX).filter_map(|text| key_of(text)).collect();
    let of = |(uid, folds): (String, KeptFolds)| {
        let (opened, closed) = (keys(folds.opened), keys(folds.closed));
        (Uid::parse(&uid), Folds { opened, closed, at_s: folds.at })
    };
    Ok(kept.clusters.into_iter().take(CLUSTERS_MAX).map(of).collect())
}

/// Writes the file, for its owner alone. What others wrote meanwhile of other clusters stays.
///
/// # Errors
/// A sentence: it cannot be written, or what stands there cannot be read and stays as it is.
pub fn save(path: &Path, own: &AllFolds) -> Result<(), String> {
    // Read once more: another dashboard may have written since this one began.
    let mut all = load(path)?;
    all.extend(own.iter().map(|(uid, folds)| (*uid, folds.clone())));
    let mut latest: Vec<(&Uid, &Folds)> = all.iter().collect();
    latest.sort_by_key(|(uid, folds)| (std::cmp::Reverse(folds.at_s), **uid));
    let texts = |keys: &FxHashSet<ItemKey>| {
        let mut texts: Vec<String> = keys.iter().filter_map(|key| text_of(*key)).collect();
        texts.sort_unstable();
        texts.truncate(OBJECTS_MAX);
        texts
    };
    let of = |(uid, folds): (&Uid, &Folds)| {
        let (opened, closed) = (texts(&folds.opened), texts(&folds.closed));
        (uid.to_string(), KeptFolds { at: folds.at_s, opened, closed })
    };
    let kept = Kept { clusters: latest.into_iter().take(CLUSTERS_MAX).map(of).collect() };
    let text = serde_json::to_string(&kept).map_err(|error| error.to_string())?;
    let written = private_file::make_folder_of(path).and_then(|()| private_file::write(path, &text));
    written.map_err(|error| error.to_string())
}

const HEADINGS: [(Group, &str); 3] =
    [(Group::ControlPlane, "control-plane"), (Group::Workers, "workers"), (Group::Other, "other")];

/// Machines that are alike are not the same tomorrow: they are not kept.
fn text_of(key: ItemKey) -> Option<String> {
    match key.part {
        Part::Itself => Some(key.uid.to_string()),
        Part::Group(group) => {
            let (_, word) = HEADINGS.iter().find(|(heading, _)| *heading == group)?;
            Some(format!("{}/{word}", key.uid))
        }
        Part::Reference(_) => None,
    }
}

fn key_of(text: &str) -> Option<ItemKey> {
    let Some((uid, word)) = text.split_once('/') else {
        return Some(ItemKey { uid: Uid::parse(text), part: Part::Itself });
    };
    let (group, _) = HEADINGS.iter().find(|(_, heading)| *heading == word)?;
    Some(ItemKey { uid: Uid::parse(uid), part: Part::Group(*group) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(uid: u32, part: Part) -> ItemKey {
        ItemKey { uid: Uid::parse(&format!("00000000-0000-4000-8000-{uid:012}")), part }
    }

    #[test]
    fn what_was_folded_is_read_again() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("deep/folds.json");
        assert_eq!(load(&path), Ok(AllFolds::default()));
        let mut folds = Folds::default().touched(7);
        folds.open(key(1, Part::Itself));
        folds.close(key(2, Part::Group(Group::Workers)));
        let all = AllFolds::from_iter([(key(9, Part::Itself).uid, folds)]);
        save(&path, &all).expect("it can be written");
        assert_eq!(load(&path), Ok(all));
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn the_file_is_bounded_and_keeps_what_was_folded_last() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("folds.json");
        let of = |at: u32| (key(at, Part::Itself).uid, Folds::default().touched(i64::from(at)));
        save(&path, &(1..=500).map(of).collect()).expect("it can be written");
        let kept = load(&path).expect("it is read");
        assert_eq!(kept.len(), CLUSTERS_MAX);
        assert!(
            kept.contains_key(&key(500, Part::Itself).uid) && !kept.contains_key(&key(1, Part::Itself).uid)
        );
    }

    #[test]
    fn a_broken_file_is_named_and_left_as_it_is() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("folds.json");
        let broken = "{\n\"clusters\": 3}";
        private_file::write(&path, broken).expect("it can be written");
        let why = load(&path).expect_err("it is broken");
        assert!(why.contains("folds.json:2: invalid type"), "{why}");
        let own = AllFolds::from_iter([(key(1, Part::Itself).uid, Folds::default().touched(1))]);
        assert_eq!(save(&path, &own), Err(why));
        assert_eq!(private_file::read(&path).expect("a file").as_deref(), Some(broken));
    }
}
