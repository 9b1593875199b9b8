//! Which store a command works on, from its options. Must not know what is kept in it.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, bail};

use super::args::StandaloneArgs;
use super::paths;
use super::store_args::{StoreArgs, StoreName};
use capstan_apiserver::{is_whole, plain_form};
#[cfg(feature = "etcd")]
use capstan_base::text::counted;
use capstan_base::time::Clock;
use capstan_commands::exit_code::WrongUsage;
use capstan_store::{Checked, DiskStore, MemoryStore, NewStore, Repaired, Store};
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

    /// # Errors
    /// A store that is held, damaged, half restored, not accessible or not reachable.
    pub async fn open(&self, clock: &Clock) -> anyhow::Result<Arc<dyn Store>> {
        Ok(match self {
            Self::Memory => Arc::new(MemoryStore::new()),
            Self::Disk(dir) => Arc::new(DiskStore::open(dir, clock.now())?),
            #[cfg(feature = "etcd")]
            Self::Etcd(options) => Arc::new(EtcdStore::connect(options.clone()).await?),
        })
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
pub fn upkeep(args: &StandaloneArgs, clock: &Clock) -> anyhow::Result<String> {
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
        return Ok(in_order(&DiskStore::check(&dir)?));
    }
    Ok(match DiskStore::repair(&dir, clock.now(), is_whole)? {
        Ok(found) => in_order(&found) + "There was nothing to repair.\n",
        Err(repaired) => say_repaired(&repaired),
    })
}

/// Counts first, then the keys of the objects that need attention.
fn say_repaired(repaired: &Repaired) -> String {
    let (uncertain, lost) = (repaired.uncertain.len(), repaired.lost.len());
    let mut said = format!(
        "The data file was damaged: {}.\nIt is kept as {}.\n{} objects were saved ({uncertain} of them uncertain), \
         {} are lost; resource versions go on from {}. The history is gone, so clients read everything anew.\n",
        repaired.damage,
        repaired.original.display(),
        repaired.kept,
        lost as u64 + repaired.unknown,
        repaired.revision
    );
    if repaired.is_newest_commit_lost {
        said.push_str(
            "The last commit cannot be read; objects that it changed or deleted may be as they were before it.\n",
        );
    }
    if repaired.unknown > 0 {
        let _ = writeln!(said, "Of {} lost objects not even the key is known.", repaired.unknown);
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
    let (write, read) = plain_form();
    let plain = capstan_store::Plain { write, read };
    let rng = capstan_base::rng::Rng::from_entropy();
    Ok(StoreLocation::Etcd(EtcdOptions {
        endpoints,
        prefix: args.etcd_prefix.clone(),
        within: "/registry".to_owned(),
        tls,
        plain,
        rng,
    }))
}
