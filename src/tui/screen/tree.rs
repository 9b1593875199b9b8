//! The tree of one cluster. Owns what is folded, the filter and the cursor; the nodes are the
//! fleet's.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use rustc_hash::FxHashSet;

use super::{Context, foot};
use crate::fleet::{Fleet, Item, ItemKey, Kind, Node, Query, RowId, SourceId, Tree, TreeOptions, Uid};
use crate::tui::cursor::{Cursor, Motion};
use crate::tui::layout::{Layout, page};
use crate::tui::paint::{Paint, put};
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
    widths: Widths,
    /// Fleet revision that `tree` and `visible` were made from; `None` after a change of ours.
    seen: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Widths {
    name: usize,
    version: usize,
    digits: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    Name,
    Status,
    Counters,
    Version,
    Age,
    Why,
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
            widths: Widths::default(),
            seen: None,
        })
    }

    #[must_use]
    pub fn title(&self, fleet: &Fleet) -> String {
        let row = fleet.find(self.cluster.0, self.cluster.1).and_then(|id| fleet.row(id));
        row.map_or_else(|| self.name.clone(), |row| format!("{}/{}", row.namespace, row.name))
    }

    #[must_use]
    pub fn filter(&self) -> &str {
        &self.filter
    }

    pub fn set_filter(&mut self, text: &str) {
        text.clone_into(&mut self.filter);
        self.seen = None;
    }

    /// Infrastructure and bootstrap under every Machine, or not. Answers which.
    pub fn toggle_references(&mut self) -> bool {
        self.options.references = !self.options.references;
        self.seen = None;
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
        if self.seen != Some(fleet.revision()) {
            let cluster = fleet.find(self.cluster.0, self.cluster.1);
            self.tree = cluster.map(|id| fleet.tree(id, &self.options)).unwrap_or_default();
            self.visible = match cluster.filter(|_| !self.filter.trim().is_empty()) {
                Some(id) => self.matching(fleet, id),
                None => self.tree.visible(|_, node| self.is_open(fleet, node)),
            };
            self.measure(fleet);
            self.seen = Some(fleet.revision());
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

    fn measure(&mut self, fleet: &Fleet) {
        let mut widths = Widths { digits: 1, ..Widths::default() };
        for at in &self.visible {
            let Some(node) = self.tree.nodes.get(*at as usize) else { continue };
            let Some(line) = fleet.line(node.item) else { continue };
            let kind = short_kind(line.kind);
            let name = 2 * usize::from(node.depth) + 3 + kind.len() + line.name.len();
            widths.name = widths.name.max(name);
            widths.version = widths.version.max(line.version.len());
            if let Some(counters) = &line.counters {
                widths.digits = widths.digits.max(counters::digits(counters));
            }
        }
        self.widths = widths;
    }

    pub fn step(&mut self, context: &Context<'_>, motion: Motion) {
        let Self { cursor, tree, visible, .. } = self;
        let key_at = |line: usize| context.fleet.item_key(tree.nodes.get(*visible.get(line)? as usize)?.item);
        cursor.step(motion, visible.len(), page(context.area), key_at);
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
        self.seen = None;
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
        self.seen = None;
    }

    pub fn view(&self, fleet: &Fleet, paint: &Paint<'_>, layout: &Layout, buffer: &mut Buffer) {
        paint.rule(layout.rule, buffer);
        let body = layout.body;
        let placed = self.columns(body);
        table::headings(&placed, None, body.y, paint, buffer);
        let rows = Rect { y: body.y + 1, height: body.height - 1, ..body };
        if self.visible.is_empty() {
            let text = if self.tree.nodes.is_empty() {
                "this cluster is gone"
            } else {
                "nothing matches; esc clears the filter"
            };
            put(buffer, rows.x + 2, rows.y + 1, &Line::from(paint.span(Scope::Muted, text)), rows.width);
            return;
        }
        if let Some(column) = placed.first() {
            self.view_names(fleet, paint, column, rows, buffer);
        }
        let lines = self.visible.iter().enumerate().skip(self.cursor.offset);
        for (y, (at, _)) in (rows.y..rows.bottom()).zip(lines) {
            self.view_cells(fleet, at, &placed, y, paint, buffer);
            if at == self.cursor.index {
                table::select(rows, y, paint, buffer);
            }
        }
        foot::view(self.selected(), fleet, paint, layout, buffer);
    }

    fn columns(&self, body: Rect) -> Vec<table::Placed<Cell>> {
        let numbers = counters::width(self.widths.digits);
        let column = |id, title: &str, min, natural, rank| table::Column {
            id,
            title: title.to_owned(),
            align: table::Align::Left,
            min,
            natural,
            rank,
            grows: id == Cell::Why,
        };
        let name = u16::try_from(self.widths.name.clamp(20, 64)).unwrap_or(64);
        let version = u16::try_from(self.widths.version.clamp(7, 14)).unwrap_or(14);
        let columns = [
            column(Cell::Name, "OBJECT", 28, name, 0),
            column(Cell::Status, "STATUS", 13, 13, 1),
            column(Cell::Counters, &counters::heading(self.widths.digits), numbers, numbers, 2),
            column(Cell::Version, "VERSION", 7, version, 3),
            table::Column { align: table::Align::Right, ..column(Cell::Age, "AGE", 4, 4, 4) },
            column(Cell::Why, "WHY", 16, 20, 5),
        ];
        table::place(&columns, body.x + 2, body.width.saturating_sub(3))
    }

    /// The first column: the tree itself, drawn from the lines on screen and what is above them.
    fn view_names(
        &self,
        fleet: &Fleet,
        paint: &Paint<'_>,
        column: &table::Placed<Cell>,
        rows: Rect,
        buffer: &mut Buffer,
    ) {
        let room = usize::from(column.width);
        let shape_of = |at: u32| {
            let node = self.tree.nodes.get(at as usize)?;
            let has_children = node.size > 1;
            let shape =
                Shape { depth: node.depth, has_children, open: has_children && self.is_open(fleet, node) };
            Some((shape, name_line(fleet, node, room, paint)))
        };
        let page = usize::from(rows.height);
        let visible =
            self.visible.iter().skip(self.cursor.offset).take(page).filter_map(|at| shape_of(*at)).collect();
        let mut above = Vec::new();
        let mut at = self.visible.get(self.cursor.offset).copied().unwrap_or(0);
        while let Some(node) = self.tree.nodes.get(at as usize).filter(|node| node.parent != at) {
            at = node.parent;
            above.extend(shape_of(at));
        }
        above.reverse();
        let area = Rect { x: column.x, width: column.width, ..rows };
        draw(above, visible, paint.glyphs(), area, buffer);
    }

    fn view_cells(
        &self,
        fleet: &Fleet,
        line: usize,
        placed: &[table::Placed<Cell>],
        y: u16,
        paint: &Paint<'_>,
        buffer: &mut Buffer,
    ) {
        let Some(node) = self.node_at(line) else { return };
        let Some(cells) = fleet.line(node.item) else { return };
        let is_heading = matches!(node.item, Item::Group { .. });
        for column in placed {
            let text = match column.id {
                Cell::Name => continue,
                Cell::Status if is_heading && node.size == 1 => Line::default(),
                Cell::Status => Line::from(paint.verdict(node.health)),
                Cell::Counters => match &cells.counters {
                    Some(c) => counters::cell(c, self.widths.digits, paint),
                    None => Line::default(),
                },
                Cell::Version => {
                    Line::from(paint.span(Scope::Text, paint.cut(cells.version, usize::from(column.width))))
                }
                Cell::Age => {
                    let age = cells.created.map(|at| paint.age(at)).unwrap_or_default();
                    Line::from(paint.span(Scope::Muted, age))
                }
                Cell::Why => Line::from(
                    paint.span(Scope::Text, paint.cut(&why(fleet, node), usize::from(column.width))),
                ),
            };
            table::cell(column, y, &text, buffer);
        }
    }
}

/// What is wrong with the object itself, or what goes on with it: its tags.
fn why(fleet: &Fleet, node: &Node) -> String {
    let Some(line) = fleet.line(node.item) else { return String::new() };
    let own = match node.item {
        Item::Row(id) => {
            let chain = fleet.cause(id);
            let is_own = chain.len() == 1;
            chain.into_iter().next().filter(|_| is_own).map(|hop| hop.words).unwrap_or_default()
        }
        Item::Reference { .. } => line.status.map(|c| c.reason.to_string()).unwrap_or_default(),
        Item::Group { .. } => String::new(),
    };
    if own.is_empty() {
        line.tags.iter().map(|tag| tag.word()).collect::<Vec<_>>().join(", ")
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

fn name_line(fleet: &Fleet, node: &Node, room: usize, paint: &Paint<'_>) -> Line<'static> {
    let Some(line) = fleet.line(node.item) else { return Line::default() };
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
