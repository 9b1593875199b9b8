//! A person asked that a Host which nobody has is reset, or taken from another owner. Owns that this happens only when it is asked
//! for; the reset itself is `cleaning`.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use capi_types::host::annotation::{RESET, TAKE_OVER};
use capi_types::host::{Host, HostRunStatus};
use capi_types::key::{ObjectKey, annotation};
use capstan_engine::client::write::Part;
use capstan_engine::client::{Mode, Writer};
use capstan_engine::engine::{Outcome, ReconcileError};
use capstan_hosts::owner::{HostOwner, OwnerAnswer};
use capstan_hosts::run::RunId;

use crate::access::{Claim, Machines, Silence};
use crate::cleaning::{Cleaned, Cleaning, runtime_socket, whole};
use crate::reach::SshReach;
use crate::{AT_ONCE, HostSettings, TRY_EVERY, WATCH_EVERY};

/// Written as the cluster in an owner file while no HostMachine has the Host.
const NO_CLUSTER: &str = "none";

pub struct Wiping {
    machines: Arc<dyn Machines>,
    writer: Writer,
    installation: String,
}

impl Wiping {
    pub fn new(machines: Arc<dyn Machines>, writer: Writer, settings: &HostSettings) -> Self {
        Self { machines, writer, installation: settings.installation.clone() }
    }

    /// `None`: nothing was asked for.
    ///
    /// # Errors
    /// A write that failed.
    pub async fn go_on(&self, host: &Host, reach: &SshReach) -> Result<Option<Outcome>, ReconcileError> {
        let is_asked = annotation(host, RESET).is_some() || annotation(host, TAKE_OVER).is_some();
        if !is_asked || host.spec.consumer_ref.is_some() {
            return Ok(None);
        }
        let next = match self.owned(host, reach).await {
            Ok(Ok(owner)) => self.cleaned(host, reach, &owner).await,
            Ok(Err(cleaned)) => Ok(cleaned),
            Err(silence) => Err(silence),
        };
        match next {
            Ok(cleaned) => self.report(host, cleaned).await.map(Some),
            Err(silence) => {
                tracing::info!(host = %ObjectKey::of(host), "cannot be reset now: {silence}");
                Ok(Some(Outcome::RequeueAfter(TRY_EVERY)))
            }
        }
    }

    /// Ours is the owner file, made or taken as was asked for.
    async fn owned(&self, host: &Host, reach: &SshReach) -> Result<Result<HostOwner, Cleaned>, Silence> {
        let uid = host.metadata.uid.as_deref().unwrap_or_default();
        let wanted = HostOwner::new(&self.installation, uid, uid, NO_CLUSTER, 1);
        let wanted = wanted.map_err(|error| Silence::because(error.to_string()))?;
        let claim = match self.machines.owner(reach).await? {
            OwnerAnswer::Other { owner, .. } | OwnerAnswer::Ours { owner, .. }
                if owner.machine == uid && owner.installation == self.installation =>
            {
                return Ok(Ok(owner));
            }
            OwnerAnswer::Other { owner, .. } | OwnerAnswer::Ours { owner, .. } => {
                if !self.may_take(host, &owner) {
                    return Ok(Err(Cleaned::NotOwner(owner.to_string())));
                }
                Claim::TakeFrom(owner)
            }
            OwnerAnswer::Free => Claim::Make,
            OwnerAnswer::Busy => return Ok(Err(Cleaned::Busy)),
            OwnerAnswer::Unreadable => {
                return Ok(Err(Cleaned::NotOwner("nobody that can be read".to_owned())));
            }
        };
        let answer = self.machines.claim(reach, &claim, &wanted).await?;
        if let (Claim::TakeFrom(before), OwnerAnswer::Ours { .. }) = (&claim, &answer) {
            self.remember(host, &before.machine).await;
        }
        Ok(match answer {
            OwnerAnswer::Ours { owner, .. } => Ok(owner),
            OwnerAnswer::Other { owner, .. } => Err(Cleaned::NotOwner(owner.to_string())),
            _ => Err(Cleaned::Busy),
        })
    }

    /// Whose run is to be taken back: the owner file does not say it any more. Without it files of that run are not given back.
    async fn remember(&self, host: &Host, former: &str) {
        let run = HostRunStatus {
            id: Some(former.to_owned()),
            kind: Some("Reset".to_owned()),
            phase: Some("Running".to_owned()),
            ..HostRunStatus::default()
        };
        let status = json!({ "run": whole(&run) });
        if let Err(error) = self.patch(host, Part::Status, &json!({ "status": status })).await {
            tracing::warn!("{error}");
        }
    }

    /// A former HostMachine of this Host needs no consent; another installation must be named in the annotation.
    fn may_take(&self, host: &Host, owner: &HostOwner) -> bool {
        let is_former =
            owner.installation == self.installation && Some(&owner.host) == host.metadata.uid.as_ref();
        is_former || annotation(host, TAKE_OVER) == Some(owner.installation.as_str())
    }

    async fn cleaned(&self, host: &Host, reach: &SshReach, owner: &HostOwner) -> Result<Cleaned, Silence> {
        let status = host.status.as_ref();
        let former = status.and_then(|status| {
            let of_run = status.run.as_ref().and_then(|run| run.id.clone());
            of_run.or_else(|| status.owner.as_ref()?.host_machine.clone())
        });
        let of = RunId::bootstrap(former.as_deref().unwrap_or(&owner.machine));
        let cleaning = Cleaning {
            at: reach,
            owner,
            of: of.map_err(|error| Silence::because(error.to_string()))?,
            runtime_socket: runtime_socket(host),
            resets: resets(host),
        };
        cleaning.release(&self.machines).await
    }

    async fn report(&self, host: &Host, cleaned: Cleaned) -> Result<Outcome, ReconcileError> {
        match cleaned {
            Cleaned::Running(run) => {
                let status = json!({ "run": without_id(&run) });
                self.patch(host, Part::Status, &json!({ "status": status })).await?;
                Ok(Outcome::RequeueAfter(WATCH_EVERY))
            }
            Cleaned::NeedsReset => {
                let status = json!({ "resets": resets(host).saturating_add(1) });
                self.patch(host, Part::Status, &json!({ "status": status })).await?;
                Ok(Outcome::RequeueAfter(AT_ONCE))
            }
            Cleaned::Busy => Ok(Outcome::RequeueAfter(TRY_EVERY)),
            Cleaned::Proved => {
                self.patch(host, Part::Status, &json!({ "status": { "resets": null, "run": null } })).await?;
                self.done(host).await
            }
            Cleaned::Left(_) | Cleaned::NotOwner(_) => {
                // The next look says what is left, or whose it is; another reset is another number.
                let run = HostRunStatus {
                    kind: Some("Reset".to_owned()),
                    phase: Some("Failed".to_owned()),
                    ..HostRunStatus::default()
                };
                let status = json!({ "run": without_id(&run), "resets": resets(host).saturating_add(1) });
                self.patch(host, Part::Status, &json!({ "status": status })).await?;
                self.done(host).await
            }
        }
    }

    /// What was asked for is over.
    async fn done(&self, host: &Host) -> Result<Outcome, ReconcileError> {
        let none = json!({ "metadata": { "annotations": { RESET: null, TAKE_OVER: null } } });
        self.patch(host, Part::Main, &none).await?;
        Ok(Outcome::RequeueAfter(Duration::from_secs(1)))
    }

    async fn patch(&self, host: &Host, part: Part, body: &Value) -> Result<(), ReconcileError> {
        let mut body = body.clone();
        // Of this very Host.
        body["metadata"]["uid"] = json!(host.metadata.uid);
        self.writer.patch_part::<Host>(&ObjectKey::of(host), part, &body, Mode::Real).await?;
        Ok(())
    }
}

/// The id stays that of the bootstrap which is taken back: a merge patch does not touch an absent field.
fn without_id(run: &HostRunStatus) -> Value {
    let mut run = whole(run);
    if let Some(fields) = run.as_object_mut() {
        fields.remove("id");
    }
    run
}

fn resets(host: &Host) -> u32 {
    let resets = host.status.as_ref().and_then(|status| status.resets).unwrap_or(0);
    u32::try_from(resets).unwrap_or(0)
}
