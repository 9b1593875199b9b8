//! What is done to the store of a standalone server while none runs: checking, repairing, beginning anew. Owns the words
//! of the answers; must not know what is kept in it.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};

use super::args::StandaloneArgs;
use super::encryption::sealing;
use super::secrets::{counted_secrets, is_whole};
use super::store::StoreLocation;
use capstan_base::text::counted;
use capstan_base::time::Clock;
use capstan_commands::exit_code::WrongUsage;
use capstan_store::{Checked, DiskStore, NewStore, Repaired, Sealing};

/// `capstan standalone --new-store`: puts an empty store in the place of one that is gone.
///
/// # Errors
/// There is a store; the directory is held or not ours.
pub fn make_new(place: &StoreLocation, clock: &Clock) -> anyhow::Result<()> {
    let StoreLocation::Disk(dir) = place else {
        bail!(WrongUsage("--new-store is for a store on disk that is gone".to_owned()))
    };
    NewStore::empty(dir, clock.now()).context("--new-store")
}

/// `capstan standalone --check` and `--repair`; the answer is what to print.
///
/// # Errors
/// The file is in use, or damaged and not (or not to be) repaired.
pub fn run(args: &StandaloneArgs, clock: &Clock) -> anyhow::Result<String> {
    let StoreLocation::Disk(dir) = StoreLocation::of(&args.store)? else {
        bail!(WrongUsage(
            "only a store on disk is checked and repaired here; etcd has etcdctl for it".to_owned()
        ));
    };
    let sealing = sealing(&args.encryption)?;
    if args.check {
        return in_order(&DiskStore::check(&dir, &sealing)?, &sealing);
    }
    repair(&dir, clock, &sealing)
}

fn repair(dir: &Path, clock: &Clock, sealing: &Sealing) -> anyhow::Result<String> {
    Ok(match DiskStore::repair(dir, clock.now(), is_whole, sealing)? {
        Ok(found) => in_order(&found, sealing)? + "There was nothing to repair.\n",
        Err(repaired) => say_repaired(&repaired),
    })
}

/// Where the keys are there, a Secret counts as in order only if it opens.
fn check_opened(found: &Checked, sealing: &Sealing) -> anyhow::Result<()> {
    let path = found.path.display();
    if sealing.ring().is_none() {
        return Ok(());
    }
    sealing.check(&format!("the data file {path}"), found.sealed_with.as_slice())?;
    if let Some((key, why)) = found.census.closed.first() {
        let count = counted_secrets(found.census.closed.len());
        bail!(
            "{path}: {count} not readable, such as {key}: {why}. Restore a backup, or delete each by its name"
        );
    }
    ensure!(
        found.sealed_with.is_some() || found.census.clear == 0,
        "{path} is not encrypted: {} in clear. Start capstan standalone with the key file once",
        counted_secrets(found.census.clear)
    );
    Ok(())
}

fn in_order(found: &Checked, sealing: &Sealing) -> anyhow::Result<String> {
    check_opened(found, sealing)?;
    let mut said = format!(
        "{}: in order; {} at revision {}, changes since {}, {} bytes\n",
        found.path.display(),
        counted(found.objects, "object"),
        found.revision,
        found.compacted,
        found.bytes
    );
    if let Some(id) = found.sealed_with {
        let sealed = found.census.opened() + found.census.closed.len();
        let opened =
            if sealing.ring().is_some() { "each of them opens" } else { "without the key none was opened" };
        let _ =
            writeln!(said, "It is encrypted with key {id}: {} sealed, {opened}.", counted_secrets(sealed));
        if found.census.clear > 0 {
            let clear = counted_secrets(found.census.clear);
            let _ =
                writeln!(said, "{clear} in clear in it: start capstan standalone with the key file once.");
        }
    }
    Ok(said)
}

/// Counts first, then the keys of the objects that need attention.
fn say_repaired(repaired: &Repaired) -> String {
    let (uncertain, lost) = (repaired.uncertain.len(), repaired.lost.len());
    let gone = match repaired.unknown {
        Some(unknown) => format!("{} are lost", lost as u64 + unknown),
        None => format!("{lost} are known to be lost"),
    };
    let mut said = format!(
        "The data file was damaged: {}.\nIt is kept as {}.\n{} objects were saved ({uncertain} of them uncertain), \
         {gone}; resource versions go on from {}. The history is gone, so clients read everything anew.\n",
        repaired.damage,
        repaired.original.display(),
        repaired.kept,
        repaired.revision
    );
    if repaired.is_newest_commit_lost {
        said.push_str(
            "The last commit cannot be read; objects that it changed or deleted may be as they were before it.\n",
        );
    }
    match repaired.unknown {
        Some(0) => {}
        Some(unknown) => {
            let _ = writeln!(said, "Of {unknown} lost objects not even the key is known.");
        }
        None => said.push_str(
            "How many objects there were cannot be read, so more may be lost than are named here: compare with a backup.\n",
        ),
    }
    if uncertain > 0 {
        said.push_str(
            "Uncertain objects may be older than they were, or may have been deleted: look at them.\n",
        );
    }
    for (what, keys) in [
        ("uncertain", &repaired.uncertain),
        ("lost", &repaired.lost),
        ("lost or deleted", &repaired.lost_or_deleted),
    ] {
        for key in keys {
            let _ = writeln!(said, "{what}: {key}");
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use capstan_store::{Census, Keyring};

    use super::*;
    use crate::cli::secrets::SECRETS;

    fn sealing_of_new_key() -> Sealing {
        Sealing::new(SECRETS, Some(Keyring::generate().unwrap()))
    }

    #[test]
    fn a_repair_of_a_whole_file_refuses_another_key_as_a_check_does() {
        let folder = tempfile::tempdir().unwrap();
        // The store makes it, with the mode that it asks for.
        let dir = folder.path().join("data");
        let (clock, right) = (Clock::system(), sealing_of_new_key());
        drop(DiskStore::open_sealed(&dir, clock.now(), &right).unwrap());
        let said = repair(&dir, &clock, &right).unwrap();
        assert!(said.contains("each of them opens") && said.ends_with("nothing to repair.\n"), "{said}");
        let said = repair(&dir, &clock, &Sealing::none()).unwrap();
        assert!(said.contains("without the key none was opened"), "{said}");
        let refused = repair(&dir, &clock, &sealing_of_new_key()).unwrap_err().to_string();
        assert!(
            refused.contains("is encrypted with key ") && refused.contains("the key file holds"),
            "{refused}"
        );
    }

    #[test]
    fn values_in_clear_in_an_encrypted_file_are_named() {
        let sealing = sealing_of_new_key();
        let found = |clear| Checked {
            path: "store.redb".into(),
            objects: 3,
            bytes: 1,
            revision: 1,
            compacted: 1,
            sealed_with: sealing.newest(),
            census: Census { newest: 2, clear, ..Census::default() },
        };
        assert!(!in_order(&found(0), &sealing).unwrap().contains("in clear"));
        for sealing in [&sealing, &Sealing::none()] {
            let said = in_order(&found(1), sealing).unwrap();
            assert!(
                said.contains("2 Secrets are sealed") && said.contains("1 Secret is in clear in it"),
                "{said}"
            );
        }
    }
}
