//! `capstan backup` and `capstan restore`: everything a server holds, in one file of lines. Owns the
//! file; must not know kinds.
//!
//! A line of JSON about the backup, a line per object as the API shows it, definitions first, and a
//! line with their number and the checksum of all lines before it. A file that was cut off or altered is therefore
//! recognised, and people can read it. With a key the Secrets in it are sealed, each in its line.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::args::{BackupArgs, RestoreArgs};
use super::encryption::sealing;
use super::sealed_lines;
use super::secrets::counted_secrets;
use super::store::StoreLocation;
use capi_rules::admission::Webhooks;
use capstan_apiserver::import::Restore;
use capstan_apiserver::{ApiServer, Options, Tokens};
use capstan_base::private_file::{self, NewFile};
use capstan_base::rng::Rng;
use capstan_base::text::counted;
use capstan_base::time::{Clock, rfc3339};
use capstan_commands::exit_code::WrongUsage;
use capstan_commands::output;
use capstan_engine::client::snapshot::Snapshot;
use capstan_engine::client::{Connection, explain, in_process};
#[cfg(feature = "etcd")]
use capstan_store::{EtcdOptions, EtcdRestore};
use capstan_store::{KeyId, Keyring, MemoryStore, NewStore, Range, Revision, Sealed, Sealing, Store};

/// With Secrets in clear, and with sealed ones, which a capstan from before would restore without their content.
const FORMAT: u32 = 1;
const FORMAT_SEALED: u32 = 2;
/// Revisions that a store may have been at. Etcd counts in signed numbers, and a store has to count further.
const REVISIONS: std::ops::Range<Revision> = 1..1 << 62;
/// Etcd can only count up, by some thousand revisions a second.
#[cfg(feature = "etcd")]
const RAISE_MAX: Revision = 20_000_000;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    capstan_backup: u32,
    resource_version: String,
    taken_at: String,
    server: String,
    /// The names of the keys that seal lines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    sealed_with: Vec<String>,
}

/// The last line.
#[derive(Debug, Serialize, Deserialize)]
struct Tail {
    objects: usize,
    /// SHA-256 of all lines before this one, with their ends, in hexadecimal. Backups of earlier
    /// versions have none.
    #[serde(default)]
    sha256: Option<String>,
}

/// `capstan backup FILE` of a store that no server has open, or of an etcd.
///
/// # Errors
/// See [`backup`]; the store is held, damaged or not reachable.
pub async fn backup_at_rest(args: &BackupArgs, clock: &Clock) -> anyhow::Result<()> {
    let place = StoreLocation::of(&args.store)?;
    if matches!(place, StoreLocation::Memory) {
        bail!(WrongUsage(
            "a store in memory can only be read through its server: name its kubeconfig with --kubeconfig"
                .to_owned()
        ));
    }
    let sealing = sealing(&args.encryption)?;
    // Read and not opened: nothing is written, so a disk that is mounted read-only will do.
    let store = place.read(&sealing).await?;
    ensure!(!is_empty(&*store).await?, "{place} is empty: there is nothing to back up");
    let options = Options {
        clock: clock.clone(),
        rng: Rng::from_entropy(),
        definitions: Vec::new(),
        tokens: Tokens::random(),
        admission: Arc::new(Webhooks),
    };
    let server = ApiServer::open(store.clone(), options).await?;
    let mut connection = in_process(server, "backup", "default", false);
    connection.server = place.to_string();
    write_backup(args, &connection, &sealing, clock).await?;
    let left_out = store.unreadable("");
    if let Some(first) = left_out.first() {
        output::remark(&format!(
            "{} cannot be read and are not in the backup, such as {first}",
            counted(left_out.len(), "object")
        ));
    }
    Ok(())
}

/// `capstan backup FILE` through an API server.
///
/// # Errors
/// The file is there already or cannot be written; the server does not let everything be read, or
/// reading takes longer than it keeps history.
pub async fn backup(args: &BackupArgs, connection: &Connection, clock: &Clock) -> anyhow::Result<()> {
    write_backup(args, connection, &sealing(&args.encryption)?, clock).await
}

async fn write_backup(
    args: &BackupArgs,
    connection: &Connection,
    sealing: &Sealing,
    clock: &Clock,
) -> anyhow::Result<()> {
    let path = &args.file;
    let ring = sealing.ring().filter(|_| !args.in_clear);
    let mut lines = Lines::create(path)?;
    let (count, secrets) = write(&mut lines, connection, ring, clock).await?;
    lines.publish(count)?;
    let mut said = format!("{} of {} in {}\n", counted(count, "object"), connection.server, path.display());
    if secrets > 0 {
        let secrets = counted_secrets(secrets);
        let _ = match ring {
            Some(ring) => writeln!(
                said,
                "{secrets} in it, encrypted with key {}: restoring needs its file.",
                ring.newest()
            ),
            None => writeln!(
                said,
                "{secrets} in it in clear, such as keys of clusters and kubeconfigs: keep it as you keep those, or name a key \
                 file with --encryption-key."
            ),
        };
    }
    output::print(&said)?;
    Ok(())
}

/// A backup being written.
struct Lines {
    path: PathBuf,
    out: BufWriter<NewFile>,
    digest: Sha256,
}

impl Lines {
    /// Nothing may be at `path` yet.
    fn create(path: &Path) -> anyhow::Result<Self> {
        let out = BufWriter::new(NewFile::create(path)?);
        let lines = Self { path: path.to_owned(), out, digest: Sha256::new() };
        lines.check_free()?;
        Ok(lines)
    }

    fn check_free(&self) -> anyhow::Result<()> {
        let path = &self.path;
        ensure!(!path.exists(), "{} is there already; choose another name, or move it away", path.display());
        Ok(())
    }

    fn put(&mut self, line: &str) -> anyhow::Result<()> {
        self.digest.update(line);
        self.digest.update("\n");
        writeln!(self.out, "{line}").with_context(|| cannot("write", &self.path))
    }

    /// Writes the last line and makes the file durable under its name.
    fn publish(mut self, objects: usize) -> anyhow::Result<()> {
        let sha256 = Some(hexadecimal(self.digest.clone()));
        self.put(&serde_json::to_string(&Tail { objects, sha256 })?)?;
        // Once more: reading everything may have taken a while.
        self.check_free()?;
        let file = self.out.into_inner().map_err(std::io::IntoInnerError::into_error);
        Ok(file.with_context(|| cannot("write", &self.path))?.publish()?)
    }
}

fn hexadecimal(digest: Sha256) -> String {
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes everything but the last line. Returns the number of objects, and of Secrets among them.
async fn write(
    out: &mut Lines,
    connection: &Connection,
    ring: Option<&Keyring>,
    clock: &Clock,
) -> anyhow::Result<(usize, usize)> {
    let refused = |error: capstan_engine::client::Error| {
        anyhow::anyhow!("{} cannot be backed up: {}", connection.server, explain(&error, &connection.server))
    };
    let mut snapshot = Snapshot::open(&connection.client).await.map_err(refused)?;
    let head = Head {
        capstan_backup: if ring.is_some() { FORMAT_SEALED } else { FORMAT },
        resource_version: snapshot.revision.clone(),
        taken_at: rfc3339(clock.now()),
        server: connection.server.clone(),
        sealed_with: ring.map(|ring| ring.newest().to_string()).into_iter().collect(),
    };
    out.put(&serde_json::to_string(&head)?)?;
    let (mut count, mut secrets, mut token) = (0, 0, None);
    loop {
        let objects = snapshot.next(&mut token).await.map_err(refused)?;
        if objects.is_empty() {
            return Ok((count, secrets));
        }
        for object in objects {
            let is_secret = sealed_lines::is_secret(&object);
            match ring.filter(|_| is_secret) {
                Some(ring) => out.put(&sealed_lines::seal(&object, ring)?.to_string())?,
                None => out.put(&object.to_string())?,
            }
            count += 1;
            secrets += usize::from(is_secret);
        }
    }
}

fn cannot(what: &str, path: &Path) -> String {
    format!("cannot {what} {}", path.display())
}

async fn is_empty(store: &dyn Store) -> anyhow::Result<bool> {
    Ok(store.range(Range { limit: 1, ..Range::default() }).await?.entries.is_empty())
}

/// `capstan restore FILE`.
///
/// # Errors
/// See [`restore_into`]; the store is held, damaged or not reachable.
pub async fn restore(args: &RestoreArgs, clock: &Clock) -> anyhow::Result<()> {
    let place = StoreLocation::of(&args.store)?;
    if matches!(place, StoreLocation::Memory) {
        bail!(WrongUsage(
            "a store in memory would end with this command: use capstan standalone --store memory --restore FILE"
                .to_owned()
        ));
    }
    let sealing = sealing(&args.encryption)?;
    let restored = restore_into(&place, &args.file, &sealing, (clock, &Rng::from_entropy())).await?;
    output::print(&restored.summary)?;
    Ok(())
}

/// A store that was filled.
pub struct Restored {
    /// What to say about it.
    pub summary: String,
    /// The store, when it is nowhere else.
    pub in_memory: Option<MemoryStore>,
}

/// Fills an empty place from a file, all or nothing: a data directory gets its data file in one step,
/// and an etcd is marked as half full until it is whole. With keys the place is encrypted from the start.
///
/// # Errors
/// The file is not a whole backup, or its keys are missing; the place is not empty or cannot be written.
pub async fn restore_into(
    place: &StoreLocation,
    path: &Path,
    sealing: &Sealing,
    with: (&Clock, &Rng),
) -> anyhow::Result<Restored> {
    let backup = Backup::open(path, sealing)?;
    let clock = with.0;
    let memory = MemoryStore::new();
    let (count, revision) = match place {
        StoreLocation::Memory => {
            let filled = fill(Arc::new(memory.clone()), &backup, backup.revision, with).await?;
            // The history of the filling is not kept: no client has watched it.
            memory.compact(filled.1).await?;
            filled
        }
        StoreLocation::Disk(dir) => {
            let new = NewStore::begin(dir, clock.now())?;
            // Clients may have seen versions up to both:
            // a lower one would look like another history.
            let floor = new.floor().max(backup.revision);
            let sealed = Sealed::new(Arc::new(memory.clone()), sealing.clone());
            let filled = fill(Arc::new(sealed), &backup, floor, with).await?;
            new.finish(&memory, sealing.newest())?;
            filled
        }
        #[cfg(feature = "etcd")]
        StoreLocation::Etcd(options) => {
            fill_etcd(options, &backup, sealing, with).await.with_context(|| place.to_string())?
        }
    };
    let mut summary = format!(
        "{} of {} into {place}; resource versions go on from {revision} (they were at {})\n",
        counted(count, "object"),
        path.display(),
        backup.revision
    );
    if !backup.has_checksum {
        summary.push_str("This backup has no checksum (an earlier version made it): altered values in it are not noticed.\n");
    }
    if let Some(id) = sealing.newest().filter(|_| !matches!(place, StoreLocation::Memory)) {
        let _ = writeln!(summary, "Its Secrets are encrypted with key {id}.");
    }
    let in_memory = matches!(place, StoreLocation::Memory).then_some(memory);
    Ok(Restored { summary, in_memory })
}

/// Number of objects, and the revision afterwards.
async fn fill(
    store: Arc<dyn Store>,
    backup: &Backup<'_>,
    floor: Revision,
    (clock, rng): (&Clock, &Rng),
) -> anyhow::Result<(usize, Revision)> {
    let mut restore = Restore::begin(store.clone(), clock.clone(), rng.clone(), floor).await?;
    for object in backup.objects()? {
        restore.put(object?).await?;
    }
    let count = restore.finish().await?;
    Ok((count, store.revision().await?))
}

/// The same for an etcd, which others can see half full meanwhile.
#[cfg(feature = "etcd")]
async fn fill_etcd(
    options: &EtcdOptions,
    backup: &Backup<'_>,
    sealing: &Sealing,
    with: (&Clock, &Rng),
) -> anyhow::Result<(usize, Revision)> {
    // A line that does not open must be known before the first object is written.
    if backup.is_encrypted {
        for object in backup.objects()? {
            object?;
        }
    }
    let restore = EtcdRestore::connect(options.clone(), &backup.checksum).await?;
    let store = Arc::new(restore.store().clone());
    let current = store.revision().await?;
    ensure!(
        backup.revision.saturating_sub(current) <= RAISE_MAX,
        "{} was taken at resource version {}, and this etcd is at {current}: counting up to there would take hours; \
         restore it into a data directory",
        backup.path.display(),
        backup.revision
    );
    // After everything that may be refused: from here on the prefix counts as half full.
    restore.begin().await?;
    let sealed = Sealed::new(store, sealing.clone());
    let filled = fill(Arc::new(sealed), backup, backup.revision, with).await?;
    restore.finish().await?;
    Ok(filled)
}

/// A file that was found whole.
struct Backup<'a> {
    path: PathBuf,
    file: File,
    /// Opens its lines.
    sealing: &'a Sealing,
    /// Its Secrets are sealed, each of them.
    is_encrypted: bool,
    revision: Revision,
    count: usize,
    /// Of all lines but the last.
    #[cfg_attr(not(feature = "etcd"), allow(dead_code, reason = "names the backup in etcd"))]
    checksum: String,
    /// The file has its checksum, so that it is known to be unaltered.
    has_checksum: bool,
}

impl<'a> Backup<'a> {
    fn open(path: &Path, sealing: &'a Sealing) -> anyhow::Result<Self> {
        let not_whole = |why: &str| format!("{} is not a whole backup of capstan: {why}", path.display());
        let (file, _) =
            private_file::open_regular(path)?.with_context(|| format!("{} is not there", path.display()))?;
        let mut lines = BufReader::new(&file).split(b'\n');
        let mut next = || lines.next().transpose().with_context(|| cannot("read", path));
        let first = next()?.unwrap_or_default();
        let head: Head =
            serde_json::from_slice(&first).ok().with_context(|| not_whole("its first line is unknown"))?;
        ensure!(
            [FORMAT, FORMAT_SEALED].contains(&head.capstan_backup),
            "{} was written by another version of capstan (format {}, this one reads {FORMAT_SEALED})",
            path.display(),
            head.capstan_backup
        );
        let (mut count, mut last, mut digest) = (0, first, Sha256::new());
        // Read to its end before anything is written: a file
        // that was cut off must not fill half a store.
        while let Some(line) = next()? {
            digest.update(&last);
            digest.update("\n");
            last = line;
            count += 1;
        }
        // The last line is counted too, and is not an object.
        let count =
            usize::checked_sub(count, 1).with_context(|| not_whole("it ends after its first line"))?;
        let tail: Tail =
            serde_json::from_slice(&last).ok().with_context(|| not_whole("its end is missing"))?;
        ensure!(
            tail.objects == count,
            not_whole(&format!("it has {}, not {}", counted(count, "object"), tail.objects))
        );
        let checksum = hexadecimal(digest);
        ensure!(
            tail.sha256.as_ref().is_none_or(|said| *said == checksum),
            not_whole("it was altered after it was made, as its checksum shows; use another copy")
        );
        let needed: Result<Vec<KeyId>, _> = head.sealed_with.iter().map(|id| id.parse()).collect();
        let needed = needed.ok().with_context(|| not_whole("its first line names a key that cannot be"))?;
        sealing.check(&format!("the backup {}", path.display()), &needed)?;
        let revision = head.resource_version.parse().ok().filter(|revision| REVISIONS.contains(revision));
        let revision =
            revision.with_context(|| not_whole("its resource version is none that a store gives out"))?;
        let has_checksum = tail.sha256.is_some();
        let is_encrypted = !needed.is_empty();
        Ok(Self {
            path: path.to_owned(),
            file,
            sealing,
            is_encrypted,
            revision,
            count,
            checksum,
            has_checksum,
        })
    }

    fn objects(&self) -> anyhow::Result<impl Iterator<Item = anyhow::Result<Value>> + use<'_, 'a>> {
        (&self.file).rewind().with_context(|| cannot("read", &self.path))?;
        let lines = BufReader::new(&self.file).lines().skip(1).take(self.count).enumerate();
        Ok(lines.map(|(index, line)| {
            let line = line.with_context(|| cannot("read", &self.path))?;
            let object = serde_json::from_str(&line).map_err(anyhow::Error::from);
            let object =
                object.and_then(|object| sealed_lines::open(object, self.sealing.ring(), self.is_encrypted));
            object.with_context(|| format!("{}: line {}", self.path.display(), index + 2))
        }))
    }
}
