//! What one line of a tree shows: the name without what its parent's name has already, what the object is in a rollout, and what is
//! going on with it. Must not know what is open, selected or on the screen.

use ratatui::text::{Line, Span};

use super::parts::is_mark;
use crate::fleet::Verdict;
use crate::fleet::{Alike, Counters, Fleet, Group, Item, Kind, Node, Row, RowId, Tag, Tree};
use crate::tui::paint::Paint;
use crate::tui::theme::Scope;
use crate::tui::widget::counters;
use capi_types::condition::Status;
use capstan_base::time::Timestamp;

/// So many names stand behind a line for Machines that are alike; there is seldom room for more.
const NAMES_MAX: usize = 8;

pub struct TreeLine<'a> {
    pub node: Node,
    pub line: crate::fleet::Line<'a>,
    /// The object itself, for lines that stand for one.
    pub row: Option<(RowId, &'a Row)>,
    pub counters: Option<Counters>,
    pub since: Option<Timestamp>,
    /// What is going on, in a few words.
    pub why: String,
    /// kubectl's short name of the kind with a slash; empty for headings.
    kind: String,
    name: String,
}

impl<'a> TreeLine<'a> {
    /// The line at a place in the tree; `None` when its object is gone. `is_flat`: nothing stands below a Machine.
    /// `is_closed`: what is below the object is not on the screen.
    pub fn of(fleet: &'a Fleet, tree: &Tree, at: usize, is_flat: bool, is_closed: bool) -> Option<Self> {
        let node = *tree.nodes.get(at)?;
        let line = fleet.line(node.item)?;
        let id = node.item.row();
        let of_row = |id: RowId| fleet.row(id).map(|row| (id, row.as_ref()));
        let (row, counters, since) = match node.item {
            Item::Row(id) => {
                let row = of_row(id)?;
                // Of the verdict that stands before it, which may be that of a part.
                let is_own = fleet.own_verdict(id) == node.verdict;
                let since = if is_own { fleet.own_since(id) } else { fleet.since(id) };
                (Some(row), row.1.shown_counters(), since)
            }
            Item::Group { group, .. } => (None, counters_of(fleet, id, group), None),
            Item::Reference { .. } => (None, None, None),
        };
        let (kind, name) = match node.item {
            Item::Group { group: Group::Alike(_), .. } => {
                let count = if is_flat { node.size as usize - 1 } else { tree.children(at).count() };
                (String::new(), format!("{count} {}", line.name))
            }
            Item::Group { .. } => (String::new(), line.name.to_owned()),
            Item::Row(_) | Item::Reference { .. } => named(fleet, tree, at, line.kind, line.name),
        };
        let mut why = why(fleet, tree, at, &line);
        // What is open shows below it what is wrong.
        if let Item::Row(id) = node.item
            && fleet.own_verdict(id) == Verdict::Ok
            && node.verdict != Verdict::Ok
            && (is_closed || node.depth == 0)
        {
            why = below(fleet, id);
        }
        Some(Self { node, line, row, counters, since, why, kind, name })
    }

    /// Some verdict on the line comes from conditions of the older kind.
    pub fn is_legacy(&self) -> bool {
        self.row.is_some_and(|(_, row)| row.legacy)
    }

    /// Kind, name and place in a rollout, in `room` cells less what the branches take.
    pub fn name(&self, room: usize, paint: &Paint<'_>) -> Line<'static> {
        // Indentation and fold symbol are drawn by the widget.
        let room = room.saturating_sub(2 * usize::from(self.node.depth) + 2 + self.kind.len());
        let scope = match self.node.item {
            Item::Row(_) if self.node.depth == 0 => Scope::Strong,
            Item::Row(_) => Scope::Text,
            Item::Group { .. } | Item::Reference { .. } => Scope::Muted,
        };
        let name: Span<'static> = paint.span(scope, paint.cut_name(&self.name, room));
        let left = room.saturating_sub(name.width() + 2);
        let stage = self.stage().join(&format!(" {} ", paint.glyphs().separator));
        let mut spans = vec![paint.span(Scope::Muted, self.kind.clone()), name];
        if !stage.is_empty() && capstan_base::text::width(&stage) <= left {
            spans.push(paint.span(Scope::Muted, format!("  {stage}")));
        }
        Line::from(spans)
    }

    /// The numbers of replicas of an owner, or whether a Machine counts among them.
    pub fn replicas(&self, digits: usize, paint: &Paint<'_>) -> Option<Line<'static>> {
        if let Some(counters) = self.counters {
            return Some(counters::of_owner(counters, digits, paint));
        }
        let (_, row) = self.row.filter(|(_, row)| row.kind == Kind::Machine)?;
        let states = ["Ready", "Available", "UpToDate"].map(|type_| row.condition(type_).map(|c| c.status));
        Some(counters::of_machine(states, digits, paint))
    }

    /// What the object is in a rollout.
    fn stage(&self) -> Vec<&'static str> {
        if let Item::Group { group: Group::Alike(Alike { deleting, old, .. }), .. } = self.node.item {
            let tags = [(deleting, Tag::Deleting), (old, Tag::OutOfDate)];
            return tags.into_iter().filter_map(|(is, tag)| is.then_some(tag.word())).collect();
        }
        self.line.tags.iter().filter(|tag| is_stage(**tag)).map(|tag| tag.word()).collect()
    }
}

fn is_stage(tag: Tag) -> bool {
    matches!(tag, Tag::Deleting | Tag::OutOfDate | Tag::New | Tag::Surging)
}

/// The replicas that a heading stands over.
fn counters_of(fleet: &Fleet, id: RowId, group: Group) -> Option<Counters> {
    let facts = fleet.row(id)?.cluster_facts()?;
    match group {
        Group::ControlPlane => Some(facts.control_plane),
        Group::Workers => Some(facts.workers),
        Group::Other | Group::Alike(_) => None,
    }
}

/// Kind and name. What the parent's name has already is left out, as long as no other object of the kind has the rest of
/// the name for its whole.
fn named(fleet: &Fleet, tree: &Tree, at: usize, kind: &str, name: &str) -> (String, String) {
    let with_kind = |rest: &str| (format!("{}/", short_kind(kind)), rest.to_owned());
    let node = tree.nodes[at];
    let Some(parent) = above(tree, at).and_then(|id| fleet.row(id)) else { return with_kind(name) };
    let Some(rest) = name.strip_prefix(parent.name.as_ref()) else { return with_kind(name) };
    if rest.is_empty() {
        return (String::new(), short_kind(kind).to_owned());
    }
    let rest = rest.strip_prefix('-').filter(|rest| !rest.is_empty() && !is_taken(fleet, node.item, rest));
    with_kind(rest.unwrap_or(name))
}

/// The object that a node stands below.
fn above(tree: &Tree, at: usize) -> Option<RowId> {
    let mut at = at;
    loop {
        let parent = tree.nodes.get(at)?.parent as usize;
        if parent == at {
            return None;
        }
        at = parent;
        if let Item::Row(id) = tree.nodes.get(at)?.item {
            return Some(id);
        }
    }
}

/// Another object of the kind in the cluster is called so.
fn is_taken(fleet: &Fleet, item: Item, name: &str) -> bool {
    let Item::Row(id) = item else { return false };
    let (Some(row), Some(cluster)) = (fleet.row(id), fleet.cluster_of(id)) else { return false };
    let named = |id: &RowId| fleet.row(*id).map_or("", |row| row.name.as_ref());
    // Members of a kind are in the order of their names.
    fleet.members(cluster, row.kind).binary_search_by(|id| named(id).cmp(name)).is_ok()
}

/// What is wrong below an object that is well itself.
fn below(fleet: &Fleet, id: RowId) -> String {
    capstan_base::text::flat(&fleet.what_is_wrong(id))
}

/// What is wrong with the object itself, or what goes on with it.
fn why(fleet: &Fleet, tree: &Tree, at: usize, line: &crate::fleet::Line<'_>) -> String {
    let own = match tree.nodes[at].item {
        Item::Row(id) if fleet.own_verdict(id) != Verdict::Ok => fleet.own_short_words(id),
        // Of a referenced object that is well there is nothing to say.
        Item::Reference { .. } if tree.nodes[at].verdict != Verdict::Ok => {
            let words = line.status.map(|c| if c.message.is_empty() { &c.reason } else { &c.message });
            words.map(|words| words.trim_start_matches("* ").to_owned()).unwrap_or_default()
        }
        Item::Group { group: Group::Alike(alike), .. } => return of_all(fleet, tree, at, alike),
        Item::Row(id) => {
            fleet.row(id).and_then(|row| of_check(row).or_else(|| of_host(row))).unwrap_or_default()
        }
        Item::Reference { .. } | Item::Group { .. } => String::new(),
    };
    if own.is_empty() {
        let tags = line.tags.iter().filter(|tag| !is_stage(**tag)).map(|tag| tag.word().to_owned());
        let row = if let Item::Row(id) = tree.nodes[at].item { fleet.row(id) } else { None };
        let others = row.map(|row| set_elsewhere(row)).unwrap_or_default();
        tags.chain(others).collect::<Vec<_>>().join(", ")
    } else {
        let quiet = line.tags.iter().filter(|tag| is_mark(**tag)).map(|tag| tag.word());
        quiet.chain(own.split_whitespace()).collect::<Vec<_>>().join(" ")
    }
}

/// Who else sets the number of replicas, or all of the object.
pub(super) fn set_elsewhere(row: &Row) -> Vec<String> {
    let facts = row.replica_facts();
    let scaling = facts.and_then(|facts| facts.scaling).map(|bounds| bounds.to_string());
    let is_elsewhere = scaling.is_none() && facts.is_some_and(|facts| facts.scaled_elsewhere);
    let elsewhere = is_elsewhere.then(|| "replicas set elsewhere".to_owned());
    let tool = row.applied_by.map(|tool| tool.name().to_owned());
    scaling.into_iter().chain(elsewhere).chain(tool).collect()
}

/// What a MachineHealthCheck may do; `None`: it does not say, or is something else.
pub(super) fn of_check(row: &Row) -> Option<String> {
    let check = row.health_check()?;
    match (row.condition("RemediationAllowed"), check.remediations_allowed) {
        (Some(refused), _) if refused.status == Status::False => Some(refused.message.to_string()),
        (_, Some(1)) => Some("1 remediation allowed".to_owned()),
        (_, Some(allowed)) => Some(format!("{allowed} remediations allowed")),
        (_, None) => None,
    }
}

/// Where ssh goes to, and what the Host is used for; `None` for other objects.
fn of_host(row: &Row) -> Option<String> {
    let host = row.host_use()?;
    Some([host.address.as_ref(), row.phase.as_ref()].join(" ").trim().to_owned())
}

/// Of Machines that are alike: what is wrong with the first of them, else how they are called.
fn of_all(fleet: &Fleet, tree: &Tree, at: usize, alike: Alike) -> String {
    let item = |at: usize| tree.nodes.get(at).map(|node| node.item);
    if alike.verdict != Verdict::Ok
        && let Some(Item::Row(id)) = tree.children(at).next().and_then(item)
    {
        return capstan_base::text::flat(&fleet.own_short_words(id));
    }
    let name = |at: usize| {
        let line = fleet.line(item(at)?)?;
        Some(named(fleet, tree, at, line.kind, line.name).1)
    };
    let names: Vec<String> = tree.children(at).take(NAMES_MAX).filter_map(name).collect();
    names.join(" ")
}

/// kubectl's short name of a kind, where it has one.
pub fn short_kind(kind: &str) -> &str {
    match kind {
        "Cluster" => "cluster",
        "KubeadmControlPlane" => "kcp",
        "MachineDeployment" => "md",
        "MachineSet" => "ms",
        "MachinePool" => "mp",
        "Machine" => "ma",
        "MachineHealthCheck" => "mhc",
        other => other,
    }
}
