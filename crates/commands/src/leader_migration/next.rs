//! `capstan leader-migration next --apply`: the next change of a migration, made. Owns what is said, which change is next of those
//! that people and programs make, and the question before it; what is written goes through the pipeline of everything that is.

use std::io::{BufRead, Write};

use anyhow::bail;

use super::args::NextArgs;
use super::walkthrough::{Looked, edit_text, look_at};
use crate::act::{show_diff, show_findings};
use crate::change::args::CarryOutArgs;
use crate::change::{self, ChangeAnswer, Session};
use crate::confirmation::LinePrompt;
use crate::exit_code::ExitCode;
use capstan_base::text::sanitize_line;
use capstan_dashboard::operations::change::source::LiveCluster;
use capstan_dashboard::operations::guard::Guard;
use capstan_dashboard::operations::migration::writes;
use capstan_dashboard::operations::object_writes::ObjectWrites;
use capstan_dashboard::operations::{Confirmation, blocked};
use capstan_engine::client::Client;
use leader_migration::edits::{EditAct, EditRole, PlaceOwner, StageEdit, edits};
use leader_migration::stages::{StageReport, StageState, Walkthrough};

/// For the journal.
const ACTION: &str = "leader-migration next";

/// One command at work.
pub struct Next<'n, O, A> {
    pub session: &'n Session,
    pub args: &'n NextArgs,
    pub out: &'n mut O,
    pub answers: &'n mut A,
}

impl<O: Write + Send, A: BufRead + Send> Next<'_, O, A> {
    /// Makes the next change of the cluster.
    ///
    /// # Errors
    /// The cluster cannot be read, or the change was not confirmed, not begun or not made, in a sentence.
    pub async fn apply(&mut self, live: LiveCluster) -> anyhow::Result<ChangeAnswer> {
        self.session.guard.over(live.read_only).check_writable()?;
        let now = self.session.guard.clock.now();
        let Looked { situation, settings, remarks } = look_at(&live, &self.args.walk, now).await?;
        let report = match situation.judge() {
            Walkthrough::NothingToMigrate { .. } => None,
            Walkthrough::Stages(reports) => {
                reports.into_iter().find(|report| report.state != StageState::Done)
            }
        };
        let Some(report) = report else {
            return Ok(answer("nothing is left to do\n".to_owned(), ExitCode::Success));
        };
        if let StageState::Blocked(why) = &report.state {
            return Ok(answer(
                format!("{}; nothing was written\n", stage_line(&report, why)),
                ExitCode::Blocked,
            ));
        }
        let made = edits(report.stage, &settings);
        let mut for_people = Vec::new();
        for edit in made.way() {
            if edit.act == EditAct::ByHand {
                for_people.push(edit);
                // What can be seen in the cluster has to be there before the next change.
                if edit.role == EditRole::Each {
                    break;
                }
            } else if let Some(mut done) = self.change(&live, edit, &for_people).await? {
                done.remarks = [remarks, done.remarks].concat();
                return Ok(done);
            }
        }
        let mut left = answer(left(&report, &for_people, made.owner), ExitCode::Pending);
        left.remarks.extend(remarks.into_iter().chain(made.omitted));
        Ok(left)
    }

    /// One change. `None`: it is made already.
    async fn change(
        &mut self,
        live: &LiveCluster,
        edit: &StageEdit,
        before: &[&StageEdit],
    ) -> anyhow::Result<Option<ChangeAnswer>> {
        if let EditAct::Configuration(_) = edit.act {
            self.say_before(before)?;
            let CarryOutArgs { yes, acknowledge, .. } = &self.args.carry_out;
            // --yes answers the question of the change, and not whether the files are on the hosts.
            if !before.is_empty() && *yes && acknowledge.is_empty() {
                let text = "nothing was written: add --acknowledge when this is done\n".to_owned();
                return Ok(Some(answer(text, ExitCode::NeedsAcknowledgement)));
            }
            let how = (self.session, &self.args.carry_out);
            let patch = (ACTION, edit.text.as_str());
            return change::carry_out_patch(patch, live.clone(), how, self.out, self.answers).await.map(Some);
        }
        let (client, server) = home(live, &edit.act)?;
        let Some(step) = ObjectWrites::read((client, server), ACTION, writes(&edit.act)?).await? else {
            return Ok(None);
        };
        // A dry run of a deletion has no difference to show.
        if !matches!(edit.act, EditAct::Delete(_)) && !step.changes().await? {
            return Ok(None);
        }
        self.make(step, edit, server, live).await.map(Some)
    }

    /// Looks at it, shows it, asks, and writes.
    async fn make(
        &mut self,
        mut step: ObjectWrites<'_>,
        edit: &StageEdit,
        server: &str,
        live: &LiveCluster,
    ) -> anyhow::Result<ChangeAnswer> {
        let guard: Guard = self.session.guard.over(live.read_only);
        let looked = guard.look(&mut step).await?;
        writeln!(self.out, "{}", sanitize_line(&edit.title))?;
        show_findings(&looked.findings, self.out)?;
        show_diff(&looked.diff, self.out)?;
        if blocked(&looked.findings).is_some() {
            return Ok(answer("nothing was written\n".to_owned(), ExitCode::FailedCheck));
        }
        let objects = step.objects().join(", ");
        if !self.args.carry_out.yes {
            let prompt = LinePrompt {
                question: format!("Write {} at {}?", sanitize_line(&objects), sanitize_line(server)),
                confirmation: Confirmation::Yes.in_context(&live.setting),
                name: server,
                confirm_after_s: live.setting.confirm_after_s,
                otherwise: "leave --apply out to look",
            };
            prompt.ask(self.out, self.answers)?;
        }
        guard.write(&mut step, &looked.findings).await?;
        let how = sanitize_line(edit.inverse.lines().next().unwrap_or_default());
        let back = match edit.inverse.lines().count() {
            1 => format!("taken back by: {how}"),
            _ => "`capstan leader-migration back` says how it is taken back".to_owned(),
        };
        Ok(answer(format!("wrote {}\n{back}\n", sanitize_line(&objects)), ExitCode::Success))
    }

    /// What people do before the change that is made.
    fn say_before(&mut self, edits: &[&StageEdit]) -> std::io::Result<()> {
        if edits.is_empty() {
            return Ok(());
        }
        let mut text = "for you, before what follows is confirmed:\n".to_owned();
        edits.iter().for_each(|edit| edit_text(&mut text, edit));
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}

/// Where the objects of a change are: a KubeadmControlPlane is in the management cluster.
fn home<'l>(live: &'l LiveCluster, act: &EditAct) -> anyhow::Result<(&'l Client, &'l str)> {
    let is_managed = matches!(act, EditAct::Patch { object, .. } if object["kind"] == "KubeadmControlPlane");
    match &live.managed {
        _ if !is_managed => Ok((&live.client, live.server.as_str())),
        Some(managed) => Ok((&managed.management.client, managed.management.server.as_str())),
        None => bail!(
            "a KubeadmControlPlane is patched in its management cluster: use the kubeconfig of that one, and --cluster NS/NAME; \
             nothing was written"
        ),
    }
}

fn answer(document: String, exit_code: ExitCode) -> ChangeAnswer {
    ChangeAnswer { document, remarks: Vec::new(), exit_code }
}

fn stage_line(report: &StageReport, why: &str) -> String {
    format!("{} {}: {}", report.stage as usize, report.state.word(), sanitize_line(why))
}

/// Nothing is left for a program in this stage.
fn left(report: &StageReport, for_people: &[&StageEdit], owner: PlaceOwner) -> String {
    let mut text = format!("{}\n", stage_line(report, report.state.reason()));
    match owner {
        _ if !for_people.is_empty() => text.push_str("for you:\n"),
        PlaceOwner::Kubeadm => text.push_str("`capstan change status` shows how far the last change is\n"),
        PlaceOwner::ControlPlane | PlaceOwner::Hosts => {}
    }
    for_people.iter().for_each(|edit| edit_text(&mut text, edit));
    text.push_str("nothing was written\n");
    text
}
