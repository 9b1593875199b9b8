//! One cluster as a tree: control plane and its Machines, then workers. A preorder array of small
//! nodes, rebuilt as a whole; what a node shows is read from its row. Must not know what is open,
//! selected or on screen.

use std::hash::{Hash as _, Hasher as _};

use rustc_hash::{FxHashMap, FxHashSet};

use super::Fleet;
use super::judge::Basis;
use super::row::{Kind, Reference, Row, RowId, Uid};
use crate::fleet::Verdict;
use capi_types::condition::Status;

/// Headings and stand-ins that are not rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Group {
    /// Control plane Machines whose control plane object is not in the fleet.
    ControlPlane,
    Workers,
    /// Worker objects whose owner is not in the fleet.
    Other,
    /// Machines of one owner that are alike.
    Alike(Alike),
}

/// What Machines have in common that stand behind one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Alike {
    pub verdict: Verdict,
    pub deleting: bool,
    /// Not as its owner wants it to be.
    pub old: bool,
    /// Of the evidence for the verdict: equal for equal evidence.
    evidence: u16,
}

/// Which reference of an object a node stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Relative {
    ControlPlane,
    Infrastructure,
    Bootstrap,
    /// In the workload cluster: known by its name alone.
    Node,
}

impl Relative {
    /// The condition by which the referring object mirrors the state of the other.
    pub fn mirrored_by(self) -> &'static str {
        match self {
            Self::ControlPlane => "ControlPlaneAvailable",
            Self::Infrastructure => "InfrastructureReady",
            Self::Bootstrap => "BootstrapConfigReady",
            Self::Node => "NodeHealthy",
        }
    }
}

/// What one node of a tree is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Item {
    Row(RowId),
    /// A heading under the cluster `of`.
    Group {
        of: RowId,
        group: Group,
    },
    /// An object that `of` refers to and that is not watched: what is known of it is what `of` says.
    Reference {
        of: RowId,
        which: Relative,
    },
}

impl Item {
    /// The row the item is, or hangs on.
    pub fn row(self) -> RowId {
        match self {
            Self::Row(id) => id,
            Self::Group { of, .. } | Self::Reference { of, .. } => of,
        }
    }
}

/// The same node in later trees: for what is selected and what is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ItemKey {
    pub uid: Uid,
    pub part: Part,
}

/// Which node of one object's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    Itself,
    Group(Group),
    Reference(Relative),
}

/// One node: 24 bytes, so that 100,000 are cheap to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    pub item: Item,
    /// Index of the parent; its own index for the root.
    pub parent: u32,
    /// Nodes in the subtree, itself included: `index + size` is the next sibling or whatever follows.
    pub size: u32,
    pub depth: u16,
    /// With everything under it.
    pub verdict: Verdict,
}

/// What to put in besides the objects that own each other.
#[derive(Clone, Debug, Default)]
pub struct TreeOptions {
    /// Infrastructure and bootstrap under every Machine and under the Cluster.
    pub references: bool,
    /// The same, only under these.
    pub references_of: FxHashSet<Uid>,
    /// Where there are references: the Node of a Machine too, and the templates of what makes Machines.
    pub nodes_and_templates: bool,
    pub order: SiblingOrder,
}

/// In which order the parts of one object stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SiblingOrder {
    #[default]
    Name,
    /// Worse parts first, and Machines that are alike behind one line.
    Worst,
    /// What changed last first.
    Latest,
}

/// So many Machines stand behind one line.
const ALIKE_MIN: usize = 3;

/// Nodes in the order in which they are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    pub nodes: Vec<Node>,
}

impl Tree {
    /// The children of a node, in order.
    pub fn children(&self, parent: usize) -> impl Iterator<Item = usize> + '_ {
        let end = self.nodes.get(parent).map_or(0, |n| parent + n.size as usize);
        let mut next = parent + 1;
        std::iter::from_fn(move || {
            let at = next;
            (at < end).then(|| {
                next = at + self.nodes[at].size as usize;
                at
            })
        })
    }

    /// Indices that are visible when only the nodes that `open` accepts show their children.
    pub fn visible(&self, mut open: impl FnMut(usize, &Node) -> bool) -> Vec<u32> {
        let mut shown = Vec::with_capacity(self.nodes.len());
        let mut at = 0;
        while let Some(node) = self.nodes.get(at) {
            shown.push(u32::try_from(at).unwrap_or(u32::MAX));
            at += if node.size > 1 && !open(at, node) { node.size as usize } else { 1 };
        }
        shown
    }
}

impl Fleet {
    /// The tree of one cluster. Empty when `cluster` is not a Cluster of the fleet.
    pub fn tree(&self, cluster: RowId, options: &TreeOptions) -> Tree {
        let Some(row) = self.row(cluster).filter(|row| row.kind == Kind::Cluster) else {
            return Tree::default();
        };
        let hosts = self.hosts_by_consumer(cluster);
        let mut builder =
            Builder { fleet: self, options, cluster, nodes: Vec::new(), machines: 0, sets: 0, hosts };
        builder.cluster(row);
        Tree { nodes: builder.nodes }
    }

    /// The Hosts that a cluster has, by the HostMachine that has each.
    fn hosts_by_consumer(&self, cluster: RowId) -> FxHashMap<&str, RowId> {
        let hosts = self.members(cluster, Kind::Other).iter();
        hosts.filter_map(|id| Some((self.row(*id)?.host_use()?.consumer.as_ref(), *id))).collect()
    }

    /// The Host that a Machine has, or the Host itself.
    pub fn host_of(&self, id: RowId) -> Option<RowId> {
        let row = self.row(id)?;
        if row.host_use().is_some() {
            return Some(id);
        }
        let (hosts, name) = (self.members(self.cluster_of(id)?, Kind::Other), row.host_machine()?);
        let has_it =
            |id: &RowId| self.row(*id).and_then(|row| row.host_use()).is_some_and(|it| &*it.consumer == name);
        hosts.iter().copied().find(has_it)
    }

    /// What names `item` in later trees.
    pub fn item_key(&self, item: Item) -> Option<ItemKey> {
        let uid = self.row(item.row())?.uid;
        let part = match item {
            Item::Row(_) => Part::Itself,
            Item::Group { group, .. } => Part::Group(group),
            Item::Reference { which, .. } => Part::Reference(which),
        };
        Some(ItemKey { uid, part })
    }

    /// The reference that a reference node stands for.
    pub fn reference(&self, of: RowId, which: Relative) -> Option<&Reference> {
        let row = self.row(of)?;
        match which {
            Relative::ControlPlane => row.cluster_facts()?.control_plane_ref.as_deref(),
            Relative::Infrastructure => row
                .machine()
                .map(|m| m.infrastructure_ref.as_deref())
                .or_else(|| row.cluster_facts().map(|c| c.infrastructure_ref.as_deref()))
                .or_else(|| row.replica_facts().map(|r| r.infrastructure_ref.as_deref()))?,
            Relative::Bootstrap => row
                .machine()
                .map(|m| m.bootstrap_ref.as_deref())
                .or_else(|| row.replica_facts().map(|r| r.bootstrap_ref.as_deref()))?,
            Relative::Node => None,
        }
    }

    /// Verdict of a referenced object as far as the referring object mirrors it.
    pub fn reference_verdict(&self, of: RowId, which: Relative) -> Verdict {
        let type_ = which.mirrored_by();
        let Some(row) = self.row(of) else { return Verdict::Unknown };
        if row.replica_facts().is_some() {
            // Templates have no state.
            return Verdict::Ok;
        }
        match row.condition(type_).map(|c| c.status) {
            // A control plane is looked at itself: what its Cluster repeats of it proves nothing.
            Some(Status::True) if which == Relative::ControlPlane => Verdict::Unknown,
            Some(Status::True) => Verdict::Ok,
            Some(Status::False) => self.own_verdict(of).max(Verdict::Progressing).min(Verdict::Degraded),
            _ => Verdict::Unknown,
        }
    }
}

struct Builder<'a> {
    fleet: &'a Fleet,
    options: &'a TreeOptions,
    cluster: RowId,
    nodes: Vec<Node>,
    /// Machines and MachineSets placed so far, to notice those without a place.
    machines: usize,
    sets: usize,
    /// By the name of the HostMachine that has it.
    hosts: FxHashMap<&'a str, RowId>,
}

impl Builder<'_> {
    fn cluster(&mut self, row: &Row) {
        let id = self.cluster;
        let root = self.open(Item::Row(id), None, self.fleet.own_verdict(id));
        self.references(row, root, &[Relative::Infrastructure]);
        self.control_plane(root);
        self.workers(root);
        self.health_checks(root);
        self.close(root);
    }

    fn control_plane(&mut self, root: usize) {
        let planes = self.fleet.members(self.cluster, Kind::ControlPlane);
        for id in planes {
            self.subtree(*id, root);
        }
        let stray = self.stray_control_plane_machines();
        let missing = planes.is_empty()
            && self
                .fleet
                .reference(self.cluster, Relative::ControlPlane)
                .is_some_and(|r| !r.kind.kind.is_empty());
        if missing {
            let item = Item::Reference { of: self.cluster, which: Relative::ControlPlane };
            let at = self.open(
                item,
                Some(root),
                self.fleet.reference_verdict(self.cluster, Relative::ControlPlane),
            );
            self.all(&stray, at);
            self.close(at);
        } else if !stray.is_empty() {
            let at = self.open(
                Item::Group { of: self.cluster, group: Group::ControlPlane },
                Some(root),
                Verdict::Ok,
            );
            self.all(&stray, at);
            self.close(at);
        }
    }

    /// Control plane Machines that no control plane of the fleet owns: their owner was not read, or they stand alone, which
    /// makes their Cluster the owner.
    fn stray_control_plane_machines(&self) -> Vec<RowId> {
        let fleet = self.fleet;
        let is_stray = |id: &&RowId| {
            fleet.row(**id).is_some_and(|row| row.machine().is_some_and(|m| m.control_plane))
                && fleet.owner_of(**id).is_none_or(|owner| owner == self.cluster)
        };
        fleet.members(self.cluster, Kind::Machine).iter().filter(is_stray).copied().collect()
    }

    /// Shown even without a single Machine: a deployment that cannot make Machines is news.
    fn workers(&mut self, root: usize) {
        let fleet = self.fleet;
        let deployments = fleet.members(self.cluster, Kind::MachineDeployment);
        let pools = fleet.members(self.cluster, Kind::MachinePool);
        let at = self.open(Item::Group { of: self.cluster, group: Group::Workers }, Some(root), Verdict::Ok);
        let mut owners: Vec<RowId> = deployments.iter().chain(pools).copied().collect();
        self.sort(&mut owners);
        for id in owners {
            self.subtree(id, at);
        }
        let loose_sets = self.loose(Kind::MachineSet, self.sets);
        self.all(&loose_sets, at);
        let loose = self.loose(Kind::Machine, self.machines);
        if !loose.is_empty() {
            let other =
                self.open(Item::Group { of: self.cluster, group: Group::Other }, Some(at), Verdict::Ok);
            self.all(&loose, other);
            self.close(other);
        }
        // The heading is opened before it is known whether anything stands below it.
        if self.nodes.len() == at + 1 {
            self.nodes.pop();
        } else {
            self.close(at);
        }
    }

    /// Last. What they find stands on the Machines, so that they add nothing to what is above.
    fn health_checks(&mut self, root: usize) {
        let fleet = self.fleet;
        for id in fleet.members(self.cluster, Kind::Other) {
            if fleet.row(*id).is_some_and(|row| row.health_check().is_some()) {
                self.open(Item::Row(*id), Some(root), fleet.own_verdict(*id));
            }
        }
    }

    /// Members of `kind` that have no place under an owner. Looked for only when some are missing.
    fn loose(&self, kind: Kind, placed: usize) -> Vec<RowId> {
        let all = self.fleet.members(self.cluster, kind);
        if all.len() == placed {
            return Vec::new();
        }
        let shown: FxHashSet<RowId> = self
            .nodes
            .iter()
            .filter_map(|node| if let Item::Row(id) = node.item { Some(id) } else { None })
            .collect();
        all.iter().filter(|id| !shown.contains(id)).copied().collect()
    }

    fn all(&mut self, ids: &[RowId], parent: usize) {
        for id in ids {
            self.subtree(*id, parent);
        }
    }

    /// Of equal ones those before which came first.
    fn sort(&self, ids: &mut [RowId]) {
        match self.options.order {
            SiblingOrder::Name => {}
            SiblingOrder::Worst => ids.sort_by_key(|id| std::cmp::Reverse(self.fleet.verdict(*id))),
            // Cached, because the causes of each object are searched for its moment.
            SiblingOrder::Latest => ids.sort_by_cached_key(|id| std::cmp::Reverse(self.fleet.since(*id))),
        }
    }

    /// What `owner` owns; worst first with a line for Machines that are alike.
    fn all_alike(&mut self, owner: RowId, ids: &[RowId], parent: usize) {
        if self.options.order != SiblingOrder::Worst {
            return self.all(ids, parent);
        }
        let mut keyed: Vec<(Option<Alike>, RowId)> = ids.iter().map(|id| (self.alike(*id), *id)).collect();
        keyed.sort_by_key(|(alike, _)| std::cmp::Reverse(*alike));
        for run in keyed.chunk_by(|a, b| a.0 == b.0) {
            let heading = run[0].0.filter(|_| run.len() >= ALIKE_MIN).map(|alike| {
                let item = Item::Group { of: owner, group: Group::Alike(alike) };
                self.open(item, Some(parent), Verdict::Ok)
            });
            for (_, id) in run {
                self.subtree(*id, heading.unwrap_or(parent));
            }
            if let Some(heading) = heading {
                self.close(heading);
            }
        }
    }

    /// `None` for what is not a Machine, and for one whose Host has something wrong that would stand behind the line.
    fn alike(&self, id: RowId) -> Option<Alike> {
        let row = self.fleet.row(id).filter(|row| row.kind == Kind::Machine)?;
        if self.host_of(row).is_some_and(|host| self.fleet.own_verdict(host) != Verdict::Ok) {
            return None;
        }
        let verdict = self.fleet.own_verdict(id);
        let evidence = if verdict == Verdict::Ok { 0 } else { self.evidence(id, row) };
        let old = row.condition("UpToDate").is_some_and(|c| c.status == Status::False);
        Some(Alike { verdict, deleting: row.is_deleting(), old, evidence })
    }

    fn evidence(&self, id: RowId, row: &Row) -> u16 {
        let mut hasher = rustc_hash::FxHasher::default();
        match self.fleet.judgement(id).map(|judgement| judgement.why) {
            Some(Basis::Condition(at)) => {
                (&row.conditions[at].type_, &row.conditions[at].reason).hash(&mut hasher);
            }
            why => std::mem::discriminant(&why).hash(&mut hasher),
        }
        // Two that fall together stand behind one line although they differ.
        (hasher.finish() >> 48) as u16
    }

    fn subtree(&mut self, id: RowId, parent: usize) {
        let fleet = self.fleet;
        let Some(row) = fleet.row(id) else { return };
        let at = self.open(Item::Row(id), Some(parent), fleet.own_verdict(id));
        match row.kind {
            Kind::Machine => {
                self.machines += 1;
                self.references(row, at, &[Relative::Infrastructure, Relative::Bootstrap, Relative::Node]);
                self.host(row, at);
            }
            kind => {
                if self.options.nodes_and_templates {
                    self.references(row, at, &[Relative::Infrastructure, Relative::Bootstrap]);
                }
                self.sets += usize::from(kind == Kind::MachineSet);
                let mut children: Vec<RowId> = fleet.index.children(id).collect();
                self.sort(&mut children);
                self.all_alike(id, &children, at);
            }
        }
        self.close(at);
    }

    /// The Host of a Machine, beside what else belongs to it, or alone where something is wrong with it. It adds nothing to
    /// what is above: its HostMachine says what matters there.
    fn host(&mut self, row: &Row, parent: usize) {
        let Some(id) = self.host_of(row) else { return };
        let verdict = self.fleet.own_verdict(id);
        if verdict != Verdict::Ok || self.shows_references_of(row) {
            self.open(Item::Row(id), Some(parent), verdict);
        }
    }

    fn host_of(&self, machine: &Row) -> Option<RowId> {
        // Most clusters have none.
        if self.hosts.is_empty() { None } else { self.hosts.get(machine.host_machine()?).copied() }
    }

    fn shows_references_of(&self, row: &Row) -> bool {
        self.options.references || self.options.references_of.contains(&row.uid)
    }

    fn references(&mut self, row: &Row, parent: usize, which: &[Relative]) {
        if !self.shows_references_of(row) {
            return;
        }
        let Item::Row(of) = self.nodes[parent].item else { return };
        for which in which {
            let has_node = || row.machine().is_some_and(|machine| machine.node.is_some());
            let is_known = match which {
                Relative::Node => self.options.nodes_and_templates && has_node(),
                _ => self.fleet.reference(of, *which).is_some(),
            };
            if is_known {
                let item = Item::Reference { of, which: *which };
                let at = self.open(item, Some(parent), self.fleet.reference_verdict(of, *which));
                // What a reference says is already in its parent's verdict.
                self.nodes[at].size = 1;
            }
        }
    }

    fn open(&mut self, item: Item, parent: Option<usize>, verdict: Verdict) -> usize {
        let at = self.nodes.len();
        let depth = parent.map_or(0, |p| self.nodes[p].depth + 1);
        let parent = u32::try_from(parent.unwrap_or(at)).unwrap_or(u32::MAX);
        self.nodes.push(Node { item, parent, size: 1, depth, verdict });
        at
    }

    fn close(&mut self, at: usize) {
        self.nodes[at].size = u32::try_from(self.nodes.len() - at).unwrap_or(u32::MAX);
        let parent = self.nodes[at].parent as usize;
        let verdict = self.nodes[at].verdict;
        let above = &mut self.nodes[parent].verdict;
        // Each node is closed after its parts, so this carries the worst up to the root.
        *above = (*above).max(verdict);
    }
}
