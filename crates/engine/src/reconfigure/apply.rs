//! Carrying a plan out: read, compare, do the next step, wait until it shows, again. Owns the loop. How far the change is, is
//! read from the cluster each time, so that it can be interrupted anywhere; what is next is `change::gate`'s.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::addons;
use super::drain::{self, DrainTimes};
use super::executor::{CommandTarget, ExecutorError};
pub use super::failure::ApplyError;
use super::judge::{Consent, Judged, judge, permitted};
use super::look;
use super::preflight::Hands;
use super::read::{ClusterReading, read};
use super::write::{self, ChangeWriteError};
use crate::client::Writer;
use capstan_base::command_line::CommandLine;
use capstan_base::time::{self, Clock};
use kubeadm_change::convert::ConvertError;
use kubeadm_change::document::DocumentKind;
use kubeadm_change::gate::{Doing, NextMove, next};
use kubeadm_change::node_file::NodeFile;
use kubeadm_change::plan::{Acknowledged, ChangePlan, PlannedStep};
use kubeadm_change::progress::{ItemState, ProgressItem};
use kubeadm_change::record::{ChangeRecord, RecordState};
use kubeadm_change::render::ClusterSettings;
use kubeadm_change::request::WantedDocuments;
use kubeadm_change::running::{Running, SeenBefore, Sighting};
use kubeadm_change::steps::StepId;

/// What happens, for the person who watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyEvent {
    /// The record and these ConfigMaps are written.
    Begun(Vec<String>),
    /// A step begins: its place from 1, how many there are, what and where.
    Step { number: usize, of: usize, id: StepId, title: String, nodes: Vec<String> },
    /// A command is about to be run.
    Command { node: String, line: String },
    /// What it printed.
    Output { node: String, text: String },
    /// Something was written through the API.
    Wrote(String),
    /// Looked, and has to look again.
    Waiting(String),
}

/// How it ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Applied {
    /// Everything is done and seen; the record is complete.
    Complete(Vec<ProgressItem>),
    /// What is left is for people: the place of the next step in the plan, and the texts of the files that steps need, by their
    /// paths on the nodes.
    ForPeople {
        plan: Box<ChangePlan>,
        items: Vec<ProgressItem>,
        next: usize,
        texts: BTreeMap<String, String>,
    },
}

/// How often is said that a command still runs.
const STILL_RUNS: Duration = Duration::from_secs(30);

/// One run.
pub struct Application<'a> {
    pub writer: Writer,
    pub server: String,
    /// `None`: people do what is done on nodes.
    pub hands: Option<Hands<'a>>,
    /// The change that was shown and confirmed: what stands in the cluster must ask for the same.
    pub change: ChangeRecord,
    pub consent: Consent,
    /// Steps that only people do, and that the person says are done.
    pub confirmed: Vec<StepId>,
    pub clock: Clock,
    pub pace: DrainTimes,
    pub tell: &'a mut (dyn FnMut(&ApplyEvent) + Send),
}

/// What one look shows.
struct Look {
    reading: ClusterReading,
    record: ChangeRecord,
    target: WantedDocuments,
    plan: ChangePlan,
    items: Vec<ProgressItem>,
}

/// How long requests may take until a step has to show, whether the server answers or not.
struct Bound {
    left: Duration,
    patience: Duration,
    /// What was waited for until now.
    why: String,
}

impl Bound {
    fn of(patience: Duration, waiting: Option<&(String, Instant)>) -> Self {
        let why = waiting.map(|(why, _)| why.as_str()).filter(|why| !why.is_empty());
        let why = why.unwrap_or("the server did not answer in time").to_owned();
        let left = waiting.map_or(patience, |(_, since)| patience.saturating_sub(since.elapsed()));
        Self { left, patience, why }
    }

    async fn hold<T>(&self, asking: impl Future<Output = Result<T, ApplyError>>) -> Result<T, ApplyError> {
        let late = |_| ApplyError::Late { why: self.why.clone(), waited_s: self.patience.as_secs() };
        tokio::time::timeout(self.left, asking).await.map_err(late)?
    }
}

impl Look {
    /// kubeadm's file of a node: its own facts and the configuration as it is going to be. `None` for a node that is not known.
    fn text_of(&self, node: &str, file: &NodeFile) -> Result<Option<String>, ConvertError> {
        let host = self.reading.running.control_plane.iter().find(|live| live.host.name == node);
        let (Some(live), Some(cluster)) = (host, self.target.document(DocumentKind::Cluster)) else {
            return Ok(None);
        };
        file.text(self.plan.id.as_str(), &live.host, cluster).map(Some)
    }

    fn for_people(self, next: usize) -> Result<Applied, ApplyError> {
        let texts = self.texts()?;
        Ok(Applied::ForPeople { plan: Box::new(self.plan), items: self.items, next, texts })
    }

    /// All of them, by their paths.
    fn texts(&self) -> Result<BTreeMap<String, String>, ConvertError> {
        let mut texts = BTreeMap::new();
        for (step, node) in self.plan.steps.iter().filter_map(|step| Some((step, step.nodes.first()?))) {
            for file in &step.files {
                if let Some(text) = self.text_of(node, file)? {
                    texts.insert(file.path.clone(), text);
                }
            }
        }
        Ok(texts)
    }
}

/// Puts its standard input where a step wants a file.
pub fn uploaded(file: &NodeFile) -> CommandLine {
    CommandLine::of("install -D -m 0600 /dev/stdin {}", [&file.path])
}

impl Application<'_> {
    /// Does what comes before anything is written, and gives the steps that are done: files are looked at and images fetched while
    /// no document names them. Where people do what is done on nodes, nothing.
    ///
    /// # Errors
    /// [`ApplyError`]: nothing that runs has changed.
    pub async fn prepare<'p>(
        &mut self,
        plan: &'p ChangePlan,
        running: &Running,
    ) -> Result<Vec<&'p PlannedStep>, ApplyError> {
        let (mut sums, mut done) = (BTreeMap::new(), Vec::new());
        let is_by_people = self.hands.is_none();
        for (at, step) in plan.preparation().filter(|_| !is_by_people) {
            self.told_step(plan, at);
            for node in &step.nodes {
                if let Some(target) = self.target(running, node)? {
                    self.lines(&target, step, &mut sums).await?;
                }
            }
            done.push(step);
        }
        Ok(done)
    }

    /// Carries out the change that the cluster's record names; `prepared`: the steps that are done.
    ///
    /// # Errors
    /// [`ApplyError`]: the first thing that does not work stops it.
    pub async fn carry_out(&mut self, prepared: &[&PlannedStep]) -> Result<Applied, ApplyError> {
        let mut doing = Doing::begin(&self.change, self.hands.is_none());
        doing.confirmed.clone_from(&self.confirmed);
        prepared.iter().for_each(|step| doing.note(step));
        let (mut sums, mut before) = (BTreeMap::new(), None);
        // What is waited for, since the last step.
        let mut waiting: Option<(String, Instant)> = None;
        loop {
            let bound = Bound::of(self.pace.patience, waiting.as_ref());
            let (step, look) = match bound.hold(self.look(&mut before)).await {
                Ok(look) => (next(&look.plan, &look.items, &look.reading.running, &doing), Some(look)),
                // It was read a moment ago: the only API server restarts.
                Err(error) if error.may_pass() => (NextMove::Wait(error.to_string()), None),
                Err(error) => return Err(error),
            };
            match (step, look) {
                (NextMove::Finished, Some(look)) => match bound.hold(self.complete(look)).await {
                    Err(error) if error.may_pass() => self.wait(error.to_string(), &mut waiting).await?,
                    ended => return ended,
                },
                (NextMove::Confirm(at), Some(look)) => return look.for_people(at),
                (NextMove::Do(at), Some(look)) => {
                    // Without a way to hosts the API's part goes on until the first step on a node.
                    if doing.by_people && !look.plan.steps[at].id.is_by_api() {
                        return look.for_people(at);
                    }
                    // What runs on a node goes on without whoever waits for it, so that its end is waited for.
                    let is_by_api = look.plan.steps[at].id.is_by_api();
                    let own = Bound::of(self.pace.patience, None);
                    let performing = self.perform(&look, at, &mut sums);
                    match if is_by_api { own.hold(performing).await } else { performing.await } {
                        Err(error) if error.may_pass() => self.wait(error.to_string(), &mut waiting).await?,
                        performed => {
                            performed?;
                            // Patience counts from the last step that was done.
                            waiting = Some((String::new(), Instant::now()));
                            doing.note(&look.plan.steps[at]);
                            if let Some(before) = &mut before {
                                let patience = self.pace.patience;
                                let noting = self.note_heartbeats(&look, at, before);
                                // A server that does not answer is noticed by the next look.
                                let _ = tokio::time::timeout(patience, noting).await;
                            }
                        }
                    }
                }
                (NextMove::Stop(why), _) => return Err(ApplyError::Check(why)),
                (NextMove::Wait(why), _) => self.wait(why, &mut waiting).await?,
                // Without a look there is only waiting: these do not occur.
                (NextMove::Finished | NextMove::Confirm(_) | NextMove::Do(_), None) => {}
            }
        }
    }

    /// Waits for a moment, as long as there is patience left since the last step.
    async fn wait(&mut self, why: String, waiting: &mut Option<(String, Instant)>) -> Result<(), ApplyError> {
        let begun = waiting.get_or_insert_with(|| (String::new(), Instant::now()));
        let left = self.pace.patience.saturating_sub(begun.1.elapsed());
        if left.is_zero() {
            return Err(ApplyError::Late { why, waited_s: self.pace.patience.as_secs() });
        }
        if begun.0 != why {
            (self.tell)(&ApplyEvent::Waiting(why.clone()));
            begun.0 = why;
        }
        tokio::time::sleep(self.pace.poll.min(left)).await;
        Ok(())
    }

    // Of a shared reference the future could not be sent: `tell` is not `Sync`.
    async fn look(&mut self, before: &mut Option<SeenBefore>) -> Result<Look, ApplyError> {
        let client = self.writer.client();
        let mut reading = read(client, &self.server).await?;
        let troubles = reading.running.troubles();
        // Noted once: what was down before the change is not its doing.
        let before = before.get_or_insert_with(|| SeenBefore { troubles, ..SeenBefore::default() });
        reading.running.before = before.clone();
        let record = reading.record.clone().filter(ChangeRecord::is_open).ok_or(ApplyError::NothingOpen)?;
        // Whoever may write the ConfigMap must not choose what runs on hosts.
        if !record.asks_for_the_same(&self.change) {
            let why = "ConfigMap kube-system/capstan-change asks for something else than what was confirmed: look at `capstan change status`";
            return Err(ApplyError::Check(why.to_owned()));
        }
        // What is acknowledged once is so for this run: half done, everything looks like drift.
        let consent = Consent { acknowledged: Acknowledged::Everything, force: self.consent.force };
        let Judged { target, plan, items } = judge(client, &mut reading, &record, consent).await?;
        permitted(&plan)?;
        for (name, node) in &reading.running.nodes {
            // Whose API server may not be asked is known by its kubelet alone.
            if let (Sighting::Hidden(_), Some(heartbeat)) = (&node.api_server, &node.heartbeat) {
                before.heartbeats.entry(name.clone()).or_insert_with(|| heartbeat.clone());
            }
        }
        Ok(Look { reading, record, target, plan, items })
    }

    /// What nodes report from now on is about the step that was done.
    async fn note_heartbeats(&mut self, look: &Look, at: usize, before: &mut SeenBefore) {
        let step = &look.plan.steps[at];
        for name in step.nodes.iter().filter(|_| step.id.restarts_control_plane()) {
            let known = look.reading.running.nodes.get(name).and_then(|node| node.heartbeat.clone());
            let Some(known) = known else { continue };
            let latest = look::heartbeat(self.writer.client(), name).await;
            before.heartbeats.insert(name.clone(), latest.unwrap_or(known));
        }
    }

    async fn perform(
        &mut self,
        look: &Look,
        at: usize,
        sums: &mut BTreeMap<String, (String, String)>,
    ) -> Result<(), ApplyError> {
        let step = &look.plan.steps[at];
        self.told_step(&look.plan, at);
        match step.id {
            StepId::G1 => self.document(look, "kubeadm-config").await,
            StepId::G2 => self.document(look, "kubelet-config").await,
            StepId::G3 => self.document(look, "kube-proxy").await,
            StepId::P1 | StepId::D1 => {
                let Some(cluster) = look.target.document(DocumentKind::Cluster) else { return Ok(()) };
                let (_, settings) = ClusterSettings::pair(&cluster.old, &cluster.new)?;
                let coredns = look.reading.running.coredns.as_ref().map(|state| state.image.as_str());
                let images = settings.addon_images(coredns);
                let what = if step.id == StepId::P1 {
                    addons::roll_kube_proxy(&self.writer, &look.reading.running, &images).await?;
                    "DaemonSet kube-system/kube-proxy"
                } else {
                    addons::roll_coredns(&self.writer, &images).await?;
                    "Deployment kube-system/coredns"
                };
                (self.tell)(&ApplyEvent::Wrote(what.to_owned()));
                Ok(())
            }
            _ => {
                for node in &step.nodes {
                    self.on_node(look, step, node, sums).await?;
                }
                Ok(())
            }
        }
    }

    async fn document(&mut self, look: &Look, map: &str) -> Result<(), ApplyError> {
        write::go_on(&self.writer, &look.reading, &look.record, map).await?;
        (self.tell)(&ApplyEvent::Wrote(format!("ConfigMap kube-system/{map}")));
        Ok(())
    }

    async fn on_node(
        &mut self,
        look: &Look,
        step: &PlannedStep,
        node: &str,
        sums: &mut BTreeMap<String, (String, String)>,
    ) -> Result<(), ApplyError> {
        let Some(target) = self.target(&look.reading.running, node)? else { return Ok(()) };
        // Read before the drain cordons it: what somebody else cordoned stays so.
        let was_cordoned =
            look.reading.running.nodes.get(node).is_some_and(|n| n.cordoned && !n.drained_by_us);
        if step.id == StepId::K2 {
            self.told_command(node, &format!("kubectl drain {node} (through the API)"));
            drain::drain(&self.writer, node, &look.plan.id, self.pace).await?;
        }
        for file in &step.files {
            self.upload(look, &target, file).await?;
        }
        self.lines(&target, step, sums).await?;
        if step.id == StepId::K2 {
            drain::give_back(&self.writer, node, was_cordoned).await.map_err(ChangeWriteError::from)?;
            self.told_command(node, &format!("kubectl uncordon {node} (through the API)"));
        }
        Ok(())
    }

    /// The commands of a step on one host; sums of files are compared with those of the hosts before.
    async fn lines(
        &mut self,
        target: &CommandTarget,
        step: &PlannedStep,
        sums: &mut BTreeMap<String, (String, String)>,
    ) -> Result<(), ApplyError> {
        // Lines with kubectl are for people; here the API does the same.
        for line in step.commands.iter().filter(|line| !line.as_str().starts_with("kubectl ")) {
            let output = self.command(target, line, "").await?;
            if step.id == StepId::H1 && line.as_str().starts_with("sha256sum ") {
                compare(sums, &target.node, line.as_str(), &output)?;
            }
        }
        Ok(())
    }

    /// `None`: people do what is done on nodes.
    fn target(&self, running: &Running, node: &str) -> Result<Option<CommandTarget>, ApplyError> {
        let Some(hands) = &self.hands else { return Ok(None) };
        let seen = running.nodes.get(node);
        let host = hands.way.host(node, seen.and_then(|seen| seen.address.as_deref()))?;
        Ok(Some(CommandTarget { node: node.to_owned(), host }))
    }

    async fn upload(
        &mut self,
        look: &Look,
        target: &CommandTarget,
        file: &NodeFile,
    ) -> Result<(), ApplyError> {
        let Some(text) = look.text_of(&target.node, file)? else { return Ok(()) };
        self.command(target, &uploaded(file), &text).await.map(drop)
    }

    async fn command(
        &mut self,
        target: &CommandTarget,
        line: &CommandLine,
        input: &str,
    ) -> Result<String, ApplyError> {
        self.told_command(&target.node, line.as_str());
        let Some(executor) = self.hands.as_ref().map(|hands| hands.executor) else {
            return Ok(String::new());
        };
        let mut waiting = None;
        let output = loop {
            match self.ended(&target.node, executor.run(target, line, input)).await {
                // After a cut connection the last command may still run
                // there, and a second kubeadm would collide with it.
                Err(busy @ ExecutorError::Busy { .. }) => self.wait(busy.to_string(), &mut waiting).await?,
                other => break other?,
            }
        };
        (self.tell)(&ApplyEvent::Output { node: target.node.clone(), text: output.clone() });
        Ok(output)
    }

    /// Waits for the end of a command, and says from time to time that it still runs: kubeadm may take minutes.
    async fn ended<T>(&mut self, node: &str, run: impl Future<Output = T>) -> T {
        let (begun, mut run) = (Instant::now(), std::pin::pin!(run));
        loop {
            if let Ok(ended) = tokio::time::timeout(STILL_RUNS, &mut run).await {
                return ended;
            }
            let seconds = begun.elapsed().as_secs();
            (self.tell)(&ApplyEvent::Waiting(format!("the command on {node} runs for {seconds} s")));
        }
    }

    fn told_step(&mut self, plan: &ChangePlan, at: usize) {
        let step = &plan.steps[at];
        (self.tell)(&ApplyEvent::Step {
            number: at + 1,
            of: plan.steps.len(),
            id: step.id,
            title: step.title.clone(),
            nodes: step.nodes.clone(),
        });
    }

    fn told_command(&mut self, node: &str, line: &str) {
        (self.tell)(&ApplyEvent::Command { node: node.to_owned(), line: line.to_owned() });
    }

    async fn complete(&mut self, look: Look) -> Result<Applied, ApplyError> {
        let mut record = look.record.clone();
        record.state = RecordState::Complete;
        record.completed = Some(time::rfc3339(self.clock.now()));
        record.evidence =
            look.items.iter().filter(|item| item.state == ItemState::Done).map(evidence).collect();
        let said =
            self.confirmed.iter().map(|step| format!("{}: done, says the person who went on", step.name()));
        record.evidence.extend(said);
        write::keep(&self.writer, &record, Some(&look.record)).await?;
        (self.tell)(&ApplyEvent::Wrote("the record kube-system/capstan-change".to_owned()));
        Ok(Applied::Complete(look.items))
    }
}

fn evidence(item: &ProgressItem) -> String {
    let component = item.component.map_or("", |component| component.name());
    format!("{} {} {component}: {}", item.step.name(), item.node, item.evidence)
}

/// The first node's sum of a file is what the others must have.
fn compare(
    sums: &mut BTreeMap<String, (String, String)>,
    node: &str,
    line: &str,
    output: &str,
) -> Result<(), ApplyError> {
    let sum = output.split_whitespace().next().unwrap_or("nothing").to_owned();
    let path = line.trim_start_matches("sha256sum -- ").to_owned();
    let (first, one) = sums.entry(path.clone()).or_insert_with(|| (node.to_owned(), sum.clone())).clone();
    if one == sum {
        return Ok(());
    }
    Err(ApplyError::FilesDiffer { path, first, one, node: node.to_owned(), other: sum })
}
