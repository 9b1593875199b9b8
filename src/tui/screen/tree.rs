//! The tree of one cluster. Owns what is folded, the filter and the cursor; the nodes are the
//! fleet's.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use rustc_hash::FxHashSet;

use super::columns::{Columns, Id, List, since, verdict};
use super::{Context, foot};
use crate::fleet::{
    Changes, Fleet, Item, ItemKey, Kind, Node, Query, RowId, SourceId, Tree, TreeOptions, Uid,
};
use crate::status::verdict::Verdict;
use crate::tui::cursor::{Cursor, Motion};
use crate::tui::layout::{Layout, page};
use crate::tui::paint::{Paint, put};
use crate::tui::plans::{PlannedCluster, Plans};
use crate::tui::theme::Scope;
use crate::tui::widget::tree::{Shape, draw};
use crate::tui::widget::{counters, table};

/// Larger subtrees begin closed, so that a big cluster opens as an overview.
const OPEN_SIZE_MAX: u32 = 60;

/// What the screen keeps.
pub struct TreeScreen {
    cluster: (SourceId, Uid),
    /// Name of the cluster, for when it is gone.
    name: String,
    options: TreeOptions,
    /// Nodes that are open although they begin closed, and the other way round.
    opened: FxHashSet<ItemKey>,
    closed: FxHashSet<ItemKey>,
    filter: String,
    cursor: Cursor<ItemKey>,
    tree: Tree,
    visible: Vec<u32>,
    columns: Columns,
    /// `tree` and `visible` are not up to date.
    stale: bool,
}

/// What folding does to the selected node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    Open,
    Close,
    Toggle,
}

impl TreeScreen {
    /// The tree of a Cluster; `None` when the row is none.
    #[must_use]
    pub fn of(fleet: &Fleet, cluster: RowId) -> Option<Self> {
        let row = fleet.row(cluster).filter(|row| row.kind == Kind::Cluster)?;
        Some(Self {
            cluster: (row.source, row.uid),
            name: row.name.to_string(),
            options: TreeOptions::default(),
            opened: FxHashSet::default(),
            closed: FxHashSet::default(),
            filter: String::new(),
            cursor: Cursor::default(),
            tree: Tree::default(),
            visible: Vec::new(),
            columns: Columns::new(List::Tree, false),
            stale: true,
        })
    }

    #[must_use]
    pub fn title(&self, fleet: &Fleet) -> String {
        let row = fleet.find(self.cluster.0, self.cluster.1).and_then(|id| fleet.row(id));
        row.map_or_else(|| self.name.clone(), |row| format!("{}/{}", row.namespace, row.name))
    }

    /// Whose plans belong to this screen; `None` when the cluster is gone, or too large to be read unasked.
    #[must_use]
    pub fn planned(&self, fleet: &Fleet) -> Option<PlannedCluster> {
        PlannedCluster::unless_large(fleet, fleet.find(self.cluster.0, self.cluster.1)?)
    }

    #[must_use]
    pub fn filter(&self) -> &str {
        &self.filter
    }

    pub fn set_filter(&mut self, text: &str) {
        text.clone_into(&mut self.filter);
        self.stale = true;
    }

    /// The fleet changed: matters when the cluster did, or came or went.
    pub fn note(&mut self, fleet: &Fleet, changes: &Changes) {
        let cluster = fleet.find(self.cluster.0, self.cluster.1);
        self.stale |= changes.overview || cluster.is_none_or(|id| changes.clusters.contains(&id));
    }

    /// Infrastructure and bootstrap under every Machine, or not. Answers which.
    pub fn toggle_references(&mut self) -> bool {
        self.options.references = !self.options.references;
        self.stale = true;
        self.options.references
    }

    #[must_use]
    pub fn selected(&self) -> Option<Item> {
        self.node_at(self.cursor.index).map(|node| node.item)
    }

    fn node_at(&self, line: usize) -> Option<&Node> {
        self.tree.nodes.get(*self.visible.get(line)? as usize)
    }

    pub fn refresh(&mut self, context: &Context<'_>) {
        let fleet = context.fleet;
        if self.columns.is_wide() != context.wide {
            self.columns = Columns::new(List::Tree, context.wide);
        }
        if self.stale {
            let cluster = fleet.find(self.cluster.0, self.cluster.1);
            self.tree = cluster.map(|id| fleet.tree(id, &self.options)).unwrap_or_default();
            self.visible = match cluster.filter(|_| !self.filter.trim().is_empty()) {
                Some(id) => self.matching(fleet, id),
                None => self.tree.visible(|_, node| self.is_open(fleet, node)),
            };
            self.stale = false;
        }
        let Self { cursor, tree, visible, .. } = self;
        let key_at = |line: usize| fleet.item_key(tree.nodes.get(*visible.get(line)? as usize)?.item);
        // The line it was on is the likely one: looking there first spares a scan.
        let find = |key: ItemKey| match key_at(cursor.index) {
            Some(here) if here == key => Some(cursor.index),
            _ => (0..visible.len()).find(|line| key_at(*line) == Some(key)),
        };
        let found = cursor.key.and_then(find);
        cursor.settle(visible.len(), page(context.area), |_| found, key_at);
    }

    /// Nodes that match the filter, with all that is above them.
    fn matching(&self, fleet: &Fleet, cluster: RowId) -> Vec<u32> {
        let query = Query { text: self.filter.clone(), ..Query::default() };
        let matched: FxHashSet<RowId> =
            Kind::ALL.into_iter().flat_map(|kind| fleet.select(kind, Some(cluster), &query)).collect();
        let mut shown = vec![false; self.tree.nodes.len()];
        for (at, node) in self.tree.nodes.iter().enumerate().rev() {
            let hit = matches!(node.item, Item::Row(id) if matched.contains(&id));
            shown[at] = shown[at] || hit;
            if shown[at] {
                shown[node.parent as usize] = true;
            }
        }
        (0u32..).zip(shown).filter_map(|(at, shown)| shown.then_some(at)).collect()
    }

    fn is_open(&self, fleet: &Fleet, node: &Node) -> bool {
        if !self.filter.trim().is_empty() {
            return true;
        }
        let Some(key) = fleet.item_key(node.item) else { return true };
        if self.opened.contains(&key) {
            return true;
        }
        let is_heading = node.depth == 0 || matches!(node.item, Item::Group { .. });
        !self.closed.contains(&key) && (is_heading || node.size <= OPEN_SIZE_MAX)
    }

    /// Has any wide column a place?
    #[must_use]
    pub fn shows_wide(&self, body: Rect) -> bool {
        self.columns.shows_wide(body)
    }

    pub fn step(&mut self, context: &Context<'_>, motion: Motion) {
        let Self { cursor, tree, visible, .. } = self;
        let key_at = |line: usize| context.fleet.item_key(tree.nodes.get(*visible.get(line)? as usize)?.item);
        cursor.step(motion, visible.len(), page(context.area), key_at);
    }

    /// The cursor stays on its row from now on.
    pub fn choose(&mut self) {
        self.cursor.choose();
    }

    pub fn click(&mut self, context: &Context<'_>, line: usize) {
        self.go(context, self.cursor.offset + line);
    }

    fn go(&mut self, context: &Context<'_>, line: usize) {
        let Self { cursor, tree, visible, .. } = self;
        if line < visible.len() {
            let key_at =
                |line: usize| context.fleet.item_key(tree.nodes.get(*visible.get(line)? as usize)?.item);
            cursor.go(line, visible.len(), page(context.area), key_at);
        }
    }

    /// Opens or closes the selected node. Closing what is closed, or has nothing to close, goes to
    /// its parent; opening what is open goes to its first child. A Machine opens to its
    /// infrastructure and bootstrap.
    pub fn fold(&mut self, context: &Context<'_>, fold: Fold) {
        let fleet = context.fleet;
        let Some((node, key)) =
            self.node_at(self.cursor.index).copied().and_then(|n| Some((n, fleet.item_key(n.item)?)))
        else {
            return;
        };
        let is_machine =
            matches!(node.item, Item::Row(id) if fleet.row(id).is_some_and(|r| r.kind == Kind::Machine));
        let is_open = node.size > 1 && self.is_open(fleet, &node);
        let open = match fold {
            Fold::Open => true,
            Fold::Close => false,
            Fold::Toggle => !is_open,
        };
        match (open, is_open) {
            (true, true) => self.go(context, self.cursor.index + 1),
            (true, false) if node.size == 1 && is_machine => {
                self.options.references_of.insert(key.uid);
            }
            (true, false) => {
                self.closed.remove(&key);
                self.opened.insert(key);
            }
            (false, true) if is_machine && !self.options.references => {
                self.options.references_of.remove(&key.uid);
            }
            (false, true) => {
                self.opened.remove(&key);
                self.closed.insert(key);
            }
            (false, false) => {
                let parent = self.visible.iter().position(|at| *at == node.parent);
                self.go(context, parent.unwrap_or(self.cursor.index));
            }
        }
        self.stale = true;
    }

    /// Opens or closes everything.
    pub fn fold_all(&mut self, fleet: &Fleet, open: bool) {
        self.opened.clear();
        self.closed.clear();
        let parents = self.tree.nodes.iter().filter(|node| node.size > 1 && (open || node.depth > 0));
        let keys = parents.filter_map(|node| fleet.item_key(node.item)).collect();
        if open {
            self.opened = keys;
        } else {
            self.closed = keys;
        }
        self.stale = true;
    }

    pub fn view(
        &self,
        fleet: &Fleet,
        plans: &Plans,
        paint: &Paint<'_>,
        layout: &Layout,
        buffer: &mut Buffer,
    ) {
        paint.rule(layout.rule, buffer);
        let body = layout.body;
        let placed = self.columns.place(body);
        table::headings(&placed, None, body.y, paint, buffer);
        let area = Rect { y: body.y + 1, height: body.height - 1, ..body };
        if self.visible.is_empty() {
            let text = if self.tree.nodes.is_empty() {
                "this cluster is gone"
            } else {
                "nothing matches; esc clears the filter"
            };
            let line = Line::from(paint.span(Scope::Muted, text));
            put(buffer, area.x + 2, area.y + 1, &line, area.width);
            return;
        }
        let on_screen = self.visible.iter().skip(self.cursor.offset).take(usize::from(area.height));
        let rows: Vec<Shown<'_>> = on_screen.filter_map(|at| self.shown(fleet, *at)).collect();
        if let Some(column) = placed.first() {
            self.view_names(fleet, &rows, paint, Rect { x: column.x, width: column.width, ..area }, buffer);
        }
        for (y, row) in (area.y..area.bottom()).zip(&rows) {
            self.view_cells(fleet, row, &placed, Rect { y, height: 1, ..area }, paint, buffer);
        }
        let at = self.cursor.index.saturating_sub(self.cursor.offset);
        table::select(area, area.y + u16::try_from(at).unwrap_or(0), paint, buffer);
        let plan = foot::plan_of(self.selected(), fleet, plans);
        let marked = rows.iter().any(|row| fleet.row(row.node.item.row()).is_some_and(|row| row.legacy));
        foot::view(self.selected(), marked, plan, fleet, paint, layout, buffer);
        foot::position(self.cursor.offset, rows.len(), self.visible.len(), paint, layout, buffer);
    }

    fn shown<'a>(&self, fleet: &'a Fleet, at: u32) -> Option<Shown<'a>> {
        let node = *self.tree.nodes.get(at as usize)?;
        Some(Shown { node, line: fleet.line(node.item)? })
    }

    /// The first column: the tree itself, drawn from the lines on screen and what is above them.
    fn view_names(
        &self,
        fleet: &Fleet,
        rows: &[Shown<'_>],
        paint: &Paint<'_>,
        area: Rect,
        buffer: &mut Buffer,
    ) {
        let room = usize::from(area.width);
        let shape = |node: &Node| {
            let has_children = node.size > 1;
            Shape { depth: node.depth, has_children, open: has_children && self.is_open(fleet, node) }
        };
        let visible = rows.iter().map(|row| (shape(&row.node), name_line(row, room, paint))).collect();
        let mut above = Vec::new();
        let mut at = self.visible.get(self.cursor.offset).copied().unwrap_or(0);
        while let Some(node) = self.tree.nodes.get(at as usize).filter(|node| node.parent != at) {
            at = node.parent;
            // Their names are cut off again: only their shape matters.
            above.extend(self.tree.nodes.get(at as usize).map(|node| (shape(node), Line::default())));
        }
        above.reverse();
        draw(above, visible, paint.glyphs(), area, buffer);
    }

    fn view_cells(
        &self,
        fleet: &Fleet,
        row: &Shown<'_>,
        placed: &[table::Placed<Id>],
        line: Rect,
        paint: &Paint<'_>,
        buffer: &mut Buffer,
    ) {
        let shown = if let Item::Row(id) = row.node.item { fleet.row(id).map(|row| (id, row)) } else { None };
        verdict(row.node.verdict, shown.is_some_and(|(_, row)| row.legacy), line, line.y, paint, buffer);
        for column in placed {
            let room = usize::from(column.width);
            let cell = match (column.id, shown) {
                (Id::Name, _) => continue,
                (Id::Why, _) => Line::from(paint.span(Scope::Text, paint.cut(&why(fleet, row), room))),
                (_, None) => continue,
                (Id::Have(_), Some((_, row))) => match row.counters() {
                    Some(counters) => counters::have_want(counters, room, paint),
                    None => continue,
                },
                (Id::Version, _) => Line::from(paint.span(Scope::Muted, paint.cut(row.line.version, room))),
                (Id::Since, Some((id, _))) => since(fleet.own_since(id), paint),
                (_, Some((_, row))) => self.columns.cell(column.id, row, room, paint),
            };
            table::cell(column, line.y, &cell, buffer);
        }
    }
}

/// One line on screen.
struct Shown<'a> {
    node: Node,
    line: crate::fleet::Line<'a>,
}

/// What is wrong with the object itself, or what goes on with it: its tags.
fn why(fleet: &Fleet, row: &Shown<'_>) -> String {
    let own = match row.node.item {
        Item::Row(id) if fleet.own_verdict(id) != Verdict::Ok => {
            fleet.details(id).map(|details| details.why).unwrap_or_default()
        }
        // Of a referenced object that is well there is nothing to say.
        Item::Reference { .. } if row.node.verdict != Verdict::Ok => {
            let words = row.line.status.map(|c| if c.message.is_empty() { &c.reason } else { &c.message });
            words.map(ToString::to_string).unwrap_or_default()
        }
        Item::Row(_) | Item::Reference { .. } | Item::Group { .. } => String::new(),
    };
    if own.is_empty() {
        row.line.tags.iter().map(|tag| tag.word()).collect::<Vec<_>>().join(", ")
    } else {
        own.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

/// kubectl's short name of a kind, where it has one.
fn short_kind(kind: &str) -> &str {
    match kind {
        "Cluster" => "cluster",
        "KubeadmControlPlane" => "kcp",
        "MachineDeployment" => "md",
        "MachineSet" => "ms",
        "MachinePool" => "mp",
        "Machine" => "ma",
        other => other,
    }
}

fn name_line(row: &Shown<'_>, room: usize, paint: &Paint<'_>) -> Line<'static> {
    let Shown { node, line } = row;
    let kind = if line.kind.is_empty() { String::new() } else { format!("{}/", short_kind(line.kind)) };
    // Indentation and fold symbol are drawn by the widget.
    let left = room.saturating_sub(2 * usize::from(node.depth) + 2 + crate::text::width(&kind));
    let scope = match node.item {
        Item::Row(_) if node.depth == 0 => Scope::Strong,
        Item::Row(_) => Scope::Text,
        Item::Group { .. } | Item::Reference { .. } => Scope::Muted,
    };
    let name: Span<'static> = paint.span(scope, paint.cut_name(line.name, left));
    Line::from(vec![paint.span(Scope::Muted, kind), name])
}
