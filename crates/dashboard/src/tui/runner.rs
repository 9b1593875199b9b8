//! Performs effects that take time and answers with outcomes. Calls the executor of actions and the sources; must
//! not know the screen.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::effect::{Effect, EffectOutcome, LockSubject};
use super::keeping::Waiting;
use super::keymap::Keymap;
use super::plans::{PlannedCluster, Reading};
use super::theme::{Theme, Tier};
use super::turns::Turn;
use crate::actions::{
    Ahead, Author, ChangeOrder, ChangePreview, ClusterPlans, ConfigurationReader, Executor, Planner, Preview,
    Right, Tried, aside, authors,
};
use crate::fleet::watch::{Recording, Source, Subject};
use crate::fleet::{SourceId, Target};
use capi_forecast::simulate::Remembered;
use capi_types::key::ObjectKey;
use capstan_base::text::sanitize_line;
use leader_migration::look::MigrationScope;

/// One management cluster as the runner reaches it. What is missing cannot be done there: a dump
/// has neither.
#[derive(Default)]
pub struct SourceHandle {
    pub source: Option<Source>,
    /// In place of a server.
    pub recording: Option<Recording>,
    pub executor: Option<Executor>,
}

/// What is needed to load another theme.
#[derive(Clone)]
pub struct Loading {
    pub tier: Tier,
    pub ascii: bool,
    pub config_dir: Option<PathBuf>,
}

pub struct Runner {
    handles: BTreeMap<SourceId, Arc<SourceHandle>>,
    loading: Loading,
    outcomes: mpsc::Sender<EffectOutcome>,
    /// The object being followed, and whose events are.
    object: Following,
    events: Following,
    /// The plans that are being read.
    planning: Option<JoinHandle<()>>,
    /// The etcd that is being read.
    etcd: Option<JoinHandle<()>>,
    /// The locks that are being watched.
    locks: Option<JoinHandle<()>>,
    /// The configuration that is being read.
    configuration: Option<JoinHandle<()>>,
    /// The cluster that is being run ahead.
    simulating: Option<JoinHandle<()>>,
}

impl Runner {
    pub fn new(
        handles: BTreeMap<SourceId, SourceHandle>,
        loading: Loading,
        outcomes: mpsc::Sender<EffectOutcome>,
    ) -> Self {
        let handles = handles.into_iter().map(|(id, handle)| (id, Arc::new(handle))).collect();
        let (object, events) = (Following::default(), Following::default());
        Self {
            handles,
            loading,
            outcomes,
            object,
            events,
            planning: None,
            etcd: None,
            locks: None,
            configuration: None,
            simulating: None,
        }
    }

    /// Looks at other servers from now on; what was begun at those before ends.
    pub fn look_at(&mut self, handles: BTreeMap<SourceId, SourceHandle>) {
        *self = Self::new(handles, self.loading.clone(), self.outcomes.clone());
    }

    /// Starts one effect. Those that belong to the terminal are the loop's.
    pub fn start(&mut self, effect: Effect) {
        match effect {
            Effect::LoadTheme(name) => self.load_theme(name),
            Effect::LoadKeymap(name) => self.load_keymap(name),
            Effect::Keep(waiting) => self.keep(waiting),
            Effect::Follow(target) => self.follow(target),
            Effect::FollowEvents(target) => self.follow_events(target),
            Effect::Preview { ticket, source, request } => {
                let (handle, outcomes) = (self.handles.get(&source).cloned(), self.outcomes.clone());
                tokio::spawn(async move {
                    let result = match executor_of(handle.as_deref()) {
                        Ok(executor) => {
                            executor.preview(&request).await.map(Box::new).map_err(|e| e.to_string())
                        }
                        Err(why) => Err(why),
                    };
                    let _ = outcomes.send(EffectOutcome::Previewed { ticket, result }).await;
                });
            }
            Effect::Hook { command, turn } => self.run_hook(command, turn),
            Effect::Rights { source, rights } => self.rights(source, rights),
            Effect::Plan { cluster, wait_ms, remembered } => self.plan(cluster, wait_ms, remembered),
            Effect::ReadEtcd { cluster, wait_ms } => self.read_etcd(cluster, wait_ms),
            Effect::StopEtcd => self.stop_etcd(),
            Effect::FollowLocks(subject) => self.follow_locks(subject),
            Effect::ReadConfiguration { cluster, wait_ms } => self.read_configuration(cluster, wait_ms),
            Effect::StopConfiguration => self.stop_configuration(),
            Effect::PreviewChange { ticket, cluster, order } => self.preview_change(ticket, cluster, order),
            Effect::CarryOutChange { ticket, cluster, preview } => {
                self.carry_out_change(ticket, cluster, preview);
            }
            Effect::Simulate { cluster, tried, remembered } => self.simulate(cluster, tried, remembered),
            Effect::Perform { ticket, source, preview } => self.perform(ticket, source, preview),
            Effect::Quit
            | Effect::OpenContext(_)
            | Effect::Suspend
            | Effect::Retake
            | Effect::Redraw
            | Effect::Resize
            | Effect::Mouse(_)
            | Effect::Bell
            | Effect::Copy(_)
            | Effect::Write { .. }
            | Effect::Screenshot(_) => {}
        }
    }

    /// Without the terminal, which is ours; whether it succeeded is said where it did not.
    fn run_hook(&self, command: String, turn: Turn) {
        let outcomes = self.outcomes.clone();
        tokio::task::spawn_blocking(move || {
            let mut shell = Command::new("sh");
            shell.arg("-c").arg(&command).envs(turn.environment());
            shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let why = match shell.status() {
                Ok(status) if status.success() => return,
                Ok(status) => format!("the command for {} failed: {status}", turn.name),
                Err(error) => format!("the command for {} could not be run: {error}", turn.name),
            };
            let _ = outcomes.blocking_send(EffectOutcome::HookFailed(why));
        });
    }

    /// Rights stay unknown where the object comes from a file.
    fn rights(&self, source: SourceId, rights: Vec<Right>) {
        let (handle, outcomes) = (self.handles.get(&source).cloned(), self.outcomes.clone());
        tokio::spawn(async move {
            let Ok(executor) = executor_of(handle.as_deref()) else { return };
            let answers = executor.answers(rights).await;
            let _ = outcomes.send(EffectOutcome::Rights { source, answers }).await;
        });
    }

    fn perform(&self, ticket: u64, source: SourceId, preview: Box<Preview>) {
        let (handle, outcomes) = (self.handles.get(&source).cloned(), self.outcomes.clone());
        tokio::spawn(async move {
            let result = match executor_of(handle.as_deref()) {
                Ok(executor) => executor.perform(&preview).await.map_err(|e| e.to_string()),
                Err(why) => Err(why),
            };
            let _ = outcomes.send(EffectOutcome::Performed { ticket, result }).await;
        });
    }

    /// One reading at a time: another one ends it.
    fn plan(&mut self, cluster: PlannedCluster, wait_ms: u64, remembered: Vec<Remembered>) {
        if let Some(task) = self.planning.take() {
            task.abort();
        }
        let (handle, outcomes) = (self.handles.get(&cluster.source).cloned(), self.outcomes.clone());
        self.planning = Some(tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
            let began = Instant::now();
            let plans = match executor_of(handle.as_deref()) {
                Ok(executor) => plans_of(executor.planner().clone(), cluster.key.clone(), remembered).await,
                Err(why) => Err(why),
            };
            let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            let reading = match plans {
                Ok((ClusterPlans { forecast, ahead }, authors)) => {
                    Reading { plans: Ok(forecast), ahead, authors, took_ms }
                }
                Err(why) => {
                    Reading { plans: Err(sanitize_line(&why)), ahead: None, authors: Vec::new(), took_ms }
                }
            };
            let _ = outcomes.send(EffectOutcome::Planned { cluster, reading }).await;
        }));
    }

    /// One reading at a time: another one ends it.
    fn read_etcd(&mut self, cluster: PlannedCluster, wait_ms: u64) {
        self.stop_etcd();
        let (handle, outcomes) = (self.handles.get(&cluster.source).cloned(), self.outcomes.clone());
        self.etcd = Some(tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
            let look = match executor_of(handle.as_deref()).map(Executor::etcd) {
                Ok(Some(reader)) => reader.look(&cluster.key).await,
                Ok(None) => Err("this capstan was built without the etcd client".to_owned()),
                Err(why) => Err(why),
            };
            let _ = outcomes.send(EffectOutcome::EtcdRead { cluster, look }).await;
        }));
    }

    /// One at a time: another one ends it.
    fn simulate(&mut self, cluster: PlannedCluster, tried: Tried, remembered: Vec<Remembered>) {
        if let Some(task) = self.simulating.take() {
            task.abort();
        }
        let (handle, outcomes) = (self.handles.get(&cluster.source).cloned(), self.outcomes.clone());
        self.simulating = Some(tokio::spawn(async move {
            let ahead = match executor_of(handle.as_deref()) {
                Ok(executor) => {
                    let planner = executor.planner().clone();
                    run_ahead(planner, cluster.key.clone(), tried.clone(), remembered).await
                }
                Err(why) => Err(why),
            };
            let ahead = ahead.map(Box::new).map_err(|why| sanitize_line(&why));
            let _ = outcomes.send(EffectOutcome::Simulated { cluster, tried, ahead }).await;
        }));
    }

    fn stop_etcd(&mut self) {
        if let Some(task) = self.etcd.take() {
            task.abort();
        }
    }

    /// One place at a time: another one ends it.
    fn follow_locks(&mut self, subject: Option<LockSubject>) {
        self.locks.take().iter().for_each(JoinHandle::abort);
        let Some(of) = subject else { return };
        let (handle, outcomes) = (self.handles.get(&of.source).cloned(), self.outcomes.clone());
        self.locks = Some(tokio::spawn(async move {
            let looks = match executor_of(handle.as_deref()).map(Executor::locks) {
                Ok(Some(reader)) => Ok(reader.follow(of.place.clone(), MigrationScope::default())),
                Ok(None) => Err("no way to watch locks was given".to_owned()),
                Err(why) => Err(why),
            };
            let mut looks = looks.unwrap_or_else(|why| stream::once(async { Err(why) }).boxed());
            while let Some(look) = looks.next().await {
                let news = EffectOutcome::Locks { of: of.clone(), look: look.map(Box::new) };
                if outcomes.send(news).await.is_err() {
                    return;
                }
            }
        }));
    }

    /// One reading at a time: another one ends it.
    fn read_configuration(&mut self, cluster: PlannedCluster, wait_ms: u64) {
        self.stop_configuration();
        let (handle, outcomes) = (self.handles.get(&cluster.source).cloned(), self.outcomes.clone());
        self.configuration = Some(tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
            let read = match reader_of(handle.as_deref()) {
                Ok(reader) => reader.read(&cluster.key).await.map(Box::new),
                Err(why) => Err(why),
            };
            let _ = outcomes.send(EffectOutcome::ConfigurationRead { cluster, read }).await;
        }));
    }

    fn preview_change(&self, ticket: u64, cluster: PlannedCluster, order: ChangeOrder) {
        let (handle, outcomes) = (self.handles.get(&cluster.source).cloned(), self.outcomes.clone());
        tokio::spawn(async move {
            let result = match reader_of(handle.as_deref()) {
                Ok(reader) => reader.preview(&cluster.key, &order).await.map(Box::new),
                Err(why) => Err(why),
            };
            let _ = outcomes.send(EffectOutcome::ChangePreviewed { ticket, result }).await;
        });
    }

    fn carry_out_change(&self, ticket: u64, cluster: PlannedCluster, preview: Box<ChangePreview>) {
        let (handle, outcomes) = (self.handles.get(&cluster.source).cloned(), self.outcomes.clone());
        tokio::spawn(async move {
            let result = match reader_of(handle.as_deref()) {
                Ok(reader) => reader.carry_out(&cluster.key, &preview).await,
                Err(why) => Err(why),
            };
            let _ = outcomes.send(EffectOutcome::ChangeCarriedOut { ticket, cluster, result }).await;
        });
    }

    fn stop_configuration(&mut self) {
        if let Some(task) = self.configuration.take() {
            task.abort();
        }
    }

    /// Files are read aside: a configuration folder may be on a slow disk.
    fn load_theme(&self, name: String) {
        let (loading, outcomes) = (self.loading.clone(), self.outcomes.clone());
        tokio::task::spawn_blocking(move || {
            let theme = Theme::load(&name, loading.config_dir.as_deref(), loading.tier, loading.ascii);
            let _ = outcomes.blocking_send(EffectOutcome::Theme(theme.map(Box::new)));
        });
    }

    fn load_keymap(&self, name: String) {
        let (loading, outcomes) = (self.loading.clone(), self.outcomes.clone());
        tokio::task::spawn_blocking(move || {
            let keymap = Keymap::load(&name, loading.config_dir.as_deref(), super::command::check);
            let _ = outcomes.blocking_send(EffectOutcome::Keymap(keymap.map(Box::new)));
        });
    }

    fn keep(&self, waiting: Waiting) {
        let outcomes = self.outcomes.clone();
        tokio::task::spawn_blocking(move || {
            let _ = outcomes.blocking_send(EffectOutcome::Kept(waiting.write()));
        });
    }

    /// A recording has the events at once.
    fn follow(&mut self, target: Option<Target>) {
        if !self.object.is_other(target.as_ref()) {
            return;
        }
        let Some((target, handle)) = self.reached(target) else { return };
        let outcomes = self.outcomes.clone();
        self.object.task = Some(tokio::spawn(async move {
            for subject in handle.recording.iter().flat_map(|recording| recording.subjects(&target)) {
                let news = EffectOutcome::Followed { target: target.clone(), subject };
                if outcomes.send(news).await.is_err() {
                    return;
                }
            }
            let Some(source) = &handle.source else { return };
            pass_on(source.follow(target.clone()), target, outcomes).await;
        }));
    }

    fn follow_events(&mut self, target: Option<Target>) {
        if !self.events.is_other(target.as_ref()) {
            return;
        }
        let Some((target, handle)) = self.reached(target) else { return };
        let Some(source) = &handle.source else { return };
        let news = source.follow_events(target.clone());
        self.events.task = Some(tokio::spawn(pass_on(news, target, self.outcomes.clone())));
    }

    fn reached(&self, target: Option<Target>) -> Option<(Target, Arc<SourceHandle>)> {
        let target = target?;
        let handle = self.handles.get(&target.source)?.clone();
        Some((target, handle))
    }
}

/// What is followed of one object; another one ends it.
#[derive(Default)]
struct Following {
    of: Option<Target>,
    task: Option<JoinHandle<()>>,
}

impl Following {
    /// Ends what was followed when `target` is another one. Answers whether it is.
    fn is_other(&mut self, target: Option<&Target>) -> bool {
        if self.of.as_ref() == target {
            return false;
        }
        self.task.take().iter().for_each(JoinHandle::abort);
        self.of = target.cloned();
        true
    }
}

async fn pass_on(mut news: mpsc::Receiver<Subject>, target: Target, outcomes: mpsc::Sender<EffectOutcome>) {
    while let Some(subject) = news.recv().await {
        if outcomes.send(EffectOutcome::Followed { target: target.clone(), subject }).await.is_err() {
            return;
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        let followed = [self.object.task.take(), self.events.task.take()];
        let read = [self.planning.take(), self.etcd.take(), self.locks.take()];
        let more = [self.configuration.take(), self.simulating.take()];
        for task in followed.into_iter().chain(read).chain(more).flatten() {
            task.abort();
        }
    }
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

async fn run_ahead(
    planner: Planner,
    cluster: ObjectKey,
    tried: Tried,
    remembered: Vec<Remembered>,
) -> Result<Ahead, String> {
    let lists = planner.lists(&cluster).await?;
    aside(move || planner.ahead(lists, &cluster, (&tried, &remembered))).await?
}

fn executor_of(handle: Option<&SourceHandle>) -> Result<&Executor, String> {
    handle
        .and_then(|handle| handle.executor.as_ref())
        .ok_or_else(|| "there is no server behind this object; what is shown is a recording".to_owned())
}

fn reader_of(handle: Option<&SourceHandle>) -> Result<&dyn ConfigurationReader, String> {
    let reader = executor_of(handle)?.configuration();
    reader.ok_or_else(|| "nothing here reads workload clusters".to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::turns::Turn;
    use super::*;
    use crate::fleet::Verdict;

    #[tokio::test]
    async fn the_command_of_a_turn_is_told_what_turned_and_its_failure_is_said() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("told");
        let (tell, mut outcomes) = mpsc::channel(1);
        let loading = Loading { tier: Tier::None, ascii: true, config_dir: None };
        let mut runner = Runner::new(BTreeMap::new(), loading, tell);
        let command = format!(
            "printf '%s' \"$CAPSTAN_CLUSTER $CAPSTAN_VERDICT $CAPSTAN_WHY\" > '{}'; exit 3",
            path.display()
        );
        let turn = Turn {
            namespace: "prod".to_owned(),
            name: "edge-7".to_owned(),
            before: Verdict::Ok,
            after: Verdict::Blocked,
            why: "$(touch /nowhere); it's held".to_owned(),
        };
        runner.start(Effect::Hook { command, turn });
        let Some(EffectOutcome::HookFailed(why)) = outcomes.recv().await else { panic!("it failed") };
        assert_eq!(why, "the command for edge-7 failed: exit status: 3");
        let told = std::fs::read_to_string(path).expect("it ran");
        assert_eq!(told, "edge-7 blocked $(touch /nowhere); it's held");
    }
}
