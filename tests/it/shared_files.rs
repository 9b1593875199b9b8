//! What lies in the shared folder, when it is there: upstream's definitions and the sample objects. Must not know what is
//! tested with them.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// Every YAML document below a folder of it, in the order of the files' names; says so when it is not there.
pub fn documents(folder: &str) -> Option<Vec<Value>> {
    let root = std::env::var_os("CAPSTAN_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"), PathBuf::from);
    let folder = root.join(folder);
    if !folder.is_dir() {
        println!("skipped: {} is not there", folder.display());
        return None;
    }
    let mut files = Vec::new();
    for path in std::fs::read_dir(&folder).expect("a folder").flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            files.extend(std::fs::read_dir(path).expect("a folder").flatten().map(|file| file.path()));
        } else {
            files.push(path);
        }
    }
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    let read = |file: PathBuf| -> Vec<Value> {
        serde_saphyr::from_multiple(&std::fs::read_to_string(&file).expect("text")).expect("YAML")
    };
    Some(files.into_iter().flat_map(read).collect())
}
