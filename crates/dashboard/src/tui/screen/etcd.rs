//! The etcd of one cluster: members beside Machines, what was found, and what is left without the selected member.
//! Owns when it is read again while it is open; must not read it, and must not judge it.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::readings::Readings;
use super::{Context, foot};
use crate::fleet::{Fleet, Item, Kind, RowId};
use crate::tui::cursor::Motion;
use crate::tui::layout::Layout;
use crate::tui::paint::{Paint, put, put_ends};
use crate::tui::reads::Reading;
use crate::tui::subject::{Subject, Want};
use crate::tui::theme::Scope;
use crate::tui::widget::table::{self, Align, Column, Placed};
use capi_rules::etcd::facts::Facts;
use capi_rules::etcd::findings::Grade;
use capi_rules::etcd::members::MemberRow;
use capi_rules::etcd::report::{EtcdState, Report};
use capi_types::key::ObjectKey;
use capstan_base::text::{sanitize_line, width, wrap};
use capstan_base::time::Timestamp;

/// The rest between two readings, and the one before what may pass by itself is looked at again.
const REST_MS: u64 = 10_000;
const SECOND_LOOK_MS: u64 = 1_000;
/// Lines of the body above the first member: the head line, a blank and the headings.
const ABOVE: u16 = 3;

pub struct EtcdScreen {
    readings: Readings,
    report: Option<Report>,
    previous: Option<Facts>,
    /// The last reading shows what may pass by itself, and the one before did not.
    is_doubtful: bool,
    selected: usize,
}

impl EtcdScreen {
    pub fn of(fleet: &Fleet, cluster: RowId) -> Option<Self> {
        Some(Self {
            readings: Readings::of(fleet, cluster)?,
            report: None,
            previous: None,
            is_doubtful: false,
            selected: 0,
        })
    }

    pub fn title(&self) -> String {
        format!("etcd {}", self.readings.cluster.key.name)
    }

    pub fn key(&self) -> &ObjectKey {
        &self.readings.cluster.key
    }

    pub fn want(&self) -> Want {
        self.readings.want(Subject::Etcd, if self.is_doubtful { SECOND_LOOK_MS } else { REST_MS })
    }

    /// An answer. One about another cluster is not for this screen.
    pub fn take(&mut self, of: &Subject, reading: &Reading, now: Timestamp) {
        let (Subject::Etcd(of), Reading::Etcd(look)) = (of, reading) else { return };
        let Some(facts) = self.readings.take(of, look, now) else { return };
        let report = Report::of(&facts, self.previous.as_ref());
        // One second look only: what still shows then does not pass by itself.
        self.is_doubtful = report.may_pass() && !self.is_doubtful;
        (self.report, self.previous) = (Some(report), Some(facts));
    }

    fn members(&self) -> &[MemberRow] {
        self.report.as_ref().map_or(&[], |report| &report.members)
    }

    /// The Machine of the selected member.
    pub fn selected(&self, fleet: &Fleet) -> Option<Item> {
        let machine = self.members().get(self.selected)?.machine.as_deref()?;
        let cluster = self.readings.row(fleet)?.row();
        let machines = fleet.members(cluster, Kind::Machine).iter().copied();
        let mut named = machines.filter(|id| fleet.row(*id).is_some_and(|row| row.name.as_ref() == machine));
        named.next().map(Item::Row)
    }

    pub fn refresh(&mut self) {
        self.selected = self.selected.min(self.members().len().saturating_sub(1));
    }

    pub fn step(&mut self, context: &Context<'_>, motion: Motion) {
        let page = usize::from(context.area.height);
        self.selected = motion.apply(self.selected, self.members().len(), page);
    }

    pub fn click(&mut self, line: usize) {
        // A click counts from the second line of the body, where other lists have their first row.
        let at = (line + 1).checked_sub(usize::from(ABOVE));
        if let Some(at) = at.filter(|at| *at < self.members().len()) {
            self.selected = at;
        }
    }

    pub fn view(&self, fleet: &Fleet, paint: &Paint<'_>, layout: &Layout, buffer: &mut Buffer) {
        paint.rule(layout.rule, buffer);
        let body = layout.body;
        self.view_head(paint, body, buffer);
        if let Some(report) = &self.report {
            let below = self.view_members(report, paint, body, buffer);
            let lines =
                below_members(report, self.selected, paint, usize::from(body.width.saturating_sub(4)));
            for (y, line) in (below + 1..body.bottom()).zip(lines) {
                put(buffer, body.x + 2, y, &line, body.width.saturating_sub(3));
            }
        }
        foot::view(self.selected(fleet), false, None, fleet, paint, layout, buffer);
    }

    fn view_head(&self, paint: &Paint<'_>, body: Rect, buffer: &mut Buffer) {
        let (glyph, scope) = match self.report.as_ref().map(|report| report.state) {
            Some(EtcdState::Healthy) => (paint.glyphs().ok, Scope::Ok),
            Some(EtcdState::Degraded) => (paint.glyphs().degraded, Scope::Degraded),
            Some(EtcdState::Critical) => (paint.glyphs().blocked, Scope::Blocked),
            Some(EtcdState::Unknown) | None => (paint.glyphs().unknown, Scope::Unknown),
        };
        let words = match (&self.report, self.readings.trouble()) {
            (Some(report), _) => report.summary.clone(),
            (None, Some(why)) => format!("etcd could not be read: {why}"),
            (None, None) => "the members are being asked".to_owned(),
        };
        let head = Line::from(vec![paint.span(scope, format!("{glyph} ")), paint.span(Scope::Strong, words)]);
        let area = Rect { x: body.x + 2, width: body.width.saturating_sub(4), height: 1, ..body };
        put_ends(buffer, area, &head, &Line::from(self.readings.age(paint)));
    }

    /// The first line below the members.
    fn view_members(&self, report: &Report, paint: &Paint<'_>, body: Rect, buffer: &mut Buffer) -> u16 {
        let placed = table::place(&columns(report), body.x + 2, body.width.saturating_sub(3));
        table::headings(&placed, None, body.y + ABOVE - 1, paint, buffer);
        let mut y = body.y + ABOVE;
        for (at, row) in report.members.iter().enumerate() {
            if y >= body.bottom() {
                break;
            }
            for column in &placed {
                let span = cell(row, column, paint);
                table::cell(column, y, &Line::from(span), buffer);
            }
            if at == self.selected {
                table::select(body, y, paint, buffer);
            }
            y += 1;
        }
        y
    }
}

/// Findings, and what is left without the selected member.
fn below_members(report: &Report, selected: usize, paint: &Paint<'_>, cells: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let shown = report.members.get(selected).map(MemberRow::shown_name);
    if let Some(removal) = shown.and_then(|name| report.without(name)) {
        let scope = if removal.is_safe { Scope::Text } else { Scope::Degraded };
        let safe = if removal.is_safe { "" } else { "; not safe" };
        let words = sanitize_line(&format!("{}{safe}", removal.words()));
        lines.extend(wrap(&words, cells).into_iter().map(|part| Line::from(paint.span(scope, part))));
        lines.push(Line::default());
    }
    for finding in &report.findings {
        let scope = match finding.grade {
            Grade::Critical => Scope::Blocked,
            Grade::High => Scope::Degraded,
            Grade::Medium | Grade::Low => Scope::Text,
        };
        let words = sanitize_line(&format!("{}: {}", finding.rule, finding.text));
        let room = cells.saturating_sub(10).max(10);
        for (at, part) in wrap(&words, room).into_iter().enumerate() {
            let grade = if at == 0 { finding.grade.word() } else { "" };
            lines.push(Line::from(vec![
                paint.span(scope, format!("{grade:<10}")),
                paint.span(Scope::Text, part),
            ]));
        }
    }
    lines
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Name,
    Machine,
    Id,
    Role,
    Answer,
    Version,
    Space,
    Behind,
    Alarms,
}

const PARTS: [(Part, &str, usize); 9] = [
    (Part::Name, "MEMBER", 0),
    (Part::Role, "ROLE", 1),
    (Part::Answer, "ANSWER", 2),
    (Part::Alarms, "ALARMS", 3),
    (Part::Space, "DB / QUOTA", 4),
    (Part::Behind, "BEHIND", 5),
    (Part::Machine, "MACHINE", 6),
    (Part::Version, "VERSION", 7),
    (Part::Id, "ID", 8),
];

/// Most important first: a narrow screen leaves out the last ones.
fn columns(report: &Report) -> Vec<Column<Part>> {
    let column = |(id, title, rank): (Part, &str, usize)| {
        let widest = report.members.iter().map(|row| width(&words(row, id))).max().unwrap_or(0);
        let natural = widest.max(width(title)) + if id == Part::Name { 2 } else { 0 };
        let natural = u16::try_from(natural).unwrap_or(u16::MAX);
        Column {
            id,
            title: title.to_owned(),
            align: if id == Part::Behind { Align::Right } else { Align::Left },
            min: natural.min(if id == Part::Name { 14 } else { 10 }),
            natural,
            late: matches!(id, Part::Id | Part::Version | Part::Behind | Part::Machine),
            rank,
            grows: false,
        }
    };
    PARTS.map(column).to_vec()
}

/// What a column shows of a member; `-` for what it does not state.
fn words(row: &MemberRow, part: Part) -> String {
    let stated =
        |text: Option<String>| text.filter(|text| !text.is_empty()).unwrap_or_else(|| "-".to_owned());
    sanitize_line(&match part {
        Part::Name => row.shown_name().to_owned(),
        Part::Machine => stated(row.machine.clone()),
        Part::Id => stated(Some(row.id.clone())),
        Part::Role => row.role.word().to_owned(),
        Part::Answer => row.answer(),
        Part::Version => stated(row.version.clone()),
        Part::Space => stated(row.space()),
        Part::Behind => stated(row.behind.map(|behind| behind.to_string())),
        Part::Alarms => stated(Some(row.alarms.join(","))),
    })
}

fn cell(row: &MemberRow, column: &Placed<Part>, paint: &Paint<'_>) -> Vec<Span<'static>> {
    let words = words(row, column.id);
    match column.id {
        Part::Name => {
            let is_well = row.is_healthy && row.alarms.is_empty();
            let (glyph, scope) = match (is_well, row.trouble.is_some()) {
                (true, _) => (paint.glyphs().ok, Scope::Ok),
                (false, true) => (paint.glyphs().blocked, Scope::Blocked),
                (false, false) => (paint.glyphs().degraded, Scope::Degraded),
            };
            let name = paint.cut_name(&words, usize::from(column.width.saturating_sub(2)));
            vec![paint.span(scope, format!("{glyph} ")), paint.span(Scope::Strong, name)]
        }
        Part::Alarms if !row.alarms.is_empty() => vec![paint.span(Scope::Blocked, words)],
        Part::Answer if row.trouble.is_some() => {
            vec![paint.span(Scope::Blocked, paint.cut(&words, usize::from(column.width)))]
        }
        _ => vec![paint.span(Scope::Text, paint.cut(&words, usize::from(column.width)))],
    }
}
