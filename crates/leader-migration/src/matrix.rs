//! Controllers by processes: under which lock each process has each controller, and who runs it now. Derived from
//! flags, files and holders; what a process really does is not visible from outside.

use super::actors::Behaviour;
use super::controller_names::Function;
use super::lock_view::{LockState, WatchedLease};
use super::placement::Placement;
use super::process::Process;

/// One process and one controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MatrixCell {
    /// `None`: the process does not have it.
    pub placement: Option<Placement>,
    /// Its process holds the lock that the placement needs, or needs none.
    pub runs_now: bool,
}

impl MatrixCell {
    /// For a cell; `unavailable` where the process does not have it.
    pub fn word(self) -> &'static str {
        self.placement.map_or("unavailable", Placement::word)
    }
}

/// One controller, with a cell for each process in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatrixRow {
    /// What the row is about.
    pub function: Function,
    /// One for each process, in the order of the processes.
    pub cells: Vec<MatrixCell>,
}

impl MatrixRow {
    /// How many run it now.
    pub fn actors(&self) -> usize {
        self.cells.iter().filter(|cell| cell.runs_now).count()
    }
}

/// Only controllers that a process has.
pub fn matrix(processes: &[Process], leases: &[WatchedLease]) -> Vec<MatrixRow> {
    let row = |function: Function| {
        let cells = processes.iter().map(|process| cell(process, function, leases)).collect();
        MatrixRow { function, cells }
    };
    let rows = Function::ALL.into_iter().map(row);
    rows.filter(|row| row.cells.iter().any(|cell| cell.placement.is_some())).collect()
}

fn cell(process: &Process, function: Function, leases: &[WatchedLease]) -> MatrixCell {
    let placement = Behaviour::of(process, true).placement(function);
    let main = process.main_lock();
    let holds = |lock: &str| leases.iter().find(|l| l.key() == lock).is_some_and(|l| is_held_by(l, process));
    let runs_now = match placement {
        // Without an election each replica runs everything.
        Some(_) if !process.flags.leader_elect => true,
        Some(Placement::Main) => holds(&main),
        // Only the holder of the main lock competes for the other one.
        Some(Placement::Migration) => {
            let holder = |lock: &str| leases.iter().find(|l| l.key() == lock).map(|l| l.holder.as_str());
            let lock = process.migration_lock().unwrap_or_default();
            // Two processes of one host have one host part: only equal identities are one process.
            holds(&main) && holds(&lock) && holder(&main) == holder(&lock)
        }
        Some(Placement::Unowned) | None => false,
    };
    MatrixCell { placement, runs_now }
}

/// By the host in the identity, which is the node of a process with host network, else the name of its pod.
fn is_held_by(lease: &WatchedLease, process: &Process) -> bool {
    let host = lease.identity().0;
    let is_there = process.node.as_deref() == Some(host) || process.name == host;
    // Unknown counts as held: right after the first look nothing else could be shown.
    is_there && matches!(lease.state(), LockState::Held | LockState::Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manager_kind::ManagerKind;

    const FILE: &str = "apiVersion: controllermanager.config.k8s.io/v1
kind: LeaderMigrationConfiguration
leaderName: move
controllerLeaders:
  - {name: route, component: '*'}
  - {name: service, component: cloud-controller-manager}
";

    fn on(node: &str, manager: ManagerKind, args: &str) -> Process {
        let process = crate::tests::process(manager, 27, args, FILE);
        Process { node: Some(node.to_owned()), ..process }
    }

    fn held(name: &str, host: &str) -> WatchedLease {
        WatchedLease {
            namespace: "kube-system".to_owned(),
            name: name.to_owned(),
            holder: format!("{host}_0123456789"),
            duration_s: 15,
            changed_s: Some(1),
            ..WatchedLease::default()
        }
    }

    fn picture(processes: &[Process], leases: &[WatchedLease]) -> Vec<String> {
        let cell = |cell: &MatrixCell| format!("{}{}", cell.word(), if cell.runs_now { "!" } else { "" });
        let row = |row: &MatrixRow| {
            format!("{}: {}", row.function.title(), row.cells.iter().map(cell).collect::<Vec<_>>().join(" "))
        };
        matrix(processes, leases).iter().map(row).collect()
    }

    #[test]
    fn who_has_what_and_who_runs_it() {
        let flags = "--enable-leader-migration --leader-migration-config=/m.yaml";
        let processes = [
            on("a", ManagerKind::KubeControllerManager, &format!("--cloud-provider=aws {flags}")),
            on("b", ManagerKind::CloudControllerManager, flags),
        ];
        let leases =
            [held("kube-controller-manager", "a"), held("cloud-controller-manager", "b"), held("move", "a")];
        assert_eq!(
            picture(&processes, &leases),
            [
                "routes: migration! migration",
                "load balancers: unowned migration",
                "node lifecycle: main! main!",
                "node initialisation: unavailable main!",
            ]
        );
        // The holder of the migration lock lost its main lock: it is about to end.
        let leases = [held("kube-controller-manager", "b"), held("move", "a")];
        assert_eq!(picture(&processes[..1], &leases)[0], "routes: migration");
        let stale = WatchedLease { changed_s: Some(40), ..held("kube-controller-manager", "a") };
        assert_eq!(picture(&processes[..1], &[stale])[2], "node lifecycle: main");
    }
}
