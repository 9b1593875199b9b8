//! Everything the program knows and shows. Owns no terminal, no task: `update` changes it, `view`
//! draws it, and both work the same in a test.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ratatui::layout::Rect;

use super::cursor::Motion;
use super::effect::Effect;
use super::keeping::Keeping;
use super::keymap::{KeyPress, Mode};
pub use super::look::Look;
use super::msg::LoginNews;
use super::outside::OpenDraft;
use super::overlay::Overlay;
use super::overlay::preview::PreviewBox;
use super::plans::Plans;
use super::reads::Reads;
use super::replay::Replay;
use super::rights::Rights;
use super::screen::fleet::FleetScreen;
pub use super::screen::header::Session;
use super::screen::wallboard::Wallboard;
use super::screen::{Context, Screen};
use super::turns::{self, Turns};
use crate::actions::Order;
use crate::fleet::{Changes, Fleet, Item, Names, RowId, RunPart, SourceId};
use capstan_base::time::Timestamp;

/// Rows keep their places for so long after a key or a click, seconds.
const HELD_S: i64 = 3;

/// Whoever was not at the keys for so long was away, seconds.
const AWAY_S: i64 = 3_600;

/// That somebody is at the keys is noted for the next run so often, where it is not noted at the end: seconds.
const NOTED_EVERY_S: i64 = 600;

/// Of what a program says that logs somebody in, the last lines are shown.
const LOGIN_LINES_MAX: usize = 20;

/// So many screens are kept to go back to.
const SCREENS_MAX: usize = 32;

/// A line that stands in for the key hints until the next key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toast {
    pub tone: Tone,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Info,
    Warning,
    Error,
}

/// A command that is run whenever a cluster turns.
pub struct Hook {
    pub command: String,
    pub turns: Turns,
}

/// What was read besides the fleet, and what is being read.
#[derive(Default)]
pub struct Known {
    pub plans: Plans,
    pub rights: Rights,
    pub reads: Reads,
    /// All names, while somebody looks for an object.
    pub names: Option<Names>,
}

/// What a person switched on or off.
#[derive(Default)]
pub struct Preferences {
    pub mouse: bool,
    /// Addresses on the screen are links.
    pub links: bool,
    /// Lists over the fleet show only this namespace.
    pub namespace: Option<Arc<str>>,
    /// Lists have upstream's wide columns too.
    pub wide: bool,
    /// Rings when a cluster comes to be at fault, where that was asked for.
    pub bell: Option<Turns>,
    /// A command of the person's own that is run whenever a cluster turns.
    pub hook: Option<Hook>,
}

impl Preferences {
    /// What is at fault when it is listed is not news.
    fn begin_again(&mut self) {
        self.namespace = None;
        self.bell = self.bell.take().map(|_| Turns::default());
        if let Some(hook) = &mut self.hook {
            hook.turns = Turns::default();
        }
    }
}

#[derive(Default)]
pub struct Typing {
    /// Keys of a chord that has begun.
    pub pending: Vec<KeyPress>,
    /// Command lines that were run, oldest first.
    pub history: Vec<String>,
    /// When somebody was at the keys last.
    pub touched_at: Option<Timestamp>,
    /// When that was noted for the next run last.
    noted_at: Option<Timestamp>,
}

/// A program that logs somebody in, as long as it runs.
pub struct RunningLogin {
    program: String,
    limit_s: u64,
    lines: Vec<String>,
}

pub struct Model {
    pub fleet: Fleet,
    pub known: Known,
    pub session: Session,
    /// Of the kubeconfig; empty where there is none behind this.
    pub contexts: Vec<String>,
    pub look: Look,
    pub preferences: Preferences,
    /// From the first to the open one; the first is the fleet and stays.
    pub screens: Vec<Screen>,
    /// The last one gets keys first.
    pub overlays: Vec<Overlay>,
    pub toast: Option<Toast>,
    pub login: Option<RunningLogin>,
    pub typing: Typing,
    pub area: Rect,
    pub now: Timestamp,
    /// What is drawn is no longer what there is to show.
    pub needs_frame: bool,
    pub keeping: Keeping,
    /// The one that was named, where one was.
    pub kubeconfig: Option<PathBuf>,
    /// The text of an object that a person has not done with.
    pub draft: Option<OpenDraft>,
    /// A recording that is shown in place of a server.
    pub replay: Option<Replay>,
    /// What is shown in place of the screens.
    pub wallboard: Option<Wallboard>,
    /// Of the last preview that was asked for.
    ticket: u64,
}

impl Model {
    pub fn new(session: Session, look: Look, area: Rect, now: Timestamp) -> Self {
        Self {
            fleet: Fleet::explained_by(look.explanations.clone(), look.consoles.clone()),
            known: Known::default(),
            session,
            contexts: Vec::new(),
            look,
            preferences: Preferences::default(),
            screens: vec![Screen::Fleet(FleetScreen::default())],
            overlays: Vec::new(),
            toast: None,
            login: None,
            typing: Typing::default(),
            area,
            now,
            needs_frame: true,
            keeping: Keeping::default(),
            kubeconfig: None,
            draft: None,
            replay: None,
            wallboard: None,
            ticket: 0,
        }
    }

    /// The number of the preview that is asked for next: a late answer to another one belongs to no open dialog.
    pub fn next_ticket(&mut self) -> u64 {
        self.ticket += 1;
        self.ticket
    }

    /// The number of the preview that was asked for last.
    pub fn last_ticket(&self) -> u64 {
        self.ticket
    }

    /// Opens the preview of an order: what the server has to be asked for it.
    pub fn open_preview(&mut self, source: SourceId, order: Order) -> Effect {
        let open = PreviewBox::new(self.next_ticket(), source, order, self.session.confirm_after_s);
        let question = open.question();
        self.overlays.push(Overlay::Preview(Box::new(open)));
        question
    }

    /// Takes in what an earlier run left in a folder, and leaves there what this one learns.
    pub fn keep_in(&mut self, folder: Option<&Path>) {
        let now_s = u32::try_from(self.now.timestamp()).unwrap_or(0);
        let history = self.session.history.as_deref();
        let (keeping, troubles) = Keeping::open(folder, history, &mut self.fleet, now_s);
        self.keeping = keeping;
        if !troubles.is_empty() {
            self.notice("A file could not be used", troubles.join("\n\n"));
        }
    }

    /// Writes what this run learnt and did not write yet, at its end.
    pub fn keep_last(&mut self) {
        if let Some(touched_at) = self.typing.touched_at {
            self.fleet.mark_run(RunPart::Looked, touched_at);
        }
        self.fleet.mark_run(RunPart::Ended, self.now);
        self.keeping.collect(&mut self.fleet, true);
        // The person leaves, and does not need to read that something could not be kept.
        let written = [self.keeping.waiting().write(), self.keeping.save_folds()];
        for why in written.into_iter().filter_map(Result::err) {
            tracing::warn!(%why, "what was learnt is not kept");
        }
    }

    /// Another server is looked at: nothing that is known holds any more. How it looks stays, and what is kept is kept.
    pub fn begin_again(&mut self, session: Session) {
        // Before the fleet goes: what was learnt of the server before is kept.
        self.keep_last();
        let folder = self.keeping.folder().map(Path::to_path_buf);
        self.fleet = Fleet::explained_by(self.look.explanations.clone(), self.look.consoles.clone());
        self.known = Known::default();
        self.session = session;
        self.screens = vec![Screen::Fleet(FleetScreen::default())];
        self.overlays.clear();
        self.draft = None;
        self.typing.pending.clear();
        self.preferences.begin_again();
        self.keep_in(folder.as_deref());
        self.needs_frame = true;
    }

    /// Somebody is at the keys. After a while without anybody, what happened since they were there is news.
    pub fn touch(&mut self) {
        let before = self.typing.touched_at.replace(self.now);
        if let Some(before) = before.filter(|before| (self.now - *before).num_seconds() >= AWAY_S) {
            self.fleet.looked_last(u32::try_from(before.timestamp()).unwrap_or(0));
        }
        let is_noted = |at: Timestamp| (self.now - at).num_seconds() < NOTED_EVERY_S;
        if !self.typing.noted_at.is_some_and(is_noted) {
            self.typing.noted_at = Some(self.now);
            self.fleet.mark_run(RunPart::Looked, self.now);
        }
    }

    /// What is to be written to the state folder now.
    pub fn keep(&mut self) -> Option<Effect> {
        self.keeping.collect(&mut self.fleet, false).then(|| Effect::Keep(self.keeping.waiting()))
    }

    pub fn screen(&self) -> &Screen {
        // `screens` is never empty: only `close_screen` takes one, and it leaves the first.
        &self.screens[self.screens.len() - 1]
    }

    pub fn screen_mut(&mut self) -> &mut Screen {
        let last = self.screens.len() - 1;
        &mut self.screens[last]
    }

    /// Brings the open screen's order, tree and cursor up to the fleet. Cheap when nothing changed.
    pub fn refresh(&mut self) {
        self.read_recorded();
        self.on_screen(|screen, context| screen.refresh(context));
    }

    /// Does something with the open screen that takes what there is to show.
    pub fn on_screen<T>(&mut self, act: impl FnOnce(&mut Screen, &Context<'_>) -> T) -> T {
        let context = Context {
            fleet: &self.fleet,
            plans: &self.known.plans,
            area: self.area,
            now: self.now,
            theme: &self.look.theme,
            keymap: &self.look.keymap,
            is_read_only: self.session.read_only,
            namespace: self.preferences.namespace.as_ref(),
            wide: self.preferences.wide,
            is_held: self.held_s().is_some(),
        };
        let last = self.screens.len() - 1;
        act(&mut self.screens[last], &context)
    }

    /// A person changed where rows belong in lists.
    pub fn resort(&mut self) {
        for screen in &mut self.screens {
            if let Screen::Fleet(list) = screen {
                list.resort();
            }
        }
        self.needs_frame = true;
    }

    pub fn note(&mut self, changes: &Changes) {
        if !changes.is_empty() {
            self.screens.iter_mut().for_each(|screen| screen.note(&self.fleet, changes));
            self.known.plans.note(&self.fleet, changes);
            let is_seen = !self.overlays.is_empty() || self.screen().shows(&self.fleet, changes, self.area);
            self.needs_frame |= is_seen || changes.is_replaced;
        }
    }

    /// A verdict may have turned: rings and says so on the last line when a cluster came to be at fault, and runs the
    /// person's command.
    pub fn tell_turns(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        let alarm = self.preferences.bell.as_mut().and_then(|bell| turns::alarm(&bell.look(&self.fleet)));
        if let Some(words) = alarm {
            self.say(Tone::Warning, words);
            self.needs_frame = true;
            effects.push(Effect::Bell);
        }
        if let Some(hook) = &mut self.preferences.hook {
            let turned = hook.turns.look(&self.fleet).into_iter();
            effects.extend(turned.map(|turn| Effect::Hook { command: hook.command.clone(), turn }));
        }
        effects
    }

    /// For so many seconds more rows keep their places, because somebody was at the keys; `None`: they move.
    fn held_s(&self) -> Option<i64> {
        let passed_s = (self.now - self.typing.touched_at?).num_seconds();
        Some(HELD_S - passed_s).filter(|left_s| *left_s > 0)
    }

    /// Time passed: rows that waited for a person may take their places now.
    pub fn tick(&mut self) {
        self.needs_frame |= self.screen().is_waiting(self.fleet.now_s()) && self.held_s().is_none();
    }

    /// Seconds until something changes by itself: a verdict that is due, or rows that wait for a person; `None`: nothing
    /// does.
    pub fn wakes_in_s(&self) -> Option<i64> {
        if let Some(replay) = &self.replay {
            // Its time stands still but while it plays, whatever would be due.
            return replay.is_playing().then_some(1);
        }
        let from_now = |at_s: u32| i64::from(at_s) - self.now.timestamp();
        let rows_s = self.held_s().filter(|_| self.screen().is_waiting(self.fleet.now_s()));
        // While somebody is at the keys no row moves, so that waking earlier would show nothing
        // new.
        let kept_s = self.screen().kept_until_s().map(from_now).map(|s| s.max(self.held_s().unwrap_or(0)));
        let history_s = self.keeping.due_s(&self.fleet).map(from_now);
        [self.fleet.next_due_s().map(from_now), rows_s, kept_s, history_s].into_iter().flatten().min()
    }

    pub fn mode(&self) -> Mode {
        if self.overlays.is_empty() { self.screen_mode() } else { Mode::Dialog }
    }

    /// Which bindings hold on the open screen while no dialog is over it.
    pub fn screen_mode(&self) -> Mode {
        match self.screen() {
            Screen::Fleet(list) if list.opens_trees() => Mode::Fleet,
            Screen::Fleet(_) | Screen::Objects(_) => Mode::List,
            Screen::Tree(_) => Mode::Tree,
            Screen::Details(_) => Mode::Details,
            Screen::Rollout(_) => Mode::Rollout,
            Screen::Rollouts(_) => Mode::Rollouts,
            Screen::Since(_) => Mode::Fleet,
            Screen::Etcd(_) => Mode::Etcd,
            Screen::Locks(_) => Mode::Leases,
            Screen::Migration(_) => Mode::LeaderMigration,
            Screen::Logs(_) => Mode::Global,
            Screen::Change(_) => Mode::Change,
            Screen::Simulation(_) => Mode::Simulation,
        }
    }

    /// What the words of the filter line narrow: help, where it is under that line, else the open screen.
    pub fn set_filter(&mut self, words: &str) {
        let help = self.overlays.iter_mut().rev().find_map(|overlay| match overlay {
            Overlay::Help(help) => Some(help),
            _ => None,
        });
        match help {
            Some(help) => help.set_filter(words),
            None => self.screen_mut().set_filter(words),
        }
    }

    /// The picture was drawn as it is: what a person may say yes to was on the screen.
    pub fn was_drawn(&mut self) {
        self.needs_frame = false;
        match self.overlays.last_mut() {
            Some(Overlay::Preview(preview)) => preview.was_drawn(self.area, self.now),
            Some(Overlay::Many(many)) => many.was_drawn(self.area, self.now),
            _ => {}
        }
    }

    pub fn move_by(&mut self, motion: Motion) {
        if let Some(overlay) = self.overlays.last_mut() {
            overlay.step(motion, self.area);
        } else {
            self.move_screen(motion);
        }
    }

    /// Moves on the open screen, whatever is over it.
    pub fn move_screen(&mut self, motion: Motion) {
        self.on_screen(|screen, context| screen.step(context, motion));
    }

    /// What is selected on the open screen.
    pub fn selected(&self) -> Option<Item> {
        self.screen().selected(&self.fleet)
    }

    /// The object that is selected: none for headings.
    pub fn selected_row(&self) -> Option<RowId> {
        match self.selected()? {
            Item::Row(id) => Some(id),
            Item::Group { .. } | Item::Reference { .. } => None,
        }
    }

    /// The marked objects of the open list.
    pub fn chosen(&self) -> Vec<RowId> {
        self.screen().chosen().map(|chosen| chosen.rows(&self.fleet)).unwrap_or_default()
    }

    /// What an action is about: what is marked, else what is selected.
    pub fn acted_on(&self) -> Vec<RowId> {
        let chosen = self.chosen();
        if chosen.is_empty() { self.selected_row().into_iter().collect() } else { chosen }
    }

    /// Opens a screen on top. Of a long way the first steps are forgotten.
    pub fn open(&mut self, screen: Screen) {
        if self.screens.len() >= SCREENS_MAX {
            // The first one is the fleet, which every way back ends at.
            self.screens.remove(1);
        }
        self.screens.push(screen);
        // A right may have been given since: each screen asks for what was refused once more.
        self.known.rights.forget_refusals();
    }

    /// Leaves the open screen. False on the first one.
    pub fn close_screen(&mut self) -> bool {
        if self.screens.len() == 1 {
            return false;
        }
        self.screens.pop();
        true
    }

    pub fn say(&mut self, tone: Tone, text: impl Into<String>) {
        self.toast = Some(Toast { tone, text: text.into() });
    }

    /// Shows a failure that has more to say than a line.
    pub fn notice(&mut self, title: impl Into<String>, text: impl Into<String>) {
        self.overlays.push(Overlay::Notice(super::overlay::notice::Notice::new(title, text)));
    }

    /// Shows what a program says that logs somebody in, below what a person has open, and takes it away at its end.
    pub fn note_login(&mut self, news: LoginNews) {
        match news {
            LoginNews::Runs { program, limit } => {
                let limit_s = limit.as_secs();
                self.say(Tone::Info, format!("{program} is asked for credentials, at most for {limit_s} s"));
                self.login = Some(RunningLogin { program, limit_s, lines: Vec::new() });
            }
            LoginNews::Says(line) => self.show_login(line),
            LoginNews::Ended => {
                self.login = None;
                self.overlays.retain(|overlay| !matches!(overlay, Overlay::Login(_)));
            }
        }
    }

    fn show_login(&mut self, line: String) {
        let Some(login) = &mut self.login else { return };
        login.lines.push(line);
        if login.lines.len() > LOGIN_LINES_MAX {
            login.lines.remove(0);
        }
        let text = format!(
            "{}\n\nIt is stopped after {} s. What was open before stays, and esc hides this.",
            login.lines.join("\n"),
            login.limit_s
        );
        let title = format!("{} says", login.program);
        let notice = super::overlay::notice::Notice::overview(title, text);
        match self.overlays.iter_mut().find(|overlay| matches!(overlay, Overlay::Login(_))) {
            Some(shown) => *shown = Overlay::Login(notice),
            // A dialog that somebody answers keeps the keys.
            None => self.overlays.insert(0, Overlay::Login(notice)),
        }
    }

    /// Shows a text over the screen; nothing went wrong.
    pub fn overview(&mut self, title: impl Into<String>, text: impl Into<String>) {
        self.overlays.push(Overlay::Notice(super::overlay::notice::Notice::overview(title, text)));
    }
}
