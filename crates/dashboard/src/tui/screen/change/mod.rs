//! The kubeadm configuration of one cluster: what is stored, what somebody would change of it, what that means, and how far a change
//! is that was begun. Owns what is staged and what is selected; must not read a cluster, and judges only through `change`. Nothing of
//! how far a change is is kept here: it is what the last reading shows.

mod attributes;
mod matrix;
mod page;
mod plan_lines;

use std::collections::BTreeSet;

use self::attributes::Row;
use self::matrix::Matrix;
use self::plan_lines::TextLine;
use super::Context;
use super::readings::Readings;
use crate::fleet::{Fleet, Item, RowId, SourceId};
use crate::operations::{ChangeOrder, ConfigurationReading, Underway};
use crate::tui::cursor::Motion;
use crate::tui::reads::Reading;
use crate::tui::screen::tree::Fold;
use crate::tui::subject::{PlannedCluster, Subject, Want};
use capi_types::key::ObjectKey;
use capstan_base::text::sanitize_line;
use capstan_base::time::Timestamp;
use kubeadm_change::document::Inputs;
use kubeadm_change::facts::ClusterFacts;
use kubeadm_change::plan::{ChangePlan, PlanOptions, PlanState, plan};
use kubeadm_change::record::ChangeRecord;
use kubeadm_change::request::{PatchKind, RequestPart, WantedDocuments, apply};

/// The rest between two readings, and while a change is under way.
const REST_MS: u64 = 10_000;
const REST_UNDERWAY_MS: u64 = 2_000;

/// What is shown of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Configuration,
    Difference,
    Plan,
    Nodes,
}

const PAGES: [(Page, &str); 4] = [
    (Page::Configuration, "Configuration"),
    (Page::Difference, "Diff"),
    (Page::Plan, "Plan"),
    (Page::Nodes, "Nodes"),
];

/// What is said about what is staged.
enum Judged {
    Nothing,
    Wrong(String),
    Plan(Box<(ChangePlan, WantedDocuments)>),
}

pub struct ChangeScreen {
    readings: Readings,
    reading: Option<ConfigurationReading>,
    facts: ClusterFacts,
    /// `PATH=VALUE`, in the order in which they were typed.
    staged: Vec<String>,
    /// What is being typed.
    draft: Option<String>,
    judged: Judged,
    /// Lines of the tree below which nothing is shown.
    closed: BTreeSet<String>,
    rows: Vec<Row>,
    difference: Vec<TextLine>,
    plan_lines: Vec<TextLine>,
    matrix: Matrix,
    /// Cells that the lines are wrapped to.
    width: usize,
    page: usize,
    selected: [usize; PAGES.len()],
}

impl ChangeScreen {
    pub fn of(fleet: &Fleet, cluster: RowId) -> Option<Self> {
        Some(Self {
            readings: Readings::of(fleet, cluster)?,
            reading: None,
            facts: ClusterFacts::default(),
            staged: Vec::new(),
            draft: None,
            judged: Judged::Nothing,
            closed: BTreeSet::new(),
            rows: Vec::new(),
            difference: Vec::new(),
            plan_lines: Vec::new(),
            matrix: Matrix::default(),
            width: 0,
            page: 0,
            selected: [0; PAGES.len()],
        })
    }

    pub fn title(&self) -> String {
        format!("change {}", self.readings.cluster.key.name)
    }

    pub fn key(&self) -> &ObjectKey {
        &self.readings.cluster.key
    }

    pub fn cluster(&self) -> &PlannedCluster {
        &self.readings.cluster
    }

    pub fn want(&self) -> Want {
        let rest_ms = if self.underway().is_some() { REST_UNDERWAY_MS } else { REST_MS };
        self.readings.want(Subject::Configuration, rest_ms)
    }

    /// An answer. One about another cluster is not for this screen.
    pub fn take(&mut self, of: &Subject, reading: &Reading, now: Timestamp) {
        let (Subject::Configuration(of), Reading::Configuration(read)) = (of, reading) else { return };
        let Some(reading) = self.readings.take(of, read, now) else { return };
        self.facts = ClusterFacts::read(&reading.inputs);
        self.reading = Some(*reading);
        self.judge();
    }

    /// An order was carried out, or not: the cluster is looked at again. What was staged is stored now.
    pub fn carried_out(&mut self, source: SourceId, cluster: &ObjectKey, is_done: bool) {
        if (self.readings.cluster.source, &self.readings.cluster.key) != (source, cluster) {
            return;
        }
        self.readings.hurry();
        if is_done {
            self.staged.clear();
            self.judge();
        }
    }

    fn underway(&self) -> Option<&Underway> {
        self.reading.as_ref()?.underway.as_ref()
    }

    fn record(&self) -> Option<&ChangeRecord> {
        self.reading.as_ref()?.record.as_ref()
    }

    fn open_record(&self) -> Option<&ChangeRecord> {
        self.record().filter(|record| record.is_open())
    }

    /// What is to be carried out next.
    ///
    /// # Errors
    /// Why there is nothing, in a sentence.
    pub fn order(&self) -> Result<ChangeOrder, String> {
        match (self.open_record(), self.staged.is_empty()) {
            (Some(open), false) => Err(format!(
                "change {} is not over: :apply goes on with it once nothing is staged (:unset), :rollback takes it back",
                open.id
            )),
            (Some(_), true) => Ok(ChangeOrder::GoOn),
            (None, true) => Err("nothing is staged; :set PATH=VALUE stages an edit".to_owned()),
            (None, false) => Ok(ChangeOrder::Begin(self.staged.clone())),
        }
    }

    /// Taking the last change back.
    ///
    /// # Errors
    /// Why there is nothing to take back, in a sentence.
    pub fn order_back(&self) -> Result<ChangeOrder, String> {
        match self.record() {
            Some(_) => Ok(ChangeOrder::TakeBack),
            None => Err("capstan has not changed this cluster: there is nothing to take back".to_owned()),
        }
    }

    /// Notes a change that is wanted; one of the same path takes its place.
    ///
    /// # Errors
    /// It cannot be understood, in a sentence.
    pub fn stage(&mut self, edit: &str) -> Result<(), String> {
        let (path, _) = edit.split_once('=').ok_or("expected PATH=VALUE, such as maxPods=60")?;
        // Put back below, where the edit cannot be understood.
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
        let Some(reading) = &self.reading else { return };
        // Before the equals sign nothing is wanted yet.
        let whole = self.draft.iter().filter(|draft| draft.contains('='));
        let edits: Vec<RequestPart> =
            self.staged.iter().chain(whole).map(|edit| RequestPart::Set(edit.clone())).collect();
        self.judged = if edits.is_empty() {
            Judged::Nothing
        } else {
            judged(&reading.inputs, &edits).map_or_else(Judged::Wrong, |plan| Judged::Plan(Box::new(plan)))
        };
        self.lay_out();
    }

    /// Brings the lines of all pages up to date.
    fn lay_out(&mut self) {
        let Some(reading) = &self.reading else { return };
        let staged = self.staged_plan();
        let documents = match (&self.judged, self.open_record()) {
            (Judged::Plan(judged), _) => judged.1.documents.clone(),
            (_, Some(open)) => open.documents().map(|wanted| wanted.documents).unwrap_or_default(),
            _ => Vec::new(),
        };
        let difference = plan_lines::of_difference(&documents);
        let (plan, items) = match (staged, &reading.underway) {
            // What is staged was not begun, so that nothing of it is done.
            (Some(plan), _) => (Some(plan), None),
            (None, Some(underway)) => (Some(&underway.plan), Some(underway.items.as_slice())),
            (None, None) => (None, None),
        };
        let rows = attributes::rows(&reading.inputs, staged, &self.closed);
        let lines = plan.map(|plan| plan_lines::of_plan(plan, &self.facts, items, self.width));
        let matrix = Matrix::of(plan, items, &self.facts);
        // The cursor stays on its line while others open and close.
        let kept = self.rows.get(self.selected[0]).map(|row| row.key.clone());
        if let Some(at) = kept.and_then(|key| rows.iter().position(|row| row.key == key)) {
            self.selected[0] = at;
        }
        (self.rows, self.difference, self.matrix) = (rows, difference, matrix);
        self.plan_lines = lines.unwrap_or_default();
    }

    fn staged_plan(&self) -> Option<&ChangePlan> {
        if let Judged::Plan(judged) = &self.judged { Some(&judged.0) } else { None }
    }

    fn page(&self) -> Page {
        PAGES[self.page % PAGES.len()].0
    }

    pub fn turn(&mut self, step: isize) {
        let pages = isize::try_from(PAGES.len()).unwrap_or(1);
        let at = isize::try_from(self.page).unwrap_or(0) + step;
        self.page = usize::try_from(at.rem_euclid(pages)).unwrap_or(0);
    }

    /// Opens or closes the line under the cursor, or goes to its parent or first child.
    pub fn fold(&mut self, fold: Fold) {
        if self.page() != Page::Configuration {
            return;
        }
        let at = self.selected[0];
        let Some(row) = self.rows.get(at) else { return };
        let (key, shape) = (row.key.clone(), row.shape);
        match fold {
            Fold::Open | Fold::Toggle if shape.has_children && !shape.open => drop(self.closed.remove(&key)),
            Fold::Close | Fold::Toggle if shape.has_children => drop(self.closed.insert(key)),
            Fold::Open if shape.has_children => self.selected[0] = at + 1,
            Fold::Close | Fold::Toggle => {
                let above = self.rows[..at].iter().rposition(|row| row.shape.depth < shape.depth);
                self.selected[0] = above.filter(|_| fold == Fold::Close).unwrap_or(at);
            }
            Fold::Open => {}
        }
        self.lay_out();
    }

    /// Opens or closes every line.
    pub fn fold_all(&mut self, open: bool) {
        self.closed.clear();
        // Opened first, so that every line with lines below it is among the rows.
        self.lay_out();
        if !open {
            let with_children = self.rows.iter().filter(|row| row.shape.has_children);
            self.closed = with_children.map(|row| row.key.clone()).collect();
            self.selected[0] = 0;
            self.lay_out();
        }
    }

    /// The path under the cursor, to begin an edit with.
    pub fn selected_path(&self) -> Option<&str> {
        let row = self.rows.get(self.selected[0]).filter(|_| self.page() == Page::Configuration)?;
        row.attribute.as_ref().map(|attribute| attribute.path_text.as_str())
    }

    /// What is under the cursor, to be copied.
    pub fn copied(&self) -> Option<String> {
        let line = |lines: &[TextLine]| lines.get(self.selected[self.page]).map(|line| line.copied.clone());
        match self.page() {
            Page::Configuration => self.selected_path().map(str::to_owned),
            Page::Difference => line(&self.difference),
            Page::Plan => line(&self.plan_lines),
            Page::Nodes => self.matrix.name(self.selected[self.page]).map(sanitize_line),
        }
        .filter(|text| !text.is_empty())
    }

    pub fn selected(&self, fleet: &Fleet) -> Option<Item> {
        self.readings.row(fleet)
    }

    /// Every path that is stored or wanted, to complete a line with.
    pub fn paths(&self) -> Vec<String> {
        let attributes = self.rows.iter().filter_map(|row| row.attribute.as_ref());
        attributes.map(|attribute| attribute.path_text.clone()).collect()
    }

    fn length(&self) -> usize {
        match self.page() {
            Page::Configuration => self.rows.len(),
            Page::Difference => self.difference.len(),
            Page::Plan => self.plan_lines.len(),
            Page::Nodes => self.matrix.len(),
        }
    }

    pub fn refresh(&mut self, context: &Context<'_>) {
        let width = usize::from(context.area.width.saturating_sub(4));
        if std::mem::replace(&mut self.width, width) != width {
            self.lay_out();
        }
        let last = self.length().saturating_sub(1);
        let at = &mut self.selected[self.page];
        *at = (*at).min(last);
    }

    pub fn step(&mut self, context: &Context<'_>, motion: Motion) {
        let page = usize::from(self.list_height(context.area.height));
        let length = self.length();
        let at = &mut self.selected[self.page];
        *at = motion.apply(*at, length, page);
    }
}

fn judged(inputs: &Inputs, edits: &[RequestPart]) -> Result<(ChangePlan, WantedDocuments), String> {
    let mut target = apply(inputs, edits, PatchKind::Strategic)
        .map_err(|errors| errors.into_iter().map(|e| e.message).collect::<Vec<_>>().join("; "))?;
    let options = PlanOptions { files: "FILES".to_owned(), ..PlanOptions::default() };
    let plan = plan(inputs, &mut target, &options).map_err(|why| why.to_string())?;
    Ok((plan, target))
}

/// What is to be said of the state of a plan.
fn state_words(plan: &ChangePlan) -> &'static str {
    match plan.state {
        PlanState::Nothing => "changes nothing",
        PlanState::Ready => "ready",
        PlanState::NeedsAcknowledgement => "needs acknowledgement",
        PlanState::Invalid => "the documents would be wrong",
        PlanState::Blocked => "blocked",
    }
}
