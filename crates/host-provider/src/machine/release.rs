//! A HostMachine that is deleted gives its Host back: reset, proved clean, and only then let go. Owns the order and the one way past
//! it, which a person names; the reset itself is `cleaning`.

use std::sync::Arc;

use serde_json::json;

use capi_types::condition::{Conditioned, find, is_true};
use capi_types::host::annotation::{ABANDON, RESET};
use capi_types::host::condition::REACHABLE;
use capi_types::host::{HOST_MACHINE_FINALIZER, Host, HostRunStatus};
use capi_types::host_machine::HostMachine;
use capi_types::host_machine::condition::HOST_RELEASED;
use capi_types::key::{ObjectKey, annotation, cluster_label};
use capstan_engine::client::Mode;
use capstan_engine::client::write::Part;
use capstan_engine::engine::{Outcome, ReconcileError};
use capstan_hosts::owner::{HostOwner, OwnerAnswer};
use capstan_hosts::run::RunId;
use capstan_remote::trouble::SshTrouble;

use super::HostMachines;
use super::report::{MachineReport, Waiting};
use crate::access::Silence;
use crate::cleaning::{Cleaned, Cleaning, runtime_socket};
use crate::plan::host::listed;
use crate::reach::SshReach;
use crate::{AT_ONCE, WATCH_EVERY};

impl HostMachines {
    pub(super) async fn release(
        &self,
        key: &ObjectKey,
        own: &Arc<HostMachine>,
    ) -> Result<Outcome, ReconcileError> {
        let mut report = MachineReport::of(own, self.clock.now());
        let Some(host) = self.host_of(own, &key.namespace) else {
            report.drop_finalizer(HOST_MACHINE_FINALIZER);
            return self.finish(report, Outcome::Done).await;
        };
        if annotation(host.as_ref(), ABANDON) == own.metadata.uid.as_deref() && !is_reached(&host) {
            tracing::warn!(host_machine = %key, host = %ObjectKey::of(host.as_ref()), "let go without a reset, as was asked for");
            self.give_back(&host, false).await?;
            report.drop_finalizer(HOST_MACHINE_FINALIZER);
            return self.finish(report, Outcome::Done).await;
        }
        let cleaned = match self.cleaned(own, &host, &mut report).await {
            Ok(cleaned) => cleaned,
            Err(waiting) => {
                let outcome = report.wait(waiting.of(HOST_RELEASED));
                return self.finish(report, outcome).await;
            }
        };
        let outcome = self.after(own, &host, cleaned, &mut report).await?;
        self.finish(report, outcome).await
    }

    async fn cleaned(
        &self,
        own: &HostMachine,
        host: &Host,
        report: &mut MachineReport,
    ) -> Result<Cleaned, Waiting> {
        let reach = self.reach(host).map_err(|waiting| advised(waiting, host))?;
        let namespace = own.metadata.namespace.as_deref().unwrap_or_default();
        let cluster = format!("{namespace}/{}", cluster_label(own).unwrap_or("none"));
        let owner = self
            .owner(own, host, &cluster)
            .map_err(|error| Waiting::person("NotValid", error.to_string()))?;
        let silent = |silence: Silence| silent(&silence, host);
        let owner = match self.shells.owner(&reach).await.map_err(silent)? {
            // Nothing was ever begun on it.
            OwnerAnswer::Free => return Ok(Cleaned::Proved),
            OwnerAnswer::Other { owner: found, .. } | OwnerAnswer::Ours { owner: found, .. } => {
                self.fenced(host, &reach, owner, found, report).await?
            }
            answer => return Err(super::claim::not_ours(&answer, host)),
        };
        self.one_step(own, host, &reach, &owner, report).await
    }

    /// What the file says is compared before anything is done.
    async fn fenced(
        &self,
        host: &Host,
        reach: &SshReach,
        owner: HostOwner,
        found: HostOwner,
        report: &mut MachineReport,
    ) -> Result<HostOwner, Waiting> {
        let is_same = found.installation == owner.installation && found.machine == owner.machine;
        if is_same && found.generation == owner.generation {
            return Ok(found);
        }
        self.own(host, reach, &owner, report).await
    }

    async fn one_step(
        &self,
        own: &HostMachine,
        host: &Host,
        reach: &SshReach,
        owner: &HostOwner,
        report: &MachineReport,
    ) -> Result<Cleaned, Waiting> {
        let of = RunId::bootstrap(own.use_uid());
        let of = of.map_err(|error| Waiting::person("NotValid", error.to_string()))?;
        let cleaning =
            Cleaning { at: reach, owner, of, runtime_socket: runtime_socket(host), resets: report.resets() };
        cleaning.release(&self.shells).await.map_err(|silence| silent(&silence, host))
    }

    async fn after(
        &self,
        own: &HostMachine,
        host: &Host,
        cleaned: Cleaned,
        report: &mut MachineReport,
    ) -> Result<Outcome, ReconcileError> {
        let say = |waiting: Waiting, report: &mut MachineReport| report.wait(waiting.of(HOST_RELEASED));
        match cleaned {
            Cleaned::Proved => {
                self.give_back(host, true).await?;
                report.holds(HOST_RELEASED, "Released", "");
                report.drop_finalizer(HOST_MACHINE_FINALIZER);
                Ok(Outcome::Done)
            }
            Cleaned::NeedsReset => {
                report.count_reset();
                Ok(say(Waiting::moment("Resetting", "a reset begins", AT_ONCE), report))
            }
            Cleaned::Running(run) => {
                let message = format!(
                    "step {} of {}: {}",
                    run.step.unwrap_or(0),
                    run.steps.unwrap_or(0),
                    run.what.clone().unwrap_or_default()
                );
                self.show_run(host, &run).await?;
                Ok(say(Waiting::moment("Resetting", message, WATCH_EVERY), report))
            }
            Cleaned::Busy => {
                Ok(say(Waiting::moment("Busy", "a job runs on the machine", WATCH_EVERY), report))
            }
            Cleaned::NotOwner(owner) => {
                let message = format!("the machine's owner file names {owner}: nothing is done on it");
                Ok(say(Waiting::person("OwnedElsewhere", message), report))
            }
            Cleaned::Left(left) => self.quarantined(own, host, &left, report).await,
        }
    }

    async fn quarantined(
        &self,
        own: &HostMachine,
        host: &Host,
        left: &[String],
        report: &mut MachineReport,
    ) -> Result<Outcome, ReconcileError> {
        let name = host.metadata.name.clone().unwrap_or_default();
        if annotation(host, RESET).is_some() {
            report.count_reset();
            let none = json!({ "metadata": { "uid": host.metadata.uid, "annotations": { RESET: null } } });
            self.writer.patch_part::<Host>(&ObjectKey::of(host), Part::Main, &none, Mode::Real).await?;
            let waiting = Waiting::moment("Resetting", "another reset begins", AT_ONCE);
            return Ok(report.wait(waiting.of(HOST_RELEASED)));
        }
        let run = HostRunStatus {
            id: Some(own.use_uid().to_owned()),
            kind: Some("Reset".to_owned()),
            phase: Some("Failed".to_owned()),
            what: Some(left.join("; ").chars().take(500).collect()),
            ..HostRunStatus::default()
        };
        self.show_run(host, &run).await?;
        let message = format!(
            "after the reset these are left: {}. Clean the machine by hand, which is looked for every minute, or have it reset once \
             more: capstan host release {name}",
            listed(left.iter().cloned())
        );
        Ok(report.wait(Waiting::person("Quarantined", message).of(HOST_RELEASED)))
    }
}

fn is_reached(host: &Host) -> bool {
    is_true(host.conditions(), REACHABLE)
}

fn silent(silence: &Silence, host: &Host) -> Waiting {
    let mut waiting = Waiting::silent(silence);
    waiting.message = match silence.is_read_only {
        true => format!("the machine has to be reset: {}", silence.reason),
        false => format!("the machine has to be reset and does not answer: {}", silence.reason),
    };
    if silence.trouble == Some(SshTrouble::Unreachable) {
        waiting.message += &let_go_of(host);
    }
    waiting
}

/// What is known of the machine may be lost with the status of its Host, and then it may be gone as well.
fn advised(mut waiting: Waiting, host: &Host) -> Waiting {
    if find(host.conditions(), REACHABLE).is_some_and(|it| it.status == "False" && it.reason == "Unreachable")
    {
        waiting.message += &let_go_of(host);
    }
    waiting
}

fn let_go_of(host: &Host) -> String {
    let name = host.metadata.name.as_deref().unwrap_or_default();
    format!(". If it is gone for good: capstan host release {name} --abandon")
}
