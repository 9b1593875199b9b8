//! The two lines at the top: who we are, how the fleet and the connection stand; where we are.

use ratatui::buffer::Buffer;
use ratatui::text::{Line, Span};

use super::Screen;
use super::fleet::FleetScreen;
use super::rollout::minute_of_day;
use crate::fleet::Verdict;
use crate::fleet::{FeedState, Fleet};
use crate::tui::layout::Layout;
use crate::tui::paint::{Paint, put_ends, verdict_scope};
use crate::tui::theme::Scope;
use crate::tui::widget::sparkline;
use capstan_base::time::Timestamp;

/// What the program is connected to, for the header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// `demo`, a context, or the name of a dump.
    pub title: String,
    /// What stands before the title, so that one server is not taken for another: a word, and how it is shown.
    pub mark: Option<(String, Scope)>,
    /// `all namespaces`, or one.
    pub scope: String,
    /// No action is offered. Enforced in the client as well.
    pub read_only: bool,
    /// From a preview that was read to its end to a yes.
    pub confirm_after_s: u32,
    /// The name under which the history of this server is kept; `None`: it is not.
    pub history: Option<String>,
}

/// What the two lines show.
#[derive(Clone, Copy)]
pub struct Header<'a> {
    pub fleet: &'a Fleet,
    pub session: &'a Session,
    /// From the first to the open one.
    pub screens: &'a [Screen],
    pub wide: bool,
    /// Lists over the fleet show only this one.
    pub namespace: Option<&'a str>,
    /// It is shown as it was.
    pub is_replay: bool,
}

/// Cells from which on the program's name stands beside a mark.
const NAMED_ROOM: usize = 32;
/// Cells from which on the past has room; how much of it, in how many parts, and after how much of it, seconds.
const SPARKLINE_ROOM: usize = 100;
const PAST_S: u32 = 6 * 3_600;
const PARTS: u32 = 24;
const WATCHED_MIN_S: u32 = 3_600;
/// Cells from which on it is said what is new.
const NEWS_ROOM: usize = 60;

pub fn view(header: Header<'_>, paint: &Paint<'_>, layout: &Layout, buffer: &mut Buffer) {
    let room = usize::from(layout.header.width);
    let right = standing(header, paint, room);
    let left_room = room.saturating_sub(right.width() + 3);
    let left = identity(header, paint, left_room);
    put_ends(buffer, layout.header, &left, &right);
    let mut state = Line::from(view_state(header, paint));
    if header.screens.last().is_some_and(is_of_clusters) && room >= SPARKLINE_ROOM {
        state.spans.splice(0..0, sparkline(header, paint));
    }
    if let Some(screen) = header.screens.last().filter(|_| room >= NEWS_ROOM)
        && let Some((turned, since_s)) = news(screen, header.fleet)
    {
        let words = format!("{turned} turned since {}  ", minute_of_day(since_s, paint.now));
        state.spans.insert(0, paint.span(Scope::Match, words));
    }
    let crumbs = crumbs(header, paint, room.saturating_sub(state.width() + 3));
    put_ends(buffer, layout.crumbs, &crumbs, &state);
}

fn is_of_clusters(screen: &Screen) -> bool {
    screen.as_fleet().is_some_and(FleetScreen::opens_trees)
}

/// How many clusters were at fault over the last hours, and the most of them; nothing before an hour was watched.
fn sparkline(header: Header<'_>, paint: &Paint<'_>) -> Vec<Span<'static>> {
    if header.fleet.watched_for_s() < WATCHED_MIN_S {
        return Vec::new();
    }
    let parts = header.fleet.faults_over(PAST_S, PARTS, header.namespace);
    // A cell is a quarter of an hour by the clock, so that nothing moves in between.
    let part_s = i64::from(PAST_S / PARTS);
    paint.changes_in(part_s - paint.now.timestamp().rem_euclid(part_s));
    let most = sparkline::most(&parts).unwrap_or(0);
    let mut spans = vec![paint.span(Scope::Muted, format!("faults {}h ", PAST_S / 3_600))];
    spans.extend(sparkline::cells(&parts, paint));
    spans.push(paint.span(Scope::Muted, format!(" most {most}  ")));
    spans
}

/// How many clusters turned since somebody looked last, and when that was; only over the list of all of them.
pub fn news(screen: &Screen, fleet: &Fleet) -> Option<(usize, u32)> {
    let since_s = fleet.looked_s().filter(|_| is_of_clusters(screen))?;
    let turned = fleet.turned_since(since_s).len();
    (turned > 0).then_some((turned, since_s))
}

/// Where there is little room, the program's name says less than the mark, and the mark more than the title's end.
fn identity(header: Header<'_>, paint: &Paint<'_>, room: usize) -> Line<'static> {
    let session = header.session;
    let scope = header.namespace.map_or_else(|| session.scope.clone(), |name| format!("namespace {name}"));
    let mut line = Line::from(Span::raw(" "));
    if session.mark.is_none() || room >= NAMED_ROOM {
        line.push_span(paint.span(Scope::Header, "capstan"));
        line.push_span(Span::raw("  "));
    }
    if let Some((word, scope)) = &session.mark {
        let word = paint.cut(word, room.saturating_sub(line.width() + 2));
        line.push_span(paint.span(*scope, format!(" {word} ")));
        line.push_span(Span::raw(" "));
    }
    let title_room = room.saturating_sub(line.width());
    line.push_span(paint.span(Scope::HeaderContext, paint.cut(&session.title, title_room)));
    let used = capstan_base::text::width(&session.title) + capstan_base::text::width(&scope) + 2;
    if !scope.is_empty() && used <= title_room {
        line.push_span(Span::raw("  "));
        line.push_span(paint.span(Scope::Muted, scope));
    }
    line
}

/// Counts by verdict, read-only, and the state of the connection.
pub fn standing(header: Header<'_>, paint: &Paint<'_>, room: usize) -> Line<'static> {
    let (fleet, session) = (header.fleet, header.session);
    let mut spans = Vec::new();
    let counts = fleet.cluster_counts(header.namespace);
    for verdict in [Verdict::Blocked, Verdict::Degraded, Verdict::Unknown, Verdict::Progressing, Verdict::Ok]
    {
        let count = counts[verdict as usize];
        if count > 0 {
            let word = if room >= 100 { format!(" {}", verdict.word()) } else { String::new() };
            let text = format!("{} {count}{word}", paint.verdict_glyph(verdict));
            spans.push(paint.span(verdict_scope(verdict), text));
            spans.push(Span::raw("  "));
        }
    }
    let shelved = fleet.shelved_clusters();
    if shelved > 0 {
        spans.push(paint.span(Scope::Muted, format!("{shelved} shelved")));
        spans.push(Span::raw("  "));
    }
    if let Some(end) = fleet.sources().find_map(|(source, _)| fleet.manager_support_end(source)) {
        let word = if end.has_ended { "ended" } else { "ends" };
        let of = if room >= 100 { "support of " } else { "" };
        let text = format!("{of}{} 1.{} {word}", end.project.name(), end.minor);
        spans.push(paint.span(Scope::Muted, text));
        spans.push(Span::raw("  "));
    }
    if session.read_only {
        spans.push(paint.span(Scope::ReadOnly, "read-only"));
        spans.push(Span::raw("  "));
    }
    spans.push(connection(fleet, header.is_replay, paint));
    spans.push(Span::raw(" "));
    Line::from(spans)
}

/// The worst of all feeds in a word; with the age of the data when it is not current.
fn connection(fleet: &Fleet, is_replay: bool, paint: &Paint<'_>) -> Span<'static> {
    let mut lost: Option<Timestamp> = None;
    let mut silent: Option<Timestamp> = None;
    let mut readable = 0;
    let mut refused = 0;
    let mut recorded = false;
    let mut starting = fleet.feeds().next().is_none();
    for (_, feed) in fleet.feeds() {
        let since = feed.last_good.unwrap_or(feed.since);
        match feed.state {
            FeedState::Lost { .. } => lost = Some(lost.map_or(since, |s| s.min(since))),
            FeedState::Silent { .. } => silent = Some(silent.map_or(since, |s| s.min(since))),
            FeedState::Connecting | FeedState::Listing => starting = true,
            FeedState::Live => readable += 1,
            FeedState::Recorded => recorded = true,
            FeedState::NoAccess { .. } => refused += 1,
            FeedState::NotServed { .. } => {}
        }
    }
    // A server that does not answer at all outweighs what single feeds report.
    if let Some(since) = silent {
        return paint.span(Scope::Stale, format!("no answer for {}", paint.age(since)));
    }
    let is_anything_known = fleet.feeds().any(|(_, feed)| feed.last_good.is_some());
    match lost {
        Some(since) if is_anything_known => {
            paint.span(Scope::Stale, format!("not connected, data {} old", paint.age(since)))
        }
        Some(since) => paint.span(Scope::Stale, format!("not connected for {}", paint.age(since))),
        None if starting => paint.span(Scope::Muted, "loading"),
        None if recorded => paint.span(Scope::Muted, "recorded"),
        None if readable > 0 && is_replay => paint.span(Scope::Muted, "recorded"),
        None if readable > 0 => paint.span(Scope::Live, "live"),
        None if refused > 0 => paint.span(Scope::Stale, "no access"),
        None => paint.span(Scope::Stale, "no Cluster API here"),
    }
}

/// The path to the open screen.
fn crumbs(header: Header<'_>, paint: &Paint<'_>, room: usize) -> Line<'static> {
    let mut names: Vec<String> =
        header.screens.iter().map(|screen| name_of(screen, header.fleet, paint.now)).collect();
    let separator = format!(" {} ", paint.glyphs().crumb);
    while names.len() > 1 && names.join(&separator).chars().count() + 1 > room {
        // The nearest screens say more about where one is.
        names.remove(0);
    }
    let last = names.pop().unwrap_or_default();
    let before: String = names.iter().map(|name| format!("{name}{separator}")).collect();
    let left = room.saturating_sub(capstan_base::text::width(&before) + 1);
    Line::from(vec![
        Span::raw(" "),
        paint.span(Scope::Muted, before),
        paint.span(Scope::Strong, paint.cut_name(&last, left)),
    ])
}

fn name_of(screen: &Screen, fleet: &Fleet, now: Timestamp) -> String {
    match screen {
        Screen::Fleet(list) => list.title(),
        Screen::Tree(tree) => tree.title(fleet),
        Screen::Details(details) => format!("{} {}", details.target.kind, details.target.name),
        Screen::Rollout(rollout) => rollout.title(),
        Screen::Rollouts(rollouts) => rollouts.title(),
        Screen::Since(since) => since.title(now),
        Screen::Objects(objects) => objects.title(),
        Screen::Etcd(etcd) => etcd.title(),
        Screen::Locks(locks) => locks.title(),
        Screen::Migration(migration) => migration.title(),
        Screen::Logs(logs) => logs.title(),
        Screen::Change(change) => change.title(),
        Screen::Simulation(open) => open.title(),
    }
}

/// Columns, filter and order of the open screen, or its tabs.
fn view_state(header: Header<'_>, paint: &Paint<'_>) -> Vec<Span<'static>> {
    let Some(screen) = header.screens.last() else { return Vec::new() };
    let mut spans = Vec::new();
    if header.wide && !screen.is_text() {
        spans.push(paint.span(Scope::Match, "wide"));
        spans.push(Span::raw("  "));
    }
    let chosen = screen.chosen().map_or(0, |chosen| chosen.rows(header.fleet).len());
    if chosen > 0 {
        spans.push(paint.span(Scope::Match, format!("{} {chosen} marked", paint.glyphs().chosen)));
        spans.push(Span::raw("  "));
    }
    if let Some(searched) = screen.searched().filter(|searched| !searched.words.is_empty()) {
        let (word, standing) = match searched.in_text {
            Some(search) => ("find ", format!(" {}", search.standing())),
            None => ("filter ", String::new()),
        };
        spans.push(paint.span(Scope::Muted, word));
        spans.push(paint.span(Scope::Match, paint.cut(searched.words, 24)));
        spans.push(paint.span(Scope::Muted, standing));
        spans.push(Span::raw("  "));
    }
    match screen {
        Screen::Fleet(fleet) => {
            let sort = fleet.sort();
            let all = fleet.sorts(true);
            let word =
                all.into_iter().find(|(_, by)| *by == sort.by).map(|(word, _)| word).unwrap_or_default();
            let order = if sort.reverse { ", reversed" } else { "" };
            if fleet.shows_faults_only() {
                spans.push(paint.span(Scope::Match, "faults only"));
                spans.push(Span::raw("  "));
            }
            spans.push(paint.span(Scope::Muted, format!("by {word}{order} ")));
        }
        Screen::Tree(tree) => {
            if tree.shows_faults_only() {
                spans.push(paint.span(Scope::Match, "faults only  "));
            }
            if let Some(word) = tree.order_word() {
                spans.push(paint.span(Scope::Muted, format!("by {word} ")));
            }
        }
        Screen::Rollout(_)
        | Screen::Rollouts(_)
        | Screen::Since(_)
        | Screen::Objects(_)
        | Screen::Etcd(_)
        | Screen::Locks(_)
        | Screen::Migration(_)
        | Screen::Logs(_)
        | Screen::Change(_)
        | Screen::Simulation(_) => {}
        Screen::Details(details) => spans.extend(details.tabs(paint)),
    }
    spans
}
