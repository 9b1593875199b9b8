//! The tree of `clusterctl describe`: which objects, below which, grouped how, with which cells. Owns
//! upstream's rules (discovery, echo, grouping, cells, order); must not know glyphs nor widths.

use capi_types::condition::Status;
use capstan_base::time::age;
use capstan_dashboard::fleet::{Condition, Counters, Fleet, Kind, Row, RowId};

use super::{BELOW_MACHINES, Snapshot};
use crate::reading::name_of;

/// What to show; the default is upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Put sibling Machines in the same state on one line.
    pub grouping: bool,
    /// Show infrastructure and bootstrap objects that only repeat their Machine.
    pub echo: bool,
    /// MachineSets as a level of their own.
    pub machine_sets: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { grouping: true, echo: false, machine_sets: false }
    }
}

/// One line of the tree and what hangs below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) deleted: bool,
    /// Its cells come from conditions of the older kind.
    pub(super) legacy: bool,
    /// `Kind namespace/name, version`, or a heading.
    pub(super) title: String,
    pub(super) cells: Cells,
    pub(super) children: Vec<Entry>,
}

/// The columns behind the name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cells {
    pub(super) replicas: String,
    pub(super) available: String,
    pub(super) ready: String,
    pub(super) up_to_date: String,
    pub(super) status: Option<Status>,
    pub(super) reason: String,
    pub(super) since: String,
    pub(super) message: String,
}

impl Entry {
    fn heading(title: &str, children: Vec<Self>) -> Self {
        Self { title: title.to_owned(), children, ..Self::default() }
    }

    /// The order of siblings: deleted ones first, then by title.
    fn order(&self) -> (bool, &str) {
        (!self.deleted, &self.title)
    }
}

/// The tree of the snapshot's cluster.
pub(super) fn tree(snapshot: &Snapshot, options: Options) -> Entry {
    let builder = Builder { fleet: &snapshot.fleet, snapshot, options };
    let mut root = builder.cluster();
    sort(&mut root);
    root
}

fn sort(entry: &mut Entry) {
    entry.children.sort_by(|a, b| a.order().cmp(&b.order()));
    entry.children.iter_mut().for_each(sort);
}

struct Builder<'a> {
    fleet: &'a Fleet,
    snapshot: &'a Snapshot,
    options: Options,
}

impl Builder<'_> {
    fn cluster(&self) -> Entry {
        let id = self.snapshot.cluster;
        let mut children = Vec::new();
        if let Some(row) = self.fleet.row(id) {
            let infrastructure = row.cluster_facts().and_then(|f| f.infrastructure_ref.as_ref());
            let found = infrastructure.and_then(|r| self.find(&r.kind.kind, name_of(r, row)));
            children.extend(found.map(|row| self.leaf(row)));
        }
        children.extend(self.control_planes());
        children.extend(self.workers());
        self.fleet.row(id).map_or_else(Entry::default, |row| self.entry(row, children))
    }

    /// With their Machines: those that they own, and, as upstream has it, those that are only labelled so, which some
    /// providers do not own by their control plane.
    fn control_planes(&self) -> Vec<Entry> {
        let planes = self.fleet.members(self.snapshot.cluster, Kind::ControlPlane);
        let mut labelled = self.alone_machines(true);
        let mut entries = Vec::new();
        for plane in planes {
            let mut machines = self.machines_of(&[*plane]);
            // `append` empties the list: only the first control plane gets them, and no heading of
            // their own follows.
            machines.append(&mut labelled);
            entries.extend(self.fleet.row(*plane).map(|row| self.entry(row, self.grouped(&machines))));
        }
        if !labelled.is_empty() {
            entries.push(Entry::heading("ControlPlane", self.grouped(&labelled)));
        }
        entries
    }

    /// Machines of the control plane, or of workers, whose owner is not here.
    fn alone_machines(&self, of_control_plane: bool) -> Vec<RowId> {
        let is_one = |id: &&RowId| {
            let machine = self.fleet.row(**id).and_then(|row| row.machine());
            let owner = self.fleet.owner_of(**id).and_then(|owner| self.fleet.row(owner));
            // A Machine that no set made is owned by its Cluster.
            owner.is_none_or(|owner| owner.kind == Kind::Cluster)
                && machine.is_some_and(|machine| machine.control_plane == of_control_plane)
        };
        self.fleet.members(self.snapshot.cluster, Kind::Machine).iter().filter(is_one).copied().collect()
    }

    /// Shown as soon as it has a child, even a deployment without Machines.
    fn workers(&self) -> Option<Entry> {
        let cluster = self.snapshot.cluster;
        let mut children = Vec::new();
        for id in self.fleet.members(cluster, Kind::MachineDeployment) {
            let sets = self.sets_of(*id);
            let below = if self.options.machine_sets {
                sets.iter().filter_map(|set| self.with_machines(*set)).collect()
            } else {
                self.grouped(&self.machines_of(&sets))
            };
            children.extend(self.fleet.row(*id).map(|row| self.entry(row, below)));
        }
        children.extend(
            self.fleet
                .members(cluster, Kind::MachinePool)
                .iter()
                .filter_map(|pool| self.with_machines(*pool)),
        );
        let alone = |id: &&RowId| self.fleet.owner_of(**id).is_none();
        children.extend(
            self.fleet
                .members(cluster, Kind::MachineSet)
                .iter()
                .filter(alone)
                .filter_map(|set| self.with_machines(*set)),
        );
        let orphans = self.alone_machines(false);
        if !orphans.is_empty() {
            children
                .push(Entry::heading("Other", orphans.iter().filter_map(|id| self.machine(*id)).collect()));
        }
        (!children.is_empty()).then(|| Entry::heading("Workers", children))
    }

    fn with_machines(&self, owner: RowId) -> Option<Entry> {
        let machines = self.machines_of(&[owner]);
        self.fleet.row(owner).map(|row| self.entry(row, self.grouped(&machines)))
    }

    fn sets_of(&self, deployment: RowId) -> Vec<RowId> {
        self.owned(deployment, Kind::MachineSet)
    }

    fn machines_of(&self, owners: &[RowId]) -> Vec<RowId> {
        owners.iter().flat_map(|owner| self.owned(*owner, Kind::Machine)).collect()
    }

    fn owned(&self, owner: RowId, kind: Kind) -> Vec<RowId> {
        let is_it = |id: &&RowId| self.fleet.row(**id).is_some_and(|row| row.kind == kind);
        self.fleet.owned_by(owner).iter().filter(is_it).copied().collect()
    }

    /// Machines one by one, or those in the same state together.
    fn grouped(&self, machines: &[RowId]) -> Vec<Entry> {
        let mut groups: Vec<Vec<RowId>> = Vec::new();
        for id in machines {
            let same = |group: &&mut Vec<RowId>| {
                // A group begins with its first Machine and is never empty.
                let (Some(a), Some(b)) = (self.fleet.row(group[0]), self.fleet.row(*id)) else {
                    return false;
                };
                same_state(a, b)
            };
            match groups.iter_mut().find(same).filter(|_| self.options.grouping) {
                Some(group) => group.push(*id),
                None => groups.push(vec![*id]),
            }
        }
        groups
            .into_iter()
            .filter_map(|group| if group.len() == 1 { self.machine(group[0]) } else { self.group(&group) })
            .collect()
    }

    fn group(&self, ids: &[RowId]) -> Option<Entry> {
        let mut rows: Vec<&Row> =
            ids.iter().filter_map(|id| self.fleet.row(*id)).map(AsRef::as_ref).collect();
        // The message names the first two, which shall be the same ones at every look.
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        let count = |type_: &str| true_of(&rows, type_);
        let oldest = rows.iter().filter_map(|r| r.condition("Ready")).min_by_key(|c| c.since_s);
        let names: Vec<&str> = rows.iter().take(2).map(|r| r.name.as_ref()).collect();
        let more = if rows.len() > 2 { ", ..." } else { "" };
        let mut cells = Cells {
            available: count("Available"),
            ready: count("Ready"),
            up_to_date: count("UpToDate"),
            ..self.condition_cells(oldest)
        };
        cells.message = format!("See {}{more}", names.join(", "));
        let kind = &rows.first()?.gvk.kind;
        let legacy = rows.first()?.legacy;
        Some(Entry { legacy, title: format!("{} {kind}s...", rows.len()), cells, ..Entry::default() })
    }

    fn machine(&self, id: RowId) -> Option<Entry> {
        let row = self.fleet.row(id)?;
        let below = BELOW_MACHINES
            .into_iter()
            .filter_map(|which| self.fleet.reference(id, which))
            .filter_map(|r| self.find(&r.kind.kind, name_of(r, row)))
            .filter(|child| self.options.echo || !is_echo(child, row))
            .map(|child| self.leaf(child))
            .collect();
        Some(self.entry(row, below))
    }

    fn leaf(&self, row: &Row) -> Entry {
        self.entry(row, Vec::new())
    }

    fn entry(&self, row: &Row, children: Vec<Entry>) -> Entry {
        let (deleted, legacy) = (row.is_deleting(), row.legacy);
        Entry { deleted, legacy, title: title(row), cells: self.cells(row), children }
    }

    /// An object that was read besides the ones with a place of their own.
    fn find(&self, kind: &str, name: &str) -> Option<&Row> {
        let cluster = self.fleet.row(self.snapshot.cluster)?;
        self.fleet
            .rows()
            .map(|(_, row)| row.as_ref())
            .find(|r| r.gvk.kind == kind && r.name.as_ref() == name && r.namespace == cluster.namespace)
    }

    fn cells(&self, row: &Row) -> Cells {
        let condition = match row.kind {
            Kind::Machine | Kind::Other => row.condition("Ready"),
            Kind::MachineSet | Kind::MachinePool => None,
            Kind::Cluster | Kind::MachineDeployment => row.condition("Available"),
            // Control planes of other providers may have only Ready.
            Kind::ControlPlane => row.condition("Available").or_else(|| row.condition("Ready")),
        };
        let counters = match row.kind {
            Kind::Cluster => row.cluster_facts().map(|f| sum(f.control_plane, f.workers)),
            Kind::Machine => return Cells { replicas: "1".to_owned(), ..self.machine_cells(row, condition) },
            _ => row.counters(),
        };
        let Some(c) = counters else { return self.condition_cells(condition) };
        let show = |n: Option<u32>| n.map_or_else(String::new, |n| n.to_string());
        let replicas = if row.kind == Kind::Cluster && c.current.or(c.desired).is_none()
            || row.kind != Kind::Cluster && c.desired.is_none()
        {
            String::new()
        } else {
            format!("{}/{}", c.current.unwrap_or(0), c.desired.unwrap_or(0))
        };
        Cells {
            replicas,
            available: show(c.available),
            ready: show(c.ready),
            up_to_date: show(c.up_to_date),
            ..self.condition_cells(condition)
        }
    }

    fn machine_cells(&self, row: &Row, condition: Option<&Condition>) -> Cells {
        let one = |type_: &str| true_of(&[row], type_);
        Cells {
            available: one("Available"),
            ready: one("Ready"),
            up_to_date: one("UpToDate"),
            ..self.condition_cells(condition)
        }
    }

    fn condition_cells(&self, condition: Option<&Condition>) -> Cells {
        let Some(c) = condition else { return Cells::default() };
        Cells {
            status: Some(c.status),
            reason: c.reason.to_string(),
            since: c.since().map_or_else(String::new, |since| age(since, self.snapshot.now)),
            message: c.message.to_string(),
            ..Cells::default()
        }
    }
}

/// `Kind namespace/name`, with the version for kinds that have one.
fn title(row: &Row) -> String {
    let name = format!("{} {}/{}", row.gvk.kind, row.namespace, row.name);
    match row.kind {
        Kind::Other => name,
        Kind::Cluster | Kind::ControlPlane if row.version.is_empty() => name,
        _ => format!("{name}, {}", row.version),
    }
}

fn sum(a: Counters, b: Counters) -> Counters {
    let add = |x: Option<u32>, y: Option<u32>| match (x, y) {
        (None, None) => None,
        (x, y) => Some(x.unwrap_or(0).saturating_add(y.unwrap_or(0))),
    };
    Counters {
        desired: add(a.desired, b.desired),
        current: add(a.current, b.current),
        ready: add(a.ready, b.ready),
        available: add(a.available, b.available),
        up_to_date: add(a.up_to_date, b.up_to_date),
    }
}

/// Of how many Machines the condition is true. Nothing where it is not known: those with conditions of the older kind alone have
/// none of availability and of being up to date.
fn true_of(rows: &[&Row], type_: &str) -> String {
    let is_known = rows.iter().any(|row| !row.legacy || row.condition(type_).is_some());
    let is_true = |row: &&&Row| row.condition(type_).is_some_and(|c| c.status == Status::True);
    if is_known { rows.iter().filter(is_true).count().to_string() } else { String::new() }
}

/// Same status and reason of the three conditions that count; both missing is the same.
fn same_state(a: &Row, b: &Row) -> bool {
    let said = |row: &Row, type_: &str| row.condition(type_).map(|c| (c.status, c.reason.clone()));
    let alike = a.gvk.kind == b.gvk.kind && a.legacy == b.legacy;
    alike && ["Available", "Ready", "UpToDate"].iter().all(|t| said(a, t) == said(b, t))
}

/// Does the child only repeat the conditions of its Machine?
fn is_echo(child: &Row, machine: &Row) -> bool {
    let ready = child.condition("Ready").map(|c| (c.status, c.reason.clone()));
    ready.as_ref().is_some_and(|(status, _)| *status == Status::True)
        || ready == machine.condition("Ready").map(|c| (c.status, c.reason.clone()))
}
