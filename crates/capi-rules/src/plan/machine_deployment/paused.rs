//! Scaling while `spec.paused` is set: no new MachineSet, no rollout, but the replicas are kept. Pure
//! numbers.
//! Source: cluster-api `core/reconcilers/machinedeployment/machinedeployment_sync.go` (`scale`), v1.14.2
//! (MD-11; proportions come out as 0 there, so the largest MachineSet takes the whole difference).

use super::desired::created;
use super::{Rollout, Share};
use capi_types::key::annotation;
use capi_types::names::annotation::DESIRED_REPLICAS;

const NOTE: &str = "scaled while the MachineDeployment is paused";

pub(super) fn scale(rollout: &mut Rollout) {
    let replicas = rollout.replicas;
    let active = rollout.all().filter(|s| s.spec > 0).count();
    if active <= 1 {
        if let Some(share) = only_or_newest(rollout) {
            set(share, replicas);
        }
        return;
    }
    if rollout.current.as_ref().is_some_and(|s| is_saturated(s, replicas)) {
        rollout.old.iter_mut().for_each(|share| set(share, 0));
        return;
    }
    let total: i32 = rollout.all().map(|s| s.spec).sum();
    let allowed = if replicas > 0 { replicas + rollout.max_surge } else { 0 };
    match allowed - total {
        0 => {}
        _ if replicas == 0 => {
            rollout.current.iter_mut().chain(&mut rollout.old).for_each(|share| set(share, 0));
        }
        difference => {
            let growing = difference > 0;
            let largest =
                rollout.current.iter_mut().chain(&mut rollout.old).filter(|s| s.spec > 0).max_by_key(|s| {
                    // Of equals the newest grows and the oldest shrinks.
                    let age = created(s.live.as_deref()).map_or(0, |at| at.timestamp());
                    (s.spec, if growing { age } else { -age })
                });
            if let Some(share) = largest {
                // Below zero becomes zero; the next pass takes the rest from the next largest.
                set(share, share.spec + difference);
            }
        }
    }
}

fn set(share: &mut Share, replicas: i32) {
    if share.spec != replicas {
        share.want(replicas, NOTE.to_owned());
    }
}

/// The one with replicas, else the current one, else the newest.
fn only_or_newest(rollout: &mut Rollout) -> Option<&mut Share> {
    let Rollout { current, old, .. } = rollout;
    let active_old = old.iter().position(|s| s.spec > 0);
    match (active_old, current) {
        (Some(at), current) if current.as_ref().is_none_or(|c| c.spec == 0) => old.get_mut(at),
        (_, Some(current)) => Some(current),
        (_, None) => old.iter_mut().max_by_key(|s| created(s.live.as_deref())),
    }
}

fn is_saturated(current: &Share, replicas: i32) -> bool {
    let desired = annotation(&current.desired, DESIRED_REPLICAS).and_then(|text| text.parse::<i32>().ok());
    current.spec == replicas && current.available == replicas && desired == Some(replicas)
}
