//! How each subject is read: from the sources that are watched, and through what the executor of actions offers. Owns what is said
//! where nothing is there to read from; must not know which screen wants it.

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt as _};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::{SourceHandle, executor_of};
use crate::actions::{Ahead, Author, ClusterPlans, Executor, Planner, Right, Tried, aside, authors};
use crate::fleet::Target;
use crate::fleet::watch::ObjectNews;
use crate::tui::plans::PlanReading;
use crate::tui::reads::Reading;
use crate::tui::subject::{LockSubject, LogSubject, ObjectsSubject, PlannedCluster, Subject};
use capi_forecast::simulate::Remembered;
use capi_types::key::ObjectKey;
use capstan_base::text::sanitize_line;
use leader_migration::look::MigrationScope;

type Readings = BoxStream<'static, Reading>;
type Handle = Option<Arc<SourceHandle>>;

/// What is read of a subject: one reading, or for what is followed one after the other until it is dropped.
pub(super) fn readings(handle: Handle, subject: Subject, remembered: Vec<Remembered>) -> Readings {
    match subject {
        Subject::Object(target) => object(handle, target),
        Subject::Events(target) => events(handle, target),
        Subject::Outdated(machine) => once(Box::pin(outdated(handle, machine))),
        Subject::Plans(cluster) => once(Box::pin(plans(handle, cluster, remembered))),
        Subject::Rights { rights, .. } => once_if_any(Box::pin(answers(handle, rights))),
        Subject::Etcd(cluster) => once(Box::pin(etcd(handle, cluster))),
        Subject::Locks(subject) => locks(handle, subject),
        Subject::Logs(subject) => logs(handle, subject),
        Subject::Objects(subject) => once(Box::pin(objects(handle, subject))),
        Subject::Configuration(cluster) => once(Box::pin(configuration(handle, cluster))),
        Subject::Simulation { cluster, tried } => {
            once(Box::pin(simulation(handle, cluster, tried, remembered)))
        }
    }
}

fn once(reading: BoxFuture<'static, Reading>) -> Readings {
    stream::once(reading).boxed()
}

fn once_if_any(reading: BoxFuture<'static, Option<Reading>>) -> Readings {
    stream::once(reading).filter_map(std::future::ready).boxed()
}

/// A recording has the events at once.
fn object(handle: Handle, target: Target) -> Readings {
    let Some(handle) = handle else { return stream::empty().boxed() };
    let recorded: Vec<ObjectNews> =
        handle.recording.iter().flat_map(|recording| recording.subjects(&target)).collect();
    let watched = handle.source.as_ref().map(|source| source.follow(target));
    stream::iter(recorded).map(Reading::Object).chain(news(watched)).boxed()
}

fn events(handle: Handle, target: Target) -> Readings {
    news(handle.as_ref().and_then(|handle| handle.source.as_ref()).map(|source| source.follow_events(target)))
}

fn news(watched: Option<mpsc::Receiver<ObjectNews>>) -> Readings {
    let Some(watched) = watched else { return stream::empty().boxed() };
    let next =
        |mut news: mpsc::Receiver<ObjectNews>| async { Some((Reading::Object(news.recv().await?), news)) };
    stream::unfold(watched, next).boxed()
}

async fn plans(handle: Handle, cluster: PlannedCluster, remembered: Vec<Remembered>) -> Reading {
    let began = Instant::now();
    let plans = match executor_of(handle.as_deref()) {
        Ok(executor) => plans_of(executor.planner().clone(), cluster.key, remembered).await,
        Err(why) => Err(why),
    };
    let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    Reading::Plans(match plans {
        Ok((ClusterPlans { forecast, ahead }, authors)) => {
            PlanReading { plans: Ok(forecast), ahead, authors, took_ms }
        }
        Err(why) => {
            PlanReading { plans: Err(sanitize_line(&why)), ahead: None, authors: Vec::new(), took_ms }
        }
    })
}

async fn plans_of(
    planner: Planner,
    cluster: ObjectKey,
    remembered: Vec<Remembered>,
) -> Result<(ClusterPlans, Vec<Author>), String> {
    let lists = planner.lists(&cluster).await?;
    let authors = authors(&lists);
    let planned = aside(move || planner.plans(lists, &cluster, &remembered)).await;
    Ok((planned?, authors))
}

/// Rights stay unknown where the object comes from a file.
async fn answers(handle: Handle, rights: Vec<Right>) -> Option<Reading> {
    let executor = executor_of(handle.as_deref()).ok()?;
    Some(Reading::Rights(executor.answers(rights).await))
}

async fn outdated(handle: Handle, machine: Target) -> Reading {
    Reading::Outdated(match executor_of(handle.as_deref()) {
        Ok(executor) => executor.outdated(&ObjectKey::new(&machine.namespace, &machine.name)).await,
        Err(why) => Err(why),
    })
}

async fn etcd(handle: Handle, cluster: PlannedCluster) -> Reading {
    Reading::Etcd(match executor_of(handle.as_deref()).map(Executor::etcd) {
        Ok(Some(reader)) => reader.look(&cluster.key).await,
        Ok(None) => Err("this capstan was built without the etcd client".to_owned()),
        Err(why) => Err(why),
    })
}

fn locks(handle: Handle, subject: LockSubject) -> Readings {
    let looks = match executor_of(handle.as_deref()).map(Executor::locks) {
        Ok(Some(reader)) => Ok(reader.follow(subject.place, MigrationScope::default())),
        Ok(None) => Err("no way to watch locks was given".to_owned()),
        Err(why) => Err(why),
    };
    let looks = looks.unwrap_or_else(|why| stream::once(async { Err(why) }).boxed());
    looks.map(|look| Reading::Locks(look.map(Box::new))).boxed()
}

fn logs(handle: Handle, subject: LogSubject) -> Readings {
    let news = match executor_of(handle.as_deref()).map(Executor::logs) {
        Ok(Some(reader)) => Ok(reader.follow(subject.place)),
        Ok(None) => Err("no way to read logs was given".to_owned()),
        Err(why) => Err(why),
    };
    let news = news.unwrap_or_else(|why| stream::once(async { Err(why) }).boxed());
    news.map(Reading::Logs).boxed()
}

async fn objects(handle: Handle, subject: ObjectsSubject) -> Reading {
    Reading::Objects(match executor_of(handle.as_deref()) {
        Ok(executor) => executor.objects(&subject.query).await.map(Box::new),
        Err(why) => Err(why),
    })
}

async fn configuration(handle: Handle, cluster: PlannedCluster) -> Reading {
    Reading::Configuration(match executor_of(handle.as_deref()).and_then(Executor::configuration) {
        Ok(reader) => reader.read(&cluster.key).await.map(Box::new),
        Err(why) => Err(why),
    })
}

async fn simulation(
    handle: Handle,
    cluster: PlannedCluster,
    tried: Tried,
    remembered: Vec<Remembered>,
) -> Reading {
    let ahead = match executor_of(handle.as_deref()) {
        Ok(executor) => run_ahead(executor.planner().clone(), cluster.key, tried, remembered).await,
        Err(why) => Err(why),
    };
    Reading::Simulation(ahead.map(Box::new).map_err(|why| sanitize_line(&why)))
}

async fn run_ahead(
    planner: Planner,
    cluster: ObjectKey,
    tried: Tried,
    remembered: Vec<Remembered>,
) -> Result<Ahead, String> {
    let lists = planner.lists(&cluster).await?;
    aside(move || planner.ahead(lists, &cluster, (&tried, &remembered))).await?
}
