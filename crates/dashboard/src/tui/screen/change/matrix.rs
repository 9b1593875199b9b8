//! Nodes and components as a matrix: how far each is, and what shows it. Owns which cell an item belongs to; must not judge.

use std::collections::BTreeMap;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::plan_lines::mark;
use crate::tui::paint::{Paint, put};
use crate::tui::theme::Scope;
use crate::tui::widget::table::{self, Align, Column};
use capstan_base::text::{sanitize_line, width, wrap};
use kubeadm_change::facts::ClusterFacts;
use kubeadm_change::plan::{ChangePlan, PlannedStep};
use kubeadm_change::progress::{ItemState, ProgressItem};
use kubeadm_change::rules::Component;
use kubeadm_change::steps::StepId;

/// The row of parts that a cluster has once and no node has.
const ONCE: &str = "(cluster)";
/// The widest word of a state with its mark, and what may be left of it.
const CELL: u16 = 13;
const CELL_MIN: u16 = 9;
const NAME_MIN: u16 = 12;

/// Nodes by columns of what is done on each.
#[derive(Default)]
pub(super) struct Matrix {
    columns: Vec<&'static str>,
    rows: Vec<MatrixRow>,
}

struct MatrixRow {
    name: String,
    items: Vec<ProgressItem>,
}

impl Matrix {
    /// Of a plan. `items`: how far it is; without them everything is to come.
    pub fn of(plan: Option<&ChangePlan>, items: Option<&[ProgressItem]>, facts: &ClusterFacts) -> Self {
        let expected = || plan.map(expected).unwrap_or_default();
        let items = items.map_or_else(expected, <[ProgressItem]>::to_vec);
        let mut columns: Vec<(usize, &'static str)> = items.iter().filter_map(column).collect();
        columns.sort_unstable();
        columns.dedup();
        let mut by_node: BTreeMap<String, Vec<ProgressItem>> = BTreeMap::new();
        for item in items {
            by_node.entry(item.node.clone()).or_default().push(item);
        }
        let names = facts.control_plane.iter().map(|node| &node.host.name).chain(&facts.workers);
        let mut rows: Vec<MatrixRow> = names
            .map(|name| MatrixRow { name: name.clone(), items: by_node.remove(name).unwrap_or_default() })
            .collect();
        if let Some(once) = by_node.remove("").filter(|items| items.iter().any(|item| column(item).is_some()))
        {
            rows.insert(0, MatrixRow { name: ONCE.to_owned(), items: once });
        }
        // Of nodes that are gone meanwhile.
        rows.extend(
            by_node
                .into_iter()
                .filter(|(name, _)| !name.is_empty())
                .map(|(name, items)| MatrixRow { name, items }),
        );
        Self { columns: columns.into_iter().map(|(_, title)| title).collect(), rows }
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// The name of a row, to be copied.
    pub fn name(&self, row: usize) -> Option<&str> {
        self.rows.get(row).map(|row| row.name.as_str())
    }

    /// Headings and the rows from `first` on.
    pub fn view(&self, first: usize, selected: usize, area: Rect, paint: &Paint<'_>, buffer: &mut Buffer) {
        let placed = table::place(&self.placing(), area.x + 2, area.width.saturating_sub(3));
        table::headings(&placed, None, area.y, paint, buffer);
        for (y, (at, row)) in (area.y + 1..area.bottom()).zip(self.rows.iter().enumerate().skip(first)) {
            for column in &placed {
                let cells = usize::from(column.width);
                let span = match column.id {
                    None => paint.span(Scope::Strong, paint.cut_name(&sanitize_line(&row.name), cells)),
                    Some(title) => match row.state(title) {
                        Some(state) => {
                            let (glyph, scope) = mark(state, paint.glyphs());
                            paint.span(scope, paint.cut(&format!("{glyph} {}", state.word()), cells))
                        }
                        None => paint.span(Scope::Muted, ""),
                    },
                };
                table::cell(column, y, &Line::from(span), buffer);
            }
            if at == selected {
                table::select(area, y, paint, buffer);
            }
        }
    }

    fn placing(&self) -> Vec<Column<Option<&'static str>>> {
        let widest = self.rows.iter().map(|row| width(&row.name)).max().unwrap_or(0);
        let column = |id: Option<&'static str>, title: &str, min, natural, rank| Column {
            id,
            title: title.to_owned(),
            align: Align::Left,
            min,
            natural,
            late: false,
            rank,
            grows: false,
        };
        let name = u16::try_from(widest + 2).unwrap_or(u16::MAX);
        let mut all = vec![column(None, "NODE", name.min(NAME_MIN), name, 0)];
        for (rank, title) in self.columns.iter().enumerate() {
            let least = u16::try_from(width(title)).unwrap_or(CELL).max(CELL_MIN);
            all.push(column(Some(*title), &title.to_uppercase(), least, CELL.max(least), rank + 1));
        }
        all
    }

    /// What shows the states of a row.
    pub fn view_evidence(&self, row: usize, area: Rect, paint: &Paint<'_>, buffer: &mut Buffer) {
        let Some(row) = self.rows.get(row) else { return };
        let cells = usize::from(area.width.saturating_sub(5));
        let mut lines = Vec::new();
        for item in row.items.iter().filter(|item| column(item).is_some()) {
            let (glyph, scope) = mark(item.state, paint.glyphs());
            let what = item.component.map_or(item.step.title(), Component::name);
            let shows = if item.evidence.is_empty() { String::new() } else { format!(", {}", item.evidence) };
            let text = sanitize_line(&format!("{what}: {}{shows}", item.state.word()));
            for (at, part) in wrap(&text, cells).into_iter().enumerate() {
                let lead = if at == 0 { glyph } else { " " };
                let mark = paint.span(scope, format!("{lead} "));
                lines.push(Line::from(vec![mark, paint.span(Scope::Text, part)]));
            }
        }
        if lines.is_empty() {
            lines.push(Line::from(paint.span(Scope::Muted, "nothing is done here")));
        }
        for (y, line) in (area.y..area.bottom()).zip(lines) {
            put(buffer, area.x + 2, y, &line, area.width.saturating_sub(3));
        }
    }
}

impl MatrixRow {
    /// The worst state in a column.
    fn state(&self, title: &str) -> Option<ItemState> {
        let inside = |item: &&ProgressItem| column(item).is_some_and(|(_, of)| of == title);
        self.items.iter().filter(inside).map(|item| item.state).max()
    }
}

/// Place and title of the column of an item, in the order in which things are done.
fn column(item: &ProgressItem) -> Option<(usize, &'static str)> {
    let of_component = |component| match component {
        Component::Etcd => (3, "etcd"),
        Component::EtcdCertificates => (2, "etcd cert"),
        Component::Certificates => (4, "cert"),
        Component::ApiServer => (5, "apiserver"),
        Component::ControllerManager => (6, "ctrl-mgr"),
        Component::Scheduler => (7, "scheduler"),
        Component::Kubeconfigs | Component::ClusterInfo => (8, "files"),
        Component::KubeProxy => (9, "kube-proxy"),
        Component::CoreDns => (10, "coredns"),
        Component::Kubelet => (11, "kubelet"),
    };
    match (item.component, item.step) {
        (Some(component), _) => Some(of_component(component)),
        (None, StepId::G1 | StepId::G2 | StepId::G3) => Some((0, "config")),
        // What is kept, and the comparison at the end, are no part of the cluster.
        (None, StepId::B0 | StepId::X) => None,
        (None, StepId::E1) => Some(of_component(Component::Etcd)),
        (None, StepId::M1) => Some(of_component(Component::ApiServer)),
        (None, _) => Some((1, "by hand")),
    }
}

/// Everything that a plan would do, as still to come.
fn expected(plan: &ChangePlan) -> Vec<ProgressItem> {
    let mut items = Vec::new();
    for step in &plan.steps {
        let nodes = if step.nodes.is_empty() { vec![String::new()] } else { step.nodes.clone() };
        for node in nodes {
            let components = components(plan, step, &node);
            let item = |component| ProgressItem {
                step: step.id,
                node: node.clone(),
                component,
                state: ItemState::Pending,
                evidence: String::new(),
            };
            if components.is_empty() {
                items.push(item(None));
            }
            items.extend(components.into_iter().map(|component| item(Some(component))));
        }
    }
    items
}

fn components(plan: &ChangePlan, step: &PlannedStep, node: &str) -> Vec<Component> {
    let one = match step.id {
        StepId::C1 => Component::Certificates,
        StepId::C2 => Component::EtcdCertificates,
        StepId::E1 => Component::Etcd,
        StepId::F1 => Component::Kubeconfigs,
        StepId::P1 => Component::KubeProxy,
        StepId::D1 => Component::CoreDns,
        StepId::K1 | StepId::K2 => Component::Kubelet,
        StepId::M1 => {
            let pods = [Component::ApiServer, Component::ControllerManager, Component::Scheduler];
            let reached = plan.reach.iter().filter(|reach| reach.nodes.iter().any(|name| name == node));
            return reached
                .map(|reach| reach.component)
                .filter(|component| pods.contains(component))
                .collect();
        }
        _ => return Vec::new(),
    };
    vec![one]
}
