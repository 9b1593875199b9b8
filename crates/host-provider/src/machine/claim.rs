//! A HostMachine claims a Host: in the Host's object under its resourceVersion, in its own status, and in a file on the machine. Owns
//! the order of the three; which Host says `plan::choice`.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use capi_types::host::annotation::TAKE_OVER;
use capi_types::host::{HOST_FINALIZER, Host, HostConsumer};
use capi_types::host_cluster::EndpointMode;
use capi_types::host_machine::condition::{HOST_CLAIMED, HOST_PREPARED};
use capi_types::key::{ObjectKey, annotation};
use capstan_engine::client::write::Part;
use capstan_engine::client::{Mode, Precondition};
use capstan_engine::engine::ReconcileError;
use capstan_hosts::owner::{HostOwner, OwnerAnswer};
use capstan_hosts::run::{Redactor, RunId};

use super::report::{MachineReport, READ_ONLY, Waiting};
use super::{HostMachines, Scope};
use crate::access::Claim;
use crate::cleaning::sentences;
use crate::plan::choice::{WantedHost, choose};
use crate::plan::host::listed;
use crate::reach::SshReach;

/// A job that ends soon.
const BUSY: Duration = Duration::from_secs(5);

/// A Host that is this HostMachine's, in all three places.
pub struct Claimed {
    pub host: Arc<Host>,
    pub reach: SshReach,
    pub owner: HostOwner,
}

impl HostMachines {
    /// Claims a Host, or goes on with the one that is claimed.
    pub(super) async fn claimed(
        &self,
        scope: &Scope,
        report: &mut MachineReport,
    ) -> Result<Result<Claimed, Waiting>, ReconcileError> {
        let host = match self.host_of(&scope.own, &scope.key.namespace) {
            Some(host) => host,
            None if self.is_read_only => {
                return Ok(Err(Waiting::person(READ_ONLY, "no Host is claimed with --read-only")));
            }
            None => match self.choose(scope, report) {
                Ok(host) => Arc::new(self.take(scope, &host).await?),
                Err(waiting) => return Ok(Err(waiting)),
            },
        };
        let generation = report.host_ref().map_or(1, |it| it.generation);
        report.set_host(&host, generation);
        Ok(self.on_machine(scope, host, report).await)
    }

    fn choose(&self, scope: &Scope, report: &MachineReport) -> Result<Arc<Host>, Waiting> {
        let endpoint = self.endpoint_host(scope).filter(|_| scope.is_control_plane());
        let reserved = self.endpoints(&scope.key.namespace);
        let mut wanted = WantedHost::of(&scope.own.spec);
        wanted.reserved = reserved.iter().map(String::as_str).collect();
        wanted.failure_domain = scope.machine.spec.failure_domain.as_deref();
        let former = report.host_ref().map(|it| it.name.clone());
        if let Some(only) = former.as_ref().or(endpoint.as_ref()) {
            if wanted.name.is_some_and(|name| name != only) {
                let message = format!("spec.hostName is not {only}, where the endpoint of the cluster is");
                return Err(Waiting::person("NotTheEndpoint", message));
            }
            wanted.name = Some(only);
        }
        let hosts = self.hosts.in_namespace(&scope.key.namespace);
        let all: Vec<&Host> = hosts.iter().map(Arc::as_ref).collect();
        match choose(&wanted, &all) {
            Ok(chosen) => Ok(Arc::new(chosen.clone())),
            Err(none) => Err(Waiting::person("NoHost", none.sentence())),
        }
    }

    /// Hosts that are the endpoint of a cluster.
    fn endpoints(&self, namespace: &str) -> Vec<String> {
        let clusters = self.host_clusters.in_namespace(namespace);
        let endpoints = clusters.iter().filter_map(|cluster| cluster.spec.endpoint.clone());
        endpoints.filter(|it| it.mode() == EndpointMode::SingleHost).filter_map(|it| it.host_name).collect()
    }

    /// Of two that want it, one is refused by the server.
    async fn take(&self, scope: &Scope, host: &Host) -> Result<Host, ReconcileError> {
        let mut after = host.clone();
        after.spec.consumer_ref = Some(HostConsumer {
            kind: "HostMachine".to_owned(),
            name: scope.key.name.clone(),
            uid: scope.uid().to_owned(),
            cluster_name: Some(scope.cluster_key.name.clone()),
        });
        let finalizers = after.metadata.finalizers.get_or_insert_default();
        finalizers.retain(|held| held != HOST_FINALIZER);
        finalizers.push(HOST_FINALIZER.to_owned());
        let taken = self.writer.patch(host, &after, &Precondition::unchanged(host), Mode::Real).await?;
        tracing::info!(host_machine = %scope.key, host = %ObjectKey::of(host), "claimed");
        Ok(taken)
    }

    /// The owner file, and that nothing is left on the machine.
    async fn on_machine(
        &self,
        scope: &Scope,
        host: Arc<Host>,
        report: &mut MachineReport,
    ) -> Result<Claimed, Waiting> {
        let reach = self.reach(&host)?;
        let cluster = scope.cluster_key.to_string();
        let owner = self.owner(&scope.own, &host, &cluster);
        let owner = owner.map_err(|error| Waiting::person("NotValid", error.to_string()))?;
        let owner = if report.was_true(HOST_CLAIMED) {
            owner
        } else {
            self.own(&host, &reach, &owner, report).await?
        };
        report.holds(HOST_CLAIMED, "Claimed", "");
        if !report.was_true(HOST_PREPARED) && !self.has_begun(scope, &reach).await? {
            let proof = self.shells.prove(&reach).await;
            let proof = proof.map_err(|silence| Waiting::silent(&silence).of(HOST_PREPARED))?;
            if !proof.is_clean() {
                let left = listed(sentences(&proof).into_iter());
                let message = format!("left of an earlier node: {left}");
                return Err(Waiting::person("NotClean", message).of(HOST_PREPARED));
            }
        }
        report.holds(HOST_PREPARED, "Clean", "");
        Ok(Claimed { host, reach, owner })
    }

    /// Its run is on the machine, which was clean then: the status may be lost, as by a move to another server.
    async fn has_begun(&self, scope: &Scope, reach: &SshReach) -> Result<bool, Waiting> {
        let id =
            RunId::bootstrap(scope.uid()).map_err(|error| Waiting::person("NotValid", error.to_string()))?;
        let watched = self.shells.watch(reach, &id, 0, &Redactor::default()).await;
        let watched = watched.map_err(|silence| Waiting::silent(&silence).of(HOST_PREPARED))?;
        Ok(watched.journal.is_some_and(|journal| journal.attempt > 0))
    }

    /// Makes the owner file, or takes it over where a person named the owner that loses it.
    pub(super) async fn own(
        &self,
        host: &Host,
        reach: &SshReach,
        owner: &HostOwner,
        report: &mut MachineReport,
    ) -> Result<HostOwner, Waiting> {
        let answer = self.shells.claim(reach, &Claim::Make, owner).await;
        let other = match answer.map_err(|silence| Waiting::silent(&silence))? {
            OwnerAnswer::Ours { owner, .. } => return Ok(owner),
            OwnerAnswer::Other { owner, .. } => owner,
            answer => return Err(not_ours(&answer, host)),
        };
        // What this HostMachine made itself, before its status was lost.
        let is_own = other.installation == owner.installation && other.machine == owner.machine;
        let is_named = annotation(host, TAKE_OVER) == Some(other.installation.as_str());
        if !is_own && !is_named {
            return Err(not_ours(&OwnerAnswer::Other { owner: other, since_s: None }, host));
        }
        if is_own {
            report.set_host(host, i64::try_from(other.generation).unwrap_or(i64::MAX));
            return Ok(other);
        }
        let answer = self.shells.claim(reach, &Claim::TakeFrom(other), owner).await;
        match answer.map_err(|silence| Waiting::silent(&silence))? {
            OwnerAnswer::Ours { owner, .. } => {
                report.set_host(host, i64::try_from(owner.generation).unwrap_or(i64::MAX));
                self.forget_take_over(host).await;
                Ok(owner)
            }
            answer => Err(not_ours(&answer, host)),
        }
    }

    /// What a person asked for is done. A write that fails leaves an annotation that names an owner who is gone.
    async fn forget_take_over(&self, host: &Host) {
        let none = json!({ "metadata": { "uid": host.metadata.uid, "annotations": { TAKE_OVER: null } } });
        let patched =
            self.writer.patch_part::<Host>(&ObjectKey::of(host), Part::Main, &none, Mode::Real).await;
        if let Err(error) = patched {
            tracing::warn!("{error}");
        }
    }
}

pub(super) fn not_ours(answer: &OwnerAnswer, host: &Host) -> Waiting {
    let name = host.metadata.name.as_deref().unwrap_or_default();
    match answer {
        OwnerAnswer::Busy => Waiting::moment("Busy", "a job runs on the machine", BUSY),
        OwnerAnswer::Unreadable => Waiting::person(
            "OwnerNotReadable",
            "the owner file on the machine cannot be read: look at /var/lib/capstan/owner there",
        ),
        OwnerAnswer::Free => Waiting::moment("NotOwned", "the owner file is gone", BUSY),
        OwnerAnswer::Ours { owner, .. } | OwnerAnswer::Other { owner, .. } => Waiting::person(
            "OwnedElsewhere",
            format!("the machine's owner file names {owner}. To take it over: capstan host adopt {name}"),
        ),
    }
}
