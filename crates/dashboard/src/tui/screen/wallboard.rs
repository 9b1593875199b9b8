//! The wallboard: a picture for many eyes and no keys. The time by the minute, how the fleet stands, pages of what is not well and of
//! rollouts that take turns slowly, and what changed since the shift began. Owns what is on it and which page has its turn; must
//! not change anything.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::header::{Header, standing};
use super::rollout::{arrival_words, bar, minute_of_day, outlook};
use crate::fleet::{Fleet, RowId, Turned, Verdict};
use crate::tui::paint::{Paint, put, put_ends, verdict_scope};
use crate::tui::plans::Plans;
use crate::tui::theme::Scope;
use crate::tui::widget::sparkline;
use capstan_base::text;
use capstan_base::time::Timestamp;

/// A page has its turn for so long, seconds: a minute has three turns, and each change costs bytes.
const TURN_S: i64 = 20;
/// Cells of a bar.
const BAR: usize = 10;
/// A cell of the sparkline is so many seconds, and it has at most so many cells: twelve hours.
const PART_S: u32 = 900;
const PARTS_MAX: u32 = 48;

/// What a wallboard is about.
#[derive(Clone, Copy, Debug)]
pub struct Wallboard {
    /// When the shift began.
    pub shift: Timestamp,
}

/// One line: a name with its verdict, since when, and what is said of it.
struct Entry {
    verdict: Verdict,
    name: String,
    since: String,
    words: Vec<Span<'static>>,
}

/// Lines under a heading that are shown together.
struct Board {
    heading: String,
    entries: Vec<Entry>,
}

impl Wallboard {
    pub fn view(
        &self,
        header: Header<'_>,
        plans: &Plans,
        paint: &Paint<'_>,
        area: Rect,
        buffer: &mut Buffer,
    ) {
        // The clock has no seconds: the picture is drawn for it once a minute.
        paint.changes_in(60 - paint.now.timestamp().rem_euclid(60));
        self.head(header, paint, area, buffer);
        let body = Rect { y: area.y + 2, height: area.height.saturating_sub(2), ..area };
        let news = self.news(header.fleet, paint);
        // A third is for what changed, as far as anything did.
        let wanted = u16::try_from(news.entries.len().max(1)).unwrap_or(u16::MAX).saturating_add(2);
        let below = wanted.min(body.height / 3);
        let above = Rect { height: body.height - below, ..body };
        let room = usize::from(above.height.saturating_sub(1)).max(1);
        let mut boards = pages(not_well(header, paint), room);
        boards.extend(pages(rolling(header, plans, paint), room));
        let turns = boards.len().max(1);
        if turns > 1 {
            paint.changes_in(TURN_S - paint.now.timestamp().rem_euclid(TURN_S));
        }
        let turn = usize::try_from(paint.now.timestamp().div_euclid(TURN_S)).unwrap_or(0) % turns;
        match boards.get(turn) {
            Some(board) => view_board(board, (turn, turns), paint, above, buffer),
            None => well(header, paint, above, buffer),
        }
        let below = Rect { y: above.bottom(), height: below, ..body };
        paint.rule(Rect { height: below.height.min(1), ..below }, buffer);
        let below = Rect { y: below.y + 1, height: below.height.saturating_sub(1), ..below };
        view_board(&news, (0, 1), paint, below, buffer);
    }

    fn head(&self, header: Header<'_>, paint: &Paint<'_>, area: Rect, buffer: &mut Buffer) {
        let time = paint.now.format("%H:%M UTC").to_string();
        let mut left = Line::from(vec![Span::raw(" "), paint.span(Scope::Strong, time), Span::raw("  ")]);
        let right = standing(header, paint, usize::from(area.width));
        let room = usize::from(area.width).saturating_sub(left.width() + right.width() + 2);
        left.push_span(paint.span(Scope::HeaderContext, paint.cut(&header.session.title, room)));
        put_ends(buffer, Rect { height: 1, ..area }, &left, &right);
        paint.rule(Rect { y: area.y + 1, height: 1, ..area }, buffer);
    }

    /// What has another verdict than when the shift began, the worst first; and how many were at fault since then.
    fn news(&self, fleet: &Fleet, paint: &Paint<'_>) -> Board {
        let shift_s = u32::try_from(self.shift.timestamp()).unwrap_or(0);
        let entries = fleet.turned_since(shift_s).into_iter().map(|turned| entry_of(fleet, turned, paint));
        let entries: Vec<Entry> = entries.collect();
        // A quarter of an hour each, by the clock: nothing moves in between.
        let parts = fleet.now_s().saturating_sub(shift_s).div_ceil(PART_S).clamp(1, PARTS_MAX);
        let parts = fleet.faults_over(parts * PART_S, parts, None);
        let cells: String =
            sparkline::cells(&parts, paint).iter().map(|span| span.content.to_string()).collect();
        let turned = if entries.is_empty() {
            "nothing changed".to_owned()
        } else {
            format!("{} changed", entries.len())
        };
        let heading = format!("SINCE {} UTC: {turned}   faults {cells}", minute_of_day(shift_s, paint.now));
        Board { heading, entries }
    }
}

fn entry_of(fleet: &Fleet, turned: Turned, paint: &Paint<'_>) -> Entry {
    let word = |verdict: Option<Verdict>| verdict.map_or("not there", Verdict::word);
    let to = turned.to.map_or("gone", Verdict::word);
    let id = fleet.clusters().iter().find(|id| fleet.row(**id).is_some_and(|row| row.uid == turned.cluster));
    let why = id.map(|id| fleet.what_is_wrong(*id)).filter(|_| turned.to > Some(Verdict::Progressing));
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    Entry {
        verdict: turned.to.unwrap_or_default(),
        name: format!("{}/{}", turned.namespace, turned.name),
        since: minute_of_day(turned.at_s, paint.now),
        words: vec![paint.span(Scope::Text, format!("{} to {to}{why}", word(turned.from)))],
    }
}

/// The clusters that are not well, the worst first, then those that have been so for longer.
fn not_well(header: Header<'_>, paint: &Paint<'_>) -> Board {
    let fleet = header.fleet;
    let mut ids: Vec<RowId> =
        clusters(header).filter(|id| fleet.verdict(*id) > Verdict::Progressing).collect();
    ids.sort_by_key(|id| (std::cmp::Reverse(fleet.verdict(*id)), fleet.since(*id)));
    let entry = |id: &RowId| {
        let since = fleet.since(*id).map(|since| paint.age_in_list(since)).unwrap_or_default();
        let words = vec![paint.span(Scope::Text, fleet.what_is_wrong(*id))];
        Entry { verdict: fleet.verdict(*id), name: name(fleet, *id), since, words }
    };
    Board { heading: "NOT WELL".to_owned(), entries: ids.iter().map(entry).collect() }
}

/// The clusters that roll: how far each is, and when it is through.
fn rolling(header: Header<'_>, plans: &Plans, paint: &Paint<'_>) -> Board {
    let fleet = header.fleet;
    let rollouts = clusters(header).filter(|id| fleet.may_roll(*id)).filter_map(|id| fleet.rollout(id));
    let entry = |rollout: crate::fleet::Rollout| {
        let id = rollout.cluster;
        let (done, want) =
            rollout.owners.iter().fold((0, 0), |(done, want), o| (done + o.done, want + o.want));
        let mut words: Vec<Span<'static>> = bar(done, want, BAR, Scope::Progressing, paint).into();
        let outlook = outlook(fleet, &rollout, plans);
        let end = match (outlook.held.first(), outlook.arrival) {
            (Some(hold), _) => format!("  held: {}", hold.sentence),
            (None, Some(arrival)) => format!("  ready {} UTC", arrival_words(arrival, paint.now)),
            (None, None) => String::new(),
        };
        words.push(paint.span(Scope::Text, format!(" {done} of {want}{end}")));
        let since = rollout.began_s().map(|at_s| minute_of_day(at_s, paint.now)).unwrap_or_default();
        Entry { verdict: fleet.verdict(id), name: name(fleet, id), since, words }
    };
    let entries = rollouts.filter(crate::fleet::Rollout::is_under_way).map(entry).collect();
    Board { heading: "ROLLOUTS".to_owned(), entries }
}

fn clusters<'a>(header: Header<'a>) -> impl Iterator<Item = RowId> + 'a {
    header.fleet.clusters().iter().copied()
}

fn name(fleet: &Fleet, id: RowId) -> String {
    fleet.row(id).map(|row| format!("{}/{}", row.namespace, row.name)).unwrap_or_default()
}

/// The same in parts that have room; none without entries.
fn pages(board: Board, room: usize) -> Vec<Board> {
    let count = board.entries.len().div_ceil(room);
    let mut entries = board.entries.into_iter();
    let page = |at: usize| {
        let part = if count > 1 { format!(" {} of {count}", at + 1) } else { String::new() };
        let heading = format!("{}{part}", board.heading);
        Board { heading, entries: entries.by_ref().take(room).collect() }
    };
    (0..count).map(page).collect()
}

fn view_board(
    board: &Board,
    (turn, turns): (usize, usize),
    paint: &Paint<'_>,
    area: Rect,
    buffer: &mut Buffer,
) {
    if area.height == 0 {
        return;
    }
    let heading = Line::from(paint.span(Scope::Column, format!("  {}", board.heading)));
    let right = if turns > 1 { format!("page {} of {turns} ", turn + 1) } else { String::new() };
    put_ends(buffer, Rect { height: 1, ..area }, &heading, &Line::from(paint.span(Scope::Muted, right)));
    let width = usize::from(area.width);
    let names = board.entries.iter().map(|entry| text::width(&entry.name)).max().unwrap_or(0).min(width / 3);
    let shown = usize::from(area.height - 1);
    for (y, entry) in (area.y + 1..area.bottom()).zip(&board.entries) {
        let mut spans = vec![
            paint.span(verdict_scope(entry.verdict), format!("  {} ", paint.verdict_glyph(entry.verdict))),
            paint.span(Scope::Strong, format!("{:<names$}  ", paint.cut_name(&entry.name, names))),
            paint.span(Scope::Muted, format!("{:>5}  ", entry.since)),
        ];
        let left = width.saturating_sub(spans.iter().map(Span::width).sum());
        match entry.words.as_slice() {
            [words] => spans.push(Span::styled(paint.cut(&words.content, left), words.style)),
            several => spans.extend(several.iter().cloned()),
        }
        put(buffer, area.x, y, &Line::from(spans), area.width);
    }
    let more = board.entries.len().saturating_sub(shown);
    if more > 0 && shown > 0 {
        let line = Line::from(paint.span(Scope::Muted, format!(" and {more} more ")));
        let x = area.right().saturating_sub(u16::try_from(line.width()).unwrap_or(0));
        put(buffer, x, area.bottom() - 1, &line, area.width);
    }
}

/// Nothing is at fault, and nothing rolls.
fn well(header: Header<'_>, paint: &Paint<'_>, area: Rect, buffer: &mut Buffer) {
    let count = header.fleet.clusters().len();
    let words = match count {
        0 => "there are no clusters, or they are not read yet".to_owned(),
        1 => "the cluster is well".to_owned(),
        count => format!("all {count} clusters are well"),
    };
    let line = Line::from(paint.span(if count == 0 { Scope::Muted } else { Scope::Ok }, words));
    put(buffer, area.x + 2, area.y + area.height / 2, &line, area.width.saturating_sub(2));
}
