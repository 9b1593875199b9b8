//! The words of a rollout: phases, moments, durations. Must not know where they stand.

use crate::fleet::{
    Arrival, Flip, Happened, Kind, MachinePhase, OwnerRollout, Rollout, Step, TimelineEntry, moment,
};
use capi_types::condition::Status;
use capstan_base::text::counted;
use capstan_base::time::{Timestamp, human_duration};

/// What happens to a Machine, after its name.
pub(super) fn phase(phase: &MachinePhase, is_old: bool, is_control_plane: bool) -> String {
    match phase {
        MachinePhase::Waiting => "waits for its turn".to_owned(),
        MachinePhase::Ok => "is up".to_owned(),
        MachinePhase::Starting { step: Step::Bootstrap, .. } => "starts: bootstrap data".to_owned(),
        MachinePhase::Starting { step: Step::Infrastructure, .. } => "starts: infrastructure".to_owned(),
        MachinePhase::Starting { .. } => "joins: Node and its parts".to_owned(),
        MachinePhase::Settling => "is ready, and counts its minReadySeconds".to_owned(),
        MachinePhase::Updating { words } if words.is_empty() => "is updated in place".to_owned(),
        MachinePhase::Updating { words } => format!("is updated in place: {words}"),
        MachinePhase::Deleting { reason, is_held_by_budget } => {
            let leaves_etcd = is_control_plane && reason.as_ref() == "WaitingForPreTerminateHook";
            let what = if leaves_etcd { ": leaves etcd".to_owned() } else { deletion(reason) };
            let budget = if *is_held_by_budget { ", held by a disruption budget" } else { "" };
            let new = if is_old { "" } else { " (new)" };
            format!("goes{new}{what}{budget}")
        }
    }
}

/// Nothing rolls, and what its Machines do all the same.
pub(super) fn resting(rollout: &Rollout) -> String {
    if !rollout.unread.is_empty() {
        return "nothing rolls, as far as it can be read".to_owned();
    }
    let phases = || rollout.owners.iter().flat_map(OwnerRollout::moving).map(|machine| &machine.phase);
    let deleted = phases().filter(|phase| matches!(phase, MachinePhase::Deleting { .. })).count();
    resting_beside(deleted, phases().count() - deleted)
}

/// `deleted`, `coming`: Machines that go and come without a rollout.
fn resting_beside(deleted: usize, coming: usize) -> String {
    let mut parts = Vec::new();
    for (count, doing) in [(deleted, "being deleted"), (coming, "not available yet")] {
        if count > 0 {
            let is = if count == 1 { "is" } else { "are" };
            parts.push(format!("{} {is} {doing}", counted(count, "Machine")));
        }
    }
    if parts.is_empty() {
        return "nothing rolls: every Machine is as its owner wants it".to_owned();
    }
    format!("nothing rolls; {}", parts.join(", "))
}

/// The step of a deletion, by the reason of the condition.
fn deletion(reason: &str) -> String {
    let words = match reason {
        "DrainingNode" => "its Node drains",
        "WaitingForPreDrainHook" => "pre-drain hooks",
        "WaitingForPreTerminateHook" => "pre-terminate hooks",
        "WaitingForVolumeDetach" => "volumes detach",
        "WaitingForInfrastructureDeletion" => "its infrastructure",
        "WaitingForBootstrapDeletion" => "its bootstrap data",
        "DeletingNode" => "its Node",
        "" | "DeletionCompleted" | "Deleting" => return String::new(),
        other => other,
    };
    format!(": {words}")
}

/// In one word, for a list of names.
pub(super) fn phase_word(phase: &MachinePhase) -> &'static str {
    match phase {
        MachinePhase::Waiting => "waits",
        MachinePhase::Ok => "up",
        MachinePhase::Starting { .. } => "starts",
        MachinePhase::Settling => "ready",
        MachinePhase::Updating { .. } => "updates",
        MachinePhase::Deleting { reason, .. } if reason.as_ref() == "DrainingNode" => "drains",
        MachinePhase::Deleting { .. } => "goes",
    }
}

/// The time of day (UTC), with the day when it is another one.
pub(in crate::tui::screen) fn time_of_day(at_s: u32, now: Timestamp) -> String {
    let Some(at) = moment(at_s) else { return "?".to_owned() };
    let form = if at.date_naive() == now.date_naive() { "%H:%M:%S" } else { "%m-%d %H:%M" };
    at.format(form).to_string()
}

/// Without seconds.
pub(in crate::tui::screen) fn minute_of_day(at_s: u32, now: Timestamp) -> String {
    let Some(at) = moment(at_s) else { return "?".to_owned() };
    let form = if at.date_naive() == now.date_naive() { "%H:%M" } else { "%m-%d %H:%M" };
    at.format(form).to_string()
}

/// `about 14:09-14:12`; minutes are enough.
pub(in crate::tui::screen) fn arrival(arrival: Arrival, now: Timestamp) -> String {
    let (low, high) = (minute_of_day(arrival.low_s, now), minute_of_day(arrival.high_s, now));
    if low == high { format!("about {low}") } else { format!("about {low}-{high}") }
}

pub(super) fn duration(seconds: u32) -> String {
    human_duration(i64::from(seconds))
}

/// `52s-71s`.
pub(super) fn range(low_s: u32, high_s: u32) -> String {
    if low_s == high_s { duration(low_s) } else { format!("{}-{}", duration(low_s), duration(high_s)) }
}

/// What happened, after the name of the object.
pub(in crate::tui) fn happened(entry: &TimelineEntry) -> String {
    match &entry.happened {
        Happened::Made => "made".to_owned(),
        Happened::Deleted => "deletion asked for".to_owned(),
        Happened::Gone => "gone".to_owned(),
        Happened::Version { from, to } => format!("version {from} to {to}"),
        Happened::Replicas { from, to } => format!("scaled {from} to {to}"),
        Happened::Paused(true) => "paused".to_owned(),
        Happened::Paused(false) => "resumed".to_owned(),
        Happened::Flip(flip) => flipped(flip),
    }
}

fn flipped(flip: &Flip) -> String {
    let (type_, reason) = (flip.type_.as_ref(), flip.reason.as_ref());
    let is_true = flip.to == Some(Status::True);
    match (type_, flip.to) {
        ("Ready", Some(Status::True)) => "ready".to_owned(),
        ("RollingOut", Some(Status::True)) => "rollout began".to_owned(),
        ("RollingOut", Some(Status::False)) if flip.from.is_some() => "rollout ended".to_owned(),
        ("Updating", Some(Status::True)) if reason == "InPlaceUpdateFailed" => {
            "its update in place failed".to_owned()
        }
        ("Updating", Some(Status::True)) => "its update in place began".to_owned(),
        ("Updating", Some(Status::False)) if flip.from.is_some() => "was updated in place".to_owned(),
        ("InfrastructureReady", Some(Status::True)) => "infrastructure is there".to_owned(),
        ("BootstrapConfigReady", Some(Status::True)) => "bootstrap data is there".to_owned(),
        ("Deleting", Some(Status::True)) => format!("goes{}", deletion(reason)),
        (_, Some(status)) if reason == type_ || is_true && reason.is_empty() => {
            format!("{type_} {}", status.as_str())
        }
        (_, Some(status)) => format!("{type_} {} ({reason})", status.as_str()),
        (_, None) => format!("{type_} is not reported any more"),
    }
}

/// Is it worth a line in the log of a rollout?
pub(super) fn is_for_log(entry: &TimelineEntry) -> bool {
    match &entry.happened {
        Happened::Made | Happened::Deleted | Happened::Gone => true,
        Happened::Version { .. } | Happened::Replicas { .. } | Happened::Paused(_) => true,
        Happened::Flip(flip) => match (flip.type_.as_ref(), flip.to) {
            ("Ready", Some(Status::True)) => entry.kind == Kind::Machine,
            ("Ready", _) => entry.kind == Kind::Machine && flip.from == Some(Status::True),
            ("RollingOut", _) => entry.kind != Kind::Cluster,
            ("Updating", Some(Status::True)) => entry.kind == Kind::Machine,
            ("Updating", _) => entry.kind == Kind::Machine && flip.from == Some(Status::True),
            ("Deleting" | "InfrastructureReady", Some(Status::True)) => entry.kind == Kind::Machine,
            _ => false,
        },
    }
}

/// Does it say that a Machine is not ready any more?
pub(super) fn is_loss(entry: &TimelineEntry) -> bool {
    let Happened::Flip(flip) = &entry.happened else { return false };
    flip.type_.as_ref() == "Ready" && flip.to != Some(Status::True)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_that_come_and_go_without_a_rollout_are_counted() {
        for (deleted, coming, expected) in [
            (0, 0, "nothing rolls: every Machine is as its owner wants it"),
            (1, 0, "nothing rolls; 1 Machine is being deleted"),
            (0, 2, "nothing rolls; 2 Machines are not available yet"),
            (3, 1, "nothing rolls; 3 Machines are being deleted, 1 Machine is not available yet"),
        ] {
            assert_eq!(resting_beside(deleted, coming), expected);
        }
    }
}
