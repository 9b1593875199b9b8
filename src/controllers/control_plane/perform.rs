//! Performs the steps of a control plane's plan, in order, up to the first failure. Must not decide.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};

use super::secrets;
use crate::api::control_plane::KubeadmControlPlane;
use crate::api::key::{ObjectKey, ObjectRef};
use crate::api::machine::Machine;
use crate::api::names::{self, annotation};
use crate::client::{Mode, Precondition, WriteError};
use crate::controllers::adoption::adopt;
use crate::controllers::template;
use crate::controllers::{Context, apply, finalizer, status};
use crate::engine::ReconcileError;
use crate::plan::control_plane::{Act, Decision, NewMachine, Observed, Sync, Template};
use crate::plan::{self, Reason, Write};
use crate::status::conditions::setter;
use crate::status::contract::reference_to;
use crate::status::etcd::Member;
use crate::workload::{Addon, WorkloadError};

/// One pass's means: where to write, and the facts behind the steps.
struct Performer<'a> {
    context: &'a Context,
    observed: &'a Observed,
    cluster: ObjectKey,
}

/// A deletion goes on with the other Machines when one cannot be deleted.
///
/// # Errors
/// Of the first step that failed; but for deletions, the steps after it were not tried.
pub async fn perform(context: &Context, decision: &Decision) -> Result<(), ReconcileError> {
    let observed = &decision.observed;
    let performer = Performer { context, observed, cluster: ObjectKey::of(&observed.cluster) };
    let mut outcome = Ok(());
    for step in &decision.plan.steps {
        tracing::info!(
            control_plane = observed.control_plane.metadata.name.as_deref(),
            rule = step.reason.rule,
            "{step}"
        );
        if let Err(error) = performer.act(&step.act).await {
            performer.report_failure(&step.act, &error).await;
            outcome = outcome.and(Err(error));
            if !observed.is_deleting() {
                break;
            }
        }
    }
    outcome
}

impl Performer<'_> {
    async fn act(&self, act: &Act) -> Result<(), ReconcileError> {
        let control_plane = &self.observed.control_plane;
        match act {
            Act::RemoveFinalizer => {
                Ok(finalizer::remove(self.context, control_plane, names::finalizer::KUBEADM_CONTROL_PLANE)
                    .await?)
            }
            Act::Annotate { key, value } => {
                self.patch_object(control_plane, json!({ "metadata": { "annotations": { *key: value } } }))
                    .await
            }
            Act::Adopt { machine } => self.adopt(machine).await,
            Act::OwnTemplate => self.own_template().await,
            Act::CreateCertificates(purposes) => {
                secrets::create_certificates(self.context, self.observed, purposes).await
            }
            Act::CreateKubeconfig { server } => {
                secrets::create_kubeconfig(self.context, self.observed, server).await
            }
            Act::AdoptKubeconfig => secrets::adopt_kubeconfig(self.context, self.observed).await,
            Act::RenewKubeconfig => secrets::renew_kubeconfig(self.context, self.observed).await,
            Act::Sync(sync) => self.sync(sync).await,
            Act::CreateMachine(new) => self.create(new).await,
            Act::DeleteMachine { machine } => {
                let Some(owned) = self.observed.machine(machine) else { return Ok(()) };
                let target = ObjectRef::of(&owned.machine);
                self.write(Write::Delete { object: target }).await
            }
            Act::ReleaseMachine { machine } => {
                let body = json!({ "metadata": { "annotations": { annotation::KCP_CLEANUP_HOOK: null } } });
                match self.observed.machine(machine) {
                    Some(owned) => self.patch_object(&owned.machine, body).await,
                    None => Ok(()),
                }
            }
            Act::RemoveMember(member) => {
                let done = self.context.workload.remove_member(&self.cluster, member.id).await;
                done.map_err(|e| self.refused(&format!("remove etcd member {}", member.name), &e))
            }
            Act::MoveLeader { from, candidates } => self.move_leader(from, candidates).await,
            Act::UpdateKubeadmConfig(configuration) => self.update_kubeadm_config(configuration).await,
            Act::UpdateKubeProxy { image } => {
                let done =
                    self.context.workload.set_addon_image(&self.cluster, Addon::KubeProxy, image).await;
                done.map_err(|e| self.refused("update kube-proxy", &e))
            }
            Act::MarkMachine { machine, condition } => {
                self.turn(machine, &condition.type_, Some(condition)).await
            }
            Act::UnmarkMachine { machine, condition } => self.turn(machine, condition, None).await,
        }
    }

    /// Through the one way all controllers' steps take.
    async fn write(&self, write: Write) -> Result<(), ReconcileError> {
        let reason = Reason { rule: "kubeadm-control-plane", sentence: String::new() };
        apply::apply(self.context, &[plan::Step { write, reason }]).await.into_result()
    }

    async fn patch_object<K: crate::client::Object>(
        &self,
        object: &K,
        body: Value,
    ) -> Result<(), ReconcileError> {
        self.write(Write::Patch { object: ObjectRef::of(object), body }).await
    }

    async fn adopt(&self, name: &str) -> Result<(), ReconcileError> {
        let Some(orphan) = self.observed.orphans.iter().find(|m| m.name() == name) else { return Ok(()) };
        adopt(self.context, &self.observed.control_plane, &orphan.machine).await?;
        Ok(())
    }

    async fn own_template(&self) -> Result<(), ReconcileError> {
        let Template::Found(content) = &self.observed.template else { return Ok(()) };
        Ok(template::own(self.context, &self.observed.cluster, content).await?)
    }

    async fn sync(&self, sync: &Sync) -> Result<(), ReconcileError> {
        let namespace = self.cluster.namespace.clone();
        let stored = self.context.caches.machines.get(&ObjectKey::new(namespace, &sync.name));
        if let (Some(after), Some(stored)) = (&sync.machine, stored) {
            // Only metadata and spec: the status belongs to others.
            let before = Machine { status: after.status.clone(), ..(*stored).clone() };
            let guard = Precondition::same_uid(&before);
            self.context.writer.patch(&before, after, &guard, Mode::Real).await?;
        }
        let Some(owned) = self.observed.machine(&sync.name) else { return Ok(()) };
        if let (Some(body), Some(config)) = (&sync.bootstrap, &owned.bootstrap) {
            self.patch_object(config, body.clone()).await?;
        }
        if let (Some(body), Some(content)) = (&sync.infrastructure, &owned.infrastructure) {
            self.write(Write::Patch { object: reference_to(content), body: body.clone() }).await?;
        }
        Ok(())
    }

    /// Infrastructure, configuration, Machine. What was made is taken away again when a later one fails.
    async fn create(&self, new: &NewMachine) -> Result<(), ReconcileError> {
        let writer = &self.context.writer;
        let target = reference_to(&new.infrastructure);
        writer.create_value(&target, &new.infrastructure, Mode::Real).await?;
        let made = match writer.create(&new.bootstrap, Mode::Real).await {
            Err(error) => Err(error),
            Ok(bootstrap) => match writer.create(&new.machine, Mode::Real).await {
                Ok(_) => Ok(()),
                Err(error) => {
                    self.take_away(writer.delete_value(
                        &ObjectRef::of(&bootstrap),
                        &Precondition::same_uid(&bootstrap),
                        Mode::Real,
                    ))
                    .await;
                    Err(error)
                }
            },
        };
        if let Err(error) = made {
            self.take_away(writer.delete_value(&target, &Precondition::default(), Mode::Real)).await;
            return Err(error.into());
        }
        Ok(())
    }

    async fn take_away(&self, deletion: impl Future<Output = Result<(), WriteError>>) {
        if let Err(error) = deletion.await {
            tracing::warn!("an object of a Machine that could not be created is left behind: {error}");
        }
    }

    async fn move_leader(&self, from: &str, candidates: &[Member]) -> Result<(), ReconcileError> {
        let mut refusals = Vec::new();
        for candidate in candidates {
            match self.context.workload.move_leader(&self.cluster, candidate.id).await {
                Ok(()) => return Ok(()),
                Err(error) => refusals.push(format!("{}: {error}", candidate.name)),
            }
        }
        Err(ReconcileError::failed(format!(
            "cannot move etcd leadership away from {from} in Cluster {}: {}",
            self.cluster,
            refusals.join("; ")
        )))
    }

    async fn update_kubeadm_config(&self, configuration: &Value) -> Result<(), ReconcileError> {
        let text = serde_saphyr::to_string(configuration).map_err(|e| {
            ReconcileError::failed(format!("ClusterConfiguration cannot be written as YAML: {e}"))
        })?;
        let patch = json!({ "data": { "ClusterConfiguration": text } });
        let done = self.context.workload.patch_kubeadm_config(&self.cluster, &patch).await;
        done.map_err(|e| self.refused("update ConfigMap kube-system/kubeadm-config", &e))
    }

    /// Sets or removes a condition of a Machine.
    async fn turn(&self, name: &str, type_: &str, new: Option<&Condition>) -> Result<(), ReconcileError> {
        let key = ObjectKey::new(self.cluster.namespace.clone(), name);
        let Some(before) = self.context.caches.machines.get(&key) else { return Ok(()) };
        let mut after = (*before).clone();
        let list = &mut after.status.get_or_insert_default().conditions;
        match new {
            Some(condition) => {
                let generation = before.metadata.generation;
                setter::set(list, condition.clone(), generation, self.context.clock.now());
            }
            None => setter::remove(list, type_),
        }
        status::write(self.context, &*before, &after, &[type_]).await?;
        Ok(())
    }

    fn refused(&self, what: &str, error: &WorkloadError) -> ReconcileError {
        ReconcileError::failed(format!("cannot {what} in Cluster {}: {error}", self.cluster))
    }

    /// Upstream's events for failed steps.
    async fn report_failure(&self, act: &Act, error: &ReconcileError) {
        let reason = match act {
            Act::CreateMachine(new) if new.joins => "FailedScaleUp",
            Act::CreateMachine(_) => "FailedInitialization",
            Act::DeleteMachine { .. } if self.observed.is_deleting() => "FailedDelete",
            Act::DeleteMachine { .. } => "FailedScaleDown",
            _ => return,
        };
        let about = ObjectRef::of::<KubeadmControlPlane>(&self.observed.control_plane);
        let event = Write::Event { about, warning: true, reason, message: error.to_string() };
        if let Err(error) = self.write(event).await {
            tracing::warn!("event {reason} was not stored: {error}");
        }
    }
}
