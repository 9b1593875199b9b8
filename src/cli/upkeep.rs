//! What is done to the store of a standalone server while none runs: checking, repairing, beginning anew. Owns the words
//! of the answers; must not know what is kept in it.

use std::fmt::Write as _;

use anyhow::{Context as _, bail};

use super::args::StandaloneArgs;
use super::store::StoreLocation;
use capstan_apiserver::is_whole;
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
    let in_order = |found: &Checked| {
        format!(
            "{}: in order; {} at revision {}, changes since {}, {} bytes\n",
            found.path.display(),
            counted(found.objects, "object"),
            found.revision,
            found.compacted,
            found.bytes
        )
    };
    if args.check {
        return Ok(in_order(&DiskStore::check(&dir, &Sealing::none())?));
    }
    Ok(match DiskStore::repair(&dir, clock.now(), is_whole, &Sealing::none())? {
        Ok(found) => in_order(&found) + "There was nothing to repair.\n",
        Err(repaired) => say_repaired(&repaired),
    })
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
