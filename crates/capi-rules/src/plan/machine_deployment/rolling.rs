//! The RollingUpdate rules: the new MachineSet grows within the surge, old ones shrink within the
//! unavailability allowed, and a stuck pair of them is unstuck. Pure numbers.
//! Source: cluster-api `core/reconcilers/machinedeployment/machinedeployment_rollout_rollingupdate.go`,
//! v1.14.2 (MD-6, MD-7, MD-9).

use super::{Observed, Rollout, Share, Why, in_place};

/// Sets intents in upstream's order.
///
/// # Errors
/// When it is not known whether Machines can be updated in place.
pub(super) fn scale(rollout: &mut Rollout, observed: &Observed) -> Result<(), Why> {
    in_place::acknowledge(rollout, observed);
    grow_current(rollout, rollout.replicas + rollout.max_surge);
    shrink_old(rollout);
    // After growth and shrinking: their intents show how much of the surge moves make superfluous.
    in_place::intend(rollout, observed)?;
    // Last of all, for it acts only where no rule above has an intent.
    break_deadlock(rollout);
    Ok(())
}

/// MD-6: up to the replicas as long as all together stay below `limit`; down without looking back.
pub(super) fn grow_current(rollout: &mut Rollout, limit: i32) {
    let wanted = rollout.replicas;
    let surge = rollout.max_surge;
    // Both Machines on their way out (status above spec) and those not made yet take room.
    let total: i32 = rollout.all().map(|s| s.spec.max(s.status)).sum();
    let Some(current) = &mut rollout.current else { return };
    if current.spec > wanted {
        let note = "scale down to align MachineSet spec.replicas to MachineDeployment spec.replicas";
        current.want(wanted, note.to_owned());
    } else if current.spec < wanted && total < limit {
        let up = (limit - total).min(wanted - current.spec);
        let note =
            format!("{total} current Machines < {wanted} MachineDeployment spec.replicas + {surge} maxSurge");
        current.want(current.spec + up, note);
    }
}

/// MD-7: unavailable Machines first, then available ones as far as enough stay available.
fn shrink_old(rollout: &mut Rollout) {
    if rollout.old.iter().map(|s| s.spec).sum::<i32>() == 0 {
        return;
    }
    let min_available = (rollout.replicas - rollout.max_unavailable).max(0);
    let mut total_available: i32 = rollout.all().map(|s| s.available).sum();
    // Machines given up in earlier passes: they count against the budget until they are gone.
    let pending: i32 = rollout.all().map(|s| (s.status - s.spec.min(s.replicas())).max(0)).sum();
    // New Machines that are not available yet cannot stand in for old ones.
    let new_unavailable = rollout.current.as_ref().map_or(0, |s| (s.spec - s.available).max(0));
    let total_spec: i32 = rollout.all().map(|s| s.spec).sum();
    let mut budget = (total_spec - pending - min_available - new_unavailable).max(0);
    if budget == 0 {
        return;
    }
    rollout.sort_old_by_age();
    for only_unavailable in [true, false] {
        for share in &mut rollout.old {
            if budget == 0 {
                return;
            }
            budget -= shrink(share, only_unavailable, budget, min_available, &mut total_available);
        }
    }
}

/// Takes at most `budget` replicas from one MachineSet; returns how many.
fn shrink(
    share: &mut Share,
    only_unavailable: bool,
    budget: i32,
    min_available: i32,
    total_available: &mut i32,
) -> i32 {
    let replicas = share.replicas();
    let most = if only_unavailable { (replicas - share.available).max(0) } else { replicas };
    let mut down = most.min(budget);
    if replicas == 0 || down == 0 {
        return 0;
    }
    let before = *total_available;
    // Without an available Machine nothing is lost, so the whole budget may go.
    if share.available > 0 {
        let mut target = (replicas - down).max(0);
        // Replicas that have no Machine yet go without a deletion.
        let mut deletes = (share.status - target).max(0);
        let spare = before - min_available;
        // The MachineSet chooses what it deletes, so each deletion may hit an available Machine.
        if deletes > 0 && spare < deletes {
            target = (share.status - spare.max(0)).min(replicas);
            down = (replicas - target).max(0);
            deletes = (share.status - target).max(0);
        }
        if deletes > 0 {
            *total_available -= share.available.min(deletes);
        }
    }
    if down <= 0 {
        return 0;
    }
    let note = if *total_available == before {
        "scale down to align to existing Machines or scale down by removing unavailable replicas (and no available \
         replicas exist on the MachineSet)"
            .to_owned()
    } else {
        format!("{before} available replicas > {min_available} minimum available replicas")
    };
    share.want(replicas - down, note);
    down
}

/// MD-9: nothing moves, nothing may move, and old Machines are unavailable: take one of them.
fn break_deadlock(rollout: &mut Rollout) {
    // A number or a Machine still moving may end the standstill by itself.
    let settled = rollout.all().all(|s| s.spec == s.status && s.intent.is_none());
    let old_status: i32 = rollout.old.iter().map(|s| s.status).sum();
    let old_available: i32 = rollout.old.iter().map(|s| s.available).sum();
    let Some(current) = &mut rollout.current else { return };
    if !settled || old_status == 0 || old_available == old_status || current.status != current.available {
        return;
    }
    let Some(stuck) = rollout.old.iter_mut().find(|s| s.status != s.available && s.spec > 0) else { return };
    let note = "scaling down by 1 to unblock rollout stuck due to unavailable Machine on oldMS";
    stuck.want(stuck.spec - 1, note.to_owned());
    // Upstream attaches the note to the new MachineSet.
    current.note(note.to_owned());
}
