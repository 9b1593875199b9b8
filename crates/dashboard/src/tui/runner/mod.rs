//! Performs effects that take time and answers with outcomes. Owns the tasks; calls the executor of actions and the sources. Must
//! not know the screen.

mod files;
mod outside;
mod reading;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures::stream::StreamExt as _;
use tokio::sync::mpsc;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use self::files::Files;
use super::effect::{Effect, EffectOutcome};
use super::keeping::Waiting;
use super::keymap::Keymap;
use super::look::Look;
use super::outside::{Kubeconfig, OutsideProgram};
use super::subject::{Subject, SubjectKind};
use super::theme::{Theme, Tier};
use super::turns::Turn;
use crate::actions::{Draft, Executor, Order, Proposal};
use crate::fleet::SourceId;
use crate::fleet::watch::{Recording, Source};
use capi_forecast::simulate::Remembered;
use capi_types::key::{ObjectKey, ObjectRef};

/// Longest wait for what a person confirmed, when the dashboard ends.
const FINISH_MAX: Duration = Duration::from_secs(10);

const UNFINISHED: &str =
    "A change was confirmed and is not answered yet; look at the object before you do it again.";

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

impl Loading {
    /// As what is loaded was.
    pub fn of(look: &Look) -> Self {
        Self { tier: look.tier, ascii: look.ascii, config_dir: look.config_dir.clone() }
    }
}

pub struct Runner {
    handles: BTreeMap<SourceId, Arc<SourceHandle>>,
    loading: Loading,
    outcomes: mpsc::Sender<EffectOutcome>,
    /// What is being read for the screens: one task of each kind.
    reading: BTreeMap<SubjectKind, AbortOnDropHandle<()>>,
    /// What is brought to its end before the program ends.
    lasting: TaskTracker,
    files: Files,
}

impl Runner {
    pub fn new(
        handles: BTreeMap<SourceId, SourceHandle>,
        loading: Loading,
        outcomes: mpsc::Sender<EffectOutcome>,
    ) -> Self {
        let handles = handles.into_iter().map(|(id, handle)| (id, Arc::new(handle))).collect();
        let (reading, files, lasting) = (BTreeMap::new(), Files::default(), TaskTracker::new());
        Self { handles, loading, outcomes, reading, files, lasting }
    }

    /// Looks at other servers from now on; what was begun at those before ends.
    pub fn look_at(&mut self, handles: BTreeMap<SourceId, SourceHandle>) {
        let (lasting, files) = (self.lasting.clone(), std::mem::take(&mut self.files));
        *self = Self { lasting, files, ..Self::new(handles, self.loading.clone(), self.outcomes.clone()) };
    }

    /// Waits until what a person confirmed is done and files that are not needed are gone, and answers what came of it: a
    /// sentence each. Whoever leaves in the same moment must neither cut a write in two nor leave a text behind.
    pub async fn finish(self, outcomes: &mut mpsc::Receiver<EffectOutcome>) -> Vec<String> {
        self.lasting.close();
        let mut said = Vec::new();
        let mut is_over = std::pin::pin!(tokio::time::timeout(FINISH_MAX, self.lasting.wait()));
        loop {
            tokio::select! {
                biased;
                Some(outcome) = outcomes.recv() => said.extend(performed(outcome)),
                ended = &mut is_over => {
                    said.extend(ended.is_err().then(|| UNFINISHED.to_owned()));
                    return said;
                }
            }
        }
    }

    /// Looks now and then whether a file that the screen is made of changed.
    pub fn look_at_files(&mut self, theme: &str, keymap: &str) {
        self.files.look(&self.loading, (theme, keymap), &self.outcomes);
    }

    /// Starts one effect. Those that belong to the terminal are the loop's.
    pub fn start(&mut self, effect: Effect) {
        match effect {
            Effect::LoadTheme(name) => self.load_theme(name),
            Effect::LoadKeymap(name) => self.load_keymap(name),
            Effect::Reread { theme, keymap } => {
                self.files.read(&self.loading, (&theme, &keymap), &self.outcomes);
            }
            Effect::Keep(waiting) => self.keep(waiting),
            Effect::Read { subject, wait_ms, remembered } => self.read(subject, wait_ms, remembered),
            Effect::StopReading(kind) => drop(self.reading.remove(&kind)),
            Effect::Draft { ticket, source, target, begun } => self.draft(ticket, source, target, begun),
            Effect::ReadKubeconfig { ticket, source, cluster } => {
                self.read_kubeconfig(ticket, source, cluster);
            }
            Effect::DropTexts(folder) => {
                drop(self.lasting.spawn_blocking(|| outside::drop_texts(folder)));
            }
            Effect::Preview { ticket, source, order } => self.preview(ticket, source, order),
            Effect::Hook { command, turn } => self.run_hook(command, turn),
            Effect::Perform { ticket, source, proposal } => self.perform(ticket, source, proposal),
            Effect::Quit
            | Effect::OpenContext(_)
            | Effect::Outside(_)
            | Effect::Suspend
            | Effect::Retake
            | Effect::Redraw
            | Effect::Resize
            | Effect::Mouse(_)
            | Effect::Links(_)
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

    /// What was being read of the same kind ends.
    fn read(&mut self, subject: Subject, wait_ms: u64, remembered: Vec<Remembered>) {
        let (handle, outcomes) = (self.handles.get(&subject.source()).cloned(), self.outcomes.clone());
        let kind = subject.kind();
        let task = tokio::spawn(async move {
            // Aborted with the task: a person who moves on quickly causes no request.
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
            let mut readings = reading::readings(handle, subject.clone(), remembered);
            while let Some(reading) = readings.next().await {
                let outcome = EffectOutcome::Read { subject: subject.clone(), reading };
                if outcomes.send(outcome).await.is_err() {
                    return;
                }
            }
        });
        self.reading.insert(kind, AbortOnDropHandle::new(task));
    }

    /// Runs a program that has the terminal meanwhile.
    pub fn run_outside(&self, program: OutsideProgram) {
        let outcomes = self.outcomes.clone();
        tokio::task::spawn_blocking(move || {
            let _ = outcomes.blocking_send(EffectOutcome::Outside(outside::run(program)));
        });
    }

    fn read_kubeconfig(&self, ticket: u64, source: SourceId, cluster: ObjectKey) {
        let (handle, outcomes) = (self.handles.get(&source).cloned(), self.outcomes.clone());
        tokio::spawn(async move {
            let result = match executor_of(handle.as_deref()) {
                Ok(executor) => executor.kubeconfig(&cluster).await.map(Kubeconfig),
                Err(why) => Err(why),
            };
            let _ = outcomes.send(EffectOutcome::KubeconfigRead { ticket, result }).await;
        });
    }

    fn draft(&self, ticket: u64, source: SourceId, target: ObjectRef, begun: Option<Box<(Draft, String)>>) {
        let (handle, outcomes) = (self.handles.get(&source).cloned(), self.outcomes.clone());
        tokio::spawn(async move {
            let begun = begun.as_deref().map(|(draft, why)| (draft, why.as_str()));
            let result = match executor_of(handle.as_deref()) {
                Ok(executor) => executor.draft(&target, begun).await.map_err(|error| error.to_string()),
                Err(why) => Err(why),
            };
            let _ = outcomes.send(EffectOutcome::Drafted { ticket, result: result.map(Box::new) }).await;
        });
    }

    fn preview(&self, ticket: u64, source: SourceId, order: Order) {
        // The task may outlive its dialog: the ticket of the answer then fits no other one.
        let (handle, outcomes) = (self.handles.get(&source).cloned(), self.outcomes.clone());
        tokio::spawn(async move {
            let result = match executor_of(handle.as_deref()) {
                Ok(executor) => executor.propose(&order).await,
                Err(why) => Err(why),
            };
            let _ = outcomes.send(EffectOutcome::Previewed { ticket, result }).await;
        });
    }

    fn perform(&self, ticket: u64, source: SourceId, proposal: Proposal) {
        let (handle, outcomes) = (self.handles.get(&source).cloned(), self.outcomes.clone());
        // No handle is kept: what was confirmed must not be stopped half way by another screen.
        self.lasting.spawn(async move {
            let result = match executor_of(handle.as_deref()) {
                Ok(executor) => executor.carry_out(&proposal).await,
                Err(why) => Err(why),
            };
            let _ = outcomes.send(EffectOutcome::Performed { ticket, result }).await;
        });
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
}

/// What is said of a change that was done after the screen was gone.
fn performed(outcome: EffectOutcome) -> Option<String> {
    match outcome {
        EffectOutcome::Performed { result: Ok(words), .. } => Some(words),
        EffectOutcome::Performed { result: Err(why), .. } => Some(format!("The change was not made: {why}")),
        _ => None,
    }
}

fn executor_of(handle: Option<&SourceHandle>) -> Result<&Executor, String> {
    handle
        .and_then(|handle| handle.executor.as_ref())
        .ok_or_else(|| "there is no server behind this object; what is shown is a recording".to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::turns::Turn;
    use super::*;
    use crate::actions::edit::Edit;
    use crate::actions::{Action, Outlook, Preview, Request, Risk};
    use crate::fleet::Verdict;
    use capi_types::key::Gvk;
    use capi_types::machine_deployment::MachineDeployment;

    fn runner(tell: mpsc::Sender<EffectOutcome>) -> Runner {
        let loading = Loading { tier: Tier::None, ascii: true, config_dir: None };
        Runner::new(BTreeMap::new(), loading, tell)
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_confirmed_is_brought_to_its_end_and_said() {
        let (tell, mut outcomes) = mpsc::channel(1);
        let mut runner = runner(tell.clone());
        let folder = tempfile::tempdir().expect("a folder").keep();
        runner.start(Effect::DropTexts(folder.clone()));
        // More than the queue holds, and another server in between.
        for ticket in 0..4 {
            let tell = tell.clone();
            runner.lasting.spawn(async move {
                tokio::time::sleep(Duration::from_secs(ticket)).await;
                let result = if ticket == 3 { Err("gone".to_owned()) } else { Ok("changed".to_owned()) };
                let _ = tell.send(EffectOutcome::Performed { ticket, result }).await;
            });
            runner.look_at(BTreeMap::new());
        }
        let said = runner.finish(&mut outcomes).await;
        assert_eq!(said, ["changed", "changed", "changed", "The change was not made: gone"]);
        assert!(!folder.exists());
    }

    /// Without a server, which answers at once: what counts is that the end waits for it.
    #[tokio::test]
    async fn a_write_that_was_confirmed_is_not_left_behind() {
        let (tell, mut outcomes) = mpsc::channel(1);
        let mut runner = runner(tell);
        let target = ObjectRef {
            gvk: Gvk::of::<MachineDeployment>(),
            key: ObjectKey::new("prod", "web"),
            uid: "web".to_owned(),
        };
        let preview = Preview {
            request: Request::new(target, Action::Pause),
            summary: String::new(),
            risk: Risk::Low,
            findings: Vec::new(),
            diff: Vec::new(),
            outlook: Outlook::NotPlanned,
            edit: Edit::Delete,
            back: None,
            uid: "web".to_owned(),
            resource_version: "1".to_owned(),
            shown: serde_json::Value::Null,
            topology: None,
        };
        let proposal = Proposal::Action(Box::new(preview));
        runner.start(Effect::Perform { ticket: 1, source: SourceId(0), proposal });
        let said = runner.finish(&mut outcomes).await;
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with("The change was not made: there is no server"), "{said:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_that_hangs_holds_the_end_up_for_a_moment_only() {
        let (tell, mut outcomes) = mpsc::channel(1);
        let runner = runner(tell);
        runner.lasting.spawn(std::future::pending::<()>());
        assert_eq!(runner.finish(&mut outcomes).await, [UNFINISHED]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_changed_is_read_anew_once_and_nothing_is_said_otherwise() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("explanations/default.toml");
        std::fs::create_dir(folder.path().join("explanations")).expect("a folder");
        let (tell, mut outcomes) = mpsc::channel(4);
        let config_dir = Some(folder.path().to_path_buf());
        let mut runner =
            Runner::new(BTreeMap::new(), Loading { tier: Tier::None, ascii: true, config_dir }, tell);
        let mut look = async |runner: &mut Runner| {
            tokio::time::advance(Duration::from_secs(3)).await;
            runner.look_at_files("default", "default");
            runner.files.ended().await;
            match outcomes.try_recv().ok()? {
                EffectOutcome::Reread(read) => Some(read),
                other => panic!("{other:?}"),
            }
        };
        assert!(look(&mut runner).await.is_none(), "the first look");
        assert!(look(&mut runner).await.is_none(), "nothing changed");
        std::fs::write(&path, "[A.B]\nmeans = \"changed\"").expect("a file");
        let read = look(&mut runner).await.expect("it changed");
        assert_eq!((read.changed, read.is_asked), (vec![path.clone()], false));
        let new = read.look.expect("it loads");
        assert_eq!(new.explanations.find("A", "B").expect("there").means, "changed");
        assert!(look(&mut runner).await.is_none(), "said once");
        std::fs::write(&path, "[A.B]\nmeens = \"broken, and longer\"").expect("a file");
        let read = look(&mut runner).await.expect("it changed");
        let Err(why) = read.look else { panic!("it is broken") };
        let why = why.to_string();
        assert!(why.contains("default.toml:2: unknown entry `meens`"), "{why}");
        assert!(look(&mut runner).await.is_none(), "an error is said once");
        std::fs::remove_file(&path).expect("a file");
        assert!(look(&mut runner).await.expect("it went").look.is_ok());
        // Soon after a look nobody looks.
        std::fs::write(&path, "").expect("a file");
        runner.look_at_files("default", "default");
        runner.files.ended().await;
        assert!(look(&mut runner).await.is_some(), "the next look");
    }

    #[tokio::test]
    async fn the_command_of_a_turn_is_told_what_turned_and_its_failure_is_said() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("told");
        let (tell, mut outcomes) = mpsc::channel(1);
        let mut runner = runner(tell);
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
