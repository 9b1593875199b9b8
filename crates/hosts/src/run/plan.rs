//! A run before it is anywhere: its steps, its files and its script, printable without secrets. Must not know a machine.

use std::fmt;

use capstan_base::command_line::CommandLine;
use serde::Serialize;

use super::archive::archive;
use super::id::RunId;
use super::options::{KubeadmStep, RunOptions, STEP_LIMIT_S};
use super::redactor::Redactor;
use super::step::{PlannedStep, StepKind, sha256_of};
use super::steps::Steps;
use crate::bootstrap::BootstrapData;
use crate::owner::HELD;

/// How a machine is reset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResetOptions {
    /// The run whose files and users go.
    pub of: RunId,
    /// Where several container runtimes are installed.
    pub cri_socket: Option<String>,
}

/// A run. Serialised and displayed it shows each step, with contents as digests.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunPlan {
    pub id: RunId,
    pub steps: Vec<PlannedStep>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubeadm: Option<KubeadmStep>,
    /// Of its script and contents: two runs with the same digest are the same.
    pub digest: String,
    #[serde(skip)]
    script: String,
}

impl RunPlan {
    pub fn bootstrap(id: RunId, data: &BootstrapData, options: &RunOptions) -> Self {
        let library =
            concat!(include_str!("runner.sh"), include_str!("accounts.sh"), include_str!("system.sh"));
        Self::of(id, Steps::of_bootstrap(data, options), &format!("{}{library}", head("no")))
    }

    /// Takes back what the run did, with what kubeadm leaves; a step that fails does not keep the next ones from it.
    pub fn reset(id: RunId, options: &ResetOptions) -> Self {
        let library = concat!(include_str!("runner.sh"), include_str!("reset.sh"));
        Self::of(id, reset_steps(options), &format!("{}{library}", head("yes")))
    }

    fn of(id: RunId, steps: Steps, library: &str) -> Self {
        let Steps { planned: steps, kubeadm } = steps;
        let lines: String = steps.iter().map(|step| format!("{}\n", step.line())).collect();
        let script = format!("{library}\n{lines}completed\n");
        let plan = Self { id, steps, kubeadm, digest: String::new(), script };
        Self { digest: sha256_of(plan.manifest().as_bytes()), ..plan }
    }

    fn contents(&self) -> impl Iterator<Item = (String, &[u8])> {
        let of_step = |step: &'_ PlannedStep| format!("files/{}", PlannedStep::label(step.number));
        self.steps.iter().filter_map(move |step| Some((of_step(step), step.content.as_deref()?)))
    }

    /// Which step is kubeadm's, for whoever comes with a newer plan in which it may be another.
    fn kubeadm_line(&self) -> String {
        self.kubeadm.map_or_else(
            || "none\n".to_owned(),
            |kubeadm| format!("{} {}\n", PlannedStep::label(kubeadm.number), kubeadm.verb.word()),
        )
    }

    /// As `sha256sum -c` reads it.
    fn manifest(&self) -> String {
        let line = |name: &str, bytes: &[u8]| format!("{}  {name}\n", sha256_of(bytes));
        let contents: String = self.contents().map(|(name, bytes)| line(&name, bytes)).collect();
        let own = line("script", self.script.as_bytes()) + &line("kubeadm", self.kubeadm_line().as_bytes());
        own + &contents
    }

    /// What is sent.
    pub(super) fn archive(&self) -> Vec<u8> {
        let (manifest, kubeadm) = (self.manifest(), self.kubeadm_line());
        let contents: Vec<(String, &[u8])> = self.contents().collect();
        let own = [
            ("manifest", manifest.as_bytes()),
            ("script", self.script.as_bytes()),
            ("kubeadm", kubeadm.as_bytes()),
        ];
        archive(own.into_iter().chain(contents.iter().map(|(name, bytes)| (name.as_str(), *bytes))))
    }

    /// For whatever the machine says of this run.
    pub fn redactor(&self) -> Redactor {
        let texts = self
            .steps
            .iter()
            .filter_map(|step| Some((std::str::from_utf8(step.content.as_deref()?).ok()?, step.is_private)));
        Redactor::of(texts)
    }

    /// The step of a number, as it is shown.
    pub fn step(&self, number: u32) -> Option<&PlannedStep> {
        self.steps.get(usize::try_from(number.checked_sub(1)?).ok()?)
    }

    /// The number behind the last step.
    pub(super) fn end(&self) -> u32 {
        u32::try_from(self.steps.len()).unwrap_or(u32::MAX).saturating_add(1)
    }
}

impl fmt::Debug for RunPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunPlan").field("id", &self.id).field("digest", &self.digest).finish_non_exhaustive()
    }
}

impl fmt::Display for RunPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "run {} in {}, unit {}", self.id, self.id.folder(), self.id.unit())?;
        self.steps.iter().try_for_each(|step| writeln!(f, "{}", step.described()))
    }
}

/// `go_on`: `yes` where a step that fails does not end the run.
fn head(go_on: &str) -> String {
    format!("#!/bin/sh\n{HELD}go_on={go_on}\nlimit_s={STEP_LIMIT_S}\n")
}

fn reset_steps(options: &ResetOptions) -> Steps {
    let mut steps = Steps::default();
    let socket = options.cri_socket.as_deref().unwrap_or_default();
    let run = options.of.as_str();
    for (title, words) in [
        ("run: kubeadm reset -f", CommandLine::of("reset_kubeadm {}", [socket])),
        ("stop the kubelet, unmount the volumes of pods", CommandLine::of("stop_kubelet", [])),
        ("remove the pods that are left", CommandLine::of("remove_pods {}", [socket])),
        ("remove network configuration, links and rules", CommandLine::of("clean_network {}", [run])),
        ("remove kubeadm's files and etcd's data", CommandLine::of("remove_node_files", [])),
        ("give back files and users as they were before the run", CommandLine::of("restore_files {}", [run])),
    ] {
        steps.plain(StepKind::Reset, title, words);
    }
    steps.plain(StepKind::Reset, "count the run as undone", CommandLine::of("count_as_undone {}", [run]));
    steps
}
