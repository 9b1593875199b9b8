//! The OnDelete rules: old Machines are replaced only after they were deleted by hand. Pure numbers.
//! Source: cluster-api `core/reconcilers/machinedeployment/machinedeployment_rollout_ondelete.go`,
//! v1.14.2 (MD-10, quirk of the second loop included).

use super::Rollout;

pub(super) fn scale(rollout: &mut Rollout) {
    grow_current(rollout);
    let old_spec: i32 = rollout.old.iter().map(|s| s.spec).sum();
    if old_spec == 0 {
        return;
    }
    let current = rollout.current.as_ref().map_or(0, super::Share::replicas);
    let mut budget = (old_spec + current - rollout.replicas).max(0);
    rollout.sort_old_by_age();
    for share in rollout.old.iter_mut().filter(|s| s.spec > s.status) {
        budget -= share.spec - share.status;
        share.want(share.status, "scale down to align to existing Machines".to_owned());
    }
    for share in &mut rollout.old {
        if budget <= 0 {
            return;
        }
        let n = share.replicas().min(budget);
        if n > 0 {
            // From spec, not from the intent of the first loop, as upstream.
            let note = "scale down to align MachineSet spec.replicas to MachineDeployment spec.replicas";
            share.want(share.spec - n, note.to_owned());
            budget -= n;
        }
    }
}

fn grow_current(rollout: &mut Rollout) {
    let wanted = rollout.replicas;
    let total: i32 = rollout.all().map(|s| s.spec.max(s.status)).sum();
    let Some(current) = &mut rollout.current else { return };
    if current.spec > wanted {
        let note = "scale down to align MachineSet spec.replicas to MachineDeployment spec.replicas";
        current.want(wanted, note.to_owned());
    } else if current.spec < wanted && total < wanted {
        let note = format!("{total} current Machines < {wanted} MachineDeployment spec.replicas");
        // No further bound: `total` holds the current replicas, so they cannot pass `wanted`.
        current.want(current.spec + (wanted - total), note);
    }
}
