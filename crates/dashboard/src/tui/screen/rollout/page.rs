//! A rollout as lines: how far each owner is, what acts, what comes next, what holds it, its Machines by name, the log.
//! Must not know what is selected or scrolled.

use ratatui::text::{Line, Span};

use super::chart;
use super::hold::Hold;
use super::outlook::{Acting, RolloutOutlook};
use super::sources::Sources;
use super::words;
use crate::fleet::{
    FinishedRollout, Fleet, Kind, MachinePhase, OwnerRollout, OwnerStage, RollingMachine, Rollout, RowId,
    TimelineEntry, Uid, moment, short_name,
};
use crate::tui::keymap::{Keymap, Mode};
use crate::tui::paint::Paint;
use crate::tui::plans::Plans;
use crate::tui::theme::Scope;
use capstan_base::text;
use capstan_base::text::counted;
use capstan_base::time::Timestamp;

/// Behind `NOW`, `NEXT`, `HELD`.
const INDENT: usize = 8;
/// What acts, and what holds, one line each; the rest is counted.
const ACTING_MAX: usize = 4;
const HELD_MAX: usize = 4;
/// Owners with nothing to replace are left out from so many on.
const SETTLED_MAX: usize = 4;
const OWNER_WIDTH_MAX: usize = 24;
/// From so many cells on ranges and zeros have room.
const WIDE_FROM: usize = 100;
/// From so many cells on the first line has room for the moment of the begin.
const CLOCK_FROM: usize = 70;
/// Lines of the log that are shown below the rest, whatever the height.
const LOG_MIN: usize = 4;

/// Who wrote a spec at most so long before or after a rollout began, began it, seconds.
const AUTHOR_NEAR_S: i64 = 120;
const AUTHOR_WIDTH: usize = 24;

/// What a line belongs to: the same in later pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineKey {
    section: Section,
    uid: Option<Uid>,
    /// Among the lines of the section that belong to the same object.
    at: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section {
    Head,
    Owner,
    Chart,
    Now,
    Next,
    Held,
    Machines,
    Assumed,
    Log,
}

/// One line, and the object it is about.
pub(super) struct PageLine {
    pub key: LineKey,
    pub item: Option<RowId>,
    pub line: Line<'static>,
}

/// What a page is made from.
#[derive(Clone, Copy)]
pub(super) struct PageInput<'a> {
    pub fleet: &'a Fleet,
    pub plans: &'a Plans,
    pub rollout: &'a Rollout,
    pub outlook: &'a RolloutOutlook,
    pub log: &'a [TimelineEntry],
    pub keymap: &'a Keymap,
    /// No command that changes something is offered.
    pub is_read_only: bool,
    /// The log has a place of its own.
    pub has_log_pane: bool,
}

pub(super) fn page(
    input: PageInput<'_>,
    paint: &Paint<'_>,
    (width, height): (usize, usize),
) -> Vec<PageLine> {
    let sources = Sources { fleet: input.fleet, rollout: input.rollout, plans: input.plans };
    let mut page = Page { input, sources, paint, width, lines: Vec::new() };
    page.head();
    page.owners();
    if input.rollout.is_under_way() {
        page.blank();
        page.now();
        page.next();
        page.held();
    } else if input.rollout.moving().next().is_some() {
        page.blank();
        page.scheduled();
    }
    if input.rollout.is_under_way() || input.rollout.is_news() {
        page.blank();
        page.machines();
    }
    let before = page.lines.len();
    // Made before the log, which has the room that they leave, and shown below it.
    page.assumed();
    let assumed = page.lines.split_off(before);
    let left = height.saturating_sub(before + assumed.len());
    let chart = chart::lines(input.fleet, input.rollout, paint, (width, left));
    chart.into_iter().for_each(|line| page.push(Section::Chart, None, line.spans));
    let before = page.lines.len();
    if !input.has_log_pane && !input.log.is_empty() {
        page.blank();
        page.log(height.saturating_sub(before + assumed.len() + 2).max(LOG_MIN));
    }
    page.lines.extend(assumed);
    page.lines
}

/// One line of the log: when, what, and what happened to it.
pub(super) fn log_line(entry: &TimelineEntry, cluster: &str, paint: &Paint<'_>) -> Line<'static> {
    let name = entry.name.strip_prefix(cluster).and_then(|n| n.strip_prefix('-')).unwrap_or(&entry.name);
    Line::from(vec![
        paint.span(Scope::Muted, format!("{}  ", words::time_of_day(entry.at_s, paint.now))),
        paint.span(Scope::Strong, name.to_owned()),
        paint.span(Scope::Text, format!(" {}", words::happened(entry))),
    ])
}

struct Page<'a, 'p, 't> {
    input: PageInput<'a>,
    sources: Sources<'a>,
    paint: &'p Paint<'t>,
    width: usize,
    lines: Vec<PageLine>,
}

impl Page<'_, '_, '_> {
    fn push(&mut self, section: Section, item: Option<RowId>, spans: Vec<Span<'static>>) {
        let uid = item.and_then(|id| self.sources.row(id)).map(|row| row.uid);
        let same = |line: &&PageLine| line.key.section == section && line.key.uid == uid;
        let at = self.lines.iter().filter(same).count();
        let key = LineKey { section, uid, at };
        self.lines.push(PageLine { key, item, line: Line::from(spans) });
    }

    fn blank(&mut self) {
        self.push(Section::Head, None, Vec::new());
    }

    /// A label, and text wrapped beside it.
    fn paragraph(&mut self, section: Section, item: Option<RowId>, label: &str, scope: Scope, words: &str) {
        let room = self.width.saturating_sub(INDENT).max(12);
        for (at, part) in text::wrap(words, room).into_iter().enumerate() {
            let lead = if at == 0 { label } else { "" };
            let label = self.paint.span(Scope::Column, format!("{lead:<INDENT$}"));
            let text = self.paint.span(scope, part);
            self.push(section, item, vec![label, text]);
        }
    }

    fn head(&mut self) {
        let rollout = self.input.rollout;
        let cluster = Some(rollout.cluster);
        let words = match rollout.finished() {
            _ if rollout.is_under_way() => self.standing(),
            Some(finished) => vec![self.paint.span(Scope::Ok, finished_words(&finished, self.paint))],
            None if rollout.moving().next().is_some() => {
                vec![self.paint.span(Scope::Text, "nothing rolls now")]
            }
            None => vec![self.paint.span(Scope::Text, words::resting(rollout))],
        };
        self.push(Section::Head, cluster, words);
    }

    /// Versions, since when, until when; by whom only where that leaves the others whole.
    fn standing(&self) -> Vec<Span<'static>> {
        let rollout = self.input.rollout;
        let (versions, end) = (versions(rollout), self.end());
        let mut spans = vec![self.paint.span(Scope::Strong, versions.clone())];
        if let Some(began) = rollout.began_s() {
            let ago = moment(began).map(|at| self.paint.age(at)).unwrap_or_default();
            let at = words::time_of_day(began, self.paint.now);
            let is_tiny = self.width < CLOCK_FROM;
            let mut words = if is_tiny { format!("  {ago}") } else { format!("   began {at}, {ago} ago") };
            let by_whom = self.by_whom(began);
            let wanted = [&versions, &words, &by_whom, &end].map(|part| text::width(part));
            if !is_tiny && wanted.iter().sum::<usize>() + 3 <= self.width {
                words.push_str(&by_whom);
            }
            spans.push(self.paint.span(Scope::Text, words));
        }
        spans.push(self.paint.span(Scope::Strong, end));
        spans
    }

    fn end(&self) -> String {
        match self.input.outlook.arrival {
            Some(arrival) if self.width < CLOCK_FROM => {
                format!("  {}", words::arrival(arrival, self.paint.now))
            }
            Some(arrival) => format!("   ready {} UTC", words::arrival(arrival, self.paint.now)),
            None if !self.input.outlook.held.is_empty() => "   held: no time of arrival".to_owned(),
            None => "   no estimate yet".to_owned(),
        }
    }

    /// Who wrote the spec shortly before it began, where the server kept that: the Cluster before its parts, whose topology is
    /// carried out by a controller.
    fn by_whom(&self, began_s: u32) -> String {
        let rollout = self.input.rollout;
        let owners = rollout.owners.iter().filter(|owner| owner.stage.is_under_way()).map(|owner| owner.id);
        let mut rows = std::iter::once(rollout.cluster).chain(owners).filter_map(|id| self.sources.row(id));
        let is_near = |at: Timestamp| (i64::from(began_s) - at.timestamp()).abs() <= AUTHOR_NEAR_S;
        let author = rows.find_map(|row| self.input.plans.author_of(row).filter(|a| is_near(a.at)));
        author
            .map(|author| format!(", by {}", self.paint.cut(&author.manager, AUTHOR_WIDTH)))
            .unwrap_or_default()
    }

    fn owners(&mut self) {
        let rollout = self.input.rollout;
        let settled = |owner: &OwnerRollout| !owner.stage.is_rollout();
        let few = rollout.owners.iter().filter(|owner| settled(owner)).count() <= SETTLED_MAX;
        let shown: Vec<usize> =
            (0..rollout.owners.len()).filter(|at| few || !settled(&rollout.owners[*at])).collect();
        let name_width = shown
            .iter()
            .map(|at| text::width(self.sources.owner_name(&rollout.owners[*at])))
            .max()
            .unwrap_or(0)
            .min(if self.is_wide() { OWNER_WIDTH_MAX } else { OWNER_WIDTH_MAX / 3 * 2 });
        for at in &shown {
            let spans = self.owner(*at, name_width);
            self.push(Section::Owner, Some(rollout.owners[*at].id), spans);
        }
        let hidden = rollout.owners.len() - shown.len();
        if hidden > 0 {
            let words = format!("and {hidden} more with nothing to replace");
            self.push(Section::Owner, None, vec![self.paint.span(Scope::Muted, words)]);
        }
    }

    fn owner(&self, at: usize, name_width: usize) -> Vec<Span<'static>> {
        let owner = &self.input.rollout.owners[at];
        let name = self.paint.cut_name(self.sources.owner_name(owner), name_width);
        let cells = if self.is_wide() { 18 } else { 9 };
        let scope = if owner.stage.is_under_way() { Scope::Progressing } else { Scope::Ok };
        let mut spans = vec![self.paint.span(Scope::Strong, format!("{name:<name_width$}  "))];
        spans.extend(bar(owner.done, owner.want, cells, scope, self.paint));
        spans.push(self.paint.span(Scope::Text, format!("  {} of {}", owner.done, owner.want)));
        let used: usize = spans.iter().map(Span::width).sum();
        let words = self.paint.cut(&self.owner_words(at), self.width.saturating_sub(used + 3));
        spans.push(self.paint.span(Scope::Muted, format!("   {words}")));
        spans
    }

    fn owner_words(&self, at: usize) -> String {
        let owner = &self.input.rollout.owners[at];
        match &owner.stage {
            OwnerStage::Settled => format!("nothing to replace{}", version_word(owner)),
            OwnerStage::Deleting => "is being deleted".to_owned(),
            OwnerStage::Unread if self.is_pool(owner.id) => "by its own count".to_owned(),
            OwnerStage::Unread => "its Machines were not read: by its own count".to_owned(),
            OwnerStage::Paused => "paused".to_owned(),
            OwnerStage::OnDelete => format!("{} old, each until it is deleted", owner.old().count()),
            OwnerStage::Scheduled { at_s, older } => {
                let words = scheduled_words(*at_s, *older, self.paint);
                match self.key_of("rollout clear").filter(|_| self.is_wide()) {
                    Some(key) => format!("{words}   {key} clears"),
                    None => words,
                }
            }
            OwnerStage::FollowsTopology => "follows the topology's order".to_owned(),
            OwnerStage::Waiting { check, .. } if self.sources.waits_its_turn(owner) => {
                let check = check.as_ref().filter(|_| self.is_wide());
                let check = check.map(|check| format!(" ({check})")).unwrap_or_default();
                format!("waits for the control plane{check}")
            }
            OwnerStage::Waiting { .. } => "held".to_owned(),
            OwnerStage::Rolling => self.rolling_words(at),
        }
    }

    fn is_pool(&self, id: RowId) -> bool {
        self.sources.row(id).is_some_and(|row| row.kind == Kind::MachinePool)
    }

    /// The key of a command that changes something; none where nothing can be changed.
    fn key_of(&self, line: &str) -> Option<String> {
        if self.input.is_read_only {
            return None;
        }
        self.input.keymap.keys_for(Mode::Rollout, line).into_iter().next()
    }

    fn rolling_words(&self, at: usize) -> String {
        let owner = &self.input.rollout.owners[at];
        let mut parts = Vec::new();
        for (word, count) in [("surging", owner.surging()), ("deleting", owner.deleting())] {
            if count > 0 || self.is_wide() {
                parts.push(format!("{word} {count}"));
            }
        }
        if let Some(up) = owner.up {
            let has_range = up.count > 1 && self.is_wide();
            let range =
                if has_range { format!(" ({})", words::range(up.low_s, up.high_s)) } else { String::new() };
            parts.push(format!("up in {}{range}", words::duration(up.median_s)));
        }
        let several = self.input.rollout.owners.iter().filter(|owner| owner.stage.is_under_way()).count() > 1;
        if let Some(arrival) = self.input.outlook.arrivals.get(at).copied().flatten().filter(|_| several) {
            parts.push(words::arrival(arrival, self.paint.now));
        }
        parts.join("  ")
    }

    fn is_wide(&self) -> bool {
        self.width >= WIDE_FROM
    }

    fn now(&mut self) {
        let acting = &self.input.outlook.acting;
        if acting.is_empty() {
            let words = self.nothing_acts();
            self.paragraph(Section::Now, None, "NOW", Scope::Text, &words);
        }
        for (at, one) in acting.iter().take(ACTING_MAX).enumerate() {
            let (words, scope) = acting_words(self.input.fleet, one, self.paint);
            self.paragraph(Section::Now, Some(one.id), if at == 0 { "NOW" } else { "" }, scope, &words);
        }
        let more = acting.len().saturating_sub(ACTING_MAX);
        if more > 0 {
            self.paragraph(Section::Now, None, "", Scope::Muted, &format!("and {more} more Machines"));
        }
    }

    /// No Machine moves: by the plan something is due or awaited, or nothing happens until something changes.
    fn nothing_acts(&self) -> String {
        if !self.input.outlook.held.is_empty() {
            return "nothing moves".to_owned();
        }
        let owners = self.input.rollout.owners.iter().filter(|owner| owner.stage == OwnerStage::Rolling);
        let names: Vec<&str> = owners.map(|owner| self.sources.owner_name(owner)).collect();
        if names.is_empty() {
            return "nothing moves".to_owned();
        }
        format!("no Machine moves; the next step of {} is due", names.join(", "))
    }

    fn next(&mut self) {
        let next = &self.input.outlook.next;
        if next.is_empty() {
            let is_held = !self.input.outlook.held.is_empty();
            let words = if is_held { "nothing while it is held" } else { "nothing after that" };
            self.paragraph(Section::Next, None, "NEXT", Scope::Muted, words);
        }
        for (at, words) in next.iter().enumerate() {
            let label = if at == 0 { "NEXT" } else { "" };
            let words = if next.len() > 1 { format!("{} {words}", at + 1) } else { words.clone() };
            self.paragraph(Section::Next, None, label, Scope::Text, &words);
        }
    }

    /// Nothing rolls yet: what will happen when it does, and until when.
    fn scheduled(&mut self) {
        if self.input.outlook.next.is_empty() {
            return;
        }
        self.next();
        if let Some(arrival) = self.input.outlook.arrival {
            let words = format!("through {} UTC", words::arrival(arrival, self.paint.now));
            self.paragraph(Section::Next, None, "", Scope::Strong, &words);
        }
    }

    fn held(&mut self) {
        let held = &self.input.outlook.held;
        if held.is_empty() {
            self.paragraph(Section::Held, None, "HELD", Scope::Muted, "nothing");
        }
        for (at, hold) in held.iter().take(HELD_MAX).enumerate() {
            self.hold(if at == 0 { "HELD" } else { "" }, hold);
        }
        let more = held.len().saturating_sub(HELD_MAX);
        if more > 0 {
            self.paragraph(Section::Held, None, "", Scope::Muted, &format!("and {more} more"));
        }
    }

    fn hold(&mut self, label: &str, hold: &Hold) {
        let since = hold.since_s.and_then(moment).map(|at| format!(", for {}", self.paint.age(at)));
        let words = format!("{} ({}{})", hold.sentence, hold.rule, since.unwrap_or_default());
        self.paragraph(Section::Held, Some(hold.of), label, Scope::Blocked, &words);
        for evidence in hold.evidence.iter().take(2) {
            self.paragraph(Section::Held, Some(hold.of), "", Scope::Muted, &format!("  {evidence}"));
        }
        let Some((line, what)) = hold.help.filter(|_| !self.input.is_read_only) else { return };
        let key = self.input.keymap.keys_for(Mode::Rollout, line).into_iter().next();
        let command = line.trim_start_matches("prompt ");
        let key = key.unwrap_or_else(|| format!(":{command}"));
        self.paragraph(Section::Held, Some(hold.of), "", Scope::Key, &format!("  {key} on this line {what}"));
    }

    fn machines(&mut self) {
        let rollout = self.input.rollout;
        let owners: Vec<&OwnerRollout> = match rollout.is_under_way() {
            true => rollout.owners.iter().filter(|owner| owner.stage.is_under_way()).collect(),
            false => rollout.finished_owners().collect(),
        };
        for owner in owners {
            let going = |m: &&RollingMachine| matches!(m.phase, MachinePhase::Deleting { .. });
            let new: Vec<&RollingMachine> =
                owner.machines.iter().filter(|m| !m.is_old && !going(m)).collect();
            let old: Vec<&RollingMachine> = owner.machines.iter().filter(|m| m.is_old && !going(m)).collect();
            let gone: Vec<&RollingMachine> = owner.machines.iter().filter(going).collect();
            for (word, scope, machines) in
                [("going", Scope::Progressing, gone), ("old", Scope::Muted, old), ("new", Scope::Ok, new)]
            {
                self.machine_line(owner, word, scope, machines);
            }
        }
    }

    /// As many names as have room, those that move first; the rest is counted.
    fn machine_line(
        &mut self,
        owner: &OwnerRollout,
        word: &str,
        scope: Scope,
        mut machines: Vec<&RollingMachine>,
    ) {
        if machines.is_empty() {
            return;
        }
        machines.sort_by_key(|m| !m.phase.is_moving());
        let head = format!("{word:<INDENT$}{}: ", self.sources.owner_name(owner));
        // Eight cells stay for the count of those that have no room.
        let mut used = text::width(&head) + 8;
        let mut spans = vec![self.paint.span(Scope::Column, head)];
        let mut left = machines.len();
        let finished_s = owner.finished.as_ref().and_then(|finished| finished.began_s).unwrap_or(0);
        let began_s = owner.began_s.max(finished_s);
        for machine in &machines {
            let name = short_name(self.sources.name(machine.id), self.sources.name(owner.id));
            let words = self.machine_words(machine, began_s);
            used += text::width(name) + text::width(&words) + 3;
            if used > self.width && left < machines.len() {
                break;
            }
            left -= 1;
            spans.push(self.paint.span(scope, name.to_owned()));
            spans.push(self.paint.span(Scope::Muted, format!(" {words}  ")));
        }
        if left > 0 {
            spans.push(self.paint.span(Scope::Muted, format!("+{left}")));
        }
        let first = machines.first().map(|m| m.id);
        self.push(Section::Machines, first, spans);
    }

    /// A Machine that is older than its rollout was updated in place: the time that it took to come up is not shown.
    fn machine_words(&self, machine: &RollingMachine, began_s: u32) -> String {
        let word = words::phase_word(&machine.phase);
        let up_s = machine.up_s().filter(|s| *s > 0 && machine.created_s.saturating_add(2) >= began_s);
        match (&machine.phase, up_s) {
            (MachinePhase::Ok, Some(up_s)) => format!("{word} in {}", words::duration(up_s)),
            (MachinePhase::Waiting | MachinePhase::Ok, _) => word.to_owned(),
            _ => match moment(machine.since_s) {
                Some(at) => format!("{word} {}", self.paint.age(at)),
                None => word.to_owned(),
            },
        }
    }

    fn assumed(&mut self) {
        for (at, words) in self.input.outlook.assumed.iter().enumerate() {
            if at == 0 {
                self.blank();
            }
            self.paragraph(Section::Assumed, None, if at == 0 { "ASSUMED" } else { "" }, Scope::Muted, words);
        }
    }

    fn log(&mut self, room: usize) {
        let cluster = self.sources.name(self.input.rollout.cluster).to_owned();
        self.push(Section::Log, None, vec![self.paint.span(Scope::Column, "LOG (UTC)")]);
        for entry in self.input.log.iter().take(room) {
            let line = log_line(entry, &cluster, self.paint);
            self.push(Section::Log, None, line.spans);
        }
    }
}

/// A Machine that something happens to: its name, what, since when, what is usual.
pub(in crate::tui::screen) fn acting_words(
    fleet: &Fleet,
    one: &Acting,
    paint: &Paint<'_>,
) -> (String, Scope) {
    let name = |id: RowId| fleet.row(id).map_or("", |row| row.name.as_ref());
    let is_control_plane = fleet.row(one.owner).is_some_and(|row| row.kind == Kind::ControlPlane);
    let short = short_name(name(one.id), name(one.owner));
    let phase = words::phase(&one.phase, one.is_old, is_control_plane);
    let since = moment(one.since_s).map(|at| format!(" {}", paint.age(at))).unwrap_or_default();
    let usual =
        one.usual_s.map(|(low, high)| format!(" (usual {})", words::range(low, high))).unwrap_or_default();
    let slow = if one.is_slow { ", slower than usual" } else { "" };
    let scope = if one.is_slow { Scope::Degraded } else { Scope::Progressing };
    (format!("{short} {phase}{since}{usual}{slow}"), scope)
}

/// `scheduled 22:00 UTC, in 7h55m: 3 older`.
pub(in crate::tui::screen) fn scheduled_words(at_s: u32, older: u32, paint: &Paint<'_>) -> String {
    let left = moment(at_s).map(|at| paint.until(at)).unwrap_or_default();
    let at = words::minute_of_day(at_s, paint.now);
    format!("scheduled {at} UTC, in {left}: {older} older")
}

/// `finished 14:09:31 UTC in 7m51s, 7 Machines, slowest 64fsp 1m31s`.
fn finished_words(finished: &FinishedRollout, paint: &Paint<'_>) -> String {
    let at = words::time_of_day(finished.ended_s, paint.now);
    format!("finished {at} UTC{}", took_words(finished))
}

/// ` in 7m51s, 7 Machines, slowest 64fsp 1m31s`, as far as it is known.
pub(in crate::tui::screen) fn took_words(finished: &FinishedRollout) -> String {
    let about = if finished.began_is_guessed { "about " } else { "" };
    let took = finished
        .began_s
        .map(|began| format!(" in {about}{}", words::duration(finished.ended_s.saturating_sub(began))));
    let machines = match finished.machines {
        0 => String::new(),
        n => format!(", {}", counted(n, "Machine")),
    };
    let slowest = finished.slowest.as_ref().map(|(name, took_s)| {
        let name = name.rsplit('-').next().unwrap_or(name);
        format!(", slowest {name} {}", words::duration(*took_s))
    });
    format!("{}{machines}{}", took.unwrap_or_default(), slowest.unwrap_or_default())
}

/// From which versions to which: of what is under way.
pub(in crate::tui::screen) fn versions(rollout: &Rollout) -> String {
    let under_way = || rollout.owners.iter().filter(|owner| owner.stage.is_under_way());
    let mut from: Vec<&str> = under_way().flat_map(|owner| &owner.old_versions).map(AsRef::as_ref).collect();
    let mut to: Vec<&str> =
        under_way().map(|owner| owner.version.as_ref()).filter(|v| !v.is_empty()).collect();
    for versions in [&mut from, &mut to] {
        versions.sort_unstable();
        versions.dedup();
    }
    // One owner may come from the version that another one goes to.
    from.retain(|version| !to.contains(version));
    match (from.is_empty(), to.is_empty()) {
        (true, true) => "rolling".to_owned(),
        (true, false) => format!("at {}", to.join(", ")),
        (false, _) => format!("{} to {}", from.join(", "), to.join(", ")),
    }
}

fn version_word(owner: &OwnerRollout) -> String {
    if owner.version.is_empty() { String::new() } else { format!(" at {}", owner.version) }
}

/// A bar of `cells` cells; full only when all is done.
pub(in crate::tui::screen) fn bar(
    done: u32,
    want: u32,
    cells: usize,
    scope: Scope,
    paint: &Paint<'_>,
) -> [Span<'static>; 2] {
    let (done, want) = (done as usize, want as usize);
    let full = match want {
        0 => cells,
        _ if done >= want => cells,
        // The first one that is done shows, however many there are.
        _ => (done * cells / want).clamp(usize::from(done > 0), cells - 1),
    };
    let (filled, left) = (paint.glyphs().bar_done.repeat(full), paint.glyphs().bar_left.repeat(cells - full));
    [paint.span(scope, filled), paint.span(Scope::Muted, left)]
}
