//! One object in detail: conditions with what they mean, counters, relations; its YAML and events.
//! Owns the open tab and the scroll position; the object in full comes from whoever follows it.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use serde_json::Value;

use super::details_text::{self, Full, Links, Long};
use super::moments::{Between, Moments};
use super::related::{Related, Way, related};
use super::search::Search;
use super::tree::Fold;
use super::yaml_folds::YamlFolds;
use super::{Context, foot, plan_text, timeline_text, why};
use crate::fleet::watch::{ObjectNews, Tape};
use crate::fleet::{Fleet, Item, ItemKey, Kind, Part, RowId, SourceId, Target, Uid};
use crate::tui::cursor::{Motion, Scroll};
use crate::tui::layout::{Layout, layout};
use crate::tui::paint::{Paint, put};
use crate::tui::plans::Plans;
use crate::tui::reads::Reading;
use crate::tui::subject::{PlannedCluster, Subject, Want};
use crate::tui::theme::Scope;
use crate::tui::widget::table::{mark, select};
use capi_types::condition::Status;
use capstan_base::time::Timestamp;

/// The condition of a Machine that is as its owner wants it.
const UP_TO_DATE: &str = "UpToDate";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tab {
    #[default]
    Overview,
    Yaml,
    Events,
    Plan,
    Timeline,
    Changes,
}

impl Tab {
    pub const ALL: [Self; 6] =
        [Self::Overview, Self::Yaml, Self::Events, Self::Plan, Self::Timeline, Self::Changes];

    pub fn word(self) -> &'static str {
        match self {
            Self::Overview => "overview",
            Self::Yaml => "yaml",
            Self::Events => "events",
            Self::Plan => "plan",
            Self::Timeline => "timeline",
            Self::Changes => "changes",
        }
    }
}

pub struct DetailsScreen {
    pub target: Target,
    /// `None`: an object that no row of the fleet is, or refers to.
    key: Option<ItemKey>,
    /// The object's place while it is in the fleet.
    item: Option<Item>,
    tab: Tab,
    scrolls: [Scroll; Tab::ALL.len()],
    /// In the open tab; the words stay for the next one.
    search: Search,
    full: Full,
    yaml: YamlFolds,
    /// Whether long messages are shown whole.
    long: Long,
    /// Why the Machine is not up to date, for what its condition says of it.
    outdated: Option<(String, Result<Vec<String>, String>)>,
    moments: Moments,
    /// The moment of a recording that it shows, milliseconds since the epoch.
    recorded_ms: Option<i64>,
    explains: Option<Explains>,
    /// Which related object is chosen, and whether it is still to be brought on the screen.
    link: Option<usize>,
    is_link_sought: bool,
}

/// What a tab shows.
#[derive(Default)]
struct Page {
    lines: Vec<Line<'static>>,
    /// The line of the related object that is chosen.
    chosen: Option<usize>,
    /// The line that one is at.
    at: Option<usize>,
    /// The number of each line where nothing is folded; empty: its own.
    numbers: Vec<usize>,
}

impl Page {
    fn number(&self, at: usize) -> usize {
        self.numbers.get(at).copied().unwrap_or(at)
    }
}

/// The object is one of the causes of the state of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Explains {
    of: (SourceId, Uid),
    /// Its place among the causes.
    at: usize,
}

impl DetailsScreen {
    /// Details of an item; `None` for headings.
    pub fn of(fleet: &Fleet, item: Item, tab: Tab) -> Option<Self> {
        let (target, key) = (fleet.target(item)?, fleet.item_key(item)?);
        Some(Self { key: Some(key), item: Some(item), tab, ..Self::of_target(target) })
    }

    /// Details of an object that the fleet does not have: what is shown is read.
    pub fn of_target(target: Target) -> Self {
        Self {
            target,
            key: None,
            item: None,
            tab: Tab::default(),
            scrolls: [Scroll::default(); Tab::ALL.len()],
            search: Search::default(),
            full: Full::default(),
            yaml: YamlFolds::default(),
            long: Long::default(),
            outdated: None,
            moments: Moments::default(),
            recorded_ms: None,
            explains: None,
            link: None,
            is_link_sought: false,
        }
    }

    fn related(&self, fleet: &Fleet) -> Vec<Related> {
        related(fleet, self.item, &self.target, self.full.object())
    }

    /// Chooses the next related object, or the one before, round at the ends; opens the tab that has them. False when
    /// there is none.
    pub fn choose_link(&mut self, fleet: &Fleet, forward: bool) -> bool {
        let count = self.related(fleet).len();
        if count == 0 {
            return false;
        }
        self.tab = Tab::Overview;
        self.link = Some(match self.link {
            Some(at) if forward => (at + 1) % count,
            // The list may have become shorter since it was chosen from.
            Some(at) => (at.min(count) + count - 1) % count,
            None if forward => 0,
            None => count - 1,
        });
        self.is_link_sought = true;
        true
    }

    /// The related object that is chosen.
    pub fn chosen_link(&self, fleet: &Fleet) -> Option<Related> {
        self.related(fleet).into_iter().nth(self.link.filter(|_| self.tab == Tab::Overview)?)
    }

    /// Details of the object that stands for the cause number `at` of the state of `of`; `None` when it has not
    /// so many.
    pub fn of_cause(fleet: &Fleet, of: RowId, at: usize) -> Option<Self> {
        let leaf = fleet.causes(of).get(at)?.leaf;
        let row = fleet.row(of)?;
        let screen = Self::of(fleet, Item::Row(leaf), Tab::Overview)?;
        Some(Self { explains: Some(Explains { of: (row.source, row.uid), at }), ..screen })
    }

    /// Whose state the object explains, and its place among the causes.
    pub fn explains(&self, fleet: &Fleet) -> Option<(RowId, usize)> {
        let Explains { of: (source, uid), at } = self.explains?;
        Some((fleet.find(source, uid)?, at))
    }

    /// Opens the next tab, or the one before.
    pub fn turn(&mut self, step: isize) {
        // The length first, so that a step back from the first tab does not go below zero.
        let at = (self.tab as usize + Tab::ALL.len()).saturating_add_signed(step) % Tab::ALL.len();
        self.tab = Tab::ALL[at];
    }

    /// The object in full, and what the open tab shows besides.
    pub fn wants(&self, fleet: &Fleet, plans: &Plans) -> Vec<Want> {
        // On every tab, so that none of its changes is missed.
        let mut wants = vec![Want::now(Subject::Object(self.target.clone()))];
        match self.tab {
            Tab::Plan => wants.extend(self.planned(fleet).and_then(|cluster| plans.want(cluster))),
            Tab::Events => wants.push(Want::now(Subject::Events(self.target.clone()))),
            Tab::Overview => wants.extend(self.wants_differences(fleet)),
            Tab::Yaml | Tab::Timeline | Tab::Changes => {}
        }
        wants
    }

    /// How a Machine that is not up to date differs is read once for each thing that its condition says.
    fn wants_differences(&self, fleet: &Fleet) -> Option<Want> {
        let said = outdated_message(fleet, self.row()?)?;
        let is_known =
            self.recorded_ms.is_some() || self.outdated.as_ref().is_some_and(|(of, _)| *of == said);
        (!is_known).then(|| Want::now(Subject::Outdated(self.target.clone())))
    }

    fn planned(&self, fleet: &Fleet) -> Option<PlannedCluster> {
        PlannedCluster::of(fleet, fleet.cluster_of(self.row()?)?)
    }

    pub fn set_tab(&mut self, tab: Tab) {
        self.tab = tab;
    }

    /// News of the object, or of its events.
    pub fn take(&mut self, fleet: &Fleet, of: &Subject, reading: &Reading, now: Timestamp) {
        if let (Subject::Outdated(target), Reading::Outdated(read)) = (of, reading) {
            let said = self.row().and_then(|id| outdated_message(fleet, id));
            if *target == self.target
                && let Some(said) = said
            {
                self.outdated = Some((said, read.clone()));
            }
            return;
        }
        let (Subject::Object(target) | Subject::Events(target), Reading::Object(news)) = (of, reading) else {
            return;
        };
        if *target != self.target {
            return;
        }
        if let ObjectNews::Object(object) = news {
            self.moments.take(object, now);
        }
        self.full.take(news);
    }

    /// Shows what differs between two moments on its tab, or every change again.
    pub fn compare(&mut self, span: Option<Between>) {
        self.moments.compare(span);
    }

    /// Shows the object as a recording has it at a moment, with all that changed until then.
    pub fn show_recorded(&mut self, tape: &Tape, at_ms: i64) {
        if self.recorded_ms.replace(at_ms) == Some(at_ms) {
            return;
        }
        self.full = Full::default();
        tape.subjects(&self.target, at_ms).iter().for_each(|news| self.full.take(news));
        self.moments.begin_again();
        for (at, object) in tape.states(&self.target, at_ms) {
            if let Some(object) = object {
                self.moments.take(&object, at);
            }
        }
    }

    /// The object as it was read.
    pub fn object(&self) -> Option<&Value> {
        self.full.object()
    }

    /// The YAML while its tab is open, for the clipboard.
    pub fn open_yaml(&self) -> Option<String> {
        let lines = self.full.yaml().filter(|_| self.tab == Tab::Yaml)?;
        Some(lines.join("\n"))
    }

    pub fn search(&self) -> &Search {
        &self.search
    }

    /// Looks for these words from the first line on the screen on; for nothing when they are empty.
    pub fn set_search(&mut self, words: &str) {
        self.search.set(words, self.scrolls[self.tab as usize].0);
    }

    /// To the next line with the words, or the one before.
    pub fn find(&mut self, forward: bool) {
        self.search.go(forward);
    }

    pub fn refresh(&mut self, context: &Context<'_>) {
        self.find_place(context.fleet);
        // Building the page costs as much as drawing it:
        // only a search or a chosen link needs it here.
        if self.search.words().is_empty() && !self.is_link_sought {
            return;
        }
        let Some(parts) = layout(context.area) else { return };
        let paint = Paint::new(context.theme, context.now);
        let height = usize::from(parts.body.height);
        let page = self.page(context.fleet, context.plans, &paint, usize::from(parts.body.width));
        if let Some(line) = page.chosen.filter(|_| std::mem::take(&mut self.is_link_sought)) {
            self.scrolls[self.tab as usize].show(line, page.lines.len(), height);
        }
        let whole = if self.tab == Tab::Yaml { details_text::yaml(&self.full, &paint) } else { page.lines };
        let Some(line) = self.search.settle(whole.iter().map(ToString::to_string)) else { return };
        if self.tab == Tab::Yaml {
            self.yaml.show(self.full.outline(), line.saturating_sub(whole.len() - self.full.outline().len()));
            let page = self.yaml_page(&paint);
            self.scrolls[self.tab as usize].show(page.at.unwrap_or(line), page.lines.len(), height);
        } else {
            self.scrolls[self.tab as usize].show(line, whole.len(), height);
        }
    }

    /// Rows come and go: the place of the object is looked up again when it is not there any more.
    fn find_place(&mut self, fleet: &Fleet) {
        let Some(key) = self.key else { return };
        // The number of a row that went may have been given to another one.
        if self.item.is_some_and(|item| fleet.item_key(item) == Some(key)) {
            return;
        }
        let row = fleet.find(self.target.source, key.uid);
        self.item = row.map(|id| match key.part {
            Part::Itself => Item::Row(id),
            Part::Group(group) => Item::Group { of: id, group },
            Part::Reference(which) => Item::Reference { of: id, which },
        });
    }

    pub fn selected(&self, _fleet: &Fleet) -> Option<Item> {
        self.item
    }

    /// The object's row, when it is one of the fleet's.
    pub fn row(&self) -> Option<RowId> {
        match self.item {
            Some(Item::Row(id)) => Some(id),
            _ => None,
        }
    }

    pub fn step(&mut self, context: &Context<'_>, motion: Motion) {
        let Some(parts) = layout(context.area) else { return };
        let paint = Paint::new(context.theme, context.now);
        let height = usize::from(parts.body.height);
        if self.tab == Tab::Yaml && self.full.outline().len() > 0 {
            self.yaml.step(self.full.outline(), motion, height);
            self.follow_yaml(&paint, height);
            return;
        }
        let lines =
            self.page(context.fleet, context.plans, &paint, usize::from(parts.body.width)).lines.len();
        self.scrolls[self.tab as usize].step(motion, lines, height);
    }

    /// The line that one is at is on the screen.
    fn follow_yaml(&mut self, paint: &Paint<'_>, height: usize) {
        let page = self.yaml_page(paint);
        if let Some(at) = page.at {
            // The first line brings what stands above it.
            let at = if at == page.lines.len() - self.yaml.shown(self.full.outline()).len() { 0 } else { at };
            self.scrolls[Tab::Yaml as usize].follow(at, page.lines.len(), height);
        }
    }

    /// There is something to fold on the open tab.
    pub fn has_folds(&self) -> bool {
        match self.tab {
            Tab::Overview | Tab::Yaml | Tab::Events => true,
            Tab::Plan | Tab::Timeline | Tab::Changes => false,
        }
    }

    pub fn is_yaml(&self) -> bool {
        self.tab == Tab::Yaml
    }

    /// Opens or closes a block of the YAML, or long messages.
    pub fn fold(&mut self, context: &Context<'_>, fold: Fold) {
        if self.tab == Tab::Yaml {
            self.yaml.fold(self.full.outline(), fold);
            self.show_fold(context);
        } else {
            self.long = match (fold, self.long) {
                (Fold::Open, _) | (Fold::Toggle, Long::Cut) => Long::Whole,
                (Fold::Close, _) | (Fold::Toggle, Long::Whole) => Long::Cut,
            };
        }
    }

    /// The same with all of them.
    pub fn fold_all(&mut self, context: &Context<'_>, open: bool) {
        if self.tab == Tab::Yaml {
            self.yaml.fold_all(self.full.outline(), open);
            self.show_fold(context);
        } else {
            self.long = if open { Long::Whole } else { Long::Cut };
        }
    }

    fn show_fold(&mut self, context: &Context<'_>) {
        if let Some(parts) = layout(context.area) {
            self.follow_yaml(&Paint::new(context.theme, context.now), usize::from(parts.body.height));
        }
    }

    /// The tabs for the line of crumbs, the open one marked.
    pub fn tabs(&self, paint: &Paint<'_>) -> Vec<Span<'static>> {
        let mut spans = Vec::new();
        for tab in Tab::ALL {
            let scope = if tab == self.tab { Scope::TabOpen } else { Scope::Tab };
            spans.push(paint.span(scope, tab.word()));
            spans.push(Span::raw("  "));
        }
        spans.pop();
        spans.push(Span::raw(" "));
        spans
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
        let page = self.page(fleet, plans, paint, usize::from(body.width));
        let scroll = self.scrolls[self.tab as usize];
        let first = scroll.clamped(page.lines.len(), usize::from(body.height));
        for (y, (at, line)) in (body.y..body.bottom()).zip(page.lines.iter().enumerate().skip(first)) {
            put(buffer, body.x + 1, y, line, body.width.saturating_sub(2));
            if page.at == Some(at) {
                select(body, y, paint, buffer);
            }
            self.view_found(page.number(at), line, Rect { y, height: 1, ..body }, paint, buffer);
        }
        let chosen = self.chosen_link(fleet).map(|link| match link.way {
            Way::None(why) => why.to_owned(),
            _ => format!("enter opens {} {}", link.kind, link.name),
        });
        foot::view(self.item, false, chosen, fleet, paint, layout, buffer);
        foot::position(first, usize::from(body.height), page.lines.len(), paint, layout, buffer);
    }

    /// Marks the words that are looked for on a line, and the line that one is at.
    fn view_found(&self, at: usize, line: &Line<'_>, area: Rect, paint: &Paint<'_>, buffer: &mut Buffer) {
        if self.search.words().is_empty() {
            return;
        }
        let text = Rect { x: area.x + 1, width: area.width.saturating_sub(2), ..area };
        for cells in self.search.cells(&line.to_string()) {
            mark(text, &cells, paint, buffer);
        }
        if self.search.line() == Some(at) {
            let glyph = Line::from(paint.span(Scope::Match, paint.glyphs().cursor));
            put(buffer, area.x, area.y, &glyph, 1);
        }
    }

    fn page(&self, fleet: &Fleet, plans: &Plans, paint: &Paint<'_>, width: usize) -> Page {
        let width = width.saturating_sub(3);
        let lines = match self.tab {
            Tab::Overview => return self.overview(fleet, paint, width),
            Tab::Yaml => return self.yaml_page(paint),
            Tab::Events => {
                let (row, long) = (self.row(), self.long());
                details_text::events(fleet, row, &self.target, &self.full, long, paint, width)
            }
            Tab::Plan => plan_text::plan(fleet, self.item, plans, paint, width),
            Tab::Timeline => timeline_text::timeline(fleet, self.item, paint, width),
            Tab::Changes => self.changes(fleet, paint, width),
        };
        Page { lines, ..Page::default() }
    }

    /// What is looked for may be in what is cut.
    fn long(&self) -> Long {
        if self.search.words().is_empty() { self.long } else { Long::Whole }
    }

    fn yaml_page(&self, paint: &Paint<'_>) -> Page {
        let outline = self.full.outline();
        let mut all = details_text::yaml(&self.full, paint);
        // Above the text may stand why it is old.
        let text = all.split_off(all.len() - outline.len());
        let above = all.len();
        let mut page = Page { numbers: (0..above).collect(), lines: all, ..Page::default() };
        for (at, hidden) in self.yaml.shown(outline) {
            let mut line = text.get(at).cloned().unwrap_or_default();
            if hidden > 0 {
                let more = format!(" {} {hidden} lines", paint.glyphs().ellipsis);
                line.push_span(paint.span(Scope::Muted, more));
            }
            page.lines.push(line);
            page.numbers.push(above + at);
        }
        page.at = (outline.len() > 0).then(|| above + self.yaml.place(outline));
        page
    }

    fn changes(&self, fleet: &Fleet, paint: &Paint<'_>, width: usize) -> Vec<Line<'static>> {
        let mut lines = self.moments.lines(paint, width);
        if let Some(span) = self.moments.unread() {
            lines.extend(timeline_text::kept(fleet, self.row(), span, paint));
        }
        lines
    }

    fn overview(&self, fleet: &Fleet, paint: &Paint<'_>, width: usize) -> Page {
        let mut lines = why::lines(fleet, self.row(), self.explains(fleet), paint, width);
        let related = self.related(fleet);
        let links = Links { all: &related, chosen: self.link };
        let is_still = |id| outdated_message(fleet, id).is_some();
        let outdated = self.outdated.as_ref().filter(|_| self.row().is_some_and(is_still));
        if let Some((_, Ok(differences))) = outdated {
            let differences = details_text::outdated(differences, paint, width);
            lines.extend((!lines.is_empty() && !differences.is_empty()).then(Line::default));
            lines.extend(differences);
        }
        let (rest, chosen) =
            details_text::overview(fleet, self.item, &self.full, links, self.long(), paint, width);
        if !lines.is_empty() && !rest.is_empty() {
            lines.push(Line::default());
        }
        let chosen = chosen.map(|line| lines.len() + line);
        lines.extend(rest);
        Page { lines, chosen, ..Page::default() }
    }
}

/// What the condition of a Machine says that is not up to date.
fn outdated_message(fleet: &Fleet, id: RowId) -> Option<String> {
    let row = fleet.row(id).filter(|row| row.kind == Kind::Machine)?;
    let condition = row.condition(UP_TO_DATE).filter(|condition| condition.status == Status::False)?;
    Some(condition.message.to_string())
}
