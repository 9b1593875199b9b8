//! What a HostMachine says of itself after a run of its controller. Owns its conditions and how they are written; must not know what
//! made them true.

use std::time::Duration;

use capi_rules::status::conditions::merge::{Reasons, Summary};
use capi_rules::status::conditions::setter::{Draft, condition};
use capi_types::condition::{Condition, Conditioned, Status, is_true};
use capi_types::dev::InfrastructureInitialization;
use capi_types::host::Host;
use capi_types::host_machine::condition::{BOOTSTRAP_SUCCEEDED, HOST_CLAIMED, HOST_PREPARED, HOST_RELEASED};
use capi_types::host_machine::{HostMachine, HostMachineStatus, HostRef, provider_id};
use capi_types::names::condition::{PAUSED, READY};
use capstan_base::time::Timestamp;
use capstan_engine::client::{Mode, Precondition, Writer};
use capstan_engine::engine::{Outcome, ReconcileError};

use crate::TRY_EVERY;
use crate::access::Silence;

/// What a person has to do may be done meanwhile.
pub const LOOK_AFTER: Duration = Duration::from_secs(60);
/// The reason where this capstan changes no machine.
pub const READ_ONLY: &str = "ReadOnly";

/// Why it does not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The condition that says so.
    pub type_: &'static str,
    pub reason: &'static str,
    pub message: String,
    /// `None`: something that is watched ends the wait.
    pub again: Option<Duration>,
}

impl Waiting {
    fn new(reason: &'static str, message: impl Into<String>, again: Option<Duration>) -> Self {
        Self { type_: HOST_CLAIMED, reason, message: message.into(), again }
    }

    /// Until a change of an object.
    pub fn trigger(reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(reason, message, None)
    }

    /// Until a person did something, which is looked for now and then.
    pub fn person(reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(reason, message, Some(LOOK_AFTER))
    }

    /// For a while.
    pub fn moment(reason: &'static str, message: impl Into<String>, again: Duration) -> Self {
        Self::new(reason, message, Some(again))
    }

    /// The machine does not answer, or was not asked.
    pub fn silent(silence: &Silence) -> Self {
        let (reason, again) = match silence.is_read_only {
            true => (READ_ONLY, LOOK_AFTER),
            false => ("MachineSilent", TRY_EVERY),
        };
        Self::new(reason, silence.reason.clone(), Some(again))
    }

    /// The condition that says so.
    pub fn of(self, type_: &'static str) -> Self {
        Self { type_, ..self }
    }
}

/// A HostMachine as it was read, and as it is to be.
pub struct MachineReport {
    before: HostMachine,
    after: HostMachine,
    draft: Draft,
}

impl MachineReport {
    pub fn of(own: &HostMachine, now: Timestamp) -> Self {
        let draft = Draft::new(own.conditions(), own.metadata.generation, now);
        Self { before: own.clone(), after: own.clone(), draft }
    }

    /// Was it missing?
    pub fn hold_finalizer(&mut self, name: &str) -> bool {
        let finalizers = self.after.metadata.finalizers.get_or_insert_default();
        let is_missing = !finalizers.iter().any(|held| held == name);
        if is_missing {
            finalizers.push(name.to_owned());
        }
        is_missing
    }

    pub fn drop_finalizer(&mut self, name: &str) {
        self.after.metadata.finalizers.get_or_insert_default().retain(|held| held != name);
    }

    fn status(&mut self) -> &mut HostMachineStatus {
        self.after.status.get_or_insert_default()
    }

    pub fn is_provisioned(&self) -> bool {
        let status = self.before.status.as_ref();
        status.and_then(|status| status.initialization.as_ref()?.provisioned) == Some(true)
    }

    /// It was so when it was read.
    pub fn was_true(&self, type_: &str) -> bool {
        is_true(self.before.conditions(), type_)
    }

    pub fn host_ref(&self) -> Option<&HostRef> {
        self.after.status.as_ref()?.host_ref.as_ref()
    }

    pub fn set_host(&mut self, host: &Host, generation: i64) {
        let (name, uid) = (host.metadata.name.clone(), host.metadata.uid.clone());
        let (name, uid) = (name.unwrap_or_default(), uid.unwrap_or_default());
        if self.after.spec.provider_id.is_none() {
            let own = self.after.metadata.uid.clone().unwrap_or_default();
            self.after.spec.provider_id = Some(provider_id(&uid, &own));
        }
        let status = self.status();
        status.failure_domain.clone_from(&host.spec.failure_domain);
        status.host_ref = Some(HostRef { name, uid, generation });
    }

    /// As it is to be, also before it is written.
    pub fn provider_id(&self) -> Option<&str> {
        self.after.spec.provider_id.as_deref()
    }

    pub fn set_addresses(&mut self, host: &Host) {
        let addresses = host.status.as_ref().map(|status| status.addresses.clone()).unwrap_or_default();
        // A look that failed says nothing about addresses.
        if !addresses.is_empty() {
            self.status().addresses = addresses;
        }
    }

    pub fn set_provisioned(&mut self) {
        self.status().initialization = Some(InfrastructureInitialization { provisioned: Some(true) });
    }

    pub fn resets(&self) -> u32 {
        let resets = self.after.status.as_ref().and_then(|status| status.resets).unwrap_or(0);
        u32::try_from(resets).unwrap_or(0)
    }

    pub fn count_reset(&mut self) {
        let resets = self.resets().saturating_add(1);
        self.status().resets = i32::try_from(resets).ok();
    }

    pub fn holds(&mut self, type_: &str, reason: &str, message: impl Into<String>) {
        self.draft.set(condition(type_, Status::True, reason, message));
    }

    pub fn set(&mut self, condition: &Condition) {
        self.draft.set(condition);
    }

    /// Says why it waits, and when it looks again.
    pub fn wait(&mut self, waiting: Waiting) -> Outcome {
        self.draft.set(condition(waiting.type_, Status::False, waiting.reason, waiting.message));
        waiting.again.map_or(Outcome::Done, Outcome::RequeueAfter)
    }

    /// Sends what changed.
    pub async fn write(mut self, writer: &Writer) -> Result<(), ReconcileError> {
        if self.draft.find(PAUSED).is_none_or(|it| it.status != "True") {
            self.sum_up();
        }
        self.status().conditions = self.draft.clone().finish();
        let same = Precondition::unchanged(&self.before);
        match writer.patch(&self.before, &self.after, &same, Mode::Real).await {
            // Without its finalizer it is gone with the first half of the write.
            Err(error) if error.is_not_found() => Ok(()),
            other => Ok(other.map(drop)?),
        }
    }

    fn sum_up(&mut self) {
        let is_deleted = self.before.metadata.deletion_timestamp.is_some();
        let types: &[&str] = match is_deleted {
            true => &[HOST_RELEASED],
            false => &[HOST_CLAIMED, HOST_PREPARED, BOOTSTRAP_SUCCEEDED],
        };
        for type_ in types {
            if self.draft.find(type_).is_none() {
                self.draft.set(condition(type_, Status::False, "Waiting", ""));
            }
        }
        let ready = Summary::new(READY, types, Reasons::READY).of(self.draft.list());
        self.draft.set(ready);
    }
}
