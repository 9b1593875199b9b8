//! Leases as locks, for people who look from outside: what each is for, who holds it, whether the holder lives, and
//! what is odd. Whether a holder lives is judged by what changes while one looks; what it says itself is shown apart,
//! because clocks differ. Must not know how Leases are read; offers nothing to do to them.

use std::collections::BTreeMap;

use super::manager_kind::ManagerKind;
use super::process::Process;
use capstan_base::time::Timestamp;

/// More than this between the holder's clock and ours is odd.
const OFFSET_MAX_S: i64 = 5;

/// More changes of hands than this within [`RATE_S`] are odd.
const CHANGES_MAX: usize = 3;
const RATE_S: i64 = 600;

/// A Lease after one has looked at it for a while.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchedLease {
    /// Beside the Lease's name, it says which lock this is.
    pub namespace: String,
    /// Of the Lease: that of the program, unless a flag says otherwise.
    pub name: String,
    /// `HOST_UUID` for the two programs; empty: nobody.
    pub holder: String,
    /// Seconds after which others may take it when it does not change.
    pub duration_s: u32,
    /// How often it changed hands, as the holders count.
    pub transitions: i32,
    /// By the holder's clock.
    pub acquired_us: Option<i64>,
    /// By the holder's clock, microseconds since the epoch.
    pub renewed_us: Option<i64>,
    /// `spec.strategy`: a server elects for this Lease.
    pub strategy: Option<String>,
    /// `spec.preferredHolder`: whom the server wants next.
    pub preferred_holder: Option<String>,
    /// The label of capstan's engines.
    pub engine: Option<String>,
    /// What such an engine runs under it.
    pub controllers: String,
    /// The feature gates that such an engine was started with.
    pub feature_gates: String,
    /// How many extensions such an engine lets answer a hook.
    pub in_place_handlers: String,
    /// Why the controllers of such an engine do not run; empty: they do.
    pub held_up_by: String,
    /// Since the first look, by our clock.
    pub watched_s: u64,
    /// Since it was last seen to change. `None`: it did not.
    pub changed_s: Option<u64>,
    /// It was deleted and made anew meanwhile.
    pub was_made_anew: bool,
}

/// What a Lease is for, by its name and who holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockKind {
    /// Of a controller manager.
    Main,
    /// Under which migrated controllers run.
    Migration,
    /// A server elects for it.
    Coordinated,
    /// Of capstan's engines.
    Own,
    /// Of some other program; it is shown, and nothing is odd about it.
    Other,
}

impl LockKind {
    /// For a column.
    pub fn word(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Migration => "migration",
            Self::Coordinated => "coordinated",
            Self::Own => "own",
            Self::Other => "other",
        }
    }
}

/// Whether the holder lives, by what changed while one looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockState {
    /// It has no holder.
    Free,
    /// It changed within its duration.
    Held,
    /// It did not change for its duration.
    Stale,
    /// It was not looked at for as long.
    Unknown,
}

impl LockState {
    /// For a column.
    pub fn word(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Held => "held",
            Self::Stale => "stale",
            Self::Unknown => "unknown",
        }
    }
}

impl WatchedLease {
    /// The state at the last look.
    pub fn state(&self) -> LockState {
        let duration_s = u64::from(self.duration_s);
        match self.changed_s {
            _ if self.holder.is_empty() => LockState::Free,
            // By what was seen here: the time in the record is what the holder claims.
            Some(changed) if changed <= duration_s => LockState::Held,
            // As client-go judges it: before one duration was watched nobody can say that the
            // holder is gone.
            None if self.watched_s <= duration_s => LockState::Unknown,
            _ => LockState::Stale,
        }
    }

    /// The same, so many seconds later and not looked at since.
    pub fn later(mut self, seconds: u64) -> Self {
        self.watched_s += seconds;
        self.changed_s = self.changed_s.map(|s| s + seconds);
        self
    }

    /// Host and random part of the holder; the whole where it has another form.
    pub fn identity(&self) -> (&str, &str) {
        // Names of pods may have `_` as well: only a part that can be random is one.
        let is_random = |id: &str| id.len() >= 8 && id.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
        match self.holder.rsplit_once('_') {
            Some((host, id)) if is_random(id) => (host, id),
            _ => (&self.holder, ""),
        }
    }

    /// Somebody holds it, and it was seen to change within its duration.
    pub fn is_renewed(&self) -> bool {
        self.state() == LockState::Held
    }

    /// `NAMESPACE/NAME`.
    pub fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// A Lease that changed hands, as it was seen here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderChange {
    /// By our clock.
    pub at: Timestamp,
    /// `NAMESPACE/NAME`.
    pub lease: String,
    /// Empty: nobody held it, or holds it now.
    pub from: String,
    /// Empty: nobody holds it now.
    pub to: String,
    /// As the Lease counts them after the change.
    pub transitions: i32,
}

/// What Leases are judged beside.
#[derive(Clone, Copy, Debug, Default)]
pub struct Surroundings<'a> {
    /// The migration Lease. Of others, those count that the holder of a main lock in the same namespace holds.
    pub leader_name: &'a str,
    /// Our clock at the last look, microseconds since the epoch.
    pub now_us: i64,
    /// The controller managers that are known; none where they are not.
    pub processes: &'a [Process],
    /// Who held what before, as seen here.
    pub changes: &'a [HolderChange],
}

/// One row of the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockRow {
    /// As it was at the last look.
    pub lease: WatchedLease,
    /// Main locks come first.
    pub kind: LockKind,
    /// Whose lock it is; of a migration lock, whose main lock its holder has.
    pub component: String,
    /// How often it changed hands in the last ten minutes, as far as one looked.
    pub recent_changes: usize,
}

/// All Leases of one look, judged together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockView {
    /// Main locks first, then by name.
    pub rows: Vec<LockRow>,
    /// Lease and what is odd about it.
    pub anomalies: Vec<(String, String)>,
}

/// Judges Leases together.
pub fn view(leases: Vec<WatchedLease>, around: Surroundings<'_>) -> LockView {
    let mut main: BTreeMap<String, ManagerKind> = BTreeMap::new();
    for lease in leases.iter().filter(|lease| !lease.holder.is_empty()) {
        // One process has one identity for both locks: whoever holds the main lock is known by it
        // in the other.
        if let Some(manager) = ManagerKind::ALL.into_iter().find(|manager| manager.name() == lease.name) {
            main.insert(lease.holder.clone(), manager);
        }
    }
    let mut rows: Vec<LockRow> = leases.into_iter().map(|lease| row(lease, around, &main)).collect();
    rows.sort_by_key(|row| (row.kind, row.lease.key()));
    let anomalies = anomalies(&rows, around);
    LockView { rows, anomalies }
}

fn row(lease: WatchedLease, around: Surroundings<'_>, main: &BTreeMap<String, ManagerKind>) -> LockRow {
    let manager = ManagerKind::ALL.into_iter().find(|manager| manager.name() == lease.name);
    let by_holder = main.get(&lease.holder).copied();
    let kind = match manager {
        // Before the name counts: a coordinated Lease must not be written, whatever it is for.
        _ if lease.strategy.is_some() => LockKind::Coordinated,
        _ if lease.engine.is_some() => LockKind::Own,
        Some(_) => LockKind::Main,
        None if lease.name == around.leader_name || by_holder.is_some() => LockKind::Migration,
        None => LockKind::Other,
    };
    let component = match (kind, manager.or(by_holder)) {
        (LockKind::Own, _) => lease.engine.clone().unwrap_or_default(),
        (_, Some(manager)) => manager.name().to_owned(),
        (LockKind::Migration, None) if !lease.holder.is_empty() => "unknown (not main holder)".to_owned(),
        _ => String::new(),
    };
    let is_recent = |change: &&HolderChange| {
        change.lease == lease.key() && around.now_us / 1_000_000 - change.at.timestamp() <= RATE_S
    };
    let recent_changes = around.changes.iter().filter(is_recent).count();
    LockRow { lease, kind, component, recent_changes }
}

fn anomalies(rows: &[LockRow], around: Surroundings<'_>) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut odd = |lease: &WatchedLease, what: String| found.push((lease.key(), what));
    for LockRow { lease, kind, component, recent_changes } in rows {
        let state = lease.state();
        // A takeover lasts one duration and a retry: within two of them a stale Lease is usual.
        if state == LockState::Stale && lease.watched_s > 2 * u64::from(lease.duration_s) {
            odd(lease, format!("not renewed for {} s, and nobody takes it over", lease.watched_s));
        }
        if lease.was_made_anew {
            odd(lease, "deleted and made anew: its transitions begin at 0".to_owned());
        }
        if *kind == LockKind::Migration && state == LockState::Held && component.starts_with("unknown") {
            odd(lease, "its holder has no main lock; one lease duration is usual".to_owned());
        }
        if *recent_changes > CHANGES_MAX {
            odd(lease, format!("changed hands {recent_changes} times in {} min", RATE_S / 60));
        }
        // Only of these two programs the hosts are known.
        let is_managers = matches!(kind, LockKind::Main | LockKind::Migration);
        if is_managers && state == LockState::Held && is_stranger(lease, around.processes) {
            odd(lease, format!("held from {}, where no controller manager is known", lease.identity().0));
        }
        // At the moment of a change the two clocks should agree.
        if let (Some(renewed), Some(changed)) = (lease.renewed_us, lease.changed_s) {
            let offset_s = (around.now_us - renewed) / 1_000_000 - i64::try_from(changed).unwrap_or(0);
            if offset_s.abs() > OFFSET_MAX_S {
                odd(
                    lease,
                    format!(
                        "the holder's clock is {} s {}",
                        offset_s.abs(),
                        if offset_s > 0 { "behind" } else { "ahead" }
                    ),
                );
            }
        }
    }
    let renewed =
        rows.iter().filter(|row| row.kind == LockKind::Migration && row.lease.state() == LockState::Held);
    let renewed: Vec<&WatchedLease> = renewed.map(|row| &row.lease).collect();
    for lease in renewed.iter().filter(|_| renewed.len() > 1) {
        found.push((
            lease.key(),
            "one of several migration locks that are renewed: do files differ in leaderName?".to_owned(),
        ));
    }
    // Where no process is known, nothing is known about flags either.
    let nobody_migrates = !around.processes.is_empty() && !around.processes.iter().any(Process::migrates);
    for lease in renewed.iter().filter(|_| nobody_migrates) {
        found.push((lease.key(), "renewed though no known process has leader migration on".to_owned()));
    }
    found
}

/// Is the holder's host none of those that controller managers are known on? Host names may have a domain behind them.
fn is_stranger(lease: &WatchedLease, processes: &[Process]) -> bool {
    let host = lease.identity().0;
    let is_on = |node: &str| {
        // Either may have the domain: the host's own name, or that of its Node.
        let (long, short) = if host.len() > node.len() { (host, node) } else { (node, host) };
        long.strip_prefix(short).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let mut nodes = processes.iter().filter_map(|process| process.node.as_deref()).peekable();
    // Without any known host each holder would be a stranger.
    nodes.peek().is_some() && !nodes.any(is_on)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(name: &str, holder: &str) -> WatchedLease {
        WatchedLease {
            namespace: "kube-system".to_owned(),
            name: name.to_owned(),
            holder: holder.to_owned(),
            duration_s: 15,
            renewed_us: Some(1_000_000_000),
            watched_s: 3,
            changed_s: Some(1),
            ..WatchedLease::default()
        }
    }

    const NOW_US: i64 = 1_001_000_000;

    fn around<'a>() -> Surroundings<'a> {
        Surroundings { leader_name: "move", now_us: NOW_US, ..Surroundings::default() }
    }

    #[test]
    fn a_state_is_what_was_seen_here() {
        let seen = |holder: &str, watched_s, changed_s| {
            WatchedLease { watched_s, changed_s, ..lease("a", holder) }.state()
        };
        for (holder, watched_s, changed_s, expected) in [
            ("", 0, None, LockState::Free),
            ("x", 3, Some(1), LockState::Held),
            ("x", 3, None, LockState::Unknown),
            ("x", 16, None, LockState::Stale),
            ("x", 40, Some(16), LockState::Stale),
        ] {
            assert_eq!(seen(holder, watched_s, changed_s), expected, "{holder} {watched_s} {changed_s:?}");
        }
    }

    #[test]
    fn identities_of_every_form() {
        for (holder, expected) in [
            ("cp_1_6f1c2d3e-0a1b-4c5d-8e9f-0a1b2c3d4e5f", ("cp_1", "6f1c2d3e-0a1b-4c5d-8e9f-0a1b2c3d4e5f")),
            ("vm_0123456789abcdef", ("vm", "0123456789abcdef")),
            ("some-pod-7d9", ("some-pod-7d9", "")),
            ("pod_name", ("pod_name", "")),
            ("", ("", "")),
        ] {
            assert_eq!(lease("a", holder).identity(), expected);
        }
    }

    #[test]
    fn rows_say_whose_lock_it_is() {
        let own = WatchedLease { engine: Some("east".to_owned()), ..lease("capstan-engine-east", "e_1") };
        let coordinated =
            WatchedLease { strategy: Some("OldestEmulationVersion".to_owned()), ..lease("scheduler", "s_1") };
        let leases = vec![
            lease("move", "a_1"),
            own,
            coordinated,
            lease("kube-controller-manager", "a_1"),
            lease("cloud-controller-manager", "b_2"),
            lease("other-move", "b_2"),
            lease("plndr-svcs-lock", "c"),
        ];
        let view = view(leases, around());
        let rows: Vec<_> = view
            .rows
            .iter()
            .map(|row| (row.lease.name.as_str(), row.kind.word(), row.component.as_str()))
            .collect();
        assert_eq!(
            rows,
            [
                ("cloud-controller-manager", "main", "cloud-controller-manager"),
                ("kube-controller-manager", "main", "kube-controller-manager"),
                ("move", "migration", "kube-controller-manager"),
                ("other-move", "migration", "cloud-controller-manager"),
                ("scheduler", "coordinated", ""),
                ("capstan-engine-east", "own", "east"),
                ("plndr-svcs-lock", "other", ""),
            ]
        );
        let odd: Vec<&str> = view.anomalies.iter().map(|(lease, _)| lease.as_str()).collect();
        assert_eq!(odd, ["kube-system/move", "kube-system/other-move"]);
    }

    #[test]
    fn what_is_odd_is_named() {
        for (odd, what) in [
            (WatchedLease { watched_s: 40, changed_s: None, ..lease("move", "a_1") }, "not renewed for 40 s"),
            (WatchedLease { was_made_anew: true, ..lease("move", "a_1") }, "deleted and made anew"),
            (lease("move", "stranger"), "its holder has no main lock"),
            (
                WatchedLease { renewed_us: Some(900_000_000), ..lease("move", "a_1") },
                "the holder's clock is 100 s behind",
            ),
            (
                WatchedLease { renewed_us: Some(1_100_000_000), ..lease("move", "a_1") },
                "the holder's clock is 100 s ahead",
            ),
        ] {
            let view = view(vec![odd, lease("kube-controller-manager", "a_1")], around());
            assert!(
                view.anomalies.iter().any(|(_, said)| said.starts_with(what)),
                "{what}: {:?}",
                view.anomalies
            );
        }
        let fine = view(vec![lease("move", "a_1"), lease("kube-controller-manager", "a_1")], around());
        assert_eq!(fine.anomalies, []);
    }

    #[test]
    fn what_is_odd_beside_processes_and_changes() {
        let change = HolderChange {
            at: Timestamp::from_timestamp(900, 0).expect("a moment"),
            lease: "kube-system/move".to_owned(),
            from: "a_1".to_owned(),
            to: "b_2".to_owned(),
            transitions: 1,
        };
        let held =
            || vec![lease("move", "cp-1_0123456789"), lease("kube-controller-manager", "cp-1_0123456789")];
        let on = |node: &str, args: &str| Process {
            node: Some(node.to_owned()),
            ..crate::tests::process(ManagerKind::KubeControllerManager, 27, args, "")
        };
        let flag = "--enable-leader-migration";
        let said = |processes: &[Process], changes: &[HolderChange]| {
            view(held(), Surroundings { processes, changes, ..around() }).anomalies
        };
        assert_eq!(said(&[on("cp-1.lan", flag)], &[]), []);
        let odd = said(&[on("cp-2", flag)], &[]);
        assert!(odd.len() == 2 && odd[0].1.starts_with("held from cp-1, where no controller"), "{odd:?}");
        let odd = said(&[on("cp-1", "")], &[]);
        assert_eq!(odd[0].1, "renewed though no known process has leader migration on");
        let odd = said(&[], &vec![change.clone(); 4]);
        assert_eq!(odd[0].1, "changed hands 4 times in 10 min");
        let old = HolderChange { at: Timestamp::from_timestamp(300, 0).expect("a moment"), ..change };
        assert_eq!(said(&[], &vec![old; 4]), []);
    }
}
