//! `capstan change apply` and `rollback`: what is asked before, what is said meanwhile, the log of commands. Owns
//! this conversation; what is looked at before and what is written are `operations::change`'s, the loop is `reconfigure::apply`'s.

use std::fs::File;
use std::io::{BufRead, Write};

use anyhow::Context as _;

use super::args::{CarryOutArgs, ExecutorArg, RequestArgs, RollbackArgs};
use super::forecast::forecast;
use super::plan::{check_names, exit_code, shown};
use super::{ChangeAnswer, Session, changes, hosts, offline, runbook, status, target};
use crate::confirmation::LinePrompt;
use crate::exit_code::{ExitCode, WrongUsage};
use capstan_base::private_file;
use capstan_base::text;
use capstan_base::time;
use capstan_dashboard::operations::change::source::{LiveCluster, SourceReading};
use capstan_dashboard::operations::change::{
    Aim, Carrying, ChangeError, ChangeWrite, ChangeWritten, ConfirmedChange, HOST, Judged, ProposedChange,
    planned,
};
use capstan_dashboard::operations::{Finding, blocked};
use capstan_engine::reconfigure::apply::{Applied, ApplyEvent};
use capstan_engine::reconfigure::drain::DrainTimes;
use capstan_engine::reconfigure::judge::Consent;
use capstan_engine::reconfigure::preflight::Hands;
use kubeadm_change::change_id::ChangeId;
use kubeadm_change::plan::{Acknowledged, AsStored, PlanOptions, PlanState};
use kubeadm_change::record::ChangeRecord;
use kubeadm_change::request::WantedDocuments;

/// Said where nothing can be carried out.
const FILES: &str = "files cannot be changed: leave --from-dir out to carry it out on the cluster of the kubeconfig, or use \
                     `change plan --files DIR`";

/// One command at work.
pub(super) struct Doing<'d, O, A> {
    pub session: &'d Session,
    pub args: &'d CarryOutArgs,
    pub out: &'d mut O,
    pub answers: &'d mut A,
}

impl<'d, O: Write + Send, A: BufRead + Send> Doing<'d, O, A> {
    /// Carries a request out, or goes on with what was begun.
    ///
    /// # Errors
    /// What cannot be read or asked, in a sentence. A check that fails is an answer with its exit code.
    pub(super) async fn apply(
        &mut self,
        found: SourceReading,
        request: &RequestArgs,
    ) -> anyhow::Result<ChangeAnswer> {
        self.writable(&found)?;
        let wanted = target(&found.reading.inputs, request)?;
        self.begin_or_go_on(found, (wanted, request.as_stored), "change apply").await
    }

    /// `action`: the command's name, for the journal.
    ///
    /// # Errors
    /// As [`Doing::apply`].
    pub(super) async fn begin_or_go_on(
        &mut self,
        found: SourceReading,
        (wanted, as_stored): (WantedDocuments, bool),
        action: &str,
    ) -> anyhow::Result<ChangeAnswer> {
        let live = self.writable(&found)?;
        if let Some(open) = found.reading.record.clone().filter(ChangeRecord::is_open) {
            // Behind its first write a change is stored: the same request differs in nothing then,
            // and goes on.
            if !changes(&wanted).is_empty() {
                let words = format!(
                    "change {} of {} is not over: go on with it by `capstan change apply` without a request, or take it back by `capstan change rollback`\n",
                    open.id, open.by
                );
                return Ok(ChangeAnswer::of(words, exit_code(PlanState::Blocked)));
            }
            self.say(&format!("going on with change {} of {}, begun {}", open.id, open.by, open.begun))?;
            return self.go_on(found, live, open, action).await;
        }
        self.begin(found, live, (Aim::Begin, wanted), (self.options(Aim::Begin, as_stored), action)).await
    }

    /// Takes the last change back.
    ///
    /// # Errors
    /// As [`Doing::apply`].
    pub(super) async fn rollback(
        &mut self,
        found: SourceReading,
        args: &RollbackArgs,
    ) -> anyhow::Result<ChangeAnswer> {
        let record = found.reading.record.clone().context(
            "there is nothing to take back: ConfigMap kube-system/capstan-change, which keeps what was stored before, is not there",
        )?;
        if let Some(answer) = self.of_taken_back(&found, &record, args).await? {
            return Ok(answer);
        }
        let mut wanted = record.taken_back(&found.reading.inputs).map_err(|errors| super::all(&errors))?;
        if args.plan {
            return self.only_planned(&found, &mut wanted).await;
        }
        let live = self.writable(&found)?;
        self.begin(
            found,
            live,
            (Aim::TakeBack, wanted),
            (self.options(Aim::TakeBack, false), "change rollback"),
        )
        .await
    }

    async fn only_planned(
        &self,
        found: &SourceReading,
        wanted: &mut WantedDocuments,
    ) -> anyhow::Result<ChangeAnswer> {
        let plan = planned(found, wanted, self.options(Aim::TakeBack, false)).await?;
        let document = self.session.style.block(shown(&plan, &found.reading.inputs));
        Ok(ChangeAnswer::of(document, exit_code(plan.state)))
    }

    /// A change that took another one back is not taken back by the way: what it took away would be stored again. One that
    /// is not over goes on.
    async fn of_taken_back(
        &mut self,
        found: &SourceReading,
        record: &ChangeRecord,
        args: &RollbackArgs,
    ) -> anyhow::Result<Option<ChangeAnswer>> {
        let Some(taken) = record.takes_back.as_ref().filter(|_| args.change.as_ref() != Some(&record.id))
        else {
            return Ok(None);
        };
        if record.is_open() {
            self.say(&format!("change {} takes {} back and is not over", record.id, taken.id))?;
            if args.plan {
                let mut wanted = record.documents().map_err(|errors| super::all(&errors))?;
                return self.only_planned(found, &mut wanted).await.map(Some);
            }
            let live = self.writable(found)?;
            return self.go_on(found.clone(), live, record.clone(), "change rollback").await.map(Some);
        }
        let mut text = format!(
            "change {} took {} back; to take that back as well stores again what was taken away:\n",
            record.id, taken.id
        );
        let again = record.taken_back(&found.reading.inputs).map_err(|errors| super::all(&errors))?;
        for change in changes(&again) {
            text.push_str(&format!("  {}: {} → {}\n", change.path, change.old_text(), change.new_text()));
        }
        text.push_str(&format!(
            "if that is meant, name it: capstan change rollback --change {}\n",
            record.id
        ));
        Ok(Some(ChangeAnswer::of(self.session.style.block(text), exit_code(PlanState::Blocked))))
    }

    fn options(&self, aim: Aim, as_stored: bool) -> PlanOptions {
        PlanOptions {
            force: self.args.force,
            takes_back: aim == Aim::TakeBack,
            as_stored: as_stored.then(AsStored::default),
            patches: self.args.patch_folder.clone(),
            acknowledged: Acknowledged::of(&self.args.acknowledge),
            files: ".".to_owned(),
            ..PlanOptions::default()
        }
    }

    async fn begin(
        &mut self,
        found: SourceReading,
        live: LiveCluster,
        documents: (Aim, WantedDocuments),
        (options, action): (PlanOptions, &str),
    ) -> anyhow::Result<ChangeAnswer> {
        let judged = Judged::of_documents(found, live, documents, options).await?;
        // Only now: the names of conditions are those of one plan, which was just made.
        check_names(&Acknowledged::of(&self.args.acknowledge), &judged.plan)?;
        match judged.plan.state {
            PlanState::Ready => self.carry_out(&judged, action).await,
            PlanState::Nothing => self.without_work(&judged, action).await,
            PlanState::Blocked | PlanState::NeedsAcknowledgement | PlanState::Invalid => {
                Ok(self.plan_only(&judged))
            }
        }
    }

    /// The plan, which is all that comes of it.
    fn plan_only(&self, judged: &Judged) -> ChangeAnswer {
        ChangeAnswer::of(self.document(judged), exit_code(judged.plan.state))
    }

    fn document(&self, judged: &Judged) -> String {
        self.session.style.block(shown(&judged.plan, &judged.found.reading.inputs))
    }

    /// Nothing differs: a change that was begun and whose documents are back is over.
    async fn without_work(&mut self, judged: &Judged, action: &str) -> anyhow::Result<ChangeAnswer> {
        let mut answer = self.plan_only(judged);
        if !judged.found.reading.record.as_ref().is_some_and(ChangeRecord::is_open) {
            return Ok(answer);
        }
        let write = judged.write(&self.session.guard).map_err(anyhow::Error::msg)?;
        if let ChangeWrite::Close(open) = write {
            self.write(judged, (action, write, None), &[], None).await?;
            let closed =
                format!("change {} was begun and nothing of it is stored: its record is closed\n", open.id);
            answer.document.push_str(&closed);
        }
        Ok(answer)
    }

    /// Goes on with a change that was begun. What stands in its record may be anybody's: it is judged anew and shown.
    async fn go_on(
        &mut self,
        found: SourceReading,
        live: LiveCluster,
        open: ChangeRecord,
        action: &str,
    ) -> anyhow::Result<ChangeAnswer> {
        // Whoever may write the record must not choose a folder that root reads: it is named again
        // by who goes on.
        if open.patches != self.args.patch_folder {
            let given = open
                .patches
                .as_ref()
                .map_or("without --patches".to_owned(), |folder| format!("with --patches {folder}"));
            let words =
                format!("change {} was begun {given}: what is carried out has to be the same\n", open.id);
            return Ok(ChangeAnswer::of(self.session.style.block(words), exit_code(PlanState::Blocked)));
        }
        let judged = Judged::of_record(found, live, open, self.consent()).await?;
        match judged.plan.state {
            PlanState::Ready | PlanState::Nothing => self.carry_out(&judged, action).await,
            PlanState::Blocked | PlanState::NeedsAcknowledgement | PlanState::Invalid => {
                Ok(self.plan_only(&judged))
            }
        }
    }

    /// Looks at it, shows it, asks, and writes.
    async fn carry_out(&mut self, judged: &Judged, action: &str) -> anyhow::Result<ChangeAnswer> {
        let write = judged.write(&self.session.guard).map_err(anyhow::Error::msg)?;
        let guard = self.session.guard.over(judged.live.read_only);
        let ssh = hosts::ssh_of(&self.args.hosts);
        // Hosts are part of what is looked at: what they lack is named before anything is written.
        let hands = hosts::hands(&self.args.hosts, &judged.live, self.session, &ssh).await?;
        let looked = guard.look(&mut ProposedChange::new(judged, hands.clone())).await?;
        let mut document = self.document(judged);
        for finding in looked.findings.iter().filter(|finding| finding.rule == HOST) {
            document.push_str(&format!("\non hosts: {}\n", text::sanitize_line(&finding.text)));
        }
        if let Some(why) = blocked(&looked.findings) {
            document
                .push_str(&format!("\nonly planned, nothing was written: {}\n", text::sanitize_line(&why)));
            return Ok(ChangeAnswer::of(document, ExitCode::FailedCheck));
        }
        self.print(&document)?;
        // Printed behind the plan, which can be read while this is computed.
        let forecast = forecast(&judged.found, &judged.plan, self.session).await;
        self.print(&forecast)?;
        self.confirm(judged, &write)?;
        let record = write.record().cloned();
        // Opened before the first write: a log that cannot be made ends the command while nothing
        // has happened.
        let log = match &record {
            Some(record) if self.is_by_ssh() => Some(self.log(&record.id)?),
            Some(_) | None => None,
        };
        let written = self.write(judged, (action, write, hands), &looked.findings, log).await;
        // With the addresses as they were read: when no API server answers, they cannot be read again.
        let offline = record.as_ref().map(|record| offline::command(record, &judged.found.reading.running));
        self.report(record.as_ref(), written, offline.filter(|_| self.is_by_ssh()).as_deref())
    }

    fn is_by_ssh(&self) -> bool {
        self.args.hosts.executor == ExecutorArg::Ssh
    }

    fn consent(&self) -> Consent {
        Consent { force: self.args.force, acknowledged: Acknowledged::of(&self.args.acknowledge) }
    }

    /// Through the pipeline of everything that is written. `findings`: what was shown; `log`: of the commands on nodes.
    async fn write(
        &mut self,
        judged: &Judged,
        (action, write, hands): (&str, ChangeWrite<'_>, Option<Hands<'_>>),
        findings: &[Finding],
        mut log: Option<File>,
    ) -> Result<ChangeWritten, ChangeError> {
        let live = &judged.live;
        let guard = self.session.guard.over(live.read_only);
        let clock = guard.clock.clone();
        let is_terminal = self.session.style.terminal;
        let consent = self.consent();
        let out = &mut *self.out;
        let mut tell = |event: &ApplyEvent| {
            for line in words(event) {
                if let Some(log) = &mut log {
                    // A log that cannot be written any more must not leave a node half done.
                    let _ = writeln!(log, "{} {}", time::rfc3339(clock.now()), line.replace('\n', "\n    "));
                }
                if !matches!(event, ApplyEvent::Output { .. }) {
                    let line = if is_terminal { text::sanitize_line(&line) } else { line };
                    // A reader of the output that has gone must not end a change between two steps.
                    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
                }
            }
        };
        let carrying = Carrying {
            clock: guard.clock.clone(),
            consent,
            confirmed: self.args.done.clone(),
            pace: DrainTimes { poll: self.args.poll, patience: self.args.timeout },
            hands,
            tell: &mut tell,
        };
        guard.write(&mut ConfirmedChange { live, action, write, carrying }, findings).await
    }

    fn report(
        &mut self,
        record: Option<&ChangeRecord>,
        written: Result<ChangeWritten, ChangeError>,
        offline: Option<&str>,
    ) -> anyhow::Result<ChangeAnswer> {
        let style = self.session.style;
        let id = record.map_or("", |record| record.id.as_str());
        match written {
            Ok(ChangeWritten::Applied(Applied::Complete(items))) => {
                let text = status::table(&items) + &format!("\nchange {id} is complete\n");
                Ok(ChangeAnswer::of(style.block(text), ExitCode::Success))
            }
            Ok(ChangeWritten::Applied(Applied::ForPeople { plan, items, next, texts })) => {
                let text = status::table(&items) + &runbook::text(&plan, &items, next, &texts);
                Ok(ChangeAnswer::of(style.block(text), ExitCode::Pending))
            }
            // The rollout is its controller's, and goes on when this command has ended.
            Ok(ChangeWritten::Patched(words)) => Ok(ChangeAnswer::of(words, ExitCode::Pending)),
            Ok(ChangeWritten::Closed) => Ok(ChangeAnswer::default()),
            Err(error @ (ChangeError::Prepare(_) | ChangeError::Write(_) | ChangeError::Patch(_))) => {
                Ok(ChangeAnswer::of(format!("{error}\n"), ExitCode::FailedCheck))
            }
            Err(ChangeError::Apply(error)) => {
                let ways = record.map_or_else(String::new, ways_on);
                let mut text = format!("{error}\nwhat was done stays; {ways}\n");
                if let Some(offline) = offline.filter(|_| error.may_be_for_long()) {
                    text.push_str(&format!("if no API server comes back: {offline}\n"));
                }
                Ok(ChangeAnswer::of(style.block(text), ExitCode::FailedCheck))
            }
            Err(error @ (ChangeError::Refusal(_) | ChangeError::Source(_))) => Err(error.into()),
        }
    }

    fn log(&self, id: &ChangeId) -> anyhow::Result<File> {
        let path = match &self.args.log {
            Some(path) => path.clone(),
            // Beside the journal, which has a line of the same change.
            None => self.session.guard.journal.path().with_file_name(format!("change-{id}.log")),
        };
        private_file::make_folder_of(&path)?;
        private_file::append(&path).with_context(|| format!("--log {}", path.display()))
    }

    fn confirm(&mut self, judged: &Judged, write: &ChangeWrite<'_>) -> anyhow::Result<()> {
        if self.args.yes {
            return Ok(());
        }
        let place = match write {
            ChangeWrite::Patch { managed, .. } => {
                format!("{} of {}", managed.control_plane, managed.management.server)
            }
            ChangeWrite::Begin { .. } | ChangeWrite::GoOn(_) | ChangeWrite::Close(_) => {
                judged.live.server.clone()
            }
        };
        let prompt = LinePrompt {
            question: format!("Carry it out on {}?", text::sanitize_line(&place)),
            confirmation: judged.confirmation(),
            name: &judged.live.server,
            confirm_after_s: judged.live.setting.confirm_after_s,
            otherwise: "use `change plan` to look",
        };
        prompt.ask(self.out, self.answers)
    }

    fn writable(&self, found: &SourceReading) -> anyhow::Result<LiveCluster> {
        let live = found.live.clone().ok_or_else(|| WrongUsage(FILES.to_owned()))?;
        self.session.guard.over(live.read_only).check_writable()?;
        Ok(live)
    }

    fn print(&mut self, document: &str) -> std::io::Result<()> {
        self.out.write_all(document.as_bytes())?;
        self.out.flush()
    }

    fn say(&mut self, line: &str) -> std::io::Result<()> {
        writeln!(self.out, "{}", text::sanitize_line(line))
    }
}

/// What a person can do now.
fn ways_on(record: &ChangeRecord) -> String {
    let begin = "`capstan change status` shows it, the same command goes on";
    match &record.takes_back {
        None => format!("{begin}, `capstan change rollback` takes it back"),
        Some(taken) => format!("{begin}; it takes change {} back", taken.id),
    }
}

/// What is said of an event, line by line; what a command printed is one.
fn words(event: &ApplyEvent) -> Vec<String> {
    let line = match event {
        ApplyEvent::Begun(maps) => {
            return maps.iter().map(|map| format!("wrote ConfigMap kube-system/{map}")).collect();
        }
        ApplyEvent::Step { number, of, id, title, nodes } if nodes.is_empty() => {
            format!("step {number} of {of}, {}: {title}", id.name())
        }
        ApplyEvent::Step { number, of, id, title, nodes } => {
            format!("step {number} of {of}, {} [{}]: {title}", id.name(), nodes.join(", "))
        }
        ApplyEvent::Command { node, line } => format!("  {node} $ {line}"),
        ApplyEvent::Output { node, text } => format!("  {node} > {}", text.trim_end()),
        ApplyEvent::Wrote(what) => format!("  wrote {what}"),
        ApplyEvent::Waiting(why) => format!("  waiting: {why}"),
    };
    vec![line]
}
