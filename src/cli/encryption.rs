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
use super::store_args::StoreArgs;
use capstan_base::text::counted;
use capstan_base::time::Clock;
use capstan_commands::exit_code::WrongUsage;
use capstan_store::{
    DiskStore, KeyFile, KeyId, Keyring, Passphrase, Sealing, create_key_file, named, replace_key_file,
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
pub async fn run(command: &EncryptionKeyCommand, clock: &Clock) -> anyhow::Result<String> {
    match command {
        EncryptionKeyCommand::New(args) => new(args),
        EncryptionKeyCommand::Rotate(args) => rotate(args),
        EncryptionKeyCommand::Prune(args) => prune(args, clock).await,
        EncryptionKeyCommand::Passphrase(args) => change_passphrase(args),
    }
}

fn new(args: &NewKeyArgs) -> anyhow::Result<String> {
    // Before anybody is asked for a passphrase.
    ensure!(
        args.file.symlink_metadata().is_err(),
        "{} is there already; choose another name, or move it away",
        args.file.display()
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

async fn prune(args: &PruneArgs, clock: &Clock) -> anyhow::Result<String> {
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
    let sealing = Sealing::new(SECRETS, Some(ring));
    check_unneeded(&args.store, &sealing, clock).await?;
    let mut ring = of_file_again(&args.keys, passphrase.as_ref())?;
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
fn of_file_again(args: &KeyFileArgs, passphrase: Option<&Passphrase>) -> anyhow::Result<Keyring> {
    Ok(KeyFile::read(&args.file)?.open(passphrase)?)
}

/// Refuses while a store needs more than the first key.
async fn check_unneeded(args: &StoreArgs, sealing: &Sealing, clock: &Clock) -> anyhow::Result<()> {
    let place = StoreLocation::of(args)?;
    let (census, sealed_with) = match &place {
        StoreLocation::Memory => bail!(WrongUsage("a store in memory is not encrypted".to_owned())),
        StoreLocation::Disk(dir) => {
            let checked = DiskStore::check(dir, sealing)?;
            (checked.census, checked.sealed_with)
        }
        #[cfg(feature = "etcd")]
        StoreLocation::Etcd(_) => {
            let store = place.connected(clock).await?;
            (capstan_store::survey(&*store, sealing).await?, None)
        }
    };
    let is_older = |id: KeyId| Some(id) != sealing.newest();
    ensure!(
        census.older == 0 && !sealed_with.is_some_and(is_older),
        "{place} still needs an older key: {} encrypted with one. Nothing was changed; start it once with this key file, \
         which encrypts them with {}, and try again",
        counted_secrets(census.older),
        sealing.newest().map(|id| id.to_string()).unwrap_or_default()
    );
    Ok(())
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
