//! The loop: waits, drains, draws. A frame at once after a key, news of the fleet at most ten times a second and in a
//! small part of the time; none when nothing on the screen changed, none while the last one has not left. Owns pacing;
//! must not know what messages mean.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::contexts::{Contexts, Opened};
use super::effect::{Effect, EffectOutcome};
use super::model::{Model, Tone};
use super::msg::{LoginNews, Msg, Signal};
use super::runner::{Loading, Runner, SourceHandle};
use super::script;
use super::terminal::{self, Input, InputGate, InputThread, Terminal, TerminalError, Written};
use super::update::update;
use super::view::view;
use crate::fleet::{Delta, SourceId};
use capstan_base::time::Clock;

/// Shortest time between two frames that nobody asked for, where the person wants no other.
pub const FRAME_MIN: Duration = Duration::from_millis(100);
/// Longest time between them, as far as the person does not want a longer one: slow frames come less often, so that news cost
/// at most this part of the time.
const FRAME_MAX_MS: u64 = 500;
const FRAME_PART: u32 = 50;
/// Longest time spent on messages before a frame is drawn.
const DRAIN_MS: u64 = 50;
/// Longest sleep: ages in days need no alarm clock.
const SLEEP_MAX_S: u64 = 3_600;
const QUEUE: usize = 64;

/// Why the dashboard ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The person asked.
    Quit,
    /// A signal asked.
    Signal(i32),
    /// The terminal is gone.
    Hangup,
}

/// How the dashboard ended.
#[derive(Debug)]
pub struct ScreenEnd {
    pub exit: Exit,
    /// What came of changes that were confirmed and were not answered when the screen went: a sentence each.
    pub said: Vec<String>,
}

/// Everything that messages come from.
struct Inbox {
    inputs: mpsc::Receiver<Input>,
    written: mpsc::Receiver<Written>,
    outcomes: mpsc::Receiver<EffectOutcome>,
    signals: mpsc::Receiver<Signal>,
    deltas: Vec<mpsc::Receiver<Vec<Delta>>>,
    opened: mpsc::Receiver<Result<Opened, String>>,
    logins: mpsc::Receiver<LoginNews>,
}

/// What the inbox gives.
enum Next {
    Msg(Msg),
    Written(Written),
    Opened(Result<Opened, String>),
    Hangup,
}

/// Runs until somebody leaves. The first frame is drawn before any data is there.
///
/// # Errors
/// When the terminal cannot be used.
pub async fn run(
    model: &mut Model,
    clock: Clock,
    deltas: Vec<mpsc::Receiver<Vec<Delta>>>,
    handles: BTreeMap<SourceId, SourceHandle>,
    contexts: Option<Arc<dyn Contexts>>,
    logins: mpsc::Receiver<LoginNews>,
    frame_min: Duration,
) -> Result<ScreenEnd, TerminalError> {
    let (tell_written, written) = mpsc::channel(QUEUE);
    let (tell_outcome, outcomes) = mpsc::channel(QUEUE);
    let (mut contexts_switch, opened) =
        ContextSwitch::new(contexts, handles.keys().next_back().copied().unwrap_or_default());
    // Before the terminal is ours, so that no signal finds it raw and ends us by default.
    let signals = listen().map_err(|source| TerminalError::Io { what: "listen to signals for", source })?;
    let gate = InputGate::default();
    let mut screen = Terminal::take(tell_written, gate.clone())?;
    screen.set_links(model.preferences.links);
    let inputs = InputThread::start(gate).map_err(|source| TerminalError::Io { what: "read", source })?;
    let mut runner = Runner::new(handles, Loading::of(&model.look), tell_outcome);
    let mut inbox = Inbox { inputs, written, outcomes, signals, deltas, opened, logins };
    // No signal states the size at the beginning.
    resized(model);
    let mut pace = Pace::new(frame_min);
    loop {
        if pace.is_due(model.needs_frame) && screen.is_ready() {
            draw(model, &clock, &mut screen, &mut pace);
        }
        pace.wake(model.wakes_in_s());
        let first = tokio::select! {
            biased;
            // Messages before the alarm, so that the next frame shows them as well.
            next = inbox.next() => next,
            () = pace.wait(model.needs_frame, screen.is_ready()) => Next::Msg(Msg::Tick),
        };
        let until = Instant::now() + Duration::from_millis(DRAIN_MS);
        let mut next = Some(first);
        while let Some(one) = next {
            let msg = match one {
                Next::Msg(msg) => msg,
                Next::Written(Written::Drained(buffer)) => {
                    screen.drained(buffer);
                    next = inbox.try_next();
                    continue;
                }
                Next::Opened(result) => {
                    // What waits after this may be of the server
                    // before: it is not taken in with this round.
                    switch(model, &mut inbox, &mut runner, result);
                    next = None;
                    continue;
                }
                // A terminal that takes no more bytes is gone, whatever the error is.
                Next::Written(Written::Failed(_)) | Next::Hangup => Msg::Signal(Signal::Hangup),
            };
            let is_asked = !matches!(msg, Msg::Fleet(_) | Msg::Tick);
            if let Some(exit) = handle(model, msg, &clock, &mut screen, &mut runner, &mut contexts_switch)? {
                drop(screen);
                let said = runner.finish(&mut inbox.outcomes).await;
                return Ok(ScreenEnd { exit, said });
            }
            runner.look_at_files(&model.look.theme.name, &model.look.keymap.name);
            // After the message, since a frame for it must show what it did.
            pace.is_asked |= is_asked;
            model.needs_frame |= pace.is_age_over();
            // What a person did is drawn before anything else is looked at.
            next = if is_asked || Instant::now() >= until { None } else { inbox.try_next() };
        }
    }
}

/// Another server in place of the one before, or why not.
fn switch(model: &mut Model, inbox: &mut Inbox, runner: &mut Runner, result: Result<Opened, String>) {
    match result {
        Ok(Opened { session, source, deltas, handle }) => {
            runner.look_at(BTreeMap::from([(source, handle)]));
            inbox.deltas = vec![deltas];
            model.say(Tone::Info, format!("this is {}", session.title));
            model.begin_again(session);
        }
        Err(why) => {
            model.notice("The context was not opened", format!("{why}\n\nWhat was open before stays."));
            model.needs_frame = true;
        }
    }
}

/// Applies one message and what it asks for. Answers why to leave, if so.
fn handle(
    model: &mut Model,
    msg: Msg,
    clock: &Clock,
    screen: &mut Terminal,
    runner: &mut Runner,
    contexts_switch: &mut ContextSwitch,
) -> Result<Option<Exit>, TerminalError> {
    let exit = match &msg {
        Msg::Signal(Signal::Terminate(number)) => Exit::Signal(*number),
        Msg::Signal(Signal::Hangup) => Exit::Hangup,
        _ => Exit::Quit,
    };
    model.now = clock.now();
    if screen.is_lent() && is_of_program(&msg, screen) {
        return Ok(None);
    }
    if matches!(msg, Msg::Done(EffectOutcome::Outside(_))) {
        screen.take_back()?;
        resized(model);
    }
    for effect in update(model, msg) {
        match effect {
            Effect::Quit => return Ok(Some(exit)),
            Effect::Suspend if terminal::can_suspend() => {
                screen.suspend()?;
                resized(model);
            }
            Effect::Retake => {
                screen.retake()?;
                resized(model);
            }
            Effect::Suspend => {
                model.say(Tone::Warning, "there is no shell behind this terminal to go back to");
            }
            Effect::Redraw => {
                screen.invalidate();
                resized(model);
            }
            Effect::Resize => resized(model),
            Effect::OpenContext(name) => contexts_switch.open(name),
            Effect::Outside(program) => {
                screen.lend();
                runner.run_outside(program);
            }
            Effect::Mouse(on) => screen.set_mouse(on),
            Effect::Links(on) => screen.set_links(on),
            Effect::Bell => screen.ring(),
            Effect::Copy(text) => screen.copy(&text),
            Effect::Screenshot(path) => match script::save(model, &path) {
                Ok(()) => model.say(Tone::Info, format!("the screen was written to {}", path.display())),
                Err(why) => model.say(Tone::Error, format!("{} was not written: {why}", path.display())),
            },
            Effect::Write { path, text } => match script::write_new(&path, &text) {
                Ok(()) => model.say(Tone::Info, format!("written to {}", path.display())),
                Err(why) => model.say(Tone::Error, format!("{} was not written: {why}", path.display())),
            },
            other => runner.start(other),
        }
    }
    Ok(None)
}

/// Is it for the program that has the terminal? It reaches us as one of its group.
fn is_of_program(msg: &Msg, screen: &Terminal) -> bool {
    match msg {
        Msg::Signal(Signal::Terminate(libc::SIGINT | libc::SIGQUIT) | Signal::Continue) => true,
        Msg::Signal(Signal::Suspend) => {
            screen.stop_with_program();
            true
        }
        _ => false,
    }
}

fn resized(model: &mut Model) {
    let (width, height) = Terminal::size();
    update(model, Msg::Resize { width, height });
}

fn draw(model: &mut Model, clock: &Clock, screen: &mut Terminal, pace: &mut Pace) {
    let began = Instant::now();
    model.now = clock.now();
    model.refresh();
    let mut next_change_s = None;
    screen.draw((model.area.width, model.area.height), |area, buffer| {
        let drawn = view(model, area, buffer);
        next_change_s = drawn.next_change_s;
        (drawn.cursor, drawn.links)
    });
    model.was_drawn();
    pace.drawn(began, next_change_s);
}

/// Opens other contexts, one at a time, each under a number of its own: a late answer about one is not taken for another.
struct ContextSwitch {
    contexts: Option<Arc<dyn Contexts>>,
    last: SourceId,
    opening: Option<AbortOnDropHandle<()>>,
    tell: mpsc::Sender<Result<Opened, String>>,
}

impl ContextSwitch {
    fn new(
        contexts: Option<Arc<dyn Contexts>>,
        last: SourceId,
    ) -> (Self, mpsc::Receiver<Result<Opened, String>>) {
        let (tell, opened) = mpsc::channel(1);
        (Self { contexts, last, opening: None, tell }, opened)
    }

    fn open(&mut self, name: String) {
        let Some(contexts) = &self.contexts else { return };
        self.last = SourceId(self.last.0.wrapping_add(1));
        let (opening, tell) = (contexts.open(name, self.last), self.tell.clone());
        // The handle of the one before is dropped, which ends it: the last wish counts.
        self.opening = Some(AbortOnDropHandle::new(tokio::spawn(async move {
            let _ = tell.send(opening.await).await;
        })));
    }
}

/// When the next frame may or must be drawn.
struct Pace {
    /// Shortest time between two frames that nobody asked for.
    frame_min: Duration,
    /// The next frame shows what a person did, or the answer to that.
    is_asked: bool,
    drawn_at: Option<Instant>,
    /// How long the last frame took.
    cost: Duration,
    /// When an age on screen reads differently.
    age_at: Option<Instant>,
    /// When something changes by itself.
    wake_at: Option<Instant>,
}

impl Pace {
    fn new(frame_min: Duration) -> Self {
        Self { frame_min, is_asked: false, drawn_at: None, cost: Duration::ZERO, age_at: None, wake_at: None }
    }

    fn drawn(&mut self, began: Instant, next_change_s: Option<i64>) {
        let now = Instant::now();
        self.is_asked = false;
        self.drawn_at = Some(now);
        self.cost = now - began;
        // Only what was drawn can read differently by itself.
        self.age_at = after(now, next_change_s);
    }

    fn wake(&mut self, wakes_in_s: Option<i64>) {
        self.wake_at = after(Instant::now(), wakes_in_s);
    }

    fn is_age_over(&self) -> bool {
        self.age_at.is_some_and(|at| at <= Instant::now())
    }

    /// When a frame may be drawn; `None`: at once.
    fn next_at(&self) -> Option<Instant> {
        let longest = Duration::from_millis(FRAME_MAX_MS).max(self.frame_min);
        let rest = (self.cost * FRAME_PART).clamp(self.frame_min, longest);
        self.drawn_at.filter(|_| !self.is_asked).map(|at| at + rest)
    }

    fn is_due(&self, needs_frame: bool) -> bool {
        needs_frame && self.next_at().is_none_or(|at| at <= Instant::now())
    }

    /// Until a frame is due, an age changes or something turns by itself; for ever when the terminal has not taken the
    /// last frame, or nothing will change by itself.
    async fn wait(&self, needs_frame: bool, is_ready: bool) {
        let at = match (needs_frame, is_ready) {
            (true, true) => Some(self.next_at().unwrap_or_else(Instant::now)),
            // The writer's report wakes the loop.
            (true, false) => None,
            (false, _) => [self.age_at, self.wake_at].into_iter().flatten().min(),
        };
        match at {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }
}

fn after(now: Instant, seconds: Option<i64>) -> Option<Instant> {
    let seconds = seconds.map(|s| u64::try_from(s).unwrap_or(1).clamp(1, SLEEP_MAX_S));
    seconds.map(|s| now + Duration::from_secs(s))
}

impl Inbox {
    /// Leaving first, then keys, then answers, then the fleet.
    async fn next(&mut self) -> Next {
        tokio::select! {
            biased;
            Some(signal) = self.signals.recv() => Next::Msg(Msg::Signal(signal)),
            Some(written) = self.written.recv() => Next::Written(written),
            input = self.inputs.recv() => input.map_or(Next::Hangup, of_input),
            Some(opened) = self.opened.recv() => Next::Opened(opened),
            Some(news) = self.logins.recv() => Next::Msg(Msg::Login(news)),
            Some(outcome) = self.outcomes.recv() => Next::Msg(Msg::Done(outcome)),
            batch = next_batch(&mut self.deltas) => Next::Msg(Msg::Fleet(batch)),
        }
    }

    fn try_next(&mut self) -> Option<Next> {
        if let Ok(signal) = self.signals.try_recv() {
            return Some(Next::Msg(Msg::Signal(signal)));
        }
        if let Ok(written) = self.written.try_recv() {
            return Some(Next::Written(written));
        }
        if let Ok(input) = self.inputs.try_recv() {
            return Some(of_input(input));
        }
        if let Ok(opened) = self.opened.try_recv() {
            return Some(Next::Opened(opened));
        }
        if let Ok(news) = self.logins.try_recv() {
            return Some(Next::Msg(Msg::Login(news)));
        }
        if let Ok(outcome) = self.outcomes.try_recv() {
            return Some(Next::Msg(Msg::Done(outcome)));
        }
        let batch = self.deltas.iter_mut().find_map(|deltas| deltas.try_recv().ok())?;
        Some(Next::Msg(Msg::Fleet(batch)))
    }
}

fn of_input(input: Input) -> Next {
    match input {
        Input::Key(key) => Next::Msg(Msg::Key(key)),
        Input::Mouse(mouse) => Next::Msg(Msg::Mouse(mouse)),
        Input::Paste(text) => Next::Msg(Msg::Paste(text)),
        Input::Hangup => Next::Hangup,
    }
}

/// The next batch of any source; never, when all have ended.
async fn next_batch(all: &mut [mpsc::Receiver<Vec<Delta>>]) -> Vec<Delta> {
    poll_fn(|context| {
        for deltas in all.iter_mut() {
            // One that has ended is ready with nothing, and must not end the wait for the others.
            if let Poll::Ready(Some(batch)) = deltas.poll_recv(context) {
                return Poll::Ready(batch);
            }
        }
        Poll::Pending
    })
    .await
}

/// Signals as messages. A resize comes this way too: the input thread waits for bytes only.
fn listen() -> std::io::Result<mpsc::Receiver<Signal>> {
    let (tell, signals) = mpsc::channel(QUEUE);
    let kinds = [
        (SignalKind::interrupt(), Signal::Terminate(libc::SIGINT)),
        (SignalKind::terminate(), Signal::Terminate(libc::SIGTERM)),
        (SignalKind::quit(), Signal::Terminate(libc::SIGQUIT)),
        (SignalKind::user_defined1(), Signal::Terminate(libc::SIGUSR1)),
        (SignalKind::user_defined2(), Signal::Terminate(libc::SIGUSR2)),
        (SignalKind::hangup(), Signal::Hangup),
        (SignalKind::from_raw(libc::SIGTSTP), Signal::Suspend),
        (SignalKind::from_raw(libc::SIGCONT), Signal::Continue),
        (SignalKind::window_change(), Signal::Resize),
    ];
    for (kind, meaning) in kinds {
        let mut stream = signal(kind)?;
        let tell = tell.clone();
        tokio::spawn(async move {
            while stream.recv().await.is_some() {
                if tell.send(meaning).await.is_err() {
                    return;
                }
            }
        });
    }
    Ok(signals)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(cost_ms: u64, ago_ms: u64, is_asked: bool) -> Pace {
        let drawn_at = Instant::now().checked_sub(Duration::from_millis(ago_ms));
        Pace { is_asked, drawn_at, cost: Duration::from_millis(cost_ms), ..Pace::new(FRAME_MIN) }
    }

    #[test]
    fn frames_come_as_seldom_as_a_person_wants_but_for_those_that_answer() {
        let seldom =
            |ago_ms, is_asked| Pace { frame_min: Duration::from_secs(2), ..drawn(80, ago_ms, is_asked) };
        assert!(!seldom(1_500, false).is_due(true) && seldom(2_100, false).is_due(true));
        assert!(seldom(0, true).is_due(true));
    }

    #[test]
    fn a_key_is_answered_at_once_and_news_wait() {
        for (cost_ms, ago_ms, is_asked, is_due) in [
            (1, 0, true, true),
            (1, 20, false, false),
            (1, 101, false, true),
            // Slow frames come less often.
            (5, 150, false, false),
            (5, 251, false, true),
            (80, 501, false, true),
        ] {
            let pace = drawn(cost_ms, ago_ms, is_asked);
            assert_eq!(pace.is_due(true), is_due, "{cost_ms} ms, {ago_ms} ms ago, asked {is_asked}");
            assert!(!pace.is_due(false), "nothing to show");
        }
        assert!(Pace::new(FRAME_MIN).is_due(true), "the first frame");
    }
}
