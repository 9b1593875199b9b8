//! `capstan backup` and `capstan restore`: everything a server holds, in one file of lines. Owns the
//! file; must not know kinds.
//!
//! A line of JSON about the backup, a line per object as the API shows it, definitions first, and a
//! line with their number. So a file that was cut off is recognised, and people can read it.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::args::{BackupArgs, RestoreArgs};
use super::output;
use super::store::Place;
use crate::admission::Webhooks;
use crate::apiserver::import::Restore;
use crate::apiserver::{ApiServer, Options, Tokens};
use crate::client::snapshot::Snapshot;
use crate::client::{Connection, explain, in_process};
use crate::rng::Rng;
use crate::store::{Range, Store};
use crate::time::{Clock, rfc3339};

const FORMAT: u32 = 1;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    capstan_backup: u32,
    resource_version: String,
    taken_at: String,
    server: String,
}

/// The last line.
#[derive(Debug, Serialize, Deserialize)]
struct Tail {
    objects: usize,
}

/// `capstan backup FILE` of a store that no server has open, or of an etcd.
///
/// # Errors
/// See [`backup`]; the store is held, damaged or not reachable.
pub async fn backup_at_rest(args: &BackupArgs, clock: &Clock) -> anyhow::Result<()> {
    let place = Place::of(&args.store)?;
    if matches!(place, Place::Memory) {
        bail!("a store in memory can only be read through its server: name its kubeconfig with --kubeconfig");
    }
    let store = place.open(clock).await?;
    ensure!(!is_empty(&*store).await?, "{place} is empty: there is nothing to back up");
    let options = Options {
        clock: clock.clone(),
        rng: Rng::from_entropy(),
        definitions: Vec::new(),
        tokens: Tokens::random(),
        admission: Arc::new(Webhooks),
    };
    let server = ApiServer::open(store, options).await?;
    let mut connection = in_process(server, "backup", "default", false);
    connection.server = place.to_string();
    backup(args, &connection, clock).await
}

/// `capstan backup FILE` through an API server.
///
/// # Errors
/// The file is there already or cannot be written; the server does not let everything be read, or
/// reading takes longer than it keeps history.
pub async fn backup(args: &BackupArgs, connection: &Connection, clock: &Clock) -> anyhow::Result<()> {
    let path = &args.file;
    ensure!(!path.exists(), "{} is there already; choose another name, or move it away", path.display());
    let mut name = path.file_name().context("a backup needs a file name")?.to_os_string();
    name.push(format!(".{}.new", std::process::id()));
    let fresh = path.with_file_name(name);
    let written = write(&fresh, connection, clock).await;
    let published = match written {
        Ok(count) => fs::rename(&fresh, path).map(|()| count).with_context(|| cannot("make", path)),
        Err(error) => Err(error),
    };
    let _ = fs::remove_file(&fresh);
    output::print(&format!("{} objects of {} in {}\n", published?, connection.server, path.display()))?;
    Ok(())
}

async fn write(path: &Path, connection: &Connection, clock: &Clock) -> anyhow::Result<usize> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    let mut out = BufWriter::new(file.with_context(|| cannot("create", path))?);
    let refused = |error: crate::client::Error| {
        anyhow::anyhow!("{} cannot be backed up: {}", connection.server, explain(&error, &connection.server))
    };
    let mut snapshot = Snapshot::open(&connection.client).await.map_err(refused)?;
    let head = Head {
        capstan_backup: FORMAT,
        resource_version: snapshot.revision.clone(),
        taken_at: rfc3339(clock.now()),
        server: connection.server.clone(),
    };
    let put = |out: &mut BufWriter<File>, line: &str| {
        writeln!(out, "{line}").with_context(|| cannot("write", path))
    };
    put(&mut out, &serde_json::to_string(&head)?)?;
    let (mut count, mut token) = (0, None);
    loop {
        let objects = snapshot.next(&mut token).await.map_err(refused)?;
        if objects.is_empty() {
            break;
        }
        for object in objects {
            put(&mut out, &object.to_string())?;
            count += 1;
        }
    }
    put(&mut out, &serde_json::to_string(&Tail { objects: count })?)?;
    let file = out
        .into_inner()
        .map_err(std::io::IntoInnerError::into_error)
        .with_context(|| cannot("write", path))?;
    file.sync_all().with_context(|| cannot("write", path))?;
    Ok(count)
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
    let place = Place::of(&args.store)?;
    if matches!(place, Place::Memory) {
        bail!(
            "a store in memory would end with this command: use capstan standalone --store memory --restore FILE"
        );
    }
    // Read once before anything is made.
    Backup::open(&args.file)?;
    let store = place.open(clock).await?;
    let said = restore_into(store, &place, &args.file, clock, &Rng::from_entropy()).await?;
    output::print(&said)?;
    Ok(())
}

/// Fills an empty store from a file; what to say about it.
///
/// # Errors
/// The file is no whole backup; the store is not empty or cannot be written.
pub async fn restore_into(
    store: Arc<dyn Store>,
    place: &Place,
    path: &Path,
    clock: &Clock,
    rng: &Rng,
) -> anyhow::Result<String> {
    let backup = Backup::open(path)?;
    if !is_empty(&*store).await? {
        bail!("{place} is not empty; a backup is only restored into an empty store, so choose another one");
    }
    store.raise(backup.revision).await?;
    let mut restore = Restore::new(store.clone(), clock.clone(), rng.clone());
    for object in backup.objects()? {
        let stored = restore.put(object?).await;
        stored.with_context(|| format!("{place} is only partly filled; empty it before you try again"))?;
    }
    let count = restore.finish().await?;
    let revision = store.revision().await?;
    Ok(format!(
        "{count} objects of {} into {place}; resource versions go on from {revision} (they were at {})\n",
        path.display(),
        backup.revision
    ))
}

/// A file that was found whole.
struct Backup {
    path: PathBuf,
    revision: u64,
    count: usize,
}

impl Backup {
    fn open(path: &Path) -> anyhow::Result<Self> {
        let not_whole = |why: &str| format!("{} is no whole backup of capstan: {why}", path.display());
        let file = File::open(path).with_context(|| cannot("read", path))?;
        let mut lines = BufReader::new(file).lines();
        let first = lines.next().transpose().with_context(|| cannot("read", path))?.unwrap_or_default();
        let head: Head =
            serde_json::from_str(&first).ok().with_context(|| not_whole("its first line is unknown"))?;
        ensure!(
            head.capstan_backup == FORMAT,
            "{} was written by another version of capstan (format {}, this one reads {FORMAT})",
            path.display(),
            head.capstan_backup
        );
        let (mut count, mut last) = (0, first);
        for line in lines {
            last = line.with_context(|| cannot("read", path))?;
            count += 1;
        }
        let count =
            usize::checked_sub(count, 1).with_context(|| not_whole("it ends after its first line"))?;
        let tail: Tail = serde_json::from_str(&last).ok().with_context(|| not_whole("its end is missing"))?;
        ensure!(tail.objects == count, not_whole(&format!("it has {count} objects, not {}", tail.objects)));
        let revision =
            head.resource_version.parse().ok().with_context(|| not_whole("its version is no number"))?;
        Ok(Self { path: path.to_owned(), revision, count })
    }

    fn objects(&self) -> anyhow::Result<impl Iterator<Item = anyhow::Result<Value>> + use<'_>> {
        let file = File::open(&self.path).with_context(|| cannot("read", &self.path))?;
        let lines = BufReader::new(file).lines().skip(1).take(self.count).enumerate();
        Ok(lines.map(|(index, line)| {
            let line = line.with_context(|| cannot("read", &self.path))?;
            serde_json::from_str(&line)
                .with_context(|| format!("{}: line {}", self.path.display(), index + 2))
        }))
    }
}
