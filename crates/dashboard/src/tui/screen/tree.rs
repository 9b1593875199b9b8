//! The tree of one cluster: worse parts first, Machines that are alike behind one line, what is well closed until it is
//! opened. Owns what is folded, the filter and the cursor; the nodes are the fleet's, and what a line shows is in
//! [`super::tree_line`].

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;
use rustc_hash::FxHashSet;

use super::chosen::Chosen;
use super::columns::{Columns, Id, List, Needs, since, verdict};
use super::list::ObjectList;
use super::tree_line::TreeLine;
use super::{Context, foot};
use crate::fleet::Verdict;
use crate::fleet::{
    Changes, Fleet, Group, Item, ItemKey, Kind, Node, Query, RowId, SiblingOrder, SourceId, Tree,
    TreeOptions, Uid,
};
use crate::tui::cursor::{Cursor, Motion};
use crate::tui::folds::Folds;
use crate::tui::layout::{Layout, layout, page};
use crate::tui::paint::{Paint, put};
use crate::tui::plans::Plans;
use crate::tui::subject::PlannedCluster;
use crate::tui::theme::Scope;
use crate::tui::widget::table;
use crate::tui::widget::tree::{Shape, draw};

/// What may be typed behind `/` besides words.
pub(super) const FILTER_HINT: &str = "!word  ~regex  version:1.34  l:key=value  NodeReady=False>10m  age<2h";

pub struct TreeScreen {
    cluster: (SourceId, Uid),
    /// Name of the cluster, for when it is gone.
    name: String,
    options: TreeOptions,
    folds: Folds,
    /// Nodes that were open because something under them was not well. They stay open, so that no line goes away under
    /// somebody's eyes when it is well again.
    shown: FxHashSet<ItemKey>,
    filter: String,
    /// Only what is at fault, and what that is part of.
    is_faults_only: bool,
    cursor: Cursor<ItemKey>,
    chosen: Chosen,
    tree: Tree,
    visible: Vec<u32>,
    columns: Columns,
    /// `tree` and `visible` are not up to date.
    stale: bool,
}

fn is_alike(item: Item) -> bool {
    matches!(item, Item::Group { group: Group::Alike(_), .. })
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
    pub fn of(fleet: &Fleet, cluster: RowId) -> Option<Self> {
        let row = fleet.row(cluster).filter(|row| row.kind == Kind::Cluster)?;
        Some(Self {
            cluster: (row.source, row.uid),
            name: row.name.to_string(),
            options: TreeOptions {
                order: SiblingOrder::Worst,
                nodes_and_templates: true,
                ..TreeOptions::default()
            },
            folds: Folds::default(),
            shown: FxHashSet::default(),
            filter: String::new(),
            is_faults_only: false,
            cursor: Cursor::default(),
            chosen: Chosen::default(),
            tree: Tree::default(),
            visible: Vec::new(),
            columns: Columns::new(List::Tree, false),
            stale: true,
        })
    }

    /// Which cluster it is, whatever becomes of its row.
    pub fn cluster(&self) -> (SourceId, Uid) {
        self.cluster
    }

    pub fn folds(&self) -> &Folds {
        &self.folds
    }

    /// Opens and closes as a person did before.
    pub fn set_folds(&mut self, folds: Folds) {
        self.folds = folds;
        self.stale = true;
    }

    pub fn title(&self, fleet: &Fleet) -> String {
        let row = fleet.find(self.cluster.0, self.cluster.1).and_then(|id| fleet.row(id));
        row.map_or_else(|| self.name.clone(), |row| format!("{}/{}", row.namespace, row.name))
    }

    /// Whose plans belong to this screen; `None` when the cluster is gone, or too large to be read unasked.
    pub fn planned(&self, fleet: &Fleet) -> Option<PlannedCluster> {
        PlannedCluster::unless_large(fleet, fleet.find(self.cluster.0, self.cluster.1)?)
    }

    pub fn filter(&self) -> &str {
        &self.filter
    }

    pub fn set_filter(&mut self, text: &str) {
        text.clone_into(&mut self.filter);
        self.stale = true;
    }

    pub fn shows_faults_only(&self) -> bool {
        self.is_faults_only
    }

    /// Worst first, then what changed last first, then by name.
    pub fn sort_next(&mut self) {
        self.options.order = match self.options.order {
            SiblingOrder::Worst => SiblingOrder::Latest,
            SiblingOrder::Latest => SiblingOrder::Name,
            SiblingOrder::Name => SiblingOrder::Worst,
        };
        self.stale = true;
    }

    /// The word for the order; none for that in which a tree opens.
    pub fn order_word(&self) -> Option<&'static str> {
        match self.options.order {
            SiblingOrder::Worst => None,
            SiblingOrder::Latest => Some("since"),
            SiblingOrder::Name => Some("name"),
        }
    }

    /// The fleet changed: matters when the cluster did, or came or went.
    pub fn note(&mut self, fleet: &Fleet, changes: &Changes) {
        let cluster = fleet.find(self.cluster.0, self.cluster.1);
        self.stale |= changes.overview || cluster.is_none_or(|id| changes.clusters.contains(&id));
        self.columns.note(changes);
    }

    /// It is no longer what the fleet has.
    pub fn is_stale(&self) -> bool {
        self.stale
    }

    /// Infrastructure and bootstrap under every Machine, or not. Answers which.
    pub fn toggle_references(&mut self) -> bool {
        self.options.references = !self.options.references;
        self.stale = true;
        self.options.references
    }

    pub fn selected(&self) -> Option<Item> {
        self.node_at(self.cursor.index).map(|node| node.item)
    }

    fn node_at(&self, line: usize) -> Option<&Node> {
        self.tree.nodes.get(*self.visible.get(line)? as usize)
    }

    pub fn refresh(&mut self, context: &Context<'_>) {
        if self.columns.is_wide() != context.wide {
            self.columns = Columns::new(List::Tree, context.wide);
        }
        if self.stale {
            self.build(context.fleet);
        }
        let fleet = context.fleet;
        self.columns.fit(self.needs(fleet));
        let found = self.cursor.key.and_then(|key| self.line_of(fleet, key));
        let page = self.page(context.area);
        let Self { cursor, tree, visible, .. } = self;
        let key_at = |line: usize| fleet.item_key(tree.nodes.get(*visible.get(line)? as usize)?.item);
        cursor.settle(visible.len(), page, |_| found, key_at);
    }

    /// No owner has more replicas than all parts of the Cluster together.
    fn needs(&self, fleet: &Fleet) -> Needs {
        let root = fleet.find(self.cluster.0, self.cluster.1).and_then(|id| fleet.row(id));
        let facts = root.and_then(|row| row.cluster_facts());
        let counters = facts.map(|facts| [facts.control_plane, facts.workers]).unwrap_or_default();
        let numbers = counters.iter().flat_map(|c| [c.desired, c.current]).flatten();
        let digits = numbers.max().map_or(1, |most| most.to_string().len());
        Needs { versions: true, digits, ..Needs::default() }
    }

    /// The rows of a page on this screen.
    fn page(&self, area: Rect) -> usize {
        layout(area).map_or(1, |parts| page(self.arrange(parts).body))
    }

    fn build(&mut self, fleet: &Fleet) {
        let cluster = fleet.find(self.cluster.0, self.cluster.1);
        self.tree = cluster.map(|id| fleet.tree(id, &self.options)).unwrap_or_default();
        self.stale = false;
        if let Some(id) = cluster.filter(|_| !self.filter.trim().is_empty()) {
            self.visible = self.matching(fleet, id);
            return;
        }
        if self.is_faults_only {
            let is_open = |_: usize, node: &Node| !is_alike(node.item) || self.is_open(fleet, node);
            self.visible = self.tree.visible(is_open);
            // A verdict is never better than what is under it: what a fault is part of stays too.
            let nodes = &self.tree.nodes;
            self.visible.retain(|at| nodes[*at as usize].verdict > Verdict::Progressing);
            return;
        }
        self.visible = self.tree.visible(|_, node| self.is_open(fleet, node));
        let unwell = self.visible.iter().filter_map(|at| self.tree.nodes.get(*at as usize));
        let unwell =
            unwell.filter(|node| node.size > 1 && node.verdict != Verdict::Ok && !is_alike(node.item));
        let keys: Vec<ItemKey> = unwell.filter_map(|node| fleet.item_key(node.item)).collect();
        self.shown.extend(keys);
    }

    /// The line of an item, or of what it is closed under.
    fn line_of(&self, fleet: &Fleet, key: ItemKey) -> Option<usize> {
        let key_at = |node: &Node| fleet.item_key(node.item);
        // The line it was on is the likely one: looking there first spares a scan.
        if self.node_at(self.cursor.index).and_then(key_at) == Some(key) {
            return Some(self.cursor.index);
        }
        let mut at = self.tree.nodes.iter().position(|node| key_at(node) == Some(key))?;
        loop {
            // `visible` has ascending places, since a tree is listed in order.
            if let Ok(line) = self.visible.binary_search(&u32::try_from(at).ok()?) {
                return Some(line);
            }
            let above = self.tree.nodes.get(at)?.parent as usize;
            if above == at {
                return None;
            }
            at = above;
        }
    }

    fn query(&self) -> Query {
        Query { text: self.filter.clone(), ..Query::default() }
    }

    /// Nodes that match the filter, with all that is above them.
    fn matching(&self, fleet: &Fleet, cluster: RowId) -> Vec<u32> {
        let query = self.query();
        let matched: FxHashSet<RowId> = fleet.select_in(cluster, &query).into_iter().collect();
        let mut shown = vec![false; self.tree.nodes.len()];
        // From the end: every part stands behind what it is part of.
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
        // What the filter lets through is shown, whatever was closed.
        let Some(key) = fleet.item_key(node.item).filter(|_| self.filter.trim().is_empty()) else {
            return true;
        };
        if let Some(open) = self.folds.is_open(key) {
            return open;
        }
        // It stands for many lines, and would save none if it opened by itself.
        if is_alike(node.item) {
            return false;
        }
        let is_always_open = match node.item {
            Item::Row(id) => node.depth == 0 || fleet.row(id).is_some_and(|row| row.kind == Kind::Machine),
            Item::Group { .. } | Item::Reference { .. } => true,
        };
        is_always_open || node.verdict != Verdict::Ok || self.shown.contains(&key)
    }

    pub fn step(&mut self, context: &Context<'_>, motion: Motion) {
        let page = self.page(context.area);
        let Self { cursor, tree, visible, .. } = self;
        let key_at = |line: usize| context.fleet.item_key(tree.nodes.get(*visible.get(line)? as usize)?.item);
        cursor.step(motion, visible.len(), page, key_at);
    }

    /// The cursor stays on its row from now on.
    pub fn choose(&mut self) {
        self.cursor.choose();
    }

    pub fn click(&mut self, context: &Context<'_>, line: usize) {
        self.go(context, self.cursor.offset + line);
    }

    fn go(&mut self, context: &Context<'_>, line: usize) {
        let page = self.page(context.area);
        let Self { cursor, tree, visible, .. } = self;
        if line < visible.len() {
            let key_at =
                |line: usize| context.fleet.item_key(tree.nodes.get(*visible.get(line)? as usize)?.item);
            cursor.go(line, visible.len(), page, key_at);
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
            (true, false) => self.folds.open(key),
            (false, true) if is_machine && !self.options.references => {
                self.options.references_of.remove(&key.uid);
            }
            (false, true) => self.folds.close(key),
            (false, false) => {
                let parent = self.visible.iter().position(|at| *at == node.parent);
                self.go(context, parent.unwrap_or(self.cursor.index));
            }
        }
        self.stale = true;
    }

    pub fn fold_all(&mut self, fleet: &Fleet, open: bool) {
        // The root stays open, or closing everything would leave one line.
        let parents = self.tree.nodes.iter().filter(|node| node.size > 1 && (open || node.depth > 0));
        self.folds = Folds::all(parents.filter_map(|node| fleet.item_key(node.item)).collect(), open);
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
            let trouble = self.query().trouble();
            let text = if self.tree.nodes.is_empty() {
                "this cluster is gone"
            } else if let Some(trouble) = &trouble {
                &trouble.why
            } else if self.is_faults_only {
                "nothing here is at fault; :faults shows everything again"
            } else {
                "nothing matches; esc clears the filter"
            };
            let line = Line::from(paint.span(Scope::Muted, text));
            put(buffer, area.x + 2, area.y + 1, &line, area.width);
            return;
        }
        let on_screen = self.visible.iter().skip(self.cursor.offset).take(usize::from(area.height));
        let rows: Vec<TreeLine<'_>> = on_screen.filter_map(|at| self.line(fleet, *at)).collect();
        if let Some(column) = placed.first() {
            self.view_names(fleet, &rows, paint, Rect { x: column.x, width: column.width, ..area }, buffer);
        }
        let wanted = self.visible.first().and_then(|root| self.tree.nodes.get(*root as usize));
        let wanted = wanted.and_then(|root| fleet.wanted_version(root.item.row()));
        for (y, row) in (area.y..area.bottom()).zip(&rows) {
            let line = Rect { y, height: 1, ..area };
            self.view_cells(row, wanted.as_deref(), &placed, line, paint, buffer);
        }
        let at = self.cursor.index.saturating_sub(self.cursor.offset);
        table::select(area, area.y + u16::try_from(at).unwrap_or(0), paint, buffer);
        for (y, row) in (area.y..area.bottom()).zip(&rows) {
            if let Some((_, row)) = row.row {
                self.chosen.view(row, Rect { y, height: 1, ..area }, paint, buffer);
            }
        }
        let plan = foot::plan_of(self.selected(), fleet, plans);
        let marked = rows.iter().any(TreeLine::is_legacy);
        foot::view(self.selected(), marked, plan, fleet, paint, layout, buffer);
        foot::position(self.cursor.offset, rows.len(), self.visible.len(), paint, layout, buffer);
    }

    fn line<'a>(&self, fleet: &'a Fleet, at: u32) -> Option<TreeLine<'a>> {
        let is_flat = !self.options.references && self.options.references_of.is_empty();
        let is_closed = self.tree.nodes.get(at as usize).is_some_and(|node| !self.is_open(fleet, node));
        TreeLine::of(fleet, &self.tree, at as usize, is_flat, is_closed)
    }

    /// The first column: the tree itself, drawn from the lines on screen and what is above them.
    fn view_names(
        &self,
        fleet: &Fleet,
        rows: &[TreeLine<'_>],
        paint: &Paint<'_>,
        area: Rect,
        buffer: &mut Buffer,
    ) {
        let room = usize::from(area.width);
        let shape = |node: &Node| {
            let has_children = node.size > 1;
            Shape { depth: node.depth, has_children, open: has_children && self.is_open(fleet, node) }
        };
        let visible = rows.iter().map(|row| (shape(&row.node), row.name(room, paint))).collect();
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
        row: &TreeLine<'_>,
        wanted: Option<&str>,
        placed: &[table::Placed<Id>],
        line: Rect,
        paint: &Paint<'_>,
        buffer: &mut Buffer,
    ) {
        verdict(row.node.verdict, row.is_legacy(), line, line.y, paint, buffer);
        let version = row.line.version;
        let differs = !version.is_empty() && wanted.is_some_and(|wanted| wanted != version);
        let has_version = placed.iter().any(|column| column.id == Id::Version);
        for column in placed {
            let room = usize::from(column.width);
            let cell = match column.id {
                Id::Name | Id::Verdict => continue,
                Id::Why if differs && !has_version => {
                    let separator = if row.why.is_empty() { "" } else { "  " };
                    let why = format!("{version}{separator}{}", row.why);
                    Line::from(paint.span(Scope::Text, paint.cut(&why, room)))
                }
                Id::Why => Line::from(paint.span(Scope::Text, paint.cut(&row.why, room))),
                Id::Have(_) | Id::Cluster | Id::Node | Id::Status | Id::Condition(_) => continue,
                Id::Replicas => match row.replicas(self.columns.digits(), paint) {
                    Some(numbers) => numbers,
                    None => continue,
                },
                Id::Version => {
                    let scope = if differs { Scope::Text } else { Scope::Muted };
                    Line::from(paint.span(scope, paint.cut(version, room)))
                }
                Id::Since => since(row.since, paint),
                Id::Counters(_) | Id::Printed(_) => match row.row {
                    Some((_, row)) => self.columns.cell(column.id, row, room, paint),
                    None => continue,
                },
            };
            table::cell(column, line.y, &cell, buffer);
        }
    }
}

impl ObjectList for TreeScreen {
    fn toggle_faults(&mut self) {
        self.is_faults_only = !self.is_faults_only;
        self.stale = true;
    }

    fn arrange(&self, layout: Layout) -> Layout {
        let with_pane = if self.columns.is_wide() { layout } else { layout.with_pane() };
        if with_pane == layout { layout.with_high_foot(self.visible.len()) } else { with_pane }
    }

    fn shows_wide(&self, body: Rect) -> bool {
        self.columns.shows_wide(body)
    }

    fn chosen(&self) -> &Chosen {
        &self.chosen
    }

    fn chosen_mut(&mut self) -> &mut Chosen {
        &mut self.chosen
    }

    /// The objects in lines that are not folded away.
    fn listed(&self) -> Vec<RowId> {
        let nodes = self.visible.iter().filter_map(|at| self.tree.nodes.get(*at as usize));
        nodes.filter_map(|node| if let Item::Row(id) = node.item { Some(id) } else { None }).collect()
    }

    /// Goes to the next part that is at fault itself, or the one before, and opens what it is closed under. False when
    /// there is none.
    fn go_to_fault(&mut self, context: &Context<'_>, forward: bool) -> bool {
        let fleet = context.fleet;
        let nodes = &self.tree.nodes;
        let is_fault = |at: usize| {
            let of_parts = || self.tree.children(at).any(|child| nodes[child].verdict > Verdict::Progressing);
            let is_quiet = matches!(nodes[at].item, Item::Row(id) if fleet.mark(id).is_some());
            nodes[at].verdict > Verdict::Progressing && !is_quiet && !of_parts()
        };
        let here = self.visible.get(self.cursor.index).map_or(0, |at| *at as usize);
        let len = nodes.len();
        let nth = |step: usize| if forward { (here + step) % len } else { (here + len - step) % len };
        let Some(at) = (1..=len).map(nth).find(|at| is_fault(*at)) else { return false };
        let key = fleet.item_key(nodes[at].item);
        let mut above = nodes[at].parent as usize;
        let mut closed = Vec::new();
        loop {
            let node = &nodes[above];
            if !self.is_open(fleet, node) {
                closed.extend(fleet.item_key(node.item));
            }
            if node.parent as usize == above {
                break;
            }
            above = node.parent as usize;
        }
        closed.into_iter().for_each(|key| self.folds.open(key));
        // Needed now, not with the next frame: the cursor goes to one of the new lines.
        self.build(fleet);
        if let Some(line) = key.and_then(|key| self.line_of(fleet, key)) {
            self.go(context, line);
        }
        true
    }
}
