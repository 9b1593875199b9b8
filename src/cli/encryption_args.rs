//! Arguments about encryption: the key file of a store, and the commands on key files. Owns their words.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::store_args::StoreArgs;

/// With which keys a store is encrypted.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Encryption")]
pub struct EncryptionArgs {
    /// Keep Secrets encrypted with the keys of this file, which `capstan encryption-key new FILE` makes
    #[arg(long, value_name = "FILE")]
    pub encryption_key: Option<PathBuf>,
    /// The passphrase of the key file, in the first line of a file; without it the terminal is asked
    #[arg(long, value_name = "FILE", requires = "encryption_key")]
    pub passphrase_file: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum EncryptionKeyCommand {
    /// Make a key file (0600) with one new key
    New(NewKeyArgs),
    /// Put a new key in front of the others: it encrypts from the next start on, the older ones still open
    Rotate(KeyFileArgs),
    /// Drop all keys but the first, after nothing in the store needs them any more
    Prune(PruneArgs),
    /// Set, change or remove the passphrase of a key file
    Passphrase(PassphraseArgs),
}

#[derive(Clone, Debug, Args)]
pub struct NewKeyArgs {
    /// The file to write; it must not be there yet
    pub file: PathBuf,
    /// Protect it by a passphrase, which is asked for on the terminal
    #[arg(long)]
    pub with_passphrase: bool,
    /// The same, with a passphrase from the first line of this file
    #[arg(long, value_name = "FILE")]
    pub passphrase_file: Option<PathBuf>,
}

#[derive(Clone, Debug, Args)]
pub struct KeyFileArgs {
    /// The key file
    pub file: PathBuf,
    /// Its passphrase, in the first line of a file; without it the terminal is asked
    #[arg(long, value_name = "FILE")]
    pub passphrase_file: Option<PathBuf>,
}

#[derive(Clone, Debug, Args)]
pub struct PruneArgs {
    #[command(flatten)]
    pub keys: KeyFileArgs,
    #[command(flatten)]
    pub store: StoreArgs,
}

#[derive(Clone, Debug, Args)]
pub struct PassphraseArgs {
    #[command(flatten)]
    pub keys: KeyFileArgs,
    /// The new passphrase, in the first line of a file; without it the terminal is asked
    #[arg(long, value_name = "FILE", conflicts_with = "remove")]
    pub new_passphrase_file: Option<PathBuf>,
    /// Leave the keys without a passphrase
    #[arg(long)]
    pub remove: bool,
}
