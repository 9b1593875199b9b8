//! The kubeadm configuration of one cluster: what is stored, what somebody would change of it, and what that means.
//! Owns what is staged and what is selected; must not read a cluster, and judges only through `change`.

mod attributes;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use self::attributes::{Attribute, Row};
use super::{Context, foot};
use crate::api::key::ObjectKey;
use crate::change::document::Inputs;
use crate::change::facts::ClusterFacts;
use crate::change::plan::{ChangePlan, PlanOptions, PlanState, plan};
use crate::change::report;
use crate::change::request::{PatchKind, RequestPart, apply};
use crate::change::rules::{Component, Judgement};
use crate::fleet::{Fleet, Item, RowId};
use crate::text::{sanitize_line, wrap};
use crate::time::Timestamp;
use crate::tui::cursor::Motion;
use crate::tui::layout::Layout;
use crate::tui::paint::{Paint, put, put_ends};
use crate::tui::plans::PlannedCluster;
use crate::tui::theme::Scope;

/// The rest between two readings.
const REST_MS: u64 = 10_000;
/// Lines of the body above the list, and of the pane below it.
const ABOVE: u16 = 2;
const PANE: u16 = 4;
/// Of a line, what the path may take.
const PATH_PART: usize = 2;

/// What is shown of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Configuration,
    Plan,
    Nodes,
}

const PAGES: [(Page, &str); 3] =
    [(Page::Configuration, "Configuration"), (Page::Plan, "Plan"), (Page::Nodes, "Nodes")];

/// What is said about what is staged.
enum Judged {
    Nothing,
    Wrong(String),
    Plan(Box<ChangePlan>),
}

/// What the screen keeps.
pub struct ChangeScreen {
    cluster: PlannedCluster,
    inputs: Option<Inputs>,
    facts: ClusterFacts,
    trouble: Option<String>,
    read_at: Option<Timestamp>,
    is_asked: bool,
    /// `PATH=VALUE`, in the order in which they were typed.
    staged: Vec<String>,
    /// What is being typed.
    draft: Option<String>,
    judged: Judged,
    rows: Vec<Row>,
    page: usize,
    selected: [usize; 3],
}

impl ChangeScreen {
    #[must_use]
    pub fn of(fleet: &Fleet, cluster: RowId) -> Option<Self> {
        Some(Self {
            cluster: PlannedCluster::of(fleet, cluster)?,
            inputs: None,
            facts: ClusterFacts::default(),
            trouble: None,
            read_at: None,
            is_asked: false,
            staged: Vec::new(),
            draft: None,
            judged: Judged::Nothing,
            rows: Vec::new(),
            page: 0,
            selected: [0; 3],
        })
    }

    #[must_use]
    pub fn title(&self) -> String {
        format!("change {}", self.cluster.key.name)
    }

    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        &self.cluster.key
    }

    /// The reading that is due, and how long to rest before it; none while one is under way.
    pub fn want(&mut self) -> Option<(PlannedCluster, u64)> {
        if std::mem::replace(&mut self.is_asked, true) {
            return None;
        }
        let is_first = self.read_at.is_none() && self.trouble.is_none();
        Some((self.cluster.clone(), if is_first { 0 } else { REST_MS }))
    }

    /// The screen is left: nothing is read for it any more.
    pub fn forget_asked(&mut self) {
        self.is_asked = false;
    }

    /// An answer. One about another cluster is not for this screen.
    pub fn take(&mut self, of: &PlannedCluster, read: Result<Inputs, String>, now: Timestamp) {
        if self.cluster != *of {
            return;
        }
        self.is_asked = false;
        match read {
            Ok(inputs) => {
                self.facts = ClusterFacts::read(&inputs);
                (self.inputs, self.trouble, self.read_at) = (Some(inputs), None, Some(now));
                self.judge();
            }
            Err(why) => self.trouble = Some(sanitize_line(&why)),
        }
    }

    /// Notes a change that is wanted; one of the same path takes its place.
    ///
    /// # Errors
    /// It cannot be understood, in a sentence.
    pub fn stage(&mut self, edit: &str) -> Result<(), String> {
        let (path, _) = edit.split_once('=').ok_or("expected PATH=VALUE, such as maxPods=60")?;
        let before = self.staged.clone();
        self.staged.retain(|staged| staged.split_once('=').is_none_or(|(of, _)| of != path));
        self.staged.push(edit.to_owned());
        self.draft = None;
        self.judge();
        if let Judged::Wrong(why) = &self.judged {
            let why = why.clone();
            self.staged = before;
            self.judge();
            return Err(why);
        }
        Ok(())
    }

    /// Takes a change back; all of them without a path.
    pub fn unstage(&mut self, path: &str) {
        self.staged
            .retain(|staged| !path.is_empty() && staged.split_once('=').is_none_or(|(of, _)| of != path));
        self.judge();
    }

    /// What is being typed is judged like what is staged.
    pub fn set_draft(&mut self, draft: Option<&str>) {
        if self.draft.as_deref() != draft {
            self.draft = draft.map(str::to_owned);
            self.judge();
        }
    }

    fn judge(&mut self) {
        let Some(inputs) = &self.inputs else { return };
        let whole = self.draft.iter().filter(|draft| draft.contains('='));
        let edits: Vec<RequestPart> =
            self.staged.iter().chain(whole).map(|edit| RequestPart::Set(edit.clone())).collect();
        self.judged = if edits.is_empty() {
            Judged::Nothing
        } else {
            judged(inputs, &edits).map_or_else(Judged::Wrong, |plan| Judged::Plan(Box::new(plan)))
        };
        self.rows = attributes::rows(inputs, self.plan());
    }

    fn plan(&self) -> Option<&ChangePlan> {
        if let Judged::Plan(plan) = &self.judged { Some(plan) } else { None }
    }

    fn page(&self) -> Page {
        PAGES[self.page % PAGES.len()].0
    }

    pub fn turn(&mut self, step: isize) {
        let pages = isize::try_from(PAGES.len()).unwrap_or(1);
        let at = isize::try_from(self.page).unwrap_or(0) + step;
        self.page = usize::try_from(at.rem_euclid(pages)).unwrap_or(0);
    }

    /// The path under the cursor, to begin an edit with.
    #[must_use]
    pub fn selected_path(&self) -> Option<&str> {
        match self.rows.get(self.selected[0])? {
            Row::Attribute(attribute) if self.page() == Page::Configuration => Some(&attribute.path),
            _ => None,
        }
    }

    /// What is under the cursor, to be copied.
    #[must_use]
    pub fn copied(&self) -> Option<String> {
        match self.page() {
            Page::Configuration => self.selected_path().map(str::to_owned),
            Page::Plan => self.plan_lines().get(self.selected[1]).map(|line| line.trim().to_owned()),
            Page::Nodes => None,
        }
        .filter(|text| !text.is_empty())
    }

    /// The Cluster.
    #[must_use]
    pub fn selected(&self, fleet: &Fleet) -> Option<Item> {
        fleet.find(self.cluster.source, self.cluster.uid).map(Item::Row)
    }

    /// Every path that is stored or wanted, to complete a line with.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        let path = |row: &Row| match row {
            Row::Attribute(attribute) => Some(attribute.path.clone()),
            Row::Heading(_) => None,
        };
        self.rows.iter().filter_map(path).collect()
    }

    fn length(&self) -> usize {
        match self.page() {
            Page::Configuration => self.rows.len(),
            Page::Plan => self.plan_lines().len(),
            Page::Nodes => self.facts.control_plane.len() + self.facts.workers.len(),
        }
    }

    pub fn refresh(&mut self) {
        let last = self.length().saturating_sub(1);
        let at = &mut self.selected[self.page];
        *at = (*at).min(last);
    }

    pub fn step(&mut self, context: &Context<'_>, motion: Motion) {
        let page = usize::from(context.area.height.saturating_sub(ABOVE + PANE));
        let length = self.length();
        let at = &mut self.selected[self.page];
        *at = motion.apply(*at, length, page);
    }

    fn plan_lines(&self) -> Vec<String> {
        let Some(plan) = self.plan() else { return Vec::new() };
        report::as_text(plan, &self.facts)
            .lines()
            .map(|line| sanitize_line(line).replace('→', "->"))
            .collect()
    }

    pub fn view(&self, fleet: &Fleet, paint: &Paint<'_>, layout: &Layout, buffer: &mut Buffer) {
        paint.rule(layout.rule, buffer);
        let body = layout.body;
        self.view_head(paint, body, buffer);
        let pane = if self.page() == Page::Configuration { PANE } else { 0 };
        let list = Rect {
            x: body.x,
            y: body.y + ABOVE,
            width: body.width,
            height: body.height.saturating_sub(ABOVE + pane),
        };
        let (length, at) = (self.length(), self.selected[self.page]);
        let first = first_line(length, at, usize::from(list.height));
        for (y, index) in (list.y..list.bottom()).zip(first..length) {
            let line = self.line(index, paint, usize::from(list.width.saturating_sub(3)));
            put(buffer, list.x + 2, y, &line, list.width.saturating_sub(3));
            if index == at {
                crate::tui::widget::table::select(list, y, paint, buffer);
            }
        }
        if pane > 0 {
            self.view_pane(paint, Rect { y: list.bottom(), height: pane, ..body }, buffer);
        }
        foot::view(self.selected(fleet), false, None, fleet, paint, layout, buffer);
    }

    fn view_head(&self, paint: &Paint<'_>, body: Rect, buffer: &mut Buffer) {
        let mut tabs = Vec::new();
        for (at, (_, title)) in PAGES.iter().enumerate() {
            let scope = if at == self.page { Scope::Strong } else { Scope::Muted };
            tabs.push(paint.span(scope, format!("{title}   ")));
        }
        let state = self.state_words();
        tabs.push(paint.span(state.0, state.1));
        let read = match (self.read_at, &self.trouble) {
            (Some(at), None) => paint.span(Scope::Muted, format!("read {} ago", paint.age(at))),
            (Some(at), Some(_)) => paint.span(Scope::Stale, format!("read {} ago, not since", paint.age(at))),
            (None, _) => Span::raw(""),
        };
        let area = Rect { x: body.x + 2, width: body.width.saturating_sub(4), height: 1, ..body };
        put_ends(buffer, area, &Line::from(tabs), &Line::from(read));
    }

    fn state_words(&self) -> (Scope, String) {
        match (&self.judged, &self.inputs, &self.trouble) {
            (_, None, Some(why)) => (Scope::Unknown, format!("cannot be read: {why}")),
            (_, None, None) => (Scope::Muted, "the configuration is being read".to_owned()),
            (Judged::Nothing, ..) => (Scope::Muted, "nothing is staged; :set PATH=VALUE".to_owned()),
            (Judged::Wrong(why), ..) => (Scope::Blocked, sanitize_line(why)),
            (Judged::Plan(plan), ..) => match plan.state {
                PlanState::Nothing => (Scope::Muted, "what is staged changes nothing".to_owned()),
                PlanState::Ready => (Scope::Ok, format!("ready, {} steps", plan.steps.len())),
                PlanState::NeedsAcknowledgement => (Scope::Degraded, "needs acknowledgement".to_owned()),
                PlanState::Invalid => (Scope::Blocked, "the documents would be wrong".to_owned()),
                PlanState::Blocked => (Scope::Blocked, "blocked".to_owned()),
            },
        }
    }

    fn line(&self, index: usize, paint: &Paint<'_>, cells: usize) -> Line<'static> {
        match self.page() {
            Page::Configuration => match self.rows.get(index) {
                Some(Row::Heading(name)) => Line::from(paint.span(Scope::Column, name.clone())),
                Some(Row::Attribute(attribute)) => attribute_line(attribute, paint, cells),
                None => Line::default(),
            },
            Page::Plan => {
                let line = self.plan_lines().get(index).cloned().unwrap_or_default();
                let is_heading = !line.starts_with(' ') && line.chars().any(char::is_uppercase) && index > 1;
                let scope = if is_heading { Scope::Column } else { Scope::Text };
                Line::from(paint.span(scope, paint.cut(&line, cells)))
            }
            Page::Nodes => self.node_line(index, paint),
        }
    }

    /// A node, what the plan reaches of it, and how many of its static pods are ready.
    fn node_line(&self, index: usize, paint: &Paint<'_>) -> Line<'static> {
        let control_plane = &self.facts.control_plane;
        let (name, pods) = match control_plane.get(index) {
            Some(node) => (node.host.name.clone(), node.static_pods.len()),
            None => {
                let worker = self.facts.workers.get(index - control_plane.len());
                (worker.cloned().unwrap_or_default(), 0)
            }
        };
        let reached: Vec<&str> = self
            .plan()
            .into_iter()
            .flat_map(|plan| &plan.reach)
            .filter(|reach| is_on(reach.component, &reach.nodes, &name, pods > 0))
            .map(|reach| reach.component.name())
            .collect();
        let steps =
            self.plan().map_or(0, |plan| plan.steps.iter().filter(|s| s.nodes.contains(&name)).count());
        let role = if pods > 0 { format!("control plane, {pods} static pods") } else { "worker".to_owned() };
        let words = match reached.is_empty() {
            true => "unchanged".to_owned(),
            false => format!("{} in {steps} steps", reached.join(", ")),
        };
        let scope = if reached.is_empty() { Scope::Muted } else { Scope::Degraded };
        Line::from(vec![
            paint.span(Scope::Strong, format!("{:<28}", sanitize_line(&name))),
            paint.span(Scope::Muted, format!("{role:<30}")),
            paint.span(scope, words),
        ])
    }

    /// What is said about the attribute under the cursor.
    fn view_pane(&self, paint: &Paint<'_>, area: Rect, buffer: &mut Buffer) {
        let Some(Row::Attribute(attribute)) = self.rows.get(self.selected[0]) else { return };
        let cells = usize::from(area.width.saturating_sub(4));
        let mut lines = vec![Line::default()];
        for words in [&attribute.message, &attribute.touches] {
            let wrapped = wrap(&sanitize_line(words), cells);
            lines.extend(wrapped.into_iter().map(|part| Line::from(paint.span(Scope::Text, part))));
        }
        for (y, line) in (area.y..area.bottom()).zip(lines) {
            put(buffer, area.x + 2, y, &line, area.width.saturating_sub(3));
        }
    }
}

fn judged(inputs: &Inputs, edits: &[RequestPart]) -> Result<ChangePlan, String> {
    let mut target = apply(inputs, edits, PatchKind::Strategic)
        .map_err(|errors| errors.into_iter().map(|e| e.message).collect::<Vec<_>>().join("; "))?;
    let options = PlanOptions { files: "FILES".to_owned(), ..PlanOptions::default() };
    plan(inputs, &mut target, &options).map_err(|why| why.to_string())
}

/// Components without named nodes are on all that have them.
fn is_on(component: Component, nodes: &[String], name: &str, is_control_plane: bool) -> bool {
    if !nodes.is_empty() {
        return nodes.iter().any(|node| node == name);
    }
    match component {
        Component::Kubelet | Component::KubeProxy => true,
        Component::CoreDns | Component::ClusterInfo => false,
        _ => is_control_plane,
    }
}

/// The first line that is seen, so that the selected one is.
fn first_line(length: usize, selected: usize, height: usize) -> usize {
    let last = length.saturating_sub(height);
    selected.saturating_sub(height / 2).min(last)
}

fn attribute_line(attribute: &Attribute, paint: &Paint<'_>, cells: usize) -> Line<'static> {
    let (glyph, scope) = match attribute.verdict {
        Some(Judgement::Ok) => (paint.glyphs().ok, Scope::Ok),
        Some(Judgement::Advise) => (paint.glyphs().degraded, Scope::Degraded),
        Some(Judgement::Block) => (paint.glyphs().blocked, Scope::Blocked),
        None => (paint.glyphs().unknown, Scope::Unknown),
    };
    let room = cells.saturating_sub(4) / PATH_PART;
    let path = paint.cut(&attribute.path, room.saturating_sub(1));
    let value = match &attribute.new {
        Some(new) => format!("{} -> {new}", attribute.value),
        None => attribute.value.clone(),
    };
    let value_scope = if attribute.new.is_some() { Scope::Strong } else { Scope::Text };
    Line::from(vec![
        paint.span(scope, format!("{glyph} ")),
        paint.span(Scope::Text, format!("{path:<room$}")),
        paint.span(value_scope, paint.cut(&value, cells.saturating_sub(room + 2))),
    ])
}
