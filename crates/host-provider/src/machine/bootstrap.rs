//! The bootstrap data of a HostMachine runs on its Host, once. Owns what is read before a step is decided, and what is said of it; what
//! comes next says `capstan_hosts::run::decide`.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use serde_json::json;

use capi_types::host::annotation::ABANDON;
use capi_types::host::{HOST_FINALIZER, Host, HostRunStatus};
use capi_types::host_machine::condition::{BOOTSTRAP_SUCCEEDED, HOST_CLAIMED};
use capi_types::key::ObjectKey;
use capi_types::machine::Machine;
use capstan_engine::client::write::Part;
use capstan_engine::client::{Mode, Precondition};
use capstan_engine::engine::{Outcome, ReconcileError};
use capstan_engine::workload::EtcdMember;
use capstan_hosts::bootstrap::{self, Instance};
use capstan_hosts::run::{
    AskReason, Changed, Journal, LOG_END, MemberSeen, NodeSeen, ObservedRun, ResetReason, RunId, RunNext,
    RunOptions, RunPlan, Start, UnknownFact, Watched, decide,
};

use super::claim::{Claimed, not_ours};
use super::report::{MachineReport, Waiting};
use super::{HostMachines, Scope, reason};
use crate::cleaning::{Cleaned, Cleaning, run_status, runtime_socket, whole};
use crate::plan::initialized::is_initialized;
use crate::plan::node::{may_be_its_node, member_of, provider_id_of};
use crate::{AT_ONCE, WATCH_EVERY};

/// Something else has to answer first.
const FIND_OUT_EVERY: Duration = Duration::from_secs(10);
/// Until its Node is there.
const NODE_EVERY: Duration = Duration::from_secs(10);

impl HostMachines {
    /// One step of the run.
    pub(super) async fn bootstrapped(
        &self,
        scope: &Scope,
        claimed: &Claimed,
        data: &str,
        report: &mut MachineReport,
    ) -> Result<Result<Outcome, Waiting>, ReconcileError> {
        let plan = match plan_of(scope.uid(), report.provider_id(), &claimed.host, data) {
            Ok(plan) => plan,
            Err(error) => {
                let refused = Waiting::person("BootstrapDataRefused", error);
                return Ok(Err(refused.of(BOOTSTRAP_SUCCEEDED)));
            }
        };
        let watched = match self.watched(claimed, &plan).await {
            Ok(watched) => watched,
            Err(waiting) => return Ok(Err(waiting)),
        };
        let next = decide(&self.observed(scope, claimed, &plan, &watched).await);
        let done = self.act(scope, claimed, &plan, &watched, next, report).await?;
        let run = run_of(&plan, &watched, claimed, &done, next);
        self.show_run(&claimed.host, &run).await?;
        Ok(done)
    }

    /// The run, with the end of its log.
    async fn watched(&self, claimed: &Claimed, plan: &RunPlan) -> Result<Watched, Waiting> {
        let redactor = plan.redactor();
        let silent = |silence| Waiting::silent(&silence).of(BOOTSTRAP_SUCCEEDED);
        self.shells.watch(&claimed.reach, &plan.id, LOG_END, &redactor).await.map_err(silent)
    }

    async fn observed<'o>(
        &self,
        scope: &Scope,
        claimed: &Claimed,
        plan: &'o RunPlan,
        watched: &'o Watched,
    ) -> ObservedRun<'o> {
        let was_reset = watched.journal.as_ref().is_some_and(|journal| journal.was_reset);
        let is_clean = match was_reset {
            true => self.shells.prove(&claimed.reach).await.ok().map(|proof| proof.is_clean()),
            false => None,
        };
        let is_control_plane = scope.is_control_plane();
        let is_cluster_initialized = self.is_cluster_initialized(scope);
        let (node, member) = match has_died(watched) {
            true => (
                self.node_seen(scope, &claimed.host).await,
                self.member_seen(scope, &claimed.host, is_cluster_initialized).await,
            ),
            false => (NodeSeen::Unknown, MemberSeen::Unknown),
        };
        ObservedRun {
            plan,
            watched,
            is_control_plane,
            node,
            member,
            is_cluster_initialized,
            is_clean,
            has_token_expired: reason::has_token_expired(watched),
        }
    }

    fn is_cluster_initialized(&self, scope: &Scope) -> Option<bool> {
        let is_other = |machine: &Machine| {
            machine.spec.cluster_name == scope.cluster_key.name
                && machine.metadata.name != scope.machine.metadata.name
        };
        is_initialized(&scope.cluster, &self.machines.select(&scope.key.namespace, is_other))
    }

    async fn node(&self, scope: &Scope, host: &Host) -> Result<Option<std::sync::Arc<Node>>, String> {
        let provider_id = scope.own.spec.provider_id.as_deref();
        if let Some(provider_id) = provider_id {
            let known = self.workload.nodes_with(&scope.cluster_key, provider_id).await;
            if let Some(node) = known.map_err(|error| error.to_string())?.into_iter().next() {
                return Ok(Some(node));
            }
        }
        let Some(name) = hostname(host) else { return Ok(None) };
        let named = self.workload.node(&scope.cluster_key, &name).await.map_err(|error| error.to_string())?;
        Ok(named.filter(|node| may_be_its_node(node, provider_id)))
    }

    async fn node_seen(&self, scope: &Scope, host: &Host) -> NodeSeen {
        match self.node(scope, host).await {
            Err(_) => NodeSeen::Unknown,
            Ok(None) => NodeSeen::Absent,
            Ok(Some(node)) if is_ready(&node) => NodeSeen::Ready,
            Ok(Some(_)) => NodeSeen::NotReady,
        }
    }

    async fn member_seen(
        &self,
        scope: &Scope,
        host: &Host,
        is_cluster_initialized: Option<bool>,
    ) -> MemberSeen {
        match is_cluster_initialized {
            _ if !scope.is_control_plane() => return MemberSeen::NotAMember,
            // No member can be of a cluster that was never there.
            Some(false) => return MemberSeen::NotAMember,
            None => return MemberSeen::Unknown,
            Some(true) => {}
        }
        match self.member(scope, host).await {
            Err(_) => MemberSeen::Unknown,
            Ok(None) => MemberSeen::NotAMember,
            Ok(Some(member)) if member.name.is_empty() => MemberSeen::AddedNotStarted,
            Ok(Some(_)) => MemberSeen::Started,
        }
    }

    async fn member(&self, scope: &Scope, host: &Host) -> Result<Option<EtcdMember>, String> {
        let view = self.workload.etcd(&scope.cluster_key).await.map_err(|error| error.to_string())?;
        member_of(&view.members, host).map(Option::<&_>::cloned).map_err(|error| error.to_string())
    }

    async fn act(
        &self,
        scope: &Scope,
        claimed: &Claimed,
        plan: &RunPlan,
        watched: &Watched,
        next: RunNext,
        report: &mut MachineReport,
    ) -> Result<Result<Outcome, Waiting>, ReconcileError> {
        let of_run = |waiting: Waiting| Err(waiting.of(BOOTSTRAP_SUCCEEDED));
        Ok(match next {
            RunNext::Upload => self.upload(claimed, plan).await,
            RunNext::Start { start, .. } => self.start(claimed, plan, &start).await,
            RunNext::Wait { step } => {
                of_run(Waiting::moment("Running", step_words(plan, watched, step), WATCH_EVERY))
            }
            RunNext::Done => {
                report.holds(BOOTSTRAP_SUCCEEDED, "Succeeded", "");
                report.set_addresses(&claimed.host);
                report.set_provisioned();
                Ok(Outcome::RequeueAfter(NODE_EVERY))
            }
            RunNext::RemoveMember => of_run(self.remove_member(scope, &claimed.host).await),
            RunNext::Reset { why } => self.reset(claimed, plan, watched, why, report).await,
            RunNext::RenewData => of_run(Waiting::person(
                "TokenExpired",
                "the token of the bootstrap data has expired: delete the Machine, so that another one takes its place",
            )),
            RunNext::Failed { step, code } => {
                let (reason, message) = reason::failure(plan, watched, step, code);
                of_run(Waiting::person(reason, message))
            }
            RunNext::AskPerson { why } => of_run(Waiting::person("NeedsPerson", question(why))),
            RunNext::FindOut { what } => of_run(Waiting::moment("FindingOut", unknown(what), FIND_OUT_EVERY)),
        })
    }

    async fn upload(&self, claimed: &Claimed, plan: &RunPlan) -> Result<Outcome, Waiting> {
        let changed = self.shells.upload(&claimed.reach, plan, &claimed.owner).await;
        taken(changed.map_err(|silence| Waiting::silent(&silence).of(BOOTSTRAP_SUCCEEDED))?, &claimed.host)?;
        let words = format!("{} steps are on the machine", plan.steps.len());
        Err(Waiting::moment("Uploaded", words, AT_ONCE).of(BOOTSTRAP_SUCCEEDED))
    }

    async fn start(&self, claimed: &Claimed, plan: &RunPlan, start: &Start) -> Result<Outcome, Waiting> {
        let changed = self.shells.start(&claimed.reach, &plan.id, &claimed.owner, start).await;
        taken(changed.map_err(|silence| Waiting::silent(&silence).of(BOOTSTRAP_SUCCEEDED))?, &claimed.host)?;
        let words =
            format!("attempt {} begins with step {} of {}", start.attempt, start.from_step, plan.steps.len());
        Err(Waiting::moment("Started", words, WATCH_EVERY).of(BOOTSTRAP_SUCCEEDED))
    }

    async fn remove_member(&self, scope: &Scope, host: &Host) -> Waiting {
        let removed = match self.member(scope, host).await {
            Ok(Some(member)) => self
                .workload
                .remove_member(&scope.cluster_key, member.id)
                .await
                .map_err(|error| error.to_string()),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        let message = match removed {
            Ok(()) => "the etcd member that did not start is removed".to_owned(),
            Err(error) => format!("the etcd member that did not start has to be removed: {error}"),
        };
        Waiting::moment("RemovingMember", message, FIND_OUT_EVERY)
    }

    /// What a run did is taken back; afterwards it is begun anew, or left to a person.
    async fn reset(
        &self,
        claimed: &Claimed,
        plan: &RunPlan,
        watched: &Watched,
        why: ResetReason,
        report: &mut MachineReport,
    ) -> Result<Outcome, Waiting> {
        let undone = watched.journal.as_ref().map_or(0, |journal| journal.resets);
        if report.resets() <= undone {
            // Counted before it begins: each reset is a run of its own.
            report.count_reset();
            return Err(Waiting::moment("Resetting", reset_words(why), AT_ONCE).of(BOOTSTRAP_SUCCEEDED));
        }
        let cleaning = Cleaning {
            at: &claimed.reach,
            owner: &claimed.owner,
            of: plan.id.clone(),
            runtime_socket: runtime_socket(&claimed.host),
            resets: report.resets(),
        };
        let silent = |silence| Waiting::silent(&silence).of(BOOTSTRAP_SUCCEEDED);
        let message = match cleaning.go_on(&self.shells).await.map_err(silent)? {
            Cleaned::Running(run) => format!("a reset runs: {}", run.what.unwrap_or_default()),
            Cleaned::Left(left) => format!("a reset ended, and these are left: {}", left.join("; ")),
            Cleaned::NotOwner(owner) => format!("the machine's owner file names {owner}"),
            Cleaned::Proved | Cleaned::NeedsReset | Cleaned::Busy => reset_words(why).to_owned(),
        };
        Err(Waiting::moment("Resetting", message, WATCH_EVERY).of(BOOTSTRAP_SUCCEEDED))
    }

    /// What the Host says of the run.
    pub(super) async fn show_run(&self, host: &Host, run: &HostRunStatus) -> Result<(), ReconcileError> {
        if host.status.as_ref().and_then(|status| status.run.as_ref()) == Some(run) {
            return Ok(());
        }
        let body = json!({ "metadata": { "uid": host.metadata.uid }, "status": { "run": whole(run) } });
        match self.writer.patch_part::<Host>(&ObjectKey::of(host), Part::Status, &body, Mode::Real).await {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// A node that is one: its addresses, and its provider ID where its kubelet did not set it.
    pub(super) async fn kept(
        &self,
        scope: &Scope,
        host: Option<&Host>,
        report: &mut MachineReport,
    ) -> Outcome {
        let Some(host) = host else { return Outcome::Done };
        report.set_addresses(host);
        if scope.machine.status.as_ref().is_some_and(|status| status.node_ref.is_some()) {
            return Outcome::Done;
        }
        if let Err(error) = self.identify_node(scope, host).await {
            tracing::debug!(host_machine = %scope.key, "the Node is not identified yet: {error}");
        }
        Outcome::RequeueAfter(NODE_EVERY)
    }

    async fn identify_node(&self, scope: &Scope, host: &Host) -> Result<(), String> {
        let (Some(node), Some(id)) = (self.node(scope, host).await?, &scope.own.spec.provider_id) else {
            return Ok(());
        };
        if provider_id_of(&node).is_some() {
            return Ok(());
        }
        let name = node.metadata.name.clone().unwrap_or_default();
        let body = json!({ "spec": { "providerID": id } });
        self.workload
            .patch_node(&scope.cluster_key, &name, &body)
            .await
            .map(drop)
            .map_err(|error| error.to_string())
    }

    /// Takes the claim away from a Host. Of one that was not cleaned the Host still says what ran on it, so that it can be taken back.
    pub(super) async fn give_back(&self, host: &Host, is_clean: bool) -> Result<(), ReconcileError> {
        let mut after = host.clone();
        after.spec.consumer_ref = None;
        after.metadata.annotations.get_or_insert_default().remove(ABANDON);
        after.metadata.finalizers.get_or_insert_default().retain(|held| held != HOST_FINALIZER);
        if is_clean && let Some(status) = &mut after.status {
            status.run = None;
        }
        match self.writer.patch(host, &after, &Precondition::unchanged(host), Mode::Real).await {
            // A Host that was deleted meanwhile goes with its finalizer, before its status is written.
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// The run of a HostMachine, which `capstan host plan` prints, too.
///
/// # Errors
/// The bootstrap data is refused, and why.
pub fn plan_of(uid: &str, provider_id: Option<&str>, host: &Host, data: &str) -> Result<RunPlan, String> {
    let instance =
        Instance { instance_id: uid.to_owned(), local_hostname: hostname(host).unwrap_or_default() };
    let id = RunId::bootstrap(uid).map_err(|error| error.to_string())?;
    let data = bootstrap::read(data, &instance).map_err(|error| error.to_string())?;
    let options = RunOptions { provider_id: provider_id.map(str::to_owned) };
    Ok(RunPlan::bootstrap(id, &data, &options))
}

fn hostname(host: &Host) -> Option<String> {
    let name = host.status.as_ref()?.identity.as_ref()?.hostname.as_ref()?;
    // A kubelet calls its Node so.
    Some(name.to_ascii_lowercase())
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|it| it.type_ == "Ready" && it.status == "True")
}

/// It began and ended before its end: only then the Node and the etcd member decide what comes next.
fn has_died(watched: &Watched) -> bool {
    let has_begun = |journal: &Journal| journal.attempt > 0 && !journal.was_reset && !journal.is_finished;
    !watched.is_unit_active && watched.journal.as_ref().is_some_and(has_begun)
}

fn taken(changed: Changed, host: &Host) -> Result<(), Waiting> {
    match changed {
        Changed::Done | Changed::Already => Ok(()),
        Changed::Refused(why) => Err(Waiting::person("Refused", why).of(BOOTSTRAP_SUCCEEDED)),
        // The claim is asked for again, which says more.
        Changed::NotOwner(answer) => Err(not_ours(&answer, host).of(HOST_CLAIMED)),
    }
}

fn step_words(plan: &RunPlan, watched: &Watched, step: u32) -> String {
    let title = plan.step(step).map_or("the end", |step| step.title.as_str());
    let trouble = watched.component_lines.last().map(|line| format!("; last error of its services: {line}"));
    format!("step {step} of {}: {title}{}", plan.steps.len(), trouble.unwrap_or_default())
}

fn question(why: AskReason) -> &'static str {
    match why {
        AskReason::ClusterMayLive => {
            "kubeadm init died, and the cluster may be in use: a reset would destroy it. Look at the machine; then delete the Machine"
        }
        AskReason::TooManyResets => {
            "three attempts were taken back; capstan host log says what happened. Then delete the Machine"
        }
        AskReason::JournalIncomplete => {
            "the journal on the machine is not complete, so whether kubeadm ran is not known. Look at the machine; then delete the Machine"
        }
        AskReason::NotClean => {
            "the machine is not clean after a reset; clean it by hand, or delete the Machine"
        }
    }
}

fn unknown(what: UnknownFact) -> &'static str {
    match what {
        UnknownFact::Node => "whether the machine is a Node is not known yet",
        UnknownFact::Member => "whether the machine is a member of etcd is not known yet",
        UnknownFact::Cluster => "whether the cluster is in use is not known yet",
        UnknownFact::Proof => "whether the machine is clean is not known yet",
    }
}

fn reset_words(why: ResetReason) -> &'static str {
    match why {
        ResetReason::KubeadmDied => "kubeadm did not end: what it did is taken back",
        ResetReason::TokenExpired => "the token has expired: what was done is taken back",
        ResetReason::OtherData => "the bootstrap data is another one: what was done is taken back",
    }
}

fn run_of(
    plan: &RunPlan,
    watched: &Watched,
    claimed: &Claimed,
    done: &Result<Outcome, Waiting>,
    next: RunNext,
) -> HostRunStatus {
    let phase = match (done, next) {
        (_, RunNext::Done) => "Succeeded",
        (_, RunNext::Failed { .. } | RunNext::AskPerson { .. } | RunNext::RenewData) => "Failed",
        _ => "Running",
    };
    HostRunStatus { phase: Some(phase.to_owned()), ..run_status(plan, watched, &claimed.owner) }
}
