//! What is done to the store of a standalone server while none runs: checking, repairing, beginning anew. Owns the words
//! of the answers; must not know what is kept in it.

use std::fmt::Write as _;

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
        let found = DiskStore::check(&dir, &sealing)?;
        check_opened(&found, &sealing)?;
        return Ok(in_order(&found, &sealing));
    }
    Ok(match DiskStore::repair(&dir, clock.now(), is_whole, &sealing)? {
        Ok(found) => in_order(&found, &sealing) + "There was nothing to repair.\n",
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

fn in_order(found: &Checked, sealing: &Sealing) -> String {
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
    }
    said
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
