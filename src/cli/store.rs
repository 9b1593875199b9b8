//! Which store a command works on, from its options. Must not know what is kept in it.

use std::path::PathBuf;
use std::sync::Arc;

use super::store_args::{StoreArgs, StoreName};
use super::{paths, secrets};
#[cfg(feature = "etcd")]
use anyhow::Context as _;
#[cfg(not(feature = "etcd"))]
use anyhow::bail;
use capstan_base::time::Clock;
#[cfg(not(feature = "etcd"))]
use capstan_commands::exit_code::WrongUsage;
use capstan_store::{DiskStore, MemoryStore, Sealed, Sealing, Store};
#[cfg(feature = "etcd")]
use capstan_store::{EtcdOptions, EtcdStore, TlsFiles};

/// Where objects are kept.
#[derive(Clone, Debug)]
pub enum StoreLocation {
    Memory,
    /// In this data directory.
    Disk(PathBuf),
    #[cfg(feature = "etcd")]
    Etcd(EtcdOptions),
}

impl StoreLocation {
    /// # Errors
    /// A certificate that cannot be read, or no directory that follows from the environment.
    pub fn of(args: &StoreArgs) -> anyhow::Result<Self> {
        match args.store.clone().unwrap_or_default() {
            StoreName::Memory => Ok(Self::Memory),
            StoreName::Disk => Ok(Self::Disk(data_dir(args)?)),
            StoreName::Etcd(endpoints) => etcd(args, endpoints),
        }
    }

    /// The store, whose Secrets are sealed with the first key by then. One in memory is not encrypted.
    ///
    /// # Errors
    /// A store that is held, damaged, half restored, encrypted with another key, not accessible or not reachable.
    pub async fn open(&self, clock: &Clock, sealing: &Sealing) -> anyhow::Result<Arc<dyn Store>> {
        let (store, census) = match self {
            Self::Memory => return Ok(Arc::new(MemoryStore::new())),
            Self::Disk(dir) => {
                let (store, census) = DiskStore::open_sealed(dir, clock.now(), sealing)?;
                // No other process writes there, so nothing sealed can come up.
                if sealing.ring().is_none() {
                    return Ok(Arc::new(store));
                }
                (Sealed::new(Arc::new(store), sealing.clone()), census)
            }
            #[cfg(feature = "etcd")]
            Self::Etcd(options) => {
                let store = connected(options).await?;
                Sealed::open(store, sealing.clone(), &self.to_string()).await?
            }
        };
        if let Some(newest) = sealing.newest() {
            secrets::log_opened(&census, newest, self);
        }
        Ok(Arc::new(store))
    }

    /// The store to be read only: as it is, with its Secrets opened.
    ///
    /// # Errors
    /// As [`StoreLocation::open`].
    pub async fn read(&self, sealing: &Sealing) -> anyhow::Result<Arc<dyn Store>> {
        let store: Arc<dyn Store> = match self {
            Self::Memory => Arc::new(MemoryStore::new()),
            Self::Disk(dir) => Arc::new(DiskStore::read(dir, sealing)?),
            #[cfg(feature = "etcd")]
            Self::Etcd(options) => connected(options).await?,
        };
        Ok(Arc::new(Sealed::checked(store, sealing.clone(), &self.to_string()).await?.0))
    }

    /// True when other servers may be working on the same objects.
    pub fn is_shared(&self) -> bool {
        !matches!(self, Self::Memory | Self::Disk(_))
    }
}

impl std::fmt::Display for StoreLocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Memory => f.write_str("the store in memory"),
            Self::Disk(dir) => write!(f, "the store in {}", dir.display()),
            #[cfg(feature = "etcd")]
            Self::Etcd(options) => {
                write!(f, "etcd at {} below {}", options.endpoints.join(","), options.prefix)
            }
        }
    }
}

/// An etcd as it is, its values as they are kept.
///
/// # Errors
/// It is not reachable, or half restored.
#[cfg(feature = "etcd")]
pub(super) async fn connected(options: &EtcdOptions) -> anyhow::Result<Arc<dyn Store>> {
    Ok(Arc::new(EtcdStore::connect(options.clone()).await?))
}

/// The directory of the data file, the certificates and the tokens.
///
/// # Errors
/// No directory was given, and none follows from the environment.
pub fn data_dir(args: &StoreArgs) -> anyhow::Result<PathBuf> {
    match &args.data_dir {
        Some(dir) => Ok(dir.clone()),
        None => paths::data_dir(),
    }
}

#[cfg(not(feature = "etcd"))]
fn etcd(_: &StoreArgs, _: Vec<String>) -> anyhow::Result<StoreLocation> {
    bail!(WrongUsage("this capstan was built without etcd; use disk or memory".to_owned()))
}

#[cfg(feature = "etcd")]
fn etcd(args: &StoreArgs, endpoints: Vec<String>) -> anyhow::Result<StoreLocation> {
    let read =
        |path: &PathBuf| std::fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let identity = match (&args.etcd_cert, &args.etcd_key) {
        (Some(certificate), Some(key)) => Some((read(certificate)?, read(key)?)),
        _ => None,
    };
    let ca = args.etcd_ca.as_ref().map(read).transpose()?;
    let tls = ca.map(|ca| TlsFiles { ca, identity });
    let (write, read) = capstan_apiserver::plain_form();
    let plain = capstan_store::Plain { write, read };
    let rng = capstan_base::rng::Rng::from_entropy();
    Ok(StoreLocation::Etcd(EtcdOptions {
        endpoints,
        prefix: args.etcd_prefix.clone(),
        within: "/registry".to_owned(),
        tls,
        plain,
        sealed: secrets::PREFIXES,
        rng,
    }))
}
