//! The keys of an encrypted store as commands use them, and `capstan encryption-key`. Owns which values are secret, and the words
//! about keys; how values are sealed knows `capstan_store`.

use std::path::Path;

use anyhow::{Context as _, bail, ensure};

use super::encryption_args::{
    EncryptionArgs, EncryptionKeyCommand, KeyFileArgs, NewKeyArgs, PassphraseArgs, PruneArgs,
};
use super::passphrase;
use super::secrets::{SECRETS, counted_secrets};
use super::store::StoreLocation;
#[cfg(feature = "etcd")]
use super::store::connected;
use capstan_base::text::counted;
use capstan_commands::exit_code::WrongUsage;
use capstan_store::{
    Census, DiskStore, KeyFile, KeyFileError, KeyId, Keyring, Passphrase, Sealing, create_key_file, named,
    replace_key_file,
};

/// What seals and opens the Secrets of a store, by the options of a command.
///
/// # Errors
/// The key file cannot be read or opened; others can read it.
pub fn sealing(args: &EncryptionArgs) -> anyhow::Result<Sealing> {
    let ring = match &args.encryption_key {
        Some(path) => Some(opened(path, args.passphrase_file.as_deref())?.0),
        None => None,
    };
    Ok(Sealing::new(SECRETS, ring))
}

/// The keys of a file, and the passphrase that opened it.
fn opened(path: &Path, passphrase_file: Option<&Path>) -> anyhow::Result<(Keyring, Option<Passphrase>)> {
    let file = KeyFile::read(path)?;
    let passphrase = match (file.is_protected(), passphrase_file) {
        (false, _) => None,
        (true, Some(path)) => Some(passphrase::of_file(path)?),
        (true, None) => Some(passphrase::ask(&format!("Passphrase of {}: ", path.display()))?),
    };
    Ok((file.open(passphrase.as_ref())?, passphrase))
}

fn of_args(args: &KeyFileArgs) -> anyhow::Result<(Keyring, Option<Passphrase>)> {
    opened(&args.file, args.passphrase_file.as_deref())
}

/// A key file beside the store goes wherever a copy of the store goes.
pub fn log_if_together(args: &EncryptionArgs, place: &StoreLocation) {
    let (Some(file), StoreLocation::Disk(dir)) = (&args.encryption_key, place) else { return };
    let folder = file.canonicalize().ok().and_then(|file| Some(file.parent()?.to_owned()));
    if folder.is_some() && folder == dir.canonicalize().ok() {
        tracing::warn!(
            "the key file {} lies in the data directory: whoever copies that has both; keep it elsewhere",
            file.display()
        );
    }
}

/// `capstan encryption-key`; the answer is what to print.
///
/// # Errors
/// A file that cannot be used, a passphrase that does not open it, keys that are still needed.
pub async fn run(command: &EncryptionKeyCommand) -> anyhow::Result<String> {
    match command {
        EncryptionKeyCommand::New(args) => new(args),
        EncryptionKeyCommand::Rotate(args) => rotate(args),
        EncryptionKeyCommand::Prune(args) => prune(args).await,
        EncryptionKeyCommand::Passphrase(args) => change_passphrase(args),
    }
}

fn new(args: &NewKeyArgs) -> anyhow::Result<String> {
    // Before anybody is asked for a passphrase.
    ensure!(
        args.file.symlink_metadata().is_err(),
        KeyFileError::Occupied { path: args.file.display().to_string() }
    );
    let passphrase = match &args.passphrase_file {
        Some(path) => Some(passphrase::of_file(path)?),
        None if args.with_passphrase => Some(passphrase::ask_new()?),
        None => None,
    };
    let ring = Keyring::generate()?;
    create_key_file(&args.file, &ring, passphrase.as_ref())?;
    let file = args.file.display();
    Ok(format!(
        "{file}: made with key {}.\nKeep a copy of it apart from the store: what it encrypts cannot be read without it.\n\
         Encrypt a store with: capstan standalone --encryption-key {file}\n",
        ring.newest()
    ))
}

fn rotate(args: &KeyFileArgs) -> anyhow::Result<String> {
    let (mut ring, passphrase) = of_args(args)?;
    let older = ring.ids();
    ring.rotate()?;
    replace_key_file(&args.file, &ring, passphrase.as_ref())?;
    let file = args.file.display();
    Ok(format!(
        "{file}: key {} encrypts from the next start on; what is encrypted with {} opens as before.\nStart the server once \
         with this file, keep a new copy of it, and drop older keys then with: capstan encryption-key prune {file} --data-dir \
         DIR\n",
        ring.newest(),
        named(&older)
    ))
}

async fn prune(args: &PruneArgs) -> anyhow::Result<String> {
    if args.store.data_dir.is_none() && args.store.store.is_none() {
        bail!(WrongUsage(
            "name the store of these keys with --data-dir or --store: keys that it still needs are not dropped".to_owned()
        ));
    }
    let (ring, passphrase) = of_args(&args.keys)?;
    let file = args.keys.file.display();
    if ring.ids().len() == 1 {
        return Ok(format!("{file}: key {} is the only one; there is nothing to drop.\n", ring.newest()));
    }
    let surveyed = ring.ids();
    check_unneeded(&StoreLocation::of(&args.store)?, &Sealing::new(SECRETS, Some(ring))).await?;
    let mut ring = of_file_again(&args.keys.file, passphrase.as_ref(), &surveyed)?;
    let dropped = ring.prune();
    replace_key_file(&args.keys.file, &ring, passphrase.as_ref())?;
    Ok(format!(
        "{file}: dropped {} ({}); {} is left.\nBackups that were made with a dropped key can only be restored with a copy of \
         the file that has it.\n",
        counted(dropped.len(), "key"),
        named(&dropped),
        ring.newest()
    ))
}

/// The keys once more: those that were looked for in the store are shared with what did so.
///
/// # Errors
/// The file has other keys by now, and the store may need one of them.
fn of_file_again(
    file: &Path,
    passphrase: Option<&Passphrase>,
    surveyed: &[KeyId],
) -> anyhow::Result<Keyring> {
    let ring = KeyFile::read(file)?.open(passphrase)?;
    ensure!(
        ring.ids() == surveyed,
        "{} got other keys while the store was looked through. Nothing was changed; try again",
        file.display()
    );
    Ok(ring)
}

/// What a store says of the keys of a file.
struct Surveyed {
    census: Census,
    needs_older: bool,
    /// The newest key is in use there, so this is the store that the file encrypts.
    uses_newest: bool,
}

/// Refuses while a store needs more than the first key, and a store that does not use that.
async fn check_unneeded(place: &StoreLocation, sealing: &Sealing) -> anyhow::Result<()> {
    let newest = sealing.newest().map(|id| id.to_string()).unwrap_or_default();
    let Surveyed { census, needs_older, uses_newest } = surveyed(place, sealing).await?;
    ensure!(
        !needs_older,
        "{place} still needs an older key: {} encrypted with one. Nothing was changed; start it once with this key file, \
         which encrypts them with {newest}, and try again",
        counted_secrets(census.older)
    );
    ensure!(
        uses_newest,
        "{place} has nothing that is encrypted with key {newest}, so it does not show which keys are needed. Nothing was \
         changed; name the store that this key file encrypts"
    );
    Ok(())
}

async fn surveyed(place: &StoreLocation, sealing: &Sealing) -> anyhow::Result<Surveyed> {
    Ok(match place {
        StoreLocation::Memory => bail!(WrongUsage("a store in memory is not encrypted".to_owned())),
        StoreLocation::Disk(dir) => {
            let checked = DiskStore::check(dir, sealing)?;
            sealing.check(&place.to_string(), checked.sealed_with.as_slice())?;
            let uses_newest = checked.sealed_with.is_some() && checked.sealed_with == sealing.newest();
            let is_older = checked.sealed_with.is_some() && !uses_newest;
            let needs_older = checked.census.older > 0 || is_older;
            Surveyed { needs_older, uses_newest, census: checked.census }
        }
        #[cfg(feature = "etcd")]
        StoreLocation::Etcd(options) => {
            let census = capstan_store::survey(&*connected(options).await?, sealing).await?;
            Surveyed { needs_older: census.older > 0, uses_newest: census.newest > 0, census }
        }
    })
}

fn change_passphrase(args: &PassphraseArgs) -> anyhow::Result<String> {
    let (ring, before) = of_args(&args.keys)?;
    let file = args.keys.file.display();
    let after = match &args.new_passphrase_file {
        _ if args.remove => None,
        Some(path) => Some(passphrase::of_file(path)?),
        None => Some(passphrase::ask_new()?),
    };
    replace_key_file(&args.keys.file, &ring, after.as_ref()).context("the passphrase is as it was")?;
    Ok(match (before, after) {
        (_, None) => {
            format!("{file}: it is not protected by a passphrase any more: whoever reads it has the keys.\n")
        }
        (None, Some(_)) => format!("{file}: it is protected by a passphrase from now on.\n"),
        (Some(_), Some(_)) => format!("{file}: it has another passphrase from now on.\n"),
    } + "Copies of the file are as they were.\n")
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use bytes::Bytes;
    use capstan_base::time::Timestamp;
    use capstan_store::{Sealed, Store as _, Txn};

    use super::*;

    /// A new key file, with one more key for each turn.
    fn key_file(folder: &Path, name: &str, turns: usize) -> PathBuf {
        let file = folder.join(name);
        let mut ring = Keyring::generate().unwrap();
        (0..turns).for_each(|_| ring.rotate().unwrap());
        create_key_file(&file, &ring, None).unwrap();
        file
    }

    fn sealing_of(file: &Path) -> Sealing {
        Sealing::new(SECRETS, Some(opened(file, None).unwrap().0))
    }

    /// Opens a store, with one Secret if it has none, and closes it.
    async fn start(dir: &Path, sealing: &Sealing) {
        let (store, _) = DiskStore::open_sealed(dir, Timestamp::default(), sealing).unwrap();
        let store = Sealed::new(std::sync::Arc::new(store), sealing.clone());
        let value = Bytes::from_static(br#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}}"#);
        store.txn(Txn::create("/registry/secrets/default/a".into(), value)).await.unwrap();
    }

    #[tokio::test]
    async fn only_a_store_that_uses_the_newest_key_lets_others_be_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| StoreLocation::Disk(folder.path().join(name));
        let dir = |name: &str| folder.path().join(name);
        let keys = key_file(folder.path(), "keys", 0);
        start(&dir("own"), &sealing_of(&keys)).await;
        start(&dir("clear"), &Sealing::none()).await;
        start(&dir("foreign"), &sealing_of(&key_file(folder.path(), "others", 0))).await;
        check_unneeded(&place("own"), &sealing_of(&keys)).await.unwrap();
        let mut ring = opened(&keys, None).unwrap().0;
        ring.rotate().unwrap();
        replace_key_file(&keys, &ring, None).unwrap();
        for (name, words) in [
            ("own", "still needs an older key: 1 Secret is encrypted with one"),
            ("clear", "has nothing that is encrypted with key "),
            ("foreign", "is encrypted with key "),
        ] {
            let refused = check_unneeded(&place(name), &sealing_of(&keys)).await.unwrap_err().to_string();
            assert!(refused.contains(words) && refused.contains("Nothing was changed"), "{name}: {refused}");
        }
        start(&dir("own"), &sealing_of(&keys)).await;
        check_unneeded(&place("own"), &sealing_of(&keys)).await.unwrap();
    }

    #[test]
    fn keys_that_came_while_the_store_was_looked_through_are_not_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let keys = key_file(folder.path(), "keys", 1);
        let mut ring = opened(&keys, None).unwrap().0;
        let surveyed = ring.ids();
        assert_eq!(of_file_again(&keys, None, &surveyed).unwrap().ids(), surveyed);
        ring.rotate().unwrap();
        replace_key_file(&keys, &ring, None).unwrap();
        let refused = of_file_again(&keys, None, &surveyed).unwrap_err().to_string();
        assert!(refused.contains("got other keys") && refused.contains("try again"), "{refused}");
    }
}
